//! Random histories, compared with a map of the standard library.

use super::{Entries, entries, in_memory};
use crate::numbers::Random;
use crate::nv_store::snapshot::Snapshot;
use crate::nv_store::transaction::Transaction;
use crate::nv_store::{Commit, NvStore, Options};
use bristlecone::medium::Dram;
use std::collections::HashMap;

/// What a store should hold.
#[derive(Default)]
struct Model {
    entries: Entries,
    /// Counts changes.
    now: u64,
    /// When each key was changed last.
    changed: HashMap<Vec<u8>, u64>,
}

impl Model {
    fn change(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.now += 1;
        let changed = match value {
            Some(value) => {
                self.entries.insert(key.to_vec(), value.to_vec());
                true
            }
            None => self.entries.remove(key).is_some(),
        };
        if changed {
            self.changed.insert(key.to_vec(), self.now);
        }
    }
}

/// A transaction, and what it should show.
struct Open<'s> {
    transaction: Transaction<'s, Dram>,
    entries: Entries,
    began: u64,
    writes: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

/// A key of up to 40 bytes; many keys begin alike.
fn key(random: &mut Random) -> Vec<u8> {
    let len = [0, 1, 7, 8, 9, 16, 23, 39][random.below(8) as usize];
    let mut key = vec![b'k'; len];
    if random.below(3) > 0 {
        key.push(random.below(6) as u8);
    }
    key
}

fn value(random: &mut Random) -> Vec<u8> {
    let byte = random.word() as u8;
    vec![byte; random.below(90) as usize]
}

fn shown(scan: impl FnOnce(&mut dyn FnMut(&[u8], &[u8]) -> bool)) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    scan(&mut |key, value| {
        all.push((key.to_vec(), value.to_vec()));
        true
    });
    all
}

fn compare_snapshot(snapshot: &Snapshot<'_, Dram>, entries: &Entries, from: &[u8]) {
    let found = shown(|each| snapshot.scan(from, each));
    let expected: Vec<_> = entries.range(from.to_vec()..).map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(snapshot.get(from, <[u8]>::to_vec), entries.get(from).cloned());
}

fn compare_transaction(open: &Open<'_>, from: &[u8]) {
    let found = shown(|each| open.transaction.scan(from, each));
    let expected: Vec<_> =
        open.entries.range(from.to_vec()..).map(|(key, value)| (key.clone(), value.clone())).collect();
    assert_eq!(found, expected);
    assert_eq!(open.transaction.get(from, <[u8]>::to_vec), open.entries.get(from).cloned());
    // It stops when it is told to.
    let mut left = found.len().min(2);
    open.transaction.scan(from, |_, _| {
        left -= 1;
        left > 0
    });
    assert_eq!(left, 0);
}

fn write(open: &mut Open<'_>, key: Vec<u8>, value: Option<Vec<u8>>) {
    match &value {
        Some(value) => {
            open.transaction.put(&key, value);
            open.entries.insert(key.clone(), value.clone());
        }
        None => {
            open.transaction.remove(&key);
            open.entries.remove(&key);
        }
    }
    open.writes.insert(key, value);
}

/// Commits, which should fail if one of its keys has changed since it began.
fn commit(open: Open<'_>, model: &mut Model) -> Commit {
    let is_late = |key: &Vec<u8>| model.changed.get(key).is_some_and(|&changed| changed > open.began);
    let expected = if open.writes.keys().any(is_late) { Commit::Conflict } else { Commit::Done };
    let found = open.transaction.commit().unwrap();
    assert_eq!(found, expected);
    if found == Commit::Done {
        open.writes.iter().for_each(|(key, value)| model.change(key, value.as_deref()));
    }
    found
}

