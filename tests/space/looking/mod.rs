//! Looking without writing: pools that are open for reading only, and figures about pools that are open.

mod events;
mod killed;
mod metrics;
mod opening;
mod places;
mod refusals;
mod still;

use super::SPAWNING;
use bristlecone::medium::Medium;
use bristlecone::papers::{CddsTree, CircTree, CrabTree, LcbTree, NvTree};
use bristlecone::{Error, IndexKind, Map, OneLine, Options, PTree, Pool, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLockReadGuard};
use still::still;

/// A directory of its own.
struct Scratch {
    dir: tempfile::TempDir,
    _calm: Option<RwLockReadGuard<'static, ()>>,
}

impl Scratch {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        Self { dir, _calm: Some(SPAWNING.read().unwrap_or_else(PoisonError::into_inner)) }
    }

    /// For a test that starts processes.
    fn for_processes() -> Self {
        Self { dir: tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), _calm: None }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// The environment variables with the pool and with what to do with it.
const CHILD: [&str; 2] = ["BRISTLECONE_TEST_LOOKING", "BRISTLECONE_TEST_LOOKING_STEP"];

/// What this process is to do, if it was started by a test.
fn child() -> Option<(PathBuf, String)> {
    Some((std::env::var_os(CHILD[0])?.into(), std::env::var(CHILD[1]).ok()?))
}

/// A command that runs a test of this folder in another process. Held until it has started, nobody else opens a pool.
fn apart(test: &str, pool: &Path, step: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("looking::{test}"), "--nocapture", "--test-threads=1"])
        .env(CHILD[0], pool)
        .env(CHILD[1], step);
    command
}

fn options() -> Options {
    crate::plain().segment_size(64 << 10).sync(false)
}

fn reading() -> Options {
    options().read_only(true)
}

fn error<T>(result: Result<T>) -> Error {
    match result {
        Ok(_) => panic!("must be refused"),
        Err(error) => error,
    }
}

type Entries = BTreeMap<u64, u64>;
type Content = Vec<(usize, u32)>;

/// Trees of many kinds, and all that there is to do with them here.
struct Trees<M: Medium = bristlecone::medium::Mapped> {
    words: Vec<Box<dyn Words>>,
    texts: Map<String, Vec<u8>, bristlecone::ByteLeaf, M>,
    values: Map<u64, Vec<u8>, OneLine, M>,
}

/// A tree of words of any layout.
trait Words {
    fn insert(&self, key: u64, value: u64) -> Result<()>;
    fn remove(&self, key: u64) -> Result<()>;
    /// All entries, read in several ways that must agree.
    fn all(&self) -> Entries;
}

impl<N: bristlecone::WordNode, M: Medium> Words for PTree<N, M> {
    fn insert(&self, key: u64, value: u64) -> Result<()> {
        PTree::insert(self, key, value).map(drop)
    }

    fn remove(&self, key: u64) -> Result<()> {
        PTree::remove(self, key).map(drop)
    }

    fn all(&self) -> Entries {
        let all: Entries = self.iter().collect();
        assert!(self.iter().rev().map(|(key, _)| key).eq(all.keys().rev().copied()));
        assert_eq!(self.len(), all.len() as u64);
        for (&key, &value) in &all {
            assert_eq!(self.get(key), Some(value));
        }
        let report = self.check();
        assert!(report.is_clean(), "{}: {:?}", self.name(), report.violations);
        assert!(self.fault().is_none());
        all
    }
}

impl Trees {
    fn open(pool: &Pool) -> Result<Self> {
        let mut words: Vec<Box<dyn Words>> = Vec::new();
        for (name, index) in
            [("volatile", IndexKind::Volatile), ("persistent", IndexKind::Persistent), ("flat", IndexKind::Flat)]
        {
            words.push(Box::new(pool.tree_with::<OneLine>(name, index)?));
        }
        words.push(Box::new(pool.tree_of::<CircTree>("circ")?));
        words.push(Box::new(pool.tree_of::<NvTree>("nv")?));
        words.push(Box::new(pool.tree_of::<CrabTree>("crab")?));
        words.push(Box::new(pool.tree_of::<LcbTree>("lcb")?));
        words.push(Box::new(pool.tree_of::<CddsTree>("cdds")?));
        Ok(Self { words, texts: pool.map("texts")?, values: pool.map("values")? })
    }

    /// Makes the change with this number in all trees.
    fn change(&self, number: u64) -> Result<()> {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50;
        for tree in &self.words {
            if number % 3 == 2 { tree.remove(key)? } else { tree.insert(key, number)? }
        }
        let (text, value) = (text(key), vec![number as u8; key as usize % 200]);
        if number % 3 == 2 {
            self.texts.remove(&text)?;
            self.values.remove(key)?;
        } else {
            self.texts.insert(&text, &value)?;
            self.values.insert(key, &value)?;
        }
        Ok(())
    }

    /// All that they hold: of each tree, how much, and a checksum.
    fn content(&self) -> Content {
        let of_words = |tree: &dyn Words| {
            let shown = |(key, value): (u64, u64)| (key.to_string(), value.to_le_bytes().to_vec());
            tree.all().into_iter().map(shown).collect()
        };
        let mut all: Vec<BTreeMap<String, Vec<u8>>> = self.words.iter().map(|tree| of_words(&**tree)).collect();
        let texts: BTreeMap<_, _> = self.texts.iter().collect::<Result<_>>().unwrap();
        for (key, value) in &texts {
            assert_eq!(self.texts.get(key).unwrap().as_ref(), Some(value));
        }
        assert_eq!(self.texts.len(), texts.len() as u64);
        let values: BTreeMap<_, _> = self.values.iter().collect::<Result<_>>().unwrap();
        for (key, value) in &values {
            assert_eq!(self.values.get(*key).unwrap().as_ref(), Some(value));
        }
        for report in [self.texts.check(), self.values.check()] {
            assert!(report.is_clean(), "{:?}", report.violations);
        }
        all.push(texts);
        all.push(values.into_iter().map(|(key, value)| (key.to_string(), value)).collect());
        let digest = |entries: &BTreeMap<String, Vec<u8>>| {
            let mut crc = crc32fast::Hasher::new();
            for (key, value) in entries {
                crc.update(key.as_bytes());
                crc.update(value);
            }
            (entries.len(), crc.finalize())
        };
        all.iter().map(digest).collect()
    }
}

fn text(key: u64) -> String {
    format!("a text that is longer than a word, {key}")
}

/// A closed pool in which some changes were made. Returns what it holds.
fn filled(path: &Path, changes: u64) -> Content {
    let pool = options().open(path).unwrap();
    let trees = Trees::open(&pool).unwrap();
    (0..changes).for_each(|number| trees.change(number).unwrap());
    let content = trees.content();
    drop(trees);
    pool.close().unwrap();
    content
}
