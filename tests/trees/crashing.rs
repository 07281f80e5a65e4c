//! Campaigns of crash states that tests run for the layouts they are about.

use crate::clean::clean;
use bristlecone::crash::{Campaign, Checkable, History, Values};
use bristlecone::medium::{Model, Step};
use bristlecone::{IndexKind, WordNode};

/// States per crash point, for kinds with very many states: a record of twenty lines may be torn in a million ways.
pub(crate) const LIMIT: usize = 500;

/// All of these histories, or a quarter if tests do not run whole.
pub(crate) fn some_of(all: usize) -> usize {
    if crate::long() { all } else { all.div_ceil(4) }
}

pub(crate) fn random<N: WordNode>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    clean(&campaign.random::<N>(some_of(count), 40, |_, _| ()));
}

pub(crate) fn random_records<N: WordNode>(index: IndexKind, model: Model, count: usize) {
    let mut campaign = Campaign::new(model);
    campaign.index = index;
    campaign.values = Values::Records;
    campaign.limit = LIMIT;
    clean(&campaign.random::<N>(some_of(count), 30, |_, _| ()));
}

/// A range is removed from within a leaf, and over several leaves; and each persist step of that is needed.
pub(crate) fn cut<N: Checkable>(values: Values) {
    let fill = "i2=1 i4=2 i6=3 i8=4 i10=5 i12=6 i14=7 i16=1 i18=2";
    let few = ["i2=1 i4=2 i6=3 cut4-7", "i2=1 i4=2 i6=3 cut0-9 i3=1"].map(str::to_owned);
    let many = ["cut3-9", "cut5-17", "cut0-99", "cut7-15 i9=1", "cut3-17 reopen"].map(|last| format!("{fill} {last}"));
    let histories: Vec<History> = few.iter().chain(&many).map(|text| text.parse().expect("a history")).collect();
    let mut campaign = Campaign::new(Model::Weak);
    (campaign.values, campaign.limit) = (values, LIMIT);
    clean(&campaign.histories::<N>(&histories, |_, _| ()));
    campaign.depth = 0;
    campaign.steps = vec![Step::BatchLines, Step::BatchFence, Step::BatchChange];
    let controls = campaign.controls::<N>(&histories, |_, _| ());
    let missed: Vec<_> = controls.iter().filter(|control| control.caught_by.is_none()).collect();
    assert!(!controls.is_empty() && missed.is_empty(), "{missed:?}");
}

/// What is done to pools and to whole trees: each is cut at every point, and where it is killed, so is what comes next.
pub(crate) fn of_pools<N: Checkable>(slots: u64, index: IndexKind, values: Values) {
    let mut histories = Vec::new();
    for n in [0, 1, slots + 1] {
        let fill: String = (1..=n).map(|key| format!("i{}={key} ", 2 * key)).collect();
        histories.extend(["drop", "anew", "powerloss"].map(|last| format!("{fill}{last}")));
        for events in [0, 1, 2, 3, 5, 8, 13, 21] {
            for killed in ["i1=9", "r2", "clear", "reopen", "drop"] {
                histories.push(format!("{fill}{killed} kill{events} i{}=1", 2 * n + 3));
            }
            histories.push(format!("{fill}anew kill{} anew", 37 * events));
        }
    }
    // A part of them is spread evenly.
    let some = histories.iter().step_by(if crate::long() { 1 } else { 5 });
    let histories: Vec<History> = some.map(|text| text.parse().expect("a history")).collect();
    for model in [Model::Tso, Model::Weak] {
        let mut campaign = Campaign::new(model);
        (campaign.index, campaign.values, campaign.limit, campaign.depth) = (index, values, 32, 0);
        clean(&campaign.histories::<N>(&histories, |_, _| ()));
    }
}
