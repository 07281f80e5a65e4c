//! The machine goes down with a pool on an ordinary file: each page is as it was at some time since the last sync. This
//! must never be taken for a crash of the process.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Facts, Layer, Medium, Step};
use bristlecone::{Error, ErrorKind, IndexKind, Map, OneLine, Options, Pool};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

type Small = Map<u64, Vec<u8>, OneLine<7>, Any>;
type Content = BTreeMap<u64, Vec<u8>>;

const PAGE: usize = 4096 / 8;

/// An ordinary file: what is not synced is lost with the machine.
struct Disk {
    cache: Any,
    boot: u64,
    syncs: AtomicU64,
    /// Whether syncing fails.
    fails: AtomicBool,
    /// Keeps every moment, if there is one.
    history: Option<Mutex<History>>,
}

/// The content of the page cache at a fence or a sync.
struct Moment {
    words: Vec<u64>,
    /// The moment that was synced last: the disk has that state of each page, or a later one.
    synced: usize,
    /// How many changes were made by then.
    changes: usize,
}

#[derive(Default)]
struct History {
    synced: usize,
    changes: usize,
    moments: Vec<Moment>,
}

impl Disk {
    fn new(cache: Any, boot: u64) -> Arc<Self> {
        Arc::new(Self { cache, boot, syncs: AtomicU64::new(0), fails: AtomicBool::new(false), history: None })
    }

    /// This disk, as the type that trees use.
    fn any(self: &Arc<Self>) -> Any {
        Arc::<Self>::clone(self)
    }

    fn moment(&self) {
        if let Some(history) = &self.history {
            let mut history = history.lock().unwrap();
            let moment = Moment { words: words_of(&self.cache), synced: history.synced, changes: history.changes };
            history.moments.push(moment);
        }
    }

    fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Layer for Disk {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.cache
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "disk", boot: self.boot, ..self.below().facts() }
    }

    fn sync(&self) -> io::Result<()> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(io::Error::other("the disk fails"));
        }
        self.moment();
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if let Some(history) = &self.history {
            let mut history = history.lock().unwrap();
            history.synced = history.moments.len() - 1;
        }
        Ok(())
    }

    fn fence(&self, step: Step) {
        self.cache.fence(step);
        self.moment();
    }
}

fn options() -> Options {
    Pool::options().segment_size(4096)
}

fn value(key: u64, round: usize) -> Vec<u8> {
    vec![key as u8; 10 + (key as usize * 37 + round * 11) % 900]
}

fn content(map: &Small) -> Content {
    map.iter().map(|entry| entry.unwrap()).collect()
}

/// A pool that is used, closed, and used again, from the second time on with these options. Returns its content after
/// each change, and every moment.
fn history(later: &Options) -> (Vec<Content>, Vec<Moment>) {
    let history = Some(Mutex::default());
    let disk = Arc::new(Disk {
        cache: zeroed(192 << 10),
        boot: 1,
        syncs: AtomicU64::new(0),
        fails: AtomicBool::new(false),
        history,
    });
    disk.moment();
    let history = disk.history.as_ref().unwrap();
    let mut content = Content::new();
    let mut contents = vec![content.clone()];
    for round in 0..3 {
        let pool = if round == 0 { options().create_on(disk.any()) } else { later.open_on(disk.any()) }.unwrap();
        let map: Small = pool.map_with("m", IndexKind::Volatile).unwrap();
        for i in 0..20 {
            let key = (i * 7 + round as u64 * 5) % 40;
            let new = value(key, round);
            map.insert(key, &new).unwrap();
            content.insert(key, new);
            if i % 4 == 3 {
                map.remove(i).unwrap();
                content.remove(&i);
            }
            contents.push(content.clone());
            history.lock().unwrap().changes += 1;
        }
        drop(map);
        pool.close().unwrap();
    }
    let moments = std::mem::take(&mut history.lock().unwrap().moments);
    (contents, moments)
}

