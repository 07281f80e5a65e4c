//! Sets `cfg(bristlecone_asm)` where the crate has assembler of its own: on x86-64 and aarch64, under Unix.
//!
//! Everywhere else it is built from portable Rust alone: on other CPUs and systems, under the checkers that cannot see
//! through assembler (Miri, loom, the thread and memory sanitizers), and wherever
//! `RUSTFLAGS="--cfg bristlecone_portable"` asks for it. No C compiler is needed anywhere, except with the feature
//! `asm-shims`: it takes the instructions from `src/arch/shims/*.S`, and sets `cfg(bristlecone_shims)`.
//!
//! Sets `cfg(bristlecone_watched)`, too, under the checkers that watch every access to memory (Miri, the sanitizers).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(bristlecone_asm, bristlecone_shims, bristlecone_watched)");
    if is("MIRI") || is_sanitized_for(&["address", "thread", "memory"]) {
        println!("cargo::rustc-cfg=bristlecone_watched");
    }
    if has_assembler() {
        println!("cargo::rustc-cfg=bristlecone_asm");
        #[cfg(feature = "asm-shims")]
        shims();
    }
}

/// Assembles the file for the target.
#[cfg(feature = "asm-shims")]
fn shims() {
    // The files are in the syntax of ELF's assemblers.
    if ["linux", "android", "freebsd", "netbsd", "openbsd"].contains(&&*cfg("CARGO_CFG_TARGET_OS")) {
        let file = format!("src/arch/shims/{}.S", cfg("CARGO_CFG_TARGET_ARCH"));
        println!("cargo::rerun-if-changed={file}");
        println!("cargo::rustc-cfg=bristlecone_shims");
        cc::Build::new().file(file).compile("bristlecone_shims");
    }
}

/// Whether there is assembler for the target.
fn has_assembler() -> bool {
    let portable =
        is("BRISTLECONE_PORTABLE") || is("MIRI") || is("BRISTLECONE_LOOM") || is_sanitized_for(&["thread", "memory"]);
    let lp64 = cfg("CARGO_CFG_TARGET_POINTER_WIDTH") == "64" && cfg("CARGO_CFG_TARGET_ENDIAN") == "little";
    let known = ["x86_64", "aarch64"].contains(&&*cfg("CARGO_CFG_TARGET_ARCH"));
    !portable && lp64 && is("UNIX") && known
}

/// Whether this configuration option is set.
fn is(name: &str) -> bool {
    env::var_os(format!("CARGO_CFG_{name}")).is_some()
}

/// Whether one of these sanitizers is on. (Only a nightly cargo tells.)
fn is_sanitized_for(sanitizers: &[&str]) -> bool {
    let on = cfg("CARGO_CFG_SANITIZE");
    on.split(',').any(|sanitizer| sanitizers.contains(&sanitizer))
}

/// The value of a variable that cargo sets, empty if it does not.
fn cfg(name: &str) -> String {
    env::var(name).unwrap_or_default()
}
