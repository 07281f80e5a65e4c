//! The parts that trees of either form of keys have in a transaction.

use super::cursor::{Cursor, CursorStep};
use super::part::{News, Part, TreePart};
use super::{Form, TreeNode};
use crate::entry::raw::Raw;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{ByteStrings, Defer, Keys, Words};

/// What a transaction needs of each of its trees whose keys have the form `K`.
pub trait PartOf<K: Form>: Part {
    /// The value of a key.
    fn get(&mut self, key: &K::Key) -> Result<Option<Raw>, Fault>;

    /// Sets the value of a key, or removes it.
    fn put(&mut self, key: &K::Key, value: Option<Raw<&[u8]>>);

    /// The next entry of a range from the left or from the right, or a part of the way to it.
    fn step(&mut self, cursor: &mut Cursor<K>, from_left: bool) -> Result<CursorStep<K>, Fault>;
}

/// The part of a tree of either form of keys.
pub enum AnyPart<'t> {
    Words(Box<dyn PartOf<Words> + 't>),
    Bytes(Box<dyn PartOf<ByteStrings> + 't>),
}

impl<'t> AnyPart<'t> {
    pub(crate) fn part(&self) -> &(dyn Part + 't) {
        match self {
            Self::Words(part) => &**part,
            Self::Bytes(part) => &**part,
        }
    }

    pub(crate) fn part_mut(&mut self) -> &mut (dyn Part + 't) {
        match self {
            Self::Words(part) => &mut **part,
            Self::Bytes(part) => &mut **part,
        }
    }
}

impl<N: TreeNode<Keys: Form, Ops: Defer>, M: Medium> PartOf<N::Keys> for TreePart<'_, N, M> {
    fn get(&mut self, key: &<N::Keys as Keys>::Key) -> Result<Option<Raw>, Fault> {
        if let Some(new) = self.writes.get(key) {
            return Ok(new.as_ref().map(|new| new.lent().owned()));
        }
        self.begin();
        let (word, seen) = self.tree.get_seen(N::Keys::as_ref(key))?;
        self.reads.note_key(key, word, seen);
        self.news = News::Read;
        word.map(|word| self.stored(word)).transpose()
    }

    fn put(&mut self, key: &<N::Keys as Keys>::Key, value: Option<Raw<&[u8]>>) {
        let tree = self.tree;
        if value.is_some() {
            self.voids.cut(key);
        }
        // While memory responds for the leaf, the transaction goes on.
        self.writes.push(key, value.map(Raw::owned), || tree.request(N::Keys::as_ref(key)));
    }

    fn step(&mut self, cursor: &mut Cursor<N::Keys>, from_left: bool) -> Result<CursorStep<N::Keys>, Fault> {
        self.step_from(cursor, from_left)
    }
}
