//! loom models of the version lock, and of a reader against an insert and a removal in a leaf of two slots.
//!
//! Each comes with a negative control: the same reader without the check of the version must be found wrong.

use crate::medium::{Dram, Medium};
use crate::node::shadow::{Leave, Shadow};
use crate::node::{Circular, Entry, Linear, Node, Span, slots};
use loom::sync::Arc;
use loom::thread;

/// A leaf that owns every key but MAX.
struct Leaf {
    m: Dram,
    shadow: Shadow,
}

const SPAN: Span = Span { low: 0, width: u64::MAX };

impl Leaf {
    fn new<N: Node>(entries: &[Entry]) -> Self {
        let leaf = Self { m: Dram::zeroed(N::BYTES), shadow: Shadow::new() };
        let was = leaf.shadow.lock.lock();
        let window = slots::fill::<N, _>(&leaf.m, 0, 0, 0, 0, entries.iter().copied(), false);
        leaf.m.fence();
        leaf.shadow.set_span(SPAN);
        leaf.shadow.set_window(window);
        leaf.shadow.lock.unlock(was, Leave::Ready);
        leaf
    }

    fn insert<N: Node>(&self, (key, value): Entry) {
        let was = self.shadow.lock.lock();
        let window = self.shadow.window();
        let i = N::search(&self.m, 0, window, key).expect_err("the model inserts a new key");
        self.shadow.set_window(slots::insert::<N, _>(&self.m, 0, window, i, (key, value)));
        self.shadow.lock.unlock(was, Leave::Ready);
    }

    fn remove<N: Node>(&self, key: u64) {
        let was = self.shadow.lock.lock();
        let window = self.shadow.window();
        let i = N::search(&self.m, 0, window, key).expect("the model removes a key that is there");
        self.shadow.set_window(slots::remove::<N, _>(&self.m, 0, SPAN, window, i));
        self.shadow.lock.unlock(was, Leave::Ready);
    }

    /// One try; `None` if the version changed. Without `checked`, what was read is believed.
    fn get<N: Node>(&self, key: u64, checked: bool) -> Option<Option<u64>> {
        let version = self.shadow.lock.begin();
        let window = self.shadow.window();
        let found = N::search(&self.m, 0, window, key).ok();
        let value = found.map(|i| slots::value::<N, _>(&self.m, 0, window, i));
        (!checked || self.shadow.lock.is_still(version)).then_some(value)
    }
}

/// The reader is the spawned thread: the model checker compares an access with the last one to the same word only, and
/// would not see that a writer which loads a word before it stores to it races with an earlier load.
fn reading(leaf: &Arc<Leaf>, read: impl FnOnce(&Leaf) + 'static) -> thread::JoinHandle<()> {
    let leaf = Arc::clone(leaf);
    thread::spawn(move || read(&leaf))
}

/// A key that is being inserted is there with its value, or not at all.
fn reader_of_inserted<N: Node>(checked: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf::new::<N>(&[(5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get::<N>(3, checked) {
                assert!(value.is_none() || value == Some(30));
            }
        });
        leaf.insert::<N>((3, 30));
        reader.join().unwrap();
    });
}

/// A key that stays is read with its value while another key is inserted before it.
fn reader_against_insert<N: Node>(checked: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf::new::<N>(&[(5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get::<N>(5, checked) {
                assert_eq!(value, Some(50));
            }
        });
        leaf.insert::<N>((3, 30));
        reader.join().unwrap();
        assert_eq!(leaf.get::<N>(3, true), Some(Some(30)));
        assert_eq!(leaf.get::<N>(5, true), Some(Some(50)));
    });
}

/// A key that stays is read with its value while its neighbour is removed.
fn reader_against_remove<N: Node>(checked: bool) {
    loom::model(move || {
        let leaf = Arc::new(Leaf::new::<N>(&[(3, 30), (5, 50)]));
        let reader = reading(&leaf, move |leaf| {
            if let Some(value) = leaf.get::<N>(5, checked) {
                assert_eq!(value, Some(50));
            }
        });
        leaf.remove::<N>(3);
        reader.join().unwrap();
        assert_eq!(leaf.get::<N>(3, true), Some(None));
        assert_eq!(leaf.get::<N>(5, true), Some(Some(50)));
    });
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

/// Two fields that a writer always leaves equal.
fn version_lock(checked: bool) {
    loom::model(move || {
        let shadow = Arc::new(Shadow::new());
        let writer = {
            let shadow = Arc::clone(&shadow);
            thread::spawn(move || {
                let was = shadow.lock.lock();
                shadow.set_span(Span::from_parts(7, 7));
                shadow.lock.unlock(was, Leave::Ready);
            })
        };
        let version = shadow.lock.begin();
        let span = shadow.span();
        if !checked || shadow.lock.is_still(version) {
            assert_eq!(span.low(), span.width());
            assert_eq!(version.is_ready(), span.low() == 7);
        }
        writer.join().unwrap();
        assert!(shadow.lock.begin().is_ready());
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
        let shadow = Arc::new(Shadow::new());
        let add = |shadow: &Shadow| {
            let was = shadow.lock.lock();
            let low = shadow.span().low();
            shadow.set_span(Span::from_parts(low + 1, 0));
            shadow.lock.unlock(was, Leave::Ready);
        };
        let writer = {
            let shadow = Arc::clone(&shadow);
            thread::spawn(move || add(&shadow))
        };
        add(&shadow);
        writer.join().unwrap();
        assert_eq!(shadow.span().low(), 2);
    });
}
