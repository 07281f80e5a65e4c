//! A disk that can be cut, for the checks of the journal: sectors of what was not synced are kept or lost one by one.

use super::disk::Disk;
use super::head::RingOwner;
use super::header::Seat;
use super::memory::Memory;
use crate::random::Random;
use crate::sync::AtomicU64;
use parking_lot::Mutex;
use std::cell::RefCell;
#[cfg(feature = "crash")]
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering};

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

thread_local! {
    static LOOK: RefCell<Option<Box<dyn FnMut()>>> = const { RefCell::new(None) };
}

/// From now on, `look` is called at each moment of this thread at which a process may be killed, or the power be lost.
#[cfg(feature = "crash")]
pub(super) fn look_on(look: Option<Box<dyn FnMut()>>) {
    LOOK.set(look);
}

/// A moment at which a process may be killed, or the power be lost.
pub(super) fn moment() {
    // What looks does not look at itself.
    if let Some(mut look) = LOOK.take() {
        look();
        LOOK.set(Some(look));
    }
}

/// When the disks of a machine stop, or lie.
#[derive(Debug, Default)]
pub(super) struct Fate {
    /// The number of writes and syncs that are still done; the next one is cut, and all after it fail.
    pub(super) left: Counter,
    /// Decides how much of the write that is cut is done, and what a failed sync keeps.
    pub(super) seed: Counter,
    /// Counts down to a sync that fails; 0: none does.
    pub(super) failing_sync: Counter,
    /// The number of a write, sync or cut that fails, of all that were done; 0: none does.
    pub(super) failing: Counter,
    /// All writes and syncs so far.
    pub(super) done: Counter,
}

/// A file on a disk that can be cut.
#[derive(Clone)]
pub(super) struct SimDisk {
    fate: Arc<Fate>,
    file: Arc<Mutex<SimFile>>,
    /// The greatest length that there is room for.
    room: u64,
    /// The pages that were written, but for the marker.
    pub(super) touched: Arc<Mutex<std::collections::BTreeSet<u64>>>,
}

#[derive(Clone, Default)]
struct SimFile {
    /// What is certainly on the disk.
    durable: Vec<u8>,
    /// What the system shows.
    cached: Vec<u8>,
    /// Parts of sectors that were written since the last sync, in order.
    pending: Vec<(usize, Vec<u8>)>,
}

impl SimFile {
    fn write(&mut self, at: u64, bytes: &[u8]) {
        let end = at as usize + bytes.len();
        // The length on the disk is another one until a sync, or until the system happens to write it.
        self.cached.resize(self.cached.len().max(end), 0);
        self.cached[at as usize..end].copy_from_slice(bytes);
        let mut rest = bytes;
        let mut at = at;
        while !rest.is_empty() {
            let len = ((SECTOR - at % SECTOR) as usize).min(rest.len());
            let (piece, behind) = rest.split_at(len);
            self.pending.push((at as usize, piece.to_vec()));
            (rest, at) = (behind, at + len as u64);
        }
    }

    /// Keeps some of what is pending: of each sector, what was written up to some moment; and the length, or not.
    fn keep_some(&mut self, random: &mut Random) {
        let all = random.below(4);
        if self.durable.len() < self.cached.len() && random.one_in(2) {
            self.durable.resize(self.cached.len(), 0);
        }
        let mut cut = std::collections::HashMap::new();
        for (at, bytes) in std::mem::take(&mut self.pending) {
            let sector = at as u64 / SECTOR;
            let lost = cut.entry(sector).or_insert(false);
            *lost |= match all {
                0 => true,
                1 => false,
                _ => random.one_in(2),
            };
            if let Some(kept) = self.durable.get_mut(at..at + bytes.len()).filter(|_| !*lost) {
                kept.copy_from_slice(&bytes);
            }
        }
    }
}

impl super::images::ImagePlace for SimDisk {
    fn replace(&self, image: &super::images::NewImage) -> io::Result<()> {
        let part = Self::new(&self.fate, 0);
        image.write(|at, bytes| part.write(at, bytes))?;
        part.sync()?;
        moment();
        self.becomes(&part);
        moment();
        Ok(())
    }

    fn read(&self, len: &dyn Fn(&[u8]) -> Option<u64>) -> io::Result<Option<Vec<u8>>> {
        let bytes = self.bytes();
        Ok(len(&bytes).filter(|&len| len == bytes.len() as u64).map(|_| bytes))
    }

