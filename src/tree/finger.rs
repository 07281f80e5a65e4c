//! The leaf in which a thread has changed something last. Keys that come in order, or in runs, mostly belong there:
//! then nobody need ask the index.
//!
//! A finger is only a hint, of one tree for each thread. A leaf that owns the key is the right one, however it was
//! found. Its offset was accepted once, so it has a shadow for as long as its tree is open, whatever becomes of its
//! block.
//!
//! A thread looks at its finger only when two changes in a row were in one leaf, and until a key belongs elsewhere.
//! Where keys come at random, the look would wait for the leaf of the change before.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
struct Finger {
    /// The number of the tree.
    tree: u64,
    leaf: u64,
}

thread_local! {
    static LAST: Cell<Finger> = const { Cell::new(Finger { tree: 0, leaf: 0 }) };
    /// The tree in which it is worth a look.
    static IN_ORDER: Cell<u64> = const { Cell::new(0) };
}

/// The fingers of all threads in one tree, by a number that no other tree of this process ever has.
pub(super) struct Fingers(u64);

impl Fingers {
    pub(super) fn new() -> Self {
        static GIVEN: AtomicU64 = AtomicU64::new(0);
        Self(GIVEN.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// The leaf to look at first, if there is one.
    #[inline(always)]
    pub(super) fn get(&self) -> Option<u64> {
        // To the system, all threads of a model are one thread.
        if IN_ORDER.get() != self.0 || cfg!(bristlecone_loom) {
            return None;
        }
        let Finger { tree, leaf } = LAST.get();
        (tree == self.0).then_some(leaf)
    }

    /// Notes that the key belonged elsewhere.
    #[inline(always)]
    pub(super) fn lose(&self) {
        IN_ORDER.set(0);
    }

    /// Points to a leaf that was accepted as one of this tree.
    #[inline(always)]
    pub(super) fn set(&self, leaf: u64) {
        let new = Finger { tree: self.0, leaf };
        if LAST.get() == new {
            IN_ORDER.set(self.0);
        } else {
            LAST.set(new);
        }
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_finger_is_of_one_thread_and_tree() {
        let trees = [Fingers::new(), Fingers::new()];
        let get = || trees.each_ref().map(Fingers::get);
        trees[0].set(7);
        assert_eq!(get(), [None, None]);
        trees[0].set(7);
        assert_eq!(get(), [Some(7), None]);
        std::thread::scope(|threads| {
            threads.spawn(|| assert_eq!(get(), [None, None]));
        });
        trees[1].set(7);
        assert_eq!(get(), [None, None]);
        trees[1].set(7);
        assert_eq!(get(), [None, Some(7)]);
        trees[1].lose();
        assert_eq!(get(), [None, None]);
        trees[1].set(7);
        assert_eq!(get(), [None, Some(7)]);
        assert_eq!(Fingers::new().get(), None);
    }
}
