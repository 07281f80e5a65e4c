//! Mappings that grow, give space back, and are cut.

use super::mode::HUGE_PAGE;
use super::*;
use crate::error::ErrorKind;
use crate::medium::{LOG, Recovery, disk_file};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;

const MIB: u64 = 1 << 20;

thread_local! {
    /// The bytes of a page for this thread, if they are not the machine's.
    pub(super) static PAGE: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

thread_local! {
    /// From which length on files are read page by page for this thread, if not by the memory.
    pub(super) static SHARE: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

const REACH: u64 = 64 * MIB;
const UUID: [u64; 2] = [3, 4];

/// A file and what lies beside it.
struct Scratch(tempfile::TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    /// In memory, where the system has a place for that.
    fn in_memory() -> Option<Self> {
        tempfile::tempdir_in("/dev/shm").ok().map(Self)
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("words")
    }

    /// A file of so many bytes, with a journal or without.
    fn with(&self, len: u64, has_journal: bool) -> Mapped {
        let made = Mapped::conceive(&self.path(), (len, REACH), !has_journal, 0, |_| false)
            .unwrap_or_else(|_| panic!("no file"));
        made.is_born();
        if has_journal {
            made.create_log(&self.path(), UUID, LOG).unwrap_or_else(|_| panic!("no log"));
            made.adopt_journal(&self.path(), UUID, journal::Journal::Each).unwrap_or_else(|_| panic!("no marker"));
        }
        drop(made);
        self.again(Mapping::Write)
    }

    fn again(&self, mapping: Mapping) -> Mapped {
        existing(&self.path(), mapping)
    }
}

fn existing(path: &Path, mapping: Mapping) -> Mapped {
    recovered(path, mapping, Recovery::Whole)
}

fn recovered(path: &Path, mapping: Mapping, recovery: Recovery) -> Mapped {
    let wanted = Wanted { recovery, ..Wanted::default() };
    Mapped::existing_with(path, mapping, REACH, wanted).unwrap_or_else(|fault| panic!("{}", fault.in_pool("words")))
}

fn store(m: &Mapped, at: u64, value: u64) {
    let _window = m.window();
    m.store(at, value);
}

fn store_pair(m: &Mapped, at: u64, pair: [u64; 2]) {
    let _window = m.window();
    m.store_pair(at, pair);
}

/// Stores a word such that it is there after a kill.
fn put(m: &Mapped, at: u64, value: u64) {
    let _window = m.window();
    m.store(at, value);
    m.flush(at, 8, Step::Measure);
    m.fence(Step::Measure);
}

fn file_len(m: &Mapped) -> u64 {
    m.file.metadata().unwrap().len()
}

fn panics(access: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(access)).is_err()
}

/// Runs one of these tests in a process of its own, which finds `what` in its environment.
fn elsewhere(test: &str, what: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let name = format!("medium::mapped::tests::{test}");
    command.args(["--exact", &name, "--nocapture"]).env(CHILD, what).output().unwrap()
}

const CHILD: &str = "BRISTLECONE_TEST_GROWING";

/// The path that a test was given by the process that started it.
fn child() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

#[test]
fn a_file_that_has_grown_is_longer_and_keeps_what_it_had() {
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        // The last page is not whole.
        let m = scratch.with(MIB + 24, has_journal);
        assert_eq!((m.accessible(), m.facts().len), (MIB + 24, REACH), "{has_journal}");
        put(&m, MIB, 7);
        put(&m, MIB + 16, 8);
        for (at, len, grown) in [(MIB + 24, 8, 2 * MIB), (2 * MIB, 1, 4 * MIB), (40 * MIB, 0, 40 * MIB)] {
            m.reserve(at, len).unwrap();
            assert_eq!((m.accessible(), file_len(&m)), (grown, grown), "{has_journal}");
        }
        assert_eq!([MIB + 24, 2 * MIB, 40 * MIB - 8].map(|at| m.load(at)), [0; 3]);
        m.reserve(39 * MIB, MIB).unwrap();
        put(&m, 40 * MIB - 8, 9);
        m.reserve(REACH - 8, 8).unwrap();
        assert_eq!((m.accessible(), file_len(&m)), (REACH, REACH));
        put(&m, REACH - 64, 10);
        for (at, len) in [(REACH, 1), (REACH - 8, 16), (u64::MAX, 1), (8, u64::MAX)] {
            let error = m.reserve(at, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        }
        assert_eq!(file_len(&m), REACH);
        m.settle().unwrap();
        drop(m);
        for mapping in [Mapping::Read, Mapping::Copy, Mapping::Write] {
            let m = scratch.again(mapping);
            assert_eq!(m.accessible(), REACH);
            let found = [MIB, MIB + 16, 40 * MIB - 8, REACH - 64, MIB + 24].map(|at| m.load(at));
            assert_eq!(found, [7, 8, 9, 10, 0], "{has_journal} {mapping:?}");
        }
    }
}

#[test]
fn a_journal_makes_a_file_grow_in_longer_steps() {
    let scratch = Scratch::new();
    let m = scratch.with(32 * MIB, true);
    m.reserve(32 * MIB, 8).unwrap();
    assert_eq!(m.accessible(), 36 * MIB);
}

/// Waits until what `m` wants ahead of need is there. None where nothing is written ahead.
fn ahead(m: &Mapped) -> Option<u64> {
    if rustix::fs::fstatfs(m.file.as_file()).unwrap().f_type != libc::EXT4_SUPER_MAGIC {
        eprintln!("skipped: this is not ext4");
        return None;
    }
    let (since, mut len) = (std::time::Instant::now(), 0);
    while len <= m.accessible() {
        assert!(since.elapsed().as_secs() < 60, "nothing is written ahead");
        std::thread::yield_now();
        len = m.file.len_ahead();
    }
    assert_eq!(len, file_len(m));
    Some(len)
}

#[test]
fn a_file_gets_longer_ahead_of_need_and_no_longer_than_it_must_at_the_end() {
    let scratch = Scratch::new();
    let m = scratch.with(MIB, true);
    m.reserve(0, 8 * MIB).unwrap();
    let Some(len) = ahead(&m) else { return };
    assert!((10 * MIB..=16 * MIB).contains(&len) && m.accessible() == 8 * MIB, "{len}");
    // What is ahead has that length on the disk already, and not more of it is taken than without that.
    m.reserve(8 * MIB, MIB).unwrap();
    assert_eq!(m.accessible(), 10 * MIB);
    put(&m, 9 * MIB - 8, 6);
    // An open after a kill takes what the file has.
    assert!(file_len(&m) >= len);
    m.truncate(u64::MAX).unwrap();
    assert_eq!((m.accessible(), file_len(&m)), (10 * MIB, 10 * MIB));
    m.reserve(10 * MIB, 2 * MIB).unwrap();
    assert!(ahead(&m) > Some(12 * MIB));
    m.truncate(9 * MIB).unwrap();
    assert_eq!((file_len(&m), m.load(9 * MIB - 8)), (9 * MIB, 6));
    m.reserve(9 * MIB, 3 * MIB).unwrap();
    assert!((9 * MIB..12 * MIB).step_by(8).all(|at| m.load(at) == 0));
    assert!(ahead(&m) > Some(12 * MIB));
    let space = m.space();
    m.settle().unwrap();
    drop(m);
    let m = scratch.again(Mapping::Write);
    assert_eq!((m.accessible(), file_len(&m), m.space(), m.load(9 * MIB - 8)), (12 * MIB, 12 * MIB, space, 6));
}

#[test]
fn a_copy_grows_in_memory() {
    let scratch = Scratch::new();
    put(&scratch.with(MIB + 8, false), MIB, 5);
    let m = scratch.again(Mapping::Copy);
    m.reserve(MIB, 2 * MIB).unwrap();
    assert_eq!((m.accessible(), file_len(&m)), (4 * MIB, MIB + 8));
    store(&m, 3 * MIB, 6);
    store(&m, MIB + 8, 7);
    assert_eq!([MIB, MIB + 8, 3 * MIB, 4 * MIB - 8].map(|at| m.load(at)), [5, 7, 6, 0]);
    assert_eq!(m.truncate(MIB).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    m.release(0, MIB).unwrap();
    assert_eq!(m.load(MIB), 5);
    // So does what is only read, for what an open repairs. Nobody else may store to it.
    let read = scratch.again(Mapping::Read);
    read.reserve(MIB, 16).unwrap();
    store(&read, MIB + 8, 9);
    assert_eq!((read.accessible(), file_len(&read), read.load(MIB + 8)), (2 * MIB, MIB + 8, 9));
    assert!(read.refuses() && !read.forked() && !m.refuses());
    assert_eq!(read.truncate(MIB).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    // Nobody has set addresses aside for this one.
    let read = Mapped::open(&scratch.path(), Mapping::Read).unwrap();
    assert_eq!((read.accessible(), read.facts().len), (MIB + 8, MIB + 8));
    assert_eq!(read.reserve(MIB, 16).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
}

#[test]
fn an_access_beyond_what_is_mapped_panics() {
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        let m = scratch.with(MIB, has_journal);
        let words = &mut [0; 8];
        for at in [MIB, MIB + 4096, 2 * MIB, REACH - 8, REACH, u64::MAX] {
            assert!(panics(|| _ = m.load(at)), "{at:#x}");
            assert!(panics(|| store(&m, at, 1)));
            assert!(panics(|| store_pair(&m, at, [1, 2])));
            assert!(panics(|| {
                let _window = m.window();
                m.swap_pair(at, [1, 2]);
            }));
            assert!(panics(|| m.load_words(at, words)));
            for hint in [Hint::Soon, Hint::InOrder, Hint::Fresh] {
                m.hint(at.min(REACH), 4 * MIB, hint);
            }
        }
        assert!(panics(|| m.load_words(MIB - 56, words)));
        assert!(!panics(|| m.load_words(MIB - 64, words)));
        assert!(!panics(|| store_pair(&m, MIB - 16, [1, 2])));
        m.reserve(MIB, 8).unwrap();
        assert!(!panics(|| store(&m, 2 * MIB - 8, 1)));
        assert!(panics(|| store(&m, 2 * MIB, 1)));
    }
}

#[test]
fn threads_use_a_mapping_while_it_grows() {
    const PART: u64 = MIB / 2;
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        let m = scratch.with(MIB, has_journal);
        let (next, done) = (AtomicU64::new(MIB), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut looks = 0u64;
                while !done.load(Ordering::Acquire) {
                    let end = m.accessible();
                    for at in (MIB..end).step_by(4096) {
                        let found = m.load(at);
                        assert!(found == 0 || found == at, "{found:#x} at {at:#x}");
                    }
                    m.hint(end - 4096, 4096, Hint::InOrder);
                    looks += 1;
                }
                looks
            });
            let writers: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        loop {
                            let from = next.fetch_add(PART, Ordering::Relaxed);
                            if from >= REACH {
                                return;
                            }
                            m.reserve(from, PART).unwrap();
                            assert!(m.accessible() >= from + PART);
                            m.hint(from, PART, Hint::Fresh);
                            (from..from + PART).step_by(4096).for_each(|at| put(&m, at, at));
                            m.admit().unwrap();
                        }
                    })
                })
                .collect();
            // All of them before any panics: the reader is to end.
            let written: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
            done.store(true, Ordering::Release);
            assert!(reader.join().unwrap() > 0);
            written.into_iter().for_each(Result::unwrap);
        });
        let all = |m: &Mapped| (MIB..REACH).step_by(4096).all(|at| m.load(at) == at);
        assert!(all(&m));
        m.settle().unwrap();
        drop(m);
        assert!(all(&scratch.again(Mapping::Write)), "{has_journal}");
    }
}

