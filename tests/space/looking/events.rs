//! What an open pool tells its operators, and how long it waited for the disk.

use super::Scratch;
use bristlecone::stat::{Event, EventKind, Severity};
use bristlecone::{Journal, Options, Pool};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

fn with(path: &Path, ending: &str) -> PathBuf {
    let mut path = path.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Options of a pool for which a busy disk is not slow, which would be one more event.
fn options(journal: Journal) -> Options {
    Pool::options().capacity(64 << 20).journal(journal).slow(PATIENCE, PATIENCE)
}

/// A pool, and its events.
fn told(options: &Options, path: &Path) -> (Pool, Receiver<Event>) {
    let (sender, events) = channel();
    let pool = options.clone().on_event(move |event| drop(sender.send(event.clone()))).open(path).unwrap();
    (pool, events)
}

/// Waits for an event of this name, and returns it.
fn next(events: &Receiver<Event>, name: &str) -> EventKind {
    loop {
        let event = events.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no event {name}"));
        if event.kind.name() == name {
            return event.kind;
        }
    }
}

/// All events up to the end, by name.
fn names(events: &Receiver<Event>) -> Vec<&'static str> {
    let mut names = Vec::new();
    while let Ok(event) = events.recv_timeout(PATIENCE) {
        names.push(event.kind.name());
    }
    names
}

/// The pool as a killed process would leave it now.
fn crash(from: &Path, to: &Path) {
    for ending in ["", ".log", ".ring", ".image"] {
        if with(from, ending).exists() {
            fs::copy(with(from, ending), with(to, ending)).unwrap();
        }
    }
}

#[test]
fn a_pool_tells_how_it_was_recovered_and_that_it_was_closed() {
    let scratch = Scratch::new();
    for (name, journal) in [("a", Journal::None), ("b", Journal::OnRequest)] {
        let (path, left) = (scratch.path(name), scratch.path(&format!("{name}-left")));
        let (pool, events) = told(&options(journal), &path);
        let tree = pool.tree("t").unwrap();
        (0..100).for_each(|key| _ = tree.insert(key, key).unwrap());
        crash(&path, &left);
        drop((tree, pool));
        // Nothing was recovered, and there are no events after the last one.
        assert_eq!(names(&events), ["closed"]);
        let (pool, events) = told(&options(journal), &left);
        let first = events.recv_timeout(PATIENCE).unwrap();
        assert_eq!((first.pool.as_str(), first.kind.severity()), (left.to_str().unwrap(), Severity::Info));
        let EventKind::Recovered { took, journal: found } = &first.kind else { panic!("{first:?}") };
        assert!(*took > Duration::ZERO && *took < PATIENCE && first.at.elapsed().unwrap() < PATIENCE);
        assert_eq!(found, &pool.journal().map(|stat| stat.recovered));
        assert_eq!(found.is_some_and(|found| found.from_ring > 100), journal == Journal::OnRequest, "{first}");
        let tree = pool.tree("t").unwrap();
        let EventKind::TreeRecovered { tree: name, leaves, .. } = next(&events, "tree_recovered") else { panic!() };
        assert_eq!((name.as_str(), leaves), ("t", pool.metrics().trees[0].leaves));
        drop(tree);
        pool.close().unwrap();
        assert!(matches!(next(&events, "closed"), EventKind::Closed { error: None, .. }));
        assert!(events.recv_timeout(PATIENCE).is_err(), "the function is dropped after the last event");
        // Once it is told, the file is free; and nothing is left to be recovered.
        let (pool, events) = told(&options(journal), &left);
        drop((pool.tree("t").unwrap(), pool));
        assert_eq!(names(&events), ["closed"]);
        // A pool that is only read has nothing to tell.
        let (pool, events) = told(&Pool::options().read_only(true), &left);
        drop((pool.tree("t").unwrap(), pool));
        assert_eq!(names(&events), [""; 0]);
    }
}

/// Whether the tree `t` of a pool that a crash has left was found by an image; and all 60,000 of its keys.
fn is_found_by_image(options: &Options, left: &Path) -> bool {
    let (pool, events) = told(options, left);
    let tree = pool.tree("t").unwrap();
    let EventKind::TreeRecovered { by_image, .. } = next(&events, "tree_recovered") else { panic!() };
    assert!(tree.len() == 60_000 && tree.iter().all(|(key, value)| key == value));
    assert!(pool.check().unwrap().is_clean());
    by_image
}

