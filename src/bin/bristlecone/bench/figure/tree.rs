//! The contestants of the figures, by name.
//!
//! Behind a `dyn` trait, so that what measures is compiled once; the indirect call is the same for all.

use super::medium::Switched;
use crate::bench::subject::{self, Subject};
use crate::out::Outcome;
use bristlecone::{Circular, Index, Linear, Node, Persistent, Pool, Volatile};
use std::time::Duration;

/// What a figure does with a tree.
pub(crate) trait Tree: Send + Sync {
    fn insert(&self, key: u64, value: u64);
    fn get(&self, key: u64) -> Option<u64>;
    /// A new value for a key that is there.
    fn update(&self, key: u64, value: u64);
    fn remove(&self, key: u64);
    fn len(&self) -> u64;
    /// Closes it; the first error that came up.
    fn close(self: Box<Self>) -> Outcome<()>;

    /// How often it has rebuilt its inner nodes so far, and how long that took; `None` if it never does.
    fn rebuilds(&self) -> Option<(u64, Duration)> {
        None
    }
}

impl<N: Node, I: Index> Tree for subject::Tree<N, I, Switched> {
    fn insert(&self, key: u64, value: u64) {
        Subject::insert(self, key, value);
    }

    fn get(&self, key: u64) -> Option<u64> {
        Subject::get(self, key)
    }

    fn update(&self, key: u64, value: u64) {
        Subject::update(self, key, value);
    }

    fn remove(&self, key: u64) {
        Subject::remove(self, key);
    }

    fn len(&self) -> u64 {
        self.entries()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        (*self).fault()
    }
}

/// The name that a contestant's tree has in its pool.
const NAME: &str = "figure";

/// A tree, whatever its types.
pub(crate) type Boxed = Box<dyn Tree>;

fn opened<N: Node, I: Index>(pool: &Pool<Switched>) -> Outcome<Boxed> {
    Ok(Box::new(subject::Tree::new(pool.tree::<N, I>(NAME)?)))
}

/// One that a figure may name.
pub(crate) struct Contestant {
    pub(crate) name: &'static str,
    /// Whether it writes back at all.
    pub(crate) durable: bool,
    /// The bytes of a node's slots that it is compiled for.
    pub(crate) sizes: &'static [u32],
    /// Opens its tree with nodes of one of these sizes, or creates it.
    pub(crate) open: fn(&Pool<Switched>, u32) -> Outcome<Boxed>,
}

/// A contestant whose tree is a `PTree`: name, whether it writes back, where its index lives, the layout with `$slots` slots,
/// and the bytes of slots that there are. Each size costs a second of compile time, unless another contestant has it.
macro_rules! contestant {
    ($name:literal, $durable:literal, $index:ty, $slots:ident => $layout:ty, [$($bytes:literal)*]) => {
        Contestant {
            name: $name,
            durable: $durable,
            sizes: &[$($bytes),*],
            open: |pool, bytes| match bytes {
                $($bytes => {
                    const $slots: usize = $bytes / 16;
                    opened::<$layout, $index>(pool)
                })*
                _ => Err(format!("{}: no nodes of {bytes} bytes", $name).into()),
            },
        }
    };
}

/// All that there are. A name that a figure has and this table has not is not available.
pub(crate) const TABLE: &[Contestant] = &[
    contestant!("volatile-std", false, Persistent, S => Linear<S>, [512 1024 2048 4096 8192]),
    contestant!("volatile-circ", false, Persistent, S => Circular<S>, [512 1024 2048 4096]),
    contestant!("fast-fair", true, Persistent, S => Linear<S>, [512 1024 2048 4096 8192]),
    contestant!("fast-fair-leaves", true, Volatile, S => Linear<S>, [512 1024 2048 4096]),
    contestant!("circ", true, Persistent, S => Circular<S>, [512 1024 2048 4096]),
];

pub(crate) fn find(name: &str) -> Option<&'static Contestant> {
    TABLE.iter().find(|contestant| contestant.name == name)
}
