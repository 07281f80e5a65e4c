//! The persist steps: every place in a protocol that orders stores, starts a write-back or waits for one has a name.
//!
//! The table here is the one place that says what a crash leaves that comes before a step is done, and what repairs it.
//! The crash checker plants its bugs by these names, and `docs/design.md` has the table as text.

/// Declares [`Step`] from a table: of each protocol its steps, and of each step what a cut leaves and what repairs it.
macro_rules! steps {
    ($($protocol:literal { $($step:ident: $leaves:literal, $repair:literal;)* })*) => {
        /// A persist step, by name.
        ///
        /// What a crash leaves that comes before the step is done, and what repairs it: [`leaves`](Self::leaves),
        /// [`repair`](Self::repair).
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Step {
            $($(#[doc = $leaves] $step,)*)*
        }

        impl Step {
            /// All of them, in the order of the protocols.
            pub const ALL: &[Self] = &[$($(Self::$step),*),*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$step => stringify!($step),)*)*
                }
            }

            /// Whether nothing relies on a flush for more than the words that it names. Others rely on whole lines; of
            /// these, a medium need write back only the words. Some must not take the whole line, because other words
            /// in it are changed under other locks at the same time.
            pub const fn names_words(self) -> bool {
                matches!(
                    self,
                    Self::OneLineInsert
                        | Self::OneLineUpdate
                        | Self::OneLineRemove
                        | Self::ByteInsert
                        | Self::ByteUpdate
                        | Self::ByteRemove
                        | Self::ShiftUpdate
                        | Self::CountWord
                        | Self::RecordWrite
                        | Self::RecordMove
                        | Self::RootFill
                        | Self::RootCreate
                        | Self::RootDrop
                        | Self::RootHead
                        | Self::RootIndex
                        | Self::RootOpen
                        | Self::RootClose
                        | Self::ListApply
                )
            }

            /// The protocol that it is a step of.
            pub const fn protocol(self) -> &'static str {
                match self {
                    $($(Self::$step => $protocol,)*)*
                }
            }

            /// What a crash leaves that comes before the step is done.
            pub const fn leaves(self) -> &'static str {
                match self {
                    $($(Self::$step => $leaves,)*)*
                }
            }

            /// What repairs the state that a crash leaves before the step is done.
            pub const fn repair(self) -> &'static str {
                match self {
                    $($(Self::$step => $repair,)*)*
                }
            }
        }
    };
}