#[test]
fn what_is_released_is_given_back_and_can_be_used_again() {
    release_and_use(&Scratch::new());
    Scratch::in_memory().iter().for_each(release_and_use);
}

#[test]
fn what_is_given_back_are_whole_pages_of_the_machine() {
    const LARGE: u64 = 64 << 10;
    let Some(scratch) = Scratch::in_memory() else { return };
    let m = scratch.with(4 * MIB, false);
    if !m.system.in_memory {
        return;
    }
    PAGE.set(Some(LARGE as usize));
    m.reserve(0, 4 * MIB).unwrap();
    for at in [4096, 3 * LARGE - 8, 3 * LARGE] {
        put(&m, at, 7);
    }
    m.release(4096, 3 * LARGE - 8192).unwrap();
    for (pages, is_covered) in [(0..LARGE, false), (LARGE..LARGE + 4096, true), (2 * LARGE..MIB, false)] {
        assert_eq!(m.system.covered.overlap(&pages), is_covered, "{pages:?}");
    }
    assert_eq!([4096, 3 * LARGE - 8, 3 * LARGE].map(|at| m.load(at)), [7; 3]);
    m.reserve(0, 4 * MIB).unwrap();
    PAGE.set(None);
}

fn release_and_use(scratch: &Scratch) {
    let m = scratch.with(MIB, false);
    m.reserve(0, 32 * MIB).unwrap();
    (0..32 * MIB).step_by(4096).for_each(|at| store(&m, at, at | 1));
    m.sync().unwrap();
    let before = m.allocated().unwrap();
    assert!(before >= 32 * MIB);
    // Only whole pages.
    m.release(8 * MIB - 8, 16 * MIB + 16).unwrap();
    m.release(0, 4095).unwrap();
    let after = m.allocated().unwrap();
    if after == before {
        eprintln!("skipped: files cannot have holes here");
        return;
    }
    assert!(after + 15 * MIB < before, "{after} of {before}");
    assert_eq!((m.accessible(), file_len(&m)), (32 * MIB, 32 * MIB));
    assert!((8 * MIB..24 * MIB).step_by(4096).all(|at| m.load(at) == 0));
    assert_eq!([0, 8 * MIB - 4096, 24 * MIB].map(|at| m.load(at)), [1, (8 * MIB - 4096) | 1, (24 * MIB) | 1]);
    assert_eq!(m.allocated().unwrap(), after, "to look takes space");
    // A part of it, then the rest.
    m.reserve(10 * MIB, 4096).unwrap();
    store(&m, 10 * MIB, 3);
    assert!(m.allocated().unwrap() < after + MIB);
    assert_eq!([10 * MIB, 10 * MIB + 4096].map(|at| m.load(at)), [3, 0]);
    m.reserve(8 * MIB, 16 * MIB).unwrap();
    assert!(m.allocated().unwrap() + MIB > before);
    store(&m, 16 * MIB, 5);
    drop(m);
    assert_eq!([10 * MIB, 16 * MIB].map(|at| scratch.again(Mapping::Read).load(at)), [3, 5]);
}

