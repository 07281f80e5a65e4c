//! What the machine takes for the parts of an operation, whatever the code does: the physical limits next to which the
//! times of operations stand.
//!
//! Misses are those of the memory in which a pool lies, as large as that of a tree of so many keys.

use crate::clock::{self, Tick};
use crate::mix::Mix;
use crate::numbers::Random;
use crate::out::{self, Outcome};
use crate::parse::Usage;
use crate::place::Place;
use crate::plan::Plan;
use crate::scratch::Scratch;
use bristlecone::medium::{Domain, Mapped, Medium, Step};
use serde_json::json;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

/// The names of the parts: JSON keys, and what they are.
const PARTS: [(&str, &str); 6] = [
    ("page", "the first touch of a page of the file"),
    ("dependent_miss", "a load whose place the load before it has told"),
    ("independent_miss", "a load at a random place that is known before"),
    ("locked", "an addition to a word at hand that waits for all stores before it"),
    ("round", "a line flushed, and a fence"),
    ("round_of_8", "eight lines flushed, and a fence"),
];

/// Bytes of a pool for each key of eight bytes and its value.
const BYTES: u64 = 24;
const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// Times that each part is done, at the most.
const TIMES: u64 = 1 << 20;

/// Measures the parts.
pub(crate) fn table(plan: &Plan) -> Outcome<()> {
    let Place::Directory(directory) = &plan.site.place else {
        return Err(Usage("--mix limits takes a directory".to_owned()).into());
    };
    let lines = (plan.n * BYTES).next_multiple_of(PAGE) / LINE;
    let mut repeats = Vec::new();
    for repeat in 0..plan.repeat {
        let mut scratch = Scratch::new(directory.as_deref())?;
        let medium = Mapped::create(&scratch.file("limits"), lines * LINE, 0)?.with_domain(Domain::Power);
        repeats.push(measure(&medium, lines, &mut Random::new(plan.seed.wrapping_add(repeat.into()))));
    }
    let figures: Vec<f64> = (0..PARTS.len())
        .map(|part| clock::median(&repeats.iter().map(|repeat| repeat[part]).collect::<Vec<_>>()))
        .collect();
    let bytes = lines * LINE;
    if plan.json {
        let mut row = json!({
            "mix": Mix::Limits.name(),
            "key": "u64",
            "value_bytes": 8,
            "n": plan.n,
            "bytes": bytes,
            "medium": plan.site.place.name(),
            "repeat": plan.repeat,
            "seed": plan.seed,
        });
        for ((name, _), &ns) in PARTS.iter().zip(&figures) {
            row["ns"][name] = out::rounded(ns, 2).into();
        }
        out::json(&row)?;
        return Ok(());
    }
    let (size, seed) = (out::count(bytes), plan.seed);
    out::text(&format!(
        "What the machine takes, in nanoseconds of CPU time, with {size} bytes of memory, seed {seed}\n"
    ))?;
    for ((name, what), ns) in PARTS.iter().zip(figures) {
        out::text(&format!("{name:18}{ns:8.1}   {what}"))?;
    }
    Ok(())
}

/// The nanoseconds of each of [`PARTS`].
fn measure(m: &Mapped, lines: u64, random: &mut Random) -> [f64; PARTS.len()] {
    let page = time(lines * LINE / PAGE, &mut |i| m.store(i * PAGE, 0));
    // One cycle through all lines, at random: each names the next one (Sattolo's shuffle).
    let mut order: Vec<u64> = (0..lines).map(|line| line * LINE).collect();
    for last in (1..lines).rev() {
        order.swap(last as usize, random.below(last) as usize);
    }
    for (i, &at) in order.iter().enumerate() {
        m.store(at, order[(i + 1) % order.len()]);
    }
    let times = TIMES.min(lines);
    let mut at = order[0];
    let dependent = time(times, &mut |_| at = m.load(at));
    let mut sum = 0;
    let independent = time(times, &mut |i| sum ^= m.load(order[i as usize]));
    let word = AtomicU64::new(black_box(at ^ sum));
    let locked = time(TIMES, &mut |i| _ = black_box(word.fetch_add(i, Ordering::Relaxed)));
    let rounds = |each: u64| {
        time(times / 16, &mut |i| {
            for &at in &order[(i * each) as usize..][..each as usize] {
                m.store(at, m.load(at));
                m.flush(at, 8, Step::BatchLines);
            }
            m.fence(Step::BatchLines);
        })
    };
    let (round, round_of_8) = (rounds(1), rounds(8));
    [page, dependent, independent, locked, round, round_of_8]
}

/// Nanoseconds for each time.
fn time(times: u64, part: &mut (dyn FnMut(u64) + Send)) -> f64 {
    let work = |tick: &mut Tick| {
        (0..times).for_each(part);
        tick.done(times);
    };
    let spent = clock::spend(u64::MAX, vec![Box::new(work)]);
    spent.cpu.unwrap_or(spent.run)
}
