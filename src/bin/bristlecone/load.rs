//! `load`: lines of a file into a tree.

use crate::out::{self, Outcome};
use crate::parse::{self, Index, Layout, Usage};
use crate::trees::{self, Place, Shape, Tree, Values};
use bristlecone::{Error, Pool};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Load `key<TAB>value` lines into a tree, each durable before the next
///
/// Keys are decimal numbers, values any bytes but a newline. A later line with the same key wins. Creates the pool and
/// the tree if they are not there.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// The file, or - for the standard input
    file: PathBuf,
    /// How a new tree's nodes are laid out [default: one_line]
    #[arg(long)]
    layout: Option<Layout>,
    /// Bytes of a new tree's sorted nodes, 512, 1K, 2K or 4K [default: 512]
    #[arg(long, value_name = "SIZE", value_parser = parse::slots)]
    node_bytes: Option<u32>,
    /// Where a new tree's index lives [default: volatile]
    #[arg(long)]
    index: Option<Index>,
    /// Bytes the pool may come to, as in 64M or 2G; a larger one than it has makes it grow [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    capacity: Option<u64>,
    /// Skip bad lines instead of stopping at the first one
    #[arg(long)]
    skip_bad: bool,
    /// Print each key as soon as its line is durable
    #[arg(long, conflicts_with = "json")]
    ack: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Longest line read: a key, a tab, the longest record, and the end of the line.
const LONGEST: u64 = 32 + (1 << 30);

/// Bad lines that are told one by one; the others are only counted.
const TOLD: u64 = 20;

/// What is wrong with a line.
#[derive(Debug)]
enum Bad {
    NoTab,
    NotANumber(String),
    TooGreat(String),
    NotANumberAsValue,
    TooLong,
    Refused(Error),
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTab => write!(f, "no tab between key and value"),
            Self::NotANumber(key) => write!(f, "the key '{key}' is not a decimal number"),
            Self::TooGreat(key) => write!(f, "the key {key} is greater than {}", u64::MAX),
            Self::NotANumberAsValue => write!(f, "the tree holds numbers and the value is none"),
            Self::TooLong => write!(f, "longer than {LONGEST} bytes"),
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

/// Lines, with their numbers, and no longer than memory allows.
struct Lines {
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    bytes: u64,
}

impl Lines {
    /// Reads the next line, without its end. False at the end of the input.
    fn advance(&mut self) -> io::Result<bool> {
        self.line.clear();
        let read = self.input.by_ref().take(LONGEST).read_until(b'\n', &mut self.line)?;
        self.bytes += read as u64;
        self.number += u64::from(read > 0);
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
        }
        Ok(read > 0)
    }

    /// Whether the line read last was cut.
    fn is_cut(&self) -> bool {
        self.line.len() as u64 == LONGEST
    }

    fn skip_rest(&mut self) -> io::Result<()> {
        self.bytes += self.input.skip_until(b'\n')? as u64;
        Ok(())
    }
}

/// What came of the lines.
#[derive(Default)]
struct Counts {
    loaded: u64,
    replaced: u64,
    bad: u64,
}

impl Args {
    fn name(&self) -> String {
        if self.file.as_os_str() == "-" { "standard input".to_owned() } else { self.file.display().to_string() }
    }

    /// The lines, and how many bytes there will be if that is known.
    fn lines(&self) -> Outcome<(Lines, Option<u64>)> {
        let (input, len): (Box<dyn BufRead>, _) = if self.file.as_os_str() == "-" {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file = File::open(&self.file).map_err(|error| format!("{}: {error}", self.name()))?;
            let len = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
            (Box::new(BufReader::with_capacity(1 << 16, file)), len)
        };
        Ok((Lines { input, line: Vec::new(), number: 0, bytes: 0 }, len))
    }

    fn pool(&self) -> Outcome<Pool> {
        let mut options = Pool::options();
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        Ok(options.open(&self.place.pool)?)
    }

    /// What the tree is, and what was asked for where that is said.
    fn shape(&self, pool: &Pool) -> Outcome<Shape> {
        let there = trees::find(pool, &self.place.tree)?.map(|info| Shape::of(&info)).transpose()?;
        let layout = self.layout.unwrap_or(there.map_or(Layout::OneLine, |there| there.layout));
        let new = Shape { layout, slots: layout.usual_slots(), index: Index::Volatile, values: Values::Bytes };
        if layout == Layout::OneLine && self.node_bytes.is_some() {
            let why = "one_line nodes have one size: --node-bytes goes with --layout linear or circular";
            return Err(Usage(why.to_owned()).into());
        }
        let found = there.unwrap_or(new);
        Ok(Shape {
            layout,
            slots: self.node_bytes.unwrap_or(found.slots),
            index: self.index.unwrap_or(found.index),
            values: found.values,
        })
    }

