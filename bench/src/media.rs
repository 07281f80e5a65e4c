//! Where a contestant lies: how it gets its pool, or its files.

use crate::btreemap::Ordinary;
use crate::byte_map::ByteMap;
use crate::entry::{Bytes, Entry, Kind, Words, with_entry};
use crate::nv_store::{self, NvMap};
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use crate::peers::{self, Peer};
use crate::phases::{Phases, Trial, Workload};
use crate::place::{Place, Site, SlowPer};
use crate::plan::Contestant;
use crate::scratch::Scratch;
use crate::shape::{Shape, with_measured};
use crate::tree::Tree;
use bristlecone::medium::{Counted, Counter, Domain, Dram, Either, Mapped, Mapping, Medium, Slowed};
use bristlecone::{Journal, Options, Pool};
use std::path::Path;
use std::time::Instant;

/// The media of measured trees other than mapped files, as one type, because each further type of medium costs as much
/// compile time as everything else.
///
/// The price is a branch or two per access, which are well predicted: they matter at most in memory, and do not affect
/// counts.
type Other = Either<Dram, Either<Slowed<Mapped>, Counted<Dram>>>;

/// The name of a pool's file.
const POOL: &str = "bench.pool";

/// The most bytes that a pool for this many entries may take: leaves are at least half full, some mixes insert a third
/// more, and a record has a head and is rounded up.
pub(crate) fn capacity(n: u64, kind: Kind) -> u64 {
    let record = match kind {
        Kind::Words => 0,
        Kind::Bytes(_) => {
            let (key, value) = kind.lens();
            2 * (16 + key + value) as u64
        }
    };
    (64 << 20) + n.saturating_mul(64 + record)
}

fn unknown(shape: Shape) -> String {
    let build = if cfg!(debug_assertions) { " by a debug build" } else { "" };
    format!("{} is not measured{build}", shape.label())
}

/// A contestant that does not take entries of this kind.
fn wrong_kind<T>(contestant: Contestant, kind: Kind) -> Outcome<T> {
    Err(format!("{} is not for {kind}", contestant.name()).into())
}

/// A trial of one of this crate's.
pub(crate) fn ours<M: Medium>(contestant: Contestant, pool: &Pool<M>, load: &Workload) -> Outcome<Box<dyn Trial>> {
    match (contestant, load.kind) {
        (Contestant::Tree(shape), Kind::Words) => {
            let index = shape.index.kind();
            let trial: Option<Outcome<Box<dyn Trial>>> = with_measured!(shape, N => {
                let trial = |tree| -> Box<dyn Trial> { Box::new(Phases::new(tree, Words, load)) };
                Tree::<N, M>::open(pool, index).map(trial)
            });
            trial.ok_or_else(|| unknown(shape))?
        }
        (Contestant::ByteMap, Kind::Bytes(bytes)) => Ok(Box::new(Phases::new(ByteMap::<M>::open(pool)?, bytes, load))),
        (other, kind) => wrong_kind(other, kind),
    }
}

/// A fresh contestant, with its pool or files.
pub(crate) struct Staged {
    // Closed before its files are removed.
    pub(crate) trial: Box<dyn Trial>,
    /// What its pool survives, if it has one.
    pub(crate) domain: Option<Domain>,
    /// Its pool, if it has one in a file.
    pub(crate) pool: Option<Pool>,
    /// Where its files are, if it has any.
    pub(crate) scratch: Option<Scratch>,
}

/// A new pool in a file at this site.
pub(crate) fn pool(site: &Site, scratch: &mut Scratch, capacity: u64) -> Outcome<Pool> {
    let options = site.domain.into_iter().fold(Pool::options(), Options::domain);
    Ok(with(options, Some(capacity), site.journal).open(scratch.pool(POOL))?)
}

/// Options with a capacity, if it is said, and this journal or none.
pub(crate) fn with(options: Options, capacity: Option<u64>, journal: Option<Journal>) -> Options {
    let options = capacity.into_iter().fold(options, Options::capacity);
    options.journal(journal.unwrap_or(Journal::None))
}

