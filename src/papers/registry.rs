//! The list of all layouts: from the numbers in a pool to types.
//!
//! A new layout is one line in [`layouts`]. Two layouts with the same tag do not compile. Layouts of other crates are
//! not here: [`foreign`] tells them by their names.

use super::*;
use crate::node::{ByteLeaf, IndexKind, Node, OneLine};
use crate::pool::roots::Signature;

/// Calls a macro with all layouts: for each tag one type of any size, the types with this tag that
/// [`Pool::check`](crate::Pool::check) always knows, and those that it knows once they were named.
macro_rules! layouts {
    ($then:ident!($($before:tt)*)) => {
        $crate::papers::registry::$then! { $($before)*
            [Linear<4>: Linear<64> | Linear<4> Linear<5> Linear<8> Linear<16> Linear<32> Linear<128> Linear<256>
                Linear<512>]
            [Circular<4>: Circular<64> | Circular<4> Circular<8> Circular<16> Circular<32> Circular<128>
                Circular<256> Circular<512>]
            [OneLine<39>: OneLine<39> | OneLine<7>]
            [ByteLeaf<36>: ByteLeaf<36> | ByteLeaf<4> ByteLeaf<8>]
            [Sentinel<Linear<4>>: Sentinel<Linear<64>> |]
            [Sentinel<Circular<4>>: Sentinel<Circular<64>> |]
            [Fingerprinted<Linear<4>>: | Fingerprinted<Linear<64>>]
            [Fingerprinted<Circular<4>>: | Fingerprinted<Circular<64>>]
            [Scanned<Linear<4>>: | Scanned<Linear<64>>]
            [Scanned<Circular<4>>: | Scanned<Circular<64>>]
            [SentinelLeaves<Linear<4>>: | SentinelLeaves<Linear<64>>]
            [SentinelLeaves<Circular<4>>: | SentinelLeaves<Circular<64>>]
            [FingerprintedLeaves<Linear<4>>: |]
            [FingerprintedLeaves<Circular<4>>: |]
            [CircularPrinted<4>: | CircularPrinted<64>]
            [CircularPrinted<4, { circ::COUNT }>: |]
            [CircularPrinted<4, { circ::LINEAR }>: |]
            [CircularPrinted<4, { circ::HALF }>: |]
            [Logged<4>: | Logged<64>]
            [Logged<4, true>: | Logged<64, true>]
            [Fingerprint<4>: | Fingerprint<32>]
            [Fingerprint<4, true>: | Fingerprint<32, true>]
            [Versioned<4>: | Versioned<32>]
            [VersionedInner<4>: |]
            [Versioned<4, VersionedInner<4>>: | Versioned<32, VersionedInner<32>>]
            [Append<3, Fixed>: | Append<16, Fixed>]
            [Append<3, Conservative>: | Append<16, Conservative>]
            [Append<3, Aggressive>: | Append<16, Aggressive>]
            [Append<3>: | Append<16>]
            [Append<3, AsPrinted>: | Append<16, AsPrinted>]
            [Append<3, Fixed, Logged<4>>: | Append<16, Fixed, Logged<64>>]
            [Append<3, Fixed, Logged<4, true>>: | Append<16, Fixed, Logged<64, true>>]
            [CowSip<4>: CowSip<64> |]
            [CowSip<4, { crab::OWN_SPACE }>: |]
            [CowSip<4, { crab::PROBE }>: |]
            [CowSip<4, 3>: |]
            [CowSip<4, { crab::PAIRS }>: |]
            [CowSip<4, 5>: |]
            [CowSip<4, 6>: |]
            [CowSip<4, { crab::OPT }>: | CowSip<64, { crab::OPT }>]
            [CowSip<4, { crab::COPY_ONLY }>: | CowSip<64, { crab::COPY_ONLY }>]
            [CowSip<4, { crab::PRINTED }>: | CowSip<64, { crab::PRINTED }>]
            [CowSip<4, { crab::PAIRS | crab::CAS }>: |]
            [CowSip<4, { crab::SHIFT_ONLY }>: | CowSip<64, { crab::SHIFT_ONLY }>]
        }
    };
}
pub(crate) use layouts;

