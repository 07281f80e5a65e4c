//! The operations of threads on a tree, the answers, and what both say about one key.

use crate::crash::any_tree::Write;
use std::fmt;

/// An operation. The values of a round are all different, so that a value that is read identifies its writer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Op {
    Get(u64),
    Insert(u64, u64),
    InsertNew(u64, u64),
    Update(u64, u64),
    Remove(u64),
    Exchange(u64, Option<u64>, Option<u64>),
    MultiGet(Vec<u64>),
    Batch(Vec<(u64, u64)>),
    /// Removes the keys from the first one to the last one.
    Cut(u64, u64),
    Transaction(Transaction),
    Clear,
    Load(Vec<(u64, u64)>),
    Range(Scan),
    IsEmpty,
    Len,
    /// Moves leaves and records, and changes nothing.
    Compact,
}

/// Reads that belong to one moment, and writes at that moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transaction {
    /// The keys that are read.
    pub(super) keys: Vec<u64>,
    /// Whether they are read as ranges; then they ascend.
    pub(super) range: bool,
    pub(super) writes: Vec<Write>,
}

/// A range, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Scan {
    /// The first and the last key.
    pub(super) keys: (u64, u64),
    pub(super) way: Way,
    /// Ends after this many entries.
    pub(super) limit: usize,
}

/// The end from which a range is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Up,
    Down,
    /// From both ends, in turn.
    Both,
}

/// An entry that a range showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) key: u64,
    pub(super) value: u64,
    /// Whether it came from the front; otherwise it came from the back.
    pub(super) front: bool,
    /// When it was shown.
    pub(super) at: u64,
}

/// What a tree answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// The previous value, or the current one.
    Old(Option<u64>),
    /// Whether the key had a value before.
    Was(bool),
    Values(Vec<Option<u64>>),
    Shown(Vec<Shown>),
    Count(u64),
    /// The tree was not empty.
    NotEmpty,
}

/// An operation as a thread saw it. All times are of one clock, and no two are the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) thread: usize,
    pub(super) op: Op,
    pub(super) called: u64,
    /// When it returned, and the answer; `None`: a crash came first.
    pub(super) returned: Option<(u64, Answer)>,
}

/// What an operation says about one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) expects: Expects,
    pub(super) does: Does,
}

/// What the answer says about the value before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expects {
    Anything,
    Is(Option<u64>),
    Present(bool),
}

/// What the operation does to the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    Keep,
    Set(Option<u64>),
    /// Replaces the value, if there is one.
    Replace(u64),
    /// Adds a value, if there is none.
    Add(u64),
    /// Replaces the first value by the second, if the first is the current one.
    Exchange(Option<u64>, Option<u64>),
}

impl Step {
    /// If the answer tells what the value was, the effect is known exactly.
    pub(super) fn new(expects: Expects, does: Does) -> Self {
        let does = match (expects, does) {
            (Expects::Is(old), Does::Exchange(current, new)) if old == current => Does::Set(new),
            (Expects::Is(_), Does::Exchange(..)) => Does::Keep,
            (Expects::Is(Some(_)) | Expects::Present(true), Does::Replace(new)) => Does::Set(Some(new)),
            (Expects::Is(None) | Expects::Present(false), Does::Add(new)) => Does::Set(Some(new)),
            (Expects::Is(_) | Expects::Present(_), Does::Replace(_) | Does::Add(_)) => Does::Keep,
            (Expects::Is(None) | Expects::Present(false), Does::Set(None)) => Does::Keep,
            _ => does,
        };
        Self { expects, does }
    }

    /// Whether it certainly changes nothing.
    pub(super) fn reads(self) -> bool {
        self.does == Does::Keep
    }

    /// The value after it, given the value before; `None` if the answer would have been different.
    pub(super) fn apply(self, old: Option<u64>) -> Option<Option<u64>> {
        let fits = match self.expects {
            Expects::Anything => true,
            Expects::Is(value) => old == value,
            Expects::Present(present) => old.is_some() == present,
        };
        fits.then_some(match self.does {
            Does::Keep => old,
            Does::Set(new) => new,
            Does::Replace(new) => old.map(|_| new),
            Does::Add(new) => old.or(Some(new)),
            Does::Exchange(current, new) if old == current => new,
            Does::Exchange(..) => old,
        })
    }
}

