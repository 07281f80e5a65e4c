//! Histories of flushes, syncs and checkpoints, and of crashes of all kinds in a row, against a model.

use super::engine::Engine;
use super::engine::Holes;
use super::evict::Eviction;
use super::frame::LogEntry;
use super::header::{Header, Seat};
use super::images::{FoundImage, ImageMaker, Made};
use super::left::{Recovered, Recovery, Terms};
use super::marker::Marker;
use super::open::{self, Opening};
use super::pages::Pages;
use super::rule::{Rule, alone, leave_out};
use super::sim::{Fate, SimDisk, SimMemory};
use super::{Journal, closed};
use crate::effort::long;
use crate::error::ErrorKind;
use crate::medium::event::EventKind;
use crate::medium::herald::Listener;
use crate::medium::vitals::Slow;
use crate::random::Random;
use crate::sync::{AtomicU64, Ordering};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel;

const UUID: [u64; 2] = [7, 8];
const LEN: u64 = 3 * 4096 + 512;
const CELLS: u64 = 16;
/// The greatest number of cells to which a ring grows: each crash copies the ring.
const WIDEST: u64 = 8 * CELLS;
const REGION: u64 = 4096;

/// A machine with a pool file, a log and a ring, and what they should hold.
struct World {
    fate: Arc<Fate>,
    pool: SimDisk,
    log: SimDisk,
    ring: SimMemory,
    image: SimDisk,
    /// The words of the pool when each image was begun. An image has its number here.
    begun: Vec<Vec<u64>>,
    /// How many images were found.
    images: u64,
    /// Whether the ring lies in memory, and ends with the boot.
    in_memory: bool,
    boot: u64,
    /// Whether the ring is not there any more.
    is_lost: bool,
    /// Whether the last process has closed the pool in order.
    is_closed: bool,
    /// Whether somebody removes rings.
    removes: bool,
    /// Whether rings grow.
    grows: bool,
    /// Whether private pages go.
    evicts: bool,
    /// Whether a thread has taken a position and was killed before it had filled its cell.
    has_gap: bool,
    /// Whether the disk was taken out in this boot, and no open has succeeded since.
    is_taken_out: bool,
    /// The words of the pool after each position that was ever taken.
    states: Vec<Vec<u64>>,
    /// The state at this place, or a later one, must be there after a loss of power.
    synced: usize,
    /// The state at this place, or a later one, must be there while the power is there.
    filled: usize,
    random: Random,
    /// Whether lives are short and alike, so that frames of one take the places of another's.
    short: bool,
    /// Whether nobody asks for checkpoints.
    quiet: bool,
    /// Whether all entries are of one word, so that frames of different epochs end at the same places.
    alike: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let fate = Arc::new(Fate::endless());
        let (pool, mut log) = (SimDisk::new(&fate, LEN), SimDisk::new(&fate, 0));
        if seed % 5 == 3 {
            log.has_room_for(super::header::REGION + REGION + 5_000);
        }
        open::create(&log, UUID, REGION, seed.wrapping_mul(99)).unwrap();
        open::adopt(&pool, &log, UUID, Journal::Each).unwrap();
        let states = vec![vec![0; LEN as usize / 8]];
        let mut ring = SimMemory::new(CELLS);
        ring.obeys(&fate);
        Self {
            image: SimDisk::new(&fate, 0),
            begun: Vec::new(),
            images: 0,
            fate,
            pool,
            log,
            ring,
            in_memory: seed % 7 == 2,
            boot: 9,
            is_lost: false,
            is_closed: false,
            removes: seed % 6 < 2,
            grows: seed % 5 < 2,
            evicts: seed % 4 < 3,
            has_gap: false,
            is_taken_out: false,
            states,
            synced: 0,
            filled: 0,
            random: Random(seed),
            alike: seed.is_multiple_of(2),
            quiet: seed / 2 % 2 == 1,
            short: seed.is_multiple_of(4),
        }
    }

    fn open(&mut self) -> Result<Engine<SimDisk, SimMemory>, crate::error::Fault> {
        let marker = Marker::read(&self.pool).unwrap().expect("a marker is never lost");
        assert!(marker.settled || !closed::is_dead(&self.log), "a log is taken for dead");
        if marker.settled && self.random.one_in(2) {
            // Somebody has removed the log, and its ring. A new one gets its name when it is whole.
            marker.confirm(&self.pool)?;
            (self.log, self.ring) = (SimDisk::new(&Arc::new(Fate::endless()), 0), SimMemory::new(CELLS));
            open::create(&self.log, UUID, REGION, self.random.next()).unwrap();
            self.log.obeys(&self.fate);
        }
        let marker = open::fitting(&self.pool, &self.log, marker)?;
        // Where these are not known to be the pages to which the thread has stored.
        let is_uncertain = self.has_gap && !super::memory::Memory::is_witnessed(&self.ring);
        let recovery = match (self.is_lost, is_uncertain) {
            (true, _) => Recovery::WithoutRing,
            (_, true) if !self.is_taken_out => Recovery::RingAll,
            _ => Recovery::Whole,
        };
        match self.open_with(marker, recovery) {
            Err(fault) if self.is_taken_out && matches!(fault.kind(), ErrorKind::RingUncertain { .. }) => {
                self.open_with(marker, Recovery::RingPrefix).map(|(engine, _)| engine)
            }
            opened => opened.map(|(engine, _)| engine),
        }
    }

    fn open_with(
        &mut self,
        marker: Marker,
        recovery: Recovery,
    ) -> Result<(Engine<SimDisk, SimMemory>, Recovered), crate::error::Fault> {
        let (nonce, image) = (self.random.next(), self.image.clone());
        let opening = Opening {
            terms: Terms { boot: self.boot, recovery },
            nonce,
            path: "a ring".to_owned(),
            images: Some((&image, u64::MAX)),
        };
        let (ring, seat) = (self.ring.clone(), Seat { in_memory: self.in_memory, number: 0 });
        let is_there = super::head::RingOwner::read(super::memory::Memory::words(&ring)).is_some() || !self.in_memory;
        let left = (is_there && !self.is_lost).then(|| ring.clone());
        open::open((self.pool.clone(), marker), self.log.clone(), left, &opening, |_| Ok((ring, seat)))
    }

    /// Finds the ring that the process has left.
    fn look_for_ring(&mut self) {
        let is_new = |ring: &SimMemory| super::head::RingOwner::read(super::memory::Memory::words(ring)).is_none();
        // A ring in memory is removed at the close, and any other one may be.
        if self.is_closed && (self.in_memory || self.random.one_in(2)) {
            self.ring = SimMemory::new(CELLS);
        }
        self.is_lost = !self.is_closed && self.ring.found().is_none_or(|ring| self.is_lost && is_new(&ring));
        self.ring = self.ring.found().unwrap_or_else(|| SimMemory::new(CELLS));
        self.ring.obeys(&self.fate);
        if self.is_lost {
            (self.has_gap, self.filled) = (false, self.synced);
        }
    }

    /// Loses the power.
    fn lose_power(&mut self) {
        self.pool.lose_power(&mut self.random);
        self.log.lose_power(&mut self.random);
        self.image.lose_power(&mut self.random);
        self.ring = if self.in_memory { SimMemory::new(CELLS) } else { self.ring.after_power_loss(&mut self.random) };
        self.boot += 1;
        (self.has_gap, self.is_taken_out) = (false, false);
        self.filled = self.synced;
    }

    /// Loses the disk, which comes back in the same boot.
    fn take_out(&mut self) {
        self.pool.lose_power(&mut self.random);
        self.log.lose_power(&mut self.random);
        self.image.lose_power(&mut self.random);
        if !self.in_memory {
            self.ring = self.ring.after_power_loss(&mut self.random);
            self.is_taken_out = true;
            self.filled = self.synced;
        }
    }

    /// The words that the pool file shows, without the number of the checkpoint.
    fn shown(&self) -> Vec<u64> {
        let bytes = self.pool.bytes();
        let words = bytes.chunks_exact(8).map(super::sealed::word);
        words.enumerate().map(|(i, word)| if (128..192).contains(&i) { 0 } else { word }).collect()
    }

    /// One life of a process: opens, works, and dies.
    fn life(&mut self, steps: u64, limit: u64, failing: u64) {
        self.is_closed = false;
        self.fate.left.store(limit, Ordering::Relaxed);
        self.fate.seed.store(self.random.next(), Ordering::Relaxed);
        self.fate.failing_sync.store(failing, Ordering::Relaxed);
        let engine = match self.open() {
            Ok(engine) => engine,
            // Its process was killed, or its disk failed.
            Err(fault) if matches!(fault.kind(), ErrorKind::Io { .. }) => return,
            Err(fault) => panic!("{}", fault.in_pool("it")),
        };
        (self.has_gap, self.is_taken_out) = (false, false);
        let words: Vec<AtomicU64> = self.shown().into_iter().map(AtomicU64::new).collect();
        self.found(&words);
        self.find_image(&engine, &words);
        self.pool.touched.lock().clear();
        let mut stored = std::collections::BTreeSet::new();
        let load = |at: u64| words[at as usize / 8].load(Ordering::Relaxed);
        let mut failed = false;
        for step in 0..steps {
            // A page to which nobody has stored is shown as the file has it.
            assert!(self.pool.touched.lock().is_subset(&stored), "a page changes under its readers");
            let what = self.random.below(12);
            if self.random.one_in(8) {
                engine.ring.memory().write_back(&mut self.random);
            }
            if self.evicts && self.random.one_in(6) {
                let gone = evict(&engine, &words, &self.pool);
                let mut touched = self.pool.touched.lock();
                gone.iter().for_each(|page| _ = (stored.remove(page), touched.remove(page)));
            }
            if self.removes && self.random.one_in(16) {
                engine.ring.memory().lose_name();
            }
            if self.grows && self.random.one_in(16) && engine.ring.cells() < WIDEST {
                let now = self.states.len() - 1;
                match engine.widen_to(engine.ring.cells() * 2) {
                    Ok(()) => self.synced = now,
                    Err(_) => failed = true,
                }
            }
            if self.random.one_in(10) {
                let (now, number) = (self.states.len() - 1, self.begun.len() as u64);
                self.begun.push(self.states[now].clone());
                engine.set_image_maker(Some(Box::new(Numbered(number))));
                match engine.make_image() {
                    Ok(()) => {}
                    Err(_) => failed |= engine.is_failed(),
                }
            }
            // Without checkpoints, the log fills up.
            let what = if self.short { if step % 9 == 8 { 0 } else { 5 } } else { what };
            match if self.quiet && what == 3 { 5 } else { what } {
                0..=2 => {
                    let now = self.states.len() - 1;
                    match engine.sync() {
                        Ok(()) => self.synced = now,
                        Err(_) => failed = true,
                    }
                }
                3 => failed |= engine.checkpoint().is_err(),
                4 if !failed && engine.ring.has_room(engine.ring.next()) => {
                    // A thread that is killed after it has taken a position. Nothing can be synced any more.
                    let line = self.line();
                    let position = engine.ring.take_position();
                    if self.random.one_in(2) {
                        self.push(None);
                        self.has_gap = true;
                        if self.random.one_in(2) {
                            // While it fills the cell, or before.
                            let entry = LogEntry::new(line * 64, 1 + self.random.below(8).min(LEN / 8 - line * 8 - 1));
                            engine.ring.half_fill(position, entry, |_| 77);
                        }
                        self.tail(&engine, &words, None);
                        return;
                    }
                    // Or it is only slow, and another one syncs meanwhile.
                    let value = self.random.next();
                    stored.insert(line / 64);
                    words[line as usize * 8].store(value, Ordering::Relaxed);
                    self.push(Some((line * 8, 1, value)));
                    stored.append(&mut self.tail(&engine, &words, Some(line)));
                    let goal = engine.ring.next();
                    let _ = engine.lead(|leading| leading.write_out(goal, Holes::Wait));
                    // The system may write the cell back meanwhile.
                    engine.ring.half_fill(position, LogEntry::new(line * 64, 1), load);
                    engine.ring.memory().write_back(&mut self.random);
                    engine.ring.fill(position, LogEntry::new(line * 64, 1), load);
                    failed |= engine.is_failed();
                }
                _ => {
                    let line = self.line();
                    let (from, count) = (line * 8 + self.random.below(4), 1 + self.random.below(4));
                    let last = (LEN / 8).min((line + 1) * 8);
                    let count = if self.alike { 1 } else { count.min(last - from) };
                    let value = self.random.next();
                    stored.insert(line / 64);
                    (from..from + count).for_each(|word| words[word as usize].store(value, Ordering::Relaxed));
                    if self.random.one_in(2) && engine.admit().is_err() {
                        failed = true;
                        continue;
                    }
                    engine.flush(from * 8, count * 8, !self.alike && self.random.one_in(2), load);
                    failed |= engine.is_failed();
                    // It may be there even if the flush met the failure.
                    let filled = self.filled;
                    self.push(Some((from, count, value)));
                    self.filled = if failed { filled } else { self.filled };
                }
            }
            if failed && self.random.one_in(3) {
                return;
            }
        }
        if self.random.one_in(3) && engine.settle().is_ok() {
            (self.synced, self.is_closed) = (self.states.len() - 1, true);
            let _ = closed::note_closed(&self.log, &engine.header.lock());
        }
    }

    /// An image that counts was begun at a moment since when all that has changed was named.
    fn find_image(&mut self, engine: &Engine<SimDisk, SimMemory>, words: &[AtomicU64]) {
        engine.keeps_images(Box::new(self.image.clone()), u64::MAX);
        if let Some(FoundImage { words: image, named }) = engine.take_image() {
            self.images += 1;
            let begun = &self.begun[image[0] as usize];
            let changed = (0..words.len()).filter(|&i| words[i].load(Ordering::Relaxed) != begun[i]);
            let unnamed = |&i: &usize| named.within(i as u64 * 8..i as u64 * 8 + 8).is_empty();
            assert_eq!(
                changed.filter(unnamed).collect::<Vec<_>>(),
                [],
                "what has changed since an image was not named"
            );
        }
    }

    /// What other threads append behind a hole: to other lines than the one that the slow thread has locked.
    fn tail(
        &mut self,
        engine: &Engine<SimDisk, SimMemory>,
        words: &[AtomicU64],
        locked: Option<u64>,
    ) -> std::collections::BTreeSet<u64> {
        let mut stored = std::collections::BTreeSet::new();
        while engine.ring.has_room(engine.ring.next()) && !self.random.one_in(4) {
            let (from, value) = (self.line() * 8, self.random.next());
            if locked == Some(from / 8) {
                continue;
            }
            stored.insert(from / 512);
            words[from as usize].store(value, Ordering::Relaxed);
            engine.flush(from * 8, 8, false, |at| words[at as usize / 8].load(Ordering::Relaxed));
            self.push(Some((from, 1, value)));
        }
        stored
    }

    /// One of a few lines outside the marker.
    fn line(&mut self) -> u64 {
        [0, 1, 15, 32, 33, 63, 64, 65, 127, 128, 190, 199][self.random.below(12) as usize]
    }

    fn push(&mut self, change: Option<(u64, u64, u64)>) {
        let mut state = self.states.last().unwrap().clone();
        if let Some((from, count, value)) = change {
            state[from as usize..(from + count) as usize].fill(value);
        }
        self.states.push(state);
        self.filled = self.states.len() - 1;
    }

    /// Compares what an open has found with what may be there, and goes on from it.
    fn found(&mut self, words: &[AtomicU64]) {
        let found: Vec<u64> = words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let at = (self.filled..self.states.len()).rev().find(|&at| self.states[at] == found);
        let at = at.unwrap_or_else(|| {
            let earlier = self.states.iter().rposition(|state| *state == found);
            panic!("found {earlier:?} of {}, not {}; {} synced", self.states.len() - 1, self.filled, self.synced)
        });
        // What is shown now is never taken back.
        self.states = vec![self.states[at].clone()];
        (self.synced, self.filled) = (0, 0);
    }
}

