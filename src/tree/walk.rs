//! Finding all leaves after a crash.
//!
//! The headers are enough to find the chain; the entries are read when a leaf is first touched. In a large tree, the
//! headers are read in the order in which they lie, on all cores, and then the chain is followed in memory. Following
//! it in the pool would wait for each leaf.

use super::{TreeNode, TreeState};
use crate::chain::Links;
use crate::error::{Broken, Fault};
use crate::medium::{Hint, Medium};
use crate::node::{Keys, NEXT};
use crate::pool::segments::{Places, SegmentKind};
use crate::sync::several::{on_threads, processors};
use crate::sync::{AtomicUsize, Mutex, Ordering};

/// With fewer blocks than this, following the chain is as fast.
const FEW: usize = if cfg!(test) { 500 } else { 10_000 };

/// The leaves of a tree.
pub(super) struct Leaves {
    /// Names and offsets, from left to right, without the tail.
    pub(super) listed: Vec<(u64, u64)>,
    /// The tail, if chains have one.
    pub(super) tail: Option<u64>,
}

impl Leaves {
    /// The offsets of all leaves, from left to right.
    pub(super) fn all(&self) -> impl Iterator<Item = u64> + use<'_> {
        self.listed.iter().map(|&(_, at)| at).chain(self.tail)
    }
}

/// The headers of all blocks, valid or not. The chain is followed through the numbers alone, which mostly fit into a
/// cache.
struct Headers {
    /// The word by which an index would know the block.
    name: Vec<u64>,
    /// The number of the right neighbour.
    next: Vec<u32>,
}

/// There is no next block.
const END: u32 = u32::MAX;
/// The next block is impossible, or this block is not a leaf.
const BAD: u32 = u32::MAX - 1;

/// The blocks of a tree's leaves, numbered in the order in which they lie.
struct Numbered {
    segments: Vec<u32>,
    places: Places,
    /// Blocks per segment.
    blocks: usize,
}

impl<N: TreeNode, M: Medium> TreeState<N, M> {
    /// Finds the leaves from `head` on. Nobody may change the tree meanwhile. Checks N1 and N4; stores nothing.
    pub(super) fn find_leaves(&self, head: u64) -> Result<Leaves, Fault> {
        match self.blocks_to_sweep() {
            Some((segments, all)) => {
                let blocks = all / segments.len();
                self.sweep(head, &Numbered { places: Places::new(&segments), segments, blocks })
            }
            None => {
                self.ask_for_leaves();
                self.follow(head)
            }
        }
    }

    /// Asks a disk for leaves that will be found one by one, if these are few, or for the first of them.
    fn ask_for_leaves(&self) {
        const MOST: u64 = 16 << 20;
        let (m, segments) = (self.medium(), &self.pool.segments);
        if m.asks_ahead().is_some() {
            let leaves = segments.owned(self.root.slot, SegmentKind::Leaf, 0);
            for segment in leaves.into_iter().take((MOST / segments.size()).max(1) as usize) {
                m.hint(segments.start(segment), segments.len(segment), Hint::Ahead);
            }
        }
    }

    /// The segments of the leaves, and how many blocks they have, if all headers are to be read at once.
    fn blocks_to_sweep(&self) -> Option<(Vec<u32>, usize)> {
        let segments = &self.pool.segments;
        let owned = segments.owned(self.root.slot, SegmentKind::Leaf, N::BYTES as u32);
        let all = owned.len() * (segments.size() / N::BYTES) as usize;
        // Blocks of several sizes are not numbered.
        (Links::<N, M>::CLASSES == 1 && (FEW..BAD as usize).contains(&all)).then_some((owned, all))
    }

    /// Follows the chain from leaf to leaf. Other threads may split leaves meanwhile, if none leaves the chain.
    pub(super) fn follow(&self, head: u64) -> Result<Leaves, Fault> {
        let mut listed = Vec::new();
        let mut at = head;
        loop {
            let next = self.leaves.next(at)?;
            if self.leaves.level(at)? != 0 || (listed.is_empty() && self.leaves.name(at) != 0) {
                return Err(Broken::new(at, "N1: the chain starts with the leaf that owns the least key").into());
            }
            listed.push((self.leaves.name(at), at));
            let Some(next) = next else { break };
            at = next;
        }
        let ends = N::Keys::cut_tail(&mut listed).map(|tail| Leaves { listed, tail });
        Ok(ends.ok_or_else(|| Broken::new(head, "N1: the chain ends with the leaf that owns MAX"))?)
    }

