//! Transactions: reads that belong to one moment, and writes over any trees of a pool that happen together or not at
//! all.
//!
//! The steps of a commit and the invariants X1 to X4 are in `docs/design.md`, section 6.

mod backoff;
mod batch;
mod commit;
mod names;
mod scan;
#[cfg(all(test, not(bristlecone_loom)))]
mod tests;
#[cfg(all(test, not(bristlecone_loom)))]
mod waiting;

pub use batch::WriteBatch;
pub use scan::Scan;

use crate::codec::{self, Key, PrefixOf, Value};
use crate::entry::raw::{KEY_MAX, Raw};
use crate::error::{Broken, Error, ErrorKind, Fault, Result};
use crate::map::table::{Table, TableKey, TreeKeysOf, ValueOf, interval, tree_in, with_prefix};
use crate::medium::{Mapped, Medium};
use crate::pool::instants::Moment;
use crate::pool::naming::NameChange;
use crate::pool::patience::Patience;
use crate::pool::{Pool, PoolState};
#[cfg(doc)]
use crate::tree::PTree;
use crate::tree::{AnyPart, Form, News, PartOf, TreePart, check_len};
use backoff::Backoff;
use smallvec::SmallVec;
use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeBounds;

/// Reads that belong to one moment, and writes that happen together or not at all, over any trees and maps of a pool.
///
/// [`Pool::transaction`] runs one and repeats it if need be; [`Pool::begin`] begins one by hand. Reads take no locks
/// and block nobody. Writes are buffered: other threads see nothing of them before [`commit`](Self::commit), which then
/// makes all of them at once. Dropping a transaction gives it up.
///
/// A transaction is isolated from all others, and from single changes, as if it ran alone (it is *serializable*). If
/// something that it has read was changed by another thread, it fails with [`ErrorKind::Conflict`]: at the latest when
/// it commits, but as a rule at once if it reads anything more. So code between two reads never sees values that do not
/// fit together. A thread that changes keys that it has not read, or trees that it does not use, is no obstacle.
///
/// Trees and maps with the default leaves ([`Table`]) take part. They must be open before the transaction begins. Trees
/// of any kind can be [renamed](Self::rename_tree), [swapped](Self::swap_trees) and [dropped](Self::drop_tree).
///
/// # Errors
///
/// A read fails with [`ErrorKind::Conflict`] in the ordinary course of things, whenever another thread has changed what
/// was read. In the closure of [`Pool::transaction`], pass errors on with `?`, also those of the steps of a range: then
/// it begins again. A closure with errors of its own returns any type that is `From<Error>`.
///
/// # Panics
///
/// Not by itself. But with `unwrap`, a conflict is a panic of your thread, and nothing is tried again. Whatever panics:
/// nothing was written, no lock is held, and the pool and its trees can be used on.
///
/// # Crash consistency
///
/// Durable when `commit` returns, in the sense of [`Pool::durability`]. In flight at a crash: all writes, or none.
///
/// # Complexity
///
/// A read costs what a `get` does, and a look at one word in memory for each leaf that was read before. After a
/// thousand reads, or if others write to the same leaves all the time, the transaction opens a
/// [snapshot](Pool::snapshot) of its own instead, and each read costs one more from that. So time is in proportion to
/// the number of reads. Meanwhile, what others change is copied in memory, as for any snapshot; this one is the first
/// to be given up, and trees can be dropped nevertheless. A transaction that reads thousands of keys which others
/// change fails again and again. For `commit` see there. Writes, and what was read, are kept in memory; a range that is
/// read again takes no more of it. The first entry of a range costs a search of the tree, or of what was read before,
/// whatever was written before: also where this transaction has removed all entries before it.
///
/// A transaction is not `Send`: it ends on the thread on which it began.
///
/// While a transaction lasts, records that are replaced or removed in trees that it has read keep their space, as for
/// an [iterator](crate::Map::range). A commit that finds no space lets go of that, and waits.
///
/// # Source
///
/// Silo (Tu et al., SOSP 2013): locks in a fixed order, then validation by versions. NV-Store's transactions keep
/// versions of each value instead.
///
/// # Examples
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// use bristlecone::{Map, Pool};
///
/// let pool = Pool::options().capacity(64 << 20).open(dir.path().join("bank.pool"))?;
/// let accounts: Map<String, u64> = pool.map("accounts")?;
/// let log: Map<u64, String> = pool.map("log")?;
/// accounts.insert("ada", 100)?;
/// accounts.insert("bob", 0)?;
///
/// pool.transaction(|tx| {
///     let (ada, bob) = (tx.get(&accounts, "ada")?.unwrap_or(0), tx.get(&accounts, "bob")?.unwrap_or(0));
///     let next = tx.range(&log, ..)?.next_back().transpose()?.map_or(0, |(last, _)| last + 1);
///     tx.insert(&accounts, "ada", ada - 30)?;
///     tx.insert(&accounts, "bob", bob + 30)?;
///     tx.insert(&log, next, "30 from ada to bob")
/// })?;
/// assert_eq!(accounts.multi_get(&["ada", "bob"])?, [Some(70), Some(30)]);
/// # Ok::<(), bristlecone::Error>(())
/// ```
///
/// With errors of one's own:
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # use bristlecone::{Map, Pool};
/// # let pool = Pool::options().capacity(64 << 20).open(dir.path().join("bank.pool"))?;
/// #[derive(Debug)]
/// enum Refused {
///     Store(bristlecone::Error),
///     NoMoney(u64),
/// }
///
/// impl From<bristlecone::Error> for Refused {
///     fn from(error: bristlecone::Error) -> Self {
///         Self::Store(error)
///     }
/// }
///
/// let accounts: Map<String, u64> = pool.map("accounts")?;
/// let result = pool.transaction(|tx| {
///     // A conflict goes to `transaction`, which begins again. What was there is `None` or a value: that may be
///     // unwrapped.
///     let ada = tx.get(&accounts, "ada")?.unwrap_or(0);
///     if ada < 30 {
///         return Err(Refused::NoMoney(ada));
///     }
///     Ok(tx.insert(&accounts, "ada", ada - 30)?)
/// });
/// assert!(matches!(result, Err(Refused::NoMoney(0))));
/// # Ok::<(), bristlecone::Error>(())
/// ```
pub struct Transaction<'t, M: Medium = Mapped> {
    pool: &'t PoolState<M>,
    parts: SmallVec<[AnyPart<'t>; 2]>,
    /// Changes of names, in their order.
    names: Vec<NameChange>,
    /// How many reads have found what was read before, since all was looked at again.
    known: usize,
    /// After how many of them all is looked at again: as many reads as there were at the first one. What is read
    /// meanwhile may be more than one for each.
    due: usize,
    /// How many passes over what was read have found a changed leaf.
    lost: u32,
    /// When all that was read was true, if that takes a snapshot.
    moment: Option<Moment<'t, M>>,
    /// Whether there was no memory for such a moment.
    has_expired: bool,
    /// Why there is no use in going on.
    end: Option<End>,
}

