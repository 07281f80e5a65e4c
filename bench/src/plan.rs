//! What is measured, and how.

use crate::args::AccessArg;
use crate::byte_map::ByteMap;
use crate::entry::{KeyArg, Kind};
use crate::keys::Pattern;
use crate::media;
use crate::mix::Mix;
use crate::nv_store::NvMap;
use crate::parse::{self, Layout};
use crate::peers::{self, Peer};
use crate::phases::Workload;
use crate::place::Site;
use crate::shape::Shape;
use crate::worker::Subject;
use bristlecone::IndexKind;
use bristlecone::medium::Mapped;
use serde_json::Value;
use std::path::PathBuf;

/// A tree, map or store that is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Contestant {
    Tree(Shape),
    /// The map of byte strings.
    ByteMap,
    /// The store of NV-Tree's paper.
    NvStore,
    BTreeMap,
    Peer(Peer),
}

impl Contestant {
    /// The name of the layout or of the map.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tree(shape) => shape.layout.name(),
            Self::ByteMap => ByteMap::<Mapped>::NAME,
            Self::NvStore => NvMap::<Mapped>::NAME,
            Self::BTreeMap => "btreemap",
            Self::Peer(peer) => peer.name(),
        }
    }

    /// Everything that distinguishes it from the others.
    pub(crate) fn label(self) -> String {
        match self {
            Self::Tree(shape) => shape.label(),
            Self::ByteMap | Self::NvStore | Self::BTreeMap | Self::Peer(_) => self.name().to_owned(),
        }
    }

    /// Whether the others are compared with it.
    pub(crate) fn is_baseline(self) -> bool {
        self.name() == Self::BTreeMap.name()
    }

    /// Whether it is one of this crate's.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Tree(_) | Self::ByteMap)
    }

    /// Whether its trees take part in transactions and snapshots.
    pub(crate) fn has_snapshots(self) -> bool {
        match self {
            Self::Tree(shape) => shape.layout == Layout::OneLine,
            Self::ByteMap => true,
            Self::NvStore | Self::BTreeMap | Self::Peer(_) => false,
        }
    }

    /// Whether its content outlives the process.
    pub(crate) fn outlives(self) -> bool {
        match self {
            Self::Tree(_) | Self::ByteMap | Self::NvStore => true,
            Self::BTreeMap => false,
            Self::Peer(peer) => peer.is_store(),
        }
    }

    /// Whether its changes survive a loss of power, if it is told so.
    pub(crate) fn waits_for_disk(self) -> bool {
        match self {
            Self::Tree(_) | Self::ByteMap => true,
            Self::NvStore | Self::BTreeMap => false,
            Self::Peer(peer) => peer.waits_for_disk(),
        }
    }

    /// This contestant; if it is a store, it is told to wait for the disk at each change.
    pub(crate) fn durable(mut self) -> Self {
        if let Self::Peer(peer) = &mut self {
            peer.make_durable();
        }
        self
    }

    /// Bytes of a leaf's slots, and where the index is.
    pub(crate) fn node(self) -> (Option<u32>, Option<&'static str>) {
        match self {
            Self::Tree(shape) => (Some(shape.node_bytes()), Some(shape.index.name())),
            Self::ByteMap => (Some(ByteMap::<Mapped>::NODE_BYTES), Some(IndexKind::Volatile.name())),
            Self::NvStore | Self::BTreeMap | Self::Peer(_) => (None, None),
        }
    }

    /// Whether several threads can use it.
    pub(crate) fn is_shared(self) -> bool {
        match self {
            Self::Tree(_) | Self::ByteMap | Self::NvStore => true,
            Self::BTreeMap => false,
            Self::Peer(peer) => peer.is_shared(),
        }
    }
}

impl Contestant {
    /// The contestant with this label, for keys of this kind.
    pub(crate) fn named(label: &str, key: KeyArg) -> Result<Self, String> {
        if let Some(shape) = Shape::from_label(label) {
            return Ok(Self::Tree(shape));
        }
        if let Some(found) =
            [Self::ByteMap, Self::NvStore, Self::BTreeMap].into_iter().find(|known| label == known.label())
        {
            return Ok(found);
        }
        let peers = peers::chosen(&[label.to_owned()], key).map_err(|error| error.to_string())?;
        peers.first().copied().map(Self::Peer).ok_or_else(|| format!("no contestant is named '{label}'"))
    }
}

/// What was asked for, in the form that the measuring code needs.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) contestants: Vec<Contestant>,
    /// Asked for, but unable to use this many threads.
    pub(crate) left_out: Vec<Contestant>,
    pub(crate) key: KeyArg,
    /// Bytes of a value.
    pub(crate) value: usize,
    pub(crate) n: u64,
    /// The operations of a phase, if they are not as many as there are keys.
    pub(crate) operations: Option<u64>,
    pub(crate) pattern: Pattern,
    pub(crate) threads: u32,
    /// In the order in which they are run.
    pub(crate) mixes: Vec<Mix>,
    pub(crate) site: Site,
    /// How the files of pools are read that are not in memory.
    pub(crate) access: AccessArg,
    pub(crate) repeat: u32,
    pub(crate) batch: u64,
    pub(crate) seed: u64,
    pub(crate) count: bool,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) json: bool,
}

impl Plan {
    /// What is measured: keys and values.
    pub(crate) fn kind(&self) -> Kind {
        Kind::new(self.key, self.value)
    }

    /// A contestant, as another process is told of it.
    pub(crate) fn subject(&self, contestant: Contestant, path: PathBuf) -> Subject {
        let capacity = media::capacity(self.n, self.kind()) * 2;
        let journal = self.site.journal.filter(|_| contestant.is_ours());
        Subject { label: contestant.label(), path, key: self.key, value: self.value, capacity, journal }
    }

    /// Says in a row of JSON which contestant is measured, and with which keys and values.
    pub(crate) fn describe(&self, contestant: Contestant, row: &mut Value) {
        let (key_bytes, value_bytes) = self.kind().lens();
        let (node_bytes, index) = contestant.node();
        let who = if let Contestant::Peer(_) = contestant { "peer" } else { "layout" };
        row[who] = contestant.name().into();
        row["index"] = index.into();
        row["node_bytes"] = node_bytes.into();
        row["n"] = self.n.into();
        row["key"] = self.kind().key().into();
        row["key_bytes"] = key_bytes.into();
        row["value_bytes"] = value_bytes.into();
        row["journal"] = self.site.journal.filter(|_| contestant.is_ours()).map(parse::journal_name).into();
    }

    /// The workload of one repeat.
    pub(crate) fn workload(&self, repeat: u32) -> Workload {
        let seed = self.seed.wrapping_add(repeat.into());
        Workload {
            kind: self.kind(),
            n: self.n,
            operations: self.operations,
            pattern: self.pattern,
            threads: self.threads,
            seed,
        }
    }
}
