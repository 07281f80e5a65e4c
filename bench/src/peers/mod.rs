//! Other maps and stores as further contestants: the same keys, the same process, turns in the same repeats.
//!
//! They differ in what they promise, and in what they can do; for the stores see [`store`].

mod canopydb;
mod encoded;
mod fjall;
mod lmdb;
#[cfg(feature = "peers-masstree")]
mod masstree;
mod radix;
mod redb;
mod redis;
#[cfg(feature = "peers-rocksdb")]
mod rocksdb;
mod sled;
mod sqlite;
mod store;
mod volatile;

use crate::btreemap::Ordinary;
use crate::conflict::Counters;
use crate::entry::{Bytes, KeyArg, Kind, Words};
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use crate::parse::Usage;
use crate::phases::{Phases, Trial, Workload};
use std::path::Path;
use store::{Store, Stored, Wait};

/// A peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    name: &'static str,
    kind: PeerKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PeerKind {
    BTreeMap,
    RwLock,
    Brie,
    Congee,
    Blart,
    #[cfg(feature = "peers-masstree")]
    Masstree,
    TreeIndex,
    SkipMap,
    /// A store, and when it waits for the disk.
    Store(Engine, Wait),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Redb,
    Lmdb,
    LmdbTxn,
    Canopydb,
    Fjall,
    Sled,
    Sqlite,
    Redis,
    #[cfg(feature = "peers-rocksdb")]
    RocksDb,
}

const PEERS: &[Peer] = &[
    Peer { name: "btreemap", kind: PeerKind::BTreeMap },
    Peer { name: "rwlock-btreemap", kind: PeerKind::RwLock },
    Peer { name: "brie-tree", kind: PeerKind::Brie },
    Peer { name: "congee", kind: PeerKind::Congee },
    Peer { name: "blart", kind: PeerKind::Blart },
    #[cfg(feature = "peers-masstree")]
    Peer { name: "masstree", kind: PeerKind::Masstree },
    Peer { name: "scc-treeindex", kind: PeerKind::TreeIndex },
    Peer { name: "crossbeam-skiplist", kind: PeerKind::SkipMap },
    Peer { name: "redb", kind: PeerKind::Store(Engine::Redb, Wait::Never) },
    Peer { name: "lmdb", kind: PeerKind::Store(Engine::Lmdb, Wait::Never) },
    Peer { name: "lmdb-txn", kind: PeerKind::Store(Engine::LmdbTxn, Wait::Never) },
    Peer { name: "canopydb", kind: PeerKind::Store(Engine::Canopydb, Wait::Never) },
    Peer { name: "fjall", kind: PeerKind::Store(Engine::Fjall, Wait::Never) },
    Peer { name: "sled", kind: PeerKind::Store(Engine::Sled, Wait::Never) },
    Peer { name: "sqlite", kind: PeerKind::Store(Engine::Sqlite, Wait::Never) },
    Peer { name: "redis", kind: PeerKind::Store(Engine::Redis, Wait::Never) },
    #[cfg(feature = "peers-rocksdb")]
    Peer { name: "rocksdb", kind: PeerKind::Store(Engine::RocksDb, Wait::Never) },
    Peer { name: "redb-sync", kind: PeerKind::Store(Engine::Redb, Wait::Often) },
    Peer { name: "lmdb-sync", kind: PeerKind::Store(Engine::Lmdb, Wait::Often) },
    Peer { name: "canopydb-sync", kind: PeerKind::Store(Engine::Canopydb, Wait::Often) },
    Peer { name: "fjall-sync", kind: PeerKind::Store(Engine::Fjall, Wait::Often) },
    Peer { name: "sled-sync", kind: PeerKind::Store(Engine::Sled, Wait::Often) },
    Peer { name: "sqlite-sync", kind: PeerKind::Store(Engine::Sqlite, Wait::Often) },
    Peer { name: "redis-sync", kind: PeerKind::Store(Engine::Redis, Wait::Often) },
    #[cfg(feature = "peers-rocksdb")]
    Peer { name: "rocksdb-sync", kind: PeerKind::Store(Engine::RocksDb, Wait::Often) },
];

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Whether its content outlives the process.
    pub(crate) fn is_store(self) -> bool {
        matches!(self.kind, PeerKind::Store(engine, _) if engine != Engine::Redis)
    }

    /// Whether it is a store that waits for the disk when it is told to. sled's flush waits until its log was handed to
    /// the disk (`sync_file_range`), and not until it is there.
    pub(crate) fn waits_for_disk(self) -> bool {
        matches!(self.kind, PeerKind::Store(engine, Wait::Never) if engine != Engine::Sled)
    }

    /// Makes it a store that is told to wait for the disk at each change.
    pub(crate) fn make_durable(&mut self) {
        if let PeerKind::Store(_, wait) = &mut self.kind {
            *wait = Wait::Each;
        }
    }

    /// Whether it is a store whose transactions are measured.
    pub(crate) fn has_transactions(self) -> bool {
        matches!(self.kind, PeerKind::Store(Engine::Redb | Engine::LmdbTxn, Wait::Never))
    }

    /// Whether several threads can use it.
    pub(crate) fn is_shared(self) -> bool {
        !matches!(self.kind, PeerKind::BTreeMap | PeerKind::Brie | PeerKind::Blart)
    }

    /// Whether this machine has it.
    fn is_there(self) -> bool {
        !matches!(self.kind, PeerKind::Store(Engine::Redis, _)) || redis::is_there()
    }

    /// Whether it takes such keys.
    fn takes(self, key: KeyArg) -> bool {
        match self.kind {
            PeerKind::Brie | PeerKind::Congee => key == KeyArg::U64,
            PeerKind::Blart => key != KeyArg::U64,
            #[cfg(feature = "peers-masstree")]
            PeerKind::Masstree => key != KeyArg::U64,
            PeerKind::BTreeMap | PeerKind::RwLock | PeerKind::TreeIndex | PeerKind::SkipMap | PeerKind::Store(..) => {
                true
            }
        }
    }
}

