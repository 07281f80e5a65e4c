//! What trees do, as users see it. All in one program, so that a tree that several of these tests use is compiled once.

mod bytes;
mod catalog;
#[cfg(feature = "crash")]
mod clean;
#[cfg(feature = "crash")]
mod compacting;
mod crafted_bytes;
#[cfg(feature = "crash")]
mod crash;
mod damage;
mod ending;
mod errors;
mod filled;
mod layouts;
mod map;
mod map_api;
mod medium;
mod model;
mod names;
mod own;
mod persists;
#[cfg(feature = "serde")]
mod postcard;
mod power_loss;
mod records;
mod snapshot;
mod stress;
mod transaction;
mod windows;

/// What part of `all` a test takes: the whole in `scripts/check long`, a fifth in `cargo test`, whose code is not
/// optimised.
fn part_of(all: u64) -> u64 {
    if std::env::var_os("BRISTLECONE_LONG").is_some() { all } else { all / 5 }
}
