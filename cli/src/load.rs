//! `load`: reads the lines of a file into a tree.

use crate::format::Format;
use crate::journal;
use crate::keys::{Key, KeyKind};
use crate::lines::{Bad, LeftOut, Lines};
use crate::out::{self, Outcome};
use crate::parse::{self, Index, Layout, Usage};
use crate::place::TreeArgs;
use crate::shape::Shape;
use crate::stop::{Input, Signal, Stop, Until};
use crate::trees::{self, Kind, Tree};
use crate::values::Values;
use bristlecone::medium::Domain;
use bristlecone::stat::TreeInfo;
use bristlecone::{Error, ErrorKind, Journal, Pool, RingPlace};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Load `key<TAB>value` lines into a tree, each durable before the next
///
/// Keys are decimal numbers, or what --key says; values are any bytes but a newline. A text has no tab and no newline
/// either, unless --format is another one. A later line with the same key wins. Creates the pool and the tree if they
/// are not there.
///
/// A carriage return at the end of a line, and a byte order mark at the start of the file, are no part of what is
/// loaded, and are counted in the end; --exact keeps them.
///
/// SIGINT (Ctrl-C) and SIGTERM end the load after the line it is at: the pool is closed in order, the summary says how
/// many lines are there, and the exit code is 130 or 143. A second signal ends the process at once.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: TreeArgs,
    /// The file, or - for the standard input
    file: PathBuf,
    /// How each line holds an entry
    #[arg(long, value_enum, default_value_t = Format::Plain)]
    format: Format,
    /// How a new tree's nodes are laid out; only trees of the default layout are backed up and compacted [default:
    /// one_line]
    #[arg(long)]
    layout: Option<Layout>,
    /// Bytes of a new tree's sorted nodes, 512, 1K, 2K or 4K [default: 512]
    #[arg(long, value_name = "SIZE", value_parser = parse::slots)]
    node_bytes: Option<u32>,
    /// Where a new tree's index lives [default: volatile]
    #[arg(long)]
    index: Option<Index>,
    /// The most bytes that the pool may take, as in 64M or 2G; more than a pool has raises its limit [default: no
    /// limit]
    #[arg(long, value_name = "SIZE", value_parser = parse::size)]
    capacity: Option<u64>,
    /// Give the pool a journal, so that it survives a loss of power, too; and when to wait for the disk: each, request,
    /// or a time, as in 10ms [default: as it did last; a new pool on a disk: 10ms]
    ///
    /// each: every line is on the disk before the next one is read. 10ms: what was loaded 10 ms ago is on the disk.
    /// request: the lines are on the disk in the end. The pool remembers it. A pool that has a journal uses it in any
    /// case; none is for one without.
    #[arg(long, value_name = "WHEN", value_parser = parse::journal)]
    journal: Option<Journal>,
    /// Where the ring of a journal is from now on, which has what is not in the log yet [default: where it was; beside
    /// a new pool]
    ///
    /// beside: a file, POOL.ring, which is found again wherever pool, log and ring are moved together. memory: in
    /// /dev/shm; then the disk has nothing to write for it, and it is lost with the memory.
    #[arg(long, value_name = "WHERE")]
    ring: Option<Ring>,
    /// Keep a carriage return at the end of a line, and a byte order mark at the start: they are part of the entry
    #[arg(long)]
    exact: bool,
    /// Skip bad lines instead of stopping at the first one
    #[arg(long)]
    skip_bad: bool,
    /// Print each key as soon as its line is durable (on the disk only with --journal
    /// each)
    #[arg(long, conflicts_with = "json")]
    ack: bool,
    /// Print the figures as one JSON object
    #[arg(long)]
    json: bool,
}

/// Where the ring of a journal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Ring {
    /// Beside the pool
    Beside,
    /// In memory
    Memory,
}

impl Ring {
    fn place(self) -> RingPlace {
        match self {
            Self::Beside => RingPlace::Beside,
            Self::Memory => RingPlace::InMemory,
        }
    }
}

/// How many bad lines are reported one by one; the others are only counted.
const TOLD: u64 = 20;

/// What became of the lines.
#[derive(Default)]
struct Counts {
    loaded: u64,
    replaced: u64,
    bad: u64,
    /// What ended the load before the end of the lines.
    stopped: Option<Signal>,
}

impl Args {
    fn name(&self) -> String {
        if self.file.as_os_str() == "-" { "standard input".to_owned() } else { self.file.display().to_string() }
    }

