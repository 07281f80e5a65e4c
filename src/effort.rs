//! How long tests run.

/// Whether tests run as long as `scripts/check long` wants it, which is what finds rare interleavings. `cargo test`
/// takes a part of that, to be done in minutes.
pub(crate) fn long() -> bool {
    std::env::var_os("BRISTLECONE_LONG").is_some()
}
