//! Compacting and shrinking, cut at every point: and with each order, flush and fence of theirs left out.

use crate::clean::clean;
use bristlecone::crash::{
    Campaign, Checkable, Control, ControlKind, History, KeyShape, Two, Values, compacting, compacting_inner,
};
use bristlecone::lin;
use bristlecone::medium::{Model, Step};
use bristlecone::papers::{Append, Circular, CowSip, Fixed, crab};
use bristlecone::{ByteLeaf, IndexKind, OneLine};

/// States per crash point.
const LIMIT: usize = 24;

fn campaign(index: IndexKind, values: Values, model: Model) -> Campaign {
    let mut campaign = Campaign::new(model);
    (campaign.index, campaign.values, campaign.limit, campaign.depth) = (index, values, LIMIT, 0);
    campaign
}

fn histories<N: Checkable>(index: IndexKind, values: Values) -> Vec<History> {
    let mut histories = compacting(N::SLOTS as u64);
    // The pool has no room for as many records.
    if index == IndexKind::Persistent && values == Values::Numbers {
        histories.extend(compacting_inner(N::SLOTS as u64));
    }
    histories
}

fn cut<N: Checkable>(index: IndexKind, values: Values, keys: KeyShape) {
    for model in [Model::Tso, Model::Weak] {
        let mut campaign = campaign(index, values, model);
        campaign.keys = keys;
        // A part of them is spread evenly.
        let some: Vec<_> =
            histories::<N>(index, values).into_iter().step_by(if crate::long() { 1 } else { 13 }).collect();
        clean(&campaign.histories::<N>(&some, |_, _| ()));
    }
}

#[test]
fn numbers_are_moved() {
    cut::<OneLine<7>>(IndexKind::Volatile, Values::Numbers, KeyShape::Bytes);
    cut::<OneLine<7>>(IndexKind::Flat, Values::Numbers, KeyShape::Bytes);
    cut::<Circular<4>>(IndexKind::Volatile, Values::Numbers, KeyShape::Bytes);
    cut::<Append<4, Fixed>>(IndexKind::Volatile, Values::Numbers, KeyShape::Bytes);
    cut::<CowSip<4, { crab::OPT }>>(IndexKind::Volatile, Values::Numbers, KeyShape::Bytes);
}

#[test]
fn leaves_and_inner_nodes_are_moved() {
    cut::<OneLine<7>>(IndexKind::Persistent, Values::Numbers, KeyShape::Bytes);
    cut::<Circular<4>>(IndexKind::Persistent, Values::Numbers, KeyShape::Bytes);
    cut::<Append<4, Fixed>>(IndexKind::Persistent, Values::Numbers, KeyShape::Bytes);
}

#[test]
fn records_are_moved() {
    cut::<OneLine<7>>(IndexKind::Volatile, Values::Records, KeyShape::Bytes);
    cut::<Circular<4>>(IndexKind::Persistent, Values::Records, KeyShape::Bytes);
    cut::<Append<4, Fixed>>(IndexKind::Volatile, Values::Records, KeyShape::Bytes);
}

#[test]
fn byte_strings_are_moved() {
    for keys in [KeyShape::Bytes, KeyShape::Long, KeyShape::Zeros] {
        cut::<ByteLeaf<4>>(IndexKind::Volatile, Values::Numbers, keys);
    }
    cut::<ByteLeaf<4>>(IndexKind::Volatile, Values::Records, KeyShape::Bytes);
}

/// A recovery of what a cut has left is cut, too.
#[test]
fn a_recovery_may_be_cut() {
    let short = |mut histories: Vec<History>, len| {
        histories.retain(|history: &History| history.0.len() < len && history.to_string().ends_with("compact"));
        histories
    };
    let (leaves, inner) = (short(compacting(4), 100), short(compacting_inner(4), 150));
    for (index, values) in [
        (IndexKind::Volatile, Values::Numbers),
        (IndexKind::Persistent, Values::Numbers),
        (IndexKind::Volatile, Values::Records),
    ] {
        let mut campaign = campaign(index, values, Model::Weak);
        (campaign.depth, campaign.limit) = (1, 8);
        clean(&campaign.histories::<Circular<4>>(&leaves[..4], |_, _| ()));
        if index == IndexKind::Persistent {
            clean(&campaign.histories::<Circular<4>>(&inner[..4], |_, _| ()));
        }
    }
}

