//! Whole trees on a disk that is cut: real pools with small leaves whose words are journaled, cut wherever a process
//! can be killed and wherever a machine can go down, opened again, and compared with a model.
//!
//! A cut at a moment is a copy of both files and of the ring. So one run of a history is cut everywhere: after each
//! sector that is written, before and after each sync, and after each position that is taken, filled or half filled.

use super::Journal;
use super::engine::{Engine, Holes};
use super::head::RingOwner;
use super::header::Seat;
use super::left::{Recovery, Terms};
use super::marker::{Marker, PLACE};
use super::memory::Memory;
use super::open::{self, Opening};
use super::rule::{Rule, alone, leave_out};
use super::sim::{Fate, SimDisk, SimMemory, look_on, moment};
use crate::crash::history::{History, Op};
use crate::crash::record::Repeated;
use crate::crash::tree_type::{Checkable, TREE, TreeType};
use crate::crash::verify::{Entries, Failure, POOL, guarded, of_tree, options, same};
use crate::crash::{KeyShape, Two, Values};
use crate::effort::long;
use crate::medium::any::Any;
use crate::medium::dram::without_file;
use crate::medium::sealed::Sealed;
use crate::medium::{Domain, Dram, Facts, FoundImage, Hint, ImageMaker, Medium, Step, end_within};
use crate::node::{ByteLeaf, Circular, IndexKind, OneLine};
use crate::random::Random;
use crate::sync::{AtomicU64, Ordering};
use crate::tree::{ImageRule, by_image, leave_out_of_images};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

const UUID: [u64; 2] = [7, 8];
/// Cells of a ring: so few that changes wait for room, or enough for any change.
const FEW: u64 = 16;
const MANY: u64 = 64;
const REGION: u64 = 8192;
/// The sizes of pools and of their segments: as in other checks, and with segments that give back whole pages back.
const SMALL: (u64, u64) = (POOL, 1024);
const PAGES: (u64, u64) = (POOL + (72 << 10), 4096);

/// What a check leaves out to see that it finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// A rule of the journal.
    Rule(Rule),
    /// Flushes for a step of a protocol.
    Step(Step),
    /// What else is in the line of words that are flushed.
    Lines,
    /// The wait of a change until it is on the disk.
    Acknowledge,
    /// That space which is reserved again is no longer about to be given back.
    Retain,
    /// A rule of opens by images.
    Image(ImageRule),
}

thread_local! {
    static FLAW: Cell<Option<Flaw>> = const { Cell::new(None) };
    /// Called once, by a flush that has taken a position and not filled it.
    static STALL: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
    /// After how many flushes that is.
    static FLUSHES: Cell<u32> = const { Cell::new(0) };
}

fn has(flaw: Flaw) -> bool {
    FLAW.get() == Some(flaw)
}

fn leave(flaw: Option<Flaw>) {
    FLAW.set(flaw);
    leave_out(match flaw {
        Some(Flaw::Rule(rule)) => Some(rule),
        _ => None,
    });
    leave_out_of_images(match flaw {
        Some(Flaw::Image(rule)) => Some(rule),
        _ => None,
    });
}

/// Words in memory, with a journal.
#[derive(Clone)]
struct OnDisk {
    words: Arc<[AtomicU64]>,
    engine: Arc<Engine<SimDisk, SimMemory>>,
    each: bool,
}

impl Sealed for OnDisk {}

impl Medium for OnDisk {
    without_file!();

