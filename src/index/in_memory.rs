//! What the indexes in memory have in common.

/// How an index in memory changes.
pub(crate) trait InMemory {
    /// Adds a leaf, or replaces the one with this low.
    fn post(&self, low: u64, leaf: u64);
    /// Forgets a leaf, which is returned; not the first.
    fn withdraw(&self, low: u64) -> Option<u64>;
    /// Forgets all leaves, and learns these.
    fn learn(&self, leaves: &[(u64, u64)]);
}

macro_rules! in_memory {
    ($index:ty) => {
        impl $crate::index::InMemory for $index {
            fn post(&self, low: u64, leaf: u64) {
                <$index>::post(self, low, leaf);
            }

            fn withdraw(&self, low: u64) -> Option<u64> {
                <$index>::withdraw(self, low)
            }

            fn learn(&self, leaves: &[(u64, u64)]) {
                <$index>::learn(self, leaves.iter().copied());
            }
        }
    };
}

pub(crate) use in_memory;
