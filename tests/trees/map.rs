//! The typed map: every kind of key and value, records of every length, and the space that they take and give back.

use crate::ending::Ending;
use crate::medium::{Any, holding, words_of, zeroed};
use crate::record_verbs::{all, bytes, sound};
use bristlecone::codec::{Kind, Raw, Refusal, Words};
use bristlecone::medium::{Facts, Layer, Medium, Step};
use bristlecone::{Error, ErrorKind, IndexKind, Key, Map, OneLine, Options, Pool, Result, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

type Small<K, V> = Map<K, V, OneLine<7>, Any>;

fn options() -> Options {
    crate::plain().segment_size(4096)
}

fn pool() -> Pool<Any> {
    options().create_on(zeroed(1 << 20)).unwrap()
}

fn reopen(words: Vec<u64>) -> Pool<Any> {
    options().open_on(holding(words)).unwrap()
}

// Keys and values of every kind.

/// Does everything that a map does with keys, in and out of order, and compares with `BTreeMap`.
fn keys_of<K: for<'k> Key<Form = Words, Borrowed<'k> = K> + Copy + Debug>(keys: &[K]) {
    let pool = pool();
    let map: Small<K, u64> = pool.map_with("m", IndexKind::Volatile).unwrap();
    let mut model = BTreeMap::new();
    for (value, &key) in (0..).zip(keys.iter().rev().chain(keys)) {
        assert_eq!(map.insert(key, value).unwrap(), model.insert(key, value).is_some());
    }
    let same = |map: &Small<K, u64>, model: &BTreeMap<K, u64>| {
        let copied = |(&key, &value): (&K, &u64)| (key, value);
        assert!(all(map).into_iter().eq(model.iter().map(copied)), "{:?}", all(map));
        assert!(map.iter().rev().map(Result::unwrap).eq(model.iter().rev().map(copied)));
        assert!(map.keys(..).eq(model.keys().copied()));
        let mut views = map.iter();
        let viewed = std::iter::from_fn(|| views.next_with(|key, value| (key.decode(), value)));
        assert!(viewed.map(Result::unwrap).eq(model.iter().map(copied)));
        assert_eq!(map.len(), model.len() as u64);
        assert_eq!(map.first_key_value().unwrap(), model.first_key_value().map(copied));
        assert_eq!(map.last_key_value().unwrap(), model.last_key_value().map(copied));
        for &a in keys {
            assert_eq!(map.get(a).unwrap(), model.get(&a).copied());
            assert_eq!(map.contains_key(a), model.contains_key(&a));
            assert!(map.range(a..).map(Result::unwrap).eq(model.range(a..).map(copied)));
            assert!(map.range(..a).rev().map(Result::unwrap).eq(model.range(..a).rev().map(copied)));
            for &b in keys.iter().filter(|&&b| a < b) {
                for range in [
                    (Bound::Included(a), Bound::Included(b)),
                    (Bound::Included(a), Bound::Excluded(b)),
                    (Bound::Excluded(a), Bound::Included(b)),
                    (Bound::Excluded(a), Bound::Excluded(b)),
                ] {
                    assert!(map.range(range).map(Result::unwrap).eq(model.range(range).map(copied)), "{range:?}");
                    assert!(map.keys(range).rev().eq(model.range(range).rev().map(|(&key, _)| key)), "{range:?}");
                }
            }
        }
        sound(map);
    };
    same(&map, &model);
    for &key in keys.iter().step_by(3) {
        assert_eq!(map.remove(key).unwrap(), model.remove(&key).is_some());
        assert!(!map.remove(key).unwrap());
        assert!(!map.update(key, 1).unwrap());
    }
    same(&map, &model);
    drop(map);
    let words = words_of(pool.medium());
    drop(pool);
    same(&reopen(words).map_with("m", IndexKind::Volatile).unwrap(), &model);
}

#[test]
fn every_kind_of_key_keeps_its_order() {
    keys_of(&[0u64, 1, 2, 1 << 63, u64::MAX - 1, u64::MAX]);
    keys_of(&[0u32, 1, 2, 1 << 31, u32::MAX]);
    keys_of(&[0u16, 1, 2, 1 << 15, u16::MAX]);
    keys_of(&[0u8, 1, 2, 128, 255]);
    keys_of(&[i64::MIN, i64::MIN + 1, -2, -1, 0, 1, i64::MAX]);
    keys_of(&[i32::MIN, i32::MIN + 1, -2, -1, 0, 1, i32::MAX]);
    keys_of(&[i16::MIN, -300, -2, -1, 0, 1, i16::MAX]);
    keys_of(&[i8::MIN, -2, -1, 0, 1, i8::MAX]);
    keys_of(&[0usize, 1, 2, usize::MAX]);
    keys_of(&[isize::MIN, -1, 0, 1, isize::MAX]);
    keys_of(&[false, true]);
    keys_of(&[[0; 8], *b"\0\0\0\0\0\0\0a", *b"a\0\0\0\0\0\0\0", *b"aaaaaaaa", *b"b\0\0\0\0\0\0\0", [255; 8]]);
    keys_of(&[(0, 0), (0, 1), (0, u32::MAX), (1, 0), (1, 1), (u32::MAX, 0), (u32::MAX, u32::MAX)]);
    keys_of(&['\0', 'a', 'z', 'é', '\u{d7ff}', '\u{e000}', char::MAX]);
    keys_of(&[[0; 3], *b"\0\0a", *b"a\0\0", *b"aaa", [255; 3]]);
    keys_of(&[None, Some(0u32), Some(1), Some(u32::MAX)]);
    keys_of(&[None, Some((false, i16::MIN)), Some((false, 0)), Some((true, -1))]);
    keys_of(&[(i16::MIN, 0u32), (-1, u32::MAX), (0, 0), (0, 1), (i16::MAX, u32::MAX)]);
    keys_of(&[(0, None, [0; 3]), (0, Some(0), [255; 3]), (0, Some(1), [0; 3]), (255u8, None::<u8>, [0u8; 3])]);
}

#[test]
fn keys_with_a_prefix_are_those_of_a_range() {
    let pool = pool();
    let map: Small<(i16, u8, u32), u64> = pool.map_with("m", IndexKind::Volatile).unwrap();
    assert!(map.prefix((0,)).next().is_none());
    let parts = [i16::MIN, -1, 0, i16::MAX];
    let keys = parts.iter().flat_map(|&a| [0, 1, 255].iter().flat_map(move |&b| [0, 7, u32::MAX].map(|c| (a, b, c))));
    let keys: Vec<_> = keys.collect();
    map.bulk_load(keys.iter().map(|&key| (key, 0))).unwrap();
    let shown = |entries: bristlecone::iter::Entries<'_, (i16, u8, u32), u64, OneLine<7>, Any>| {
        entries.map(|entry| entry.unwrap().0).collect::<Vec<_>>()
    };
    for a in parts.into_iter().chain([-2, 5]) {
        let of_a: Vec<_> = keys.iter().copied().filter(|key| key.0 == a).collect();
        assert_eq!(shown(map.prefix((a,))), of_a);
        assert!(map.prefix((a,)).rev().map(|entry| entry.unwrap().0).eq(of_a.iter().rev().copied()));
        for b in [0, 1, 2, 255] {
            assert!(shown(map.prefix((a, b))).into_iter().eq(of_a.iter().copied().filter(|key| key.1 == b)));
        }
    }
    let codes: Small<[u8; 3], u64> = pool.map_with("codes", IndexKind::Volatile).unwrap();
    for code in [*b"abc", *b"abd", *b"ac\0", [255; 3]] {
        codes.insert(code, 1).unwrap();
    }
    assert_eq!(codes.prefix(b"ab").count(), 2);
    assert_eq!(codes.prefix(&b"\xff"[..]).count(), 1);
    assert_eq!(codes.prefix(b"").count(), 4);
    assert_eq!(codes.prefix(b"abcd").count(), 0);
}

