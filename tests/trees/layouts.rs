//! Tests of what all layouts do: written once, and generated for each layout of a program.

/// Generates one test per layout, which calls a function of a layout and an index with every index that is listed.
macro_rules! for_layouts {
    ($run:ident: $($name:ident: $layout:ty, $indexes:tt;)*) => {
        $(for_layouts! { @ $run $name $layout, $indexes })*
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
