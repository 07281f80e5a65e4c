//! The bytes of a key, as a search takes them: borrowed from the key, or built on the stack.

use std::borrow::{Borrow, Cow};
use std::fmt;

/// The most bytes that are built on the stack.
const INLINE: usize = 64;

/// The bytes of an encoded key.
///
/// A string or byte string is borrowed. Other keys are built: on the stack up to 64 bytes, and in an allocation if they
/// are longer.
#[derive(Clone)]
pub struct KeyBytes<'k> {
    /// Bytes that are elsewhere, unless there are some here.
    elsewhere: Cow<'k, [u8]>,
    // An enumeration would be moved in small pieces. Those wait for the stores of single parts.
    len: usize,
    here: [u8; INLINE],
}

impl KeyBytes<'_> {
    /// The bytes.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        if self.len == 0 { &self.elsewhere } else { &self.here[..self.len.min(INLINE)] }
    }

    #[inline]
    pub(crate) fn extend(&mut self, more: &[u8]) {
        let end = self.len + more.len();
        match self.here.get_mut(self.len..end) {
            Some(room) if self.elsewhere.is_empty() => {
                room.copy_from_slice(more);
                self.len = end;
            }
            _ => self.spill(more),
        }
    }

    /// Moves the bytes to an allocation and adds more.
    #[cold]
    fn spill(&mut self, more: &[u8]) {
        if self.len > 0 {
            let mut all = Vec::with_capacity(2 * (self.len + more.len()));
            all.extend_from_slice(self.as_bytes());
            (self.elsewhere, self.len) = (Cow::Owned(all), 0);
        }
        self.elsewhere.to_mut().extend_from_slice(more);
    }

    /// The smallest byte string that is greater than all that begin with these bytes. `None` if there is none, because
    /// all of the bytes are 0xff.
    pub(crate) fn after_prefix<'s>(&self) -> Option<KeyBytes<'s>> {
        let bytes = self.as_bytes();
        let (last, before) = bytes[..bytes.iter().rposition(|&byte| byte != 0xff)? + 1].split_last()?;
        let mut after = KeyBytes::default();
        after.extend(before);
        after.extend(&[last + 1]);
        Some(after)
    }
}

/// No bytes.
impl Default for KeyBytes<'_> {
    #[inline]
    fn default() -> Self {
        Self::from(&[][..])
    }
}

impl<'k> From<&'k [u8]> for KeyBytes<'k> {
    #[inline]
    fn from(bytes: &'k [u8]) -> Self {
        Self { elsewhere: Cow::Borrowed(bytes), len: 0, here: [0; INLINE] }
    }
}

impl Borrow<[u8]> for KeyBytes<'_> {
    #[inline(always)]
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl fmt::Debug for KeyBytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}
