//! Entries as JSON objects, one on each line: `{"key":"a","value":"1"}`.
//!
//! A number is a JSON number; a key of bytes is a string of hexadecimal digits, as on the command line; a value that is
//! not UTF-8 is such a string in the field `value_hex`.

use crate::keys::{Key, KeyKind, unhex, write_hex};
use crate::lines::Bad;
use crate::values::Values;
use serde_json::Value;
use std::io::{self, Write};

/// Writes an entry, without the end of the line.
pub(crate) fn write(key: &Key, value: &[u8], values: Values, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"key\":")?;
    match key {
        Key::Number(number) => write!(out, "{number}")?,
        Key::Text(text) => serde_json::to_writer(&mut *out, text)?,
        Key::Bytes(_) => {
            out.write_all(b"\"")?;
            key.write(out)?;
            out.write_all(b"\"")?;
        }
    }
    match (values, std::str::from_utf8(value)) {
        (Values::Numbers, _) => {
            out.write_all(b",\"value\":")?;
            out.write_all(value)?;
        }
        (_, Ok(text)) => {
            out.write_all(b",\"value\":")?;
            serde_json::to_writer(&mut *out, text)?;
        }
        (_, Err(_)) => {
            out.write_all(b",\"value_hex\":\"")?;
            write_hex(value, out)?;
            out.write_all(b"\"")?;
        }
    }
    out.write_all(b"}")
}

/// The entry of a line.
pub(crate) fn read(line: &[u8], keys: KeyKind) -> Result<(Key, Vec<u8>), Bad> {
    let Value::Object(fields) = serde_json::from_slice(line).map_err(|error| not_json(&error))? else {
        return Err(Bad::NotAnEntry("it is no object".to_owned()));
    };
    let [mut key, mut value] = [None, None];
    for (name, field) in fields {
        let (place, content) = match (&*name, field) {
            ("key", Value::Number(number)) if keys == KeyKind::U64 => (&mut key, Some(number.to_string().into_bytes())),
            ("key", Value::String(text)) => (&mut key, Some(text.into_bytes())),
            ("key", _) if keys == KeyKind::U64 => return Err(wrong("'key' must be a number")),
            ("key", _) => return Err(wrong("'key' must be a string")),
            ("value", Value::Number(number)) if number.is_u64() => (&mut value, Some(number.to_string().into_bytes())),
            ("value", Value::String(text)) => (&mut value, Some(text.into_bytes())),
            ("value", _) => return Err(wrong("'value' must be a string, or a number below 2^64")),
            ("value_hex", Value::String(text)) => (&mut value, unhex(text.as_bytes())),
            ("value_hex", _) => (&mut value, None),
            _ => return Err(wrong(&format!("unknown field '{}'", name.escape_debug()))),
        };
        let content = content.ok_or_else(|| wrong("'value_hex' must be a string of two hex digits for each byte"))?;
        if place.replace(content).is_some() {
            return Err(wrong("it has 'value' and 'value_hex'"));
        }
    }
    let key = key.ok_or_else(|| wrong("it has no 'key'"))?;
    let value = value.ok_or_else(|| wrong("it has no 'value' and no 'value_hex'"))?;
    Ok((keys.parse(&key).map_err(Bad::Key)?, value))
}

fn wrong(what: &str) -> Bad {
    Bad::NotAnEntry(what.to_owned())
}

/// Says what is wrong, and in which column. There is only one line.
fn not_json(error: &serde_json::Error) -> Bad {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(what) => Bad::NotAnEntry(format!("{what} at column {}", error.column())),
        None => Bad::NotAnEntry(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let all: Vec<u8> = (0..=255).collect();
        for (key, kind, value, values, line) in [
            (
                Key::Number(u64::MAX),
                KeyKind::U64,
                &b"7"[..],
                Values::Numbers,
                "{\"key\":18446744073709551615,\"value\":7}",
            ),
            (
                Key::Text("\"\\\n\t\0é".to_owned()),
                KeyKind::Text,
                b"\"\n",
                Values::Bytes,
                "{\"key\":\"\\\"\\\\\\n\\t\\u0000é\",\"value\":\"\\\"\\n\"}",
            ),
            (
                Key::Bytes(vec![0, 0xff]),
                KeyKind::Hex,
                b"\xff",
                Values::Bytes,
                "{\"key\":\"00ff\",\"value_hex\":\"ff\"}",
            ),
            (Key::Text(String::new()), KeyKind::Text, b"", Values::Bytes, "{\"key\":\"\",\"value\":\"\"}"),
        ] {
            let mut out = Vec::new();
            write(&key, value, values, &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), line);
            assert_eq!(read(line.as_bytes(), kind).unwrap(), (key, value.to_vec()));
        }
        let mut out = Vec::new();
        write(&Key::Bytes(all.clone()), &all, Values::Bytes, &mut out).unwrap();
        assert_eq!(read(&out, KeyKind::Hex).unwrap(), (Key::Bytes(all.clone()), all));
    }

    #[test]
    fn what_is_wrong_with_a_line_is_told() {
        for (keys, line, told) in [
            (KeyKind::Text, &b""[..], "EOF while parsing a value at column 0"),
            (KeyKind::Text, b"{\"key\":\"a\" 1}", "expected `,` or `}` at column 12"),
            (KeyKind::Text, b"[1]", "it is no object"),
            (KeyKind::Text, b"{\"value\":\"a\"}", "it has no 'key'"),
            (KeyKind::Text, b"{\"key\":\"a\"}", "it has no 'value' and no 'value_hex'"),
            (KeyKind::Text, b"{\"key\":7,\"value\":\"a\"}", "'key' must be a string"),
            (KeyKind::U64, b"{\"key\":null,\"value\":\"a\"}", "'key' must be a number"),
            (KeyKind::Text, b"{\"key\":\"a\",\"value\":-1}", "'value' must be a string, or a number below 2^64"),
            (KeyKind::Text, b"{\"key\":\"a\",\"val\\u001b\":1}", "unknown field 'val\\u{1b}'"),
            (KeyKind::Text, b"{\"key\":\"a\",\"value\":\"\",\"value_hex\":\"\"}", "it has 'value' and 'value_hex'"),
            (
                KeyKind::Text,
                b"{\"key\":\"a\",\"value_hex\":\"abc\"}",
                "'value_hex' must be a string of two hex digits for each byte",
            ),
        ] {
            let message = read(line, keys).unwrap_err().to_string();
            assert_eq!(message, format!("no entry in JSON: {told}"));
        }
        let told = read(b"{\"key\":-1,\"value\":\"a\"}", KeyKind::U64).unwrap_err().to_string();
        assert_eq!(told, "the key '-1' is not a decimal number");
        let told = read(b"{\"key\":\"xy\",\"value\":\"a\"}", KeyKind::Hex).unwrap_err().to_string();
        assert_eq!(told, "the key 'xy' is not hex, two digits for each byte");
        // Too deep, and not UTF-8.
        assert!(read(&[b'['; 100_000], KeyKind::Text).is_err());
        assert!(read(b"{\"key\":\"\xff\",\"value\":\"a\"}", KeyKind::Text).is_err());
        assert!(read(b"{\"key\":\"\\ud800\",\"value\":\"a\"}", KeyKind::Text).is_err());
    }
}
