//! New leaves in the place of old ones: copy on write, and what makes room in a leaf that only ever grows.
//!
//! | change | prepare (invisible) | commit |
//! |---|---|---|
//! | replace one leaf, or two neighbours, by one or two | fill the new leaves | `left.next = new` |
//!
//! `left` is the leaf on the left, or the root entry's `head`. The new leaves are locked until they are in the chain, and
//! the index is told before that: so who comes from the index waits, and never finds that the leaf it knows is gone.

use super::{Change, Core};
use crate::chain::{For, Locked};
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

/// What points to a leaf, and the leaf.
type WithLeft<'t, A> = (Left<'t, A>, Locked<'t, A>);

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
        let lines = self.leaves.size(&old);
        match self.replace_leaf(left, old, None, parts, lines, count) {
            Ok(()) => Ok(None),
            // In place there may be room.
            Err((old, Error::OutOfSpace { .. })) => Ok(Some(old)),
            Err((_, error)) => Err(error),
        }
    }

    /// Locks the leaf that owns the key, and what points to it. The caller holds `restructuring`, under which alone leaves of a
    /// layout that renews them come and go.
    fn lock_with_left(&self, key: u64) -> Result<WithLeft<'_, N::Aid>> {
        let owner = self.lock_owner(key)?;
        let (low, at) = (owner.span().low(), owner.at);
        drop(owner);
        // By the chain: the index may lag, and lead to the leaf that is locked.
        let (left, old) = if low == 0 {
            (Left::Root, self.named(self.leaves.lock(self.head()))?)
        } else {
            let left = self.lock_owner(low - 1)?;
            let old = self.lock_next(&left)?;
            (Left::Leaf(left), old)
        };
        // No other leaf that owns the key, either: there the caller finds what sent it here no more, and comes again, for ever.
        let lost = || Broken::new(at, "N1: the chain does not lead to the key's owner");
        let old = self.named(old.filter(|old| old.at == at).ok_or_else(lost))?;
        Ok((left, old))
    }

    /// Locks the right neighbour.
    fn lock_next(&self, leaf: &Locked<'_, N::Aid>) -> Result<Option<Locked<'_, N::Aid>>> {
        let next = self.named(self.leaves.next(leaf.at))?;
        Ok(next.map(|next| self.named(self.leaves.lock(next))).transpose()?.flatten())
    }

    /// Locks the right neighbour, if it may leave the chain.
    fn lock_to_join(&self, leaf: &Locked<'_, N::Aid>) -> Result<Option<Locked<'_, N::Aid>>> {
        let Some(right) = self.lock_next(leaf)? else { return Ok(None) };
        let low = right.span().low();
        // The tail, which owns MAX, stays.
        let may = low < u64::MAX && self.directory.may_withdraw(low)?;
        Ok(may.then_some(right))
    }

    /// Whether two leaves fit into one as large as the larger one, with room left for a quarter.
    fn fit(&self, left: &Locked<'_, N::Aid>, right: &Locked<'_, N::Aid>) -> bool {
        let slots = self.leaves.slots(left).max(self.leaves.slots(right));
        (self.leaves.len(left) + self.leaves.len(right)) * 4 <= slots * 3
    }

    /// Makes room for `takes` slots in the leaf that owns the key. Where there is no space for that, it makes the change at
    /// once, and then returns the value that the key had.
    #[cold]
    pub(super) fn renew(
        &self,
        key: u64,
        takes: usize,
        decide: &mut dyn FnMut(Option<u64>) -> Change,
    ) -> Result<Option<Option<u64>>> {
        for resized in [true, false] {
            match self.make_room(key, takes, resized) {
                Err(Error::OutOfSpace { .. }) => {}
                made => return made.map(|()| None),
            }
        }
        self.change_by_renewal(key, decide).map(Some)
    }

    /// Changes the entry of a key by a copy of its leaf, in a block of the same size: there is one in reserve. An insert into a
    /// leaf that is full of entries is all that fails for want of space.
    fn change_by_renewal(&self, key: u64, decide: &mut dyn FnMut(Option<u64>) -> Change) -> Result<Option<u64>> {
        let leaves = &self.leaves;
        let restructuring = self.restructuring.lock();
        let (left, old) = self.lock_with_left(key)?;
        let found = leaves.search(&old, key).ok().map(|place| leaves.value(&old, place));
        let mut entries = leaves.entries(&old);
        let i = entries.partition_point(|entry| entry.0 < key);
        let is_removal = match (decide(found), found) {
            (Change::Keep, _) | (Change::Remove, None) => return Ok(found),
            (Change::Remove, Some(_)) => {
                entries.remove(i);
                true
            }
            (Change::Put(value), Some(_)) => {
                entries[i].1 = value;
                false
            }
            (Change::Put(value), None) => {
                entries.insert(i, (key, value));
                false
            }
        };
        let count = || match found {
            Some(_) if is_removal => leaves.count.sub_one(),
            Some(_) => {}
            None => leaves.count.add(1),
        };
        let lines = leaves.size(&old);
        // What does not fit needs a block more.
        let in_two = entries.len() > leaves.slots(&old);
        let parts = if in_two { entries.split_at(entries.len() / 2) } else { (&entries[..], &[][..]) };
        self.replace_leaf(left, old, None, parts, lines, count).map_err(|(_, error)| error)?;
        drop(restructuring);
        if is_removal {
            self.lag(self.gather(key));
        }
        Ok(found)
    }

    /// Makes room by new leaves with what is worth keeping of the old one: two, if that is half a leaf or more; else one,
    /// together with the right neighbour if that has little in it. They may have another size than the old one.
    fn make_room(&self, key: u64, takes: usize, resized: bool) -> Result<()> {
        let _restructuring = self.restructuring.lock();
        let (left, old) = self.lock_with_left(key)?;
        if self.leaves.room(&old) >= takes {
            return Ok(());
        }
        let mut entries = self.leaves.entries(&old);
        let slots = self.leaves.slots(&old);
        let mut beyond = None;
        let parts = if entries.len() * 2 >= slots && entries.len() > 1 {
            entries.split_at(entries.len() / 2)
        } else {
            let has_little = |right: &Locked<'_, N::Aid>| {
                let both = entries.len() + self.leaves.len(right);
                self.leaves.taken(right) * 2 <= self.leaves.slots(right) && both * 4 <= slots * 3
            };
            beyond = self.lock_to_join(&old)?.filter(has_little);
            entries.extend(beyond.iter().flat_map(|right| self.leaves.entries(right)));
            (&entries[..], &[][..])
        };
        let lines = if resized { self.leaves.lines(&old) } else { self.leaves.size(&old) };
        self.replace_leaf(left, old, beyond, parts, lines, || ()).map_err(|(_, error)| error)
    }

    /// Whether the leaf that begins at `low` may go into its left neighbour.
    fn may_leave(&self, low: u64) -> Result<bool> {
        // The tail, which owns MAX, stays.
        Ok(low > 0 && low < u64::MAX && self.directory.may_withdraw(low)?)
    }

    /// Makes the sparse leaf that owns the key one with a neighbour, in a layout that renews its leaves; if neither has room
    /// for it, renews it alone. An empty leaf leaves the chain unless both neighbours have another parent.
    #[cold]
    pub(super) fn gather(&self, key: u64) -> Result<()> {
        let _restructuring = self.restructuring.lock();
        let leaves = &self.leaves;
        let (mut left, old) = self.lock_with_left(key)?;
        if !leaves.is_sparse(&old) {
            return Ok(());
        }
        let low = old.span().low();
        let is_empty = leaves.len(&old) == 0;
        let may_leave = self.may_leave(low)?;
        if let Left::Leaf(left) = &mut left
            && is_empty
            && may_leave
        {
            // Before it leaves the chain. Crash: the index lags, a search moves right from the left neighbour.
            self.directory.withdraw(low)?;
            leaves.unlink(left, old);
            return Ok(());
        }
        // What an empty leaf adds to a neighbour is nothing.
        if let Some(right) = self.lock_to_join(&old)?.filter(|right| is_empty || self.fit(&old, right)) {
            return self.join_renewed(left, old, right);
        }
        if let Left::Leaf(leaf) = &left
            && may_leave
            && self.fit(leaf, &old)
        {
            drop((left, old));
            let (left, old) = self.lock_with_left(low - 1)?;
            // Others may have filled them meanwhile.
            return match self.lock_to_join(&old)?.filter(|right| self.fit(&old, right)) {
                Some(right) => self.join_renewed(left, old, right),
                None => Ok(()),
            };
        }
        let entries = leaves.entries(&old);
        let lines = leaves.size(&old);
        self.replace_leaf(left, old, None, (&entries, &[]), lines, || ()).map_err(|(_, error)| error)
    }

    /// Makes one leaf of two neighbours, as large as the larger one.
    fn join_renewed<'t>(
        &'t self,
        left: Left<'t, N::Aid>,
        old: Locked<'t, N::Aid>,
        right: Locked<'t, N::Aid>,
    ) -> Result<()> {
        let mut entries = self.leaves.entries(&old);
        entries.extend(self.leaves.entries(&right));
        let lines = self.leaves.size(&old).max(self.leaves.size(&right));
        self.replace_leaf(left, old, Some(right), (&entries, &[]), lines, || ()).map_err(|(_, error)| error)
    }

    /// Puts one leaf, or two, of so many lines in the place of `old`, or of `old` and its right neighbour `beyond`. Durable when it returns.
    ///
    /// With an error, gives `old` back; nothing has changed.
    fn replace_leaf<'t>(
        &'t self,
        mut left: Left<'t, N::Aid>,
        old: Locked<'t, N::Aid>,
        beyond: Option<Locked<'t, N::Aid>>,
        parts: (&[Entry], &[Entry]),
        lines: u32,
        count: impl FnOnce(),
    ) -> std::result::Result<(), (Locked<'t, N::Aid>, Error)> {
        let (leaves, m) = (&self.leaves, self.medium());
        let (new, right) = match self.prepare(&old, beyond.as_ref(), parts, lines) {
            Ok(prepared) => prepared,
            Err(error) => return Err((old, error)),
        };
        // Crash: the index lags behind the chain, or names a leaf that was never in it; both is repaired.
        let told = match &beyond {
            Some(beyond) => self.directory.withdraw(beyond.span().low()),
            None => Ok(false),
        };
        let low = new.span().low();
        // The index does not know the tail.
        let repoint = || if low < u64::MAX { self.directory.repoint(low, new.at) } else { Ok(false) };
        let fenced = match told.and_then(|told| Ok(repoint()? | told)) {
            Ok(fenced) => fenced,
            Err(error) => {
                [Some(new), right].into_iter().flatten().for_each(|new| leaves.free(new));
                return Err((old, error));
            }
        };
        // Crash: blocks that no chain reaches.
        if !fenced {
            m.fence();
        }
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
        lines: u32,
    ) -> Result<(Locked<'t, N::Aid>, Option<Locked<'t, N::Aid>>)> {
        let leaves = &self.leaves;
        let last = beyond.unwrap_or(old);
        let (mut high, mut next) = (last.span().high(), self.named(leaves.next(last.at))?.unwrap_or(0));
        // The first leaf takes the place of an old one; with a second one there is one more.
        let purpose = match beyond.map(|beyond| leaves.in_place_of(beyond, lines)) {
            Some(For::Exchange) => For::Exchange,
            _ => leaves.in_place_of(old, lines),
        };
        let mut right = None;
        if let Some(&(border, _)) = in_right.first() {
            let leaf = leaves.create_of(lines, For::Growth, 0, Span::new(border, high), next, in_right)?;
            (high, next) = (border, leaf.at);
            right = Some(leaf);
        }
        match leaves.create_of(lines, purpose, 0, Span::new(old.span().low(), high), next, entries) {
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
