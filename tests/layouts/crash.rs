//! Every crash state, at the smallest node sizes.

use crate::clean::clean;
use crate::crashing::{cut, of_pools, random, random_records, some_of};
use bristlecone::crash::{Campaign, Values};
use bristlecone::medium::Model;
use bristlecone::papers::{
    Append, Circular, CircularPrinted, CowSip, Fingerprint, Fixed, Linear, Logged, Versioned, VersionedInner, crab,
};
use bristlecone::{IndexKind, WordNode};

/// Random histories where a crash leaves pairs whole.
fn random_with_whole_pairs<N: WordNode>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    campaign.whole_pairs = true;
    clean(&campaign.random::<N>(some_of(count), 40, |_, _| ()));
}

#[test]
fn a_range_is_removed_whole_by_whole_entry() {
    cut::<Circular<4>>(Values::Numbers);
}

#[test]
fn histories_of_pools() {
    of_pools::<Circular<4>>(4, IndexKind::Persistent, Values::Numbers);
}

#[test]
fn random_histories_of_records() {
    random_records::<Circular<4>>(IndexKind::Volatile, Model::Weak, 2);
    random_records::<Linear<5>>(IndexKind::Persistent, Model::Weak, 2);
    random_records::<Circular<8>>(IndexKind::Persistent, Model::Tso, 2);
}

#[test]
fn random_histories_of_sorted_leaves() {
    for model in [Model::Tso, Model::Weak] {
        random::<Linear<5>>(IndexKind::Volatile, model, 60);
        random::<Linear<5>>(IndexKind::Persistent, model, 60);
    }
    random::<Circular<4>>(IndexKind::Volatile, Model::Tso, 60);
    random::<Circular<8>>(IndexKind::Persistent, Model::Tso, 60);
    random::<Circular<8>>(IndexKind::Volatile, Model::Weak, 60);
    random::<Circular<4>>(IndexKind::Persistent, Model::Weak, 60);
}

#[test]
fn random_histories_of_other_leaves() {
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
