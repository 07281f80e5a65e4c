//! The snapshots of an open pool: how they are opened, closed, and given up.

use super::{Instants, Open, Snapshots, Trees};
use crate::error::Fault;
use crate::medium::Medium;
use crate::medium::event::EventKind;
use crate::pool::epochs::Staying;
use crate::pool::roots::Root;
use crate::pool::{PoolState, catalog};
use crate::sync::{AtomicBool, Ordering};
use std::sync::Arc;

/// A snapshot of a transaction's own. A thread that needs it to go lets it expire.
pub(crate) struct Moment<'p, M: Medium> {
    pool: &'p PoolState<M>,
    pub(crate) instant: u64,
    is_expired: Arc<AtomicBool>,
    /// What it keeps does not come back while a change on this thread waits for it.
    _staying: Staying,
}

impl<M: Medium> Moment<'_, M> {
    /// Whether it has expired: then what was just read of it means nothing.
    pub(crate) fn is_expired(&self) -> bool {
        self.is_expired.load(Ordering::SeqCst)
    }
}

impl<M: Medium> Drop for Moment<'_, M> {
    fn drop(&mut self) {
        self.pool.close_snapshot(self.instant);
    }
}

impl<M: Medium> PoolState<M> {
    /// Opens a snapshot of all trees for a transaction.
    pub(crate) fn moment(&self) -> Result<Moment<'_, M>, Fault> {
        self.owned()?;
        let slots = self.catalog.lock();
        let (instant, is_expired) = self.instants.open_for(true, catalog::open(&slots));
        Ok(Moment { pool: self, instant, is_expired, _staying: Staying::here() })
    }

    /// Lets all snapshots of transactions expire. Returns true if there were any.
    pub(crate) fn expire_moments(&self) -> bool {
        let mut any = false;
        self.give_up(|instants, open| {
            while let Some(instant) = open.oldest_moment() {
                open.expire(instant);
                any = true;
            }
            if any {
                instants.thaw(open);
            }
        });
        any
    }

    /// Opens a snapshot of all trees. In a forked child, it is one that nothing can be read from.
    pub(crate) fn open_snapshot(&self) -> (u64, Arc<AtomicBool>) {
        if self.owned().is_err() {
            // Any lock may be held by a thread that exists only in the parent.
            return (0, Arc::new(AtomicBool::new(false)));
        }
        // No tree is opened, created or dropped meanwhile.
        let slots = self.catalog.lock();
        self.instants.open(catalog::open(&slots))
    }

    /// Opens a snapshot, and applies `read` to the root of each tree that it sees.
    pub(crate) fn open_snapshot_of<T>(
        &self,
        read: impl FnMut(Root) -> T,
    ) -> Result<(u64, Arc<AtomicBool>, Vec<T>), Fault> {
        self.owned()?;
        let slots = self.catalog.lock();
        let trees = self.live()?.into_iter().map(read).collect();
        let (instant, is_expired) = self.instants.open(catalog::open(&slots));
        Ok((instant, is_expired, trees))
    }

    /// Numbers about the snapshots. A forked child has none.
    pub(crate) fn snapshots(&self) -> Snapshots {
        if self.owned().is_err() {
            return Snapshots { open: 0, memory: 0, expired: 0 };
        }
        let open = self.instants.open.lock();
        Snapshots {
            open: open.snapshots.values().filter(|snapshot| !snapshot.is_moment).count() as u64,
            memory: self.instants.memory.load(Ordering::Relaxed),
            expired: open.expired,
        }
    }

    /// Closes a snapshot, unless it has expired.
    pub(crate) fn close_snapshot(&self, instant: u64) {
        if self.owned().is_err() {
            // In a forked child, a lock may be held by a thread that exists only in the parent. Nothing is given back,
            // but what keeps the pool open must go with the handles of the child.
            let trees = self.instants.open.try_lock().map(|mut open| {
                open.snapshots.remove(&instant);
                if open.snapshots.is_empty() { std::mem::take(&mut open.trees) } else { Trees::new() }
            });
            drop(trees);
            return;
        }
        self.give_up(|instants, open| {
            if open.snapshots.remove(&instant).is_some() {
                instants.thaw(open);
            }
        });
    }

    /// Gives up snapshots, those of transactions first and then the oldest ones, until what the others see, and so many
    /// bytes more, take no more memory than they may.
    #[cold]
    fn expire(&self, more: u64) {
        let mut expired = 0;
        self.give_up(|instants, open| {
            let before = open.expired;
            while instants.memory.load(Ordering::Relaxed).saturating_add(more) > instants.limit
                && let Some(instant) = open.oldest_moment().or_else(|| open.snapshots.keys().next().copied())
            {
                open.expire(instant);
                instants.thaw(open);
            }
            instants.is_over.store(false, Ordering::Relaxed);
            expired = open.expired - before;
        });
        if expired > 0 {
            self.vitals.tell(EventKind::SnapshotsExpired { count: expired, limit: self.instants.limit });
        }
    }

    fn give_up(&self, snapshots: impl FnOnce(&Instants, &mut Open)) {
        let _window = self.medium.window();
        let slots = self.catalog.lock();
        let mut open = self.instants.open.lock();
        snapshots(&self.instants, &mut open);
        let unneeded = open.take_unneeded();
        drop((open, slots));
        // This may close trees, which locks the catalogue.
        drop(unneeded);
    }

    /// Gives up old snapshots if there is too little memory for all. Every change calls this before it locks anything,
    /// and after it has made sure that this process owns the pool.
    #[inline(always)]
    pub(crate) fn limit_snapshots(&self) {
        if self.instants.is_over() {
            self.expire(0);
        }
    }

    /// Gives up old snapshots if there is too little memory for all and for `more` bytes, which the next change may
    /// freeze. `more` is called only if there are snapshots.
    pub(crate) fn limit_snapshots_to(&self, more: impl FnOnce() -> u64) {
        if self.instants.newest() != 0 {
            self.expire(more());
        }
    }
}
