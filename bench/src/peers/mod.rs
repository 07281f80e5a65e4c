//! Other maps and stores, as further contestants: the same keys, the same process, turns in the same repeats.
//!
//! What they promise differs, and so does what they can do; of the stores see [`store`].

mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "peers-rocksdb")]
mod rocksdb;
mod sled;
mod sqlite;
mod store;
mod volatile;

use super::media;
use super::phases::Visit;
use super::subject::Ordinary;
use crate::out::Outcome;
use crate::parse::Usage;
use crate::reopen::Filled;
use crate::scratch::Scratch;
use std::path::Path;
use store::{Store, Stored};

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Peer {
    name: &'static str,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    BTreeMap,
    RwLock,
    Brie,
    Congee,
    TreeIndex,
    SkipMap,
    /// A store, and whether it syncs once in a while.
    Store(Engine, bool),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Engine {
    Redb,
    Lmdb,
    Fjall,
    Sled,
    Sqlite,
    #[cfg(feature = "peers-rocksdb")]
    RocksDb,
}

const PEERS: &[Peer] = &[
    Peer { name: "btreemap", kind: Kind::BTreeMap },
    Peer { name: "rwlock-btreemap", kind: Kind::RwLock },
    Peer { name: "brie-tree", kind: Kind::Brie },
    Peer { name: "congee", kind: Kind::Congee },
    Peer { name: "scc-treeindex", kind: Kind::TreeIndex },
    Peer { name: "crossbeam-skiplist", kind: Kind::SkipMap },
    Peer { name: "redb", kind: Kind::Store(Engine::Redb, false) },
    Peer { name: "lmdb", kind: Kind::Store(Engine::Lmdb, false) },
    Peer { name: "fjall", kind: Kind::Store(Engine::Fjall, false) },
    Peer { name: "sled", kind: Kind::Store(Engine::Sled, false) },
    Peer { name: "sqlite", kind: Kind::Store(Engine::Sqlite, false) },
    #[cfg(feature = "peers-rocksdb")]
    Peer { name: "rocksdb", kind: Kind::Store(Engine::RocksDb, false) },
    Peer { name: "redb-sync", kind: Kind::Store(Engine::Redb, true) },
    Peer { name: "lmdb-sync", kind: Kind::Store(Engine::Lmdb, true) },
    Peer { name: "fjall-sync", kind: Kind::Store(Engine::Fjall, true) },
    Peer { name: "sled-sync", kind: Kind::Store(Engine::Sled, true) },
    Peer { name: "sqlite-sync", kind: Kind::Store(Engine::Sqlite, true) },
    #[cfg(feature = "peers-rocksdb")]
    Peer { name: "rocksdb-sync", kind: Kind::Store(Engine::RocksDb, true) },
];

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Whether it outlives a process.
    pub(crate) fn is_store(self) -> bool {
        matches!(self.kind, Kind::Store(..))
    }

    /// Whether several threads can use it.
    pub(crate) fn is_shared(self) -> bool {
        !matches!(self.kind, Kind::BTreeMap | Kind::Brie)
    }
}

/// The peers of these names, each once.
pub(crate) fn chosen(names: &[String]) -> Outcome<Vec<Peer>> {
    let mut chosen: Vec<Peer> = Vec::new();
    for name in names {
        let belongs = |peer: &&Peer| match name.as_str() {
            "all" => !matches!(peer.kind, Kind::Store(_, true)),
            "volatile" => !matches!(peer.kind, Kind::Store(..)),
            "stores" => matches!(peer.kind, Kind::Store(_, false)),
            "synced" => matches!(peer.kind, Kind::Store(_, true)),
            name => peer.name == name,
        };
        let before = chosen.len();
        let mut found = false;
        for peer in PEERS.iter().filter(belongs) {
            found = true;
            if !chosen[..before].contains(peer) {
                chosen.push(*peer);
            }
        }
        if !found {
            let known: Vec<&str> = PEERS.iter().map(|peer| peer.name).collect();
            let known = known.join(", ");
            let what = match name.as_str() {
                "rocksdb" | "rocksdb-sync" => "'rocksdb' needs a binary with feature peers-rocksdb".to_owned(),
                name => format!("no peer is named '{name}'"),
            };
            return Err(Usage(format!("{what}; there is all, volatile, stores, synced, {known}")).into());
        }
    }
    Ok(chosen)
}