/// The peers with these names, each once. A name of many stands for those that take such keys, and that this machine
/// has.
pub(crate) fn chosen(names: &[String], key: KeyArg) -> Outcome<Vec<Peer>> {
    let mut chosen: Vec<Peer> = Vec::new();
    for name in names {
        let belongs = |peer: &&Peer| match name.as_str() {
            "all" => peer.takes(key) && !matches!(peer.kind, PeerKind::Store(_, Wait::Often)),
            "volatile" => peer.takes(key) && !matches!(peer.kind, PeerKind::Store(..)),
            "stores" => matches!(peer.kind, PeerKind::Store(_, Wait::Never)),
            "synced" => matches!(peer.kind, PeerKind::Store(_, Wait::Often)),
            name => peer.name == name,
        };
        let before = chosen.len();
        let mut found = false;
        for peer in PEERS.iter().filter(belongs) {
            found = true;
            if !peer.takes(key) {
                return Err(Usage(format!("{name} is not for keys of this kind")).into());
            }
            if !peer.is_there() {
                if peer.name == name.as_str() {
                    return Err(Usage(format!("{name} needs {}", redis::PROGRAM)).into());
                }
                continue;
            }
            if !chosen[..before].contains(peer) {
                chosen.push(*peer);
            }
        }
        if !found {
            let known: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
            let known = known.join(", ");
            let what = match name.as_str() {
                "masstree" => "'masstree' needs a binary with feature peers-masstree".to_owned(),
                "rocksdb" | "rocksdb-sync" => "'rocksdb' needs a binary with feature peers-rocksdb".to_owned(),
                name => format!("no peer is named '{name}'"),
            };
            return Err(Usage(format!("{what}; there is all, volatile, stores, synced, {known}")).into());
        }
    }
    Ok(chosen)
}

