//! Split, merge and redistribute: prepare where no reader sees it, then commit with one store to `left.next`.

use super::{Chain, Draft, For, Locked};
use crate::error::{Broken, Fault};
use crate::medium::{Hint, LINE, Medium, Step};
use crate::node::{Entry, Keys, NEXT, NewLowOf, Node, RangeOf, RefOf, SplitInPlace, WordNode};
use crate::pool::blocks::TakenBlock;

impl<N: Node<Ops: SplitInPlace>, M: Medium> Chain<N, M> {
    /// Inserts `new` into a full node, which the caller has frozen, by splitting it. Returns the right node, which the
    /// caller must post to the index. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// The lines of the right half and two headers, and two fences; of byte strings, the lines of the slots that moved,
    /// and a third fence. If `new` belongs to the left half, also an insert.
    pub(crate) fn insert_by_split<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        level: u16,
        new: (RefOf<'_, N>, u64),
    ) -> Result<Locked<'c, N>, Fault> {
        let (right, place) = self.split(left, level, new)?;
        if let Some(place) = place {
            self.insert(left, place, new);
        }
        Ok(right)
    }

    /// Splits a full node. If `new`, a key and its value, belongs to the right half, it is inserted there. Otherwise
    /// its place in the left half is returned with the right node.
    ///
    /// The split is in the middle, unless keys ascend or descend; then the full node stays full. Keys ascend if `new`
    /// lies beyond all others at the end of the chain, or in a node that was itself begun by an ascending split: the
    /// right node begins with `new`. Keys descend if `new` lies before all others at the start of the chain: all others
    /// move to the right.
    fn split<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        level: u16,
        new: (RefOf<'_, N>, u64),
    ) -> Result<(Locked<'c, N>, Option<usize>), Fault> {
        let block = self.take_for_split(left)?;
        let (at, range) = (self.block(left.at), left.range());
        let entry = N::Keys::entry(at, range, new.0, new.1);
        let mut entries = self.entries(left);
        let len = entries.len();
        let i = N::Keys::position(at.pool, &entries, entry);
        let is_last = i == len;
        let ascends = is_last && (N::Keys::is_last(range) || left.was.is_appended());
        let descends = i == 0 && N::Keys::is_first(range);
        let middle = match (ascends, descends) {
            (true, _) => len,
            (_, true) => 0,
            _ => len / 2,
        };
        let with_new = i > middle || ascends;
        entries.insert(i, entry);
        let cut = if with_new { middle } else { middle + 1 };
        let border = N::Keys::split_low(at, range, false, &mut entries, cut);
        let right = self.cut_off(left, block, level, &border, &entries[cut..], is_last)?;
        let place = if with_new { None } else { self.search(left, new.0).err() };
        Ok((right, place))
    }

    /// Takes the block for a new right neighbour. Requests it, and whatever else a split reads or writes last, so that
    /// these are there when the entries have been sorted.
    fn take_for_split(&self, left: &Locked<'_, N>) -> Result<TakenBlock, Fault> {
        let next = self.medium().load(left.at + NEXT);
        if self.has(next) {
            self.medium().hint(next, LINE, Hint::Soon);
        }
        let block = self.take_first()?;
        self.prefetch_all(block.at);
        Ok(block)
    }

    /// Gives the entries from `border` on to a new right neighbour, in this block. It gets the entries in `moved`:
    /// these, and perhaps new ones.
    fn cut_off<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        block: TakenBlock,
        level: u16,
        border: &NewLowOf<N>,
        moved: &[Entry],
        is_appended: bool,
    ) -> Result<Locked<'c, N>, Fault> {
        let next = self.next(left.at).inspect_err(|_| self.give_back(block))?;
        let (at, range) = (self.block(left.at), left.range());
        // Crash, until the commit: a block that no chain reaches; it counts as free.
        let draft = Draft {
            level,
            low: border,
            range: N::Keys::above(at.pool, range, next, border),
            next: next.unwrap_or(0),
            entries: moved,
        };
        let mut right = self.fill_first(block, draft)?;
        self.stamp_like(&right, left);
        self.medium().fence(Step::SplitFill);
        self.link(left, right.at);
        left.set_range(N::Keys::below(at, range, border));
        N::Ops::truncate_after_split(self.locked(left), border, moved);
        if is_appended {
            right.was = right.was.appended();
        }
        self.tally.splits.add_one();
        Ok(right)
    }

    /// Splits a node that has no room for the entries in `new`, which ascend, and are not in it. Afterwards it has room
    /// for those that it still owns. The content of the tree does not change. Returns the right node, which the caller
    /// must post to the index, and which may have to be split in turn. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// As for a split.
    pub(crate) fn split_for<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        new: &[(RefOf<'_, N>, u64)],
    ) -> Result<Locked<'c, N>, Fault> {
        let block = self.take_for_split(left)?;
        let (at, range) = (self.block(left.at), left.range());
        let mut entries = self.entries(left);
        let own = entries.len();
        // More of them decide nothing about the first split.
        let new = &new[..new.len().min(2 * N::SLOTS)];
        let mut is_new = vec![false; own];
        for &(key, value) in new {
            let entry = N::Keys::entry(at, range, key, value);
            let i = N::Keys::position(at.pool, &entries, entry);
            entries.insert(i, entry);
            is_new.insert(i, true);
        }
        let is_last = !is_new[..own].contains(&true);
        let ascends = is_last && (N::Keys::is_last(range) || left.was.is_appended());
        let cut = if ascends { N::SLOTS } else { (entries.len() / 2).min(N::SLOTS * 3 / 4) };
        let border = N::Keys::split_low(at, range, false, &mut entries, cut);
        let moved = entries[cut..].iter().zip(&is_new[cut..]).filter(|&(_, is_new)| !is_new);
        let moved: Vec<Entry> = moved.map(|(&entry, _)| entry).collect();
        self.cut_off(left, block, 0, &border, &moved, is_last)
    }

    /// Merges two neighbours into one node, or moves entries between them: with `in_left`, until the left one has so
    /// many, and without it, if they do not fit into one, until both have as many. The change is durable when this
    /// returns.
    ///
    /// The caller must have durably withdrawn the right node from the index. Returns the right node that must be posted
    /// to the index now, if there is one.
    pub(crate) fn join<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        right: Locked<'c, N>,
        level: u16,
        in_left: Option<usize>,
    ) -> Result<Option<u64>, Fault> {
        if N::Keys::MARKS_LAG {
            // The index has forgotten the right node. If that stays, because of an error, it lags.
            left.change();
            left.set_range(N::Keys::lagging(left.range(), true));
        }
        let newest = self.newest();
        // Each of the two takes over keys of the other.
        self.freeze(left, newest);
        self.freeze(&right, newest);
        self.stamp_both(left, &right);
        if in_left.is_none() && self.fit_in_one(left, &right) {
            self.merge(left, right)?;
            return Ok(None);
        }
        let at = right.at;
        match self.redistribute(left, right, level, in_left) {
            Ok(new) => Ok(Some(new.at)),
            // There is no space to redistribute: everything stays where it was.
            Err(fault) if fault.is_out_of_space() => Ok(Some(at)),
            Err(error) => Err(error),
        }
    }

    /// Whether two neighbours fit into one node, with some of its slots left free.
    pub(crate) fn fit_in_one(&self, left: &Locked<'_, N>, right: &Locked<'_, N>) -> bool {
        N::POLICY.merging.fit(self.len(left), self.len(right), N::SLOTS)
    }

    /// Moves all entries of right into left and frees right. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// The lines of the entries copied, one header, and two fences.
    fn merge(&self, left: &mut Locked<'_, N>, right: Locked<'_, N>) -> Result<(), Fault> {
        let next = self.next(right.at)?;
        let wider = N::Keys::joined(self.block(left.at), left.range(), right.range(), next);
        left.change();
        N::Ops::prefill(self.locked(left), wider, &self.entries(&right));
        // Crash: copies that left does not own. Of words these are empty slots; of byte strings, B1 settles them.
        self.medium().fence(Step::JoinPrefill);
        self.take_out(left, right, next, wider);
        Ok(())
    }

    /// Redistributes the entries of two neighbours, so that left has `in_left` of them, or half: right is replaced by a
    /// new node with another `low`. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// The lines of the new node, of the entries that move left, and one header; two fences.
    fn redistribute<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        right: Locked<'c, N>,
        level: u16,
        in_left: Option<usize>,
    ) -> Result<Locked<'c, N>, Fault> {
        let (at, range) = (self.block(left.at), left.range());
        let mut all = self.entries(left);
        let before = all.len();
        all.extend(self.entries(&right));
        let share = in_left.unwrap_or(all.len() / 2);
        let next = self.next(right.at)?;
        let border = N::Keys::split_low(at, range, true, &mut all, share);
        let narrower = N::Keys::below(at, range, &border);
        // Crash, until the commit: a block that no chain reaches, and copies that left does not own, as in a join.
        let new = self.create_of(
            self.lines(&right),
            For::Exchange,
            Draft {
                level,
                low: &border,
                range: N::Keys::above(at.pool, right.range(), next, &border),
                next: next.unwrap_or(0),
                entries: &all[share..],
            },
        )?;
        self.stamp_like(&new, &right);
        left.change();
        let moved = all.get(before..share).unwrap_or_default();
        N::Ops::prefill(self.locked(left), narrower, moved);
        self.medium().fence(Step::ShareFill);
        self.link(left, new.at);
        left.set_range(narrower);
        N::Ops::truncate_after_split(self.locked(left), &border, &all[share..]);
        self.free(right);
        Ok(new)
    }
}

