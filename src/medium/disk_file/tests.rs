//! Files whose disk fails, and then works.

use super::*;
use crate::random::Random;
use crate::{Journal, Pool};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// More than the file system needs to say where a file lies.
const LEAST_PIECE: u64 = 64 << 10;

/// Stands for a disk that cannot write.
pub(in crate::medium) mod failing {
    use std::cell::Cell;

    thread_local! {
        static SYNCS: Cell<u32> = const { Cell::new(0) };
    }

    /// The next so many syncs of this thread fail.
    pub(in crate::medium) fn next(syncs: u32) {
        SYNCS.set(syncs);
    }

    pub(in crate::medium) fn this() -> bool {
        let left = SYNCS.get();
        SYNCS.set(left.saturating_sub(1));
        left > 0
    }
}

/// Stops a thread that is about to write zeros.
pub(in crate::medium) mod stopping {
    use std::cell::RefCell;
    use std::ops::Range;

    type Stop = Box<dyn Fn(&Range<u64>)>;

    thread_local! {
        static STOP: RefCell<Option<Stop>> = const { RefCell::new(None) };
    }

    /// Calls `stop` in this thread before zeros are written to a range.
    pub(in crate::medium) fn at(stop: impl Fn(&Range<u64>) + 'static) {
        STOP.set(Some(Box::new(stop)));
    }

    pub(in crate::medium) fn here(range: &Range<u64>) {
        STOP.with_borrow(|stop| stop.iter().for_each(|stop| stop(range)));
    }
}

fn run(command: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(command).args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}

/// ext4 on a loop device, whose file is on a file system in memory. When that is full, a write fails where nothing was
/// before: so most of the file system's own blocks can be written, and new content cannot.
struct Ext4 {
    dir: tempfile::TempDir,
    device: Option<String>,
}

impl Ext4 {
    fn new() -> Option<Self> {
        let mut disk = Self { dir: tempfile::tempdir_in("/dev/shm").ok()?, device: None };
        let made = disk.make();
        if made.is_none() {
            eprintln!("skipped: this process cannot make a loop device with ext4");
        }
        made.map(|()| disk)
    }

