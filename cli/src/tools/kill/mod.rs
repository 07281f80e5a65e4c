//! `kill`: real processes, killed with SIGKILL in the middle of everything that they may do with a pool.

mod process;
mod verify;
pub(crate) mod work;

use crate::numbers::{self, Random};
use crate::opening::with_ending;
use crate::out::{self, Outcome};
use crate::parse::{self, Index, Layout};
use crate::scratch::{self, Scratch};
use crate::shape::Shape;
use bristlecone::{Journal, Options, PTree, Pool, Recovery};
use clap::ValueEnum;
use process::Worker;
use serde_json::json;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use verify::Wrong;
use work::Content;

/// Kill processes that change trees, and look for every acknowledged change
///
/// Threads insert, replace, remove, batch and clear, in trees of numbers and of records, create, exchange and delete
/// trees, and close and open the pool; each change is acknowledged over a pipe. The process is killed (SIGKILL) at
/// random moments, and stopped now and then while its pool is copied. After each kill the pool is opened: what was
/// acknowledged is there, what was in flight is there whole or not at all, nothing else is there, no invariant is
/// broken, and the same content takes no more space than before. Exit code 1 otherwise.
///
/// Some of the pools have a journal. Where each change waits for the disk, the ring, which has what is not on the disk
/// yet, is taken away now and then: what was acknowledged is there all the same.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Threads of the killed process
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=32))]
    threads: u64,
    /// How often to kill
    #[arg(long, value_name = "N", default_value_t = 100)]
    rounds: u64,
    /// Node layout [default: each in turn]
    #[arg(long)]
    layout: Option<Layout>,
    /// Where the index lives [default: each in turn]
    #[arg(long)]
    index: Option<Index>,
    /// Give all pools a journal: each, request, or a time, as in 10ms [default: a quarter of them, and each in turn]
    #[arg(long, value_name = "WHEN", value_parser = parse::journal)]
    journal: Option<Journal>,
    /// Seed of what is done, and of the moments to kill at [default: a different one each time]
    #[arg(long)]
    seed: Option<u64>,
    /// Where to put the scratch pools [default: shared memory, else the temporary directory]
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Plant a bug, and see that it is found
    #[arg(long)]
    control: Option<Control>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The killed process's side: which life it is
    #[arg(long, hide = true, requires = "pool")]
    life: Option<u64>,
    /// The killed process's side: the pool
    #[arg(long, hide = true)]
    pool: Option<PathBuf>,
}

/// Bugs that must be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Control {
    /// One acknowledged key is removed before the pool is looked at
    Missing,
    /// Changes are acknowledged before they are made
    Early,
    /// Each life of the process leaves a tree behind that nobody asked for
    Leak,
    /// With a journal, changes are acknowledged before they are on the disk, and the ring is removed after each kill
    Unsynced,
}

impl Control {
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Size of a segment in bytes: small, so that it shows if one is not given back.
const SEGMENT: u64 = 16 << 10;

/// Bytes of a log at first: few, so that checkpoints happen all the time.
const LOG: u64 = 256 << 10;

/// The bytes in use are measured after this many kills of a pool.
const UNTIL_FILLED: u64 = 4;

impl Args {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_default()
    }

    fn shape(&self) -> Shape {
        Shape::usual(self.layout.unwrap_or(Layout::OneLine), self.index.unwrap_or(Index::Volatile))
    }

    fn options(&self) -> Options {
        let options = Pool::options().capacity(16 << 20).segment_size(SEGMENT);
        // A short log: checkpoints are to happen.
        options.log_size(LOG).journal(self.journal.unwrap_or(Journal::None))
    }

    /// The arguments for the process that is killed.
    fn for_worker(&self) -> Vec<OsString> {
        let name = |value: Option<clap::builder::PossibleValue>| value.map(|v| v.get_name().to_owned());
        let options = [
            ("--threads", Some(self.threads.to_string())),
            ("--seed", Some(self.seed().to_string())),
            ("--layout", self.layout.and_then(|layout| name(layout.to_possible_value()))),
            ("--index", self.index.and_then(|index| name(index.to_possible_value()))),
            ("--journal", self.journal.map(parse::journal_name)),
            ("--control", self.control.map(Control::name)),
        ];
        let given = options.into_iter().filter_map(|(option, value)| Some([option.into(), value?.into()]));
        given.flatten().collect()
    }
}

/// The layouts and indexes that were selected.
fn kinds(args: &Args) -> impl Iterator<Item = (Layout, Index)> {
    let (layout, index) = (args.layout, args.index);
    let indexes = |of| Index::value_variants().iter().map(move |&index| (of, index));
    let all = Layout::ALL.into_iter().flat_map(indexes);
    all.filter(move |(of, with)| layout.is_none_or(|layout| layout == *of) && index.is_none_or(|index| index == *with))
}

