//! The trees of a pool, whatever their types are.

use crate::keys::{Key, KeyKind};
use crate::out::Outcome;
use crate::parse::{Index, Layout};
use crate::shape::{Shape, with_type};
use crate::values::Values;
use bristlecone::medium::Medium;
use bristlecone::stat::TreeInfo;
use bristlecone::{ByteLeaf, IndexKind, Node, Pool, Result, WordNode};

/// An entry as the command line shows it.
pub(crate) type Entry = (Key, Vec<u8>);

/// Which entries of a tree are meant.
#[derive(Debug)]
pub(crate) enum Span {
    /// The entries between two keys, both included. The first key is not greater than the second one.
    Between(Option<Key>, Option<Key>),
    /// The entries whose keys begin with a text, or with bytes.
    Prefix(Key),
}

impl Span {
    /// All entries.
    pub(crate) const ALL: Self = Self::Between(None, None);
}

/// What the subcommands do with a tree, whatever its types are. Keys are of the tree's kind. Values are what a user
/// types and sees: the bytes themselves, or a number in decimal.
pub(crate) trait Tree {
    fn get(&self, key: &Key) -> Result<Option<Vec<u8>>>;
    /// True if the key was there.
    fn put(&self, key: &Key, value: &[u8]) -> Result<bool>;
    /// True if the key was there.
    fn remove(&self, key: &Key) -> Result<bool>;
    /// The entries from either end, one by one.
    fn entries(&self, span: &Span, reverse: bool) -> Result<Box<dyn Iterator<Item = Result<Entry>> + '_>>;
    fn len(&self) -> u64;
    /// Whether `put` accepts the value.
    fn accepts(&self, value: &[u8]) -> bool;
    fn values(&self) -> Values;
}

/// What is needed to open a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) keys: KeyKind,
    pub(crate) values: Values,
    /// `None` if the keys are byte strings. Their nodes and their index are of one kind.
    pub(crate) shape: Option<Shape>,
    /// Whether keys or values have a kind with a name of its own. Then nothing is written: only its program knows what.
    pub(crate) is_own: bool,
}

/// The kind of an existing tree.
pub(crate) fn kind(tree: &TreeInfo) -> Outcome<Kind> {
    let unknown = |what: &str| format!("tree '{}' has {what}, which the command line does not read", tree.name);
    let keys = match &*tree.stored_keys {
        "u64" => KeyKind::U64,
        "string" => KeyKind::Text,
        "bytes" => KeyKind::Hex,
        _ => {
            let known = "it reads keys of kind u64, string (text) and bytes (hex)";
            return Err(format!("{}: {known}", unknown(&format!("keys of kind {}", tree.keys))).into());
        }
    };
    let values = match &*tree.stored_values {
        "u64" => Values::Numbers,
        "string" => Values::Texts,
        "bytes" => Values::Bytes,
        _ => return Err(unknown(&format!("values of kind {}", tree.values)).into()),
    };
    let is_own = (&tree.keys, &tree.values) != (&tree.stored_keys, &tree.stored_values);
    let layout = || unknown(&format!("layout {}", tree.layout));
    let index = Index::from_name(tree.index).ok_or_else(|| unknown(&format!("a {} index", tree.index)))?;
    if keys != KeyKind::U64 {
        let is_known = tree.slots == <ByteLeaf>::SLOTS as u32 && index == Index::Volatile;
        return if is_known { Ok(Kind { keys, values, shape: None, is_own }) } else { Err(layout().into()) };
    }
    let name = tree.layout.split('/').next().unwrap_or_default();
    let shape = Shape { layout: Layout::from_name(name).ok_or_else(layout)?, slots: tree.slots, index };
    Ok(Kind { keys, values, shape: Some(shape), is_own })
}

/// Describes a tree's nodes in messages.
pub(crate) fn nodes(shape: Shape) -> String {
    format!("nodes of {} slots with a {} index", shape.slots, shape.index.name())
}

/// Opens a tree, or creates it. One of kinds with names of their own is opened as what it is stored as.
pub(crate) fn open<M: Medium>(pool: &Pool<M>, name: &str, kind: Kind) -> Outcome<Box<dyn Tree>> {
    macro_rules! map {
        ($pool:ident, $name:ident, $kind:ident, $key:ty, $leaf:ty, $index:expr) => {
            match ($kind.values, $kind.is_own) {
                (Values::Numbers, false) => Box::new($pool.map_with::<$key, u64, $leaf>($name, $index)?),
                (Values::Numbers, true) => Box::new($pool.map_as_stored::<$key, u64, $leaf>($name, $index)?),
                (Values::Texts, false) => Box::new($pool.map_with::<$key, String, $leaf>($name, $index)?),
                (Values::Texts, true) => Box::new($pool.map_as_stored::<$key, String, $leaf>($name, $index)?),
                (Values::Bytes, false) => Box::new($pool.map_with::<$key, Vec<u8>, $leaf>($name, $index)?),
                (Values::Bytes, true) => Box::new($pool.map_as_stored::<$key, Vec<u8>, $leaf>($name, $index)?),
            }
        };
    }
    fn of<N: WordNode, M: Medium>(pool: &Pool<M>, name: &str, index: IndexKind, kind: Kind) -> Result<Box<dyn Tree>> {
        Ok(map!(pool, name, kind, u64, N, index))
    }
    if let Some(shape) = kind.shape {
        let opened = with_type!(shape, [32 64 128 256], N => of::<N, M>(pool, name, shape.index.kind(), kind));
        let unknown = || format!("tree '{name}' has {}, which the command line does not read", nodes(shape));
        return Ok(opened.ok_or_else(unknown)??);
    }
    Ok(match kind.keys {
        KeyKind::Text => map!(pool, name, kind, String, ByteLeaf, IndexKind::Volatile),
        _ => map!(pool, name, kind, Vec<u8>, ByteLeaf, IndexKind::Volatile),
    })
}

/// The tree with this name, if the pool has one.
pub(crate) fn find<M: Medium>(pool: &Pool<M>, name: &str) -> Result<Option<TreeInfo>> {
    Ok(pool.trees()?.into_iter().find(|tree| tree.name == name))
}

/// The names of a pool's trees, as a phrase.
pub(crate) fn known<M: Medium>(pool: &Pool<M>) -> Result<String> {
    let names: Vec<String> = pool.trees()?.into_iter().map(|tree| format!("'{}'", tree.name)).collect();
    Ok(if names.is_empty() { "the pool has no trees".to_owned() } else { format!("there is {}", names.join(", ")) })
}
