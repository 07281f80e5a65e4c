//! Page faults of the process.

/// How often the process had to wait for a disk because it accessed a page that was not in memory, and how often a page
/// was there and only had to be mapped; `None` if the system does not tell.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn page_faults() -> Option<[u64; 2]> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` has room for what the system writes.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: it is numbers only, all of which were zero before the system wrote to it.
    let usage = unsafe { usage.assume_init() };
    Some([usage.ru_majflt, usage.ru_minflt].map(|faults| faults as u64))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn page_faults() -> Option<[u64; 2]> {
    None
}

#[cfg(all(test, target_os = "linux", not(any(bristlecone_loom, miri))))]
mod tests {
    use super::*;

    #[test]
    fn pages_that_are_touched_are_counted() {
        let [_, before] = page_faults().unwrap();
        // More than an allocator has left.
        let touched = std::hint::black_box(vec![1u8; 64 << 20]);
        let [_, after] = page_faults().unwrap();
        assert!(after > before, "{before} {after} {}", touched.len());
    }
}
