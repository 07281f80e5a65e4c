//! Values that serde knows, as bytes of postcard.

use bristlecone::{ErrorKind, IndexKind, Map, OneLine, Pool, Postcard};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Old {
    name: String,
    tags: BTreeMap<String, Option<i64>>,
}

/// A field more.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct New {
    name: String,
    tags: BTreeMap<String, Option<i64>>,
    age: u32,
}

/// Whose length nobody knows before it ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Flat {
    #[serde(flatten)]
    tags: BTreeMap<String, i64>,
}

fn pool() -> (tempfile::TempDir, Pool) {
    let dir = tempfile::tempdir().unwrap();
    let pool = crate::plain().capacity(64 << 20).open(dir.path().join("a")).unwrap();
    (dir, pool)
}

fn old(n: i64) -> Old {
    Old { name: format!("name {n}"), tags: [("a".to_owned(), Some(n)), ("b".to_owned(), None)].into() }
}

#[test]
fn values_come_back_as_they_were() {
    let (_dir, pool) = pool();
    let map: Map<u64, Postcard<Old>> = pool.map("m").unwrap();
    let texts: Map<String, Postcard<Old>> = pool.map("texts").unwrap();
    for n in 0..100 {
        assert!(!map.insert(n as u64, &old(n)).unwrap());
        assert!(!texts.insert(&format!("{n:03}"), &old(n)).unwrap());
    }
    assert!(map.iter().map(|entry| entry.unwrap().1.0).eq((0..100).map(old)));
    assert!(texts.iter().rev().map(|entry| entry.unwrap().1.0).eq((0..100).rev().map(old)));
    let name = map.get_with(7, |view| view.decode_as::<(&str, BTreeMap<&str, Option<i64>>)>().unwrap().0.len());
    assert_eq!(name.unwrap(), Some("name 7".len()));
    let mut entries = texts.iter();
    assert_eq!(entries.next_with(|_, view| view.decode().unwrap()).unwrap().unwrap(), old(0));
    assert!(map.check().is_clean() && texts.check().is_clean() && pool.check().unwrap().is_clean());
}

#[test]
fn another_form_is_refused_where_it_can_be_told() {
    let (_dir, pool) = pool();
    let map: Map<u64, Postcard<Old>> = pool.map("m").unwrap();
    map.insert(7, &old(7)).unwrap();
    let refused = |error: bristlecone::Error| {
        assert!(matches!(&error.kind, ErrorKind::Undecodable { tree, .. } if tree == "m"), "{error}");
        error.to_string()
    };
    // Too few bytes, and too many.
    refused(pool.map::<u64, Postcard<New>>("m").unwrap().get(7).unwrap_err());
    let left = refused(pool.map::<u64, Postcard<String>>("m").unwrap().get(7).unwrap_err());
    assert!(left.ends_with("cannot be decoded as postcard (bytes): 8 bytes are left over"), "{left}");
    assert_eq!(pool.map::<u64, Postcard<New>>("m").unwrap().check().violations.len(), 1);
    // It is a kind of its own, and bytes for a map that asks only for what is stored.
    let other = pool.map::<u64, Vec<u8>>("m").unwrap_err().to_string();
    assert!(other.ends_with("holds u64 -> postcard (bytes), asked for u64 -> bytes"), "{other}");
    let bytes: Map<u64, Vec<u8>> = pool.map_as_stored::<_, _, OneLine>("m", IndexKind::Volatile).unwrap();
    assert!(bytes.get(7).unwrap().unwrap().starts_with(b"\x06name 7"));
}

#[test]
fn what_cannot_be_encoded_changes_nothing() {
    let (_dir, pool) = pool();
    let map: Map<u64, Postcard<Flat>> = pool.map("m").unwrap();
    let error = map.insert(7, &Flat { tags: [("a".to_owned(), 1)].into() }).unwrap_err();
    assert!(matches!(&error.kind, ErrorKind::Unencodable { tree, .. } if tree == "m"), "{error}");
    assert!(map.is_empty() && pool.check().unwrap().is_clean());
}

#[test]
fn exchanges_read_before_they_write() {
    let (_dir, pool) = pool();
    let map: Map<u64, Postcard<Old>> = pool.map("m").unwrap();
    assert!(map.update_with(7, |value| value.or(Some(Postcard(old(7))))).unwrap().is_none());
    assert!(map.compare_exchange(7, Some(&old(7)), Some(&old(8))).unwrap().is_some_and(|was| was.0 == old(7)));
    assert!(map.replace(7, &old(9)).unwrap().is_some_and(|was| was.0 == old(8)));
    let refused = |error: bristlecone::Error| assert!(matches!(&error.kind, ErrorKind::Undecodable { .. }), "{error}");
    let newer: Map<u64, Postcard<New>> = pool.map("m").unwrap();
    refused(newer.update_with(7, |_| unreachable!("there is a value that cannot be read")).unwrap_err());
    refused(newer.iter().next().unwrap().unwrap_err());
    refused(newer.values(..).next().unwrap().unwrap_err());
    assert!(map.get(7).unwrap().is_some_and(|value| value.0 == old(9)));
    // What is taken away is gone, even if it cannot be decoded.
    refused(newer.take(7).unwrap_err());
    assert!(map.is_empty() && pool.check().unwrap().is_clean());
}
