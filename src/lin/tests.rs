//! Histories made by hand that are not linearizable, and some that only look so; and a few rounds of each kind of tree.

use super::check::{Entries, check};
use super::op::{Answer, Call, Named, Op, Scan, Shown, Way};
use super::*;

use crate::crash::any_tree::Records;
use crate::node::{ByteLeaf, Circular, OneLine};

const KEYS: [u64; 4] = [10, 20, 30, 40];

fn call(thread: usize, (called, returned): (u64, u64), op: Op, answer: Answer) -> Call {
    Call { thread, op, called, returned: Some((returned, answer)) }
}

fn insert(thread: usize, times: (u64, u64), (key, value): (u64, u64), old: Option<u64>) -> Call {
    call(thread, times, Op::Insert(key, value), Answer::Old(old))
}

fn remove(thread: usize, times: (u64, u64), key: u64, old: Option<u64>) -> Call {
    call(thread, times, Op::Remove(key), Answer::Old(old))
}

fn get(thread: usize, times: (u64, u64), key: u64, value: Option<u64>) -> Call {
    call(thread, times, Op::Get(key), Answer::Old(value))
}

/// A range of all keys, in which each entry is shown at its time.
fn range(thread: usize, times: (u64, u64), way: Way, shown: &[(u64, u64, u64)]) -> Call {
    let front = way != Way::Down;
    let shown = shown.iter().map(|&(key, value, at)| Shown { key, value, front, at }).collect();
    let scan = Scan { keys: (0, u64::MAX), way, limit: usize::MAX };
    call(thread, times, Op::Range(scan), Answer::Shown(shown))
}

fn clear(thread: usize, times: (u64, u64)) -> Call {
    call(thread, times, Op::Clear, Answer::Done)
}

fn wrong(calls: &[Call]) -> Option<String> {
    check(&KEYS, &Entries::new(), calls, true)
}

/// Asserts what is wrong with the calls, and how many operations are needed to show it.
#[track_caller]
fn assert_wrong(calls: &[Call], why: &str, operations: usize) {
    let what = wrong(calls).expect("not linearizable");
    assert!(what.contains(why), "{what}");
    assert_eq!(what.matches("\n  thread").count(), operations, "{what}");
}

#[track_caller]
fn assert_right(calls: &[Call]) {
    assert_eq!(wrong(calls), None);
}

#[test]
fn a_stale_read_is_found() {
    let written = [insert(0, (1, 2), (10, 7), None), insert(0, (3, 4), (10, 8), Some(7)), get(1, (0, 9), 20, None)];
    let with = |read| [&written[..], &[read]].concat();
    assert_wrong(&with(get(1, (5, 6), 10, Some(7))), "key 10", 1);
    // The read began before the second value was written.
    assert_right(&with(get(1, (2, 6), 10, Some(7))));
    assert_right(&with(get(1, (2, 6), 10, Some(8))));
}

#[test]
fn a_lost_update_is_found() {
    let lost = [
        insert(0, (1, 2), (10, 7), None),
        insert(1, (3, 6), (10, 8), Some(7)),
        insert(2, (4, 5), (10, 9), Some(7)),
        get(0, (7, 8), 20, None),
    ];
    assert_wrong(&lost, "key 10", 2);
    let mut not_lost = lost;
    not_lost[2].returned = Some((5, Answer::Old(Some(8))));
    assert_right(&not_lost);
}

#[test]
fn a_read_from_nowhere_is_found() {
    assert_wrong(&[insert(0, (1, 2), (10, 7), None), get(1, (3, 4), 10, Some(6))], "0.6 was never written", 1);
    // The value belongs to another key.
    assert_wrong(&[insert(0, (1, 2), (10, 7), None), get(1, (3, 4), 20, Some(7))], "0.7 was never written", 1);
}

#[test]
fn two_readers_that_disagree_are_found() {
    let writers = [insert(0, (1, 10), (10, 7), None), insert(1, (2, 11), (10, 8), Some(7))];
    let seen = |first, second| {
        let reads = [get(2, (3, 4), 10, Some(first)), get(3, (5, 6), 10, Some(second))];
        [&writers[..], &reads].concat()
    };
    assert_right(&seen(7, 8));
    assert_wrong(&seen(8, 7), "key 10", 4);
}

#[test]
fn a_key_that_comes_back_is_found() {
    let gone = [insert(0, (1, 2), (10, 7), None), remove(0, (3, 4), 10, Some(7)), get(1, (5, 6), 10, Some(7))];
    assert_wrong(&gone, "key 10", 1);
}

