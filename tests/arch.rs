//! The instructions of this CPU, through the public interface; and whether the expected ones were chosen.

use bristlecone::arch::{
    Flush, LINE, cas_pair, compiler_barrier, fence, line_count, line_size, load_pair, order, pair_method, prefetch,
    store_pair,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use stress::{Pair, is_torn, whole};

#[path = "../src/arch/stress.rs"]
mod stress;

/// The memory that is flushed: longer than a page.
fn bytes() -> Vec<u8> {
    (0..3 * 4096u32).map(|n| n as u8).collect()
}

#[test]
fn every_available_flush_runs_on_odd_ranges_and_changes_nothing() {
    let memory = bytes();
    for flush in Flush::ALL.into_iter().filter(|flush| flush.available()) {
        for start in [0, 1, 7, 63, 64, 65, 4095, 4096] {
            for len in [0, 1, 8, 63, 64, 65, 255, 4096, 8192] {
                let range = &memory[start..][..len];
                // SAFETY: the instruction is available, and the range is a slice.
                unsafe { flush.lines(range.as_ptr(), range.len()) };
                fence();
            }
        }
        assert_eq!(memory, bytes(), "{flush}");
    }
}

#[test]
fn names_are_unique_and_lead_back() {
    for flush in Flush::ALL {
        assert_eq!(Flush::from_name(flush.name()), Some(flush));
        assert_eq!(flush.to_string(), flush.name());
    }
    assert_eq!(Flush::from_name("CLWB"), None);
    assert_eq!(Flush::from_name(""), None);
}

#[test]
fn detects_the_first_available() {
    assert!(Flush::detect().available());
    assert!(Flush::None.available());
    let first = Flush::ALL.into_iter().find(|flush| flush.available());
    assert_eq!(Some(Flush::detect()), first);
}

#[test]
fn an_available_name_wins_and_any_other_is_ignored() {
    assert_eq!(Flush::chosen_from(None), Flush::detect());
    assert_eq!(Flush::chosen_from(Some("no such instruction")), Flush::detect());
    for flush in Flush::ALL {
        let expected = if flush.available() { flush } else { Flush::detect() };
        assert_eq!(Flush::chosen_from(Some(flush.name())), expected);
    }
    assert_eq!(Flush::chosen_from(Some("none")), Flush::None);
}

#[test]
fn only_the_old_x86_instructions_evict() {
    let evicting: Vec<_> = Flush::ALL.into_iter().filter(|flush| flush.evicts()).collect();
    assert_eq!(evicting, [Flush::ClflushOpt, Flush::Clflush]);
}

#[test]
fn lines_are_counted_as_the_layouts_assume() {
    assert_eq!(line_count(0, 4 * LINE, LINE), 4);
    assert_eq!(line_count(LINE - 8, 16, LINE), 2);
    assert!(line_size().is_power_of_two());
}

#[test]
fn barriers_and_hints_run() {
    let word = 0u64;
    order();
    compiler_barrier();
    // SAFETY: it points to a local variable.
    unsafe { prefetch((&raw const word).cast()) };
    fence();
}

#[test]
fn pairs_are_loaded_as_stored() {
    let pair = Pair::new([1, 2]);
    // SAFETY: aligned, and used by this thread alone.
    assert_eq!(unsafe { load_pair(pair.at()) }, [1, 2]);
    for wanted in [[0, 0], [u64::MAX, 0], [0, u64::MAX], [3, 4]] {
        // SAFETY: as above.
        unsafe { store_pair(pair.at(), wanted) };
        // SAFETY: as above.
        assert_eq!(unsafe { load_pair(pair.at()) }, wanted);
    }
}

#[test]
fn a_swap_replaces_only_the_expected_pair() {
    let pair = Pair::new([1, 2]);
    // Each differs from the current pair in one half, or in both.
    for wrong in [[1, 3], [0, 2], [2, 1], [0, 0]] {
        // SAFETY: aligned, and used by this thread alone.
        assert_eq!(unsafe { cas_pair(pair.at(), wrong, [9, 9]) }, Err([1, 2]));
        // SAFETY: as above.
        assert_eq!(unsafe { load_pair(pair.at()) }, [1, 2]);
    }
    // SAFETY: as above.
    assert_eq!(unsafe { cas_pair(pair.at(), [1, 2], [3, 4]) }, Ok([1, 2]));
    // SAFETY: as above.
    assert_eq!(unsafe { load_pair(pair.at()) }, [3, 4]);
}

#[test]
fn concurrent_stores_do_not_tear() {
    stress::does_not_tear(
        // SAFETY: `stress` gives its own aligned pair.
        |at| unsafe { load_pair(at) },
        // SAFETY: as above.
        |at, pair| unsafe { store_pair(at, pair) },
    );
}

#[test]
fn concurrent_swaps_do_not_tear_a_load() {
    stress::does_not_tear(
        // SAFETY: `stress` gives its own aligned pair.
        |at| unsafe { load_pair(at) },
        |at, pair| {
            // SAFETY: as above.
            let mut current = unsafe { load_pair(at) };
            // SAFETY: as above.
            while let Err(found) = unsafe { cas_pair(at, current, pair) } {
                current = found;
            }
        },
    );
}

#[test]
fn concurrent_swaps_lose_nothing() {
    // SAFETY: `stress` gives its own aligned pair.
    stress::swaps_lose_nothing(|at, current, new| match unsafe { cas_pair(at, current, new) } {
        Ok(found) | Err(found) => found,
    });
}

/// The negative control: a pair written by two 8-byte stores is found torn, by the same load and the same test.
#[test]
fn a_pair_of_stores_is_seen_torn() {
    let pair = Pair::new(whole(1));
    let (half_done, seen) = (AtomicBool::new(false), AtomicBool::new(false));
    // SAFETY: aligned, and accessed only by atomics and pair operations.
    let low = unsafe { AtomicU64::from_ptr(pair.at().cast()) };
    // SAFETY: as above, for the second of the two words.
    let high = unsafe { AtomicU64::from_ptr(pair.at().cast::<u64>().wrapping_add(1)) };
    thread::scope(|scope| {
        scope.spawn(|| {
            let [new_low, new_high] = whole(2);
            low.store(new_low, Ordering::Relaxed);
            half_done.store(true, Ordering::Release);
            while !seen.load(Ordering::Acquire) {
                thread::yield_now();
            }
            high.store(new_high, Ordering::Relaxed);
        });
        while !half_done.load(Ordering::Acquire) {
            thread::yield_now();
        }
        // SAFETY: as above.
        let torn = unsafe { load_pair(pair.at()) };
        seen.store(true, Ordering::Release);
        assert!(is_torn(torn), "not seen: {torn:?}");
    });
    // SAFETY: as above.
    assert_eq!(unsafe { load_pair(pair.at()) }, whole(2));
}

/// Compares with what a script that runs the tests on a given CPU expects: `BRISTLECONE_EXPECT_FLUSH`,
/// `BRISTLECONE_EXPECT_PAIR`.
#[test]
fn the_expected_instructions_were_chosen() {
    println!("flush {}, pairs by {}, lines of {} bytes", Flush::chosen(), pair_method(), line_size());
    if let Ok(expected) = std::env::var("BRISTLECONE_EXPECT_FLUSH") {
        assert_eq!(Flush::chosen().name(), expected);
    }
    if let Ok(expected) = std::env::var("BRISTLECONE_EXPECT_PAIR") {
        assert_eq!(pair_method(), expected);
    }
}

/// Runs this program again with another way to move pairs: an available way is used, an unknown or unavailable one is
/// ignored.
#[test]
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn a_way_to_move_pairs_is_forced_by_its_name() {
    let weaker = if pair_method() == "avx" { "cx16" } else { pair_method() };
    for (forced, expected) in [("cx16", weaker), ("lse2", pair_method()), ("locks", "locks")] {
        let tests =
            ["the_expected_instructions_were_chosen", "pairs_are_loaded_as_stored", "concurrent_stores_do_not_tear"];
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(tests)
            .env("BRISTLECONE_PAIR", forced)
            .env("BRISTLECONE_EXPECT_PAIR", expected)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && told.contains("3 passed"), "{forced}: {told}");
    }
}
