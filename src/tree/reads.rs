//! What a transaction has read in one tree.

use super::search::Seen;
use super::{Form, LeafEntries, TreeNode, TreeState};
use crate::error::{ErrorKind, Fault};
use crate::medium::Medium;
use crate::node::keys::interval::{self, is_before, up_to};
use crate::node::{Edges, Entry, Interval, Keys};
use crate::pool::records::Reading;
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

/// The word of a key.
struct KeyRead<K: Keys> {
    key: K::Owned,
    word: Option<u64>,
    seen: Seen,
}

/// The entries of an interval, and the leaves that it lies in.
pub(super) struct IntervalRead<K: Keys> {
    pub(super) to: Option<K::Owned>,
    entries: Vec<Entry>,
    /// The edges of the leaf in which the entries have their heads: of the leaf in which they were read first, if they
    /// lie in several now.
    pub(super) edges: Arc<Edges<K>>,
    /// The leaf in which the interval begins.
    seen: Seen,
    /// The other leaves that the interval lies in. There are some only if the first leaf was split, or what it had has
    /// moved, since it was read first.
    more: Vec<Seen>,
}

/// What was read last.
enum Last<K: Keys> {
    /// The last one of the keys.
    Key,
    /// A part of the interval that begins with this key.
    Interval(K::Owned),
}

/// How the first or the last part of an interval is known.
pub(super) enum Known<'r, K: Keys> {
    /// It was read: it lies in the interval that begins with this key.
    Read(&'r K::Owned, &'r IntervalRead<K>),
    /// This much of it was not.
    Gap(Interval<K>),
}

