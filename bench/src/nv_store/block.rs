//! The block of a leaf, and records: what is where on the medium.

use super::element::{BYTES, Element, WORDS, hash, record_bytes};
use super::leaves::View;
use crate::arena::Arena;
use crate::out::Outcome;
use bristlecone::medium::{LINE, Medium, Step};

/// Offsets of words in the header.
pub(super) const NEXT: u64 = 0;
pub(super) const COUNT: u64 = 8;
const CAPACITY: u64 = 16;
const LOW: u64 = 24;
const LOW_LEN: u64 = 32;

/// The header of a leaf, but for the count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// 0: no leaf follows.
    pub(super) next: u64,
    pub(super) capacity: usize,
    pub(super) low: Low,
}

/// Where a low key is. The empty one is nowhere.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Low {
    pub(super) at: u64,
    pub(super) len: u64,
}

impl Header {
    pub(super) fn read<M: Medium>(medium: &M, at: u64) -> Self {
        let word = |offset| medium.load(at + offset);
        let low = Low { at: word(LOW), len: word(LOW_LEN) };
        Self { next: word(NEXT), capacity: usize::try_from(word(CAPACITY)).unwrap_or(usize::MAX), low }
    }
}

/// The bytes of the block of a leaf.
pub(super) fn bytes(capacity: usize) -> u64 {
    LINE + capacity as u64 * BYTES
}

fn element_at(at: u64, i: usize) -> u64 {
    at + LINE + i as u64 * BYTES
}

/// The element `i` of the block at `at`.
#[inline]
pub(super) fn element<M: Medium>(medium: &M, at: u64, i: usize) -> Element {
    let mut words = [0; WORDS];
    medium.load_words(element_at(at, i), &mut words);
    Element::from_words(words)
}

/// Stores elements from number `first` on, and flushes them.
pub(super) fn write<M: Medium>(medium: &M, at: u64, first: usize, elements: &[Element], step: Step) {
    let start = element_at(at, first);
    let words = elements.iter().flat_map(|element| element.words());
    words.zip((start..).step_by(8)).for_each(|(word, at)| medium.store(at, word));
    medium.flush(start, elements.len() as u64 * BYTES, step);
}

/// Fills a new block, and flushes it.
pub(super) fn fill<M: Medium>(medium: &M, at: u64, header: Header, elements: &[Element]) {
    let Header { next, capacity, low } = header;
    let words =
        [(NEXT, next), (COUNT, elements.len() as u64), (CAPACITY, capacity as u64), (LOW, low.at), (LOW_LEN, low.len)];
    words.into_iter().for_each(|(offset, word)| medium.store(at + offset, word));
    medium.flush(at, LINE, Step::SplitFill);
    if !elements.is_empty() {
        write(medium, at, 0, elements, Step::SplitFill);
    }
}

/// Stores a count, and flushes it.
pub(super) fn count<M: Medium>(medium: &M, at: u64, count: usize, step: Step) {
    medium.store(at + COUNT, count as u64);
    medium.flush(at + COUNT, 8, step);
}

/// Writes and flushes a record that is not in use yet; says where.
pub(super) fn record<M: Medium>(arena: &Arena<M>, key: &[u8], value: &[u8]) -> Outcome<u64> {
    let at = arena.take(record_bytes(key.len() as u64, value.len() as u64))?;
    let padding = key.len().next_multiple_of(8) - key.len();
    arena.write(at, &[key, &[0; 8][..padding], value], Step::RecordWrite);
    Ok(at)
}

/// Whether an element is of a key that has the same hash.
#[inline]
fn is_of<M: Medium>(arena: &Arena<M>, element: &Element, key: &[u8]) -> bool {
    element.key_len as usize == key.len()
        && (key.len() <= 8 || arena.with(element.record, key.len(), |found| found == key))
}

/// The last element of a key among those that a view has and `shows` lets through.
#[inline]
pub(super) fn last<M: Medium>(
    arena: &Arena<M>,
    View { at, count }: View,
    key: &[u8],
    shows: impl Fn(&Element) -> bool,
) -> Option<Element> {
    let (medium, hash) = (arena.medium(), hash(key));
    let alike = (0..count).rev().filter(|&i| medium.load(element_at(at, i)) == hash);
    alike.map(|i| element(medium, at, i)).find(|element| shows(element) && is_of(arena, element, key))
}
