//! Any history with crashes anywhere in it: an operation that returned is there, the operation in flight is there whole
//! or not at all, and the tree goes on from there.
//!
//! ```text
//! 0      bits 0 to 4 the tree, bit 5 whether its values are records, bit 6 the memory model, bit 7
//!        whether pairs are whole
//! 1      goes into what each crash leaves
//! ...    operations, two bytes each
//! ```

use crate::Seeds;
use crate::data::Data;
use bristlecone::crash::{Campaign, History, KeyShape, Op, Outcome, Values};
use bristlecone::medium::Model;
use bristlecone::papers::{Append, Circular, CowSip, Fingerprint, Linear, Logged, Versioned};
use bristlecone::{ByteLeaf, IndexKind, OneLine};

type Run = (IndexKind, KeyShape, fn(&Campaign, &History) -> Outcome);

macro_rules! kinds {
    ($($layout:ty, $index:ident $(, $keys:ident)?;)*) => {
        &[$((IndexKind::$index, kinds!(@ $($keys)?), Campaign::history::<$layout>)),*]
    };
    (@) => { KeyShape::Bytes };
    (@ $keys:ident) => { KeyShape::$keys };
}

const KINDS: &[Run] = kinds! {
    OneLine<7>, Volatile;
    OneLine<7>, Persistent;
    OneLine<7>, Flat;
    Linear<4>, Volatile;
    Linear<4>, Persistent;
    Circular<4>, Volatile;
    Circular<4>, Persistent;
    Append<3>, Volatile;
    Append<3>, Flat;
    Append<3>, Persistent;
    CowSip<4>, Volatile;
    CowSip<4>, Persistent;
    Fingerprint<4>, Volatile;
    Fingerprint<4>, Persistent;
    Logged<4>, Persistent;
    Versioned<4>, Persistent;
    ByteLeaf<4>, Volatile, Bytes;
    ByteLeaf<4>, Volatile, Long;
    ByteLeaf<4>, Volatile, Zeros;
};

/// Enough to fill, split and merge leaves between crashes; more operations would take longer without finding more.
const OPS: usize = 40;

pub fn run(data: &[u8]) {
    let mut data = Data(data);
    let (what, seed) = (data.byte(), data.byte());
    let mut ops = Vec::new();
    while !data.is_empty() && ops.len() < OPS {
        ops.push(op(&mut data));
    }
    // A history without a crash would be cut at every point of its last operation, which takes long.
    ops.push(Op::Crash(u64::from(seed)));
    let history = History(ops);
    let mut campaign = Campaign::new(if what & 64 == 0 { Model::Weak } else { Model::Tso });
    campaign.values = if what & 32 == 0 { Values::Numbers } else { Values::Records };
    campaign.whole_pairs = what & 128 != 0;
    campaign.seed = u64::from(seed);
    let (index, keys, run) = KINDS[usize::from(what % 32) % KINDS.len()];
    (campaign.index, campaign.keys) = (index, keys);
    let outcome = run(&campaign, &history);
    if let Some(violation) = outcome.violations.first() {
        panic!("{violation}");
    }
}

fn op(data: &mut Data<'_>) -> Op {
    let verb = data.byte();
    match verb % 32 {
        0..=13 => Op::Insert(data.key(), u64::from(verb / 32)),
        14..=22 => Op::Remove(data.key()),
        23..=27 => Op::Crash(u64::from(data.byte()) << 8 | u64::from(verb)),
        28 => Op::Batch(u64::from(data.byte() % 16)),
        29 => Op::BulkLoad(u64::from(data.byte() % 40)),
        30 => Op::Reopen,
        _ => Op::Clear,
    }
}

/// Each kind of tree is filled and thinned out, with some crashes in between.
pub fn seeds() -> Seeds {
    let seed = |what: u32| {
        let kind = what % KINDS.len() as u32;
        let fill = (0..6 + kind % 4 * 3).flat_map(|n| [n % 13, n * 23 + what]);
        let thin = (0..what % 12).flat_map(|n| [14 + n % 8, n * 46 + what]);
        let crash = |n: u32| [23 + n % 5 + n * 32, n * 71 + what];
        let last = [vec![28, 9], vec![30], vec![31], vec![29, 20], vec![0, 255]];
        let bytes =
            [kind | (what / KINDS.len() as u32) << 5, what].into_iter().chain(fill.clone()).chain(crash(1)).chain(thin);
        let bytes =
            bytes.chain(crash(2)).chain(last[what as usize % 5].clone()).chain(crash(3)).chain(crash(4)).chain(fill);
        (format!("crash-{what}"), bytes.map(|word| word as u8).collect())
    };
    (0..4 * KINDS.len() as u32).map(seed).collect()
}
