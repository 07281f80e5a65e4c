//! Escapes in lines of text: any bytes in one line, which the terminal can show.
//!
//! A tab, a newline, a carriage return and a backslash are `\t`, `\n`, `\r` and `\\`. Each byte of another control
//! character, and each byte that is not UTF-8, is `\x` and two hexadecimal digits. All else is itself.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write};

/// Writes bytes with escapes.
pub(crate) fn write(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    for chunk in bytes.utf8_chunks() {
        let mut text = chunk.valid();
        while let Some((at, c)) = text.char_indices().find(|&(_, c)| c.is_control() || c == '\\') {
            let (plain, rest) = text.split_at(at);
            out.write_all(plain.as_bytes())?;
            let (special, after) = rest.split_at(c.len_utf8());
            match c {
                '\t' => out.write_all(b"\\t")?,
                '\n' => out.write_all(b"\\n")?,
                '\r' => out.write_all(b"\\r")?,
                '\\' => out.write_all(b"\\\\")?,
                _ => write_bytes(special.as_bytes(), out)?,
            }
            text = after;
        }
        out.write_all(text.as_bytes())?;
        write_bytes(chunk.invalid(), out)?;
    }
    Ok(())
}

fn write_bytes(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    bytes.iter().try_for_each(|byte| write!(out, "\\x{byte:02x}"))
}

/// An escape that there is not: the backslash and what follows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadEscape(String);

impl fmt::Display for BadEscape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is no escape; there are \\t, \\n, \\r, \\\\ and \\x with two hex digits", self.0)
    }
}

/// The bytes that are written with escapes.
pub(crate) fn read(written: &[u8]) -> Result<Cow<'_, [u8]>, BadEscape> {
    let mut parts = written.split(|&byte| byte == b'\\');
    let first = parts.next().unwrap_or_default();
    if first.len() == written.len() {
        return Ok(Cow::Borrowed(written));
    }
    let mut bytes = Vec::with_capacity(written.len());
    bytes.extend_from_slice(first);
    while let Some(part) = parts.next() {
        let bad = || {
            let shown = String::from_utf8_lossy(&part[..part.len().min(3)]).escape_debug().to_string();
            BadEscape(format!("\\{shown}"))
        };
        let rest = match part {
            // An empty part is between two backslashes. What follows the second one is itself.
            [] => {
                bytes.push(b'\\');
                parts.next().ok_or_else(bad)?
            }
            [b't', rest @ ..] => {
                bytes.push(b'\t');
                rest
            }
            [b'n', rest @ ..] => {
                bytes.push(b'\n');
                rest
            }
            [b'r', rest @ ..] => {
                bytes.push(b'\r');
                rest
            }
            [b'x', digits @ ..] => {
                let (digits, rest) = digits.split_at_checked(2).ok_or_else(bad)?;
                bytes.extend(super::keys::unhex(digits).ok_or_else(bad)?);
                rest
            }
            _ => return Err(bad()),
        };
        bytes.extend_from_slice(rest);
    }
    Ok(Cow::Owned(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(bytes, &mut out).unwrap();
        out
    }

    #[test]
    fn what_is_written_is_read() {
        let all: Vec<u8> = (0..=255).chain(*b"\\\\x41\\").chain("é\u{9b}\u{fffd}".bytes()).collect();
        for bytes in [&b""[..], b"plain", b"\\", b"\\\\", b"\n\n", b"\xff\xfe", b"a\\tb\tc", &all] {
            let line = written(bytes);
            assert!(!line.contains(&b'\n') && !line.contains(&b'\t') && std::str::from_utf8(&line).is_ok());
            assert_eq!(read(&line).unwrap(), bytes);
        }
        assert_eq!(written("é\t\0\u{9b}\\".as_bytes()), "é\\t\\x00\\xc2\\x9b\\\\".as_bytes());
        // What needs no escape may be itself, too.
        assert_eq!(read(b"\\x41\tb\xff").unwrap(), &b"A\tb\xff"[..]);
    }

    #[test]
    fn what_is_no_escape_is_told() {
        for (line, told) in [
            (&b"\\"[..], "'\\'"),
            (b"a\\\\\\", "'\\'"),
            (b"\\q", "'\\q'"),
            (b"\\x4", "'\\x4'"),
            (b"\\x4g7", "'\\x4g'"),
            (b"\\x\\x41", "'\\x'"),
            (b"\\\x1b", "'\\\\u{1b}'"),
        ] {
            let message = read(line).unwrap_err().to_string();
            assert!(message.starts_with(&format!("{told} is no escape")), "{message}");
        }
    }
}
