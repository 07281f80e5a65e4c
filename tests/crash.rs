//! Every crash state, at the smallest node sizes; and every planted bug.
#![cfg(feature = "crash")]

use bristlecone::crash::{Campaign, Outcome};
use bristlecone::medium::Model;
use bristlecone::{Circular, Index, Linear, Node, Persistent, Volatile};

fn clean(outcome: &Outcome) {
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

fn random<N: Node, I: Index>(model: Model, count: usize) {
    let campaign = Campaign::new(model);
    clean(&campaign.random::<N, I>(count, 40, |_, _| ()));
}

#[test]
fn random_histories_tso() {
    random::<Linear<4>, Volatile>(Model::Tso, 60);
    random::<Linear<5>, Persistent>(Model::Tso, 60);
    random::<Circular<4>, Volatile>(Model::Tso, 60);
    random::<Circular<8>, Persistent>(Model::Tso, 60);
}

#[test]
fn random_histories_weak() {
    random::<Linear<8>, Volatile>(Model::Weak, 60);
    random::<Linear<4>, Persistent>(Model::Weak, 60);
    random::<Circular<8>, Volatile>(Model::Weak, 60);
    random::<Circular<4>, Persistent>(Model::Weak, 60);
}
