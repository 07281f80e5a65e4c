//! The systems of the papers under their names: each one keeps what it was given, has it after reopening, and cannot be
//! opened as another one.

#[path = "../trees/medium.rs"]
mod medium;

use bristlecone::*;
use medium::{Any, holding, words_of, zeroed};

const POOL: u64 = 8 << 20;
const KEYS: u64 = 3000;

fn options() -> Options {
    Pool::options().segment_size(64 << 10)
}

/// Keys from the whole range, with both ends; many values are equal.
fn entries() -> impl Iterator<Item = (u64, u64)> {
    let key = |i: u64| match i {
        0 => 0,
        1 => u64::MAX,
        _ => i.wrapping_mul(0x9e37_79b9_7f4a_7c15),
    };
    (0..KEYS).map(move |i| (key(i), i % 7))
}

fn keeps<N: WordNode>(tree: &PTree<N, Any>) {
    let mut expected: Vec<(u64, u64)> = entries().collect();
    expected.sort_unstable();
    assert_eq!(tree.iter().collect::<Vec<_>>(), expected);
    assert!(entries().all(|(key, value)| tree.get(key) == Some(value)));
    let report = tree.check();
    assert!(report.is_clean(), "{:?}", report.violations);
}

/// A pool with the tree, closed orderly.
fn holds<N: WordNode>(index: IndexKind) -> Vec<u64> {
    let pool = options().create_on(zeroed(POOL)).unwrap();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    for (key, value) in entries() {
        assert_eq!(tree.insert(key, value + 1).unwrap(), None);
        assert_eq!(tree.update(key, value).unwrap(), Some(value + 1));
        assert_eq!(tree.insert(key ^ 1, 9).unwrap(), None);
        assert_eq!(tree.remove(key ^ 1).unwrap(), Some(9));
    }
    keeps(&tree);
    // After a crash.
    let crashed = options().open_on(holding(words_of(pool.medium()))).unwrap();
    keeps::<N>(&crashed.tree_with("t", index).unwrap());
    drop(tree);
    let words = words_of(pool.medium());
    let reopened = options().open_on(holding(words.iter().copied())).unwrap();
    assert!(reopened.check().unwrap().is_clean());
    keeps::<N>(&reopened.tree_with("t", index).unwrap());
    words
}

/// Opening the tree as another kind is refused, and the error says what kind it is.
fn is_no_other<N: WordNode>(index: IndexKind, words: &[u64], name: &str) {
    let pool = options().open_on(holding(words.iter().copied())).unwrap();
    match pool.tree_with::<N>("t", index).map(drop) {
        Err(Error { kind: ErrorKind::LayoutMismatch { found, .. }, .. }) => {
            assert!(found.starts_with(&format!("{name}/")), "{found}")
        }
        other => panic!("{name} opened as {}: {other:?}", N::NAME),
    }
    assert!(pool.medium().accessible() == POOL);
}

macro_rules! systems {
    ($($name:ident: $system:ident, $layout:literal, not $other:ident;)*) => {
        $(#[test]
        fn $name() {
            is_no_other::<papers::$other>(papers::$other::INDEX, &holds::<papers::$system>(papers::$system::INDEX), $layout);
        })*
    };
}

systems! {
    circ_tree: CircTree, "circular", not CircTreeLs;
    circ_tree_printed: CircTreePrinted, "circ_printed", not CircTree;
    circ_tree_ls: CircTreeLs, "scanned_circular", not CircTree;
    fast_fair: FastFair, "scanned_linear", not FastFairBinary;
    circ_tree_sentinel: CircTreeSentinel, "sentinel_circular", not CircTree;
    fast_fair_sentinel: FastFairSentinel, "sentinel_linear", not FastFair;
    circ_tree_sentinel_printed: CircTreeSentinelPrinted, "sentinel_leaves_circular", not CircTreeSentinel;
    circ_tree_fingerprinted: CircTreeFingerprinted, "fingerprinted_circular", not CircTreeSentinel;
    fast_fair_fingerprinted: FastFairFingerprinted, "fingerprinted_linear", not FastFairSentinel;
    nv_tree: NvTree, "append", not NvTreeFixed;
    nv_tree_fixed: NvTreeFixed, "append_fixed", not NvTree;
    crab_tree: CrabTree, "crab", not CrabOpt;
    crab_tree_printed: CrabTreePrinted, "crab_printed", not CrabTree;
    crab_opt: CrabOpt, "crab_opt", not CrabTree;
    cow_only: CowOnly, "cow_only", not SipOnly;
    sip_only: SipOnly, "sip_only", not CowOnly;
    fp_tree: FpTree, "fingerprint", not CrabTree;
    lcb_tree: LcbTree, "logged", not FastFair;
    cdds_tree: CddsTree, "versioned", not LcbTree;
}

/// The volatile baselines, whose index is in memory.
#[test]
fn in_memory() {
    is_no_other::<papers::CircTree>(
        IndexKind::Volatile,
        &holds::<papers::FastFairBinary>(IndexKind::Volatile),
        "linear",
    );
    is_no_other::<papers::FastFairBinary>(
        IndexKind::Volatile,
        &holds::<papers::CircTree>(IndexKind::Volatile),
        "circular",
    );
}
