//! What is done to a contestant, whoever measures it.
//!
//! Every thread has a [`Worker`]. Keys have numbers; of `t` threads, thread `i` inserts and removes the numbers `i`,
//! `i + t`, `i + 2 t`, ..., and reads all of those that are known to be there.

use super::Mix;
use super::clock::Tick;
use super::keys::{Chooser, Pattern, Shuffled, Space};
use super::subject::Subject;
use crate::numbers::{Keys, Random};
use std::hint::black_box;

/// Entries of a batch.
const BATCH: usize = 1000;
/// Keys that are asked for at a time.
const GROUP: usize = 16;

/// What is to be done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job<'j> {
    pub(crate) n: u64,
    pub(crate) pattern: Pattern,
    pub(crate) threads: u32,
    pub(crate) seed: u64,
    /// In the order of [`Mix`].
    pub(crate) mixes: &'j [Mix],
}

/// The work of one thread in one phase.
pub(crate) type Work<'w> = Box<dyn FnOnce(&mut Tick) + Send + 'w>;

/// Measures one phase.
pub(crate) trait Meter {
    /// Has all the work done, at the same time if it is for several threads.
    fn measure(&mut self, mix: Mix, work: Vec<Work<'_>>);
}

/// Something that is done with a subject of whatever type.
pub(crate) trait Visit {
    type Output;
    fn visit<S: Subject>(self, subject: &S) -> Self::Output;
}

/// Inserts `n` keys into an empty subject and does everything in `mixes`, in order. The keys are computed on the way,
/// which costs every contestant the same nanosecond or two.
///
/// Returns how many gets did not find what they should: 0.
pub(crate) fn run<S: Subject>(subject: &S, job: &Job, meter: &mut dyn Meter) -> u64 {
    assert!(S::SHARED || job.threads == 1, "for one thread only");
    let mut workers: Vec<Worker<S>> = (0..job.threads.into()).map(|i| Worker::new(subject, job, i)).collect();
    let measured = job.mixes.first().is_some_and(|mix| matches!(mix, Mix::Insert | Mix::Batch));
    if !measured {
        // In turns, for the order of the keys.
        for i in 0..job.n {
            workers[(i % u64::from(job.threads)) as usize].insert();
        }
    }
    for &mix in job.mixes {
        let work = |worker| -> Work<'_> {
            let worker: &mut Worker<S> = worker;
            Box::new(move |tick| worker.work(mix, tick))
        };
        meter.measure(mix, workers.iter_mut().map(work).collect());
    }
    workers.iter().map(|worker| worker.wrong).sum()
}

/// What one thread does.
// In lines of its own: threads that write to one line slow each other down.
#[repr(align(128))]
struct Worker<'s, S> {
    subject: &'s S,
    space: Space,
    chooser: Chooser,
    /// The numbers of its keys are `first`, `first + step`, `first + 2 * step`, ...
    first: u64,
    step: u64,
    /// How many operations a phase has, and how many keys it starts with.
    share: u64,
    /// Of its keys, those from here on are in the subject, up to those before `end`.
    start: u64,
    end: u64,
    /// All keys that are there after the first phase.
    n: u64,
    updates: u64,
    wrong: u64,
}

/// The bits of a value that an update changes: some stores do nothing if a value stays the same.
pub(crate) const CHANGING: u64 = 0xff;

/// What is wrong with a value: nothing, in those bits that do not change.
#[inline]
pub(crate) fn wrong_bits(found: Option<u64>, key: u64) -> u64 {
    (found.unwrap_or(!Keys::value(key)) ^ Keys::value(key)) & !CHANGING
}

impl<'s, S: Subject> Worker<'s, S> {
    fn new(subject: &'s S, job: &Job, first: u64) -> Self {
        let step = u64::from(job.threads);
        let share = (job.n + step - 1 - first) / step;
        let random = Random::new(!job.seed.wrapping_add(first << 32));
        Self {
            subject,
            space: Space::new(job.pattern, job.seed),
            chooser: Chooser::new(job.pattern, job.n, share, random),
            first,
            step,
            share,
            start: 0,
            end: 0,
            n: job.n,
            updates: 0,
            wrong: 0,
        }
    }

