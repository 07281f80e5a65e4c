//! `lin`: whether what many threads see of a tree can be explained by one operation after the other.

use crate::out::{self, Outcome};
use crate::parse::{self, Usage};
use crate::tools::subjects::{Campaigns, KeysName, Subject, layouts, subjects};
use bristlecone::crash::Values;
#[cfg(bristlecone_delays)]
use bristlecone::lin::Control;
use bristlecone::lin::{Campaign, Outcome as Found};
use clap::ValueEnum;
use clap::builder::PossibleValuesParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Check what many threads see of small trees at work
///
/// Rounds of some thousand operations on few keys, each with the times of its call and its return: what it answered
/// must be explained by one operation after the other. Built with `--cfg bristlecone_delays`, threads are held up where
/// they race. Exit code 1 if any history is not linearizable.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Node layouts, with commas between; those of the papers, and more sizes, need a binary with the feature papers
    #[arg(long, default_value = ALL, value_delimiter = ',', value_parser = PossibleValuesParser::new([ALL].into_iter().chain(layouts())))]
    layout: Vec<String>,
    /// Slots of a node [default: all that are checked]
    #[arg(long)]
    slots: Option<u32>,
    /// Where the index lives [default: each kind]
    #[arg(long, value_enum)]
    index: Option<parse::Index>,
    /// What the values are [default: both]
    #[arg(long, value_enum)]
    values: Option<ValuesName>,
    /// What the keys of trees of byte strings are [default: each]
    #[arg(long, value_enum)]
    keys: Option<KeysName>,
    /// Threads of a round; 0: two to eight, a different number in each
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=32))]
    threads: u16,
    /// Seconds in all
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Seed of the rounds
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Take the seed as that of one round, as a violation prints it, and repeat that round
    #[arg(long)]
    repeat: bool,
    /// On a simulated medium that is cut at random moments: what is found after a crash must be explained, too
    #[arg(long)]
    durable: bool,
    /// In a file with a journal, of whose private memory one page may be used, so that pages go all the time
    #[cfg(target_os = "linux")]
    #[arg(long, conflicts_with_all = ["durable", "control"])]
    journaled: bool,
    /// Plant bugs, one after the other, and see that each is found: leave out validations of readers, which takes a
    /// binary built with --cfg bristlecone_delays; with --durable, fences of writers
    #[arg(long)]
    control: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const ALL: &str = "all";

/// Kinds of values by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ValuesName {
    /// In the slots
    Numbers,
    /// Byte strings of many lengths, behind the slots
    Records,
}

impl ValuesName {
    fn name(self) -> &'static str {
        match self {
            Self::Numbers => "numbers",
            Self::Records => "records",
        }
    }

    fn values(self) -> Values {
        match self {
            Self::Numbers => Values::Numbers,
            Self::Records => Values::Records,
        }
    }
}

/// What to do with a tree.
#[derive(Debug, Clone, Copy)]
enum What {
    Rounds,
    Durable,
    #[cfg(target_os = "linux")]
    Journaled,
    #[cfg(bristlecone_delays)]
    Without(Control),
    DurableWithout,
}

impl What {
    /// Whether a planted bug must be found.
    fn is_control(self) -> bool {
        match self {
            Self::Rounds | Self::Durable => false,
            #[cfg(target_os = "linux")]
            Self::Journaled => false,
            #[cfg(bristlecone_delays)]
            Self::Without(_) => true,
            Self::DurableWithout => true,
        }
    }

    /// Whether it can be done with these trees: some controls leave out what only trees of byte strings have, or what
    /// only transactions have. (Of these, other controls than their own take long to be found.)
    fn is_for(self, subject: &Subject) -> bool {
        #[cfg(bristlecone_delays)]
        if let Self::Without(control) = self {
            return match control {
                Control::Reads | Control::Frozen => subject.is_two(),
                Control::Lag | Control::Still => subject.has_byte_strings() && !subject.is_two(),
                Control::Version | Control::Span => !subject.is_two(),
            };
        }
        !(self.is_control() && subject.is_two())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Rounds => "",
            Self::Durable => ", crashed",
            #[cfg(target_os = "linux")]
            Self::Journaled => ", in a file with a journal",
            #[cfg(bristlecone_delays)]
            Self::Without(Control::Version) => ", without the check of versions",
            #[cfg(bristlecone_delays)]
            Self::Without(Control::Span) => ", without the check of the range owned",
            #[cfg(bristlecone_delays)]
            Self::Without(Control::Lag) => ", without the look at whether a leaf lags",
            #[cfg(bristlecone_delays)]
            Self::Without(Control::Still) => ", without asking the index again",
            #[cfg(bristlecone_delays)]
            Self::Without(Control::Reads) => ", without looking again at what was read",
            #[cfg(bristlecone_delays)]
            Self::Without(Control::Frozen) => ", without freezing leaves for snapshots",
            Self::DurableWithout => ", crashed, without the fence before a leaf is unlocked",
        }
    }
}

