//! Trees as snapshots see them: in their leaves where these have not changed since, and in frozen leaves where they
//! have.

use super::range::{Unread, no_less};
use super::{Form, LeafEntries, TreeNode, TreeState};
use crate::error::Fault;
use crate::medium::Medium;
use crate::node::{Keys, NoLess};
use crate::pool::blocks::Blocks;
use crate::pool::records::Reading;
use crate::pool::{AnyTree, Compacted, Measured, TreeMetrics, together};
use crate::sync::tally::Tallies;
use std::cmp::Ordering;
use std::ops::RangeBounds;

impl<N: TreeNode, M: Medium> AnyTree for TreeState<N, M> {
    fn thaw(&self, open: &[u64]) {
        let thawed = self.leaves.frozen.thaw(open);
        self.pool.instants.gave_back(thawed.memory);
        if !thawed.retired.is_empty() {
            self.retire(thawed.retired);
        }
    }

    fn is_in_snapshots_since(&self, oldest: u64) -> bool {
        self.born >= oldest || !self.leaves.frozen.is_empty()
    }

    fn rename(&self, name: String) {
        *self.name.lock() = name;
    }

    fn collect(&self) -> bool {
        let Some(records) = &self.leaves.records else { return false };
        records.collect(&self.pool.medium, &self.pool.segments);
        // What snapshots keep does not come back by itself; what transactions keep in their own does.
        records.has_retired() || self.pool.instants.has_moments() && self.leaves.frozen.has_retired()
    }

    fn measure(&self) -> Measured {
        let chain = &self.leaves;
        let (keys, leaves) = together(|| chain.count.is_whole().then(|| chain.count.sum()), || chain.in_use());
        // The tail of a tree of words holds at most the key MAX.
        let filled = if N::Keys::tail_low().is_some() { leaves.saturating_sub(1) } else { leaves };
        let slots = (chain.blocks().len() == 1).then(|| filled.max(1) as f64 * N::SLOTS as f64);
        let Tallies { splits, merges, retries, waits } = &*chain.tally;
        Measured {
            tree: TreeMetrics {
                name: self.name(),
                keys,
                leaves,
                fill: keys.zip(slots).map(|(keys, slots)| (keys as f64 / slots).min(1.0)),
                memory: self.memory(),
                splits: splits.get(),
                merges: merges.get(),
                retries: retries.get(),
                lock_waits: waits.get(),
            },
            reusable: self.classes().map(Blocks::spare).sum(),
        }
    }

    fn compact(&self) -> Result<Compacted, Fault> {
        self.compact()
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// The word that a key had at an instant. `reading` has begun before.
    pub(crate) fn get_at(
        &self,
        key: &<N::Keys as Keys>::Key,
        instant: u64,
        reading: Option<&Reading<'_, M>>,
    ) -> Result<Option<u64>, Fault> {
        if self.born >= instant {
            return Ok(None);
        }
        let (leaves, searched) = (&self.leaves, N::Keys::as_ref(key));
        let unchanged =
            self.with_owner(searched, |view| leaves.is_as_at(view, instant).then(|| leaves.value_in(view, searched)))?;
        if let Some(word) = unchanged {
            return Ok(word);
        }
        let leaf = leaves.frozen.find(instant, searched).ok_or_else(|| self.pool.instants.too_old())?;
        let (mut from, mut to) = (0, leaf.entries.len());
        while from < to {
            let middle = from.midpoint(to);
            let entry = leaf.entries[middle];
            match N::Keys::with_key(entry, reading, |found| found.cmp(key))? {
                Ordering::Less => from = middle + 1,
                Ordering::Greater => to = middle,
                Ordering::Equal => return Ok(Some(entry.1)),
            }
        }
        Ok(None)
    }

    /// Reads the entries that the first or the last leaf of an interval had at an instant. Returns what is left of the
    /// interval. `reading` has begun before.
    pub(crate) fn read_at(
        &self,
        unread: Unread<N>,
        from_left: bool,
        instant: u64,
        reading: Option<&Reading<'_, M>>,
        read: &mut LeafEntries<N::Keys>,
    ) -> Result<Option<Unread<N>>, Fault> {
        let LeafEntries { entries, bounds, asker } = read;
        entries.clear();
        if self.born >= instant {
            return Ok(None);
        }
        let edges = &mut bounds.edges;
        let leaves = &self.leaves;
        let key = if from_left { unread.first() } else { unread.last() };
        let unchanged = self.with_owner(key, |view| {
            let count = leaves.is_as_at(view, instant).then(|| leaves.entries_in(view, unread.span(), entries));
            leaves.note_edges(view, leaves.next_of(view), edges);
            (count, view.at)
        })?;
        let rest = |unread: Unread<N>, edges: &_| match from_left {
            true => unread.beyond(edges),
            false => unread.up_to(edges),
        };
        let (count, at) = unchanged;
        let rest = if let Some(count) = count {
            entries.truncate(count);
            rest(unread, edges)
        } else {
            let leaf = leaves.frozen.find(instant, key).ok_or_else(|| self.pool.instants.too_old())?;
            edges.clone_from(&leaf.edges);
            entries.clear();
            for &entry in &leaf.entries {
                // An entry that has not the head of its key stays, because the read of its key reports it.
                let is_shown = |key: &_| unread.bounds().contains(key) || !N::Keys::has_head(edges, entry.0, key);
                if N::Keys::with_key(entry, reading, is_shown)? {
                    entries.push(entry);
                }
            }
            rest(unread, edges)
        };
        bounds.note(entries);
        let rest = rest.map_err(|NoLess| no_less(at))?;
        asker.pass(self, (at, entries), rest.as_ref(), from_left);
        Ok(rest)
    }
}