/// Makes images that have a number.
struct Numbered(u64);

impl ImageMaker for Numbered {
    fn make(&self, _worth: std::ops::Range<u64>, at_rest: &dyn Fn(&mut dyn FnMut()) -> bool) -> Made {
        if at_rest(&mut || {}) && at_rest(&mut || {}) { Made::Image(vec![self.0]) } else { Made::NotNow }
    }
}

/// The memory of a process, whose pages show the pool's file when they go.
struct SimPages<'w> {
    words: &'w [AtomicU64],
    file: Vec<u8>,
    gone: parking_lot::Mutex<Vec<u64>>,
    /// The error of a system that shows no page.
    error: Option<io::ErrorKind>,
}

impl Pages for SimPages<'_> {
    fn with_length(&self, work: &mut dyn FnMut()) -> bool {
        work();
        true
    }

    /// The second page and the third one go together, or stay.
    fn unit(&self, at: u64) -> (std::ops::Range<u64>, bool) {
        if at < 4096 { (0..4096, false) } else { (4096..3 * 4096, true) }
    }

    fn shows(&self, at: u64, bytes: &[u8]) -> bool {
        let words = &self.words[at as usize / 8..][..bytes.len() / 8];
        bytes.chunks_exact(8).map(super::sealed::word).eq(words.iter().map(|word| word.load(Ordering::Relaxed)))
    }

    fn put(&self, _: u64, _: &[u8]) {}

    fn show_file(&self, range: std::ops::Range<u64>, kept: &[u64]) -> std::io::Result<()> {
        self.error.map_or(Ok(()), |error| Err(io::Error::from(error)))?;
        for page in range.step_by(4096).filter(|at| !kept.contains(at)) {
            let bytes = &self.file[page as usize..][..4096];
            assert!(self.shows(page, bytes), "a page that goes shows something else");
            self.gone.lock().push(page / 4096);
        }
        Ok(())
    }

    fn let_go(&self, _: std::ops::Range<u64>) {}
}

