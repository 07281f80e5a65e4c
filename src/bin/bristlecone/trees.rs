//! The trees of a pool, whatever their types are.

use crate::out::Outcome;
use crate::parse::{self, Index, Layout};
use crate::shape::{Shape, with_type};
use bristlecone::medium::{Mapped, Mapping, Medium};
use bristlecone::{Error, ErrorKind, IndexKind, Map, PTree, Pool, Result, TreeInfo, WordNode};
use std::ops::RangeInclusive;
use std::path::Path;

/// An entry as the command line shows it.
pub(crate) type Entry = (u64, Vec<u8>);

/// What the subcommands do with a tree, whatever its types are. Values are what a user types and sees: the bytes
/// themselves, or a number in decimal.
pub(crate) trait Tree {
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>>;
    /// True if the key was there.
    fn put(&self, key: u64, value: &[u8]) -> Result<bool>;
    /// True if the key was there.
    fn remove(&self, key: u64) -> Result<bool>;
    /// The entries from either end, one by one.
    fn entries(&self, keys: RangeInclusive<u64>, reverse: bool) -> Box<dyn Iterator<Item = Result<Entry>> + '_>;
    fn len(&self) -> u64;
    /// Whether `put` accepts the value.
    fn accepts(&self, value: &[u8]) -> bool;
}

fn decimal(value: &[u8]) -> Option<u64> {
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| digits)?.parse().ok()
}

/// Trees from numbers to numbers.
impl<N: WordNode, M: Medium> Tree for PTree<N, M> {
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>> {
        let value = self.get(key);
        match self.fault() {
            Some(error) => Err(error),
            None => Ok(value.map(|value| value.to_string().into_bytes())),
        }
    }

    fn put(&self, key: u64, value: &[u8]) -> Result<bool> {
        let Some(value) = decimal(value) else {
            let (found, expected) = ("numbers as values".to_owned(), "bytes".to_owned());
            let mismatch = ErrorKind::KindMismatch { tree: self.name().to_owned(), found, expected };
            return Err(Error::new(self.pool().stat().name, mismatch));
        };
        Ok(self.insert(key, value)?.is_some())
    }

    fn remove(&self, key: u64) -> Result<bool> {
        Ok(self.remove(key)?.is_some())
    }

    fn entries(&self, keys: RangeInclusive<u64>, reverse: bool) -> Box<dyn Iterator<Item = Result<Entry>> + '_> {
        let entry = |(key, value): (u64, u64)| Ok((key, value.to_string().into_bytes()));
        // The iterator ends early where the tree is damaged.
        let fault = std::iter::from_fn(|| self.fault().map(Err)).take(1);
        if reverse {
            Box::new(self.range(keys).rev().map(entry).chain(fault))
        } else {
            Box::new(self.range(keys).map(entry).chain(fault))
        }
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn accepts(&self, value: &[u8]) -> bool {
        decimal(value).is_some()
    }
}

/// Trees from numbers to bytes.
impl<N: WordNode, M: Medium> Tree for Map<u64, Vec<u8>, N, M> {
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>> {
        let value = self.get(key)?;
        match self.fault() {
            Some(error) => Err(error),
            None => Ok(value),
        }
    }

    fn put(&self, key: u64, value: &[u8]) -> Result<bool> {
        self.insert(key, value)
    }

    fn remove(&self, key: u64) -> Result<bool> {
        self.remove(key)
    }

    fn entries(&self, keys: RangeInclusive<u64>, reverse: bool) -> Box<dyn Iterator<Item = Result<Entry>> + '_> {
        let fault = std::iter::from_fn(|| self.fault().map(Err)).take(1);
        if reverse { Box::new(self.range(keys).rev().chain(fault)) } else { Box::new(self.range(keys).chain(fault)) }
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn accepts(&self, _value: &[u8]) -> bool {
        true
    }
}

/// The values of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Values {
    Numbers,
    Bytes,
}

