//! A damaged byte or word anywhere in a pool causes an error or a wrong value, but never a panic or an endless loop,
//! and never keys that are out of order.
//!
//! Every case is one image with one fault. The operations on it are the same each time. So a word that is not loaded
//! from the whole image is not loaded from a damaged one either, before the fault elsewhere shows: such words are left
//! out.
//!
//! All cases take two minutes. An ordinary run takes a part of them, spread evenly; `BRISTLECONE_DAMAGE=N` takes N
//! cases of each test, `BRISTLECONE_DAMAGE=all` takes all. Which ones these are differs with `BRISTLECONE_DAMAGE_FROM`.

use crate::medium::{Any, holding, words_of, zeroed};
use bristlecone::medium::{Facts, Layer, Medium};
use bristlecone::papers::{Circular, Linear};
use bristlecone::{
    ByteLeaf, Error, ErrorKind, IndexKind, Map, OneLine, Options, PTree, Pool, Report, Result, Snapshot, Value,
    WordNode,
};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::time::{Duration, Instant};

/// How long one case may take. Far more than the slowest case needs, so that a busy machine does not matter.
const PATIENCE: Duration = Duration::from_secs(60);
/// Cases per test in an ordinary run.
const SAMPLE: usize = 150;
/// No tree here has as many entries, so a longer iteration runs in circles.
const ENDLESS: usize = 100_000;
/// A case that loads so many times as many words as the whole image needs runs in circles.
const PATIENT: usize = 50;

type Words = Vec<u64>;

/// Records which words are read.
struct Traced {
    of: Any,
    loaded: Arc<[AtomicBool]>,
    loads: Arc<AtomicUsize>,
}

impl Layer for Traced {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.of
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "traced", ..self.below().facts() }
    }

    fn load(&self, at: u64) -> u64 {
        self.loaded[at as usize / 8].store(true, Ordering::Relaxed);
        self.loads.fetch_add(1, Ordering::Relaxed);
        self.of.load(at)
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        words.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = Layer::load(self, at));
    }
}

/// Ends a case that loads too many words. So a loop that never ends is found by its steps, not by the time that it
/// takes.
pub(crate) struct Bounded {
    of: Any,
    loads: AtomicUsize,
    most: usize,
}

impl Bounded {
    pub(crate) fn over(of: Any, most: usize) -> Any {
        Arc::new(Self { of, loads: AtomicUsize::new(0), most })
    }

    fn count(&self, loads: usize) {
        if self.loads.fetch_add(loads, Ordering::Relaxed) > self.most {
            // What is dropped now may load more.
            self.loads.store(0, Ordering::Relaxed);
            panic!("endless loop");
        }
    }
}

impl Layer for Bounded {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.of
    }

    fn facts(&self) -> Facts<'_> {
        Facts { name: "bounded", ..self.below().facts() }
    }

    fn load(&self, at: u64) -> u64 {
        self.count(1);
        self.of.load(at)
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        self.count(words.len());
        self.of.load_words(at, words);
    }
}

/// Fails unless keys ascend strictly, and end.
fn ascending<K: Ord>(keys: impl Iterator<Item = K>) {
    ordered(keys, |one, next| one < next);
}

/// Fails unless keys descend strictly, and end.
fn descending<K: Ord>(keys: impl Iterator<Item = K>) {
    ordered(keys, |one, next| one > next);
}

fn ordered<K>(keys: impl Iterator<Item = K>, in_order: impl Fn(&K, &K) -> bool) {
    let (mut last, mut count) = (None, 0);
    for key in keys {
        assert!(last.is_none_or(|last| in_order(&last, &key)), "keys out of order");
        (last, count) = (Some(key), count + 1);
        assert!(count < ENDLESS, "endless");
    }
}

/// The keys of the entries that can be read.
fn keys_of<K, V>(entries: impl Iterator<Item = Result<(K, V)>>) -> impl Iterator<Item = K> {
    entries.take(ENDLESS).filter_map(|entry| Some(entry.ok()?.0))
}

