#!/usr/bin/env bash
# Gets what `scripts/check semver` needs, if it is not here yet, and prints the folder of cargo-semver-checks.
# Exit status 77: it cannot be had here.
set -euo pipefail

tools=${XDG_CACHE_HOME:-$HOME/.cache}/bristlecone-tools

if found=$(command -v cargo-semver-checks); then
    dirname "$found"
    exit
fi
if [[ ! -x $tools/bin/cargo-semver-checks ]]; then
    # Built apart from the crate, whose settings and target directory are none of its business.
    cd /
    unset RUSTFLAGS CARGO_TARGET_DIR
    cargo install --locked --root "$tools" cargo-semver-checks >&2 || {
        echo "skipped: cargo-semver-checks cannot be installed" >&2
        exit 77
    }
fi
echo "$tools/bin"
