//! The volatile index: from separators (the lows of leaves) to leaves, in DRAM.
//!
//! It is only an accelerator: the chain of leaves is the truth, and a caller that gets a leaf from here checks the
//! range that the leaf owns. So the index may lag behind splits. But every leaf that it returns was posted, and a leaf
//! that stays posted is never missed.
//!
//! It is a B+-tree of wide nodes, for one writer at a time and any number of readers, which write nothing:
//!
//! 1. Every node has a child; the lows ascend. In an inner node, the low of slot `i > 0` is the smallest separator
//!    under child `i`. Slot 0 stores no low: it begins where the node itself does, which the parent knows; the low of
//!    the first node of a level is 0. So the first separator of a tree that is not empty is 0, and `floor` finds its
//!    answer in the one bottom node that it reaches.
//! 2. Two neighbours under one parent hold more than `WIDTH / 2` entries together. So `n` separators take about
//!    `n / (WIDTH / 4)` nodes at worst, whatever was inserted and removed before.
//! 3. Nodes that leave the tree are used again, and freed only with the index. So the memory is what was needed at the
//!    largest tree there ever was (during `learn`, of the old and the new one).
//! 4. A change opens every node that it writes to or takes out of the tree, sets the root if need be, and then closes
//!    them all. Readers go hand over hand: they read a child's version *before* they check the parent's. If the parent
//!    has not changed by then, the version is from a time when the child was the right one, and so is every word read
//!    under it. If the child was changed or used again before, its version comes from a `close` that happened after the
//!    parent was opened by the same change or an earlier one, so the check fails. Therefore `floor` is linearizable.

mod arena;
mod edit;
mod image;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod node;
mod node_of_strings;
mod node_of_words;
#[cfg(all(test, not(bristlecone_loom)))]
mod string_tests;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;

use super::root::RootWord;
use super::separators::{Lows, Strings};
use super::version::{Moved, again};
use crate::arch::simd::{self, Compare, LaneSearch};
use crate::node::Words;
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering};
use arena::{Arena, Id};
use edit::{Edit, Gone, IndexWriter};
pub(crate) use image::{Bottom, ImageTop, ReadNode, image_of};
pub(crate) use node::{InNodes, RUN};
use node::{IndexNode, NOT_LOADED, NodeSlots};
use std::ops::ControlFlow;

/// The number of levels of an index that [learns](VolatileIndex::learn) this many separators, and its bytes.
pub(crate) fn built<S: InNodes>(separators: usize) -> (u64, u64) {
    let bottom = Some(separators.div_ceil(node::FILL)).filter(|&nodes| nodes > 0);
    let levels = std::iter::successors(bottom, |&nodes| (nodes > 1).then(|| nodes.div_ceil(node::FILL)));
    levels.fold((0, 0), |(levels, bytes), nodes| (levels + 1, bytes + (nodes * size_of::<S::Node>()) as u64))
}

/// Keys that are looked up side by side.
pub(crate) const GROUP: usize = 16;

/// Separators and their leaves. See the [module](self).
pub(crate) struct VolatileIndex<S: InNodes = Words> {
    separators: S,
    root: RootWord,
    len: AtomicUsize,
    arena: Arena<S::Node>,
    writer: Mutex<IndexWriter>,
    lost: AtomicBool,
    /// How often everything in it was replaced, or lost.
    replaced: AtomicUsize,
}

impl<S: InNodes> core::fmt::Debug for VolatileIndex<S> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("VolatileIndex").field("len", &self.len()).finish_non_exhaustive()
    }
}

super::in_memory! { VolatileIndex<S>, S: InNodes }

impl VolatileIndex {
    /// An index of words without separators.
    pub(crate) fn new() -> Self {
        Self::with_separators(Words)
    }
}

impl<F: Lows> VolatileIndex<Strings<F>>
where
    Strings<F>: InNodes,
{
    /// The separator with a name that is in the index.
    pub(crate) fn separator(&self, name: u64) -> Vec<u8> {
        self.separators.copy(name)
    }
}

impl<S: InNodes> VolatileIndex<S> {
    /// An index without separators.
    pub(crate) fn with_separators(separators: S) -> Self {
        let (root, len, writer) = (RootWord::new(), AtomicUsize::new(0), Mutex::new(IndexWriter::default()));
        let (lost, replaced) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { separators, root, len, arena: Arena::new(), writer, lost, replaced }
    }

    /// Bytes of memory that it takes, beside itself.
    pub(crate) fn bytes(&self) -> u64 {
        let mut writer = self.writer.lock();
        Edit::new(&self.separators, &self.arena, &self.root, &mut writer).memory()
    }

