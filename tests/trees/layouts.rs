//! Every layout with its indexes, for tests of properties that all of them have.

/// Generates one test per layout, which calls a function of a layout and an index with every index.
///
/// The two flat indexes differ only in how they handle a full parent, which is the same for every layout: so the fixed
/// one is tested with three layouts.
macro_rules! in_every_layout {
    ($run:ident) => {
        $crate::layouts::in_every_layout! { $run:
            linear_5: Linear<5>, [Volatile Persistent Flat];
            circular_4: Circular<4>, [Volatile Persistent Flat];
            circular_8: Circular<8>, [Volatile Persistent Flat];
            one_line_7: OneLine<7>, [Volatile Persistent Flat FlatFixed];
            one_line_39: OneLine, [Volatile Persistent Flat];
            sentinel_circular_16: Sentinel<Circular<16>>, [Volatile Persistent Flat];
            fingerprinted_linear_64: Fingerprinted<Linear<64>>, [Volatile Persistent Flat];
            crab_opt_4: CowSip<4, { crab::OPT }>, [Volatile Persistent Flat];
            cow_only_4: CowSip<4, { crab::COPY_ONLY }>, [Volatile Persistent Flat];
            append_3: Append<3>, [Volatile Persistent Flat FlatFixed];
            append_fixed_4: Append<4, Fixed>, [Volatile Persistent Flat FlatFixed];
            fingerprint_4: Fingerprint<4>, [Volatile Persistent Flat];
            logged_4: Logged<4>, [Volatile Persistent Flat];
            versioned_4: Versioned<4>, [Volatile Persistent Flat];
        }
    };
    ($run:ident: $($name:ident: $layout:ty, $indexes:tt;)*) => {
        $($crate::layouts::in_every_layout! { @ $run $name $layout, $indexes })*
    };
    (@ $run:ident $name:ident $layout:ty, [$($index:ident)*]) => {
        #[test]
        fn $name() {
            #[allow(unused_imports, clippy::wildcard_imports, reason = "the names in the list")]
            use bristlecone::{IndexKind, OneLine, papers::*};
            $($run::<$layout>(IndexKind::$index);)*
        }
    };
}

pub(crate) use in_every_layout;
