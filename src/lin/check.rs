//! What a history must be: linearizable on each key; linearizable as a whole, where operations on all keys promise to
//! be atomic; and in order, where ranges are read. A wrong history is reduced to the smallest part that shows the
//! fault.

use super::explain::{Operation, Timed, explain};
use super::op::{Answer, Call, Does, Expects, Named, OfKey, Op, Step};
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// The entries before the first call.
pub(super) type Entries = BTreeMap<u64, u64>;

/// One operation, restricted to one key.
#[derive(Debug, Clone, Copy)]
struct One {
    call: usize,
    step: Step,
}

impl Operation for One {
    type State = Option<u64>;

    fn apply(&self, state: &Option<u64>) -> Option<Option<u64>> {
        self.step.apply(*state)
    }

    fn reads(&self) -> bool {
        self.step.reads()
    }
}

/// Returns what is wrong with a history, in words; `None` if nothing is. `keys` are all keys that ever existed;
/// `atomic` says that an operation that clears or loads all keys does so at one moment.
pub(super) fn check(keys: &[u64], before: &Entries, calls: &[Call], atomic: bool) -> Option<String> {
    calls.iter().find_map(|call| in_order(call, keys).err()).or_else(|| {
        let wrong = keys.iter().find_map(|&key| of_key(key, before.get(&key).copied(), calls));
        wrong.or_else(|| atomic.then(|| whole(keys, before, calls)).flatten())
    })
}

fn in_order(call: &Call, keys: &[u64]) -> Result<(), String> {
    match (&call.op, call.answer()) {
        (Op::Range(scan), Some(Answer::Shown(shown))) => {
            scan.is_in_order(shown)?;
            match shown.iter().find(|entry| keys.binary_search(&entry.key).is_err()) {
                Some(entry) => Err(format!("a range shows a key that never was there: {}", entry.key)),
                None => Ok(()),
            }
        }
        (Op::Len, Some(&Answer::Count(n))) if n > keys.len() as u64 => {
            Err(format!("len is {n}, with {} keys in all", keys.len()))
        }
        _ => Ok(()),
    }
}

/// What the calls say about a key.
fn history_of(key: u64, calls: &[Call]) -> Vec<Timed<One>> {
    let of_call = |(i, call): (usize, &Call)| {
        let (step, returned) = call.step(key)?;
        Some(Timed { called: call.called, returned, op: One { call: i, step } })
    };
    calls.iter().enumerate().filter_map(of_call).collect()
}

fn of_key(key: u64, before: Option<u64>, calls: &[Call]) -> Option<String> {
    let history = history_of(key, calls);
    let wrong = explain(&[before], &history).err()?;
    let (states, smallest) = smallest(vec![before], history.clone(), wrong);
    let mut text = format!("not linearizable: key {key}\n");
    if let Some(value) = from_nowhere(before, &history) {
        let _ = writeln!(text, "  {} was never written to this key", Named(Some(value)));
    }
    let states: Vec<String> = states.iter().map(|state| Named(*state).to_string()).collect();
    let _ = write!(text, "  before: {}", states.join(" or "));
    for Timed { called, returned, op } in smallest {
        let call = &calls[op.call];
        let until = returned.map_or("crash".to_owned(), |at| at.to_string());
        let _ = write!(text, "\n  thread {} [{called}, {until}] {}", call.thread, OfKey(call, key));
    }
    Some(text)
}

/// A value that was read but never written.
fn from_nowhere(before: Option<u64>, history: &[Timed<One>]) -> Option<u64> {
    let written: HashSet<u64> = history
        .iter()
        .filter_map(|it| match it.op.step.does {
            Does::Set(value) | Does::Exchange(_, value) => value,
            Does::Replace(value) | Does::Add(value) => Some(value),
            Does::Keep => None,
        })
        .chain(before)
        .collect();
    let mut read = history.iter().filter_map(|it| match it.op.step.expects {
        Expects::Is(value) => value,
        _ => None,
    });
    read.find(|value| !written.contains(value))
}

/// The part of a wrong history that shows the fault, with the states in which it may start. Operations without which a
/// right history would remain right are left out.
fn smallest(
    mut states: Vec<Option<u64>>,
    mut history: Vec<Timed<One>>,
    wrong: usize,
) -> (Vec<Option<u64>>, Vec<Timed<One>>) {
    // Later operations explain nothing.
    let end = history[wrong].returned.expect("it returned");
    history.retain(|it| it.called < end);
    history.iter_mut().for_each(|it| it.returned = it.returned.filter(|&at| at <= end));
    // Operations before a moment at which nothing was under way matter only by their outcome.
    let mut starts: Vec<u64> = history.iter().map(|it| it.called).collect();
    starts.sort_unstable_by(|a, b| b.cmp(a));
    let is_quiet = |at: u64| history.iter().all(|it| it.called >= at || it.returned.is_some_and(|end| end < at));
    for start in starts.into_iter().filter(|&at| is_quiet(at)) {
        let (earlier, later): (Vec<_>, Vec<_>) = history.iter().cloned().partition(|it| it.called < start);
        if let Ok(ends) = explain(&states, &earlier)
            && explain(&ends, &later).is_err()
        {
            (states, history) = (ends, later);
            break;
        }
    }
    let mut i = 0;
    while i < history.len() {
        match without(&history, i).filter(|less| explain(&states, less).is_err()) {
            Some(less) => history = less,
            None => i += 1,
        }
    }
    history.sort_by_key(|it| it.called);
    (states, history)
}

