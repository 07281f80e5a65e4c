//! What keys and values are: words, or byte strings. Both are made of words, on the way, at the same cost for every
//! contestant.

use crate::numbers::mix;
use clap::ValueEnum;
use std::fmt;

/// Keys and values of one kind.
///
/// A key is made of its number, and a value of a word. Numbers are in the order of their keys.
pub(crate) trait Entry: Copy + Send + Sync + 'static {
    type Key<'e>: Copy;
    type Value<'e>: Copy;
    /// Where a key is put together.
    type KeyBuffer: Default + Send;
    /// Where a value is put together.
    type ValueBuffer: Default + Send;

    fn key<'b>(self, number: u64, buffer: &'b mut Self::KeyBuffer) -> Self::Key<'b>;
    fn value<'b>(self, word: u64, buffer: &'b mut Self::ValueBuffer) -> Self::Value<'b>;

    /// What is before all keys, or is the least.
    fn least() -> Self::Key<'static>;
    #[cfg_attr(not(feature = "peers"), expect(dead_code, reason = "only peers are asked"))]
    fn is_least(key: Self::Key<'_>) -> bool;

    /// Reads all of a value; returns the word that it was made of.
    fn read(value: Self::Value<'_>) -> u64;

    /// Reads all of an entry that a scan shows.
    fn read_entry(key: Self::Key<'_>, value: Self::Value<'_>) -> u64;
}

/// Keys and values of eight bytes, which are their number and their word.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words;

impl Entry for Words {
    type Key<'e> = u64;
    type Value<'e> = u64;
    type KeyBuffer = ();
    type ValueBuffer = ();

    #[inline(always)]
    fn key(self, number: u64, (): &mut ()) -> u64 {
        number
    }

    #[inline(always)]
    fn value(self, word: u64, (): &mut ()) -> u64 {
        word
    }

    fn least() -> u64 {
        0
    }

    #[inline(always)]
    fn is_least(key: u64) -> bool {
        key == 0
    }

    #[inline(always)]
    fn read(value: u64) -> u64 {
        value
    }

    #[inline(always)]
    fn read_entry(_: u64, value: u64) -> u64 {
        value
    }
}

/// Keys that are texts, and values of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) text: Text,
    /// The length of a value, at least [`WORD`](Self::WORD).
    pub(crate) value: usize,
}

/// What a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// As YCSB's: `user` and 19 digits. They hold 63 bits of the number.
    User,
    /// A random UUID, as text. It begins with the bits of the number.
    Uuid,
}

impl Bytes {
    /// The bytes of a word: a value has no fewer.
    pub(crate) const WORD: usize = 8;
}

impl Text {
    const LONGEST: usize = 36;

    /// The length of all such texts.
    pub(crate) fn len(self) -> usize {
        match self {
            Self::User => 23,
            Self::Uuid => Self::LONGEST,
        }
    }

    #[inline]
    fn write(self, number: u64, buffer: &mut [u8; Self::LONGEST]) -> &[u8] {
        match self {
            Self::User => user(number, buffer),
            Self::Uuid => uuid(number, buffer),
        }
        &buffer[..self.len()]
    }
}

impl Entry for Bytes {
    type Key<'e> = &'e [u8];
    type Value<'e> = &'e [u8];
    type KeyBuffer = KeyBuffer;
    type ValueBuffer = Vec<u8>;

    #[inline]
    fn key(self, number: u64, buffer: &mut KeyBuffer) -> &[u8] {
        self.text.write(number, &mut buffer.0)
    }

    /// The first word makes up for all others, which differ, so that no store can leave them out.
    #[inline]
    fn value(self, word: u64, buffer: &mut Vec<u8>) -> &[u8] {
        buffer.resize(self.value, 0);
        let (first, rest) = buffer.split_at_mut(Self::WORD);
        let (words, last) = rest.as_chunks_mut();
        let (mut other, mut sum) = (word, word);
        for chunk in words {
            other = other.wrapping_add(word | 1);
            sum ^= other;
            *chunk = other.to_le_bytes();
        }
        last.iter_mut().zip(word.to_le_bytes()).for_each(|(byte, new)| *byte = new);
        first.copy_from_slice(&(sum ^ padded(last)).to_le_bytes());
        buffer
    }

