//! Where a scan of a transaction is in a range. It merges what it reads in the tree with what the transaction is to
//! write there, entry by entry: a step takes the time of a search, whatever was read or written before.

use super::ahead::Asker;
use super::part::{News, TreePart};
use super::reads::{Known, before};
use super::{Form, LeafEntries, TreeNode};
use crate::entry::raw::Raw;
use crate::error::{Broken, Fault};
use crate::medium::Medium;
use crate::node::{Defer, Edges, Entry, Interval, Keys};
use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ops::{Bound, Range};
use std::sync::Arc;

/// The most entries, or removals of a transaction, that are looked up at once.
const MANY: usize = 32;

/// An entry of a table as a transaction sees it.
pub(crate) type Item<K> = (<K as Keys>::Owned, Raw);

/// The rest of a range. While it is used, the transaction writes nothing.
pub(crate) struct Cursor<K: Keys> {
    /// What lies between the two pieces.
    unread: Option<Interval<K>>,
    /// What was read from the left.
    front: Option<Piece<K>>,
    /// What was read from the right.
    back: Option<Piece<K>>,
    /// Entries to be returned next from the left, and from the right, where there are no writes.
    ready: [ReadyEntries<K>; 2],
    asker: Asker,
}

/// Entries that were looked up at once.
struct ReadyEntries<K: Keys> {
    items: VecDeque<Item<K>>,
    /// How many to look up at once: ever more, so that one step alone costs little, and many cost little each.
    many: usize,
}

impl<K: Keys> Cursor<K> {
    pub(crate) fn new(unread: Option<Interval<K>>) -> Self {
        let ready = || ReadyEntries { items: VecDeque::new(), many: 1 };
        let asker = Asker::default();
        Self { unread, front: None, back: None, ready: [ready(), ready()], asker }
    }

    /// The next entry, if a step has read it with the one before.
    #[inline]
    pub(crate) fn ready(&mut self, from_left: bool) -> Option<Item<K>> {
        self.ready[usize::from(from_left)].items.pop_front()
    }
}

/// What a step comes to.
pub(crate) enum CursorStep<K: Keys> {
    /// The next entry.
    Item(Item<K>),
    /// Another part of the range. The next entry may be in it.
    More,
    /// The end of the range.
    End,
}

/// A part of a range in which the entries of the tree are known.
struct Piece<K: Keys> {
    /// The keys that no step has passed yet.
    rest: Interval<K>,
    entries: Vec<Entry>,
    /// The edges of the leaf that the entries were read in.
    edges: Arc<Edges<K>>,
    /// Which of the entries lie in `rest`.
    left: Range<usize>,
    sides: [CursorSide<K>; 2],
}

/// What is known of the next step from one side.
struct CursorSide<K: Keys> {
    /// The key of the next entry of the tree.
    key: Option<K::Owned>,
    /// The writes of the transaction that come next, as far as they are known: removals, and then perhaps one of a
    /// value.
    own: VecDeque<(K::Owned, Option<Raw>)>,
    /// Whether there are no more writes.
    is_written: bool,
    /// How many writes to look up at once.
    many: usize,
    /// Where this step has begun, if it has passed an entry that the transaction has removed: where `rest` began, or,
    /// from the right, ended.
    began: Option<Option<K::Owned>>,
}

impl<K: Keys> Piece<K> {
    fn new(rest: Interval<K>, entries: Vec<Entry>, edges: Arc<Edges<K>>) -> Self {
        let side = || CursorSide { key: None, own: VecDeque::new(), is_written: false, began: None, many: 2 };
        Self { rest, left: 0..entries.len(), entries, edges, sides: [side(), side()] }
    }
}

/// The damage of an entry.
#[cold]
fn damaged<K: Form>(entry: Entry, invariant: &'static str) -> Fault {
    Broken::new(K::record(entry.1), invariant).into()
}