#[test]
fn a_map_is_refused_as_one_of_other_composite_keys() {
    let pool = pool();
    let _map: Small<(u16, Option<[u8; 3]>), String> = pool.map_with("m", IndexKind::Volatile).unwrap();
    let other = pool.map_with::<(u16, u16, u32), Vec<u8>, OneLine<7>>("m", IndexKind::Volatile);
    let Err(Error { kind: ErrorKind::KindMismatch { found, expected, .. }, .. }) = other else { panic!("{other:?}") };
    assert_eq!(found, "(u16, option of [u8; 3]) -> string");
    assert_eq!(expected, "(u16, u16, u32) -> bytes");
    // Keys of the other form lie in other leaves, which tells less than what the keys are.
    let other = pool.map::<String, u64>("m");
    let Err(Error { kind: ErrorKind::KindMismatch { expected, .. }, .. }) = other else { panic!("{other:?}") };
    assert_eq!(expected, "string -> u64");
}

#[test]
fn texts_come_back() {
    let pool = pool();
    let map: Small<u64, String> = pool.map_with("m", IndexKind::Volatile).unwrap();
    for (key, text) in (0..).zip(["", "a", "é\0", &"long ".repeat(500)]) {
        assert!(map.insert_new(key, text).unwrap());
        assert_eq!(map.get(key).unwrap().as_deref(), Some(text));
        assert_eq!(map.get_with(key, str::len).unwrap(), Some(text.len()));
    }
    sound(&map);
    drop(map);
    let words = words_of(pool.medium());
    drop(pool);
    let map: Small<u64, String> = reopen(words).map_with("m", IndexKind::Volatile).unwrap();
    assert_eq!(map.get(2).unwrap().as_deref(), Some("é\0"));
    assert_eq!(map.len(), 4);
    sound(&map);
}

