//! `power`: what `scripts/power-cuts.sh` runs on a file system whose power is cut. One side changes a pool with a
//! journal and says what is safe, the other one looks at what a cut has left.
//!
//! The changes are those of `kill`. They are numbered from 1 on, and belong to the threads in turn, each of which makes
//! its own in their order.

mod verify;
mod write;

use crate::out::{self, Outcome};
use crate::parse::{Index, Layout};
use crate::shape::Shape;
use crate::tools::kill::work::{self, Content, Op, Series, Trees, record};
use bristlecone::{Error, ErrorGroup, ErrorKind, Journal, Options, Pool};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::{fmt, io};

/// The two sides of the power cuts
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    side: Side,
}

#[derive(Debug, clap::Subcommand)]
enum Side {
    /// Make changes to the pool in a directory, beginning where the last process has ended
    Write(write::Args),
    /// Check that the changes up to one are there, and none behind another
    Verify(verify::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.side {
        Side::Write(args) => write::run(args).or_else(|error| {
            let error = Failed::from(error);
            out::aside(&error.message);
            Ok(error.code())
        }),
        Side::Verify(args) => verify::run(&args),
    }
}

/// Why a side ended. The exit code tells the script that cuts the power which of two things it is.
#[derive(Debug)]
struct Failed {
    /// The disk has failed, or what is there cannot be trusted, and the library says so. Anything else is wrong: a
    /// state that never was, an invariant that is broken, a pool that is gone.
    is_refusal: bool,
    message: String,
}

impl Failed {
    fn code(&self) -> ExitCode {
        if self.is_refusal { ExitCode::from(3) } else { ExitCode::FAILURE }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl StdError for Failed {}

impl From<Box<dyn StdError>> for Failed {
    fn from(error: Box<dyn StdError>) -> Self {
        let error = match error.downcast::<Self>() {
            Ok(failed) => return *failed,
            Err(error) => error,
        };
        let is_refusal = match error.downcast_ref::<Error>() {
            Some(error) => is_refusal(error),
            None => error.is::<io::Error>(),
        };
        Self { is_refusal, message: error.to_string() }
    }
}

fn is_refusal(error: &Error) -> bool {
    let is_damage = matches!(
        error.kind,
        ErrorKind::Corrupt { .. }
            | ErrorKind::Superblock { .. }
            | ErrorKind::Truncated { .. }
            | ErrorKind::NotAPool { .. }
            | ErrorKind::NotFound
            | ErrorKind::StillOpen { .. }
    );
    matches!(error.group(), ErrorGroup::Storage | ErrorGroup::Open) && !is_damage
}

/// The seed of all changes: the verifier knows them, too.
const SEED: u64 = 0x1854;
/// The capacities of the pool, one after the other.
const CAPACITIES: [u64; 3] = [10 << 20, 13 << 20, 17 << 20];
/// Bytes of the log at first: few, so that checkpoints happen all the time.
const LOG: u64 = 128 << 10;

/// The pool in a directory, and what is beside it.
struct Place {
    directory: PathBuf,
}

impl Place {
    fn pool(&self) -> PathBuf {
        self.directory.join("a.pool")
    }

    /// Says how many threads there are. It is there before the pool.
    fn threads(&self) -> PathBuf {
        self.directory.join("threads")
    }

    /// The number of threads, if it was chosen.
    fn chosen(&self) -> Outcome<Option<u64>> {
        match std::fs::read_to_string(self.threads()) {
            Ok(number) => Ok(number.parse().ok().filter(|n| *n > 0)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// How the pool is opened. Its capacity is the first one, until it has grown.
fn options(capacity: u64) -> Options {
    Pool::options().capacity(capacity).segment_size(16 << 10).log_size(LOG)
}

fn open(pool: &Pool, threads: u64) -> Outcome<Box<dyn Trees>> {
    let layouts = Shape::usual(Layout::OneLine, Index::Volatile);
    Ok(work::open(pool, layouts, threads as usize)?)
}

/// Opens the pool, or makes it. If a cut came while its journal was away, it is given one before anything is changed.
fn open_with_journal(place: &Place, capacity: u64, mode: Journal) -> Outcome<Pool> {
    Ok(options(capacity).journal(mode).open(place.pool())?)
}

fn series(thread: u64, threads: u64) -> Series {
    Series::new(SEED, 0, thread, threads)
}

/// The number of a thread's change, of which it has made so many before.
fn number(before: u64, thread: u64, threads: u64) -> u64 {
    before * threads + thread + 1
}

/// How many changes of a thread are among the first `n` of all threads.
fn share(n: u64, thread: u64, threads: u64) -> u64 {
    (n + threads - 1 - thread) / threads
}

/// What all threads have in the trees.
struct Everything {
    numbers: BTreeMap<u64, u64>,
    records: BTreeMap<u64, Vec<u8>>,
    words: BTreeMap<u64, u64>,
    texts: BTreeMap<u64, u64>,
    own: Vec<BTreeMap<u64, u64>>,
}

impl Everything {
    fn read(trees: &dyn Trees, threads: u64) -> Outcome<Self> {
        let [words, texts] = trees.both()?;
        let own = (0..threads).map(|thread| trees.own(thread as usize)).collect::<Result<_, _>>()?;
        Ok(Self { numbers: trees.numbers(), records: trees.records()?, words, texts, own })
    }

    /// How many changes each thread has made, if that many explain what is there: at least its share of the first
    /// `sure`, and at most that of the first `most`.
    fn explained(&self, (sure, most): (u64, u64), threads: u64) -> Outcome<Vec<u64>> {
        if self.words != self.texts {
            return Err("two trees that are changed together differ".into());
        }
        let (mut made, mut known) = (Vec::new(), [0; 3]);
        for thread in 0..threads {
            let mine = Mine::new(self, thread, threads);
            known.iter_mut().zip(mine.sizes()).for_each(|(known, size)| *known += size);
            let (least, most) = (share(sure, thread, threads), share(most, thread, threads));
            let mut changes = series(thread, threads);
            let mut content = Content::default();
            changes.by_ref().take(least as usize).for_each(|op| op.apply(&mut content));
            let mut count = least;
            made.push(loop {
                let next = changes.next();
                if mine.is(&content, next.as_ref().filter(|_| count < most)) {
                    break count;
                }
                let Some(op) = next.filter(|_| count < most) else {
                    let (from, to) = (least, most);
                    return Err(format!(
                        "what thread {thread} of {threads} has is after none of {from} to {to} changes"
                    )
                    .into());
                };
                op.apply(&mut content);
                count += 1;
            });
        }
        if known != [self.numbers.len(), self.records.len(), self.words.len()] {
            return Err("there are entries that no change has made".into());
        }
        Ok(made)
    }
}

/// What one thread has in the trees.
struct Mine<'e> {
    numbers: BTreeMap<u64, u64>,
    records: BTreeMap<u64, &'e Vec<u8>>,
    both: BTreeMap<u64, u64>,
    own: &'e BTreeMap<u64, u64>,
}

impl<'e> Mine<'e> {
    fn new(of: &'e Everything, thread: u64, threads: u64) -> Self {
        let keys = || (0..work::KEYS).map(|n| work::key(n, thread, threads));
        let words = |from: &BTreeMap<u64, u64>| keys().filter_map(|key| Some((key, *from.get(&key)?))).collect();
        Self {
            numbers: words(&of.numbers),
            records: keys().filter_map(|key| Some((key, of.records.get(&key)?))).collect(),
            both: words(&of.words),
            own: &of.own[thread as usize],
        }
    }

    fn sizes(&self) -> [usize; 3] {
        [self.numbers.len(), self.records.len(), self.both.len()]
    }

    /// Whether it is this content, or also a part of the next change if that is one that may be there in part.
    fn is(&self, content: &Content, next: Option<&Op>) -> bool {
        let is_record =
            |(key, value): (&u64, &u64)| self.records.get(key).is_some_and(|found| **found == record(*value));
        let rest = (&self.both, self.own) == (&content.both, &content.own)
            && self.records.len() == content.records.len()
            && content.records.iter().all(is_record);
        if !rest || self.numbers == content.numbers {
            return rest;
        }
        let Some(Op::Batch(_)) = next else { return false };
        let mut after = content.clone();
        next.iter().for_each(|op| op.apply(&mut after));
        let is_either = |(key, value): (&u64, &u64)| {
            [content, &after].into_iter().any(|content| content.numbers.get(key) == Some(value))
        };
        content.numbers.keys().all(|key| self.numbers.contains_key(key)) && self.numbers.iter().all(is_either)
    }
}
