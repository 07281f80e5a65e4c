//! The renewal of a full leaf: new blocks with what is still needed.

use super::NvStore;
use super::block::{self, Header, Low, NEXT};
use super::change::Locked;
use super::element::{Element, record_bytes};
use super::kept::{self, Sorted, Version};
use super::key::Key;
use super::leaves::{Id, Leaf, View};
use crate::out::Outcome;
use bristlecone::medium::{Medium, Step};

/// Where the word is that leads to the first leaf.
pub(super) const HEAD: u64 = 8;

/// A new block of a leaf, which no chain reaches yet.
#[derive(Debug, Clone, Copy)]
struct New {
    view: View,
    capacity: usize,
}

/// Blocks that were taken, to be given back if there is no room for all: offsets and bytes.
type Taken = Vec<(u64, u64)>;

impl<M: Medium> NvStore<M> {
    /// Makes room for so many elements in the leaf that owns a key.
    #[cold]
    pub(super) fn renew(&self, key: &[u8], need: usize) -> Outcome<()> {
        let key = Key::new(key);
        loop {
            let Some((before, leaf)) = self.lock_two(key) else { continue };
            if leaf.room() >= need {
                return Ok(());
            }
            let link = before.as_ref().map_or(HEAD, |before| before.view.at + NEXT);
            let right = self.replace(link, &leaf, need)?;
            drop((before, leaf));
            right.into_iter().for_each(|right| self.index.insert(&self.leaves, right));
            return Ok(());
        }
    }

    /// Locks the leaf that owns a key, and before it the one on its left, if there is one. `None`: they have changed
    /// meanwhile.
    fn lock_two(&self, key: Key<'_>) -> Option<(Option<Locked<'_>>, Locked<'_>)> {
        let id = self.index.owner(&self.leaves, key);
        let leaf = self.leaves.get(id);
        let before = match leaf.low() {
            Key { bytes: [], .. } => None,
            low => {
                let before = Locked::new(self.leaves.get(self.index.before(&self.leaves, low)));
                Some(before).filter(|before| before.leaf.next() == Some(id)).map(Some)?
            }
        };
        let leaf = Locked::new(leaf);
        self.owns(leaf.leaf, key).then_some((before, leaf))
    }

    /// Replaces the block of a leaf by one or two new ones, to which the word at `link` then leads. Returns the new
    /// leaf on its right.
    fn replace(&self, link: u64, old: &Locked<'_>, need: usize) -> Outcome<Option<Id>> {
        let (medium, leaf, view) = (self.arena.medium(), old.leaf, old.view);
        let Sorted { kept, dropped } = kept::sort(self.versions(view), &self.live.times());
        let middle = if kept.len() * 2 >= leaf.capacity() { middle(&kept) } else { None };
        let (left, right) = kept.split_at(middle.unwrap_or(kept.len()));

        let mut taken = Taken::new();
        let filled = self.fill(&mut taken, Header::read(medium, view.at), [left, right], need);
        if filled.is_err() {
            taken.into_iter().for_each(|(at, bytes)| self.arena.give(at, bytes));
        }
        let (new, new_right) = filled?;
        medium.fence(Step::SplitFill);
        medium.store(link, new.view.at);
        medium.flush(link, 8, Step::Link);
        medium.fence(Step::Link);

        let old_bytes = block::bytes(leaf.capacity());
        let right = new_right.zip(right.first()).map(|(new, first)| {
            let right = Leaf::new(first.key.as_slice().into(), new.view, new.capacity);
            right.set_next(leaf.next());
            self.leaves.push(right)
        });
        if right.is_some() {
            leaf.set_next(right);
        }
        leaf.set_capacity(new.capacity);
        leaf.set_view(new.view);
        self.arena.retire(view.at, old_bytes);
        for version in dropped.iter().filter(|element| !element.stamp.removed) {
            self.arena.retire(version.record, version.record_bytes());
        }
        Ok(right)
    }

    /// All versions of a leaf, in the order in which they were appended.
    fn versions(&self, View { at, count }: View) -> Vec<Version> {
        let version = |element: Element| {
            let key = self.arena.with(element.record, element.key_len as usize, <[u8]>::to_vec);
            Version { key, element }
        };
        (0..count).map(|i| version(block::element(self.arena.medium(), at, i))).collect()
    }

    /// Fills a block for what is left and, unless it is nothing, one for what is right. No fence.
    fn fill(
        &self,
        taken: &mut Taken,
        old: Header,
        [left, right]: [&[Version]; 2],
        need: usize,
    ) -> Outcome<(New, Option<New>)> {
        let Some(first) = right.first() else { return Ok((self.fill_one(taken, old, left, need)?, None)) };
        let len = first.key.len() as u64;
        let low = Low { at: block::record(&self.arena, &first.key, &[])?, len };
        taken.push((low.at, record_bytes(len, 0)));
        let right = self.fill_one(taken, Header { low, ..old }, right, need)?;
        let left = self.fill_one(taken, Header { next: right.view.at, ..old }, left, need)?;
        Ok((left, Some(right)))
    }

    /// Fills a block that has room for so many elements more.
    fn fill_one(&self, taken: &mut Taken, header: Header, versions: &[Version], need: usize) -> Outcome<New> {
        let capacity = self.capacity(versions.len() + need)?;
        let at = self.arena.take(block::bytes(capacity))?;
        taken.push((at, block::bytes(capacity)));
        let elements: Vec<Element> = versions.iter().map(|version| version.element).collect();
        block::fill(self.arena.medium(), at, Header { capacity, ..header }, &elements);
        Ok(New { view: View { at, count: elements.len() }, capacity })
    }

    /// The capacity of a new leaf that must hold so many elements.
    fn capacity(&self, least: usize) -> Outcome<usize> {
        if least <= self.options.capacity {
            return Ok(self.options.capacity);
        }
        if least > View::MOST {
            return Err(format!("no leaf holds {least} elements").into());
        }
        Ok(least.next_power_of_two().min(View::MOST))
    }
}

/// Where the second of two halves begins: as near to the middle as the versions of one key stay together. `None`: all
/// are of one key.
fn middle(versions: &[Version]) -> Option<usize> {
    let begins = |&i: &usize| versions[i - 1].key != versions[i].key;
    let half = versions.len() / 2;
    (1..versions.len()).filter(begins).min_by_key(|i| i.abs_diff(half))
}
