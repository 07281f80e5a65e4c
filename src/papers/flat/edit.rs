//! What the writer does under its lock.

use super::half::{FAN, Numbering, above, child, fork};
use super::not_loaded::NotLoaded;
use super::parent::{Parent, UNIT};
use super::{FlatIndex, Rebuilds};
use crate::index::IndexRoot;
use crate::sync::{Ordering, fence};
use std::time::Instant;

/// What the writer keeps from one change to the next.
#[derive(Default)]
pub(super) struct FlatWriter {
    /// The generation of the current nodes, or of the last ones if there are none.
    pub(super) generation: u64,
    pub(super) numbering: Numbering,
    /// For each inner node the number of parents below it that have leaves.
    pub(super) live: Vec<usize>,
    /// The most bytes that were ever in use in each half.
    bytes: [u64; 2],
    pub(super) rebuilds: Rebuilds,
    /// The source of nodes that are not made yet, if there are any.
    pub(super) not_loaded: Option<NotLoaded>,
}

impl FlatWriter {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Begins a generation in which all parents have leaves.
    pub(super) fn begin(&mut self, generation: u64, numbering: Numbering) {
        let (inner, behind) = (numbering.inner(), numbering.first + numbering.parents);
        self.live.clear();
        self.live.resize(inner, 0);
        for id in (0..inner).rev() {
            let children = child(id, 0)..child(id, FAN);
            self.live[id] = if children.start >= numbering.first {
                children.end.min(behind) - children.start
            } else {
                self.live[children.start.min(inner)..children.end.min(inner)].iter().sum()
            };
        }
        (self.generation, self.numbering) = (generation, numbering);
    }

    /// Adds the bytes of nodes that were made.
    pub(super) fn made(&mut self, inner: usize, parents: usize) {
        let words = (inner + parents) * UNIT + parents;
        self.bytes[(self.generation % 2) as usize] += (words * size_of::<u64>()) as u64;
    }
}

/// What makes a parent hot, so that a rebuild enlarges it.
#[derive(Clone, Copy)]
pub(crate) enum Heat<'h> {
    /// The leaves that were posted to it.
    Posts,
    /// The writes of the leaves that this tells about, by their offsets.
    Writes(&'h dyn Fn(u64) -> u64),
}

impl Heat<'_> {
    fn total(self, parent: Parent<'_>) -> u64 {
        match self {
            Self::Posts => parent.posts(),
            Self::Writes(of_leaf) => parent.entries().map(|(_, leaf)| of_leaf(leaf)).sum(),
        }
    }
}

