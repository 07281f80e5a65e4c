//! Values of ten fields behind a tree of words: the key-value stores of Circ-Tree (section 6.1) and of Sentinel Array
//! (section IV.C).
//!
//! ```text
//! tree      key -> offset of a table
//! table     offset of field 0 | offset of field 1 | ... | offset of field 9
//! field     100 bytes
//! ```
//!
//! | step | what a crash before its fence leaves |
//! |---|---|
//! | insert: fields and table are written, flushed and fenced | blocks that nothing leads to, which are free |
//! | insert: the key goes into the tree | the key is there with all fields, or it is not: see the tree |
//! | update: a field is written, flushed and fenced | a block that nothing leads to |
//! | update: the store of its offset into the table, flushed and fenced | the old field or the new one, whole |
//!
//! The block of a field that was replaced is used again when no reader is left, after the fence. A reader takes no
//! lock, and may see a new field before it is durable, as the papers' stores have it: neither paper says otherwise. Two
//! updates of a value take turns.

use crate::arena::Arena;
use crate::entry::{Bytes, Entry, Text};
use crate::ordered_map::{Fault, OrderedMap};
use crate::out::Outcome;
use bristlecone::medium::{LINE, Medium, Step};
use std::sync::{Mutex, PoisonError};

/// Fields of a value, as YCSB has them.
pub(super) const FIELDS: u64 = 10;
/// Bytes of a field.
const FIELD: usize = 100;
const TABLE: u64 = FIELDS * 8;
/// Locks of values, which share them.
const LOCKS: usize = 1024;

/// What the blocks of a value take.
pub(super) const BYTES: u64 = FIELDS * (FIELD as u64).next_multiple_of(LINE) + TABLE.next_multiple_of(LINE);

/// How a word becomes a field. Keys play no part.
const CONTENT: Bytes = Bytes { text: Text::User, value: FIELD };

/// A store: a tree, and its values in an arena.
pub(super) struct Fields<'t, M: Medium> {
    tree: &'t dyn OrderedMap,
    arena: Arena<M>,
    locks: Box<[Mutex<()>]>,
    fault: Fault,
}

/// Where one thread puts fields together.
pub(super) type Buffer = Vec<u8>;

impl<'t, M: Medium> Fields<'t, M> {
    /// A store of an empty tree.
    pub(super) fn new(tree: &'t dyn OrderedMap, medium: M) -> Self {
        let locks = (0..LOCKS).map(|_| Mutex::default()).collect();
        Self { tree, arena: Arena::new(medium), locks, fault: Fault::default() }
    }

    /// Inserts a new key; each field is made of this word.
    pub(super) fn insert(&self, key: u64, word: u64, buffer: &mut Buffer) {
        if let Some(table) = self.fault.note(self.write_value(CONTENT.value(word, buffer))) {
            self.tree.insert(key, table);
        }
    }

    fn write_value(&self, field: &[u8]) -> Outcome<u64> {
        let mut offsets = [0; FIELDS as usize];
        for offset in &mut offsets {
            *offset = self.write_field(field)?;
        }
        let table = self.arena.take(TABLE)?;
        self.arena.write(table, &[offsets.map(u64::to_le_bytes).as_flattened()], Step::RecordWrite);
        self.arena.medium().fence(Step::RecordWrite);
        Ok(table)
    }

    /// Writes a field to a block of its own. No fence.
    fn write_field(&self, field: &[u8]) -> Outcome<u64> {
        let at = self.arena.take(FIELD as u64)?;
        self.arena.write(at, &[field], Step::RecordWrite);
        Ok(at)
    }

    /// Reads all fields of a value; returns the words that they were made of.
    pub(super) fn read(&self, key: u64) -> Option<[u64; FIELDS as usize]> {
        let _pin = self.arena.pin();
        let table = self.tree.get(key)?;
        let mut offsets = [0; FIELDS as usize];
        self.arena.medium().load_words(table, &mut offsets);
        Some(offsets.map(|at| self.arena.with(at, FIELD, Bytes::read)))
    }

