//! What happens to an open pool that operators want to know.

use super::{OldLog, Recovered};
use std::fmt;
use std::time::{Duration, SystemTime};

/// Something that has happened to an open pool. [`Options::on_event`](crate::Options::on_event) says to which function
/// events go.
///
/// Shown with `{}` it is one line, which begins with the pool. Programs look at the [kind](Self::kind), whose
/// [name](EventKind::name) and fields stay what they are; the sentences may change.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The pool: the path of its file, or the name of a medium in memory.
    pub pool: String,
    /// When it happened. It is told somewhat later.
    pub at: SystemTime,
    /// What has happened.
    pub kind: EventKind,
}

/// How much an event matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Severity {
    /// What is to be expected.
    Info,
    /// Something is slow, or was given up: nothing is wrong yet.
    Warning,
    /// Changes are refused, or would be lost if the process were killed: somebody has to do something.
    Error,
}

/// What has happened to an open pool. `docs/operating.md` says what to do about each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum EventKind {
    /// The pool was opened after a process that did not close it in order. Nothing that was acknowledged is lost,
    /// except for what `journal` says.
    Recovered {
        /// How long the open took.
        took: Duration,
        /// What the journal had, if there is one.
        journal: Option<Recovered>,
    },
    /// The leaves of a tree were found again, when it was opened for the first time after a crash.
    TreeRecovered {
        /// The tree.
        tree: String,
        /// How many leaves it has.
        leaves: u64,
        /// How long that took.
        took: Duration,
        /// Whether an image said where most of them are (`NAME.image`), so that not all had to be read.
        by_image: bool,
    },
    /// The log of a pool that was here before was in the way of this one's.
    OldLog {
        /// What has become of it.
        done: OldLog,
    },
    /// One of two copies of a header was damaged. The other one was whole, and both are now.
    TwinMended {
        /// Its offset.
        at: u64,
        /// Whether it was the log's, and not the pool's.
        of_log: bool,
    },
    /// A sync took long. See [`Options::slow`](crate::Options::slow).
    SlowSync {
        /// How long the longest one took since the last such event.
        took: Duration,
        /// How many took long since then.
        times: u64,
    },
    /// A checkpoint took long. See [`Options::slow`](crate::Options::slow).
    SlowCheckpoint {
        /// How long the longest one took since the last such event.
        took: Duration,
        /// How many took long since then.
        times: u64,
    },
    /// Changes had to wait because the ring was full: more is flushed than the disk takes.
    Waited {
        /// How long the longest one waited since the last such event.
        took: Duration,
        /// How many waited since then.
        times: u64,
        /// How long all of these waited together.
        together: Duration,
    },
    /// Changes were slowed: what checkpoints have not put into the file yet takes too much
    /// [private memory](crate::Options::private_memory).
    Slowed {
        /// How many since the last such event.
        times: u64,
        /// The bytes that private pages may take.
        budget: u64,
    },
    /// Pages that are in the file do not go back to the page cache, so
    /// [private memory](crate::Options::private_memory) may take more than its budget. Told once.
    PagesStay {
        /// What the system said.
        error: String,
    },
    /// The log has become longer.
    LogGrew {
        /// The bytes that frames could take.
        from: u64,
        /// The bytes that they can take now.
        to: u64,
    },
    /// No image of the trees could be made (`NAME.image`): if the process is killed, the next open takes longer.
    NoImage {
        /// What the system said.
        error: String,
    },
    /// Another ring has taken the place of the one before.
    RingReplaced {
        /// The bytes of the one before.
        from: u64,
        /// The bytes of this one.
        to: u64,
        /// Whether the one before had lost its name: somebody had removed it.
        was_lost: bool,
    },
    /// The ring was removed, and there can be no other one. Changes are refused: a kill would lose what was not synced.
    RingLost {
        /// Why there can be no other one.
        error: String,
    },
    /// The log was removed. Changes are refused: a kill would lose what is not in the pool's file. A close loses
    /// nothing.
    LogLost,
    /// Snapshots were given up, because what they see took more memory than it may.
    SnapshotsExpired {
        /// How many.
        count: u64,
        /// The [limit](crate::Options::snapshot_memory), in bytes.
        limit: u64,
    },
    /// The disk has failed: the journal is closed, and no change is accepted. Without a journal: a sync has failed, and
    /// the next open is refused with [`ErrorKind::DiskFailed`](crate::ErrorKind::DiskFailed).
    DiskFailed {
        /// What the system said.
        error: String,
    },
    /// So many events were not told, because the function that is told was too slow.
    Missed {
        /// How many.
        events: u64,
    },
    /// The last handle is gone, and the file is free for others. The last event.
    Closed {
        /// How long the close took.
        took: Duration,
        /// Why the pool was not closed in order: it was left as if the process had been killed. `None`: it was.
        error: Option<String>,
    },
}

