//! The journal of an open pool: flushes fill the ring, a sync writes the log, a checkpoint applies it.

use super::Journal;
use super::apply::{Patches, each};
use super::budget::Share;
use super::disk::{self, Disk};
use super::frame::{Body, ENTRY, HEAD, LogEntry, Mark, OnDisk, POSITIONS};
use super::head;
use super::header::{self, Header, Region, Seat};
use super::images::Images;
use super::left::Recovered;
use super::log::{self, Frames};
use super::marker::Marker;
use super::memory::Memory;
use super::pages::Pages;
use super::private::{PAGE, Private};
use super::ring::{Appended, Cells, Content, Ring};
use super::rule::{Rule, gives_up, holds};
use crate::error::{ErrorKind, Fault};
use crate::medium::LINE;
use crate::medium::disk_file::{Failed, is_room_missing, longest_file};
use crate::medium::event::EventKind;
use crate::medium::vitals::Vitals;
use crate::sync::several::processors;
use crate::sync::windows::Windows;
use crate::sync::{AtomicU64, Condvar, Mutex, Ordering, spin_loop, yield_now};
use std::cell::Cell;
use std::io;
use std::mem;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// The greatest length that the region of a log grows to; little in tests.
const MOST: u64 = if cfg!(test) { 16 << 10 } else { 1 << 30 };
/// Up to this length a log that is used grows whatever checkpoints write; little in tests.
const USUAL: u64 = if cfg!(test) { 8 << 10 } else { 32 << 20 };
/// The least part of a ring that is free when a change begins: one in so many.
const SPARE: u64 = 4;
/// Less than that part was free when somebody looked.
const CROWDED: u64 = 1;
/// The journal is closed.
const FAILED: u64 = 2;
/// The log has lost its name. A close loses nothing, and a kill would.
const NO_LOG: u64 = 4;
/// The ring has lost its name, and there is no other one. A close loses nothing, and a kill would.
const NO_RING: u64 = 8;
/// No job looks for flushes: the next thread that flushes wakes one.
const UNWATCHED: u64 = 16;
/// The most cells to which a ring grows when changes wait for room: the first number whatever the length of the pool
/// file, or one for each page of the file, up to the second number. Few in tests, so that rings are full all the time.
const CELLS: [u64; 2] = if cfg!(test) { [0; 2] } else { [1 << 16, 1 << 18] };
/// A ring that grows becomes so many times as large.
const GROWTH: u64 = 16;
/// There can be no larger ring, so none is wanted.
const NO_LARGER: u64 = u64::MAX;
/// How long changes are refused for want of a ring before one of them tries to make one.
const AGAIN: Duration = Duration::from_millis(100);
/// How many zeros are written and synced at a time when the log grows.
const ZEROS: u64 = 4 << 20;
/// How often a leader yields the processor before it asks whether the ring is as it was: some hundred milliseconds.
const LOOKS: u32 = 10_000;
/// How often a leader looks at a cell that does not count yet before it yields the processor.
const SPINS: u32 = 100;

/// The journal of an open pool.
pub(crate) struct Engine<F, R> {
    pub(super) ring: Ring<R>,
    pub(super) log: F,
    pub(super) pool: F,
    /// The pool's length.
    len: AtomicU64,
    pub(super) header: Mutex<Header>,
    /// The place of the header's `start`: what lies before it is in the pool file.
    start: AtomicU64,
    /// What lies before this place is free: `start`, or where an image of trees begins, also one that is being made
    /// (J42).
    oldest: AtomicU64,
    /// Where the part of the log ends that is on the disk.
    pub(super) durable: Mutex<Mark>,
    /// What the leader, the thread that writes the log, needs; `None` while a thread leads.
    lead: Mutex<Option<Lead>>,
    /// The leader has come further, or is not leading any more.
    changed: Condvar,
    /// One checkpoint at a time; what was applied to the pool file.
    pub(super) applied: Mutex<Applied>,
    /// The length that the region should have, for which there is room in the file.
    wanted: AtomicU64,
    /// One sync of the log at a time: the system reports an error to only one of the threads that wait.
    syncing: Mutex<()>,
    /// One sync of the pool file at a time, for the same reason as `syncing`.
    syncing_pool: Mutex<()>,
    /// Pages of the pool file that nobody uses.
    released: Mutex<Vec<Released>>,
    failure: OnceLock<Failure>,
    /// How many cells the ring should have.
    wanted_cells: AtomicU64,
    /// The larger ring, if there is one that has no name yet.
    pub(super) larger: Mutex<Larger<R>>,
    /// The ring that the next process may still find, while another one takes its place.
    pub(super) before: Mutex<Option<Arc<Cells<R>>>>,
    /// Why there is no other ring.
    no_ring: Mutex<Option<NoRing>>,
    /// The sequence of the header that is on the disk.
    sequence: AtomicU64,
    /// What the ring says of the log is written through up to this position.
    vouched: AtomicU64,
    /// Whether a thread looks after that.
    vouching: AtomicU64,
    /// Why changes cannot begin at once, in bits.
    gate: AtomicU64,
    /// Which threads store to the pool now.
    pub(super) windows: Windows,
    /// What images of trees need.
    pub(super) images: Images,
    /// Which pages are private to this process.
    pub(super) private: Private,
    /// The mapping whose private pages can go.
    pub(super) pages: OnceLock<Box<dyn Pages>>,
    /// Windows stay open, so that no pages go.
    pub(super) is_held: std::sync::atomic::AtomicBool,
    /// The page from which on the next ones go.
    pub(super) hand: std::sync::atomic::AtomicU64,
    pub(super) counts: JournalCounts,
    /// How long all this takes, and what is told of it.
    pub(super) vitals: Arc<Vitals>,
    wakers: OnceLock<Wakers>,
}

