//! Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory".

use super::claims::{Claim, Found, number, ratio, versus};
use super::figures::{Figure, Metric, Show, USUAL};
use super::work::Step;
use crate::mix::Mix;

const SEVEN: &[&str] = &[
    "volatile-std",
    "volatile-circ",
    "nv-fixed",
    "fptree",
    "fptree-printed",
    "fast-fair",
    "circ-ls",
    "circ-printed",
    "circ",
];
/// The contestants of the figures with larger nodes.
const SIX: &[&str] = &["volatile-std", "volatile-circ", "nv-fixed", "fast-fair", "circ-ls", "circ-printed", "circ"];
/// The contestants that flush.
const FLUSHING: &[&str] = &["nv-fixed", "fptree", "fptree-printed", "fast-fair", "circ-ls", "circ-printed", "circ"];

const CIRC: Figure = Figure {
    trees: SEVEN,
    subject: "circ",
    metric: Metric::Geometric,
    papers_slow: 300,
    papers_flush: "clflushopt",
    volatile_waits: true,
    ..USUAL
};
const AT_2K: Figure = Figure { trees: SIX, bytes: &[2048], ..CIRC };

/// The key-value stores.
const STORES: Figure = Figure {
    trees: &["nv-fixed", "fast-fair", "circ-ls", "circ-printed", "circ"],
    show: Show::Tail,
    each: true,
    threads: &[1, 2, 4, 8],
    ..AT_2K
};

