//! Intervals of keys as transactions keep them, whatever the keys are.

use crate::node::Keys;
use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

/// The keys from one on, up to another one, or to the end of all keys.
pub(crate) struct Interval<K: Keys> {
    pub(super) from: K::Owned,
    /// `None` at the end of all keys.
    pub(super) to: Option<K::Owned>,
}

/// Whether a key lies before the end of an interval.
pub(super) fn is_before<K: Ord>(key: &K, end: Option<&K>) -> bool {
    end.is_none_or(|end| key < end)
}

/// The keys up to this one.
pub(super) fn up_to<Q: ?Sized>(key: &Q) -> (Bound<&Q>, Bound<&Q>) {
    (Bound::Unbounded, Bound::Included(key))
}

/// The keys before an end.
pub(super) fn before<Q: ?Sized, K: Borrow<Q>>(end: Option<&K>) -> (Bound<&Q>, Bound<&Q>) {
    (Bound::Unbounded, end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.borrow())))
}

impl<K: Keys> Interval<K> {
    pub(super) fn from_unread(unread: K::Unread) -> Self {
        let (from, to) = K::into_ends(unread);
        Self { from, to }
    }

    /// The interval as a search takes it. It must not be empty.
    pub(super) fn unread(&self) -> K::Unread {
        K::from_ends(self.from.clone(), self.to.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        !is_before(&self.from, self.to.as_ref())
    }

    pub(super) fn bounds(&self) -> (Bound<&K::Key>, Bound<&K::Key>) {
        let to = self.to.as_ref().map_or(Bound::Unbounded, |to| Bound::Excluded(to.borrow()));
        (Bound::Included(self.from.borrow()), to)
    }

    pub(super) fn holds(&self, key: &K::Owned) -> bool {
        self.bounds().contains::<K::Key>(key.borrow())
    }

    /// Takes a key away, and all keys that lie before it, seen from the left or from the right. The interval, which
    /// held the key, may be empty then.
    pub(super) fn pass(&mut self, key: &K::Owned, from_left: bool) {
        if !from_left {
            self.to = Some(key.clone());
        } else if let Some(behind) = K::behind(key.borrow()) {
            self.from = behind;
        } else {
            self.from.clone_from(key);
            self.to = Some(key.clone());
        }
    }

    /// What is left of the interval behind its first part, if `from_left`, or before its last one.
    pub(super) fn without(&self, (from, to): (&K::Owned, Option<&K::Owned>), from_left: bool) -> Option<Self> {
        match from_left {
            true => to
                .filter(|to| is_before(*to, self.to.as_ref()))
                .map(|to| Self { from: to.clone(), to: self.to.clone() }),
            false => (self.from < *from).then(|| Self { from: self.from.clone(), to: Some(from.clone()) }),
        }
    }

    /// Leaves nothing else of the interval than its first part, or its last one: that which lies before the end, or
    /// behind the beginning, of another interval.
    pub(super) fn cut(&mut self, (from, to): (&K::Owned, Option<&K::Owned>), from_left: bool) {
        match to {
            Some(to) if from_left && is_before(to, self.to.as_ref()) => self.to = Some(to.clone()),
            _ if !from_left && self.from < *from => self.from.clone_from(from),
            _ => {}
        }
    }
}
