//! The process that is killed, from both sides: its threads change the trees and acknowledge each change over a pipe.

use super::work::{self, Series};
use super::{Args, Control};
use crate::out::Outcome;
use bristlecone::Journal;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Changes per thread until the process closes the pool orderly and opens it again.
const UNTIL_CLOSE: usize = 1500;

/// The killed process's side: it never ends by itself, except with an error.
pub(super) fn work(args: &Args, pool: &Path, life: u64) -> Outcome {
    let threads = args.threads;
    let mut series: Vec<Series> = (0..threads).map(|thread| Series::new(args.seed(), life, thread, threads)).collect();
    let early = args.control == Some(Control::Early);
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    loop {
        let mut options = args.options();
        if args.control == Some(Control::Unsynced) {
            options = options.journal(Journal::OnRequest);
        }
        let opened = options.open(pool)?;
        let trees = work::open(&opened, args.shape(), threads as usize)?;
        if args.control == Some(Control::Leak) {
            super::leak(&opened, life)?;
        }
        let thread = |(thread, series): (usize, &mut Series)| -> io::Result<()> {
            for op in series.take(UNTIL_CLOSE) {
                // One system call: either all eight bytes are in the pipe, or none.
                let acknowledge = || (&out).write_all(&(thread as u64).to_le_bytes());
                if early {
                    acknowledge()?;
                }
                trees.perform(thread, &op).map_err(io::Error::other)?;
                if !early {
                    acknowledge()?;
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| -> Outcome<()> {
            let running: Vec<_> = series.iter_mut().enumerate().map(|each| scope.spawn(|| thread(each))).collect();
            let ended =
                |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().map_err(|_| "a thread panicked".into());
            running.into_iter().try_for_each(|thread| ended(thread).and_then(|result: io::Result<()>| Ok(result?)))
        })?;
        drop(trees);
        opened.close()?;
    }
}

/// A running process, as the one that started it sees it.
pub(super) struct Worker {
    child: Child,
    pipe: ChildStdout,
    /// For each thread, how many changes it acknowledged.
    pub(super) acknowledged: Vec<u64>,
    /// Bytes of an acknowledgement that is not complete yet.
    partial: Vec<u8>,
}

impl Worker {
    pub(super) fn start(args: &Args, pool: &Path, life: u64) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("kill").args(args.for_worker()).arg("--life").arg(life.to_string()).arg("--pool").arg(pool);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let pipe = child.stdout.take().ok_or("the process has no pipe")?;
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        Ok(Self { child, pipe, acknowledged: vec![0; args.threads as usize], partial: Vec::new() })
    }

    /// Reads everything that is acknowledged by now. False at the end of the pipe.
    fn drain(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 1 << 12];
        loop {
            match self.pipe.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(read) => self.partial.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            let (whole, rest) = self.partial.as_chunks::<8>();
            for word in whole {
                let thread = usize::try_from(u64::from_le_bytes(*word)).unwrap_or(usize::MAX);
                let count = self.acknowledged.get_mut(thread);
                *count.ok_or_else(|| io::Error::other("an acknowledgement of no thread"))? += 1;
            }
            self.partial = rest.to_vec();
        }
    }

    /// Lets the process work for some time. False if it ended by itself.
    pub(super) fn run(&mut self, time: Duration) -> io::Result<bool> {
        let end = Instant::now() + time;
        loop {
            if !self.drain()? {
                return Ok(false);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(Duration::from_micros(200)));
        }
    }

    fn pid(&self) -> Outcome<Pid> {
        Ok(Pid::from_raw(self.child.id().cast_signed()).ok_or("no process has the number 0")?)
    }

    /// Stops the process, copies its pool, and lets it continue. Returns what was acknowledged while it was stopped;
    /// `None` if it ended instead.
    pub(super) fn stop_and_copy(&mut self, pool: &Path, copy: &Path) -> Outcome<Option<Vec<u64>>> {
        let pid = self.pid()?;
        kill_process(pid, Signal::STOP)?;
        let stopped = waitpid(Some(pid), WaitOptions::UNTRACED)?.is_some_and(|(_, status)| status.stopped());
        if !stopped {
            return Ok(None);
        }
        self.drain()?;
        let acknowledged = self.acknowledged.clone();
        // A process that is stopped before it created its pool has none.
        let there = pool.exists();
        if there {
            super::copy(pool, copy)?;
        }
        kill_process(pid, Signal::CONT)?;
        Ok(there.then_some(acknowledged))
    }

    /// Kills the process (`SIGKILL`), and reads what it had acknowledged. An error if it ended by itself.
    pub(super) fn kill(mut self) -> Outcome<Vec<u64>> {
        self.child.kill()?;
        let status = self.child.wait()?;
        self.drain()?;
        if !was_killed(status) {
            return Err(format!("the process failed: {status}").into());
        }
        Ok(std::mem::take(&mut self.acknowledged))
    }
}

fn was_killed(status: ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(&status) == Some(Signal::KILL.as_raw())
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Has no effect if it has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
