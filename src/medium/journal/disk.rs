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

    /// As [`write`](Self::write), and waits until these bytes are on the disk, and for no others.
    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file shorter.
    fn cut(&self, len: u64) -> io::Result<()>;

    /// Whether the file has no name any more.
    fn is_gone(&self) -> bool;
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

    fn write_through(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        {
            use rustix::io::{Errno, ReadWriteFlags, pwritev2, retry_on_intr};
            let parts = [io::IoSlice::new(bytes)];
            match retry_on_intr(|| pwritev2(self, &parts, at, ReadWriteFlags::DSYNC)) {
                Ok(written) if written == bytes.len() => return Ok(()),
                // The file system may not know how; or the write was cut short.
                Ok(_) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Disk::write(self, at, bytes)?;
        self.sync_data()
    }

    fn cut(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn is_gone(&self) -> bool {
        #[cfg(target_os = "linux")]
        {
            // The number of links and nothing else: after a look at the times of a file, each write notes a new one, which the
            // next sync waits for.
            use rustix::fs::{AtFlags, StatxFlags, statx};
            let found = statx(self, c"", AtFlags::EMPTY_PATH, StatxFlags::NLINK);
            found.is_ok_and(|found| found.stx_nlink == 0)
        }
        #[cfg(not(target_os = "linux"))]
        self.metadata().is_ok_and(|meta| std::os::unix::fs::MetadataExt::nlink(&meta) == 0)
    }
}
