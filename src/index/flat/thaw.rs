//! Taking over the image of an orderly close: nodes are made from it one by one, when somebody comes to them.
//!
//! In the image, separators follow each other, so which of them a node begins with follows from its number. A node that was not
//! made yet is all zeros. The separators of an inner node then are too low, which they may be at any time: who goes by
//! them comes too far right, to a parent whose lows are above the key, or that is not made, and starts again. At last a
//! reader takes the writer's lock, and makes what is on its way.
//!
//! The writer makes what is on its way first; so a separator is never raised before its node is made.

use super::FlatSeparators;
use super::edit::Writer;
use super::half::{FAN, Half, Shape, UNIT, above, child, fork};
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

    fn make_parent(&mut self, half: &Half, ordinal: usize) -> Option<bool> {
        let new = half.parent(ordinal).is_err();
        if new {
            let entries = self.entries(ordinal)?;
            half.place(ordinal, (ordinal, 1)).learn(&entries);
        }
        Some(new)
    }

    fn make_inner(&mut self, half: &Half, shape: Shape, id: usize) -> Option<bool> {
        let new = half.is_blank(id);
        if new {
            let mut separators = Vec::with_capacity(UNIT);
            for ordinal in (1..FAN).map(|k| shape.begins_with(child(id, k))).take_while(|&it| it < shape.parents) {
                separators.push(self.image.get(ordinal * self.each)?.0.checked_sub(1)?);
            }
            if !separators.is_sorted_by(|a, b| a < b) {
                return None;
            }
            half.separate(id, &separators);
        }
        Some(new)
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
        let Writer { frozen: Some(frozen), shape, generation, .. } = writer else { return Some(()) };
        let half = &self.halves[(*generation % 2) as usize];
        let mut id = 0;
        let mut inner = 0;
        while id < shape.first {
            inner += usize::from(frozen.make_inner(half, *shape, id)?);
            id = half.next(id, key).ok()?;
        }
        let parents = usize::from(frozen.make_parent(half, id - shape.first)?);
        writer.made(inner, parents);
        Some(())
    }

    /// Makes the inner node that has the separator in front of a parent.
    pub(super) fn thaw_separator(&self, writer: &mut Writer, ordinal: usize) -> Option<()> {
        let Writer { frozen: Some(frozen), shape, generation, .. } = writer else { return Some(()) };
        if ordinal < shape.parents {
            let half = &self.halves[(*generation % 2) as usize];
            let (node, _) = above(fork(shape.first + ordinal));
            let inner = usize::from(frozen.make_inner(half, *shape, node)?);
            writer.made(inner, 0);
        }
        Some(())
    }

    /// Makes all that is not made yet.
    pub(super) fn thaw_all(&self, writer: &mut Writer) -> Option<()> {
        let Writer { frozen: Some(frozen), shape, generation, .. } = writer else { return Some(()) };
        let half = &self.halves[(*generation % 2) as usize];
        let (mut inner, mut parents) = (0, 0);
        for id in 0..shape.inner() {
            inner += usize::from(frozen.make_inner(half, *shape, id)?);
        }
        for ordinal in 0..shape.parents {
            parents += usize::from(frozen.make_parent(half, ordinal)?);
        }
        writer.made(inner, parents);
        writer.frozen = None;
        Some(())
    }
}
