//! The media of measured trees other than mapped files, as one type.

use bristlecone::Journal;
use bristlecone::medium::{Costs, Counted, Dram, Facts, Hint, Mapped, Medium, Slowed, Step};
use std::io;
use std::sync::atomic::AtomicU64;

/// One type, because each further type of medium costs as much compile time as everything else.
///
/// The price is one more branch per access, which is well predicted: it matters at most in memory, and does not affect
/// counts.
#[expect(clippy::large_enum_variant, reason = "a pool has one, and another pointer would cost each access a load")]
pub(crate) enum Other {
    Dram(Dram),
    Slowed(Slowed<Mapped>),
    Counted(Counted<Dram>),
}

/// Passes a call on to the current medium.
macro_rules! forward {
    ($self:expr, $medium:ident => $call:expr) => {
        match $self {
            Other::Dram($medium) => $call,
            Other::Slowed($medium) => $call,
            Other::Counted($medium) => $call,
        }
    };
}

impl Medium for Other {
    #[inline]
    fn facts(&self) -> Facts<'_> {
        forward!(self, medium => medium.facts())
    }

    #[inline]
    fn accessible(&self) -> u64 {
        forward!(self, medium => medium.accessible())
    }

    fn costs(&self) -> Costs {
        forward!(self, medium => medium.costs())
    }

    #[inline]
    fn forked(&self) -> bool {
        forward!(self, medium => medium.forked())
    }

    #[inline]
    fn refuses(&self) -> bool {
        forward!(self, medium => medium.refuses())
    }

    fn set_journal(&mut self, mode: Journal) -> bool {
        forward!(self, medium => medium.set_journal(mode))
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        forward!(self, medium => medium.swap_pair(at, pair));
    }

    #[inline]
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]> {
        forward!(self, medium => medium.lend(at, count))
    }

    fn sync(&self) -> io::Result<()> {
        forward!(self, medium => medium.sync())
    }

    #[inline]
    fn admit(&self) -> io::Result<()> {
        Ok(())
    }

    #[inline]
    fn acknowledge(&self) -> io::Result<()> {
        Ok(())
    }

    fn settle(&self) -> io::Result<()> {
        Ok(())
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        forward!(self, medium => medium.reserve(at, len))
    }

    fn reserved_to(&self, at: u64) -> u64 {
        forward!(self, medium => medium.reserved_to(at))
    }

    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        forward!(self, medium => medium.release(at, len))
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        forward!(self, medium => medium.truncate(len))
    }

    fn space(&self) -> u64 {
        forward!(self, medium => medium.space())
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        forward!(self, medium => medium.load(at))
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        forward!(self, medium => medium.load_words(at, words));
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        forward!(self, medium => medium.store(at, value));
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        forward!(self, medium => medium.store_pair(at, pair));
    }

    #[inline]
    fn order(&self, step: Step) {
        forward!(self, medium => medium.order(step));
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        forward!(self, medium => medium.flush(at, len, step));
    }

    #[inline]
    fn fence(&self, step: Step) {
        forward!(self, medium => medium.fence(step));
    }

    #[inline]
    fn hint(&self, at: u64, len: u64, hint: Hint) {
        forward!(self, medium => medium.hint(at, len, hint));
    }
}
