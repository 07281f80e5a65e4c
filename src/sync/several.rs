//! Work that several threads share.

use std::num::NonZero;
use std::thread::{self, Builder};

/// Runs `work` on this many threads, including this one; on fewer if the system provides no more.
pub(crate) fn on_threads(threads: usize, work: &(dyn Fn() + Sync)) {
    on_threads_of(&Builder::new, threads, work);
}

fn on_threads_of(builder: &dyn Fn() -> Builder, threads: usize, work: &(dyn Fn() + Sync)) {
    thread::scope(|scope| {
        let spawned = (1..threads).map_while(|_| builder().spawn_scoped(scope, work).ok());
        spawned.for_each(drop);
        work();
    });
}

/// How many threads this process can run side by side.
pub(crate) fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    #[cfg_attr(miri, ignore)]
    fn where_no_thread_is_to_be_had_one_does_all() {
        let worked = |builder: &dyn Fn() -> Builder| {
            let times = AtomicUsize::new(0);
            on_threads_of(builder, 3, &|| {
                times.fetch_add(1, Ordering::Relaxed);
            });
            times.into_inner()
        };
        assert_eq!(worked(&Builder::new), 3);
        // This is more stack than there is address space.
        assert_eq!(worked(&|| Builder::new().stack_size(1 << 50)), 1);
    }
}
