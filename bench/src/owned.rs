//! Entries as maps in memory keep them.

use crate::entry::{Bytes, Entry, Words};
use std::borrow::Borrow;

/// Entries whose keys and values have memory of their own.
pub(crate) trait Owned: Entry {
    type OwnedKey: Clone + Ord + Borrow<Self::Lookup> + Send + Sync;
    type OwnedValue: Clone + Send + Sync;
    /// What a key is looked up by.
    type Lookup: Ord + ?Sized;

    fn own_key(key: Self::Key<'_>) -> Self::OwnedKey;
    fn own_value(value: Self::Value<'_>) -> Self::OwnedValue;
    fn lookup<'k>(key: &'k Self::Key<'_>) -> &'k Self::Lookup;
    fn key_of(key: &Self::OwnedKey) -> Self::Key<'_>;
    fn value_of(value: &Self::OwnedValue) -> Self::Value<'_>;

    /// Replaces a value, in the memory that it has.
    fn replace(old: &mut Self::OwnedValue, new: Self::Value<'_>);
}

impl Owned for Words {
    type OwnedKey = u64;
    type OwnedValue = u64;
    type Lookup = u64;

    #[inline(always)]
    fn own_key(key: u64) -> u64 {
        key
    }

    #[inline(always)]
    fn own_value(value: u64) -> u64 {
        value
    }

    #[inline(always)]
    fn lookup(key: &u64) -> &u64 {
        key
    }

    #[inline(always)]
    fn key_of(&key: &u64) -> u64 {
        key
    }

    #[inline(always)]
    fn value_of(&value: &u64) -> u64 {
        value
    }

    #[inline(always)]
    fn replace(old: &mut u64, new: u64) {
        *old = new;
    }
}

impl Owned for Bytes {
    type OwnedKey = Box<[u8]>;
    type OwnedValue = Box<[u8]>;
    type Lookup = [u8];

    #[inline]
    fn own_key(key: &[u8]) -> Box<[u8]> {
        key.into()
    }

    #[inline]
    fn own_value(value: &[u8]) -> Box<[u8]> {
        value.into()
    }

    #[inline(always)]
    fn lookup<'k>(key: &'k &[u8]) -> &'k [u8] {
        key
    }

    #[inline(always)]
    fn key_of(key: &Box<[u8]>) -> &[u8] {
        key
    }

    #[inline(always)]
    fn value_of(value: &Box<[u8]>) -> &[u8] {
        value
    }

    #[inline]
    fn replace(old: &mut Box<[u8]>, new: &[u8]) {
        old.copy_from_slice(new);
    }
}
