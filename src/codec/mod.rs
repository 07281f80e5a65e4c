//! The encoding of keys and values.
//!
//! Keys of up to eight bytes are words, others are byte strings. Both compare as the keys do, and each has its trees.

mod array;
mod escape;
mod form;
mod key;
mod key_bytes;
mod key_view;
mod lend;
mod map_form;
mod option;
mod part;
#[cfg(feature = "serde")]
mod postcard;
mod prefix;
mod size;
mod string;
#[cfg(test)]
mod tests;
mod tuple;
mod value;
mod word;

pub use form::{Bytes, Form, Word};
pub(crate) use key::kind_of;
pub use key::{EncodedKey, Key};
pub use key_bytes::KeyBytes;
pub use key_view::KeyView;
pub use lend::{ToKey, ToValue};
pub(crate) use map_form::MapForm;
#[cfg(feature = "serde")]
pub use postcard::{Postcard, PostcardView};
pub use prefix::PrefixOf;
use size::Size;
pub use value::Value;
pub(crate) use value::{decode, encode};
