//! What may be seen of the medium of an open pool.

use super::{Costs, Counted, Counts, Dram, Facts, Mapped, Medium};
use std::io;

/// The medium of an open pool, to look at: [`Pool::medium`](crate::Pool::medium).
///
/// It only reads, because the pool owns its medium: a store past the pool damages it, and [`release`](Medium::release)
/// or [`truncate`](Medium::truncate) would empty it. A medium of one's own that counts something keeps its counters in
/// an [`Arc`](std::sync::Arc), as [`Counted`] does, and the program keeps the other handle.
///
/// # Examples
///
/// ```
/// use bristlecone::Pool;
/// use bristlecone::medium::{Counted, Dram};
///
/// let pool = Pool::options().create_on(Counted::new(Dram::zeroed(64 << 20)))?;
/// let tree = pool.tree("t")?;
/// let before = pool.medium().counts();
/// tree.insert(1, 10)?;
/// assert_eq!((pool.medium().counts() - before).fences, 1);
/// # Ok::<(), bristlecone::Error>(())
/// ```
///
/// What changes a medium is not there:
///
/// ```compile_fail,E0599
/// # use bristlecone::Pool;
/// # use bristlecone::medium::{Dram, Medium};
/// # let pool = Pool::options().create_on(Dram::zeroed(1 << 20))?;
/// pool.medium().release(0, 1 << 20);
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct View<'p, M: ?Sized>(&'p M);

impl<M: ?Sized> Clone for View<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: ?Sized> Copy for View<'_, M> {}

impl<'p, M: Medium + ?Sized> From<&'p M> for View<'p, M> {
    fn from(medium: &'p M) -> Self {
        Self(medium)
    }
}

impl<'p, M: Medium + ?Sized> View<'p, M> {
    /// See [`Medium::facts`].
    pub fn facts(self) -> Facts<'p> {
        self.0.facts()
    }

    /// See [`Medium::accessible`].
    pub fn accessible(self) -> u64 {
        self.0.accessible()
    }

    /// See [`Medium::costs`].
    pub fn costs(self) -> Costs {
        self.0.costs()
    }

    /// The word at `at`, as [`Medium::load`] gives it.
    ///
    /// # Panics
    ///
    /// If it is not [accessible](Self::accessible).
    pub fn load(self, at: u64) -> u64 {
        self.0.load(at)
    }

    /// The words from `at` on, as [`Medium::load_words`] gives them.
    ///
    /// # Panics
    ///
    /// If they are not all [accessible](Self::accessible).
    pub fn load_words(self, at: u64, words: &mut [u64]) {
        self.0.load_words(at, words);
    }
}

impl<M: Medium> View<'_, Counted<M>> {
    /// The counts so far.
    pub fn counts(self) -> Counts {
        self.0.counts()
    }
}

impl View<'_, Mapped> {
    /// Bytes of the file that its file system has really allocated.
    ///
    /// # Errors
    ///
    /// The error of the system.
    pub fn allocated(self) -> io::Result<u64> {
        self.0.allocated()
    }
}

impl View<'_, Dram> {
    /// A copy of all words.
    pub fn words(self) -> Vec<u64> {
        self.0.words()
    }
}