#[test]
fn with_a_journal_space_is_given_back_when_the_log_lacks_it() {
    let scratch = Scratch::new();
    let m = scratch.with(MIB, true);
    m.reserve(0, 16 * MIB).unwrap();
    let fill = |range: Range<u64>| range.step_by(4096).for_each(|at| put(&m, at, at | 1));
    fill(4096..16 * MIB);
    m.sync().unwrap();
    let before = m.allocated().unwrap();
    m.release(2 * MIB, 12 * MIB).unwrap();
    assert_eq!(m.allocated().unwrap(), before, "the log may still fill it");
    // A part is used again.
    m.reserve(4 * MIB, 2 * MIB).unwrap();
    fill(4 * MIB..6 * MIB);
    m.settle().unwrap();
    let after = m.allocated().unwrap();
    drop(m);
    let m = scratch.again(Mapping::Write);
    assert!((4 * MIB..6 * MIB).step_by(4096).all(|at| m.load(at) == at | 1), "what is used again is gone");
    assert!((14 * MIB..16 * MIB).step_by(4096).all(|at| m.load(at) == at | 1));
    if after == before {
        eprintln!("skipped: files cannot have holes here");
        return;
    }
    assert!(after + 9 * MIB < before && before < after + 11 * MIB, "{after} of {before}");
    assert!((6 * MIB..14 * MIB).step_by(4096).all(|at| m.load(at) == 0));
}

