//! Blocks are handed out once, and come back.

use super::*;
use crate::medium::Dram;
use crate::pool::format::PoolGeometry;

#[test]
fn blocks_begin_at_multiples_of_their_size() {
    for bytes in [8, 16, 24, 64, 192, 704, 4096, 3 << 20, u32::MAX / 2 + 1] {
        let unit = Unit::new(bytes);
        let last = u32::MAX / bytes;
        for block in [0, 1, 2, 3, 7, 100, last / 2, last - 1, last].into_iter().filter(|&block| block <= last) {
            let at = block * bytes;
            assert_eq!(unit.block_at(at), Some(block));
            assert!(unit.block_at(at + 1).is_none() && unit.block_at(at.wrapping_sub(1)).is_none());
        }
    }
}

#[test]
fn a_record_that_does_not_fit_the_table_is_not_believed() {
    let geometry = PoolGeometry { segment: 4096, capacity: 64 << 10 };
    let m = Dram::zeroed(geometry.capacity);
    let segments = Segments::open(&m, geometry).unwrap();
    let class = SegmentEntry::new(SegmentKind::Leaf, 1, 256);
    let blocks = Blocks::new(class);
    let taken: Vec<u64> = (0..20).map(|_| blocks.allocate(&m, &segments).unwrap().at).collect();
    blocks.give(&m, &segments, taken[3]);
    let mut words = Vec::new();
    blocks.record(&mut words);
    let restored = |words: &[u64]| Blocks::new(class).restore(&segments, &mut words.iter().copied());
    assert!(restored(&words));
    let again = Blocks::new(class);
    assert!(again.restore(&segments, &mut words.iter().copied()));
    let sorted = |mut free: Vec<u64>| {
        free.sort_unstable();
        free
    };
    assert_eq!(sorted(again.free(&segments)), sorted(blocks.free(&segments)));
    for i in 0..words.len() {
        for bit in [0, 7, 33, 63] {
            let mut wrong = words.clone();
            wrong[i] ^= 1 << bit;
            assert!(!restored(&wrong), "word {i}, bit {bit}");
        }
        assert!(!restored(&words[..i]));
    }
}

#[test]
fn an_image_of_a_class_counts_for_the_segments_that_it_still_has() {
    let geometry = PoolGeometry { segment: 4096, capacity: 256 << 10 };
    let m = Dram::zeroed(geometry.capacity);
    let segments = Segments::open(&m, geometry).unwrap();
    // Not a power of two, so that a segment has blocks that fill no whole word of bits.
    let class = SegmentEntry::new(SegmentKind::Record, 1, 48);
    let blocks = Blocks::new(class);
    let mut taken: Vec<u64> = (0..500).map(|_| blocks.allocate(&m, &segments).unwrap().at).collect();
    taken.drain(100..140).for_each(|at| blocks.give(&m, &segments, at));
    let unused = taken.split_off(450);
    let mut words = Vec::new();
    blocks.image(&segments, &unused, &mut words);
    let before = taken.clone();
    // Whole segments come, get longer, and go.
    let more: Vec<u64> = (0..700).map(|_| blocks.allocate(&m, &segments).unwrap().at).collect();
    let of = |at: u64| segments.holding(at).unwrap();
    let gone = of(before[0]);
    before.iter().chain(&more).filter(|&&at| of(at) == gone).for_each(|&at| blocks.give(&m, &segments, at));
    segments.release_idle(&m, 1);
    let again = Blocks::new(class);
    assert!(again.restore_image(&segments, &mut words.iter()));
    assert_eq!(again.total(), blocks.total());
    let free: std::collections::HashSet<u64> = again.free(&segments).into_iter().collect();
    assert!(before.iter().all(|&at| of(at) == gone || !free.contains(&at)));
    assert_eq!(again.in_use(), before.iter().filter(|&&at| of(at) != gone).count() as u64);
    for &at in more.iter().filter(|&&at| of(at) != gone) {
        again.note_used(&segments, at);
        again.note_used(&segments, at);
    }
    let used = before.iter().chain(&more).filter(|&&at| of(at) != gone);
    assert_eq!(again.in_use(), used.collect::<std::collections::HashSet<_>>().len() as u64);
    // What cannot be right is refused, and nothing is read beyond it.
    for len in 0..words.len() {
        assert!(!Blocks::new(class).restore_image(&segments, &mut words[..len].iter()), "{len}");
    }
    words[3] = u64::MAX;
    assert!(!Blocks::new(class).restore_image(&segments, &mut words.iter()));
}

