//! canopydb: a copy-on-write B+-tree with a log, which it hands to the system after each commit.

use super::encoded::Encoded;
use super::store::{Store, Wait};
use crate::out::Outcome;
use canopydb::{Database, Tree, TreeOptions};
use std::path::Path;

const TREE: &[u8] = b"bench";

pub(crate) struct Canopydb(Database);

impl Canopydb {
    fn read<T>(&self, read: impl FnOnce(&Tree<'_>) -> Outcome<T>) -> Outcome<T> {
        let transaction = self.0.begin_read()?;
        let tree = transaction.get_tree(TREE)?.ok_or("the tree is not there")?;
        read(&tree)
    }

    fn write(&self, is_durable: bool, write: impl FnOnce(&mut Tree<'_>) -> Outcome<()>) -> Outcome<()> {
        let transaction = self.0.begin_write()?;
        write(&mut transaction.get_tree(TREE)?.ok_or("the tree is not there")?)?;
        transaction.commit_with(is_durable)?;
        Ok(())
    }
}

fn put_all<E: Encoded>(tree: &mut Tree<'_>, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
    for (key, value) in entries {
        tree.insert(E::encode_key(key).as_ref(), E::encode_value(value).as_ref())?;
    }
    Ok(())
}

impl<E: Encoded> Store<E> for Canopydb {
    fn open(directory: &Path, _wait: Wait) -> Outcome<Self> {
        let directory = directory.join("canopydb");
        std::fs::create_dir_all(&directory)?;
        let database = Database::new(directory)?;
        let mut options = TreeOptions::default();
        if let Some(len) = E::LEN {
            // Then it has nodes of their own for them.
            let len = i8::try_from(len)?;
            (options.fixed_key_len, options.fixed_value_len) = (len, len);
        }
        let transaction = database.begin_write()?;
        transaction.get_or_create_tree_with(TREE, options)?;
        transaction.commit()?;
        Ok(Self(database))
    }

    fn put(&self, key: E::Key<'_>, value: E::Value<'_>) -> Outcome<()> {
        Store::<E>::put_all(self, &[(key, value)])
    }

    fn get(&self, key: E::Key<'_>) -> Outcome<Option<u64>> {
        self.read(|tree| tree.get(E::encode_key(&key).as_ref())?.map(|value| E::read_encoded(&value)).transpose())
    }

    fn remove(&self, key: E::Key<'_>) -> Outcome<()> {
        self.write(false, |tree| {
            tree.delete(E::encode_key(&key).as_ref())?;
            Ok(())
        })
    }

    fn scan(&self, from: E::Key<'_>, mut each: impl FnMut(E::Key<'_>, E::Value<'_>) -> bool) -> Outcome<()> {
        self.read(|tree| {
            for entry in tree.range(E::encode_key(&from)..)? {
                let (key, value) = entry?;
                if !each(E::decode_key(&key)?, E::decode_value(&value)?) {
                    break;
                }
            }
            Ok(())
        })
    }

    fn put_all(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.write(false, |tree| put_all::<E>(tree, entries))
    }

    fn put_all_durably(&self, entries: &[(E::Key<'_>, E::Value<'_>)]) -> Outcome<()> {
        self.write(true, |tree| put_all::<E>(tree, entries))
    }

    fn sync(&self) -> Outcome<()> {
        Ok(self.0.sync()?)
    }

    fn get_all(&self, keys: &[E::Key<'_>]) -> Outcome<Vec<Option<u64>>> {
        self.read(|tree| {
            let get = |key| tree.get(E::encode_key(key).as_ref())?.map(|value| E::read_encoded(&value)).transpose();
            keys.iter().map(get).collect()
        })
    }
}
