//! Redis: a hash table in the memory of another process, and a sorted set of its keys for scans, as YCSB's own client
//! for Redis has it. It listens to a Unix socket. A batch is a pipeline, and everything else waits for its answer.
//!
//! Its log is off, unless changes are to be durable: its log is brought to the disk each second then, or each answer
//! waits for that.

use super::encoded::Encoded;
use super::store::{Store, Wait};
use crate::out::Outcome;
use parking_lot::Mutex;
use redis::{Client, Cmd, Connection, Pipeline, cmd, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

pub(super) const PROGRAM: &str = "redis-server";
/// The sorted set. No key has this name: keys have eight bytes or more.
const ORDER: &str = "order";
/// The keys that a scan asks for at a time.
const CHUNK: usize = 100;
/// The commands of a pipeline.
const PIPELINE: usize = 1000;

/// Whether there is a server to be run.
pub(super) fn is_there() -> bool {
    let run = Command::new(PROGRAM).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

pub(crate) struct Redis {
    server: Child,
    client: Client,
    /// The connections that are not in use: a connection is for one thread at a time.
    idle: Mutex<Vec<Connection>>,
}

impl Redis {
    /// Waits until the server answers.
    fn wait(&self) -> Outcome<()> {
        let start = Instant::now();
        while let Err(error) = self.with(|connection| Ok(cmd("PING").exec(connection)?)) {
            if start.elapsed() > Duration::from_secs(10) {
                return Err(error);
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Lends a connection to `work`.
    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Outcome<T>) -> Outcome<T> {
        let idle = self.idle.lock().pop();
        let mut connection = idle.map_or_else(|| self.client.get_connection(), Ok)?;
        let result = work(&mut connection);
        self.idle.lock().push(connection);
        result
    }

    /// The values of keys that are there.
    fn values(&self, keys: &[Vec<u8>]) -> Outcome<Vec<Vec<u8>>> {
        self.with(|connection| Ok(cmd("MGET").arg(keys).query(connection)?))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn set<E: Encoded>(key: &E::Key<'_>, value: &E::Value<'_>) -> Cmd {
    let mut set = cmd("SET");
    set.arg(E::encode_key(key).as_ref()).arg(E::encode_value(value).as_ref());
    set
}

/// The commands of an insert.
fn inserted<E: Encoded>(pipeline: &mut Pipeline, key: &E::Key<'_>, value: &E::Value<'_>) {
    pipeline.add_command(set::<E>(key, value)).ignore();
    pipeline.cmd("ZADD").arg(ORDER).arg(0).arg(E::encode_key(key).as_ref()).ignore();
}

impl<E: Encoded> Store<E> for Redis {
    /// Starts a server with its files in this directory.
    fn open(directory: &Path, wait: Wait) -> Outcome<Self> {
        let socket = directory.join("redis.sock");
        let (append, sync) = match wait {
            Wait::Never => ("no", "no"),
            Wait::Often => ("yes", "everysec"),
            Wait::Each => ("yes", "always"),
        };
        // Before there is a server, which would be left running by an error.
        let client = Client::open(format!("redis+unix://{}", socket.display()))?;
        let server = Command::new(PROGRAM)
            .args(["--port", "0", "--save", "", "--loglevel", "warning", "--appendonly", append, "--appendfsync", sync])
            .arg("--unixsocket")
            .arg(&socket)
            .arg("--dir")
            .arg(directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{PROGRAM}: {error}"))?;
        let redis = Self { server, client, idle: Mutex::new(Vec::new()) };
        redis.wait()?;
        Ok(redis)
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        Store::<E>::put_all(self, &[(key, value)])
    }

    fn update(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        self.with(|connection| Ok(set::<E>(&key, &value).exec(connection)?))
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        let get = |connection: &mut Connection| -> Outcome<Option<Vec<u8>>> {
            Ok(cmd("GET").arg(E::encode_key(&key).as_ref()).query(connection)?)
        };
        self.with(get)?.map(|value| E::read_encoded(&value)).transpose()
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        let key = E::encode_key(&key);
        let mut both = pipe();
        both.cmd("DEL").arg(key.as_ref()).ignore();
        both.cmd("ZREM").arg(ORDER).arg(key.as_ref()).ignore();
        self.with(|connection| Ok(both.exec(connection)?))
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        let mut from = [b"[", E::encode_key(&from).as_ref()].concat();
        loop {
            let chunk = |connection: &mut Connection| -> Outcome<Vec<Vec<u8>>> {
                let mut range = cmd("ZRANGEBYLEX");
                range.arg(ORDER).arg(&from).arg("+").arg("LIMIT").arg(0).arg(CHUNK);
                Ok(range.query(connection)?)
            };
            let keys = self.with(chunk)?;
            let Some(last) = keys.last() else { return Ok(()) };
            for (key, value) in keys.iter().zip(self.values(&keys)?) {
                if !each(E::decode_key(key)?, E::decode_value(&value)?) {
                    return Ok(());
                }
            }
            from = [b"(", &last[..]].concat();
        }
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        for entries in entries.chunks(PIPELINE) {
            let mut pipeline = pipe();
            entries.iter().for_each(|(key, value)| inserted::<E>(&mut pipeline, key, value));
            self.with(|connection| Ok(pipeline.exec(connection)?))?;
        }
        Ok(())
    }

    /// Nothing is left to be done: an answer has waited for the log, if there is one.
    fn sync(&self) -> Outcome<()> {
        Ok(())
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        let mut pipeline = pipe();
        for key in keys {
            pipeline.cmd("GET").arg(E::encode_key(key).as_ref());
        }
        let found: Vec<Option<Vec<u8>>> = self.with(|connection| Ok(pipeline.query(connection)?))?;
        found.into_iter().map(|value| value.map(|value| E::read_encoded(&value)).transpose()).collect()
    }
}
