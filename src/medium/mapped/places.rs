//! Where mappings that grow begin: far from each other, and far from where the system puts what it places itself. So
//! nearly always, a mapping can grow where it is, and has to set little aside for that.
//!
//! The places divide a range of addresses into equal parts. They are taken in the order in which each lies in the
//! middle between two that were taken before: of a thousand mappings, each has a thousandth of the range behind it, 48
//! GiB of 128 TiB.
//!
//! A place is only a suggestion. What lies there already stays, and another place is taken.

use crate::memory::addresses;
use std::sync::atomic::{AtomicU64, Ordering};

/// The bits of a number of a place.
const BITS: u32 = 15;
/// Places, by bits.
static TAKEN: [AtomicU64; 1 << (BITS - 6)] = [const { AtomicU64::new(0) }; 1 << (BITS - 6)];

/// A place, which is no other mapping's as long as this lives.
#[derive(Debug)]
pub(super) struct AddressPlace(u32);

impl AddressPlace {
    /// The next place that nobody has. `None` if there is none, or if the processor tells too few addresses apart.
    pub(super) fn next_free() -> Option<Self> {
        // The checkers that watch all memory have addresses of their own.
        if cfg!(bristlecone_watched) || addresses::all() < 1 << 39 {
            return None;
        }
        for (number, word) in (0..).step_by(64).zip(&TAKEN) {
            let mut taken = word.load(Ordering::Relaxed);
            while taken != u64::MAX {
                let bit = taken.trailing_ones();
                match word.fetch_or(1 << bit, Ordering::Relaxed) {
                    before if before & 1 << bit == 0 => return Some(Self(number + bit)),
                    before => taken = before,
                }
            }
        }
        None
    }

    /// The address: a multiple of a huge page.
    pub(super) fn address(&self) -> usize {
        // From a quarter to five eighths of all addresses. Programs and their heaps lie before or behind, at the
        // beginning or from two thirds on; and so do allocators that choose their addresses.
        let all = addresses::all() as usize;
        // As the system does, each process begins at random.
        let shuffle = (addresses::sample() >> 12) as u32;
        let part = (self.0 ^ shuffle).reverse_bits() >> (u32::BITS - BITS);
        all / 4 + part as usize * ((all / 8 * 3) >> BITS)
    }
}

impl Drop for AddressPlace {
    fn drop(&mut self) {
        TAKEN[self.0 as usize / 64].fetch_and(!(1 << (self.0 % 64)), Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(bristlecone_loom, miri))))]
mod tests {
    use super::*;
    use crate::medium::mapped::mode::HUGE_PAGE;

    #[test]
    fn places_are_far_from_each_other() {
        let places: Vec<AddressPlace> = std::iter::from_fn(AddressPlace::next_free).take(256).collect();
        if places.is_empty() {
            return;
        }
        let all = addresses::all() as usize;
        let mut starts: Vec<usize> = places.iter().map(AddressPlace::address).collect();
        starts.sort_unstable();
        assert!(starts.iter().all(|&start| (start as u64).is_multiple_of(HUGE_PAGE)));
        assert!(starts[0] >= all / 4 && starts[255] < all / 8 * 5);
        // Other tests have places, too.
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= (all / 8 * 3) >> 10), "{starts:x?}");
        drop(places);
        assert!(AddressPlace::next_free().unwrap().0 < 512);
    }
}
