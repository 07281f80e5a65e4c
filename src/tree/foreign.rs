//! Tests of layouts that are not the crate's: the pool has their tags, and the hashes of their names.

use crate::error::{ErrorKind, Result};
use crate::medium::Dram;
use crate::medium::any::{Any, holding, words_of, zeroed};
use crate::node::linear::{Linear, LinearRun};
use crate::node::shift::Shift;
use crate::node::sorted::{self, Sorted};
use crate::node::sorted_ops::SortedOps;
use crate::node::space::InPlace;
use crate::node::{IndexKind, Node, WordNode, Words};
use crate::papers::Versioned;
use crate::pool::{Options, Pool, Verdict};
use crate::tree::PTree;

/// Linear nodes, as if another crate had them: whose, and with which tag.
struct Foreign<const WHOSE: usize, const TAG: u16>;

impl<const WHOSE: usize, const TAG: u16> Node for Foreign<WHOSE, TAG> {
    const LAYOUT: u16 = TAG;
    const NAME: &'static str = ["ada's linear", "bob's linear"][WHOSE];
    const SLOTS: usize = 8;
    const BYTES: u64 = sorted::bytes(8);

    type Keys = Words;
    type Ops = SortedOps<Self>;
    type Space = InPlace;
}

impl<const WHOSE: usize, const TAG: u16> WordNode for Foreign<WHOSE, TAG> {
    const INDEX: IndexKind = IndexKind::Volatile;
    type Inner = Linear<8>;
}

impl<const WHOSE: usize, const TAG: u16> Sorted for Foreign<WHOSE, TAG> {
    type Geometry = LinearRun;
    type Search = LinearRun;
    type Changes = Shift;
}

type Ada = Foreign<0, 999>;
type Bob = Foreign<1, 999>;
/// The tag of the default layout.
type Thief = Foreign<0, 3>;

/// The incompatible features, in the first twin.
const INCOMPAT: u64 = 32;
const FOREIGN: u64 = 8;

fn options() -> Options {
    Pool::options().segment_size(4096)
}

fn created() -> Pool<Any> {
    options().create_on(zeroed(1 << 20)).unwrap()
}

fn refused<N: WordNode>(pool: &Pool<Any>, name: &str) -> ErrorKind {
    let tree: Result<PTree<N, Any>> = pool.tree_of::<N>(name);
    tree.err().unwrap().kind
}

#[test]
fn layouts_with_one_tag_are_told_apart_by_their_names() {
    let mut pool = created();
    pool.tree("own").unwrap().insert(1, 2).unwrap();
    assert_eq!(pool.medium().load(INCOMPAT) & FOREIGN, 0, "a pool without them is one that older builds read");
    let tree = pool.tree_of::<Ada>("t").unwrap();
    assert_eq!(pool.medium().load(INCOMPAT) & FOREIGN, FOREIGN);
    (0..500).for_each(|key| assert_eq!(tree.insert(key, !key).unwrap(), None));
    drop(tree);
    for renamed in [false, true] {
        let name = if renamed { "u" } else { "t" };
        if renamed {
            pool.transaction(|tx| tx.rename_tree("t", "u")).unwrap();
        }
        pool = options().open_on(holding(words_of(pool.medium()))).unwrap();
        let ErrorKind::LayoutMismatch { found, expected, .. } = refused::<Bob>(&pool, name) else { panic!() };
        assert!(found.starts_with("foreign-999-") && expected.starts_with("foreign-999-") && found != expected);
        assert!(matches!(refused::<Linear<8>>(&pool, name), ErrorKind::LayoutMismatch { .. }));
        let tree = pool.tree_of::<Ada>(name).unwrap();
        assert!(tree.iter().eq((0..500).map(|key| (key, !key))) && tree.check().is_clean());
        let listed = pool.trees().unwrap().into_iter().find(|tree| tree.name == name).unwrap();
        assert!(listed.layout.starts_with("foreign-999-") && listed.layout.ends_with("/8"), "{}", listed.layout);
    }
}

/// It would be taken for one of the crate's by builds that do not know the type, this one's check among them.
#[test]
fn a_layout_with_a_tag_of_the_crates_is_refused() {
    let pool = created();
    pool.tree("own").unwrap().insert(1, 2).unwrap();
    let before = words_of(pool.medium());
    for name in ["own", "new"] {
        let error = pool.tree_of::<Thief>(name).err().unwrap();
        let ErrorKind::LayoutTag { layout, tag: 3, own } = error.kind else { panic!("{error}") };
        assert_eq!((layout, own), ("ada's linear", "one_line"));
        assert!(error.to_string().contains("has the tag 3, which is that of 'one_line'"), "{error}");
    }
    assert!(words_of(pool.medium()) == before);
}

