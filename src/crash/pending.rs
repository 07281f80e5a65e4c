//! What is durable after a trace, and what else may be durable.

use crate::medium::{Choice, Event, LINE, Line, LineOptions, Model};
use std::collections::BTreeMap;

/// The durable image, and for each line the stores that may or may not be durable, too.
#[derive(Clone)]
pub(crate) struct Pending {
    pub(crate) image: Vec<u64>,
    logs: BTreeMap<u64, Log>,
    /// A hash of `image`, kept up to date line by line.
    hash: u64,
}

#[derive(Clone, Default)]
struct Log {
    items: Vec<Item>,
    /// For each thread, how many items its last flush covers; its next fence makes them durable.
    flushed: [u32; THREADS],
}

/// The most threads that a trace may have.
pub(crate) const THREADS: usize = 8;

#[derive(Clone, Copy)]
enum Item {
    /// One word, or two words that are kept together.
    Store {
        word: usize,
        values: [u64; 2],
        words: usize,
    },
    Order,
}

impl Pending {
    pub(crate) fn new(image: Vec<u64>) -> Self {
        Self { image, logs: BTreeMap::new(), hash: 0 }
    }

    /// Applies an event of the only thread.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.apply_of(event, 0);
    }

    /// Applies an event of a thread, given by its number. A fence waits only for the lines that the thread itself
    /// flushed. But order points, flushes and fences also order the stores of other threads, which leaves out some of
    /// the states that a crash may leave in the weak model.
    pub(crate) fn apply_of(&mut self, event: &Event, thread: u8) {
        let thread = usize::from(thread);
        match *event {
            Event::Store { at, value } => {
                self.store(at, [value, 0], 1);
            }
            Event::Pair { at, pair } => self.store(at, pair, 2),
            Event::Order(_) => {
                for log in self.logs.values_mut() {
                    log.items.push(Item::Order);
                }
            }
            Event::Flush { line, .. } => {
                if let Some(log) = self.logs.get_mut(&line) {
                    log.items.push(Item::Order);
                    log.flushed[thread] = log.items.len() as u32;
                }
            }
            Event::Kill => self.logs.values_mut().for_each(|log| log.flushed = [0; THREADS]),
            Event::Fence(_) => {
                for (&line, log) in &mut self.logs {
                    log.items.push(Item::Order);
                    let first = line as usize / 8;
                    let content = &mut self.image[first..first + 8];
                    self.hash ^= hash_line(line, content);
                    let flushed = log.flushed[thread];
                    for item in log.items.drain(..flushed as usize) {
                        if let Item::Store { word, values, words } = item {
                            content[word..word + words].copy_from_slice(&values[..words]);
                        }
                    }
                    self.hash ^= hash_line(line, content);
                    log.flushed.iter_mut().for_each(|of| *of = of.saturating_sub(flushed));
                }
                self.logs.retain(|_, log| log.items.iter().any(|item| matches!(item, Item::Store { .. })));
            }
        }
    }

    fn store(&mut self, at: u64, values: [u64; 2], words: usize) {
        let word = (at % LINE / 8) as usize;
        self.logs.entry(at & !(LINE - 1)).or_default().items.push(Item::Store { word, values, words });
    }

    /// The contents that each line may have now; lines with only one are left out.
    pub(crate) fn options(&self, model: Model) -> LineOptions {
        let mut options = Vec::new();
        for (&line, log) in &self.logs {
            let durable = self.line(line);
            let contents = match model {
                Model::Tso => prefixes(durable, &log.items),
                Model::Weak => combinations(durable, &log.items),
            };
            if contents.len() > 1 {
                options.push((line, contents.into()));
            }
        }
        LineOptions(options)
    }

    /// Chooses one of the contents that each line may have now by `random`, which returns a number below the one given.
    /// Also returns, in words, how many of its stores each line kept. For when the [`options`](Self::options) may be
    /// very many.
    pub(super) fn crash(mut self, model: Model, mut random: impl FnMut(usize) -> usize) -> (Vec<u64>, Vec<String>) {
        let mut kept = Vec::new();
        // Often all lines have their oldest or their newest content.
        let bias = random(4);
        for (line, log) in std::mem::take(&mut self.logs) {
            let stores = log.items.iter().filter(|item| matches!(item, Item::Store { .. })).count();
            let whole = match bias {
                0 => 0,
                1 => stores,
                _ => random(stores + 1),
            };
            let content = &mut self.image[line as usize / 8..][..8];
            // The words with a store that was left out: a later store would imply it.
            let (mut seen, mut taken, mut without) = (0, 0, 0u8);
            for item in &log.items {
                let &Item::Store { word, values, words } = item else {
                    // No later store is kept if one before this order point was left out.
                    if without != 0 || seen > whole {
                        break;
                    } else {
                        continue;
                    };
                };
                let stored = ((1 << words) - 1) << word;
                seen += 1;
                let keeps = seen <= whole || (bias > 1 && model == Model::Weak && random(2) == 1);
                if keeps && without & stored == 0 {
                    content[word..word + words].copy_from_slice(&values[..words]);
                    taken += 1;
                } else if model == Model::Tso {
                    break;
                } else {
                    without |= stored;
                }
            }
            kept.push(format!("{line:#x}:{taken}/{stores}"));
        }
        (self.image, kept)
    }

    /// This image with nothing pending: what a crash left is durable.
    pub(crate) fn after_crash(&self) -> Self {
        Self { image: self.image.clone(), logs: BTreeMap::new(), hash: self.hash }
    }

    /// Sets the durable content of a line.
    pub(crate) fn set(&mut self, line: u64, content: Line) {
        self.hash ^= hash_line(line, &self.line(line)) ^ hash_line(line, &content);
        let first = line as usize / 8;
        self.image[first..first + 8].copy_from_slice(&content);
    }

    /// The durable content of a line.
    pub(super) fn line(&self, line: u64) -> Line {
        let first = line as usize / 8;
        self.image[first..first + 8].try_into().expect("a line has eight words")
    }

    /// A hash of what a crash leaves: the lines of `path` have the chosen content, the others of `options` may have any
    /// of their contents.
    pub(super) fn hash_of(&self, options: &LineOptions, path: &[Choice]) -> u64 {
        options.0.iter().fold(self.hash, |hash, (line, contents)| {
            let left = match path.iter().find(|choice| choice.line == *line) {
                Some(choice) => hash_line(*line, &contents[choice.taken]),
                None => hash_line(*line, contents.as_flattened()),
            };
            hash ^ hash_line(*line, &self.line(*line)) ^ left
        })
    }
}