/// Fails unless the keys from the left ascend, and lie before those from the right, which descend.
fn from_both_ends<K: Ord>(mut keys: impl DoubleEndedIterator<Item = Option<K>>) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    while let (Some(one), Some(other)) = (keys.next(), keys.next_back()) {
        left.extend(one);
        right.extend(other);
        assert!(left.len() < ENDLESS, "endless");
    }
    ascending(left.into_iter().chain(right.into_iter().rev()));
}

/// The kind of tree that an image holds, and the operations on it.
trait Exercise: Copy + Send + 'static {
    /// A pool in use, and the same pool closed.
    fn images(self) -> [Words; 2];

    /// Does everything that can be done with the pool on a medium, which keeps its words in `image`. The first error of
    /// a call ends that call, but not the rest.
    fn exercise(self, medium: Any, order: Order, image: &Any) -> Result<()>;
}

/// Whether the tree first grows or first shrinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    GrowFirst,
    ShrinkFirst,
}

const CAPACITY: u64 = 12288 + 64 * 1024;

fn options() -> Options {
    Pool::options().segment_size(1024)
}

/// The keys of the images: scattered, with both ends of the range.
fn keys() -> impl Iterator<Item = u64> {
    (0..44u64).map(|n| n * 37 % 64 * 10).chain([0, u64::MAX, u64::MAX - 1])
}

/// Keys that the image had before they were removed.
fn removed() -> impl Iterator<Item = u64> {
    keys().enumerate().filter(|(n, _)| n % 11 < 5).map(|(_, key)| key)
}

#[derive(Clone, Copy)]
struct Tree<N>(IndexKind, std::marker::PhantomData<N>);

impl<N: WordNode + Copy> Tree<N> {
    fn new(index: IndexKind) -> Self {
        Self(index, std::marker::PhantomData)
    }

    fn grow(tree: &PTree<N, Any>) {
        for key in 0..60 {
            if tree.insert(key * 11 + 3, key).is_err() {
                break;
            }
        }
        let _ = tree.compare_exchange(5, None, Some(9));
        let _ = tree.compare_exchange(30, Some(5), Some(6));
        let _ = tree.update(u64::MAX, 1);
        let _ = tree.insert(u64::MAX, 2);
    }

    fn shrink(tree: &PTree<N, Any>) {
        for _ in 0..3 {
            let _ = (tree.pop_first(), tree.pop_last());
        }
        let _ = tree.update_with(30, |value| value.map(|value| value.wrapping_add(1)));
        let _ = tree.remove_range(150..200);
        let mut kept = Vec::new();
        let _ = tree.retain(|key, _| {
            kept.push(key);
            key % 3 != 0
        });
        ascending(kept.into_iter());
        for key in keys().chain((0..60).map(|key| key * 11 + 3)) {
            if tree.remove(key).is_err() {
                break;
            }
        }
    }

    fn look(tree: &PTree<N, Any>) {
        for key in keys() {
            tree.get(key);
            if tree.fault().is_some() {
                break;
            }
        }
        ascending(tree.iter().map(|(key, _)| key));
        descending(tree.iter().rev().map(|(key, _)| key));
        ascending(tree.clone().into_range(20..).map(|(key, _)| key));
        from_both_ends(tree.range(50..=500).map(|(key, _)| Some(key)));
        tree.first_key_value();
        tree.last_key_value();
        tree.check();
    }
}

impl<N: WordNode + Copy> Exercise for Tree<N> {
    fn images(self) -> [Words; 2] {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let tree: PTree<N, Any> = pool.tree_with("t", self.0).unwrap();
        for key in keys() {
            tree.insert(key, key ^ 5).unwrap();
        }
        for key in removed() {
            tree.remove(key).unwrap();
        }
        assert!(tree.check().is_clean());
        let in_use = words_of(pool.medium());
        drop(tree);
        // An orderly close writes the superblock last. It is written here by opening the pool again.
        let kept = holding(words_of(pool.medium()));
        drop(options().open_on(Arc::clone(&kept)).unwrap());
        [in_use, words_of(&kept)]
    }

