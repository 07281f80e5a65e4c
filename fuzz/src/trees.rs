//! Trees whose types are chosen at run time: every layout with every index, with numbers and with records as values,
//! and with numbers or byte strings as keys.

use crate::strings::Strings;
use crate::tables::Tabled;
use bristlecone::medium::{Dram, Medium};
use bristlecone::papers::{
    Aggressive, Append, Circular, CowSip, Fingerprint, Fingerprinted, Fixed, Linear, Logged, Scanned, Sentinel,
    Versioned, crab,
};
use bristlecone::{ByteLeaf, IndexKind, Map, OneLine, Options, PTree, Pool, Report, Result, Value, WordNode};
use std::ops::{Bound, Deref};
use std::sync::Arc;

pub(crate) type Any = Arc<dyn Medium>;

/// Size in bytes of the part of a pool before the segments.
pub(crate) const HEADER: u64 = 12288;

pub(crate) fn options() -> Options {
    Pool::options().segment_size(1024)
}

/// A pool with room for the longest keys.
pub(crate) fn options_of_long_keys() -> Options {
    options()
}

/// Memory that holds zeros.
pub(crate) fn zeroed(len: u64) -> Any {
    Arc::new(Dram::zeroed(len))
}

/// Memory that holds these words.
pub(crate) fn holding(words: Vec<u64>) -> Any {
    Arc::new(Dram::from_words(words))
}

/// The current words of the pool's memory.
pub(crate) fn words_of(pool: &Pool<Any>) -> Vec<u64> {
    let mut words = vec![0; pool.medium().accessible() as usize / 8];
    pool.medium().load_words(0, &mut words);
    words
}

/// Where a range begins and ends.
pub(crate) type Bounds = (Bound<u64>, Bound<u64>);

/// A tree of numbers, or a map whose keys or values encode numbers.
pub(crate) trait Tree {
    fn get(&self, key: u64) -> Result<Option<u64>>;
    fn multi_get(&self, keys: &[u64]) -> Result<Vec<Option<u64>>>;
    /// Returns the previous value; a map returns only whether there was one, as `Some(0)`.
    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>>;
    /// As `insert`.
    fn update(&self, key: u64, value: u64) -> Result<Option<u64>>;
    /// As `insert`.
    fn remove(&self, key: u64) -> Result<Option<u64>>;
    /// A map inserts a key that is not there, and returns the value that is there.
    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>>;
    /// Maps have no batches, so entries are inserted one after the other.
    fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<u64>;
    fn bulk_load(&self, entries: &[(u64, u64)]) -> Result<u64>;
    fn clear(&self) -> Result<()>;
    fn len(&self) -> u64;
    fn is_empty(&self) -> bool;
    fn first(&self) -> Result<Option<(u64, u64)>>;
    fn last(&self) -> Result<Option<(u64, u64)>>;
    /// The entries in order.
    fn range(&self, bounds: Bounds, most: usize) -> Result<Vec<(u64, u64)>>;
    /// The entries from the end.
    fn backwards(&self, bounds: Bounds, most: usize) -> Result<Vec<(u64, u64)>>;
    /// The entries, taken from both ends in turn, and then put in order.
    fn from_both_ends(&self, bounds: Bounds, most: usize) -> Result<Vec<(u64, u64)>>;
    fn keys(&self, bounds: Bounds, most: usize) -> Vec<u64>;
    /// The entries whose keys begin with so many bytes of a key; `None` if keys are numbers.
    fn with_prefix(&self, _key: u64, _len: usize) -> Option<Result<Vec<(u64, u64)>>> {
        None
    }
    fn check(&self) -> Report;
    /// Whether changes return the previous value.
    fn tells_values(&self) -> bool;
}

/// A tree of any kind.
pub(crate) enum AnyTree {
    Tree(Box<dyn Tree>),
    Table(Box<dyn Tabled>),
}

impl AnyTree {
    /// The tree, if it takes part in transactions and snapshots.
    pub(crate) fn table(&self) -> Option<&dyn Tabled> {
        match self {
            Self::Tree(_) => None,
            Self::Table(table) => Some(&**table),
        }
    }
}

impl Deref for AnyTree {
    type Target = dyn Tree;

    fn deref(&self) -> &(dyn Tree + 'static) {
        match self {
            Self::Tree(tree) => &**tree,
            Self::Table(table) => &**table,
        }
    }
}

/// Takes items from both ends in turn; returns them in order.
fn ends<T>(mut both: impl DoubleEndedIterator<Item = T>, most: usize) -> Vec<T> {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    while left.len() + right.len() < most
        && let Some(first) = both.next()
    {
        left.push(first);
        right.extend(both.next_back());
    }
    left.extend(right.into_iter().rev());
    left
}

