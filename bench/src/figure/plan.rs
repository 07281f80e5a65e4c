//! What was asked for with `--figure`.

use std::path::PathBuf;

/// Nanoseconds that a flushed line takes longer in most of the papers.
pub(crate) const SLOW: u64 = 300;

/// What was asked.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Names of figures or papers, or `list`.
    pub(crate) figures: Vec<String>,
    pub(crate) n: u64,
    /// As many keys as in the paper.
    pub(crate) full: bool,
    /// Nanoseconds per flushed line, unless the figure says others.
    pub(crate) slow: u64,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    /// Where the pools are.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    /// Where JSON goes, if it is wanted; `-`: to the standard output, and the tables nowhere.
    pub(crate) json: Option<PathBuf>,
}
