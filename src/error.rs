//! What can go wrong, as decisions that a caller can take.

use std::fmt;
use std::io;
use std::path::Path;

/// A result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a type refuses a value: what [`Value::encode`](crate::Value::encode) and [`Value::decode`](crate::Value::decode)
/// return.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Why an operation on a pool or a tree was refused: which pool, and what is wrong.
///
/// Whatever is returned, nothing acknowledged is lost, and the pool is as it was before the call, except where a
/// method, or [`ErrorKind::Journal`], says something else. Losing a race to another thread is not an error.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("a.pool");
/// use bristlecone::{Error, ErrorGroup, ErrorKind, Pool};
///
/// match Pool::open(&path) {
///     Ok(_) => println!("open"),
///     Err(Error { kind: ErrorKind::NotFound, .. }) => println!("nobody has made it yet"),
///     Err(error) if error.group() == ErrorGroup::Storage => println!("ask whoever looks after the disk: {error}"),
///     Err(error) => println!("{error}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Error {
    /// The pool: the path of its file, or the name of a medium in memory.
    pub pool: String,
    /// What is wrong, with the offset or the limit that decides.
    pub kind: ErrorKind,
}

/// What an error asks of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorGroup {
    /// The pool, or the tree, cannot be opened, or closed, like this: wait, or open it in another way, or open another
    /// one.
    Open,
    /// The place where the pool is kept does not give what is needed, or its content is damaged: make room, look at the
    /// disk, or restore a copy.
    Storage,
    /// The call asks for what cannot be: change the call.
    Input,
    /// Other threads were faster: begin anew, with another transaction or snapshot.
    Again,
}

