//! New leaves in place of old ones, for [copies](super::copy) and for leaves that are [renewed](super::renew).
//!
//! | change | prepare (invisible) | commit |
//! |---|---|---|
//! | replace one leaf, or two neighbours, by one or two | fill the new leaves | `left.next = new` |
//!
//! `left` is the leaf on the left, or the root entry's `head`. The new leaves stay locked until they are in the chain,
//! and the index is told before that. So a thread that comes from the index waits, and never finds that the leaf it
//! knows is gone.

use super::directory::Directory;
use super::{TreeNode, TreeState};
use crate::chain::{Draft, For, Locked};
use crate::error::Fault;
use crate::medium::{Medium, Step};
use crate::node::{Entry, KeyRange, Node, Sizes, SizesOf, WordNode};
use crate::papers::Heat;
use crate::sync::Ordering;
use crate::sync::delay::delay;

/// What points to a leaf of the chain.
pub(super) enum LinkTo<'t, N: Node> {
    /// The root entry.
    Root,
    /// The left neighbour.
    Leaf(Locked<'t, N>),
}

/// The entries of the one or two leaves that replace another one.
pub(super) type NewLeaves<'e> = (&'e [Entry], &'e [Entry]);

/// Puts all entries into one leaf, or half of them into each of two.
pub(super) fn parts(entries: &[Entry], in_two: bool) -> NewLeaves<'_> {
    if in_two { entries.split_at(entries.len() / 2) } else { (entries, &[]) }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Makes the chain lead to the leaf at `at`, which is durable, in place of the one behind `left`. Durable when it
    /// returns.
    pub(super) fn point(&self, left: &mut LinkTo<'_, N>, at: u64) {
        delay();
        match left {
            LinkTo::Root => {
                self.root.set_head(self.medium(), at);
                delay();
                self.head.store(at, Ordering::Release);
            }
            LinkTo::Leaf(left) => self.leaves.link(left, at),
        }
    }
}

impl<N: WordNode, M: Medium> TreeState<N, M> {
    /// Replaces `old`, or `old` and its right neighbour `beyond`, by one or two leaves of `lines` lines. Durable when
    /// it returns.
    ///
    /// If it fails, it returns `old`, and nothing has changed.
    pub(super) fn replace_leaf<'t>(
        &'t self,
        mut left: LinkTo<'t, N>,
        old: Locked<'t, N>,
        beyond: Option<Locked<'t, N>>,
        parts: NewLeaves<'_>,
        lines: u32,
        count: impl FnOnce(),
    ) -> Result<(), (Locked<'t, N>, Fault)> {
        let (leaves, m) = (&self.leaves, self.medium());
        let (new, right) = match self.prepare(&old, beyond.as_ref(), parts, lines) {
            Ok(prepared) => prepared,
            Err(fault) => return Err((old, fault)),
        };
        // Crash: the index lags behind the chain, or names a leaf that was never in it; the next recovery repairs both.
        let told = match &beyond {
            Some(beyond) => self.directory.withdraw(beyond.range().low()),
            None => Ok(false),
        };
        let low = new.range().low();
        // The tail is not listed in the index.
        let repoint = || if low < u64::MAX { self.directory.repoint(low, new.at) } else { Ok(false) };
        let fenced = match told.and_then(|told| Ok(repoint()? | told)) {
            Ok(fenced) => fenced,
            Err(fault) => {
                self.directory.is_unsure();
                [Some(new), right].into_iter().flatten().for_each(|new| leaves.free(new));
                return Err((old, fault));
            }
        };
        // Crash: blocks that no chain reaches.
        if !fenced {
            m.fence(Step::RewriteFill);
        }
        self.point(&mut left, new.at);
        match (&beyond, &right) {
            (None, Some(_)) => leaves.tally.splits.add_one(),
            (Some(_), None) => leaves.tally.merges.add_one(),
            _ => {}
        }
        leaves.free(old);
        beyond.into_iter().for_each(|beyond| leaves.free(beyond));
        count();
        let to_post = right.as_ref().map(|right| (right.range().low(), right.at));
        drop((left, new, right));
        if let Some((low, at)) = to_post {
            let writes = |leaf| leaves.writes(leaf);
            let heat = if SizesOf::<N>::HEAT_IS_WRITES { Heat::Writes(&writes) } else { Heat::Posts };
            self.lag(self.directory.post_with(low, at, heat));
        }
        Ok(())
    }

    /// Creates the new leaves. They are flushed, and nothing points to them.
    fn prepare<'t>(
        &'t self,
        old: &Locked<'t, N>,
        beyond: Option<&Locked<'t, N>>,
        (entries, in_right): NewLeaves<'_>,
        lines: u32,
    ) -> Result<(Locked<'t, N>, Option<Locked<'t, N>>), Fault> {
        let leaves = &self.leaves;
        let last = beyond.unwrap_or(old);
        let (mut high, mut next) = (last.range().high(), leaves.next(last.at)?.unwrap_or(0));
        // The first new leaf replaces an old one. A second one is an additional leaf.
        let purpose = match beyond.map(|beyond| leaves.in_place_of(beyond, lines)) {
            Some(For::Exchange) => For::Exchange,
            _ => leaves.in_place_of(old, lines),
        };
        let mut right = None;
        if let Some(&(border, _)) = in_right.first() {
            let range = KeyRange::new(border, high);
            let new = Draft { level: 0, low: &border, range, next, entries: in_right };
            let leaf = leaves.create_of(lines, For::Growth, new)?;
            (high, next) = (border, leaf.at);
            right = Some(leaf);
        }
        let low = old.range().low();
        let new = Draft { level: 0, low: &low, range: KeyRange::new(low, high), next, entries };
        match leaves.create_of(lines, purpose, new) {
            Ok(new) => {
                let heirs = 1 + usize::from(right.is_some());
                [Some(&new), right.as_ref()].into_iter().flatten().for_each(|heir| leaves.inherit(heir, old, heirs));
                Ok((new, right))
            }
            Err(fault) => {
                right.into_iter().for_each(|right| leaves.free(right));
                Err(fault)
            }
        }
    }
}