    /// The lines until a signal, and how many bytes there will be, if that is known.
    fn lines(&self, stop: &Stop) -> Outcome<(Lines, Option<u64>)> {
        let (input, len): (Box<dyn BufRead>, _) = if self.file.as_os_str() == "-" {
            (buffered(io::stdin().lock(), stop), None)
        } else {
            let file = File::open(&self.file).map_err(|error| format!("{}: {error}", self.name()))?;
            let len = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|meta| meta.len());
            (buffered(file, stop), len)
        };
        Ok((Lines::new(input, self.format.longest(), self.exact), len))
    }

    fn pool(&self) -> Outcome<Pool> {
        let mut options = Pool::options();
        if let Some(capacity) = self.capacity {
            options = options.capacity(capacity);
        }
        if let Some(journal) = self.journal {
            options = options.journal(journal);
        }
        if let Some(ring) = self.ring {
            options = options.ring(ring.place());
            // On some file systems a new pool would have none.
            if self.journal.is_none() && !self.place.pool.exists() {
                options = options.journal(Journal::default());
            }
        }
        self.place.opening.open(options, &self.place.pool).map_err(|error| match error.kind {
            // A pool that is not there is made.
            ErrorKind::NotFound => format!("{}: there is no such directory", error.pool).into(),
            _ => error.into(),
        })
    }

    /// The kind of the tree, or of the tree to create.
    fn kind(&self, there: Option<&TreeInfo>) -> Outcome<Kind> {
        let kind = |info| self.place.kind(info).and_then(|kind| self.place.writable(info, kind).map(|()| kind));
        let there = there.map(kind).transpose()?;
        let keys = there.map(|there| there.keys).or(self.place.keys).unwrap_or(KeyKind::U64);
        let values = there.map_or(Values::Bytes, |there| there.values);
        let shape = if keys == KeyKind::U64 { Some(self.shape(there.and_then(|there| there.shape))?) } else { None };
        if shape.is_none() && (self.layout.is_some() || self.node_bytes.is_some() || self.index.is_some()) {
            let why = "--layout, --node-bytes and --index are for u64 keys: trees of other keys are of one kind";
            return Err(Usage(why.to_owned()).into());
        }
        Ok(Kind { keys, values, shape, is_own: false })
    }

    /// The shape of the tree of numbers, or of that to create.
    fn shape(&self, there: Option<Shape>) -> Outcome<Shape> {
        let layout = self.layout.or(there.map(|there| there.layout)).unwrap_or(Layout::OneLine);
        if layout == Layout::OneLine && self.node_bytes.is_some() {
            let why = "one_line nodes have one size: --node-bytes goes with --layout linear or circular";
            return Err(Usage(why.to_owned()).into());
        }
        let found = there.unwrap_or(Shape::usual(layout, Index::Volatile));
        let slots = self.node_bytes.unwrap_or(found.slots);
        let asked = Shape { layout, slots, index: self.index.unwrap_or(found.index) };
        if there.is_some_and(|there| asked != there) {
            let has = format!("{} {}", found.layout.name(), trees::nodes(found));
            let hint = "--layout, --node-bytes and --index are for new trees";
            return Err(format!("{}: tree '{}' has {has}; {hint}", self.place.pool.display(), self.place.tree).into());
        }
        Ok(asked)
    }

    fn load(
        &self,
        (tree, keys): (&dyn Tree, KeyKind),
        (lines, stop): (&mut Lines, &Stop),
        bar: &ProgressBar,
    ) -> Outcome<Counts> {
        let mut counts = Counts::default();
        let mut out = io::stdout().lock();
        let unread = |error: io::Error| format!("{}: {error}", self.name());
        loop {
            let is_line = lines.advance().map_err(unread)?;
            // After a signal, the last line may be a part of one.
            counts.stopped = stop.asked();
            if !is_line || counts.stopped.is_some() {
                break;
            }
            match self.put((tree, keys), lines) {
                Ok((key, was_there)) => {
                    counts.loaded += 1;
                    counts.replaced += u64::from(was_there);
                    if self.ack {
                        // The standard output is flushed after each line.
                        let told = out::written(self.format.write_key(&key, &mut out));
                        told.map_err(|error| format!("{error}; {} lines are loaded", counts.loaded))?;
                    }
                }
                // A bad line. A pool that is full or damaged is another matter.
                Err(bad) => {
                    let is_too_long =
                        |kind: &_| matches!(kind, ErrorKind::RecordTooLong { .. } | ErrorKind::KeyTooLong { .. });
                    let is_line = !matches!(&bad, Bad::Refused(error) if !is_too_long(&error.kind));
                    let message = format!("{}:{}: {bad}", self.name(), lines.number);
                    if !(self.skip_bad && is_line) {
                        let hint = match bad {
                            Bad::Refused(Error { kind: ErrorKind::OutOfSpace { source: None, .. }, .. }) => {
                                "; load it again with a larger --capacity"
                            }
                            _ => "",
                        };
                        let before = match counts.loaded {
                            1 => "1 line before it is loaded".to_owned(),
                            loaded => format!("{} lines before it are loaded", out::count(loaded)),
                        };
                        let without =
                            left_out(lines.left_out()).map_or_else(String::new, |what| format!(", without {what}"));
                        return Err(format!("{message}; {before}{without}{hint}").into());
                    }
                    counts.bad += 1;
                    if counts.bad <= TOLD {
                        bar.suspend(|| out::aside(&format!("bristlecone: {}; skipped", out::shown(&message))));
                    }
                }
            }
            if lines.number.is_multiple_of(1024) {
                bar.set_position(lines.bytes);
            }
        }
        Ok(counts)
    }

    /// Puts the line that was read last; returns its key, and whether the key was there.
    fn put(&self, (tree, keys): (&dyn Tree, KeyKind), lines: &Lines) -> Result<(Key, bool), Bad> {
        let (key, value) = self.format.read(lines.line()?, keys)?;
        if !tree.accepts(&value) {
            return Err(Bad::Value(tree.values().asked()));
        }
        let was_there = tree.put(&key, &value).map_err(Bad::Refused)?;
        Ok((key, was_there))
    }
}

