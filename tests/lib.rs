//! The tests of bristlecone from outside that may run unoptimised: a profile belongs to a package, so these are one.
//!
//! The library, which is optimised, has the code of most trees that they use (its feature `instances`).