steps! {
    "Creating a pool, and its superblock" {
        HeaderClear: "The pool that was here, with one twin.", "Nothing to repair: the other twin is whole (S1).";
        HeaderBirth: "An unborn pool (S3).", "The next creation starts over.";
        HeaderZero: "Words that are not zero where none was ever written.", "The next try clears what this one has not.";
        HeaderTwin: "A twin that is torn, which its checksum tells.", "Nothing to repair: the other twin is whole (S1).";
        TakeOver: "What a killed process stored, as far as it is durable.", "The next open takes it over again.";
        DistrustCloses: "Some trees are open, some are closed (R2).", "The next check after a power loss opens the rest.";
    }
    "Measuring what persisting costs" {
        Measure: "What was there: words are replaced by themselves.", "Nothing to repair.";
    }
    "Segments" {
        SegmentAssign: "Segments of a tree that nothing in it reaches.", "The tree's next walk frees or releases them.";
        SegmentRelease: "Segments that are still the tree's, and that nothing reaches.", "The tree's next walk releases them.";
        SegmentShorten: "A segment that is longer than it need be.", "The tree's next walk counts the blocks as free.";
        SegmentCut: "Entries of free segments that lie beyond the end of the file, or none.", "Nothing to repair: they are free.";
        RootsClear: "Zeros behind the root entries that there are.", "Nothing to repair: the table does not say that they are root entries.";
    }
    "Redo lists" {
        ListTag: "Lines of a list that does not count: the tag of a line comes after the rest of it (L1).", "Nothing to repair.";
        ListExtent: "Words in an extent that no list names.", "The next open releases the extent.";
        ListWrite: "A list that counts, or does not; none of its words has changed.", "The next open replays a list that counts.";
        ListApply: "A list that counts, and any of its words.", "The next open replays the list.";
        ListRetire: "All of the words, and a list that counts or not.", "The next open replays a list that counts.";
    }
    "Creating, dropping, opening and closing a tree" {
        RootFill: "A free entry.", "The next open releases its segments.";
        RootCreate: "No tree, or an empty one.", "The next open releases the segments of a tree that is not there.";
        RootDrop: "The whole tree, or none.", "The next open releases the segments of a tree that is not there.";
        RootHead: "The old chain or the new one, each whole.", "Nothing to repair: the next walk frees what is not reached.";
        RootIndex: "The old root of the index or the new one.", "Nothing to repair: both lead to every leaf, at worst along the chain.";
        RootOpen: "A tree that is still closed, and as its record says.", "Nothing to repair.";
        RootClose: "A tree that is still open.", "Nothing to repair: the next open walks the chain.";
        CloseRecord: "An extent that nothing points to.", "The tree's next walk releases it.";
    }
    "Records" {
        RecordWrite: "Bytes in a block that no slot points to.", "The next walk counts the block as free.";
        RecordMove: "A copy of a record to which no slot points.", "The next walk counts the block as free.";
    }
    "Changing a chain" {
        NodeFill: "A block that no chain reaches.", "The next walk counts the block as free.";
        NodePrefill: "Entries beyond the owned range: empty slots (N2); of byte strings, references that a leaf to the right has, too.", "Nothing to repair; the tree's next walk empties the left slots of byte strings.";
        SplitFill: "A block that no chain reaches.", "The next walk counts the block as free.";
        JoinPrefill: "Entries beyond the owned range: empty slots (N2); of byte strings, references that a leaf to the right has, too.", "Nothing to repair; the tree's next walk empties the left slots of byte strings.";
        ShareFill: "A block that no chain reaches, and entries beyond the owned range, as `JoinPrefill` leaves them.", "The next walk counts the block as free; the entries: as after `JoinPrefill`.";
        MoveFill: "A block that no chain reaches.", "The next walk counts the block as free.";
        RewriteFill: "Blocks that no chain reaches.", "The next walk counts the blocks as free.";
        BulkFill: "Leaves that nothing points to.", "The next walk counts the blocks as free.";
        Link: "The chain before the change, or after it.", "Nothing to repair in nodes of words: what a node does not own any more is empty (N2); some layouts go on with `BitmapClear`, `CountWord` or `VersionedTruncate`. Of byte strings: as `ByteForget`. The open repairs the index.";
        BlockNote: "A block whose note is not what it is.", "Nothing to repair: in use is what the chain reaches.";
    }
    "A persistent index" {
        IndexGrow: "A block that nothing points to.", "The next repair of the index counts the block as free.";
        IndexMove: "A block that nothing points to.", "The next repair of the index counts the block as free.";
        IndexRoot: "The old root of the index or the new one.", "Nothing to repair: both lead to every leaf.";
    }
    "One change of a node" {
        Insert: "The change, or not.", "Nothing to repair.";
        Update: "The old value or the new one.", "Nothing to repair.";
        Remove: "The entry, or none.", "Nothing to repair.";
        BatchLines: "Of each entry of the batch, the old one or the new one, or none if it was to go.", "Nothing to repair.";
        BatchFence: "Of each entry of the batch, the old one or the new one, or none if it was to go.", "Nothing to repair.";
        BatchChange: "The change, or not.", "Nothing to repair.";
    }
    "OneLine" {
        OneLineInsertKey: "An empty slot: the value comes before the key, in one line.", "Nothing to repair.";
        OneLineInsert: "An empty slot, or the entry.", "Nothing to repair.";
        OneLineUpdate: "The old value or the new one.", "Nothing to repair.";
        OneLineRemove: "The entry, or an empty slot.", "Nothing to repair.";
    }
    "Bytes" {
        ByteInsertReference: "An empty slot: the head comes before the reference, in one line.", "Nothing to repair.";
        ByteInsert: "An empty slot, or the entry.", "Nothing to repair.";
        ByteUpdate: "The old record or the new one.", "Nothing to repair.";
        ByteRemove: "The entry, or an empty slot.", "Nothing to repair.";
        ByteForget: "References in two leaves: the right one counts (B1).", "The tree's next walk empties the left slots.";
        ByteDuplicate: "References in two leaves, in a walk that empties the left slots.", "The next walk does.";
    }
    "Sorted layouts: shifting" {
        ShiftOutwards: "One equal pair of keys, of which the outer one is whole (N3).", "The first touch of the node closes the gap.";
        ShiftOutwardsKey: "An empty slot, or one equal pair of which the outer one is whole.", "The first touch of the node closes the gap.";
        ShiftInwards: "One equal pair of keys, of which the outer one is whole (N3).", "The first touch of the node closes the gap.";
        ShiftInwardsValue: "One equal pair of keys, of which the outer one is whole (N3).", "The first touch of the node closes the gap.";
        ShiftRightMarker: "One equal pair of keys at the right end.", "The first touch of the node closes the gap.";
        ShiftLeftMarker: "One equal pair of keys at the left end.", "The first touch of the node closes the gap.";
        ShiftRightInsert: "One equal pair of keys, or the new entry.", "The first touch of the node closes the gap.";
        ShiftLeftInsert: "One equal pair of keys, or the new entry.", "The first touch of the node closes the gap.";
        ShiftRightRemove: "One equal pair of keys at the right end.", "The first touch of the node closes the gap.";
        ShiftLeftRemove: "One equal pair of keys at the left end.", "The first touch of the node closes the gap.";
        ShiftUpdate: "The old value or the new one.", "Nothing to repair.";
        ShiftRepair: "One equal pair of keys, nearer to the end of the run.", "The next first touch goes on from there.";
    }
    "Sorted layouts with a count word" {
        CountedChange: "What the change itself leaves.", "The first touch of the node closes the gap.";
        CountWord: "A word that is one change behind (N5).", "The first touch of the node stores it anew.";
        CountRepair: "A word that is one change behind (N5).", "The next first touch of the node stores it anew.";
    }
    "Append" {
        AppendElements: "Elements that do not count.", "Nothing to repair: the next append overwrites them.";
        AppendCount: "All of the elements count, or none does.", "Nothing to repair.";
    }
    "Fingerprint" {
        BitmapSlot: "A slot whose bit is not set.", "Nothing to repair.";
        BitmapPrint: "A slot whose bit is not set: its fingerprint comes before the bit, in one line.", "Nothing to repair.";
        BitmapInsert: "No entry, or the entry.", "Nothing to repair.";
        BitmapUpdate: "The old value or the new one.", "Nothing to repair.";
        BitmapRemove: "The entry, or none.", "Nothing to repair.";
        BitmapPrefill: "Slots whose bits are not set.", "Nothing to repair.";
        BitmapClear: "Bits of slots that are not owned any more.", "The first touch of the node clears them.";
    }
    "Logged" {
        LogCopy: "A log that does not count.", "Nothing to repair.";
        LogCount: "The log, which holds what the slots hold.", "The first touch of the node puts the log back.";
        LogChange: "The log counts, and the change is half done.", "The first touch of the node puts the log back.";
        LogForget: "The log counts, or the change is done.", "The first touch of the node puts the log back.";
        LogUndo: "The log still counts.", "The next first touch puts the log back.";
    }
    "Versioned" {
        VersionedBegin: "An entry that starts with a version that never comes.", "The first touch of the node overwrites it.";
        VersionedStart: "An entry that starts with a version that never comes.", "The first touch of the node overwrites it.";
        VersionedEntry: "An entry that starts with a version that never comes, or the whole entry.", "The first touch of the node takes back what was not committed.";
        VersionedEnd: "An entry that ends with a version that was not committed.", "The first touch of the node takes it back.";
        VersionedCommit: "The change has not happened, or has.", "Nothing to repair.";
    }
    "VersionedInner" {
        VersionedReplace: "The old child or the new one.", "Nothing to repair.";
        VersionedClose: "An entry that has ended, or a gap in its place.", "The first touch of the node closes the gap.";
        VersionedTruncate: "Entries that are not owned any more.", "The first touch of the node forgets them.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_differ() {
        let names: BTreeSet<&str> = Step::ALL.iter().map(|step| step.name()).collect();
        assert_eq!(names.len(), Step::ALL.len());
    }
}
