//! What a campaign found.

use super::omission::Omission;
use std::collections::BTreeSet;
use std::fmt;

/// What a campaign found.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Outcome {
    /// Histories run.
    pub histories: u64,
    /// Distinct crash points: fences and returns, those inside recovery included.
    pub points: u64,
    /// Crash states that were opened and compared with the model.
    pub states: u64,
    /// How many of them differ from each other, or in what may be found. Each of these was used further, closed and
    /// opened again, and its recovery was cut.
    pub distinct: u64,
    /// How many of `states` are crashes inside recovery.
    pub in_recovery: u64,
    /// Crash points at which only a sample of the states was tried.
    pub sampled: u64,
    /// Whether all requested histories were run: neither time nor violations ended the run early.
    pub complete: bool,
    /// What went wrong.
    pub violations: Vec<Violation>,
    /// The omissions that were possible on the way.
    pub(super) passed: BTreeSet<Omission>,
}

/// A crash state from which recovery was not correct.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The history; its last operation was cut.
    pub history: String,
    /// The number of events (stores, orders, flushes, fences) of the history before the crash, and then of each
    /// recovery.
    pub cuts: Vec<usize>,
    /// Which of its possible contents each line had: "offset:content/contents".
    pub kept: String,
    /// What was wrong.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}\n  history: {}\n  cut after events: {:?}\n  lines kept: {}",
            self.what,
            if self.history.is_empty() { "(creation)" } else { &self.history },
            self.cuts,
            if self.kept.is_empty() { "(all durable)" } else { &self.kept }
        )
    }
}

impl Outcome {
    pub(super) fn merge(&mut self, other: Self) {
        self.histories += other.histories;
        self.points += other.points;
        self.states += other.states;
        self.in_recovery += other.in_recovery;
        self.sampled += other.sampled;
        self.violations.extend(other.violations);
        self.distinct += other.distinct;
        self.passed.extend(other.passed);
    }
}
