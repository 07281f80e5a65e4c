//! Every crash state, at the smallest node sizes.

use crate::clean::clean;
use bristlecone::crash::{Campaign, Checkable, History, KeyShape, Two, Values};
use bristlecone::medium::{Model, Step};
use bristlecone::papers::{
    Append, Circular, CircularPrinted, CowSip, Fingerprint, Fixed, Linear, Logged, Versioned, VersionedInner, crab,
};
use bristlecone::{ByteLeaf, IndexKind, OneLine, WordNode};

/// States per crash point, for kinds with very many states: a record of twenty lines may be torn in a million ways.
const LIMIT: usize = 500;

/// All of these histories, or a quarter if tests do not run whole.
fn some_of(all: usize) -> usize {
    if crate::long() { all } else { all.div_ceil(4) }
}

fn random<N: WordNode>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    clean(&campaign.random::<N>(some_of(count), 40, |_, _| ()));
}

/// Random histories where a crash leaves pairs whole.
fn random_with_whole_pairs<N: WordNode>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    campaign.whole_pairs = true;
    clean(&campaign.random::<N>(some_of(count), 40, |_, _| ()));
}

fn random_records<N: WordNode>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    campaign.values = Values::Records;
    campaign.limit = LIMIT;
    clean(&campaign.random::<N>(some_of(count), 30, |_, _| ()));
}

/// A range is removed from within a leaf, and over several leaves; and each persist step of that is needed.
fn cut<N: Checkable>(values: Values) {
    let fill = "i2=1 i4=2 i6=3 i8=4 i10=5 i12=6 i14=7 i16=1 i18=2";
    let few = ["i2=1 i4=2 i6=3 cut4-7", "i2=1 i4=2 i6=3 cut0-9 i3=1"].map(str::to_owned);
    let many = ["cut3-9", "cut5-17", "cut0-99", "cut7-15 i9=1", "cut3-17 reopen"].map(|last| format!("{fill} {last}"));
    let histories: Vec<History> = few.iter().chain(&many).map(|text| text.parse().expect("a history")).collect();
    let mut campaign = Campaign::new(Model::Weak);
    (campaign.values, campaign.limit) = (values, LIMIT);
    clean(&campaign.histories::<N>(&histories, |_, _| ()));
    campaign.depth = 0;
    campaign.steps = vec![Step::BatchLines, Step::BatchFence, Step::BatchChange];
    let controls = campaign.controls::<N>(&histories, |_, _| ());
    let missed: Vec<_> = controls.iter().filter(|control| control.caught_by.is_none()).collect();
    assert!(!controls.is_empty() && missed.is_empty(), "{missed:?}");
}

#[test]
fn a_range_is_removed_whole_by_whole_entry() {
    cut::<OneLine<7>>(Values::Numbers);
    cut::<OneLine<7>>(Values::Records);
    cut::<Circular<4>>(Values::Numbers);
    cut::<ByteLeaf<4>>(Values::Numbers);
    cut::<ByteLeaf<4>>(Values::Records);
}

/// What is done to pools and to whole trees: each is cut at every point, and where it is killed, so is what comes next.
fn of_pools<N: Checkable>(slots: u64, index: IndexKind, values: Values) {
    let mut histories = Vec::new();
    for n in [0, 1, slots + 1] {
        let fill: String = (1..=n).map(|key| format!("i{}={key} ", 2 * key)).collect();
        histories.extend(["drop", "anew", "powerloss"].map(|last| format!("{fill}{last}")));
        for events in [0, 1, 2, 3, 5, 8, 13, 21] {
            for killed in ["i1=9", "r2", "clear", "reopen", "drop"] {
                histories.push(format!("{fill}{killed} kill{events} i{}=1", 2 * n + 3));
            }
            histories.push(format!("{fill}anew kill{} anew", 37 * events));
        }
    }
    // A part of them is spread evenly.
    let some = histories.iter().step_by(if crate::long() { 1 } else { 5 });
    let histories: Vec<History> = some.map(|text| text.parse().expect("a history")).collect();
    for model in [Model::Tso, Model::Weak] {
        let mut campaign = Campaign::new(model);
        (campaign.index, campaign.values, campaign.limit, campaign.depth) = (index, values, 32, 0);
        clean(&campaign.histories::<N>(&histories, |_, _| ()));
    }
}

/// Changes of two trees at once.
fn random_together<N: Checkable>(model: Model, keys: KeyShape, count: usize) {
    let mut campaign = Campaign::new(model);
    (campaign.keys, campaign.limit) = (keys, LIMIT);
    clean(&campaign.random::<N>(some_of(count), 12, |_, _| ()));
}

#[test]
fn changes_of_two_trees_at_once() {
    random_together::<Two<OneLine<7>>>(Model::Tso, KeyShape::Bytes, 60);
    random_together::<Two<OneLine<7>>>(Model::Weak, KeyShape::Bytes, 6);
    for keys in [KeyShape::Bytes, KeyShape::Long, KeyShape::Zeros] {
        random_together::<Two<ByteLeaf<4>>>(Model::Tso, keys, 12);
    }
}

