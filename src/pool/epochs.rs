//! Epochs: when what readers may still know can be used again.
//!
//! The protocol, step by step, and its invariants E1 to E3 are in `docs/design.md`, section 6. Here is why they are enough, for a
//! reader that pinned `p` and something that was retired in `r`.
//!
//! - `p > r`. The reader saw that `p` is current, so all that came before the store of `p` came before its pin: the advance
//!   beyond `r`, by the lock the retirement, and by E3 the store that made the thing unreachable. The reader does not find
//!   it.
//! - `p <= r`. The reader may find it. In the order of the sequentially consistent accesses, its count comes before its
//!   second look at the epoch, which found `p` (E2), so before the store of `p + 1`, so before the look at the pins of `p`
//!   that has to find none before `p + 2` (E1). That look finds the count, or one that came later: when it finds 0, the
//!   reader has unpinned, and by release and acquire all that it read came before. So the epoch stays below `p + 2 <= r + 2`
//!   as long as the pin is held; and when something is ripe, the loads of its readers *happen before* the stores of whoever
//!   uses it again, which therefore need no fence of their own.
//!
//! One epoch less is not enough: a reader of `r` does not keep the epoch from becoming `r + 1`.
//!
//! A pin may end on another thread than the one where it began. A reader that never unpins (a forgotten iterator) keeps
//! everything retired from getting ripe, until the tree is closed.

use crate::delay::delay;
use crate::shards::{SHARDS, Shard, shard};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, sequentially_consistent};
use std::collections::VecDeque;
use std::sync::Arc;

thread_local! {
    /// What each reader that stays holds, if it began on this thread, wherever it ends; and the thread itself.
    static HERE: Arc<()> = Arc::new(());
}

/// Says, as long as it is held, that a reader has begun on this thread that outlasts a call.
#[derive(Debug)]
pub(crate) struct Staying {
    _here: Option<Arc<()>>,
}

impl Staying {
    pub(crate) fn here() -> Self {
        // A thread that ends has nothing left to write.
        Self { _here: HERE.try_with(Arc::clone).ok() }
    }
}

/// Whether a reader has begun on this thread that outlasts a call, and has not ended: it may have gone to another thread.
pub(crate) fn reads_here() -> bool {
    HERE.try_with(|here| Arc::strong_count(here) > 1).unwrap_or(false)
}

/// So many epochs after its retirement, something is ripe.
const GRACE: u64 = 2;

/// So many retired bytes are looked after at once. What weighs as much is [awaited](Pin::leave).
pub(crate) const HEAVY: u64 = 64 << 10;

/// Everything retired weighs at least this much.
const LIGHT: u64 = HEAVY / 64;

/// The epochs of one tree, and what was retired in them.
pub(crate) struct Epochs<T> {
    clock: Shard<Clock>,
    /// Pins of even and of odd epochs.
    readers: Box<[Shard<[AtomicU64; 2]>; SHARDS]>,
    retired: Mutex<Retired<T>>,
}

/// What every pin reads, and few write.
#[derive(Default)]
struct Clock {
    now: AtomicU64,
    /// Whether something heavy is retired and not ripe.
    awaited: AtomicBool,
}

struct Retired<T> {
    /// With their epochs, which ascend.
    items: VecDeque<(u64, T)>,
    /// How much was retired since somebody looked whether anything is ripe.
    weight: u64,
    /// When everything heavy is ripe.
    awaited: u64,
}

/// A reader's hold on an epoch: nothing that it may know is used again while it lasts.
pub(crate) struct Pin<'e> {
    clock: &'e Clock,
    /// Where it is counted.
    count: &'e AtomicU64,
    /// The oldest epoch that it may have kept from ending.
    since: u64,
}

impl<T> Epochs<T> {
    pub(crate) fn new() -> Self {
        let retired = Retired { items: VecDeque::new(), weight: 0, awaited: 0 };
        Self { clock: Shard::default(), readers: Box::default(), retired: Mutex::new(retired) }
    }

    /// Holds on to the current epoch.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.pin_in(shard())
    }

    /// The same, counted in this shard.
    #[inline]
    pub(super) fn pin_in(&self, shard: usize) -> Pin<'_> {
        let clock = &self.clock.0;
        let mut epoch = clock.now.load(Ordering::Relaxed);
        let since = epoch;
        loop {
            delay();
            let count = &self.readers[shard].0[epoch as usize % 2];
            count.fetch_add(1, Ordering::SeqCst);
            sequentially_consistent();
            delay();
            let now = clock.now.load(Ordering::SeqCst);
            if now == epoch {
                return Pin { clock, count, since };
            }
            // Whoever looked at the counts meanwhile may have found this one: `since` remembers it.
            count.fetch_sub(1, Ordering::SeqCst);
            epoch = now;
        }
    }

    /// Takes what nothing leads to any more, with how many bytes it weighs; returns what is ripe, now and then.
    pub(crate) fn retire(&self, items: impl IntoIterator<Item = (T, u64)>) -> Vec<T> {
        let mut retired = self.retired.lock();
        let now = self.clock.0.now.load(Ordering::Relaxed);
        for (item, weight) in items {
            retired.items.push_back((now, item));
            retired.weight = retired.weight.saturating_add(weight.max(LIGHT));
            if weight >= HEAVY {
                retired.awaited = now + GRACE;
            }
        }
        if retired.weight < HEAVY { Vec::new() } else { self.ripen(&mut retired, GRACE) }
    }

    /// What is ripe.
    pub(crate) fn collect(&self) -> Vec<T> {
        self.collect_after(GRACE)
    }

    /// What would be ripe if things had to wait for so many epochs.
    pub(super) fn collect_after(&self, grace: u64) -> Vec<T> {
        self.ripen(&mut self.retired.lock(), grace)
    }

    fn ripen(&self, retired: &mut Retired<T>, grace: u64) -> Vec<T> {
        let clock = &self.clock.0;
        retired.weight = 0;
        // Before the counts are looked at: a reader who is not seen to have left sees that it is awaited (see `leave`).
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
        retired.items.drain(..ripe).map(|(_, item)| item).collect()
    }

    /// Ends the epoch `now` if nobody holds the one before it. Under the lock.
    fn advance(&self, now: u64) -> bool {
        sequentially_consistent();
        // The epoch before has the parity of the one after.
        let of_last = |shard: &Shard<[AtomicU64; 2]>| shard.0[(now + 1) as usize % 2].load(Ordering::SeqCst);
        let ends = self.readers.iter().all(|shard| of_last(shard) == 0);
        delay();
        if ends {
            self.clock.0.now.store(now + 1, Ordering::SeqCst);
        }
        ends
    }

    /// Whether anything is retired and was not given out.
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.lock().items.is_empty()
    }

    /// Whether a reader keeps something heavy.
    pub(crate) fn is_awaited(&self) -> bool {
        self.clock.0.awaited.load(Ordering::SeqCst)
    }

    /// Everything retired: there is no reader, because a pin borrows the epochs.
    pub(crate) fn take_retired(&mut self) -> Vec<T> {
        self.retired.lock().items.drain(..).map(|(_, item)| item).collect()
    }
}

impl<T: Clone> Epochs<T> {
    /// What is retired now.
    pub(crate) fn retired(&self) -> Vec<T> {
        self.retired.lock().items.iter().map(|(_, item)| item.clone()).collect()
    }
}

impl Pin<'_> {
    /// Lets go; true if something heavy waits and this pin may have been in its way: then the caller is to
    /// [collect](Epochs::collect), because perhaps nobody else comes by.
    ///
    /// Either whoever looked at the counts saw that this pin is gone, or this looks after it said that it waits.
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
