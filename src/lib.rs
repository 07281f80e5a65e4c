//! Persistent B+-trees that outlive crashes: a safe API over unsafe persistent nodes.
//!
//! A [`Pool`] is one mapped file that holds named trees. A [`PTree`] is an ordered map from `u64` to `u64`, and a
//! [`Map`] is an ordered map between Rust types. Every change is durable when the method returns, in the sense of
//! [`Pool::durability`]: on an ordinary file it survives the death of the process (`kill -9` included), and on
//! persistent memory (DAX) also a crash of the machine and a loss of power. With a [journal](#journals), which a new
//! pool has on Linux, what was synced on an ordinary file survives these, too. A change in flight at a crash is there
//! whole, or not at all. The README has [a
//! table](https://docs.rs/crate/bristlecone/latest/source/README.md#what-survives-what): what survives what.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("orders.pool");
//! use bristlecone::Pool;
//!
//! let pool = Pool::options().capacity(64 << 20).open(&path)?; // creates or opens
//! let orders = pool.tree("orders")?;
//! orders.insert(42, 7)?; // durable when it returns
//! assert_eq!(orders.get(42), Some(7));
//! for (id, amount) in orders.range(10..100) {
//!     println!("{id}: {amount}");
//! }
//! # Ok::<(), bristlecone::Error>(())
//! ```
//!
//! # Maps
//!
//! Keys are numbers, texts, byte strings, arrays, and options and tuples of them ([`Key`]); values are numbers, texts
//! and byte strings ([`Value`]), and with the feature `serde` whatever serde knows. Methods have the names of
//! `BTreeMap`'s where the meaning is the same. How your own types become keys and values ([`codec`]), and get kinds
//! that nothing else is taken for ([`Kind::own`](codec::Kind::own)), is in
//! [docs/own-types.md](https://docs.rs/crate/bristlecone/latest/source/docs/own-types.md).
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
//! use bristlecone::Map;
//!
//! let visits: Map<(String, u32), u64> = pool.map("visits")?;
//! visits.insert(("a.com", 20), 7)?;
//! visits.insert(("a.com", 21), 9)?;
//! for entry in visits.prefix(("a.com",)) {
//!     let ((_, day), count) = entry?;
//!     println!("{day}: {count}");
//! }
//! # Ok::<(), bristlecone::Error>(())
//! ```
//!
//! # Transactions, snapshots, backups
//!
//! Several changes of any trees of a pool happen together in a [transaction](Pool::transaction), or in a
//! [batch](Pool::batch) that only writes. A [snapshot](Pool::snapshot) shows all trees at one instant while others go
//! on, and a [backup](Pool::backup) copies them to a pool of its own. A plain copy of the file of an open pool is not
//! consistent.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
//! # let accounts: bristlecone::Map<String, u64> = pool.map("accounts")?;
//! # accounts.insert("ada", 100)?;
//! pool.transaction(|tx| {
//!     let (ada, bob) = (tx.get(&accounts, "ada")?.unwrap_or(0), tx.get(&accounts, "bob")?.unwrap_or(0));
//!     tx.insert(&accounts, "ada", ada - 30)?;
//!     tx.insert(&accounts, "bob", bob + 30)
//! })?;
//! let monday = pool.snapshot();
//! accounts.remove("ada")?;
//! assert_eq!(monday.get(&accounts, "ada")?, Some(70));
//! pool.backup(dir.path().join("monday.pool"))?;
//! # Ok::<(), bristlecone::Error>(())
//! ```
//!
//! # Readers, and space
//!
//! One process writes a pool, or any number read it ([`Options::read_only`]). A reader changes no byte of the file,
//! also if a crash has left the pool: then it recovers the trees in its own memory. [`Pool::compact`] moves what is
//! sparse together, so that space goes back, while others go on; [`Pool::shrink`] cuts off the end of the file. No
//! thread does that by itself. [`Pool::metrics`] and [`Pool::stat`] say how much there is of everything, and
//! [`Pool::check`] what is damaged. [`Options::on_event`] is told what happens to a pool, such as a disk that fails.
//!
//! # Journals
//!
//! On an ordinary file without a journal, a pool that is open when the machine goes down is refused afterwards. With a
//! [journal](Options::journal), it comes back as it was at one moment: at its last sync, or later. [`Journal`] says
//! when to sync: with each change, from time to time, or when [`Pool::sync`] is called. On Linux, a new pool on a disk
//! has one that syncs every 10 ms, unless it is made with [`Journal::None`]. A journal is two more files, with `.log`
//! and `.ring` at the end of the pool's name.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("orders.pool");
//! use bristlecone::{Journal, Pool};
//! use std::time::Duration;
//!
//! let every = Journal::Every(Duration::from_millis(10)); // as by default
//! let pool = Pool::options().capacity(64 << 20).journal(every).open(&path)?;
//! let orders = pool.tree("orders")?;
//! orders.insert(42, 7)?; // survives the process at once; a loss of power after 10 ms and what the disk takes
//! pool.sync()?; // survives a loss of power now
//! # Ok::<(), bristlecone::Error>(())
//! ```
//!
//! # Layouts
//!
//! There is one generic tree, [`PTree<N, M>`](PTree). `N` is the layout of its nodes ([`OneLine`] by default) and `M`
//! is the [`medium`]. The kind of index is chosen when the tree is opened: [`IndexKind`]. The trees of the [`papers`]
//! are layouts: [`CircTree`](papers::CircTree), [`FastFair`](papers::FastFair), [`NvTree`](papers::NvTree) and so on.
//!
//! # Threads, async code, and fork
//!
//! Pools, trees and maps are handles that are `Send + Sync`; methods take `&self`. Readers take no lock, and writers
//! lock the leaves that they change. A [`Transaction`] stays on its thread.
//!
//! There is no async interface. A method computes, and may wait for memory, for a lock that is held for microseconds,
//! and, if the pool is larger than memory, for a page of the file; in a full pool, a change waits for readers, for
//! some seconds at most. With a journal, changes that come faster than the disk takes them wait for it: for a sync
//! that makes room in the ring, and up to a second where the budget of memory is used up
//! ([`Options::private_memory`]). Call what touches a few keys from a task directly. Use `spawn_blocking`, or a
//! thread, for what waits for the disk or takes long: [`Pool::open`] and [`Options::open`], [`Pool::close`],
//! [`Pool::sync`], every change with [`Journal::Each`], opening a tree after a crash, [`Pool::backup`],
//! [`Pool::compact`], [`Pool::shrink`], [`Pool::check`], `bulk_load`, `clear`, long scans, and dropping the last
//! handle of a pool, which closes it. Do not hold a transaction or an iterator across an `await`: while it lasts,
//! records that are replaced keep their space. The example
//! [`cache`](https://docs.rs/crate/bristlecone/latest/source/examples/cache.rs) is such a program, under tokio.
//!
//! A child that came by `fork` cannot use its parent's pools: changes are refused ([`ErrorKind::Forked`]). See
//! [`Pool`].
//!
//! # File systems
//!
//! A pool belongs on a local file system. **Not on one of a network (NFS, SMB, 9p, most FUSE)**: mappings of two
//! machines do not see each other's stores, locks may be local to a machine or not there, and whether a crash of this
//! machine or of the server loses what was stored is not known here: [`Pool::durability`] would promise too much.
//! Nothing detects that. Copy backups there instead.
//!
//! # Systems
//!
//! Linux on x86-64 and aarch64 is tested, crashes included. Others (macOS, Windows, BSD, other CPUs) compile, and trees
//! work, with fewer promises: no instruction that flushes lines, except on x86-64 under Unix, no persistent memory, no
//! journal, no detection of a crash of the machine, and a file that has its final length from the open on. The README
//! has the list.
//!
//! # Later versions
//!
//! A pool says which version of the format it has, and which features a reader must know. What is too new is refused
//! ([`ErrorKind::Version`], [`ErrorKind::Features`]), and left as it is. A release that could not read the pools of the
//! one before would be a breaking one; the way over is then `bristlecone dump` of the old build, and `load` of the new
//! one.
//!
//! # Features
//!
//! None by default.
//!
//! - `serde`: `Postcard<T>`, a value for each type that serde knows.
//! - `asm-shims`: the instructions of the CPU from assembler files (`src/arch/shims`), not from inline assembler; for
//!   audits. Needs a C compiler, and is slower by a call each.
//! - `tracing`: [events](Options::on_event) go to the crate `tracing`, too.
//! - `crash`: the crash simulator and checker, `bristlecone::crash`, and the checker of histories, `bristlecone::lin`.
//!
//! The command line, `bristlecone`, is a crate of its own, `bristlecone-cli`.

