//! The audit of persist steps: what the checker finds when the orders, flushes or fences of a step are left out.
//!
//! Each test takes one kind of tree, and must find every bug that is planted in it, except those for which a reason is
//! given. `the_audit_is_that_of_the_code` takes all kinds under both memory models, and compares with
//! `docs/persist-audit.md`; `BRISTLECONE_WRITE=1` writes the page. `BRISTLECONE_PART=2/4` takes the second of every
//! four kinds.

#[path = "../trees/clean.rs"]
mod clean;

use bristlecone::crash::{
    Campaign, Checkable, Control, ControlKind, History, Part, Two, Values, compacting, compacting_inner,
};
use bristlecone::medium::{Model, Step};
use bristlecone::papers::{
    Append, Circular, CircularPrinted, CowSip, Fingerprint, Fixed, Linear, Logged, Versioned, VersionedInner, crab,
};
use bristlecone::{ByteLeaf, IndexKind, OneLine};
use clean::clean;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// States per crash point: most bugs show in the first states, and harmless ones leave very many states.
const LIMIT: usize = 64;

/// Short histories that pass the persist steps of leaves with these numbers of entries: at every position of leaves
/// with 8 slots, which take two lines.
fn short_histories(sizes: &[u64]) -> Vec<String> {
    let mut histories = vec![String::new(), "load5".to_owned(), "load40".to_owned(), "reopen".to_owned()];
    for &n in sizes {
        for down in [false, true] {
            let fill = fill(n, down).join(" ");
            let inserts = (0..=n).map(|i| format!("i{}=7", 2 * i + 1));
            let others = (1..=n).flat_map(|i| [format!("i{}=9", 2 * i), format!("r{}", 2 * i)]);
            let rest = [
                "clear",
                "reopen",
                "reopen i1=7",
                "reopen r2",
                "r2 reopen i3=1",
                "reopen i1=7 reopen",
                "i2=9 r2 reopen",
                "drop",
                "anew",
            ]
            .map(str::to_owned);
            histories.extend(inserts.chain(others).chain(rest).map(|last| format!("{fill} {last}")));
        }
    }
    histories
}

fn fill(n: u64, down: bool) -> Vec<String> {
    let keys = (1..=n).map(|i| if down { 2 * (n + 1 - i) } else { 2 * i });
    keys.map(|key| format!("i{key}={}", key % 3)).collect()
}

/// A history that opens a pool after the machine went down.
const POWER_LOSS: &str = "i2=2 powerloss";

/// Histories with so many trees that their root entries need a segment: in all but the first, one that held nodes
/// before. The others have an index in memory.
fn many_trees() -> Vec<String> {
    let full = fill(64, false).join(" ");
    let used_before = format!("{full} others15 drop others16");
    vec!["others16".to_owned(), format!("{used_before} reopen"), used_before]
}

/// Processes that are killed, after up to so many events, in an insert that shifts or splits a leaf of this many slots;
/// the next process goes on.
fn kills(slots: u64, most: u64) -> Vec<String> {
    let mut histories = Vec::new();
    for n in [slots - 1, slots] {
        let fill = fill(n, false).join(" ");
        for events in 1..=most {
            histories.push(format!("{fill} i{}=7 kill{events} i{}=5", 2 * n + 1, 2 * n + 3));
            let next = [String::new(), " i5=5".to_owned(), " r4".to_owned(), format!(" r{}", 2 * n)];
            histories.extend(next.map(|next| format!("{fill} i3=7 kill{events}{next}")));
        }
    }
    histories
}

/// Histories that pass every persist step.
fn telling_histories() -> Vec<String> {
    let mut histories = short_histories(&[1, 3, 6, 7, 8, 9, 14]);
    histories.push(POWER_LOSS.to_owned());
    histories.extend(kills(8, 24));
    histories.extend((0..20).map(|i| format!("i2=2 anew kill{} anew", 1 + 50 * i)));
    histories.extend([2, 7, 12].map(|n| format!("{} batch{n}", fill(6, false).join(" "))));
    // Sixty-four keys, reduced to a few, and grown again: levels of the index are added and removed, and blocks are
    // reused as others.
    for kept in [1, 5] {
        let mut ops = fill(64, false);
        for key in (1..=64).filter(|i| i % (64 / kept) != 0) {
            ops.push(format!("r{}", 2 * key));
            histories.push(ops.join(" "));
        }
        for i in 0..60 {
            ops.push(format!("i{}=5", 2 * i + 1));
            histories.push(ops.join(" "));
        }
        ops.push("clear".to_owned());
        histories.push(ops.join(" "));
    }
    histories
}