    fn facts(&self) -> Facts<'_> {
        Facts {
            domain: Domain::Journal,
            writes_back: true,
            pairs_are_whole: true,
            ..Facts::of_memory("disk", self.words.len() as u64 * 8)
        }
    }

    fn lend(&self, _at: u64, _count: usize) -> Option<&[AtomicU64]> {
        None
    }

    fn sync(&self) -> io::Result<()> {
        self.engine.sync()
    }

    fn window(&self) -> crate::medium::Window<'_> {
        crate::medium::Window::NONE
    }

    fn window_for_change(&self) -> crate::medium::Window<'_> {
        crate::medium::Window::NONE
    }

    fn pause(&self) {}

    fn admit(&self) -> io::Result<()> {
        self.engine.admit()
    }

    fn acknowledge(&self) -> io::Result<()> {
        if self.each && !has(Flaw::Acknowledge) { self.engine.sync() } else { self.engine.check() }
    }

    fn settle(&self) -> io::Result<()> {
        self.engine.settle()
    }

    fn take_image(&self) -> Option<FoundImage> {
        self.engine.take_image()
    }

    fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>) {
        self.engine.set_image_maker(maker);
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        let range = at..end_within(at, len, self.facts().len)?;
        if !has(Flaw::Retain) {
            self.engine.retain(range);
        }
        Ok(())
    }

    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        let pages = at.next_multiple_of(4096)..(at + len) / 4096 * 4096;
        if pages.start < pages.end {
            self.engine.release(pages);
        }
        Ok(())
    }

    fn load(&self, at: u64) -> u64 {
        self.words[(at >> 3) as usize].load(Ordering::Relaxed)
    }

    fn store(&self, at: u64, value: u64) {
        self.words[(at >> 3) as usize].store(value, Ordering::Relaxed);
    }

    fn store_pair(&self, at: u64, [first, second]: [u64; 2]) {
        self.store(at & !15, first);
        self.store((at & !15) + 8, second);
    }

    fn order(&self, _step: Step) {}

    fn flush(&self, at: u64, len: u64, step: Step) {
        assert!(at + len <= PLACE.start || at >= PLACE.end, "the marker's line is flushed");
        if has(Flaw::Step(step)) {
            return;
        }
        let whole_lines = !step.names_words() && !has(Flaw::Lines);
        self.engine.flush(at, len, whole_lines, |at| {
            // The position is taken, and the cell is filled in part.
            moment();
            let flushes = FLUSHES.get();
            FLUSHES.set(flushes.saturating_sub(1));
            if flushes == 1
                && let Some(stall) = STALL.take()
            {
                stall();
            }
            self.load(at)
        });
        moment();
    }

    fn fence(&self, _step: Step) {}

    fn hint(&self, _at: u64, _len: u64, _hint: Hint) {}
}

/// A machine with a pool.
struct Machine {
    fate: Arc<Fate>,
    pool: SimDisk,
    log: SimDisk,
    ring: SimMemory,
    /// The image of the trees.
    image: SimDisk,
    /// The ring was removed, and no open has made another one.
    is_lost: bool,
    boot: u64,
}

impl Machine {
    /// With a pool of no trees, which has a journal. The sizes of the pool and of its segments are given.
    fn new(cells: u64, (len, segment): (u64, u64)) -> Self {
        let fate = Arc::new(Fate::endless());
        let memory = Arc::new(Dram::zeroed(len));
        drop(options().segment_size(segment).create_on(Arc::clone(&memory)).expect("it has room"));
        let (pool, log) = (SimDisk::new(&fate, 0), SimDisk::new(&fate, 0));
        use super::disk::Disk;
        pool.write(0, memory.words().into_iter().map(u64::to_le_bytes).collect::<Vec<_>>().as_flattened())
            .and_then(|()| pool.sync())
            .expect("the disk works");
        open::create(&log, UUID, REGION, 77).expect("the disk works");
        open::adopt(&pool, &log, UUID, Journal::Each).expect("the disk works");
        let image = SimDisk::new(&fate, 0);
        Self { fate, pool, log, ring: SimMemory::new(cells), image, is_lost: false, boot: 9 }
    }

    /// What is there if the process is killed now.
    fn copy(&self) -> Self {
        let fate = Arc::new(Fate::endless());
        let (pool, log) = (self.pool.copy(&fate), self.log.copy(&fate));
        let found = self.ring.found();
        let is_lost = found.as_ref().is_none_or(|ring| self.is_lost && RingOwner::read(ring.words()).is_none());
        let ring = found.map_or_else(|| self.ring.blank(), |found| found.copy());
        Self { image: self.image.copy(&fate), fate, pool, log, ring, is_lost, boot: self.boot }
    }