    fn exercise(self, medium: Any, order: Order, image: &Any) -> Result<()> {
        let pool = options().open_on(medium)?;
        pool.stat();
        let _ = pool.trees();
        let _ = pool.check();
        {
            let tree: PTree<N, Any> = pool.tree_with("t", self.0)?;
            Self::look(&tree);
            let verbs = [Self::grow, Self::shrink];
            for verb in if order == Order::GrowFirst { verbs } else { [verbs[1], verbs[0]] } {
                verb(&tree);
                Self::look(&tree);
            }
            let _ = tree.compact();
            Self::look(&tree);
        }
        // The state as it was left, in the same pool and in a new one.
        let words = words_of(image);
        {
            let tree: PTree<N, Any> = pool.tree_with("t", self.0)?;
            Self::look(&tree);
            let _ = tree.clear();
            let _ = tree.bulk_load((0..40).map(|key| (key, key)));
            Self::look(&tree);
        }
        let _ = pool.drop_tree("t");
        let _ = pool.tree_with::<N>("u", self.0).map(|tree| tree.insert(1, 1));
        drop(pool);
        let pool = options().open_on(holding(words))?;
        let _ = pool.check();
        let tree: PTree<N, Any> = pool.tree_with("t", self.0)?;
        Self::look(&tree);
        Self::grow(&tree);
        Self::shrink(&tree);
        Self::look(&tree);
        Ok(())
    }
}

/// A map whose keys and values stand for numbers.
trait NumberMap: Sized + 'static {
    fn open(pool: &Pool<Any>, name: &str, index: IndexKind) -> Result<Self>;
    fn get(&self, key: u64);
    fn insert(&self, key: u64, value: u64) -> Result<bool>;
    fn update(&self, key: u64, value: u64) -> Result<bool>;
    fn insert_new(&self, key: u64, value: u64) -> Result<bool>;
    fn remove(&self, key: u64) -> Result<bool>;
    fn multi_get(&self, keys: &[u64]);
    fn clear(&self) -> Result<()>;
    /// The keys ascend.
    fn bulk_load(&self, keys: &[u64]) -> Result<u64>;
    /// Reads everything in every way.
    fn read(&self);
    /// Removes entries in every way but by their keys.
    fn take(&self);
    /// Reads everything as a snapshot and as a transaction see it, if the map takes part in these.
    fn moments(&self, snapshot: &Snapshot<Any>, pool: &Pool<Any>);
    fn fault(&self) -> Option<Error>;
    fn check(&self) -> Report;
}

/// A key or a value that stands for a number.
trait Stands {
    /// As methods of maps take it.
    type Lent<'a>: Copy
    where
        Self: 'a;

    fn lent(&self) -> Self::Lent<'_>;
}

impl Stands for u64 {
    type Lent<'a> = u64;

    fn lent(&self) -> u64 {
        *self
    }
}

impl Stands for Vec<u8> {
    type Lent<'a> = &'a [u8];

    fn lent(&self) -> &[u8] {
        self
    }
}

fn word(number: u64) -> u64 {
    number
}

/// Records of every kind: empty, of several classes, and longer than a segment.
fn record(number: u64) -> Vec<u8> {
    vec![number as u8; [0, 3, 24, 60, 200, 1500, 32][number as usize % 7]]
}

