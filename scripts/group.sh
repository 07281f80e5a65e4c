# A control group whose memory is limited: for scripts that source this, with `memory`, the limit in bytes.
#
# `make_group` makes `group`, or fails where none can be made; `limited COMMAND...` runs a command in it; `remove_group` ends it.
group=

make_group() {
    local root made limit
    for root in /sys/fs/cgroup/memory /sys/fs/cgroup; do
        [[ $root != /sys/fs/cgroup ]] || { echo +memory >"$root/cgroup.subtree_control"; } 2>/dev/null || true
        made=$root/bristlecone-memory-$$
        mkdir "$made" 2>/dev/null || continue
        for limit in memory.limit_in_bytes memory.max; do
            [[ -w $made/$limit ]] && echo "$memory" >"$made/$limit" 2>/dev/null && group=$made && break 2
        done
        rmdir "$made"
    done
    [[ $group ]] || { echo "skipped: no control group can be made that limits memory" >&2 && return 77; }
    [[ ! -w $group/memory.swap.max ]] || echo 0 >"$group/memory.swap.max"
}

remove_group() {
    [[ ! $group ]] || rmdir "$group" 2>/dev/null || true
    group=
}

limited() {
    (
        echo "$BASHPID" >"$group/cgroup.procs"
        exec "$@"
    )
}
