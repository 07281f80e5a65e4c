//! Records that tell whose they are.

use crate::crash::any_tree::Records;

/// Records of different classes, of several lines, or with segments of their own: key, number and a checksum of both, and
/// then words that follow from them.
pub(super) struct Signed;

impl Records for Signed {
    fn record(key: u64, number: u64) -> Vec<u8> {
        const LENGTHS: [usize; 8] = [24, 24, 31, 60, 60, 200, 1000, 6000];
        let sum = (key ^ number.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let rest = (3..).map(|i| sum.wrapping_mul(i));
        let words = [key, number, sum].into_iter().chain(rest);
        let len = LENGTHS[sum as usize >> 8 & 7];
        let mut bytes: Vec<u8> = words.take(len.div_ceil(8)).flat_map(u64::to_le_bytes).collect();
        bytes.truncate(len);
        bytes
    }

    fn claimed(record: &[u8]) -> Option<u64> {
        Some(u64::from_le_bytes(record.get(8..16)?.try_into().ok()?))
    }
}
