//! A medium for loom. Only the words of nodes are modelled, and only from the moment at which threads race.

use crate::medium::sealed::Sealed;
use crate::medium::{Facts, Hint, Medium, Step, without_file, without_journal};
use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64 as Plain;

/// Ordinary memory. The header (superblock, roots, segment table) is read by threads that hold the lock that guards it,
/// so loom need not know its words. What loom does not know costs no branch.
pub(super) struct Few {
    plain: Box<[Plain]>,
    /// The offset of the words that loom knows.
    from: u64,
    modelled: OnceLock<Box<[AtomicU64]>>,
}

impl Few {
    /// The words of an image; `from` is the offset of the first segment.
    pub(super) fn new(words: impl IntoIterator<Item = u64>, from: u64) -> Self {
        Self { plain: words.into_iter().map(Plain::new).collect(), from, modelled: OnceLock::new() }
    }

    /// From now on, loom sees the accesses to the first `bytes` bytes from the first segment on.
    pub(super) fn model(&self, bytes: u64) {
        let words = (self.from..self.from + bytes).step_by(8).map(|at| AtomicU64::new(self.load(at))).collect();
        assert!(self.modelled.set(words).is_ok(), "once");
    }

    pub(super) fn words(&self) -> Vec<u64> {
        (0..self.facts().len).step_by(8).map(|at| self.load(at)).collect()
    }

    #[inline]
    fn word(&self, at: u64) -> Result<&AtomicU64, &Plain> {
        let modelled = self.modelled.get().zip(at.checked_sub(self.from));
        let word = modelled.and_then(|(words, at)| words.get(at as usize / 8));
        word.ok_or(&self.plain[at as usize / 8])
    }
}

impl Sealed for Few {}

impl Medium for Few {
    without_file!();
    without_journal!();

    fn facts(&self) -> Facts<'_> {
        Facts::of_memory("model", self.plain.len() as u64 * 8)
    }

    fn lend(&self, _at: u64, _count: usize) -> Option<&[Plain]> {
        None
    }

    fn load(&self, at: u64) -> u64 {
        match self.word(at) {
            Ok(word) => word.load(Ordering::Relaxed),
            Err(plain) => plain.load(std::sync::atomic::Ordering::Relaxed),
        }
    }

    fn store(&self, at: u64, value: u64) {
        match self.word(at) {
            Ok(word) => word.store(value, Ordering::Relaxed),
            Err(plain) => plain.store(value, std::sync::atomic::Ordering::Relaxed),
        }
    }

    fn store_pair(&self, at: u64, [first, second]: [u64; 2]) {
        self.store(at, first);
        self.store(at + 8, second);
    }

    fn order(&self, _step: Step) {}

    fn flush(&self, _at: u64, _len: u64, _step: Step) {}

    fn fence(&self, _step: Step) {}

    fn hint(&self, _at: u64, _len: u64, _hint: Hint) {}
}
