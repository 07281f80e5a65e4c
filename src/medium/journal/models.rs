//! loom models of the journal: threads that append against one that syncs, a ring that is full, failures, and several
//! threads that sync at once. What is in the log is compared with what was promised.
//!
//! What the model does not branch at (a file, flags of the models) is shared at once by all threads.

use super::Journal;
use super::disk::Disk;
use super::engine::Engine;
use super::frame::{Mark, entries};
use super::header::{Header, Seat};
use super::log::Frames;
use super::marker::Marker;
use super::memory::Memory;
use super::open;
use super::ring::{Ring, take_left};
use super::rule::{Rule, leave_out};
use super::sealed::word;
use crate::sync::{AtomicU64, Ordering, set_sequential, yield_now};
use loom::sync::Arc;
use loom::thread;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};

const LEN: u64 = 4096;
const UUID: [u64; 2] = [7, 8];

/// A file: what is on the disk, what the system shows, and how many syncs come before one that fails.
#[derive(Default)]
struct File {
    durable: Vec<u8>,
    cached: Vec<u8>,
    /// What was written since the last sync.
    pending: Vec<(usize, Vec<u8>)>,
    fails_after: Option<u32>,
}

#[derive(Clone, Default)]
struct ModelDisk {
    file: std::sync::Arc<Mutex<File>>,
    /// Where others may come in.
    point: std::sync::Arc<AtomicU64>,
}

impl ModelDisk {
    fn fail_after(&self, syncs: u32) {
        self.file.lock().unwrap().fails_after = Some(syncs);
    }

    /// What a loss of power would leave.
    fn after_power_loss(&self) -> Self {
        let durable = self.file.lock().unwrap().durable.clone();
        let file = File { cached: durable.clone(), durable, ..File::default() };
        Self { file: std::sync::Arc::new(Mutex::new(file)), ..Self::default() }
    }
}

impl Disk for ModelDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().unwrap().cached.len() as u64)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.file.lock().unwrap();
        bytes.copy_from_slice(&file.cached[at as usize..at as usize + bytes.len()]);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.point.fetch_add(1, Ordering::AcqRel);
        let mut file = self.file.lock().unwrap();
        let end = at as usize + bytes.len();
        let len = file.cached.len().max(end);
        file.cached.resize(len, 0);
        file.cached[at as usize..end].copy_from_slice(bytes);
        file.pending.push((at as usize, bytes.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        yield_now();
        self.point.fetch_add(1, Ordering::AcqRel);
        let mut guard = self.file.lock().unwrap();
        let file = &mut *guard;
        let pending = std::mem::take(&mut file.pending);
        file.durable.resize(file.cached.len(), 0);
        if file.fails_after == Some(0) {
            // The error is told once. What was written is lost, and shown.
            file.fails_after = None;
            return Err(io::ErrorKind::Other.into());
        }
        file.fails_after = file.fails_after.map(|left| left - 1);
        pending.iter().for_each(|(at, bytes)| file.durable[*at..at + bytes.len()].copy_from_slice(bytes));
        Ok(())
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes)?;
        self.sync()
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        self.write(at, &vec![0; len as usize])
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.file.lock().unwrap().cached.truncate(len as usize);
        Ok(())
    }

    fn is_gone(&self) -> bool {
        false
    }
}

/// A ring, what the next process finds under its name, and the one that has no name yet.
#[derive(Clone)]
struct ModelMemory(Words, std::sync::Arc<Mutex<Option<Words>>>, std::sync::Arc<std::sync::Mutex<Option<Words>>>);

type Words = std::sync::Arc<[AtomicU64]>;

impl ModelMemory {
    fn new(cells: u64) -> Self {
        let words: Words = (0..super::memory::words(cells)).map(|_| AtomicU64::new(0)).collect();
        Self(words.clone(), std::sync::Arc::new(Mutex::new(Some(words))), Default::default())
    }

    fn lose_name(&self) {
        *self.1.lock().unwrap() = None;
    }

    fn found(&self) -> Option<Words> {
        self.1.lock().unwrap().clone()
    }
}

