//! Every state that a crash may leave of short histories: an open finds what had returned, and what was under way whole
//! or not at all.

use super::{Entries, TINY, entries};
use crate::cuts::{Bug, Recorder, State};
use crate::numbers::Random;
use crate::nv_store::{Commit, NvStore};
use crate::out::Outcome;
use bristlecone::medium::{Dram, Medium, Step};

/// As many states are tried at a cut of a history whose protocol is named. Where several leaves change, there are more.
const MOST: usize = 400;
/// At a cut of another history.
const SOME: usize = 100;
/// At a cut of an open.
const FEW: usize = 20;

/// Words of the medium.
const WORDS: u64 = 1 << 11;

/// An operation: its writes, in a transaction if there are several.
type Operation = Vec<(u8, Option<u8>)>;

/// A key with a record of its own, more than a line of it for some.
fn key(i: u8) -> Vec<u8> {
    let mut key = vec![b'k'; 8 + usize::from(i % 3) * 30];
    key.extend([b'k', i]);
    if i.is_multiple_of(2) { vec![i] } else { key }
}

fn apply<M: Medium>(store: &NvStore<M>, operation: &Operation) -> Outcome<()> {
    match operation.as_slice() {
        [(i, Some(value))] => store.put(&key(*i), &[*value; 20]),
        [(i, None)] => store.remove(&key(*i)).map(|_| ()),
        writes => {
            let mut transaction = store.begin();
            for &(i, value) in writes {
                match value {
                    Some(value) => transaction.put(&key(i), &[value; 20]),
                    None => transaction.remove(&key(i)),
                }
            }
            transaction.commit().map(|end| assert_eq!(end, Commit::Done))
        }
    }
}

fn follow(entries: &mut Entries, operation: &Operation) {
    for &(i, value) in operation {
        match value {
            Some(value) => _ = entries.insert(key(i), vec![value; 20]),
            None => _ = entries.remove(&key(i)),
        }
    }
}

/// What a history is: operations that are wholly durable, and operations that are cut.
struct History {
    name: String,
    /// Whether the store is created in it.
    is_creation: bool,
    /// States that are tried at each cut.
    limit: usize,
    before: Vec<Operation>,
    cut: Vec<Operation>,
}

fn history(name: &str, before: &[Operation], cut: &[Operation]) -> History {
    History { name: name.to_owned(), is_creation: false, limit: MOST, before: before.to_vec(), cut: cut.to_vec() }
}

fn put(i: u8) -> Operation {
    vec![(i, Some(i))]
}

/// Each protocol, on leaves of three elements.
fn histories() -> Vec<History> {
    let five: Vec<Operation> = [1, 2, 3, 4, 5].map(put).to_vec();
    let many: Vec<Operation> = (0..12).map(put).collect();
    let both = vec![(0, Some(100)), (11, Some(100))];
    let renewing = (0..12).map(|i| (i, Some(i + 100))).collect();
    let mut all = vec![
        History { is_creation: true, ..history("creation", &[], &[put(1)]) },
        history("insert", &[], &[put(1)]),
        history("update", &[put(1)], &[vec![(1, Some(9))]]),
        history("removal", &[put(1), put(2)], &[vec![(1, None)]]),
        history("removal of nothing", &[put(1)], &[vec![(2, None)], put(2)]),
        history("replacement", &[put(1), put(1), put(1)], &[put(2)]),
        history("first split", &[put(1), put(2), put(3)], &[put(4)]),
        history("later splits", &five, &[put(6), put(7), put(8), put(9)]),
        history("transaction in one leaf", &[put(1)], &[vec![(1, Some(7)), (2, Some(7))]]),
        history("transaction in two leaves", &many, std::slice::from_ref(&both)),
        history("two transactions", &many, &[both.clone(), vec![(0, None), (5, Some(50)), (11, None)]]),
        history("change after a transaction", &many, &[both, put(0), put(11), put(0)]),
        History { limit: SOME, ..history("transaction that needs room", &many, &[renewing]) },
    ];
    let mut random = Random::new(0xc7a5);
    for i in 0..12 {
        let mut operation = || {
            let writes = [1, 1, 1, 2, 3][random.below(5) as usize];
            let mut write = || (random.below(12) as u8, (random.below(4) > 0).then(|| random.word() as u8));
            (0..writes).map(|_| write()).collect::<Operation>()
        };
        let before: Vec<Operation> = (0..i).map(|_| operation()).collect();
        let cut: Vec<Operation> = (0..4).map(|_| operation()).collect();
        all.push(History { limit: SOME, ..history(&format!("random history {i}"), &before, &cut) });
    }
    all
}

