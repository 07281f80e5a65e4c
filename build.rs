//! Assembles the 16-byte compare-and-swap, and sets `cfg(bristlecone_asm)` where there is one.
//!
//! Everywhere else the crate is built from portable Rust alone and needs no C compiler: on other CPUs and systems,
//! under the checkers that cannot see through assembler (Miri, loom, the thread and memory sanitizers), and wherever
//! `RUSTFLAGS="--cfg bristlecone_portable"` asks for it.
//!
//! Sets `cfg(bristlecone_watched)`, too, under the checkers that watch every access to memory (Miri, the sanitizers).

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(bristlecone_asm, bristlecone_watched)");
    if is("MIRI") || is_sanitized_for(&["address", "thread", "memory"]) {
        println!("cargo::rustc-cfg=bristlecone_watched");
    }
    let Some(shim) = shim() else { return };
    println!("cargo::rerun-if-changed={shim}");
    println!("cargo::rustc-cfg=bristlecone_asm");
    if let Err(error) = cc::Build::new().file(shim).try_compile("bristlecone_cas128") {
        let target = cfg("TARGET");
        let variable = target.replace('-', "_");
        println!(
            "cargo::error=bristlecone needs a C compiler for {target} to assemble {shim}: install one, or name it in \
             CC_{variable} and its archiver in AR_{variable}, or build the portable code with \
             RUSTFLAGS=\"--cfg bristlecone_portable\" ({error})"
        );
    }
}

/// The assembler file for the target, if it has one.
fn shim() -> Option<&'static str> {
    let portable = is("BRISTLECONE_PORTABLE") || is("MIRI") || is("LOOM") || is_sanitized_for(&["thread", "memory"]);
    let lp64 = cfg("CARGO_CFG_TARGET_POINTER_WIDTH") == "64" && cfg("CARGO_CFG_TARGET_ENDIAN") == "little";
    if portable || !lp64 || !is("UNIX") {
        return None;
    }
    match cfg("CARGO_CFG_TARGET_ARCH").as_str() {
        "x86_64" => Some("src/arch/cas128_x86_64.S"),
        "aarch64" => Some("src/arch/cas128_aarch64.S"),
        _ => None,
    }
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
