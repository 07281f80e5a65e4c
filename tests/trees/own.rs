//! Types of users: values that are built, that are refused, and kinds with names of their own.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::codec::{EncodedKey, Kind, Raw, Refusal};
use bristlecone::medium::{Layer, Medium, Step};
use bristlecone::{ByteLeaf, Error, ErrorGroup, ErrorKind, IndexKind, Key, Map, OneLine, Options, Pool, Result, Value};
use std::borrow::Cow;
use std::error::Error as _;
use std::sync::{Arc, Mutex};

/// Even numbers, in decimal digits that are built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Even(u64);

impl Value for Even {
    const KIND: Kind = Kind::own("even number", <String as Value>::KIND);
    type Borrowed<'v> = Self;
    type View<'v> = &'v str;

    fn encode<'v>(value: Self::Borrowed<'v>) -> std::result::Result<Raw<Cow<'v, [u8]>>, Refusal> {
        if value.0.is_multiple_of(2) { Ok(value.0.to_string().into_bytes().into()) } else { Err("odd".into()) }
    }

    fn decode(stored: Raw) -> std::result::Result<Self, Refusal> {
        let number: u64 = String::from_utf8(stored.bytes())?.parse()?;
        if number.is_multiple_of(2) { Ok(Self(number)) } else { Err("odd".into()) }
    }

    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        String::view(encoded)
    }
}

/// A key with a kind of its own, stored as a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Email(String);

impl Key for Email {
    const KIND: Kind = Kind::own("email", <String as Key>::KIND);
    type Form = <String as Key>::Form;
    type Size = <String as Key>::Size;
    type Borrowed<'k> = &'k str;

    fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
        <String as Key>::encode(key)
    }

    fn decode(bytes: &[u8]) -> Self {
        Self(<String as Key>::decode(bytes))
    }
}

/// A word under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Order(u64);

impl Key for Order {
    const KIND: Kind = Kind::own("order", <u64 as Key>::KIND);
    type Form = <u64 as Key>::Form;
    type Size = <u64 as Key>::Size;
    type Borrowed<'k> = Self;

    fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
        key.0
    }

    fn decode(word: &u64) -> Self {
        Self(*word)
    }
}

fn options() -> Options {
    crate::plain().segment_size(4096)
}

fn pool() -> Pool<Any> {
    options().create_on(zeroed(1 << 20)).unwrap()
}

fn undecodable<T: std::fmt::Debug>(result: Result<T>) {
    let error = result.unwrap_err();
    assert!(error.group() == ErrorGroup::Input && error.source().is_some_and(|source| source.to_string() == "odd"));
    match error.kind {
        ErrorKind::Undecodable { tree, kind, .. } => assert_eq!((&*tree, &*kind), ("even", "even number (string)")),
        other => panic!("{other:?}"),
    }
}

