//! `info`: what this machine can do, and what that means for a pool.

use crate::journal;
use crate::opening::Opening;
use crate::out::{self, Outcome};
use crate::words;
use bristlecone::Pool;
use bristlecone::arch::{self, Flush};
use bristlecone::medium::{Domain, JournalStat, Mapped};
use serde_json::json;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Show the CPU's instructions, and what a crash takes away from a pool at PATH, or from a new one in that directory
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A pool, or the directory for one; nothing is created or changed there
    #[arg(default_value = ".")]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    opening: Opening,
}

/// The CPU's name, where the system has it.
fn cpu() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The path at which to look for the domain of a pool at this path, which need not exist yet.
fn place(path: &Path) -> Outcome<PathBuf> {
    let around = path.parent().map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
    match path.metadata() {
        Ok(_) => Ok(path.to_path_buf()),
        Err(error) if error.kind() == ErrorKind::NotFound && around.is_some_and(Path::is_dir) => {
            Ok(around.unwrap_or(path).to_path_buf())
        }
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
    }
}

/// The domain of a pool there; or the reason why it is not known before a pool exists.
fn domain(place: &Path) -> Outcome<Result<Domain, String>> {
    match Mapped::domain_at(place) {
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(format!("{}: {error}", place.display()).into()),
        found => Ok(found.map_err(|error| error.to_string())),
    }
}

/// What the flush instruction means for the user.
fn flush_note(flush: Flush, domain: Option<Domain>) -> &'static str {
    match (domain, flush) {
        (Some(Domain::Process | Domain::Journal), _) => "not used here: there is nothing to write back to",
        (Some(Domain::PowerWithCaches), _) => "not used here: the caches are persistent, a fence is enough",
        (_, Flush::None) => "this CPU has none: lines are not written back",
        (_, flush) if flush.evicts() => "writes a line back and evicts it: the next access misses",
        _ => "writes a line back, and may keep it in the cache",
    }
}

fn advice(domain: Domain) -> &'static str {
    match domain {
        Domain::Process => {
            "Writes cost no flush. kill -9, a panic or an abort loses nothing that was acknowledged.\n\
             A crash of the operating system or a power failure may lose or damage the pool, unless it has a\n\
             journal, as a new pool on a disk has: `journal add` gives one to a pool."
        }
        Domain::Journal => {
            "kill -9, a panic or an abort loses nothing that was acknowledged. A crash of the operating system\n\
             or a power failure loses nothing that was synced: each change as soon as it returns\n\
             (--journal each), after a time (--journal 10ms), or when the program asks (--journal request)."
        }
        Domain::Power => {
            "Every acknowledged write has been flushed and fenced: it outlives the process, the operating\n\
             system and the power."
        }
        Domain::PowerWithCaches => {
            "Every acknowledged write has been fenced, and the CPU's caches are saved when the power fails:\n\
             it outlives the process, the operating system and the power."
        }
        _ => "",
    }
}

/// The system's settings for huge pages: for ordinary memory (shadows and indexes), and for shared memory (pools).
fn huge_pages() -> [String; 2] {
    ["enabled", "shmem_enabled"].map(|which| {
        let text = std::fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{which}")).unwrap_or_default();
        // "always [madvise] never"
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
        chosen.map_or_else(|| "unknown".to_owned(), |(chosen, _)| chosen.to_owned())
    })
}

/// What there is of the journal, if the pool has one; or why that is not known.
fn looked_at(place: &Path, domain: Option<Domain>, opening: Opening) -> Option<Result<JournalStat, String>> {
    let found = || -> bristlecone::Result<_> { Ok(opening.open(Pool::options().read_only(true), place)?.journal()) };
    match (domain == Some(Domain::Journal) && !place.is_dir()).then(found)? {
        Ok(figures) => figures.map(Ok),
        Err(error) => Some(Err(words::of_kind(&error.kind))),
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let [huge_memory, huge_shared] = huge_pages();
    let place = place(&args.path)?;
    let (domain, unknown) = match domain(&place)? {
        Ok(domain) => (Some(domain), None),
        Err(why) => (None, Some(why)),
    };
    let journal = looked_at(&place, domain, args.opening);
    let flush = Flush::chosen();
    let available: Vec<&str> = Flush::ALL.into_iter().filter(|f| f.available()).map(Flush::name).collect();
    let cpu = cpu().unwrap_or_else(|| "unknown".to_owned());
    if args.json {
        out::json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "arch": std::env::consts::ARCH,
            "os": std::env::consts::OS,
            "cpu": cpu,
            "flush": flush.name(),
            "flush_available": available,
            "pair_method": arch::pair_method(),
            "search_method": arch::search_method(),
            "huge_pages": huge_memory,
            "huge_pages_shared": huge_shared,
            "line_bytes": arch::line_size(),
            "path": place.display().to_string(),
            "domain": domain.map(Domain::name),
            "promise": domain.map(Domain::promise),
            "unknown": unknown,
            "journal": journal.as_ref().and_then(|found| found.as_ref().ok()).map(journal::object),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    out::text(&format!(
        "bristlecone  {version}\n\
         CPU          {cpu}, {arch}, {os}; lines of {line} bytes\n\
         flush        {flush} (available: {available}); {note}\n\
         16 bytes     moved at once by: {pair}\n\
         search       compares words by: {search}\n\
         huge pages   shadows and indexes: {huge_memory}; pools in memory: {huge_shared} (from Linux 6.1 on, all but `deny` will do)\n\
         path         {place}\n\
         domain       {domain}{journal}",
        version = env!("CARGO_PKG_VERSION"),
        arch = std::env::consts::ARCH,
        os = std::env::consts::OS,
        line = arch::line_size(),
        available = available.join(", "),
        note = flush_note(flush, domain),
        pair = arch::pair_method(),
        search = arch::search_method(),
        place = out::shown(&place.to_string_lossy()),
        journal = match journal {
            None => String::new(),
            Some(Ok(figures)) => format!("\n\njournal      {}", journal::state(&figures)),
            Some(Err(why)) => format!("\n\njournal      {why}"),
        },
        domain = match (domain, unknown) {
            (Some(domain), _) => format!("{}: {}\n\n{}", domain.name(), domain.promise(), advice(domain)),
            (None, why) if place.is_dir() => format!("unknown until a pool is there: {}", why.unwrap_or_default()),
            (None, why) => format!("unknown: {}", why.unwrap_or_default()),
        },
    ))?;
    Ok(ExitCode::SUCCESS)
}
