//! Negative controls: with any one order, flush or fence left out, the checker must find a violation.

use crate::crash::subject;
use crate::crash::{Campaign, History, history};
use crate::index::Index;
use crate::medium::{Fault, Model, Site};
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
    /// The places are those that `histories` pass, or all short histories if there are none given. With a `depth` of 1 or more
    /// there are also those that only recoveries pass; only for these, recoveries are cut.
    pub fn controls<N: Node, I: Index>(
        &self,
        histories: &[History],
        progress: impl Fn(usize, usize) + Sync,
    ) -> Vec<Control> {
        let tree = subject::Kind::of::<N, I>(self.values);
        let all;
        let histories = if histories.is_empty() {
            all = history::all(tree.slots);
            &all
        } else {
            histories
        };
        let is_meant = |fault: &Fault| {
            let file = site(*fault).1.file();
            self.places.is_empty() || self.places.iter().any(|place| file.starts_with(place))
        };
        // In the order in which they are passed.
        let passed = |depth| {
            let sound = Self { fault: None, limit: 1, depth, ..self.clone() };
            sound.all_of(tree, histories, &|_, _| ()).faults.into_iter().filter(is_meant)
        };
        let mut faults: Vec<(Fault, u32)> = passed(0).map(|fault| (fault, 0)).collect();
        if self.depth > 0 {
            for fault in passed(self.depth) {
                if faults.iter().all(|&(other, _)| other != fault) {
                    faults.push((fault, self.depth));
                }
            }
        }
        let count = faults.len();
        let plant = |(i, (fault, depth)): (usize, (Fault, u32))| {
            let (kind, site) = site(fault);
            // Under TSO stores come in order anyway: the states are those of the tree without the bug.
            let harmless = self.model == Model::Tso && kind == Kind::Order;
            let faulty = Self { fault: Some(fault), violations: 1, depth, ..self.clone() };
            let outcome = faulty.all_of(tree, if harmless { &[] } else { histories }, &|_, _| ());
            progress(i + 1, count);
            let caught_by = outcome.violations.first().map(|violation| violation.history.clone());
            Control { kind, file: site.file(), line: site.line(), caught_by }
        };
        faults.into_iter().enumerate().map(plant).collect()
    }
}

/// What a fault leaves out, and where.
pub(super) fn site(fault: Fault) -> (Kind, Site) {
    match fault {
        Fault::Order(site) => (Kind::Order, site),
        Fault::Flush(site) => (Kind::Flush, site),
        Fault::Fence(site) => (Kind::Fence, site),
    }
}
