//! Comparing many words, or bytes, in one step: the search kernels of nodes.
//!
//! The words that are compared are shared memory, so they are passed as atomics and read as if by relaxed loads: a
//! vector load is some interleaving of the loads of its words. Callers find out by a version whether the words that
//! they read belong together.
//!
//! There is one file per CPU, with the same names in the same order; a file without a better way uses the portable one.

#[cfg(all(bristlecone_asm, not(bristlecone_loom), target_arch = "aarch64"))]
mod aarch64;
#[cfg(all(bristlecone_asm, not(bristlecone_loom), target_arch = "aarch64"))]
use aarch64 as cpu;

#[cfg(all(bristlecone_asm, not(bristlecone_loom), target_arch = "x86_64"))]
mod x86_64;
#[cfg(all(bristlecone_asm, not(bristlecone_loom), target_arch = "x86_64"))]
use x86_64 as cpu;

// Built everywhere, because it is checked everywhere, and the other files may fall back to parts of it.
#[cfg_attr(all(bristlecone_asm, not(bristlecone_loom)), allow(dead_code))]
mod portable;
#[cfg(any(bristlecone_loom, not(bristlecone_asm)))]
use portable as cpu;

use crate::sync::AtomicU64;
use core::sync::atomic;

/// Forty bytes, eight per word, the least significant one first.
pub(crate) type FortyBytes = [AtomicU64; 5];

/// How many words are searched together: four lines. (A loom model has to use fewer.)
pub(crate) const WORDS: usize = if cfg!(bristlecone_loom) { 4 } else { 32 };

/// The words that are searched together.
pub(crate) type WordLanes = [AtomicU64; WORDS];

/// The most entries that [`sorted`] sorts.
pub(crate) const MOST: usize = 40;

/// [`MOST`] entries, where other threads may store to them. Not loom's atomics: no medium of a model lends its words.
pub(crate) type SharedEntries = [atomic::AtomicU64; 2 * MOST];

/// Which of the bytes equal this byte: bit `i` for byte `i`.
#[inline(always)]
pub(crate) fn equal(bytes: &FortyBytes, byte: u8) -> u64 {
    cpu::equal(bytes, byte)
}

/// Which of the eight bytes of a word equal this byte: bit `i` for byte `i`, the least significant one first.
#[inline]
pub(crate) fn equal_in_word(word: u64, byte: u8) -> u64 {
    portable::equal_in_word(word, byte)
}

/// A way to compare words. A value of such a type exists only if the CPU has the instructions for it.
pub(crate) trait Compare: Copy {
    /// How many of the words, except the first, are less than this one, as signed numbers.
    fn below(self, words: &WordLanes, word: i64) -> usize;
}

/// A search that compares words, compiled for each way to do so.
pub(crate) trait LaneSearch {
    /// What it finds.
    type Found;

    /// Runs the search.
    fn by(self, compare: impl Compare) -> Self::Found;
}

/// Runs the search in the best way that the CPU has. The way is looked up once, however many comparisons there are.
#[inline(always)]
pub(crate) fn search<S: LaneSearch>(search: S) -> S::Found {
    cpu::search(search)
}

/// How many of the words, except the first, are less than this one, as signed numbers.
pub(crate) fn below(words: &WordLanes, word: i64) -> usize {
    struct Once<'w>(&'w WordLanes, i64);

    impl LaneSearch for Once<'_> {
        type Found = usize;

        fn by(self, compare: impl Compare) -> usize {
            compare.below(self.0, self.1)
        }
    }

    search(Once(words, word))
}

/// Sorts those of forty entries that are `wanted` (bit `i` for entry `i`) and have a key in `from..=to`, in ascending
/// order; returns how many. Entries with equal keys are side by side in any order; or all but one of them are lost, and
/// their places keep what they held.
#[inline]
pub(crate) fn sorted(entries: &[[u64; 2]; MOST], wanted: u64, keys: (u64, u64), out: &mut [(u64, u64); MOST]) -> usize {
    cpu::sorted(entries, wanted & ((1 << MOST) - 1), keys, out)
}

/// Sorts those of forty entries in shared memory that are `wanted` and have a key in `from..=to`, as [`sorted`] does,
/// but without a copy of the entries. An entry that is stored to meanwhile may come out torn, or at a wrong place, or
/// there may be too few or too many entries.
///
/// Fast if no two keys have the same place in a grid of 65,536 over `from..=to`. So these should not be far from the
/// least and the greatest key.
#[inline]
pub(crate) fn sorted_shared(
    entries: &SharedEntries,
    wanted: u64,
    keys: (u64, u64),
    out: &mut [(u64, u64); MOST],
) -> usize {
    cpu::sorted_shared(entries, wanted & ((1 << MOST) - 1), keys, out)
}

