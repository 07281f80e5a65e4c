//! The parts of a file in memory whose space was given back, and which the mapping therefore shows as zeros that are no
//! file's.
//!
//! A late reader may still look at words of a block that was given back; it finds out that they mean nothing only
//! afterwards. On a file system in memory that look would take a page for the hole, and end the process with a signal
//! if there is none.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// No more parts of one file than this.
const MOST: usize = 8192;

/// No more parts of all files: each takes two mappings, and a process may have some 65,000 (`vm.max_map_count`). The
/// rest of the process keeps half of them: without any, its next allocation or thread would end it.
const MOST_OF_ALL: usize = 16_384;

/// How many parts there are of all files.
static OF_ALL: AtomicUsize = AtomicUsize::new(0);

/// Ranges that neither overlap nor touch.
pub(super) struct Covered {
    parts: Mutex<BTreeMap<u64, u64>>,
    of_all: &'static AtomicUsize,
}

impl Default for Covered {
    fn default() -> Self {
        Self { parts: Mutex::default(), of_all: &OF_ALL }
    }
}

impl Drop for Covered {
    fn drop(&mut self) {
        self.of_all.fetch_sub(self.parts.get_mut().len(), Ordering::Relaxed);
    }
}

impl Covered {
    /// Calls `cover` for a range, and remembers it if that succeeds. Does nothing, and returns false, if there are too
    /// many.
    pub(super) fn add<E>(&self, range: Range<u64>, cover: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
        let mut all = self.parts.lock();
        // Threads that add at once may go beyond by one each.
        if all.len() >= MOST || self.of_all.load(Ordering::Relaxed) >= MOST_OF_ALL {
            return Ok(false);
        }
        cover()?;
        let mut whole = range;
        while let Some((&start, &end)) = all.range(..=whole.end).next_back().filter(|&(_, &end)| end >= whole.start) {
            self.forget(&mut all, start);
            whole = whole.start.min(start)..whole.end.max(end);
        }
        self.note(&mut all, whole);
        Ok(true)
    }

    fn note(&self, all: &mut BTreeMap<u64, u64>, part: Range<u64>) {
        self.of_all.fetch_add(1, Ordering::Relaxed);
        all.insert(part.start, part.end);
    }

    fn forget(&self, all: &mut BTreeMap<u64, u64>, start: u64) {
        self.of_all.fetch_sub(1, Ordering::Relaxed);
        all.remove(&start);
    }

    /// Whether a part of a range is covered.
    pub(super) fn overlap(&self, range: &Range<u64>) -> bool {
        self.parts.lock().range(..range.end).next_back().is_some_and(|(_, &end)| end > range.start)
    }

    /// Calls `uncover` for each part of a range that is covered, and forgets it if that succeeds.
    pub(super) fn remove<E>(
        &self,
        range: &Range<u64>,
        mut uncover: impl FnMut(Range<u64>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut all = self.parts.lock();
        while let Some((&start, &end)) = all.range(..range.end).next_back().filter(|&(_, &end)| end > range.start) {
            let part = start.max(range.start)..end.min(range.end);
            uncover(part.clone())?;
            self.forget(&mut all, start);
            for rest in [start..part.start, part.end..end] {
                if !rest.is_empty() {
                    self.note(&mut all, rest);
                }
            }
        }
        Ok(())
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn ranges_are_those_of_a_set_of_pages() {
        let covered = Covered::default();
        let mut pages = [false; 40];
        let mut random = Random(1);
        for _ in 0..2000 {
            let start = random.below(39);
            let range = start..start + 1 + random.below(40 - start);
            let part = range.start as usize..range.end as usize;
            assert_eq!(covered.overlap(&range), pages[part.clone()].contains(&true));
            if random.below(2) == 0 {
                assert_eq!(covered.add::<()>(range, || Ok(())), Ok(true));
                pages[part].fill(true);
            } else {
                let mut removed = [false; 40];
                let uncovered = covered.remove::<()>(&range, |part| {
                    removed[part.start as usize..part.end as usize].fill(true);
                    Ok(())
                });
                assert_eq!(uncovered, Ok(()));
                assert!(part.clone().all(|page| removed[page] == pages[page]));
                pages[part].fill(false);
            }
            let all: Vec<(u64, u64)> = covered.parts.lock().iter().map(|(&start, &end)| (start, end)).collect();
            assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0), "{all:?}");
        }
    }

    #[test]
    fn all_files_together_leave_mappings_to_the_process() {
        static PARTS: AtomicUsize = AtomicUsize::new(0);
        let filled = || {
            let covered = Covered { parts: Mutex::default(), of_all: &PARTS };
            let parts =
                (0..2 * MOST as u64).take_while(|n| covered.add::<()>(2 * n..2 * n + 1, || Ok(())) == Ok(true)).count();
            (parts, covered)
        };
        let mut files: Vec<(usize, Covered)> = (0..4).map(|_| filled()).collect();
        let parts = |files: &[(usize, Covered)]| files.iter().map(|&(parts, _)| parts).collect::<Vec<_>>();
        assert_eq!(parts(&files), [MOST, MOST, 0, 0]);
        files.swap_remove(0);
        let last = filled();
        assert_eq!(last.0, MOST);
        last.1.remove::<()>(&(1..2 * MOST as u64), |_| Ok(())).unwrap();
        assert_eq!(PARTS.load(Ordering::Relaxed), MOST + 1);
        drop((files, last));
        assert_eq!(PARTS.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_fails_changes_nothing() {
        let covered = Covered::default();
        assert_eq!(covered.add(3..5, || Err(7)), Err(7));
        assert!(!covered.overlap(&(0..9)));
        assert_eq!(covered.add::<()>(3..5, || Ok(())), Ok(true));
        assert_eq!(covered.remove(&(0..9), |_| Err(7)), Err(7));
        assert!(covered.overlap(&(4..5)));
    }
}
