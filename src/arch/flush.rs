//! The instructions that write lines back: their names, the choice among them, and the one loop over lines.

use super::{cpu, line_size};
use core::fmt;
use std::sync::OnceLock;

/// The environment variable that forces an instruction, by its [name](Flush::name).
const VARIABLE: &str = "BRISTLECONE_FLUSH";

/// An instruction that starts the write-back of a line. [`fence`](super::fence) waits for it.
///
/// Measured on a Zen 4 with DRAM: a store, `clwb` and `sfence` take 142 to 176 ns together; four lines before one
/// `sfence` 168 ns, sixteen lines 195 ns; one line with `clflushopt` or `clflush` 200 to 320 ns. So the number of
/// rounds matters; the number of lines within a round hardly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Flush {
    /// x86-64 `clwb`: writes the line back and may keep it in the cache. Ordered by `sfence`.
    Clwb,
    /// x86-64 `clflushopt`: writes the line back and evicts it. Ordered by `sfence`.
    ClflushOpt,
    /// x86-64 `clflush`: writes the line back and evicts it, one line after the other. On every x86-64 CPU.
    Clflush,
    /// aarch64 `dc cvadp` (`FEAT_DPB2`): cleans the line to the point of deep persistence.
    DcCvadp,
    /// aarch64 `dc cvap` (`FEAT_DPB`): cleans the line to the point of persistence.
    DcCvap,
    /// aarch64 `dc cvac`: cleans the line to the point of coherency. Durable only where that point is the memory; the
    /// architecture promises durability only for the two above. On every aarch64 CPU.
    DcCvac,
    /// Nothing is written back, and nothing becomes durable. On every CPU.
    None,
}

impl Flush {
    /// All of them, whether this CPU has them or not; for each CPU the best first.
    pub const ALL: [Self; 7] =
        [Self::Clwb, Self::ClflushOpt, Self::Clflush, Self::DcCvadp, Self::DcCvap, Self::DcCvac, Self::None];

    /// The best one that this CPU can run; [`Flush::None`] where the portable code runs.
    pub fn detect() -> Self {
        Self::ALL.into_iter().find(|flush| flush.available()).unwrap_or(Self::None)
    }

    /// The one that this process uses: detected, or forced by `BRISTLECONE_FLUSH`, on the first call.
    pub fn chosen() -> Self {
        static CHOSEN: OnceLock<Flush> = OnceLock::new();
        *CHOSEN.get_or_init(|| Self::chosen_from(std::env::var(VARIABLE).ok().as_deref()))
    }

    /// What [`chosen`](Self::chosen) returns for a value of `BRISTLECONE_FLUSH`. A name that is unknown, or that this
    /// CPU cannot run, is ignored.
    pub fn chosen_from(wanted: Option<&str>) -> Self {
        wanted.and_then(Self::from_name).filter(|flush| flush.available()).unwrap_or_else(Self::detect)
    }

    /// The one with this [name](Self::name).
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|flush| flush.name() == name)
    }

    /// `clwb`, `clflushopt`, `clflush`, `cvadp`, `cvap`, `cvac` or `none`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clwb => "clwb",
            Self::ClflushOpt => "clflushopt",
            Self::Clflush => "clflush",
            Self::DcCvadp => "cvadp",
            Self::DcCvap => "cvap",
            Self::DcCvac => "cvac",
            Self::None => "none",
        }
    }

    /// Whether this CPU, under this operating system, can run it.
    pub fn available(self) -> bool {
        self == Self::None || cpu::available(self)
    }

    /// Whether it always evicts the line from the cache, so that the next access misses.
    pub const fn evicts(self) -> bool {
        matches!(self, Self::ClflushOpt | Self::Clflush)
    }

    /// Starts the write-back of every line that overlaps the `len` bytes at `start`. Does nothing for an empty range.
    ///
    /// A compiler barrier for each line. The lines are durable after the next [`fence`](super::fence) of the same
    /// thread.
    ///
    /// # Panics
    ///
    /// If the instruction belongs to another architecture.
    ///
    /// # Safety
    ///
    /// The instruction is [available](Self::available), and the range is mapped and readable.
    #[inline]
    pub unsafe fn lines(self, start: *const u8, len: usize) {
        if self != Self::None {
            // SAFETY: the caller promises that the instruction is available, and that the range is mapped.
            unsafe { cpu::flush_lines(self, start, len) }
        }
    }
}