    /// Finds the same leaves by reading all headers at once. If anything is wrong, following the chain reports what it
    /// is.
    fn sweep(&self, head: u64, numbered: &Numbered) -> Result<Leaves, Fault> {
        let headers = self.headers(numbered);
        match self.ordered(head, numbered, &headers) {
            Some(leaves) => Ok(leaves),
            None => self.follow(head),
        }
    }

    /// The leaves in the order of the chain; `None` if it is broken.
    fn ordered(&self, head: u64, numbered: &Numbered, headers: &Headers) -> Option<Leaves> {
        // Follow the numbers alone first: each load waits for the previous one, so no other load should be waited for.
        let mut order = Vec::with_capacity(headers.next.len());
        let mut number = self.number(numbered, head);
        while number != END {
            // If there are more steps than blocks, the chain has a cycle.
            let next = headers.next.get(number as usize).filter(|_| order.len() < headers.next.len())?;
            order.push(number);
            number = *next;
        }
        let leaf = |number: u32| (headers.name[number as usize], self.block(numbered, number as usize));
        let mut listed: Vec<(u64, u64)> = order.into_iter().map(leaf).collect();
        // Where keys are in records, names are no keys: recovery compares the lows, when their lines are there.
        let ascends = N::Keys::HAS_RECORDS || N::Keys::separators_ascend(self.leaves.access(), &listed);
        let is_whole = listed.first()?.0 == 0 && ascends;
        let tail = N::Keys::cut_tail(&mut listed)?;
        is_whole.then_some(Leaves { listed, tail })
    }

    /// Reads the headers of all blocks, on all cores.
    fn headers(&self, numbered: &Numbered) -> Headers {
        let blocks = numbered.segments.len() * numbered.blocks;
        let mut headers = Headers { name: vec![0; blocks], next: vec![BAD; blocks] };
        let threads = processors().min(numbered.segments.len());
        let parts = headers.name.chunks_mut(numbered.blocks).zip(headers.next.chunks_mut(numbered.blocks));
        let parts: Vec<_> = parts.map(std::sync::Mutex::new).collect();
        let of = self.blocks_to_read(blocks);
        // Told under the lock, so that no thread tells less than another one has told.
        let (next, done) = (AtomicUsize::new(0), Mutex::new(0));
        let read = || {
            loop {
                let place = next.fetch_add(1, Ordering::Relaxed);
                let Some(part) = parts.get(place) else { break };
                if let Some(&ahead) = numbered.segments.get(place + threads) {
                    let segments = &self.pool.segments;
                    self.medium().hint(segments.start(ahead), segments.len(ahead), Hint::Ahead);
                }
                let (names, nexts) = &mut *part.lock().expect("reading does not panic");
                self.read_headers(numbered, place, names, nexts);
                let mut done = done.lock();
                *done += numbered.blocks as u64;
                self.tell(*done, of);
            }
        };
        on_threads(threads, &read);
        drop(parts);
        headers
    }

    /// How many blocks of leaves a walk reads: those whose headers are read, and again each leaf of a tree that has
    /// records.
    fn blocks_to_read(&self, headers: usize) -> u64 {
        headers as u64 * if self.leaves.records.is_some() { 2 } else { 1 }
    }

    /// Reports how many of the `of` leaves were read for their records. The headers of all blocks were reported before,
    /// if there are many: then a leaf counts for as many blocks as there are for each.
    pub(super) fn tell_of_records(&self, done: u64, of: u64) {
        self.medium().pause();
        match self.blocks_to_sweep() {
            Some((_, blocks)) => {
                let blocks = blocks as u64;
                self.tell(blocks + (u128::from(done) * u128::from(blocks) / u128::from(of)) as u64, blocks * 2);
            }
            None => self.tell(done, of),
        }
    }

    /// Reports progress: how many blocks were looked at, and how many there are.
    pub(super) fn tell(&self, done: u64, of: u64) {
        // At the close of a tree that was opened by an image, nobody waits for an open.
        if let Some(watch) = self.pool.watch.as_ref().filter(|_| self.spare_records.load(Ordering::Relaxed) == 0) {
            watch.tell(&self.name(), done, of);
        }
    }