/// What is called when there is something to do in the background (`keeper.rs`).
pub(super) struct Wakers {
    pub(super) sync: Box<dyn Fn() + Send + Sync>,
    pub(super) checkpoint: Box<dyn Fn() + Send + Sync>,
    pub(super) image: Box<dyn Fn() + Send + Sync>,
}

/// What the leader, the thread that writes the log, needs.
pub(super) struct Lead {
    /// The end of the log.
    pub(super) end: Mark,
    pub(super) region: Region,
    /// For what does not change in an epoch.
    pub(super) header: Header,
    body: Body,
}

/// What was applied to the pool file.
pub(super) struct Applied {
    /// The part of the log before this place. A checkpoint begins here, not at the log's start: else the file would
    /// show what is older than what this process found in it, and pages to which it has not stored yet are those of the
    /// file.
    until: Mark,
    pub(super) marker: Marker,
}

/// Pages of the pool file whose space is to be given back.
struct Released {
    pages: Range<u64>,
    /// All entries that name words of them are at lower positions, and so are those that say that nobody uses them.
    position: u64,
}

/// What a checkpoint has done.
#[derive(Default)]
pub(super) struct Done {
    /// The length of the log's region.
    region: u64,
    /// Bytes of the log that were applied.
    part: u64,
    /// Bytes that this took in the pool file.
    written: u64,
}

/// Why the journal is closed.
#[derive(Debug)]
struct Failure {
    doing: &'static str,
    kind: io::ErrorKind,
    code: Option<i32>,
}

/// Numbers since the pool was opened.
#[derive(Default)]
pub(super) struct JournalCounts {
    log: AtomicU64,
    pool: AtomicU64,
    rings: AtomicU64,
    pub(super) evicted: std::sync::atomic::AtomicU64,
}

/// Numbers about the journal of a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct JournalStat {
    /// Bytes of the log that frames may take.
    pub log: u64,
    /// When the pool waits for the disk.
    pub mode: Journal,
    /// Bytes of the log that a crash of the machine would have to be repaired from.
    pub used: u64,
    /// Bytes of the ring; 0 if the pool is only looked at, and no process has left one.
    pub ring: u64,
    /// Entries that were flushed and are not on the disk.
    pub pending: u64,
    /// Entries that were flushed, since the journal was made.
    pub entries: u64,
    /// How often the log was synced since the pool was opened.
    pub syncs: u64,
    /// Bytes that were written to the log since then.
    pub log_written: u64,
    /// Bytes that checkpoints wrote to the pool file since then.
    pub pool_written: u64,
    /// Checkpoints since then.
    pub checkpoints: u64,
    /// How often a thread had to wait since then, because the ring was full.
    pub waits: u64,
    /// How often another ring was made since then, because the one before had become too small, or lost its name.
    pub rings: u64,
    /// Bytes of memory that private pages of this pool take: what was changed, and not given back to the page cache.
    pub private: u64,
    /// Bytes that these may take; with those of other pools, unless
    /// [`Options::private_memory`](crate::Options::private_memory) has said so for this one. `None` if the
    /// pool is only looked at, or if nothing can be given back: because the pages of the system are larger than 4 KiB,
    /// say.
    pub budget: Option<u64>,
    /// How many pages of 4 KiB were given back since then.
    pub evicted: u64,
    /// How often a change was slowed since then, because the budget was used up.
    pub slowed: u64,
    /// What the open found of a process that did not close the pool in order.
    pub recovered: Recovered,
}

/// Why the pool has no ring that the next process would find.
struct NoRing {
    why: io::Error,
    /// When one was last tried to be made.
    since: Instant,
}

impl NoRing {
    /// Whether it is time to try again.
    fn is_old(&self) -> bool {
        self.since.elapsed() >= AGAIN
    }
}

/// A ring that is to take the place of the one that is used, and has no name yet.
pub(super) enum Larger<R> {
    /// There is none.
    No,
    /// The next leader names it.
    Waits(R, Seat),
    /// A leader is about to name it, or another one.
    Named,
    /// There is none any more: the pool is being closed.
    Never,
}

/// What to do about cells that do not count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// Their threads are about to fill them.
    Wait,
    /// Their threads are dead (J8).
    Skip,
}

/// Whether a leader goes on with another ring if the one that is used is too small, or has lost its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Replaces {
    Ring,
    /// It has a position that it has not filled, for which it would wait.
    Not,
}