    /// This machine, by other handles to its files.
    fn copy_of_handles(&self) -> Self {
        let (pool, log, ring) = (self.pool.clone(), self.log.clone(), self.ring.clone());
        let (fate, image) = (Arc::clone(&self.fate), self.image.clone());
        Self { fate, pool, log, ring, image, is_lost: false, boot: self.boot }
    }

    /// How many sectors a loss of power may take.
    fn unsynced(&self) -> [u32; 2] {
        [self.pool.unsynced(), self.log.unsynced()]
    }

    /// What is there if the machine loses its power now.
    fn after_power_loss(&self, [pool, log]: [u64; 2]) -> Self {
        let copy = self.copy();
        copy.pool.lose(pool);
        copy.log.lose(log);
        // The system had written all of the ring to the disk, or nothing but what was written through.
        let ring = if (pool ^ log) & 1 == 0 { copy.ring.on_disk() } else { copy.ring.after_mount() };
        Self { ring, boot: copy.boot + 1, ..copy }
    }

    fn medium(&self, each: bool) -> Result<Arc<OnDisk>, Failure> {
        let marker =
            Marker::read(&self.pool).map_err(|error| error.to_string())?.ok_or_else(|| "no marker".to_owned())?;
        if marker.settled {
            // It needs neither a log nor a ring. A log gets its name when it is whole.
            marker.confirm(&self.pool).map_err(|fault| fault.in_pool("the pool").to_string())?;
            let log = SimDisk::new(&Arc::new(Fate::endless()), 0);
            // Each log has a salt of its own.
            open::create(&log, UUID, REGION, self.log.hash()).map_err(|error| error.to_string())?;
            self.log.becomes(&log);
            self.ring.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        }
        // A state of a machine always has the same future.
        let nonce = self.log.hash();
        let recovery = if self.is_lost { Recovery::WithoutRing } else { Recovery::Whole };
        let terms = Terms { boot: self.boot, recovery };
        let opening = Opening { terms, nonce, path: "a ring".to_owned(), images: Some((&self.image, u64::MAX)) };
        let (ring, left) = (self.ring.clone(), Some(self.ring.clone()).filter(|_| !self.is_lost));
        let renew = |_| Ok((ring, Seat { in_memory: false, number: 0 }));
        let engine = open::fitting(&self.pool, &self.log, marker)
            .and_then(|marker| open::open((self.pool.clone(), marker), self.log.clone(), left, &opening, renew));
        let (engine, _) = engine.map_err(|fault| fault.in_pool("the journal"))?;
        let engine = Arc::new(engine);
        engine.keeps_images(Box::new(self.image.clone()), u64::MAX);
        let words = self.pool.bytes().chunks_exact(8).map(super::sealed::word).map(AtomicU64::new).collect();
        Ok(Arc::new(OnDisk { words, engine, each }))
    }
}

/// What may be found: entries; or no tree, or only one of two.
type Found = Option<Entries>;

/// What a crash may leave.
#[derive(Debug, Clone, Default)]
struct Allowed {
    /// After the process was killed.
    kill: Vec<Found>,
    /// After the power was lost: what was there since the last sync.
    power: Vec<Found>,
}

impl Allowed {
    /// A change is in flight.
    fn begins(&mut self, states: impl IntoIterator<Item = Found>) {
        self.kill.extend(states);
        self.kill.iter().for_each(|state| {
            if !self.power.contains(state) {
                self.power.push(state.clone());
            }
        });
    }

    fn returns(&mut self, state: Found, synced: bool) {
        self.kill = vec![state];
        if synced {
            self.power = self.kill.clone();
        }
    }

    fn only(state: &Found) -> Self {
        Self { kill: vec![state.clone()], power: vec![state.clone()] }
    }
}

fn hash(entries: &Entries) -> u64 {
    let mut hasher = DefaultHasher::new();
    entries.hash(&mut hasher);
    hasher.finish()
}

/// Numbers of what was done.
#[derive(Debug, Default)]
struct Count {
    histories: u64,
    moments: u64,
    states: u64,
    /// Crashes in the open after a crash, or behind it.
    again: u64,
}

