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
use crate::node::layout::{Checked, New};
use crate::node::linear::LinearRun;
use crate::node::shift::Shift;
use crate::node::slots::{self, key_at, value_at};
use crate::node::sorted::{self, Changes, HEADER, Sorted, Window};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{Entry, IndexKind, KeyRange, LEAST_SLOTS, Node, SLOT, WordNode, Words};
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
/// With `WHOLE`, the copy is that of the node: its header and all its slots, whether they are in use or not. Without
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
    fn log_at(at: u64, i: usize) -> u64 {
        key_at(at, SLOTS + i)
    }

    /// Copies the run, or the whole node, to the log, makes the change, and clears the log. The last line is flushed,
    /// not fenced.
    fn logged<M: Medium>(m: &M, at: u64, run: Window, changed: Range<usize>, change: impl FnOnce()) {
        let copied = if WHOLE { SLOTS } else { run.len() };
        for i in 0..copied {
            m.store_pair(Self::log_at(at, i), [slots::key(m, at, i), m.load(value_at(at, i))]);
        }
        if WHOLE {
            let header = Self::BYTES - HEADER;
            (0..HEADER).step_by(8).for_each(|word| m.store(at + header + word, m.load(at + word)));
            m.flush(at + header, HEADER, Step::LogCopy);
        }
        if copied > 0 {
            m.flush(Self::log_at(at, 0), copied as u64 * SLOT, Step::LogCopy);
            m.fence(Step::LogCopy);
        }
        m.store(at + LOG, run.len() as u64 + 1);
        m.flush(at + LOG, 8, Step::LogCount);
        m.fence(Step::LogCount);
        change();
        m.flush(key_at(at, changed.start), changed.len() as u64 * SLOT, Step::LogChange);
        m.fence(Step::LogChange);
        m.store(at + LOG, 0);
        m.flush(at + LOG, 8, Step::LogForget);
    }

    /// The entries of the log, if the log counts. They were a run of the node.
    fn in_log<M: Medium>(m: &M, at: u64, range: KeyRange) -> Result<Option<Vec<Entry>>, Broken> {
        let Some(count) = m.load(at + LOG).checked_sub(1) else { return Ok(None) };
        if count > SLOTS as u64 {
            return Err(Broken::new(at + LOG, "N3: a log longer than the node"));
        }
        let entry = |i| (m.load(Self::log_at(at, i)), m.load(Self::log_at(at, i) + 8));
        let entries: Vec<Entry> = (0..count as usize).map(entry).collect();
        let ascend = entries.is_sorted_by(|one, next| one.0 < next.0);
        if !ascend || !entries.iter().all(|&(key, _)| range.contains(key)) {
            return Err(Broken::new(Self::log_at(at, 0), "N3: a log of what was no run"));
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
    fn fill<M: Medium>(m: &M, at: u64, new: New, entries: &[Entry], zeroed: bool) -> Window {
        m.store(at + LOG, 0);
        slots::fill::<Self, M>(m, at, new, entries, zeroed)
    }

    fn insert<M: Medium>(m: &M, at: u64, run: Window, i: usize, (key, value): Entry) -> Window {
        let len = run.len();
        Self::logged(m, at, run, i..len + 1, || {
            for j in (i..len).rev() {
                m.store_pair(key_at(at, j + 1), [slots::key(m, at, j), m.load(value_at(at, j))]);
            }
            m.store_pair(key_at(at, i), [key, value]);
        });
        Window::new(0, len + 1)
    }

    fn update<M: Medium>(m: &M, at: u64, run: Window, i: usize, value: u64) {
        Self::logged(m, at, run, i..i + 1, || m.store(value_at(at, i), value));
    }

    fn remove<M: Medium>(m: &M, at: u64, range: KeyRange, run: Window, i: usize) -> Window {
        let len = run.len();
        Self::logged(m, at, run, i..len, || {
            for j in i + 1..len {
                m.store_pair(key_at(at, j - 1), [slots::key(m, at, j), m.load(value_at(at, j))]);
            }
            m.store(key_at(at, len - 1), range.marker());
        });
        Window::new(0, len - 1)
    }

    fn recover<M: Medium>(m: &M, at: u64, range: KeyRange) -> Result<Window, Broken> {
        if let Some(entries) = Self::in_log(m, at, range)? {
            for (i, &(key, value)) in entries.iter().enumerate() {
                m.store_pair(key_at(at, i), [key, value]);
            }
            let count = entries.len();
            if count < SLOTS {
                // An interrupted insert may have written to this slot.
                m.store(key_at(at, count), range.marker());
            }
            m.flush(key_at(at, 0), SLOTS.min(count + 1) as u64 * SLOT, Step::LogUndo);
            m.fence(Step::LogUndo);
            // Crash, until the line is written back: the log counts once more. It equals what the slots hold, and so
            // does the log of the next change; a merge or a split writes the same line back, after a fence.
            m.store(at + LOG, 0);
        }
        <Shift as Changes<Self>>::recover(m, at, range)
    }

    fn check<M: Medium>(m: &M, at: u64, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        match Self::in_log(m, at, range) {
            Ok(None) => slots::check::<Self, M>(m, at, range, report),
            Ok(Some(entries)) => Some(Checked { entries, ..Checked::default() }),
            Err(broken) => {
                report(broken);
                None
            }
        }
    }
}

const _: () = assert!(LOG + 8 <= HEADER);
