//! The memory that this process may use: that of the machine, or less where a control group limits it.
//!
//! A limit holds for a group and for all groups in it, so those of the ancestors count, too. Which group the process is
//! in is in `/proc/self/cgroup`; where groups are shown as directories, in `/proc/self/mountinfo`. In a container, a
//! directory may be mounted of which only the part below the container's own group can be seen. Groups of version 1
//! that limit memory, and those of version 2, may both be there.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};

/// Bytes of memory that this process may use; `u64::MAX` if the system does not tell. It may change at any time.
///
/// # Complexity
///
/// A few small files of the kernel are read.
pub(crate) fn memory() -> u64 {
    let read = |path: &str| read_to_string(path).unwrap_or_default();
    let groups = directories(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    groups.iter().flat_map(|group| limits(group)).fold(of_machine(), u64::min)
}

/// Bytes of memory that the machine has.
fn of_machine() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(info.mem_unit.into())
}

/// The limits that one group has.
fn limits(group: &Path) -> impl Iterator<Item = u64> {
    // Version 1 shows a number beyond all memory where there is none, version 2 a word.
    let names = ["memory.max", "memory.high", "memory.limit_in_bytes"];
    names.map(|name| group.join(name)).into_iter().filter_map(|path| read_to_string(path).ok()?.trim().parse().ok())
}

/// The directories of the groups of a process, and of their ancestors, as far as they can be seen.
fn directories(groups: &str, mounts: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for (path, is_unified) in groups.lines().filter_map(group) {
        for (root, place) in mounts.lines().filter_map(|line| mount(line, is_unified)) {
            // What is mounted may begin below the root of all groups, or beside the group of the process.
            let below = Path::new(path).strip_prefix(&root).unwrap_or(Path::new(""));
            found.extend(below.ancestors().map(|below| place.join(below)));
        }
    }
    found
}

/// The path of a group that may limit memory, and whether it is of version 2: `4:memory:/path`, or `0::/path`.
fn group(line: &str) -> Option<(&str, bool)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    (controllers.is_empty() || controllers.split(',').any(|name| name == "memory"))
        .then_some((path, controllers.is_empty()))
}

/// The group that is the root of a mounted directory of groups of this version, and where it is mounted.
fn mount(line: &str, is_unified: bool) -> Option<(PathBuf, PathBuf)> {
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, place) = (before.next()?, before.next()?);
    let mut behind = behind.split(' ');
    let (kind, options) = (behind.next()?, behind.nth(1)?);
    let fits = if is_unified {
        kind == "cgroup2"
    } else {
        kind == "cgroup" && options.split(',').any(|option| option == "memory")
    };
    fits.then(|| (unescaped(root), unescaped(place)))
}

/// A path of which the kernel writes spaces and the like as octal numbers.
fn unescaped(path: &str) -> PathBuf {
    let escapes = [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")];
    escapes.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to)).into()
}

#[cfg(all(test, not(any(bristlecone_loom, miri))))]
mod tests {
    use super::*;

    const BOTH: &str = "\
        9:name=systemd:/\n\
        4:memory:/box/own\n\
        2:cpuacct:/\n\
        0::/app.slice\n";
    const MOUNTS: &str = "\
        22 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n\
        30 22 0:26 / /groups/cpuacct rw,relatime - cgroup cgroup rw,cpuacct\n\
        31 22 0:27 / /groups/me\\040mory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        32 22 0:28 / /groups/unified rw,relatime - cgroup2 cgroup2 rw\n";

    fn found(groups: &str, mounts: &str) -> Vec<String> {
        directories(groups, mounts)
            .iter()
            .map(|path| path.display().to_string().trim_end_matches('/').to_owned())
            .collect()
    }

    #[test]
    fn the_limits_of_ancestors_count_in_both_versions() {
        let expected = [
            "/groups/me mory/box/own",
            "/groups/me mory/box",
            "/groups/me mory",
            "/groups/unified/app.slice",
            "/groups/unified",
        ];
        assert_eq!(found(BOTH, MOUNTS), expected);
    }

    #[test]
    fn a_container_sees_its_own_group_only() {
        // It is mounted as if it were the root, whether the container has names of its own for groups or not.
        let mounts = |root: &str| format!("31 22 0:27 {root} /groups/memory ro - cgroup cgroup rw,memory\n");
        assert_eq!(found("4:memory:/docker/1\n", &mounts("/docker/1")), ["/groups/memory"]);
        assert_eq!(found("4:memory:/\n", &mounts("/")), ["/groups/memory"]);
        assert_eq!(found("4:memory:/docker/1/own\n", &mounts("/docker/1")), ["/groups/memory/own", "/groups/memory"]);
        assert_eq!(found("4:memory:/../2\n", &mounts("/docker/1")), ["/groups/memory"]);
        assert!(found("", "").is_empty() && found("0::/a\n", "garbage\n").is_empty());
    }

    #[test]
    fn the_least_limit_of_a_group_is_read() {
        let scratch = tempfile::tempdir().unwrap();
        let write = |name: &str, content: &str| std::fs::write(scratch.path().join(name), content).unwrap();
        assert_eq!(limits(scratch.path()).min(), None);
        write("memory.max", "max\n");
        assert_eq!(limits(scratch.path()).min(), None);
        write("memory.max", "100663296\n");
        write("memory.high", "83886080\n");
        assert_eq!(limits(scratch.path()).min(), Some(80 << 20));
        write("memory.limit_in_bytes", "4096\n");
        assert_eq!(limits(scratch.path()).min(), Some(4096));
    }

    #[test]
    fn there_is_no_more_memory_than_the_machine_has() {
        assert!((1 << 20..=of_machine()).contains(&memory()));
    }
}