fn buffered(input: impl Input, stop: &Stop) -> Box<dyn BufRead> {
    Box::new(BufReader::with_capacity(1 << 16, Until::new(input, stop.clone())))
}

/// What of the input is no part of the lines, as a phrase.
fn left_out(LeftOut { carriage_returns, mark }: LeftOut) -> Option<String> {
    let ends = (carriage_returns > 0)
        .then(|| out::counted(carriage_returns, "carriage return at a line's end", "carriage returns at lines' ends"));
    let mark = mark.then(|| "a byte order mark".to_owned());
    ends.into_iter().chain(mark).reduce(|all, one| format!("{all} and {one}"))
}

/// A progress bar on a terminal, nothing elsewhere.
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
    // The file first: a wrong name or option should not leave a new pool behind.
    let stop = Stop::on_signals()?;
    let (mut lines, len) = args.lines(&stop)?;
    if !args.place.pool.exists() {
        args.kind(None)?;
    }
    if args.ring.is_some() && args.journal == Some(Journal::None) {
        return Err(Usage("--ring is for a pool with a journal".to_owned()).into());
    }
    let pool = args.pool()?;
    if args.ring.is_some() && pool.journal().is_none() {
        let hint = "`bristlecone journal add POOL` gives it one";
        return Err(format!("{}: --ring is for a pool with a journal; {hint}", args.place.pool.display()).into());
    }
    let there = trees::find(&pool, &args.place.tree)?;
    let kind = args.kind(there.as_ref())?;
    let tree = trees::open(&pool, &args.place.tree, kind)?;
    let bar = progress(len);
    let start = Instant::now();
    let loaded = args.load((&*tree, kind.keys), (&mut lines, &stop), &bar);
    let took = start.elapsed();
    bar.finish_and_clear();
    let keys = tree.len();
    drop(tree);
    if loaded.is_err() && there.is_none() && keys == 0 {
        // Perhaps --key was forgotten: a new tree of other keys would be in the way of the next attempt.
        pool.drop_tree(&args.place.tree)?;
    }
    let domain = pool.durability();
    if domain == Domain::Journal && loaded.is_ok() {
        // Before the figures are taken: closing does it, too.
        pool.sync()?;
    }
    let figures = pool.journal();
    let closed = pool.close();
    // What stopped the load says more than what came of it.
    let Counts { loaded, replaced, bad, stopped } = loaded?;
    closed?;

    if bad > TOLD {
        let bad = out::count(bad);
        let note = format!("bristlecone: {}: {bad} bad lines skipped, the first {TOLD} are named above", args.name());
        out::aside(&out::shown(&note));
    }
    if args.json {
        out::json(&json!({
            "file": args.name(),
            "tree": args.place.tree,
            "lines": loaded + bad,
            "stopped": stopped.map(|signal| signal.name),
            "loaded": loaded,
            "replaced": replaced,
            "skipped": bad,
            "left_out": { "carriage_returns": lines.left_out().carriage_returns, "byte_order_mark": lines.left_out().mark },
            "keys": keys,
            "bytes": lines.bytes,
            "seconds": out::rounded(took.as_secs_f64(), 6),
            "domain": domain.name(),
            "journal": figures.map(|figures| journal::object(&figures)),
        }))?;
        return Ok(code(stopped));
    }
    let skipped = match bad {
        0 => String::new(),
        bad => format!(", {} skipped", out::counted(bad, "bad line", "bad lines")),
    };
    let without =
        left_out(lines.left_out()).map_or_else(String::new, |what| format!(", without {what} (--exact keeps that)"));
    let summary = format!(
        "{}: {} loaded in {} ({} replaced{skipped}){without}; tree '{}' has {}",
        args.name(),
        out::counted(loaded, "line", "lines"),
        out::time(took),
        out::counted(replaced, "key", "keys"),
        args.place.tree,
        out::counted(keys, "key", "keys"),
    );
    let summary = out::shown(&summary);
    let summary = match figures {
        Some(figures) => format!("{summary}\njournal: {}", journal::done(&figures)),
        None => summary,
    };
    // Nothing but acknowledgements goes to their output.
    if args.ack {
        out::aside(&summary);
    } else {
        out::text(&summary)?;
    }
    if let Some(signal) = stopped {
        let name = out::shown(&args.name());
        let from = out::count(loaded + bad + 1);
        out::aside(&format!(
            "bristlecone: {name}: {}: the pool was closed in order; line {from} is the next one",
            signal.name
        ));
    }
    Ok(code(stopped))
}

fn code(stopped: Option<Signal>) -> ExitCode {
    stopped.map_or(ExitCode::SUCCESS, |signal| signal.code().into())
}