/// A smaller set, for leaves of four to eight entries.
fn brief_histories() -> Vec<String> {
    let mut histories = short_histories(&[1, 4, 8]);
    histories.extend(kills(4, 12));
    histories.push(format!("{} batch3", fill(3, false).join(" ")));
    let mut ops = fill(20, false);
    for key in (1..=20).filter(|i| i % 7 != 0) {
        ops.push(format!("r{}", 2 * key));
        histories.push(ops.join(" "));
    }
    for i in 0..20 {
        ops.push(format!("i{}=5", 2 * i + 1));
        histories.push(ops.join(" "));
    }
    histories
}

/// Splits in the middle of a leaf of four byte strings. Then what has moved is removed, and its record may be used
/// again: a slot that was left behind must not come back.
fn moved_and_removed() -> Vec<String> {
    let splits = ["i2=1 i4=2 i6=0 i8=1 i7=2", "i2=1 i4=2 i6=0 i8=1 i5=2", "i2=1 i4=2 i6=0 i8=1 i3=2"];
    let ends = ["r8", "r8 i20=5", "r8 i1=5", "r6 r8", "i8=3", "i8=3 i1=4"];
    splits.iter().flat_map(|split| ends.map(|end| format!("{split} {end}"))).collect()
}

/// Changes of two trees at once, with lists of all lengths, splits, and processes that are killed in them: also while
/// the first one of a session changes the superblock.
fn together() -> Vec<String> {
    let mut histories = Vec::new();
    for n in [0, 1, 3, 7, 8] {
        let fill = fill(n, false).join(" ");
        let ends =
            ["together1", "together2", "together9", "together1 together2", "together2 i3=9", "together1 r3 together1"];
        histories.extend(ends.map(|end| format!("{fill} {end}")));
    }
    // So many words that their extent has several segments, which are free when the list is retired.
    histories.push("together22".to_owned());
    for (writes, events) in (1..=130).map(|events| (2, events)).chain((40..240).step_by(3).map(|events| (9, events))) {
        histories
            .extend(["", " i3=5", " together1"].map(|end| format!("i2=1 i4=2 together{writes} kill{events}{end}")));
    }
    histories
}

