//! The close record: what an orderly close knows, so that the next open need not find it out.
//!
//! ```text
//! | entries | classes | class 0: kind and unit, n, n free blocks | class 1 ... | leaves: low, offset, low, offset, ... |
//! ```
//!
//! A span of words, named with its CRC by the root entry. Valid as long as the root entry names it (R2).

use super::Core;
use crate::error::Result;
use crate::medium::Medium;
use crate::node::Node;
use crate::pool::blocks::Blocks;
use crate::pool::format::crc;
use crate::pool::records::span;
use crate::pool::roots::Closed;
use crate::sync::Ordering;

impl<N: Node, M: Medium> Core<N, M> {
    /// All classes of blocks the tree has, in the order of the record.
    fn classes(&self) -> impl Iterator<Item = &Blocks> {
        let inner = self.directory.upper().map(|upper| upper.chain().blocks());
        let records = self.records.iter().flat_map(|records| records.classes());
        std::iter::once(self.leaves.blocks()).chain(inner).chain(records)
    }

    fn close_record(&self) -> Vec<u64> {
        let mut words = vec![self.len(), self.classes().count() as u64];
        for class in self.classes() {
            let free = class.free();
            words.push(class_word(class));
            words.push(free.len() as u64);
            words.extend(free);
        }
        words.extend(self.directory.leaves().into_iter().flat_map(|(low, at)| [low, at]));
        words
    }

    pub(super) fn read_close_record(&self, closed: Closed) -> Option<Vec<u64>> {
        let words = self.pool.read_span(self.root.slot, closed.at, closed.words)?;
        (crc(words.iter().copied()) == closed.crc).then_some(words)
    }

    pub(super) fn release_close_record(&self, closed: Closed) {
        let segments = &self.pool.segments;
        let Some(segment) = segments.of(closed.at) else { return };
        let owned = segments
            .entry(segment)
            .is_some_and(|entry| entry.kind == crate::pool::segments::Kind::Span && entry.tree == self.root.slot);
        if owned {
            segments.release(self.medium(), span(segments, segment));
        }
    }

    /// Takes over what a close record says. Its CRC was right, so it is what a close wrote; offsets are still checked.
    pub(super) fn restore(&self, words: &[u64]) -> Result<()> {
        let mut words = words.iter().copied();
        let mut take = || words.next().unwrap_or_default();
        self.len.store(take(), Ordering::Relaxed);
        let classes = take();
        for (class, _) in self.classes().zip(0..classes) {
            let matches = take() == class_word(class);
            let free: Vec<u64> = (0..take()).map_while(|_| Some(take())).take_while(|_| matches).collect();
            class.restore(&self.pool.segments, &free);
        }
        if self.directory.upper().is_none() {
            let mut leaves = Vec::with_capacity(words.len() / 2);
            while let (Some(low), Some(at)) = (words.next(), words.next()) {
                self.named(self.leaves.validate(at, self.root.head_at()))?;
                leaves.push((low, at));
            }
            self.directory.learn(&leaves)?;
        }
        Ok(())
    }

    fn close(&self) -> Result<()> {
        let words = self.close_record();
        let crc = crc(words.iter().copied());
        let at = self.pool.write_span(self.root.slot, &words)?;
        self.root.set_closed(self.medium(), Some(Closed { at, words: words.len() as u32, crc }));
        Ok(())
    }
}

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