    fn make(&mut self) -> Option<()> {
        let [below, made, image] = ["below", "below/made", "below/image"].map(|name| self.dir.path().join(name));
        std::fs::create_dir(&below).and_then(|()| std::fs::create_dir(self.dir.path().join("mnt"))).ok()?;
        run("mount", &["-t", "tmpfs", "-o", "size=260m", "tmpfs", below.to_str()?])?;
        File::create(&made).ok()?.set_len(96 * MIB).ok()?;
        let lazy = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        run("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", lazy, made.to_str()?])?;
        // Without a hole.
        run("cp", &["--sparse=never", made.to_str()?, image.to_str()?])?;
        std::fs::remove_file(made).ok()?;
        self.device = Some(run("losetup", &["--find", "--show", image.to_str()?])?);
        self.mount()?;
        run("fstrim", &[self.dir.path().join("mnt").to_str()?]).map(drop)
    }

    /// Runs a test of a disk that fails. If the file system itself gives up meanwhile, this says nothing of what is
    /// tested, and another one is tried: it has new blocks of its own, and whether it writes one is up to other
    /// programs, which may ask for a sync of everything.
    fn with(test: impl Fn(&Self)) {
        for _ in 0..10 {
            let Some(disk) = Self::new() else { return };
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&disk))) {
                Ok(()) => return,
                Err(panicked) if !disk.has_given_up() => std::panic::resume_unwind(panicked),
                Err(_) => eprintln!("the file system has given up: another is tried"),
            }
        }
        panic!("each file system gives up");
    }

    /// Whether the file system has found errors of its own, or is not written to any more.
    fn has_given_up(&self) -> bool {
        let device = self.device.as_deref().unwrap().trim_start_matches("/dev/");
        let errors = std::fs::read_to_string(format!("/sys/fs/ext4/{device}/errors_count")).unwrap();
        errors.trim() != "0" || File::create(self.path("probe")).is_err()
    }

    fn mount(&self) -> Option<()> {
        // Without a word of it, as a disk is that fails once.
        run("mount", &["-o", "errors=continue", self.device.as_deref()?, self.dir.path().join("mnt").to_str()?])
            .map(drop)
    }

    /// What is not on the disk is gone.
    fn forget_all(&self) {
        let mnt = self.dir.path().join("mnt");
        // A child of another test, between fork and exec, has all that is open here.
        let gone = (0..100).any(|_| {
            let gone = run("umount", &[mnt.to_str().unwrap()]).is_some();
            std::thread::sleep(if gone { std::time::Duration::ZERO } else { std::time::Duration::from_millis(30) });
            gone
        });
        assert!(gone, "it can be unmounted");
        self.mount().unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join("mnt").join(name)
    }

    fn fail(&self) {
        let ballast = File::create(self.dir.path().join("below/ballast")).unwrap();
        let mut at = 0;
        for piece in [MIB, PAGE] {
            while ballast.write_all_at(&vec![1; piece as usize], at).is_ok() {
                at += piece;
            }
        }
    }

    fn work(&self) {
        // It is empty at once, even if another process has it open: a child of another test, between fork and exec.
        let ballast = self.dir.path().join("below/ballast");
        File::options().write(true).open(&ballast).and_then(|file| file.set_len(0)).unwrap();
        std::fs::remove_file(ballast).unwrap();
        // The system tells a failure that it has not told yet to the next program that asks: not to what is tested.
        for file in std::fs::read_dir(self.dir.path().join("mnt")).unwrap() {
            let _ = File::open(file.unwrap().path()).and_then(|file| file.sync_all());
        }
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let path = |name| self.dir.path().join(name).display().to_string();
        let _ = run("umount", &["-l", &path("mnt")]);
        self.device.iter().for_each(|device| drop(run("losetup", &["-d", device])));
        let _ = run("umount", &["-l", &path("below")]);
    }
}

fn file_at(path: &Path) -> DiskFile {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
    DiskFile::new(file, Role::Pool)
}

fn byte(file: &DiskFile, at: u64) -> u8 {
    let mut byte = [0];
    Disk::read(file, at, &mut byte).unwrap();
    byte[0]
}

fn put(file: &DiskFile, page: u64, byte: u8) -> io::Result<()> {
    Disk::write(file, page * PAGE, &[byte; PAGE as usize]).and_then(|()| file.sync())
}

/// Reserved space with a page that could not be written.
fn half_written(disk: &Ext4, name: &str) -> DiskFile {
    let file = file_at(&disk.path(name));
    file.resize(2 * MIB).unwrap();
    assert!(file.allocate(0, 2 * MIB).unwrap());
    file.sync_with_length().unwrap();
    disk.fail();
    assert!(put(&file, 1, 7).is_err());
    disk.work();
    // The owner does not believe in it any more.
    assert!(put(&file, 1, 8).is_err() && file.sync_with_length().is_err() && file.resize(MIB).is_err());
    drop(file);
    let file = file_at(&disk.path(name));
    assert_eq!(byte(&file, PAGE), 7, "the cache shows what the disk does not have");
    file
}

/// On this system, ext4 takes a page that it could not write for one that the disk has.
#[test]
fn what_a_disk_did_not_take_is_forgotten_and_then_stays() {
    Ext4::with(|disk| {
        let file = half_written(disk, "a");
        file.forget_cached().unwrap();
        assert_eq!(byte(&file, PAGE), 0);
        put(&file, 1, 8).unwrap();
        drop(file);
        // The negative control.
        let other = half_written(disk, "b");
        put(&other, 1, 8).unwrap();
        drop(other);
        disk.forget_all();
        assert_eq!(byte(&file_at(&disk.path("a")), PAGE), 8);
        if byte(&file_at(&disk.path("b")), PAGE) == 8 {
            eprintln!("here, a page that could not be written is written the next time");
        }
    });
}

