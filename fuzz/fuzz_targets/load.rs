//! See `src/load.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: bristlecone_fuzz::begin("load", bristlecone_fuzz::load::seeds), |data: &[u8]| {
    bristlecone_fuzz::watched(|| bristlecone_fuzz::load::run(data));
});
