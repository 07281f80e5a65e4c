//! Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-adaptive Tree Structure for Non-volatile
//! Memory".
//!
//! The paper's NV-Tree adapts the sizes of nodes, by the balanced strategy unless it names another one; NV-Tree' does
//! not (`nv-fixed`).

use super::figures::{Figure, Show, USUAL};
use super::work::{Step, Zone};

const THREE: Figure = Figure { trees: &["lcb", "cdds", "nv-balanced"], subject: "nv-balanced", ..USUAL };
const ADAPTING: Figure = Figure {
    trees: &["nv-fixed", "nv-conservative", "nv-aggressive", "nv-balanced"],
    subject: "nv-fixed",
    bytes: &[1024],
    before: &[Step::Insert],
    ..USUAL
};
const ADAPTED: Figure = Figure { trees: &["nv-fixed", "nv-balanced"], bytes: &[1024, 4096], apart: true, ..ADAPTING };

const fn hot(thousandths: u32) -> Step {
    Step::Hot(Zone::Greatest(thousandths))
}

const fn crowd(thousandths: u32) -> Step {
    Step::Crowd(Zone::Greatest(thousandths))
}

const COLD: Step = Step::Hot(Zone::Least(5));

pub(crate) const FIGURES: &[Figure] = &[
    Figure {
        id: "nv:5",
        title: "time to insert a million keys",
        claim: "at 4 KiB NV-Tree is 7 times as fast as LCB+-Tree and 12 times as fast as CDDS-Tree",
        ..THREE
    },
    Figure {
        id: "nv:6",
        title: "lines flushed by these inserts",
        claim: "NV-Tree flushes 80 % to 97 % less than LCB+-Tree and 76 % to 96 % less than CDDS-Tree",
        show: Show::Lines,
        ..THREE
    },
    Figure {
        id: "nv:7",
        title: "share of inner nodes in what is flushed (and, not in the paper, of FAST+FAIR's)",
        claim: "of LCB+-Tree's lines 7 % are of inner nodes, of an NV-Tree's with consistent inner nodes over 20 %",
        trees: &["lcb", "lcb-leaves", "nvt-a", "nv-fixed", "fast-fair", "fast-fair-leaves"],
        subject: "lcb",
        show: Show::Inner(&[("lcb", "lcb-leaves"), ("nvt-a", "nv-fixed"), ("fast-fair", "fast-fair-leaves")]),
        ..USUAL
    },
    Figure {
        id: "nv:8",
        title: "time to insert more and more keys",
        claim: "1, 10 and 100 M: 7.1, 6.3 and 5.3 times as fast as LCB+-Tree, 12, 9.7 and 8.2 times as CDDS-Tree",
        bytes: &[4096],
        millions: &[1, 10, 100],
        ..THREE
    },
    Figure {
        id: "nv:9",
        title: "loads executed by a million inserts",
        claim: "NV-Tree executes 44 % to 90 % fewer than LCB+-Tree and 52 % to 92 % fewer than CDDS-Tree",
        show: Show::Nothing("the number of loads is known to the CPU's performance counters only"),
        ..THREE
    },
    Figure {
        id: "nv:10",
        title: "L3 misses of a million inserts",
        claim: "NV-Tree has 24 % to 83 % fewer than LCB+-Tree and 39 % to 90 % fewer than CDDS-Tree",
        show: Show::Nothing("the number of misses is known to the CPU's performance counters only"),
        ..THREE
    },
    Figure {
        id: "nv:11",
        title: "time of (a) updates, (b) removals and (c) searches of each of a million keys",
        claim: "5.6 and 8.5 times the updates of LCB+-Tree and CDDS-Tree; removals below CDDS-Tree's; searches alike",
        before: &[Step::Insert],
        steps: &[Step::Update, Step::Get, Step::Remove],
        ..THREE
    },
    Figure {
        id: "nv:12",
        title: "time of updates and searches in changing proportion",
        claim: "with 90 % writes 6.6 times as fast as LCB+-Tree and 10 times as fast as CDDS-Tree, and ahead with 10 %",
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
        steps: &[hot(50); 10],
        ..ADAPTING
    },
    Figure {
        id: "nv:14",
        title: "time of inserts into a part of the keys",
        claim: "at 1 KiB adaptivity raises throughput to up to 305 %",
        steps: &[crowd(1000), crowd(500), crowd(100), crowd(50), crowd(10), crowd(5)],
        ..ADAPTED
    },
    Figure {
        id: "nv:15",
        title: "time of updates of a part of the keys",
        claim: "up to 3.2 times as fast with adaptivity; from 100 % to 0.5 % it loses 70 % at 1 KiB, without it 92 %",
        steps: &[hot(1000), hot(500), hot(100), hot(50), hot(10), hot(5)],
        ..ADAPTED
    },
    Figure {
        id: "nv:16",
        title: "time of updates of 0.5 % of the keys, which are others from the sixth step on",
        claim: "all strategies get slower as the keys change, and faster again from the next step on, aggressive most",
        steps: &[hot(5), hot(5), hot(5), hot(5), hot(5), COLD, COLD, COLD, COLD, COLD],
        ..ADAPTING
    },
    Figure {
        id: "nv:17",
        title: "time of rebuilding in a million inserts, ascending and random",
        claim: "at 1 KiB ascending inserts rebuild for 44.5 s without adaptivity and for 1.4 s with it",
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
        trees: &["nv-balanced"],
        subject: "nv-balanced",
        millions: &[1, 10, 100],
        before: &[],
        steps: &[Step::Insert],
        show: Show::Rebuilds,
        ..ADAPTED
    },
    Figure {
        id: "nv:20a",
        title: "time to insert on slower and slower memory",
        claim: "at 50 and 180 ns NV-Tree is 5 % and 206 % slower, LCB+-Tree 51 % and 241 %, CDDS-Tree 87 % and 281 %",
        bytes: &[4096],
        slow: &[0, 50, 180],
        ..THREE
    },
];
