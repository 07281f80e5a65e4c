//! One round: threads work on a tree, and what they saw of it is checked.

use super::check::{Entries, check};
use super::clock::Clock;
use super::op::{Answer, Call, Op, Scan, Way};
use super::perform::perform;
use super::plan::{Opened, Plan};
use crate::crash::any_tree::{ALL, AnyTree};
use crate::crash::tree_type::TreeType;
use crate::error::Error;
use crate::medium::any::{Any, words_of};
use crate::medium::{Domain, Dram, Facts, Layer, Medium, Step, load_each};
use crate::pool::{Options, Pool};
use crate::sync::delay;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;

/// Memory that sometimes lets other threads go first, before an access.
struct Jittery {
    words: Dram,
    domain: Domain,
}

impl Layer for Jittery {
    type Below = Dram;

    fn below(&self) -> &Dram {
        &self.words
    }

    fn facts(&self) -> Facts<'_> {
        Facts { domain: self.domain, writes_back: self.domain == Domain::Power, ..self.words.facts() }
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        load_each(self, at, words);
    }

    fn load(&self, at: u64) -> u64 {
        delay::pause();
        self.words.load(at)
    }

    fn store(&self, at: u64, value: u64) {
        delay::pause();
        self.words.store(at, value);
    }

    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        delay::pause();
        self.words.store_pair(at, pair);
    }

    fn fence(&self, step: Step) {
        delay::pause();
        self.words.fence(step);
    }
}

fn holding(words: impl IntoIterator<Item = u64>, plan: &Plan) -> Any {
    let domain = if plan.writes_back { Domain::Power } else { Domain::Process };
    Arc::new(Jittery { words: Dram::from_words(words), domain })
}

/// The options of a pool for some leaves of this many bytes, with records between them.
pub(super) fn options(bytes: u64) -> Options {
    let segment = (bytes * 16).next_power_of_two().max(4096);
    Pool::options().segment_size(segment)
}

/// The size of such a pool in bytes.
fn capacity(of: TreeType) -> u64 {
    of.pools() * 258 * (of.bytes * 16).next_power_of_two().max(4096)
}

/// A tree with the initial entries of the plan.
pub(super) fn filled(tree_type: TreeType, pool: &Pool<Any>, plan: &Plan) -> Result<Box<dyn AnyTree>, Error> {
    let tree = tree_type.open(pool)?;
    let clock = Clock::default();
    for (&key, &value) in &plan.before {
        perform(&*tree, &Op::Insert(key, value), &clock)?;
    }
    Ok(tree)
}

/// Lets the threads do what is planned, and returns what they saw; as an error, what went wrong at once.
///
/// Each thread calls `begin` first.
pub(super) fn work(
    plan: &Plan,
    seed: u64,
    tree: &dyn AnyTree,
    clock: &Clock,
    begin: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Call>, String> {
    let start = Barrier::new(plan.threads);
    let thread = |number: usize| {
        begin(number);
        delay::seed(seed, number as u64);
        let mut calls = Vec::with_capacity(plan.ops);
        let mut script = plan.script(number);
        start.wait();
        while let Some(op) = script.next() {
            let called = clock.now();
            let answer = perform(tree, &op, clock);
            let returned = clock.now();
            let answer = answer.map_err(|error| format!("thread {number}: {op:?}: {error}"))?;
            if let (Op::Get(key) | Op::Exchange(key, ..), Answer::Old(old)) = (&op, &answer) {
                script.saw(*key, *old);
            }
            calls.push(Call { thread: number, op, called, returned: Some((returned, answer)) });
        }
        Ok(calls)
    };
    let caught = |number| match catch_unwind(AssertUnwindSafe(|| thread(number))) {
        Ok(calls) => calls,
        Err(payload) => Err(format!("thread {number} panics: {}", text_of(&*payload))),
    };
    thread::scope(|threads| {
        let spawned: Vec<_> = (0..plan.threads).map(|number| threads.spawn(move || caught(number))).collect();
        let calls: Result<Vec<_>, String> = spawned.into_iter().map(|it| it.join().expect("caught")).collect();
        calls.map(|calls| calls.into_iter().flatten().collect())
    })
}

fn text_of(payload: &dyn std::any::Any) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("with something else than text")
}

