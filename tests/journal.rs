//! Pools with a journal, as a user has them: their three files, and what is there after each kind of end.
#![cfg(target_os = "linux")]

use bristlecone::medium::Domain;
use bristlecone::{ErrorKind, Journal, Map, OldLog, Pool, Recovered, Recovery, RingPlace};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const CAPACITY: u64 = 16 << 20;

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Options for a pool without a journal.
fn plain() -> bristlecone::Options {
    Pool::options().capacity(CAPACITY).journal(Journal::None)
}

fn open(path: &Path, journal: Journal) -> Pool {
    Pool::options().capacity(CAPACITY).journal(journal).open(path).unwrap()
}

/// Opens a pool whose ring is lost.
fn without_ring(path: &Path) -> Pool {
    let options = Pool::options().journal(Journal::Each).recovery(Recovery::WithoutRing);
    let pool = options.open(path).unwrap();
    assert!(pool.journal().unwrap().recovered.without_ring);
    pool
}

/// Copies pool and log as they are on the file system now, without the ring.
fn copy(from: &Path, to: &Path) {
    std::fs::copy(from, to).unwrap();
    std::fs::copy(with(from, ".log"), with(to, ".log")).unwrap();
}

#[test]
fn what_was_synced_is_there_without_the_ring() {
    let dir = tempfile::tempdir().unwrap();
    for (i, journal) in
        [Journal::Each, Journal::OnRequest, Journal::Every(Duration::from_secs(3600))].into_iter().enumerate()
    {
        let path = dir.path().join(format!("{i}.pool"));
        // No checkpoint comes between the copies of two files.
        let pool = Pool::options().capacity(CAPACITY).journal(journal).log_size(8 << 20).open(&path).unwrap();
        assert_eq!(pool.durability(), Domain::Journal);
        let tree = pool.tree("t").unwrap();
        let names: Map<String, Vec<u8>> = pool.map("names").unwrap();
        let all = if journal == Journal::Each { 1_000 } else { 5_000 };
        for key in 0..all {
            tree.insert(key, key * 3).unwrap();
            if key % 10 == 0 {
                names.insert(format!("name {key}").as_str(), &key.to_le_bytes()[..]).unwrap();
            }
        }
        if journal != Journal::Each {
            pool.sync().unwrap();
        }
        let after = dir.path().join(format!("{i}.copy"));
        copy(&path, &after);
        let copied = without_ring(&after);
        let tree = copied.tree("t").unwrap();
        assert_eq!(tree.len(), all, "{journal:?}");
        assert!((0..all).all(|key| tree.get(key) == Some(key * 3)));
        let names: Map<String, Vec<u8>> = copied.map("names").unwrap();
        assert_eq!(names.len(), all / 10);
        assert_eq!(names.get("name 30").unwrap().as_deref(), Some(&30u64.to_le_bytes()[..]));
        assert!(copied.check().unwrap().violations.is_empty());
    }
}

/// With `Each`, nothing that a method has done is still on its way to the disk when it returns.
#[test]
fn every_method_waits_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let pool = open(&dir.path().join("a.pool"), Journal::Each);
    let tree = pool.tree("t").unwrap();
    let names: Map<String, Vec<u8>> = pool.map("names").unwrap();
    let entries = std::cell::Cell::new(0);
    let waited = || {
        let stat = pool.journal().unwrap();
        assert!(stat.pending == 0 && stat.entries > entries.replace(stat.entries), "{stat:?}");
    };
    let name = |key: u64| format!("{key:04}");
    tree.extend((0..3000).map(|key| (key, key))).unwrap();
    waited();
    names.extend((0..3000).map(|key| (name(key), vec![7; key as usize % 100]))).unwrap();
    waited();
    tree.update_with(7, |_| Some(8)).unwrap();
    waited();
    names.update_with("0007", |_| Some(vec![8])).unwrap();
    waited();
    names.compare_exchange("0007", Some(&[8]), Some(&[9])).unwrap();
    waited();
    names.replace("0007", &[7]).unwrap();
    waited();
    names.take("0007").unwrap();
    waited();
    tree.pop_first().unwrap();
    waited();
    names.pop_last().unwrap();
    waited();
    tree.remove_range(100..1000).unwrap();
    waited();
    names.remove_range("0100".."1000").unwrap();
    waited();
    tree.retain(|key, _| key % 2 == 0).unwrap();
    waited();
    names.retain(|key, _| key.as_bytes()[3] % 2 == 0).unwrap();
    waited();
}

#[test]
fn a_pool_that_was_closed_is_all_in_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::OnRequest);
    let tree = pool.tree("t").unwrap();
    for key in 0..20_000 {
        tree.insert(key, key).unwrap();
    }
    drop(tree);
    pool.close().unwrap();
    // It opens without saying that it has a journal, too.
    let pool = Pool::open(&path).unwrap();
    assert_eq!(pool.durability(), Domain::Journal);
    assert!(pool.stat().was_clean);
    assert_eq!(pool.tree("t").unwrap().len(), 20_000);
    drop(pool);
    // Without a journal, it is a pool as any other.
    Pool::remove_journal(&path).unwrap();
    assert!(!with(&path, ".log").exists());
    let pool = Pool::open(&path).unwrap();
    assert_eq!(pool.durability(), Domain::Process);
    assert_eq!(pool.tree("t").unwrap().len(), 20_000);
    drop(pool);
    let refused = Pool::remove_journal(&path).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::JournalThere { has: false }), "{refused}");
    Pool::add_journal(&path).unwrap();
    let refused = Pool::add_journal(&path).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::JournalThere { has: true }), "{refused}");
    let tree = Pool::open(&path).unwrap().tree("t").unwrap();
    assert_eq!(tree.insert(1 << 40, 7).unwrap(), None);
    assert_eq!(tree.len(), 20_001);
}

#[test]
fn a_pool_is_free_once_it_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    for round in 0..30 {
        let pool = open(&path, Journal::Every(Duration::from_millis(1)));
        pool.tree("t").unwrap().insert(round, round).unwrap();
        if round % 3 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    assert_eq!(open(&path, Journal::Each).tree("t").unwrap().len(), 30);
}

#[test]
fn a_pool_with_a_journal_can_be_opened_as_one_that_has_lost_power() {
    let dir = tempfile::tempdir().unwrap();
    let (path, after) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
    let pool = open(&path, Journal::Each);
    let tree = pool.tree("t").unwrap();
    for key in 0..500 {
        tree.insert(key, key).unwrap();
    }
    copy(&path, &after);
    let (opened, report) = Pool::options()
        .journal(Journal::OnRequest)
        .recovery(Recovery::WithoutRing)
        .open_after_power_loss(&after)
        .unwrap();
    assert_eq!(report.entries, 500);
    let entries = opened.journal().unwrap().entries - pool.journal().unwrap().entries;
    assert!(entries < 1000, "{entries} lines were flushed: all that is unused was cleared");
    let syncs = opened.journal().unwrap().syncs;
    opened.tree("t").unwrap().insert(1000, 1).unwrap();
    assert_eq!(opened.journal().unwrap().syncs, syncs, "nobody has asked for one");
    opened.sync().unwrap();
    let last = dir.path().join("c.pool");
    copy(&after, &last);
    let last = without_ring(&last);
    assert_eq!(last.tree("t").unwrap().len(), 501);
    assert!(last.check().unwrap().violations.is_empty());
}

#[test]
fn a_log_that_is_missing_or_another_ones_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (path, other) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
    for path in [&path, &other] {
        open(path, Journal::Each).tree("t").unwrap().insert(1, 1).unwrap();
    }
    let log = with(&path, ".log");
    // Of a pool that was not closed, the log is needed.
    let pool = Pool::open(&path).unwrap();
    let (used, used_log) = (dir.path().join("used.pool"), dir.path().join("used.pool.log"));
    copy(&path, &used);
    pool.close().unwrap();
    std::fs::copy(with(&other, ".log"), &used_log).unwrap();
    let refused = Pool::open(&used).unwrap_err();
    assert!(
        matches!(&refused.kind, ErrorKind::Log { found, path } if found.contains("another pool")
        && Path::new(path) == used_log && refused.to_string().contains(path)),
        "{refused}"
    );
    assert!(std::fs::read(&used_log).unwrap() == std::fs::read(with(&other, ".log")).unwrap());
    // An old copy of both; one of the two is put back.
    let (old_pool, old_log) = (dir.path().join("old"), dir.path().join("old.log"));
    std::fs::copy(&path, &old_pool).unwrap();
    std::fs::copy(&log, &old_log).unwrap();
    for round in 0..3 {
        Pool::open(&path).unwrap().tree("t").unwrap().insert(2 + round, 2).unwrap();
    }
    let (new_pool, new_log) = (dir.path().join("new"), dir.path().join("new.log"));
    std::fs::copy(&path, &new_pool).unwrap();
    std::fs::copy(&log, &new_log).unwrap();
    std::fs::copy(&old_log, &log).unwrap();
    let refused = Pool::open(&path).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::Log { found, .. } if found == CLOSED), "{refused}");
    std::fs::copy(&new_log, &log).unwrap();
    std::fs::copy(&old_pool, &path).unwrap();
    let refused = Pool::open(&path).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::Log { found, .. } if found == CLOSED), "{refused}");
}

