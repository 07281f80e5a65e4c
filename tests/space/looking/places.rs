//! Places that cannot be written, and processes that have little.

use super::{Content, SPAWNING, Scratch, Trees, apart, child, error, filled, options, reading, still};
use bristlecone::medium::{Mapped, Mapping};
use bristlecone::{Error, ErrorKind, IndexKind, OneLine};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::PoisonError;

/// Not a test of its own: it looks at a pool, as somebody else, with few addresses, or where nothing can be written.
#[test]
fn looks() {
    let Some((path, step)) = child() else { return };
    match step.as_str() {
        "nobody" => {
            // SAFETY: it takes rights from this process.
            assert_eq!(unsafe { libc::setuid(65534) }, 0);
            let refused = error(options().create(false).open(&path));
            assert!(is_read_only(&refused, "no permission"), "{refused}");
        }
        "read-only" => {
            assert_eq!(
                fs::write(path.with_extension("new"), "").unwrap_err().kind(),
                io::ErrorKind::ReadOnlyFilesystem
            );
            let refused = error(options().create(false).open(&path));
            assert!(is_read_only(&refused, "file system"), "{refused}");
        }
        "full" => assert!(fs::write(path.with_extension("new"), [1; 8192]).is_err()),
        "alone" => {}
        "copy" => {
            let pool = options().open_on(Mapped::open(&path, Mapping::Copy).unwrap()).unwrap();
            println!("\nmemory {}", of_its_own(&path));
            drop(pool);
            return;
        }
        limited => {
            let (what, limit) = limited.split_once(' ').unwrap();
            let limit = limit.parse().unwrap();
            let limit = libc::rlimit { rlim_cur: limit, rlim_max: limit };
            // SAFETY: it reads the limit.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
            let pool = if what == "read" { reading() } else { options() }.open(&path);
            let few = pool.and_then(|pool| {
                let (words, texts) = (pool.tree("volatile")?, pool.map::<String, Vec<u8>>("texts")?);
                let persistent = pool.tree_with::<OneLine>("persistent", IndexKind::Persistent)?;
                Ok((
                    words.iter().count(),
                    persistent.iter().count(),
                    texts.iter().map(|entry| entry.map(drop)).collect::<Result<Vec<_>, _>>()?.len(),
                ))
            });
            match few {
                Ok(few) => println!("found {few:?}"),
                Err(error) => println!("refused: {error}"),
            }
            // Its index takes addresses for all leaves that there could ever be.
            let pool = if what == "read" { reading() } else { options() }.open(&path).unwrap();
            let flat = pool.tree_with::<OneLine>("flat", IndexKind::Flat);
            println!("flat {}", flat.map_or_else(|error| error.to_string(), |tree| tree.len().to_string()));
            return;
        }
    }
    let before = still(&path);
    let pool = reading().open(&path).unwrap();
    println!("found {:?}", Trees::open(&pool).unwrap().content());
    println!("\nmemory {}", of_its_own(&path));
    // No thread writes anything for a process that only looks.
    assert!(!journal_runs());
    drop(pool);
    assert_eq!(still(&path), before);
}

fn is_read_only(error: &Error, because: &str) -> bool {
    matches!(error.kind, ErrorKind::ReadOnly { why } if why.contains(because))
}

/// Bytes of a mapped file of which this process has a copy of its own.
fn of_its_own(path: &Path) -> u64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let (mut own, mut is_it, mut parts) = (0, false, 0);
    for line in maps.lines() {
        if let Some(kib) = line.strip_prefix("Anonymous:").filter(|_| is_it) {
            own += kib.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10;
        } else if line.split_once(' ').is_some_and(|(range, _)| range.contains('-')) {
            is_it = line.ends_with(path.to_str().unwrap());
            parts += u64::from(is_it);
        }
    }
    assert!(parts > 0);
    own
}

/// Whether this process has a thread of a journal.
pub(super) fn journal_runs() -> bool {
    let names = fs::read_dir("/proc/self/task").unwrap();
    let mut names = names.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.any(|name| name.starts_with("bristlecone"))
}