/// Runs a history, and opens what each crash leaves of it; an error if that is not what it should be. Returns how many
/// states there were.
fn check(history: &History, bug: Option<Bug>) -> Outcome<usize> {
    let mut model = Entries::new();
    let words = if history.is_creation {
        // Only the first line must be zeros.
        let mut random = Random::new(1);
        (0..WORDS).map(|i| if i < 8 { 0 } else { random.word() }).collect()
    } else {
        let store = NvStore::open(Dram::zeroed(WORDS * 8), TINY)?;
        history.before.iter().try_for_each(|operation| apply(&store, operation))?;
        history.before.iter().for_each(|operation| follow(&mut model, operation));
        store.medium().words()
    };
    let recorder = Recorder::new(words, bug);
    let store = NvStore::open(recorder.clone(), TINY)?;
    let mut models = vec![model];
    for operation in &history.cut {
        apply(&store, operation)?;
        recorder.returned();
        let mut next = models[models.len() - 1].clone();
        follow(&mut next, operation);
        models.push(next);
        // What was given back is used again as soon as possible.
        (0..4).for_each(|_| store.arena.pin().flush());
    }
    let mut states = Ok(0);
    recorder.states(history.limit, |State { words, returned, is_within }| {
        let after = usize::from(is_within && returned < history.cut.len());
        add(&mut states, || open(words, &models[returned..=returned + after], bug));
    });
    states
}

/// Adds to a number, unless there was an error.
fn add(sum: &mut Outcome<usize>, more: impl FnOnce() -> Outcome<usize>) {
    if let Ok(old) = sum {
        let old = *old;
        *sum = more().map(|more| old + more);
    }
}

/// Opens what a crash left, which must be one of `expected`, and what a crash leaves of that open, which must be the
/// same.
fn open(words: Vec<u64>, expected: &[Entries], bug: Option<Bug>) -> Outcome<usize> {
    let recorder = Recorder::new(words, bug);
    let found = entries(&NvStore::open(recorder.clone(), TINY)?);
    if !expected.contains(&found) {
        return Err(format!("{found:?}, not one of {expected:?}").into());
    }
    let mut states = Ok(1);
    recorder.states(FEW, |state| add(&mut states, || use_on(state.words, &found)));
    states
}

/// What was opened goes on being a store: nothing that it uses is taken to be free.
fn use_on(words: Vec<u64>, expected: &Entries) -> Outcome<usize> {
    let mut expected = expected.clone();
    let store = NvStore::open(Dram::from_words(words), TINY)?;
    let was = entries(&store) == expected;
    for operation in [put(1), put(6), vec![(3, None)], put(6), vec![(2, Some(1)), (4, None), (10, Some(2))]] {
        apply(&store, &operation)?;
        follow(&mut expected, &operation);
    }
    let again = NvStore::open(Dram::from_words(store.medium().words()), TINY)?;
    let is = entries(&store) == expected && entries(&again) == expected;
    if was && is { Ok(1) } else { Err("another open finds something else".into()) }
}

#[test]
fn every_crash_state_is_before_or_after_an_operation() {
    let check = |history: History| check(&history, None).unwrap_or_else(|error| panic!("{}: {error}", history.name));
    let states: usize = histories().into_iter().map(check).sum();
    assert!(states > 20_000, "{states}");
}

/// Each flush and fence that is left out shows in some state of a history; but for the fence behind the word that leads
/// to new leaves: the next one of the same thread stands in for it. It is for other threads, which append to these
/// leaves.
#[test]
fn every_planted_bug_is_found() {
    const INSERT: &str = "insert";
    const SPLIT: &str = "first split";
    const TRANSACTION: &str = "transaction in two leaves";
    const CREATION: &str = "creation";
    let bugs = [
        // The elements must be durable before their count.
        (INSERT, Bug::Fence(Step::AppendElements)),
        (INSERT, Bug::Flush(Step::AppendElements)),
        (INSERT, Bug::Flush(Step::RecordWrite)),
        (INSERT, Bug::Fence(Step::AppendCount)),
        (INSERT, Bug::Flush(Step::AppendCount)),
        // The new leaves must be durable before the word that leads to them.
        (SPLIT, Bug::Fence(Step::SplitFill)),
        (SPLIT, Bug::Flush(Step::SplitFill)),
        (SPLIT, Bug::Flush(Step::Link)),
        // The slot must be durable before the counts, and these before it is clear; and it is clear before the
        // transaction returns.
        (TRANSACTION, Bug::Fence(Step::AppendElements)),
        (TRANSACTION, Bug::Flush(Step::LogCount)),
        (TRANSACTION, Bug::Fence(Step::AppendCount)),
        (TRANSACTION, Bug::Fence(Step::LogForget)),
        (TRANSACTION, Bug::Flush(Step::LogForget)),
        // Shorter counts must be durable before the slots are clear.
        (TRANSACTION, Bug::Fence(Step::LogUndo)),
        (TRANSACTION, Bug::Flush(Step::LogUndo)),
        // Slots and the first leaf must be durable before the magic word, and that before anything returns.
        (CREATION, Bug::Fence(Step::RootFill)),
        (CREATION, Bug::Flush(Step::RootFill)),
        (CREATION, Bug::Flush(Step::RootCreate)),
    ];
    let histories = histories();
    let is_missed = |&(name, bug): &(&str, Bug)| {
        let mut named = histories.iter().filter(|history| history.name == name);
        named.all(|history| check(history, Some(bug)).is_ok())
    };
    let missed: Vec<_> = bugs.into_iter().filter(is_missed).collect();
    assert_eq!(missed, []);
}
