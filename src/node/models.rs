//! loom models of the version lock, and of a reader that runs beside an insert, a removal and a split in leaves of two
//! or three slots.
//!
//! Each has a negative control: the same reader without the check of the version must be found wrong.

use crate::medium::{Dram, Medium, Step};
use crate::memory::Zero;
use crate::node::layout::{Layout, NewNode};
use crate::node::shadow::{Leave, Shadow};
use crate::node::{
    BlockAt, Circular, Entry, Hints, KeyRange, LOW, Linear, NEXT, NodeAt, OneLine, SplitInPlace, WordNode, Words, link,
};
use crate::pool::access::Access;
use crate::pool::segments::Segments;
use crate::sync::bias::Bias;
use loom::sync::Arc;
use loom::thread;

/// A leaf that owns every key except MAX, and room for a second leaf to its right.
struct Leaf<N: WordNode> {
    m: Dram,
    segments: Segments,
    shadow: Shadow<Hints<N>>,
    right: Shadow<Hints<N>>,
}

const RANGE: KeyRange = KeyRange::from_parts(0, u64::MAX);

impl<N: WordNode<Ops: SplitInPlace>> Leaf<N> {
    fn new(entries: &[Entry]) -> Self {
        let (m, segments) = (Dram::zeroed(2 * N::BYTES), Segments::none());
        let leaf = Self { m, segments, shadow: Shadow::zero(), right: Shadow::zero() };
        let was = leaf.shadow.lock.lock(&Bias::shared());
        N::Ops::fill(leaf.left(), NewNode { level: 0, low: 0, lines: 0, next: 0, entries, zeroed: false });
        leaf.m.fence(Step::Insert);
        leaf.shadow.set_range::<Words>(RANGE);
        leaf.shadow.lock.unlock(was, Leave::Ready);
        leaf
    }

    fn block(&self, at: u64) -> BlockAt<'_, Dram> {
        Access { m: &self.m, segments: &self.segments, tree: 0 }.block(at)
    }

    fn left(&self) -> NodeAt<'_, N::Ops, Dram> {
        self.block(0).node(&self.shadow.hints)
    }

    fn insert(&self, (key, value): Entry) {
        let was = self.shadow.lock.lock(&Bias::shared());
        let place = N::Ops::search(self.left(), key).expect_err("the model inserts a new key");
        N::Ops::insert(self.left(), place, (key, value));
        self.m.fence(Step::Insert);
        self.shadow.lock.unlock(was, Leave::Ready);
    }

    fn remove(&self, key: u64) {
        let was = self.shadow.lock.lock(&Bias::shared());
        let place = N::Ops::search(self.left(), key).expect("the model removes a key that is there");
        N::Ops::remove(self.left(), RANGE, place);
        self.m.fence(Step::Insert);
        self.shadow.lock.unlock(was, Leave::Ready);
    }

    /// Moves these entries, which are the greatest, to the right leaf.
    fn split(&self, moved: &[Entry]) {
        let (at, border) = (N::BYTES, moved[0].0);
        let was = self.shadow.lock.lock(&Bias::shared());
        let was_right = self.right.lock.lock(&Bias::shared());
        let new = NewNode { level: 0, low: border, lines: 0, next: 0, entries: moved, zeroed: true };
        N::Ops::fill(self.block(at).node(&self.right.hints), new);
        self.right.set_range::<Words>(KeyRange::new(border, u64::MAX));
        self.m.fence(Step::Insert);
        link(self.block(0), at);
        self.shadow.set_range::<Words>(KeyRange::new(0, border));
        N::Ops::truncate_after_split(self.left(), &border, moved);
        self.right.lock.unlock(was_right, Leave::Ready);
        self.shadow.lock.unlock(was, Leave::Ready);
    }

    /// One try; `None` if a version changed. If not `checked`, what was read is accepted without validation.
    fn get(&self, key: u64, checked: bool) -> Option<Option<u64>> {
        let (mut shadow, mut at) = (&self.shadow, 0);
        loop {
            let version = shadow.lock.optimistic_read();
            let owns = shadow.range::<Words>().contains(key);
            let node = self.block(at).node::<N::Ops>(&shadow.hints);
            let value = N::Ops::search(node, key).ok().map(|place| N::Ops::value(node, place));
            let next = self.m.load(at + NEXT);
            if checked && !shadow.lock.validate(version) {
                return None;
            }
            if owns {
                return Some(value);
            }
            assert_eq!((next, self.m.load(next + LOW) <= key), (N::BYTES, true), "to the right there is a leaf");
            (shadow, at) = (&self.right, next);
        }
    }
}

/// The reader is the spawned thread. loom compares an access only with the last one to the same word, so with the roles
/// swapped it would miss that a writer which loads a word before it stores to it races with an earlier load.
fn reading<N: WordNode<Ops: SplitInPlace>>(
    leaf: &Arc<Leaf<N>>,
    read: impl FnOnce(&Leaf<N>) + 'static,
) -> thread::JoinHandle<()> {
    let leaf = Arc::clone(leaf);
    thread::spawn(move || read(&leaf))
}

/// A key that is being inserted is there with its value, or not at all.
fn reader_of_inserted<N: WordNode<Ops: SplitInPlace>>(checked: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf::<N>::new(&[(5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get(3, checked) {
                assert!(value.is_none() || value == Some(30));
            }
        });
        leaf.insert((3, 30));
        reader.join().unwrap();
    });
}

