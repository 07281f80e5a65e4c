//! The close record: what an orderly close knows, so that the next open need not find it out again.
//!
//! ```text
//! head     | words of the head | entries | classes | class 0: unit 32, kind 32; n; n segments | class 1 ... |
//!          | nodes of the image, its height, its separators |
//! segment  | number 32, free blocks 32 | a bit for each block, if some are free and some are not |
//! image    of an index in memory: see `index/volatile/image.rs`
//! ```
//!
//! The record is an extent of words, which the root entry names with the CRC of its head. It is valid as long as the
//! root entry names it (R2). The nodes of the image have checksums of their own and are read on demand. So an open only
//! reads the head, and the extent stays until the next close, which knows all nodes or copies them.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::Links;
use crate::error::Fault;
use crate::index::{ImageTop, ReadNode, image_of};
use crate::medium::{Hint, LINE, Medium, Step};
use crate::node::Keys;
use crate::pool::PoolState;
use crate::pool::blocks::Blocks;
use crate::pool::format::crc;
use crate::pool::roots::CloseRecord;
use crate::pool::segments::SegmentKind;
use crate::sync::Ordering;
use std::sync::Arc;

/// Stands for the number of entries if nobody has asked for it since a crash.
const UNCOUNTED: u64 = u64::MAX;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// All classes of blocks that the tree has, in the order of the record.
    pub(super) fn classes(&self) -> impl Iterator<Item = &Blocks> {
        let inner = self.directory.blocks();
        let records = self.leaves.records.iter().flat_map(|records| records.classes());
        self.leaves.blocks().iter().chain(inner).chain(records)
    }

    /// The words of the record, and the number of words in its head.
    pub(super) fn close_record(&self) -> (Vec<u64>, usize) {
        let count = &self.leaves.count;
        let len = if count.is_whole() { count.sum() } else { UNCOUNTED };
        let mut words = vec![0, len, self.classes().count() as u64];
        self.classes().for_each(|class| class.record(&mut words));
        let (image, ImageTop { nodes, height, len }) = self.whole_image();
        words.extend([nodes, height, len]);
        let head = words.len();
        words[0] = head as u64;
        words.extend(image);
        (words, head)
    }

    /// An image of the index. It has no leaves if the index may not know all of them, where a later search relies on
    /// that.
    fn whole_image(&self) -> (Vec<u64>, ImageTop) {
        let (image, top) = self.directory.image();
        let knows_all = || top.len == self.leaves.in_use();
        if N::Keys::MARKS_LAG && !knows_all() { image_of(Vec::new()) } else { (image, top) }
    }

    /// Gives back the extent of a close record that was read, with a fence.
    fn release_close_record(&self, at: u64) {
        let segments = &self.pool.segments;
        let head = segments.holding(at).expect("what was read lies in a segment");
        // Durably: an open from a record looks for no other.
        segments
            .release(self.medium(), segments.extent(head).collect::<Vec<_>>(), |entry| entry.tree == self.root.slot);
    }

    /// Takes over the content of a close record. Returns false if it cannot be trusted; then the leaves must be found.
    ///
    /// If the checksums are right, a close wrote it. Offsets are checked all the same.
    pub(super) fn restore(&self, closed: CloseRecord) -> bool {
        let segments = &self.pool.segments;
        let Some(mut words) = self.pool.read_extent(self.root.slot, closed.at, closed.words) else { return false };
        let Some(head) = words.clone().next().filter(|&head| head <= u64::from(closed.words)) else { return false };
        // It is read from the first word to the last; of the image, a node now and then.
        self.medium().hint(closed.at, head * 8, Hint::Ahead);
        if crc(words.clone().take(head as usize)) != closed.crc {
            return false;
        }
        let (Some(_), Some(len), Some(classes)) = (words.next(), words.next(), words.next()) else { return false };
        if classes != self.classes().count() as u64 {
            return false;
        }
        if !self.classes().all(|class| class.restore(segments, &mut words)) {
            return false;
        }
        let (Some(nodes), Some(height), Some(separators)) = (words.next(), words.next(), words.next()) else {
            return false;
        };
        match len {
            UNCOUNTED => self.leaves.count.forget(),
            len => self.leaves.count.set(len),
        }
        if separators > self.classes().map(|class| class.total()).sum::<u64>() {
            return false;
        }
        let top = ImageTop { nodes, height, len: separators };
        let start = closed.at + head * 8;
        let pool = Arc::clone(&self.pool);
        let source = self.image_nodes(top, move |i| pool.medium.load(start + i * 8));
        if !top.fits(u64::from(closed.words) - head) || !self.directory.restore(top, source) {
            return false;
        }
        if self.directory.keeps_image() || self.pool.is_looked_at() {
            self.image_at.store(closed.at, Ordering::Relaxed);
            // With this fence, the tree is open: it may differ from its record from here on (R2).
            self.medium().fence(Step::RootOpen);
        } else {
            // Its fence is the fence of the root entry, too, and the extent is nobody else's before. Crash: the root
            // entry names the record of a tree that has not changed, or one that is refused because its extent is free.
            self.release_close_record(closed.at);
        }
        true
    }

    /// The nodes of an image of the index, whose words `word` reads.
    pub(super) fn image_nodes(&self, top: ImageTop, word: impl Fn(u64) -> u64 + Send + Sync + 'static) -> ReadNode {
        let links = Links::<N, M>::new(Arc::clone(&self.pool), self.root.slot, SegmentKind::Leaf);
        Box::new(move |number, height, to_search| {
            let entries = top.node((number, height), &word, |at| links.accept(at, at).is_ok())?;
            if to_search && N::Keys::HAS_RECORDS && links.medium().asks_ahead().is_some() {
                // Names say where the lows are: in the leaves.
                let lows = entries.iter().filter(|&&(name, _)| links.accept(name, name).is_ok());
                lows.for_each(|&(name, _)| links.medium().hint(name, LINE, Hint::Ahead));
            }
            (!to_search || N::Keys::separators_ascend(links.access(), &entries)).then_some(entries)
        })
    }

    /// Finds all leaves again if the index turned out to be damaged. It does nothing if a thread is changing the index,
    /// which may be the caller itself: the search then continues from the head of the chain.
    #[cold]
    pub(super) fn relearn(&self) {
        if let Some(_restructuring) = self.restructuring.try_lock()
            && self.directory.is_lost()
        {
            // Follow the chain: other threads may split leaves meanwhile, and then the headers of all blocks do not fit
            // together.
            let learned = self.follow(self.head()).and_then(|leaves| self.directory.learn(&leaves.listed));
            self.lag(learned);
        }
    }

    /// Gives segments that hold nothing back to the pool, durably. Nobody changes the tree meanwhile.
    pub(super) fn release_unused(&self) {
        let (m, segments) = (self.medium(), &self.pool.segments);
        self.classes().for_each(|class| class.release(m, segments));
        segments.release_idle(m, self.root.slot);
    }

    fn close(&self) -> Result<(), Fault> {
        let (words, head) = self.close_record();
        let crc = crc(words[..head].iter().copied());
        let at = self.pool.write_extent(self.root.slot, &words)?;
        match self.image_at.load(Ordering::Relaxed) {
            0 => {}
            // Before the new record is named. Crash: the tree is open.
            old => self.release_close_record(old),
        }
        self.root.set_closed(self.medium(), Some(CloseRecord { at, words: words.len() as u32, crc }));
        Ok(())
    }
}

