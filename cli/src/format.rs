//! The forms in which entries are read and written, one on each line.

use crate::escape;
use crate::json_entry;
use crate::keys::{Key, KeyKind};
use crate::lines::{self, Bad};
use crate::values::Values;
use clap::ValueEnum;
use std::borrow::Cow;
use std::io::{self, Write};

/// How a line holds an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// `key<TAB>value`, as they are
    Plain,
    /// `key<TAB>value` with escapes for what is not printable, as `dump` writes it: \t, \n, \r, \\, \xff
    Escaped,
    /// A JSON object, as `dump --json` writes it: {"key": ..., "value": ...}
    Json,
}

/// The longest key and the longest value, in bytes.
const LONGEST: u64 = 65_536 + (1 << 30);

impl Format {
    /// The longest line that is read. A byte takes up to six in JSON (`\u0000`), and four if it is escaped; a byte of a
    /// key in hex takes two. What else is in a line is short.
    pub(crate) fn longest(self) -> u64 {
        match self {
            Self::Plain => LONGEST + 65_536 + 32,
            Self::Escaped => 4 * LONGEST + 32,
            Self::Json => 6 * LONGEST + 64,
        }
    }

    /// The entry of a line.
    pub(crate) fn read(self, line: &[u8], keys: KeyKind) -> Result<(Key, Cow<'_, [u8]>), Bad> {
        match self {
            Self::Plain => lines::plain(line, keys).map(|(key, value)| (key, Cow::Borrowed(value))),
            Self::Escaped => lines::escaped(line, keys),
            Self::Json => json_entry::read(line, keys).map(|(key, value)| (key, Cow::Owned(value))),
        }
    }

    /// Writes a line.
    pub(crate) fn write(self, (key, value): (&Key, &[u8]), values: Values, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Plain => {
                key.write(out)?;
                out.write_all(b"\t")?;
                out.write_all(value)?;
            }
            Self::Escaped => {
                write_key(key, out)?;
                out.write_all(b"\t")?;
                escape::write(value, out)?;
            }
            Self::Json => json_entry::write(key, value, values, out)?,
        }
        out.write_all(b"\n")
    }

    /// Writes a key on a line of its own. A line holds one key, so that a text needs escapes wherever it may have them.
    pub(crate) fn write_key(self, key: &Key, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Plain => key.write(out)?,
            Self::Escaped | Self::Json => write_key(key, out)?,
        }
        out.write_all(b"\n")
    }
}

/// Writes a key with escapes. Only texts have any.
fn write_key(key: &Key, out: &mut impl Write) -> io::Result<()> {
    match key {
        Key::Text(text) => escape::write(text.as_bytes(), out),
        Key::Number(_) | Key::Bytes(_) => key.write(out),
    }
}
