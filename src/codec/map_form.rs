//! From the form of keys to the trees that hold them.

use super::{Bytes, Form, KeyBytes, Word};
use crate::byte_key::ByteKey;
use crate::medium::Medium;
use crate::node::{ByteLeaf, ByteStrings, Defer, Keys, OneLine, Words};
use crate::tree::{MapKeys, Range, TreeNode, TreeState, Unread};
use std::ops::Bound;

/// How trees hold keys of a form.
pub trait MapForm: Sized {
    /// The keys of such a tree.
    type Keys: MapKeys;

    /// The layout of leaves that maps have by default. It takes part in transactions and snapshots, whatever the form:
    /// code over any `K: Key` may rely on that.
    type Leaf: TreeNode<Keys = Self::Keys, Ops: Defer>;

    /// An encoded key as a search takes it.
    fn key<'e>(encoded: &'e <Self as Form>::Encoded<'_>) -> <Self::Keys as Keys>::Ref<'e>
    where
        Self: Form;

    /// An encoded key as trees hold it.
    fn encoded<'e>(encoded: &'e <Self as Form>::Encoded<'_>) -> &'e <Self::Keys as Keys>::Key
    where
        Self: Form;

    /// A key that was read, as it is decoded.
    fn stored(key: &<Self::Keys as Keys>::Key) -> &<Self as Form>::Stored
    where
        Self: Form;

    /// An encoded key in memory of its own.
    fn owned(encoded: <Self as Form>::Encoded<'_>) -> <Self::Keys as Keys>::Owned
    where
        Self: Form;

    /// The entries between two bounds.
    #[track_caller]
    fn range<'t, N: TreeNode<Keys = Self::Keys>, M: Medium>(
        tree: &'t TreeState<N, M>,
        bounds: (Bound<<Self as Form>::Encoded<'_>>, Bound<<Self as Form>::Encoded<'_>>),
    ) -> Range<'t, N, M>
    where
        Self: Form;

    /// The entries with a prefix.
    fn with_prefix<'t, N: TreeNode<Keys = Self::Keys>, M: Medium>(
        tree: &'t TreeState<N, M>,
        bounds: <Self as Form>::Bounds<'_>,
    ) -> Range<'t, N, M>
    where
        Self: Form;
}

impl MapForm for Word {
    type Keys = Words;
    type Leaf = OneLine;

    #[inline(always)]
    fn key(&word: &u64) -> u64 {
        word
    }

    #[inline(always)]
    fn encoded(word: &u64) -> &u64 {
        word
    }

    #[inline(always)]
    fn stored(word: &u64) -> &u64 {
        word
    }

    fn owned(word: u64) -> u64 {
        word
    }

    #[track_caller]
    fn range<'t, N: TreeNode<Keys = Words>, M: Medium>(
        tree: &'t TreeState<N, M>,
        bounds: (Bound<u64>, Bound<u64>),
    ) -> Range<'t, N, M> {
        Range::new(tree, bounds)
    }

    fn with_prefix<'t, N: TreeNode<Keys = Words>, M: Medium>(
        tree: &'t TreeState<N, M>,
        bounds: std::ops::RangeInclusive<u64>,
    ) -> Range<'t, N, M> {
        Range::of(tree, (!bounds.is_empty()).then(|| bounds.into_inner()))
    }
}

impl MapForm for Bytes {
    type Keys = ByteStrings;
    type Leaf = ByteLeaf;

    #[inline(always)]
    fn key<'e>(encoded: &'e KeyBytes<'_>) -> ByteKey<'e> {
        ByteKey::at(encoded.as_bytes())
    }

    #[inline(always)]
    fn encoded<'e>(encoded: &'e KeyBytes<'_>) -> &'e [u8] {
        encoded.as_bytes()
    }

    #[inline(always)]
    fn stored(bytes: &[u8]) -> &[u8] {
        bytes
    }

    fn owned(encoded: KeyBytes<'_>) -> Vec<u8> {
        encoded.as_bytes().to_vec()
    }

    #[track_caller]
    fn range<'t, N: TreeNode<Keys = ByteStrings>, M: Medium>(
        tree: &'t TreeState<N, M>,
        (start, end): (Bound<KeyBytes<'_>>, Bound<KeyBytes<'_>>),
    ) -> Range<'t, N, M> {
        // The next string after a string is the same with a zero byte behind it.
        let at = |key: &KeyBytes<'_>| key.as_bytes().to_vec();
        let after = |key: &KeyBytes<'_>| [key.as_bytes(), &[0]].concat();
        let from = match &start {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => at(key),
            Bound::Excluded(key) => after(key),
        };
        let to = match &end {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(after(key)),
            Bound::Excluded(key) => Some(at(key)),
        };
        let is_empty = to.as_ref().is_some_and(|to| from >= *to);
        if is_empty
            && let (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) =
                (&start, &end)
        {
            let excluded = matches!((&start, &end), (Bound::Excluded(_), Bound::Excluded(_)));
            Range::check(tree, from.as_bytes().cmp(to.as_bytes()), excluded);
        }
        Range::of(tree, (!is_empty).then_some(Unread { from, to }))
    }

    fn with_prefix<'t, N: TreeNode<Keys = ByteStrings>, M: Medium>(
        tree: &'t TreeState<N, M>,
        (from, to): (KeyBytes<'_>, Option<KeyBytes<'_>>),
    ) -> Range<'t, N, M> {
        let (from, to) = (Self::owned(from), to.map(Self::owned));
        Range::of(tree, Some(Unread { from, to }))
    }
}