    fn remove(&self) {
        self.becomes(&Self::new(&self.fate, 0));
    }
}

impl Fate {
    /// Nothing is ever cut.
    pub(super) fn endless() -> Self {
        let fate = Self::default();
        fate.left.store(u64::MAX, Ordering::Relaxed);
        fate
    }

    /// Whether there is one more write or sync.
    fn step(&self) -> Result<(), Random> {
        self.done.fetch_add(1, Ordering::Relaxed);
        let left = self.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(Random(0));
        }
        self.left.store(left - 1, Ordering::Relaxed);
        if self.done.load(Ordering::Relaxed) == self.failing.load(Ordering::Relaxed) {
            return Err(Random(0));
        }
        if left == 1 { Err(Random(self.seed.load(Ordering::Relaxed) | 1)) } else { Ok(()) }
    }
}

impl SimDisk {
    /// From now on, it shares this fate.
    pub(super) fn obeys(&mut self, fate: &Arc<Fate>) {
        self.fate = Arc::clone(fate);
    }

    /// Another file takes its place.
    pub(super) fn becomes(&self, other: &Self) {
        let other = other.file.lock().clone();
        *self.file.lock() = other;
    }

    /// The file cannot get longer than this.
    pub(super) fn has_room_for(&mut self, bytes: u64) {
        self.room = bytes;
    }

    pub(super) fn new(fate: &Arc<Fate>, len: u64) -> Self {
        let zeros = vec![0; len as usize];
        let file = SimFile { durable: zeros.clone(), cached: zeros, pending: Vec::new() };
        Self { fate: Arc::clone(fate), file: Arc::new(Mutex::new(file)), touched: Arc::default(), room: u64::MAX }
    }

    /// The machine loses its power.
    pub(super) fn lose_power(&self, random: &mut Random) {
        let mut file = self.file.lock();
        file.keep_some(random);
        file.cached = file.durable.clone();
    }

    /// A copy of this file, on a machine of its own.
    pub(super) fn copy(&self, fate: &Arc<Fate>) -> Self {
        let file = self.file.lock().clone();
        Self { fate: Arc::clone(fate), file: Arc::new(Mutex::new(file)), touched: Arc::default(), room: u64::MAX }
    }

    /// How many sectors were written and not synced. (The length counts as one.)
    #[cfg(feature = "crash")]
    pub(super) fn unsynced(&self) -> u32 {
        let file = self.file.lock();
        let sectors: BTreeSet<u64> = file.pending.iter().map(|(at, _)| *at as u64 / SECTOR).collect();
        sectors.len() as u32 + u32::from(file.durable.len() < file.cached.len())
    }

    /// A hash of what the file shows. Not a CRC: whatever is followed by its own CRC would leave no trace in that.
    #[cfg(feature = "crash")]
    pub(super) fn hash(&self) -> u64 {
        hash(&self.file.lock().cached)
    }

    /// The machine loses its power; of the unsynced sectors, in their order, those are kept whose bit is set.
    #[cfg(feature = "crash")]
    pub(super) fn lose(&self, kept: u64) {
        let mut file = self.file.lock();
        let SimFile { durable, cached, pending } = &mut *file;
        let sectors: BTreeSet<u64> = pending.iter().map(|(at, _)| *at as u64 / SECTOR).collect();
        let is_kept = |number: usize| kept >> number.min(63) & 1 == 1;
        if durable.len() < cached.len() && is_kept(sectors.len()) {
            durable.resize(cached.len(), 0);
        }
        for (at, bytes) in std::mem::take(pending) {
            let number = sectors.range(..at as u64 / SECTOR).count();
            if let Some(place) = durable.get_mut(at..at + bytes.len()).filter(|_| is_kept(number)) {
                place.copy_from_slice(&bytes);
            }
        }
        cached.clone_from(durable);
    }

    /// Changes a byte, as damage does.
    pub(super) fn damage(&self, at: u64, change: u8) {
        let SimFile { durable, cached, .. } = &mut *self.file.lock();
        for file in [durable, cached] {
            file[at as usize] ^= change;
        }
    }

    /// What the file shows.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.file.lock().cached.clone()
    }
}

