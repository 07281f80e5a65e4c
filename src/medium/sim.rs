//! A medium that remembers every store, so that every state a crash could leave can be made from it.
//!
//! What a crash may leave (see the promises in [`crate::medium`]): each line keeps some of its stores, independently of
//! all other lines, but at least those that a flush, completed by a fence, covers.
//!
//! - [`Model::Tso`] (x86-64): a line keeps a prefix of its stores.
//! - [`Model::Weak`] (aarch64): stores to a line that no order point, flush or fence separates may be kept in any
//!   combination, except that of the stores to one word the later ones imply the earlier ones.
//!
//! Stores wider than 8 bytes are recorded word by word, so they tear; unless the medium is told to keep them whole.
//!
//! The content of a line that could be one of several is not chosen before it is first accessed. A run of recovery
//! therefore branches only on what it reads, and all states that differ elsewhere are one.

use super::{Domain, LINE, Medium, lines};
use parking_lot::Mutex;
use std::io;
use std::panic::Location;
use std::sync::Arc;

/// The content of one line.
pub type Line = [u64; 8];
/// Where in the source an order, a flush or a fence was asked for.
pub type Site = &'static Location<'static>;

/// Which stores of a line may be kept without which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Model {
    /// Total store order: x86-64.
    Tso,
    /// Only order points, flushes and fences order stores: aarch64.
    Weak,
}

/// What was asked of the medium.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A store of one word.
    Store {
        /// Offset of the word.
        at: u64,
        /// Its new value.
        value: u64,
    },
    /// A store of two words that are kept together.
    Pair {
        /// Offset of the first word.
        at: u64,
        /// Their new values.
        pair: [u64; 2],
    },
    /// An order point.
    Order(Site),
    /// The flush of one line.
    Flush {
        /// Offset of the line.
        line: u64,
        /// Who asked.
        site: Site,
    },
    /// A fence.
    Fence(Site),
}

/// A planted bug: what the medium silently does not do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Drops the order points asked for at this site.
    Order(Site),
    /// Drops the flushes asked for at this site.
    Flush(Site),
    /// Drops the fences asked for at this site.
    Fence(Site),
}

/// Lines that may hold one of several contents, by offset.
#[derive(Debug, Clone, Default)]
pub(crate) struct Options(pub(crate) Vec<(u64, Arc<[Line]>)>);

/// A choice that a run made: which line got which of how many contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) line: u64,
    pub(crate) taken: usize,
    pub(crate) of: usize,
    /// How many events there were before it was made.
    pub(crate) when: usize,
}

/// The simulated medium. A handle: clones share the state.
#[derive(Clone)]
pub struct Sim {
    state: Arc<Mutex<State>>,
    len: u64,
    fault: Option<Fault>,
    whole_pairs: bool,
}

struct State {
    image: Vec<u64>,
    undecided: Options,
    path: Vec<Choice>,
    decided: usize,
    /// What [`Sim::settle`] decided.
    settled: Vec<Choice>,
    /// Decides beyond the path; 0 takes the first content of each line.
    seed: u64,
    trace: Vec<Event>,
}

impl Sim {
    /// `len` zero bytes, durable.
    pub fn zeroed(len: u64, fault: Option<Fault>) -> Self {
        Self::crashed(vec![0; len as usize / 8], Options::default(), Vec::new(), 0, fault)
    }

    /// What a crash left: `image`, with some lines undecided. `path` decides the first of those that are accessed, and
    /// `seed` the others, if it is not 0.
    pub(crate) fn crashed(
        image: Vec<u64>,
        undecided: Options,
        path: Vec<Choice>,
        seed: u64,
        fault: Option<Fault>,
    ) -> Self {
        let len = image.len() as u64 * 8;
        let state = State { image, undecided, path, decided: 0, settled: Vec::new(), seed, trace: Vec::new() };
        Self { state: Arc::new(Mutex::new(state)), len, fault, whole_pairs: false }
    }

    /// Whether a crash leaves [pairs](Medium::store_pair) whole.
    pub fn with_whole_pairs(self, whole_pairs: bool) -> Self {
        Self { whole_pairs, ..self }
    }

