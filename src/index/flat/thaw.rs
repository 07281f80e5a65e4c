//! Taking over the image of an orderly close: nodes are made from it one by one, when somebody comes to them.
//!
//! In the image, separators follow each other, so which of them a node begins with follows from its number. A node that was not
//! made yet is all zeros. The separators of an inner node then are too low, which they may be at any time: who goes by
//! them comes too far right, to a parent whose lows are above the key, or that is not made, and starts again. At last a
//! reader takes the writer's lock, and makes what is on its way.
//!
//! The writer makes what is on its way first. A separator that it raises, or looks at to know what a parent owns, is in an inner
//! node above that parent: so it is made.

use super::FlatSeparators;
use super::edit::Writer;
use super::half::{FAN, Half, Shape, UNIT, child};
use crate::index::root::Root;
use crate::index::volatile::{Bottom, Source, Top};

/// What there is still to be made.
pub(super) struct Frozen {
    image: Bottom,
    /// Separators in the image.
    len: usize,
    /// Leaves that each parent begins with.
    each: usize,
}

impl Frozen {
    /// What a parent begins with. `None`: it is damaged.
    pub(super) fn entries(&mut self, ordinal: usize) -> Option<Vec<(u64, u64)>> {
        let first = ordinal * self.each;
        let entries: Option<Vec<_>> =
            (first..self.len.min(first + self.each)).map(|number| self.image.get(number)).collect();
        entries.filter(|entries| entries.is_sorted_by(|(a, _), (b, _)| a < b) && (ordinal > 0 || entries[0].0 == 0))
    }

    /// Makes a parent, if it is not made yet, whose lows are up to the word of a separator. `None`: it is damaged.
    fn make_parent(&mut self, made: &mut Made<'_>, ordinal: usize, most: u64) -> Option<()> {
        if made.half.parent(ordinal).is_err() {
            let entries = self.entries(ordinal).filter(|entries| entries.iter().all(|&(low, _)| low <= most))?;
            made.half.place(ordinal, (ordinal, 1)).learn(&entries);
            made.parents += 1;
        }
        Some(())
    }

    /// Makes the parents whose leaves are in one node of the image with those of this one, for they are at hand; but not one
    /// that may be followed by those of another node, because that these ascend was not seen.
    fn make_neighbours(&mut self, made: &mut Made<'_>, ordinal: usize) -> Option<()> {
        let (first, behind) = Bottom::beside(ordinal * self.each);
        let mut ordinals = first.div_ceil(self.each)..(behind - 1).min(self.len) / self.each;
        ordinals.try_for_each(|ordinal| self.make_parent(made, ordinal, u64::MAX))
    }

    /// Makes an inner node, if it is not made yet. `None`: it is damaged.
    fn make_inner(&mut self, made: &mut Made<'_>, id: usize) -> Option<()> {
        let Made { half, shape, .. } = *made;
        if half.is_blank(id) {
            let mut separators = Vec::with_capacity(UNIT);
            for ordinal in (1..FAN).map(|k| shape.begins_with(child(id, k))).take_while(|&it| it < shape.parents) {
                separators.push(self.image.get(ordinal * self.each)?.0.checked_sub(1)?);
            }
            if !separators.is_sorted_by(|a, b| a < b) {
                return None;
            }
            half.separate(id, &separators);
            made.inner += 1;
        }
        Some(())
    }
}

/// Nodes of a half, and how many of them were made.
struct Made<'h> {
    half: &'h Half,
    shape: Shape,
    inner: usize,
    parents: usize,
}

impl Made<'_> {
    /// The word of the separator behind a parent below inner nodes that are made.
    fn most(&self, ordinal: usize) -> u64 {
        self.half.least(self.shape, ordinal + 1)
    }
}

impl FlatSeparators {
    /// See [`restore`](Self::restore).
    pub(super) fn begin(&self, writer: &mut Writer, top: Top, source: Source) -> bool {
        let len = usize::try_from(top.len).unwrap_or(usize::MAX);
        let Some(each) = self.halves[0].leaves_each(len).filter(|_| len > 0 && writer.generation == 0) else {
            return false;
        };
        let shape = Shape::over(len.div_ceil(each));
        writer.begin(1, shape);
        writer.frozen = Some(Frozen { image: Bottom::new(top, source), len, each });
        if self.thaw(writer, 0).is_none() {
            *writer = Writer::default();
            return false;
        }
        self.root.set(Some(Root { id: writer.generation, height: shape.levels }));
        true
    }

    /// Makes what is on the way to a key. `None`: the image is damaged.
    pub(super) fn thaw(&self, writer: &mut Writer, key: u64) -> Option<()> {
        self.make(writer, |frozen, made| {
            let mut id = 0;
            while id < made.shape.first {
                frozen.make_inner(made, id)?;
                id = made.half.next(id, key).ok()?;
            }
            let ordinal = id - made.shape.first;
            let most = made.most(ordinal);
            frozen.make_parent(made, ordinal, most)?;
            frozen.make_neighbours(made, ordinal)
        })
    }

    /// Makes all that is not made yet. `None`: the image is damaged.
    pub(super) fn thaw_all(&self, writer: &mut Writer) -> Option<()> {
        self.make(writer, |frozen, made| {
            (0..made.shape.inner()).try_for_each(|id| frozen.make_inner(made, id))?;
            (0..made.shape.parents).try_for_each(|ordinal| {
                let most = made.most(ordinal);
                frozen.make_parent(made, ordinal, most)
            })
        })?;
        writer.frozen = None;
        Some(())
    }

    /// Makes nodes, if there may be any that are not, and counts them.
    fn make(&self, writer: &mut Writer, work: impl FnOnce(&mut Frozen, &mut Made<'_>) -> Option<()>) -> Option<()> {
        let Some(frozen) = &mut writer.frozen else { return Some(()) };
        let half = &self.halves[(writer.generation % 2) as usize];
        let mut made = Made { half, shape: writer.shape, inner: 0, parents: 0 };
        work(frozen, &mut made)?;
        let Made { inner, parents, .. } = made;
        writer.made(inner, parents);
        Some(())
    }
}
