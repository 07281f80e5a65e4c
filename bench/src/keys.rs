//! Which keys are used, and which of them comes next.
//!
//! Everything here runs inside what is timed, so it costs the same nanosecond or two for every contestant. What would
//! take longer, the ranks of a Zipf distribution, is computed before.

use crate::numbers::{Keys, Random, mix};
use clap::ValueEnum;

/// The order of inserts, and which keys are accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Pattern {
    /// Random keys, each as likely as another
    #[default]
    Uniform,
    /// Random keys; accessed are few of them often, with exponent 0.99 (inserts are as with uniform)
    Zipfian,
    /// Inserted from the least to the greatest, densely; accessed as with uniform
    Ascending,
    /// Inserted from the greatest to the least, densely; accessed as with uniform
    Descending,
    /// Inserted in runs of 64 neighbours at random places; accessed as with uniform
    Clustered,
}

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Zipfian => "zipfian",
            Self::Ascending => "ascending",
            Self::Descending => "descending",
            Self::Clustered => "clustered",
        }
    }
}

/// Neighbours in a run of [`Pattern::Clustered`].
const RUN: u64 = 64;
/// Greater than all keys of [`Pattern::Descending`].
const TOP: u64 = 1 << 48;
/// Numbers of keys that are never inserted start here.
const ABSENT: u64 = 1 << 48;

/// The keys by number: every number has its own key, and the numbers are in the order of the inserts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Space {
    pattern: Pattern,
    keys: Keys,
    seed: u64,
}

impl Space {
    pub(crate) fn new(pattern: Pattern, seed: u64) -> Self {
        Self { pattern, keys: Keys::new(seed), seed: mix(seed) }
    }

    /// The `i`-th key. Dense keys are even, to leave room for [`absent`](Self::absent) ones.
    #[inline]
    pub(crate) fn key(&self, i: u64) -> u64 {
        match self.pattern {
            Pattern::Uniform | Pattern::Zipfian => self.keys.key(i),
            Pattern::Ascending => 2 * i,
            Pattern::Descending => TOP - 2 * i,
            Pattern::Clustered => (scatter(self.seed.wrapping_add(i / RUN)) * RUN + i % RUN) * 2,
        }
    }

    /// A key that is never inserted, in between those that are.
    #[inline]
    pub(crate) fn absent(&self, i: u64) -> u64 {
        match self.pattern {
            Pattern::Uniform | Pattern::Zipfian => self.keys.key(ABSENT + i),
            Pattern::Ascending | Pattern::Descending | Pattern::Clustered => self.key(i) + 1,
        }
    }
}

/// A bijection of 57-bit words that scatters neighbours, as [`mix`] does for 64 bits. Such a word, the position in its
/// run and the bit that marks absent keys together make a key.
#[inline]
fn scatter(x: u64) -> u64 {
    const MASK: u64 = (1 << 57) - 1;
    let mut x = x & MASK;
    x = (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) & MASK;
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) & MASK;
    x ^ (x >> 30)
}

/// Chooses among the numbers of keys that are there.
#[derive(Debug)]
pub(crate) struct Chooser {
    random: Random,
    /// Ranks that were drawn beforehand, and are used again and again; empty if all keys are equally likely.
    ranks: Vec<u32>,
    at: usize,
}

impl Chooser {
    /// A chooser that will be asked about `draws` times for one of `n` numbers.
    pub(crate) fn new(pattern: Pattern, n: u64, draws: u64, mut random: Random) -> Self {
        let ranks = match pattern {
            Pattern::Zipfian => {
                let zipf = Zipf::new(n);
                (0..draws.max(1)).map(|_| zipf.rank(&mut random)).collect()
            }
            _ => Vec::new(),
        };
        Self { random, ranks, at: 0 }
    }

    pub(crate) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    /// One of the numbers below `n`.
    #[inline]
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        match self.rank() {
            None => self.random.below(n),
            // Scattered, so that the keys that are accessed often are not those that were inserted first.
            Some(rank) => Random::scale(mix(rank), n),
        }
    }

    /// How far back one of `n` lies; most often not far.
    #[inline]
    pub(crate) fn back(&mut self, n: u64) -> u64 {
        match self.rank() {
            // The product of two uniform numbers is usually small.
            None => {
                let far = self.random.below(n);
                self.random.below(far + 1)
            }
            // Ranks may be greater, where several threads share the keys. They go round, so that the furthest key is
            // not where all of these end; that nearer ones come more often stays true.
            Some(rank) => rank % n,
        }
    }

    #[inline]
    fn rank(&mut self) -> Option<u64> {
        let rank = *self.ranks.get(self.at)?;
        self.at += 1;
        if self.at == self.ranks.len() {
            self.at = 0;
        }
        Some(rank.into())
    }
}

/// The Zipf distribution with exponent 0.99: rank `r` is drawn with a probability proportional to `1 / (r + 1)^0.99`.
///
/// From Gray et al., Quickly generating billion-record synthetic databases, SIGMOD 1994, as in YCSB.
#[derive(Debug)]
struct Zipf {
    n: f64,
    zeta: f64,
    eta: f64,
}

impl Zipf {
    const THETA: f64 = 0.99;

