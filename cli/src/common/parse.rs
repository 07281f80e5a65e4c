//! Parsing of arguments: sizes, times, layouts, kinds of index.

use bristlecone::papers::{Circular, Linear};
use bristlecone::{IndexKind, Journal, Node, OneLine, Options};
use clap::ValueEnum;
use clap::builder::{PathBufValueParser, TypedValueParser};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A wrong combination of arguments; ends with exit code 2, like the errors that `clap` finds.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// A node layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Unsorted, a line and a fence per change
    #[value(name = "one_line", alias = "one-line")]
    OneLine,
    /// FAST+FAIR: sorted, shifts to the right
    Linear,
    /// Circ-Tree: a sorted ring, shifts the shorter way
    Circular,
}

impl Layout {
    pub(crate) const ALL: [Self; 3] = [Self::OneLine, Self::Linear, Self::Circular];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OneLine => <OneLine>::NAME,
            Self::Linear => Linear::<4>::NAME,
            Self::Circular => Circular::<4>::NAME,
        }
    }

    /// The default number of slots of a node.
    pub(crate) fn usual_slots(self) -> u32 {
        match self {
            Self::OneLine => <OneLine>::SLOTS as u32,
            Self::Linear | Self::Circular => 32,
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }
}

/// Where the levels above the leaves live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Index {
    /// In memory: stored by an orderly close, rebuilt after a crash
    Volatile,
    /// In the pool, in nodes like the leaves
    Persistent,
    /// NV-Tree: in memory, in nodes without pointers
    Flat,
    /// As flat, with nodes of one size
    #[value(name = "flat_fixed", alias = "flat-fixed")]
    FlatFixed,
}

impl Index {
    pub(crate) fn kind(self) -> IndexKind {
        match self {
            Self::Volatile => IndexKind::Volatile,
            Self::Persistent => IndexKind::Persistent,
            Self::Flat => IndexKind::Flat,
            Self::FlatFixed => IndexKind::FlatFixed,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        self.kind().name()
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|index| index.name() == name)
    }
}

/// A number of bytes: `4096`, `64K`, `64M`, `2G`, `1T`, also `64MiB`.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no size; write bytes, or a number with K, M, G or T, as in 64M");
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit = unit.strip_suffix("iB").unwrap_or(unit);
    let shift = match unit {
        "" => 0,
        "K" | "k" => 10,
        "M" | "m" => 20,
        "G" | "g" => 30,
        "T" | "t" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is more bytes than 64 bits count"))
}

/// The units of times, with their nanoseconds.
const TIMES: [(&str, u64); 4] = [("us", 1000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)];

/// The shortest time between two syncs, in nanoseconds.
const LEAST: u64 = 1_000_000;

/// When a pool with a journal waits for the disk: `each`, `request`, or a time such as `10ms`; `none`: without one.
pub(crate) fn journal(text: &str) -> Result<Journal, String> {
    let wrong = || format!("'{text}' is not each, request, or a time of at least 1ms, as in 10ms or 1s, or none");
    match text {
        "each" => return Ok(Journal::Each),
        "none" => return Ok(Journal::None),
        "request" => return Ok(Journal::OnRequest),
        _ => {}
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let (_, scale) = TIMES.into_iter().find(|(name, _)| *name == unit).ok_or_else(wrong)?;
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let time = number.checked_mul(scale).filter(|&time| time >= LEAST).ok_or_else(wrong)?;
    Ok(Journal::Every(Duration::from_nanos(time)))
}

/// The argument that [`journal`] understands so.
pub(crate) fn journal_name(journal: Journal) -> String {
    match journal {
        Journal::None => "none".to_owned(),
        Journal::Each => "each".to_owned(),
        Journal::OnRequest => "request".to_owned(),
        Journal::Every(time) => {
            let time = time.as_nanos();
            let fits = |(_, scale): &&(&str, u64)| time.is_multiple_of((*scale).into());
            let (unit, scale) = TIMES.iter().rev().find(fits).unwrap_or(&TIMES[0]);
            format!("{}{unit}", time / u128::from(*scale))
        }
        // Of a library that knows more.
        journal => format!("{journal:?}"),
    }
}

/// Parses the path of a pool. It is not `-`: a command line that lacks the pool before the file of `load` would make a
/// pool of that name.
pub(crate) fn pool() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        let why = "a pool is a file, never the standard input or output, and comes first, as in `load POOL -`; a file \
                   called - is ./-";
        if path.as_os_str() == "-" { Err(why) } else { Ok(path) }
    })
}

/// The name of a tree. An invalid name is refused before a pool is created for it.
pub(crate) fn tree_name(text: &str) -> Result<String, String> {
    let (len, limit) = (text.len(), Options::MAX_TREE_NAME);
    if (1..=limit).contains(&len) {
        Ok(text.to_owned())
    } else {
        Err(format!("{len} bytes, it must have 1 to {limit}"))
    }
}

/// The greatest count: more keys than any pool holds, and small enough to be multiplied by bytes.
const MOST: u64 = 1_000_000_000_000;

/// A count with an optional `k` or `M`, in powers of ten: `1000000`, `1M`, `1_000_000`.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    let wrong = || format!("'{text}' is no count; write a number, as in 1000000 or 1M");
    let (digits, scale) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1000),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1_000_000),
        _ => (text, 1),
    };
    let number: u64 = digits.replace('_', "").parse().map_err(|_| wrong())?;
    let number = number.checked_mul(scale).filter(|&number| number <= MOST);
    number.ok_or_else(|| format!("'{text}' is greater than {MOST}"))
}

/// Parses the bytes of a node's slots; returns the number of slots.
pub(crate) fn slots(text: &str) -> Result<u32, String> {
    let bytes = size(text)?;
    let wrong = || format!("a node has 512, 1K, 2K or 4K bytes, not {text}");
    match u32::try_from(bytes) {
        Ok(bytes @ 512..=4096) if bytes.is_power_of_two() => Ok(bytes / 16),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("4096"), Ok(4096));
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        for wrong in ["", "M", "1.5G", "-1", "64X", "99999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_journal_waits_for_each_change_or_for_a_time_or_when_it_is_asked() {
        for (text, journal) in [
            ("each", Journal::Each),
            ("none", Journal::None),
            ("request", Journal::OnRequest),
            ("10ms", Journal::Every(Duration::from_millis(10))),
            ("1s", Journal::Every(Duration::from_secs(1))),
            ("1500us", Journal::Every(Duration::from_micros(1500))),
            ("2min", Journal::Every(Duration::from_secs(120))),
        ] {
            assert_eq!(super::journal(text), Ok(journal));
            assert_eq!(journal_name(journal), text);
        }
        for wrong in
            ["", "Each", "10", "ms", "0ms", "999us", "-1s", "1.5s", "1h", "99999999999999999999s", "9999999999999min"]
        {
            assert!(super::journal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_decimal_units() {
        assert_eq!([number("10M"), number("5k"), number("1_000")], [Ok(10_000_000), Ok(5000), Ok(1000)]);
        assert_eq!(number("1000000M"), Ok(MOST));
        for wrong in ["", "k", "1G", "-1", "99999999999999999999", "1000001M", "18446744073709551615"] {
            assert!(number(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn nodes_have_a_power_of_two_of_slots() {
        assert_eq!([slots("512"), slots("4K"), slots("2048")], [Ok(32), Ok(256), Ok(128)]);
        for wrong in ["0", "256", "600", "8K"] {
            assert!(slots(wrong).is_err(), "{wrong}");
        }
    }
}