/// Every verb, with keys of either form, of a map whose second of three values is not one of its type.
macro_rules! one_of_three {
    ($key:ty, $leaf:ty, $keys:expr) => {{
        let keys = $keys;
        let pool = pool();
        let map: Map<$key, Even, $leaf, Any> = pool.map("even").unwrap();
        keys.iter().for_each(|&key| assert!(!map.insert(key, Even(20)).unwrap()));
        assert_eq!(map.get(keys[1]).unwrap(), Some(Even(20)));
        assert!(map.check().is_clean());

        let refused = |result: Result<bool>| match result.unwrap_err() {
            Error { kind: ErrorKind::Unencodable { tree, kind, source }, .. } => {
                assert!(tree == "even" || tree == "other");
                assert_eq!((&*kind, &*source.to_string()), ("even number (string)", "odd"));
            }
            other => panic!("{other}"),
        };
        refused(map.insert(keys[0], Even(3)));
        refused(map.update(keys[0], Even(3)));
        let other: Map<$key, Even, $leaf, Any> = pool.map("other").unwrap();
        refused(other.insert_new(keys[0], Even(3)));
        refused(other.bulk_load([(keys[0], Even(2)), (keys[1], Even(3))]).map(|_| true));
        refused(pool.transaction(|tx| tx.insert(&map, keys[0], Even(3))).map(|()| true));
        refused(pool.batch().insert(&map, keys[0], Even(3)).map(|()| true));
        assert!(other.is_empty() && map.get(keys[0]).unwrap() == Some(Even(20)));

        let texts = pool.map_as_stored::<$key, String, $leaf>("even", IndexKind::Volatile).unwrap();
        texts.insert(keys[1], "21").unwrap();
        assert!(texts.check().is_clean());
        undecodable(map.get(keys[1]));
        undecodable(map.multi_get(&keys));
        assert_eq!(map.get_with(keys[1], str::to_owned).unwrap().unwrap(), "21");
        undecodable(map.iter().nth(1).unwrap());
        undecodable(map.iter().rev().nth(1).unwrap());
        assert!(map.iter().nth(2).unwrap().is_ok() && map.keys(..).count() == 3);
        undecodable(pool.transaction(|tx| tx.get(&map, keys[1])));
        undecodable(pool.transaction(|tx| tx.range(&map, ..)?.nth(1).unwrap()));
        let snapshot = pool.snapshot();
        undecodable(snapshot.get(&map, keys[1]));
        undecodable(snapshot.iter(&map).unwrap().nth(1).unwrap());

        let report = map.check();
        let [broken] = &report.violations[..] else { panic!("{report:?}") };
        assert!(broken.invariant.starts_with("V3") && broken.at > 0, "{broken:?}");
        // A check that does not know the type sees whole records.
        assert!(pool.check().unwrap().is_clean());
        assert!(map.remove(keys[1]).unwrap() && map.check().is_clean());
    }};
}

#[test]
fn a_type_may_refuse_values_and_what_is_there() {
    one_of_three!(u64, OneLine, [1, 2, 3]);
    one_of_three!(String, ByteLeaf, ["a", "b", "c"]);
}

fn mismatch<T>(result: Result<T>) -> (String, String) {
    match result.map(drop).unwrap_err().kind {
        ErrorKind::KindMismatch { found, expected, .. } => (found, expected),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_kind_of_ones_own_is_no_other_kind() {
    let pool = pool();
    drop(pool.map::<Email, Even>("m").unwrap());
    drop(pool.map::<(Email, u64), ()>("pairs").unwrap());
    drop(pool.map_with::<Order, u64, OneLine<7>>("words", IndexKind::Persistent).unwrap());
    let again = options().open_on(holding(words_of(pool.medium()))).unwrap();
    for pool in [&pool, &again] {
        let own = "email (string) -> even number (string)";
        let refused = |expected: &str, result| assert_eq!(mismatch(result), (own.to_owned(), expected.to_owned()));
        refused("string -> string", pool.map::<String, String>("m").map(drop));
        refused("email (string) -> string", pool.map::<Email, String>("m").map(drop));
        refused("string -> even number (string)", pool.map::<String, Even>("m").map(drop));
        mismatch(pool.map::<(String, u64), ()>("pairs"));
        mismatch(pool.map_with::<u64, u64, OneLine<7>>("words", IndexKind::Persistent));
        assert!(pool.map::<Email, Even>("m").is_ok() && pool.map::<(Email, u64), ()>("pairs").is_ok());
        assert!(pool.map_with::<Order, u64, OneLine<7>>("words", IndexKind::Persistent).is_ok());
        let trees = pool.trees().unwrap();
        let info = trees.iter().find(|tree| tree.name == "m").unwrap();
        assert_eq!((&*info.keys, &*info.values), ("email (string)", "even number (string)"));
        assert_eq!((&*info.stored_keys, &*info.stored_values), ("string", "string"));
    }
    // The names stay with a tree that is renamed, and go with one that is dropped.
    let tree: Map<Email, Even, _, _> = pool.map("m").unwrap();
    tree.insert("a@b.c", Even(2)).unwrap();
    pool.transaction(|tx| tx.rename_tree("m", "n")).unwrap();
    assert_eq!(mismatch(pool.map::<String, String>("n")).0, "email (string) -> even number (string)");
    drop(tree);
    pool.drop_tree("n").unwrap();
    assert!(pool.map::<String, String>("n").is_ok());
    assert!(matches!(
        pool.map_as_stored::<String, String, ByteLeaf>("none", IndexKind::Volatile),
        Err(Error { kind: ErrorKind::NoSuchTree { .. }, .. })
    ));
}

#[test]
fn who_does_not_know_a_type_checks_copies_and_compacts() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copy) = (dir.path().join("a"), dir.path().join("b"));
    let made = options().open(&path).unwrap();
    let map: Map<Email, Even> = made.map("m").unwrap();
    let words: Map<Order, Even> = made.map("words").unwrap();
    for i in 0..2000 {
        map.insert(&format!("{i:04}@b.c"), Even(2 * i)).unwrap();
        words.insert(Order(i), Even(2 * i)).unwrap();
    }
    (0..2000).filter(|i| i % 10 > 0).for_each(|i| {
        assert!(map.remove(&format!("{i:04}@b.c")).unwrap() && words.remove(Order(i)).unwrap());
    });
    drop((map, words));
    made.close().unwrap();

    let pool = options().open(&path).unwrap();
    let report = pool.check().unwrap();
    assert!(report.is_clean() && report.unchecked.is_empty() && report.entries == 400, "{report:?}");
    let done = pool.compact().unwrap();
    assert!(done.records > 0 && done.skipped.is_empty(), "{done:?}");
    assert_eq!(pool.backup(&copy).unwrap().entries, 400);
    pool.close().unwrap();
    for path in [path, copy] {
        let pool = options().open(path).unwrap();
        let (map, words) = (pool.map::<Email, Even>("m").unwrap(), pool.map::<Order, Even>("words").unwrap());
        let numbers = |value: Result<Even>| value.unwrap().0;
        let expected = || (0..2000).step_by(10).map(|i| 2 * i);
        assert!(map.iter().map(|entry| numbers(entry.map(|(_, value)| value))).eq(expected()));
        assert!(words.iter().map(|entry| numbers(entry.map(|(_, value)| value))).eq(expected()));
        assert!(map.check().is_clean() && words.check().is_clean() && pool.check().unwrap().is_clean());
    }
}

