//! What a planted bug leaves out.

use crate::medium::{Event, Step};

/// What is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ControlKind {
    /// An order point.
    Order,
    /// A flush.
    Flush,
    /// A fence.
    Fence,
}

impl ControlKind {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Flush => "flush",
            Self::Fence => "fence",
        }
    }
}

/// All orders, flushes or fences of one step, which a planted bug leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Omission {
    pub(super) step: Step,
    pub(super) kind: ControlKind,
}

impl Omission {
    /// The omission that an event would be part of; `None` for stores.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let (kind, step) = match *event {
            Event::Order(step) => (ControlKind::Order, step),
            Event::Flush { step, .. } => (ControlKind::Flush, step),
            Event::Fence(step) => (ControlKind::Fence, step),
            Event::Store { .. } | Event::Pair { .. } | Event::Kill => return None,
        };
        Some(Self { step, kind })
    }
}
