//! Split, merge and redistribute: prepare where no reader sees it, then commit with one store to `left.next`.

use super::{Chain, For, Locked};
use crate::error::Fault;
use crate::medium::{Medium, Step};
use crate::node::{Entry, KeyRange, NEXT, Node, SplitInPlace};

impl<N: Node<Ops: SplitInPlace>, M: Medium> Chain<N, M> {
    /// Inserts `new` into a full node by splitting it. Returns the right node, which the caller must post to the index.
    /// The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// The lines of the right half and two headers, and two fences. If `new` belongs to the left half, also an insert.
    pub(crate) fn insert_by_split<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        level: u16,
        new: Entry,
    ) -> Result<Locked<'c, N>, Fault> {
        let (right, place) = self.split(left, level, new)?;
        if let Some(place) = place {
            self.insert(left, place, new);
        }
        Ok(right)
    }

    /// The same within a batch. The entry that goes into the left half is durable once the returned lines (a bitmask)
    /// are flushed and fenced. The first line of the left node, which holds the link, is already durable.
    pub(crate) fn put_by_split<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        level: u16,
        new: Entry,
    ) -> Result<(Locked<'c, N>, u64), Fault> {
        let (right, place) = self.split(left, level, new)?;
        let dirty = place.map_or(0, |place| self.put(left, Err(place), new));
        Ok((right, dirty))
    }

    /// Splits a full node. If `new` belongs to the right half, it is inserted there. Otherwise its place in the left
    /// half is returned with the right node.
    ///
    /// The split is in the middle, unless keys ascend or descend; then the full node stays full. Keys ascend if `new`
    /// lies beyond all others at the end of the chain, or in a node that was itself begun by an ascending split: the
    /// right node begins with `new`. Keys descend if `new` lies before all others at the start of the chain: all others
    /// move to the right.
    fn split<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        level: u16,
        new: Entry,
    ) -> Result<(Locked<'c, N>, Option<usize>), Fault> {
        let m = self.medium();
        let mut entries = self.entries(left);
        let i = entries.partition_point(|entry| entry.0 < new.0);
        let is_last = i == entries.len();
        let ascends = is_last && (left.range().high() == u64::MAX || left.was.is_appended());
        let descends = i == 0 && left.range().low() == 0;
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
        let mut right =
            self.create(level, KeyRange::new(border, left.range().high()), m.load(left.at + NEXT), moved)?;
        m.fence(Step::SplitFill);
        self.link(left, right.at);
        left.set_range(KeyRange::new(left.range().low(), border));
        N::Ops::truncate_after_split(m, left.at, &left.shadow.hints, border);
        if is_last {
            right.was = right.was.appended();
        }
        let place = if with_new { None } else { self.search(left, new.0).err() };
        Ok((right, place))
    }

    /// Merges two neighbours into one node, or evens out their sizes. The change is durable when this returns.
    ///
    /// The caller must have durably withdrawn the right node from the index. Returns the low and the offset of the
    /// right node that must be posted to the index now, if there is one.
    pub(crate) fn join<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        right: Locked<'c, N>,
        level: u16,
    ) -> Result<Option<(u64, u64)>, Fault> {
        if self.fit_in_one(left, &right) {
            self.merge(left, right);
            return Ok(None);
        }
        let (low, at) = (right.range().low(), right.at);
        match self.redistribute(left, right, level) {
            Ok(new) => Ok(Some((new.range().low(), new.at))),
            // There is no space to redistribute: everything stays where it was.
            Err(fault) if fault.is_out_of_space() => Ok(Some((low, at))),
            Err(error) => Err(error),
        }
    }

    /// Whether two neighbours fit into one node, with a quarter of its slots left free.
    fn fit_in_one(&self, left: &Locked<'_, N>, right: &Locked<'_, N>) -> bool {
        (self.len(left) + self.len(right)) * 4 <= N::SLOTS * 3
    }

    /// Moves all entries of right into left and frees right. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// The lines of the entries copied, one header, and two fences.
    fn merge(&self, left: &mut Locked<'_, N>, right: Locked<'_, N>) {
        let m = self.medium();
        let wider = KeyRange::new(left.range().low(), right.range().high());
        left.change();
        N::Ops::prefill(m, left.at, &left.shadow.hints, wider, &self.entries(&right));
        // Crash: copies that left does not own, which are empty slots.
        m.fence(Step::JoinPrefill);
        self.unlink(left, right);
    }

    /// Redistributes the entries of two neighbours evenly: right is replaced by a new node with another `low`. The
    /// change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// The lines of the new node, of the entries that move left, and one header; two fences.
    fn redistribute<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        right: Locked<'c, N>,
        level: u16,
    ) -> Result<Locked<'c, N>, Fault> {
        let m = self.medium();
        let mut all = self.entries(left);
        let in_left = all.len();
        all.extend(self.entries(&right));
        let share = all.len() / 2;
        let border = all[share].0;
        let next = m.load(right.at + NEXT);
        let narrower = KeyRange::new(left.range().low(), border);
        // Crash, until the commit: a block that no chain reaches, and copies that left does not own.
        let (lines, range) = (self.lines(&right), KeyRange::new(border, right.range().high()));
        let new = self.create_of(lines, For::Exchange, level, range, next, &all[share..])?;
        left.change();
        N::Ops::prefill(m, left.at, &left.shadow.hints, narrower, all.get(in_left..share).unwrap_or_default());
        m.fence(Step::ShareFill);
        self.link(left, new.at);
        left.set_range(narrower);
        N::Ops::truncate_after_split(m, left.at, &left.shadow.hints, border);
        self.free(right);
        Ok(new)
    }
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// Takes the right neighbour out of the chain and frees it. The entries of it that must be kept are already in
    /// left. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// One header and one fence.
    pub(crate) fn unlink(&self, left: &mut Locked<'_, N>, right: Locked<'_, N>) {
        self.link(left, self.medium().load(right.at + NEXT));
        left.set_range(KeyRange::new(left.range().low(), right.range().high()));
        self.free(right);
    }
}
