//! This build next to another one, in processes that take turns: a machine that others use is now and then slower by
//! more than what a change costs.
//!
//! In each turn, both builds do the same work, with the same seed, one right after the other; the build that comes
//! first alternates. What counts is the ratio within a turn.

use crate::clock;
use crate::out::{self, Outcome};
use crate::plan::Plan;
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

/// What distinguishes a row of one build from its others.
const NAMES: [&str; 5] = ["layout", "peer", "node_bytes", "index", "mix"];

/// Options with a value that are not passed on, and those without.
const OWN: [&str; 3] = ["--against", "--repeat", "--seed"];
const OWN_FLAGS: [&str; 2] = ["--json", "--no-counts"];

/// CPU nanoseconds per operation of one row, turn by turn: of the other build, and of this one.
struct Row {
    of: Value,
    ns: Vec<[f64; 2]>,
}

/// Runs the plan with both builds, as often as it is to be repeated, and compares them.
pub(crate) fn run(plan: &Plan, other: &Path) -> Outcome<()> {
    let this = std::env::current_exe().map_err(|error| format!("this program: {error}"))?;
    let given = passed_on(std::env::args_os().skip(1));
    let mut rows: Vec<Row> = Vec::new();
    for turn in 0..plan.repeat {
        let seed = plan.seed.wrapping_add(turn.into());
        let mut builds = [(0, other), (1, this.as_path())];
        if turn % 2 == 1 {
            builds.reverse();
        }
        for (side, build) in builds {
            for (i, row) in measured(build, &given, seed)?.into_iter().enumerate() {
                let of = Value::from_iter(NAMES.map(|name| (name, row[name].clone())));
                if rows.len() == i {
                    rows.push(Row { of: of.clone(), ns: Vec::new() });
                }
                let known = rows.get_mut(i).filter(|known| known.of == of);
                let known = known.ok_or_else(|| format!("{}: it measures something else: {of}", build.display()))?;
                if known.ns.len() <= turn as usize {
                    known.ns.push([f64::NAN; 2]);
                }
                let ns = row["ns_per_op"]["cpu"].as_f64();
                known.ns[turn as usize][side] = ns.ok_or_else(|| format!("{}: no time in {row}", build.display()))?;
            }
        }
    }
    print(plan, other, &rows)
}

/// The arguments without those that are this process's own.
fn passed_on(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let (mut kept, mut skips) = (Vec::new(), false);
    for argument in arguments {
        let text = argument.to_str().unwrap_or_default();
        let is_own = |name: &&str| text.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        if std::mem::take(&mut skips) || OWN_FLAGS.contains(&text) {
            continue;
        }
        match OWN.into_iter().find(is_own) {
            Some(name) => skips = text == name,
            None => kept.push(argument),
        }
    }
    kept
}

/// What a build measures once.
fn measured(build: &Path, given: &[OsString], seed: u64) -> Outcome<Vec<Value>> {
    let seed = seed.to_string();
    let own = ["--json", "--no-counts", "--repeat", "1", "--seed", &seed].map(OsStr::new);
    let mut command = Command::new(build);
    command.args(given).args(own).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("{}: {error}", build.display()))?;
    if !output.status.success() {
        return Err(format!("{}: {}", build.display(), output.status).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    Ok(rows.map_err(|error| format!("{}: {error}", build.display()))?)
}

fn print(plan: &Plan, other: &Path, rows: &[Row]) -> Outcome<()> {
    if !plan.json {
        out::text(&format!(
            "{} keys, CPU time per operation: {} against this build, {} with seeds from {}\n\
             ratio: this build's time to the other's within a turn, the median, and the least and greatest; below 1 is faster\n\n\
             {:28} {:10} {:>9} {:>9} {:>7}  (least greatest)",
            out::count(plan.n),
            other.display(),
            out::counted(plan.repeat.into(), "turn", "turns"),
            plan.seed,
            "contestant",
            "mix",
            "other ns",
            "this ns",
            "ratio",
        ))?;
    }
    for Row { of, ns } in rows {
        let side = |side: usize| clock::median(&ns.iter().map(|ns| ns[side]).collect::<Vec<_>>());
        let ratios: Vec<f64> = ns.iter().map(|[other, this]| this / other).collect();
        let (least, greatest) = ratios.iter().fold((f64::MAX, f64::MIN), |(a, b), &ratio| (a.min(ratio), b.max(ratio)));
        let ratio = clock::median(&ratios);
        if plan.json {
            let mut row = of.clone();
            let round = |number: f64| out::rounded(number, 4);
            row["n"] = plan.n.into();
            row["seed"] = plan.seed.into();
            row["turns"] = plan.repeat.into();
            row["ns_per_op"] = json!({ "other": round(side(0)), "this": round(side(1)) });
            row["ratio"] = json!({ "median": round(ratio), "least": round(least), "greatest": round(greatest) });
            out::json(&row)?;
        } else {
            let names = ["layout", "peer", "node_bytes", "index"].map(|name| match &of[name] {
                Value::Null => String::new(),
                Value::String(text) => format!("{text} "),
                other => format!("{other} "),
            });
            let mix = of["mix"].as_str().unwrap_or_default();
            out::text(&format!(
                "{:28} {mix:10} {:9.1} {:9.1} {ratio:7.3}  ({least:5.3} {greatest:8.3})",
                names.concat().trim_end(),
                side(0),
                side(1),
            ))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_this_process_s_own_is_not_passed_on() {
        let given = [
            "--n",
            "5",
            "--against",
            "a b",
            "--json",
            "--seed=7",
            "--mix=get",
            "--repeat",
            "3",
            "--no-counts",
            "--keys",
            "zipfian",
        ];
        let kept = passed_on(given.into_iter().map(OsString::from));
        assert_eq!(kept, ["--n", "5", "--mix=get", "--keys", "zipfian"]);
    }
}