pub(super) fn ended(mut command: Command) -> String {
    let alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let output = command.output().unwrap();
    drop(alone);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A closed pool, and one that a crash has left, with what they hold.
fn two(scratch: &Scratch) -> [(PathBuf, Content); 2] {
    let (closed, left, open) = (scratch.path("closed"), scratch.path("left"), scratch.path("open"));
    let calm = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
    let content = filled(&closed, 2000);
    let pool = options().open(&open).unwrap();
    let trees = Trees::open(&pool).unwrap();
    (0..3000).for_each(|number| trees.change(number).unwrap());
    let other = trees.content();
    fs::copy(&open, &left).unwrap();
    drop((trees, pool));
    drop(calm);
    [(closed, content), (left, other)]
}

#[test]
fn somebody_else_reads_what_only_the_owner_may_write() {
    let scratch = Scratch::for_processes();
    // SAFETY: it only asks.
    if unsafe { libc::getuid() } != 0 {
        println!("not tried: only root can be somebody else");
        return;
    }
    // Below a directory that everybody may enter.
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let program = place.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for (from, content) in two(&scratch) {
        let path = place.path().join("a.pool");
        fs::copy(&from, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o555)).unwrap();
        let before = still(&path);
        let mut command = apart("places::looks", &path, "nobody");
        let mut other = Command::new(&program);
        other.args(command.get_args());
        other.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        std::mem::swap(&mut command, &mut other);
        assert!(ended(command).contains(&format!("found {content:?}")));
        assert_eq!(still(&path), before);
        // The control: root may not write either, and reads.
        assert!(is_read_only(
            &error(options().open(&path)),
            "nobody has permission to write to its file, and that holds for root"
        ));
        drop(reading().open(&path).unwrap());
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(&path).unwrap();
    }
}

/// A command that runs in a file system in memory, made by a line of shell code, in which `$D` is where it is.
fn on_a_file_system(script: &str, from: &Path, place: &Path, step: &str) -> Option<String> {
    let can = Command::new("unshare").args(["-rm", "true"]).output().is_ok_and(|output| output.status.success());
    let path = place.join("a.pool");
    let told = apart("places::looks", &path, step);
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-ec", &format!("{script}\nexec \"$@\""), "sh"]);
    command.arg(told.get_program()).args(told.get_args());
    command.envs(told.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env("D", place).env("FROM", from);
    if !can {
        println!("not tried: no file system can be made here");
        return None;
    }
    Some(ended(command))
}

#[test]
fn a_file_system_that_cannot_be_written() {
    let scratch = Scratch::for_processes();
    let place = scratch.path("place");
    fs::create_dir(&place).unwrap();
    for (from, content) in two(&scratch) {
        let script = "mount -t tmpfs -o size=64M t \"$D\"; cp --sparse=never \"$FROM\" \"$D/a.pool\"; mount -o remount,ro \"$D\"";
        let Some(told) = on_a_file_system(script, &from, &place, "read-only") else { return };
        assert!(told.contains(&format!("found {content:?}")), "{told}");
    }
}

/// Nothing is reserved, and what recovery stores is not the disk's.
#[test]
fn a_full_disk() {
    let scratch = Scratch::for_processes();
    let place = scratch.path("place");
    fs::create_dir(&place).unwrap();
    for (from, content) in two(&scratch) {
        // Without holes: a file in memory has no page to show for one if it is full.
        let script = "mount -t tmpfs -o size=64M t \"$D\"; cp --sparse=never \"$FROM\" \"$D/a.pool\"; \
                      dd if=/dev/zero of=\"$D/filler\" bs=4096 2>/dev/null || true";
        let Some(told) = on_a_file_system(script, &from, &place, "full") else { return };
        assert!(told.contains(&format!("found {content:?}")), "{told}");
    }
}

/// A reader needs no more than a writer.
#[test]
fn a_process_with_few_addresses() {
    let scratch = Scratch::for_processes();
    let mut refused = 0;
    for (path, content) in two(&scratch) {
        let (before, copy) = (still(&path), scratch.path("written"));
        for mib in [100u64, 300, 800, 2100] {
            let told = |what: &str, path| ended(apart("places::looks", path, &format!("{what} {}", mib << 20)));
            fs::copy(&path, &copy).unwrap();
            let few = (content[0].0, content[1].0, content[8].0);
            for told in [told("read", &path), told("write", &copy)] {
                assert!(told.contains(&format!("found {few:?}")), "{told}");
                // The control: these are few.
                refused += u32::from(told.contains("cannot reserve address space"));
            }
        }
        assert_eq!(still(&path), before);
    }
    assert!(refused >= 4, "{refused}");
}

/// What is not repaired is not copied.
#[test]
fn a_reader_has_no_copy_of_what_it_reads() {
    let scratch = Scratch::for_processes();
    let [(closed, _), (left, _)] = two(&scratch);
    let memory = |path: &Path, step: &str| {
        let told = ended(apart("places::looks", path, step));
        let memory = told.lines().find_map(|line| line.strip_prefix("memory "));
        memory.unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(memory(&closed, "alone"), 0);
    // After a crash, what is repaired.
    assert!(memory(&left, "alone") < fs::metadata(&left).unwrap().len() / 4);
    // The control: each page that changes is copied.
    assert!(memory(&closed, "copy") > 0);
}
