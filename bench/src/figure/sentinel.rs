//! Ye, Wang: "Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels".
//!
//! The paper's Circle-Tree searches linearly from the base; `-f` is with fingerprints, `-s` with sentinels, in
//! all nodes; `-f-leaves` and `-s-printed` have them in leaves only, as in the paper.

use super::claims::{Claim, Found, ratio, versus};
use super::figures::{Figure, Metric, Show, USUAL};
use super::work::Step;

const SEARCHED: Figure = Figure {
    trees: &[
        "fast-fair",
        "fast-fair-f",
        "fast-fair-f-leaves",
        "fast-fair-s",
        "fast-fair-s-printed",
        "circ-ls",
        "circ-ls-f",
        "circ-ls-f-leaves",
        "circ-ls-s",
        "circ-ls-s-printed",
    ],
    subject: "circ-ls-s-printed",
    metric: Metric::Geometric,
    papers_slow: 300,
    papers_flush: "clflushopt",
    before: &[Step::Insert],
    steps: &[Step::Get],
    ..USUAL
};
/// The contestants above, and one that finds its leaf by an index in memory: the time that it takes is more than the
/// leaf's share in a search.
const LEAF_SHARE: &[&str] = &[
    "fast-fair",
    "fast-fair-leaves",
    "fast-fair-f",
    "fast-fair-f-leaves",
    "fast-fair-s",
    "fast-fair-s-printed",
    "circ-ls",
    "circ-ls-f",
    "circ-ls-f-leaves",
    "circ-ls-s",
    "circ-ls-s-printed",
];
const INSERTED: Figure = Figure { before: &[], steps: &[Step::Insert], ..SEARCHED };
/// The key-value stores.
const STORES: Figure = Figure {
    trees: &[
        "fast-fair",
        "fast-fair-f-leaves",
        "fast-fair-s-printed",
        "circ-ls",
        "circ-ls-f-leaves",
        "circ-ls-s-printed",
    ],
    before: &[],
    show: Show::Tail,
    ..SEARCHED
};
/// For 4 KiB nodes.
const THREADS: &[u32] = &[1, 2, 4, 8];

