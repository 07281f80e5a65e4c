//! Taking a file out of the system's cache (J30 in `docs/journal.md`).
//!
//! After a write to the disk has failed, the cache shows what was to be written, as if it were there. Worse, where the
//! file system had only reserved the space (ext4), it takes the page for one that the disk has: what is written to it
//! later reaches the disk, a sync succeeds, and the place still reads as zeros when the cache is gone. Such a page is
//! neither dirty nor mapped, so the system drops it when it is asked to, and the next read finds what the disk has.

use super::{Disk, DiskFile};
use rustix::fs::{Advice, fadvise, fstatfs};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::ptr::null_mut;
use std::time::Duration;

/// How often the system is asked: another program may be reading the file just now.
const TRIES: u32 = 4;
/// How many bytes of the file are looked at at a time.
const WINDOW: u64 = 1 << 30;

impl DiskFile {
    /// Takes the file out of the system's cache, so that it shows what the disk has. This process has mapped nothing of
    /// it, and has locked it. What others have written, and what did not reach the disk yet, is written first; this
    /// writes nothing of its own.
    ///
    /// A file in memory stays as it is: it is nowhere else.
    ///
    /// # Errors
    ///
    /// What the disk says, which is noted; [`io::ErrorKind::ResourceBusy`] if a part of the file stays in the cache,
    /// because another program has mapped it.
    pub(crate) fn forget_cached(&self) -> io::Result<()> {
        const RAMFS: u64 = 0x8584_58f6;
        let file = self.as_file();
        if [libc::TMPFS_MAGIC as u64, RAMFS].contains(&(fstatfs(file)?.f_type as u64)) {
            return Ok(());
        }
        for attempt in 0..TRIES {
            if attempt > 0 {
                // What is on its way to the disk stays until it is there.
                self.sync()?;
                std::thread::sleep(Duration::from_millis(u64::from(attempt)));
            }
            fadvise(file, 0, None, Advice::DontNeed)?;
            if !is_cached(file)? {
                return Ok(());
            }
        }
        Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "the disk has failed, and another program has mapped the file, so what it shows may not be what the disk has; end that \
             program, and open the pool again",
        ))
    }
}

/// Whether a part of a file is in the system's cache.
fn is_cached(file: &File) -> io::Result<bool> {
    let (len, page) = (file.metadata()?.len(), rustix::param::page_size());
    let mut pages = vec![0u8; (len.min(WINDOW) as usize).div_ceil(page)];
    for at in (0..len).step_by(WINDOW as usize) {
        let window = (len - at).min(WINDOW) as usize;
        // SAFETY: a new mapping where nothing is: the kernel chooses the address.
        let start = unsafe { mmap(null_mut(), window, ProtFlags::READ, MapFlags::SHARED, file, at) }?;
        // SAFETY: the mapping made above; there is a byte for each of its pages.
        let told = match unsafe { libc::mincore(start, window, pages.as_mut_ptr()) } {
            0 => Ok(pages[..window.div_ceil(page)].iter().any(|page| page & 1 == 1)),
            _ => Err(io::Error::last_os_error()),
        };
        // SAFETY: exactly the mapping made above, which nobody uses.
        let _ = unsafe { munmap(start, window) };
        if told? {
            return Ok(true);
        }
    }
    Ok(false)
}
