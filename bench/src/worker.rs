//! The process that fills a contestant and is killed.

use crate::media;
use crate::out::Outcome;
use crate::pipe::{Job, Worker};
use crate::plan::Contestant;
use std::path::PathBuf;
use std::process::ExitCode;

/// Insert keys and acknowledge them in binary
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// Label of the contestant
    pub(crate) contestant: Contestant,
    /// Where its files are, created if need be
    pub(crate) path: PathBuf,
    /// Capacity of the pool
    #[arg(long)]
    pub(crate) capacity: u64,
    #[command(flatten)]
    pub(crate) job: Job,
}

impl Args {
    /// Starts a process with these arguments.
    pub(crate) fn start(&self) -> Outcome<Worker> {
        let (label, path) = (self.contestant.label().into(), self.path.clone().into_os_string());
        Worker::start([label, path, "--capacity".into(), self.capacity.to_string().into()], self.job)
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (subject, _) = media::open(args.contestant, &args.path, Some(args.capacity))?;
    args.job.fill(|key, value| {
        subject.insert(key, value);
        subject.fault()
    })?;
    subject.close()?;
    Ok(ExitCode::SUCCESS)
}
