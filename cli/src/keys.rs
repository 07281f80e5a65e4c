//! Kinds of keys, and keys as a user types and sees them. The fuzz target `load` uses this file, too.

use std::fmt;
use std::io::{self, Write};

/// How keys are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Decimal numbers; `u64` in the tree.
    U64,
    /// The text itself; `String` in the tree.
    Text,
    /// Two digits for each byte; `Vec<u8>` in the tree.
    Hex,
}

/// A key of one of these kinds. Keys of the same kind compare as they do in their tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Number(u64),
    Text(String),
    Bytes(Vec<u8>),
}

/// Why something typed is no key. It holds the beginning of what was typed, in a form that can be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadKey {
    NotANumber(String),
    TooGreat(String),
    NotUtf8(String),
    NotHex(String),
}

impl fmt::Display for BadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotANumber(key) => write!(f, "the key '{key}' is not a decimal number"),
            Self::TooGreat(key) => write!(f, "the key {key} is greater than {}", u64::MAX),
            Self::NotUtf8(key) => write!(f, "the key '{key}' is not UTF-8, and so no text"),
            Self::NotHex(key) => write!(f, "the key '{key}' is not hex, two digits for each byte"),
        }
    }
}

impl KeyKind {
    pub(crate) const ALL: [Self; 3] = [Self::Text, Self::Hex, Self::U64];

    /// As in `--key`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U64 => "u64",
            Self::Text => "text",
            Self::Hex => "hex",
        }
    }

    /// The key that is written like this.
    pub(crate) fn parse(self, written: &[u8]) -> Result<Key, BadKey> {
        let shown = || String::from_utf8_lossy(&written[..written.len().min(40)]).escape_debug().to_string();
        match self {
            Self::U64 => {
                let digits = !written.is_empty() && written.iter().all(u8::is_ascii_digit);
                let text = std::str::from_utf8(written).ok().filter(|_| digits);
                let text = text.ok_or_else(|| BadKey::NotANumber(shown()))?;
                text.parse().map(Key::Number).map_err(|_| BadKey::TooGreat(shown()))
            }
            Self::Text => {
                let text = std::str::from_utf8(written).map_err(|_| BadKey::NotUtf8(shown()))?;
                Ok(Key::Text(text.to_owned()))
            }
            Self::Hex => unhex(written).map(Key::Bytes).ok_or_else(|| BadKey::NotHex(shown())),
        }
    }
}

impl Key {
    /// Writes the key as [`KeyKind::parse`] reads it.
    pub(crate) fn write(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => out.write_all(text.as_bytes()),
            Self::Bytes(bytes) => write_hex(bytes, out),
        }
    }
}

/// A key in a message: a text is in quotes.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "'{text}'"),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

/// Writes two digits for each byte.
pub(crate) fn write_hex(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// The bytes that are written with two digits each.
pub(crate) fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let byte = |&[high, low]: &[u8; 2]| Some(digit(high)? << 4 | digit(low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_they_are_read() {
        for (kind, written) in [
            (KeyKind::U64, &b"18446744073709551615"[..]),
            (KeyKind::Text, b""),
            (KeyKind::Text, "a\tb\\\n\0é".as_bytes()),
            (KeyKind::Hex, b""),
            (KeyKind::Hex, b"00ff7e"),
        ] {
            let mut out = Vec::new();
            kind.parse(written).unwrap().write(&mut out).unwrap();
            assert_eq!(out, written);
        }
        assert_eq!(KeyKind::Hex.parse(b"Ab"), Ok(Key::Bytes(vec![0xab])));
    }

    #[test]
    fn what_is_no_key_is_told() {
        for (kind, written, told) in [
            (KeyKind::U64, &b""[..], "the key '' is not a decimal number"),
            (KeyKind::U64, b"\xff", "the key '\u{fffd}' is not a decimal number"),
            (
                KeyKind::U64,
                b"99999999999999999999",
                "the key 99999999999999999999 is greater than 18446744073709551615",
            ),
            (KeyKind::Text, b"a\xff\x1b", "the key 'a\u{fffd}\\u{1b}' is not UTF-8, and so no text"),
            (KeyKind::Hex, b"abc", "the key 'abc' is not hex, two digits for each byte"),
            (KeyKind::Hex, b"+1", "the key '+1' is not hex, two digits for each byte"),
            (KeyKind::Hex, "éé".as_bytes(), "the key 'éé' is not hex, two digits for each byte"),
        ] {
            assert_eq!(kind.parse(written).unwrap_err().to_string(), told);
        }
    }
}
