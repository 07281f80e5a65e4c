//! The published trees by name: each is the layout of its nodes, in the size and with the kind of index of its paper.
//!
//! A name stands for a layout: `pool.tree_of::<CircTree>("t")` opens a `PTree<CircTree>` with the index of the paper.
//! Another kind of index is chosen when a tree is opened: `pool.tree_with::<CircTree>("t", IndexKind::Volatile)`.
//! Another node size is another type: `Circular<256>`. On [`Dram`](crate::medium::Dram), with an index in memory, they
//! are the papers' volatile baselines: [`CircTree`] is `Volatile_circ` there, [`FastFairBinary`] is `Volatile_std`
//! (Circ-Tree, section 6.1).
//!
//! *Contestant* is the name under which `bristlecone-bench --figure` has a tree. A form that is called *printed*, or
//! *whole*, does what a paper says to the letter, where the form beside it does less because nothing more is needed.

mod adaptive;
mod append;
mod circ_printed;
mod cow_sip;
mod decorated;
mod fingerprinted;
mod flat;
mod fptree;
mod logged;
pub(crate) mod registry;
mod scanned;
mod search;
mod sentinel;
#[cfg(all(test, feature = "crash", not(bristlecone_loom)))]
mod tests;
mod versioned;
mod versioned_inner;

pub use crate::node::{Circular, Linear};
pub use adaptive::{Aggressive, AsPrinted, Balanced, Conservative, Fixed, Strategy};
pub use append::Append;
pub use circ_printed::{CircularPrinted, circ};
pub use cow_sip::{CowSip, crab};
pub use decorated::Decorated;
pub use fingerprinted::{Fingerprinted, FingerprintedLeaves};
pub(crate) use flat::{FlatIndex, Heat, Rebuilds, built as built_flat};
pub use fptree::Fingerprint;
pub use logged::Logged;
pub use scanned::Scanned;
pub use sentinel::{Sentinel, SentinelLeaves};
pub use versioned::Versioned;
pub use versioned_inner::VersionedInner;

/// Circ-Tree: circular nodes, which shift the shorter way.
///
/// # Source
///
/// Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory",
/// IEEE Transactions on Computers.
///
/// Contestant: `circ`; `volatile-circ` flushes nothing.
pub type CircTree = Circular<64>;

/// Circ-Tree as the paper prints it, with the base and the count of each node flushed by each change.
///
/// Source: as [`CircTree`]. What differs from the print: see [`CircularPrinted`].
pub type CircTreePrinted = CircularPrinted<64>;

/// Circ-Tree with a linear search from the base of a node (`Circ-Tree_ls` in its section 6.1).
///
/// Contestant: `circ-ls`.
pub type CircTreeLs = Scanned<Circular<64>>;

/// FAST+FAIR: linear nodes, which shift to the right and are searched from the left.
///
/// # Source
///
/// Hwang, Kim, Won, Nam: "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree", FAST 2018.
///
/// Contestant: `fast-fair`; `fast-fair-leaves` has its index in memory.
pub type FastFair = Scanned<Linear<64>>;

/// FAST+FAIR's nodes with a binary search, which is not in its paper. Its volatile form is a standard B+-tree.
///
/// Contestant: `volatile-std`, which flushes nothing.
pub type FastFairBinary = Linear<64>;

/// Circ-Tree with sentinels.
///
/// # Source
///
/// Ye, Wang: "Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels", 2021.
///
/// Contestant: `circ-ls-s`.
pub type CircTreeSentinel = Sentinel<Circular<64>>;

/// FAST+FAIR with sentinels. Source: as [`CircTreeSentinel`].
///
/// Contestant: `fast-fair-s`.
pub type FastFairSentinel = Sentinel<Linear<64>>;

/// Circ-Tree with sentinels as printed: in leaves only, and scanned. Source: as [`CircTreeSentinel`].
pub type CircTreeSentinelPrinted = SentinelLeaves<Circular<64>>;

/// FAST+FAIR with sentinels as printed: in leaves only, and scanned. Source: as [`CircTreeSentinel`].
pub type FastFairSentinelPrinted = SentinelLeaves<Linear<64>>;

/// Circ-Tree with fingerprints, the rival of sentinels. Source: as [`CircTreeSentinel`], section IV.
///
/// Contestant: `circ-ls-f`.
pub type CircTreeFingerprinted = Fingerprinted<Circular<64>>;

/// FAST+FAIR with fingerprints, the rival of sentinels. Source: as [`CircTreeSentinel`], section IV.
///
/// Contestant: `fast-fair-f`.
pub type FastFairFingerprinted = Fingerprinted<Linear<64>>;

