//! Instructions: write a line back, wait for it, order stores, move sixteen bytes at once.
//!
//! Floor 0: it imports nothing from the crate. [`Flush`] names the instructions that write lines back; the functions
//! here are the same on every CPU and document what they promise. How a CPU keeps the promise is in one file each,
//! `x86_64.rs`, `aarch64.rs` and `portable.rs`. They export the same names in the same order, so that a diff between
//! two of them can serve as a review.
//!
//! The portable file is for every other CPU and system, and for the checkers that cannot see through assembler. It has
//! no instruction that writes a line back ([`Flush::None`]): stores survive the process, but never a power loss.

mod flush;
pub(crate) mod simd;

#[cfg(bristlecone_asm)]
mod pairs;

#[cfg(bristlecone_shims)]
mod shims;

#[cfg(all(bristlecone_asm, target_arch = "aarch64"))]
#[cfg_attr(bristlecone_shims, allow(dead_code))]
mod aarch64;
#[cfg(all(bristlecone_asm, target_arch = "aarch64"))]
use aarch64 as cpu;

#[cfg(all(bristlecone_asm, target_arch = "x86_64"))]
#[cfg_attr(bristlecone_shims, allow(dead_code))]
mod x86_64;
#[cfg(all(bristlecone_asm, target_arch = "x86_64"))]
use x86_64 as cpu;

// Built everywhere, because it is checked everywhere, and the other files may fall back to parts of it.
#[cfg_attr(bristlecone_asm, allow(dead_code))]
mod portable;
#[cfg(not(bristlecone_asm))]
use portable as cpu;

#[cfg(test)]
mod stress;

pub use flush::{Flush, line_count};
pub use simd::method as search_method;

use core::sync::atomic::{AtomicUsize, Ordering};

/// The unit of write-back that the layouts are designed for, in bytes.
///
/// The CPU's own unit is [`line_size`]. Where that is larger, two stores to one `LINE` still share a line.
pub const LINE: usize = 64;

/// The number of bytes that this CPU writes back together.
///
/// From CPUID leaf 1 on x86-64; from `CTR_EL0.DminLine` on aarch64, where it is not always 64; [`LINE`] elsewhere.
#[inline]
pub fn line_size() -> usize {
    static SIZE: CpuFact = CpuFact::new();
    SIZE.get(|| {
        let size = cpu::line_size();
        if size.is_power_of_two() { size } else { LINE }
    })
}

/// Waits until every line that this thread flushed before is durable. Also a compiler barrier.
///
/// - x86-64: `sfence`. No later store is visible before the lines have reached the memory controller, which is inside
///   the persistence domain. Alone, with nothing to wait for, 0.3 ns on a Zen 4.
/// - aarch64: `dsb sy`. A `dmb` only orders, and does not wait for a clean; completion of a clean needs a `dsb` for
///   both loads and stores; and it needs `sy`, the full system, because memory lies outside the inner shareable domain
///   of the cores.
/// - portable: a sequentially consistent fence, which makes nothing durable.
#[inline]
pub fn fence() {
    cpu::fence();
}

/// Keeps earlier stores before later stores, for other cores and, within a line, for the medium. Also a compiler
/// barrier.
///
/// - x86-64: no instruction, stores are not reordered with stores.
/// - aarch64: `dmb ishst`.
/// - portable: a release fence.
#[inline]
pub fn order() {
    cpu::order();
}

/// Keeps the compiler from moving loads and stores across it. No instruction.
#[inline]
pub fn compiler_barrier() {
    cpu::compiler_barrier();
}

/// Prefetches the line at `at` for reading. A hint; does nothing in the portable code.
///
/// # Safety
///
/// `at` points into ordinary mapped memory, never into a device's memory.
#[inline]
pub unsafe fn prefetch(at: *const u8) {
    // SAFETY: the CPU's function requires what the caller promises.
    unsafe { cpu::prefetch(at) }
}

/// Prefetches the lines of `value`, sixteen at most, for reading.
#[inline]
pub fn prefetch_of<T>(value: &T) {
    for line in (0..size_of::<T>().min(16 * LINE)).step_by(LINE) {
        // SAFETY: a reference never points to a device's memory.
        unsafe { prefetch(core::ptr::from_ref(value).wrapping_byte_add(line).cast()) }
    }
}

/// Prefetches the lines of `value`, sixteen at most, for stores. A hint; does nothing in the portable code.
#[inline]
pub fn prefetch_to_store<T>(value: &T) {
    for at in (0..size_of::<T>().min(16 * LINE)).step_by(LINE).chain(size_of::<T>().checked_sub(1)) {
        // SAFETY: a reference never points to a device's memory.
        unsafe { cpu::prefetch_to_store(core::ptr::from_ref(value).wrapping_byte_add(at).cast()) }
    }
}