/// Keys of eight bytes: lows lie in headers.
fn short(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// Keys with a long common prefix: lows are records.
fn long(number: u64) -> Vec<u8> {
    [&[b'x'; 60][..], &number.to_be_bytes()].concat()
}

/// Keys that are each a prefix of the next one, so that heads are equal.
fn zeros(number: u64) -> Vec<u8> {
    if number < 1000 { vec![0; number as usize] } else { [&[0xff][..], &number.to_be_bytes()].concat() }
}

/// `NumberMap` for a map.
macro_rules! number_map {
    ([$($generics:tt)*] $of:ty, $map:ty, $key:expr, $value:expr $(, $moments:expr)?) => {
        impl<$($generics)*> NumberMap for $of {
            fn open(pool: &Pool<Any>, name: &str, index: IndexKind) -> Result<Self> {
                pool.map_with(name, index).map(Self)
            }

            fn get(&self, key: u64) {
                let _ = self.0.get($key(key).lent());
            }

            fn insert(&self, key: u64, value: u64) -> Result<bool> {
                self.0.insert($key(key).lent(), $value(value).lent())
            }

            fn update(&self, key: u64, value: u64) -> Result<bool> {
                self.0.update($key(key).lent(), $value(value).lent())
            }

            fn insert_new(&self, key: u64, value: u64) -> Result<bool> {
                self.0.insert_new($key(key).lent(), $value(value).lent())
            }

            fn remove(&self, key: u64) -> Result<bool> {
                self.0.remove($key(key).lent())
            }

            fn multi_get(&self, keys: &[u64]) {
                let keys: Vec<_> = keys.iter().map(|&key| $key(key)).collect();
                let _ = self.0.multi_get(&keys.iter().map(Stands::lent).collect::<Vec<_>>());
            }

            fn clear(&self) -> Result<()> {
                self.0.clear()
            }

            fn bulk_load(&self, keys: &[u64]) -> Result<u64> {
                let entries: Vec<_> = keys.iter().map(|&key| ($key(key), $value(key))).collect();
                self.0.bulk_load(entries.iter().map(|(key, value)| (key.lent(), value.lent())))
            }

            fn read(&self) {
                ascending(keys_of(self.0.iter()));
                descending(keys_of(self.0.iter().rev()));
                ascending(self.0.keys(..));
                descending(self.0.keys(..).rev());
                descending(keys_of(self.0.clone().into_iter().rev()));
                let (from, to) = ($key(50), $key(500));
                from_both_ends(self.0.range(from.lent()..=to.lent()).map(|entry| Some(entry.ok()?.0)));
                assert!(self.0.values(..).take(ENDLESS).count() < ENDLESS, "endless");
                let _ = (self.0.first_key_value(), self.0.last_key_value());
            }

            fn take(&self) {
                for _ in 0..3 {
                    let _ = (self.0.pop_first(), self.0.pop_last());
                }
                let _ = self.0.update_with($key(30).lent(), |value| value);
                let _ = self.0.remove_range($key(150).lent()..$key(200).lent());
                let (mut kept, mut n) = (Vec::new(), 0);
                let _ = self.0.retain(|key, _| {
                    kept.push(key.decode());
                    n += 1;
                    n % 3 != 0
                });
                ascending(kept.into_iter());
            }

            fn moments(&self, _snapshot: &Snapshot<Any>, _pool: &Pool<Any>) {
                $(
                    let moments: fn(&Self, &Snapshot<Any>, &Pool<Any>) = $moments;
                    moments(self, _snapshot, _pool);
                )?
            }

            fn fault(&self) -> Option<Error> {
                self.0.fault()
            }

            fn check(&self) -> Report {
                self.0.check()
            }
        }
    };
}

struct Records<N: WordNode>(Map<u64, Vec<u8>, N, Any>);
struct ShortKeys(Map<Vec<u8>, Vec<u8>, ByteLeaf<4>, Any>);
struct LongKeys(Map<Vec<u8>, Vec<u8>, ByteLeaf<4>, Any>);
struct LongKeysOfNumbers(Map<Vec<u8>, u64, ByteLeaf<4>, Any>);
struct Zeros(Map<Vec<u8>, u64, ByteLeaf<4>, Any>);

number_map!([N: WordNode] Records<N>, Map<u64, Vec<u8>, N, Any>, word, record);
number_map!([] ShortKeys, Map<Vec<u8>, Vec<u8>, ByteLeaf<4>, Any>, short, record, |map, of, pool| moments(&map.0, of, pool));
number_map!([] LongKeys, Map<Vec<u8>, Vec<u8>, ByteLeaf<4>, Any>, long, record, |map, of, pool| moments(&map.0, of, pool));
number_map!([] LongKeysOfNumbers, Map<Vec<u8>, u64, ByteLeaf<4>, Any>, long, word, |map, of, pool| moments(&map.0, of, pool));
number_map!([] Zeros, Map<Vec<u8>, u64, ByteLeaf<4>, Any>, zeros, word, |map, of, pool| moments(&map.0, of, pool));

/// What a snapshot and a transaction see of a map.
fn moments<V: Value>(map: &Map<Vec<u8>, V, ByteLeaf<4>, Any>, snapshot: &Snapshot<Any>, pool: &Pool<Any>) {
    if let Ok(entries) = snapshot.iter(map) {
        ascending(keys_of(entries));
    }
    if let Ok(entries) = snapshot.iter(map) {
        descending(keys_of(entries.rev()));
    }
    let mut transaction = pool.begin();
    if let Ok(entries) = transaction.range(map, ..) {
        ascending(keys_of(entries));
    }
    if let Ok(entries) = transaction.range(map, ..) {
        descending(keys_of(entries.rev()));
    }
    let _ = transaction.commit();
}

struct Maps<T>(IndexKind, std::marker::PhantomData<fn() -> T>);

impl<T> Clone for Maps<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Maps<T> {}

impl<T: NumberMap> Maps<T> {
    fn new(index: IndexKind) -> Self {
        Self(index, std::marker::PhantomData)
    }

    fn grow(map: &T) {
        for key in (0..16).map(|key| key * 13).chain(keys().take(12)) {
            if map.insert(key, key + 1).is_err() {
                break;
            }
        }
        let _ = map.update(37, 2);
        let _ = map.insert_new(38, 1);
    }

    fn shrink(map: &T) {
        map.take();
        for key in (0..16).map(|key| key * 13).chain(keys()) {
            if map.remove(key).is_err() {
                break;
            }
        }
    }

    fn look(map: &T) {
        for key in keys() {
            map.get(key);
            if map.fault().is_some() {
                break;
            }
        }
        map.multi_get(&keys().collect::<Vec<_>>());
        map.read();
        map.check();
    }
}

impl<T: NumberMap> Exercise for Maps<T> {
    fn images(self) -> [Words; 2] {
        let pool = options().create_on(zeroed(CAPACITY)).unwrap();
        let map = T::open(&pool, "t", self.0).unwrap();
        for key in keys().take(20).chain([u64::MAX]) {
            map.insert(key, key).unwrap();
        }
        for key in removed().take(6) {
            map.remove(key).unwrap();
        }
        assert!(map.check().is_clean());
        let in_use = words_of(pool.medium());
        drop(map);
        let kept = holding(words_of(pool.medium()));
        drop(options().open_on(Arc::clone(&kept)).unwrap());
        [in_use, words_of(&kept)]
    }

    fn exercise(self, medium: Any, order: Order, image: &Any) -> Result<()> {
        let pool = options().open_on(medium)?;
        let _ = pool.trees();
        let _ = pool.check();
        {
            let map = T::open(&pool, "t", self.0)?;
            Self::look(&map);
            let snapshot = pool.snapshot();
            let verbs = [Self::grow, Self::shrink];
            for verb in if order == Order::GrowFirst { verbs } else { [verbs[1], verbs[0]] } {
                verb(&map);
                Self::look(&map);
            }
            map.moments(&snapshot, &pool);
            drop(snapshot);
            Self::grow(&map);
            let _ = pool.compact();
            Self::look(&map);
        }
        let words = words_of(image);
        {
            let map = T::open(&pool, "t", self.0)?;
            Self::look(&map);
            let _ = map.clear();
            let _ = map.bulk_load(&(0..20).collect::<Vec<_>>());
            Self::look(&map);
        }
        let _ = pool.drop_tree("t");
        let _ = T::open(&pool, "u", self.0).map(|map| map.insert(1, 1));
        drop(pool);
        let pool = options().open_on(holding(words))?;
        let _ = pool.check();
        let map = T::open(&pool, "t", self.0)?;
        Self::look(&map);
        Self::shrink(&map);
        Self::grow(&map);
        Self::look(&map);
        Ok(())
    }
}

/// One fault: a word with a wrong value.
#[derive(Debug, Clone, Copy)]
struct Fault {
    image: usize,
    order: Order,
    word: usize,
    value: u64,
}

/// Keeps the message of a panic of a worker for its report, instead of printing it.
fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() == Some("damage") {
                LAST.with_borrow_mut(|last| *last = info.to_string().replace('\n', " "));
            } else {
                default(info);
            }
        }));
    });
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What went wrong, by kind: how often, and the first case of each kind.
#[derive(Default)]
struct Findings(BTreeMap<String, (usize, String)>);

