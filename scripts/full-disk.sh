#!/usr/bin/env bash
# Fills disks with pools, without a journal and with one, under ext4 (blocks of 1 and of 4 KiB), xfs, btrfs and tmpfs. A full disk is
# an error with a message, never a signal; the pool is whole, and goes on once there is space.
#
#   scripts/full-disk.sh PROGRAM                PROGRAM: `bristlecone`
#   scripts/full-disk.sh --control [PROGRAM]    PROGRAM is wrong: passes if a signal ends it. Without one, a program that stores to
#                                               a page which is reserved, in a huge page which is not
#
# FS="ext4-1k ext4 xfs btrfs tmpfs"   VERBOSE=
#
# Exit status 1: something is wrong; 77: it cannot be had here.
set -euo pipefail

skip() {
    echo "skipped: $*" >&2
    exit 77
}

control=
if [[ ${1:-} == --control ]]; then
    control=1
    shift
fi
program=${1:+$(realpath "$1")}

[[ $(uname) == Linux ]] || skip "disks are filled under Linux only"
[[ $(id -u) == 0 ]] || skip "disks are filled by root only"
# In a namespace of its own nothing stays mounted.
if [[ ! ${BRISTLECONE_UNSHARED:-} ]]; then
    unshare -m true 2>/dev/null || skip "this process may not mount"
    BRISTLECONE_UNSHARED=1 exec unshare -m "$0" ${control:+--control} ${program:+"$program"}
fi
mount --make-rprivate / 2>/dev/null || skip "this process may not mount"
if command -v modprobe >/dev/null; then modprobe -aq loop ext4 xfs btrfs || true; fi

missing=()
for package in e2fsprogs:mkfs.ext4 xfsprogs:mkfs.xfs btrfs-progs:mkfs.btrfs; do
    command -v "${package#*:}" >/dev/null || missing+=("${package%:*}")
done
if [[ ${#missing[@]} -gt 0 ]] && command -v apt-get >/dev/null; then
    install=(env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}")
    "${install[@]}" >/dev/null 2>&1 || { apt-get update -qq && "${install[@]}"; } >/dev/null 2>&1 \
        || echo "cannot be installed: ${missing[*]}" >&2
fi

place=${TMPDIR:-/tmp}
# Sooner done in memory: the images are nearly all holes.
[[ $(df --output=avail -k /dev/shm 2>/dev/null | tail -1) -lt 400000 ]] || place=/dev/shm
scratch=$(mktemp -d "$place/full-disk.XXXXXX")
disk=$scratch/disk said=$scratch/said
mkdir "$disk"
trap 'umount -l "$disk" 2>/dev/null || true; rm -rf "$scratch"' EXIT
value=$(head -c 700 /dev/zero | tr '\0' v)
failures=0 signals=0 checked=0

if [[ ! $program ]]; then
    command -v python3 >/dev/null || skip "there is no python3"
    FS=${FS:-ext4 xfs} program=$scratch/wrong
    cat >"$program" <<'END'
#!/usr/bin/env python3
import mmap, os, sys
if sys.argv[1] == "load":
    huge, path = 2 << 20, sys.argv[2]
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.ftruncate(file, huge)
    os.posix_fallocate(file, 0, 4096)
    others = os.open(path + ".others", os.O_RDWR | os.O_CREAT)
    for size in 1 << 20, 1024:
        try:
            while True:
                os.write(others, bytes(size))
        except OSError:
            os.fsync(others)
    words = mmap.mmap(file, huge)
    words.madvise(mmap.MADV_HUGEPAGE)
    words[8] = 1
END
    chmod +x "$program"
fi

# Mounts a new file system of this kind, of which little is free: enough for a log, if there is a journal.
new_disk() {
    local size=128M make=(mkfs.ext4 -q) left=24
    [[ $2 != journal ]] || left=40
    case $1 in
        tmpfs) mount -t tmpfs -o size="${left}m" tmpfs "$disk"; return ;;
        ext4-1k) make+=(-b 1024) ;;
        ext4) make+=(-b 4096) ;;
        xfs) size=320M make=(mkfs.xfs -q) ;;
        btrfs) size=256M make=(mkfs.btrfs -q) ;;
    esac
    command -v "${make[0]}" >/dev/null || return
    rm -f "$scratch/image"
    truncate -s "$size" "$scratch/image"
    "${make[@]}" "$scratch/image" >/dev/null && mount -o loop "$scratch/image" "$disk" || return
    local free
    free=$(df --output=avail -k "$disk" | tail -1)
    fallocate -l $((free - (left << 10)))k "$disk/ballast"
}

