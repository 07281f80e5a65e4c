//! Reporting how far the opening of a tree, or its compacting, has come.

use std::fmt;
use std::sync::Arc;

/// How far the opening of a tree, or its compacting, has come. `done` never goes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'t> {
    /// The tree's name.
    pub tree: &'t str,
    /// The number of blocks of leaves that were looked at. A tree with records is looked at twice, if it is large.
    pub done: u64,
    /// The number of all blocks of leaves to look at, each as often as it is looked at.
    pub of: u64,
}

/// The callback that was passed to [`Options::progress`](crate::Options::progress).
#[derive(Clone)]
pub(crate) struct Watch(Arc<dyn Fn(Progress<'_>) + Send + Sync>);

impl Watch {
    pub(crate) fn new(watch: impl Fn(Progress<'_>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(watch))
    }

    pub(crate) fn tell(&self, tree: &str, done: u64, of: u64) {
        (self.0)(Progress { tree, done, of });
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}
