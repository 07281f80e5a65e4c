//! Durable linearizability: threads work on a simulated medium, which is cut at random moments. What is found after
//! recovery must be explained by the operations that had returned, and by some of those under way. So nothing is lost
//! that was acknowledged, and nothing is taken back that a reader has seen.
//!
//! # Source
//!
//! Izraelevitz, Mendes, Scott: "Linearizability of Persistent Memory Objects Under a Full-System-Crash Failure Model",
//! DISC (2016).

use super::check::check;
use super::clock::Clock;
use super::op::{Call, Op};
use super::perform::perform;
use super::plan::{Plan, random};
use super::round::{entries_of, filled, is_sound, read_all, work};
use crate::crash::pending::{Pending, THREADS};
use crate::crash::tree_type::TreeType;
use crate::error::Error;
use crate::medium::{Event, Model, Sim, Step, number_thread};
use crate::pool::{Options, Pool};
use crate::random::Random;

/// Cuts per round.
const CUTS: usize = 6;

/// Small segments, so that images are small.
fn options(bytes: u64) -> Options {
    Pool::options().segment_size(segment(bytes))
}

fn segment(bytes: u64) -> u64 {
    (bytes * 4).next_power_of_two().max(1024)
}

/// Runs the round of a seed, and checks what crashes leave of it. Returns how many operations were checked, or what was
/// wrong. `left_out` plants a bug: the fences of these steps do nothing.
pub(super) fn run(tree_type: TreeType, seed: u64, threads: usize, left_out: &[Step]) -> Result<u64, String> {
    let plan = Plan::short(seed, threads.min(THREADS - 1), tree_type);
    let failed = |error: Error| error.to_string();
    let sim = Sim::zeroed(tree_type.pools() * 270 * segment(tree_type.bytes)).of_threads();
    let pool = options(tree_type.bytes).create_on(sim.handle()).map_err(failed)?;
    let tree = filled(tree_type, &pool, &plan).map_err(failed)?;
    let from = sim.now();
    let clock = Clock::of(sim.clone());
    let calls = work(&plan, seed, &*tree, &clock, &|number| number_thread(number as u8 + 1))?;
    let trace = sim.trace_of_threads();
    let mut random = random(seed, 0x6375_7473);
    let mut cuts: Vec<usize> =
        (0..CUTS).map(|_| from + random.below((trace.len() - from) as u64 + 1) as usize).collect();
    cuts.sort_unstable();
    let mut pending = Pending::new(vec![0; sim.words().len()]);
    let (mut applied, mut checked) = (0, 0);
    for cut in cuts {
        for (event, thread) in &trace[applied..cut] {
            if !matches!(event, Event::Fence(step) if left_out.contains(step)) {
                pending.apply_of(event, *thread);
            }
        }
        applied = cut;
        let calls: Vec<Call> = calls.iter().filter_map(|call| until(cut, call, &clock)).collect();
        checked += calls.len() as u64;
        let model = random.one_of(&[Model::Tso, Model::Weak]);
        // Either the first content of each line, which is the oldest, or pseudo-random contents, half of the time whole
        // ones.
        let choice = random.one_of(&[0, 1, 1]) * (random.next() | 1);
        let crashed = Sim::crashed(&pending.image, pending.options(model), Vec::new(), choice);
        state(tree_type, &plan, crashed, calls, &mut random)
            .map_err(|what| format!("a crash after {cut} of {} events ({model:?}): {what}", trace.len()))?;
    }
    Ok(checked)
}

/// What was known of a call when the medium was cut after this many events; `None`: it was not made yet.
fn until(cut: usize, call: &Call, clock: &Clock) -> Option<Call> {
    (clock.position(call.called) <= cut).then(|| {
        let returned = call.returned.clone().filter(|(at, _)| clock.position(*at) <= cut);
        Call { returned, ..call.clone() }
    })
}

/// Opens what a crash left, and checks it.
fn state(tree_type: TreeType, plan: &Plan, sim: Sim, mut calls: Vec<Call>, random: &mut Random) -> Result<(), String> {
    let failed = |error: Error| error.to_string();
    let pool = options(tree_type.bytes).open_on(sim.handle()).map_err(failed)?;
    let tree = tree_type.open(&pool).map_err(failed)?;
    let last = calls.iter().map(|call| call.returned.as_ref().map_or(call.called, |(at, _)| *at)).max();
    let clock = Clock::after(last.unwrap_or_default());
    let read = read_all(plan, &*tree, &clock).map_err(failed)?;
    let mut entries = entries_of(&read);
    calls.extend(read);
    if let Some(wrong) = check(&plan.keys, &plan.before, &calls, plan.atomic) {
        return Err(wrong);
    }
    is_sound(&*tree, &entries)?;
    // The tree can be used.
    for (i, &key) in plan.keys.iter().enumerate() {
        let keeps = random.one_in(2);
        let op = if keeps { Op::Insert(key, i as u64) } else { Op::Remove(key) };
        perform(&*tree, &op, &clock).map_err(failed)?;
        entries.remove(&key);
        entries.extend(keeps.then_some((key, i as u64)));
    }
    let found = entries_of(&read_all(plan, &*tree, &clock).map_err(failed)?);
    if found != entries {
        return Err(format!("after further use there is {found:?}, expected {entries:?}"));
    }
    is_sound(&*tree, &entries)
}
