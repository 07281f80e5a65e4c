//! See `src/ops.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: bristlecone_fuzz::begin("ops", bristlecone_fuzz::ops::seeds), |data: &[u8]| {
    bristlecone_fuzz::watched(|| bristlecone_fuzz::ops::run(data));
});
