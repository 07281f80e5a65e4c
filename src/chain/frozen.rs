//! Frozen leaves: what open snapshots see where a chain has changed since.
//!
//! A leaf that changes for the first time since the newest snapshot was opened is first copied, and its *stamp*, a word
//! for each block, is set to the instant of that snapshot. Copies are kept by the ranges that their leaves owned, so it
//! does not matter what becomes of the leaves. For each open snapshot with the instant `s`:
//!
//! - F1: a leaf with a stamp below `s` is as it was when the snapshot was opened.
//! - F2: each key of any other leaf lies in a frozen leaf of an instant of at least `s`. Of these, the one with the
//!   least instant has what the snapshot sees.
//! - F3: the frozen leaves of one instant own disjoint ranges.
//!
//! The stamp of a leaf is read and written like its other fields: by readers under its version, by writers under its
//! lock.

use super::{Chain, Locked, NodeView};
use crate::medium::Medium;
use crate::node::{Edges, Entry, Keys, Node};
use crate::sync::delay::{Validation, is_left_out};
use crate::sync::{AtomicU64, Ordering, RwLock};
use std::borrow::Borrow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

thread_local! {
    /// Where a leaf is read before it is known how many entries it has: copies take no more memory than they need.
    static READ: Cell<Vec<Entry>> = const { Cell::new(Vec::new()) };
}

/// The frozen leaves of a chain.
pub(crate) struct Frozen<K: Keys> {
    /// By the instants for which they were frozen.
    at: RwLock<BTreeMap<u64, LeavesByLow<K>>>,
    /// How many there are.
    count: AtomicU64,
}

/// Frozen leaves by their lows.
type LeavesByLow<K> = BTreeMap<<K as Keys>::Owned, KeptLeaf<K>>;

struct KeptLeaf<K: Keys> {
    leaf: Arc<FrozenLeaf<K>>,
    /// Records of its entries to which nothing else points any longer.
    retired: Vec<u64>,
}

/// A leaf as it was.
pub(crate) struct FrozenLeaf<K: Keys> {
    /// Where it began and ended.
    pub(crate) edges: Edges<K>,
    /// Its entries, in ascending order.
    pub(crate) entries: Box<[Entry]>,
    /// The stamp that the leaf had before. Snapshots up to that instant see an older leaf.
    since: u64,
}

impl<K: Keys> FrozenLeaf<K> {
    fn memory(&self) -> u64 {
        let fixed = size_of::<Self>() + size_of::<K::Owned>() + size_of::<KeptLeaf<K>>();
        (fixed + size_of_val(&*self.entries) + self.edges.memory()) as u64
    }

    fn has_record(&self, record: u64) -> bool {
        self.entries.iter().any(|&(_, value)| K::record(value) == record)
    }
}

impl<K: Keys> Default for Frozen<K> {
    fn default() -> Self {
        Self { at: RwLock::new(BTreeMap::new()), count: AtomicU64::new(0) }
    }
}

/// What is left of frozen leaves that nothing sees any longer.
#[derive(Default)]
pub(crate) struct Thawed {
    /// Records to which nothing points.
    pub(crate) retired: Vec<u64>,
    /// Bytes of memory.
    pub(crate) memory: u64,
}

/// The leaf that owns a key.
fn owner<'l, K: Keys>(leaves: &'l LeavesByLow<K>, key: K::Ref<'_>) -> Option<&'l KeptLeaf<K>> {
    K::floor(leaves, key).filter(|kept| K::reaches(&kept.leaf.edges, key))
}

/// The leaves that own keys of a leaf of another instant.
fn sharing<'l, K: Keys>(leaves: &'l LeavesByLow<K>, leaf: &'l FrozenLeaf<K>) -> impl Iterator<Item = &'l KeptLeaf<K>> {
    let low = &leaf.edges.low;
    let first = owner::<K>(leaves, K::as_ref(low.borrow()));
    let rest = leaves.range::<K::Key, _>((Bound::Excluded(low.borrow()), Bound::Unbounded)).map(|(_, kept)| kept);
    let begins_in_it = |kept: &&KeptLeaf<K>| K::reaches(&leaf.edges, K::as_ref(kept.leaf.edges.low.borrow()));
    first.into_iter().chain(rest.take_while(begins_in_it))
}