/// Lets pages go that the file shows. Returns which.
fn evict(engine: &Engine<SimDisk, SimMemory>, words: &[AtomicU64], pool: &SimDisk) -> Vec<u64> {
    let pages = SimPages { words, file: pool.bytes(), gone: Default::default(), error: None };
    let _ = engine.evict_some(&pages, engine.private.shown_from(0, 8), std::time::Duration::ZERO);
    pages.gone.into_inner()
}

/// Opens after each crash, and crashes again, in the open too.
fn history(seed: u64) -> u64 {
    alone();
    let mut world = World::new(seed);
    for _ in 0..world.random.below(8) + 2 {
        let most = if seed.is_multiple_of(3) { 160 } else { 40 };
        let limit = if world.random.one_in(2) { u64::MAX } else { world.random.below(most) };
        let failing = if world.random.one_in(4) { 1 + world.random.below(8) } else { 0 };
        let steps = world.random.below(if world.quiet { 200 } else { 60 });
        let (steps, limit) = if world.short { (9, 8 + world.random.below(9)) } else { (steps, limit) };
        world.life(steps, limit, failing);
        world.look_for_ring();
        // Else it is a kill, which leaves all files, and the ring, as they are.
        match world.random.below(8) {
            0..=3 => world.lose_power(),
            4 if !world.in_memory => world.ring = world.ring.after_mount(),
            5 if seed % 3 == 1 => world.take_out(),
            _ => {}
        }
    }
    world.fate.left.store(u64::MAX, Ordering::Relaxed);
    world.fate.failing_sync.store(0, Ordering::Relaxed);
    world.open().unwrap();
    let words: Vec<AtomicU64> = world.shown().into_iter().map(AtomicU64::new).collect();
    world.found(&words);
    world.images
}

