//! The two forms of encoded keys: words and byte strings.

use super::KeyBytes;
use super::part::{ByteSink, ByteSource, Part, Sink, Source, WordSink, WordSource};
use std::ops::RangeInclusive;

/// Whether keys are words ([`Word`]) or byte strings ([`Bytes`]).
pub trait Form: sealed::Sealed + Sized + 'static {
    /// An encoded key on its way into the tree: `u64`, or [`KeyBytes`].
    type Encoded<'k>;
    /// What the tree holds: `u64`, or `[u8]`.
    type Stored: ?Sized;
    /// The encoded keys that begin with a [prefix](super::PrefixOf).
    ///
    /// For words, the first and the last one; the range is empty if no key has the prefix. For byte strings, the prefix
    /// itself, and the smallest byte string after all that begin with it. The latter is `None` if there is none.
    type Bounds<'k>;

    // What composite keys need.
    #[doc(hidden)]
    type Sink: Sink;
    #[doc(hidden)]
    type Source<'k>: Source;
    #[doc(hidden)]
    fn encoded<'k>(parts: Self::Sink) -> Self::Encoded<'k>;
    #[doc(hidden)]
    fn source(stored: &Self::Stored, whole: Part) -> Self::Source<'_>;
    /// The bounds of what begins with the parts.
    #[doc(hidden)]
    fn bounds<'k>(parts: Self::Sink, whole: Part) -> Self::Bounds<'k>;
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
    type Sink = WordSink;
    type Source<'k> = WordSource;

    #[inline]
    fn encoded<'k>(parts: WordSink) -> Self::Encoded<'k> {
        parts.word
    }

    #[inline]
    fn source(word: &u64, whole: Part) -> WordSource {
        WordSource::new(*word, whole.size.unwrap_or(8))
    }

    fn bounds<'k>(parts: WordSink, whole: Part) -> Self::Bounds<'k> {
        let Some(rest) = whole.size.unwrap_or(8).checked_sub(parts.width) else {
            // The prefix is longer than the keys.
            return RangeInclusive::new(1, 0);
        };
        let first = parts.word.unbounded_shl(8 * rest);
        first..=first | !u64::MAX.unbounded_shl(8 * rest)
    }

    fn bounds_of(prefix: &[u8], whole: Part) -> RangeInclusive<u64> {
        let mut parts = WordSink::default();
        parts.bytes(prefix);
        Self::bounds(parts, whole)
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
    type Sink = ByteSink;
    type Source<'k> = ByteSource<'k>;

    #[inline]
    fn encoded<'k>(parts: ByteSink) -> Self::Encoded<'k> {
        parts.0
    }

    #[inline]
    fn source(bytes: &[u8], _: Part) -> ByteSource<'_> {
        ByteSource(bytes)
    }

    fn bounds<'k>(parts: ByteSink, _: Part) -> Self::Bounds<'k> {
        let after = parts.0.after_prefix();
        (parts.0, after)
    }

    fn bounds_of(prefix: &[u8], _: Part) -> (KeyBytes<'_>, Option<KeyBytes<'_>>) {
        let from = KeyBytes::from(prefix);
        let after = from.after_prefix();
        (from, after)
    }

    #[inline]
    fn write(encoded: Self::Encoded<'_>, part: Part, is_last: bool, to: &mut impl Sink) {
        let bytes = encoded.as_bytes();
        if is_last || part.size.is_some() { to.bytes(bytes) } else { to.escaped(bytes) }
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
