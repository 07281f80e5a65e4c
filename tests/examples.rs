//! The examples run, on a new pool and on the one that they left.

#[path = "../examples/sessions.rs"]
mod sessions;
#[path = "../examples/timeseries.rs"]
mod timeseries;

use std::path::Path;

fn twice(run: fn(&Path) -> bristlecone::Result<()>) {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        run(&dir.path().join("a.pool")).unwrap();
    }
}

#[test]
fn sessions_run() {
    twice(sessions::run);
}

#[test]
fn timeseries_runs() {
    twice(timeseries::run);
}
