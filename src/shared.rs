//! What many test programs have in common, compiled once.
//!
//! Without optimisation, or with little, a crate takes the instances of generic functions that another crate has, and
//! does not compile them again. So the trees that the command line and most test programs have are named here, and
//! nobody calls them.

use crate::crash::any_tree::AnyTree;
use crate::error::Result;
use crate::medium::any::Any;
use crate::medium::{Mapped, Medium};
use crate::node::{ByteLeaf, IndexKind, OneLine, WordNode};
use crate::papers::{Circular, Linear};
use crate::pool::Pool;
use crate::pool::Report;

type Tree = Result<Box<dyn AnyTree>>;

fn tree<N: WordNode, M: Medium>(pool: &Pool<M>) -> Tree {
    Ok(Box::new(pool.tree_with::<N>("", IndexKind::Volatile)?))
}

fn texts<const SLOTS: usize, M: Medium>(pool: &Pool<M>) -> Result<()> {
    let map = pool.map_with::<Vec<u8>, Vec<u8>, ByteLeaf<SLOTS>>("", IndexKind::Volatile)?;
    map.insert(&[], &[])?;
    map.remove(&[])?;
    map.range(..).try_for_each(|entry| entry.map(drop))
}

type Of<M, T> = fn(&Pool<M>) -> T;

#[used]
static TREES: [Of<Any, Tree>; 6] = [
    tree::<OneLine, Any>,
    tree::<OneLine<7>, Any>,
    tree::<Linear<4>, Any>,
    tree::<Linear<5>, Any>,
    tree::<Circular<4>, Any>,
    tree::<Circular<8>, Any>,
];
#[used]
static OF_FILES: Of<Mapped, Tree> = tree::<OneLine, Mapped>;
#[used]
static TEXTS: (Of<Any, Result<()>>, Of<Mapped, Result<()>>) = (texts::<4, Any>, texts::<36, Mapped>);
#[used]
static CHECKS: (Of<Any, Result<Report>>, Of<Mapped, Result<Report>>) = (Pool::check, Pool::check);
