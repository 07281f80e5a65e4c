//! NV-Store, the key-value store of NV-Tree's paper, on its own tree: byte strings, versions, snapshots and
//! transactions.
//!
//! # Source
//!
//! Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-adaptive Tree Structure for Non-volatile
//! Memory", IEEE Transactions on Computers 2015: the tree is section 4, and the store the second paragraph of section
//! 6.1.1, which says that keys and values have different sizes, that each element has a timestamp, and that on these
//! there are multi-version concurrency control and snapshot isolation. How it does that is not printed. It is as
//! follows.
//!
//! # As printed
//!
//! Leaves are appended to, and the store of a count commits. A full leaf is split, or replaced if less than half of it
//! is valid. Inner nodes are flat arrays in DRAM; when a parent is full, all are built anew, with one leaf in each
//! parent.
//!
//! # What differs
//!
//! - An update appends one element, not two: with timestamps, the last version decides.
//! - All leaves have one capacity. That is the paper's NV-Store', without the adaptive scheme.
//! - Leaves are not merged. One whose keys are all removed stays, and is filled again.
//! - Leaves keep their low key, so that an open need not sort their elements; and an element has a hash of its key,
//!   where the paper's has the key.
//! - Inner nodes are built from the chain of descriptors, not from the old parents, and nobody but splits waits
//!   meanwhile.
//! - An open always walks the chain: there is no instant recovery after an orderly close.
//!
//! # On the medium
//!
//! ```text
//! root     | magic 8 | head 8 | slots 8 |
//! slot     | time 8 | (unused) 56 |                                                      a line for each of 64 slots
//! leaf     | next 8 | count 8 | capacity 8 | low 8 | length of low 8 | (unused) 24 |     a line, then the elements:
//! element  | hash 8 | record 8 | stamp 8 | lengths 8 |                                   two per line
//! record   | key, padded to words | value |
//! ```
//!
//! A *stamp* is a time, the number of a slot or 0, and a bit that says that the key was removed. An element
//! has a *hash* of its key, so that others are passed over without a look at their records: the keys of a leaf often
//! begin alike. Blocks are those of [`Arena`](crate::arena::Arena).
//!
//! - **V1** The chain leads from `head` along `next`. Low keys ascend, and the first is empty. A leaf owns the keys
//!   from its low key to the next leaf's.
//! - **V2** The first `count` elements are the versions of the keys that the leaf owns. The versions of one key are in
//!   the order of their times. The last one with a time up to that of a snapshot is what the snapshot shows.
//! - **V3** A version owns its record. A removal names the record of a version before it, for the key.
//! - **V4** A slot with a time other than 0 says that a transaction with this time may have counted elements in some of
//!   its leaves and not in others. Where it has, they are the last ones.
//!
//! # In memory
//!
//! - Each leaf has a [descriptor](leaves), which outlives every block that the leaf is written to. One word of it is
//!   the *view*: the block, and how many of its elements are published. A reader loads it once, and what it then reads
//!   never changes. So readers take no lock, and see nothing that a crash could take back.
//! - The [index](flat) is the paper's, and may lag: a search that comes out left of the right leaf moves along the
//!   chain. Low keys of descriptors never change, so it cannot come out right of it.
//! - The [clock](clock) counts changes. A thread that is about to take a time says so first, in a slot of its own. A
//!   [snapshot](snapshot) is of the time that the clock shows, after all threads that were about to take that time or
//!   an earlier one have published. So it shows every change that returned before it began, and none of a time after
//!   it.
//!
//! # A change
//!
//! The leaves are locked in the order of their keys. Then the time is taken, one for all elements of the change; so
//! within a leaf times ascend. A full leaf is [renewed](renewal) before, with nothing locked meanwhile. All steps that
//! are in brackets are for a transaction in several leaves.
//!
//! | step | what a cut before its end leaves | what repairs it |
//! |---|---|---|
//! | write the record, flush | bytes in a block that nothing names | the next open takes the block to be free |
//! | write the elements, \[store the time in the slot,\] flush, fence | elements that do not count, \[a slot without elements\] | \[the next open clears the slot\] |
//! | store the counts, flush, fence | the old count of each leaf or the new one | one leaf: nothing to repair. \[The next open cuts off elements with the time of the slot, fences, and then clears it\] |
//! | \[clear the slot, flush, fence\] | all or nothing, as the slot says | as before |
//! | publish the views, leave the slot, unlock | the change | nothing to repair |
//!
//! - In several leaves, the views are published one by one. The elements name their slot: while it still shows their
//!   time in memory, a reader of the newest version passes them over. So the transaction shows everywhere at once, when
//!   it leaves its slot. Snapshots need not look: they have waited.
//! - Nobody can append behind elements that a crash may take back: the leaves stay locked until the slot is clear.
//! - A transaction is refused if a key that it writes has a version with a time after that of its snapshot: the first
//!   committer wins. A transaction that only reads is never refused.
//!
//! # A renewal
//!
//! The leaf before it and the leaf itself are locked, in this order. Needed are the last version of each key, and what
//! a live snapshot shows. If these are less than half of the capacity, one new leaf replaces the old one, else two do.
//!
//! | step | what a cut before its end leaves | what repairs it |
//! |---|---|---|
//! | write the new leaves and the low key of the right one, flush, fence | blocks that nothing names | the next open takes them to be free |
//! | store `next` of the leaf before, or `head`, flush, fence | the old leaf or the new ones, with the same versions as far as they are needed | nothing to repair: what the chain does not reach is free |
//! | replace the view, retire the old block and the records that were dropped | the new leaves | nothing to repair |
//!
//! - The chain decides which blocks are in use, so nothing is given back before the fence of the second step, and
//!   nothing is reused before the last reader has let go.
//! - The right leaf comes into the chain of descriptors before the view becomes that of the left one; a reader loads
//!   the view first. So a reader that misses keys in the left one finds the right one.
//! - A snapshot that begins meanwhile is of a time that is no earlier than any in the leaf, so it needs last versions
//!   only.
//! - A removal is dropped if nothing older is needed, unless a live transaction is older: it must find that the key was
//!   written. The removal is then kept with the version before it, whose record it needs.
//!
//! # Opening
//!
//! An open checks everything that it reads: a damaged medium is an error. It walks the chain, stores the counts without
//! the elements that slots take back, fences, and then clears the slots. A cut of an open leaves the slots, or has
//! nothing left to do. The clock goes on from the latest time that was found.
//!
//! A new store is the slots and one empty leaf; `magic` is stored last.

