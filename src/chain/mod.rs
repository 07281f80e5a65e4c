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

mod restructure;
mod shadows;

use crate::arch;
use crate::error::{Broken, Result};
use crate::medium::{LINE, Medium};
use crate::node::shadow::{Leave, Shadow, Version};
use crate::node::{Entry, HEADER, LOW, NEXT, Node, Span, Window, level_of, slots};
use crate::pool::Inner;
use crate::pool::blocks::Blocks;
use crate::pool::segments::{self, Kind};
use shadows::Shadows;
use std::marker::PhantomData;
use std::sync::Arc;

/// Bytes of slots that are asked for ahead: of larger nodes, a search reads few lines.
const PREFETCHED: u64 = 16 * LINE;

/// The nodes of one tree and kind.
pub(crate) struct Chain<N: Node, M: Medium> {
    pub(crate) pool: Arc<Inner<M>>,
    blocks: Blocks,
    shadows: Shadows,
    layout: PhantomData<N>,
}

/// What a reader knows of a node: valid as long as [`is_still`](Self::is_still) says so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View<'c> {
    shadow: &'c Shadow,
    version: Version,
    pub(crate) at: u64,
    pub(crate) span: Span,
    pub(crate) window: Window,
}

impl View<'_> {
    /// Whether everything read through this view, and from the medium since, belongs together.
    #[inline]
    #[must_use]
    pub(crate) fn is_still(&self) -> bool {
        self.shadow.lock.is_still(self.version)
    }
}

/// A node locked by a writer. Dropping it publishes what changed and unlocks.
///
/// What is known of the node stays in its shadow, where the lock lets one thread change it: a copy in here would be moved
/// from frame to frame.
#[derive(Debug)]
pub(crate) struct Locked<'c> {
    shadow: &'c Shadow,
    was: Version,
    leave: Leave,
    pub(crate) at: u64,
}

