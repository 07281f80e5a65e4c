#!/usr/bin/env bash
# Cuts the power under real file systems, CUTS times under each.
#
#   scripts/power-cuts.sh                      checks the check: a writer that is right, and what must be found to be wrong
#   scripts/power-cuts.sh deaf block boot wreck     only these: a writer that does not hear of errors, one that counts on whole blocks, one
#                                              that is only wrong in the same boot, and a disk that loses what the file system begins with
#   scripts/power-cuts.sh WRITER VERIFIER      a writer, and who says what is left of what it wrote
#   scripts/power-cuts.sh --control WRITER VERIFIER      the writer is wrong: passes as soon as each file system has lost something
#   scripts/power-cuts.sh --replay FILE --cut SEED VERIFIER      a cut again, of a recording that was kept
#
# `WRITER DIR` prints `synced N` once everything up to operation N is durable, and `issued N` before it begins operations up to
# N, if these are more than it will acknowledge. It may be killed and called again; then it goes on with what it finds.
# `VERIFIER DIR N M` fails, and says why, unless everything up to N is there, and nothing beyond M. It runs as after a restart
# of the machine: /dev/shm is empty, and the boot has another number. It may repair and write.
#
# In a part of the cuts, TAKEN_OUT, it was not the machine that lost its power: the disk was taken out, and is there again. The boot has the same
# number. If the verifier refuses then, it is called again with WAY_ON as more arguments, and must find what is wanted.
#
# What a cut leaves of the writes that no flush had covered: none, all, or the first of them; or of each write, block of 4096 bytes, or sector of
# 512, what chance gives. File systems count on a device that does not tear a few blocks of their own: superblocks that are written in place (ext4,
# btrfs), and blocks of trees and directories (xfs: `keeps_whole` in power_cuts.py says why, and how they are known). These are kept
# whole. Everything else is torn: `torn_blocks` and `kept_whole` say how many blocks. A file system that cannot be mounted is a failure, unless the
# device had failed before.
#
# With ERRORS, the device fails in a part of the recordings, for a while: it is gone, or writes and flushes of all of it, or writes to where one file has
# its blocks (btrfs: all files), are answered with EIO, and mostly not done. A writer that meets an error prints nothing for what it does not
# know to be durable, and ends with exit status 3; it is called again in the same boot until the device works, and gets on. If the file
# system has given up, it is mounted again. Any other exit status is a loss. A verifier with exit status 3 refuses, and says why, which is
# counted apart and is no loss, if the device had failed before the cut.
#
# CUTS=500  cuts under each file system      FS="ext4 xfs btrfs"   KEEP=target/power-cuts  for recordings of losses
# SEED=     of all that is drawn             KILLS=2  of the writer, before the cut, at most, in each recording (of 100 cuts)
# TAKEN_OUT=0.2  the part of cuts in the same boot      WAY_ON=  arguments of the verifier, after a refusal in the same boot
# SECOND=0.2  the part of cuts after which the power is cut again, during the repair     TEAR=512  bytes written whole (4096)
# ERRORS=0  the part of recordings with a device that fails   ERROR_SECONDS="0.3 3"  for so long   EACH=100  cuts of each recording
# SIZE=512  MiB of the device      LIMIT=120  seconds for a writer or verifier      DIRECT=1  several writes at a time      VERBOSE=
#
# Prints a JSON object for each file system. Exit status 1: something was lost; 77: it cannot be had here.
set -euo pipefail

skip() {
    echo "skipped: $*" >&2
    exit 77
}

[[ $(uname) == Linux ]] || skip "power is cut under Linux only"
[[ $(id -u) == 0 ]] || skip "power is cut by root only"
command -v python3 >/dev/null || skip "there is no python3"
if command -v modprobe >/dev/null; then modprobe -aq fuse loop ext4 xfs btrfs || true; fi
[[ -e /dev/fuse && -e /dev/loop-control ]] || skip "there is no /dev/fuse, or no loop device"

missing=()
for package in e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs util-linux:fallocate; do
    command -v "${package#*:}" >/dev/null || missing+=("${package%:*}")
done
if [[ ${#missing[@]} -gt 0 ]] && command -v apt-get >/dev/null; then
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}")
    "${install[@]}" >/dev/null 2>&1 || { apt-get update -qq && "${install[@]}"; } >/dev/null 2>&1 \
        || echo "cannot be installed: ${missing[*]}" >&2
fi

cuts=$(dirname "${BASH_SOURCE[0]}")/power_cuts.py
export KEEP=${KEEP-${CARGO_TARGET_DIR:-$(dirname "$cuts")/../target}/power-cuts}
controls=" early never memory deaf block boot wreck "
[[ $# -eq 0 || $controls == *" $1 "* ]] || exec python3 "$cuts" "$@"

# The stand-ins are called by their full name: they run elsewhere.
program=$(python3 -c 'import sys; print(sys.executable)')
stand_in="$program $(printf %q "$(realpath "$cuts")")"
if [[ $# -eq 0 ]]; then
    python3 "$cuts" "$stand_in write right" "$stand_in verify"
    ERRORS=1 EACH=10 python3 "$cuts" "$stand_in write right" "$stand_in verify"
    read -ra controls <<<"$controls"
    set -- "${controls[@]}"
fi
for wrong in "$@"; do
    echo "what is wrong: $wrong"
    writer=$wrong
    case $wrong in
        # It stops at what it finds, which is soon; but some are found in one of a hundred cuts.
        deaf) export ERRORS=1 CUTS=1000 EACH=10 ;;
        wreck)
            export WRECK=1 CUTS=10
            writer=right
            ;;
        *) export CUTS=3000 ;;
    esac
    python3 "$cuts" --control "$stand_in write $writer" "$stand_in verify"
    unset ERRORS EACH WRECK
done
