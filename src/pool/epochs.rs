//! Epochs: when the space of something that readers may still know can be used again.
//!
//! The protocol, step by step, and its invariants E1 to E3 are in `docs/design.md`, section 6. Here is why they are
//! enough, for a reader that pinned `p` and an item that was retired in `r`.
//!
//! - `p > r`. The reader saw that `p` was current, so everything before the store of `p` came before its pin: the
//!   advance beyond `r`; therefore, by the lock, the retirement; and therefore, by E3, the store that made the item
//!   unreachable. The reader does not find it.
//! - `p <= r`. The reader may find the item. In the total order of the sequentially consistent accesses, its count
//!   comes before its second look at the epoch, which found `p` (E2). That look comes before the store of `p + 1`, and
//!   so before the look at the pins of `p` that must find none before `p + 2` (E1). That look sees the count or a later
//!   value. When it sees 0, the reader has unpinned, and by release and acquire everything that the reader read came
//!   before. So the epoch stays below `p + 2 <= r + 2` as long as the pin is held. When the item is ripe, the loads of
//!   its readers *happen before* the stores of the thread that uses its space again. Those stores therefore need no
//!   fence of their own.
//!
//! One epoch less is not enough: a reader of `r` does not keep the epoch from becoming `r + 1`.
//!
//! A pin may end on another thread than the one where it began. A reader that never unpins (a forgotten iterator) keeps
//! everything retired from ripening until the tree is closed.
//!
//! The guards of `crossbeam-epoch` would not do. A guard belongs to a thread, all collections of a process have one
//! clock by default, and what is deferred runs when some thread pins; here a pin moves between threads with an
//! iterator, each tree has a clock of its own that readers of others do not hold up, and a change that finds no space
//! must know at once which items are ripe, and whether readers keep more. What ripens here are offsets in a pool,
//! which must be given back before it is closed: not boxes that whichever thread comes by may free at any later time.

use crate::sync::delay::delay;
use crate::sync::shards::{Sharded, shard};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, sequentially_consistent};
use crossbeam_utils::CachePadded;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::Arc;

thread_local! {
    /// Shared by the thread itself and by each staying reader that began on it, on whatever thread that reader ends.
    static HERE: Arc<()> = Arc::new(());
}

/// As long as it is held, a reader that outlasts a call exists which began on this thread.
#[derive(Debug)]
pub(crate) struct Staying {
    _here: Option<Arc<()>>,
}

impl Staying {
    pub(crate) fn here() -> Self {
        // A thread that is ending has nothing left to write.
        Self { _here: HERE.try_with(Arc::clone).ok() }
    }
}

/// Whether a reader that outlasts a call has begun on this thread and has not ended. It may have moved to another
/// thread.
pub(crate) fn reads_here() -> bool {
    HERE.try_with(|here| Arc::strong_count(here) > 1).unwrap_or(false)
}

/// The number of epochs after its retirement at which an item is ripe.
const GRACE: u64 = 2;

/// When this many bytes are retired, ripe items are collected at once. An item of this weight is [awaited](Pin::leave).
pub(crate) const HEAVY: u64 = 64 << 10;

/// Each retired item counts for at least this many bytes.
const LIGHT: u64 = HEAVY / 64;

/// The epochs of one tree, and the items that were retired in them.
pub(crate) struct Epochs<T> {
    clock: CachePadded<Clock>,
    /// Pins of even and of odd epochs.
    readers: Sharded<[AtomicU64; 2]>,
    retired: Mutex<RetiredItems<T>>,
}

/// Every pin reads it, and few threads write to it.
#[derive(Default)]
struct Clock {
    now: AtomicU64,
    /// Whether something heavy is retired and not yet ripe.
    awaited: AtomicBool,
}

struct RetiredItems<T> {
    /// The items with their epochs, which ascend.
    items: VecDeque<(u64, T)>,
    /// How many bytes were retired since somebody last looked for ripe items.
    weight: u64,
    /// The epoch in which everything heavy will be ripe.
    awaited: u64,
    /// How many threads have ripe items that they have not given back yet.
    giving: u32,
}

/// Ripe items. Until they are dropped, they count as not yet given back.
pub(crate) struct Ripe<'e, T> {
    epochs: &'e Epochs<T>,
    items: Vec<T>,
}

impl<T> Deref for Ripe<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> Drop for Ripe<'_, T> {
    fn drop(&mut self) {
        if !self.items.is_empty() {
            self.epochs.retired.lock().giving -= 1;
        }
    }
}

/// A reader's hold on an epoch. While it lasts, nothing that the reader may know is used again.
pub(crate) struct Pin<'e> {
    clock: &'e Clock,
    /// The counter that counts it.
    count: &'e AtomicU64,
    /// The oldest epoch that it may have kept from ending.
    since: u64,
}

impl<T> Epochs<T> {
    pub(crate) fn new() -> Self {
        let retired = RetiredItems { items: VecDeque::new(), weight: 0, awaited: 0, giving: 0 };
        Self { clock: CachePadded::default(), readers: Sharded::default(), retired: Mutex::new(retired) }
    }

