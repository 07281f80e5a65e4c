//! What is done to a contestant, whoever measures it.

use super::Mix;
use crate::numbers::{Keys, Random};
use bristlecone::medium::Medium;
use bristlecone::{Error, Index, Node, PTree};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::hint::black_box;

/// An ordered map from `u64` to `u64`.
pub(crate) trait Subject {
    fn insert(&mut self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    fn update(&mut self, key: u64, value: u64);
    fn remove(&mut self, key: u64);
    fn entries(&self) -> impl Iterator<Item = (u64, u64)>;
    /// The first error that came up.
    fn fault(self) -> Result<(), Error>;
}

/// A tree, with the first error that it met. In a measurement there is none, and looking each time would be measured.
pub(crate) struct Tree<N: Node, I: Index, M: Medium> {
    tree: PTree<N, I, M>,
    fault: OnceCell<Error>,
}

impl<N: Node, I: Index, M: Medium> Tree<N, I, M> {
    pub(crate) fn new(tree: PTree<N, I, M>) -> Self {
        Self { tree, fault: OnceCell::new() }
    }

    #[inline]
    fn note(&self, result: Result<Option<u64>, Error>) {
        if let Err(error) = result {
            let _ = self.fault.set(error);
        }
    }
}

impl<N: Node, I: Index, M: Medium> Subject for Tree<N, I, M> {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.note(self.tree.insert(key, value));
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.tree.get(key)
    }

    #[inline]
    fn update(&mut self, key: u64, value: u64) {
        self.note(self.tree.update(key, value));
    }

    #[inline]
    fn remove(&mut self, key: u64) {
        self.note(self.tree.remove(key));
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.tree.iter()
    }

    fn fault(self) -> Result<(), Error> {
        self.fault.into_inner().or(self.tree.fault()).map_or(Ok(()), Err)
    }
}

/// std's map.
#[derive(Default)]
pub(crate) struct Ordinary(BTreeMap<u64, u64>);

impl Subject for Ordinary {
    #[inline]
    fn insert(&mut self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    #[inline]
    fn get(&self, key: u64) -> Option<u64> {
        self.0.get(&key).copied()
    }

    #[inline]
    fn update(&mut self, key: u64, value: u64) {
        if let Some(old) = self.0.get_mut(&key) {
            *old = value;
        }
    }

    #[inline]
    fn remove(&mut self, key: u64) {
        self.0.remove(&key);
    }

    fn entries(&self) -> impl Iterator<Item = (u64, u64)> {
        self.0.iter().map(|(&key, &value)| (key, value))
    }

    fn fault(self) -> Result<(), Error> {
        Ok(())
    }
}

/// Something that is done with a subject of whatever type.
pub(crate) trait Visit {
    type Output;
    fn visit<S: Subject>(self, subject: &mut S) -> Self::Output;
}

/// Measures one phase: calls `operation` so often.
pub(crate) trait Meter {
    fn measure(&mut self, mix: Mix, operations: u64, operation: impl FnMut());
}

/// Inserts `n` keys into an empty subject and does everything in `mixes`, in order. The keys are computed on the way,
/// which costs every contestant the same nanosecond or two.
///
/// Returns how many gets did not find what they should: 0.
pub(crate) fn run<S: Subject>(subject: &mut S, n: u64, seed: u64, mixes: &[Mix], meter: &mut impl Meter) -> u64 {
    let keys = Keys::new(seed);
    let mut random = Random::new(!seed);
    let mut wrong = 0;
    // Keys from here on are in the subject, up to those before `end`.
    let (mut start, mut end) = (0, 0);

    let mut insert = || {
        let key = keys.key(end);
        end += 1;
        subject.insert(key, Keys::value(key));
    };
    if mixes.contains(&Mix::Insert) {
        meter.measure(Mix::Insert, n, insert);
    } else {
        (0..n).for_each(|_| insert());
    }
    for &mix in mixes {
        let mut check = |value: Option<u64>, key: u64| wrong += u64::from(value != Some(Keys::value(key)));
        match mix {
            Mix::Get => meter.measure(mix, n, || {
                let key = keys.key(random.below(n));
                check(subject.get(key), key);
            }),
            Mix::Update => meter.measure(mix, n, || {
                let key = keys.key(random.below(n));
                subject.update(key, Keys::value(key));
            }),
            Mix::Scan => {
                let mut entries = subject.entries();
                meter.measure(mix, n, || {
                    black_box(entries.next());
                });
            }
            Mix::Mixed => meter.measure(mix, n, || match random.word() % 4 {
                0 => {
                    let key = keys.key(end);
                    end += 1;
                    subject.insert(key, Keys::value(key));
                }
                1 => {
                    subject.remove(keys.key(start));
                    start += 1;
                }
                _ => {
                    let key = keys.key(start + random.below(end - start));
                    check(subject.get(key), key);
                }
            }),
            Mix::Remove => {
                let mut order = Shuffled::new(end - start);
                meter.measure(mix, end - start, || subject.remove(keys.key(start + order.next())));
            }
            Mix::Insert | Mix::Reopen | Mix::Counts => {}
        }
    }
    wrong
}

/// The numbers below `n`, each once, far from the order in which they were inserted.
struct Shuffled {
    n: u64,
    step: u64,
    at: u64,
}

impl Shuffled {
    fn new(n: u64) -> Self {
        let gcd = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        // About the golden section of n: neighbours land far apart.
        let mut step = (n as f64 * 0.618_033_988_75) as u64;
        while n > 1 && gcd(step, n) != 1 {
            step += 1;
        }
        Self { n, step, at: 0 }
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.at += self.step;
        if self.at >= self.n {
            self.at -= self.n;
        }
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    struct Once(Vec<(Mix, u64)>);

    impl Meter for Once {
        fn measure(&mut self, mix: Mix, operations: u64, mut operation: impl FnMut()) {
            (0..operations).for_each(|_| operation());
            self.0.push((mix, operations));
        }
    }

    #[test]
    fn a_shuffle_has_every_number_once() {
        for n in [1, 2, 3, 10, 64, 1000] {
            let mut order = Shuffled::new(n);
            let seen: HashSet<u64> = (0..n).map(|_| order.next()).collect();
            assert_eq!(seen, (0..n).collect(), "{n}");
        }
    }

    #[test]
    fn every_phase_does_what_it_says() {
        let mixes = [Mix::Insert, Mix::Get, Mix::Update, Mix::Scan, Mix::Mixed, Mix::Remove];
        let mut meter = Once(Vec::new());
        let mut map = Ordinary::default();
        assert_eq!(run(&mut map, 1000, 1, &mixes, &mut meter), 0);
        assert_eq!(meter.0.iter().map(|(mix, _)| *mix).collect::<Vec<_>>(), mixes);
        assert!(map.0.is_empty());
        assert_eq!(run(&mut map, 1000, 1, &[Mix::Get], &mut meter), 0);
        assert_eq!(map.0.len(), 1000);
    }
}
