//! Which pages of a file are in memory, and taking them out of it.

use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes of a page, as they are counted here.
pub(crate) const PAGE: u64 = 4096;

/// How many pages of a file are in memory.
#[cfg(target_os = "linux")]
pub(crate) fn in_memory(path: &Path) -> io::Result<u64> {
    use std::os::fd::AsRawFd;
    let file = File::open(path)?;
    let len = file.metadata()?.len() as usize;
    if len == 0 {
        return Ok(0);
    }
    let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: a new mapping at an address that the system chooses, which nobody reads.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), len, protection, flags, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it asks for a number of the system.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let mut found = vec![0u8; len.div_ceil(page)];
    // SAFETY: exactly the mapping made above, and a byte for each of its pages.
    let told = unsafe { libc::mincore(start, len, found.as_mut_ptr()) };
    let error = io::Error::last_os_error();
    // SAFETY: exactly the mapping made above.
    unsafe { libc::munmap(start, len) };
    if told != 0 {
        return Err(error);
    }
    Ok(found.iter().filter(|&&byte| byte & 1 == 1).count() as u64 * (page as u64 / PAGE))
}

/// Takes a file out of memory, as far as the system can. This process may have it mapped.
#[cfg(target_os = "linux")]
pub(crate) fn take_out(path: &Path) -> io::Result<()> {
    const MADV_PAGEOUT: i32 = 21;
    let (file, name) = (File::open(path)?, path.canonicalize()?);
    file.sync_all()?;
    for line in std::fs::read_to_string("/proc/self/maps")?.lines() {
        let mut words = line.split_ascii_whitespace();
        let (range, path) = (words.next(), words.nth(4));
        let Some((start, end)) = range.and_then(|range| range.split_once('-')).filter(|_| path == name.to_str()) else {
            continue;
        };
        let address = |digits| usize::from_str_radix(digits, 16).map_err(io::Error::other);
        let (start, end) = (address(start)?, address(end)?);
        // SAFETY: whole pages of a file; what was changed is written, and read again when it is accessed.
        unsafe { libc::madvise(std::ptr::without_provenance_mut(start), end - start, MADV_PAGEOUT) };
    }
    Ok(rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn in_memory(_path: &Path) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn take_out(_path: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Opens a file of which reads get what they ask for, and no more.
pub(crate) fn to_read_pages(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    #[cfg(target_os = "linux")]
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::Random)?;
    Ok(file)
}

/// Reads a page.
#[cfg(unix)]
pub(crate) fn read(file: &File, number: u64) -> io::Result<()> {
    let mut page = [0; PAGE as usize];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut page, number * PAGE)?;
    std::hint::black_box(page);
    Ok(())
}

#[cfg(not(unix))]
pub(crate) fn read(_file: &File, _number: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
