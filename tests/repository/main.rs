//! What the repository has beside the library: examples that run, documents that say what the code says, and what the
//! compiler makes of it.

#[cfg(all(target_arch = "x86_64", bristlecone_asm))]
mod assembly;
mod examples;
mod steps;
#[cfg(feature = "tracing")]
mod traced;