#[test]
fn what_somebody_has_mapped_is_not_forgotten() {
    let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let file = file_at(&scratch.path().join("a"));
    // Dirty pages are written first.
    Disk::write(&file, 0, &[5; 3 * PAGE as usize]).unwrap();
    file.forget_cached().unwrap();
    // SAFETY: nobody changes the file.
    let map = unsafe { memmap2::Mmap::map(file.as_file()) }.unwrap();
    file.forget_cached().unwrap();
    assert_eq!(map[PAGE as usize], 5);
    if rustix::fs::fstatfs(file.as_file()).is_ok_and(|found| found.f_type == libc::TMPFS_MAGIC) {
        return;
    }
    assert_eq!(file.forget_cached().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
    drop(map);
    file.forget_cached().unwrap();
    assert_eq!(byte(&file, 2 * PAGE), 5);
}

/// How much of a file was never written, though it has space.
fn never_written(path: &Path) -> u64 {
    let (file, mut bytes) = (File::open(path).unwrap(), 0);
    let len = file.metadata().unwrap().len();
    let count = |extent: extents::Extent| {
        bytes += if extent.is_unwritten { extent.bytes.end.min(len) - extent.bytes.start } else { 0 };
        true
    };
    extents::each(&file, &(0..len), count).unwrap();
    bytes
}

/// The disk fails while a pool with a journal grows, and then works. What was acknowledged by a sync is there, and
/// stays.
#[test]
fn a_pool_keeps_what_was_synced_on_a_disk_that_fails_once() {
    Ext4::with(|disk| {
        let path = disk.path("a.pool");
        let open = || Pool::options().journal(Journal::OnRequest).open(&path).unwrap();
        let grow = |pool: &Pool, from: u64| {
            let tree = pool.tree("t").unwrap();
            (from..from + 2000).try_for_each(|key| tree.insert(key * 7919 % 1_000_003, key).map(drop))
        };
        let mut synced = 0;
        let pool = open();
        while synced < 20_000 {
            grow(&pool, synced).unwrap();
            pool.sync().unwrap();
            synced += 2000;
        }
        disk.fail();
        while synced < 200_000 && grow(&pool, synced).and_then(|()| pool.sync()).is_ok() {
            synced += 2000;
        }
        assert!(pool.close().is_err(), "{synced}");
        disk.work();
        open().close().unwrap();
        let never_written = never_written(&path);
        disk.forget_all();
        let pool = open();
        assert!(pool.check().unwrap().is_clean());
        let tree = pool.tree("t").unwrap();
        let missing = (0..synced).filter(|key| tree.get(key * 7919 % 1_000_003) != Some(*key)).count();
        assert_eq!((missing, never_written), (0, 0), "of {synced}");
    });
}

#[test]
fn with_a_journal_no_space_is_only_reserved() {
    let scratch = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let path = scratch.path().join("a.pool");
    let pool = Pool::options().journal(Journal::OnRequest).open(&path).unwrap();
    if rustix::fs::statfs(&path).unwrap().f_type != libc::EXT4_SUPER_MAGIC {
        eprintln!("skipped: this is not ext4");
        return;
    }
    let (small, large) = (pool.tree("small").unwrap(), pool.map::<u64, Vec<u8>>("large").unwrap());
    small.insert(1, 2).unwrap();
    (0..800).for_each(|key| assert!(!large.insert(key, &vec![7; 3000]).unwrap()));
    pool.sync().unwrap();
    assert_eq!(never_written(&path), 0);
    // What was given back, and is used again.
    (0..800).for_each(|key| assert!(large.remove(key).unwrap()));
    pool.sync().unwrap();
    pool.close().unwrap_err();
    drop((small, large));
    let pool = Pool::open(&path).unwrap();
    let large = pool.map::<u64, Vec<u8>>("large").unwrap();
    (0..300).for_each(|key| assert!(!large.insert(key, &vec![8; 5000]).unwrap()));
    drop(large);
    pool.close().unwrap();
    assert_eq!(never_written(&path), 0);
    // A journal that a pool gets later finds what was reserved without one.
    let path = scratch.path().join("b.pool");
    let pool = Pool::options().journal(Journal::None).open(&path).unwrap();
    pool.tree("t").unwrap().insert(1, 2).unwrap();
    pool.close().unwrap();
    file_at(&path).allocate(0, 4 * MIB).unwrap();
    assert!(never_written(&path) > 3 * MIB, "the negative control");
    Pool::add_journal(&path).unwrap();
    let pool = Pool::open(&path).unwrap();
    assert_eq!((never_written(&path), pool.tree("t").unwrap().get(1)), (0, Some(2)));
    pool.close().unwrap();
}

/// A thread that asks while a failure is being noted is told of it.
#[test]
fn a_failure_is_noted_before_anybody_is_told() {
    use std::sync::mpsc::channel;
    let scratch = tempfile::tempdir().unwrap();
    let file = file_at(&scratch.path().join("a"));
    let ((noting, is_noting), (go_on, waits)) = (channel(), channel());
    let waits = std::sync::Mutex::new(waits);
    file.when_failed(move |failed| {
        noting.send(failed.doing).unwrap();
        waits.lock().unwrap().recv().unwrap();
    });
    std::thread::scope(|scope| {
        let first = scope.spawn(|| {
            failing::next(1);
            file.sync()
        });
        assert_eq!(is_noting.recv(), Ok("sync the pool"));
        let second = scope.spawn(|| file.sync());
        std::thread::sleep(std::time::Duration::from_millis(30));
        assert!(!first.is_finished() && !second.is_finished());
        go_on.send(()).unwrap();
        assert!(first.join().unwrap().is_err() && second.join().unwrap().is_err());
    });
    // Room that is missing is no failure, but for what was written already.
    let [full, broken] = [io::ErrorKind::StorageFull, io::ErrorKind::Other].map(io::Error::from);
    let fails = |call: Call| [&full, &broken].map(|error| call.fails_by(error));
    assert_eq!([Call::Write, Call::Sync, Call::Punch].map(fails), [[false, true], [true, true], [false, true]]);
    // A hook that is set later is called, too.
    let (told, is_told) = channel();
    file.when_failed(move |failed| told.send(failed.doing).unwrap());
    assert_eq!(is_told.recv(), Ok("sync the pool"));
}

/// Without a journal, a disk that failed leaves a pool that the system shows as a whole, and the disk has in part.
#[test]
fn what_the_system_shows_after_a_failure_is_saved_in_a_new_file() {
    Ext4::with(|disk| {
        let path = disk.path("a.pool");
        let pool = Pool::options().journal(Journal::None).open(&path).unwrap();
        let tree = pool.tree("t").unwrap();
        let insert = |key: u64| assert_eq!(tree.insert(key * 7919 % 1_000_003, key).unwrap(), None);
        (0..10_000).for_each(insert);
        // A sync of everything by another program may have all of the first half on the disk, and none of the second.
        disk.fail();
        (10_000..20_000).for_each(insert);
        drop(tree);
        assert!(pool.close().is_err());
        disk.work();
        let refused = || Pool::open(&path).map(drop).unwrap_err();
        assert!(matches!(refused().kind, crate::ErrorKind::DiskFailed), "{}", refused());
        assert!(refused().to_string().contains("check --after-power-loss"), "{}", refused());
        let (pool, report) = Pool::options().open_after_power_loss(&path).unwrap();
        assert_eq!(report.entries, 20_000);
        pool.close().unwrap();
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 2, "it, and lost+found");
        disk.forget_all();
        let pool = Pool::open(&path).unwrap();
        assert!(pool.check().unwrap().is_clean());
        let tree = pool.tree("t").unwrap();
        assert_eq!((0..20_000).find(|&key| tree.get(key * 7919 % 1_000_003) != Some(key)), None);
    });
}