/// Why there is no use in going on.
#[derive(Debug, Clone, Copy)]
enum End {
    /// Something that was read has changed.
    Conflict,
    /// Something that was read could not be read again.
    Broken(Broken),
}

impl End {
    fn after(fault: &Fault) -> Self {
        match *fault.kind() {
            ErrorKind::Corrupt { at, invariant } => Self::Broken(Broken::new(at, invariant)),
            _ => Self::Conflict,
        }
    }
}

impl<M: Medium> fmt::Debug for Transaction<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reads, writes) = (self.reads(), self.writes());
        f.debug_struct("Transaction").field("reads", &reads).field("writes", &writes).finish_non_exhaustive()
    }
}

impl<M: Medium> Pool<M> {
    /// Begins a [transaction](Transaction). It does nothing unless it is [committed](Transaction::commit).
    ///
    /// # Complexity
    ///
    /// Nothing: a transaction that is given up has cost its reads, and has looked for the leaves of its writes.
    pub fn begin(&self) -> Transaction<'_, M> {
        Transaction {
            pool: &self.state,
            parts: SmallVec::new(),
            names: Vec::new(),
            known: 0,
            due: 0,
            lost: 0,
            moment: None,
            has_expired: false,
            end: None,
        }
    }

    /// Runs `body` in a [transaction](Transaction) and commits it. If there is a [conflict](ErrorKind::Conflict),
    /// repeats that, as often as necessary, with pauses that grow.
    ///
    /// `body` may run several times, so it should do nothing but compute, and read and write through the transaction.
    /// What it reads always fits together. If it changes what it has read in another way (by [`PTree::insert`], say, or
    /// in another transaction), it is in conflict with itself, and never ends.
    ///
    /// # Errors
    ///
    /// What `body` returns; then nothing was done. Those of [`Transaction::commit`], except for conflicts.
    ///
    /// # Panics
    ///
    /// If `body` does; then nothing was done, and nothing stays locked. See
    /// [its errors](Transaction#errors).
    pub fn transaction<'t, R, E: From<Error>>(
        &'t self,
        mut body: impl FnMut(&mut Transaction<'t, M>) -> Result<R, E>,
    ) -> Result<R, E> {
        let (mut backoff, mut patience) = (Backoff::new(), Patience::default());
        loop {
            let mut transaction = self.begin();
            let result = body(&mut transaction);
            // An error that follows from a conflict means nothing, whatever `body` has made of it.
            if matches!(transaction.end, Some(End::Conflict)) {
                // While this thread pauses, it keeps no records from being used again.
                drop(transaction);
            } else {
                let result = result?;
                let committed = transaction.commit_within(&mut patience);
                drop(transaction);
                match committed {
                    Ok(()) => return Ok(result),
                    Err(Error { kind: ErrorKind::Conflict, .. }) => patience.begin_again(),
                    Err(error) => return Err(error.into()),
                }
            }
            backoff.wait();
        }
    }
}

