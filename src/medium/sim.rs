//! A medium that records every store, so that every state that a crash could leave can be constructed.
//!
//! What a crash may leave (see the promises in [`crate::medium`]): each line keeps some of its stores, independently of
//! all other lines, but at least those that a flush covers which a fence completed.
//!
//! - [`Model::Tso`] (x86-64): a line keeps a prefix of its stores.
//! - [`Model::Weak`] (aarch64): stores to a line that no order point, flush or fence separates may be kept in any
//!   combination, except that among stores to one word the later ones imply the earlier ones.
//!
//! Stores wider than 8 bytes are recorded word by word, so they tear, unless the medium is told to keep them whole.
//!
//! If a line could have one of several contents, the content is chosen when the line is first accessed. So a run of
//! recovery branches only on what it reads, and all states that differ elsewhere count as one.

use super::any::Any;
use super::{Domain, Dram, Facts, LINE, Layer, Medium, Step, lines, load_each};
use parking_lot::Mutex;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The content of one line.
pub(crate) type Line = [u64; 8];

/// Which stores of a line may be kept without which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Model {
    /// Total store order: x86-64.
    Tso,
    /// Only order points, flushes and fences order stores: aarch64.
    Weak,
}

/// An operation on the medium.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
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
    Order(Step),
    /// The flush of one line.
    Flush {
        /// Offset of the line.
        line: u64,
        /// What it is a step of.
        step: Step,
    },
    /// A fence.
    Fence(Step),
    /// The process is killed. Its stores stay visible, but nothing waits for its flushes any more.
    Kill,
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

/// The simulated medium. It is a handle: clones share the state.
#[derive(Clone)]
pub struct Sim {
    shared: Arc<Shared>,
    whole_pairs: bool,
}

struct Shared {
    image: Dram,
    /// For each line, whether it is still undecided. Most lines are not, and then a load takes no lock.
    undecided: Box<[AtomicBool]>,
    state: Mutex<State>,
}

struct State {
    undecided: Options,
    path: Vec<Choice>,
    decided: usize,
    /// The choices that [`Sim::settle`] made.
    settled: Vec<Choice>,
    /// Makes the choices beyond the path; 0 takes the first content of each line.
    seed: u64,
    /// Whether the seed gives lines only their oldest or their newest content.
    only_whole: bool,
    trace: Vec<Event>,
    /// For each event, which thread made it; `None`: there is only one thread.
    by: Option<Vec<u8>>,
    /// After this many events, the process is dead; `None`: it lives on.
    left: Option<usize>,
}

thread_local! {
    /// The number of this thread in traces with several threads.
    static THREAD: Cell<u8> = const { Cell::new(0) };
}

/// Gives this thread a number, for traces with several threads.
pub(crate) fn number_thread(number: u8) {
    THREAD.set(number);
}

impl Sim {
    /// This medium, as the type that trees use.
    pub(crate) fn handle(&self) -> Any {
        Arc::new(self.clone())
    }

    /// `len` zero bytes, durable.
    pub fn zeroed(len: u64) -> Self {
        Self::crashed(&vec![0; len as usize / 8], Options::default(), Vec::new(), 0)
    }

    /// What a crash left: `image`, with some lines undecided. `path` decides the lines that are accessed first, and
    /// `seed` the others, if it is not 0.
    pub(crate) fn crashed(image: &[u64], undecided: Options, path: Vec<Choice>, seed: u64) -> Self {
        let image = Dram::from_words(image.iter().copied());
        let mut flags = vec![false; image.accessible().div_ceil(LINE) as usize];
        undecided.0.iter().for_each(|&(line, _)| flags[(line / LINE) as usize] = true);
        let flags = flags.into_iter().map(AtomicBool::new).collect();
        let state = State {
            undecided,
            path,
            decided: 0,
            settled: Vec::new(),
            seed,
            only_whole: seed & 2 != 0,
            trace: Vec::new(),
            by: None,
            left: None,
        };
        let shared = Shared { image, undecided: flags, state: Mutex::new(state) };
        Self { shared: Arc::new(shared), whole_pairs: false }
    }

    /// Whether a crash leaves [pairs](Medium::store_pair) whole.
    pub fn with_whole_pairs(self, whole_pairs: bool) -> Self {
        Self { whole_pairs, ..self }
    }

    /// Records from now on which thread made each event. There must be no events yet.
    pub(crate) fn of_threads(self) -> Self {
        self.shared.state.lock().by = Some(Vec::new());
        self
    }

    /// After this many more events, the process is killed: what is done with the medium then has no effect.
    pub(crate) fn kill_after(&self, events: usize) {
        self.shared.state.lock().left = Some(events);
    }

    /// Whether the process that is to be killed has events left.
    pub(crate) fn is_alive(&self) -> bool {
        self.shared.state.lock().left != Some(0)
    }

    /// Another process takes the place of the one that is killed, at the latest now.
    pub(crate) fn restart(&self) {
        let mut state = self.shared.state.lock();
        state.left = None;
        state.push(Event::Kill);
    }

    /// All events so far, each with the [number](number_thread) of its thread.
    pub(crate) fn trace_of_threads(&self) -> Vec<(Event, u8)> {
        let state = self.shared.state.lock();
        state.trace.iter().copied().zip(state.by.iter().flatten().copied()).collect()
    }

    /// All events so far.
    pub(crate) fn trace(&self) -> Vec<Event> {
        self.shared.state.lock().trace.clone()
    }

