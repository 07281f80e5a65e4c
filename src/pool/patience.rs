//! How a change that finds no space waits for what readers keep.
//!
//! A record that was replaced or removed keeps its space until no reader can know it, and so perhaps a whole segment. A
//! change that finds no space collects what readers of any open tree have left, and tries again, as long as there is
//! more that they may leave. The wait has an end, because a reader may stay for ever. A thread that waits holds no
//! lock, and no pin that it can do without. One that has an iterator, or another transaction, would wait for itself, so
//! it soon gives up.

use super::{OpenTree, PoolState};
use crate::error::Fault;
use crate::medium::Medium;
use crate::pool::epochs::reads_here;
use crate::sync::{sleep, yield_now};
use std::sync::Arc;
use std::time::Duration;

/// A thread that waits first yields up to `YIELDS` times, for readers that may have lost their processor. Then it
/// sleeps up to `SLEEPS` times, for a [`NAP`] each. A thread that is itself reading would wait in vain, unless it reads
/// another tree: it sleeps up to `SLEEPS_OF_READER` times.
pub(super) const YIELDS: u32 = 64;
const SLEEPS: u32 = 3000;
const SLEEPS_OF_READER: u32 = 30;
const NAP: Duration = Duration::from_millis(1);

/// Lets readers run. `tries` says how often this was already done.
pub(super) fn give_way(tries: u32) {
    if tries < YIELDS { yield_now() } else { sleep(NAP) }
}

/// How long a change has waited for space.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    tries: u32,
    /// Whether there is no hope left.
    is_over: bool,
}

impl Patience {
    /// For a change that begins again because of something else: there may be hope again, but it waits no longer in
    /// all.
    pub(crate) fn begin_again(&mut self) {
        self.is_over = false;
    }
}

impl<M: Medium> PoolState<M> {
    /// Retries what failed with `fault`, if it was for want of space, as long as readers may leave some. The caller
    /// holds no lock.
    #[cold]
    pub(crate) fn with_space<T>(
        &self,
        mut fault: Fault,
        mut attempt: impl FnMut() -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let mut patience = Patience::default();
        loop {
            self.wait_for_space(&mut patience, fault)?;
            match attempt() {
                Err(again) => fault = again,
                done => return done,
            }
        }
    }

    /// Gives back what readers have left, after a pause if that was done before. Then there may be space for what
    /// failed with `fault`. The caller holds no lock.
    ///
    /// # Errors
    ///
    /// `fault`, if it was not for want of space; or if nothing was left to hope for before the last attempt, or it has
    /// waited for too long.
    #[cold]
    pub(crate) fn wait_for_space(&self, patience: &mut Patience, fault: Fault) -> Result<(), Fault> {
        let most = YIELDS + if reads_here() { SLEEPS_OF_READER } else { SLEEPS };
        if patience.is_over || patience.tries > most || !fault.is_out_of_space() {
            return Err(fault);
        }
        if let Some(tries) = patience.tries.checked_sub(1)
            && !stands_in(tries)
        {
            give_way(tries);
        }
        // What comes back after this look is no hope any more, but is there at the last attempt.
        patience.is_over = !self.collect() || patience.tries >= most;
        patience.tries += 1;
        Ok(())
    }

    /// Gives back what open trees only keep because nobody has looked whether their readers have left: a few records
    /// that are retired can keep as many segments. Returns whether readers keep more. The caller holds no lock.
    fn collect(&self) -> bool {
        self.visit_open(|trees: &[Arc<OpenTree>]| {
            // All of them, whatever the first one says.
            trees.iter().fold(false, |keeps, tree| tree.collect() | keeps)
        })
    }
}

#[cfg(not(all(test, not(bristlecone_loom))))]
fn stands_in(_: u32) -> bool {
    false
}

#[cfg(all(test, not(bristlecone_loom)))]
pub(crate) use waits::{instead, stands_in};

#[cfg(all(test, not(bristlecone_loom)))]
mod waits {
    use std::cell::RefCell;

    /// What happens instead of a pause, given how many there have been.
    type Pause = Box<dyn FnMut(u32)>;

    thread_local! {
        static INSTEAD: RefCell<Option<Pause>> = const { RefCell::new(None) };
    }

    pub(crate) fn stands_in(tries: u32) -> bool {
        INSTEAD.with_borrow_mut(|instead| instead.as_mut().map(|pause| pause(tries))).is_some()
    }

    /// Runs `change` with this instead of the pauses in which it waits for space.
    pub(crate) fn instead<R>(pause: impl FnMut(u32) + 'static, change: impl FnOnce() -> R) -> R {
        /// Also after a panic: others may wait for what the pause has.
        struct Over;
        impl Drop for Over {
            fn drop(&mut self) {
                INSTEAD.set(None);
            }
        }
        let _over = Over;
        INSTEAD.set(Some(Box::new(pause)));
        change()
    }
}
