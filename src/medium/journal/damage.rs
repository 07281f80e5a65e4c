//! Whether a log ends where it seems to (J26): damage looks as its end does.
//!
//! After a loss of power, frames may be whole behind one that is torn. So a whole frame shows nothing by itself. But
//! each frame says up to where the log was on the disk when it was written: if that is behind the end, the end was on
//! the disk, and what is there now is damaged.

use super::disk::Disk;
use super::frame::{ENTRY, Frame, HEAD, Head, Mark, OnDisk};
use super::header::{Header, REGION};
use super::log;
use super::rule::{Rule, holds};
use crate::error::{ErrorKind, Fault};
use std::io;

/// What lies behind the end of a log, or what a ring knows of it, which shows that there was more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beyond {
    /// The positions up to here were in the log, and on the disk.
    pub(super) position: u64,
}

impl Beyond {
    /// The error of a log that ends at a mark, and did not.
    pub(super) fn fault(self, header: &Header, end: Mark) -> Fault {
        let at = REGION + header.region.offset(end.at);
        ErrorKind::LogDamaged { at, lost: self.position.saturating_sub(end.position) }.into()
    }
}

/// Whether what was on the disk once, by somebody's word, is missing in a log with this header that ends at a mark.
pub(super) fn is_missing(known: OnDisk, header: &Header, end: Mark) -> Option<Beyond> {
    let missing = known.synced > end.position && holds(Rule::Synced);
    let newer = known.sequence > header.sequence;
    (missing || newer).then_some(Beyond { position: known.synced })
}

/// Looks for a frame behind the end of a log which shows that this place was on the disk, or that a newer header was.
/// `cells`: as many entries as one sync can write at most (J27). Says up to where the log was there, and the latest
/// epoch of such frames.
pub(super) fn behind<F: Disk>(file: &F, header: &Header, end: Mark, cells: u64) -> io::Result<Option<(Beyond, u64)>> {
    let Header { region, start, .. } = *header;
    // The frames of the sync behind the end say too little; the frames of the next one do not.
    let most = 2 * cells * (ENTRY + HEAD) as u64;
    let len = (start.at + region.len).saturating_sub(end.at).min(most) / 8 * 8;
    let mut bytes = vec![0; len as usize];
    log::read(file, region, end.at, &mut bytes)?;
    let mut found: Option<(Beyond, u64)> = None;
    for at in (0..bytes.len().saturating_sub(HEAD)).step_by(8) {
        let head = Head::decode(&bytes[at..at + HEAD], header.form);
        // A frame of this log says where it lies.
        if head.mark.at != end.at + at as u64 || !head.is_sane() || head.epoch < header.life.epoch {
            continue;
        }
        let Some(frame) = bytes.get(at..at + head.len() as usize) else { continue };
        // A frame of a later epoch says that a newer header was on the disk.
        let shows = is_missing(head.known, header, end).is_some() || !holds(Rule::AnyFrame);
        if shows && (Frame { head, bytes: frame }).is_whole(header.salt) {
            let (beyond, epoch) = found.unwrap_or((Beyond { position: 0 }, 0));
            let position = head.end().position.max(beyond.position);
            found = Some((Beyond { position }, head.epoch.max(epoch)));
        }
    }
    Ok(found)
}
