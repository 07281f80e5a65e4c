//! Entries that are read one leaf at a time, from both ends.

use crate::error::Fault;
use crate::node::Interval;
use crate::tree::{Form, Item};
use std::collections::VecDeque;

/// The entries of an interval that were not yet returned.
pub(crate) struct Ends<K: Form> {
    /// What was not read yet.
    unread: Option<Interval<K>>,
    /// Entries that were read from the left.
    front: VecDeque<Item<K>>,
    /// Entries that were read from the right.
    back: VecDeque<Item<K>>,
}

impl<K: Form> Ends<K> {
    /// Nothing was read yet.
    pub(crate) fn new(unread: Option<Interval<K>>) -> Self {
        Self { unread, front: VecDeque::new(), back: VecDeque::new() }
    }

    /// The next entry from one end: one that was read from there, one that is read now, or the last one from the other
    /// end.
    ///
    /// `read` adds the entries of the first or of the last part of an interval, in ascending order, and returns what is
    /// left of the interval. Nothing is left after an error.
    pub(crate) fn step(
        &mut self,
        from_left: bool,
        mut read: impl FnMut(Interval<K>, bool, &mut Vec<Item<K>>) -> Result<Option<Interval<K>>, Fault>,
    ) -> Option<Result<Item<K>, Fault>> {
        loop {
            let item = if from_left { self.front.pop_front() } else { self.back.pop_back() };
            if let Some(item) = item {
                return Some(Ok(item));
            }
            let Some(unread) = self.unread.take() else {
                return if from_left { self.back.pop_front() } else { self.front.pop_back() }.map(Ok);
            };
            let mut items = Vec::new();
            match read(unread, from_left, &mut items) {
                Ok(rest) => self.unread = rest,
                Err(fault) => {
                    (self.front, self.back) = Default::default();
                    return Some(Err(fault));
                }
            }
            if from_left {
                self.front.extend(items);
            } else {
                items.into_iter().rev().for_each(|item| self.back.push_front(item));
            }
        }
    }
}