    /// Reads the headers of one segment.
    fn read_headers(&self, numbered: &Numbered, place: usize, names: &mut [u64], nexts: &mut [u32]) {
        let m = self.medium();
        let (segments, segment) = (&self.pool.segments, numbered.segments[place]);
        let (start, len) = (segments.start(segment), segments.len(segment));
        m.hint(start, len, Hint::InOrder);
        let blocks = (start..=start + len - N::BYTES).step_by(N::BYTES as usize);
        for ((name, next), at) in names.iter_mut().zip(nexts).zip(blocks) {
            *name = self.leaves.name(at);
            *next = match (self.leaves.level(at), m.load(at + NEXT)) {
                (Ok(0), 0) => END,
                (Ok(0), next) => self.number(numbered, next),
                _ => BAD,
            };
        }
    }

    /// The number of the block at an offset; `BAD` if there is none.
    fn number(&self, numbered: &Numbered, at: u64) -> u32 {
        let segments = &self.pool.segments;
        // A segment may have become the tree's only after the segments were numbered.
        match (self.leaves.accept(at, at), segments.holding(at).and_then(|segment| numbered.places.position(segment))) {
            (Ok(_), Some(place)) => (place * numbered.blocks) as u32 + (segments.within(at) / N::BYTES) as u32,
            _ => BAD,
        }
    }

    /// The offset of a numbered block.
    fn block(&self, numbered: &Numbered, number: usize) -> u64 {
        let segment = numbered.segments[number / numbered.blocks];
        self.pool.segments.start(segment) + (number % numbered.blocks) as u64 * N::BYTES
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use crate::error::ErrorKind;
    use crate::map::Map;
    use crate::medium::Medium;
    use crate::medium::any::{Any, holding, words_of, zeroed};
    use crate::node::IndexKind;
    use crate::node::{ByteLeaf, Circular, LOW, Layout, NEXT, Node, OneLine, WordNode};
    use crate::pool::Pool;
    use crate::tree::directory::Directory;
    use crate::tree::{PTree, TreeState};

    fn with_leaves<N: WordNode>(test: impl Fn(&TreeState<N, Any>)) {
        let pool = Pool::options().segment_size(4096).create_on(zeroed(2 << 20)).unwrap();
        let tree: PTree<N, Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
        for key in 0..4000u64 {
            tree.insert(key.wrapping_mul(0x9e37_79b9_7f4a_7c15), key).unwrap();
        }
        for key in 0..2000u64 {
            tree.remove(key.wrapping_mul(0x9e37_79b9_7f4a_7c15)).unwrap();
        }
        test(&tree.state);
    }

    #[test]
    fn who_wants_to_hear_it_is_told_how_far_it_is() {
        told_while_opened(|pool| {
            let tree: PTree<OneLine<7>, Any> = pool.tree_with("far", IndexKind::Volatile).unwrap();
            (0..8000).for_each(|key| assert!(tree.insert(key, key).is_ok()));
        });
        // Their leaves are read again, for the records that slots point to.
        told_while_opened(|pool| {
            let map: Map<u64, Vec<u8>, OneLine<7>, Any> = pool.map_with("far", IndexKind::Volatile).unwrap();
            (0..8000).for_each(|key| assert!(map.insert(key, b"").is_ok()));
        });
        told_while_opened(|pool| {
            let map: Map<Vec<u8>, u64, ByteLeaf<8>, Any> = pool.map_with("far", IndexKind::Volatile).unwrap();
            (0..8000u64).for_each(|key| assert!(map.insert(&key.to_be_bytes(), key).is_ok()));
        });
    }

    /// Opens trees again, as after a crash.
    fn told_while_opened(fill: impl Fn(&Pool<Any>)) {
        use std::sync::{Arc, Mutex};

        let heard = Arc::new(Mutex::new(Vec::new()));
        let ear = Arc::clone(&heard);
        let options = Pool::options().segment_size(4096);
        let options =
            options.progress(move |told| ear.lock().unwrap().push((told.tree.to_owned(), told.done, told.of)));
        let pool = options.create_on(zeroed(4 << 20)).unwrap();
        // With a snapshot, the tree is open until its words are copied.
        let snapshot = pool.snapshot();
        fill(&pool);
        let words = words_of(pool.medium());
        drop(snapshot);
        assert!(heard.lock().unwrap().is_empty());
        fill(&options.open_on(holding(words)).unwrap());
        let heard = heard.lock().unwrap().clone();
        assert!(heard.is_sorted() && heard.len() > 3, "{heard:?}");
        assert!(heard.iter().all(|(tree, _, of)| tree == "far" && *of == heard[0].2), "{heard:?}");
        assert_eq!(heard.last().map(|told| told.1), heard.last().map(|told| told.2));
    }

    /// Other threads may be writing, so only the blocks of the chain are read.
    #[test]
    fn what_a_damaged_image_lost_is_learned_from_the_chain() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicBool, Ordering};

