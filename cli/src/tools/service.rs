//! `service`: a service of sessions within limited memory, as `scripts/memory.sh` runs it: two trees, changed together,
//! for some simulated days.

use crate::numbers::{Random, mix};
use crate::out::{self, Outcome};
use bristlecone::{Error, Map, Pool};
use serde_json::json;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

/// Run a service of sessions for some simulated days
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool
    #[arg(value_parser = crate::parse::pool())]
    pool: PathBuf,
    /// About how many sessions there are at a time
    #[arg(long, value_name = "N", default_value = "200000", value_parser = crate::parse::number)]
    sessions: u64,
    /// How many days
    #[arg(long, value_name = "N", default_value = "2", value_parser = crate::parse::number)]
    days: u64,
}

/// Milliseconds.
const DAY: u64 = 86_400_000;
/// A session ends so long after it was used last.
const LIFETIME: u64 = DAY;
/// For each session that begins, so many others are used.
const USES: u64 = 2;

/// The name of a session: as good as random, and then its number.
type Name = (u64, u64);

fn name(number: u64) -> Name {
    (mix(number), number)
}

/// Bytes of a session behind the time at which it ends: 150 to 250 in all.
fn value(ends: u64, random: u64) -> Vec<u8> {
    let mut value = vec![random as u8; 142 + (random >> 8) as usize % 100];
    value.splice(0..0, ends.to_be_bytes());
    value
}

fn ends(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

struct Service {
    pool: Pool,
    sessions: Map<Name, Vec<u8>>,
    /// Sessions in the order in which they end.
    order: Map<(u64, Name), ()>,
    random: Random,
    changes: u64,
}

impl Service {
    fn open(path: &PathBuf) -> Result<Self, Error> {
        let pool = Pool::options().open(path)?;
        let (sessions, order) = (pool.map("sessions")?, pool.map("order")?);
        Ok(Self { pool, sessions, order, random: Random::new(1), changes: 0 })
    }

    fn begin(&mut self, number: u64, now: u64) -> Result<(), Error> {
        let value = value(now + LIFETIME, self.random.word());
        self.changes += 1;
        self.pool.transaction(|tx| {
            tx.insert(&self.sessions, name(number), &value)?;
            tx.insert(&self.order, (now + LIFETIME, name(number)), ())
        })
    }

    /// Uses a session, if it has not ended.
    fn touch(&mut self, number: u64, now: u64) -> Result<(), Error> {
        let random = self.random.word();
        self.changes += 1;
        self.pool.transaction(|tx| {
            let Some(old) = tx.get(&self.sessions, name(number))? else { return Ok(()) };
            tx.remove(&self.order, (ends(&old), name(number)))?;
            tx.insert(&self.sessions, name(number), &value(now + LIFETIME, random))?;
            tx.insert(&self.order, (now + LIFETIME, name(number)), ())
        })
    }

    /// Ends the session that ends first, if its time has come.
    fn end(&mut self, now: u64) -> Result<bool, Error> {
        let has_ended = self.pool.transaction::<_, Error>(|tx| {
            let first = tx.range(&self.order, ..)?.next().transpose()?;
            let Some(((at, name), ())) = first.filter(|((at, _), ())| *at <= now) else { return Ok(false) };
            tx.remove(&self.sessions, name)?;
            tx.remove(&self.order, (at, name))?;
            Ok(true)
        })?;
        self.changes += u64::from(has_ended);
        Ok(has_ended)
    }

    /// How many sessions there are, if both trees say the same of each.
    fn agreed(&self) -> Result<Option<u64>, Error> {
        let mut count = 0;
        for entry in self.order.iter() {
            let ((at, name), ()) = entry?;
            if self.sessions.get(name)?.is_none_or(|value| ends(&value) != at) {
                return Ok(None);
            }
            count += 1;
        }
        Ok((count == self.sessions.len()).then_some(count))
    }
}

/// A figure of this process, in bytes.
fn memory(figure: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(figure));
    let kib = line.and_then(|line| line.trim_start_matches(':').trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or_default() << 10
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut service = Service::open(&args.pool)?;
    let began = Instant::now();
    let (step, mut now) = ((LIFETIME / args.sessions.max(1)).max(1), 0);
    for number in 1.. {
        now += step;
        if now >= args.days * DAY {
            break;
        }
        service.begin(number, now)?;
        for _ in 0..USES {
            let of = number - service.random.below(number.min(args.sessions.max(1)));
            service.touch(of, now)?;
        }
        while service.end(now)? {}
    }
    let seconds = began.elapsed().as_secs_f64();
    let (journal, changes) = (service.pool.journal(), service.changes);
    let before = service.agreed()?;
    let Service { pool, sessions, order, .. } = service;
    drop((sessions, order));
    pool.close()?;
    let service = Service::open(&args.pool)?;
    let after = service.agreed()?;
    let is_clean = service.pool.check()?.is_clean();
    out::json(&json!({
        "sessions": after,
        "changes": changes,
        "seconds": seconds,
        "most_resident_bytes": memory("VmHWM"),
        "pool_bytes": fs::metadata(&args.pool)?.len(),
        "budget_bytes": journal.as_ref().and_then(|journal| journal.budget),
        "evicted_pages": journal.as_ref().map(|journal| journal.evicted),
        "slowed_changes": journal.as_ref().map(|journal| journal.slowed),
        "clean": is_clean,
    }))?;
    let is_right = is_clean && before.is_some() && before == after;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