#[test]
fn what_was_not_checked_is_not_clean() {
    let pool = created();
    pool.tree("own").unwrap().insert(1, 2).unwrap();
    assert_eq!(pool.check().unwrap().verdict(), Verdict::Clean);
    let tree = pool.tree_of::<Ada>("t").unwrap();
    (0..500).for_each(|key| assert_eq!(tree.insert(key, !key).unwrap(), None));
    // Opening it has named its layout, whichever pool it is in.
    let is_whole = |pool: &Pool<Any>| {
        let report = pool.check().unwrap();
        assert!(report.is_clean() && (report.trees, report.entries) == (2, 501), "{report:?}");
        assert!(pool.check_tree("t").unwrap().is_clean());
    };
    is_whole(&pool);
    drop(tree);
    is_whole(&pool);
    is_whole(&options().open_on(holding(words_of(pool.medium()))).unwrap());
    // On another medium, nothing has named it.
    let words = words_of(pool.medium());
    let unnamed = |words: &[u64]| options().open_on(Dram::from_words(words.iter().copied())).unwrap();
    let pool = unnamed(&words);
    for report in [pool.check().unwrap(), pool.check_tree("t").unwrap()] {
        assert_eq!(report.verdict(), Verdict::Unchecked);
        assert!(!report.is_clean() && report.violations.is_empty() && report.unchecked[0].name == "t", "{report:?}");
    }
    let error = options().open_on_after_power_loss(Dram::from_words(words.iter().copied())).unwrap_err();
    let ErrorKind::Unchecked { tree, layout } = &error.kind else { panic!("{error}") };
    assert!(tree == "t" && layout.starts_with("foreign-999-") && error.to_string().contains("Pool::name_layout"));
    // Damage that was found counts for more.
    let mut damaged = words.clone();
    let own = damaged.iter().position(|&word| word == u64::from_ne_bytes(*b"own\0\0\0\0\0")).unwrap();
    let head = damaged[own - 5] as usize / 8;
    damaged[head + 1] = 5;
    let report = unnamed(&damaged).check().unwrap();
    assert_eq!((report.verdict(), report.unchecked.len(), report.is_clean()), (Verdict::Damaged, 1, false));
    Pool::<Dram>::name_layout::<Bob>();
    assert_eq!(pool.check().unwrap().verdict(), Verdict::Unchecked, "another layout with that tag");
    Pool::<Dram>::name_layout::<Thief>();
    Pool::<Dram>::name_layout::<Ada>();
    assert_eq!(pool.check().unwrap().verdict(), Verdict::Clean);
    assert_eq!(options().open_on_after_power_loss(Dram::from_words(words.iter().copied())).unwrap().1.trees, 2);
}

/// Two layouts that differ in the size of their inner nodes only, which no signature says: none is taken for the other.
#[test]
fn a_tree_is_checked_as_what_it_is() {
    let pool = created();
    let small = pool.tree_of::<Versioned<8>>("small").unwrap();
    let large = pool.tree_of::<Versioned<8, Linear<16>>>("large").unwrap();
    for tree in 0..500 {
        small.insert(tree, 1).unwrap();
        large.insert(tree, 1).unwrap();
    }
    drop((small, large));
    assert!(pool.check().unwrap().is_clean(), "{:?}", pool.check());
    let words = words_of(pool.medium());
    let pool = options().open_on(Dram::from_words(words)).unwrap();
    Pool::<Dram>::name_layout::<Versioned<8>>();
    let report = pool.check().unwrap();
    assert_eq!((report.verdict(), report.trees, report.unchecked.len()), (Verdict::Unchecked, 1, 1), "{report:?}");
    assert_eq!(report.unchecked[0].name, "large");
    Pool::<Dram>::name_layout::<Versioned<8, Linear<16>>>();
    assert!(pool.check().unwrap().is_clean());
}

/// S1 holds with one twin, so this is no damage that matters yet.
#[test]
fn a_damaged_copy_of_the_superblock_is_reported_until_it_is_written_anew() {
    let pool = created();
    pool.tree("t").unwrap().insert(1, 2).unwrap();
    assert_eq!(pool.check().unwrap().damaged_twin, None);
    drop(pool.tree("t").unwrap());
    let whole = zeroed(1 << 20);
    let pool = options().create_on(Any::clone(&whole)).unwrap();
    pool.tree("t").unwrap().insert(1, 2).unwrap();
    pool.close().unwrap();
    for twin in [0, 4096] {
        let medium = holding(words_of(&whole));
        (0..16).for_each(|i| medium.store(twin + 8 * i, 0x5555));
        let reading = options().read_only(true).open_on(Any::clone(&medium)).unwrap();
        let report = reading.check().unwrap();
        assert!(report.damaged_twin == Some(twin) && report.is_clean(), "{report:?}");
        drop(reading);
        options().open_on(Any::clone(&medium)).unwrap().close().unwrap();
        let report = options().read_only(true).open_on(medium).unwrap().check().unwrap();
        assert!(report.damaged_twin.is_none() && report.is_clean(), "{report:?}");
    }
}
