//! The first form of log and ring ("BRISLOG1"), which builds before this one wrote: it is applied to the pool file, and
//! given up.
//!
//! The frames have fewer words. The ring lies in memory under the names of the boot, and of the log's device and inode;
//! its cells have no check:
//!
//! ```text
//! head     | "BRISRING" | uuid | uuid | epoch | boot | number of cells | device, inode of the log |
//! cell     | the position and 1 | where | up to eight words |
//! ```

use super::apply::Patches;
use super::disk::Disk;
use super::frame::{Body, LogEntry, damaged, entries};
use super::header::Header;
use super::left::reading;
use super::log::Frames;
use super::marker::Marker;
use crate::error::Fault;
use crate::sync::{AtomicU64, Ordering};
use std::io;

/// "BRISRING".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISRING");
/// Words before the first cell, and of a cell.
const HEAD: usize = 8;
const CELL: usize = 10;

/// What tells the ring of a log from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) boot: u64,
    /// Device and inode of the log.
    pub(super) file: [u64; 2],
}

/// Whether a file has a log of this form, of the pool with this uuid.
pub(super) fn header<F: Disk>(log: &F, uuid: [u64; 2]) -> io::Result<Option<Header>> {
    Ok(Header::read_first(log)?.filter(|header| header.uuid == uuid))
}

/// Whose a ring is: what it begins with.
#[derive(Debug, Clone, Copy)]
pub(super) struct FirstRingOwner {
    pub(super) uuid: [u64; 2],
    pub(super) epoch: u64,
    pub(super) id: Identity,
}

impl FirstRingOwner {
    /// Whose the ring in these words is, if it says so.
    pub(super) fn read(words: &[AtomicU64]) -> Option<Self> {
        let (cells, head) =
            ((words.len().saturating_sub(HEAD) / CELL) as u64, |i: usize| words[i].load(Ordering::Acquire));
        let is_ring = words.len() > HEAD && cells.is_power_of_two() && (head(0), head(5)) == (MAGIC, cells);
        is_ring.then(|| Self {
            uuid: [head(1), head(2)],
            epoch: head(3),
            id: Identity { boot: head(4), file: [head(6), head(7)] },
        })
    }
}

/// The epoch of a ring in these words; 0 if the ring does not belong to a log with this header.
pub(super) fn epoch(words: &[AtomicU64], header: &Header, id: Identity) -> u64 {
    FirstRingOwner::read(words)
        .filter(|owner| owner.uuid == header.uuid && owner.id == id)
        .map_or(0, |owner| owner.epoch)
}

/// Calls `store` for each word that the pool file lacks, in order. Returns the end of the positions.
fn each<F: Disk>(
    (pool, marker): (&F, &Marker),
    log: &F,
    header: &Header,
    ring: Option<&[AtomicU64]>,
    mut store: impl FnMut(LogEntry, &[u8]) -> Result<(), Fault>,
) -> Result<u64, Fault> {
    let len = pool.len().map_err(Fault::io("inspect"))?;
    let mut apply =
        |body: &[u8]| entries(body, len).try_for_each(|entry| entry.and_then(|(entry, words)| store(entry, words)));
    let mut frames = Frames::new(log, *header, header.start);
    while let Some(frame) = frames.next().map_err(reading())? {
        apply(frame.body())?;
    }
    let end = frames.end();
    if end.at < header.from.at {
        return Err(damaged("a frame that was synced is damaged"));
    }
    let mut next = end.position;
    if let Some(words) = ring {
        let cells = ((words.len() - HEAD) / CELL) as u64;
        let cell = |position: u64| &words[HEAD + (position & (cells - 1)) as usize * CELL..][..CELL];
        let mut body = Body::default();
        for position in end.position..end.position + cells {
            let cell = cell(position);
            if cell[0].load(Ordering::Acquire) == position + 1 {
                body.clear();
                body.push(
                    cell[1].load(Ordering::Relaxed),
                    len,
                    cell[2..].iter().map(|word| word.load(Ordering::Relaxed)),
                );
                apply(body.entries())?;
                next = position + 1;
            }
        }
    }
    let is_other = !(header.number..=header.number + 1).contains(&marker.number);
    if is_other || marker.applied > next {
        return Err(damaged("it does not go with the pool: it is damaged, or one of them is an old copy"));
    }
    Ok(next)
}

/// Calls `store` with each word that a pool file lacks, and changes nothing.
pub(super) fn look<F: Disk>(
    files: (&F, &Marker),
    log: &F,
    header: &Header,
    ring: Option<&[AtomicU64]>,
    mut store: impl FnMut(u64, u64),
) -> Result<(), Fault> {
    each(files, log, header, ring, |entry, words| {
        entry.store(words, &mut store);
        Ok(())
    })
    .map(drop)
}