impl<'t, M: Medium> Transaction<'t, M> {
    /// The value of a key: the one that this transaction has written, or else the one that it would see if it ran
    /// alone.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`]: something that was read has changed since, or has to be compared with a snapshot, for
    /// which there is [too little memory](crate::Options::snapshot_memory). [`ErrorKind::Corrupt`],
    /// [`ErrorKind::OtherPool`], [`ErrorKind::Forked`].
    pub fn get<T: Table<M>>(&mut self, table: &'t T, key: TableKey<'_, T, M>) -> Result<Option<T::Value>> {
        let decode = |value| codec::decode(value, || table.tree().name());
        let value = self.stored(table, key)?.map(decode).transpose();
        self.pool.named(value)
    }

    /// Whether a key is there. As [`get`](Self::get).
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn contains_key<T: Table<M>>(&mut self, table: &'t T, key: TableKey<'_, T, M>) -> Result<bool> {
        Ok(self.stored(table, key)?.is_some())
    }

    fn stored<T: Table<M>>(&mut self, table: &'t T, key: TableKey<'_, T, M>) -> Result<Option<Raw>> {
        let number = self.part_number(table)?;
        let key = T::Key::encode(key);
        let stored = self.read_in::<TreeKeysOf<T, M>, _>(number, |part| part.get(key.borrow()));
        self.pool.named(stored)
    }

    /// Sets the value of a key, when the transaction is committed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::KeyTooLong`], [`ErrorKind::RecordTooLong`], [`ErrorKind::Unencodable`],
    /// [`ErrorKind::KindMismatch`], [`ErrorKind::OtherPool`].
    pub fn insert<T: Table<M>>(
        &mut self,
        table: &'t T,
        key: TableKey<'_, T, M>,
        value: ValueOf<'_, T, M>,
    ) -> Result<()> {
        let value = self.pool.named(codec::encode::<T::Value>(value, || table.tree().name()))?;
        self.write(table, key, Some(value.lent()))
    }

    /// Removes a key, if it is there when the transaction is committed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OtherPool`].
    pub fn remove<T: Table<M>>(&mut self, table: &'t T, key: TableKey<'_, T, M>) -> Result<()> {
        self.write(table, key, None)
    }