struct Checker {
    tree_type: TreeType,
    count: Rc<RefCell<Count>>,
    /// What was checked, with what was allowed then.
    known: Rc<RefCell<HashSet<u64>>>,
    /// How many losses of power are tried at a moment, beyond all and nothing.
    losses: u32,
    sizes: (u64, u64),
}

impl Checker {
    fn of<N: Checkable>(values: Values, losses: u32, sizes: (u64, u64)) -> Rc<Self> {
        alone();
        let tree_type = N::tree_type::<Repeated>(IndexKind::Volatile, values, KeyShape::Bytes);
        Rc::new(Self { tree_type, count: Rc::default(), known: Rc::default(), losses, sizes })
    }

    /// Checks all that a crash may leave at this moment. `depth`: how many more crashes come.
    fn moment(&self, machine: &Machine, allowed: &Allowed, random: &mut Random, depth: u32) -> Result<(), String> {
        self.count.borrow_mut().moments += u64::from(depth > 0);
        let unsynced = machine.unsynced();
        let all: u32 = unsynced.iter().sum();
        let choices: Vec<[u64; 2]> = if all <= 2 {
            let bits = |choice: u64| [choice & ((1 << unsynced[0]) - 1), choice >> unsynced[0]];
            (0..1 << all).map(bits).collect()
        } else {
            let random = (0..self.losses).map(|_| [random.next(), random.next()]);
            [[0, 0], [!0, !0], [!0, 0], [0, !0]].into_iter().chain(random).collect()
        };
        let after_power_loss = Allowed { kill: allowed.power.clone(), power: allowed.power.clone() };
        for choice in choices {
            let left = machine.after_power_loss(choice);
            self.left(left, &after_power_loss, random, depth)
                .map_err(|what| format!("after a loss of power that keeps {choice:?} of {unsynced:?}: {what}"))?;
        }
        let left = machine.copy();
        // Then it is as after a loss of power that has taken nothing of the log.
        let allowed = if left.is_lost { &after_power_loss } else { allowed };
        self.left(left, allowed, random, depth).map_err(|what| format!("after a kill: {what}"))
    }

    /// Opens what a crash has left, and checks it. It may be cut, too.
    fn left(&self, machine: Machine, allowed: &Allowed, random: &mut Random, depth: u32) -> Result<(), String> {
        let mut hasher = DefaultHasher::new();
        let number = |found: &Found| found.as_ref().map_or(0, |entries| hash(entries) | 1);
        let bytes = [machine.pool.hash(), machine.log.hash(), machine.ring.hash(), machine.image.hash()];
        (bytes, allowed.kill.iter().map(number).collect::<Vec<_>>()).hash(&mut hasher);
        if !self.known.borrow_mut().insert(hasher.finish()) {
            return Ok(());
        }
        let again = depth > 0 && random.one_in(24);
        if depth == 0 {
            self.count.borrow_mut().again += 1
        } else {
            self.count.borrow_mut().states += 1
        }
        let fault = Rc::new(RefCell::new(Ok(())));
        let known = Rc::new(RefCell::new(allowed.clone()));
        let machine = Rc::new(machine);
        if again {
            let (machine, fault, known) = (Rc::clone(&machine), Rc::clone(&fault), Rc::clone(&known));
            let mut random = Random(random.next());
            let (count, known_states) = (Rc::clone(&self.count), Rc::clone(&self.known));
            let checker = Self { count, known: known_states, losses: 1, ..*self };
            look_on(Some(Box::new(move || {
                // Some of these moments.
                if fault.borrow().is_ok() && random.one_in(20) {
                    let known = known.borrow().clone();
                    *fault.borrow_mut() = checker.moment(&machine, &known, &mut random, 0);
                }
            })));
        }
        let opened = guarded(|| {
            let medium = machine.medium(false)?;
            let pool = options().open_on(Arc::clone(&medium) as Any)?;
            let trees = pool.trees()?.len();
            let is_there = trees == 1 + usize::from(self.tree_type.is_two);
            let tree = self.tree_type.open(&pool)?;
            let entries: Entries = tree.entries()?.into_iter().collect();
            let found = is_there.then_some(entries);
            if !(allowed.kill.contains(&found) || found.is_none() && allowed.kill.contains(&Some(Entries::new()))) {
                return Err(format!("found {found:?}, allowed are {:?}", allowed.kill).into());
            }
            let mut entries = found.unwrap_or_default();
            same("after the open", &*tree, &entries)?;
            if let Some(broken) = pool.check()?.violations.first() {
                return Err(format!("after the open: {broken}").into());
            }
            // What is there now never goes away.
            *known.borrow_mut() = Allowed::only(&Some(entries.clone()));
            if again {
                medium.sync().map_err(|error| error.to_string())?;
                let op = Op::Insert(random.below(20), 9);
                let before = Some(entries.clone());
                op.apply(&mut entries);
                let mut now = Allowed::only(&before);
                now.begins([Some(entries.clone())]);
                *known.borrow_mut() = now;
                of_tree(op, &*tree).transpose()?;
                known.borrow_mut().returns(Some(entries.clone()), false);
                medium.sync().map_err(|error| error.to_string())?;
                *known.borrow_mut() = Allowed::only(&Some(entries));
                medium.engine.checkpoint().map_err(|error| error.to_string())?;
            }
            Ok(())
        });
        if again {
            look_on(None);
        }
        opened.and_then(|()| fault.replace(Ok(())).map_err(|what| format!("and then {what}")))
    }

