//! Lines, fences, order points and bytes per operation: exact, and the same on every machine.
//!
//! # Expected counts of an insert
//!
//! With `S` slots in a leaf and four slots in a line:
//!
//! - **n**, the entries that an insert finds in its leaf. A leaf lives from `S / 2` entries to `S`. The number of
//!   leaves that ever grow from `k` entries to `k + 1` is proportional to `1 / k`, because a growing tree always has
//!   more young leaves than old ones; so the mean over all inserts is the harmonic mean, `n = S / (2 ln 2) = 0.721 S`.
//! - **s**, the entries that are moved: `n / 2` in a linear leaf, `n / 4` in a circular one.
//! - **L**, the lines of the run of `s + 1` slots that are written, wherever the run starts in its first line: `(s + 1)
//!   / 4 + 3 / 4`. Each line is flushed once and has a fence of its own, because lines must become durable in order.
//! - **p**, the splits per insert: leaves are `ln 2` full on average, and each leaf except the first came from a split,
//!   so `p = 1 / (S ln 2)`.
//! - A split writes the right half and its header, `S / 8 + 1` lines with one fence, and the link to it, one line and
//!   one fence. In every second split the new entry goes along with the right half and is not inserted by itself.
//!
//! ```text
//! lines  = (1 - p / 2) L + p (S / 8 + 2)
//! fences = (1 - p / 2) L + 2 p
//! ```
//!
//! A persistent index inserts an entry into an inner node at each split, and the inner node may split in turn: the
//! total is then `1 + p + p^2 + ... = 1 / (1 - p)` times as much. The costs of segments are spread over the thousands
//! of leaves in them.

use crate::clock::Tick;
use crate::keys::Pattern;
use crate::media;
use crate::mix::Mix;
use crate::out::{self, Outcome};
use crate::parse::{Index, Layout};
use crate::phases::{self, Workload};
use crate::plan::{Contestant, Plan};
use crate::shape::{SIZES, Shape};
use bristlecone::medium::Counts;
use serde_json::json;
use std::collections::BTreeMap;
use std::f64::consts::LN_2;

/// Counts per operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerOp {
    pub(crate) lines: f64,
    pub(crate) fences: f64,
    pub(crate) orders: f64,
    pub(crate) bytes: f64,
}

impl PerOp {
    pub(crate) fn new(counts: Counts, operations: u64) -> Self {
        let per = |n: u64| n as f64 / operations as f64;
        Self {
            lines: per(counts.lines),
            fences: per(counts.fences),
            orders: per(counts.orders),
            bytes: per(counts.bytes),
        }
    }
}

/// Counts what one of this crate's asks of its medium in these phases, with one thread.
pub(crate) fn of(contestant: Contestant, load: &Workload, mixes: &[Mix]) -> Outcome<BTreeMap<Mix, PerOp>> {
    let (counter, mut trial) = media::counted(contestant, &Workload { threads: 1, ..*load })?;
    let mut found = BTreeMap::new();
    phases::run(&mut *trial, mixes, |mix, work| {
        let before = counter.counts();
        let mut tick = Tick::idle();
        work.into_iter().for_each(|work| work(&mut tick));
        found.insert(mix, PerOp::new(counter.counts() - before, tick.operations()));
    })?;
    Ok(found)
}

/// The expected lines and fences per insert; see the top of this file.
fn expected(shape: Shape) -> (f64, f64) {
    let s = f64::from(shape.slots);
    let n = s / (2.0 * LN_2);
    let shifted = |moved: f64| (moved + 1.0) / 4.0 + 0.75;
    // The lines that an insert flushes, and the lines of the right leaf that a split writes.
    let (lines, half) = match shape.layout {
        Layout::Linear => (shifted(n / 2.0), s / 8.0 + 1.0),
        Layout::Circular => (shifted(n / 4.0), s / 8.0 + 1.0),
        // Two entries per line on average, so a share of 1 / e^2 of the lines gets none. The first line has the header.
        Layout::OneLine => (1.0, 1.0 + (s - 3.0) / 4.0 * (1.0 - (-2.0f64).exp())),
    };
    let p = 1.0 / (s * LN_2);
    let in_place = (1.0 - p / 2.0) * lines;
    let fences = (1.0 - p / 2.0) * if shape.layout == Layout::OneLine { 1.0 } else { lines };
    let levels = match shape.index {
        Index::Volatile | Index::Flat | Index::FlatFixed => 1.0,
        Index::Persistent => 1.0 / (1.0 - p),
    };
    ((in_place + p * (half + 1.0)) * levels, (fences + p * 2.0) * levels)
}

