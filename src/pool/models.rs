//! loom models of epochs, and of a reader of records against a thread that replaces a record, gives the old one back
//! and uses its block again.
//!
//! Each promise has negative controls, in which the models must find an error: without the pin, with a grace of one
//! epoch, and with a last reader that does not collect.

use super::epochs::Epochs;
use super::format::{HEADER, PoolGeometry};
use super::records::Records;
use super::segments::Segments;
use crate::medium::{Dram, Medium, Step};
use crate::memory::Zero;
use crate::node::shadow::{Leave, Shadow};
use crate::sync::bias::Bias;
use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;

/// What a model leaves out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Without {
    Nothing,
    Pin,
    /// The second of the two epochs for which a retired item waits.
    SecondEpoch,
}

impl Without {
    fn grace(self) -> u64 {
        if self == Self::SecondEpoch { 1 } else { 2 }
    }
}

/// A few preemptions suffice to find what the negative controls leave out. Exploring all interleavings would take
/// hours.
fn model(preemptions: usize, check: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.check(check);
}

/// A pool with one class of records of 32 bytes, in one segment, and a leaf of one slot.
struct Leaf {
    m: Dram,
    segments: Segments,
    records: Records,
    shadow: Shadow<()>,
    slot: AtomicU64,
}

const FIRST: [u8; 8] = [1; 8];
const SECOND: [u8; 8] = [2; 8];
const OTHER: [u8; 8] = [3; 8];

impl Leaf {
    fn new() -> Self {
        let segment = *PoolGeometry::SEGMENTS.start();
        let geometry = PoolGeometry { segment, capacity: HEADER.next_multiple_of(segment) + segment };
        let m = Dram::zeroed(geometry.capacity);
        let segments = Segments::open(&m, geometry).unwrap();
        let records = Records::new(&segments, 0);
        let first = records.write(&m, &segments, &[&FIRST]).unwrap();
        Self { m, segments, records, shadow: Shadow::zero(), slot: AtomicU64::new(first) }
    }

    /// Replaces the record in the same way as a map does.
    fn replace(&self, bytes: &[u8], without: Without) {
        let new = self.records.write(&self.m, &self.segments, &[bytes]).unwrap();
        let was = self.shadow.lock.lock(&Bias::shared());
        let old = self.slot.load(Ordering::Relaxed);
        self.slot.store(new, Ordering::Relaxed);
        self.m.fence(Step::Insert);
        self.shadow.lock.unlock(was, Leave::Ready);
        self.records.retire(&self.m, &self.segments, [old]);
        self.records.collect_after(&self.m, &self.segments, without.grace());
    }

    /// Writes a record of another key.
    fn add(&self, bytes: &[u8]) {
        self.records.write(&self.m, &self.segments, &[bytes]).unwrap();
    }

    /// Reads the record in the same way as a map does, but only once: if the slot changes meanwhile, this reader gives
    /// up.
    fn get(&self, without: Without) -> Option<Vec<u8>> {
        let reading = self.records.reading(&self.m, &self.segments);
        let reading = if without == Without::Pin { reading.unpinned() } else { reading };
        let version = self.shadow.lock.optimistic_read();
        let at = self.slot.load(Ordering::Relaxed);
        self.shadow.lock.validate(version).then(|| reading.pool.read_record(at).unwrap())
    }
}

/// A reader gets a whole record, and one that the slot pointed to, while the record is replaced and its block used
/// again.
fn reader_against_reuse(without: Without) {
    model(3, move || {
        let leaf = Arc::new(Leaf::new());
        let reader = {
            let leaf = Arc::clone(&leaf);
            thread::spawn(move || {
                if let Some(bytes) = leaf.get(without) {
                    assert!(bytes == FIRST || bytes == SECOND, "a record of another key, or torn: {bytes:?}");
                }
            })
        };
        leaf.replace(&SECOND, without);
        // This takes the block of the first record, if it was given back.
        leaf.add(&OTHER);
        reader.join().unwrap();
    });
}

#[test]
fn loom_a_record_is_read_while_its_block_is_used_again() {
    reader_against_reuse(Without::Nothing);
}

#[test]
#[should_panic(expected = "of another key")]
fn loom_a_record_read_unpinned_is_found_wrong() {
    reader_against_reuse(Without::Pin);
}

#[test]
#[should_panic(expected = "of another key")]
fn loom_a_record_used_again_after_one_epoch_is_found_wrong() {
    reader_against_reuse(Without::SecondEpoch);
}

/// Items behind a pointer. Ripe items are overwritten.
struct Thing {
    epochs: Epochs<usize>,
    pointer: AtomicU64,
    things: [AtomicU64; 3],
}

const GOOD: u64 = 7;
const REUSED: u64 = 13;

impl Thing {
    fn new() -> Self {
        let things = std::array::from_fn(|_| AtomicU64::new(GOOD));
        Self { epochs: Epochs::new(), pointer: AtomicU64::new(0), things }
    }

    fn read(&self, shard: usize) {
        let pin = self.epochs.pin_in(shard);
        let thing = self.pointer.load(Ordering::Acquire) as usize;
        // Other threads may advance the epoch here, once.
        assert_eq!(self.things[thing].load(Ordering::Relaxed), GOOD);
        let _ = pin.leave();
    }

    fn replace(&self, new: u64, grace: u64) {
        let old = self.pointer.swap(new, Ordering::AcqRel) as usize;
        assert!(self.epochs.retire([(old, 0)]).is_empty());
        for &ripe in &*self.epochs.collect_after(grace) {
            self.things[ripe].store(REUSED, Ordering::Relaxed);
        }
    }
}

/// Two readers in two shards, and two retirements: the second one collects what the first one had to leave.
fn readers_against_retirements(grace: u64) {
    model(2, move || {
        let thing = Arc::new(Thing::new());
        let readers = [0, 1].map(|shard| {
            let thing = Arc::clone(&thing);
            thread::spawn(move || thing.read(shard))
        });
        thing.replace(1, grace);
        thing.replace(2, grace);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
}

#[test]
fn loom_what_a_reader_may_know_is_not_ripe() {
    readers_against_retirements(2);
}

#[test]
#[should_panic(expected = "left: 13")]
fn loom_a_grace_of_one_epoch_is_found_wrong() {
    readers_against_retirements(1);
}

/// A heavy item is collected when the last reader leaves, without help from another thread: `leave` tells that reader
/// to collect.
fn last_reader_collects(heeds: bool) {
    model(3, move || {
        let epochs = Arc::new(Epochs::new());
        let reader = {
            let epochs = Arc::clone(&epochs);
            thread::spawn(move || {
                let awaited = epochs.pin_in(0).leave();
                if heeds && awaited { epochs.collect().len() } else { 0 }
            })
        };
        let collected = epochs.retire([(7, u64::MAX)]).len();
        assert_eq!(collected + reader.join().unwrap(), 1);
    });
}

#[test]
fn loom_the_last_reader_collects() {
    last_reader_collects(true);
}

#[test]
#[should_panic(expected = "left: 0")]
fn loom_a_reader_that_does_not_collect_is_found_wrong() {
    last_reader_collects(false);
}
