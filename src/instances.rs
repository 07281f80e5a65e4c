//! The code of the trees that most tests use: compiled once, with this crate, where the compiler does without inlining
//! across crates.
//!
//! At an `opt-level` of 0 or 1 the compiler shares the instances of generics that the crates below have. With more
//! optimisation it makes them anew for each crate that uses them, so nothing is gained there.

use crate::{Key, Map, PTree, Pool, Result};

/// Names the instances. Nobody calls it.
#[used]
static INSTANCES: fn(Pool) -> Result<()> = all;

fn all(pool: Pool) -> Result<()> {
    let (tree, map) = (pool.tree("")?, pool.map("")?);
    words(&tree)?;
    bytes(&pool.map::<u64, Vec<u8>>("")?, 0)?;
    bytes(&map, "")?;
    together(&pool, &tree, &map)?;
    pool.check()?;
    pool.trees()?;
    pool.shrink()?;
    pool.sync()?;
    pool.close()
}

fn words(tree: &PTree) -> Result<()> {
    tree.get(0);
    tree.contains_key(0);
    tree.multi_get(&[]);
    tree.insert(0, 0)?;
    tree.insert_batch(&[])?;
    tree.update(0, 0)?;
    tree.compare_exchange(0, None, None)?;
    tree.remove(0)?;
    tree.range(..).next_back();
    tree.iter().next();
    tree.first_key_value();
    tree.last_key_value();
    tree.pop_first()?;
    tree.pop_last()?;
    tree.remove_range(..)?;
    tree.clear()?;
    tree.compact()?;
    tree.check();
    tree.len();
    Ok(())
}

/// A map to byte strings. Keys of both forms have the same verbs.
fn bytes<K: Key<Borrowed<'static> = B>, B: Copy>(map: &Map<K, Vec<u8>>, key: B) -> Result<()> {
    map.get(key)?;
    map.get_with(key, |_| ())?;
    map.multi_get(&[key])?;
    map.contains_key(key);
    map.insert(key, b"")?;
    map.insert_new(key, b"")?;
    map.update(key, b"")?;
    map.replace(key, b"")?;
    map.take(key)?;
    map.remove(key)?;
    map.insert_batch(&[(key, &b""[..])])?;
    map.range(..).next_back();
    map.iter().next();
    map.keys(..).next();
    map.first_key_value()?;
    map.pop_first()?;
    map.pop_last()?;
    map.remove_range(..)?;
    map.retain(|_, _| true)?;
    map.clear()?;
    map.compact()?;
    map.check();
    map.len();
    Ok(())
}

fn together(pool: &Pool, tree: &PTree, map: &Map<String, Vec<u8>>) -> Result<()> {
    pool.transaction(|tx| {
        tx.get(tree, 0)?;
        tx.insert(tree, 0, 0)?;
        tx.remove(tree, 0)?;
        tx.get(map, "")?;
        tx.insert(map, "", b"")?;
        tx.remove(map, "")
    })?;
    let snapshot = pool.snapshot();
    snapshot.get(tree, 0)?;
    snapshot.iter(tree)?.next();
    snapshot.get(map, "")?;
    snapshot.iter(map)?.next();
    pool.backup("")?;
    Ok(())
}
