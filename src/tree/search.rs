//! Finding the leaf of a key, for readers and for writers.

use super::directory::Directory;
use super::range::{Edges, Unread, no_less};
use super::{LeafEntries, Range, TreeNode, TreeState};
use crate::chain::{Locked, Met, NodeView};
use crate::error::{Broken, Fault};
use crate::index::GROUP;
use crate::medium::Medium;
use crate::node::shadow::Version;
use crate::node::{Entry, Keys, LOW, NoLess, RangeOf, RefOf, Side};
use crate::sync::delay::{Validation, delay, is_left_out};

/// A leaf, and the version under which something was seen in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) at: u64,
    pub(crate) version: Version,
}

impl Seen {
    fn of<N: TreeNode>(view: &NodeView<'_, N>) -> Self {
        Self { at: view.at, version: view.version() }
    }
}

/// After losing this many races, a reader locks its leaf, and a writer searches while no leaf can leave the chain.
const PATIENCE: usize = 64;

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// The leaf from which to start the search for a key.
    #[inline]
    fn start(&self, key: RefOf<'_, N>) -> u64 {
        let hint = self.directory.floor(key);
        if hint.is_none() && self.directory.is_lost() {
            self.relearn();
        }
        hint.unwrap_or_else(|| self.head())
    }

    /// The leaf from which to start the search for a key, for a thread that has locked leaves, and therefore must not
    /// wait for what other threads do to the index.
    pub(super) fn start_in_hand(&self, key: RefOf<'_, N>) -> u64 {
        self.directory.floor(key).unwrap_or_else(|| self.head())
    }

    /// How the key lies to a node that the search has come to. `least` is the smallest low that this node may
    /// have, given its left neighbour. `None`: the node has a smaller one. It has become another node, and would lead
    /// the search astray.
    #[inline]
    fn side(
        &self,
        key: RefOf<'_, N>,
        at: u64,
        range: RangeOf<N>,
        least: &mut <N::Keys as Keys>::Least,
    ) -> Result<Option<Side>, Broken> {
        let side = self.leaves.side(at, range, key)?;
        if side == Side::Within {
            return Ok(Some(side));
        }
        let ascends = N::Keys::ascends_from(self.leaves.block(at), range, least);
        if side == Side::Left && at == self.head() {
            return Err(Broken::new(at + LOW, "N1: the chain starts with the leaf that owns the least key"));
        }
        Ok(Some(side).filter(|_| ascends))
    }

    /// The right neighbour of a node that does not own the key.
    #[inline]
    fn right_of(&self, at: u64) -> Result<u64, Broken> {
        self.leaves.next(at)?.ok_or_else(|| Broken::new(at, "N1: the chain ends before the key"))
    }

    /// Reads in the leaf that owns the key. `read` may see a torn state; its result is then discarded.
    #[inline(always)]
    pub(super) fn with_owner<R>(
        &self,
        key: RefOf<'_, N>,
        mut read: impl FnMut(&NodeView<'_, N>) -> R,
    ) -> Result<R, Broken> {
        // Nearly always, the index knows the leaf and nobody writes to it.
        if let Some(hint) = self.directory.floor_at_once(key)
            && let Some(leaf) = self.leaves.meet(N::Directory::<M>::leaf(hint))
        {
            self.leaves.prefetch_met(leaf, key);
            if let Some(result) = self.with_met_at_once(leaf, hint, key, &mut read) {
                return Ok(result);
            }
        }
        self.with_owner_in_the_end(key, read)
    }

    /// Reads in a leaf that the index found, if it owns the key and nobody writes to it.
    #[inline(always)]
    fn with_met_at_once<R>(
        &self,
        leaf: Met<'_, N>,
        hint: <N::Directory<M> as Directory<N>>::Hint<'_>,
        key: RefOf<'_, N>,
        read: impl FnOnce(&NodeView<'_, N>) -> R,
    ) -> Option<R> {
        let owns =
            |view: &NodeView<'_, N>| N::Directory::<M>::owns(hint, view.range, key) || is_left_out(Validation::Range);
        let view = leaf.view().filter(owns)?;
        let result = read(&view);
        view.validate().then_some(result)
    }

    /// Reads in this leaf, if it owns the key and nobody writes to it. It is then the right leaf, however it was found.
    #[inline(always)]
    pub(super) fn with_owner_at_once<R>(
        &self,
        at: u64,
        key: RefOf<'_, N>,
        read: impl FnOnce(&NodeView<'_, N>) -> R,
    ) -> Option<R> {
        let owns = |view: &NodeView<'_, N>| {
            matches!(self.leaves.side(at, view.range, key), Ok(Side::Within)) || is_left_out(Validation::Range)
        };
        let view = self.leaves.meet(at)?.view().filter(owns)?;
        let result = read(&view);
        view.validate().then_some(result)
    }

    #[cold]
    #[inline(never)]
    fn with_owner_in_the_end<R>(
        &self,
        key: RefOf<'_, N>,
        mut read: impl FnMut(&NodeView<'_, N>) -> R,
    ) -> Result<R, Broken> {
        let mut result = None;
        self.find_owner(key, &mut |view| result = Some(read(view)))?;
        Ok(result.expect("the leaf was read"))
    }

    /// Reads in the leaf that owns the key, again until the last read was not torn. Compiled once for all reads.
    #[cold]
    fn find_owner(&self, key: RefOf<'_, N>, read: &mut dyn FnMut(&NodeView<'_, N>)) -> Result<(), Broken> {
        let mut lost = 0;
        let retries = &self.leaves.tally.retries;
        // The first look, which brought the read here, was one at its leaf, if the index knows that.
        let mut is_disturbed = true;
        'again: while lost < PATIENCE {
            if lost > 0 {
                retries.add_one();
            }
            let mut at = self.start(key);
            let mut least = Default::default();
            lost += 1;
            loop {
                self.leaves.prefetch(at, key);
                let was_ready = self.leaves.is_ready(at);
                let Some(view) = self.leaves.view(at)? else { continue 'again };
                let side = self.side(key, at, view.range, &mut least);
                let counts = std::mem::take(&mut is_disturbed) && was_ready;
                if let Ok(Some(Side::Within)) = side {
                    if counts {
                        retries.add_one();
                    }
                    read(&view);
                    if view.validate() {
                        return Ok(());
                    }
                    // Try the same leaf again, under a new version.
                    lost += 1;
                    if lost >= PATIENCE {
                        break 'again;
                    }
                    retries.add_one();
                    continue;
                }
                let next = self.right_of(at);
                if !view.validate() || side? != Some(Side::Right) {
                    continue 'again;
                }
                // The index lags.
                delay();
                at = next?;
            }
        }
        // Take the lock: a long read of a leaf that other threads keep writing to would never be consistent.
        self.leaves.may_touch(self.head())?;
        let leaf = self.try_lock_owner(key)?;
        read(&leaf.view());
        Ok(())
    }

    /// Locks the leaf that owns the key.
    #[inline(always)]
    pub(super) fn lock_owner(&self, key: RefOf<'_, N>) -> Result<Locked<'_, N>, Fault> {
        if let Some(last) = self.fingers.get()
            && let Some(leaf) = self.lock_last_at_once(last, key)
        {
            return Ok(leaf);
        }
        if let Some(hint) = self.directory.floor_at_once(key)
            && let Some(leaf) = self.leaves.meet(N::Directory::<M>::leaf(hint))
        {
            self.leaves.prefetch_met(leaf, key);
            if let Some(leaf) = self.lock_met_at_once(leaf, hint, key) {
                // Where only the index can tell what a leaf owns, a finger is of no use.
                if N::Directory::<M>::hint_of(leaf.at).is_some() {
                    self.fingers.set(leaf.at);
                }
                return Ok(leaf);
            }
        }
        Ok(self.try_lock_owner(key)?)
    }

    /// Locks the leaf in which this thread has changed something last, if it owns the key and nobody else writes to it.
    ///
    /// Out of line: what keys in no order never execute would be in their way.
    #[inline(never)]
    fn lock_last_at_once(&self, last: u64, key: RefOf<'_, N>) -> Option<Locked<'_, N>> {
        let hint = N::Directory::<M>::hint_of(last)?;
        let leaf = self.leaves.meet(N::Directory::<M>::leaf(hint))?;
        // Before the lock is taken.
        if N::Directory::<M>::owns(hint, leaf.range(), key) {
            return self.lock_met_at_once(leaf, hint, key);
        }
        self.fingers.lose();
        None
    }

    /// Locks a leaf that the index found, if it owns the key and nobody else writes to it.
    #[inline(always)]
    pub(super) fn lock_owner_at_once(
        &self,
        hint: <N::Directory<M> as Directory<N>>::Hint<'_>,
        key: RefOf<'_, N>,
    ) -> Option<Locked<'_, N>> {
        self.lock_met_at_once(self.leaves.meet(N::Directory::<M>::leaf(hint))?, hint, key)
    }

    #[inline(always)]
    fn lock_met_at_once<'t>(
        &self,
        leaf: Met<'t, N>,
        hint: <N::Directory<M> as Directory<N>>::Hint<'_>,
        key: RefOf<'_, N>,
    ) -> Option<Locked<'t, N>> {
        let owns =
            |leaf: &Locked<'_, N>| N::Directory::<M>::owns(hint, leaf.range(), key) || is_left_out(Validation::Owner);
        leaf.lock(&self.leaves.bias).filter(owns)
    }

    /// Asks the index for the leaf of a key that is to be locked soon, and requests it.
    #[inline]
    pub(super) fn request(&self, key: RefOf<'_, N>) -> Option<<N::Directory<M> as Directory<N>>::Hint<'_>> {
        let hint = self.directory.floor_at_once(key)?;
        self.leaves.prefetch(N::Directory::<M>::leaf(hint), key);
        Some(hint)
    }

    #[cold]
    #[inline(never)]
    fn try_lock_owner(&self, key: RefOf<'_, N>) -> Result<Locked<'_, N>, Broken> {
        'again: for _ in 0..PATIENCE {
            let mut at = self.start(key);
            let mut least = Default::default();
            loop {
                self.leaves.prefetch(at, key);
                let Some(leaf) = self.leaves.lock(at)? else { continue 'again };
                match self.side(key, at, leaf.range(), &mut least)? {
                    Some(Side::Within) => return Ok(leaf),
                    _ if is_left_out(Validation::Owner) => return Ok(leaf),
                    Some(Side::Right) => at = self.right_of(at)?,
                    _ => continue 'again,
                }
            }
        }
        self.lock_owner_undisturbed(key)
    }

    /// Locks the leaf that owns the key while no leaf can leave the chain. No race can be lost then: the search ends,
    /// and whatever does not fit is damage.
    ///
    /// This thread must not have locked a leaf.
    #[cold]
    fn lock_owner_undisturbed(&self, key: RefOf<'_, N>) -> Result<Locked<'_, N>, Broken> {
        // The thread that changes the chain may itself be the one that searches.
        let _restructuring = (!self.restructuring.is_mine()).then(|| self.restructuring.lock());
        // The index may be damaged where the chain is not.
        self.lock_owner_from(self.start(key), key).or_else(|_| self.lock_owner_from(self.head(), key))
    }

    /// Locks the leaf that owns the key, which is the leaf at `at` or one to the right of it. The chain must not change
    /// meanwhile.
    fn lock_owner_from(&self, mut at: u64, key: RefOf<'_, N>) -> Result<Locked<'_, N>, Broken> {
        let lost = |at| Broken::new(at, "N1: the chain does not lead to the key's owner");
        loop {
            let leaf = self.leaves.lock(at)?.ok_or_else(|| lost(at))?;
            match self.leaves.side(at, leaf.range(), key)? {
                Side::Within => return Ok(leaf),
                Side::Right => at = self.right_of(at)?,
                Side::Left => return Err(lost(at)),
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, key: RefOf<'_, N>) -> Option<u64> {
        self.get_with(key, |value| value)
    }

    /// Applies `read` to the value of a key, while it is known to be current. The result of a call of `read` may be
    /// discarded.
    #[inline]
    pub(crate) fn get_with<R>(&self, key: RefOf<'_, N>, read: impl Fn(u64) -> R) -> Option<R> {
        self.note(self.with_owner(key, |view| self.leaves.value_in(view, key).map(&read)))
    }

    /// The value of a key, and where it was looked for.
    pub(crate) fn get_seen(&self, key: RefOf<'_, N>) -> Result<(Option<u64>, Seen), Broken> {
        self.with_owner(key, |view| (self.leaves.value_in(view, key), Seen::of(view)))
    }

    /// Reads the first or the last leaf of an interval into `entries`. Returns what is left of the interval, and where
    /// the entries were found.
    pub(crate) fn read_seen(
        &self,
        unread: Unread<N>,
        from_left: bool,
        entries: &mut Vec<Entry>,
    ) -> Result<(Option<Unread<N>>, Seen), Broken> {
        self.read_in_leaf(unread, from_left, entries, &mut Edges::<N>::default())
    }

    /// Reads a leaf, with what tells whether its keys are in order.
    pub(super) fn read_leaf(
        &self,
        unread: Unread<N>,
        from_left: bool,
        leaf: &mut LeafEntries<N::Keys>,
    ) -> Result<(Option<Unread<N>>, Seen), Broken> {
        let LeafEntries { entries, bounds, asker } = leaf;
        let (rest, seen) = self.read_in_leaf(unread, from_left, entries, &mut bounds.edges)?;
        bounds.note(entries);
        asker.pass(self, (seen.at, entries), rest.as_ref(), from_left);
        Ok((rest, seen))
    }

    fn read_in_leaf(
        &self,
        unread: Unread<N>,
        from_left: bool,
        entries: &mut Vec<Entry>,
        edges: &mut Edges<N>,
    ) -> Result<(Option<Unread<N>>, Seen), Broken> {
        let leaves = &self.leaves;
        let key = if from_left { unread.first() } else { unread.last() };
        let (count, seen) = self.with_owner(key, |view| {
            let count = leaves.entries_in(view, unread.span(), entries);
            leaves.note_edges(view, leaves.next_of(view), edges);
            (count, Seen::of(view))
        })?;
        entries.truncate(count);
        let rest = if from_left { unread.beyond(edges) } else { unread.up_to(edges) };
        Ok((rest.map_err(|NoLess| no_less(seen.at))?, seen))
    }

    /// Whether nobody has written to a leaf since something was seen in it, and nobody is writing to it.
    #[inline]
    pub(crate) fn still(&self, seen: Seen) -> bool {
        self.leaves.still(seen.at, seen.version)
    }

    /// Applies `read` to the values of keys, in their order, and passes the results to `out`.
    ///
    /// Works in groups: while memory responds for one key, the others are requested.
    pub(crate) fn get_many_with<R>(
        &self,
        keys: &[RefOf<'_, N>],
        read: impl Fn(u64) -> R,
        mut out: impl FnMut(Option<R>),
    ) {
        for keys in keys.chunks(GROUP) {
            let hints = self.directory.floors_at_once(keys);
            for (&hint, &key) in hints.iter().zip(keys) {
                if let Some(hint) = hint {
                    self.leaves.prefetch(N::Directory::<M>::leaf(hint), key);
                }
            }
            for (&hint, &key) in hints.iter().zip(keys) {
                if let Some(hint) = hint {
                    self.leaves.prefetch_value(N::Directory::<M>::leaf(hint), key);
                }
            }
            for (&hint, &key) in hints.iter().zip(keys) {
                let value = |view: &NodeView<'_, N>| self.leaves.value_in(view, key).map(&read);
                let met = hint.and_then(|hint| Some((self.leaves.meet(N::Directory::<M>::leaf(hint))?, hint)));
                let at_once = met.and_then(|(leaf, hint)| self.with_met_at_once(leaf, hint, key, value));
                out(at_once.unwrap_or_else(|| self.get_with(key, &read)));
            }
        }
    }

    /// Whether there is any entry. It returns true only if there was one. It may miss an entry that replaces another
    /// one meanwhile.
    pub(crate) fn has_entry(&self) -> bool {
        Range::all(self).next().is_some()
    }
}
