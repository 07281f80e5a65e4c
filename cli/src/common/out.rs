//! What subcommands return, and how figures are printed.

use crate::parse::Usage;
use serde_json::Value;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// The result of a subcommand: an exit code, or an error, which [`end`] prints on one line.
pub(crate) type Outcome<T = ExitCode> = Result<T, Box<dyn Error>>;

/// Writing to the standard output failed.
#[derive(Debug)]
pub(crate) struct Unwritten(io::Error);

impl fmt::Display for Unwritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "standard output: {}", self.0)
    }
}

impl Error for Unwritten {}

/// Turns a failed write into an error that names the standard output.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Unwritten> {
    result.map_err(Unwritten)
}

/// Prints one JSON object on one line.
pub(crate) fn json(object: &Value) -> Result<(), Unwritten> {
    written(writeln!(io::stdout().lock(), "{object}"))
}

/// Prints text.
pub(crate) fn text(text: &str) -> Result<(), Unwritten> {
    written(writeln!(io::stdout().lock(), "{text}"))
}

/// Prints text to the standard error. If that fails, there is no other place to report it.
pub(crate) fn aside(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A name in a form that can be shown: names from files or from the file system may have any characters, including
/// those that control a terminal.
pub(crate) fn shown(name: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    name.chars().map(escaped).collect()
}

/// Whether the reader of the output has closed its end.
fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<Unwritten>().is_some_and(|error| error.0.kind() == io::ErrorKind::BrokenPipe)
}

/// Ends the program: prints an error if there is one, and returns the exit code.
pub(crate) fn end(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(code) => code,
        // `bristlecone scan ... | head`: the reader has seen enough.
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            aside(&format!("bristlecone: {}", shown(&error.to_string())));
            if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// `1234567` as `1,234,567`.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A count with its noun: `1 key`, `2 keys`.
pub(crate) fn counted(n: u64, what: &str, plural: &str) -> String {
    format!("{} {}", count(n), if n == 1 { what } else { plural })
}

/// Bytes with a binary unit and three digits.
pub(crate) fn bytes(n: u64) -> String {
    let mut value = n as f64;
    for unit in ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value, unit == "B"));
        }
        value /= 1024.0;
    }
    format!("{value:.0} EiB")
}

/// A limit in bytes: as [`bytes`], and exactly.
pub(crate) fn limit(n: u64) -> String {
    if n < 1000 { format!("{n} bytes") } else { format!("{} ({n} bytes)", bytes(n)) }
}

/// A time with a suitable unit and three digits.
pub(crate) fn time(t: Duration) -> String {
    let mut value = t.as_nanos() as f64;
    for unit in ["ns", "µs", "ms"] {
        if value < 999.5 {
            return format!("{} {unit}", three_digits(value, unit == "ns"));
        }
        value /= 1000.0;
    }
    format!("{} s", three_digits(value, false))
}

fn three_digits(value: f64, whole: bool) -> String {
    match value {
        _ if whole || value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Milliseconds, rounded to microseconds, for JSON.
pub(crate) fn ms(t: Duration) -> f64 {
    (t.as_nanos() as f64 / 1000.0).round() / 1000.0
}

/// Rounded, for JSON: figures with more digits than are significant are hard to read.
pub(crate) fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shown_in_one_line() {
        assert_eq!(shown("Grüße, 'x y'"), "Grüße, 'x y'");
        assert_eq!(shown("a\nb\u{1b}[31m\u{9b}"), "a\\nb\\u{1b}[31m\\u{9b}");
    }

    #[test]
    fn figures_are_readable() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 512, 1000, 1536, 1 << 30].map(bytes), ["0 B", "512 B", "0.98 KiB", "1.50 KiB", "1.00 GiB"]);
        assert_eq!([999, 64 << 20].map(limit), ["999 bytes", "64.0 MiB (67108864 bytes)"]);
        let nanos = [7, 1500, 12_345_678, 3_000_000_000].map(Duration::from_nanos);
        assert_eq!(nanos.map(time), ["7 ns", "1.50 µs", "12.3 ms", "3.00 s"]);
    }
}
