//! The examples run, on a new pool and on the one that they left.

#[cfg(feature = "serde")]
#[path = "../../examples/cache.rs"]
mod cache;
#[path = "../../examples/sessions.rs"]
mod sessions;
#[path = "../../examples/timeseries.rs"]
mod timeseries;

use std::fmt::Debug;
use std::path::Path;

fn twice<E: Debug>(run: fn(&Path) -> Result<(), E>) {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        run(&dir.path().join("a.pool")).unwrap();
    }
}

#[cfg(feature = "serde")]
#[test]
fn cache_runs() {
    twice(cache::run);
}

#[test]
fn sessions_run() {
    twice(sessions::run);
}

#[test]
fn timeseries_runs() {
    twice(timeseries::run);
}
