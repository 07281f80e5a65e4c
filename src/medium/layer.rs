//! A medium over another one.

use super::{Costs, Facts, Hint, Medium, Step};
use core::sync::atomic::AtomicU64;
use std::io;
use std::sync::Arc;

/// A medium that changes some of what another medium does: it names the medium below and implements the methods that
/// differ.
///
/// Each method is that of [`Medium`], and by default calls the medium below.
///
/// # Examples
///
/// ```
/// use bristlecone::medium::{Dram, Layer, Medium, Step};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// struct CountsFences(Dram, AtomicU64);
///
/// impl Layer for CountsFences {
///     type Below = Dram;
///
///     fn below(&self) -> &Dram {
///         &self.0
///     }
///
///     fn fence(&self, step: Step) {
///         self.1.fetch_add(1, Ordering::Relaxed);
///         self.0.fence(step);
///     }
/// }
/// ```
pub trait Layer: Send + Sync + 'static {
    /// The type of the medium below.
    type Below: Medium + ?Sized;

    /// The medium below.
    fn below(&self) -> &Self::Below;

    /// See [`Medium::facts`].
    fn facts(&self) -> Facts<'_> {
        self.below().facts()
    }

    /// See [`Medium::accessible`].
    #[inline]
    fn accessible(&self) -> u64 {
        self.below().accessible()
    }

    /// See [`Medium::costs`].
    fn costs(&self) -> Costs {
        self.below().costs()
    }

    /// See [`Medium::forked`].
    #[inline]
    fn forked(&self) -> bool {
        self.below().forked()
    }

    /// See [`Medium::refuses`].
    #[inline]
    fn refuses(&self) -> bool {
        self.below().refuses()
    }

    /// See [`Medium::sync`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::sync`].
    fn sync(&self) -> io::Result<()> {
        self.below().sync()
    }

    /// See [`Medium::admit`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::admit`].
    #[inline]
    fn admit(&self) -> io::Result<()> {
        self.below().admit()
    }

    /// See [`Medium::acknowledge`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::acknowledge`].
    #[inline]
    fn acknowledge(&self) -> io::Result<()> {
        self.below().acknowledge()
    }

    /// See [`Medium::settle`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::settle`].
    fn settle(&self) -> io::Result<()> {
        self.below().settle()
    }

    /// See [`Medium::reserve`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::reserve`].
    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        self.below().reserve(at, len)
    }

    /// See [`Medium::reserved_to`].
    fn reserved_to(&self, at: u64) -> u64 {
        self.below().reserved_to(at)
    }

    /// See [`Medium::release`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::release`].
    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        self.below().release(at, len)
    }

    /// See [`Medium::truncate`].
    ///
    /// # Errors
    ///
    /// As for [`Medium::truncate`].
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.below().truncate(len)
    }

    /// See [`Medium::space`].
    fn space(&self) -> u64 {
        self.below().space()
    }

    /// See [`Medium::load`].
    #[inline]
    fn load(&self, at: u64) -> u64 {
        self.below().load(at)
    }

    /// See [`Medium::load_words`].
    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        self.below().load_words(at, words);
    }

    /// See [`Medium::store`].
    #[inline]
    fn store(&self, at: u64, value: u64) {
        self.below().store(at, value);
    }

    /// See [`Medium::store_pair`].
    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        self.below().store_pair(at, pair);
    }

    /// See [`Medium::swap_pair`]. By default it is [`store_pair`](Self::store_pair), for layers that look at stores.
    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        self.store_pair(at, pair);
    }

    /// See [`Medium::order`].
    #[inline]
    fn order(&self, step: Step) {
        self.below().order(step);
    }

    /// See [`Medium::flush`].
    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        self.below().flush(at, len, step);
    }

    /// See [`Medium::fence`].
    #[inline]
    fn fence(&self, step: Step) {
        self.below().fence(step);
    }

    /// See [`Medium::hint`].
    #[inline]
    fn hint(&self, at: u64, len: u64, hint: Hint) {
        self.below().hint(at, len, hint);
    }
}

