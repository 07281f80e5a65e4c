//! Kinds of keys and values: the tags that a pool stores, and the names that messages use.
//!
//! A tag never changes its meaning, because pools hold it:
//!
//! ```text
//! 1..=20                    a simple kind, in the order of SIMPLE
//! 100, 101                  a record: bytes, a string
//! 0x1_0000 + N              [u8; N]
//! 1 << 31 | codes           a tuple or an option, in up to six codes of five bits, the first in the lowest bits
//! 3 << 30 | hash            a tuple or an option of more codes, by a hash of them
//! ```
//!
//! The codes are in prefix notation. A simple kind is its tag, an array is `ARRAY` and its length in two codes, and
//! `OPTION` and the tuples come before their parts.
//!
//! A kind with a name of its own has the tag of the kind that it is stored as. The name lies beside the tags, so that a
//! program that does not know the type knows what lies in the tree.

use std::borrow::Cow;
use std::fmt::Write;

/// A kind of key or value, as a root entry names it.
///
/// The crate's types have kinds, and [`own`](Self::own) makes kinds with other names of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Kind {
    /// The number that is stored in the pool.
    pub tag: u32,
    /// Whether the word is the offset of a record.
    pub is_record: bool,
    /// The number of bytes that each key of this kind takes as a part of another key. `None` if keys differ.
    pub(crate) size: Option<u32>,
    /// The name that a user has given it; empty if it is one of the crate's kinds.
    own: &'static str,
}

/// The name of a kind of a user, padded with zeros; only zeros if it is one of the crate's kinds.
pub(crate) type OwnName = [u8; Kind::NAME_MAX];

/// The kinds of keys and values of a tree, as its root entry has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kinds {
    pub(crate) keys: u32,
    pub(crate) values: u32,
    /// The names of users' kinds, of keys and of values.
    pub(crate) own: [OwnName; 2],
}

impl From<(Kind, Kind)> for Kinds {
    fn from((keys, values): (Kind, Kind)) -> Self {
        Self { keys: keys.tag, values: values.tag, own: [keys.own_name(), values.own_name()] }
    }
}

impl Kinds {
    /// Whether one of them has a name of its own.
    pub(crate) fn has_own(&self) -> bool {
        self.own != [OwnName::default(); 2]
    }

    /// The name that messages use for the kind of keys.
    pub(crate) fn name_of_keys(&self) -> Cow<'static, str> {
        name(self.keys, &self.own[0])
    }

    /// The name that messages use for the kind of values.
    pub(crate) fn name_of_values(&self) -> Cow<'static, str> {
        name(self.values, &self.own[1])
    }
}

/// The name of a kind, from what a root entry has.
fn name(tag: u32, own: &OwnName) -> Cow<'static, str> {
    let stored_as = kind_name(tag);
    let len = own.iter().position(|&byte| byte == 0).unwrap_or(own.len());
    if len == 0 { stored_as } else { format!("{} ({stored_as})", String::from_utf8_lossy(&own[..len])).into() }
}

/// The kind of the keys and values of a plain tree.
pub(crate) const U64: Kind = Kind::simple(1);
/// Values that are byte strings.
pub(crate) const BYTES: Kind = Kind { tag: 100, is_record: true, size: None, own: "" };
/// Values that are texts.
pub(crate) const STRING: Kind = Kind { tag: 101, is_record: true, size: None, own: "" };

/// The names and sizes of the kinds with the tags from 1 on.
const SIMPLE: [(&str, Option<u32>); 20] = [
    ("u64", Some(8)),
    ("u32", Some(4)),
    ("u16", Some(2)),
    ("u8", Some(1)),
    ("i64", Some(8)),
    ("i32", Some(4)),
    ("i16", Some(2)),
    ("i8", Some(1)),
    ("usize", Some(8)),
    ("isize", Some(8)),
    ("bool", Some(1)),
    ("[u8; 8]", Some(8)),
    ("(u32, u32)", Some(8)),
    ("char", Some(4)),
    ("f64", Some(8)),
    ("()", Some(8)),
    ("string", None),
    ("bytes", None),
    ("u128", Some(16)),
    ("i128", Some(16)),
];

