//! Where in the source an order, a flush or a fence is asked for.

use crate::medium::{Event, Site};

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

/// A place in the source where an order, a flush or a fence is asked for: what is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) site: Site,
    pub(super) kind: Kind,
}

impl Place {
    /// Where an event was asked for; `None` for stores.
    pub(super) fn of(event: &Event) -> Option<Self> {
        let (kind, site) = match *event {
            Event::Order(site) => (Kind::Order, site),
            Event::Flush { site, .. } => (Kind::Flush, site),
            Event::Fence(site) => (Kind::Fence, site),
            Event::Store { .. } | Event::Pair { .. } => return None,
        };
        Some(Self { site, kind })
    }
}