/// What is said of a log that does not go with the pool, if that was closed in order.
const CLOSED: &str = "it does not go with the pool: it is damaged, or one of them is an old copy, or the pool was used under another \
                      name (a hard link, or moved away and back) with another log; the pool was closed in order and needs no \
                      log, so if it is the one that counts, move the log away";

#[test]
fn a_pool_that_was_used_under_another_name_says_which_log_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
    open(&path, Journal::Each).tree("t").unwrap().insert(1, 1).unwrap();
    std::fs::hard_link(&path, &link).unwrap();
    // Each has a log of its own: the numbers of logs begin at random, so either may seem older.
    open(&link, Journal::Each).tree("t").unwrap().insert(2, 2).unwrap();
    let refused = Pool::open(&path).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::Log { found, .. } if found == CLOSED), "{refused}");
    // What it advises.
    std::fs::rename(with(&path, ".log"), dir.path().join("aside")).unwrap();
    let pool = open(&path, Journal::Each);
    assert_eq!(pool.tree("t").unwrap().len(), 2);
    pool.close().unwrap();

    // It has got a third log, and is in use with that: a copy that is made meanwhile is as what a killed process
    // leaves.
    let (used, killed) = (dir.path().join("c.pool"), dir.path().join("d.pool"));
    std::fs::rename(&link, &used).unwrap();
    let pool = open(&used, Journal::Each);
    pool.tree("t").unwrap().insert(3, 3).unwrap();
    std::fs::copy(&used, &killed).unwrap();
    for ending in [".log", ".ring"] {
        std::fs::copy(with(&path, ending), with(&killed, ending)).unwrap();
    }
    let needed = "it does not go with the pool: one of them is an old copy, or the pool was used under another name (a hard link, \
                  or moved away and back) with another log; the pool was not closed in order and needs the log that it was last \
                  used with, which is beside that name";
    let read = Pool::options().read_only(true).open(&killed).unwrap_err();
    for refused in [read, Pool::open(&killed).unwrap_err()] {
        assert!(matches!(refused.kind, ErrorKind::Log { found, .. } if found == needed), "{refused}");
    }
    for ending in [".log", ".ring"] {
        std::fs::copy(with(&used, ending), with(&killed, ending)).unwrap();
    }
    assert_eq!(Pool::open(&killed).unwrap().tree("t").unwrap().len(), 3);
}

#[test]
fn a_pool_that_was_closed_needs_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let (path, copied) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
    for round in 0..3 {
        let pool = open(&path, Journal::OnRequest);
        pool.tree("t").unwrap().insert(round, round).unwrap();
        pool.sync().unwrap();
        // A copy of a pool that is open needs its log, and is refused without.
        std::fs::copy(&path, &copied).unwrap();
        let read = || Pool::options().read_only(true).open(&copied).unwrap_err();
        for refused in [read(), Pool::open(&copied).unwrap_err(), Pool::add_journal(&copied).unwrap_err()] {
            assert!(matches!(refused.kind, ErrorKind::Log { found, .. } if found.contains("not there")), "{refused}");
        }
        pool.close().unwrap();
        std::fs::remove_file(with(&path, ".log")).unwrap();
        assert!(Pool::options().read_only(true).open(&path).unwrap().check().unwrap().is_clean());
        assert!(!with(&path, ".log").exists(), "looking changes nothing");
        let pool = open(&path, Journal::Each);
        assert_eq!(pool.tree("t").unwrap().len(), round + 1);
    }
    std::fs::remove_file(with(&path, ".log")).unwrap();
    Pool::remove_journal(&path).unwrap();
    assert_eq!(Pool::open(&path).unwrap().tree("t").unwrap().len(), 3);
}

#[test]
fn nothing_is_acknowledged_once_the_log_is_removed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::Each);
    let tree = pool.tree("t").unwrap();
    tree.insert(1, 1).unwrap();
    std::fs::remove_file(with(&path, ".log")).unwrap();
    for refused in [tree.insert(2, 2).unwrap_err(), tree.insert(3, 3).unwrap_err(), pool.sync().unwrap_err()] {
        assert!(
            matches!(&refused.kind, ErrorKind::Journal { .. }) && refused.to_string().contains("removed"),
            "{refused}"
        );
    }
    drop(tree);
    // All of it is still at hand, and the next open makes another log.
    pool.close().unwrap();
    assert_eq!(open(&path, Journal::Each).tree("t").unwrap().iter().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
}

#[test]
fn nothing_is_acknowledged_while_a_ring_cannot_be_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::OnRequest);
    let tree = pool.tree("t").unwrap();
    tree.insert(1, 1).unwrap();
    pool.sync().unwrap();
    tree.insert(2, 2).unwrap();
    std::fs::remove_file(with(&path, ".ring")).unwrap();
    // All the names that it could have are those of others.
    std::fs::write(with(&path, ".ring"), "somebody's").unwrap();
    (1..8).for_each(|number| std::fs::write(with(&path, &format!(".ring.{number}")), "somebody's").unwrap());
    for refused in [pool.sync().unwrap_err(), tree.insert(3, 3).unwrap_err(), pool.sync().unwrap_err()] {
        assert!(
            matches!(&refused.kind, ErrorKind::Journal { .. }) && refused.to_string().contains("removed"),
            "{refused}"
        );
    }
    // A name is free again, which a change finds out by itself; and then none is, at the close, which loses nothing.
    std::fs::remove_file(with(&path, ".ring.1")).unwrap();
    let start = std::time::Instant::now();
    while tree.insert(3, 3).is_err() {
        assert!(start.elapsed() < Duration::from_secs(60), "no change looks for another ring");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::write(with(&path, ".ring.8"), std::fs::read(with(&path, ".ring.1")).unwrap()).unwrap();
    std::fs::rename(with(&path, ".ring.8"), with(&path, ".ring.1")).unwrap();
    drop(tree);
    pool.close().unwrap();
    std::fs::remove_file(with(&path, ".ring")).unwrap();
    assert_eq!(open(&path, Journal::Each).tree("t").unwrap().len(), 3);
}

#[test]
fn a_ring_that_is_replaced_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::OnRequest);
    let tree = pool.tree("t").unwrap();
    for key in 0..8 {
        std::fs::remove_file(with(&path, ".ring")).unwrap();
        tree.insert(key, key).unwrap();
        pool.sync().unwrap();
    }
    // Not those of other tests.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let left = maps.lines().filter(|line| line.contains(path.to_str().unwrap()) && line.contains(".ring (deleted)"));
    assert_eq!((left.count(), pool.journal().unwrap().rings), (0, 8));
}

#[test]
fn a_sync_of_nothing_looks_for_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::OnRequest);
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    pool.sync().unwrap();
    std::fs::remove_file(with(&path, ".ring")).unwrap();
    pool.sync().unwrap();
    assert!(with(&path, ".ring").exists());
    std::fs::remove_file(with(&path, ".log")).unwrap();
    assert!(pool.sync().unwrap_err().to_string().contains("removed"));
    pool.close().unwrap();
}

#[test]
fn a_pool_that_was_moved_while_it_was_open_loses_nothing_at_a_close() {
    for place in [RingPlace::Beside, RingPlace::InMemory] {
        let dir = tempfile::tempdir().unwrap();
        let (path, moved) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
        let pool = Pool::options().capacity(CAPACITY).journal(Journal::OnRequest).ring(place).open(&path).unwrap();
        pool.tree("t").unwrap().insert(1, 1).unwrap();
        let ring = rings(&path).remove(0);
        ["", ".log"].iter().for_each(|ending| std::fs::rename(with(&path, ending), with(&moved, ending)).unwrap());
        std::fs::remove_file(&ring).unwrap();
        assert!(pool.sync().unwrap_err().to_string().contains("not at the path"));
        pool.close().unwrap();
        assert_eq!(Pool::open(&moved).unwrap().tree("t").unwrap().len(), 1);
    }
}