    /// Replaces a field of a value that is there by one that is made of this word.
    pub(super) fn update(&self, key: u64, field: u64, word: u64, buffer: &mut Buffer) {
        let Some(table) = self.tree.get(key) else { return };
        let at = table + field % FIELDS * 8;
        let lock = &self.locks[(table / LINE) as usize % LOCKS];
        let Some(new) = self.fault.note(self.write_field(CONTENT.value(word, buffer))) else { return };
        let medium = self.arena.medium();
        medium.fence(Step::RecordWrite);
        let _turn = lock.lock().unwrap_or_else(PoisonError::into_inner);
        let old = medium.load(at);
        medium.store(at, new);
        medium.flush(at, 8, Step::ShiftUpdate);
        medium.fence(Step::ShiftUpdate);
        self.arena.retire(old, FIELD as u64);
    }

    /// The first error that occurred.
    pub(super) fn fault(&self) -> Outcome<()> {
        self.fault.get()?;
        self.tree.fault()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btreemap::Ordinary;
    use crate::cuts::{Bug, Recorder};
    use crate::numbers::Random;
    use bristlecone::medium::Dram;
    use std::collections::BTreeMap;

    #[test]
    fn every_field_is_the_last_that_was_written() {
        let tree = Ordinary::default();
        // Room for what forty values take, and for few of the fields that are replaced.
        let store = Fields::new(&tree, Dram::zeroed(64 * BYTES));
        let (mut model, mut random, mut buffer) = (BTreeMap::new(), Random::new(3), Buffer::default());
        for i in 0..20_000 {
            let (key, word) = (random.below(40), random.word());
            if let Some(words) = model.get_mut(&key) {
                let words: &mut [u64; FIELDS as usize] = words;
                let field = random.below(FIELDS);
                store.update(key, field, word, &mut buffer);
                words[field as usize] = word;
            } else if i % 10 == 0 {
                store.insert(key, word, &mut buffer);
                model.insert(key, [word; FIELDS as usize]);
            }
            assert_eq!(store.read(key), model.get(&key).copied());
        }
        assert!(model.len() > 30);
        store.fault().unwrap();
    }

    #[test]
    fn a_full_medium_is_told() {
        let tree = Ordinary::default();
        let store = Fields::new(&tree, Dram::zeroed(2 * BYTES));
        let mut buffer = Buffer::default();
        (0..2).for_each(|key| store.insert(key, 7, &mut buffer));
        assert_eq!([store.read(0).is_some(), store.read(1).is_some()], [true, false]);
        assert!(store.fault().unwrap_err().to_string().contains("no room"));
    }

    /// The fields of each value.
    type Model = BTreeMap<u64, [u64; FIELDS as usize]>;

    /// How many states of a crash show something else than what had returned, with what was under way whole or not at
    /// all.
    fn violations(bug: Option<Bug>) -> usize {
        let (tree, recorder) = (Ordinary::default(), Recorder::new(vec![0; 4 * BYTES as usize / 8], bug));
        let store = Fields::new(&tree, recorder.clone());
        let (mut models, mut buffer) = (vec![Model::new()], Buffer::default());
        let updates = [(1, 3, 31), (1, 3, 32), (2, 9, 33), (1, 0, 34)];
        for (key, field, word) in
            [(1, None, 11), (2, None, 12)].into_iter().chain(updates.map(|(key, field, word)| (key, Some(field), word)))
        {
            let mut model = models.last().cloned().unwrap_or_default();
            match field {
                None => {
                    store.insert(key, word, &mut buffer);
                    model.insert(key, [word; FIELDS as usize]);
                }
                Some(field) => {
                    store.update(key, field, word, &mut buffer);
                    model.entry(key).and_modify(|words| words[field as usize] = word);
                }
            }
            recorder.returned();
            models.push(model);
        }
        store.fault().unwrap();
        let mut violations = 0;
        recorder.states(200, |state| {
            // A key is in the tree when its insert has returned: before the fence of its value, it is not.
            let found = Fields::new(&tree, Dram::from_words(state.words.iter().copied()));
            let before = &models[state.returned];
            let after = if state.is_within { models.get(state.returned + 1) } else { None }.unwrap_or(before);
            let is_right = |key: &u64| {
                let words = found.read(*key);
                words == before.get(key).copied() || words == after.get(key).copied()
            };
            violations += usize::from(!before.keys().all(is_right));
        });
        violations
    }

    #[test]
    fn a_crash_leaves_every_field_whole() {
        assert_eq!(violations(None), 0);
    }

    #[test]
    fn what_is_left_out_is_found() {
        for step in [Step::RecordWrite, Step::ShiftUpdate] {
            assert!(violations(Some(Bug::Flush(step))) > 0, "{step:?}");
            assert!(violations(Some(Bug::Fence(step))) > 0, "{step:?}");
        }
    }
}
