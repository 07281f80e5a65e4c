//! What a transaction is to write to one tree, in ascending order of keys.

use super::directory::Directory;
use super::node::OwnedOf;
use super::{Before, Form, TreeNode};
use crate::entry::raw::Raw;
use crate::index::GROUP;
use crate::medium::Medium;
use crate::node::{Keys, RefOf};
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

/// A leaf that the index found. However old it is, a thread that locks the leaf sees whether the leaf owns the key.
pub(super) type LeafHint<'t, N, M> = <<N as TreeNode>::Directory<M> as Directory<N>>::Hint<'t>;

type KeyOf<N> = <<N as crate::node::Node>::Keys as Keys>::Key;

/// What the value of a key is to be; `None` if the key goes.
pub(super) type NewValue = Option<Raw<Box<[u8]>>>;

/// The change of an entry, and how far it has come.
pub(super) struct Write<'t, N: TreeNode, M: Medium> {
    key: OwnedOf<N>,
    pub(super) new: NewValue,
    /// The word that points to the record of the value, once that is written.
    pub(super) written: Option<u64>,
    /// The leaf of the key, when the index was last asked for it.
    pub(super) hint: Option<LeafHint<'t, N, M>>,
    /// Once its leaf is locked: which of those that are held it is.
    pub(super) leaf: u32,
    /// Whether it has left a sparse leaf.
    pub(super) is_sparse: bool,
    /// What the slot held, if anything, once it is changed.
    pub(super) old: Option<Before>,
}

impl<'t, N: TreeNode, M: Medium> Write<'t, N, M> {
    fn new(key: OwnedOf<N>, new: NewValue, hint: Option<LeafHint<'t, N, M>>) -> Self {
        Self { key, new, written: None, hint, leaf: 0, is_sparse: false, old: None }
    }

    pub(super) fn key(&self) -> RefOf<'_, N> {
        N::Keys::as_ref(self.key.borrow())
    }

    /// The word for the slot, which is known once its record is written; `None` if the entry is removed.
    pub(super) fn word(&self) -> Option<u64> {
        self.written.or_else(|| self.new.as_ref().map(|new| new.lent().word()))
    }
}

/// How many writes need no memory besides the part's own.
const INLINE: usize = 4;

/// The writes to a tree. Nearly always they are few, and then a list takes less time than a map.
pub(super) struct Writes<'t, N: TreeNode, M: Medium> {
    /// All writes, if they are few or [settled](Self::make_list).
    list: SmallVec<[Write<'t, N, M>; INLINE]>,
    /// All writes otherwise.
    map: Option<BTreeMap<OwnedOf<N>, NewValue>>,
}

impl<'t, N: TreeNode<Keys: Form>, M: Medium> Writes<'t, N, M> {
    /// The most writes of a list that grows: as many as are looked up side by side.
    pub(super) const FEW: usize = GROUP;

    pub(super) fn new() -> Self {
        Self { list: SmallVec::new(), map: None }
    }

    pub(super) fn len(&self) -> usize {
        self.map.as_ref().map_or(self.list.len(), BTreeMap::len)
    }

    pub(super) fn get(&self, key: &KeyOf<N>) -> Option<&NewValue> {
        match &self.map {
            None => self.position(key).ok().map(|i| &self.list[i].new),
            Some(map) => map.get(key),
        }
    }

    fn position(&self, key: &KeyOf<N>) -> Result<usize, usize> {
        self.list.binary_search_by(|write| write.key.borrow().cmp(key))
    }

    /// Adds a write, in place of an earlier one to the same key. `hint` asks the index for the leaf.
    pub(super) fn push(&mut self, key: &KeyOf<N>, new: NewValue, hint: impl FnOnce() -> Option<LeafHint<'t, N, M>>) {
        if self.map.is_none() {
            match self.position(key) {
                Ok(i) => return self.list[i].new = new,
                Err(i) if self.list.len() < Self::FEW => {
                    return self.list.insert(i, Write::new(key.to_owned(), new, hint()));
                }
                Err(_) => {}
            }
        }
        let Self { list, map } = self;
        let map = map.get_or_insert_with(|| list.drain(..).map(|Write { key, new, .. }| (key, new)).collect());
        map.insert(key.to_owned(), new);
    }

    /// The writes to an interval of keys.
    pub(super) fn range(
        &self,
        bounds: (Bound<&KeyOf<N>>, Bound<&KeyOf<N>>),
    ) -> impl DoubleEndedIterator<Item = (&OwnedOf<N>, &NewValue)> {
        let of_list = self.list.iter().filter(move |write| bounds.contains(write.key.borrow()));
        let of_map = self.map.iter().flat_map(move |map| map.range::<KeyOf<N>, _>(bounds));
        of_list.map(|Write { key, new, .. }| (key, new)).chain(of_map)
    }

    /// Makes a list of the writes, which are all there.
    pub(super) fn make_list(&mut self) {
        if let Some(map) = self.map.take() {
            self.list = map.into_iter().map(|(key, new)| Write::new(key, new, None)).collect();
        }
    }

    /// All writes, once they are settled.
    pub(super) fn all(&self) -> &[Write<'t, N, M>] {
        &self.list
    }

    /// All writes, once they are settled.
    pub(super) fn all_mut(&mut self) -> &mut [Write<'t, N, M>] {
        &mut self.list
    }
}
