//! `crash`: every crash state of small trees.

use crate::out::{self, Outcome};
use crate::parse::{self, Usage};
use crate::tools::subjects::{KeysName, Subject, layouts, subjects};
use crate::tools::told::Told;
use bristlecone::crash::{Campaign, Control, History, Outcome as Found, Part, Values, Violation};
use bristlecone::medium::Model;
use bristlecone::{Node, OneLine};
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Check every state in which a crash can leave small trees
///
/// A simulated medium records every store, flush and fence. At each point where a crash may come, every content that
/// the lines may have is opened, recovered (and crashed again meanwhile), compared with a model, used, closed and
/// opened. Exit code 1 if any state is not what it must be.
///
/// How far it is, and about how long it still takes, is told on the standard error: on a terminal all the time,
/// elsewhere every ten seconds.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Node layout; those of the papers, and more sizes, need a binary with the feature papers
    #[arg(long, default_value = OneLine::<7>::NAME, value_parser = PossibleValuesParser::new(layouts()))]
    layout: String,
    /// Slots of a node [default: the fewest that are checked]
    #[arg(long)]
    slots: Option<u32>,
    /// Where the index lives
    #[arg(long, value_enum, default_value_t = parse::Index::Volatile)]
    index: parse::Index,
    /// What the hardware may reorder: as x86-64 (tso) or as aarch64 (weak)
    #[arg(long, value_enum, default_value_t = ModelName::Weak)]
    model: ModelName,
    /// A crash leaves pairs whole that are stored by one instruction
    #[arg(long)]
    whole_pairs: bool,
    /// What the values are
    #[arg(long, value_enum, default_value_t = ValuesName::Numbers)]
    values: ValuesName,
    /// What the keys of trees of byte strings are
    #[arg(long, value_enum, default_value_t = KeysName::Bytes)]
    keys: KeysName,
    /// All short histories, instead of random ones
    #[arg(long)]
    exhaustive: bool,
    /// Only the Kth of N parts of the short histories
    #[arg(long, value_name = "K/N", default_value_t = Part::WHOLE, requires = "exhaustive")]
    part: Part,
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

impl Args {
    /// The slots that were asked for, or that [`run`] has chosen.
    fn slots(&self) -> u32 {
        self.slots.unwrap_or_default()
    }
}

pub(crate) fn run(mut args: Args) -> Outcome {
    let of_layout = || subjects().filter(|subject| subject.layout == args.layout);
    let least = of_layout().map(|subject| subject.slots).min();
    let slots = *args.slots.get_or_insert(least.unwrap_or_default());
    let wanted = |subject: &&Subject| subject.slots == slots && subject.index == args.index.kind();
    let Some(subject) = of_layout().find(wanted) else {
        let known: Vec<_> =
            of_layout().map(|subject| format!("{} slots, {} index", subject.slots, subject.index.name())).collect();
        let asked = format!("{} nodes of {slots} slots with a {} index", args.layout, args.index.name());
        return Err(Usage(format!("no {asked} are checked; there is: {}", known.join("; "))).into());
    };
    checked(&args, subject)
}

fn checked(args: &Args, subject: &Subject) -> Outcome {
    let campaigns = subject.campaigns;
    let model = match args.model {
        ModelName::Tso => Model::Tso,
        ModelName::Weak => Model::Weak,
    };
    let mut campaign = Campaign::new(model);
    campaign.index = args.index.kind();
    campaign.values = match args.values {
        ValuesName::Numbers => Values::Numbers,
        ValuesName::Records => Values::Records,
    };
    campaign.keys = args.keys.shape();
    campaign.seed = args.seed;
    campaign.part = args.part;
    campaign.depth = args.depth;
    campaign.whole_pairs = args.whole_pairs;
    let replay: Vec<History> = args.replay.iter().cloned().collect();
    let start = Instant::now();
    let progress = Told::new("histories");
    let show = |done: usize, of: usize| progress.show(done, of);
    if args.controls {
        let controls = campaigns.controls(&campaign, &replay, &show);
        progress.end();
        return report_controls(args, &controls, start.elapsed());
    }
    let found = match (&args.replay, args.exhaustive) {
        (Some(history), _) => campaigns.history(&campaign, history),
        (None, true) => campaigns.exhaustive(&campaign, &show),
        (None, false) => campaigns.random(&campaign, (args.count, args.ops), &show),
    };
    progress.end();
    report(args, &found, start.elapsed())
}

fn values(args: &Args) -> &'static str {
    match args.values {
        ValuesName::Numbers => "numbers",
        ValuesName::Records => "records",
    }
}

/// What the keys are, of a tree of byte strings.
fn keys(args: &Args) -> Option<&'static str> {
    let of_strings = |subject: &Subject| subject.layout == args.layout && subject.has_byte_strings();
    subjects().any(of_strings).then_some(args.keys.name())
}

/// The command that reproduces a violation.
fn reproducer(args: &Args, violation: &Violation) -> String {
    format!("bristlecone crash {} --replay '{}'", what(args), violation.history)
}

fn what(args: &Args) -> String {
    let model = if args.model == ModelName::Tso { "tso" } else { "weak" };
    format!(
        "--layout {} --slots {} --index {} --values {}{} --model {model} --depth {}{}",
        args.layout,
        args.slots(),
        args.index.name(),
        values(args),
        keys(args).map_or(String::new(), |keys| format!(" --keys {keys}")),
        args.depth,
        if args.whole_pairs { " --whole-pairs" } else { "" }
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
            "layout": args.layout,
            "slots": args.slots(),
            "index": args.index.name(),
            "values": values(args),
            "keys": keys(args),
            "model": if args.model == ModelName::Tso { "tso" } else { "weak" },
            "part": args.part.to_string(),
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
        out::text(&format!(
            "{}: {}{} in {}",
            what(args),
            if args.part == Part::WHOLE { String::new() } else { format!("part {}, ", args.part) },
            out::counted(found.histories, "history", "histories"),
            out::time(time)
        ))?;
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
                    "step": control.step.name(),
                    "protocol": control.step.protocol(),
                    "caught_by": control.caught_by,
                })
            })
            .collect();
        out::json(&json!({
            "layout": args.layout,
            "slots": args.slots(),
            "index": args.index.name(),
            "values": values(args),
            "keys": keys(args),
            "controls": controls,
            "missed": missed,
            "seconds": out::rounded(time.as_secs_f64(), 3),
        }))?;
    } else {
        out::text(&format!("{}: {} planted bugs in {}", what(args), controls.len(), out::time(time)))?;
        for control in controls {
            let step = control.step.name();
            let caught = match &control.caught_by {
                Some(history) if history.is_empty() => "found: by the creation".to_owned(),
                Some(history) => format!("found: {}", shortened(history)),
                None => "NOT FOUND: not needed by one thread under this model".to_owned(),
            };
            out::text(&format!("  without {:5} of {step:22} {caught}", control.kind.name()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn shortened(history: &str) -> String {
    if history.len() <= 48 { history.to_owned() } else { format!("... {}", &history[history.len() - 44..]) }
}
