//! The image of a tree: what an open by walking would find, as of a moment of the past. With what the log has named
//! since, the open reads only what has changed (`docs/images.md`).
//!
//! ```text
//! image    | records that may be free | the tail | extents: n, offsets | classes | class ... | n | name, leaf ... |
//! class    | unit 32, kind 32 | segments | number, blocks, a bit for each block: set if it is free | ... |
//! ```

use super::directory::Directory;
use super::walk::Leaves;
use super::{TreeNode, TreeState};
use crate::chain::Links;
use crate::error::{Broken, Fault};
use crate::medium::{LINE, Medium, NamedLines};
use crate::node::{Keys, NEXT};
use crate::pool::images::{Imaged, IndexCopy, TreeCopy};
use crate::pool::records::{Records, release_extents};
use crate::pool::segments::{Places, SegmentKind};
use crate::sync::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// A tree is walked if more than one in so many of its records may be free and count as in use.
const SPARE: u64 = 4;
/// How many records a line is taken to have lost that was named. It has four references at most, and mostly one of them
/// has changed.
const CHANGED: u64 = 2;
/// More records than are on their way to be given back while an image is made: these count as in use, too.
const UNKNOWN: u64 = 4096;

impl<N: TreeNode, M: Medium> Imaged for TreeState<N, M> {
    fn leaves(&self) -> u64 {
        self.directory.known().map_or(0, |(leaves, _)| leaves)
    }

    fn begin_image(&self) -> Option<TreeCopy> {
        let (leaves, replaced) = self.directory.known()?;
        if !self.knows_all(leaves) || self.head() == 0 || Links::<N, M>::CLASSES != 1 {
            return None;
        }
        let index = IndexCopy::default();
        Some(TreeCopy { replaced, index, is_indexed: false, classes: 0, words: Vec::new() })
    }

    fn copy_image(&self, copy: &mut TreeCopy) -> bool {
        if !copy.is_indexed {
            match self.directory.copy_part(&mut copy.index) {
                Ok(done) => copy.is_indexed = done,
                // The end finds that the index is another one, or has fewer leaves than it knows.
                Err(_) => (copy.is_indexed, copy.index) = (true, IndexCopy::default()),
            }
            return false;
        }
        let records = self.leaves.records.as_ref();
        if copy.words.is_empty() {
            let segments = &self.pool.segments;
            let tail = self.tail_behind(copy.index.leaves.last());
            let head = [self.spare_records.load(Ordering::Relaxed), tail];
            let close_record = self.image_at.load(Ordering::Relaxed);
            let extents = segments.owned(self.root.slot, SegmentKind::Extent, 0);
            let extents: Vec<u64> =
                extents.into_iter().map(|head| segments.start(head)).filter(|&at| at != close_record).collect();
            let classes = records.map_or(0, |records| records.classes().len());
            copy.words.extend(head.into_iter().chain([extents.len() as u64]).chain(extents).chain([classes as u64]));
        }
        let Some(class) = records.and_then(|records| records.classes().get(copy.classes)) else {
            // Names of other leaves say nothing once these have changed.
            let is_named_by_itself = |&(name, leaf): &(u64, u64)| name == 0 || name == leaf;
            if N::Keys::HAS_RECORDS && !copy.index.leaves.iter().all(is_named_by_itself) {
                copy.index.leaves.clear();
            }
            return true;
        };
        class.image(&self.pool.segments, &self.retired(), &mut copy.words);
        copy.classes += 1;
        false
    }

    fn end_image(&self, copy: &TreeCopy) -> bool {
        // An index that was replaced has been copied in parts of both.
        self.directory.known().is_some_and(|(leaves, now)| now == copy.replaced && self.knows_all(leaves))
            && !copy.index.leaves.is_empty()
    }
}

/// A rule of an open by an image, which a control leaves out.
#[cfg_attr(not(test), allow(dead_code, reason = "they are left out in tests only"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageRule {
    /// Leaves that may have another neighbour are looked for in the chain (IM8).
    Moved,
    /// Records are in use that came into leaves since (IM6).
    References,
    /// References are in one leaf only, also where a change was cut before it linked anything (IM10).
    Twice,
}

#[cfg(test)]
thread_local!(static LEFT_OUT: std::cell::Cell<Option<ImageRule>> = const { std::cell::Cell::new(None) });

/// Leaves a rule out, on this thread.
#[cfg(all(test, feature = "crash", not(bristlecone_loom)))]
pub(crate) fn leave_out(rule: Option<ImageRule>) {
    LEFT_OUT.set(rule);
}

/// Whether a rule holds.
pub(super) fn holds(_rule: ImageRule) -> bool {
    #[cfg(test)]
    return LEFT_OUT.get() != Some(_rule);
    #[cfg(not(test))]
    true
}