/// A thread that works through the faults: its current fault, and when it began with it.
struct Worker {
    at: Arc<Mutex<Option<(usize, Instant)>>>,
}

fn survives<S: Exercise>(subject: S, faults: impl Fn(&Words, usize, Order) -> Vec<u64>) {
    let (report, cases) = findings(subject, faults);
    assert!(report.is_empty(), "of {cases} faults:{report}");
    println!("{cases} faults");
}

/// What went wrong, and how many faults were tried.
fn findings<S: Exercise>(subject: S, faults: impl Fn(&Words, usize, Order) -> Vec<u64>) -> (String, usize) {
    silence_panics();
    let images = Arc::new(subject.images());
    let mut cases = Vec::new();
    let loads = Arc::new(AtomicUsize::new(0));
    for order in [Order::GrowFirst, Order::ShrinkFirst] {
        for (image, words) in images.iter().enumerate() {
            let loaded: Arc<[AtomicBool]> = words.iter().map(|_| AtomicBool::new(false)).collect();
            let of = holding(words.iter().copied());
            let traced = Arc::new(Traced { of: Arc::clone(&of), loaded: loaded.clone(), loads: loads.clone() });
            subject.exercise(traced, order, &of).unwrap();
            let read = (0..words.len()).filter(|&word| loaded[word].load(Ordering::Relaxed));
            for word in read {
                let values = faults(words, word, order);
                cases.extend(values.into_iter().map(|value| Fault { image, order, word, value }));
            }
        }
    }
    let wanted = match std::env::var("BRISTLECONE_DAMAGE").as_deref() {
        Ok("all") => cases.len(),
        Ok(number) => number.parse().expect("BRISTLECONE_DAMAGE is a number or `all`"),
        Err(_) => SAMPLE,
    };
    // With an odd step, the cases include every byte of the words, and both orders.
    let step = if wanted < cases.len() { cases.len().div_ceil(wanted) | 1 } else { 1 };
    let from = std::env::var("BRISTLECONE_DAMAGE_FROM")
        .map_or(0, |from| from.parse::<usize>().expect("BRISTLECONE_DAMAGE_FROM is a number"));
    let cases: Arc<Vec<Fault>> = Arc::new(cases.into_iter().skip(from % step).step_by(step).collect());
    let most = loads.load(Ordering::Relaxed) * PATIENT;
    let findings = Arc::new(Mutex::new(Findings::default()));
    let next = Arc::new(AtomicUsize::new(0));
    let start = || {
        let at = Arc::new(Mutex::new(None));
        let worker = Worker { at: at.clone() };
        let (cases, images, findings, next) = (cases.clone(), images.clone(), findings.clone(), next.clone());
        let run = move || {
            loop {
                let case = next.fetch_add(1, Ordering::Relaxed);
                let Some(&fault) = cases.get(case) else { break };
                *at.lock().unwrap() = Some((case, Instant::now()));
                let mut words = images[fault.image].clone();
                words[fault.word] = fault.value;
                let done = catch_unwind(AssertUnwindSafe(|| {
                    let medium = holding(words);
                    let _ = subject.exercise(Bounded::over(Arc::clone(&medium), most), fault.order, &medium);
                }));
                if done.is_err() {
                    let what = LAST.with_borrow(Clone::clone);
                    note(&findings, what, &images, fault);
                }
            }
            *at.lock().unwrap() = None;
        };
        std::thread::Builder::new().name("damage".to_owned()).spawn(run).unwrap();
        worker
    };
    let mut worker = start();
    let mut hung = 0;
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let at = *worker.at.lock().unwrap();
        match at {
            Some((case, since)) if since.elapsed() > PATIENCE => {
                note(&findings, "endless loop or deadlock".to_owned(), &images, cases[case]);
                hung += 1;
                // The hung thread spins until the process ends.
                if hung == 3 {
                    break;
                }
                worker = start();
            }
            None if next.load(Ordering::Relaxed) >= cases.len() => break,
            _ => {}
        }
    }
    let findings = std::mem::take(&mut *findings.lock().unwrap());
    let report: String =
        findings.0.iter().map(|(what, (n, first))| format!("\n{n} times: {what}\n    {first}")).collect();
    (report, cases.len())
}