#![allow(
    private_interfaces,
    private_bounds,
    reason = "the sealed traits behind public bounds cannot be named by other crates"
)]

#[doc(hidden)]
pub mod arch;
mod chain;
pub mod codec;
#[cfg(feature = "crash")]
pub mod crash;
#[cfg(all(test, not(bristlecone_loom)))]
mod effort;
mod entry;
mod error;
mod index;
#[cfg(all(feature = "instances", debug_assertions, not(test), not(bristlecone_watched)))]
mod instances;
#[cfg(feature = "crash")]
pub mod lin;
mod map;
pub mod medium;
mod memory;
mod node;
pub mod papers;
mod pool;
mod random;
mod snapshot;
mod step;
mod sync;
mod transaction;
mod tree;

pub use codec::key::Key;
#[cfg(feature = "serde")]
pub use codec::postcard::Postcard;
pub use codec::value::Value;
pub use error::{Broken, Error, ErrorGroup, ErrorKind, Result};
pub use map::table::Table;
pub use map::{DefaultLeaf, LeafFor, Map};
pub use medium::{Access, Journal, OldLog, Recovered, Recovery, RingPlace};
pub use node::{ByteLeaf, IndexKind, Node, OneLine, WordNode};
pub use pool::{Compacted, Options, Pool, Progress, Report, Verdict};
pub use snapshot::{Backup, Snapshot};
pub use transaction::{Transaction, WriteBatch};
pub use tree::PTree;

/// The iterators of trees, maps, transactions and snapshots.
pub mod iter {
    pub use crate::map::{Entries, IntoEntries, Keys, Values};
    pub use crate::snapshot::SnapshotRange;
    pub use crate::transaction::Scan;
    pub use crate::tree::{Column, IntoRange, Range};
}

/// What a pool says about itself: how much there is of everything, and what has happened.
pub mod stat {
    pub use crate::medium::JournalStat;
    pub use crate::medium::event::{Event, EventKind, Severity};
    pub use crate::pool::{Faults, Metrics, Snapshots, Stat, TreeInfo, TreeMetrics};
    pub use crate::sync::histogram::Histogram;
}

/// The examples of docs/own-types.md, as tests.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("../docs/own-types.md")]
mod own_types {}