/// The history without one operation, which is right if the whole history is right; `None` if that is not certain.
fn without(history: &[Timed<One>], i: usize) -> Option<Vec<Timed<One>>> {
    let mut less = history.to_vec();
    let step = less.remove(i).op.step;
    if step.reads() {
        return Some(less);
    }
    // Without the operation, the value that a read saw is unknown. An operation may also depend on whether there was a
    // value at all.
    let Does::Set(Some(value)) = step.does else { return None };
    for Step { expects, does } in less.iter_mut().map(|it| &mut it.op.step) {
        match (*expects, *does) {
            (Expects::Present(_), _) | (_, Does::Exchange(..) | Does::Replace(_) | Does::Add(_)) => return None,
            (Expects::Is(Some(seen)), _) if seen == value => *expects = Expects::Anything,
            _ => {}
        }
    }
    less.retain(|it| it.op.step.expects != Expects::Anything || !it.op.step.reads());
    Some(less)
}

/// One operation at one moment, with all keys that it affects.
struct All<'a> {
    call: &'a Call,
    /// Positions of keys, with what the operation says about each.
    steps: Vec<(usize, Step)>,
}

impl Operation for All<'_> {
    type State = Vec<Option<u64>>;

    fn apply(&self, state: &Self::State) -> Option<Self::State> {
        let entries = || state.iter().flatten().count() as u64;
        let fits = match (&self.call.op, self.call.answer()) {
            (Op::Load(_), Some(Answer::NotEmpty)) | (Op::IsEmpty, Some(Answer::Was(true))) => entries() > 0,
            (Op::Load(_), None) => entries() == 0,
            (Op::Len, Some(&Answer::Count(n))) => entries() == n,
            _ => true,
        };
        if !fits {
            return None;
        }
        let mut state = state.clone();
        for &(i, step) in &self.steps {
            state[i] = step.apply(state[i])?;
        }
        Some(state)
    }

    fn reads(&self) -> bool {
        self.steps.iter().all(|(_, step)| step.reads())
    }
}

/// The history of all these keys. A transaction, `clear` and `bulk_load` are one operation at one moment, and `len` and
/// `is_empty` describe the keys at one moment; every other operation concerns each key alone.
fn history_of_all<'a>(keys: &[u64], calls: &'a [Call]) -> Vec<Timed<All<'a>>> {
    let mut history = Vec::new();
    for call in calls {
        let steps =
            keys.iter().enumerate().filter_map(|(i, &key)| call.step(key).map(|(step, until)| (i, step, until)));
        match call.op {
            Op::Transaction(_) | Op::Clear | Op::Load(_) | Op::Len | Op::IsEmpty => {
                let steps: Vec<_> = steps.map(|(i, step, _)| (i, step)).collect();
                let returned = call.returned.as_ref().map(|(at, _)| *at);
                history.push(Timed { called: call.called, returned, op: All { call, steps } });
            }
            _ => history.extend(steps.map(|(i, step, returned)| Timed {
                called: call.called,
                returned,
                op: All { call, steps: vec![(i, step)] },
            })),
        }
    }
    history
}

fn whole(keys: &[u64], before: &Entries, calls: &[Call]) -> Option<String> {
    let wrong = |keys: &[u64], calls: &[Call]| {
        let start: Vec<Option<u64>> = keys.iter().map(|key| before.get(key).copied()).collect();
        let history = history_of_all(keys, calls);
        explain(&[start], &history).err().map(|i| history[i].returned.expect("it returned"))
    };
    wrong(keys, calls)?;
    // With fewer keys: two are enough for most histories. The number of keys is known only for all keys together.
    let some: Vec<Call> = calls.iter().filter(|call| !of_all(call)).cloned().collect();
    let pairs = keys.iter().enumerate().flat_map(|(i, &key)| keys[i + 1..].iter().map(move |&other| [key, other]));
    let (keys, mut calls) = match pairs.into_iter().find(|pair| wrong(pair, &some).is_some()) {
        Some(pair) => (pair.to_vec(), some),
        None => (keys.to_vec(), calls.to_vec()),
    };
    let end = wrong(&keys, &calls)?;
    let of_keys = |call: &Call| keys.iter().any(|&key| call.step(key).is_some()) || of_all(call);
    calls.retain(|call| call.called < end && of_keys(call));
    for call in &mut calls {
        // Under way when the fault appeared: then a read says nothing, and a change took place or not.
        if call.returned.as_ref().is_some_and(|(at, _)| *at > end) {
            call.returned = None;
        }
    }
    let mut i = 0;
    while i < calls.len() {
        let reads = keys.iter().all(|&key| call_reads(&calls[i], key));
        let less: Vec<Call> = calls[..i].iter().chain(&calls[i + 1..]).cloned().collect();
        if reads && wrong(&keys, &less).is_some() { calls = less } else { i += 1 }
    }
    calls.sort_by_key(|call| call.called);
    let mut text = format!("linearizable on each key, but not on all: keys {keys:?}\n  before:");
    for key in &keys {
        let _ = write!(text, " {key}: {}", Named(before.get(key).copied()));
    }
    for call in &calls {
        let until = call.returned.as_ref().map_or("crash".to_owned(), |(at, _)| at.to_string());
        let _ = write!(text, "\n  thread {} [{}, {until}]", call.thread, call.called);
        for &key in keys.iter().filter(|&&key| call.step(key).is_some() || of_all(call)) {
            let _ = write!(text, " {}", OfKey(call, key));
        }
    }
    Some(text)
}

/// Whether the call says how many keys there were, or that there were any.
fn of_all(call: &Call) -> bool {
    matches!(call.op, Op::Len | Op::IsEmpty) || call.answer() == Some(&Answer::NotEmpty)
}

fn call_reads(call: &Call, key: u64) -> bool {
    call.step(key).is_none_or(|(step, _)| step.reads())
}