/// The leaf that has the record of an entry that another leaf, of another instant, has too.
fn other_with<'l, K: Keys>(
    leaves: &'l mut LeavesByLow<K>,
    leaf: &FrozenLeaf<K>,
    record: u64,
) -> Option<&'l mut KeptLeaf<K>> {
    let low = sharing(leaves, leaf).find(|kept| kept.leaf.has_record(record)).map(|kept| kept.leaf.edges.low.clone());
    leaves.get_mut(low?.borrow())
}

impl<K: Keys> Frozen<K> {
    /// Whether nothing is frozen.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// The frozen leaf in which a snapshot sees a key.
    pub(crate) fn find(&self, instant: u64, key: K::Ref<'_>) -> Option<Arc<FrozenLeaf<K>>> {
        let at = self.at.read();
        at.range(instant..).find_map(|(_, leaves)| owner::<K>(leaves, key)).map(|kept| Arc::clone(&kept.leaf))
    }

    /// Retires the record of a key, to which its slot no longer points, together with the frozen leaf that does.
    /// `stamp` is the one that the leaf of the slot had at that change. Returns false if there is no such frozen leaf.
    pub(crate) fn retire(&self, key: K::Ref<'_>, record: u64, stamp: u64) -> bool {
        if stamp == 0 || self.is_empty() {
            return false;
        }
        let mut at = self.at.write();
        // The leaf as it was last frozen before the change. If that does not have the record, an older one does not
        // either.
        for leaves in at.range_mut(..=stamp).rev().map(|(_, leaves)| leaves) {
            if let Some(KeptLeaf { leaf, .. }) = owner::<K>(leaves, key) {
                let low = leaf.has_record(record).then(|| leaf.edges.low.clone());
                let kept = low.and_then(|low| leaves.get_mut(low.borrow()));
                return kept.map(|kept| kept.retired.push(record)).is_some();
            }
        }
        false
    }

    /// The records that were retired together with frozen leaves.
    pub(crate) fn retired(&self) -> Vec<u64> {
        let at = self.at.read();
        at.values().flat_map(BTreeMap::values).flat_map(|kept| kept.retired.iter().copied()).collect()
    }

    /// Whether records were retired together with frozen leaves.
    pub(crate) fn has_retired(&self) -> bool {
        self.at.read().values().flat_map(BTreeMap::values).any(|kept| !kept.retired.is_empty())
    }

    /// Drops the frozen leaves that no open snapshot can see. `open`: their instants, ascending.
    pub(crate) fn thaw(&self, open: &[u64]) -> Thawed {
        let mut thawed = Thawed::default();
        // A thread that freezes a leaf for a snapshot has this lock before, or sees that another snapshot is the
        // newest.
        let mut at = self.at.write();
        // A slow thread may have frozen a leaf for a snapshot that was closed even before.
        let closed: Vec<u64> = at.keys().copied().filter(|instant| open.binary_search(instant).is_err()).collect();
        for instant in closed {
            let leaves = at.remove(&instant).unwrap_or_default();
            let older = open[..open.partition_point(|&other| other < instant)].last().copied();
            self.pass_on(leaves, older.map(|older| (older, at.entry(older).or_default())), &mut thawed);
        }
        thawed
    }

    /// Passes on leaves that were frozen for a snapshot that is closed to the next older one that is open. It sees
    /// those in them whose keys it has not frozen itself.
    ///
    /// # Complexity
    ///
    /// In proportion to the smaller of the two sets, and to what is given up: in whatever order snapshots are closed,
    /// no leaf is moved often.
    fn pass_on(&self, mut leaves: LeavesByLow<K>, older: Option<(u64, &mut LeavesByLow<K>)>, thawed: &mut Thawed) {
        let Some((older, own)) = older else {
            leaves.into_values().for_each(|kept| self.give_up(kept, &mut LeavesByLow::<K>::new(), thawed));
            return;
        };
        if own.len() < leaves.len() {
            let shared =
                own.values().flat_map(|kept| sharing(&leaves, &kept.leaf)).map(|kept| kept.leaf.edges.low.clone());
            for low in shared.collect::<Vec<_>>() {
                // Two leaves may share keys with the same one.
                if let Some(kept) = leaves.remove(low.borrow()) {
                    debug_assert!(kept.leaf.since >= older, "F2");
                    self.give_up(kept, own, thawed);
                }
            }
            debug_assert!(leaves.values().all(|kept| kept.leaf.since < older), "F2");
            std::mem::swap(own, &mut leaves);
            own.extend(leaves);
        } else {
            for (low, kept) in leaves {
                if kept.leaf.since < older {
                    let other = own.insert(low, kept);
                    debug_assert!(other.is_none(), "F3");
                } else {
                    self.give_up(kept, own, thawed);
                }
            }
        }
    }

