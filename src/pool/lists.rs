//! Redo lists: a set of words in the pool changes durably all or none.
//!
//! ```text
//! 4608    list 0 ─ list 6, 512 bytes each
//! line 0  | tag | CRC-32 of sequence, number and words | offset, word | offset, word | offset, word |
//! line n  | tag | 0                                    | offset, word | offset, word | offset, word |
//! tag     | sequence 55 | number of words 8 | live 1 |          number and live: in line 0 only
//! ```
//!
//! The invariants L1 to L3 and what a cut leaves are in `docs/design.md`, section 2.

use super::format::{LISTS, crc_of_few};
use super::segments::{NO_TREE, SegmentKind, Segments};
use crate::error::{Broken, Fault};
use crate::medium::{LINE, Medium, Step};
use crate::sync::delay::delay;
use crate::sync::shards::shard;
use crate::sync::{AtomicBool, AtomicU64, Backoff, Ordering};
use crossbeam_utils::CachePadded;

/// The number of lists.
const COUNT: usize = if cfg!(bristlecone_loom) { 1 } else { 7 };
/// Lines of a list.
const LINES: u64 = 8;
/// Pairs of an offset and a word in a line.
const PER_LINE: usize = 3;
/// The most words that lie in the list itself.
const MOST: usize = PER_LINE * LINES as usize;
/// Stands for a number of words that an extent holds.
const IN_EXTENT: u64 = 255;
/// The tree to which the extents of lists belong: none has this number.
const NOBODY: u16 = NO_TREE;

/// No pool ever comes to this sequence.
const LAST: u64 = 1 << 54;

/// A word that changes: its offset, and its new value.
pub(crate) type WordChange = (u64, u64);

/// The first word of a line: the sequence of the list; in its first line also the number of words, and whether the list
/// is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tag(u64);

impl Tag {
    const LIVE: u64 = 1;

    fn new(sequence: u64, number: u64) -> Self {
        Self(sequence << 9 | number << 1)
    }

    fn live(self) -> Self {
        Self(self.0 | Self::LIVE)
    }

    fn is_live(self) -> bool {
        self.0 & Self::LIVE != 0
    }

    fn number(self) -> u64 {
        self.0 >> 1 & 0xff
    }

    fn sequence(self) -> u64 {
        self.0 >> 9
    }
}

/// The place of one list.
#[derive(Default)]
struct ListPlace {
    is_taken: AtomicBool,
    /// The greatest sequence that any of its lines has ever had. Changed by the thread that has taken the list.
    sequence: AtomicU64,
}

/// All lists of a pool.
pub(crate) struct Lists {
    places: [CachePadded<ListPlace>; COUNT],
    /// Whether the superblock says that there may be live lists.
    pub(super) is_declared: AtomicBool,
}

/// A list that a crash left live.
#[derive(Debug)]
pub(crate) struct Live {
    at: u64,
    words: Vec<WordChange>,
}

/// The offset of a list.
fn list_at(list: usize) -> u64 {
    LISTS.start + list as u64 * LINES * LINE
}

const _: () = assert!(LISTS.start + COUNT as u64 * LINES * LINE <= LISTS.end);

/// The offset of the pair `i` of a list.
fn pair_at(at: u64, i: usize) -> u64 {
    at + (i / PER_LINE) as u64 * LINE + 16 + (i % PER_LINE) as u64 * 16
}

fn tag_at<M: Medium>(m: &M, at: u64) -> Tag {
    Tag(m.load(at))
}

/// The checksum of a list. It does not decide whether the list counts, but it reveals damage.
fn checksum(tag: Tag, words: &[WordChange]) -> u64 {
    crc_of_few(std::iter::once(tag.0).chain(words.iter().flat_map(|&(at, word)| [at, word]))).into()
}