/// Makes the pool file all that the pool is, and says so in its marker, durably. Then neither log nor ring are needed.
pub(super) fn settle<F: Disk>(
    (pool, marker): (&F, Marker),
    log: &F,
    header: &Header,
    ring: Option<&[AtomicU64]>,
) -> Result<Marker, Fault> {
    let writing = || Fault::io("write to the pool");
    // All of it is read before any of it is written, because it may be damaged at its end.
    let next = each((pool, &marker), log, header, ring, |_, _| Ok(()))?;
    let mut marker = Marker { applied: next, number: marker.number.max(header.number), ..marker };
    marker.write(pool).map_err(writing())?;
    let mut patches = Patches::new(pool, pool.len().map_err(Fault::io("inspect"))?, u64::MAX, 1);
    each((pool, &marker), log, header, ring, |entry, words| patches.push(entry, words).map_err(writing()))?;
    patches.done().map_err(writing())?;
    pool.sync().map_err(Fault::io("sync the pool"))?;
    marker.settled = true;
    marker.write_through(pool).map_err(writing())?;
    Ok(marker)
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::super::frame::{LogForm, Mark};
    use super::super::header::{Epoch, REGION};
    use super::super::sim::{Fate, SimDisk};
    use super::*;
    use crate::random::Random;
    use std::sync::Arc;

    const UUID: [u64; 2] = [7, 8];
    const LEN: u64 = 8192;
    const REGION_LEN: u64 = 4096;
    const ID: Identity = Identity { boot: 9, file: [5, 6] };
    const CELLS: u64 = 4;

    /// A frame of one entry of one word.
    fn frame(mark: Mark, at: u64, value: u64, salt: u64) -> Vec<u8> {
        let mut frame: Vec<u8> = [mark.at, mark.position, 1 | 16 << 32, 2, 0, (at / 8) | (1 << 48), value]
            .map(u64::to_le_bytes)
            .as_flattened()
            .into();
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&salt.to_le_bytes());
        hasher.update(&frame[..32]);
        hasher.update(&frame[40..]);
        frame[32..40].copy_from_slice(&(u64::from(hasher.finalize()) | 1 << 32).to_le_bytes());
        frame
    }

    /// What an old build leaves that is killed: three entries in the log, and two in the ring, behind one that is
    /// missing.
    fn killed() -> (SimDisk, SimDisk, Vec<AtomicU64>) {
        let fate = Arc::new(Fate::endless());
        let (pool, log) = (SimDisk::new(&fate, LEN), SimDisk::new(&fate, REGION + REGION_LEN));
        let life = Epoch { epoch: 2, nonce: 0, seat: None, boot: 0 };
        let new = Header::new(UUID, REGION_LEN, 3, 77);
        let header = Header { form: LogForm::First, life, ..new };
        log.write(0, &header.encode_first()).unwrap();
        let mut mark = Mark::default();
        for i in 0..3 {
            let frame = frame(mark, 4096 + i * 8, 100 + i, 77);
            log.write(REGION + mark.at, &frame).unwrap();
            mark = Mark { at: mark.at + frame.len() as u64, position: i + 1 };
        }
        Marker::new(UUID, 3, 0).write(&pool).unwrap();
        pool.sync().and_then(|()| log.sync()).unwrap();
        let ring: Vec<AtomicU64> = (0..HEAD + CELLS as usize * CELL).map(|_| AtomicU64::new(0)).collect();
        let head = [MAGIC, UUID[0], UUID[1], 2, ID.boot, CELLS, ID.file[0], ID.file[1]];
        ring.iter().zip(head).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        for position in [4, 5] {
            let cell = &ring[HEAD + position % CELLS as usize * CELL..];
            let place = (512 + position as u64) | (1 << 48);
            [position as u64 + 1, place, 100 + position as u64].into_iter().zip(cell).for_each(|(value, word)| {
                word.store(value, Ordering::Relaxed);
            });
        }
        (pool, log, ring)
    }

    fn words(pool: &SimDisk) -> Vec<u64> {
        (0..6).map(|i| super::super::sealed::word(&pool.bytes()[4096 + i * 8..])).collect()
    }

    #[test]
    fn a_log_and_a_ring_of_the_first_form_are_applied_whatever_is_cut() {
        for left in 0..20 {
            let (mut pool, log, ring) = killed();
            let header = header(&log, UUID).unwrap().expect("a header of the first form");
            assert_eq!(epoch(&ring, &header, ID), 2);
            assert_eq!(epoch(&ring, &header, Identity { boot: 10, ..ID }), 0);
            let marker = Marker::read(&pool).unwrap().unwrap();
            let fate = Arc::new(Fate::default());
            fate.left.store(left, std::sync::atomic::Ordering::Relaxed);
            fate.seed.store(left, std::sync::atomic::Ordering::Relaxed);
            pool.obeys(&fate);
            let cut = settle((&pool, marker), &log, &header, Some(&ring)).is_err();
            pool.obeys(&Arc::new(Fate::endless()));
            if left % 2 == 0 {
                pool.lose_power(&mut Random(left));
            }
            let marker = Marker::read(&pool).unwrap().unwrap();
            assert!(cut || marker.settled);
            if !marker.settled {
                let mut seen = vec![0; 6];
                look((&pool, &marker), &log, &header, Some(&ring), |at, word| seen[(at as usize - 4096) / 8] = word)
                    .unwrap();
                assert_eq!(seen, [100, 101, 102, 0, 104, 105]);
                settle((&pool, marker), &log, &header, Some(&ring)).unwrap();
            }
            assert_eq!(words(&pool), [100, 101, 102, 0, 104, 105]);
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let (pool, log, ring) = killed();
        let header = header(&log, UUID).unwrap().unwrap();
        for marker in [Marker::new(UUID, 9, 0), Marker { applied: 7, ..Marker::new(UUID, 3, 0) }] {
            assert!(settle((&pool, marker), &log, &header, Some(&ring)).is_err());
        }
        // The pool has what only the ring had.
        let marker = Marker { applied: 6, ..Marker::new(UUID, 3, 0) };
        assert!(settle((&pool, marker), &log, &header, None).is_err());
        assert_eq!(words(&pool), [0; 6], "something was applied");
    }
}