impl<F: Disk, R: Memory> Engine<F, R> {
    /// The journal of a pool of `len` bytes, whose log ends at a mark.
    pub(super) fn new(
        (pool, len, marker): (F, u64, Marker),
        (log, header, end): (F, Header, Mark),
        applied: Mark,
        ring: Ring<R>,
    ) -> Self {
        Self {
            len: AtomicU64::new(len),
            start: AtomicU64::new(header.start.at),
            oldest: AtomicU64::new(header.oldest()),
            durable: Mutex::new(end),
            lead: Mutex::new(Some(Lead { end, region: header.region, header, body: Body::default() })),
            changed: Condvar::new(),
            applied: Mutex::new(Applied { until: applied, marker }),
            wanted: AtomicU64::new(header.region.len),
            syncing: Mutex::new(()),
            syncing_pool: Mutex::new(()),
            released: Mutex::new(Vec::new()),
            failure: OnceLock::new(),
            wanted_cells: AtomicU64::new(0),
            larger: Mutex::new(Larger::No),
            before: Mutex::new(None),
            no_ring: Mutex::new(None),
            wakers: OnceLock::new(),
            gate: AtomicU64::new(0),
            windows: Windows::default(),
            images: Images::default(),
            private: Private::new(end.position),
            pages: OnceLock::new(),
            is_held: Default::default(),
            hand: Default::default(),
            counts: JournalCounts::default(),
            vitals: Arc::default(),
            sequence: AtomicU64::new(header.sequence),
            vouched: AtomicU64::new(end.position),
            vouching: AtomicU64::new(0),
            header: Mutex::new(header),
            ring,
            log,
            pool,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Waits with `sync` until the pool file's new length is on the disk. From then on entries may name words of it: an
    /// open takes an entry of no words of the pool for damage.
    pub(crate) fn resize(&self, len: u64, sync: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        self.sync_pool_with(sync).map_err(|fault| self.fail(fault))?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// As [`resize`](Self::resize), with a length that is on the disk.
    pub(crate) fn has_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.len.store(len, Ordering::Release);
        Ok(())
    }

    /// Applies everything that was flushed to the pool file, and forgets it. Nothing is flushed meanwhile.
    pub(crate) fn empty(&self) -> io::Result<()> {
        self.write_out(Replaces::Not)?;
        self.apply(&mut self.applied.lock(), true).map(drop).map_err(|fault| self.fail(fault))
    }

    /// Gives the space of pages back after a checkpoint of all that was flushed so far (J17).
    pub(crate) fn release(&self, pages: Range<u64>) {
        self.released.lock().push(Released { pages, position: self.ring.next() });
    }

    /// Keeps the space of a range that is used again.
    pub(crate) fn retain(&self, range: Range<u64>) {
        let mut released = self.released.lock();
        if released.iter().any(|Released { pages, .. }| pages.start < range.end && range.start < pages.end) {
            let parts = |Released { pages, position }: Released| {
                [pages.start..range.start.min(pages.end), range.end.max(pages.start)..pages.end]
                    .into_iter()
                    .filter(|part| part.start < part.end)
                    .map(move |pages| Released { pages, position })
            };
            *released = mem::take(&mut *released).into_iter().flat_map(parts).collect();
        }
    }

    /// Gives back the space of pages that the log does not name, if an open would not look at what came before.
    fn punch_released(&self) -> Result<(), Fault> {
        let mut failed = None;
        let header = self.header.lock();
        // While the header is not locked, it is on the disk, if nothing has failed.
        let start = if self.check().is_ok() { header.start.position } else { 0 };
        drop(header);
        // Under the lock, so that no range is punched after it was retained.
        self.released.lock().retain(|Released { pages, position }| {
            let is_free = *position <= start || !holds(Rule::PunchLate);
            if is_free {
                // A hint; but what the disk says once it may not say again.
                let punched = self.pool.punch(pages.start, pages.end - pages.start);
                if let Some(mapping) = self.pages.get() {
                    // Nobody stores to it before it is retained.
                    mapping.let_go(pages.clone());
                    self.private.remove(pages.start.div_ceil(PAGE)..pages.end / PAGE);
                }
                failed = punched.err().filter(|error| !is_room_missing(error)).or(failed.take());
            }
            !is_free
        });
        failed.map_or(Ok(()), |error| Err(Fault::io("give space of the pool back")(error)))
    }

    /// Says what is to be woken from now on.
    pub(super) fn is_kept_by(&self, wakers: Wakers) {
        let _ = self.wakers.set(wakers);
    }

    /// Appends the lines that overlap `len` bytes from `at`, or only the words that do.
    #[inline]
    pub(crate) fn flush(&self, at: u64, len: u64, whole_lines: bool, load: impl Fn(u64) -> u64) {
        let (mut from, end) = if whole_lines {
            (at & !(LINE - 1), (at + len).next_multiple_of(LINE).min(self.len() & !7))
        } else {
            (at & !7, (at + len).next_multiple_of(8))
        };
        // Nearly always one line.
        while from < end {
            let to = ((from | (LINE - 1)) + 1).min(end);
            self.append(LogEntry::new(from, (to - from) / 8), &load);
            from = to;
        }
    }

    #[inline]
    fn append(&self, entry: LogEntry, load: &impl Fn(u64) -> u64) {
        match self.ring.append(entry, load) {
            Appended::Filled(position) if self.ring.ends_part(position) => self.part_is_full(),
            Appended::Filled(_) | Appended::Dropped => {}
            Appended::Waits(position) => self.fill_later(position, entry, load),
        }
    }

    #[cold]
    #[inline(never)]
    fn part_is_full(&self) {
        self.look_for_room();
        if let Some(wakers) = self.wakers.get().filter(|_| self.is_filling()) {
            (wakers.sync)();
        }
    }

    /// Lets changes begin if there is room for them, and no others.
    fn look_for_room(&self) {
        if self.has_room_to_begin() {
            self.gate.fetch_and(!CROWDED, Ordering::Relaxed);
        } else {
            self.gate.fetch_or(CROWDED, Ordering::Relaxed);
        }
    }

    /// Whether so much of the ring is free that changes may begin.
    fn has_room_to_begin(&self) -> bool {
        self.ring.has_room(self.ring.next() + self.ring.cells() / SPARE)
    }

    #[cold]
    #[inline(never)]
    fn fill_later(&self, position: u64, entry: LogEntry, load: &impl Fn(u64) -> u64) {
        let began = Instant::now();
        self.want_larger_ring();
        // The threads that own the positions up to here wait for nothing but room, or for nothing.
        let goal = (position + 1).saturating_sub(self.ring.cells());
        let has_room = self.lead_until(|| self.ring.has_room(position), || goal, Replaces::Not).is_ok();
        // After a failure, a thread with an earlier position finds the same room, or less (J13). Without one, a leader
        // that has shut the ring since waits for this position.
        if has_room || self.ring.has_room(position) {
            self.ring.fill(position, entry, load);
        }
        self.vitals.waited(began.elapsed());
    }

    /// Waits until a change may begin. The caller has locked nothing.
    #[inline]
    pub(crate) fn admit(&self) -> io::Result<()> {
        if self.gate.load(Ordering::Acquire) & !UNWATCHED == 0 { Ok(()) } else { self.make_way() }
    }

    #[cold]
    #[inline(never)]
    fn make_way(&self) -> io::Result<()> {
        let began = Instant::now();
        self.want_larger_ring();
        self.lead_until(|| self.has_room_to_begin(), || self.ring.next(), Replaces::Ring)?;
        if self.gate.load(Ordering::Acquire) & NO_RING != 0 && self.no_ring.lock().as_ref().is_some_and(NoRing::is_old)
        {
            // There may be room for one by now.
            self.lead_once()?;
        }
        self.look_for_room();
        self.vitals.waited(began.elapsed());
        self.check_name()
    }

    /// Has the job that makes checkpoints make a larger ring, if there may be one.
    pub(super) fn want_larger_ring(&self) {
        let [always, most] = CELLS;
        let by_length = (self.len() / 4096).next_power_of_two().clamp(always, most);
        // Each cell may be all that names a page which is private.
        let by_budget = (self.private.budget() / PAGE).max(1);
        let wanted = (self.ring.cells() * GROWTH).min(by_length).min(1 << by_budget.ilog2());
        let is_larger = wanted > self.ring.cells();
        if is_larger
            && self.wanted_cells.fetch_max(wanted, Ordering::Relaxed) < wanted
            && let Some(wakers) = self.wakers.get()
        {
            (wakers.checkpoint)();
        }
    }

    /// Makes the ring as large as it is wanted (J33). It stays as it is if there can be no other one: where there is no
    /// room, or the pool is not at its path any more. Nothing is wanted then until the pool is opened again.
    pub(crate) fn widen(&self) -> io::Result<()> {
        self.widen_to(self.wanted_cells.load(Ordering::Relaxed))
    }

    pub(super) fn widen_to(&self, cells: u64) -> io::Result<()> {
        let mut is_made = false;
        while cells > self.ring.cells() && cells != NO_LARGER {
            // Made before anybody waits for it, and not beside one that is about to get its name: they have one place.
            let mut larger = self.larger.lock();
            if matches!(*larger, Larger::Never) {
                break;
            }
            if matches!(*larger, Larger::No) {
                if is_made {
                    // It was refused; there may be another one when it is wanted again.
                    self.wanted_cells.store(0, Ordering::Relaxed);
                    break;
                }
                let Ok((memory, seat)) = self.ring.memory().another(cells) else {
                    self.wanted_cells.store(NO_LARGER, Ordering::Relaxed);
                    break;
                };
                *larger = Larger::Waits(memory, seat);
                is_made = true;
            }
            drop(larger);
            let is_done = || matches!(*self.larger.lock(), Larger::No | Larger::Never);
            self.lead_until(is_done, || self.ring.next(), Replaces::Ring)?;
        }
        Ok(())
    }

    /// Whether so much of the ring is used that the log should be synced.
    pub(crate) fn is_filling(&self) -> bool {
        // First: others go on meanwhile.
        let synced = self.ring.synced();
        self.ring.next() - synced > self.ring.cells() / SPARE
    }

    /// Whether so much of the log is used that a checkpoint should be made.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let used = self.durable.lock().at - self.start.load(Ordering::Relaxed);
        is_much(used, self.header.lock().region) || self.private.wants_checkpoint()
    }

    /// Says how much memory private pages take, and slows changes if that is too much.
    fn count_private(&self) {
        self.private.count();
        if let Some(share) = self.private.share()
            && self.pages.get().is_some()
            && share.is_used_up()
        {
            if !self.is_held.load(std::sync::atomic::Ordering::Relaxed) {
                self.windows.set_full(true);
            }
            share.wake();
        }
    }

    /// Waits until everything that was flushed is on the disk, where the next process finds it.
    #[inline]
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.write_out(Replaces::Ring).and_then(|()| self.check_name())
    }