/// The words of the superblock and of the first root entry.
const INCOMPATIBLE: usize = 4;
const ROOT: usize = 8192 / 8;
const NAMES: std::ops::Range<usize> = ROOT + 24..ROOT + 32;

#[test]
fn names_are_in_the_checksum_and_other_pools_are_as_they_were() {
    let made = |own: bool| {
        let pool = pool();
        match own {
            true => drop(pool.map::<Email, Even>("m").unwrap()),
            false => drop(pool.map::<String, String>("m").unwrap()),
        }
        words_of(pool.medium())
    };
    let plain = made(false);
    assert!(plain[INCOMPATIBLE] & 4 == 0 && plain[NAMES].iter().all(|&word| word == 0));
    let own = made(true);
    assert!(own[INCOMPATIBLE] & 4 != 0 && own[NAMES].iter().any(|&word| word != 0));
    // Kinds are as those of the same tree without names, for a program that looks at no more than what is stored.
    assert_eq!(plain[ROOT + 2], own[ROOT + 2]);
    for word in NAMES {
        let mut damaged = own.clone();
        damaged[word] ^= 1 << 7;
        let error = options().open_on(holding(damaged)).and_then(|pool| pool.trees()).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Corrupt { .. }), "{error:?}");
    }
}

/// Memory of which a crash leaves only the lines that were flushed, and all others until it.
struct Lines {
    on: Any,
    /// The lines that were flushed.
    flushed: Mutex<Vec<u64>>,
    /// What there was at each fence: the lines that were flushed, and all stores.
    fences: Mutex<Vec<[Vec<u64>; 2]>>,
}

impl Layer for Lines {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn flush(&self, at: u64, len: u64, step: Step) {
        self.on.flush(at, len, step);
        let mut flushed = self.flushed.lock().unwrap();
        for word in (at & !63..(at + len).next_multiple_of(64)).step_by(8) {
            flushed[word as usize / 8] = self.on.load(word);
        }
    }