/// One of the states that a crash of the machine at a moment may leave, on a machine that is running again.
fn torn(moments: &[Moment], now: usize, seed: u64) -> Arc<Disk> {
    let mut seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut below = |limit: usize| {
        seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (seed >> 33) as usize % limit
    };
    let since = moments[now].synced;
    let mut words = moments[now].words.clone();
    for (page, to) in words.chunks_mut(PAGE).enumerate() {
        // Many pages are as they were synced, and many are as they are now.
        let when = [since, now, since + below(now + 1 - since)][below(3)];
        to.copy_from_slice(&moments[when].words[page * PAGE..][..to.len()]);
    }
    Disk::new(holding(words), 2)
}

/// How many damaged states are taken for a pool that was closed, or whose process was killed.
fn unnoticed(later: &Options) -> usize {
    let (contents, moments) = history(later);
    let (mut refused, mut unnoticed) = (0, 0);
    for now in (0..moments.len()).step_by(2) {
        let synced = moments[now].synced;
        for seed in [0, 1 << 32] {
            let disk = torn(&moments, now, now as u64 ^ seed);
            match options().open_on(disk.any()) {
                Err(Error { kind: ErrorKind::PowerLoss, .. }) => refused += 1,
                // The creation was interrupted.
                Err(error) => assert!(matches!(error.kind, ErrorKind::NotAPool { .. }) && synced == 0, "{error}"),
                Ok(pool) => {
                    let whole = pool.map_with("m", IndexKind::Volatile).is_ok_and(|map: Small| {
                        map.fault().is_none()
                            && map.check().is_clean()
                            && content(&map) == contents[moments[synced].changes]
                    });
                    unnoticed += usize::from(!whole);
                }
            }
        }
    }
    assert!(refused > 100, "{refused} refused, {unnoticed} not noticed");
    unnoticed
}

#[test]
fn a_crash_of_the_machine_is_noticed() {
    assert_eq!(unnoticed(&options()), 0);
}

/// The negative control: without syncs, a damaged pool opens as if nothing had happened.
#[test]
fn without_syncing_it_is_not() {
    assert!(unnoticed(&options().sync(false)) > 0);
}

#[test]
fn what_is_left_is_checked_before_it_is_used() {
    let (_, moments) = history(&options());
    let (mut whole, mut broken) = (0, 0);
    for now in (0..moments.len()).step_by(4) {
        let disk = torn(&moments, now, now as u64);
        if !matches!(options().open_on(disk.any()), Err(Error { kind: ErrorKind::PowerLoss, .. })) {
            continue;
        }
        let before = words_of(&disk.cache);
        match options().open_on_after_power_loss(disk.any()) {
            Err(Error { kind: ErrorKind::Corrupt { .. }, .. }) => {
                broken += 1;
                assert!(before == words_of(&disk.cache), "a pool that is not whole was changed");
                assert!(!options().read_only(true).open_on(disk.any()).unwrap().check().unwrap().is_clean());
            }
            Err(error) => panic!("{error}"),
            Ok((pool, report)) => {
                whole += 1;
                assert!(report.is_clean() && !pool.stat().was_clean && !pool.stat().power_loss);
                // Free blocks, segments and the index follow from the leaves, not from an earlier close record.
                let map: Small = pool.map_with("m", IndexKind::Volatile).unwrap();
                let mut model = content(&map);
                assert!(report.entries == model.len() as u64 || report.trees == 0);
                for key in 0..60 {
                    map.insert(key, &value(key, 9)).unwrap();
                    model.insert(key, value(key, 9));
                }
                assert_eq!(content(&map), model);
                assert!(map.check().is_clean());
                drop(map);
                pool.close().unwrap();
                let again = Disk::new(holding(words_of(&disk.cache)), 3);
                let pool = options().open_on(again.any()).unwrap();
                assert_eq!(content(&pool.map_with("m", IndexKind::Volatile).unwrap()), model);
            }
        }
    }
    assert!(whole > 20 && broken > 5, "{whole} whole, {broken} broken");
}

