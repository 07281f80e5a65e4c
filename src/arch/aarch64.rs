//! aarch64: `dc cvadp` and its predecessors, `dsb`, and pairs by `ldp`, `casp` or `ldxp`.

use super::flush::{each_line, foreign};
use super::pairs::pairs;
use super::{CpuFact, Flush, LINE, PairWords};
use core::arch::{asm, naked_asm};
use std::arch::is_aarch64_feature_detected;

/// The instructions: of this file, or of an assembler file.
#[cfg(not(bristlecone_shims))]
mod ops {
    pub(super) use super::{cas128_llsc, cas128_lse, cvac, cvadp, cvap, load_lse2, store_lse2, wait};
}
#[cfg(bristlecone_shims)]
use super::shims as ops;

/// Whether programs may clean lines and read `CTR_EL0`. They may under Linux (`SCTLR_EL1.UCI` and `.UCT` are set, or
/// the kernel does it for them); for other systems it is not known.
const MAY_CLEAN: bool = cfg!(any(target_os = "linux", target_os = "android"));

/// Whether the CPU has the instruction.
pub(super) fn available(flush: Flush) -> bool {
    match flush {
        Flush::DcCvadp => MAY_CLEAN && is_aarch64_feature_detected!("dpb2"),
        Flush::DcCvap => MAY_CLEAN && is_aarch64_feature_detected!("dpb"),
        Flush::DcCvac => MAY_CLEAN,
        _ => false,
    }
}

/// Writes back every line that overlaps the range. The first two instructions are written as `sys`, the form of `dc`
/// that every assembler knows.
///
/// # Safety
///
/// The CPU has the instruction; the range is mapped and readable.
#[inline]
pub(super) unsafe fn flush_lines(flush: Flush, start: *const u8, len: usize) {
    match flush {
        Flush::DcCvadp => each_line(start, len, |line| {
            // SAFETY: the line shares a page with the range, which is mapped; the CPU has the instruction.
            unsafe { ops::cvadp(line) }
        }),
        Flush::DcCvap => each_line(start, len, |line| {
            // SAFETY: as above.
            unsafe { ops::cvap(line) }
        }),
        Flush::DcCvac => each_line(start, len, |line| {
            // SAFETY: as above.
            unsafe { ops::cvac(line) }
        }),
        _ => foreign(flush),
    }
}

/// # Safety
///
/// `line` is mapped; the CPU has the instruction.
#[inline(always)]
unsafe fn cvadp(line: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { asm!("sys #3, c7, c13, #1, {}", in(reg) line, options(nostack, preserves_flags)) }
}

/// # Safety
///
/// `line` is mapped; the CPU has the instruction.
#[inline(always)]
unsafe fn cvap(line: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { asm!("sys #3, c7, c12, #1, {}", in(reg) line, options(nostack, preserves_flags)) }
}

/// # Safety
///
/// `line` is mapped; the CPU has the instruction.
#[inline(always)]
unsafe fn cvac(line: *const u8) {
    // SAFETY: as the caller promises.
    unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) }
}

/// `CTR_EL0.DminLine`: the smallest line of any data cache, as a power of two of 4-byte words. Linux gives the same
/// answer on every core.
pub(super) fn line_size() -> usize {
    if !MAY_CLEAN {
        return LINE;
    }
    let ctr: u64;
    // SAFETY: reads a register that programs may read, as `MAY_CLEAN` says.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    4 << (ctr >> 16 & 0xf)
}

/// Waits until all earlier cleans have reached memory.
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
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) }
}

