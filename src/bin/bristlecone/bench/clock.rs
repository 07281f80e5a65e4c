//! Time per operation: of batches, because reading the clock takes as long as a quick operation.

use super::Mix;
use super::phases::{self, Meter, Subject, Visit};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The times of one contestant and mix.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// Nanoseconds per operation, of each batch of all repeats.
    batches: Vec<f32>,
    /// Nanoseconds per operation, of each repeat as a whole.
    pub(crate) runs: Vec<f64>,
    /// The same in CPU time of the thread, which other processes lengthen less. Empty where the system does not tell it.
    pub(crate) cpu: Vec<f64>,
}

/// What is told of the times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    /// Of the batches.
    pub(crate) median: f64,
    /// Of the batches.
    pub(crate) p99: f64,
    /// Of the batches.
    pub(crate) min: f64,
    /// The median repeat as a whole.
    pub(crate) run: f64,
    /// The median repeat as a whole, in CPU time; NaN if unknown.
    pub(crate) cpu: f64,
}

impl Times {
    pub(crate) fn summary(mut self) -> Summary {
        self.batches.sort_unstable_by(f32::total_cmp);
        let part = |p: f64| {
            let i = (p * self.batches.len() as f64) as usize;
            self.batches.get(i.min(self.batches.len().saturating_sub(1))).copied().map_or(f64::NAN, f64::from)
        };
        Summary { median: part(0.5), p99: part(0.99), min: part(0.0), run: median(&self.runs), cpu: median(&self.cpu) }
    }
}

/// The middle one, or the mean of the middle two; NaN of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let half = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        n if n.is_multiple_of(2) => (values[half - 1] + values[half]) / 2.0,
        _ => values[half],
    }
}

/// CPU time that this thread has had, in nanoseconds, where the system tells it.
fn cpu_time() -> Option<u64> {
    // The kernel brings the figure up to date when the thread waits.
    std::thread::sleep(Duration::from_micros(1));
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// All times of one contestant.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock {
    pub(crate) batch: u64,
    pub(crate) times: BTreeMap<Mix, Times>,
}

impl Meter for Clock {
    #[inline]
    fn measure(&mut self, mix: Mix, operations: u64, mut operation: impl FnMut()) {
        let times = self.times.entry(mix).or_default();
        let batches = operations / self.batch;
        times.batches.reserve(batches as usize);
        let cpu_start = cpu_time();
        let start = Instant::now();
        let mut last = start;
        for _ in 0..batches {
            for _ in 0..self.batch {
                operation();
            }
            let now = Instant::now();
            times.batches.push((now - last).as_nanos() as f32 / self.batch as f32);
            last = now;
        }
        let timed = (batches * self.batch) as f64;
        times.runs.push((last - start).as_nanos() as f64 / timed);
        if let Some((start, end)) = cpu_start.zip(cpu_time()) {
            times.cpu.push(end.saturating_sub(start) as f64 / timed);
        }
        for _ in 0..operations % self.batch {
            operation();
        }
    }
}

/// One repeat of one contestant.
pub(crate) struct Repeat<'c> {
    pub(crate) clock: &'c mut Clock,
    pub(crate) n: u64,
    pub(crate) seed: u64,
    pub(crate) mixes: &'c [Mix],
}

impl Visit for Repeat<'_> {
    type Output = u64;

    fn visit<S: Subject>(self, subject: &mut S) -> u64 {
        phases::run(subject, self.n, self.seed, self.mixes, self.clock)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_few() {
        assert!(median(&[]).is_nan());
        assert_eq!([median(&[3.0, 1.0]), median(&[9.0, 1.0, 2.0])], [2.0, 2.0]);
    }

    #[test]
    fn all_operations_are_run_and_whole_batches_timed() {
        let mut clock = Clock { batch: 10, ..Clock::default() };
        let mut runs = 0;
        clock.measure(Mix::Get, 25, || runs += 1);
        assert_eq!((runs, clock.times[&Mix::Get].batches.len()), (25, 2));
        let summary = clock.times.remove(&Mix::Get).unwrap().summary();
        assert!(summary.min <= summary.median && summary.median <= summary.p99);
    }
}
