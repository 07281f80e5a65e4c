//! Runs a figure, setting by setting: first what is counted, which is exact, then what is timed, in turns.

use super::copies::Copies;
use super::figures::{Figure, Show};
use super::medium::Switches;
use super::micro;
use super::plan::Plan;
use super::row::{Row, Setting, Sink, compare, shares};
use super::simulated;
use super::stage::Stage;
use super::store::clients;
use super::store::tail::Tail;
use super::tree::{self, Contestant};
use super::work::{Crew, Step};
use crate::clock::{self, Tick, Work};
use crate::counts::PerOp;
use crate::out::Outcome;
use bristlecone::medium::LINE;
use std::time::Duration;

pub(crate) fn run(figure: &Figure, plan: &Plan, sink: &mut Sink) -> Outcome<Vec<Row>> {
    match figure.show {
        Show::Nothing(why) => {
            sink.note(&format!("{} cannot be had here: {why}", figure.id))?;
            return Ok(Vec::new());
        }
        Show::Micro => {
            let rows = micro::run(figure, plan)?;
            sink.rows(figure, &rows)?;
            return Ok(rows);
        }
        Show::Throughput(mixes) => return clients::run(figure, plan, mixes, sink),
        Show::Simulated(_) if !simulated::is_there() => {
            sink.note(&format!("{} needs valgrind, which is not here", figure.id))?;
            return Ok(Vec::new());
        }
        _ => {}
    }
    let absent: Vec<&str> = figure.trees.iter().copied().filter(|name| tree::find(name).is_none()).collect();
    sink.absent(&absent, None)?;
    let mut all = Vec::new();
    for &bytes in figure.bytes {
        let known = || figure.trees.iter().filter_map(|name| tree::find(name));
        let (there, absent): (Vec<_>, Vec<_>) = known().partition(|contestant| contestant.sizes.contains(&bytes));
        sink.absent(&absent.iter().map(|contestant| contestant.name).collect::<Vec<_>>(), Some(bytes))?;
        for n in figure.keys(plan.n, plan.full) {
            for &threads in figure.threads {
                let n = if figure.each { n * u64::from(threads) } else { n };
                let bench = Bench { figure, plan, bytes, n, threads };
                for rows in bench.run(&there)? {
                    sink.rows(figure, &rows)?;
                    all.extend(rows);
                }
            }
        }
    }
    Ok(all)
}

/// A figure at one setting, except for the slowness of lines.
struct Bench<'f> {
    figure: &'f Figure,
    plan: &'f Plan,
    bytes: u32,
    n: u64,
    threads: u32,
}

/// What one step took.
struct Took {
    cpu: f64,
    run: f64,
    geometric: Option<f64>,
    /// How often inner nodes were rebuilt, and how long that took.
    rebuilds: Option<(u64, Duration)>,
}

/// What one step asked of the medium.
#[derive(Clone, Copy)]
struct Tally {
    all: PerOp,
    /// Bytes that flushes named, per operation.
    requested: f64,
    /// The share of the lines that were those of shifted entries, or of a log of them, in percent.
    sorting: f64,
    /// The shares of the operations that flushed lines together, in percent: of lines, fences and operations.
    copies: [f64; 3],
}

/// One step of one contestant.
struct Scene<'s> {
    stage: &'s Stage,
    crew: &'s Crew<'s>,
    copies: &'s Copies<'s>,
    step: Step,
    part: usize,
}

impl Scene<'_> {
    fn work(&self) -> Vec<Work<'_>> {
        self.crew.work(self.step, self.part)
    }
}

