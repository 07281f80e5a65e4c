//! Which records a tree of byte strings has in use after a crash, and the repair of splits and merges that it has
//! interrupted (B1).

use super::ByteTree;
use crate::error::{Broken, Fault};
use crate::medium::{Hint, LINE, Medium, Step};
use crate::node::{ByteLeaf, Interval, Node, record_of};
use crate::pool::record::RecordSet;
use crate::tree::LeafEntries;
use crate::tree::ahead::WalkAhead;
use crate::tree::image::{ImageRule, NamedBlocks, holds};
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

    /// Passes the records that came into leaves where the log has named them to `note`, and empties slots as
    /// [`recover_references`](Self::recover_references) does.
    ///
    /// Nothing was twice when the image was begun. Since then, a reference came to be in a leaf and in its right
    /// neighbour where one of the two is new, or has another neighbour; or where a slot was named whose key belongs to
    /// the neighbour, by a change that was cut before it linked anything.
    pub(super) fn recover_named(
        &self,
        leaves: &Leaves,
        blocks: &NamedBlocks<'_>,
        note: &mut dyn FnMut(u64),
    ) -> Result<(), Fault> {
        let m = self.medium();
        let is_of_interest = |i: usize| {
            let (at, right) = (leaves.listed[i].1, leaves.listed.get(i + 1));
            blocks.has_named(at) || right.is_some_and(|&(_, right)| blocks.has_moved(right))
        };
        let read: Vec<usize> = (0..leaves.listed.len()).filter(|&i| is_of_interest(i)).collect();
        // Both may have what the other one has, or the next one.
        let mut in_doubt = Vec::new();
        for (done, &i) in read.iter().enumerate() {
            let (at, right) = (leaves.listed[i].1, leaves.listed.get(i + 1).map(|&(_, right)| right));
            if let Some(&ahead) = read.get(done + AHEAD) {
                m.hint(leaves.listed[ahead].1, LINE, Hint::Soon);
                blocks.lines_of(leaves.listed[ahead].1).iter().for_each(|&line| m.hint(line, LINE, Hint::Soon));
                leaves.listed.get(ahead + 1).into_iter().for_each(|&(_, right)| m.hint(right, LINE, Hint::Soon));
            }
            let node = self.leaves.block(at);
            let record = node.low_record();
            if record != 0 && blocks.has_moved(at) {
                note(record);
            }
            let border = right.map(|right| node.head_of_low(right));
            let mut is_in_doubt = blocks.has_moved(at) || right.is_some_and(|right| blocks.has_moved(right));
            for &line in blocks.lines_of(at) {
                for (place, (head, reference)) in ByteLeaf::<SLOTS>::slots_in(node, line) {
                    if !self.leaves.access().has_record(record_of(reference)) {
                        return Err(lost(place).into());
                    }
                    note(record_of(reference));
                    is_in_doubt |= border.is_some_and(|border| head >= border);
                }
            }
            if is_in_doubt {
                in_doubt.push(i);
            }
        }
        if holds(ImageRule::Twice) { self.empty_twice(leaves, &in_doubt) } else { Ok(()) }
    }

    /// Empties slots of some leaves whose references are also in leaves to the right.
    fn empty_twice(&self, leaves: &Leaves, of: &[usize]) -> Result<(), Fault> {
        let mut used = RecordSet::new(&self.pool.segments, self.root.slot);
        let (mut twice, mut read) = (Vec::new(), Vec::new());
        // From right to left, as in a walk: each of them, behind its right neighbour.
        for &i in of.iter().rev() {
            for i in [i + 1, i] {
                if let Some(&(_, at)) = leaves.listed.get(i).filter(|&&(_, at)| read.last() != Some(&at)) {
                    read.push(at);
                    for (place, reference) in ByteLeaf::<SLOTS>::references(self.leaves.block(at)) {
                        if !used.insert(record_of(reference)).ok_or_else(|| lost(place))? {
                            twice.push((place, reference));
                        }
                    }
                }
            }
        }
        self.empty(&read, &twice)
    }

    /// Touches all leaves, from left to right, while other threads may write.
    #[cold]
    pub(super) fn touch_all(&self) -> Result<(), Broken> {
        // A sort of entries may read their records.
        let _reading = self.reading();
        let mut rest = Some(Interval { from: Vec::new(), to: None });
        while let Some(unread) = rest {
            rest = self.read_leaf(unread, true, &mut LeafEntries::without_records())?.0;
        }
        self.leaves.count.complete();
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
