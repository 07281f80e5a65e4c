//! What must hold with every way to sort and to search, and so is tested where all of them are.

use crate::map::Map;
use crate::medium::any::{Any, zeroed};
use crate::node::{ByteLeaf, IndexKind};
use crate::pool::Pool;
use std::collections::BTreeMap;

const POOL: u64 = 4 << 20;

/// Inserts and removes keys whose heads are equal, in leaves of the usual size.
fn ties(key: fn(u64) -> Vec<u8>) {
    let pool = Pool::options().segment_size(16 << 10).create_on(zeroed(POOL)).unwrap();
    let map: Map<Vec<u8>, u64, ByteLeaf, Any> = pool.map_with("m", IndexKind::Volatile).unwrap();
    let mut model = BTreeMap::new();
    let same = |map: &Map<_, u64, _, _>, model: &BTreeMap<Vec<u8>, u64>| {
        assert!(map.iter().map(Result::unwrap).eq(model.iter().map(|(key, &value)| (key.clone(), value))));
        assert!(model.iter().all(|(key, &value)| map.get(key).unwrap() == Some(value)));
        assert!(map.check().is_clean(), "{:?}", map.check().violations);
    };
    let count = if cfg!(miri) { 60 } else { 500 };
    for i in 0..count {
        let key = key(i * 7919 % count);
        map.insert(&key, i).unwrap();
        model.insert(key, i);
    }
    same(&map, &model);
    for i in (0..count).filter(|i| i % 3 > 0) {
        assert!(map.remove(&key(i)).unwrap() && model.remove(&key(i)).is_some());
    }
    same(&map, &model);
}

#[test]
fn equal_heads_are_ordered_by_their_records() {
    ties(|n| vec![0; n as usize]);
    ties(|n| format!("user{n:019}").into_bytes());
    ties(|n| [&n.to_be_bytes()[..4], &[b'x'; 40], &n.to_be_bytes()[4..]].concat());
}
