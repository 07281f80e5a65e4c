//! What a planted bug leaves out.

use crate::medium::{Event, Step};

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

/// All orders, flushes or fences of one step: what is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) step: Step,
    pub(super) kind: Kind,
}

impl Place {
    /// What an event is part of; `None` for stores.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let (kind, step) = match *event {
            Event::Order(step) => (Kind::Order, step),
            Event::Flush { step, .. } => (Kind::Flush, step),
            Event::Fence(step) => (Kind::Fence, step),
            Event::Store { .. } | Event::Pair { .. } => return None,
        };
        Some(Self { step, kind })
    }
}
