//! What every layout does: of the papers, and leaves of other sizes than the default. The tests are written in
//! `tests/trees`, which has those of the default; here is what takes long to compile. Run by `scripts/check systems`.

#[macro_use]
#[path = "../trees/layouts.rs"]
mod layouts;

/// A test of each layout that `tests/trees` does not have.
///
/// The two flat indexes differ only in how they handle a full parent, which is the same for every layout: so the fixed
/// one is tested with two of these.
macro_rules! in_every_layout {
    ($run:ident) => {
        for_layouts! { $run:
            linear_5: Linear<5>, [Volatile Persistent Flat];
            circular_4: Circular<4>, [Volatile Persistent Flat];
            circular_8: Circular<8>, [Volatile Persistent Flat];
            sentinel_circular_16: Sentinel<Circular<16>>, [Volatile Persistent Flat];
            fingerprinted_linear_64: Fingerprinted<Linear<64>>, [Volatile Persistent Flat];
            crab_opt_4: CowSip<4, { crab::OPT }>, [Volatile Persistent Flat];
            cow_only_4: CowSip<4, { crab::COPY_ONLY }>, [Volatile Persistent Flat];
            append_3: Append<3>, [Volatile Persistent Flat FlatFixed];
            append_fixed_4: Append<4, Fixed>, [Volatile Persistent Flat FlatFixed];
            fingerprint_4: Fingerprint<4>, [Volatile Persistent Flat];
            logged_4: Logged<4>, [Volatile Persistent Flat];
            versioned_4: Versioned<4>, [Volatile Persistent Flat];
        }
    };
}

#[path = "../trees/clean.rs"]
mod clean;
mod compacting;
mod crash;
#[path = "../trees/crashing.rs"]
mod crashing;
#[path = "../trees/ending.rs"]
mod ending;
#[path = "../trees/filled.rs"]
mod filled;
#[path = "../trees/medium.rs"]
mod medium;
#[path = "../trees/model.rs"]
mod model;
#[path = "../trees/part.rs"]
mod part;
#[path = "../trees/persists.rs"]
mod persists;
#[path = "../trees/record_verbs.rs"]
mod record_verbs;
#[path = "../trees/stress/mod.rs"]
mod stress;
#[path = "../trees/windows.rs"]
mod windows;

pub(crate) use part::{long, part_of};