/// Why a bug need not be found.
fn reason(control: &Control) -> Option<&'static str> {
    match (control.step, control.kind) {
        // An entry of the same line is flushed by the next close, whose record lists the blocks.
        (Step::SegmentShorten, _) => Some("the next walk counts the blocks of the end as free"),
        // A cut between the two shows only if then as much is filled again.
        (Step::HeaderZero, ControlKind::Fence) => Some("the fence of the entries comes next"),
        (Step::SegmentCut, _) => Some("what is cut off is free, whatever its entry says"),
        _ => None,
    }
}

/// The negative controls: whatever is left out of the steps of compacting and shrinking shows.
fn planted<N: Checkable>(index: IndexKind, values: Values, steps: &[Step]) {
    let mut campaign = campaign(index, values, Model::Weak);
    campaign.steps = steps.to_vec();
    let histories = histories::<N>(index, values);
    let controls = campaign.controls::<N>(&histories, |_, _| ());
    for &step in steps {
        assert!(controls.iter().any(|control| control.step == step), "no history passes {step:?}");
    }
    controls.iter().for_each(|control| println!("{control:?}"));
    let missed: Vec<&Control> = controls.iter().filter(|control| control.caught_by.is_none()).collect();
    assert!(missed.iter().all(|control| reason(control).is_some()), "{}: {missed:#?}", N::NAME);
}

#[test]
fn whatever_is_left_out_shows() {
    planted::<OneLine<7>>(
        IndexKind::Volatile,
        Values::Numbers,
        &[Step::MoveFill, Step::SegmentCut, Step::SegmentShorten],
    );
    // The simulated medium is cut by stores of zeros: leaves that are half full rely on them.
    planted::<Circular<16>>(IndexKind::Volatile, Values::Numbers, &[Step::HeaderZero, Step::MoveFill]);
    planted::<Circular<4>>(IndexKind::Persistent, Values::Numbers, &[Step::IndexMove]);
    planted::<Circular<4>>(IndexKind::Volatile, Values::Records, &[Step::RecordMove, Step::SegmentShorten]);
    planted::<Append<4, Fixed>>(IndexKind::Volatile, Values::Records, &[Step::RecordMove, Step::MoveFill]);
    planted::<ByteLeaf<4>>(IndexKind::Volatile, Values::Numbers, &[Step::RecordMove, Step::MoveFill]);
}

/// Threads that read, write, scan and compact at the same time: what they see can be explained by one operation after
/// the other. `--cfg bristlecone_delays` lets them meet more often.
fn rounds<N: Checkable>(index: IndexKind, values: Values) {
    let ordinary = if crate::long() { 12 } else { 3 };
    let rounds = std::env::var("BRISTLECONE_ROUNDS").map_or(ordinary, |rounds| rounds.parse().expect("a number"));
    let campaign = lin::Campaign { index, values, rounds, ..lin::Campaign::default() };
    let outcome = campaign.run::<N>(&|_| ());
    assert!(outcome.violations.is_empty(), "{}", outcome.violations[0]);
    println!("{}, {index:?}, {values:?}: {} rounds, {} operations", N::NAME, outcome.rounds, outcome.operations);
}

#[test]
fn threads_agree_on_one_order() {
    for index in [IndexKind::Volatile, IndexKind::Persistent, IndexKind::Flat] {
        rounds::<OneLine<7>>(index, Values::Numbers);
        rounds::<Circular<4>>(index, Values::Numbers);
    }
    rounds::<OneLine<7>>(IndexKind::Volatile, Values::Records);
    rounds::<Append<4, Fixed>>(IndexKind::Volatile, Values::Records);
    rounds::<ByteLeaf<4>>(IndexKind::Volatile, Values::Numbers);
    rounds::<ByteLeaf<4>>(IndexKind::Volatile, Values::Records);
    rounds::<Two<OneLine<7>>>(IndexKind::Volatile, Values::Records);
    rounds::<Two<ByteLeaf<4>>>(IndexKind::Volatile, Values::Numbers);
}
