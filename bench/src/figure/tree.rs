//! The contestants of the figures, by name.
//!
//! They are behind a `dyn` trait, so that the measuring code is compiled once; the indirect call is the same for all.

use super::medium::Switched;
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use crate::tree::Tree;
#[cfg(feature = "figures")]
use bristlecone::papers::{
    Aggressive, Append, AsPrinted, CircularPrinted, Conservative, CowSip, Fingerprint, Fingerprinted,
    FingerprintedLeaves, Fixed, Logged, Sentinel, SentinelLeaves, Versioned, VersionedInner, circ, crab,
};
use bristlecone::papers::{Circular, Linear, Scanned};
use bristlecone::{IndexKind, Pool, WordNode};

fn opened<N: WordNode>(pool: &Pool<Switched>, index: IndexKind) -> Outcome<Box<dyn OrderedMap>> {
    Ok(Box::new(Tree::<N, Switched>::open(pool, index)?))
}

/// Opens a tree with nodes of this many bytes, or creates it.
type Open = fn(&Pool<Switched>, u32) -> Outcome<Box<dyn OrderedMap>>;

/// A contestant that a figure may name.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// Whether it writes lines back at all.
    pub(crate) durable: bool,
    /// The bytes of a node's slots that it is compiled for.
    pub(crate) sizes: &'static [u32],
    /// Opens its tree with nodes of one of these sizes, or creates it.
    pub(crate) open: Open,
}

/// A contestant whose tree is a `PTree`: name, whether it writes back, where its index lives, the layout with `$slots`
/// slots, and the sizes of the slots in bytes. Each size costs a second of compile time, unless another contestant has
/// it.
macro_rules! contestant {
    ($name:literal, $durable:literal, $index:ident, $slots:ident => $layout:ty, [$($bytes:literal)*]) => {
        Contestant {
            name: $name,
            durable: $durable,
            sizes: &[$($bytes),*],
            open: |pool, bytes| match bytes {
                $($bytes => {
                    const $slots: usize = $bytes / 16;
                    opened::<$layout>(pool, IndexKind::$index)
                })*
                _ => Err(format!("{}: no nodes of {bytes} bytes", $name).into()),
            },
        }
    };
}

