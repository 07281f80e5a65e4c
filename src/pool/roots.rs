//! Named roots: where each tree begins.
//!
//! ```text
//! 0    state: 0 free, else "live" and the CRC of layout, kinds and name     ── commit of create and drop
//! 8    layout: node layout 16, slots 32, index 16
//! 16   kinds: of keys 32, of values 32
//! 24   head: the leftmost leaf                                              ── commit of clear and bulk_load
//! 32   index: the persistent index's root, 0 = none                         ── commit of growing and shrinking
//! 40   closed: the close record, 0 = the tree was open since                ── commit of close and open
//! 48   closed, its length in words 32, its CRC 32
//! 56   length of the name 32, whether kinds have names of their own 1, whether the layout is not the crate's 1
//! 64   the name, up to 120 bytes
//! 184  the hash of the layout's name (FNV-1a), if the layout is not the crate's
//! 192  the names of the kinds of keys and of values, up to 32 bytes each, if they have any
//! ```
//!
//! The invariants R1 and R2 are in `docs/design.md`, section 2.

use crate::entry::kind::{Kinds, OwnName};
use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{Medium, Step};
use crate::pool::format::{ROOT_BYTES, crc};
use crate::pool::segments::Segments;
use std::ops::Range;

const LIVE: u64 = 0x11fe;
const STATE: u64 = 0;
const LAYOUT: u64 = 8;
const KINDS: u64 = 16;
const HEAD: u64 = 24;
const INDEX: u64 = 32;
const CLOSED: u64 = 40;
const CLOSED_META: u64 = 48;
const NAME_LEN: u64 = 56;
const NAME: u64 = 64;
/// The greatest length of a name, in bytes.
pub(crate) const NAME_MAX: usize = 120;
const NAME_WORDS: u64 = NAME_MAX as u64 / 8;
/// The hash of the layout's name, if that is not one of the crate's.
const FOREIGN: u64 = 184;
/// In the word of the name's length: there are names of kinds.
const WITH_OWN: u64 = 1 << 32;
/// In the same word: there is the hash of a layout's name.
const WITH_FOREIGN: u64 = 1 << 33;
/// The names of the kinds of keys and of values, if users gave them any.
const OWN: u64 = 192;
const OWN_WORDS: u64 = 2 * size_of::<OwnName>() as u64 / 8;
const _: () = assert!(NAME + NAME_MAX as u64 <= FOREIGN && FOREIGN + 8 == OWN && OWN + OWN_WORDS * 8 == ROOT_BYTES);

/// The types that a tree consists of. They are fixed when the tree is created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    /// The node layout's tag.
    pub(crate) layout: u16,
    /// The hash of the layout's name, if it is not one of the crate's: tags of other crates are not given out by
    /// anybody.
    pub(crate) foreign: Option<u64>,
    /// Slots in a node.
    pub(crate) slots: u32,
    /// The index's tag.
    pub(crate) index: u16,
    /// The kinds of keys and values.
    pub(crate) kinds: Kinds,
}

impl Signature {
    /// The tag of the layout and the slots of a node, if the layout is one of the crate's.
    pub(crate) fn known(&self) -> Option<(u16, usize)> {
        self.foreign.is_none().then_some((self.layout, self.slots as usize))
    }
}

/// A close record's place and checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CloseRecord {
    pub(crate) at: u64,
    pub(crate) words: u32,
    pub(crate) crc: u32,
}

/// One tree's entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Root {
    at: u64,
    /// The number of the entry. It is also the tree's number in the segment table.
    pub(crate) slot: u16,
}