/// What is wrong, in four [groups](ErrorGroup).
#[derive(Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    // Open.
    /// There is no file at the path, and the options do not allow to create one; or there is no such directory. Check
    /// the path, or [allow it](crate::Options::create).
    NotFound,
    /// The path names something that cannot hold a pool (a directory, a device, ...). Give the path of a file.
    NotAFile,
    /// The file is not a pool; it was not touched. Give another path, or move the file away.
    NotAPool {
        /// What was found instead.
        found: &'static str,
    },
    /// Another process, or another handle of this one, has the pool open: for writing, or for reading if this was to
    /// write. The locks of a pool are in the memory of the process that writes to it, so there is one writer and no
    /// reader, or any number of [readers](crate::Options::read_only). Share that handle, or wait until it is closed; a
    /// writer can make a [backup](crate::Pool::backup), which can be read at any time.
    InUse,
    /// A change was asked of a pool that is open, or can only be opened, for reading. (The writes of a transaction or a
    /// batch are asked for by its commit.) Look at the file's permissions, or open it with
    /// [`read_only`](crate::Options::read_only); changes that are not to reach the file can be made in a
    /// [copy](crate::medium::Mapping::Copy).
    ReadOnly {
        /// Why nothing may be written, and what to do about it.
        why: &'static str,
    },
    /// A change was asked of a pool that another process opened, from which this one came by `fork`; or a read would
    /// have had to change it. The pool is the other process's: exec, or open your own pool.
    Forked,
    /// The pool was written by another version of the format. Use a build that knows it; to carry the data over, let
    /// that build print them (`bristlecone dump`), and let this one read them (`bristlecone load`).
    Version {
        /// Its version.
        found: u64,
        /// The one that this crate reads.
        supported: u64,
    },
    /// The pool uses features that this crate does not know and may not ignore. Use a newer build.
    Features {
        /// The unknown incompatible feature bits.
        unknown: u64,
    },
    /// A sync of the pool's file has failed, so the system may show what the disk does not have, and forget it later
    /// without a word. [`open_after_power_loss`](crate::Options::open_after_power_loss) copies what it shows to a new
    /// file, which takes the place of the old one once it is on the disk, and opens it if all of it is whole. That
    /// needs as much space as the pool takes. Better soon, and before the machine is restarted. A file system that
    /// takes nothing any more, as after many such failures, has no room for it: copy the file to another one, and open
    /// the copy so. For reading only, the pool opens, and can be checked, but its trees cannot be opened.
    DiskFailed,
    /// The pool has no journal, and this is not the boot of the machine in which it was written to last, and was not
    /// closed. The operating system crashed; the power went; the machine was restarted, in order, after the process was
    /// killed; or the file is a copy, made while the pool was open or after such an end, and this is another machine.
    /// Changes that were acknowledged may be lost, and what is there may not fit together. There are two ways on:
    /// [`open_after_power_loss`](crate::Options::open_after_power_loss) checks all of it before it opens, and a
    /// [backup](crate::Pool::backup) is whole. (A copy can also be made again, of a pool that is closed.) For reading
    /// only, the pool opens, and can be checked, but its trees cannot be opened. With a
    /// [journal](crate::Options::journal), a pool opens in all these cases.
    PowerLoss,
    /// A tree has a layout or a node size that this program has not named, so it has no check for it, and nothing is
    /// known of the tree. [Name](crate::Pool::name_layout) its layout before, or
    /// [all](crate::Pool::name_all_layouts) of this crate. To leave the tree out, open the pool with
    /// [`read_only`](crate::Options::read_only).
    Unchecked {
        /// The tree.
        tree: String,
        /// Its layout, with the number of slots.
        layout: String,
    },
    /// The tree exists with another node layout, another node size or another kind of index. Ask for what was found, or
    /// use another name.
    LayoutMismatch {
        /// The tree.
        tree: String,
        /// What the pool holds.
        found: String,
        /// What the caller's type asks for.
        expected: String,
    },
    /// The tree exists with another key or value encoding. Ask for what was found, or use another name.
    KindMismatch {
        /// The tree.
        tree: String,
        /// What the pool holds.
        found: String,
        /// What the caller's type asks for.
        expected: String,
    },
    /// A handle to the pool or to one of its trees is still alive, so it cannot be closed, or dropped, yet. Drop the
    /// handles first, and [snapshots](crate::Snapshot), which keep trees open.
    StillOpen {
        /// The trees that are open. None: there is another handle to the pool.
        trees: Vec<String>,
    },

    // Again.
    /// What a transaction has read has changed since, or may have, so it has done nothing. Repeat it from its
    /// beginning, as [`Pool::transaction`](crate::Pool::transaction) does.
    Conflict,

    /// So much has changed since the snapshot was opened that it took more memory than
    /// [allowed](crate::Options::snapshot_memory), and was given up. Open another one, and read it sooner.
    SnapshotTooOld {
        /// How many bytes of memory the snapshots of a pool may take.
        limit: u64,
    },

    // Storage.
    /// The operating system refused. What it says decides; nothing speaks against another attempt.
    Io {
        /// What was attempted, as a verb ("open", "lock", "map", ...).
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// The disk, or the pool's capacity, is exhausted. Delete, or reopen with a larger
    /// [capacity](crate::Options::capacity). What readers still keep of what was deleted was waited for: end iterators
    /// that are put aside, and close snapshots.
    ///
    /// Nothing was changed. A few file systems cannot tell in time that they are full, or share the blocks of a pool
    /// with a copy of it: see `docs/space.md`.
    OutOfSpace {
        /// Bytes that were wanted.
        wanted: u64,
        /// The pool's capacity in bytes.
        capacity: u64,
        /// The system's answer, when it was the disk that was full.
        source: Option<io::Error>,
    },
    /// The file ends before the last byte in use. Restore a copy.
    Truncated {
        /// Bytes there must be at least: up to the end of the last segment in use, as far as the table of segments can
        /// be read.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// Neither copy of the superblock has a valid checksum. Restore a copy.
    Superblock {
        /// Offset of the first bad copy.
        at: u64,
    },
    /// The log of a pool with a journal cannot be used, so the pool cannot be opened: the file of the pool alone is of
    /// the past. Look for the right log (the pool's path, with `.log` at its end), or restore a copy of both. A pool
    /// that was closed in order needs no log: move one that does not go with it away.
    Log {
        /// Its path.
        path: String,
        /// What is wrong with it.
        found: &'static str,
    },
    /// Something else is where the log of the pool is to be made. It is no log; or it is that of a pool that was here
    /// before, and this one is new, or a process has that one open. It was not touched. Move it away; or remove it, if
    /// the pool to which it belongs is gone. A pool that is there, such as a restored backup, clears it away by itself:
    /// see [`Recovered::old_log`](crate::Recovered::old_log).
    LogInTheWay {
        /// Its path.
        path: String,
        /// What it is.
        found: &'static str,
    },
    /// The log of a pool with a journal is damaged, and more of it was on the disk, so the pool cannot be opened: what
    /// came later would be lost without a word. Nothing was changed. Restore the log from a copy of the same time; or
    /// keep a copy of it and open with [`Recovery::ShortLog`](crate::Recovery::ShortLog), which ends it there.
    LogDamaged {
        /// Where in the log's file, in bytes.
        at: u64,
        /// How many entries the log is known to have had from there on, at least; 0 if only its header is damaged.
        lost: u64,
    },
    /// A pool with a journal was not closed in order, and its ring is not there: what was changed last may be only in
    /// the ring. Bring it back: it belongs beside the pool, or in the shared memory of the container that had the pool
    /// open. If it is gone for good, open with [`Recovery::WithoutRing`](crate::Recovery::WithoutRing): then the pool
    /// is as it was at its last sync, or later.
    RingLost {
        /// Where it should be.
        path: String,
    },
    /// The ring of a pool with a journal, which was not closed in order, lacks entries before others that it has, in
    /// this boot of the machine. The disk was taken away and came back; or a thread was killed in the act, and the file
    /// system was mounted again since. [`Recovery::RingPrefix`](crate::Recovery::RingPrefix) is right in both cases,
    /// and gives up `behind` entries. [`Recovery::RingAll`](crate::Recovery::RingAll) is for the second one.
    RingUncertain {
        /// The path of the ring.
        path: String,
        /// Entries that count, because nothing lacks before them.
        certain: u64,
        /// Entries behind a gap.
        behind: u64,
    },
    /// The ring of a pool with a journal, which a process has left, cannot be used, or something else is in its place,
    /// so the pool cannot be opened: the ring has what is newer than the last sync. Open the pool as the user who left
    /// it, or bring the right ring back; or open with [`Recovery::WithoutRing`](crate::Recovery::WithoutRing), and lose
    /// that.
    Ring {
        /// Its path.
        path: String,
        /// What is wrong with it.
        found: &'static str,
    },
    /// A write to the pool's journal, or a sync, has failed. What was synced before is safe. What was acknowledged
    /// since then survives this process, unless the machine goes down: it is not known what of it is on the disk. The
    /// change that gets this error may have been made, and be seen by others, or not; to the next open, it was in
    /// flight at a crash. No further change is accepted, and no tree is opened. Look at the disk; then close the pool
    /// and open it again, which writes everything once more.
    ///
    /// If the log was removed, nothing is lost as long as the process lives: a close writes everything to the pool's
    /// file.
    Journal {
        /// The system's answer.
        source: io::Error,
    },
    /// A pool is to have a journal, and the log of it cannot be made beside the pool's file, where it would stay with
    /// the pool. Give the pool a directory that takes new files; or make it with
    /// [`Journal::None`](crate::Journal::None), as a pool that does not survive a loss of power while it is open.
    NoPlaceForLog {
        /// The path of the log.
        path: String,
        /// The system's answer.
        source: io::Error,
    },
    /// The pool has a journal, so it can neither be [given one](crate::Pool::add_journal) nor be opened with
    /// [`Journal::None`](crate::Journal::None): [take it away](crate::Pool::remove_journal) first. Or it has none, so
    /// it cannot lose it; or it is no file, and can have none.
    JournalThere {
        /// Whether it has one.
        has: bool,
    },
    /// The pool's content breaks an invariant of the format. [`Pool::check`](crate::Pool::check) tells how much is
    /// damaged; restore a copy, or drop the tree.
    Corrupt {
        /// Offset of the word that is wrong.
        at: u64,
        /// The broken invariant, as numbered in `docs/design.md`.
        invariant: &'static str,
    },
    /// A pool has no more trees than this. Drop a tree.
    TooManyTrees {
        /// The limit.
        limit: usize,
    },

    // Input.
    /// A transaction was given a tree of another pool. Use one transaction for each pool.
    OtherPool {
        /// The tree.
        tree: String,
    },
    /// A tree does not have the default leaves, so it cannot be [backed up](crate::Pool::backup). Copy its entries to
    /// one that has.
    NotInSnapshots {
        /// The tree.
        tree: String,
        /// Its layout, with the number of slots.
        layout: String,
    },
    /// The pool has no such tree. Check the name.
    NoSuchTree {
        /// Its name.
        tree: String,
    },
    /// A tree cannot get this name, because another one has it. Choose another name, or
    /// [swap](crate::Transaction::swap_trees) the two.
    TreeExists {
        /// The name.
        tree: String,
    },
    /// A layout of another crate has the tag of one of this crate's, which pools tell by their tags alone. Give it
    /// another tag.
    LayoutTag {
        /// The name of the layout.
        layout: &'static str,
        /// Its tag.
        tag: u16,
        /// The layout that has the tag.
        own: &'static str,
    },
    /// A tree's name is empty or too long. Choose another one.
    TreeName {
        /// Its length in bytes.
        len: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// The capacity asked for is outside what a pool of this geometry can have. Ask for one within the limits.
    Capacity {
        /// What was asked, in bytes.
        asked: u64,
        /// The least capacity, in bytes.
        least: u64,
        /// The greatest capacity, in bytes.
        greatest: u64,
    },
    /// An option has a value that no pool can have. Change it.
    InvalidOption {
        /// Which option, and what it must be.
        what: &'static str,
        /// What was given.
        given: u64,
    },
    /// The type of a value cannot encode it; nothing has changed. Change the value.
    Unencodable {
        /// The tree.
        tree: String,
        /// The kind of the values.
        kind: String,
        /// What the type says.
        source: Refusal,
    },
    /// What lies in the pool is no value of its type: another type with the same kind has written it, or an earlier
    /// form of this one. Read it as what has written it, or [as what it is stored as](crate::Pool::map_as_stored).
    Undecodable {
        /// The tree.
        tree: String,
        /// The kind of the values.
        kind: String,
        /// What the type says.
        source: Refusal,
    },
    /// The value is too long for a record. Divide it.
    RecordTooLong {
        /// Its length in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The key is too long. Use a shorter one, such as a hash of it.
    KeyTooLong {
        /// Its encoded length in bytes.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// `bulk_load` was given keys that do not strictly ascend; nothing was loaded. Sort them.
    Unsorted {
        /// Position (from 0) of the first key that is not greater than the one before.
        position: u64,
    },
    /// `bulk_load` was called on a tree that holds entries. Insert them one by one, or clear the tree first.
    NotEmpty {
        /// The tree.
        tree: String,
    },
}

impl Error {
    /// An error of a pool: for code that answers in place of one, and for tests.
    pub fn new(pool: impl Into<String>, kind: ErrorKind) -> Self {
        Self { pool: pool.into(), kind }
    }

    /// What the error asks of the caller.
    pub fn group(&self) -> ErrorGroup {
        self.kind.group()
    }
}

impl ErrorKind {
    /// What the error asks of the caller.
    pub fn group(&self) -> ErrorGroup {
        match self {
            Self::NotFound
            | Self::NotAFile
            | Self::NotAPool { .. }
            | Self::InUse
            | Self::ReadOnly { .. }
            | Self::Forked
            | Self::Version { .. }
            | Self::Features { .. }
            | Self::DiskFailed
            | Self::PowerLoss
            | Self::Unchecked { .. }
            | Self::LayoutMismatch { .. }
            | Self::KindMismatch { .. }
            | Self::StillOpen { .. } => ErrorGroup::Open,
            Self::Io { .. }
            | Self::OutOfSpace { .. }
            | Self::Truncated { .. }
            | Self::Superblock { .. }
            | Self::Log { .. }
            | Self::LogDamaged { .. }
            | Self::RingLost { .. }
            | Self::RingUncertain { .. }
            | Self::LogInTheWay { .. }
            | Self::NoPlaceForLog { .. }
            | Self::Ring { .. }
            | Self::Journal { .. }
            | Self::Corrupt { .. }
            | Self::TooManyTrees { .. } => ErrorGroup::Storage,
            Self::Conflict | Self::SnapshotTooOld { .. } => ErrorGroup::Again,
            Self::OtherPool { .. }
            | Self::NotInSnapshots { .. }
            | Self::NoSuchTree { .. }
            | Self::TreeExists { .. }
            | Self::LayoutTag { .. }
            | Self::TreeName { .. }
            | Self::Capacity { .. }
            | Self::InvalidOption { .. }
            | Self::JournalThere { .. }
            | Self::Unencodable { .. }
            | Self::Undecodable { .. }
            | Self::RecordTooLong { .. }
            | Self::KeyTooLong { .. }
            | Self::Unsorted { .. }
            | Self::NotEmpty { .. } => ErrorGroup::Input,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.pool, self.kind)
    }
}

/// A number of bytes as people read it, and exactly.
struct ByteCount(u64);

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(bytes) = *self;
        let units = ["KiB", "MiB", "GiB", "TiB"];
        let Some(place) = (bytes.max(1).ilog2() / 10).checked_sub(1) else { return write!(f, "{bytes} bytes") };
        let place = (place as usize).min(units.len() - 1);
        let unit = 1 << (10 * (place + 1));
        let digits = if bytes.is_multiple_of(unit) { 0 } else { 1 };
        write!(f, "{:.digits$} {} ({bytes} bytes)", bytes as f64 / unit as f64, units[place])
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => write!(f, "not found"),
            Self::NotAFile => write!(f, "not a regular file"),
            Self::NotAPool { found } => write!(f, "not a pool: {found}; left as it is"),
            Self::InUse => write!(
                f,
                "already open, here or in another process: a pool has one writer, whose locks are in its own memory, or any \
                 number of readers; wait until it is closed, or read a backup"
            ),
            Self::ReadOnly { why } => write!(f, "read-only: {why}"),
            Self::Forked => write!(f, "opened by the process that this one was forked from"),
            Self::Version { found, supported } => {
                write!(
                    f,
                    "format version {found}, this build reads {supported}; a build of that version can `dump` what this one can `load`"
                )
            }
            Self::Features { unknown } => {
                write!(f, "unknown incompatible features {unknown:#x}; a newer build is needed")
            }
            Self::DiskFailed => write!(
                f,
                "the disk has failed to take what was written, so what the system shows of the pool may be gone later; \
                 `bristlecone check --after-power-loss` (Options::open_after_power_loss) copies it to a new file, which takes the \
                 place of this one once it is on the disk, checks everything, and makes it usable if it is whole: better now than \
                 after a restart of the machine. If its file system cannot be written to any more, copy the file to another one first"
            ),
            Self::PowerLoss => write!(
                f,
                "it has no journal, and was not closed before the machine was started anew: the system crashed, the power went, the \
                 machine was restarted in order after the process was killed, or the file was copied from another machine while the \
                 pool was not closed. Some changes may be lost, and the rest may not fit together; `bristlecone check \
                 --after-power-loss` (Options::open_after_power_loss) checks everything, and makes it usable if it is whole; else \
                 restore a backup. A pool with a journal (Options::journal; bristlecone journal add) opens after all of that"
            ),
            Self::Unchecked { tree, layout } => {
                write!(
                    f,
                    "tree '{tree}' has layout {layout}, for which this program has no check: name the layout first \
                     (Pool::name_layout, or Pool::name_all_layouts for those of the crate)"
                )
            }
            Self::LayoutMismatch { tree, found, expected } => {
                write!(f, "tree '{tree}' has layout {found}, asked for {expected}")
            }
            Self::KindMismatch { tree, found, expected } => {
                write!(f, "tree '{tree}' holds {found}, asked for {expected}")
            }
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
            Self::OutOfSpace { wanted, source: Some(source), .. } => {
                write!(f, "no space for {} more: {source}", ByteCount(*wanted))
            }
            Self::OutOfSpace { wanted, capacity, source: None } => {
                write!(f, "no space for {} more: the capacity is {}", ByteCount(*wanted), ByteCount(*capacity))
            }
            Self::Truncated { expected, found } => {
                write!(f, "truncated: {}, and at least {} are in use", ByteCount(*found), ByteCount(*expected))
            }
            Self::Superblock { at } => {
                write!(f, "no valid superblock: wrong checksum at offset {at} and in its twin")
            }
            Self::Journal { source } => {
                write!(
                    f,
                    "no change is accepted any more, because the journal has failed: {source}; what was synced is safe: look at the disk, \
                     then close the pool and open it again"
                )
            }
            Self::NoPlaceForLog { path, source } => write!(
                f,
                "the pool would have a journal, and its log, {path}, cannot be made: {source}; give the pool a directory that takes new \
                 files, or make it without a journal (Journal::None; load --journal none)"
            ),
            Self::JournalThere { has: true } => {
                write!(
                    f,
                    "the pool has a journal; it can be taken away (Pool::remove_journal; bristlecone journal remove)"
                )
            }
            Self::JournalThere { has: false } => write!(f, "there is no journal"),
            Self::Ring { path, found } => write!(
                f,
                "the pool's ring, {path}, cannot be used: {found}; the pool was not closed in order, so bring the right one back, or open \
                 it without (Recovery::WithoutRing; --without-ring), and lose what was not synced"
            ),
            Self::RingLost { path } => write!(
                f,
                "the pool was not closed in order, and its ring, {path}, is not there: what was changed last may be only in the ring. \
                 Bring it back; or open without it (Recovery::WithoutRing; --without-ring), and lose what was not synced"
            ),
            Self::RingUncertain { path, certain, behind } => write!(
                f,
                "the ring, {path}, has {certain} entries without a gap, and {behind} behind one: if its disk was taken away and came \
                 back, open it with the former (Recovery::RingPrefix; --uncertain-ring prefix); if a thread was killed in the act, with \
                 all (Recovery::RingAll; --uncertain-ring all)"
            ),
            Self::LogDamaged { at, lost } => write!(
                f,
                "the log of the pool is damaged at byte {at}, and {lost} entries or more from there on were on the disk; nothing was \
                 changed. Restore the log; or keep a copy of it, and end it there (Recovery::ShortLog; check --repair)"
            ),
            Self::LogInTheWay { path, found } => write!(
                f,
                "{path} is where the log of the pool is to be, and is {found}: move it away, or remove it if the pool to which \
                 it belongs is gone"
            ),
            // Where there are no journals, there is no path.
            Self::Log { path, found } if path.is_empty() => write!(f, "the log of the pool cannot be used: {found}"),
            Self::Log { path, found } => write!(f, "the log of the pool, {path}, cannot be used: {found}"),
            Self::Corrupt { at, invariant } => write!(f, "corrupt at offset {at} ({at:#x}): {invariant}"),
            Self::Conflict => write!(f, "a conflict with another thread: nothing was done; repeat the transaction"),
            Self::SnapshotTooOld { limit } => {
                write!(f, "the snapshot is too old: what changed since takes more than {} of memory", ByteCount(*limit))
            }
            Self::OtherPool { tree } => write!(f, "tree '{tree}' is one of another pool"),
            Self::NotInSnapshots { tree, layout } => {
                write!(f, "tree '{tree}' has layout {layout}, and only trees with the default leaves can be backed up")
            }
            Self::NoSuchTree { tree } => write!(f, "tree '{tree}': not found"),
            Self::TreeExists { tree } => write!(f, "there is already a tree '{tree}'"),
            Self::LayoutTag { layout, tag, own } => {
                write!(f, "layout '{layout}' has the tag {tag}, which is that of '{own}'; it needs another one")
            }
            Self::TreeName { len, limit } => write!(f, "tree name of {len} bytes, it must have 1 to {limit}"),
            Self::TooManyTrees { limit } => write!(f, "all {limit} tree names are taken"),
            Self::StillOpen { trees } => match &trees[..] {
                [] => write!(f, "another handle to the pool, or a snapshot of it, is still open"),
                [tree] => write!(f, "tree '{tree}' is still open, by a handle or in a snapshot"),
                trees => write!(f, "trees '{}' are still open, by handles or in snapshots", trees.join("', '")),
            },
            Self::Capacity { asked, least, greatest } => {
                let [asked, least, greatest] = [asked, least, greatest].map(|bytes| ByteCount(*bytes));
                write!(f, "capacity of {asked}, it must be between {least} and {greatest}")
            }
            Self::InvalidOption { what, given } => write!(f, "{what}, not {given}"),
            Self::Unencodable { tree, kind, source } => {
                write!(f, "a value for tree '{tree}' cannot be encoded as {kind}: {source}")
            }
            Self::Undecodable { tree, kind, source } => {
                write!(f, "a value of tree '{tree}' cannot be decoded as {kind}: {source}")
            }
            Self::RecordTooLong { len, limit } => {
                write!(f, "value of {}, the limit is {}", ByteCount(*len), ByteCount(*limit))
            }
            Self::KeyTooLong { len, limit } => {
                write!(f, "key of {}, the limit is {}", ByteCount(*len), ByteCount(*limit))
            }
            Self::Unsorted { position } => {
                write!(f, "bulk load: the key at position {position} is not greater than the one before it")
            }
            Self::NotEmpty { tree } => write!(f, "bulk load: tree '{tree}' is not empty"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Io { source, .. }
            | ErrorKind::Journal { source }
            | ErrorKind::NoPlaceForLog { source, .. }
            | ErrorKind::OutOfSpace { source: Some(source), .. } => Some(source),
            ErrorKind::Unencodable { source, .. } | ErrorKind::Undecodable { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

/// What goes wrong inside the crate: an error before the pool is named, which happens once, where it leaves the crate.
#[derive(Debug)]
pub(crate) struct Fault(Box<ErrorKind>);

impl Fault {
    pub(crate) fn kind(&self) -> &ErrorKind {
        &self.0
    }

    pub(crate) fn is_out_of_space(&self) -> bool {
        matches!(*self.0, ErrorKind::OutOfSpace { .. })
    }

    /// The error, of this pool.
    pub(crate) fn in_pool(self, pool: impl Into<String>) -> Error {
        Error::new(pool, *self.0)
    }

    /// A change was asked of a pool that was opened to be read.
    pub(crate) fn read_only() -> Self {
        let why = "opened for reading only (`Options::read_only`, `Mapping::Read`); open it without that to change it";
        ErrorKind::ReadOnly { why }.into()
    }

    /// The error, of the pool in this file. A mapping has whole words: only the file itself says how long it is.
    pub(crate) fn of_file(mut self, path: &Path) -> Error {
        if let (ErrorKind::Truncated { found, .. }, Ok(meta)) = (&mut *self.0, path.metadata()) {
            *found = meta.len();
        }
        self.in_pool(path.display().to_string())
    }

    /// The error, with the path of the log that it is about.
    #[cfg(all(target_os = "linux", not(bristlecone_loom)))]
    pub(crate) fn of_log(mut self, log: &Path) -> Self {
        if let ErrorKind::Log { path, .. } = &mut *self.0
            && path.is_empty()
        {
            *path = log.display().to_string();
        }
        self
    }

    /// The system refused what was attempted.
    pub(crate) fn io(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| ErrorKind::Io { doing, source }.into()
    }

    /// The system does not give so many bytes, for a pool of this capacity.
    pub(crate) fn space(wanted: u64, capacity: u64) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            // A file that may not be so long has no room either: the answer to all of them is a smaller pool, or
            // another disk. So have addresses.
            io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::OutOfMemory => ErrorKind::OutOfSpace { wanted, capacity, source: Some(source) }.into(),
            _ => Self::io("reserve space")(source),
        }
    }

    /// The system does not give the address space for what an open pool or tree has in memory.
    pub(crate) fn address_space(source: io::Error) -> Self {
        Self::io("reserve address space")(source)
    }
}

impl From<ErrorKind> for Fault {
    #[cold]
    fn from(kind: ErrorKind) -> Self {
        Self(Box::new(kind))
    }
}

impl From<Broken> for Fault {
    fn from(Broken { at, invariant }: Broken) -> Self {
        ErrorKind::Corrupt { at, invariant }.into()
    }
}

/// A broken invariant and where.
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
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "offset {} ({:#x}): {}", self.at, self.at, self.invariant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_readable_and_exact() {
        let shown = |bytes| ByteCount(bytes).to_string();
        assert_eq!([0, 1023].map(shown), ["0 bytes", "1023 bytes"]);
        assert_eq!(shown(64 << 20), "64 MiB (67108864 bytes)");
        assert_eq!(shown(65_537), "64.0 KiB (65537 bytes)");
        assert_eq!(shown(1 << 47), "128 TiB (140737488355328 bytes)");
        assert_eq!(shown(u64::MAX), "16777216.0 TiB (18446744073709551615 bytes)");
    }
}