#[test]
fn what_is_cut_off_is_gone_and_grows_again_as_zeros() {
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        let m = scratch.with(MIB, has_journal);
        m.reserve(0, 8 * MIB).unwrap();
        (4096..8 * MIB).step_by(512).for_each(|at| put(&m, at, at));
        let cut = 3 * MIB + 1024 + 8;
        for more in [9 * MIB, u64::MAX] {
            m.truncate(more).unwrap();
            m.release(more, more).unwrap();
        }
        assert_eq!((m.accessible(), m.load(4096)), (8 * MIB, 4096));
        m.truncate(cut - 3).unwrap();
        assert_eq!((m.accessible(), file_len(&m)), (cut, cut), "{has_journal}");
        assert!(panics(|| _ = m.load(cut)));
        assert_eq!(m.load(cut - 8), cut - 8);
        // A kill: what was flushed and lies behind is in no log.
        m.reserve(cut, MIB).unwrap();
        assert_eq!(m.accessible(), 6 * MIB);
        assert!((cut..6 * MIB).step_by(8).all(|at| m.load(at) == 0), "{has_journal}");
        put(&m, 5 * MIB, 77);
        m.truncate(4 * MIB).unwrap();
        drop(m);
        let m = scratch.again(Mapping::Write);
        assert_eq!((m.accessible(), m.load(3 * MIB), m.load(4 * MIB - 8)), (4 * MIB, 3 * MIB, 0), "{has_journal}");
    }
}

/// The domain decides whether a pool notes the boot, and refuses to open after a crash of the machine.
#[test]
fn only_a_journal_makes_the_domain_of_one() {
    let scratch = Scratch::new();
    let plain = scratch.with(MIB, false);
    let domain = plain.facts().domain;
    assert_eq!(plain.with_domain(Domain::Journal).facts().domain, domain);
    let scratch = Scratch::new();
    assert_eq!(scratch.with(MIB, true).with_domain(Domain::Process).facts().domain, Domain::Journal);
}

/// Another owner of a pool's medium may store to it at any time. Memory must be there, whatever becomes of the word.
#[test]
fn what_is_given_back_can_be_stored_to_and_is_lost() {
    for scratch in [Scratch::new()].into_iter().chain(Scratch::in_memory()) {
        let m = scratch.with(4 * MIB, false);
        m.release(2 * MIB, 2 * MIB).unwrap();
        store(&m, 3 * MIB, 7);
        store_pair(&m, 3 * MIB + 16, [8, 9]);
        m.release(0, 4 * MIB).unwrap();
        store(&m, 0, 7);
        m.reserve(0, 4 * MIB).unwrap();
        store(&m, 3 * MIB, 5);
        drop(m);
        assert_eq!(scratch.again(Mapping::Read).load(3 * MIB), 5);
    }
}

/// A thread may have looked at the length before a cut, and access a word after it, as the words show that were lent
/// before.
#[test]
fn an_access_that_meets_a_cut_finds_memory() {
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        let m = scratch.with(8 * MIB, has_journal);
        put(&m, 4 * MIB, 5);
        let lent = m.lend(4 * MIB, 8).unwrap();
        m.truncate(MIB).unwrap();
        assert_eq!(lent[0].load(Ordering::Relaxed), 0, "{has_journal}");
        lent[0].store(7, Ordering::Relaxed);
        m.reserve(4 * MIB, 64).unwrap();
        assert_eq!(m.load(4 * MIB), 0, "{has_journal}");
        store(&m, 4 * MIB, 8);
        assert_eq!(lent[0].load(Ordering::Relaxed), 8);
    }
}

#[test]
fn grows_and_is_killed() {
    let Some(path) = child() else { return };
    let m = existing(&path, Mapping::Write);
    for at in (MIB..REACH).step_by(3 << 20) {
        m.reserve(at, 16).unwrap();
        put(&m, at, at);
    }
    m.sync().unwrap();
    // Not in the log.
    put(&m, 4096, 55);
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

#[test]
#[cfg_attr(all(bristlecone_watched, target_arch = "aarch64"), ignore = "an emulator cannot run the program again")]
fn a_journal_knows_what_a_file_has_grown_by_after_a_kill() {
    let scratch = Scratch::new();
    drop(scratch.with(MIB, true));
    let output = elsewhere("grows_and_is_killed", &scratch.path());
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGKILL), "{output:?}");
    // What was written, without the ring.
    let other = Scratch::new();
    for ending in ["", ".log"] {
        let name = |scratch: &Scratch| scratch.0.path().join(format!("words{ending}"));
        std::fs::copy(name(&scratch), name(&other)).unwrap();
    }
    for (scratch, recovery, last) in [(scratch, Recovery::Whole, 55), (other, Recovery::WithoutRing, 0)] {
        for mapping in [Mapping::Copy, Mapping::Write, Mapping::Write] {
            let m = recovered(&scratch.path(), mapping, recovery);
            assert!(m.accessible() > 61 * MIB);
            assert!((MIB..REACH).step_by(3 << 20).all(|at| m.load(at) == at), "{mapping:?}");
            assert_eq!(m.load(4096), last);
        }
    }
}

fn limit(resource: rustix::process::Resource, current: Option<u64>) {
    let maximum = rustix::process::getrlimit(resource).maximum;
    rustix::process::setrlimit(resource, rustix::process::Rlimit { current, maximum }).unwrap();
}

/// What `/proc/self/status` says of this process, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>().unwrap() << 10
}

