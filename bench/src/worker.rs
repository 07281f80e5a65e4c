//! The process that fills a contestant and is killed.

use crate::entry::{KeyArg, Kind, with_entry};
use crate::media::{self, Held};
use crate::out::Outcome;
use crate::parse;
use crate::pipe::{Job, Worker};
use crate::plan::Contestant;
use bristlecone::{Journal, Pool};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// A contestant that another process opens.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Subject {
    /// Label of the contestant
    pub(crate) label: String,
    /// Where its files are, created if need be
    pub(crate) path: PathBuf,
    /// What keys are
    #[arg(long)]
    pub(crate) key: KeyArg,
    /// Bytes of a value
    #[arg(long)]
    pub(crate) value: usize,
    /// Capacity of the pool
    #[arg(long)]
    pub(crate) capacity: u64,
    /// The journal of the pool, if it has one
    #[arg(long, value_parser = parse::journal)]
    pub(crate) journal: Option<Journal>,
}

impl Subject {
    pub(crate) fn contestant(&self) -> Outcome<Contestant> {
        Ok(Contestant::named(&self.label, self.key)?)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::new(self.key, self.value)
    }

    /// The arguments that make this of them.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let options = [
            ("--key", Some(self.kind().key().to_owned())),
            ("--value", Some(self.value.to_string())),
            ("--capacity", Some(self.capacity.to_string())),
            ("--journal", self.journal.map(parse::journal_name)),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.into(), value?.into()]));
        [self.label.clone().into(), self.path.clone().into()].into_iter().chain(given.flatten()).collect()
    }
}

/// Insert keys and acknowledge them in binary
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) subject: Subject,
    #[command(flatten)]
    pub(crate) job: Job,
}

impl Args {
    /// Starts a process with these arguments.
    pub(crate) fn start(&self) -> Outcome<Worker> {
        Worker::start(self.subject.arguments(), self.job)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    with_entry!(args.subject.kind(), entry => fill(entry, args))
}

fn fill<E: Held>(entry: E, args: &Args) -> Outcome {
    let Subject { path, capacity, journal, .. } = &args.subject;
    let (subject, _) = media::open::<E>(
        args.subject.contestant()?,
        path,
        Some(*capacity),
        media::with(Pool::options(), None, *journal),
    )?;
    args.job.fill(|number, word, _| {
        let (mut key, mut value) = (E::KeyBuffer::default(), E::ValueBuffer::default());
        subject.insert(entry.key(number, &mut key), entry.value(word, &mut value));
        subject.fault()
    })?;
    subject.close()?;
    Ok(ExitCode::SUCCESS)
}
