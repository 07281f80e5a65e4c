//! One change of the tree, made by the writer under its lock.

use super::arena::{Arena, Id, Spare};
use super::image::{ImageTop, ReadNode};
use super::node::{FILL, InNodes, IndexNode, NOT_LOADED, NodeSlots, WIDTH};
use crate::index::root::{IndexRoot, RootWord};
use std::cmp::Ordering;

/// What the writer keeps from one change to the next.
#[derive(Default)]
pub(super) struct IndexWriter {
    pub(super) spare: Spare,
    /// The nodes that the change has opened.
    open: Vec<Id>,
    /// From the root down: each node, and the slot that leads on or that holds the separator.
    path: Vec<(Id, usize)>,
    /// Reads nodes that are still in the pool.
    pub(super) source: Option<ReadNode>,
}

/// The tree must be forgotten: a node that is still in the pool is damaged, so it cannot be trusted, or there is no
/// memory.
#[derive(Debug)]
pub(super) struct Gone;

/// A change under way. It opens nodes as it meets them, and closes them all together when it is dropped, so a reader
/// sees none or all of it.
pub(super) struct Edit<'a, S: InNodes> {
    separators: &'a S,
    arena: &'a Arena<S::Node>,
    root: &'a RootWord,
    writer: &'a mut IndexWriter,
}

impl<S: InNodes> Drop for Edit<'_, S> {
    fn drop(&mut self) {
        self.close();
    }
}

impl<'a, S: InNodes> Edit<'a, S> {
    pub(super) fn new(
        separators: &'a S,
        arena: &'a Arena<S::Node>,
        root: &'a RootWord,
        writer: &'a mut IndexWriter,
    ) -> Self {
        Self { separators, arena, root, writer }
    }

