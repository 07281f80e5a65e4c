//! The table and the JSON of times and counts.

use crate::chart;
use crate::clock::{self, Runs, Times};
use crate::counts::{self, PerOp};
use crate::media;
use crate::mix::Mix;
use crate::out::{self, Outcome};
use crate::phases;
use crate::plan::{Contestant, Plan};
use bristlecone::medium::Domain;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// All measurements of one contestant.
struct Result {
    contestant: Contestant,
    times: BTreeMap<Mix, Times>,
    counts: BTreeMap<Mix, PerOp>,
    domain: Option<Domain>,
}

/// Measures all contestants in turn, and prints the results.
pub(crate) fn times(plan: &Plan, mixes: &[Mix]) -> Outcome<()> {
    let new =
        |&contestant: &Contestant| Result { contestant, times: BTreeMap::new(), counts: BTreeMap::new(), domain: None };
    let mut results: Vec<Result> = plan.contestants.iter().map(new).collect();
    // Batches need an empty tree, and the other mixes should not run on a tree that was filled in batches.
    let (batches, others): (Vec<Mix>, Vec<Mix>) = mixes.iter().partition(|mix| mix.is_of_batches());
    let batches = batches.into_iter().map(|mix| vec![mix]);
    let passes: Vec<Vec<Mix>> = std::iter::once(others).chain(batches).filter(|mixes| !mixes.is_empty()).collect();
    for repeat in 0..plan.repeat {
        for result in &mut results {
            for mixes in &passes {
                let mut staged = media::timed(&plan.site, result.contestant, &plan.workload(repeat))?;
                phases::run(&mut *staged.trial, mixes, |mix, work| {
                    result.times.entry(mix).or_default().add(clock::spend(plan.batch, work));
                })
                .map_err(|error| format!("{}: {error}", result.contestant.name()))?;
                result.domain = staged.domain;
            }
        }
    }
    for result in results.iter_mut().filter(|_| plan.count) {
        if result.contestant.is_ours() {
            for mixes in &passes {
                result.counts.append(&mut counts::of(result.contestant, &plan.workload(0), mixes)?);
            }
        }
    }
    if let Some(path) = &plan.svg {
        let bar = |result: &Result, mix| result.times.get(mix).map(|times| clock::median(&times.runs).into());
        let bars = |result: &Result| (result.contestant.label(), mixes.iter().map(|mix| bar(result, mix)).collect());
        let series: Vec<chart::Series> = results.iter().map(bars).collect();
        let groups: Vec<String> = mixes.iter().map(|mix| mix.name().to_owned()).collect();
        let svg = chart::draw(&format!("Nanoseconds per operation: {}", setting(plan)), "ns", "", &groups, &series);
        std::fs::write(path, svg).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print(plan, &results)
}

fn print(plan: &Plan, results: &[Result]) -> Outcome<()> {
    let baseline = results.iter().find(|result| result.contestant.is_baseline()).map(|result| &result.times);
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

/// Which contestants do not take part, and why.
fn left_out(plan: &Plan) -> Option<String> {
    let names: Vec<&str> = plan.left_out.iter().map(|contestant| contestant.name()).collect();
    (!names.is_empty())
        .then(|| format!("left out of {} threads, being for one only: {}", plan.threads, names.join(", ")))
}

/// What all contestants have in common.
fn setting(plan: &Plan) -> String {
    let threads = if plan.threads == 1 { "one thread".to_owned() } else { format!("{} threads", plan.threads) };
    format!("{} {} {}, {threads}", out::count(plan.n), plan.pattern.name(), plan.kind())
}

fn header(plan: &Plan, results: &[Result], width: usize) -> String {
    let flushes = match results.iter().find_map(|result| result.domain) {
        Some(Domain::Process) => "nothing flushed",
        Some(Domain::Journal) => "flushed to a journal",
        Some(_) => "flushed and fenced",
        None => "no pool",
    };
    let site = &plan.site;
    let slow = if site.slow.is_zero() {
        String::new()
    } else {
        format!(", {} per {} more", out::time(site.slow), site.slow_per.name())
    };
    format!(
        "{}, pool in {}, {flushes}{slow}; {} in turn, seed {}\n\
         ns per operation: median, 99th percentile and least of batches of {} (the clock is read once a batch); run: the\n\
         median repeat as a whole, and the least and greatest; cpu: the same in CPU time, of all threads together.\n\
         Lines, fences, order points, bytes stored: counted apart.\n\n\
         {:width$} bytes  index       mix         median      p99    least      run     (least greatest)      cpu     (least greatest)    lines  fences   orders    bytes",
        setting(plan),
        plan.site.place.name(),
        out::counted(plan.repeat.into(), "repeat", "repeats"),
        plan.seed,
        plan.batch,
        "layout",
    )
}

fn rows(result: &Result, width: usize) -> Outcome<()> {
    let name = result.contestant.name();
    let (bytes, index) = result.contestant.node();
    let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
    for (&mix, times) in &result.times {
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

/// The time of a contestant divided by that of the baseline.
fn ratio(times: &BTreeMap<Mix, Times>, baseline: &BTreeMap<Mix, Times>, mix: Mix) -> Option<f64> {
    Some(times.get(&mix)?.ratio(baseline.get(&mix)?))
}

/// Times in JSON; null where they are unknown.
pub(crate) fn ns(times: &Times) -> Value {
    let times = times.clone().summary();
    let ns = |ns: f64| Some(ns).filter(|ns| ns.is_finite()).map(|ns| out::rounded(ns, 2));
    json!({
        "median": ns(times.median),
        "p99": ns(times.p99),
        "min": ns(times.min),
        "run": ns(times.run.median),
        "run_min": ns(times.run.min),
        "run_max": ns(times.run.max),
        "cpu": ns(times.cpu.median),
        "cpu_min": ns(times.cpu.min),
        "cpu_max": ns(times.cpu.max),
    })
}

fn ratios(results: &[Result], baseline: &BTreeMap<Mix, Times>, width: usize) -> Outcome<()> {
    out::text("\nCPU time next to BTreeMap, the median of the repeats; below 1 is faster:")?;
    for result in results.iter().filter(|result| !result.contestant.is_baseline()) {
        let (bytes, index) = result.contestant.node();
        let bytes = bytes.map_or_else(|| "-".to_owned(), |bytes| bytes.to_string());
        let of = |mix: &Mix| ratio(&result.times, baseline, *mix).map(|ratio| format!("  {} {ratio:.2}", mix.name()));
        let ratios: String = result.times.keys().filter_map(of).collect();
        let name = result.contestant.name();
        out::text(&format!("{name:width$} {bytes:>5}  {:10}{ratios}", index.unwrap_or("-")))?;
    }
    Ok(())
}

fn json_lines(plan: &Plan, result: &Result, baseline: Option<&BTreeMap<Mix, Times>>) -> Outcome<()> {
    for (&mix, times) in &result.times {
        let counts = result.counts.get(&mix);
        let per_op = |count: fn(&PerOp) -> f64| counts.map_or(Value::Null, |c| json!(out::rounded(count(c), 4)));
        let against = baseline.and_then(|baseline| ratio(&result.times, baseline, mix));
        let mut row = json!({
            "keys": plan.pattern.name(),
            "mix": mix.name(),
            "threads": plan.threads,
            "domain": result.domain.map(Domain::name),
            "medium": plan.site.place.name(),
            "slow_ns": plan.site.slow.as_nanos() as u64,
            "slow_per": plan.site.slow_per.name(),
            "repeat": plan.repeat,
            "batch": plan.batch,
            "operations": plan.operations,
            "seed": plan.seed,
            "ns_per_op": ns(times),
            "lines_per_op": per_op(|c| c.lines),
            "fences_per_op": per_op(|c| c.fences),
            "orders_per_op": per_op(|c| c.orders),
            "bytes_per_op": per_op(|c| c.bytes),
            "ratio_to_btreemap": against.map(|ratio| out::rounded(ratio, 4)),
        });
        plan.describe(result.contestant, &mut row);
        out::json(&row)?;
    }
    Ok(())
}