impl FlatIndex {
    /// All parents, in order; all of them must be made.
    pub(super) fn parents<'s>(&'s self, writer: &FlatWriter) -> impl Iterator<Item = Parent<'s>> + use<'s> {
        let parents = self.root.get().map_or(0, |_| writer.numbering.parents);
        let half = &self.halves[(writer.generation % 2) as usize];
        (0..parents).map(|ordinal| half.parent(ordinal).expect("all parents are there"))
    }

    /// The parent that owns the low, and the slot of the greatest low that is not above it.
    fn owner(&self, root: IndexRoot, low: u64) -> (usize, Parent<'_>, usize) {
        let half = self.half(root);
        let ordinal = half.ordinal(root.height, low).expect("all inner nodes are there");
        let parent = half.parent(ordinal).expect("all parents are there");
        (ordinal, parent, parent.slot(low).expect("what owns a low has one that is not greater"))
    }

    /// Inserts `low`. True if it is new; false if only its leaf was replaced, or if there is no room; `None` if the
    /// image is damaged.
    pub(super) fn post_locked(&self, writer: &mut FlatWriter, low: u64, leaf: u64, heat: Heat<'_>) -> Option<bool> {
        let Some(root) = self.root.get() else {
            return Some(low == 0 && self.learn_locked(writer, std::iter::once((low, leaf))) == 1);
        };
        self.load_nodes(writer, low)?;
        let (_, parent, slot) = self.owner(root, low);
        let new = parent.low(slot) != low;
        if new && parent.len() == parent.room() {
            return if self.spread(writer, heat)? { self.post_locked(writer, low, leaf, heat) } else { Some(false) };
        }
        parent.version().open();
        parent.post(slot + usize::from(new), (low, leaf), new);
        parent.version().close();
        Some(new)
    }

    /// Removes `low`, unless it is 0, and returns its leaf. `None` if the image is damaged.
    pub(super) fn withdraw_locked(&self, writer: &mut FlatWriter, low: u64) -> Option<Option<u64>> {
        let Some(root) = self.root.get() else { return Some(None) };
        self.load_nodes(writer, low)?;
        let (ordinal, parent, slot) = self.owner(root, low);
        let (found, leaf) = parent.entry(slot);
        if found != low || low == 0 {
            return Some(None);
        }
        parent.version().open();
        parent.remove(slot);
        if slot == 0 {
            let least = match parent.entries().next() {
                Some((low, _)) => low - 1,
                None => {
                    let mut id = writer.numbering.first + ordinal;
                    while id > 0 {
                        (id, _) = above(id);
                        writer.live[id] -= 1;
                    }
                    self.half(root).least(writer.numbering, ordinal + 1)
                }
            };
            self.raise(root, writer, ordinal, least);
        }
        parent.version().close();
        Some(Some(leaf))
    }

    /// Raises the separator in front of a parent, and the separators in front of the parents before it that have no
    /// leaves, because a search that came to those would find nothing. It goes from right to left, so that separators
    /// ascend all the time.
    ///
    /// If there is no leaf below an inner node, raising the node's own separator is enough. So the number of steps is
    /// at most the number of children of two inner nodes on each level.
    fn raise(&self, root: IndexRoot, writer: &FlatWriter, ordinal: usize, word: u64) {
        let (half, first) = (self.half(root), writer.numbering.first);
        let has_leaves = |id: usize| match id.checked_sub(first) {
            // No parent that is not made yet was emptied.
            Some(ordinal) => half.parent(ordinal).map_or(true, |parent| parent.len() > 0),
            None => writer.live[id] > 0,
        };
        let mut id = first + ordinal;
        loop {
            id = fork(id);
            half.raise(id, word);
            // The node to the left; if there are leaves below that one, the largest node at its right end that has
            // none.
            id -= 1;
            while has_leaves(id) {
                if id >= first {
                    return;
                }
                id = child(id, FAN - 1);
            }
        }
    }

    /// Replaces everything by `pairs`, or by as many of them as there is room for; returns how many it took.
    pub(super) fn learn_locked(
        &self,
        writer: &mut FlatWriter,
        pairs: impl ExactSizeIterator<Item = (u64, u64)>,
    ) -> usize {
        let len = pairs.len().min(self.halves[0].most_leaves());
        match self.halves[0].leaves_each(len) {
            Some(each) if len > 0 => self.build(writer, len, each, pairs.map(|pair| (pair, 1))),
            _ => {
                self.root.set(None);
                writer.not_loaded = None;
            }
        }
        len
    }

    /// Spreads all leaves over new parents. False if there is no room for that; `None` if the image is damaged.
    fn spread(&self, writer: &mut FlatWriter, heat: Heat<'_>) -> Option<bool> {
        let start = Instant::now();
        let len = self.len();
        let Some(each) = self.halves[0].leaves_each(len) else { return Some(false) };
        self.load_all(writer)?;
        let heats: Vec<u64> = self.parents(writer).map(|parent| heat.total(parent)).collect();
        let (parents, all) = (heats.len() as u64, heats.iter().sum::<u64>());
        // Entries from a parent that is hotter than the average get one unit more than that parent had.
        let units = |(parent, heat): (Parent<'_>, u64)| if heat * parents > all { parent.units() + 1 } else { 1 };
        let with_heats = || self.parents(writer).zip(heats.iter().copied());
        let wanted = with_heats().map(|(parent, heat)| parent.len() * units((parent, heat))).sum();
        let enlarge = self.adaptive && each == 1 && self.halves[0].has_room(wanted);
        let entries = self.parents(writer).zip(heats.iter().copied()).flat_map(|(parent, heat)| {
            let units = if enlarge { units((parent, heat)) } else { 1 };
            parent.entries().map(move |entry| (entry, units))
        });
        self.build(writer, len, each, entries);
        writer.rebuilds.count += 1;
        writer.rebuilds.nanoseconds += start.elapsed().as_nanos() as u64;
        Some(true)
    }

    /// Makes the nodes of the next generation from `len` entries and the units of their parents, with `each` entries
    /// per parent, and then the root.
    fn build(
        &self,
        writer: &mut FlatWriter,
        len: usize,
        each: usize,
        entries: impl Iterator<Item = ((u64, u64), usize)>,
    ) {
        // A reader that sees a word of the new nodes also sees that the root no longer leads to the nodes that were
        // here.
        fence(Ordering::Release);
        let generation = writer.generation + 1;
        let half = &self.halves[(generation % 2) as usize];
        let numbering = Numbering::over(len.div_ceil(each));
        let mut last = None;
        let mut entries = entries.take(len).inspect(|&((low, _), _)| {
            debug_assert!(last.replace(low).map_or(low == 0, |last| last < low), "separators must ascend from 0");
        });
        let mut start = 0;
        for ordinal in 0..numbering.parents {
            let (entry, units) = entries.next().expect("as many as were promised");
            let rest = entries.by_ref().take(each - 1).map(|(entry, _)| entry);
            half.make(numbering, ordinal, entry.0, (start, units)).fill(std::iter::once(entry).chain(rest));
            start += units;
        }
        half.end(numbering);
        writer.begin(generation, numbering);
        writer.not_loaded = None;
        let bytes = &mut writer.bytes[(generation % 2) as usize];
        *bytes = numbering.bytes(start).max(*bytes);
        self.root.set(Some(IndexRoot { id: generation, height: numbering.levels }));
    }
}
