//! How long tests run.

/// Whether tests run as long as `scripts/check long` wants it, which is what finds rare interleavings. `cargo test`
/// takes a part of that, because its code is not optimised.
pub(crate) fn long() -> bool {
    std::env::var_os("BRISTLECONE_LONG").is_some()
}
