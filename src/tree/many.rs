//! What is done with one tree takes no more steps because there are many others.

use super::PTree;
use crate::map::Map;
use crate::medium::Layer;
use crate::medium::any::{Any, zeroed};
use crate::node::OneLine;
use crate::pool::Pool;
use crate::pool::segments::looks;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts the words that are read.
struct CountsReads {
    on: Any,
    words: AtomicU64,
}

impl CountsReads {
    /// Words of the pool that were read, and words of the copy of the segment table.
    fn steps(&self) -> u64 {
        self.words.load(Ordering::Relaxed) + looks()
    }
}

impl Layer for CountsReads {
    type Below = Any;

    fn below(&self) -> &Any {
        &self.on
    }

    fn load(&self, at: u64) -> u64 {
        self.words.fetch_add(1, Ordering::Relaxed);
        self.on.load(at)
    }

    fn load_words(&self, at: u64, words: &mut [u64]) {
        self.words.fetch_add(words.len() as u64, Ordering::Relaxed);
        self.on.load_words(at, words);
    }
}

/// The handles are only kept.
#[expect(dead_code, reason = "a handle keeps its tree open")]
enum Tree {
    Words(PTree<OneLine, Any>),
    Strings(Map<Vec<u8>, Vec<u8>, crate::ByteLeaf, Any>),
}

fn open(pool: &Pool<Any>, number: u64) -> Tree {
    let name = format!("tree {number}");
    if number.is_multiple_of(2) {
        let tree = pool.tree(&name).unwrap();
        tree.insert(number, number).unwrap();
        Tree::Words(tree)
    } else {
        let map: Map<Vec<u8>, Vec<u8>, _, Any> = pool.map(&name).unwrap();
        map.insert(b"key", b"value").unwrap();
        Tree::Strings(map)
    }
}

/// Trees that are counted one by one.
const SOME: u64 = 50;

/// The steps for each tree, of a pool with so many.
fn steps_in(trees: u64) -> Vec<(&'static str, u64)> {
    let medium = Arc::new(CountsReads { on: zeroed(trees * (24 << 10) + (1 << 20)), words: AtomicU64::new(0) });
    let options = Pool::options().segment_size(4096);
    let mut pool = Some(options.create_on(Arc::clone(&medium) as Any).unwrap());
    let mut all: Vec<Tree> = (0..trees - SOME).map(|number| open(pool.as_ref().unwrap(), number)).collect();
    let mut counted = Vec::new();
    let mut count = |what, of: u64, work: &mut dyn FnMut()| {
        let before = medium.steps();
        work();
        counted.push((what, (medium.steps() - before) / of));
    };
    let opened = |pool: &Option<Pool<Any>>, numbers: std::ops::Range<u64>| -> Vec<Tree> {
        numbers.map(|number| open(pool.as_ref().unwrap(), number)).collect()
    };
    count("create", SOME, &mut || all.extend(opened(&pool, trees - SOME..trees)));
    count("metrics", trees, &mut || assert_eq!(pool.as_ref().unwrap().metrics().trees.len() as u64, trees));
    count("list", trees, &mut || assert_eq!(pool.as_ref().unwrap().trees().unwrap().len() as u64, trees));
    count("check", trees, &mut || assert!(pool.as_ref().unwrap().check().unwrap().is_clean()));
    count("stat", 1, &mut || assert!(pool.as_ref().unwrap().stat().used > trees * 1024));
    count("compact", trees, &mut || drop(pool.as_ref().unwrap().compact().unwrap()));
    count("close", trees, &mut || all.clear());
    count("close the pool", trees, &mut || pool.take().unwrap().close().unwrap());
    count("open the pool", trees, &mut || pool = Some(options.open_on(Arc::clone(&medium) as Any).unwrap()));
    count("open the first one", 1, &mut || all.extend(opened(&pool, 0..1)));
    let first = counted.pop().unwrap().1;
    assert!(first < 100 * trees, "the names are read once: {first}");
    let mut count = |what, of: u64, work: &mut dyn FnMut()| {
        let before = medium.steps();
        work();
        counted.push((what, (medium.steps() - before) / of));
    };
    count("open", SOME, &mut || all.extend(opened(&pool, 1..SOME + 1)));
    all.clear();
    count("compact closed ones", trees, &mut || drop(pool.as_ref().unwrap().compact().unwrap()));
    count("rename", SOME, &mut || {
        for number in 0..SOME {
            let rename = |tx: &mut crate::Transaction<'_, Any>| {
                tx.rename_tree(&format!("tree {number}"), &format!("moved {number}"))
            };
            pool.as_ref().unwrap().transaction(rename).unwrap();
        }
    });
    count("drop", trees - SOME, &mut || {
        (SOME..trees).for_each(|number| pool.as_ref().unwrap().drop_tree(&format!("tree {number}")).unwrap());
    });
    assert_eq!(pool.as_ref().unwrap().trees().unwrap().len() as u64, SOME);
    counted
}

#[test]
fn what_is_done_with_a_tree_takes_no_more_steps_because_there_are_others() {
    let (few, many) = if cfg!(miri) { (60, 120) } else { (500, 4000) };
    for ((what, of_few), (_, of_many)) in steps_in(few).into_iter().zip(steps_in(many)) {
        println!("{what}: {of_few} steps for each of {few} trees, {of_many} for each of {many}");
        assert!(of_many <= of_few + of_few / 4 + 20, "{what}: {of_few} steps in a pool of {few}, {of_many} of {many}");
    }
}