impl fmt::Display for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The number of lines of `line` bytes, a power of two, that overlap the `len` bytes at address `addr`.
#[inline]
pub const fn line_count(addr: usize, len: usize, line: usize) -> usize {
    debug_assert!(line.is_power_of_two());
    if len == 0 { 0 } else { (((addr & (line - 1)) + (len - 1)) >> line.trailing_zeros()) + 1 }
}

/// The one loop: calls `write_back` with the start of every line that overlaps the range, in ascending order.
#[inline(always)]
#[cfg_attr(not(bristlecone_asm), allow(dead_code))]
pub(super) fn each_line(start: *const u8, len: usize, write_back: impl FnMut(*const u8)) {
    each_line_of(line_size(), start, len, write_back);
}

#[inline(always)]
#[cfg_attr(not(bristlecone_asm), allow(dead_code))]
fn each_line_of(size: usize, start: *const u8, len: usize, mut write_back: impl FnMut(*const u8)) {
    let mut line = start.map_addr(|addr| addr & !(size - 1));
    for _ in 0..line_count(start.addr(), len, size) {
        write_back(line);
        line = line.wrapping_add(size);
    }
}

/// An instruction that this architecture does not have: silently not flushing would lose data.
#[cold]
#[inline(never)]
pub(super) fn foreign(flush: Flush) -> ! {
    panic!("this CPU has no `{flush}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_the_lines_a_range_overlaps() {
        for (addr, len, line, count) in [
            (0, 0, 64, 0),
            (63, 0, 64, 0),
            (0, 1, 64, 1),
            (63, 1, 64, 1),
            (0, 64, 64, 1),
            (0, 65, 64, 2),
            (63, 2, 64, 2),
            (56, 16, 64, 2),
            (60, 16, 16, 2),
            (1, 64, 64, 2),
            (1, 128, 64, 3),
            (100, 4096, 128, 33),
            (usize::MAX, 1, 64, 1),
            (usize::MAX - 63, 64, 64, 1),
        ] {
            assert_eq!(line_count(addr, len, line), count, "{addr} {len} {line}");
        }
    }

    /// Compared with the definition: a line counts if one of its bytes is in the range.
    #[test]
    fn the_loop_visits_each_overlapping_line_once_and_no_other() {
        let step = if cfg!(miri) { 61 } else { 1 };
        for size in [16, 32, 64, 128, 256] {
            for addr in (4096..4096 + 2 * size).step_by(step) {
                for len in [0, 1, 2, 7, 8, 15, 16, size - 1, size, size + 1, 3 * size + 5] {
                    let mut wanted: Vec<usize> = (addr..addr + len).map(|byte| byte / size * size).collect();
                    wanted.dedup();
                    let mut visited = Vec::new();
                    each_line_of(size, core::ptr::without_provenance(addr), len, |line| visited.push(line.addr()));
                    assert_eq!(visited, wanted, "{size} {addr} {len}");
                    assert_eq!(line_count(addr, len, size), wanted.len());
                }
            }
        }
    }

    #[test]
    #[cfg(not(all(bristlecone_asm, target_arch = "x86_64")))]
    #[should_panic(expected = "no `clwb`")]
    fn a_foreign_instruction_is_refused() {
        // SAFETY: the instruction is not available, which is what is tested; nothing of the range is touched before the
        // panic.
        unsafe { Flush::Clwb.lines(core::ptr::without_provenance(64), 1) }
    }

    #[test]
    #[cfg(all(bristlecone_asm, target_arch = "x86_64"))]
    #[should_panic(expected = "no `cvac`")]
    fn a_foreign_instruction_is_refused() {
        // SAFETY: the instruction is not available, which is what is tested; nothing of the range is touched before the
        // panic.
        unsafe { Flush::DcCvac.lines(core::ptr::without_provenance(64), 1) }
    }
}
