//! Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-adaptive Tree Structure for Non-volatile
//! Memory".
//!
//! The paper's NV-Tree adapts the sizes of nodes, by the balanced strategy unless it names another one; NV-Tree' does
//! not (`nv-fixed`). `nv-printed` has the paper's own equations, where the others have terms that pay here.

use super::claims::{Found, number, ratio, versus};
use super::figures::{Figure, Misses, Show, USUAL};
use super::work::{Step, Zone};
use crate::mix::Mix;

const THREE: Figure = Figure {
    trees: &["lcb", "lcb-whole", "cdds", "cdds-inner", "nv-balanced"],
    subject: "nv-balanced",
    papers_flush: "clflush",
    ..USUAL
};
const ADAPTING: Figure = Figure {
    trees: &["nv-fixed", "nv-conservative", "nv-aggressive", "nv-balanced", "nv-printed"],
    subject: "nv-fixed",
    bytes: &[1024],
    before: &[Step::Insert],
    ..THREE
};
const ADAPTED: Figure =
    Figure { trees: &["nv-fixed", "nv-balanced", "nv-printed"], bytes: &[1024, 4096], apart: true, ..ADAPTING };

/// The key-value stores, this crate's map of byte strings among them.
const SERVED: Figure = Figure {
    trees: &["redis-everysec", "redis-always", "nv-store", "bytes"],
    subject: "nv-store",
    bytes: &[4096],
    threads: &[1, 2, 8, 32],
    papers_flush: "clflush",
    ..USUAL
};

const fn hot(thousandths: u32) -> Step {
    Step::Hot(Zone::Greatest(thousandths))
}

const fn crowd(thousandths: u32) -> Step {
    Step::Crowd(Zone::Greatest(thousandths))
}

