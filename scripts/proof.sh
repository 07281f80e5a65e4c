#!/usr/bin/env bash
# Runs a check and keeps its result for docs/proof.md: `scripts/proof.sh CHECK COMMAND [ARGUMENT...]`.
#
# What the command prints as JSON, an object a line, is the result; of a command that prints none, how many tests passed.
# `BRISTLECONE_WRITE=1 cargo test --features cli --test proof` then writes the table.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[[ $# -ge 2 ]] || { echo "usage: scripts/proof.sh CHECK COMMAND [ARGUMENT...]" >&2; exit 2; }
check=$1
shift
[[ -z $(git status --porcelain --untracked-files=no -- . ':!docs/proof') ]] || {
    echo "there are changes that are not committed: a result is that of a commit" >&2
    exit 2
}

mkdir -p docs/proof
out=$(mktemp)
trap 'rm "$out"' EXIT
status=0 start=$SECONDS
"$@" | tee /dev/stderr >"$out" || status=$?
[[ $status -ne 77 ]] || exit 77
results=$(grep '^{' "$out" || true)
if [[ -z $results ]]; then
    results=$(awk '/^test result:/ { passed += $4; failed += $6 } END { printf "{\"passed\":%d,\"failed\":%d}", passed, failed }' "$out")
fi
quoted() { printf '%s' "$*" | sed 's/[\\"]/\\&/g'; }
while IFS= read -r result; do
    printf '{"check":"%s","date":"%s","commit":"%s","command":"%s","seconds":%d,"status":%d,"result":%s}\n' \
        "$(quoted "$check")" "$(date -u +%F)" "$(git rev-parse --short=10 HEAD)" "$(quoted "$@")" \
        $((SECONDS - start)) "$status" "$result" >>docs/proof/results.jsonl
done <<<"$results"
exit "$status"