/// Opens NV-Store in this file, which is created if there is a `capacity`. It has four times as much space as a pool:
/// versions that were replaced stay until their leaf is full.
pub(crate) fn nv_store<T>(
    path: &Path,
    capacity: Option<u64>,
    domain: Option<Domain>,
    open: impl FnOnce(Mapped, nv_store::Options) -> Outcome<T>,
) -> Outcome<T> {
    let mapped = match capacity {
        Some(capacity) if !path.exists() => Mapped::create(path, capacity * 4, 0)?,
        _ => Mapped::open(path, Mapping::Write)?,
    };
    open(domain.into_iter().fold(mapped, Mapped::with_domain), nv_store::Options::default())
}

/// A new pool that counts, and its counts.
pub(crate) fn counted_pool(capacity: u64) -> Outcome<(Pool<Other>, Counter)> {
    let counted = Counted::new(Dram::zeroed(capacity));
    let counter = counted.counter();
    Ok((Pool::options().create_on(Other::Second(Either::Second(counted)))?, counter))
}

/// Sets up a contestant to be timed at this site.
pub(crate) fn timed(site: &Site, contestant: Contestant, load: &Workload) -> Outcome<Staged> {
    let directory = site.place.directory();
    match contestant {
        Contestant::Tree(_) | Contestant::ByteMap => {}
        Contestant::NvStore => {
            let Kind::Bytes(bytes) = load.kind else { return wrong_kind(contestant, load.kind) };
            let mut scratch = Scratch::new(directory)?;
            let capacity = capacity(load.n, load.kind);
            let store = nv_store(&scratch.file(POOL), Some(capacity), site.domain, NvMap::open)?;
            let trial = Box::new(Phases::new(store, bytes, load));
            return Ok(Staged { trial, domain: site.domain, pool: None, scratch: Some(scratch) });
        }
        Contestant::BTreeMap => {
            let trial: Box<dyn Trial> =
                with_entry!(load.kind, entry => Box::new(Phases::new(Ordinary::default(), entry, load)));
            return Ok(Staged { trial, domain: None, pool: None, scratch: None });
        }
        Contestant::Peer(peer) => {
            // Stores have files wherever the pools are.
            let mut scratch = Scratch::new(directory)?;
            let trial = peers::trial(peer, &scratch.file("store"), load)?;
            return Ok(Staged { trial, domain: None, pool: None, scratch: Some(scratch) });
        }
    }
    let capacity = capacity(load.n, load.kind);
    let other = |medium: Other, scratch: Option<Scratch>| -> Outcome<Staged> {
        let pool = Pool::options().create_on(medium)?;
        Ok(Staged { trial: ours(contestant, &pool, load)?, domain: Some(pool.durability()), pool: None, scratch })
    };
    if site.place == Place::Dram {
        return other(Other::First(Dram::zeroed(capacity)), None);
    }
    let mut scratch = Scratch::new(directory)?;
    if !site.slow.is_zero() {
        let mapped = Mapped::create(&scratch.file(POOL), capacity, 0)?;
        let mapped = site.domain.into_iter().fold(mapped, Mapped::with_domain);
        let slowed = match site.slow_per {
            SlowPer::Line => Slowed::new(mapped, site.slow),
            SlowPer::Round => Slowed::by_round(mapped, site.slow),
        };
        return other(Other::Second(Either::First(slowed)), Some(scratch));
    }
    let pool = pool(site, &mut scratch, capacity)?;
    let trial = ours(contestant, &pool, load)?;
    Ok(Staged { trial, domain: Some(pool.durability()), pool: Some(pool), scratch: Some(scratch) })
}

/// Sets up one of this crate's to be counted.
pub(crate) fn counted(contestant: Contestant, load: &Workload) -> Outcome<(Counter, Box<dyn Trial>)> {
    let (pool, counter) = counted_pool(capacity(load.n, load.kind))?;
    let trial = ours(contestant, &pool, load)?;
    Ok((counter, trial))
}

