//! Half gets, half updates of a store that is larger than the memory it may use, with a commit every 10 ms:
//! `larger load|run STORE DIRECTORY KEYS OPERATIONS`. `scripts/larger.sh` limits the memory of `run`, which prints a
//! row of JSON.
//!
//! Keys are texts of 23 bytes in random order, values have 100 bytes. All stores commit as often: LMDB and redb wait
//! for the disk then, which counts for the operation that follows, and this crate's pool commits beside the
//! operations. LMDB reads nothing ahead (`NO_READ_AHEAD`), which would push out what is used; redb has a cache of its
//! own, of half of the limit (`CACHE`, in MiB).

use bristlecone::{Journal, Map, Pool};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, EnvFlags, EnvOpenOptions};
use redb::{ReadableTable, TableDefinition};
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const TABLE: TableDefinition<&[u8], &[u8]> = TableDefinition::new("entries");
const COMMIT: Duration = Duration::from_millis(10);
/// Entries of a transaction of `load`.
const LOADED: u64 = 100_000;

fn key(number: u64) -> String {
    format!("user:{:018}", number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 4)
}

fn value(number: u64, round: u64) -> [u8; 100] {
    let mut value = [0; 100];
    value[..8].copy_from_slice(&number.to_le_bytes());
    value[8..16].copy_from_slice(&round.to_le_bytes());
    value
}

/// Whether a value is one of this key.
fn is_of(number: u64, value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value[..8] == number.to_le_bytes())
}

/// What is done to one key.
enum Operation {
    Get(u64),
    Update(u64, u64),
}

/// The operations of one run, and how long each of them took.
struct Run {
    keys: u64,
    left: u64,
    state: u64,
    /// When the last operation had ended.
    ended: Instant,
    nanoseconds: Vec<u32>,
}

impl Run {
    fn new(keys: u64, operations: u64) -> Self {
        Self {
            keys,
            left: operations,
            state: 12345,
            ended: Instant::now(),
            nanoseconds: Vec::with_capacity(operations as usize),
        }
    }

    fn random(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.state >> 20
    }