#[test]
fn every_kind_of_inline_value_comes_back() {
    fn values_of<V>(pool: &Pool<Any>, name: &str, values: &[V])
    where
        V: for<'v> Value<Borrowed<'v> = V> + Debug + PartialEq + Copy,
    {
        let map: Small<u64, V> = pool.map_with(name, IndexKind::Volatile).unwrap();
        for (key, &value) in (0..).zip(values) {
            assert!(!map.insert(key, value).unwrap());
            assert_eq!(map.get(key).unwrap(), Some(value));
        }
        for (key, &value) in (0..).zip(values.iter().rev()) {
            assert!(map.update(key, value).unwrap());
        }
        let back: Vec<V> = all(&map).into_iter().map(|(_, value)| value).collect();
        assert!(back.iter().eq(values.iter().rev()), "{back:?}");
        sound(&map);
    }
    let pool = pool();
    values_of(&pool, "u64", &[0u64, 1, u64::MAX]);
    values_of(&pool, "u32", &[0u32, 1, u32::MAX]);
    values_of(&pool, "u16", &[0u16, 1, u16::MAX]);
    values_of(&pool, "u8", &[0u8, 1, u8::MAX]);
    values_of(&pool, "i64", &[i64::MIN, -1, 0, i64::MAX]);
    values_of(&pool, "i32", &[i32::MIN, -1, 0, i32::MAX]);
    values_of(&pool, "i16", &[i16::MIN, -1, 0, i16::MAX]);
    values_of(&pool, "i8", &[i8::MIN, -1, 0, i8::MAX]);
    values_of(&pool, "usize", &[0usize, usize::MAX]);
    values_of(&pool, "isize", &[isize::MIN, isize::MAX]);
    values_of(&pool, "bool", &[false, true, true]);
    values_of(&pool, "[u8; 8]", &[[0; 8], *b"12345678", [255; 8]]);
    values_of(&pool, "(u32, u32)", &[(0, 1), (1, 0), (u32::MAX, u32::MAX)]);
    values_of(&pool, "char", &['\0', 'é', char::MAX]);
    values_of(&pool, "f64", &[0.0, -0.0, f64::MIN, f64::INFINITY, 1e-300]);
    values_of(&pool, "()", &[(), (), ()]);
    let nan: Small<u64, f64> = pool.map_with("f64", IndexKind::Volatile).unwrap();
    nan.insert(9, f64::NAN).unwrap();
    assert!(nan.get(9).unwrap().unwrap().is_nan());
}