/// A process that is killed while it changes the superblock, and then the machine goes down: one of the twins is whole.
#[test]
fn a_twin_that_a_killed_process_stored_is_durable_before_the_other_one_changes() {
    for events in 55..75 {
        let history: History = format!("together2 kill{events}").parse().unwrap();
        clean(&Campaign::new(Model::Tso).histories::<Two<ByteLeaf<4>>>(&[history], |_, _| ()));
    }
}

#[test]
fn histories_of_pools() {
    of_pools::<OneLine<7>>(7, IndexKind::Volatile, Values::Numbers);
    of_pools::<OneLine<7>>(7, IndexKind::Flat, Values::Records);
    of_pools::<Circular<4>>(4, IndexKind::Persistent, Values::Numbers);
    of_pools::<ByteLeaf<4>>(4, IndexKind::Volatile, Values::Numbers);
}

#[test]
fn random_histories_of_byte_strings() {
    for keys in [KeyShape::Bytes, KeyShape::Long, KeyShape::Zeros] {
        for (model, values) in
            [(Model::Tso, Values::Numbers), (Model::Weak, Values::Numbers), (Model::Weak, Values::Records)]
        {
            let mut campaign = Campaign::new(model);
            (campaign.keys, campaign.values, campaign.limit) = (keys, values, LIMIT);
            clean(&campaign.random::<ByteLeaf<4>>(60, 40, |_, _| ()));
        }
    }
}

#[test]
fn random_histories_of_records() {
    random_records::<Circular<4>>(IndexKind::Volatile, Model::Weak, 2);
    random_records::<Linear<5>>(IndexKind::Persistent, Model::Weak, 2);
    random_records::<Circular<8>>(IndexKind::Persistent, Model::Tso, 2);
    random_records::<OneLine<7>>(IndexKind::Volatile, Model::Weak, 2);
}

#[test]
fn random_histories_tso() {
    random::<Linear<5>>(IndexKind::Volatile, Model::Tso, 60);
    random::<Linear<5>>(IndexKind::Persistent, Model::Tso, 60);
    random::<Circular<4>>(IndexKind::Volatile, Model::Tso, 60);
    random::<Circular<8>>(IndexKind::Persistent, Model::Tso, 60);
    random::<OneLine<7>>(IndexKind::Volatile, Model::Tso, 60);
    random::<OneLine<7>>(IndexKind::Persistent, Model::Tso, 60);
}

#[test]
fn random_histories_weak() {
    random::<Linear<5>>(IndexKind::Volatile, Model::Weak, 60);
    random::<Linear<5>>(IndexKind::Persistent, Model::Weak, 60);
    random::<Circular<8>>(IndexKind::Volatile, Model::Weak, 60);
    random::<Circular<4>>(IndexKind::Persistent, Model::Weak, 60);
    random::<OneLine<7>>(IndexKind::Volatile, Model::Weak, 60);
    random::<OneLine<7>>(IndexKind::Persistent, Model::Weak, 60);
}

#[test]
fn random_histories_of_the_papers_trees() {
    random::<CircularPrinted<8>>(IndexKind::Volatile, Model::Weak, 25);
    random::<CircularPrinted<8>>(IndexKind::Persistent, Model::Weak, 25);
    random::<CowSip<4, { crab::COPY_ONLY }>>(IndexKind::Volatile, Model::Weak, 25);
    random::<CowSip<4, { crab::COPY_ONLY }>>(IndexKind::Persistent, Model::Weak, 25);
    random::<CowSip<8, { crab::PRINTED }>>(IndexKind::Volatile, Model::Weak, 25);
    random::<CowSip<8, { crab::PRINTED }>>(IndexKind::Persistent, Model::Weak, 25);
    random::<CowSip<4, { crab::OPT }>>(IndexKind::Volatile, Model::Weak, 25);
    random_with_whole_pairs::<CowSip<4, { crab::OPT }>>(IndexKind::Volatile, Model::Weak, 25);
    random_with_whole_pairs::<CowSip<4, { crab::OPT }>>(IndexKind::Persistent, Model::Weak, 25);
    random::<Append<4, Fixed>>(IndexKind::Flat, Model::Weak, 25);
    random::<Append<4, Fixed>>(IndexKind::Persistent, Model::Weak, 25);
    random::<Fingerprint<4>>(IndexKind::Volatile, Model::Weak, 25);
    random::<Fingerprint<4>>(IndexKind::Persistent, Model::Weak, 25);
    random::<Logged<4>>(IndexKind::Volatile, Model::Weak, 25);
    random::<Logged<4>>(IndexKind::Persistent, Model::Tso, 25);
    random::<Append<4, Fixed, Logged<4>>>(IndexKind::Persistent, Model::Weak, 10);
    random::<Versioned<4>>(IndexKind::Volatile, Model::Weak, 25);
    random::<Versioned<4>>(IndexKind::Persistent, Model::Tso, 25);
    random::<Versioned<4, VersionedInner<4>>>(IndexKind::Persistent, Model::Weak, 6);
}
