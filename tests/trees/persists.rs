//! No verb persists more than needed: an audit of every store, flush and fence, over all verbs, layouts and indexes.

use crate::medium::{Any, zeroed};
use bristlecone::medium::{Facts, LINE, Layer, Medium, Step};
use bristlecone::{IndexKind, Map, PTree, Pool, WordNode};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// A request to the medium that was not needed, or a needed one that was missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Finding {
    /// A flush of a line to which nothing was stored since its last flush.
    CleanLine,
    /// A fence without a flush since the last fence.
    EmptyFence,
    /// A store that is not flushed when the verb returns.
    Unflushed,
    /// A flush that is not fenced when the verb returns.
    Unfenced,
}

const NOTHING_TO_PREFILL: &str = "a node may take in nothing; in a `Fingerprint` leaf, whose link and bitmap are in one line, the fence is \
     what puts one after the other";

const OF_A_KILLED_PROCESS: &str = "a process that was killed may have stored to the line, and not flushed it";

/// Findings that are allowed, with the reason: by verb, or by the name of the step.
const EXCEPTIONS: &[(Finding, &str, &str)] = &[
    (
        Finding::Unfenced,
        "close",
        "the name of a close record is durable with the pool's closing; without it, the next open finds the leaves",
    ),
    (Finding::CleanLine, "HeaderClear", OF_A_KILLED_PROCESS),
    (Finding::CleanLine, "HeaderZero", OF_A_KILLED_PROCESS),
    (Finding::EmptyFence, "JoinPrefill", NOTHING_TO_PREFILL),
    (Finding::EmptyFence, "ShareFill", NOTHING_TO_PREFILL),
];

/// A medium that records every finding, with its step.
pub(crate) struct Audited {
    on: Any,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Lines with stores that are not flushed.
    dirty: BTreeSet<u64>,
    unfenced: bool,
    found: BTreeSet<(Finding, String)>,
}

impl Audited {
    pub(crate) fn new(len: u64) -> Arc<Self> {
        Arc::new(Self { on: zeroed(len), state: Mutex::default() })
    }

    fn find(&self, state: &mut State, finding: Finding, by: String) {
        // These are enough.
        if state.found.len() > 20 {
            return;
        }
        state.found.insert((finding, by));
    }

    fn stored(&self, at: u64) {
        self.state.lock().unwrap().dirty.insert(at & !7);
    }

    /// Called when a verb has returned; returns the findings.
    pub(crate) fn returned(&self) -> BTreeSet<(Finding, String)> {
        let mut state = self.state.lock().unwrap();
        for word in std::mem::take(&mut state.dirty) {
            self.find(&mut state, Finding::Unflushed, format!("word at {word}"));
        }
        // The next verb may fence it, so it is reported here.
        if state.unfenced {
            self.find(&mut state, Finding::Unfenced, String::new());
        }
        std::mem::take(&mut state.found)
    }
}

impl Layer for Audited {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn facts(&self) -> Facts<'_> {
        Facts { writes_back: true, ..self.below().facts() }
    }

    fn store(&self, at: u64, value: u64) {
        self.stored(at);
        self.on.store(at, value);
    }

    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        self.stored(at);
        self.stored(at + 8);
        self.on.store_pair(at, pair);
    }

    fn flush(&self, at: u64, len: u64, step: Step) {
        let mut state = self.state.lock().unwrap();
        for line in (at & !(LINE - 1)..at + len).step_by(LINE as usize) {
            // A step that names words writes back no others.
            let named =
                if step.names_words() { line.max(at & !7)..(line + LINE).min(at + len) } else { line..line + LINE };
            let dirty: Vec<u64> = state.dirty.range(named).copied().collect();
            state.dirty.retain(|word| !dirty.contains(word));
            if dirty.is_empty() {
                self.find(&mut state, Finding::CleanLine, step.name().to_owned());
            }
            state.unfenced = true;
        }
    }

    fn fence(&self, step: Step) {
        let mut state = self.state.lock().unwrap();
        if !std::mem::take(&mut state.unfenced) {
            self.find(&mut state, Finding::EmptyFence, step.name().to_owned());
        }
    }
}

pub(crate) const SIZE: u64 = 512 << 10;

/// The verbs that were run, and their findings.
pub(crate) struct Audit {
    pub(crate) on: Arc<Audited>,
    pub(crate) found: BTreeSet<(Finding, String, String)>,
}

