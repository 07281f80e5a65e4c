//! Crab-tree, section 4.5: what copying (COW) and shifting in place (SIP) leave.
//!
//! The node is from Figures 5 and 6, with the keys 12, 21, 37, 45 and 61 and room for eight entries. The other keys are
//! ours, among them 17, which becomes the second key as in Figure 4a, and 73, which becomes the greatest as in Figure
//! 4c. A line holds four slots here, not two. The leaf on the left holds the keys 1 to 8.
//!
//! The first of the three scenarios of section 4.5 (no duplicate, and a count that is one off) cannot happen: a shift
//! is done when its last key is there, and there is nothing to count. The other two (a duplicate, with a count that
//! fits or does not) become one: the run is closed to the left, which undoes an insertion and finishes a deletion.

use super::{Scene, inserts, put, removals, three_full_leaves};
use crate::crash::history::Op;
use crate::node::{IndexKind, WordNode};
use crate::papers::{CowSip, crab};

/// Shifts, because a copy costs more in such small nodes.
type Sip = CowSip<8>;
/// Copies according to the approximate probe of section 5.2: in the lower half.
type Opt = CowSip<8, { crab::OPT }>;
/// Always copies, and records blocks that are taken or given back.
type Cow = CowSip<8, { crab::COPY_ONLY }>;
/// Shifts entries as pairs (section 5.3).
type Pairs = CowSip<8, { crab::PAIRS }>;

const LEFT: &str = "1 2 3 4 5 6 7 8";
const NODE: &str = "12a 21b 37c 45d 61e";

/// The node with its left neighbour; `more` is done before the operation.
fn after(more: impl IntoIterator<Item = Op>, cut: Op) -> Scene {
    Scene::new(inserts(LEFT).chain(inserts(NODE)).chain(more), cut)
}

/// The node after it was filled.
fn full(cut: Op) -> Scene {
    after(inserts("17f 73g 80h"), cut)
}

/// As [`Scene::leaves`], with the left neighbour unchanged.
fn leaves<N: WordNode>(scene: &Scene, rows: &[(&str, &str)]) {
    let rows: Vec<_> =
        rows.iter().map(|(seen, made)| (format!("{LEFT} | {seen}"), format!("{LEFT} | {made}"))).collect();
    scene.leaves::<N>(IndexKind::Volatile, &rows.iter().map(|(seen, made)| (&**seen, &**made)).collect::<Vec<_>>());
}

/// As [`Scene::needs_no_repair`], with the left neighbour unchanged, and the same under both models.
fn needs_no_repair<N: WordNode>(scene: &Scene, states: &[usize], seen: &[&str]) {
    let seen: Vec<String> = seen.iter().map(|seen| format!("{LEFT} | {seen}")).collect();
    let seen: Vec<&str> = seen.iter().map(|seen| &**seen).collect();
    scene.needs_no_repair::<N>(IndexKind::Volatile, states, states, &seen);
}

/// COW of an insertion (Figure 4b): before the pointer of the left sibling is stored, the original leaf is in the
/// chain, and after it the new one.
///
/// The states of the new leaf cannot be told apart, because nothing leads to it. Whichever of the two leaves is not in
/// the chain is a free block, so nothing leaks.
#[test]
fn copy_of_an_insertion() {
    let (old, new) = ("12a 21b 37c 45d 61e - - -", "12a 17f 21b 37c 45d 61e - -");
    needs_no_repair::<Opt>(&after([], put(17, 'f')), &[1, 2, 1], &[old, new]);
}

/// COW of an insertion where the addresses of the leaves involved are recorded, as in section 4.5: one more record
/// before the copy, and one after it. Which blocks are in use still follows from the chain.
#[test]
fn copy_of_an_insertion_with_notes() {
    let (old, new) = ("12a 21b 37c 45d 61e - - -", "12a 17f 21b 37c 45d 61e - -");
    needs_no_repair::<Cow>(&after([], put(17, 'f')), &[1, 1, 2, 1, 1], &[old, new]);
}

