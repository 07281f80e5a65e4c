//! Circ-Tree, section 5.5: cases 1a, 1b, 2, 3a and 3b.
//!
//! The node is from Figures 1, 2 and 4, with room for eight entries. The paper's text has the keys 8, 15, 22, 32, 57
//! and 96; the others are ours. A line holds four slots here, not two.

use super::{Scene, inserts, put, removals, three_full_leaves};
use crate::crash::history::Op;
use crate::medium::Model;
use crate::node::IndexKind;
use crate::papers::{Circular, CircularPrinted};

type Ring = Circular<8>;

/// Figure 1a.
const NODE: &str = "8a 32b 57c 71d 96e";
/// Figure 2: the same node after 15 was inserted and 8 was removed.
const LATER: &str = "15f 32b 57c 71d 96e";

/// A node whose run starts at slot `base`, because the smaller keys before it were removed.
fn ring(base: u64, entries: &str) -> impl Iterator<Item = Op> {
    (1..=base).map(|key| Op::Insert(key, 0)).chain(inserts(entries)).chain(removals(1..=base))
}

/// The full node that Figure 5 splits: the first node after the insertions of Figures 1 and 4, and one more.
fn full() -> impl Iterator<Item = Op> {
    inserts(NODE).chain(inserts("15f 22g 64h"))
}

/// Cases 1a and 1b, to the left, around the end of the array (Figure 1d).
///
/// Circ-Tree recognises case 1a by a value left of the base location. Here the equal pair lies in the smaller half, so
/// the outer one counts, and the run is shifted back to the right. Case 1b, a shift that is done but not counted,
/// cannot happen: the new key alone makes the entry count.
#[test]
fn cases_1a_and_1b_to_the_left_around_the_end() {
    Scene::new(inserts(NODE), put(15, 'f')).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("8a 32b 57c 71d 96e - - -", "8a 32b 57c 71d 96e - - -"),
            ("8a 32b 57c 71d 96e - - -a", "8a 32b 57c 71d 96e - - -a"),
            // 1a: 8 is there twice; in the second state it already has the value of 15.
            ("8a 32b 57c 71d 96e - - 8a", "8a 32b 57c 71d 96e - - -a"),
            ("8f 32b 57c 71d 96e - - 8a", "8a 32b 57c 71d 96e - - -a"),
            // 1b.
            ("15f 32b 57c 71d 96e - - 8a", "15f 32b 57c 71d 96e - - 8a"),
        ],
    );
}

/// Cases 1a and 1b, to the left, within a line (Figure 4).
#[test]
fn cases_1a_and_1b_to_the_left() {
    Scene::new(ring(2, LATER), put(22, 'g')).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("- - 15f 32b 57c 71d 96e -", "- - 15f 32b 57c 71d 96e -"),
            ("- -f 15f 32b 57c 71d 96e -", "- -f 15f 32b 57c 71d 96e -"),
            // 1a: Figure 4b, and then the value of step 3.
            ("- 15f 15f 32b 57c 71d 96e -", "- -f 15f 32b 57c 71d 96e -"),
            ("- 15f 15g 32b 57c 71d 96e -", "- -f 15f 32b 57c 71d 96e -"),
            // 1b: Figure 4c before step 5.
            ("- 15f 22g 32b 57c 71d 96e -", "- 15f 22g 32b 57c 71d 96e -"),
        ],
    );
}

/// Case 1a to the left with two entries to move: the pair lies where the shift was interrupted, and all of it goes
/// back.
#[test]
fn case_1a_to_the_left_by_two() {
    let old = "- - -f 15f 22g 57c 71d 96e";
    Scene::new(ring(3, "15f 22g 57c 71d 96e"), put(32, 'b')).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("- - - 15f 22g 57c 71d 96e", "- - - 15f 22g 57c 71d 96e"),
            (old, old),
            ("- - 15f 15f 22g 57c 71d 96e", old),
            ("- - 15f 15g 22g 57c 71d 96e", old),
            ("- - 15f 22g 22g 57c 71d 96e", old),
            ("- - 15f 22g 22b 57c 71d 96e", old),
            ("- - 15f 22g 32b 57c 71d 96e", "- - 15f 22g 32b 57c 71d 96e"),
        ],
    );
}