    /// Everything asked of the medium so far.
    pub(crate) fn trace(&self) -> Vec<Event> {
        self.state.lock().trace.clone()
    }

    /// How many events there were so far.
    pub(crate) fn now(&self) -> usize {
        self.state.lock().trace.len()
    }

    /// The choices made so far.
    pub(crate) fn path(&self) -> Vec<Choice> {
        let state = self.state.lock();
        state.path[..state.decided].to_vec()
    }

    /// Decides what is still undecided, without leaving a branch: pseudo-randomly from `seed`.
    pub(crate) fn settle(&self, seed: u64) {
        let mut state = self.state.lock();
        state.seed = seed | 1;
        for (line, contents) in std::mem::take(&mut state.undecided).0 {
            let (taken, of, when) = (state.random(contents.len()), contents.len(), state.trace.len());
            state.settled.push(Choice { line, taken, of, when });
            state.put(line, contents[taken]);
        }
    }

    /// What was settled.
    pub(crate) fn settled(&self) -> Vec<Choice> {
        self.state.lock().settled.clone()
    }

    /// A copy of all words.
    pub fn words(&self) -> Vec<u64> {
        self.state.lock().image.clone()
    }
}

impl State {
    fn put(&mut self, line: u64, content: Line) {
        let first = line as usize / 8;
        self.image[first..first + 8].copy_from_slice(&content);
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.seed >> 33) as usize % below
    }

    fn decide(&mut self, at: u64) {
        if self.undecided.0.is_empty() {
            return;
        }
        let line = at & !(LINE - 1);
        let Some(position) = self.undecided.0.iter().position(|(of, _)| *of == line) else { return };
        let (_, contents) = self.undecided.0.swap_remove(position);
        if self.decided == self.path.len() {
            let taken = if self.seed == 0 { 0 } else { self.random(contents.len()) };
            self.path.push(Choice { line, taken, of: contents.len(), when: 0 });
        }
        let choice = &mut self.path[self.decided];
        choice.when = self.trace.len();
        let choice = *choice;
        assert_eq!((choice.line, choice.of), (line, contents.len()), "recovery is deterministic");
        self.decided += 1;
        self.put(line, contents[choice.taken]);
    }
}

impl Medium for Sim {
    fn len(&self) -> u64 {
        self.len
    }

    fn name(&self) -> &str {
        "simulated medium"
    }

    fn domain(&self) -> Domain {
        Domain::Power
    }

    fn reserve(&self, _at: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    fn load(&self, at: u64) -> u64 {
        let mut state = self.state.lock();
        state.decide(at);
        state.image[at as usize / 8]
    }

    fn store(&self, at: u64, value: u64) {
        let mut state = self.state.lock();
        state.decide(at);
        state.image[at as usize / 8] = value;
        state.trace.push(Event::Store { at: at & !7, value });
    }

    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        if !self.whole_pairs {
            let [first, second] = pair;
            self.store(at, first);
            return self.store(at + 8, second);
        }
        let mut state = self.state.lock();
        state.decide(at);
        state.image[at as usize / 8..][..2].copy_from_slice(&pair);
        state.trace.push(Event::Pair { at: at & !7, pair });
    }

    fn pairs_are_whole(&self) -> bool {
        self.whole_pairs
    }

    fn cas(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load(at);
        if found != current {
            return Err(found);
        }
        self.store(at, new);
        Ok(found)
    }

    #[track_caller]
    fn order(&self) {
        let site = Location::caller();
        if self.fault != Some(Fault::Order(site)) {
            self.state.lock().trace.push(Event::Order(site));
        }
    }

    #[track_caller]
    fn flush(&self, at: u64, len: u64) {
        let site = Location::caller();
        if self.fault != Some(Fault::Flush(site)) {
            let mut state = self.state.lock();
            state.trace.extend(lines(at, len).map(|line| Event::Flush { line, site }));
        }
    }

    #[track_caller]
    fn fence(&self) {
        let site = Location::caller();
        if self.fault != Some(Fault::Fence(site)) {
            self.state.lock().trace.push(Event::Fence(site));
        }
    }
}