/// The last kind that a value in its slot may have. The simple kinds after it are of keys only.
const LAST_VALUE: u32 = 16;

const ARRAYS: u32 = 1 << 16;
const ARRAY_MAX: u32 = 1023;
const COMPOSITE: u32 = 1 << 31;
const HASHED: u32 = 1 << 30;

// Codes of what is no simple kind.
const ARRAY: u32 = 21;
const OPTION: u32 = 22;
const TUPLE_2: u32 = 23;
const TUPLE_6: u32 = 27;
/// A part with a name of its own. It never counts among the first codes, because the name is longer.
const OWN: u32 = 28;
/// A part whose own codes are known by their hash only.
const UNNAMED: u32 = 31;

const CODE_BITS: u32 = 5;
const CODE: u32 = (1 << CODE_BITS) - 1;
const MOST_CODES: u32 = 6;

impl Kind {
    /// The most bytes in the name of a kind of one's own.
    pub const NAME_MAX: usize = 32;

    /// A kind with a name of its own, for a type that is stored as another kind.
    ///
    /// The pool knows both, and refuses to open the tree as one of any other kind: a map of `Email` is none of
    /// `String`, although both are stored as texts. Programs that do not know the type see the name, and what the kind
    /// is stored as: that is enough to check the tree, to copy and to compact it, and to read it as [what it is stored
    /// as](crate::Pool::map_as_stored).
    ///
    /// A kind that is a part of a tuple or of an option keeps that apart from others, too; but what has such parts has
    /// no name that could be read.
    ///
    /// # Panics
    ///
    /// When the program is compiled, if it is the `KIND` of a [`Key`](crate::Key) or a [`Value`](crate::Value): if the
    /// name is empty, has more than 32 bytes or a control character, or if `stored_as` has a name of its own already.
    ///
    /// # Examples
    ///
    /// ```
    /// use bristlecone::codec::Kind;
    /// use bristlecone::Value;
    ///
    /// const EMAIL: Kind = Kind::own("email", <String as Value>::KIND);
    /// assert_eq!(EMAIL.name(), "email (string)");
    /// ```
    pub const fn own(name: &'static str, stored_as: Self) -> Self {
        assert!(!name.is_empty() && name.len() <= Self::NAME_MAX, "the name of a kind has 1 to 32 bytes");
        assert!(stored_as.own.is_empty(), "a kind with a name of its own is stored as one of this crate's kinds");
        let mut i = 0;
        while i < name.len() {
            // U+0080 to U+009F are control characters, too.
            let is_late = i > 0 && name.as_bytes()[i - 1] == 0xc2 && name.as_bytes()[i] < 0xa0;
            let is_control = name.as_bytes()[i].is_ascii_control() || is_late;
            assert!(!is_control, "the name of a kind has no control characters");
            i += 1;
        }
        Self { own: name, ..stored_as }
    }

    fn own_name(self) -> OwnName {
        let mut name = OwnName::default();
        name[..self.own.len()].copy_from_slice(self.own.as_bytes());
        name
    }

    pub(crate) const fn simple(tag: u32) -> Self {
        Self { tag, is_record: false, size: SIMPLE[tag as usize - 1].1, own: "" }
    }

    pub(crate) const fn array(len: usize) -> Self {
        assert!(len > 0 && len as u64 <= ARRAY_MAX as u64);
        let tag = if len == 8 { 12 } else { ARRAYS + len as u32 };
        Self { tag, is_record: false, size: Some(len as u32), own: "" }
    }

    pub(crate) const fn option(of: Self) -> Self {
        let size = match of.size {
            Some(size) => Some(1 + size),
            None => None,
        };
        Self { tag: Codes::new(OPTION).and(of).tag(), is_record: false, size, own: "" }
    }

    pub(crate) const fn tuple(parts: &[Self]) -> Self {
        // This pair is older than the codes.
        if let [Self { tag: 2, own: a, .. }, Self { tag: 2, own: b, .. }] = parts
            && a.is_empty()
            && b.is_empty()
        {
            return Self::simple(13);
        }
        let mut codes = Codes::new(TUPLE_2 + parts.len() as u32 - 2);
        let mut size = Some(0);
        let mut i = 0;
        while i < parts.len() {
            codes = codes.and(parts[i]);
            size = sum(size, parts[i].size);
            i += 1;
        }
        Self { tag: codes.tag(), is_record: false, size, own: "" }
    }

