//! `crash`: every crash state of small trees.

use crate::out::{self, Outcome};
use crate::parse::{self, Layout, Usage};
use bristlecone::crash::{Campaign, Control, History, Outcome as Found, Values, Violation};
use bristlecone::medium::Model;
use bristlecone::{Circular, Flat, FlatFixed, Index, Linear, Node, OneLine, Persistent, Volatile};
use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Check every state in which a crash can leave small trees
///
/// A simulated medium records every store, flush and fence. At each point where a crash may come, every content that the
/// lines may have is opened, recovered (and crashed again meanwhile), compared with a model, used, closed and opened.
/// Exit code 1 if any state is not what it must be.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Node layout
    #[arg(long, value_enum, default_value_t = Layout::OneLine)]
    layout: Layout,
    /// Slots of a node: 7 (two lines) for one_line, 4 to 8 for linear, 4 or 8 for circular [default: the least]
    #[arg(long)]
    slots: Option<u32>,
    /// Where the index lives
    #[arg(long, value_enum, default_value_t = parse::Index::Volatile)]
    index: parse::Index,
    /// What the hardware may reorder: as x86-64 (tso) or as aarch64 (weak)
    #[arg(long, value_enum, default_value_t = ModelName::Weak)]
    model: ModelName,
    /// What the values are
    #[arg(long, value_enum, default_value_t = ValuesName::Numbers)]
    values: ValuesName,
    /// All short histories, instead of random ones
    #[arg(long)]
    exhaustive: bool,
    /// Operations of a random history
    #[arg(long, default_value_t = 40)]
    ops: usize,
    /// Random histories
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// Seed of the random histories
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How often recovery is crashed in turn
    #[arg(long, default_value_t = 1)]
    depth: u32,
    /// Plant each possible bug (leave out one order, flush or fence) and see that it is found
    #[arg(long)]
    controls: bool,
    /// One history only, as a violation prints it, for example "i2=1 i4=2 r2"
    #[arg(long, value_name = "HISTORY")]
    replay: Option<History>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Memory models by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ModelName {
    Tso,
    Weak,
}

/// Kinds of values by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ValuesName {
    /// In the slots
    Numbers,
    /// Byte strings of all sizes, behind the slots
    Records,
}

pub(crate) fn run(args: Args) -> Outcome {
    match (args.layout, args.slots()) {
        (Layout::OneLine, 7) if args.index == parse::Index::Flat => checked::<OneLine<7>, Flat>(&args),
        (Layout::OneLine, 7) if args.index == parse::Index::FlatFixed => checked::<OneLine<7>, FlatFixed>(&args),
        (Layout::OneLine, 7) => with_index::<OneLine<7>>(&args),
        (Layout::Linear, 4) => with_index::<Linear<4>>(&args),
        (Layout::Linear, 5) => with_index::<Linear<5>>(&args),
        (Layout::Linear, 6) => with_index::<Linear<6>>(&args),
        (Layout::Linear, 7) => with_index::<Linear<7>>(&args),
        (Layout::Linear, 8) => with_index::<Linear<8>>(&args),
        (Layout::Circular, 4) => with_index::<Circular<4>>(&args),
        (Layout::Circular, 8) => with_index::<Circular<8>>(&args),
        (layout, slots) => {
            let what = format!(
                "no {} nodes of {slots} slots are checked: one_line 7, linear 4 to 8, circular 4 or 8",
                layout.name()
            );
            Err(Usage(what).into())
        }
    }
}

impl Args {
    fn slots(&self) -> u32 {
        self.slots.unwrap_or(if self.layout == Layout::OneLine { 7 } else { 4 })
    }
}

fn with_index<N: Node>(args: &Args) -> Outcome {
    match args.index {
        parse::Index::Volatile => checked::<N, Volatile>(args),
        parse::Index::Persistent => checked::<N, Persistent>(args),
        parse::Index::Flat | parse::Index::FlatFixed => {
            Err(Usage("a flat index is checked with one_line nodes".to_owned()).into())
        }
    }
}

