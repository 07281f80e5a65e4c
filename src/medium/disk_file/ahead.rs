//! Space at the end of a file that is written before anybody needs it (J31 in `docs/journal.md`).
//!
//! A thread that takes space says how much more is wanted, in proportion to what the file has, and wakes a thread when
//! half of that is left. The woken thread writes zeros behind everything that was taken, piece by piece, and makes the
//! file longer if need be. Then its length is synced, too (J18), so a thread that needs the space does not wait for the
//! disk.
//!
//! - A piece is written under `working`, and lies behind `used`. So there was no content when it began; and what is
//!   taken, stored or cut meanwhile waits until it is there. No thread waits for more than a piece, or a sync, and none
//!   needs to wait: a thread that finds no space writes it ([`take_written`](DiskFile::take_written)).
//! - What lies behind `len` is nobody's. It is cut off when there is no room, or the file is to be no longer than it
//!   must. Once it is cut, it is not wanted any more, until more is taken.
//! - No room ahead of need is no error.

use super::written::{AheadJob, KnownExtents, LEAST, PAGE, WrittenSpace};
use super::{Call, DiskFile, longest_file};
use std::io;

/// The most that is written ahead of need.
const MOST: u64 = 64 << 20;
/// It is at most one in so many bytes of the memory, so that the zeros are still in memory when they are needed.
const PART: u64 = 32;
/// How much is written at a time: somebody may wait for it.
const PIECE: u64 = 2 << 20;
/// The unit in which a file becomes longer.
const STEP: u64 = 2 << 20;

impl KnownExtents {
    /// Where zeros ahead of need end.
    fn ahead(&self) -> u64 {
        self.parts.end().max(self.used)
    }
}

impl DiskFile {
    /// Says what has [`write_ahead`](Self::write_ahead) called, in a process that may use so many bytes of memory.
    pub(crate) fn is_kept_by(&self, memory: u64, wake: impl Fn() + Send + Sync + 'static) {
        let most = (memory / PART).clamp(LEAST, MOST);
        let _ = self.0.written.keeper.set(AheadJob { most, wake: Box::new(wake) });
    }

    /// Looks how much is left ahead of need, and wants more if that is little. The file never becomes longer than
    /// `most`.
    pub(super) fn look_ahead(&self, most: u64) {
        let WrittenSpace { known, keeper, .. } = &self.0.written;
        let (Some(keeper), mut guard) = (keeper.get(), known.lock()) else { return };
        let Some(known) = guard.as_mut() else { return };
        let more = (known.parts.bytes / 2).clamp(LEAST, keeper.most);
        if known.is_full || known.ahead() >= known.used + more / 2 {
            return;
        }
        let end = known.used + more;
        known.wanted = if end <= known.len {
            end
        } else {
            let most = most.min(longest_file());
            end.next_multiple_of(STEP).min(most / PAGE * PAGE).max(known.len)
        };
        drop(guard);
        (keeper.wake)();
    }

    /// Writes a piece of what is wanted ahead of need. Tells whether there may be more to do.
    pub(crate) fn write_ahead(&self) -> bool {
        let WrittenSpace { working, known, .. } = &self.0.written;
        let _working = working.lock();
        let wanted = known.lock().as_ref().map(|known| (known.ahead(), known.wanted, known.len.max(known.synced)));
        // Nobody else changes the length meanwhile.
        let (Some((at, end, synced)), Ok(meta)) = (wanted, self.metadata()) else { return false };
        let is_written = if at < end {
            let piece = at..end.min(at + PIECE);
            // The length first: what is only about to be written may leave the disk with a shorter one, after a kill
            // and a loss of power, though the next process has seen this one (J18).
            let longer = if piece.end > meta.len() { self.set_len(piece.end) } else { Ok(()) };
            longer.and_then(|()| self.write_missing(&piece)).inspect_err(|_| {
                // No room, or no disk any more.
                let _ = if piece.end > meta.len() { self.set_len(meta.len()) } else { Ok(()) };
            })
        } else if meta.len() > synced {
            self.sync_with_length()
        } else {
            return false;
        };
        if let Some(known) = known.lock().as_mut() {
            match is_written {
                Err(_) => (known.wanted, known.is_full) = (0, true),
                Ok(()) if at >= end => known.synced = meta.len(),
                Ok(()) => {}
            }
        }
        is_written.is_ok()
    }

    /// The caller has locked `working`.
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(Call::Resize, |file| file.set_len(len))
    }

    /// The length that the file has on the disk ahead of need, if it has.
    pub(crate) fn len_ahead(&self) -> u64 {
        self.0.written.known.lock().as_ref().map_or(0, |known| known.synced)
    }

    /// Makes the file at least so long. Tells whether the disk has that length already.
    pub(crate) fn lengthen(&self, len: u64) -> io::Result<bool> {
        let WrittenSpace { working, known, .. } = &self.0.written;
        let _working = working.lock();
        if self.metadata()?.len() < len {
            self.set_len(len)?;
        }
        Ok(known.lock().as_mut().is_some_and(|known| {
            (known.len, known.is_full) = (known.len.max(len), false);
            known.synced >= len
        }))
    }

    /// Whether nothing was stored to the file from an offset on, as far as it is known.
    pub(crate) fn is_unused_from(&self, at: u64) -> bool {
        self.0.written.known.lock().as_ref().is_some_and(|known| known.used <= at)
    }

    /// Gives back what the file has ahead of need.
    pub(crate) fn give_back_ahead(&self) -> io::Result<()> {
        let _working = self.0.written.working.lock();
        self.give_up_ahead()
    }

    /// As [`give_back_ahead`](Self::give_back_ahead). The caller has locked `working`.
    pub(super) fn give_up_ahead(&self) -> io::Result<()> {
        let (used, len) = match self.0.written.known.lock().as_mut() {
            Some(known) => {
                let (used, end) = (known.used, known.parts.end());
                (known.synced, known.wanted) = (0, 0);
                // First: nobody takes it any more.
                known.parts.remove(&(used..u64::MAX));
                (if end > used { used } else { u64::MAX }, known.len)
            }
            None => return Ok(()),
        };
        if self.metadata()?.len() > len {
            self.set_len(len)?;
        }
        if used < len { self.punch_out(used, len - used).map(drop) } else { Ok(()) }
    }
}
