//! The encoding of keys and values, and the kinds of keys and values.
//!
//! Keys of up to eight bytes are words, others are byte strings. Both compare as the keys do.

mod array;
mod escape;
mod form;
mod key;
mod key_bytes;
mod kind;
mod option;
mod part;
mod prefix;
mod size;
mod string;
#[cfg(test)]
mod tests;
mod tuple;
mod value;
mod word;

pub use form::{Bytes, Form, Word};
pub use key::{EncodedKey, Key};
pub use key_bytes::KeyBytes;
pub use kind::Kind;
pub(crate) use kind::{U64, is_record, key_kind_name, value_kind_name};
pub use prefix::PrefixOf;
use size::Size;
pub use value::{Encoded, Stored, Value};

/// The greatest length of an encoded key.
pub(crate) const KEY_MAX: usize = 65_536;
