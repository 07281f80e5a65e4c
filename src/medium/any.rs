//! The medium of all trees that are checked or tested: one type, so that a tree is compiled once.

#[cfg(all(test, not(bristlecone_loom)))]
use super::Dram;
use super::{Medium, View};
use std::sync::Arc;

pub(crate) type Any = Arc<dyn Medium>;

/// Memory that holds zeros.
#[cfg(all(test, not(bristlecone_loom)))]
pub(crate) fn zeroed(len: u64) -> Any {
    Arc::new(Dram::zeroed(len))
}

/// Memory that holds these words.
#[cfg(all(test, not(bristlecone_loom)))]
pub(crate) fn holding(words: impl IntoIterator<Item = u64>) -> Any {
    Arc::new(Dram::from_words(words))
}

/// The current words of a medium, or of the medium of a pool.
pub(crate) fn words_of<'m>(medium: impl Into<View<'m, Any>>) -> Vec<u64> {
    let medium = medium.into();
    let mut words = vec![0; medium.accessible() as usize / 8];
    medium.load_words(0, &mut words);
    words
}
