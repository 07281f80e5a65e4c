#!/usr/bin/env bash
# Gets what `scripts/check aarch64` needs, if it is not here yet, and prints the path of the emulator:
#  - the Rust target, whose linker comes with Rust;
#  - a C cross compiler, for the assembler files, and its headers, for a dependency of the tests;
#  - qemu 10 or later. The version counts: 7.2 announces `dc cvap` and `dc cvadp`, and kills the program that uses them.
# Exit status 77: it cannot be had here.
set -euo pipefail

readonly oldest=10
tools=${XDG_CACHE_HOME:-$HOME/.cache}/bristlecone-tools

skip() {
    echo "skipped: $*" >&2
    exit 77
}

# Whether the program is a qemu that is new enough.
good() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n '1s/.*version \([0-9]*\).*/\1/p') || return
    [[ -n $version && $version -ge $oldest ]]
}

# Writes the machine's own package sources to $2, with the suite replaced by $1.
sources() {
    local file
    for file in /etc/apt/sources.list.d/{debian,ubuntu}.sources; do
        [[ -r $file ]] || continue
        awk -v RS= -v ORS='\n\n' -v own="$VERSION_CODENAME" -v suite="$1" \
            '$0 ~ "\nSuites:([^\n]*[ \t])?" own "([ \t\n]|$)" { sub(/\nSuites:[^\n]*/, "\nSuites: " suite); print }' \
            "$file" >"$2.sources"
        [[ ! -s $2.sources ]] || return 0
    done
    [[ -r /etc/apt/sources.list ]] || return 1
    sed -n "s/^\(deb .*\) $VERSION_CODENAME \(.*\)/\1 $1 \2/p" /etc/apt/sources.list >"$2.list"
    [[ -s $2.list ]]
}

# Takes the emulator out of the package of suite $1. Installs nothing, and leaves the machine's package lists alone.
fetch() {
    local work
    work=$(mktemp -d)
    (
        cd "$work"
        mkdir -p lists/partial cache/archives/partial none
        sources "$1" "$work/suite" || exit 1
        options=(
            -o "Dir::Etc::SourceList=$(echo "$work"/suite.*)" -o "Dir::Etc::SourceParts=$work/none"
            -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)"
        )
        apt-get "${options[@]}" -qq update && apt-get "${options[@]}" -qq download "qemu-user/$1" || exit 1
        dpkg-deb --fsys-tarfile qemu-user_*.deb | tar -x ./usr/bin/qemu-aarch64 || exit 1
        good usr/bin/qemu-aarch64 || exit 1
        mkdir -p "$tools"
        mv usr/bin/qemu-aarch64 "$tools/"
    ) >&2
    local status=$?
    rm -rf "$work"
    return $status
}

rustup target add aarch64-unknown-linux-musl >&2 || skip "Rust's aarch64-unknown-linux-musl cannot be installed"

if ! command -v aarch64-linux-gnu-gcc >/dev/null || [[ ! -e /usr/aarch64-linux-gnu/include/stdint.h ]]; then
    command -v apt-get >/dev/null || skip "there is no aarch64-linux-gnu-gcc, and no apt-get to install it"
    root=()
    [[ $(id -u) == 0 ]] || root=(sudo -n)
    "${root[@]}" apt-get -qq update >&2 &&
        "${root[@]}" apt-get -qq -y --no-install-recommends install gcc-aarch64-linux-gnu libc6-dev-arm64-cross >&2 ||
        skip "gcc-aarch64-linux-gnu cannot be installed"
fi

for qemu in "$tools/qemu-aarch64" qemu-aarch64 qemu-aarch64-static; do
    if good "$qemu"; then
        command -v "$qemu"
        exit
    fi
done
command -v apt-get >/dev/null || skip "there is no qemu-aarch64 $oldest or later, and no apt-get to fetch it"
VERSION_CODENAME=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
for suite in "$VERSION_CODENAME-backports" "$VERSION_CODENAME"; do
    if fetch "$suite"; then
        echo "$tools/qemu-aarch64"
        exit
    fi
done
skip "no static qemu-aarch64 $oldest or later could be fetched from the packages of this system"
