//! The bytes of a key, as a search takes them: borrowed from the key, or built on the stack.

use std::fmt;

/// The most bytes that are built on the stack.
const INLINE: usize = 64;

/// The bytes of an encoded key.
///
/// A string or byte string is borrowed. Other keys are built: on the stack up to 64 bytes, and in an allocation if they
/// are longer.
#[derive(Clone)]
pub struct KeyBytes<'k>(Repr<'k>);

#[derive(Clone)]
enum Repr<'k> {
    Borrowed(&'k [u8]),
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Vec<u8>),
}

impl<'k> KeyBytes<'k> {
    #[inline]
    pub(super) fn new() -> Self {
        Self(Repr::Inline { len: 0, bytes: [0; INLINE] })
    }

    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Borrowed(bytes) => bytes,
            // The length is never greater than the array; `min` spares a check that could fail.
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len).min(INLINE)],
            Repr::Heap(bytes) => bytes,
        }
    }

    #[inline]
    pub(super) fn extend(&mut self, more: &[u8]) {
        match &mut self.0 {
            Repr::Inline { len, bytes } => {
                let start = usize::from(*len);
                match bytes.get_mut(start..start + more.len()) {
                    Some(room) => {
                        room.copy_from_slice(more);
                        *len += more.len() as u8;
                    }
                    None => self.spill(more),
                }
            }
            Repr::Heap(bytes) => bytes.extend_from_slice(more),
            Repr::Borrowed(_) => self.spill(more),
        }
    }

    /// Moves the bytes to an allocation and adds more.
    #[cold]
    fn spill(&mut self, more: &[u8]) {
        let bytes = self.as_bytes();
        let mut all = Vec::with_capacity(2 * (bytes.len() + more.len()));
        all.extend_from_slice(bytes);
        all.extend_from_slice(more);
        self.0 = Repr::Heap(all);
    }

    /// The smallest byte string that is greater than all that begin with these bytes. `None` if there is none, because
    /// all of the bytes are 0xff.
    pub(super) fn after_prefix<'s>(&self) -> Option<KeyBytes<'s>> {
        let bytes = self.as_bytes();
        let (last, before) = bytes[..bytes.iter().rposition(|&byte| byte != 0xff)? + 1].split_last()?;
        let mut after = KeyBytes::new();
        after.extend(before);
        after.extend(&[last + 1]);
        Some(after)
    }
}

impl<'k> From<&'k [u8]> for KeyBytes<'k> {
    #[inline]
    fn from(bytes: &'k [u8]) -> Self {
        Self(Repr::Borrowed(bytes))
    }
}

impl AsRef<[u8]> for KeyBytes<'_> {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for KeyBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}