    fn new(n: u64) -> Self {
        let zeta = Self::zeta(n);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - Self::THETA)) / (1.0 - Self::zeta(n.min(2)) / zeta);
        Self { n: n as f64, zeta, eta }
    }

    /// The sum of `1 / r^0.99` up to `n`. Beyond the first terms it uses the integral, which is off by less than a
    /// millionth.
    fn zeta(n: u64) -> f64 {
        const EXACT: u64 = 1000;
        let exact: f64 = (1..=n.min(EXACT)).map(|r| (r as f64).powf(-Self::THETA)).sum();
        let integral = |x: f64| x.powf(1.0 - Self::THETA) / (1.0 - Self::THETA);
        let rest = if n > EXACT { integral(n as f64 + 0.5) - integral(EXACT as f64 + 0.5) } else { 0.0 };
        exact + rest
    }

    fn rank(&self, random: &mut Random) -> u32 {
        let u = (random.word() >> 11) as f64 / (1u64 << 53) as f64;
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + 0.5f64.powf(Self::THETA) {
            return 1.min(self.n as u32 - 1);
        }
        let rank = self.n * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - Self::THETA));
        rank.min(self.n - 1.0) as u32
    }
}

/// The numbers below `n`, each once, in an order very different from that of the inserts.
#[derive(Debug)]
pub(crate) struct Shuffled {
    n: u64,
    step: u64,
    at: u64,
}

impl Shuffled {
    pub(crate) fn new(n: u64) -> Self {
        let gcd = |mut a: u64, mut b: u64| {
            while b != 0 {
                (a, b) = (b, a % b);
            }
            a
        };
        // About the golden ratio of n: neighbours land far apart.
        let mut step = (n as f64 * 0.618_033_988_75) as u64;
        while n > 1 && gcd(step, n) != 1 {
            step += 1;
        }
        Self { n, step, at: 0 }
    }

    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
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

    #[test]
    fn a_shuffle_has_every_number_once() {
        for n in [1, 2, 3, 10, 64, 1000] {
            let mut order = Shuffled::new(n);
            let seen: HashSet<u64> = (0..n).map(|_| order.next()).collect();
            assert_eq!(seen, (0..n).collect(), "{n}");
        }
    }

    #[test]
    fn no_key_is_there_twice_and_no_absent_one_at_all() {
        for pattern in Pattern::value_variants() {
            let space = Space::new(*pattern, 5);
            let keys: HashSet<u64> = (0..10_000).map(|i| space.key(i)).collect();
            assert_eq!(keys.len(), 10_000, "{pattern:?}");
            assert!((0..10_000).all(|i| !keys.contains(&space.absent(i))), "{pattern:?}");
        }
    }

    #[test]
    fn patterns_are_in_their_order() {
        let keys = |pattern| (0..1000).map(|i| Space::new(pattern, 9).key(i)).collect::<Vec<_>>();
        assert!(keys(Pattern::Ascending).is_sorted());
        assert!(keys(Pattern::Descending).iter().rev().is_sorted());
        assert_eq!(keys(Pattern::Zipfian), keys(Pattern::Uniform));
        let clustered = keys(Pattern::Clustered);
        assert!(clustered.chunks(RUN as usize).all(|run| run[run.len() - 1] - run[0] == (run.len() as u64 - 1) * 2));
        assert!(!clustered.is_sorted());
    }

    #[test]
    fn the_scatter_of_57_bits_is_a_bijection() {
        let seen: HashSet<u64> = (0..100_000).map(scatter).collect();
        assert!(seen.len() == 100_000 && seen.iter().all(|&x| x < 1 << 57));
    }

    #[test]
    fn zipf_ranks_are_as_often_as_they_should_be() {
        let n = 10_000;
        let draws = 200_000;
        let (zipf, mut random) = (Zipf::new(n), Random::new(3));
        let mut hits = vec![0u32; n as usize];
        (0..draws).for_each(|_| hits[zipf.rank(&mut random) as usize] += 1);
        let zeta: f64 = (1..=n).map(|r| (r as f64).powf(-0.99)).sum();
        assert!((zipf.zeta / zeta - 1.0).abs() < 1e-6);
        let share = |ranks: &[u32]| f64::from(ranks.iter().sum::<u32>()) / f64::from(draws);
        let expected = |ranks: u64| (1..=ranks).map(|r| (r as f64).powf(-0.99)).sum::<f64>() / zeta;
        for ranks in [1, 2, 10, 100, 1000] {
            let (share, expected) = (share(&hits[..ranks]), expected(ranks as u64));
            assert!((share / expected - 1.0).abs() < 0.05, "{ranks}: {share} {expected}");
        }
    }

    #[test]
    fn choices_stay_below_their_limit() {
        for pattern in [Pattern::Uniform, Pattern::Zipfian] {
            let mut chooser = Chooser::new(pattern, 1000, 500, Random::new(1));
            assert!((0..2000).all(|_| chooser.below(1000) < 1000 && chooser.back(30) < 30));
            let mut few = Chooser::new(pattern, 1, 10, Random::new(1));
            assert_eq!((few.below(1), few.back(1)), (0, 0));
        }
    }

    #[test]
    fn few_look_back_as_far_as_they_can() {
        let mut chooser = Chooser::new(Pattern::Zipfian, 32_000, 20_000, Random::new(1));
        let mut hits = vec![0_u32; 1000];
        (0..20_000).for_each(|_| hits[chooser.back(1000) as usize] += 1);
        assert!(hits[0] > 1000 && hits[999] < 50, "{} {}", hits[0], hits[999]);
    }
}
