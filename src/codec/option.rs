//! Keys that may be missing.

use super::part::{read, write};
use super::size::S1;
use super::{EncodedKey, Form, Key, Size, StoredKey, kind_of};
use crate::entry::kind::Kind;
use crate::tree::{PartForm, PartSource, Sink};

/// One byte, which is 0 for `None` and 1 for `Some`, and the key.
///
/// If the keys have a fixed size, zeros stand in for a missing one, so that the options have a fixed size, too.
impl<K: Key> Key for Option<K> {
    const KIND: Kind = Kind::option(kind_of::<K>());
    type Form = <Self::Size as Size>::Form;
    type Size = <S1 as Size>::Plus<K::Size>;
    type Borrowed<'k> = Option<K::Borrowed<'k>>;

    #[inline]
    fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
        let mut encoded = EncodedKey::<'k, Self>::default();
        match key {
            Some(key) => {
                encoded.number(1, 1);
                write::<K>(key, true, &mut encoded);
            }
            None => {
                encoded.number(0, 1);
                for _ in 0..const { PartForm::of::<K>() }.size.unwrap_or(0) {
                    encoded.number(0, 1);
                }
            }
        }
        encoded
    }

    #[inline]
    fn decode(stored: &StoredKey<Self>) -> Self {
        let mut source = Self::Form::source(stored, const { PartForm::of::<Self>() });
        (source.number(1) != 0).then(|| read::<K>(&mut source, true))
    }
}
