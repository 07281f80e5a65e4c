//! `import`, run as a user runs it, from stores that these tests fill.

#![cfg(feature = "import")]

#[allow(dead_code, reason = "the command line's tests use all of it")]
#[path = "../../cli/tests/cli/ran.rs"]
mod ran;

use bristlecone::{Map, Pool};
use heed::types::Bytes;
use heed::{CommitOrAbort, DatabaseFlags, EnvOpenOptions};
use ran::{Ran, has_keys, is_empty};
use redb::{Database, MultimapTableDefinition, TableDefinition};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

fn import(store: &str, from: &Path, pool: &Path, more: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bristlecone-bench"));
    command.args(["import", store]).args([from, pool]).args(more);
    Ran::new(command.stdin(Stdio::null()).output().unwrap())
}

/// The name of a database, how it is kept, and its entries.
type Content<'c> = (Option<&'c str>, DatabaseFlags, &'c [(&'c [u8], &'c [u8])]);

fn lmdb(directory: &Path, databases: &[Content<'_>]) {
    fs::create_dir_all(directory).unwrap();
    let mut options = EnvOpenOptions::new();
    options.map_size(16 << 20).max_dbs(8);
    // SAFETY: nothing else uses this directory.
    let env = unsafe { options.open(directory) }.unwrap();
    let written = env.create_databases_and_commit(env.write_txn().unwrap(), |opener, transaction| {
        for &(name, flags, entries) in databases {
            let mut options = opener.database_options().types::<Bytes, Bytes>();
            options.flags(flags);
            if let Some(name) = name {
                options.name(name);
            }
            let database = options.create(transaction)?;
            for (key, value) in entries {
                database.put(transaction, key, value)?;
            }
        }
        Ok::<_, heed::Error>(CommitOrAbort::<(), ()>::Commit(()))
    });
    written.unwrap().unwrap_commit();
    env.prepare_for_closing().wait();
}

const PLAIN: DatabaseFlags = DatabaseFlags::empty();

fn entries(pool: &Pool, name: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    let map: Map<Vec<u8>, Vec<u8>> = pool.map(name).unwrap();
    map.iter().map(Result::unwrap).collect()
}

fn owned(entries: &[(&[u8], &[u8])]) -> Vec<(Vec<u8>, Vec<u8>)> {
    entries.iter().map(|&(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn every_database_of_lmdb_becomes_a_map() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("lmdb"), dir.path().join("a.pool"));
    let many: Vec<(Vec<u8>, Vec<u8>)> =
        (0..3000u32).map(|n| (n.to_be_bytes().to_vec(), vec![n as u8; n as usize % 70])).collect();
    let many: Vec<(&[u8], &[u8])> = many.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    // One of the entries beside the records of databases has as many bytes as those.
    let own: &[(&[u8], &[u8])] = &[(b"own", b"1"), (b"such", &[0; 48]), (b"\xff\0", b"")];
    lmdb(&from, &[(Some("many"), PLAIN, &many), (Some("empty"), PLAIN, &[]), (None, PLAIN, own)]);
    let ran = import("lmdb", &from, &to, &["--json", "--capacity", "64M"]).ok();
    let tables: Vec<Value> = ran.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    tables.iter().for_each(|table| has_keys(table, &["table", "entries", "seconds"]));
    let told: Vec<_> = tables.iter().map(|table| (&table["table"], &table["entries"])).collect();
    assert_eq!(told, [(&"empty".into(), &0.into()), (&"many".into(), &3000.into()), (&"main".into(), &3.into())]);

    let pool = Pool::options().open(&to).unwrap();
    assert_eq!(pool.trees().unwrap().len(), 3);
    assert_eq!(entries(&pool, "many"), owned(&many));
    assert_eq!(entries(&pool, "main"), owned(own));
    assert_eq!(entries(&pool, "empty"), []);
    assert!(pool.check().unwrap().is_clean());
    drop(pool);
    // The file itself will do, and the store was not changed.
    let again = dir.path().join("again.pool");
    let text = import("lmdb", &from.join("data.mdb"), &again, &["--capacity", "64M"]).ok();
    assert_eq!(text, "empty: 0 entries\nmany: 3,000 entries\nmain: 3 entries\n");
    let error = import("lmdb", &from, &to, &[]).fails(1);
    assert!(error.contains("a.pool: tree 'empty' is already there"), "{error}");
}

/// Numbers in the order of this machine, and keys that are ordered from their last byte on: the order of a map is that
/// of bytes.
#[test]
fn other_orders_of_lmdb_do_not_matter() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("lmdb"), dir.path().join("a.pool"));
    let numbers: Vec<[u8; 4]> = (0..1000u32).map(u32::to_ne_bytes).collect();
    let numbers: Vec<(&[u8], &[u8])> = numbers.iter().map(|key| (&key[..], &b"n"[..])).collect();
    let reversed: &[(&[u8], &[u8])] = &[(b"az", b"1"), (b"b", b"2"), (b"ca", b"3")];
    #[expect(deprecated, reason = "what should be used instead is a type")]
    let [integer, reverse] = [DatabaseFlags::INTEGER_KEY, DatabaseFlags::REVERSE_KEY];
    lmdb(&from, &[(Some("numbers"), integer, &numbers), (Some("reversed"), reverse, reversed)]);
    import("lmdb", &from, &to, &["--capacity", "64M"]).ok();
    let pool = Pool::options().open(&to).unwrap();
    let mut expected = owned(&numbers);
    expected.sort();
    assert_eq!(entries(&pool, "numbers"), expected);
    assert_eq!(entries(&pool, "reversed"), owned(reversed));
}

