//! The side that writes.

use super::{CAPACITIES, Everything, Failed, Place, number, open, open_with_journal, series, share};
use crate::numbers::{self, Random};
use crate::out::{self, Outcome};
use crate::parse;
use crate::tools::kill::work::{Series, Trees};
use bristlecone::{Journal, Pool};
use parking_lot::Mutex;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    directory: PathBuf,
    /// When the pool waits for the disk [default: anything, in each process]
    #[arg(long, value_parser = parse::journal)]
    journal: Option<Journal>,
    /// Threads of a new pool [default: 1 to 3]
    #[arg(long)]
    threads: Option<u64>,
    /// How many changes there are in all
    #[arg(long, default_value_t = 1600)]
    changes: u64,
    /// Say that changes are safe before they are, which must be found
    #[arg(long)]
    early: bool,
}

/// Changes that are announced at once.
const BLOCK: u64 = 48;
/// Changes from one orderly close to the next, of all threads.
const UNTIL_CLOSE: u64 = 500;

/// What is known of all threads' changes.
struct Progress {
    /// For each thread, how many it has made.
    made: Vec<u64>,
    /// What was said.
    issued: u64,
    synced: u64,
    /// What was said to be safe in this boot. A kill takes nothing back.
    told: File,
    early: bool,
}

impl Progress {
    /// All changes up to this one are made.
    fn done(&self) -> u64 {
        let threads = self.made.len() as u64;
        let next = |(thread, &made): (u64, &u64)| number(made, thread, threads);
        (0..).zip(&self.made).map(next).min().unwrap_or(1) - 1
    }

    fn issue(&mut self, number: u64) -> Outcome<()> {
        if number > self.issued {
            self.issued = number + BLOCK;
            say("issued", self.issued)?;
        }
        Ok(())
    }

    fn is_synced(&mut self, number: u64) -> Outcome<()> {
        if number > self.synced {
            self.synced = number;
            self.told.write_all_at(&number.to_le_bytes(), 0)?;
            say("synced", number)?;
        }
        Ok(())
    }
}

fn say(what: &str, number: u64) -> Outcome<()> {
    Ok(out::written(writeln!(std::io::stdout().lock(), "{what} {number}"))?)
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut random = Random::new(numbers::seed());
    let place = Place { directory: args.directory.clone() };
    let threads = match place.chosen()? {
        Some(threads) => threads,
        None => {
            let threads = args.threads.unwrap_or_else(|| 1 + random.below(3));
            let new = place.directory.join("threads.new");
            let mut file = File::create(&new)?;
            write!(file, "{threads}")?;
            file.sync_all()?;
            fs::rename(new, place.threads())?;
            File::open(&place.directory)?.sync_all()?;
            threads
        }
    };
    let told_at = format!("/dev/shm/power-{:016x}", place_hash(&place)?);
    let told = File::options().read(true).write(true).create(true).truncate(false).open(&told_at)?;
    let mut safe = [0; 8];
    let safe = if told.read_at(&mut safe, 0)? == 8 { u64::from_le_bytes(safe) } else { 0 };
    let early = args.early;
    let progress = Mutex::new(Progress { made: vec![0; threads as usize], issued: 0, synced: 0, told, early });
    let mut first = true;
    loop {
        let modes = [
            Journal::Each,
            Journal::OnRequest,
            Journal::Every(Duration::from_millis(1)),
            Journal::Every(Duration::from_millis(30)),
        ];
        let drawn = modes[random.below(modes.len() as u64) as usize];
        let mode = if early { Journal::OnRequest } else { args.journal.unwrap_or(drawn) };
        let n = if place.pool().exists() { random.below(CAPACITIES.len() as u64) as usize } else { 0 };
        let pool = open_with_journal(&place, CAPACITIES[n], mode)?;
        let trees = open(&pool, threads)?;
        if std::mem::take(&mut first) {
            let found = Everything::read(&*trees, threads)?;
            let made = found.explained((safe, args.changes), threads);
            let mut progress = progress.lock();
            progress.made = made.map_err(|error| format!("after a kill, with {safe} that were safe: {error}"))?;
            // Before it is said what is safe, which may be a part of what was made out of turn.
            let most = progress.made.iter().zip(0..).map(|(&made, thread)| number(made, thread, threads)).max();
            progress.issue(most.unwrap_or(0))?;
            pool.sync()?;
            let done = progress.done();
            progress.is_synced(done)?;
        }
        let goal = (progress.lock().done() + UNTIL_CLOSE).min(args.changes);
        let groups: Vec<u64> = (0..threads).map(|_| 1 + random.below(40)).collect();
        std::thread::scope(|scope| {
            let work = |thread: u64| {
                let (progress, pool, trees, group) = (&progress, &pool, &*trees, groups[thread as usize]);
                scope.spawn(move || {
                    let made = progress.lock().made[thread as usize];
                    let mut changes = series(thread, threads);
                    changes.by_ref().take(made as usize).for_each(drop);
                    let left = share(goal, thread, threads).saturating_sub(made);
                    // An error is not one that can be sent from one thread to another.
                    work((pool, mode), trees, (&mut changes, left, group), (thread, progress)).map_err(Failed::from)
                })
            };
            let running: Vec<_> = (0..threads).map(work).collect();
            let panicked = |_| Err(Failed { is_refusal: false, message: "a thread panicked".to_owned() });
            // What is wrong says more than what was refused, perhaps for the same reason.
            let failed = running.into_iter().filter_map(|thread| thread.join().unwrap_or_else(panicked).err());
            failed.min_by_key(|failed| failed.is_refusal).map_or(Ok(()), Err)
        })?;
        drop(trees);
        if random.below(2) == 0 {
            // It syncs the pool's file when no checkpoint does.
            pool.shrink()?;
        }
        pool.close()?;
        let mut progress = progress.lock();
        let done = progress.done();
        progress.is_synced(done)?;
        if done >= args.changes {
            fs::remove_file(told_at)?;
            return Ok(ExitCode::SUCCESS);
        }
        if random.below(3) == 0 {
            // Everything is in the pool's file, with a journal or without.
            Pool::remove_journal(place.pool())?;
            Pool::add_journal(place.pool())?;
        }
    }
}

fn place_hash(place: &Place) -> Outcome<u64> {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    place.directory.canonicalize()?.hash(&mut hasher);
    Ok(hasher.finish())
}

/// One thread makes so many changes, and says what is safe: each one, or every so many.
fn work(
    (pool, mode): (&Pool, Journal),
    trees: &dyn Trees,
    (changes, count, group): (&mut Series, u64, u64),
    (thread, progress): (u64, &Mutex<Progress>),
) -> Outcome<()> {
    for (n, op) in (0..count).zip(changes) {
        let early = {
            let mut progress = progress.lock();
            let number = number(progress.made[thread as usize], thread, progress.made.len() as u64);
            progress.issue(number)?;
            progress.early
        };
        trees.perform(thread as usize, &op)?;
        let done = {
            let mut progress = progress.lock();
            progress.made[thread as usize] += 1;
            let done = progress.done();
            if early || mode == Journal::Each {
                progress.is_synced(done)?;
            }
            done
        };
        if mode != Journal::Each && n % group == 0 {
            pool.sync()?;
            progress.lock().is_synced(done)?;
        }
    }
    Ok(())
}