    /// The number of separators.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// The leaf of the greatest separator `<= key`; `None` if there is no separator.
    #[inline]
    pub(crate) fn floor(&self, key: S::Key<'_>) -> Option<u64> {
        match self.try_floor(key) {
            Ok(found) => found,
            Err(_) => self.floor_again(key),
        }
    }

    // Always inline: passing the result through memory costs 2 to 4 ns.
    #[inline(always)]
    fn try_floor(&self, key: S::Key<'_>) -> Result<Option<u64>, Moved> {
        simd::search(Descent { index: self, key, end: |node: &S::Node, slot, _| node.child(slot) })
    }

    #[cold]
    #[inline(never)]
    fn floor_again(&self, key: S::Key<'_>) -> Option<u64> {
        if let Some(found) = again(|| self.try_floor(key)) {
            return found;
        }
        let mut writer = self.writer.lock();
        self.edit(&mut writer, |edit| edit.load_nodes(key));
        self.try_floor(key).expect("nothing moves under the writer's lock")
    }

    /// Changes the tree. If the tree turns out to be damaged in the pool, forgets it; likewise if there is no memory
    /// for another node, since most of what was in the nodes then fits into fewer of them.
    fn edit<R: Default>(
        &self,
        writer: &mut IndexWriter,
        change: impl FnOnce(&mut Edit<'_, S>) -> Result<R, Gone>,
    ) -> R {
        let mut edit = Edit::new(&self.separators, &self.arena, &self.root, writer);
        edit.reserve().and_then(|()| change(&mut edit)).unwrap_or_else(|Gone| {
            edit.lose();
            self.len.store(0, Ordering::Relaxed);
            self.is_replaced();
            self.lost.store(true, Ordering::Release);
            R::default()
        })
    }

    /// Counts that everything in it was replaced, or as good as that.
    pub(crate) fn is_replaced(&self) {
        self.replaced.fetch_add(1, Ordering::Relaxed);
    }

    /// How often everything in it was replaced, or lost.
    pub(crate) fn replaced(&self) -> usize {
        self.replaced.load(Ordering::Relaxed)
    }

    /// Whether the tree was forgotten, because it was damaged in the pool or there was no memory: then all leaves must
    /// be learned anew.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Acquire)
    }

    /// Takes over the image of an index. `source` reads its nodes when they are needed. False if the image is damaged.
    pub(crate) fn restore(&self, top: ImageTop, source: ReadNode) -> bool {
        let mut writer = self.writer.lock();
        let restored = Edit::new(&self.separators, &self.arena, &self.root, &mut writer).restore(top, source);
        self.len.store(if restored { top.len as usize } else { 0 }, Ordering::Relaxed);
        self.is_replaced();
        restored
    }

    /// The leaf of the greatest separator `<= key`, if the first try finds it.
    #[inline(always)]
    pub(crate) fn floor_at_once(&self, key: S::Key<'_>) -> Option<u64> {
        self.try_floor(key).ok().flatten()
    }

