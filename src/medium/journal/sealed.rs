//! Words with a checksum in the last one: the header of the log, the marker of the pool file, and what the head of a
//! ring says whose it is.

/// The bytes of the words. The last word becomes their checksum.
pub(super) fn seal<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.chunks_exact_mut(8).zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
    let crc = crc(&bytes);
    bytes[BYTES - 8..].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The words, if they have the right checksum.
pub(super) fn unseal<const WORDS: usize, const BYTES: usize>(bytes: &[u8; BYTES]) -> Option<[u64; WORDS]> {
    let words: [u64; WORDS] = std::array::from_fn(|i| word(&bytes[i * 8..]));
    (words[WORDS - 1] == crc(bytes)).then_some(words)
}

/// A checksum of all words but the last one. Zeros have another one.
fn crc<const BYTES: usize>(bytes: &[u8; BYTES]) -> u64 {
    u64::from(crc32fast::hash(&bytes[..BYTES - 8])) | 1 << 32
}

/// The first word of some bytes.
pub(super) fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("a whole word"))
}