#[test]
fn a_ring_that_is_removed_is_made_again() {
    for place in [RingPlace::Beside, RingPlace::InMemory] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let pool = Pool::options().capacity(CAPACITY).journal(Journal::OnRequest).ring(place).open(&path).unwrap();
        let tree = pool.tree("t").unwrap();
        tree.insert(1, 1).unwrap();
        for round in 1..4 {
            let found = rings(&path);
            std::fs::remove_file(&found[0]).unwrap();
            tree.insert(round, round).unwrap();
            pool.sync().unwrap();
            assert_eq!((pool.journal().unwrap().rings, rings(&path)), (round, found));
        }
        // Nothing asks for a ring at a close.
        std::fs::remove_file(&rings(&path)[0]).unwrap();
        tree.insert(4, 4).unwrap();
        drop(tree);
        pool.close().unwrap();
        assert_eq!(Pool::open(&path).unwrap().tree("t").unwrap().len(), 4);
    }
}

#[test]
fn what_was_flushed_into_a_ring_that_was_made_again_is_there_after_a_kill() {
    for (place, happens) in [("beside", "removed"), ("memory", "removed"), ("beside", "taken")] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        Killed::with(&path, place, happens).is_whole();
        assert_eq!(with(&path, ".ring.1").exists(), happens == "taken");
    }
}

#[test]
fn a_load_is_refused_once_the_journal_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::OnRequest);
    let tree = pool.tree("t").unwrap();
    std::fs::remove_file(with(&path, ".log")).unwrap();
    pool.sync().unwrap_err();
    let refused = tree.bulk_load((0..100).map(|key| (key, key))).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::Journal { .. }), "{refused}");
    assert!(tree.is_empty());
}

#[test]
fn who_may_use_the_pool_may_use_its_files_and_nobody_else() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    for mode in [0o600, 0o640, 0o666] {
        let path = dir.path().join(format!("{mode:o}.pool"));
        drop(plain().open(&path).unwrap());
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        Pool::add_journal(&path).unwrap();
        let pool = open(&path, Journal::OnRequest);
        pool.tree("t").unwrap();
        for file in rings(&path).into_iter().chain([with(&path, ".log")]) {
            let found = std::fs::metadata(&file).unwrap().permissions().mode();
            assert_eq!(found & 0o777, mode, "{}", file.display());
        }
        let backup = with(&path, ".backup");
        pool.backup(&backup).unwrap();
        assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o077, 0);
    }
}

#[test]
fn idle_opens_and_closes_write_little() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    drop(open(&path, Journal::OnRequest));
    let len = || std::fs::metadata(with(&path, ".log")).unwrap().len();
    let before = len();
    for round in 0..3 {
        let pool = open(&path, Journal::OnRequest);
        pool.tree("t").unwrap().insert(round, round).unwrap();
        pool.close().unwrap();
        assert_eq!(len(), before);
    }
}

#[test]
fn options_of_a_journal_are_not_lost_on_mappings() {
    use bristlecone::medium::{Dram, Mapped, Mapping};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let options = Pool::options().journal(Journal::OnRequest);
    let refused = options.create_on(Dram::zeroed(CAPACITY)).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::JournalThere { has: false }), "{refused}");
    drop(plain().open(&path).unwrap());
    let refused = options.open_on(Mapped::open(&path, Mapping::Write).unwrap()).unwrap_err();
    assert!(matches!(refused.kind, ErrorKind::JournalThere { has: false }), "{refused}");
    Pool::add_journal(&path).unwrap();
    let pool = options.open_on(Mapped::open(&path, Mapping::Write).unwrap()).unwrap();
    let tree = pool.tree("t").unwrap();
    let before = pool.journal().unwrap().syncs;
    (0..100).try_for_each(|key| tree.insert(key, key).map(drop)).unwrap();
    assert_eq!(pool.journal().unwrap().syncs, before);
    drop((tree, pool));
    let every = Pool::options().journal(Journal::Every(Duration::from_millis(1)));
    let pool = every.open_on(Mapped::open(&path, Mapping::Write).unwrap()).unwrap();
    let tree = pool.tree("t").unwrap();
    tree.insert(1, 1).unwrap();
    while pool.journal().unwrap().pending > 0 {
        std::thread::yield_now();
    }
}

/// The rings of a pool, in memory and beside it.
fn rings(path: &Path) -> Vec<PathBuf> {
    [in_memory(path), with(path, ".ring")].into_iter().filter(|path| path.exists()).collect()
}

/// Where the ring of a pool is in memory.
fn in_memory(path: &Path) -> PathBuf {
    // It has the number in its name that the pool's marker has, too.
    let content = std::fs::read(path).unwrap();
    let word = |at: usize| u64::from_le_bytes(content[at..at + 8].try_into().unwrap());
    format!("/dev/shm/bristlecone-{:016x}{:016x}.ring", word(1032), word(1040)).into()
}

#[test]
fn what_is_left_of_a_ring_whose_creation_was_cut_is_no_ring() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    drop(open(&path, Journal::Each));
    let len = std::fs::metadata(with(&path, ".ring")).unwrap().len();
    // A process is killed before the file has its length, or before all of it has its place, or before the log names
    // it.
    for (n, cut) in [0, 4096, len].into_iter().enumerate() {
        let path = dir.path().join(format!("{n}.pool"));
        drop(plain().open(&path).unwrap());
        Pool::add_journal(&path).unwrap();
        let ring = with(&path, ".ring");
        std::fs::File::create(&ring).unwrap().set_len(cut).unwrap();
        assert!(Pool::options().read_only(true).open(&path).unwrap().check().unwrap().is_clean());
        assert_eq!(std::fs::metadata(&ring).unwrap().len(), cut, "looking changes nothing");
        open(&path, Journal::Each).tree("t").unwrap().insert(1, 1).unwrap();
        assert_eq!(std::fs::metadata(&ring).unwrap().len(), len);
        assert!(!with(&path, ".ring.1").exists());
    }
}

#[test]
fn a_settled_pool_leaves_what_is_in_the_place_of_its_ring() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let ring = with(&path, ".ring");
    drop(open(&path, Journal::Each));
    std::fs::write(&ring, "somebody's").unwrap();
    for value in 0..3 {
        let pool = open(&path, Journal::Each);
        pool.tree("t").unwrap().insert(1, value).unwrap();
        assert!(with(&path, ".ring.1").exists() && !with(&path, ".ring.2").exists());
        drop(pool);
        assert_eq!(std::fs::read(&ring).unwrap(), b"somebody's");
    }
    // It is found there again, too.
    let killed = Killed::new(&path, "");
    assert_eq!(killed.opened(Recovery::Whole).tree("t").unwrap().len(), SYNCED + LATER);
    assert_eq!(std::fs::read(&ring).unwrap(), b"somebody's");
}

/// Where a part finds its pool, and where the ring of the pool is.
const POOL: &str = "BRISTLECONE_TEST_JOURNAL_POOL";
const RING: &str = "BRISTLECONE_TEST_JOURNAL_RING";
/// What happens to the ring while a part runs: it is removed now and then, or its place is taken by something else.
const HAPPENS: &str = "BRISTLECONE_TEST_JOURNAL_HAPPENS";
/// Keys that a killed process has synced, so many at once, and those that it had flushed after that.
const SYNCED: u64 = 400;
const AT_ONCE: u64 = 50;
const LATER: u64 = 200;

#[test]
#[ignore = "a part of a test"]
fn inserts_and_is_killed() {
    let path = PathBuf::from(std::env::var_os(POOL).expect("run by a test"));
    let options = Pool::options().capacity(CAPACITY).journal(Journal::OnRequest);
    let pool = match std::env::var(RING).as_deref() {
        Ok("beside") => options.ring(RingPlace::Beside),
        Ok("memory") => options.ring(RingPlace::InMemory),
        _ => options,
    };
    let pool = pool.open(&path).unwrap();
    let tree = pool.tree("t").unwrap();
    let happens = std::env::var(HAPPENS).unwrap_or_default();
    for key in 0..SYNCED + LATER {
        if happens == "removed" && [150, 250, 350].contains(&key) || happens == "taken" && key == 150 {
            let ring = rings(&path).remove(0);
            std::fs::remove_file(&ring).unwrap();
            if happens == "taken" {
                std::fs::write(&ring, "somebody's").unwrap();
            }
        }
        tree.insert(key, key * 3).unwrap();
        if key < SYNCED && (key + 1) % AT_ONCE == 0 {
            pool.sync().unwrap();
        }
    }
    // SAFETY: it ends the process.
    unsafe { libc::raise(libc::SIGKILL) };
}

