//! What a close notes in the log: that the pool has all that the log has, and opens without it.
//!
//! ```text
//! 1024   | "BRISDONE" | uuid | uuid | salt | sequence of the header | CRC-32 |
//! ```
//!
//! It lies between the header's twins. The marker in the pool's file says the same, but a log that is found alone does
//! not tell where its pool is.

use super::disk::Disk;
use super::header::{FIRST, Header};
use super::log::Frames;
use super::rule::{Rule, holds};
use super::sealed::seal;
use std::io;

/// "BRISDONE".
const MAGIC: u64 = u64::from_le_bytes(*b"BRISDONE");
/// The place of the note.
const PLACE: u64 = 1024;
const BYTES: usize = 48;

fn note(header: &Header) -> [u8; BYTES] {
    let Header { uuid, salt, sequence, .. } = *header;
    let sequence = if holds(Rule::NamedHeader) { sequence } else { 0 };
    seal([MAGIC, uuid[0], uuid[1], salt, sequence, 0])
}

/// Notes in a log that its pool was closed in order. The marker on the disk says so already. Every later open writes
/// another header before it takes that back, so what is noted here is true as long as the header is the one that it
/// names. It is not synced: a log without it is kept.
pub(super) fn note_closed<F: Disk>(log: &F, header: &Header) -> io::Result<()> {
    log.write(PLACE, &note(header))
}

/// Whether it is proven that a log has nothing that its pool lacks, and that its pool opens without it.
pub(super) fn is_dead<F: Disk>(log: &F) -> bool {
    let look = || {
        // If a twin is damaged, it may have been the newer one.
        let Some(header) = Header::read(log)? else { return Ok(false) };
        if header.damaged_twin(log)?.is_some() {
            return Ok(false);
        }
        let mut found = [0; BYTES];
        log.read(PLACE, &mut found)?;
        let is_new = header.life.epoch == FIRST && Frames::new(log, header, header.start).next()?.is_none();
        io::Result::Ok(is_new || found == note(&header))
    };
    look().unwrap_or(false)
}