    /// As [`sync`](Self::sync), for a caller that is told then that its changes survive the machine.
    #[inline]
    pub(crate) fn commit(&self) -> io::Result<()> {
        let has_more = self.ring.synced() < self.ring.next();
        if has_more { self.vitals.committed(|| self.sync()) } else { self.sync() }
    }

    /// As [`commit`](Self::commit). If there is nothing to write, this looks all the same whether the next process
    /// would find the log and the ring.
    pub(crate) fn sync_and_look(&self) -> io::Result<()> {
        let is_known = self.gate.load(Ordering::Acquire) & (FAILED | NO_LOG) != 0;
        if !is_known && (self.log.is_gone() || self.ring.memory().is_gone()) && !self.pool.is_gone() {
            self.lead_once()?;
        }
        self.commit()
    }

    /// Leads once, or waits while another thread does: what is gone is made again, even if nothing is to be written.
    fn lead_once(&self) -> io::Result<()> {
        let has_led = Cell::new(false);
        self.lead_until(|| has_led.replace(true), || self.ring.next(), Replaces::Ring)
    }

    /// Waits until everything that was flushed is on the disk.
    fn write_out(&self, replaces: Replaces) -> io::Result<()> {
        let next = self.ring.next();
        if self.ring.synced() >= next && self.failure.get().is_none() {
            return Ok(());
        }
        self.lead_until(|| self.ring.synced() >= next, || self.ring.next(), replaces)
    }

    /// The error that keeps everything from being acknowledged, if there is one.
    #[inline]
    pub(crate) fn check_acknowledged(&self) -> io::Result<()> {
        if self.gate.load(Ordering::Acquire) & (FAILED | NO_LOG | NO_RING | UNWATCHED) == 0 {
            Ok(())
        } else {
            self.look()
        }
    }

    /// Has somebody look at what was flushed, if nobody does.
    #[cold]
    #[inline(never)]
    fn look(&self) -> io::Result<()> {
        let gate = self.gate.load(Ordering::Acquire);
        if gate & UNWATCHED != 0
            && self.gate.fetch_and(!UNWATCHED, Ordering::AcqRel) & UNWATCHED != 0
            && let Some(wakers) = self.wakers.get()
        {
            (wakers.sync)();
        }
        if gate & (FAILED | NO_LOG | NO_RING) == 0 { Ok(()) } else { self.refuse() }
    }

