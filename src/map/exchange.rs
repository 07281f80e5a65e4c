//! Changes that depend on the value before, or return it.

use super::{LeafFor, Map, search_key};
use crate::codec::{Key, ToValue, Value};
use crate::entry::raw::Raw;
#[cfg(doc)]
use crate::error::ErrorKind;
use crate::error::Result;
use crate::medium::Medium;
use std::borrow::Cow;

impl<K: Key, V: Value, N: LeafFor<K>, M: Medium> Map<K, V, N, M> {
    /// Sets the value of a key from `current` to `new`, where `None` means that the key is not there.
    ///
    /// Returns the previous value. The exchange took place if that has the same encoding as `current`: of
    /// floating-point numbers, that are the same bits. (So a `NaN` can be exchanged, though it does not equal itself.)
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). Losing the race is not an error. [`ErrorKind::Undecodable`]: the value is there
    /// that this would return; the exchange is made if it is `current`.
    ///
    /// # Complexity
    ///
    /// As `insert`, `update` or `remove`, whichever takes place. Where values are records, or keys are byte strings: a
    /// [`get`](Self::get) before that, without a lock, and once more for each time that another thread changes the
    /// entry meanwhile. No record is written if the value is another one at first.
    ///
    /// # Crash consistency
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let owners: bristlecone::Map<u64, String> = pool.map("owners")?;
    /// assert_eq!(owners.compare_exchange(1, None, Some("ada"))?, None); // inserted
    /// assert_eq!(owners.compare_exchange(1, Some("bob"), None)?.as_deref(), Some("ada")); // refused
    /// assert_eq!(owners.compare_exchange(1, Some("ada"), Some("bob"))?.as_deref(), Some("ada")); // replaced
    /// assert_eq!(owners.get(1)?.as_deref(), Some("bob"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn compare_exchange(
        &self,
        key: K::Borrowed<'_>,
        current: Option<V::Borrowed<'_>>,
        new: Option<V::Borrowed<'_>>,
    ) -> Result<Option<V>> {
        let key = K::encode(key);
        let exchange = || {
            let current = current.map(|value| self.encode(value)).transpose()?;
            let new = new.map(|value| self.encode(value)).transpose()?;
            let (current, new) = (current.as_ref().map(Raw::lent), new.as_ref().map(Raw::lent));
            let exchanged = self.state.exchange(search_key::<K>(&key), V::KIND, current, new)?;
            Ok(exchanged.map_or_else(|found| found, |()| current.map(Raw::owned)))
        };
        let previous = self.state.durably(exchange)?;
        self.decoded(previous)
    }

    /// Changes the value of a key to what `next` makes of it, where `None` means that the key is not there. Returns the
    /// value before, as [`AtomicU64::fetch_update`](std::sync::atomic::AtomicU64::fetch_update) does.
    ///
    /// `next` is called without any lock: it may be slow, may use this map, and may panic, and then nothing has
    /// changed. If another thread changes the value meanwhile, `next` is called again with that. What `next` returns
    /// takes the place of exactly the value that it was given. A value that was changed and changed back counts as the
    /// same.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). [`ErrorKind::Undecodable`]: nothing has changed.
    ///
    /// # Complexity
    ///
    /// As [`get`](Self::get), and then as [`compare_exchange`](Self::compare_exchange); so often as other threads
    /// change the value meanwhile, and once more.
    ///
    /// # Crash consistency
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let tags: bristlecone::Map<u64, String> = pool.map("tags")?;
    /// let add = |tags: Option<String>| Some(tags.map_or("new".to_owned(), |tags| tags + ",new"));
    /// assert_eq!(tags.update_with(7, add)?, None);
    /// assert_eq!(tags.update_with(7, add)?.as_deref(), Some("new"));
    /// assert_eq!(tags.get(7)?.as_deref(), Some("new,new"));
    /// tags.update_with(7, |_| None)?; // removed
    /// assert!(tags.is_empty());
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn update_with(&self, key: K::Borrowed<'_>, mut next: impl FnMut(Option<V>) -> Option<V>) -> Result<Option<V>>
    where
        V: ToValue<V>,
    {
        let key = K::encode(key);
        let old = self.state.durably(|| {
            self.state.update_with(search_key::<K>(&key), V::KIND, |old, put| {
                match next(old.map(|old| self.decode(old)).transpose()?) {
                    Some(new) => new.with_value(|new| {
                        put(Some(self.encode(new)?.lent()));
                        Ok(())
                    }),
                    None => {
                        put(None);
                        Ok(())
                    }
                }
            })
        })?;
        self.decoded(old)
    }

    /// Sets the value of a key. Returns the value that it had: `BTreeMap` calls that `insert`.
    ///
    /// # Errors
    ///
    /// As [`insert`](Self::insert). [`ErrorKind::Corrupt`] also if the value that it had cannot be read, and
    /// [`ErrorKind::Undecodable`] if its type cannot read it: then it is replaced.
    ///
    /// # Complexity
    ///
    /// As [`insert`](Self::insert); and the value that it had is read.
    ///
    /// # Crash consistency
    ///
    /// As [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// assert_eq!(names.replace(7, "seven")?, None);
    /// assert_eq!(names.replace(7, "sieben")?.as_deref(), Some("seven"));
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn replace(&self, key: K::Borrowed<'_>, value: V::Borrowed<'_>) -> Result<Option<V>> {
        let key = K::encode(key);
        let replace =
            |value: Raw<Cow<'_, [u8]>>| self.state.replace_value(search_key::<K>(&key), V::KIND, value.lent());
        let old = self.state.durably(|| self.encode(value).and_then(replace))?;
        self.decoded(old)
    }

    /// Removes a key. Returns the value that it had: `BTreeMap` calls that `remove`.
    ///
    /// # Errors
    ///
    /// As [`remove`](Self::remove). [`ErrorKind::Corrupt`] also if the value cannot be read, and
    /// [`ErrorKind::Undecodable`] if its type cannot read it: then it is removed.
    ///
    /// # Complexity
    ///
    /// As [`remove`](Self::remove); and the value is read.
    ///
    /// # Crash consistency
    ///
    /// As [`remove`](Self::remove).
    ///
    /// # Examples
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let pool = bristlecone::Pool::options().capacity(64 << 20).open(dir.path().join("a"))?;
    /// let names: bristlecone::Map<u64, String> = pool.map("names")?;
    /// names.insert(7, "seven")?;
    /// assert_eq!(names.take(7)?.as_deref(), Some("seven"));
    /// assert_eq!(names.take(7)?, None);
    /// # Ok::<(), bristlecone::Error>(())
    /// ```
    pub fn take(&self, key: K::Borrowed<'_>) -> Result<Option<V>> {
        let key = K::encode(key);
        let old = self.state.durably(|| self.state.take_value(search_key::<K>(&key), V::KIND))?;
        self.decoded(old)
    }

    fn decoded(&self, value: Option<Raw>) -> Result<Option<V>> {
        self.state.named(value.map(|value| self.decode(value)).transpose())
    }
}
