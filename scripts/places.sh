#!/usr/bin/env bash
# What operators, other boots, other programs and wrong bits do to the files of a pool with a journal, after its process was killed or has
# closed it: everything that was acknowledged is there, or an error says what is missing and what to do. Never less without a word.
#
#   scripts/places.sh PROGRAM [CASE...]             PROGRAM: `bristlecone`; CASE: a pattern of names
#   scripts/places.sh --control PROGRAM [CASE...]   PROGRAM is wrong: passes if a case finds that something was lost without a word
#   scripts/places.sh --control --planted OPTIONS PROGRAM [CASE...]   ... and PROGRAM is right, and is given these options, without a word
#   scripts/places.sh --list
#
# OLD=      a `bristlecone` whose logs are "BRISLOG1", for the cases that take over its pools
# BITS=60   wrong bits in each part of the files       SEED=  of these       FS="ext4"  file systems, of ext4, xfs, btrfs and tmpfs
# VERBOSE=
#
# A line for each case, then one JSON object for each file system. Exit status 1: something is wrong; 77: it cannot be had here.
set -euo pipefail

skip() {
    echo "skipped: $*" >&2
    exit 77
}

cases=$(dirname "${BASH_SOURCE[0]}")/places.py
command -v python3 >/dev/null || skip "there is no python3"
[[ ${1:-} != --list ]] || exec python3 "$cases" "$@"
[[ $(uname) == Linux ]] || skip "mounts are made under Linux only"
[[ $(id -u) == 0 ]] || skip "mounts are made by root only"
if command -v modprobe >/dev/null; then modprobe -aq fuse loop ext4 || true; fi
[[ -e /dev/loop-control ]] || skip "there are no loop devices"
if ! command -v mkfs.ext4 >/dev/null && command -v apt-get >/dev/null; then
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends e2fsprogs)
    "${install[@]}" >/dev/null 2>&1 || { apt-get update -qq && "${install[@]}"; } >/dev/null 2>&1 || true
fi
command -v mkfs.ext4 >/dev/null || skip "there is no mkfs.ext4"
# In a namespace of its own nothing stays mounted.
unshare -m true 2>/dev/null || skip "this process may not mount"
exec unshare -m --propagation private python3 "$cases" "$@"