/// A class of leaves, or of records, with this many segments of 16 blocks, and of each only some blocks in use.
fn sparse(kind: SegmentKind, used: &[u32]) -> (Dram, Segments, Blocks) {
    let geometry = PoolGeometry { segment: 4096, capacity: 16384 + 4096 * used.len() as u64 };
    let m = Dram::zeroed(geometry.capacity);
    let segments = Segments::open(&m, geometry).unwrap();
    let blocks = Blocks::new(SegmentEntry::new(kind, 1, 256));
    let reserve = usize::from(kind == SegmentKind::Leaf);
    let mut taken = Vec::new();
    while blocks.total() < used.len() as u64 * 16 || taken.len() + reserve < used.len() * 16 {
        taken.push(blocks.allocate(&m, &segments).unwrap().at);
    }
    taken.sort_unstable();
    for (part, &used) in taken.chunks(16).zip(used) {
        part.iter().skip(used as usize).for_each(|&at| blocks.give(&m, &segments, at));
    }
    (m, segments, blocks)
}

fn closed(segments: &Segments, blocks: &Blocks) -> Vec<u32> {
    let mut victims = Vec::new();
    blocks.close_sparse(segments, &mut victims);
    victims
}

#[test]
fn the_sparsest_segments_are_closed_as_long_as_they_fit_into_the_others() {
    let first = 16384 / 4096;
    let victims_of = |kind, used: &[u32]| {
        let (m, segments, blocks) = sparse(kind, used);
        let victims = closed(&segments, &blocks);
        assert_eq!(blocks.closed(), victims.len());
        assert_eq!(blocks.in_use(), used.iter().map(|&used| u64::from(used)).sum::<u64>());
        blocks.open_all(&m, &segments);
        assert_eq!(blocks.closed(), 0);
        victims.into_iter().map(|segment| segment - first).collect::<Vec<_>>()
    };
    use SegmentKind::{Leaf, Record};
    assert_eq!(victims_of(Record, &[3, 10, 2, 15]), [2, 0]);
    // What fits exactly.
    assert_eq!(victims_of(Record, &[8, 8]), [1]);
    // What needs one block more keeps half of a segment, which is as little as a segment of this size can have.
    assert_eq!(victims_of(Record, &[8, 9]), [0]);
    // Leaves keep one block back.
    assert_eq!(victims_of(Leaf, &[8, 8]), [1]);
    assert_eq!(victims_of(Leaf, &[7, 8]), [0]);
    assert_eq!(victims_of(Record, &[16, 16, 15]), [0; 0]);
    assert_eq!(victims_of(Record, &[9]), [0; 0]);
    assert_eq!(victims_of(Record, &[8]), [0]);
    assert_eq!(victims_of(Leaf, &[8]), [0; 0]);
}