/// Zero for a line of zeros, so that hashing need not start with all lines. Other lines are mixed well, because of two
/// states with the same hash only one is examined.
fn hash_line(line: u64, content: &[u64]) -> u64 {
    if content.iter().all(|&word| word == 0) {
        return 0;
    }
    let mix = |hash: u64, word: u64| {
        let hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash ^ hash >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93).rotate_left(29)
    };
    content.iter().fold(line, |hash, &word| mix(hash, word))
}

fn note(contents: &mut Vec<Line>, content: Line) {
    if !contents.contains(&content) {
        contents.push(content);
    }
}

/// The contents after each prefix of the stores.
fn prefixes(durable: Line, items: &[Item]) -> Vec<Line> {
    let mut contents = vec![durable];
    let mut content = durable;
    for item in items {
        if let Item::Store { word, values, words } = *item {
            content[word..word + words].copy_from_slice(&values[..words]);
            note(&mut contents, content);
        }
    }
    contents
}

/// The contents after all stores up to some order point, and any combination of those up to the next; but a later store
/// to a word implies the earlier ones.
fn combinations(durable: Line, items: &[Item]) -> Vec<Line> {
    let mut contents = vec![durable];
    let mut before = durable;
    for epoch in items.split(|item| matches!(item, Item::Order)) {
        // Each content comes with the words that had a store left out.
        let mut any = vec![(before, 0u8)];
        for item in epoch {
            let &Item::Store { word, values, words } = item else { continue };
            let stored = ((1 << words) - 1) << word;
            for i in 0..any.len() {
                let (mut content, without) = any[i];
                any[i].1 |= stored;
                if without & stored == 0 {
                    content[word..word + words].copy_from_slice(&values[..words]);
                    any.push((content, without));
                }
            }
            before[word..word + words].copy_from_slice(&values[..words]);
        }
        for (content, _) in any {
            note(&mut contents, content);
        }
    }
    contents
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::{Medium, Sim, Step};
    use crate::random::Random;

    /// All contents of line 0 that a crash may leave now, as the values of its first two words.
    fn states(model: Model, run: impl Fn(&Sim)) -> Vec<(u64, u64)> {
        let sim = Sim::zeroed(4096);
        run(&sim);
        let mut pending = Pending::new(vec![0; 512]);
        sim.trace().iter().for_each(|event| pending.apply(event));
        let options = pending.options(model);
        let mut states: Vec<_> = match options.0.iter().find(|(line, _)| *line == 0) {
            Some((_, contents)) => contents.iter().map(|line| (line[0], line[1])).collect(),
            None => vec![(pending.image[0], pending.image[1])],
        };
        states.sort_unstable();
        states
    }

    fn two_stores(sim: &Sim, between: impl Fn(&Sim)) {
        sim.store(0, 1);
        between(sim);
        sim.store(8, 2);
    }

    #[test]
    fn tso_keeps_prefixes() {
        assert_eq!(states(Model::Tso, |sim| two_stores(sim, |_| ())), [(0, 0), (1, 0), (1, 2)]);
    }

    #[test]
    fn weak_keeps_any_combination_without_an_order_point() {
        let any = [(0, 0), (0, 2), (1, 0), (1, 2)];
        assert_eq!(states(Model::Weak, |sim| two_stores(sim, |_| ())), any);
        assert_eq!(states(Model::Weak, |sim| two_stores(sim, |m| m.order(Step::Measure))), [(0, 0), (1, 0), (1, 2)]);
        assert_eq!(
            states(Model::Weak, |sim| two_stores(sim, |m| m.flush(0, 8, Step::Measure))),
            [(0, 0), (1, 0), (1, 2)]
        );
    }

    /// [`Pending::crash`] leaves all of the options, and nothing else.
    #[test]
    fn a_crash_leaves_each_of_the_options() {
        let run = |sim: &Sim| {
            sim.store(0, 1);
            sim.store(8, 2);
            sim.store(0, 3);
            sim.order(Step::Measure);
            sim.store_pair(16, [4, 5]);
            sim.store(8, 6);
        };
        for (model, whole_pairs) in [(Model::Tso, false), (Model::Weak, false), (Model::Weak, true)] {
            let sim = Sim::zeroed(4096).with_whole_pairs(whole_pairs);
            run(&sim);
            let mut pending = Pending::new(vec![0; 512]);
            sim.trace().iter().for_each(|event| pending.apply(event));
            let mut options = pending.options(model).0[0].1.to_vec();
            let mut numbers = Random(1);
            let mut random = |below: usize| numbers.below(below as u64) as usize;
            let left = |_| pending.clone().crash(model, &mut random).0[..8].try_into().unwrap();
            let mut left: Vec<Line> = (0..2000).map(left).collect();
            options.sort_unstable();
            left.sort_unstable();
            left.dedup();
            assert_eq!(left, options);
        }
    }

    #[test]
    fn of_one_word_the_later_store_implies_the_earlier() {
        let twice = |sim: &Sim| {
            sim.store(0, 1);
            sim.store(0, 2);
        };
        assert_eq!(states(Model::Weak, twice), [(0, 0), (1, 0), (2, 0)]);
    }

    #[test]
    fn only_a_flush_and_a_fence_make_durable() {
        for model in [Model::Tso, Model::Weak] {
            let flushed = |sim: &Sim| two_stores(sim, |m| m.flush(0, 8, Step::Measure));
            assert_eq!(states(model, flushed).len(), 3);
            assert_eq!(states(model, |sim| two_stores(sim, |m| m.fence(Step::Measure))).len(), 3);
            let persisted = |sim: &Sim| {
                two_stores(sim, |_| ());
                sim.flush(0, 16, Step::Measure);
                sim.fence(Step::Measure);
            };
            assert_eq!(states(model, persisted), [(1, 2)]);
            // A store after the flush is not covered by it.
            let late = |sim: &Sim| {
                sim.store(0, 1);
                sim.flush(0, 8, Step::Measure);
                sim.store(8, 2);
                sim.fence(Step::Measure);
            };
            assert_eq!(states(model, late), [(1, 0), (1, 2)]);
        }
    }

    #[test]
    fn a_wide_store_tears() {
        assert_eq!(states(Model::Weak, |sim| sim.store_pair(0, [1, 2])).len(), 4);
    }

    #[test]
    fn unless_the_medium_says_otherwise() {
        let states = |run: fn(&Sim)| states(Model::Weak, |sim| run(&sim.clone().with_whole_pairs(true)));
        assert_eq!(states(|sim| sim.store_pair(0, [1, 2])), [(0, 0), (1, 2)]);
        let then_one = |sim: &Sim| {
            sim.store_pair(0, [1, 2]);
            sim.store(8, 3);
        };
        assert_eq!(states(then_one), [(0, 0), (1, 2), (1, 3)]);
    }
}
