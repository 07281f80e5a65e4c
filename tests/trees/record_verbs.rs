//! Every verb of a map of records.

use crate::medium::{Any, zeroed};
use bristlecone::codec::Words;
use bristlecone::medium::Medium;
use bristlecone::{Error, ErrorKind, IndexKind, Key, Map, Pool, Result, Value, WordNode};
use std::collections::BTreeMap;

pub(crate) fn all<K: Key<Form = Words>, V: Value, N: WordNode, M: Medium>(map: &Map<K, V, N, M>) -> Vec<(K, V)> {
    map.iter().collect::<Result<_>>().unwrap()
}

pub(crate) fn sound<K: Key<Form = Words>, V: Value, N: WordNode, M: Medium>(map: &Map<K, V, N, M>) {
    assert!(map.fault().is_none(), "{}", map.fault().unwrap());
    let report = map.check();
    assert!(report.is_clean(), "{:?}", report.violations);
}

pub(crate) fn bytes(len: usize, salt: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 251 + salt * 7 + len) as u8).collect()
}

fn verbs<N: WordNode>(index: IndexKind) {
    let pool = Pool::options().segment_size(4096).create_on(zeroed(1 << 20)).unwrap();
    let map: Map<i32, Vec<u8>, N, Any> = pool.map_with("m", index).unwrap();
    assert_eq!(map.first_key_value().unwrap(), None);
    assert!(!map.update(-5, b"no").unwrap());
    assert!(map.insert_new(-5, b"minus five").unwrap());
    assert!(!map.insert_new(-5, b"again").unwrap());
    assert_eq!(map.get(-5).unwrap().unwrap(), b"minus five");
    assert!(map.update(-5, b"-5").unwrap());
    assert_eq!(map.get(-5).unwrap().unwrap(), b"-5");
    assert!(map.insert(-5, b"").unwrap());
    assert_eq!(map.get(-5).unwrap().unwrap(), b"");
    assert!(map.remove(-5).unwrap());
    assert_eq!(map.get(-5).unwrap(), None);
    assert!(map.is_empty());
    let mut model = BTreeMap::new();
    for key in (-50..50).map(|n| n * 37 % 101) {
        map.insert(key, &bytes(key.unsigned_abs() as usize, 0)).unwrap();
        model.insert(key, bytes(key.unsigned_abs() as usize, 0));
    }
    assert!(all(&map).into_iter().eq(model.clone()));
    assert!(map.range(-9..9).map(Result::unwrap).eq(model.range(-9..9).map(|(&k, v)| (k, v.clone()))));
    assert_eq!(map.first_key_value().unwrap(), model.pop_first());
    assert_eq!(map.last_key_value().unwrap(), model.pop_last());
    sound(&map);
    map.clear().unwrap();
    assert!(map.is_empty() && all(&map).is_empty());
    let model: Vec<_> = (-60..60).map(|key: i32| (key, bytes(key.unsigned_abs() as usize * 3, 1))).collect();
    let entries = model.iter().map(|(key, value)| (*key, value.as_slice()));
    assert_eq!(map.bulk_load(entries.clone()).unwrap(), 120);
    assert_eq!(all(&map), model);
    assert!(matches!(map.bulk_load(entries), Err(Error { kind: ErrorKind::NotEmpty { .. }, .. })));
    sound(&map);
}

in_every_layout!(verbs);
