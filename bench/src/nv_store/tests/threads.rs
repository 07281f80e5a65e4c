//! Threads that use a store at the same time.

use super::{TINY, in_memory};
use crate::numbers::Random;
use crate::nv_store::snapshot::Snapshot;
use crate::nv_store::{Commit, NvStore};
use bristlecone::medium::Dram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const ACCOUNTS: u64 = 12;
const EACH: u64 = 1000;

fn account(i: u64) -> Vec<u8> {
    format!("account {i:02}").into_bytes()
}

fn number(value: &[u8]) -> u64 {
    u64::from_le_bytes(value.try_into().unwrap())
}

fn with_accounts() -> NvStore<Dram> {
    let store = in_memory(TINY);
    (0..ACCOUNTS).for_each(|i| store.put(&account(i), &EACH.to_le_bytes()).unwrap());
    store
}

/// Moves one from an account to another; true if nobody was in between.
fn transfer(store: &NvStore<Dram>, random: &mut Random) -> bool {
    let [from, to] = [(); 2].map(|()| account(random.below(ACCOUNTS)));
    let mut transaction = store.begin();
    for (key, change) in [(from, u64::MAX), (to, 1)] {
        let old = transaction.get(&key, number).unwrap();
        transaction.put(&key, &old.wrapping_add(change).to_le_bytes());
    }
    transaction.commit().unwrap() == Commit::Done
}

fn sum(snapshot: &Snapshot<'_, Dram>) -> u64 {
    let (mut sum, mut seen) = (0_u64, 0);
    snapshot.scan(b"account", |key, value| {
        if key.len() == account(0).len() {
            (sum, seen) = (sum.wrapping_add(number(value)), seen + 1);
        }
        true
    });
    assert_eq!(seen, ACCOUNTS);
    (0..ACCOUNTS).for_each(|i| sum = sum.wrapping_sub(snapshot.get(&account(i), number).unwrap()));
    assert_eq!(sum, 0, "a scan and lookups show the same");
    (0..ACCOUNTS).map(|i| snapshot.get(&account(i), number).unwrap()).fold(0, u64::wrapping_add)
}

/// Runs three writers, and two readers, which are told when the writers are done.
fn race(writers: impl Fn(u64) + Sync, readers: impl Fn(&AtomicBool) + Sync) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        (0..2).for_each(|_| _ = scope.spawn(|| readers(&done)));
        let writers: Vec<_> = (0..3).map(|i| (i, &writers)).map(|(i, run)| scope.spawn(move || run(i))).collect();
        let ends: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        assert!(ends.iter().all(Result::is_ok), "a writer panicked");
    });
}

#[test]
fn a_snapshot_shows_no_transfer_by_halves() {
    let store = with_accounts();
    race(
        |i| {
            let mut random = Random::new(i);
            for n in 0..1500_u64 {
                transfer(&store, &mut random);
                // Not an account, but in its leaf.
                let other = [account(n % ACCOUNTS).as_slice(), &[b'a' + (n % 7) as u8]].concat();
                store.put(&other, &n.to_le_bytes()).unwrap();
                store.remove(&other).unwrap();
            }
        },
        |done| {
            while !done.load(Ordering::Relaxed) {
                let snapshot = store.snapshot();
                assert_eq!((sum(&snapshot), sum(&snapshot)), (ACCOUNTS * EACH, ACCOUNTS * EACH));
            }
        },
    );
    let again = NvStore::open(Dram::from_words(store.medium().words()), TINY).unwrap();
    assert_eq!(sum(&again.snapshot()), ACCOUNTS * EACH);
}

#[test]
fn no_update_is_lost() {
    let store = with_accounts();
    let add = |i: u64| {
        let mut random = Random::new(i);
        for _ in 0..500 {
            let key = account(random.below(3));
            loop {
                let mut transaction = store.begin();
                let old = transaction.get(&key, number).unwrap();
                transaction.put(&key, &(old + 1).to_le_bytes());
                if transaction.commit().unwrap() == Commit::Done {
                    break;
                }
            }
        }
    };
    race(add, |_| {});
    assert_eq!(sum(&store.snapshot()), ACCOUNTS * EACH + 3 * 500);
}

/// Two keys in different leaves change together. Lookups are not of a snapshot; still, a thread that has seen the new
/// value of the first key does not find the old value of the second.
#[test]
fn a_transaction_shows_everywhere_at_once() {
    let store = with_accounts();
    let [first, second] = [account(0), account(ACCOUNTS - 1)];
    race(
        |i| {
            for n in 0..if i == 0 { 3000 } else { 0 } {
                let mut transaction = store.begin();
                [&first, &second].iter().for_each(|key| transaction.put(key, &(EACH + n).to_le_bytes()));
                assert_eq!(transaction.commit().unwrap(), Commit::Done);
            }
        },
        |done| {
            while !done.load(Ordering::Relaxed) {
                for [one, other] in [[&first, &second], [&second, &first]] {
                    let before = store.get(one, number).unwrap();
                    assert!(before <= store.get(other, number).unwrap());
                }
            }
        },
    );
}

/// What a thread has put it finds, in a lookup and in a snapshot.
#[test]
fn a_change_that_returned_is_seen() {
    let store = in_memory(TINY);
    race(
        |i| {
            for n in 0..1500_u64 {
                let (key, value) = ([i as u8, (n % 50) as u8], n.to_le_bytes());
                store.put(&key, &value).unwrap();
                assert_eq!(store.get(&key, number), Some(n));
                assert_eq!(store.snapshot().get(&key, number), Some(n));
            }
        },
        |done| {
            let mut last = [[0; 50]; 3];
            while !done.load(Ordering::Relaxed) {
                let mut before = None;
                store.scan(b"", |key, value| {
                    let seen = &mut last[usize::from(key[0])][usize::from(key[1])];
                    assert!(*seen <= number(value) && before < Some(key.to_vec()));
                    (*seen, before) = (number(value), Some(key.to_vec()));
                    true
                });
            }
        },
    );
}