    /// Pins the current epoch.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.pin_in(shard())
    }

    /// Pins the current epoch. The pin is counted in this shard.
    #[inline]
    pub(super) fn pin_in(&self, shard: usize) -> Pin<'_> {
        let clock = &*self.clock;
        let mut epoch = clock.now.load(Ordering::Relaxed);
        let since = epoch;
        loop {
            delay();
            let count = &self.readers.get(shard)[epoch as usize % 2];
            count.fetch_add(1, Ordering::SeqCst);
            sequentially_consistent();
            delay();
            let now = clock.now.load(Ordering::SeqCst);
            if now == epoch {
                return Pin { clock, count, since };
            }
            // A thread that looked at the counts meanwhile may have found this one. `since` remembers that.
            count.fetch_sub(1, Ordering::SeqCst);
            epoch = now;
        }
    }

    /// Retires items that nothing leads to any longer; each comes with its weight in bytes. Sometimes returns items
    /// that are ripe.
    pub(crate) fn retire(&self, items: impl IntoIterator<Item = (T, u64)>) -> Ripe<'_, T> {
        let mut retired = self.retired.lock();
        let now = self.clock.now.load(Ordering::Relaxed);
        for (item, weight) in items {
            retired.items.push_back((now, item));
            retired.weight = retired.weight.saturating_add(weight.max(LIGHT));
            if weight >= HEAVY {
                retired.awaited = now + GRACE;
            }
        }
        if retired.weight < HEAVY { Ripe { epochs: self, items: Vec::new() } } else { self.ripen(&mut retired, GRACE) }
    }

    /// The items that are ripe.
    pub(crate) fn collect(&self) -> Ripe<'_, T> {
        self.collect_after(GRACE)
    }

    /// The items that would be ripe if they had to wait for `grace` epochs.
    pub(super) fn collect_after(&self, grace: u64) -> Ripe<'_, T> {
        self.ripen(&mut self.retired.lock(), grace)
    }

    fn ripen(&self, retired: &mut RetiredItems<T>, grace: u64) -> Ripe<'_, T> {
        let clock = &*self.clock;
        retired.weight = 0;
        // This comes before the look at the counts: a reader that is not seen to have left then sees that it is awaited
        // (see `leave`).
        clock.awaited.store(retired.awaited > clock.now.load(Ordering::Relaxed), Ordering::SeqCst);
        let last = retired.items.back().map_or(0, |&(epoch, _)| epoch + grace);
        let mut now = clock.now.load(Ordering::Relaxed);
        while now < last && self.advance(now) {
            now += 1;
        }
        if retired.awaited <= now {
            clock.awaited.store(false, Ordering::SeqCst);
        }
        let ripe = retired.items.partition_point(|&(epoch, _)| epoch + grace <= now);
        let items: Vec<T> = retired.items.drain(..ripe).map(|(_, item)| item).collect();
        retired.giving += u32::from(!items.is_empty());
        Ripe { epochs: self, items }
    }

    /// Ends the epoch `now` if no pin holds the one before it. The caller holds the lock.
    fn advance(&self, now: u64) -> bool {
        sequentially_consistent();
        // The previous epoch and the next one have the same parity.
        let of_last = |pins: &[AtomicU64; 2]| pins[(now + 1) as usize % 2].load(Ordering::SeqCst);
        // A shard that has no counts yet has no pins: they are made before the first one is counted.
        let ends = self.readers.iter().all(|pins| of_last(pins) == 0);
        delay();
        if ends {
            self.clock.now.store(now + 1, Ordering::SeqCst);
        }
        ends
    }

    /// Bytes of memory that this takes, beside itself.
    pub(crate) fn memory(&self) -> u64 {
        let retired = self.retired.lock().items.capacity() * size_of::<(u64, T)>();
        self.readers.memory() + retired as u64
    }

    /// Whether anything is retired and was not yet given back.
    pub(crate) fn has_retired(&self) -> bool {
        let retired = self.retired.lock();
        !retired.items.is_empty() || retired.giving > 0
    }

    /// All retired items. There are no readers, because a pin borrows the epochs.
    pub(crate) fn take_retired(&mut self) -> Vec<T> {
        self.retired.lock().items.drain(..).map(|(_, item)| item).collect()
    }
}

impl<T: Clone> Epochs<T> {
    /// The items that are currently retired.
    pub(crate) fn retired(&self) -> Vec<T> {
        self.retired.lock().items.iter().map(|(_, item)| item.clone()).collect()
    }
}

impl Pin<'_> {
    /// Ends the pin. Returns true if something heavy waits and this pin may have been in its way. The caller must then
    /// [collect](Epochs::collect), because perhaps no other thread will.
    ///
    /// Either the thread that looked at the counts saw that this pin is gone, or this pin looks at `awaited` after that
    /// thread has set it.
    #[inline]
    #[must_use]
    pub(crate) fn leave(self) -> bool {
        let (clock, since) = (self.clock, self.since);
        drop(self);
        sequentially_consistent();
        clock.awaited.load(Ordering::SeqCst) && clock.now.load(Ordering::SeqCst) != since
    }
}

impl Drop for Pin<'_> {
    #[inline]
    fn drop(&mut self) {
        delay();
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}
