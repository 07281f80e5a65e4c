//! What can go wrong, as decisions a caller can take.

use std::fmt;
use std::io;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation on a pool or a tree was refused.
///
/// Every variant names the pool it speaks of (a path, or the name of an in-memory medium) where a pool is involved,
/// and the offset or the limit that decides. Whatever is returned, the pool is as it was before the call: nothing
/// acknowledged is lost. Losing a race to another thread is not an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Io {
        /// The file.
        pool: String,
        /// What was attempted, as a verb ("open", "lock", "map", ...).
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The file is not a pool; it was not touched.
    NotAPool {
        /// The file.
        pool: String,
        /// What was found instead.
        found: &'static str,
    },
    /// The file is shorter than its superblock says.
    Truncated {
        /// The file.
        pool: String,
        /// Bytes the superblock promises.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The pool was written by a later format version.
    Version {
        /// The file.
        pool: String,
        /// Its version.
        found: u64,
        /// The newest one this crate reads.
        supported: u64,
    },
    /// The pool uses features that this crate does not know and may not ignore.
    Features {
        /// The file.
        pool: String,
        /// The unknown incompatible feature bits.
        unknown: u64,
    },
    /// Neither copy of the superblock has a valid checksum.
    Superblock {
        /// The file.
        pool: String,
        /// Offset of the first bad copy.
        at: u64,
    },
    /// The tree exists with another node layout, another node size or another kind of index.
    LayoutMismatch {
        /// The tree.
        tree: String,
        /// What the pool holds.
        found: String,
        /// What the caller's type asks for.
        expected: String,
    },
    /// The tree exists with another key or value encoding.
    KindMismatch {
        /// The tree.
        tree: String,
        /// What the pool holds.
        found: String,
        /// What the caller's type asks for.
        expected: String,
    },
    /// Another process, or another handle of this one, has the pool open.
    InUse {
        /// The file.
        pool: String,
    },
    /// A change was asked of a pool that is open, or can only be opened, for reading.
    ReadOnly {
        /// The file.
        pool: String,
    },
    /// The machine went down (a crash of the operating system, power loss, but also an orderly restart) after the pool was
    /// written to and before all of it was synced. Changes that were acknowledged may be lost, and what is there may not fit
    /// together. [`Options::open_after_power_loss`](crate::Options::open_after_power_loss) checks all of it before it opens;
    /// for reading only, the pool opens as always.
    PowerLoss {
        /// The file.
        pool: String,
    },
    /// A tree has a layout or a node size that this build cannot check without its types, so nothing is known of it.
    Unchecked {
        /// The file.
        pool: String,
        /// The tree.
        tree: String,
        /// Its layout, with the number of slots.
        layout: String,
    },
    /// A change was asked of a pool that another process opened, from which this one came by `fork`; or what was to be read
    /// would have needed one. The pool is the other process's; this one may exec, or open pools of its own.
    Forked {
        /// The file.
        pool: String,
    },
    /// The path names something that cannot hold a pool (a directory, a device, ...).
    NotAFile {
        /// The path.
        pool: String,
    },
    /// There is no file at the path and the options do not allow to create one, or the pool has no such tree.
    NotFound {
        /// The path, or the pool and the tree.
        what: String,
    },
    /// The disk, or the pool's capacity, is exhausted. Delete, or reopen with a larger capacity.
    OutOfSpace {
        /// The file.
        pool: String,
        /// Bytes that were wanted.
        wanted: u64,
        /// The pool's capacity in bytes.
        capacity: u64,
        /// The system's answer, when it was the disk that was full.
        source: Option<io::Error>,
    },
    /// The capacity asked for is outside what a pool of this geometry can have.
    Capacity {
        /// The file.
        pool: String,
        /// What was asked, in bytes.
        asked: u64,
        /// The least capacity, in bytes.
        least: u64,
        /// The greatest capacity, in bytes.
        greatest: u64,
    },
    /// An option has a value that no pool can have.
    Option {
        /// Which option, and what it must be.
        what: &'static str,
        /// What was given.
        given: u64,
    },
    /// The value is too long for a record.
    RecordTooLong {
        /// Its length in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// A tree's name is empty or too long.
    TreeName {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The directory of named trees is full.
    TooManyTrees {
        /// The file.
        pool: String,
        /// The limit.
        limit: usize,
    },
    /// `bulk_load` was given keys that do not strictly ascend; nothing was loaded.
    Unsorted {
        /// Position (from 0) of the first key that is not greater than the one before.
        position: u64,
    },
    /// `bulk_load` was called on a tree that holds entries.
    NotEmpty {
        /// The tree.
        tree: String,
    },
    /// A handle to the pool or to one of its trees is still alive, so it cannot be closed, or dropped, yet.
    StillOpen {
        /// The file.
        pool: String,
        /// The trees that are open. None: there is another handle to the pool.
        trees: Vec<String>,
    },
    /// The pool's content breaks an invariant of the format.
    Corrupt {
        /// The file.
        pool: String,
        /// Offset of the word that is wrong.
        at: u64,
        /// The broken invariant, as numbered in `docs/design.md`.
        invariant: &'static str,
    },
}

impl Error {
    /// What it means that the system does not give the space, or the size, that is wanted.
    pub(crate) fn no_space(pool: String, wanted: u64, capacity: u64, source: io::Error) -> Self {
        match source.kind() {
            // A file that may not be so long has no room either: the answer to all of them is a smaller pool, or another disk.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::OutOfSpace { pool, wanted, capacity, source: Some(source) }
            }
            _ => Self::Io { pool, doing: "reserve space", source },
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { pool, doing, source } => write!(f, "{pool}: cannot {doing}: {source}"),
            Self::NotAPool { pool, found } => write!(f, "{pool}: not a pool: {found}; left as it is"),
            Self::Truncated { pool, expected, found } => {
                write!(f, "{pool}: truncated: {found} bytes, the superblock promises {expected}")
            }
            Self::Version { pool, found, supported } => {
                write!(f, "{pool}: format version {found}, this build reads up to {supported}")
            }
            Self::Features { pool, unknown } => {
                write!(f, "{pool}: unknown incompatible features {unknown:#x}; a newer build is needed")
            }
            Self::Superblock { pool, at } => {
                write!(f, "{pool}: no valid superblock: wrong checksum at offset {at} and in its twin")
            }
            Self::LayoutMismatch { tree, found, expected } => {
                write!(f, "tree '{tree}' has layout {found}, asked for {expected}")
            }
            Self::KindMismatch { tree, found, expected } => {
                write!(f, "tree '{tree}' holds {found}, asked for {expected}")
            }
            Self::InUse { pool } => write!(f, "{pool}: already open, here or in another process"),
            Self::ReadOnly { pool } => write!(f, "{pool}: read-only"),
            Self::PowerLoss { pool } => write!(
                f,
                "{pool}: the machine went down before all changes were on the disk: some may be lost, and the rest may not \
                 fit together; `bristlecone check --after-power-loss` (Options::open_after_power_loss) checks everything, \
                 and makes it usable if it is whole"
            ),
            Self::Unchecked { pool, tree, layout } => {
                write!(f, "{pool}: tree '{tree}' has layout {layout}, which cannot be checked without its types")
            }
            Self::Forked { pool } => write!(f, "{pool}: opened by the process that this one was forked from"),
            Self::NotAFile { pool } => write!(f, "{pool}: not a regular file"),
            Self::NotFound { what } => write!(f, "{what}: not found"),
            Self::OutOfSpace { pool, wanted, capacity, source } => match source {
                Some(source) => write!(f, "{pool}: no space for {wanted} more bytes: {source}"),
                None => write!(f, "{pool}: no space for {wanted} more bytes: the capacity is {capacity} bytes"),
            },
            Self::Capacity { pool, asked, least, greatest } => {
                write!(f, "{pool}: capacity of {asked} bytes, it must be between {least} and {greatest}")
            }
            Self::Option { what, given } => write!(f, "{what}, not {given}"),
            Self::RecordTooLong { len, limit } => write!(f, "value of {len} bytes, the limit is {limit}"),
            Self::TreeName { len, limit } => write!(f, "tree name of {len} bytes, it must have 1 to {limit}"),
            Self::TooManyTrees { pool, limit } => write!(f, "{pool}: all {limit} tree names are taken"),
            Self::Unsorted { position } => {
                write!(f, "bulk load: the key at position {position} is not greater than the one before it")
            }
            Self::NotEmpty { tree } => write!(f, "bulk load: tree '{tree}' is not empty"),
            Self::StillOpen { pool, trees } => match &trees[..] {
                [] => write!(f, "{pool}: another handle to the pool is still open"),
                [tree] => write!(f, "{pool}: tree '{tree}' is still open"),
                trees => write!(f, "{pool}: trees '{}' are still open", trees.join("', '")),
            },
            Self::Corrupt { pool, at, invariant } => {
                write!(f, "{pool}: corrupt at offset {at} ({at:#x}): {invariant}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::OutOfSpace { source: Some(source), .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// There is not enough address space for what an open pool or tree has in memory.
    pub(crate) fn no_address_space(pool: &str, source: io::Error) -> Self {
        Self::Io { pool: pool.to_owned(), doing: "reserve address space", source }
    }
}

/// A broken invariant and where: [`Error::Corrupt`] before the pool's name is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// Offset of the word that is wrong.
    pub at: u64,
    /// The broken invariant, as numbered in `docs/design.md`.
    pub invariant: &'static str,
}

impl Broken {
    pub(crate) fn new(at: u64, invariant: &'static str) -> Self {
        Self { at, invariant }
    }

    pub(crate) fn in_pool(self, pool: &str) -> Error {
        Error::Corrupt { pool: pool.to_owned(), at: self.at, invariant: self.invariant }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} ({:#x}): {}", self.at, self.at, self.invariant)
    }
}