    /// The `i`-th of its own keys.
    #[inline]
    fn own(&self, i: u64) -> u64 {
        self.space.key(self.first + i * self.step)
    }

    /// One of the keys that are there.
    #[inline]
    fn existing(&mut self) -> u64 {
        self.space.key(self.chooser.below(self.n))
    }

    #[inline]
    fn check(&mut self, found: Option<u64>, key: u64) {
        self.wrong += u64::from(wrong_bits(found, key) != 0);
    }

    /// The next key, and its value.
    #[inline]
    fn new_entry(&mut self) -> (u64, u64) {
        let key = self.own(self.end);
        self.end += 1;
        (key, Keys::value(key))
    }

    #[inline]
    fn insert(&mut self) {
        let (key, value) = self.new_entry();
        self.subject.insert(key, value);
    }

    #[inline]
    fn get(&mut self) {
        let key = self.existing();
        self.check(self.subject.get(key), key);
    }

    #[inline]
    fn update(&mut self) {
        let key = self.existing();
        self.change(key);
    }

    #[inline]
    fn change(&mut self, key: u64) {
        self.updates += 1;
        self.subject.update(key, Keys::value(key) ^ (self.updates & CHANGING));
    }

    /// So many operations of one kind.
    #[inline]
    fn repeat(&mut self, operations: u64, tick: &mut Tick, mut operation: impl FnMut(&mut Self)) {
        for _ in 0..operations {
            operation(self);
            tick.done(1);
        }
    }

    /// Usually one operation, in so many of a hundred cases the other.
    #[inline]
    fn either(&mut self, tick: &mut Tick, usual: impl Fn(&mut Self), percent: u64, other: impl Fn(&mut Self)) {
        self.repeat(self.share, tick, |worker| {
            if worker.chooser.random().below(100) < percent { other(worker) } else { usual(worker) }
        });
    }

    /// One phase.
    fn work(&mut self, mix: Mix, tick: &mut Tick) {
        match mix {
            Mix::Insert => self.repeat(self.share, tick, Self::insert),
            Mix::Batch => self.batches(tick),
            Mix::Get | Mix::YcsbC => self.repeat(self.share, tick, Self::get),
            Mix::Miss => self.repeat(self.share, tick, |worker| {
                let key = worker.space.absent(worker.chooser.below(worker.n));
                worker.wrong += u64::from(worker.subject.get(key).is_some());
            }),
            Mix::Dependent => self.dependent(tick),
            Mix::MultiGet => self.groups(tick),
            Mix::Update => self.repeat(self.share, tick, Self::update),
            Mix::Scan => self.subject.scan(0, |_, value| {
                black_box(value);
                tick.done(1);
                true
            }),
            Mix::Scan100 => {
                let mut left = self.share;
                while left > 0 {
                    let from = self.existing();
                    let seen = self.subject.scan100(from);
                    self.wrong += u64::from(seen == 0);
                    tick.done(seen);
                    left = left.saturating_sub(seen.max(1));
                }
            }
            Mix::YcsbA => self.either(tick, Self::get, 50, Self::update),
            Mix::YcsbB => self.either(tick, Self::get, 5, Self::update),
            Mix::YcsbD => self.either(tick, Self::get_late, 5, Self::insert),
            Mix::YcsbE => self.either(tick, Self::scan_some, 5, Self::insert),
            Mix::YcsbF => self.either(tick, Self::get, 50, Self::read_and_update),
            Mix::Mixed => self.mixed(tick),
            Mix::Remove => {
                let mut order = Shuffled::new(self.end - self.start);
                self.repeat(self.end - self.start, tick, |worker| {
                    worker.subject.remove(worker.own(worker.start + order.next()));
                });
                self.start = self.end;
            }
            Mix::Reopen | Mix::Counts => {}
        }
    }

    fn batches(&mut self, tick: &mut Tick) {
        let mut entries = Vec::with_capacity(BATCH);
        let mut left = self.share;
        while left > 0 {
            let size = left.min(BATCH as u64);
            entries.clear();
            entries.extend((0..size).map(|_| self.new_entry()));
            self.subject.insert_batch(&entries);
            tick.done(size);
            left -= size;
        }
    }

