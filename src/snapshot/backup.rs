//! A copy of a pool as it was at one instant, while changes go on.

use super::Snapshot;
use crate::entry::kind::{Kind, Kinds};
use crate::error::{Error, ErrorKind, Fault, Result};
use crate::medium::{self, JournalStat, Mapped, Medium};
use crate::node::{ByteLeaf, IndexKind, Interval, Node, OneLine};
use crate::papers::registry::shown;
use crate::pool::roots::{Root, Signature};
use crate::pool::{OpenTree, Pool, Progress, journal};
use crate::snapshot::ends::Ends;
use crate::tree::{Item, LeafEntries, TreeNode, TreeState};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a backup has copied. See [`Pool::backup`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// The number of trees.
    pub trees: u64,
    /// The number of entries in all trees.
    pub entries: u64,
    /// Bytes of the copy that are in use. The rest of its file takes no space where the file system has holes.
    pub bytes: u64,
}

/// A tree of any type that takes part in snapshots.
trait BackupSource<M: Medium> {
    /// The tree's number in its pool.
    fn slot(&self) -> u16;

    /// Copies all entries that a snapshot sees to a new tree with this name. Returns how many there are, and the tree.
    fn copy(
        &self,
        name: &str,
        snapshot: &Snapshot<M>,
        to: &Pool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(u64, Arc<OpenTree>)>;
}

/// Trees with their names.
type Sources<M> = Vec<(String, Box<dyn BackupSource<M>>)>;

/// A tree with the types that its root entry tells.
struct Typed<N: TreeNode, M: Medium> {
    tree: Arc<TreeState<N, M>>,
    index: IndexKind,
    kinds: Kinds,
}

impl<N: TreeNode, M: Medium> BackupSource<M> for Typed<N, M> {
    fn slot(&self) -> u16 {
        self.tree.slot()
    }

    fn copy(
        &self,
        name: &str,
        snapshot: &Snapshot<M>,
        to: &Pool,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(u64, Arc<OpenTree>)> {
        let Self { tree, index, kinds } = self;
        let copy = to.state.named(TreeState::<N, Mapped>::open(&to.state, name, *index, *kinds))?;
        let (mut ends, mut entries) = (Ends::<N::Keys>::new(Some(Interval::everything())), LeafEntries::default());
        let (mut done, of) = (0, tree.leaves.in_use());
        let mut failed = None;
        let mut item = || -> Option<Item<N::Keys>> {
            let item = ends.step(true, |unread, from_left, items| {
                if done % 4096 == 0 {
                    progress(Progress { tree: name, done, of: of.max(done) });
                }
                done += 1;
                snapshot.read(tree, Kind::stored(kinds.values), (unread, from_left), &mut entries, items)
            });
            item?.map_err(|fault| failed = Some(snapshot.pool.error(fault))).ok()
        };
        let _window = to.state.medium.window();
        let loaded = copy.bulk_load_values(std::iter::from_fn(&mut item), |value, write| {
            write(value.lent());
            Ok(())
        });
        let loaded = to.state.named(loaded);
        progress(Progress { tree: name, done, of: done });
        match failed {
            Some(error) => Err(error),
            None => Ok((loaded?, copy)),
        }
    }
}

impl<M: Medium> Pool<M> {
    /// Copies all trees, as they are at one instant, to a new pool at `path`, while other threads go on changing them.
    ///
    /// The copy is a pool like any other: to go back to it, close the pool and put a copy of the backup in its place.
    /// Its leaves are full, and it has the capacity and the geometry of this pool. It is complete, checked, and synced
    /// when it gets its name; until then it is called `path` with `.part` behind it. A plain copy of the file of a pool
    /// that is open is not consistent.
    ///
    /// It is a file alone, and remembers the [journal](crate::Options::journal) of this pool: the first open for
    /// writing, wherever that is, makes log and ring beside it, and waits for the disk as this pool does. A log of the
    /// pool that was there before may stay where it is: see [`Recovered::old_log`](crate::Recovered::old_log).
    ///
    /// The copy of a damaged pool has what can be read; [check](Self::check) the pool first if in doubt.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotInSnapshots`] if a tree has a layout that takes no part in snapshots;
    /// [`ErrorKind::SnapshotTooOld`]; [`ErrorKind::Io`] with `AlreadyExists` if there is something at `path`, or at
    /// `path` with `.part` behind it (another backup, perhaps one that was killed; then delete it);
    /// [`ErrorKind::Journal`] if the journal of this pool has failed (close the pool and open it again);
    /// [`ErrorKind::OutOfSpace`], and others of [opening](Self::tree) trees, and [of creating](crate::Options::open) a
    /// pool. In all cases nothing is left.
    ///
    /// # Complexity
    ///
    /// Reads all entries, writes them, and reads them again. All trees are open meanwhile. For the changes of other
    /// threads, as for a [`Snapshot`].
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// use bristlecone::{PTree, Pool};
    ///
    /// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("a.pool"))?;
    /// let tree: PTree = pool.tree("t")?;
    /// tree.insert(1, 10)?;
    /// let backup = pool.backup(dir.path().join("monday.pool"))?;
    /// assert_eq!((backup.trees, backup.entries), (1, 1));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<Backup> {
        self.backup_with(path, |_| ())
    }

