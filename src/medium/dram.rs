//! Ordinary memory: for volatile baselines, for tests, and for looking into an image of a pool.

use super::{Domain, Medium, load_each, not_a_file};
use crate::sync::{AtomicU64, Ordering};

/// A medium in ordinary memory. Nothing survives; nothing is flushed.
pub struct Dram {
    words: Box<[AtomicU64]>,
    name: String,
}

impl Dram {
    /// `len` zero bytes, rounded up to whole words.
    pub fn zeroed(len: u64) -> Self {
        Self::from_words((0..len.div_ceil(8)).map(|_| 0))
    }

    /// A copy of a pool's bytes; a last partial word is padded with zeros.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::from_words(bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_le_bytes(word)
        }))
    }

    /// The words of an image.
    pub fn from_words(words: impl IntoIterator<Item = u64>) -> Self {
        Self { words: words.into_iter().map(AtomicU64::new).collect(), name: "memory".to_owned() }
    }

    /// A copy of all words.
    pub fn words(&self) -> Vec<u64> {
        self.words.iter().map(|w| w.load(Ordering::Relaxed)).collect()
    }
}

impl Medium for Dram {
    fn len(&self) -> u64 {
        self.words.len() as u64 * 8
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn domain(&self) -> Domain {
        Domain::Process
    }

    #[inline]
    fn writes_back(&self) -> bool {
        false
    }

    #[inline]
    fn pairs_are_whole(&self) -> bool {
        false
    }

    not_a_file!();

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.words[at as usize / 8].load(Ordering::Relaxed)
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        load_each(self, at, words);
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.words[at as usize / 8].store(value, Ordering::Relaxed);
    }

    #[inline]
    fn store_pair(&self, at: u64, [first, second]: [u64; 2]) {
        // Two steps: `Dram` promises no more than the crate's optimistic readers need.
        self.store(at, first);
        self.store(at + 8, second);
    }

    fn cas(&self, at: u64, current: u64, new: u64) -> Result<u64, u64> {
        self.words[at as usize / 8].compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    #[inline]
    fn order(&self) {
        #[cfg(not(loom))]
        crate::arch::order();
    }

    #[inline]
    fn flush(&self, _at: u64, _len: u64) {}

    #[inline]
    fn fence(&self) {
        #[cfg(not(loom))]
        crate::arch::compiler_barrier();
    }
    fn will_read(&self, _at: u64, _len: u64) {}

    #[inline]
    fn prefetch(&self, _at: u64, _len: u64) {}
}
