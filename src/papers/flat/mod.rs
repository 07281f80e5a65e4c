//! The flat index: from separators (the lows of leaves) to leaves, in DRAM, in nodes without pointers. It can take the
//! place of the [volatile index](crate::index).
//!
//! ```text
//! inner   ids 0, 1, 2 ... | root | level 1 | level 2 | ...      a node: 2m separators; child k of i: i(2m + 1) + 1 + k
//! places  ordinals 0, 1 ..| place | place | place | ...         where a parent is, and how large
//! units   | parent | parent | a parent that was enlarged | ...  a parent: version, length, lows and leaves
//! ```
//!
//! The ids of the parents of leaves follow those of the inner nodes; a parent's id minus that of the first parent is
//! its ordinal. Within a node, separators are searched by binary search. All of this exists twice, in two
//! [halves](half::Half). When a leaf does not fit into its parent, all leaves are spread over new nodes in the other
//! half, with one leaf in each parent, while searches go on in this half.
//!
//! The index is for one writer at a time and any number of readers, which write nothing. `s(p)` is the separator in
//! front of parent `p`. It is in the one inner node where the ways to `p - 1` and to `p` part:
//!
//! 1. Within a generation, no node is added or removed, no place changes, and separators only rise. In every inner node
//!    they ascend (not strictly); those behind the last child are above all keys.
//! 2. A parent with leaves owns the lows from `s(p)`, which is the first low it has, up to the next separator. The
//!    first parent owns the lows from 0, and has the separator 0 as long as there is any.
//! 3. A parent without leaves owns nothing: its separator equals the next one, and it never gets a leaf again. (In an
//!    inner node below which there is no leaf at all, separators may be lower: the one in front of that node leads past
//!    it.)
//! 4. Every parent has room for more than what a rebuild puts into it.
//!
//! A separator rises when the first leaf of its parent is removed: the range between the old and the new separator goes
//! to the left. A reader that still saw the lower separator comes to a parent that has no low `<=` its key, and starts
//! again.
//!
//! Why `floor` is linearizable: let `low` be the greatest low in the parent that is `<= key`, while the parent has the
//! version that is read before the search in it and checked after it. All that time, no low in the parent is between
//! `low` and the key. Lows further left are below `s(p) <= low`, by 2. Lows further right are not below a separator
//! that was above the key before, and by 1 still is. So `low` is the floor at every moment in between. All of this
//! belongs to one generation: a half is rewritten only after a change of the root word, which holds the number of the
//! generation and is checked last. As to what came before and after: a writer opens a parent before it removes a low,
//! and raises separators before it closes the parent. A reader that saw a risen separator, or a low that was put
//! further left because of it, finds the parent open, or the low gone.
//!
//! # Source
//!
//! Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-Adaptive Tree Structure for Non-Volatile
//! Memory", IEEE Transactions on Computers 65 (2016). The paper does not say how parents lose leaves; rising separators
//! are this crate's own.
//!
//! # What differs
//!
//! In the paper, inner nodes are as large as leaves. Here they have 1 KiB, whatever the size of the leaves.

mod edit;
mod half;
mod load;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod not_loaded;
mod parent;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;

use crate::index::{GROUP, ImageTop, IndexRoot, Moved, RUN, ReadNode, RootWord, again};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use edit::FlatWriter;
pub(crate) use edit::Heat;
use half::Half;
use parent::Parent;
use std::io;

pub(crate) use half::built;

/// Rebuilds that happened because a parent was full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rebuilds {
    /// How many there were.
    pub(crate) count: u64,
    /// The time that they took in all.
    pub(crate) nanoseconds: u64,
}

/// Separators and their leaves. See the [module](self).
pub(crate) struct FlatIndex {
    /// Its height is the number of levels of inner nodes.
    root: RootWord,
    len: AtomicUsize,
    /// The nodes of even and of odd generations.
    halves: [Half; 2],
    writer: Mutex<FlatWriter>,
    adaptive: bool,
    lost: AtomicBool,
}

impl core::fmt::Debug for FlatIndex {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlatIndex").field("len", &self.len()).finish_non_exhaustive()
    }
}

crate::index::in_memory! { FlatIndex }

