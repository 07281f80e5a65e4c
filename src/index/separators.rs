//! What the separators of an index in memory are, and what the index keeps of them.
//!
//! Each separator has a *name*, which is one word, and nodes hold names. A word is its own name. The name of a byte
//! string is the offset of the leaf whose low it is: the string lies in the header of that leaf, never
//! changes there, and is read when heads of eight bytes do not decide. This works because an entry is withdrawn before
//! its leaf leaves the chain, and because every separator of an inner node also separates entries at the bottom.
//!
//! The name 0 stands for the least separator there can be: the number 0, or the empty string.

use crate::entry::byte_key::ByteKey;
use crate::node::Words;
use std::cmp::Ordering;

/// A kind of separators, with what is needed to read them.
pub trait Separators: Send + Sync + Sized + 'static {
    /// What a search looks for.
    type Key<'k>: Copy;

    /// What a descent has learned about its key so far. At the root, the default.
    type Known: Copy + Default;

    /// Whether names ascend as their separators do.
    const NAMES_ASCEND: bool;

    /// Applies `search` to the position of the separator with this name. For the writer.
    fn with_key<R>(&self, name: u64, search: impl FnOnce(Self::Key<'_>) -> R) -> R;

    /// How the separator with this name lies to the key. For the writer.
    fn order_of(&self, name: u64, key: Self::Key<'_>) -> Ordering;
}

impl Separators for Words {
    type Key<'k> = u64;
    type Known = ();

    const NAMES_ASCEND: bool = true;

    #[inline]
    fn with_key<R>(&self, name: u64, search: impl FnOnce(u64) -> R) -> R {
        search(name)
    }

    #[inline]
    fn order_of(&self, name: u64, key: u64) -> Ordering {
        name.cmp(&key)
    }
}

/// Where the lows of leaves are.
pub trait Lows: Send + Sync + 'static {
    /// Applies `read` to the low of the leaf with this name, which is not 0. `read` does not call this
    /// function again.
    ///
    /// The bytes are a copy. For a name from a node that was being written, they may be any bytes, or none: the reader
    /// finds that out by the version of the node. This never fails.
    fn with<R>(&self, name: u64, read: impl FnOnce(&[u8]) -> R) -> R;
}

/// Separators that are byte strings.
#[derive(Debug)]
pub struct Strings<F>(pub(crate) F);

impl<F: Lows> Strings<F> {
    /// Applies `read` to the separator with this name. `read` does not call this function again.
    #[inline]
    pub(super) fn with<R>(&self, name: u64, read: impl FnOnce(&[u8]) -> R) -> R {
        if name == 0 { read(&[]) } else { self.0.with(name, read) }
    }

    /// A copy of the separator with this name.
    pub(super) fn copy(&self, name: u64) -> Vec<u8> {
        self.with(name, <[u8]>::to_vec)
    }
}

impl<F: Lows> Separators for Strings<F> {
    type Key<'k> = ByteKey<'k>;
    /// In how many first bytes the key is known to agree with all separators of the node that the descent comes to,
    /// where strings go on with zeros behind their ends.
    type Known = usize;

    const NAMES_ASCEND: bool = false;

    fn with_key<R>(&self, name: u64, search: impl FnOnce(ByteKey<'_>) -> R) -> R {
        // The search reads separators, too.
        search(ByteKey::at(&self.copy(name)))
    }

    fn order_of(&self, name: u64, key: ByteKey<'_>) -> Ordering {
        self.with(name, |string| key.order_of(string))
    }
}
