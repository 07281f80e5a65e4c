//! Images of the trees of a pool: what makes them, and what was found of the one that the last process has made
//! (`docs/images.md`).
//!
//! ```text
//! image    | trees | tree ... |
//! tree     | slot of its root | words | what the tree says of itself |
//! ```

use super::PoolState;
use crate::medium::{FoundImage, ImageMaker, Made, Medium, NamedLines};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

/// A copy of an index that is being made, bit by bit. What changes meanwhile may be in it or not.
#[derive(Debug, Default)]
pub struct IndexCopy {
    /// The separator to go on with; all of it is still to be copied, if there is none.
    pub(crate) from: Option<Vec<u8>>,
    /// Names and leaves so far, from left to right.
    pub(crate) leaves: Vec<(u64, u64)>,
}

impl IndexCopy {
    /// How many are copied at a time.
    pub(crate) const PART: usize = if cfg!(test) { 3 } else { 1024 };

    /// Notes the separator to go on with. Returns true if there is none.
    pub(crate) fn goes_on(&mut self, from: Option<Vec<u8>>) -> bool {
        self.from = from;
        self.from.is_none()
    }
}

/// An image of one tree that is being made.
pub(crate) struct TreeCopy {
    /// How often the index had been replaced at the beginning.
    pub(crate) replaced: usize,
    pub(crate) index: IndexCopy,
    /// Whether all of the index was copied.
    pub(crate) is_indexed: bool,
    /// How many classes of blocks were copied.
    pub(crate) classes: usize,
    /// What the tree says of itself, but for the index.
    pub(crate) words: Vec<u64>,
}

impl TreeCopy {
    /// Adds all that the tree says of itself.
    fn write(self, words: &mut Vec<u64>) {
        let leaves = self.index.leaves;
        let len = self.words.len() + 1 + leaves.len() * 2;
        words.reserve_exact(len + 1);
        words.push(len as u64);
        words.extend(self.words);
        words.push(leaves.len() as u64);
        words.extend(leaves.iter().flat_map(|&(name, leaf)| [name, leaf]));
    }
}

/// A tree of which images are made.
pub(crate) trait Imaged: Send + Sync {
    /// How many leaves an index in memory knows.
    fn leaves(&self) -> u64;

    /// Begins an image of the tree, which no thread changes now. `None`: there can be none at the moment.
    fn begin_image(&self) -> Option<TreeCopy>;

    /// Goes on with it for a while. Returns true when all of it was copied.
    fn copy_image(&self, copy: &mut TreeCopy) -> bool;

    /// Whether the image is one of the tree, which no thread changes now.
    fn end_image(&self, copy: &TreeCopy) -> bool;
}

/// The place of a tree among those of which images are made, until the tree is closed.
pub(crate) struct Seat {
    slot: u16,
    /// Locked while the tree is looked at, so that a close waits for that. The tree is not kept open.
    tree: Mutex<Option<Sitting>>,
}

/// A tree that has not left its seat.
struct Sitting(NonNull<dyn Imaged>);

// SAFETY: it is only dereferenced, and what it points to is `Sync`.
unsafe impl Send for Sitting {}

impl Seat {
    /// Applies `look` to the tree, if it is still there.
    fn with<R>(&self, look: impl FnOnce(&dyn Imaged) -> R) -> Option<R> {
        let tree = self.tree.lock();
        // SAFETY: the tree leaves its seat before it goes, which waits for this lock.
        tree.as_ref().map(|tree| look(unsafe { tree.0.as_ref() }))
    }

    /// Empties the seat. Waits for a thread that looks at the tree.
    pub(crate) fn leave(&self) {
        *self.tree.lock() = None;
    }
}

/// The trees of which images are made.
#[derive(Default)]
pub(crate) struct Seats(Mutex<Vec<Arc<Seat>>>);