#[test]
fn takes_a_part_of_few_addresses() {
    use rustix::process::Resource;
    let Some(path) = child() else { return };
    limit(Resource::As, Some(status("VmSize:") + 1024 * MIB));
    let before = status("VmSize:");
    let m = Mapped::open(&path, Mapping::Write).unwrap();
    assert!((64 * MIB..1026 * MIB).contains(&m.facts().len), "{}", m.facts().len);
    // It sets little aside, and takes more when it needs more.
    assert!(status("VmSize:") - before < 70 * MIB, "{}", status("VmSize:") - before);
    drop(Vec::<u8>::with_capacity(800 << 20));
    let mut len = MIB;
    let error = loop {
        match m.reserve(len + 32 * MIB, 0) {
            Ok(()) => len += 32 * MIB,
            Err(error) => break error,
        }
    };
    assert!(error.kind() == io::ErrorKind::OutOfMemory && error.to_string().contains("ulimit -v"), "{error}");
    assert!((512 * MIB..1024 * MIB).contains(&len), "{len}");
    store(&m, len - 8, 4);
    let len = file_len(&m);
    assert_eq!(m.reserve(m.facts().len, 64).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
    assert_eq!((file_len(&m), m.accessible()), (len, len));
    // The others need addresses, too.
    drop(Vec::<u8>::with_capacity(64 << 20));
    drop(m);
    // Not even the file fits.
    limit(Resource::As, Some(status("VmSize:") + 16 * MIB));
    let error = Mapped::open(&path, Mapping::Write).map(drop).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Io { doing: "map", .. }), "{error}");
    println!("few addresses are enough");
}

#[test]
#[cfg_attr(all(bristlecone_watched, target_arch = "aarch64"), ignore = "an emulator cannot run the program again")]
fn where_addresses_are_few_a_mapping_grows_less_far() {
    let scratch = Scratch::new();
    drop(scratch.with(MIB, false));
    let output = elsewhere("takes_a_part_of_few_addresses", &scratch.path());
    assert!(String::from_utf8_lossy(&output.stdout).contains("few addresses are enough"), "{output:?}");
}

#[test]
fn is_refused_private_memory() {
    use rustix::process::Resource;
    let Some(path) = child() else { return };
    let m = existing(&path, Mapping::Write);
    put(&m, MIB - 8, 3);
    // Private memory to which it may store; shared memory does not count.
    limit(Resource::Data, Some(status("VmData:") + MIB));
    let error = m.reserve(8 * MIB, 2 * MIB).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::OutOfMemory, "{error}");
    assert_eq!((m.accessible(), file_len(&m), m.load(MIB - 8)), (MIB, MIB, 3));
    limit(Resource::Data, None);
    assert!(panics(|| _ = m.load(MIB)));
    m.reserve(8 * MIB, 2 * MIB).unwrap();
    put(&m, 8 * MIB, 4);
    m.settle().unwrap();
    println!("it grows once it may");
}

#[test]
#[cfg_attr(all(bristlecone_watched, target_arch = "aarch64"), ignore = "an emulator cannot run the program again")]
fn a_growth_that_the_system_refuses_changes_nothing() {
    let scratch = Scratch::new();
    drop(scratch.with(MIB, true));
    let output = elsewhere("is_refused_private_memory", &scratch.path());
    assert!(String::from_utf8_lossy(&output.stdout).contains("it grows once it may"), "{output:?}");
    let m = scratch.again(Mapping::Write);
    assert_eq!([MIB - 8, 8 * MIB].map(|at| m.load(at)), [3, 4]);
}

/// A file system of 8 MiB in memory.
struct Tiny(Scratch);

impl Tiny {
    fn mount() -> Option<Self> {
        let at = Scratch::new();
        let mut command = Command::new("mount");
        let mounted = command.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(at.0.path()).output();
        if !mounted.is_ok_and(|output| output.status.success()) {
            eprintln!("skipped: this process may not mount a tmpfs");
            return None;
        }
        Some(Self(at))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.0.path()).output();
    }
}