#[cfg(test)]
thread_local!(static BY_IMAGE: std::cell::Cell<u64> = const { std::cell::Cell::new(0) });

/// How many trees this thread has opened by images.
#[cfg(all(test, not(bristlecone_loom)))]
pub(crate) fn by_image() -> u64 {
    BY_IMAGE.get()
}

/// What the log has named of the blocks of a tree's leaves.
pub(super) struct NamedBlocks<'n> {
    named: &'n NamedLines,
    places: Places,
    /// Bytes of a segment, of a block, and blocks per segment.
    segment: u64,
    bytes: u64,
    blocks: usize,
    /// One bit for each block: whether the beginning of its header was named, or any of it.
    headers: Vec<u64>,
    any: Vec<u64>,
    /// How many lines.
    lines: u64,
}

/// How many bytes of a leaf say where it is in its chain: its right neighbour, and its low, which never changes.
const LINKS: u64 = NEXT + 24;

impl<'n> NamedBlocks<'n> {
    fn new<N: TreeNode, M: Medium>(tree: &TreeState<N, M>, named: &'n NamedLines) -> Self {
        let segments = &tree.pool.segments;
        let owned = segments.owned(tree.root.slot, SegmentKind::Leaf, N::BYTES as u32);
        let blocks = (segments.size() / N::BYTES) as usize;
        let bits = || vec![0; (owned.len() * blocks).div_ceil(64)];
        let places = Places::new(&owned);
        let mut found = Self {
            named,
            places,
            segment: segments.size(),
            bytes: N::BYTES,
            blocks,
            headers: bits(),
            any: bits(),
            lines: 0,
        };
        for (place, &segment) in owned.iter().enumerate() {
            let start = segments.start(segment);
            for &line in named.within(start..start + segments.len(segment)) {
                found.lines += 1;
                let within = line - start;
                // A line may have parts of two blocks.
                for block in within / N::BYTES..=(within + LINE - 1) / N::BYTES {
                    let number = place * blocks + block as usize;
                    if block < blocks as u64 {
                        found.any[number / 64] |= 1 << (number % 64);
                        if within < block * N::BYTES + LINKS {
                            found.headers[number / 64] |= 1 << (number % 64);
                        }
                    }
                }
            }
        }
        found
    }

    fn has(&self, bits: &[u64], at: u64) -> bool {
        let place = self.places.position((at / self.segment) as u32);
        place.is_some_and(|place| {
            let number = place * self.blocks + (at % self.segment / self.bytes) as usize;
            bits.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
        })
    }

    /// Whether any line of a leaf was named.
    pub(super) fn has_named(&self, at: u64) -> bool {
        self.has(&self.any, at)
    }

    /// Whether a leaf may have another right neighbour now, or be another leaf.
    pub(super) fn has_moved(&self, at: u64) -> bool {
        self.has(&self.headers, at) && holds(ImageRule::Moved)
    }

    /// The offsets of the lines of a leaf that were named, of which the first and the last may begin in other blocks,
    /// or end there.
    pub(super) fn lines_of(&self, at: u64) -> &[u64] {
        self.named.within(at..at + self.bytes)
    }
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Whether an index that has so many leaves has all of them, while no thread changes the tree.
    fn knows_all(&self, leaves: u64) -> bool {
        let tails = u64::from(N::Keys::tail_low().is_some());
        leaves > 0 && leaves + tails == self.leaves.in_use() && self.fault.get().is_none()
    }

    /// The last leaf of the chain behind this one, if chains have a tail; or 0.
    fn tail_behind(&self, last: Option<&(u64, u64)>) -> u64 {
        let mut at = last.map_or(0, |&(_, at)| at);
        if N::Keys::tail_low().is_none() || at == 0 {
            return 0;
        }
        while let Ok(Some(next)) = self.leaves.next(at) {
            at = next;
        }
        at
    }

    /// Takes over what an image and the log say together. Returns false if there is no such image, or if something does
    /// not fit: then all leaves must be found.
    pub(super) fn restore_image(&self, head: u64) -> bool {
        let Some(image) = self.pool.take_tree_image(self.root.slot) else { return false };
        let named = &*image.named;
        // If the root was named, it may be another tree, or begin with another leaf.
        let is_same = named.within(self.root.bytes()).is_empty() && Links::<N, M>::CLASSES == 1;
        let is_restored = is_same && self.restore_from(head, image.words(), named).is_ok_and(|found| found.is_some());
        #[cfg(test)]
        BY_IMAGE.set(BY_IMAGE.get() + u64::from(is_restored));
        is_restored
    }

