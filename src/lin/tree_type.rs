//! The trees that threads work on: trees of numbers, and trees whose values are records that carry their own checksum.

use super::op::{Answer, Op, Shown, Way};
use crate::crash::Values;
use crate::error::{Error, ErrorKind, Result};
use crate::map::Map;
use crate::medium::{Medium, Sim};
use crate::node::{IndexKind, WordNode};
use crate::pool::Pool;
use crate::tree::{PTree, Report};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

const TREE: &str = "t";

/// Tells when something happened; no two times are the same.
#[derive(Default)]
pub(super) struct Clock {
    next: AtomicU64,
    traced: Option<(Sim, Mutex<Vec<usize>>)>,
}

impl Clock {
    /// A clock that knows for each time how many events the trace of a medium had.
    pub(super) fn of(sim: Sim) -> Self {
        Self { next: AtomicU64::new(0), traced: Some((sim, Mutex::default())) }
    }

    /// A clock that begins after a time.
    pub(super) fn after(time: u64) -> Self {
        Self { next: AtomicU64::new(time + 1), traced: None }
    }

    pub(super) fn now(&self) -> u64 {
        match &self.traced {
            None => self.next.fetch_add(1, Ordering::SeqCst),
            Some((sim, positions)) => {
                let mut positions = positions.lock();
                positions.push(sim.now());
                positions.len() as u64 - 1
            }
        }
    }

    /// How many events the trace had at a time of this clock.
    pub(super) fn position(&self, time: u64) -> usize {
        self.traced.as_ref().map_or(0, |(_, positions)| positions.lock()[time as usize])
    }
}

/// An open tree of any kind.
pub(super) trait AnyTree: Send + Sync {
    fn perform(&self, op: &Op, clock: &Clock) -> Result<Answer>;
    fn len(&self) -> u64;
    fn check(&self) -> Report;
    fn fault(&self) -> Option<Error>;
}

type Open<M> = fn(&Pool<M>, IndexKind) -> Result<Box<dyn AnyTree>>;

/// A kind of tree. The rest of the checker does not know its types, so it is compiled once.
pub(super) struct TreeType<M: Medium> {
    /// The size of a leaf in bytes.
    pub(super) bytes: u64,
    pub(super) slots: u64,
    /// Whether its values are records.
    pub(super) records: bool,
    open: Open<M>,
    index: IndexKind,
}

impl<M: Medium> Clone for TreeType<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for TreeType<M> {}

impl<M: Medium> TreeType<M> {
    pub(super) fn of<N: WordNode>(index: IndexKind, values: Values) -> Self {
        let records = values == Values::Records;
        let open = match values {
            Values::Numbers => {
                |pool: &Pool<M>, index| Ok(Box::new(pool.tree_with::<N>(TREE, index)?) as Box<dyn AnyTree>)
            }
            Values::Records => {
                |pool: &Pool<M>, index| Ok(Box::new(pool.map_with::<u64, Vec<u8>, N>(TREE, index)?) as Box<dyn AnyTree>)
            }
        };
        Self { bytes: N::BYTES, slots: N::SLOTS as u64, records, open, index }
    }

    /// Opens the tree, or creates it.
    pub(super) fn open(&self, pool: &Pool<M>) -> Result<Box<dyn AnyTree>> {
        (self.open)(pool, self.index)
    }
}

/// Reads a range in the way that was asked for.
fn shown<I>(mut range: I, way: Way, limit: usize, clock: &Clock) -> Result<Answer>
where
    I: DoubleEndedIterator<Item = Result<(u64, u64)>>,
{
    let mut shown = Vec::new();
    while shown.len() < limit {
        let front = match way {
            Way::Up => true,
            Way::Down => false,
            Way::Both => shown.len().is_multiple_of(2),
        };
        let Some(entry) = (if front { range.next() } else { range.next_back() }) else { break };
        let (key, value) = entry?;
        shown.push(Shown { key, value, front, at: clock.now() });
    }
    Ok(Answer::Shown(shown))
}

fn loaded(result: Result<u64>) -> Result<Answer> {
    match result {
        Ok(_) => Ok(Answer::Done),
        Err(Error { kind: ErrorKind::NotEmpty { .. }, .. }) => Ok(Answer::NotEmpty),
        Err(error) => Err(error),
    }
}

