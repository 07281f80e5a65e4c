/*
 * struct words { uint64_t low, high; };
 * struct words bristlecone_cas128_aarch64_lse(void *at, struct words current, struct words new);
 * struct words bristlecone_cas128_aarch64_llsc(void *at, struct words current, struct words new);
 *
 * If the 16 bytes at `at` (16-byte aligned) are `current`, replaces them with `new`. Returns the old value. Atomic,
 * acquire and release. A file of its own because casp needs even register pairs, which inline assembly cannot ask for.
 *
 * AAPCS64: at in x0, current in x1:x2, new in x3:x4; the result in x0:x1.
 */

#ifdef __APPLE__
#define LSE _bristlecone_cas128_aarch64_lse
#define LLSC _bristlecone_cas128_aarch64_llsc
#else
#define LSE bristlecone_cas128_aarch64_lse
#define LLSC bristlecone_cas128_aarch64_llsc
#endif

        .text
        .globl  LSE
        .globl  LLSC
#ifdef __ELF__
        .hidden LSE
        .hidden LLSC
        .type   LSE, %function
        .type   LLSC, %function
#else
        .private_extern LSE
        .private_extern LLSC
#endif
        .p2align 4

/* Needs FEAT_LSE. */
        .arch_extension lse
LSE:
        .cfi_startproc
        mov     x6, x1                  /* compare with x6:x7 */
        mov     x7, x2
        mov     x5, x4                  /* replace with x4:x5 */
        mov     x4, x3
        caspal  x6, x7, x4, x5, [x0]    /* what was there is in x6:x7 either way */
        mov     x0, x6
        mov     x1, x7
        ret
        .cfi_endproc
#ifdef __ELF__
        .size   LSE, . - LSE
#endif
        .arch_extension nolse

/* Runs on every aarch64 CPU. */
        .p2align 4
LLSC:
        .cfi_startproc
1:      ldaxp   x6, x7, [x0]
        cmp     x6, x1
        ccmp    x7, x2, #0, eq
        b.ne    2f
        stlxp   w8, x3, x4, [x0]
        cbnz    w8, 1b
        b       3f
2:      stlxp   w8, x6, x7, [x0]        /* what ldaxp read is one value only if it can be stored back */
        cbnz    w8, 1b
3:      mov     x0, x6
        mov     x1, x7
        ret
        .cfi_endproc
#ifdef __ELF__
        .size   LLSC, . - LLSC
        .section .note.GNU-stack, "", %progbits
#endif