/// Orders earlier stores before later stores, for the cores that share memory.
#[inline]
pub(super) fn order() {
    // SAFETY: as for `fence`.
    unsafe { asm!("dmb ishst /* order */", options(nostack, preserves_flags)) }
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
    unsafe { asm!("prfm pldl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) }
}

/// Prefetches for stores.
///
/// # Safety
///
/// None is needed: a prefetch never faults.
#[inline]
pub(super) unsafe fn prefetch_to_store(at: *const u8) {
    // SAFETY: a hint, which never faults.
    unsafe { asm!("prfm pstl1keep, [{}]", in(reg) at, options(nostack, preserves_flags, readonly)) }
}

// A plain `ldp` is torn by a concurrent `stxp` or `casp` unless the CPU has LSE2, so the other two methods load with
// the instructions that they store with.
pairs! {
    Lse2 "lse2" if has_lse() && is_aarch64_feature_detected!("lse2") =>
        ops::load_lse2, ops::store_lse2, ops::cas128_lse;
    Lse "lse" if has_lse() =>
        |at| load_by(ops::cas128_lse, at),
        |at, pair| store_by(ops::cas128_lse, at, pair),
        ops::cas128_lse;
    _ "llsc" =>
        |at| load_by(ops::cas128_llsc, at),
        |at, pair| store_by(ops::cas128_llsc, at, pair),
        ops::cas128_llsc;
}

fn has_lse() -> bool {
    is_aarch64_feature_detected!("lse")
}

/// # Safety
///
/// `at` is mapped and aligned to 16 bytes; the CPU has LSE2.
#[inline]
unsafe fn load_lse2(at: *const [u64; 2]) -> PairWords {
    let low: u64;
    let high: u64;
    // SAFETY: reads sixteen mapped bytes, aligned.
    unsafe {
        asm!("ldp {}, {}, [{}]", out(reg) low, out(reg) high, in(reg) at,
             options(nostack, preserves_flags, readonly));
    }
    PairWords { low, high }
}

/// # Safety
///
/// `at` is mapped, writable and aligned to 16 bytes; the CPU has LSE2.
#[inline]
unsafe fn store_lse2(at: *mut [u64; 2], pair: PairWords) {
    let PairWords { low, high } = pair;
    // SAFETY: writes sixteen mapped bytes, aligned.
    unsafe { asm!("stp {}, {}, [{}]", in(reg) low, in(reg) high, in(reg) at, options(nostack, preserves_flags)) }
}

/// A swap of zero for zero, or no swap at all: returns the current value.
///
/// # Safety
///
/// `at` is mapped, writable and aligned to 16 bytes; the CPU has the instruction of `swap`.
#[inline]
unsafe fn load_by(swap: Swap, at: *const [u64; 2]) -> PairWords {
    // SAFETY: the caller promises that `at` is mapped, writable and aligned, and that the CPU has the instruction.
    unsafe { swap(at.cast_mut(), [0, 0].into(), [0, 0].into()) }
}

/// # Safety
///
/// As for [`load_by`].
#[inline(never)]
unsafe fn store_by(swap: Swap, at: *mut [u64; 2], pair: PairWords) {
    let mut found = PairWords::from([0, 0]);
    loop {
        // SAFETY: the caller promises that `at` is mapped, writable and aligned, and that the CPU has the instruction.
        let now = unsafe { swap(at, found, pair) };
        if now == found {
            return;
        }
        found = now;
    }
}

/// If the pair is `current`, replaces it with `new`. Returns the old value. Atomic, acquire and release.
///
/// A function of its own, in assembler throughout, because `casp` needs even register pairs, which inline assembler
/// cannot ask for. AAPCS64: `at` in x0, `current` in x1 and x2, `new` in x3 and x4; the result in x0 and x1.
type Swap = unsafe extern "C" fn(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords;

/// # Safety
///
/// As for [`load_by`]; the CPU has LSE.
#[unsafe(naked)]
unsafe extern "C" fn cas128_lse(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords {
    naked_asm!(
        ".arch_extension lse",
        ".cfi_startproc",
        "mov x6, x1", // compare with x6:x7
        "mov x7, x2",
        "mov x5, x4", // replace with x4:x5
        "mov x4, x3",
        "caspal x6, x7, x4, x5, [x0]", // what was there is in x6:x7 either way
        "mov x0, x6",
        "mov x1, x7",
        "ret",
        ".cfi_endproc",
        ".arch_extension nolse",
    )
}

/// Runs on every aarch64 CPU.
///
/// # Safety
///
/// As for [`load_by`].
#[unsafe(naked)]
unsafe extern "C" fn cas128_llsc(at: *mut [u64; 2], current: PairWords, new: PairWords) -> PairWords {
    naked_asm!(
        ".cfi_startproc",
        "2: ldaxp x6, x7, [x0]",
        "cmp x6, x1",
        "ccmp x7, x2, #0, eq",
        "b.ne 3f",
        "stlxp w8, x3, x4, [x0]",
        "cbnz w8, 2b",
        "b 4f",
        "3: stlxp w8, x6, x7, [x0]", // what ldaxp read is one value only if it can be stored back
        "cbnz w8, 2b",
        "4: mov x0, x6",
        "mov x1, x7",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::super::stress;
    use super::*;

    #[test]
    fn every_cpu_has_cvac() {
        assert_eq!(available(Flush::DcCvac), MAY_CLEAN);
    }

    #[test]
    #[cfg(bristlecone_shims)]
    fn the_assembler_file_has_the_instructions_of_this_file() {
        use super::super::shims::{self, tests::are_the_same};

        const RETURN: [u8; 4] = 0xd65f_03c0_u32.to_le_bytes();
        /// A function that has the template of `$name`, with its operand in the first register.
        macro_rules! naked {
            ($($name:ident: $($line:literal)*;)*) => {
                $(
                    #[unsafe(naked)]
                    unsafe extern "C" fn $name() {
                        naked_asm!($($line,)* "ret")
                    }
                    are_the_same($name as *const (), shims::$name as *const (), &RETURN);
                )*
            };
        }
        naked! {
            load_lse2: "mov x2, x0" "ldp x0, x1, [x2]";
            store_lse2: "stp x1, x2, [x0]";
            cvadp: "sys #3, c7, c13, #1, x0";
            cvap: "sys #3, c7, c12, #1, x0";
            cvac: "dc cvac, x0";
            wait: "dsb sy";
        }
        are_the_same(cas128_lse as *const (), shims::cas128_lse as *const (), &RETURN);
        are_the_same(cas128_llsc as *const (), shims::cas128_llsc as *const (), &RETURN);
    }

    /// Tests the methods for older CPUs, whichever method is chosen here.
    #[test]
    fn casp_and_ldxp_alone_do_not_tear() {
        let swaps: [(bool, Swap); 2] = [(has_lse(), cas128_lse), (true, cas128_llsc)];
        for (_, swap) in swaps.into_iter().filter(|(available, _)| *available) {
            stress::does_not_tear(
                // SAFETY: `stress` gives its own aligned pair; the CPU has the instruction.
                |at| unsafe { load_by(swap, at) }.into(),
                // SAFETY: as above.
                |at, pair| unsafe { store_by(swap, at, pair.into()) },
            );
            // SAFETY: as above.
            stress::swaps_lose_nothing(|at, current, new| unsafe { swap(at, current.into(), new.into()) }.into());
        }
    }
}
