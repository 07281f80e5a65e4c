//! `--figure PAPER:FIGURE`: the papers' figures, as far as they can be rerun without the papers' hardware.
//!
//! A figure is data ([`figures`]): one table per paper ([`circ`], [`sentinel`], [`nv`], [`crab`]). A contestant is a
//! [`tree`] by name, on a [`medium`] with switches, and a [`work`] step says what it does. The [`engine`] lets the
//! contestants take turns, and [`row`] prints. [`micro`] is for the one figure that has no tree.
//!
//! What the papers found is there as numbers, too ([`claims`]), and [`page`] compares them with what is found here.
//!
//! The figures report the arithmetic mean of CPU time, which other processes affect less, and beside it the means by
//! the clock that the papers report, the arithmetic one and the geometric one.

mod circ;
mod claims;
mod copies;
mod crab;
mod engine;
mod figures;
mod medium;
mod micro;
mod nv;
mod page;
mod plan;
mod row;
mod sentinel;
pub(crate) mod simulated;
mod stage;
mod store;
mod tree;
mod work;

use crate::out::Outcome;
use crate::parse::Usage;
use figures::Figure;
pub use page::{Page, pictures};
pub(crate) use plan::{Plan, SLOW};
use row::Sink;
use std::process::ExitCode;

/// The fewest keys that a figure needs: the smallest zone is half a percent of them.
const LEAST: u64 = 1000;

fn all() -> impl Iterator<Item = &'static Figure> {
    [circ::FIGURES, sentinel::FIGURES, nv::FIGURES, crab::FIGURES].into_iter().flatten()
}

pub(crate) fn run(plan: &Plan) -> Outcome {
    let mut sink = Sink::new(plan)?;
    if plan.figures.iter().any(|name| name == "list") {
        all().try_for_each(|figure| sink.list(figure))?;
        return Ok(ExitCode::SUCCESS);
    }
    for name in &plan.figures {
        if !all().any(|figure| figure.is_meant(name)) {
            return Err(Usage(format!("no figure is named '{name}'; --figure list names them")).into());
        }
    }
    // A name in full means that figure only.
    let is_full = |name: &str| all().any(|figure| figure.id == name);
    let is_asked = |figure: &&Figure| {
        plan.figures.iter().any(|name| if is_full(name) { figure.id == name } else { figure.is_meant(name) })
    };
    let asked: Vec<_> = all().filter(is_asked).collect();
    if plan.svg.is_some() && asked.len() > 1 {
        return Err(Usage(format!("--svg draws one figure, not {}", asked.len())).into());
    }
    if plan.n < LEAST {
        return Err(Usage(format!("--n {}: a figure needs {LEAST} keys", plan.n)).into());
    }
    for figure in asked {
        sink.head(figure)?;
        let rows: Vec<_> = engine::run(figure, plan, &mut sink)?.iter().map(|row| row.json(figure, plan)).collect();
        sink.judged(figure, &rows)?;
        if let Some(path) = &plan.svg {
            let picture = page::picture(figure, &rows);
            std::fs::write(path, picture).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::figures::Show;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn figures_are_well_formed() {
        let ids: HashSet<&str> = all().map(|figure| figure.id).collect();
        assert_eq!(ids.len(), all().count());
        for figure in all() {
            assert!(!figure.title.is_empty() && !figure.claim.is_empty(), "{}", figure.id);
            let measures_trees = !matches!(figure.show, Show::Micro | Show::Nothing(_));
            assert!(!measures_trees || figure.trees.contains(&figure.subject), "{}", figure.id);
            for tree in figure.claims.iter().flat_map(claims::Claim::trees) {
                assert!(!measures_trees || figure.trees.contains(&tree), "{}: {tree}", figure.id);
            }
            let names: HashSet<_> = figure.trees.iter().collect();
            assert_eq!(names.len(), figure.trees.len(), "{}", figure.id);
        }
    }

    #[test]
    fn every_contestant_is_in_some_figure() {
        for contestant in tree::TABLE {
            assert!(all().any(|figure| figure.trees.contains(&contestant.name)), "{}", contestant.name);
        }
    }

    #[test]
    fn names_have_letters_more_or_less() {
        let meant = |name: &str| all().filter(|figure| figure.is_meant(name)).map(|f| f.id).collect::<Vec<_>>();
        assert_eq!(meant("circ:7b"), ["circ:7b"]);
        assert_eq!(meant("circ:7"), ["circ:7a", "circ:7b", "circ:7c", "circ:7d"]);
        assert_eq!(meant("nv:11c"), ["nv:11"]);
        assert_eq!(meant("nv:1"), ["nv:1a", "nv:1b", "nv:1c", "nv:1d"]);
        assert!(meant("crab").len() > 5 && meant("circ:7e") == [""; 0]);
    }
}
