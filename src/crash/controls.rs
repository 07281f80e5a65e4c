//! Negative controls: with any one order, flush or fence left out, the checker must find a violation.

use crate::crash::{Campaign, History, history};
use crate::index::Index;
use crate::medium::{Fault, Model};
use crate::node::Node;

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// An order point.
    Order,
    /// A flush.
    Flush,
    /// A fence.
    Fence,
}

impl Kind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Flush => "flush",
            Self::Fence => "fence",
        }
    }
}

/// One planted bug, and whether it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Control {
    /// What was left out.
    pub kind: Kind,
    /// Where: the source file.
    pub file: &'static str,
    /// Where: the line.
    pub line: u32,
    /// The history that gave it away; `None` if none did: then it is not needed (as no order is under TSO), or not tested.
    pub caught_by: Option<String>,
}

impl Campaign {
    /// Plants every bug that leaves out all orders, flushes or fences of one place in the source, one at a time.
    ///
    /// The places are those that `histories` pass, or all short histories if there are none given.
    pub fn controls<N: Node, I: Index>(
        &self,
        histories: &[History],
        progress: impl Fn(usize, usize) + Sync,
    ) -> Vec<Control> {
        let all;
        let histories = if histories.is_empty() {
            all = history::all(N::SLOTS as u64);
            &all
        } else {
            histories
        };
        let sound = Self { fault: None, depth: 0, limit: 1, ..self.clone() };
        let faults = sound.histories::<N, I>(histories, |_, _| ()).faults;
        let count = faults.len();
        let plant = |(i, fault): (usize, Fault)| {
            // Under TSO stores come in order anyway: the states are those of the tree without the bug.
            let harmless = self.model == Model::Tso && matches!(fault, Fault::Order(_));
            let faulty = Self { fault: Some(fault), violations: 1, ..self.clone() };
            let outcome = faulty.histories::<N, I>(if harmless { &[] } else { histories }, |_, _| ());
            progress(i + 1, count);
            let (kind, site) = match fault {
                Fault::Order(site) => (Kind::Order, site),
                Fault::Flush(site) => (Kind::Flush, site),
                Fault::Fence(site) => (Kind::Fence, site),
            };
            let caught_by = outcome.violations.first().map(|violation| violation.history.clone());
            Control { kind, file: site.file(), line: site.line(), caught_by }
        };
        faults.into_iter().enumerate().map(plant).collect()
    }
}
