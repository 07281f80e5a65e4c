//! Whether a history is linearizable: whether its operations could have happened one after the other, each at some
//! moment between its call and its return, with the answers that they gave.
//!
//! The search of Wing and Gong with Lowe's refinements: it goes through the events in the order of time, with all
//! *configurations* that explain what was seen so far. A configuration is a state, and which of the operations under
//! way have happened. An operation happens as late as possible, which is when it or another one returns; equal
//! configurations are merged. An operation that only reads happens as soon as it fits, which loses no explanation.
//!
//! # Source
//!
//! Wing, Gong: "Testing and Verifying Concurrent Objects", Journal of Parallel and Distributed Computing 17 (1993).
//! Lowe: "Testing for linearizability", Concurrency and Computation: Practice and Experience 29 (2017).

use std::collections::HashSet;
use std::hash::Hash;

/// An operation with the interval in which it happened, if it did. All times differ.
#[derive(Debug, Clone)]
pub(super) struct Timed<O> {
    pub(super) called: u64,
    /// `None`: a crash came first, so the operation may or may not have happened.
    pub(super) returned: Option<u64>,
    pub(super) op: O,
}

/// An operation on a state.
pub(super) trait Operation {
    type State: Clone + Eq + Hash;

    /// The state after it; `None` if its answer would have been different.
    fn apply(&self, state: &Self::State) -> Option<Self::State>;

    /// Whether it never changes the state.
    fn reads(&self) -> bool;
}

/// The most operations that may be under way at one time.
const MOST: u32 = u64::BITS;

/// A state, and which of the operations under way have happened.
type Configuration<S> = (S, u64);

/// Explains a history that starts in one of `states`: returns the states in which it may end; as an error, the
/// operation that could not have returned what it did.
pub(super) fn explain<O: Operation>(states: &[O::State], history: &[Timed<O>]) -> Result<Vec<O::State>, usize> {
    let mut events: Vec<(u64, bool, usize)> = Vec::with_capacity(2 * history.len());
    for (i, Timed { called, returned, .. }) in history.iter().enumerate() {
        events.push((*called, false, i));
        events.extend(returned.map(|at| (at, true, i)));
    }
    events.sort_unstable();
    let mut configurations: HashSet<Configuration<O::State>> = states.iter().map(|state| (state.clone(), 0)).collect();
    let mut under_way: Vec<(u64, &O)> = Vec::new();
    let mut bits = vec![0; history.len()];
    let mut taken = 0u64;
    for (_, returns, i) in events {
        let op = &history[i].op;
        if !returns {
            assert!(taken.count_ones() < MOST, "more operations under way than there are bits");
            bits[i] = 1 << taken.trailing_ones();
            taken |= bits[i];
            under_way.push((bits[i], op));
            if op.reads() {
                configurations = configurations.into_iter().map(|it| with_reads(it, &[(bits[i], op)])).collect();
            }
            continue;
        }
        configurations = with(configurations, bits[i], &under_way);
        if configurations.is_empty() {
            return Err(i);
        }
        taken &= !bits[i];
        under_way.retain(|(bit, _)| *bit != bits[i]);
        configurations = configurations.into_iter().map(|(state, happened)| (state, happened & !bits[i])).collect();
    }
    let ends: HashSet<_> = configurations.into_iter().map(|(state, _)| state).collect();
    Ok(ends.into_iter().collect())
}

/// Lets operations that only read happen where they fit.
fn with_reads<O: Operation>(
    (state, mut happened): Configuration<O::State>,
    ops: &[(u64, &O)],
) -> Configuration<O::State> {
    for (bit, op) in ops {
        if happened & bit == 0 && op.reads() && op.apply(&state).is_some() {
            happened |= bit;
        }
    }
    (state, happened)
}

/// All configurations that follow from these and in which the operation of `bit` has happened.
fn with<O: Operation>(
    from: HashSet<Configuration<O::State>>,
    bit: u64,
    under_way: &[(u64, &O)],
) -> HashSet<Configuration<O::State>> {
    let (mut found, mut known): (HashSet<_>, HashSet<_>) =
        from.into_iter().partition(|(_, happened)| happened & bit != 0);
    let mut open: Vec<_> = known.iter().cloned().collect();
    while let Some((state, happened)) = open.pop() {
        for &(next, op) in under_way {
            // An operation that only reads and has not happened does not fit.
            if happened & next != 0 || op.reads() {
                continue;
            }
            let Some(state) = op.apply(&state) else { continue };
            let configuration = with_reads((state, happened | next), under_way);
            if configuration.1 & bit != 0 {
                found.insert(configuration);
            } else if known.insert(configuration.clone()) {
                open.push(configuration);
            }
        }
    }
    found
}
