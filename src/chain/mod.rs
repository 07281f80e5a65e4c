//! The nodes of one tree and kind, linked into chains, and the one rule by which chains change.
//!
//! **A node owns `[low, next.low)`, and `low` never changes.** So every structural change commits with one 8-byte store,
//! to the `next` word of the node on the left:
//!
//! | change | prepare (invisible) | commit |
//! |---|---|---|
//! | split | fill the right node | `left.next = right` |
//! | merge right into left | stage right's entries in left, beyond what left owns | `left.next = right.next` |
//! | redistribute | fill a new right node; stage in left what moves left | `left.next = new right` |
//!
//! Nothing is left to do afterwards: by N2 what left does not own any more *is* empty.

mod count;
mod links;
mod restructure;
mod shadows;

use crate::arch;
use crate::delay::{Validation, delay, is_left_out};
use crate::error::{Broken, Result};
use crate::medium::{LINE, Medium};
use crate::node::shadow::{Leave, Shadow, Version};
use crate::node::{Entry, InNode, NEXT, New, Node, Sorted, Span, link};
use crate::pool::Inner;
use crate::pool::blocks::{Blocks, Taken};
use crate::pool::segments::Kind;
use count::Count;
pub(crate) use links::Links;
use shadows::Shadows;
use std::ops::Deref;
use std::sync::Arc;

/// The nodes of one tree and kind.
pub(crate) struct Chain<N: Node, M: Medium> {
    links: Links<N, M>,
    /// Of each size.
    blocks: Box<[Blocks]>,
    shadows: Shadows<N::Aid>,
    shared: N::Shared,
    /// Of the entries.
    pub(crate) count: Count,
}

/// A chain is its links, with what it takes to change them.
impl<N: Node, M: Medium> Deref for Chain<N, M> {
    type Target = Links<N, M>;

    #[inline]
    fn deref(&self) -> &Links<N, M> {
        &self.links
    }
}

/// What a block is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    /// For one node more.
    Growth,
    /// For a node in the place of one whose block, of the same size, is given back before the tree's mutex is.
    Exchange,
}

/// What a reader knows of a node: valid as long as [`is_still`](Self::is_still) says so.
#[derive(Debug)]
pub(crate) struct View<'c, A> {
    shadow: &'c Shadow<A>,
    version: Version,
    pub(crate) at: u64,
    pub(crate) span: Span,
}

impl<A> View<'_, A> {
    /// Whether everything read through this view, and from the medium since, belongs together.
    #[inline]
    #[must_use]
    pub(crate) fn is_still(&self) -> bool {
        self.shadow.lock.is_still(self.version)
    }
}

/// A node locked by a writer. Dropping it publishes what changed and unlocks.
///
/// A verb that changes the node says so itself ([`change`](Self::change)). A node that nobody changed is left under its old
/// version: what readers have seen of it still holds.
///
/// What is known of the node stays in its shadow, where the lock lets one thread change it: a copy in here would be moved
/// from frame to frame.
#[derive(Debug)]
pub(crate) struct Locked<'c, A> {
    shadow: &'c Shadow<A>,
    was: Version,
    leave: Leave,
    pub(crate) at: u64,
}

impl<'c, A> Locked<'c, A> {
    /// What a reader would see.
    pub(crate) fn view(&self) -> View<'c, A> {
        View { shadow: self.shadow, version: self.was, at: self.at, span: self.span() }
    }

    /// The node is about to change: its readers are to begin again. Every verb that stores to it begins with this.
    #[inline(always)]
    fn change(&mut self) {
        self.leave = Leave::Ready;
    }

    /// What it owns.
    #[inline]
    pub(crate) fn span(&self) -> Span {
        self.shadow.span()
    }

    fn set_span(&mut self, span: Span) {
        self.shadow.set_span(span);
    }
}