/// Reads sixteen bytes that no other core can change halfway. The trees of this crate only [store](store_pair) pairs.
///
/// Orders nothing else, like a relaxed load.
///
/// Atomic with respect to [`store_pair`] and [`cas_pair`], and to 8-byte stores to one of the words, except when
/// [`pair_method`] is `"locks"`: there an 8-byte store that races with a swap may be lost, so words that are swapped
/// must be written as pairs only. Atomic 8-byte loads of one word are always allowed.
///
/// - x86-64: `vmovdqa`, atomic on every known CPU with AVX (0.5 ns on a Zen 4), else `cmpxchg16b` (4 ns).
/// - aarch64: `ldp`, atomic with LSE2 only, else `caspal`, else `ldaxp` and `stlxp`.
/// - portable: a spin lock.
///
/// # Safety
///
/// `at` is aligned to 16 bytes, and mapped for reading **and writing**: without AVX or LSE2 a load stores back what it
/// read. No non-atomic access to these bytes happens at the same time.
#[inline]
pub unsafe fn load_pair(at: *const [u64; 2]) -> [u64; 2] {
    debug_assert!(at.addr().is_multiple_of(16));
    // SAFETY: the CPU's function requires what the caller promises.
    unsafe { cpu::load_pair(at) }.into()
}

/// Writes sixteen bytes so that no other core sees half of them. Orders nothing else, like a relaxed store.
///
/// **Not** atomic at a crash: it may tear into its two words. Methods and limits are those of [`load_pair`].
///
/// # Safety
///
/// As for [`load_pair`].
#[inline]
pub unsafe fn store_pair(at: *mut [u64; 2], pair: [u64; 2]) {
    debug_assert!(at.addr().is_multiple_of(16));
    // SAFETY: the CPU's function requires what the caller promises.
    unsafe { cpu::store_pair(at, pair.into()) }
}

/// Replaces sixteen bytes by `new` if they are `current`, in one step for other cores; acquire and release.
///
/// The result is the old value: `Ok(current)` if it was replaced, else `Err` with the other value. It never fails
/// spuriously. Methods and limits are those of [`load_pair`]; a crash may tear it, as with [`store_pair`].
///
/// # Errors
///
/// The pair that was found, when it is not `current`.
///
/// # Safety
///
/// As for [`load_pair`].
#[inline]
pub unsafe fn cas_pair(at: *mut [u64; 2], current: [u64; 2], new: [u64; 2]) -> Result<[u64; 2], [u64; 2]> {
    debug_assert!(at.addr().is_multiple_of(16));
    // SAFETY: the CPU's function requires what the caller promises.
    let found = <[u64; 2]>::from(unsafe { cpu::cas_pair(at, current.into(), new.into()) });
    if found == current { Ok(found) } else { Err(found) }
}

/// How this process moves pairs: `"avx"` or `"cx16"` on x86-64; `"lse2"`, `"lse"` or `"llsc"` on aarch64; else
/// `"locks"`.
///
/// It is the best method that the CPU has, or the one that `BRISTLECONE_PAIR` names, if the CPU has it: `cx16` moves
/// entries by `cmpxchg16b`, as Crab-tree's section 5 prints it.
pub fn pair_method() -> &'static str {
    cpu::pair_method()
}

/// A pair in two registers, as Rust and C pass it to functions. An array would go through memory.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct PairWords {
    low: u64,
    high: u64,
}

impl From<[u64; 2]> for PairWords {
    #[inline]
    fn from([low, high]: [u64; 2]) -> Self {
        Self { low, high }
    }
}

impl From<PairWords> for [u64; 2] {
    #[inline]
    fn from(words: PairWords) -> Self {
        [words.low, words.high]
    }
}

/// A fact about the CPU, which is looked up on first use: 0 until then. Threads that look it up at once find the same.
struct CpuFact(AtomicUsize);

impl CpuFact {
    const fn new() -> Self {
        Self(AtomicUsize::new(0))
    }

    #[inline]
    fn get(&self, find: impl FnOnce() -> usize) -> usize {
        match self.0.load(Ordering::Relaxed) {
            0 => self.find(find),
            fact => fact,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self, find: impl FnOnce() -> usize) -> usize {
        let fact = find();
        self.0.store(fact, Ordering::Relaxed);
        fact
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_size_is_a_power_of_two() {
        assert!(line_size().is_power_of_two(), "{}", line_size());
    }

    #[test]
    fn a_fact_is_looked_up_once() {
        let found = CpuFact::new();
        assert_eq!(found.get(|| 7), 7);
        assert_eq!(found.get(|| unreachable!("it is known")), 7);
    }
}