    /// Gives up a leaf that no snapshot sees. Its records may be in leaves of the next older one.
    fn give_up(&self, KeptLeaf { leaf, retired }: KeptLeaf<K>, older: &mut LeavesByLow<K>, thawed: &mut Thawed) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        thawed.memory += leaf.memory();
        for record in retired {
            match other_with(older, &leaf, record) {
                Some(other) => other.retired.push(record),
                None => thawed.retired.push(record),
            }
        }
    }
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// The instant of the newest snapshot, for which a change [freezes](Self::freeze) its leaves; 0 if there is none. A
    /// change asks once, when it has locked all its leaves.
    #[inline(always)]
    pub(crate) fn newest(&self) -> u64 {
        if N::POLICY.in_snapshots { self.pool.instants.newest() } else { 0 }
    }

    /// Keeps a leaf as it is for the snapshot with this instant, if it has not changed since that was opened. Returns
    /// the stamp that the leaf has then; 0 if there is no snapshot.
    #[inline(always)]
    pub(crate) fn freeze(&self, node: &Locked<'_, N>, newest: u64) -> u64 {
        if newest == 0 { 0 } else { self.freeze_now(node, newest) }
    }

    #[cold]
    #[inline(never)]
    fn freeze_now(&self, node: &Locked<'_, N>, newest: u64) -> u64 {
        let stamp = self.stamp(node.at);
        let since = stamp.load(Ordering::Relaxed);
        if since >= newest || is_left_out(Validation::Frozen) {
            return since;
        }
        let view = node.view();
        let mut edges = Default::default();
        self.note_edges(&view, self.next_of(&view), &mut edges);
        let low = edges.low.clone();
        // A thread that is just ending may have none any more.
        let mut read = READ.try_with(Cell::take).unwrap_or_default();
        let count = self.entries_in(&view, N::Keys::ALL, &mut read);
        let leaf = Arc::new(FrozenLeaf { edges, entries: Box::from(&read[..count]), since });
        let _ = READ.try_with(|place| place.set(read));
        let mut at = self.frozen.at.write();
        // That snapshot may have been closed meanwhile. A newer one sees the change.
        let instant = newest.min(self.pool.instants.newest());
        if since < instant {
            stamp.store(instant, Ordering::Relaxed);
            self.frozen.count.fetch_add(1, Ordering::Relaxed);
            self.pool.instants.took(leaf.memory());
            let old = at.entry(instant).or_default().insert(low, KeptLeaf { leaf, retired: Vec::new() });
            debug_assert!(old.is_none(), "F3");
        }
        since.max(instant)
    }

    /// The stamp of a leaf; 0 in layouts that take no part in snapshots.
    pub(crate) fn stamp_of(&self, node: &Locked<'_, N>) -> u64 {
        if N::POLICY.in_snapshots { self.stamp(node.at).load(Ordering::Relaxed) } else { 0 }
    }

    /// Gives a new leaf, which takes over keys of another one, the stamp of that. Its block may have been another
    /// leaf's.
    pub(super) fn stamp_like(&self, new: &Locked<'_, N>, old: &Locked<'_, N>) {
        if N::POLICY.in_snapshots {
            self.stamp(new.at).store(self.stamp_of(old), Ordering::Relaxed);
        }
    }

    /// Gives two leaves, each of which takes over keys of the other, the greater one of their stamps: so no frozen leaf
    /// with keys of a leaf has a greater instant than the leaf's stamp. Both are frozen for the newest snapshot, so the
    /// stamps differ only if that is older than one which has just been closed.
    pub(super) fn stamp_both(&self, left: &Locked<'_, N>, right: &Locked<'_, N>) {
        if N::POLICY.in_snapshots {
            let stamp = self.stamp_of(left).max(self.stamp_of(right));
            [left, right].iter().for_each(|leaf| self.stamp(leaf.at).store(stamp, Ordering::Relaxed));
        }
    }

    /// Gives a leaf that takes over keys of frozen leaves only their stamp.
    pub(crate) fn stamp_frozen(&self, at: u64, newest: u64) {
        if newest != 0 {
            self.stamp(at).store(newest, Ordering::Relaxed);
        }
    }

    /// Whether a leaf is as it was when a snapshot was opened (F1).
    pub(crate) fn is_as_at(&self, view: &NodeView<'_, N>, instant: u64) -> bool {
        self.stamp(view.at).load(Ordering::Relaxed) < instant
    }
}
