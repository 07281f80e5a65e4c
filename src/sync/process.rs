//! Which process this is, at the cost of a load.
//!
//! A child that came by `fork` has its parent's memory, mappings and locks, and must not use them as its own. Asking
//! the system for the process id takes longer than a write to a leaf. So the process has a page with a number that no
//! other process of its family has; the kernel empties that page in a child (`MADV_WIPEONFORK`). Where the kernel does
//! not (other systems, Linux before 4.14), the system is asked each time.

use core::sync::atomic::{AtomicU64, Ordering};

/// The process that made this value.
#[derive(Clone, Copy)]
pub(crate) struct Process {
    /// Holds the number of the running process, if that has one.
    word: &'static AtomicU64,
    number: u64,
    /// The process id, where there is no such page.
    id: Option<u32>,
}

impl Process {
    /// No process.
    pub(crate) fn none() -> Self {
        static NOBODYS: AtomicU64 = AtomicU64::new(0);
        Self { word: &NOBODYS, number: u64::MAX, id: None }
    }

    /// The running process.
    pub(crate) fn this() -> Self {
        static NO_PAGE: AtomicU64 = AtomicU64::new(0);
        match word() {
            Some(word) => Self { word, number: number(word), id: None },
            None => Self { word: &NO_PAGE, number: u64::MAX, id: Some(std::process::id()) },
        }
    }

    /// Whether this is the running process.
    #[inline]
    pub(crate) fn is_this(&self) -> bool {
        self.word.load(Ordering::Relaxed) == self.number || self.is_this_by_id()
    }

    #[cold]
    fn is_this_by_id(&self) -> bool {
        self.id == Some(std::process::id())
    }
}

/// The number in the page; a new number, if this process has none yet.
fn number(word: &AtomicU64) -> u64 {
    /// How many numbers were given out. A child continues from its parent's count at the fork.
    static GIVEN: AtomicU64 = AtomicU64::new(0);
    match word.load(Ordering::Relaxed) {
        0 => {
            let new = GIVEN.fetch_add(1, Ordering::Relaxed) + 1;
            word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed).map_or_else(|other| other, |_| new)
        }
        number => number,
    }
}

/// The word in a page that is zero in a child.
#[cfg(all(target_os = "linux", not(miri)))]
fn word() -> Option<&'static AtomicU64> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
    static WORD: std::sync::OnceLock<Option<&AtomicU64>> = std::sync::OnceLock::new();
    *WORD.get_or_init(|| {
        const PAGE: usize = 4096;
        // SAFETY: a new mapping at an address the kernel chooses; nothing existing is replaced.
        let page = unsafe {
            mmap_anonymous(std::ptr::null_mut(), PAGE, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let page = page.ok()?;
        // SAFETY: the page just mapped, which holds nothing yet.
        if unsafe { madvise(page, PAGE, Advice::LinuxWipeOnFork) }.is_err() {
            // SAFETY: the same page, to which nothing points.
            let _ = unsafe { munmap(page, PAGE) };
            return None;
        }
        // SAFETY: aligned, readable and writable, zeros; it is never unmapped, and accessed only through this
        // reference.
        Some(unsafe { &*page.cast::<AtomicU64>() })
    })
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn word() -> Option<&'static AtomicU64> {
    None
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_itself() {
        let (one, other) = (Process::this(), Process::this());
        assert!(one.is_this() && other.is_this());
        assert_eq!(one.number, other.number);
        assert!(!Process::none().is_this());
    }

    /// Does by hand what the kernel does to the page in a child.
    #[test]
    fn a_wiped_page_is_another_process() {
        static PAGE: AtomicU64 = AtomicU64::new(0);
        let page = &PAGE;
        let of = |word| Process { word, number: number(word), id: None };
        let parent = of(page);
        assert!(parent.is_this());
        page.store(0, Ordering::Relaxed);
        assert!(!parent.is_this());
        let child = of(page);
        assert!(child.is_this() && !parent.is_this());
    }
}
