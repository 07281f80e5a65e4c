//! The tools for work on the library itself (feature `tools`): its checkers, and measurements.
//!
//! They share [`subjects`] (the trees that the checkers run on) and [`told`] (how far they are). `power` makes the
//! changes of `kill`.

mod bench;
mod crash;
#[cfg(target_os = "linux")]
mod kill;
mod lin;
#[cfg(target_os = "linux")]
mod power;
#[cfg(target_os = "linux")]
mod service;
mod subjects;
mod told;

use crate::out::Outcome;
use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Bench(bench::Args),
    Crash(crash::Args),
    Lin(lin::Args),
    #[cfg(target_os = "linux")]
    Kill(kill::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Power(power::Args),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Service(service::Args),
}

pub(crate) fn run(command: Command) -> Outcome {
    match command {
        Command::Bench(args) => bench::run(args),
        Command::Crash(args) => crash::run(args),
        Command::Lin(args) => lin::run(args),
        #[cfg(target_os = "linux")]
        Command::Kill(args) => kill::run(args),
        #[cfg(target_os = "linux")]
        Command::Power(args) => power::run(args),
        #[cfg(target_os = "linux")]
        Command::Service(args) => service::run(args),
    }
}