#[test]
fn a_set_is_a_map_to_nothing() {
    let pool = pool();
    let set: Map<(u32, u32), (), OneLine<7>, Any> = pool.map_with("set", IndexKind::Persistent).unwrap();
    for a in 0..20 {
        for b in 0..20 {
            assert!(set.insert_new((a, b), ()).unwrap());
            assert!(!set.insert_new((a, b), ()).unwrap());
        }
    }
    assert!(set.keys((7, 3)..(7, 9)).eq((3..9).map(|b| (7, b))));
    assert!(set.keys((7, 0)..=(7, u32::MAX)).eq((0..20).map(|b| (7, b))));
    assert_eq!(set.len(), 400);
    sound(&set);
}

/// The entries of a range of keys, or the message of its panic.
fn ranged(range: impl FnOnce() -> Vec<i32>) -> Result<Vec<i32>, String> {
    catch_unwind(AssertUnwindSafe(range)).map_err(|message| (*message.downcast::<&str>().unwrap()).to_owned())
}

#[test]
fn a_backward_range_panics_as_in_the_standard_library_and_not_of_an_empty_map() {
    use Bound::{Excluded, Included};

    let map: Small<i32, u64> = pool().map_with("m", IndexKind::Volatile).unwrap();
    let mut model = BTreeMap::new();
    let ranges = [
        (Included(8), Excluded(3)),
        (Excluded(1), Included(-1)),
        (Excluded(5), Excluded(5)),
        (Excluded(i32::MAX), Excluded(i32::MAX)),
        (Included(5), Excluded(5)),
        (Excluded(5), Included(5)),
        (Excluded(5), Excluded(6)),
    ];
    let same = |map: &Small<i32, u64>, model: &BTreeMap<i32, u64>| {
        for range in ranges {
            let expected = ranged(|| model.range(range).map(|(&key, _)| key).collect());
            let expected = expected.map_err(|message| message.replace(" in BTreeMap", ""));
            assert_eq!(ranged(|| map.keys(range).collect()), expected, "{range:?}");
            assert_eq!(ranged(|| map.range(range).map(|entry| entry.unwrap().0).collect()), expected, "{range:?}");
        }
    };
    same(&map, &model);
    for key in [-1, 5, i32::MAX] {
        map.insert(key, 0).unwrap();
        model.insert(key, 0);
        same(&map, &model);
    }
    map.clear().unwrap();
    model.clear();
    same(&map, &model);
}

// Records.

/// All lengths around the limits of the size classes and of the segment, and a few large ones.
fn lengths() -> Vec<usize> {
    let classes = [8, 16, 24, 32, 40, 48, 56, 64, 80, 112, 128, 256, 512, 768, 1024, 4096, 8192, 65_536];
    let mut lengths: Vec<usize> = classes.iter().flat_map(|class| class - 8..class + 2).collect();
    lengths.extend(0..30);
    lengths.extend([100_000, 1 << 20, (2 << 20) - 8, 2 << 20]);
    lengths.sort_unstable();
    lengths.dedup();
    lengths.into_iter().step_by(if crate::long() { 1 } else { 3 }).collect()
}

