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

    /// Gives the space of whole pages back: they hold zeros. A hint.
    fn punch(&self, at: u64, len: u64) -> io::Result<()>;

    /// Whether the file has no name any more.
    fn is_gone(&self) -> bool;
}

/// Fills `bytes` with what is at `at`.
#[cfg(windows)]
fn read_exact_at(file: &std::fs::File, mut bytes: &mut [u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => (bytes, at) = (&mut bytes[read..], at + read as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Replaces what is at `at`.
#[cfg(windows)]
fn write_all_at(file: &std::fs::File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => (bytes, at) = (&bytes[written..], at + written as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(any(unix, windows))]
impl Disk for std::fs::File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_exact_at(self, bytes, at);
        #[cfg(windows)]
        read_exact_at(self, bytes, at)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::write_all_at(self, bytes, at);
        #[cfg(windows)]
        write_all_at(self, bytes, at)
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

    fn punch(&self, at: u64, len: u64) -> io::Result<()> {
        #[cfg(all(target_os = "linux", not(bristlecone_loom)))]
        return crate::medium::mapped::punch(self, at, len).map(drop);
        #[cfg(not(all(target_os = "linux", not(bristlecone_loom))))]
        {
            let _ = (at, len);
            Ok(())
        }
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
        #[cfg(all(unix, not(target_os = "linux")))]
        return self.metadata().is_ok_and(|meta| std::os::unix::fs::MetadataExt::nlink(&meta) == 0);
        // A file that is open keeps its name.
        #[cfg(not(unix))]
        false
    }
}