impl<N: WordNode<Ops: SplitInPlace>, M: Medium> Chain<N, M> {
    /// As [`insert_by_split`](Self::insert_by_split), within a batch. The entry that goes into the left half is durable
    /// once the returned lines (a bitmask) are flushed and fenced. The first line of the left node, which holds the
    /// link, is already durable.
    pub(crate) fn put_by_split<'c>(
        &'c self,
        left: &mut Locked<'c, N>,
        level: u16,
        new: Entry,
    ) -> Result<(Locked<'c, N>, u64), Fault> {
        let (right, place) = self.split(left, level, new)?;
        let dirty = place.map_or(0, |place| self.upsert(left, Err(place), new));
        Ok((right, dirty))
    }
}

/// How many nodes may come between a node and the one that was its right neighbour, before nobody looks any further.
const BETWEEN: usize = 64;

impl<N: Node, M: Medium> Chain<N, M> {
    /// Notes in the left neighbour of the node at `at` that the index knows this node. The left neighbour is the node
    /// at `from`, or one that a split put between the two. The caller keeps nodes from leaving the chain. False if the
    /// left neighbour is not found from there: the node at `from` may have left the chain before.
    pub(crate) fn caught_up(&self, from: u64, at: u64) -> Result<bool, Broken> {
        if !N::Keys::MARKS_LAG {
            return Ok(true);
        }
        let mut here = from;
        for _ in 0..BETWEEN {
            let Some(mut node) = self.lock(here)? else { break };
            match self.next(here)? {
                Some(next) if next == at => {
                    self.note_posted(&mut node);
                    return Ok(true);
                }
                Some(next) => here = next,
                None => break,
            }
        }
        Ok(false)
    }

    /// Notes in a node that the index knows its right neighbour.
    pub(crate) fn note_posted(&self, left: &mut Locked<'_, N>) {
        left.change();
        left.set_range(N::Keys::lagging(left.range(), false));
    }

    /// Takes the right neighbour out of the chain and frees it. Those of its entries that must be kept are already in
    /// `left`. The change is durable when this returns.
    ///
    /// # Complexity
    ///
    /// One header and one fence.
    pub(crate) fn unlink(&self, left: &mut Locked<'_, N>, right: Locked<'_, N>) -> Result<(), Fault> {
        let next = self.next(right.at)?;
        let wider = N::Keys::joined(self.block(left.at), left.range(), right.range(), next);
        self.take_out(left, right, next, wider);
        Ok(())
    }

    /// Takes `right`, the right neighbour of `left`, out of the chain and frees it. `next` is the right neighbour of
    /// `right`, and `wider` the range of both nodes.
    fn take_out(&self, left: &mut Locked<'_, N>, right: Locked<'_, N>, next: Option<u64>, wider: RangeOf<N>) {
        self.link(left, next.unwrap_or(0));
        left.set_range(wider);
        self.free(right);
        self.tally.merges.add_one();
    }
}