fn note(findings: &Mutex<Findings>, what: String, images: &[Words; 2], fault: Fault) {
    let first = || {
        let Fault { image, order, word, value } = fault;
        let state = ["in use", "closed"][image];
        let was = images[image][word];
        format!("{state}, {order:?}: word at {} is {value:#x}, was {was:#x}", word * 8)
    };
    findings.lock().unwrap().0.entry(what).or_insert_with(|| (0, first())).0 += 1;
}

/// Damages each byte of the word, in a way that differs from byte to byte and from order to order.
fn flipped_bytes(words: &Words, word: usize, order: Order) -> Vec<u64> {
    let bits = |byte: usize| match order {
        Order::GrowFirst => 1 << ((word + byte) % 8),
        Order::ShrinkFirst => [0xff, 0x80, 0x7f, 0x55][(word + byte) % 4],
    };
    (0..8).map(|byte| words[word] ^ bits(byte) << (byte * 8)).collect()
}

/// Values that would be valid somewhere else.
fn other_words(words: &Words, word: usize, order: Order) -> Vec<u64> {
    let here = word as u64 * 8;
    let len = words.len() as u64 * 8;
    let near = [word.wrapping_sub(1), word + 1, word + 2, word.wrapping_sub(2)];
    let mut values = vec![0, 1, u64::MAX, 1 << 63, here, here & !63, here + 128 - here % 128, len, len - 8, len - 128];
    values.extend(near.iter().filter_map(|&near| words.get(near)));
    // A word with an offset gets every other place that an offset can name, and some values that are slightly off.
    let first = 12288;
    if (first..len).contains(&words[word]) {
        let used = words.iter().rposition(|&word| word != 0).unwrap_or(0) as u64 * 8;
        values.extend((first..used).step_by(128));
        values.extend([
            words[word] + 8,
            words[word] + 1,
            words[word] - 64,
            words[word] | 1023,
            words[word] & !1023 | 1008,
        ]);
    }
    // So does a reference of a byte string, with the same top bits.
    let (top, at) = (words[word] >> 48 << 48, words[word] & ((1 << 48) - 1));
    if top != 0 && (first..len).contains(&at) {
        let used = words.iter().rposition(|&word| word != 0).unwrap_or(0) as u64 * 8;
        let others = (first..used).step_by(128).chain([at + 8, at + 1, at - 64, at | 1023, at & !1023 | 1008]);
        values.extend(others.map(|at| top | at));
    }
    values.sort_unstable();
    values.dedup();
    values.retain(|&value| value != words[word]);
    // All values for words in the header; for other words, half of the values in each order.
    let half = usize::from(order == Order::ShrinkFirst);
    if here < first {
        return values;
    }
    values.into_iter().enumerate().filter(|(i, _)| (i + word) % 2 == half).map(|(_, value)| value).collect()
}