/// Cases 1a and 1b to the right: "otherwise, Circ-Tree shifts KV pairs to the left".
#[test]
fn cases_1a_and_1b_to_the_right() {
    let old = "8a 32b 57c 71d 96e -e - -";
    Scene::new(inserts(NODE), put(64, 'h')).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("8a 32b 57c 71d 96e - - -", "8a 32b 57c 71d 96e - - -"),
            (old, old),
            ("8a 32b 57c 71d 96e 96e - -", old),
            ("8a 32b 57c 71d 96d 96e - -", old),
            ("8a 32b 57c 71d 71d 96e - -", old),
            ("8a 32b 57c 71h 71d 96e - -", old),
            ("8a 32b 57c 64h 71d 96e - -", "8a 32b 57c 64h 71d 96e - -"),
        ],
    );
}

/// Cases 1a and 1b to the right, around the end of the array.
#[test]
fn cases_1a_and_1b_to_the_right_around_the_end() {
    let old = "-e - - 15f 32b 57c 71d 96e";
    Scene::new(ring(3, LATER), put(64, 'h')).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("- - - 15f 32b 57c 71d 96e", "- - - 15f 32b 57c 71d 96e"),
            (old, old),
            ("96e - - 15f 32b 57c 71d 96e", old),
            ("96e - - 15f 32b 57c 71d 96d", old),
            ("96e - - 15f 32b 57c 71d 71d", old),
            ("96e - - 15f 32b 57c 71h 71d", old),
            ("96e - - 15f 32b 57c 64h 71d", "96e - - 15f 32b 57c 64h 71d"),
        ],
    );
}

/// Case 2, the smallest or the greatest key: it takes one store, so a crash comes before or after it (Figure 1e).
#[test]
fn case_2_at_either_end() {
    let of_figure = inserts(NODE).chain(inserts("15f"));
    let (old, new) = ("15f 32b 57c 71d 96e - - 8a", "15f 32b 57c 71d 96e - - -a");
    Scene::new(of_figure, Op::Remove(8)).leaves::<Ring>(IndexKind::Volatile, &[(old, old), (new, new)]);
    let (old, new) = ("8a 32b 57c 71d 96e - - -", "8a 32b 57c 71d -e - - -");
    Scene::new(inserts(NODE), Op::Remove(96)).leaves::<Ring>(IndexKind::Volatile, &[(old, old), (new, new)]);
}

/// Case 2, a key of the smaller half: the entries before it come from the left, here around the end of the array.
///
/// There is no count that could be one too great. The first store overwrites the removed key, so recovery can only go
/// on.
#[test]
fn case_2_from_the_left() {
    let new = "8a 32b 57c 71d 96e - - -a";
    Scene::new(inserts(NODE).chain(inserts("15f")), Op::Remove(15)).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("15f 32b 57c 71d 96e - - 8a", "15f 32b 57c 71d 96e - - 8a"),
            ("8f 32b 57c 71d 96e - - 8a", new),
            ("8a 32b 57c 71d 96e - - 8a", new),
            (new, new),
        ],
    );
    let new = "- - -f 15f 22g 57c 71d 96e";
    Scene::new(ring(3, "15f 22g 57c 71d 96e").chain(inserts("32b")), Op::Remove(32)).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("- - 15f 22g 32b 57c 71d 96e", "- - 15f 22g 32b 57c 71d 96e"),
            ("- - 15f 22g 22b 57c 71d 96e", new),
            ("- - 15f 22g 22g 57c 71d 96e", new),
            ("- - 15f 15g 22g 57c 71d 96e", new),
            ("- - 15f 15f 22g 57c 71d 96e", new),
            (new, new),
        ],
    );
}