/// When the pools with a journal wait for the disk, one life after the other.
const MODES: [Journal; 5] = [
    Journal::Each,
    Journal::OnRequest,
    Journal::Each,
    Journal::Every(Duration::from_millis(1)),
    Journal::Every(Duration::from_millis(20)),
];

/// The pools that are used: of each kind one without a journal, and for each index one with a journal, of another
/// layout.
fn victims(args: &Args, scratch: &mut Scratch) -> Vec<Victim> {
    let is_alone = args.layout.is_some() || args.index.is_some();
    let mut victims = Vec::new();
    for (n, kind) in kinds(args).enumerate() {
        let all = args.journal.is_some() || args.control == Some(Control::Unsynced);
        if !all {
            victims.push(Victim::new(args, kind, false, scratch));
        }
        if all || is_alone || n % 4 == n / 4 || n == 3 {
            victims.push(Victim::new(args, kind, true, scratch));
        }
    }
    victims
}

/// What is looked at after a kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    /// The pool as it is.
    Pool,
    /// A copy, so that the next process is the first one to see what the killed one has left.
    Copy,
    /// A copy of a pool with a journal, without its ring: what is on the disk.
    CopyWithoutRing,
    /// A pool with a journal, in a mapping from which nothing reaches the file.
    Apart,
    /// The pool after its ring was removed.
    WithoutRing,
}

impl Look {
    /// How what is looked at is opened.
    fn recovery(self) -> Recovery {
        match self {
            Self::Pool | Self::Apart => Recovery::Whole,
            // Nothing proves that all of a copied ring was there, and it was.
            Self::Copy => Recovery::RingAll,
            Self::CopyWithoutRing | Self::WithoutRing => Recovery::WithoutRing,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Pool => "of the pool",
            Self::Copy => "of a copy",
            Self::CopyWithoutRing => "of a copy without the ring",
            Self::Apart => "of the pool apart",
            Self::WithoutRing => "of the pool without its ring",
        }
    }
}

/// A pool, what its threads have put into it, and how much space it took.
struct Victim {
    args: Args,
    has_journal: bool,
    /// Whether all that its contents say was on the disk after the last look. If not, the ring has some of it, until
    /// the pool is opened again.
    is_settled: bool,
    pool: PathBuf,
    copy: PathBuf,
    contents: Vec<Content>,
    kills: u64,
    /// Bytes in use with the same content, measured repeatedly.
    used: Vec<u64>,
}

impl Victim {
    fn new(args: &Args, (layout, index): (Layout, Index), has_journal: bool, scratch: &mut Scratch) -> Self {
        let journal = if has_journal { "-journal" } else { "" };
        let name = format!("{}-{}{journal}", layout.name(), index.name());
        Self {
            args: Args { layout: Some(layout), index: Some(index), ..args.clone() },
            has_journal,
            is_settled: true,
            pool: scratch.pool(&format!("{name}.pool")),
            copy: scratch.pool(&format!("{name}.copy")),
            contents: vec![Content::default(); args.threads as usize],
            kills: 0,
            used: Vec::new(),
        }
    }