#[test]
fn a_range_that_misses_is_found() {
    let there = [insert(0, (1, 2), (10, 7), None), insert(0, (3, 4), (20, 8), None)];
    for way in [Way::Up, Way::Down, Way::Both] {
        let with = |shown| [&there[..], &[range(1, (5, 9), way, shown)]].concat();
        assert_wrong(&with(&[(10, 7, 6)]), "key 20", 1);
        assert_wrong(&with(&[(20, 8, 6)]), "key 10", 1);
    }
    // A key that was removed meanwhile may be shown or not.
    let removed = [&there[..], &[remove(0, (6, 8), 10, Some(7))]].concat();
    assert_right(&[&removed[..], &[range(1, (5, 9), Way::Up, &[(20, 8, 7)])]].concat());
    assert_right(&[&removed[..], &[range(1, (5, 9), Way::Up, &[(10, 7, 6), (20, 8, 7)])]].concat());
}

#[test]
fn a_range_that_shows_what_was_not_there_is_found() {
    let gone = [insert(0, (1, 2), (10, 7), None), remove(0, (3, 4), 10, Some(7))];
    assert_wrong(&[&gone[..], &[range(1, (5, 7), Way::Up, &[(10, 7, 6)])]].concat(), "key 10", 1);
    // The key was inserted after the range had passed it.
    let late = [insert(0, (7, 8), (10, 7), None), range(1, (5, 9), Way::Up, &[(10, 7, 6)])];
    assert_wrong(&late, "key 10", 1);
}

#[test]
fn a_range_out_of_order_is_found() {
    let there = [insert(0, (1, 2), (10, 7), None), insert(0, (3, 4), (20, 8), None)];
    let with = |way, shown| [&there[..], &[range(1, (5, 9), way, shown)]].concat();
    assert_wrong(&with(Way::Up, &[(20, 8, 6), (10, 7, 7)]), "out of order", 0);
    assert_wrong(&with(Way::Up, &[(10, 7, 6), (10, 7, 7), (20, 8, 8)]), "out of order, twice", 0);
    assert_wrong(&with(Way::Down, &[(10, 7, 6), (20, 8, 7)]), "out of order", 0);
    assert_right(&with(Way::Down, &[(20, 8, 6), (10, 7, 7)]));
    assert_wrong(&with(Way::Up, &[(10, 7, 6), (15, 7, 7), (20, 8, 8)]), "never was there: 15", 0);
}

#[test]
fn a_clear_in_two_steps_is_found() {
    let there = [insert(0, (1, 2), (10, 7), None), insert(0, (3, 4), (20, 8), None), clear(1, (5, 20))];
    // Each key alone could have been gone at its own time.
    let with = |first, second| [&there[..], &[get(2, (6, 7), 10, first), get(2, (8, 9), 20, second)]].concat();
    assert_wrong(&with(None, Some(8)), "but not on all", 5);
    assert_right(&with(Some(7), None));
    assert_right(&with(None, None));
    let twice = [clear(1, (1, 20)), clear(2, (2, 19))];
    assert_right(&twice);
}

#[test]
fn a_load_into_what_is_not_empty_is_found() {
    let load = |times, answer| call(1, times, Op::Load(vec![(20, 9), (30, 9)]), answer);
    assert_right(&[insert(0, (1, 2), (10, 7), None), load((3, 4), Answer::NotEmpty)]);
    assert_wrong(&[insert(0, (1, 2), (10, 7), None), load((3, 4), Answer::Done)], "key 10", 1);
    assert_wrong(&[insert(0, (3, 4), (10, 7), None), load((1, 2), Answer::NotEmpty)], "but not on all", 1);
    assert_right(&[insert(0, (1, 4), (10, 7), None), load((2, 3), Answer::NotEmpty)]);
}

#[test]
fn a_number_that_there_was_not_is_found() {
    let there = [insert(0, (1, 2), (10, 7), None), insert(1, (5, 9), (20, 8), None), remove(2, (6, 8), 10, Some(7))];
    let len = |times, n| [&there[..], &[call(3, times, Op::Len, Answer::Count(n))]].concat();
    (0..3).for_each(|n| assert_right(&len((3, 10), n)));
    assert_right(&len((3, 4), 1));
    assert_wrong(&len((3, 10), 3), "but not on all", 4);
    assert_wrong(&len((3, 4), 0), "but not on all", 2);
    let huge = [call(3, (1, 2), Op::Len, Answer::Count(u64::MAX))];
    assert_wrong(&huge, "len is 18446744073709551615", 0);
    let is_empty = |times, answer| [&there[..], &[call(3, times, Op::IsEmpty, Answer::Was(answer))]].concat();
    assert_right(&is_empty((3, 10), false));
    assert_right(&is_empty((3, 4), true));
    assert_wrong(&is_empty((3, 4), false), "key 10", 1);
    assert_wrong(&[call(3, (1, 2), Op::IsEmpty, Answer::Was(true))], "but not on all", 1);
}