/// COW of the leftmost leaf: the pointer is the one in the root.
#[test]
fn copy_of_the_leftmost_leaf() {
    let scene = Scene::new(inserts(NODE), put(17, 'f'));
    let (old, new) = ("12a 21b 37c 45d 61e - - -", "12a 17f 21b 37c 45d 61e - -");
    scene.needs_no_repair::<Opt>(IndexKind::Volatile, &[1, 2, 1], &[1, 2, 1], &[old, new]);
}

/// COW of a deletion (section 4.4).
#[test]
fn copy_of_a_deletion() {
    let (old, new) = ("12a 21b 37c 45d 61e - - -", "12a 37c 45d 61e - - - -");
    needs_no_repair::<Opt>(&after([], Op::Remove(21)), &[1, 2, 1], &[old, new]);
}

/// COW under an index in the pool, which names the new leaf before the leaf is in the chain. A crash in between is one
/// more state, and recovery repoints the entry to the original leaf. (Crab-tree's index is in DRAM, and is rebuilt.)
#[test]
fn copy_under_an_index_in_the_pool() {
    let old = "[0 12] 1 2 3 4 5 6 7 8 | 12a 21b 37c 45d 61e - - -";
    let new = "[0 12] 1 2 3 4 5 6 7 8 | 12a 17f 21b 37c 45d 61e - -";
    let states = [2, 2, 1];
    after([], put(17, 'f')).needs_no_repair::<Opt>(IndexKind::Persistent, &states, &states, &[old, new]);
}

/// SIP of an insertion, second scenario: values are stored before their keys (Figure 6a shows the first two stores),
/// and what a crash leaves is rolled back by a shift to the left.
#[test]
fn shift_of_an_insertion() {
    let old = "12a 21b 37c 45d 61e -e - -";
    let rows = [
        ("12a 21b 37c 45d 61e - - -", "12a 21b 37c 45d 61e - - -"),
        (old, old),
        ("12a 21b 37c 45d 61e 61e - -", old),
        ("12a 21b 37c 45d 61d 61e - -", old),
        ("12a 21b 37c 45d 45d 61e - -", old),
        ("12a 21b 37c 45c 45d 61e - -", old),
        ("12a 21b 37c 37c 45d 61e - -", old),
        ("12a 21b 37b 37c 45d 61e - -", old),
        ("12a 21b 21b 37c 45d 61e - -", old),
        ("12a 21f 21b 37c 45d 61e - -", old),
        // The first scenario: everything is there, and there is nothing to count.
        ("12a 17f 21b 37c 45d 61e - -", "12a 17f 21b 37c 45d 61e - -"),
    ];
    leaves::<Sip>(&after([], put(17, 'f')), &rows);
    // A medium on which pairs tear: pairs are stored word by word.
    leaves::<Pairs>(&after([], put(17, 'f')), &rows);
}

/// SIP of an insertion of the greatest key (Figure 4c): nothing is shifted. It is SIP whatever the options are.
#[test]
fn shift_of_an_insertion_at_the_end() {
    let rows = [
        ("12a 17f 21b 37c 45d 61e - -", "12a 17f 21b 37c 45d 61e - -"),
        ("12a 17f 21b 37c 45d 61e -g -", "12a 17f 21b 37c 45d 61e -g -"),
        ("12a 17f 21b 37c 45d 61e 73g -", "12a 17f 21b 37c 45d 61e 73g -"),
    ];
    leaves::<Sip>(&after([put(17, 'f')], put(73, 'g')), &rows);
    leaves::<Opt>(&after([put(17, 'f')], put(73, 'g')), &rows);
}

