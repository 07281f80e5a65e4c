//! What a paper found, as numbers, and how these compare with what is found here.
//!
//! A claim **holds** if it is found here within a factor of 1.5, and on the same side of 1. It holds **in part** if it
//! is found on the same side of 1, but by more or less than that. Otherwise the verdict is **no**. A number within a
//! tenth of 1 says that there is no difference; it has no side, and holds within the same factor or not at all. A claim
//! of more or less without a number holds if the difference is 5 % at least.

use super::figures::{Figure, Metric, Show};
use crate::out;
use serde_json::Value;

/// The factor within which a claim holds.
const WITHIN: f64 = 1.5;
/// A number this close to 1 says that there is no difference.
const EVEN: f64 = 1.1;
/// A smaller difference is none.
const SEEN: f64 = 1.05;

/// One number of a paper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claim {
    /// What is measured.
    of: Pick,
    /// What it is divided by, if it is not the number itself that counts.
    to: Option<Pick>,
    paper: Found,
}

/// What a paper found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Found {
    Number(f64),
    AtLeast(f64),
    /// Less than 1, without a number.
    Less,
    /// More than 1, without a number.
    More,
}

/// Picks one row of a figure. A column that is not named has one value only, but for two: the number of keys is then
/// the greatest, and the wait that of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pick {
    tree: &'static str,
    bytes: Option<u32>,
    mix: Option<&'static str>,
    share: Option<u32>,
    part: Option<u32>,
    threads: Option<u32>,
    slow: Option<u64>,
    /// The place among the numbers of keys, from the greatest on.
    smaller: usize,
    /// Another number than the figure's own, by its JSON key.
    key: Option<&'static str>,
}

/// How a claim compares with what is found here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Holds,
    InPart,
    No,
}

impl Verdict {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::InPart => "in part",
            Self::No => "no",
        }
    }
}

/// The number of a tree itself.
pub(crate) const fn number(tree: &'static str, paper: Found) -> Claim {
    let of = Pick {
        tree,
        bytes: None,
        mix: None,
        share: None,
        part: None,
        threads: None,
        slow: None,
        smaller: 0,
        key: None,
    };
    Claim { of, to: None, paper }
}

/// The number of a tree, divided by the number of another tree.
pub(crate) const fn ratio(tree: &'static str, to: &'static str, paper: f64) -> Claim {
    let claim = number(tree, Found::Number(paper));
    Claim { to: Some(Pick { tree: to, ..claim.of }), ..claim }
}

/// The number of a tree, divided by the number of another tree, where the paper has no number for this.
pub(crate) const fn versus(tree: &'static str, to: &'static str, paper: Found) -> Claim {
    Claim { paper, ..ratio(tree, to, 1.0) }
}

