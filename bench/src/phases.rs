//! What is done to a contestant, for all kinds of measurement.
//!
//! Every thread has a [`Worker`]. Keys have numbers; with `t` threads, thread `i` inserts and removes the numbers `i`,
//! `i + t`, `i + 2 t`, ..., and reads any of those that are known to be there.

use crate::clock::{Tick, Work};
use crate::entry::{Entry, Kind, Words};
use crate::keys::{Chooser, Pattern, Shuffled, Space};
use crate::mix::Mix;
use crate::numbers::{Keys, Random};
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use std::hint::black_box;

/// Entries per batch.
const BATCH: usize = 1000;
/// Keys that are looked up at a time, and entries of a small batch.
const GROUP: usize = 16;

/// The keys, and the threads that work with them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) kind: Kind,
    pub(crate) n: u64,
    /// The operations of a phase that neither inserts nor removes all keys; `None`: as many as there are keys.
    pub(crate) operations: Option<u64>,
    pub(crate) pattern: Pattern,
    pub(crate) threads: u32,
    pub(crate) seed: u64,
}

/// A subject during a measurement. Its type is known inside a phase but not outside, so that one call per phase is
/// indirect, and no call per operation.
pub(crate) trait Trial {
    /// Inserts all keys, in the order of their numbers. The subject is empty.
    fn fill(&mut self);

    /// The work of one phase, one piece per thread. Keys and values are made on the way, which costs every contestant
    /// the same.
    fn work(&mut self, mix: Mix) -> Vec<Work<'_>> {
        self.each(&[mix])
    }

    /// The work of several phases, one piece per thread: the threads take the phases in turn.
    fn each(&mut self, mixes: &[Mix]) -> Vec<Work<'_>>;

    /// Makes each phase a round: one of so many parts of what it would do otherwise.
    fn divide(&mut self, rounds: u64);

    /// The first error that occurred; a get that did not find what it should counts as one.
    fn fault(&self) -> Outcome<()>;
}

/// Does everything in `mixes`, in order, to a subject that is empty; `measure` runs the work of one phase.
pub(crate) fn run(trial: &mut dyn Trial, mixes: &[Mix], mut measure: impl FnMut(Mix, Vec<Work<'_>>)) -> Outcome<()> {
    if !mixes.first().is_some_and(|mix| mix.fills()) {
        trial.fill();
    }
    for &mix in mixes {
        measure(mix, trial.work(mix));
    }
    trial.fault()
}

/// A subject and the threads that work on it.
pub(crate) struct Phases<S, E: Entry = Words> {
    subject: S,
    n: u64,
    workers: Vec<Worker<E>>,
}

impl<E: Entry, S: OrderedMap<E>> Phases<S, E> {
    pub(crate) fn new(subject: S, entry: E, load: &Workload) -> Self {
        assert!(subject.is_shared() || load.threads == 1, "for one thread only");
        let workers = (0..load.threads.into()).map(|first| Worker::new(entry, load, first)).collect();
        Self { subject, n: load.n, workers }
    }
}

impl<E: Entry, S: OrderedMap<E>> Trial for Phases<S, E> {
    fn fill(&mut self) {
        let threads = self.workers.len() as u64;
        for i in 0..self.n {
            self.workers[(i % threads) as usize].insert(&self.subject);
        }
    }

    fn each(&mut self, mixes: &[Mix]) -> Vec<Work<'_>> {
        let subject = &self.subject;
        let work = |(worker, &mix)| -> Work<'_> {
            let worker: &mut Worker<E> = worker;
            Box::new(move |tick| worker.work(subject, mix, tick))
        };
        self.workers.iter_mut().zip(mixes.iter().cycle()).map(work).collect()
    }

    fn divide(&mut self, rounds: u64) {
        for worker in &mut self.workers {
            worker.share = (worker.share / rounds).max(1);
            worker.inserts = (worker.inserts / rounds).max(1);
        }
    }

    fn fault(&self) -> Outcome<()> {
        self.subject.fault()?;
        match self.workers.iter().map(|worker| worker.wrong).sum() {
            0u64 => Ok(()),
            wrong => Err(format!("{wrong} operations did not find what they should").into()),
        }
    }
}