impl Call {
    pub(super) fn answer(&self) -> Option<&Answer> {
        self.returned.as_ref().map(|(_, answer)| answer)
    }

    /// What the call says about the key, and by when that is decided; `None`: nothing.
    pub(super) fn step(&self, key: u64) -> Option<(Step, Option<u64>)> {
        let until = self.returned.as_ref().map(|(at, _)| *at);
        let expects = match self.answer() {
            Some(Answer::Old(old)) => Expects::Is(*old),
            Some(Answer::Was(was)) => Expects::Present(*was),
            _ => Expects::Anything,
        };
        let does = match &self.op {
            Op::Get(of) if *of == key => Does::Keep,
            Op::Insert(of, value) if *of == key => Does::Set(Some(*value)),
            Op::InsertNew(of, value) if *of == key => Does::Add(*value),
            Op::Update(of, value) if *of == key => Does::Replace(*value),
            Op::Remove(of) if *of == key => Does::Set(None),
            Op::Exchange(of, current, new) if *of == key => Does::Exchange(*current, *new),
            Op::Clear => Does::Set(None),
            Op::Cut(from, to) if (*from..=*to).contains(&key) => Does::Set(None),
            // Among equal keys the last one counts.
            Op::Batch(entries) => Does::Set(Some(entries.iter().rev().find(|entry| entry.0 == key)?.1)),
            Op::Load(entries) => {
                let of_key = entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
                match (self.answer(), of_key) {
                    (Some(Answer::Done), value) => {
                        return Some((Step::new(Expects::Is(None), Does::Set(value)), until));
                    }
                    // In flight: it loads everything, or nothing.
                    (None, Some(value)) => Does::Add(value),
                    _ => return None,
                }
            }
            Op::MultiGet(keys) => {
                let Some(Answer::Values(values)) = self.answer() else { return None };
                let i = keys.iter().position(|&of| of == key)?;
                return Some((Step::new(Expects::Is(values[i]), Does::Keep), until));
            }
            Op::Transaction(transaction) => {
                let read = match self.answer() {
                    Some(Answer::Values(values)) => {
                        let i = transaction.keys.iter().position(|&of| of == key);
                        i.map_or(Expects::Anything, |i| Expects::Is(values[i]))
                    }
                    _ => Expects::Anything,
                };
                let written = transaction.writes.iter().rev().find(|write| write.0 == key);
                let does = written.map_or(Does::Keep, |&(_, value)| Does::Set(value));
                let says_nothing = read == Expects::Anything && does == Does::Keep;
                return (!says_nothing).then_some((Step { expects: read, does }, until));
            }
            Op::Range(scan) => {
                let Some(Answer::Shown(shown)) = self.answer() else { return None };
                let (value, seen) = scan.says(shown, key)?;
                return Some((Step::new(Expects::Is(value), Does::Keep), seen.or(until)));
            }
            // There was a moment without any key.
            Op::IsEmpty if self.answer() == Some(&Answer::Was(false)) => {
                return Some((Step::new(Expects::Is(None), Does::Keep), until));
            }
            _ => return None,
        };
        let step = Step::new(expects, does);
        // A read in flight says nothing.
        (self.returned.is_some() || !step.reads()).then_some((step, until))
    }
}

impl Scan {
    /// What the entries shown say about a key: its value, and by when it was read; `None`: nothing.
    fn says(&self, shown: &[Shown], key: u64) -> Option<(Option<u64>, Option<u64>)> {
        if !(self.keys.0..=self.keys.1).contains(&key) {
            return None;
        }
        // The entry at which a reading from this end has passed the key.
        let passed = match self.way {
            Way::Up => shown.iter().find(|entry| entry.key >= key),
            Way::Down => shown.iter().find(|entry| entry.key <= key),
            Way::Both => shown.iter().find(|entry| entry.key == key),
        };
        match passed {
            Some(entry) if entry.key == key => Some((Some(entry.value), Some(entry.at))),
            Some(entry) => Some((None, Some(entry.at))),
            // The range ended before the key.
            None if shown.len() >= self.limit => None,
            None => Some((None, None)),
        }
    }

