//! See `src/crash.rs`.
#![no_main]

libfuzzer_sys::fuzz_target!(init: bristlecone_fuzz::begin("crash", bristlecone_fuzz::crash::seeds), |data: &[u8]| {
    bristlecone_fuzz::watched(|| bristlecone_fuzz::crash::run(data));
});