#[test]
fn a_growth_on_a_full_disk_changes_nothing() {
    for has_journal in [false, true] {
        let Some(tiny) = Tiny::mount() else { return };
        let m = Mapped::conceive(&tiny.0.path(), (MIB, REACH), !has_journal, 0, |_| false)
            .unwrap_or_else(|_| panic!("no file"));
        m.is_born();
        if has_journal {
            m.create_log(&tiny.0.path(), UUID, 64 << 10).unwrap_or_else(|_| panic!("no log"));
            m.adopt_journal(&tiny.0.path(), UUID, journal::Journal::Each).unwrap_or_else(|_| panic!("no marker"));
        }
        drop(m);
        let m = tiny.0.again(Mapping::Write);
        m.reserve(0, MIB).unwrap();
        put(&m, MIB - 8, 6);
        for (at, len) in [(4 * MIB, 16 * MIB), (MIB, 9 * MIB)] {
            let error = m.reserve(at, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
            assert_eq!((m.accessible(), file_len(&m), m.load(MIB - 8)), (MIB, MIB, 6), "{has_journal}");
            assert!(m.allocated().unwrap() <= MIB, "space is taken for nothing");
        }
        // There is room for less.
        m.reserve(2 * MIB, MIB).unwrap();
        put(&m, 3 * MIB - 8, 7);
        m.settle().unwrap();
        drop(m);
        let m = tiny.0.again(Mapping::Write);
        assert_eq!([MIB - 8, 3 * MIB - 8].map(|at| m.load(at)), [6, 7]);
    }
}

/// Whether mappings get places behind which there is room.
fn has_places() -> bool {
    places::AddressPlace::next_free().is_some()
}

#[test]
fn many_mappings_leave_each_other_addresses() {
    // Each could have the 128th part of all addresses.
    const TIB: u64 = 1 << 40;
    let Some(scratch) = Scratch::in_memory() else { return };
    for has_journal in [false, true] {
        let path = |number: usize| scratch.0.path().join(format!("{has_journal} {number}"));
        let before = status("VmSize:");
        let open = |number: usize| {
            let path = path(number);
            let made =
                Mapped::conceive(&path, (MIB, 0), !has_journal, 0, |_| false).unwrap_or_else(|_| panic!("no file"));
            made.is_born();
            if has_journal {
                made.create_log(&path, UUID, 64 << 10).unwrap_or_else(|_| panic!("no log"));
                made.adopt_journal(&path, UUID, journal::Journal::Each).unwrap_or_else(|_| panic!("no marker"));
            }
            drop(made);
            Mapped::existing(&path, Mapping::Write, TIB).unwrap_or_else(|fault| panic!("{}", fault.in_pool("words")))
        };
        let all: Vec<Mapped> = (0..if has_journal { 160 } else { 400 }).map(open).collect();
        assert!(!has_places() || status("VmSize:") - before < TIB / 8, "{} addresses", status("VmSize:") - before);
        let mut heap = Vec::<u8>::new();
        assert_eq!(heap.try_reserve_exact(64 << 20), Ok(()));
        // Each grows far beyond what was set aside, without moving.
        for (number, m) in all.iter().enumerate().step_by(10).filter(|_| has_places()) {
            let base = m.base;
            put(m, MIB - 8, 5);
            for at in [200 * MIB, 2048 * MIB] {
                m.reserve(at, 8).unwrap_or_else(|error| panic!("{number}: {error}"));
                put(m, at, at);
            }
            assert_eq!([MIB - 8, 200 * MIB, 2048 * MIB].map(|at| m.load(at)), [5, 200 * MIB, 2048 * MIB]);
            assert_eq!(m.base, base);
            m.truncate(MIB).unwrap();
        }
        // No ring stays.
        all.iter().for_each(|m| m.settle().unwrap());
    }
}

#[test]
fn opens_without_places() {
    let Some(path) = child() else { return };
    let places: Vec<places::AddressPlace> = std::iter::from_fn(places::AddressPlace::next_free).collect();
    assert!(!has_places());
    let before = status("VmSize:");
    let all: Vec<Mapped> = (0..3)
        .map(|number| {
            let path = path.with_extension(number.to_string());
            let made =
                Mapped::conceive(&path, (MIB, 8192 * MIB), true, 0, |_| false).unwrap_or_else(|_| panic!("no file"));
            made.is_born();
            made
        })
        .collect();
    assert!(status("VmSize:") - before >= 3 * 8192 * MIB);
    for m in &all {
        m.reserve(4096 * MIB, 8).unwrap();
        put(m, 4096 * MIB, 5);
    }
    drop((places, all));
    assert!(status("VmSize:").saturating_sub(before) < 1024 * MIB);
    println!("all is well");
}

#[test]
#[cfg_attr(all(bristlecone_watched, target_arch = "aarch64"), ignore = "an emulator cannot run the program again")]
fn where_there_are_no_places_more_is_set_aside() {
    let Some(scratch) = Scratch::in_memory() else { return };
    let output = elsewhere("opens_without_places", &scratch.path());
    assert!(String::from_utf8_lossy(&output.stdout).contains("all is well"), "{output:?}");
}

#[test]
fn what_lies_behind_a_mapping_ends_its_growth_until_it_is_gone() {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    const FAR: u64 = 256 * MIB;
    if !has_places() {
        return;
    }
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        drop(scratch.with(MIB, has_journal));
        let m = Mapped::existing(&scratch.path(), Mapping::Write, FAR).unwrap_or_else(|_| panic!("no file"));
        put(&m, 4096, 6);
        let behind = m.base.as_ptr().wrapping_byte_add(128 << 20).cast();
        let flags = MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE;
        // SAFETY: a new mapping; nothing existing is replaced.
        let found = unsafe { mmap_anonymous(behind, 4096, ProtFlags::empty(), flags) }.unwrap();
        assert_eq!(found, behind);
        let error = m.reserve(FAR - 8, 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("`Options::addresses`"), "{error}");
        assert_eq!((m.accessible(), file_len(&m), m.load(4096)), (MIB, MIB, 6));
        // Up to there, it grows.
        m.reserve(128 * MIB - 8, 8).unwrap();
        put(&m, 128 * MIB - 8, 7);
        assert!(m.reserve(128 * MIB, 8).is_err());
        // SAFETY: exactly what was mapped above, which nobody uses.
        unsafe { munmap(behind, 4096) }.unwrap();
        m.reserve(FAR - 8, 8).unwrap();
        put(&m, FAR - 8, 8);
        assert_eq!([4096, 128 * MIB - 8, FAR - 8].map(|at| m.load(at)), [6, 7, 8]);
    }
}