/// A bug that need not be found, and why.
type Needless = (ControlKind, Step, &'static str);

const OTHER_THREADS: &str = "for other threads: their fences do not wait for this thread's flush";
const SPEED: &str = "for speed: what is not whole is found out, and the leaves are walked as after a crash";
const IN_TWINS: &str =
    "for a process that is killed right when it has stored the second twin, which it is not in these histories";
const NEXT_RECORD: &str =
    "the next close record is put where the last one was, and the entry of the segment is flushed by then";
const BEHIND_THE_END: &str = "of an extent whose assignment was cut, a segment of zeros that nothing names may be its tree's until the next walk";
const CARRIED: &str = "for a pool that was carried to persistent memory: the close records of these histories are of the bytes that are there";
const COST: &str = "for its cost alone, as in the paper: in use is what the chain reaches";
const BEHIND: &str = "for its cost alone, as in the paper: a count that is one change behind, or ahead, is stored anew";
const ONE_LINE: &str =
    "link and bitmap are in one line, and are written back once more when the bits of what moved are cleared";
const PRINTED: &str = "for its cost alone, as in the paper: the bit is in the same line, and comes later";
const REPOINTED: &str = "an open after a crash repoints each entry of the index that does not name the leaf of its key";
const SHORTER: &str =
    "the next walk counts the blocks of the end as free, and an orderly close flushes an entry of the same line";
const CUT: &str = "what is cut off is free, whatever its entry says";
const NEXT_FENCE: &str = "as printed, another fence comes before the bit";

/// The bugs that need not be found in a tree of any kind.
const OF_ALL: &[Needless] = &[
    (ControlKind::Fence, Step::SegmentAssign, OTHER_THREADS),
    (ControlKind::Fence, Step::IndexRoot, OTHER_THREADS),
    (ControlKind::Flush, Step::CloseRecord, SPEED),
    (ControlKind::Fence, Step::CloseRecord, SPEED),
    (ControlKind::Flush, Step::RootClose, SPEED),
    (ControlKind::Fence, Step::DistrustCloses, CARRIED),
    (ControlKind::Fence, Step::TakeOver, IN_TWINS),
];

/// The bugs that need not be found in a tree whose index is persistent: an open frees its close record.
const OF_PERSISTENT: &[Needless] = &[(ControlKind::Flush, Step::SegmentRelease, NEXT_RECORD)];

/// The bugs that need not be found in what is moved out of sparse segments, and in pools whose end is cut off.
const OF_COMPACTED: &[Needless] = &[
    (ControlKind::Flush, Step::SegmentShorten, SHORTER),
    (ControlKind::Fence, Step::SegmentShorten, SHORTER),
    (ControlKind::Order, Step::SegmentCut, CUT),
    (ControlKind::Flush, Step::SegmentCut, CUT),
    (ControlKind::Fence, Step::SegmentCut, CUT),
];

/// The bugs that need not be found in a tree with records.
const OF_RECORDS: &[Needless] = &[(ControlKind::Order, Step::SegmentAssign, BEHIND_THE_END)];

/// The bugs that need not be found in a tree whose leaves have bitmaps.
const OF_BITMAPS: &[Needless] = &[
    (ControlKind::Flush, Step::Link, ONE_LINE),
    (ControlKind::Fence, Step::Link, ONE_LINE),
    (ControlKind::Fence, Step::JoinPrefill, ONE_LINE),
    (ControlKind::Fence, Step::ShareFill, ONE_LINE),
];

/// The bugs that need not be found in an insert with three flushes.
const OF_THREE_FLUSHES: &[Needless] = &[
    (ControlKind::Fence, Step::BitmapSlot, NEXT_FENCE),
    (ControlKind::Flush, Step::BitmapPrint, PRINTED),
    (ControlKind::Fence, Step::BitmapPrint, PRINTED),
];

/// A kind of tree in which bugs are planted.
struct Tree {
    name: &'static str,
    /// Plants every bug, one at a time.
    plant: fn(Model) -> Vec<Control>,
    needless: &'static [&'static [Needless]],
}

/// Plants bugs in all steps of these histories.
fn everywhere<N: Checkable>(index: IndexKind, model: Model, values: Values, histories: &[String]) -> Vec<Control> {
    let mut campaign = Campaign::new(model);
    (campaign.index, campaign.values, campaign.depth) = (index, values, 0);
    planted::<N>(campaign, histories)
}

/// Plants bugs in the steps of a layout, in changes of chains, and, with a depth of 1, in steps that only recoveries
/// pass. The other steps are common to all layouts, and their bugs are found with other trees.
fn in_layout<N: Checkable>(model: Model, depth: u32) -> Vec<Control> {
    in_layout_after::<N>(model, depth, &brief_histories())
}

/// Plants bugs in the steps of inner nodes of versioned entries.
fn in_versioned_inner_nodes(model: Model) -> Vec<Control> {
    let mut campaign = Campaign::new(model);
    (campaign.index, campaign.depth) = (IndexKind::Persistent, 0);
    campaign.steps = Step::ALL.iter().copied().filter(|step| step.protocol().starts_with("Versioned")).collect();
    let mut histories = brief_histories();
    // Keys that descend split inner nodes in the middle.
    histories.push(fill(24, true).join(" "));
    // The change after a split shifts entries over those that have moved.
    histories.push("i54=1 i52=1 i50=1 i8=1 i10=1 i12=1 i14=1 i40=1 i38=1 i36=1 i2=1 i1=2 i6=2".to_owned());
    planted::<Versioned<4, VersionedInner<4>>>(campaign, &histories)
}

fn in_layout_after<N: Checkable>(model: Model, depth: u32, histories: &[String]) -> Vec<Control> {
    let mut campaign = Campaign::new(model);
    let common = [
        "Creating a pool, and its superblock",
        "Segments",
        "Creating, dropping, opening and closing a tree",
        "Records",
    ];
    campaign.steps = Step::ALL.iter().copied().filter(|step| !common.contains(&step.protocol())).collect();
    campaign.depth = depth;
    planted::<N>(campaign, histories)
}