/// Reads the list at `at`; `None` if it does not count (L1).
fn read<M: Medium>(m: &M, segments: &Segments, at: u64) -> Result<Option<Live>, Broken> {
    let tag = tag_at(m, at);
    if !tag.is_live() {
        return Ok(None);
    }
    let pairs = if tag.number() == IN_EXTENT { 1 } else { tag.number() as usize };
    if pairs == 0 || pairs > MOST || tag.sequence() > LAST {
        return Err(Broken::new(at, "L1: a redo list of an impossible length or sequence"));
    }
    let lines = (at..).step_by(LINE as usize).take(pairs.div_ceil(PER_LINE));
    if lines.into_iter().any(|line| tag_at(m, line).sequence() != tag.sequence()) {
        return Ok(None);
    }
    let pair = |at| (m.load(at), m.load(at + 8));
    let mut words: Vec<WordChange> = (0..pairs).map(|i| pair(pair_at(at, i))).collect();
    if tag.number() == IN_EXTENT {
        let (from, number) = words[0];
        let segment = segments.holding(from).filter(|_| segments.within(from) == 0);
        let held = segment.filter(|&segment| segments.unit(segment, SegmentKind::Extent, NOBODY).is_some());
        let room = held.map_or(0, |segment| segments.extent_bytes(segment) / 16);
        if number > room {
            return Err(Broken::new(at, "L1: a redo list whose extent is not there"));
        }
        words = (from..).step_by(16).take(number as usize).map(pair).collect();
    }
    if m.load(at + 8) != checksum(tag, &words) {
        return Err(Broken::new(at, "L1: the checksum of a redo list"));
    }
    let may_change = |at: u64| at.is_multiple_of(8) && (segments.is_in_roots(at) || segments.holds(at));
    if words.iter().any(|&(at, _)| !may_change(at)) {
        return Err(Broken::new(at, "L1: a redo list of words that no list changes"));
    }
    Ok(Some(Live { at, words }))
}

/// The lists that a crash left live, and that count.
pub(crate) fn live<M: Medium>(m: &M, segments: &Segments) -> Result<Vec<Live>, Fault> {
    let lists = (0..COUNT).filter_map(|list| read(m, segments, list_at(list)).transpose());
    let live: Vec<Live> = lists.collect::<Result<_, _>>()?;
    let mut changed: Vec<u64> = live.iter().flat_map(|list| &list.words).map(|&(at, _)| at).collect();
    changed.sort_unstable();
    match changed.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(Broken::new(pair[0], "L3: a word that two redo lists change").into()),
        None => Ok(live),
    }
}

/// Ends all lists, durably: those that do not count, and, in a pool whose pages are of different times, any.
pub(crate) fn forget<M: Medium>(m: &M) {
    (0..COUNT).map(list_at).filter(|&at| tag_at(m, at).is_live()).for_each(|at| retire(m, at));
}

/// Stores words, durably. Of some of them, the lines may have words that other locks guard.
fn apply<M: Medium>(m: &M, words: &[WordChange], is_alone: impl Fn(u64) -> bool) {
    words.iter().for_each(|&(at, word)| m.store(at, word));
    // The line of a leaf is locked, and flushed at once. Words of a root are alone: others of their line are changed
    // under other locks.
    let alike = |&(one, _): &WordChange, &(other, _): &WordChange| one / LINE == other / LINE && !is_alone(one);
    for alike in words.chunk_by(alike) {
        let at = alike.iter().map(|&(at, _)| at);
        let (from, to) = (at.clone().min().expect("a chunk has words"), at.max().expect("a chunk has words") + 8);
        m.flush(from, to - from, Step::ListApply);
    }
    // Crash: the list is live, so the next open stores the words again.
    m.fence(Step::ListApply);
}

/// Ends a list, durably.
fn retire<M: Medium>(m: &M, at: u64) {
    m.store(at, tag_at(m, at).0 & !Tag::LIVE);
    m.flush(at, 8, Step::ListRetire);
    m.fence(Step::ListRetire);
}

impl Live {
    /// The violation that it is there.
    pub(crate) fn is_left(&self, invariant: &'static str) -> Broken {
        Broken::new(self.at, invariant)
    }

    /// The offsets of the words.
    pub(crate) fn offsets(&self) -> impl Iterator<Item = u64> {
        self.words.iter().map(|&(at, _)| at)
    }

    /// Finishes what a crash interrupted. The words are durable, and the list is not live any more, when this returns.
    pub(crate) fn replay<M: Medium>(&self, m: &M) {
        // Nobody else is here yet.
        apply(m, &self.words, |_| false);
        retire(m, self.at);
    }
}