    /// Whether it is a kind of one of the crate's keys, unchanged. The pool stores the number of a kind only, and takes
    /// the rest from here.
    pub(crate) const fn is_key(self) -> bool {
        if self.is_record {
            return false;
        }
        let size = match self.tag {
            // Their codes are unknown, so that their size is, too.
            tag if tag & (COMPOSITE | HASHED) == COMPOSITE | HASHED => return true,
            tag if tag & COMPOSITE != 0 => match term(tag & !COMPOSITE, 0) {
                Some(whole) if whole.is_all_of(tag & !COMPOSITE) => whole.size,
                _ => return false,
            },
            tag if tag > ARRAYS && tag - ARRAYS <= ARRAY_MAX => Some(tag - ARRAYS),
            tag if tag > 0 && tag <= SIMPLE.len() as u32 => SIMPLE[tag as usize - 1].1,
            _ => return false,
        };
        match (size, self.size) {
            (Some(size), Some(own)) => size == own,
            (None, None) => true,
            _ => false,
        }
    }

    /// Whether it is a kind of one of the crate's values, unchanged.
    pub(crate) const fn is_value(self) -> bool {
        match self.tag {
            tag if tag == BYTES.tag || tag == STRING.tag => self.is_record,
            tag => tag > 0 && tag <= LAST_VALUE && !self.is_record,
        }
    }

    /// The name that messages use.
    ///
    /// # Examples
    ///
    /// ```
    /// use bristlecone::Key;
    ///
    /// assert_eq!(<(String, u64)>::KIND.name(), "(string, u64)");
    /// assert_eq!(<Option<[u8; 16]>>::KIND.name(), "option of [u8; 16]");
    /// ```
    pub fn name(self) -> Cow<'static, str> {
        name(self.tag, &self.own_name())
    }

    /// The kind with a tag that a pool holds, without a name of its own.
    pub(crate) fn stored(tag: u32) -> Self {
        Self { tag, is_record: is_record(tag), size: None, own: "" }
    }

    /// The smallest word of this kind. A part of another key is written as its distance from here, which fits its size.
    ///
    /// Narrow signed integers have the words that they have as 64-bit integers, so that they begin in the middle.
    pub(crate) const fn base(self) -> u64 {
        match self.tag {
            6 => (1 << 63) - (1 << 31),
            7 => (1 << 63) - (1 << 15),
            8 => (1 << 63) - (1 << 7),
            _ => 0,
        }
    }
}

pub(crate) fn is_record(tag: u32) -> bool {
    [BYTES.tag, STRING.tag].contains(&tag)
}

/// The name of the kind with a tag.
pub(crate) fn kind_name(tag: u32) -> Cow<'static, str> {
    if tag & COMPOSITE != 0 {
        let codes = tag & !COMPOSITE;
        if tag & HASHED != 0 {
            return format!("a composite of many parts ({tag:#x})").into();
        }
        let mut name = String::new();
        return match term(codes, 0) {
            Some(whole) if whole.is_all_of(codes) => {
                write_term(codes, 0, &mut name);
                name.into()
            }
            _ => "unknown".into(),
        };
    }
    match tag {
        1..=20 => SIMPLE[tag as usize - 1].0.into(),
        _ if tag == BYTES.tag => "bytes".into(),
        _ if tag == STRING.tag => "string".into(),
        _ if (ARRAYS + 1..=ARRAYS + ARRAY_MAX).contains(&tag) => format!("[u8; {}]", tag - ARRAYS).into(),
        _ => "unknown".into(),
    }
}

/// Writes the name of the kind whose codes begin at a place. Returns the place behind them.
fn write_term(codes: u32, at: u32, name: &mut String) -> u32 {
    match code(codes, at) {
        ARRAY => {
            // Writing to a string never fails.
            let _ = write!(name, "[u8; {}]", array_len(codes, at));
            at + 3
        }
        OPTION => {
            name.push_str("option of ");
            write_term(codes, at + 1, name)
        }
        tuple @ TUPLE_2..=TUPLE_6 => {
            let mut next = at + 1;
            for i in 0..tuple - TUPLE_2 + 2 {
                name.push_str(if i == 0 { "(" } else { ", " });
                next = write_term(codes, next, name);
            }
            name.push(')');
            next
        }
        simple => {
            name.push_str(SIMPLE[simple as usize - 1].0);
            at + 1
        }
    }
}

