//! How long it takes until a pool answers again: after an orderly close, and after `SIGKILL`.

use super::peers::{self, Peer};
use super::{Contestant, Mix, Plan, clock, media};
use crate::numbers::{Keys, Random};
use crate::out::{self, Outcome};
use crate::parse::{Index, Layout, Usage};
use crate::scratch::Scratch;
use crate::trees::Shape;
use crate::worker::{self, End, Worker};
use bristlecone::Pool;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What the project promises for ten million keys.
const CLEAN_LIMIT: Duration = Duration::from_millis(10);
/// The same after a kill.
const DIRTY_LIMIT: Duration = Duration::from_millis(300);

/// Keys that a worker inserts, at least, before it is killed.
const BEFORE_THE_KILL: u64 = 1000;

/// The times of one reopen.
#[derive(Debug, Clone, Copy)]
struct Reopen {
    pool: Duration,
    tree: Duration,
    get: Duration,
    /// Keys that were acknowledged and are not there.
    lost: u64,
}

impl Reopen {
    fn total(self) -> Duration {
        self.pool + self.tree + self.get
    }
}

/// What a worker may fill instead of a tree.
pub(crate) trait Filled {
    fn insert(&self, key: u64, value: u64) -> Outcome<()>;
    fn get(&self, key: u64) -> Outcome<Option<u64>>;
    /// In order: with everything on the disk.
    fn close(self: Box<Self>) -> Outcome<()>;
}

/// The worker of a store, in its own process.
pub(crate) fn worker(args: &worker::Args) -> Outcome {
    let store = peers::open(peer_of(args)?, &args.pool)?;
    worker::fill(args, |key, value| store.insert(key, value))?;
    store.close()?;
    Ok(ExitCode::SUCCESS)
}

fn peer_of(job: &worker::Args) -> Outcome<Peer> {
    let names: Vec<String> = job.peer.iter().cloned().collect();
    Ok(*peers::chosen(&names)?.first().ok_or("a worker of one peer")?)
}

/// Opens a pool and its tree and reads one key, by the clock; then closes it in order.
fn reopen(job: &worker::Args, durable: u64, random: &mut Random) -> Outcome<Reopen> {
    let key = Keys::new(job.seed).key(random.below(durable));
    let start = Instant::now();
    let pool = Pool::open(&job.pool)?;
    let pool_open = Instant::now();
    let tree = job.shape().open_numbers(&pool, worker::TREE)?;
    let tree_open = Instant::now();
    let value = tree.get(key);
    let answered = Instant::now();
    if value != Some(Keys::value(key)) || tree.len() < durable {
        return Err(format!("lost: {} of {durable} keys, the value of {key} is {value:?}", tree.len()).into());
    }
    drop(tree);
    pool.close()?;
    Ok(Reopen { pool: pool_open - start, tree: tree_open - pool_open, get: answered - tree_open, lost: 0 })
}