    /// Nothing or an error: all leaves must be found.
    fn restore_from(&self, head: u64, words: &[u64], named: &NamedLines) -> Result<Option<()>, Fault> {
        let (m, segments) = (self.medium(), &self.pool.segments);
        let mut words = words.iter();
        let (Some(&spare), Some(&tail), Some(&extents)) = (words.next(), words.next(), words.next()) else {
            return Ok(None);
        };
        let mut extents: HashSet<u64> = words.by_ref().copied().take(extents as usize).collect();
        let classes = self.leaves.records.as_ref().map_or(&[][..], Records::classes);
        if words.next() != Some(&(classes.len() as u64))
            || !classes.iter().all(|class| class.restore_image(segments, &mut words))
        {
            return Ok(None);
        }
        let blocks = NamedBlocks::new(self, named);
        let tail = (tail != 0).then_some([u64::MAX, tail]);
        let Some(&leaves) = words.next() else { return Ok(None) };
        let (known, rest) = words.as_slice().as_chunks();
        if leaves != known.len() as u64 || !rest.is_empty() {
            return Ok(None);
        }
        let Some(leaves) = self.leaves_of_image(head, (known, tail.as_ref()), &blocks)? else { return Ok(None) };
        let spare = spare.saturating_add(blocks.lines * CHANGED).saturating_add(UNKNOWN);
        let in_use = classes.iter().map(|class| class.in_use()).sum::<u64>();
        if !classes.is_empty() && spare > 2 * UNKNOWN + in_use / SPARE {
            return Ok(None);
        }
        for class in self.leaves.blocks() {
            class.recover_except(segments, leaves.all());
        }
        let image_nodes = |top, words: Vec<u64>| {
            let words: Arc<[u64]> = words.into();
            self.image_nodes(top, move |i| words.get(i as usize).copied().unwrap_or(0))
        };
        if !self.directory.restore_leaves(&leaves.listed, image_nodes) {
            return Ok(None);
        }
        // From here on, leaves are touched, and count their entries.
        self.leaves.count.forget();
        if let Some(records) = &self.leaves.records {
            N::recover_named(self, &leaves, &blocks, &mut |at| {
                if !holds(ImageRule::References) {
                    return;
                }
                if !records.note_used(segments, at) {
                    extents.insert(at);
                }
            })?;
            self.spare_records.store(spare, Ordering::Relaxed);
        }
        release_extents(m, segments, self.root.slot, |at| extents.contains(&at));
        // Only now does no durable word name a block that is free.
        self.release_unused();
        Ok(Some(()))
    }

    /// The leaves of the chain from `head` on, of which the image knows these; `None` if the two do not fit together.
    ///
    /// No key is compared, so no low is read of a leaf that may be gone. A leaf that has not changed is in the chain if
    /// its left neighbour is, and has not changed, or leads to it.
    fn leaves_of_image(
        &self,
        head: u64,
        (known, tail): (&[[u64; 2]], Option<&[u64; 2]>),
        blocks: &NamedBlocks,
    ) -> Result<Option<Leaves>, Broken> {
        let mut listed: Vec<(u64, u64)> = Vec::with_capacity(known.len() + 1 + blocks.lines as usize);
        let mut rest = known.iter().chain(tail);
        let most = listed.capacity();
        while let Some(&[name, leaf]) = rest.next() {
            let at = self.leaves.accept(leaf, leaf)?;
            if !blocks.has_moved(at) {
                listed.push((name, at));
                continue;
            }
            // From the leaf before it, which is in the chain, to the next one that has not changed.
            let mut next = match listed.last() {
                Some(&(_, before)) => self.leaves.next(before)?,
                None => Some(head),
            };
            while let Some(at) = next.filter(|&at| blocks.has_moved(at)) {
                if listed.len() > most || self.leaves.level(at)? != 0 {
                    return Ok(None);
                }
                listed.push((self.leaves.name(at), at));
                next = self.leaves.next(at)?;
            }
            // What the image has in between has left the chain.
            match next.map(|end| rest.find(|&&[_, leaf]| leaf == end)) {
                Some(Some(&[name, end])) => listed.push((name, end)),
                Some(None) => return Ok(None),
                None => break,
            }
        }
        let begins = listed.first() == Some(&(0, head));
        let ends = match listed.last() {
            Some(&(_, last)) => self.leaves.next(last)?.is_none(),
            None => false,
        };
        if !begins || !ends {
            return Ok(None);
        }
        // Where keys are in records, names are no keys; each search compares the lows of the nodes that it loads.
        let ascends = N::Keys::HAS_RECORDS || N::Keys::separators_ascend(self.leaves.access(), &listed);
        Ok(N::Keys::cut_tail(&mut listed).filter(|_| ascends).map(|tail| Leaves { listed, tail }))
    }
}
