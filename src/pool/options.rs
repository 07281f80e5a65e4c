//! Options for creating and opening pools.

use crate::error::{ErrorKind, Fault, Result};
use crate::medium::event::{Event, EventKind};
use crate::medium::vitals::Slow;
use crate::medium::{
    self, Access, Domain, Journal, LINE, Listener, Mapped, Mapping, Medium, OldLog, Reach, Recovered, Recovery,
    RingPlace, Step, Wanted, lines,
};
use crate::pool::format::{BIRTH, HEADER, PoolGeometry, Superblock};
use crate::pool::progress::{Progress, Watch};
use crate::pool::roots::NAME_MAX;
use crate::pool::segments::Segments;
use crate::pool::{Pool, PoolState, journal, lists};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options for creating and opening pools.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let path = dir.path().join("a.pool");
/// use bristlecone::Pool;
///
/// let pool = Pool::options().capacity(16 << 20).open(&path)?;
/// pool.close()?;
/// let larger = Pool::options().capacity(64 << 20).open(&path)?;
/// assert_eq!(larger.stat().capacity, 64 << 20);
/// # Ok::<(), bristlecone::Error>(())
/// ```
#[derive(Debug, Clone)]
#[must_use]
pub struct Options {
    capacity: Option<u64>,
    addresses: u64,
    segment: u64,
    create: bool,
    pub(crate) read_only: bool,
    domain: Option<Domain>,
    access: Access,
    pub(crate) wanted: Wanted,
    log: u64,
    snapshot_memory: u64,
    watch: Option<Watch>,
    listener: Option<Listener>,
    slow: Slow,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            capacity: None,
            addresses: 0,
            segment: 2 << 20,
            create: true,
            read_only: false,
            domain: None,
            access: Access::Auto,
            wanted: Wanted::default(),
            log: medium::LOG,
            snapshot_memory: 1 << 30,
            watch: None,
            listener: None,
            slow: Slow::default(),
        }
    }
}

impl Options {
    /// The greatest length of a tree's name, in bytes.
    pub const MAX_TREE_NAME: usize = NAME_MAX;

    /// The most bytes that the pool may take. Most pools need no limit, and by default there is none but what the disk
    /// has.
    ///
    /// What counts are the bytes that hold something: the pool's file is sparse and grows as it is used, and space that
    /// is not used any more goes back to the file system. For an existing pool, a larger capacity is its capacity from
    /// now on; a smaller one changes nothing. The least is 64 KiB with segments of 16 KiB and more.
    ///
    /// This limits the bytes in use, which are [`Stat::used`](crate::stat::Stat::used). The file may have some more
    /// [allocated](Mapped::allocated): pages for the table of segments behind the header (one for 512 segments); the
    /// rest of a page that is in use in part (in memory, of a huge page); what was given back and has not gone back to
    /// the file system yet (with a [journal](Self::journal), until a checkpoint; after a crash, until the next open);
    /// and what the file system counts for itself.
    pub fn capacity(mut self, bytes: u64) -> Self {
        self.capacity = Some(bytes);
        self
    }

    /// How many bytes of addresses are set aside when the pool is opened: its file can become that long before it needs
    /// others. Default: none in particular.
    ///
    /// Most pools need none, whatever their number in a process. Where files are mapped, a pool sets aside twice the
    /// capacity that it is opened with, or twice the length of its file, as long as all pools together take no more
    /// than half of the addresses that the process has left. (A processor mostly tells 128 TiB apart; `ulimit -v` may
    /// leave fewer.) When the file outgrows them, it takes those behind, and there is much room between pools: 48 TiB
    /// for all of them, 48 GiB for each of a thousand. What lies in its way ends its growth with
    /// [`ErrorKind::OutOfSpace`], whose source says so, until it is opened again; and so does a growth that would leave
    /// less than a quarter of all addresses to the rest of the process. This option is for a pool that grows further
    /// than that, from a short file, beside a thousand others.
    ///
    /// Addresses take neither memory nor space on the disk. They do not limit the pool, as [`capacity`](Self::capacity)
    /// does, and [`Stat::available`](crate::stat::Stat::available) does not count them. On systems other than Linux,
    /// where a file is as long as it may become when it is opened, this does nothing.
    ///
    /// [`open`](Self::open) is refused with [`ErrorKind::Io`] if the process does not have so many.
    pub fn addresses(mut self, bytes: u64) -> Self {
        self.addresses = bytes;
        self
    }

