//! The medium of all trees here: one type, so that a tree that several tests use is compiled once.

use bristlecone::medium::{Dram, Medium, View};
use std::sync::Arc;

pub(crate) type Any = Arc<dyn Medium>;

/// Memory that holds zeros.
pub(crate) fn zeroed(len: u64) -> Any {
    Arc::new(Dram::zeroed(len))
}

/// Memory that holds these words.
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