impl EventKind {
    /// A name for programs and for labels of metrics, which stays what it is.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Recovered { .. } => "recovered",
            Self::TreeRecovered { .. } => "tree_recovered",
            Self::OldLog { .. } => "old_log",
            Self::TwinMended { .. } => "twin_mended",
            Self::SlowSync { .. } => "slow_sync",
            Self::SlowCheckpoint { .. } => "slow_checkpoint",
            Self::Waited { .. } => "waited",
            Self::Slowed { .. } => "slowed",
            Self::PagesStay { .. } => "pages_stay",
            Self::LogGrew { .. } => "log_grew",
            Self::NoImage { .. } => "no_image",
            Self::RingReplaced { .. } => "ring_replaced",
            Self::RingLost { .. } => "ring_lost",
            Self::LogLost => "log_lost",
            Self::SnapshotsExpired { .. } => "snapshots_expired",
            Self::DiskFailed { .. } => "disk_failed",
            Self::Missed { .. } => "missed",
            Self::Closed { .. } => "closed",
        }
    }

    /// How much it matters.
    pub fn severity(&self) -> Severity {
        match self {
            Self::Recovered { journal, .. } => match journal {
                Some(journal) if journal.given_up > 0 || journal.without_ring || journal.lost > 0 => Severity::Warning,
                _ => Severity::Info,
            },
            Self::RingReplaced { was_lost: false, .. } | Self::Closed { error: None, .. } => Severity::Info,
            Self::TreeRecovered { .. } | Self::LogGrew { .. } | Self::OldLog { .. } => Severity::Info,
            Self::SlowSync { .. } | Self::SlowCheckpoint { .. } | Self::Waited { .. } => Severity::Warning,
            Self::Slowed { .. } | Self::TwinMended { .. } | Self::RingReplaced { .. } => Severity::Warning,
            Self::SnapshotsExpired { .. } | Self::Missed { .. } | Self::PagesStay { .. } => Severity::Warning,
            Self::NoImage { .. } => Severity::Warning,
            Self::RingLost { .. } | Self::LogLost | Self::DiskFailed { .. } | Self::Closed { .. } => Severity::Error,
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pool, self.kind)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recovered { took, journal: None } => write!(f, "recovered in {took:.1?}"),
            Self::Recovered { took, journal: Some(journal) } => {
                let Recovered { from_ring, incomplete, given_up, without_ring, lost, .. } = journal;
                write!(f, "recovered in {took:.1?}: {from_ring} entries from the ring, {incomplete} incomplete")?;
                if *given_up > 0 {
                    write!(f, ", {given_up} given up")?;
                }
                if *lost > 0 {
                    write!(f, ", {lost} of the log lost")?;
                }
                if *without_ring { write!(f, "; without its ring: what was not synced is lost") } else { Ok(()) }
            }
            Self::TreeRecovered { tree, leaves, took, by_image } => {
                let how = if *by_image { ", by the image" } else { "" };
                write!(f, "the {leaves} leaves of tree {tree:?} were found again in {took:.1?}{how}")
            }
            Self::OldLog { done: OldLog::Removed } => {
                write!(f, "the log of a pool that was here before was removed: nothing needed it")
            }
            Self::OldLog { done: OldLog::Kept { number } } => {
                write!(f, "the log of a pool that was here before is kept with .old-{number} behind its name")
            }
            Self::TwinMended { at, of_log } => {
                let file = if *of_log { "log" } else { "pool" };
                write!(f, "a copy of the {file}'s header, at offset {at}, was damaged, and was written anew")
            }
            Self::SlowSync { took, times: 1 } => write!(f, "a sync took {took:.1?}"),
            Self::SlowSync { took, times } => write!(f, "{times} syncs were slow, the longest took {took:.1?}"),
            Self::SlowCheckpoint { took, times: 1 } => write!(f, "a checkpoint took {took:.1?}"),
            Self::SlowCheckpoint { took, times } => {
                write!(f, "{times} checkpoints were slow, the longest took {took:.1?}")
            }
            Self::Waited { took, times: 1, .. } => write!(f, "a change waited {took:.1?} for room in the ring"),
            Self::Waited { took, times, together } => {
                write!(
                    f,
                    "changes waited {times} times for room in the ring, {together:.1?} together, {took:.1?} at most"
                )
            }
            Self::Slowed { times: 1, budget } => {
                write!(f, "a change was slowed: private memory is to take {budget} bytes at most")
            }
            Self::Slowed { times, budget } => {
                write!(f, "{times} changes were slowed: private memory is to take {budget} bytes at most")
            }
            Self::PagesStay { error } => write!(f, "pages stay in private memory: {error}"),
            Self::LogGrew { from, to } => write!(f, "the log grew from {from} to {to} bytes"),
            Self::NoImage { error } => {
                write!(f, "no image of the trees could be made ({error}): the next open after a kill takes longer")
            }
            Self::RingReplaced { from, to, was_lost: false } => write!(f, "the ring grew from {from} to {to} bytes"),
            Self::RingReplaced { to, .. } => write!(f, "the ring was removed; there is another one, of {to} bytes"),
            Self::RingLost { error } => write!(
                f,
                "changes are refused: the ring was removed, and there can be no other one ({error}); close the pool, which \
                 loses nothing"
            ),
            Self::LogLost => {
                write!(f, "changes are refused: the log was removed; close the pool, which loses nothing")
            }
            Self::SnapshotsExpired { count: 1, limit } => {
                write!(f, "a snapshot was given up: what changed since takes more than {limit} bytes of memory")
            }
            Self::SnapshotsExpired { count, limit } => {
                write!(f, "{count} snapshots were given up: what changed since takes more than {limit} bytes of memory")
            }
            Self::DiskFailed { error } => write!(f, "the disk has failed: {error}"),
            Self::Missed { events } => write!(f, "{events} events were not told: the function for them is too slow"),
            Self::Closed { took, error: None } => write!(f, "closed in {took:.1?}"),
            Self::Closed { error: Some(error), .. } => write!(f, "not closed in order: {error}"),
        }
    }
}
