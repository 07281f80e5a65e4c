//! Count words: the window of a sorted node, stored in the pool with each change, as Circ-Tree and Crab-tree print it.
//!
//! ```text
//! line 0   | next 8 | low 8 | meta 8 | (not used here) 8 | base 32, count 32 | (unused)     |
//! ```
//!
//! In the papers this word commits a change of a node. Here the keys alone tell what a node holds (N2, N3), also where
//! there is a word. So the word is what the papers pay for, and a crash leaves it behind by one change:
//!
//! - **N5** The word is the window, or it is what the window was before the last change of the node or of the chain.
//!
//! The first touch of a node after a crash stores it anew. A word that is further behind is damage.

use crate::error::Broken;
use crate::medium::{Medium, Step};
use crate::node::BlockAt;
use crate::node::sorted::{HEADER, RunGeometry, Sorted, Window};

/// Offset of the word. Other layouts use the word before it.
pub(crate) const COUNT: u64 = 32;

const _: () = assert!(COUNT + 8 <= HEADER);

fn word(window: Window) -> u64 {
    u64::from(window.base) | u64::from(window.count) << 32
}

/// The window in a word; `None` if there cannot be such a window.
fn window(word: u64) -> Option<Window> {
    let half = |word: u64| u16::try_from(word as u32).ok();
    Some(Window { base: half(word)?, count: half(word >> 32)? })
}

/// Stores the word; the caller flushes the header.
pub(crate) fn store<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window) {
    if N::COUNTED {
        node.store(COUNT, word(window));
    }
}

/// Stores the word and flushes it, if it says something else. True if it did.
pub(crate) fn record<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window) -> bool {
    let differs = N::COUNTED && node.load(COUNT) != word(window);
    if differs {
        node.store(COUNT, word(window));
        node.flush(COUNT, 8, Step::CountWord);
    }
    differs
}

/// Ends a change of the run: makes it durable, and then stores the word. The word is flushed, not fenced.
#[inline]
pub(crate) fn commit<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window) {
    if N::COUNTED {
        // Crash, before the fence: what the change itself leaves. After it: the change is done, and the word is behind.
        node.fence(Step::CountedChange);
        record::<N>(node, window);
    }
}

/// Stores the window that the keys give, durably, if the word says something else.
pub(crate) fn recover<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window) -> Result<(), Broken> {
    check::<N>(node, window)?;
    if record::<N>(node, window) {
        // Crash: the word is still behind, or it is not.
        node.fence(Step::CountRepair);
    }
    Ok(())
}

/// Checks the word of a node whose keys give this window, once the gap of an equal pair is closed.
pub(crate) fn check<N: Sorted>(node: BlockAt<'_, impl Medium>, window: Window) -> Result<(), Broken> {
    if !N::COUNTED {
        return Ok(());
    }
    match self::window(node.load(COUNT)) {
        Some(stored) if stored.len() <= N::SLOTS && is_one_behind::<N>(stored, window) => Ok(()),
        _ => Err(node.broken(COUNT, "N5: a count that is not one change behind")),
    }
}

/// Whether the stored window is the present one, or may have been before one change.
fn is_one_behind<N: Sorted>(stored: Window, now: Window) -> bool {
    let slot = |i| N::Geometry::slot(now.base.into(), i) as u16;
    let same_base = stored.base == now.base;
    match (stored.count, now.count) {
        // An empty run begins anywhere.
        (_, 0) | (0, 1) => true,
        (0, _) => false,
        // An insert or a removal, at either end.
        (stored_count, count) if stored_count + 1 == count => same_base || stored.base == slot(1),
        (stored_count, count) if stored_count == count + 1 => same_base || stored.base == slot(-1),
        // A split has taken entries away, or a merge has not yet added them.
        (stored_count, count) => same_base && stored_count >= count,
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::node::Circular;

    fn behind(stored: (usize, usize), now: (usize, usize)) -> bool {
        let [stored, now] = [stored, now].map(|(base, count)| Window::new(base, count));
        is_one_behind::<Circular<8>>(stored, now)
    }

    #[test]
    fn a_word_may_be_one_change_behind() {
        assert!(behind((2, 3), (2, 3)), "no change");
        assert!(behind((2, 3), (2, 4)) && behind((0, 3), (7, 4)), "an insert");
        assert!(behind((2, 4), (2, 3)) && behind((7, 4), (0, 3)), "a removal");
        assert!(behind((2, 8), (2, 4)), "a split, or a merge that is not linked");
        assert!(behind((5, 1), (0, 0)) && behind((5, 0), (0, 1)) && behind((5, 8), (0, 0)), "an empty run");
    }

    #[test]
    fn a_word_is_not_two_changes_behind() {
        assert!(!behind((2, 3), (2, 5)) && !behind((2, 3), (1, 5)), "two inserts");
        assert!(!behind((2, 3), (1, 3)) && !behind((2, 5), (4, 3)), "one at each end, and two removals");
        assert!(!behind((5, 0), (5, 2)), "two inserts into an empty node");
    }

    #[test]
    fn a_word_that_no_window_has() {
        assert_eq!(window(word(Window::new(7, 8))), Some(Window::new(7, 8)));
        assert_eq!(window(1 << 16), None);
    }
}
