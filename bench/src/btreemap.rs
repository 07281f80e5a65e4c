//! std's map as a subject, and a wrapper for maps that change only through `&mut`.

use crate::ordered_map::OrderedMap;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;

/// A map that changes only through `&mut`, used by one thread: where other maps take a lock, this costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Alone<T>(UnsafeCell<T>);

// SAFETY: it is used by one thread at a time, because an `OrderedMap` made from it says that it is not shared, and
// `Phases::new` refuses such a subject for more than one thread.
unsafe impl<T: Send> Sync for Alone<T> {}

impl<T> Alone<T> {
    #[inline]
    pub(crate) fn read(&self) -> &T {
        // SAFETY: there is no `&mut` reference, as in `write`; there may be several references from `read`.
        unsafe { &*self.0.get() }
    }

    /// Changes the map. `change` must not reach the map except through its argument.
    #[inline]
    pub(crate) fn write<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: one thread uses the map, and the subjects made from it neither keep a reference from `read` across a
        // call, nor call back here from within `change`.
        change(unsafe { &mut *self.0.get() })
    }
}

/// std's map.
#[derive(Debug, Default)]
pub(crate) struct Ordinary(Alone<BTreeMap<u64, u64>>);

impl OrderedMap for Ordinary {
    fn is_shared(&self) -> bool {
        false
    }

    #[inline]
    fn insert(&self, key: u64, value: u64) {
        self.0.write(|map| map.insert(key, value));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.read().get(&key).copied()
    }

    #[inline]
    fn update(&self, key: u64, value: u64) {
        self.0.write(|map| {
            if let Some(old) = map.get_mut(&key) {
                *old = value;
            }
        });
    }

    #[inline]
    fn remove(&self, key: u64) {
        self.0.write(|map| map.remove(&key));
    }

    #[inline]
    fn scan(&self, from: u64, mut each: impl FnMut(u64, u64) -> bool) {
        for (&key, &value) in self.0.read().range(from..) {
            if !each(key, value) {
                break;
            }
        }
    }
}
