//! The options that say which pool, which tree, and how its keys are written.

use crate::keys::{Key, KeyKind};
use crate::opening::Opening;
use crate::out::Outcome;
use crate::parse::{self, Usage};
use crate::trees::{self, Tree};
use bristlecone::stat::TreeInfo;
use bristlecone::{Error, ErrorKind, Pool};
use clap::ValueEnum;
use clap::builder::PossibleValue;
use std::error::Error as StdError;
use std::path::PathBuf;

impl ValueEnum for KeyKind {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self {
            Self::Text => "The text itself: `String` in the library",
            Self::Hex => "Two digits for each byte: `Vec<u8>` in the library",
            Self::U64 => "A decimal number: `u64` in the library",
        };
        Some(PossibleValue::new(self.name()).help(help))
    }
}

/// The key that an argument means.
pub(crate) fn key(typed: &str, keys: KeyKind) -> Outcome<Key> {
    keys.parse(typed.as_bytes()).map_err(|bad| Usage(bad.to_string()).into())
}

/// The options that say which pool and which tree.
#[derive(Debug, clap::Args)]
pub(crate) struct TreeArgs {
    /// The pool file
    #[arg(value_parser = parse::pool())]
    pub(crate) pool: PathBuf,
    /// The tree in it
    #[arg(long, default_value = "main", value_name = "NAME", value_parser = parse::tree_name)]
    pub(crate) tree: String,
    /// How keys are written [default: as the tree has them; u64 for a new tree]
    #[arg(long = "key", value_name = "KIND")]
    pub(crate) keys: Option<KeyKind>,
    #[command(flatten)]
    pub(crate) opening: Opening,
}

impl TreeArgs {
    /// Opens the tree, lets `work` change it, and closes the pool orderly: then the change is on the disk. `parse`
    /// makes of the other arguments what is meant by them in a tree of these keys.
    pub(crate) fn changing<A, T>(
        &self,
        parse: impl Fn(KeyKind) -> Outcome<A>,
        work: impl FnOnce(&dyn Tree, A) -> Outcome<T>,
    ) -> Outcome<T> {
        let pool = self
            .opening
            .open(Pool::options().create(false), &self.pool)
            .or_else(|error| self.unopened(error, &parse))?;
        let (tree, keys) = self.existing(&pool, true)?;
        let result = parse(keys).and_then(|args| work(&*tree, args));
        drop(tree);
        let closed = pool.close();
        let result = result?;
        closed?;
        Ok(result)
    }

    /// Opens the tree without changing the file, which may be read-only, and lets `work` read it. `parse` is as in
    /// [`changing`](Self::changing).
    pub(crate) fn reading<A, T>(
        &self,
        parse: impl Fn(KeyKind) -> Outcome<A>,
        work: impl FnOnce(&dyn Tree, A) -> Outcome<T>,
    ) -> Outcome<T> {
        let options = Pool::options().read_only(true);
        let pool = self.opening.open(options, &self.pool).or_else(|error| self.unopened(error, &parse))?;
        let (tree, keys) = self.existing(&pool, false)?;
        parse(keys).and_then(|args| work(&*tree, args))
    }

    /// The error, if there is no pool. Then there is no tree either that could say how keys are written: arguments that
    /// are wrong for a new tree are told, too.
    fn unopened<A, T>(&self, error: Error, parse: &impl Fn(KeyKind) -> Outcome<A>) -> Outcome<T> {
        let is_missing = matches!(error.kind, ErrorKind::NotFound | ErrorKind::NotAFile);
        match parse(self.keys.unwrap_or(KeyKind::U64)) {
            Err(wrong) if is_missing => Err(Usage(format!("{error}; {wrong}")).into()),
            _ => Err(error.into()),
        }
    }

    /// Opens an existing tree, which may be to be changed. Returns the kind of its keys, too.
    fn existing(&self, pool: &Pool, to_change: bool) -> Outcome<(Box<dyn Tree>, KeyKind)> {
        let Some(info) = trees::find(pool, &self.tree)? else {
            let known = trees::known(pool)?;
            return Err(format!("{}: no tree '{}'; {known}", self.pool.display(), self.tree).into());
        };
        let kind = self.kind(&info)?;
        if to_change {
            self.writable(&info, kind)?;
        }
        Ok((trees::open(pool, &self.tree, kind)?, kind.keys))
    }

    /// Refuses to change a tree whose kinds have names of their own: what is written would have to be what its program
    /// writes.
    pub(crate) fn writable(&self, info: &TreeInfo, kind: trees::Kind) -> Outcome<()> {
        if !kind.is_own {
            return Ok(());
        }
        let what = format!("tree '{}' holds {} -> {}", info.name, info.keys, info.values);
        Err(format!("{}: {what}: only a program that knows these kinds changes it", self.pool.display()).into())
    }

    /// The error that a key is not there.
    pub(crate) fn missing(&self, key: &Key) -> Box<dyn StdError> {
        format!("{}: key {key} is not in tree '{}'", self.pool.display(), self.tree).into()
    }

    /// The kind of an existing tree. It is an error if `--key` is for another one.
    pub(crate) fn kind(&self, info: &TreeInfo) -> Outcome<trees::Kind> {
        let kind = trees::kind(info).map_err(|error| format!("{}: {error}", self.pool.display()))?;
        match self.keys {
            Some(asked) if asked != kind.keys => {
                let (has, asked) = (kind.keys.name(), asked.name());
                let what = format!("tree '{}' has {has} keys, and --key is {asked}", self.tree);
                Err(format!("{}: {what}", self.pool.display()).into())
            }
            _ => Ok(kind),
        }
    }
}
