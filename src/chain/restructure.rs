//! Split, merge and redistribute: prepare out of sight, then commit by one store to `left.next`.

use super::{Chain, For, Locked};
use crate::error::Result;
use crate::medium::Medium;
use crate::node::{Entry, NEXT, Node, Span};

impl<N: Node, M: Medium> Chain<N, M> {
    /// Whether a node has no empty slot.
    #[inline]
    pub(crate) fn is_full(&self, node: &Locked<'_, N::Aid>) -> bool {
        N::room(&node.shadow.aid) == 0
    }

    /// Whether a node is so empty that it should be rebalanced: a quarter full or less. In a layout in which a removal leaves
    /// something behind, only if that is worth to be collected, too: it takes half of the node, or four times what the
    /// entries take. So an emptied node always is, and a node that stays nearly empty is not renewed at each removal.
    #[inline]
    pub(crate) fn is_sparse(&self, node: &Locked<'_, N::Aid>) -> bool {
        let len = self.len(node);
        if !N::RENEWS {
            return len * 4 <= N::SLOTS;
        }
        let (slots, taken) = (self.slots(node), self.taken(node));
        len * 4 <= slots && (taken * 2 >= slots || taken >= len * 4)
    }

    /// Splits a full node; `new` goes along if it belongs to the right half.
    ///
    /// In the middle, unless keys ascend or descend: then what is full stays full. They ascend if `new` lies beyond all
    /// others at the end of the chain, or in a node that was begun in that way: the right node begins with `new`. They
    /// descend if it lies before all others at the start of the chain: all others move.
    ///
    /// Returns the right node, and whether `new` is in it. Durable when it returns.
    ///
    /// # Complexity
    ///
    /// The lines of the right half and two headers; two fences.
    pub(crate) fn split<'c>(
        &'c self,
        left: &mut Locked<'c, N::Aid>,
        level: u16,
        new: Entry,
    ) -> Result<(Locked<'c, N::Aid>, bool)> {
        let m = self.medium();
        let mut entries = self.entries(left);
        let i = entries.partition_point(|entry| entry.0 < new.0);
        let is_last = i == entries.len();
        let ascends = is_last && (left.span().high() == u64::MAX || left.was.is_appended());
        let descends = i == 0 && left.span().low() == 0;
        let middle = match (ascends, descends) {
            (true, _) => entries.len(),
            (_, true) => 0,
            _ => entries.len() / 2,
        };
        let with_new = i > middle || ascends;
        if with_new {
            entries.insert(i, new);
        }
        let moved = &entries[middle..];
        let border = moved[0].0;
        // Crash, until the commit: a block that no chain reaches; it counts as free.
        let mut right = self.create(level, Span::new(border, left.span().high()), m.load(left.at + NEXT), moved)?;
        m.fence();
        self.link(left, right.at);
        left.set_span(Span::new(left.span().low(), border));
        N::narrow(m, left.at, &left.shadow.aid, border);
        if is_last {
            right.was = right.was.appended();
        }
        Ok((right, with_new))
    }

    /// Whether two neighbours fit into one node, with room left for a quarter.
    pub(crate) fn fit_in_one(&self, left: &Locked<'_, N::Aid>, right: &Locked<'_, N::Aid>) -> bool {
        self.len(right) * 4 + N::SLOTS <= N::room(&left.shadow.aid) * 4
    }

    /// Moves all of right into left and frees right. Durable when it returns.
    ///
    /// # Complexity
    ///
    /// The lines of the entries copied and one header; two fences.
    pub(crate) fn merge(&self, left: &mut Locked<'_, N::Aid>, right: Locked<'_, N::Aid>) {
        let m = self.medium();
        let wider = Span::new(left.span().low(), right.span().high());
        left.change();
        N::stage(m, left.at, &left.shadow.aid, wider, &self.entries(&right));
        // Crash: copies that left does not own, so empty slots.
        m.fence();
        self.link(left, m.load(right.at + NEXT));
        left.set_span(wider);
        self.free(right);
    }

    /// Takes an empty right neighbour out of the chain and frees it. Durable when it returns.
    ///
    /// For layouts that [renew](crate::node::Layout::RENEWS) their nodes: all that left holds, it owns, so there is nothing to
    /// stage.
    ///
    /// # Complexity
    ///
    /// One header and one fence.
    pub(crate) fn unlink(&self, left: &mut Locked<'_, N::Aid>, right: Locked<'_, N::Aid>) {
        self.link(left, self.medium().load(right.at + NEXT));
        left.set_span(Span::new(left.span().low(), right.span().high()));
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
        left: &mut Locked<'c, N::Aid>,
        right: Locked<'c, N::Aid>,
        level: u16,
    ) -> Result<Locked<'c, N::Aid>> {
        let m = self.medium();
        let mut all = self.entries(left);
        let in_left = all.len();
        all.extend(self.entries(&right));
        let share = all.len() / 2;
        let border = all[share].0;
        let next = m.load(right.at + NEXT);
        let narrower = Span::new(left.span().low(), border);
        // Crash, until the commit: a block that no chain reaches, and copies that left does not own.
        let (lines, span) = (self.size(&right), Span::new(border, right.span().high()));
        let new = self.create_of(lines, For::Exchange, level, span, next, &all[share..])?;
        left.change();
        N::stage(m, left.at, &left.shadow.aid, narrower, all.get(in_left..share).unwrap_or_default());
        m.fence();
        self.link(left, new.at);
        left.set_span(narrower);
        N::narrow(m, left.at, &left.shadow.aid, border);
        self.free(right);
        Ok(new)
    }
}
