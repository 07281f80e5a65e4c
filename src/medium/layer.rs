//! A medium over another one, or over one of two.

use super::sealed::Sealed;
use super::vitals::Vitals;
use super::{Costs, Facts, FoundImage, Hint, ImageMaker, Journal, JournalStat, Medium, Step, Window};
use core::sync::atomic::AtomicU64;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Gives a macro the methods that every wrapper can pass on, each once. `Medium` has no default methods, so a method
/// that is missing here does not compile.
macro_rules! passed_on {
    ($macro:ident) => {
        $macro! {
            fn facts() -> Facts<'_>;
            #[inline]
            fn accessible() -> u64;
            fn costs() -> Costs;
            #[inline]
            fn forked() -> bool;
            #[inline]
            fn refuses() -> bool;
            fn asks_ahead() -> Option<u64>;
            fn missing(at: u64, len: u64) -> Vec<Range<u64>>;
            fn sync() -> io::Result<()>;
            #[inline]
            #[doc(hidden)]
            fn window() -> Window<'_>;
            #[inline]
            #[doc(hidden)]
            fn window_for_change() -> Window<'_>;
            #[doc(hidden)]
            fn pause() -> ();
            #[inline]
            fn admit() -> io::Result<()>;
            #[inline]
            fn acknowledge() -> io::Result<()>;
            fn settle() -> io::Result<()>;
            #[doc(hidden)]
            fn take_image() -> Option<FoundImage>;
            #[doc(hidden)]
            fn set_image_maker(maker: Option<Box<dyn ImageMaker>>) -> ();
            fn journal_stat() -> Option<JournalStat>;
            fn vitals() -> Option<Arc<Vitals>>;
            fn reserve(at: u64, len: u64) -> io::Result<()>;
            fn reserved_to(at: u64) -> u64;
            fn release(at: u64, len: u64) -> io::Result<()>;
            fn truncate(len: u64) -> io::Result<()>;
            fn space() -> u64;
            #[inline]
            fn load(at: u64) -> u64;
            #[inline]
            fn load_words(at: u64, words: &mut [u64]) -> ();
            #[inline]
            fn store(at: u64, value: u64) -> ();
            #[inline]
            fn store_pair(at: u64, pair: [u64; 2]) -> ();
            #[inline]
            fn order(step: Step) -> ();
            #[inline]
            fn flush(at: u64, len: u64, step: Step) -> ();
            #[inline]
            fn fence(step: Step) -> ();
            #[inline]
            fn hint(at: u64, len: u64, hint: Hint) -> ();
        }
    };
}

macro_rules! by_default {
    ($($(#[$attr:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $(
            #[doc = concat!("See [`Medium::", stringify!($name), "`].")]
            $(#[$attr])*
            fn $name(&self, $($arg: $type),*) -> $result {
                self.below().$name($($arg),*)
            }
        )*
    };
}

macro_rules! of_layer {
    ($($(#[$attr:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $($(#[$attr])* fn $name(&self, $($arg: $type),*) -> $result { Layer::$name(self, $($arg),*) })*
    };
}

macro_rules! of_owned {
    ($($(#[$attr:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $($(#[$attr])* fn $name(&self, $($arg: $type),*) -> $result { (**self).$name($($arg),*) })*
    };
}

macro_rules! of_either {
    ($($(#[$attr:meta])* fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty;)*) => {
        $($(#[$attr])* fn $name(&self, $($arg: $type),*) -> $result {
            match self {
                Self::First(medium) => medium.$name($($arg),*),
                Self::Second(medium) => medium.$name($($arg),*),
            }
        })*
    };
}

/// A medium that changes some of what another medium does: it names the medium below and implements the methods that
/// differ.
///
/// Each method does what the method of [`Medium`] with its name does, and by default calls the medium below.
///
/// # Examples
///
/// ```
/// use bristlecone::medium::{Dram, Layer, Medium, Step};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct CountsFences(Dram, AtomicU64);
///
/// impl Layer for CountsFences {
///     type Below = Dram;
///
///     fn below(&self) -> &Dram {
///         &self.0
///     }
///
///     fn fence(&self, step: Step) {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.fence(step);
///     }
/// }
/// ```
#[allow(clippy::missing_errors_doc, reason = "the methods of `Medium` say them")]
pub trait Layer: Send + Sync + 'static {
    /// The type of the medium below.
    type Below: Medium + ?Sized;

    /// The medium below.
    fn below(&self) -> &Self::Below;

    passed_on!(by_default);

    /// See [`Medium::swap_pair`]. By default it is [`store_pair`](Self::store_pair), for layers that look at stores.
    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.store_pair(at, pair);
    }
}

impl<L: Layer> Sealed for L {}

impl<L: Layer> Medium for L {
    passed_on!(of_layer);

    /// A layer is told of each load.
    #[inline]
    fn lend(&self, _at: u64, _count: usize) -> Option<&[AtomicU64]> {
        None
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        Layer::swap_pair(self, at, pair);
    }

    /// What is below a layer is not changed by others.
    fn set_journal(&mut self, _mode: Journal) -> bool {
        false
    }
}

impl<M: Medium + ?Sized> Sealed for Arc<M> {}

/// A medium with several owners, to inspect it after the pool on it was closed. As `Arc<dyn Medium>`, a medium that is
/// chosen at run time, at the cost of a call for each access.
impl<M: Medium + ?Sized> Medium for Arc<M> {
    passed_on!(of_owned);

    #[inline]
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]> {
        (**self).lend(at, count)
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        (**self).swap_pair(at, pair);
    }

    /// What has several owners is not changed by one.
    fn set_journal(&mut self, _mode: Journal) -> bool {
        false
    }
}

/// One of two media, chosen at run time, at the cost of a branch for each access: for a program that compiles its trees
/// for one type of medium. A third one is in an `Either` of its own.
///
/// # Examples
///
/// ```
/// use bristlecone::Pool;
/// use bristlecone::medium::{Counted, Dram, Either};
///
/// let counts = std::env::args().any(|arg| arg == "--counts");
/// let memory = Dram::zeroed(1 << 20);
/// let medium = if counts { Either::Second(Counted::new(memory)) } else { Either::First(memory) };
/// let pool = Pool::options().create_on(medium)?;
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Debug, Clone)]
pub enum Either<A, B> {
    /// The one.
    First(A),
    /// The other.
    Second(B),
}

impl<A: Medium, B: Medium> Sealed for Either<A, B> {}

impl<A: Medium, B: Medium> Medium for Either<A, B> {
    passed_on!(of_either);

    #[inline]
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]> {
        match self {
            Self::First(medium) => medium.lend(at, count),
            Self::Second(medium) => medium.lend(at, count),
        }
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        match self {
            Self::First(medium) => medium.swap_pair(at, pair),
            Self::Second(medium) => medium.swap_pair(at, pair),
        }
    }

    fn set_journal(&mut self, mode: Journal) -> bool {
        match self {
            Self::First(medium) => medium.set_journal(mode),
            Self::Second(medium) => medium.set_journal(mode),
        }
    }
}