    /// Runs a history, whose last operations are cut, in a machine whose `failing`th sync from then on fails; 0: none
    /// does.
    fn history(
        self: &Rc<Self>,
        history: &History,
        cut: usize,
        each: bool,
        seed: u64,
        failing: u64,
    ) -> Result<(), String> {
        let machine = Rc::new(RefCell::new(Rc::new(Machine::new(FEW, self.sizes))));
        let allowed = Rc::new(RefCell::new(Allowed::only(&None)));
        let fault = Rc::new(RefCell::new(Ok(())));
        self.count.borrow_mut().histories += 1;
        let mut random = Random(seed);
        let looking = || {
            let (machine, allowed, fault) = (Rc::clone(&machine), Rc::clone(&allowed), Rc::clone(&fault));
            let (checker, mut random) = (Rc::clone(self), Random(seed));
            look_on(Some(Box::new(move || {
                if fault.borrow().is_ok() {
                    let (machine, allowed) = (Rc::clone(&machine.borrow()), allowed.borrow().clone());
                    let found = checker.moment(&machine, &allowed, &mut random, 1);
                    *fault.borrow_mut() = found;
                    // It is set again when this returns.
                }
            })));
        };
        let ran = guarded(|| {
            let open = |each| {
                let medium = machine.borrow().medium(each)?;
                Ok::<_, Failure>((options().open_on(Arc::clone(&medium) as Any)?, medium))
            };
            let from = (history.0.len() + 1).saturating_sub(cut);
            let cutting = |number: usize| {
                if number == from {
                    machine.borrow().fate.failing_sync.store(failing, std::sync::atomic::Ordering::Relaxed);
                    machine.borrow().fate.seed.store(seed, std::sync::atomic::Ordering::Relaxed);
                    if seed % 4 == 3 {
                        machine.borrow().ring.lose_name();
                    }
                    looking();
                }
            };
            let (mut pool, mut medium) = open(each)?;
            let mut model = Entries::new();
            cutting(0);
            // The creation of the tree is the first operation.
            allowed.borrow_mut().begins([Some(model.clone())]);
            let mut tree = self.tree_type.open(&pool)?;
            allowed.borrow_mut().returns(Some(model.clone()), each);
            for (number, &op) in history.0.iter().enumerate() {
                cutting(number + 1);
                let before = model.clone();
                op.apply(&mut model);
                let mut in_flight: Vec<Found> = op.in_flight(&before).into_iter().map(Some).collect();
                if op == Op::Drop {
                    in_flight.push(None);
                }
                // A map has no batches: one entry is there after the other.
                allowed.borrow_mut().begins(in_flight);
                let done = match of_tree(op, &*tree) {
                    Some(done) => done.map_err(Failure::from),
                    None => {
                        drop(tree);
                        if op == Op::Drop {
                            pool.drop_tree(TREE)?;
                        } else {
                            pool.close()?;
                            let old = machine.borrow().clone();
                            // The ring is removed.
                            let now = Machine { ring: SimMemory::new(FEW), ..old.copy_of_handles() };
                            *machine.borrow_mut() = Rc::new(now);
                            allowed.borrow_mut().returns(Some(model.clone()), true);
                            (pool, medium) = open(each)?;
                        }
                        tree = self.tree_type.open(&pool)?;
                        Ok(())
                    }
                };
                done?;
                allowed.borrow_mut().returns(Some(model.clone()), each);
                // Nothing; or a sync, which a checkpoint may follow.
                let next = random.below(4);
                if next >= 2 {
                    medium.sync().map_err(|error| error.to_string())?;
                    allowed.borrow_mut().returns(Some(model.clone()), true);
                }
                if next == 3 {
                    medium.engine.checkpoint().map_err(|error| error.to_string())?;
                }
                if random.one_in(2) {
                    medium.engine.make_image().map_err(|error| error.to_string())?;
                }
                let engine = &medium.engine;
                // Each look copies the ring.
                if seed % 4 == 1 && random.one_in(3) && engine.ring.cells() < 8 * FEW {
                    engine.widen_to(engine.ring.cells() * 2).map_err(|error| error.to_string())?;
                    allowed.borrow_mut().returns(Some(model.clone()), true);
                }
            }
            Ok(())
        });
        look_on(None);
        // The pool that met the failure is closed, in disorder.
        fault.replace(Ok(()))?;
        let failed = failing > 0 && machine.borrow().fate.failing_sync.load(std::sync::atomic::Ordering::Relaxed) == 0;
        if !failed {
            ran?;
        }
        let (machine, allowed) = (machine.borrow().clone(), allowed.borrow().clone());
        self.moment(&machine, &allowed, &mut random, 1)
    }

