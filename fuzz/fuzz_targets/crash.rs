//! Any history, cut by a crash at any point: what returned is there, what was in flight is there whole or not at all.
//!
//! ```text
//! 0      bits 0 to 2 the tree, bit 3 the memory model, bit 4 whether recovery is cut too
//! 1      the seed of what is sampled
//! ...    operations, two bytes each; the last one is cut, at every point
//! ```
//!
//! `BRISTLECONE_WRITE_SEEDS=fuzz/seeds/crash cargo fuzz run crash` writes the seeds.
#![no_main]

use bristlecone::crash::{Campaign, History, Op};
use bristlecone::medium::Model;
use bristlecone::{Circular, Index, Linear, Node, Persistent, Volatile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: begin(), |data: &[u8]| {
    let [what, seed, ops @ ..] = data else { return };
    let ops = ops.chunks_exact(2).take(48).map(|bytes| op(bytes[0], bytes[1])).collect();
    let history = History(ops);
    let mut campaign = Campaign::new(if what & 8 == 0 { Model::Tso } else { Model::Weak });
    campaign.depth = u32::from(what >> 4 & 1);
    campaign.limit = 30;
    campaign.seed = u64::from(*seed);
    campaign.threads = 1;
    match what % 8 {
        0 => cut::<Linear<4>, Volatile>(&campaign, &history),
        1 => cut::<Linear<4>, Persistent>(&campaign, &history),
        2 => cut::<Circular<4>, Volatile>(&campaign, &history),
        3 => cut::<Circular<4>, Persistent>(&campaign, &history),
        4 => cut::<Linear<5>, Persistent>(&campaign, &history),
        5 => cut::<Circular<8>, Volatile>(&campaign, &history),
        6 => cut::<Circular<8>, Persistent>(&campaign, &history),
        _ => cut::<Linear<5>, Persistent>(&campaign, &history),
    }
});

/// Few keys, the extreme ones among them, so that all meet.
fn key(byte: u8) -> u64 {
    match byte {
        255 => u64::MAX,
        254 => u64::MAX - 1,
        other => u64::from(other % 64),
    }
}

fn op(verb: u8, byte: u8) -> Op {
    match verb % 32 {
        0..=17 => Op::Insert(key(byte), u64::from(verb / 32)),
        18..=28 => Op::Remove(key(byte)),
        29 => Op::BulkLoad(u64::from(byte % 40)),
        30 => Op::Reopen,
        _ => Op::Clear,
    }
}

fn cut<N: Node, I: Index>(campaign: &Campaign, history: &History) {
    let outcome = campaign.history::<N, I>(history);
    if let Some(violation) = outcome.violations.first() {
        panic!("{violation}");
    }
}

fn begin() {
    if let Some(folder) = std::env::var_os("BRISTLECONE_WRITE_SEEDS") {
        seeds(folder.as_ref());
        std::process::exit(0);
    }
}

/// Inputs to start from: each tree filled, thinned out and cut in each operation.
fn seeds(folder: &std::path::Path) {
    std::fs::create_dir_all(folder).unwrap();
    for what in 0..32u32 {
        let fill = (0..6 + what % 8 * 3).flat_map(|n| [n % 18, n * 23 + what]);
        let thin = (0..what % 16).flat_map(|n| [18, n * 46 + what]);
        let last = [[0, 255], [20, 23 + what], [30, 0], [31, 0], [29, 20]][what as usize % 5];
        let bytes: Vec<u8> =
            [what, what].into_iter().chain(fill).chain(thin).chain(last).map(|word| word as u8).collect();
        std::fs::write(folder.join(format!("cut-{what}")), bytes).unwrap();
    }
}
