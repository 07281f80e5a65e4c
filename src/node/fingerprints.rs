//! Fingerprints: one byte of each key's hash, so that a search compares many keys in one step. And sets of slots, which
//! are the result of such a comparison.

/// The hash of a key.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    #[inline]
    pub(crate) fn of_key(key: u64) -> Self {
        // The golden ratio spreads neighbouring keys evenly; the fold mixes in the upper half of large keys.
        Self((key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// The fingerprint: 1 to 255.
    #[inline]
    pub(crate) fn print(self) -> u8 {
        ((self.0 >> 40) as u8).max(1)
    }

    /// The home line: less than `lines`.
    #[inline]
    pub(crate) fn line(self, lines: usize) -> usize {
        ((self.0 >> 48) as usize * lines) >> 16
    }
}

/// A set of slots, one bit each.
pub(crate) type SlotSet = u64;

/// The slots of a set, in ascending order.
#[inline]
pub(crate) fn each(mut slots: SlotSet) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = slots.trailing_zeros() as usize;
        let next = (slots != 0).then_some(slot);
        slots &= slots.wrapping_sub(1);
        next
    })
}
