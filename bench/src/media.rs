//! Where the measured pools lie, and how a contestant gets its tree.

use super::phases::Visit;
use super::subject::{Ordinary, Subject, Tree};
use super::{Contestant, Plan, peers};
use crate::out::Outcome;
use crate::parse::Layout;
use crate::scratch::Scratch;
use crate::trees::{Shape, with_types};
use bristlecone::medium::{Costs, Counted, Counts, Domain, Dram, Mapped, Medium, Slowed};
use bristlecone::{Options, Pool};
use std::io;
use std::path::PathBuf;
use std::str::FromStr;

/// Where a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In ordinary memory.
    Dram,
    /// In a file in this directory; `None`: wherever temporary pools are best.
    Directory(Option<PathBuf>),
}

impl Default for Place {
    fn default() -> Self {
        Self::Directory(None)
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dram" => Ok(Self::Dram),
            "shm" => Ok(Self::Directory(Some("/dev/shm".into()))),
            path if PathBuf::from(path).is_dir() => Ok(Self::Directory(Some(path.into()))),
            path => Err(format!("dram, shm or an existing directory, not '{path}'")),
        }
    }
}

/// Bytes a pool for so many keys may come to: leaves are half full at the least, and some mixes insert a third more.
pub(crate) fn capacity(n: u64) -> u64 {
    (64 << 20) + n.saturating_mul(64)
}

/// Slots of the nodes that are measured: in a debug build fewer, for the time of the tests.
pub(crate) const SIZES: &[u32] = if cfg!(debug_assertions) { &[32] } else { &[32, 64, 128, 256] };

impl Shape {
    /// Bytes of a node's slots; of a OneLine leaf, which has its header among them, all bytes.
    pub(crate) fn node_bytes(self) -> u32 {
        match self.layout {
            Layout::OneLine => self.slots * 16 + 16,
            Layout::Linear | Layout::Circular => self.slots * 16,
        }
    }
}

/// [`with_types`], with these sizes.
#[cfg(not(debug_assertions))]
macro_rules! with_measured {
    ($shape:expr, $n:ident, $i:ident => $body:expr) => { with_types!($shape, [32 64 128 256], $n, $i => $body) };
}

#[cfg(debug_assertions)]
macro_rules! with_measured {
    ($shape:expr, $n:ident, $i:ident => $body:expr) => { with_types!($shape, [32], $n, $i => $body) };
}

/// Gives `visit` a fresh tree of this shape in the pool.
fn in_pool<M: Medium, V: Visit>(shape: Shape, pool: &Pool<M>, visit: V) -> Outcome<V::Output> {
    let unknown = || {
        let build = if cfg!(debug_assertions) { " by a debug build" } else { "" };
        format!("{} are not measured{build}", shape.nodes())
    };
    with_measured!(shape, N, I => with(Tree::new(pool.tree::<N, I>("bench")?), visit)).ok_or_else(unknown)?
}

/// Shows the subject to `visit`; an error that came up meanwhile is worth more than what `visit` has found.
pub(crate) fn with<S: Subject, V: Visit>(subject: S, visit: V) -> Outcome<V::Output> {
    let output = visit.visit(&subject);
    subject.fault()?;
    Ok(output)
}

/// Gives `visit` a fresh contestant, on the medium that the plan says.
pub(crate) fn timed<V: Visit>(plan: &Plan, contestant: Contestant, visit: V) -> Outcome<(V::Output, Option<Domain>)> {
    let shape = match contestant {
        Contestant::BTreeMap => return Ok((with(Ordinary::default(), visit)?, None)),
        Contestant::Peer(peer) => {
            // Stores have files wherever the pools are.
            let directory = if let Place::Directory(directory) = &plan.place { directory.as_deref() } else { None };
            return Ok((peers::with(peer, directory, visit)?, None));
        }
        Contestant::Tree(shape) => shape,
    };
    let capacity = capacity(plan.n);
    let Place::Directory(directory) = &plan.place else {
        return other(shape, Other::Dram(Dram::zeroed(capacity)), visit);
    };
    let mut scratch = Scratch::new(directory.as_deref())?;
    let path = scratch.file("bench.pool");
    if !plan.slow.is_zero() {
        let mapped = Mapped::create(&path, capacity, 0)?;
        let mapped = plan.domain.into_iter().fold(mapped, Mapped::with_domain);
        return other(shape, Other::Slowed(Slowed::new(mapped, plan.slow)), visit);
    }
    let options = Pool::options().capacity(capacity);
    let pool = plan.domain.into_iter().fold(options, Options::domain).open(&path)?;
    Ok((in_pool(shape, &pool, visit)?, Some(pool.durability())))
}