    /// Reports the first history of some that goes wrong.
    fn first(self: &Rc<Self>, histories: impl IntoIterator<Item = (History, usize, bool, u64, u64)>) -> Option<String> {
        histories.into_iter().find_map(|(history, cut, each, seed, failing)| {
            let result = self.history(&history, cut, each, seed, failing);
            result
                .err()
                .map(|what| format!("{history} (cut {cut}, each {each}, seed {seed}, failing {failing}): {what}"))
        })
    }
}

/// Whether an operation can be run here.
fn is_for_disks(op: &Op) -> bool {
    !matches!(op, Op::Anew | Op::Others(_) | Op::AfterPowerLoss | Op::Kill(_) | Op::Crash(_))
}

/// All short histories, or every so many of them: the last operation is cut everywhere.
fn short(tree_type: &TreeType, every: usize) -> impl Iterator<Item = (History, usize, bool, u64, u64)> {
    let all = tree_type.histories().into_iter().filter(|history| history.0.iter().all(is_for_disks));
    let cases = all.step_by(every).enumerate();
    cases.map(|(seed, history)| (history, 1, seed % 3 == 0, seed as u64, (seed as u64 % 4).saturating_sub(1)))
}

/// Random histories. A cut comes in one of the last few operations.
fn random(tree_type: &TreeType, seeds: std::ops::Range<u64>) -> impl Iterator<Item = (History, usize, bool, u64, u64)> {
    let tree_type = *tree_type;
    seeds.map(move |seed| {
        let mut history = tree_type.random(seed, 24);
        history.0.retain(is_for_disks);
        (history, 4, seed % 3 == 1, seed, (seed % 5).saturating_sub(1))
    })
}