/// Plants bugs in redo lists, and in what of an open they depend on.
fn in_lists<N: Checkable>(model: Model) -> Vec<Control> {
    let mut campaign = Campaign::new(model);
    let is_meant = |step: &Step| step.protocol() == "Redo lists" || [Step::TakeOver, Step::HeaderTwin].contains(step);
    campaign.steps = Step::ALL.iter().copied().filter(is_meant).collect();
    campaign.depth = 0;
    planted::<N>(campaign, &together())
}

/// Plants bugs in the steps of moving the nodes of an index.
fn compacted_inner<N: Checkable>(model: Model) -> Vec<Control> {
    let mut campaign = Campaign::new(model);
    (campaign.index, campaign.depth, campaign.steps) = (IndexKind::Persistent, 0, vec![Step::IndexMove]);
    let histories: Vec<String> = compacting_inner(N::SLOTS as u64).iter().map(History::to_string).collect();
    planted::<N>(campaign, &histories)
}

/// Plants bugs in the steps of compacting and shrinking.
fn compacted<N: Checkable>(model: Model, values: Values) -> Vec<Control> {
    let mut campaign = Campaign::new(model);
    (campaign.values, campaign.depth) = (values, 0);
    campaign.steps = vec![Step::MoveFill, Step::RecordMove, Step::SegmentShorten, Step::SegmentCut];
    let histories: Vec<String> = compacting(N::SLOTS as u64).iter().map(History::to_string).collect();
    planted::<N>(campaign, &histories)
}

fn planted<N: Checkable>(mut campaign: Campaign, histories: &[String]) -> Vec<Control> {
    campaign.limit = LIMIT;
    let histories: Vec<History> = histories.iter().map(|text| text.parse().expect("a history")).collect();
    // A history that fails without a bug would reveal nothing.
    let mut sound = campaign.clone();
    (sound.depth, sound.limit) = (0, 1);
    clean(&sound.histories::<N>(&histories, |_, _| ()));
    campaign.controls::<N>(&histories, |_, _| ())
}

impl Tree {
    /// The reason why a bug need not be found.
    fn reason(&self, control: &Control, model: Model) -> Option<&'static str> {
        let is_of = |needless: &&Needless| (needless.0, needless.1) == (control.kind, control.step);
        // Under TSO stores are not reordered: order points only bind the compiler.
        let is_idle = model == Model::Tso && control.kind == ControlKind::Order;
        let reason = || OF_ALL.iter().chain(self.needless.iter().copied().flatten()).find(is_of);
        if is_idle { Some("stores are not reordered") } else { reason().map(|needless| needless.2) }
    }

    fn every_planted_bug_is_found(&self, model: Model) {
        let controls = (self.plant)(model);
        assert!(controls.len() >= 3, "only {} steps", controls.len());
        let missed: Vec<_> = controls.iter().filter(|control| control.caught_by.is_none()).collect();
        missed.iter().for_each(|control| println!("missed: {control:?}"));
        let wrong: Vec<_> = missed.iter().filter(|control| self.reason(control, model).is_none()).collect();
        assert!(wrong.is_empty(), "{}: not found: {wrong:#?}", self.name);
    }
}

macro_rules! trees {
    ($($test:ident: $name:literal, $plant:expr, $($needless:expr),+;)*) => {
        const TREES: &[Tree] = &[$(Tree { name: $name, plant: $plant, needless: &[$($needless),+] }),*];

        $(#[test]
        fn $test() {
            let tree = TREES.iter().find(|tree| tree.name == $name).expect("it is listed");
            tree.every_planted_bug_is_found(Model::Weak);
        })*
    };
}