impl<L: Layer> Medium for L {
    fn facts(&self) -> Facts<'_> {
        Layer::facts(self)
    }

    #[inline]
    fn accessible(&self) -> u64 {
        Layer::accessible(self)
    }

    fn costs(&self) -> Costs {
        Layer::costs(self)
    }

    #[inline]
    fn forked(&self) -> bool {
        Layer::forked(self)
    }

    #[inline]
    fn refuses(&self) -> bool {
        Layer::refuses(self)
    }

    fn sync(&self) -> io::Result<()> {
        Layer::sync(self)
    }

    #[inline]
    fn admit(&self) -> io::Result<()> {
        Layer::admit(self)
    }

    #[inline]
    fn acknowledge(&self) -> io::Result<()> {
        Layer::acknowledge(self)
    }

    fn settle(&self) -> io::Result<()> {
        Layer::settle(self)
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        Layer::reserve(self, at, len)
    }

    fn reserved_to(&self, at: u64) -> u64 {
        Layer::reserved_to(self, at)
    }

    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        Layer::release(self, at, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        Layer::truncate(self, len)
    }

    fn space(&self) -> u64 {
        Layer::space(self)
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        Layer::load(self, at)
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        Layer::load_words(self, at, words);
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        Layer::store(self, at, value);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        Layer::store_pair(self, at, pair);
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        Layer::swap_pair(self, at, pair);
    }

    #[inline]
    fn order(&self, step: Step) {
        Layer::order(self, step);
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        Layer::flush(self, at, len, step);
    }

    #[inline]
    fn fence(&self, step: Step) {
        Layer::fence(self, step);
    }

    #[inline]
    fn hint(&self, at: u64, len: u64, hint: Hint) {
        Layer::hint(self, at, len, hint);
    }
}

/// A medium with several owners, to inspect it after the pool on it was closed. As `Arc<dyn Medium>`, a medium that is
/// chosen at run time, at the cost of a call for each access.
impl<M: Medium + ?Sized> Medium for Arc<M> {
    fn facts(&self) -> Facts<'_> {
        (**self).facts()
    }

    #[inline]
    fn accessible(&self) -> u64 {
        (**self).accessible()
    }

    fn costs(&self) -> Costs {
        (**self).costs()
    }

    #[inline]
    fn forked(&self) -> bool {
        (**self).forked()
    }

    #[inline]
    fn refuses(&self) -> bool {
        (**self).refuses()
    }

    fn sync(&self) -> io::Result<()> {
        (**self).sync()
    }

    #[inline]
    fn admit(&self) -> io::Result<()> {
        (**self).admit()
    }

    #[inline]
    fn acknowledge(&self) -> io::Result<()> {
        (**self).acknowledge()
    }

    fn settle(&self) -> io::Result<()> {
        (**self).settle()
    }

    fn reserve(&self, at: u64, len: u64) -> io::Result<()> {
        (**self).reserve(at, len)
    }

    fn reserved_to(&self, at: u64) -> u64 {
        (**self).reserved_to(at)
    }

    fn release(&self, at: u64, len: u64) -> io::Result<()> {
        (**self).release(at, len)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        (**self).truncate(len)
    }

    fn space(&self) -> u64 {
        (**self).space()
    }

    #[inline]
    fn load(&self, at: u64) -> u64 {
        (**self).load(at)
    }

    #[inline]
    fn load_words(&self, at: u64, words: &mut [u64]) {
        (**self).load_words(at, words);
    }

    #[inline]
    fn lend(&self, at: u64, count: usize) -> Option<&[AtomicU64]> {
        (**self).lend(at, count)
    }

    #[inline]
    fn store(&self, at: u64, value: u64) {
        (**self).store(at, value);
    }

    #[inline]
    fn store_pair(&self, at: u64, pair: [u64; 2]) {
        (**self).store_pair(at, pair);
    }

    #[inline]
    fn swap_pair(&self, at: u64, pair: [u64; 2]) {
        (**self).swap_pair(at, pair);
    }

    #[inline]
    fn order(&self, step: Step) {
        (**self).order(step);
    }

    #[inline]
    fn flush(&self, at: u64, len: u64, step: Step) {
        (**self).flush(at, len, step);
    }

    #[inline]
    fn fence(&self, step: Step) {
        (**self).fence(step);
    }

    #[inline]
    fn hint(&self, at: u64, len: u64, hint: Hint) {
        (**self).hint(at, len, hint);
    }
}
