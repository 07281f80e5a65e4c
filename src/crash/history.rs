//! Histories: the operations on a tree before the crash.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// One operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Insert a key, or replace its value.
    Insert(u64, u64),
    /// Remove a key.
    Remove(u64),
    /// Remove everything.
    Clear,
    /// Move what lies in sparse segments.
    Compact,
    /// Close the tree orderly, and cut off the free segments at the end of the pool.
    Shrink,
    /// Load this many entries into an empty tree, with keys 3, 6, 9, ...
    BulkLoad(u64),
    /// Insert this many entries under one fence, with keys 3, 7, 11, ...
    Batch(u64),
    /// Remove the keys from the first one to the last one, leaf by leaf.
    Cut(u64, u64),
    /// Change three times as many keys at once: set 3, 7, 11, ..., remove 2, 6, 10, ... and set 4, 8, 12, ... For
    /// [two trees](super::Two).
    Together(u64),
    /// Move all entries of each of [two trees](super::Two) to the other one and exchange their names, at once: so the
    /// trees have the entries that trees of these names had before.
    Swap,
    /// Close the pool orderly and open it again.
    Reopen,
    /// Drop the tree, and create it again.
    Drop,
    /// Create a new pool over this one.
    Anew,
    /// Close the tree orderly, and create this many others, which stay empty.
    Others(u64),
    /// Close the pool orderly, and open it as a pool that was in use when the machine went down.
    AfterPowerLoss,
    /// Kill the process after this many of the events (stores, orders, flushes and fences) of the operation before, and
    /// open the pool in another one. The machine does not go down: everything that was stored is there, durable or not.
    Kill(u64),
    /// Crash in the operation before, at the point and with the state that follow from this number, and open again. A
    /// history with crashes in it is run once: its last operation is not cut at every point.
    Crash(u64),
}

impl Op {
    /// Does to a model what the operation does to a tree.
    pub fn apply(self, model: &mut BTreeMap<u64, u64>) {
        match self {
            Self::Insert(key, value) => {
                model.insert(key, value);
            }
            Self::Remove(key) => {
                model.remove(&key);
            }
            Self::Clear | Self::Drop | Self::Anew => model.clear(),
            Self::BulkLoad(n) => {
                if model.is_empty() {
                    model.extend(bulk(n));
                }
            }
            Self::Batch(n) => model.extend(batch(n)),
            Self::Cut(from, to) => model.retain(|key, _| !(from..=to).contains(key)),
            Self::Together(n) => together(n).for_each(|(key, value)| {
                match value {
                    Some(value) => model.insert(key, value),
                    None => model.remove(&key),
                };
            }),
            Self::Compact
            | Self::Shrink
            | Self::Swap
            | Self::Reopen
            | Self::Others(_)
            | Self::AfterPowerLoss
            | Self::Kill(_)
            | Self::Crash(_) => {}
        }
    }

    /// What may be missing after a crash during the operation.
    pub(super) fn may_miss(self) -> Missing {
        match self {
            Self::Drop => Missing::Tree,
            Self::Anew => Missing::Superblock,
            _ => Missing::Nothing,
        }
    }

    /// What a crash during the operation may leave: the model before it, the model after it, and any part of a batch.
    /// What is cut goes leaf by leaf, from left to right: all before some leaf, and any part of that one.
    pub(crate) fn in_flight(self, before: &BTreeMap<u64, u64>) -> Vec<BTreeMap<u64, u64>> {
        let mut all = vec![before.clone()];
        if let Self::Batch(n) = self {
            for entry in batch(n) {
                all.extend(all.clone().into_iter().map(|mut model| {
                    model.extend([entry]);
                    model
                }));
            }
        } else if let Self::Cut(from, to) = self {
            let cut: Vec<u64> = before.range(from..=to).map(|(&key, _)| key).collect();
            let mut left = BTreeSet::from([before.clone()]);
            for first in 0..cut.len() {
                let mut of_leaf = vec![before.clone()];
                of_leaf[0].retain(|key, _| !cut[..first].contains(key));
                for key in &cut[first..cut.len().min(first + IN_LEAF)] {
                    of_leaf.extend(of_leaf.clone().into_iter().map(|mut model| {
                        model.remove(key);
                        model
                    }));
                }
                left.extend(of_leaf);
            }
            all = left.into_iter().collect();
        } else {
            let mut after = before.clone();
            self.apply(&mut after);
            all.push(after);
        }
        all
    }
}