    fn load(&self, tree: &dyn Tree, lines: &mut Lines, bar: &ProgressBar) -> Outcome<Counts> {
        let mut counts = Counts::default();
        let mut out = io::stdout().lock();
        let unread = |error: io::Error| format!("{}: {error}", self.name());
        while lines.advance().map_err(unread)? {
            match put(tree, lines) {
                Ok((key, was_there)) => {
                    counts.loaded += 1;
                    counts.replaced += u64::from(was_there);
                    if self.ack {
                        // The standard output is flushed at each line.
                        let told = out::written(writeln!(out, "{key}"));
                        told.map_err(|error| format!("{error}; {} lines are loaded", counts.loaded))?;
                    }
                }
                // A line is bad. A pool that is full or damaged is another matter.
                Err(bad) => {
                    let is_line = !matches!(&bad, Bad::Refused(error) if !matches!(error, Error::RecordTooLong { .. }));
                    let message = format!("{}:{}: {bad}", self.name(), lines.number);
                    if !(self.skip_bad && is_line) {
                        let hint = match bad {
                            Bad::Refused(Error::OutOfSpace { source: None, .. }) => {
                                "; load it again with a larger --capacity"
                            }
                            _ => "",
                        };
                        return Err(format!("{message}; {} lines before it are loaded{hint}", counts.loaded).into());
                    }
                    counts.bad += 1;
                    if counts.bad <= TOLD {
                        bar.suspend(|| out::aside(&format!("bristlecone: {}; skipped", out::shown(&message))));
                    }
                    if lines.is_cut() {
                        lines.skip_rest().map_err(unread)?;
                    }
                }
            }
            if lines.number.is_multiple_of(1024) {
                bar.set_position(lines.bytes);
            }
        }
        Ok(counts)
    }
}

/// Puts the line that was read last; returns its key, and whether it was there.
fn put(tree: &dyn Tree, lines: &Lines) -> Result<(u64, bool), Bad> {
    if lines.is_cut() {
        return Err(Bad::TooLong);
    }
    let (key, value) = split(&lines.line)?;
    if !tree.accepts(value) {
        return Err(Bad::NotANumberAsValue);
    }
    tree.put(key, value).map(|was_there| (key, was_there)).map_err(Bad::Refused)
}

/// A bar on a terminal, nothing elsewhere.
fn progress(len: Option<u64>) -> ProgressBar {
    let (bar, look) = match len {
        Some(len) => {
            (ProgressBar::new(len), "{bar:40} {percent:>3} %  {bytes}/{total_bytes}  {bytes_per_sec}  {eta} left")
        }
        None => (ProgressBar::new_spinner(), "{spinner} {bytes}  {bytes_per_sec}"),
    };
    bar.with_style(ProgressStyle::with_template(look).unwrap_or_else(|_| ProgressStyle::default_bar()))
}

pub(crate) fn run(args: Args) -> Outcome {
    // The file first: a wrong name should not leave a new pool behind.
    let (mut lines, len) = args.lines()?;
    let pool = args.pool()?;
    let tree = args.shape(&pool)?.open(&pool, &args.place.tree)?;
    let bar = progress(len);
    let start = Instant::now();
    let loaded = args.load(&*tree, &mut lines, &bar);
    let took = start.elapsed();
    bar.finish_and_clear();
    let keys = tree.len();
    drop(tree);
    let domain = pool.durability();
    pool.close()?;
    let Counts { loaded, replaced, bad } = loaded?;

    if bad > TOLD {
        let bad = out::count(bad);
        let note = format!("bristlecone: {}: {bad} bad lines skipped, the first {TOLD} are named above", args.name());
        out::aside(&out::shown(&note));
    }
    if args.json {
        out::json(&json!({
            "file": args.name(),
            "tree": args.place.tree,
            "lines": lines.number,
            "loaded": loaded,
            "replaced": replaced,
            "skipped": bad,
            "keys": keys,
            "bytes": lines.bytes,
            "seconds": out::rounded(took.as_secs_f64(), 6),
            "domain": domain.name(),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let skipped = if bad == 0 { String::new() } else { format!(", {} bad ones skipped", out::count(bad)) };
    let summary = format!(
        "{}: {} loaded in {} ({} keys replaced{skipped}); tree '{}' has {}",
        args.name(),
        out::counted(loaded, "line", "lines"),
        out::time(took),
        out::count(replaced),
        args.place.tree,
        out::counted(keys, "key", "keys"),
    );
    // Where the acknowledgements go, nothing else does.
    if args.ack {
        out::aside(&out::shown(&summary));
    } else {
        out::text(&out::shown(&summary))?;
    }
    Ok(ExitCode::SUCCESS)
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
}