/// Calls `$each!($type)` for the types that are always known; after `all`, for all types.
macro_rules! each {
    (always $each:ident; $([$of_tag:ty: $($always:ty)* | $($named:ty)*])*) => { $($($each!($always);)*)* };
    (all $each:ident; $([$of_tag:ty: $($always:ty)* | $($named:ty)*])*) => { $($($each!($always);)* $($each!($named);)*)* };
}
pub(crate) use each;

/// Tag and name of each layout.
macro_rules! names {
    ($([$of_tag:ty: $($always:ty)* | $($named:ty)*])*) => {
        &[$((<$of_tag as Node>::LAYOUT, <$of_tag as Node>::NAME)),*]
    };
}
use names;

pub(super) const NAMES: &[(u16, &str)] = layouts!(names!());

/// Asserts that each type has the tag of its line.
macro_rules! in_line {
    ($([$of_tag:ty: $($always:ty)* | $($named:ty)*])*) => {
        $($(assert!(<$always as Node>::LAYOUT == <$of_tag as Node>::LAYOUT, "a layout in the line of another");)*)*
        $($(assert!(<$named as Node>::LAYOUT == <$of_tag as Node>::LAYOUT, "a layout in the line of another");)*)*
        $(assert!(<$of_tag as Node>::IS_OWN, "a layout that does not say that it is the crate's");)*
    };
}
use in_line;

const _: () = {
    layouts!(in_line!());
    let mut i = 0;
    while i < NAMES.len() {
        let mut j = 0;
        while j < i {
            assert!(NAMES[i].0 != NAMES[j].0, "two layouts have the same tag");
            j += 1;
        }
        i += 1;
    }
};

/// The tag of leaves over which the inner nodes are `I`: the leaves' own tag, below the tag of the inner nodes if these
/// are not linear. No other tag has an upper byte.
pub(crate) const fn tag_over<I: Node>(leaf: u16) -> u16 {
    if I::LAYOUT == Linear::<4>::LAYOUT { leaf } else { leaf | I::LAYOUT << 8 }
}

/// The hash of the name of a layout that is not the crate's, which the pool has beside the tag; `None` for one of the
/// crate's. As an error, the name of the crate's layout that has the tag.
pub(crate) fn foreign<N: Node>() -> Result<Option<u64>, &'static str> {
    if N::IS_OWN {
        return Ok(None);
    }
    match NAMES.iter().find(|(tag, _)| *tag == N::LAYOUT) {
        Some((_, name)) => Err(name),
        None => Ok(Some(hash(N::NAME))),
    }
}

/// FNV-1a. It is a part of the format.
fn hash(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// The name of a tree's layout, for lists and for errors.
pub(crate) fn shown(Signature { layout, foreign, slots, .. }: Signature) -> String {
    match foreign {
        None => format!("{}/{slots}", layout_name(layout)),
        Some(hash) => format!("foreign-{layout}-{hash:016x}/{slots}"),
    }
}

/// The name of a layout's tag.
fn layout_name(layout: u16) -> &'static str {
    NAMES.iter().find(|(tag, _)| *tag == layout).map_or("unknown", |(_, name)| name)
}

/// The name of an index's tag.
pub(crate) fn index_name(index: u16) -> &'static str {
    IndexKind::from_tag(index).map_or("unknown", IndexKind::name)
}

#[cfg(test)]
mod tests {

    /// [`Pool::name_all_layouts`](crate::Pool::name_all_layouts) promises them.
    #[test]
    fn every_published_layout_is_in_the_list() {
        let mut listed = Vec::new();
        let plain = |text: &str| text.chars().filter(|c| !" {}".contains(*c)).collect::<String>();
        macro_rules! list {
            ($type:ty) => {
                listed.push(plain(stringify!($type)));
            };
        }
        layouts!(each!(all list;));
        let aliases =
            include_str!("mod.rs").lines().filter_map(|line| line.strip_prefix("pub type ")?.split_once(" = "));
        let aliases: Vec<_> = aliases.map(|(name, of)| (name, plain(of.trim_end_matches(';')))).collect();
        assert!(aliases.len() > 20);
        let missing: Vec<_> = aliases.iter().filter(|(_, of)| !listed.contains(of)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