const COLD: Step = Step::Hot(Zone::Least(5));

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "nv:1a",
        title: "time of a million inserts with and without consistency",
        claim: "at 4 KiB LCB+-Tree takes 16 times and CDDS-Tree 20 times as long as without flushes",
        claims: &[
            ratio("lcb-whole", "volatile-std", 16.0).bytes(4096),
            ratio("lcb", "volatile-std", 16.0).bytes(4096),
            ratio("cdds", "cdds-volatile", 20.0).bytes(4096),
        ],
        trees: &["volatile-std", "lcb", "lcb-whole", "cdds-volatile", "cdds"],
        subject: "volatile-std",
        ..THREE
    },
    Figure {
        id: "nv:1b",
        title: "L3 misses of these inserts",
        claim: "10 million without flushes, 120 to 800 million with them",
        show: Show::Nothing("the number of misses is known to the CPU's performance counters only"),
        ..THREE
    },
    Figure {
        id: "nv:1c",
        title: "lines flushed by these inserts",
        claim: "14.8, 24.6, 44.7, 85.3 per insert in LCB+-Tree, 12.1, 19.0, 34.2, 64.7 in CDDS-Tree",
        claims: &[
            number("lcb-whole", Found::Number(14.8)).bytes(512),
            number("lcb-whole", Found::Number(24.6)).bytes(1024),
            number("lcb-whole", Found::Number(44.7)).bytes(2048),
            number("lcb-whole", Found::Number(85.3)).bytes(4096),
            number("lcb", Found::Number(14.8)).bytes(512),
            number("lcb", Found::Number(85.3)).bytes(4096),
            number("cdds", Found::Number(12.1)).bytes(512),
            number("cdds", Found::Number(19.0)).bytes(1024),
            number("cdds", Found::Number(34.2)).bytes(2048),
            number("cdds", Found::Number(64.7)).bytes(4096),
            number("cdds-inner", Found::Number(12.1)).bytes(512),
            number("cdds-inner", Found::Number(64.7)).bytes(4096),
        ],
        trees: &["lcb", "lcb-whole", "cdds", "cdds-inner"],
        subject: "lcb-whole",
        show: Show::Lines,
        ..THREE
    },
    Figure {
        id: "nv:1d",
        title: "share of shifted entries in leaves, and of logs of them, in these lines",
        claim: "81 % to 97 % in LCB+-Tree, 60 % to 94 % in CDDS-Tree",
        claims: &[
            number("lcb-whole", Found::Number(81.0)).bytes(512),
            number("lcb-whole", Found::Number(97.0)).bytes(4096),
            number("lcb", Found::Number(81.0)).bytes(512),
            number("lcb", Found::Number(97.0)).bytes(4096),
            number("cdds", Found::Number(60.0)).bytes(512),
            number("cdds", Found::Number(94.0)).bytes(4096),
        ],
        trees: &["lcb", "lcb-leaves", "lcb-whole", "lcb-whole-leaves", "cdds", "cdds-leaves"],
        subject: "lcb",
        show: Show::Sorting(&[("lcb", "lcb-leaves"), ("lcb-whole", "lcb-whole-leaves"), ("cdds", "cdds-leaves")]),
        ..THREE
    },
    Figure {
        id: "nv:5",
        title: "time to insert a million keys",
        claim: "at 4 KiB NV-Tree is 7 times as fast as LCB+-Tree and 12 times as fast as CDDS-Tree",
        claims: &[
            ratio("lcb-whole", "nv-balanced", 7.0).bytes(4096),
            ratio("lcb", "nv-balanced", 7.0).bytes(4096),
            ratio("cdds", "nv-balanced", 12.0).bytes(4096),
            ratio("cdds-inner", "nv-balanced", 12.0).bytes(4096),
        ],
        ..THREE
    },
    Figure {
        id: "nv:6",
        title: "lines flushed by these inserts",
        claim: "NV-Tree flushes 80 % to 97 % less than LCB+-Tree and 76 % to 96 % less than CDDS-Tree",
        claims: &[
            ratio("nv-balanced", "lcb-whole", 0.2).bytes(512),
            ratio("nv-balanced", "lcb-whole", 0.03).bytes(4096),
            ratio("nv-balanced", "lcb", 0.2).bytes(512),
            ratio("nv-balanced", "lcb", 0.03).bytes(4096),
            ratio("nv-balanced", "cdds", 0.24).bytes(512),
            ratio("nv-balanced", "cdds", 0.04).bytes(4096),
            ratio("nv-balanced", "cdds-inner", 0.24).bytes(512),
            ratio("nv-balanced", "cdds-inner", 0.04).bytes(4096),
        ],
        show: Show::Lines,
        ..THREE
    },
    Figure {
        id: "nv:7",
        title: "share of inner nodes in what is flushed (and, not in the paper, of FAST+FAIR's)",
        claim: "of LCB+-Tree's lines 7 % are of inner nodes, of an NV-Tree's with consistent inner nodes over 20 %",
        claims: &[
            number("lcb-whole", Found::Number(7.0)).bytes(512),
            number("lcb", Found::Number(7.0)).bytes(512),
            number("nvt-a-lcb", Found::AtLeast(20.0)).bytes(512),
            number("nvt-a-lcb", Found::AtLeast(20.0)).bytes(1024),
            number("nvt-a-lcb", Found::AtLeast(20.0)).bytes(2048),
            number("nvt-a-lcb", Found::AtLeast(20.0)).bytes(4096),
            number("nvt-a-lcb-whole", Found::AtLeast(20.0)).bytes(512),
            number("nvt-a", Found::AtLeast(20.0)).bytes(512),
        ],
        trees: &[
            "lcb",
            "lcb-leaves",
            "lcb-whole",
            "lcb-whole-leaves",
            "cdds",
            "cdds-inner",
            "cdds-leaves",
            "nvt-a",
            "nvt-a-lcb",
            "nvt-a-lcb-whole",
            "nv-fixed",
            "fast-fair",
            "fast-fair-leaves",
        ],
        subject: "lcb",
        show: Show::Inner(&[
            ("lcb", "lcb-leaves"),
            ("lcb-whole", "lcb-whole-leaves"),
            ("cdds", "cdds-leaves"),
            ("cdds-inner", "cdds-leaves"),
            ("nvt-a", "nv-fixed"),
            ("nvt-a-lcb", "nv-fixed"),
            ("nvt-a-lcb-whole", "nv-fixed"),
            ("fast-fair", "fast-fair-leaves"),
        ]),
        ..USUAL
    },
    Figure {
        id: "nv:8",
        title: "time to insert more and more keys",
        claim: "1, 10 and 100 M: 7.1, 6.3 and 5.3 times as fast as LCB+-Tree, 12, 9.7 and 8.2 times as CDDS-Tree",
        claims: &[
            ratio("lcb-whole", "nv-balanced", 6.3).smaller(1),
            ratio("lcb-whole", "nv-balanced", 5.3),
            ratio("lcb", "nv-balanced", 5.3),
            ratio("cdds", "nv-balanced", 9.7).smaller(1),
            ratio("cdds", "nv-balanced", 8.2),
        ],
        bytes: &[4096],
        millions: &[1, 10, 100],
        ..THREE
    },
    Figure {
        id: "nv:9",
        title: "loads executed by a million inserts, simulated",
        claim: "NV-Tree executes 44 % to 90 % fewer than LCB+-Tree and 52 % to 92 % fewer than CDDS-Tree",
        claims: &[
            ratio("nv-balanced", "lcb-whole", 0.56).bytes(512),
            ratio("nv-balanced", "lcb-whole", 0.1).bytes(4096),
            ratio("nv-balanced", "lcb", 0.56).bytes(512),
            ratio("nv-balanced", "lcb", 0.1).bytes(4096),
            ratio("nv-balanced", "cdds", 0.48).bytes(512),
            ratio("nv-balanced", "cdds", 0.08).bytes(4096),
        ],
        show: Show::Simulated(Misses::Loads),
        ..THREE
    },
    Figure {
        id: "nv:10",
        title: "L3 misses of a million inserts, simulated, and one for each flushed line",
        claim: "NV-Tree has 24 % to 83 % fewer than LCB+-Tree and 39 % to 90 % fewer than CDDS-Tree",
        claims: &[
            ratio("nv-balanced", "lcb-whole", 0.76).bytes(512),
            ratio("nv-balanced", "lcb-whole", 0.17).bytes(4096),
            ratio("nv-balanced", "cdds", 0.61).bytes(512),
            ratio("nv-balanced", "cdds", 0.1).bytes(4096),
        ],
        show: Show::Simulated(Misses::LastCache),
        ..THREE
    },
    Figure {
        id: "nv:11",
        title: "time of (a) updates, (b) removals and (c) searches of each of a million keys",
        claim: "5.6 and 8.5 times the updates of LCB+-Tree and CDDS-Tree; removals below CDDS-Tree's; searches alike",
        claims: &[
            ratio("lcb-whole", "nv-balanced", 5.6).bytes(4096).mix("update"),
            ratio("lcb", "nv-balanced", 5.6).bytes(4096).mix("update"),
            ratio("cdds", "nv-balanced", 8.5).bytes(4096).mix("update"),
            versus("nv-balanced", "cdds", Found::More).bytes(512).mix("remove"),
            ratio("nv-balanced", "cdds", 1.0).bytes(4096).mix("remove"),
            versus("nv-balanced", "lcb", Found::Less).bytes(4096).mix("remove"),
            ratio("nv-balanced", "lcb", 1.0).bytes(4096).mix("get"),
            ratio("nv-balanced", "cdds", 1.0).bytes(4096).mix("get"),
        ],
        before: &[Step::Insert],
        steps: &[Step::Update, Step::Get, Step::Remove],
        ..THREE
    },
    Figure {
        id: "nv:12",
        title: "time of updates and searches in changing proportion",
        claim: "with 90 % writes 6.6 times as fast as LCB+-Tree and 10 times as fast as CDDS-Tree, and ahead with 10 %",
        claims: &[
            ratio("lcb-whole", "nv-balanced", 6.6).mix("mixed").share(900),
            ratio("lcb", "nv-balanced", 6.6).mix("mixed").share(900),
            ratio("cdds", "nv-balanced", 10.0).mix("mixed").share(900),
            versus("lcb", "nv-balanced", Found::More).mix("mixed").share(100),
            versus("cdds", "nv-balanced", Found::More).mix("mixed").share(100),
        ],
        bytes: &[4096],
        before: &[Step::Insert],
        steps: &[Step::Mixed(90), Step::Mixed(70), Step::Mixed(50), Step::Mixed(30), Step::Mixed(10)],
        apart: true,
        ..THREE
    },
    Figure {
        id: "nv:13",
        title: "time of updates of 5 % of the keys, as it goes on",
        claim: "without adaptivity updates stay 92 % below those of all keys; every strategy raises them in time",
        claims: &[
            number("nv-fixed", Found::Number(1.0)).parts(10, 1),
            number("nv-conservative", Found::Less).parts(10, 1),
            number("nv-aggressive", Found::Less).parts(10, 1),
            number("nv-balanced", Found::Less).parts(10, 1),
            number("nv-printed", Found::Less).parts(10, 1),
        ],
        steps: &[hot(50); 10],
        ..ADAPTING
    },
    Figure {
        id: "nv:14",
        title: "time of inserts into a part of the keys",
        claim: "at 1 KiB adaptivity raises throughput to up to 305 %",
        claims: &[
            ratio("nv-fixed", "nv-balanced", 3.05).bytes(1024).mix("insert-crowd").share(5),
            ratio("nv-fixed", "nv-printed", 3.05).bytes(1024).mix("insert-crowd").share(5),
        ],
        steps: &[crowd(1000), crowd(500), crowd(100), crowd(50), crowd(10), crowd(5)],
        ..ADAPTED
    },
    Figure {
        id: "nv:15",
        title: "time of updates of a part of the keys",
        claim: "up to 3.2 times as fast with adaptivity; from 100 % to 0.5 % it loses 70 % at 1 KiB, without it 92 %",
        claims: &[
            ratio("nv-fixed", "nv-balanced", 3.2).bytes(1024).mix("update-greatest").share(5),
            ratio("nv-fixed", "nv-printed", 3.2).bytes(1024).mix("update-greatest").share(5),
            number("nv-fixed", Found::Number(12.5)).bytes(1024).mix("update-greatest").share(5).against_share(1000),
            number("nv-balanced", Found::Number(3.33)).bytes(1024).mix("update-greatest").share(5).against_share(1000),
        ],
        steps: &[hot(1000), hot(500), hot(100), hot(50), hot(10), hot(5)],
        ..ADAPTED
    },
    Figure {
        id: "nv:16",
        title: "time of updates of 0.5 % of the keys, which are others from the sixth step on",
        claim: "all strategies get slower as the keys change, and faster again from the next step on, aggressive most",
        claims: &[
            number("nv-fixed", Found::Number(1.0)).parts(6, 5),
            number("nv-aggressive", Found::More).parts(6, 5),
            number("nv-balanced", Found::More).parts(6, 5),
            number("nv-aggressive", Found::Less).parts(8, 6),
            number("nv-balanced", Found::Less).parts(8, 6),
        ],
        steps: &[hot(5), hot(5), hot(5), hot(5), hot(5), COLD, COLD, COLD, COLD, COLD],
        ..ADAPTING
    },
    Figure {
        id: "nv:17",
        title: "time of rebuilding in a million inserts, ascending and random",
        claim: "at 1 KiB ascending inserts rebuild for 44.5 s without adaptivity and for 1.4 s with it",
        claims: &[ratio("nv-fixed", "nv-balanced", 31.8).mix("insert-ascending")],
        bytes: &[1024],
        before: &[],
        steps: &[Step::Ascending, Step::Insert],
        show: Show::Rebuilds,
        ..ADAPTED
    },
    Figure {
        id: "nv:table4",
        title: "rebuilding in more and more inserts",
        claim: "of 1 M inserts at 1 KiB three rebuilds take 1.13 %, of 100 M four take 0.23 %",
        claims: &[
            number("nv-balanced", Found::Number(0.1)).bytes(1024).smaller(1).key("rebuild_percent"),
            number("nv-balanced", Found::Number(0.23)).bytes(1024).key("rebuild_percent"),
            number("nv-balanced", Found::Number(4.0)).bytes(1024).key("rebuilds"),
            number("nv-balanced", Found::Number(2.0)).bytes(4096).key("rebuilds"),
        ],
        trees: &["nv-balanced"],
        subject: "nv-balanced",
        millions: &[1, 10, 100],
        before: &[],
        steps: &[Step::Insert],
        show: Show::Rebuilds,
        ..ADAPTED
    },
    Figure {
        id: "nv:18",
        title: "throughput of clients that read the latest keys, and insert 5 %",
        claim: "NV-Store has up to 4.7 times the throughput of Redis",
        claims: &[
            ratio("nv-store", "redis-everysec", 4.7).threads(32),
            ratio("nv-store", "redis-always", 4.7).threads(32),
        ],
        show: Show::Throughput(&[Mix::YcsbD]),
        ..SERVED
    },
    Figure {
        id: "nv:19",
        title: "throughput of clients of which half read and half update",
        claim: "NV-Store has up to 7.3 times the throughput of Redis",
        claims: &[
            ratio("nv-store", "redis-everysec", 7.3).threads(32),
            ratio("nv-store", "redis-always", 7.3).threads(32),
        ],
        show: Show::Throughput(&[Mix::YcsbA]),
        ..SERVED
    },
    Figure {
        id: "nv:20a",
        title: "time to insert on slower and slower memory",
        claim: "at 50 and 180 ns NV-Tree is 5 % and 206 % slower, LCB+-Tree 51 % and 241 %, CDDS-Tree 87 % and 281 %",
        claims: &[
            number("nv-balanced", Found::Number(1.05)).slow(50).against_slow(0),
            number("nv-balanced", Found::Number(3.06)).slow(180).against_slow(0),
            number("lcb-whole", Found::Number(1.51)).slow(50).against_slow(0),
            number("lcb-whole", Found::Number(3.41)).slow(180).against_slow(0),
            number("cdds", Found::Number(1.87)).slow(50).against_slow(0),
            number("cdds", Found::Number(3.81)).slow(180).against_slow(0),
        ],
        bytes: &[4096],
        slow: &[0, 50, 180],
        ..THREE
    },
    Figure {
        id: "nv:20b",
        title: "time to insert a million keys without the misses that flushes cause",
        claim: "at 4 KiB NV-Tree is 7 times as fast as LCB+-Tree and 9 times as fast as CDDS-Tree",
        claims: &[
            ratio("lcb-whole", "nv-balanced", 7.0).bytes(4096),
            ratio("lcb", "nv-balanced", 7.0).bytes(4096),
            ratio("cdds", "nv-balanced", 9.0).bytes(4096),
        ],
        bytes: &[4096],
        papers_flush: "clwb",
        ..THREE
    },
];