trees! {
    in_linear: "Linear", |model| {
        everywhere::<Linear<8>>(IndexKind::Volatile, model, Values::Numbers, &[telling_histories(), many_trees()].concat())
    }, &[];
    in_circular_persistent: "Circular (persistent index)", |model| {
        everywhere::<Circular<8>>(IndexKind::Persistent, model, Values::Numbers, &telling_histories())
    }, OF_PERSISTENT;
    in_one_line: "OneLine", |model| {
        everywhere::<OneLine<7>>(IndexKind::Volatile, model, Values::Numbers, &[telling_histories(), many_trees()].concat())
    }, &[];
    in_records: "Circular (records)", |model| {
        let mut histories = short_histories(&[1, 3, 14]);
        // The pool has no room for as many records.
        histories.retain(|history| history != "load40");
        histories.push(POWER_LOSS.to_owned());
        histories.extend(kills(8, 24));
        everywhere::<Circular<8>>(IndexKind::Volatile, model, Values::Records, &histories)
    }, OF_RECORDS;
    in_repairs: "Circular (recoveries)", |model| in_layout::<Circular<8>>(model, 1), &[];
    in_bytes: "Bytes", |model| {
        in_layout_after::<ByteLeaf<4>>(model, 1, &[brief_histories(), moved_and_removed()].concat())
    }, &[];
    in_compacted: "OneLine (compacted)", |model| compacted::<OneLine<7>>(model, Values::Numbers), OF_COMPACTED;
    in_compacted_records: "Append (compacted records)", |model| compacted::<Append<4, Fixed>>(model, Values::Records),
        OF_COMPACTED;
    in_compacted_inner_nodes: "Circular (compacted inner nodes)", |model| compacted_inner::<Circular<4>>(model),
        &[];
    in_compacted_bytes: "Bytes (compacted)", |model| compacted::<ByteLeaf<4>>(model, Values::Numbers), OF_COMPACTED;
    in_two_trees: "OneLine (two trees)", |model| {
        in_lists::<Two<OneLine<7>>>(model)
    }, &[];
    in_two_trees_of_bytes: "Bytes (two trees)", |model| in_lists::<Two<ByteLeaf<4>>>(model), &[];
    in_circ_printed: "CircularPrinted", |model| in_layout::<CircularPrinted<8>>(model, 1), &[
        (ControlKind::Fence, Step::CountedChange, BEHIND),
        (ControlKind::Fence, Step::CountWord, BEHIND),
    ];
    in_crab: "CowSip", |model| in_layout::<CowSip<8>>(model, 1), &[
        (ControlKind::Flush, Step::BlockNote, COST),
        (ControlKind::Fence, Step::BlockNote, COST),
    ];
    in_crab_printed: "CowSip (as printed)", |model| in_layout::<CowSip<8, { crab::PRINTED }>>(model, 1), &[
        (ControlKind::Flush, Step::BlockNote, COST),
        (ControlKind::Fence, Step::BlockNote, COST),
        (ControlKind::Fence, Step::Remove, BEHIND),
        (ControlKind::Fence, Step::CountedChange, BEHIND),
        (ControlKind::Fence, Step::CountWord, BEHIND),
    ];
    // At this size nearly every change is a copy, so hardly any history leaves a shift to finish.
    in_crab_opt: "CowSip (all options)", |model| in_layout::<CowSip<8, { crab::OPT }>>(model, 0), &[];
    in_append: "Append", |model| in_layout::<Append<4, Fixed>>(model, 1), &[];
    in_versioned: "Versioned", |model| in_layout::<Versioned<4>>(model, 1), &[];
    in_versioned_inner: "VersionedInner", in_versioned_inner_nodes, &[
        (ControlKind::Flush, Step::VersionedReplace, REPOINTED),
    ];
    in_logged: "Logged", |model| in_layout::<Logged<4>>(model, 1), &[];
    in_logged_whole: "Logged (whole)", |model| in_layout::<Logged<4, true>>(model, 1), &[];
    in_fingerprint: "Fingerprint", |model| in_layout::<Fingerprint<8>>(model, 1), OF_BITMAPS;
    in_fingerprint_printed: "Fingerprint (as printed)", |model| in_layout::<Fingerprint<8, true>>(model, 0), OF_BITMAPS,
        OF_THREE_FLUSHES;
}

/// Tests the checker itself: the states of TSO are a subset of those of the weak model.
#[test]
fn in_linear_under_tso() {
    TREES[0].every_planted_bug_is_found(Model::Tso);
}

const MEASURED: &str = "for its cost alone: it tells what flushes and fences take here";

/// In which trees a bug in a part of a step is found, and the reasons where it is not.
#[derive(Default)]
struct Found {
    trees: BTreeSet<&'static str>,
    reasons: BTreeSet<&'static str>,
}

/// By step, what of it is left out, and whether that is under the weak model.
type Findings = BTreeMap<(Step, ControlKind, bool), Found>;

const KINDS: [ControlKind; 3] = [ControlKind::Order, ControlKind::Flush, ControlKind::Fence];