impl Disk for SimDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.lock().cached.len() as u64)
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let file = self.file.lock();
        let from = file.cached.get(at as usize..at as usize + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(from);
        Ok(())
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        if at + bytes.len() as u64 > self.room {
            // A part is written all the same.
            let part = (self.room - at.min(self.room)).min(bytes.len() as u64);
            self.file.lock().write(at, &bytes[..part as usize]);
            return Err(io::ErrorKind::StorageFull.into());
        }
        if !super::marker::PLACE.contains(&at) {
            self.touched.lock().extend(at / 4096..(at + bytes.len() as u64).div_ceil(4096));
        }
        match self.fate.step() {
            Ok(()) => {
                let (mut at, mut rest) = (at, bytes);
                while !rest.is_empty() {
                    let (piece, behind) = rest.split_at(((SECTOR - at % SECTOR) as usize).min(rest.len()));
                    self.file.lock().write(at, piece);
                    (at, rest) = (at + piece.len() as u64, behind);
                    moment();
                }
            }
            Err(mut cut) => {
                if cut.0 != 0 {
                    // A kill does not tear what lies in one sector, either.
                    let cut = cut.below(bytes.len() as u64 + 1);
                    let whole = ((at + cut) / SECTOR * SECTOR).saturating_sub(at);
                    self.file.lock().write(at, &bytes[..whole as usize]);
                }
                return Err(io::Error::other("the process is dead"));
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_range(0..usize::MAX)
    }

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.write(at, bytes)?;
        self.sync_range(at as usize..at as usize + bytes.len())
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        if self.fate.step().is_err() {
            return Err(io::Error::other("the process is dead"));
        }
        // The disk may know the new length or the old one.
        let mut file = self.file.lock();
        file.cached.truncate(len as usize);
        file.pending.retain(|(at, _)| *at < len as usize);
        Ok(())
    }

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        self.write(at, &vec![0; len as usize])
    }

    fn is_gone(&self) -> bool {
        false
    }
}

impl SimDisk {
    /// Waits until what was written to a range is on the disk.
    fn sync_range(&self, range: std::ops::Range<usize>) -> io::Result<()> {
        if self.fate.step().is_err() {
            return Err(io::Error::other("the process is dead"));
        }
        let mut file = self.file.lock();
        let failing = self.fate.failing_sync.load(Ordering::Relaxed);
        self.fate.failing_sync.store(failing.saturating_sub(1), Ordering::Relaxed);
        if failing == 1 {
            // The system forgets that it has something to write, and shows it as before.
            file.keep_some(&mut Random(self.fate.seed.load(Ordering::Relaxed)));
            return Err(io::Error::other("the disk has failed"));
        }
        let SimFile { durable, cached, pending } = &mut *file;
        durable.resize(cached.len(), 0);
        let (synced, others) = std::mem::take(pending).into_iter().partition(|(at, _)| range.contains(at));
        *pending = others;
        for (at, bytes) in synced {
            let bytes: Vec<u8> = bytes;
            durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        drop(file);
        moment();
        Ok(())
    }
}

#[cfg(feature = "crash")]
fn hash(what: &impl std::hash::Hash) -> u64 {
    std::hash::BuildHasher::hash_one(&std::hash::BuildHasherDefault::<std::hash::DefaultHasher>::default(), what)
}

/// A ring's file: words that outlive the process, and the machine as far as the system has written them to the disk.
#[derive(Clone)]
pub(super) struct SimMemory {
    words: Arc<[AtomicU64]>,
    disk: Arc<Mutex<RingDisk>>,
    /// What the next process finds under the name of the ring.
    named: Arc<Mutex<Option<Named>>>,
    fate: Arc<Fate>,
}

type Named = (Arc<[AtomicU64]>, Arc<Mutex<RingDisk>>);

struct RingDisk {
    durable: Vec<u64>,
    /// Whether the words are those to which the last process has stored.
    is_witnessed: bool,
}

/// Words of a sector.
const IN_SECTOR: usize = SECTOR as usize / 8;

impl SimMemory {
    pub(super) fn new(cells: u64) -> Self {
        Self::of(vec![0; super::memory::words(cells)])
    }

    /// Another one of this size.
    pub(super) fn blank(&self) -> Self {
        Self::of(vec![0; self.words.len()])
    }

