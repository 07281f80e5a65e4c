#!/usr/bin/env bash
# Pools within less memory than they have bytes: `memory.sh PROGRAM`, the command line with its tools.
#
# In a control group that may use MEMORY MiB (128), a service of SESSIONS (200,000) runs for DAYS (2) simulated days, and as many rows
# of 36 bytes as ROWS says (2,000,000) are loaded; nothing is killed, and everything is there. Without a budget for private memory
# the same service is killed, so the limit is one. Prints a line of JSON for each. Exit status 77: there are no groups here.
set -euo pipefail
program=$(realpath "$1") memory=$((${MEMORY:-128} << 20))
directory=$(mktemp -d "${TMPDIR:-/var/tmp}/bristlecone-memory.XXXXXX")
source "$(dirname "${BASH_SOURCE[0]}")/group.sh"
# What is interrupted ends, too.
trap 'exit 143' INT TERM
end() {
    remove_group
    rm -rf "$directory"
}
trap end EXIT

[[ $(df --output=fstype "$directory" | tail -n 1) != tmpfs ]] || { echo "skipped: $directory is in memory" >&2 && exit 77; }
make_group || exit

service() {
    limited "$program" service "$directory/$1" --sessions "${SESSIONS:-200000}" --days "${DAYS:-2}"
}

service with-budget
rows=${ROWS:-2000000}
seq -f '%016.0f	is twenty bytes long' 1 "$rows" | limited "$program" load "$directory/rows" - --json
found=$("$program" stat "$directory/rows" --json | sed -E 's/.*"keys":([0-9]+).*/\1/')
[[ $found == "$rows" ]] || { echo "$found of $rows rows are there" >&2 && exit 1; }

status=0
BRISTLECONE_PRIVATE_MEMORY=$((1 << 40)) service without || status=$?
[[ $status == 137 ]] || { echo "without a budget, the service is not killed: $status" >&2 && exit 1; }