    fn fence(&self, step: Step) {
        self.on.fence(step);
        self.fences.lock().unwrap().push([self.flushed.lock().unwrap().clone(), words_of(&self.on)]);
    }
}

/// A crash while a tree is made, over one that had other names, leaves the tree with its names or none.
#[test]
fn a_tree_is_there_with_its_names_or_not_at_all() {
    let old = pool();
    drop(old.map::<Order, Even>("m").unwrap());
    old.drop_tree("m").unwrap();
    // The first own kinds of a pool, and later ones where others were.
    for before in [words_of(pool().medium()), words_of(old.medium())] {
        let flushed = Mutex::new(before.clone());
        let lines = Arc::new(Lines { on: holding(before), flushed, fences: Mutex::default() });
        let made = options().open_on(Arc::clone(&lines) as Any).unwrap();
        drop(made.map::<Email, Even>("m").unwrap());
        let mut seen = [0, 0];
        for image in std::mem::take(&mut *lines.fences.lock().unwrap()).iter().flatten() {
            let needs = image[ROOT] != 0;
            assert!(!needs || image[INCOMPATIBLE] & 4 != 0, "old builds take the tree for a damaged one");
            let again = options().open_on(holding(image.iter().copied())).unwrap();
            let trees = again.trees().unwrap();
            trees.iter().for_each(|tree| assert_eq!(&*tree.values, "even number (string)"));
            seen[trees.len()] += 1;
            assert!(again.map::<Email, Even>("m").unwrap().is_empty() && again.check().unwrap().is_clean());
        }
        assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
    }
}

/// Names that an earlier tree left in an entry are nobody's.
#[test]
fn names_go_with_their_tree() {
    let pool = pool();
    drop(pool.map::<Email, Even>("m").unwrap());
    pool.drop_tree("m").unwrap();
    let texts: Map<String, String, ByteLeaf, Any> = pool.map("m").unwrap();
    texts.insert("a", "b").unwrap();
    drop(pool.map::<Email, Even>("other").unwrap());
    // Names of kinds stay with the tree that the entries are in.
    pool.transaction(|tx| tx.swap_trees("m", "other")).unwrap();
    drop(texts);
    let again = options().open_on(holding(words_of(pool.medium()))).unwrap();
    for pool in [&pool, &again] {
        let texts: Map<String, String, _, _> = pool.map("other").unwrap();
        assert_eq!(texts.get("a").unwrap().as_deref(), Some("b"));
        assert_eq!(mismatch(pool.map::<String, String>("m")).0, "email (string) -> even number (string)");
        assert!(pool.map::<Email, Even>("m").unwrap().is_empty() && pool.check().unwrap().is_clean());
    }
}

/// A kind whose name has as many bytes as it may.
struct Longest;

impl Value for Longest {
    const KIND: Kind = Kind::own("a name of 32 bytes, no more: äx", <u64 as Value>::KIND);
    type Borrowed<'v> = u64;
    type View<'v> = u64;

    fn encode<'v>(value: u64) -> std::result::Result<Raw<Cow<'v, [u8]>>, Refusal> {
        Ok(value.into())
    }

    fn decode(_: Raw) -> std::result::Result<Self, Refusal> {
        Ok(Self)
    }

    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        encoded.word()
    }
}

#[test]
fn a_name_has_up_to_32_bytes_and_no_control_characters() {
    let name = Longest::KIND.name().into_owned();
    assert_eq!(name.len(), 32 + " (u64)".len());
    let pool = pool();
    drop(pool.map::<u64, Longest>("m").unwrap());
    let again = options().open_on(holding(words_of(pool.medium()))).unwrap();
    assert_eq!(again.trees().unwrap()[0].values, name);
    assert!(again.map::<u64, Longest>("m").is_ok());
    let refused = |name: &'static str| {
        assert!(std::panic::catch_unwind(|| Kind::own(name, <u64 as Value>::KIND)).is_err(), "{name:?}");
    };
    ["", "a name of 32 bytes, no more: äxx", "a\0", "a\n", "\u{7f}", "a\u{9b}31m"].into_iter().for_each(refused);
    assert!(std::panic::catch_unwind(|| Kind::own("twice", Longest::KIND)).is_err());
}
