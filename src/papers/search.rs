//! Binary search without branches.

/// Returns how many of `len` items satisfy `is_left`; those that do come first. The outcome of a step cannot be
/// predicted and the items are close together in memory, so no branch depends on a comparison.
#[inline]
pub(crate) fn partition(mut len: usize, is_left: impl Fn(usize) -> bool) -> usize {
    let mut from = 0;
    while len > 1 {
        let half = len / 2;
        from += half * usize::from(is_left(from + half - 1));
        len -= half;
    }
    from + usize::from(len == 1 && is_left(from))
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_is_left() {
        for len in 0..70 {
            for left in 0..=len {
                assert_eq!(partition(len, |i| i < left), left, "of {len}");
            }
        }
    }
}