/// A part that was reserved, and never written, is written before a pool uses it; what the system only shows is
/// forgotten.
#[test]
fn what_was_only_reserved_is_written() {
    Ext4::with(|disk| {
        let file = half_written(disk, "a");
        file.write_space_first().unwrap();
        assert_eq!((byte(&file, PAGE), never_written(&disk.path("a"))), (0, 0));
        put(&file, 1, 8).unwrap();
        // Of this, no page was lied about: nothing need be forgotten.
        let other = file_at(&disk.path("b"));
        other.allocate(0, 2 * MIB).unwrap();
        put(&other, 3, 9).unwrap();
        // SAFETY: nobody changes the file meanwhile.
        let map = unsafe { memmap2::Mmap::map(other.as_file()) }.unwrap();
        assert_eq!(map[3 * PAGE as usize], 9);
        other.write_space_first().unwrap();
        assert_eq!((map[2 * PAGE as usize], map[3 * PAGE as usize], never_written(&disk.path("b"))), (0, 9, 0));
        drop(map);
        // New space, ahead of need, and never over what is there.
        other.resize(8 * MIB).unwrap();
        Disk::write(&other, 5 * MIB, &[6; PAGE as usize]).unwrap();
        assert!(other.take_written(&(4 * MIB..4 * MIB + PAGE), 8 * MIB).unwrap());
        assert!(has_blocks(other.as_file(), &(4 * MIB..4 * MIB + 16 * PAGE)));
        assert!(!has_blocks(other.as_file(), &(4 * MIB + 16 * PAGE..4 * MIB + 17 * PAGE)));
        assert!(other.take_written(&(4 * MIB + 16 * PAGE..6 * MIB), 8 * MIB).unwrap());
        other.sync_with_length().unwrap();
        assert_eq!((never_written(&disk.path("b")), byte(&other, 5 * MIB)), (0, 6));
        // What was given back is written again.
        other.punch_hole(4 * MIB, MIB).unwrap();
        assert!(other.take_written(&(4 * MIB..5 * MIB), 8 * MIB).unwrap());
        other.sync_with_length().unwrap();
        assert!(has_blocks(other.as_file(), &(4 * MIB..6 * MIB)) && never_written(&disk.path("b")) == 0);
        drop((file, other));
        disk.forget_all();
        assert_eq!((byte(&file_at(&disk.path("a")), PAGE), byte(&file_at(&disk.path("b")), 3 * PAGE)), (8, 9));
    });
}