/// As [`crash`], of a pool for which work goes on in the background: again until nothing has happened meanwhile.
fn crash_at_rest(pool: &Pool, from: &Path, to: &Path) {
    let state = || (pool.journal(), fs::read(with(from, ".log")).unwrap()[..8192].to_vec());
    loop {
        let before = state();
        crash(from, to);
        if state() == before {
            break;
        }
    }
}

#[test]
fn a_large_tree_is_found_by_an_image() {
    let scratch = Scratch::new();
    let (path, left) = (scratch.path("pool"), scratch.path("left"));
    let pool = options(Journal::OnRequest).open(&path).unwrap();
    let tree = pool.tree("t").unwrap();
    (0..50_000).for_each(|key| _ = tree.insert(key, key).unwrap());
    pool.sync().unwrap();
    (50_000..60_000).for_each(|key| _ = tree.insert(key, key).unwrap());
    // It is made some time after a sync, and counts when the log says so, unless that has used its place meanwhile.
    let since = Instant::now();
    let all = options(Journal::OnRequest);
    loop {
        crash_at_rest(&pool, &path, &left);
        if is_found_by_image(&all, &left) {
            break;
        }
        assert!(since.elapsed() < PATIENCE, "no image is made, or none counts");
        (0..1000).for_each(|key| _ = tree.insert(key, key).unwrap());
        pool.sync().unwrap();
    }
    // What has less memory does without.
    crash_at_rest(&pool, &path, &left);
    assert!(!is_found_by_image(&all.clone().private_memory(4096), &left));
    // And the image goes with the close.
    drop(tree);
    pool.close().unwrap();
    assert!(!with(&path, ".image").exists());
}

#[test]
fn syncs_checkpoints_and_growth_are_told_and_counted() {
    let scratch = Scratch::new();
    let slow = options(Journal::OnRequest).slow(Duration::ZERO, Duration::ZERO);
    let (pool, events) = told(&slow, &scratch.path("a.pool"));
    let tree = pool.tree("t").unwrap();
    let start = Instant::now();
    let stat = || pool.journal().unwrap();
    while !(stat().rings > 0 && stat().waits > 0 && stat().checkpoints > 0 && stat().log > 256 << 10) {
        assert!(start.elapsed() < PATIENCE, "{:?}", stat());
        (0..5000).for_each(|key| _ = tree.insert(key, key).unwrap());
    }
    tree.insert(7, 7).unwrap();
    pool.sync().unwrap();
    // Nothing was waited for.
    let commits = pool.metrics().commits.count();
    pool.sync().unwrap();
    drop(tree);
    let (metrics, stat) = (pool.metrics(), stat());
    // The journal works in the background.
    assert!(metrics.syncs.count() <= stat.syncs && metrics.checkpoints.count() <= stat.checkpoints);
    assert_eq!((metrics.waits.count(), metrics.commits.count()), (stat.waits, commits));
    assert!(commits > 0 && metrics.syncs.max() <= metrics.syncs.sum() && metrics.syncs.max() > Duration::ZERO);
    assert!(metrics.faults.is_some_and(|faults| faults.minor > 0));
    pool.close().unwrap();
    let found: Vec<EventKind> = events.iter().map(|event| event.kind).collect();
    let count = |name| found.iter().filter(|kind: &&EventKind| kind.name() == name).count();
    // Each once, if it has not taken ten seconds.
    let rounds = 1 + start.elapsed().as_secs() as usize / 10;
    for name in ["slow_sync", "slow_checkpoint", "waited"] {
        assert!((1..=rounds).contains(&count(name)), "{name}: {found:?}");
    }
    assert!(count("log_grew") > 0 && count("ring_replaced") > 0, "{found:?}");
    for kind in &found {
        match kind {
            EventKind::LogGrew { from, to } => assert!(from < to),
            EventKind::RingReplaced { from, to, was_lost } => assert!(from < to && !was_lost),
            EventKind::SlowSync { .. } => assert!(kind.to_string().contains("sync"), "{kind}"),
            _ => {}
        }
    }
    assert!(matches!(found.last(), Some(EventKind::Closed { error: None, .. })), "{found:?}");
}

#[test]
fn without_a_journal_syncs_are_those_of_the_file() {
    let scratch = Scratch::new();
    let (pool, events) = told(&options(Journal::None).slow(Duration::ZERO, Duration::ZERO), &scratch.path("a.pool"));
    let before = pool.metrics();
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    pool.sync().unwrap();
    let after = pool.metrics();
    assert_eq!(after.syncs.count(), before.syncs.count() + 1);
    assert_eq!((after.commits.count(), after.checkpoints.count(), after.waits.count()), (1, 0, 0));
    assert!(matches!(next(&events, "slow_sync"), EventKind::SlowSync { times: 1, .. }));
}