#[test]
fn what_cannot_be_a_map_is_refused_by_name_and_nothing_is_copied() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a.pool");
    let refused = |from: &Path, what: &str| {
        let error = import("lmdb", from, &to, &["--capacity", "64M"]).fails(1);
        assert!(error.contains(what) && error.contains(&*from.to_string_lossy()), "{error}");
        if to.exists() {
            let pool = Pool::options().open(&to).unwrap();
            assert!(pool.trees().unwrap().is_empty());
        }
    };
    let entry: &[(&[u8], &[u8])] = &[(b"a", b"1"), (b"b", b"2")];
    let several: &[(&[u8], &[u8])] = &[(b"a", b"1"), (b"a", b"2")];
    let [one, two, three] = ["one", "two", "three"].map(|name| dir.path().join(name));
    lmdb(&one, &[(Some("first"), PLAIN, entry), (Some("tags"), DatabaseFlags::DUP_SORT, several)]);
    refused(&one, "table 'tags': there are several values for a key");
    lmdb(&two, &[(Some("main"), PLAIN, entry), (None, PLAIN, entry)]);
    refused(&two, "table 'main': the unnamed database");
    let long = "x".repeat(121);
    lmdb(&three, &[(Some(&long), PLAIN, entry)]);
    refused(&three, "a map has a name of 1 to 120 bytes");
    refused(&dir.path().join("missing"), "No such file or directory");
    let text = dir.path().join("text");
    fs::write(&text, "no database ".repeat(1000)).unwrap();
    refused(&text, "File is not an LMDB file");
    fs::write(&text, "").unwrap();
    refused(&text, "an empty file is no LMDB database");
}

const NUMBERS: TableDefinition<'_, u64, &str> = TableDefinition::new("numbers");
const TEXTS: TableDefinition<'_, &str, u64> = TableDefinition::new("texts");
const BYTES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bytes");
const PAIRS: TableDefinition<'_, (u64, u64), u64> = TableDefinition::new("pairs");
const SEVERAL: MultimapTableDefinition<'_, u64, u64> = MultimapTableDefinition::new("several");

fn redb(path: &Path, fill: impl FnOnce(&redb::WriteTransaction)) {
    let database = Database::create(path).unwrap();
    let transaction = database.begin_write().unwrap();
    fill(&transaction);
    transaction.commit().unwrap();
}

fn some_tables(transaction: &redb::WriteTransaction) {
    let mut numbers = transaction.open_table(NUMBERS).unwrap();
    (0..2000).for_each(|n| drop(numbers.insert(n * n, &*format!("{n}²")).unwrap()));
    transaction.open_table(TEXTS).unwrap().insert("größe", u64::MAX).unwrap();
    transaction.open_table(BYTES).unwrap().insert(&b"\0\xff"[..], &[][..]).unwrap();
}

#[test]
fn tables_of_redb_become_maps_of_their_types() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.redb"), dir.path().join("a.pool"));
    redb(&from, some_tables);
    let text = import("redb", &from, &to, &["--capacity", "64M"]).ok();
    assert_eq!(text, "bytes: 1 entry\nnumbers: 2,000 entries\ntexts: 1 entry\n");
    let pool = Pool::options().open(&to).unwrap();
    let numbers: Map<u64, String> = pool.map("numbers").unwrap();
    let squares = (0..2000).map(|n| (n * n, format!("{n}²")));
    assert!(numbers.iter().map(Result::unwrap).eq(squares));
    let texts: Map<String, u64> = pool.map("texts").unwrap();
    assert_eq!(texts.get("größe").unwrap(), Some(u64::MAX));
    assert_eq!(entries(&pool, "bytes"), [(b"\0\xff".to_vec(), Vec::new())]);
    assert!(pool.check().unwrap().is_clean());
}

#[test]
fn tables_of_redb_that_are_of_other_types_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("a.pool");
    let refused = |from: &Path, what: &str| {
        let error = import("redb", from, &to, &[]).fails(1);
        assert!(error.contains(what) && error.contains(&*from.to_string_lossy()), "{error}");
        assert!(!to.exists(), "nothing can be copied, so there is no pool");
    };
    let [one, two] = ["one", "two"].map(|name| dir.path().join(name));
    redb(&one, |transaction| {
        some_tables(transaction);
        drop(transaction.open_table(PAIRS).unwrap());
    });
    refused(&one, "table 'pairs': its keys are (u64,u64) and its values u64");
    redb(&two, |transaction| drop(transaction.open_multimap_table(SEVERAL).unwrap()));
    refused(&two, "table 'several': it is a multimap table");
    refused(&dir.path().join("missing"), "No such file or directory");
    let text = dir.path().join("text");
    fs::write(&text, "no database ".repeat(1000)).unwrap();
    refused(&text, "it is no redb database");
    fs::write(&text, "").unwrap();
    refused(&text, "it is no redb database");
}

#[test]
fn nothing_is_left_of_what_has_no_room() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("a.redb"), dir.path().join("a.pool"));
    redb(&from, |transaction| {
        some_tables(transaction);
        let mut bytes = transaction.open_table(BYTES).unwrap();
        (0..100u8).for_each(|n| drop(bytes.insert(&[n][..], &vec![n; 200_000][..]).unwrap()));
    });
    let error = import("redb", &from, &to, &["--capacity", "12M"]).fails(1);
    assert!(error.ends_with("import again with a larger --capacity"), "{error}");
    assert!(Pool::options().open(&to).unwrap().trees().unwrap().is_empty());
    import("redb", &from, &to, &["--capacity", "64M"]).ok();
    // There is no pool where there is nothing to copy from.
    let empty = tempfile::tempdir().unwrap();
    import("lmdb", &empty.path().join("missing"), &empty.path().join("a.pool"), &[]).fails(1);
    is_empty(empty.path());
}