    /// One life of a process, and its end.
    fn round(&mut self, life: u64, random: &mut Random, found: &mut Found) -> Outcome<()> {
        let mode = self.args.journal.unwrap_or(MODES[(self.kills % MODES.len() as u64) as usize]);
        let planted = self.args.control == Some(Control::Unsynced);
        let mode = self.has_journal.then_some(if planted { Journal::Each } else { mode });
        let args = Args { journal: mode, ..self.args.clone() };
        // Without the ring, everything that was acknowledged is there.
        let is_synced = mode.is_none_or(|mode| mode == Journal::Each);
        let mut worker = Worker::start(&args, &self.pool, life)?;
        // Often while it opens the pool and recovers what the previous kill has left.
        let moment = if random.below(4) == 0 { random.below(4000) } else { 2000 + random.below(40_000) };
        worker.run(Duration::from_micros(moment))?;
        if random.below(3) == 0
            && let Some(acknowledged) = worker.stop_and_copy(&self.pool, &self.copy)?
        {
            let is_settled = self.is_settled || acknowledged.iter().any(|&n| n > 0);
            let without = mode.is_some() && is_synced && is_settled && random.below(2) == 0;
            let look = if without { Look::CopyWithoutRing } else { Look::Copy };
            let (_, wrong) = verify::left(&args, (&self.copy, look), &self.contents, (life, &acknowledged))?;
            found.copies += 1;
            found.wrong(life, look.name(), wrong);
            worker.run(Duration::from_micros(random.below(5000)))?;
        }
        let acknowledged = worker.kill()?;
        self.kills += 1;
        found.kills += 1;
        found.acknowledged += acknowledged.iter().sum::<u64>();
        found.with_journal += u64::from(mode.is_some());
        let is_settled = self.is_settled || acknowledged.iter().any(|&n| n > 0);
        let look = self.look((mode, is_synced && is_settled), random);
        self.is_settled = mode.is_none() || matches!(look, Look::Pool | Look::WithoutRing);
        let is_copy = matches!(look, Look::Copy | Look::CopyWithoutRing);
        let looked_at = if is_copy { &self.copy } else { &self.pool };
        if is_copy {
            copy(&self.pool, &self.copy)?;
        }
        if look == Look::WithoutRing {
            let rings = scratch::rings(&self.pool);
            found.lost_rings += rings.len() as u64;
            rings.iter().try_for_each(std::fs::remove_file)?;
        }
        let (contents, wrong) = verify::left(&args, (looked_at, look), &self.contents, (life, &acknowledged))?;
        found.wrong(life, look.name(), wrong);
        self.contents = match look {
            // What was in flight may be in the ring.
            Look::CopyWithoutRing => {
                let apart = (&*self.pool, Look::Apart);
                let (contents, wrong) = verify::left(&args, apart, &self.contents, (life, &acknowledged))?;
                found.wrong(life, Look::Apart.name(), wrong);
                contents
            }
            _ => contents,
        };
        if self.kills.is_multiple_of(UNTIL_FILLED) {
            let (contents, used) = verify::filled(&args, &self.pool)?;
            self.contents = contents;
            self.used.push(used);
        }
        Ok(())
    }

    fn look(&self, (mode, is_synced): (Option<Journal>, bool), random: &mut Random) -> Look {
        let drawn = random.below(5);
        match mode {
            _ if !self.pool.exists() => Look::Pool,
            Some(_) if self.args.control == Some(Control::Unsynced) => Look::WithoutRing,
            // Before there is a log, there is no such pool yet.
            Some(_) if !log(&self.pool).exists() => Look::Pool,
            Some(_) if drawn == 0 => Look::Apart,
            Some(_) if is_synced && drawn == 1 => Look::WithoutRing,
            Some(_) if is_synced && drawn == 2 => Look::CopyWithoutRing,
            Some(_) if drawn == 3 => Look::Copy,
            None if drawn < 2 => Look::Copy,
            _ => Look::Pool,
        }
    }

    /// The most bytes that the same content took in the first half of the measurements, and in the second half.
    fn halves(&self) -> Option<(u64, u64)> {
        let (first, second) = self.used.split_at(self.used.len() / 2);
        Some((*first.iter().max()?, *second.iter().max()?)).filter(|_| self.used.len() >= 4)
    }

    /// By how many bytes it has grown.
    fn leaked(&self) -> Option<u64> {
        // How full leaves are depends on chance. With few measurements, all of the first half may have had fuller
        // leaves than the second.
        let looks = self.used.len() as u64;
        let chance = |before: u64| before / 20 + before / looks + 4 * SEGMENT;
        self.halves().map(|(before, after)| after.saturating_sub(before + chance(before)))
    }
}

/// The results of all rounds.
#[derive(Default)]
struct Found {
    kills: u64,
    copies: u64,
    /// The kills in pools with a journal; and how many rings were removed.
    with_journal: u64,
    lost_rings: u64,
    acknowledged: u64,
    wrong: Wrong,
    /// Trees that were opened by images.
    by_image: u64,
    /// The number of pools in which a fault was planted, and in which something was found wrong.
    planted: u64,
    wrong_rounds: u64,
}

impl Found {
    fn wrong(&mut self, life: u64, what: &str, mut wrong: Wrong) {
        self.planted += u64::from(wrong.planted);
        self.by_image += wrong.by_image;
        if wrong.is_nothing() {
            return;
        }
        self.wrong_rounds += 1;
        wrong.problems.iter_mut().for_each(|problem| *problem = format!("round {life}, {what}: {problem}"));
        if wrong.lost + wrong.invented > 0 {
            let problem = format!("round {life}, {what}: {} lost, {} invented", wrong.lost, wrong.invented);
            wrong.problems.push(problem);
        }
        self.wrong.add(wrong);
    }
}

