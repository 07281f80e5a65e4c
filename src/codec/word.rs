//! The simple keys that are words.

use super::size::{S1, S2, S4, S8};
use super::{EncodedKey, Key, Words};
use crate::entry::kind::Kind;

macro_rules! words {
    ($($type:ty, $tag:literal, $size:ty, |$key:ident| $encode:expr, |$word:ident| $decode:expr;)*) => {$(
        impl Key for $type {
            const KIND: Kind = Kind::simple($tag);
            type Form = Words;
            type Size = $size;
            type Borrowed<'k> = Self;

            #[inline]
            fn encode<'k>($key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
                $encode
            }

            #[inline]
            fn decode(stored: &u64) -> Self {
                let $word = *stored;
                $decode
            }
        }
    )*};
}

const SIGN: u64 = 1 << 63;

words! {
    u64, 1, S8, |k| k, |w| w;
    u32, 2, S4, |k| k.into(), |w| w as Self;
    u16, 3, S2, |k| k.into(), |w| w as Self;
    u8, 4, S1, |k| k.into(), |w| w as Self;
    // Flipping the sign bit of the widened integer makes words compare as the integers do.
    i64, 5, S8, |k| k as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    i32, 6, S4, |k| i64::from(k) as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    i16, 7, S2, |k| i64::from(k) as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    i8, 8, S1, |k| i64::from(k) as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    usize, 9, S8, |k| k as u64, |w| w as Self;
    isize, 10, S8, |k| k as u64 ^ SIGN, |w| (w ^ SIGN) as Self;
    bool, 11, S1, |k| k.into(), |w| w != 0;
    char, 14, S4, |k| k.into(), |w| u32::try_from(w).ok().and_then(Self::from_u32).unwrap_or(Self::REPLACEMENT_CHARACTER);
}