/// Changes both sides of a claim.
macro_rules! both {
    ($(#[$doc:meta] $name:ident: $type:ty => $field:ident = $value:expr;)*) => {
        impl Claim {
            $(#[$doc]
            pub(crate) const fn $name(self, $name: $type) -> Self {
                let to = match self.to {
                    Some(to) => Some(Pick { $field: $value, ..to }),
                    None => None,
                };
                Self { of: Pick { $field: $value, ..self.of }, to, paper: self.paper }
            })*
        }
    };
}

both! {
    /// With nodes of so many bytes.
    bytes: u32 => bytes = Some(bytes);
    /// In this step.
    mix: &'static str => mix = Some(mix);
    /// In the step with this share, in thousandths.
    share: u32 => share = Some(share);
    /// With so many threads.
    threads: u32 => threads = Some(threads);
    /// With this wait for a line.
    slow: u64 => slow = Some(slow);
    /// With the number of keys at this place, from the greatest on.
    smaller: usize => smaller = smaller;
    /// Another number than the figure's own.
    key: &'static str => key = Some(key);
}

impl Claim {
    /// The tree of this claim, compared with itself in the step with this share.
    pub(crate) const fn against_share(self, share: u32) -> Self {
        Self { to: Some(Pick { share: Some(share), ..self.of }), ..self }
    }

    /// The tree of this claim in the step of this number, compared with itself in another one.
    pub(crate) const fn parts(self, part: u32, to: u32) -> Self {
        let of = Pick { part: Some(part), ..self.of };
        Self { of, to: Some(Pick { part: Some(to), ..of }), ..self }
    }

    /// The tree of this claim, compared with itself with the number of keys at this place.
    pub(crate) const fn against_smaller(self, smaller: usize) -> Self {
        Self { to: Some(Pick { smaller, ..self.of }), ..self }
    }

    /// The tree of this claim, compared with itself with this wait for a line.
    pub(crate) const fn against_slow(self, slow: u64) -> Self {
        Self { to: Some(Pick { slow: Some(slow), ..self.of }), ..self }
    }

    /// The tree of this claim, compared with itself with nodes of so many bytes.
    pub(crate) const fn against_bytes(self, bytes: u32) -> Self {
        Self { to: Some(Pick { bytes: Some(bytes), ..self.of }), ..self }
    }

    /// The trees that it is about.
    #[cfg(test)]
    pub(crate) fn trees(&self) -> impl Iterator<Item = &'static str> {
        [Some(self.of), self.to].into_iter().flatten().map(|pick| pick.tree)
    }

    /// What is measured, in words: the trees, and what both have in common; then in what they differ.
    pub(crate) fn says(&self) -> String {
        let of = self.of;
        let names = match self.to {
            Some(to) if to.tree != of.tree => format!("`{}` : `{}`", of.tree, to.tree),
            _ => format!("`{}`", of.tree),
        };
        let axes = |pick: Pick| -> [Option<String>; 6] {
            [
                pick.bytes.map(|bytes| format!("{bytes} B")),
                pick.mix.map(|mix| {
                    let share = pick.share.map_or_else(String::new, |share| format!(" {} %", f64::from(share) / 10.0));
                    format!("{}{share}", mix.replace('-', " "))
                }),
                pick.part.map(|part| format!("step {part}")),
                pick.threads.map(|threads| out::counted(threads.into(), "thread", "threads")),
                pick.slow.map(|slow| format!("+{slow} ns")),
                pick.key.map(|key| key.trim_end_matches("_per_op").replace('_', " ")),
            ]
        };
        let mut words = vec![names];
        for (mine, other) in axes(of).into_iter().zip(self.to.map_or_else(|| axes(of), axes)) {
            match (mine, other) {
                (mine, other) if mine == other => words.extend(mine),
                (mine, other) => words.push(format!("{} : {}", mine.unwrap_or_default(), other.unwrap_or_default())),
            }
        }
        if self.to.is_some_and(|to| to.smaller != of.smaller) {
            words.push("ten times the keys".to_owned());
        }
        words.join(", ")
    }

    /// The number of the paper, in words.
    pub(crate) fn paper(&self) -> String {
        match self.paper {
            Found::Number(number) => rounded(number),
            Found::AtLeast(least) => format!("at least {}", rounded(least)),
            Found::Less => "less".to_owned(),
            Found::More => "more".to_owned(),
        }
    }

    /// The number that the paper would have this bar be, given the bar that it is compared with: for a picture.
    pub(crate) fn mark(&self, figure: &Figure, rows: &[Value], row: &Value) -> Option<f64> {
        let (Found::Number(number), None) = (self.paper, self.of.key) else { return None };
        let slow = row["slow_ns"].as_u64();
        if row["tree"] != self.of.tree || !std::ptr::eq(self.of.find(figure, rows, slow)?, row) {
            return None;
        }
        match self.to {
            None => Some(number),
            Some(to) => Some(number * to.find(figure, rows, slow)?[figure.show.key()].as_f64()?),
        }
    }

    /// What is found here, by a metric, with a wait for each line; `None` if it was not run.
    pub(crate) fn here(&self, figure: &Figure, rows: &[Value], metric: Metric, slow: Option<u64>) -> Option<f64> {
        let value = |pick: Pick| {
            let row = pick.find(figure, rows, slow)?;
            let key =
                pick.key.unwrap_or_else(|| if figure.show == Show::Time { metric.key() } else { figure.show.key() });
            row[key].as_f64()
        };
        let found = match self.to {
            None => value(self.of)?,
            Some(to) => value(self.of)? / value(to)?,
        };
        found.is_finite().then_some(found)
    }

    /// Whether the claim holds, given what is found here.
    pub(crate) fn verdict(&self, here: f64) -> Verdict {
        let near = |number: f64| here / number < WITHIN && number / here < WITHIN;
        let is_even = |number: f64| number < EVEN && number > 1.0 / EVEN;
        match self.paper {
            Found::Less if here * SEEN <= 1.0 => Verdict::Holds,
            Found::More if here >= SEEN => Verdict::Holds,
            Found::Less | Found::More => Verdict::No,
            Found::AtLeast(least) if here >= least => Verdict::Holds,
            Found::AtLeast(least) if here * WITHIN >= least => Verdict::InPart,
            Found::AtLeast(_) => Verdict::No,
            // A number that is not a ratio has no sides.
            Found::Number(number) if self.to.is_none() || is_even(number) => {
                if near(number) {
                    Verdict::Holds
                } else {
                    Verdict::No
                }
            }
            Found::Number(number) if (here > 1.0) != (number > 1.0) => Verdict::No,
            Found::Number(number) if near(number) => Verdict::Holds,
            Found::Number(_) => Verdict::InPart,
        }
    }
}