impl Memory for ModelMemory {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }

    fn write_through(&self, at: usize, words: &[u64]) -> io::Result<()> {
        self.0[at..].iter().zip(words).for_each(|(word, &new)| word.store(new, Ordering::Release));
        Ok(())
    }

    fn is_witnessed(&self) -> bool {
        true
    }

    fn bear_witness(&self) {}

    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_gone(&self) -> bool {
        !self.found().is_some_and(|found| std::sync::Arc::ptr_eq(&found, &self.0))
    }

    fn another(&self, cells: u64) -> io::Result<(Self, Seat)> {
        let mut part = self.2.lock().unwrap();
        if part.is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let made = Self(Self::new(cells).0, self.1.clone(), self.2.clone());
        *part = Some(made.0.clone());
        Ok((made, Seat { in_memory: false, number: 0 }))
    }

    fn name(&self, _exchanges: bool) -> io::Result<()> {
        *self.2.lock().unwrap() = None;
        *self.1.lock().unwrap() = Some(self.0.clone());
        Ok(())
    }

    fn is_nameable(&self) -> bool {
        true
    }

    fn remove(&self) {
        self.2.lock().unwrap().take_if(|part| std::sync::Arc::ptr_eq(part, &self.0));
    }
}

struct World {
    engine: Engine<ModelDisk, ModelMemory>,
    memory: ModelMemory,
    pool: ModelDisk,
    log: ModelDisk,
    words: [AtomicU64; 4],
    /// How many flushes of each word have returned.
    returned: [AtomicU32; 4],
    failed: AtomicBool,
}

impl World {
    fn new(cells: u64) -> Self {
        let (pool, log) = (ModelDisk::default(), ModelDisk::default());
        pool.write(0, &[0; LEN as usize]).unwrap();
        open::create(&log, UUID, 4096, 1).unwrap();
        open::adopt(&pool, &log, UUID, Journal::Each).unwrap();
        let header = Header::read(&log).unwrap().unwrap();
        let memory = ModelMemory::new(cells);
        let marker = Marker::read(&pool).unwrap().unwrap();
        let ring = Ring::new(memory.clone(), header.life.nonce, 0, 0);
        let start = Mark::default();
        let engine = Engine::new((pool.clone(), LEN, marker), (log.clone(), header, start), start, ring);
        let words = std::array::from_fn(|_| AtomicU64::new(0));
        Self { engine, memory, pool, log, words, returned: Default::default(), failed: AtomicBool::new(false) }
    }

    /// Stores to a word that this thread has locked, and flushes it.
    fn change(&self, number: usize, value: u64) {
        self.words[number].store(value, Ordering::Relaxed);
        let at = number as u64 * 64;
        self.engine.flush(at, 8, false, |at| self.words[at as usize / 64].load(Ordering::Relaxed));
        self.returned[number].store(value as u32, std::sync::atomic::Ordering::SeqCst);
    }

    fn returned(&self) -> [u64; 4] {
        self.returned.each_ref().map(|returned| u64::from(returned.load(std::sync::atomic::Ordering::SeqCst)))
    }