/// The operations of one thread.
// In lines of its own: threads that write to one line slow each other down.
#[repr(align(128))]
struct Worker<E: Entry> {
    entry: E,
    key: E::KeyBuffer,
    value: E::ValueBuffer,
    space: Space,
    chooser: Chooser,
    /// The numbers of its keys are `first`, `first + step`, `first + 2 * step`, ...
    first: u64,
    step: u64,
    /// How many operations a phase has.
    share: u64,
    /// How many operations a phase has that inserts all keys.
    inserts: u64,
    /// The first of the thread's keys that is in the subject: the keys from `start` up to, but not including, `end`
    /// are.
    start: u64,
    end: u64,
    /// The number of all keys that are there after the first phase.
    n: u64,
    updates: u64,
    wrong: u64,
}

/// The bits of a value that an update changes: some stores do nothing if a value stays the same.
pub(crate) const CHANGING: u64 = 0xff;

/// The wrong bits of a value, among those that an update does not change; 0 if it is right.
#[inline]
pub(crate) fn wrong_bits(found: Option<u64>, key: u64) -> u64 {
    (found.unwrap_or(!Keys::value(key)) ^ Keys::value(key)) & !CHANGING
}

impl<E: Entry> Worker<E> {
    fn new(entry: E, load: &Workload, first: u64) -> Self {
        let step = u64::from(load.threads);
        let share_of = |all: u64| (all + step - 1 - first) / step;
        let (inserts, share) = (share_of(load.n), share_of(load.operations.unwrap_or(load.n)));
        let random = Random::new(!load.seed.wrapping_add(first << 32));
        Self {
            entry,
            key: E::KeyBuffer::default(),
            value: E::ValueBuffer::default(),
            space: Space::new(load.pattern, load.seed),
            chooser: Chooser::new(load.pattern, load.n, share, random),
            first,
            step,
            share,
            inserts,
            start: 0,
            end: 0,
            n: load.n,
            updates: 0,
            wrong: 0,
        }
    }

    /// The number of the `i`-th of its own keys.
    #[inline]
    fn own(&self, i: u64) -> u64 {
        self.space.key(self.first + i * self.step)
    }

    /// The number of one of the keys that are there.
    #[inline]
    fn existing(&mut self) -> u64 {
        self.space.key(self.chooser.below(self.n))
    }

    #[inline]
    fn check(&mut self, found: Option<u64>, number: u64) {
        self.wrong += u64::from(wrong_bits(found, number) != 0);
    }

    /// The number of the next new key.
    #[inline]
    fn new_key(&mut self) -> u64 {
        let number = self.own(self.end);
        self.end += 1;
        number
    }

    #[inline]
    fn insert(&mut self, subject: &impl OrderedMap<E>) {
        let number = self.new_key();
        let value = self.entry.value(Keys::value(number), &mut self.value);
        subject.insert(self.entry.key(number, &mut self.key), value);
    }

    #[inline]
    fn remove(&mut self, subject: &impl OrderedMap<E>, number: u64) {
        subject.remove(self.entry.key(number, &mut self.key));
    }

    /// What is found at a key.
    #[inline]
    fn found(&mut self, subject: &impl OrderedMap<E>, number: u64) -> Option<u64> {
        subject.get(self.entry.key(number, &mut self.key))
    }

    /// Gets a key that is there.
    #[inline]
    fn get_one(&mut self, subject: &impl OrderedMap<E>, number: u64) {
        let found = self.found(subject, number);
        self.check(found, number);
    }

    #[inline]
    fn get(&mut self, subject: &impl OrderedMap<E>) {
        let number = self.existing();
        self.get_one(subject, number);
    }

    #[inline]
    fn update(&mut self, subject: &impl OrderedMap<E>) {
        let number = self.existing();
        self.change(subject, number);
    }

    #[inline]
    fn change(&mut self, subject: &impl OrderedMap<E>, number: u64) {
        self.updates += 1;
        let value = self.entry.value(Keys::value(number) ^ (self.updates & CHANGING), &mut self.value);
        subject.update(self.entry.key(number, &mut self.key), value);
    }

    /// Does one kind of operation this many times.
    #[inline]
    fn repeat(&mut self, operations: u64, tick: &mut Tick, mut operation: impl FnMut(&mut Self)) {
        for _ in 0..operations {
            operation(self);
            tick.done(1);
        }
    }

    /// Usually does one operation, but in `percent` percent of the cases the other.
    #[inline]
    fn either(&mut self, tick: &mut Tick, usual: impl Fn(&mut Self), percent: u64, other: impl Fn(&mut Self)) {
        self.repeat(self.share, tick, |worker| {
            if worker.chooser.random().below(100) < percent { other(worker) } else { usual(worker) }
        });
    }