/// Runs a campaign on one kind of tree.
fn checked(of: &dyn Campaigns, campaign: &Campaign, what: What, progress: &(dyn Fn(&Found) + Sync)) -> Found {
    match what {
        What::Rounds => of.rounds(campaign, progress),
        What::Durable => of.durable(campaign, progress),
        #[cfg(target_os = "linux")]
        What::Journaled => of.journaled(campaign, progress),
        #[cfg(bristlecone_delays)]
        What::Without(control) => of.control(campaign, control, progress),
        What::DurableWithout => of.durable_control(campaign, progress),
    }
}

/// A campaign on one kind of tree.
struct Job {
    subject: &'static Subject,
    values: ValuesName,
    /// The kind of keys, for a tree of byte strings.
    keys: Option<KeysName>,
    what: What,
}

impl Job {
    fn name(&self) -> String {
        let Subject { layout, slots, index, .. } = self.subject;
        let keys = self.keys.map_or(String::new(), |keys| format!(", keys {}", keys.name()));
        format!("{layout} {slots} {} {}{keys}{}", index.name(), self.values.name(), self.what.name())
    }

    fn arguments(&self) -> String {
        let Subject { layout, slots, index, .. } = self.subject;
        let durable = match self.what {
            What::Durable | What::DurableWithout => " --durable",
            #[cfg(target_os = "linux")]
            What::Journaled => " --journaled",
            _ => "",
        };
        let values = self.values.name();
        let keys = self.keys.map_or(String::new(), |keys| format!(" --keys {}", keys.name()));
        format!("--layout {layout} --slots {slots} --index {} --values {values}{keys}{durable}", index.name())
    }
}

fn jobs(args: &Args) -> Outcome<Vec<Job>> {
    let whats = match (args.control, args.durable) {
        #[cfg(target_os = "linux")]
        (false, false) if args.journaled => vec![What::Journaled],
        (false, false) => vec![What::Rounds],
        (false, true) => vec![What::Durable],
        (true, true) => vec![What::DurableWithout],
        #[cfg(bristlecone_delays)]
        (true, false) => {
            use Control::{Frozen, Lag, Reads, Span, Still, Version};
            [Version, Span, Lag, Still, Reads, Frozen].map(What::Without).to_vec()
        }
        #[cfg(not(bristlecone_delays))]
        (true, false) => {
            let what = "this binary leaves out no validations: build one with RUSTFLAGS='--cfg bristlecone_delays'";
            return Err(Usage(what.to_owned()).into());
        }
    };
    let is_wanted = |subject: &&Subject| {
        args.layout.iter().any(|layout| layout == ALL || layout == subject.layout)
            && args.slots.is_none_or(|slots| slots == subject.slots)
            && args.index.is_none_or(|index| index.kind() == subject.index)
    };
    let values = args.values.map_or(ValuesName::value_variants().to_vec(), |values| vec![values]);
    let of_strings = args.keys.map_or(KeysName::value_variants().to_vec(), |keys| vec![keys]);
    let mut jobs = Vec::new();
    for subject in subjects().filter(is_wanted) {
        let keys = if subject.has_byte_strings() {
            of_strings.iter().copied().map(Some).collect()
        } else {
            // A choice of keys is a choice of byte strings.
            Vec::from_iter(args.keys.is_none().then_some(None))
        };
        for (&keys, &values) in keys.iter().flat_map(|keys| values.iter().map(move |values| (keys, values))) {
            let whats = whats.iter().filter(|what| what.is_for(subject));
            jobs.extend(whats.map(|&what| Job { subject, values, keys, what }));
        }
    }
    if jobs.is_empty() {
        return Err(Usage("no such tree is checked: see bristlecone lin --help".to_owned()).into());
    }
    Ok(jobs)
}

