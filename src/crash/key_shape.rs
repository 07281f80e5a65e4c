//! What byte strings look like that stand for numbers.

use crate::error::{Error, ErrorKind, Result};

/// What the strings look like that stand for numbers. They are in the order of the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyShape {
    /// The eight bytes of the number, which share seven or so: heads differ.
    Bytes,
    /// Sixty bytes more before these: lows do not fit into headers.
    Long,
    /// Zeros, from the empty string on: each is a prefix of the next one, and all heads are equal.
    Zeros,
}

impl KeyShape {
    const PREFIX: [u8; 60] = [b'x'; 60];
    /// Numbers from this one on are no zeros.
    const MOST_ZEROS: u64 = 256;

    pub(super) fn key(self, number: u64) -> Vec<u8> {
        match self {
            Self::Bytes => number.to_be_bytes().to_vec(),
            Self::Long => [&Self::PREFIX[..], &number.to_be_bytes()].concat(),
            Self::Zeros if number < Self::MOST_ZEROS => vec![0; number as usize],
            Self::Zeros => [&[0xff][..], &number.to_be_bytes()].concat(),
        }
    }

    /// The number that a string stands for; an error for other strings.
    pub(super) fn number(self, key: &[u8]) -> Result<u64> {
        let last = key.last_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let zeros = self == Self::Zeros && key.first() != Some(&0xff);
        let number = if zeros { key.len() as u64 } else { last };
        if self.key(number) == key { Ok(number) } else { Err(torn(number)) }
    }
}

/// The error for bytes that are not whole.
pub(super) fn torn(key: u64) -> Error {
    Error::new("in memory", ErrorKind::Corrupt { at: key, invariant: "V2: a torn record, or another's" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_in_the_order_of_their_numbers() {
        for shape in [KeyShape::Bytes, KeyShape::Long, KeyShape::Zeros] {
            let numbers = [0, 1, 2, 7, 50, 99, 255, 256, 1023, 1024, 1025, u64::MAX];
            assert!(numbers.map(|number| shape.key(number)).is_sorted_by(|one, next| one < next), "{shape:?}");
            assert!(numbers.iter().all(|&number| shape.number(&shape.key(number)).is_ok_and(|found| found == number)));
            assert!(shape.number(b"abc").is_err());
        }
    }
}
