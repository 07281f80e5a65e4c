//! Fingerprints: a byte of each key's hash, so that a search compares many keys in one step; and sets of slots, which is
//! what such a comparison finds.

/// What the hash of a key says of it.
#[derive(Clone, Copy)]
pub(crate) struct Hash(u64);

impl Hash {
    #[inline]
    pub(crate) fn of(key: u64) -> Self {
        // The golden section spreads neighbouring keys evenly; the fold brings in the upper half of others.
        Self((key ^ key >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// 1 to 255.
    #[inline]
    pub(crate) fn print(self) -> u8 {
        ((self.0 >> 40) as u8).max(1)
    }

    /// Below `lines`.
    #[inline]
    pub(crate) fn line(self, lines: usize) -> usize {
        ((self.0 >> 48) as usize * lines) >> 16
    }
}

/// A set of slots, a bit each.
pub(crate) type Slots = u64;

/// The slots of a set, in ascending order.
#[inline]
pub(crate) fn each(mut slots: Slots) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let slot = slots.trailing_zeros() as usize;
        let next = (slots != 0).then_some(slot);
        slots &= slots.wrapping_sub(1);
        next
    })
}
