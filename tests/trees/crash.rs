//! Every crash state, at the smallest node sizes.

use crate::clean::clean;
use crate::crashing::{LIMIT, cut, of_pools, random, random_records, some_of};
use bristlecone::crash::{Campaign, Checkable, History, KeyShape, Two, Values};
use bristlecone::medium::Model;
use bristlecone::{ByteLeaf, IndexKind, OneLine};

#[test]
fn a_range_is_removed_whole_by_whole_entry() {
    cut::<OneLine<7>>(Values::Numbers);
    cut::<OneLine<7>>(Values::Records);
    cut::<ByteLeaf<4>>(Values::Numbers);
    cut::<ByteLeaf<4>>(Values::Records);
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
fn random_histories_of_words() {
    random_records::<OneLine<7>>(IndexKind::Volatile, Model::Weak, 2);
    for model in [Model::Tso, Model::Weak] {
        random::<OneLine<7>>(IndexKind::Volatile, model, 60);
        random::<OneLine<7>>(IndexKind::Persistent, model, 60);
    }
}