    /// The least key: one byte, because not every store takes the empty string.
    fn least() -> &'static [u8] {
        &[0]
    }

    #[inline]
    fn is_least(key: &[u8]) -> bool {
        key == Self::least()
    }

    #[inline]
    fn read(value: &[u8]) -> u64 {
        folded(value)
    }

    #[inline]
    fn read_entry(key: &[u8], value: &[u8]) -> u64 {
        folded(key) ^ folded(value)
    }
}

/// Room for a key.
pub(crate) struct KeyBuffer([u8; Text::LONGEST]);

impl Default for KeyBuffer {
    fn default() -> Self {
        Self([0; Text::LONGEST])
    }
}

/// All words of a byte string in one, the last padded with zeros.
#[inline]
fn folded(bytes: &[u8]) -> u64 {
    let (words, last) = bytes.as_chunks();
    words.iter().fold(padded(last), |sum, &word| sum ^ u64::from_le_bytes(word))
}

/// The word of a few bytes, which zeros follow.
#[inline]
fn padded(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The eight decimal digits of a number, all at a time: halves, quarters, digits.
#[inline]
fn digits(number: u64) -> [u8; 8] {
    let halves = (number / 10_000) | (number % 10_000) << 32;
    let tops = ((halves * 10_486) >> 20) & 0x7f_0000_007f;
    let quarters = tops | (halves - tops * 100) << 16;
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | (quarters - tens * 10) << 8;
    (digits | 0x3030_3030_3030_3030).to_le_bytes()
}

#[inline]
fn user(number: u64, buffer: &mut [u8; Text::LONGEST]) {
    const EIGHT: u64 = 100_000_000;
    // 2^63 has 19 digits. Numbers are scattered, so hardly any two differ in nothing but the highest bit.
    let number = number & (u64::MAX >> 1);
    buffer[..4].copy_from_slice(b"user");
    buffer[4..7].copy_from_slice(&digits(number / EIGHT / EIGHT)[5..]);
    buffer[7..15].copy_from_slice(&digits(number / EIGHT % EIGHT));
    buffer[15..23].copy_from_slice(&digits(number % EIGHT));
}

/// The eight hexadecimal digits of a number, all at a time: each four bits get a byte of their own.
#[inline]
fn hex(number: u32) -> [u8; 8] {
    let halves = u64::from(number >> 16) << 32 | u64::from(number & 0xffff);
    let quarters = (halves | halves << 8) & 0x00ff_00ff_00ff_00ff;
    let digits = (quarters | quarters << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let letters = ((digits + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (digits + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

#[inline]
fn uuid(number: u64, buffer: &mut [u8; Text::LONGEST]) {
    // The 122 bits that are free: those of the number, and some that scatter. The others say that it is random.
    let high = (number >> 16) << 16 | 0x4000 | (number >> 4) & 0xfff;
    let low = 0b10 << 62 | (number & 0xf) << 58 | mix(number) >> 6;
    let [a, b, c, d] = [hex((high >> 32) as u32), hex(high as u32), hex((low >> 32) as u32), hex(low as u32)];
    buffer[..8].copy_from_slice(&a);
    buffer[9..13].copy_from_slice(&b[..4]);
    buffer[14..18].copy_from_slice(&b[4..]);
    buffer[19..23].copy_from_slice(&c[..4]);
    buffer[24..28].copy_from_slice(&c[4..]);
    buffer[28..].copy_from_slice(&d);
    for dash in [8, 13, 18, 23] {
        buffer[dash] = b'-';
    }
}

/// The kind of a measurement's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum KeyArg {
    /// Eight bytes, as are the values
    #[default]
    U64,
    /// Texts: `user` and 19 digits
    User,
    /// Texts: UUIDs of 36 characters
    Uuid,
}

/// The kind of a measurement's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Words,
    Bytes(Bytes),
}

impl Kind {
    pub(crate) fn new(key: KeyArg, value: usize) -> Self {
        let bytes = |text| Self::Bytes(Bytes { text, value });
        match key {
            KeyArg::U64 => Self::Words,
            KeyArg::User => bytes(Text::User),
            KeyArg::Uuid => bytes(Text::Uuid),
        }
    }

    /// The name of the keys, as it is typed.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Words => "u64",
            Self::Bytes(Bytes { text: Text::User, .. }) => "user",
            Self::Bytes(Bytes { text: Text::Uuid, .. }) => "uuid",
        }
    }

    /// The bytes of a key, and those of a value.
    pub(crate) fn lens(self) -> (usize, usize) {
        match self {
            Self::Words => (Bytes::WORD, Bytes::WORD),
            Self::Bytes(Bytes { text, value }) => (text.len(), value),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Words => f.write_str("u64 keys"),
            Self::Bytes(bytes) => {
                write!(f, "{} keys of {} bytes, values of {}", self.key(), bytes.text.len(), bytes.value)
            }
        }
    }
}

/// Runs `$body` with `$entry` as the kind of entries, whose type is known in there.
macro_rules! with_entry {
    ($kind:expr, $entry:ident => $body:expr) => {
        match $kind {
            $crate::entry::Kind::Words => {
                let $entry = $crate::entry::Words;
                $body
            }
            $crate::entry::Kind::Bytes($entry) => $body,
        }
    };
}
pub(crate) use with_entry;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Random;

    fn text(text: Text, number: u64) -> String {
        let mut buffer = KeyBuffer::default();
        String::from_utf8(text.write(number, &mut buffer.0).to_vec()).unwrap()
    }

    #[test]
    fn keys_are_the_texts_of_their_numbers() {
        let mut random = Random::new(2);
        for number in (0..1000).map(|_| random.word()).chain([0, 9, 10, 99_999_999, 100_000_000, u64::MAX]) {
            assert_eq!(text(Text::User, number), format!("user{:019}", number & (u64::MAX >> 1)));
            let uuid = text(Text::Uuid, number);
            let parts: Vec<&str> = uuid.split('-').collect();
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
            assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{uuid}");
            let first = u64::from_str_radix(&[parts[0], parts[1], &parts[2][1..]].concat(), 16).unwrap();
            assert_eq!(first, number >> 4);
        }
    }

    #[test]
    fn keys_have_the_order_of_their_numbers() {
        let mut random = Random::new(3);
        for kind in [Text::User, Text::Uuid] {
            let mut numbers: Vec<u64> = (0..1000).map(|_| random.word() >> 1).chain(0..1000).collect();
            numbers.sort_unstable();
            let keys: Vec<String> = numbers.into_iter().map(|number| text(kind, number)).collect();
            assert!(keys.windows(2).all(|two| two[0] < two[1]), "{kind:?}");
        }
    }

    #[test]
    fn a_value_is_read_as_the_word_that_it_was_made_of() {
        for value in [8, 9, 15, 16, 17, 100, 1000] {
            let bytes = Bytes { text: Text::User, value };
            for word in [0, 1, 0x0123_4567_89ab_cdef, u64::MAX] {
                let mut buffer = Vec::new();
                let made = bytes.value(word, &mut buffer).to_vec();
                assert_eq!((made.len(), Bytes::read(&made)), (value, word));
                // Each byte counts.
                for i in 0..value {
                    let mut other = made.clone();
                    other[i] ^= 1;
                    assert_ne!(Bytes::read(&other), word);
                }
            }
        }
    }

    #[test]
    fn names_are_what_is_typed() {
        for arg in KeyArg::value_variants() {
            assert_eq!(arg.to_possible_value().unwrap().get_name(), Kind::new(*arg, 8).key());
        }
    }
}