/// What does not fit on the disk is not taken.
#[test]
fn zeros_that_do_not_fit_leave_the_space_to_others() {
    let Some(disk) = Ext4::new() else { return };
    let file = file_at(&disk.path("a"));
    file.resize(512 * MIB).unwrap();
    file.write_space_first().unwrap();
    let taken = |file: &DiskFile| std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512;
    assert!(file.take_written(&(0..MIB), 512 * MIB).unwrap());
    let error = file.take_written(&(MIB..256 * MIB), 512 * MIB).unwrap_err();
    assert!(is_room_missing(&error) && file.failed().is_none(), "{error}");
    assert!(taken(&file) < MIB + LEAST_PIECE, "{}", taken(&file));
    // As much as there is, but for what is ahead of need.
    let mut at = MIB;
    while file.take_written(&(at..at + MIB), 512 * MIB).is_ok() {
        at += MIB;
    }
    assert!(at > 64 * MIB && taken(&file) <= at + MIB, "{at}, {}", taken(&file));
}

/// A file on ext4 whose space this thread writes ahead of need, when it says so.
fn kept(path: &Path) -> DiskFile {
    let file = file_at(path);
    file.write_space_first().unwrap();
    file.is_kept_by(u64::MAX, || {});
    file
}

/// Takes space, and tells how many zeros were written meanwhile.
fn take_counted(file: &DiskFile, range: Range<u64>, most: u64) -> u64 {
    let zeros = std::rc::Rc::new(std::cell::Cell::new(0));
    let count = std::rc::Rc::clone(&zeros);
    stopping::at(move |range| count.set(count.get() + range.end - range.start));
    assert!(file.take_written(&range, most).unwrap());
    stopping::at(|_| ());
    zeros.get()
}

