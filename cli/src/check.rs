//! `check`: every broken invariant of a pool.

use crate::opening::{self, Opening, with_ending};
use crate::out::{self, Outcome};
use crate::parse;
use bristlecone::stat::TreeInfo;
use bristlecone::{Broken, Error, ErrorKind, Pool, Recovery, Report, Verdict};
use serde_json::json;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Check every invariant of a pool; exit 1 if one is broken, 3 if a tree could not be checked
///
/// Trees whose nodes have sizes or layouts that only their own program knows are named, and not checked.
///
/// Exit codes: 0 everything was checked, and nothing is broken; 1 an invariant is broken, or the pool cannot be opened;
/// 2 wrong arguments; 3 nothing is broken in what was checked, and not everything was; 4 nothing is broken, and the
/// pool is refused until --after-power-loss makes it usable. A copy of the superblock, or of the header of a journal's
/// log, that is damaged, and of which the other one is whole, is named, and changes no code: nothing is missing, and
/// --repair writes it anew.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool file
    #[arg(value_parser = parse::pool())]
    pool: PathBuf,
    /// If no invariant is broken, make the pool usable again after a crash of the machine; without this, nothing is
    /// changed
    #[arg(long)]
    after_power_loss: bool,
    /// Write damaged copies anew of which the other one is whole; if the log of a journal is damaged, end it there, so
    /// that the pool can be used again; and then check
    ///
    /// If an invariant is broken, no copy is written.
    ///
    /// The log is kept as it was, as POOL.log.damaged (.damaged.2, and so on, if there is one). It is told how much is
    /// known to be lost: the pool is then as it was at one moment, and what came later is gone for good. Restore the
    /// log instead if you have a copy of the same time. With --without-ring, the ring may be missing, too.
    #[arg(long, conflicts_with_all = ["after_power_loss", "uncertain_ring"])]
    repair: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    opening: Opening,
}

/// The exit code if nothing is broken, and not everything was checked.
const NOT_ALL: u8 = 3;
/// The exit code if nothing is broken, and the pool can only be looked at.
const UNUSABLE: u8 = 4;

/// A broken invariant, or damage that leaves nothing to check.
struct Problem {
    at: u64,
    invariant: String,
    message: String,
}

impl Problem {
    /// `N1: a leaf has level 0` is invariant N1 of docs/design.md.
    fn new(at: u64, text: &str) -> Self {
        let named = text.split_once(": ").filter(|(id, _)| id.len() <= 3);
        let (invariant, message) = named.unwrap_or(("", text));
        Self { at, invariant: invariant.to_owned(), message: message.to_owned() }
    }
}

impl From<Broken> for Problem {
    fn from(broken: Broken) -> Self {
        Self::new(broken.at, broken.invariant)
    }
}

/// The problem, if the error is damage.
fn damage(error: &Error) -> Option<Problem> {
    match &error.kind {
        ErrorKind::Corrupt { at, invariant } => Some(Problem::new(*at, invariant)),
        ErrorKind::Superblock { at } => Some(Problem::new(*at, "S1: no superblock has the right checksum")),
        ErrorKind::Truncated { expected, found } => {
            let what = format!("the file ends here, and at least {} are in use", out::limit(*expected));
            Some(Problem::new(*found, &what))
        }
        _ => None,
    }
}

