//! New leaves in the place of old ones: copy on write, and what makes room in a leaf that only ever grows.
//!
//! | change | prepare (invisible) | commit |
//! |---|---|---|
//! | replace one leaf, or two neighbours, by one or two | fill the new leaves | `left.next = new` |
//!
//! `left` is the leaf on the left, or the root entry's `head`. The new leaves are locked until they are in the chain, and
//! the index is told before that: so who comes from the index waits, and never finds that the leaf it knows is gone.

use super::Core;
use crate::chain::Locked;
use crate::delay::delay;
use crate::error::{Broken, Error, Result};
use crate::medium::Medium;
use crate::node::{Entry, InNode, Node, Span};
use crate::sync::Ordering;

/// What points to a leaf of the chain.
enum Left<'t, A> {
    /// The root entry.
    Root,
    /// The left neighbour.
    Leaf(Locked<'t, A>),
}

impl<N: Node, M: Medium> Core<N, M> {
    /// Makes a change by a copy of the leaf, if that costs less; else, or if somebody is in the way, gives the leaf back.
    #[inline(always)]
    pub(super) fn by_copy<'t>(
        &'t self,
        leaf: Locked<'t, N::Aid>,
        change: InNode,
        entry: Entry,
    ) -> Result<Option<Locked<'t, N::Aid>>> {
        if N::COPIES && self.leaves.copies(&leaf, change) { self.copied(leaf, change, entry) } else { Ok(Some(leaf)) }
    }

    #[cold]
    fn copied<'t>(
        &'t self,
        leaf: Locked<'t, N::Aid>,
        change: InNode,
        entry: Entry,
    ) -> Result<Option<Locked<'t, N::Aid>>> {
        let mut entries = self.leaves.entries(&leaf);
        let i = entries.partition_point(|other| other.0 < entry.0);
        match change {
            InNode::Insert(_) => entries.insert(i, entry),
            InNode::Remove(_) => drop(entries.remove(i)),
        }
        let removed = matches!(change, InNode::Remove(_));
        // A nearly empty leaf merges: in place.
        if removed && entries.len() * 4 <= N::SLOTS {
            return Ok(Some(leaf));
        }
        let in_two = entries.len() > N::SLOTS;
        let parts = if in_two { entries.split_at(entries.len() / 2) } else { (&entries[..], &[][..]) };
        let count = &self.leaves.count;
        self.copy(leaf, parts, || if removed { count.sub_one() } else { count.add(1) })
    }

    /// Replaces a leaf by one or two, without waiting for anybody: that could be for ever, with a lock in hand.
    fn copy<'t>(
        &'t self,
        old: Locked<'t, N::Aid>,
        parts: (&[Entry], &[Entry]),
        count: impl FnOnce(),
    ) -> Result<Option<Locked<'t, N::Aid>>> {
        let Some(_restructuring) = self.restructuring.try_lock() else { return Ok(Some(old)) };
        let low = old.span().low();
        let left = if low == 0 {
            Left::Root
        } else {
            let hint = self.directory.floor(low - 1);
            let hint = hint.filter(|&at| self.leaves.validate(at, self.root.index_at()).is_ok());
            let left = hint.and_then(|at| self.lock_owner_at_once(at, low - 1));
            match left.filter(|left| left.span().high() == low) {
                Some(left) => Left::Leaf(left),
                None => return Ok(Some(old)),
            }
        };
        match self.replace_leaf(left, old, None, parts, count) {
            Ok(()) => Ok(None),
            // In place there may be room.
            Err((old, Error::OutOfSpace { .. })) => Ok(Some(old)),
            Err((_, error)) => Err(error),
        }
    }

    /// Makes room for `takes` slots in the leaf that owns the key, by new leaves with what is worth keeping of it: two, if
    /// that is half a leaf or more; else one, together with the right neighbour if that has little in it.
    #[cold]
    pub(super) fn renew(&self, key: u64, takes: usize) -> Result<()> {
        let _restructuring = self.restructuring.lock();
        // Such leaves come and go under `restructuring` only, so a leaf's neighbours stay its neighbours.
        let low = self.lock_owner(key)?.span().low();
        let (left, old) = if low == 0 {
            (Left::Root, self.lock_owner(key)?)
        } else {
            // By the chain: the index may lag, and lead to the leaf that is locked.
            let left = self.lock_owner(low - 1)?;
            let next = self.named(self.leaves.next(left.at))?;
            let old = next.map(|next| self.named(self.leaves.lock(next))).transpose()?.flatten();
            let lost = || Broken::new(left.at, "N1: the chain does not lead to the key's owner");
            let old = self.named(old.filter(|old| old.span().contains(key)).ok_or_else(lost))?;
            (Left::Leaf(left), old)
        };
        if self.leaves.room(&old) >= takes {
            return Ok(());
        }
        let mut entries = self.leaves.entries(&old);
        let slots = self.leaves.slots(&old);
        let mut beyond = None;
        let parts = if entries.len() * 2 >= slots && entries.len() > 1 {
            entries.split_at(entries.len() / 2)
        } else {
            if let Some(next) = self.named(self.leaves.next(old.at))?
                && let Some(right) = self.named(self.leaves.lock(next))?
                // The tail, which owns MAX, stays.
                && right.span().low() < u64::MAX
                && self.leaves.taken(&right) * 2 <= self.leaves.slots(&right)
                && (entries.len() + self.leaves.len(&right)) * 4 <= slots * 3
                && self.directory.may_withdraw(right.span().low())?
            {
                entries.extend(self.leaves.entries(&right));
                beyond = Some(right);
            }
            (&entries[..], &[][..])
        };
        self.replace_leaf(left, old, beyond, parts, || ()).map_err(|(_, error)| error)
    }

    /// Puts one leaf, or two, in the place of `old`, or of `old` and its right neighbour `beyond`. Durable when it returns.
    ///
    /// With an error, gives `old` back; nothing has changed.
    fn replace_leaf<'t>(
        &'t self,
        mut left: Left<'t, N::Aid>,
        old: Locked<'t, N::Aid>,
        beyond: Option<Locked<'t, N::Aid>>,
        parts: (&[Entry], &[Entry]),
        count: impl FnOnce(),
    ) -> std::result::Result<(), (Locked<'t, N::Aid>, Error)> {
        let (leaves, m) = (&self.leaves, self.medium());
        let (new, right) = match self.prepare(&old, beyond.as_ref(), parts) {
            Ok(prepared) => prepared,
            Err(error) => return Err((old, error)),
        };
        // Crash: the index lags behind the chain, or names a leaf that was never in it; both is repaired.
        let told = match &beyond {
            Some(beyond) => self.directory.withdraw(beyond.span().low()),
            None => Ok(()),
        };
        let low = new.span().low();
        // The index does not know the tail.
        let repoint = || if low < u64::MAX { self.directory.repoint(low, new.at) } else { Ok(()) };
        if let Err(error) = told.and_then(|()| repoint()) {
            [Some(new), right].into_iter().flatten().for_each(|new| leaves.free(new));
            return Err((old, error));
        }
        // Crash: blocks that no chain reaches.
        m.fence();
        delay();
        match &mut left {
            Left::Root => {
                self.root.set_head(m, new.at);
                delay();
                self.head.store(new.at, Ordering::Release);
            }
            Left::Leaf(left) => leaves.link(left, new.at),
        }
        leaves.free(old);
        beyond.into_iter().for_each(|beyond| leaves.free(beyond));
        count();
        let posted = right.as_ref().map(|right| (right.span().low(), right.at));
        drop((left, new, right));
        if let Some((low, at)) = posted {
            self.lag(self.directory.post(low, at));
        }
        Ok(())
    }

    /// The new leaves, flushed; nothing points to them.
    #[expect(clippy::type_complexity, reason = "a leaf, and perhaps another")]
    fn prepare<'t>(
        &'t self,
        old: &Locked<'t, N::Aid>,
        beyond: Option<&Locked<'t, N::Aid>>,
        (entries, in_right): (&[Entry], &[Entry]),
    ) -> Result<(Locked<'t, N::Aid>, Option<Locked<'t, N::Aid>>)> {
        let leaves = &self.leaves;
        let last = beyond.unwrap_or(old);
        let (mut high, mut next) = (last.span().high(), self.named(leaves.next(last.at))?.unwrap_or(0));
        let lines = leaves.lines(old);
        let mut right = None;
        if let Some(&(border, _)) = in_right.first() {
            let leaf = leaves.create_of(lines, 0, Span::new(border, high), next, in_right)?;
            (high, next) = (border, leaf.at);
            right = Some(leaf);
        }
        match leaves.create_of(lines, 0, Span::new(old.span().low(), high), next, entries) {
            Ok(new) => {
                let heirs = 1 + usize::from(right.is_some());
                [Some(&new), right.as_ref()].into_iter().flatten().for_each(|heir| leaves.inherit(heir, old, heirs));
                Ok((new, right))
            }
            Err(error) => {
                right.into_iter().for_each(|right| leaves.free(right));
                Err(error)
            }
        }
    }
}
