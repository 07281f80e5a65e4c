//! Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory".

use super::figures::{Figure, Show, USUAL};
use super::work::Step;

const SEVEN: &[&str] = &["volatile-std", "volatile-circ", "nv-fixed", "fptree", "fast-fair", "circ-ls", "circ"];
/// The contestants of the figures with larger nodes.
const SIX: &[&str] = &["volatile-std", "volatile-circ", "nv-fixed", "fast-fair", "circ-ls", "circ"];
/// The contestants that flush.
const FLUSHING: &[&str] = &["nv-fixed", "fptree", "fast-fair", "circ-ls", "circ"];

const CIRC: Figure = Figure { trees: SEVEN, subject: "circ", ..USUAL };
const AT_2K: Figure = Figure { trees: SIX, bytes: &[2048], ..CIRC };

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "circ:7a",
        title: "time to insert a million keys",
        claim: "at 4 KiB NV-Tree takes 1.6 times and FAST+FAIR 8.6 times as long as Circ-Tree",
        ..CIRC
    },
    Figure {
        id: "circ:7b",
        title: "lines flushed by these inserts",
        claim: "at 4 KiB NV-Tree flushes 1.6 times and FAST+FAIR 13.3 times as many lines as Circ-Tree",
        trees: FLUSHING,
        show: Show::Lines,
        ..CIRC
    },
    Figure {
        id: "circ:7c",
        title: "bytes flushed by these inserts",
        claim: "at 4 KiB NV-Tree flushes 1.7 times and FAST+FAIR 37.8 times as much data as Circ-Tree",
        trees: FLUSHING,
        show: Show::Flushed,
        ..CIRC
    },
    Figure {
        id: "circ:7d",
        title: "time to search each of a million keys",
        claim: "at 4 KiB Circ-Tree searches 7.1 % faster than Volatile_std and FAST+FAIR; at 512 B they are faster",
        before: &[Step::Insert],
        steps: &[Step::Get],
        ..CIRC
    },
    Figure {
        id: "circ:8a",
        title: "time to insert more and more keys",
        claim: "from 10 M to 100 M keys FAST+FAIR gets 6.5 % slower and Circ-Tree, which stays fastest, 29.5 %",
        millions: &[1, 10, 100],
        ..AT_2K
    },
    Figure {
        id: "circ:8b",
        title: "time to insert on slower and slower memory",
        claim: "FAST+FAIR takes 2.5, 3.9, 4.8 and 5.5 times as long as Circ-Tree at 0, 200, 300 and 600 ns",
        slow: &[0, 200, 300, 600],
        ..AT_2K
    },
    Figure {
        id: "circ:9a",
        title: "time to insert, by several threads with a million keys each",
        claim: "with 8 threads NV-Tree takes 2.9 times and FAST+FAIR 3.2 times as long as Circ-Tree",
        each: true,
        threads: &[1, 2, 4, 8],
        ..AT_2K
    },
    Figure {
        id: "circ:9b",
        title: "time to search, by several threads with a million keys each",
        claim: "with 8 threads Circ-Tree searches 36.1 % faster than Circ-Tree_ls",
        each: true,
        threads: &[1, 2, 4, 8],
        before: &[Step::Insert],
        steps: &[Step::Get],
        ..AT_2K
    },
    Figure {
        id: "circ:table1",
        title: "time to recover",
        claim: "1 M keys are recovered in 14.9 ms at 512 B and 3.1 ms at 4 KiB, 100 M in 1,773 ms and 353 ms",
        trees: &["circ"],
        millions: &[1, 10, 100],
        show: Show::Opening,
        ..CIRC
    },
];
