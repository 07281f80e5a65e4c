//! std's map as a subject, and a wrapper for maps that change only through `&mut`.

use crate::entry::Words;
use crate::ordered_map::OrderedMap;
use crate::owned::Owned;
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ops::Bound;

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
pub(crate) struct Ordinary<E: Owned = Words>(Alone<BTreeMap<E::OwnedKey, E::OwnedValue>>);

impl<E: Owned> Default for Ordinary<E> {
    fn default() -> Self {
        Self(Alone::default())
    }
}

impl<E: Owned> OrderedMap<E> for Ordinary<E> {
    fn is_shared(&self) -> bool {
        false
    }

    #[inline]
    fn insert(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.write(|map| map.insert(E::own_key(key), E::own_value(value)));
    }

    #[inline]
    fn get(&self, key: E::Key<'_>) -> Option<u64> {
        self.0.read().get(E::lookup(&key)).map(|value| E::read(E::value_of(value)))
    }

    #[inline]
    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) {
        self.0.write(|map| {
            if let Some(old) = map.get_mut(E::lookup(&key)) {
                E::replace(old, value);
            }
        });
    }

    #[inline]
    fn remove(&self, key: E::Key<'_>) {
        self.0.write(|map| map.remove(E::lookup(&key)));
    }

    #[inline]
    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) {
        for (key, value) in self.0.read().range((Bound::Included(E::lookup(&from)), Bound::Unbounded)) {
            if !each(E::key_of(key), E::value_of(value)) {
                break;
            }
        }
    }
}