    /// Whether something was flushed that is not on the disk.
    pub(crate) fn has_more(&self) -> bool {
        self.ring.next() > self.ring.synced() && self.check().is_ok()
    }

    /// From now on, somebody looks at what is flushed.
    pub(crate) fn is_watched(&self) {
        self.gate.fetch_and(!UNWATCHED, Ordering::AcqRel);
    }

    /// Has threads say that they have flushed something. Tells whether they were told so before: a thread that has
    /// flushed something before it could see that has been seen by now.
    pub(crate) fn is_unwatched(&self) -> bool {
        self.gate.fetch_or(UNWATCHED, Ordering::AcqRel) & UNWATCHED != 0
    }

    /// The error that makes a kill lose what was flushed, if there is one.
    fn check_name(&self) -> io::Result<()> {
        let gate = self.gate.load(Ordering::Acquire);
        if gate & (NO_LOG | NO_RING) == 0 {
            return Ok(());
        }
        let lost = if gate & NO_LOG != 0 { "the log was removed".to_owned() } else { self.why_no_ring() };
        Err(io::Error::new(io::ErrorKind::NotFound, format!("{lost}; close the pool, which loses nothing")))
    }

    fn why_no_ring(&self) -> String {
        let why = self.no_ring.lock();
        let why = why.as_ref().map_or_else(String::new, |NoRing { why, .. }| format!(": {why}"));
        format!("the ring was removed, and there can be no other one{why}")
    }

    /// Notes that there is no ring that the next process would find, and why; or that there is one.
    pub(super) fn has_no_ring(&self, why: Option<io::Error>) {
        let error = why.as_ref().map(io::Error::to_string);
        *self.no_ring.lock() = why.map(|why| NoRing { why, since: Instant::now() });
        match error {
            None => _ = self.gate.fetch_and(!NO_RING, Ordering::AcqRel),
            Some(error) if self.gate.fetch_or(NO_RING, Ordering::AcqRel) & NO_RING == 0 => {
                self.vitals.tell(EventKind::RingLost { error });
            }
            Some(_) => {}
        }
    }

    /// Lets the threads that wait look again.
    fn wake(&self) {
        // A thread that has waited must have seen what has changed, or be waiting by now.
        drop(self.lead.lock());
        if holds(Rule::Wake) {
            self.changed.notify_all();
        }
    }

    /// Lets nobody fill cells of the ring from a position on, which it returns, and no change begin.
    pub(super) fn shut_ring(&self) -> u64 {
        self.gate.fetch_or(CROWDED, Ordering::Relaxed);
        let first = self.ring.shut();
        self.wake();
        first
    }

    /// Takes that back.
    pub(super) fn open_ring(&self) {
        self.counts.rings.fetch_add(1, Ordering::Relaxed);
        self.ring.open();
        self.look_for_room();
        self.wake();
    }

    /// Waits until something is done, by leading if nobody else does: by syncing all positions below `goal`.
    #[cold]
    fn lead_until(&self, done: impl Fn() -> bool, goal: impl Fn() -> u64, replaces: Replaces) -> io::Result<()> {
        let mut lead = self.lead.lock();
        let mut turns = 0u32;
        loop {
            turns += 1;
            if gives_up(turns / 256) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            // What is done is done, whatever failed after it; but a failure may be the reason why there is nothing to
            // do.
            self.check()?;
            if done() {
                return Ok(());
            }
            lead = match lead.take() {
                None => self.changed.wait(lead),
                Some(mine) => {
                    drop(lead);
                    let mut leading = Leading { engine: self, lead: Some(mine) };
                    let led = leading.write_out(goal(), Holes::Wait).and_then(|()| leading.sync());
                    let led = led.and_then(|()| leading.replace_ring(replaces));
                    drop(leading);
                    led.map_err(|fault| self.fail(fault))?;
                    self.lead.lock()
                }
            };
        }
    }

