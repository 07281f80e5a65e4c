//! See `src/open.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: bristlecone_fuzz::begin("open", bristlecone_fuzz::open::seeds), |data: &[u8]| {
    bristlecone_fuzz::watched(|| bristlecone_fuzz::open::run(data));
});
