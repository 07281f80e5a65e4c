//! The layout that `docs/tutorial-layout.md` writes step by step: a leaf that is an array. For tests only.

use super::layout::{Checked, Layout, NewNode};
use super::linear::LinearOver;
use super::space::{InPlace, SplitInPlace};
use super::{BlockAt, Entry, IndexKind, KeyRange, LOW, NEXT, Node, NodeAt, SLOT, WordNode, Words, unsorted};
use crate::error::Broken;
use crate::medium::{LINE, Medium, Step};
use crate::sync::{AtomicU64, Ordering};

/// A leaf of two lines: the header, then seven slots in no order.
///
/// ```text
/// line 0   | next 8 | low 8 | slot 0: key 8, value 8 | slot 1 | slot 2 |
/// line 1   | slot 3 | slot 4 | slot 5 | slot 6 |
/// ```
pub(super) struct Plain;

impl Node for Plain {
    const LAYOUT: u16 = 999;
    const NAME: &'static str = "plain";
    const SLOTS: usize = 7;
    const BYTES: u64 = 2 * LINE;

    type Keys = Words;
    type Ops = Self;
    type Space = InPlace;
}

impl WordNode for Plain {
    const INDEX: IndexKind = IndexKind::Volatile;
    type Inner = LinearOver<Self>;
}

fn key_at(slot: usize) -> u64 {
    SLOT + slot as u64 * SLOT
}

fn value_at(slot: usize) -> u64 {
    key_at(slot) + 8
}

/// Which slots hold an entry, one bit each.
fn used(hints: &AtomicU64) -> u64 {
    hints.load(Ordering::Relaxed)
}

fn is_used(hints: &AtomicU64, slot: usize) -> bool {
    used(hints) >> slot & 1 == 1
}

/// The first slot without an entry. The caller sees to it that there is one.
fn empty(hints: &AtomicU64) -> usize {
    (used(hints).trailing_ones() as usize).min(Plain::SLOTS - 1)
}

/// A place is a slot.
impl Layout for Plain {
    type Node = Self;
    type Hints = AtomicU64;

    fn len(hints: &AtomicU64) -> usize {
        used(hints).count_ones() as usize
    }

    fn prefetch(node: BlockAt<'_, impl Medium>, _key: u64) {
        node.prefetch(0, Self::BYTES);
    }

    fn search(node: NodeAt<'_, Self, impl Medium>, key: u64) -> Result<usize, usize> {
        let found = (0..Self::SLOTS).find(|&slot| is_used(node.hints, slot) && node.load(key_at(slot)) == key);
        found.ok_or_else(|| empty(node.hints))
    }

    fn value(node: NodeAt<'_, Self, impl Medium>, place: usize) -> u64 {
        node.load(value_at(place))
    }

    fn entries(node: NodeAt<'_, Self, impl Medium>, (from, to): (u64, u64), out: &mut Vec<Entry>) -> usize {
        let slots = (0..Self::SLOTS).filter(|&slot| is_used(node.hints, slot));
        let entries = slots.map(|slot| (node.load(key_at(slot)), node.load(value_at(slot))));
        out.clear();
        out.extend(entries.filter(|&(key, _)| from <= key && key <= to));
        out.sort_unstable();
        out.len()
    }

    fn fill(node: NodeAt<'_, Self, impl Medium>, new: NewNode) {
        node.store(NEXT, new.next);
        node.store(LOW, new.low);
        for slot in 0..Self::SLOTS {
            let (key, value) = new.entries.get(slot).copied().unwrap_or((new.low.wrapping_sub(1), 0));
            node.store_pair(key_at(slot), [key, value]);
        }
        node.flush(0, Self::BYTES, Step::NodeFill);
        node.hints.store((1 << new.entries.len()) - 1, Ordering::Relaxed);
    }

    fn insert(node: NodeAt<'_, Self, impl Medium>, place: usize, (key, value): Entry) {
        node.store(value_at(place), value);
        node.order(Step::OneLineInsertKey);
        node.store(key_at(place), key);
        node.flush(key_at(place), SLOT, Step::OneLineInsert);
        node.hints.store(used(node.hints) | 1 << place, Ordering::Relaxed);
    }

    fn update(node: NodeAt<'_, Self, impl Medium>, place: usize, value: u64) {
        node.store(value_at(place), value);
        node.flush(value_at(place), 8, Step::OneLineUpdate);
    }

    fn remove(node: NodeAt<'_, Self, impl Medium>, range: KeyRange, place: usize) {
        node.store(key_at(place), range.marker());
        node.flush(key_at(place), 8, Step::OneLineRemove);
        node.hints.store(used(node.hints) & !(1 << place), Ordering::Relaxed);
    }