impl Lists {
    /// The lists of a pool.
    pub(crate) fn open<M: Medium>(m: &M) -> Self {
        let places: [CachePadded<ListPlace>; COUNT] = Default::default();
        for (list, place) in places.iter().enumerate() {
            let lines = (list_at(list)..).step_by(LINE as usize).take(LINES as usize);
            // L2: also lines of a list that did not count.
            let last = lines.map(|line| tag_at(m, line).sequence()).max();
            place.sequence.store(last.unwrap_or(0).min(LAST), Ordering::Relaxed);
        }
        Self { places, is_declared: AtomicBool::new(false) }
    }

    /// Takes a list, and waits until one is free. A thread that has one waits for nothing.
    fn take_list(&self) -> TakenList<'_> {
        let backoff = Backoff::new();
        for tries in 0.. {
            let (number, place) = {
                let number = (shard() + tries) % COUNT;
                (number, &self.places[number])
            };
            let is_free = !place.is_taken.load(Ordering::Relaxed);
            if is_free && place.is_taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return TakenList { place, at: list_at(number) };
            }
            backoff.snooze();
        }
        unreachable!("the loop does not end")
    }
}

/// A list that this thread has taken.
struct TakenList<'l> {
    place: &'l ListPlace,
    at: u64,
}

impl TakenList<'_> {
    /// Writes the list. It counts once it is durable, which it is when this returns.
    fn write<M: Medium>(&self, m: &M, number: u64, pairs: &[WordChange], words: &[WordChange]) {
        let sequence = self.place.sequence.load(Ordering::Relaxed) + 1;
        self.place.sequence.store(sequence, Ordering::Relaxed);
        let tag = Tag::new(sequence, number).live();
        m.store(self.at + 8, checksum(tag, words));
        for (line, pairs) in pairs.chunks(PER_LINE).enumerate() {
            let at = self.at + line as u64 * LINE;
            for (i, &(offset, word)) in pairs.iter().enumerate() {
                m.store(pair_at(at, i), offset);
                m.store(pair_at(at, i) + 8, word);
            }
            // L1: a line that has the tag of this list has the rest of it, too.
            m.order(Step::ListTag);
            m.store(at, if line == 0 { tag.0 } else { Tag::new(sequence, 0).0 });
        }
        m.flush(self.at, pairs.len().div_ceil(PER_LINE) as u64 * LINE, Step::ListWrite);
        // Crash, until here: the list counts or not, and none of its words has changed.
        m.fence(Step::ListWrite);
    }
}

impl Drop for TakenList<'_> {
    fn drop(&mut self) {
        self.place.is_taken.store(false, Ordering::Release);
    }
}

/// Ends the process where it cannot go on: while a list may be live and others could change its words. The list that is
/// left is replayed by the next open.
struct OrDie;

impl Drop for OrDie {
    fn drop(&mut self) {
        std::process::abort();
    }
}

/// Room for a set of words. What follows cannot fail.
pub(crate) struct Room<'p, M: Medium> {
    m: &'p M,
    segments: &'p Segments,
    lists: &'p Lists,
    /// The extent for the words that a list has no room for.
    extent: Option<u32>,
    /// The words that change.
    pub(crate) words: Vec<WordChange>,
}

impl<'p, M: Medium> Room<'p, M> {
    /// Finds room for so many words.
    pub(super) fn new(m: &'p M, segments: &'p Segments, lists: &'p Lists, words: usize) -> Result<Self, Fault> {
        let is_long = words > MOST;
        let extent = is_long.then(|| segments.assign_extent(m, NOBODY, words as u64 * 16)).transpose()?;
        Ok(Self { m, segments, lists, extent, words: Vec::with_capacity(words) })
    }

