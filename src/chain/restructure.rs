//! Split, merge and redistribute: prepare out of sight, then commit by one store to `left.next`.

use super::{Chain, Locked};
use crate::error::Result;
use crate::medium::Medium;
use crate::node::{Entry, Node, Span, Window, slots};
use std::ops::Range;

impl<N: Node, M: Medium> Chain<N, M> {
    /// Whether a node has no empty slot.
    pub(crate) fn is_full(&self, node: &Locked<'_>) -> bool {
        node.window().len() == N::SLOTS
    }

    /// Whether a node is so empty that it should be rebalanced: a quarter full or less.
    pub(crate) fn is_sparse(&self, node: &Locked<'_>) -> bool {
        node.window().len() * 4 <= N::SLOTS
    }

    /// Splits a full node in the middle; `new`, with its position, goes along if it belongs to the right half.
    ///
    /// Returns the right node, and whether `new` is in it. Durable when it returns.
    ///
    /// # Complexity
    ///
    /// The lines of the right half and two headers; two fences.
    pub(crate) fn split<'c>(
        &'c self,
        left: &mut Locked<'c>,
        level: u16,
        new: Option<(usize, Entry)>,
    ) -> Result<(Locked<'c>, bool)> {
        let m = self.medium();
        let len = left.window().len();
        // Appending at the end of the chain leaves full nodes behind instead of half-full ones.
        let appends = new.is_some_and(|(i, _)| i == len) && left.span().high() == u64::MAX;
        let middle = if appends { len - 1 } else { len / 2 };
        let (at, window) = (left.at, left.window());
        let entries = |range: Range<usize>| range.map(move |i| slots::entry::<N, M>(m, at, window, i));
        let border = slots::entry::<N, M>(m, at, window, middle).0;
        let new = new.filter(|&(i, _)| i > middle);
        let cut = new.map_or(len, |(i, _)| i);
        let moved = entries(middle..cut).chain(new.map(|(_, entry)| entry)).chain(entries(cut..len));
        let next = m.load(left.at + crate::node::NEXT);
        let span = Span::new(border, left.span().high());
        // Crash, until the commit: a block that no chain reaches; it counts as free.
        let right = self.create(level, span, next, moved)?;
        m.fence();
        slots::link(m, left.at, right.at);
        left.set_span(Span::new(left.span().low(), border));
        left.set_window(Window { count: middle as u16, ..left.window() });
        Ok((right, new.is_some()))
    }

    /// Whether two neighbours fit into one node, with room left for a quarter.
    pub(crate) fn fit_in_one(&self, left: &Locked<'_>, right: &Locked<'_>) -> bool {
        (left.window().len() + right.window().len()) * 4 <= N::SLOTS * 3
    }

    /// Moves all of right into left and frees right. Durable when it returns.
    ///
    /// # Complexity
    ///
    /// The lines of the entries copied and one header; two fences.
    pub(crate) fn merge(&self, left: &mut Locked<'_>, right: Locked<'_>) {
        let m = self.medium();
        let wider = Span::new(left.span().low(), right.span().high());
        let moved = self.entries(&right);
        let window = slots::stage::<N, M>(m, left.at, wider, left.window(), &moved);
        // Crash: copies that left does not own, so empty slots.
        m.fence();
        slots::link(m, left.at, m.load(right.at + crate::node::NEXT));
        left.set_window(window);
        left.set_span(wider);
        self.free(right);
    }

    /// Shares the entries of two neighbours evenly: right is replaced by a new node with another `low`. Durable when it
    /// returns.
    ///
    /// # Complexity
    ///
    /// The lines of the new node, of the entries that move left, and one header; two fences.
    pub(crate) fn redistribute<'c>(
        &'c self,
        left: &mut Locked<'c>,
        right: Locked<'c>,
        level: u16,
    ) -> Result<Locked<'c>> {
        let m = self.medium();
        let mut all = self.entries(left);
        let in_left = all.len();
        all.extend(self.entries(&right));
        let share = all.len() / 2;
        let border = all[share].0;
        let next = m.load(right.at + crate::node::NEXT);
        let narrower = Span::new(left.span().low(), border);
        // Crash, until the commit: a block that no chain reaches, and copies that left does not own.
        let new = self.create(level, Span::new(border, right.span().high()), next, all[share..].iter().copied())?;
        let moved = all.get(in_left..share).unwrap_or_default();
        let window = slots::stage::<N, M>(m, left.at, narrower, left.window(), moved);
        m.fence();
        slots::link(m, left.at, new.at);
        left.set_window(Window { count: share as u16, ..window });
        left.set_span(narrower);
        self.free(right);
        Ok(new)
    }
}
