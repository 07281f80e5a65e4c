//! What people expect of an ordered map: the examples of `BTreeMap`'s documentation, written anew, on trees of words,
//! on maps of words and on maps of byte strings. Then what only maps that threads share must do.

use bristlecone::medium::{Dram, Medium};
use bristlecone::{ErrorKind, Map, OneLine, PTree, Pool, Result, Snapshot};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, RefUnwindSafe, UnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

type Any = Arc<dyn Medium>;
type Entry = (u64, u64);

fn options() -> bristlecone::Options {
    crate::plain().segment_size(4096)
}

fn new_pool() -> Pool<Any> {
    options().create_on(Arc::new(Dram::zeroed(4 << 20)) as Any).unwrap()
}

/// The pool as a crash of the process leaves it, or an orderly close if there are no handles.
fn reopened(pool: &Pool<Any>) -> Pool<Any> {
    let mut words = vec![0; pool.medium().accessible() as usize / 8];
    pool.medium().load_words(0, &mut words);
    options().open_on(Arc::new(Dram::from_words(words)) as Any).unwrap()
}

/// An ordered map, of whatever keys and values stand for numbers in their order.
trait Ordered: Clone + Send + Sync + Sized + 'static {
    fn open(pool: &Pool<Any>) -> Self;
    fn get(&self, key: u64) -> Option<u64>;
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>>;
    fn contains_key(&self, key: u64) -> bool;
    /// What `BTreeMap` calls `insert`.
    fn replace(&self, key: u64, value: u64) -> Option<u64>;
    /// What `BTreeMap` calls `remove`.
    fn take(&self, key: u64) -> Option<u64>;
    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Option<u64>;
    fn update_with(&self, key: u64, next: impl FnMut(Option<u64>) -> Option<u64>) -> Option<u64>;
    fn first_key_value(&self) -> Option<Entry>;
    fn last_key_value(&self) -> Option<Entry>;
    fn pop_first(&self) -> Option<Entry>;
    fn pop_last(&self) -> Option<Entry>;
    fn remove_range(&self, keys: Range<u64>) -> u64;
    fn retain(&self, keep: impl FnMut(u64, u64) -> bool) -> u64;
    fn extend(&self, entries: impl IntoIterator<Item = Entry>) -> u64;
    fn insert_batch(&self, entries: &[Entry]) -> u64;
    fn bulk_load(&self, entries: impl IntoIterator<Item = Entry>) -> Result<u64>;
    fn range(&self, keys: Range<u64>) -> Vec<Entry>;
    fn entries(&self) -> Vec<Entry>;
    fn backwards(&self) -> Vec<Entry>;
    /// By value, from both ends in turn; the last entries come first.
    fn owned(self) -> (Vec<Entry>, Vec<Entry>);
    fn keys(&self, keys: Range<u64>) -> Vec<u64>;
    fn values(&self) -> Vec<u64>;
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool;
    fn clear(&self);
    fn memory(&self) -> u64;
    fn compact(&self);
    fn shown(&self) -> String;
    fn seen(&self, snapshot: &Snapshot<Any>) -> Vec<Entry>;
    fn sound(&self);
}

/// From both ends, in turn.
fn in_turn<T>(mut items: impl DoubleEndedIterator<Item = T>) -> (Vec<T>, Vec<T>) {
    let (mut front, mut back) = (Vec::new(), Vec::new());
    while let Some(item) = items.next() {
        front.push(item);
        back.extend(items.next_back());
    }
    (front, back)
}

impl Ordered for PTree<OneLine<7>, Any> {
    fn open(pool: &Pool<Any>) -> Self {
        pool.tree_of("t").unwrap()
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }
    fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
        self.multi_get(keys)
    }
    fn contains_key(&self, key: u64) -> bool {
        self.contains_key(key)
    }
    fn replace(&self, key: u64, value: u64) -> Option<u64> {
        self.insert(key, value).unwrap()
    }
    fn take(&self, key: u64) -> Option<u64> {
        self.remove(key).unwrap()
    }
    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Option<u64> {
        self.compare_exchange(key, current, new).unwrap()
    }
    fn update_with(&self, key: u64, next: impl FnMut(Option<u64>) -> Option<u64>) -> Option<u64> {
        self.update_with(key, next).unwrap()
    }
    fn first_key_value(&self) -> Option<Entry> {
        self.first_key_value()
    }
    fn last_key_value(&self) -> Option<Entry> {
        self.last_key_value()
    }
    fn pop_first(&self) -> Option<Entry> {
        self.pop_first().unwrap()
    }
    fn pop_last(&self) -> Option<Entry> {
        self.pop_last().unwrap()
    }
    fn remove_range(&self, keys: Range<u64>) -> u64 {
        self.remove_range(keys).unwrap()
    }
    fn retain(&self, keep: impl FnMut(u64, u64) -> bool) -> u64 {
        self.retain(keep).unwrap()
    }
    fn extend(&self, entries: impl IntoIterator<Item = Entry>) -> u64 {
        self.extend(entries).unwrap()
    }
    fn insert_batch(&self, entries: &[Entry]) -> u64 {
        self.insert_batch(entries).unwrap()
    }
    fn bulk_load(&self, entries: impl IntoIterator<Item = Entry>) -> Result<u64> {
        self.bulk_load(entries)
    }
    fn range(&self, keys: Range<u64>) -> Vec<Entry> {
        self.range(keys).collect()
    }
    fn entries(&self) -> Vec<Entry> {
        let mut entries = Vec::new();
        for entry in self {
            entries.push(entry);
        }
        entries
    }
    fn backwards(&self) -> Vec<Entry> {
        self.iter().rev().collect()
    }
    fn owned(self) -> (Vec<Entry>, Vec<Entry>) {
        in_turn(self.into_iter())
    }
    fn keys(&self, keys: Range<u64>) -> Vec<u64> {
        self.keys(keys).collect()
    }
    fn values(&self) -> Vec<u64> {
        self.values(..).collect()
    }
    fn len(&self) -> u64 {
        self.len()
    }
    fn is_empty(&self) -> bool {
        self.is_empty()
    }
    fn clear(&self) {
        self.clear().unwrap();
    }
    fn memory(&self) -> u64 {
        self.memory()
    }
    fn compact(&self) {
        self.compact().unwrap();
    }
    fn shown(&self) -> String {
        format!("{self:?}")
    }
    fn seen(&self, snapshot: &Snapshot<Any>) -> Vec<Entry> {
        snapshot.range(self, ..).unwrap().map(Result::unwrap).collect()
    }
    fn sound(&self) {
        let report = self.check();
        assert!(report.is_clean(), "{:?}", report.violations);
        assert!(self.fault().is_none());
    }
}