    fn open(&mut self, id: Id) -> &'a S::Node {
        let node = self.arena.node(id);
        if node.open() {
            self.writer.open.push(id);
        }
        node
    }

    fn close(&mut self) {
        for id in self.writer.open.drain(..) {
            self.arena.node(id).close();
        }
    }

    /// Makes room for the nodes that one change of the tree may take: for each level, one that is loaded from the pool,
    /// if there is a source, and one that a split makes; and a root. A tree of one node that is not full takes none.
    pub(super) fn reserve(&self) -> Result<(), Gone> {
        let nodes = match self.root.get() {
            None => 1,
            Some(IndexRoot { id, height: 0 }) if self.arena.node(id).len() < WIDTH => 0,
            Some(IndexRoot { height, .. }) => height + 2 + if self.writer.source.is_some() { height + 1 } else { 0 },
        };
        self.writer.spare.reserve(self.arena, nodes).map_err(|_| Gone)
    }

    /// Bytes of memory that the writer keeps, and the nodes.
    pub(super) fn memory(&self) -> u64 {
        let IndexWriter { spare, open, path, .. } = &*self.writer;
        let lists = open.capacity() * size_of::<Id>() + path.capacity() * size_of::<(Id, usize)>();
        self.arena.resident() + spare.memory() + lists as u64
    }

    /// Takes a spare node, which stays open. Its content is arbitrary.
    fn open_spare(&mut self) -> (Id, &'a S::Node) {
        let id = self.writer.spare.take_spare(self.arena);
        (id, self.open(id))
    }

    /// Takes a spare node and fills it with `entries`; it stays open.
    fn make(&mut self, entries: impl Iterator<Item = (u64, u64)>) -> Id {
        let (id, node) = self.open_spare();
        node.fill(self.separators, entries);
        id
    }

    /// Gives back a node that leaves the tree. Opening it changes its version: a reader that is in it must not go on to
    /// its children, which may have become something else.
    fn give(&mut self, id: Id) {
        self.open(id);
        self.writer.spare.give(id);
    }

    /// The child at a slot of a node at this height; it is loaded from the pool if need be. `least` is the low of slot
    /// 0.
    fn child(&mut self, id: Id, slot: usize, height: usize, least: u64) -> Result<Id, Gone> {
        let parent = self.arena.node(id);
        let (low, child) = parent.entry(slot, least);
        if child & NOT_LOADED == 0 {
            return Ok(child);
        }
        let source = self.writer.source.as_ref().ok_or(Gone)?;
        let entries = source(child & !NOT_LOADED, height as u64 - 1, true).ok_or(Gone)?;
        if entries[0].0 != low {
            return Err(Gone);
        }
        let child = self.make(entries.into_iter());
        self.open(id).set_child(slot, child);
        Ok(child)
    }

    /// Begins a tree with the root of an image. False if the image is damaged, or there is no memory.
    pub(super) fn restore(&mut self, top: ImageTop, source: ReadNode) -> bool {
        let Some(entries) = top.nodes.checked_sub(1).and_then(|root| source(root, top.height, true)) else {
            return false;
        };
        if entries[0].0 != 0 || self.root.get().is_some() || self.reserve().is_err() {
            return false;
        }
        let id = self.make(entries.into_iter());
        self.writer.source = Some(source);
        self.root.set(Some(IndexRoot { id, height: top.height as usize }));
        true
    }

    /// Loads the nodes from the pool that a search for the key passes.
    pub(super) fn load_nodes(&mut self, key: S::Key<'_>) -> Result<(), Gone> {
        if let Some(root) = self.root.get() {
            self.descend(root, key)?;
        }
        Ok(())
    }

    /// Forgets the tree.
    pub(super) fn lose(&mut self) {
        self.replace(None);
    }

    /// Replaces the tree by another one, or by none; nothing of the old tree is loaded from the pool any longer.
    fn replace(&mut self, root: Option<IndexRoot>) {
        let old = self.root.get();
        self.root.set(root);
        if let Some(old) = old {
            self.give_tree(old);
        }
        self.writer.source = None;
    }

    /// Records the path to `key`; returns the bottom node, the slot of the greatest separator `<= key`, and its name.
    fn descend(&mut self, root: IndexRoot, key: S::Key<'_>) -> Result<(&'a S::Node, usize, u64), Gone> {
        self.writer.path.clear();
        let (mut id, mut found, mut known) = (root.id, 0, S::Known::default());
        for height in (0..=root.height).rev() {
            let node = self.arena.node(id);
            let slot = node.slot(self.separators, key, &mut known);
            self.writer.path.push((id, slot));
            if slot > 0 {
                found = node.name(slot);
            }
            if height == 0 {
                return Ok((node, slot, found));
            }
            id = self.child(id, slot, height, found)?;
        }
        unreachable!("the last height is 0")
    }

    /// Inserts `low`. True if it is new; false if only its leaf was replaced, or if there is no tree to insert it into.
    pub(super) fn post(&mut self, low: u64, leaf: u64) -> Result<bool, Gone> {
        let Some(root) = self.root.get() else {
            if low > 0 {
                return Ok(false);
            }
            let id = self.make([(low, leaf)].into_iter());
            self.root.set(Some(IndexRoot { id, height: 0 }));
            return Ok(true);
        };
        let (found, is_new) = self.separators.with_key(low, |key| {
            let (_, _, found) = self.descend(root, key)?;
            Ok((found, self.separators.order_of(found, key) != Ordering::Equal))
        })?;
        if !is_new && found != low {
            // Another leaf begins with the same separator, which has a new name from now on.
            self.relabel(low);
        }
        let (id, slot) = self.writer.path.pop().expect("a path has an end");
        if !is_new {
            self.open(id).set_child(slot, leaf);
            return Ok(false);
        }
        let mut split = self.insert_entry(id, slot + 1, (low, leaf));
        while let Some(entry) = split {
            split = match self.writer.path.pop() {
                Some((id, slot)) => self.insert_entry(id, slot + 1, entry),
                None => {
                    let id = self.make([(0, root.id), entry].into_iter());
                    self.root.set(Some(IndexRoot { id, height: root.height + 1 }));
                    None
                }
            };
        }
        Ok(true)
    }

    /// Inserts `entry` at slot `at`, not 0. If that splits the node, returns the entry of the new right node.
    fn insert_entry(&mut self, id: Id, at: usize, entry: (u64, u64)) -> Option<(u64, u64)> {
        let node = self.open(id);
        let len = node.len();
        if len < WIDTH {
            node.insert(self.separators, at, len, entry);
            return None;
        }
        let is_last = self.writer.path.last().is_none_or(|&(id, slot)| slot + 1 == self.arena.node(id).len());
        if at == WIDTH && is_last {
            // Ascending inserts leave full nodes behind. (A neighbour to the right might be as small.)
            let id = self.make([entry].into_iter());
            return Some((entry.0, id));
        }
        let cut = WIDTH / 2;
        let low = node.name(cut);
        let (id, right) = self.open_spare();
        node.split(self.separators, cut, right);
        if at <= cut {
            node.insert(self.separators, at, cut, entry);
        } else {
            right.insert(self.separators, at - cut, WIDTH - cut, entry);
        }
        Some((low, id))
    }

    /// Removes `low`, unless it is the first separator of all, and returns its leaf.
    pub(super) fn withdraw(&mut self, low: u64) -> Result<Option<u64>, Gone> {
        let Some(root) = self.root.get() else { return Ok(None) };
        let (bottom, slot, found) = self.separators.with_key(low, |key| self.descend(root, key))?;
        if found != low || low == 0 {
            return Ok(None);
        }
        let leaf = bottom.child(slot);
        // A node with one child is removed with it, and so is its entry in the parent. The loop ends, because an
        // ancestor has another child: the first separator of all stays.
        loop {
            let (id, slot) = self.writer.path.pop().expect("the first separator of all stays");
            let node = self.open(id);
            let len = node.len();
            if len == 1 {
                self.give(id);
                continue;
            }
            if slot == 0 {
                self.relabel(node.name(1));
            }
            node.remove(slot, len);
            self.merge(len - 1);
            self.lower_root()?;
            return Ok(Some(leaf));
        }
    }

    /// The end of the path now begins with `low`: updates the node of the path that stores its low.
    fn relabel(&mut self, low: u64) {
        if let Some(&(id, slot)) = self.writer.path.iter().rfind(|(_, slot)| *slot > 0) {
            self.open(id).relabel(self.separators, slot, low);
        }
    }

    /// Keeps two neighbours together above half a node: starts with the child at the end of the path, which has `len`
    /// entries, and goes upwards.
    fn merge(&mut self, mut len: usize) {
        while len < WIDTH / 2 {
            let Some((id, slot)) = self.writer.path.pop() else { return };
            let (parent, arena) = (self.arena.node(id), self.arena);
            let children = parent.len();
            // The neighbours. Those that are still in the pool count as full.
            let len_of = |slot: usize| match parent.child(slot) {
                child if child & NOT_LOADED == 0 => arena.node(child).len(),
                _ => WIDTH,
            };
            let small = |left: &usize| len_of(*left) + len_of(left + 1) <= WIDTH / 2;
            let Some(at) = (slot.saturating_sub(1)..children - 1).take(2).filter(|left| *left <= slot).find(small)
            else {
                return;
            };
            self.open(id);
            let left = self.open(parent.child(at));
            let (low, right_id) = parent.entry(at + 1, 0);
            let right = self.open(right_id);
            left.absorb(self.separators, right, low);
            parent.remove(at + 1, children);
            self.give(right_id);
            len = children - 1;
        }
    }

    /// Removes roots with one child.
    fn lower_root(&mut self) -> Result<(), Gone> {
        while let Some(IndexRoot { id, height: height @ 1.. }) = self.root.get() {
            let node = self.arena.node(id);
            if node.len() > 1 {
                break;
            }
            let child = self.child(id, 0, height, 0)?;
            self.root.set(Some(IndexRoot { id: child, height: height - 1 }));
            self.give(id);
        }
        Ok(())
    }

    /// Replaces the tree by one made of `pairs`, whose lows ascend strictly; returns their number. If there is no
    /// memory for it, forgets the tree: `None`.
    pub(super) fn learn(&mut self, pairs: impl ExactSizeIterator<Item = (u64, u64)>) -> Option<usize> {
        let levels =
            std::iter::successors(Some(pairs.len().div_ceil(FILL)), |&nodes| (nodes > 1).then(|| nodes.div_ceil(FILL)));
        if self.writer.spare.reserve(self.arena, levels.sum()).is_err() {
            self.lose();
            return None;
        }
        let mut count = 0;
        let mut last = None;
        let mut level = self.level(pairs.inspect(|pair| {
            let last = last.replace(pair.0);
            debug_assert!(last.is_none_or(|last| last < pair.0 || !S::NAMES_ASCEND), "separators must ascend");
            count += 1;
        }));
        let mut height = 0;
        while level.len() > 1 {
            level = self.level(level.into_iter());
            height += 1;
        }
        self.replace(level.first().map(|&(_, id)| IndexRoot { id, height }));
        Some(count)
    }

    /// Makes nodes of `FILL` entries each, the last one with fewer; returns their entries for the level above.
    fn level(&mut self, entries: impl ExactSizeIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
        let mut above = Vec::with_capacity(entries.len().div_ceil(FILL));
        let mut entries = entries.peekable();
        while let Some(&(low, _)) = entries.peek() {
            let id = self.make(entries.by_ref().take(FILL));
            self.close(); // no tree contains it yet
            above.push((low, id));
        }
        above
    }

    /// Gives back a tree that is no longer the root, from the top down: before a child can become something else, the
    /// version of its parent has changed.
    fn give_tree(&mut self, root: IndexRoot) {
        let mut level = vec![root.id];
        for height in (0..=root.height).rev() {
            let mut below = Vec::new();
            for id in level {
                let node = self.arena.node(id);
                if height > 0 {
                    below.extend((0..node.len()).map(|slot| node.child(slot)).filter(|child| child & NOT_LOADED == 0));
                }
                self.give(id);
                self.close();
            }
            level = below;
        }
    }
}