/// SIP of a deletion, third scenario: rolled forward by a shift to the left. The greatest key is removed by one store.
#[test]
fn shift_of_a_deletion() {
    let new = "12a 37c 45d 61e -e - - -";
    leaves::<Sip>(
        &after([], Op::Remove(21)),
        &[
            ("12a 21b 37c 45d 61e - - -", "12a 21b 37c 45d 61e - - -"),
            ("12a 37b 37c 45d 61e - - -", new),
            ("12a 37c 37c 45d 61e - - -", new),
            ("12a 37c 45c 45d 61e - - -", new),
            ("12a 37c 45d 45d 61e - - -", new),
            ("12a 37c 45d 61d 61e - - -", new),
            ("12a 37c 45d 61e 61e - - -", new),
            (new, new),
        ],
    );
    let (old, new) = ("12a 21b 37c 45d 61e - - -", "12a 21b 37c 45d -e - - -");
    leaves::<Sip>(&after([], Op::Remove(61)), &[(old, old), (new, new)]);
}

/// SIP of an insertion and of a deletion by stores of 16 bytes (section 5.3, Figure 6b), where a crash leaves pairs
/// whole: one state for each store, and no value beside a wrong key.
#[test]
fn shifts_by_pairs() {
    let whole = |cut| Scene { whole_pairs: true, ..after([], cut) };
    let old = "12a 21b 37c 45d 61e -e - -";
    leaves::<Pairs>(
        &whole(put(17, 'f')),
        &[
            ("12a 21b 37c 45d 61e - - -", "12a 21b 37c 45d 61e - - -"),
            ("12a 21b 37c 45d 61e 61e - -", old),
            ("12a 21b 37c 45d 45d 61e - -", old),
            ("12a 21b 37c 37c 45d 61e - -", old),
            ("12a 21b 21b 37c 45d 61e - -", old),
            ("12a 17f 21b 37c 45d 61e - -", "12a 17f 21b 37c 45d 61e - -"),
        ],
    );
    let new = "12a 37c 45d 61e -e - - -";
    leaves::<Pairs>(
        &whole(Op::Remove(21)),
        &[
            ("12a 21b 37c 45d 61e - - -", "12a 21b 37c 45d 61e - - -"),
            ("12a 37c 37c 45d 61e - - -", new),
            ("12a 37c 45d 45d 61e - - -", new),
            ("12a 37c 45d 61e 61e - - -", new),
            (new, new),
        ],
    );
}

/// A split whose new entry joins the greater half: one new leaf, and the original leaf's pointer commits.
#[test]
fn split_with_one_new_leaf() {
    let old = "12a 17f 21b 37c 45d 61e 73g 80h";
    let new = "12a 17f 21b 37c (45d) (61e) (73g) (80h) | 45d 61e 67i 73g 80h - - -";
    needs_no_repair::<Opt>(&full(put(67, 'i')), &[1, 2, 1], &[old, new]);
}

/// A split by COW whose new entry joins the smaller half: two new leaves, and the left sibling's pointer commits.
#[test]
fn split_with_two_new_leaves() {
    let old = "12a 17f 21b 37c 45d 61e 73g 80h";
    let new = "12a 15i 17f 21b - - - - | 37c 45d 61e 73g 80h - - -";
    needs_no_repair::<Opt>(&full(put(15, 'i')), &[1, 2, 1], &[old, new]);
}

/// A split by SIP whose new entry joins the smaller half: first the split, which changes no entry, then the shift,
/// which overwrites what the split left behind.
#[test]
fn split_and_then_a_shift() {
    let right = "45d 61e 73g 80h - - - -";
    let full_leaf = "12a 17f 21b 37c 45d 61e 73g 80h".to_owned();
    let left = |slots: &str, rest: &str| format!("{slots} {rest} | {right}");
    let copies = "(61e) (73g) (80h)";
    let undone = left("12a 17f 21b 37c -c", copies);
    let mut rows = vec![(full_leaf.clone(), full_leaf)];
    for slots in ["12a 17f 21b 37c (45d)", "12a 17f 21b 37c (45c)", "12a 15i 17f 21b 37c"] {
        rows.push((left(slots, copies), left(slots, copies)));
    }
    for slots in [
        "12a 17f 21b 37c 37c",
        "12a 17f 21b 37b 37c",
        "12a 17f 21b 21b 37c",
        "12a 17f 21f 21b 37c",
        "12a 17f 17f 21b 37c",
        "12a 17i 17f 21b 37c",
    ] {
        rows.push((left(slots, copies), undone.clone()));
    }
    leaves::<Sip>(&full(put(15, 'i')), &rows.iter().map(|(seen, made)| (&**seen, &**made)).collect::<Vec<_>>());
}