    /// As `floor_at_once`, with what it takes to ask again.
    #[inline(always)]
    pub(crate) fn named_at_once(&self, key: S::Key<'_>) -> Option<Named<'_, S>> {
        simd::search(Descent { index: self, key, end: Named::at }).ok().flatten()
    }

    /// As `floor_at_once` for up to [`GROUP`] keys side by side, so that their memory accesses overlap.
    #[inline]
    pub(crate) fn floors_at_once(&self, keys: &[S::Key<'_>]) -> [Option<u64>; GROUP] {
        let keys = &keys[..keys.len().min(GROUP)];
        simd::search(Descents { index: self, keys, end: |node: &S::Node, slot, _| node.child(slot) })
    }

    /// As `named_at_once` for up to [`GROUP`] keys side by side.
    #[inline]
    pub(crate) fn nameds_at_once(&self, keys: &[S::Key<'_>]) -> [Option<Named<'_, S>>; GROUP] {
        simd::search(Descents { index: self, keys: &keys[..keys.len().min(GROUP)], end: Named::at })
    }

    /// The leaf of the greatest separator `<= key` and some of those after it, if the first try finds them. The others
    /// are only for prefetching: they may be any words.
    #[inline]
    pub(crate) fn run_at_once(&self, key: S::Key<'_>) -> Option<[u64; RUN]> {
        simd::search(Descent { index: self, key, end: |node: &S::Node, slot, _| node.run(slot) }).ok().flatten()
    }

    /// Posts the leaf of the separator named `low`, in place of the old one if there is one. An empty index takes only
    /// the name 0.
    pub(crate) fn post(&self, low: u64, leaf: u64) {
        let mut writer = self.writer.lock();
        // A forgotten index must learn all leaves, so a single one is not posted.
        if self.is_lost() {
            return;
        }
        if self.edit(&mut writer, |edit| edit.post(low, leaf)) {
            self.len.store(self.len() + 1, Ordering::Relaxed);
        }
    }

    /// Removes the separator named `low`, unless that is 0, and returns its leaf.
    pub(crate) fn withdraw(&self, low: u64) -> Option<u64> {
        let mut writer = self.writer.lock();
        let leaf = self.edit(&mut writer, |edit| edit.withdraw(low))?;
        self.len.store(self.len() - 1, Ordering::Relaxed);
        Some(leaf)
    }

    /// Replaces everything by `pairs` of name and leaf, whose separators ascend strictly from the one named 0. Readers
    /// see the old tree or the new one. If there is no memory for the new one, the index is [lost](Self::is_lost).
    ///
    /// `pairs` is iterated under the writer's lock, so it must not call back.
    pub(crate) fn learn(&self, pairs: impl ExactSizeIterator<Item = (u64, u64)>) {
        let mut writer = self.writer.lock();
        let learned = Edit::new(&self.separators, &self.arena, &self.root, &mut writer).learn(pairs);
        self.len.store(learned.unwrap_or(0), Ordering::Relaxed);
        self.lost.store(learned.is_none(), Ordering::Release);
        self.is_replaced();
    }

    /// Passes the name of every separator and its leaf to `f`, in order; false if a node that is still in the pool is
    /// damaged.
    ///
    /// `f` is called under the writer's lock, so it must not call back, except to read.
    pub(crate) fn for_each(&self, mut f: impl FnMut(u64, u64)) -> bool {
        let writer = self.writer.lock();
        let mut all = |low, leaf| {
            f(low, leaf);
            ControlFlow::Continue(())
        };
        self.root.get().is_none_or(|root| self.walk(&writer, (root.id, root.height, 0), None, &mut all).is_continue())
    }

    /// Passes up to `most` separators, from the first one on that is not less than `from`, to `f`, in order. Returns
    /// what `rest` makes of the name of the next one; `None` if there are no more. As an error: a node that is still in
    /// the pool is damaged.
    ///
    /// Both are called under the writer's lock, so they must not call back, except to read.
    pub(crate) fn copy<R>(
        &self,
        from: Option<S::Key<'_>>,
        most: usize,
        mut f: impl FnMut(u64, u64),
        rest: impl FnOnce(u64) -> R,
    ) -> Result<Option<R>, DamagedNode> {
        let writer = self.writer.lock();
        let Some(root) = self.root.get() else { return Ok(None) };
        let mut left = most;
        let mut each = |low, leaf| match left.checked_sub(1) {
            Some(less) => {
                left = less;
                f(low, leaf);
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(Some(low)),
        };
        match self.walk(&writer, (root.id, root.height, 0), from, &mut each) {
            ControlFlow::Continue(()) => Ok(None),
            ControlFlow::Break(Some(next)) => Ok(Some(rest(next))),
            ControlFlow::Break(None) => Err(DamagedNode),
        }
    }

    /// Passes the entries below a node, which is at a height and begins with the separator `least`, from the first one
    /// on that is not less than `from`. Breaks with nothing if a node that is still in the pool is damaged.
    fn walk(
        &self,
        writer: &IndexWriter,
        (id, height, least): (Id, usize, u64),
        from: Option<S::Key<'_>>,
        f: &mut impl FnMut(u64, u64) -> ControlFlow<Option<u64>>,
    ) -> ControlFlow<Option<u64>> {
        let entries: Vec<(u64, u64)> = if id & NOT_LOADED == 0 {
            let node = self.arena.node(id);
            (0..node.len()).map(|slot| node.entry(slot, least)).collect()
        } else {
            let loaded = writer.source.as_ref().and_then(|source| source(id & !NOT_LOADED, height as u64, false));
            let Some(entries) = loaded.filter(|entries| entries[0].0 == least) else { return ControlFlow::Break(None) };
            entries
        };
        let is_before = |entry: &(u64, u64), key| self.separators.order_of(entry.0, key);
        let mut from = from;
        let first = from.map_or(0, |key| match height {
            0 => entries.partition_point(|entry| is_before(entry, key).is_lt()),
            // The separator of slot 0 is where the node begins.
            _ => entries[1..].partition_point(|entry| is_before(entry, key).is_le()),
        });
        for &(low, child) in &entries[first..] {
            if height == 0 {
                f(low, child)?;
            } else {
                self.walk(writer, (child, height - 1, low), from.take(), f)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// A node of an image that is still in the pool is damaged.
#[derive(Debug)]
pub(crate) struct DamagedNode;

/// A leaf that the index named, and how to find out whether it still does.
pub struct Named<'i, S: InNodes> {
    leaf: u64,
    /// The bottom node.
    node: &'i S::Node,
    version: u64,
}

impl<S: InNodes> Clone for Named<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: InNodes> Copy for Named<'_, S> {}

impl<'i, S: InNodes> Named<'i, S> {
    #[inline(always)]
    fn at(node: &'i S::Node, slot: usize, version: u64) -> Self {
        Self { leaf: node.child(slot), node, version }
    }

    #[inline]
    pub(crate) fn leaf(&self) -> u64 {
        self.leaf
    }

    /// Whether the bottom node has not changed since. Then this is still the leaf of the greatest separator `<= key`,
    /// at a time after everything that the caller has read so far.
    ///
    /// Every change that gives the key another leaf writes to that bottom node, or takes it out of the tree: a new
    /// separator between this one and the key goes into it, and this one leaves it or gets its new leaf in it. The
    /// separators of its neighbours to the right only leave or come in after the key.
    #[inline]
    pub(crate) fn still(&self) -> bool {
        self.node.validate(self.version).is_ok()
    }
}

/// A descent from the root to the leaf of a key.
struct Descent<'i, 'k, S: InNodes, E> {
    index: &'i VolatileIndex<S>,
    key: S::Key<'k>,
    /// What to make of the slot at its end, and of the version of its node.
    end: E,
}

impl<'i, R, S: InNodes, E: Fn(&'i S::Node, usize, u64) -> R> LaneSearch for Descent<'i, '_, S, E> {
    type Found = Result<Option<R>, Moved>;

    #[inline(always)]
    fn by(self, compare: impl Compare) -> Self::Found {
        let Self { index, key, end } = self;
        let Some(root) = index.root.get() else { return Ok(None) };
        let mut node = index.arena.get(root.id)?;
        let mut version = node.optimistic_read()?;
        index.root.validate(root)?;
        let mut known = S::Known::default();
        for _ in 0..root.height {
            let slot = node.slot_of(&index.separators, key, &mut known, version, compare);
            let child = index.arena.get(node.child(slot))?;
            child.touch();
            let entered = child.optimistic_read()?;
            node.validate(version)?;
            (node, version) = (child, entered);
        }
        let slot = node.slot_of(&index.separators, key, &mut known, version, compare);
        let found = end(node, slot, version);
        node.validate(version)?;
        Ok(Some(found))
    }
}

/// The descents to the leaves of several keys.
struct Descents<'i, 'a, 'k, S: InNodes, E> {
    index: &'i VolatileIndex<S>,
    keys: &'a [S::Key<'k>],
    /// What to make of the slot at the end of each, and of the version of its node.
    end: E,
}

impl<'i, R, S: InNodes, E: Fn(&'i S::Node, usize, u64) -> R> LaneSearch for Descents<'i, '_, '_, S, E> {
    type Found = [Option<R>; GROUP];

    #[inline(always)]
    fn by(self, compare: impl Compare) -> Self::Found {
        let Self { index, keys, end } = self;
        let mut found = [const { None }; GROUP];
        let begin = || {
            let root = index.root.get()?;
            let node = index.arena.get(root.id).ok()?;
            let version = node.optimistic_read().ok()?;
            index.root.validate(root).ok()?;
            Some((root.height, node, version))
        };
        let Some((height, node, version)) = begin() else { return found };
        // A descent that met a change ends: `None`.
        let mut ways = [Some((node, version)); GROUP];
        let mut children = [None; GROUP];
        let mut known = [S::Known::default(); GROUP];
        for _ in 0..height {
            for (((way, child), known), &key) in ways.iter().zip(&mut children).zip(&mut known).zip(keys) {
                *child = way.and_then(|(node, version)| {
                    let slot = node.slot_of(&index.separators, key, known, version, compare);
                    index.arena.get(node.child(slot)).ok()
                });
                if let Some(child) = child {
                    child.touch_all();
                }
            }
            for (way, child) in ways.iter_mut().zip(children).take(keys.len()) {
                *way = way.zip(child).and_then(|((node, version), child)| {
                    let entered = child.optimistic_read().ok()?;
                    node.validate(version).ok()?;
                    Some((child, entered))
                });
            }
        }
        for (((way, found), known), &key) in ways.iter().zip(&mut found).zip(&mut known).zip(keys) {
            *found = way.and_then(|(node, version)| {
                let slot = node.slot_of(&index.separators, key, known, version, compare);
                let found = end(node, slot, version);
                node.validate(version).ok().map(|()| found)
            });
        }
        found
    }
}