    /// As [`backup`](Self::backup). Calls `progress` from time to time, for one tree after the other.
    ///
    /// # Errors
    ///
    /// As [`backup`](Self::backup).
    pub fn backup_with(&self, path: impl AsRef<Path>, mut progress: impl FnMut(Progress<'_>)) -> Result<Backup> {
        let path = path.as_ref();
        let (sources, snapshot) = self.sources()?;
        let refused = |doing, path: &Path| {
            let name = path.display().to_string();
            move |error| Fault::io(doing)(error).in_pool(name)
        };
        let part = PartFile::create(path).map_err(|(at, error)| refused("create the backup", &at)(error))?;
        let options = self.state.options_like();
        let copy = options.open(&part.path)?;
        // A tree that is closed takes space for its close record. That is for the entries of all trees first.
        let (mut entries, mut trees) = (0, Vec::new());
        for (name, source) in &sources {
            let (count, tree) = source.copy(name, &snapshot, &copy, &mut progress)?;
            entries += count;
            trees.push(tree);
        }
        drop((snapshot, trees));
        let bytes = copy.state.segments.in_use();
        copy.close()?;
        if let Some(JournalStat { mode, .. }) = self.state.medium.journal_stat() {
            let named = |fault: Fault| fault.in_pool(part.path.display().to_string());
            journal::remember(&part.path, mode).map_err(named)?;
        }
        let report = Pool::options().read_only(true).open(&part.path)?.check()?;
        if let Some(&broken) = report.violations.first() {
            return Err(Fault::from(broken).in_pool(part.path.display().to_string()));
        }
        part.complete(path).map_err(refused("name the backup", path))?;
        Ok(Backup { trees: sources.len() as u64, entries, bytes })
    }

    /// A snapshot, and all trees that it sees, opened, with the names that they have in it.
    fn sources(&self) -> Result<(Sources<M>, Snapshot<M>)> {
        let mut opened = BTreeMap::new();
        let live = || self.state.named(self.state.of_live_roots(|root| self.listed(root)));
        // There was a tree with this name and these types.
        let is_gone = |error: &Error| {
            use ErrorKind::{KindMismatch, LayoutMismatch, NoSuchTree};
            matches!(error.kind, NoSuchTree { .. } | LayoutMismatch { .. } | KindMismatch { .. })
        };
        loop {
            for tree in live()? {
                let (slot, name, signature) = &tree;
                if opened.contains_key(slot) {
                    continue;
                }
                match self.source(name, *signature) {
                    // By now, another tree may have the name.
                    Ok(source) => drop(opened.insert(source.slot(), source)),
                    // Another thread has dropped or renamed it meanwhile. An equal one may have its place again.
                    Err(error) if is_gone(&error) || !live()?.contains(&tree) => {}
                    Err(error) => return Err(error),
                }
            }
            // None of these is dropped from here on, but others may have been created.
            let seen = self.state.named(self.state.open_snapshot_of(|root| self.listed(root)));
            let (instant, is_expired, trees) = seen?;
            let snapshot = Snapshot { pool: Arc::clone(&self.state), instant, is_expired };
            if trees.iter().all(|(slot, ..)| opened.contains_key(slot)) {
                let with_name = |(slot, name, _)| Some((name, opened.remove(&slot)?));
                return Ok((trees.into_iter().filter_map(with_name).collect(), snapshot));
            }
        }
    }

    fn listed(&self, root: Root) -> (u16, String, Signature) {
        (root.slot, root.name(&self.state.medium), root.signature(&self.state.medium))
    }

    fn source(&self, name: &str, signature: Signature) -> Result<Box<dyn BackupSource<M>>> {
        let is_of = |layout, slots| signature.known() == Some((layout, slots));
        let opened = match IndexKind::from_tag(signature.index) {
            Some(index) if is_of(<OneLine>::LAYOUT, <OneLine>::SLOTS) => self.typed::<OneLine>(name, index, signature),
            Some(index) if is_of(<ByteLeaf>::LAYOUT, <ByteLeaf>::SLOTS) => {
                self.typed::<ByteLeaf>(name, index, signature)
            }
            _ => Err(ErrorKind::NotInSnapshots { tree: name.to_owned(), layout: shown(signature) }.into()),
        };
        self.state.named(opened)
    }

    fn typed<N: TreeNode>(
        &self,
        name: &str,
        index: IndexKind,
        signature: Signature,
    ) -> Result<Box<dyn BackupSource<M>>, Fault> {
        let tree = TreeState::<N, M>::open_existing(&self.state, name, index, signature.kinds)?;
        Ok(Box::new(Typed { tree, index, kinds: signature.kinds }))
    }
}

/// The file of a backup that is not complete. It goes when this is dropped.
struct PartFile {
    path: PathBuf,
}

impl PartFile {
    /// Creates an empty file. It is this process's own: there was none of that name. The error names the file.
    fn create(whole: &Path) -> Result<Self, (PathBuf, io::Error)> {
        if whole.symlink_metadata().is_ok() {
            let there = "there is already something of this name, and it stays";
            return Err((whole.to_owned(), io::Error::new(io::ErrorKind::AlreadyExists, there)));
        }
        if whole.file_name().is_none() {
            return Err((whole.to_owned(), io::ErrorKind::NotFound.into()));
        }
        let mut path = OsString::from(whole);
        path.push(".part");
        let path = PathBuf::from(path);
        // Only its owner may read it: which users may read the pool is not known here.
        let mut options = File::options();
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.write(true).create_new(true).open(&path) {
            Ok(_) => Ok(Self { path }),
            Err(error) => Err((path, error)),
        }
    }

    /// Gives the file its name, which must be free. After an error there is no file.
    fn complete(self, whole: &Path) -> io::Result<()> {
        if fs::hard_link(&self.path, whole).is_err() {
            // The name is not free, or the file system has no links. If the name is ours now, crash, until it names the
            // backup: an empty file.
            File::create_new(whole)?;
            fs::rename(&self.path, whole).inspect_err(|_| drop(fs::remove_file(whole)))?;
            std::mem::forget(self);
        }
        // Else the file has its name, and loses the other one when this is dropped.
        medium::sync_name(whole).inspect_err(|_| drop(fs::remove_file(whole)))
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        // There is nobody to report an error to, and another one is being reported.
        let _ = fs::remove_file(&self.path);
    }
}