#[test]
fn what_was_synced_is_there_after_crashes_of_all_kinds_in_a_row() {
    let seeds = if !cfg!(target_arch = "x86_64") {
        500
    } else if long() {
        5_000
    } else {
        1_500
    };
    let mut images = 0;
    for seed in 0..seeds {
        let result = std::panic::catch_unwind(|| history(seed));
        images += result.unwrap_or_else(|why| {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(why)
        });
    }
    println!("{images} images were found");
    assert!(images > seeds / 4);
}

/// While it makes an image, a log goes on.
struct Beside(Arc<Engine<SimDisk, SimMemory>>, u64);

impl Beside {
    /// Makes an image while so many words are flushed, and checkpoints are made. Returns the header after that.
    fn image(words: u64) -> (World, Header) {
        alone();
        let mut world = World::new(1);
        let engine = Arc::new(world.open().unwrap());
        engine.keeps_images(Box::new(world.image.clone()), u64::MAX);
        engine.flush(0, 8, false, |at| at);
        engine.sync().unwrap();
        engine.set_image_maker(Some(Box::new(Self(Arc::clone(&engine), words))));
        engine.make_image().unwrap();
        engine.set_image_maker(None);
        let header = *engine.header.lock();
        (world, header)
    }
}

impl ImageMaker for Beside {
    fn make(&self, _worth: std::ops::Range<u64>, at_rest: &dyn Fn(&mut dyn FnMut()) -> bool) -> Made {
        assert!(at_rest(&mut || {}));
        for i in 0..self.1 {
            self.0.flush(4096 + i % 64 * 8, 8, false, |at| at);
            if i % 8 == 7 {
                self.0.sync().and_then(|()| self.0.checkpoint()).unwrap();
            }
        }
        assert!(at_rest(&mut || {}));
        Made::Image(vec![0])
    }
}