    /// Changes the words, durably, all or none. The caller holds the locks that guard them, and keeps them until this
    /// returns. Each word is there once.
    ///
    /// # Complexity
    ///
    /// Three fences, and the lines of the list, of the words, and one more. If there are more than 24 words, four
    /// fences, and mostly one for the segment table.
    pub(crate) fn commit(mut self) {
        let Self { m, segments, lists, .. } = self;
        if self.words.is_empty() {
            return;
        }
        if m.facts().writes_back {
            // Words of a line are flushed together.
            self.words.sort_by_key(|&(at, _)| at / LINE);
        }
        let words = &self.words[..];
        let list = lists.take_list();
        let or_die = OrDie;
        delay();
        match self.extent {
            Some(segment) if words.len() > MOST => {
                let at = segments.start(segment);
                for (&(offset, word), at) in words.iter().zip((at..).step_by(16)) {
                    m.store(at, offset);
                    m.store(at + 8, word);
                }
                m.flush(at, words.len() as u64 * 16, Step::ListExtent);
                // The list that names them must not become durable before them.
                m.fence(Step::ListExtent);
                list.write(m, IN_EXTENT, &[(at, words.len() as u64)], words);
            }
            _ => list.write(m, words.len() as u64, words, words),
        }
        delay();
        apply(m, words, |at| segments.is_in_roots(at));
        retire(m, list.at);
        std::mem::forget(or_die);
    }
}