mod block;
mod change;
mod clock;
mod element;
mod flat;
mod kept;
mod key;
mod leaves;
mod live;
mod recovery;
mod renewal;
mod snapshot;
mod subject;
#[cfg(test)]
mod tests;
mod transaction;

use crate::arena::Arena;
use crate::out::Outcome;
use bristlecone::medium::{LINE, Medium};
use change::Write;
use clock::Clock;
use element::Element;
use flat::Index;
use key::Key;
use leaves::Leaves;
use live::Live;
use std::time::Duration;
pub(crate) use subject::NvMap;
pub(crate) use transaction::Commit;

/// A map from byte strings to byte strings, with versions.
pub(crate) struct NvStore<M: Medium> {
    arena: Arena<M>,
    leaves: Leaves,
    index: Index,
    clock: Clock,
    live: Live,
    /// Where the slots of transactions are.
    slots: u64,
    options: Options,
}

/// What is chosen for a store.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Options {
    /// Elements of a leaf. A leaf has more if it must hold more versions of one key, or more of one transaction.
    pub(crate) capacity: usize,
    /// Keys of a parent in the index.
    pub(crate) keys: usize,
}

impl Default for Options {
    /// Leaves of 4 KiB, and inner nodes of 1 KiB.
    fn default() -> Self {
        Self { capacity: 126, keys: 64 }
    }
}

impl<M: Medium> NvStore<M> {
    /// Passes the value of a key on.
    pub(crate) fn get<R>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let key = Key::new(key);
        let _pin = self.arena.pin();
        let found = self.last(key, |element| {
            let stamp = element.stamp;
            stamp.slot == 0 || !self.clock.is_in_flight(stamp.slot, stamp.time)
        });
        found.map(|element| self.value(&element, read))
    }

    /// Stores a value for a key, which may be there or not.
    ///
    /// # Errors
    ///
    /// If the medium is full, or fails.
    pub(crate) fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.arena.medium().admit()?;
        let version = self.version(key, value)?;
        if let Err(error) = self.change(&[(key, Write::Put(version))], u64::MAX) {
            self.arena.give(version.record, version.record_bytes());
            return Err(error);
        }
        Ok(self.arena.medium().acknowledge()?)
    }

    /// Removes a key. False if it is not there.
    ///
    /// # Errors
    ///
    /// As for [`put`](Self::put).
    pub(crate) fn remove(&self, key: &[u8]) -> Outcome<bool> {
        self.arena.medium().admit()?;
        let appended = self.change(&[(key, Write::Remove)], u64::MAX)?;
        self.arena.medium().acknowledge()?;
        Ok(appended == Some(1))
    }

    pub(crate) fn medium(&self) -> &M {
        self.arena.medium()
    }

    /// How often all inner nodes were built anew, and how long that took.
    pub(crate) fn rebuilds(&self) -> (u64, Duration) {
        self.index.rebuilds()
    }

    /// A version of a key that is not in a leaf yet.
    fn version(&self, key: &[u8], value: &[u8]) -> Outcome<Element> {
        // An element has 32 bits for each length.
        if let Some(len) = [key, value].map(<[u8]>::len).into_iter().find(|&len| len > u32::MAX as usize) {
            return Err(format!("no element has a key or a value of {len} bytes").into());
        }
        Ok(Element::new(key, block::record(&self.arena, key, value)?, value.len()))
    }

    /// The last version of a key that `shows` lets through, unless it is a removal. The caller has pinned.
    #[inline]
    fn last(&self, key: Key<'_>, shows: impl Fn(&Element) -> bool) -> Option<Element> {
        let mut id = self.index.owner(&self.leaves, key);
        loop {
            let leaf = self.leaves.get(id);
            let view = leaf.view();
            // After the view: if it has lost keys, there is a leaf for them.
            match leaf.next().filter(|&next| self.leaves.get(next).is_up_to(key)) {
                Some(next) => id = next,
                None => {
                    return block::last(&self.arena, view, key.bytes, shows).filter(|element| !element.stamp.removed);
                }
            }
        }
    }

    /// Passes the value of a version on. The caller has pinned.
    #[inline]
    fn value<R>(&self, element: &Element, read: impl FnOnce(&[u8]) -> R) -> R {
        self.arena.with(element.value_at(), element.value_len as usize, read)
    }

    /// The word of a slot, which has a number from 1.
    fn slot_at(&self, slot: usize) -> u64 {
        self.slots + (slot as u64 - 1) * LINE
    }
}