#[test]
fn an_image_keeps_its_place_in_the_log_while_it_is_made() {
    let (mut world, header) = Beside::image(16);
    let image = header.image.expect("a checkpoint does not take its place");
    assert!(header.start.at > image.kept.at);
    let engine = world.open().unwrap();
    assert!(engine.take_image().is_some_and(|found| found.named.within(4096..4096 + 16 * 8).len() == 2));
}

#[test]
fn an_image_that_is_made_outlives_the_one_before() {
    alone();
    let mut world = World::new(1);
    let engine = Arc::new(world.open().unwrap());
    engine.keeps_images(Box::new(world.image.clone()), u64::MAX);
    let store = || {
        engine.flush(0, 8, false, |at| at);
        engine.sync().and_then(|()| engine.checkpoint()).unwrap();
    };
    store();
    engine.set_image_maker(Some(Box::new(Numbered(0))));
    engine.make_image().unwrap();
    let image = || engine.header.lock().image;
    let before = image().expect("it was made");
    // One more frame takes its place.
    while engine.durable.lock().at - before.kept.at < REGION - 100 {
        store();
    }
    assert_eq!(image(), Some(before));
    engine.set_image_maker(Some(Box::new(Beside(Arc::clone(&engine), 8))));
    engine.make_image().unwrap();
    engine.set_image_maker(None);
    assert!(image().is_some_and(|image| image.kept.at > before.kept.at + REGION / 2));
}

#[test]
fn an_image_does_not_count_if_the_log_needs_its_place() {
    for rule in [None, Some(Rule::ImageHeld)] {
        leave_out(rule);
        let (_, header) = Beside::image(REGION / 16);
        leave_out(None);
        assert_eq!(header.image.is_some(), rule.is_some());
    }
}

/// An image that ends where the log does not reach any more says what the pool does not have.
#[test]
fn an_image_of_what_the_log_has_lost_does_not_count() {
    use super::disk::Disk;
    for rule in [None, Some(Rule::ImageEnd)] {
        alone();
        let mut world = World::new(1);
        let engine = world.open().unwrap();
        engine.keeps_images(Box::new(world.image.clone()), u64::MAX);
        let store = |at: u64| engine.flush(at, 8, false, |at| at);
        (0..12).for_each(|i| store(4096 + i * 8));
        engine.sync().unwrap();
        store(4096);
        engine.set_image_maker(Some(Box::new(Numbered(0))));
        engine.make_image().unwrap();
        let header = *engine.header.lock();
        let image = header.image.expect("it was made");
        assert!(image.kept.at < image.end);
        // The ring has other entries by now.
        (0..CELLS + 2).for_each(|i| store(8192 + i * 8));
        engine.sync().unwrap();
        drop(engine);
        // The frame that was written for the image.
        world.log.write(super::header::REGION + header.region.offset(image.kept.at) + 40, &[0xff; 8]).unwrap();
        let marker = Marker::read(&world.pool).unwrap().unwrap();
        leave_out(rule);
        let opened = world.open_with(marker, Recovery::ShortLog);
        leave_out(None);
        let (engine, recovered) = opened.unwrap_or_else(|fault| panic!("{}", fault.in_pool("it")));
        assert!(recovered.lost > 0);
        assert_eq!(engine.take_image().is_some(), rule.is_some());
        assert_eq!(engine.header.lock().image.is_some(), rule.is_some());
    }
}

