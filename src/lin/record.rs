//! Records that tell whose they are.

use crate::crash::any_tree::Records;

/// The length of the longest ones.
pub(super) const LONG: usize = 6000;

/// Records of different classes, of several lines, or with segments of their own: key, number and a checksum of both,
/// and then words that follow from them.
pub(super) struct Signed;

impl Records for Signed {
    fn record(key: u64, number: u64) -> Vec<u8> {
        const LENGTHS: [usize; 8] = [24, 24, 31, 60, 60, 200, 1000, LONG];
        // Few records are long, whatever the keys and writers: a pool has room for them.
        let both = key.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(number);
        let sum = (both ^ both >> 32).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let rest = (3..).map(|i| sum.wrapping_mul(i));
        let words = [key, number, sum].into_iter().chain(rest);
        let len = LENGTHS[(sum >> 61) as usize];
        let mut bytes: Vec<u8> = words.take(len.div_ceil(8)).flat_map(u64::to_le_bytes).collect();
        bytes.truncate(len);
        bytes
    }

    fn claimed(record: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(record.get(8..16)?.try_into().ok()?))
    }
}