/// Runs `$body` with `$subject` as the peer, for entries of one type. The peer is empty, or, if it is a store, has its
/// files in a directory. `$others` are the peers that take no other entries.
macro_rules! with_peer {
    ($peer:expr, $directory:expr, $entry:ty, { $($(#[$cfg:meta])* $other:ident => $type:ty,)* }, $subject:ident => $body:expr) => {
        match $peer.kind {
            PeerKind::BTreeMap => with_peer!(@ $subject = Ordinary::<$entry>::default(), $body),
            PeerKind::RwLock => with_peer!(@ $subject = volatile::Locked::<$entry>::default(), $body),
            PeerKind::TreeIndex => with_peer!(@ $subject = volatile::Scc::<$entry>::default(), $body),
            PeerKind::SkipMap => with_peer!(@ $subject = volatile::Skip::<$entry>::default(), $body),
            $($(#[$cfg])* PeerKind::$other => with_peer!(@ $subject = <$type>::default(), $body),)*
            PeerKind::Store(engine, wait) => {
                let directory = $directory;
                match engine {
                    Engine::Redb => with_peer!(@ $subject = Stored::<redb::Redb, $entry>::open(directory, wait)?, $body),
                    Engine::Lmdb => with_peer!(@ $subject = Stored::<lmdb::Lmdb, $entry>::open(directory, wait)?, $body),
                    Engine::LmdbTxn => {
                        with_peer!(@ $subject = Stored::<lmdb::LmdbTxn, $entry>::open(directory, wait)?, $body)
                    }
                    Engine::Canopydb => {
                        with_peer!(@ $subject = Stored::<canopydb::Canopydb, $entry>::open(directory, wait)?, $body)
                    }
                    Engine::Fjall => {
                        with_peer!(@ $subject = Stored::<fjall::Fjall, $entry>::open(directory, wait)?, $body)
                    }
                    Engine::Sled => with_peer!(@ $subject = Stored::<sled::Sled, $entry>::open(directory, wait)?, $body),
                    Engine::Sqlite => {
                        with_peer!(@ $subject = Stored::<sqlite::Sqlite, $entry>::open(directory, wait)?, $body)
                    }
                    Engine::Redis => with_peer!(@ $subject = Stored::<redis::Redis, $entry>::open(directory, wait)?, $body),
                    #[cfg(feature = "peers-rocksdb")]
                    Engine::RocksDb => {
                        with_peer!(@ $subject = Stored::<rocksdb::RocksDb, $entry>::open(directory, wait)?, $body)
                    }
                }
            }
            _ => Err(format!("{} does not take such keys", $peer.name))?,
        }
    };
    (@ $subject:ident = $made:expr, $body:expr) => {{
        let $subject = $made;
        $body
    }};
}

/// [`with_peer`] for words.
macro_rules! with_words {
    ($peer:expr, $directory:expr, $subject:ident => $body:expr) => {
        with_peer!($peer, $directory, Words, {
            Brie => volatile::Brie,
            Congee => volatile::Art,
        }, $subject => $body)
    };
}

/// [`with_peer`] for byte strings.
macro_rules! with_bytes {
    ($peer:expr, $directory:expr, $subject:ident => $body:expr) => {
        with_peer!($peer, $directory, Bytes, {
            Blart => radix::Radix,
            #[cfg(feature = "peers-masstree")]
            Masstree => masstree::Mass,
        }, $subject => $body)
    };
}

/// An empty peer, or the store that has its files in this directory.
pub(crate) fn with_words(peer: Peer, directory: &Path) -> Outcome<Box<dyn OrderedMap>> {
    Ok(with_words!(peer, directory, subject => Box::new(subject)))
}

/// An empty peer of byte strings, or the store of byte strings that has its files in this directory.
pub(crate) fn with_bytes(peer: Peer, directory: &Path) -> Outcome<Box<dyn OrderedMap<Bytes>>> {
    Ok(with_bytes!(peer, directory, subject => Box::new(subject)))
}

/// A store whose transactions are measured.
pub(crate) fn counters(peer: Peer, directory: &Path) -> Outcome<Box<dyn Counters>> {
    std::fs::create_dir_all(directory)?;
    match peer.kind {
        PeerKind::Store(Engine::Redb, Wait::Never) => {
            Ok(Box::new(<redb::Redb as Store<Words>>::open(directory, Wait::Never)?))
        }
        PeerKind::Store(Engine::LmdbTxn, Wait::Never) => {
            Ok(Box::new(<lmdb::LmdbTxn as Store<Words>>::open(directory, Wait::Never)?))
        }
        _ => Err(format!("{}: its transactions are not measured", peer.name).into()),
    }
}

/// As these, to be measured.
pub(crate) fn trial(peer: Peer, directory: &Path, load: &Workload) -> Outcome<Box<dyn Trial>> {
    Ok(match load.kind {
        Kind::Words => with_words!(peer, directory, subject => Box::new(Phases::new(subject, Words, load))),
        Kind::Bytes(bytes) => with_bytes!(peer, directory, subject => Box::new(Phases::new(subject, bytes, load))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::{Entry, Text};
    use crate::numbers::Random;
    use std::collections::BTreeMap;

    /// Does the same to a subject and to a map of numbers and words, and compares the results.
    fn compare<E: Entry>(subject: &impl OrderedMap<E>, entry: E, last: u64) -> Outcome<()> {
        let (mut key_buffer, mut value_buffer) = Default::default();
        macro_rules! key {
            ($number:expr) => {
                entry.key($number, &mut key_buffer)
            };
        }
        macro_rules! value {
            ($word:expr) => {
                entry.value($word, &mut value_buffer)
            };
        }
        let mut model = BTreeMap::new();
        let mut random = Random::new(1);
        let batch: Vec<(u64, u64)> = (0..500).map(|i| (i * 7 + 3, !i)).collect();
        let mut buffers: Vec<(E::KeyBuffer, E::ValueBuffer)> = batch.iter().map(|_| Default::default()).collect();
        let made = batch
            .iter()
            .zip(&mut buffers)
            .map(|(&(number, word), (key, value))| (entry.key(number, key), entry.value(word, value)));
        subject.insert_batch(&made.collect::<Vec<_>>());
        model.extend(batch);
        for _ in 0..3000 {
            let (key, value) = (random.below(5000), random.word());
            match random.below(4) {
                0 => {
                    subject.insert(key!(key), value!(value));
                    model.insert(key, value);
                }
                1 if model.contains_key(&key) => {
                    subject.update(key!(key), value!(value));
                    model.insert(key, value);
                }
                2 => {
                    subject.remove(key!(key));
                    model.remove(&key);
                }
                _ => assert_eq!(subject.get(key!(key)), model.get(&key).copied()),
            }
        }
        subject.insert(key!(last), value!(5));
        model.insert(last, 5);
        // Many keys whose texts begin in the same way.
        for number in (0..1000).map(|_| (5 << 50) + random.below(1 << 49)) {
            subject.insert(key!(number), value!(!number));
            model.insert(number, !number);
        }
        for (&number, &word) in &model {
            let mut first = None;
            subject.scan(key!(number), |key, value| {
                first = Some(E::read_entry(key, value));
                false
            });
            assert_eq!(first, Some(E::read_entry(key!(number), value!(word))), "from {number}");
        }
        let keys: Vec<u64> = (0..100).map(|_| random.below(5000)).collect();
        let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
        let made = keys.iter().zip(&mut buffers).map(|(&number, (key, _))| entry.key(number, key));
        assert_eq!(subject.multi_get(&made.collect::<Vec<_>>()), expected);
        let mut all = 0;
        subject.scan(E::least(), |_, _| {
            all += 1;
            true
        });
        assert_eq!(all, model.len());
        for from in [0, 1, 17, 2500, 4999, 5000, last] {
            let mut found = Vec::new();
            subject.scan(key!(from), |key, value| {
                found.push(E::read_entry(key, value));
                true
            });
            let read = |(&number, &word): (&u64, &u64)| E::read_entry(key!(number), value!(word));
            let expected: Vec<_> = model.range(from..).map(read).collect();
            assert_eq!(found, expected, "from {from}");
            assert_eq!(subject.scan100(key!(from)), 100.min(expected.len() as u64));
        }
        subject.fault()
    }

    #[test]
    fn every_peer_is_an_ordered_map() -> Outcome<()> {
        for peer in PEERS {
            println!("{}", peer.name);
            if !peer.is_there() {
                continue;
            }
            if peer.takes(KeyArg::U64) {
                let directory = tempfile::tempdir()?;
                with_words!(peer, directory.path(), subject => {
                    assert_eq!(subject.is_shared(), peer.is_shared());
                    // All keys except the greatest.
                    compare(&subject, Words, u64::MAX - 1)?;
                });
            }
            for (text, value) in [(Text::User, 8), (Text::Uuid, 100)] {
                if peer.takes(KeyArg::User) {
                    let directory = tempfile::tempdir()?;
                    with_bytes!(peer, directory.path(), subject => {
                        assert_eq!(subject.is_shared(), peer.is_shared());
                        compare(&subject, Bytes { text, value }, u64::MAX / 2)?;
                    });
                }
            }
        }
        Ok(())
    }

    #[test]
    fn names_stand_for_one_or_many() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&names, KeyArg::U64).map(|peers| peers.iter().map(|peer| peer.name()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["lmdb", "sled-sync", "lmdb"]).unwrap(), ["lmdb", "sled-sync"]);
        let (all, volatile, stores) = (names(&["all"]), names(&["volatile"]), names(&["stores"]));
        assert_eq!(all.unwrap(), [volatile.unwrap(), stores.unwrap()].concat());
        assert!(names(&["stores", "lmdb", "all"]).unwrap().len() > 10);
        assert!(names(&["ldmb"]).unwrap_err().to_string().contains("no peer is named 'ldmb'"));
    }
}
