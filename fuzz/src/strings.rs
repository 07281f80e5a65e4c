//! Byte strings that stand for numbers, in their order. An input says what they are like.

use crate::data::Data;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The longest key.
const LONGEST: usize = 65_536;
/// Most bytes of all strings together.
const MOST: usize = 1 << 20;

/// The strings, in order. The last ones stand for the greatest numbers, the others for those from 0 on.
#[derive(Clone, Default)]
pub(crate) struct Strings(Arc<Vec<Vec<u8>>>);

impl Strings {
    /// How many of them stand for the greatest numbers.
    const LAST: usize = 64;

    /// Strings that an input describes, and others that are made of these: shorter and longer ones, and neighbours.
    /// There are strings for the numbers below `few`.
    pub(crate) fn read(data: &mut Data<'_>, few: usize) -> Self {
        let mut last = Vec::new();
        let described = data.list(12, |data| {
            last = described(&last, data);
            last.clone()
        });
        let count = few + Self::LAST;
        let mut all: BTreeSet<Vec<u8>> = BTreeSet::from([Vec::new()]);
        all.extend(described.iter().cloned());
        let mut bytes: usize = all.iter().map(Vec::len).sum();
        // Each string that is added is taken as a model later, so there are always new ones.
        let mut models: Vec<Vec<u8>> = described.into_iter().chain([Vec::new()]).collect();
        let mut next = 0;
        while all.len() < count {
            for like in like(&models[next]) {
                let fits = like.len() <= LONGEST && (like.len() < 100 || bytes + like.len() <= MOST);
                if fits && all.len() < count && all.insert(like.clone()) {
                    bytes += like.len();
                    models.push(like);
                }
            }
            next += 1;
        }
        Self(Arc::new(all.into_iter().collect()))
    }

    fn few(&self) -> usize {
        self.0.len() - Self::LAST
    }

    pub(crate) fn string(&self, number: u64) -> &[u8] {
        let i = match (u64::MAX - number) as usize {
            from_end if from_end < Self::LAST => self.0.len() - 1 - from_end,
            _ => number as usize % self.few(),
        };
        &self.0[i]
    }

    /// The number that a string stands for; for others, a number that no input has.
    pub(crate) fn number(&self, string: &[u8]) -> u64 {
        match self.0.binary_search_by(|one| one[..].cmp(string)) {
            Ok(i) if i < self.few() => i as u64,
            Ok(i) => u64::MAX - (self.0.len() - 1 - i) as u64,
            Err(_) => 0xbad_bad_bad,
        }
    }
}

/// Inputs that describe strings: none, and so zeros; words; long ones with the same start; zeros and greatest bytes;
/// and one that is as long as may be.
pub(crate) const SEEDS: [&[u8]; 5] = [
    &[0],
    &[3, 0, 0, 0, 4, b'p', b'e', b'a', b'r', 2, 0, 0, 2, b'a', b'r', 0, 0, 0, 5, b'a', b'p', b'p', b'l', b'e'],
    &[4, 0, b'x', 60, 1, b'a', 60, 0, 0, 1, b'b', 60, b'y', 40, 0, 100, 0, 0, 1, b'z'],
    &[4, 0, 0, 20, 0, 12, 0xff, 9, 0, 0, 0xff, 30, 1, 0, 15, 0, 1, 2, 0xff, 0],
    &[3, 0, 7, 255, 0, 255, 7, 254, 1, 6, 90, 8, 0, 1, 1],
];

/// A string: the start of the one before, a byte some times, and some more bytes.
fn described(last: &[u8], data: &mut Data<'_>) -> Vec<u8> {
    let mut string = last[..usize::from(data.byte()).min(last.len())].to_vec();
    let (byte, times) = (data.byte(), usize::from(data.byte()));
    // Now and then as long as may be.
    let times = if times < 250 { times } else { (times - 249) * 10_922 };
    string.resize(string.len() + times, byte);
    string.extend(data.list(8, Data::byte));
    string.truncate(LONGEST);
    string
}

/// Strings like another one.
fn like(string: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
    let shorter = string.split_last().map(|(_, rest)| rest.to_vec());
    let half = string[..string.len() / 2].to_vec();
    let next = string.split_last().map(|(last, rest)| [rest, &[last.wrapping_add(1)]].concat());
    let longer = [&[0][..], &[0xff], &[0; 9], b"a\0b"].map(|tail| [string, tail].concat());
    shorter.into_iter().chain(next).chain(longer).chain([half])
}