/// All contestants. A name that a figure has but this table does not is not available.
#[cfg(feature = "figures")]
pub(crate) const TABLE: &[Contestant] = &[
    contestant!("volatile-std", false, Persistent, S => Linear<S>, [512 1024 2048 4096 8192]),
    contestant!("volatile-linear", false, Persistent, S => Scanned<Linear<S>>, [512 1024 2048 4096 8192]),
    contestant!("volatile-circ", false, Persistent, S => Circular<S>, [512 1024 2048 4096]),
    // Its search is linear, as in its paper.
    contestant!("fast-fair", true, Persistent, S => Scanned<Linear<S>>, [512 1024 2048 4096 8192]),
    contestant!("fast-fair-leaves", true, Volatile, S => Scanned<Linear<S>>, [512 1024 2048 4096 8192]),
    contestant!("fast-fair-f", true, Persistent, S => Fingerprinted<Linear<S>>, [512 1024 2048 4096]),
    contestant!("fast-fair-s", true, Persistent, S => Sentinel<Linear<S>>, [512 1024 2048 4096]),
    contestant!("circ", true, Persistent, S => Circular<S>, [512 1024 2048 4096]),
    contestant!("circ-linear", true, Persistent, S => CircularPrinted<S, { circ::LINEAR }>, [512 1024 2048 4096]),
    contestant!("circ-printed", true, Persistent, S => CircularPrinted<S>, [512 1024 2048 4096]),
    contestant!("circ-ls", true, Persistent, S => Scanned<Circular<S>>, [512 1024 2048 4096]),
    contestant!("circ-ls-f", true, Persistent, S => Fingerprinted<Circular<S>>, [512 1024 2048 4096]),
    contestant!("circ-ls-s", true, Persistent, S => Sentinel<Circular<S>>, [512 1024 2048 4096]),
    contestant!("fast-fair-f-leaves", true, Persistent, S => FingerprintedLeaves<Linear<S>>, [512 1024 2048 4096]),
    contestant!("fast-fair-s-printed", true, Persistent, S => SentinelLeaves<Linear<S>>, [512 1024 2048 4096]),
    contestant!("circ-ls-f-leaves", true, Persistent, S => FingerprintedLeaves<Circular<S>>, [512 1024 2048 4096]),
    contestant!("circ-ls-s-printed", true, Persistent, S => SentinelLeaves<Circular<S>>, [512 1024 2048 4096]),
    contestant!("fptree", true, Volatile, S => Fingerprint<S>, [512]),
    contestant!("fptree-printed", true, Volatile, S => Fingerprint<S, true>, [512]),
    contestant!("nv-fixed", true, FlatFixed, S => Append<{ S / 4 }, Fixed>, [512 1024 2048 4096 8192]),
    contestant!("nv-conservative", true, Flat, S => Append<{ S / 4 }, Conservative>, [1024 4096]),
    contestant!("nv-aggressive", true, Flat, S => Append<{ S / 4 }, Aggressive>, [1024 4096]),
    contestant!("nv-balanced", true, Flat, S => Append<{ S / 4 }>, [512 1024 2048 4096]),
    contestant!("nv-printed", true, Flat, S => Append<{ S / 4 }, AsPrinted>, [1024 4096]),
    contestant!("nvt-a", true, Persistent, S => Append<{ S / 4 }, Fixed>, [512 1024 2048 4096]),
    contestant!("nvt-a-lcb", true, Persistent, S => Append<{ S / 4 }, Fixed, Logged<S>>, [512 1024 2048 4096]),
    contestant!("nvt-a-lcb-whole", true, Persistent, S => Append<{ S / 4 }, Fixed, Logged<S, true>>, [512 1024 2048 4096]),
    contestant!("lcb", true, Persistent, S => Logged<S>, [512 1024 2048 4096]),
    contestant!("lcb-leaves", true, Volatile, S => Logged<S>, [512 1024 2048 4096]),
    contestant!("lcb-whole", true, Persistent, S => Logged<S, true>, [512 1024 2048 4096]),
    contestant!("lcb-whole-leaves", true, Volatile, S => Logged<S, true>, [512 1024 2048 4096]),
    contestant!("cdds", true, Persistent, S => Versioned<{ S / 2 }>, [512 1024 2048 4096]),
    contestant!("cdds-inner", true, Persistent, S => Versioned<{ S / 2 }, VersionedInner<{ S / 2 }>>, [512 1024 2048 4096]),
    contestant!("cdds-leaves", true, Volatile, S => Versioned<{ S / 2 }>, [512 1024 2048 4096]),
    contestant!("cdds-volatile", false, Persistent, S => Versioned<{ S / 2 }>, [512 1024 2048 4096]),
    contestant!("crab", true, Volatile, S => CowSip<S>, [1024 2048 4096 8192]),
    contestant!("crab-printed", true, Volatile, S => CowSip<S, { crab::PRINTED }>, [1024 2048 4096 8192]),
    contestant!("crab-opt", true, Volatile, S => CowSip<S, { crab::OPT }>, [1024 2048 4096 8192]),
    contestant!("cow-only", true, Volatile, S => CowSip<S, { crab::COPY_ONLY }>, [1024 2048 4096 8192]),
    contestant!("sip-only", true, Volatile, S => CowSip<S, { crab::SHIFT_ONLY }>, [1024 2048 4096 8192]),
    contestant!("crab-space", true, Volatile, S => CowSip<S, { crab::OWN_SPACE }>, [1024]),
    contestant!("crab-probe", true, Volatile, S => CowSip<S, { crab::PROBE }>, [1024]),
    contestant!("crab-16b", true, Volatile, S => CowSip<S, { crab::PAIRS }>, [1024]),
    contestant!("crab-16b-cas", true, Volatile, S => CowSip<S, { crab::PAIRS | crab::CAS }>, [1024]),
    contestant!("crab-space-probe", true, Volatile, S => CowSip<S, { crab::OWN_SPACE | crab::PROBE }>, [1024]),
    contestant!("crab-space-16b", true, Volatile, S => CowSip<S, { crab::OWN_SPACE | crab::PAIRS }>, [1024]),
    contestant!("crab-probe-16b", true, Volatile, S => CowSip<S, { crab::PROBE | crab::PAIRS }>, [1024]),
];

/// The contestants that are tested; each of the others costs seconds to compile.
#[cfg(not(feature = "figures"))]
pub(crate) const TABLE: &[Contestant] = &[
    contestant!("fast-fair", true, Persistent, S => Scanned<Linear<S>>, [1024]),
    contestant!("fast-fair-leaves", true, Volatile, S => Scanned<Linear<S>>, [1024]),
    contestant!("circ", true, Persistent, S => Circular<S>, [1024]),
];

pub(crate) fn find(name: &str) -> Option<&'static Contestant> {
    TABLE.iter().find(|contestant| contestant.name == name)
}