impl<'c> Locked<'c> {
    /// What a reader would see.
    pub(crate) fn view(&self) -> View<'c> {
        View { shadow: self.shadow, version: self.was, at: self.at, span: self.span(), window: self.window() }
    }

    /// Unlocks a node that was only read: what readers have seen of it still holds.
    pub(crate) fn unlock_unchanged(mut self) {
        self.leave = Leave::Unchanged;
    }

    /// What it owns.
    #[inline]
    pub(crate) fn span(&self) -> Span {
        self.shadow.span()
    }

    /// Where its run lies.
    #[inline]
    pub(crate) fn window(&self) -> Window {
        self.shadow.window()
    }

    #[inline]
    fn set_window(&mut self, window: Window) {
        self.shadow.set_window(window);
    }

    fn set_span(&mut self, span: Span) {
        self.shadow.set_span(span);
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shadow.lock.unlock(self.was, self.leave);
    }
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// A chain without nodes.
    pub(crate) fn new(pool: Arc<Inner<M>>, tree: u16, kind: Kind) -> Self {
        let blocks = Blocks::new(segments::Entry::new(kind, tree, N::BYTES as u32));
        let shadows = Shadows::new(pool.segments.count());
        Self { pool, blocks, shadows, layout: PhantomData }
    }

    #[inline]
    pub(crate) fn medium(&self) -> &M {
        &self.pool.medium
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// After a walk: the blocks that it read are in use, all others are free.
    pub(crate) fn recover_blocks(&self) {
        self.blocks.recover(&self.pool.segments, |at| self.shadow(at).lock.begin().is_ready());
    }

    /// The shadow of a block of this chain; `at` was validated.
    #[inline]
    fn shadow(&self, at: u64) -> &Shadow {
        let segments = &self.pool.segments;
        let segment = segments.of(at).expect("a validated offset lies in a segment");
        let index = segments.within(at) / N::BYTES;
        self.shadows.get(segment, index as usize, (segments.size() / N::BYTES) as usize)
    }

    /// Accepts an offset that was read from the medium as one of this chain's blocks.
    #[inline]
    pub(crate) fn validate(&self, at: u64, read_from: u64) -> Result<u64, Broken> {
        // The unit is the class's anyway: said as a constant, it is what the compiler divides by.
        let class = segments::Entry { unit: N::BYTES as u32, ..self.blocks.class() };
        if self.pool.segments.is_block(at, class) {
            Ok(at)
        } else {
            Err(Broken::new(read_from, "N1: a link to no node of this tree"))
        }
    }

    /// The right neighbour, validated; `None` at the end of the chain.
    ///
    /// Its low is greater: so whoever goes right, or locks one node after the other, comes to an end whatever the bytes.
    pub(crate) fn next(&self, at: u64) -> Result<Option<u64>, Broken> {
        let m = self.medium();
        let next = match m.load(at + NEXT) {
            0 => return Ok(None),
            next => self.validate(next, at + NEXT)?,
        };
        if m.load(next + LOW) <= m.load(at + LOW) {
            return Err(Broken::new(next + LOW, "N4: lows ascend along a chain"));
        }
        Ok(Some(next))
    }

    /// What a node owns, from the medium: its `low` and its neighbour's.
    pub(crate) fn span_of(&self, at: u64) -> Result<Span, Broken> {
        let low = self.medium().load(at + LOW);
        let Some(next) = self.next(at)? else { return Ok(Span::new(low, u64::MAX)) };
        if self.level(next)? != self.level(at)? {
            return Err(Broken::new(at + NEXT, "N1: a link to a node of another level"));
        }
        Ok(Span::new(low, self.medium().load(next + LOW)))
    }

    /// Reads the level of a node from the medium.
    pub(crate) fn level(&self, at: u64) -> Result<u16, Broken> {
        level_of::<N, M>(self.medium(), at)
    }

    /// What is known of a node. `None`: it left the chain.
    #[inline]
    pub(crate) fn view(&self, at: u64) -> Result<Option<View<'_>>, Broken> {
        let shadow = self.shadow(at);
        loop {
            let version = shadow.lock.begin();
            if version.is_ready() {
                return Ok(Some(View { shadow, version, at, span: shadow.span(), window: shadow.window() }));
            }
            if version.is_dead() {
                return Ok(None);
            }
            self.first_touch(at)?;
        }
    }

    /// As [`view`](Self::view); `None` too if the node is of another level.
    ///
    /// In a damaged pool, one level may name a node of another. A thread that has locked that one must not wait for it: so
    /// the level is looked at first.
    #[inline]
    pub(crate) fn view_of_level(&self, at: u64, level: u16) -> Result<Option<View<'_>>, Broken> {
        let shadow = self.shadow(at);
        if shadow.lock.peek().is_ready() && shadow.level() != level {
            return Ok(None);
        }
        Ok(self.view(at)?.filter(|view| view.shadow.level() == level))
    }

    /// Reads a node that nobody has looked at since open.
    #[cold]
    fn first_touch(&self, at: u64) -> Result<(), Broken> {
        if let Some(node) = self.lock(at)?
            && node.was.is_ready()
        {
            // Another thread was faster.
            node.unlock_unchanged();
        }
        Ok(())
    }

    /// Locks a node for writing. `None`: it left the chain.
    #[inline]
    pub(crate) fn lock(&self, at: u64) -> Result<Option<Locked<'_>>, Broken> {
        let shadow = self.shadow(at);
        let was = shadow.lock.lock();
        if was.is_ready() {
            Ok(Some(Locked { shadow, was, leave: Leave::Ready, at }))
        } else {
            self.lock_unready(Locked { shadow, was, leave: Leave::Unchanged, at })
        }
    }

    #[cold]
    fn lock_unready<'c>(&'c self, mut locked: Locked<'c>) -> Result<Option<Locked<'c>>, Broken> {
        if locked.was.is_dead() {
            return Ok(None);
        }
        let (level, span, window) = self.read(locked.at)?;
        locked.shadow.set_level(level);
        locked.set_span(span);
        locked.set_window(window);
        locked.leave = Leave::Ready;
        Ok(Some(locked))
    }

    /// Reads a node from the medium and finishes what a crash interrupted in it.
    fn read(&self, at: u64) -> Result<(u16, Span, Window), Broken> {
        let level = self.level(at)?;
        let span = self.span_of(at)?;
        Ok((level, span, slots::repair::<N, M>(self.medium(), at, span)?))
    }

    /// Takes a block and fills it; flushed, not fenced. Locked until dropped; nothing points to it.
    pub(crate) fn create(
        &self,
        level: u16,
        span: Span,
        next: u64,
        entries: impl Iterator<Item = Entry>,
    ) -> Result<Locked<'_>> {
        let block = self.blocks.take(self.medium(), &self.pool.segments)?;
        let shadow = self.shadow(block.at);
        if shadow.lock.peek().is_ready() {
            // A close record may call anything free. The thread that asks may hold the lock.
            return Err(Broken::new(block.at, "R2: a block in use is called free").in_pool(self.medium().name()));
        }
        let was = shadow.lock.lock();
        let window = slots::fill::<N, M>(self.medium(), block.at, level, span.low(), next, entries, block.zeroed);
        shadow.set_level(level);
        shadow.set_span(span);
        shadow.set_window(window);
        Ok(Locked { shadow, was, leave: Leave::Ready, at: block.at })
    }

    /// Leaves a new node as if it were in no chain, until it is [adopted](Self::adopt).
    pub(crate) fn hide(&self, mut node: Locked<'_>) {
        node.leave = Leave::Dead;
    }

    /// Makes a hidden node one of the chain.
    pub(crate) fn adopt(&self, at: u64, span: Span) {
        let shadow = self.shadow(at);
        let was = shadow.lock.lock();
        shadow.set_span(span);
        shadow.lock.unlock(was, Leave::Ready);
    }

    /// Gives back a block that was hidden.
    pub(crate) fn discard(&self, at: u64) {
        self.blocks.give(at);
    }

    /// Gives back a node that is in no chain any more, durably.
    pub(crate) fn free(&self, mut node: Locked<'_>) {
        node.leave = Leave::Dead;
        let at = node.at;
        drop(node);
        self.blocks.give(at);
    }

    /// Hints that a node is about to be searched.
    #[inline]
    pub(crate) fn prefetch(&self, at: u64) {
        arch::prefetch_of(self.shadow(at));
        self.medium().prefetch(at + HEADER, (N::BYTES - HEADER).min(PREFETCHED));
    }

    // The verbs on one locked node. Each returns with its effect durable.

    #[inline]
    pub(crate) fn search(&self, node: &Locked<'_>, key: u64) -> Result<usize, usize> {
        N::search(self.medium(), node.at, node.window(), key)
    }

    #[inline]
    pub(crate) fn value(&self, node: &Locked<'_>, i: usize) -> u64 {
        slots::value::<N, M>(self.medium(), node.at, node.window(), i)
    }

    pub(crate) fn insert(&self, node: &mut Locked<'_>, i: usize, entry: Entry) {
        node.set_window(slots::insert::<N, M>(self.medium(), node.at, node.window(), i, entry));
    }

    pub(crate) fn update(&self, node: &Locked<'_>, i: usize, value: u64) {
        slots::update::<N, M>(self.medium(), node.at, node.window(), i, value);
    }

    pub(crate) fn remove(&self, node: &mut Locked<'_>, i: usize) {
        node.set_window(slots::remove::<N, M>(self.medium(), node.at, node.span(), node.window(), i));
    }

    pub(crate) fn entries(&self, node: &Locked<'_>) -> Vec<Entry> {
        slots::entries::<N, M>(self.medium(), node.at, node.window()).collect()
    }
}