    /// The next key is known only once the value before has arrived: what differs from the value that belongs to the key
    /// before goes into it. It is nothing, which no compiler or CPU knows.
    fn dependent(&mut self, tick: &mut Tick) {
        let mut wrong = 0;
        self.repeat(self.share, tick, |worker| {
            let key = worker.existing() ^ wrong;
            wrong = wrong_bits(worker.subject.get(key), key);
            worker.wrong += u64::from(wrong != 0);
        });
    }

    fn groups(&mut self, tick: &mut Tick) {
        let mut keys = [0; GROUP];
        for _ in 0..self.share.div_ceil(GROUP as u64) {
            keys.fill_with(|| self.existing());
            let found = self.subject.multi_get(&keys);
            self.wrong += u64::from(found.len() != GROUP);
            found.into_iter().zip(keys).for_each(|(found, key)| self.check(found, key));
            tick.done(GROUP as u64);
        }
    }

    /// One of its own latest keys.
    #[inline]
    fn get_late(&mut self) {
        let back = self.chooser.back(self.end - self.start);
        let key = self.own(self.end - 1 - back);
        self.check(self.subject.get(key), key);
    }

    #[inline]
    fn scan_some(&mut self) {
        let from = self.existing();
        let limit = 1 + self.chooser.random().below(100);
        self.wrong += u64::from(self.subject.scan_some(from, limit) == 0);
    }

    #[inline]
    fn read_and_update(&mut self) {
        let key = self.existing();
        self.check(self.subject.get(key), key);
        self.change(key);
    }

    fn mixed(&mut self, tick: &mut Tick) {
        self.repeat(self.share, tick, |worker| match worker.chooser.random().word() % 4 {
            0 => worker.insert(),
            1 => {
                worker.subject.remove(worker.own(worker.start));
                worker.start += 1;
            }
            _ => {
                let i = worker.start + worker.chooser.below(worker.end - worker.start);
                let key = worker.own(i);
                worker.check(worker.subject.get(key), key);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Ordinary;
    use clap::ValueEnum;

    struct Once(Vec<(Mix, u64)>);

    impl Meter for Once {
        fn measure(&mut self, mix: Mix, work: Vec<Work<'_>>) {
            let mut tick = Tick::idle();
            work.into_iter().for_each(|work| work(&mut tick));
            self.0.push((mix, tick.operations()));
        }
    }

    fn entries(map: &Ordinary) -> u64 {
        let mut entries = 0;
        map.scan(0, |_, _| {
            entries += 1;
            true
        });
        entries
    }

    #[test]
    fn a_wrong_value_is_found_out() {
        let key = 77;
        let value = Keys::value(key);
        assert!([value, value ^ 1, value ^ CHANGING].iter().all(|&value| wrong_bits(Some(value), key) == 0));
        assert!([None, Some(value ^ 0x100), Some(0)].iter().all(|&found| wrong_bits(found, key) != 0));
    }

    fn job(mixes: &[Mix]) -> Job<'_> {
        Job { n: 1000, pattern: Pattern::Uniform, threads: 1, seed: 1, mixes }
    }

    #[test]
    fn every_phase_does_what_it_says() {
        let mut mixes: Vec<Mix> = Mix::value_variants().to_vec();
        mixes.retain(|mix| mix.is_timed() && *mix != Mix::Batch);
        for pattern in Pattern::value_variants() {
            let mut meter = Once(Vec::new());
            let map = Ordinary::default();
            assert_eq!(run(&map, &Job { pattern: *pattern, ..job(&mixes) }, &mut meter), 0);
            assert_eq!(meter.0.iter().map(|(mix, _)| *mix).collect::<Vec<_>>(), mixes);
            assert!(meter.0.iter().all(|(_, operations)| (900..1200).contains(operations)), "{:?}", meter.0);
            assert_eq!(entries(&map), 0);
        }
        for mix in [Mix::Get, Mix::Batch] {
            let map = Ordinary::default();
            assert_eq!(run(&map, &job(&[mix]), &mut Once(Vec::new())), 0);
            assert_eq!(entries(&map), 1000);
        }
    }
}
