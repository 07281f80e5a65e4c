//! Iterators that own a handle of their tree, so that another thread may go on with them.
//!
//! They take the entries of a leaf at once, and hold nothing of the pool between two calls: no lock, and no record.

use super::ahead::Asker;
use super::range::Unread;
use super::{LeafEntries, PTree, Range, Spot, TreeHandle, TreeNode, TreeState};
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Node, WordNode};
use crate::pool::records::Reading;
use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::ops::RangeBounds;

/// Makes an item of an entry, or of the damage that ends the interval; `None` if nothing is to be shown for it.
type MakeItem<N, M, T> = fn(&TreeState<N, M>, Result<SpotOf<'_, N>, Fault>, Option<&Reading<'_, M>>) -> Option<T>;
type SpotOf<'l, N> = Spot<'l, <N as Node>::Keys>;

/// The items of an interval.
pub(crate) struct Owned<N: TreeNode, M: Medium, T> {
    tree: TreeHandle<N, M>,
    /// Keys not yet read from either end; `None` if all were read.
    unread: Option<Unread<N>>,
    /// Items read from the left and not yet returned.
    front: VecDeque<T>,
    /// Items read from the right and not yet returned.
    back: VecDeque<T>,
    asker: Asker,
    item: MakeItem<N, M, T>,
}

impl<N: TreeNode, M: Medium, T> Owned<N, M, T> {
    pub(crate) fn new(tree: TreeHandle<N, M>, unread: Option<Unread<N>>, item: MakeItem<N, M, T>) -> Self {
        Self { tree, unread, front: VecDeque::new(), back: VecDeque::new(), asker: Asker::default(), item }
    }

    pub(crate) fn name(&self) -> String {
        self.tree.name()
    }

    /// Reads the first leaf or the last one.
    fn read(&mut self, unread: Unread<N>, from_left: bool) {
        let tree = &**self.tree;
        // Started before the leaf is read.
        let reading = tree.reading();
        let mut leaf = LeafEntries { asker: std::mem::take(&mut self.asker), ..LeafEntries::default() };
        let show = |entry| (self.item)(tree, entry, reading.as_ref());
        let ready = if from_left { &mut self.front } else { &mut self.back };
        match tree.read_leaf(unread, from_left, &mut leaf) {
            Ok((rest, _)) => {
                self.unread = rest;
                ready.extend(leaf.spots().filter_map(|entry| show(Ok(entry))));
            }
            Err(broken) => ready.extend(show(Err(broken.into()))),
        }
        self.asker = leaf.asker;
    }
}

impl<N: TreeNode, M: Medium, T> Iterator for Owned<N, M, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.front.pop_front() {
                return Some(item);
            }
            let Some(unread) = self.unread.take() else { return self.back.pop_front() };
            self.read(unread, true);
        }
    }
}

impl<N: TreeNode, M: Medium, T> DoubleEndedIterator for Owned<N, M, T> {
    fn next_back(&mut self) -> Option<T> {
        loop {
            if let Some(item) = self.back.pop_back() {
                return Some(item);
            }
            let Some(unread) = self.unread.take() else { return self.front.pop_back() };
            self.read(unread, false);
        }
    }
}

/// The entries of a range of keys, with a handle of their tree. See [`PTree::into_range`].
pub struct IntoRange<N: WordNode, M: Medium>(Owned<N, M, (u64, u64)>);

impl<N: WordNode, M: Medium> fmt::Debug for IntoRange<N, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoRange").field("tree", &self.0.name()).finish_non_exhaustive()
    }
}

impl<N: WordNode, M: Medium> Iterator for IntoRange<N, M> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        self.0.next()
    }
}

impl<N: WordNode, M: Medium> DoubleEndedIterator for IntoRange<N, M> {
    fn next_back(&mut self) -> Option<(u64, u64)> {
        self.0.next_back()
    }
}

impl<N: WordNode, M: Medium> FusedIterator for IntoRange<N, M> {}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// The entries of a range of keys, as [`range`](Self::range), in an iterator that owns this handle: another thread
    /// may go on with it.
    ///
    /// # Panics
    ///
    /// As [`range`](Self::range).
    ///
    /// # Complexity
    ///
    /// One search for each leaf, whose entries are then copied. After a crash, as [`range`](Self::range).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// # let tree = pool.tree("t")?;
    /// tree.insert_batch(&[(1, 10), (2, 20), (3, 30)])?;
    /// let entries = tree.clone().into_range(2..);
    /// let sum = std::thread::spawn(move || entries.map(|(_, value)| value).sum::<u64>());
    /// assert_eq!(sum.join().unwrap(), 50);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    #[track_caller]
    pub fn into_range(self, range: impl RangeBounds<u64>) -> IntoRange<N, M> {
        let unread = Range::new(&self.state, range, |&key: &u64| key).into_unread();
        IntoRange(Owned::new(self.state, unread, |tree, entry, _| tree.readable(entry.map(Spot::entry))))
    }
}

/// All entries, in ascending order, as [`PTree::iter`].
impl<'t, N: WordNode, M: Medium> IntoIterator for &'t PTree<N, M> {
    type Item = (u64, u64);
    type IntoIter = Range<'t, N, M>;

    fn into_iter(self) -> Range<'t, N, M> {
        self.iter()
    }
}

/// All entries, in ascending order, as [`PTree::into_range`]. They stay in the tree: this consumes the handle.
impl<N: WordNode, M: Medium> IntoIterator for PTree<N, M> {
    type Item = (u64, u64);
    type IntoIter = IntoRange<N, M>;

    fn into_iter(self) -> IntoRange<N, M> {
        self.into_range(..)
    }
}
