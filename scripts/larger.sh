#!/usr/bin/env bash
# Stores that are larger than the memory that they may use, one after the other, ROUNDS (3) times: half gets, half updates, OPERATIONS (150,000)
# of KEYS (1,000,000). The limit is a quarter of what this crate's pool has. Prints a line of JSON for each store, with the median round.
# Exit status 77: no control group can be made here, or the system does not let its cache go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
keys=${KEYS:-1000000} operations=${OPERATIONS:-150000} rounds=${ROUNDS:-3}
stores=(bristlecone lmdb redb)
cargo build --release --package bristlecone-bench --features import --example larger >&2
program=${CARGO_TARGET_DIR:-target}/release/examples/larger
directory=$(mktemp -d "${TMPDIR:-/var/tmp}/bristlecone-larger.XXXXXX")
source scripts/group.sh
# What is interrupted ends, too.
trap 'exit 143' INT TERM
end() {
    remove_group
    rm -rf "$directory"
}
trap end EXIT

memory=$((1 << 30))
make_group || exit
{ echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null || { echo 'skipped: what is loaded would stay in memory' >&2 && exit 77; }
for store in "${stores[@]}"; do
    "$program" load "$store" "$directory" "$keys" 0
done
memory=$(($(stat -c %s "$directory/bristlecone") / 4))
remove_group
make_group || exit
printf 'the limit is %d MiB\n' $((memory >> 20)) >&2
for round in $(seq "$rounds"); do
    for store in "${stores[@]}"; do
        sync
        echo 3 >/proc/sys/vm/drop_caches
        CACHE=$((memory >> 21)) limited "$program" run "$store" "$directory" "$keys" "$operations" >>"$directory/$store.jsonl"
        tail -n 1 "$directory/$store.jsonl" >&2
    done
done
for store in "${stores[@]}"; do
    # The round in the middle, by the time of an operation.
    sed -E 's/.*"us_per_op":([0-9.]+).*/\1 &/' "$directory/$store.jsonl" | sort -n | sed -n "$(((rounds + 1) / 2))p" |
        sed -E "s/^[^ ]* \{/{\"limit\":$memory,\"rounds\":$rounds,/"
done
