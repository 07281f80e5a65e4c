#!/usr/bin/env bash
# The fuzz targets: `scripts/fuzz.sh smoke`, `one TARGET SECONDS`, `hours N [TARGET...]`, `seeds`, `coverage`.
# What an input finds to be new is kept in the target directory. Exit status 77: it cannot be had here.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-target} built=${CARGO_TARGET_DIR:-fuzz/target}
targets=(ops crash open load)
host=$(rustc -vV | sed -n 's/^host: //p')

tools=$(scripts/install-fuzz.sh)
export PATH=$tools:$PATH
# The sanitizer that finds the bugs wants nightly, or a stable compiler that is told to behave like one.
cargo=(cargo)
if cargo +nightly --version >/dev/null 2>&1; then cargo+=(+nightly); else export RUSTC_BOOTSTRAP=1; fi
# What is allocated and freed is remembered without the stack of who did it, and stack frames are not kept after their return:
# each takes a tenth of the time.
export ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=16:detect_stack_use_after_return=0:${ASAN_OPTIONS:-}

# Comparisons are not traced: inputs are verbs and small numbers, and it takes a third of the time.
build() {
    "${cargo[@]}" fuzz build --no-trace-compares --codegen-units 16
}

# Runs a target on `$2` cores for `$3` seconds, and prints a JSON object. Which input to change next is drawn evenly: with tens
# of thousands of edges, the fuzzer's own way to weigh them takes three quarters of the time.
run() {
    local name=$1 cores=$2 seconds=$3 corpus logs core pids=() failed=0
    corpus=$target/fuzz-corpus/$name logs=$target/fuzz-logs/$name
    mkdir -p "$corpus" "$logs" fuzz/artifacts/"$name"
    for ((core = 0; core < cores; core++)); do
        "$built/$host/release/$name" -max_total_time="$seconds" -print_final_stats=1 -reload=10 -timeout=60 \
            -entropic=0 -print_funcs=0 -rss_limit_mb=4096 -max_len=4096 -artifact_prefix="fuzz/artifacts/$name/" \
            "$corpus" "fuzz/seeds/$name" 2>"$logs/$core" &
        pids+=($!)
    done
    for core in "${!pids[@]}"; do
        wait "${pids[core]}" || { failed=$((failed + 1)); tail -n 60 "$logs/$core" >&2; }
    done
    awk -v name="$name" -v cores="$cores" -v failed="$failed" '
        /^stat::number_of_executed_units/ { runs += $2 }
        /^Done [0-9]+ runs in/ { if ($5 > seconds) seconds = $5 }
        { for (i = 1; i < NF; i++) if ($i == "cov:" && $(i + 1) > cov) cov = $(i + 1) }
        END {
            printf "{\"target\":\"%s\",\"cores\":%d,\"seconds\":%d,\"executions\":%d,\"per_second_and_core\":%d,\"edges\":%d,\"findings\":%d}\n",
                name, cores, seconds, runs, seconds ? runs / seconds / cores : 0, cov, failed
        }' "$logs"/*
    rm -r "$logs"
    return $((failed > 0))
}

# Each target for FUZZ_SECONDS (60) on one core, as many at once as there are cores.
smoke() {
    local cores i failed=0
    cores=$(getconf _NPROCESSORS_ONLN)
    # In a third of the time, for what runs for seconds.
    CARGO_PROFILE_RELEASE_OPT_LEVEL=0 build
    for i in "${!targets[@]}"; do
        [[ $i -lt $cores ]] || wait -n || failed=1
        run "${targets[i]}" 1 "${FUZZ_SECONDS:-60}" &
    done
    for ((i = 0; i < cores && i < ${#targets[@]}; i++)); do wait -n || failed=1; done
    return $failed
}

# One target on all cores for so many seconds.
one() {
    build
    run "$1" "$(getconf _NPROCESSORS_ONLN)" "$2"
}

# Each target in turn, or those that are named, on all cores, for so many hours in all; then what was reached.
hours() {
    local hours=$1 cores seconds name failed=0
    shift
    [[ $# -eq 0 ]] || targets=("$@")
    cores=$(getconf _NPROCESSORS_ONLN)
    seconds=$(awk -v hours="$hours" -v n="${#targets[@]}" 'BEGIN { print int(hours * 3600 / n) }')
    build
    for name in "${targets[@]}"; do run "$name" "$cores" "$seconds" || failed=1; done
    coverage >&2
    return $failed
}

# Writes the seeds anew.
seeds() {
    local name
    build
    for name in "${targets[@]}"; do
        rm -rf "fuzz/seeds/$name"
        BRISTLECONE_WRITE_SEEDS=fuzz/seeds "$built/$host/release/$name"
    done
}

# How much of `src/` the seeds and the corpora reach. Does without, where the tools for it cannot be had.
coverage() {
    local llvm name profiles=() objects=()
    llvm=$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/$host/bin
    if [[ ! -x $llvm/llvm-cov ]] && ! rustup component add llvm-tools --toolchain nightly >/dev/null 2>&1; then
        echo "no coverage: the component llvm-tools of a nightly toolchain cannot be had here"
        return
    fi
    for name in "${targets[@]}"; do
        mkdir -p "$target/fuzz-corpus/$name"
        cargo +nightly fuzz coverage "$name" "fuzz/seeds/$name" "$target/fuzz-corpus/$name"
        profiles+=("fuzz/coverage/$name/coverage.profdata")
        objects+=(-object "target/$host/coverage/$host/release/$name")
    done
    "$llvm/llvm-profdata" merge "${profiles[@]}" -o fuzz/coverage/all.profdata
    "$llvm/llvm-cov" report "${objects[@]:1}" -instr-profile=fuzz/coverage/all.profdata \
        --ignore-filename-regex='/(fuzz|\.cargo|rustc|library)/' | awk '{ print $1, $7, $8, $9, $10 }' | column -t
}

"$@"
