//! Snapshots of the target `ops`, and what they must show.

use crate::data::Data;
use crate::ops::{EVERYTHING, Model, Tested, bounds};
use crate::trees::Any;
use bristlecone::{Error, ErrorKind, Pool, Result, Snapshot};

/// A snapshot, and what each tree had when it was opened.
struct Taken {
    snapshot: Snapshot<Any>,
    models: [Model; 2],
}

/// The open snapshots, the oldest one first.
pub(crate) struct Snapshots {
    open: Vec<Taken>,
    /// Whether the oldest ones may expire.
    may_expire: bool,
}

/// The most that are open at once.
const MOST: usize = 4;

impl Snapshots {
    pub(crate) fn new(may_expire: bool) -> Self {
        Self { open: Vec::new(), may_expire }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn open(&mut self, pool: &Pool<Any>, models: [&Model; 2]) {
        if self.open.len() < MOST {
            self.open.push(Taken { snapshot: pool.snapshot(), models: models.map(Clone::clone) });
        }
    }

    pub(crate) fn close_one(&mut self, data: &mut Data<'_>) {
        let i = usize::from(data.byte());
        if !self.open.is_empty() {
            self.open.remove(i % self.open.len());
        }
    }

    pub(crate) fn close(&mut self) {
        self.open.clear();
    }

    /// A tree that is dropped is lost to snapshots; they see nothing in one that is created in its place.
    pub(crate) fn forget(&mut self, tree: usize) {
        self.open.iter_mut().for_each(|taken| taken.models[tree].clear());
    }

    /// Reads a part of one snapshot.
    pub(crate) fn look(&mut self, subjects: &[Tested], data: &mut Data<'_>) {
        let (i, from, to, how) = (usize::from(data.byte()), data.key(), data.key(), data.byte());
        if self.open.is_empty() {
            return;
        }
        let i = i % self.open.len();
        let taken = &self.open[i];
        let bounds = bounds(from.min(to), from.max(to), how);
        let compared = subjects.iter().zip(&taken.models).try_for_each(|(subject, model)| {
            let Some(table) = subject.table() else { return Ok(()) };
            assert_eq!(table.get_at(&taken.snapshot, from)?, model.get(&from).copied());
            let found = table.range_at(&taken.snapshot, bounds, how & 128 == 0)?;
            assert!(found.into_iter().eq(model.range(bounds).map(|(&key, &value)| (key, value))));
            Ok(())
        });
        if !self.is_there(compared) {
            // The older ones have expired, too.
            self.open.drain(..=i);
        }
    }

    /// Reads all of each snapshot. Those that have expired are the oldest ones.
    pub(crate) fn compare(&mut self, subjects: &[Tested]) {
        let are_there: Vec<bool> = self.open.iter().map(|taken| self.is_there(taken.compare(subjects))).collect();
        assert!(are_there.is_sorted(), "a snapshot has expired before an older one");
        let mut are_there = are_there.into_iter();
        self.open.retain(|_| are_there.next().unwrap_or(false));
    }

    /// False if the snapshot has expired.
    fn is_there(&self, read: Result<()>) -> bool {
        match read {
            Ok(()) => true,
            Err(Error { kind: ErrorKind::SnapshotTooOld { .. }, .. }) if self.may_expire => false,
            Err(error) => panic!("{error}"),
        }
    }
}

impl Taken {
    fn compare(&self, subjects: &[Tested]) -> Result<()> {
        for (subject, model) in subjects.iter().zip(&self.models) {
            let Some(table) = subject.table() else { continue };
            for from_left in [true, false] {
                let found = table.range_at(&self.snapshot, EVERYTHING, from_left)?;
                assert!(found.into_iter().eq(model.iter().map(|(&key, &value)| (key, value))));
            }
            assert_eq!(table.len_at(&self.snapshot)?, model.len() as u64);
        }
        Ok(())
    }
}
