//! blart: an adaptive radix tree for one thread. It refuses a key that begins with another, and no phase has such.

use crate::btreemap::Alone;
use crate::entry::{Bytes, Entry};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
use blart::TreeMap;
use std::ops::Bound;

type Tree = TreeMap<Box<[u8]>, Box<[u8]>>;

#[derive(Default)]
pub(crate) struct Radix {
    tree: Alone<Tree>,
    fault: Fault,
}

impl OrderedMap<Bytes> for Radix {
    fn is_shared(&self) -> bool {
        false
    }

    #[inline]
    fn insert(&self, key: &[u8], value: &[u8]) {
        let inserted = self.tree.write(|tree| tree.try_insert(key.into(), value.into()));
        self.fault.note(inserted.map_err(|_| "a key begins with another"));
    }

    #[inline]
    fn get(&self, key: &[u8]) -> Option<u64> {
        self.tree.read().get(key).map(|value| Bytes::read(value))
    }

    #[inline]
    fn update(&self, key: &[u8], value: &[u8]) {
        self.tree.write(|tree| {
            if let Some(old) = tree.get_mut(key) {
                old.copy_from_slice(value);
            }
        });
    }

    #[inline]
    fn remove(&self, key: &[u8]) {
        self.tree.write(|tree| tree.remove(key));
    }

    fn fault(&self) -> Outcome<()> {
        self.fault.get()
    }

    #[inline]
    fn scan(&self, from: &[u8], mut each: impl FnMut(&[u8], &[u8]) -> bool) {
        for (key, value) in self.tree.read().range::<[u8], _>((Bound::Included(from), Bound::Unbounded)) {
            if !each(key, value) {
                break;
            }
        }
    }
}
