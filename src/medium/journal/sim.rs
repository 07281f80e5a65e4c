//! A disk that can be cut, for the checks of the journal: sectors of what was not synced are kept or lost one by one.

use super::disk::Disk;
use super::ring::Memory;
use crate::sync::AtomicU64;
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64 as Counter, Ordering};

/// What a disk writes whole or not at all.
const SECTOR: u64 = 512;

/// Random numbers, from a seed.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
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
    /// All writes and syncs so far.
    pub(super) done: Counter,
}

/// A file on a disk that can be cut.
#[derive(Clone)]
pub(super) struct SimDisk {
    fate: Arc<Fate>,
    file: Arc<Mutex<SimFile>>,
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
        if self.cached.len() < end {
            self.cached.resize(end, 0);
            self.durable.resize(end, 0);
        }
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

    /// Keeps some of what is pending: of each sector, what was written up to some moment.
    fn settle(&mut self, random: &mut Random) {
        let all = random.below(4);
        let mut cut = std::collections::HashMap::new();
        for (at, bytes) in std::mem::take(&mut self.pending) {
            let sector = at as u64 / SECTOR;
            let lost = cut.entry(sector).or_insert(false);
            *lost |= match all {
                0 => true,
                1 => false,
                _ => random.one_in(2),
            };
            if !*lost {
                self.durable[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
    }
}

impl SimDisk {
    pub(super) fn new(fate: &Arc<Fate>, len: u64) -> Self {
        let zeros = vec![0; len as usize];
        let file = SimFile { durable: zeros.clone(), cached: zeros, pending: Vec::new() };
        Self { fate: Arc::clone(fate), file: Arc::new(Mutex::new(file)), touched: Arc::default() }
    }

    /// The machine loses its power.
    pub(super) fn lose_power(&self, random: &mut Random) {
        let mut file = self.file.lock();
        file.settle(random);
        file.cached = file.durable.clone();
    }

    /// What the file shows.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.file.lock().cached.clone()
    }

    /// Whether there is one more write or sync.
    fn step(&self) -> Result<(), Random> {
        self.fate.done.fetch_add(1, Ordering::Relaxed);
        let left = self.fate.left.load(Ordering::Relaxed);
        if left == 0 {
            return Err(Random(0));
        }
        self.fate.left.store(left - 1, Ordering::Relaxed);
        if left == 1 { Err(Random(self.fate.seed.load(Ordering::Relaxed) | 1)) } else { Ok(()) }
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
        if !super::marker::PLACE.contains(&at) {
            self.touched.lock().extend(at / 4096..(at + bytes.len() as u64).div_ceil(4096));
        }
        match self.step() {
            Ok(()) => self.file.lock().write(at, bytes),
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
        if self.step().is_err() {
            return Err(io::Error::other("the process is dead"));
        }
        let mut file = self.file.lock();
        let failing = self.fate.failing_sync.load(Ordering::Relaxed);
        self.fate.failing_sync.store(failing.saturating_sub(1), Ordering::Relaxed);
        if failing == 1 {
            // The system forgets that it has something to write, and shows it as before.
            file.settle(&mut Random(self.fate.seed.load(Ordering::Relaxed)));
            return Err(io::Error::other("the disk has failed"));
        }
        for (at, bytes) in std::mem::take(&mut file.pending) {
            file.durable[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(())
    }
}

/// Memory that outlives the process, which is not one here.
#[derive(Clone)]
pub(super) struct SimMemory(Arc<[AtomicU64]>);

impl SimMemory {
    pub(super) fn new(cells: u64) -> Self {
        Self((0..super::ring::words(cells)).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Memory for SimMemory {
    fn words(&self) -> &[AtomicU64] {
        &self.0
    }
}
