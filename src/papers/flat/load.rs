//! Taking over the image of an orderly close: nodes are made from it one by one, when they are first needed.
//!
//! In the image, separators follow each other, so the number of a node tells which separators it begins with. A node
//! that is not made yet is all zeros. The separators of such an inner node are too low, which is allowed at any time: a
//! search that follows them comes too far right, to a parent whose lows are above the key, or that is not made, and
//! starts again. After some tries a reader takes the writer's lock, and makes the nodes on its way.
//!
//! The writer makes the nodes on its way first. A separator that it raises, or reads to know what a parent owns, is in
//! an inner node above that parent, so that inner node is made.

use super::FlatIndex;
use super::edit::FlatWriter;
use super::half::Numbering;
use super::not_loaded::{NodesMade, NotLoaded};
use crate::index::{ImageTop, IndexRoot, ReadNode};

impl FlatIndex {
    /// See [`restore`](Self::restore).
    pub(super) fn begin(&self, writer: &mut FlatWriter, top: ImageTop, source: ReadNode) -> bool {
        let len = usize::try_from(top.len).unwrap_or(usize::MAX);
        let Some(each) = self.halves[0].leaves_each(len).filter(|_| len > 0 && writer.generation == 0) else {
            return false;
        };
        let numbering = Numbering::over(len.div_ceil(each));
        writer.begin(1, numbering);
        writer.not_loaded = Some(NotLoaded::new(top, source, len, each));
        if self.load_nodes(writer, 0).is_none() {
            *writer = FlatWriter::default();
            return false;
        }
        self.root.set(Some(IndexRoot { id: writer.generation, height: numbering.levels }));
        true
    }

    /// Makes the nodes on the way to a key. `None`: the image is damaged.
    pub(super) fn load_nodes(&self, writer: &mut FlatWriter, key: u64) -> Option<()> {
        self.make(writer, |not_loaded, made| {
            let mut id = 0;
            while id < made.numbering.first {
                not_loaded.make_inner(made, id)?;
                id = made.half.next(id, key).ok()?;
            }
            let ordinal = id - made.numbering.first;
            let most = made.most(ordinal);
            not_loaded.make_parent(made, ordinal, most)?;
            not_loaded.make_neighbours(made, ordinal)
        })
    }

    /// Makes all nodes that are not made yet. `None`: the image is damaged.
    pub(super) fn load_all(&self, writer: &mut FlatWriter) -> Option<()> {
        self.make(writer, |not_loaded, made| {
            (0..made.numbering.inner()).try_for_each(|id| not_loaded.make_inner(made, id))?;
            (0..made.numbering.parents).try_for_each(|ordinal| {
                let most = made.most(ordinal);
                not_loaded.make_parent(made, ordinal, most)
            })
        })?;
        writer.not_loaded = None;
        Some(())
    }

    /// Runs `work`, which makes nodes, if there may be any that are not made, and counts them.
    fn make(
        &self,
        writer: &mut FlatWriter,
        work: impl FnOnce(&mut NotLoaded, &mut NodesMade<'_>) -> Option<()>,
    ) -> Option<()> {
        let Some(not_loaded) = &mut writer.not_loaded else { return Some(()) };
        let half = &self.halves[(writer.generation % 2) as usize];
        let mut made = NodesMade { half, numbering: writer.numbering, inner: 0, parents: 0 };
        work(not_loaded, &mut made)?;
        let NodesMade { inner, parents, .. } = made;
        writer.made(inner, parents);
        Some(())
    }
}