/// What a killed process has left of its pool.
struct Killed {
    path: PathBuf,
}

impl Killed {
    /// Lets another process insert, and be killed, with its ring where it was, `beside` or in `memory`.
    fn new(path: &Path, ring: &str) -> Self {
        Self::with(path, ring, "")
    }

    /// Does so while something happens to the ring.
    fn with(path: &Path, ring: &str, happens: &str) -> Self {
        let mut part = Command::new(std::env::current_exe().unwrap());
        part.args(["--exact", "inserts_and_is_killed", "--ignored", "--nocapture", "--test-threads=1"]);
        let output = part.env(POOL, path).env(RING, ring).env(HAPPENS, happens).output().unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(signal, Some(libc::SIGKILL), "{output:?}");
        Self { path: path.to_owned() }
    }

    fn content(&self) -> [Vec<u8>; 2] {
        ["", ".log"].map(|ending| std::fs::read(with(&self.path, ending)).unwrap())
    }

    /// The error of an open by default, which has changed nothing, for writing and for reading.
    fn refused(&self) -> ErrorKind {
        let before = self.content();
        let read = Pool::options().read_only(true).open(&self.path).unwrap_err();
        let refused = Pool::open(&self.path).unwrap_err();
        assert_eq!(read.to_string(), refused.to_string());
        assert!(self.content() == before, "{refused}: it was changed");
        refused.kind
    }

    /// Opens it, and looks that the first of its keys are there, as a reader has seen them.
    fn opened(&self, recovery: Recovery) -> Pool {
        let seen = Pool::options().read_only(true).recovery(recovery).open(&self.path).unwrap();
        let (len, recovered) = (seen.tree("t").unwrap().len(), seen.journal().unwrap().recovered);
        drop(seen);
        let pool = Pool::options().journal(Journal::OnRequest).recovery(recovery).open(&self.path).unwrap();
        let tree = pool.tree("t").unwrap();
        assert!(tree.iter().eq((0..len).map(|key| (key, key * 3))), "{len}");
        assert_eq!(pool.journal().unwrap().recovered, recovered);
        assert!(pool.check().unwrap().is_clean());
        drop(tree);
        pool
    }

    /// Opens it, and looks that nothing is missing.
    fn is_whole(&self) {
        let pool = self.opened(Recovery::Whole);
        assert_eq!(pool.tree("t").unwrap().len(), SYNCED + LATER);
        let Recovered { from_ring, given_up, without_ring, lost, .. } = pool.journal().unwrap().recovered;
        assert!(from_ring >= LATER && (given_up, without_ring, lost) == (0, false, 0), "{from_ring}");
        pool.close().unwrap();
    }
}

#[test]
fn a_ring_that_is_lost_is_an_error_and_what_was_synced_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let killed = Killed::new(&dir.path().join("a.pool"), "");
    let ring = with(&killed.path, ".ring");
    std::fs::remove_file(&ring).unwrap();
    let refused = killed.refused();
    assert!(matches!(&refused, ErrorKind::RingLost { path } if Path::new(path) == ring), "{refused}");
    let pool = killed.opened(Recovery::WithoutRing);
    assert!((SYNCED..SYNCED + LATER).contains(&pool.tree("t").unwrap().len()));
    assert!(pool.journal().unwrap().recovered.without_ring);
    pool.close().unwrap();
    assert_eq!(open(&killed.path, Journal::Each).journal().unwrap().recovered, Recovered::default());
}

#[test]
fn a_killed_pool_is_whole_wherever_its_files_go() {
    let dir = tempfile::tempdir().unwrap();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let endings = ["", ".log", ".ring"];
    let elsewhere = dir.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    let killed = Killed::new(&dir.path().join("a.pool"), "");
    for (path, copied) in [(memory.path().join("b.pool"), true), (elsewhere.join("c.pool"), false)] {
        for ending in endings {
            let (from, to) = (with(&killed.path, ending), with(&path, ending));
            if copied { std::fs::copy(from, to).map(drop) } else { std::fs::rename(from, to) }.unwrap();
        }
        Killed { path }.is_whole();
    }
    // A copy with holes.
    let killed = Killed::new(&dir.path().join("d.pool"), "");
    let path = dir.path().join("e.pool");
    for ending in endings {
        let files = [with(&killed.path, ending), with(&path, ending)];
        assert!(Command::new("cp").arg("--sparse=always").args(files).status().unwrap().success());
    }
    let meta = std::fs::metadata(with(&path, ".ring")).unwrap();
    assert!(std::os::unix::fs::MetadataExt::blocks(&meta) * 512 < meta.len());
    Killed { path }.is_whole();
}

#[test]
fn what_is_in_the_place_of_a_ring_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let killed = Killed::new(&dir.path().join("a.pool"), "");
    let (ring, aside) = (with(&killed.path, ".ring"), dir.path().join("aside"));
    let is_named = |what: &str| {
        let refused = killed.refused();
        let is_named =
            matches!(&refused, ErrorKind::Ring { path, found } if Path::new(path) == ring && found.contains(what));
        assert!(is_named, "{refused}");
    };
    std::fs::rename(&ring, &aside).unwrap();
    std::fs::create_dir(&ring).unwrap();
    is_named("no file");
    std::fs::remove_dir(&ring).unwrap();
    let content = std::fs::read(&aside).unwrap();
    std::fs::write(&ring, &content[..content.len() / 2]).unwrap();
    is_named("it was cut");
    std::fs::rename(&aside, &ring).unwrap();
    // Only root may give a file away.
    if std::os::unix::fs::chown(&ring, Some(12345), None).is_ok() {
        is_named("another user");
        std::os::unix::fs::chown(&ring, Some(std::fs::metadata(&killed.path).unwrap().uid()), None).unwrap();
    }
    killed.is_whole();
}

#[test]
fn a_log_that_cannot_be_used_is_an_error_that_says_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let killed = Killed::new(&dir.path().join("a.pool"), "");
    let log = with(&killed.path, ".log");
    let [pool, content] = [&killed.path, &log].map(|path| std::fs::read(path).unwrap());
    let refused = |what: &str| {
        let refused = match Pool::open(&killed.path).unwrap_err().kind {
            ErrorKind::Log { found, .. } => found,
            other => panic!("{other}"),
        };
        let read = Pool::options().read_only(true).open(&killed.path).unwrap_err();
        assert!(matches!(read.kind, ErrorKind::Log { found, .. } if found == refused), "{read}, and {refused}");
        assert!(refused.contains(what) && refused.contains("restore a copy of "), "{refused}");
    };
    std::fs::write(&log, &content[..content.len() / 2]).unwrap();
    refused("shorter than its header says");
    std::fs::write(&log, vec![7; content.len()]).unwrap();
    refused("no valid header");
    std::fs::remove_file(&log).unwrap();
    refused(".log at its end");
    std::fs::write(&log, &content).unwrap();
    let mut damaged = pool.clone();
    damaged[1030] ^= 1;
    std::fs::write(&killed.path, damaged).unwrap();
    refused("the pool's marker");
    std::fs::write(&killed.path, &pool).unwrap();
    killed.is_whole();
}

#[test]
fn a_ring_of_another_pool_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let [killed, other] = ["a.pool", "b.pool"].map(|name| Killed::new(&dir.path().join(name), ""));
    let (ring, aside) = (with(&killed.path, ".ring"), dir.path().join("aside"));
    std::fs::rename(&ring, &aside).unwrap();
    std::fs::copy(with(&other.path, ".ring"), &ring).unwrap();
    let refused = killed.refused();
    assert!(matches!(&refused, ErrorKind::Ring { found, .. } if found.contains("another pool")), "{refused}");
    std::fs::rename(&aside, &ring).unwrap();
    killed.is_whole();
}

