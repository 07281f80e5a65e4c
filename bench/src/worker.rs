//! The process that fills a contestant and is killed.

use crate::entry::{KeyArg, Kind, with_entry};
use crate::media::{self, Held};
use crate::out::Outcome;
use crate::pipe::{Job, Worker};
use crate::plan::Contestant;
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
}

impl Subject {
    pub(crate) fn contestant(&self) -> Outcome<Contestant> {
        Ok(Contestant::named(&self.label, self.key)?)
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::new(self.key, self.value)
    }

    /// The arguments that make this of them.
    pub(crate) fn arguments(&self) -> [OsString; 8] {
        let option = |name: &str, value: String| [name.into(), value.into()];
        let [[key, its], [value, bytes], [capacity, most]] = [
            option("--key", self.kind().key().to_owned()),
            option("--value", self.value.to_string()),
            option("--capacity", self.capacity.to_string()),
        ];
        [self.label.clone().into(), self.path.clone().into(), key, its, value, bytes, capacity, most]
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
    let Subject { path, capacity, .. } = &args.subject;
    let (subject, _) = media::open::<E>(args.subject.contestant()?, path, Some(*capacity))?;
    args.job.fill(|number, word, _| {
        let (mut key, mut value) = (E::KeyBuffer::default(), E::ValueBuffer::default());
        subject.insert(entry.key(number, &mut key), entry.value(word, &mut value));
        subject.fault()
    })?;
    subject.close()?;
    Ok(ExitCode::SUCCESS)
}