fn found_in<'t>(trees: impl IntoIterator<Item = &'t Tree>) -> Findings {
    let mut found = Findings::new();
    for tree in trees {
        for model in [Model::Tso, Model::Weak] {
            for control in (tree.plant)(model) {
                let row = found.entry((control.step, control.kind, model == Model::Weak)).or_default();
                match (control.caught_by.is_some(), tree.reason(&control, model)) {
                    (true, _) => row.trees.insert(tree.name),
                    (false, reason) => {
                        let missed = || panic!("{}, {model:?}: not found, without a reason: {control:?}", tree.name);
                        row.reasons.insert(reason.unwrap_or_else(missed))
                    }
                };
            }
        }
    }
    found
}

/// Compares what the page says of some trees with what was found in them.
fn compare(page: &str, trees: &[&Tree], found: &Findings) {
    let rows: BTreeMap<(&str, &str), [&str; 2]> = page
        .lines()
        .filter_map(|line| match line.split('|').map(str::trim).collect::<Vec<_>>()[..] {
            [_, step, kind, tso, weak, _] => Some(((step, kind), [tso, weak])),
            _ => None,
        })
        .collect();
    for &step in Step::ALL {
        for kind in KINDS {
            let cells = rows.get(&(&*format!("`{}`", step.name()), kind.name())).copied().unwrap_or_default();
            for (cell, weak) in cells.into_iter().zip([false, true]) {
                let found = found.get(&(step, kind, weak));
                let listed = cell.strip_prefix("**found**: ").unwrap_or_default();
                for tree in trees {
                    let is_found = found.is_some_and(|found| found.trees.contains(tree.name));
                    let says = listed.split(", ").any(|name| name == tree.name);
                    assert_eq!(
                        says,
                        is_found,
                        "the page, of {} without its {}: {}",
                        step.name(),
                        kind.name(),
                        tree.name
                    );
                }
            }
        }
    }
}

fn page(found: &Findings) -> String {
    let cell = |found: Option<&Found>| match found {
        None => String::new(),
        Some(found) if found.trees.is_empty() => found.reasons.iter().copied().collect::<Vec<_>>().join("; "),
        Some(found) => format!("**found**: {}", found.trees.iter().copied().collect::<Vec<_>>().join(", ")),
    };
    let mut page = "# The audit of persist steps\n\nEvery order, flush and fence by name, and what is found when all of them of \
        one step are left out: in which trees a crash\nstate gives it away, under the model of x86-64 (`tso`) and under that of \
        aarch64 (`weak`); or why it is there all the same.\nWritten by `BRISTLECONE_WRITE=1 scripts/check audit`.\n\n\
        | step | without its | tso | weak |\n|---|---|---|---|\n"
        .to_owned();
    for &step in Step::ALL {
        for kind in KINDS {
            let [tso, weak] = [false, true].map(|weak| found.get(&(step, kind, weak)));
            if tso.is_some() || weak.is_some() {
                let (name, kind) = (step.name(), kind.name());
                page.push_str(&format!("| `{name}` | {kind} | {} | {} |\n", cell(tso), cell(weak)));
            }
        }
        if step == Step::Measure {
            page.push_str(&format!("| `{}` | | {MEASURED} | {MEASURED} |\n", step.name()));
        } else {
            assert!(found.keys().any(|&(taken, _, _)| taken == step), "no history passes {step:?}");
        }
    }
    page
}

#[test]
#[should_panic = "the page, of HeaderClear without its flush: Linear"]
fn a_page_that_claims_more_than_was_found_is_wrong() {
    compare("| `HeaderClear` | flush | **found**: Linear, OneLine | |", &[&TREES[0]], &Findings::new());
}

#[test]
fn the_audit_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/persist-audit.md");
    if std::env::var_os("BRISTLECONE_WRITE").is_some() {
        std::fs::write(path, page(&found_in(TREES))).unwrap();
        return;
    }
    let page_there = std::fs::read_to_string(path).unwrap();
    if let Ok(part) = std::env::var("BRISTLECONE_PART") {
        let part: Part = part.parse().unwrap_or_else(|error| panic!("BRISTLECONE_PART: {error}"));
        let trees: Vec<&Tree> = part.of(TREES).collect();
        return compare(&page_there, &trees, &found_in(trees.iter().copied()));
    }
    assert!(page_there == page(&found_in(TREES)), "BRISTLECONE_WRITE=1 scripts/check audit writes the page");
}
