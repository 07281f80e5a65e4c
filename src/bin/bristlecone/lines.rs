//! `key<TAB>value` lines, as `load` reads them. The fuzz target `load` uses this file, too.

use bristlecone::Error;
use std::fmt;
use std::io::{self, BufRead, Read};

/// The longest line that is read: a key, a tab, the longest record, and the end of the line.
pub(crate) const LONGEST: u64 = 32 + (1 << 30);

/// What is wrong with a line.
#[derive(Debug)]
pub(crate) enum Bad {
    NoTab,
    NotANumber(String),
    TooGreat(String),
    NotANumberAsValue,
    TooLong(u64),
    Refused(Error),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTab => write!(f, "no tab between key and value"),
            Self::NotANumber(key) => write!(f, "the key '{key}' is not a decimal number"),
            Self::TooGreat(key) => write!(f, "the key {key} is greater than {}", u64::MAX),
            Self::NotANumberAsValue => write!(f, "the tree holds numbers and the value is none"),
            Self::TooLong(longest) => write!(f, "longer than {longest} bytes"),
            Self::Refused(error) => write!(f, "{error}"),
        }
    }
}

/// The key and the value of a line.
fn split(line: &[u8]) -> Result<(u64, &[u8]), Bad> {
    let tab = line.iter().position(|&byte| byte == b'\t').ok_or(Bad::NoTab)?;
    let (key, value) = (&line[..tab], &line[tab + 1..]);
    let shown = || String::from_utf8_lossy(&key[..key.len().min(40)]).escape_debug().to_string();
    if key.is_empty() || !key.iter().all(u8::is_ascii_digit) {
        return Err(Bad::NotANumber(shown()));
    }
    let text = std::str::from_utf8(key).map_err(|_| Bad::NotANumber(shown()))?;
    let key = text.parse().map_err(|_| Bad::TooGreat(shown()))?;
    Ok((key, value))
}

/// Reads lines and numbers them; no line takes more memory than allowed.
pub(crate) struct Lines {
    input: Box<dyn BufRead>,
    longest: u64,
    line: Vec<u8>,
    /// The number of the line that was read last, from 1 on.
    pub(crate) number: u64,
    /// Bytes read so far.
    pub(crate) bytes: u64,
}

impl Lines {
    /// The lines of an input. Of a line with `longest` bytes or more, only that many bytes are kept.
    pub(crate) fn new(input: Box<dyn BufRead>, longest: u64) -> Self {
        Self { input, longest, line: Vec::new(), number: 0, bytes: 0 }
    }

    /// Reads the next line. False at the end of the input.
    pub(crate) fn advance(&mut self) -> io::Result<bool> {
        if self.is_cut() {
            self.bytes += self.input.skip_until(b'\n')? as u64;
        }
        self.line.clear();
        let read = self.input.by_ref().take(self.longest).read_until(b'\n', &mut self.line)?;
        self.bytes += read as u64;
        self.number += u64::from(read > 0);
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        Ok(read > 0)
    }

    /// Whether the line that was read last was cut.
    fn is_cut(&self) -> bool {
        self.line.len() as u64 == self.longest
    }

    /// The key and the value of the line that was read last.
    pub(crate) fn entry(&self) -> Result<(u64, &[u8]), Bad> {
        if self.is_cut() { Err(Bad::TooLong(self.longest)) } else { split(&self.line) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_number_a_tab_and_any_bytes() {
        assert_eq!(split(b"7\ta\tb\xff").unwrap(), (7, &b"a\tb\xff"[..]));
        assert_eq!(split(b"18446744073709551615\t").unwrap(), (u64::MAX, &b""[..]));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_told() {
        let wrong = |line: &[u8]| split(line).unwrap_err().to_string();
        assert_eq!(wrong(b""), "no tab between key and value");
        assert_eq!(wrong(b"7 a"), "no tab between key and value");
        assert_eq!(wrong(b"\ta"), "the key '' is not a decimal number");
        assert_eq!(wrong(b"+7\ta"), "the key '+7' is not a decimal number");
        assert_eq!(wrong(b"0x7\ta"), "the key '0x7' is not a decimal number");
        assert_eq!(
            wrong(b"18446744073709551616\ta"),
            "the key 18446744073709551616 is greater than 18446744073709551615"
        );
    }

    #[test]
    fn what_is_too_long_is_passed_over() {
        let mut lines = Lines::new(Box::new(&b"1\ta\n12345678\n1234567\n2\tb\n12345678901234567890"[..]), 8);
        let mut told = Vec::new();
        while lines.advance().unwrap() {
            told.push((lines.number, lines.entry().map(|(key, _)| key).map_err(|bad| bad.to_string())));
        }
        let (long, no_tab) = (Err("longer than 8 bytes".to_owned()), Err("no tab between key and value".to_owned()));
        assert_eq!(told, [(1, Ok(1)), (2, long.clone()), (3, no_tab), (4, Ok(2)), (5, long)]);
    }
}
