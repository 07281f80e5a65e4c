//! What `--figure` asks for.

use std::path::PathBuf;

/// The extra nanoseconds for a flushed line in most of the papers.
pub(crate) const SLOW: u64 = 300;

/// The figures to run, and how.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Names of figures or papers, or `list`.
    pub(crate) figures: Vec<String>,
    pub(crate) n: u64,
    /// Whether to use as many keys as in the paper.
    pub(crate) full: bool,
    /// The extra nanoseconds per flushed line, unless the figure has its own.
    pub(crate) slow: u64,
    /// Whether no tree requests memory before it reads it.
    pub(crate) no_prefetch: bool,
    pub(crate) repeat: u32,
    pub(crate) seed: u64,
    /// Where the pools are.
    pub(crate) directory: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    /// Where JSON goes, if it is wanted. With `-` it goes to the standard output, and there are no tables.
    pub(crate) json: Option<PathBuf>,
}

#[cfg(test)]
impl Plan {
    /// A plan for few keys, whose JSON replaces the tables.
    pub(crate) fn of_tests(n: u64, slow: u64, repeat: u32) -> Self {
        let (figures, seed) = (Vec::new(), 7);
        let (full, no_prefetch, directory, svg, json) = (false, false, None, None, Some("-".into()));
        Self { figures, n, full, slow, no_prefetch, repeat, seed, directory, svg, json }
    }
}