/// The most entries of a leaf that is cut. The leaves of histories are small.
const IN_LEAF: usize = 8;

/// What may be missing after a crash: this, and everything before it in this list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Missing {
    Nothing,
    /// There is a pool without the tree.
    Tree,
    /// There is nothing, or what the next creation takes for the remains of a creation.
    Pool,
    /// There is a former pool, which is refused.
    Superblock,
}

/// The entries that `Op::Batch` inserts.
pub(super) fn batch(n: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..n).map(|i| (4 * i + 3, i + 20))
}

/// What `Op::Together` writes.
pub(super) fn together(n: u64) -> impl Iterator<Item = (u64, Option<u64>)> {
    (0..n).flat_map(|i| [(4 * i + 3, Some(i + 20)), (4 * i + 2, None), (4 * i + 4, Some(i + 40))])
}

/// The entries that `Op::BulkLoad` loads.
pub(super) fn bulk(n: u64) -> impl Iterator<Item = (u64, u64)> {
    (1..=n).map(|i| (3 * i, i))
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insert(key, value) => write!(f, "i{key}={value}"),
            Self::Remove(key) => write!(f, "r{key}"),
            Self::Clear => write!(f, "clear"),
            Self::Compact => write!(f, "compact"),
            Self::Shrink => write!(f, "shrink"),
            Self::BulkLoad(n) => write!(f, "load{n}"),
            Self::Batch(n) => write!(f, "batch{n}"),
            Self::Cut(from, to) => write!(f, "cut{from}-{to}"),
            Self::Together(n) => write!(f, "together{n}"),
            Self::Swap => write!(f, "swap"),
            Self::Reopen => write!(f, "reopen"),
            Self::Drop => write!(f, "drop"),
            Self::Anew => write!(f, "anew"),
            Self::Others(n) => write!(f, "others{n}"),
            Self::AfterPowerLoss => write!(f, "powerloss"),
            Self::Kill(n) => write!(f, "kill{n}"),
            Self::Crash(n) => write!(f, "crash{n}"),
        }
    }
}

/// Operations; the last one is cut. Without any, the creation of pool and tree is cut.
///
/// Written and parsed as words: `i5=1 i7=2 r5 reopen`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History(pub Vec<Op>);

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, op) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{op}")?;
        }
        Ok(())
    }
}

/// A word that is not an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoOp(String);

impl fmt::Display for NoOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "'{}' is no operation: expected iKEY=VALUE, rKEY, clear, compact, shrink, loadN, batchN, cutFROM-TO, togetherN, swap, reopen, drop, \
             anew, othersN, powerloss, killN or crashN",
            self.0
        )
    }
}

impl std::error::Error for NoOp {}

impl FromStr for History {
    type Err = NoOp;