impl<N: WordNode> Tree for PTree<N, Any> {
    fn get(&self, key: u64) -> Result<Option<u64>> {
        Ok(self.get(key))
    }

    fn multi_get(&self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
        Ok(self.multi_get(keys))
    }

    fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.insert(key, value)
    }

    fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
        self.update(key, value)
    }

    fn remove(&self, key: u64) -> Result<Option<u64>> {
        self.remove(key)
    }

    fn compare_exchange(&self, key: u64, current: Option<u64>, new: Option<u64>) -> Result<Option<u64>> {
        self.compare_exchange(key, current, new)
    }

    fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<u64> {
        self.insert_batch(entries)
    }

    fn bulk_load(&self, entries: &[(u64, u64)]) -> Result<u64> {
        self.bulk_load(entries.iter().copied())
    }

    fn first(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.first_key_value())
    }

    fn last(&self) -> Result<Option<(u64, u64)>> {
        Ok(self.last_key_value())
    }

    fn range(&self, bounds: Bounds, most: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.range(bounds).take(most).collect())
    }

    fn backwards(&self, bounds: Bounds, most: usize) -> Result<Vec<(u64, u64)>> {
        Ok(self.range(bounds).rev().take(most).collect())
    }

    fn from_both_ends(&self, bounds: Bounds, most: usize) -> Result<Vec<(u64, u64)>> {
        Ok(ends(self.range(bounds), most))
    }

    fn clear(&self) -> Result<()> {
        self.clear()
    }

    fn len(&self) -> u64 {
        self.len()
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn keys(&self, bounds: Bounds, most: usize) -> Vec<u64> {
        self.keys(bounds).take(most).collect()
    }

    fn check(&self) -> Report {
        self.check()
    }

    fn tells_values(&self) -> bool {
        true
    }
}

/// A record for a number: of different classes, of several lines, or with segments of its own. Every byte follows from
/// the number.
fn record(value: u64) -> Vec<u8> {
    const LENGTHS: [usize; 8] = [8, 11, 24, 60, 200, 500, 1500, 2600];
    let len = LENGTHS[(value % LENGTHS.len() as u64) as usize];
    let mut bytes = value.to_le_bytes().repeat(len.div_ceil(8));
    bytes.truncate(len);
    bytes
}

/// The number of a record; for bytes that are not such a record, a number that no input has.
fn number(bytes: &[u8]) -> u64 {
    let value = bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
    value.filter(|&value| record(value) == bytes).unwrap_or(0xbad_bad_bad)
}

/// A value that stands for a number.
pub(crate) trait Held: Value {
    fn of(number: u64) -> Self;
    fn number(&self) -> u64;
    /// As methods of maps take it.
    fn held(&self) -> Self::Borrowed<'_>;
}

impl Held for u64 {
    fn of(number: u64) -> Self {
        number
    }

    fn number(&self) -> u64 {
        *self
    }

    fn held(&self) -> u64 {
        *self
    }
}

impl Held for Vec<u8> {
    fn of(number: u64) -> Self {
        record(number)
    }

    fn number(&self) -> u64 {
        number(self)
    }

    fn held(&self) -> &[u8] {
        self
    }
}

/// The entries of a map, as numbers.
fn numbers<K, V: Held>(
    entries: impl Iterator<Item = Result<(K, V)>>,
    number: impl Fn(K) -> u64,
) -> Result<Vec<(u64, u64)>> {
    entries.map(|entry| entry.map(|(key, value)| (number(key), value.number()))).collect()
}

/// A map, and the strings that its keys are, if they are not numbers.
pub(crate) struct Of<T> {
    pub(crate) map: T,
    pub(crate) strings: Strings,
}

impl<T> Of<T> {
    fn word(&self, key: u64) -> u64 {
        key
    }

    fn number_of_word(&self, key: u64) -> u64 {
        key
    }

    fn string(&self, key: u64) -> &[u8] {
        self.strings.string(key)
    }

    fn number_of_string(&self, key: Vec<u8>) -> u64 {
        self.strings.number(&key)
    }
}