fn other<V: Visit>(shape: Shape, medium: Other, visit: V) -> Outcome<(V::Output, Option<Domain>)> {
    let pool = Pool::options().create_on(medium)?;
    Ok((in_pool(shape, &pool, visit)?, Some(pool.durability())))
}

/// Gives the visitor that `visit` makes a fresh tree on a medium that counts.
pub(crate) fn counted<V: Visit>(n: u64, shape: Shape, visit: impl FnOnce(Pool<Other>) -> V) -> Outcome<V::Output> {
    let pool = Pool::options().create_on(Other::Counted(Counted::new(Dram::zeroed(capacity(n)))))?;
    in_pool(shape, &pool, visit(pool.clone()))
}

/// The media but for a mapped file, in one type: each further type of medium costs as much compile time as all the rest.
///
/// The price is one more branch per access, which is well predicted: it is noticed at most in memory, and not counted.
pub(crate) enum Other {
    Dram(Dram),
    Slowed(Slowed<Mapped>),
    Counted(Counted<Dram>),
}

impl Other {
    /// What was counted; nothing on the media that do not count.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Self::Counted(medium) => medium.counts(),
            Self::Dram(_) | Self::Slowed(_) => Counts::default(),
        }
    }
}

/// Passes a call on to the medium that there is.
macro_rules! forward {
    ($self:expr, $medium:ident => $call:expr) => {
        match $self {
            Other::Dram($medium) => $call,
            Other::Slowed($medium) => $call,
            Other::Counted($medium) => $call,
        }
    };
}

impl Medium for Other {
    fn len(&self) -> u64 {
        forward!(self, medium => medium.len())
    }

    fn name(&self) -> &str {
        forward!(self, medium => medium.name())
    }

    fn domain(&self) -> Domain {
        forward!(self, medium => medium.domain())
    }

    #[inline]
    fn writes_back(&self) -> bool {
        forward!(self, medium => medium.writes_back())
    }

    fn pairs_are_whole(&self) -> bool {
        forward!(self, medium => medium.pairs_are_whole())
    }

    fn costs(&self) -> Costs {
        forward!(self, medium => medium.costs())
    }

    fn read_only(&self) -> bool {
        forward!(self, medium => medium.read_only())
    }

    #[inline]
    fn forked(&self) -> bool {
        forward!(self, medium => medium.forked())
    }

    fn boot(&self) -> u64 {
        forward!(self, medium => medium.boot())
    }

    fn sync(&self) -> io::Result<()> {
        forward!(self, medium => medium.sync())
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        forward!(self, medium => medium.reserve(at, len))
    }

    fn space(&self) -> u64 {
        forward!(self, medium => medium.space())
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        forward!(self, medium => medium.load(at))
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        forward!(self, medium => medium.load_words(at, words));
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        forward!(self, medium => medium.store(at, value));
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        forward!(self, medium => medium.store_pair(at, pair));
    }

    fn cas(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        forward!(self, medium => medium.cas(at, current, new))
    }

    #[inline]
    fn order(&self) {
        forward!(self, medium => medium.order());
    }

    #[inline]
    fn flush(&self, at: u64, len: u64) {
        forward!(self, medium => medium.flush(at, len));
    }

    #[inline]
    fn fence(&self) {
        forward!(self, medium => medium.fence());
    }

    fn will_read(&self, at: u64, len: u64) {
        forward!(self, medium => medium.will_read(at, len));
    }

    #[inline]
    fn prefetch(&self, at: u64, len: u64) {
        forward!(self, medium => medium.prefetch(at, len));
    }
}