    /// For a new pool: the size of a segment in bytes, a power of two from 1 KiB to 1 GiB. Default: 2 MiB.
    ///
    /// A segment holds the leaves of one tree, or its records of one class of sizes. (There are four classes from one
    /// power of two to the next, up to a quarter of a segment; longer records have segments of their own.) A segment
    /// takes space in steps of a page, so that what is small takes little. A segment that holds nothing any more is
    /// given back as a whole: so smaller ones suit small pools that are emptied and filled often.
    pub fn segment_size(mut self, bytes: u64) -> Self {
        self.segment = bytes;
        self
    }

    /// Whether to create a pool if there is none (no file, or an empty one). Default: true.
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Opens for reading only, under a shared lock: any number of processes at once. Nothing is written: not to the
    /// file, and not to the log or the ring of a [journal](Self::journal). Default: false.
    ///
    /// Trees and maps that are there can be opened and read, also in snapshots and transactions, in a pool that was
    /// closed, in one that a crash has left, and on a file system that cannot be written. What a crash left unfinished
    /// is finished in memory that only this process sees: it has a copy of each page that changes. Everything that
    /// would change something is refused with [`ErrorKind::ReadOnly`]: of a [transaction](crate::Transaction) or a
    /// [batch](crate::WriteBatch), which only collects its writes, the commit. A tree that is not there is
    /// [`ErrorKind::NoSuchTree`].
    ///
    /// As long as another process has the pool open for writing, it is refused with [`ErrorKind::InUse`]. The locks
    /// that keep a reader from half a change are in the memory of the process that writes, and not in the file. For the
    /// same reason, a reader keeps a writer from opening the pool: close it when it has been read. To look into a pool
    /// that is being written to, ask the process that writes: [`Pool::snapshot`], [`Pool::backup`], [`Pool::metrics`].
    ///
    /// After a crash of the machine, a pool without a journal is opened for [checks](Pool::check) only, and opening a
    /// tree is refused with [`ErrorKind::PowerLoss`]. A medium other than a file is refused with
    /// [`ErrorKind::ReadOnly`], because opening would store to it. To try out changes that the file does not see, open
    /// a [copy in memory](Mapping::Copy).
    ///
    /// # Complexity
    ///
    /// As for an open without it, but nothing is waited for. A tree that was closed in order costs one look at its
    /// close record. After a crash, the leaves are found again by every process, and each time that a tree is opened.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// # let pool = bristlecone::Pool::options().capacity(16 << 20).open(&path)?;
    /// # pool.tree("t")?.insert(1, 2)?;
    /// # drop(pool);
    /// use bristlecone::{Error, ErrorKind, Pool};
    ///
    /// let pool = Pool::options().read_only(true).open(&path)?;
    /// let tree = pool.tree("t")?;
    /// assert_eq!(tree.get(1), Some(2));
    /// assert!(matches!(tree.insert(1, 3), Err(Error { kind: ErrorKind::ReadOnly { .. }, .. })));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn read_only(mut self, read_only: bool) -> Self {
        self.read_only = read_only;
        self
    }

    /// Overrides the durability domain: flushes and fences are made as this domain requires, whatever the file system
    /// is.
    ///
    /// For tests and measurements: a wrong domain costs time or durability, and [`Pool::durability`] repeats it. The
    /// environment variable `BRISTLECONE_DOMAIN` does the same from outside. The default is what the mapping of the
    /// file tells. Only a [journal](Self::journal) makes the domain [`Journal`](Domain::Journal): asking for it here
    /// changes nothing.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.domain = Some(domain);
        self
    }

    /// How much of the pool's file the system reads when a page is accessed that is not in memory, on Linux. Default:
    /// [`Access::Auto`], by which a file that is longer than half of the memory is read page by page. A file that grows
    /// beyond that is read page by page from then on.
    ///
    /// In a pool that is larger than memory, a get then reads the pages of its leaf and of its record, and the pages
    /// that are used stay in memory. Ranges that have passed several leaves, and opens after a crash, ask ahead for
    /// what they will read. The memory is that of the machine, or less if a control group (version 1 or 2) of the
    /// process, or one of its ancestors, has a limit; it is looked up once in an open pool.
    ///
    /// On files in memory, on persistent memory, and on other systems, this does nothing.
    pub fn access(mut self, access: Access) -> Self {
        self.access = access;
        self
    }

    /// With a journal, on an ordinary file: the pool survives a crash of the machine and a loss of power, up to the
    /// last [sync](Pool::sync), which `journal` says when to make. The pool remembers it: opens that say nothing wait
    /// for the disk as it said last.
    ///
    /// By default, a new pool has a journal, [`Journal::default`], where it would be lost with the power: on Linux, on
    /// a file system that is neither in memory (tmpfs, ramfs) nor persistent memory. Pools that are there keep what
    /// they have. A change then costs a copy of its lines; [`Journal::Each`], which waits for the disk, is for ledgers.
    /// With this option, a new pool gets a journal anywhere on Linux, and so does one that is there and has none;
    /// [`Pool::remove_journal`] takes it away again. Both leave the pool complete, with a journal or without, also if
    /// the machine goes down meanwhile. As long as a pool has none, what is changed while it is open survives the
    /// process only. [`Journal::None`] is for a pool without: one that has a journal is refused with
    /// [`ErrorKind::JournalThere`].
    ///
    /// Its log is a file beside it, with `.log` at the end of its name. What is not in the log yet lies in a *ring*, a
    /// file with `.ring` at the end, so that it survives the process. The three belong together, wherever they are
    /// moved. A pool that was closed needs neither of the two. A pool that is opened for [reading
    /// only](Self::read_only) is shown with both, and nothing said here matters.
    ///
    /// A change copies its lines to the ring, which is mapped, and a thread in the background writes them to the disk.
    /// What is changed stays in memory until a checkpoint has put it into the pool's file: see
    /// [`private_memory`](Self::private_memory).
    pub fn journal(mut self, journal: Journal) -> Self {
        self.wanted.mode = Some(journal);
        self
    }

    /// How a pool with a journal is opened when what the last process has left is not all there. By default it is
    /// refused then, with an error that says what lacks, and which ways on there are. A pool that was closed in order
    /// needs none.
    ///
    /// The ways on give something up for good: ask for one when an error has named it, and not always.
    /// [`JournalStat::recovered`](crate::stat::JournalStat::recovered) says what was given up.
    ///
    /// # Crash consistency
    ///
    /// Whatever is given up, the pool is as it was at one moment, at its last sync or later; with
    /// [`Recovery::ShortLog`], at an earlier one.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use bristlecone::{Error, ErrorKind, Pool, Recovery};
    ///
    /// let pool = match Pool::open("a.pool") {
    ///     // Somebody has removed its ring, and an operator has decided that what was not synced may go.
    ///     Err(Error { kind: ErrorKind::RingLost { .. }, .. }) => {
    ///         Pool::options().recovery(Recovery::WithoutRing).open("a.pool")?
    ///     }
    ///     other => other?,
    /// };
    /// # Ok::<(), Error>(())
    /// ```
    pub fn recovery(mut self, recovery: Recovery) -> Self {
        self.wanted.recovery = recovery;
        self
    }

    /// How much memory a pool with a journal may take for what was changed and is not given back to the system yet, in
    /// bytes. Default: all pools of the process that are opened without this share its budget, an eighth of the memory
    /// that the process may use, and 4 MiB at least. The environment variable `BRISTLECONE_PRIVATE_MEMORY` says another
    /// budget of the process, in bytes.
    ///
    /// A journal keeps what is changed in private memory until a checkpoint has put it into the pool's file. When three
    /// quarters of this are used, pages whose content is in the file go back to the page cache, which the system can
    /// use for something else. If all of it is used, changes wait for that, for a second at most each: writes that are
    /// spread over more pages than fit are as fast as the disk takes them. One change alone may take more, and so do
    /// changes that wait for longer, a process whose memory is locked, and pages of the machine that are larger than
    /// 4 KiB. The ring of the journal, which may have as much as this, is not among it. With more of this, checkpoints
    /// come less often and write less. At least 4 KiB are taken.
    ///
    /// [`Pool::journal`] tells what is used. Without a journal, and on other systems than Linux, this does nothing.
    pub fn private_memory(mut self, bytes: u64) -> Self {
        self.wanted.private_memory = Some(bytes);
        self
    }

    /// Where the ring of a journal is from now on. By default it is where it was, and the ring of a new pool is beside
    /// the pool.
    ///
    /// A ring beside the pool is there again when a container is started again, when the pool is moved with its log and
    /// its ring, and when a file system is mounted somewhere else. The system writes it to the disk now and then, which
    /// no change waits for. In memory it costs the disk nothing, which matters to flash that wears and over a network;
    /// and what was not synced is lost with the memory.
    pub fn ring(mut self, place: RingPlace) -> Self {
        self.wanted.ring = Some(place);
        self
    }

    /// For a new pool with a journal: the bytes that frames may take in its log at first, a multiple of 4096 from 64
    /// KiB on. For tests.
    #[doc(hidden)]
    pub fn log_size(mut self, bytes: u64) -> Self {
        self.log = bytes;
        self
    }

    /// Whether a pool on an ordinary file is written to the disk when it is opened (one page, which marks it as in use)
    /// and when it is closed (everything). Default: true.
    ///
    /// With it, a pool that was closed survives a crash of the machine, and a pool that was open when the machine went
    /// down is refused with [`ErrorKind::PowerLoss`]. Without it, opening and closing do not wait for the disk. But a
    /// pool that was used that way is refused after any restart of the machine, or may come back with changes missing
    /// and not know it. On persistent memory, nothing is synced in any case. With a journal, opening and closing
    /// always wait for the disk: without `sync`, such a pool is refused with [`ErrorKind::InvalidOption`].
    pub fn sync(mut self, sync: bool) -> Self {
        self.wanted.is_unsynced = !sync;
        self
    }

    /// How many bytes of memory the [snapshots](crate::Snapshot) of the pool may take. If they want more, the oldest
    /// ones are given up, and reading from these is refused with [`ErrorKind::SnapshotTooOld`]. Before that,
    /// [transactions](crate::Transaction) give up what they take of it. Default: 1 GiB.
    pub fn snapshot_memory(mut self, bytes: u64) -> Self {
        self.snapshot_memory = bytes;
        self
    }

    /// Calls `watch` from time to time while the leaves of a tree are read when it is opened after a crash, or
    /// [compacted](Pool::compact). Both take time in proportion to the number of leaves.
    ///
    /// `watch` is called on any thread, with locks held. It must not use the pool or fork, and it should be quick. By
    /// default, progress is not reported.
    pub fn progress(mut self, watch: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        self.watch = Some(Watch::new(watch));
        self
    }

    /// Calls `listener` with what happens to the pool that operators want to know: an [`Event`](crate::stat::Event). By
    /// default, nobody is told. With the feature `tracing`, events of every pool go to the crate `tracing`, too, with
    /// the target `bristlecone`.
    ///
    /// `listener` is called on a thread of its own, one event after the other in the order in which they happened, as
    /// soon as it has returned from the one before. No lock is held, and no thread of the pool waits for it. So it may
    /// wait, call this pool and others, and drop and close handles, also the last one. If it panics, that event counts
    /// as told, and the next one is told all the same. If it is so slow that a thousand events wait, the next ones are
    /// counted and not told ([`EventKind::Missed`](crate::stat::EventKind::Missed)).
    ///
    /// The last event is [`EventKind::Closed`](crate::stat::EventKind::Closed), and then `listener` is dropped, if the
    /// options are gone, too. What was not told when the process ends is never told: a program that wants all of it
    /// waits until `listener` is dropped, as below. A handle in `listener` keeps its pool open. If the options open
    /// several pools, `listener` may be called for these at the same time. A forked child is told nothing.
    ///
    /// # Complexity
    ///
    /// Nothing where nothing is waited for. An event costs some allocations, and a thread if none is running.
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("a.pool");
    /// use bristlecone::Pool;
    /// use bristlecone::stat::Severity;
    ///
    /// let (sender, events) = std::sync::mpsc::channel();
    /// let pool = Pool::options().on_event(move |event| drop(sender.send(event.clone()))).open(&path)?;
    /// let log = std::thread::spawn(move || {
    ///     for event in events {
    ///         let mark = if event.kind.severity() == Severity::Error { "!" } else { "" };
    ///         println!("{mark}{} {event}", event.kind.name()); // closed a.pool: closed in 3.1ms
    ///     }
    /// });
    /// pool.tree("t")?.insert(1, 2)?;
    /// pool.close()?;
    /// log.join().unwrap(); // the sender is gone, so everything was told
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn on_event(mut self, listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.listener = Some(Listener::new(listener));
        self
    }

    /// How long a sync and a checkpoint may take before they are slow, which is an [event](Self::on_event). Default:
    /// 100 ms, and 1 s. Changes that wait for room in the ring are told if they have waited as long as a slow sync
    /// together.
    ///
    /// Each kind is told at most once in ten seconds, with how often it has happened since it was told last. All are
    /// counted in [`Pool::metrics`].
    pub fn slow(mut self, sync: Duration, checkpoint: Duration) -> Self {
        self.slow = Slow { sync, checkpoint };
        self
    }

    /// Tells the pool's events from now on, first what the open has found. It began at `began`.
    pub(crate) fn watched<M: Medium>(&self, pool: Pool<M>, began: Instant) -> Pool<M> {
        let (state, stat) = (&pool.state, pool.state.medium.journal_stat());
        let mut found = Vec::new();
        if !state.is_looked_at() {
            let journal = stat.map(|stat| stat.recovered);
            let Recovered { damaged_twin, old_log, .. } = journal.unwrap_or_default();
            if !(state.was_clean && state.medium.facts().was_settled) {
                found.push(EventKind::Recovered { took: began.elapsed(), journal });
            }
            found.extend(state.found_damaged.map(|at| EventKind::TwinMended { at, of_log: false }));
            found.extend(damaged_twin.map(|at| EventKind::TwinMended { at, of_log: true }));
            found.extend(old_log.map(|done| EventKind::OldLog { done }));
        }
        state.vitals.open(state.medium.facts().name, self.listener.as_ref(), self.slow, found);
        pool
    }

    fn geometry(&self) -> Result<PoolGeometry, Fault> {
        let geometry = PoolGeometry { segment: self.segment, capacity: self.capacity.unwrap_or(PoolGeometry::MOST) };
        geometry.check()?;
        Ok(geometry)
    }

    /// How far the offsets of the pool at `path` may go, as long as it is open. There may be segments that are free, or
    /// not whole, so this is more than the capacity. Addresses for it are reserved when they are needed.
    pub(crate) fn reach(&self, path: &Path) -> Reach {
        const LEAST: u64 = 1 << 40;
        let len = std::fs::metadata(path).map_or(0, |meta| meta.len());
        let capacity = self.capacity.unwrap_or(0).min(PoolGeometry::MOST);
        let twice = |bytes: u64| bytes.saturating_mul(2).min(PoolGeometry::MOST);
        let likely = self.capacity.map_or(0, |_| twice(capacity.max(len)));
        let certain = if cfg!(target_os = "linux") { self.addresses } else { 0 };
        Reach { most: twice(capacity.max(len)).max(LEAST).max(certain), likely, certain }
    }

    /// Opens the pool at `path`, creating it if allowed.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotFound`]: there is no file, and creating one is not allowed.
    /// - [`ErrorKind::NotAPool`], [`ErrorKind::NotAFile`], [`ErrorKind::Version`], [`ErrorKind::Features`],
    ///   [`ErrorKind::Superblock`], [`ErrorKind::Truncated`], [`ErrorKind::Corrupt`]: the file cannot be used, and is
    ///   left as it is.
    /// - [`ErrorKind::InUse`]: another opener holds the lock.
    /// - [`ErrorKind::ReadOnly`]: the file cannot be written and `read_only` was not asked for.
    /// - [`ErrorKind::PowerLoss`]: the machine went down while the pool was open without a journal;
    ///   [`ErrorKind::DiskFailed`]: a sync failed; see [`open_after_power_loss`](Self::open_after_power_loss).
    /// - [`ErrorKind::Log`], [`ErrorKind::LogDamaged`], [`ErrorKind::Ring`], [`ErrorKind::RingLost`],
    ///   [`ErrorKind::RingUncertain`]: the pool has a journal and was not closed in order, and its log or its ring is
    ///   missing, damaged, or another pool's. What is there is left as it is; see [`recovery`](Self::recovery).
    /// - [`ErrorKind::LogInTheWay`]: the pool is to have a new log, and there is something else where it should be, or
    ///   the log of another pool that is in use, or that a new pool does not replace.
    /// - [`ErrorKind::NoPlaceForLog`]: the log cannot be beside the pool, so the pool needs [`Journal::None`].
    /// - [`ErrorKind::JournalThere`]: [`Journal::None`] was asked for, and the pool has a journal.
    /// - [`ErrorKind::Capacity`], [`ErrorKind::InvalidOption`]: no pool can have these sizes; or a pool with a journal
    ///   cannot leave out [`sync`](Self::sync).
    /// - [`ErrorKind::OutOfSpace`]: the disk is full.
    /// - [`ErrorKind::Io`]: any other error of the system, also with the log or the ring, and with the directory of a
    ///   new pool.
    ///
    /// # Complexity
    ///
    /// Four lines flushed, two fences, and a look at each segment's table entry; the first open of an ordinary file in
    /// a boot writes and syncs the superblock once more. On persistent memory, an open after a kill flushes all lines
    /// that are in use. With a journal, what a crash has left in the log and in the ring is written to the pool's file
    /// first, and the log is synced a few times.
    ///
    /// # Crash consistency
    ///
    /// A pool whose creation was cut by a crash is created anew by the next open. At any other time, one of the
    /// superblock's twins is valid.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Pool<Mapped>> {
        let (path, began) = (path.as_ref(), Instant::now());
        self.open_or_create(path).map(|pool| self.watched(pool, began)).map_err(|fault| fault.of_file(path))
    }

    fn open_or_create(&self, path: &Path) -> Result<Pool<Mapped>, Fault> {
        if self.read_only {
            let medium = self.taken(Mapped::existing_with(path, Mapping::Read, self.reach(path), self.wanted)?);
            if medium.facts().domain != Domain::Journal
                && let Ok((superblock, _)) = Superblock::read(&medium)
                && superblock.has_journal()
                && medium.load(medium::MARKER) == 0
            {
                medium.lacks_nothing(path, superblock.uuid)?;
            }
            return self.existing(medium);
        }
        if self.asked().is_some() {
            self.wanted.fits_a_journal()?;
        }
        let mut old_log = None;
        // Each turn looks at what the turn before has left, or another process meanwhile.
        loop {
            let has_file = has_content(path) || (!self.create && path.exists());
            // The remains of an interrupted creation may be too long to be mapped, so they are inspected as a file.
            let made = if has_file && !(self.create && medium::is_unborn(path, BIRTH, Superblock::is_unborn)) {
                self.open_file(path, &mut old_log)?
            } else if self.create {
                self.create_file(path, &mut old_log)?
            } else {
                return Err(ErrorKind::NotFound.into());
            };
            if let Some(pool) = made {
                return Ok(pool);
            }
        }
    }

    /// Opens the pool in a file. `None`: what is at the path has changed, so it has to be looked at again.
    fn open_file(&self, path: &Path, old_log: &mut Option<OldLog>) -> Result<Option<Pool<Mapped>>, Fault> {
        let wanted = Wanted { old_log: *old_log, ..self.wanted };
        let medium = match Mapped::existing_with(path, Mapping::Write, self.reach(path), wanted) {
            // A creation failed meanwhile, and took back what it had made.
            Err(_) if self.create && !has_content(path) => return Ok(None),
            medium => self.taken(medium?),
        };
        let (superblock, twin) = Superblock::read(&medium)?;
        match (medium.facts().domain == Domain::Journal, superblock.has_journal()) {
            (false, true) if medium.load(medium::MARKER) != 0 => return Err(without_marker(&medium)),
            (false, true) => {
                self.wanted.fits_a_journal()?;
                // Its creation was cut, or the addition of its journal, or the removal: it has one. All that it holds
                // is in the file, also after a crash of the machine: only opens and closes came after the last sync.
                medium.lacks_nothing(path, superblock.uuid)?;
                *old_log = medium.create_log(path, superblock.uuid, self.log)?;
                medium.adopt_journal(path, superblock.uuid, self.wanted.mode.unwrap_or_default())?;
                return Ok(None);
            }
            _ => {}
        }
        let grown = self.grown(&medium, superblock)?;
        if grown.geometry.capacity > superblock.geometry.capacity {
            // A damaged pool is left as it is.
            PoolState::check_header(&medium, superblock.geometry)?;
        }
        let has_journal = medium.facts().domain == Domain::Journal;
        let pool = self.pool(medium, (grown, twin), false)?;
        match self.asked().filter(|_| !has_journal) {
            Some(mode) => {
                *old_log = journal::add(pool, path, mode, self.log)?;
                Ok(None)
            }
            None => Ok(Some(pool)),
        }
    }

    /// The journal that was asked for.
    fn asked(&self) -> Option<Journal> {
        self.wanted.mode.filter(|&mode| mode != Journal::None)
    }

    /// Creates a pool where there is none. `None`: there is one now, which has to be opened.
    fn create_file(&self, path: &Path, old_log: &mut Option<OldLog>) -> Result<Option<Pool<Mapped>>, Fault> {
        self.geometry()?;
        let reach = self.reach(path);
        let stays_without =
            self.wanted.mode == Some(Journal::None) || self.domain.is_some_and(|domain| domain != Domain::Process);
        let medium = match Mapped::conceive(path, (HEADER, reach), stays_without, BIRTH, Superblock::is_unborn) {
            // The path has other content by now: another process completed a pool.
            Err(fault) if matches!(fault.kind(), ErrorKind::NotAPool { .. }) => return Ok(None),
            medium => self.taken(medium?),
        };
        let by_default = || if medium.is_lost_with_power() { Journal::default() } else { Journal::None };
        let mode = self.wanted.mode.unwrap_or_else(by_default);
        let options = Self { wanted: Wanted { mode: Some(mode), ..self.wanted }, ..self.clone() };
        if mode != Journal::None {
            options.wanted.fits_a_journal()?;
        }
        let pool = options.create_in(medium, true)?;
        // If what follows fails, nothing is left of the pool.
        if mode != Journal::None {
            *old_log = journal::add(pool, path, mode, self.log)?;
            return Ok(None);
        }
        if !self.wanted.is_unsynced {
            medium::sync_name(path).map_err(Fault::io("sync the directory"))?;
        }
        pool.state.medium.is_born();
        Ok(Some(pool))
    }

    fn pool<M: Medium>(&self, medium: M, superblock: (Superblock, usize), read_only: bool) -> Result<Pool<M>, Fault> {
        let state = self.state(medium, superblock)?;
        if !read_only && !state.medium.facts().read_only {
            state.mark_in_use()?;
        } else {
            // A part of a change must not be seen.
            let left = live_lists(&state.medium, &superblock.0)?;
            if !left.is_empty() && !state.is_looked_at() {
                let why = "a crash has left changes half done, which only an open for writing can finish here";
                return Err(ErrorKind::ReadOnly { why }.into());
            }
            left.iter().for_each(|list| list.replay(&state.medium));
        }
        Ok(Pool { state: Arc::new(state) })
    }

    /// The state of a pool, read before anything is stored.
    pub(crate) fn state<M: Medium>(&self, medium: M, superblock: (Superblock, usize)) -> Result<PoolState<M>, Fault> {
        PoolState::open(medium, superblock, !self.wanted.is_unsynced, self.watch.clone(), self.snapshot_memory)
    }

    /// Says how the pool on a medium waits for the disk, if that was asked for. A pool that is only read waits for
    /// nothing.
    pub(crate) fn choose_journal<M: Medium>(&self, medium: &mut M) -> Result<(), Fault> {
        if self.read_only {
            return Ok(());
        }
        if medium.facts().domain == Domain::Journal {
            self.wanted.fits_a_journal()?;
        }
        match self.asked() {
            Some(mode) if !medium.set_journal(mode) => Err(ErrorKind::JournalThere { has: false }.into()),
            _ => Ok(()),
        }
    }

    /// Has a mapping read as was asked for, and sets its domain, if one was asked for.
    pub(crate) fn taken(&self, mapped: Mapped) -> Mapped {
        let mapped = mapped.with_access(self.access);
        match self.domain {
            Some(domain) => mapped.with_domain(domain),
            None => mapped,
        }
    }

    /// Opens the pool that a medium holds.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except for what concerns files.
    pub fn open_on<M: Medium>(&self, medium: M) -> Result<Pool<M>> {
        let (name, began) = (medium.facts().name.to_owned(), Instant::now());
        self.existing(medium).map(|pool| self.watched(pool, began)).map_err(|fault| fault.in_pool(name))
    }

    fn existing<M: Medium>(&self, mut medium: M) -> Result<Pool<M>, Fault> {
        let (superblock, twin) = Superblock::read(&medium)?;
        // Without the marker, the pool's file has everything: the journal is just being added, or removed.
        let has_marker = medium.accessible() <= medium::MARKER || medium.load(medium::MARKER) != 0;
        if superblock.has_journal() && medium.facts().domain != Domain::Journal && has_marker {
            return Err(without_marker(&medium));
        }
        self.choose_journal(&mut medium)?;
        let grown = self.grown(&medium, superblock)?;
        let capacity = grown.geometry.capacity;
        if capacity > superblock.geometry.capacity && capacity > medium.facts().len {
            let (least, greatest) = (superblock.geometry.capacity, medium.facts().len);
            return Err(ErrorKind::Capacity { asked: capacity, least, greatest }.into());
        }
        self.pool(medium, (grown, twin), self.read_only)
    }

    /// Creates a pool on a medium, whatever the medium held. The pool's capacity is at most the medium's length.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open), except for what concerns files.
    pub fn create_on<M: Medium>(&self, medium: M) -> Result<Pool<M>> {
        let name = medium.facts().name.to_owned();
        if self.asked().is_some() {
            // Only a file has one.
            return Err(Fault::from(ErrorKind::JournalThere { has: false }).in_pool(name));
        }
        let began = Instant::now();
        self.create_in(medium, false).map(|pool| self.watched(pool, began)).map_err(|fault| fault.in_pool(name))
    }

    /// Creates a pool on a medium; `fresh` says that it holds nothing but zeros behind its first word.
    fn create_in<M: Medium>(&self, medium: M, fresh: bool) -> Result<Pool<M>, Fault> {
        if self.read_only || medium.facts().read_only {
            return Err(Fault::read_only());
        }
        let mut options = self.clone();
        if !fresh {
            let len = medium.facts().len;
            options.capacity = Some(self.capacity.map_or(len, |bytes| bytes.min(len)));
        }
        let geometry = options.geometry()?;
        medium.reserve(0, HEADER).map_err(Fault::space(HEADER, geometry.capacity))?;
        Superblock::conceive(&medium);
        if !fresh {
            zero_from(&medium, 8);
        }
        let mut superblock = Superblock::new(geometry);
        // Cut: the next open makes the log and the marker.
        superblock.set_journal(fresh && self.asked().is_some());
        self.pool(medium, (superblock, 0), false)
    }

    /// The superblock, checked against the medium, with the capacity that is asked for, if that is larger.
    fn grown<M: Medium>(&self, medium: &M, mut superblock: Superblock) -> Result<Superblock, Fault> {
        let capacity = superblock.geometry.capacity;
        superblock.check(medium, self.read_only)?;
        let has_journal = medium.facts().domain == Domain::Journal;
        if !self.read_only
            && !medium.facts().read_only
            && !has_journal
            && let Some(refusal) = superblock.refusal(medium.facts().boot)
        {
            return Err(refusal.into());
        }
        let asked = self.capacity.unwrap_or(0);
        if !self.read_only && asked > capacity {
            superblock.geometry.capacity = asked;
            superblock.geometry.check()?;
        }
        Ok(superblock)
    }
}