    /// Leads, where nobody else does. Returns where the log ends then.
    pub(super) fn lead(&self, work: impl FnOnce(&mut Leading<'_, F, R>) -> Result<(), Fault>) -> Result<Mark, Fault> {
        let lead = self.lead.lock().take();
        let mut leading = Leading { engine: self, lead };
        work(&mut leading)?;
        Ok(leading.parts().1.end)
    }

    /// The error that closed the journal, if one did.
    #[inline]
    pub(crate) fn check(&self) -> io::Result<()> {
        if self.gate.load(Ordering::Acquire) & FAILED == 0 { Ok(()) } else { self.refuse() }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self) -> io::Result<()> {
        self.failure.get().map_or_else(|| self.check_name(), |failure| Err(failure.error()))
    }

    /// Whether the journal is closed.
    #[cfg(test)]
    pub(crate) fn is_failed(&self) -> bool {
        self.failure.get().is_some()
    }

    /// Closes the journal (J13).
    pub(super) fn fail(&self, fault: Fault) -> io::Error {
        self.note(&fault);
        // A thread that waits must see it.
        drop(self.lead.lock());
        self.changed.notify_all();
        self.failure.get().map_or_else(|| io::Error::other("left out"), Failure::error)
    }

    /// Closes the journal for what was told of one of its files, by whichever call (J29). It takes no lock.
    pub(crate) fn is_told(&self, failed: &Failed) {
        self.note(&Fault::io(failed.doing)(failed.source()));
    }

    /// Notes why the journal is closed.
    fn note(&self, fault: &Fault) {
        let failure = match fault.kind() {
            ErrorKind::Io { doing, source } => Failure { doing, kind: source.kind(), code: source.raw_os_error() },
            _ => Failure { doing: "read the log, which is damaged", kind: io::ErrorKind::InvalidData, code: None },
        };
        // The next process must know of it, too, and what the system shows may hide it (J29). It may find the ring
        // before this one.
        let note = || {
            head::note_failed(self.ring.memory().words(), true);
            self.before.lock().iter().for_each(|before| head::note_failed(before.words(), true));
        };
        note();
        if holds(Rule::Closed) && self.failure.set(failure).is_ok() {
            self.gate.fetch_or(FAILED, Ordering::Release);
            self.ring.close();
            self.failure.get().into_iter().for_each(|failure| self.vitals.failed(failure.error()));
        }
        // Another ring may have taken the place of that one meanwhile. From here on, a leader that replaces the ring
        // sees the failure.
        note();
    }

    /// Applies the part of the log that is on the disk to the pool file, and forgets it. Called by one thread at a
    /// time, which also makes the log longer.
    pub(crate) fn checkpoint(&self) -> io::Result<()> {
        let applied = self.apply(&mut self.applied.lock(), true);
        let wanted = applied.and_then(|done| self.want_more(done));
        wanted.and_then(|()| self.punch_released()).map_err(|fault| self.fail(fault))
    }

    /// Makes the pool file all that the pool is, and says so in its marker. Nothing is flushed any more.
    pub(crate) fn settle(&self) -> io::Result<()> {
        // The next process asks for no ring.
        let written = self.write_out(Replaces::Not);
        let mut lead = self.lead.lock();
        while lead.is_none() {
            lead = self.changed.wait(lead);
        }
        // While nobody leads: the close may remove the ring, and nobody may take that for a loss.
        let none = if holds(Rule::NoneAfterClose) { Larger::Never } else { Larger::No };
        let larger = mem::replace(&mut *self.larger.lock(), none);
        drop(lead);
        if let Larger::Waits(unnamed, _) = larger {
            unnamed.remove();
        }
        written?;
        self.say_settled().map_err(|fault| self.fail(fault))
    }

    fn say_settled(&self) -> Result<(), Fault> {
        let mut applied = self.applied.lock();
        self.apply(&mut applied, true)?;
        // As the header on the disk says it: so the next open sees whether that is still there.
        let header = *self.header.lock();
        (applied.marker.number, applied.marker.applied) = (header.number, header.start.position);
        applied.marker.settled = true;
        applied.marker.write_through(&self.pool).map_err(Fault::io("write to the pool"))?;
        self.punch_released()
    }

    /// Applies the part of the log that is on the disk to the pool file. `forget`: whether the pool file is synced, and
    /// the log's start moved.
    pub(super) fn apply(&self, applied: &mut Applied, forget: bool) -> Result<Done, Fault> {
        self.check().map_err(Fault::io("go on"))?;
        let durable = self.durable.lock();
        let end = *durable;
        // Whatever is synced from here on is for the next one.
        self.private.apply();
        drop(durable);
        let known = *self.header.lock();
        if known.start == end {
            return Ok(Done::default());
        }
        let began = Instant::now();
        // The marker first, on the disk: what it says may be too much, and never too little.
        applied.marker.applied = end.position;
        applied.marker.number = applied.marker.number.max(known.number + u64::from(forget));
        applied.marker.write_through(&self.pool).map_err(Fault::io("write to the pool"))?;
        let from = if holds(Rule::ApplyOnce) { applied.until } else { known.start };
        // Nobody waits for a checkpoint, but for an open. Each thread takes some memory.
        let budget = self.private.budget();
        let threads = if forget { 1 } else { processors().min((budget >> 20).try_into().unwrap_or(usize::MAX)).max(1) };
        let mut patches = Patches::new(&self.pool, self.len(), budget, threads);
        let mut frames = Frames::new(&self.log, known, from);
        each(&mut frames, end.at, self.len(), |entry, words| patches.push(entry, words))?;
        let written = patches.done().map_err(Fault::io("write to the pool"))?;
        applied.until = end;
        if !forget {
            return Ok(Done::default());
        }
        // Nothing of the log is given up before (J10).
        if holds(Rule::PoolSync) {
            let synced = self.sync_pool();
            if holds(Rule::FailedPoolSync) {
                synced?;
            }
        }
        self.private.is_applied();
        self.set_header(|header| (header.start, header.number) = (end, header.number + 1))?;
        self.vitals.checkpointed(began.elapsed());
        self.counts.pool.fetch_add(written, Ordering::Relaxed);
        Ok(Done { region: known.region.len, part: end.at - from.at, written })
    }

    /// Waits until what was written to the pool file is on the disk.
    fn sync_pool(&self) -> Result<(), Fault> {
        self.sync_pool_with(|| self.pool.sync())
    }

    fn sync_pool_with(&self, sync: impl FnOnce() -> io::Result<()>) -> Result<(), Fault> {
        let _alone = self.syncing_pool.lock();
        self.check().map_err(Fault::io("go on"))?;
        let synced = sync().map_err(Fault::io("sync the pool"));
        // Before another checkpoint asks the system, which would not mention it again.
        synced.inspect_err(|fault| {
            if holds(Rule::FailedPoolSync) {
                self.note(fault)
            }
        })
    }

    /// Makes room for a longer log after a checkpoint of much of it, if the log is still small, or if the checkpoint
    /// had more to write to the pool file: the longer the part, the more of its entries are in the same pages, and the
    /// fewer checkpoints are made. If there is no room, the log stays as it is.
    fn want_more(&self, Done { region, part, written }: Done) -> Result<(), Fault> {
        let len = region * 2;
        if written <= part && len > USUAL && region > self.wanted_for_images()
            || part < region / 4
            || len > MOST
            || header::REGION + len > longest_file()
            || self.wanted.load(Ordering::Relaxed) != region
        {
            return Ok(());
        }
        let (behind, end) = (header::REGION + region, header::REGION + len);
        // In pieces: a sync of others may have to wait for one of them.
        for from in (behind..end).step_by(ZEROS as usize) {
            if let Err(error) = disk::zero(from..end.min(from + ZEROS), |at, zeros| self.log.write(at, zeros)) {
                if holds(Rule::GrownWrite) && !is_room_missing(&error) {
                    return Err(Fault::io("write to the log")(error));
                }
                return self.log.cut(behind).map_err(Fault::io("cut the log"));
            }
            // The length of the file, too, is on the disk before a header that says so.
            if holds(Rule::GrownSync) {
                self.sync_log()?;
            }
        }
        self.wanted.store(len, Ordering::Release);
        Ok(())
    }

    /// Changes the log's header, durably.
    pub(super) fn set_header(&self, change: impl FnOnce(&mut Header)) -> Result<(), Fault> {
        let mut header = self.header.lock();
        self.check().map_err(Fault::io("go on"))?;
        change(&mut header);
        header.write(&self.log).map_err(Fault::io("write the log's header"))?;
        self.sync_log()?;
        self.sequence.store(header.sequence, Ordering::Release);
        self.start.store(header.start.at, Ordering::Release);
        let oldest = self.images.held.lock().map_or(header.oldest(), |held| held.min(header.oldest()));
        self.oldest.store(oldest, Ordering::Release);
        let _alone = self.durable.lock();
        self.ring.note(header.salt, self.on_disk());
        Ok(())
    }

    /// What is on the disk.
    fn on_disk(&self) -> OnDisk {
        OnDisk { synced: self.ring.synced(), sequence: self.sequence.load(Ordering::Acquire) }
    }

    /// The position up to which the log was synced, if the ring on the disk does not say so yet, and nothing was
    /// flushed since.
    pub(crate) fn unvouched(&self) -> Option<u64> {
        let synced = self.ring.synced();
        (synced != self.vouched.load(Ordering::Acquire) && self.ring.next() == synced).then_some(synced)
    }

    /// Has the next sync wake the job that vouches.
    pub(crate) fn awaits_sync(&self) {
        self.vouching.swap(0, Ordering::AcqRel);
    }

    /// Writes through what the ring says of the log, so that the last frames are vouched for if the power goes later
    /// (J28).
    pub(crate) fn vouch(&self) -> io::Result<()> {
        self.check()?;
        // No other thread may note a later position meanwhile: this would overwrite it.
        let noting = self.durable.lock();
        let synced = self.ring.synced();
        let written = head::write_through(&**self.ring.memory());
        drop(noting);
        self.vouched.store(synced, Ordering::Release);
        written.map_err(|error| self.fail(Fault::io("write to the ring")(error)))
    }

    /// Waits until what was written to the log is on the disk.
    fn sync_log(&self) -> Result<(), Fault> {
        let alone = self.syncing.lock();
        self.check().map_err(Fault::io("go on"))?;
        let synced = self.log.sync().map_err(Fault::io("sync the log"));
        // Nobody would find what it has; unless the pool itself is gone: then nobody looks for anything.
        if self.log.is_gone() && !self.pool.is_gone() {
            let is_told = self.gate.fetch_or(NO_LOG, Ordering::AcqRel) & NO_LOG != 0;
            (!is_told).then(|| self.vitals.tell(EventKind::LogLost));
        }
        if !holds(Rule::NotedAlone) {
            drop(alone);
            yield_now();
            return synced.inspect_err(|fault| self.note(fault));
        }
        // Before anybody else asks the system, which would not mention it again.
        synced.inspect_err(|fault| self.note(fault))
    }

    pub(super) fn ring_bytes(&self) -> u64 {
        super::memory::words(self.ring.cells()) as u64 * 8
    }

    /// Numbers about the journal.
    pub(crate) fn stat(&self) -> JournalStat {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (entries, log) = (self.ring.next(), self.header.lock().region.len);
        let [syncs, checkpoints, waits] = self.vitals.counts();
        JournalStat {
            // Its owner knows.
            mode: Journal::default(),
            log,
            used: self.durable.lock().at - count(&self.start),
            ring: self.ring_bytes(),
            pending: entries - self.ring.synced().min(entries),
            entries,
            syncs,
            log_written: count(&self.counts.log),
            pool_written: count(&self.counts.pool),
            checkpoints,
            waits,
            rings: count(&self.counts.rings),
            private: self.private.share().map_or(0, Share::bytes),
            budget: Some(self.private.budget()).filter(|&bytes| bytes != Share::NO_LIMIT),
            evicted: self.counts.evicted.load(std::sync::atomic::Ordering::Relaxed),
            slowed: self.windows.slowed(),
            recovered: Recovered::default(),
        }
    }
}

impl Failure {
    fn error(&self) -> io::Error {
        let reason = match self.code {
            Some(code) => io::Error::from_raw_os_error(code).to_string(),
            None => self.kind.to_string(),
        };
        io::Error::new(self.kind, format!("cannot {}: {reason}", self.doing))
    }
}

/// The leader: the thread that writes the log.
pub(super) struct Leading<'e, F: Disk, R: Memory> {
    engine: &'e Engine<F, R>,
    /// There until it is given back.
    lead: Option<Lead>,
}