fn all_of<N: Checkable>(name: &str, values: Values, every: usize, seeds: u64) {
    // EVERYTHING=1: all short histories, which takes an hour.
    let (every, seeds) = if std::env::var_os("EVERYTHING").is_some() {
        (1, 1000)
    } else if long() {
        (every, seeds)
    } else {
        (every * 24, 1)
    };
    let start = std::time::Instant::now();
    let checker = Checker::of::<N>(values, 2, SMALL);
    let tree_type = checker.tree_type;
    let wrong = checker.first(short(&tree_type, every)).or_else(|| checker.first(random(&tree_type, 0..seeds)));
    println!("{name}: {:?} in {:?}, {} trees opened by images", checker.count.borrow(), start.elapsed(), by_image());
    assert_eq!(wrong, None);
}

#[test]
fn trees_of_one_line_on_a_cut_disk() {
    all_of::<OneLine<3>>("one line", Values::Numbers, 50, 8);
}

#[test]
fn sorted_trees_on_a_cut_disk() {
    all_of::<Circular<4>>("circular", Values::Records, 240, 3);
}

#[test]
fn trees_of_strings_on_a_cut_disk() {
    all_of::<ByteLeaf<4>>("bytes", Values::Records, 240, 3);
}

#[test]
fn changes_of_two_trees_on_a_cut_disk() {
    all_of::<Two<OneLine<3>>>("two of one line", Values::Numbers, 20, 6);
    all_of::<Two<ByteLeaf<4>>>("two of bytes", Values::Records, 60, 3);
}

/// Trees that are dropped, closed and emptied, and others in the segments that they had, which were free in between.
fn histories_of_space() -> impl Iterator<Item = (History, usize, bool, u64, u64)> {
    let fill = |n: u64| (1..=n).map(|key| format!("i{key}={}", key % 3)).collect::<Vec<_>>().join(" ");
    let ends = ["drop", "clear", "reopen"];
    let pairs = ends.into_iter().flat_map(move |one| ends.map(|other| (one, other)));
    let texts = pairs.map(move |(one, other)| format!("{} {one} {} {other} {}", fill(30), fill(12), fill(3)));
    let cases = texts.enumerate().step_by(if long() { 1 } else { 4 });
    cases.map(|(seed, text)| (text.parse().expect("a history"), 5, seed % 2 == 0, seed as u64, 0))
}

#[test]
fn what_is_given_back_and_used_again_on_a_cut_disk() {
    let numbers = || Checker::of::<OneLine<3>>(Values::Numbers, 1, PAGES);
    let records = || Checker::of::<ByteLeaf<4>>(Values::Records, 1, PAGES);
    for checker in [numbers(), records()] {
        assert_eq!(checker.first(histories_of_space()), None);
        println!("{:?}", checker.count.borrow());
    }
    for checker in [numbers(), records()] {
        leave(Some(Flaw::Retain));
        let found = checker.first(histories_of_space());
        leave(None);
        println!("Retain: {found:?}");
        assert!(found.is_some(), "it is not found");
    }
}

