//! The side that looks at what a cut has left.

use super::{CAPACITIES, Everything, Failed, Place, open, open_with_journal, options};
use crate::opening::Opening;
use crate::out::{self, Outcome};
use bristlecone::medium::{Mapped, Mapping};
use bristlecone::{Journal, PTree, Pool};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    directory: PathBuf,
    /// What is there for sure: all changes up to this one
    sure: u64,
    /// The last change that may be there
    most: u64,
    #[command(flatten)]
    opening: Opening,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match verify(args) {
        Ok(found) => {
            out::text(&found)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            let error = Failed::from(error);
            // The script that cuts the power shows the standard output.
            out::text(&error.message)?;
            Ok(error.code())
        }
    }
}

fn verify(&Args { ref directory, sure, most, opening }: &Args) -> Outcome<String> {
    let place = Place { directory: directory.clone() };
    let (path, threads) = (place.pool(), place.chosen()?);
    if sure > 0 && (threads.is_none() || !path.exists()) {
        return Err("there is no pool".into());
    }
    let threads = threads.unwrap_or(1);
    let within = (sure, most);
    if opening.gives_up() {
        opening.open(options(CAPACITIES[0]), &path)?.close()?;
    }
    // Without a change first: the next process might see something else.
    let mut seen = None;
    if sure > 0 {
        let report = Pool::options().read_only(true).open(&path)?.check()?;
        if let Some(broken) = report.violations.first() {
            return Err(format!("to be read: {broken}").into());
        }
        let pool = Pool::options().open_on(Mapped::open(&path, Mapping::Copy)?)?;
        let trees = open(&pool, threads)?;
        seen = Some(Everything::read(&*trees, threads)?.explained(within, threads)?);
        // Nothing of this reaches the file.
        drop(trees);
        pool.close()?;
    }
    let mut made = Vec::new();
    for round in 0..2 {
        let pool = open_with_journal(&place, CAPACITIES[0], Journal::Each)?;
        let trees = open(&pool, threads)?;
        made = Everything::read(&*trees, threads)?.explained(within, threads)?;
        if seen.as_ref().is_some_and(|seen| *seen != made) {
            return Err(format!("{seen:?} changes were there, and then {made:?}").into());
        }
        seen = Some(made.clone());
        let report = pool.check()?;
        let broken = report.violations.iter().map(ToString::to_string).chain(trees.broken()).next();
        if let Some(broken) = broken {
            return Err(broken.into());
        }
        // It goes on.
        let probe: PTree = pool.tree("probe")?;
        (0..50).try_for_each(|key| probe.insert(key, round).map(drop))?;
        pool.sync()?;
        drop((probe, trees));
        pool.close()?;
    }
    Ok(format!("{made:?} changes of {sure} to {most}"))
}
