//! The entries of a range, as a transaction sees them.

#[cfg(all(test, not(bristlecone_loom)))]
mod tests;

use super::Transaction;
use crate::error::Result;
use crate::map::table::{Table, TreeKeysOf, decode};
use crate::medium::{Mapped, Medium};
use crate::node::Interval;
use crate::tree::{Cursor, ScanStep};
use std::fmt;
use std::iter::FusedIterator;

/// The entries of a range, as a transaction sees them. See [`Transaction::range`].
pub struct Scan<'x, 't, T: Table<M>, M: Medium = Mapped> {
    transaction: &'x mut Transaction<'t, M>,
    table: &'t T,
    part: usize,
    cursor: Cursor<TreeKeysOf<T, M>>,
}

impl<T: Table<M>, M: Medium> fmt::Debug for Scan<'_, '_, T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan").finish_non_exhaustive()
    }
}

impl<'x, 't, T: Table<M>, M: Medium> Scan<'x, 't, T, M> {
    pub(super) fn new(
        transaction: &'x mut Transaction<'t, M>,
        (table, part): (&'t T, usize),
        unread: Option<Interval<TreeKeysOf<T, M>>>,
    ) -> Self {
        Self { transaction, table, part, cursor: Cursor::new(unread) }
    }

    fn step(&mut self, from_left: bool) -> Option<Result<(T::Key, T::Value)>> {
        let Self { transaction, table, part, cursor } = self;
        let tree = table.tree();
        if let Some(item) = cursor.ready(from_left) {
            return Some(transaction.pool.named(decode::<T, M>(item, tree)));
        }
        let item = loop {
            let step = transaction.read_in::<TreeKeysOf<T, M>, _>(*part, |part| part.step(cursor, from_left));
            match step {
                Ok(ScanStep::Item(item)) => break Ok(item),
                Ok(ScanStep::More) => {}
                Ok(ScanStep::End) => return None,
                Err(fault) => {
                    // Nothing is left after an error.
                    *cursor = Cursor::new(None);
                    break Err(fault);
                }
            }
        };
        Some(transaction.pool.named(item.and_then(|item| decode::<T, M>(item, tree))))
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
