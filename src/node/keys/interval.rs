//! Intervals of keys, and where a leaf begins and ends, whatever the keys are.

use super::{Keys, NoLess};
use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};

/// The keys from one on, up to another one, or to the end of all keys.
pub(crate) struct Interval<K: Keys> {
    pub(crate) from: K::Owned,
    /// `None` at the end of all keys.
    pub(crate) to: Option<K::Owned>,
}

/// Where a leaf that was read begins and ends: its low and that of its right neighbour.
pub struct Edges<K: Keys> {
    pub(crate) low: K::Owned,
    /// `None` at the end of all keys.
    pub(crate) high: Option<K::Owned>,
    pub(crate) heads: K::Heads,
}

/// Whether a key lies before the end of an interval.
#[inline]
pub(crate) fn is_before<K: Ord>(key: &K, end: Option<&K>) -> bool {
    end.is_none_or(|end| key < end)
}

/// The keys up to this one.
pub(crate) fn up_to<Q: ?Sized>(key: &Q) -> (Bound<&Q>, Bound<&Q>) {
    (Bound::Unbounded, Bound::Included(key))
}

/// The keys before an end.
pub(crate) fn before<Q: ?Sized, K: Borrow<Q>>(end: Option<&K>) -> (Bound<&Q>, Bound<&Q>) {
    (Bound::Unbounded, end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.borrow())))
}

impl<K: Keys> Clone for Interval<K> {
    fn clone(&self) -> Self {
        Self { from: self.from.clone(), to: self.to.clone() }
    }
}

impl<K: Keys> Interval<K> {
    /// All keys.
    pub(crate) fn everything() -> Self {
        Self { from: K::Owned::default(), to: None }
    }

    /// The keys of a range, whose bounds `encode` encodes; `None` if there are none.
    #[inline]
    pub(crate) fn of_range<Q, E: Borrow<K::Key>>(
        range: &impl RangeBounds<Q>,
        encode: impl Fn(&Q) -> E,
    ) -> Option<Self> {
        let from = match range.start_bound() {
            Bound::Unbounded => K::Owned::default(),
            Bound::Included(key) => encode(key).borrow().to_owned(),
            Bound::Excluded(key) => K::behind(encode(key).borrow())?,
        };
        let to = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => K::behind(encode(key).borrow()),
            Bound::Excluded(key) => Some(encode(key).borrow().to_owned()),
        };
        Self { from, to }.if_any()
    }

    /// The interval, unless it is empty.
    #[inline]
    pub(crate) fn if_any(self) -> Option<Self> {
        (!self.is_empty()).then_some(self)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !is_before(&self.from, self.to.as_ref())
    }

    /// The interval as one for a search in a leaf. It must not be empty.
    #[inline(always)]
    pub(crate) fn span(&self) -> K::Span<'_> {
        K::span(&self.from, self.to.as_ref())
    }

    /// The key whose owner is read next from the left.
    #[inline(always)]
    pub(crate) fn first(&self) -> K::Ref<'_> {
        K::as_ref(self.from.borrow())
    }

    /// The key whose owner is read next from the right.
    #[inline(always)]
    pub(crate) fn last(&self) -> K::Ref<'_> {
        K::before(self.to.as_ref().map(Borrow::borrow))
    }

    /// What is left of the interval once its first leaf was read, if there is less left than before. In a damaged tree,
    /// the end of that leaf may not lie behind the start of the interval.
    #[inline]
    pub(crate) fn beyond(mut self, edges: &Edges<K>) -> Result<Option<Self>, NoLess> {
        let Some(high) = edges.high.as_ref().filter(|high| is_before(*high, self.to.as_ref())) else { return Ok(None) };
        if *high <= self.from {
            return Err(NoLess);
        }
        self.from.clone_from(high);
        Ok(Some(self))
    }

    /// What is left of the interval once its last leaf was read. As [`beyond`](Self::beyond).
    #[inline]
    pub(crate) fn up_to(mut self, edges: &Edges<K>) -> Result<Option<Self>, NoLess> {
        if edges.low <= self.from {
            return Ok(None);
        }
        if !is_before(&edges.low, self.to.as_ref()) {
            return Err(NoLess);
        }
        self.to.get_or_insert_default().clone_from(&edges.low);
        Ok(Some(self))
    }

    pub(crate) fn bounds(&self) -> (Bound<&K::Key>, Bound<&K::Key>) {
        (Bound::Included(self.from.borrow()), before(self.to.as_ref()).1)
    }

    pub(crate) fn holds(&self, key: &K::Owned) -> bool {
        self.bounds().contains::<K::Key>(key.borrow())
    }

    /// Takes a key away, and all keys that lie before it, seen from the left or from the right. The interval, which
    /// held the key, may be empty then.
    pub(crate) fn pass(&mut self, key: &K::Owned, from_left: bool) {
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
    pub(crate) fn without(&self, (from, to): (&K::Owned, Option<&K::Owned>), from_left: bool) -> Option<Self> {
        match from_left {
            true => to
                .filter(|to| is_before(*to, self.to.as_ref()))
                .map(|to| Self { from: to.clone(), to: self.to.clone() }),
            false => (self.from < *from).then(|| Self { from: self.from.clone(), to: Some(from.clone()) }),
        }
    }

    /// Leaves nothing else of the interval than its first part, or its last one: that which lies before the end, or
    /// behind the beginning, of another interval.
    pub(crate) fn cut(&mut self, (from, to): (&K::Owned, Option<&K::Owned>), from_left: bool) {
        match to {
            Some(to) if from_left && is_before(to, self.to.as_ref()) => self.to = Some(to.clone()),
            _ if !from_left && self.from < *from => self.from.clone_from(from),
            _ => {}
        }
    }
}

impl<K: Keys> Default for Edges<K> {
    fn default() -> Self {
        Self { low: K::Owned::default(), high: None, heads: K::Heads::default() }
    }
}

impl<K: Keys> Clone for Edges<K> {
    fn clone(&self) -> Self {
        Self { low: self.low.clone(), high: self.high.clone(), heads: self.heads.clone() }
    }
}

impl<K: Keys> Edges<K> {
    /// Whether a key lies between the edges.
    pub(crate) fn hold(&self, key: &K::Key) -> bool {
        self.low.borrow() <= key && self.high.as_ref().is_none_or(|high| key < high.borrow())
    }

    /// Bytes that the edges take elsewhere in memory.
    pub(crate) fn memory(&self) -> usize {
        let memory = |key: &K::Owned| if K::HAS_RECORDS { size_of_val::<K::Key>(key.borrow()) } else { 0 };
        memory(&self.low) + self.high.as_ref().map_or(0, memory)
    }
}