    /// The number of events so far.
    pub(crate) fn now(&self) -> usize {
        self.shared.state.lock().trace.len()
    }

    /// The choices made so far.
    pub(crate) fn path(&self) -> Vec<Choice> {
        let state = self.shared.state.lock();
        state.path[..state.decided].to_vec()
    }

    /// Decides everything that is still undecided, without adding a branch: pseudo-randomly from `seed`.
    pub(crate) fn decide_rest(&self, seed: u64) {
        let mut state = self.shared.state.lock();
        state.seed = seed | 1;
        for (line, contents) in std::mem::take(&mut state.undecided).0 {
            let (taken, of, when) = (state.random(contents.len()), contents.len(), state.trace.len());
            state.settled.push(Choice { line, taken, of, when });
            self.shared.keep_line(line, contents[taken]);
        }
    }

    /// The choices that were settled.
    pub(crate) fn settled(&self) -> Vec<Choice> {
        self.shared.state.lock().settled.clone()
    }

    /// A copy of all words.
    pub fn words(&self) -> Vec<u64> {
        self.shared.image.words()
    }
}

impl Shared {
    fn keep_line(&self, line: u64, content: Line) {
        content.into_iter().zip((line..).step_by(8)).for_each(|(word, at)| self.image.store(at, word));
        self.undecided[(line / LINE) as usize].store(false, Ordering::Release);
    }

    /// Makes sure that the content of the line at `at` is chosen.
    #[inline]
    fn decide(&self, at: u64) {
        if self.undecided[(at / LINE) as usize].load(Ordering::Acquire) {
            self.choose(at & !(LINE - 1), &mut self.state.lock());
        }
    }

    #[cold]
    fn choose(&self, line: u64, state: &mut State) {
        // Another thread may have chosen it in between.
        let Some(position) = state.undecided.0.iter().position(|(of, _)| *of == line) else { return };
        let (_, contents) = state.undecided.0.swap_remove(position);
        if state.decided == state.path.len() {
            let taken = if state.seed == 0 { 0 } else { state.content(contents.len()) };
            state.path.push(Choice { line, taken, of: contents.len(), when: 0 });
        }
        let when = state.trace.len();
        let choice = &mut state.path[state.decided];
        choice.when = when;
        let choice = *choice;
        assert_eq!((choice.line, choice.of), (line, contents.len()), "recovery is deterministic");
        state.decided += 1;
        self.keep_line(line, contents[choice.taken]);
    }

    /// Records a store, and makes it.
    fn store(&self, event: Event, at: u64, words: &[u64]) {
        self.decide(at);
        let mut state = self.state.lock();
        if !state.push(event) {
            return;
        }
        // Under the lock: every store that is seen is in the trace, and the trace has stores in the order in which they
        // are seen.
        words.iter().zip((at..).step_by(8)).for_each(|(&word, at)| self.image.store(at, word));
    }
}

impl State {
    /// Adds an event to the trace. False if the process is dead.
    fn push(&mut self, event: Event) -> bool {
        if let Some(left) = &mut self.left {
            let Some(less) = left.checked_sub(1) else { return false };
            *left = less;
        }
        self.trace.push(event);
        if let Some(by) = &mut self.by {
            by.push(THREAD.get());
        }
        true
    }

    /// One of the contents of a line. In half of the runs it is the oldest or the newest content: many bugs show only
    /// when several lines are whole, which hardly ever happens if all contents are equally probable.
    fn content(&mut self, contents: usize) -> usize {
        if self.only_whole { self.random(2) * (contents - 1) } else { self.random(contents) }
    }

    fn random(&mut self, below: usize) -> usize {
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (self.seed >> 33) as usize % below
    }
}

impl Layer for Sim {
    type Below = Dram;

    fn below(&self) -> &Dram {
        &self.shared.image
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            name: "simulated medium",
            domain: Domain::Power,
            writes_back: true,
            leaves_unflushed: true,
            pairs_are_whole: self.whole_pairs,
            ..self.shared.image.facts()
        }
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.shared.decide(at);
        self.shared.image.load(at)
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        load_each(self, at, words);
    }

    /// The medium keeps its length. That what is cut off holds zeros becomes durable line by line, and is durable at
    /// the end.
    fn truncate(&self, len: u64) -> io::Result<()> {
        for line in (len.next_multiple_of(LINE)..self.shared.image.accessible()).step_by(LINE as usize) {
            let used: Vec<u64> = (line..line + LINE).step_by(8).filter(|&at| Layer::load(self, at) != 0).collect();
            used.iter().for_each(|&at| Layer::store(self, at, 0));
            if !used.is_empty() {
                Layer::flush(self, line, LINE, Step::HeaderZero);
            }
        }
        Layer::fence(self, Step::HeaderZero);
        Ok(())
    }

    fn store(&self, at: u64, value: u64) {
        self.shared.store(Event::Store { at: at & !7, value }, at, &[value]);
    }

    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        if self.whole_pairs {
            return self.shared.store(Event::Pair { at: at & !7, pair }, at, &pair);
        }
        let [first, second] = pair;
        Layer::store(self, at, first);
        Layer::store(self, at + 8, second);
    }

    fn order(&self, step: Step) {
        self.shared.state.lock().push(Event::Order(step));
    }

    fn flush(&self, at: u64, len: u64, step: Step) {
        let mut state = self.shared.state.lock();
        for line in lines(at, len) {
            state.push(Event::Flush { line, step });
        }
    }

    fn fence(&self, step: Step) {
        self.shared.state.lock().push(Event::Fence(step));
    }
}
