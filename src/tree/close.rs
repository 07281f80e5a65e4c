//! The close record: what an orderly close knows, so that the next open need not find it out.
//!
//! ```text
//! | entries | classes | class 0: kind and unit, n, n free blocks | class 1 ... | leaves: low, offset, low, offset, ... |
//! ```
//!
//! A span of words, named with its CRC by the root entry. Valid as long as the root entry names it (R2).

use super::Core;
use crate::error::Result;
use crate::index::Directory;
use crate::medium::Medium;
use crate::node::Node;
use crate::pool::blocks::Blocks;
use crate::pool::format::crc;
use crate::pool::records::span;
use crate::pool::roots::Closed;
use crate::pool::segments::Kind;

/// The number of entries, if nobody asked for it since a crash.
const UNCOUNTED: u64 = u64::MAX;

impl<N: Node, M: Medium> Core<N, M> {
    /// All classes of blocks the tree has, in the order of the record.
    fn classes(&self) -> impl Iterator<Item = &Blocks> {
        let inner = self.directory.upper().map(|upper| upper.chain().blocks());
        let records = self.records.iter().flat_map(|records| records.classes());
        std::iter::once(self.leaves.blocks()).chain(inner).chain(records)
    }

    fn close_record(&self) -> Vec<u64> {
        let count = &self.leaves.count;
        let len = if count.is_whole() { count.sum() } else { UNCOUNTED };
        let mut words = vec![len, self.classes().count() as u64];
        for class in self.classes() {
            let free = class.free();
            words.push(class_word(class));
            words.push(free.len() as u64);
            words.extend(free);
        }
        words.extend(self.directory.leaves().into_iter().flat_map(|(low, at)| [low, at]));
        words
    }

    pub(super) fn release_close_record(&self, closed: Closed) {
        let segments = &self.pool.segments;
        let is_own = |segment: &u32| {
            let entry = segments.entry(*segment);
            entry.is_some_and(|entry| entry.kind == Kind::Span && entry.tree == self.root.slot)
        };
        match segments.of(closed.at).filter(is_own) {
            Some(segment) => segments.release(self.medium(), span(segments, segment)),
            // Damaged: there is nothing to release, but the root entry is to be durable.
            None => self.medium().fence(),
        }
    }

    /// Takes over what a close record says. False if it cannot be believed: then the leaves have to be walked.
    ///
    /// With the right CRC it is what a close wrote; offsets are checked all the same. It may be long, so it is read where
    /// it lies, thrice, rather than copied.
    pub(super) fn restore(&self, closed: Closed) -> bool {
        let segments = &self.pool.segments;
        let Some(mut words) = self.pool.read_span(self.root.slot, closed.at, closed.words) else { return false };
        if crc(words.clone()) != closed.crc {
            return false;
        }
        let (Some(len), Some(classes)) = (words.next(), words.next()) else { return false };
        if classes != self.classes().count() as u64 {
            return false;
        }
        for class in self.classes() {
            let (Some(word), Some(free)) = (words.next(), words.next()) else { return false };
            if word != class_word(class) || free > words.len() as u64 {
                return false;
            }
            class.restore(segments, words.by_ref().take(free as usize));
        }
        match len {
            UNCOUNTED => self.leaves.count.forget(),
            len => self.leaves.count.set(len),
        }
        let leaves = Pairs(words);
        let is_leaf = |at| self.leaves.validate(at, self.root.head_at()).is_ok();
        let mut least = Some(0);
        let mut ascends =
            |low: u64| std::mem::replace(&mut least, low.checked_add(1)).is_some_and(|least| low >= least);
        match &self.directory {
            Directory::Volatile(_) if !leaves.clone().all(|(low, at)| ascends(low) && is_leaf(at)) => false,
            Directory::Volatile(separators) => {
                separators.rebuild(leaves);
                true
            }
            Directory::Persistent(_) => true,
        }
    }

    fn close(&self) -> Result<()> {
        let words = self.close_record();
        let crc = crc(words.iter().copied());
        let at = self.pool.write_span(self.root.slot, &words)?;
        self.root.set_closed(self.medium(), Some(Closed { at, words: words.len() as u32, crc }));
        Ok(())
    }
}

/// Two words at a time; an odd one at the end is left out.
#[derive(Clone)]
struct Pairs<W>(W);

impl<W: ExactSizeIterator<Item = u64>> Iterator for Pairs<W> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.next().zip(self.0.next())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 2, Some(self.0.len() / 2))
    }
}

impl<W: ExactSizeIterator<Item = u64>> ExactSizeIterator for Pairs<W> {}

fn class_word(class: &Blocks) -> u64 {
    let entry = class.class();
    u64::from(entry.unit) << 32 | entry.kind as u64
}

impl<N: Node, M: Medium> Drop for Core<N, M> {
    /// The last handle is gone: nobody reads or writes the tree any more.
    fn drop(&mut self) {
        let opened = self.head() != 0;
        if opened && self.fault.get().is_none() && !std::thread::panicking() {
            // Without a record, because the pool is full, the next open walks the leaves.
            let _ = self.close();
        }
        if opened {
            self.pool.closed(self.root.slot);
        }
    }
}