/// Reads the whole tree, as one more thread.
pub(super) fn read_all(plan: &Plan, tree: &dyn AnyTree, clock: &Clock) -> Result<Vec<Call>, Error> {
    let scan = |way| Op::Range(Scan { keys: ALL, way, limit: usize::MAX });
    let ops = [scan(Way::Up), scan(Way::Down), Op::MultiGet(plan.keys.clone())];
    ops.into_iter()
        .map(|op| {
            let called = clock.now();
            let answer = perform(tree, &op, clock)?;
            Ok(Call { thread: plan.threads, op, called, returned: Some((clock.now(), answer)) })
        })
        .collect()
}

/// The entries that a full read shows.
pub(super) fn entries_of(read: &[Call]) -> Entries {
    let shown = read.iter().find_map(|call| match call.answer() {
        Some(Answer::Shown(shown)) => Some(shown),
        _ => None,
    });
    shown.into_iter().flatten().map(|entry| (entry.key, entry.value)).collect()
}

/// Checks a tree that no thread works on: all invariants hold, and the number of entries is right.
pub(super) fn is_sound(tree: &dyn AnyTree, entries: &Entries) -> Result<(), String> {
    if let Some(fault) = tree.fault() {
        return Err(format!("a reader came across damage: {fault}"));
    }
    if let Some(broken) = tree.check().violations.first() {
        return Err(format!("check: {broken}"));
    }
    if tree.len() != entries.len() as u64 {
        return Err(format!("len is {} of {} entries", tree.len(), entries.len()));
    }
    Ok(())
}

/// Runs the round of a seed. Returns how many operations it had, or what was wrong.
pub(super) fn run(tree_type: TreeType, seed: u64, threads: usize) -> Result<u64, String> {
    let plan = Plan::new(seed, threads, tree_type);
    let failed = |error: Error| error.to_string();
    let (pool, tree) = opened(tree_type, &plan).map_err(failed)?;
    let (operations, entries) = checked(&plan, seed, &*tree)?;
    // The current entries are still there after a crash, and after closing and opening.
    let crashed = words_of(pool.medium());
    drop(tree);
    let closed = words_of(pool.medium());
    for (words, when) in [(crashed, "after a crash"), (closed, "after closing")] {
        let pool = options(tree_type.bytes).open_on(holding(words, &plan)).map_err(failed)?;
        let tree = tree_type.open(&pool).map_err(failed)?;
        has_kept(&plan, &*tree, &entries, when)?;
    }
    Ok(operations)
}

/// Lets the threads do what is planned, and checks what they saw. Returns how many operations that was, and the entries
/// that are there then.
pub(super) fn checked(plan: &Plan, seed: u64, tree: &dyn AnyTree) -> Result<(u64, Entries), String> {
    let clock = Clock::default();
    let mut calls = work(plan, seed, tree, &clock, &|_| ())?;
    let read = read_all(plan, tree, &clock).map_err(|error| error.to_string())?;
    let entries = entries_of(&read);
    calls.extend(read);
    if let Some(wrong) = check(&plan.keys, &plan.before, &calls, plan.atomic) {
        return Err(wrong);
    }
    is_sound(tree, &entries)?;
    Ok((calls.len() as u64, entries))
}

/// Checks that a tree that was opened again has these entries, and is sound.
pub(super) fn has_kept(plan: &Plan, tree: &dyn AnyTree, entries: &Entries, when: &str) -> Result<(), String> {
    let read = read_all(plan, tree, &Clock::default()).map_err(|error| error.to_string())?;
    let found = entries_of(&read);
    if found != *entries {
        return Err(format!("{when} there is {found:?}, expected {entries:?}"));
    }
    is_sound(tree, &found).map_err(|what| format!("{when}: {what}"))
}

fn opened(tree_type: TreeType, plan: &Plan) -> Result<(Pool<Any>, Box<dyn AnyTree>), Error> {
    let zeros = std::iter::repeat_n(0, capacity(tree_type) as usize / 8);
    let pool = options(tree_type.bytes).create_on(holding(zeros, plan))?;
    let tree = filled(tree_type, &pool, plan)?;
    let words = match plan.opened {
        Opened::New => return Ok((pool, tree)),
        Opened::Closed => {
            drop(tree);
            let closed = Arc::clone(&pool.state.medium);
            drop(pool);
            let mut words = vec![0; closed.accessible() as usize / 8];
            closed.load_words(0, &mut words);
            words
        }
        Opened::Crashed => words_of(pool.medium()),
    };
    let pool = options(tree_type.bytes).open_on(holding(words, plan))?;
    let tree = tree_type.open(&pool)?;
    Ok((pool, tree))
}
