//! Where a transaction that removes entries has left none.

use crate::node::Keys;
use crate::node::keys::interval::{Interval, before, is_before, up_to};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;

/// Intervals of keys that a transaction has read, and in which it sees no entry any more, because it has removed all of
/// them.
///
/// A transaction that takes the first entry of a range again and again would otherwise pass over all that it has taken
/// before. The intervals are disjoint, and do not touch.
pub(super) struct Voids<K: Keys> {
    /// Where they end, by where they begin.
    ends: BTreeMap<K::Owned, Option<K::Owned>>,
}

impl<K: Keys> Voids<K> {
    pub(super) fn new() -> Self {
        Self { ends: BTreeMap::new() }
    }

    /// Adds an interval, in which there is no entry.
    pub(super) fn add(&mut self, from: K::Owned, mut to: Option<K::Owned>) {
        if !is_before(&from, to.as_ref()) {
            return;
        }
        // All that begin within it, or where it ends.
        loop {
            let end = to.as_ref().map_or(Bound::Unbounded, |to| Bound::Included(to.borrow()));
            let Some((start, _)) = self.ends.range::<K::Key, _>((Bound::Excluded(from.borrow()), end)).next() else {
                break;
            };
            let start = start.clone();
            match self.ends.remove::<K::Key>(start.borrow()).flatten() {
                Some(end) if !is_before(&end, to.as_ref()) => to = to.map(|_| end),
                Some(_) => {}
                None => to = None,
            }
        }
        match self.ends.range_mut::<K::Key, _>(up_to(from.borrow())).next_back() {
            Some((_, end)) if end.as_ref().is_none_or(|end| *end >= from) => {
                if end.as_ref().is_some_and(|end| is_before(end, to.as_ref())) {
                    *end = to;
                }
            }
            _ => drop(self.ends.insert(from, to)),
        }
    }

    /// Notes that there is an entry under this key now.
    pub(super) fn cut(&mut self, key: &K::Key) {
        let Some((start, end)) = self.ends.range_mut::<K::Key, _>(up_to(key)).next_back() else { return };
        if end.as_ref().is_some_and(|end| end.borrow() <= key) {
            return;
        }
        let is_first = start.borrow() == key;
        let end = end.replace(key.to_owned());
        if is_first {
            self.ends.remove::<K::Key>(key);
        }
        if let Some(behind) = K::behind(key)
            && is_before(&behind, end.as_ref())
        {
            self.ends.insert(behind, end);
        }
    }

    /// What is left of an interval where it begins, or ends, with nothing that can be seen; the interval may be empty
    /// then. Returns whether it is another one.
    pub(super) fn leave(&self, interval: &mut Interval<K>, from_left: bool) -> bool {
        if from_left {
            let Some((_, end)) = self.ends.range::<K::Key, _>(up_to(interval.from.borrow())).next_back() else {
                return false;
            };
            if !is_before(&interval.from, end.as_ref()) {
                return false;
            }
            match end {
                Some(end) => interval.from.clone_from(end),
                // Nothing is left.
                None => interval.to = Some(interval.from.clone()),
            }
        } else {
            let last = self.ends.range::<K::Key, _>(before(interval.to.as_ref())).next_back();
            let Some((start, end)) = last else { return false };
            let reaches = match (end, &interval.to) {
                (Some(end), Some(to)) => end >= to,
                (end, _) => end.is_none(),
            };
            if !reaches {
                return false;
            }
            interval.to = Some(start.clone());
        }
        true
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::Voids;
    use crate::node::{Interval, Words};
    use crate::random::Random;

    /// Adds and cuts intervals in no order, and compares with a list of keys that are in one.
    #[test]
    fn voids_are_what_was_added_and_not_cut() {
        const KEYS: usize = 24;
        let mut numbers = Random(7);
        let mut random = |below: usize| numbers.below(below as u64) as usize;
        for _ in 0..100 {
            let (mut voids, mut model) = (Voids::<Words>::new(), [false; KEYS]);
            let key = |i: usize| u64::MAX - (KEYS - 1 - i) as u64;
            for _ in 0..12 {
                let (i, j) = (random(KEYS), random(KEYS + 1));
                if random(3) > 0 {
                    voids.add(key(i), (j < KEYS).then(|| key(j)));
                    (i..j).for_each(|i| model[i] = true);
                } else {
                    voids.cut(&key(i));
                    model[i] = false;
                }
                let ends: Vec<_> = voids.ends.iter().map(|(&from, &to)| (from, to)).collect();
                assert!(ends.windows(2).all(|two| two[0].1.is_some_and(|end| end < two[1].0)), "{ends:?}");
                for from in 0..KEYS {
                    for to in from + 1..=KEYS {
                        let whole = || Interval::<Words> { from: key(from), to: (to < KEYS).then(|| key(to)) };
                        let (mut left, mut right) = (whole(), whole());
                        let is_left = voids.leave(&mut left, true);
                        assert_eq!(is_left, model[from]);
                        let first = (from..to).find(|&i| !model[i]);
                        assert_eq!((!left.is_empty()).then_some(left.from), first.map(key));
                        let is_right = voids.leave(&mut right, false);
                        assert_eq!(is_right, model[to - 1]);
                        let last = (from..to).rfind(|&i| !model[i]);
                        assert_eq!(right.is_empty(), last.is_none());
                        if let Some(last) = last {
                            assert_eq!(right.to, (last + 1 < KEYS).then(|| key(last + 1)));
                        }
                    }
                }
            }
        }
    }
}