fn len(file: &DiskFile) -> u64 {
    file.metadata().unwrap().len()
}

#[test]
fn whoever_takes_space_ahead_of_which_zeros_are_waits_for_nothing() {
    let Some(disk) = Ext4::new() else { return };
    let (file, step, most) = (kept(&disk.path("a")), 128 << 10, 48 * MIB);
    let (mut syncs, mut waited) = (0, 0);
    for at in (0..most).step_by(step as usize) {
        if at + step > file.0.written.known.lock().as_ref().unwrap().len {
            let grown = (at + step).next_multiple_of(2 * MIB);
            syncs += u64::from(!file.lengthen(grown).unwrap());
        }
        waited += take_counted(&file, at..at + step, most);
        while file.write_ahead() {}
        assert!(len(&file) <= most && len(&file) <= (at + step) * 2 + 4 * MIB, "{} at {at}", len(&file));
    }
    // The first pages of a small file, and its first length.
    assert!(waited <= 512 << 10 && syncs <= 2, "{waited}, {syncs}");
    assert_eq!(never_written(&disk.path("a")), 0);
    // Without a thread that writes ahead, as a control: everything.
    let alone = file_at(&disk.path("b"));
    alone.resize(8 * MIB).unwrap();
    alone.write_space_first().unwrap();
    let waited: u64 = (0..8).map(|at| take_counted(&alone, at * MIB..(at + 1) * MIB, most)).sum();
    assert!(waited == 8 * MIB && !alone.write_ahead(), "{waited}");
}

#[test]
fn what_is_ahead_of_need_goes_with_a_cut_and_at_the_end() {
    let Some(disk) = Ext4::new() else { return };
    let path = disk.path("a");
    let file = kept(&path);
    let taken = || std::os::unix::fs::MetadataExt::blocks(&file.metadata().unwrap()) * 512;
    let grow = |to: u64| {
        assert!(!file.lengthen(to).unwrap() || to <= file.len_ahead());
        assert!(file.take_written(&(0..to), 64 * MIB).unwrap());
        assert!(file.write_ahead());
    };
    grow(4 * MIB);
    // Cut in the middle of it: it is not wanted any more, and never gets longer by itself.
    for cut in [4 * MIB, 3 * MIB + 8, MIB] {
        file.resize(cut).unwrap();
        assert!(!file.write_ahead());
        assert_eq!((len(&file), file.len_ahead() <= cut), (cut, true));
        assert!(file.is_unused_from(cut.next_multiple_of(PAGE)) && !file.is_unused_from(cut - 8));
    }
    // The rest is as new: the old length is not taken for one that the disk has.
    Disk::write(&file, 8, &[5; 8]).unwrap();
    grow(4 * MIB);
    assert_eq!((byte(&file, 8), byte(&file, 2 * MIB)), (5, 0));
    while file.write_ahead() {}
    assert!(len(&file) > 5 * MIB && file.len_ahead() == len(&file), "{}", len(&file));
    file.resize(3 * MIB).unwrap();
    assert!(!file.lengthen(4 * MIB).unwrap(), "that length is not on the disk");
    // At the end, it has what it has without that.
    grow(6 * MIB);
    while file.write_ahead() {}
    assert!(taken() >= 8 * MIB);
    file.give_back_ahead().unwrap();
    assert_eq!((len(&file), never_written(&path)), (6 * MIB, 0));
    assert!(taken() <= 6 * MIB + LEAST_PIECE, "{}", taken());
    assert!(!file.write_ahead() && len(&file) == 6 * MIB);
    // What was not taken of the length, too.
    file.lengthen(32 * MIB).unwrap();
    assert!(file.take_written(&(6 * MIB..7 * MIB), 64 * MIB).unwrap());
    while file.write_ahead() {}
    assert!(taken() >= 9 * MIB && len(&file) == 32 * MIB);
    file.give_back_ahead().unwrap();
    assert!(taken() <= 7 * MIB + LEAST_PIECE && len(&file) == 32 * MIB, "{}", taken());
    assert!(file.take_written(&(7 * MIB..8 * MIB), 64 * MIB).unwrap());
    assert!(has_blocks(file.as_file(), &(0..8 * MIB)));
}

