//! What it costs to insert keys that survive a loss of power when the insert returns: a thousand at a time, and one by
//! one. And what that leaves: the bytes that were written to the disk, and gets.
//!
//! Each contestant has the fastest of its own ways to that. The time is that of the clock, because a thread that waits
//! for the disk takes no CPU time.

use crate::clock::{self, Spent, Tick, Times, Work};
use crate::entry::with_entry;
use crate::media::{self, Held};
use crate::mix::Mix;
use crate::numbers::{Keys, Random};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::{self, Outcome};
use crate::parse;
use crate::plan::{Contestant, Plan};
use crate::report;
use crate::scratch::Scratch;
use crate::turns;
use bristlecone::{Journal, Pool};
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Keys in a batch.
const BATCH: u64 = 1000;
/// One key in so many is inserted by itself: each of these inserts takes as long as the disk.
const SINGLE: u64 = 1000;
/// Threads that share the waits for the disk.
const THREADS: u64 = 16;

/// How many times as long as an overwrite a single insert may take.
const SINGLE_GOAL: f64 = 1.2;
/// How many times the throughput of one thread many threads should have.
const THREADS_GOAL: f64 = 8.0;

/// The journal of this crate's pools: their changes wait when they are told to, as those of the stores do.
const JOURNAL: Journal = Journal::OnRequest;

/// How many times as long as ours a store should take for a batch.
fn goal(contestant: Contestant) -> Option<f64> {
    match contestant.name() {
        "canopydb" | "fjall" => Some(1.5),
        "rocksdb" => Some(3.0),
        "lmdb" | "lmdb-txn" | "redb" | "sqlite" => Some(5.0),
        _ => None,
    }
}

/// A contestant, and what was measured of it.
struct Side {
    contestant: Contestant,
    batch: Times,
    get: Times,
    single: Times,
    /// The times of one thread, and of many, whose inserts each wait by themselves.
    threads: [Times; 2],
    /// Bytes per key of the batches, of each repeat: those that the disk has got until it is closed; those that the
    /// system has counted for this process, which are too many where its pages are large, because it counts all of a
    /// page of which a part is changed; and as the journal counts, to the log and to the pool.
    disk: Vec<f64>,
    process: Vec<f64>,
    log: Vec<f64>,
    pool: Vec<f64>,
}

impl Side {
    fn new(contestant: Contestant) -> Self {
        Self {
            contestant,
            batch: Times::default(),
            get: Times::default(),
            single: Times::default(),
            threads: Default::default(),
            disk: Vec::new(),
            process: Vec::new(),
            log: Vec::new(),
            pool: Vec::new(),
        }
    }
}

/// A contestant that is open, and the keys that go there.
struct Open<E: Held> {
    entry: E,
    subject: Box<dyn OrderedMap<E>>,
    /// For numbers of its journal.
    pool: Option<Pool>,
    keys: Keys,
}

impl<E: Held> Open<E> {
    fn new(plan: &Plan, entry: E, seed: u64, contestant: Contestant, path: &Path, journal: Journal) -> Outcome<Self> {
        let (keys, capacity) = (Keys::new(seed), Some(media::capacity(plan.n, plan.kind()) * 2));
        if !contestant.is_ours() {
            let (subject, _) = media::open::<E>(contestant, path, None, Pool::options())?;
            return Ok(Self { entry, subject, pool: None, keys });
        }
        let pool = media::open_pool(path, capacity, Some(journal))?;
        Ok(Self { entry, subject: E::ours(contestant, &pool)?, pool: Some(pool), keys })
    }

