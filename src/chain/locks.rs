//! Reading a node under a version, and locking a node.

use super::Chain;
use crate::error::Broken;
use crate::medium::Medium;
use crate::node::shadow::{Leave, Shadow, Version};
use crate::node::{Hints, InnerOps, Layout, Node, RangeOf, WordNode};
use crate::sync::bias::Bias;
use crate::sync::delay::{Validation, delay, is_left_out};

/// What a reader knows of a node. It is valid as long as [`validate`](Self::validate) says so.
pub(crate) struct NodeView<'c, N: Node> {
    pub(super) shadow: &'c Shadow<Hints<N>>,
    version: Version,
    pub(crate) at: u64,
    /// The range that the node owns.
    pub(crate) range: RangeOf<N>,
}

impl<N: Node> NodeView<'_, N> {
    /// The version under which the node is read.
    #[inline]
    pub(crate) fn version(&self) -> Version {
        self.version
    }

    /// Whether everything that was read through this view, and from the medium since, belongs to one version.
    #[inline]
    #[must_use]
    pub(crate) fn validate(&self) -> bool {
        self.shadow.lock.validate(self.version)
    }
}

/// A node whose shadow was found. It may have left the chain.
///
/// To find it takes three loads, which the compiler repeats wherever it is looked for again.
pub(crate) struct Met<'c, N: Node> {
    pub(super) shadow: &'c Shadow<Hints<N>>,
    pub(super) at: u64,
}

impl<N: Node> Clone for Met<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Node> Copy for Met<'_, N> {}

impl<'c, N: Node> Met<'c, N> {
    /// The range that the node owns, or seems to while somebody writes to it.
    #[inline(always)]
    pub(crate) fn range(self) -> RangeOf<N> {
        self.shadow.range::<N::Keys>()
    }

    /// A view of the node, if it is ready and nobody writes to it.
    #[inline(always)]
    pub(crate) fn view(self) -> Option<NodeView<'c, N>> {
        let Self { shadow, at } = self;
        let version = shadow.lock.peek();
        version.is_quiet().then(|| NodeView { shadow, version, at, range: shadow.range::<N::Keys>() })
    }

    /// Locks the node, if it is ready and nobody else writes to it. `bias`: the chain's.
    #[inline(always)]
    pub(crate) fn lock(self, bias: &Bias) -> Option<Locked<'c, N>> {
        let Self { shadow, at } = self;
        shadow.lock.lock_at_once(bias).map(|was| Locked { shadow, was, leave: Leave::Unchanged, at })
    }
}

/// A node locked by a writer. Dropping it publishes the changes and unlocks the node.
///
/// A verb that changes the node says so itself ([`change`](Self::change)). A node that was not changed keeps its old
/// version, so what readers have read of it stays valid.
///
/// The node's volatile state stays in its shadow, where only the holder of the lock may change it. A copy in this
/// struct would be moved from frame to frame.
pub(crate) struct Locked<'c, N: Node> {
    pub(super) shadow: &'c Shadow<Hints<N>>,
    pub(super) was: Version,
    pub(super) leave: Leave,
    pub(crate) at: u64,
}

impl<'c, N: Node> Locked<'c, N> {
    /// The view that a reader would have.
    pub(crate) fn view(&self) -> NodeView<'c, N> {
        NodeView { shadow: self.shadow, version: self.was, at: self.at, range: self.range() }
    }

    /// The version that the node had before it was locked.
    #[inline]
    pub(crate) fn was(&self) -> Version {
        self.was
    }

    /// Notes that the node is about to change, so that its readers start again. Every verb that stores to the node
    /// calls this first.
    #[inline(always)]
    pub(super) fn change(&mut self) {
        self.leave = Leave::Ready;
    }

    /// The range that the node owns.
    #[inline]
    pub(crate) fn range(&self) -> RangeOf<N> {
        self.shadow.range::<N::Keys>()
    }

    pub(super) fn set_range(&mut self, range: RangeOf<N>) {
        self.shadow.set_range::<N::Keys>(range);
    }
}

impl<N: Node> Drop for Locked<'_, N> {
    #[inline]
    fn drop(&mut self) {
        self.shadow.lock.unlock(self.was, self.leave);
    }
}