#[test]
fn a_ring_moves_between_memory_and_the_place_beside_the_pool() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let beside = with(&path, ".ring");
    let mut place = "memory";
    for next in ["beside", "memory", "memory"] {
        let killed = Killed::new(&path, place);
        let memory = in_memory(&path);
        assert_eq!(rings(&path), [if place == "memory" { &memory } else { &beside }.clone()]);
        // It is read where it is, and stays there.
        killed.is_whole();
        assert_eq!((memory.exists(), beside.exists()), (false, place == "beside"), "after a close");
        // What a killed process has left in one place is taken over by one that has its ring in the other.
        Killed::new(&path, place);
        let killed = Killed::new(&path, next);
        assert_eq!(rings(&path), [if next == "memory" { &memory } else { &beside }.clone()]);
        killed.is_whole();
        place = next;
    }
}

#[test]
fn a_pool_that_was_just_given_a_journal_needs_no_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = plain().open(&path).unwrap();
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    pool.close().unwrap();
    for remove in [false, true] {
        Pool::add_journal(&path).unwrap();
        std::fs::remove_file(with(&path, ".log")).unwrap();
        assert_eq!(Pool::options().read_only(true).open(&path).unwrap().check().unwrap().entries, 1);
        if !remove {
            assert_eq!(Pool::open(&path).unwrap().tree("t").unwrap().get(1), Some(1));
        }
        Pool::remove_journal(&path).unwrap();
        assert_eq!(Pool::open(&path).unwrap().tree("t").unwrap().get(1), Some(1));
    }
}

#[test]
fn a_wrong_bit_in_a_log_is_an_error_until_the_log_is_cut_there() {
    /// Bytes of a ring before its cells.
    const HEAD: usize = 2048;
    let dir = tempfile::tempdir().unwrap();
    for is_in_ring in [true, false] {
        let killed = Killed::new(&dir.path().join(format!("{is_in_ring}.pool")), "");
        let [log, ring] = [".log", ".ring"].map(|ending| with(&killed.path, ending));
        let mut content = std::fs::read(&log).unwrap();
        let used = content.iter().rposition(|&byte| byte != 0).unwrap();
        // Behind its two headers.
        content[(8192 + used) / 2] ^= 4;
        std::fs::write(&log, &content).unwrap();
        if !is_in_ring {
            // As if other entries had taken their cells.
            let mut content = std::fs::read(&ring).unwrap();
            content[HEAD..].fill(0);
            std::fs::write(&ring, content).unwrap();
        }
        let refused = killed.refused();
        assert!(matches!(refused, ErrorKind::LogDamaged { lost, .. } if lost > AT_ONCE), "{refused}");
        let pool = killed.opened(Recovery::ShortLog);
        let (left, lost) = (pool.tree("t").unwrap().len(), pool.journal().unwrap().recovered.lost);
        if is_in_ring {
            assert_eq!((left, lost), (SYNCED + LATER, 0));
        } else {
            assert!((AT_ONCE..SYNCED).contains(&left) && left % AT_ONCE == 0 && lost > AT_ONCE, "{left}, {lost}");
        }
        pool.close().unwrap();
        assert_eq!(open(&killed.path, Journal::Each).journal().unwrap().recovered, Recovered::default());
    }
}

/// What a cut of the creation, of the addition, or of the removal leaves: the superblock says that there is a journal,
/// and the marker does not. All of the pool is in its file.
#[test]
fn a_pool_whose_journal_was_half_there_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    for key in 0..3 {
        let pool = open(&path, Journal::OnRequest);
        pool.tree("t").unwrap().insert(key, key).unwrap();
        pool.close().unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 1024).unwrap();
        drop(file);
        if key == 1 {
            std::fs::remove_file(with(&path, ".log")).unwrap();
        }
        let looked_at = Pool::options().read_only(true).open(&path).unwrap();
        assert_eq!(looked_at.check().unwrap().entries, key + 1);
        drop(looked_at);
        let pool = Pool::open(&path).unwrap();
        assert_eq!(pool.durability(), Domain::Journal);
        assert_eq!(pool.tree("t").unwrap().get(key), Some(key));
    }
}

#[test]
fn a_pool_that_was_killed_is_given_a_journal() {
    let dir = tempfile::tempdir().unwrap();
    let (path, killed) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
    let pool = plain().open(&path).unwrap();
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    std::fs::copy(&path, &killed).unwrap();
    drop(pool);
    for path in [path, killed] {
        Pool::add_journal(&path).unwrap();
        assert_eq!(Pool::open(&path).unwrap().tree("t").unwrap().get(1), Some(1));
        Pool::remove_journal(&path).unwrap();
        let pool = Pool::open(&path).unwrap();
        assert_eq!((pool.durability(), pool.tree("t").unwrap().get(1)), (Domain::Process, Some(1)));
    }
}

#[test]
fn a_damaged_marker_costs_nothing_of_the_log() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::Each);
    pool.tree("t").unwrap().insert(1, 10).unwrap();
    let after = dir.path().join("after.pool");
    copy(&path, &after);
    let log = std::fs::read(with(&after, ".log")).unwrap();
    let file = std::fs::File::options().read(true).write(true).open(&after).unwrap();
    let mut marker = [0; 64];
    file.read_exact_at(&mut marker, 1024).unwrap();
    for damaged in [[1; 64], [0; 64]] {
        file.write_all_at(&damaged, 1024).unwrap();
        let refused = Pool::open(&after).unwrap_err();
        assert!(
            matches!(refused.kind, ErrorKind::Log { .. } | ErrorKind::NotAPool { .. } | ErrorKind::Superblock { .. }),
            "{refused}"
        );
        assert!(std::fs::read(with(&after, ".log")).unwrap() == log, "the log was changed");
    }
    file.write_all_at(&marker, 1024).unwrap();
    assert_eq!(without_ring(&after).tree("t").unwrap().get(1), Some(10));
}

/// What an open has asked for is what later opens have that ask for nothing: in any state of the pool, and also if its
/// log is gone, or the process was killed.
#[test]
fn the_mode_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let mode = |options: bristlecone::Options| options.open(&path).unwrap().journal().map(|stat| stat.mode);
    let every = |millis| Journal::Every(Duration::from_millis(millis));
    for journal in [every(7), Journal::OnRequest, Journal::Each, every(3_600_000)] {
        assert_eq!(mode(Pool::options().capacity(CAPACITY).journal(journal)), Some(journal));
        assert_eq!(mode(Pool::options()), Some(journal));
        assert_eq!(mode(Pool::options().read_only(true)), Some(journal));
        // A pool that was closed in order needs no log.
        std::fs::remove_file(with(&path, ".log")).unwrap();
        assert_eq!(mode(Pool::options().read_only(true)), Some(journal));
        assert_eq!(mode(Pool::options()), Some(journal));
    }
    // What was asked for first counts, and not what the process has stored since.
    let pool = open(&path, every(20));
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    std::mem::forget(pool.tree("t").unwrap());
    let copied = dir.path().join("copy");
    pool.sync().unwrap();
    copy(&path, &copied);
    let pool = Pool::options().recovery(Recovery::WithoutRing).open(&copied).unwrap();
    assert_eq!(pool.journal().unwrap().mode, every(20));
    assert_eq!(pool.tree("t").unwrap().get(1), Some(1));
}

/// A pool of a build that remembered nothing: each change waits, as it did.
#[test]
fn a_marker_without_a_mode_means_each() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    open(&path, Journal::OnRequest).close().unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let marker = &mut bytes[1024..1024 + 56];
    marker[41..48].fill(0);
    let sum = u64::from(crc32fast::hash(&marker[..48])) | 1 << 32;
    marker[48..].copy_from_slice(&sum.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(Pool::open(&path).unwrap().journal().unwrap().mode, Journal::Each);
}