/// The layouts that are compared at each size.
const SHIFTING: [Layout; 2] = [Layout::Linear, Layout::Circular];

/// The table of `--mix counts`: all layouts, all sizes.
pub(crate) fn table(plan: &Plan) -> Outcome<()> {
    let indexes: Vec<Index> = [Index::Volatile, Index::Persistent]
        .into_iter()
        .filter(|index| plan.contestants.iter().any(|c| matches!(c, Contestant::Tree(s) if s.index == *index)))
        .collect();
    for index in indexes {
        if !plan.json {
            out::text(&format!(
                "Lines flushed and fences per insert, {} uniform keys, {} index, seed {}; expected: half of the entries of\n\
                 a leaf shifted (linear), a quarter (circular) or none (one_line), and the splits. c/l: lines of circular to linear.\n\n\
                 bytes  layout       lines  expected    diff   fences  expected    diff   orders    bytes    c/l",
                out::count(plan.n),
                index.name(),
                plan.seed,
            ))?;
        }
        let shape = Shape::usual(Layout::OneLine, index);
        row(plan, shape, per_insert(plan, shape)?, None)?;
        for &slots in SIZES {
            let mut linear = None;
            for layout in SHIFTING {
                let shape = Shape { layout, slots, index };
                let counted = per_insert(plan, shape)?;
                let ratio = linear.map(|linear: f64| counted.lines / linear);
                linear.get_or_insert(counted.lines);
                row(plan, shape, counted, ratio)?;
            }
        }
        if !plan.json {
            out::text("")?;
        }
    }
    Ok(())
}

fn per_insert(plan: &Plan, shape: Shape) -> Outcome<PerOp> {
    let load = Workload { pattern: Pattern::Uniform, threads: 1, ..plan.workload(0) };
    let found = of(Contestant::Tree(shape), &load, &[Mix::Insert])?;
    Ok(found.get(&Mix::Insert).copied().ok_or("no insert was counted")?)
}

fn row(plan: &Plan, shape: Shape, counted: PerOp, ratio: Option<f64>) -> Outcome<()> {
    let (lines, fences) = expected(shape);
    let percent = |measured: f64, expected: f64| (measured / expected - 1.0) * 100.0;
    let (lines_off, fences_off) = (percent(counted.lines, lines), percent(counted.fences, fences));
    if plan.json {
        out::json(&json!({
            "mix": Mix::Counts.name(),
            "layout": shape.layout.name(),
            "index": shape.index.name(),
            "node_bytes": shape.node_bytes(),
            "n": plan.n,
            "seed": plan.seed,
            "lines_per_op": out::rounded(counted.lines, 4),
            "fences_per_op": out::rounded(counted.fences, 4),
            "orders_per_op": out::rounded(counted.orders, 4),
            "bytes_per_op": out::rounded(counted.bytes, 2),
            "expected_lines": out::rounded(lines, 4),
            "expected_fences": out::rounded(fences, 4),
            "lines_off_percent": out::rounded(lines_off, 2),
            "fences_off_percent": out::rounded(fences_off, 2),
            "lines_to_linear": ratio.map(|ratio| out::rounded(ratio, 4)),
        }))?;
    } else {
        let ratio = ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        out::text(&format!(
            "{:5}  {:9}  {:7.2}  {lines:8.2}  {lines_off:+5.1}%  {:7.2}  {fences:8.2}  {fences_off:+5.1}%  {:7.2}  {:7.1}  {ratio:>5}",
            shape.node_bytes(),
            shape.layout.name(),
            counted.lines,
            counted.fences,
            counted.orders,
            counted.bytes,
        ))?;
    }
    Ok(())
}
