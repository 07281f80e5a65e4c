//! Inserting many entries under one fence.

mod order;

use super::TreeState;
use super::directory::Directory;
use crate::chain::Locked;
use crate::error::Fault;
use crate::index::GROUP;
use crate::medium::{Medium, Step};
use crate::node::{Entry, SplitInPlace, WordNode};
use crate::pool::patience::Patience;
use crate::sync::delay::delay;
use order::{Few, in_order};
use smallvec::SmallVec;

/// A batch under way. Its leaves stay locked until their changes are durable, so that no reader sees what a crash could
/// take back.
struct Batch<'t, N: WordNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    /// From left to right.
    held: SmallVec<[BatchLeaf<'t, N>; GROUP]>,
    /// Leaves that splits made, with their lows. They are posted to the index once no leaf is locked.
    to_post: SmallVec<[(u64, u64); GROUP]>,
    /// The key for which there was no space.
    refused: u64,
    inserted: u64,
    /// How many of the inserted entries were already added to the tree's count.
    counted: u64,
}

/// For each entry of a group, the leaf that the index has found.
type LeafHints = [Option<u64>; GROUP];

/// A leaf of a batch.
struct BatchLeaf<'t, N: WordNode> {
    leaf: Locked<'t, N>,
    /// The lines that must still be flushed, as a bitmask.
    dirty: u64,
}

impl<N: WordNode, M: Medium> TreeState<N, M> {
    /// Inserts entries in ascending order of their keys; of equal keys, the last one counts. Returns how many are new.
    pub(crate) fn insert_batch(&self, entries: &[Entry]) -> Result<u64, Fault> {
        self.may_change()?;
        if entries.is_sorted_by(|(key, _), (next, _)| key < next) {
            return self.insert_ascending(entries);
        }
        let mut few = Few::new();
        if let Some(entries) = few.sort(entries) {
            return self.insert_ascending(entries);
        }
        self.insert_ascending(&in_order(entries))
    }
}

impl<N: WordNode<Ops: SplitInPlace>, M: Medium> TreeState<N, M> {
    /// Inserts entries whose keys ascend, and holds the leaves of a group until all of it is durable. Returns how many
    /// are new.
    pub(super) fn insert_in_groups(&self, entries: &[Entry]) -> Result<u64, Fault> {
        let (held, to_post) = (SmallVec::new(), SmallVec::new());
        let mut batch = Batch { tree: self, held, to_post, refused: 0, inserted: 0, counted: 0 };
        let (mut rest, mut patience) = (entries, Patience::default());
        loop {
            let result = batch.insert_all(rest);
            batch.publish_durably();
            for (low, at) in batch.to_post.drain(..) {
                self.lag(self.post(low, at, at));
            }
            match result {
                Ok(()) => return Ok(batch.inserted),
                Err(fault) => self.pool.wait_for_space(&mut patience, fault)?,
            }
            // What was inserted before may have changed since.
            rest = &rest[rest.partition_point(|&(key, _)| key < batch.refused)..];
        }
    }
}

impl<'t, N: WordNode<Ops: SplitInPlace>, M: Medium> Batch<'t, N, M> {
    /// Inserts group by group. The leaves of a group are requested before the group before it is inserted.
    fn insert_all(&mut self, entries: &[Entry]) -> Result<(), Fault> {
        let mut groups = entries.chunks(GROUP);
        let Some(mut group) = groups.next() else { return Ok(()) };
        let mut hints = self.request(group);
        for next in groups {
            let next_hints = self.request(next);
            self.insert_group(group, &hints)?;
            (group, hints) = (next, next_hints);
        }
        self.insert_group(group, &hints)
    }

    /// Asks the index for the leaves of a group, and requests these. However old the answers are, a thread that locks a
    /// leaf sees whether the leaf owns a key.
    fn request(&self, group: &[Entry]) -> LeafHints {
        let leaves = &self.tree.leaves;
        let mut keys = [0; GROUP];
        keys.iter_mut().zip(group).for_each(|(key, entry)| *key = entry.0);
        let hints = self.tree.directory.floors_at_once(&keys[..group.len()]);
        for (hint, &(key, _)) in hints.into_iter().zip(group) {
            hint.into_iter().for_each(|at| leaves.prefetch(at, key));
        }
        hints
    }

