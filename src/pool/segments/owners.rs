//! Which segments each tree has: a list for each tree, through a word of each of its segments. So what is done with one
//! tree takes no longer because there are others.

use crate::error::Fault;
use crate::memory::{Halves, Zeroed};
use std::collections::HashMap;

/// The segments of all trees. All of it is changed under one lock.
pub(super) struct Owners {
    /// The first segment of each tree that has any.
    first: HashMap<u16, u32>,
    /// For each segment that has an owner: the one before it and the one behind it in its list, plus one; 0 at an end.
    /// Only what is touched takes memory.
    links: Zeroed<Halves>,
}

impl Owners {
    /// Lists for so many segments. No segment has an owner yet.
    pub(super) fn new(segments: usize) -> Result<Self, Fault> {
        let links = Zeroed::sparse(segments).map_err(Fault::address_space)?;
        Ok(Self { first: HashMap::new(), links })
    }

    /// The segments of a tree, in no order.
    pub(super) fn owned_by(&self, tree: u16) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first.get(&tree).copied(), |&segment| (self.link(segment).1 as u32).checked_sub(1))
    }

    /// Notes that a segment has another owner, or none.
    pub(super) fn change(&mut self, segment: u32, from: Option<u16>, to: Option<u16>) {
        if from != to {
            from.into_iter().for_each(|tree| self.remove(tree, segment));
            to.into_iter().for_each(|tree| self.add(tree, segment));
        }
    }

    /// Adds a segment that has no owner to the segments of a tree.
    pub(super) fn add(&mut self, tree: u16, segment: u32) {
        let behind = self.first.insert(tree, segment).map_or(0, |first| first as usize + 1);
        self.links[segment as usize].set(0, behind);
        if let Some(behind) = behind.checked_sub(1) {
            let (_, next) = self.links[behind].get();
            self.links[behind].set(segment as usize + 1, next);
        }
    }

    fn remove(&mut self, tree: u16, segment: u32) {
        let (before, behind) = self.link(segment);
        match (before.checked_sub(1), behind.checked_sub(1)) {
            (Some(last), _) => {
                let (further, _) = self.links[last].get();
                self.links[last].set(further, behind);
            }
            (None, Some(next)) => _ = self.first.insert(tree, next as u32),
            (None, None) => _ = self.first.remove(&tree),
        }
        if let Some(next) = behind.checked_sub(1) {
            let (_, further) = self.links[next].get();
            self.links[next].set(before, further);
        }
    }

    fn link(&self, segment: u32) -> (usize, usize) {
        self.links[segment as usize].get()
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn each_segment_is_in_the_list_of_its_owner() {
        const SEGMENTS: u32 = 40;
        let mut owners = Owners::new(SEGMENTS as usize).unwrap();
        let mut model = vec![None; SEGMENTS as usize];
        let mut random = Random(1);
        for _ in 0..5000 {
            let segment = random.below(SEGMENTS.into()) as u32;
            let tree = Some(random.below(4) as u16).filter(|&tree| tree > 0);
            owners.change(segment, model[segment as usize], tree);
            model[segment as usize] = tree;
            for tree in 1..4 {
                let mut listed: Vec<u32> = owners.owned_by(tree).collect();
                listed.sort_unstable();
                assert!(listed.into_iter().eq((0..SEGMENTS).filter(|&other| model[other as usize] == Some(tree))));
            }
        }
        (0..SEGMENTS).for_each(|segment| owners.change(segment, model[segment as usize], None));
        assert!(owners.first.is_empty());
    }
}
