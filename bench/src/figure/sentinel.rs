//! Ye, Wang: "Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels".
//!
//! The paper's Circle-Tree searches linearly from the base; `-f` is with fingerprints, `-s` with sentinels.

use super::figures::{Figure, USUAL};
use super::work::Step;

const SEARCHED: Figure = Figure {
    trees: &["fast-fair", "fast-fair-f", "fast-fair-s", "circ-ls", "circ-ls-f", "circ-ls-s"],
    subject: "circ-ls-s",
    before: &[Step::Insert],
    steps: &[Step::Get],
    ..USUAL
};
const INSERTED: Figure = Figure { before: &[], steps: &[Step::Insert], ..SEARCHED };
/// For 4 KiB nodes.
const THREADS: &[u32] = &[1, 2, 4, 8];

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "sentinel:4a",
        title: "time to search each of a million keys",
        claim: "at 4 KiB sentinels make searches 48.4 % shorter in Circle-Tree, 42.6 % in FAST-FAIR; fingerprints 3.1 %",
        ..SEARCHED
    },
    Figure {
        id: "sentinel:4b",
        title: "time to insert a million keys",
        claim: "at 4 KiB sentinels make inserts 6.5 % longer in Circle-Tree and 4.0 % in FAST-FAIR",
        ..INSERTED
    },
    Figure {
        id: "sentinel:4c",
        title: "time to search each of ten million keys",
        claim: "sentinels help more the larger the node, and cost time at 512 B",
        millions: &[10],
        ..SEARCHED
    },
    Figure {
        id: "sentinel:4d",
        title: "time to insert ten million keys",
        claim: "what sentinels cost is low",
        millions: &[10],
        ..INSERTED
    },
    Figure {
        id: "sentinel:5a",
        title: "time to search each of a hundred million keys",
        claim: "as with fewer keys",
        millions: &[100],
        ..SEARCHED
    },
    Figure {
        id: "sentinel:5b",
        title: "time to insert a hundred million keys",
        claim: "as with fewer keys",
        millions: &[100],
        ..INSERTED
    },
    Figure {
        id: "sentinel:6a",
        title: "time to search, by several threads",
        claim: "with 2 threads sentinels make searches 46.1 % shorter in FAST-FAIR and 47.6 % in Circle-Tree",
        bytes: &[4096],
        threads: THREADS,
        ..SEARCHED
    },
    Figure {
        id: "sentinel:6b",
        title: "time to insert, by several threads",
        claim: "sentinels make no difference that counts",
        bytes: &[4096],
        threads: THREADS,
        ..INSERTED
    },
];
