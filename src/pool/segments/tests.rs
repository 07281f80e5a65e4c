//! The table is read back, and changes as it must.

use super::entry::CHECK_AT;
use super::giving::IDLE;
use super::*;
use crate::medium::any::zeroed;
use crate::medium::{Counted, Dram};
use crate::pool::{Pool, PoolState};

const SIZE: u64 = 4096;
/// The first segment behind the header.
const FIRST: u32 = (HEADER / SIZE) as u32;
const LEAF: SegmentEntry = SegmentEntry { kind: SegmentKind::Leaf, tree: 3, unit: 128 };

/// An empty table, with the space for so many segments.
fn table(count: u64) -> (Dram, Segments) {
    let geometry = PoolGeometry { segment: SIZE, capacity: HEADER + count * SIZE };
    let m = Dram::zeroed(geometry.capacity);
    let segments = Segments::open(&m, geometry).unwrap();
    (m, segments)
}

fn whole<M: Medium>(m: &M, segments: &Segments, class: SegmentEntry) -> u32 {
    segments.grow(m, class, None, (SIZE, SIZE)).unwrap().segment
}

#[test]
fn a_table_is_read_back_as_it_was_left() {
    let (m, segments) = table(8);
    assert_eq!(
        segments.grow(&m, LEAF, None, (128, 128)).unwrap(),
        Grown { segment: FIRST, from: 0, to: SIZE / 2, fresh: true }
    );
    assert_eq!(segments.assign_extent(&m, 3, 2 * SIZE + 8).unwrap(), FIRST + 1);
    assert_eq!(whole(&m, &segments, LEAF), FIRST + 4);
    assert_eq!(segments.in_use(), HEADER + SIZE / 2 + 2 * SIZE + SIZE / 2 + SIZE);
    segments.release(&m, FIRST + 1..FIRST + 4, |entry| entry.tree == 3);
    let again = Segments::open(&m, segments.geometry).unwrap();
    assert_eq!(again.in_use(), segments.in_use());
    assert_eq!(again.owned(3, SegmentKind::Leaf, 128), [FIRST, FIRST + 4]);
    assert_eq!(again.assign_extent(&m, 1, 2 * SIZE).unwrap(), FIRST + 1);
    assert_eq!(whole(&m, &again, LEAF), FIRST + 3);
    let at = again.start(FIRST);
    assert!(again.is_block(at + SIZE / 2 - 128, LEAF));
    assert!(!again.is_block(at + SIZE / 2, LEAF), "behind the part that is in use");
    assert!(!again.is_block(at + 64, LEAF));
    assert!(!again.is_block(again.start(FIRST + 1), LEAF));
    assert!(!again.is_block(12, LEAF));
    assert!(!again.is_block(u64::MAX, LEAF));
    assert!(again.grow(&m, LEAF, Some(FIRST), (SIZE / 2 + 128, SIZE / 2 + 128)).is_ok_and(|grown| grown.to == SIZE));
    assert!(again.is_block(at + SIZE / 2, LEAF));
}

#[test]
fn what_is_idle_is_used_again_without_a_store_or_goes_to_others() {
    let (m, segments) = table(3);
    let other = SegmentEntry { tree: 4, ..LEAF };
    let own: Vec<u32> = (0..3).map(|_| whole(&m, &segments, LEAF)).collect();
    own[..2].iter().for_each(|&segment| segments.retire(&m, segment));
    let before = m.words();
    assert_eq!(segments.available(), 2 * SIZE);
    assert_eq!(segments.owned(3, SegmentKind::Leaf, 128), own[2..]);
    assert_eq!(whole(&m, &segments, LEAF), own[1]);
    assert_eq!(m.words(), before);
    assert_eq!(whole(&m, &segments, other), own[0]);
    assert_eq!(segments.entry(own[0]), Some(other));
    let full = segments.grow(&m, LEAF, None, (128, 128));
    assert!(full.is_err_and(|fault| fault.is_out_of_space()));
}