/// Maps with keys of one form, which `$key` makes of numbers, and of which `$number` makes numbers.
macro_rules! maps {
    ([$($generics:tt)*] $map:ty, $value:ty, $key:ident, $number:ident, { $($more:tt)* }) => {
        impl<$($generics)*> Tree for Of<$map> {
            fn get(&self, key: u64) -> Result<Option<u64>> {
                Ok(self.map.get(self.$key(key))?.map(|value| value.number()))
            }

            fn multi_get(&self, keys: &[u64]) -> Result<Vec<Option<u64>>> {
                let keys: Vec<_> = keys.iter().map(|&key| self.$key(key)).collect();
                let values = self.map.multi_get(&keys)?;
                Ok(values.into_iter().map(|value| value.map(|value| value.number())).collect())
            }

            fn insert(&self, key: u64, value: u64) -> Result<Option<u64>> {
                Ok(self.map.insert(self.$key(key), <$value>::of(value).held())?.then_some(0))
            }

            fn update(&self, key: u64, value: u64) -> Result<Option<u64>> {
                Ok(self.map.update(self.$key(key), <$value>::of(value).held())?.then_some(0))
            }

            fn remove(&self, key: u64) -> Result<Option<u64>> {
                Ok(self.map.remove(self.$key(key))?.then_some(0))
            }

            fn compare_exchange(&self, key: u64, _current: Option<u64>, new: Option<u64>) -> Result<Option<u64>> {
                let new = <$value>::of(new.unwrap_or(0));
                Ok((!self.map.insert_new(self.$key(key), new.held())?).then_some(0))
            }

            fn insert_batch(&self, entries: &[(u64, u64)]) -> Result<u64> {
                let mut new = 0;
                for &(key, value) in entries {
                    new += u64::from(Tree::insert(self, key, value)?.is_none());
                }
                Ok(new)
            }

            fn bulk_load(&self, entries: &[(u64, u64)]) -> Result<u64> {
                let values: Vec<_> = entries.iter().map(|&(key, value)| (key, <$value>::of(value))).collect();
                self.map.bulk_load(values.iter().map(|(key, value)| (self.$key(*key), value.held())))
            }

            fn first(&self) -> Result<Option<(u64, u64)>> {
                Ok(self.map.first_key_value()?.map(|(key, value)| (self.$number(key), value.number())))
            }

            fn last(&self) -> Result<Option<(u64, u64)>> {
                Ok(self.map.last_key_value()?.map(|(key, value)| (self.$number(key), value.number())))
            }

            fn range(&self, (from, to): Bounds, most: usize) -> Result<Vec<(u64, u64)>> {
                let bounds = (from.map(|key| self.$key(key)), to.map(|key| self.$key(key)));
                numbers(self.map.range(bounds).take(most), |key| self.$number(key))
            }

            fn backwards(&self, (from, to): Bounds, most: usize) -> Result<Vec<(u64, u64)>> {
                let bounds = (from.map(|key| self.$key(key)), to.map(|key| self.$key(key)));
                numbers(self.map.range(bounds).rev().take(most), |key| self.$number(key))
            }

            fn from_both_ends(&self, (from, to): Bounds, most: usize) -> Result<Vec<(u64, u64)>> {
                let bounds = (from.map(|key| self.$key(key)), to.map(|key| self.$key(key)));
                numbers(ends(self.map.range(bounds), most).into_iter(), |key| self.$number(key))
            }

            fn clear(&self) -> Result<()> {
                self.map.clear()
            }

            fn len(&self) -> u64 {
                self.map.len()
            }

            fn is_empty(&self) -> bool {
                self.map.is_empty()
            }

            fn keys(&self, (from, to): Bounds, most: usize) -> Vec<u64> {
                let bounds = (from.map(|key| self.$key(key)), to.map(|key| self.$key(key)));
                self.map.keys(bounds).take(most).map(|key| self.$number(key)).collect()
            }

            fn check(&self) -> Report {
                self.map.check()
            }

            fn tells_values(&self) -> bool {
                false
            }

            $($more)*
        }
    };
}

maps!([N: WordNode] Map<u64, Vec<u8>, N, Any>, Vec<u8>, word, number_of_word, {});

maps!([V: Held] Map<Vec<u8>, V, ByteLeaf<4>, Any>, V, string, number_of_string, {
    fn with_prefix(&self, key: u64, len: usize) -> Option<Result<Vec<(u64, u64)>>> {
        let string = self.string(key);
        let prefix = &string[..len.min(string.len())];
        Some(numbers(self.map.prefix(prefix), |key| self.number_of_string(key)))
    }
});

/// A kind of tree.
pub(crate) struct TreeType {
    index: IndexKind,
    pub(crate) has_strings: bool,
    numbers: Open,
    records: Open,
}

type Open = fn(&Pool<Any>, &str, IndexKind, &Strings) -> Result<AnyTree>;

