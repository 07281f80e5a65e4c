//! The entries of a range, as a transaction sees them.

use super::table::TreeKeysOf;
use super::{Table, Transaction};
use crate::codec::{Key, MapForm, Value};
use crate::error::{Fault, Result};
use crate::medium::{Mapped, Medium};
use crate::tree::{Item, TreeKeys};
use std::borrow::Borrow;
use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;

/// The entries of a range, as a transaction sees them. See [`Transaction::range`].
pub struct Scan<'x, 't, T: Table<M>, M: Medium = Mapped> {
    transaction: &'x mut Transaction<'t, M>,
    part: usize,
    /// What was not read yet.
    unread: Option<<TreeKeysOf<T, M> as TreeKeys>::Unread>,
    /// Entries that were read from the left and not yet returned.
    front: VecDeque<Item<TreeKeysOf<T, M>>>,
    /// Entries that were read from the right and not yet returned.
    back: VecDeque<Item<TreeKeysOf<T, M>>>,
}

impl<T: Table<M>, M: Medium> fmt::Debug for Scan<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl<'x, 't, T: Table<M>, M: Medium> Scan<'x, 't, T, M> {
    pub(super) fn new(
        transaction: &'x mut Transaction<'t, M>,
        part: usize,
        unread: Option<<TreeKeysOf<T, M> as TreeKeys>::Unread>,
    ) -> Self {
        Self { transaction, part, unread, front: VecDeque::new(), back: VecDeque::new() }
    }

    /// Reads one more leaf. Nothing is left to read after an error.
    fn read(&mut self, from_left: bool) -> Result<(), Fault> {
        let Some(unread) = self.unread.take() else { return Ok(()) };
        let mut items = Vec::new();
        self.unread = self
            .transaction
            .read_in::<TreeKeysOf<T, M>, _>(self.part, |part| part.read(unread, from_left, &mut items))?;
        if from_left {
            self.front.extend(items);
        } else {
            items.into_iter().rev().for_each(|item| self.back.push_front(item));
        }
        Ok(())
    }

    fn decode((key, value): Item<TreeKeysOf<T, M>>) -> (T::Key, T::Value) {
        (T::Key::decode(<T::Key as Key>::Form::stored(key.borrow())), T::Value::decode(value))
    }

    /// The next entry from one end: one that was read from there, one that is read now, or the last one from the other end.
    fn step(&mut self, from_left: bool) -> Option<Result<(T::Key, T::Value)>> {
        loop {
            let item = if from_left { self.front.pop_front() } else { self.back.pop_back() };
            if let Some(item) = item {
                return Some(Ok(Self::decode(item)));
            }
            if self.unread.is_none() {
                let item = if from_left { self.back.pop_front() } else { self.front.pop_back() };
                return item.map(|item| Ok(Self::decode(item)));
            }
            if let Err(fault) = self.read(from_left) {
                (self.front, self.back) = Default::default();
                return Some(Err(self.transaction.pool.error(fault)));
            }
        }
    }
}

impl<T: Table<M>, M: Medium> Iterator for Scan<'_, '_, T, M> {
    type Item = Result<(T::Key, T::Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(true)
    }
}

impl<T: Table<M>, M: Medium> DoubleEndedIterator for Scan<'_, '_, T, M> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(false)
    }
}

impl<T: Table<M>, M: Medium> FusedIterator for Scan<'_, '_, T, M> {}