    fn insert_group(&mut self, group: &[Entry], hints: &LeafHints) -> Result<(), Fault> {
        if N::POLICY.in_snapshots && self.tree.pool.instants.is_over() {
            // What this batch alone freezes may be too much.
            self.publish_durably();
            self.tree.pool.limit_snapshots();
        }
        for (hint, &(key, _)) in hints.iter().zip(group) {
            hint.iter().for_each(|&at| self.tree.leaves.prefetch_put(at, key));
        }
        hints.iter().zip(group).try_for_each(|(&hint, &entry)| self.insert(hint, entry))
    }

    #[inline]
    fn insert(&mut self, hint: Option<u64>, entry: Entry) -> Result<(), Fault> {
        let i = match self.own(hint, entry.0) {
            Some(i) => i,
            None => self.hold(entry.0)?,
        };
        let leaves = &self.tree.leaves;
        let BatchLeaf { leaf, dirty } = &mut self.held[i];
        match leaves.search(leaf, entry.0) {
            Err(_) if !leaves.has_room(leaf, 1) => return self.split(i, entry),
            place => {
                *dirty |= leaves.upsert(leaf, place, entry);
                self.inserted += u64::from(place.is_err());
            }
        }
        Ok(())
    }

    /// Inserts an entry into a full leaf.
    #[cold]
    #[inline(never)]
    fn split(&mut self, i: usize, entry: Entry) -> Result<(), Fault> {
        let BatchLeaf { leaf, dirty } = &mut self.held[i];
        let split = self.tree.leaves.put_by_split(leaf, 0, entry);
        let (right, put) = split.inspect_err(|_| self.refused = entry.0)?;
        // The first line holds the link. The split has flushed and fenced all of it.
        *dirty = *dirty & !1 | put;
        self.to_post.push((right.range().low(), right.at));
        self.held.insert(i + 1, BatchLeaf { leaf: right, dirty: 0 });
        self.inserted += 1;
        Ok(())
    }

    /// Which of the held leaves owns the key. If none does, locks the one that the index has found, if that can be done
    /// at once: it is to the right of all others.
    #[inline(always)]
    fn own(&mut self, hint: Option<u64>, key: u64) -> Option<usize> {
        // Keys ascend, but a split leaves two leaves that may own the next one.
        if let Some(i) = self.held.iter().rposition(|held| held.leaf.range().low() <= key)
            && self.held[i].leaf.range().contains(key)
        {
            return Some(i);
        }
        Some(self.keep(self.tree.lock_owner_at_once(hint?, key)?))
    }

    /// Locks the leaf that owns the key, however long that takes. Returns which of the held leaves it is.
    #[cold]
    #[inline(never)]
    fn hold(&mut self, key: u64) -> Result<usize, Fault> {
        // The thread that holds the leaf may wait for one of ours. Nobody waits for a leaf to the left while holding a
        // lock.
        self.publish_durably();
        let leaf = self.tree.lock_owner(key)?;
        Ok(self.keep(leaf))
    }

    /// Keeps a leaf that was locked just now, to the right of all others. Returns which of the held leaves it is.
    // The leaf is frozen where it lies from then on: what is lent is in memory, and would be moved from there.
    #[inline(always)]
    fn keep(&mut self, leaf: Locked<'t, N>) -> usize {
        let i = self.held.len();
        self.held.push(BatchLeaf { leaf, dirty: 0 });
        // Here, because the entries of a batch that are not yet durable must not be frozen.
        self.tree.leaves.freeze(&self.held[i].leaf, self.tree.leaves.newest());
        i
    }

    /// Makes everything so far durable and visible.
    fn publish_durably(&mut self) {
        delay();
        let mut any = false;
        for BatchLeaf { leaf, dirty } in &mut self.held {
            self.tree.leaves.flush_lines(leaf, *dirty);
            any |= *dirty != 0;
            *dirty = 0;
        }
        if any {
            // Crash, until here: each of the entries is there or not; each one whole.
            self.tree.medium().fence(Step::BatchFence);
        }
        self.publish();
    }
}

impl<N: WordNode, M: Medium> Batch<'_, N, M> {
    /// Counts the new entries and makes them visible to other threads.
    fn publish(&mut self) {
        let new = self.inserted - std::mem::replace(&mut self.counted, self.inserted);
        // Counted while the leaves are locked: without any locks, another thread may be setting the count.
        if new > 0 {
            self.tree.leaves.count.add(new);
        }
        self.held.clear();
    }
}

impl<N: WordNode, M: Medium> Drop for Batch<'_, N, M> {
    /// If the medium has panicked, the inserted entries are there all the same.
    fn drop(&mut self) {
        self.publish();
    }
}
