//! LCB+-Tree's nodes: they are logged, then changed.
//!
//! ```text
//! line 0   | next 8 | low 8 | meta 8 | log 8 | (unused)     |     log: 0, or entries in the log + 1
//! line 1   | slot 0 | slot 1 | slot 2 | slot 3 |
//!   ...
//! line n   | log of slot 0 | ...
//! line 2n-1| log of line 0, if whole nodes are logged
//! ```
//!
//! While `log` is not 0, the log holds the content of the node, and the slots mean nothing.

use crate::error::Broken;
use crate::medium::{Medium, Step};
use crate::node::layout::{Checked, NewNode};
use crate::node::linear::LinearRun;
use crate::node::shift::Shift;
use crate::node::slots::{self, key_at, value_at};
use crate::node::sorted::{self, Changes, HEADER, Sorted, Window};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{BlockAt, Entry, IndexKind, KeyRange, LEAST_SLOTS, Node, SLOT, WordNode, Words};
use core::ops::Range;

/// A sorted node of `SLOTS` entries from slot 0 on. Before each change, all entries are copied to a log.
///
/// # Source
///
/// LCB+-Tree, the log-based baseline of NV-Tree (Yang et al., IEEE Transactions on Computers 2015, section 3.1):
/// "before modifying a node, its original copy is logged and flushed. The modified part of it is then flushed."
///
/// # As printed
///
/// With `WHOLE`, the copy is of the whole node: its header and all its slots, whether they are in use or not. Without
/// it, only the entries are copied.
///
/// # What differs
///
/// The paper does not say how a restart knows that a log counts. Here a word in the header says so: it is set once the
/// copy is durable, and cleared once the change is. These are two more lines and two more fences for each change. A
/// restart puts back the entries only, because a change of entries leaves the rest of the header as it was.
#[derive(Debug, Clone, Copy)]
pub struct Logged<const SLOTS: usize, const WHOLE: bool = false>;

/// Offset of the word that says whether the log counts.
const LOG: u64 = 24;

impl<const SLOTS: usize, const WHOLE: bool> Node for Logged<SLOTS, WHOLE> {
    const LAYOUT: u16 = if WHOLE { 19 } else { 10 };
    const NAME: &'static str = if WHOLE { "logged_whole" } else { "logged" };
    const IS_OWN: bool = true;
    const SLOTS: usize = {
        assert!(SLOTS >= LEAST_SLOTS && SLOTS <= 2048, "a node has 4 to 2048 slots");
        SLOTS
    };
    const BYTES: u64 = sorted::bytes(2 * SLOTS) + if WHOLE { HEADER } else { 0 };

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;
}

impl<const SLOTS: usize, const WHOLE: bool> WordNode for Logged<SLOTS, WHOLE> {
    const INDEX: IndexKind = IndexKind::Persistent;
    type Inner = Self;
}

impl<const SLOTS: usize, const WHOLE: bool> Logged<SLOTS, WHOLE> {
    /// Offset of the log entry for slot `i`.
    fn log_at(i: usize) -> u64 {
        key_at(SLOTS + i)
    }

    /// Copies the run, or the whole node, to the log, makes the change, and clears the log. The last line is flushed,
    /// not fenced.
    fn logged(node: BlockAt<'_, impl Medium>, run: Window, changed: Range<usize>, change: impl FnOnce()) {
        let copied = if WHOLE { SLOTS } else { run.len() };
        for i in 0..copied {
            node.store_pair(Self::log_at(i), [slots::key(node, i), node.load(value_at(i))]);
        }
        if WHOLE {
            let header = Self::BYTES - HEADER;
            (0..HEADER).step_by(8).for_each(|word| node.store(header + word, node.load(word)));
            node.flush(header, HEADER, Step::LogCopy);
        }
        if copied > 0 {
            node.flush(Self::log_at(0), copied as u64 * SLOT, Step::LogCopy);
            node.fence(Step::LogCopy);
        }
        node.store(LOG, run.len() as u64 + 1);
        node.flush(LOG, 8, Step::LogCount);
        node.fence(Step::LogCount);
        change();
        node.flush(key_at(changed.start), changed.len() as u64 * SLOT, Step::LogChange);
        node.fence(Step::LogChange);
        node.store(LOG, 0);
        node.flush(LOG, 8, Step::LogForget);
    }