/// A key that stays is read with its value while another key is inserted before it.
fn reader_against_insert<N: WordNode<Ops: SplitInPlace>>(checked: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf::<N>::new(&[(5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get(5, checked) {
                assert_eq!(value, Some(50));
            }
        });
        leaf.insert((3, 30));
        reader.join().unwrap();
        assert_eq!(leaf.get(3, true), Some(Some(30)));
        assert_eq!(leaf.get(5, true), Some(Some(50)));
    });
}

/// A key that stays is read with its value while its neighbour is removed.
fn reader_against_remove<N: WordNode<Ops: SplitInPlace>>(checked: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf::<N>::new(&[(3, 30), (5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get(5, checked) {
                assert_eq!(value, Some(50));
            }
        });
        leaf.remove(3);
        reader.join().unwrap();
        assert_eq!(leaf.get(3, true), Some(None));
        assert_eq!(leaf.get(5, true), Some(Some(50)));
    });
}

/// Keys that move to a new leaf are found in one of the two leaves.
fn reader_against_split<N: WordNode<Ops: SplitInPlace>>(checked: bool) {
    // Exploring every interleaving of so many steps would take hours.
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.check(move || {
        let leaf = Arc::new(Leaf::<N>::new(&[(3, 30), (5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get(5, checked) {
                assert_eq!(value, Some(50));
            }
        });
        leaf.split(&[(5, 50)]);
        reader.join().unwrap();
        assert_eq!(leaf.get(3, true), Some(Some(30)));
        assert_eq!(leaf.get(5, true), Some(Some(50)));
    });
}

#[test]
fn loom_split_one_line() {
    reader_against_split::<OneLine<3>>(true);
}

#[test]
fn loom_split_circular() {
    reader_against_split::<Circular<2>>(true);
}

#[test]
#[should_panic]
fn loom_split_unchecked_is_found_wrong() {
    reader_against_split::<OneLine<3>>(false);
}

#[test]
fn loom_insert_one_line() {
    reader_against_insert::<OneLine<3>>(true);
}

#[test]
fn loom_inserted_one_line() {
    reader_of_inserted::<OneLine<3>>(true);
}

#[test]
fn loom_remove_one_line() {
    reader_against_remove::<OneLine<3>>(true);
}

#[test]
#[should_panic]
fn loom_inserted_unchecked_one_line_is_found_wrong() {
    reader_of_inserted::<OneLine<3>>(false);
}

#[test]
fn loom_insert_linear() {
    reader_against_insert::<Linear<2>>(true);
}

#[test]
fn loom_insert_circular() {
    reader_against_insert::<Circular<2>>(true);
}

#[test]
#[should_panic]
fn loom_insert_unchecked_is_found_wrong() {
    reader_against_insert::<Linear<2>>(false);
}

#[test]
fn loom_inserted_linear() {
    reader_of_inserted::<Linear<2>>(true);
}

#[test]
fn loom_inserted_circular() {
    reader_of_inserted::<Circular<2>>(true);
}

#[test]
fn loom_remove_linear() {
    reader_against_remove::<Linear<2>>(true);
}

#[test]
fn loom_remove_circular() {
    reader_against_remove::<Circular<2>>(true);
}

#[test]
#[should_panic]
fn loom_remove_unchecked_is_found_wrong() {
    reader_against_remove::<Linear<2>>(false);
}

type OfOneLine = Hints<OneLine<3>>;

/// Two fields that a writer always leaves equal.
fn version_lock(checked: bool) {
    loom::model(move || {
        let shadow = Arc::new(Shadow::<OfOneLine>::zero());
        let writer = {
            let shadow = Arc::clone(&shadow);
            thread::spawn(move || {
                let was = shadow.lock.lock(&Bias::shared());
                shadow.set_range::<Words>(KeyRange::from_parts(7, 7));
                shadow.lock.unlock(was, Leave::Ready);
            })
        };
        let version = shadow.lock.optimistic_read();
        let range = shadow.range::<Words>();
        if !checked || shadow.lock.validate(version) {
            assert_eq!(range.low(), range.width());
            assert_eq!(version.is_ready(), range.low() == 7);
        }
        writer.join().unwrap();
        assert!(shadow.lock.optimistic_read().is_ready());
    });
}

#[test]
fn loom_version_lock() {
    version_lock(true);
}

#[test]
#[should_panic]
fn loom_version_lock_unchecked_is_found_wrong() {
    version_lock(false);
}

#[test]
fn loom_writers_exclude_each_other() {
    loom::model(|| {
        let shadow = Arc::new(Shadow::<OfOneLine>::zero());
        let add = |shadow: &Shadow<OfOneLine>| {
            let was = shadow.lock.lock(&Bias::shared());
            let low = shadow.range::<Words>().low();
            shadow.set_range::<Words>(KeyRange::from_parts(low + 1, 0));
            shadow.lock.unlock(was, Leave::Ready);
        };
        let writer = {
            let shadow = Arc::clone(&shadow);
            thread::spawn(move || add(&shadow))
        };
        add(&shadow);
        writer.join().unwrap();
        assert_eq!(shadow.range::<Words>().low(), 2);
    });
}
