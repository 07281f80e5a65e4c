//! What a shadow says about the keys that a leaf of byte strings owns. The lows themselves are in the pool.

/// Facts about a leaf and its range.
///
/// ```text
/// | lags 1 | uniform 1 | last 1 | first 1 | unused 44 | skip 16 |
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteRange(u64);

const FIRST: u64 = 1 << 60;
const LAST: u64 = 1 << 61;
const UNIFORM: u64 = 1 << 62;
const LAGS: u64 = 1 << 63;

impl ByteRange {
    pub(in crate::node) fn new(skip: usize, first: bool, last: bool, uniform: bool) -> Self {
        let flag = |bit, is_set| if is_set { bit } else { 0 };
        Self(skip as u64 | flag(FIRST, first) | flag(LAST, last) | flag(UNIFORM, uniform))
    }

    pub(in crate::node) fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(in crate::node) fn word(self) -> u64 {
        self.0
    }

    /// How many bytes of keys the heads of the leaf skip.
    #[inline]
    pub(in crate::node) fn skip(self) -> usize {
        self.0 as u16 as usize
    }

    /// Whether the leaf owns the start of all keys.
    #[inline]
    pub(in crate::node) fn is_first(self) -> bool {
        self.0 & FIRST != 0
    }

    /// Whether the leaf owns the end of all keys.
    #[inline]
    pub(in crate::node) fn is_last(self) -> bool {
        self.0 & LAST != 0
    }

    /// Whether all keys that the leaf owns begin with the bytes that its heads skip.
    #[inline]
    pub(in crate::node) fn is_uniform(self) -> bool {
        self.0 & UNIFORM != 0
    }

    /// Whether the index may not know the right neighbour yet. If it does, it names this leaf for no key that the leaf
    /// does not own.
    #[inline]
    pub(crate) fn lags(self) -> bool {
        self.0 & LAGS != 0
    }

    pub(in crate::node) fn lagging(self, lags: bool) -> Self {
        Self(if lags { self.0 | LAGS } else { self.0 & !LAGS })
    }
}