#[test]
fn without_room_nothing_is_ahead_of_need_and_nobody_is_told() {
    let Some(disk) = Ext4::new() else { return };
    let (file, other) = (kept(&disk.path("a")), file_at(&disk.path("b")));
    let take = |range: Range<u64>| file.lengthen(range.end).and_then(|_| file.take_written(&range, 512 * MIB));
    assert!(take(0..16 * MIB).unwrap());
    while file.write_ahead() {}
    let ahead = len(&file);
    assert!(ahead >= 24 * MIB && file.len_ahead() == ahead);
    // Others have the rest.
    let mut end = 0;
    for piece in [MIB, PAGE] {
        while other.allocate(end, piece).is_ok() {
            end += piece;
        }
    }
    // A hole can be filled with what is ahead.
    assert!(file.punch_hole(4 * MIB, 2 * MIB).unwrap() && other.allocate(end, 2 * MIB).unwrap());
    assert!(take(4 * MIB..6 * MIB).unwrap());
    assert_eq!((len(&file), file.failed().is_some()), (16 * MIB, false));
    // Some of it is left, but not all that is wanted: it is tried once.
    assert!(take(16 * MIB..17 * MIB).unwrap());
    let mut before = len(&file);
    while file.write_ahead() {
        before = len(&file);
    }
    assert_eq!(len(&file), before);
    assert!(file.0.written.known.lock().as_ref().unwrap().is_full);
    assert!(len(&file) <= ahead && file.failed().is_none(), "{}", len(&file));
    // All that there is can be taken.
    let mut at = 17 * MIB;
    while take(at..at + MIB).is_ok() {
        assert!(!file.write_ahead() || at < ahead);
        at += MIB;
    }
    assert!(at >= 21 * MIB && file.failed().is_none(), "{at}");
    other.resize(0).unwrap();
    assert!(take(at..at + MIB).unwrap() && file.write_ahead());
}

/// The thread is stopped when it has decided where to write zeros. A thread that takes that place, stores to it or cuts
/// it off then waits.
#[test]
fn what_comes_while_zeros_are_about_to_be_written_waits_for_them() {
    use std::sync::mpsc::{channel, sync_channel};
    let Some(disk) = Ext4::new() else { return };
    let others: [fn(&DiskFile, u64); 4] = [
        |file, at| Disk::write(file, at + PAGE, &[6; PAGE as usize]).unwrap(),
        |file, at| Disk::write_through(file, at + PAGE, &[6; PAGE as usize]).unwrap(),
        |file, at| {
            assert!(file.take_written(&(at..at + 2 * PAGE), 64 * MIB).unwrap());
            Disk::write(file, at + PAGE, &[6; PAGE as usize]).unwrap();
        },
        |file, at| file.resize(at).unwrap(),
    ];
    for (case, other) in others.into_iter().enumerate() {
        let file = kept(&disk.path(&case.to_string()));
        file.lengthen(4 * MIB).unwrap();
        assert!(file.take_written(&(0..3 * MIB), 64 * MIB).unwrap());
        while file.write_ahead() {}
        let at = len(&file);
        file.lengthen(5 * MIB).unwrap();
        assert!(file.take_written(&(3 * MIB..5 * MIB), 64 * MIB).unwrap());
        let ((stopped, is_stopped), (done, is_done), same) = (channel(), sync_channel(1), file.clone());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                stopping::at(move |range| {
                    if range.start != at {
                        return;
                    }
                    // A kill may come here, and the disk must have this length with the next thing that waits for it.
                    assert!(len(&same) >= range.end);
                    stopped.send(range.start).unwrap();
                    // It need not wait for long.
                    let waited = is_done.recv_timeout(std::time::Duration::from_millis(50));
                    assert!(waited.is_err(), "{case}: it did not wait");
                });
                while file.write_ahead() {}
            });
            assert_eq!(is_stopped.recv(), Ok(at));
            other(&file, at);
            let _ = done.send(());
        });
        file.sync().unwrap();
        let is_cut = case == 3;
        assert!(if is_cut { len(&file) == at } else { byte(&file, at + PAGE) == 6 }, "{case}");
    }
}

