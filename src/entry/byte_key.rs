//! Keys that are byte strings, as a search looks for them.

use std::cmp::Ordering;
use std::ops::Bound;

/// A position among byte strings: at a string, or in the gap right before it.
///
/// The gap is where an exclusive bound lies: the leaf that owns the gap is the one to the left of the leaf that begins
/// with the string.
#[derive(Debug, Clone, Copy)]
pub struct ByteKey<'k> {
    bytes: &'k [u8],
    hash: u64,
    before: bool,
}

impl<'k> ByteKey<'k> {
    /// The position of a string.
    #[inline]
    pub(crate) fn at(bytes: &'k [u8]) -> Self {
        Self { bytes, hash: hash(bytes), before: false }
    }

    /// The gap right before a string.
    pub(crate) fn before(bytes: &'k [u8]) -> Self {
        Self { bytes, hash: 0, before: true }
    }

    /// The string that it is at, or right before.
    #[inline]
    pub(crate) fn bytes(self) -> &'k [u8] {
        self.bytes
    }

    /// The hash of the string; 0 for a gap, in which no key lies.
    #[inline]
    pub(crate) fn hash(self) -> u64 {
        self.hash
    }

    /// The strings that do not lie behind this position.
    pub(crate) fn up_to(self) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
        (Bound::Unbounded, if self.before { Bound::Excluded(self.bytes) } else { Bound::Included(self.bytes) })
    }

    /// How a string lies to this position. It is never equal to a gap.
    #[inline]
    pub(crate) fn order_of(self, string: &[u8]) -> Ordering {
        match string.cmp(self.bytes) {
            Ordering::Equal if self.before => Ordering::Greater,
            order => order,
        }
    }
}

/// The head of a string after its first `skip` bytes: the next eight bytes as a number, with zeros behind the end.
///
/// If two strings agree in their first `skip` bytes, the one with the smaller head is smaller. Strings with equal heads
/// may lie either way.
#[inline]
pub(crate) fn head(string: &[u8], skip: usize) -> u64 {
    if let Some(eight) = string.get(skip..).and_then(<[u8]>::first_chunk::<8>) {
        return u64::from_be_bytes(*eight);
    }
    let len = string.len().saturating_sub(skip) as u32;
    match string.last_chunk::<8>() {
        // The last `len` of these.
        Some(eight) => u64::from_be_bytes(*eight).checked_shl(64 - 8 * len).unwrap_or(0),
        None => short_head(string.get(skip..).unwrap_or_default()),
    }
}

/// The head of a string of less than eight bytes.
#[inline]
fn short_head(string: &[u8]) -> u64 {
    let mut eight = [0; 8];
    eight[..string.len()].copy_from_slice(string);
    u64::from_be_bytes(eight)
}

/// The number of bytes in which two strings agree, from their starts.
pub(crate) fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(a, b)| a == b).count()
}

/// The hash of a string. Pools store parts of it, so it never changes.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    // The fractional part of the golden ratio, and of the square root of 3: odd numbers without a pattern.
    const FIRST: u64 = 0x9e37_79b9_7f4a_7c15;
    const SECOND: u64 = 0xbb67_ae85_84ca_a73b;
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(SECOND);
        product as u64 ^ (product >> 64) as u64
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = FIRST ^ bytes.len() as u64;
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word)).wrapping_add(FIRST);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash, u64::from_le_bytes(last)), FIRST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_lies_right_before_its_string() {
        let (at, gap) = (ByteKey::at(b"b"), ByteKey::before(b"b"));
        let orders = |key: ByteKey<'_>| [&b"a"[..], b"azz", b"b", b"b\0"].map(|string| key.order_of(string));
        assert_eq!(orders(at), [Ordering::Less, Ordering::Less, Ordering::Equal, Ordering::Greater]);
        assert_eq!(orders(gap), [Ordering::Less, Ordering::Less, Ordering::Greater, Ordering::Greater]);
    }

    #[test]
    fn heads_keep_the_order_of_strings() {
        let strings: [&[u8]; 9] = [
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefgi",
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ];
        for (one, other) in strings.iter().flat_map(|one| strings.iter().map(move |other| (one, other))) {
            let common = common_prefix(one, other);
            for skip in 0..=common {
                let (left, right) = (head(one, skip), head(other, skip));
                assert!(left == right || left.cmp(&right) == one.cmp(other), "{one:?} {other:?} {skip}");
            }
        }
    }

    const HASHES: [u64; 4] =
        [0xa91f_6cd0_d8a8_736a, 0x576d_2183_801b_216c, 0xe6d1_9e6a_bb9e_7cf2, 0xc3c5_dd59_cdb8_3d8a];

    /// Pools store parts of the hashes of keys, so a hash must never change.
    #[test]
    fn the_hash_stays_as_it_is() {
        let hashes = [&b""[..], b"a", b"user0123456789", b"0123456701234567"].map(hash);
        assert_eq!(hashes, HASHES);
    }

    #[test]
    fn hashes_of_similar_strings_differ_in_every_part() {
        let hashes: Vec<u64> = (0..10_000).map(|i| hash(format!("user{i:019}").as_bytes())).collect();
        for part in [0, 8, 40, 48, 56] {
            let mut counts = [0; 256];
            hashes.iter().for_each(|hash| counts[(hash >> part) as usize & 0xff] += 1);
            assert!(counts.iter().all(|count| (10..80).contains(count)), "{part}: {counts:?}");
        }
    }
}