impl Bench<'_> {
    /// The rows for each slowness.
    fn run(&self, contestants: &[&'static Contestant]) -> Outcome<Vec<Vec<Row>>> {
        let mut settings = Vec::new();
        let is_counted = !matches!(self.figure.show, Show::Opening | Show::Tail);
        let tallies = if self.threads == 1 && is_counted {
            contestants.iter().map(|contestant| self.counted(contestant)).collect::<Outcome<Vec<_>>>()?
        } else {
            // Threads do not run in the same order each time, so the counts would differ each time, too.
            vec![Vec::new(); contestants.len()]
        };
        let usual = [self.plan.slow, 0];
        let slows = match self.figure.slow {
            _ if !self.figure.show.is_timed() => &[0],
            [] if self.plan.slow == 0 => &[0],
            [] => &usual[..],
            slows => slows,
        };
        for &slow in slows {
            if self.figure.show == Show::Tail {
                let Self { figure: _, plan, bytes, n, threads } = *self;
                let mut rows = Tail { plan, bytes, n, threads, slow }.run(contestants)?;
                compare(&mut rows, self.figure.subject);
                settings.push(rows);
                continue;
            }
            let mut rows: Vec<Vec<Row>> = Vec::new();
            for (contestant, tallies) in contestants.iter().zip(&tallies) {
                rows.push(self.rows(contestant, slow, tallies));
            }
            let repeats =
                if self.figure.show.is_timed() || self.figure.show == Show::Opening { self.plan.repeat } else { 0 };
            if let Show::Simulated(misses) = self.figure.show {
                for (contestant, row) in contestants.iter().zip(rows.iter_mut().flatten()) {
                    let lines = row.counts.map_or(0.0, |counts| counts.lines);
                    let of = (self.bytes, self.n);
                    row.series.push(simulated::per_insert(misses, self.plan, contestant, of, lines)?);
                }
            }
            for repeat in 0..repeats {
                let seed = self.plan.seed.wrapping_add(repeat.into());
                for (contestant, rows) in contestants.iter().zip(&mut rows) {
                    if self.figure.show == Show::Opening {
                        for (row, ms) in rows.iter_mut().zip(self.reopened(contestant, seed)?) {
                            row.series.push(ms);
                            row.more = vec![("us_per_key", clock::median(&row.series) * 1000.0 / self.n as f64)];
                        }
                    } else {
                        let took = self.timed(contestant, slow, seed)?;
                        rows.iter_mut().zip(took).for_each(|(row, took)| self.put(row, &took));
                    }
                }
            }
            let mut rows: Vec<Row> = rows.into_iter().flatten().collect();
            match self.figure.show {
                Show::Inner(pairs) => shares(&mut rows, pairs, |whole, leaves| whole.lines() - leaves.lines()),
                // Each row has its own lines of shifted entries.
                Show::Sorting(pairs) => shares(&mut rows, pairs, |_, leaves| clock::median(&leaves.series)),
                _ => {}
            }
            compare(&mut rows, self.figure.subject);
            settings.push(rows);
        }
        Ok(settings)
    }

    /// The rows of a contestant, with its counts.
    fn rows(&self, contestant: &Contestant, slow: u64, tallies: &[Tally]) -> Vec<Row> {
        let timed = self.figure.show.is_timed();
        let slow = timed.then_some(slow);
        let setting = Setting { bytes: self.bytes, n: self.n, threads: self.threads, slow };
        let new = |mix, percent| Row::new(contestant.name, setting, mix, percent);
        if self.figure.show == Show::Opening {
            return ["open-killed", "open-closed"].map(|mix| new(mix, None)).into();
        }
        let steps = self.figure.steps;
        let repeated = (1..steps.len()).any(|i| steps[..i].contains(&steps[i]));
        let mut rows: Vec<Row> = steps.iter().map(|step| new(step.name(), step.percent())).collect();
        for (i, row) in rows.iter_mut().enumerate() {
            row.part = repeated.then_some(i + 1);
            let Some(Tally { all, requested, sorting, copies }) = tallies.get(i).copied() else { continue };
            row.counts = Some(all);
            match self.figure.show {
                Show::Lines => row.series.push(all.lines),
                Show::Flushed => {
                    row.series.push(all.lines * LINE as f64);
                    row.more.push(("requested_bytes_per_op", requested));
                }
                Show::Sorting(_) => row.series.push(all.lines * sorting / 100.0),
                Show::Barriers => row.series.push(all.fences + all.orders),
                Show::Copies => {
                    row.series.push(copies[0]);
                    row.more.extend([("copied_fences_percent", copies[1]), ("copied_ops_percent", copies[2])]);
                }
                _ => {}
            }
        }
        rows
    }

    /// Adds one repeat to a row.
    fn put(&self, row: &mut Row, took: &Took) {
        row.wall.push(took.run);
        row.geometric.extend(took.geometric);
        if self.figure.show == Show::Time {
            row.series.push(took.cpu);
        } else if let Some((count, time)) = took.rebuilds {
            row.series.push(time.as_secs_f64() * 1000.0);
            let share = time.as_secs_f64() * 1e9 / (took.run * self.n as f64) * 100.0;
            row.more = vec![("rebuilds", count as f64), ("rebuild_percent", share)];
        }
    }

    fn stage(&self, contestant: &Contestant, switches: Switches) -> Outcome<Stage> {
        Stage::new(self.plan.directory.as_deref(), contestant, (self.bytes, self.n), switches)
    }

    fn reopened(&self, contestant: &Contestant, seed: u64) -> Outcome<[f64; 2]> {
        self.stage(contestant, Switches::default())?.reopen(contestant, (self.bytes, self.n), seed)
    }

    /// The steps that are run on one tree, with the number of the first.
    fn turns(&self) -> impl Iterator<Item = (usize, &'static [Step])> {
        let size = if self.figure.apart { 1 } else { self.figure.steps.len() };
        self.figure.steps.chunks(size.max(1)).enumerate().map(move |(i, steps)| (i * size, steps))
    }

    /// Runs all steps on fresh trees; `meter` runs one of the steps that are shown.
    fn each<T>(
        &self,
        contestant: &Contestant,
        switches: Switches,
        seed: u64,
        mut meter: impl FnMut(Scene<'_>) -> T,
    ) -> Outcome<Vec<T>> {
        let mut found = Vec::new();
        for (first, steps) in self.turns() {
            let stage = self.stage(contestant, switches)?;
            let copies = Copies::new(&stage.tallies);
            let note = || copies.note();
            let crew = Crew::new(&*stage.tree, self.n, self.threads, seed);
            let crew = if self.figure.show == Show::Copies { crew.watched(&note) } else { crew };
            let before = self.figure.before;
            for (part, &step) in before.iter().enumerate() {
                clock::spend(u64::MAX, crew.work(step, part));
            }
            for (i, &step) in steps.iter().enumerate() {
                let part = before.len() + first + i;
                found.push(meter(Scene { stage: &stage, crew: &crew, copies: &copies, step, part }));
            }
            let wrong = crew.wrong();
            if wrong > 0 {
                return Err(format!("{}: {wrong} searches did not find what they should", contestant.name).into());
            }
            stage.close()?;
        }
        Ok(found)
    }

    fn timed(&self, contestant: &Contestant, slow: u64, seed: u64) -> Outcome<Vec<Took>> {
        let waits = contestant.durable || self.figure.volatile_waits;
        let slow = Duration::from_nanos(if waits { slow } else { 0 });
        let switches = Switches { slow, no_prefetch: self.plan.no_prefetch, ..Switches::default() };
        self.each(contestant, switches, seed, |scene| {
            let tree = &scene.stage.tree;
            let before = tree.rebuilds().unwrap_or_default();
            let spent = clock::spend(u64::MAX, scene.work());
            let rebuilds = tree.rebuilds().map(|(count, time)| (count - before.0, time - before.1));
            Took { cpu: spent.cpu.unwrap_or(spent.run), run: spent.run, geometric: spent.geometric, rebuilds }
        })
    }

    fn counted(&self, contestant: &Contestant) -> Outcome<Vec<Tally>> {
        let switches = Switches { count: true, ..Switches::default() };
        self.each(contestant, switches, self.plan.seed, |scene| {
            let tallies = &scene.stage.tallies;
            let before = (tallies.counts(), tallies.requested(), tallies.sorting());
            scene.copies.start();
            let mut tick = Tick::idle();
            scene.work().into_iter().for_each(|work| work(&mut tick));
            let counts = tallies.counts() - before.0;
            let operations = tick.operations();
            Tally {
                all: PerOp::new(counts, operations),
                requested: (tallies.requested() - before.1) as f64 / operations as f64,
                sorting: (tallies.sorting() - before.2) as f64 * 100.0 / (counts.lines as f64).max(1.0),
                copies: scene.copies.shares(counts, operations),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::USUAL;
    use super::super::work::Zone;
    use super::*;

    fn rows(figure: Figure, n: u64) -> Vec<Row> {
        let figure = Figure { id: "test:1", title: "test", trees: &["fast-fair", "circ"], subject: "circ", ..figure };
        let plan = Plan::of_tests(n, 50, 1);
        let bench = Bench { figure: &figure, plan: &plan, bytes: 1024, n, threads: figure.threads[0] };
        let there: Vec<_> = figure.trees.iter().filter_map(|name| tree::find(name)).collect();
        bench.run(&there).unwrap().concat()
    }

    #[test]
    fn every_step_is_measured() {
        const HOT: Step = Step::Hot(Zone::Greatest(50));
        const CROWD: Step = Step::Crowd(Zone::Least(5));
        let steps = &[Step::Update, Step::Get, HOT, HOT, Step::Mixed(30), CROWD, Step::Remove];
        for apart in [false, true] {
            let before = &[Step::Insert];
            let found = rows(Figure { before, steps, apart, ..USUAL }, 2000);
            // Two contestants, at the requested slowness and without it.
            assert_eq!(found.len(), 2 * 2 * steps.len());
            for row in &found {
                assert!(row.series[0] > 0.0 && row.wall.len() == 1 && row.part.is_some(), "{row:?}");
                let lines = row.counts.unwrap().lines;
                assert!(if row.mix() == "get #2" { lines == 0.0 } else { lines > 0.2 }, "{row:?}");
            }
        }
        let sequential = rows(Figure { steps: &[Step::Ascending], ..USUAL }, 2000);
        // Keys that are inserted at the end move nothing.
        assert!(sequential.iter().all(|row| row.counts.unwrap().lines < 2.0), "{sequential:?}");
    }

    #[test]
    fn several_threads_are_timed_and_not_counted() {
        let found = rows(Figure { steps: &[Step::Insert, Step::Get], threads: &[3], ..USUAL }, 3000);
        assert!(found.len() == 8 && found.iter().all(|row| row.counts.is_none() && row.series.len() == 1), "{found:?}");
    }

    #[test]
    fn copies_are_told_from_shifts() {
        // Mostly shifts, and sometimes a split, which copies half a leaf.
        for row in rows(Figure { show: Show::Copies, ..USUAL }, 5000) {
            let (lines, operations) = (row.series[0], row.more[1].1);
            assert!(lines > 5.0 && lines < 50.0 && operations > 1.0 && operations < 5.0, "{row:?}");
        }
    }

    #[test]
    fn a_tree_is_opened_again() {
        let found = rows(Figure { show: Show::Opening, ..USUAL }, 2000);
        assert!(found.len() == 4 && found.iter().all(|row| row.series[0] > 0.0), "{found:?}");
    }
}