/// Implements [`Ordered`] for any kind of map.
macro_rules! ordered {
    ($map:ty, $codes:ty, |$key:ident| $lend_key:expr, |$value:ident| $lend_value:expr, |$viewed:ident| $of_view:expr) => {
        impl Ordered for $map {
            fn open(pool: &Pool<Any>) -> Self {
                pool.map("t").unwrap()
            }
            fn get(&self, key: u64) -> Option<u64> {
                let $key = &<$codes>::key(key);
                self.get($lend_key).unwrap().as_ref().map(<$codes>::of_value)
            }
            fn multi_get(&self, keys: &[u64]) -> Vec<Option<u64>> {
                let keys: Vec<_> = keys.iter().map(|&key| <$codes>::key(key)).collect();
                let lent: Vec<_> = keys.iter().map(|$key| $lend_key).collect();
                self.multi_get(&lent).unwrap().iter().map(|value| value.as_ref().map(<$codes>::of_value)).collect()
            }
            fn contains_key(&self, key: u64) -> bool {
                let $key = &<$codes>::key(key);
                self.contains_key($lend_key)
            }
            fn replace(&self, key: u64, value: u64) -> Option<u64> {
                let ($key, $value) = (&<$codes>::key(key), &<$codes>::value(value));
                self.replace($lend_key, $lend_value).unwrap().as_ref().map(<$codes>::of_value)
            }
            fn take(&self, key: u64) -> Option<u64> {
                let $key = &<$codes>::key(key);
                self.take($lend_key).unwrap().as_ref().map(<$codes>::of_value)
            }
            fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Option<u64> {
                let $key = &<$codes>::key(key);
                let (current, new) = (current.map(<$codes>::value), new.map(<$codes>::value));
                let current = current.as_ref().map(|$value| $lend_value);
                let new = new.as_ref().map(|$value| $lend_value);
                self.compare_exchange($lend_key, current, new).unwrap().as_ref().map(<$codes>::of_value)
            }
            fn update_with(&self, key: u64, mut next: impl FnMut(Option<u64>) -> Option<u64>) -> Option<u64> {
                let $key = &<$codes>::key(key);
                let next = |old: Option<_>| next(old.as_ref().map(<$codes>::of_value)).map(<$codes>::value);
                self.update_with($lend_key, next).unwrap().as_ref().map(<$codes>::of_value)
            }
            fn first_key_value(&self) -> Option<Entry> {
                self.first_key_value().unwrap().map(<$codes>::entry)
            }
            fn last_key_value(&self) -> Option<Entry> {
                self.last_key_value().unwrap().map(<$codes>::entry)
            }
            fn pop_first(&self) -> Option<Entry> {
                self.pop_first().unwrap().map(<$codes>::entry)
            }
            fn pop_last(&self) -> Option<Entry> {
                self.pop_last().unwrap().map(<$codes>::entry)
            }
            fn remove_range(&self, keys: Range<u64>) -> u64 {
                let (from, to) = (<$codes>::key(keys.start), <$codes>::key(keys.end));
                let [from, to] = [&from, &to].map(|$key| $lend_key);
                self.remove_range(from..to).unwrap()
            }
            fn retain(&self, mut keep: impl FnMut(u64, u64) -> bool) -> u64 {
                self.retain(|key, $viewed| keep(<$codes>::number(&key.decode()), $of_view)).unwrap()
            }
            fn extend(&self, entries: impl IntoIterator<Item = Entry>) -> u64 {
                self.extend(entries.into_iter().map(|(key, value)| (<$codes>::key(key), <$codes>::value(value))))
                    .unwrap()
            }
            fn insert_batch(&self, entries: &[Entry]) -> u64 {
                let owned: Vec<_> = entries.iter().map(|&(k, v)| (<$codes>::key(k), <$codes>::value(v))).collect();
                let lent: Vec<_> = owned.iter().map(|($key, $value)| ($lend_key, $lend_value)).collect();
                self.insert_batch(&lent).unwrap()
            }
            fn bulk_load(&self, entries: impl IntoIterator<Item = Entry>) -> Result<u64> {
                self.bulk_load(entries.into_iter().map(|(key, value)| (<$codes>::key(key), <$codes>::value(value))))
            }
            fn range(&self, keys: Range<u64>) -> Vec<Entry> {
                let (from, to) = (<$codes>::key(keys.start), <$codes>::key(keys.end));
                let [from, to] = [&from, &to].map(|$key| $lend_key);
                self.range(from..to).map(|entry| <$codes>::entry(entry.unwrap())).collect()
            }
            fn entries(&self) -> Vec<Entry> {
                let mut entries = Vec::new();
                for entry in self {
                    entries.push(<$codes>::entry(entry.unwrap()));
                }
                entries
            }
            fn backwards(&self) -> Vec<Entry> {
                self.iter().rev().map(|entry| <$codes>::entry(entry.unwrap())).collect()
            }
            fn owned(self) -> (Vec<Entry>, Vec<Entry>) {
                in_turn(self.into_iter().map(|entry| <$codes>::entry(entry.unwrap())))
            }
            fn keys(&self, keys: Range<u64>) -> Vec<u64> {
                let (from, to) = (<$codes>::key(keys.start), <$codes>::key(keys.end));
                let [from, to] = [&from, &to].map(|$key| $lend_key);
                self.keys(from..to).map(|key| <$codes>::number(&key)).collect()
            }
            fn values(&self) -> Vec<u64> {
                self.values(..).map(|value| <$codes>::of_value(&value.unwrap())).collect()
            }
            fn len(&self) -> u64 {
                self.len()
            }
            fn is_empty(&self) -> bool {
                self.is_empty()
            }
            fn clear(&self) {
                self.clear().unwrap();
            }
            fn memory(&self) -> u64 {
                self.memory()
            }
            fn compact(&self) {
                self.compact().unwrap();
            }
            fn shown(&self) -> String {
                format!("{self:?}")
            }
            fn seen(&self, snapshot: &Snapshot<Any>) -> Vec<Entry> {
                snapshot.range(self, ..).unwrap().map(|entry| <$codes>::entry(entry.unwrap())).collect()
            }
            fn sound(&self) {
                let report = self.check();
                assert!(report.is_clean(), "{:?}", report.violations);
                assert!(self.fault().is_none());
            }
        }
    };
}

