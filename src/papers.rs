//! The systems of the papers, each a type alias over the one generic tree: leaves of 1 KiB, and the index where the paper has
//! it.
//!
//! An alias fixes the layout of the nodes. Other sizes, another index, another medium: name the types, as in
//! `PTree<Circular<256>, Volatile, Dram>`.

use crate::index::{Flat, FlatFixed, Persistent, Volatile};
use crate::medium::{Dram, Mapped};
use crate::node::{
    Append, Circular, CowSip, Fingerprint, Fingerprinted, Fixed, Linear, Logged, Scanned, Sentinel, Versioned, crab,
};
use crate::tree::PTree;

/// Circ-Tree: circular nodes, which shift the shorter way.
///
/// # Source
///
/// Wang, Brihadiswarn, Jiang, Chattopadhyay: "Circ-Tree: A B+-Tree Variant with Circular Design for Persistent Memory",
/// IEEE Transactions on Computers.
pub type CircTree<I = Persistent, M = Mapped> = PTree<Circular<64>, I, M>;

/// Circ-Tree with a linear search from the base of a node on (`Circ-Tree_ls` in its section 6.1).
pub type CircTreeLs<I = Persistent, M = Mapped> = PTree<Scanned<Circular<64>>, I, M>;

/// Circ-Tree in ordinary memory (`Volatile_circ` in its section 6.1).
pub type VolatileCirc = PTree<Circular<64>, Volatile, Dram>;

/// A standard B+-tree in ordinary memory (`Volatile_std` in Circ-Tree's section 6.1).
pub type VolatileStd = PTree<Linear<64>, Volatile, Dram>;

/// FAST+FAIR: linear nodes, which shift to the right.
///
/// # Source
///
/// Hwang, Kim, Won, Nam: "Endurable Transient Inconsistency in Byte-Addressable Persistent B+-Tree", FAST 2018.
pub type FastFair<I = Persistent, M = Mapped> = PTree<Linear<64>, I, M>;

/// Circ-Tree with sentinels.
///
/// # Source
///
/// Ye, Wang: "Boosting the Search Performance of B+-tree for Non-volatile Memory with Sentinels", 2021.
pub type CircTreeSentinel<I = Persistent, M = Mapped> = PTree<Sentinel<Circular<64>>, I, M>;

/// FAST+FAIR with sentinels. Source: as [`CircTreeSentinel`].
pub type FastFairSentinel<I = Persistent, M = Mapped> = PTree<Sentinel<Linear<64>>, I, M>;

/// Circ-Tree with fingerprints, the rival of sentinels. Source: as [`CircTreeSentinel`], section IV.
pub type CircTreeFingerprinted<I = Persistent, M = Mapped> = PTree<Fingerprinted<Circular<64>>, I, M>;

/// FAST+FAIR with fingerprints, the rival of sentinels. Source: as [`CircTreeSentinel`], section IV.
pub type FastFairFingerprinted<I = Persistent, M = Mapped> = PTree<Fingerprinted<Linear<64>>, I, M>;

/// NV-Tree: append-only leaves, whose size follows the workload (the balanced strategy).
///
/// # Source
///
/// Yang, Wei, Wang, Chen, Yong, He: "NV-Tree: A Consistent and Workload-adaptive Tree Structure for Non-volatile Memory",
/// IEEE Transactions on Computers 2015.
pub type NvTree<I = Flat, M = Mapped> = PTree<Append<16>, I, M>;

/// NV-Tree without the workload-adaptive scheme (`NV-Tree'` in its section 6).
pub type NvTreeFixed<I = FlatFixed, M = Mapped> = PTree<Append<16, Fixed>, I, M>;

/// Crab-tree: copy on write, or shifting in place, whichever costs less.
///
/// # Source
///
/// Wang, Chattopadhyay, Brihadiswarn: "Crab-tree: A Crash Recoverable B+-tree Variant for Persistent Memory with ARMv8
/// Architecture", ACM TECS 2020.
pub type CrabTree<I = Volatile, M = Mapped> = PTree<CowSip<64>, I, M>;

/// Crab-tree with the three options of its section 5 (`Crab_opt`).
pub type CrabOpt<I = Volatile, M = Mapped> = PTree<CowSip<64, { crab::OPT }>, I, M>;

/// Crab-tree that always copies (section 6.3).
pub type CowOnly<I = Volatile, M = Mapped> = PTree<CowSip<64, { crab::COPY_ONLY }>, I, M>;

/// Crab-tree that always shifts in place (section 6.3).
pub type SipOnly<I = Volatile, M = Mapped> = PTree<CowSip<64, { crab::SHIFT_ONLY }>, I, M>;

/// FPTree: unsorted leaves with a bitmap and fingerprints, of 512 bytes as in Circ-Tree's comparison.
///
/// # Source
///
/// Oukid, Lasperas, Nica, Willhalm, Lehner: "FPTree: A Hybrid SCM-DRAM Persistent and Concurrent B-Tree for Storage Class
/// Memory", SIGMOD 2016.
pub type FpTree<I = Volatile, M = Mapped> = PTree<Fingerprint<32>, I, M>;

/// LCB+-Tree: every change of a node is preceded by a copy of it into a log.
///
/// # Source
///
/// NV-Tree's section 3.1.
pub type LcbTree<I = Persistent, M = Mapped> = PTree<Logged<64>, I, M>;

/// CDDS-Tree: versioned entries, flushed one by one.
///
/// # Source
///
/// Venkataraman, Tolia, Ranganathan, Campbell: "Consistent and Durable Data Structures for Non-Volatile Byte-Addressable
/// Memory", FAST 2011, as in NV-Tree's section 3.1.
pub type CddsTree<I = Persistent, M = Mapped> = PTree<Versioned<32>, I, M>;