const US_PER_KEY: Claim = number("circ-printed", Found::Number(0.0149)).mix("open-killed").key("us_per_key");
const US_PER_KEY_OF_LARGE: Claim = number("circ-printed", Found::Number(0.0031)).mix("open-killed").key("us_per_key");

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "circ:7a",
        title: "time to insert a million keys",
        claim: "at 4 KiB NV-Tree takes 1.6 times and FAST+FAIR 8.6 times as long as Circ-Tree",
        claims: &[
            ratio("fast-fair", "circ-printed", 1.7).bytes(512),
            ratio("fast-fair", "circ-printed", 2.7).bytes(1024),
            ratio("fast-fair", "circ-printed", 4.8).bytes(2048),
            ratio("fast-fair", "circ-printed", 8.6).bytes(4096),
            ratio("nv-fixed", "circ-printed", 1.6).bytes(4096),
            ratio("fptree-printed", "circ-printed", 1.0).bytes(512),
            ratio("fast-fair", "circ", 8.6).bytes(4096),
            ratio("nv-fixed", "circ", 1.6).bytes(4096),
        ],
        ..CIRC
    },
    Figure {
        id: "circ:7b",
        title: "lines flushed by these inserts",
        claim: "at 4 KiB NV-Tree flushes 1.6 times and FAST+FAIR 13.3 times as many lines as Circ-Tree",
        claims: &[
            ratio("fast-fair", "circ-printed", 13.3).bytes(4096),
            ratio("nv-fixed", "circ-printed", 1.6).bytes(4096),
            ratio("fast-fair", "circ", 13.3).bytes(4096),
            ratio("nv-fixed", "circ", 1.6).bytes(4096),
        ],
        trees: FLUSHING,
        show: Show::Lines,
        ..CIRC
    },
    Figure {
        id: "circ:7c",
        title: "bytes flushed by these inserts",
        claim: "at 4 KiB NV-Tree flushes 1.7 times and FAST+FAIR 37.8 times as much data as Circ-Tree",
        claims: &[
            ratio("fast-fair", "circ-printed", 37.8).bytes(4096),
            ratio("nv-fixed", "circ-printed", 1.7).bytes(4096),
            ratio("fast-fair", "circ-printed", 37.8).bytes(4096).key("requested_bytes_per_op"),
            ratio("nv-fixed", "circ-printed", 1.7).bytes(4096).key("requested_bytes_per_op"),
        ],
        trees: FLUSHING,
        show: Show::Flushed,
        ..CIRC
    },
    Figure {
        id: "circ:7d",
        title: "time to search each of a million keys",
        claim: "at 4 KiB Circ-Tree searches 7.1 % faster than Volatile_std and FAST+FAIR; at 512 B they are faster",
        claims: &[
            versus("circ-printed", "fast-fair", Found::More).bytes(512),
            ratio("circ-printed", "fast-fair", 0.929).bytes(4096),
            ratio("circ-linear", "fast-fair", 0.929).bytes(4096),
            ratio("circ-printed", "volatile-linear", 0.929).bytes(4096),
            ratio("circ", "volatile-std", 0.929).bytes(4096),
        ],
        trees: &[
            "volatile-std",
            "volatile-linear",
            "volatile-circ",
            "nv-fixed",
            "fptree",
            "fast-fair",
            "circ-ls",
            "circ-linear",
            "circ-printed",
            "circ",
        ],
        before: &[Step::Insert],
        steps: &[Step::Get],
        ..CIRC
    },
    Figure {
        id: "circ:8a",
        title: "time to insert more and more keys",
        claim: "from 10 M to 100 M keys FAST+FAIR gets 6.5 % slower and Circ-Tree, which stays fastest, 29.5 %",
        claims: &[
            number("fast-fair", Found::Number(1.065)).against_smaller(1),
            number("circ-printed", Found::Number(1.295)).against_smaller(1),
            versus("fast-fair", "circ-printed", Found::More),
            versus("nv-fixed", "circ-printed", Found::More),
        ],
        millions: &[1, 10, 100],
        ..AT_2K
    },
    Figure {
        id: "circ:8b",
        title: "time to insert on slower and slower memory",
        claim: "FAST+FAIR takes 2.5, 3.9, 4.8 and 5.5 times as long as Circ-Tree at 0, 200, 300 and 600 ns",
        claims: &[
            ratio("fast-fair", "circ-printed", 2.5).slow(0),
            ratio("fast-fair", "circ-printed", 3.9).slow(200),
            ratio("fast-fair", "circ-printed", 4.8).slow(300),
            ratio("fast-fair", "circ-printed", 5.5).slow(600),
            ratio("fast-fair", "circ", 5.5).slow(600),
        ],
        slow: &[0, 200, 300, 600],
        ..AT_2K
    },
    Figure {
        id: "circ:9a",
        title: "time to insert, by several threads with a million keys each",
        claim: "with 8 threads NV-Tree takes 2.9 times and FAST+FAIR 3.2 times as long as Circ-Tree",
        claims: &[
            ratio("nv-fixed", "circ-printed", 2.9).threads(8),
            ratio("fast-fair", "circ-printed", 3.2).threads(8),
        ],
        each: true,
        threads: &[1, 2, 4, 8],
        ..AT_2K
    },
    Figure {
        id: "circ:9b",
        title: "time to search, by several threads with a million keys each",
        claim: "with 8 threads Circ-Tree searches 36.1 % faster than Circ-Tree_ls",
        claims: &[ratio("circ-linear", "circ-ls", 0.639).threads(8), ratio("circ", "circ-ls", 0.639).threads(8)],
        trees: &["volatile-std", "nv-fixed", "fast-fair", "circ-ls", "circ-linear", "circ-printed", "circ"],
        each: true,
        threads: &[1, 2, 4, 8],
        before: &[Step::Insert],
        steps: &[Step::Get],
        ..AT_2K
    },
    Figure {
        id: "circ:keys",
        title: "throughput with keys of 23 bytes: as hashes of 8 bytes, and as they are",
        claim: "a key that is long is hashed to 8 or 16 bytes, and lies in a record with its value",
        trees: &["circ-hashed", "bytes"],
        subject: "bytes",
        bytes: &[1024],
        show: Show::Throughput(&[Mix::Insert, Mix::Get, Mix::Update]),
        papers_slow: 0,
        ..CIRC
    },
    Figure {
        id: "circ:10",
        title: "99th percentile of a key-value store with nodes of 2 KiB",
        claim: "with 2 threads Circ-Tree's inserts are 29.3 % shorter than NV-Tree's and 25.4 % than FAST+FAIR's; searches and updates are alike, but for NV-Tree's searches with 8",
        claims: &[
            ratio("circ-printed", "nv-fixed", 0.707).mix("insert").threads(2),
            ratio("circ-printed", "fast-fair", 0.746).mix("insert").threads(2),
            ratio("circ-printed", "fast-fair", 1.0).mix("search").threads(1),
            ratio("circ-printed", "fast-fair", 1.0).mix("update").threads(1),
            ratio("circ-printed", "fast-fair", 1.0).mix("search").threads(8),
            ratio("circ-printed", "fast-fair", 1.0).mix("update").threads(8),
            versus("nv-fixed", "circ-printed", Found::More).mix("search").threads(8),
        ],
        ..STORES
    },
    Figure {
        id: "circ:11",
        title: "99th percentile of a key-value store with nodes of 4 KiB",
        claim: "with 8 threads Circ-Tree's inserts are 23.7 % shorter than NV-Tree's and 47.4 % than FAST+FAIR's; the rest is as with 2 KiB",
        claims: &[
            ratio("circ-printed", "nv-fixed", 0.763).mix("insert").threads(8),
            ratio("circ-printed", "fast-fair", 0.526).mix("insert").threads(8),
            ratio("circ-printed", "fast-fair", 1.0).mix("search").threads(8),
            ratio("circ-printed", "fast-fair", 1.0).mix("update").threads(8),
            versus("nv-fixed", "circ-printed", Found::More).mix("search").threads(8),
        ],
        bytes: &[4096],
        ..STORES
    },
    Figure {
        id: "circ:table1",
        title: "time to recover",
        claim: "1 M keys are recovered in 14.9 ms at 512 B and 3.1 ms at 4 KiB, 100 M in 1,773 ms and 353 ms",
        claims: &[
            number("circ-printed", Found::Number(4.8)).mix("open-killed").bytes(512).against_bytes(4096),
            US_PER_KEY.bytes(512),
            US_PER_KEY_OF_LARGE.bytes(4096),
        ],
        trees: &["circ-printed", "circ"],
        millions: &[1, 10, 100],
        show: Show::Opening,
        ..CIRC
    },
];