    /// Does operations until it is time to commit. Returns false if there are no more.
    fn go(&mut self, mut operation: impl FnMut(Operation) -> Outcome<bool>) -> Outcome<bool> {
        let start = Instant::now();
        while self.left > 0 {
            let (number, round) = (self.random() % self.keys, self.random());
            let is_get = round & 1 == 0;
            if !operation(if is_get { Operation::Get(number) } else { Operation::Update(number, round) })? {
                return Err(format!("{} is missing", key(number)).into());
            }
            let now = Instant::now();
            self.nanoseconds.push((now - self.ended).as_nanos() as u32);
            self.ended = now;
            self.left -= 1;
            if start.elapsed() >= COMMIT {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Prints what was found; the last commit is part of it.
    fn print(mut self, store: &str, took: Duration) {
        let operations = self.nanoseconds.len();
        self.nanoseconds.sort_unstable();
        let part = |of: f64| f64::from(self.nanoseconds[(operations as f64 * of) as usize]) / 1e3;
        let rounded = |number: f64| (number * 100.0).round() / 100.0;
        let row = serde_json::json!({
            "mix": "larger", "key": "user", "value_bytes": 100, "n": self.keys, "peer": store, "operations": operations, "threads": 1,
            "us_per_op": rounded(took.as_secs_f64() * 1e6 / operations as f64),
            "us": { "median": part(0.5), "p99": part(0.99), "p999": part(0.999) },
            "pages_read_per_op": rounded(read() as f64 / 4096.0 / operations as f64),
        });
        println!("{row}");
    }
}

/// Bytes that this process had the disk read.
fn read() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let bytes = io.lines().find_map(|line| line.strip_prefix("read_bytes: "));
    bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or_default()
}

fn here(path: &Path, keys: u64, run: Option<Run>) -> Outcome {
    let pool = Pool::options().capacity(keys * 260 + (1 << 28)).journal(Journal::Every(COMMIT)).open(path)?;
    let map: Map<String, Vec<u8>> = pool.map("entries")?;
    let Some(mut run) = run else {
        (0..keys).try_for_each(|i| map.insert(&key(i), &value(i, 0)).map(drop))?;
        drop(map);
        return Ok(pool.close()?);
    };
    let start = Instant::now();
    run.ended = start;
    while run.go(|operation| {
        Ok(match operation {
            Operation::Get(i) => map.get_with(&key(i), |found| is_of(i, Some(found)))? == Some(true),
            Operation::Update(i, round) => map.insert(&key(i), &value(i, round))?,
        })
    })? {}
    pool.sync()?;
    run.print("bristlecone", start.elapsed());
    Ok(())
}

fn lmdb(path: &Path, keys: u64, run: Option<Run>) -> Outcome {
    std::fs::create_dir_all(path)?;
    let mut options = EnvOpenOptions::new();
    options.map_size(64 << 30);
    // SAFETY: the flag changes how the file is read, and not what is written.
    unsafe { options.flags(EnvFlags::NO_READ_AHEAD) };
    // SAFETY: only this program knows of the directory, and opens it once.
    let env = unsafe { options.open(path) }?;
    let db: Database<'_, Bytes, Bytes> = env
        .create_databases_and_commit(env.write_txn()?, |opener, transaction| {
            opener.create_database(transaction, None).map(CommitOrAbort::<_, ()>::Commit)
        })?
        .unwrap_commit();
    let mut write = env.write_txn()?;
    let Some(mut run) = run else {
        for i in 0..keys {
            db.put(&mut write, key(i).as_bytes(), &value(i, 0))?;
            if i % LOADED == LOADED - 1 {
                write.commit()?;
                write = env.write_txn()?;
            }
        }
        return Ok(write.commit()?);
    };
    let start = Instant::now();
    run.ended = start;
    while run.go(|operation| {
        Ok(match operation {
            Operation::Get(i) => is_of(i, db.get(&write, key(i).as_bytes())?),
            Operation::Update(i, round) => {
                db.put(&mut write, key(i).as_bytes(), &value(i, round))?;
                true
            }
        })
    })? {
        write.commit()?;
        write = env.write_txn()?;
    }
    write.commit()?;
    run.print("lmdb", start.elapsed());
    Ok(())
}

fn redb(path: &Path, keys: u64, run: Option<Run>) -> Outcome {
    let cache = std::env::var("CACHE").map_or(Ok(64), |cache| cache.parse::<usize>())?;
    let db = redb::Database::builder().set_cache_size(cache << 20).create(path)?;
    let Some(mut run) = run else {
        for from in (0..keys).step_by(LOADED as usize) {
            let write = db.begin_write()?;
            let mut table = write.open_table(TABLE)?;
            for i in from..keys.min(from + LOADED) {
                table.insert(key(i).as_bytes(), &value(i, 0)[..])?;
            }
            drop(table);
            write.commit()?;
        }
        return Ok(());
    };
    let (start, mut goes_on) = (Instant::now(), true);
    run.ended = start;
    while goes_on {
        let write = db.begin_write()?;
        let mut table = write.open_table(TABLE)?;
        goes_on = run.go(|operation| {
            Ok(match operation {
                Operation::Get(i) => is_of(i, table.get(key(i).as_bytes())?.as_ref().map(|found| found.value())),
                Operation::Update(i, round) => table.insert(key(i).as_bytes(), &value(i, round)[..])?.is_some(),
            })
        })?;
        drop(table);
        write.commit()?;
    }
    run.print("redb", start.elapsed());
    Ok(())
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [verb, store, directory, keys, operations] = &args[..] else {
        return Err("larger load|run bristlecone|lmdb|redb DIRECTORY KEYS OPERATIONS".into());
    };
    let (path, keys) = (Path::new(directory).join(store), keys.parse()?);
    let run = (verb == "run").then(|| Ok::<_, Box<dyn Error>>(Run::new(keys, operations.parse()?))).transpose()?;
    match &store[..] {
        "bristlecone" => here(&path, keys, run),
        "lmdb" => lmdb(&path, keys, run),
        "redb" => redb(&path, keys, run),
        other => Err(format!("{other} is none of bristlecone, lmdb, redb").into()),
    }
}
