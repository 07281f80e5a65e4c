#!/usr/bin/env bash
# Runs the papers' figures again, all of them in less than two hours, and writes what docs/papers.md shows of them:
# `scripts/papers.sh [FIGURE...]`, where a figure is circ:7a, or circ for all of a paper. N=100000 keys; TIMES=3 repeats.
# Two of them have clients of redis-server, if it is there.
#
# A machine that does other things meanwhile is measured with them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
n=${N:-100000} times=${TIMES:-3}
cargo build --release -p bristlecone-bench --features "figures,${FEATURES:-peers}"
bench=${CARGO_TARGET_DIR:-target}/release/bristlecone-bench
mkdir -p docs/papers docs/figures
wanted=("$@")

# Whether a figure was asked for: by its name, or by that of its paper.
is_wanted() {
    [[ ${#wanted[@]} -gt 0 ]] || return 0
    local word
    for word in "${wanted[@]}"; do
        [[ $1 != "$word" && $1 != "$word":* ]] || return 0
    done
    return 1
}

# FLUSH FIGURE OPTION...: one figure, whose results are a file of their own.
run() {
    local flush=$1 figure=$2
    shift 2
    is_wanted "$figure" || return 0
    local file=docs/papers/${figure/:/-}${flush:+-$flush}.jsonl
    printf '%s %s %s\n' "$figure" "$flush" "$*" >&2
    if ! BRISTLECONE_FLUSH=$flush "$bench" --figure "$figure" --seed 1 --json "$file.new" "$@" >/dev/null; then
        rm -f "$file.new"
        printf '%s: failed\n' "$figure" >&2
        return 1
    fi
    # A figure that cannot be had here has no results.
    if [[ -s $file.new ]]; then mv "$file.new" "$file"; else rm -f "$file.new"; fi
}

# With the paper's instruction, and with clwb.
both() {
    local flush=$1
    shift
    run "$flush" "$@"
    run clwb "$@"
}

# Counts are the same with each instruction.
for figure in circ:7b circ:7c nv:1c nv:1d nv:6 nv:7 crab:8a crab:8b crab:8c crab:10; do
    run clwb $figure --n $((n * 3 / 2))
done
# Simulated; skipped where there is no valgrind.
for figure in nv:9 nv:10; do
    run clwb $figure --n $((n / 2))
done
for figure in circ:7a circ:7d circ:8b sentinel:1 sentinel:4a sentinel:4b; do
    both clflushopt $figure --n "$n" --repeat "$times"
done
for figure in circ:9a circ:9b sentinel:6a sentinel:6b; do
    run clflushopt $figure --n $((n / 4)) --repeat "$times"
done
# The stores: records of a thousand bytes, each with a wait for every line.
for figure in circ:10 circ:11 sentinel:8; do
    run clflushopt $figure --n $((n / 10)) --repeat "$times"
done
run clflushopt sentinel:7 --n $((n / 2)) --repeat "$times"
run clflushopt circ:keys --n "$n" --repeat "$times" --slow 0
for figure in nv:18 nv:19; do
    run clflush $figure --n "$n" --repeat "$times" --slow 0
done
run clflushopt circ:8a --n $((n * 5)) --repeat 1
run clflushopt circ:table1 --n $((n * 5)) --repeat "$times"
for figure in sentinel:4c sentinel:4d; do
    run clflushopt $figure --n $((n * 2)) --repeat 1
done
for figure in sentinel:5a sentinel:5b; do
    run clflushopt $figure --n $((n * 5)) --repeat 1
done
for figure in nv:1a nv:5 nv:11 nv:12 nv:13 nv:14 nv:15 nv:16 nv:20a; do
    both clflush $figure --n $((n / 2)) --repeat "$times" --slow 0
done
run clwb nv:20b --n $((n / 2)) --repeat "$times" --slow 0
run clflush nv:8 --n $((n * 2)) --repeat 1 --slow 0
run clflush nv:17 --n "$n" --repeat "$times" --slow 0
run clflush nv:table4 --n $((n * 10)) --repeat 1 --slow 0
for figure in crab:2 crab:2d crab:7 crab:11 crab:12; do
    run clwb $figure --n "$n" --repeat "$times"
done
run clwb crab:9 --n $((n * 2)) --repeat 1
run clwb crab:13 --n $((n * 10)) --repeat 1

commit=$(git rev-parse --short HEAD)
[[ -z $(git status --porcelain --untracked-files=no -- src bench Cargo.toml) ]] || commit+=' with changes'
cpu=$(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -1)
printf '{"figure":"setting","commit":"%s","cpu":"%s","cpus":%d,"kernel":"%s"}\n' \
    "$commit" "$cpu" "$(nproc)" "$(uname -r)" >docs/papers/setting.jsonl
BRISTLECONE_WRITE=1 cargo test -q -p bristlecone-bench --test papers
