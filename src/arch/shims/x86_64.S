# What src/arch/x86_64.rs has in inline assembler and in naked functions, for the feature `asm-shims`. System V.

    .intel_syntax noprefix
    .text

.macro shim name:req
    .p2align 4
    .globl \name
    .hidden \name
    .type \name, @function
\name:
    .cfi_startproc
.endm
.macro done name:req
    ret
    .cfi_endproc
    .size \name, . - \name
.endm

# PairWords cas128(u64[2] *at, PairWords current, PairWords new): `at` in rdi, `current` in rsi and rdx, `new` in rcx and r8.
shim bristlecone_cas128
    mov r9, rbx
    .cfi_register rbx, r9
    mov rax, rsi
    mov rbx, rcx
    mov rcx, r8
    lock cmpxchg16b [rdi]
    mov rbx, r9
    .cfi_same_value rbx
done bristlecone_cas128

# PairWords load_avx(const u64[2] *at)
shim bristlecone_load_avx
    vmovdqa xmm0, [rdi]
    vmovq rax, xmm0
    vpextrq rdx, xmm0, 1
done bristlecone_load_avx

# void store_avx(u64[2] *at, PairWords pair)
shim bristlecone_store_avx
    vmovq xmm0, rsi
    vpinsrq xmm0, xmm0, rdx, 1
    vmovdqa [rdi], xmm0
done bristlecone_store_avx

# void clwb(const u8 *line), and its predecessors
shim bristlecone_clwb
    clwb [rdi]
done bristlecone_clwb
shim bristlecone_clflushopt
    clflushopt [rdi]
done bristlecone_clflushopt
shim bristlecone_clflush
    clflush [rdi]
done bristlecone_clflush

# void fence(void)
shim bristlecone_fence
    sfence
done bristlecone_fence

    .section .note.GNU-stack, "", @progbits
