//! What is checked, and how far.

use super::omission::Omission;
use super::tree_type::Values;
use crate::medium::{Event, Model, Step};
use crate::node::IndexKind;
use std::time::Duration;

/// What is checked, and how far.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Campaign {
    /// The memory model.
    pub model: Model,
    /// The kind of index.
    pub index: IndexKind,
    /// What the values are.
    pub values: Values,
    /// Whether a crash leaves pairs whole ([`Medium::pairs_are_whole`](crate::medium::Facts::pairs_are_whole)).
    pub whole_pairs: bool,
    /// How often recovery is cut in turn: 0 not at all, 1 once, ...
    pub depth: u32,
    /// States per crash point beyond which the rest is sampled.
    pub limit: usize,
    /// Seed of what is sampled.
    pub seed: u64,
    /// Stop after so many violations.
    pub violations: usize,
    /// Stop after this time.
    pub time: Duration,
    /// Threads to use.
    pub threads: usize,
    /// Where [`controls`](Self::controls) plants bugs: in these steps; in all if there are none.
    pub steps: Vec<Step>,
    /// A planted bug: what is asked for here does not happen.
    pub(super) left_out: Option<Omission>,
}

impl Campaign {
    /// A campaign without a planted bug, with recovery cut once, on all cores.
    pub fn new(model: Model) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            model,
            index: IndexKind::Volatile,
            values: Values::Numbers,
            whole_pairs: false,
            depth: 1,
            limit: 20_000,
            seed: 1,
            violations: 1,
            time: Duration::from_secs(3600),
            threads,
            steps: Vec::new(),
            left_out: None,
        }
    }

    /// Whether the event is not the one that a planted bug leaves out.
    pub(super) fn happens(&self, event: &Event) -> bool {
        self.left_out.is_none() || self.left_out != Omission::of(event)
    }
}