/// Pages go once a checkpoint has synced them, and not after a failure; and the next store makes them private again.
#[test]
fn pages_go_that_the_file_shows_and_none_after_a_failure() {
    for rule in [None, Some(Rule::EvictedAfterFailure)] {
        alone();
        let mut world = World::new(8);
        let engine = world.open().unwrap();
        let words: Vec<AtomicU64> = world.shown().into_iter().map(AtomicU64::new).collect();
        let store = |at: u64, value: u64| {
            words[at as usize / 8].store(value, Ordering::Relaxed);
            engine.flush(at, 8, false, |at| words[at as usize / 8].load(Ordering::Relaxed));
        };
        let gone = || evict(&engine, &words, &world.pool);
        (1..3).for_each(|page| store(page * 4096, 7));
        assert!(gone().is_empty());
        engine.sync().unwrap();
        assert!(gone().is_empty());
        engine.checkpoint().unwrap();
        // A cell of the ring names the third page.
        store(2 * 4096 + 64, 8);
        assert_eq!(gone(), [1]);
        assert!(gone().is_empty());
        engine.sync().unwrap();
        engine.checkpoint().unwrap();
        assert_eq!(gone(), [2]);
        store(4096, 9);
        engine.sync().unwrap();
        engine.checkpoint().unwrap();
        world.fate.failing_sync.store(1, Ordering::Relaxed);
        store(2 * 4096, 9);
        assert!(engine.sync().is_err());
        leave_out(rule);
        let gone = gone();
        leave_out(None);
        assert_eq!(gone.is_empty(), rule.is_none());
    }
}

/// A page that is taken into use, and released, and taken again, until a crash. A word elsewhere says what the page
/// has. Returns how often its space was given back.
fn page(seed: u64) -> u32 {
    const SAYS: u64 = 64;
    const PAGE: std::ops::Range<u64> = 4096..8192;
    alone();
    let mut world = World::new(seed);
    let mut random = Random(seed);
    world.fate.left.store(40 + random.below(300), Ordering::Relaxed);
    let mut punched = 0;
    if let Ok(engine) = world.open() {
        let words: Vec<AtomicU64> = world.shown().into_iter().map(AtomicU64::new).collect();
        let store = |at: u64, value: u64| {
            words[at as usize / 8].store(value, Ordering::Relaxed);
            engine.flush(at, 8, value % 3 == 1, |at| words[at as usize / 8].load(Ordering::Relaxed));
        };
        let mut is_used = false;
        for generation in 1..60 {
            let before = world.pool.bytes()[PAGE.start as usize];
            match random.below(4) {
                0 => drop(engine.sync()),
                1 => drop(engine.checkpoint()),
                _ if is_used => {
                    store(SAYS, 0);
                    engine.release(PAGE);
                    is_used = false;
                }
                _ => {
                    engine.retain(PAGE.start + 8..PAGE.end);
                    engine.retain(PAGE.start..PAGE.start + 8);
                    PAGE.step_by(512).for_each(|at| store(at, generation));
                    store(SAYS, generation);
                    is_used = true;
                }
            }
            punched += u32::from(before != 0 && world.pool.bytes()[PAGE.start as usize] == 0);
        }
        if random.one_in(4) {
            let _ = engine.settle();
        }
    }
    if random.one_in(2) {
        world.lose_power();
    }
    world.fate.left.store(u64::MAX, Ordering::Relaxed);
    let _engine = world.open().unwrap_or_else(|fault| panic!("seed {seed}: {}", fault.in_pool("it")));
    let shown = world.shown();
    let says = shown[SAYS as usize / 8];
    let is_there = |at: u64| shown[at as usize / 8] == says;
    assert!(says == 0 || PAGE.step_by(512).all(is_there), "seed {seed}: what is in use was given back");
    punched
}

#[test]
fn a_page_is_given_back_only_when_nothing_could_need_it() {
    let seeds = 0..if cfg!(target_arch = "x86_64") { 3_000 } else { 300 };
    assert!(seeds.map(page).sum::<u32>() > 100, "nothing is ever given back");
    assert!(found_without(Rule::PunchLate, 3_000, |seed| _ = page(seed)).is_some(), "nothing is found");
}

