//! A journal of what is flushed: pools on ordinary files that survive a crash of the machine.
//!
//! `docs/journal.md` has the protocol: what is kept where, the invariants J1 to J37, and what a cut at each step
//! leaves.

#![cfg_attr(
    any(not(target_os = "linux"), bristlecone_loom),
    allow(
        dead_code,
        reason = "only Linux has journals, and models have no files; what they are made of is compiled everywhere"
    )
)]

mod apply;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod attach;
#[cfg(not(all(target_os = "linux", not(bristlecone_loom))))]
#[path = "not_here.rs"]
mod attach;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod beside;
mod budget;
mod closed;
mod damage;
mod disk;
mod engine;
mod evict;
mod first;
#[cfg(all(test, not(bristlecone_loom)))]
mod flips;
mod frame;
mod head;
mod header;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod image_file;
mod images;
mod imaging;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod in_memory;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod keeper;
mod left;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod left_over;
mod log;
mod marker;
mod memory;
#[cfg(all(test, bristlecone_loom))]
mod models;
mod open;
mod pages;
mod private;
mod replace;
mod ring;
mod rule;
mod sealed;
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
mod shared;
#[cfg(all(test, not(bristlecone_loom)))]
mod sim;
mod sum;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;
#[cfg(all(test, not(any(bristlecone_loom, miri)), target_os = "linux"))]
mod threads;
#[cfg(all(test, not(bristlecone_loom), feature = "crash"))]
mod trees;

pub(crate) use attach::{Attached, adopt, create_log, lacks_nothing, remove_log};
pub(crate) use disk::Disk;
#[cfg(target_os = "linux")]
pub(crate) use disk::zero;
pub use engine::JournalStat;
pub(crate) use images::{FoundImage, ImageMaker, Made, NamedLines};
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub use in_memory::{KeptRing, RingInMemory, RingSays};
pub(crate) use left::Wanted;
pub use left::{OldLog, Recovered, Recovery, RingPlace};
pub(crate) use marker::{MARKER, Marker};
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
pub(crate) use pages::Pages;

use std::time::Duration;

/// Bytes of a new log's region. It grows with what checkpoints have to do.
pub(crate) const LOG: u64 = 256 << 10;

/// When a pool with a journal waits for the disk. See [`Options::journal`](crate::Options::journal).
///
/// # Complexity
///
/// A sync writes what was flushed since the last one to the log, and waits for one `fdatasync`, which all threads share
/// that wait at the same time. A change that comes while a sync is under way is made durable by the next one.
///
/// # Crash consistency
///
/// Whatever is chosen, a change that has returned survives the process, and [`Pool::sync`](crate::Pool::sync) makes
/// everything so far survive the machine. What survives a crash of the machine is always the pool as it was at one
/// moment, at the last sync or later: changes are never lost out of order, and each is there whole or not at all.
///
/// Other threads see a change before it is on the disk, also with [`Each`](Self::Each): a thread that must not act upon
/// what a loss of power may take back calls `sync` first. (This is *buffered durable linearizability*.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Journal {
    /// No journal: the pool survives the process, and the machine only if it was closed before. A pool that has a
    /// journal is refused; [`Pool::remove_journal`](crate::Pool::remove_journal) takes it away.
    None,
    /// Each change waits until it is on the disk, for one `fdatasync`, which the threads that wait share. So does a
    /// call that might have changed something and has not, if what others have changed is not on the disk yet.
    Each,
    /// No change waits for the disk; a thread in the background syncs, and pauses for this time, which is at least 1
    /// ms, in between. So a change is on the disk after this time and what the disk takes for a sync; for two, if one
    /// was under way when the change was made. Under load, a sync may take longer than the time that is given here.
    Every(Duration),
    /// No change waits for the disk; what is written is synced when [`Pool::sync`](crate::Pool::sync) is called, when
    /// the pool is closed, and when the ring is getting full.
    OnRequest,
}

/// That of a new pool, where it has a journal by default: a loss of power takes back what was changed in the last 10
/// ms, and what the disk takes for a sync.
impl Default for Journal {
    fn default() -> Self {
        Self::Every(Duration::from_millis(10))
    }
}
