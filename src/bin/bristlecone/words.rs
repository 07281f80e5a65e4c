//! Errors of the library in the words of the command line: what the library advises is a call of Rust.

use bristlecone::{Error, ErrorKind};
use std::error::Error as StdError;

/// The error as a user of a shell is told it.
pub(crate) fn of_the_shell(error: Box<dyn StdError>) -> Box<dyn StdError> {
    let Some(Error { pool, kind, .. }) = error.downcast_ref() else { return error };
    let what = match kind {
        ErrorKind::JournalThere { has: false } => {
            "the pool has no journal; `bristlecone journal add POOL` gives it one"
        }
        ErrorKind::DiskFailed => {
            "the disk has failed to take what was written, so what the system shows of the pool may be gone later; \
             `bristlecone check --after-power-loss` copies it to a new file, which takes the place of this one once it is on the disk, \
             checks everything, and makes it usable if it is whole: better now than after a restart of the machine"
        }
        ErrorKind::PowerLoss => {
            "the machine went down before all changes were on the disk: some may be lost, and the rest may not fit together; \
             `bristlecone check --after-power-loss` checks everything, and makes it usable if it is whole"
        }
        _ => return error,
    };
    format!("{pool}: {what}").into()
}
