//! Any bytes as user input: lines for `load`, and histories for `crash --replay`.
//!
//! ```text
//! 0      bits 0 to 4 the longest line that is read, in bytes (31: as long as it may be); bit 5 what another system
//!        puts around lines is left out; bit 7 a history instead
//! ...    the text
//! ```

use crate::Seeds;
use crate::data::Data;
use crate::trees::{Any, options, zeroed};
use bristlecone::crash::History;
use bristlecone::{Error, ErrorKind, IndexKind, Map, OneLine};
use keys::{Key, KeyKind};
use lines::{Bad, Lines};
use std::collections::BTreeMap;
use std::io::Cursor;

#[allow(dead_code, reason = "the command line uses all of it")]
#[path = "../../cli/src/escape.rs"]
mod escape;
#[allow(dead_code, reason = "the command line uses all of it")]
#[path = "../../cli/src/keys.rs"]
mod keys;
#[allow(dead_code, reason = "the command line uses all of it")]
#[path = "../../cli/src/lines.rs"]
mod lines;

/// Longer than any line.
const LONGEST: u64 = 1 << 30;

/// The meaning of a line, parsed in a different way from `load`.
fn meaning(line: &[u8]) -> Option<(u64, &[u8])> {
    let text = String::from_utf8_lossy(line);
    let (key, _) = text.split_once('\t').filter(|(key, _)| !key.is_empty())?;
    let digit = |c: char| c.to_digit(10).map(u64::from);
    let number = key.chars().try_fold(0u64, |number, c| number.checked_mul(10)?.checked_add(digit(c)?))?;
    Some((number, &line[key.len() + 1..]))
}

/// A line without what another system puts around it.
fn bare(whole: &[u8], is_first: bool) -> &[u8] {
    let line = whole.strip_suffix(b"\r\n").or(whole.strip_suffix(b"\n")).unwrap_or(whole);
    line.strip_prefix("\u{feff}".as_bytes()).filter(|_| is_first).unwrap_or(line)
}

pub fn run(data: &[u8]) {
    let mut data = Data(data);
    let what = data.byte();
    if what & 128 != 0 {
        return history(data.0);
    }
    let longest = if what & 31 == 31 { LONGEST } else { 4 + u64::from(what & 31) };
    let (text, is_exact) = (data.0, what & 32 == 0);
    let mut lines = Lines::new(Box::new(Cursor::new(text.to_vec())), longest, is_exact);
    let mut expected = text.split_inclusive(|&byte| byte == b'\n');
    let pool = options().create_on(zeroed(crate::trees::HEADER + (24 << 10))).unwrap();
    let map: Map<u64, Vec<u8>, OneLine<7>, Any> = pool.map_with("main", IndexKind::Volatile).unwrap();
    let mut model = BTreeMap::new();
    let mut number = 0;
    while lines.advance().unwrap() {
        number += 1;
        let whole = expected.next().unwrap();
        let line = whole.strip_suffix(b"\n").unwrap_or(whole);
        let is_short = (line.len() as u64) < longest;
        let line = if is_exact { line } else { bare(whole, number == 1) };
        let meant = meaning(line).filter(|_| is_short);
        let entry = lines.line().and_then(|line| {
            round_trips(line);
            lines::plain(line, KeyKind::U64)
        });
        match entry {
            Ok((key, value)) => {
                let Key::Number(key) = key else { panic!("{key} is no number") };
                assert_eq!(meant, Some((key, value)));
                match map.insert(key, value) {
                    Ok(was_there) => assert_eq!(model.insert(key, value.to_vec()).is_some(), was_there),
                    Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            Err(bad) => {
                assert_eq!(meant, None, "{bad}");
                assert_eq!(matches!(bad, Bad::TooLong(_)), !is_short);
                assert!(!bad.to_string().contains(['\n', '\u{1b}']), "a message of one line, without controls");
            }
        }
        assert_eq!(lines.number, number);
    }
    assert_eq!(expected.next(), None);
    assert_eq!(lines.bytes, text.len() as u64);
    assert!(map.iter().map(Result::unwrap).eq(model));
}

/// What is read from a line with escapes is written as a line that means the same. Any bytes can be written so.
fn round_trips(line: &[u8]) {
    for keys in KeyKind::ALL {
        match lines::escaped(line, keys) {
            Ok((key, value)) => {
                let (mut typed, mut again) = (Vec::new(), Vec::new());
                key.write(&mut typed).unwrap();
                escape::write(&typed, &mut again).unwrap();
                again.push(b'\t');
                escape::write(&value, &mut again).unwrap();
                let (key_again, value_again) = lines::escaped(&again, keys).unwrap();
                assert_eq!((key_again, value_again), (key, value));
            }
            Err(bad) => assert!(!bad.to_string().contains(['\n', '\u{1b}']), "a message of one line, without controls"),
        }
    }
    let mut written = Vec::new();
    escape::write(line, &mut written).unwrap();
    assert_eq!(&*escape::read(&written).unwrap(), line);
}

/// A history that can be parsed must print as text that parses to the same history.
fn history(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match text.parse::<History>() {
        Ok(history) => assert_eq!(history.to_string().parse().as_ref(), Ok(&history)),
        Err(error) => assert!(error.to_string().contains("is no operation")),
    }
}

pub fn seeds() -> Seeds {
    let texts: [(&str, u8, &[u8]); 10] = [
        ("lines", 31, b"1\tone\n2\ttwo\n1\tuno\n18446744073709551615\t\n"),
        ("no-end", 31, b"7\tseven"),
        ("bad", 31, b"\n\t\n+1\ta\n0x7\tb\n18446744073709551616\tc\n1 d\n\xff\te\n00\tf\n"),
        ("bytes", 31, b"1\t\xff\x00\t\r\n3\t\n"),
        ("long", 4, b"1\t345678\n1\t3456\n1\t34567\n12345678\n2\t"),
        ("long-no-end", 0, b"1\t2\n1\t345678"),
        ("escapes", 31, b"a\\tb\\n\\x00\t\\xff\\\\\\r\n00ff\t\\q\n\\x4\t\\\n"),
        ("history", 128, b"i5=1 i7=2 r5 reopen load9 batch3 clear crash7 i18446744073709551615=0"),
        ("no-history", 128, b"i5 r loadx batch-1 crash"),
        ("no-operation", 128, "i1=2 \u{2003} r1 \u{e9}".as_bytes()),
    ];
    texts.map(|(name, what, text)| (name.to_owned(), [&[what], text].concat())).into()
}
