//! Keys of two to six parts, and their prefixes.

use super::part::{read, write};
use super::{EncodedKey, Form, Key, PrefixOf, Prefixed, Size, StoredKey, kind_of};
use crate::entry::kind::Kind;
use crate::tree::PartForm;

/// The size of two parts.
type SumOfSizes<A, B> = <A as Size>::Plus<B>;

macro_rules! tuple {
    ($size:ty, ($($part:ident $i:tt),+), $last:ident $l:tt) => {
        impl<$($part: Key,)+ $last: Key> Key for ($($part,)+ $last) {
            const KIND: Kind = Kind::tuple(&[$(kind_of::<$part>(),)+ kind_of::<$last>()]);
            type Form = <Self::Size as Size>::Form;
            type Size = $size;
            type Borrowed<'k> = ($($part::Borrowed<'k>,)+ $last::Borrowed<'k>);

            #[inline]
            fn encode<'k>(key: Self::Borrowed<'k>) -> EncodedKey<'k, Self> {
                let mut encoded = EncodedKey::<'k, Self>::default();
                $(write::<$part>(key.$i, false, &mut encoded);)+
                write::<$last>(key.$l, true, &mut encoded);
                encoded
            }

            #[inline]
            fn decode(stored: &StoredKey<Self>) -> Self {
                let mut source = Self::Form::source(stored, const { PartForm::of::<Self>() });
                ($(read::<$part>(&mut source, false),)+ read::<$last>(&mut source, true))
            }
        }
    };
}

tuple!(SumOfSizes<A::Size, B::Size>, (A 0), B 1);
tuple!(SumOfSizes<SumOfSizes<A::Size, B::Size>, C::Size>, (A 0, B 1), C 2);
tuple!(SumOfSizes<SumOfSizes<SumOfSizes<A::Size, B::Size>, C::Size>, D::Size>, (A 0, B 1, C 2), D 3);
tuple!(SumOfSizes<SumOfSizes<SumOfSizes<SumOfSizes<A::Size, B::Size>, C::Size>, D::Size>, E::Size>, (A 0, B 1, C 2, D 3), E 4);
tuple!(SumOfSizes<SumOfSizes<SumOfSizes<SumOfSizes<SumOfSizes<A::Size, B::Size>, C::Size>, D::Size>, E::Size>, F::Size>, (A 0, B 1, C 2, D 3, E 4), F 5);

macro_rules! prefix {
    ($(($($part:ident $i:tt),+) of ($($all:ident),+);)*) => {$(
        impl<'p, $($all: Key),+> PrefixOf<($($all,)+)> for ($($part::Borrowed<'p>,)+) {
            fn bounds(&self) -> Prefixed<'_, ($($all,)+)> {
                let mut encoded = EncodedKey::<'_, ($($all,)+)>::default();
                $(write::<$part>(self.$i, false, &mut encoded);)+
                let size = const { 0 $(+ PartForm::of::<$part>().fixed_size())+ };
                <($($all,)+) as Key>::Form::with_prefix(encoded, size, const { PartForm::of::<($($all,)+)>() })
            }
        }
    )*};
}

prefix! {
    (A 0) of (A, B);
    (A 0) of (A, B, C);
    (A 0, B 1) of (A, B, C);
    (A 0) of (A, B, C, D);
    (A 0, B 1) of (A, B, C, D);
    (A 0, B 1, C 2) of (A, B, C, D);
    (A 0) of (A, B, C, D, E);
    (A 0, B 1) of (A, B, C, D, E);
    (A 0, B 1, C 2) of (A, B, C, D, E);
    (A 0, B 1, C 2, D 3) of (A, B, C, D, E);
    (A 0) of (A, B, C, D, E, F);
    (A 0, B 1) of (A, B, C, D, E, F);
    (A 0, B 1, C 2) of (A, B, C, D, E, F);
    (A 0, B 1, C 2, D 3) of (A, B, C, D, E, F);
    (A 0, B 1, C 2, D 3, E 4) of (A, B, C, D, E, F);
}