impl<F: Disk, R: Memory> Drop for Leading<'_, F, R> {
    fn drop(&mut self) {
        *self.engine.lead.lock() = self.lead.take();
        self.engine.changed.notify_all();
    }
}

impl<'e, F: Disk, R: Memory> Leading<'e, F, R> {
    /// Writes all positions below `goal` to the log.
    pub(super) fn write_out(&mut self, goal: u64, holes: Holes) -> Result<(), Fault> {
        let (engine, lead) = self.parts();
        let mut spins = 0u32;
        while lead.end.position < goal {
            Self::grow(engine, lead)?;
            // A frame takes at most a quarter of the region.
            let most = ((lead.region.len / 4 - HEAD as u64) / ENTRY as u64).clamp(1, POSITIONS);
            lead.body.clear();
            let mut position = lead.end.position;
            while position < goal.min(lead.end.position + most) {
                match engine.ring.append_to(position, || engine.len(), &mut lead.body) {
                    Content::Damaged if holes == Holes::Wait => return Err(damaged_cell()),
                    Content::Filled => {}
                    _ if holes == Holes::Wait && holds(Rule::Holes) => break,
                    _ => {}
                }
                position += 1;
            }
            if position == lead.end.position {
                // The thread that this waits for may wait for room.
                if spins == 0 && lead.end.position > engine.ring.synced() {
                    Self::sync_all(engine, lead)?;
                }
                // After a failure, its thread may have found no room, and have dropped its entry (J13).
                if holds(Rule::LeaderLooks) {
                    engine.check().map_err(Fault::io("go on"))?;
                }
                spins += 1;
                if gives_up(spins) {
                    return Err(Fault::io("wait")(io::ErrorKind::TimedOut.into()));
                }
                if spins.is_multiple_of(SPINS) {
                    // A cell that is never filled may be an older one, which the disk had.
                    if spins.is_multiple_of(SPINS * LOOKS) {
                        engine.ring.memory().check().map_err(Fault::io("write the ring back"))?;
                    }
                    yield_now()
                } else {
                    spin_loop()
                }
                continue;
            }
            spins = 0;
            Self::make_room(engine, lead)?;
            let positions = (position - lead.end.position) as u32;
            let known = if holds(Rule::FrameSynced) { engine.on_disk() } else { OnDisk::default() };
            let (epoch, salt) = (lead.header.life.epoch, lead.header.salt);
            engine.private.write(position, lead.body.entries(), engine.len());
            let frame = lead.body.frame(lead.end, positions, epoch, known, salt);
            log::write(&engine.log, lead.region, lead.end.at, frame).map_err(Fault::io("write to the log"))?;
            engine.counts.log.fetch_add(frame.len() as u64, Ordering::Relaxed);
            lead.end = Mark { at: lead.end.at + frame.len() as u64, position };
        }
        Ok(())
    }

