//! For keys and values of your own types: how they are encoded.
//!
//! [`Key`] and [`Value`] are the traits that a type implements, and here is what they speak of. docs/own-types.md shows
//! how. A key of a type that never takes more than eight bytes is a word, any other a byte string. Both compare as the
//! keys do, and each has its trees.

mod array;
pub(crate) mod key;
mod key_view;
mod lend;
mod option;
mod part;
#[cfg(feature = "serde")]
pub(crate) mod postcard;
mod prefix;
mod size;
mod string;
#[cfg(test)]
mod tests;
mod tuple;
pub(crate) mod value;
mod word;

pub use key::{EncodedKey, StoredKey};
pub(crate) use key::{Key, kind_of, owned};
pub use key_view::KeyView;
pub use lend::{ToKey, ToValue};
#[cfg(feature = "serde")]
pub use postcard::PostcardView;
pub use prefix::{PrefixOf, Prefixed};
use size::Size;
pub(crate) use value::{Value, decode, encode};

pub use crate::entry::kind::Kind;
pub use crate::entry::raw::Raw;
pub use crate::error::Refusal;
pub use crate::node::{ByteStrings, Words};
pub use crate::tree::{Form, KeyBytes};
