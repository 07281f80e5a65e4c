//! `rings`: the rings in shared memory, whose they are, and which of them can go.

use crate::out::{self, Outcome};
use bristlecone::medium::{Kept, RingInMemory, RingSays, Trace};
use clap::ValueEnum;
use rustix::fs::{Mode, OFlags};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

/// Show the rings that pools with a journal have in /dev/shm, and remove those that nobody needs
///
/// A pool whose ring is in memory (`load --ring memory`), and every pool with a journal of older builds, has a ring there as long as it is
/// open. It stays after a kill, and has what the next open needs. If the pool is deleted instead, the ring stays until the machine is
/// restarted. Where its pool is, a ring does not say: --below looks for it.
///
/// Nothing is removed that a process has open, whichever container it is in, nor what is another user's.
///
/// Exit codes: 0 it is done; 1 a ring that was to be removed is still there; 2 wrong arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these [default: all in /dev/shm]
    #[arg(value_name = "RING")]
    rings: Vec<PathBuf>,
    /// Look for their pools and logs in all files below a directory; may be repeated
    #[arg(long, value_name = "DIR")]
    below: Vec<PathBuf>,
    /// Remove rings: `--remove`, `--remove=unfound`, `--remove=named`
    #[arg(long, value_name = "WHICH", num_args = 0..=1, default_missing_value = "unneeded", require_equals = true)]
    remove: Option<Which>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The rings to remove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Which {
    /// Those that are proven to be of no use: there is nothing in them; or --below finds their pool, which was closed in order
    Unneeded,
    /// Also those of which --below finds no pool that needs them: if all pools of this machine are there, those of containers, too
    Unfound,
    /// All that are named, unless --below finds a pool that was not closed in order
    Named,
}

/// What is known of a ring.
#[derive(Debug)]
enum State {
    InUse,
    /// It has nothing.
    Nothing,
    /// It is no ring.
    Other,
    /// A pool that was closed in order has had it.
    Left(PathBuf),
    /// A pool, or a log without its pool, may need it.
    Needed(PathBuf),
    /// There is no pool that needs it where it was looked for.
    Unfound,
    /// Nobody has looked for its pool.
    Unknown,
}

impl State {
    fn name(&self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::Nothing => "nothing",
            Self::Other => "other",
            Self::Left(_) => "left",
            Self::Needed(_) => "needed",
            Self::Unfound => "unfound",
            Self::Unknown => "unknown",
        }
    }

    /// The pool, or the log, that says so.
    fn path(&self) -> Option<&Path> {
        match self {
            Self::Left(path) | Self::Needed(path) => Some(path),
            _ => None,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::InUse => "in use".to_owned(),
            Self::Nothing => "there is nothing in it".to_owned(),
            Self::Other => "it is no ring, or a damaged one".to_owned(),
            Self::Left(pool) => format!("{} was closed in order, and needs it no more", pool.display()),
            Self::Needed(by) => format!("{} may need it: the pool was not closed in order", by.display()),
            Self::Unfound => "no pool was found that needs it".to_owned(),
            Self::Unknown => "its pool may need it".to_owned(),
        }
    }

    /// Which rings must be asked for so that this one is removed; `None` if it is kept in any case.
    fn needs(&self) -> Option<Which> {
        match self {
            Self::Nothing | Self::Left(_) => Some(Which::Unneeded),
            Self::Unfound => Some(Which::Unfound),
            Self::Unknown => Some(Which::Named),
            Self::InUse | Self::Other | Self::Needed(_) => None,
        }
    }
}

/// What there is of pools with a journal below some directories.
#[derive(Debug, Default)]
struct Census {
    /// By the pool's number.
    traces: HashMap<[u64; 2], Vec<(PathBuf, Trace)>>,
    /// Files and directories that could not be read.
    unread: u64,
}

impl Census {
    fn of(directories: &[PathBuf]) -> Outcome<Self> {
        let mut census = Self::default();
        for directory in directories {
            let failed = |error: io::Error| format!("{}: {error}", directory.display());
            let device = directory.canonicalize().and_then(|path| path.metadata()).map_err(failed)?.dev();
            let mut left = vec![(directory.canonicalize().map_err(failed)?, device)];
            // The directory that was named must be one.
            left[0].0.read_dir().map_err(failed)?;
            while let Some((path, device)) = left.pop() {
                census.read(&path, device, &mut left);
            }
        }
        Ok(census)
    }

    /// Notes what is in a directory, and which directories are to be read next, with the devices of those that they are in.
    fn read(&mut self, path: &Path, parent: u64, next: &mut Vec<(PathBuf, u64)>) {
        let Some(meta) = self.noted(std::fs::symlink_metadata(path)) else { return };
        if meta.dev() != parent && is_of_the_system(path) {
            return;
        }
        let Some(entries) = self.noted(std::fs::read_dir(path)) else { return };
        for entry in entries {
            let Some(entry) = self.noted(entry) else { continue };
            let Some(kind) = self.noted(entry.file_type()) else { continue };
            if kind.is_dir() {
                next.push((entry.path(), meta.dev()));
            } else if kind.is_file() {
                let trace = self.noted(trace(&entry.path())).flatten();
                if let Some((trace, Trace::Pool { uuid, .. } | Trace::Log { uuid })) = trace.map(|trace| (trace, trace))
                {
                    self.traces.entry(uuid).or_default().push((entry.path(), trace));
                }
            }
        }
    }