    /// Gives the log the length that is wanted, if what is used of it is in one piece.
    fn grow(engine: &Engine<F, R>, lead: &mut Lead) -> Result<(), Fault> {
        let wanted = engine.wanted.load(Ordering::Acquire);
        let grown = lead.region.grown(engine.oldest.load(Ordering::Acquire), lead.end.at, wanted);
        if let Some(region) = grown.filter(|_| wanted > lead.region.len) {
            // Not before it is on the disk: until then, another part of the log may be where frames will be.
            engine.set_header(|header| header.region = region)?;
            engine.vitals.tell(EventKind::LogGrew { from: lead.region.len, to: region.len });
            lead.region = region;
        }
        Ok(())
    }

    /// Makes room in the log for the frame that is being made.
    fn make_room(engine: &Engine<F, R>, lead: &Lead) -> Result<(), Fault> {
        let behind = lead.end.at + lead.body.len() as u64;
        let is_full = |from: &AtomicU64| behind - from.load(Ordering::Acquire) > lead.region.len && holds(Rule::Reuse);
        while is_full(&engine.start) {
            Self::sync_all(engine, lead)?;
            let mut applied = engine.applied.lock();
            // Somebody else may have made room meanwhile.
            if is_full(&engine.start) {
                engine.apply(&mut applied, true)?;
            }
        }
        if is_full(&engine.oldest) && holds(Rule::ImageKept) {
            let mut lost = None;
            // While this has waited for the header, another image may have taken the place of the one in the way.
            engine.set_header(|header| {
                let is_in_the_way = |from: u64| behind - from > lead.region.len;
                lost = header.image.take_if(|image| is_in_the_way(image.kept.at));
                engine.images.held.lock().take_if(|held| is_in_the_way(*held));
            })?;
            engine.has_lost_image(lost);
        }
        Ok(())
    }

    pub(super) fn sync(&mut self) -> Result<(), Fault> {
        let (engine, lead) = self.parts();
        Self::sync_all(engine, lead)
    }

    pub(super) fn parts(&mut self) -> (&'e Engine<F, R>, &mut Lead) {
        (self.engine, self.lead.as_mut().expect("it was not given back"))
    }

    /// Waits until everything that was written is on the disk.
    fn sync_all(engine: &Engine<F, R>, lead: &Lead) -> Result<(), Fault> {
        let end = lead.end;
        if !holds(Rule::SyncedLast) {
            engine.ring.set_synced(end.position);
        }
        if !holds(Rule::NotedLast) {
            engine.ring.note(lead.header.salt, OnDisk { synced: end.position, ..engine.on_disk() });
        }
        let began = Instant::now();
        engine.sync_log()?;
        engine.vitals.synced(began.elapsed());
        let mut durable = engine.durable.lock();
        engine.private.sync();
        *durable = end;
        // Not before: a cell is filled again only when what it had is on the disk (J4).
        engine.ring.set_synced(end.position);
        engine.ring.note(lead.header.salt, engine.on_disk());
        drop(durable);
        engine.count_private();
        engine.look_for_room();
        engine.wake();
        // The first sync after what was vouched for wakes the thread that vouches.
        if engine.vouching.swap(1, Ordering::AcqRel) == 0
            && let Some(wakers) = engine.wakers.get()
        {
            (wakers.sync)();
        }
        let used = end.at - engine.start.load(Ordering::Relaxed);
        let wants_image = engine.wants_image(end.at);
        if let Some(wakers) = engine.wakers.get().filter(|_| is_much(used, lead.region) || wants_image) {
            (wakers.checkpoint)();
            if wants_image {
                (wakers.image)();
            }
        }
        Ok(())
    }
}

fn damaged_cell() -> Fault {
    Fault::io("read the ring, in which an entry is damaged")(io::ErrorKind::InvalidData.into())
}

/// Whether so much of a log is used that a checkpoint should be made.
fn is_much(used: u64, region: Region) -> bool {
    used > region.len / 2
}
