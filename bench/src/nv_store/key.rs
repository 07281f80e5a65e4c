//! A key that is looked for.

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

/// The first eight bytes of a key, in the order of keys; zeros follow a shorter one.
#[inline]
fn head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut first = [0; 8];
    first[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_the_order_of_keys() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0", b"abcdefgh", b"abcdefghi", b"b"];
        assert!(keys.windows(2).all(|two| head(two[0]) <= head(two[1])));
        assert!(head(b"") == 0 && head(b"a") < head(b"b"));
    }
}
