//! Who wants to hear how far an opening is.

use std::fmt;
use std::sync::Arc;

/// How far the opening of a tree is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'t> {
    /// The tree's name.
    pub tree: &'t str,
    /// Blocks of leaves that were looked at.
    pub done: u64,
    /// Of so many.
    pub of: u64,
}

/// What [`Options::progress`](crate::Options::progress) was given.
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
