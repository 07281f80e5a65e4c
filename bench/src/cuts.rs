//! What a crash may leave of a store, for tests: a medium that records a history, and the states at each of its cuts.
//!
//! Each line keeps a prefix of its stores, independently of all other lines: at least those that were flushed before a
//! fence that is done. (So it is on x86-64. Where stores to one line may be kept in any order, more states are
//! possible.) A history is of one thread.

use crate::numbers::Random;
use bristlecone::medium::{Domain, Dram, Facts, LINE, Layer, Medium, Step};
use std::collections::{BTreeMap, HashSet};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A medium that records. It is a handle: clones share the history.
#[derive(Clone)]
pub(crate) struct Recorder(Arc<Shared>);

struct Shared {
    image: Dram,
    /// What the image was at first.
    start: Vec<u64>,
    events: Mutex<Vec<Event>>,
    bug: Option<Bug>,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Store { at: u64, value: u64 },
    Flush { line: u64 },
    Fence,
    Return,
}

/// What is left out of a protocol, as a control.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bug {
    Flush(Step),
    Fence(Step),
}

/// What a crash left.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) words: Vec<u64>,
    /// Operations that have returned.
    pub(crate) returned: usize,
    /// Whether another one had begun.
    pub(crate) is_within: bool,
}

impl Recorder {
    /// Words that are durable; and perhaps a bug.
    pub(crate) fn new(words: Vec<u64>, bug: Option<Bug>) -> Self {
        let image = Dram::from_words(words.iter().copied());
        Self(Arc::new(Shared { image, start: words, events: Mutex::default(), bug }))
    }

    /// Says that an operation has returned.
    pub(crate) fn returned(&self) {
        self.events().push(Event::Return);
    }

    fn events(&self) -> MutexGuard<'_, Vec<Event>> {
        self.0.events.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Passes on what a crash may leave: before each fence, after each operation, and at the end. Other cuts leave
    /// nothing else. Where more than `limit` states are possible, so many are taken at random, and those in which all
    /// lines but one are at their newest, or at their oldest. No state comes twice.
    pub(crate) fn states(&self, limit: usize, mut each: impl FnMut(State)) {
        let mut lines = Lines { durable: self.0.start.clone(), pending: BTreeMap::new() };
        let mut seen = HashSet::new();
        let mut each = |words: Vec<u64>, returned, is_within| {
            if seen.insert(BuildHasherDefault::<DefaultHasher>::default().hash_one((&words, returned, is_within))) {
                each(State { words, returned, is_within });
            }
        };
        let mut returned = 0;
        for event in self.events().iter().chain([&Event::Fence]) {
            if matches!(event, Event::Fence) {
                lines.states(limit, |words| each(words, returned, true));
            }
            match *event {
                Event::Store { at, value } => lines.store(at, value),
                Event::Flush { line } => lines.flush(line),
                Event::Fence => lines.fence(),
                Event::Return => {
                    returned += 1;
                    lines.states(limit, |words| each(words, returned, false));
                }
            }
        }
    }
}

/// What is durable, and what may be.
struct Lines {
    durable: Vec<u64>,
    pending: BTreeMap<u64, Pending>,
}

/// Stores to a line that are not certainly durable.
#[derive(Default)]
struct Pending {
    stores: Vec<(u64, u64)>,
    /// How many of the stores were flushed.
    flushed: usize,
}

impl Lines {
    fn store(&mut self, at: u64, value: u64) {
        self.pending.entry(at / LINE).or_default().stores.push((at / 8, value));
    }

    fn flush(&mut self, line: u64) {
        if let Some(pending) = self.pending.get_mut(&line) {
            pending.flushed = pending.stores.len();
        }
    }

    fn fence(&mut self) {
        for Pending { stores, flushed } in self.pending.values_mut() {
            put(&mut self.durable, &stores[..*flushed]);
            stores.drain(..*flushed);
            *flushed = 0;
        }
        self.pending.retain(|_, pending| !pending.stores.is_empty());
    }