/// Case 2, a key of the greater half: the entries behind it come from the right; then around the end of the array.
#[test]
fn case_2_from_the_right() {
    let new = "8a 32b 57c 71d 96e -e - -";
    Scene::new(inserts(NODE).chain(inserts("64h")), Op::Remove(64)).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("8a 32b 57c 64h 71d 96e - -", "8a 32b 57c 64h 71d 96e - -"),
            ("8a 32b 57c 71h 71d 96e - -", new),
            ("8a 32b 57c 71d 71d 96e - -", new),
            ("8a 32b 57c 71d 96d 96e - -", new),
            ("8a 32b 57c 71d 96e 96e - -", new),
            (new, new),
        ],
    );
    let new = "-e - - 15f 32b 57c 71d 96e";
    Scene::new(ring(3, LATER).chain(inserts("64h")), Op::Remove(64)).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            ("96e - - 15f 32b 57c 64h 71d", "96e - - 15f 32b 57c 64h 71d"),
            ("96e - - 15f 32b 57c 71h 71d", new),
            ("96e - - 15f 32b 57c 71d 71d", new),
            ("96e - - 15f 32b 57c 71d 96d", new),
            ("96e - - 15f 32b 57c 71d 96e", new),
            (new, new),
        ],
    );
}

/// Cases 1 and 2 look alike, so nothing is lost without the count that would tell them apart: an insertion of 15 that
/// has made room and a removal of 15 that has closed the gap leave the same state, and recovery treats it in the same
/// way.
#[test]
fn an_insertion_and_a_removal_meet() {
    let states = |more: &str, op| {
        Scene::new(inserts(NODE).chain(inserts(more)), op).tell::<Ring>(IndexKind::Volatile, Model::Weak).rows
    };
    let (inserted, removed) = (states("", put(15, 'f')), states("15f", Op::Remove(15)));
    assert_eq!((inserted.len(), removed.len()), (5, 4));
    assert!(removed.iter().all(|state| inserted.contains(state)), "{removed:#?}");
}

const FULL: &str = "22g 32b 57c 64h 71d 96e 8a 15f";
const SPLIT: &str = "22g 32b (57c) (64h) (71d) (96e) 8a 15f | 57c 64h 71d 80i 96e - - -";

/// Case 3 of a split whose new entry joins the greater half (Figure 5).
///
/// Between the store of the sibling pointer and the clearing of what was copied (both are step 4), Circ-Tree has
/// entries twice, and recovery removes one copy. Here that store takes the range away from the left leaf: its copies
/// are empty slots by N2, and stay. Before that store, nothing leads to the new leaf.
#[test]
fn case_3b_of_a_split() {
    Scene::new(full(), put(80, 'i')).needs_no_repair::<Ring>(
        IndexKind::Volatile,
        &[1, 2, 1],
        &[1, 2, 1],
        &[FULL, SPLIT],
    );
}

/// Case 3 of a split whose new entry joins the smaller half: the entry is inserted after the leaf is split. A crash in
/// between leaves the old entries, in two leaves; a crash during the insertion is case 1a, with copies of the split in
/// its way.
#[test]
fn case_3b_of_a_split_with_case_1a() {
    let split = "22g 32b (57c) (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -";
    let undone = "22g 32b -b (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -";
    let unseen = "22g 32b (57b) (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -";
    let done = "20j 22g 32b (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -";
    Scene::new(full(), put(20, 'j')).leaves::<Ring>(
        IndexKind::Volatile,
        &[
            (FULL, FULL),
            (split, split),
            (unseen, unseen),
            ("22g 32b 32b (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -", undone),
            ("22g 32g 32b (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -", undone),
            ("22g 22g 32b (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -", undone),
            ("22j 22g 32b (64h) (71d) (96e) 8a 15f | 57c 64h 71d 96e - - - -", undone),
            (done, done),
        ],
    );
}

/// A leaf before the one of the figures, so that the index in the pool has a node.
const BEFORE: &str = "0 1 2 3 4 5 6 7";

/// Case 3a of a split: both leaves are as they must be, and their parent does not list the new one yet. Recovery "can
/// proceed and complete the split": the new leaf is posted to the parent.
#[test]
fn case_3a_of_a_split() {
    let whole = |listed: &str, leaves: &str| format!("[{listed}] {BEFORE} | {leaves}");
    let (old, unlisted, new) = (whole("0 8", FULL), whole("0 8", SPLIT), whole("0 8 57", SPLIT));
    Scene::new(inserts(BEFORE).chain(full()), put(80, 'i'))
        .leaves::<Ring>(IndexKind::Persistent, &[(&old, &old), (&unlisted, &new), (&new, &new)]);
}

