//! How far figures are from each other.

use crate::out;
use serde_json::{Value, json};

/// The median, the smallest and the greatest of some figures (with an even number of figures, the median is the greater
/// of the two in the middle).
#[derive(Debug, Clone, Copy)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) greatest: f64,
}

impl Spread {
    /// NaN if there are no figures.
    pub(super) fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
        Self { median: at(sorted.len() / 2), least: at(0), greatest: at(sorted.len().saturating_sub(1)) }
    }

    pub(super) fn json(self) -> Value {
        let [median, least, greatest] = [self.median, self.least, self.greatest].map(|figure| out::rounded(figure, 3));
        json!({ "median": median, "least": least, "greatest": greatest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_its_middle() {
        let spread = Spread::of([9.0, 1.0, 4.0].into_iter());
        assert_eq!([spread.least, spread.median, spread.greatest], [1.0, 4.0, 9.0]);
        assert!(Spread::of(std::iter::empty()).median.is_nan());
    }
}