/// What the codes of a kind say.
struct Term {
    /// The place behind its codes.
    end: u32,
    size: Option<u32>,
}

impl Term {
    const fn is_all_of(&self, codes: u32) -> bool {
        codes >> (self.end * CODE_BITS) == 0
    }
}

const fn code(codes: u32, at: u32) -> u32 {
    if at < MOST_CODES { codes >> (at * CODE_BITS) & CODE } else { 0 }
}

const fn array_len(codes: u32, at: u32) -> u32 {
    code(codes, at + 1) << CODE_BITS | code(codes, at + 2)
}

const fn sum(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        _ => None,
    }
}

/// The kind whose codes begin at a place; `None` if there is none.
const fn term(codes: u32, at: u32) -> Option<Term> {
    let (end, size) = match code(codes, at) {
        ARRAY if array_len(codes, at) > 0 => (at + 3, Some(array_len(codes, at))),
        OPTION => match term(codes, at + 1) {
            Some(of) => (of.end, sum(Some(1), of.size)),
            None => return None,
        },
        tuple @ TUPLE_2..=TUPLE_6 => {
            let (mut end, mut size, mut i) = (at + 1, Some(0), 0);
            while i < tuple - TUPLE_2 + 2 {
                match term(codes, end) {
                    Some(part) => (end, size) = (part.end, sum(size, part.size)),
                    None => return None,
                }
                i += 1;
            }
            (end, size)
        }
        simple if simple > 0 && simple <= SIMPLE.len() as u32 => (at + 1, SIMPLE[simple as usize - 1].1),
        _ => return None,
    };
    if end <= MOST_CODES { Some(Term { end, size }) } else { None }
}

/// The codes of a composite kind, as it is put together.
#[derive(Clone, Copy)]
struct Codes {
    /// The first six.
    first: u32,
    count: u32,
    /// The FNV-1a hash of all.
    hash: u64,
}

impl Codes {
    const fn new(code: u32) -> Self {
        Self { first: 0, count: 0, hash: 0xcbf2_9ce4_8422_2325 }.push(code)
    }

    const fn push(mut self, code: u32) -> Self {
        if self.count < MOST_CODES {
            self.first |= code << (self.count * CODE_BITS);
        }
        self.count += 1;
        self.hash = (self.hash ^ code as u64).wrapping_mul(0x100_0000_01b3);
        self
    }

    /// Adds the codes of a part.
    const fn and(mut self, Kind { tag: part, own, .. }: Kind) -> Self {
        if !own.is_empty() {
            // More than are stored, so that only the hash is.
            let mut i = 0;
            while i < MOST_CODES {
                self = self.push(OWN);
                i += 1;
            }
            let mut i = 0;
            while i < own.len() {
                let byte = own.as_bytes()[i] as u32;
                self = self.push(byte >> 4).push(byte & 0xf);
                i += 1;
            }
            self = self.push(OWN);
        }
        if part & (COMPOSITE | HASHED) == COMPOSITE | HASHED {
            self = self.push(UNNAMED);
            let mut i = 0;
            while i < MOST_CODES {
                self = self.push(code(part, i));
                i += 1;
            }
        } else if part & COMPOSITE != 0 {
            let end = match term(part & !COMPOSITE, 0) {
                Some(whole) => whole.end,
                None => 0,
            };
            let mut i = 0;
            while i < end {
                self = self.push(code(part, i));
                i += 1;
            }
        } else if part > ARRAYS {
            let len = part - ARRAYS;
            self = self.push(ARRAY).push(len >> CODE_BITS).push(len & CODE);
        } else {
            self = self.push(part);
        }
        self
    }

    const fn tag(self) -> u32 {
        if self.count <= MOST_CODES {
            COMPOSITE | self.first
        } else {
            COMPOSITE | HASHED | (self.hash ^ self.hash >> 34) as u32 & (HASHED - 1)
        }
    }
}