/// Runs random changes, with up to four snapshots and three transactions at the same time.
fn run(store: &NvStore<Dram>, model: &mut Model, random: &mut Random, ends: &mut [usize; 2]) {
    let mut snapshots = Vec::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    for _ in 0..250 {
        let key = key(random);
        match random.below(20) {
            0..6 => {
                let value = value(random);
                store.put(&key, &value).unwrap();
                model.change(&key, Some(&value));
            }
            6..9 => {
                assert_eq!(store.remove(&key).unwrap(), model.entries.contains_key(&key));
                model.change(&key, None);
            }
            9 if snapshots.len() < 4 => snapshots.push((store.snapshot(), model.entries.clone())),
            9 => drop(snapshots.swap_remove(random.below(4) as usize)),
            10 if open.len() < 3 => open.push(Open {
                transaction: store.begin(),
                entries: model.entries.clone(),
                began: model.now,
                writes: HashMap::new(),
            }),
            10..12 => {
                if let Some(open) = open.pop() {
                    ends[usize::from(commit(open, model) == Commit::Conflict)] += 1;
                }
            }
            12 => drop((random.below(9) == 0).then(|| open.pop())),
            13..17 => {
                if let Some(open) = open.last_mut() {
                    let value = (random.below(3) > 0).then(|| value(random));
                    write(open, key, value);
                }
            }
            17 => open.iter().for_each(|open| compare_transaction(open, &key)),
            18 => snapshots.iter().for_each(|(snapshot, entries)| compare_snapshot(snapshot, entries, &key)),
            _ => assert_eq!(store.get(&key, <[u8]>::to_vec), model.entries.get(&key).cloned()),
        }
        if random.below(4) == 0 {
            open.reverse();
        }
    }
    snapshots.iter().for_each(|(snapshot, entries)| compare_snapshot(snapshot, entries, b""));
    assert_eq!(entries(store), model.entries);
}

#[test]
fn a_store_is_a_map_with_snapshots_and_transactions() {
    let mut random = Random::new(0x6e76);
    let mut ends = [0; 2];
    for capacity in [1, 2, 3, 4, 7, 126] {
        for keys in [1, 2, 5] {
            let (options, mut model) = (Options { capacity, keys }, Model::default());
            let mut store = in_memory(options);
            for _ in 0..6 {
                run(&store, &mut model, &mut random, &mut ends);
                // Another process opens it, and what it does not find used it uses again.
                store = NvStore::open(Dram::from_words(store.medium().words()), options).unwrap();
                assert_eq!(entries(&store), model.entries);
            }
            assert!(capacity > 4 || store.leaves.chain().count() > 4);
        }
    }
    assert!(ends[0] > 100 && ends[1] > 100, "{ends:?}");
}

/// Forty times as many blocks are taken as there are.
#[test]
fn what_is_given_back_is_used_again() {
    let store = NvStore::open(Dram::zeroed(1 << 16), Options { capacity: 4, keys: 2 }).unwrap();
    let mut random = Random::new(5);
    for i in 0..20_000_u64 {
        let (key, value) = ([random.below(10) as u8], [i as u8; 50]);
        let change = || match i % 7 {
            0 => store.remove(&key).map(|_| ()),
            1 => {
                let mut transaction = store.begin();
                transaction.put(&key, &value);
                transaction.commit().map(|end| assert_eq!(end, Commit::Done))
            }
            _ => store.put(&key, &value),
        };
        // Readers elsewhere, in tests that run at the same time, keep blocks from being used again for a while.
        while change().is_err() {
            store.arena.pin().flush();
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_full_medium_changes_nothing() {
    let store = NvStore::open(Dram::zeroed(1 << 13), Options { capacity: 4, keys: 2 }).unwrap();
    let mut expected = Entries::new();
    let error = (0..200_u8).find_map(|i| {
        let put = store.put(&[i], &[i; 20]);
        if put.is_ok() {
            expected.insert(vec![i], vec![i; 20]);
        }
        put.err()
    });
    assert!(error.unwrap().to_string().contains("no room"));
    let mut transaction = store.begin();
    (0..200).for_each(|i| transaction.put(&[i], b"new"));
    assert!(transaction.commit().is_err());
    assert_eq!(entries(&store), expected);
}
