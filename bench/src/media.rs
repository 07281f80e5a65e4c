//! Where a contestant lies: how it gets its pool, or its files.

use crate::btreemap::Ordinary;
use crate::ordered_map::OrderedMap;
use crate::other::Other;
use crate::out::Outcome;
use crate::peers;
use crate::phases::{Phases, Trial, Workload};
use crate::place::{Place, Site};
use crate::plan::Contestant;
use crate::scratch::Scratch;
use crate::shape::{Shape, with_measured};
use crate::tree::Tree;
use bristlecone::medium::{Counted, Domain, Dram, Mapped, Medium, Slowed};
use bristlecone::{Options, Pool};
use std::path::Path;
use std::time::Instant;

/// The most bytes that a pool for this many keys may take: leaves are at least half full, and some mixes insert a third
/// more.
pub(crate) fn capacity(n: u64) -> u64 {
    (64 << 20) + n.saturating_mul(64)
}

fn unknown(shape: Shape) -> String {
    let build = if cfg!(debug_assertions) { " by a debug build" } else { "" };
    format!("{} is not measured{build}", shape.label())
}

fn tree<M: Medium>(shape: Shape, pool: &Pool<M>, load: &Workload) -> Outcome<Box<dyn Trial>> {
    let index = shape.index.kind();
    let trial: Option<Outcome<Box<dyn Trial>>> = with_measured!(shape, N => {
        Tree::<N, M>::open(pool, index).map(|tree| -> Box<dyn Trial> { Box::new(Phases::new(tree, load)) })
    });
    trial.ok_or_else(|| unknown(shape))?
}

/// A fresh contestant, with its pool or files.
pub(crate) struct Staged {
    // Closed before its files are removed.
    pub(crate) trial: Box<dyn Trial>,
    /// What its pool survives, if it has one.
    pub(crate) domain: Option<Domain>,
    _scratch: Option<Scratch>,
}

/// Sets up a contestant to be timed at this site.
pub(crate) fn timed(site: &Site, contestant: Contestant, load: &Workload) -> Outcome<Staged> {
    let directory = site.place.directory();
    let shape = match contestant {
        Contestant::Tree(shape) => shape,
        Contestant::BTreeMap => {
            let trial = Box::new(Phases::new(Ordinary::default(), load));
            return Ok(Staged { trial, domain: None, _scratch: None });
        }
        Contestant::Peer(peer) => {
            // Stores have files wherever the pools are.
            let mut scratch = Scratch::new(directory)?;
            let trial = peers::trial(peer, &scratch.file("store"), load)?;
            return Ok(Staged { trial, domain: None, _scratch: Some(scratch) });
        }
    };
    let capacity = capacity(load.n);
    let other = |medium: Other, scratch: Option<Scratch>| -> Outcome<Staged> {
        let pool = Pool::options().create_on(medium)?;
        Ok(Staged { trial: tree(shape, &pool, load)?, domain: Some(pool.durability()), _scratch: scratch })
    };
    if site.place == Place::Dram {
        return other(Other::Dram(Dram::zeroed(capacity)), None);
    }
    let mut scratch = Scratch::new(directory)?;
    let path = scratch.file("bench.pool");
    if !site.slow.is_zero() {
        let mapped = Mapped::create(&path, capacity, 0)?;
        let mapped = site.domain.into_iter().fold(mapped, Mapped::with_domain);
        return other(Other::Slowed(Slowed::new(mapped, site.slow)), Some(scratch));
    }
    let options = Pool::options().capacity(capacity);
    let pool = site.domain.into_iter().fold(options, Options::domain).open(&path)?;
    Ok(Staged { trial: tree(shape, &pool, load)?, domain: Some(pool.durability()), _scratch: Some(scratch) })
}

/// Sets up a tree to be counted.
pub(crate) fn counted(shape: Shape, load: &Workload) -> Outcome<(Pool<Other>, Box<dyn Trial>)> {
    let pool = Pool::options().create_on(Other::Counted(Counted::new(Dram::zeroed(capacity(load.n)))))?;
    let trial = tree(shape, &pool, load)?;
    Ok((pool, trial))
}

/// Opens a contestant that has its files at this path, and returns when its pool was open. A contestant that does not
/// exist yet is created, with a pool of `capacity` bytes.
pub(crate) fn open(
    contestant: Contestant,
    path: &Path,
    capacity: Option<u64>,
) -> Outcome<(Box<dyn OrderedMap>, Instant)> {
    let shape = match contestant {
        Contestant::Tree(shape) => shape,
        Contestant::Peer(peer) if peer.is_store() => {
            return Ok((peers::open(peer, path)?, Instant::now()));
        }
        Contestant::Peer(_) | Contestant::BTreeMap => {
            return Err(format!("{} does not outlive a process", contestant.name()).into());
        }
    };
    let pool = match capacity {
        Some(capacity) => Pool::options().capacity(capacity).open(path)?,
        None => Pool::open(path)?,
    };
    let pool_open = Instant::now();
    let index = shape.index.kind();
    let tree: Option<Outcome<Box<dyn OrderedMap>>> = with_measured!(shape, N => {
        Tree::<N, Mapped>::open(&pool, index).map(|tree| -> Box<dyn OrderedMap> { Box::new(tree) })
    });
    Ok((tree.ok_or_else(|| unknown(shape))??, pool_open))
}
