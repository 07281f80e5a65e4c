//! What the indexes in memory have in common.

/// The changes of an index in memory.
pub(crate) trait InMemory {
    /// Adds a leaf, or replaces the one with this low. (The lows are the names of separators.)
    fn post(&self, low: u64, leaf: u64);
    /// Forgets the leaf with this low, unless it is the first one, and returns it.
    fn withdraw(&self, low: u64) -> Option<u64>;
    /// Forgets all leaves, then takes these.
    fn learn(&self, leaves: &[(u64, u64)]);
}

macro_rules! in_memory {
    ($index:ty $(, $($parameters:tt)*)?) => {
        impl $(<$($parameters)*>)? $crate::index::InMemory for $index {
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