#[test]
fn an_open_gives_a_pool_its_journal_and_takes_none_away() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = plain().open(&path).unwrap();
    assert_eq!(pool.durability(), Domain::Process);
    pool.tree("t").unwrap().extend((0..1000).map(|key| (key, key))).unwrap();
    drop(pool);
    // The pool was not closed in order, or it was; it has a tree.
    for closes in [false, true] {
        let pool = plain().open(&path).unwrap();
        if closes {
            pool.close().unwrap()
        } else {
            std::mem::forget((pool.tree("t").unwrap(), pool))
        }
        if !closes {
            let copied = dir.path().join("copy");
            std::fs::copy(&path, &copied).unwrap();
            std::fs::rename(&copied, &path).unwrap();
        }
        let pool = open(&path, Journal::OnRequest);
        assert_eq!(pool.durability(), Domain::Journal);
        assert_eq!(pool.tree("t").unwrap().len(), 1000);
        pool.close().unwrap();
        let refused = plain().open(&path).unwrap_err();
        assert!(matches!(refused.kind, ErrorKind::JournalThere { has: true }), "{refused}");
        assert!(refused.to_string().contains("remove_journal"), "{refused}");
        let unsynced = Pool::options().sync(false).open(&path).unwrap_err();
        assert!(matches!(unsynced.kind, ErrorKind::InvalidOption { .. }), "{unsynced}");
        assert!(unsynced.to_string().contains("Journal::None"), "{unsynced}");
        Pool::remove_journal(&path).unwrap();
    }
    plain().sync(false).open(&path).unwrap().close().unwrap();
    let unsynced = Pool::options().journal(Journal::Each).sync(false).open(&path).unwrap_err();
    assert!(matches!(unsynced.kind, ErrorKind::InvalidOption { .. }), "{unsynced}");
}

/// A directory on a disk; `None` where there is none to be had.
fn on_disk() -> Option<tempfile::TempDir> {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let found = rustix::fs::statfs(dir.path()).unwrap().f_type;
    (found != libc::TMPFS_MAGIC).then_some(dir)
}

#[test]
fn a_new_pool_on_a_disk_has_a_journal() {
    let Some(dir) = on_disk() else { return eprintln!("skipped: there is no disk") };
    let path = dir.path().join("a.pool");
    let pool = Pool::options().open(&path).unwrap();
    assert_eq!(pool.journal().unwrap().mode, Journal::Every(Duration::from_millis(10)));
    pool.tree("t").unwrap().insert(1, 2).unwrap();
    // The machine goes down: the ring is lost with what it has.
    pool.sync().unwrap();
    let copied = dir.path().join("copy");
    copy(&path, &copied);
    let copied = Pool::options().recovery(Recovery::WithoutRing).open(&copied).unwrap();
    assert_eq!(copied.tree("t").unwrap().get(1), Some(2));
    // A pool that is there keeps what it has.
    let without = dir.path().join("without");
    for options in [Pool::options().journal(Journal::None), Pool::options()] {
        assert_eq!(options.open(&without).unwrap().durability(), Domain::Process);
    }
    assert!(!with(&without, ".log").exists());
    let unsynced = Pool::options().sync(false).open(dir.path().join("c")).unwrap_err();
    assert!(matches!(unsynced.kind, ErrorKind::InvalidOption { .. }), "{unsynced}");
    assert!(!dir.path().join("c").exists());
}

#[test]
fn a_new_pool_in_memory_has_none() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else { return eprintln!("skipped: no shared memory") };
    let path = dir.path().join("a.pool");
    assert!(Pool::options().sync(false).open(&path).unwrap().journal().is_none());
    assert!(!with(&path, ".log").exists());
    drop(open(&path, Journal::OnRequest));
    assert!(Pool::open(&path).unwrap().journal().is_some());
}

/// A file that the user may write in a directory that takes no other, as a file that is mounted into a container.
#[test]
fn a_pool_whose_directory_takes_no_log_is_refused() {
    let Some(dir) = on_disk() else { return eprintln!("skipped: there is no disk") };
    let path = dir.path().join("a.pool");
    std::fs::File::create(&path).unwrap();
    let set = |mode| {
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    // Permissions do not hold root back, so a thread of another user opens the pool.
    let open = |options: bristlecone::Options| {
        set(0o555);
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let opened = std::thread::scope(|scope| {
            let open = || {
                // SAFETY: it changes the user of this thread alone, which ends.
                unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
                options.open(&path).map(drop)
            };
            scope.spawn(open).join().unwrap()
        });
        set(0o755);
        opened
    };
    let parents_are_open = std::fs::metadata(dir.path()).is_ok();
    assert!(parents_are_open);
    let Err(refused) = open(Pool::options().capacity(CAPACITY)) else { panic!("it has no log") };
    if matches!(refused.kind, ErrorKind::Io { .. }) {
        return eprintln!("skipped: another user does not come here: {refused}");
    }
    assert!(matches!(refused.kind, ErrorKind::NoPlaceForLog { .. }), "{refused}");
    assert!(refused.to_string().contains("Journal::None"), "{refused}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "nothing is left");
    open(Pool::options().capacity(CAPACITY).journal(Journal::None)).unwrap();
}

/// The log of a pool of which little is changed is small, and grows with what is changed. What was synced is there when
/// the log has grown, without the ring, too.
#[test]
fn a_log_grows_with_what_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let pool = open(&path, Journal::OnRequest);
    let log = || pool.journal().unwrap().log;
    let first = log();
    assert_eq!((first, std::fs::metadata(with(&path, ".log")).unwrap().len()), (256 << 10, (256 << 10) + 8192));
    let tree = pool.tree("t").unwrap();
    let (start, mut made) = (std::time::Instant::now(), 0);
    while log() < 4 * first {
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", pool.journal());
        tree.extend((0..500).map(|i| (i, made + i))).unwrap();
        made += 500;
        pool.sync().unwrap();
    }
    let copied = dir.path().join("copy");
    copy(&path, &copied);
    let copied = without_ring(&copied);
    assert_eq!(copied.tree("t").unwrap().iter().collect::<Vec<_>>(), tree.iter().collect::<Vec<_>>());
    assert!(copied.check().unwrap().violations.is_empty());
}

/// A backup of a pool with these keys, which waits for the disk so.
fn backup(dir: &Path, name: &str, mode: Journal, keys: u64) -> PathBuf {
    let (path, backup) = (dir.join(format!("{name}.pool")), dir.join(format!("{name}.backup")));
    let pool = open(&path, mode);
    let tree = pool.tree("t").unwrap();
    (0..keys).for_each(|key| assert_eq!(tree.insert(key, key * 3).unwrap(), None));
    drop(tree);
    pool.backup(&backup).unwrap();
    pool.close().unwrap();
    // It is a file alone.
    let beside = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(beside.filter(|file| file.starts_with(&format!("{name}.backup"))).count(), 1);
    backup
}

/// The numbers of a restored pool with so many keys: what was done with the old log.
fn restored(path: &Path, mode: Journal, keys: u64) -> Option<OldLog> {
    let beside = || [".log", ".ring"].map(|ending| std::fs::read(with(path, ending)).ok());
    let before = beside();
    let read = Pool::options().read_only(true).open(path).unwrap();
    assert_eq!((read.tree("t").unwrap().len(), read.journal().unwrap().mode), (keys, mode));
    assert!(read.stat().was_clean && read.check().unwrap().is_clean());
    drop(read);
    assert!(beside() == before, "looking changes nothing");
    let pool = Pool::open(path).unwrap();
    let stat = pool.journal().unwrap();
    assert_eq!((pool.tree("t").unwrap().len(), stat.mode, pool.stat().was_clean), (keys, mode, true));
    let mut expected = Recovered::default();
    expected.old_log = stat.recovered.old_log;
    assert_eq!(stat.recovered, expected);
    pool.close().unwrap();
    assert_eq!(Pool::open(path).unwrap().journal().unwrap().recovered, Recovered::default());
    stat.recovered.old_log
}

#[test]
fn a_backup_remembers_when_its_pool_waits_for_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [Journal::Each, Journal::Every(Duration::from_millis(250)), Journal::OnRequest] {
        let name = format!("{mode:?}");
        let backup = backup(dir.path(), &name, mode, 10);
        assert_eq!(restored(&backup, mode, 10), None);
        // So does a backup of a pool that is open for reading.
        let (again, path) = (dir.path().join("again"), dir.path().join(format!("{name}.pool")));
        Pool::options().read_only(true).open(path).unwrap().backup(&again).unwrap();
        assert_eq!(restored(&again, mode, 10), None);
        for file in ["again", "again.log", "again.ring"] {
            std::fs::remove_file(dir.path().join(file)).unwrap();
        }
    }
    let path = dir.path().join("without.pool");
    plain().open(&path).unwrap().backup(with(&path, ".backup")).unwrap();
    assert!(Pool::open(with(&path, ".backup")).unwrap().journal().is_none());
}