/// Case 3 of a merge of an underutilized leaf with its right sibling.
///
/// Circ-Tree copies to the right, and then sets a count to zero. Here the left leaf takes in the right one, because the
/// pointer to the right leaf is what commits. Entries are there twice before the commit (case 3a: the copies lie
/// outside the range of the left leaf) and after it (case 3b: the right leaf is no longer in the chain).
#[test]
fn cases_3a_and_3b_of_a_merge() {
    let before = full().chain([put(80, 'i')]).chain(removals([64, 80, 8]));
    Scene::new(before, Op::Remove(15)).needs_no_repair::<Ring>(
        IndexKind::Volatile,
        &[2, 12, 2, 1],
        &[2, 32, 2, 1],
        &[
            "22g 32b (57c) (64h) (71d) (96e) -a 15f | -c 57c 71d 96e -e - - -",
            "22g 32b (57c) (64h) (71d) (96e) -a -f | -c 57c 71d 96e -e - - -",
            "22g 32b (57c) (71d) (96e) -e -a -f | -c 57c 71d 96e -e - - -",
            "22g 32b 57c 71d 96e -e -a -f",
        ],
    );
}

/// Keys that a split left in the left leaf would come back with the range when the right leaf is merged in: 64, 71 and
/// 96 were removed since. So these slots are emptied before the merge commits; Circ-Tree empties them when it splits.
#[test]
fn what_a_split_left_behind_does_not_come_back() {
    let before = full().chain([put(80, 'i')]).chain(removals([64, 71]));
    Scene::new(before, Op::Remove(96)).needs_no_repair::<Ring>(
        IndexKind::Volatile,
        &[2, 9, 2, 1],
        &[2, 16, 2, 1],
        &[
            "22g 32b (57c) (64h) (71d) (96e) 8a 15f | -c -c 57c 80i 96e - - -",
            "22g 32b (57c) (64h) (71d) (96e) 8a 15f | -c -c 57c 80i -e - - -",
            "22g 32b (57c) (80i) -d -e 8a 15f | -c -c 57c 80i -e - - -",
            "22g 32b 57c 80i -d -e 8a 15f",
        ],
    );
}

/// Case 3 of a merge, and the parent: in Circ-Tree it may list one leaf too many. Here a leaf is withdrawn from the
/// parent before the merge, so the parent may list one too few; recovery posts the leaf again, unless the merge is
/// done.
#[test]
fn case_3_of_a_merge_and_the_parent() {
    let before = || inserts(BEFORE).chain(full()).chain([put(80, 'i')]).chain(removals([64, 71]));
    for model in [Model::Tso, Model::Weak] {
        let rows = Scene::new(before(), Op::Remove(96)).tell::<Ring>(IndexKind::Persistent, model).rows;
        let withdrawn = |seen: &str, leaves| seen.starts_with("[0 8] ") && seen.split('|').count() == leaves;
        assert!(rows.iter().any(|(seen, _)| withdrawn(seen, 3)), "{rows:#?}");
        assert!(rows.iter().any(|(seen, _)| withdrawn(seen, 2)), "{rows:#?}");
        for (seen, made) in rows {
            let listed = if seen.split('|').count() == 3 { "[0 8 57]" } else { "[0 8]" };
            let leaves = &seen[seen.find(']').unwrap() + 1..];
            assert_eq!(made, format!("{listed}{leaves}"), "{seen}");
        }
    }
}

/// Merging as printed: a node that is less than half full merges with its right neighbour. The last one has none, and
/// stays.
#[test]
fn merging_with_the_right_neighbour_only() {
    let scene = Scene::new(three_full_leaves().chain(removals(21..=26)).chain(removals(11..=14)), Op::Remove(15));
    scene.leads_through::<CircularPrinted<8>>(&[
        "1 2 3 4 5 6 7 8 | 15 16 17 18 | 27 28",
        "1 2 3 4 5 6 7 8 | 16 17 18 | 27 28",
        // In the ring, the run goes on at the start.
        "1 2 3 4 5 6 7 8 | 27 28 16 17 18",
    ]);
}
