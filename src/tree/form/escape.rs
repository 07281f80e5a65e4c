//! Byte strings of any length before other parts of a key.
//!
//! A byte 0 becomes 0 and 0xff, and the string ends with 0 and 0. No such code is the beginning of another: each has
//! its only pair of zeros at its end. Codes keep the order of their strings, whatever follows them. Let the strings
//! differ first in bytes x < y. Then their codes differ first there, too: y is not 0 and stands for itself, and x is
//! coded by x or begins with 0. Or let one string be the beginning of the other. Its end, 0 and 0, lies where the other
//! has a byte that is not 0, or 0 and 0xff.

use super::KeyBytes;
use std::borrow::Cow;

const END: [u8; 2] = [0, 0];
const ZERO: [u8; 2] = [0, 0xff];

/// Writes the code of a string.
#[inline]
pub(super) fn escape(bytes: &[u8], to: &mut KeyBytes<'_>) {
    if bytes.contains(&0) {
        let mut runs = bytes.split(|&byte| byte == 0);
        to.extend(runs.next().unwrap_or_default());
        for run in runs {
            to.extend(&ZERO);
            to.extend(run);
        }
    } else {
        to.extend(bytes);
    }
    to.extend(&END);
}

/// The string whose code is at the beginning, and what follows the code.
///
/// In a damaged pool, the end may be missing, or another byte may follow a 0. Then the string ends there.
pub(super) fn unescape(bytes: &[u8]) -> (Cow<'_, [u8]>, &[u8]) {
    let mut string = Cow::Borrowed(&[][..]);
    let mut rest = bytes;
    loop {
        let zero = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
        let run = &rest[..zero];
        if string.is_empty() {
            string = Cow::Borrowed(run);
        } else {
            string.to_mut().extend_from_slice(run);
        }
        if rest[zero..].starts_with(&ZERO) {
            string.to_mut().push(0);
            rest = &rest[zero + ZERO.len()..];
        } else {
            return (string, rest.get(zero + END.len()..).unwrap_or_default());
        }
    }
}
