//! How much of a test is done: `cargo test` is to be done in minutes.

/// Whether tests run whole, as `scripts/check long` wants it. `cargo test` takes a part.
pub(crate) fn long() -> bool {
    std::env::var_os("BRISTLECONE_LONG").is_some()
}

/// All, or a fifth if tests do not run whole.
pub(crate) fn part_of(all: u64) -> u64 {
    if long() { all } else { all / 5 }
}