    /// The work of inserting the keys from a place on, so many at a time, each time durably.
    fn durably(&self, from: u64, count: u64, at_a_time: u64) -> Work<'_> {
        Box::new(move |tick| {
            let mut buffers: Vec<(E::KeyBuffer, E::ValueBuffer)> = (0..at_a_time).map(|_| Default::default()).collect();
            for first in (from..from + count).step_by(at_a_time as usize) {
                let numbers = (first..(first + at_a_time).min(from + count)).map(|i| self.keys.key(i));
                let made = numbers.zip(&mut buffers).map(|(number, (key, value))| {
                    (self.entry.key(number, key), self.entry.value(Keys::value(number), value))
                });
                let made: Vec<_> = made.collect();
                self.subject.insert_durably(&made);
                tick.done(made.len() as u64);
            }
        })
    }

    /// The work of inserting the keys from a place on, where each insert waits by itself.
    fn waiting(&self, from: u64, count: u64) -> Work<'_> {
        Box::new(move |tick| {
            let (mut key, mut value) = (E::KeyBuffer::default(), E::ValueBuffer::default());
            for number in (from..from + count).map(|i| self.keys.key(i)) {
                let value = self.entry.value(Keys::value(number), &mut value);
                self.subject.insert(self.entry.key(number, &mut key), value);
                tick.done(1);
            }
        })
    }

    /// Gets random ones of the first `n` keys; how many were wrong is added.
    fn gets<'w>(&'w self, n: u64, mut random: Random, wrong: &'w mut u64) -> Work<'w> {
        Box::new(move |tick| {
            let mut buffer = E::KeyBuffer::default();
            for _ in 0..n {
                let number = self.keys.key(random.below(n));
                let found = self.subject.get(self.entry.key(number, &mut buffer));
                *wrong += u64::from(found != Some(Keys::value(number)));
                tick.done(1);
            }
        })
    }

    fn close(self) -> Outcome<()> {
        // The subject closes the pool, if nobody else has it.
        drop(self.pool);
        self.subject.close()
    }
}

/// A file whose pages are overwritten, which changes nothing but them: what a disk takes at least for a change that is
/// to last.
struct Overwritten {
    file: File,
    written: u64,
    fault: Fault,
}

impl Overwritten {
    const PAGE: u64 = 4096;
    const PAGES: u64 = 1024;

    fn new(path: &Path) -> Outcome<Self> {
        let mut file = File::create(path)?;
        file.write_all(&vec![0; (Self::PAGE * Self::PAGES) as usize])?;
        file.sync_all()?;
        Ok(Self { file, written: 0, fault: Fault::default() })
    }

    fn work(&mut self, count: u64, tick: &mut Tick) {
        for _ in 0..count {
            let result = self.overwrite();
            self.fault.note(result);
            tick.done(1);
        }
    }

    fn overwrite(&mut self) -> std::io::Result<()> {
        self.written += 1;
        self.file.seek(SeekFrom::Start(self.written % Self::PAGES * Self::PAGE))?;
        self.file.write_all(&[self.written as u8; Self::PAGE as usize])?;
        self.file.sync_data()
    }
}

/// The bytes that the disk of this directory has got, from any process, where the system counts them.
#[cfg(target_os = "linux")]
fn on_disk(directory: &Path) -> Option<u64> {
    use std::os::linux::fs::MetadataExt;
    let directory = File::open(directory).ok()?;
    // What has not been written yet would be counted for the next one, or never.
    rustix::fs::syncfs(&directory).ok()?;
    let device = directory.metadata().ok()?.st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    let sectors: u64 = stat.split_whitespace().nth(6)?.parse().ok()?;
    Some(sectors * 512)
}

#[cfg(not(target_os = "linux"))]
fn on_disk(_directory: &Path) -> Option<u64> {
    None
}

/// The bytes that the system has counted for this process, where it does.
fn of_process() -> Option<u64> {
    let io = fs::read_to_string("/proc/self/io").ok()?;
    io.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.parse().ok()
}

/// The bytes that the disk has counted for everybody, and the system for this process.
fn written(directory: &Path) -> [Option<u64>; 2] {
    [on_disk(directory), of_process()]
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let contestants = plan.contestants.iter().filter(|contestant| contestant.waits_for_disk());
    let mut sides: Vec<Side> = contestants.map(|&contestant| Side::new(contestant.durable())).collect();
    let mut overwrites = Times::default();
    for repeat in 0..plan.repeat {
        with_entry!(plan.kind(), entry => one_repeat(plan, entry, repeat, &mut sides, &mut overwrites))?;
    }
    print(plan, &sides, &overwrites)
}

