//! Other maps and stores as further contestants: the same keys, the same process, turns in the same repeats.
//!
//! They differ in what they promise, and in what they can do; for the stores see [`store`].

mod fjall;
mod lmdb;
mod redb;
#[cfg(feature = "peers-rocksdb")]
mod rocksdb;
mod sled;
mod sqlite;
mod store;
mod volatile;

use crate::btreemap::Ordinary;
use crate::ordered_map::OrderedMap;
use crate::out::Outcome;
use crate::parse::Usage;
use crate::phases::{Phases, Trial, Workload};
use std::path::Path;
use store::Stored;

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
    Peer { name: "btreemap", kind: PeerKind::BTreeMap },
    Peer { name: "rwlock-btreemap", kind: PeerKind::RwLock },
    Peer { name: "brie-tree", kind: PeerKind::Brie },
    Peer { name: "congee", kind: PeerKind::Congee },
    Peer { name: "scc-treeindex", kind: PeerKind::TreeIndex },
    Peer { name: "crossbeam-skiplist", kind: PeerKind::SkipMap },
    Peer { name: "redb", kind: PeerKind::Store(Engine::Redb, false) },
    Peer { name: "lmdb", kind: PeerKind::Store(Engine::Lmdb, false) },
    Peer { name: "fjall", kind: PeerKind::Store(Engine::Fjall, false) },
    Peer { name: "sled", kind: PeerKind::Store(Engine::Sled, false) },
    Peer { name: "sqlite", kind: PeerKind::Store(Engine::Sqlite, false) },
    #[cfg(feature = "peers-rocksdb")]
    Peer { name: "rocksdb", kind: PeerKind::Store(Engine::RocksDb, false) },
    Peer { name: "redb-sync", kind: PeerKind::Store(Engine::Redb, true) },
    Peer { name: "lmdb-sync", kind: PeerKind::Store(Engine::Lmdb, true) },
    Peer { name: "fjall-sync", kind: PeerKind::Store(Engine::Fjall, true) },
    Peer { name: "sled-sync", kind: PeerKind::Store(Engine::Sled, true) },
    Peer { name: "sqlite-sync", kind: PeerKind::Store(Engine::Sqlite, true) },
    #[cfg(feature = "peers-rocksdb")]
    Peer { name: "rocksdb-sync", kind: PeerKind::Store(Engine::RocksDb, true) },
];

impl Peer {
    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Whether its content outlives the process.
    pub(crate) fn is_store(self) -> bool {
        matches!(self.kind, PeerKind::Store(..))
    }

    /// Whether several threads can use it.
    pub(crate) fn is_shared(self) -> bool {
        !matches!(self.kind, PeerKind::BTreeMap | PeerKind::Brie)
    }
}

/// The peers with these names, each once.
pub(crate) fn chosen(names: &[String]) -> Outcome<Vec<Peer>> {
    let mut chosen: Vec<Peer> = Vec::new();
    for name in names {
        let belongs = |peer: &&Peer| match name.as_str() {
            "all" => !matches!(peer.kind, PeerKind::Store(_, true)),
            "volatile" => !matches!(peer.kind, PeerKind::Store(..)),
            "stores" => matches!(peer.kind, PeerKind::Store(_, false)),
            "synced" => matches!(peer.kind, PeerKind::Store(_, true)),
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

/// Runs `$body` with `$subject` as the peer. The peer is empty, or, if it is a store, has its files in a directory.
macro_rules! with_peer {
    ($peer:expr, $directory:expr, $subject:ident => $body:expr) => {
        match $peer.kind {
            PeerKind::BTreeMap => with_peer!(@ $subject = Ordinary::default(), $body),
            PeerKind::RwLock => with_peer!(@ $subject = volatile::Locked::default(), $body),
            PeerKind::Brie => with_peer!(@ $subject = volatile::Brie::default(), $body),
            PeerKind::Congee => with_peer!(@ $subject = volatile::Art::default(), $body),
            PeerKind::TreeIndex => with_peer!(@ $subject = volatile::Scc::default(), $body),
            PeerKind::SkipMap => with_peer!(@ $subject = volatile::Skip::default(), $body),
            PeerKind::Store(engine, synced) => match engine {
                Engine::Redb => with_peer!(@ $subject = Stored::<redb::Redb>::open($directory, synced)?, $body),
                Engine::Lmdb => with_peer!(@ $subject = Stored::<lmdb::Lmdb>::open($directory, synced)?, $body),
                Engine::Fjall => with_peer!(@ $subject = Stored::<fjall::Fjall>::open($directory, synced)?, $body),
                Engine::Sled => with_peer!(@ $subject = Stored::<sled::Sled>::open($directory, synced)?, $body),
                Engine::Sqlite => with_peer!(@ $subject = Stored::<sqlite::Sqlite>::open($directory, synced)?, $body),
                #[cfg(feature = "peers-rocksdb")]
                Engine::RocksDb => with_peer!(@ $subject = Stored::<rocksdb::RocksDb>::open($directory, synced)?, $body),
            },
        }
    };
    (@ $subject:ident = $made:expr, $body:expr) => {{
        let $subject = $made;
        $body
    }};
}

/// An empty peer, or the store that has its files in this directory.
pub(crate) fn open(peer: Peer, directory: &Path) -> Outcome<Box<dyn OrderedMap>> {
    Ok(with_peer!(peer, directory, subject => Box::new(subject)))
}

/// As [`open`], to be measured.
pub(crate) fn trial(peer: Peer, directory: &Path, load: &Workload) -> Outcome<Box<dyn Trial>> {
    Ok(with_peer!(peer, directory, subject => Box::new(Phases::new(subject, load))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Random;
    use std::collections::BTreeMap;

    /// Does the same to a subject and to a map, and compares the results.
    fn compare(subject: &impl OrderedMap) -> Outcome<()> {
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
        // A peer must accept all keys except the greatest.
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
        subject.fault()
    }

    #[test]
    fn every_peer_is_an_ordered_map() -> Outcome<()> {
        for peer in PEERS {
            println!("{}", peer.name);
            let directory = tempfile::tempdir()?;
            with_peer!(peer, directory.path(), subject => {
                assert_eq!(subject.is_shared(), peer.is_shared());
                compare(&subject)?;
            });
        }
        Ok(())
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
