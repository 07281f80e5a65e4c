//! Ordinary memory: for volatile baselines, for tests, and for inspecting an image of a pool.

use super::{Facts, Hint, Medium, Step};
use crate::sync::{AtomicU64, Ordering};

/// The answers of a medium in memory, which always has the same length, to what is asked of a file.
macro_rules! without_file {
    () => {
        #[inline]
        fn accessible(&self) -> u64 {
            self.facts().len
        }

        fn costs(&self) -> $crate::medium::Costs {
            $crate::medium::Costs::NOMINAL
        }

        #[inline]
        fn forked(&self) -> bool {
            false
        }

        #[inline]
        fn refuses(&self) -> bool {
            self.forked()
        }

        #[inline]
        fn asks_ahead(&self) -> Option<u64> {
            None
        }

        fn missing(&self, _at: u64, _len: u64) -> Vec<::std::ops::Range<u64>> {
            Vec::new()
        }

        fn set_journal(&mut self, _mode: $crate::Journal) -> bool {
            false
        }

        fn vitals(&self) -> Option<::std::sync::Arc<$crate::medium::vitals::Vitals>> {
            None
        }

        fn journal_stat(&self) -> Option<$crate::stat::JournalStat> {
            None
        }

        fn reserved_to(&self, at: u64) -> u64 {
            at
        }

        fn truncate(&self, len: u64) -> ::std::io::Result<()> {
            if len < self.accessible() { Err(::std::io::ErrorKind::Unsupported.into()) } else { Ok(()) }
        }

        fn space(&self) -> u64 {
            0
        }

        #[inline]
        fn load_words(&self, at: u64, words: &mut [u64]) {
            $crate::medium::load_each(self, at, words);
        }

        #[inline]
        fn swap_pair(&self, at: u64, pair: [u64; 2]) {
            self.store_pair(at, pair);
        }
    };
}

/// The answers of a medium without a journal to what is asked of one, and of one that always has its space.
macro_rules! without_journal {
    () => {
        fn sync(&self) -> ::std::io::Result<()> {
            Ok(())
        }

        #[inline]
        fn window(&self) -> $crate::medium::Window<'_> {
            $crate::medium::Window::NONE
        }

        #[inline]
        fn window_for_change(&self) -> $crate::medium::Window<'_> {
            $crate::medium::Window::NONE
        }

        fn pause(&self) {}

        #[inline]
        fn admit(&self) -> ::std::io::Result<()> {
            Ok(())
        }

        #[inline]
        fn acknowledge(&self) -> ::std::io::Result<()> {
            Ok(())
        }

        fn settle(&self) -> ::std::io::Result<()> {
            Ok(())
        }

        fn take_image(&self) -> Option<$crate::medium::FoundImage> {
            None
        }

        fn set_image_maker(&self, _maker: Option<::std::boxed::Box<dyn $crate::medium::ImageMaker>>) {}

        fn reserve(&self, at: u64, len: u64) -> ::std::io::Result<()> {
            $crate::medium::end_within(at, len, self.facts().len).map(drop)
        }

        fn release(&self, _at: u64, _len: u64) -> ::std::io::Result<()> {
            Ok(())
        }
    };
}

#[cfg(all(test, any(bristlecone_loom, feature = "crash")))]
pub(crate) use without_file;
#[cfg(all(test, bristlecone_loom))]
pub(crate) use without_journal;

/// A medium in ordinary memory, which always has the same length. Nothing survives; nothing is flushed.
pub struct Dram {
    words: Box<[AtomicU64]>,
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
        Self { words: words.into_iter().map(AtomicU64::new).collect() }
    }

    /// A copy of all words.
    pub fn words(&self) -> Vec<u64> {
        self.words.iter().map(|w| w.load(Ordering::Relaxed)).collect()
    }
}

impl super::sealed::Sealed for Dram {}

impl Medium for Dram {
    without_file!();
    without_journal!();

    #[inline]
    fn facts(&self) -> Facts<'_> {
        Facts::of_memory("memory", self.words.len() as u64 * 8)
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.words[at as usize / 8].load(Ordering::Relaxed)
    }

    #[cfg(not(bristlecone_loom))]
    #[inline]
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]> {
        Some(&self.words[at as usize / 8..][..count])
    }

    /// In a model, words are loom's.
    #[cfg(bristlecone_loom)]
    fn lend(&self, _at: u64, _count: usize) -> Option<&[core::sync::atomic::AtomicU64]> {
        None
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.words[at as usize / 8].store(value, Ordering::Relaxed);
    }

    #[inline]
    fn store_pair(&self, at: u64, [first, second]: [u64; 2]) {
        // Two steps: `Dram` promises only what the crate's optimistic readers need.
        self.store(at, first);
        self.store(at + 8, second);
    }

    #[inline]
    fn order(&self, _step: Step) {
        #[cfg(not(bristlecone_loom))]
        crate::arch::order();
    }

    #[inline]
    fn flush(&self, _at: u64, _len: u64, _step: Step) {}

    #[inline]
    fn fence(&self, _step: Step) {
        #[cfg(not(bristlecone_loom))]
        crate::arch::compiler_barrier();
    }

    #[inline]
    fn hint(&self, _at: u64, _len: u64, _hint: Hint) {}
}