/// Copies a pool, and its log, its ring and its image if it has them. What the copy had of these before is gone.
fn copy(from: &Path, to: &Path) -> Outcome<()> {
    let failed = |error: std::io::Error| format!("{}: {error}", to.display());
    for ending in [".log", ".ring", ".image", ""] {
        let (from, to) = (with_ending(from, ending), with_ending(to, ending));
        if from.exists() {
            std::fs::copy(from, to).map_err(failed)?;
        } else if to.exists() {
            std::fs::remove_file(to).map_err(failed)?;
        }
    }
    Ok(())
}

/// The path of a pool's log.
fn log(pool: &Path) -> PathBuf {
    with_ending(pool, ".log")
}

/// The planted bug: space that is not given back, much more than chance makes of the rest.
fn leak(pool: &Pool, life: u64) -> Outcome<()> {
    let tree: PTree = pool.tree(&format!("leak-{}", life % 100))?;
    (0..6000).try_for_each(|key| tree.insert(key, life).map(drop))?;
    Ok(())
}

pub(crate) fn run(mut args: Args) -> Outcome {
    if let (Some(life), Some(pool)) = (args.life, &args.pool) {
        return process::work(&args, pool, life);
    }
    args.seed.get_or_insert_with(numbers::seed);
    let mut scratch = Scratch::new(args.dir.as_deref())?;
    let mut victims = victims(&args, &mut scratch);
    let mut random = Random::new(args.seed());
    let mut found = Found::default();
    let start = Instant::now();
    for life in 0..args.rounds {
        let victim = (life % victims.len() as u64) as usize;
        if let Err(error) = victims[victim].round(life, &mut random, &mut found) {
            let problems = vec![error.to_string()];
            found.wrong(life, "of the process", Wrong { problems, ..Wrong::default() });
            break;
        }
        // A planted bug is found in more than one round.
        if args.control.is_none() && !found.wrong.is_nothing() {
            break;
        }
    }
    let leaked: u64 = victims.iter().filter_map(Victim::leaked).sum();
    let (good, what) = match args.control {
        None => (found.wrong.is_nothing() && leaked == 0, "violations"),
        Some(Control::Missing) => (found.planted > 0 && found.wrong_rounds == found.planted, "the planted bug"),
        Some(Control::Early | Control::Unsynced) => (found.wrong.lost > 0, "the planted bug"),
        Some(Control::Leak) => (leaked > 0, "the planted bug"),
    };
    report(&args, &victims, &found, leaked, start.elapsed())?;
    if good {
        return Ok(ExitCode::SUCCESS);
    }
    let kept = scratch.keep().display();
    let found = if args.control.is_none() { "found" } else { "did not find" };
    Err(format!("{found} {what}: look at the pools in {kept}; repeat with --seed {}", args.seed()).into())
}

fn report(args: &Args, victims: &[Victim], found: &Found, leaked: u64, took: Duration) -> Outcome<()> {
    let Found { kills, copies, acknowledged, wrong, .. } = found;
    if args.json {
        let used = |victim: &Victim| {
            json!({
                "layout": victim.args.shape().layout.name(),
                "index": victim.args.shape().index.name(),
                "journal": victim.has_journal,
                "kills": victim.kills,
                "used_bytes": victim.halves().map(|(first, second)| [first, second]),
            })
        };
        out::json(&json!({
            "threads": args.threads,
            "rounds": args.rounds,
            "seed": args.seed(),
            "control": args.control.map(Control::name),
            "kills": kills,
            "copies": copies,
            "kills_with_journal": found.with_journal,
            "lost_rings": found.lost_rings,
            "trees_by_image": found.by_image,
            "acknowledged": acknowledged,
            "lost": wrong.lost,
            "invented": wrong.invented,
            "wrong_rounds": found.wrong_rounds,
            "leaked_bytes": leaked,
            "measured_leaks": victims.iter().any(|victim| victim.leaked().is_some()),
            "problems": wrong.problems,
            "pools": victims.iter().map(used).collect::<Vec<_>>(),
            "seconds": out::rounded(took.as_secs_f64(), 3),
        }))?;
        return Ok(());
    }
    wrong.problems.iter().take(20).try_for_each(|problem| out::text(problem))?;
    out::text(&format!(
        "{} ({} with a journal, {} of them without the ring) and {} copies of stopped processes, {} acknowledged changes in {}: {} \
         lost, {} invented, {} leaked",
        out::counted(*kills, "kill", "kills"),
        out::count(found.with_journal),
        out::count(found.lost_rings),
        out::count(*copies),
        out::count(*acknowledged),
        out::time(took),
        out::count(wrong.lost),
        out::count(wrong.invented),
        out::bytes(leaked),
    ))?;
    Ok(())
}
