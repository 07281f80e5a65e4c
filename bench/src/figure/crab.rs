//! Wang, Chattopadhyay, Brihadiswarn: "Crab-tree: A Crash Recoverable B+-tree Variant for Persistent Memory with ARMv8
//! Architecture".

use super::claims::{Claim, Found, number, ratio, versus};
use super::figures::{Figure, SIZES, Show, USUAL};
use super::work::Step;

const LARGE: &[u32] = &[1024, 2048, 4096, 8192];
const THREE_VERBS: &[Step] = &[Step::Insert, Step::Get, Step::Remove];

const FIVE: Figure = Figure {
    trees: &["nv-fixed", "fast-fair", "crab", "crab-printed", "crab-opt", "volatile-std"],
    subject: "crab",
    bytes: LARGE,
    ..USUAL
};
/// The contestants that flush.
const FLUSHED: Figure =
    Figure { trees: &["nv-fixed", "fast-fair", "crab", "crab-printed", "crab-opt"], show: Show::Lines, ..FIVE };

const MORE_IS_FLUSHED: &[Claim] = &[
    ratio("crab-printed", "fast-fair", 1.227).bytes(8192),
    ratio("crab", "fast-fair", 1.227).bytes(8192),
    versus("nv-fixed", "crab", Found::Less).bytes(8192),
    versus("nv-fixed", "fast-fair", Found::Less).bytes(8192),
];

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "crab:2",
        title: "cost of flushes and order in a shift of 63 entries, of a flush of many lines, and of a search",
        claim: "flushes make a shift 17.1 times as long on x86, and on ARMv8 5.1 times, with order 15.8 times",
        claims: &[
            ratio("flush", "volatile", 17.1).mix("shift"),
            ratio("flush-order", "flush", 3.1).mix("shift"),
            ratio("copy", "flush-order", 0.25).mix("shift"),
            ratio("each", "together", 1.7).mix("flush"),
        ],
        bytes: SIZES,
        show: Show::Micro,
        ..USUAL
    },
    Figure {
        id: "crab:2d",
        title: "time of a binary and of a linear search",
        claim: "a binary search costs much less than a linear one on ARMv8, or as much",
        claims: &[
            versus("volatile-std", "volatile-linear", Found::Less).bytes(4096),
            versus("volatile-std", "volatile-linear", Found::Less).bytes(8192),
        ],
        trees: &["volatile-std", "volatile-linear"],
        subject: "volatile-linear",
        before: &[Step::Insert],
        steps: &[Step::Get],
        ..FIVE
    },
    Figure {
        id: "crab:7",
        title: "time to insert, search and remove each of a million keys",
        claim: "at 8 KiB FAST-FAIR takes 1.6, 2.8 and 1.9 times as long as Crab-tree; NV-Tree's search 1.6 to 3.7 times",
        claims: &[
            ratio("fast-fair", "crab-printed", 1.6).bytes(8192).mix("insert"),
            ratio("fast-fair", "crab-printed", 2.8).bytes(8192).mix("get"),
            ratio("fast-fair", "crab-printed", 1.9).bytes(8192).mix("remove"),
            ratio("fast-fair", "crab", 1.6).bytes(8192).mix("insert"),
            ratio("fast-fair", "crab", 1.9).bytes(8192).mix("remove"),
            ratio("nv-fixed", "crab-printed", 1.6).bytes(1024).mix("get"),
            ratio("nv-fixed", "crab-printed", 2.0).bytes(2048).mix("get"),
            ratio("nv-fixed", "crab-printed", 2.6).bytes(4096).mix("get"),
            ratio("nv-fixed", "crab-printed", 3.7).bytes(8192).mix("get"),
        ],
        steps: THREE_VERBS,
        ..FIVE
    },
    Figure {
        id: "crab:8a",
        title: "lines flushed by a million inserts",
        claim: "Crab-tree flushes up to 22.7 % more than FAST-FAIR, NV-Tree least",
        claims: MORE_IS_FLUSHED,
        ..FLUSHED
    },
    Figure {
        id: "crab:8b",
        title: "bytes flushed by a million inserts",
        claim: "Crab-tree flushes up to 22.7 % more than FAST-FAIR, NV-Tree least",
        claims: MORE_IS_FLUSHED,
        show: Show::Flushed,
        ..FLUSHED
    },
    Figure {
        id: "crab:8c",
        title: "fences and order points of a million inserts",
        claim: "Crab-tree executes 22.5 % of FAST-FAIR's fences, Crab_opt far fewer",
        claims: &[
            ratio("crab-printed", "fast-fair", 0.225).bytes(1024),
            ratio("crab-printed", "fast-fair", 0.225).bytes(8192),
            ratio("crab", "fast-fair", 0.225).bytes(8192),
            versus("crab-opt", "crab", Found::Less).bytes(8192),
        ],
        show: Show::Barriers,
        ..FLUSHED
    },
    Figure {
        id: "crab:9",
        title: "time to insert, search and remove each of ten million keys",
        claim: "at 8 KiB FAST-FAIR takes 1.6, 1.9 and 2.3 times as long as Crab-tree",
        claims: &[
            ratio("fast-fair", "crab-printed", 1.6).bytes(8192).mix("insert"),
            ratio("fast-fair", "crab-printed", 1.9).bytes(8192).mix("get"),
            ratio("fast-fair", "crab-printed", 2.3).bytes(8192).mix("remove"),
        ],
        trees: &["fast-fair", "crab", "crab-printed", "crab-opt", "volatile-std"],
        millions: &[10],
        steps: THREE_VERBS,
        ..FIVE
    },
    Figure {
        id: "crab:10",
        title: "share of copies in the lines (a) and the fences (b) of a million inserts",
        claim: "71.9 % of the lines at least are flushed by copies",
        claims: &[
            number("crab", Found::AtLeast(71.9)).bytes(1024),
            number("crab", Found::AtLeast(71.9)).bytes(2048),
            number("crab", Found::AtLeast(71.9)).bytes(4096),
            number("crab", Found::AtLeast(71.9)).bytes(8192),
        ],
        trees: &["crab", "crab-opt"],
        show: Show::Copies,
        ..FIVE
    },
    Figure {
        id: "crab:11",
        title: "time to insert by copies only, by shifts only, and by both",
        claim: "at 8 KiB copies take 90.5 % and shifts 22.2 % more time than Crab-tree",
        claims: &[
            ratio("cow-only", "crab", 1.905).bytes(8192).smaller(1),
            ratio("sip-only", "crab", 1.222).bytes(8192).smaller(1),
        ],
        trees: &["cow-only", "sip-only", "crab"],
        millions: &[1, 10],
        ..FIVE
    },
    Figure {
        id: "crab:12",
        title: "time to insert with each choice of the three options",
        claim: "16-byte moves make it 2.3 % faster, the probe 3.0 %, own space 12.4 %, all three 19.5 %",
        claims: &[
            ratio("crab-16b", "crab", 0.977),
            ratio("crab-16b-cas", "crab", 0.977),
            ratio("crab-probe", "crab", 0.97),
            ratio("crab-space", "crab", 0.876),
            ratio("crab-opt", "crab", 0.805),
        ],
        trees: &[
            "crab",
            "crab-16b",
            "crab-16b-cas",
            "crab-probe",
            "crab-space",
            "crab-probe-16b",
            "crab-space-16b",
            "crab-space-probe",
            "crab-opt",
        ],
        bytes: &[1024],
        ..FIVE
    },
    Figure {
        id: "crab:13",
        title: "time to open, after a kill and after an orderly close (which stores the index here)",
        claim: "rebuilding takes 8.3 us per key with 1 M keys and 9.7 us with 10 M",
        claims: &[
            number("crab", Found::Number(8.3)).bytes(1024).mix("open-killed").smaller(1).key("us_per_key"),
            number("crab", Found::Number(9.7)).bytes(1024).mix("open-killed").key("us_per_key"),
        ],
        trees: &["crab"],
        millions: &[1, 10],
        show: Show::Opening,
        ..FIVE
    },
];
