//! The process that is killed: it inserts keys and acknowledges each on a pipe. Both ends of the pipe are here.

use crate::numbers::Keys;
use crate::out::{self, Outcome};
use crate::parse::{Index, Layout};
use crate::trees::{Shape, Values, with_types};
use bristlecone::medium::Medium;
use bristlecone::{Node, PTree, Pool, Result};
use clap::ValueEnum;
use std::ffi::OsString;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

/// The name of the tree that workers fill.
pub(crate) const TREE: &str = "worker";

/// Insert keys and acknowledge them in binary; started by `tour` and `bench`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Args {
    /// The pool, created if need be
    pub(crate) pool: PathBuf,
    #[arg(long)]
    pub(crate) capacity: u64,
    #[arg(long)]
    pub(crate) layout: Layout,
    #[arg(long)]
    pub(crate) slots: u32,
    #[arg(long)]
    pub(crate) index: Index,
    /// Of the series of keys
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
    /// A store instead of a pool, which is its directory
    #[arg(long)]
    pub(crate) peer: Option<String>,
}

impl Args {
    pub(crate) fn shape(&self) -> Shape {
        Shape { layout: self.layout, slots: self.slots, index: self.index, values: Values::Numbers }
    }

    fn command_line(&self) -> Vec<OsString> {
        let name =
            |value: Option<clap::builder::PossibleValue>| value.map(|v| v.get_name().to_owned()).unwrap_or_default();
        let options = [
            ("--capacity", self.capacity.to_string()),
            ("--layout", name(self.layout.to_possible_value())),
            ("--slots", self.slots.to_string()),
            ("--index", name(self.index.to_possible_value())),
            ("--seed", self.seed.to_string()),
            ("--from", self.from.to_string()),
            ("--to", self.to.to_string()),
            ("--every", self.every.to_string()),
        ];
        let mut line = vec!["worker".into(), self.pool.clone().into_os_string()];
        line.extend(self.peer.iter().flat_map(|peer| ["--peer".into(), peer.into()]));
        line.extend(options.into_iter().flat_map(|(option, value)| [option.into(), value.into()]));
        line
    }
}

/// The worker's side.
pub(crate) fn run(args: Args) -> Outcome {
    let pool = Pool::options().capacity(args.capacity).open(&args.pool)?;
    let tree = args.shape().open_numbers(&pool, TREE)?;
    fill(&args, |key, value| {
        tree.insert(key, value)?;
        Ok(())
    })?;
    drop(tree);
    pool.close()?;
    Ok(ExitCode::SUCCESS)
}

/// Inserts the keys and acknowledges them.
pub(crate) fn fill(args: &Args, insert: impl Fn(u64, u64) -> Outcome<()>) -> Outcome<()> {
    let keys = Keys::new(args.seed);
    let mut out = io::stdout().lock();
    for i in args.from..args.to {
        let key = keys.key(i);
        insert(key, Keys::value(key))?;
        let durable = i + 1;
        if durable.is_multiple_of(args.every) || durable == args.to {
            // The standard output keeps what does not end in a newline.
            out::written(out.write_all(&durable.to_le_bytes()).and_then(|()| out.flush()))?;
        }
    }
    Ok(())
}

/// A tree of numbers, for those who insert millions of them.
pub(crate) trait Numbers {
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>>;
    fn get(&self, key: u64) -> Option<u64>;
    fn len(&self) -> u64;
}

impl<N: Node, I: bristlecone::Index, M: Medium> Numbers for PTree<N, I, M> {
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.insert(key, value)
    }

    fn get(&self, key: u64) -> Option<u64> {
        self.get(key)
    }

    fn len(&self) -> u64 {
        self.len()
    }
}

impl Shape {
    /// Opens the tree of numbers of this shape, or creates it.
    pub(crate) fn open_numbers<M: Medium>(self, pool: &Pool<M>, name: &str) -> Outcome<Box<dyn Numbers>> {
        fn of<N: Node, I: bristlecone::Index, M: Medium>(pool: &Pool<M>, name: &str) -> Result<Box<dyn Numbers>> {
            Ok(Box::new(pool.tree::<N, I>(name)?))
        }
        let opened = with_types!(self, [32 64 128 256], N, I => of::<N, I, M>(pool, name));
        Ok(opened.ok_or_else(|| format!("{} are unknown", self.nodes()))??)
    }
}

/// How a worker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Killed,
    /// It had inserted all keys and closed the pool in order.
    Done,
}

/// A running worker, seen from the process that started it.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    acknowledgements: BufReader<ChildStdout>,
    durable: u64,
}

impl Worker {
    pub(crate) fn start(args: &Args) -> Outcome<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(args.command_line()).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| format!("cannot start the worker: {error}"))?;
        let pipe = child.stdout.take().ok_or("the worker has no pipe")?;
        Ok(Self { child, acknowledgements: BufReader::new(pipe), durable: args.from })
    }

    /// Reads one acknowledgement. False when there are no more.
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

    /// Waits until the worker has inserted all its keys and closed the pool.
    pub(crate) fn finish(mut self) -> Outcome<u64> {
        match self.end()? {
            (End::Done, durable) => Ok(durable),
            (End::Killed, _) => Err("the worker was killed by someone else".into()),
        }
    }

    fn end(&mut self) -> Outcome<(End, u64)> {
        // What was acknowledged before the end is still in the pipe.
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
        // Harmless after it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
