//! The table, and the JSON, of times and counts.

use super::clock::{self, Clock, Repeat, Summary};
use super::counts::{self, PerOp};
use super::{Contestant, Mix, Plan, media};
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
    /// Layout, bytes of a node, index.
    fn columns(self) -> (&'static str, Option<u32>, Option<&'static str>) {
        match self {
            Self::Tree(shape) => (shape.layout.name(), Some(shape.slots * 16), Some(shape.index.name())),
            Self::BTreeMap => ("btreemap", None, None),
        }
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
    for repeat in 0..plan.repeat {
        for result in &mut results {
            let seed = plan.seed.wrapping_add(repeat.into());
            let visit = Repeat { clock: &mut result.clock, n: plan.n, seed, mixes };
            let (wrong, domain) = media::timed(plan, result.contestant, visit)?;
            if wrong > 0 {
                return Err(format!("{}: {wrong} gets did not find their key", result.contestant.columns().0).into());
            }
            result.domain = domain;
        }
    }
    for result in results.iter_mut().filter(|_| plan.count) {
        if let Contestant::Tree(shape) = result.contestant {
            result.counts = counts::of(shape, plan.n, plan.seed, mixes)?;
        }
    }
    let baseline = results.iter().find(|r| matches!(r.contestant, Contestant::BTreeMap)).map(|r| r.clock.clone());
    if plan.json {
        return json_lines(plan, &results, baseline.as_ref());
    }
    out::text(&header(plan, &results))?;
    for result in &results {
        rows(result)?;
    }
    if let Some(baseline) = baseline.filter(|_| results.len() > 1) {
        ratios(&results, &baseline)?;
    }
    Ok(())
}

fn place(plan: &Plan) -> String {
    match &plan.place {
        media::Place::Dram => "memory".to_owned(),
        media::Place::Directory(None) => "scratch".to_owned(),
        media::Place::Directory(Some(path)) => path.display().to_string(),
    }
}

fn header(plan: &Plan, results: &[Result]) -> String {
    let flushes = match results.iter().find_map(|result| result.domain) {
        Some(Domain::Process) => "nothing flushed",
        Some(_) => "flushed and fenced",
        None => "no pool",
    };
    let slow = if plan.slow.is_zero() { String::new() } else { format!(", {} per line more", out::time(plan.slow)) };
    format!(
        "{} uniform u64 keys, one thread, pool in {}, {flushes}{slow}; {} in turn, seed {}\n\
         ns per operation: median, 99th percentile and least of batches of {} (the clock is read once a batch);\n\
         run: the median repeat as a whole; cpu: in CPU time. Lines, fences, order points, bytes stored: counted apart.\n\n\
         layout    bytes  index       mix      median      p99    least      run      cpu    lines  fences   orders    bytes",
        out::count(plan.n),
        place(plan),
        out::counted(plan.repeat.into(), "repeat", "repeats"),
        plan.seed,
        plan.batch,
    )
}

fn rows(result: &Result) -> Outcome<()> {
    let (layout, bytes, index) = result.contestant.columns();
    let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    for (&mix, times) in &result.clock.times {
        let Summary { median, p99, min, run, cpu } = times.clone().summary();
        let counts = result.counts.get(&mix).map_or_else(String::new, |c| {
            format!("  {:7.2} {:7.2}  {:7.2}  {:7.1}", c.lines, c.fences, c.orders, c.bytes)
        });
        let index = index.unwrap_or("-");
        let name = mix.name();
        let times = format!("{median:8.1} {p99:8.1} {min:8.1} {run:8.1} {cpu:8.1}");
        out::text(&format!("{layout:9} {bytes:>5}  {index:10}  {name:6}  {times}{counts}"))?;
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

fn ratios(results: &[Result], baseline: &Clock) -> Outcome<()> {
    out::text("\nCPU time next to BTreeMap, the median of the repeats; below 1 is faster:")?;
    for result in results {
        let (layout, Some(bytes), Some(index)) = result.contestant.columns() else { continue };
        let of = |mix: &Mix| ratio(&result.clock, baseline, *mix).map(|ratio| format!("  {} {ratio:.2}", mix.name()));
        let ratios: String = result.clock.times.keys().filter_map(of).collect();
        out::text(&format!("{layout:9} {bytes:>5}  {index:10}{ratios}"))?;
    }
    Ok(())
}

fn json_lines(plan: &Plan, results: &[Result], baseline: Option<&Clock>) -> Outcome<()> {
    for result in results {
        let (layout, bytes, index) = result.contestant.columns();
        for (&mix, times) in &result.clock.times {
            let times = times.clone().summary();
            let counts = result.counts.get(&mix);
            let per_op = |count: fn(&PerOp) -> f64| counts.map_or(Value::Null, |c| json!(out::rounded(count(c), 4)));
            let against = baseline.and_then(|baseline| ratio(&result.clock, baseline, mix));
            out::json(&json!({
                "layout": layout,
                "index": index,
                "node_bytes": bytes,
                "n": plan.n,
                "mix": mix.name(),
                "threads": 1,
                "domain": result.domain.map(Domain::name),
                "medium": place(plan),
                "slow_ns": plan.slow.as_nanos() as u64,
                "repeat": plan.repeat,
                "batch": plan.batch,
                "seed": plan.seed,
                "ns_per_op": {
                    "median": out::rounded(times.median, 2),
                    "p99": out::rounded(times.p99, 2),
                    "min": out::rounded(times.min, 2),
                    "run": out::rounded(times.run, 2),
                    "cpu": Some(times.cpu).filter(|cpu| cpu.is_finite()).map(|cpu| out::rounded(cpu, 2)),
                },
                "lines_per_op": per_op(|c| c.lines),
                "fences_per_op": per_op(|c| c.fences),
                "orders_per_op": per_op(|c| c.orders),
                "bytes_per_op": per_op(|c| c.bytes),
                "ratio_to_btreemap": against.map(|ratio| out::rounded(ratio, 4)),
            }))?;
        }
    }
    Ok(())
}