#[test]
fn each_change_that_waits_for_the_disk_is_a_commit() {
    let scratch = Scratch::new();
    let (pool, _events) = told(&options(Journal::Each), &scratch.path("a.pool"));
    let tree = pool.tree("t").unwrap();
    let before = pool.metrics().commits.count();
    (0..10).for_each(|key| _ = tree.insert(key, key).unwrap());
    pool.transaction(|tx| tx.insert(&tree, 3, 4).map(drop)).unwrap();
    assert_eq!(pool.metrics().commits.count(), before + 11);
}

#[test]
fn a_name_that_is_lost_is_told_once() {
    let scratch = Scratch::new();
    let path = scratch.path("a.pool");
    let (pool, events) = told(&options(Journal::OnRequest), &path);
    let tree = pool.tree("t").unwrap();
    let change = |key| {
        let _ = tree.insert(key, key);
        pool.sync()
    };
    change(1).unwrap();
    fs::remove_file(with(&path, ".ring")).unwrap();
    change(2).unwrap();
    let is_lost = |kind: &_| matches!(kind, EventKind::RingReplaced { from, to, was_lost: true } if from == to);
    assert!(is_lost(&next(&events, "ring_replaced")));
    fs::remove_file(with(&path, ".ring")).unwrap();
    // All the names that it could have are those of others.
    fs::write(with(&path, ".ring"), "somebody's").unwrap();
    (1..8).for_each(|number| fs::write(with(&path, &format!(".ring.{number}")), "somebody's").unwrap());
    (3..6).for_each(|key| _ = change(key).unwrap_err());
    assert_eq!(next(&events, "ring_lost").severity(), Severity::Error);
    fs::remove_file(with(&path, ".log")).unwrap();
    (6..9).for_each(|key| _ = change(key).unwrap_err());
    drop(tree);
    pool.close().unwrap();
    assert_eq!(names(&events), ["log_lost", "closed"]);
}

#[test]
fn snapshots_that_expire_are_told() {
    let scratch = Scratch::new();
    let (pool, events) = told(&options(Journal::None).snapshot_memory(20_000), &scratch.path("a.pool"));
    let tree = pool.tree("t").unwrap();
    tree.extend((0..10_000).map(|key| (key, key))).unwrap();
    let snapshot = pool.snapshot();
    tree.extend((0..10_000).map(|key| (key, key + 1))).unwrap();
    assert_eq!(next(&events, "snapshots_expired"), EventKind::SnapshotsExpired { count: 1, limit: 20_000 });
    assert_eq!(pool.snapshots().expired, 1);
    drop(snapshot);
}

/// The last handle of a pool is dropped by the function that is told, which also closes another one.
#[test]
fn a_function_may_drop_and_close_the_last_handles() {
    let scratch = Scratch::new();
    let slow = options(Journal::Every(Duration::from_millis(1))).slow(Duration::ZERO, Duration::ZERO);
    let other = options(Journal::Each).open(scratch.path("b.pool")).unwrap();
    let held = Arc::new(Mutex::new(None::<Pool>));
    let (sender, events) = channel();
    let (in_function, others) = (Arc::clone(&held), Mutex::new(Some(other)));
    let options = slow.on_event(move |event| {
        if event.kind.name() == "slow_sync" {
            // The thread that opens it may not have put it there yet.
            while in_function.lock().unwrap().take().map(drop).is_none() {}
            others.lock().unwrap().take().map_or(Ok(()), Pool::close).unwrap();
        }
        sender.send(event.clone()).unwrap();
    });
    let pool = options.open(scratch.path("a.pool")).unwrap();
    drop(options);
    pool.tree("t").unwrap().insert(1, 1).unwrap();
    *held.lock().unwrap() = Some(pool);
    let names = names(&events);
    assert_eq!((names[0], *names.last().unwrap()), ("slow_sync", "closed"), "{names:?}");
    for name in ["a.pool", "b.pool"] {
        assert!(Pool::open(scratch.path(name)).unwrap().stat().was_clean);
    }
}