/// Numbers stand for themselves.
struct Numbers;

impl Numbers {
    fn key(number: u64) -> u64 {
        number
    }
    fn number(&key: &u64) -> u64 {
        key
    }
    fn value(number: u64) -> u64 {
        number
    }
    fn of_value(&value: &u64) -> u64 {
        value
    }
    fn entry(entry: Entry) -> Entry {
        entry
    }
}

/// Texts, and byte strings that are longer than what is copied with a leaf.
struct Texts;

impl Texts {
    fn key(number: u64) -> String {
        format!("key {number:020}")
    }
    fn number(key: &str) -> u64 {
        key[4..].parse().unwrap()
    }
    fn value(number: u64) -> Vec<u8> {
        number.to_be_bytes().repeat(1 + number as usize % 40)
    }
    #[expect(clippy::ptr_arg, reason = "it is applied to what options of values hold")]
    fn of_value(value: &Vec<u8>) -> u64 {
        Self::of_view(value)
    }
    fn of_view(value: &[u8]) -> u64 {
        let number = u64::from_be_bytes(value[..8].try_into().unwrap());
        assert_eq!(value, Self::value(number));
        number
    }
    fn entry((key, value): (String, Vec<u8>)) -> Entry {
        (Self::number(&key), Self::of_value(&value))
    }
}

ordered!(Map<u64, u64, OneLine, Any>, Numbers, |key| *key, |value| *value, |value| value);
ordered!(Map<String, Vec<u8>, bristlecone::ByteLeaf, Any>, Texts, |key| key.as_str(), |value| value.as_slice(), |value| {
    Texts::of_view(value)
});

