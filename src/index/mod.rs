//! The index: it leads from a key to a leaf.
//!
//! The index is only an accelerator. It may lag behind a split, because a search that lands too far left moves right
//! along the chain, and a search that lands too far right sees it by the leaf's own `low`. But it never points to a
//! block that could be recycled when a crash happens: an entry is withdrawn, durably, before its leaf leaves the chain.

mod in_memory;
#[cfg(all(test, bristlecone_loom))]
pub(crate) mod models;
#[cfg(all(test, bristlecone_loom))]
mod one_step;
mod persistent;
mod root;
mod separators;
#[cfg(all(test, not(bristlecone_loom)))]
pub(crate) mod trials;
mod version;
#[cfg_attr(
    all(test, bristlecone_loom),
    allow(dead_code, unreachable_pub, reason = "the models of trees have one whose accesses are one step")
)]
mod volatile;

pub(crate) use in_memory::{InMemory, in_memory};
#[cfg(all(test, bristlecone_loom))]
pub(crate) use one_step::{Named, VolatileIndex};
pub(crate) use persistent::{PersistentIndex, Swept, check as check_persistent};
pub(crate) use root::{IndexRoot, RootWord};
pub(crate) use separators::{Lows, Strings};
pub(crate) use version::{IndexVersion, Moved, again};
pub(crate) use volatile::{Bottom, DamagedNode, GROUP, ImageTop, RUN, ReadNode, built as built_volatile, image_of};
#[cfg(not(all(test, bristlecone_loom)))]
pub(crate) use volatile::{Named, VolatileIndex};
