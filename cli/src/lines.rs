//! `key<TAB>value` lines, as `load` reads them. The fuzz target `load` uses this file, too.

use super::escape::{self, BadEscape};
use super::keys::{BadKey, Key, KeyKind};
use bristlecone::Error;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, BufRead, Read};

/// A byte order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// What is wrong with a line.
#[derive(Debug)]
pub(crate) enum Bad {
    NoTab,
    Key(BadKey),
    Escape(BadEscape),
    NotAnEntry(String),
    /// What is asked of values.
    Value(&'static str),
    TooLong(u64),
    Refused(Error),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTab => write!(f, "no tab between key and value"),
            Self::Key(bad) => write!(f, "{bad}"),
            Self::Escape(bad) => write!(f, "{bad}"),
            Self::NotAnEntry(what) => write!(f, "no entry in JSON: {what}"),
            Self::Value(asked) => write!(f, "{asked}"),
            Self::TooLong(longest @ 0..0x10_0000) => write!(f, "longer than {longest} bytes"),
            Self::TooLong(longest) => write!(f, "longer than {} MiB ({longest} bytes)", longest >> 20),
            Self::Refused(error) => write!(f, "{error}"),
        }
    }
}

/// What is before and behind the first tab of a line.
fn split(line: &[u8]) -> Result<(&[u8], &[u8]), Bad> {
    let tab = line.iter().position(|&byte| byte == b'\t').ok_or(Bad::NoTab)?;
    Ok((&line[..tab], &line[tab + 1..]))
}

/// The key and the value of a line that holds them as they are.
pub(crate) fn plain(line: &[u8], keys: KeyKind) -> Result<(Key, &[u8]), Bad> {
    let (key, value) = split(line)?;
    Ok((keys.parse(key).map_err(Bad::Key)?, value))
}

/// The key and the value of a line with escapes.
pub(crate) fn escaped(line: &[u8], keys: KeyKind) -> Result<(Key, Cow<'_, [u8]>), Bad> {
    let (key, value) = split(line)?;
    let key = keys.parse(&escape::read(key).map_err(Bad::Escape)?).map_err(Bad::Key)?;
    Ok((key, escape::read(value).map_err(Bad::Escape)?))
}

/// What another system has put around lines, and is no part of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LeftOut {
    /// Carriage returns before a newline.
    pub(crate) carriage_returns: u64,
    /// Whether the input began with a byte order mark of UTF-8.
    pub(crate) mark: bool,
}

/// Reads lines and numbers them; no line takes more memory than allowed.
pub(crate) struct Lines {
    input: Box<dyn BufRead>,
    longest: u64,
    line: Vec<u8>,
    /// Whether the line that was read last was cut.
    is_cut: bool,
    /// What was left out so far, if anything is.
    left_out: Option<LeftOut>,
    /// The number of the line that was read last, from 1 on.
    pub(crate) number: u64,
    /// Bytes read so far.
    pub(crate) bytes: u64,
}

impl Lines {
    /// The lines of an input. Of a line with `longest` bytes or more, only that many bytes are kept. A line ends with a
    /// newline, or with a carriage return and a newline; if it `is_exact`, that carriage return, and a byte order mark
    /// before the first line, are parts of the lines.
    pub(crate) fn new(input: Box<dyn BufRead>, longest: u64, is_exact: bool) -> Self {
        let left_out = (!is_exact).then(LeftOut::default);
        Self { input, longest, line: Vec::new(), is_cut: false, left_out, number: 0, bytes: 0 }
    }

