//! Time per operation. It is measured for batches, because reading the clock takes as long as a quick operation.

use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// The times of one contestant and mix.
#[derive(Debug, Clone, Default)]
pub(crate) struct Times {
    /// Nanoseconds per operation, for each batch of all threads and repeats.
    batches: Vec<f32>,
    /// Nanoseconds per operation, for each repeat as a whole: the time from its start to its end, divided by the
    /// operations of all threads.
    pub(crate) runs: Vec<f64>,
    /// CPU nanoseconds per operation, for each repeat: those of all threads of the process, which other processes
    /// affect less. Empty where the system does not report them.
    pub(crate) cpu: Vec<f64>,
    /// CPU nanoseconds per operation, for each repeat: those of the threads that do the work, without the threads to
    /// which a contestant leaves a part of it. Empty where the system does not report them.
    pub(crate) own: Vec<f64>,
}

/// Statistics of the repeats as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Runs {
    /// NaN if there are no values.
    pub(crate) fn of(values: &[f64]) -> Self {
        Self {
            median: median(values),
            min: values.iter().copied().fold(f64::NAN, f64::min),
            max: values.iter().copied().fold(f64::NAN, f64::max),
        }
    }
}

/// What is reported about the times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Summary {
    /// Over the batches.
    pub(crate) median: f64,
    /// Over the batches.
    pub(crate) p99: f64,
    /// Over the batches.
    pub(crate) p999: f64,
    /// Over the batches.
    pub(crate) min: f64,
    /// Over the batches.
    pub(crate) max: f64,
    /// The repeats as a whole.
    pub(crate) run: Runs,
    /// The repeats as a whole, in CPU time of the process; NaN if unknown.
    pub(crate) cpu: Runs,
    /// The repeats as a whole, in CPU time of the threads that do the work; NaN if unknown.
    pub(crate) own: Runs,
}

impl Times {
    /// Adds one repeat.
    pub(crate) fn add(&mut self, spent: Spent) {
        self.runs.push(spent.run);
        self.cpu.extend(spent.cpu);
        self.own.extend(spent.own);
        self.batches.extend(spent.batches);
    }

    /// The time divided by that of another contestant in the same repeat, the median of them; in CPU time if possible.
    pub(crate) fn ratio(&self, other: &Self) -> f64 {
        if self.cpu.is_empty() { ratio(&self.runs, &other.runs) } else { ratio(&self.cpu, &other.cpu) }
    }

    pub(crate) fn summary(mut self) -> Summary {
        self.batches.sort_unstable_by(f32::total_cmp);
        let part = |p: f64| {
            let i = (p * self.batches.len() as f64) as usize;
            self.batches.get(i.min(self.batches.len().saturating_sub(1))).copied().map_or(f64::NAN, f64::from)
        };
        Summary {
            median: part(0.5),
            p99: part(0.99),
            p999: part(0.999),
            min: part(0.0),
            max: part(1.0),
            run: Runs::of(&self.runs),
            cpu: Runs::of(&self.cpu),
            own: Runs::of(&self.own),
        }
    }
}

/// The middle value, or the mean of the two middle ones; NaN if there are none.
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

/// The median of the ratios between figures of the same repeats.
pub(crate) fn ratio(values: &[f64], others: &[f64]) -> f64 {
    median(&values.iter().zip(others).map(|(value, other)| value / other).collect::<Vec<_>>())
}

/// The CPU time that this process has used, in nanoseconds, where the system reports it. It is that of the process and
/// not of the measuring threads, because some contestants let other threads do a part of the work. Everything else
/// waits meanwhile.
fn cpu_time() -> Option<f64> {
    #[cfg(target_os = "linux")]
    return Some(nanoseconds(rustix::time::ClockId::ProcessCPUTime));
    #[cfg(not(target_os = "linux"))]
    None
}

