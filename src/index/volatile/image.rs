//! The image of an index that an orderly close leaves in the pool. Its nodes are loaded one by one when they are first
//! needed, so that opening a large tree takes no longer than opening a small one.
//!
//! ```text
//! node n    | count 32, CRC-32 of all the rest with n and the height 32 | low, child | low, child | ...     57 words
//! ```
//!
//! The nodes of a level follow each other, the bottom level first, the root last; all but the last one of a level are
//! full. In a bottom node, a child is a leaf's offset; in other nodes it is the number of a node, which is less than
//! its parent's. A low is the name of a separator.

use super::node::{FILL, NOT_LOADED};
use crate::pool::format::crc;

/// Words per node.
const WORDS: usize = 1 + 2 * FILL;

/// The size of an image and where a search in it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImageTop {
    /// How many nodes there are; the last one is the root.
    pub(crate) nodes: u64,
    /// Steps from the root to the bottom.
    pub(crate) height: u64,
    /// How many separators there are.
    pub(crate) len: u64,
}

/// Reads a node that is not loaded: returns its entries, given its number and height, and whether it is read to be
/// searched. `None`: it is damaged. For a search, separators that are not in the node are read, too, and must ascend; a
/// copy of the image needs none of them.
pub(crate) type ReadNode = Box<dyn Fn(u64, u64, bool) -> Option<Vec<(u64, u64)>> + Send + Sync>;

fn checksum(number: u64, height: u64, entries: &[(u64, u64)]) -> u64 {
    let words = entries.iter().flat_map(|&(low, child)| [low, child]);
    u64::from(crc([number, height].into_iter().chain(words)))
}

/// The words of an image of these names and leaves, which are in the order of their separators.
pub(crate) fn image_of(leaves: Vec<(u64, u64)>) -> (Vec<u64>, ImageTop) {
    let mut words = Vec::with_capacity(leaves.len() * 2 * (FILL + 1) / FILL + 4 * WORDS);
    let mut top = ImageTop { nodes: 0, height: 0, len: leaves.len() as u64 };
    let mut level = leaves;
    while !level.is_empty() {
        let mut above = Vec::with_capacity(level.len().div_ceil(FILL));
        for entries in level.chunks(FILL) {
            let start = words.len();
            words.push(entries.len() as u64 | checksum(top.nodes, top.height, entries) << 32);
            words.extend(entries.iter().flat_map(|&(low, child)| [low, child]));
            words.resize(start + WORDS, 0);
            above.push((entries[0].0, top.nodes));
            top.nodes += 1;
        }
        if above.len() == 1 {
            break;
        }
        top.height += 1;
        level = above;
    }
    (words, top)
}

impl ImageTop {
    /// Whether an image with these fields can be made of `words` words. The number of separators determines the others.
    pub(crate) fn fits(self, words: u64) -> bool {
        let is_top = |level: Level| level.nodes() <= 1 && level.first + level.nodes() == self.nodes;
        self.nodes.checked_mul(WORDS as u64) == Some(words) && self.level(self.height).is_some_and(is_top)
    }

    /// The level at a height; `None` if there is none.
    fn level(self, height: u64) -> Option<Level> {
        let mut level = Level { first: 0, first_below: 0, below: self.len };
        for _ in 0..height {
            if level.nodes() <= 1 {
                return None;
            }
            level = Level { first: level.first + level.nodes(), first_below: level.first, below: level.nodes() };
        }
        Some(level)
    }

    /// The entries of a node, for the tree; `word` reads a word of the image. `None`: the node is damaged.
    pub(crate) fn node(
        self,
        (number, height): (u64, u64),
        word: impl Fn(u64) -> u64,
        is_leaf: impl Fn(u64) -> bool,
    ) -> Option<Vec<(u64, u64)>> {
        let level = self.level(height)?;
        let before = number.checked_sub(level.first)?.checked_mul(FILL as u64)?;
        let count = level.below.checked_sub(before)?.min(FILL as u64);
        let start = number.checked_mul(WORDS as u64)?;
        let head = word(start);
        if count == 0 || head & 0xffff_ffff != count {
            return None;
        }
        let mut entries: Vec<(u64, u64)> =
            (0..count).map(|i| (word(start + 1 + 2 * i), word(start + 2 + 2 * i))).collect();
        // Each node has one parent. So the walk of an image ends, whatever the image says.
        let is_child = |(i, &(_, child)): (u64, &(u64, u64))| {
            if height == 0 { is_leaf(child) } else { child == level.first_below + before + i }
        };
        let sound = checksum(number, height, &entries) == head >> 32 && (0..).zip(&entries).all(is_child);
        if height > 0 {
            entries.iter_mut().for_each(|(_, child)| *child |= NOT_LOADED);
        }
        sound.then_some(entries)
    }
}

/// The nodes of an image at one height.
#[derive(Clone, Copy)]
struct Level {
    /// The number of the first node.
    first: u64,
    /// The number of the first node of the level below.
    first_below: u64,
    /// How many entries the nodes have together. All but the last one are full.
    below: u64,
}

impl Level {
    fn nodes(self) -> u64 {
        self.below.div_ceil(FILL as u64)
    }
}

/// The separators of an image and their leaves, by number. A node is read once while consecutive numbers fall into it.
pub(crate) struct Bottom {
    top: ImageTop,
    source: ReadNode,
    /// The node that was read last.
    node: Option<(u64, Vec<(u64, u64)>)>,
}

impl Bottom {
    pub(crate) fn new(top: ImageTop, source: ReadNode) -> Self {
        Self { top, source, node: None }
    }

    /// The range of the numbers that share a node with this one: the first, and the first behind them.
    pub(crate) fn beside(number: usize) -> (usize, usize) {
        let first = number / FILL * FILL;
        (first, first + FILL)
    }

    /// `None`: its node is damaged, or there are not as many.
    pub(crate) fn get(&mut self, number: usize) -> Option<(u64, u64)> {
        // The bottom level comes first in the image.
        let node = (number / FILL) as u64;
        if node >= self.top.len.div_ceil(FILL as u64) {
            return None;
        }
        if self.node.as_ref().is_none_or(|&(last, _)| last != node) {
            self.node = Some((node, (self.source)(node, 0, true)?));
        }
        self.node.as_ref()?.1.get(number % FILL).copied()
    }
}
