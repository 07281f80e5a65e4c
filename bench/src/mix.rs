//! What is measured: the names, and the order in which the phases of a repeat follow each other.

use clap::ValueEnum;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Mix {
    /// New keys into an empty tree
    Insert,
    /// New keys into an empty tree, in batches of 1000: one transaction each where the contestant has transactions; per
    /// entry
    Batch,
    /// New keys into an empty tree, in batches of 16
    #[value(name = "batch16")]
    Batch16,
    /// Random keys that are there
    Get,
    /// Keys that are not there, among those that are
    Miss,
    /// Gets, the next key made from the value found before: no two overlap
    Dependent,
    /// Gets of 16 keys at a time; per key
    MultiGet,
    /// New values for random keys that are there
    Update,
    /// All entries in order; per entry
    Scan,
    /// 100 entries from a random key on; per entry
    Scan100,
    /// Half gets, half updates
    YcsbA,
    /// 95 % gets, 5 % updates
    YcsbB,
    /// Gets
    YcsbC,
    /// 95 % gets of the latest keys, 5 % inserts
    YcsbD,
    /// 95 % scans of 1 to 100 entries, 5 % inserts; per scan or insert
    YcsbE,
    /// Half gets, half a get and an update of the same key
    YcsbF,
    /// Half gets, a quarter inserts of new keys, a quarter removals
    Mixed,
    /// Every key, in random order
    Remove,
    /// Opening after an orderly close, and after SIGKILL
    Reopen,
    /// Gets, scans and opens of a pool that is not in memory, next to reads of pages, and the pages that they read
    Cold,
    /// Bytes per entry, of the pool or of files, and of memory
    Space,
    /// What the machine takes for a miss, a page, a locked instruction, a flush
    Limits,
    /// Lines and fences per insert next to the expectation, for both layouts and all sizes
    Counts,
    /// Transactions of one insert, and of ten in two trees, next to plain inserts
    Transaction,
    /// Transactions that read and write two keys, next to those of stores; retries
    Conflict,
    /// Gets, inserts and updates beside an open snapshot, next to those without
    Snapshot,
    /// A backup beside a writer, and what speed that keeps
    Backup,
    /// The slowest of single updates beside snapshots, backups, compacting and syncs, with a journal and without
    Pauses,
    /// Inserts, gets and updates with a journal, next to those without
    Journal,
    /// New keys that are on the disk when they are acknowledged, next to stores; a key, and a batch of 1000
    Durable,
}

impl Mix {
    /// The name that is typed and shown.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Batch => "batch",
            Self::Batch16 => "batch16",
            Self::Get => "get",
            Self::Miss => "miss",
            Self::Dependent => "dependent",
            Self::MultiGet => "multi-get",
            Self::Update => "update",
            Self::Scan => "scan",
            Self::Scan100 => "scan100",
            Self::YcsbA => "ycsb-a",
            Self::YcsbB => "ycsb-b",
            Self::YcsbC => "ycsb-c",
            Self::YcsbD => "ycsb-d",
            Self::YcsbE => "ycsb-e",
            Self::YcsbF => "ycsb-f",
            Self::Mixed => "mixed",
            Self::Remove => "remove",
            Self::Reopen => "reopen",
            Self::Cold => "cold",
            Self::Space => "space",
            Self::Limits => "limits",
            Self::Counts => "counts",
            Self::Transaction => "transaction",
            Self::Conflict => "conflict",
            Self::Snapshot => "snapshot",
            Self::Backup => "backup",
            Self::Pauses => "pauses",
            Self::Journal => "journal",
            Self::Durable => "durable",
        }
    }

    /// Whether it inserts all keys itself, into an empty subject.
    pub(crate) fn fills(self) -> bool {
        self == Self::Insert || self.is_of_batches()
    }

    /// Whether it fills the subject in batches.
    pub(crate) fn is_of_batches(self) -> bool {
        matches!(self, Self::Batch | Self::Batch16)
    }

    /// Whether it is about transactions and snapshots, which some layouts have.
    pub(crate) fn takes_turns(self) -> bool {
        (Self::Transaction..=Self::Pauses).contains(&self)
    }

    /// Whether it has pools with journals of its own, on a disk.
    pub(crate) fn is_for_disks(self) -> bool {
        matches!(self, Self::Pauses | Self::Journal | Self::Durable)
    }

    /// Whether it is timed operation by operation; the others have tables of their own.
    pub(crate) fn is_timed(self) -> bool {
        self < Self::Reopen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_is_typed() {
        for mix in Mix::value_variants() {
            assert_eq!(mix.to_possible_value().unwrap().get_name(), mix.name());
        }
    }
}