/// Returns the report, and whether the pool can be used as it is.
fn check(args: &Args) -> Result<(Report, bool), Error> {
    if args.after_power_loss {
        match args.opening.options(Pool::options()).open_after_power_loss(&args.pool) {
            Ok((pool, report)) => {
                opening::tell(&args.pool, &pool);
                return pool.close().map(|()| (report, true));
            }
            // The report has more details.
            Err(Error { kind: ErrorKind::Corrupt { .. }, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let pool = args.opening.open(Pool::options().read_only(true), &args.pool)?;
    Ok((pool.check()?, !pool.stat().power_loss))
}

/// One of two copies of something: it was damaged, and was written anew from the other one.
struct Mended {
    /// The name of what has two copies.
    of: &'static str,
    at: u64,
}

/// Opens a pool for writing, which writes damaged copies anew, if there is one. A pool in which something else is
/// wrong is left as it is.
fn mend(path: &Path, opening: Opening) -> Outcome<Vec<Mended>> {
    let options = opening.options(Pool::options().create(false));
    let Ok(pool) = options.clone().read_only(true).open(path) else { return Ok(Vec::new()) };
    let report = pool.check()?;
    let mended = [("superblock", report.damaged_twin), ("log", report.damaged_log_twin)];
    let mended: Vec<_> = mended.into_iter().filter_map(|(of, at)| Some(Mended { of, at: at? })).collect();
    if mended.is_empty() || !report.violations.is_empty() || pool.stat().power_loss {
        return Ok(Vec::new());
    }
    drop(pool);
    options.open(path)?.close()?;
    Ok(mended)
}

/// What was done to a pool whose log was damaged.
struct Repaired {
    /// The copy of the log as it was.
    kept: PathBuf,
    /// Entries that the log is known to have had, and that are lost.
    lost: u64,
}

/// Ends the log of a pool where it is damaged, if it is, and keeps a copy of it.
fn repair(path: &Path, opening: Opening) -> Outcome<Option<Repaired>> {
    match opening.options(Pool::options().read_only(true)).open(path) {
        Err(Error { kind: ErrorKind::LogDamaged { .. }, .. }) => {}
        // What else is wrong is for the check to say.
        _ => return Ok(None),
    }
    let log = with_ending(path, ".log");
    let kept = keep(&log).map_err(|error| format!("{}: it cannot be copied: {error}", log.display()))?;
    let pool = Pool::options().create(false).recovery(Recovery::ShortLog).open(path)?;
    let lost = pool.journal().map_or(0, |figures| figures.recovered.lost);
    pool.close()?;
    Ok(Some(Repaired { kept, lost }))
}

/// Copies a log, durably, to a file that was not there.
fn keep(log: &Path) -> io::Result<PathBuf> {
    let mut from = File::open(log)?;
    for n in 1..1000 {
        let kept = with_ending(log, &if n == 1 { ".damaged".to_owned() } else { format!(".damaged.{n}") });
        let mut to = match File::create_new(&kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
            to => to?,
        };
        let copied = to
            .set_permissions(from.metadata()?.permissions())
            .and_then(|()| io::copy(&mut from, &mut to))
            .and_then(|_| to.sync_all())
            .and_then(|()| sync_directory(&kept));
        return match copied {
            Ok(()) => Ok(kept),
            Err(error) => {
                let _ = std::fs::remove_file(&kept);
                Err(error)
            }
        };
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn sync_directory(of: &Path) -> io::Result<()> {
    let directory = of.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}

pub(crate) fn run(args: Args) -> Outcome {
    let repaired = if args.repair { repair(&args.pool, args.opening)? } else { None };
    let mended = if args.repair { mend(&args.pool, args.opening)? } else { Vec::new() };
    let report = match check(&args) {
        Ok(report) => Ok(report),
        Err(error) => Err(damage(&error).ok_or(error)?),
    };
    let is_open = report.is_ok();
    let (verdict, mut report, problems, usable) = match report {
        Err(problem) => (Verdict::Damaged, Report::default(), vec![problem], false),
        Ok((mut report, usable)) => {
            let (verdict, violations) = (report.verdict(), std::mem::take(&mut report.violations));
            (verdict, report, violations.into_iter().map(Problem::from).collect(), usable)
        }
    };
    let unchecked = std::mem::take(&mut report.unchecked);
    let Report { trees, leaves, entries, unfinished, damaged_twin, damaged_log_twin, .. } = report;
    if args.json {
        let problem = |p: &Problem| json!({ "at": p.at, "invariant": p.invariant, "message": p.message });
        out::json(&json!({
            "trees": trees,
            "leaves": leaves,
            "entries": entries,
            "unfinished": unfinished,
            "damaged_twin": damaged_twin,
            "damaged_log_twin": damaged_log_twin,
            "verdict": match verdict {
                Verdict::Clean => "clean",
                Verdict::Unchecked => "unchecked",
                _ => "damaged",
            },
            "repaired": repaired.as_ref().map(|repaired| json!({ "kept": repaired.kept.to_string_lossy(), "lost": repaired.lost })),
            "mended": mended.iter().map(|Mended { of, at }| json!({ "of": of, "at": at })).collect::<Vec<_>>(),
            "usable": problems.is_empty() && usable,
            "unchecked": unchecked.iter().map(|tree| &tree.name).collect::<Vec<_>>(),
            "problems": problems.iter().map(problem).collect::<Vec<_>>(),
        }))?;
    } else {
        match &repaired {
            Some(Repaired { kept, lost }) => {
                let lost = match lost {
                    0 => "nothing is known to be lost".to_owned(),
                    lost => format!("{} or more are lost", out::counted(*lost, "entry", "entries")),
                };
                let kept = out::shown(&kept.to_string_lossy());
                out::text(&format!("the log was damaged, and ends there now: {lost}; {kept} is the log as it was"))?;
            }
            None if args.repair
                && is_open
                && mended.is_empty()
                && damaged_twin.is_none()
                && damaged_log_twin.is_none() =>
            {
                out::text("there is nothing to repair: the log is not damaged")?
            }
            None => {}
        }
        for Mended { of, at } in &mended {
            let of = if *of == "log" { "the log's header" } else { "the superblock" };
            out::text(&format!("offset {at} ({at:#x}): this copy of {of} was damaged, and was written anew"))?;
        }
        for Problem { at, invariant, message } in &problems {
            let colon = if invariant.is_empty() { "" } else { ": " };
            out::text(&format!("offset {at} ({at:#x}): {invariant}{colon}{message}"))?;
        }
        if let Some(at) = damaged_twin {
            let what = "this copy of the superblock is damaged, or a crash has torn it; the other one is whole";
            out::text(&format!(
                "offset {at} ({at:#x}): {what}, and the next open for writing (`put`, say) writes both anew"
            ))?;
        }
        if let Some(at) = damaged_log_twin {
            let what = "this copy of the log's header is damaged; the other one is whole";
            out::text(&format!(
                "offset {at} ({at:#x}): {what}, and the next open for writing (`put`, say) writes both anew"
            ))?;
        }
        for TreeInfo { name, layout, index, .. } in &unchecked {
            let what = format!("layout {layout} with a {index} index, which only its own program knows");
            out::text(&format!("tree '{}' was not checked: it has {what}", out::shown(name)))?;
        }
        let verdict = match problems.len() as u64 {
            0 if verdict == Verdict::Unchecked => "nothing is broken in what was checked".to_owned(),
            0 => "clean".to_owned(),
            1000 => "1,000 broken invariants and perhaps more".to_owned(),
            n => out::counted(n, "broken invariant", "broken invariants"),
        };
        let shifts = match unfinished {
            0 => String::new(),
            n => format!("; {} for the next open to finish, which is legal", out::counted(n, "shift", "shifts")),
        };
        let trees = out::counted(trees, "tree", "trees");
        let more = match unchecked.len() {
            0 => String::new(),
            n => format!("; {n} not checked"),
        };
        let leaves = out::counted(leaves, "leaf", "leaves");
        let entries = out::counted(entries, "entry", "entries");
        out::text(&format!(
            "{}: {verdict}: {trees}, {leaves}, {entries}{shifts}{more}",
            out::shown(&args.pool.to_string_lossy())
        ))?;
        if problems.is_empty() && !usable {
            let why = "the machine was started anew (a loss of power, a crash, an orderly reboot after a kill, a copy on another machine), or the disk failed, before all changes were on the disk, so some may be missing";
            out::text(&format!("{why}; --after-power-loss makes the pool usable"))?;
        }
    }
    Ok(match verdict {
        Verdict::Clean | Verdict::Unchecked if !usable => ExitCode::from(UNUSABLE),
        Verdict::Clean => ExitCode::SUCCESS,
        Verdict::Unchecked => ExitCode::from(NOT_ALL),
        _ => ExitCode::FAILURE,
    })
}
