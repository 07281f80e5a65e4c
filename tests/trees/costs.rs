//! What verbs persist: of texts and transactions no more than needed, and as many lines and fences as documented.

use crate::medium::Any;
use crate::persists::{Audit, Audited, Finding, SIZE, key};
use bristlecone::medium::{Counted, Dram, Medium, Step};
use bristlecone::{Map, OneLine, PTree, Pool};
use std::collections::BTreeSet;
use std::sync::Arc;

#[test]
fn of_texts_and_transactions_nothing_is_found() {
    let on = Audited::new(4 << 20);
    let mut audit = Audit { on: Arc::clone(&on), found: BTreeSet::new() };
    let options = Pool::options().segment_size(4096);
    let pool = audit.verb("create a pool", || options.create_on(Arc::clone(&on) as Any).unwrap());
    let texts: Map<String, Vec<u8>, _, Any> = audit.verb("create", || pool.map("texts").unwrap());
    let words = audit.verb("create", || pool.tree("words").unwrap());
    let text = |n: u64| format!("{:05}{}", key(n) % 100_000, "x".repeat(n as usize % 70));
    for n in 0..400 {
        audit.verb("insert", || texts.insert(text(n).as_str(), &[7; 20][..n as usize % 20]).unwrap());
    }
    for n in 0..400 {
        audit.verb("update", || texts.insert(text(n).as_str(), &[8; 9]).unwrap());
    }
    for n in 0..390 {
        audit.verb("remove", || texts.remove(text(n).as_str()).unwrap());
    }
    for n in 0..60 {
        audit.verb("transaction", || {
            pool.transaction(|tx| {
                for i in 0..1 + n % 12 {
                    tx.insert(&texts, text(n * 5 + i).as_str(), &[9; 30][..])?;
                    tx.insert(&words, key(n * 5 + i), n)?;
                }
                tx.remove(&words, key(n * 3)).map(drop)
            })
            .unwrap();
        });
    }
    for names in [("words", "others"), ("others", "a name of more than eight bytes")] {
        audit.verb("rename", || pool.transaction(|tx| tx.rename_tree(names.0, names.1)).unwrap());
    }
    audit.verb("close", || drop((texts, words)));
    audit.verb("close the pool", || pool.close().unwrap());
    let lines: Vec<String> = audit.found.iter().map(|(what, verb, by)| format!("{verb}: {what:?} {by}")).collect();
    assert!(lines.is_empty(), "{}", lines.join("\n"));
}

/// The negative control: each kind of finding is found.
#[test]
fn what_nothing_needs_is_found() {
    let on = Audited::new(4096);
    let kinds = |work: &dyn Fn()| {
        work();
        on.returned().into_iter().map(|(finding, _)| finding).collect::<Vec<_>>()
    };
    assert_eq!(kinds(&|| (on.store(8, 1), on.flush(8, 8, Step::Measure), on.fence(Step::Measure)).2), []);
    assert_eq!(
        kinds(&|| (on.store(60, 1), on.store(64, 1), on.flush(0, 128, Step::Measure), on.fence(Step::Measure)).3),
        []
    );
    assert_eq!(
        kinds(&|| (
            on.store(8, 1),
            on.flush(8, 8, Step::Measure),
            on.flush(16, 8, Step::Measure),
            on.fence(Step::Measure)
        )
            .3),
        [Finding::CleanLine]
    );
    assert_eq!(
        kinds(&|| (on.store(8, 1), on.flush(8, 100, Step::Measure), on.fence(Step::Measure)).2),
        [Finding::CleanLine]
    );
    assert_eq!(
        kinds(&|| (on.store(8, 1), on.flush(8, 8, Step::Measure), on.fence(Step::Measure), on.fence(Step::Measure)).3),
        [Finding::EmptyFence]
    );
    assert_eq!(kinds(&|| on.store(8, 1)), [Finding::Unflushed]);
    assert_eq!(kinds(&|| (on.store(8, 1), on.flush(8, 8, Step::Measure)).1), [Finding::Unfenced]);
}

/// Counts what the documentation says about `drop_tree` and `insert_batch`.
#[test]
fn lines_and_fences_are_as_documented() {
    let counted = Arc::new(Counted::new(Dram::zeroed(SIZE)));
    let spent = |verb: &dyn Fn()| {
        let before = counted.counts();
        verb();
        let spent = counted.counts() - before;
        (spent.lines, spent.fences)
    };
    let pool = Pool::options().segment_size(4096);
    let pool = pool.create_on(Arc::clone(&counted) as Any).unwrap();
    let tree: PTree<OneLine, Any> = pool.tree("t").unwrap();
    // The eleven leaves of 39 entries take two segments, and all but the last one are full.
    (1..=400).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    // The 39 entries of a leaf are in ten lines.
    let leaf: Vec<(u64, u64)> = (1..=39).map(|key| (key, !key)).collect();
    assert_eq!(spent(&|| assert_eq!(tree.insert_batch(&leaf).unwrap(), 0)), (10, 1));
    assert_eq!(spent(&|| assert_eq!(tree.insert_batch(&[]).unwrap(), 0)), (0, 0));
    // Eight leaves, and half of the first and of the last one.
    let (half, keys) = (40..59, 59..59 + 39 * 8);
    assert_eq!(spent(&|| assert_eq!(tree.remove_range(half.clone()).unwrap(), 19)).1, 1);
    assert_eq!(spent(&|| assert_eq!(tree.remove_range(half.clone()).unwrap(), 0)), (0, 0));
    let (lines, fences) = spent(&|| assert_eq!(tree.remove_range(keys.clone()).unwrap(), 39 * 8));
    assert!(lines <= 8 * (10 + 3) + 20 && fences <= 9 + 8 * 2, "{lines} lines, {fences} fences");
    (401..=4000).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    let free = pool.stat().available;
    drop(tree);
    let (lines, fences) = spent(&|| pool.drop_tree("t").unwrap());
    let segments = (pool.stat().available - free) / 4096;
    assert!(segments > 15, "{segments}");
    // No other tree shares the first line of the table; the close record has a segment, too.
    assert!(lines <= 1 + (segments + 1).div_ceil(8) + 1, "{lines} lines for {segments} segments");
    assert_eq!(fences, 2);
}
