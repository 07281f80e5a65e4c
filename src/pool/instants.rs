//! The instants of open snapshots, of all trees of a pool.
//!
//! A snapshot sees the changes that have looked for the newest snapshot before it was opened, and no others. A change
//! looks with the locks of all its leaves held, and then freezes each of them, as it still is, if it has not done so
//! since that snapshot was opened. So opening a snapshot waits for nobody: a reader that finds a leaf unlocked after
//! that also finds all changes in it that the snapshot sees, and any later change finds the snapshot. That needs one
//! total order of four accesses: a writer locks a leaf, then loads `newest`; a snapshot stores `newest`, then its
//! readers load the word of the lock.
//!
//! A writer that [owns](crate::sync::bias) its locks passes only a light fence between the two. So a snapshot passes a
//! heavy one after its store. Until then, others may see the instant while a change that has looked before still has
//! its lock to itself: they would act on what comes after the snapshot, and read what comes before that change.
//! Therefore the instant is marked as *opening*, and a thread that sees the mark passes the heavy fence in turn.
//!
//! A transaction that writers do not let compare what it has read opens a [`Moment`]: a snapshot of its own, of which
//! nobody else knows. It is given up before any other one, whenever it is in the way.

mod moments;

pub(crate) use moments::Moment;

use crate::error::{ErrorKind, Fault};
use crate::pool::OpenTree;
use crate::sync::delay::{Validation, delay, is_left_out};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, asymmetric, fence, sequentially_consistent};
use crossbeam_utils::CachePadded;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The mark of an instant whose heavy fence may still be under way.
const OPENING: u64 = 1 << 63;

/// Open trees by their slots.
type Trees = BTreeMap<u16, Arc<OpenTree>>;

/// The instants of open snapshots.
pub(crate) struct Instants {
    /// The instant of the newest snapshot, perhaps marked as [`OPENING`]; 0 if none is open.
    newest: AtomicU64,
    /// Whether frozen leaves take more memory than they may.
    is_over: AtomicBool,
    /// Bytes of memory that frozen leaves take. Changes write to it, and all of them read `newest`: not in one line.
    memory: CachePadded<AtomicU64>,
    limit: u64,
    open: Mutex<Open>,
}

struct Open {
    /// The last instant that was given to a snapshot. None is given twice.
    last: u64,
    /// The open snapshots, by their instants.
    snapshots: BTreeMap<u64, OpenSnapshot>,
    /// Trees that stay open because snapshots may need what they have frozen.
    trees: Trees,
    /// How many snapshots were given up because of the limit.
    expired: u64,
}

struct OpenSnapshot {
    is_expired: Arc<AtomicBool>,
    /// Whether it is a transaction's [`Moment`].
    is_moment: bool,
}

/// Numbers about the snapshots of a pool. See [`Pool::snapshots`](crate::Pool::snapshots).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshots {
    /// How many are open.
    pub open: u64,
    /// Bytes of memory that they take now, together with those of [transactions](crate::Transaction).
    pub memory: u64,
    /// How many have [expired](crate::ErrorKind::SnapshotTooOld) since the pool was opened.
    pub expired: u64,
}

impl Instants {
    /// No snapshot is open. Frozen leaves may take `limit` bytes of memory.
    pub(crate) fn new(limit: u64) -> Self {
        let open = Open { last: 0, snapshots: BTreeMap::new(), trees: Trees::new(), expired: 0 };
        Self {
            newest: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            memory: CachePadded::new(AtomicU64::new(0)),
            limit,
            open: Mutex::new(open),
        }
    }

    /// The instant of the newest snapshot; 0 if none is open. A change looks once, when it has locked all its leaves.
    #[inline(always)]
    pub(crate) fn newest(&self) -> u64 {
        if !is_left_out(Validation::Newest) {
            sequentially_consistent();
        }
        let newest = self.newest.load(Ordering::SeqCst);
        if newest & OPENING == 0 { newest } else { Self::opening(newest) }
    }

    /// The instant of a snapshot that another thread is just opening.
    #[cold]
    #[inline(never)]
    fn opening(newest: u64) -> u64 {
        asymmetric::heavy();
        newest & !OPENING
    }

    /// The last instant that was given to a snapshot, which may be closed.
    pub(crate) fn last(&self) -> u64 {
        self.open.lock().last
    }