/// The shape and the values of a tree, which are needed to open it.
pub(crate) fn kind(tree: &TreeInfo) -> Outcome<(Shape, Values)> {
    let unknown = |what: &str| format!("tree '{}' has {what}, which the command line does not read", tree.name);
    if tree.keys != "u64" {
        return Err(unknown(&format!("keys of kind {}", tree.keys)).into());
    }
    let values = match &*tree.values {
        "u64" => Values::Numbers,
        "bytes" => Values::Bytes,
        other => return Err(unknown(&format!("values of kind {other}")).into()),
    };
    let name = tree.layout.split('/').next().unwrap_or_default();
    let layout = Layout::from_name(name).ok_or_else(|| unknown(&format!("layout {}", tree.layout)))?;
    let index = Index::from_name(tree.index).ok_or_else(|| unknown(&format!("a {} index", tree.index)))?;
    Ok((Shape { layout, slots: tree.slots, index }, values))
}

/// Describes a tree's nodes in messages.
pub(crate) fn nodes(shape: Shape) -> String {
    format!("nodes of {} slots with a {} index", shape.slots, shape.index.name())
}

/// Opens a tree, or creates it.
pub(crate) fn open<M: Medium>(pool: &Pool<M>, name: &str, (shape, values): (Shape, Values)) -> Outcome<Box<dyn Tree>> {
    fn of<N: WordNode, M: Medium>(
        pool: &Pool<M>,
        name: &str,
        index: IndexKind,
        values: Values,
    ) -> Result<Box<dyn Tree>> {
        Ok(match values {
            Values::Numbers => Box::new(pool.tree_with::<N>(name, index)?),
            Values::Bytes => Box::new(pool.map_with::<u64, Vec<u8>, N>(name, index)?),
        })
    }
    let opened = with_type!(shape, [32 64 128 256], N => of::<N, M>(pool, name, shape.index.kind(), values));
    let unknown = || format!("tree '{name}' has {}, which the command line does not read", nodes(shape));
    Ok(opened.ok_or_else(unknown)??)
}

/// The tree with this name, if the pool has one.
pub(crate) fn find<M: Medium>(pool: &Pool<M>, name: &str) -> Result<Option<TreeInfo>> {
    Ok(pool.trees()?.into_iter().find(|tree| tree.name == name))
}

/// Opens an existing tree.
fn existing(pool: &Pool, path: &Path, name: &str) -> Outcome<Box<dyn Tree>> {
    let Some(info) = find(pool, name)? else {
        return Err(format!("{}: no tree '{name}'; {}", path.display(), known(pool)?).into());
    };
    open(pool, name, kind(&info)?)
}

/// The names of a pool's trees, as a phrase.
fn known<M: Medium>(pool: &Pool<M>) -> Result<String> {
    let names: Vec<String> = pool.trees()?.into_iter().map(|tree| format!("'{}'", tree.name)).collect();
    Ok(if names.is_empty() { "the pool has no trees".to_owned() } else { format!("there is {}", names.join(", ")) })
}

/// The options that say which pool and which tree.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArgs {
    /// The pool file
    pub(crate) pool: std::path::PathBuf,
    /// The tree in it
    #[arg(long, default_value = "main", value_name = "NAME", value_parser = parse::tree_name)]
    pub(crate) tree: String,
}

impl TreeArgs {
    /// Opens the tree, lets `work` change it, and closes the pool orderly.
    pub(crate) fn changing<T>(&self, work: impl FnOnce(&dyn Tree) -> Outcome<T>) -> Outcome<T> {
        let pool = Pool::open(&self.pool)?;
        let tree = existing(&pool, &self.pool, &self.tree)?;
        let result = work(&*tree)?;
        drop(tree);
        pool.close()?;
        Ok(result)
    }

    /// Opens the tree without changing the file, which may be read-only, and lets `work` read it.
    pub(crate) fn reading<T>(&self, work: impl FnOnce(&dyn Tree) -> Outcome<T>) -> Outcome<T> {
        let pool = Pool::options().open_on(Mapped::open(&self.pool, Mapping::Copy)?)?;
        let tree = existing(&pool, &self.pool, &self.tree)?;
        let result = work(&*tree);
        // An orderly close would write to memory that is then discarded. The process ends anyway.
        std::mem::forget((tree, pool));
        result
    }
}