impl<A> Drop for Locked<'_, A> {
    #[inline]
    fn drop(&mut self) {
        self.shadow.lock.unlock(self.was, self.leave);
    }
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// A chain without nodes.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io): no address space for the shadows.
    pub(crate) fn new(pool: Arc<Inner<M>>, tree: u16, kind: Kind) -> Result<Self> {
        let links = Links::new(pool, tree, kind);
        let segments = &links.pool.segments;
        let shadows = Shadows::new(segments.count(), (segments.size() / N::BYTES) as usize);
        Ok(Self {
            shadows: links.pool.reserved(shadows)?,
            blocks: links.classes().map(Blocks::new).collect(),
            shared: N::Shared::default(),
            links,
            count: Count::default(),
        })
    }

    /// Bytes of a node's shadow.
    pub(crate) const SHADOW: u64 = size_of::<Shadow<N::Aid>>() as u64;

    /// Bytes of memory that the shadows take.
    pub(crate) fn memory(&self) -> u64 {
        self.blocks.iter().map(|blocks| blocks.total(&self.pool.segments)).sum::<u64>() * Self::SHADOW
    }

    /// Its blocks, of each size.
    pub(crate) fn blocks(&self) -> &[Blocks] {
        &self.blocks
    }

    /// The shadow of a block of this chain; `at` was validated.
    #[inline(always)]
    fn shadow(&self, at: u64) -> &Shadow<N::Aid> {
        let segments = &self.pool.segments;
        let segment = segments.of(at).expect("a validated offset lies in a segment");
        self.shadows.get(segment, (segments.within(at) / N::BYTES) as usize)
    }

    /// What is known of a node. `None`: it left the chain.
    #[inline]
    pub(crate) fn view(&self, at: u64) -> Result<Option<View<'_, N::Aid>>, Broken> {
        let shadow = self.shadow(at);
        loop {
            let version = shadow.lock.begin();
            if version.is_ready() {
                return Ok(Some(View { shadow, version, at, span: shadow.span() }));
            }
            if version.is_dead() {
                return Ok(None);
            }
            self.first_touch(at, version)?;
        }
    }

    /// What is known of a node, if it is ready and nobody writes to it.
    #[inline(always)]
    pub(crate) fn view_at_once(&self, at: u64) -> Option<View<'_, N::Aid>> {
        let shadow = self.shadow(at);
        let version = shadow.lock.peek();
        version.is_quiet().then(|| View { shadow, version, at, span: shadow.span() })
    }

    /// Locks a node, if it is ready and nobody else writes to it.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self, at: u64) -> Option<Locked<'_, N::Aid>> {
        let shadow = self.shadow(at);
        shadow.lock.lock_at_once().map(|was| Locked { shadow, was, leave: Leave::Unchanged, at })
    }

    /// Reads a node that nobody has looked at since open, which `was` says. If another thread is faster its lock is not
    /// taken: a node that is ready is locked by nobody but those who may change it.
    #[cold]
    fn first_touch(&self, at: u64, was: Version) -> Result<(), Broken> {
        delay();
        let shadow = self.shadow(at);
        if shadow.lock.try_lock(was) {
            let touched = self.lock_unready(Locked { shadow, was, leave: Leave::Unchanged, at })?;
            // Others find the node locked by one who is not to change it.
            delay();
            drop(touched);
        }
        Ok(())
    }

    /// Locks a node for writing. `None`: it left the chain.
    #[inline]
    pub(crate) fn lock(&self, at: u64) -> Result<Option<Locked<'_, N::Aid>>, Broken> {
        let shadow = self.shadow(at);
        let was = shadow.lock.lock();
        let locked = Locked { shadow, was, leave: Leave::Unchanged, at };
        if was.is_ready() { Ok(Some(locked)) } else { self.lock_unready(locked) }
    }

    #[cold]
    fn lock_unready<'c>(&'c self, mut locked: Locked<'c, N::Aid>) -> Result<Option<Locked<'c, N::Aid>>, Broken> {
        if locked.was.is_dead() && !is_left_out(Validation::Dead) {
            return Ok(None);
        }
        let span = self.span_of(locked.at)?;
        self.fits(locked.at)?;
        if self.medium().forked() {
            // What recovery finishes is for the process that opened the pool.
            return Err(Broken::new(locked.at, "a node that was not read before the fork"));
        }
        N::recover(self.medium(), locked.at, &locked.shadow.aid, span)?;
        self.count.touched(N::len(&locked.shadow.aid) as u64);
        locked.set_span(span);
        // At once: this thread may ask for a block next, and in a damaged pool get this one (see `fill`).
        locked.was = locked.shadow.lock.make_ready(locked.was);
        Ok(Some(locked))
    }

    /// Takes a block of the smallest size and fills it with entries, which ascend; flushed, not fenced. Locked until
    /// dropped; nothing points to it.
    pub(crate) fn create(&self, level: u16, span: Span, next: u64, entries: &[Entry]) -> Result<Locked<'_, N::Aid>> {
        self.create_of((N::BYTES / LINE) as u32, For::Growth, level, span, next, entries)
    }

    /// The size of the blocks for a node of so many lines.
    fn class_for(lines: u32) -> usize {
        (u64::from(lines) * LINE).div_ceil(N::BYTES).next_power_of_two().trailing_zeros() as usize
    }

    /// What a block for so many lines is taken for, if this node is given back for it.
    pub(crate) fn in_place_of(&self, node: &Locked<'_, N::Aid>, lines: u32) -> For {
        if self.class_of(node.at) == Self::class_for(lines) { For::Exchange } else { For::Growth }
    }

    /// The same, in a block that has so many lines.
    pub(crate) fn create_of(
        &self,
        lines: u32,
        purpose: For,
        level: u16,
        span: Span,
        next: u64,
        entries: &[Entry],
    ) -> Result<Locked<'_, N::Aid>> {
        self.fill(self.take(lines, purpose)?, lines, level, span, next, entries)
    }

    /// Takes a block for a node of the smallest size, to be [filled](Self::fill_first) or [given back](Self::give_back).
    pub(crate) fn take_first(&self) -> Result<Taken> {
        self.take((N::BYTES / LINE) as u32, For::Growth)
    }

    /// Gives back a block that was taken and not filled.
    pub(crate) fn give_back(&self, block: Taken) {
        self.blocks[self.class_of(block.at)].give(block.at);
    }

    /// As [`create`](Self::create), of a leaf, in a block that was taken before.
    pub(crate) fn fill_first(
        &self,
        block: Taken,
        span: Span,
        next: u64,
        entries: &[Entry],
    ) -> Result<Locked<'_, N::Aid>> {
        self.fill(block, (N::BYTES / LINE) as u32, 0, span, next, entries)
    }

    fn take(&self, lines: u32, purpose: For) -> Result<Taken> {
        let (blocks, segments) = (&self.blocks[Self::class_for(lines)], &self.pool.segments);
        match purpose {
            For::Growth => blocks.take(self.medium(), segments),
            For::Exchange => blocks.take_in_exchange(self.medium(), segments),
        }
    }

    fn fill(
        &self,
        block: Taken,
        lines: u32,
        level: u16,
        span: Span,
        next: u64,
        entries: &[Entry],
    ) -> Result<Locked<'_, N::Aid>> {
        let shadow = self.shadow(block.at);
        if shadow.lock.peek().is_ready() {
            // A close record may call anything free, so a block may be free twice. The thread that asks may hold the lock.
            return Err(Broken::new(block.at, "R2: a block in use is called free").in_pool(self.medium().name()));
        }
        let was = shadow.lock.make_ready(shadow.lock.lock());
        delay();
        N::allocated(self.medium(), block.at);
        let new = New { level, low: span.low(), next, lines };
        N::fill(self.medium(), block.at, &shadow.aid, new, entries, block.zeroed);
        shadow.set_span(span);
        Ok(Locked { shadow, was, leave: Leave::Ready, at: block.at })
    }

    /// Leaves a node as one that is in no chain, perhaps until it is [adopted](Self::adopt).
    pub(crate) fn hide(&self, mut node: Locked<'_, N::Aid>) {
        node.leave = Leave::Dead;
    }

    /// Makes a hidden node one of the chain.
    pub(crate) fn adopt(&self, at: u64, span: Span) {
        let shadow = self.shadow(at);
        let was = shadow.lock.lock();
        shadow.set_span(span);
        delay();
        shadow.lock.unlock(was, Leave::Ready);
    }

    /// Gives back a node that is in no chain: not yet, or not any more, durably.
    pub(crate) fn free(&self, node: Locked<'_, N::Aid>) {
        let at = node.at;
        self.hide(node);
        self.discard(at);
    }

    /// Gives back a block that was hidden.
    pub(crate) fn discard(&self, at: u64) {
        N::released(self.medium(), at);
        self.blocks[self.class_of(at)].give(at);
    }

    /// Hints that a node is about to be searched for a key.
    #[inline(always)]
    pub(crate) fn prefetch(&self, at: u64, key: u64) {
        arch::prefetch_of(self.shadow(at));
        N::prefetch(self.medium(), at, key);
    }

    /// Hints that all of a node is about to be read. `at` need not be the offset of one.
    pub(crate) fn prefetch_all(&self, at: u64) {
        if self.validate(at, at).is_ok() {
            arch::prefetch_of(self.shadow(at));
            N::prefetch_all(self.medium(), at);
        }
    }

    // Reading through a view.

    /// The value of a key.
    #[inline]
    pub(crate) fn value_in(&self, view: &View<'_, N::Aid>, key: u64) -> Option<u64> {
        let (m, aid) = (self.medium(), &view.shadow.aid);
        N::searched(aid, &self.shared);
        let place = N::lookup(m, view.at, aid, key)?;
        Some(N::value(m, view.at, aid, place))
    }

    /// Puts the entries with keys in `from..=to` at the start of `out`, in ascending order; tells how many.
    #[inline]
    pub(crate) fn entries_in(&self, view: &View<'_, N::Aid>, keys: (u64, u64), out: &mut Vec<Entry>) -> usize {
        N::entries(self.medium(), view.at, &view.shadow.aid, keys, out)
    }

    /// The right neighbour, not validated.
    #[inline]
    pub(crate) fn next_of(&self, view: &View<'_, N::Aid>) -> u64 {
        self.medium().load(view.at + NEXT)
    }

    // The verbs on one locked node. Those that change it return with their effect durable.

    #[inline]
    pub(crate) fn len(&self, node: &Locked<'_, N::Aid>) -> usize {
        N::len(&node.shadow.aid)
    }

    /// Slots that are there to be taken.
    #[inline]
    pub(crate) fn room(&self, node: &Locked<'_, N::Aid>) -> usize {
        N::room(&node.shadow.aid)
    }

    /// Slots that are taken, by entries or by what is left of them.
    pub(crate) fn taken(&self, node: &Locked<'_, N::Aid>) -> usize {
        N::taken(&node.shadow.aid)
    }

    /// All slots.
    pub(crate) fn slots(&self, node: &Locked<'_, N::Aid>) -> usize {
        self.taken(node) + self.room(node)
    }

    /// Whether a copy with the change costs less than the change in place.
    pub(crate) fn copies(&self, node: &Locked<'_, N::Aid>, change: InNode) -> bool {
        N::copies(self.medium(), &node.shadow.aid, change)
    }

    /// Passes on what is known of the use of a node to one of so many that replace it.
    pub(crate) fn inherit(&self, new: &Locked<'_, N::Aid>, of: &Locked<'_, N::Aid>, heirs: usize) {
        N::inherit(&new.shadow.aid, &of.shadow.aid, heirs);
    }

    /// Lines that it has.
    pub(crate) fn size(&self, node: &Locked<'_, N::Aid>) -> u32 {
        N::size(&node.shadow.aid).unwrap_or((N::BYTES / LINE) as u32)
    }

    /// Lines of the nodes that are to replace this one.
    pub(crate) fn lines(&self, node: &Locked<'_, N::Aid>) -> u32 {
        // Those of the largest block that a segment has room for.
        let most = (N::BYTES << (self.pool.segments.size() / N::BYTES).ilog2()) / LINE;
        let lines = N::lines(self.medium(), &node.shadow.aid, &self.shared, most as u32);
        lines.unwrap_or((N::BYTES / LINE) as u32)
    }

    #[inline]
    pub(crate) fn search(&self, node: &Locked<'_, N::Aid>, key: u64) -> Result<usize, usize> {
        N::search(self.medium(), node.at, &node.shadow.aid, key)
    }

    #[inline]
    pub(crate) fn value(&self, node: &Locked<'_, N::Aid>, place: usize) -> u64 {
        N::value(self.medium(), node.at, &node.shadow.aid, place)
    }

    #[inline]
    pub(crate) fn insert(&self, node: &mut Locked<'_, N::Aid>, place: usize, entry: Entry) {
        node.change();
        N::insert(self.medium(), node.at, &node.shadow.aid, place, entry);
        self.medium().fence();
    }

    /// Inserts an entry, or replaces the value of one, as a search says where. Durable when the lines that it tells are
    /// [flushed](Self::flush_lines) and fenced: until then, the node stays locked.
    pub(crate) fn put(&self, node: &mut Locked<'_, N::Aid>, place: Result<usize, usize>, entry: Entry) -> u64 {
        node.change();
        let (m, at, aid) = (self.medium(), node.at, &node.shadow.aid);
        if N::INDEPENDENT {
            return 1 << N::put(m, at, aid, place, entry);
        }
        match place {
            Ok(place) => N::update(m, at, aid, place, entry.1),
            Err(place) => N::insert(m, at, aid, place, entry),
        }
        m.fence();
        0
    }

    /// Flushes these lines of a node, by bits.
    pub(crate) fn flush_lines(&self, node: &Locked<'_, N::Aid>, lines: u64) {
        let m = self.medium();
        (0..u64::BITS.into())
            .filter(|line| lines >> line & 1 == 1)
            .for_each(|line| m.flush(node.at + line * LINE, LINE));
    }

    #[inline]
    pub(crate) fn update(&self, node: &mut Locked<'_, N::Aid>, place: usize, value: u64) {
        node.change();
        N::update(self.medium(), node.at, &node.shadow.aid, place, value);
        self.medium().fence();
    }

    #[inline]
    pub(crate) fn remove(&self, node: &mut Locked<'_, N::Aid>, place: usize) {
        node.change();
        N::remove(self.medium(), node.at, &node.shadow.aid, node.span(), place);
        self.medium().fence();
    }

    /// Makes another node the right neighbour, which commits what was prepared; flushed, not fenced.
    pub(crate) fn link(&self, node: &mut Locked<'_, N::Aid>, right: u64) {
        node.change();
        link(self.medium(), node.at, right);
    }

    /// All entries, in order.
    pub(crate) fn entries(&self, node: &Locked<'_, N::Aid>) -> Vec<Entry> {
        let mut entries = Vec::with_capacity(N::SLOTS + 1);
        let count = N::entries(self.medium(), node.at, &node.shadow.aid, (0, u64::MAX), &mut entries);
        entries.truncate(count);
        entries
    }
}

/// What only the nodes of an index need.
impl<N: Sorted, M: Medium> Chain<N, M> {
    /// As [`view`](Self::view); `None` too if the node is of another level.
    ///
    /// In a damaged pool, one level may name a node of another. A thread that has locked that one must not wait for it: so
    /// the level is looked at first.
    #[inline]
    pub(crate) fn view_of_level(&self, at: u64, level: u16) -> Result<Option<View<'_, N::Aid>>, Broken> {
        let shadow = self.shadow(at);
        if shadow.lock.peek().is_ready() && shadow.aid.level() != level {
            return Ok(None);
        }
        Ok(self.view(at)?.filter(|view| view.shadow.aid.level() == level))
    }

    /// The child whose separator is the greatest not above the key.
    pub(crate) fn child(&self, view: &View<'_, N::Aid>, key: u64) -> Option<u64> {
        let (m, aid) = (self.medium(), &view.shadow.aid);
        let place = match N::search(m, view.at, aid, key) {
            Ok(place) => place,
            Err(place) => place.checked_sub(1)?,
        };
        Some(N::value(m, view.at, aid, place))
    }
}