#[test]
fn what_is_idle_becomes_an_extent_where_addresses_are_used_up() {
    let geometry = PoolGeometry { segment: SIZE, capacity: 1 << 40 };
    let m = Dram::zeroed(u64::from(FIRST + 4) * SIZE);
    let segments = Segments::open(&m, geometry).unwrap();
    let own: Vec<u32> = (0..4).map(|_| whole(&m, &segments, LEAF)).collect();
    assert!(segments.assign_extent(&m, 4, 8).is_err_and(|fault| fault.is_out_of_space()));
    own[1..3].iter().for_each(|&segment| segments.retire(&m, segment));
    assert_eq!(segments.assign_extent(&m, 4, 2 * SIZE).unwrap(), own[1]);
    assert!(segments.assign_extent(&m, 4, 8).is_err_and(|fault| fault.is_out_of_space()));
}

#[test]
fn only_a_few_segments_are_idle() {
    let (m, segments) = table(20);
    let own: Vec<u32> = (0..20).map(|_| whole(&m, &segments, LEAF)).collect();
    own.iter().for_each(|&segment| segments.retire(&m, segment));
    let is_free = |&&segment: &&u32| segments.entry(segment).unwrap().kind == SegmentKind::Free;
    assert_eq!(own.iter().filter(is_free).count(), own.len() - IDLE);
    segments.release_idle(&m, 4);
    assert_eq!(own.iter().filter(is_free).count(), own.len() - IDLE);
    segments.release_idle(&m, 3);
    assert_eq!(own.iter().filter(is_free).count(), own.len());
    assert_eq!(segments.in_use(), HEADER);
}

#[test]
fn an_extent_that_is_given_back_twice_is_idle_once() {
    let (m, segments) = table(8);
    let head = segments.assign_extent(&m, 1, SIZE).unwrap();
    (0..3).for_each(|_| segments.retire_extent(&m, head, 1));
    segments.retire_extent(&m, head, 2);
    assert_eq!(segments.in_use(), HEADER);
    assert_eq!(segments.assign_extent(&m, 1, SIZE).unwrap(), head);
    assert_eq!(segments.assign_extent(&m, 1, SIZE).unwrap(), head + 1);
    segments.retire_extent(&m, head, 1);
    segments.release_idle(&m, 1);
    assert_eq!(whole(&m, &segments, LEAF), head);
    segments.retire_extent(&m, head, 1);
    assert_eq!(segments.entry(head), Some(LEAF));
}

#[test]
fn only_what_is_its_own_does_a_tree_give_back() {
    let (m, segments) = table(8);
    let give_back = |tree| segments.release(&m, [FIRST, FIRST + 1, FIRST + 7], |entry| entry.tree == tree);
    segments.assign_extent(&m, 1, 2 * SIZE).unwrap();
    give_back(1);
    assert_eq!(whole(&m, &segments, LEAF), FIRST);
    let before = (m.words(), segments.available());
    // Give back again, when one segment is another tree's, one is free, and one was never used.
    give_back(1);
    give_back(0);
    assert_eq!(before, (m.words(), segments.available()));
    assert_eq!(segments.entry(FIRST), Some(LEAF));
}

#[test]
fn full_is_an_error_that_changes_nothing() {
    let (m, segments) = table(8);
    for _ in 0..7 {
        whole(&m, &segments, LEAF);
    }
    let before = m.words();
    assert!(segments.assign_extent(&m, 3, SIZE + 8).is_err_and(|fault| fault.is_out_of_space()));
    assert_eq!(before, m.words());
    // Less than is wanted is better than nothing.
    assert!(segments.grow(&m, LEAF, None, (128, SIZE)).is_ok());
    segments.assign_extent(&m, 3, 8).unwrap_err();
}