/// A pool file that has grown, a word of what it has grown by, and a loss of power. Whether the word is there.
fn has_grown(seed: u64, is_synced: bool) -> bool {
    const WORD: u64 = LEN + 4096;
    alone();
    let mut world = World::new(seed);
    let engine = world.open().unwrap_or_else(|fault| panic!("{}", fault.in_pool("it")));
    super::disk::Disk::write(&world.pool, LEN, &[0; 8192]).unwrap();
    let sync = || if is_synced { super::disk::Disk::sync(&world.pool) } else { Ok(()) };
    engine.resize(LEN + 8192, sync).unwrap();
    engine.flush(WORD, 8, true, |at| at);
    engine.sync().unwrap();
    if seed.is_multiple_of(3) {
        engine.checkpoint().unwrap();
    }
    drop(engine);
    world.ring = world.ring.after_power_loss(&mut Random(seed));
    world.boot += 1;
    world.pool.lose_power(&mut Random(seed));
    world.open().is_ok() && world.shown().get(WORD as usize / 8) == Some(&WORD)
}

#[test]
fn a_length_is_on_the_disk_before_the_log_names_what_is_in_it() {
    assert!((0..100).all(|seed| has_grown(seed, true)));
    assert!((0..100).any(|seed| !has_grown(seed, false)), "nothing is found without the sync");
}

/// A log that grows, a page that is given back, and a close, on disks that fail one write, sync or cut, and nothing
/// after it. Whether that has closed the journal, how many of them there were, and how long the log became.
fn on_broken_disks(number: u64) -> (bool, u64, u64) {
    alone();
    let mut world = World::new(1);
    let engine = world.open().unwrap_or_else(|fault| panic!("{}", fault.in_pool("it")));
    let (sender, events) = channel();
    let listener = Listener::new(move |event| sender.send(event.kind.name()).unwrap());
    engine.vitals.open("it", Some(&listener), Slow::default(), Vec::new());
    drop(listener);
    let before = world.fate.done.load(Ordering::Relaxed);
    world.fate.failing.store(if number > 0 { before + number } else { 0 }, Ordering::Relaxed);
    for round in 0..4 {
        for line in 0..40 {
            engine.flush(line % 4 * 4096 + line / 4 * 8, 8, false, |at| at + round);
            if line % 8 == 7 {
                let _ = engine.sync();
            }
        }
        engine.release(4096..8192);
        let _ = engine.checkpoint();
        engine.retain(4096..8192);
    }
    let settled = engine.settle();
    assert_eq!(settled.is_err(), engine.is_failed(), "an error that is not remembered");
    let is_failed = engine.is_failed();
    drop(engine);
    assert_eq!(events.iter().filter(|&name| name == "disk_failed").count(), usize::from(is_failed));
    (is_failed, world.fate.done.load(Ordering::Relaxed) - before, world.log.bytes().len() as u64)
}

#[test]
fn whatever_fails_on_a_disk_closes_the_journal() {
    let (failed, all, len) = on_broken_disks(0);
    assert!(!failed && len > super::header::REGION + REGION, "{all}, {len}");
    let unnoticed = || (1..=all).filter(|&number| !on_broken_disks(number).0).collect::<Vec<_>>();
    assert_eq!(unnoticed(), []);
    leave_out(Some(Rule::GrownWrite));
    let found = unnoticed();
    leave_out(None);
    assert_ne!(found, [], "nothing is found without the rule");
}

#[test]
fn pages_that_cannot_go_are_told_once() {
    alone();
    // Others may go later.
    for (error, next) in [(io::ErrorKind::InvalidInput, None), (io::ErrorKind::Other, Some(1))] {
        let mut world = World::new(1);
        let engine = world.open().unwrap_or_else(|fault| panic!("{}", fault.in_pool("it")));
        let (sender, events) = channel();
        let listener = Listener::new(move |event| sender.send(event.kind.clone()).unwrap());
        engine.vitals.open("it", Some(&listener), Slow::default(), Vec::new());
        drop(listener);
        engine.flush(0, 8, false, |_| 7);
        engine.sync().and_then(|()| engine.checkpoint()).unwrap();
        let file = world.pool.bytes();
        let words: Vec<_> = file.chunks_exact(8).map(|word| AtomicU64::new(super::sealed::word(word))).collect();
        let pages = SimPages { words: &words, file, gone: Default::default(), error: Some(error) };
        for _ in 0..2 {
            let done = match engine.evict_some(&pages, vec![0], std::time::Duration::ZERO) {
                Eviction::Done { next, .. } => Some(next),
                Eviction::Refused => None,
                Eviction::Busy => panic!("nobody stores"),
            };
            assert_eq!(done, next);
        }
        drop(engine);
        let told: Vec<_> = events.iter().filter(|kind| kind.name() == "pages_stay").collect();
        assert_eq!(told, [EventKind::PagesStay { error: io::Error::from(error).to_string() }]);
    }
}

/// A log that grows, until the power is lost.
fn growth(seed: u64) {
    alone();
    let mut world = World::new(1);
    world.random = Random(seed);
    world.fate.left.store(world.random.below(120), Ordering::Relaxed);
    world.fate.seed.store(seed, Ordering::Relaxed);
    if let Ok(engine) = world.open() {
        for line in (0..4).flat_map(|_| 0..40) {
            engine.flush(line % 4 * 4096 + line / 4 * 8, 8, false, |at| at);
            if line % 8 == 7 {
                let _ = engine.sync();
            }
            if line == 39 {
                let _ = engine.checkpoint();
            }
        }
    }
    world.lose_power();
    world.fate.left.store(u64::MAX, Ordering::Relaxed);
    world.open().unwrap_or_else(|fault| panic!("seed {seed}: {}", fault.in_pool("it")));
}