#[test]
fn what_is_in_flight_at_a_crash_may_have_happened() {
    let in_flight = Call { returned: None, ..insert(0, (3, 4), (10, 8), None) };
    let seen = |value| [insert(0, (1, 2), (10, 7), None), in_flight.clone(), get(1, (5, 6), 10, Some(value))];
    assert_right(&seen(7));
    assert_right(&seen(8));
    // What a reader has seen has happened.
    let taken_back = [&seen(8)[..], &[get(1, (7, 8), 10, Some(7))]].concat();
    assert_wrong(&taken_back, "key 10", 3);
}

/// Some rounds of a kind of tree.
fn rounds<N: Checkable>(index: IndexKind, values: Values, rounds: u64) {
    is_clean(&Campaign { index, values, rounds, ..Campaign::default() }.run::<N>(&|_| ()), rounds);
}

#[track_caller]
fn is_clean(outcome: &Outcome, rounds: u64) {
    if let Some(violation) = outcome.violations.first() {
        panic!("seed {}: {violation}", violation.seed);
    }
    assert_eq!(outcome.rounds, rounds);
}

#[test]
fn trees_are_durably_linearizable() {
    let few = Campaign { rounds: 12, ..Campaign::default() };
    let outcomes = [
        few.durable::<OneLine<7>>(&|_| ()),
        Campaign { index: IndexKind::Persistent, ..few.clone() }.durable::<Circular<4>>(&|_| ()),
        Campaign { values: Values::Records, ..few.clone() }.durable::<OneLine<7>>(&|_| ()),
        Campaign { values: Values::Records, keys: KeyShape::Long, ..few.clone() }.durable::<ByteLeaf<4>>(&|_| ()),
    ];
    for outcome in &outcomes {
        is_clean(outcome, few.rounds);
    }
}

/// The negative control: without the fence before a leaf is unlocked, an acknowledged change is lost.
#[test]
fn a_change_that_is_not_durable_is_found() {
    let outcome = Campaign { rounds: 200, ..Campaign::default() }.durable_control::<OneLine<7>>(&|_| ());
    let [violation, ..] = &outcome.violations[..] else { panic!("not found in {} rounds", outcome.rounds) };
    assert!(violation.what.contains("not linearizable"), "{violation}");
}

/// A pool without room for many of them would refuse some by chance.
#[test]
fn few_records_are_long_whatever_the_keys_and_the_writer() {
    for (first, step) in
        [0, 1, 1000, u64::MAX / 2].into_iter().flat_map(|first| [1, 3, 1 << 32].map(|step| (first, step)))
    {
        for thread in 0..8 {
            for writes in [0, 1, 7] {
                let record = |i: u64| Signed::record(first + i * step, Named::value(thread, 1 + i * writes));
                let long = (0..112).filter(|&i| record(i).len() == record::LONG).count();
                assert!((4..28).contains(&long), "{long} from {first} by {step}, of thread {thread}");
            }
        }
    }
}

#[test]
fn trees_are_linearizable() {
    rounds::<OneLine<7>>(IndexKind::Volatile, Values::Numbers, 10);
    rounds::<OneLine<7>>(IndexKind::Volatile, Values::Records, 6);
    rounds::<OneLine<7>>(IndexKind::FlatFixed, Values::Numbers, 6);
    rounds::<Circular<4>>(IndexKind::Persistent, Values::Numbers, 10);
}

#[test]
fn trees_of_byte_strings_are_linearizable() {
    for keys in [KeyShape::Bytes, KeyShape::Long, KeyShape::Zeros] {
        let few = Campaign { keys, rounds: 5, ..Campaign::default() };
        is_clean(&few.run::<ByteLeaf<4>>(&|_| ()), few.rounds);
        is_clean(&Campaign { values: Values::Records, ..few.clone() }.run::<ByteLeaf<4>>(&|_| ()), few.rounds);
    }
}
