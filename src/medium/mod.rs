//! The one interface through which bytes become durable.
//!
//! Everything persistent is reached through a [`Medium`] by offset. What the rest of the crate may rely on:
//!
//! 1. An aligned 8-byte store is failure-atomic: after a crash the word is the old one or the new one.
//! 2. A wider store may tear into its 8-byte words at a crash, even where it is atomic for other cores, unless the
//!    medium says that [pairs are whole](Facts::pairs_are_whole).
//! 3. A store may become durable **earlier** than asked, at any time, in any order relative to stores to other lines.
//! 4. Two stores to one line with [`order`](Medium::order) between them become durable in that order: a line is written
//!    back as one coherent snapshot.
//! 5. A store is durable once a [`flush`](Medium::flush) of its line followed the store and a
//!    [`fence`](Medium::fence) followed the flush, all on one thread.

mod access;
#[cfg(any(all(test, not(bristlecone_loom)), feature = "crash"))]
pub(crate) mod any;
mod costs;
mod counted;
mod disk_file;
mod dram;
pub(crate) mod event;
mod herald;
mod journal;
mod layer;
#[cfg(target_os = "linux")]
pub(crate) mod limit;
mod mapped;
mod probe;
#[cfg(feature = "crash")]
mod sim;
mod slowed;
mod view;
pub(crate) mod vitals;

pub use crate::step::Step;
pub use access::Access;
pub use costs::Costs;
pub(crate) use costs::MEASURED;
pub use counted::{Counted, Counter, Counts};
pub use dram::Dram;
#[cfg(all(test, bristlecone_loom))]
pub(crate) use dram::{without_file, without_journal};
pub(crate) use herald::Listener;
pub(crate) use journal::{FoundImage, ImageMaker, Made, NamedLines};
pub use journal::{Journal, JournalStat, OldLog, Recovered, Recovery, RingPlace};
#[cfg(all(target_os = "linux", not(bristlecone_loom)))]
#[doc(hidden)]
pub use journal::{KeptRing, RingInMemory, RingSays};
pub(crate) use journal::{LOG, MARKER, Wanted, remove_log};
pub use layer::{Either, Layer};
pub use mapped::{Mapped, Mapping};
pub(crate) use mapped::{Reach, is_unborn, sync_name};
#[cfg(feature = "crash")]
pub(crate) use sim::{Choice, Event, Line, Options as LineOptions, number_thread};
#[cfg(feature = "crash")]
pub use sim::{Model, Sim};
pub use slowed::Slowed;
pub use view::View;

#[doc(hidden)]
pub use crate::sync::windows::Window;

use core::sync::atomic::AtomicU64;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use vitals::Vitals;

/// Keeps [`Medium`] to the media of this crate, and to layers over them.
pub(crate) mod sealed {
    pub trait Sealed {}
}

/// The unit of write-back, in bytes.
pub const LINE: u64 = 64;

/// What a crash leaves of the stores to a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// Retired stores survive the process (`SIGKILL`, panic, abort), not the machine: tmpfs, memfd, the page cache.
    /// Nothing is flushed.
    Process,
    /// Flushed and fenced lines survive power loss: a direct (DAX) mapping of persistent memory.
    Power,
    /// What was flushed survives the process, and what was [synced](Medium::sync) survives the machine: an ordinary
    /// file with a [journal](crate::Journal).
    Journal,
    /// As `Power`, but the CPU's caches are inside the persistence domain too (eADR): a fence is enough.
    PowerWithCaches,
}

impl Domain {
    /// What survives, as a phrase for users.
    pub fn promise(self) -> &'static str {
        match self {
            Self::Process => "survives a crash of the process; not a crash of the operating system, not power loss",
            Self::Journal => {
                "survives a crash of the process; up to the last sync also a crash of the operating system, and power loss"
            }
            Self::Power => "survives a crash of the process and of the operating system, and power loss",
            Self::PowerWithCaches => {
                "survives a crash of the process and of the operating system, and power loss (persistent CPU caches)"
            }
        }
    }

    /// The name that [`from_name`](Self::from_name) and the command line use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Journal => "journal",
            Self::Power => "power",
            Self::PowerWithCaches => "power-with-caches",
        }
    }

    /// The domain with a name, if there is one that a mapping can be told to have.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Process, Self::Power, Self::PowerWithCaches].into_iter().find(|d| d.name() == name)
    }
}

