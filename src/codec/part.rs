//! Keys as parts of other keys.
//!
//! A part is written as the key would be on its own. A key of a fixed size is written in that size, so that the next
//! part begins at a known place. Another one is [escaped](super::escape), unless it is the last part. So no code of a
//! part that is followed by another is the beginning of a different code, and all of them keep the order of the keys.
//! Then their concatenation keeps the order of the parts, one after the other.

use super::escape::{escape, unescape};
use super::{Form, Key, KeyBytes, kind_of};

/// What the code of a part depends on, besides the key.
#[derive(Debug, Clone, Copy)]
pub struct Part {
    pub(super) size: Option<u32>,
    pub(super) base: u64,
}

impl Part {
    pub(super) const fn of<K: Key>() -> Self {
        let kind = kind_of::<K>();
        Self { size: kind.size, base: kind.base() }
    }

    /// The size if it is the same for all keys, as that of words always is. Else 0.
    pub(super) const fn fixed_size(self) -> usize {
        match self.size {
            Some(size) => size as usize,
            None => 0,
        }
    }
}

/// Writes a part.
#[inline]
pub(super) fn write<K: Key>(key: K::Borrowed<'_>, is_last: bool, to: &mut impl Sink) {
    K::Form::write(K::encode(key), const { Part::of::<K>() }, is_last, to);
}

/// Reads a part.
#[inline]
pub(super) fn read<K: Key>(from: &mut impl Source, is_last: bool) -> K {
    K::Form::read(from, const { Part::of::<K>() }, is_last, K::decode)
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
pub trait Source {
    /// The next `width` bytes as a number.
    fn number(&mut self, width: u32) -> u64;
    /// The next `count` bytes, or fewer.
    fn bytes<T>(&mut self, count: usize, read: impl FnOnce(&[u8]) -> T) -> T;
    /// All bytes that are left.
    fn rest<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T;
    /// The bytes whose end is marked.
    fn escaped<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T;
}

/// Parts of a word. All of them are words of fewer bytes.
impl Sink for u64 {
    #[inline]
    fn number(&mut self, number: u64, width: u32) {
        *self = self.unbounded_shl(8 * width) | number & !Self::MAX.unbounded_shl(8 * width);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.number(byte.into(), 1));
    }

    fn escaped(&mut self, bytes: &[u8]) {
        Sink::bytes(self, bytes);
    }
}

impl Sink for KeyBytes<'_> {
    #[inline]
    fn number(&mut self, number: u64, width: u32) {
        self.extend(&number.to_be_bytes()[8 - width as usize..]);
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend(bytes);
    }

    #[inline]
    fn escaped(&mut self, bytes: &[u8]) {
        escape(bytes, self);
    }
}

/// The parts of a word that are left, in its highest bytes.
#[derive(Debug)]
pub struct WordSource(u64);

impl WordSource {
    #[inline]
    pub(super) fn new(word: u64, width: u32) -> Self {
        Self(word.unbounded_shl(64 - 8 * width))
    }
}

impl Source for WordSource {
    #[inline]
    fn number(&mut self, width: u32) -> u64 {
        let number = self.0.unbounded_shr(64 - 8 * width);
        self.0 = self.0.unbounded_shl(8 * width);
        number
    }

    fn bytes<T>(&mut self, count: usize, read: impl FnOnce(&[u8]) -> T) -> T {
        let word = self.0.to_be_bytes();
        self.0 = self.0.unbounded_shl(8 * count as u32);
        read(&word[..count.min(8)])
    }

    fn rest<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        self.bytes(8, read)
    }

    fn escaped<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        self.bytes(8, read)
    }
}

/// The parts of a byte string that are left.
#[derive(Debug)]
pub struct ByteSource<'k>(pub(super) &'k [u8]);

impl Source for ByteSource<'_> {
    #[inline]
    fn number(&mut self, width: u32) -> u64 {
        let width = width as usize;
        let mut number = [0; 8];
        self.bytes(width, |bytes| number[8 - width..][..bytes.len()].copy_from_slice(bytes));
        u64::from_be_bytes(number)
    }

    #[inline]
    fn bytes<T>(&mut self, count: usize, read: impl FnOnce(&[u8]) -> T) -> T {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        read(bytes)
    }

    #[inline]
    fn rest<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        read(std::mem::take(&mut self.0))
    }

    #[inline]
    fn escaped<T>(&mut self, read: impl FnOnce(&[u8]) -> T) -> T {
        let (string, rest) = unescape(self.0);
        self.0 = rest;
        read(&string)
    }
}
