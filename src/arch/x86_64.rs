//! x86-64: `clwb` and its predecessors, `sfence`, and pairs by `vmovdqa` or `cmpxchg16b`.

use super::flush::{each_line, foreign};
use super::pairs::pairs;
use super::{CpuFact, Flush, PairWords, portable};
use core::arch::x86_64::{__cpuid_count, CpuidResult};
use core::arch::{asm, naked_asm};

/// The instructions: of this file, or of an assembler file.
#[cfg(not(bristlecone_shims))]
mod ops {
    pub(super) use super::{cas128, clflush, clflushopt, clwb, load_avx, store_avx, wait};
}
#[cfg(bristlecone_shims)]
use super::shims as ops;

/// Whether the CPU has the instruction.
pub(super) fn available(flush: Flush) -> bool {
    match flush {
        Flush::Clwb => cpuid(7).ebx & 1 << 24 != 0,
        Flush::ClflushOpt => cpuid(7).ebx & 1 << 23 != 0,
        Flush::Clflush => cpuid(1).edx & 1 << 19 != 0,
        _ => false,
    }
}

/// Writes back every line that overlaps the range.
///
/// # Safety
///
/// The CPU has the instruction; the range is mapped and readable.
#[inline]
pub(super) unsafe fn flush_lines(flush: Flush, start: *const u8, len: usize) {
    match flush {
        Flush::Clwb => each_line(start, len, |line| {
            // SAFETY: the line shares a page with the range, which is mapped; the CPU has the instruction.
            unsafe { ops::clwb(line) }
        }),
        Flush::ClflushOpt => each_line(start, len, |line| {
            // SAFETY: as above.
            unsafe { ops::clflushopt(line) }
        }),
        Flush::Clflush => each_line(start, len, |line| {
            // SAFETY: as above.
            unsafe { ops::clflush(line) }
        }),
        _ => foreign(flush),
    }
}

