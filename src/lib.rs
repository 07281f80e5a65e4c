//! Persistent B+-trees that outlive crashes: a safe API over unsafe persistent nodes.
//!
//! A [`Pool`] is one mapped file that holds named trees. A [`PTree`] is an ordered map from `u64` to `u64`, and a
//! [`Map`] is an ordered map between Rust types. Every change is durable when the method returns, in the sense of
//! [`Pool::durability`]: on an ordinary file it survives the death of the process (`kill -9` included), and on
//! persistent memory (DAX) also a crash of the machine and a loss of power. With a [journal](#journals), what was
//! synced on an ordinary file survives these, too. A change in flight at a crash is there whole, or not at all.
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
//! Several changes of any trees of a pool happen together in a [transaction](Pool::transaction). A
//! [snapshot](Pool::snapshot) shows all trees at one instant, and a [backup](Pool::backup) copies them.
//!
//! # Journals
//!
//! On an ordinary file without a journal, a pool that is open when the machine goes down is refused afterwards. With a
//! [journal](Options::journal), it comes back as it was at one moment: at its last sync, or later. [`Journal`] says when
//! to sync: with each change, from time to time, or when [`Pool::sync`] is called. A journal is a second file, with `.log` at
//! the end of the pool's name. It works on Linux only.
//!
//! ```
//! # let dir = tempfile::tempdir().unwrap();
//! # let path = dir.path().join("orders.pool");
//! use bristlecone::{Journal, Pool};
//! use std::time::Duration;
//!
//! let every = Journal::Every(Duration::from_millis(10));
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
//! # Floors
//!
//! A file imports only from floors below its own: [`arch`] (instructions), [`medium`] (durability), pool (file
//! format), node (layouts), chain (split, merge), index, tree, codec (keys and
//! values), [`Map`], [transactions](Transaction) and [snapshots](Snapshot). `docs/design.md` in the repository is normative.
//!
//! # Features
//!
//! None by default. `crash`: the crash simulator and checker, `bristlecone::crash`. `cli`: the command line.

#![allow(
    private_interfaces,
    private_bounds,
    reason = "the sealed traits behind public bounds cannot be named by other crates"
)]

pub mod arch;
mod bias;
mod byte_key;
mod chain;
mod codec;
#[cfg(feature = "crash")]
pub mod crash;
mod delay;
mod ends;
mod error;
mod index;
mod kind;
#[cfg(feature = "crash")]
pub mod lin;
mod map;
pub mod medium;
mod memory;
mod node;
pub mod papers;
mod pool;
mod search;
mod shards;
#[cfg(all(feature = "crash", debug_assertions, not(test), not(loom)))]
mod shared;
mod snapshot;
mod step;
mod stored;
mod sync;
mod table;
mod tally;
mod transaction;
mod tree;
mod version;

pub use codec::{Bytes, EncodedKey, Form, Key, KeyBytes, KeyView, PrefixOf, Value, Word};
#[cfg(feature = "serde")]
pub use codec::{Postcard, PostcardView};
pub use error::{Broken, Error, ErrorGroup, ErrorKind, Refusal, Result};
pub use kind::Kind;
pub use map::{Entries, Map};
pub use medium::{Journal, JournalStat};
pub use node::{ByteLeaf, IndexKind, Node, OneLine, WordNode};
pub use pool::{Compacted, Metrics, Options, Pool, Progress, Snapshots, Stat, TreeInfo, TreeMetrics};
pub use snapshot::{Backup, Snapshot, SnapshotRange};
pub use stored::{Encoded, Stored, ToStore};
pub use table::Table;
pub use transaction::{Scan, Transaction, WriteBatch};
pub use tree::{PTree, Range, Report};

/// The examples of docs/own-types.md, as tests.
#[cfg(all(doctest, feature = "serde"))]
#[doc = include_str!("../docs/own-types.md")]
mod own_types {}