/// The same with a store, which may lose the latest of what it had acknowledged.
fn reopen_store(job: &worker::Args, durable: u64, random: &mut Random) -> Outcome<Reopen> {
    let keys = Keys::new(job.seed);
    let peer = peer_of(job)?;
    let key = keys.key(random.below(durable));
    let start = Instant::now();
    let store = peers::open(peer, &job.pool)?;
    let open = Instant::now();
    store.get(key)?;
    let answered = Instant::now();
    let mut lost = 0;
    while lost < durable && store.get(keys.key(durable - 1 - lost))?.is_none() {
        lost += 1;
    }
    store.close()?;
    Ok(Reopen { pool: open - start, tree: Duration::ZERO, get: answered - open, lost })
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let media::Place::Directory(directory) = &plan.place else {
        return Err(Usage("--medium dram does not outlive a process, so it cannot be opened again".to_owned()).into());
    };
    if !plan.json {
        out::text(&format!(
            "Until a pool of {} keys answers again, in milliseconds, {}, seed {}\n\
             (clean: after an orderly close; dirty: after SIGKILL during inserts; the limits are for 10 M keys;\n\
             lost: of what was acknowledged before the kill, at the most)\n\n\
             contestant                  after     pool     tree      get    total    worst    lost    limit",
            out::count(plan.n),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in &plan.contestants {
        let mut scratch = Scratch::new(directory.as_deref())?;
        let (clean, dirty) = match contestant {
            Contestant::Tree(shape) => measure(plan, shape, None, scratch.file("reopen.pool"), reopen)?,
            Contestant::Peer(peer) if peer.is_store() => {
                // Of no meaning to a store.
                let shape = Shape::usual(Layout::OneLine, Index::Volatile);
                measure(plan, shape, Some(peer.name().to_owned()), scratch.file("store"), reopen_store)?
            }
            Contestant::Peer(_) | Contestant::BTreeMap => continue,
        };
        print(plan, contestant, &clean, &dirty)?;
    }
    Ok(())
}

/// Clean and dirty reopens of what another process has filled.
fn measure(
    plan: &Plan,
    shape: Shape,
    peer: Option<String>,
    pool: PathBuf,
    reopen: fn(&worker::Args, u64, &mut Random) -> Outcome<Reopen>,
) -> Outcome<(Vec<Reopen>, Vec<Reopen>)> {
    let mut job = worker::Args {
        pool,
        capacity: media::capacity(plan.n) * 2,
        layout: shape.layout,
        slots: shape.slots,
        index: shape.index,
        seed: plan.seed,
        from: 0,
        to: plan.n,
        every: 100,
        peer,
    };
    let mut random = Random::new(plan.seed);
    let mut durable = Worker::start(&job)?.finish()?;
    let (mut clean, mut dirty) = (Vec::new(), Vec::new());
    for _ in 0..plan.repeat {
        let found = reopen(&job, durable, &mut random)?;
        if found.lost > 0 {
            return Err(format!("{} keys are lost after an orderly close", found.lost).into());
        }
        clean.push(found);
    }
    for _ in 0..plan.repeat {
        (job.from, job.to) = (durable, u64::MAX);
        let mut worker = Worker::start(&job)?;
        worker.wait_for(durable + BEFORE_THE_KILL)?;
        let (end, acknowledged) = worker.kill()?;
        if end != End::Killed {
            return Err("the worker ended before it was killed".into());
        }
        let found = reopen(&job, acknowledged, &mut random)?;
        durable = acknowledged - found.lost;
        dirty.push(found);
    }
    Ok((clean, dirty))
}

fn ms(t: Duration) -> f64 {
    t.as_secs_f64() * 1000.0
}

fn print(plan: &Plan, contestant: Contestant, clean: &[Reopen], dirty: &[Reopen]) -> Outcome<()> {
    let part = |of: &[Reopen], part: fn(Reopen) -> Duration| {
        clock::median(&of.iter().map(|&reopen| ms(part(reopen))).collect::<Vec<_>>())
    };
    let worst = |of: &[Reopen]| of.iter().map(|reopen| ms(reopen.total())).fold(0.0, f64::max);
    let lost = |of: &[Reopen]| of.iter().map(|reopen| reopen.lost).max().unwrap_or_default();
    if plan.json {
        let object = |of: &[Reopen]| -> Value {
            json!({
                "median": out::rounded(part(of, Reopen::total), 3),
                "max": out::rounded(worst(of), 3),
                "pool": out::rounded(part(of, |r| r.pool), 3),
                "tree": out::rounded(part(of, |r| r.tree), 3),
                "get": out::rounded(part(of, |r| r.get), 3),
            })
        };
        let mut row = json!({
            "mix": Mix::Reopen.name(),
            "n": plan.n,
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "clean_ms": object(clean),
            "dirty_ms": object(dirty),
            "lost": lost(dirty),
            "limit_ms": { "clean": ms(CLEAN_LIMIT), "dirty": ms(DIRTY_LIMIT) },
        });
        match contestant {
            Contestant::Tree(shape) => {
                row["layout"] = shape.layout.name().into();
                row["index"] = shape.index.name().into();
                row["node_bytes"] = shape.node_bytes().into();
            }
            other => row["peer"] = other.name().into(),
        }
        out::json(&row)?;
        return Ok(());
    }
    for (after, of, limit) in [("clean", clean, CLEAN_LIMIT), ("dirty", dirty, DIRTY_LIMIT)] {
        let verdict = match contestant {
            Contestant::Tree(_) if part(of, Reopen::total) <= ms(limit) => "kept",
            Contestant::Tree(_) => "BROKEN",
            _ => "",
        };
        out::text(&format!(
            "{:26}  {after:5}  {:7.2}  {:7.2}  {:7.3}  {:7.2}  {:7.2}  {:6}  {:7} {verdict}",
            contestant.label(),
            part(of, |r| r.pool),
            part(of, |r| r.tree),
            part(of, |r| r.get),
            part(of, Reopen::total),
            worst(of),
            lost(of),
            ms(limit),
        ))?;
    }
    Ok(())
}
