//! Which pages of the pool file this process has private copies of, and which of these the file does not show yet.
//!
//! A page becomes private with the first store to it, and what is stored is flushed, so the entries of the journal name
//! every page that is private. The thread that writes the log notes the pages that each frame names. A page is in one
//! or more of these sets:
//!
//! ```text
//! written      named in the log since its last sync
//! synced       named in the log on the disk, since the last checkpoint began
//! applying     a checkpoint may have put a part of it into the file
//! private      in one of these sets now or before, until the page goes
//! ```
//!
//! Only a page that is private and in none of the others, and that no cell of the ring names, is one that the file
//! shows, synced (J36).

use super::budget::Share;
use super::frame::entries;
use super::rule::{Rule, holds};
use crate::sync::Mutex;
use std::ops::Range;
use std::sync::OnceLock;

/// The unit in which pages are noted, in bytes. A page of the machine is one of them, or several.
pub(super) const PAGE: u64 = 4096;

/// A set of pages, by their numbers.
#[derive(Default)]
pub(super) struct PageSet {
    words: Vec<u64>,
    len: u64,
}

impl PageSet {
    /// Adds a page. Tells whether it is new.
    pub(super) fn insert(&mut self, page: u64) -> bool {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.len += u64::from(is_new);
        self.words[word] |= bit;
        is_new
    }

    pub(super) fn remove(&mut self, page: u64) {
        let (word, bit) = ((page / 64) as usize, 1 << (page % 64));
        if let Some(word) = self.words.get_mut(word) {
            self.len -= u64::from(*word & bit != 0);
            *word &= !bit;
        }
    }

    pub(super) fn contains(&self, page: u64) -> bool {
        self.words.get((page / 64) as usize).is_some_and(|word| word & 1 << (page % 64) != 0)
    }

    /// The first page from this one on.
    pub(super) fn next(&self, page: u64) -> Option<u64> {
        let first = (page / 64) as usize;
        let rest = self.words.get(first)? & u64::MAX << (page % 64);
        let found =
            |(word, bits): (usize, u64)| (bits != 0).then(|| word as u64 * 64 + u64::from(bits.trailing_zeros()));
        found((first, rest)).or_else(|| (first + 1..).zip(self.words[first + 1..].iter().copied()).find_map(found))
    }

    fn clear(&mut self) {
        if self.len > 0 {
            self.words.fill(0);
            self.len = 0;
        }
    }

    fn insert_all(&mut self, other: &Self) {
        if other.len == 0 {
            return;
        }
        self.words.resize(self.words.len().max(other.words.len()), 0);
        self.words.iter_mut().zip(&other.words).for_each(|(word, more)| *word |= more);
        self.len = self.words.iter().map(|word| u64::from(word.count_ones())).sum();
    }
}

/// The private pages of one pool. See the [module](self).
pub(super) struct Private {
    sets: Mutex<Sets>,
    /// What they take of a budget, if there is one.
    share: OnceLock<Share>,
}

#[derive(Default)]
struct Sets {
    /// The pages of all positions below this one are noted.
    until: u64,
    written: PageSet,
    /// What `written` has.
    list: Vec<u64>,
    synced: PageSet,
    applying: PageSet,
    private: PageSet,
}

impl Sets {
    /// Passes pages of `pages` that the file shows to `each`, as long as that returns true.
    fn shown(&self, pages: impl Iterator<Item = u64>, mut each: impl FnMut(u64) -> bool) {
        let sets = [&self.written, &self.synced, &self.applying];
        let is_named = |page| sets.iter().any(|set| set.contains(page));
        for page in pages {
            let is_shown = self.private.contains(page) && (!is_named(page) || !holds(Rule::NamedInLog));
            if is_shown && !each(page) {
                break;
            }
        }
    }
}

impl Private {
    /// None yet, of a pool whose log ends at this position.
    pub(super) fn new(until: u64) -> Self {
        Self { sets: Mutex::new(Sets { until, ..Sets::default() }), share: OnceLock::new() }
    }

    /// Takes what they take of this budget, from now on.
    pub(super) fn is_within(&self, share: Share) {
        let _ = self.share.set(share);
    }

    pub(super) fn share(&self) -> Option<&Share> {
        self.share.get()
    }

    /// Bytes of memory that they may take, or [`Share::NO_LIMIT`].
    pub(super) fn budget(&self) -> u64 {
        self.share().map_or(Share::NO_LIMIT, Share::limit)
    }

