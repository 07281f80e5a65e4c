//! The catalogue: which trees are open, and which are being opened, created, closed or dropped.
//!
//! ```text
//! (none) ── claim ──> claimed ── publish ──> open ── last handle goes ──> closing ── closed ──> (none)
//!    ^                   │
//!    └── the claim goes ─┘   it failed, panicked, or dropped the tree
//! ```
//!
//! Each slot of the roots is in one of these states. A thread that wants a tree whose slot is claimed or closing waits
//! until it is neither; no other thread waits. Root entries change under the catalogue's lock, so a thread that holds
//! the lock reads them whole.

use super::names::Names;
use crate::sync::delay::{Validation, is_left_out};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

/// The states of all slots.
pub(crate) struct Catalog<T: ?Sized> {
    slots: Mutex<CatalogSlots<T>>,
    /// Signalled when a slot is no longer claimed, or no longer closing.
    settled: Condvar,
}

/// What the lock guards.
pub(crate) struct CatalogSlots<T: ?Sized> {
    /// The slots that are in use.
    used: HashMap<u16, Slot<T>>,
    /// The names of the trees that are being created.
    creating: HashSet<Box<str>>,
    /// The names of the trees that have a root entry. `None` until one is sought.
    pub(super) names: Option<Names>,
}

impl<T: ?Sized> CatalogSlots<T> {
    pub(crate) fn get(&self, slot: u16) -> Option<&Slot<T>> {
        self.used.get(&slot)
    }

    /// The states of the slots that are in use.
    pub(crate) fn states(&self) -> impl ExactSizeIterator<Item = &Slot<T>> {
        self.used.values()
    }

    /// Whether a tree of this name is being created.
    pub(crate) fn is_creating(&self, name: &str) -> bool {
        self.creating.contains(name)
    }

    /// Changes the state of a slot.
    fn set(&mut self, slot: u16, state: Option<Slot<T>>) {
        if let Some(Slot::Claimed(Some(name))) = &state {
            self.creating.insert(name.clone());
        }
        let before = match state {
            Some(state) => self.used.insert(slot, state),
            None => self.used.remove(&slot),
        };
        if let Some(Slot::Claimed(Some(name))) = before {
            self.creating.remove(&name);
        }
    }
}

/// The state of a slot.
pub(crate) enum Slot<T: ?Sized> {
    /// One thread is working on it. A tree that is being created has its name here until it has its root entry.
    Claimed(Option<Box<str>>),
    /// Open, or closing if there are no handles left.
    Open(Weak<T>),
}

/// What a thread that wants a tree finds in its slot.
pub(crate) enum SlotState<T: ?Sized> {
    /// No thread has it.
    Free,
    /// The tree is open.
    Open(Arc<T>),
    /// The thread must wait.
    Unsettled,
}

impl<T: ?Sized> Catalog<T> {
    /// A catalogue in which nothing is open.
    pub(crate) fn new() -> Self {
        let slots = CatalogSlots { used: HashMap::new(), creating: HashSet::new(), names: None };
        Self { slots: Mutex::new(slots), settled: Condvar::new() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, CatalogSlots<T>> {
        self.slots.lock()
    }

    /// Waits until a slot has settled.
    pub(crate) fn wait<'c>(&self, slots: MutexGuard<'c, CatalogSlots<T>>) -> MutexGuard<'c, CatalogSlots<T>> {
        self.settled.wait(slots)
    }

    /// Claims a free slot. If there is a name, the slot is for a tree to be created.
    pub(crate) fn claim<'c>(&'c self, slots: &mut CatalogSlots<T>, slot: u16, creating: Option<&str>) -> Claim<'c, T> {
        slots.set(slot, Some(Slot::Claimed(creating.map(Into::into))));
        Claim { catalog: self, slot }
    }

    /// Notes that the last handle is gone and the tree is closed.
    pub(crate) fn closed(&self, slot: u16) {
        let mut slots = self.slots.lock();
        // A tree that was never published still belongs to its claim.
        if matches!(slots.get(slot), Some(Slot::Open(tree)) if tree.strong_count() == 0) {
            slots.set(slot, None);
            self.settled.notify_all();
        }
    }
}

/// The current state of a slot. A returned handle must outlive the guard of the slots, because dropping the last handle
/// of a tree locks them.
pub(crate) fn find<T: ?Sized>(slots: &CatalogSlots<T>, slot: u16) -> SlotState<T> {
    match slots.get(slot) {
        None => SlotState::Free,
        Some(Slot::Open(tree)) => match tree.upgrade() {
            Some(tree) => SlotState::Open(tree),
            None if is_left_out(Validation::Settled) => SlotState::Free,
            None => SlotState::Unsettled,
        },
        Some(Slot::Claimed(_)) => SlotState::Unsettled,
    }
}

/// The trees that are open, with their slots. As for [`find`], the handles must outlive the guard.
pub(crate) fn open<T: ?Sized>(slots: &CatalogSlots<T>) -> impl Iterator<Item = (u16, Arc<T>)> {
    slots.used.iter().filter_map(|(&slot, state)| match state {
        Slot::Open(tree) => Some((slot, tree.upgrade()?)),
        Slot::Claimed(_) => None,
    })
}

/// A slot that one thread is working on. Unless a tree was published, dropping the claim frees the slot, also after an
/// error or a panic.
pub(crate) struct Claim<'c, T: ?Sized> {
    catalog: &'c Catalog<T>,
    slot: u16,
}

impl<T: ?Sized> Claim<'_, T> {
    /// Publishes the tree as open, so that threads waiting for it get it. `create` makes its root entry, if it has
    /// none.
    pub(crate) fn publish(self, tree: &Arc<T>, create: impl FnOnce(&mut CatalogSlots<T>)) {
        let mut slots = self.catalog.slots.lock();
        create(&mut slots);
        slots.set(self.slot, Some(Slot::Open(Arc::downgrade(tree))));
    }
}

impl<T: ?Sized> Drop for Claim<'_, T> {
    fn drop(&mut self) {
        let mut slots = self.catalog.slots.lock();
        if matches!(slots.get(self.slot), Some(Slot::Claimed(_))) {
            slots.set(self.slot, None);
        }
        self.catalog.settled.notify_all();
    }
}
