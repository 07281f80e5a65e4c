//! A part of many things, for runs that do not take all of them.

use std::fmt;
use std::str::FromStr;

/// One of several parts of a list, as `2/4`: the second thing, and every fourth one after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    number: usize,
    of: usize,
}

impl Part {
    /// All of it.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// The things that are in this part.
    pub fn of<T>(self, all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
        all.into_iter().skip(self.number - 1).step_by(self.of)
    }
}

/// Why a text is not a [`Part`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPart;

impl fmt::Display for NoPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no part: write 1/4 for the first of four")
    }
}

impl std::error::Error for NoPart {}

impl FromStr for Part {
    type Err = NoPart;

    fn from_str(text: &str) -> Result<Self, NoPart> {
        let numbers = text.split_once('/').and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
        numbers
            .map(|(number, of)| Self { number, of })
            .filter(|part| (1..=part.of).contains(&part.number))
            .ok_or(NoPart)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_everything_together() {
        let mut together: Vec<u32> = (1..=4).flat_map(|number| Part { number, of: 4 }.of(0..99)).collect();
        together.sort_unstable();
        assert!(together.into_iter().eq(0..99) && Part::WHOLE.of(0..99).eq(0..99));
    }

    #[test]
    fn a_part_that_is_not_there_is_an_error() {
        assert_eq!("2/4".parse::<Part>().map(|part| part.to_string()), Ok("2/4".to_owned()));
        for wrong in ["5/4", "0/4", "1/0", "0/0", "1", "/", "1/4/2", "-1/4", ""] {
            assert_eq!(wrong.parse::<Part>(), Err(NoPart), "{wrong}");
        }
    }
}