pub(crate) fn run(args: Args) -> Outcome {
    let jobs = jobs(&args)?;
    let style = ProgressStyle::with_template("{elapsed_precise} {msg}").unwrap_or(ProgressStyle::default_bar());
    let bar = ProgressBar::new_spinner().with_style(style);
    let campaign =
        Campaign { threads: args.threads.into(), seed: args.seed, repeat: args.repeat, ..Campaign::default() };
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut done = Vec::new();
    let mut as_it_must_be = true;
    for (i, job) in jobs.iter().enumerate() {
        let values = job.values.values();
        // Time that one job leaves over is shared by the others.
        let time = end.saturating_duration_since(Instant::now()) / (jobs.len() - i) as u32;
        let keys = job.keys.map_or(campaign.keys, KeysName::shape);
        let (name, index, time) = (job.name(), job.subject.index, time.max(Duration::from_millis(1)));
        let campaign = Campaign { name, index, values, keys, time, ..campaign.clone() };
        let start = Instant::now();
        let found = checked(job.subject.campaigns, &campaign, job.what, &|found| {
            let rate = found.operations as f64 / start.elapsed().as_secs_f64();
            let rounds = out::count(found.rounds);
            bar.set_message(format!("{}: {rounds} rounds, {} operations/s", job.name(), out::count(rate as u64)));
        });
        let time = start.elapsed();
        as_it_must_be &= found.violations.is_empty() != job.what.is_control();
        if !args.json {
            bar.suspend(|| report(job, &campaign, &found, time))?;
        }
        done.push(as_json(job, &campaign, &found, time));
    }
    bar.finish_and_clear();
    if args.json {
        let sum = |key: &str| done.iter().filter_map(|job: &Value| job[key].as_u64()).sum::<u64>();
        out::json(&json!({
            "what": match (args.durable, args.control) {
                (false, false) => "histories",
                (true, false) => "histories that crash",
                (false, true) => "planted bugs",
                (true, true) => "planted bugs, with crashes",
            },
            "rounds": sum("rounds"),
            "operations": sum("operations"),
            "violations": done.iter().filter(|job| !job["violation"].is_null()).count(),
            "delays": cfg!(bristlecone_delays),
            "passed": as_it_must_be,
            "campaigns": done,
        }))?;
    } else {
        out::text(match (as_it_must_be, args.control) {
            (true, false) => "no violation",
            (false, false) => "NOT LINEARIZABLE",
            (true, true) => "every planted bug was found",
            (false, true) => "PLANTED BUGS WERE NOT FOUND",
        })?;
    }
    Ok(if as_it_must_be { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The command that searches for a violation again.
fn reproducer(job: &Job, campaign: &Campaign, seed: u64) -> String {
    format!("bristlecone lin {} --threads {} --repeat --seed {seed}", job.arguments(), campaign.threads)
}

fn report(job: &Job, campaign: &Campaign, found: &Found, time: Duration) -> Outcome<()> {
    let (rounds, operations) = (out::count(found.rounds), out::count(found.operations));
    let rate = out::count((found.operations as f64 / time.as_secs_f64()) as u64);
    let name = job.name();
    match found.violations.first() {
        Some(violation) if job.what.is_control() => {
            let what = violation.what.lines().next().unwrap_or_default();
            out::text(&format!("{name}: found after {}, {rounds} rounds: {what}", out::time(time)))?;
        }
        None if job.what.is_control() => {
            out::text(&format!("{name}: NOT FOUND in {}, {rounds} rounds", out::time(time)))?;
        }
        found => {
            let seconds = out::time(time);
            out::text(&format!("{name}: {rounds} rounds, {operations} operations in {seconds}, {rate}/s"))?;
            if let Some(violation) = found {
                out::text(&format!("violation: {violation}\n  again: {}", reproducer(job, campaign, violation.seed)))?;
            }
        }
    }
    Ok(())
}

fn as_json(job: &Job, campaign: &Campaign, found: &Found, time: Duration) -> Value {
    let violation = found.violations.first();
    json!({
        "layout": job.subject.layout,
        "slots": job.subject.slots,
        "index": job.subject.index.name(),
        "values": job.values.name(),
        "keys": job.keys.map(KeysName::name),
        "control": job.what.is_control(),
        "durable": matches!(job.what, What::Durable | What::DurableWithout),
        "rounds": found.rounds,
        "operations": found.operations,
        "seconds": out::rounded(time.as_secs_f64(), 3),
        "violation": violation.map(|violation| &violation.what),
        "reproduce": violation.map(|violation| reproducer(job, campaign, violation.seed)),
    })
}