impl<N: TreeNode<Keys: Form, Ops: Defer>, M: Medium> TreePart<'_, N, M> {
    pub(super) fn step_from(
        &mut self,
        cursor: &mut Cursor<N::Keys>,
        from_left: bool,
    ) -> Result<CursorStep<N::Keys>, Fault> {
        let Cursor { unread, front, back, ready: [from_right, ready], asker } = cursor;
        let (near, far) = if from_left { (front, back) } else { (back, front) };
        let (ready, of_far) = if from_left { (ready, from_right) } else { (from_right, ready) };
        if let Some(item) = self.step_in(near, ready, from_left)? {
            return Ok(CursorStep::Item(item));
        }
        if let Some(rest) = unread.take() {
            *near = self.enter(rest, (unread, asker), from_left)?;
            return Ok(CursorStep::More);
        }
        let last = self.step_in(far, ready, from_left)?.or_else(|| of_far.items.pop_back());
        Ok(last.map_or(CursorStep::End, CursorStep::Item))
    }

    /// Comes to the first or the last part of an interval: one that was read before, or the part that lies in one leaf.
    /// Leaves what is behind it in `unread`.
    fn enter(
        &mut self,
        mut rest: Interval<N::Keys>,
        (unread, asker): (&mut Option<Interval<N::Keys>>, &mut Asker),
        from_left: bool,
    ) -> Result<Option<Piece<N::Keys>>, Fault> {
        if self.voids.leave(&mut rest, from_left) {
            self.news = News::Known;
            if rest.is_empty() {
                return Ok(None);
            }
        }
        let mut is_renewed = false;
        let gap = loop {
            match self.reads.find(&rest, from_left) {
                Known::Read(start, read) if is_renewed || read.is_still(self.tree) => {
                    self.news = News::Known;
                    let entries = read.entries_in(start, &rest, self.reading.as_ref())?.to_vec();
                    let edges = Arc::clone(&read.edges);
                    self.count(1 + entries.len());
                    *unread = rest.without((start, read.to.as_ref()), from_left);
                    rest.cut((start, read.to.as_ref()), from_left);
                    return Ok(Some(Piece::new(rest, entries, edges)));
                }
                Known::Read(start, _) => {
                    let start = start.clone();
                    self.reads.renew(self.tree, &start)?;
                    is_renewed = true;
                }
                Known::Gap(gap) => break gap,
            }
        };
        self.begin();
        let mut leaf = LeafEntries { asker: std::mem::take(asker), ..LeafEntries::default() };
        let (behind, seen) = self.tree.read_leaf(gap.clone(), from_left, &mut leaf)?;
        *asker = leaf.asker;
        let (entries, edges) = (leaf.entries, Arc::new(leaf.bounds.edges));
        self.count(1 + entries.len());
        self.news = News::Read;
        let mut read = gap;
        match behind {
            None => {}
            Some(behind) if from_left => read.to = Some(behind.from),
            Some(behind) => read.from = behind.to.unwrap_or(read.from),
        }
        self.reads.note(&read, (&entries, &edges), seen);
        *unread = rest.without((&read.from, read.to.as_ref()), from_left);
        Ok(Some(Piece::new(read, entries, edges)))
    }

    /// The next entry of a piece; when there is none left, takes the piece away.
    fn step_in(
        &mut self,
        piece: &mut Option<Piece<N::Keys>>,
        ready: &mut ReadyEntries<N::Keys>,
        from_left: bool,
    ) -> Result<Option<Item<N::Keys>>, Fault> {
        let Some(entries) = piece else { return Ok(None) };
        let item = if self.writes.len() > 0 {
            self.merge(entries, from_left)?
        } else {
            self.read_on(entries, ready, from_left)?
        };
        if item.is_none() {
            *piece = None;
        }
        Ok(item)
    }

    /// The next entry of a piece, where there are no writes.
    fn read_on(
        &self,
        Piece { rest, entries, edges, left, .. }: &mut Piece<N::Keys>,
        ReadyEntries { items, many }: &mut ReadyEntries<N::Keys>,
        from_left: bool,
    ) -> Result<Option<Item<N::Keys>>, Fault> {
        for _ in 0..*many {
            let mut ahead = left.clone();
            let Some(i) = (if from_left { ahead.next() } else { ahead.next_back() }) else { break };
            match self.item(entries[i], (rest, edges), items.back(), from_left) {
                Ok(item) => items.push_back(item),
                // Those before it come first.
                Err(_) if !items.is_empty() => break,
                Err(fault) => return Err(fault),
            }
            *left = ahead;
        }
        if let Some((last, _)) = items.back() {
            rest.pass(last, from_left);
        }
        *many = MANY.min(2 * *many);
        Ok(items.pop_front())
    }

    /// An entry, which lies in what no step has passed, and behind the one before it.
    fn item(
        &self,
        entry: Entry,
        of: (&Interval<N::Keys>, &Edges<N::Keys>),
        before: Option<&Item<N::Keys>>,
        from_left: bool,
    ) -> Result<Item<N::Keys>, Fault> {
        let key = self.key(entry, of)?;
        if before.is_some_and(|(before, _)| if from_left { key <= *before } else { key >= *before }) {
            return Err(damaged::<N::Keys>(entry, "N3: a key that is not in order"));
        }
        Ok((key, self.stored(entry.1)?))
    }

    /// The key of an entry, which has the head that its slot says, and lies in what no step has passed.
    fn key(
        &self,
        entry: Entry,
        (rest, edges): (&Interval<N::Keys>, &Edges<N::Keys>),
    ) -> Result<<N::Keys as Keys>::Owned, Fault> {
        let key = N::Keys::with_key(entry, self.reading.as_ref(), ToOwned::to_owned)?;
        if !N::Keys::has_head(edges, entry.0, key.borrow()) {
            return Err(damaged::<N::Keys>(entry, "N3: a head of another key"));
        }
        if !rest.holds(&key) {
            return Err(damaged::<N::Keys>(entry, "N3: a key that is not in order"));
        }
        Ok(key)
    }

    /// The next entry of a piece, where there are writes.
    fn merge(&mut self, piece: &mut Piece<N::Keys>, from_left: bool) -> Result<Option<Item<N::Keys>>, Fault> {
        loop {
            let Piece { rest, entries, edges, left, sides } = &mut *piece;
            let side = &mut sides[usize::from(from_left)];
            let next = if from_left { left.clone().next() } else { left.clone().next_back() };
            if next.is_none() {
                // Perhaps it was passed from the other side.
                side.key = None;
            } else if let Some(i) = next
                && side.key.is_none()
            {
                side.key = Some(self.key(entries[i], (rest, edges))?);
            }
            if side.own.front().is_some_and(|(key, _)| !rest.holds(key)) {
                // It was passed from the other side, and so were all behind it.
                side.own.clear();
                side.is_written = true;
            }
            if side.own.is_empty() && !side.is_written {
                self.find_own(side, rest, from_left);
            }
            let order = match (&side.key, side.own.front()) {
                (None, None) => {
                    if let Some(began) = side.began.take() {
                        self.leave_void(began, rest, from_left);
                    }
                    return Ok(None);
                }
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(key), Some((own, _))) if from_left => key.cmp(own),
                (Some(key), Some((own, _))) => own.cmp(key),
            };
            let mut of_tree = None;
            if order.is_le() {
                of_tree = side.key.take().zip(next.map(|i| entries[i].1));
                *left = if from_left { left.start + 1..left.end } else { left.start..left.end - 1 };
            }
            let own = if order.is_ge() { side.own.pop_front() } else { None };
            let (key, value) = match (own, of_tree) {
                (Some(own), _) => own,
                (None, Some((key, word))) => (key, Some(self.stored(word)?)),
                (None, None) => return Ok(None),
            };
            let Some(value) = value else {
                self.pass_removed(piece, &key, from_left)?;
                continue;
            };
            if let Some(began) = side.began.take() {
                match from_left {
                    true => self.leave_void(began, &Interval { from: key.clone(), to: Some(key.clone()) }, true),
                    false => {
                        if let Some(behind) = N::Keys::behind(key.borrow()) {
                            self.leave_void(began, &Interval { from: behind, to: None }, false);
                        }
                    }
                }
            }
            rest.pass(&key, from_left);
            return Ok(Some((key, value)));
        }
    }

    /// Looks up the next writes in an interval.
    fn find_own(&self, side: &mut CursorSide<N::Keys>, rest: &Interval<N::Keys>, from_left: bool) {
        let (from, to) = rest.bounds();
        // The other end is not searched for: it is compared with what is found.
        let mut writes = self.writes.range(if from_left { (from, Bound::Unbounded) } else { (Bound::Unbounded, to) });
        side.is_written = true;
        while let Some((key, new)) = if from_left { writes.next() } else { writes.next_back() }
            && rest.holds(key)
        {
            self.count(1);
            let value = new.as_ref().map(|new| new.lent().owned());
            let is_removal = value.is_none();
            side.own.push_back((key.clone(), value));
            if !is_removal || side.own.len() == side.many {
                side.is_written = false;
                break;
            }
        }
        side.many = MANY.min(2 * side.many);
    }

    /// Passes an entry that the transaction has removed, and all that lie in a void behind it.
    fn pass_removed(
        &mut self,
        piece: &mut Piece<N::Keys>,
        key: &<N::Keys as Keys>::Owned,
        from_left: bool,
    ) -> Result<(), Fault> {
        let Piece { rest, entries, left, sides, .. } = piece;
        let side = &mut sides[usize::from(from_left)];
        if side.began.is_none() {
            side.began = Some(if from_left { Some(rest.from.clone()) } else { rest.to.clone() });
        }
        rest.pass(key, from_left);
        if !rest.is_empty() && self.voids.leave(rest, from_left) {
            let (reading, known) = (self.reading.as_ref(), &entries[left.clone()]);
            if rest.is_empty() {
                *left = 0..0;
            } else if from_left {
                left.start += before::<N::Keys, M>(known, &rest.from, reading)?;
            } else if let Some(to) = &rest.to {
                left.end = left.start + before::<N::Keys, M>(known, to, reading)?;
            }
            (side.key, side.is_written) = (None, false);
            side.own.clear();
        }
        Ok(())
    }

    /// Notes that there is no entry between the place where a step has begun and the end of what it has passed: where
    /// `rest` ends, if it came from the left, or begins.
    fn leave_void(&mut self, began: Option<<N::Keys as Keys>::Owned>, rest: &Interval<N::Keys>, from_left: bool) {
        match (from_left, began) {
            (true, Some(from)) => self.voids.add(from, rest.to.clone()),
            (true, None) => {}
            (false, to) => self.voids.add(rest.from.clone(), to),
        }
    }
}