impl FlatIndex {
    /// An index without separators, with room for `most`. If it is `adaptive`, parents that take more separators than
    /// others are enlarged by a rebuild.
    ///
    /// # Errors
    ///
    /// There is not enough address space.
    pub(crate) fn new(most: u64, adaptive: bool) -> io::Result<Self> {
        let halves = [Half::new(most, adaptive)?, Half::new(most, adaptive)?];
        let (root, len, writer) = (RootWord::new(), AtomicUsize::new(0), Mutex::new(FlatWriter::default()));
        Ok(Self { root, len, halves, writer, adaptive, lost: AtomicBool::new(false) })
    }

    /// Bytes of memory in use.
    pub(crate) fn bytes(&self) -> u64 {
        self.writer.lock().bytes()
    }

    /// The number of separators.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Whether parents that take many separators are enlarged.
    pub(crate) fn is_adaptive(&self) -> bool {
        self.adaptive
    }

    /// The number of rebuilds so far, and what they cost.
    pub(crate) fn rebuilds(&self) -> Rebuilds {
        self.writer.lock().rebuilds
    }

    /// The leaf of the greatest separator `<= key`; `None` if there is no separator.
    #[inline]
    pub(crate) fn floor(&self, key: u64) -> Option<u64> {
        match self.try_floor(key) {
            Ok(found) => found,
            Err(_) => self.floor_again(key),
        }
    }

    #[inline]
    fn try_floor(&self, key: u64) -> Result<Option<u64>, Moved> {
        self.search(key, |_, _, parent, slot| parent.leaf(slot))
    }

    #[cold]
    #[inline(never)]
    fn floor_again(&self, key: u64) -> Option<u64> {
        if let Some(found) = again(|| self.try_floor(key)) {
            return found;
        }
        let mut writer = self.writer.lock();
        self.unless_damaged(&mut writer, |writer| self.load_nodes(writer, key));
        self.try_floor(key).expect("nothing moves under the writer's lock")
    }

    /// Does some work on the nodes. If the image that they are made from turns out to be damaged, forgets them.
    fn unless_damaged<R: Default>(
        &self,
        writer: &mut FlatWriter,
        work: impl FnOnce(&mut FlatWriter) -> Option<R>,
    ) -> R {
        work(writer).unwrap_or_else(|| {
            self.root.set(None);
            writer.not_loaded = None;
            self.len.store(0, Ordering::Relaxed);
            self.lost.store(true, Ordering::Release);
            R::default()
        })
    }

    /// Whether an image turned out to be damaged and everything was forgotten: then all leaves must be learned anew.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Takes over the image of an index while this one is still empty. `source` reads the image's nodes when they are
    /// needed. False if the image is damaged, or too large.
    pub(crate) fn restore(&self, top: ImageTop, source: ReadNode) -> bool {
        let mut writer = self.writer.lock();
        let restored = self.begin(&mut writer, top, source);
        self.len.store(if restored { top.len as usize } else { 0 }, Ordering::Relaxed);
        restored
    }

    /// The leaf of the greatest separator `<= key`, if the first try finds it.
    // Never inline, so that it does not slow down callers with another index.
    #[inline(never)]
    pub(crate) fn floor_at_once(&self, key: u64) -> Option<u64> {
        self.try_floor(key).ok().flatten()
    }

    /// As `floor_at_once` for up to [`GROUP`] keys. The searches do not depend on each other, so the CPU overlaps them.
    #[inline(never)]
    pub(crate) fn floors_at_once(&self, keys: &[u64]) -> [Option<u64>; GROUP] {
        core::array::from_fn(|i| self.floor_at_once(*keys.get(i)?))
    }

