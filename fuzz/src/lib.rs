//! The fuzz targets, each a function of bytes: `run` executes an input, `seeds` makes inputs to start from.
//!
//! `scripts/fuzz.sh seeds` writes the seeds to `fuzz/seeds`.

pub mod crash;
mod data;
pub mod load;
pub mod open;
pub mod ops;
mod snapshots;
mod strings;
mod tables;
mod transactions;
mod trees;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Inputs by name.
pub type Seeds = Vec<(String, Vec<u8>)>;

/// When the current input was started.
static BEGUN: Mutex<Option<Instant>> = Mutex::new(None);

/// Executes an input, which is watched by the thread that [`begin`] starts.
pub fn watched(run: impl FnOnce()) {
    *BEGUN.lock().unwrap() = Some(Instant::now());
    run();
    *BEGUN.lock().unwrap() = None;
}

/// Ends the process if an input takes too long; the fuzzer itself would wait for 20 minutes. If seeds were asked for,
/// writes them and ends.
pub fn begin(target: &str, seeds: fn() -> Seeds) {
    if let Some(folder) = std::env::var_os("BRISTLECONE_WRITE_SEEDS") {
        write(&PathBuf::from(folder).join(target), &seeds());
        std::process::exit(0);
    }
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let begun = *BEGUN.lock().unwrap();
            if begun.is_some_and(|begun| begun.elapsed() > Duration::from_secs(60)) {
                eprintln!("an endless loop or a deadlock");
                std::process::abort();
            }
        }
    });
}

fn write(folder: &Path, seeds: &Seeds) {
    std::fs::create_dir_all(folder).unwrap();
    for (name, bytes) in seeds {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
}