    /// As the disk has it, to which nothing more was stored.
    fn of(durable: Vec<u64>) -> Self {
        let words: Arc<[AtomicU64]> = durable.iter().copied().map(AtomicU64::new).collect();
        let disk = Arc::new(Mutex::new(RingDisk { durable, is_witnessed: false }));
        let named = Arc::new(Mutex::new(Some((Arc::clone(&words), Arc::clone(&disk)))));
        Self { words, disk, named, fate: Arc::new(Fate::endless()) }
    }

    /// From now on, it shares this fate.
    pub(super) fn obeys(&mut self, fate: &Arc<Fate>) {
        self.fate = Arc::clone(fate);
    }

    /// Somebody removes the file.
    pub(super) fn lose_name(&self) {
        *self.named.lock() = None;
    }

    /// What the next process finds, if it finds any.
    pub(super) fn found(&self) -> Option<Self> {
        let (words, disk) = self.named.lock().clone()?;
        Some(Self { words, disk, named: Arc::clone(&self.named), fate: Arc::clone(&self.fate) })
    }

    fn now(&self) -> Vec<u64> {
        self.words.iter().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// The system writes some of it to the disk.
    pub(super) fn write_back(&self, random: &mut Random) {
        let now = self.now();
        let mut disk = self.disk.lock();
        for (durable, now) in disk.durable.chunks_mut(IN_SECTOR).zip(now.chunks(IN_SECTOR)) {
            if random.one_in(2) {
                durable.copy_from_slice(now);
            }
        }
    }

    /// What a machine that has lost its power finds.
    pub(super) fn after_power_loss(&self, random: &mut Random) -> Self {
        if random.one_in(3) {
            self.write_back(random);
        }
        Self::of(self.disk.lock().durable.clone())
    }

    /// What a machine that has lost its power finds if the system had written nothing of its own accord.
    pub(super) fn on_disk(&self) -> Self {
        Self::of(self.disk.lock().durable.clone())
    }

    /// What is found where the file system was unmounted, and mounted again; or the file was copied.
    pub(super) fn after_mount(&self) -> Self {
        Self::of(self.now())
    }

    /// A hash of its words, and of what else the next process sees.
    #[cfg(feature = "crash")]
    pub(super) fn hash(&self) -> u64 {
        let disk = self.disk.lock();
        hash(&(self.now(), &disk.durable, disk.is_witnessed))
    }

    /// What the next process finds, if this one is killed now.
    pub(super) fn copy(&self) -> Self {
        let copy = Self::of(self.now());
        let disk = self.disk.lock();
        let is_witnessed = disk.is_witnessed;
        *copy.disk.lock() = RingDisk { durable: disk.durable.clone(), is_witnessed };
        drop(disk);
        copy
    }
}

impl Memory for SimMemory {
    fn words(&self) -> &[AtomicU64] {
        &self.words
    }

    fn write_through(&self, at: usize, words: &[u64]) -> io::Result<()> {
        self.words[at..].iter().zip(words).for_each(|(word, &new)| word.store(new, Ordering::Release));
        self.disk.lock().durable[at..at + words.len()].copy_from_slice(words);
        moment();
        Ok(())
    }

    fn is_witnessed(&self) -> bool {
        self.disk.lock().is_witnessed
    }

    fn bear_witness(&self) {
        self.disk.lock().is_witnessed = true;
    }

    fn check(&self) -> io::Result<()> {
        Ok(())
    }

    fn is_gone(&self) -> bool {
        !self.named.lock().as_ref().is_some_and(|(words, _)| Arc::ptr_eq(words, &self.words))
    }

    fn another(&self, cells: u64) -> io::Result<(Self, Seat)> {
        let Self { words, disk, .. } = Self::new(cells);
        let (named, fate) = (Arc::clone(&self.named), Arc::clone(&self.fate));
        let seat = RingOwner::read(&self.words).and_then(|owner| owner.seat).ok_or(io::ErrorKind::NotFound)?;
        Ok((Self { words, disk, named, fate }, seat))
    }

    fn is_nameable(&self) -> bool {
        true
    }

    fn remove(&self) {}

    fn name(&self, _exchanges: bool) -> io::Result<()> {
        let step = self.fate.step();
        if step.as_ref().map_or_else(|random| random.0 & 2 == 2, |()| true) {
            *self.named.lock() = Some((Arc::clone(&self.words), Arc::clone(&self.disk)));
        }
        moment();
        step.map_err(|_| io::Error::other("the process is dead"))
    }
}