    /// What is wrong with the entries shown, whatever other threads did: keys must ascend strictly from the front and
    /// descend strictly from the back, none may be shown twice, and all must lie in the range.
    pub(super) fn is_in_order(&self, shown: &[Shown]) -> Result<(), String> {
        let (mut from, mut to) = (u128::from(self.keys.0), u128::from(self.keys.1) + 1);
        for entry in shown {
            let key = u128::from(entry.key);
            if !(from..to).contains(&key) {
                let why = "a range shows a key out of order, twice, or beyond its ends";
                return Err(format!("{why}: {} in {}", entry.key, Self::keys_of(shown)));
            }
            if entry.front {
                from = key + 1;
            } else {
                to = key;
            }
        }
        Ok(())
    }

    fn keys_of(shown: &[Shown]) -> String {
        let key = |entry: &Shown| format!("{}{}", entry.key, if entry.front { "" } else { " (back)" });
        shown.iter().map(key).collect::<Vec<_>>().join(", ")
    }
}

/// A value of a round: which thread wrote it, and as which of its writes.
pub(super) struct Named(pub(super) Option<u64>);

impl Named {
    /// Bits for the number of the write.
    const BITS: u32 = 32;

    pub(super) fn value(thread: usize, write: u64) -> u64 {
        (thread as u64 + 1) << Self::BITS | write
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => write!(f, "nothing"),
            Some(value) => write!(f, "{}.{}", value >> Self::BITS, value & ((1 << Self::BITS) - 1)),
        }
    }
}

/// What an operation did to one key, in words.
pub(super) struct OfKey<'a>(pub(super) &'a Call, pub(super) u64);

impl fmt::Display for OfKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(call, key) = *self;
        let named = |value: u64| Named(Some(value));
        match &call.op {
            Op::Get(_) => write!(f, "get({key})")?,
            Op::Insert(_, value) => write!(f, "insert({key}, {})", named(*value))?,
            Op::InsertNew(_, value) => write!(f, "insert_new({key}, {})", named(*value))?,
            Op::Update(_, value) => write!(f, "update({key}, {})", named(*value))?,
            Op::Remove(_) => write!(f, "remove({key})")?,
            Op::Exchange(_, current, new) => {
                write!(f, "compare_exchange({key}, {}, {})", Named(*current), Named(*new))?;
            }
            Op::MultiGet(keys) => write!(f, "multi_get of {} keys: {key}", keys.len())?,
            Op::Batch(entries) => {
                let value = entries.iter().rev().find(|entry| entry.0 == key).map(|entry| entry.1);
                write!(f, "insert_batch of {}: ({key}, {})", entries.len(), Named(value))?;
            }
            Op::Cut(from, to) => write!(f, "remove_range {from}..={to}: {key}")?,
            Op::Transaction(Transaction { keys, range, writes }) => {
                let read = if *range { "a range of" } else { "get" };
                write!(f, "transaction: {read} {keys:?}, write")?;
                writes.iter().try_for_each(|(key, value)| write!(f, " ({key}, {})", Named(*value)))?;
                write!(f, "; {key}")?;
            }
            Op::Clear => write!(f, "clear")?,
            Op::Load(entries) => {
                let value = entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1);
                write!(f, "bulk_load of {}: ({key}, {})", entries.len(), Named(value))?;
            }
            Op::Range(Scan { keys: (from, to), way, .. }) => {
                let way = match way {
                    Way::Up => "",
                    Way::Down => ", backwards",
                    Way::Both => ", from both ends",
                };
                write!(f, "range {from}..={to}{way}: {key}")?;
            }
            Op::IsEmpty => write!(f, "is_empty")?,
            Op::Len => write!(f, "len")?,
            Op::Compact => write!(f, "compact")?,
        }
        match (call.answer(), call.step(key).map(|(step, _)| step.expects)) {
            (None, _) => write!(f, " in flight"),
            (Some(Answer::NotEmpty), _) => write!(f, " -> not empty"),
            (_, Some(Expects::Is(value))) => write!(f, " -> {}", Named(value)),
            (Some(Answer::Was(was)), _) => write!(f, " -> {was}"),
            (Some(Answer::Count(n)), _) => write!(f, " -> {n}"),
            _ => Ok(()),
        }
    }
}
