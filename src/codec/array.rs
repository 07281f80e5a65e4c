//! Keys of a fixed number of bytes: arrays, and integers of sixteen bytes.

use super::prefix::prefixes;
use super::size::{More, S1, S2, S3, S4, S5, S6, S7, S8};
use super::{ByteStrings, EncodedKey, Key, KeyBytes, Words};
use crate::entry::kind::Kind;

/// The bytes of an array. Only in a damaged pool, there are more or fewer of them: they are cut, or followed by zeros.
#[inline]
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    match bytes.first_chunk() {
        Some(array) => *array,
        None => {
            let mut array = [0; N];
            array[..bytes.len()].copy_from_slice(bytes);
            array
        }
    }
}

/// Bytes that are built.
#[inline]
fn built(bytes: &[u8]) -> KeyBytes<'static> {
    let mut built = KeyBytes::default();
    built.extend(bytes);
    built
}

macro_rules! word_arrays {
    ($($len:literal $size:ty;)*) => {$(
        impl Key for [u8; $len] {
            const KIND: Kind = Kind::array($len);
            type Form = Words;
            type Size = $size;
            type Borrowed<'k> = Self;

            #[inline]
            fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
                let mut word = [0; 8];
                // Big-endian, so that words compare as the bytes do.
                word[8 - $len..].copy_from_slice(&key);
                u64::from_be_bytes(word)
            }

            #[inline]
            fn decode(word: &u64) -> Self {
                array(&word.to_be_bytes()[8 - $len..])
            }
        }

        prefixes! { [u8; $len] }
    )*};
}

macro_rules! byte_arrays {
    ($($len:literal)*) => {$(
        impl Key for [u8; $len] {
            const KIND: Kind = Kind::array($len);
            type Form = ByteStrings;
            type Size = More;
            type Borrowed<'k> = Self;

            #[inline]
            fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
                built(&key)
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                array(bytes)
            }
        }

        prefixes! { [u8; $len] }
    )*};
}

/// Arrays that are taken by reference: copying them would cost more than it is worth.
macro_rules! large_arrays {
    ($($len:literal)*) => {$(
        impl Key for [u8; $len] {
            const KIND: Kind = Kind::array($len);
            type Form = ByteStrings;
            type Size = More;
            type Borrowed<'k> = &'k Self;

            #[inline]
            fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
                KeyBytes::from(&key[..])
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                array(bytes)
            }
        }

        prefixes! { [u8; $len] }
    )*};
}

word_arrays! { 1 S1; 2 S2; 3 S3; 4 S4; 5 S5; 6 S6; 7 S7; 8 S8; }
byte_arrays! {
    9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
    48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
}
large_arrays! { 96 128 256 }

const SIGN: u128 = 1 << 127;

macro_rules! integers {
    ($($type:ty, $tag:literal, |$key:ident| $encode:expr, |$number:ident| $decode:expr;)*) => {$(
        impl Key for $type {
            const KIND: Kind = Kind::simple($tag);
            type Form = ByteStrings;
            type Size = More;
            type Borrowed<'k> = Self;

            #[inline]
            fn encode<'k>($key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
                let number: u128 = $encode;
                built(&number.to_be_bytes())
            }

            #[inline]
            fn decode(bytes: &[u8]) -> Self {
                let $number = u128::from_be_bytes(array(bytes));
                $decode
            }
        }
    )*};
}

integers! {
    u128, 19, |k| k, |n| n;
    i128, 20, |k| k as u128 ^ SIGN, |n| (n ^ SIGN) as Self;
}