    fn states(&self, limit: usize, mut each: impl FnMut(Vec<u64>)) {
        let lens: Vec<usize> = self.pending.values().map(|pending| pending.stores.len()).collect();
        let mut with = |taken: &[usize]| {
            let mut words = self.durable.clone();
            self.pending.values().zip(taken).for_each(|(pending, &taken)| put(&mut words, &pending.stores[..taken]));
            each(words);
        };
        let product = lens.iter().try_fold(1_usize, |product, len| product.checked_mul(len + 1));
        if let Some(all) = product.filter(|&all| all <= limit) {
            (0..all).for_each(|number| with(&digits(number, &lens)));
            return;
        }
        let mut random = Random::new(lens.len() as u64 + 1);
        for _ in 0..limit {
            with(&lens.iter().map(|&len| random.below(len as u64 + 1) as usize).collect::<Vec<_>>());
        }
        for i in 0..lens.len() {
            let mut newest = lens.clone();
            newest[i] = 0;
            with(&newest);
            let mut oldest = vec![0; lens.len()];
            oldest[i] = lens[i];
            with(&oldest);
        }
    }
}

fn put(words: &mut [u64], stores: &[(u64, u64)]) {
    stores.iter().for_each(|&(at, value)| words[at as usize] = value);
}

/// The digits of a number, each from 0 up to what `lens` says.
fn digits(mut number: usize, lens: &[usize]) -> Vec<usize> {
    let digit = |len: &usize| {
        let digit = number % (len + 1);
        number /= len + 1;
        digit
    };
    lens.iter().map(digit).collect()
}

impl Layer for Recorder {
    type Below = Dram;

    fn below(&self) -> &Dram {
        &self.0.image
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "recorder", domain: Domain::Power, writes_back: true, ..self.0.image.facts() }
    }

    fn store(&self, at: u64, value: u64) {
        self.events().push(Event::Store { at, value });
        self.0.image.store(at, value);
    }

    /// Tears.
    fn store_pair(&self, at: u64, [first, second]: [u64; 2]) {
        Layer::store(self, at, first);
        Layer::store(self, at + 8, second);
    }

    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        Layer::store_pair(self, at, pair);
    }

    fn flush(&self, at: u64, len: u64, step: Step) {
        if self.0.bug != Some(Bug::Flush(step)) {
            let lines = at / LINE..(at + len).div_ceil(LINE);
            self.events().extend(lines.map(|line| Event::Flush { line }));
        }
    }

    fn fence(&self, step: Step) {
        if self.0.bug != Some(Bug::Fence(step)) {
            self.events().push(Event::Fence);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first words of two lines, in all states of a history.
    fn pairs(recorder: &Recorder) -> Vec<(u64, u64, usize)> {
        let mut all = Vec::new();
        recorder.states(100, |State { words, returned, .. }| all.push((words[0], words[8], returned)));
        all.sort_unstable();
        all.dedup();
        all
    }

    fn history(bug: Option<Bug>) -> Recorder {
        let recorder = Recorder::new(vec![0; 16], bug);
        for (at, value) in [(0, 1), (0, 2), (64, 3)] {
            Medium::store(&recorder, at, value);
            Medium::flush(&recorder, at, 8, Step::Insert);
        }
        Medium::fence(&recorder, Step::Insert);
        recorder.returned();
        Medium::store(&recorder, 64, 4);
        recorder
    }

    #[test]
    fn lines_keep_prefixes_of_their_stores() {
        let before = [(0, 0, 0), (0, 3, 0), (1, 0, 0), (1, 3, 0), (2, 0, 0), (2, 3, 0)];
        assert_eq!(pairs(&history(None)), [&before[..], &[(2, 3, 1), (2, 4, 1)]].concat());
    }

    #[test]
    fn what_was_not_flushed_or_fenced_may_be_lost() {
        for bug in [Bug::Flush(Step::Insert), Bug::Fence(Step::Insert)] {
            assert!(pairs(&history(Some(bug))).contains(&(0, 0, 1)), "{bug:?}");
        }
        assert!(!pairs(&history(Some(Bug::Fence(Step::Update)))).contains(&(0, 0, 1)));
    }
}