/// Promise 4 of the media makes the entries of a line durable in the order of the stores.
#[test]
fn the_entries_of_a_long_extent_become_durable_line_by_line() {
    let geometry = PoolGeometry { segment: 1024, capacity: 1 << 20 };
    let m = Counted::new(Dram::zeroed(geometry.capacity));
    let segments = Segments::open(&m, geometry).unwrap();
    let before = m.counts();
    // The header takes 16 segments.
    assert_eq!(segments.assign_extent(&m, 0, 20 * 1024).unwrap(), 16);
    let counts = m.counts() - before;
    assert_eq!((counts.lines, counts.fences), (3, 3));
    // A cut between two of them.
    (24..36).for_each(|segment| m.store(geometry.entry(segment), 0));
    let again = Segments::open(&m, geometry).unwrap();
    assert_eq!(again.used().count(), 8);
    assert_eq!(again.extent(16).count(), 8);
}

#[test]
fn runs_do_not_reach_over_parts_of_the_table() {
    let geometry = PoolGeometry { segment: 1024, capacity: 4 << 20 };
    let m = Dram::zeroed(geometry.capacity);
    let segments = Segments::open(&m, geometry).unwrap();
    let class = SegmentEntry { unit: 64, ..LEAF };
    while segments.high_water() < 500 << 10 {
        segments.grow(&m, class, None, (1024, 1024)).unwrap();
    }
    // 512 to 515 hold the entries of the next group.
    assert_eq!(segments.assign_extent(&m, 5, 14 << 10).unwrap(), 516);
    let used = segments.in_use();
    let again = Segments::open(&m, geometry).unwrap();
    assert_eq!(again.in_use(), used);
    assert_eq!(again.extent(516).count(), 14);
    // What was left out is free.
    assert_eq!(again.grow(&m, class, None, (1024, 1024)).unwrap().segment, 500);
    let mut parts = Vec::new();
    let collect = |at, len| {
        parts.push(at..at + len);
        Ok(())
    };
    again.each_part(collect).unwrap();
    let of_table = geometry.entry(512)..geometry.entry(530) + 8;
    assert!(parts.contains(&of_table), "{parts:?}");
}

#[test]
fn an_extent_has_no_more_than_the_segments_that_follow_it() {
    let pool = Pool::options().segment_size(4096).create_on(zeroed(1 << 20)).unwrap();
    let PoolState { segments, medium, .. } = &*pool.state;
    let head = segments.assign_extent(medium, 0, 8192).unwrap();
    let words = |words| pool.state.read_extent(0, segments.start(head), words).map(|words| words.len());
    assert_eq!([words(1024), words(1025)], [Some(1024), None]);
    // The entry claims more segments than the table has.
    let mut state = segments.state.lock();
    segments.set_entry(medium, &mut state, head, SegmentEntry::new(SegmentKind::Extent, 0, 100), SIZE);
    drop(state);
    assert_eq!([words(1024), words(1025)], [Some(1024), None]);
}

#[test]
fn places_are_those_in_the_list() {
    let places = Places::new(&[2, 3, 7]);
    assert_eq!([2, 3, 7].map(|segment| places.position(segment)), [Some(0), Some(1), Some(2)]);
    assert!([0, 1, 4, 6, 8, u32::MAX].iter().all(|&segment| places.position(segment).is_none()));
    assert_eq!(Places::new(&[]).position(0), None);
}

#[test]
fn a_damaged_entry_is_named() {
    let (m, segments) = table(8);
    let at = segments.geometry.entry(whole(&m, &segments, LEAF));
    for bit in 0..64 {
        let word = m.load(at);
        m.store(at, word ^ 1 << bit);
        let error = Segments::open(&m, segments.geometry).err();
        assert!(error.is_none_or(|error| matches!(error.kind(), ErrorKind::Corrupt { at: found, .. } if *found == at)));
        m.store(at, word);
    }
    m.store(at, m.load(at) ^ 1 << (CHECK_AT + 2));
    assert!(Segments::open(&m, segments.geometry).is_err());
}
