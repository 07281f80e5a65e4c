//! The part of an image of an orderly close that is not made into nodes yet.

use super::half::{FAN, Half, Numbering, child};
use super::parent::UNIT;
use crate::index::{Bottom, ImageTop, ReadNode};

/// The part of an image that is still to be made.
pub(super) struct NotLoaded {
    image: Bottom,
    /// The number of separators in the image.
    len: usize,
    /// How many leaves each parent begins with.
    each: usize,
}

impl NotLoaded {
    pub(super) fn new(top: ImageTop, source: ReadNode, len: usize, each: usize) -> Self {
        Self { image: Bottom::new(top, source), len, each }
    }

    /// The first entries of a parent. `None`: the image is damaged.
    pub(super) fn entries(&mut self, ordinal: usize) -> Option<Vec<(u64, u64)>> {
        let first = ordinal * self.each;
        let entries: Option<Vec<_>> =
            (first..self.len.min(first + self.each)).map(|number| self.image.get(number)).collect();
        entries.filter(|entries| entries.is_sorted_by(|(a, _), (b, _)| a < b) && (ordinal > 0 || entries[0].0 == 0))
    }

    /// Makes a parent, if it is not made yet; its lows must not be above `most`, the word of a separator. `None`: the
    /// image is damaged.
    pub(super) fn make_parent(&mut self, made: &mut NodesMade<'_>, ordinal: usize, most: u64) -> Option<()> {
        if made.half.parent(ordinal).is_err() {
            let entries = self.entries(ordinal).filter(|entries| entries.iter().all(|&(low, _)| low <= most))?;
            made.half.place(ordinal, (ordinal, 1)).learn(&entries);
            made.parents += 1;
        }
        Some(())
    }

    /// Makes the parents whose leaves are in the same node of the image as those of this parent, because that node has
    /// been read already. It leaves out a parent that may be followed by leaves of another node of the image, because
    /// it was not checked that these ascend.
    pub(super) fn make_neighbours(&mut self, made: &mut NodesMade<'_>, ordinal: usize) -> Option<()> {
        let (first, behind) = Bottom::beside(ordinal * self.each);
        let mut ordinals = first.div_ceil(self.each)..(behind - 1).min(self.len) / self.each;
        ordinals.try_for_each(|ordinal| self.make_parent(made, ordinal, u64::MAX))
    }

    /// Makes an inner node, if it is not made yet. `None`: the image is damaged.
    pub(super) fn make_inner(&mut self, made: &mut NodesMade<'_>, id: usize) -> Option<()> {
        let NodesMade { half, numbering, .. } = *made;
        if half.is_blank(id) {
            let mut separators = Vec::with_capacity(UNIT);
            for ordinal in
                (1..FAN).map(|k| numbering.begins_with(child(id, k))).take_while(|&it| it < numbering.parents)
            {
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

/// The nodes of a half, and how many of them were made.
pub(super) struct NodesMade<'h> {
    pub(super) half: &'h Half,
    pub(super) numbering: Numbering,
    pub(super) inner: usize,
    pub(super) parents: usize,
}

impl NodesMade<'_> {
    /// The word of the separator behind a parent whose inner nodes are made.
    pub(super) fn most(&self, ordinal: usize) -> u64 {
        self.half.least(self.numbering, ordinal + 1)
    }
}
