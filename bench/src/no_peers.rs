//! Takes the place of the peers in a binary without them, so that no other code has to check for the feature.

use crate::conflict::Counters;
use crate::entry::{Bytes, KeyArg};
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use crate::parse::Usage;
use crate::phases::{Trial, Workload};
use std::path::Path;

/// There are no peers, so this has no values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Peer {}

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        match self {}
    }

    pub(crate) fn is_store(self) -> bool {
        match self {}
    }

    pub(crate) fn waits_for_disk(self) -> bool {
        match self {}
    }

    pub(crate) fn make_durable(&mut self) {
        match *self {}
    }

    pub(crate) fn has_transactions(self) -> bool {
        match self {}
    }

    pub(crate) fn is_shared(self) -> bool {
        match self {}
    }
}

pub(crate) fn chosen(_names: &[String], _key: KeyArg) -> Outcome<Vec<Peer>> {
    let build = "--peers needs a binary with them: build with --features peers, or peers-rocksdb for rocksdb as well";
    Err(Usage(build.to_owned()).into())
}

pub(crate) fn with_words(peer: Peer, _directory: &Path) -> Outcome<Box<dyn OrderedMap>> {
    match peer {}
}

pub(crate) fn with_bytes(peer: Peer, _directory: &Path) -> Outcome<Box<dyn OrderedMap<Bytes>>> {
    match peer {}
}

pub(crate) fn counters(peer: Peer, _directory: &Path) -> Outcome<Box<dyn Counters>> {
    match peer {}
}

pub(crate) fn trial(peer: Peer, _directory: &Path, _load: &Workload) -> Outcome<Box<dyn Trial>> {
    match peer {}
}