fn one_repeat<E: Held>(plan: &Plan, entry: E, repeat: u32, sides: &mut [Side], overwrites: &mut Times) -> Outcome<()> {
    let seed = plan.seed.wrapping_add(repeat.into());
    let open = |contestant, path: &Path, journal| Open::new(plan, entry, seed, contestant, path, journal);
    // One directory for each side. What is open is closed before its files are removed.
    let mut places: Vec<(Scratch, PathBuf)> = Vec::new();
    for _ in &*sides {
        let mut scratch = Scratch::new(plan.site.place.directory())?;
        let path = scratch.pool("durable");
        places.push((scratch, path));
    }
    let mut turns: Vec<(&mut Side, &Path)> =
        sides.iter_mut().zip(&places).map(|(side, (_, path))| (side, &**path)).collect();
    if repeat % 2 == 1 {
        // The side that comes first has an idle disk.
        turns.reverse();
    }
    for (side, path) in turns {
        let open = open(side.contestant, path, JOURNAL)?;
        batches(plan, side, (open, path), seed).map_err(|error| format!("{}: {error}", side.contestant.name()))?;
    }
    let mut scratch = Scratch::new(plan.site.place.directory())?;
    let mut overwritten = Overwritten::new(&scratch.file("overwritten"))?;
    let all: Vec<Open<E>> = sides
        .iter()
        .zip(&places)
        .map(|(side, (_, path))| open(side.contestant, path, JOURNAL))
        .collect::<Outcome<_>>()?;
    let part = turns::part(plan.n / SINGLE);
    let mut spent = turns::take(1 + all.len(), |side, round| {
        let work: Work<'_> = match side.checked_sub(1) {
            None => Box::new(|tick| overwritten.work(part, tick)),
            Some(side) => all[side].durably(plan.n + round * part, part, 1),
        };
        clock::spend(1, vec![work])
    });
    overwrites.add(Spent::together(spent.remove(0)));
    overwritten.fault.get()?;
    for ((side, open), rounds) in sides.iter_mut().zip(all).zip(spent) {
        side.single.add(Spent::together(rounds));
        open.close()?;
    }
    for side in sides.iter_mut().filter(|side| side.contestant.is_ours()) {
        let mut scratch = Scratch::new(plan.site.place.directory())?;
        threads(side, open(side.contestant, &scratch.pool("threads"), Journal::Each)?, part)?;
    }
    Ok(())
}

/// Inserts all keys in batches, gets as many, and closes it.
fn batches<E: Held>(plan: &Plan, side: &mut Side, (open, path): (Open<E>, &Path), seed: u64) -> Outcome<()> {
    let directory = path.parent().ok_or("no directory")?;
    let before = written(directory);
    side.batch.add(clock::spend(BATCH, vec![open.durably(0, plan.n, BATCH)]));
    if let Some(stat) = open.pool.as_ref().and_then(Pool::journal) {
        side.log.push(stat.log_written as f64 / plan.n as f64);
        side.pool.push(stat.pool_written as f64 / plan.n as f64);
    }
    let mut wrong = 0;
    side.get.add(clock::spend(plan.batch, vec![open.gets(plan.n, Random::new(!seed), &mut wrong)]));
    open.close()?;
    for (bytes, (before, after)) in
        [&mut side.disk, &mut side.process].into_iter().zip(before.into_iter().zip(written(directory)))
    {
        bytes.extend(before.zip(after).map(|(before, after)| (after - before) as f64 / plan.n as f64));
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} gets did not find what they should").into()) }
}

/// Inserts of one thread, and of many, each of which waits until it is on the disk. Each thread makes as many.
fn threads<E: Held>(side: &mut Side, open: Open<E>, part: u64) -> Outcome<()> {
    let mut next = 0;
    let spent = turns::take(side.threads.len(), |many, _| {
        let work = |_| {
            let from = next;
            next += part;
            open.waiting(from, part)
        };
        let count = if many == 0 { 1 } else { THREADS };
        clock::spend(1, (0..count).map(work).collect())
    });
    side.threads.iter_mut().zip(spent).for_each(|(times, rounds)| times.add(Spent::together(rounds)));
    open.close()
}

fn print(plan: &Plan, sides: &[Side], overwrites: &Times) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "Inserts of {} {} that survive a loss of power when they return, in {}; {}, seed {}\n\
             (batches of {BATCH}, by the clock: ns per key, x: how many times as long as the first of ours; bytes: that the disk\n\
             gets per key until it is closed, and log, pool: what the journal says of that; get: ns per get after that; single: µs per key\n\
             that is inserted alone, and how many times as long as an overwrite of 4 KiB; threads: {THREADS} threads whose inserts\n\
             wait, and how many times the throughput of one)\n\n\
             contestant                    batch       x   goal    bytes      log     pool      get   single       x   goal  threads       x   goal",
            out::count(plan.n),
            plan.kind(),
            plan.site.place.name(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    let ours = sides.iter().find(|side| side.contestant.is_ours());
    sides.iter().try_for_each(|side| row(plan, side, ours, overwrites))?;
    reference(plan, overwrites)
}