/// Ends a thread, also when something fails.
struct Ends<'e>(&'e std::sync::atomic::AtomicBool, std::thread::Thread);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Release);
        self.1.unpark();
    }
}

/// Zeros are written ahead while others take space, store to it, give it back and cut the file, at any moment. Nothing
/// that was stored is lost, also where nobody took the space before.
#[test]
fn zeros_ahead_of_need_are_never_written_over_content() {
    let Some(disk) = Ext4::new() else { return };
    let file = file_at(&disk.path("a"));
    file.write_space_first().unwrap();
    let (ends, most, mut random) = (std::sync::atomic::AtomicBool::new(false), 24 * MIB, Random(7));
    let read = |page: u64| byte(&file, page * PAGE + 77);
    std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            while !ends.load(std::sync::atomic::Ordering::Acquire) {
                if !file.write_ahead() {
                    std::thread::park_timeout(std::time::Duration::from_millis(1));
                }
            }
        });
        let woken = keeper.thread().clone();
        file.is_kept_by(u64::MAX, move || woken.unpark());
        let _ends = Ends(&ends, keeper.thread().clone());
        let (mut pages, mut used) = (std::collections::BTreeMap::new(), 0);
        for round in 0..3000 {
            let store = |page: u64, pages: &mut std::collections::BTreeMap<u64, u8>| {
                Disk::write(&file, page * PAGE, &[round as u8 | 1; PAGE as usize]).unwrap();
                pages.insert(page, round as u8 | 1);
            };
            match random.below(40) {
                // The end, which is where zeros are written.
                0..28 if used * PAGE < most - 2 * MIB => {
                    let count = 1 + random.below(64);
                    let range = used * PAGE..(used + count) * PAGE;
                    file.lengthen(range.end).unwrap();
                    if random.below(4) > 0 {
                        assert!(file.take_written(&range, most).unwrap());
                    } else {
                        used += random.below(200);
                        file.lengthen((used + count) * PAGE).unwrap();
                    }
                    (used..used + count).for_each(|page| store(page, &mut pages));
                    used += count;
                }
                28..34 => {
                    let at = random.below(used + 1);
                    let range = at * PAGE..(at + random.below(32)).min(used) * PAGE;
                    if range.start < range.end {
                        file.punch_hole(range.start, range.end - range.start).unwrap();
                        (range.start / PAGE..range.end / PAGE).for_each(|page| _ = pages.remove(&page));
                    }
                }
                34 => file.give_back_ahead().unwrap(),
                35..38 => _ = random.below(2) == 0 && file.sync().is_ok(),
                _ => {
                    used -= random.below(used.min(600) + 1);
                    file.resize(used * PAGE).unwrap();
                    assert_eq!(len(&file), used * PAGE);
                    pages.retain(|&page, _| page < used);
                    std::thread::yield_now();
                    assert_eq!(len(&file), used * PAGE, "it gets longer by itself");
                }
            }
            let at = random.below(used + 1);
            for (&page, &byte) in pages.range(at..).take(20).chain(pages.range(..at).rev().take(20)) {
                assert_eq!(read(page), byte, "{round}: {page} of {used}");
            }
        }
        pages.iter().for_each(|(&page, &byte)| assert_eq!(read(page), byte, "{page} of {used}"));
        assert!(file.failed().is_none());
    });
}
