//! The one seam through which bytes become durable.
//!
//! Everything persistent is reached through a [`Medium`] by offset. What the rest of the crate may rely on:
//!
//! 1. An aligned 8-byte store is failure-atomic: after a crash the word is the old one or the new one.
//! 2. A wider store may tear into its 8-byte words at a crash, even where it is atomic for other cores; unless the medium
//!    says that [pairs are whole](Medium::pairs_are_whole).
//! 3. A store may become durable **earlier** than asked, at any time, in any order relative to stores to other lines.
//! 4. Two stores to one line with [`order`](Medium::order) between them become durable in that order: a line is written
//!    back as one coherent snapshot.
//! 5. A store is durable once a [`flush`](Medium::flush) of its line followed the store and a
//!    [`fence`](Medium::fence) followed the flush, all on one thread.

mod costs;
mod counted;
mod dram;
mod mapped;
mod probe;
mod process;
#[cfg(feature = "crash")]
mod sim;
mod slowed;

pub use costs::Costs;
pub(crate) use costs::MEASURED;
pub use counted::{Counted, Counts};
pub use dram::Dram;
pub use mapped::{Mapped, Mapping};
pub(crate) use mapped::{is_unborn, sync_name};
#[cfg(feature = "crash")]
pub(crate) use sim::{Choice, Options as LineOptions, number_thread};
#[cfg(feature = "crash")]
pub use sim::{Event, Line, Model, Sim, Site};
pub use slowed::Slowed;

use std::io;
use std::sync::Arc;

/// Bytes that are written back together.
pub const LINE: u64 = 64;

/// What a crash takes away from what was stored on a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// Retired stores survive the process (`SIGKILL`, panic, abort), not the machine: tmpfs, memfd, the page cache.
    /// Nothing is flushed.
    Process,
    /// Flushed and fenced lines survive power loss: a direct (DAX) mapping of persistent memory.
    Power,
    /// As `Power`, and the CPU's caches are inside the persistence domain (eADR): a fence is enough.
    PowerWithCaches,
}

impl Domain {
    /// What survives, in a sentence for users.
    pub fn promise(self) -> &'static str {
        match self {
            Self::Process => "survives a crash of the process; not a crash of the operating system, not power loss",
            Self::Power => "survives a crash of the process and of the operating system, and power loss",
            Self::PowerWithCaches => {
                "survives a crash of the process and of the operating system, and power loss (persistent CPU caches)"
            }
        }
    }

    /// The name by which [`from_name`](Self::from_name) and the command line know it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Power => "power",
            Self::PowerWithCaches => "power-with-caches",
        }
    }

    /// The domain of a name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Process, Self::Power, Self::PowerWithCaches].into_iter().find(|d| d.name() == name)
    }
}