# Whatever is left of the disk goes to a file of somebody else.
others_fill() {
    local size
    fallocate -l "$(df --output=avail -k "$disk" | tail -1)k" "$disk/others" 2>/dev/null || true
    for size in 1M 64k 4k 1k; do
        dd if=/dev/zero of="$disk/others" bs=$size oflag=append conv=notrunc status=none 2>/dev/null || true
    done
    sync -f "$disk"
}

# The lines of keys from one to another, all with a value, in a file.
lines() {
    awk -v from="$1" -v to="$2" -v v="$3" 'BEGIN { for (key = from; key <= to; key++) print key "\t" v }' >"$scratch/lines"
}

# Runs the program with these arguments, and notes how it ends: `ends WHAT WANTED ARGUMENT...`, WANTED a pattern of exit statuses.
ends() {
    local what=$1 wanted=$2 status=0
    shift 2
    { timeout 60 "$program" "$@" >"$said" 2>&1 || status=$?; } 2>/dev/null
    checked=$((checked + 1))
    [[ ! ${VERBOSE:-} ]] || echo "    $what: $status, $(tail -1 "$said" | cut -c1-150)"
    [[ $status -le 128 ]] || signals=$((signals + 1))
    # shellcheck disable=SC2053
    if [[ $status != $wanted ]]; then
        echo "$what: exit status $status, not $wanted: $(tail -1 "$said" | cut -c1-200)"
        failures=$((failures + 1))
        return 1
    fi
}

mentions() {
    grep -qE "$2" "$said" && return
    echo "$1: says nothing of '$2', but: $(tail -1 "$said" | cut -c1-200)"
    failures=$((failures + 1))
}

# A pool fills the disk.
fills() {
    local what="$1 $2" pool=$disk/a.pool journal=(--journal none)
    [[ $2 != journal ]] || journal=(--journal request)
    lines 1 60000 "$value"
    # A journal may find that there is no space when it writes to the pool's file.
    if ends "$what: load" 1 load "$pool" "$scratch/lines" "${journal[@]}"; then
        mentions "$what: load" "$([[ $2 == journal ]] && echo 'no space|No space|No storage space|journal' || echo '[Nn]o space for')"
    fi
    ends "$what: check" 0 check "$pool" || return 0
    if [[ $2 != journal ]]; then
        # What is removed makes room.
        local key
        for key in 1 2 3; do ends "$what: remove" 0 del "$pool" "$key" || return 0; done
        lines 1 3 "$value"
        ends "$what: into the place" 0 load "$pool" "$scratch/lines"
        ends "$what: check again" 0 check "$pool"
    fi
    rm -f "$disk/ballast"
    [[ $1 != tmpfs ]] || mount -o remount,size=128m "$disk"
    lines 60001 63000 "$value"
    ends "$what: goes on" 0 load "$pool" "$scratch/lines" "${journal[@]}"
    ends "$what: check at last" 0 check "$pool"
}

