//! The catalogue: which trees are open, and which are just being opened, created, closed or dropped.
//!
//! ```text
//! (none) ── claim ──> claimed ── publish ──> open ── last handle goes ──> closing ── closed ──> (none)
//!    ^                   │
//!    └── the claim goes ─┘   it failed, panicked, or dropped the tree
//! ```
//!
//! A slot of the roots is in one of these states. Whoever wants a tree that is claimed or closing waits until it is not;
//! nobody else does. Root entries change under the catalogue's lock, so who holds it reads them whole.

use crate::delay::{Validation, is_left_out};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The states of all slots.
pub(crate) struct Catalog<T: ?Sized> {
    slots: Mutex<Slots<T>>,
    /// A slot is no more claimed, or no more closing.
    settled: Condvar,
}

/// The slots that are in use, under the lock.
pub(crate) type Slots<T> = HashMap<u16, Slot<T>>;

/// The state of a slot.
pub(crate) enum Slot<T: ?Sized> {
    /// One thread is at work on it. Until a tree that is created has its root entry, its name is here.
    Claimed(Option<Box<str>>),
    /// Open; or closing, if there is no handle any more.
    Open(Weak<T>),
}

/// What a slot is to who wants its tree.
pub(crate) enum Found<T: ?Sized> {
    /// Nobody has it.
    Free,
    /// Somebody has it open.
    Open(Arc<T>),
    /// It has to be waited for.
    Unsettled,
}

impl<T: ?Sized> Catalog<T> {
    /// Nothing is open.
    pub(crate) fn new() -> Self {
        Self { slots: Mutex::new(HashMap::new()), settled: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Slots<T>> {
        self.slots.lock()
    }

    /// Waits until some slot has settled.
    pub(crate) fn wait<'c>(&self, slots: MutexGuard<'c, Slots<T>>) -> MutexGuard<'c, Slots<T>> {
        self.settled.wait(slots)
    }

    /// Claims a slot that nobody has, for a tree to be created if there is a name.
    pub(crate) fn claim<'c>(&'c self, slots: &mut Slots<T>, slot: u16, creating: Option<&str>) -> Claim<'c, T> {
        slots.insert(slot, Slot::Claimed(creating.map(Into::into)));
        Claim { catalog: self, slot }
    }

    /// The last handle is gone, and the tree is closed.
    pub(crate) fn closed(&self, slot: u16) {
        let mut slots = self.slots.lock();
        // A tree that was never published is its claim's.
        if matches!(slots.get(&slot), Some(Slot::Open(tree)) if tree.strong_count() == 0) {
            slots.remove(&slot);
            self.settled.notify_all();
        }
    }
}

/// What a slot is now. A handle that it returns must outlive the guard of the slots: the last one of a tree locks them.
pub(crate) fn find<T: ?Sized>(slots: &Slots<T>, slot: u16) -> Found<T> {
    match slots.get(&slot) {
        None => Found::Free,
        Some(Slot::Open(tree)) => match tree.upgrade() {
            Some(tree) => Found::Open(tree),
            None if is_left_out(Validation::Settled) => Found::Free,
            None => Found::Unsettled,
        },
        Some(Slot::Claimed(_)) => Found::Unsettled,
    }
}

/// Whether a tree of this name is just being created.
pub(crate) fn is_creating<T: ?Sized>(slots: &Slots<T>, name: &str) -> bool {
    slots.values().any(|slot| matches!(slot, Slot::Claimed(Some(claimed)) if **claimed == *name))
}

/// A slot that one thread is at work on. Free again when it goes, be it for an error or a panic, unless a tree was published.
pub(crate) struct Claim<'c, T: ?Sized> {
    catalog: &'c Catalog<T>,
    slot: u16,
}

impl<T: ?Sized> Claim<'_, T> {
    /// The tree is open: who waits for it gets it. `create` makes its root entry, if it has none.
    pub(crate) fn publish(self, tree: &Arc<T>, create: impl FnOnce()) {
        let mut slots = self.catalog.slots.lock();
        create();
        slots.insert(self.slot, Slot::Open(Arc::downgrade(tree)));
    }
}

impl<T: ?Sized> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        let mut slots = self.catalog.slots.lock();
        if matches!(slots.get(&self.slot), Some(Slot::Claimed(_))) {
            slots.remove(&self.slot);
        }
        self.catalog.settled.notify_all();
    }
}
