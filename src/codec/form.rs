//! The two forms of encoded keys: words and byte strings.

use super::KeyBytes;
use super::part::{ByteSource, Part, Sink, Source, WordSource};
use std::ops::RangeInclusive;

/// Whether keys are words ([`Word`]) or byte strings ([`Bytes`]).
pub trait Form: super::MapForm + sealed::Sealed + Sized + 'static {
    /// An encoded key on its way into the tree: `u64`, or [`KeyBytes`].
    type Encoded<'k>: Sink;
    /// What the tree holds: `u64`, or `[u8]`.
    type Stored: ?Sized;
    /// The encoded keys that begin with a [prefix](super::PrefixOf).
    ///
    /// For words, the first and the last one; the range is empty if no key has the prefix. For byte strings, the prefix
    /// itself, and the smallest byte string after all that begin with it. The latter is `None` if there is none.
    type Bounds<'k>;

    // What composite keys need.
    #[doc(hidden)]
    type Source<'k>: Source;
    #[doc(hidden)]
    fn source(stored: &Self::Stored, whole: Part) -> Self::Source<'_>;
    /// The bounds of what begins with parts of so many bytes.
    #[doc(hidden)]
    fn bounds<'k>(parts: Self::Encoded<'k>, size: usize, whole: Part) -> Self::Bounds<'k>;
    /// The bounds of what begins with the bytes.
    #[doc(hidden)]
    fn bounds_of(prefix: &[u8], whole: Part) -> Self::Bounds<'_>;
    /// Writes a key of this form as a part of another one.
    #[doc(hidden)]
    fn write(encoded: Self::Encoded<'_>, part: Part, is_last: bool, to: &mut impl Sink);
    /// Reads a key of this form that is a part of another one.
    #[doc(hidden)]
    fn read<K>(from: &mut impl Source, part: Part, is_last: bool, decode: impl FnOnce(&Self::Stored) -> K) -> K;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Word {}
    impl Sealed for super::Bytes {}
}

/// The form of keys of up to eight bytes. They lie in the leaves, and compare as numbers.
#[derive(Debug)]
pub enum Word {}

/// The form of keys that may be longer than eight bytes.
#[derive(Debug)]
pub enum Bytes {}

impl Form for Word {
    type Encoded<'k> = u64;
    type Stored = u64;
    type Bounds<'k> = RangeInclusive<u64>;
    type Source<'k> = WordSource;

    #[inline]
    fn source(word: &u64, whole: Part) -> WordSource {
        WordSource::new(*word, whole.size.unwrap_or(8))
    }

    fn bounds<'k>(parts: Self::Encoded<'k>, size: usize, whole: Part) -> Self::Bounds<'k> {
        let whole = whole.size.unwrap_or(8);
        if size > whole as usize {
            // The prefix is longer than the keys.
            return RangeInclusive::new(1, 0);
        }
        let rest = 8 * (whole - size as u32);
        let first = parts.unbounded_shl(rest);
        first..=first | !u64::MAX.unbounded_shl(rest)
    }

    fn bounds_of(prefix: &[u8], whole: Part) -> RangeInclusive<u64> {
        let mut parts = 0;
        Sink::bytes(&mut parts, prefix);
        Self::bounds(parts, prefix.len(), whole)
    }

    #[inline]
    fn write(word: Self::Encoded<'_>, part: Part, _: bool, to: &mut impl Sink) {
        to.number(word.wrapping_sub(part.base), part.size.unwrap_or(8));
    }

    #[inline]
    fn read<K>(from: &mut impl Source, part: Part, _: bool, decode: impl FnOnce(&u64) -> K) -> K {
        decode(&from.number(part.size.unwrap_or(8)).wrapping_add(part.base))
    }
}

impl Form for Bytes {
    type Encoded<'k> = KeyBytes<'k>;
    type Stored = [u8];
    type Bounds<'k> = (KeyBytes<'k>, Option<KeyBytes<'k>>);
    type Source<'k> = ByteSource<'k>;

    #[inline]
    fn source(bytes: &[u8], _: Part) -> ByteSource<'_> {
        ByteSource(bytes)
    }

    fn bounds<'k>(parts: Self::Encoded<'k>, _: usize, _: Part) -> Self::Bounds<'k> {
        let after = parts.after_prefix();
        (parts, after)
    }

    fn bounds_of(prefix: &[u8], whole: Part) -> (KeyBytes<'_>, Option<KeyBytes<'_>>) {
        Self::bounds(KeyBytes::from(prefix), prefix.len(), whole)
    }

    #[inline]
    fn write(encoded: Self::Encoded<'_>, part: Part, is_last: bool, to: &mut impl Sink) {
        let bytes = encoded.as_bytes();
        match part.size {
            // A length that is known when the program is compiled copies faster.
            Some(size) => to.bytes(bytes.get(..size as usize).unwrap_or(bytes)),
            None if is_last => to.bytes(bytes),
            None => to.escaped(bytes),
        }
    }

    #[inline]
    fn read<K>(from: &mut impl Source, part: Part, is_last: bool, decode: impl FnOnce(&[u8]) -> K) -> K {
        match part.size {
            _ if is_last => from.rest(decode),
            Some(size) => from.bytes(size as usize, decode),
            None => from.escaped(decode),
        }
    }
}
