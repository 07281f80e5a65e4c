//! A file, as far as the journal uses one.

use std::io;

/// A file, or what stands for one, whose writes survive the machine once [`sync`](Self::sync) has returned.
pub(crate) trait Disk: Send + Sync + 'static {
    /// The length in bytes.
    fn len(&self) -> io::Result<u64>;

    /// Fills `bytes` with what is at `at`.
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()>;

    /// Replaces what is at `at`; makes the file longer if need be.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Waits until all that was written is on the disk. After an error nothing is known of what was written since the
    /// sync before.
    fn sync(&self) -> io::Result<()>;
}

#[cfg(unix)]
impl Disk for std::fs::File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, bytes, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::write_all_at(self, bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