    /// The leaf of the greatest separator `<= key` and some of those after it, if the first try finds them. The others
    /// are only for prefetching: they may be any words.
    #[inline]
    pub(crate) fn run_at_once(&self, key: u64) -> Option<[u64; RUN]> {
        let run = |half: &Half, ordinal: usize, parent: Parent<'_>, slot: usize| {
            let here = (slot..parent.len()).map(|slot| parent.leaf(slot));
            // No further than that: behind many parents without leaves there is nothing worth prefetching.
            let right = (ordinal + 1..ordinal + RUN).map_while(|ordinal| half.parent(ordinal).ok());
            let behind = right.flat_map(|parent| (0..parent.len()).map(move |slot| parent.leaf(slot)));
            let mut run = [0; RUN];
            run.iter_mut().zip(here.chain(behind)).for_each(|(to, leaf)| *to = leaf);
            run
        };
        match self.search(key, run) {
            Ok(found) => found,
            Err(Moved::Written) => None,
            // Otherwise a scan would find nothing to prefetch, however often it came by.
            Err(Moved::NotLoaded) => {
                let mut writer = self.writer.try_lock()?;
                self.unless_damaged(&mut writer, |writer| self.load_nodes(writer, key));
                self.search(key, run).ok().flatten()
            }
        }
    }

    /// Goes to the parent and the slot of the greatest separator `<= key`. `end` may see a torn state, and then its
    /// result is discarded.
    #[inline]
    fn search<R>(&self, key: u64, end: impl Fn(&Half, usize, Parent<'_>, usize) -> R) -> Result<Option<R>, Moved> {
        let Some(root) = self.root.get() else { return Ok(None) };
        let half = self.half(root);
        let ordinal = half.ordinal(root.height, key)?;
        let parent = half.parent(ordinal)?;
        let version = parent.version().optimistic_read()?;
        let found = parent.slot(key).map(|slot| end(half, ordinal, parent, slot));
        parent.version().validate(version)?;
        // After the fence.
        self.root.validate(root)?;
        found.map(Some).ok_or(Moved::NotLoaded)
    }

    /// The nodes below a root.
    #[inline]
    fn half(&self, root: IndexRoot) -> &Half {
        &self.halves[(root.id % 2) as usize]
    }

    /// Posts the leaf of `low`, in place of the old one if there is one. An empty index takes only the low 0. If there
    /// is no room, nothing happens: then the index lags.
    pub(crate) fn post(&self, low: u64, leaf: u64) {
        self.post_with(low, leaf, Heat::Posts);
    }

    /// Posts the leaf of `low`, in place of the old one if there is one. An empty index takes only the low 0. If there
    /// is no room, nothing happens: then the index lags. `heat` tells which parents a rebuild enlarges. It is asked
    /// under the writer's lock, so it must not call back.
    pub(crate) fn post_with(&self, low: u64, leaf: u64, heat: Heat<'_>) {
        let mut writer = self.writer.lock();
        // A forgotten index must learn all leaves, so a single one is not posted.
        if self.is_lost() {
            return;
        }
        if self.unless_damaged(&mut writer, |writer| self.post_locked(writer, low, leaf, heat)) {
            self.len.store(self.len() + 1, Ordering::Relaxed);
        }
    }

    /// Removes `low`, unless it is 0, and returns its leaf.
    pub(crate) fn withdraw(&self, low: u64) -> Option<u64> {
        let mut writer = self.writer.lock();
        let leaf = self.unless_damaged(&mut writer, |writer| self.withdraw_locked(writer, low))?;
        self.len.store(self.len() - 1, Ordering::Relaxed);
        Some(leaf)
    }

    /// Replaces everything by `pairs` of low and leaf, whose lows ascend strictly from 0. Readers see the old index or
    /// the new one. If there is not enough room, the last pairs are left out.
    ///
    /// `pairs` is iterated under the writer's lock, so it must not call back.
    pub(crate) fn learn(&self, pairs: impl ExactSizeIterator<Item = (u64, u64)>) {
        let mut writer = self.writer.lock();
        let len = self.learn_locked(&mut writer, pairs);
        self.len.store(len, Ordering::Relaxed);
        self.lost.store(false, Ordering::Release);
    }

    /// Passes every separator and its leaf to `f`, in order; false if the part that is still in the image is damaged.
    ///
    /// `f` is called under the writer's lock, so it must not call back.
    pub(crate) fn for_each(&self, mut f: impl FnMut(u64, u64)) -> bool {
        let mut writer = self.writer.lock();
        let Some(root) = self.root.get() else { return true };
        let half = self.half(root);
        (0..writer.numbering.parents).all(|ordinal| match (half.parent(ordinal), &mut writer.not_loaded) {
            (Ok(parent), _) => {
                parent.entries().for_each(|(low, leaf)| f(low, leaf));
                true
            }
            (Err(_), Some(not_loaded)) => not_loaded
                .entries(ordinal)
                .map(|entries| entries.into_iter().for_each(|(low, leaf)| f(low, leaf)))
                .is_some(),
            (Err(_), None) => unreachable!("all parents are there"),
        })
    }
}