/// A change of one tree that has taken a position and does not fill it, while another thread changes another tree and
/// syncs. Then it goes on, and everything is synced.
fn stalled(op: Op, words: u32) -> Result<(), String> {
    alone();
    let machine = Machine::new(MANY, SMALL);
    let (mut before, changed) = (Entries::new(), Rc::new(Cell::new(false)));
    let check = |machine: Machine, allowed: [&[Entries]; 2], when: &str| {
        guarded(|| {
            let pool = options().open_on(machine.medium(false)? as Any)?;
            for (name, allowed) in [TREE, "u"].iter().zip(allowed) {
                let found: Entries = pool.tree_with::<OneLine<3>>(name, IndexKind::Volatile)?.iter().collect();
                if !allowed.contains(&found) {
                    return Err(format!("{when}: {name} has {found:?}, allowed are {allowed:?}").into());
                }
            }
            match pool.check()?.violations.first() {
                Some(broken) => Err(format!("{when}: {broken}").into()),
                None => Ok(()),
            }
        })
    };
    let other = |value| Entries::from([(1, value)]);
    let power_lost = || machine.after_power_loss([0, 0]);
    let at_the_stall = Rc::new(RefCell::new(None));
    guarded(|| {
        let medium = machine.medium(false)?;
        let pool = options().open_on(Arc::clone(&medium) as Any)?;
        let tree = pool.tree_with::<OneLine<3>>(TREE, IndexKind::Volatile)?;
        let others = pool.tree_with::<OneLine<3>>("u", IndexKind::Volatile)?;
        others.insert(1, 1)?;
        for key in 1..=5 {
            tree.insert(key * 2, key)?;
            before.insert(key * 2, key);
        }
        medium.sync().map_err(|error| error.to_string())?;
        let (is_changed, left, copied) = (Rc::clone(&changed), Rc::clone(&at_the_stall), machine.copy_of_handles());
        FLUSHES.set(words);
        STALL.set(Some(Box::new(move || {
            is_changed.set(others.update(1, 2).is_ok());
            let next = medium.engine.ring.next();
            // It may find that it waits for a thread that never comes.
            let _ = medium.engine.lead(|leading| {
                leading.write_out(next, Holes::Wait)?;
                leading.sync()
            });
            *left.borrow_mut() =
                Some([copied.copy(), copied.after_power_loss([0, 0]), copied.after_power_loss([!0, !0])]);
        })));
        of_tree(op, &tree).transpose()?;
        pool.sync()?;
        drop(STALL.take());
        // It is not closed in order.
        std::mem::forget((tree, pool));
        Ok(())
    })?;
    let mut after = before.clone();
    op.apply(&mut after);
    let value = if changed.get() { 2 } else { 1 };
    for left in [machine.copy(), power_lost()] {
        check(left, [&[after.clone()], &[other(value)]], "after the sync")?;
    }
    for (left, least) in at_the_stall.take().into_iter().flatten().zip([2, 1, 1]) {
        let others: Vec<Entries> = (least..=2).map(other).collect();
        check(left, [&[before.clone(), after.clone()], &others], "at the stall")?;
    }
    Ok(())
}

#[test]
fn a_sync_waits_for_changes_of_trees_that_are_under_way() {
    let ops = [Op::Insert(4, 9), Op::Insert(5, 9), Op::Insert(11, 9), Op::Insert(13, 9), Op::Remove(2), Op::Remove(10)];
    let all = || ops.into_iter().flat_map(|op| (1..=80).step_by(3).map(move |words| (op, words)));
    let wrong = |(op, words)| stalled(op, words).err().map(|what| format!("{op}, {words} words: {what}"));
    assert_eq!(all().find_map(wrong), None);
    leave(Some(Flaw::Rule(Rule::Holes)));
    let found = all().find_map(wrong);
    leave(None);
    println!("Holes: {found:?}");
    assert!(found.is_some_and(|what| what.contains("after the sync")), "it is not found");
}

#[test]
fn flaws_are_found_in_trees_on_a_cut_disk() {
    let of = |flaw, seeds| {
        let checker = match flaw {
            Flaw::Step(Step::RecordWrite) | Flaw::Lines | Flaw::Image(_) => {
                Checker::of::<ByteLeaf<4>>(Values::Records, 1, SMALL)
            }
            _ => Checker::of::<OneLine<3>>(Values::Numbers, 1, SMALL),
        };
        leave(Some(flaw));
        let tree_type = checker.tree_type;
        let found = checker.first(random(&tree_type, seeds));
        leave(None);
        println!("{flaw:?}: {found:?}");
        assert!(found.is_some(), "{flaw:?} is not found");
    };
    of(Flaw::Rule(Rule::Room), 0..60);
    of(Flaw::Rule(Rule::LogBeforePool), 0..60);
    of(Flaw::Acknowledge, 0..60);
    of(Flaw::Step(Step::OneLineInsert), 0..60);
    of(Flaw::Step(Step::NodeFill), 0..60);
    of(Flaw::Step(Step::RecordWrite), 0..60);
    of(Flaw::Lines, 22..60);
    of(Flaw::Rule(Rule::ImageAfterLog), 0..60);
    of(Flaw::Image(ImageRule::Moved), 0..60);
    of(Flaw::Image(ImageRule::References), 0..60);
    of(Flaw::Image(ImageRule::Twice), 0..60);
}