impl Pick {
    fn find<'r>(&self, figure: &Figure, rows: &'r [Value], slow: Option<u64>) -> Option<&'r Value> {
        let is = |row: &Value, key: &str, wanted: Option<u64>| wanted.is_none() || row[key].as_u64() == wanted;
        let share = |row: &Value| {
            let is = |key: &str| {
                row[key].as_f64().is_some_and(|percent| Some((percent * 10.0).round() as u32) == self.share)
            };
            self.share.is_none() || is("updates_percent") || is("locality_percent")
        };
        let is_meant = |row: &&Value| {
            row["tree"] == self.tree
                && self.mix.is_none_or(|mix| row["mix"] == mix)
                && share(row)
                && is(row, "node_bytes", self.bytes.map(u64::from))
                && is(row, "threads", self.threads.map(u64::from))
                && is(row, "part", self.part.map(u64::from))
                && (row["slow_ns"].is_null() || is(row, "slow_ns", self.slow.or(slow)))
        };
        let mut keys: Vec<u64> = rows.iter().filter(is_meant).filter_map(|row| row["n"].as_u64()).collect();
        keys.sort_unstable();
        keys.dedup();
        let n = keys.iter().rev().nth(self.smaller).copied()?;
        let mut found = rows.iter().filter(is_meant).filter(|row| row["n"] == n);
        let first = found.next();
        assert!(found.next().is_none(), "{}: {self:?} is more than one row", figure.id);
        first
    }
}

/// A number with three digits that count.
pub(crate) fn rounded(number: f64) -> String {
    let text = match number.abs() {
        n if n >= 99.95 => format!("{number:.0}"),
        n if n >= 9.995 => format!("{number:.1}"),
        n if n >= 0.0995 || n == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.3}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::figures::USUAL;
    use super::*;
    use serde_json::json;

    fn verdict(paper: Found, here: f64) -> Verdict {
        versus("a", "b", paper).verdict(here)
    }

    #[test]
    fn a_claim_holds_within_a_factor_and_on_its_side() {
        let more = Found::Number(8.0);
        assert_eq!([6.0, 5.0, 13.0, 0.9].map(|here| verdict(more, here)), {
            [Verdict::Holds, Verdict::InPart, Verdict::InPart, Verdict::No]
        });
        // On the wrong side of 1, it does not hold even where it is near.
        assert_eq!([0.99, 1.01].map(|here| verdict(Found::Number(0.8), here)), [Verdict::Holds, Verdict::No]);
        assert_eq!([0.75, 1.4, 1.6].map(|here| verdict(Found::Number(1.05), here)), {
            [Verdict::Holds, Verdict::Holds, Verdict::No]
        });
        assert_eq!([0.9, 0.99].map(|here| verdict(Found::Less, here)), [Verdict::Holds, Verdict::No]);
        assert_eq!([1.1, 1.01].map(|here| verdict(Found::More, here)), [Verdict::Holds, Verdict::No]);
        assert_eq!([72.0, 60.0, 40.0].map(|here| number("a", Found::AtLeast(71.9)).verdict(here)), {
            [Verdict::Holds, Verdict::InPart, Verdict::No]
        });
    }

    #[test]
    fn a_claim_finds_its_rows() {
        let row = |tree: &str, n: u64, slow: u64, ns: f64| json!({"tree": tree, "node_bytes": 512, "n": n, "threads": 1, "mix": "insert", "slow_ns": slow, "ns_per_op": ns});
        let rows = [row("a", 10, 0, 5.0), row("a", 100, 0, 6.0), row("b", 100, 0, 3.0), row("b", 100, 300, 2.0)];
        let here = |claim: Claim, slow| claim.here(&USUAL, &rows, Metric::Cpu, Some(slow));
        assert_eq!(here(ratio("a", "b", 1.0).bytes(512), 0), Some(2.0));
        assert_eq!(here(ratio("a", "b", 1.0).bytes(512), 300), None);
        assert_eq!(here(number("a", Found::More).against_smaller(1), 0), Some(1.2));
        assert_eq!(here(number("b", Found::More).slow(300).against_slow(0), 0), Some(2.0 / 3.0));
        assert_eq!(ratio("a", "b", 1.0).bytes(512).says(), "`a` : `b`, 512 B");
        assert_eq!(ratio("a", "b", 12.0).mark(&USUAL, &rows, &rows[1]), Some(36.0));
        assert_eq!(ratio("a", "b", 12.0).mark(&USUAL, &rows, &rows[0]), None);
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!([37.84, 1.6, 0.0312, 133.2, 0.5, 2.0].map(rounded), ["37.8", "1.6", "0.031", "133", "0.5", "2"]);
    }
}
