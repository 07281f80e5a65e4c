//! What is measured, and how.

use crate::keys::Pattern;
use crate::mix::Mix;
use crate::peers::{self, Peer};
use crate::phases::Workload;
use crate::place::Site;
use crate::shape::Shape;
use std::path::PathBuf;
use std::str::FromStr;

/// A tree, map or store that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Contestant {
    Tree(Shape),
    BTreeMap,
    Peer(Peer),
}

impl Contestant {
    /// The name of the layout or of the map.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tree(shape) => shape.layout.name(),
            Self::BTreeMap => "btreemap",
            Self::Peer(peer) => peer.name(),
        }
    }

    /// Everything that distinguishes it from the others.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Tree(shape) => shape.label(),
            Self::BTreeMap | Self::Peer(_) => self.name().to_owned(),
        }
    }

    /// Whether the others are compared with it.
    pub(crate) fn is_baseline(self) -> bool {
        self.name() == Self::BTreeMap.name()
    }

    /// Whether several threads can use it.
    pub(crate) fn is_shared(self) -> bool {
        match self {
            Self::Tree(_) => true,
            Self::BTreeMap => false,
            Self::Peer(peer) => peer.is_shared(),
        }
    }
}

impl FromStr for Contestant {
    type Err = String;

    /// The contestant with this label.
    fn from_str(label: &str) -> Result<Self, String> {
        if let Some(shape) = Shape::from_label(label) {
            return Ok(Self::Tree(shape));
        }
        if label == Self::BTreeMap.label() {
            return Ok(Self::BTreeMap);
        }
        let peers = peers::chosen(&[label.to_owned()]).map_err(|error| error.to_string())?;
        peers.first().copied().map(Self::Peer).ok_or_else(|| format!("no contestant is named '{label}'"))
    }
}

/// What was asked for, in the form that the measuring code needs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) contestants: Vec<Contestant>,
    /// Asked for, but unable to use this many threads.
    pub(crate) left_out: Vec<Contestant>,
    pub(crate) n: u64,
    pub(crate) pattern: Pattern,
    pub(crate) threads: u32,
    /// In the order in which they are run.
    pub(crate) mixes: Vec<Mix>,
    pub(crate) site: Site,
    pub(crate) repeat: u32,
    pub(crate) batch: u64,
    pub(crate) seed: u64,
    pub(crate) count: bool,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Plan {
    /// The workload of one repeat.
    pub(crate) fn workload(&self, repeat: u32) -> Workload {
        let seed = self.seed.wrapping_add(repeat.into());
        Workload { n: self.n, pattern: self.pattern, threads: self.threads, seed }
    }
}