    fn from_str(text: &str) -> Result<Self, NoOp> {
        let op = |word: &str| {
            let number = |digits: &str| digits.parse::<u64>().ok();
            match word {
                "clear" => Some(Op::Clear),
                "compact" => Some(Op::Compact),
                "shrink" => Some(Op::Shrink),
                "swap" => Some(Op::Swap),
                "reopen" => Some(Op::Reopen),
                "drop" => Some(Op::Drop),
                "anew" => Some(Op::Anew),
                "powerloss" => Some(Op::AfterPowerLoss),
                _ => {
                    if let Some(n) = word.strip_prefix("load") {
                        number(n).map(Op::BulkLoad)
                    } else if let Some(n) = word.strip_prefix("batch") {
                        number(n).map(Op::Batch)
                    } else if let Some(keys) = word.strip_prefix("cut") {
                        let (from, to) = keys.split_once('-')?;
                        Some(Op::Cut(number(from)?, number(to)?))
                    } else if let Some(n) = word.strip_prefix("together") {
                        number(n).map(Op::Together)
                    } else if let Some(n) = word.strip_prefix("others") {
                        number(n).map(Op::Others)
                    } else if let Some(n) = word.strip_prefix("kill") {
                        number(n).map(Op::Kill)
                    } else if let Some(n) = word.strip_prefix("crash") {
                        number(n).map(Op::Crash)
                    } else if let Some(key) = word.strip_prefix('r') {
                        number(key).map(Op::Remove)
                    } else {
                        let (key, value) = word.strip_prefix('i')?.split_once('=')?;
                        Some(Op::Insert(number(key)?, number(value)?))
                    }
                }
            }
        };
        text.split_whitespace()
            .map(|word| op(word).ok_or_else(|| NoOp(word.to_owned())))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// All short histories for two trees with leaves of `slots` slots: changes of both at once, where they fit into the
/// leaves and where these must be split, one after the other, beside single changes, and after a process that was
/// killed in one.
pub(crate) fn of_two(slots: u64) -> Vec<History> {
    let mut histories = vec![History::default(), History(vec![Op::Reopen])];
    for n in [0, 1, 2, slots, 2 * slots, 4 * slots] {
        let fill = History(keys(n).map(|key| Op::Insert(key, key)).collect());
        // Beyond 24 words, the list is in an extent.
        for at_once in [1, 2, 3, slots, 7] {
            let done = append(&fill, [Op::Together(at_once)]);
            for last in [Op::Insert(3, 9), Op::Remove(3), Op::Insert(2, 8), Op::Together(1), Op::Reopen] {
                histories.push(append(&done, [last]));
            }
            for last in [Op::Together(at_once + 1), Op::Together(1)] {
                histories.push(append(&fill, [last, Op::Together(at_once)]));
            }
            histories.push(done);
        }
        if n <= 2 * slots {
            for last in [Op::Insert(3, 9), Op::Together(1), Op::Swap, Op::Reopen] {
                histories.push(append(&fill, [Op::Swap, last]));
                histories.push(append(&fill, [last, Op::Swap]));
            }
            histories.extend((1..=90).step_by(3).map(|events| append(&fill, [Op::Swap, Op::Kill(events)])));
        }
        for events in (1..=90).step_by(3) {
            let killed = append(&fill, [Op::Together(2), Op::Kill(events)]);
            histories.push(append(&killed, [Op::Insert(3, 5)]));
            histories.push(append(&killed, [Op::Together(1)]));
            histories.push(killed);
        }
    }
    histories
}

/// A random history for two trees.
pub(crate) fn random_of_two(seed: u64, len: usize, slots: u64) -> History {
    let replaced = |(i, op): (usize, Op)| match op {
        Op::Clear | Op::Drop | Op::Batch(_) | Op::Cut(..) => Op::Together(1 + (seed + i as u64) % 6),
        op => op,
    };
    let at_once = |(i, op): (usize, Op)| match i % 10 {
        4 => Op::Together(1 + seed % 3),
        9 => Op::Swap,
        _ => op,
    };
    History(random(seed, len, slots).0.into_iter().enumerate().map(replaced).enumerate().map(at_once).collect())
}

/// All short histories for nodes of `slots` slots: every way to fill a few leaves, then every single operation;
/// and all pairs of operations on smaller trees.
pub(crate) fn all(slots: u64) -> Vec<History> {
    let mut histories = vec![History::default(), History(vec![Op::Reopen])];
    for n in 0..=4 * slots {
        histories.push(History(vec![Op::BulkLoad(n)]));
        for fill in fills(n) {
            histories.extend(every_op(n).map(|last| append(&fill, [last])));
        }
    }
    // Sparse leaves: a few entries remain of several full leaves, so that removals merge and share.
    for kept in 1..=4 {
        let n = 4 * slots;
        let fill = History(keys(n).map(|key| Op::Insert(key, key)).collect());
        let thinned = keys(n).enumerate().filter(|(i, _)| i % 4 >= kept).map(|(_, key)| Op::Remove(key));
        let thinned = append(&fill, thinned);
        histories.extend(every_op(n).map(|last| append(&thinned, [last])));
    }
    // Removals from either end, one after the other, until the tree is empty.
    for n in [2 * slots, 5 * slots] {
        let fill = History(keys(n).map(|key| Op::Insert(key, key)).collect());
        for removed in 1..=n as usize {
            histories.push(append(&fill, keys(n).take(removed).map(Op::Remove)));
            histories.push(append(&fill, keys(n).rev().take(removed).map(Op::Remove)));
        }
    }
    // Grow, shrink to a few entries, and grow again: what was freed is used as something else.
    for (n, kept) in [(8 * slots, 1), (8 * slots, 3), (6 * slots, slots)] {
        let fill = keys(n).map(|key| Op::Insert(key, key));
        let thin = keys(n).skip(kept as usize).map(Op::Remove);
        let down = History(fill.chain(thin).collect());
        for back in 1..=n {
            histories.push(append(&down, (1..=back).map(|i| Op::Insert(2 * i + 1, i))));
            histories.push(append(&down, (1..=back).map(|i| Op::Insert(1000 - i, i))));
        }
    }
    histories.extend(cutting(slots));
    histories.extend(compacting(slots));
    // Processes that are killed: the next one goes on with what is in caches only, and then the machine goes down.
    for n in [1, slots, slots + 1, 3 * slots] {
        let fill = History(keys(n).map(|key| Op::Insert(key, key)).collect());
        for first in [Op::Insert(2 * n + 1, 7), Op::Insert(1, 7), Op::Remove(2), Op::Reopen] {
            for events in 1..=24 {
                let killed = append(&fill, [first, Op::Kill(events)]);
                histories.push(append(&killed, [Op::Insert(2 * n + 3, 5)]));
                histories.push(append(&killed, [Op::Insert(3, 5)]));
                histories.push(killed);
            }
        }
    }
    // Pairs: on trees of up to two leaves if the leaves are small.
    for n in 0..=if slots <= 5 { slots + 2 } else { slots / 2 } {
        for fill in fills(n) {
            for first in every_op(n) {
                histories.extend(every_op(n).map(|second| append(&fill, [first, second])));
            }
        }
    }
    histories
}

/// Histories of trees with leaves of `slots` slots that compact sparse segments: many leaves; a few entries stay here
/// and there, with their records. Others cut off the end of a pool.
pub fn compacting(slots: u64) -> Vec<History> {
    let mut histories = Vec::new();
    for (n, kept) in [(12 * slots, 1), (16 * slots, 1), (16 * slots, 2)] {
        let fill = keys(n).map(|key| Op::Insert(key, key / 2 % 4));
        // One of every few leaves stays, or a half.
        let thin = keys(n).enumerate().filter(|(i, _)| *i as u64 / slots % 3 >= kept).map(|(_, key)| Op::Remove(key));
        let thin = History(fill.chain(thin).collect());
        histories.push(append(&thin, [Op::Compact]));
        for next in [Op::Insert(3, 9), Op::Remove(2), Op::Compact, Op::Shrink, Op::Clear] {
            histories.push(append(&thin, [Op::Compact, next]));
        }
        for next in [Op::Reopen, Op::Shrink] {
            histories.push(append(&thin, [next, Op::Compact]));
            histories.push(append(&thin, [Op::Compact, next, Op::Insert(5, 9)]));
        }
        histories.extend((1..60).step_by(4).map(|events| append(&thin, [Op::Compact, Op::Kill(events), Op::Compact])));
    }
    for n in [0, 1, 24 * slots] {
        let fill = History(keys(n).map(|key| Op::Insert(key, key % 2)).collect());
        // What was cut off is used again, and must hold zeros: leaves that are not full.
        let mixed = |i| 2 * (i * 5 % (n / 2)) + 3;
        let again: Vec<Op> = (0..n / 2).map(|i| Op::Insert(mixed(i), i % 2)).collect();
        for last in [vec![], vec![Op::Insert(1, 7)], vec![Op::Shrink], again] {
            histories.push(append(&append(&fill, [Op::Clear, Op::Shrink]), last.clone()));
            histories.push(append(&append(&fill, [Op::Drop, Op::Shrink]), last));
        }
    }
    histories
}

/// Histories that compact trees of leaves of `slots` slots under a persistent index: of many leaves in a row none
/// stays, so that inner nodes move, the topmost one and the first of each other level among them.
pub fn compacting_inner(slots: u64) -> Vec<History> {
    let mut histories = Vec::new();
    // The head moves while there is no node above it.
    let fill = History(keys(12 * slots).map(|key| Op::Insert(key, key / 2 % 4)).collect());
    let again: Vec<Op> = keys(3 * slots).map(|key| Op::Insert(key, 1)).collect();
    histories.push(append(&append(&fill, [Op::Clear, Op::Compact, Op::Compact]), again));
    for n in [20 * slots, 32 * slots] {
        let fill = keys(n).map(|key| Op::Insert(key, key / 2 % 4));
        let thin = keys(n).filter(|key| (slots + 1..=n - n / 3).contains(&(key / 2))).map(Op::Remove);
        let thin = History(fill.chain(thin).collect());
        histories.extend([Op::Insert(3, 9), Op::Remove(2), Op::Compact].map(|next| append(&thin, [Op::Compact, next])));
        histories.extend((1..60).step_by(4).map(|events| append(&thin, [Op::Compact, Op::Kill(events), Op::Compact])));
    }
    histories
}

fn keys(n: u64) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator {
    (1..n as usize + 1).map(|i| i as u64 * 2)
}

/// Ways to insert keys 2, 4, ... 2n: ascending, descending, from the middle outwards.
fn fills(n: u64) -> Vec<History> {
    let insert = |key| Op::Insert(key, key % 3);
    let mut fills = vec![History(keys(n).map(insert).collect())];
    if n > 1 {
        fills.push(History(keys(n).rev().map(insert).collect()));
    }
    if n > 2 {
        let middle = n / 2 + 1;
        let outwards = (0..n).map(|i| if i % 2 == 0 { middle + i / 2 } else { middle - i / 2 - 1 });
        fills.push(History(outwards.filter(|&i| i >= 1 && i <= n).map(|i| insert(2 * i)).collect()));
    }
    fills
}

/// Every operation on a tree of keys 2, 4, ... 2n: inserts at every position and at both ends of the key range, an
/// update and a removal of every key, and the rest.
fn every_op(n: u64) -> impl Iterator<Item = Op> {
    let inserts = (0..=n).map(|i| Op::Insert(2 * i + 1, 7)).chain([Op::Insert(0, 0), Op::Insert(u64::MAX, u64::MAX)]);
    let updates = keys(n).map(|key| Op::Insert(key, 9));
    let removals = keys(n).map(Op::Remove);
    inserts.chain(updates).chain(removals).chain([Op::Clear, Op::Reopen, Op::Batch(3)])
}

/// Ranges are removed that begin and end anywhere in a few leaves; then what is left is used.
fn cutting(slots: u64) -> Vec<History> {
    let mut histories = Vec::new();
    for n in [1, slots, slots + 1, 3 * slots] {
        for fill in fills(n) {
            for from in (1..=2 * n).step_by(3) {
                let cuts = [from, from + slots, from + 2 * slots, 2 * n].map(|to| append(&fill, [Op::Cut(from, to)]));
                for cut in cuts {
                    histories.push(append(&cut, [Op::Insert(from, 5)]));
                    histories.push(append(&cut, [Op::Reopen]));
                    histories.push(cut);
                }
            }
            histories.push(append(&fill, [Op::Cut(0, u64::MAX), Op::BulkLoad(2 * slots)]));
        }
    }
    histories
}

fn append(history: &History, ops: impl IntoIterator<Item = Op>) -> History {
    let mut ops_of = history.0.clone();
    ops_of.extend(ops);
    History(ops_of)
}

/// A pseudo-random history of `len` operations on few keys.
pub(crate) fn random(seed: u64, len: usize, slots: u64) -> History {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) % below
    };
    let range = 6 * slots;
    let mut growing = true;
    let ops = (0..len).map(|_| {
        if next(24) == 0 {
            growing = !growing;
        }
        match next(100) {
            0 => Op::Reopen,
            5 => Op::Drop,
            1 => Op::Clear,
            4 => Op::Batch(1 + next(6)),
            6 => {
                let from = next(range);
                Op::Cut(from, from + next(range / 2))
            }
            2 => Op::Insert(u64::MAX, next(3)),
            3 => Op::Remove(u64::MAX),
            n if (n < 70) == growing => Op::Insert(next(range), next(4)),
            _ => Op::Remove(next(range)),
        }
    });
    History(ops.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_are_written_as_they_are_read() {
        for history in all(4).into_iter().chain((0..100).map(|seed| random(seed, 40, 4))) {
            assert_eq!(history.to_string().parse::<History>().unwrap(), history);
        }
        for history in of_two(4).into_iter().chain((0..100).map(|seed| random_of_two(seed, 40, 4))) {
            assert_eq!(history.to_string().parse::<History>().unwrap(), history);
        }
        for rest in ["i5=1 crash7 crash0 r5", "drop anew powerloss kill3"] {
            assert_eq!(rest.parse::<History>().unwrap().to_string(), rest);
        }
        assert!("i5".parse::<History>().is_err());
        assert!("x".parse::<History>().is_err());
    }

    #[test]
    fn fills_hold_all_keys() {
        for n in 0..20 {
            for fill in fills(n) {
                let mut model = BTreeMap::new();
                fill.0.iter().for_each(|op| op.apply(&mut model));
                assert!(model.keys().copied().eq(keys(n)), "{fill}");
            }
        }
    }
}