# Others fill the disk, then what is in the pool is changed, and more is added. `how`: what is in the system's cache.
is_filled() {
    local what="$1 $2, filled by others, cache $3" pool=$disk/a.pool journal=(--journal none) wanted=1
    [[ $2 != journal ]] || journal=(--journal request)
    lines 1 3000 "$value"
    ends "$what: load" 0 load "$pool" "$scratch/lines" "${journal[@]}"
    if [[ $3 == copied ]]; then
        # What is reserved, and was never stored to, is a hole.
        cp --sparse=always --reflink=never "$pool" "$disk/b.pool"
        mv "$disk/b.pool" "$pool"
    fi
    sync -f "$disk"
    others_fill
    if [[ $3 == cold || $3 == read ]]; then
        umount "$disk"
        mount -o loop "$scratch/image" "$disk"
        # A backup reads the whole file, in large pieces.
        [[ $3 != read ]] || cat "$pool" >/dev/null
    fi
    # The same keys, in place: no space is needed, but for what a journal writes, and for what was a hole.
    local in_place=0
    [[ $2 != journal && $3 != copied ]] || in_place="[01]"
    lines 1 500 "$(tr v w <<<"$value")"
    ends "$what: the same keys" "$in_place" load "$pool" "$scratch/lines" "${journal[@]}"
    lines 1 9000 "${value}w"
    ends "$what: longer values" "1" load "$pool" "$scratch/lines" "${journal[@]}"
    ends "$what: check" 0 check "$pool"
    rm "$disk/others"
    ends "$what: goes on" 0 load "$pool" "$scratch/lines" "${journal[@]}"
    ends "$what: check at last" 0 check "$pool"
}

# The device has less than it promises, so the file system learns of it when it writes. The system's cache shows what was never
# written as if it were, and no later sync tells: so the pool must be refused, and the next process that opens it must not close it in order.
is_promised() {
    local what="$1, on a device that is full" pool=$disk/a.pool
    lines 1 20000 "$value"
    ends "$what: load" 1 load "$pool" "$scratch/lines" --journal none || return 0
    ends "$what: the next change" 1 put "$pool" 1 new || return 0
    mentions "$what: the next change" "the disk has failed"
    ends "$what: the next one" 1 put "$pool" 1 new || return 0
    # The superblock has had its place from the beginning.
    sync
    echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true
    ends "$what: after the cache" 1 put "$pool" 1 new
}

run=0
if [[ ! $control && ${FS:-ext4} == *ext4* ]]; then
    mkdir "$scratch/device"
    if mount -t tmpfs -o size=12m tmpfs "$scratch/device" && truncate -s 128M "$scratch/device/image" \
        && mkfs.ext4 -q -O ^has_journal "$scratch/device/image" && mount -o loop "$scratch/device/image" "$disk"; then
        run=$((run + 1))
        is_promised ext4
        umount "$disk" 2>/dev/null || umount -l "$disk"
    else
        echo "left out: a device that is full cannot be had here"
    fi
    umount -l "$scratch/device" 2>/dev/null || true
fi
for fs in ${FS:-ext4-1k ext4 xfs btrfs tmpfs}; do
    for journal in plain journal; do
        # A pool with a journal does not store to the cache of its file, and tmpfs has no other place.
        cases="fills cold read copied"
        [[ $fs != tmpfs && $journal == plain ]] || cases="fills warm"
        for case in $cases; do
            if ! new_disk "$fs" "$journal" >"$scratch/made" 2>&1; then
                echo "left out: $fs cannot be had here: $(tail -1 "$scratch/made")"
                umount -l "$disk" 2>/dev/null || true
                continue 3
            fi
            run=$((run + 1))
            if [[ $case == fills ]]; then
                fills "$fs" "$journal" || true
            else
                is_filled "$fs" "$journal" "$case" || true
            fi
            umount "$disk" 2>/dev/null || umount -l "$disk"
            [[ ! $control || $signals == 0 ]] || break 3
        done
    done
done
[[ $run -gt 0 ]] || skip "there are no loop devices, and no tmpfs"
echo "$run disks, $checked runs of the program, $failures failures, $signals of them signals"
if [[ $control ]]; then
    [[ $signals -gt 0 ]] || { echo "not found: the program that is wrong" >&2; exit 1; }
    echo "found: the program that is wrong"
else
    [[ $failures == 0 ]]
fi