    /// Does one phase.
    fn work(&mut self, subject: &impl OrderedMap<E>, mix: Mix, tick: &mut Tick) {
        match mix {
            Mix::Insert => self.repeat(self.inserts, tick, |worker| worker.insert(subject)),
            Mix::Batch => self.batches::<BATCH>(subject, tick),
            Mix::Batch16 => self.batches::<GROUP>(subject, tick),
            Mix::Get | Mix::YcsbC => self.repeat(self.share, tick, |worker| worker.get(subject)),
            Mix::Miss => self.repeat(self.share, tick, |worker| {
                let number = worker.space.absent(worker.chooser.below(worker.n));
                worker.wrong += u64::from(worker.found(subject, number).is_some());
            }),
            Mix::Dependent => self.dependent(subject, tick),
            Mix::MultiGet => self.groups(subject, tick),
            Mix::Update => self.repeat(self.share, tick, |worker| worker.update(subject)),
            Mix::Scan => subject.scan(E::least(), |key, value| {
                black_box(E::read_entry(key, value));
                tick.done(1);
                true
            }),
            Mix::Scan100 => {
                let mut left = self.share;
                while left > 0 {
                    let from = self.existing();
                    let seen = subject.scan100(self.entry.key(from, &mut self.key));
                    self.wrong += u64::from(seen == 0);
                    tick.done(seen);
                    left = left.saturating_sub(seen.max(1));
                }
            }
            Mix::YcsbA => self.either(tick, |worker| worker.get(subject), 50, |worker| worker.update(subject)),
            Mix::YcsbB => self.either(tick, |worker| worker.get(subject), 5, |worker| worker.update(subject)),
            Mix::YcsbD => self.either(tick, |worker| worker.get_late(subject), 5, |worker| worker.insert(subject)),
            Mix::YcsbE => self.either(tick, |worker| worker.scan_some(subject), 5, |worker| worker.insert(subject)),
            Mix::YcsbF => self.either(tick, |worker| worker.get(subject), 50, |worker| worker.read_and_update(subject)),
            Mix::Mixed => self.mixed(subject, tick),
            Mix::Remove => {
                let mut order = Shuffled::new(self.end - self.start);
                self.repeat(self.end - self.start, tick, |worker| {
                    let number = worker.own(worker.start + order.next());
                    worker.remove(subject, number);
                });
                self.start = self.end;
            }
            Mix::Reopen | Mix::Cold | Mix::Space | Mix::Limits | Mix::Counts => {}
            Mix::Transaction
            | Mix::Conflict
            | Mix::Snapshot
            | Mix::Backup
            | Mix::Pauses
            | Mix::Journal
            | Mix::Durable => {}
        }
    }

    fn batches<const SIZE: usize>(&mut self, subject: &impl OrderedMap<E>, tick: &mut Tick) {
        let mut buffers: Vec<(E::KeyBuffer, E::ValueBuffer)> = (0..SIZE).map(|_| Default::default()).collect();
        let mut left = self.inserts;
        while left > 0 {
            let size = left.min(SIZE as u64);
            let mut entries = Vec::with_capacity(SIZE);
            for (key, value) in &mut buffers[..size as usize] {
                let (entry, number) = (self.entry, self.new_key());
                entries.push((entry.key(number, key), entry.value(Keys::value(number), value)));
            }
            subject.insert_batch(&entries);
            tick.done(size);
            left -= size;
        }
    }

    /// The next key is known only once the previous value has arrived, because the difference of that value from the
    /// expected one goes into the key. The difference is 0, but neither compiler nor CPU can know that.
    fn dependent(&mut self, subject: &impl OrderedMap<E>, tick: &mut Tick) {
        let mut wrong = 0;
        self.repeat(self.share, tick, |worker| {
            let number = worker.existing() ^ wrong;
            wrong = wrong_bits(worker.found(subject, number), number);
            worker.wrong += u64::from(wrong != 0);
        });
    }

    fn groups(&mut self, subject: &impl OrderedMap<E>, tick: &mut Tick) {
        let mut buffers: [E::KeyBuffer; GROUP] = Default::default();
        let mut numbers = [0; GROUP];
        for _ in 0..self.share.div_ceil(GROUP as u64) {
            numbers.fill_with(|| self.existing());
            let mut buffers = buffers.iter_mut();
            let keys = numbers.map(|number| self.entry.key(number, buffers.next().expect("a buffer for each key")));
            let found = subject.multi_get(&keys);
            self.wrong += u64::from(found.len() != GROUP);
            found.into_iter().zip(numbers).for_each(|(found, number)| self.check(found, number));
            tick.done(GROUP as u64);
        }
    }