impl Root {
    /// All entries that there is space for.
    pub(crate) fn all(segments: &Segments) -> impl Iterator<Item = Self> + '_ {
        (0..segments.roots() as u16).map(|slot| Self::numbered(segments, slot))
    }

    /// The entry with this number, for which there is space.
    pub(crate) fn numbered(segments: &Segments, slot: u16) -> Self {
        Self { at: segments.root(slot), slot }
    }

    /// The bytes of the entry.
    pub(crate) fn bytes(&self) -> Range<u64> {
        self.at..self.at + ROOT_BYTES
    }

    fn name_words<M: Medium>(&self, m: &M) -> impl Iterator<Item = u64> {
        (0..NAME_WORDS).map(move |i| m.load(self.at + NAME + i * 8))
    }

    fn state<M: Medium>(&self, m: &M) -> u64 {
        self.state_with(m, m.load(self.at + NAME_LEN), self.name_words(m))
    }

    /// The state of a live entry with this name and word of its length.
    fn state_with<M: Medium>(&self, m: &M, len: u64, name: impl Iterator<Item = u64>) -> u64 {
        let fixed = [m.load(self.at + LAYOUT), m.load(self.at + KINDS), len];
        let foreign = self.foreign(m, len);
        LIVE | u64::from(crc(fixed.into_iter().chain(name).chain(foreign).chain(self.own_words(m, len)))) << 32
    }

    /// The hash of the layout's name, if the word of the name's length says that there is one.
    fn foreign<M: Medium>(&self, m: &M, len: u64) -> Option<u64> {
        (len & WITH_FOREIGN != 0).then(|| m.load(self.at + FOREIGN))
    }

    /// The words of the names of kinds, if the word of the name's length says that there are any. Else what lies there
    /// is of an earlier tree.
    fn own_words<M: Medium>(&self, m: &M, len: u64) -> impl Iterator<Item = u64> {
        let words = if len & WITH_OWN == 0 { 0 } else { OWN_WORDS };
        (0..words).map(move |i| m.load(self.at + OWN + i * 8))
    }

    fn own<M: Medium>(&self, m: &M) -> [OwnName; 2] {
        let mut own = [OwnName::default(); 2];
        for (bytes, word) in own.as_flattened_mut().chunks_mut(8).zip(self.own_words(m, m.load(self.at + NAME_LEN))) {
            bytes.copy_from_slice(&word.to_ne_bytes());
        }
        own
    }

    /// Whether the entry holds a tree.
    pub(crate) fn is_live<M: Medium>(&self, m: &M) -> Result<bool, Broken> {
        let state = m.load(self.at + STATE);
        if state == 0 {
            return Ok(false);
        }
        if state != self.state(m) {
            return Err(Broken::new(self.at + STATE, "R1: root entry checksum"));
        }
        Ok(true)
    }

    pub(crate) fn name<M: Medium>(&self, m: &M) -> String {
        let len = (m.load(self.at + NAME_LEN) as u32 as usize).min(NAME_MAX);
        let bytes: Vec<u8> = self.name_words(m).flat_map(u64::to_ne_bytes).take(len).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn signature<M: Medium>(&self, m: &M) -> Signature {
        let (layout, kinds) = (m.load(self.at + LAYOUT), m.load(self.at + KINDS));
        Signature {
            layout: layout as u16,
            foreign: self.foreign(m, m.load(self.at + NAME_LEN)),
            slots: (layout >> 16) as u32,
            index: (layout >> 48) as u16,
            kinds: Kinds { keys: kinds as u32, values: (kinds >> 32) as u32, own: self.own(m) },
        }
    }

    /// Clears what an earlier tree left in a free entry.
    pub(crate) fn vacate<M: Medium>(&self, m: &M) {
        // Crash: a free entry. This needs no flush, because `create` flushes these words.
        for word in [HEAD, INDEX, CLOSED] {
            m.store(self.at + word, 0);
        }
    }

    /// Makes the entry live.
    pub(crate) fn create<M: Medium>(&self, m: &M, name: &str, signature: Signature, head: u64) {
        for (i, word) in words_of(name).enumerate() {
            m.store(self.at + NAME + i as u64 * 8, word);
        }
        m.store(
            self.at + LAYOUT,
            u64::from(signature.layout) | u64::from(signature.slots) << 16 | u64::from(signature.index) << 48,
        );
        let Kinds { keys, values, own } = signature.kinds;
        m.store(self.at + KINDS, u64::from(keys) | u64::from(values) << 32);
        m.store(self.at + HEAD, head);
        m.store(self.at + INDEX, 0);
        m.store(self.at + CLOSED, 0);
        let mut len = name.len() as u64;
        let mut end = NAME + NAME_MAX as u64;
        if let Some(hash) = signature.foreign {
            m.store(self.at + FOREIGN, hash);
            (len, end) = (len | WITH_FOREIGN, OWN);
        }
        if signature.kinds.has_own() {
            for (i, word) in own.as_flattened().as_chunks().0.iter().enumerate() {
                m.store(self.at + OWN + i as u64 * 8, u64::from_ne_bytes(*word));
            }
            (len, end) = (len | WITH_OWN, ROOT_BYTES);
        }
        m.store(self.at + NAME_LEN, len);
        m.flush(self.at, end, Step::RootFill);
        m.fence(Step::RootFill);
        m.store(self.at + STATE, self.state(m));
        m.flush(self.at + STATE, 8, Step::RootCreate);
        m.fence(Step::RootCreate);
    }

    /// The words, with their offsets, that change if the tree gets another name.
    pub(crate) fn renamed<M: Medium>(&self, m: &M, name: &str) -> impl Iterator<Item = (u64, u64)> {
        let len = name.len() as u64 | m.load(self.at + NAME_LEN) & (WITH_OWN | WITH_FOREIGN);
        let state = self.state_with(m, len, words_of(name));
        let name = (self.at + NAME..).step_by(8).zip(words_of(name));
        let all = [(self.at + STATE, state), (self.at + NAME_LEN, len)].into_iter().chain(name);
        all.filter(|&(at, word)| m.load(at) != word)
    }

    /// The word, with its offset, that frees the entry.
    pub(crate) fn deleted(&self) -> (u64, u64) {
        (self.at + STATE, 0)
    }

    /// Frees the entry.
    pub(crate) fn delete<M: Medium>(&self, m: &M) {
        m.store(self.at + STATE, 0);
        m.flush(self.at + STATE, 8, Step::RootDrop);
        m.fence(Step::RootDrop);
    }

    pub(crate) fn head<M: Medium>(&self, m: &M) -> u64 {
        m.load(self.at + HEAD)
    }

    /// The offset of `head`, for messages.
    pub(crate) fn head_at(&self) -> u64 {
        self.at + HEAD
    }

    pub(crate) fn set_head<M: Medium>(&self, m: &M, head: u64) {
        m.store(self.at + HEAD, head);
        m.flush(self.at + HEAD, 8, Step::RootHead);
        m.fence(Step::RootHead);
    }

    pub(crate) fn index<M: Medium>(&self, m: &M) -> u64 {
        m.load(self.at + INDEX)
    }

    /// The offset of `index`, for messages.
    pub(crate) fn index_at(&self) -> u64 {
        self.at + INDEX
    }

    /// Flushes; the caller must fence.
    pub(crate) fn set_index<M: Medium>(&self, m: &M, root: u64) {
        m.store(self.at + INDEX, root);
        m.flush(self.at + INDEX, 8, Step::RootIndex);
    }

    pub(crate) fn closed<M: Medium>(&self, m: &M) -> Option<CloseRecord> {
        let meta = m.load(self.at + CLOSED_META);
        match m.load(self.at + CLOSED) {
            0 => None,
            at => Some(CloseRecord { at, words: meta as u32, crc: (meta >> 32) as u32 }),
        }
    }

    /// Declares the tree open (`None`), or closed with a durable close record. This flushes; the caller must fence
    /// before it changes anything of an open tree.
    pub(crate) fn set_closed<M: Medium>(&self, m: &M, closed: Option<CloseRecord>) {
        if let Some(CloseRecord { words, crc, .. }) = closed {
            // Crash, with only one of the two words: what lies at one record's place does not have the other's
            // checksum.
            m.store(self.at + CLOSED_META, u64::from(words) | u64::from(crc) << 32);
        }
        m.store(self.at + CLOSED, closed.map_or(0, |c| c.at));
        m.flush(self.at + CLOSED, 16, if closed.is_some() { Step::RootClose } else { Step::RootOpen });
    }
}

/// A name as it is stored.
fn words_of(name: &str) -> impl Iterator<Item = u64> + use<> {
    let mut bytes = [0; NAME_MAX];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    (0..NAME_WORDS as usize).map(move |i| u64::from_ne_bytes(bytes.as_chunks().0[i]))
}

/// Checks a tree's name.
pub(crate) fn check_name(name: &str) -> Result<(), Fault> {
    if name.is_empty() || name.len() > NAME_MAX {
        return Err(ErrorKind::TreeName { len: name.len(), limit: NAME_MAX }.into());
    }
    Ok(())
}
