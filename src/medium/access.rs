//! In which order the pages of a pool's file are read.

/// How much of a pool's file is read when a page is accessed that is not in memory. See
/// [`Options::access`](crate::Options::access).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Access {
    /// As for [`Random`](Self::Random) once the file is longer than half of the memory that the process may use: that
    /// of the machine, or the limit of its control group. Before that, the system reads ahead as it does by default:
    /// all of the file fits into memory, and is there sooner.
    #[default]
    Auto,
    /// That page alone. What is read in order, by scans and opens, is asked for ahead.
    Random,
    /// Much of what follows, which may leave memory soon after it was read: for a pool of which most is read in the
    /// order in which it was written.
    Sequential,
}
