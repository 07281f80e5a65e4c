//! How long it takes until a pool answers again: after an orderly close, and after `SIGKILL`.

use super::{Contestant, Mix, Plan, clock, media};
use crate::numbers::{Keys, Random};
use crate::out::{self, Outcome};
use crate::parse::Usage;
use crate::scratch::Scratch;
use crate::trees::Shape;
use crate::worker::{self, End, Worker};
use bristlecone::Pool;
use serde_json::{Value, json};
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
}

impl Reopen {
    fn total(self) -> Duration {
        self.pool + self.tree + self.get
    }
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
    Ok(Reopen { pool: pool_open - start, tree: tree_open - pool_open, get: answered - tree_open })
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let media::Place::Directory(directory) = &plan.place else {
        return Err(Usage("--medium dram does not outlive a process, so it cannot be opened again".to_owned()).into());
    };
    if !plan.json {
        out::text(&format!(
            "Until a pool of {} keys answers again, in milliseconds, {}, seed {}\n\
             (clean: after an orderly close; dirty: after SIGKILL during inserts; the limits are for 10 M keys)\n\n\
             layout    bytes  index       after     pool     tree      get    total    worst    limit",
            out::count(plan.n),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for contestant in &plan.contestants {
        if let Contestant::Tree(shape) = *contestant {
            let scratch = Scratch::new(directory.as_deref())?;
            let (clean, dirty) = measure(plan, shape, &scratch)?;
            print(plan, shape, &clean, &dirty)?;
        }
    }
    Ok(())
}

/// Clean and dirty reopens of a pool that another process has filled.
fn measure(plan: &Plan, shape: Shape, scratch: &Scratch) -> Outcome<(Vec<Reopen>, Vec<Reopen>)> {
    let mut job = worker::Args {
        pool: scratch.file("reopen.pool"),
        capacity: media::capacity(plan.n) * 2,
        layout: shape.layout,
        slots: shape.slots,
        index: shape.index,
        seed: plan.seed,
        from: 0,
        to: plan.n,
        every: 100,
    };
    let mut random = Random::new(plan.seed);
    let mut durable = Worker::start(&job)?.finish()?;
    let (mut clean, mut dirty) = (Vec::new(), Vec::new());
    for _ in 0..plan.repeat {
        clean.push(reopen(&job, durable, &mut random)?);
    }
    for _ in 0..plan.repeat {
        (job.from, job.to) = (durable, u64::MAX);
        let mut worker = Worker::start(&job)?;
        worker.wait_for(durable + BEFORE_THE_KILL)?;
        let (end, acknowledged) = worker.kill()?;
        if end != End::Killed {
            return Err("the worker ended before it was killed".into());
        }
        durable = acknowledged;
        dirty.push(reopen(&job, durable, &mut random)?);
    }
    Ok((clean, dirty))
}

fn ms(t: Duration) -> f64 {
    t.as_secs_f64() * 1000.0
}

fn print(plan: &Plan, shape: Shape, clean: &[Reopen], dirty: &[Reopen]) -> Outcome<()> {
    let part = |of: &[Reopen], part: fn(Reopen) -> Duration| {
        clock::median(&of.iter().map(|&reopen| ms(part(reopen))).collect::<Vec<_>>())
    };
    let worst = |of: &[Reopen]| of.iter().map(|reopen| ms(reopen.total())).fold(0.0, f64::max);
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
        out::json(&json!({
            "mix": Mix::Reopen.name(),
            "layout": shape.layout.name(),
            "index": shape.index.name(),
            "node_bytes": shape.node_bytes(),
            "n": plan.n,
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "clean_ms": object(clean),
            "dirty_ms": object(dirty),
            "limit_ms": { "clean": ms(CLEAN_LIMIT), "dirty": ms(DIRTY_LIMIT) },
        }))?;
        return Ok(());
    }
    for (after, of, limit) in [("clean", clean, CLEAN_LIMIT), ("dirty", dirty, DIRTY_LIMIT)] {
        let verdict = if part(of, Reopen::total) <= ms(limit) { "kept" } else { "BROKEN" };
        out::text(&format!(
            "{:9} {:>5}  {:10}  {after:5}  {:7.2}  {:7.2}  {:7.3}  {:7.2}  {:7.2}  {:7} {verdict}",
            shape.layout.name(),
            shape.node_bytes(),
            shape.index.name(),
            part(of, |r| r.pool),
            part(of, |r| r.tree),
            part(of, |r| r.get),
            part(of, Reopen::total),
            worst(of),
            ms(limit),
        ))?;
    }
    Ok(())
}
