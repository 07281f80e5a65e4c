// What src/arch/aarch64.rs has in inline assembler and in naked functions, for the feature `asm-shims`. AAPCS64.

    .text

.macro shim name:req
    .p2align 2
    .globl \name
    .hidden \name
    .type \name, %function
\name:
    .cfi_startproc
.endm
.macro done name:req
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

// PairWords cas128_lse(u64[2] *at, PairWords current, PairWords new): x0, x1 and x2, x3 and x4.
    .arch_extension lse
shim bristlecone_cas128_lse
    mov x6, x1
    mov x7, x2
    mov x5, x4
    mov x4, x3
    caspal x6, x7, x4, x5, [x0]
    mov x0, x6
    mov x1, x7
done bristlecone_cas128_lse
    .arch_extension nolse

shim bristlecone_cas128_llsc
2:  ldaxp x6, x7, [x0]
    cmp x6, x1
    ccmp x7, x2, #0, eq
    b.ne 3f
    stlxp w8, x3, x4, [x0]
    cbnz w8, 2b
    b 4f
3:  stlxp w8, x6, x7, [x0]
    cbnz w8, 2b
4:  mov x0, x6
    mov x1, x7
done bristlecone_cas128_llsc

// PairWords load_lse2(const u64[2] *at)
shim bristlecone_load_lse2
    mov x2, x0
    ldp x0, x1, [x2]
done bristlecone_load_lse2

// void store_lse2(u64[2] *at, PairWords pair)
shim bristlecone_store_lse2
    stp x1, x2, [x0]
done bristlecone_store_lse2

// void cvadp(const u8 *line), and its predecessors
shim bristlecone_cvadp
    sys #3, c7, c13, #1, x0
done bristlecone_cvadp
shim bristlecone_cvap
    sys #3, c7, c12, #1, x0
done bristlecone_cvap
shim bristlecone_cvac
    dc cvac, x0
done bristlecone_cvac

// void fence(void)
shim bristlecone_fence
    dsb sy
done bristlecone_fence

    .section .note.GNU-stack, "", %progbits