/// Numbers in the slots.
impl<N: WordNode, M: Medium> AnyTree for PTree<N, M> {
    fn perform(&self, op: &Op, clock: &Clock) -> Result<Answer> {
        Ok(match op {
            Op::Get(key) => Answer::Old(self.get(*key)),
            Op::Insert(key, value) => Answer::Old(self.insert(*key, *value)?),
            Op::InsertNew(key, value) => Answer::Old(self.compare_exchange(*key, None, Some(*value))?),
            Op::Update(key, value) => Answer::Old(self.update(*key, *value)?),
            Op::Remove(key) => Answer::Old(self.remove(*key)?),
            Op::Exchange(key, current, new) => Answer::Old(self.compare_exchange(*key, *current, *new)?),
            Op::MultiGet(keys) => Answer::Values(self.multi_get(keys)),
            Op::Batch(entries) => {
                self.insert_batch(entries)?;
                Answer::Done
            }
            Op::Clear => {
                self.clear()?;
                Answer::Done
            }
            Op::Load(entries) => loaded(self.bulk_load(entries.iter().copied()))?,
            Op::Range(scan) => shown(self.range(scan.keys.0..=scan.keys.1).map(Ok), scan.way, scan.limit, clock)?,
            Op::IsEmpty => Answer::Was(!self.is_empty()),
            Op::Len => Answer::Count(self.len()),
        })
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn check(&self) -> Report {
        self.check()
    }

    fn fault(&self) -> Option<Error> {
        self.fault()
    }
}

/// A record for a value of a key: of different classes, of several lines, or with segments of its own.
///
/// It begins with key, value and a checksum of both, and continues with words that follow from them.
pub(super) fn record(key: u64, value: u64) -> Vec<u8> {
    const LENGTHS: [usize; 8] = [24, 24, 31, 60, 60, 200, 1000, 6000];
    let sum = (key ^ value.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let rest = (3..).map(|i| sum.wrapping_mul(i));
    let words = [key, value, sum].into_iter().chain(rest);
    let len = LENGTHS[sum as usize >> 8 & 7];
    let mut bytes: Vec<u8> = words.take(len.div_ceil(8)).flat_map(u64::to_le_bytes).collect();
    bytes.truncate(len);
    bytes
}

/// The value of a record that was found at a key; an error for bytes that are not a record of this key.
pub(super) fn value_of(key: u64, found: &[u8]) -> Result<u64> {
    let value = found.get(8..16).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    let torn = ErrorKind::Corrupt { at: key, invariant: "V2: a torn record, or another's" };
    value.filter(|&value| record(key, value) == found).ok_or_else(|| Error::new("in memory", torn))
}

/// Records that the slots point to.
impl<N: WordNode, M: Medium> AnyTree for Map<u64, Vec<u8>, N, M> {
    fn perform(&self, op: &Op, clock: &Clock) -> Result<Answer> {
        let get = |key: u64| self.get(key)?.map(|bytes| value_of(key, &bytes)).transpose();
        Ok(match op {
            Op::Get(key) => Answer::Old(get(*key)?),
            Op::Insert(key, value) => Answer::Was(self.insert(*key, &record(*key, *value))?),
            Op::InsertNew(key, value) => Answer::Was(!self.insert_new(*key, &record(*key, *value))?),
            Op::Update(key, value) => Answer::Was(self.update(*key, &record(*key, *value))?),
            Op::Remove(key) => Answer::Was(self.remove(*key)?),
            Op::MultiGet(keys) => Answer::Values(keys.iter().map(|&key| get(key)).collect::<Result<_>>()?),
            Op::Clear => {
                self.clear()?;
                Answer::Done
            }
            Op::Load(entries) => {
                let records: Vec<_> = entries.iter().map(|&(key, value)| (key, record(key, value))).collect();
                loaded(self.bulk_load(records.iter().map(|(key, bytes)| (*key, &bytes[..]))))?
            }
            Op::Range(scan) => {
                let range = self.range(scan.keys.0..=scan.keys.1);
                let values = range.map(|entry| entry.and_then(|(key, bytes)| Ok((key, value_of(key, &bytes)?))));
                shown(values, scan.way, scan.limit, clock)?
            }
            Op::IsEmpty => Answer::Was(!self.is_empty()),
            Op::Len => Answer::Count(self.len()),
            Op::Exchange(..) | Op::Batch(_) => unreachable!("maps have no such operation"),
        })
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn check(&self) -> Report {
        self.check()
    }

    fn fault(&self) -> Option<Error> {
        self.fault()
    }
}