/// Persistent words, reached by offset from the start of the pool.
///
/// Offsets are in bytes; accesses are to the 8-byte word that holds the offset (the low three bits are ignored).
/// All accesses are atomic, so no race and no damaged pool can make them undefined behaviour. Every offset that was
/// read *from* a medium is validated before it is used; the implementations still check bounds.
///
/// # Panics
///
/// An access beyond [`len`](Self::len) panics, as indexing a slice does. The crate never makes one.
pub trait Medium: Send + Sync + 'static {
    /// Bytes there are.
    fn len(&self) -> u64;

    /// True if there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The path, or another name for messages.
    fn name(&self) -> &str;

    /// What a crash takes away.
    fn domain(&self) -> Domain;

    /// Whether lines have to be written back in order, one by one. Where nobody's caches are lost at a crash the order of
    /// the stores is enough: anywhere but in the domain [`Power`](Domain::Power).
    fn writes_back(&self) -> bool;

    /// Whether a [pair](Self::store_pair) is never torn by a crash: where other cores see it in one step, and lines are
    /// written back as other cores see them.
    fn pairs_are_whole(&self) -> bool;

    /// What persisting costs here; [`Costs::NOMINAL`] where time does not pass as it does on the machine.
    fn costs(&self) -> Costs;

    /// True if stores are not allowed.
    fn read_only(&self) -> bool;

    /// True in a process that came by `fork` from the one that opened the medium, and shares its words with it: they are not
    /// to be changed then, and nothing is to be unlocked.
    ///
    /// Asked before each change of a tree, so it should cost about a load.
    fn forked(&self) -> bool;

    /// A number that is another after the machine was started anew: a pool that is found with another one may have lost what
    /// was stored but not [synced](Self::sync). 0: it is not known.
    fn boot(&self) -> u64;

    /// Makes all that was stored so far survive the machine, as far as the medium can, in domains in which a fence does not.
    ///
    /// # Errors
    ///
    /// What the system says; what of it was written is not known then.
    fn sync(&self) -> io::Result<()>;

    /// Makes sure that `len` bytes from `at` can be stored to without running out of space later.
    ///
    /// # Errors
    ///
    /// What the system says when it has no space; nothing has changed then.
    fn reserve(&self, at: u64, len: u64) -> io::Result<()>;

    /// A number that is another when what was [reserved](Self::reserve) may be reserved no more: when the bytes are a
    /// copy by now, or have holes. 0: it is not known.
    fn space(&self) -> u64;

    /// The word at `at`.
    fn load(&self, at: u64) -> u64;

    /// The words from `at` on, each as [`load`](Self::load) gives it; [`load_each`] does just that.
    fn load_words(&self, at: u64, words: &mut [u64]);

    /// Replaces the word at `at`. Not durable before a flush and a fence; may be durable at any time from now.
    fn store(&self, at: u64, value: u64);

    /// Replaces the two words at `at` (16-byte aligned) in one step for other cores. May tear at a crash.
    fn store_pair(&self, at: u64, pair: [u64; 2]);

    /// Replaces the word at `at` if it is `current`.
    ///
    /// # Errors
    ///
    /// The word that was there instead.
    fn cas(&self, at: u64, current: u64, new: u64) -> Result<u64, u64>;

    /// Stores before this are not seen, nor become durable within their line, after stores that follow.
    #[track_caller]
    fn order(&self);

    /// Starts the write-back of all lines that overlap `len` bytes from `at`.
    #[track_caller]
    fn flush(&self, at: u64, len: u64);

    /// Waits until all lines this thread has flushed are durable.
    #[track_caller]
    fn fence(&self);

    /// Hints that all of the `len` bytes from `at` will be read, once, from the first to the last.
    fn will_read(&self, at: u64, len: u64);

    /// Hints that the lines that overlap `len` bytes from `at` will be read soon.
    fn prefetch(&self, at: u64, len: u64);
}

/// [`Medium::load_words`] of a medium that knows nothing faster than one [`load`](Medium::load) after the other.
#[inline]
pub fn load_each<M: Medium + ?Sized>(medium: &M, at: u64, words: &mut [u64]) {
    words.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = medium.load(at));
}

/// Implements what [`Medium`] asks about files for a medium that is memory of this process: there is always room, there is
/// nothing to sync, and a forked child has a copy of its own.
macro_rules! not_a_file {
    () => {
        fn costs(&self) -> $crate::medium::Costs {
            $crate::medium::Costs::NOMINAL
        }

        fn read_only(&self) -> bool {
            false
        }

        #[inline]
        fn forked(&self) -> bool {
            false
        }

        fn boot(&self) -> u64 {
            0
        }

        fn sync(&self) -> ::std::io::Result<()> {
            Ok(())
        }

        fn reserve(&self, _at: u64, _len: u64) -> ::std::io::Result<()> {
            Ok(())
        }

        fn space(&self) -> u64 {
            0
        }
    };
}

pub(crate) use not_a_file;