/// The instructions in use: `"avx512"`, `"avx2"` or `"sse2"` on x86-64; `"neon"` on aarch64; else `"portable"`.
pub fn method() -> &'static str {
    cpu::method()
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    /// A reproducible sequence.
    fn numbers(seed: u64) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(seed + 1), |x| Some(x.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e)))
            .map(|x| x ^ x >> 29)
    }

    fn check_equal(equal: impl Fn(&FortyBytes, u8) -> u64) {
        for seed in 0..200 {
            let mut next = numbers(seed);
            let content: [u8; 40] = std::array::from_fn(|_| (next.next().unwrap() % 7) as u8 * 40);
            let words = content.as_chunks::<8>().0;
            let bytes: FortyBytes = std::array::from_fn(|i| AtomicU64::new(u64::from_le_bytes(words[i])));
            for wanted in [0, 40, 80, 240, 7, 255] {
                let expected = (0..40).filter(|&i| content[i] == wanted).fold(0, |mask, i| mask | 1 << i);
                assert_eq!(equal(&bytes, wanted), expected, "{content:?} {wanted}");
            }
        }
    }

    fn check_below(below: impl Fn(&WordLanes, i64) -> usize) {
        let edges = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        for seed in 0..200 {
            let mut next = numbers(seed);
            let content: [i64; 32] = std::array::from_fn(|i| {
                let word = next.next().unwrap();
                if word.is_multiple_of(5) { edges[i % edges.len()] } else { word as i64 }
            });
            let words: WordLanes = std::array::from_fn(|i| AtomicU64::new(content[i] as u64));
            for wanted in edges.into_iter().chain(content) {
                let expected = content[1..].iter().filter(|&&word| word < wanted).count();
                assert_eq!(below(&words, wanted), expected, "{content:?} {wanted}");
            }
        }
    }

    fn check_sorted(sorted: impl Fn(&[[u64; 2]; MOST], u64, (u64, u64), &mut [(u64, u64); MOST]) -> usize) {
        for seed in 0..2000 {
            let mut next = numbers(seed);
            let mut number = || next.next().unwrap();
            // Keys that lie anywhere, side by side, or in groups that no coarse look tells apart.
            let patterns: [fn(u64, u64) -> u64; 3] =
                [|_, any| any, |i, _| 1000 + i * 7919 % 40, |i, any| ((i % 3) << 56 | any >> 50) + 1];
            let key = patterns[seed as usize / 3 % 3];
            let mut entries: [[u64; 2]; MOST] = std::array::from_fn(|i| [key(i as u64, number()), i as u64]);
            entries.iter_mut().enumerate().for_each(|(i, [key, _])| *key = *key << 6 | i as u64);
            (entries[3][0], entries[7][0]) = (u64::MAX, 0);
            let wanted = if seed % 3 == 0 { number() } else { number() & number() };
            let mut keys = [(0, u64::MAX), (number(), number()), (0, number()), (number(), u64::MAX), (64_000, 66_559)]
                [seed as usize % 5];
            if keys.0 > keys.1 {
                keys = (keys.1, keys.0);
            }
            let is_wanted = |&(i, [key, _]): &(usize, [u64; 2])| wanted >> i & 1 == 1 && keys.0 <= key && key <= keys.1;
            let mut expected: Vec<_> =
                entries.into_iter().enumerate().filter(is_wanted).map(|(_, [key, value])| (key, value)).collect();
            expected.sort_unstable();
            let mut out = [(0, 0); MOST];
            let count = sorted(&entries, wanted & ((1 << MOST) - 1), keys, &mut out);
            assert_eq!(out[..count], expected);
        }
        // A torn read may find a key twice, or a range that is none; this must not panic.
        sorted(&[[7, 7]; MOST], (1 << MOST) - 1, (0, u64::MAX), &mut [(0, 0); MOST]);
        assert_eq!(sorted(&[[7, 7]; MOST], (1 << MOST) - 1, (8, 6), &mut [(0, 0); MOST]), 0);
        assert_eq!(sorted(&[[7, 7]; MOST], 1 << 5, (7, 7), &mut [(0, 0); MOST]), 1);
    }

    fn shared(entries: &[[u64; 2]; MOST]) -> SharedEntries {
        std::array::from_fn(|i| atomic::AtomicU64::new(entries[i / 2][i % 2]))
    }

    /// Other threads may store while entries are sorted: nothing panics, whatever is found.
    #[test]
    fn entries_that_change_meanwhile_are_sorted_somehow() {
        let (entries, end) = (&shared(&[[0; 2]; MOST]), &atomic::AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (word, number) in numbers(1).take(if cfg!(miri) { 1000 } else { 1_000_000 }).enumerate() {
                    entries[word % (2 * MOST)].store(number, atomic::Ordering::Relaxed);
                }
                end.store(true, atomic::Ordering::Relaxed);
            });
            while !end.load(atomic::Ordering::Relaxed) {
                assert!(sorted_shared(entries, !0, (1 << 40, 3 << 62), &mut [(0, 0); MOST]) <= MOST);
            }
        });
    }

    #[test]
    fn the_chosen_kernels_do_as_they_say() {
        check_equal(equal);
        check_below(below);
        check_sorted(sorted);
        check_sorted(|entries, wanted, keys, out| sorted_shared(&shared(entries), wanted, keys, out));
    }

    #[test]
    fn the_portable_kernels_do_as_they_say() {
        check_equal(portable::equal);
        check_below(|words, word| portable::Portable.below(words, word));
        check_sorted(portable::sorted);
        check_sorted(|entries, wanted, keys, out| portable::sorted_shared(&shared(entries), wanted, keys, out));
    }

    #[test]
    #[cfg(all(bristlecone_asm, target_arch = "x86_64"))]
    fn all_kernels_of_this_cpu_do_as_they_say() {
        x86_64::with_each_method(|below, sorted| {
            check_below(below);
            check_sorted(sorted);
        });
    }
}
