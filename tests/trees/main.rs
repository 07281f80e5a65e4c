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

/// Whether tests run whole, as `scripts/check long` wants it. `cargo test` takes a part, to be done in minutes.
fn long() -> bool {
    std::env::var_os("BRISTLECONE_LONG").is_some()
}

/// All, or a fifth if tests do not run whole.
fn part_of(all: u64) -> u64 {
    if long() { all } else { all / 5 }
}

/// Options without a journal, whatever the file system of the directory for temporary files: what is tested here is the
/// pool's file alone.
fn plain() -> bristlecone::Options {
    bristlecone::Pool::options().journal(bristlecone::Journal::None)
}