impl<M: Medium> PoolState<M> {
    /// Options for a new pool like this one, without a journal.
    pub(crate) fn options_like(&self) -> Options {
        let PoolGeometry { capacity, segment, .. } = self.superblock.lock().0.geometry;
        Options::default().capacity(capacity).segment_size(segment).journal(Journal::None)
    }
}

/// The redo lists that are to be replayed. After a crash of the machine that are none: what is there is of different
/// times.
fn live_lists<M: Medium>(m: &M, superblock: &Superblock) -> Result<Vec<lists::Live>, Fault> {
    if superblock.is_clean() || superblock.outlived(m.facts().boot) {
        return Ok(Vec::new());
    }
    lists::live(m, &Segments::open(m, superblock.geometry)?)
}

/// The error of a pool whose journal may have been applied in part: its log may have what the pool lacks.
fn without_marker<M: Medium>(medium: &M) -> Fault {
    let found = "the pool's marker, which says how far the log was applied, is damaged, or the pool is kept where no log can be: restore a \
                 copy of both";
    ErrorKind::Log { path: format!("{}.log", medium.facts().name), found }.into()
}

/// Whether there is a file with content. A file that cannot be inspected is taken to have some: opening it reports the
/// reason.
fn has_content(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(meta) => !meta.is_file() || meta.len() > 0,
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Zeroes the medium from an offset on, because what was never written is taken to be zero.
pub(crate) fn zero_from<M: Medium>(m: &M, from: u64) {
    let len = m.accessible() - from;
    for line in lines(from, len) {
        let words = (line.max(from)..(line + LINE).min(m.accessible())).step_by(8);
        words.filter(|&at| m.load(at) != 0).for_each(|at| m.store(at, 0));
    }
    // All lines: the zeros that a killed process stored may be in caches only.
    m.flush(from, len, Step::HeaderZero);
    m.fence(Step::HeaderZero);
}
