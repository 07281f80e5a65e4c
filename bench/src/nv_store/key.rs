//! A key that is looked for.

use super::element::head;
use std::cmp::Ordering;

/// A key and its head, which decides most comparisons.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key<'k> {
    pub(super) head: u64,
    pub(super) bytes: &'k [u8],
}

impl<'k> Key<'k> {
    #[inline]
    pub(super) fn new(bytes: &'k [u8]) -> Self {
        Self { head: head(bytes), bytes }
    }

    /// Compares it with another one; `bytes` gives that one's bytes if the heads are equal.
    #[inline]
    pub(super) fn cmp_with<'o>(&self, head: u64, bytes: impl FnOnce() -> &'o [u8]) -> Ordering {
        self.head.cmp(&head).then_with(|| self.bytes.cmp(bytes()))
    }
}