/// As where the disk has space for a page, and not for the folio that holds it.
#[test]
fn what_is_reserved_and_cannot_be_stored_to_is_no_space() {
    for scratch in std::iter::once(Scratch::new()).chain(Scratch::in_memory()) {
        let m = scratch.with(MIB, false);
        m.reserve(0, MIB).unwrap();
        put(&m, MIB - 8, 6);
        for (at, len) in [(MIB, 4096), (4 * MIB, 4 * MIB)] {
            storable::failing::next(2, 0);
            let error = m.reserve(at, len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
            assert_eq!((m.accessible(), file_len(&m), m.load(MIB - 8)), (MIB, MIB, 6));
            // A disk that is broken is not full.
            storable::failing::next(2, 1);
            assert_eq!(m.reserve(at, len).unwrap_err().raw_os_error(), Some(libc::EIO));
        }
        // The folio was made by a process that read the file: a smaller one takes its place.
        storable::failing::next(1, 0);
        m.reserve(MIB, 4096).unwrap();
        put(&m, MIB, 7);
        assert_eq!([MIB - 8, MIB].map(|at| m.load(at)), [6, 7]);
    }
}

/// The system tells a failure once, to the first caller.
#[test]
fn a_sync_that_failed_fails_from_then_on() {
    let scratch = Scratch::new();
    let pool = crate::Pool::options().journal(journal::Journal::None).open(scratch.path()).unwrap();
    pool.tree("t").unwrap().insert(1, 2).unwrap();
    disk_file::tests::failing::next(1);
    assert!(matches!(pool.sync().unwrap_err().kind, ErrorKind::Io { .. }));
    let error = pool.close().unwrap_err();
    assert!(format!("{error:?}").contains("the disk has failed before"), "{error:?}");
    // The next process is told nothing by the system, and the cache may be gone by then.
    let error = crate::Pool::open(scratch.path()).map(drop).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::DiskFailed), "{error}");
    let (pool, _) = crate::Pool::options().open_after_power_loss(scratch.path()).unwrap();
    assert_eq!(pool.tree("t").unwrap().get(1), Some(2));
    pool.close().unwrap();
    crate::Pool::open(scratch.path()).unwrap().close().unwrap();
    // Folios are made anew: what was in them is written first, and the caller asked for space only.
    let m = scratch.again(Mapping::Write);
    put(&m, m.accessible() - 8, 6);
    storable::failing::next(1, 0);
    disk_file::tests::failing::next(1);
    let space = m.reserve(m.accessible(), 4096);
    let written = m.sync();
    assert!(space.is_err() && written.is_err(), "{space:?}, {written:?}");
}

/// A sync of the pool's file that nobody expects to find anything: the file is as long as before.
#[test]
fn what_a_journal_is_not_told_itself_closes_it() {
    let scratch = Scratch::new();
    let open = || crate::Pool::options().journal(journal::Journal::OnRequest).open(scratch.path());
    let pool = open().unwrap();
    let tree = pool.tree("t").unwrap();
    tree.insert(1, 2).unwrap();
    drop(tree);
    pool.shrink().unwrap();
    disk_file::tests::failing::next(1);
    assert!(pool.shrink().is_err());
    // The next call is told, and so is the close: nothing of the log is given up.
    assert!(matches!(pool.sync().unwrap_err().kind, ErrorKind::Journal { .. }));
    assert!(pool.shrink().is_err() && pool.close().is_err());
    assert!(std::fs::metadata(scratch.0.path().join("words.log")).is_ok());
    let pool = open().unwrap();
    assert_eq!(pool.tree("t").unwrap().get(1), Some(2));
    pool.close().unwrap();
}

#[test]
fn what_lies_beside_a_hole_can_be_stored_to() {
    let scratch = Scratch::new();
    let m = scratch.with(8 * MIB, false);
    m.reserve(0, 8 * MIB).unwrap();
    if m.system.in_memory || !disk_file::has_blocks(m.file.as_file(), &(0..MIB)) {
        eprintln!("skipped: this file system does not tell what has space");
        return;
    }
    storable::failing::next(2, 0);
    assert_eq!(m.release(MIB, MIB).unwrap_err().kind(), io::ErrorKind::StorageFull);
    // Between huge pages, no folio has both.
    storable::failing::next(2, 0);
    m.release(4 * MIB, 2 * MIB).unwrap();
    storable::failing::next(0, 0);
    m.release(3 * MIB, MIB).unwrap();
    assert!(
        !disk_file::has_blocks(m.file.as_file(), &(MIB..MIB + 4096))
            && disk_file::has_blocks(m.file.as_file(), &(2 * MIB..3 * MIB))
    );
}

#[test]
fn a_pool_whose_name_is_not_on_the_disk_is_not_made() {
    let fail = |fails| file::tests::DIRECTORIES_FAIL.set(fails);
    let scratch = Scratch::new();
    let left =
        || std::fs::read_dir(scratch.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    for options in [
        crate::Pool::options().journal(journal::Journal::None),
        crate::Pool::options().journal(journal::Journal::OnRequest),
    ] {
        fail(true);
        let error = options.open(scratch.path()).map(drop).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Io { .. }), "{error}");
        assert_eq!(left(), [""; 0]);
        fail(false);
        let pool = options.open(scratch.path()).unwrap();
        fail(true);
        let backup = scratch.0.path().join("backup");
        let error = pool.backup(&backup).map(drop).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Io { .. }), "{error}");
        fail(false);
        drop(pool);
        std::fs::remove_file(scratch.path()).unwrap();
        for ending in [".log", ".ring"] {
            let _ = std::fs::remove_file(scratch.0.path().join(format!("words{ending}")));
        }
        assert_eq!(left(), [""; 0]);
    }
}

/// Beside the ends of what is in use there may be holes in the same folio.
#[test]
fn a_pool_is_opened_when_its_ends_can_be_stored_to() {
    let scratch = Scratch::new();
    let open = || crate::Pool::options().journal(journal::Journal::None).segment_size(64 << 10).open(scratch.path());
    let pool = open().unwrap();
    pool.tree("t").unwrap().insert(1, 2).unwrap();
    pool.close().unwrap();
    open().unwrap().close().unwrap();
    storable::failing::next(2, 0);
    let error = open().map(drop).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::OutOfSpace { source: Some(_), .. }), "{error}");
    storable::failing::next(0, 0);
    assert_eq!(open().unwrap().tree("t").unwrap().get(1), Some(2));
}