    /// Gets one of its own latest keys.
    #[inline]
    fn get_late(&mut self, subject: &impl OrderedMap<E>) {
        let back = self.chooser.back(self.end - self.start);
        let number = self.own(self.end - 1 - back);
        self.get_one(subject, number);
    }

    #[inline]
    fn scan_some(&mut self, subject: &impl OrderedMap<E>) {
        let from = self.existing();
        let limit = 1 + self.chooser.random().below(100);
        let seen = subject.scan_some(self.entry.key(from, &mut self.key), limit);
        self.wrong += u64::from(seen == 0);
    }

    #[inline]
    fn read_and_update(&mut self, subject: &impl OrderedMap<E>) {
        let number = self.existing();
        self.get_one(subject, number);
        self.change(subject, number);
    }

    fn mixed(&mut self, subject: &impl OrderedMap<E>, tick: &mut Tick) {
        self.repeat(self.share, tick, |worker| match worker.chooser.random().word() % 4 {
            0 => worker.insert(subject),
            // One stays: with many operations on few keys, a thread would run out of them in time.
            1 if worker.end - worker.start > 1 => {
                let number = worker.own(worker.start);
                worker.remove(subject, number);
                worker.start += 1;
            }
            _ => {
                let i = worker.start + worker.chooser.below(worker.end - worker.start);
                let number = worker.own(i);
                worker.get_one(subject, number);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btreemap::Ordinary;
    use clap::ValueEnum;

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

    /// Does everything in `mixes` to a map; returns how many operations each had, and how many entries are left.
    fn done(mixes: &[Mix], pattern: Pattern) -> (Vec<(Mix, u64)>, u64) {
        let load = Workload { kind: Kind::Words, n: 1000, operations: None, pattern, threads: 1, seed: 1 };
        let mut phases = Phases::new(Ordinary::default(), Words, &load);
        let mut operations = Vec::new();
        let measure = |mix, work: Vec<Work<'_>>| {
            let mut tick = Tick::idle();
            work.into_iter().for_each(|work| work(&mut tick));
            operations.push((mix, tick.operations()));
        };
        run(&mut phases, mixes, measure).unwrap();
        (operations, entries(&phases.subject))
    }

    #[test]
    fn every_phase_does_what_it_says() {
        let mut mixes: Vec<Mix> = Mix::value_variants().to_vec();
        mixes.retain(|mix| mix.is_timed() && !mix.is_of_batches());
        for &pattern in Pattern::value_variants() {
            let (operations, left) = done(&mixes, pattern);
            assert_eq!(operations.iter().map(|(mix, _)| *mix).collect::<Vec<_>>(), mixes);
            assert!(operations.iter().all(|(_, operations)| (900..1200).contains(operations)), "{operations:?}");
            assert_eq!(left, 0);
        }
        for mix in [Mix::Get, Mix::Batch, Mix::Batch16] {
            assert_eq!(done(&[mix], Pattern::Uniform).1, 1000);
        }
    }

    #[test]
    fn what_is_not_found_is_told() {
        let load =
            Workload { kind: Kind::Words, n: 1000, operations: None, pattern: Pattern::Uniform, threads: 1, seed: 1 };
        let mut phases = Phases::new(Ordinary::default(), Words, &load);
        assert!(
            run(&mut phases, &[Mix::Insert, Mix::Get], |mix, mut work| {
                // Skips the inserts.
                if mix == Mix::Get {
                    work.remove(0)(&mut Tick::idle());
                }
            })
            .is_err_and(|error| error.to_string().contains("1000 operations"))
        );
    }

    #[test]
    fn many_operations_on_few_keys_find_what_they_should() {
        let (kind, pattern) = (Kind::Words, Pattern::Uniform);
        let load = Workload { kind, n: 2, operations: Some(10_000), pattern, threads: 1, seed: 1 };
        let mut phases = Phases::new(Ordinary::default(), Words, &load);
        let mut done = 0;
        run(&mut phases, &[Mix::Insert, Mix::Mixed, Mix::Remove], |_, work| {
            for work in work {
                let mut tick = Tick::idle();
                work(&mut tick);
                done += tick.operations();
            }
        })
        .unwrap();
        assert!(done > 10_000, "{done}");
        assert_eq!(entries(&phases.subject), 0);
    }
}
