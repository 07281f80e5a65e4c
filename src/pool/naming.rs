//! Changes of names: trees are renamed, exchange their names, or are dropped, all at once.
//!
//! The catalogue's lock is held from the look at the names until these have changed, so nobody sees a part of it.

#[cfg(doc)]
use super::Pool;
use super::catalog::{self, CatalogSlots, SlotState};
use super::lists::WordChange;
use super::roots::Root;
use super::trees::{NoVisit, no_such_tree};
use super::{OpenTree, PoolState, roots};
use crate::error::{ErrorKind, Fault};
use crate::medium::Medium;
use crate::sync::MutexGuard;
use crate::sync::delay::{Validation, is_left_out};
use std::collections::HashMap;

/// A change of names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NameChange {
    /// The first name becomes the second one.
    Rename(String, String),
    /// Two trees exchange their names.
    Swap(String, String),
    /// The tree goes.
    Drop(String),
}

/// The names of a pool, locked, and what is to become of them.
pub(crate) struct Naming<'p, M: Medium> {
    pool: &'p PoolState<M>,
    slots: MutexGuard<'p, CatalogSlots<OpenTree>>,
    /// Trees with their new names.
    renamed: Vec<(Root, String)>,
    /// Trees that go. None of them is open.
    dropped: Vec<Root>,
    /// The names that may change, and whose they are then.
    after: Vec<(String, Option<Root>)>,
}

impl<M: Medium> PoolState<M> {
    /// Locks the names, and looks whether they can be changed like this, one change after the other.
    ///
    /// # Errors
    ///
    /// `NoSuchTree`, `TreeExists`, `StillOpen` for a tree that is to be dropped, `ReadOnly`, `Forked`.
    pub(crate) fn naming(&self, changes: &[NameChange]) -> Result<Naming<'_, M>, Fault> {
        self.writable()?;
        self.patiently(|no_visit| self.try_naming(changes, no_visit))
    }

    /// Deletes the tree with this name. See [`Pool::drop_tree`].
    pub(super) fn drop_tree(&self, name: &str) -> Result<(), Fault> {
        roots::check_name(name)?;
        let naming = self.naming(&[NameChange::Drop(name.to_owned())])?;
        naming.dropped().iter().for_each(|root| root.delete(&self.medium));
        naming.done();
        Ok(())
    }

    fn try_naming(&self, changes: &[NameChange], no_visit: &mut Option<NoVisit<'_>>) -> Result<Naming<'_, M>, Fault> {
        let mut slots = self.catalog.lock();
        loop {
            if let Some(Plan { renamed, dropped, after }) = self.plan(&mut slots, changes)? {
                return Ok(Naming { pool: self, slots, renamed, dropped, after });
            }
            // The thread that is waited for may visit.
            *no_visit = None;
            slots = self.catalog.wait(slots);
        }
    }

    /// The trees that get other names, and those that go. `None`: another thread is working on one of them.
    fn plan(&self, slots: &mut CatalogSlots<OpenTree>, changes: &[NameChange]) -> Result<Option<Plan>, Fault> {
        // The names that were looked at, and whose they are after the changes.
        let mut after: HashMap<&str, Option<Root>> = HashMap::new();
        let mut dropped = Vec::new();
        for change in changes {
            let names = match change {
                NameChange::Rename(one, other) | NameChange::Swap(one, other) => [Some(one), Some(other)],
                NameChange::Drop(name) => [Some(name), None],
            };
            for name in names.into_iter().flatten() {
                if !after.contains_key(&**name) {
                    after.insert(name, self.named_root(slots, name)?);
                }
            }
            let find = |name: &str| match after[name] {
                None if slots.is_creating(name) => Ok(None),
                None => Err(no_such_tree(name)),
                found => Ok(found),
            };
            match change {
                NameChange::Rename(from, to) => {
                    let Some(root) = find(from)? else { return Ok(None) };
                    if after[&**to].is_some() {
                        return Err(ErrorKind::TreeExists { tree: to.clone() }.into());
                    }
                    if slots.is_creating(to) {
                        return Ok(None);
                    }
                    after.insert(from, None);
                    after.insert(to, Some(root));
                }
                NameChange::Swap(one, other) => {
                    let (Some(of_one), Some(of_other)) = (find(one)?, find(other)?) else { return Ok(None) };
                    after.insert(one, Some(of_other));
                    after.insert(other, Some(of_one));
                }
                NameChange::Drop(name) => {
                    let Some(root) = find(name)? else { return Ok(None) };
                    after.insert(name, None);
                    match slots.get(root.slot) {
                        None => dropped.push(root),
                        Some(catalog::Slot::Open(tree)) if tree.strong_count() > 0 => {
                            return Err(ErrorKind::StillOpen { trees: vec![name.clone()] }.into());
                        }
                        Some(_) => return Ok(None),
                    }
                }
            }
        }
        let named = after.iter().filter_map(|(name, root)| Some(((*root)?, (*name).to_owned())));
        let mut renamed: Vec<(Root, String)> = named.filter(|(root, name)| root.name(&self.medium) != *name).collect();
        renamed.sort_by_key(|(root, _)| root.slot);
        // A tree that is just being opened would not get to know its new name.
        let is_settled = |(root, _): &(Root, String)| {
            !matches!(slots.get(root.slot), Some(catalog::Slot::Claimed(_))) || is_left_out(Validation::Settled)
        };
        let after = after.iter().map(|(name, root)| ((*name).to_owned(), *root)).collect();
        Ok(renamed.iter().all(is_settled).then_some(Plan { renamed, dropped, after }))
    }
}