#[test]
fn a_restored_backup_takes_the_place_of_a_pool_that_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let mode = Journal::Every(Duration::from_millis(20));
    let backup = backup(dir.path(), "a", mode, 10);
    let path = dir.path().join("b.pool");
    // Also where the log's twin has gone round, and after a pool that was never changed.
    for keys in [300, 0] {
        let pool = open(&path, Journal::OnRequest);
        let tree = pool.tree("t").unwrap();
        (0..keys).for_each(|key| assert_eq!(tree.insert(key + 10, key).unwrap(), None));
        drop(tree);
        pool.close().unwrap();
        let restore = || std::fs::copy(&backup, &path).unwrap();
        restore();
        assert_eq!(restored(&path, mode, 10), Some(OldLog::Removed));
        // This backup once more, in the place of its other copy.
        Pool::open(&path).unwrap().tree("t").unwrap().insert(11, 11).unwrap();
        restore();
        assert_eq!(restored(&path, mode, 10), Some(OldLog::Removed));
        for file in [".log", ".ring"] {
            assert!(with(&path, file).exists() && !with(&path, &format!("{file}.old-1")).exists());
        }
        assert!(!with(&path, ".ring.1").exists());
        std::fs::remove_file(&path).unwrap();
        // A new pool is as good as a restored one.
        let pool = open(&path, Journal::OnRequest);
        assert_eq!(pool.journal().unwrap().recovered.old_log, Some(OldLog::Removed));
        pool.close().unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_log_that_its_pool_may_need_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mode = Journal::OnRequest;
    let backup = backup(dir.path(), "a", mode, 10);
    let path = dir.path().join("b.pool");
    let restore = || std::fs::copy(&backup, &path).unwrap();
    for (number, cut) in [(1, false), (2, true), (3, false)] {
        // The pool is moved away without its log and its ring, to make room for the backup.
        let killed = Killed::new(&path, "");
        let moved = dir.path().join(format!("{number}.moved"));
        std::fs::rename(&path, &moved).unwrap();
        let beside = [".log", ".ring"].map(|ending| std::fs::read(with(&path, ending)).unwrap());
        restore();
        if cut {
            std::fs::rename(with(&path, ".ring"), with(&path, &format!(".ring.old-{number}"))).unwrap();
        }
        assert_eq!(restored(&path, mode, 10), Some(OldLog::Kept { number }));
        let old = [".log", ".ring"].map(|ending| with(&path, &format!("{ending}.old-{number}")));
        assert!(old.each_ref().map(|old| std::fs::read(old).unwrap()) == beside);
        for (old, ending) in old.iter().zip([".log", ".ring"]) {
            std::fs::copy(old, with(&moved, ending)).unwrap();
        }
        Killed { path: moved }.is_whole();
        // The next one is killed with log and ring of a copy of the backup.
        assert_eq!(killed.path, path);
        std::fs::remove_file(&path).unwrap();
        for ending in [".log", ".ring"] {
            std::fs::remove_file(with(&path, ending)).unwrap();
        }
    }
    // Another copy of the same backup was killed.
    restore();
    let pool = Pool::open(&path).unwrap();
    pool.tree("t").unwrap().insert(11, 11).unwrap();
    let files = ["", ".log", ".ring"].map(|ending| std::fs::read(with(&path, ending)).unwrap());
    pool.close().unwrap();
    for (file, ending) in files.iter().zip(["", ".log", ".ring"]) {
        std::fs::write(with(&path, ending), file).unwrap();
    }
    restore();
    assert_eq!(restored(&path, mode, 10), Some(OldLog::Kept { number: 4 }));
    assert!(std::fs::read(with(&path, ".log.old-4")).unwrap() == files[1]);
}

/// What a close has noted counts only as long as the log is as it was.
#[test]
fn a_log_that_is_damaged_or_was_used_since_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mode = Journal::OnRequest;
    let backup = backup(dir.path(), "a", mode, 10);
    let path = dir.path().join("b.pool");
    let pool = open(&path, mode);
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    pool.close().unwrap();
    let closed = std::fs::read(with(&path, ".log")).unwrap();
    drop(open(&path, mode));
    let pool = open(&path, mode);
    let used = std::fs::read(with(&path, ".log")).unwrap();
    pool.close().unwrap();
    let mut logs = vec![used];
    for at in [0, 4096, 1024] {
        let mut log = closed.clone();
        log[at + 40] ^= 1;
        logs.push(log);
    }
    for (log, number) in logs.iter().zip(1..) {
        std::fs::write(with(&path, ".log"), log).unwrap();
        std::fs::copy(&backup, &path).unwrap();
        assert_eq!(restored(&path, mode, 10), Some(OldLog::Kept { number }));
        assert!(std::fs::read(with(&path, &format!(".log.old-{number}"))).unwrap() == *log);
    }
    std::fs::write(with(&path, ".log"), &closed).unwrap();
    std::fs::copy(&backup, &path).unwrap();
    assert_eq!(restored(&path, mode, 10), Some(OldLog::Removed));
}

#[test]
fn a_log_that_a_process_uses_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let mode = Journal::OnRequest;
    let backup = backup(dir.path(), "a", mode, 10);
    let (path, moved) = (dir.path().join("b.pool"), dir.path().join("c.pool"));
    let pool = open(&path, mode);
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    std::fs::rename(&path, &moved).unwrap();
    std::fs::copy(&backup, &path).unwrap();
    let refused = Pool::open(&path).unwrap_err();
    assert!(
        matches!(&refused.kind, ErrorKind::LogInTheWay { path: log, found }
            if *log == with(&path, ".log").display().to_string() && found.contains("a process has open")),
        "{refused}"
    );
    pool.sync().unwrap();
    pool.close().unwrap();
    assert_eq!(restored(&path, mode, 10), Some(OldLog::Removed));
    assert_eq!(Pool::open(&moved).unwrap().tree("t").unwrap().get(1), Some(1));
}

/// Space that is given back outside of a change: by a reader that outlasts its record, and by a transaction that fails.
/// With debug assertions, a store outside of a window panics (J34).
#[test]
fn space_is_given_back_within_windows() {
    let dir = tempfile::tempdir().unwrap();
    let options = Pool::options().segment_size(4096).capacity(CAPACITY).journal(Journal::OnRequest);
    let pool = options.open(dir.path().join("a.pool")).unwrap();
    let map: Map<Vec<u8>, Vec<u8>> = pool.map("m").unwrap();
    let value = vec![7; 64 << 10];
    let free = |pool: &Pool| pool.stat().available;
    map.insert(b"other", b"1").unwrap();
    let before = free(&pool);
    for round in 0..4 {
        map.insert(b"long", &value).unwrap();
        let mut entries = map.iter();
        assert_eq!(entries.next().unwrap().unwrap().1, value);
        map.remove(b"long").unwrap();
        drop(entries);
        let failed = pool.transaction(|tx| -> Result<(), Box<dyn std::error::Error>> {
            tx.insert(&map, b"long", &value)?;
            if round % 2 == 0 { Err("changed its mind".into()) } else { Ok(()) }
        });
        assert_eq!(failed.is_err(), round % 2 == 0);
        map.remove(b"long").unwrap();
    }
    map.insert(b"other", b"2").unwrap();
    drop(map);
    assert!(pool.check().unwrap().is_clean());
    assert!(free(&pool) + (1 << 20) > before, "{} of {before}", free(&pool));
    pool.close().unwrap();
}

/// What cannot have a log beside it says so, whatever the reason, and leaves nothing.
#[test]
fn where_no_log_can_be_the_error_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let create = |name: &str| Pool::options().journal(Journal::Each).open(dir.path().join(name)).unwrap_err();
    let long = "n".repeat(252);
    let refused = create(&long);
    assert!(matches!(refused.kind, ErrorKind::NoPlaceForLog { .. }), "{refused}");
    assert!(refused.to_string().contains("Journal::None"), "{refused}");
    std::os::unix::fs::symlink("nowhere", dir.path().join("a.log")).unwrap();
    let refused = create("a");
    assert!(matches!(&refused.kind, ErrorKind::LogInTheWay { found, .. } if found.contains("link")), "{refused}");
    let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.log"]);
    plain().open(dir.path().join(long)).unwrap();
}