impl<N: Node, M: Medium> Chain<N, M> {
    /// A view of a node; `None` if it left the chain.
    #[inline]
    pub(crate) fn view(&self, at: u64) -> Result<Option<NodeView<'_, N>>, Broken> {
        let shadow = self.shadow(at);
        loop {
            let version = shadow.lock.optimistic_read();
            if version.is_ready() {
                return Ok(Some(NodeView { shadow, version, at, range: shadow.range::<N::Keys>() }));
            }
            if version.is_dead() {
                return Ok(None);
            }
            self.first_touch(at, version)?;
        }
    }

    /// The node at `at`, for what is tried at once; `None` if no node of its segment was touched since the open.
    #[inline(always)]
    pub(crate) fn meet(&self, at: u64) -> Option<Met<'_, N>> {
        Some(Met { shadow: self.shadow_at_once(at)?, at })
    }

    /// Whether a node was touched since the open, and did not leave the chain.
    pub(crate) fn is_ready(&self, at: u64) -> bool {
        self.shadow_at_once(at).is_some_and(|shadow| shadow.lock.peek().is_ready())
    }

    /// Recovers a node that was not touched since the open; `was` is the version that says so. If another thread is
    /// faster, this one does not take the lock: a ready node is only locked by threads that may change it.
    #[cold]
    fn first_touch(&self, at: u64, was: Version) -> Result<(), Broken> {
        delay();
        self.may_touch(at)?;
        let _window = self.medium().window();
        let shadow = self.shadow(at);
        if shadow.lock.try_lock(&self.bias, was) {
            let touched = self.lock_unready(Locked { shadow, was, leave: Leave::Unchanged, at })?;
            // Here other threads find the node locked by a thread that will not change it.
            delay();
            drop(touched);
        }
        Ok(())
    }

    /// Locks a node for writing; `None` if it left the chain.
    #[inline]
    pub(crate) fn lock(&self, at: u64) -> Result<Option<Locked<'_, N>>, Broken> {
        let shadow = self.shadow(at);
        let was = shadow.lock.lock_counted(&self.bias, &self.tally.waits);
        let locked = Locked { shadow, was, leave: Leave::Unchanged, at };
        if was.is_ready() { Ok(Some(locked)) } else { self.lock_unready(locked) }
    }

    /// Locks a node for writing if its lock is soon free, for a thread that has locked other nodes, and therefore does
    /// not sleep. `None` if the node left the chain, or if another thread keeps the lock.
    pub(crate) fn try_lock(&self, at: u64) -> Result<Option<Locked<'_, N>>, Broken> {
        let shadow = self.shadow(at);
        let Some(was) = shadow.lock.lock_soon(&self.bias) else { return Ok(None) };
        let locked = Locked { shadow, was, leave: Leave::Unchanged, at };
        if was.is_ready() { Ok(Some(locked)) } else { self.lock_unready(locked) }
    }

    /// Whether a node that was read under this version has not been written to since, and nobody writes to it.
    #[inline]
    #[must_use]
    pub(crate) fn still(&self, at: u64, version: Version) -> bool {
        self.shadow_at_once(at).is_some_and(|shadow| shadow.lock.validate(version))
    }

    /// Whether the node still has this version. Waits for a thread that has the lock, because that may leave the node
    /// as it was.
    #[cold]
    pub(crate) fn is_unchanged(&self, at: u64, version: Version) -> bool {
        self.shadow_at_once(at).is_some_and(|shadow| shadow.lock.optimistic_read() == version)
    }

    #[cold]
    fn lock_unready<'c>(&'c self, mut locked: Locked<'c, N>) -> Result<Option<Locked<'c, N>>, Broken> {
        if locked.was.is_dead() && !is_left_out(Validation::Dead) {
            return Ok(None);
        }
        let range = self.range_of(locked.at)?;
        self.fits(locked.at)?;
        self.may_touch(locked.at)?;
        N::Ops::recover(self.locked(&locked), range)?;
        self.count.touched(N::Ops::len(&locked.shadow.hints) as u64);
        locked.set_range(range);
        // Make it ready at once. This thread may take a block next, and in a damaged pool it may get this very one (see
        // `fill`).
        locked.was = locked.shadow.lock.make_ready(locked.was);
        Ok(Some(locked))
    }

    /// Only the process that opened the pool may finish recovery. (A child must not even try to take a lock: the thread
    /// that owned the bias at the fork is not there.)
    pub(crate) fn may_touch(&self, at: u64) -> Result<(), Broken> {
        if self.medium().forked() { Err(Broken::new(at, "a node that was not read before the fork")) } else { Ok(()) }
    }

    /// Locks the right neighbour; `None` if there is none, or if it left the chain.
    pub(crate) fn lock_next(&self, node: &Locked<'_, N>) -> Result<Option<Locked<'_, N>>, Broken> {
        self.next(node.at)?.map_or(Ok(None), |next| self.lock(next))
    }
}

impl<N: WordNode<Ops: InnerOps>, M: Medium> Chain<N, M> {
    /// As [`view`](Self::view), but also `None` if the node is of another level.
    ///
    /// In a damaged pool, a level may name a node of another level. A thread that has locked that node must not wait
    /// for it, so the level is checked first.
    #[inline]
    pub(crate) fn view_of_level(&self, at: u64, level: u16) -> Result<Option<NodeView<'_, N>>, Broken> {
        let shadow = self.shadow(at);
        if shadow.lock.peek().is_ready() && N::Ops::level_of(&shadow.hints) != level {
            return Ok(None);
        }
        Ok(self.view(at)?.filter(|view| N::Ops::level_of(&view.shadow.hints) == level))
    }
}