/// Runs each test on a tree of words, on a map of words and on a map of byte strings.
macro_rules! on_all {
    ($($test:ident)*) => {
        mod tree {
            $(#[test] fn $test() { super::$test::<super::PTree<super::OneLine<7>, super::Any>>(); })*
        }
        mod words {
            $(#[test] fn $test() { super::$test::<super::Map<u64, u64, super::OneLine, super::Any>>(); })*
        }
        mod bytes {
            $(#[test] fn $test() {
                super::$test::<super::Map<String, Vec<u8>, bristlecone::ByteLeaf, super::Any>>();
            })*
        }
    };
}

on_all! {
    insert_get_remove first_and_last pops entries_by_update_with extending ranges iteration_both_ways
    lengths_and_clear retaining splitting_off exchanging batches bulk counters closures_that_panic_or_use_the_map
    what_others_change_meanwhile_is_asked_for_again each_entry_is_popped_once streams_outlive_the_handle follows_a_model
    merged_leaves_come_back shows_no_entries
}

fn insert_get_remove<T: Ordered>() {
    let map = T::open(&new_pool());
    assert_eq!(map.replace(37, 1), None);
    assert!(!map.is_empty());
    map.replace(37, 2);
    assert_eq!(map.replace(37, 3), Some(2));
    assert_eq!((map.get(37), map.get(38)), (Some(3), None));
    assert!(map.contains_key(37) && !map.contains_key(38));
    assert_eq!(map.multi_get(&[38, 37]), [None, Some(3)]);
    assert_eq!(map.take(37), Some(3));
    assert_eq!(map.take(37), None);
    map.sound();
}

fn first_and_last<T: Ordered>() {
    let map = T::open(&new_pool());
    assert_eq!((map.first_key_value(), map.last_key_value()), (None, None));
    map.replace(1, 10);
    assert_eq!(map.first_key_value(), map.last_key_value());
    map.replace(2, 20);
    assert_eq!(map.first_key_value(), Some((1, 10)));
    assert_eq!(map.last_key_value(), Some((2, 20)));
}

fn pops<T: Ordered>() {
    let map = T::open(&new_pool());
    assert_eq!((map.pop_first(), map.pop_last()), (None, None));
    map.extend((0..300).map(|n| (n, n + 1)));
    for n in 0..150 {
        assert_eq!(map.pop_first(), Some((n, n + 1)));
        assert_eq!(map.pop_last(), Some((299 - n, 300 - n)));
        assert_eq!(map.len(), 298 - 2 * n);
    }
    assert_eq!((map.pop_first(), map.pop_last()), (None, None));
    map.sound();
}

/// What `entry` is for.
fn entries_by_update_with<T: Ordered>() {
    let map = T::open(&new_pool());
    // or_insert
    assert_eq!(map.update_with(1, |old| Some(old.unwrap_or(12))), None);
    assert_eq!(map.update_with(1, |old| Some(old.unwrap_or(13))), Some(12));
    // and_modify
    assert_eq!(map.update_with(2, |old| old.map(|old| old + 1)), None);
    assert_eq!(map.update_with(1, |old| old.map(|old| old + 1)), Some(12));
    assert_eq!(map.entries(), [(1, 13)]);
    // How often each letter is there.
    let letters = "a short treatise on fungi".bytes().filter(u8::is_ascii_lowercase).map(u64::from);
    for letter in letters {
        map.update_with(letter, |n| Some(n.unwrap_or(0) + 1));
    }
    assert_eq!((map.get(b's'.into()), map.get(b'i'.into()), map.get(b'z'.into())), (Some(2), Some(2), None));
    // remove_entry
    assert_eq!(map.update_with(1, |_| None), Some(13));
    assert_eq!(map.update_with(1, |_| None), None);
    assert!(!map.contains_key(1));
    map.sound();
}

fn extending<T: Ordered>() {
    let (a, b) = (T::open(&new_pool()), T::open(&new_pool()));
    assert_eq!(a.extend([(1, 10), (2, 20), (3, 30)]), 3);
    assert_eq!(b.extend([(3, 33), (4, 40), (5, 50)]), 3);
    // append
    assert_eq!(a.extend(b.entries()), 2);
    assert_eq!(a.entries(), [(1, 10), (2, 20), (3, 33), (4, 40), (5, 50)]);
    // More than one batch, in no order, with keys that come again.
    assert_eq!(a.extend((0..3000).map(|n| (n * 7919 % 1500, n))), 1495);
    assert_eq!((a.len(), a.get(0)), (1500, Some(1500)));
    assert_eq!(a.extend([]), 0);
    // The iterator may use the map.
    assert_eq!(a.extend((0..10).map(|n| (10_000 + n, a.len()))), 10);
    assert_eq!(a.get(10_009), Some(1500));
    a.sound();
}

fn ranges<T: Ordered>() {
    let map = T::open(&new_pool());
    map.extend([(3, 30), (5, 50), (8, 80)]);
    assert_eq!(map.range(4..u64::MAX).first(), Some(&(5, 50)));
    assert_eq!(map.range(3..8), [(3, 30), (5, 50)]);
    assert_eq!(map.keys(4..9), [5, 8]);
    assert!(map.range(6..8).is_empty());
}

fn iteration_both_ways<T: Ordered>() {
    let map = T::open(&new_pool());
    let all: Vec<Entry> = (0..500).map(|n| (n * 3, n)).collect();
    map.extend(all.iter().rev().copied());
    assert_eq!(map.entries(), all);
    assert!(map.values().into_iter().eq(0..500));
    assert!(map.backwards().iter().eq(all.iter().rev()));
    let (front, back) = map.clone().owned();
    assert_eq!((front.len(), back.len()), (250, 250));
    assert!(front.iter().chain(back.iter().rev()).eq(&all));
}

fn lengths_and_clear<T: Ordered>() {
    let map = T::open(&new_pool());
    let empty = map.memory();
    assert!(map.is_empty() && map.len() == 0);
    map.extend((0..5000).map(|n| (n, n)));
    assert!(!map.is_empty() && map.len() == 5000 && map.memory() > empty);
    map.clear();
    assert!(map.is_empty() && map.len() == 0 && map.entries().is_empty());
    map.sound();
}

fn retaining<T: Ordered>() {
    let pool = new_pool();
    let map = T::open(&pool);
    map.extend((0..8).map(|n| (n, n * 10)));
    let mut asked = Vec::new();
    let kept = map.retain(|key, value| {
        asked.push((key, value));
        key % 2 == 0
    });
    assert_eq!(kept, 4);
    assert!(asked.into_iter().eq((0..8).map(|n| (n, n * 10))));
    assert_eq!(map.entries(), [(0, 0), (2, 20), (4, 40), (6, 60)]);
    map.extend((0..2000).map(|n| (n, n)));
    assert_eq!(map.retain(|_, value| value % 100 == 7), 1980);
    assert_eq!(map.len(), 20);
    assert_eq!(map.retain(|_, _| true), 0);
    map.sound();
    assert_eq!(T::open(&reopened(&pool)).entries(), map.entries());
}

fn splitting_off<T: Ordered>() {
    let pool = new_pool();
    let (a, b) = (T::open(&pool), T::open(&new_pool()));
    a.extend((0..1000).map(|n| (n, n)));
    b.extend(a.range(300..u64::MAX));
    assert_eq!(a.remove_range(300..u64::MAX), 700);
    assert!(a.entries().into_iter().eq((0..300).map(|n| (n, n))));
    assert!(b.entries().into_iter().eq((300..1000).map(|n| (n, n))));
    assert_eq!(a.remove_range(100..200), 100);
    assert_eq!(a.remove_range(100..200), 0);
    assert_eq!(a.remove_range(0..u64::MAX), 200);
    assert!(a.is_empty());
    a.sound();
    let crashed = T::open(&reopened(&pool));
    assert!(crashed.is_empty());
    crashed.sound();
}

fn exchanging<T: Ordered>() {
    let map = T::open(&new_pool());
    assert_eq!(map.compare_exchange(1, Some(1), Some(2)), None);
    assert_eq!(map.compare_exchange(1, None, None), None);
    assert!(map.is_empty());
    assert_eq!(map.compare_exchange(1, None, Some(2)), None);
    assert_eq!(map.compare_exchange(1, None, Some(3)), Some(2));
    assert_eq!(map.compare_exchange(1, Some(42), Some(3)), Some(2));
    assert_eq!(map.get(1), Some(2));
    assert_eq!(map.compare_exchange(1, Some(2), Some(42)), Some(2));
    assert_eq!(map.compare_exchange(1, Some(2), None), Some(42));
    assert_eq!(map.compare_exchange(1, Some(42), None), Some(42));
    assert!(map.is_empty());
    map.sound();
}

fn batches<T: Ordered>() {
    let map = T::open(&new_pool());
    assert_eq!(map.insert_batch(&[]), 0);
    assert_eq!(map.insert_batch(&[(3, 1), (1, 2), (3, 3)]), 2);
    assert_eq!(map.entries(), [(1, 2), (3, 3)]);
    let entries: Vec<Entry> = (0..1000).map(|n| (n * 7919 % 1000, n)).collect();
    assert_eq!(map.insert_batch(&entries), 998);
    assert_eq!(map.entries(), entries.iter().copied().collect::<BTreeMap<_, _>>().into_iter().collect::<Vec<_>>());
    map.sound();
}

fn bulk<T: Ordered>() {
    let map = T::open(&new_pool());
    let unsorted = map.bulk_load([(1, 1), (3, 3), (2, 2)]).unwrap_err();
    assert!(matches!(unsorted.kind, ErrorKind::Unsorted { position: 2, .. }));
    assert_eq!(map.bulk_load((0..1000).map(|n| (n, n))).unwrap(), 1000);
    assert!(map.entries().into_iter().eq((0..1000).map(|n| (n, n))));
    map.sound();
}

const THREADS: u64 = 4;

/// No addition is lost, whichever threads meet at a key, and while leaves split and merge around it.
fn counters<T: Ordered>() {
    const EACH: u64 = 2000;
    let pool = new_pool();
    let map = T::open(&pool);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|of| {
                let map = &map;
                scope.spawn(move || {
                    for n in 0..EACH {
                        map.update_with((n + of) % 3 * 100, |old| Some(old.unwrap_or(0) + 1));
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                map.extend((1..100).chain(101..200).map(|key| (key, 7)));
                map.remove_range(1..100);
                map.remove_range(101..200);
            }
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        done.store(true, Ordering::Relaxed);
    });
    let sum = |map: &T| [0, 100, 200].map(|key| map.get(key).unwrap()).iter().sum::<u64>();
    assert_eq!(sum(&map), THREADS * EACH);
    map.sound();
    assert_eq!(sum(&T::open(&reopened(&pool))), THREADS * EACH);
}

fn closures_that_panic_or_use_the_map<T: Ordered>() {
    let map = T::open(&new_pool());
    map.extend((0..200).map(|n| (n, n)));
    let caught = catch_unwind(AssertUnwindSafe(|| map.update_with(7, |_| panic!("on purpose"))));
    assert!(caught.is_err());
    assert_eq!(map.get(7), Some(7));
    let caught = catch_unwind(AssertUnwindSafe(|| map.retain(|key, _| key < 150 || panic!("on purpose"))));
    assert!(caught.is_err());
    let drawn = (500..2000).map(|key| if key < 1900 { (key, key) } else { panic!("on purpose") });
    assert!(catch_unwind(AssertUnwindSafe(|| map.extend(drawn))).is_err());
    assert_eq!(map.len(), 200 + 1024);
    // The closure changes the same key once: then it is called again with that.
    let mut calls = Vec::new();
    let old = map.update_with(7, |old| {
        calls.push(old);
        if calls.len() == 1 {
            map.update_with(7, |old| old.map(|old| old + 100));
        }
        old.map(|old| old + 1)
    });
    assert_eq!((old, map.get(7), calls), (Some(107), Some(108), vec![Some(7), Some(107)]));
    // The closure removes what comes next, and adds what is behind.
    let asked = AtomicU64::new(0);
    map.retain(|key, _| {
        asked.fetch_add(1, Ordering::Relaxed);
        map.remove_range(key + 1..key + 50);
        map.replace(0, 1);
        true
    });
    assert!(asked.into_inner() >= 4 && map.get(0) == Some(1));
    map.sound();
}

/// An entry is removed only with the value that the closure has seen.
fn what_others_change_meanwhile_is_asked_for_again<T: Ordered>() {
    let map = T::open(&new_pool());
    map.extend((0..20).map(|n| (n, n)));
    let mut asked = Vec::new();
    let removed = map.retain(|key, value| {
        if key == 2 && value == 2 {
            map.replace(1, 50);
            map.replace(2, 60);
            map.take(3);
        }
        asked.push((key, value));
        key > 4 || value == 50
    });
    // 0, 2 and 4, of which 2 with its new value; 1 stays with its new value, and 3 was gone.
    assert_eq!((removed, map.get(1), map.get(2), map.len()), (3, Some(50), None, 16));
    assert!(asked.contains(&(1, 50)) && asked.contains(&(2, 60)), "{asked:?}");
    map.sound();
}

fn each_entry_is_popped_once<T: Ordered>() {
    let map = T::open(&new_pool());
    map.extend((0..2000).map(|n| (n, n)));
    let mut all: Vec<Entry> = thread::scope(|scope| {
        let pop = |of: u64| {
            let map = &map;
            let pop = move || if of.is_multiple_of(2) { map.pop_first() } else { map.pop_last() };
            scope.spawn(move || std::iter::from_fn(pop).collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..THREADS).map(pop).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq((0..2000).map(|n| (n, n))));
    assert!(map.is_empty());
    map.sound();
}

fn streams_outlive_the_handle<T: Ordered>() {
    let map = T::open(&new_pool());
    map.extend((0..1000).map(|n| (n, n)));
    let stream = thread::spawn({
        let map = map.clone();
        move || map.owned()
    });
    map.update_with(0, |old| old);
    drop(map);
    let (front, back) = stream.join().unwrap();
    assert!(front.into_iter().chain(back.into_iter().rev()).eq((0..1000).map(|n| (n, n))));
}

/// Leaves that a range has left sparse merge as after single removals, and their space is used again.
fn merged_leaves_come_back<T: Ordered>() {
    let pool = new_pool();
    let map = T::open(&pool);
    map.extend((0..4000).map(|n| (n, n)));
    let mut before = 0;
    for round in 0..8 {
        assert_eq!(map.remove_range(10..3990), 3980);
        assert_eq!(map.entries().len(), 20);
        map.extend((10..3990).map(|n| (n, n)));
        if round == 0 {
            // Leaves are not as full as those that were filled in order.
            before = pool.stat().used;
        }
        assert!(pool.stat().used <= before + before / 4, "round {round}: {} of {before}", pool.stat().used);
    }
    assert_eq!(map.remove_range(10..3990), 3980);
    map.compact();
    assert!(pool.stat().used < before / 2, "{} of {before}", pool.stat().used);
    map.sound();
}

fn shows_no_entries<T: Ordered>() {
    let pool = new_pool();
    let map = T::open(&pool);
    map.extend((0..100).map(|n| (n, n)));
    let shown = map.shown();
    assert!(shown.contains("name: \"t\"") && shown.contains("len: 100") && shown.len() < 120, "{shown}");
}

/// A tree that nobody has counted since a crash is not counted for a line in a log.
#[test]
fn after_a_crash_a_shown_tree_reads_no_leaf() {
    let pool = new_pool();
    let tree = PTree::<OneLine<7>, Any>::open(&pool);
    tree.extend((0..100).map(|n| (n, n))).unwrap();
    let crashed = PTree::<OneLine<7>, Any>::open(&reopened(&pool));
    assert!(!crashed.shown().contains("len"));
    assert_eq!(crashed.len(), 100);
    assert!(crashed.shown().contains("len: 100"));
}

#[derive(Debug, Clone)]
enum Op {
    Fill(u64, u64),
    Put(u64, u64),
    Remove(u64, u64),
    Retain(u64, u64),
    Pop(bool),
    Exchange(u64, Option<u64>, Option<u64>),
    Snapshot,
    Thaw,
    Compact,
    Crash,
}

fn op() -> impl Strategy<Value = Op> {
    let key = || 0..600u64;
    prop_oneof![
        4 => (key(), 1..200u64).prop_map(|(from, n)| Op::Fill(from, n)),
        4 => (key(), any::<u64>()).prop_map(|(key, value)| Op::Put(key, value)),
        4 => (key(), 0..300u64).prop_map(|(from, n)| Op::Remove(from, n)),
        2 => (2..7u64, 0..7u64).prop_map(|(by, rest)| Op::Retain(by, rest)),
        2 => any::<bool>().prop_map(Op::Pop),
        2 => (key(), prop::option::of(0..9u64), prop::option::of(0..9u64)).prop_map(|(k, a, b)| Op::Exchange(k, a, b)),
        2 => Just(Op::Snapshot),
        1 => Just(Op::Thaw),
        1 => Just(Op::Compact),
        1 => Just(Op::Crash),
    ]
}

/// Random histories beside `BTreeMap`, with snapshots open meanwhile, which must not change.
fn follows_a_model<T: Ordered>() {
    let config = ProptestConfig {
        cases: if cfg!(miri) { 1 } else { crate::part_of(48) as u32 },
        failure_persistence: None,
        ..Default::default()
    };
    proptest!(config, |(ops in prop::collection::vec(op(), 0..60))| {
        let mut pool = new_pool();
        let mut map = T::open(&pool);
        let mut model = BTreeMap::new();
        let mut snapshots: Vec<(Snapshot<Any>, Vec<Entry>)> = Vec::new();
        for op in ops {
            let before = model.len();
            match op {
                Op::Fill(from, n) => {
                    let entries = (from..from + n).map(|key| (key, key ^ n));
                    model.extend(entries.clone());
                    prop_assert_eq!(map.extend(entries), (model.len() - before) as u64);
                }
                Op::Put(key, value) => prop_assert_eq!(map.replace(key, value), model.insert(key, value)),
                Op::Remove(from, n) => {
                    model.retain(|key, _| !(from..from + n).contains(key));
                    prop_assert_eq!(map.remove_range(from..from + n), (before - model.len()) as u64);
                }
                Op::Retain(by, rest) => {
                    model.retain(|key, value| (*key ^ *value) % by != rest);
                    let removed = map.retain(|key, value| (key ^ value) % by != rest);
                    prop_assert_eq!(removed, (before - model.len()) as u64);
                }
                Op::Pop(true) => prop_assert_eq!(map.pop_first(), model.pop_first()),
                Op::Pop(false) => prop_assert_eq!(map.pop_last(), model.pop_last()),
                Op::Exchange(key, current, new) => {
                    let old = model.get(&key).copied();
                    if old == current {
                        model.remove(&key);
                        model.extend(new.map(|new| (key, new)));
                    }
                    prop_assert_eq!(map.compare_exchange(key, current, new), old);
                }
                Op::Snapshot => snapshots.push((pool.snapshot(), model.clone().into_iter().collect())),
                Op::Thaw => drop((!snapshots.is_empty()).then(|| snapshots.remove(0))),
                Op::Compact => map.compact(),
                Op::Crash => {
                    snapshots.clear();
                    pool = reopened(&pool);
                    map = T::open(&pool);
                }
            }
            prop_assert_eq!(map.len(), model.len() as u64);
            for (snapshot, then) in &snapshots {
                prop_assert_eq!(&map.seen(snapshot), then);
            }
        }
        prop_assert!(map.entries().into_iter().eq(model.clone()));
        snapshots.clear();
        map.sound();
        let crashed = T::open(&reopened(&pool));
        prop_assert!(crashed.entries().into_iter().eq(model));
        crashed.sound();
    });
}

/// A transaction that has read what a range removes is in conflict.
#[test]
fn a_removed_range_is_a_conflict() {
    let pool = new_pool();
    let map: Map<String, u64, bristlecone::ByteLeaf, Any> = pool.map("m").unwrap();
    map.extend((0..200).map(|n| (format!("{n:04}"), n))).unwrap();
    let mut transaction = pool.begin();
    assert_eq!(transaction.get(&map, "0100").unwrap(), Some(100));
    assert_eq!(map.remove_range("0050".."0150").unwrap(), 100);
    transaction.insert(&map, "new", 1).unwrap();
    assert!(matches!(transaction.commit().unwrap_err().kind, ErrorKind::Conflict));
    let mut transaction = pool.begin();
    assert_eq!(transaction.range(&map, "0050".."0150").unwrap().count(), 0);
    transaction.insert(&map, "new", 1).unwrap();
    transaction.commit().unwrap();
    assert_eq!(map.len(), 101);
}

/// Whichever way entries go that a transaction has passed over; and none is in conflict with what goes elsewhere.
#[test]
fn what_is_removed_from_a_scan_is_a_conflict() {
    let pool = new_pool();
    let map: Map<u64, Vec<u8>, OneLine, Any> = pool.map("m").unwrap();
    let conflicts = |remove: &dyn Fn()| {
        map.extend((0..2000).map(|n| (n, [7; 9]))).unwrap();
        let mut transaction = pool.begin();
        assert_eq!(transaction.range(&map, 500..600).unwrap().count(), 100);
        remove();
        transaction.insert(&map, 5000, b"new").unwrap();
        transaction.commit().is_err_and(|error| matches!(error.kind, ErrorKind::Conflict))
    };
    assert!(conflicts(&|| assert_eq!(map.remove_range(520..530).unwrap(), 10)));
    assert!(conflicts(&|| assert_eq!(map.remove_range(..1000).unwrap(), 1000)));
    assert!(conflicts(&|| assert_eq!(map.retain(|key, _| key.decode() != 550).unwrap(), 1)));
    assert!(conflicts(&|| assert!(map.take(560).unwrap().is_some())));
    assert!(conflicts(&|| assert!(map.update_with(570, |_| None).unwrap().is_some())));
    assert!(!conflicts(&|| assert_eq!(map.remove_range(1500..1600).unwrap(), 100)));
    assert!(map.check().is_clean());
}

/// Values compare by their encodings.
#[test]
fn a_nan_can_be_exchanged() {
    let map: Map<u64, f64, OneLine, Any> = new_pool().map("m").unwrap();
    map.insert(1, f64::NAN).unwrap();
    assert!(map.compare_exchange(1, Some(f64::NAN), Some(0.0)).unwrap().unwrap().is_nan());
    assert_eq!(map.compare_exchange(1, Some(-0.0), Some(1.0)).unwrap(), Some(0.0));
    assert_eq!(map.get(1).unwrap(), Some(0.0));
}

/// An owned iterator keeps no record from being used again, even in a pool that is nearly full.
#[test]
fn an_owned_iterator_that_is_put_aside_keeps_no_space() {
    let pool = options().create_on(Arc::new(Dram::zeroed(1 << 20)) as Any).unwrap();
    let map: Map<u64, Vec<u8>, OneLine, Any> = pool.map("m").unwrap();
    map.extend((0..300).map(|n| (n, [7; 1000]))).unwrap();
    let mut aside = map.clone().into_range(..);
    assert_eq!(aside.next().unwrap().unwrap().0, 0);
    for round in 0..20 {
        for key in 0..300 {
            map.remove(key).unwrap();
            map.insert(key, &[round; 1000]).unwrap();
        }
    }
    assert_eq!(aside.count(), 299);
}

#[test]
fn a_range_that_ends_before_it_starts_panics_as_in_std() {
    let map: Map<String, u64, bristlecone::ByteLeaf, Any> = new_pool().map("m").unwrap();
    assert_eq!(map.remove_range("b".."a").unwrap(), 0);
    map.insert("a", 1).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| map.remove_range("b".."a"))).is_err());
    assert_eq!(map.len(), 1);
}

/// Maps of files can be used after a panic, and be sent to other threads with their iterators.
#[test]
fn types_are_what_threads_need() {
    fn unwind_safe<T: UnwindSafe + RefUnwindSafe>() {}
    fn sent<T: Send + Sync + 'static>() {}
    unwind_safe::<PTree>();
    unwind_safe::<Map<String, Vec<u8>>>();
    sent::<bristlecone::iter::IntoRange<OneLine, bristlecone::medium::Mapped>>();
    sent::<bristlecone::iter::IntoEntries<String, Vec<u8>, bristlecone::ByteLeaf, bristlecone::medium::Mapped>>();
}

/// Keys and values are given borrowed, or as they are.
#[test]
fn entries_are_given_borrowed_or_owned() {
    let pool = new_pool();
    let map: Map<String, Vec<u8>, bristlecone::ByteLeaf, Any> = pool.map("m").unwrap();
    let (key, value) = ("c".to_owned(), vec![3]);
    map.extend([("a", &b"1"[..])]).unwrap();
    map.extend([("b", b"2")]).unwrap();
    map.extend([(&key, &value)]).unwrap();
    map.extend([("d".to_owned(), vec![4])]).unwrap();
    map.insert_batch(&[(key, [5])]).unwrap();
    assert_eq!(map.len(), 4);
    let pairs: Map<(String, u64), String, bristlecone::ByteLeaf, Any> = pool.map("p").unwrap();
    assert_eq!(pairs.bulk_load([(("a", 1), "x".to_owned()), (("a", 2), String::new())]).unwrap(), 2);
    let none: [(&str, &[u8]); 0] = [];
    assert_eq!(map.insert_batch(&none).unwrap(), 0);
}

/// Values of all lengths: in a block, in segments of their own, and empty.
fn of_length(n: u64) -> Vec<u8> {
    vec![n as u8; [0, 7, 40, 300, 1000, 3000, 9000][n as usize % 7]]
}

trait Borrowed {
    type As<'k>: Copy
    where
        Self: 'k;
    fn borrow(&self) -> Self::As<'_>;
}

impl Borrowed for u64 {
    type As<'k> = u64;
    fn borrow(&self) -> u64 {
        *self
    }
}

impl Borrowed for String {
    type As<'k> = &'k str;
    fn borrow(&self) -> &str {
        self
    }
}

/// Changes of each sort, of records of all lengths. Leaves an empty map.
macro_rules! all_sorts {
    ($map:expr, $round:expr, $key:expr) => {{
        let (map, round): (_, u64) = ($map, $round);
        let keys: Vec<_> = (0..60).map($key).collect();
        for (n, key) in (round..).zip(&keys) {
            map.insert(key.borrow(), &of_length(n)).unwrap();
            assert_eq!(map.replace(key.borrow(), &of_length(n + 1)).unwrap(), Some(of_length(n)));
            let old = map.update_with(key.borrow(), |_| Some(of_length(n + 2))).unwrap();
            assert_eq!(old, Some(of_length(n + 1)));
            let (was, new) = (of_length(n + 2), of_length(n + 3));
            assert_eq!(map.compare_exchange(key.borrow(), Some(&new), None).unwrap().as_ref(), Some(&was));
            assert_eq!(map.compare_exchange(key.borrow(), Some(&was), Some(&new)).unwrap(), Some(was));
        }
        assert_eq!(map.extend(keys.iter().map(|key| (key.borrow(), of_length(round)))).unwrap(), 0);
        for key in &keys[..10] {
            assert!(map.take(key.borrow()).unwrap().is_some());
            map.update_with(key.borrow(), |_| Some(of_length(round))).unwrap();
            map.update_with(key.borrow(), |_| None).unwrap();
        }
        assert!(map.pop_first().unwrap().is_some() && map.pop_last().unwrap().is_some());
        let mut asked = 0;
        map.retain(|_, _| {
            asked += 1;
            asked % 3 > 0
        })
        .unwrap();
        map.remove_range(keys[30].borrow()..keys[40].borrow()).unwrap();
        assert_eq!(map.len(), map.iter().count() as u64);
        assert!(map.check().is_clean());
        let left = map.len();
        assert!(left > 0 && map.remove_range(..).unwrap() == left && map.is_empty());
    }};
}

/// No record is forgotten or given back twice, whichever way it is replaced or removed.
#[test]
fn records_come_back() {
    let mut pool = options().create_on(Arc::new(Dram::zeroed(2 << 20)) as Any).unwrap();
    for _ in 0..2 {
        let mut used = Vec::new();
        for round in 0..30 {
            let words: Map<u64, Vec<u8>, OneLine, Any> = pool.map("words").unwrap();
            let texts: Map<String, Vec<u8>, bristlecone::ByteLeaf, Any> = pool.map("texts").unwrap();
            all_sorts!(&words, round, |n: u64| n);
            all_sorts!(&texts, round, |n: u64| format!("{n:04}"));
            used.push(pool.stat().used);
        }
        // Values are as long as seven rounds before.
        assert!((14..30).all(|round| used[round] <= used[round - 7]), "{used:?}");
        assert!(pool.check().unwrap().is_clean());
        pool = reopened(&pool);
    }
}

/// While others insert and compact, entries with the wrong values go, and no other entry does.
#[test]
fn records_are_removed_while_others_write_and_compact() {
    fn run<T: Send + Sync>(pool: &Pool<Any>, map: &T, of: Calls<'_, T>) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let done = &done;
            let of = &of;
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    scope.spawn(move || {
                        for n in 0..crate::part_of(1000) {
                            (of.insert)(map, n % 100 * 2 + thread, n % 7);
                            (of.update)(map, 1000 + n % 3);
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    (of.retain)(map);
                    (of.remove)(map);
                }
            });
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    pool.compact().unwrap();
                    let snapshot = pool.snapshot();
                    (of.seen)(map, &snapshot);
                }
            });
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
    }
    struct Calls<'c, T> {
        insert: &'c (dyn Fn(&T, u64, u64) + Sync),
        update: &'c (dyn Fn(&T, u64) + Sync),
        retain: &'c (dyn Fn(&T) + Sync),
        remove: &'c (dyn Fn(&T) + Sync),
        seen: &'c (dyn Fn(&T, &Snapshot<Any>) + Sync),
    }
    /// One byte more, and as long as a count says.
    fn longer(old: Option<Vec<u8>>) -> Option<Vec<u8>> {
        let count = old.map_or(0, |old| u64::from_ne_bytes(old[..8].try_into().unwrap())) + 1;
        let mut new = count.to_ne_bytes().to_vec();
        new.resize(8 + count as usize * 37 % 900, count as u8);
        Some(new)
    }
    let count = |value: Vec<u8>| u64::from_ne_bytes(value[..8].try_into().unwrap());
    let pool = new_pool();
    let words: Map<u64, Vec<u8>, OneLine, Any> = pool.map("words").unwrap();
    let texts: Map<String, Vec<u8>, bristlecone::ByteLeaf, Any> = pool.map("texts").unwrap();
    run(
        &pool,
        &words,
        Calls {
            insert: &|map, key, n| _ = map.insert(key, &of_length(n)).unwrap(),
            update: &|map, key| drop(map.update_with(key, longer).unwrap()),
            retain: &|map| _ = map.retain(|key, value| key.decode() >= 1000 || value.len() != 40).unwrap(),
            remove: &|map| _ = map.remove_range(20..60).unwrap(),
            seen: &|map, snapshot| assert!(snapshot.iter(map).unwrap().all(|entry| entry.is_ok())),
        },
    );
    run(
        &pool,
        &texts,
        Calls {
            insert: &|map, key, n| _ = map.insert(&format!("{key:04}"), &of_length(n)).unwrap(),
            update: &|map, key| drop(map.update_with(&format!("{key:04}"), longer).unwrap()),
            retain: &|map| _ = map.retain(|key, value| key.as_bytes() >= b"1000" || value.len() != 40).unwrap(),
            remove: &|map| _ = map.remove_range("0020".."0060").unwrap(),
            seen: &|map, snapshot| assert!(snapshot.iter(map).unwrap().all(|entry| entry.is_ok())),
        },
    );
    for pool in [&reopened(&pool), &pool] {
        let words: Map<u64, Vec<u8>, OneLine, Any> = pool.map("words").unwrap();
        let texts: Map<String, Vec<u8>, bristlecone::ByteLeaf, Any> = pool.map("texts").unwrap();
        let sum: u64 = (1000..1003).map(|key| count(words.get(key).unwrap().unwrap())).sum();
        assert_eq!(sum, 2 * crate::part_of(1000));
        let sum: u64 = (1000..1003).map(|key| count(texts.get(&format!("{key:04}")).unwrap().unwrap())).sum();
        assert_eq!(sum, 2 * crate::part_of(1000));
        assert_eq!(words.len(), words.iter().count() as u64);
        assert_eq!(texts.len(), texts.iter().count() as u64);
        assert!(words.check().is_clean() && texts.check().is_clean() && pool.check().unwrap().is_clean());
    }
}

