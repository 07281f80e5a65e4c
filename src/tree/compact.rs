//! Compacting: what lies in sparse segments moves to free blocks of others, so that segments become empty.
//!
//! The steps K1 to K7, what a cut at each of them leaves, and why other threads may go on meanwhile, are in
//! `docs/space.md`.

use super::Form;
use super::directory::Directory;
use super::range::{Edges, Unread, no_less};
use super::renew::WithLeft;
use super::replace::LinkTo;
use super::{PTree, TreeNode, TreeState};
use crate::chain::Locked;
use crate::error::{Broken, ErrorKind, Fault, Result};
use crate::index::Swept;
use crate::medium::{LINE, Medium, Step};
use crate::node::{ByteLeaf, Entry, IndexKind, Interval, Keys, NoLess, Node, OneLine, RefOf, WordNode};
use crate::pool::blocks::Blocks;
use crate::pool::roots::Signature;
use crate::pool::{Compacted, Pool};
use crate::sync::delay::delay;

/// With so many bytes of records copied, a leaf is unlocked, and locked again for the rest.
const AT_ONCE: u64 = 256 << 10;

/// What has to be moved.
pub(super) trait Victims {
    /// Whether a leaf lies in a closed segment, or the record of its low does.
    fn holds_leaf(&self, at: u64) -> bool;

    /// Whether a record lies in a closed segment.
    fn holds_record(&self, record: u64) -> bool;

    /// Whether any inner node may lie in a closed segment.
    fn may_hold_inner(&self) -> bool;

    /// Whether an inner node lies in a closed segment.
    fn holds_inner(&self, at: u64) -> bool;

    /// Whether a leaf at this offset, which was read and has these entries, may have something to be moved.
    fn may_hold(&self, at: u64, entries: &[Entry]) -> bool;
}

/// For tests, in which little is ever sparse: everything has to be moved.
#[cfg(any(test, feature = "crash"))]
pub(super) struct Everything;

#[cfg(any(test, feature = "crash"))]
impl Victims for Everything {
    fn holds_leaf(&self, _: u64) -> bool {
        true
    }

    fn holds_record(&self, _: u64) -> bool {
        true
    }

    fn may_hold_inner(&self) -> bool {
        true
    }

    fn holds_inner(&self, _: u64) -> bool {
        true
    }

    fn may_hold(&self, _: u64, _: &[Entry]) -> bool {
        true
    }
}

/// The segments of a tree that are closed. When this is dropped, those that are not empty are opened again.
struct ClosedSegments<'t, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    /// They ascend.
    victims: Vec<u32>,
    /// How many segments had become empty before.
    emptied_before: u64,
}

impl<'t, N: TreeNode, M: Medium> ClosedSegments<'t, N, M> {
    fn new(tree: &'t TreeState<N, M>) -> Self {
        let emptied_before = tree.moving().map(Blocks::emptied).sum();
        let mut closed = Self { tree, victims: Vec::new(), emptied_before };
        tree.moving().for_each(|class| class.close_sparse(&tree.pool.segments, &mut closed.victims));
        closed.victims.sort_unstable();
        closed
    }

    /// Whether something lies in a segment that was closed. It may be another's by now.
    fn held(&self, at: u64) -> bool {
        self.tree.pool.segments.holding(at).is_some_and(|segment| self.victims.binary_search(&segment).is_ok())
    }

    /// How many of them have become empty.
    fn emptied(&self) -> u64 {
        self.tree.moving().map(Blocks::emptied).sum::<u64>() - self.emptied_before
    }
}

impl<N: TreeNode, M: Medium> Victims for ClosedSegments<'_, N, M> {
    fn holds_leaf(&self, at: u64) -> bool {
        let (leaves, segments) = (&self.tree.leaves, &self.tree.pool.segments);
        let block = || leaves.blocks().iter().any(|class| class.is_withheld(segments, at));
        self.held(at) && block() || self.holds_record(N::Keys::low_record(leaves.block(at)))
    }

    fn holds_record(&self, record: u64) -> bool {
        let records = self.tree.leaves.records.as_ref();
        self.held(record) && records.is_some_and(|records| records.is_withheld(&self.tree.pool.segments, record))
    }

    fn may_hold_inner(&self) -> bool {
        self.tree.directory.blocks().iter().any(|class| class.closed() > 0)
    }

    fn holds_inner(&self, at: u64) -> bool {
        let segments = &self.tree.pool.segments;
        self.held(at) && self.tree.directory.blocks().iter().any(|class| class.is_withheld(segments, at))
    }

    fn may_hold(&self, at: u64, entries: &[Entry]) -> bool {
        let leaves = &self.tree.leaves;
        let in_records = || entries.iter().any(|&(_, value)| self.held(N::Keys::record(value)));
        self.held(at) || leaves.records.is_some() && (self.held(N::Keys::low_record(leaves.block(at))) || in_records())
    }
}

