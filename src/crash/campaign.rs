//! What is checked, and how far.

use super::key_shape::KeyShape;
use super::omission::Omission;
use super::part::Part;
use super::tree_type::Values;
use crate::medium::{Event, Model, Step};
use crate::node::IndexKind;
use crate::sync::several::processors;
use std::time::Duration;

/// What is checked, and how far.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Campaign {
    /// The memory model.
    pub model: Model,
    /// The kind of the values.
    pub index: IndexKind,
    /// What the values are.
    pub values: Values,
    /// What the keys of a tree of byte strings look like.
    pub keys: KeyShape,
    /// Whether a crash leaves pairs whole ([`Medium::pairs_are_whole`](crate::medium::Facts::pairs_are_whole)).
    pub whole_pairs: bool,
    /// How often recovery is cut in turn: 0 not at all, 1 once, ...
    pub depth: u32,
    /// The number of states per crash point beyond which the rest is sampled.
    pub limit: usize,
    /// The seed for sampling.
    pub seed: u64,
    /// The part of the short histories that is [run](Self::exhaustive).
    pub part: Part,
    /// Stop after this many violations.
    pub violations: usize,
    /// Stop after this time.
    pub time: Duration,
    /// The number of threads to use.
    pub threads: usize,
    /// The steps in which [`controls`](Self::controls) plants bugs; all steps if this is empty.
    pub steps: Vec<Step>,
    /// A planted bug: the orders, flushes or fences named here do not happen.
    pub(super) left_out: Option<Omission>,
}

impl Campaign {
    /// A campaign without a planted bug, with recovery cut once, on all cores.
    pub fn new(model: Model) -> Self {
        let threads = processors();
        Self {
            model,
            index: IndexKind::Volatile,
            values: Values::Numbers,
            keys: KeyShape::Bytes,
            whole_pairs: false,
            depth: 1,
            limit: 20_000,
            seed: 1,
            part: Part::WHOLE,
            violations: 1,
            time: Duration::from_secs(3600),
            threads,
            steps: Vec::new(),
            left_out: None,
        }
    }

    /// False for an event that the planted bug leaves out.
    pub(super) fn happens(&self, event: &Event) -> bool {
        self.left_out.is_none() || self.left_out != Omission::of(event)
    }
}
