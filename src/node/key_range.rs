//! The keys that a node owns.

/// The keys that a node owns: `[low, high)`, or MAX alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyRange {
    low: u64,
    width: u64,
}

impl KeyRange {
    /// The range from `low` up to, but not including, `high`; the node with `low` = MAX owns MAX.
    pub(crate) fn new(low: u64, high: u64) -> Self {
        Self { low, width: if low == u64::MAX { 1 } else { high.saturating_sub(low) } }
    }

    pub(crate) const fn from_parts(low: u64, width: u64) -> Self {
        Self { low, width }
    }

    /// The smallest key owned.
    pub fn low(self) -> u64 {
        self.low
    }

    /// The first key beyond the range; 0 for the node that owns MAX.
    pub fn high(self) -> u64 {
        self.low.wrapping_add(self.width)
    }

    pub(crate) fn width(self) -> u64 {
        self.width
    }

    /// Whether the node owns the key: one subtraction and one comparison.
    #[inline]
    pub fn contains(self, key: u64) -> bool {
        key.wrapping_sub(self.low) < self.width
    }

    /// A key that a node with this `low` never owns, whatever its right neighbour is.
    #[inline]
    pub(crate) fn marker(self) -> u64 {
        self.low.wrapping_sub(1)
    }
}
