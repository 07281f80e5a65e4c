//! The size of a key as a type: it decides, when the program is compiled, whether a tuple fits a word.

use super::{ByteStrings, Form, Words};

/// The size of keys in bytes: [`S1`] to [`S8`], or [`More`].
pub trait Size: Sized + 'static {
    /// Keys of types that never take more than eight bytes are words.
    type Form: Form;
    /// The size of one byte more.
    type Next: Size;
    /// The size of both together. `S3` and another are `S2` and the other's next, and so on.
    type Plus<Other: Size>: Size;

    /// The number of bytes; `None` if they do not fit a word, or if keys differ.
    const BYTES: Option<u32>;
}

macro_rules! sizes {
    ($($size:ident, $bytes:literal, $next:ident, $other:ident => $plus:ty;)*) => {$(
        /// So many bytes.
        #[derive(Debug)]
        pub enum $size {}

        impl Size for $size {
            type Form = Words;
            type Next = $next;
            type Plus<$other: Size> = $plus;

            const BYTES: Option<u32> = Some($bytes);
        }
    )*};
}

sizes! {
    S1, 1, S2, O => O::Next;
    S2, 2, S3, O => <S1 as Size>::Plus<O::Next>;
    S3, 3, S4, O => <S2 as Size>::Plus<O::Next>;
    S4, 4, S5, O => <S3 as Size>::Plus<O::Next>;
    S5, 5, S6, O => <S4 as Size>::Plus<O::Next>;
    S6, 6, S7, O => <S5 as Size>::Plus<O::Next>;
    S7, 7, S8, O => <S6 as Size>::Plus<O::Next>;
    S8, 8, More, O => <S7 as Size>::Plus<O::Next>;
}

/// More than eight bytes, or a number that differs between keys.
#[derive(Debug)]
pub enum More {}

impl Size for More {
    type Form = ByteStrings;
    type Next = Self;
    type Plus<Other: Size> = Self;

    const BYTES: Option<u32> = None;
}
