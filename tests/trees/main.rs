//! What trees do, as users see it. All in one program, so that a tree that several of these tests use is compiled once.

#[macro_use]
mod layouts;

/// A test of each layout that users get without asking for another one. `tests/layouts` has the others.
macro_rules! in_every_layout {
    ($run:ident) => {
        for_layouts! { $run:
            one_line_7: OneLine<7>, [Volatile Persistent Flat FlatFixed];
            one_line_39: OneLine, [Volatile Persistent Flat];
        }
    };
}

mod bytes;
mod catalog;
mod clean;
mod costs;
mod crafted_bytes;
mod crash;
mod crashing;
mod damage;
mod ending;
mod errors;
mod filled;
mod loading;
mod map;
mod map_api;
mod medium;
mod model;
mod names;
mod openings;
mod own;
mod part;
mod persists;
mod postcard;
mod power_loss;
mod record_verbs;
mod records;
mod snapshot;
mod starving;
mod stress;
mod transaction;
mod windows;

pub(crate) use part::{long, part_of};

/// Options without a journal, whatever the file system of the directory for temporary files: what is tested here is the
/// pool's file alone.
fn plain() -> bristlecone::Options {
    bristlecone::Pool::options().journal(bristlecone::Journal::None)
}
