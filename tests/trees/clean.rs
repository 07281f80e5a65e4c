//! What a campaign must find: nothing.

use bristlecone::crash::Outcome;

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
