//! The part that the benchmarks need, too: they compile this folder a second time. It does not depend on any
//! subcommand.

pub(crate) mod numbers;
pub(crate) mod out;
pub(crate) mod parse;
pub(crate) mod pipe;
pub(crate) mod scratch;
pub(crate) mod shape;