/// A pool without a journal is restored, and gets one; or there is none, and one is made.
#[test]
fn a_journal_is_added_where_an_old_log_is() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pool");
    let killed = Killed::new(&path, "");
    std::fs::remove_file(&path).unwrap();
    let log = std::fs::read(with(&path, ".log")).unwrap();
    // Its pool may be missing by mistake.
    let refused = Pool::options().journal(Journal::Each).open(&killed.path).unwrap_err();
    assert!(matches!(&refused.kind, ErrorKind::LogInTheWay { found: "the log of another pool", .. }), "{refused}");
    assert!(!path.exists() && std::fs::read(with(&path, ".log")).unwrap() == log);
    plain().open(&path).unwrap().close().unwrap();
    for number in 1..3 {
        if number == 1 {
            assert_eq!(Pool::add_journal(&path).unwrap(), Some(OldLog::Kept { number }));
        } else {
            std::fs::write(with(&path, ".log"), &log).unwrap();
            let pool = Pool::options().journal(Journal::Each).open(&path).unwrap();
            assert_eq!(pool.journal().unwrap().recovered.old_log, Some(OldLog::Kept { number }));
        }
        assert!(std::fs::read(with(&path, &format!(".log.old-{number}"))).unwrap() == log);
        Pool::remove_journal(&path).unwrap();
    }
    assert_eq!(Pool::add_journal(&path).unwrap(), None);
}

/// The log was put back as it was before the first open, and the ring is gone: nothing but the marker knows of what was
/// changed.
#[test]
fn a_pool_that_the_marker_does_not_call_settled_was_not_closed() {
    let dir = tempfile::tempdir().unwrap();
    let (path, killed) = (dir.path().join("a.pool"), dir.path().join("b.pool"));
    plain().open(&path).unwrap().close().unwrap();
    Pool::add_journal(&path).unwrap();
    let new = std::fs::read(with(&path, ".log")).unwrap();
    let pool = open(&path, Journal::Each);
    let tree = pool.tree("t").unwrap();
    (0..100).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
    copy(&path, &killed);
    std::fs::write(with(&killed, ".log"), &new).unwrap();
    for recovery in [Recovery::Whole, Recovery::WithoutRing] {
        let options = Pool::options().recovery(recovery);
        for refused in [options.clone().read_only(true).open(&killed), options.open(&killed)] {
            let refused = refused.unwrap_err();
            assert!(matches!(refused.kind, ErrorKind::LogDamaged { .. }), "{refused}");
        }
    }
    assert!(std::fs::read(with(&killed, ".log")).unwrap() == new);
    // A pool that gives up what its log lacks says that it was not closed.
    let options = Pool::options().recovery(Recovery::ShortLog);
    for options in [options.clone().read_only(true), options] {
        let pool = options.open(&killed).unwrap();
        assert!(!pool.stat().was_clean && pool.check().unwrap().is_clean());
    }
    // A pool is not closed either if its marker was lost, and its log or ring has more than its file.
    let file = std::fs::File::options().write(true).open(&killed).unwrap();
    for synced in [true, false] {
        let pool = open(&path.with_extension(synced.to_string()), Journal::OnRequest);
        let path = path.with_extension(synced.to_string());
        let tree = pool.tree("t").unwrap();
        (0..100).for_each(|key| assert_eq!(tree.insert(key, key).unwrap(), None));
        if synced {
            pool.sync().unwrap();
        }
        copy(&path, &killed);
        std::fs::copy(with(&path, ".ring"), with(&killed, ".ring")).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&file, &[0; 512], 1024).unwrap();
        let log = std::fs::read(with(&killed, ".log")).unwrap();
        for options in [Pool::options().read_only(true), Pool::options()] {
            let refused = options.open(&killed).unwrap_err();
            assert!(matches!(refused.kind, ErrorKind::Log { found, .. } if found.contains("not empty")), "{refused}");
        }
        assert!(std::fs::read(with(&killed, ".log")).unwrap() == log);
    }
}

/// What a small pool takes, and how its ring grows once changes have to wait for room. There is one ring at any time,
/// with what the log lacks.
#[test]
fn a_ring_grows_with_what_has_to_wait() {
    for place in [RingPlace::Beside, RingPlace::InMemory] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let pool = Pool::options().capacity(CAPACITY).journal(Journal::OnRequest).ring(place).open(&path).unwrap();
        let tree = pool.tree("t").unwrap();
        let all: u64 = rings(&path).iter().chain([&with(&path, ".log")]).map(|file| len(file)).sum();
        assert!(all <= 512 << 10, "{all}");
        let (first, found) = (pool.journal().unwrap().ring, rings(&path));
        let (start, mut made) = (std::time::Instant::now(), 0u64);
        // How often changes wait is up to the machine; once is enough.
        while pool.journal().unwrap().rings == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", pool.journal());
            tree.extend((0..500).map(|key| (key, made + key))).unwrap();
            made += 500;
        }
        let stat = pool.journal().unwrap();
        assert!(stat.ring > first && rings(&path) == found, "{stat:?}");
        assert_eq!(len(&found[0]), stat.ring);
        // What is under another name is about to be removed.
        let others = || {
            std::fs::read_dir(dir.path())
                .unwrap()
                .filter(|file| file.as_ref().is_ok_and(|file| file.file_name().to_string_lossy().contains(".part")))
        };
        while others().count() > 0 {
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        // No checkpoint changes the files while they are copied.
        pool.sync().unwrap();
        while pool.journal().is_some_and(|stat| stat.used > stat.log / 2) {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", pool.journal());
        }
        tree.extend((0..100).map(|key| (1000 + key, key))).unwrap();
        if place == RingPlace::Beside {
            // As a kill would leave it.
            let copied = dir.path().join("copy");
            copy(&path, &copied);
            std::fs::copy(&found[0], with(&copied, ".ring")).unwrap();
            assert_eq!(Pool::open(&copied).unwrap().tree("t").unwrap().len(), 600);
        }
        drop(tree);
        pool.close().unwrap();
        assert_eq!(Pool::open(&path).unwrap().tree("t").unwrap().len(), 600);
    }
}

fn len(file: &Path) -> u64 {
    std::fs::metadata(file).unwrap().len()
}

/// Pools that nobody changes, after all that was due is done: how often threads of this process have run.
fn switches() -> u64 {
    let of = |task: &Path| {
        let status = std::fs::read_to_string(task.join("status")).unwrap_or_default();
        let is_own = status.lines().any(|line| line == "Name:\tbristlecone");
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:\t"));
        is_own.then(|| count.and_then(|count| count.parse::<u64>().ok())).flatten()
    };
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.filter_map(|task| of(&task.ok()?.path())).sum()
}

/// Run alone in a process, by the test below: a thread of another test would be counted.
#[test]
#[ignore = "for a test that runs it alone"]
fn many_pools_alone() {
    const POOLS: usize = 100;
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..POOLS).map(|i| dir.path().join(format!("{i}.pool"))).collect();
    let own = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = own();
    let pools: Vec<Pool> = paths.iter().map(|path| open(path, Journal::default())).collect();
    let trees: Vec<_> = pools.iter().map(|pool| pool.tree("t").unwrap()).collect();
    for round in 0..3 {
        trees.iter().for_each(|tree| _ = tree.insert(round, round).unwrap());
        std::thread::sleep(Duration::from_millis(30));
    }
    // What was flushed reaches the disk though nobody asks for it, also after a pause.
    let start = std::time::Instant::now();
    while pools.iter().any(|pool| pool.journal().unwrap().pending > 0) {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    // One thread is left, and it sleeps.
    let mut last = switches();
    while own() > before + 1 || switches() != last {
        last = switches();
        assert!(start.elapsed() < Duration::from_secs(60), "{} threads, {last}", own() - before);
        std::thread::sleep(Duration::from_millis(300));
    }
    let files: u64 = std::fs::read_dir(dir.path()).unwrap().map(|file| blocks(&file.unwrap().path())).sum();
    assert!(files / POOLS as u64 <= 1 << 20, "{files} bytes");
    trees[7].insert(9, 9).unwrap();
    while pools[7].journal().unwrap().pending > 0 {
        assert!(start.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(1));
    }
    drop((trees, pools));
    while own() > before {
        assert!(start.elapsed() < Duration::from_secs(60), "a thread is left");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn blocks(file: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(file).unwrap()) * 512
}

/// A hundred pools have one thread that looks after them, which sleeps while nobody changes anything, and takes none
/// with it; and take at most a mebibyte of the disk each.
#[test]
fn many_idle_pools_have_one_thread_that_sleeps() {
    let mut alone = Command::new(std::env::current_exe().unwrap());
    let output = alone.args(["--exact", "many_pools_alone", "--ignored", "--test-threads=1"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