/// Kinds of entries, with what opens the subjects that hold them.
pub(crate) trait Held: Entry {
    /// Opens one of this crate's in a pool.
    fn ours(contestant: Contestant, pool: &Pool) -> Outcome<Box<dyn OrderedMap<Self>>>;

    /// An empty peer, or the store that has its files in this directory.
    fn peer(peer: Peer, directory: &Path) -> Outcome<Box<dyn OrderedMap<Self>>>;

    /// NV-Store in this file, which is created if there is a `capacity`.
    fn nv_store(path: &Path, capacity: Option<u64>) -> Outcome<Box<dyn OrderedMap<Self>>>;

    /// std's map.
    fn btreemap() -> Box<dyn OrderedMap<Self>>;
}

impl Held for Words {
    fn ours(contestant: Contestant, pool: &Pool) -> Outcome<Box<dyn OrderedMap>> {
        let Contestant::Tree(shape) = contestant else {
            return wrong_kind(contestant, Kind::Words);
        };
        let index = shape.index.kind();
        let tree: Option<Outcome<Box<dyn OrderedMap>>> = with_measured!(shape, N => {
            Tree::<N, Mapped>::open(pool, index).map(|tree| -> Box<dyn OrderedMap> { Box::new(tree) })
        });
        tree.ok_or_else(|| unknown(shape))?
    }

    fn peer(peer: Peer, directory: &Path) -> Outcome<Box<dyn OrderedMap>> {
        peers::with_words(peer, directory)
    }

    fn nv_store(_: &Path, _: Option<u64>) -> Outcome<Box<dyn OrderedMap>> {
        wrong_kind(Contestant::NvStore, Kind::Words)
    }

    fn btreemap() -> Box<dyn OrderedMap> {
        Box::new(Ordinary::<Self>::default())
    }
}

impl Held for Bytes {
    fn ours(contestant: Contestant, pool: &Pool) -> Outcome<Box<dyn OrderedMap<Self>>> {
        match contestant {
            Contestant::ByteMap => Ok(Box::new(ByteMap::open(pool)?)),
            other => Err(format!("{} is not for byte strings", other.name()).into()),
        }
    }

    fn peer(peer: Peer, directory: &Path) -> Outcome<Box<dyn OrderedMap<Self>>> {
        peers::with_bytes(peer, directory)
    }

    fn nv_store(path: &Path, capacity: Option<u64>) -> Outcome<Box<dyn OrderedMap<Self>>> {
        Ok(Box::new(nv_store(path, capacity, None, NvMap::open)?))
    }

    fn btreemap() -> Box<dyn OrderedMap<Self>> {
        Box::new(Ordinary::<Self>::default())
    }
}

/// Opens the pool at this path, or creates one of `capacity` bytes.
pub(crate) fn open_pool(path: &Path, capacity: Option<u64>, journal: Option<Journal>) -> Outcome<Pool> {
    Ok(with(Pool::options(), capacity, journal).open(path)?)
}

/// Opens a contestant that has its files at this path, and returns when its pool was open. A contestant that does not
/// exist yet is created, with a pool of `capacity` bytes. A pool is opened with these options.
pub(crate) fn open<E: Held>(
    contestant: Contestant,
    path: &Path,
    capacity: Option<u64>,
    options: Options,
) -> Outcome<(Box<dyn OrderedMap<E>>, Instant)> {
    match contestant {
        Contestant::Tree(_) | Contestant::ByteMap => {}
        Contestant::NvStore => return Ok((E::nv_store(path, capacity)?, Instant::now())),
        Contestant::BTreeMap => return Ok((E::btreemap(), Instant::now())),
        Contestant::Peer(peer) => return Ok((E::peer(peer, path)?, Instant::now())),
    }
    let pool = capacity.into_iter().fold(options, Options::capacity).open(path)?;
    let pool_open = Instant::now();
    Ok((E::ours(contestant, &pool)?, pool_open))
}