/// The properties of a medium. They do not change while the medium is in use.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'m> {
    /// The path, or another name, for messages.
    pub name: &'m str,
    /// The greatest size in bytes: no offset is ever beyond. How much of it may be [accessed](Medium::accessible) grows
    /// by [`reserve`](Medium::reserve).
    pub len: u64,
    /// What survives a crash.
    pub domain: Domain,
    /// Whether lines must be written back in order, one by one. Where a crash does not lose the caches, the order of
    /// the stores is enough: that is everywhere except in the domain [`Power`](Domain::Power).
    pub writes_back: bool,
    /// Whether a killed process leaves stores that are visible and not durable, because it did not flush them.
    pub leaves_unflushed: bool,
    /// Whether a crash never tears a [pair](Medium::store_pair): other cores see it in one step, and lines are written
    /// back as other cores see them.
    pub pairs_are_whole: bool,
    /// Whether stores are forbidden. An open may still store where changes are [refused](Medium::refuses).
    pub read_only: bool,
    /// Whether the last process that used the medium [settled](Medium::settle) it, if it has a journal. If not, what a
    /// pool on it says of itself may be older than its last use. Without a journal, it is true.
    pub was_settled: bool,
    /// A number that changes when the machine is restarted: a pool that is found with a different number may have lost
    /// what was stored but not [synced](Medium::sync). 0: not known.
    pub boot: u64,
}

impl<'m> Facts<'m> {
    /// The facts about memory of this process: nothing survives but stores, in their order.
    pub fn of_memory(name: &'m str, len: u64) -> Self {
        Self {
            name,
            len,
            domain: Domain::Process,
            writes_back: false,
            leaves_unflushed: false,
            pairs_are_whole: false,
            read_only: false,
            was_settled: true,
            boot: 0,
        }
    }
}

/// What will become of the bytes that a [hint](Medium::hint) names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hint {
    /// The lines are about to be read.
    Soon,
    /// All of the bytes will be read once, from the first to the last.
    InOrder,
    /// Some of the bytes will be read before long, and may be on a disk: it is asked for them, and nobody waits. Does
    /// nothing on a medium that is not [asked ahead](Medium::asks_ahead).
    Ahead,
    /// The bytes were [missing](Medium::missing), were read since, and will not be before long.
    Passed,
    /// The bytes are zeros, nobody has stored to them, and all of them will be used from now on.
    Fresh,
    /// The bytes are likely to be used before long. A part of them, from the first on, is reserved already, bit by bit.
    Whole,
}