#[test]
fn the_addresses_of_a_mapping_are_given_back() {
    let scratch = Scratch::new();
    drop(scratch.with(MIB, false));
    // Each would take 64 GiB of the 128 TiB that there are.
    for _ in 0..4096 {
        let m = Mapped::open(&scratch.path(), Mapping::Write).unwrap();
        assert_eq!(m.facts().len, 64 << 30);
        assert_eq!(m.base.as_ptr().addr() as u64 % HUGE_PAGE, 0);
    }
}

/// How many pages of a file are in memory, once it was taken out of it; `None` where the system does not do that.
fn read_by(m: &Mapped, path: &Path, access: impl FnOnce()) -> Option<usize> {
    const PAGE: u64 = 4096;
    let file = std::fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let there = || {
        ((m.accessible() - m.missing(0, m.accessible()).iter().map(|part| part.end - part.start).sum::<u64>()) / PAGE)
            as usize
    };
    if there() > 0 {
        eprintln!("skipped: this file system does not let go of its cache");
        return None;
    }
    access();
    Some(there())
}

/// Writes to all pages of a file, and lets go of it.
fn written(scratch: &Scratch, len: u64) {
    std::fs::write(scratch.path(), vec![1; len as usize]).unwrap();
}

#[test]
fn of_a_file_that_is_larger_than_the_share_a_page_is_read() {
    let scratch = Scratch::new();
    written(&scratch, 8 * MIB);
    for (access, share, pages) in
        [(Access::Auto, 8 * MIB - 1, 1..2), (Access::Random, 64 * MIB, 1..2), (Access::Auto, 8 * MIB, 2..2048)]
    {
        for mapping in [Mapping::Write, Mapping::Read, Mapping::Copy] {
            SHARE.set(Some(share));
            let m = scratch.again(mapping).with_access(access);
            SHARE.set(None);
            assert_eq!(m.asks_ahead().is_some(), pages.end == 2);
            let Some(read) = read_by(&m, &scratch.path(), || assert_ne!(m.load(5 * MIB), 0)) else { return };
            assert!(pages.contains(&read), "{read} pages, {access:?}, {share}, {mapping:?}");
        }
    }
    assert_eq!(scratch.again(Mapping::Write).with_access(Access::Sequential).asks_ahead(), None);
}

#[test]
fn what_was_asked_for_is_read() {
    let scratch = Scratch::new();
    written(&scratch, 8 * MIB);
    let m = scratch.again(Mapping::Write).with_access(Access::Random);
    // A thread that asks does not wait.
    let is_read = |hint| {
        read_by(&m, &scratch.path(), || {
            m.hint(5 * MIB + 100, 4096, hint);
            let start = std::time::Instant::now();
            while !m.missing(5 * MIB, 8192).is_empty() && start.elapsed().as_secs() < 60 {
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        })
    };
    let Some(read) = is_read(Hint::Ahead) else { return };
    assert_eq!(read, 2);
    // What is read from the first byte to the last comes from the disk at once.
    drop(m);
    let m = scratch.again(Mapping::Write).with_access(Access::Random);
    assert_eq!(read_by(&m, &scratch.path(), || m.hint(4 * MIB, MIB, Hint::InOrder)), Some(256));
}

/// With the share between the lengths, a file that grows is advised anew, and what is mapped later as the rest.
#[test]
fn a_file_that_grows_is_read_page_by_page_once_it_is_larger() {
    for has_journal in [false, true] {
        let scratch = Scratch::new();
        drop(scratch.with(MIB, has_journal));
        SHARE.set(Some(6 * MIB));
        let m = scratch.again(Mapping::Write);
        assert_eq!(m.asks_ahead(), None);
        m.reserve(5 * MIB, MIB).unwrap();
        assert_eq!(m.asks_ahead(), None, "{} bytes", m.accessible());
        m.reserve(7 * MIB, MIB).unwrap();
        assert_eq!(m.asks_ahead(), Some(3 * MIB));
        let len = m.accessible();
        m.reserve(len + 20 * MIB, MIB).unwrap();
        SHARE.set(None);
        let start = m.base.as_ptr().addr();
        let advised = advised_random(start, m.accessible() as usize);
        assert_eq!(advised, Some(m.accessible() as usize), "{has_journal}");
    }
}

#[test]
fn of_a_file_in_memory_nothing_is_asked_ahead() {
    let Some(scratch) = Scratch::in_memory() else { return };
    assert_eq!(scratch.with(8 * MIB, false).with_access(Access::Random).asks_ahead(), None);
}

/// How many bytes of a range are in mappings that are read in any order, as `/proc/self/smaps` says.
fn advised_random(start: usize, len: usize) -> Option<usize> {
    let (mut bytes, mut part) = (0, 0..0);
    for line in std::fs::read_to_string("/proc/self/smaps").ok()?.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        if let Some((from, to)) = range.filter(|_| !line.contains("Flags:")) {
            let address = |digits| usize::from_str_radix(digits, 16).unwrap();
            part = address(from).max(start)..address(to).min(start + len);
        } else if line.starts_with("VmFlags:") && line.split(' ').any(|flag| flag == "rr") {
            bytes += part.len();
        }
    }
    Some(bytes)
}
