//! A contestant's tree in a pool of its own, and how long it takes to open the pool again.

use super::medium::{Switched, Switches, Tallies};
use super::tree::Contestant;
use super::work::{Crew, Step};
use crate::clock::Tick;
use crate::entry::Kind;
use crate::media;
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use crate::scratch::Scratch;
use bristlecone::medium::{Mapped, Mapping};
use bristlecone::{Journal, Pool};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// A tree, its pool, and the pool's path.
pub(crate) struct Stage {
    // In the order in which they must be dropped.
    pub(crate) tree: Box<dyn OrderedMap>,
    pub(crate) pool: Pool<Switched>,
    pub(crate) tallies: Arc<Tallies>,
    path: PathBuf,
    scratch: Scratch,
}

type Opened = (Box<dyn OrderedMap>, Pool<Switched>, Arc<Tallies>);

/// Opens the pool, and in it the contestant's tree, which is created if it is not there.
fn open(path: &Path, contestant: &Contestant, bytes: u32, switches: Switches) -> Outcome<Opened> {
    let mapped = Mapped::open(path, Mapping::Write)?;
    let switches = Switches { durable: contestant.durable, ..switches };
    let medium = Switched::new(mapped, switches);
    let tallies = medium.tallies();
    let pool = Pool::options().open_on(medium)?;
    Ok(((contestant.open)(&pool, bytes)?, pool, tallies))
}

/// Closes tree and pool orderly.
fn close((tree, pool, _): Opened) -> Outcome<()> {
    // The tree closes its pool, because it then has the last handle.
    drop(pool);
    tree.close()
}

impl Stage {
    /// A fresh tree for `n` keys, in a directory below this one.
    pub(crate) fn new(
        directory: Option<&Path>,
        contestant: &Contestant,
        (bytes, n): (u32, u64),
        switches: Switches,
    ) -> Outcome<Self> {
        let mut scratch = Scratch::new(directory)?;
        let path = scratch.file("figure.pool");
        // A pool that is created on a medium reads all of it, to check that it is zero; one that is created at a path
        // need not. Twice the usual space: some trees copy whole leaves, others let them grow, and a figure may insert
        // twice.
        Pool::options().capacity(media::capacity(n, Kind::Words) * 2).journal(Journal::None).open(&path)?.close()?;
        let (tree, pool, tallies) = open(&path, contestant, bytes, switches)?;
        Ok(Self { tree, pool, tallies, path, scratch })
    }

    /// Inserts `n` keys; then returns the milliseconds until the tree is open again, after a kill and after an orderly
    /// close.
    ///
    /// A kill leaves what the file holds at that time, so a copy of the file is opened.
    pub(crate) fn reopen(self, contestant: &Contestant, (bytes, n): (u32, u64), seed: u64) -> Outcome<[f64; 2]> {
        let crew = Crew::new(&*self.tree, n, 1, seed);
        crew.work(Step::Insert, 0).into_iter().for_each(|work| work(&mut Tick::idle()));
        let Self { tree, pool, tallies, path, mut scratch } = self;
        let killed = scratch.file("killed.pool");
        copy(&path, &killed).map_err(|error| format!("{}: {error}", killed.display()))?;
        let timed = |path: &Path| -> Outcome<f64> {
            let start = Instant::now();
            let opened = open(path, contestant, bytes, Switches::default())?;
            let ms = start.elapsed().as_secs_f64() * 1000.0;
            let crew = Crew::new(&*opened.0, n, 1, seed);
            crew.work(Step::Get, 0).into_iter().for_each(|work| work(&mut Tick::idle()));
            let lost = crew.wrong();
            if lost > 0 {
                return Err(format!("{}: {lost} of {n} keys are lost", contestant.name).into());
            }
            close(opened)?;
            Ok(ms)
        };
        let after_kill = timed(&killed)?;
        close((tree, pool, tallies))?;
        Ok([after_kill, timed(&path)?])
    }

    /// The path of a further file, which is removed with the stage.
    pub(crate) fn file(&mut self, name: &str) -> PathBuf {
        self.scratch.file(name)
    }

    /// Closes tree and pool orderly.
    pub(crate) fn close(self) -> Outcome<()> {
        let Self { tree, pool, tallies, path: _, scratch: _scratch } = self;
        close((tree, pool, tallies))
    }
}

/// Copies a file without its holes, which are most of a pool.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    const CHUNK: u64 = 1 << 20;
    let (mut from, mut to) = (File::open(from)?, File::create(to)?);
    let len = from.metadata()?.len();
    to.set_len(len)?;
    let mut chunk = Vec::new();
    for at in (0..len).step_by(CHUNK as usize) {
        chunk.clear();
        io::Read::take(&mut from, CHUNK).read_to_end(&mut chunk)?;
        if chunk.iter().any(|&byte| byte != 0) {
            to.seek(SeekFrom::Start(at))?;
            to.write_all(&chunk)?;
        }
    }
    Ok(())
}