#[test]
#[cfg_attr(miri, ignore)]
fn records_of_every_length_come_back() {
    let sizes = [4096, 2 << 20];
    for segment in sizes {
        let options = crate::plain().segment_size(segment);
        let pool = options.create_on(zeroed(96 << 20)).unwrap();
        let map: Map<u64, Vec<u8>, OneLine<7>, Any> = pool.map_with("m", IndexKind::Volatile).unwrap();
        let lengths = lengths();
        for (key, &len) in (0..).zip(&lengths) {
            assert!(!map.insert(key, &bytes(len, 0)).unwrap());
        }
        let holds = |map: &Map<u64, Vec<u8>, OneLine<7>, Any>, salt: usize| {
            for (key, &len) in (0..).zip(&lengths) {
                assert!(map.get(key).unwrap().unwrap() == bytes(len, salt), "{len} bytes");
            }
            assert!(map.iter().rev().zip(lengths.iter().rev()).all(|(entry, &len)| entry.unwrap().1.len() == len));
            let mut views = map.iter();
            for (key, &len) in (0..).zip(&lengths) {
                let seen = views.next_with(|view, value| view.decode() == key && value == bytes(len, salt));
                assert!(seen.unwrap().unwrap(), "{len} bytes");
            }
            sound(map);
        };
        holds(&map, 0);
        // Each record is replaced by one of another length, and back.
        for (key, &len) in (0..).zip(&lengths) {
            assert!(map.insert(key, &bytes(len / 2 + 1, 1)).unwrap());
            assert!(map.insert(key, &bytes(len, 2)).unwrap());
        }
        holds(&map, 2);
        let in_use = words_of(pool.medium());
        drop(map);
        let closed = words_of(pool.medium());
        drop(pool);
        for words in [in_use, closed] {
            let pool = options.open_on(holding(words)).unwrap();
            let map = pool.map_with("m", IndexKind::Volatile).unwrap();
            holds(&map, 2);
            // All of the space is available again.
            map.clear().unwrap();
            for (key, &len) in (0..).zip(&lengths) {
                map.insert(key, &bytes(len, 3)).unwrap();
            }
            holds(&map, 3);
        }
    }
}

/// A type that makes wrong claims about itself, in safe code.
struct Liar;

impl Value for Liar {
    const KIND: Kind = <Vec<u8> as Value>::KIND;
    type Borrowed<'v> = Raw<&'v [u8]>;
    type View<'v> = Raw<&'v [u8]>;

    fn encode<'v>(value: Self::Borrowed<'v>) -> std::result::Result<Raw<Cow<'v, [u8]>>, Refusal> {
        Ok(match value {
            Raw::Word(word) => word.into(),
            Raw::Bytes(bytes) => bytes.into(),
        })
    }

    fn decode(_: Raw) -> std::result::Result<Self, Refusal> {
        Ok(Self)
    }

    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        encoded
    }
}

#[test]
fn a_type_that_encodes_what_its_kind_does_not_say_is_refused() {
    let pool = pool();
    let liars: Small<u64, Liar> = pool.map_with("m", IndexKind::Volatile).unwrap();
    let honest: Small<u64, Vec<u8>> = pool.map_with("m", IndexKind::Volatile).unwrap();
    for key in 1..9 {
        honest.insert(key, &bytes(50, key as usize)).unwrap();
    }
    // Tries the words that are offsets of records, and all others.
    for word in (0..pool.medium().accessible()).step_by(8) {
        let refused = |result: Result<bool>| {
            assert!(matches!(result, Err(Error { kind: ErrorKind::KindMismatch { .. }, .. })), "{result:?}")
        };
        refused(liars.insert(1, Raw::Word(word)));
        refused(liars.update(1, Raw::Word(word)));
        refused(liars.insert_new(9, Raw::Word(word)));
    }
    assert!(matches!(
        pool.map_with::<u64, Liar, OneLine<7>>("empty", IndexKind::Volatile).unwrap().bulk_load([(1, Raw::Word(8))]),
        Err(Error { kind: ErrorKind::KindMismatch { .. }, .. })
    ));
    (1..9).for_each(|key| assert_eq!(honest.get(key).unwrap().unwrap(), bytes(50, key as usize)));
    assert!(liars.remove(1).unwrap());
    sound(&honest);
}

