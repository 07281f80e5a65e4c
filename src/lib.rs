//! Persistent B+-trees that outlive crashes.

pub mod arch;
mod chain;
mod codec;
#[cfg(feature = "crash")]
pub mod crash;
mod error;
mod index;
mod map;
pub mod medium;
mod node;
mod pool;
mod sync;
mod tree;

pub use codec::{Encoded, Key, Kind, Stored, Value};
pub use error::{Broken, Error, Result};
pub use index::{Index, IndexKind, Persistent, Volatile};
pub use map::{Entries, Map};
pub use node::{Circular, Linear, Node, Side, Span, Window};
pub use pool::{Options, Pool, Stat, TreeInfo};
pub use tree::{PTree, Range, Report};

/// Circ-Tree: circular nodes of 32 entries (512 bytes).
pub type CircTree<I = Volatile, M = medium::Mapped> = PTree<Circular<32>, I, M>;
/// FAST+FAIR: linear nodes of 32 entries (512 bytes).
pub type FastFair<I = Volatile, M = medium::Mapped> = PTree<Linear<32>, I, M>;