/// Values are replaced as long as one at a time fits, also if they come as a batch.
#[test]
fn a_batch_replaces_values_in_a_pool_that_is_nearly_full() {
    let pool = options().create_on(Arc::new(Dram::zeroed(256 << 10)) as Any).unwrap();
    let map: Map<u64, Vec<u8>, OneLine, Any> = pool.map("m").unwrap();
    let full = (0..).find(|&key| map.insert(key, &[1; 900]).is_err()).unwrap();
    map.remove(full - 1).unwrap();
    map.remove(full - 2).unwrap();
    let keys = 0..full - 2;
    keys.clone().for_each(|key| assert!(map.insert(key, &[2; 900]).unwrap()));
    assert_eq!(map.extend(keys.clone().map(|key| (key, [3; 900]))).unwrap(), 0);
    assert!(keys.clone().all(|key| map.get(key).unwrap().is_some_and(|value| value == [3; 900])));
}

/// An iterator is not asked again once it has ended.
#[test]
fn an_iterator_that_goes_on_after_its_end_is_not_asked() {
    let tree: PTree<OneLine<7>, Any> = new_pool().tree_with("t", bristlecone::IndexKind::Volatile).unwrap();
    let mut next = 0;
    let batches = std::iter::from_fn(|| {
        next += 1;
        (next % 5 > 0).then_some((next, next))
    });
    assert_eq!(tree.extend(batches.take(10_000)).unwrap(), 4);
}