/// The CPU time that this thread has used, in nanoseconds, where the system reports it.
fn own_time() -> Option<f64> {
    #[cfg(target_os = "linux")]
    return Some(nanoseconds(rustix::time::ClockId::ThreadCPUTime));
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
fn nanoseconds(clock: rustix::time::ClockId) -> f64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// A thread tells it what it has done, so that it reads the clock once in a while.
#[derive(Debug)]
pub(crate) struct Tick {
    batch: u64,
    /// Operations since the clock was last read.
    done: u64,
    /// Operations before that.
    before: u64,
    start: Instant,
    last: Instant,
    batches: Vec<f32>,
    samples: Samples,
}

/// The times of single operations.
#[derive(Debug, Clone, Copy, Default)]
struct Samples {
    /// The sum of their logarithms.
    logarithms: f64,
    count: u64,
}

/// One operation in so many is timed by itself.
const SAMPLED: u64 = 32;

impl Tick {
    /// Starts the clock, which is read after every `batch` operations.
    fn start(batch: u64) -> Self {
        let batches = Vec::with_capacity(1 << 12);
        let start = Instant::now();
        Self { batch, done: 0, before: 0, start, last: start, batches, samples: Samples::default() }
    }

    /// A tick that never reads the clock.
    pub(crate) fn idle() -> Self {
        Self::start(u64::MAX)
    }

    /// Notes that this many operations are done.
    #[inline]
    pub(crate) fn done(&mut self, operations: u64) {
        self.done += operations;
        if self.done >= self.batch {
            self.read();
        }
    }

    #[inline(never)]
    fn read(&mut self) {
        let now = Instant::now();
        self.batches.push((now - self.last).as_nanos() as f32 / self.done as f32);
        self.last = now;
        self.before += std::mem::take(&mut self.done);
    }

    /// Runs one operation, and times some of those that are run.
    #[inline]
    pub(crate) fn time(&mut self, operation: impl FnOnce()) {
        if self.operations() % SAMPLED == SAMPLED / 2 {
            self.sample(operation)
        } else {
            operation()
        }
        self.done(1);
    }

    fn sample(&mut self, operation: impl FnOnce()) {
        // Reading the clock takes about as long as a search. What it takes by itself is measured right before.
        let start = Instant::now();
        let read = Instant::now();
        operation();
        let took = read.elapsed().saturating_sub(read - start);
        self.samples.logarithms += (took.as_nanos().max(1) as f64).ln();
        self.samples.count += 1;
    }

    /// The number of all operations.
    pub(crate) fn operations(&self) -> u64 {
        self.before + self.done
    }
}

/// The work of one thread.
pub(crate) type Work<'w> = Box<dyn FnOnce(&mut Tick) + Send + 'w>;

/// The time that some work took.
#[derive(Debug, Clone)]
pub(crate) struct Spent {
    /// Nanoseconds per operation: the time from the start to the end, divided by the operations of all threads.
    pub(crate) run: f64,
    /// CPU nanoseconds per operation, of the whole process, where the system reports them.
    pub(crate) cpu: Option<f64>,
    /// CPU nanoseconds per operation, of the threads that do the work, where the system reports them.
    own: Option<f64>,
    /// The geometric mean of the nanoseconds of single operations, by the clock, if some were timed.
    pub(crate) geometric: Option<f64>,
    /// Nanoseconds per operation, for each batch.
    batches: Vec<f32>,
}

impl Spent {
    /// Rounds of as many operations each, as one.
    pub(crate) fn together(rounds: Vec<Self>) -> Self {
        let count = rounds.len() as f64;
        Self {
            run: rounds.iter().map(|round| round.run).sum::<f64>() / count,
            cpu: rounds.iter().map(|round| round.cpu).sum::<Option<f64>>().map(|cpu| cpu / count),
            own: rounds.iter().map(|round| round.own).sum::<Option<f64>>().map(|own| own / count),
            geometric: None,
            batches: rounds.into_iter().flat_map(|round| round.batches).collect(),
        }
    }
}

/// Runs each piece of work on a thread of its own, and reads the clock after every `batch` operations.
pub(crate) fn spend(batch: u64, work: Vec<Work<'_>>) -> Spent {
    spend_and(batch, work, || ())
}

/// Runs each piece of work on a thread of its own, reads the clock after every `batch` operations, and then runs
/// `rest`: what the work has left to do. The CPU time of `rest` counts for the process, but neither for the threads nor
/// by the clock.
pub(crate) fn spend_and(batch: u64, work: Vec<Work<'_>>, rest: impl FnOnce()) -> Spent {
    let timed = |work: Work<'_>| {
        let (mut tick, own_start) = (Tick::start(batch), own_time());
        work(&mut tick);
        let end = Instant::now();
        (tick, end, own_start.zip(own_time()).map(|(start, end)| end - start))
    };
    let cpu_start = cpu_time();
    let ticks: Vec<(Tick, Instant, Option<f64>)> = if work.len() == 1 {
        work.into_iter().map(timed).collect()
    } else {
        let barrier = Barrier::new(work.len());
        thread::scope(|scope| {
            let start = |work| {
                scope.spawn(|| {
                    barrier.wait();
                    timed(work)
                })
            };
            let threads: Vec<_> = work.into_iter().map(start).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread that measures")).collect()
        })
    };
    rest();
    let cpu_end = cpu_time();
    let operations = ticks.iter().map(|(tick, ..)| tick.operations()).sum::<u64>() as f64;
    let samples = ticks.iter().fold(Samples::default(), |all, (tick, ..)| Samples {
        logarithms: all.logarithms + tick.samples.logarithms,
        count: all.count + tick.samples.count,
    });
    let start = ticks.iter().map(|(tick, ..)| tick.start).min();
    let end = ticks.iter().map(|(_, end, _)| *end).max();
    Spent {
        run: start.zip(end).map_or(f64::NAN, |(start, end)| (end - start).as_nanos() as f64 / operations),
        cpu: cpu_start.zip(cpu_end).map(|(start, end)| (end - start) / operations),
        own: ticks.iter().map(|(.., own)| *own).sum::<Option<f64>>().map(|own| own / operations),
        geometric: (samples.count > 0).then(|| (samples.logarithms / samples.count as f64).exp()),
        batches: ticks.into_iter().flat_map(|(tick, ..)| tick.batches).collect(),
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
    fn the_clock_is_read_once_a_batch() {
        let mut times = Times::default();
        let work = |tick: &mut Tick| (0..25).for_each(|_| tick.done(1));
        times.add(spend(10, vec![Box::new(work)]));
        times.add(spend(10, vec![Box::new(work), Box::new(work)]));
        assert_eq!((times.batches.len(), times.runs.len()), (6, 2));
        times.add(Spent::together(vec![spend(10, vec![Box::new(work)]), spend(10, vec![Box::new(work)])]));
        assert_eq!((times.batches.len(), times.runs.len()), (10, 3));
        let summary = times.summary();
        assert!(summary.min <= summary.median && summary.median <= summary.p99 && summary.p99 <= summary.p999);
        assert!(summary.run.min <= summary.run.median && summary.run.median <= summary.run.max);
    }
}