/// Persistent words, reached by offset from the start of the pool.
///
/// A caller that orders stores, flushes or fences names the [`Step`] of a protocol that this is; a medium may record
/// it.
///
/// Offsets are in bytes; accesses are to the 8-byte word that holds the offset (the low three bits are ignored).
/// All accesses are atomic, so no race and no damaged pool can make them undefined behaviour. Every offset that was
/// read *from* a medium is validated before it is used; the implementations still check bounds.
///
/// Sealed, because a later version may add methods, and no method has a default, so that a wrapper that forgets one
/// does not compile. A medium of one's own is a [`Layer`] over one of the crate's: it changes what differs, and passes
/// on the rest. [`Either`] is one of two.
///
/// # Panics
///
/// An access beyond what is [accessible](Self::accessible) panics, as indexing a slice does. The crate never makes one.
pub trait Medium: sealed::Sealed + Send + Sync + 'static {
    /// The properties of the medium.
    fn facts(&self) -> Facts<'_>;

    /// How many bytes may be accessed now. It grows only by [`reserve`](Self::reserve), up to [`Facts::len`], and
    /// shrinks only by [`truncate`](Self::truncate). What it grows by holds zeros.
    fn accessible(&self) -> u64;

    /// What persisting costs here; [`Costs::NOMINAL`] where time does not pass as it does on the machine.
    fn costs(&self) -> Costs;

    /// True in a process that came by `fork` from the one that opened the medium, and shares its words with it. Then
    /// the words must not be changed, and nothing is unlocked.
    ///
    /// Called before each change of a tree, so it should cost about as much as a load.
    fn forked(&self) -> bool;

    /// True if nobody may change trees here: in a forked process, and where trees can be opened only to be read. There,
    /// what an open after a crash stores stays in the memory of this process.
    ///
    /// Called before each change of a tree, in place of [`forked`](Self::forked), so it should cost as much.
    fn refuses(&self) -> bool;

    /// Something if an access reads from a disk only what is accessed, so that what will be read before long should be
    /// [asked for](Hint::Ahead): how many bytes one reader may leave in memory of what it has brought there. Beyond
    /// that, it should say what it has [passed](Hint::Passed). This may change at any time.
    ///
    /// For what is read in order: a thread that has read some of that asks, and not each access.
    fn asks_ahead(&self) -> Option<u64>;

    /// The parts of `len` bytes from `at` on that an access would wait for a disk for, in whole pages, as far as the
    /// medium can tell.
    fn missing(&self, at: u64, len: u64) -> Vec<Range<u64>>;

    /// Makes all stores so far survive the machine, as far as the medium can, in domains in which a fence does not.
    ///
    /// # Errors
    ///
    /// The error of the system; then it is not known what was written.
    fn sync(&self) -> io::Result<()>;

    /// Opens a window, which is open from before the first store of a change until all that it has stored is flushed
    /// and fenced. Whatever a thread stores, it stores with a window open; a window within another one costs next to
    /// nothing. The caller has locked nothing, or has one open: this may wait for a moment.
    #[doc(hidden)]
    fn window(&self) -> Window<'_>;

    /// As [`window`](Self::window), for a change: it is slowed while too much was changed that is not in the file yet.
    #[doc(hidden)]
    fn window_for_change(&self) -> Window<'_>;

    /// Closes the window of this thread for a moment if another thread waits for that. For a change that takes long:
    /// the caller has locked nothing, and nothing that it has stored is not flushed.
    #[doc(hidden)]
    fn pause(&self);

    /// Waits until a change may begin: until the medium has room for what it will flush. The caller has locked nothing.
    ///
    /// Called before each change of a tree, so it should cost about as much as a load where nothing is to be waited
    /// for.
    ///
    /// # Errors
    ///
    /// The error of the system after which nothing can become durable any more.
    fn admit(&self) -> io::Result<()>;

    /// Waits until what this thread has fenced is as durable as its caller wants it before it is told that a change is
    /// made. The caller has locked nothing.
    ///
    /// # Errors
    ///
    /// As for [`admit`](Self::admit).
    fn acknowledge(&self) -> io::Result<()>;

    /// Says how changes wait for the disk from now on. False if the medium has no journal.
    #[doc(hidden)]
    fn set_journal(&mut self, mode: Journal) -> bool;

    /// Numbers about the journal, if the medium has one. See [`Pool::journal`](crate::Pool::journal).
    #[doc(hidden)]
    fn journal_stat(&self) -> Option<JournalStat>;

    /// How its journal is doing, if the medium has one.
    #[doc(hidden)]
    fn vitals(&self) -> Option<Arc<Vitals>>;

    /// What was found of an image of the trees that counts, if the medium has a journal. Once.
    #[doc(hidden)]
    fn take_image(&self) -> Option<FoundImage>;

    /// Has images of the trees made by this from now on, or by nobody. Waits for one that is being made: the caller has
    /// no [window](Self::window) open. Does nothing if the medium has no journal.
    #[doc(hidden)]
    fn set_image_maker(&self, maker: Option<Box<dyn ImageMaker>>);

    /// Called once, at an orderly close, after the last store: brings the medium into a state from which it can be
    /// opened without further work.
    ///
    /// # Errors
    ///
    /// As for [`sync`](Self::sync); then the medium is left as if the process had been killed.
    fn settle(&self) -> io::Result<()>;

    /// Makes sure that `len` bytes from `at` are [accessible](Self::accessible), and that stores to them will not run
    /// out of space later. If `len` is 0, all bytes up to `at` become accessible, and nothing else happens.
    ///
    /// Any thread may call it, also with locks held: it waits for the system, and for no lock that a caller of the
    /// medium could hold.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::OutOfMemory`] if the range ends beyond [`Facts::len`], or if the system has no addresses for
    /// it; the error of the system if it has no space, or if the file may not be so long. Then nothing has changed.
    fn reserve(&self, at: u64, len: u64) -> io::Result<()>;

    /// Where the bytes end that are [accessible](Self::accessible) and [reserved](Self::reserve) from `at` on without a
    /// gap, as far as the medium knows; `at` if it does not.
    ///
    /// This may take as long as it takes to read all of them.
    fn reserved_to(&self, at: u64) -> u64;

    /// Gives the space of whole pages in `len` bytes from `at` back to the system, sooner or later. Until they are
    /// [reserved](Self::reserve) again, nobody stores to them or flushes them, and they read as zeros, or as what they
    /// were, also after a crash. That nobody uses them must be durable before this is called: flushed and fenced, by
    /// this thread, or by one that it knows of.
    ///
    /// Where space cannot be given back, this does nothing. An access all the same is an access to memory: a word that
    /// is loaded may be any, and what is stored may be lost.
    ///
    /// # Errors
    ///
    /// The error of the system.
    fn release(&self, at: u64, len: u64) -> io::Result<()>;

    /// Cuts off everything from `len` on, rounded up to whole words, durably. It may be reserved again, and holds zeros
    /// then. Does nothing if no more is [accessible](Self::accessible).
    ///
    /// Nobody accesses what is cut off: the caller alone uses the medium. An access at the same time panics, or loads
    /// zeros, or stores what is lost.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::Unsupported`] if the medium has always the same length, [`io::ErrorKind::PermissionDenied`] if
    /// what is below it is only read; the error of the system. The medium has the old length then, or the new one,
    /// which may not be durable.
    fn truncate(&self, len: u64) -> io::Result<()>;

    /// A number that changes when [reserved](Self::reserve) space may no longer be reserved, because the bytes have
    /// become a copy, or have holes. 0: not known.
    fn space(&self) -> u64;

    /// The word at `at`.
    fn load(&self, at: u64) -> u64;

    /// The words from `at` on, each as [`load`](Self::load) gives it.
    fn load_words(&self, at: u64, words: &mut [u64]);

    /// `count` words from `at` on where they lie, to be read only: each as [`load`](Self::load) gives it. `None` if
    /// loads have to pass through the medium, as through one that counts them.
    ///
    /// # Panics
    ///
    /// As `load` does, if they are not all accessible.
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]>;

    /// Replaces the word at `at`. It is certainly durable only after a flush and a fence, and may be durable at any
    /// time from now on.
    fn store(&self, at: u64, value: u64);

    /// Replaces the two words at `at` (16-byte aligned) in one step for other cores. May tear at a crash.
    fn store_pair(&self, at: u64, pair: [u64; 2]);

    /// Does the same with the CPU's instruction that compares and swaps sixteen bytes, on a medium that tells the two
    /// apart.
    fn swap_pair(&self, at: u64, pair: [u64; 2]);

    /// Earlier stores are not seen after later ones, and within a line they do not become durable after later ones.
    fn order(&self, step: Step);

    /// Starts the write-back of all lines that overlap `len` bytes from `at`.
    fn flush(&self, at: u64, len: u64, step: Step);

    /// Waits until all lines that this thread has flushed are durable.
    fn fence(&self, step: Step);

    /// Tells what will become of the lines that overlap `len` bytes from `at`.
    fn hint(&self, at: u64, len: u64, hint: Hint);
}

/// [`Medium::load_words`] for a medium that has nothing faster than one [`load`](Medium::load) after the other.
#[inline]
pub(crate) fn load_each<M: Medium + ?Sized>(medium: &M, at: u64, words: &mut [u64]) {
    words.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = medium.load(at));
}

/// Where a range ends that a medium is to [reserve](Medium::reserve). At most `most` bytes can ever be accessed.
///
/// # Errors
///
/// [`io::ErrorKind::OutOfMemory`] if the range ends beyond.
pub(crate) fn end_within(at: u64, len: u64, most: u64) -> io::Result<u64> {
    let end = at.checked_add(len).filter(|&end| end <= most);
    end.ok_or_else(|| io::Error::new(io::ErrorKind::OutOfMemory, "the medium cannot become so long while it is open"))
}

/// The lines that overlap `len` bytes from `at`, as offsets of their starts.
pub(crate) fn lines(at: u64, len: u64) -> impl Iterator<Item = u64> {
    let first = at & !(LINE - 1);
    let end = at + len;
    (first..end).step_by(LINE as usize)
}