#[test]
fn what_the_machine_did_not_lose_opens_as_ever() {
    let disk = Disk::new(zeroed(192 << 10), 1);
    let pool = options().create_on(disk.any()).unwrap();
    assert_eq!(disk.syncs(), 1);
    let map: Small = pool.map_with("m", IndexKind::Volatile).unwrap();
    map.insert(1, b"one").unwrap();
    let killed = words_of(&disk.cache);
    drop(map);
    pool.close().unwrap();
    assert_eq!(disk.syncs(), 3);
    let closed = words_of(&disk.cache);
    let open = |words: &[u64], boot, syncs| {
        let disk = Disk::new(holding(words.iter().copied()), boot);
        let pool = options().open_on(disk.any()).unwrap();
        assert_eq!(disk.syncs(), syncs);
        assert_eq!(
            pool.map_with::<u64, Vec<u8>, OneLine<7>>("m", IndexKind::Volatile).unwrap().get(1).unwrap().unwrap(),
            b"one"
        );
        words_of(&disk.cache)
    };
    // Killed, in the same boot: the disk has the information that the pool was in use, so no sync is needed.
    open(&open(&killed, 1, 0), 1, 0);
    // Closed, in this boot or another; or in a place where boots are not known.
    open(&closed, 1, 1);
    open(&closed, 2, 1);
    open(&killed, 0, 1);
    // A pool of an older build, or one that says nothing about the boot.
    let old = options().create_on(zeroed(192 << 10)).unwrap();
    old.map_with::<u64, Vec<u8>, OneLine<7>>("m", IndexKind::Volatile).unwrap().insert(1, b"one").unwrap();
    open(&words_of(old.medium()), 2, 1);
}

/// A pool that could not be opened was not in use: after an orderly restart of the machine it opens as ever.
#[test]
fn an_open_that_fails_leaves_the_pool_as_it_was() {
    let disk = Disk::new(zeroed(192 << 10), 1);
    options().create_on(disk.any()).unwrap().close().unwrap();
    let next = |boot, fails| {
        let disk = Disk::new(holding(words_of(&disk.cache)), boot);
        disk.fails.store(fails, Ordering::Relaxed);
        disk
    };
    let failing = next(2, true);
    let error = options().open_on(failing.any()).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Io { doing: "sync", .. }), "{error}");
    assert_eq!(words_of(&failing.cache), words_of(&disk.cache));
    options().open_on(Disk::new(holding(words_of(&failing.cache)), 3).any()).unwrap();
}

#[test]
fn the_error_tells_the_way_in() {
    let disk = Disk::new(zeroed(192 << 10), 1);
    let pool = options().create_on(disk.any()).unwrap();
    pool.map_with::<u64, Vec<u8>, OneLine<7>>("m", IndexKind::Volatile).unwrap().insert(1, b"one").unwrap();
    let other = |words| Disk::new(holding(words), 2);
    let after = other(words_of(&disk.cache));
    let error = options().open_on(after.any()).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::PowerLoss), "{error}");
    assert!(error.to_string().contains("disk: ") && error.to_string().contains("open_after_power_loss"), "{error}");
    // The pool can be read.
    let reading = options().read_only(true).open_on(after.any()).unwrap();
    assert!(reading.stat().power_loss && reading.check().unwrap().is_clean());
    let before = words_of(&after.cache);
    let error = options().read_only(true).open_on_after_power_loss(after.any()).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::ReadOnly { .. }) && words_of(&after.cache) == before, "{error}");
    // The crate cannot check a tree whose node size only its own program knows: here 1,000 slots, according to its
    // root.
    let mut words = words_of(&disk.cache);
    let root = &mut words[1024..][..32];
    root[1] = root[1] & !(0xffff_ffff << 16) | 1000 << 16;
    let named: Vec<u8> = [1, 2, 7].into_iter().chain(8..23).flat_map(|i| root[i].to_ne_bytes()).collect();
    root[0] = root[0] & 0xffff_ffff | u64::from(crc32fast::hash(&named)) << 32;
    let error = options().open_on_after_power_loss(other(words).any()).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Unchecked { .. }) && error.to_string().contains("'m'"), "{error}");
}