#[test]
fn functions_may_use_each_others_pools() {
    let scratch = Scratch::new();
    let pools = Arc::new(Mutex::new(Vec::<Pool>::new()));
    let (sender, events) = channel();
    for (i, journal) in [Journal::Every(Duration::from_millis(1)), Journal::Each].into_iter().enumerate() {
        let (pools_in_function, sender) = (Arc::clone(&pools), sender.clone());
        let options = options(journal).slow(Duration::ZERO, Duration::ZERO).on_event(move |event| {
            let other = pools_in_function.lock().unwrap().get(1 - i).cloned();
            if let Some(other) = other {
                let tree = other.tree(&format!("of {i}")).unwrap();
                (0..100).for_each(|key| _ = tree.insert(key, key).unwrap());
                assert_eq!(tree.get(99), Some(99));
                other.sync().unwrap();
                assert_eq!(other.metrics().trees.iter().filter(|of| of.name == tree.name()).count(), 1);
                other.snapshot().range(&tree, ..).unwrap().for_each(drop);
                sender.send((i, event.kind.name())).unwrap();
            }
        });
        let pool = options.open(scratch.path(&format!("{i}.pool"))).unwrap();
        pools.lock().unwrap().push(pool);
    }
    drop(sender);
    let both = pools.lock().unwrap().clone();
    for key in 0..20 {
        both.iter().for_each(|pool| _ = pool.tree("t").unwrap().insert(key, key).unwrap());
        both.iter().for_each(|pool| pool.sync().unwrap());
    }
    // More events, until both functions have used the other one's pool.
    let (start, mut seen) = (Instant::now(), [0; 2]);
    let mut key = 0;
    while seen.contains(&0) {
        assert!(start.elapsed() < PATIENCE, "{seen:?}");
        both.iter().for_each(|pool| _ = pool.tree("t").unwrap().extend((key..key + 500).map(|key| (key, 1))).unwrap());
        key += 500;
        events.try_iter().for_each(|(i, _): (usize, _)| seen[i] += 1);
    }
    drop(both);
    pools.lock().unwrap().clear();
    // What was told goes on to the end of both.
    while events.recv_timeout(PATIENCE).is_ok() {}
    (0..2).for_each(|i| assert!(Pool::open(scratch.path(&format!("{i}.pool"))).unwrap().stat().was_clean));
}

#[test]
fn a_function_that_panics_or_blocks_disturbs_nobody() {
    let scratch = Scratch::new();
    let (go_on, block) = channel::<()>();
    let (block, told_panics) = (Mutex::new(block), Arc::new(Mutex::new(Vec::new())));
    let every = options(Journal::Every(Duration::from_millis(1))).slow(Duration::ZERO, Duration::ZERO);
    let blocks = every.clone().on_event(move |_| _ = block.lock().unwrap().recv());
    let blocked: Vec<Pool> = (0..40).map(|i| blocks.open(scratch.path(&format!("{i}"))).unwrap()).collect();
    drop(blocks);
    blocked.iter().for_each(|pool| _ = pool.tree("t").unwrap().insert(1, 1).unwrap());
    let seen = Arc::clone(&told_panics);
    let panics = every.on_event(move |event| {
        seen.lock().unwrap().push(event.kind.name());
        panic!("a function that panics, as it should: {event}");
    });
    let path = scratch.path("panics");
    let pool = panics.open(&path).unwrap();
    let tree = pool.tree("t").unwrap();
    let synced = |key| {
        let (start, before) = (Instant::now(), pool.journal().unwrap().syncs);
        tree.insert(key, key).unwrap();
        while pool.journal().unwrap().syncs == before {
            assert!(start.elapsed() < PATIENCE, "the journal does not go on");
        }
    };
    // Of a thread of the journal, and of the one that calls.
    (0..10).for_each(synced);
    pool.sync().unwrap();
    crash(&path, &scratch.path("left"));
    drop(tree);
    pool.close().unwrap();
    // Of an open.
    panics.open(scratch.path("left")).unwrap().close().unwrap();
    // As all others, the pools whose functions block are closed as ever, and sync as ever until then.
    for pool in blocked {
        let start = Instant::now();
        while pool.metrics().syncs.count() == 0 {
            assert!(start.elapsed() < PATIENCE, "the journal of a pool whose function blocks does not go on");
        }
        pool.close().unwrap();
    }
    drop(go_on);
    let start = Instant::now();
    let is_told = || {
        let told = told_panics.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let has = |name| told.contains(&name);
        told.iter().filter(|&&name| name == "closed").count() == 2 && has("slow_sync") && has("recovered")
    };
    while !is_told() {
        assert!(start.elapsed() < PATIENCE, "{told_panics:?}");
    }
}