impl<N: TreeNode, M: Medium> Drop for TreeState<N, M> {
    /// Runs when the last handle is dropped: nobody reads or writes the tree any more.
    fn drop(&mut self) {
        // A forked child has nothing to close, and any lock may be held by a thread that exists only in the parent.
        if self.pool.owned().is_err() {
            return;
        }
        // Threads that wait for the tree are woken even if closing it panics.
        let _closed = Closing(&self.pool, self.root.slot);
        if self.pool.is_looked_at() {
            // Nothing has changed: the next open finds what this one has found.
            return;
        }
        let pool = Arc::clone(&self.pool);
        let _window = pool.medium.window();
        if self.head() != 0 && self.fault.get().is_none() && !std::thread::panicking() {
            debug_assert!(self.leaves.frozen.is_empty(), "snapshots keep what they have frozen open");
            if let Some(records) = &mut self.leaves.records {
                // Retired records are not free yet.
                records.give_back_retired(&self.pool.medium, &self.pool.segments);
            }
            if self.spare_records.load(Ordering::Relaxed) > 0 && self.find_records().is_err() {
                // The next open finds what is wrong.
                return;
            }
            self.release_unused();
            // If there is no record because the pool is full, the next open finds the leaves.
            let _ = self.close();
        }
    }
}

/// Reports the tree as closed when it is dropped.
struct Closing<'p, M: Medium>(&'p PoolState<M>, u16);

impl<M: Medium> Drop for Closing<'_, M> {
    fn drop(&mut self) {
        self.0.closed(self.1);
    }
}
