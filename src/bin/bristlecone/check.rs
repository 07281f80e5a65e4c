//! `check`: every broken invariant of a pool.

use crate::out::{self, Outcome};
use crate::parse;
use bristlecone::{Broken, Error, ErrorKind, Pool, Report, TreeInfo, Verdict};
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;

/// Check every invariant of a pool; exit 1 if one is broken, 3 if a tree could not be checked
///
/// Trees whose nodes have sizes or layouts that only their own program knows are named, and not checked.
///
/// Exit codes: 0 everything was checked, and nothing is broken; 1 an invariant is broken, or the pool cannot be opened; 2 wrong
/// arguments; 3 nothing is broken in what was checked, and not everything was. A copy of the superblock that is damaged, of which
/// the other one is whole, is named, and changes no code.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The pool file
    #[arg(value_parser = parse::pool())]
    pool: PathBuf,
    /// If no invariant is broken, make the pool usable again after a crash of the machine; without this, nothing is
    /// changed
    #[arg(long)]
    after_power_loss: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The exit code if nothing is broken, and not everything was checked.
const NOT_ALL: u8 = 3;

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
        match Pool::options().open_after_power_loss(&args.pool) {
            Ok((pool, report)) => return pool.close().map(|()| (report, true)),
            // The report has more details.
            Err(Error { kind: ErrorKind::Corrupt { .. }, .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let pool = Pool::options().read_only(true).open(&args.pool)?;
    Ok((pool.check()?, !pool.stat().power_loss))
}

pub(crate) fn run(args: Args) -> Outcome {
    let report = match check(&args) {
        Ok(report) => Ok(report),
        Err(error) => Err(damage(&error).ok_or(error)?),
    };
    let (verdict, mut report, problems, usable) = match report {
        Err(problem) => (Verdict::Damaged, Report::default(), vec![problem], false),
        Ok((mut report, usable)) => {
            let (verdict, violations) = (report.verdict(), std::mem::take(&mut report.violations));
            (verdict, report, violations.into_iter().map(Problem::from).collect(), usable)
        }
    };
    let unchecked = std::mem::take(&mut report.unchecked);
    let Report { trees, leaves, entries, unfinished, damaged_twin, .. } = report;
    if args.json {
        let problem = |p: &Problem| json!({ "at": p.at, "invariant": p.invariant, "message": p.message });
        out::json(&json!({
            "trees": trees,
            "leaves": leaves,
            "entries": entries,
            "unfinished": unfinished,
            "damaged_twin": damaged_twin,
            "verdict": match verdict {
                Verdict::Clean => "clean",
                Verdict::Unchecked => "unchecked",
                _ => "damaged",
            },
            "usable": problems.is_empty() && usable,
            "unchecked": unchecked.iter().map(|tree| &tree.name).collect::<Vec<_>>(),
            "problems": problems.iter().map(problem).collect::<Vec<_>>(),
        }))?;
    } else {
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
            let why = "the machine went down, or the disk failed, before all changes were on the disk, so some may be missing";
            out::text(&format!("{why}; --after-power-loss makes the pool usable"))?;
        }
    }
    Ok(match verdict {
        Verdict::Clean => ExitCode::SUCCESS,
        Verdict::Unchecked => ExitCode::from(NOT_ALL),
        _ => ExitCode::FAILURE,
    })
}
