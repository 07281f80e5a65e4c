//! The files of the command line that only turn text into entries and figures into text, compiled by themselves: with
//! all of it, their tests would take most of a minute to compile.
#![cfg(feature = "cli")]
#![allow(dead_code, unused_imports, unused_macros, reason = "the command line uses all of it")]

#[path = "../src/bin/bristlecone/common/mod.rs"]
mod common;
#[path = "../src/bin/bristlecone/escape.rs"]
mod escape;
#[path = "../src/bin/bristlecone/json_entry.rs"]
mod json_entry;
#[path = "../src/bin/bristlecone/keys.rs"]
mod keys;
#[path = "../src/bin/bristlecone/lines.rs"]
mod lines;
#[path = "../src/bin/bristlecone/bench/spread.rs"]
mod spread;
#[path = "../src/bin/bristlecone/told.rs"]
mod told;
#[path = "../src/bin/bristlecone/values.rs"]
mod values;

use common::{numbers, out, parse};