/// # Safety
///
/// `line` is mapped; the CPU has the instruction.
#[inline(always)]
unsafe fn clwb(line: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

/// # Safety
///
/// `line` is mapped; the CPU has the instruction.
#[inline(always)]
unsafe fn clflushopt(line: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

/// # Safety
///
/// `line` is mapped; the CPU has the instruction.
#[inline(always)]
unsafe fn clflush(line: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { asm!("clflush [{}]", in(reg) line, options(nostack, preserves_flags)) }
}

/// CPUID leaf 1: EBX\[15:8\] is the line size in units of 8 bytes.
pub(super) fn line_size() -> usize {
    (cpuid(1).ebx >> 8 & 0xff) as usize * 8
}

/// Orders `clwb` and `clflushopt` before every later store. `clflush` is ordered with stores by itself.
#[inline]
pub(super) fn fence() {
    // SAFETY: it needs nothing.
    unsafe { ops::wait() }
}

/// # Safety
///
/// None is needed.
#[inline(always)]
unsafe fn wait() {
    // SAFETY: no operands; a barrier for the compiler because it may touch any memory.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) }
}

/// The CPU does not reorder stores with stores, so a compiler barrier is enough.
#[inline]
pub(super) fn order() {
    compiler_barrier();
}

/// Contains no instruction, but the compiler must assume that it touches any memory.
#[inline]
pub(super) fn compiler_barrier() {
    // SAFETY: no instruction at all.
    unsafe { asm!("/* order */", options(nostack, preserves_flags)) }
}

/// Prefetches into all caches.
///
/// # Safety
///
/// None is needed: a prefetch never faults.
#[inline]
pub(super) unsafe fn prefetch(at: *const u8) {
    // SAFETY: a hint, which never faults.
    unsafe { asm!("prefetcht0 [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) }
}

/// Prefetches for stores. Where a processor does not know the instruction, it does nothing.
///
/// # Safety
///
/// None is needed: a prefetch never faults.
#[inline]
pub(super) unsafe fn prefetch_to_store(at: *const u8) {
    // SAFETY: a hint, which never faults.
    unsafe { asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) }
}

pairs! {
    Avx "avx" if has_cx16() && has_avx() => ops::load_avx, ops::store_avx, ops::cas128;
    Cx16 "cx16" if has_cx16() => load_cx16, store_cx16, ops::cas128;
    // For x86-64 CPUs without cmpxchg16b, made before 2006.
    _ "locks" => portable::load_pair, portable::store_pair, portable::cas_pair;
}

fn has_cx16() -> bool {
    std::arch::is_x86_feature_detected!("cmpxchg16b")
}

fn has_avx() -> bool {
    std::arch::is_x86_feature_detected!("avx") && aligned_vectors_are_atomic()
}

/// Whether the manufacturer promises that aligned 16-byte vector moves are atomic on its CPUs with AVX: Intel, AMD (and
/// Hygon, which builds AMD's), Zhaoxin (and Centaur, before it).
fn aligned_vectors_are_atomic() -> bool {
    let maker = cpuid(0);
    let maker = [maker.ebx, maker.edx, maker.ecx].map(u32::to_le_bytes);
    [b"GenuineIntel", b"AuthenticAMD", b"HygonGenuine", b"  Shanghai  ", b"CentaurHauls"]
        .iter()
        .any(|known| known[..] == maker[..].concat())
}

/// # Safety
///
/// `at` is mapped and aligned to 16 bytes; the CPU has AVX.
#[inline]
unsafe fn load_avx(at: *const [u64; 2]) -> PairWords {
    let low: u64;
    let high: u64;
    // SAFETY: reads sixteen mapped bytes, aligned.
    unsafe {
        asm!("vmovdqa {pair}, [{at}]", "vmovq {low}, {pair}", "vpextrq {high}, {pair}, 1",
             at = in(reg) at, pair = out(xmm_reg) _, low = lateout(reg) low, high = lateout(reg) high,
             options(nostack, preserves_flags, readonly));
    }
    PairWords { low, high }
}

/// # Safety
///
/// `at` is mapped, writable and aligned to 16 bytes; the CPU has AVX.
#[inline]
unsafe fn store_avx(at: *mut [u64; 2], pair: PairWords) {
    let PairWords { low, high } = pair;
    // SAFETY: writes sixteen mapped bytes, aligned.
    unsafe {
        asm!("vmovq {pair}, {low}", "vpinsrq {pair}, {pair}, {high}, 1", "vmovdqa [{at}], {pair}",
             at = in(reg) at, low = in(reg) low, high = in(reg) high, pair = out(xmm_reg) _,
             options(nostack, preserves_flags));
    }
}

/// A swap of zero for zero, or no swap at all: returns the current value.
///
/// # Safety
///
/// `at` is mapped, writable and aligned to 16 bytes; the CPU has cmpxchg16b.
#[inline]
unsafe fn load_cx16(at: *const [u64; 2]) -> PairWords {
    // SAFETY: the caller promises that `at` is mapped, writable and aligned, and that the CPU has cmpxchg16b.
    unsafe { ops::cas128(at.cast_mut(), [0, 0].into(), [0, 0].into()) }
}

/// # Safety
///
/// As for [`load_cx16`].
#[inline(never)]
unsafe fn store_cx16(at: *mut [u64; 2], pair: PairWords) {
    let mut found = PairWords::from([0, 0]);
    loop {
        // SAFETY: the caller promises that `at` is mapped, writable and aligned, and that the CPU has cmpxchg16b.
        let now = unsafe { ops::cas128(at, found, pair) };
        if now == found {
            return;
        }
        found = now;
    }
}

/// If the pair is `current`, replaces it with `new`. Returns the old value. Atomic, a full barrier.
///
/// A function of its own, in assembler throughout, because `cmpxchg16b` needs `rbx`, which inline assembler must not
/// name. System V: `at` in rdi, `current` in rsi and rdx, `new` in rcx and r8; the result in rax and rdx.
///
/// # Safety
///
/// As for [`load_cx16`].
#[unsafe(naked)]
unsafe extern "sysv64" fn cas128(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords {
    naked_asm!(
        ".cfi_startproc",
        "mov r9, rbx", // kept for the caller
        ".cfi_register rbx, r9",
        "mov rax, rsi", // compare with rdx:rax; its high word is in place
        "mov rbx, rcx", // replace with rcx:rbx
        "mov rcx, r8",
        "lock cmpxchg16b [rdi]", // what was there is in rdx:rax either way
        "mov rbx, r9",
        ".cfi_same_value rbx",
        "ret",
        ".cfi_endproc",
    )
}

/// The leaf's first subleaf; zeros if the CPU does not have the leaf.
fn cpuid(leaf: u32) -> CpuidResult {
    #[allow(unused_unsafe, reason = "a safe function in later versions of Rust")]
    // SAFETY: every x86-64 CPU has CPUID.
    let read = |leaf| unsafe { __cpuid_count(leaf, 0) };
    if leaf <= read(0).eax { read(leaf) } else { CpuidResult { eax: 0, ebx: 0, ecx: 0, edx: 0 } }
}

#[cfg(test)]
mod tests {
    use super::super::stress;
    use super::*;

    #[test]
    fn every_cpu_has_clflush_and_lines_of_64_bytes() {
        assert!(available(Flush::Clflush));
        assert_eq!(line_size(), 64);
    }

    #[test]
    #[cfg(bristlecone_shims)]
    fn the_assembler_file_has_the_instructions_of_this_file() {
        use super::super::shims::{self, tests::are_the_same};

        /// A function that has the template of `$name`, with its operand in the first register.
        macro_rules! naked {
            ($($name:ident: $($line:literal)*;)*) => {
                $(
                    #[unsafe(naked)]
                    unsafe extern "sysv64" fn $name() {
                        naked_asm!($($line,)* "ret")
                    }
                    are_the_same($name as *const (), shims::$name as *const (), &[0xc3]);
                )*
            };
        }
        naked! {
            load_avx: "vmovdqa xmm0, [rdi]" "vmovq rax, xmm0" "vpextrq rdx, xmm0, 1";
            store_avx: "vmovq xmm0, rsi" "vpinsrq xmm0, xmm0, rdx, 1" "vmovdqa [rdi], xmm0";
            clwb: "clwb [rdi]";
            clflushopt: "clflushopt [rdi]";
            clflush: "clflush [rdi]";
            wait: "sfence";
        }
        are_the_same(cas128 as *const (), shims::cas128 as *const (), &[0xc3]);
    }

    /// Tests the method for CPUs without AVX, which is rarely the chosen one.
    #[test]
    fn cmpxchg16b_alone_does_not_tear() {
        if !has_cx16() {
            return;
        }
        stress::does_not_tear(
            // SAFETY: `stress` gives its own aligned pair; the CPU has cmpxchg16b.
            |at| unsafe { load_cx16(at) }.into(),
            // SAFETY: as above.
            |at, pair| unsafe { store_cx16(at, pair.into()) },
        );
        stress::swaps_lose_nothing(|at, current, new| {
            // SAFETY: as above.
            unsafe { cas128(at, current.into(), new.into()) }.into()
        });
    }
}
