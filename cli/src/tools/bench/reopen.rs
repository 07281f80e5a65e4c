//! How long it takes until a pool answers again: after an orderly close, and after `SIGKILL`.

use super::Plan;
use crate::numbers::Keys;
use crate::out::Outcome;
use crate::pipe::Job;
use crate::scratch::Scratch;
use crate::worker::{self, Reopened};
use bristlecone::Journal;
use std::time::Duration;

/// Keys that a process inserts before it is killed.
const BEFORE_THE_KILL: u64 = 1000;

/// The number of steps: the pool is filled once, and opened twice in each repeat.
pub(super) fn steps(repeats: u32) -> u64 {
    1 + 2 * u64::from(repeats)
}

/// Opens the pool with this many keys, looks up the last one, and closes the pool orderly.
fn reopen(process: &worker::Args, keys: u64) -> Outcome<Duration> {
    let last = Keys::new(process.job.seed).key(keys - 1);
    let Reopened { pool, tree, value, took } = process.reopen(last)?;
    if value != Some(Keys::value(last)) {
        return Err(format!("LOST: key {last}, the last of {keys}, has the value {value:?}").into());
    }
    drop(tree);
    pool.close()?;
    Ok(took)
}

/// The times after a close, and those after a kill.
pub(super) fn measure(plan: &Plan) -> Outcome<[Vec<Duration>; 2]> {
    let mut scratch = Scratch::new(plan.dir.as_deref())?;
    let mut process = worker::Args {
        pool: scratch.pool("reopen.pool"),
        journal: plan.journal.unwrap_or(Journal::None),
        sync_every: 0,
        // It is not known how far a process gets before it is dead.
        capacity: worker::capacity(plan.keys) * 2,
        job: Job { seed: plan.seed, from: 0, to: plan.keys, every: 100 },
    };
    let mut durable = process.start()?.finish()?;
    plan.bar.inc(1);
    let [mut closed, mut killed] = [Vec::new(), Vec::new()];
    for _ in 0..plan.repeat {
        closed.push(reopen(&process, durable)?);
        plan.bar.inc(1);
    }
    for _ in 0..plan.repeat {
        (process.job.from, process.job.to) = (durable, u64::MAX);
        durable = process.start()?.kill_at(durable + BEFORE_THE_KILL)?;
        killed.push(reopen(&process, durable)?);
        plan.bar.inc(1);
    }
    Ok([closed, killed])
}