/// Gives `visit` a fresh peer; a store has its files in a directory below this one.
pub(crate) fn with<V: Visit>(peer: Peer, directory: Option<&Path>, visit: V) -> Outcome<V::Output> {
    match peer.kind {
        Kind::BTreeMap => media::with(Ordinary::default(), visit),
        Kind::RwLock => media::with(volatile::Locked::default(), visit),
        Kind::Brie => media::with(volatile::Brie::default(), visit),
        Kind::Congee => media::with(volatile::Art::default(), visit),
        Kind::TreeIndex => media::with(volatile::Scc::default(), visit),
        Kind::SkipMap => media::with(volatile::Skip::default(), visit),
        Kind::Store(engine, synced) => {
            let scratch = Scratch::new(directory)?;
            match engine {
                Engine::Redb => stored::<redb::Redb, V>(scratch, synced, visit),
                Engine::Lmdb => stored::<lmdb::Lmdb, V>(scratch, synced, visit),
                Engine::Fjall => stored::<fjall::Fjall, V>(scratch, synced, visit),
                Engine::Sled => stored::<sled::Sled, V>(scratch, synced, visit),
                Engine::Sqlite => stored::<sqlite::Sqlite, V>(scratch, synced, visit),
                #[cfg(feature = "peers-rocksdb")]
                Engine::RocksDb => stored::<rocksdb::RocksDb, V>(scratch, synced, visit),
            }
        }
    }
}

/// Opens a store that has its files in this directory, or creates it.
pub(crate) fn open(peer: Peer, directory: &Path) -> Outcome<Box<dyn Filled>> {
    let Kind::Store(engine, _) = peer.kind else { return Err(format!("{} is no store", peer.name).into()) };
    std::fs::create_dir_all(directory)?;
    Ok(match engine {
        Engine::Redb => Box::new(redb::Redb::open(directory)?),
        Engine::Lmdb => Box::new(lmdb::Lmdb::open(directory)?),
        Engine::Fjall => Box::new(fjall::Fjall::open(directory)?),
        Engine::Sled => Box::new(sled::Sled::open(directory)?),
        Engine::Sqlite => Box::new(sqlite::Sqlite::open(directory)?),
        #[cfg(feature = "peers-rocksdb")]
        Engine::RocksDb => Box::new(rocksdb::RocksDb::open(directory)?),
    })
}

fn stored<S: Store, V: Visit>(scratch: Scratch, synced: bool, visit: V) -> Outcome<V::Output> {
    media::with(Stored::<S>::open(scratch, synced)?, visit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Random;
    use crate::subject::Subject;
    use std::collections::BTreeMap;

    /// Does the same to a subject and to a map, and compares.
    struct Compare;

    impl Visit for Compare {
        type Output = ();

        fn visit<S: Subject>(self, subject: &S) {
            let mut model = BTreeMap::new();
            let mut random = Random::new(1);
            let batch: Vec<(u64, u64)> = (0..500).map(|i| (i * 7 + 3, !i)).collect();
            subject.insert_batch(&batch);
            model.extend(batch);
            for _ in 0..3000 {
                let (key, value) = (random.below(5000), random.word());
                match random.below(4) {
                    0 => {
                        subject.insert(key, value);
                        model.insert(key, value);
                    }
                    1 if model.contains_key(&key) => {
                        subject.update(key, value);
                        model.insert(key, value);
                    }
                    2 => {
                        subject.remove(key);
                        model.remove(&key);
                    }
                    _ => assert_eq!(subject.get(key), model.get(&key).copied()),
                }
            }
            // All keys but the greatest are a peer's to take.
            subject.insert(u64::MAX - 1, 5);
            model.insert(u64::MAX - 1, 5);
            let keys: Vec<u64> = (0..100).map(|_| random.below(5000)).collect();
            let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
            assert_eq!(subject.multi_get(&keys), expected);
            for from in [0, 1, 17, 2500, 4999, 5000, u64::MAX - 1] {
                let mut found = Vec::new();
                subject.scan(from, |key, value| {
                    found.push((key, value));
                    true
                });
                let expected: Vec<_> = model.range(from..).map(|(&key, &value)| (key, value)).collect();
                assert_eq!(found, expected, "from {from}");
                assert_eq!(subject.scan100(from), 100.min(expected.len() as u64));
            }
        }
    }

    #[test]
    fn every_peer_is_an_ordered_map() {
        for peer in PEERS {
            println!("{}", peer.name);
            with(*peer, None, Compare).unwrap();
        }
    }

    #[test]
    fn names_stand_for_one_or_many() {
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(&names).map(|peers| peers.iter().map(|peer| peer.name()).collect::<Vec<_>>())
        };
        assert_eq!(names(&["lmdb", "sled-sync", "lmdb"]).unwrap(), ["lmdb", "sled-sync"]);
        let (all, volatile, stores) = (names(&["all"]), names(&["volatile"]), names(&["stores"]));
        assert_eq!(all.unwrap(), [volatile.unwrap(), stores.unwrap()].concat());
        assert!(names(&["stores", "lmdb", "all"]).unwrap().len() > 10);
        assert!(names(&["ldmb"]).unwrap_err().to_string().contains("no peer is named 'ldmb'"));
    }
}
