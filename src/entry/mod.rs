//! What keys and values are, below the nodes that hold them: their kinds, byte strings as a search looks for them, and
//! the form in which trees take and return values.

pub(crate) mod byte_key;
pub(crate) mod kind;
pub(crate) mod raw;
