//! How far a mapping may grow, and how many addresses are set aside for that when the file is opened.

/// How far a mapping may grow, in bytes. Numbers below the length of the file mean that.
#[derive(Debug, Clone, Copy)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "elsewhere nothing is set aside"))]
pub(crate) struct Reach {
    /// No further than this. Addresses for it are reserved when they are needed.
    pub(crate) most: u64,
    /// So many addresses are set aside at once, if they are but a small part of those that are left. 0: in proportion
    /// to the file.
    pub(crate) likely: u64,
    /// So many addresses are set aside in any case.
    pub(crate) certain: u64,
}

/// Why a mapping does not grow beyond the most, and what to do.
pub(super) const FURTHER: &str = "the pool cannot become so long while it is open; open it again";

impl From<u64> for Reach {
    fn from(most: u64) -> Self {
        Self { most, likely: 0, certain: 0 }
    }
}

#[cfg(target_os = "linux")]
impl Reach {
    /// What is set aside at least for a file that may grow.
    const LEAST: u64 = 64 << 20;

    /// How far a mapping of a file of `len` bytes may reach. One that is only read grows only by what an open repairs
    /// in memory.
    pub(super) fn of_file(self, len: u64, is_read: bool) -> Self {
        let left = crate::memory::addresses::left();
        let most = self.most.max(self.certain).min(len.saturating_add(left)).max(len);
        let likely = match self.likely {
            _ if is_read => len,
            0 => len.saturating_mul(2).max(Self::LEAST),
            likely => likely,
        };
        Self { most, likely, ..self }
    }
}