    /// What was read, if it could be. What is gone meanwhile was not there.
    fn noted<T>(&mut self, read: io::Result<T>) -> Option<T> {
        match read {
            Ok(found) => return Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(_) => self.unread += 1,
        }
        None
    }

    /// What the pools and logs that were found say of a ring.
    fn state(&self, ring: &RingInMemory) -> io::Result<State> {
        let traces = self.traces.get(&ring.uuid).map_or(&[][..], Vec::as_slice);
        let pools = traces.iter().filter(|(_, trace)| matches!(trace, Trace::Pool { .. }));
        for (path, _) in pools.clone() {
            if ring.is_left_by(path)? {
                return Ok(State::Left(path.clone()));
            }
        }
        let settled = |path: &Path| {
            let mut pools = pools.clone();
            pools.any(|(pool, trace)| pool == path && matches!(trace, Trace::Pool { is_settled: true, .. }))
        };
        // A log whose pool is not beside it may be one that was moved.
        let needs = |(path, trace): &&(PathBuf, Trace)| match trace {
            Trace::Pool { is_settled, .. } => !is_settled,
            Trace::Log { .. } => {
                !(path.extension().is_some_and(|end| end == "log") && settled(&path.with_extension("")))
            }
        };
        Ok(traces.iter().find(needs).map_or(State::Unfound, |(path, _)| State::Needed(path.clone())))
    }
}

/// What a file has to do with pools, by its content.
fn trace(path: &Path) -> io::Result<Option<Trace>> {
    /// No pool, and no log, is shorter.
    const LEAST: u64 = 8192;
    if std::fs::symlink_metadata(path)?.len() < LEAST {
        return Ok(None);
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Trace::of(File::from(rustix::fs::open(path, flags, Mode::empty())?))
}

/// Whether a directory belongs to the kernel, which keeps no pools there, and whose files may not like to be read.
fn is_of_the_system(path: &Path) -> bool {
    // proc, sysfs, cgroup, cgroup2, debugfs, tracefs, securityfs, devpts, configfs, bpf, efivarfs, pstore
    const SYSTEMS: [i64; 12] = [
        0x9fa0,
        0x6265_6572,
        0x27_e0eb,
        0x6367_7270,
        0x6462_6720,
        0x7472_6163,
        0x7363_6673,
        0x1cd1,
        0x6265_6570,
        0xcafe_4a11,
        0xde5e_81e4,
        0x6165_676c,
    ];
    rustix::fs::statfs(path).is_ok_and(|system| SYSTEMS.contains(&system.f_type))
}

/// What is known of a ring, and what was done to it.
struct Found {
    ring: RingInMemory,
    state: State,
    /// Whether it was removed, if it was to be; or why not.
    removed: Option<Result<(), Kept>>,
}

impl Found {
    fn is_removed(&self) -> bool {
        matches!(self.removed, Some(Ok(())))
    }

    fn json(&self) -> Value {
        let (epoch, this_boot) = match self.ring.says {
            RingSays::Epoch { epoch, is_this_boot } => (Some(epoch), is_this_boot),
            _ => (None, None),
        };
        json!({
            "path": self.ring.path.to_string_lossy(),
            "uuid": uuid(&self.ring),
            "form": if self.ring.log.is_some() { 1 } else { 2 },
            "log": self.ring.log.map(|[device, inode]| json!({ "device": device, "inode": inode })),
            "bytes": self.ring.bytes,
            "owner": self.ring.owner,
            "age_seconds": age(&self.ring),
            "epoch": epoch,
            "this_boot": this_boot,
            "state": self.state.name(),
            "pool": self.state.path().map(Path::to_string_lossy),
            "removed": self.is_removed(),
            "kept": self.removed.as_ref().and_then(|removed| removed.as_ref().err()).map(Kept::to_string),
        })
    }

    fn text(&self) -> String {
        let says = match self.ring.says {
            RingSays::Nothing => "empty".to_owned(),
            RingSays::Other => "not a ring".to_owned(),
            RingSays::Unreadable => "not to be read".to_owned(),
            RingSays::Epoch { epoch, is_this_boot } => {
                let boot = match is_this_boot {
                    Some(true) => "",
                    Some(false) => " in another boot, or container",
                    None => " in a boot that is not known",
                };
                format!("epoch {epoch}{boot}")
            }
        };
        let log = self.ring.log.map_or_else(String::new, |[device, inode]| {
            format!(", of the log with inode {inode} on device {}:{}", libc::major(device), libc::minor(device))
        });
        let done = match &self.removed {
            Some(Ok(())) => ": removed".to_owned(),
            Some(Err(kept)) => format!(": not removed, {kept}"),
            None => String::new(),
        };
        out::shown(&format!(
            "{}: {}, {} old, {says}{log}; {}{done}",
            self.ring.path.display(),
            out::bytes(self.ring.bytes),
            duration(age(&self.ring)),
            self.state.text(),
        ))
    }
}

fn uuid(ring: &RingInMemory) -> String {
    ring.uuid.iter().map(|word| format!("{word:016x}")).collect()
}

/// How long ago it was changed, in seconds.
fn age(ring: &RingInMemory) -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |now| now.as_secs());
    now.saturating_sub(u64::try_from(ring.changed).unwrap_or(0))
}

fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

/// The rings that are named, or all.
fn rings(named: &[PathBuf]) -> Outcome<Vec<RingInMemory>> {
    if named.is_empty() {
        return Ok(RingInMemory::all().map_err(|error| format!("/dev/shm: {error}"))?);
    }
    let mut rings = Vec::new();
    for path in named {
        let ring = RingInMemory::at(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let missing =
            || format!("{}: there is no ring with this path, which is /dev/shm/bristlecone-....ring", path.display());
        rings.push(ring.ok_or_else(missing)?);
    }
    Ok(rings)
}

pub(crate) fn run(args: Args) -> Outcome {
    if args.remove == Some(Which::Unfound) && args.below.is_empty() {
        return Err(crate::parse::Usage(
            "--remove=unfound is for --below: nobody has looked for their pools".to_owned(),
        )
        .into());
    }
    if args.remove == Some(Which::Named) && args.rings.is_empty() {
        return Err(crate::parse::Usage("--remove=named is for rings that are named".to_owned()).into());
    }
    let rings = rings(&args.rings)?;
    let census = Census::of(&args.below)?;
    let mut found = Vec::new();
    for ring in rings {
        let failed = |error: io::Error| format!("{}: {error}", ring.path.display());
        let state = match ring.says {
            _ if ring.is_locked().map_err(failed)? => State::InUse,
            RingSays::Nothing => State::Nothing,
            RingSays::Other | RingSays::Unreadable => State::Other,
            RingSays::Epoch { .. } => match census.state(&ring).map_err(failed)? {
                State::Unfound if args.below.is_empty() => State::Unknown,
                state => state,
            },
        };
        found.push(Found { ring, state, removed: None });
    }
    if let Some(which) = args.remove {
        if which == Which::Unfound && census.unread > 0 {
            let what = out::counted(census.unread, "file or directory", "files and directories");
            return Err(
                format!("{what} could not be read, so that a pool may have been missed; nothing was removed").into()
            );
        }
        for found in &mut found {
            // Whoever names a ring says that nobody needs it, whether its pool was looked for or not.
            let is_meant = found.state.needs().is_some_and(|needs| needs <= which);
            if is_meant {
                let pool = if let State::Left(pool) = &found.state { Some(&**pool) } else { None };
                found.removed = Some(found.ring.remove(pool));
            }
        }
    }
    report(&args, &census, &found)?;
    // Those that are named are to be gone.
    let is_left = |found: &Found| match found.removed {
        Some(Err(_)) => true,
        Some(Ok(())) => false,
        None => args.remove.is_some() && !args.rings.is_empty(),
    };
    Ok(if found.iter().any(is_left) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn report(args: &Args, census: &Census, found: &[Found]) -> Outcome<()> {
    let bytes = |is_meant: &dyn Fn(&Found) -> bool| {
        let those = found.iter().filter(|found| is_meant(found));
        those.fold((0, 0), |(count, bytes), found| (count + 1, bytes + found.ring.bytes))
    };
    let (all, all_bytes) = bytes(&|_| true);
    let (removed, removed_bytes) = bytes(&Found::is_removed);
    if args.json {
        out::json(&json!({
            "rings": found.iter().map(Found::json).collect::<Vec<_>>(),
            "bytes": all_bytes,
            "removed": removed,
            "removed_bytes": removed_bytes,
            "unread": census.unread,
        }))?;
        return Ok(());
    }
    found.iter().try_for_each(|found| out::text(&found.text()))?;
    let counted = |count, bytes| format!("{}, {}", out::counted(count, "ring", "rings"), out::bytes(bytes));
    let mut sum = counted(all, all_bytes);
    let mut add = |count, bytes, what: &str| {
        if count > 0 {
            sum.push_str(&format!("; {}{what}", counted(count, bytes)));
        }
    };
    add(removed, removed_bytes, " removed");
    for (needs, what) in [
        (Which::Unneeded, " that nobody needs: --remove removes them"),
        (
            Which::Unfound,
            " that no pool there needs: if all pools of this machine are there, --remove=unfound removes them",
        ),
        (Which::Named, " whose pools are not known: --below DIR looks for them"),
    ] {
        let is_left = |found: &Found| !found.is_removed() && found.state.needs() == Some(needs);
        let (count, bytes) = bytes(&is_left);
        add(count, bytes, what);
    }
    out::text(&sum)?;
    if census.unread > 0 {
        let what = out::counted(census.unread, "file or directory", "files and directories");
        out::aside(&format!("bristlecone: {what} could not be read, so that pools may have been missed"));
    }
    Ok(())
}
