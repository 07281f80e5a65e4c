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
