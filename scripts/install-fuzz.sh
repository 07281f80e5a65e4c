#!/usr/bin/env bash
# Gets what `scripts/check fuzz-smoke` needs, if it is not here yet, and prints the folder of cargo-fuzz.
# Exit status 77: it cannot be had here.
set -euo pipefail

tools=${XDG_CACHE_HOME:-$HOME/.cache}/bristlecone-tools

skip() {
    echo "skipped: $*" >&2
    exit 77
}

command -v c++ >/dev/null || skip "there is no C++ compiler to build libFuzzer with"
if found=$(command -v cargo-fuzz); then
    dirname "$found"
    exit
fi
if [[ ! -x $tools/bin/cargo-fuzz ]]; then
    # Built apart from the crate, whose settings and target directory are none of its business.
    cd /
    unset RUSTFLAGS CARGO_TARGET_DIR
    cargo install --locked --root "$tools" --version '^0.13' cargo-fuzz >&2 || skip "cargo-fuzz cannot be installed"
fi
echo "$tools/bin"
