//! Full pools: every tree can still update and remove.

use crate::ending::Ending;
use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Layer, Medium};
use bristlecone::{Error, ErrorKind, IndexKind, Map, Options, PTree, Pool, WordNode};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const SIZE: u64 = 56 << 10;
const ROUNDS: u64 = 3;

/// A medium on a disk that is full, or not.
struct Disk {
    on: Any,
    full: AtomicBool,
}

impl Layer for Disk {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        if self.full.load(Ordering::Relaxed) {
            Err(io::ErrorKind::StorageFull.into())
        } else {
            self.on.reserve(at, len)
        }
    }
}

fn options() -> Options {
    Pool::options().segment_size(4096)
}

/// Keys in an order that splits leaves everywhere.
fn key(n: u64) -> u64 {
    n.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn same<N: WordNode>(tree: &PTree<N, Any>, model: &BTreeMap<u64, u64>, when: &str) {
    assert!(tree.fault().is_none(), "{when}: {}", tree.fault().unwrap());
    assert_eq!(tree.len(), model.len() as u64, "{when}");
    assert!(tree.iter().eq(model.iter().map(|(&k, &v)| (k, v))), "{when}");
    assert!(model.iter().all(|(&k, &v)| tree.get(k) == Some(v)), "{when}");
    let report = tree.check();
    assert!(report.is_clean(), "{when}: {:?}", report.violations);
}

/// Inserts until there is no room, and a few more times, because there may be room elsewhere.
fn fill<N: WordNode>(tree: &PTree<N, Any>, model: &mut BTreeMap<u64, u64>, when: &str) {
    let mut refused = 0;
    for n in 0..SIZE {
        let key = key(n);
        match tree.insert(key, n) {
            Ok(old) => assert_eq!(old, model.insert(key, n), "{when}"),
            Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => {
                assert_eq!(tree.get(key), None, "{when}");
                refused += 1;
                if refused == 30 {
                    return;
                }
            }
            Err(error) => panic!("{when}: {error}"),
        }
    }
    panic!("{when}: never full");
}

fn is_emptied_and_filled<N: WordNode>(index: IndexKind, when: &str, disk: &Arc<Disk>, fills_at: u64) {
    let pool = options().create_on(Arc::clone(disk) as Any).unwrap();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let mut model = BTreeMap::new();
    for n in 0..fills_at {
        assert_eq!(tree.insert(key(n), n).unwrap(), model.insert(key(n), n), "{when}");
    }
    disk.full.store(fills_at > 0, Ordering::Relaxed);
    let mut most = 0;
    for round in 0..ROUNDS {
        let when = format!("{when}, round {round}");
        fill(&tree, &mut model, &when);
        assert!(model.len() * 2 >= most, "{when}: room for {} entries, once for {most}", model.len());
        most = most.max(model.len());
        same(&tree, &model, &when);
        // More updates than there is room for in any leaf.
        for again in 0..if cfg!(miri) { 1 } else { 4 } {
            for (&key, value) in &mut model {
                let new = *value ^ again;
                let updated = if again % 2 == 0 { tree.update(key, new) } else { tree.insert(key, new) };
                let old = updated.unwrap_or_else(|error| panic!("{when}: {key} is not updated: {error}"));
                assert_eq!(old, Some(std::mem::replace(value, new)), "{when}");
            }
        }
        same(&tree, &model, &when);
        let keys: Vec<u64> = match round {
            0 => model.keys().copied().collect(),
            1 => model.keys().rev().copied().collect(),
            _ => (0..SIZE).map(key).filter(|key| model.contains_key(key)).collect(),
        };
        for (i, key) in keys.into_iter().enumerate() {
            let old = tree.remove(key).unwrap_or_else(|error| panic!("{when}: {key} is not removed: {error}"));
            assert_eq!(old, model.remove(&key), "{when}");
            if i == most / 2 {
                same(&tree, &model, &when);
            }
        }
        same(&tree, &model, &when);
    }
    fill(&tree, &mut model, when);
    // The pool as a crash leaves it, still full.
    let crashed = Arc::new(Disk { on: holding(words_of(&disk.on)), full: false.into() });
    let reopened = options().open_on(Arc::clone(&crashed) as Any).unwrap();
    crashed.full.store(fills_at > 0, Ordering::Relaxed);
    let reopened: PTree<N, Any> = reopened.tree_with("t", index).unwrap();
    same(&reopened, &model, when);
    for &key in model.keys() {
        assert!(reopened.update(key, 1).unwrap().is_some(), "{when}");
        assert_eq!(reopened.remove(key).unwrap(), Some(1), "{when}");
    }
    same(&reopened, &BTreeMap::new(), when);
}

/// Threads update and remove their own keys, while another one inserts as much as there is room for.
fn by_several_threads<N: WordNode>(index: IndexKind) {
    let pool = options().create_on(zeroed(SIZE)).unwrap();
    let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
    let mut model = BTreeMap::new();
    fill(&tree, &mut model, N::NAME);
    let keys: Vec<u64> = model.keys().copied().collect();
    let done = AtomicBool::new(false);
    let inserted = std::thread::scope(|scope| {
        let ending = Ending(&done);
        let inserter = scope.spawn(|| {
            let mut inserted = BTreeMap::new();
            for n in (SIZE..).take_while(|_| !done.load(Ordering::Relaxed)) {
                match tree.insert(key(n), n) {
                    Ok(old) => assert_eq!((old, inserted.insert(key(n), n)), (None, None)),
                    Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            inserted
        });
        let workers: Vec<_> = (0..3)
            .map(|thread| {
                let (tree, keys) = (&tree, &keys);
                scope.spawn(move || {
                    for &key in keys.iter().skip(thread).step_by(3) {
                        for value in 0..10 {
                            assert!(tree.update(key, value).unwrap().is_some());
                        }
                        assert_eq!(tree.remove(key).unwrap(), Some(9));
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(ending);
        inserter.join().unwrap()
    });
    same(&tree, &inserted, N::NAME);
}

/// Records are removed from a full pool. An update needs space for one more record, and is refused as a whole.
fn with_records<N: WordNode>(index: IndexKind) {
    let pool = options().create_on(zeroed(SIZE)).unwrap();
    let map: Map<u64, Vec<u8>, N, Any> = pool.map_with("m", index).unwrap();
    let value = |n: u64| vec![n as u8; 40 + n as usize % 50];
    for round in 0..ROUNDS {
        let mut model = BTreeMap::new();
        for n in 0..SIZE {
            match map.insert(key(n), &value(n)) {
                Ok(was_there) => assert_eq!(was_there, model.insert(key(n), value(n)).is_some()),
                Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(model.len() > 50, "round {round}: room for {} records", model.len());
        for (n, (&key, old)) in model.iter_mut().enumerate() {
            let new = value(n as u64 + 7);
            match map.insert(key, &new) {
                Ok(was_there) => {
                    assert!(was_there);
                    *old = new;
                }
                Err(Error { kind: ErrorKind::OutOfSpace { .. }, .. }) => {}
                Err(error) => panic!("{error}"),
            }
            assert_eq!(map.get(key).unwrap().as_ref(), Some(&*old));
        }
        for (key, value) in model {
            assert_eq!(map.get(key).unwrap(), Some(value));
            assert!(map.remove(key).unwrap(), "round {round}");
        }
        assert_eq!(map.len(), 0);
        let report = map.check();
        assert!(report.is_clean(), "round {round}: {:?}", report.violations);
    }
}

/// Removing needs no space, also while a snapshot keeps what it sees.
fn by_ranges<N: WordNode>(index: IndexKind) {
    for has_snapshot in [false, true] {
        let pool = options().create_on(zeroed(256 << 10)).unwrap();
        let tree: PTree<N, Any> = pool.tree_with("t", index).unwrap();
        let full = (0..).find(|&key| tree.insert(key * 3, key).is_err()).unwrap();
        let snapshot = has_snapshot.then(|| pool.snapshot());
        let len = tree.len();
        let mut gone = tree.remove_range(..full).unwrap();
        assert_eq!(gone + tree.len(), len, "{}", N::NAME);
        gone += tree.retain(|key, _| key % 2 == 0).unwrap();
        assert_eq!(gone + tree.len(), len, "{}", N::NAME);
        assert!(tree.check().is_clean());
        gone += tree.remove_range(..).unwrap();
        assert!(gone == len && tree.is_empty() && tree.iter().next().is_none(), "{}", N::NAME);
        drop(snapshot);
        tree.insert_batch(&[(1, 1), (u64::MAX, 2)]).unwrap();
        assert_eq!(tree.retain(|key, _| key != u64::MAX).unwrap(), 1);
        tree.insert(u64::MAX, 3).unwrap();
        assert_eq!(tree.remove_range(2..).unwrap(), 1);
        assert!(tree.iter().eq([(1, 1)]) && tree.len() == 1 && tree.check().is_clean());
    }
}

fn filled<N: WordNode>(index: IndexKind) {
    // The pool is full, or the disk is full while the pool has room.
    for fills_at in [0, 60] {
        let disk = Arc::new(Disk { on: zeroed(SIZE), full: false.into() });
        let when = format!("{} {:?}, full after {fills_at}", N::NAME, index);
        is_emptied_and_filled::<N>(index, &when, &disk, fills_at);
    }
    by_several_threads::<N>(index);
    with_records::<N>(index);
    by_ranges::<N>(index);
}

in_every_layout!(filled);