fn checked<N: Node, I: Index>(args: &Args) -> Outcome {
    let model = match args.model {
        ModelName::Tso => Model::Tso,
        ModelName::Weak => Model::Weak,
    };
    let mut campaign = Campaign::new(model);
    campaign.values = match args.values {
        ValuesName::Numbers => Values::Numbers,
        ValuesName::Records => Values::Records,
    };
    campaign.seed = args.seed;
    campaign.depth = args.depth;
    let replay: Vec<History> = args.replay.iter().cloned().collect();
    let start = Instant::now();
    let progress = bar();
    let show = |done: usize, of: usize| {
        progress.set_length(of as u64);
        progress.set_position(done as u64);
    };
    if args.controls {
        let controls = campaign.controls::<N, I>(&replay, show);
        progress.finish_and_clear();
        return report_controls(args, &controls, start.elapsed());
    }
    let found = match (&args.replay, args.exhaustive) {
        (Some(history), _) => campaign.history::<N, I>(history),
        (None, true) => campaign.exhaustive::<N, I>(show),
        (None, false) => campaign.random::<N, I>(args.count, args.ops, show),
    };
    progress.finish_and_clear();
    report(args, &found, start.elapsed())
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} {eta}").unwrap_or(ProgressStyle::default_bar());
    ProgressBar::new(0).with_style(style)
}

fn values(args: &Args) -> &'static str {
    match args.values {
        ValuesName::Numbers => "numbers",
        ValuesName::Records => "records",
    }
}

/// The command that shows a violation again.
fn reproducer(args: &Args, violation: &Violation) -> String {
    format!("bristlecone crash {} --replay '{}'", what(args), violation.history)
}

fn what(args: &Args) -> String {
    let model = if args.model == ModelName::Tso { "tso" } else { "weak" };
    format!(
        "--layout {} --slots {} --index {} --values {} --model {model} --depth {}",
        args.layout.name(),
        args.slots(),
        args.index.name(),
        values(args),
        args.depth
    )
}

fn report(args: &Args, found: &Found, time: Duration) -> Outcome {
    if args.json {
        let violations: Vec<Value> = found
            .violations
            .iter()
            .map(|violation| {
                json!({
                    "what": violation.what,
                    "history": violation.history,
                    "cuts": violation.cuts,
                    "kept": violation.kept,
                    "reproduce": reproducer(args, violation),
                })
            })
            .collect();
        out::json(&json!({
            "layout": args.layout.name(),
            "slots": args.slots(),
            "index": args.index.name(),
            "values": values(args),
            "model": if args.model == ModelName::Tso { "tso" } else { "weak" },
            "histories": found.histories,
            "crash_points": found.points,
            "states": found.states,
            "distinct_states": found.distinct,
            "nested": found.in_recovery,
            "sampled_points": found.sampled,
            "complete": found.complete,
            "violations": found.violations.len(),
            "found": violations,
            "seconds": out::rounded(time.as_secs_f64(), 3),
        }))?;
    } else {
        out::text(&format!("{}: {} histories in {}", what(args), out::count(found.histories), out::time(time)))?;
        out::text(&format!(
            "  {} crash points, {} states opened, {} distinct; {} of them crashes inside recovery",
            out::count(found.points),
            out::count(found.states),
            out::count(found.distinct),
            out::count(found.in_recovery)
        ))?;
        if found.sampled > 0 {
            out::text(&format!("  {} crash points had too many states: sampled", out::count(found.sampled)))?;
        }
        for violation in &found.violations {
            out::text(&format!("violation: {violation}\n  again: {}", reproducer(args, violation)))?;
        }
        if found.violations.is_empty() {
            out::text("  no violation")?;
        }
    }
    Ok(if found.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn report_controls(args: &Args, controls: &[Control], time: Duration) -> Outcome {
    let missed = controls.iter().filter(|control| control.caught_by.is_none()).count();
    if args.json {
        let controls: Vec<Value> = controls
            .iter()
            .map(|control| {
                json!({
                    "left_out": control.kind.name(),
                    "file": control.file,
                    "line": control.line,
                    "caught_by": control.caught_by,
                })
            })
            .collect();
        out::json(&json!({
            "layout": args.layout.name(),
            "slots": args.slots(),
            "index": args.index.name(),
            "values": values(args),
            "controls": controls,
            "missed": missed,
            "seconds": out::rounded(time.as_secs_f64(), 3),
        }))?;
    } else {
        out::text(&format!("{}: {} planted bugs in {}", what(args), controls.len(), out::time(time)))?;
        for control in controls {
            let place = format!("{}:{}", control.file, control.line);
            let caught = match &control.caught_by {
                Some(history) if history.is_empty() => "found: by the creation".to_owned(),
                Some(history) => format!("found: {}", shortened(history)),
                None => "NOT FOUND: not needed by one thread under this model".to_owned(),
            };
            out::text(&format!("  without {:5} at {place:32} {caught}", control.kind.name()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shortened(history: &str) -> String {
    if history.len() <= 48 { history.to_owned() } else { format!("... {}", &history[history.len() - 44..]) }
}