const COST_IS_LOW: &[Claim] = &[
    ratio("circ-ls-s-printed", "circ-ls", 1.0).bytes(512),
    ratio("fast-fair-s-printed", "fast-fair", 1.0).bytes(512),
    ratio("circ-ls-s-printed", "circ-ls", 1.0).bytes(4096),
    ratio("fast-fair-s-printed", "fast-fair", 1.0).bytes(4096),
];

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "sentinel:1",
        title: "time of a binary and of a linear search",
        claim: "a binary search takes longer than a linear one with nodes of up to 2 KiB",
        claims: &[
            versus("volatile-std", "volatile-linear", Found::More).bytes(512),
            versus("volatile-std", "volatile-linear", Found::More).bytes(1024),
            versus("volatile-std", "volatile-linear", Found::More).bytes(2048),
        ],
        trees: &["volatile-std", "volatile-linear"],
        subject: "volatile-linear",
        ..SEARCHED
    },
    Figure {
        id: "sentinel:4a",
        title: "time to search each of a million keys",
        claim: "at 4 KiB sentinels make searches 48.4 % shorter in Circle-Tree, 42.6 % in FAST-FAIR; fingerprints 3.1 %",
        claims: &[
            ratio("circ-ls-s-printed", "circ-ls", 0.516).bytes(4096),
            ratio("fast-fair-s-printed", "fast-fair", 0.574).bytes(4096),
            ratio("circ-ls-s", "circ-ls", 0.516).bytes(4096),
            ratio("fast-fair-s", "fast-fair", 0.574).bytes(4096),
            ratio("circ-ls-f-leaves", "circ-ls", 0.969).bytes(4096),
            versus("circ-ls-s-printed", "circ-ls", Found::More).bytes(512),
            versus("fast-fair-s-printed", "fast-fair", Found::More).bytes(512),
        ],
        trees: LEAF_SHARE,
        ..SEARCHED
    },
    Figure {
        id: "sentinel:4b",
        title: "time to insert a million keys",
        claim: "at 4 KiB sentinels make inserts 6.5 % longer in Circle-Tree and 4.0 % in FAST-FAIR",
        claims: &[
            ratio("circ-ls-s-printed", "circ-ls", 1.065).bytes(4096),
            ratio("fast-fair-s-printed", "fast-fair", 1.04).bytes(4096),
            ratio("circ-ls-s", "circ-ls", 1.065).bytes(4096),
            ratio("fast-fair-s", "fast-fair", 1.04).bytes(4096),
        ],
        ..INSERTED
    },
    Figure {
        id: "sentinel:4c",
        title: "time to search each of ten million keys",
        claim: "sentinels help more the larger the node, and cost time at 512 B",
        claims: &[
            versus("circ-ls-s-printed", "circ-ls", Found::More).bytes(512),
            versus("fast-fair-s-printed", "fast-fair", Found::More).bytes(512),
            versus("circ-ls-s-printed", "circ-ls", Found::Less).bytes(4096),
            versus("fast-fair-s-printed", "fast-fair", Found::Less).bytes(4096),
        ],
        millions: &[10],
        ..SEARCHED
    },
    Figure {
        id: "sentinel:4d",
        title: "time to insert ten million keys",
        claim: "what sentinels cost is low",
        claims: COST_IS_LOW,
        millions: &[10],
        ..INSERTED
    },
    Figure {
        id: "sentinel:5a",
        title: "time to search each of a hundred million keys",
        claim: "as with fewer keys",
        claims: &[
            versus("circ-ls-s-printed", "circ-ls", Found::Less).bytes(4096),
            versus("fast-fair-s-printed", "fast-fair", Found::Less).bytes(4096),
        ],
        millions: &[100],
        ..SEARCHED
    },
    Figure {
        id: "sentinel:5b",
        title: "time to insert a hundred million keys",
        claim: "as with fewer keys",
        claims: COST_IS_LOW,
        millions: &[100],
        ..INSERTED
    },
    Figure {
        id: "sentinel:6a",
        title: "time to search, by several threads",
        claim: "with 2 threads sentinels make searches 46.1 % shorter in FAST-FAIR and 47.6 % in Circle-Tree",
        claims: &[
            ratio("fast-fair-s-printed", "fast-fair", 0.539).threads(2),
            ratio("circ-ls-s-printed", "circ-ls", 0.524).threads(2),
        ],
        bytes: &[4096],
        threads: THREADS,
        ..SEARCHED
    },
    Figure {
        id: "sentinel:6b",
        title: "time to insert, by several threads",
        claim: "sentinels make no difference that counts",
        claims: &[
            ratio("fast-fair-s-printed", "fast-fair", 1.0).threads(2),
            ratio("circ-ls-s-printed", "circ-ls", 1.0).threads(2),
        ],
        bytes: &[4096],
        threads: THREADS,
        ..INSERTED
    },
    Figure {
        id: "sentinel:7",
        title: "99th percentile of a key-value store",
        claim: "at 4 KiB sentinels make searches 16.9 % shorter in FAST-FAIR and 13.0 % in Circle-Tree, inserts and updates shorter, too",
        claims: &[
            ratio("fast-fair-s-printed", "fast-fair", 0.831).mix("search").bytes(4096),
            ratio("circ-ls-s-printed", "circ-ls", 0.87).mix("search").bytes(4096),
            versus("fast-fair-s-printed", "fast-fair", Found::Less).mix("insert").bytes(4096),
            versus("circ-ls-s-printed", "circ-ls", Found::Less).mix("insert").bytes(4096),
            versus("fast-fair-s-printed", "fast-fair", Found::Less).mix("update").bytes(4096),
            versus("circ-ls-s-printed", "circ-ls", Found::Less).mix("update").bytes(4096),
        ],
        ..STORES
    },
    Figure {
        id: "sentinel:8",
        title: "99th percentile of a key-value store, by several threads",
        claim: "sentinels make searches much shorter",
        claims: &[
            versus("fast-fair-s-printed", "fast-fair", Found::Less).mix("search").threads(2),
            versus("circ-ls-s-printed", "circ-ls", Found::Less).mix("search").threads(2),
            versus("fast-fair-s-printed", "fast-fair", Found::Less).mix("search").threads(8),
            versus("circ-ls-s-printed", "circ-ls", Found::Less).mix("search").threads(8),
        ],
        bytes: &[4096],
        threads: THREADS,
        ..STORES
    },
];