macro_rules! subjects {
    ($($bytes:ident $words:ident $subject:expr;)*) => {$(
        #[test]
        #[cfg_attr(miri, ignore)]
        fn $bytes() {
            survives($subject, flipped_bytes);
        }

        #[test]
        #[cfg_attr(miri, ignore)]
        fn $words() {
            survives($subject, other_words);
        }
    )*};
}

subjects! {
    bytes_of_linear_volatile words_of_linear_volatile Tree::<Linear<5>>::new(IndexKind::Volatile);
    bytes_of_linear_persistent words_of_linear_persistent Tree::<Linear<5>>::new(IndexKind::Persistent);
    bytes_of_circular_volatile words_of_circular_volatile Tree::<Circular<4>>::new(IndexKind::Volatile);
    bytes_of_circular_persistent words_of_circular_persistent Tree::<Circular<4>>::new(IndexKind::Persistent);
    bytes_of_one_line_volatile words_of_one_line_volatile Tree::<OneLine<7>>::new(IndexKind::Volatile);
    bytes_of_one_line_persistent words_of_one_line_persistent Tree::<OneLine<7>>::new(IndexKind::Persistent);
    bytes_of_one_line_records words_of_one_line_records Maps::<Records<OneLine<7>>>::new(IndexKind::Volatile);
    bytes_of_records_volatile words_of_records_volatile Maps::<Records<Linear<5>>>::new(IndexKind::Volatile);
    bytes_of_records_persistent words_of_records_persistent Maps::<Records<Circular<4>>>::new(IndexKind::Persistent);
    bytes_of_short_keys words_of_short_keys Maps::<ShortKeys>::new(IndexKind::Volatile);
    bytes_of_long_keys words_of_long_keys Maps::<LongKeys>::new(IndexKind::Volatile);
    bytes_of_long_keys_of_numbers words_of_long_keys_of_numbers Maps::<LongKeysOfNumbers>::new(IndexKind::Volatile);
    bytes_of_zeros words_of_zeros Maps::<Zeros>::new(IndexKind::Volatile);
}