impl Audit {
    pub(crate) fn verb<R>(&mut self, name: &str, verb: impl FnOnce() -> R) -> R {
        let result = verb();
        let found = self.on.returned();
        let is_excepted = |found: Finding, by: &str| {
            EXCEPTIONS.iter().any(|&(of, what, _)| of == found && (name == what || by == what))
        };
        let found = found.into_iter().filter(|(finding, by)| !is_excepted(*finding, by));
        self.found.extend(found.map(|(finding, by)| (finding, name.to_owned(), by)));
        result
    }
}

pub(crate) fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// All findings of a history with every verb, with splits, merges and growth of the index.
fn audited<N: WordNode>(index: IndexKind) -> BTreeSet<(Finding, String, String)> {
    let on = Audited::new(SIZE);
    let mut audit = Audit { on: Arc::clone(&on), found: BTreeSet::new() };
    let options = Pool::options().segment_size(4096);
    let pool = audit.verb("create a pool", || options.create_on(Arc::clone(&on) as Any).unwrap());
    let mut tree: PTree<N, Any> = audit.verb("create", || pool.tree_with("t", index).unwrap());
    let keys = 3 * N::SLOTS as u64 + 40;
    for round in 0..2 {
        for n in 0..keys {
            audit.verb("insert", || tree.insert(key(n), n).unwrap());
        }
        for n in 0..keys {
            audit.verb("update", || tree.update(key(n), !n).unwrap());
        }
        for from in (0..keys).step_by(20) {
            // Some of the keys are there.
            let batch: Vec<(u64, u64)> = (from..from + 20).map(|n| (key(n * 3 / 2), n)).collect();
            audit.verb("insert_batch", || tree.insert_batch(&batch).unwrap());
        }
        let ascending: Vec<(u64, u64)> = (0..keys).map(|n| (n, n)).collect();
        audit.verb("insert_batch", || tree.insert_batch(&ascending).unwrap());
        // Removes until the tree is nearly empty; in the other round, from the smallest key on.
        let mut there: Vec<u64> = tree.keys(..).collect();
        if round == 0 {
            there.sort_unstable_by_key(|key| key.wrapping_mul(0x2545_f491_4f6c_dd1d));
        }
        for key in there.into_iter().skip(3) {
            audit.verb("remove", || assert!(tree.remove(key).unwrap().is_some()));
        }
        audit.verb("clear", || tree.clear().unwrap());
        audit.verb("bulk_load", || tree.bulk_load((0..keys).map(|n| (n, n))).unwrap());
        for from in (0..keys).step_by(30) {
            audit.verb("remove_range", || tree.remove_range(from..from + 1 + from % 29).unwrap());
        }
        audit.verb("retain", || tree.retain(|key, _| key % 3 == 0).unwrap());
        audit.verb("remove_range", || tree.remove_range(..).unwrap());
        assert!(tree.is_empty());
        audit.verb("bulk_load", || tree.bulk_load((0..keys).map(|n| (n, n))).unwrap());
        audit.verb("close", || drop(tree));
        tree = audit.verb("open", || pool.tree_with("t", index).unwrap());
        audit.verb("touch", || assert_eq!(tree.iter().count() as u64, keys));
    }
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
    audit.verb("close", || drop(tree));
    audit.verb("drop_tree", || pool.drop_tree("t").unwrap());
    let map: Map<u64, Vec<u8>, N, Any> = audit.verb("create", || pool.map_with("m", index).unwrap());
    for n in 0..40 {
        audit.verb("insert a record", || map.insert(key(n), &[7; 100]).unwrap());
        audit.verb("update a record", || map.insert(key(n), &vec![8; n as usize * 250]).unwrap());
        if n > 10 {
            audit.verb("remove a record", || map.remove(key(n - 10)).unwrap());
        }
    }
    audit.verb("close", || drop(map));
    audit.verb("drop_tree", || pool.drop_tree("m").unwrap());
    audit.verb("close the pool", || pool.close().unwrap());
    audit.found
}

/// Nothing is found in a tree of byte strings, and in changes of several trees at once.
fn nothing_is_found<N: WordNode>(index: IndexKind) {
    let found = audited::<N>(index);
    let lines: Vec<String> = found.into_iter().map(|(what, verb, by)| format!("{verb}: {what:?} {by}")).collect();
    assert!(lines.is_empty(), "{} {:?}:\n{}", N::NAME, index, lines.join("\n"));
}

in_every_layout!(nothing_is_found);