/// How many of the entries, which ascend, lie before a key.
pub(super) fn before<K: Form, M: Medium>(
    entries: &[Entry],
    key: &K::Owned,
    reading: Option<&Reading<'_, M>>,
) -> Result<usize, Fault> {
    let (mut from, mut to) = (0, entries.len());
    while from < to {
        let middle = from.midpoint(to);
        if K::with_key(entries[middle], reading, |found| found < Borrow::<K::Key>::borrow(key))? {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    Ok(from)
}

/// Keys and intervals that were read, and what was found. Intervals are disjoint, and what was read of a leaf under one
/// version is one interval, if nothing lies between.
pub(super) struct Reads<K: Keys> {
    keys: Vec<KeyRead<K>>,
    /// By where they begin.
    intervals: BTreeMap<K::Owned, IntervalRead<K>>,
    last: Option<Last<K>>,
}

/// Whether the same entries were found. A reference names one record as long as the reading lasts, but its head may
/// depend on the leaf.
fn same_entries<K: Keys>(one: &[Entry], other: &[Entry]) -> bool {
    let same = |((key, word), (other_key, other_word)): (&Entry, &Entry)| {
        word == other_word && (K::HAS_RECORDS || key == other_key)
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

impl<K: Form> Reads<K> {
    pub(super) fn new() -> Self {
        Self { keys: Vec::new(), intervals: BTreeMap::new(), last: None }
    }

    /// How many there are to be compared.
    pub(super) fn len(&self) -> usize {
        self.keys.len() + self.intervals.len()
    }

    /// All leaves in which something was seen.
    pub(super) fn seen(&self) -> impl Iterator<Item = Seen> {
        let of_intervals =
            self.intervals.values().flat_map(|read| [read.seen].into_iter().chain(read.more.iter().copied()));
        self.keys.iter().map(|read| read.seen).chain(of_intervals)
    }

    /// Notes what was found under a key.
    pub(super) fn note_key(&mut self, key: &K::Key, word: Option<u64>, seen: Seen) {
        self.last = Some(Last::Key);
        let is_known = |last: &KeyRead<K>| last.seen == seen && last.key.borrow() == key;
        // A transaction that waits for a change reads the same key again and again.
        if !self.keys.last().is_some_and(is_known) {
            self.keys.push(KeyRead { key: key.to_owned(), word, seen });
        }
    }

    /// Notes the entries of an interval that nothing was known about.
    pub(super) fn note(&mut self, interval: &Interval<K>, (entries, edges): (&[Entry], &Arc<Edges<K>>), seen: Seen) {
        let Interval { from, to } = interval;
        let is_last = self.lies_behind(from);
        let touches = |left: &IntervalRead<K>| left.to.as_ref() == Some(from) && left.is_of(seen);
        let left = if is_last {
            let last = self.intervals.last_entry().filter(|last| touches(last.get()));
            last.map(|last| (last.key().clone(), last.into_mut()))
        } else {
            let left = self.intervals.range_mut::<K::Key, _>(interval::before(Some(from))).next_back();
            left.filter(|(_, left)| touches(left)).map(|(start, left)| (start.clone(), left))
        };
        let start = match left {
            Some((start, left)) => {
                left.to.clone_from(to);
                left.entries.extend(entries);
                start
            }
            None => {
                let (entries, edges) = (entries.to_vec(), Arc::clone(edges));
                let new = IntervalRead { to: to.clone(), entries, edges, seen, more: Vec::new() };
                self.intervals.insert(from.clone(), new);
                from.clone()
            }
        };
        if let Some(to) = to
            && !is_last
            && self.intervals.get::<K::Key>(to.borrow()).is_some_and(|right| right.is_of(seen))
        {
            let right = self.intervals.remove::<K::Key>(to.borrow()).expect("it was just found");
            let all = self.intervals.get_mut::<K::Key>(start.borrow()).expect("it was just found");
            all.to = right.to;
            all.entries.extend(right.entries);
        }
        self.last = Some(Last::Interval(start));
    }

    /// Whether a key lies behind all intervals. A scan from left to right need not search.
    fn lies_behind(&self, key: &K::Owned) -> bool {
        let last = self.intervals.last_key_value();
        last.is_none_or(|(_, last)| last.to.as_ref().is_some_and(|end| end <= key))
    }

    /// How the first part of an interval is known, or the last one.
    pub(super) fn find(&self, interval: &Interval<K>, from_left: bool) -> Known<'_, K> {
        let Interval { from, to } = interval;
        let gap = |from: &K::Owned, to: Option<&K::Owned>| Known::Gap(Interval { from: from.clone(), to: to.cloned() });
        // Whether an interval reaches beyond the key at which this one begins.
        let is_left = |read: &IntervalRead<K>| read.to.as_ref().is_some_and(|end| end <= from);
        if from_left {
            if self.lies_behind(from) {
                return gap(from, to.as_ref());
            }
            match self.intervals.range::<K::Key, _>(up_to(from.borrow())).next_back() {
                Some((start, read)) if !is_left(read) => Known::Read(start, read),
                _ => {
                    let (_, end) = interval::before(to.as_ref());
                    let next = self.intervals.range::<K::Key, _>((Bound::Excluded(from.borrow()), end)).next();
                    gap(from, next.map(|(start, _)| start).or(to.as_ref()))
                }
            }
        } else {
            match self.intervals.range::<K::Key, _>(interval::before(to.as_ref())).next_back() {
                Some((start, read)) if read.to.is_none() || (to.is_some() && read.to >= *to) => {
                    Known::Read(start, read)
                }
                Some((_, read)) if !is_left(read) => gap(read.to.as_ref().unwrap_or(from), to.as_ref()),
                _ => gap(from, to.as_ref()),
            }
        }
    }

    /// Reads an interval again in which a leaf has changed.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if something else was found.
    pub(super) fn renew<N: TreeNode<Keys = K>, M: Medium>(
        &mut self,
        tree: &TreeState<N, M>,
        start: &K::Owned,
    ) -> Result<(), Fault> {
        let read = self.intervals.get_mut::<K::Key>(start.borrow()).expect("something was read from here on");
        read.renew(tree, start)
    }

    /// Reads again what was read in leaves that have changed since. Returns true if there were any.
    ///
    /// # Errors
    ///
    /// [`Conflict`](ErrorKind::Conflict) if something else was found.
    pub(super) fn refresh<N: TreeNode<Keys = K>, M: Medium>(&mut self, tree: &TreeState<N, M>) -> Result<bool, Fault> {
        let mut any = false;
        for KeyRead { key, word, seen } in &mut self.keys {
            if tree.still(*seen) {
                continue;
            }
            let (now, seen_now) = tree.get_seen(K::as_ref((*key).borrow()))?;
            if now != *word {
                return Err(ErrorKind::Conflict.into());
            }
            *seen = seen_now;
            any = true;
        }
        for (start, read) in &mut self.intervals {
            if !read.is_still(tree) {
                read.renew(tree, start)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// Whether what was read was the same at an instant; of all reads, or of the last one only.
    pub(super) fn was_so_at<N: TreeNode<Keys = K>, M: Medium>(
        &self,
        tree: &TreeState<N, M>,
        (instant, reading): (u64, Option<&Reading<'_, M>>),
        all: bool,
    ) -> Result<bool, Fault> {
        let (keys, intervals) = match &self.last {
            _ if all => (&self.keys[..], None),
            None => return Ok(true),
            Some(Last::Key) => (&self.keys[self.keys.len() - 1..], None),
            Some(Last::Interval(start)) => (&[][..], Some(start)),
        };
        for KeyRead { key, word, .. } in keys {
            if tree.get_at((*key).borrow(), instant, reading)? != *word {
                return Ok(false);
            }
        }
        let bounds = match intervals {
            Some(start) => (Bound::Included(start.borrow()), Bound::Included(start.borrow())),
            None if all => (Bound::Unbounded, Bound::Unbounded),
            None => return Ok(true),
        };
        for (start, read) in self.intervals.range::<K::Key, _>(bounds) {
            let (mut then, mut piece, mut unread) = (Vec::new(), LeafEntries::default(), Some(read.interval(start)));
            while let Some(rest) = unread {
                unread = tree.read_at(rest, true, instant, reading, &mut piece)?;
                then.append(&mut piece.entries);
            }
            if !same_entries::<K>(&read.entries, &then) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the same is found now by functions that look for a key, and for the entries of an interval. `None`: they
    /// do not find it.
    pub(super) fn is_same(
        &self,
        get: impl Fn(K::Ref<'_>) -> Option<Option<u64>>,
        entries: impl Fn(Interval<K>) -> Result<Option<Vec<Entry>>, Fault>,
    ) -> Result<bool, Fault> {
        let is_same = |read: &KeyRead<K>| get(K::as_ref(read.key.borrow())) == Some(read.word);
        if !self.keys.iter().all(is_same) {
            return Ok(false);
        }
        for (start, read) in &self.intervals {
            if !entries(read.interval(start))?.is_some_and(|now| same_entries::<K>(&read.entries, &now)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<K: Form> IntervalRead<K> {
    fn interval(&self, start: &K::Owned) -> Interval<K> {
        Interval { from: start.clone(), to: self.to.clone() }
    }

    /// Whether all of it was seen in this leaf, under this version.
    fn is_of(&self, seen: Seen) -> bool {
        self.seen == seen && self.more.is_empty()
    }

    /// Whether no leaf of the interval has changed since it was read.
    #[inline]
    pub(super) fn is_still<N: TreeNode<Keys = K>, M: Medium>(&self, tree: &TreeState<N, M>) -> bool {
        tree.still(self.seen) && self.more.iter().all(|&seen| tree.still(seen))
    }

    /// The entries in another interval.
    pub(super) fn entries_in<M: Medium>(
        &self,
        start: &K::Owned,
        Interval { from, to }: &Interval<K>,
        reading: Option<&Reading<'_, M>>,
    ) -> Result<&[Entry], Fault> {
        let mut entries = &self.entries[..];
        if let Some(to) = to
            && is_before(to, self.to.as_ref())
        {
            entries = &entries[..before::<K, M>(entries, to, reading)?];
        }
        if start < from {
            entries = &entries[before::<K, M>(entries, from, reading)?..];
        }
        Ok(entries)
    }

    /// Reads the interval again. See [`Reads::renew`].
    #[cold]
    fn renew<N: TreeNode<Keys = K>, M: Medium>(
        &mut self,
        tree: &TreeState<N, M>,
        start: &K::Owned,
    ) -> Result<(), Fault> {
        let (mut now, mut leaf, mut unread) = (Vec::new(), LeafEntries::default(), Some(self.interval(start)));
        let mut leaves = Vec::new();
        while let Some(rest) = unread {
            let (rest, seen) = tree.read_leaf(rest, true, &mut leaf)?;
            now.append(&mut leaf.entries);
            leaves.push(seen);
            unread = rest;
        }
        if !same_entries::<K>(&self.entries, &now) {
            return Err(ErrorKind::Conflict.into());
        }
        self.seen = leaves.remove(0);
        self.more = leaves;
        if self.more.is_empty() {
            // What else is read in this leaf joins them, so the heads belong to this leaf from now on.
            (self.entries, self.edges) = (now, Arc::new(leaf.bounds.edges));
        }
        Ok(())
    }
}
