//! The second act: a pool with a journal, whose process is killed, and whose ring is lost, too: a loss of power may
//! leave nothing of it.

use crate::numbers::{Keys, Random};
use crate::opening::with_ending;
use crate::out::{self, Outcome};
use crate::pipe::Job;
use crate::scratch::Scratch;
use crate::worker;
use bristlecone::{Journal, PTree, Pool, Recovery};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;

/// Keys from one sync to the next.
const GROUP: u64 = 1000;

/// What was found after the kill.
pub(super) struct Found {
    /// Keys that were synced, and acknowledged after that.
    synced: u64,
    /// The first so many keys are there, and nothing else: with the ring, and without it.
    with_ring: u64,
    without_ring: u64,
    /// Keys that should be there, or should not.
    pub(super) lost: u64,
    /// Broken invariants.
    pub(super) broken: Vec<String>,
}

/// Lets a process insert and sync, kills it, and looks at its pool, first without the ring.
pub(super) fn play(scratch: &mut Scratch, (keys, seed): (u64, u64), random: &mut Random) -> Outcome<Found> {
    let place = GROUP * (1 + random.below(keys.clamp(GROUP, 50 * GROUP) / GROUP));
    let process = worker::Args {
        pool: scratch.pool("journal.pool"),
        // It is not known how far it gets before it is dead.
        capacity: worker::capacity(place * 20),
        journal: Journal::OnRequest,
        sync_every: GROUP,
        job: Job { seed, from: 0, to: u64::MAX, every: GROUP },
    };
    let mut worker = process.start()?;
    worker.wait_for(place)?;
    // At a random moment after it.
    std::thread::sleep(Duration::from_micros(random.below(3000)));
    let (_, synced) = worker.kill()?;
    let copy = scratch.pool("journal.copy");
    for (from, to) in
        [(process.pool.clone(), copy.clone()), (with_ending(&process.pool, ".log"), with_ending(&copy, ".log"))]
    {
        std::fs::copy(&from, &to).map_err(|error| format!("{}: {error}", to.display()))?;
    }
    let mut found = Found { synced, with_ring: 0, without_ring: 0, lost: 0, broken: Vec::new() };
    found.without_ring = look(&process, (&copy, Recovery::WithoutRing), &mut found)?;
    found.with_ring = look(&process, (&process.pool, Recovery::Whole), &mut found)?;
    found.lost += synced.saturating_sub(found.without_ring) + found.without_ring.saturating_sub(found.with_ring);
    Ok(found)
}

/// Opens a pool that the process left, and returns how many of the first keys are there.
fn look(process: &worker::Args, (pool, recovery): (&Path, Recovery), found: &mut Found) -> Outcome<u64> {
    let keys = Keys::new(process.job.seed);
    let pool = Pool::options().create(false).recovery(recovery).open(pool)?;
    let tree: PTree = pool.tree(worker::TREE)?;
    let there = |i: &u64| tree.get(keys.key(*i)) == Some(Keys::value(keys.key(*i)));
    let first = (0..).take_while(there).count() as u64;
    found.lost += tree.len().abs_diff(first);
    found.broken.extend(tree.check().violations.iter().map(ToString::to_string));
    drop(tree);
    pool.close()?;
    Ok(first)
}

impl Found {
    pub(super) fn is_good(&self) -> bool {
        self.lost == 0 && self.broken.is_empty()
    }

    pub(super) fn text(&self) -> String {
        let [synced, with, without] = [self.synced, self.with_ring, self.without_ring].map(out::count);
        let nothing = if self.is_good() { "nothing".to_owned() } else { out::count(self.lost.max(1)) };
        format!(
            "\nA pool with a journal survives a loss of power, too, up to the last sync. A\n\
             process syncs after every {} inserts and is killed; then its ring, which has\n\
             what is not on the disk yet, is taken away, as if the machine had gone down.\n\n  \
             synced {synced:>10}   found {without:>10}   with the ring {with:>10}\n\n\
             Lost: {nothing} that was synced.",
            out::count(GROUP),
        )
    }

    pub(super) fn object(&self) -> Value {
        json!({
            "synced": self.synced,
            "found": self.without_ring,
            "found_with_ring": self.with_ring,
            "lost": self.lost,
            "problems": self.broken,
        })
    }
}