#[test]
fn a_refused_bulk_load_gives_its_records_back() {
    let pool = pool();
    let map: Small<u64, Vec<u8>> = pool.map_with("m", IndexKind::Volatile).unwrap();
    let value = bytes(3000, 0);
    let mut available = None;
    for round in 0..20 {
        let keys = (0..60).chain([round]);
        let error = map.bulk_load(keys.map(|key| (key, value.as_slice()))).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Unsorted { position: 60 }), "{error}");
        assert!(map.is_empty());
        sound(&map);
        assert_eq!(*available.get_or_insert(pool.stat().available), pool.stat().available);
    }
    map.bulk_load((0..60).map(|key| (key, value.as_slice()))).unwrap();
    sound(&map);
}

/// Opens after an orderly close, and without one.
fn both_ways(pool: &Pool<Any>, map: Small<u64, Vec<u8>>) -> [Vec<u64>; 2] {
    let in_use = words_of(pool.medium());
    drop(map);
    [in_use, words_of(pool.medium())]
}

#[test]
fn replaced_and_removed_records_make_room() {
    let small = options();
    let pool = small.create_on(zeroed(160 << 10)).unwrap();
    let map: Small<u64, Vec<u8>> = pool.map_with("m", IndexKind::Persistent).unwrap();
    let most = crate::part_of(10_000) as usize;
    for n in 0..most {
        map.insert(7, &bytes(n % 5 * 10 + 900, n)).unwrap();
        if n % 2 == 0 {
            map.insert(8, &bytes(20_000 + n % 3, n)).unwrap();
        } else {
            assert!(map.remove(8).unwrap());
        }
    }
    assert_eq!(map.get(7).unwrap().unwrap(), bytes(940, most - 1));
    sound(&map);
    // Opening does not lose space, in either way: the same operations work again and again.
    let mut images = both_ways(&pool, map);
    drop(pool);
    for round in 0..12 {
        let pool = small.open_on(holding(images[round % 2].clone())).unwrap();
        let map: Small<u64, Vec<u8>> = pool.map_with("m", IndexKind::Persistent).unwrap();
        for n in 0..200 {
            map.insert(7, &bytes(n % 5 * 10 + 900, n)).unwrap();
            map.insert(8, &bytes(20_000 + n % 3, n)).unwrap();
        }
        sound(&map);
        images = both_ways(&pool, map);
    }
}

#[test]
fn many_trees_can_be_dropped_and_made_again() {
    let pool = pool();
    let available = pool.stat().available;
    for round in 0..30 {
        for name in ["a", "b", "c"] {
            let map: Small<u64, Vec<u8>> = pool.map_with(name, IndexKind::Volatile).unwrap();
            for key in 0..30 {
                map.insert(key, &bytes(key as usize * 200, round)).unwrap();
            }
            sound(&map);
            assert!(matches!(pool.drop_tree(name), Err(Error { kind: ErrorKind::StillOpen { .. }, .. })));
        }
        for name in ["a", "b", "c"] {
            pool.drop_tree(name).unwrap();
        }
        assert_eq!(pool.stat().available, available, "round {round}");
    }
}

/// Keeps a copy of the whole pool at each fence.
struct Snapshots {
    of: Any,
    on: AtomicBool,
    taken: Mutex<Vec<Vec<u64>>>,
}

impl Layer for Snapshots {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.of
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "snapshots", ..self.below().facts() }
    }

    fn fence(&self, step: Step) {
        self.of.fence(step);
        if self.on.load(Ordering::Relaxed) {
            self.taken.lock().unwrap().push(words_of(&self.of));
        }
    }
}