/// A merge into the left sibling: the copies are there, outside its range, before its pointer makes them its own.
#[test]
fn merge() {
    let scene = after(removals([8, 7, 6, 5, 61, 45]), Op::Remove(37));
    scene.needs_no_repair::<Sip>(
        IndexKind::Volatile,
        &[2, 5, 2, 1, 1],
        &[2, 16, 2, 1, 1],
        &[
            "1 2 3 4 - - - - | 12a 21b 37c -d -e - - -",
            "1 2 3 4 - - - - | 12a 21b -c -d -e - - -",
            "1 2 3 4 (12a) (21b) - - | 12a 21b -c -d -e - - -",
            "1 2 3 4 12a 21b - -",
        ],
    );
}

/// A redistribution from the left sibling: Crab-tree shifts entries into the leaf; here a new leaf takes its place,
/// because no leaf's range grows to the left.
#[test]
fn redistribution_from_the_left() {
    let states = [2, 1, 1, 2, 1, 1];
    after(removals([61, 45]), Op::Remove(37)).needs_no_repair::<Sip>(
        IndexKind::Volatile,
        &states,
        &states,
        &[
            "1 2 3 4 5 6 7 8 | 12a 21b 37c -d -e - - -",
            "1 2 3 4 5 6 7 8 | 12a 21b -c -d -e - - -",
            "1 2 3 4 5 (6) (7) (8) | 6 7 8 12a 21b - - -",
        ],
    );
}

/// A redistribution from the right sibling: entries that move to the left are copied behind the leaf's own entries, and
/// entries that stay are in a new leaf. One pointer moves the border between the two.
#[test]
fn redistribution_from_the_right() {
    let scene = after(inserts("17f 73g 80h").chain(removals([8, 7, 6, 5, 4])), Op::Remove(3));
    scene.needs_no_repair::<Sip>(
        IndexKind::Volatile,
        &[2, 1, 15, 2, 1, 1],
        &[2, 1, 64, 2, 1, 1],
        &[
            "1 2 3 - - - - - | 12a 17f 21b 37c 45d 61e 73g 80h",
            "1 2 - - - - - - | 12a 17f 21b 37c 45d 61e 73g 80h",
            "1 2 (12a) (17f) (21b) - - - | 12a 17f 21b 37c 45d 61e 73g 80h",
            "1 2 12a 17f 21b - - - | 37c 45d 61e 73g 80h - - -",
        ],
    );
}

/// Merge and redistribution as printed: a leaf that is less than half full, and whose neighbours have no room, takes
/// entries from both, in two changes of the chain.
#[test]
fn taking_from_both_neighbours() {
    let scene = Scene::new(three_full_leaves().chain(removals(11..=14)), Op::Remove(15));
    scene.leads_through::<CowSip<8, { crab::PRINTED }>>(&[
        "1 2 3 4 5 6 7 8 | 15 16 17 18 | 21 22 23 24 25 26 27 28",
        "1 2 3 4 5 6 7 8 | 16 17 18 | 21 22 23 24 25 26 27 28",
        "1 2 3 4 5 6 7 8 | 16 17 18 21 | 22 23 24 25 26 27 28",
        "1 2 3 4 5 6 7 | 8 16 17 18 21 | 22 23 24 25 26 27 28",
    ]);
}
