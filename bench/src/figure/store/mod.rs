//! The figures of the papers' key-value stores, which run workloads of YCSB.
//!
//! Circ-Tree and Sentinel Array have [values of ten fields](fields) behind any of their trees, and show the
//! [tail](tail) of latencies. NV-Tree's NV-Store has [clients](clients), and shows their throughput; so do Circ-Tree's
//! [hashed](hashed) keys.

pub(crate) mod clients;
mod fields;
mod hashed;
pub(crate) mod tail;