    /// The entries of a range, with the writes of this transaction, in ascending order; from the other end, in
    /// descending order. No other thread adds an entry to what was read of the range without a conflict.
    ///
    /// Leaves are read as the iterator comes to them.
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    ///
    /// # Panics
    ///
    /// As [`Map::range`](crate::Map::range).
    ///
    /// # Complexity
    ///
    /// As [`Map::range`](crate::Map::range), and one search among the writes of this transaction for each of them in
    /// the range. Entries that it has removed are passed once: later ranges leap over them.
    #[track_caller]
    pub fn range<'k, T: Table<M>>(
        &mut self,
        table: &'t T,
        range: impl RangeBounds<TableKey<'k, T, M>>,
    ) -> Result<Scan<'_, 't, T, M>> {
        let unread = interval(table, range);
        let part = self.part_number(table)?;
        Ok(Scan::new(self, (table, part), unread))
    }

    /// The entries whose keys begin with a prefix. As [`range`](Self::range).
    ///
    /// # Errors
    ///
    /// As [`get`](Self::get).
    pub fn prefix<T: Table<M>>(&mut self, table: &'t T, prefix: impl PrefixOf<T::Key>) -> Result<Scan<'_, 't, T, M>> {
        let unread = with_prefix(table, prefix);
        let part = self.part_number(table)?;
        Ok(Scan::new(self, (table, part), unread))
    }

    fn goes_on(&self) -> Result<(), Fault> {
        match self.end {
            None => Ok(()),
            Some(End::Conflict) => Err(ErrorKind::Conflict.into()),
            Some(End::Broken(broken)) => Err(broken.into()),
        }
    }

    /// How many reads this transaction has to compare when it is committed.
    fn reads(&self) -> usize {
        self.parts.iter().map(|part| part.part().reads()).sum()
    }

    /// How many keys this transaction writes.
    fn writes(&self) -> usize {
        self.parts.iter().map(|part| part.part().writes()).sum()
    }

    /// The number of the part that a table's tree has, if it has one.
    fn find_part<T: Table<M>>(&self, table: &'t T) -> Result<Option<usize>> {
        let address = std::ptr::from_ref(table.tree()).cast();
        let number = self.parts.iter().position(|part| part.part().is_of(address));
        if number.is_none() {
            self.pool.named(tree_in(table, self.pool))?;
        }
        Ok(number)
    }

    /// The number of the part that a table's tree has, which is new if there was none.
    fn part_number<T: Table<M>>(&mut self, table: &'t T) -> Result<usize> {
        if let Some(number) = self.find_part(table)? {
            return Ok(number);
        }
        self.parts.push(TreeKeysOf::<T, M>::any_part(TreePart::new(table.tree(), T::Value::KIND)));
        Ok(self.parts.len() - 1)
    }

    /// Reads in a part, and then makes sure that all that was read belongs to one moment (X1).
    fn read_in<K: Form, R>(
        &mut self,
        number: usize,
        read: impl FnOnce(&mut (dyn PartOf<K> + 't)) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        self.goes_on()?;
        let part = K::part(&mut self.parts[number]).expect("a tree has one kind of keys");
        let result = read(part);
        let news = part.news();
        let result = result.map_err(|fault| match fault.kind() {
            ErrorKind::Conflict => self.ends(fault),
            _ => fault,
        })?;
        match news {
            News::Nothing => {}
            // A single read is true at the moment of its own.
            News::Read if self.reads() > 1 && !self.was_so(number)? => self.refresh()?,
            News::Read => {}
            News::Known => self.look_again()?,
        }
        Ok(result)
    }

    /// Called when a read has found what was read before. In time, all other reads are looked at, too: so a transaction
    /// that waits for a change comes to see it.
    fn look_again(&mut self) -> Result<(), Fault> {
        if self.known == 0 {
            self.due = self.reads();
        }
        self.known += 1;
        if self.known >= self.due {
            self.known = 0;
            self.pass()?;
        }
        Ok(())
    }

    fn write<T: Table<M>>(&mut self, table: &'t T, key: TableKey<'_, T, M>, value: Option<Raw<&[u8]>>) -> Result<()> {
        let number = self.find_part(table)?;
        let key = T::Key::encode(key);
        let key = key.borrow();
        let len = size_of_val(key);
        if let Some(value) = value {
            let checked = if len > KEY_MAX {
                Err(ErrorKind::KeyTooLong { len: len as u64, limit: KEY_MAX as u64 }.into())
            } else {
                check_len(value.bytes())
            };
            self.pool.named(checked)?;
        } else if len > KEY_MAX {
            // It is not there.
            return Ok(());
        }
        match number {
            Some(number) => {
                let part = TreeKeysOf::<T, M>::part(&mut self.parts[number]);
                part.expect("a tree has one kind of keys").put(key, value);
            }
            None => {
                let part = TreePart::with_write(table.tree(), T::Value::KIND, key, value);
                self.parts.push(TreeKeysOf::<T, M>::any_part(part));
            }
        }
        Ok(())
    }
}
