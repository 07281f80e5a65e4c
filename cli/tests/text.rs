//! The files of the command line that only turn text into entries and figures into text, compiled by themselves: with
//! all of it, their tests would take most of a minute to compile.
#![allow(dead_code, unused_imports, unused_macros, reason = "the command line uses all of it")]

#[path = "../src/common/mod.rs"]
mod common;
#[path = "../src/escape.rs"]
mod escape;
#[path = "../src/json_entry.rs"]
mod json_entry;
#[path = "../src/keys.rs"]
mod keys;
#[path = "../src/lines.rs"]
mod lines;
#[path = "../src/tools/bench/spread.rs"]
mod spread;
#[path = "../src/tools/told.rs"]
mod told;
#[path = "../src/values.rs"]
mod values;

use common::{numbers, out, parse};
