//! `rings`: the rings in shared memory, whose they are, and how one goes that nobody needs.

use crate::out::{self, Outcome};
use bristlecone::medium::{KeptRing, RingInMemory, RingSays};
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// Show the rings that pools with a journal have in /dev/shm, and remove those that nobody needs
///
/// A pool whose ring is in memory (`load --ring memory`), and every pool with a journal of older builds, has a ring
/// there as long as it is open. It stays after a kill, and has what the next open needs. If the pool is deleted
/// instead, the ring stays until the machine is restarted. Where its pool is, a ring does not say: `stat --json` shows
/// the uuid of a pool, which is in the ring's name. A pool that was closed in order needs no ring.
///
/// Nothing is removed that a process has open, whichever container it is in, nor what is another user's.
///
/// Exit codes: 0 it is done; 1 a ring that was to be removed is still there; 2 wrong arguments.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these [default: all in /dev/shm]
    #[arg(value_name = "RING")]
    rings: Vec<PathBuf>,
    /// Remove the rings that are named; if none is, those in which there is nothing
    #[arg(long)]
    remove: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What is known of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    InUse,
    /// It has nothing.
    Nothing,
    /// It is no ring.
    Other,
    /// Its pool may need it.
    Left,
}

impl State {
    fn of(ring: &RingInMemory) -> io::Result<Self> {
        Ok(match ring.says {
            _ if ring.is_locked()? => Self::InUse,
            RingSays::Nothing => Self::Nothing,
            RingSays::Other | RingSays::Unreadable => Self::Other,
            RingSays::Epoch { .. } => Self::Left,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::InUse => "in_use",
            Self::Nothing => "nothing",
            Self::Other => "other",
            Self::Left => "left",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::InUse => "in use",
            Self::Nothing => "there is nothing in it",
            Self::Other => "it is no ring, or a damaged one",
            Self::Left => "its pool needs it if it was not closed in order",
        }
    }
}

/// What is known of a ring, and what was done to it.
struct Found {
    ring: RingInMemory,
    state: State,
    /// Whether it was removed, if it was to be; or why not.
    removed: Option<Result<(), KeptRing>>,
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
            "removed": self.is_removed(),
            "kept": self.removed.as_ref().and_then(|removed| removed.as_ref().err()).map(KeptRing::to_string),
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
    let mut found = Vec::new();
    for ring in rings(&args.rings)? {
        let state = State::of(&ring).map_err(|error| format!("{}: {error}", ring.path.display()))?;
        let is_meant = args.remove && (!args.rings.is_empty() || state == State::Nothing);
        let removed = is_meant.then(|| ring.remove());
        found.push(Found { ring, state, removed });
    }
    let bytes: u64 = found.iter().map(|found| found.ring.bytes).sum();
    let removed = found.iter().filter(|found| found.is_removed()).count();
    if args.json {
        let rings: Vec<Value> = found.iter().map(Found::json).collect();
        out::json(&json!({ "rings": rings, "bytes": bytes, "removed": removed }))?;
    } else {
        found.iter().try_for_each(|found| out::text(&found.text()))?;
        let all = out::counted(found.len() as u64, "ring", "rings");
        out::text(&format!("{all}, {}; {removed} removed", out::bytes(bytes)))?;
    }
    let is_left = |found: &Found| matches!(found.removed, Some(Err(_)));
    Ok(if found.iter().any(is_left) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
