//! Keys as parts of other keys.
//!
//! A part is written as the key would be on its own. A key of a fixed size is written in that size, so that the next
//! part begins at a known place. Another one is [escaped](Sink::escaped), unless it is the last part. So no code of a
//! part that is followed by another is the beginning of a different code, and all of them keep the order of the keys.
//! Then their concatenation keeps the order of the parts, one after the other.

use super::{Form, Key, kind_of};
use crate::tree::{PartForm, PartSource, Sink};

impl PartForm {
    pub(super) const fn of<K: Key>() -> Self {
        let kind = kind_of::<K>();
        Self { size: kind.size, base: kind.base() }
    }

    /// The size if all keys have the same one, as words always do. Else 0.
    pub(super) const fn fixed_size(self) -> usize {
        match self.size {
            Some(size) => size as usize,
            None => 0,
        }
    }
}

/// Writes a part.
#[inline]
pub(super) fn write<K: Key>(key: K::Borrowed<'_>, is_last: bool, to: &mut impl Sink) {
    K::Form::write_part(K::encode(key), const { PartForm::of::<K>() }, is_last, to);
}

/// Reads a part.
#[inline]
pub(super) fn read<K: Key>(from: &mut impl PartSource, is_last: bool) -> K {
    K::Form::read_part(from, const { PartForm::of::<K>() }, is_last, K::decode)
}
