/*
 * struct words { uint64_t low, high; };
 * struct words bristlecone_cas128_x86_64(void *at, struct words current, struct words new);
 *
 * If the 16 bytes at `at` (16-byte aligned) are `current`, replaces them with `new`. Returns the old value. Atomic, a
 * full barrier. A file of its own because cmpxchg16b needs %rbx, which inline assembly must not name.
 *
 * System V: at in %rdi, current in %rsi:%rdx, new in %rcx:%r8; the result in %rax:%rdx.
 */

#ifdef __APPLE__
#define NAME _bristlecone_cas128_x86_64
#else
#define NAME bristlecone_cas128_x86_64
#endif

        .text
        .globl  NAME
#ifdef __ELF__
        .hidden NAME
        .type   NAME, @function
#else
        .private_extern NAME
#endif
        .p2align 4
NAME:
        .cfi_startproc
        movq    %rbx, %r9               /* kept for the caller */
        .cfi_register %rbx, %r9
        movq    %rsi, %rax              /* compare with %rdx:%rax; its high word is in place */
        movq    %rcx, %rbx              /* replace with %rcx:%rbx */
        movq    %r8, %rcx
        lock cmpxchg16b (%rdi)          /* what was there is in %rdx:%rax either way */
        movq    %r9, %rbx
        .cfi_same_value %rbx
        ret
        .cfi_endproc

#ifdef __ELF__
        .size   NAME, . - NAME
        .section .note.GNU-stack, "", @progbits
#endif