impl<N: TreeNode, M: Medium> Drop for ClosedSegments<'_, N, M> {
    fn drop(&mut self) {
        let (m, segments) = (self.tree.medium(), &self.tree.pool.segments);
        self.tree.moving().for_each(|class| class.open_all(m, segments));
    }
}

/// Records of a leaf that were copied. When this is dropped, the copies that no slot will point to are given back.
struct Copies<'t, N: TreeNode, M: Medium> {
    tree: &'t TreeState<N, M>,
    /// Entries, and their new values. They are taken out before slots point to the copies.
    made: Vec<(Entry, u64)>,
    bytes: u64,
    /// Whether there may be more to copy.
    more: bool,
    /// Why the copying ended too early.
    fault: Option<Fault>,
}

impl<'t, N: TreeNode, M: Medium> Copies<'t, N, M> {
    fn none(tree: &'t TreeState<N, M>) -> Self {
        Self { tree, made: Vec::new(), bytes: 0, more: false, fault: None }
    }
}

impl<N: TreeNode, M: Medium> Drop for Copies<'_, N, M> {
    fn drop(&mut self) {
        self.made.iter().for_each(|&(_, value)| self.tree.discard(N::Keys::record(value)));
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// The classes of blocks that are compacted.
    fn moving(&self) -> impl Iterator<Item = &Blocks> {
        let records = self.leaves.records.iter().flat_map(|records| records.classes());
        self.leaves.blocks().iter().chain(self.directory.blocks()).chain(records)
    }

    /// Moves what lies in sparse segments. See [`Pool::compact`].
    pub(crate) fn compact(&self) -> Result<Compacted, Fault> {
        self.pool.writable()?;
        let _alone = self.compacting.lock();
        let (m, segments) = (self.medium(), &self.pool.segments);
        let mut done = Compacted { trees: 1, ..Compacted::default() };
        if let Some(records) = &self.leaves.records {
            // What is retired counts as in use.
            records.collect(m, segments);
        }
        let closed = ClosedSegments::new(self);
        let swept = if !closed.victims.is_empty() { self.move_all(&closed, &mut done) } else { Ok(()) };
        if let Some(records) = &self.leaves.records {
            records.collect_closed(m, segments);
        }
        done.segments = closed.emptied();
        drop(closed);
        segments.release_idle(m, self.root.slot);
        swept.map(|()| done)
    }

    /// Moves whatever there are free blocks for, sparse or not: for tests.
    #[cfg(any(test, feature = "crash"))]
    pub(crate) fn move_everything(&self) -> Result<(), Fault> {
        self.pool.writable()?;
        let _alone = self.compacting.lock();
        self.move_all(&Everything, &mut Compacted::default())
    }

    /// Goes once through the chain, by keys, while other threads change it.
    fn move_all(&self, closed: &impl Victims, done: &mut Compacted) -> Result<(), Fault> {
        let (mut seen, of) = (0, self.leaves.in_use());
        let mut entries = Vec::new();
        let mut unread = Some(Interval::everything());
        while let Some(rest) = unread {
            self.medium().pause();
            if seen % 4096 == 0 {
                self.tell(seen, of.max(seen));
            }
            seen += 1;
            let (next, leaf) = self.read_seen(rest.clone(), true, &mut entries)?;
            // A leaf that has nothing to move gets nothing that lies in a closed segment.
            unread = if closed.may_hold(leaf.at, &entries) { self.move_from(rest, closed, done)? } else { next };
        }
        self.tell(seen, seen);
        self.move_inner(closed, done)
    }

    /// Moves inner nodes that lie in closed segments (K6).
    fn move_inner(&self, closed: &impl Victims, done: &mut Compacted) -> Result<(), Fault> {
        let mut swept = Swept::nothing();
        while closed.may_hold_inner() {
            self.medium().pause();
            self.may_change()?;
            let _restructuring = self.restructuring.lock();
            let Some(bytes) = self.directory.move_next(&mut swept, &|at| closed.holds_inner(at))? else {
                return Ok(());
            };
            done.inner_nodes += u64::from(bytes > 0);
            done.bytes += bytes;
        }
        Ok(())
    }

    /// Moves what the leaf has that owns the first key of `rest`. Returns what is left of that: the leaf may have
    /// another end than when it was read.
    fn move_from(
        &self,
        rest: Unread<N>,
        closed: &impl Victims,
        done: &mut Compacted,
    ) -> Result<Option<Unread<N>>, Fault> {
        let leaves = &self.leaves;
        loop {
            self.may_change()?;
            let key = rest.first();
            let mut leaf = self.lock_owner(key)?;
            let (mut old, mut more, mut fault) = (Vec::new(), false, None);
            if self.moves_records_in_place() && self.needs_no_freezing(&leaf) {
                let copies = self.copy_records(&leaf, closed);
                more = copies.more;
                fault = self.point_to(&mut leaf, copies, &mut old, done).err();
            }
            let (at, stamp) = (leaf.at, leaves.stamp_of(&leaf));
            let lies_there = closed.holds_leaf(at) || leaves.records.is_some() && !self.moves_records_in_place();
            let (view, mut edges) = (leaf.view(), Edges::<N>::default());
            leaves.note_edges(&view, leaves.next_of(&view), &mut edges);
            drop(leaf);
            if !old.is_empty() {
                // Their slots point elsewhere, durably (K-B).
                self.retire_entries(old, stamp);
            }
            fault.map_or(Ok(()), Err)?;
            if more {
                continue;
            }
            if lies_there {
                self.move_leaf(key, closed, done)?;
            }
            return rest.beyond(&edges).map_err(|NoLess| no_less(at).into());
        }
    }

    /// Whether a slot can be pointed to another record where it is, so that no leaf is renewed for it.
    fn moves_records_in_place(&self) -> bool {
        self.leaves.records.is_some() && self.leaves.update_takes() == 0
    }

    /// Whether a leaf can be changed without being kept for a snapshot, which would keep its records as well.
    fn needs_no_freezing(&self, leaf: &Locked<'_, N>) -> bool {
        let newest = self.leaves.newest();
        newest == 0 || self.leaves.stamp_of(leaf) >= newest
    }

    /// Copies records of a leaf that lie in closed segments, as far as there are free blocks for them. The copies are
    /// flushed, but not fenced.
    fn copy_records(&self, leaf: &Locked<'_, N>, closed: &impl Victims) -> Copies<'_, N, M> {
        let (m, segments) = (self.medium(), &self.pool.segments);
        let mut copies = Copies::none(self);
        let Some(records) = &self.leaves.records else { return copies };
        for entry in self.leaves.entries(leaf) {
            let record = N::Keys::record(entry.1);
            if !closed.holds_record(record) {
                continue;
            }
            if copies.bytes >= AT_ONCE {
                copies.more = true;
                break;
            }
            match records.copy(m, segments, record) {
                Ok(Some((copy, bytes))) => match N::Keys::pointing_to(entry.1, copy) {
                    Some(value) => {
                        copies.made.push((entry, value));
                        copies.bytes += bytes;
                    }
                    None => records.discard(m, segments, copy),
                },
                // There is no free block of this size.
                Ok(None) => {}
                Err(broken) => {
                    copies.fault = Some(broken.into());
                    break;
                }
            }
        }
        copies
    }

    /// Points the slots of a leaf to copies of their records. The entries that they had are added to `old`.
    fn point_to(
        &self,
        leaf: &mut Locked<'_, N>,
        mut copies: Copies<'_, N, M>,
        old: &mut Vec<Entry>,
        done: &mut Compacted,
    ) -> Result<(), Fault> {
        let leaves = &self.leaves;
        let reading = self.reading();
        let mut fault = copies.fault.take();
        if !copies.made.is_empty() {
            // Crash: copies that no slot points to. With it, they are durable (V1).
            self.medium().fence(Step::RecordMove);
        }
        for (entry, value) in std::mem::take(&mut copies.made) {
            let place = N::Keys::with_key(entry, reading.as_ref(), |key| leaves.search(leaf, N::Keys::as_ref(key)));
            match place {
                Ok(Ok(place)) if leaves.value(leaf, place) == entry.1 => {
                    delay();
                    leaves.update(leaf, place, value);
                    old.push(entry);
                    done.records += 1;
                }
                // Without the error, the sweep would find the old record here again, and so on.
                Ok(_) => {
                    self.discard(N::Keys::record(value));
                    let broken = Broken::new(leaf.at, "N3: an entry that is not found by its key");
                    fault = fault.or_else(|| Some(broken.into()));
                }
                Err(broken) => {
                    self.discard(N::Keys::record(value));
                    fault = fault.or(Some(broken));
                }
            }
        }
        done.bytes += copies.bytes;
        fault.map_or(Ok(()), Err)
    }

    /// Moves the leaf that owns the key to another block, if it lies in a closed segment, or has records there that are
    /// moved with it (K4).
    pub(super) fn move_leaf(
        &self,
        key: RefOf<'_, N>,
        closed: &impl Victims,
        done: &mut Compacted,
    ) -> Result<(), Fault> {
        self.may_change()?;
        let (leaves, m) = (&self.leaves, self.medium());
        let restructuring = self.restructuring.lock();
        let Some((mut left, old)) = self.lock_beside(key)? else { return Ok(()) };
        let mut entries = leaves.entries(&old);
        let mut copies = Copies::none(self);
        if leaves.records.is_some() && !self.moves_records_in_place() {
            copies = self.copy_records(&old, closed);
            copies.fault.take().map_or(Ok(()), Err)?;
            for &((key, _), value) in &copies.made {
                entries.iter_mut().filter(|entry| entry.0 == key).for_each(|entry| entry.1 = value);
            }
        }
        if copies.made.is_empty() && !closed.holds_leaf(old.at) {
            return Ok(());
        }
        let new = match leaves.create_in_place_of(&old, 0, &entries) {
            Ok(Some(new)) => new,
            Ok(None) => return Ok(()),
            // There is no space for the record of a low.
            Err(fault) if fault.is_out_of_space() => return Ok(()),
            Err(fault) => return Err(fault),
        };
        // The tail is not listed in the index. Crash: an index in the pool names a leaf that was never in the chain; a
        // recovery finds that by comparing, and repoints (K-C).
        let repointed = match N::Keys::is_tail(old.range()) {
            true => Ok(false),
            false => self.directory.repoint(leaves.name(new.at), new.at),
        };
        let listed = match repointed {
            Ok(listed) => listed,
            Err(fault) => {
                leaves.free(new);
                return Err(fault);
            }
        };
        if !listed {
            m.fence(Step::MoveFill);
        }
        let (moved, bytes) = (std::mem::take(&mut copies.made), copies.bytes);
        // Crash, until the link: a block that no chain reaches; after it, the block of the old leaf is that.
        self.point(&mut left, new.at);
        if let LinkTo::Leaf(left) = &mut left {
            leaves.note_posted(left);
        }
        done.leaves += 1;
        done.bytes += u64::from(leaves.lines(&old)) * LINE + bytes;
        done.records += moved.len() as u64;
        leaves.free(old);
        let (stamp, at, is_tail) = (leaves.stamp_of(&new), new.at, N::Keys::is_tail(new.range()));
        drop((left, new));
        if !listed && !is_tail && self.directory.kind() == IndexKind::Persistent {
            // The thread whose split made this leaf would look at the old offset and give up; so post it here.
            self.post_now(leaves.name(at), at, at);
        }
        drop(restructuring);
        if !moved.is_empty() {
            self.retire_entries(moved.into_iter().map(|(entry, _)| entry).collect(), stamp);
        }
        Ok(())
    }

    /// Locks the leaf that owns the key, and what points to it; `None` if the chain is damaged there. The caller holds
    /// `restructuring`, so the leaf stays in the chain, and so does its low.
    fn lock_beside(&self, key: RefOf<'_, N>) -> Result<Option<WithLeft<'_, N>>, Fault> {
        let leaves = &self.leaves;
        let owner = self.lock_owner(key)?;
        let (at, range) = (owner.at, owner.range());
        drop(owner);
        let (left, old) = if N::Keys::is_first(range) {
            (LinkTo::Root, leaves.lock(self.head())?)
        } else {
            let left = N::Keys::with_key_before(leaves.block(at), |before| self.lock_owner(before))?;
            let old = leaves.lock_next(&left)?;
            (LinkTo::Leaf(left), old)
        };
        Ok(old.filter(|old| old.at == at).map(|old| (left, old)))
    }
}

impl<N: WordNode, M: Medium> PTree<N, M> {
    /// Moves what lies in sparse segments of the tree, and gives segments back to the pool, while other threads go on.
    ///
    /// As [`Pool::compact`], for this tree alone.
    ///
    /// # Errors
    ///
    /// As [`Pool::compact`].
    pub fn compact(&self) -> Result<Compacted> {
        self.state.durably(|| self.state.compact())
    }
}

impl<M: Medium> Pool<M> {
    /// Moves what lies in sparse segments, tree by tree, and gives segments back to the file system, while other
    /// threads go on.
    ///
    /// After many removals, a few blocks that are in use may keep whole segments. This moves leaves, inner nodes and
    /// records out of the sparsest of them, to free blocks of others: it takes no more space. Trees that are closed are
    /// opened if they have the default leaves, as [trees](Self::tree) and maps have; others are
    /// [listed](Compacted::skipped). A tree that is being compacted cannot be dropped. If two threads compact a tree,
    /// one waits for the other.
    ///
    /// These stay where they are: records of more than a quarter of a segment, which have segments of their own; and
    /// records in leaves that have not changed since the newest open [snapshot](crate::Snapshot) was opened. A reader
    /// that is put aside keeps old records, and so their segments. Readers see no change. A
    /// [transaction](crate::Transaction) that has read what is moved may have to begin again.
    ///
    /// How far it has come is reported to [`Options::progress`](crate::Options::progress): the leaves that were looked
    /// at.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::ReadOnly`], [`ErrorKind::Forked`]; [`ErrorKind::Corrupt`]: what is damaged stays where it is;
    /// [`ErrorKind::Journal`]; those of [opening](Self::tree) a tree. What was moved by then stays moved. It never
    /// fails for want of space.
    ///
    /// # Complexity
    ///
    /// Reads all leaves. For each record that moves, its own lines and one, and a fence; a fence for each leaf whose
    /// records move. For each leaf or inner node that moves, its lines and one or two, and two or three fences.
    ///
    /// # Crash consistency
    ///
    /// It may be interrupted anywhere. Each key is there, with its value, at any time.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use bristlecone::{Map, Pool};
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
    /// let texts: Map<u64, Vec<u8>> = pool.map("texts")?;
    /// for key in 0..50_000 {
    ///     texts.insert(key, &[7; 100])?;
    /// }
    /// for key in (0..50_000).filter(|key| key % 8 != 0) {
    ///     texts.remove(key)?;
    /// }
    /// let before = pool.stat().used;
    /// let done = pool.compact()?;
    /// assert!(done.records > 0 && pool.stat().used < before / 2);
    /// assert_eq!(texts.get(8)?.as_deref(), Some(&[7; 100][..]));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn compact(&self) -> Result<Compacted> {
        self.state.durably(|| self.compact_all())
    }

    fn compact_all(&self) -> Result<Compacted, Fault> {
        self.state.writable()?;
        let mut done = Compacted::default();
        let medium = &self.state.medium;
        let trees = self.state.of_live_roots(|root| (root.slot, root.name(medium), root.signature(medium)))?;
        for (slot, name, signature) in trees {
            match self.compact_one(slot, &name, signature) {
                Ok(Some(of_tree)) => done.add(of_tree),
                Ok(None) => done.skipped.push(name),
                // Another thread has dropped or renamed it meanwhile.
                Err(fault) if is_gone(&fault) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(done)
    }

    /// Compacts a tree; `None` if it is closed, and has other than the default leaves.
    fn compact_one(&self, slot: u16, name: &str, signature: Signature) -> Result<Option<Compacted>, Fault> {
        if let Some(tree) = self.state.open_tree(slot) {
            return tree.compact().map(Some);
        }
        let is_of = |layout, slots| signature.known() == Some((layout, slots));
        match IndexKind::from_tag(signature.index) {
            Some(index) if is_of(<OneLine>::LAYOUT, <OneLine>::SLOTS) => {
                self.compact_closed::<OneLine>(name, index, signature).map(Some)
            }
            Some(index) if is_of(<ByteLeaf>::LAYOUT, <ByteLeaf>::SLOTS) => {
                self.compact_closed::<ByteLeaf>(name, index, signature).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn compact_closed<N: TreeNode>(
        &self,
        name: &str,
        index: IndexKind,
        signature: Signature,
    ) -> Result<Compacted, Fault> {
        TreeState::<N, M>::open_existing(&self.state, name, index, signature.kinds)?.compact()
    }
}

/// Whether there is no tree with this name and these types any more.
fn is_gone(fault: &Fault) -> bool {
    use ErrorKind::{KindMismatch, LayoutMismatch, NoSuchTree};
    matches!(fault.kind(), NoSuchTree { .. } | LayoutMismatch { .. } | KindMismatch { .. })
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use crate::map::Map;
    use crate::medium::any::{Any, holding, words_of, zeroed};
    use crate::node::{ByteLeaf, Circular, IndexKind, Linear, OneLine, WordNode};
    use crate::papers::{Append, CircularPrinted, CowSip, Fingerprint, Logged, Versioned, crab};
    use crate::pool::{Compacted, Options, Pool};
    use crate::tree::PTree;

    fn options() -> Options {
        Pool::options().segment_size(4096)
    }

    fn pool() -> Pool<Any> {
        options().create_on(zeroed(4 << 20)).unwrap()
    }

    fn mixed(key: u64) -> u64 {
        key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// Whether a key stays: those of every eighth of runs that fill a few leaves each.
    fn stays(key: u64) -> bool {
        key % 256 < 32
    }

    /// Thins a tree, and compacts it. Returns how many inner nodes were moved.
    fn thinned<N: WordNode>(index: IndexKind) -> u64 {
        let pool = pool();
        let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
        (0..4000).for_each(|i| assert!(tree.insert(mixed(i) >> 52, i).is_ok()));
        let stay: Vec<(u64, u64)> = tree.iter().filter(|&(key, _)| stays(key)).collect();
        (0..4096).filter(|&key| !stays(key)).for_each(|key| assert!(tree.remove(key).is_ok()));
        let before = pool.stat().used;
        let done = tree.compact().unwrap();
        let name = std::any::type_name::<N>();
        assert!(done.leaves > 0 && done.segments > 0, "{name}, {index:?}: {done:?}");
        assert!(pool.stat().used < before, "{name}, {index:?}");
        assert!(tree.iter().eq(stay.iter().copied()), "{name}, {index:?}");
        let report = tree.check();
        assert!(report.is_clean(), "{name}, {index:?}: {report:?}");
        stay.iter().for_each(|&(key, value)| assert_eq!(tree.get(key), Some(value)));
        // As after a kill, and as after a close.
        let crashed = options().open_on(holding(words_of(pool.medium()))).unwrap();
        let again: PTree<N, Any> = crashed.tree_with("t", index).unwrap();
        assert!(again.iter().eq(tree.iter()) && again.check().is_clean(), "{name}, {index:?}");
        assert_eq!(tree.compact().unwrap().leaves, 0, "{name}, {index:?}");
        (0..4096).for_each(|key| assert!(tree.insert(key, key).is_ok()));
        assert!(tree.len() == 4096 && tree.check().is_clean(), "{name}, {index:?}");
        drop(tree);
        let closed = options().open_on(holding(words_of(pool.medium()))).unwrap();
        let again: PTree<N, Any> = closed.tree_with("t", index).unwrap();
        assert!(again.iter().eq((0..4096).map(|key| (key, key))) && again.check().is_clean(), "{name}, {index:?}");
        done.inner_nodes
    }

    fn thinned_with_all_indexes<N: WordNode>() -> u64 {
        assert_eq!(thinned::<N>(IndexKind::Volatile) + thinned::<N>(IndexKind::Flat), 0);
        thinned::<N>(IndexKind::Persistent)
    }

    #[test]
    fn leaves_of_all_layouts_move() {
        assert!(thinned_with_all_indexes::<OneLine<7>>() > 0);
        assert!(thinned_with_all_indexes::<Linear<8>>() > 0);
        assert!(thinned_with_all_indexes::<Circular<8>>() > 0);
        thinned_with_all_indexes::<CircularPrinted<4>>();
        thinned_with_all_indexes::<CowSip<8>>();
        thinned_with_all_indexes::<CowSip<4, { crab::OPT }>>();
        thinned_with_all_indexes::<Fingerprint<4>>();
        thinned_with_all_indexes::<Logged<4>>();
        thinned_with_all_indexes::<Append<16>>();
        thinned_with_all_indexes::<Versioned<4>>();
    }

    /// Above a head alone, a persistent index has no nodes.
    fn head_moves<N: WordNode>() {
        let pool = pool();
        let tree: PTree<N, Any> = pool.tree_with("t", IndexKind::Persistent).unwrap();
        tree.insert(7, 8).unwrap();
        let head = tree.state.head();
        (0..2).for_each(|_| assert!(tree.state.move_everything().is_ok()));
        assert_ne!(tree.state.head(), head);
        assert!(tree.state.directory.upper().unwrap().nodes().unwrap().is_empty());
        (0..500).for_each(|key| assert!(tree.insert(key, key).is_ok()));
        (0..2).for_each(|_| assert!(tree.state.move_everything().is_ok()));
        let report = tree.check();
        assert!(tree.iter().eq((0..500).map(|key| (key, key))) && report.is_clean(), "{report:?}");
    }

    #[test]
    fn a_head_that_moves_is_not_listed_alone() {
        head_moves::<OneLine<7>>();
        head_moves::<Circular<8>>();
        head_moves::<Linear<8>>();
        head_moves::<Versioned<4>>();
    }

    type Texts<K, N> = Map<K, Vec<u8>, N, Any>;

    fn text(key: u64, round: u64) -> Vec<u8> {
        (0..10 + mixed(key + round) % 90).map(|i| (mixed(key) >> (i % 8)) as u8).collect()
    }

    /// Compacts a map that has one entry in seven left, where every other one of these was replaced.
    fn records_move<K: crate::codec::Key, N: crate::map::LeafFor<K>>(
        key: impl Fn(u64) -> K,
        borrowed: impl for<'k> Fn(&'k K) -> K::Borrowed<'k>,
    ) -> Compacted {
        let pool = pool();
        let map: Texts<K, N> = pool.map_with("t", IndexKind::Volatile).unwrap();
        for i in 0..3000 {
            map.insert(borrowed(&key(i)), &text(i, 0)).unwrap();
        }
        for i in 0..3000 {
            match i % 14 {
                0 => {}
                7 => assert!(map.insert(borrowed(&key(i)), &text(i, 1)).unwrap()),
                _ => assert!(map.remove(borrowed(&key(i))).unwrap()),
            }
        }
        let before = pool.stat().used;
        let done = map.compact().unwrap();
        assert!(pool.stat().used < before, "{done:?}");
        let same = |map: &Texts<K, N>| {
            let report = map.check();
            assert!(report.is_clean() && map.len() == 429, "{report:?}");
            for i in (0..3000).step_by(7) {
                assert_eq!(map.get(borrowed(&key(i))).unwrap().unwrap(), text(i, i / 7 % 2));
            }
        };
        same(&map);
        let crashed = options().open_on(holding(words_of(pool.medium()))).unwrap();
        same(&crashed.map_with("t", IndexKind::Volatile).unwrap());
        drop(map);
        let closed = options().open_on(holding(words_of(pool.medium()))).unwrap();
        same(&closed.map_with("t", IndexKind::Volatile).unwrap());
        done
    }

    #[test]
    fn records_move_in_all_kinds_of_trees() {
        let number = |i| i;
        let done = records_move::<u64, OneLine<7>>(number, |&key| key);
        assert!(done.records > 0 && done.segments > 0, "{done:?}");
        assert!(records_move::<u64, Circular<8>>(number, |&key| key).records > 0);
        assert!(records_move::<u64, Append<16>>(number, |&key| key).records > 0);
        assert!(records_move::<u64, Versioned<4>>(number, |&key| key).records > 0);
        let bytes = |i: u64| format!("{i:>4}, and the rest").into_bytes();
        assert!(records_move::<Vec<u8>, ByteLeaf<8>>(bytes, |key| key).records > 0);
        // Lows are records, too.
        let long = |i: u64| format!("{:>80}{i:>4}, and the rest", "").into_bytes();
        assert!(records_move::<Vec<u8>, ByteLeaf<8>>(long, |key| key).records > 0);
    }
}
