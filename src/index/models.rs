//! What the loom models of the indexes in memory have in common: one writer, and one reader that searches for the floor
//! of a key.

use super::InMemory;
use loom::sync::Arc;
use loom::thread;

pub(crate) fn leaf_of(low: u64) -> u64 {
    low + 1000
}

pub(crate) fn post(index: &impl InMemory, lows: &[u64]) {
    lows.iter().for_each(|&low| index.post(low, leaf_of(low)));
}

pub(crate) fn withdraw(index: &impl InMemory, lows: &[u64]) {
    lows.iter().for_each(|&low| assert_eq!(index.withdraw(low), Some(leaf_of(low))));
}

pub(crate) fn learn(index: &impl InMemory, lows: &[u64]) {
    index.learn(&lows.iter().map(|&low| (low, leaf_of(low))).collect::<Vec<_>>());
}

/// A reader that calls `floor` `looks` times. A thread that could go on is interrupted at most `preemptions` times.
pub(crate) struct Reader<I> {
    pub(crate) floor: fn(&I, u64) -> Option<u64>,
    pub(crate) looks: usize,
    pub(crate) preemptions: usize,
}

/// After `setup`, `write` runs while the reader searches for `key`. The reader must find one of the lows in `may`, and
/// never one that comes before the one it found last.
///
/// The writer runs on the first thread. loom remembers one access per word, and would forget a reader's load of a word
/// that the writer loads before it stores.
pub(crate) fn run<I: Send + Sync + 'static>(
    new: fn() -> I,
    setup: fn(&I),
    write: fn(&I),
    Reader { floor, looks, preemptions }: Reader<I>,
    key: u64,
    may: &'static [u64],
) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 20_000;
    builder.check(move || {
        let index = Arc::new(new());
        setup(&index);
        let reader = thread::spawn({
            let index = Arc::clone(&index);
            move || {
                let mut last = 0;
                for _ in 0..looks {
                    let leaf = floor(&index, key).expect("something stays");
                    let found = may.iter().position(|&low| leaf == leaf_of(low));
                    let found = found.unwrap_or_else(|| panic!("floor({key}) is {leaf}"));
                    assert!(found >= last, "back to what was before");
                    last = found;
                }
            }
        });
        write(&index);
        reader.join().unwrap();
    });
}