/// NV-Tree: append-only leaves, whose size follows the workload (the balanced strategy).
///
/// # Source
///
/// Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-adaptive Tree Structure for Non-volatile
/// Memory", IEEE Transactions on Computers 2015.
///
/// Contestant: `nv-balanced`.
pub type NvTree = Append<16>;

/// NV-Tree without the workload-adaptive scheme (`NV-Tree'` in its section 6).
///
/// Contestant: `nv-fixed`; `nvt-a` has a persistent index of linear nodes.
pub type NvTreeFixed = Append<16, Fixed>;

/// NV-Tree with the conservative strategy. Source: as [`NvTree`], section 5.3.
///
/// Contestant: `nv-conservative`.
pub type NvTreeConservative = Append<16, Conservative>;

/// NV-Tree with the aggressive strategy. Source: as [`NvTree`], section 5.3.
///
/// Contestant: `nv-aggressive`.
pub type NvTreeAggressive = Append<16, Aggressive>;

/// NV-Tree with the counters and equations of its paper. Source: as [`NvTree`].
///
/// Contestant: `nv-printed`.
pub type NvTreePrinted = Append<16, AsPrinted>;

/// NV-Tree of one node size, with consistent inner nodes, which are LCB+-Tree's. Source: as [`NvTree`], Figure 7.
///
/// Contestant: `nvt-a-lcb`.
pub type NvTreeConsistent = Append<16, Fixed, Logged<64>>;

/// NV-Tree of one node size, with consistent inner nodes, which are those of [`LcbTreeWhole`].
///
/// Contestant: `nvt-a-lcb-whole`.
pub type NvTreeConsistentWhole = Append<16, Fixed, Logged<64, true>>;

/// Crab-tree: copy on write, or shifting in place, whichever costs less.
///
/// # Source
///
/// Wang, Chattopadhyay, Brihadiswarn: "Crab-tree: A Crash Recoverable B+-tree Variant for Persistent Memory with ARMv8
/// Architecture", ACM TECS 2020.
///
/// Contestant: `crab`.
pub type CrabTree = CowSip<64>;

/// Crab-tree's basic scheme as the paper prints it: with a count that each shift flushes, and with leaves that are at
/// least half full. What differs from the print: see [`CowSip`].
pub type CrabTreePrinted = CowSip<64, { crab::PRINTED }>;

/// Crab-tree with the three options of its section 5 (`Crab_opt`).
///
/// Contestant: `crab-opt`.
pub type CrabOpt = CowSip<64, { crab::OPT }>;

/// Crab-tree with copies only (section 6.3).
///
/// Contestant: `cow-only`.
pub type CowOnly = CowSip<64, { crab::COPY_ONLY }>;

/// Crab-tree with shifts in place only (section 6.3).
///
/// Contestant: `sip-only`.
pub type SipOnly = CowSip<64, { crab::SHIFT_ONLY }>;

/// FPTree: unsorted leaves of 512 bytes with a bitmap and fingerprints, as in Circ-Tree's comparison.
///
/// # Source
///
/// Oukid, Lasperas, Nica, Willhalm, Lehner: "FPTree: A Hybrid SCM-DRAM Persistent and Concurrent B-Tree for Storage
/// Class Memory", SIGMOD 2016.
///
/// Contestant: `fptree`.
pub type FpTree = Fingerprint<32>;

/// FPTree with three flushes for each insert, as printed. Source: as [`FpTree`].
///
/// Contestant: `fptree-printed`.
pub type FpTreePrinted = Fingerprint<32, true>;

/// LCB+-Tree: before every change, the entries of a node are copied to a log.
///
/// # Source
///
/// NV-Tree's section 3.1.
///
/// Contestant: `lcb`; `lcb-leaves` has its index in memory.
pub type LcbTree = Logged<64>;

/// LCB+-Tree that logs whole nodes, as printed. Source: as [`LcbTree`].
///
/// Contestant: `lcb-whole`; `lcb-whole-leaves` has its index in memory.
pub type LcbTreeWhole = Logged<64, true>;

/// CDDS-Tree: versioned entries, flushed one by one.
///
/// # Source
///
/// Venkataraman, Tolia, Ranganathan, Campbell: "Consistent and Durable Data Structures for Non-Volatile
/// Byte-Addressable Memory", FAST 2011, as in NV-Tree's section 3.1.
///
/// Contestant: `cdds`; `cdds-leaves` has its index in memory.
pub type CddsTree = Versioned<32>;

/// CDDS-Tree with inner nodes of versioned entries, as in its paper. Source: as [`CddsTree`].
///
/// Contestant: `cdds-inner`.
pub type CddsTreeInner = Versioned<32, VersionedInner<32>>;
