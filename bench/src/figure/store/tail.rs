//! The 99th percentile of latencies: threads load the store, each its share, and then half of the accesses are searches
//! and half are updates of a field (workload A of YCSB, *SessionStore*).
//!
//! Each operation is timed by the clock. That of a thread that lost its processor includes the wait, so with more
//! threads than processors the 99th percentile is that of the others as long as this happens to fewer than one
//! operation in a hundred.

use super::fields::{self, Fields};
use crate::figure::medium::{Switched, Switches};
use crate::figure::plan::Plan;
use crate::figure::row::{Row, Setting};
use crate::figure::stage::Stage;
use crate::figure::tree::Contestant;
use crate::keys::{Chooser, Pattern, Space};
use crate::numbers::{Keys, Random};
use crate::out::Outcome;
use crate::phases::CHANGING;
use bristlecone::medium::{Hint, Mapped, Medium};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// The kinds of operations, in the order of the rows.
const MIXES: [&str; 3] = ["insert", "search", "update"];

/// How a store is measured.
#[derive(Clone, Copy)]
pub(crate) struct Tail<'f> {
    pub(crate) plan: &'f Plan,
    pub(crate) bytes: u32,
    pub(crate) n: u64,
    pub(crate) threads: u32,
    /// The extra nanoseconds per flushed line.
    pub(crate) slow: u64,
}

/// The nanoseconds of each operation, by its kind.
#[derive(Default)]
struct Times([Vec<u32>; MIXES.len()]);

impl Times {
    fn add(&mut self, kind: usize, operation: impl FnOnce()) {
        let start = Instant::now();
        operation();
        self.0[kind].push(start.elapsed().as_nanos().min(u32::MAX.into()) as u32);
    }

    fn append(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(all, mut more)| all.append(&mut more));
    }

    /// The 99th percentile of each kind, in microseconds.
    fn percentiles(mut self) -> [f64; MIXES.len()] {
        self.0.each_mut().map(|times| {
            let at = (times.len() * 99 / 100).min(times.len().saturating_sub(1));
            if times.is_empty() { f64::NAN } else { f64::from(*times.select_nth_unstable(at).1) / 1000.0 }
        })
    }
}

impl Tail<'_> {
    /// Lets the contestants take turns; the rows of all.
    pub(crate) fn run(&self, contestants: &[&'static Contestant]) -> Outcome<Vec<Row>> {
        let mut rows: Vec<Vec<Row>> = contestants.iter().map(|contestant| self.rows(contestant)).collect();
        for repeat in 0..self.plan.repeat {
            for (contestant, rows) in contestants.iter().zip(&mut rows) {
                rows.iter_mut().zip(self.measure(contestant, repeat)?).for_each(|(row, us)| row.series.push(us));
            }
        }
        Ok(rows.concat())
    }

    /// The rows of a contestant, without numbers.
    fn rows(&self, contestant: &Contestant) -> Vec<Row> {
        let setting = Setting { bytes: self.bytes, n: self.n, threads: self.threads, slow: Some(self.slow) };
        MIXES.map(|mix| Row::new(contestant.name, setting, mix, None)).into()
    }

    /// Measures a contestant once: the number of each of its rows.
    fn measure(&self, contestant: &Contestant, repeat: u32) -> Outcome<Vec<f64>> {
        let switches = Switches {
            slow: Duration::from_nanos(self.slow),
            no_prefetch: self.plan.no_prefetch,
            ..Switches::default()
        };
        let mut stage = Stage::new(self.plan.directory.as_deref(), contestant, (self.bytes, self.n), switches)?;
        // As many fields may be replaced as there are accesses, and readers keep blocks for a while.
        let len = (1 << 20) + self.n * 2 * fields::BYTES;
        let mapped = Mapped::create(&stage.file("values"), len, 0)?;
        // Each third insert would wait for a page otherwise, whatever its tree.
        mapped.reserve(0, len / 2)?;
        mapped.hint(0, len / 2, Hint::Fresh);
        let values = Switched::new(mapped, Switches { durable: contestant.durable, ..switches });
        let store = Fields::new(&*stage.tree, values);
        let seed = self.plan.seed.wrapping_add(repeat.into());
        let barrier = Barrier::new(self.threads as usize);
        let run = |thread: u32| self.client(&store, thread.into(), seed, &barrier);
        let found: Vec<(Times, u64)> = thread::scope(|scope| {
            let clients: Vec<_> = (0..self.threads).map(|thread| scope.spawn(move || run(thread))).collect();
            clients.into_iter().map(|client| client.join().expect("a client")).collect()
        });
        store.fault()?;
        let wrong: u64 = found.iter().map(|(_, wrong)| wrong).sum();
        if wrong > 0 {
            return Err(format!("{}: {wrong} searches did not find what they should", contestant.name).into());
        }
        drop(store);
        stage.close()?;
        let mut times = Times::default();
        found.into_iter().for_each(|(of_thread, _)| times.append(of_thread));
        Ok(times.percentiles().into())
    }

    /// What one thread does: its times, and how many searches found something wrong.
    fn client(&self, store: &Fields<'_, Switched>, thread: u64, seed: u64, barrier: &Barrier) -> (Times, u64) {
        let (threads, space) = (u64::from(self.threads), Space::new(Pattern::Uniform, seed));
        let share = (self.n + threads - 1 - thread) / threads;
        let mut chooser = Chooser::new(Pattern::Zipfian, self.n, share, Random::new(!seed.wrapping_add(thread << 32)));
        let (mut times, mut buffer, mut wrong) = (Times::default(), fields::Buffer::default(), 0);
        barrier.wait();
        for i in 0..share {
            let key = space.key(thread + i * threads);
            times.add(0, || store.insert(key, Keys::value(key), &mut buffer));
        }
        // All keys are there.
        barrier.wait();
        for i in 0..share {
            let key = space.key(chooser.below(self.n));
            if chooser.random().below(2) == 0 {
                times.add(1, || {
                    let is_right = |word: &u64| (word ^ Keys::value(key)) & !CHANGING == 0;
                    wrong += u64::from(!store.read(key).is_some_and(|words| words.iter().all(is_right)));
                });
            } else {
                let (field, word) = (chooser.random().below(fields::FIELDS), Keys::value(key) ^ (i & CHANGING));
                times.add(2, || store.update(key, field, word, &mut buffer));
            }
        }
        (times, wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::tree;

    #[test]
    fn every_kind_of_operation_is_timed() {
        let plan = Plan::of_tests(2000, 100, 2);
        for threads in [1, 3] {
            let tail = Tail { plan: &plan, bytes: 1024, n: plan.n, threads, slow: plan.slow };
            let rows = tail.run(&[tree::find("fast-fair").unwrap(), tree::find("circ").unwrap()]).unwrap();
            assert_eq!(rows.len(), 2 * MIXES.len());
            assert!(rows.iter().all(|row| row.series.len() == 2 && row.series.iter().all(|us| *us > 0.0)), "{rows:?}");
            // An insert waits for 33 lines at least, twenty of them of fields.
            assert!(rows.iter().all(|row| row.mix() != "insert" || row.series[0] > 2.2), "{rows:?}");
        }
    }

    #[test]
    fn percentiles_are_of_each_kind() {
        let times = Times([(0..1000).rev().collect(), vec![7000], Vec::new()]);
        let [insert, search, update] = times.percentiles();
        assert_eq!((insert, search), (0.99, 7.0));
        assert!(update.is_nan());
    }
}