    /// Notes that a frozen leaf takes so many bytes of memory.
    pub(crate) fn took(&self, bytes: u64) {
        if self.memory.fetch_add(bytes, Ordering::Relaxed) + bytes > self.limit {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Notes that so many bytes are free again.
    pub(crate) fn gave_back(&self, bytes: u64) {
        self.memory.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether frozen leaves take more memory than they may.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// The fault of reading from a snapshot that was given up.
    pub(crate) fn too_old(&self) -> Fault {
        ErrorKind::SnapshotTooOld { limit: self.limit }.into()
    }

    /// Opens a snapshot. `trees` are all trees that are open. Returns its instant, and the flag that will say that it
    /// has expired.
    pub(crate) fn open(&self, trees: impl Iterator<Item = (u16, Arc<OpenTree>)>) -> (u64, Arc<AtomicBool>) {
        self.open_for(false, trees)
    }

    fn open_for(&self, is_moment: bool, trees: impl Iterator<Item = (u16, Arc<OpenTree>)>) -> (u64, Arc<AtomicBool>) {
        let mut open = self.open.lock();
        open.last += 1;
        let (instant, is_expired) = (open.last, Arc::new(AtomicBool::new(false)));
        open.snapshots.insert(instant, OpenSnapshot { is_expired: Arc::clone(&is_expired), is_moment });
        for (slot, tree) in trees {
            open.trees.entry(slot).or_insert(tree);
        }
        self.newest.store(instant | OPENING, Ordering::SeqCst);
        delay();
        // Between this store and all loads of this snapshot. A change passes only a light fence between locking and
        // looking.
        if !is_left_out(Validation::Heavy) {
            asymmetric::heavy();
        }
        self.newest.store(instant, Ordering::SeqCst);
        delay();
        (instant, is_expired)
    }

    /// Notes that a tree was opened. While a snapshot may need it, it stays open.
    pub(super) fn keep(&self, slot: u16, tree: &Arc<OpenTree>) {
        if self.newest() != 0 {
            let mut open = self.open.lock();
            if !open.snapshots.is_empty() {
                open.trees.entry(slot).or_insert_with(|| Arc::clone(tree));
            }
        }
    }

    /// Whether transactions have snapshots of their own.
    pub(crate) fn has_moments(&self) -> bool {
        self.newest() != 0 && self.open.lock().oldest_moment().is_some()
    }

    /// Forgets what none of the open snapshots sees.
    fn thaw(&self, open: &mut Open) {
        let instants: Vec<u64> = open.snapshots.keys().copied().collect();
        self.newest.store(instants.last().copied().unwrap_or(0), Ordering::SeqCst);
        delay();
        open.trees.values().for_each(|tree| tree.thaw(&instants));
    }
}

impl Open {
    /// The oldest snapshot of a transaction.
    fn oldest_moment(&self) -> Option<u64> {
        self.snapshots.iter().find(|(_, snapshot)| snapshot.is_moment).map(|(&instant, _)| instant)
    }

    /// Lets a snapshot expire: before anything changes that is not frozen for it, and before what was frozen for it
    /// goes.
    fn expire(&mut self, instant: u64) {
        if let Some(OpenSnapshot { is_expired, is_moment }) = self.snapshots.remove(&instant) {
            is_expired.store(true, Ordering::SeqCst);
            self.expired += u64::from(!is_moment);
        }
    }

    /// Takes out the trees that need not stay open. The caller holds the lock of the catalogue: so nobody gets another
    /// handle to a tree, and this is the only one.
    fn take_unneeded(&mut self) -> Trees {
        let oldest = self.snapshots.first_key_value().map(|(&oldest, _)| oldest);
        let has_others = |tree: &Arc<OpenTree>| {
            let has_others = Arc::strong_count(tree) > 1;
            // After what was done with the other handles.
            fence(Ordering::Acquire);
            has_others
        };
        let is_needed =
            |tree: &Arc<OpenTree>| oldest.is_some_and(|oldest| has_others(tree) || tree.is_in_snapshots_since(oldest));
        let (needed, unneeded) = std::mem::take(&mut self.trees).into_iter().partition(|(_, tree)| is_needed(tree));
        self.trees = needed;
        unneeded
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn who_sees_an_opening_passes_the_heavy_fence() {
        let instants = Instants::new(u64::MAX);
        let looked = || {
            let before = asymmetric::passed();
            (instants.newest(), asymmetric::passed() - before)
        };
        assert_eq!(looked(), (0, 0));
        instants.newest.store(7 | OPENING, Ordering::SeqCst);
        assert_eq!(looked(), (7, 1));
        let before = asymmetric::passed();
        let (instant, _) = instants.open(std::iter::empty());
        assert_eq!(asymmetric::passed() - before, 1);
        assert_eq!(looked(), (instant, 0));
    }
}