#[test]
fn a_cut_close_loses_no_space() {
    fn cut<V: Value>(index: IndexKind, value: impl for<'v> Fn(&'v [u8]) -> V::Borrowed<'v>) {
        let snapshots = Arc::new(Snapshots { of: zeroed(1 << 20), on: false.into(), taken: Mutex::default() });
        let pool = options().create_on(Arc::<Snapshots>::clone(&snapshots) as Any).unwrap();
        let map: Small<u64, V> = pool.map_with("m", index).unwrap();
        let content = bytes(5000, 0);
        for key in 0..50 {
            map.insert(key, value(&content)).unwrap();
        }
        let available = pool.stat().available;
        snapshots.on.store(true, Ordering::Relaxed);
        drop(map);
        snapshots.on.store(false, Ordering::Relaxed);
        let images = std::mem::take(&mut *snapshots.taken.lock().unwrap());
        assert!(images.len() >= 2);
        for words in images {
            let pool = reopen(words);
            let map: Small<u64, V> = pool.map_with("m", index).unwrap();
            assert_eq!(map.len(), 50);
            sound(&map);
            assert_eq!(pool.stat().available, available);
        }
    }
    cut::<u64>(IndexKind::Volatile, |bytes| bytes.len() as u64);
    cut::<u64>(IndexKind::Persistent, |bytes| bytes.len() as u64);
    cut::<Vec<u8>>(IndexKind::Volatile, |bytes| bytes);
    cut::<Vec<u8>>(IndexKind::Persistent, |bytes| bytes);
}

#[test]
fn a_record_is_read_whole_while_it_is_replaced() {
    let pool = pool();
    let map: Small<u64, Vec<u8>> = pool.map_with("m", IndexKind::Volatile).unwrap();
    let value = |n: u64| vec![n as u8; [10, 900, 9000, 33][n as usize % 4]];
    map.insert(5, &value(0)).unwrap();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _ending = Ending(&done);
        for _ in 0..3 {
            scope.spawn(|| {
                let mut reads = 0;
                while !done.load(Ordering::Relaxed) || reads == 0 {
                    let whole = |found: Vec<u8>| assert_eq!(found, value(found[0].into()));
                    whole(map.get(5).unwrap().unwrap());
                    for entry in map.range(..) {
                        let (key, found) = entry.unwrap();
                        assert!((4..=6).contains(&key));
                        whole(found);
                    }
                    reads += 1;
                }
            });
        }
        let write = |n: u64| {
            map.insert(5, &value(n % 256))?;
            map.insert(4, &value(n % 7))?;
            map.remove(4)
        };
        let rounds = if cfg!(miri) {
            30
        } else if crate::long() {
            20_000
        } else {
            1000
        };
        (0..rounds).try_for_each(|n| write(n).map(drop)).unwrap();
    });
    sound(&map);
}

#[test]
fn maps_outlive_their_pool_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("maps.pool");
    let open = || crate::plain().capacity(64 << 20).open(&path).unwrap();
    let pool = open();
    let texts: Map<char, Vec<u8>> = pool.map("texts").unwrap();
    let flags: Map<i16, bool> = pool.map("flags").unwrap();
    drop(pool);
    for (n, letter) in ('a'..='z').enumerate() {
        texts.insert(letter, letter.to_string().repeat(n * 1000).as_bytes()).unwrap();
        flags.insert(n as i16 - 13, n % 3 == 0).unwrap();
    }
    drop((texts, flags));
    let pool = open();
    assert!(pool.stat().was_clean);
    assert!(pool.check().unwrap().is_clean());
    let texts: Map<char, Vec<u8>> = pool.map("texts").unwrap();
    let flags: Map<i16, bool> = pool.map("flags").unwrap();
    assert_eq!(texts.get('c').unwrap().unwrap(), b"c".repeat(2000));
    assert_eq!(texts.len(), 26);
    assert!(flags.keys(-3..3).eq(-3..3));
    assert_eq!(flags.get(-13).unwrap(), Some(true));
    let mut trees = pool.trees().unwrap();
    trees.sort_by(|one, other| one.name.cmp(&other.name));
    let kinds: Vec<_> = trees.iter().map(|tree| (&*tree.name, &*tree.keys, &*tree.values)).collect();
    assert_eq!(kinds, [("flags", "i16", "bool"), ("texts", "char", "bytes")]);
}