#[test]
fn the_end_of_a_segment_is_given_back() {
    let (m, segments, blocks) = sparse(SegmentKind::Record, &[16]);
    let block = |block: u64| 4 * 4096 + block * 256;
    (2..15).for_each(|i| blocks.give(&m, &segments, block(i)));
    assert_eq!(closed(&segments, &blocks), [4]);
    assert!(blocks.is_withheld(&segments, block(15)) && blocks.is_withheld(&segments, block(8)));
    assert!(!blocks.is_withheld(&segments, block(7)));
    // Negative control: what is in use there keeps it.
    blocks.open_all(&m, &segments);
    assert_eq!((blocks.total(), segments.len(4), blocks.closed()), (16, 4096, 0));
    assert_eq!(closed(&segments, &blocks), [4]);
    let used = segments.in_use();
    let moved = blocks.take_to_move(&m, &segments).unwrap().at;
    assert!((block(2)..block(8)).contains(&moved));
    blocks.give(&m, &segments, block(15));
    blocks.open_all(&m, &segments);
    assert_eq!((blocks.total(), blocks.in_use(), segments.len(4), blocks.closed()), (8, 3, 2048, 0));
    assert_eq!(segments.in_use(), used - 2048);
    // It gets longer again, and each block is handed out once.
    let mut taken: Vec<u64> =
        std::iter::from_fn(|| blocks.allocate(&m, &segments).ok()).map(|taken| taken.at).collect();
    taken.extend([block(0), block(1), moved]);
    taken.sort_unstable();
    assert_eq!(taken, (0..16).map(block).collect::<Vec<_>>());
}

#[test]
fn nothing_is_handed_out_from_closed_segments() {
    let (m, segments, blocks) = sparse(SegmentKind::Record, &[3, 12, 16]);
    let in_first = |at: u64| segments.holding(at) == Some(4);
    // The blocks that were given back last are handed out first: without closing, they come from there.
    let taken = blocks.allocate(&m, &segments).unwrap().at;
    blocks.give(&m, &segments, taken);
    assert_eq!(closed(&segments, &blocks), [4]);
    assert!(blocks.is_withheld(&segments, 4 * 4096) && !blocks.is_withheld(&segments, 5 * 4096));
    blocks.give(&m, &segments, 4 * 4096 + 256);
    let moved: Vec<u64> = std::iter::from_fn(|| blocks.take_to_move(&m, &segments)).map(|taken| taken.at).collect();
    assert!(moved.len() == 4 && !moved.iter().any(|&at| in_first(at)));
    assert!(blocks.take_at_hand(&segments).is_none());
    // Negative control: opened again, it hands them out.
    blocks.open_all(&m, &segments);
    assert!(in_first(blocks.take_at_hand(&segments).unwrap().at));
}

#[test]
fn a_closed_segment_that_becomes_empty_leaves_its_class() {
    let (m, segments, blocks) = sparse(SegmentKind::Leaf, &[2, 9]);
    assert_eq!(closed(&segments, &blocks), [4]);
    for block in 0..2 {
        let new = blocks.take_to_move(&m, &segments).unwrap();
        assert!(!new.zeroed && segments.holding(new.at) == Some(5));
        assert_eq!(blocks.closed(), 1);
        blocks.give(&m, &segments, 4 * 4096 + block * 256);
    }
    assert_eq!((blocks.closed(), blocks.emptied(), blocks.total(), blocks.in_use()), (0, 1, 16, 11));
    assert_eq!(segments.owned(1, SegmentKind::Leaf, 256), [5]);
    assert!(!blocks.is_withheld(&segments, 4 * 4096));
}

/// The block that refills the reserve may lie in a closed segment (K-D).
#[test]
fn what_is_withheld_is_there_for_who_finds_no_space() {
    let (m, segments, blocks) = sparse(SegmentKind::Leaf, &[4, 11]);
    assert_eq!(closed(&segments, &blocks), [4]);
    // All the space that there is: a node is moved by others, too, until one free block is left.
    let mut taken: Vec<u64> = std::iter::from_fn(|| blocks.take_to_move(&m, &segments)).map(|taken| taken.at).collect();
    assert_eq!(taken.len(), 4);
    taken.push(blocks.take_in_exchange(&m, &segments).unwrap().at);
    // The block that is given back in exchange.
    blocks.give(&m, &segments, 4 * 4096);
    assert_eq!(blocks.closed(), 1);
    taken.push(blocks.take_in_exchange(&m, &segments).unwrap().at);
    assert_eq!((blocks.closed(), segments.holding(taken[5])), (0, Some(4)));
    // Negative control: where nothing is withheld, there is nothing to open.
    let (m, segments, blocks) = sparse(SegmentKind::Record, &[16]);
    assert!(blocks.allocate(&m, &segments).unwrap_err().is_out_of_space());
}
