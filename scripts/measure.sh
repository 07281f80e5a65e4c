#!/usr/bin/env bash
# Measures what the generated tables and the picture of docs/benchmarks.md show: `scripts/measure.sh [NAME...]`, all of it in
# more than an hour. A machine that does other things meanwhile is measured with them.
#
# `BRISTLECONE_WRITE=1 cargo test -p bristlecone-bench --test tables` then writes the tables. `just bench-page` does both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
cargo build --release -p bristlecone-bench --features "${FEATURES:-peers-masstree}"
bench=${CARGO_TARGET_DIR:-target}/release/bristlecone-bench
all=insert,get,miss,multi-get,update,scan,scan100,remove
ycsb=ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f

run() {
    local name=$1
    shift
    [[ " ${names:-$name} " == *" $name "* ]] || return 0
    printf '%s: %s\n' "$name" "$*" >&2
    "$bench" --seed 1 --json "$@" >"docs/benchmarks/$name.jsonl.new"
    mv "docs/benchmarks/$name.jsonl.new" "docs/benchmarks/$name.jsonl"
}

names=$*
mkdir -p docs/benchmarks
words=${all/,miss,/,miss,dependent,}
among=rwlock-btreemap,brie-tree,congee,scc-treeindex,crossbeam-skiplist
run words --layout one_line,circular,btreemap --peers $among --n 1M --mix ${words/insert,/insert,batch16,batch,} --repeat 5 --no-counts \
    --svg docs/maps-1m.svg
run words-10m --layout one_line,btreemap --peers brie-tree --n 10M --mix ${words/scan,/} --repeat 1 --no-counts
among=brie-tree,congee,scc-treeindex
run words-zipfian --layout one_line,btreemap --peers $among --n 1M --keys zipfian --mix insert,get,multi-get,update --no-counts
for keys in ascending descending clustered; do
    run words-$keys --layout one_line,btreemap --peers $among --n 1M --keys $keys --mix insert,get,scan100,remove --no-counts
done
run words-ycsb --layout one_line,btreemap --peers rwlock-btreemap,brie-tree,scc-treeindex,crossbeam-skiplist --n 1M \
    --keys zipfian --mix $ycsb --no-counts
run words-threads --layout one_line --n 1M --mix insert,get,update,remove --threads 2 --no-counts --repeat 7
run words-power --layout one_line,circular,linear --n 1M --mix insert,batch16,batch,update,remove --flush power --no-counts
slow="--layout one_line,circular,linear --n 1M --mix insert --no-counts --slow 300"
run words-slow $slow
run words-slow-rounds $slow --slow-per round
run limits --n 1M --mix limits --repeat 5
run limits-10m --n 10M --mix limits
run words-100m --layout one_line,btreemap --n 100M --operations 10M --mix insert,get,multi-get,scan100 --repeat 1 --no-counts
volatile=crossbeam-skiplist,scc-treeindex,blart,masstree
run maps --key user --layout one_line,btreemap --peers $volatile --n 1M --mix $all --no-counts
run user-100 --key user --value 100 --layout one_line,btreemap --n 1M --mix $all --no-counts
run uuid-8 --key uuid --layout one_line,btreemap --n 1M --mix $all --no-counts
run uuid-100 --key uuid --value 100 --layout one_line,btreemap --n 1M --mix $all --no-counts
run user-8-10m --key user --layout one_line,btreemap --n 10M --mix ${all/scan,/} --repeat 1 --no-counts
run user-100-10m --key user --value 100 --layout one_line,btreemap --n 10M --mix ${all/scan,/} --repeat 1 --no-counts
run uuid-8-10m --key uuid --layout one_line,btreemap --n 10M --mix ${all/scan,/} --repeat 1 --no-counts
run stores --key user --peers lmdb,lmdb-txn,redb,fjall,sled --n 1M --mix insert,get,update,scan100 --repeat 1 --no-counts \
    --svg docs/stores-1m.svg
# Every store there is. A short scan takes one of them half a millisecond.
served=redis,redb,lmdb-txn,fjall,sled,sqlite
[[ ${FEATURES:-} != *rocksdb* ]] || served+=,rocksdb
command -v redis-server >/dev/null || served=${served#redis,}
serve="--key user --peers $served --operations 100K --keys zipfian --mix $ycsb --repeat 1 --no-counts"
run ycsb --value 1000 --n 1M $serve
run ycsb-10m --value 100 --n 10M $serve
[[ $served != redis* ]] ||
    run redis --key user --value 100 --peers redis --n 1M --mix insert,batch,get,multi-get --repeat 3 --no-counts
run reopen-words-10m --n 10M --mix reopen
run reopen --key user --n 1M --mix reopen
run reopen-10m --key user --n 10M --mix reopen
run space --key user --peers lmdb,redb,fjall,sled --n 1M --mix space
run space-100 --key user --value 100 --peers lmdb,redb,fjall,sled --n 1M --mix space
run counts --key user --n 1M --mix insert,update,remove --flush power --repeat 1
run transaction --n 1M --mix transaction --repeat 9
run snapshot --n 1M --mix snapshot --repeat 9
run conflict --layout one_line,nv_store --peers redb,lmdb-txn --n 1M --keys zipfian --threads 8 --mix conflict --repeat 1
run backup --n 1M --mix backup --repeat 9
run backup-10m --n 10M --mix backup --repeat 5
run journal --n 1M --mix journal --repeat 9
run journal-user --key user --n 1M --mix journal --repeat 5
run pauses --n 1M --mix pauses --repeat 3
run pauses-user --key user --value 100 --n 1M --mix pauses --repeat 3
# On a disk: the temporary directory, or the current one. All that is written to that disk meanwhile is counted.
durable=canopydb,fjall,lmdb,redb,sqlite
[[ $served != redis* ]] || durable+=,redis
[[ ${FEATURES:-} != *rocksdb* ]] || durable+=,rocksdb
run durable --peers $durable --n 1M --mix durable --repeat 3
run durable-user --key user --peers $durable --n 1M --mix durable --repeat 3
if [[ " ${names:-larger} " == *" larger "* ]]; then
    if scripts/larger.sh >docs/benchmarks/larger.jsonl.new; then
        mv docs/benchmarks/larger.jsonl.new docs/benchmarks/larger.jsonl
    else
        rm -f docs/benchmarks/larger.jsonl.new
        echo 'larger: not measured' >&2
    fi
fi
run reopen-journal --n 1M --journal 10ms --mix reopen
run reopen-journal-10m --n 10M --journal 10ms --mix reopen
