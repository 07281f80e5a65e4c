//! How an input is read.

/// Reads the input; beyond its end it reads zeros.
pub(crate) struct Data<'d>(pub(crate) &'d [u8]);

impl Data<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        let (byte, rest) = self.0.split_first().map_or((0, self.0), |(&byte, rest)| (byte, rest));
        self.0 = rest;
        byte
    }

    pub(crate) fn word16(&mut self) -> u64 {
        u64::from(self.byte()) | u64::from(self.byte()) << 8
    }

    /// One of few keys, including the extreme ones, so that operations meet at the same keys.
    pub(crate) fn key(&mut self) -> u64 {
        match self.byte() {
            255 => u64::MAX,
            254 => u64::MAX - 1,
            other => u64::from(other % 128),
        }
    }

    /// At most `most` items, each read by `one`.
    pub(crate) fn list<T>(&mut self, most: u8, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.byte() % (most + 1)).map(|_| one(self)).collect()
    }
}