    fn recover(node: NodeAt<'_, Self, impl Medium>, range: KeyRange) -> Result<(), Broken> {
        let owned = (0..Self::SLOTS).filter(|&slot| range.contains(node.load(key_at(slot))));
        node.hints.store(owned.fold(0, |used, slot| used | 1 << slot), Ordering::Relaxed);
        Ok(())
    }

    fn check(node: BlockAt<'_, impl Medium>, range: KeyRange, report: &mut dyn FnMut(Broken)) -> Option<Checked> {
        let owned = (0..Self::SLOTS).filter(|&slot| range.contains(node.load(key_at(slot))));
        let keys = unsorted::distinct_keys(node, owned, key_at).map_err(report).ok()?;
        Some(unsorted::checked(node, keys, value_at))
    }
}

impl SplitInPlace for Plain {
    fn prefill(node: NodeAt<'_, Self, impl Medium>, wider: KeyRange, entries: &[Entry]) {
        for &(key, value) in entries {
            let slot = empty(node.hints);
            node.store_pair(key_at(slot), [key, value]);
            node.hints.store(used(node.hints) | 1 << slot, Ordering::Relaxed);
        }
        for slot in (0..Self::SLOTS).filter(|&slot| !is_used(node.hints, slot)) {
            if wider.contains(node.load(key_at(slot))) {
                node.store(key_at(slot), wider.marker());
            }
        }
        node.flush(0, Self::BYTES, Step::NodePrefill);
    }

    fn truncate_after_split(node: NodeAt<'_, Self, impl Medium>, &border: &u64, _moved: &[Entry]) {
        let stays = |slot: &usize| is_used(node.hints, *slot) && node.load(key_at(*slot)) < border;
        node.hints.store((0..Self::SLOTS).filter(stays).fold(0, |used, slot| used | 1 << slot), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::Campaign;
    use crate::medium::Model;
    use crate::medium::any::zeroed;
    use crate::pool::Pool;
    use std::collections::BTreeMap;

    #[test]
    fn a_plain_tree_does_what_a_map_does() {
        let pool = Pool::options().segment_size(4096).create_on(zeroed(1 << 20)).unwrap();
        let tree = pool.tree_of::<Plain>("plain").unwrap();
        let mut model = BTreeMap::new();
        for i in 0..4000u64 {
            let key = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 55;
            if i % 3 == 0 {
                assert_eq!(tree.remove(key).unwrap(), model.remove(&key));
            } else {
                assert_eq!(tree.insert(key, i).unwrap(), model.insert(key, i));
            }
        }
        assert!(tree.iter().eq(model.into_iter()) && tree.check().is_clean());
    }

    #[test]
    fn a_plain_tree_outlives_every_crash() {
        for model in [Model::Tso, Model::Weak] {
            let outcome = Campaign::new(model).random::<Plain>(20, 40, |_, _| ());
            outcome.violations.iter().for_each(|violation| println!("{violation}"));
            assert!(
                outcome.complete && outcome.violations.is_empty() && outcome.states > 100,
                "{} states",
                outcome.states
            );
        }
    }

    /// Without each of its persist steps, something is lost.
    #[test]
    fn every_persist_step_of_a_plain_leaf_is_needed() {
        let mut campaign = Campaign::new(Model::Weak);
        (campaign.depth, campaign.limit) = (0, 64);
        let steps = ["OneLine", "Changing a chain"];
        campaign.steps = Step::ALL.iter().copied().filter(|step| steps.contains(&step.protocol())).collect();
        let fill = "i2=1 i4=2 i6=3 i8=4 i10=5 i12=6 i14=7";
        let more = [
            "i3=9",
            "i2=9",
            "r4",
            "i3=9 i5=8 i7=7 r2",
            "i3=9 r2 r3 r4",
            "i3=9 i9=1 i11=1 i13=1 r2 r3 r4",
            "i3=9 r14 r12 r10",
            "clear",
            "load9",
        ];
        let histories: Vec<_> = more.iter().map(|more| format!("{fill} {more}").parse().unwrap()).collect();
        let controls = campaign.controls::<Plain>(&histories, |_, _| ());
        let missed: Vec<_> = controls.iter().filter(|control| control.caught_by.is_none()).collect();
        assert!(controls.len() >= 10 && missed.is_empty(), "{missed:?}");
    }

    /// Every piece of code in the tutorial is a piece of this file.
    #[test]
    fn the_tutorial_shows_this_code() {
        let (page, code) = (include_str!("../../docs/tutorial-layout.md"), include_str!("tutorial.rs"));
        let mut shown = 0;
        for block in page.split("```rust\n").skip(1) {
            let block = block.split("```").next().unwrap_or_default();
            assert!(code.contains(block), "not in the code:\n{block}");
            shown += block.lines().count();
        }
        assert!(shown > 100, "only {shown} lines are shown");
    }
}
