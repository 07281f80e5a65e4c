//! What `cargo bench` measures: one map, phase by phase.

use crate::clock::Tick;
use crate::entry::{KeyArg, Kind};
use crate::keys::Pattern;
use crate::media::{self, Staged};
use crate::mix::Mix;
use crate::parse::{Index, Layout};
use crate::peers;
use crate::phases::Workload;
use crate::place::Site;
use crate::plan::Contestant;
use crate::shape::Shape;
use std::error::Error;
use std::time::{Duration, Instant};

/// All maps, by name: trees of bristlecone, `BTreeMap` and, with feature `peers`, those of other crates.
pub fn maps() -> Vec<String> {
    let trees = [(Layout::OneLine, 39), (Layout::Circular, 32), (Layout::Circular, 64), (Layout::Linear, 32)];
    let tree = |(layout, slots)| Contestant::Tree(Shape { layout, slots, index: Index::Volatile });
    // Without the feature there are no peers.
    let peers =
        peers::chosen(&["volatile".to_owned()], KeyArg::U64).unwrap_or_default().into_iter().map(Contestant::Peer);
    let others = [Contestant::BTreeMap].into_iter().chain(peers.filter(|peer| !peer.is_baseline()));
    trees.map(tree).into_iter().chain(others).map(Contestant::label).collect()
}

/// An ordered map that is measured by one thread, with uniform keys.
pub struct Map(Staged);

impl Map {
    /// The empty map of this name, one of [`maps`], for `n` keys.
    ///
    /// # Errors
    ///
    /// If there is no such map, or no place for its pool.
    pub fn empty(name: &str, n: u64) -> Result<Self, Box<dyn Error>> {
        let load = Workload { kind: Kind::Words, n, operations: None, pattern: Pattern::Uniform, threads: 1, seed: 1 };
        Ok(Self(media::timed(&Site::default(), Contestant::named(name, KeyArg::U64)?, &load)?))
    }

    /// Inserts all keys.
    pub fn fill(&mut self) {
        self.0.trial.fill();
    }

    /// Measures how long a phase takes.
    pub fn time(&mut self, mix: Mix) -> Duration {
        let work = self.0.trial.work(mix);
        let start = Instant::now();
        work.into_iter().for_each(|work| work(&mut Tick::idle()));
        start.elapsed()
    }

    /// Ends the measurement.
    ///
    /// # Errors
    ///
    /// The first error that occurred; a key that was not found counts as one.
    pub fn end(self) -> Result<(), Box<dyn Error>> {
        self.0.trial.fault()
    }
}