/// Implements methods of [`Medium`] by calling another medium's, for a medium that adds something to one.
///
/// A wrapper names everything that it passes on. No method has a default that would answer for the medium below, so one
/// that is forgotten does not compile.
///
/// # Examples
///
/// ```
/// use bristlecone::delegate_medium;
/// use bristlecone::medium::{Domain, Dram, Medium};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct CountsFences(Dram, AtomicU64);
///
/// impl Medium for CountsFences {
///     delegate_medium!(this => this.0; len name domain writes_back pairs_are_whole costs read_only forked boot sync);
///     delegate_medium!(this => this.0; reserve space load load_words store store_pair cas order flush will_read prefetch);
///
///     fn fence(&self) {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.fence();
///     }
/// }
/// ```
///
/// Without `costs`, the same does not compile:
///
/// ```compile_fail,E0046
/// use bristlecone::delegate_medium;
/// use bristlecone::medium::{Domain, Dram, Medium};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct CountsFences(Dram, AtomicU64);
///
/// impl Medium for CountsFences {
///     delegate_medium!(this => this.0; len name domain writes_back pairs_are_whole read_only forked boot sync);
///     delegate_medium!(this => this.0; reserve space load load_words store store_pair cas order flush will_read prefetch);
///
///     fn fence(&self) {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.fence();
///     }
/// }
/// ```
#[macro_export]
macro_rules! delegate_medium {
    ($this:ident => $to:expr; $($method:ident)*) => {
        $($crate::delegate_medium!(@$method $this => $to);)*
    };
    (@len $this:ident => $to:expr) => {
        fn len(&self) -> u64 { let $this = self; $to.len() }
    };
    (@name $this:ident => $to:expr) => {
        fn name(&self) -> &str { let $this = self; $to.name() }
    };
    (@domain $this:ident => $to:expr) => {
        #[inline]
        fn domain(&self) -> $crate::medium::Domain { let $this = self; $to.domain() }
    };
    (@writes_back $this:ident => $to:expr) => {
        #[inline]
        fn writes_back(&self) -> bool { let $this = self; $to.writes_back() }
    };
    (@pairs_are_whole $this:ident => $to:expr) => {
        #[inline]
        fn pairs_are_whole(&self) -> bool { let $this = self; $to.pairs_are_whole() }
    };
    (@costs $this:ident => $to:expr) => {
        fn costs(&self) -> $crate::medium::Costs { let $this = self; $to.costs() }
    };
    (@read_only $this:ident => $to:expr) => {
        fn read_only(&self) -> bool { let $this = self; $to.read_only() }
    };
    (@forked $this:ident => $to:expr) => {
        #[inline]
        fn forked(&self) -> bool { let $this = self; $to.forked() }
    };
    (@boot $this:ident => $to:expr) => {
        fn boot(&self) -> u64 { let $this = self; $to.boot() }
    };
    (@sync $this:ident => $to:expr) => {
        fn sync(&self) -> ::std::io::Result<()> { let $this = self; $to.sync() }
    };
    (@reserve $this:ident => $to:expr) => {
        fn reserve(&self, at: u64, len: u64) -> ::std::io::Result<()> { let $this = self; $to.reserve(at, len) }
    };
    (@space $this:ident => $to:expr) => {
        fn space(&self) -> u64 { let $this = self; $to.space() }
    };
    (@load $this:ident => $to:expr) => {
        #[inline]
        fn load(&self, at: u64) -> u64 { let $this = self; $to.load(at) }
    };
    (@load_words $this:ident => $to:expr) => {
        #[inline]
        fn load_words(&self, at: u64, words: &mut [u64]) { let $this = self; $to.load_words(at, words) }
    };
    (@store $this:ident => $to:expr) => {
        #[inline]
        fn store(&self, at: u64, value: u64) { let $this = self; $to.store(at, value) }
    };
    (@store_pair $this:ident => $to:expr) => {
        #[inline]
        fn store_pair(&self, at: u64, pair: [u64; 2]) { let $this = self; $to.store_pair(at, pair) }
    };
    (@cas $this:ident => $to:expr) => {
        fn cas(&self, at: u64, current: u64, new: u64) -> ::core::result::Result<u64, u64> {
            let $this = self;
            $to.cas(at, current, new)
        }
    };
    (@order $this:ident => $to:expr) => {
        #[inline]
        #[track_caller]
        fn order(&self) { let $this = self; $to.order() }
    };
    (@flush $this:ident => $to:expr) => {
        #[inline]
        #[track_caller]
        fn flush(&self, at: u64, len: u64) { let $this = self; $to.flush(at, len) }
    };
    (@fence $this:ident => $to:expr) => {
        #[inline]
        #[track_caller]
        fn fence(&self) { let $this = self; $to.fence() }
    };
    (@will_read $this:ident => $to:expr) => {
        fn will_read(&self, at: u64, len: u64) { let $this = self; $to.will_read(at, len) }
    };
    (@prefetch $this:ident => $to:expr) => {
        #[inline]
        fn prefetch(&self, at: u64, len: u64) { let $this = self; $to.prefetch(at, len) }
    };
}

/// One medium in several hands, to look at it after the pool on it is closed; or, as `Arc<dyn Medium>`, whichever medium
/// is found at run time to be the right one, for the price of a call for each access.
impl<M: Medium + ?Sized> Medium for Arc<M> {
    delegate_medium!(this => (**this); len name domain writes_back pairs_are_whole costs read_only forked boot sync);
    delegate_medium!(this => (**this); reserve space load load_words store store_pair cas order flush fence will_read prefetch);
}

/// The lines that overlap `len` bytes from `at`, as offsets of their starts.
pub(crate) fn lines(at: u64, len: u64) -> impl Iterator<Item = u64> {
    let first = at & !(LINE - 1);
    let end = at + len;
    (first..end).step_by(LINE as usize)
}
