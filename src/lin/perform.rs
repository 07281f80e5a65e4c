//! Operations on a tree, and its answers.

use super::clock::Clock;
use super::op::{Answer, Op, Shown, Transaction, Way};
use crate::crash::any_tree::{AnyTree, Before, Entries};
use crate::error::{Error, ErrorKind, Result};

pub(super) fn perform(tree: &dyn AnyTree, op: &Op, clock: &Clock) -> Result<Answer> {
    Ok(match op {
        Op::Get(key) => Answer::Old(tree.get(*key)?),
        Op::Insert(key, value) => before(tree.insert(*key, *value)?),
        Op::InsertNew(key, value) => before(tree.insert_new(*key, *value)?),
        Op::Update(key, value) => before(tree.update(*key, *value)?),
        Op::Remove(key) => before(tree.remove(*key)?),
        Op::Exchange(key, current, new) => Answer::Old(tree.compare_exchange(*key, *current, *new)?),
        Op::MultiGet(keys) => Answer::Values(tree.multi_get(keys)?),
        Op::Batch(entries) => {
            tree.insert_batch(entries)?;
            Answer::Done
        }
        Op::Cut(from, to) => {
            tree.remove_range((*from, *to))?;
            Answer::Done
        }
        Op::Transaction(Transaction { keys, range, writes }) => Answer::Values(tree.transaction(keys, *range, writes)?),
        Op::Clear => {
            tree.clear()?;
            Answer::Done
        }
        Op::Load(entries) => loaded(tree.bulk_load(entries))?,
        Op::Range(scan) => shown(tree.range(scan.keys), scan.way, scan.limit, clock)?,
        Op::IsEmpty => Answer::Was(!tree.is_empty()),
        Op::Len => Answer::Count(tree.len()),
        Op::Compact => {
            // Trees of a few keys have nothing sparse for long.
            tree.compact()?;
            tree.move_everything()?;
            Answer::Done
        }
    })
}

fn before(before: Before) -> Answer {
    match before {
        Before::Value(value) => Answer::Old(value),
        Before::WasThere(was_there) => Answer::Was(was_there),
    }
}

/// Reads a range in the way that was asked for.
fn shown(mut range: Entries<'_>, way: Way, limit: usize, clock: &Clock) -> Result<Answer> {
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