    /// Reads the next line. False at the end of the input.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        if self.is_cut {
            self.bytes += self.input.skip_until(b'\n')? as u64;
        }
        self.line.clear();
        let read = self.input.by_ref().take(self.longest).read_until(b'\n', &mut self.line)?;
        self.bytes += read as u64;
        self.number += u64::from(read > 0);
        let has_end = self.line.pop_if(|last| *last == b'\n').is_some();
        self.is_cut = self.line.len() as u64 == self.longest;
        if let Some(left_out) = &mut self.left_out {
            if has_end && self.line.pop_if(|last| *last == b'\r').is_some() {
                left_out.carriage_returns += 1;
            }
            if self.number == 1 && self.line.starts_with(MARK) {
                self.line.drain(..MARK.len());
                left_out.mark = true;
            }
        }
        Ok(read > 0)
    }

    /// What is no part of the lines so far.
    pub(crate) fn left_out(&self) -> LeftOut {
        self.left_out.unwrap_or_default()
    }

    /// The line that was read last, without its end.
    pub(crate) fn line(&self) -> Result<&[u8], Bad> {
        if self.is_cut { Err(Bad::TooLong(self.longest)) } else { Ok(&self.line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_key_a_tab_and_any_bytes() {
        let plain = |line| plain(line, KeyKind::U64).unwrap();
        assert_eq!(plain(b"7\ta\tb\xff"), (Key::Number(7), &b"a\tb\xff"[..]));
        assert_eq!(plain(b"18446744073709551615\t"), (Key::Number(u64::MAX), &b""[..]));
        let (key, value) = super::plain(b"a\\tb\t\\n", KeyKind::Text).unwrap();
        assert_eq!((key, value), (Key::Text("a\\tb".to_owned()), &b"\\n"[..]));
        let (key, value) = escaped(b"a\\tb\t\\n\t\xff", KeyKind::Text).unwrap();
        assert_eq!((key, &*value), (Key::Text("a\tb".to_owned()), &b"\n\t\xff"[..]));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_told() {
        let wrong = |line: &[u8]| plain(line, KeyKind::U64).unwrap_err().to_string();
        assert_eq!(wrong(b""), "no tab between key and value");
        assert_eq!(wrong(b"7 a"), "no tab between key and value");
        assert_eq!(wrong(b"\ta"), "the key '' is not a decimal number");
        assert_eq!(wrong(b"+7\ta"), "the key '+7' is not a decimal number");
        assert_eq!(wrong(b"0x7\ta"), "the key '0x7' is not a decimal number");
        assert_eq!(
            wrong(b"18446744073709551616\ta"),
            "the key 18446744073709551616 is greater than 18446744073709551615"
        );
        let wrong = |line: &[u8]| escaped(line, KeyKind::Text).unwrap_err().to_string();
        assert_eq!(wrong(b"a\\tb"), "no tab between key and value");
        assert!(wrong(b"a\\qb\tc").starts_with("'\\qb' is no escape"));
        assert!(wrong(b"a\tb\\").starts_with("'\\' is no escape"));
        assert_eq!(wrong(b"\\xff\tb"), "the key '\u{fffd}' is not UTF-8, and so no text");
    }

    #[test]
    fn what_another_system_puts_around_lines_is_left_out_and_counted() {
        let input = b"\xef\xbb\xbf1\ta\r\n2\tb\n\r\n\xef\xbb\xbf3\tc\r\r\n1234567\r\n4\td\r";
        let read = |is_exact| {
            let mut lines = Lines::new(Box::new(&input[..]), 9, is_exact);
            let mut all = Vec::new();
            while lines.advance().unwrap() {
                all.push(lines.line().map(<[u8]>::to_vec).map_err(|bad| bad.to_string()));
            }
            assert_eq!(lines.bytes, input.len() as u64);
            (all, lines.left_out())
        };
        let ok = |line: &[u8]| Ok(line.to_vec());
        let long = || Err("longer than 9 bytes".to_owned());
        // One carriage return of each line, if a newline follows. A mark elsewhere is a character.
        let lines = vec![ok(b"1\ta"), ok(b"2\tb"), ok(b""), ok(b"\xef\xbb\xbf3\tc\r"), ok(b"1234567"), ok(b"4\td\r")];
        assert_eq!(read(false), (lines, LeftOut { carriage_returns: 4, mark: true }));
        let exact: Vec<_> = input.split(|&byte| byte == b'\n').map(ok).collect();
        assert_eq!(read(true), (exact, LeftOut::default()));
        let cut = |line: &'static [u8]| {
            let mut lines = Lines::new(Box::new(line), 9, false);
            assert!(lines.advance().unwrap());
            let told = lines.line().map(<[u8]>::to_vec).map_err(|bad| bad.to_string());
            (told, lines.advance().unwrap())
        };
        assert_eq!(cut(b"\xef\xbb\xbf1234567"), (long(), false), "what is cut stays cut");
        assert_eq!(cut(b"12345678\r\n"), (long(), false));
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let mut lines = Lines::new(Box::new(&b"1\ta\n12345678\n1234567\n2\tb\n12345678901234567890"[..]), 8, true);
        let mut told = Vec::new();
        while lines.advance().unwrap() {
            let key = lines.line().and_then(|line| plain(line, KeyKind::U64)).map(|(key, _)| key);
            told.push((lines.number, key.map_err(|bad| bad.to_string())));
        }
        let key = |number| Ok(Key::Number(number));
        let (long, no_tab) = (Err("longer than 8 bytes".to_owned()), Err("no tab between key and value".to_owned()));
        assert_eq!(told, [(1, key(1)), (2, long.clone()), (3, no_tab), (4, key(2)), (5, long)]);
    }
}
