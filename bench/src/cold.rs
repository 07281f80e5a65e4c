//! What a pool costs that is not in memory, or is larger than that: gets next to reads of as many pages, scans, and
//! opens after an orderly close and after `SIGKILL`; and how many pages of its file each of these reads.
//!
//! Before each of them, the file is taken out of memory. In a control group that limits memory, the file may be larger
//! than the limit: the program measures what is there, and limits nothing itself.

use crate::clock;
use crate::media;
use crate::mix::Mix;
use crate::numbers::Random;
use crate::out::{self, Outcome};
use crate::pages;
use crate::parse::Usage;
use crate::phases::{Trial, Workload};
use crate::pipe::Job;
use crate::place::Place;
use crate::plan::{Contestant, Plan};
use crate::scratch::Scratch;
use crate::worker;
use bristlecone::{Options, Pool};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// How many times as long as the reads of the pages that it reads a get may take.
const GOAL: f64 = 1.2;
/// Gets, and reads of pages, of one repeat. Few, so that hardly any finds a page that another one has read.
const GETS: u64 = 1000;
/// Keys that a worker inserts before it is killed.
const BEFORE_THE_KILL: u64 = 1000;

/// What is timed, with the pages of the file that it brings into memory.
#[derive(Debug, Default)]
struct Timed {
    nanoseconds: Vec<f64>,
    pages: Vec<f64>,
}

impl Timed {
    /// Does something `times` times, with a file that was taken out of memory before.
    fn add<T>(&mut self, path: &Path, times: u64, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        pages::take_out(path)?;
        let before = pages::in_memory(path)?;
        let start = Instant::now();
        let result = work()?;
        self.nanoseconds.push(start.elapsed().as_nanos() as f64 / times as f64);
        self.pages.push(pages::in_memory(path)?.saturating_sub(before) as f64 / times as f64);
        Ok(result)
    }

    fn time(&self) -> f64 {
        clock::median(&self.nanoseconds)
    }

    fn pages(&self) -> f64 {
        clock::median(&self.pages)
    }
}

#[derive(Debug, Default)]
struct Found {
    file: u64,
    get: Timed,
    read: Timed,
    scan: Timed,
    clean: Timed,
    killed: Timed,
}

impl Found {
    /// How many times as long as the reads of its pages a get takes.
    fn ratio(&self) -> f64 {
        self.get.time() / (self.get.pages() * self.read.time())
    }
}

pub(crate) fn run(plan: &Plan) -> Outcome<()> {
    let Place::Directory(Some(directory)) = &plan.site.place else {
        return Err(Usage("--mix cold takes a directory on a disk".to_owned()).into());
    };
    if !plan.json {
        out::text(&format!(
            "A pool of {} {} that is not in memory, in {}, {}, seed {}\n\
             (get: microseconds, and pages of the file that it reads; read: microseconds of a read of one page; ratio: a get to\n\
             the reads of its pages; scan: ns per entry; opens: ms until a get is answered, and pages of the file that are read)\n\n\
             contestant                      get  pages     read  ratio  goal     scan    clean    pages   killed    pages     file",
            out::count(plan.n),
            plan.kind(),
            plan.site.place.name(),
            out::counted(plan.repeat.into(), "repeat", "repeats"),
            plan.seed,
        ))?;
    }
    for &contestant in plan.contestants.iter().filter(|contestant| contestant.is_ours()) {
        print(plan, contestant, &measure(plan, contestant, directory)?)?;
    }
    Ok(())
}

fn measure(plan: &Plan, contestant: Contestant, directory: &Path) -> Outcome<Found> {
    let mut scratch = Scratch::new(Some(directory))?;
    let path = scratch.pool("cold");
    let capacity = media::capacity(plan.n, plan.kind()) * 2;
    let options = media::with(Options::default(), Some(capacity), plan.site.journal).access(plan.access.access());
    let gets = |pool: &Pool, operations| {
        let load = Workload { threads: 1, operations: Some(operations), ..plan.workload(0) };
        media::ours(contestant, pool, &load)
    };
    // Until a get is answered.
    let open = || -> Outcome<Pool> {
        let pool = options.open(&path)?;
        work(&mut *gets(&pool, 1)?, Mix::Get)?;
        Ok(pool)
    };
    let pool = options.open(&path)?;
    let mut trial = gets(&pool, 1)?;
    trial.fill();
    trial.fault()?;
    drop(trial);
    pool.close()?;
    let mut found = Found { file: std::fs::metadata(&path)?.len() / pages::PAGE, ..Found::default() };
    let mut random = Random::new(plan.seed);
    for _ in 0..plan.repeat {
        let pool = found.clean.add(&path, 1, open)?;
        let mut trial = gets(&pool, GETS)?;
        found.scan.add(&path, plan.n, || work(&mut *trial, Mix::Scan))?;
        // The scan has touched all leaves, and read the index.
        found.get.add(&path, GETS, || work(&mut *trial, Mix::Get))?;
        let (file, numbers) = (pages::to_read_pages(&path)?, (0..GETS).map(|_| random.below(found.file)));
        let numbers: Vec<u64> = numbers.collect();
        found.read.add(&path, GETS, || Ok(numbers.iter().try_for_each(|&number| pages::read(&file, number))?))?;
        drop(trial);
        pool.close()?;
    }
    let subject = plan.subject(contestant, path.clone());
    let job = Job { seed: plan.seed.wrapping_add(1), from: 0, to: u64::MAX, every: 100 };
    for _ in 0..plan.repeat {
        worker::Args { subject: subject.clone(), job }.start()?.kill_at(BEFORE_THE_KILL)?;
        found.killed.add(&path, 1, open)?.close()?;
    }
    Ok(found)
}

/// Does a phase.
fn work(trial: &mut dyn Trial, mix: Mix) -> Outcome<()> {
    clock::spend(1, trial.work(mix));
    trial.fault()
}

fn print(plan: &Plan, contestant: Contestant, found: &Found) -> Outcome<()> {
    let Found { file, get, read, scan, clean, killed } = found;
    let (micro, ms) = (|timed: &Timed| timed.time() / 1e3, |timed: &Timed| timed.time() / 1e6);
    if plan.json {
        let opened = |timed: &Timed| json!({ "ms": out::rounded(ms(timed), 2), "pages": timed.pages() });
        let mut row: Value = json!({
            "mix": Mix::Cold.name(),
            "access": plan.access.name(),
            "medium": plan.site.place.name(),
            "repeat": plan.repeat,
            "seed": plan.seed,
            "file_pages": file,
            "get_us": out::rounded(micro(get), 2),
            "get_pages": out::rounded(get.pages(), 3),
            "read_us": out::rounded(micro(read), 2),
            "ratio": out::rounded(found.ratio(), 3),
            "goal": GOAL,
            "scan_ns": out::rounded(scan.time(), 1),
            "open_clean": opened(clean),
            "open_killed": opened(killed),
        });
        plan.describe(contestant, &mut row);
        return Ok(out::json(&row)?);
    }
    Ok(out::text(&format!(
        "{:26}  {:8.1}  {:5.2}  {:7.1}  {:5.2}  {GOAL:4}  {:7.1}  {:7.1}  {:7.0}  {:7.1}  {:7.0}  {file:7}",
        contestant.label(),
        micro(get),
        get.pages(),
        micro(read),
        found.ratio(),
        scan.time(),
        ms(clean),
        clean.pages(),
        ms(killed),
        killed.pages(),
    ))?)
}