fn micros(times: &Times) -> f64 {
    clock::median(&times.runs) / 1000.0
}

fn reference(plan: &Plan, overwrites: &Times) -> Outcome<()> {
    const NAME: &str = "overwrite";
    if plan.json {
        let (key, value) = plan.kind().lens();
        return Ok(out::json(&json!({
            "mix": Mix::Durable.name(),
            "reference": NAME,
            "key": plan.kind().key(),
            "key_bytes": key,
            "value_bytes": value,
            "n": plan.n,
            "medium": plan.site.place.name(),
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "single": { "ns_per_op": report::ns(overwrites) },
        }))?);
    }
    Ok(out::text(&format!("{NAME:26}  {:60}  {:7.1}", "", micros(overwrites)))?)
}

fn row(plan: &Plan, side: &Side, ours: Option<&Side>, overwrites: &Times) -> Outcome<()> {
    let contestant = side.contestant;
    let is_ours = contestant.is_ours();
    let ratio = ours.map(|ours| clock::ratio(&side.batch.runs, &ours.batch.runs));
    let single = clock::ratio(&side.single.runs, &overwrites.runs);
    let [one, many] = &side.threads;
    let together = is_ours.then(|| clock::ratio(&one.runs, &many.runs));
    let known = |values: &[f64]| Some(clock::median(values)).filter(|median| !median.is_nan());
    let [disk, process, log, pool] = [&side.disk, &side.process, &side.log, &side.pool].map(|bytes| known(bytes));
    let single_goal = is_ours.then_some(SINGLE_GOAL);
    if plan.json {
        let bytes = |bytes: Option<f64>| bytes.map(|bytes| out::rounded(bytes, 2));
        let ratio_of = |ratio: Option<f64>| ratio.map(|ratio| out::rounded(ratio, 4));
        let each: Option<Value> = together.map(|ratio| {
            json!({
                "threads": THREADS,
                "journal": parse::journal_name(Journal::Each),
                "one_ns_per_op": report::ns(one),
                "ns_per_op": report::ns(many),
                "ratio": out::rounded(ratio, 4),
                "goal": THREADS_GOAL,
            })
        });
        let mut row = json!({
            "mix": Mix::Durable.name(),
            "medium": plan.site.place.name(),
            "threads": 1,
            "repeat": plan.repeat,
            "seed": plan.seed,
            "batch": {
                "keys": BATCH,
                "ns_per_key": report::ns(&side.batch),
                "ratio_to_ours": ratio_of(ratio),
                "goal": goal(contestant),
                "disk_bytes_per_key": bytes(disk),
                "process_bytes_per_key": bytes(process),
                "log_bytes_per_key": bytes(log),
                "pool_bytes_per_key": bytes(pool),
            },
            "get": { "ns_per_op": report::ns(&side.get) },
            "single": {
                "ns_per_op": report::ns(&side.single),
                "ratio_to_overwrite": out::rounded(single, 4),
                "goal": single_goal,
            },
            "each": each,
        });
        plan.describe(contestant, &mut row);
        row["journal"] = is_ours.then(|| parse::journal_name(JOURNAL)).into();
        return Ok(out::json(&row)?);
    }
    let cell =
        |figure: Option<f64>, digits: usize| figure.map_or("-".to_owned(), |figure| format!("{figure:.digits$}"));
    let threads =
        together.map_or_else(String::new, |ratio| format!("  {:7.1}  {ratio:6.2}  {THREADS_GOAL:5.1}", micros(many)));
    Ok(out::text(&format!(
        "{:26}  {:7.1}  {:>6}  {:>5}  {:>7}  {:>7}  {:>7}  {:7.1}  {:7.1}  {single:6.2}  {:>5}{threads}",
        contestant.label(),
        clock::median(&side.batch.runs),
        cell(ratio, 2),
        cell(goal(contestant), 1),
        cell(disk, 1),
        cell(log, 1),
        cell(pool, 1),
        clock::median(&side.get.runs),
        micros(&side.single),
        cell(single_goal, 1),
    ))?)
}
