//! Which records a tree of byte strings has in use, after a crash.

use super::ByteTree;
use crate::error::{Broken, Fault};
use crate::medium::{Hint, Medium, Step};
use crate::node::{ByteLeaf, Node, record_of};
use crate::pool::record::RecordSet;
use crate::tree::ahead::WalkAhead;
use crate::tree::walk::Leaves;
use std::collections::HashMap;

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
        let mut entries = 0;
        // The slots whose records slots to the right have, too.
        let mut twice = Vec::new();
        let offsets: Vec<u64> = leaves.all().collect();
        let (mut low, mut high) = (Vec::new(), None::<Vec<u8>>);
        // From right to left: what was seen before is in a leaf to the right.
        let mut asked = WalkAhead::new(m);
        for (i, &at) in offsets.iter().enumerate().rev() {
            asked.step(self, offsets.len() - 1 - i, || offsets[..=i].iter().rev().copied());
            if let Some(ahead) = i.checked_sub(AHEAD) {
                m.hint(offsets[ahead], <ByteLeaf<SLOTS> as Node>::BYTES, Hint::Soon);
            }
            if i % 4096 == 0 {
                self.tell_of_records((offsets.len() - i) as u64, offsets.len() as u64);
            }
            self.leaves.block(at).with_low(|read| read.clone_into(&mut low));
            if high.as_ref().is_some_and(|high| low >= *high) {
                return Err(Broken::new(at, "N4: lows ascend along a chain").into());
            }
            std::mem::swap(high.get_or_insert_default(), &mut low);
            let record = self.leaves.block(at).low_record();
            if record != 0 && used.insert(record) != Some(true) {
                return Err(lost(at).into());
            }
            for (place, reference) in ByteLeaf::<SLOTS>::references(self.leaves.block(at)) {
                match used.insert(record_of(reference)) {
                    Some(true) => entries += 1,
                    Some(false) => twice.push((place, reference)),
                    None => return Err(lost(place).into()),
                }
            }
        }
        self.empty(&offsets, &twice)?;
        let records = self.leaves.records.as_ref().expect("a tree of byte strings has records");
        records.recover(m, segments, &used);
        self.leaves.count.set(entries);
        Ok(())
    }

    /// Empties slots whose references are also in slots to the right, durably.
    ///
    /// In a damaged pool, a slot may have got the record of another key, or of a low. Nothing is emptied then: it
    /// cannot be told which slot is damaged.
    fn empty(&self, leaves: &[u64], twice: &[(u64, u64)]) -> Result<(), Fault> {
        if twice.is_empty() {
            return Ok(());
        }
        let m = self.medium();
        let mut expected: HashMap<u64, (u64, usize)> = HashMap::new();
        for &(_, reference) in twice {
            expected.entry(record_of(reference)).or_insert((reference, 1)).1 += 1;
        }
        for (place, reference) in leaves.iter().flat_map(|&at| ByteLeaf::<SLOTS>::references(self.leaves.block(at))) {
            if let Some((same, left)) = expected.get_mut(&record_of(reference)) {
                *left = left.checked_sub(1).filter(|_| *same == reference).ok_or_else(|| lost(place))?;
            }
        }
        if let Some(&(place, _)) = twice.iter().find(|(_, reference)| expected[&record_of(*reference)].1 > 0) {
            return Err(lost(place).into());
        }
        for &(place, _) in twice {
            m.store(place, 0);
            m.flush(place, 8, Step::ByteDuplicate);
        }
        // Before any record is written: it might take the place of one that both slots would then point to.
        m.fence(Step::ByteDuplicate);
        Ok(())
    }
}

fn lost(at: u64) -> Broken {
    Broken::new(at, "V1: a slot points to no record of its tree")
}
