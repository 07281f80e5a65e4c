//! The table, and the JSON, of times and counts.

use super::clock::{self, Clock, Repeat, Runs};
use super::counts::{self, PerOp};
use super::{Contestant, Mix, Plan, chart, media};
use crate::out::{self, Outcome};
use bristlecone::medium::Domain;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Everything measured of one contestant.
struct Result {
    contestant: Contestant,
    clock: Clock,
    counts: BTreeMap<Mix, PerOp>,
    domain: Option<Domain>,
}

impl Contestant {
    /// Bytes of a node, index.
    fn columns(self) -> (Option<u32>, Option<&'static str>) {
        match self {
            Self::Tree(shape) => (Some(shape.node_bytes()), Some(shape.index.name())),
            Self::BTreeMap | Self::Peer(_) => (None, None),
        }
    }

    /// Whether the others are compared with it.
    fn is_baseline(self) -> bool {
        self.name() == Self::BTreeMap.name()
    }
}

/// Measures all contestants in turn, and prints what came out.
pub(crate) fn times(plan: &Plan, mixes: &[Mix]) -> Outcome<()> {
    let new = |&contestant: &Contestant| Result {
        contestant,
        clock: Clock { batch: plan.batch, ..Clock::default() },
        counts: BTreeMap::new(),
        domain: None,
    };
    let mut results: Vec<Result> = plan.contestants.iter().map(new).collect();
    // Batches want an empty tree, and what was inserted in batches is not what the other mixes are about.
    let (batch, others): (Vec<Mix>, Vec<Mix>) = mixes.iter().partition(|mix| **mix == Mix::Batch);
    let passes: Vec<Vec<Mix>> = [others, batch].into_iter().filter(|mixes| !mixes.is_empty()).collect();
    for repeat in 0..plan.repeat {
        for result in &mut results {
            for mixes in &passes {
                let visit = Repeat { clock: &mut result.clock, job: plan.job(repeat, mixes) };
                let (wrong, domain) = media::timed(plan, result.contestant, visit)?;
                if wrong > 0 {
                    let name = result.contestant.name();
                    return Err(format!("{name}: {wrong} operations did not find what they should").into());
                }
                result.domain = domain;
            }
        }
    }
    for result in results.iter_mut().filter(|_| plan.count) {
        if let Contestant::Tree(shape) = result.contestant {
            for mixes in &passes {
                result.counts.append(&mut counts::of(shape, plan.job(0, mixes))?);
            }
        }
    }
    if let Some(path) = &plan.svg {
        let bar = |result: &Result, mix| result.clock.times.get(mix).map(|times| clock::median(&times.runs));
        let bars = |result: &Result| (result.contestant.label(), mixes.iter().map(|mix| bar(result, mix)).collect());
        let series: Vec<chart::Series> = results.iter().map(bars).collect();
        let groups: Vec<String> = mixes.iter().map(|mix| mix.name().to_owned()).collect();
        let svg = chart::draw(&format!("Nanoseconds per operation: {}", setting(plan)), "ns", &groups, &series);
        std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print(plan, &results)
}

fn print(plan: &Plan, results: &[Result]) -> Outcome<()> {
    let baseline = results.iter().find(|result| result.contestant.is_baseline()).map(|result| &result.clock);
    if plan.json {
        if let Some(note) = left_out(plan) {
            out::aside(&format!("bristlecone: {note}"));
        }
        return results.iter().try_for_each(|result| json_lines(plan, result, baseline));
    }
    let width = results.iter().map(|result| result.contestant.name().len()).fold(9, usize::max);
    out::text(&header(plan, results, width))?;
    for result in results {
        rows(result, width)?;
    }
    if let Some(baseline) = baseline.filter(|_| results.len() > 1) {
        ratios(results, baseline, width)?;
    }
    if let Some(note) = left_out(plan) {
        out::text(&format!("\n{note}"))?;
    }
    Ok(())
}

/// Who does not take part, and why.
fn left_out(plan: &Plan) -> Option<String> {
    let names: Vec<&str> = plan.left_out.iter().map(|contestant| contestant.name()).collect();
    (!names.is_empty())
        .then(|| format!("left out of {} threads, being for one only: {}", plan.threads, names.join(", ")))
}

fn place(plan: &Plan) -> String {
    match &plan.place {
        media::Place::Dram => "memory".to_owned(),
        media::Place::Directory(None) => "scratch".to_owned(),
        media::Place::Directory(Some(path)) => path.display().to_string(),
    }
}

/// What all contestants have in common.
fn setting(plan: &Plan) -> String {
    let threads = if plan.threads == 1 { "one thread".to_owned() } else { format!("{} threads", plan.threads) };
    format!("{} {} u64 keys, {threads}", out::count(plan.n), plan.pattern.name())
}

fn header(plan: &Plan, results: &[Result], width: usize) -> String {
    let flushes = match results.iter().find_map(|result| result.domain) {
        Some(Domain::Process) => "nothing flushed",
        Some(_) => "flushed and fenced",
        None => "no pool",
    };
    let slow = if plan.slow.is_zero() { String::new() } else { format!(", {} per line more", out::time(plan.slow)) };
    format!(
        "{}, pool in {}, {flushes}{slow}; {} in turn, seed {}\n\
         ns per operation: median, 99th percentile and least of batches of {} (the clock is read once a batch); run: the\n\
         median repeat as a whole, and the least and greatest; cpu: the same in CPU time, of all threads together.\n\
         Lines, fences, order points, bytes stored: counted apart.\n\n\
         {:width$} bytes  index       mix         median      p99    least      run     (least greatest)      cpu     (least greatest)    lines  fences   orders    bytes",
        setting(plan),
        place(plan),
        out::counted(plan.repeat.into(), "repeat", "repeats"),
        plan.seed,
        plan.batch,
        "layout",
    )
}

fn rows(result: &Result, width: usize) -> Outcome<()> {
    let name = result.contestant.name();
    let (bytes, index) = result.contestant.columns();
    let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    for (&mix, times) in &result.clock.times {
        let times = times.clone().summary();
        let counts = result.counts.get(&mix).map_or_else(String::new, |c| {
            format!("  {:7.2} {:7.2}  {:7.2}  {:7.1}", c.lines, c.fences, c.orders, c.bytes)
        });
        let runs = |Runs { median, min, max }| format!("{median:8.1} ({min:8.1} {max:8.1})");
        out::text(&format!(
            "{name:width$} {bytes:>5}  {:10}  {:9}  {:8.1} {:8.1} {:8.1} {} {}{counts}",
            index.unwrap_or("-"),
            mix.name(),
            times.median,
            times.p99,
            times.min,
            runs(times.run),
            runs(times.cpu),
        ))?;
    }
    Ok(())
}

/// How long a contestant takes next to the baseline, which took its turn in the same repeat; in CPU time if possible.
fn ratio(clock: &Clock, baseline: &Clock, mix: Mix) -> Option<f64> {
    let (times, other) = (clock.times.get(&mix)?, baseline.times.get(&mix)?);
    let (runs, others) = if times.cpu.is_empty() { (&times.runs, &other.runs) } else { (&times.cpu, &other.cpu) };
    let ratios: Vec<f64> = runs.iter().zip(others).map(|(run, other)| run / other).collect();
    Some(clock::median(&ratios))
}

fn ratios(results: &[Result], baseline: &Clock, width: usize) -> Outcome<()> {
    out::text("\nCPU time next to BTreeMap, the median of the repeats; below 1 is faster:")?;
    for result in results.iter().filter(|result| !result.contestant.is_baseline()) {
        let (bytes, index) = result.contestant.columns();
        let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let of = |mix: &Mix| ratio(&result.clock, baseline, *mix).map(|ratio| format!("  {} {ratio:.2}", mix.name()));
        let ratios: String = result.clock.times.keys().filter_map(of).collect();
        let name = result.contestant.name();
        out::text(&format!("{name:width$} {bytes:>5}  {:10}{ratios}", index.unwrap_or("-")))?;
    }
    Ok(())
}

fn json_lines(plan: &Plan, result: &Result, baseline: Option<&Clock>) -> Outcome<()> {
    let (bytes, index) = result.contestant.columns();
    let kind = if let Contestant::Peer(_) = result.contestant { "peer" } else { "layout" };
    for (&mix, times) in &result.clock.times {
        let times = times.clone().summary();
        let counts = result.counts.get(&mix);
        let per_op = |count: fn(&PerOp) -> f64| counts.map_or(Value::Null, |c| json!(out::rounded(count(c), 4)));
        let against = baseline.and_then(|baseline| ratio(&result.clock, baseline, mix));
        // Null where it is unknown.
        let ns = |ns: f64| Some(ns).filter(|ns| ns.is_finite()).map(|ns| out::rounded(ns, 2));
        out::json(&json!({
            (kind): result.contestant.name(),
            "index": index,
            "node_bytes": bytes,
            "n": plan.n,
            "keys": plan.pattern.name(),
            "mix": mix.name(),
            "threads": plan.threads,
            "domain": result.domain.map(Domain::name),
            "medium": place(plan),
            "slow_ns": plan.slow.as_nanos() as u64,
            "repeat": plan.repeat,
            "batch": plan.batch,
            "seed": plan.seed,
            "ns_per_op": {
                "median": ns(times.median),
                "p99": ns(times.p99),
                "min": ns(times.min),
                "run": ns(times.run.median),
                "run_min": ns(times.run.min),
                "run_max": ns(times.run.max),
                "cpu": ns(times.cpu.median),
                "cpu_min": ns(times.cpu.min),
                "cpu_max": ns(times.cpu.max),
            },
            "lines_per_op": per_op(|c| c.lines),
            "fences_per_op": per_op(|c| c.fences),
            "orders_per_op": per_op(|c| c.orders),
            "bytes_per_op": per_op(|c| c.bytes),
            "ratio_to_btreemap": against.map(|ratio| out::rounded(ratio, 4)),
        }))?;
    }
    Ok(())
}
