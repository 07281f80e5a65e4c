//! Which records a tree of byte strings has in use, after a crash.

use super::ByteTree;
use crate::error::{Broken, Fault};
use crate::medium::{Hint, Medium, Step};
use crate::node::{ByteLeaf, Node, record_of};
use crate::pool::record::RecordSet;
use crate::tree::keys::TreeKeys;
use crate::tree::walk::Leaves;

/// How many leaves ahead are requested.
const AHEAD: usize = 8;

impl<const SLOTS: usize, M: Medium> ByteTree<SLOTS, M> {
    /// Finds the records that slots and headers point to, and counts the entries. Where a split, a merge or a
    /// redistribution was cut, two slots have the same reference: the right one counts, and the other is emptied,
    /// durably. No record and no range is read for that.
    ///
    /// Crash: the next walk finds what this one has not emptied yet.
    pub(super) fn recover_references(&self, leaves: &Leaves) -> Result<(), Fault> {
        let (m, segments) = (self.medium(), &self.pool.segments);
        let mut used = RecordSet::new(segments, self.root.slot);
        let (mut entries, mut emptied) = (0, false);
        let lost = |at| Broken::new(at, "V1: a slot points to no record of its tree");
        let offsets: Vec<u64> = leaves.all().collect();
        // From right to left: what was seen before is in a leaf to the right.
        for (i, &at) in offsets.iter().enumerate().rev() {
            if let Some(ahead) = i.checked_sub(AHEAD) {
                m.hint(offsets[ahead], <ByteLeaf<SLOTS> as Node>::BYTES, Hint::Soon);
            }
            if i % 4096 == 0 {
                self.tell((offsets.len() - i) as u64, offsets.len() as u64);
            }
            let fence = <ByteLeaf<SLOTS> as Node>::Keys::fence_record(self.leaves.access(), at);
            if fence != 0 && used.insert(fence) != Some(true) {
                return Err(lost(at).into());
            }
            for (place, reference) in ByteLeaf::<SLOTS>::references(m, at) {
                match used.insert(record_of(reference)) {
                    Some(true) => entries += 1,
                    Some(false) => {
                        m.store(place, 0);
                        m.flush(place, 8, Step::ByteDuplicate);
                        emptied = true;
                    }
                    None => return Err(lost(place).into()),
                }
            }
        }
        if emptied {
            // Before any record is written: it might take the place of one that both slots would then point to.
            m.fence(Step::ByteDuplicate);
        }
        let records = self.leaves.records.as_ref().expect("a tree of byte strings has records");
        records.recover(m, segments, &used);
        self.leaves.count.set(entries);
        Ok(())
    }
}