/// A pool that is open for reading only refuses all changes, and says so.
#[test]
fn who_only_reads_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    let pool = crate::plain().capacity(64 << 20).open(&path).unwrap();
    pool.map::<String, Vec<u8>>("texts").unwrap().insert("a", b"1").unwrap();
    pool.tree("words").unwrap().insert(1, 1).unwrap();
    pool.close().unwrap();
    let pool = crate::plain().read_only(true).open(&path).unwrap();
    let (texts, words) = (pool.map::<String, Vec<u8>>("texts").unwrap(), pool.tree("words").unwrap());
    fn refused<T: std::fmt::Debug>(result: Result<T>) {
        assert!(matches!(result.unwrap_err().kind, ErrorKind::ReadOnly { .. }));
    }
    refused(texts.remove_range(..));
    refused(texts.retain(|_, _| false));
    refused(texts.pop_first());
    refused(texts.pop_last());
    refused(texts.take("a"));
    refused(texts.replace("a", b"2"));
    refused(texts.update_with("a", |_| None));
    refused(texts.update_with("a", |_| Some(vec![2])));
    refused(texts.compare_exchange("a", Some(b"1"), None));
    refused(texts.extend([("b", b"2")]));
    refused(texts.insert_batch(&[("b", b"2")]));
    refused(words.remove_range(..));
    refused(words.retain(|_, _| false));
    refused(words.pop_first());
    refused(words.update_with(1, |_| None));
    refused(words.extend([(2, 2)]));
    assert_eq!((texts.get("a").unwrap().as_deref(), words.get(1)), (Some(&b"1"[..]), Some(1)));
}