impl Seats {
    /// Gives a tree a seat.
    ///
    /// # Safety
    ///
    /// The tree lies where it does until it has [left](Seat::leave) its seat.
    pub(crate) unsafe fn take(&self, slot: u16, tree: &(dyn Imaged + 'static)) -> Arc<Seat> {
        let seat = Arc::new(Seat { slot, tree: Mutex::new(Some(Sitting(NonNull::from(tree)))) });
        let mut seats = self.0.lock();
        seats.retain(|seat| seat.tree.lock().is_some());
        seats.push(Arc::clone(&seat));
        seat
    }

    fn all(&self) -> Vec<Arc<Seat>> {
        self.0.lock().clone()
    }
}

/// Makes images of the trees that have seats.
struct Maker(Arc<Seats>);

impl ImageMaker for Maker {
    fn make(&self, worth: Range<u64>, at_rest: &dyn Fn(&mut dyn FnMut()) -> bool) -> Made {
        let seats = self.0.all();
        let leaves = seats.iter().filter_map(|seat| seat.with(|tree| tree.leaves())).sum::<u64>();
        if leaves == 0 || !worth.contains(&leaves) {
            return Made::NotWorthIt;
        }
        let mut copies: Vec<(&Seat, TreeCopy)> = Vec::new();
        let begun = at_rest(&mut || {
            let begin = |seat: &Arc<Seat>| seat.with(|tree| tree.begin_image()).flatten();
            copies = seats.iter().filter_map(|seat| Some((&**seat, begin(seat)?))).collect();
        });
        if !begun {
            return Made::NotNow;
        }
        copies.retain_mut(|(seat, copy)| {
            loop {
                match seat.with(|tree| tree.copy_image(copy)) {
                    Some(false) => {}
                    done => return done.is_some(),
                }
            }
        });
        let ended = at_rest(&mut || {
            copies.retain(|(seat, copy)| seat.with(|tree| tree.end_image(copy)) == Some(true));
        });
        if !ended {
            return Made::NotNow;
        }
        if copies.is_empty() {
            return Made::NotNow;
        }
        let mut words = vec![copies.len() as u64];
        for (seat, copy) in copies {
            words.push(u64::from(seat.slot));
            copy.write(&mut words);
        }
        Made::Image(words)
    }
}

/// What the image that was found says of one tree.
pub(crate) struct TreeImage {
    words: Arc<Vec<u64>>,
    own: Range<usize>,
    pub(crate) named: Arc<NamedLines>,
}

impl TreeImage {
    pub(crate) fn words(&self) -> &[u64] {
        &self.words[self.own.clone()]
    }
}

/// What was found of an image, until its trees are opened.
#[derive(Default)]
pub(super) struct Found {
    words: Arc<Vec<u64>>,
    /// Where the words of each tree are.
    trees: HashMap<u16, Range<usize>>,
    named: Arc<NamedLines>,
}

impl Found {
    /// `None`: the image is damaged.
    fn read(FoundImage { words, named }: FoundImage) -> Option<Self> {
        let mut trees = HashMap::new();
        let mut at = 1;
        for _ in 0..*words.first()? {
            let &[slot, len] = words.get(at..at + 2)?.first_chunk()?;
            let own = at + 2..(at + 2).checked_add(len as usize)?;
            words.get(own.clone())?;
            at = own.end;
            trees.insert(u16::try_from(slot).ok()?, own);
        }
        Some(Self { words: Arc::new(words), trees, named: Arc::new(named) })
    }
}

impl<M: Medium> PoolState<M> {
    /// Takes what was found of the last image, and has others made from now on.
    pub(super) fn begin_images(&self) {
        if let Some(found) = self.medium.take_image() {
            *self.found_image.lock() = Found::read(found).unwrap_or_default();
        }
        self.medium.set_image_maker(Some(Box::new(Maker(Arc::clone(&self.seats)))));
    }

    /// Notes words that are stored before any tree is opened, besides those that the log has named.
    pub(super) fn name_for_images(&self, words: impl Iterator<Item = u64>) {
        let mut found = self.found_image.lock();
        if !found.trees.is_empty() {
            let named = Arc::get_mut(&mut found.named).expect("no tree has it yet");
            named.add(words);
        }
    }

    /// What was found of the image of a tree. Once: what comes later, the image does not know.
    pub(crate) fn take_tree_image(&self, slot: u16) -> Option<TreeImage> {
        let mut found = self.found_image.lock();
        let own = found.trees.remove(&slot)?;
        let (words, named) = (Arc::clone(&found.words), Arc::clone(&found.named));
        if found.trees.is_empty() {
            *found = Found::default();
        }
        Some(TreeImage { words, own, named })
    }
}
