//! Every crash state, at the smallest node sizes.

use bristlecone::crash::{Campaign, Outcome, Values};
use bristlecone::medium::Model;
use bristlecone::papers::{Append, Circular, CowSip, Fingerprint, Fixed, Linear, Logged, Versioned, crab};
use bristlecone::{IndexKind, Node, OneLine};

/// States per crash point, for kinds with very many states: a record of twenty lines may be torn in a million ways.
const LIMIT: usize = 500;

pub(crate) fn clean(outcome: &Outcome) {
    for violation in &outcome.violations {
        println!("{violation}");
    }
    println!(
        "{} histories, {} points, {} states, {} distinct, {} in recovery, {} sampled",
        outcome.histories, outcome.points, outcome.states, outcome.distinct, outcome.in_recovery, outcome.sampled
    );
    assert!(outcome.violations.is_empty());
    assert!(outcome.complete);
}

fn random<N: Node>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    clean(&campaign.random::<N>(count, 40, |_, _| ()));
}

/// Random histories where a crash leaves pairs whole.
fn random_with_whole_pairs<N: Node>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    campaign.whole_pairs = true;
    clean(&campaign.random::<N>(count, 40, |_, _| ()));
}

fn random_records<N: Node>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    campaign.values = Values::Records;
    campaign.limit = LIMIT;
    clean(&campaign.random::<N>(count, 30, |_, _| ()));
}

#[test]
fn random_histories_of_records() {
    random_records::<Circular<4>>(IndexKind::Volatile, Model::Weak, 20);
    random_records::<Linear<5>>(IndexKind::Persistent, Model::Weak, 20);
    random_records::<Circular<8>>(IndexKind::Persistent, Model::Tso, 20);
    random_records::<OneLine<7>>(IndexKind::Volatile, Model::Weak, 20);
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
    random::<Linear<8>>(IndexKind::Volatile, Model::Weak, 60);
    random::<Linear<5>>(IndexKind::Persistent, Model::Weak, 60);
    random::<Circular<8>>(IndexKind::Volatile, Model::Weak, 60);
    random::<Circular<4>>(IndexKind::Persistent, Model::Weak, 60);
    random::<OneLine<7>>(IndexKind::Volatile, Model::Weak, 60);
    random::<OneLine<7>>(IndexKind::Persistent, Model::Weak, 60);
}

#[test]
fn random_histories_of_the_papers_trees() {
    random::<CowSip<8, { crab::COPY_ONLY }>>(IndexKind::Volatile, Model::Weak, 25);
    random::<CowSip<8, { crab::COPY_ONLY }>>(IndexKind::Persistent, Model::Weak, 25);
    random::<CowSip<8, { crab::OPT }>>(IndexKind::Volatile, Model::Weak, 25);
    random_with_whole_pairs::<CowSip<8, { crab::OPT }>>(IndexKind::Volatile, Model::Weak, 25);
    random_with_whole_pairs::<CowSip<8, { crab::OPT }>>(IndexKind::Persistent, Model::Weak, 25);
    random::<Append<4, Fixed>>(IndexKind::Flat, Model::Weak, 25);
    random::<Append<4, Fixed>>(IndexKind::Persistent, Model::Weak, 25);
    random::<Fingerprint<8>>(IndexKind::Volatile, Model::Weak, 25);
    random::<Fingerprint<8>>(IndexKind::Persistent, Model::Weak, 25);
    random::<Logged<4>>(IndexKind::Volatile, Model::Weak, 25);
    random::<Logged<4>>(IndexKind::Persistent, Model::Tso, 25);
    random::<Versioned<4>>(IndexKind::Volatile, Model::Weak, 25);
    random::<Versioned<4>>(IndexKind::Persistent, Model::Tso, 25);
}
