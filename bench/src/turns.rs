//! Sides that take turns in short rounds, so that a slow moment of the machine hits all of them.

use crate::clock::Spent;

/// Rounds of a repeat. One of 50,000 operations takes ten milliseconds: much longer than it takes to have a side's
/// memory in the caches again, and much shorter than the minutes for which other tenants slow a machine down.
pub(crate) const ROUNDS: u64 = 20;

/// The operations of a round, if a repeat has so many.
pub(crate) fn part(operations: u64) -> u64 {
    (operations / ROUNDS).max(1)
}

/// One repeat: what each side has spent in its rounds. `round` runs the round with a number, of the side with a number.
pub(crate) fn take(sides: usize, mut round: impl FnMut(usize, u64) -> Spent) -> Vec<Vec<Spent>> {
    let mut spent: Vec<Vec<Spent>> = (0..sides).map(|_| Vec::new()).collect();
    for number in 0..ROUNDS {
        for turn in 0..sides {
            // The side that comes first alternates.
            let side = if number % 2 == 0 { turn } else { sides - 1 - turn };
            spent[side].push(round(side, number));
        }
    }
    spent
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn every_side_has_every_round_and_comes_first_in_half_of_them() {
        let mut order = Vec::new();
        let spent = take(2, |side, number| {
            order.push((number, side));
            clock::spend(1, vec![Box::new(|tick| tick.done(1))])
        });
        assert_eq!(spent.iter().map(Vec::len).collect::<Vec<_>>(), [ROUNDS as usize; 2]);
        assert_eq!(order[..4], [(0, 0), (0, 1), (1, 1), (1, 0)]);
        assert_eq!(part(1000) * ROUNDS, 1000);
    }
}