#[test]
fn a_log_is_as_long_as_its_header_says() {
    (0..1_000).for_each(growth);
    assert!(found_without(Rule::GrownSync, 10_000, growth).is_some(), "nothing is found");
}

/// The first history that goes wrong without a rule.
fn found_without(rule: Rule, histories: u64, history: fn(u64)) -> Option<u64> {
    // These panics are meant to be; those of other threads are not.
    let hook = std::panic::take_hook();
    let here = std::thread::current().id();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() != here {
            hook(info);
        }
    }));
    leave_out(Some(rule));
    let found = (0..histories).find(|&seed| std::panic::catch_unwind(|| history(seed)).is_err());
    leave_out(None);
    drop(std::panic::take_hook());
    println!("{rule:?}: {found:?}");
    found
}

/// Whatever is in the files and in the ring: an open succeeds, and then so does the next one, or it fails with an
/// error.
#[test]
fn hostile_bytes_are_an_error_or_a_state() {
    alone();
    let mut opened = 0;
    for seed in 0..2_000 {
        let mut world = World::new(seed);
        let mut random = Random(seed);
        if random.one_in(3) {
            // Frames that have the right checksum, and say anything.
            let mut mark = super::frame::Mark::default();
            for _ in 0..3 {
                let mut body = super::frame::Body::default();
                body.clear();
                for _ in 0..random.below(30) {
                    let at = random.below(2 * LEN / 8);
                    let word = random.next();
                    let choices = [word, at | 1 << 48, at | (1 + word % 9) << 48, 130 | 1 << 48, 0];
                    body.push_word(choices[random.below(5) as usize]);
                }
                let positions = [1, 4, u32::MAX][random.below(3) as usize];
                let known = super::frame::OnDisk::default();
                let frame = body.frame(mark, positions, 1, known, seed.wrapping_mul(99)).to_vec();
                super::disk::Disk::write(&world.log, super::header::REGION + mark.at, &frame).unwrap();
                mark = super::frame::Head::decode(&frame, super::frame::LogForm::Second).end();
            }
        } else {
            world.life(20, u64::MAX, 0);
        }
        for _ in 0..random.below(4) {
            let bits = 1 << random.below(8);
            match random.below(4) {
                0 => world.log.damage(random.below(176) + 4096 * random.below(2), bits),
                1 => world.log.damage(super::header::REGION + random.below(500), bits),
                2 => world.pool.damage(1024 + random.below(48), bits),
                _ => {
                    let words = super::memory::Memory::words(&world.ring);
                    let word = &words[random.below(words.len() as u64) as usize];
                    word.store(word.load(Ordering::Relaxed) ^ 1 << random.below(64), Ordering::Relaxed);
                }
            }
        }
        let mut open = || match Marker::read(&world.pool).unwrap() {
            Some(marker) => world.open_with(marker, Recovery::Whole).is_ok(),
            None => false,
        };
        if open() {
            opened += 1;
            assert!(open(), "seed {seed}: the open has damaged it");
        }
    }
    assert!((100..1_950).contains(&opened), "{opened} were opened");
}

/// Without each rule, some history goes wrong.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "an emulator takes minutes, and the histories are the same")]
fn each_rule_that_is_left_out_is_found() {
    let all = [
        Rule::Room,
        Rule::Checksum,
        Rule::Epoch,
        Rule::NewEpoch,
        Rule::Holes,
        Rule::Reuse,
        Rule::PoolSync,
        Rule::ApplyOnce,
        Rule::FailedPoolSync,
        Rule::StoreEqual,
        Rule::LogBeforePool,
        Rule::Closed,
        Rule::WriteAgain,
        Rule::NewEpochSync,
        Rule::Unsettled,
        Rule::NamedHeader,
        Rule::Claim,
        Rule::RingBeforeHeader,
        Rule::RingBeforeMarker,
        Rule::Witness,
        Rule::Gap,
        Rule::Prefix,
        Rule::NotedLast,
        Rule::AnyFrame,
        Rule::NamedInLog,
        Rule::NamedInRing,
        Rule::ImageKept,
    ];
    for rule in all {
        assert!(
            found_without(rule, 40_000, |seed| _ = history(seed)).is_some(),
            "{rule:?} is left out, and nothing is found"
        );
    }
}

/// The header is of use only if a log that is nearly full meets two cuts at the right places.
#[test]
#[ignore = "takes a minute"]
fn a_header_that_is_not_written_again_is_found() {
    assert!(found_without(Rule::HeaderAgain, 500_000, |seed| _ = history(seed)).is_some());
}