        let swept = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&swept);
        let options = Pool::options().segment_size(4096);
        let options = options.progress(move |_| told.store(true, Ordering::Relaxed));
        let pool = options.create_on(zeroed(2 << 20)).unwrap();
        let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
        (0..8000).for_each(|key| assert!(tree.insert(key, key).is_ok()));
        drop(tree);
        let mut words = words_of(pool.medium());
        // The close record: its head tells how long it is, and is followed by the image.
        let at = words[8192 / 8 + 5] as usize / 8;
        let image = at + words[at] as usize;
        words[image + 1..image + 1000].iter_mut().for_each(|word| *word ^= 1);
        let pool = options.open_on(holding(words)).unwrap();
        let tree: PTree<OneLine<7>, Any> = pool.tree_with("t", IndexKind::Volatile).unwrap();
        assert!(!tree.state.directory.is_lost());
        assert_eq!(tree.get(7), Some(7));
        assert!(tree.state.directory.floor(7).is_some() && !tree.state.directory.is_lost());
        assert!(!swept.load(Ordering::Relaxed));
        assert!(tree.iter().eq((0..8000).map(|key| (key, key))) && tree.check().is_clean());
    }

    // Under Miri, a thread can have a stack of any size.
    fn sweep_finds_what_following_finds<N: WordNode>() {
        with_leaves::<N>(|state| {
            let (found, followed) = (state.find_leaves(state.head()).unwrap(), state.follow(state.head()).unwrap());
            assert!(found.listed.len() > 300);
            assert_eq!((found.listed, found.tail), (followed.listed, followed.tail));
        });
    }

    #[test]
    fn one_sweep_finds_what_following_finds() {
        sweep_finds_what_following_finds::<OneLine<7>>();
        sweep_finds_what_following_finds::<Circular<4>>();
    }

    #[test]
    fn a_sweep_says_what_is_broken() {
        fn is_corrupt<N: WordNode>(damage: impl Fn(&TreeState<N, Any>, u64)) {
            with_leaves::<N>(|state| {
                let at = state.find_leaves(state.head()).unwrap().listed[200].1;
                let m = state.medium();
                let words: Vec<u64> = (0..3).map(|i| m.load(at + 8 * i)).collect();
                damage(state, at);
                assert!(
                    state
                        .find_leaves(state.head())
                        .is_err_and(|fault| matches!(fault.kind(), ErrorKind::Corrupt { .. }))
                );
                words.iter().enumerate().for_each(|(i, &word)| m.store(at + 8 * i as u64, word));
            });
        }
        is_corrupt::<OneLine<7>>(|state, at| state.medium().store(at + NEXT, 0));
        is_corrupt::<OneLine<7>>(|state, at| state.medium().store(at + NEXT, at));
        is_corrupt::<OneLine<7>>(|state, at| state.medium().store(at + NEXT, at + 8));
        is_corrupt::<OneLine<7>>(|state, at| state.medium().store(at + NEXT, state.head()));
        is_corrupt::<OneLine<7>>(|state, at| state.medium().store(at + LOW, u64::MAX));
        is_corrupt::<OneLine<7>>(|state, at| state.medium().store(at + LOW, 0));
        is_corrupt::<Circular<4>>(|state, at| {
            state.medium().store(at + 16, 7);
            assert!(<Circular<4> as Node>::Ops::level(state.leaves.block(at)).is_err());
        });
    }
}