    /// The entries of the log, if the log counts. They were a run of the node.
    fn in_log(node: BlockAt<'_, impl Medium>, range: KeyRange) -> Result<Option<Vec<Entry>>, Broken> {
        let Some(count) = node.load(LOG).checked_sub(1) else { return Ok(None) };
        if count > SLOTS as u64 {
            return Err(node.broken(LOG, "N3: a log longer than the node"));
        }
        let entry = |i| (node.load(Self::log_at(i)), node.load(Self::log_at(i) + 8));
        let entries: Vec<Entry> = (0..count as usize).map(entry).collect();
        let ascend = entries.is_sorted_by(|one, next| one.0 < next.0);
        if !ascend || !entries.iter().all(|&(key, _)| range.contains(key)) {
            return Err(node.broken(Self::log_at(0), "N3: a log of what was no run"));
        }
        Ok(Some(entries))
    }
}

impl<const SLOTS: usize, const WHOLE: bool> Sorted for Logged<SLOTS, WHOLE> {
    type Geometry = LinearRun;
    type Search = LinearRun;
    type Changes = Self;
}

impl<const SLOTS: usize, const WHOLE: bool> Changes<Self> for Logged<SLOTS, WHOLE> {
    /// A block that was used for something else may have any word where the log word is. The word is flushed with the
    /// header.
    fn fill(node: BlockAt<'_, impl Medium>, new: NewNode) -> Window {
        node.store(LOG, 0);
        slots::fill::<Self>(node, new)
    }

    fn insert(node: BlockAt<'_, impl Medium>, run: Window, i: usize, (key, value): Entry) -> Window {
        let len = run.len();
        Self::logged(node, run, i..len + 1, || {
            for j in (i..len).rev() {
                node.store_pair(key_at(j + 1), [slots::key(node, j), node.load(value_at(j))]);
            }
            node.store_pair(key_at(i), [key, value]);
        });
        Window::new(0, len + 1)
    }

    fn update(node: BlockAt<'_, impl Medium>, run: Window, i: usize, value: u64) {
        Self::logged(node, run, i..i + 1, || node.store(value_at(i), value));
    }

    fn remove(node: BlockAt<'_, impl Medium>, range: KeyRange, run: Window, i: usize) -> Window {
        let len = run.len();
        Self::logged(node, run, i..len, || {
            for j in i + 1..len {
                node.store_pair(key_at(j - 1), [slots::key(node, j), node.load(value_at(j))]);
            }
            node.store(key_at(len - 1), range.marker());
        });
        Window::new(0, len - 1)
    }

    fn recover(node: BlockAt<'_, impl Medium>, range: KeyRange) -> Result<Window, Broken> {
        if let Some(entries) = Self::in_log(node, range)? {
            for (i, &(key, value)) in entries.iter().enumerate() {
                node.store_pair(key_at(i), [key, value]);
            }
            let count = entries.len();
            if count < SLOTS {
                // An interrupted insert may have written to this slot.
                node.store(key_at(count), range.marker());
            }
            node.flush(key_at(0), SLOTS.min(count + 1) as u64 * SLOT, Step::LogUndo);
            node.fence(Step::LogUndo);
            // Crash, until the line is written back: the log counts once more. It equals what the slots hold, and so
            // does the log of the next change; a merge or a split writes the same line back, after a fence.
            node.store(LOG, 0);
        }
        <Shift as Changes<Self>>::recover(node, range)
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        match Self::in_log(node, range) {
            Ok(None) => slots::check::<Self>(node, range, report),
            Ok(Some(entries)) => Some(Checked { entries, ..Checked::default() }),
            Err(broken) => {
                report(broken);
                None
            }
        }
    }
}

const _: () = assert!(LOG + 8 <= HEADER);