    /// Whether a checkpoint should be made, so that pages can go.
    pub(super) fn wants_checkpoint(&self) -> bool {
        let Some(share) = self.share() else { return false };
        let named = self.named();
        named > share.limit() / 2
            || named > 0 && (share.is_used_up() || share.is_much() && self.shown_from(0, 1).is_empty())
    }

    /// Notes what a frame names, which has the positions below this one, before anything of it is synced.
    pub(super) fn write(&self, until: u64, body: &[u8], len: u64) {
        let mut sets = self.sets.lock();
        let Sets { written, list, .. } = &mut *sets;
        for (entry, _) in entries(body, len).flatten() {
            let page = entry.bytes().start / PAGE;
            if written.insert(page) {
                list.push(page);
            }
        }
        sets.until = until;
    }

    /// Notes that everything that was written is synced, before a checkpoint can find that. The caller
    /// [counts](Self::count).
    pub(super) fn sync(&self) {
        let mut sets = self.sets.lock();
        let Sets { written, list, synced, private, .. } = &mut *sets;
        for page in list.drain(..) {
            written.remove(page);
            synced.insert(page);
            private.insert(page);
        }
    }

    /// Says how much memory the pages take.
    pub(super) fn count(&self) {
        if let Some(share) = self.share() {
            share.set(self.sets.lock().private.len * PAGE);
        }
    }

    /// Notes that a checkpoint begins, of all that is synced.
    pub(super) fn apply(&self) {
        let mut sets = self.sets.lock();
        let Sets { synced, applying, .. } = &mut *sets;
        applying.insert_all(synced);
        synced.clear();
    }

    /// Notes that it has synced the pool file.
    pub(super) fn is_applied(&self) {
        self.sets.lock().applying.clear();
    }

    /// Bytes of the pages that a checkpoint would let go.
    pub(super) fn named(&self) -> u64 {
        self.sets.lock().synced.len * PAGE
    }

    /// Up to so many pages that the file shows, from this one on.
    pub(super) fn shown_from(&self, page: u64, most: usize) -> Vec<u64> {
        let sets = self.sets.lock();
        let mut shown = Vec::new();
        let after = |&page: &u64| sets.private.next(page + 1);
        sets.shown(std::iter::successors(sets.private.next(page), after), |page| {
            shown.push(page);
            shown.len() < most
        });
        shown
    }

    /// The position from which on the ring names more.
    pub(super) fn until(&self) -> u64 {
        self.sets.lock().until
    }

    /// Leaves those of these pages that the file shows.
    pub(super) fn keep_shown(&self, pages: &mut Vec<u64>) {
        let sets = self.sets.lock();
        let before = std::mem::take(pages);
        sets.shown(before.into_iter(), |page| {
            pages.push(page);
            true
        });
    }

    /// Notes that these pages are private, though no entry names them: the memory that a range has as a whole.
    pub(super) fn add(&self, pages: Range<u64>) {
        self.change(|private| pages.for_each(|page| _ = private.insert(page)));
    }

    /// Notes that these pages are not private any more.
    pub(super) fn remove(&self, pages: impl Iterator<Item = u64>) {
        self.change(|private| pages.for_each(|page| private.remove(page)));
    }

    fn change(&self, change: impl FnOnce(&mut PageSet)) {
        change(&mut self.sets.lock().private);
        self.count();
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::random::Random;
    use std::collections::BTreeSet;

    #[test]
    fn a_set_of_pages_is_one() {
        let (mut set, mut model, mut random) = (PageSet::default(), BTreeSet::new(), Random(3));
        for _ in 0..5_000 {
            let page = random.below(300);
            match random.below(5) {
                0 | 1 => {
                    assert_eq!(set.insert(page), model.insert(page));
                }
                2 => {
                    set.remove(page);
                    model.remove(&page);
                }
                3 => assert_eq!(set.next(page), model.range(page..).next().copied()),
                _ => assert_eq!((set.contains(page), set.len), (model.contains(&page), model.len() as u64)),
            }
        }
        let mut all = PageSet::default();
        all.insert(1000);
        all.insert_all(&set);
        assert_eq!((all.len, all.next(301)), (model.len() as u64 + 1, Some(1000)));
        all.clear();
        assert_eq!((all.len, all.next(0)), (0, None));
    }
}