    fn widen(&self, cells: u64) {
        if self.engine.widen_to(cells).is_err() {
            self.failed.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }

    /// What the log in a file says about the words.
    fn logged(log: &ModelDisk) -> Vec<(usize, u64)> {
        let header = Header::read(log).unwrap().unwrap();
        let mut frames = Frames::new(log, header, Mark::default());
        let mut all = Vec::new();
        while let Some(frame) = frames.next().unwrap() {
            all.extend(entries(frame.body(), LEN).map(|entry| {
                let (entry, words) = entry.expect("found wrong: no entry");
                (entry.bytes().start as usize / 64, word(words))
            }));
        }
        all
    }

    /// A sync; if it succeeds, everything that had been flushed is on the disk.
    fn sync(&self) {
        let returned = self.returned();
        if self.engine.sync().is_err() {
            self.failed.store(true, std::sync::atomic::Ordering::SeqCst);
            return;
        }
        let logged = Self::logged(&self.log.after_power_loss());
        for (number, least) in returned.into_iter().enumerate() {
            let last = logged.iter().rev().find(|(word, _)| *word == number).map_or(0, |&(_, value)| value);
            assert!(last >= least, "found wrong: word {number} is {last}, not {least}");
        }
    }

    /// What the log and the ring say together, as the next process would find it.
    fn left(&self) -> Vec<(usize, u64)> {
        let header = Header::read(&self.log).unwrap().unwrap();
        let mut frames = Frames::new(&self.log, header, Mark::default());
        while frames.next().unwrap().is_some() {}
        let mut all = Self::logged(&self.log);
        let mut body = super::frame::Body::default();
        body.clear();
        for position in frames.end().position..self.engine.ring.next() {
            let found = self.memory.found().expect("found wrong: there is no ring");
            take_left(&found, header.life.nonce, position, LEN, &mut body);
        }
        all.extend(entries(body.entries(), LEN).map(|entry| {
            let (entry, words) = entry.expect("found wrong: no entry");
            (entry.bytes().start as usize / 64, word(words))
        }));
        all
    }
}

type Act = fn(&World);

/// Runs threads at once, and then looks.
fn model<const N: usize>(
    cells: u64,
    left_out: Option<Rule>,
    preemptions: usize,
    setup: Act,
    acts: [Act; N],
    look: Act,
) {
    leave_out(left_out);
    set_sequential(true);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 5_000;
    let executions = std::sync::Arc::new(AtomicU32::new(0));
    let count = std::sync::Arc::clone(&executions);
    builder.check(move || {
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let world = Arc::new(World::new(cells));
        setup(&world);
        let threads = acts[1..].iter().map(|&act| {
            let world = Arc::clone(&world);
            thread::spawn(move || act(&world))
        });
        let threads: Vec<_> = threads.collect();
        acts[0](&world);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        look(&world);
    });
    println!("{} executions", executions.load(std::sync::atomic::Ordering::Relaxed));
}

fn nothing(_: &World) {}

/// All of this is in the log, each word's values in their order.
fn all_is_there(world: &World, wanted: &[(usize, u64)]) {
    world.sync();
    let logged = World::logged(&world.log.after_power_loss());
    for number in 0..4 {
        let of = |all: &[(usize, u64)]| all.iter().filter(|(word, _)| *word == number).copied().collect::<Vec<_>>();
        assert_eq!(of(&logged), of(wanted), "found wrong");
    }
}

fn append_against_sync(left_out: Option<Rule>) {
    model(
        4,
        left_out,
        2,
        nothing,
        [
            |world| {
                world.change(0, 1);
                world.sync();
            },
            |world| {
                world.change(1, 1);
                world.change(1, 2);
            },
        ],
        |world| all_is_there(world, &[(0, 1), (1, 1), (1, 2)]),
    );
}

#[test]
fn loom_journal_append_against_a_sync() {
    append_against_sync(None);
}

#[test]
#[should_panic = "found wrong"]
fn loom_journal_sync_that_passes_a_hole_is_found_wrong() {
    append_against_sync(Some(Rule::Holes));
}

fn full_ring(left_out: Option<Rule>) {
    model(
        2,
        left_out,
        2,
        nothing,
        [
            |world| (1..=2).for_each(|value| world.change(0, value)),
            |world| (1..=2).for_each(|value| world.change(1, value)),
        ],
        |world| all_is_there(world, &[(0, 1), (0, 2), (1, 1), (1, 2)]),
    );
}

#[test]
fn loom_journal_ring_that_is_full() {
    full_ring(None);
}

/// What was overwritten is lost, or waited for for ever.
#[test]
#[should_panic]
fn loom_journal_ring_that_is_overwritten_is_found_wrong() {
    full_ring(Some(Rule::Room));
}

fn sync_of_one_who_waits_for_room(left_out: Option<Rule>) {
    model(
        1,
        left_out,
        2,
        |world| world.change(0, 1),
        [|world| world.sync(), |world| world.change(1, 1)],
        |world| all_is_there(world, &[(0, 1), (1, 1)]),
    );
}

#[test]
fn loom_journal_sync_of_one_who_waits_for_room() {
    sync_of_one_who_waits_for_room(None);
}

/// A thread that waits for room is not told of it by the leader, which waits for that thread's cell.
#[test]
#[should_panic]
fn loom_journal_leader_that_wakes_nobody_is_found_wrong() {
    sync_of_one_who_waits_for_room(Some(Rule::Wake));
}

fn syncs_at_once(left_out: Option<Rule>) {
    let act: [Act; 2] = [
        |world| {
            world.change(0, 1);
            world.sync();
        },
        |world| {
            world.change(1, 1);
            world.sync();
        },
    ];
    model(4, left_out, 3, nothing, act, |world| all_is_there(world, &[(0, 1), (1, 1)]));
}

#[test]
fn loom_journal_two_syncs_at_once() {
    syncs_at_once(None);
}

#[test]
#[should_panic = "found wrong"]
fn loom_journal_sync_that_is_announced_before_it_is_done_is_found_wrong() {
    syncs_at_once(Some(Rule::SyncedLast));
}

/// A crash drops only the last changes of each thread, and none that was synced.
fn dropped_come_last(world: &World) {
    let left = world.left();
    for number in 0..3 {
        let values = left.iter().filter(|(word, _)| *word == number).map(|&(_, value)| value);
        assert!(values.zip(1..).all(|(value, wanted)| value == wanted), "found wrong: {left:?}");
    }
}

/// The log's sync fails while others wait for room.
#[test]
fn loom_journal_failure_while_others_wait_for_room() {
    model(
        1,
        None,
        2,
        |world| world.log.fail_after(0),
        [
            |world| {
                world.change(0, 1);
                world.sync();
            },
            |world| (1..=2).for_each(|value| world.change(1, value)),
        ],
        |world| {
            dropped_come_last(world);
            assert!(world.engine.admit().is_err() && world.engine.sync().is_err(), "found wrong: it goes on");
        },
    );
}

fn failure_of_a_checkpoint(left_out: Option<Rule>) {
    model(
        1,
        left_out,
        2,
        |world| {
            world.change(0, 1);
            world.sync();
            world.change(0, 2);
            world.pool.fail_after(0);
        },
        [
            |world| world.sync(),
            |world| world.change(1, 1),
            |world| {
                let _ = world.engine.checkpoint();
            },
        ],
        dropped_come_last,
    );
}

/// A checkpoint fails while a leader waits for the cell of a thread that waits for room.
#[test]
fn loom_journal_failure_of_a_checkpoint_beside_a_leader() {
    failure_of_a_checkpoint(None);
}

#[test]
#[should_panic]
fn loom_journal_leader_that_looks_for_no_failure_is_found_wrong() {
    failure_of_a_checkpoint(Some(Rule::LeaderLooks));
}

/// A sync of the log fails, which also takes the header that a checkpoint has written.
fn failure_beside_a_checkpoint(left_out: Option<Rule>) {
    model(
        4,
        left_out,
        3,
        |world| {
            world.change(0, 1);
            world.sync();
            world.change(1, 1);
            world.log.fail_after(0);
        },
        [
            |world| world.sync(),
            |world| {
                let _ = world.engine.checkpoint();
            },
        ],
        |world| {
            let durable = Header::read(&world.log.after_power_loss()).unwrap().unwrap();
            let moved = world.engine.stat().checkpoints > 0;
            assert!(!moved || durable.start.position > 0, "found wrong: the header is not on the disk");
        },
    );
}

#[test]
fn loom_journal_failure_beside_a_checkpoint() {
    failure_beside_a_checkpoint(None);
}

#[test]
#[should_panic = "found wrong"]
fn loom_journal_failure_that_is_noted_late_is_found_wrong() {
    failure_beside_a_checkpoint(Some(Rule::NotedAlone));
}

/// The ring loses its name, and the next sync makes another one, while others flush.
fn replaced_ring(left_out: Option<Rule>) {
    model(
        2,
        left_out,
        2,
        |world| {
            world.change(0, 1);
            world.memory.lose_name();
        },
        [|world| world.sync(), |world| (1..=2).for_each(|value| world.change(1, value))],
        |world| {
            // A leader that waits for room has synced all, and replaced nothing; then it is found like that.
            if world.memory.found().is_some() {
                let left = world.left();
                let of = |word: usize| left.iter().filter(move |(of, _)| *of == word).map(|&(_, value)| value);
                assert!(of(0).eq(1..=1) && of(1).eq(1..=2), "found wrong: {left:?}");
            }
            all_is_there(world, &[(0, 1), (1, 1), (1, 2)]);
        },
    );
}

/// A ring grows while others flush, of which one may wait for room.
fn larger_ring(left_out: Option<Rule>) {
    model(
        2,
        left_out,
        2,
        |world| world.change(0, 1),
        [|world| world.widen(4), |world| (1..=2).for_each(|value| world.change(1, value))],
        |world| {
            let left = world.left();
            let of = |word: usize| left.iter().filter(move |(of, _)| *of == word).map(|&(_, value)| value);
            assert!(of(0).eq(1..=1) && of(1).eq(1..=2), "found wrong: {left:?}");
            all_is_there(world, &[(0, 1), (1, 1), (1, 2)]);
        },
    );
}

#[test]
fn loom_journal_ring_that_grows() {
    larger_ring(None);
}

/// An entry is filled into the smaller ring, which nobody finds.
#[test]
#[should_panic]
fn loom_journal_ring_that_grows_while_others_fill_it_is_found_wrong() {
    larger_ring(Some(Rule::Shut));
}

/// A ring grows twice, of which another thread may do the first.
fn ring_that_grows_twice(left_out: Option<Rule>) {
    model(
        2,
        left_out,
        2,
        |world| world.change(0, 1),
        [|world| [4, 8].into_iter().for_each(|cells| world.widen(cells)), |world| world.sync()],
        |world| {
            assert_eq!(world.engine.ring.cells(), 8, "found wrong");
            all_is_there(world, &[(0, 1)]);
        },
    );
}

/// A close, which removes the ring.
fn close(world: &World) {
    world.engine.settle().unwrap();
    world.memory.lose_name();
}

fn no_ring_is_left(world: &World) {
    assert!(world.memory.found().is_none() && !world.engine.is_failed(), "found wrong");
    assert!(world.memory.2.lock().unwrap().is_none(), "found wrong: a ring without a name");
}

/// A pool is closed while a larger ring is made.
#[test]
fn loom_journal_ring_that_grows_beside_a_close() {
    model(2, None, 3, |world| world.change(0, 1), [|world| world.widen(4), close], no_ring_is_left);
}

fn ring_that_is_wanted_after_a_close(left_out: Option<Rule>) {
    model(2, left_out, 2, close, [|world| world.widen(4)], no_ring_is_left);
}

#[test]
fn loom_journal_ring_that_is_wanted_after_a_close() {
    ring_that_is_wanted_after_a_close(None);
}

/// Another ring takes the place of the one that the close has removed.
#[test]
#[should_panic = "found wrong"]
fn loom_journal_ring_that_is_replaced_after_a_close_is_found_wrong() {
    ring_that_is_wanted_after_a_close(Some(Rule::NoneAfterClose));
}

#[test]
fn loom_journal_ring_that_grows_twice() {
    ring_that_grows_twice(None);
}

/// A replacement that is under way is taken for one that cannot be.
#[test]
#[should_panic = "found wrong"]
fn loom_journal_ring_that_grows_beside_a_replacement_is_found_wrong() {
    ring_that_grows_twice(Some(Rule::OneReplacement));
}

#[test]
fn loom_journal_ring_that_is_replaced() {
    replaced_ring(None);
}

/// An entry is filled into the ring that nobody finds.
#[test]
#[should_panic]
fn loom_journal_ring_that_is_replaced_while_others_fill_it_is_found_wrong() {
    replaced_ring(Some(Rule::Shut));
}

/// What was filled since the leader synced last is lost.
#[test]
#[should_panic = "found wrong"]
fn loom_journal_ring_that_is_replaced_before_the_log_has_all_is_found_wrong() {
    replaced_ring(Some(Rule::SyncedBeforeName));
}

/// A leader waits for a position of its own.
#[test]
#[should_panic]
fn loom_journal_ring_that_is_replaced_by_one_who_waits_for_room_is_found_wrong() {
    replaced_ring(Some(Rule::ReplacesAlone));
}
