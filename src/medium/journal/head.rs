//! What a ring begins with: four sectors. The last one is free.
//!
//! ```text
//! 0        whose it is: "BRISRNG2" | uuid | uuid | salt | epoch | nonce | nonce before | boot | cells | seat | CRC-32
//! 512      what is on the disk, twice (J24): position | sequence of the header | check
//! 1024     whether something has failed (J29): bits | the same bits, turned over
//! 2048     cells
//! ```
//!
//! The first sector is written as a whole, and through. The others are words that are stored one by one.

use super::frame::OnDisk;
use super::header::{Epoch, Header, Seat};
use super::memory::{Memory, cells};
use super::sealed::{seal, unseal, word};
use super::sum::KeyedSum;
use crate::sync::{AtomicU64, Ordering, fence};
use std::io;

/// "BRISRNG2".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISRNG2");
/// Words of the first sector that say whose the ring is.
const OWNER: usize = 11;
const ON_DISK: [usize; 2] = if cfg!(bristlecone_loom) { [0, 4] } else { [64, 68] };
/// The sector that says what is on the disk.
const ON_DISK_SECTOR: std::ops::Range<usize> = if cfg!(bristlecone_loom) { 0..8 } else { 64..128 };
const FAILED: usize = if cfg!(bristlecone_loom) { 12 } else { 128 };

/// Whose a ring is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RingOwner {
    pub(super) uuid: [u64; 2],
    pub(super) salt: u64,
    pub(super) epoch: u64,
    pub(super) nonce: u64,
    /// The nonce of the epoch before.
    pub(super) before: u64,
    pub(super) boot: u64,
    pub(super) seat: Option<Seat>,
}

/// What a ring is to a log (J21).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belongs {
    /// The ring of the epoch that the header names.
    Now,
    /// That of an epoch which was about to begin: an open was cut.
    Next,
    /// It is another pool's, or none.
    Foreign,
    /// It is this pool's, and of another time.
    OtherTime,
}

impl RingOwner {
    /// Whose the ring in these words is, if it says so.
    pub(super) fn read(words: &[AtomicU64]) -> Option<Self> {
        let cells = cells(words.len());
        let mut bytes = [0; OWNER * 8];
        for (bytes, word) in bytes.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        let found: [u64; OWNER] = unseal(&bytes)?;
        let [magic, first, second, salt, epoch, nonce, before, boot, has, seat, _] = found;
        let is_one = magic == MAGIC && has == cells && cells.is_power_of_two();
        let seat = Seat::decode(seat)?;
        is_one.then_some(Self { uuid: [first, second], salt, epoch, nonce, before, boot, seat })
    }

    /// Whose the ring of an epoch is that comes after a header.
    pub(super) fn following(before: &Header, life: Epoch) -> Self {
        let Header { uuid, salt, life: Epoch { nonce, .. }, .. } = *before;
        Self { uuid, salt, epoch: life.epoch, nonce: life.nonce, before: nonce, boot: life.boot, seat: life.seat }
    }

    /// Says whose a ring is from now on, on the disk.
    pub(super) fn write<R: Memory>(&self, memory: &R) -> io::Result<()> {
        let Self { uuid, salt, epoch, nonce, before, boot, seat } = *self;
        let cells = cells(memory.words().len());
        let seat = Seat::encode(seat);
        let bytes: [u8; OWNER * 8] = seal([MAGIC, uuid[0], uuid[1], salt, epoch, nonce, before, boot, cells, seat, 0]);
        let words: Vec<u64> = bytes.chunks_exact(8).map(word).collect();
        memory.write_through(0, &words)
    }

    /// What the ring is to the log with this header.
    pub(super) fn belongs(&self, header: &Header) -> Belongs {
        let life = header.life;
        if self.uuid != header.uuid {
            return Belongs::Foreign;
        }
        if self.salt == header.salt && (self.epoch, self.nonce) == (life.epoch, life.nonce) {
            return Belongs::Now;
        }
        if self.salt == header.salt && self.epoch > life.epoch && self.before == life.nonce {
            return Belongs::Next;
        }
        Belongs::OtherTime
    }
}

/// Notes what is on the disk, of the log with this salt. A kill leaves one of the two copies whole. What an earlier
/// epoch has noted stays true.
pub(super) fn note(words: &[AtomicU64], salt: u64, known: OnDisk) {
    for copy in ON_DISK {
        words[copy + 2].store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        words[copy].store(known.synced, Ordering::Relaxed);
        words[copy + 1].store(known.sequence, Ordering::Relaxed);
        words[copy + 2].store(check(salt, known), Ordering::Release);
    }
}

/// Writes through what was noted.
pub(super) fn write_through<R: Memory>(memory: &R) -> io::Result<()> {
    let words = &memory.words()[ON_DISK_SECTOR];
    let noted: Vec<u64> = words.iter().map(|word| word.load(Ordering::Acquire)).collect();
    memory.write_through(ON_DISK_SECTOR.start, &noted)
}

/// Makes a ring that has nothing that of an epoch which a header is about to name, and which begins at a position.
pub(super) fn begin<R: Memory>(memory: &R, before: &Header, life: Epoch, position: u64) -> io::Result<()> {
    memory.bear_witness();
    note(memory.words(), before.salt, OnDisk { synced: position, sequence: before.sequence });
    RingOwner::following(before, life).write(memory)
}

/// What is on the disk, at least, of the log with this salt; `None` if neither of the copies is whole.
pub(super) fn known(words: &[AtomicU64], salt: u64) -> Option<OnDisk> {
    let whole = ON_DISK.into_iter().filter_map(|copy| {
        let word = |i: usize| words[copy + i].load(Ordering::Acquire);
        let known = OnDisk { synced: word(0), sequence: word(1) };
        (word(2) == check(salt, known)).then_some(known)
    });
    whole.max_by_key(|known| (known.sequence, known.synced))
}

fn check(salt: u64, known: OnDisk) -> u64 {
    KeyedSum::new(salt, known.synced, known.sequence).check()
}

/// Says that the next process must not believe what the system shows of the files (J29).
pub(super) fn note_failed(words: &[AtomicU64], has_failed: bool) {
    words[FAILED].store(has_failed.into(), Ordering::Release);
    words[FAILED + 1].store(!u64::from(has_failed), Ordering::Release);
}

/// Whether something has failed; also if it cannot be told.
pub(crate) fn has_failed(words: &[AtomicU64]) -> bool {
    let [failed, turned] = [0, 1].map(|i| words[FAILED + i].load(Ordering::Acquire));
    !(failed == 0 && (turned == !0 || turned == 0))
}