impl<M: Medium> Drop for Room<'_, M> {
    fn drop(&mut self) {
        if let Some(segment) = self.extent
            && !self.m.forked()
        {
            self.segments.retire_extent(self.m, segment, NOBODY);
        }
    }
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use crate::error::{ErrorKind, Result};
    use crate::medium::any::{Any, holding, words_of, zeroed};
    use crate::medium::{Mapped, Mapping};
    use crate::pool::Pool;

    /// The offset of the first segment behind the header.
    const FIRST: u64 = crate::pool::format::HEADER;

    /// A pool that was killed, and that `change` has changed, which gets the offset of a block that is free.
    fn killed(change: impl FnOnce(&Any, u64)) -> Any {
        let pool = Pool::options().segment_size(4096).create_on(zeroed(256 << 10)).unwrap();
        pool.tree("t").unwrap().insert(1, 1).unwrap();
        let m = holding(words_of(pool.medium()));
        change(&m, FIRST + 1280);
        m
    }

    fn open(m: Any) -> Result<Pool<Any>> {
        Pool::options().segment_size(4096).open_on(m)
    }

    fn write(m: &Any, list: usize, words: &[WordChange]) {
        let place = ListPlace::default();
        TakenList { place: &place, at: list_at(list) }.write(m, words.len() as u64, words, words);
    }

    #[test]
    fn a_list_that_counts_is_replayed_once() {
        for count in [1u64, 3, 4, 24] {
            let mut place = 0;
            let m = killed(|m, at| {
                place = at;
                write(m, 2, &(0..count).map(|i| (at + 8 * i, i + 7)).collect::<Vec<_>>());
            });
            let pool = open(m).unwrap();
            assert!((0..count).all(|i| pool.medium().load(place + 8 * i) == i + 7));
            pool.state.medium.store(place, 0);
            let again = open(holding(words_of(pool.medium()))).unwrap();
            assert_eq!(again.medium().load(place), 0);
        }
    }

    /// In memory, where the pool is only read.
    #[test]
    #[cfg(not(miri))]
    fn a_reader_sees_what_a_list_says_and_stores_nothing() {
        let mut place = 0;
        let m = killed(|m, at| {
            place = at;
            write(m, 2, &[(at, 7), (at + 8, 8)]);
        });
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.pool");
        let bytes: Vec<u8> = words_of(&m).into_iter().flat_map(u64::to_ne_bytes).collect();
        std::fs::write(&path, &bytes).unwrap();
        let reading = Pool::options().read_only(true);
        let raw = || Mapped::open(&path, Mapping::Read).unwrap();
        for pool in [reading.open(&path), reading.open(&path), Pool::options().open_on(raw())] {
            let pool = pool.unwrap();
            assert_eq!([place, place + 8].map(|at| pool.medium().load(at)), [7, 8]);
            assert!((0..COUNT).all(|list| !tag_at(&pool.state.medium, list_at(list)).is_live()));
            assert_eq!(pool.tree("t").unwrap().get(1), Some(1));
        }
        assert_ne!(raw().load(place), 7);
        assert!(std::fs::read(&path).unwrap() == bytes);
        // The control: a writer replays it in the file.
        drop(Pool::open(&path).unwrap());
        assert_eq!(raw().load(place), 7);
        // Where words would be stored to a medium that somebody else has, nothing is to be seen.
        let refused = reading.open_on(m).err().unwrap();
        assert!(matches!(refused.kind, ErrorKind::ReadOnly { .. }), "{refused}");
    }

    /// With any line of it missing, or any of an earlier list, it does not count; and its sequence is not used again.
    #[test]
    fn a_list_counts_whole_or_not_at_all() {
        for missing in 0..4 {
            let mut place = 0;
            let m = killed(|m, at| {
                place = at;
                let words: Vec<WordChange> = (0..12).map(|i| (at + 8 * i, i + 7)).collect();
                write(m, 0, &words);
                let line = list_at(0) + missing * LINE;
                m.store(line, m.load(line) - (1 << 9));
            });
            let before = m.load(place);
            let pool = open(m).unwrap();
            assert_eq!(pool.medium().load(place), before);
            assert!(!tag_at(&pool.state.medium, list_at(0)).is_live());
            let next = pool.state.lists.places[0].sequence.load(Ordering::Relaxed);
            assert!((0..8).all(|line| tag_at(&pool.state.medium, list_at(0) + line * LINE).sequence() <= next));
        }
    }

    #[test]
    fn damage_is_named_and_nothing_is_stored() {
        let refused = |change: &dyn Fn(&Any, u64), what: &str| {
            let m = killed(change);
            let before = words_of(&m);
            let error = open(m).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
            let m = killed(change);
            let again = Pool::options().read_only(true).open_on(m).map(|pool| words_of(pool.medium()));
            assert!(again.is_err() || again.is_ok_and(|words| words == before));
        };
        for offset in 1..8 {
            let flipped = move |m: &Any, at: u64| {
                write(m, 1, &[(at, 1), (at + 8, 2), (at + 16, 3)]);
                m.store(list_at(1) + 8 * offset, m.load(list_at(1) + 8 * offset) ^ 1 << 40);
            };
            refused(&flipped, "L1: the checksum");
        }
        refused(&|m, _| write(m, 0, &[(0, 1)]), "L1: a redo list of words that no list changes");
        refused(&|m, at| write(m, 0, &[(at + 4, 1)]), "L1: a redo list of words");
        refused(&|m, _| write(m, 0, &[(1 << 40, 1)]), "L1: a redo list of words");
        refused(&|m, _| m.store(list_at(0), Tag::new(5, 25).live().0), "L1: a redo list of an impossible length");
        refused(&|m, _| m.store(list_at(0), Tag::new(LAST + 1, 1).live().0), "L1: a redo list of an impossible length");
        let in_extent = |m: &Any, at: u64| {
            let place = ListPlace::default();
            TakenList { place: &place, at: list_at(0) }.write(m, IN_EXTENT, &[(at & !4095, 30)], &[]);
        };
        refused(&in_extent, "L1: a redo list whose extent is not there");
        let twice = |m: &Any, at: u64| (0..2).for_each(|list| write(m, list, &[(at, list as u64)]));
        refused(&twice, "L3: a word that two redo lists change");
    }

    #[test]
    fn no_list_is_live_after_a_close() {
        let pool = open(killed(|_, _| ())).unwrap();
        let tree = pool.tree("t").unwrap();
        let mut batch = pool.batch();
        (0..100).for_each(|i| batch.insert(&tree, i, i).unwrap());
        batch.commit().unwrap();
        drop(tree);
        let words = words_of(pool.medium());
        let m = holding(words);
        assert!((0..COUNT).all(|list| !tag_at(&m, list_at(list)).is_live()));
        // A build that does not know lists refuses the pool until it is closed.
        assert_eq!(m.load(32), 1);
        let state = std::sync::Arc::clone(&pool.state);
        drop(pool);
        let mut state = std::sync::Arc::into_inner(state).unwrap();
        state.close().unwrap();
        assert_eq!((state.medium.load(32), state.medium.load(4096 + 32)), (0, 0));
        let m = holding(words_of(&state.medium));
        write(&m, 0, &[(FIRST, 1)]);
        assert!(open(m).unwrap_err().to_string().contains("L3: a live redo list in a pool that was closed"));
    }
}
