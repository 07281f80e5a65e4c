//! The two forms of keys, words and byte strings, as maps and transactions see them.
//!
//! What differs here is in [`words`] and [`bytes`]: how keys are encoded, and where keys and values are in the tree.
//! `docs/design.md`, section 3, lists what differs elsewhere.

mod bytes;
mod escape;
mod key_bytes;
mod words;

pub use key_bytes::KeyBytes;

use super::any_part::{AnyPart, PartOf};
use super::values::WrittenRecord;
use super::{TreeNode, TreeState};
use crate::entry::kind::Kind;
use crate::entry::raw::Raw;
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Defer, Entry, Keys};
use crate::pool::records::Reading;
use std::borrow::Borrow;

/// Whether keys are words ([`Words`](crate::node::Words)) or byte strings ([`ByteStrings`](crate::node::ByteStrings)).
///
/// Sealed.
pub trait Form: Keys {
    /// An encoded key on its way into the tree: `u64`, or [`KeyBytes`].
    type Encoded<'k>: Sink + Borrow<Self::Key>;

    /// The layout of leaves that maps have by default. It takes part in transactions and snapshots, whatever the form:
    /// code over any `K: Key` may rely on that.
    #[doc(hidden)]
    type Leaf: TreeNode<Keys = Self, Ops: Defer>;

    /// What reads the parts of a key, one after the other.
    #[doc(hidden)]
    type Source<'k>: PartSource;

    /// The parts of a key, which is `whole`.
    #[doc(hidden)]
    fn source(key: &Self::Key, whole: PartForm) -> Self::Source<'_>;

    /// Writes a key of this form as a part of another one.
    #[doc(hidden)]
    fn write_part(encoded: Self::Encoded<'_>, part: PartForm, is_last: bool, to: &mut impl Sink);

    /// Reads a key of this form that is a part of another one.
    #[doc(hidden)]
    fn read_part<K>(
        from: &mut impl PartSource,
        part: PartForm,
        is_last: bool,
        decode: impl FnOnce(&Self::Key) -> K,
    ) -> K;

    /// The first key of those that begin with parts of `size` bytes, and the first one behind them, if there is one.
    #[doc(hidden)]
    fn with_prefix<'p>(
        parts: Self::Encoded<'p>,
        size: usize,
        whole: PartForm,
    ) -> (Self::Encoded<'p>, Option<Self::Encoded<'p>>);

    /// The part of a tree with such keys.
    #[doc(hidden)]
    fn any_part<'t>(part: Box<dyn PartOf<Self> + 't>) -> AnyPart<'t>;

    /// The part that is in `any`; `None` if the tree has other keys.
    #[doc(hidden)]
    fn part<'p, 't>(any: &'p mut AnyPart<'t>) -> Option<&'p mut (dyn PartOf<Self> + 't)>;

    /// Applies `read` to the value of a key.
    #[doc(hidden)]
    fn get_with<N: TreeNode<Keys = Self>, M: Medium, R>(
        tree: &TreeState<N, M>,
        key: Self::Ref<'_>,
        kind: Kind,
        read: impl FnOnce(Raw<&[u8]>) -> R,
    ) -> Result<Option<R>, Fault>;

    /// The word for the slot of a key, and the record that it points to, if any. The record is flushed, but not fenced.
    /// `again` says that the caller has waited for space.
    #[doc(hidden)]
    fn write<'t, N: TreeNode<Keys = Self>, M: Medium>(
        tree: &'t TreeState<N, M>,
        key: Self::Ref<'_>,
        value: Raw<&[u8]>,
        again: bool,
    ) -> Result<(u64, WrittenRecord<'t, N, M>), Fault>;

    /// The value behind a slot's word, which was read after `reading` had begun.
    #[doc(hidden)]
    fn stored_value<M: Medium>(word: u64, reading: Option<&Reading<'_, M>>, kind: Kind) -> Result<Raw, Fault>;

    /// Applies `read` to the key and to the value of an entry, which was read after `reading` had begun.
    #[doc(hidden)]
    fn with_entry<M: Medium, R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&Self::Key, Raw<&[u8]>) -> R,
    ) -> Result<R, Fault>;

    /// Applies `read` to the key of an entry, which was read after `reading` had begun, and returns the value, too.
    #[doc(hidden)]
    fn with_stored<M: Medium, R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        kind: Kind,
        read: impl FnOnce(&Self::Key) -> R,
    ) -> Result<(R, Raw), Fault>;

    /// Applies `read` to the key of an entry, which was read after `reading` had begun.
    #[doc(hidden)]
    fn with_key<M: Medium, R>(
        entry: Entry,
        reading: Option<&Reading<'_, M>>,
        read: impl FnOnce(&Self::Key) -> R,
    ) -> Result<R, Fault>;
}

/// What the code of a part depends on, besides the key.
#[derive(Debug, Clone, Copy)]
pub struct PartForm {
    pub(crate) size: Option<u32>,
    pub(crate) base: u64,
}

/// An encoded key to which parts are written, one after the other.
///
/// A key is encoded into the variable that is returned, because moving it would wait for the stores of its parts.
pub trait Sink: Default {
    /// Writes the low `width` bytes of a number, the highest of them first.
    fn number(&mut self, number: u64, width: u32);
    /// Writes bytes as they are.
    fn bytes(&mut self, bytes: &[u8]);
    /// Writes bytes, and marks their end.
    fn escaped(&mut self, bytes: &[u8]);
}

/// Where parts are read from. A damaged pool may hold too few bytes: then the missing ones are zeros.
pub trait PartSource {
    /// The next `width` bytes as a number.
    fn number(&mut self, width: u32) -> u64;
    /// The next `count` bytes, or fewer.
    fn bytes<T>(&mut self, count: usize, read: impl FnOnce(&[u8]) -> T) -> T;
    /// All bytes that are left.
    fn rest<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T;
    /// The bytes whose end is marked.
    fn escaped<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T;
}