impl TreeType {
    const fn of<N: WordNode>(index: IndexKind) -> Self {
        Self {
            index,
            has_strings: false,
            numbers: |pool, name, index, _| Ok(AnyTree::Tree(Box::new(pool.tree_with::<N>(name, index)?))),
            records: |pool, name, index, strings| {
                let map: Map<u64, Vec<u8>, N, Any> = pool.map_with(name, index)?;
                Ok(AnyTree::Tree(Box::new(Of { map, strings: strings.clone() })))
            },
        }
    }

    /// With leaves that take part in transactions and snapshots.
    const fn of_tables(index: IndexKind) -> Self {
        Self {
            index,
            has_strings: false,
            numbers: |pool, name, index, _| Ok(AnyTree::Table(Box::new(pool.tree_with::<OneLine<7>>(name, index)?))),
            records: |pool, name, index, strings| {
                let map: Map<u64, Vec<u8>, OneLine<7>, Any> = pool.map_with(name, index)?;
                Ok(AnyTree::Table(Box::new(Of { map, strings: strings.clone() })))
            },
        }
    }

    const OF_STRINGS: Self = Self {
        index: IndexKind::Volatile,
        has_strings: true,
        numbers: of_strings::<u64>,
        records: of_strings::<Vec<u8>>,
    };

    /// Opens the tree with this name, or creates it. `strings` are the keys if they are byte strings.
    pub(crate) fn open(&self, pool: &Pool<Any>, name: &str, records: bool, strings: &Strings) -> Result<AnyTree> {
        (if records { self.records } else { self.numbers })(pool, name, self.index, strings)
    }
}

fn of_strings<V: Held>(pool: &Pool<Any>, name: &str, index: IndexKind, strings: &Strings) -> Result<AnyTree> {
    let map: Map<Vec<u8>, V, ByteLeaf<4>, Any> = pool.map_with(name, index)?;
    Ok(AnyTree::Table(Box::new(Of { map, strings: strings.clone() })))
}

/// The number of the kind that a byte stands for. A third of the bytes stand for the last kind, byte strings.
pub(crate) fn kind_number(byte: u8) -> usize {
    usize::from(byte % 64).min(KIND_COUNT - 1)
}

/// The kind that a byte stands for.
pub(crate) fn kind(byte: u8) -> &'static TreeType {
    KINDS[kind_number(byte)]
}

macro_rules! kinds {
    (@ [$($index:ident)*] $layout:ty) => { &[$(TreeType::of::<$layout>(IndexKind::$index)),*] };
    ($($layout:ty: $indexes:tt;)*) => { &[TABLES, $(kinds!(@ $indexes $layout)),*, &[TreeType::OF_STRINGS]] };
}

const TABLES: &[TreeType] = &[
    TreeType::of_tables(IndexKind::Volatile),
    TreeType::of_tables(IndexKind::Persistent),
    TreeType::of_tables(IndexKind::Flat),
    TreeType::of_tables(IndexKind::FlatFixed),
];

/// Every layout with every index that it can have; at the end, that of byte strings.
const BY_LAYOUT: &[&[TreeType]] = kinds! {
    Linear<4>: [Volatile Persistent];
    Circular<4>: [Volatile Persistent];
    Scanned<Linear<4>>: [Volatile Persistent];
    Sentinel<Circular<8>>: [Volatile Persistent];
    Fingerprinted<Linear<4>>: [Volatile Persistent];
    CowSip<4>: [Volatile Persistent];
    CowSip<4, { crab::OPT }>: [Volatile Persistent];
    CowSip<4, { crab::COPY_ONLY }>: [Volatile Persistent];
    CowSip<4, { crab::SHIFT_ONLY }>: [Volatile Persistent];
    Append<3>: [Volatile Persistent Flat FlatFixed];
    Append<3, Fixed>: [Volatile Persistent Flat FlatFixed];
    Append<3, Aggressive>: [Volatile Persistent Flat FlatFixed];
    Fingerprint<4>: [Volatile Persistent];
    Logged<4>: [Volatile Persistent];
    Versioned<4>: [Volatile Persistent];
};

/// The number of kinds.
pub(crate) const KIND_COUNT: usize = {
    let (mut count, mut i) = (0, 0);
    while i < BY_LAYOUT.len() {
        count += BY_LAYOUT[i].len();
        i += 1;
    }
    count
};

/// All kinds in one array.
const KINDS: [&TreeType; KIND_COUNT] = {
    let mut kinds = [&BY_LAYOUT[0][0]; KIND_COUNT];
    let (mut n, mut i) = (0, 0);
    while i < BY_LAYOUT.len() {
        let mut j = 0;
        while j < BY_LAYOUT[i].len() {
            kinds[n] = &BY_LAYOUT[i][j];
            (n, j) = (n + 1, j + 1);
        }
        i += 1;
    }
    kinds
};