/// What becomes of [`Naming`].
struct Plan {
    renamed: Vec<(Root, String)>,
    dropped: Vec<Root>,
    after: Vec<(String, Option<Root>)>,
}

impl<M: Medium> Naming<'_, M> {
    /// The words that change.
    pub(crate) fn words(&self) -> impl Iterator<Item = WordChange> {
        let m = &self.pool.medium;
        let renamed = self.renamed.iter().flat_map(|(root, name)| root.renamed(m, name));
        renamed.chain(self.dropped.iter().map(Root::deleted))
    }

    /// The trees that go.
    pub(super) fn dropped(&self) -> &[Root] {
        &self.dropped
    }

    /// Follows up when the words have changed, durably. The caller holds no other lock.
    pub(crate) fn done(self) {
        let Self { pool, mut slots, renamed, dropped, after } = self;
        if let Some(names) = &mut slots.names {
            for (name, root) in after {
                match root {
                    Some(root) => names.add(&name, root.slot),
                    None => names.remove(&name),
                }
            }
            dropped.iter().for_each(|root| names.vacate(root.slot));
        }
        let mut open = Vec::new();
        for (root, name) in renamed {
            if let SlotState::Open(tree) = catalog::find(&slots, root.slot) {
                tree.rename(name);
                open.push(tree);
            }
        }
        let claims: Vec<_> = dropped.iter().map(|root| pool.catalog.claim(&mut slots, root.slot, None)).collect();
        // What follows locks the catalogue.
        drop((slots, open));
        dropped.iter().for_each(|root| pool.release_tree(root.slot));
        drop(claims);
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::entry::kind::U64;
    use crate::medium::any::zeroed;
    use crate::pool::Pool;
    use crate::pool::roots::Signature;
    use std::cell::Cell;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// A thread that makes a tree in a full pool asks the open trees for space; a thread that cuts the pool, or drops a
    /// tree, waits for the thread that makes one.
    #[test]
    fn who_waits_for_a_new_tree_keeps_nobody_from_visiting() {
        let pool = Pool::options().segment_size(4096).create_on(zeroed(1 << 20)).unwrap().state;
        let (begun, has_begun) = channel();
        let (waits, is_waiting) = channel();
        let (ended, has_ended) = channel();
        let making = std::thread::spawn({
            let pool = std::sync::Arc::clone(&pool);
            move || {
                let signature = Signature { layout: 1, foreign: None, slots: 1, index: 1, kinds: (U64, U64).into() };
                let mismatch = |_: &str, _, _| -> Fault { unreachable!("there is no tree") };
                let full = || Fault::from(ErrorKind::OutOfSpace { wanted: 1, capacity: 1, source: None });
                let create = |_| {
                    begun.send(()).unwrap();
                    is_waiting.recv().unwrap();
                    pool.visit_open(|_| ());
                    Err(full())
                };
                let made = pool.tree("new", signature, mismatch, &create, &|_| unreachable!("there is no tree"));
                assert!(made.is_err_and(|fault| fault.is_out_of_space()));
                ended.send(()).unwrap();
            }
        });
        has_begun.recv().unwrap();
        let tries = Cell::new(0);
        let named = pool.patiently(|no_visit| {
            tries.set(tries.get() + 1);
            if tries.get() == 1 {
                return Err(ErrorKind::StillOpen { trees: Vec::new() }.into());
            }
            assert!(no_visit.is_some());
            waits.send(()).unwrap();
            pool.try_naming(&[NameChange::Drop("new".to_owned())], no_visit).map(drop)
        });
        let fault = named.unwrap_err();
        assert!(matches!(fault.kind(), ErrorKind::NoSuchTree { .. }) && tries.get() == 2, "{fault:?}");
        has_ended.recv_timeout(Duration::from_secs(60)).expect("they wait for each other");
        making.join().unwrap();
    }
}
