//! A process that inserts keys and acknowledges them on a pipe until it is killed. This file has both ends of the pipe.

use crate::numbers::Keys;
use crate::out::{self, Outcome};
use std::ffi::OsString;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// The subcommand that runs the worker.
const SUBCOMMAND: &str = "worker";

/// Which keys a worker inserts.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct Job {
    /// Seed of the series of keys
    #[arg(long)]
    pub(crate) seed: u64,
    /// The first key, by its place in the series
    #[arg(long)]
    pub(crate) from: u64,
    /// The key to stop before
    #[arg(long)]
    pub(crate) to: u64,
    /// Acknowledge every so many keys
    #[arg(long)]
    pub(crate) every: u64,
}

impl Job {
    /// The worker's side: inserts the keys and acknowledges them. `insert` is given key, value, and place in the
    /// series.
    pub(crate) fn fill(self, insert: impl Fn(u64, u64, u64) -> Outcome<()>) -> Outcome<()> {
        let keys = Keys::new(self.seed);
        let mut out = io::stdout().lock();
        for i in self.from..self.to {
            let key = keys.key(i);
            insert(key, Keys::value(key), i)?;
            let durable = i + 1;
            if durable.is_multiple_of(self.every) || durable == self.to {
                // The standard output buffers data that does not end in a newline.
                out::written(out.write_all(&durable.to_le_bytes()).and_then(|()| out.flush()))?;
            }
        }
        Ok(())
    }

    fn options(self) -> [(&'static str, u64); 4] {
        [("--seed", self.seed), ("--from", self.from), ("--to", self.to), ("--every", self.every)]
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// It had inserted all keys and closed the pool orderly.
    Done,
}

/// A running worker, as the process that started it sees it.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    acknowledgements: BufReader<ChildStdout>,
    durable: u64,
}

impl Worker {
    /// Runs this program again as a worker; `place` has the arguments that say what it fills.
    pub(crate) fn start(place: impl IntoIterator<Item = OsString>, job: Job) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(SUBCOMMAND).args(place).stdin(Stdio::null()).stdout(Stdio::piped());
        for (option, number) in job.options() {
            command.arg(option).arg(number.to_string());
        }
        let mut child = command.spawn().map_err(|error| format!("cannot start the worker: {error}"))?;
        let pipe = child.stdout.take().ok_or("the worker has no pipe")?;
        Ok(Self { child, acknowledgements: BufReader::new(pipe), durable: job.from })
    }

    /// Reads one acknowledgement. False if there are no more.
    fn read(&mut self) -> io::Result<bool> {
        let mut word = [0; 8];
        match self.acknowledgements.read_exact(&mut word) {
            Ok(()) => {
                self.durable = u64::from_le_bytes(word);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits until the keys before `place` in the series are acknowledged, or the worker has ended.
    pub(crate) fn wait_for(&mut self, place: u64) -> io::Result<()> {
        while self.durable < place && self.read()? {}
        Ok(())
    }

    /// Kills the worker (`SIGKILL`). Returns how it ended, and the place before which all keys were acknowledged.
    pub(crate) fn kill(mut self) -> Outcome<(End, u64)> {
        self.child.kill()?;
        self.end()
    }

    /// Kills the worker, which must have more to do, once the keys before `place` are acknowledged. Returns the place
    /// before which all keys were acknowledged in the end.
    pub(crate) fn kill_at(mut self, place: u64) -> Outcome<u64> {
        self.wait_for(place)?;
        match self.kill()? {
            (End::Killed, durable) => Ok(durable),
            (End::Done, _) => Err("the worker ended before it was killed".into()),
        }
    }

    /// Waits until the worker has inserted all its keys and closed the pool.
    pub(crate) fn finish(mut self) -> Outcome<u64> {
        match self.end()? {
            (End::Done, durable) => Ok(durable),
            (End::Killed, _) => Err("the worker was killed by someone else".into()),
        }
    }

    fn end(&mut self) -> Outcome<(End, u64)> {
        // Acknowledgements from before the end are still in the pipe.
        while self.read()? {}
        let status = self.child.wait()?;
        match status.code() {
            Some(0) => Ok((End::Done, self.durable)),
            // Ended by a signal; or, on Windows, by `kill`.
            None => Ok((End::Killed, self.durable)),
            Some(1) if cfg!(windows) => Ok((End::Killed, self.durable)),
            Some(_) => Err(format!("the worker failed: {status}").into()),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Has no effect if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
