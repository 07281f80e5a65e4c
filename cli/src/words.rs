//! Errors of the library in the words of the command line: what the library advises is a call of Rust.

use bristlecone::{Error, ErrorKind};
use std::error::Error as StdError;

/// The error as a user of a shell is told it.
pub(crate) fn of_the_shell(error: Box<dyn StdError>) -> Box<dyn StdError> {
    match error.downcast_ref() {
        Some(Error { pool, kind, .. }) if advised(kind).is_some() => format!("{pool}: {}", of_kind(kind)).into(),
        _ => error,
    }
}

/// What went wrong, for a user of a shell.
pub(crate) fn of_kind(kind: &ErrorKind) -> String {
    advised(kind).unwrap_or_else(|| kind.to_string())
}

/// What went wrong, with what a shell can do about it, where the library advises something else.
fn advised(kind: &ErrorKind) -> Option<String> {
    let was_killed = "the pool was not closed in order";
    Some(match kind {
        ErrorKind::JournalThere { has: false } => "the pool has no journal".to_owned(),
        ErrorKind::JournalThere { has: true } => {
            "the pool has a journal; `bristlecone journal remove POOL` takes it away".to_owned()
        }
        ErrorKind::NoPlaceForLog { path, source } => format!(
            "the pool would have a journal, and its log, {path}, cannot be made: {source}; give the pool a directory that takes new files, or \
             make it without a journal (load --journal none)"
        ),
        ErrorKind::DiskFailed => {
            "the disk has failed to take what was written, so what the system shows of the pool may be gone later; \
             `bristlecone check --after-power-loss` copies it to a new file, which takes the place of this one once it is on the disk, \
             checks everything, and makes it usable if it is whole: better now than after a restart of the machine. If its file system \
             cannot be written to any more, copy the file to another one first"
                .to_owned()
        }
        ErrorKind::PowerLoss => {
            "it has no journal, and was not closed before the machine was started anew: the system crashed, the power went, the machine was \
             restarted in order after the process was killed, or the file was copied from another machine while the pool was not closed. \
             Some changes may be lost, and the rest may not fit together; `bristlecone check --after-power-loss` checks everything, and makes \
             it usable if it is whole; else restore a backup. A pool with a journal (`bristlecone journal add`) opens after all of that"
                .to_owned()
        }
        ErrorKind::RingLost { path } => format!(
            "{was_killed}, and its ring, {path}, is not there: what was changed last may be only in the ring. Bring it back; or open the pool \
             with --without-ring, and lose what was not synced"
        ),
        ErrorKind::Ring { path, found } => format!(
            "the pool's ring, {path}, cannot be used: {found}; {was_killed}, so bring the right one back, or open it with --without-ring, \
             and lose what was not synced"
        ),
        ErrorKind::RingUncertain { path, certain, behind } => format!(
            "{was_killed}, and its ring, {path}, has {certain} entries without a gap, and {behind} behind one: if its disk was taken away and \
             came back, open the pool with --uncertain-ring prefix; if a thread was killed in the act, with --uncertain-ring all"
        ),
        ErrorKind::LogDamaged { at, lost } => format!(
            "the log of the pool is damaged at byte {at}, and {lost} entries or more from there on were on the disk; nothing was changed. \
             Restore the log; or let `bristlecone check --repair` keep a copy of it, and end it there"
        ),
        _ => return None,
    })
}