/// Planted bugs, which must be found.
#[derive(Clone, Copy)]
enum Planted {
    /// Removes the first entry again and again, and takes it for a lost race if one is not found by its key.
    Pop,
    /// Shows the keys of damaged records.
    Scan,
}

impl Exercise for Planted {
    fn images(self) -> [Words; 2] {
        Maps::<ShortKeys>::new(IndexKind::Volatile).images()
    }

    fn exercise(self, medium: Any, _order: Order, image: &Any) -> Result<()> {
        let pool = options().open_on(medium)?;
        let map: Map<Vec<u8>, Vec<u8>, ByteLeaf<4>, Any> = pool.map_with("t", IndexKind::Volatile)?;
        match self {
            Self::Pop => {
                while let Some((key, _)) = map.first_key_value()? {
                    map.remove(&key)?;
                }
            }
            Self::Scan => {
                let words = words_of(image);
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                let key = |entry: Result<(Vec<u8>, Vec<u8>)>| match entry {
                    Ok((key, _)) => Some(key),
                    Err(Error { kind: ErrorKind::Corrupt { at, invariant: "N3: a head of another key" }, .. }) => {
                        // The length of the key is behind a word of length and checksum.
                        let record = &bytes[at as usize + 8..];
                        Some(record[1..=usize::from(record[0] & 0x7f)].to_vec())
                    }
                    Err(_) => None,
                };
                ascending(map.iter().filter_map(key));
            }
        }
        Ok(())
    }
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_pop_that_takes_damage_for_a_lost_race_is_found() {
    let (report, _) = findings(Planted::Pop, flipped_bytes);
    assert!(report.contains("endless loop"), "{report}");
}

#[test]
#[cfg_attr(miri, ignore)]
fn a_scan_that_shows_what_damaged_records_say_is_found() {
    let (report, _) = findings(Planted::Scan, flipped_bytes);
    assert!(report.contains("keys out of order"), "{report}");
}
