//! Runs a history on the simulated medium, and checks what is left of it after a crash.

use super::any_tree::{ALL, AnyTree};
use super::history::{History, Missing, Op, batch, bulk, together};
use super::tree_type::{TREE, TreeType};
use crate::error::{Error, ErrorKind, Result};
use crate::medium::any::Any;
use crate::medium::{Choice, Event, Sim};
use crate::node::{IndexKind, OneLine};
use crate::pool::{Options, Pool};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Size of what lies before the segments, in bytes.
const HEADER: u64 = 16 << 10;

/// Size of the simulated pool in bytes: the header and 40 segments of 1 KiB.
pub(crate) const POOL: u64 = HEADER + (40 << 10);

pub(crate) type Entries = BTreeMap<u64, u64>;

/// What may be found.
#[derive(Debug, Clone, Hash)]
pub(super) struct Allowed {
    pub(super) contents: Vec<Entries>,
    pub(super) may_miss: Missing,
}

impl Allowed {
    pub(super) fn only(entries: Entries) -> Self {
        Self { contents: vec![entries], may_miss: Missing::Nothing }
    }
}

/// A history that was run.
pub(super) struct Run {
    /// Everything that was asked of the medium.
    pub(super) trace: Vec<Event>,
    /// The event with which the last operation begins.
    pub(super) from: usize,
    /// What may be found after a crash during the last operation.
    pub(super) in_flight: Allowed,
    /// What must be found after it.
    pub(super) returned: Allowed,
}

/// A recovery that succeeded, and perhaps an operation after it.
pub(super) struct Recovery {
    /// Everything that was asked of the medium.
    pub(super) trace: Vec<Event>,
    /// The event with which the operation begins, and what may be found after a crash during it.
    pub(super) then: Option<(usize, Allowed)>,
    /// What must be found at the end.
    pub(super) returned: Allowed,
}

pub(crate) fn options() -> Options {
    Pool::options().segment_size(1024)
}

/// Runs a history on an empty medium; errors and panics are reported in words.
pub(super) fn run(tree_type: TreeType, history: &History, sim: Sim) -> Result<Run, String> {
    guarded(|| {
        let mut model = Entries::new();
        // The creation of pool and tree.
        let mut in_flight = Allowed { contents: vec![Entries::new()], may_miss: Missing::Pool };
        let mut from = 0;
        let mut pool = options().create_on(sim.handle())?;
        let mut tree = tree_type.open(&pool)?;
        let mut ops = history.0.iter().copied().peekable();
        while let Some(op) = ops.next() {
            let mut left = Allowed { contents: op.in_flight(&model), may_miss: op.may_miss() };
            if let Some(Op::Kill(events)) = ops.next_if(|next| matches!(next, Op::Kill(_))) {
                sim.kill_after(events as usize);
                // An error in a dead process means nothing.
                let done = guarded(|| Ok(of_tree(op, &*tree).transpose()?.is_some()));
                if done == Ok(true) && sim.is_alive() {
                    op.apply(&mut model);
                    left = Allowed::only(model);
                }
                drop(tree);
                if done == Ok(false) {
                    let _ = guarded(|| Ok(of_pool(op, pool, &sim)?));
                } else {
                    drop(pool);
                }
                if ops.peek().is_none() {
                    (from, in_flight) = (sim.now(), left.clone());
                }
                sim.restart();
                pool = match options().open_on(sim.handle()) {
                    Err(error) if may_be_refused(&error, left.may_miss) => options().create_on(sim.handle())?,
                    opened => opened?,
                };
                tree = tree_type.open(&pool)?;
                model = tree.entries()?.into_iter().collect();
                if !left.contents.contains(&model) {
                    return Err(format!("after the kill: {model:?}, allowed are {:?}", left.contents).into());
                }
                continue;
            }
            if ops.peek().is_none() {
                (from, in_flight) = (sim.now(), left);
            }
            op.apply(&mut model);
            if of_tree(op, &*tree).transpose()?.is_none() {
                drop(tree);
                pool = of_pool(op, pool, &sim)?;
                tree = tree_type.open(&pool)?;
            }
        }
        // Before the handles are dropped: closing is not part of the history.
        let trace = sim.trace();
        same("after the history", &*tree, &model)?;
        Ok(Run { trace, from, in_flight, returned: Allowed::only(model) })
    })
}

/// Applies the operation to the tree, which stays open; `None` if it [is not for](of_pool) an open tree.
pub(crate) fn of_tree(op: Op, tree: &dyn AnyTree) -> Option<Result<()>> {
    Some(match op {
        Op::Insert(key, value) => tree.insert(key, value).map(drop),
        Op::Remove(key) => tree.remove(key).map(drop),
        Op::Clear => tree.clear(),
        Op::Compact => tree.compact(),
        Op::BulkLoad(n) => match tree.bulk_load(&bulk(n).collect::<Vec<_>>()) {
            Err(Error { kind: ErrorKind::NotEmpty { .. }, .. }) => Ok(()),
            loaded => loaded.map(drop),
        },
        Op::Batch(n) => tree.insert_batch(&batch(n).collect::<Vec<_>>()),
        Op::Cut(from, to) => tree.remove_range((from, to)).map(drop),
        Op::Together(n) => tree.transaction(&[], false, &together(n).collect::<Vec<_>>()).map(drop),
        Op::Swap => tree.swap(),
        Op::Kill(_) | Op::Crash(_) => Ok(()),
        Op::Shrink | Op::Reopen | Op::Drop | Op::Anew | Op::Others(_) | Op::AfterPowerLoss => return None,
    })
}

/// Applies the operation to a pool whose tree was closed in order. The tree must be opened, or created, again.
pub(super) fn of_pool(op: Op, pool: Pool<Any>, sim: &Sim) -> Result<Pool<Any>> {
    match op {
        Op::Drop => return pool.drop_tree(TREE).map(|()| pool),
        Op::Shrink => return pool.shrink().map(|_| pool),
        Op::Others(n) => {
            for i in 0..n {
                pool.tree_with::<OneLine<7>>(&format!("other {i}"), IndexKind::Volatile)?;
            }
            return Ok(pool);
        }
        _ => drop(pool),
    }
    match op {
        Op::Anew => options().create_on(sim.handle()),
        Op::AfterPowerLoss => options().open_on_after_power_loss(sim.handle()).map(|(pool, _)| pool),
        _ => options().open_on(sim.handle()),
    }
}

/// Whether a crash may leave a pool, or a former one, that is refused with this error.
pub(super) fn may_be_refused(error: &Error, may_miss: Missing) -> bool {
    match error.kind {
        ErrorKind::NotAPool { .. } => may_miss >= Missing::Pool,
        ErrorKind::Superblock { .. } => may_miss >= Missing::Superblock,
        _ => false,
    }
}

/// Opens what a crash left, and checks it; with `goes_on`, continues with an operation after a repair. `None`: there is
/// nothing more to do, either because there is no pool and need not be one, or because the state is `known`, as far as
/// it was read and decided until then.
pub(super) fn state(
    tree_type: TreeType,
    sim: &Sim,
    allowed: &Allowed,
    seed: u64,
    goes_on: bool,
    known: impl FnOnce(&[Choice]) -> bool,
) -> Result<Option<Recovery>, String> {
    guarded(|| {
        let pool = match options().open_on(sim.handle()) {
            Err(error) if may_be_refused(&error, allowed.may_miss) => return Ok(None),
            other => other?,
        };
        if allowed.may_miss < Missing::Tree && pool.trees()?.is_empty() {
            return Err("the tree is gone".to_owned().into());
        }
        let tree = tree_type.open(&pool)?;
        // Leaves are repaired when they are first touched, so this is recovery until all of them were.
        let found: Entries = tree.entries()?.into_iter().collect();
        let mut trace = sim.trace();
        if !allowed.contents.contains(&found) {
            return Err(format!("found {found:?}, allowed are {:?}", allowed.contents).into());
        }
        same("after recovery", &*tree, &found)?;
        // From here on, a line that recovery did not read takes any one of its contents. This also holds where a known
        // state is closed.
        sim.decide_rest(seed);
        if known(&sim.path()) {
            return Ok(None);
        }
        let mut model = found.clone();
        // The repair must be durable before anything else changes.
        let then = if goes_on
            && trace.iter().any(repairs)
            && let Some(next) = next_operation(&found, trace.len())
        {
            let from = trace.len();
            let allowed = Allowed { contents: next.in_flight(&model), may_miss: next.may_miss() };
            next.apply(&mut model);
            of_tree(next, &*tree).transpose()?;
            trace = sim.trace();
            Some((from, allowed))
        } else {
            None
        };
        let returned = Allowed::only(model.clone());
        use_it(&*tree, tree_type.slots, &mut model)?;
        same("after further use", &*tree, &model)?;
        drop(tree);
        drop(pool);
        let pool = options().open_on(sim.handle())?;
        let tree = tree_type.open(&pool)?;
        same("after closing and opening", &*tree, &model)?;
        Ok(Some(Recovery { trace, then, returned }))
    })
}

/// Whether something is stored outside the pool's header, which every open changes.
fn repairs(event: &Event) -> bool {
    matches!(*event, Event::Store { at, .. } | Event::Pair { at, .. } if at >= HEADER)
}

/// The operation after a recovery that repaired something. It varies, and so does the leaf. But it is always the same
/// for the same recovery, because that is run again and again.
fn next_operation(found: &Entries, events: usize) -> Option<Op> {
    let key = *found.keys().nth(events / 3 % found.len().max(1))?;
    Some(match events % 3 {
        0 => Op::Insert(key, 1),
        1 => Op::Insert(key.wrapping_add(1), 2),
        _ => Op::Remove(key),
    })
}

/// Enough inserts to split, and enough removals to merge.
fn use_it(tree: &dyn AnyTree, slots: u64, model: &mut Entries) -> Result<(), Failure> {
    for i in 0..slots + 2 {
        let key = i * 4 + 1;
        if tree.insert(key, i)?.was_there() != model.insert(key, i).is_some() {
            return Err(format!("insert of {key} says wrongly whether it was there").into());
        }
    }
    let removed: Vec<u64> = model.keys().copied().filter(|key| key % 3 != 0).collect();
    for key in removed {
        if tree.remove(key)?.was_there() != model.remove(&key).is_some() {
            return Err(format!("removal of {key} says wrongly whether it was there").into());
        }
    }
    Ok(())
}

pub(crate) fn same(when: &str, tree: &dyn AnyTree, model: &Entries) -> Result<(), Failure> {
    let entries = tree.entries()?;
    if !entries.iter().copied().eq(model.iter().map(|(&key, &value)| (key, value))) {
        return Err(format!("{when}: {entries:?}, expected {model:?}").into());
    }
    if !tree.range(ALL).rev().collect::<Result<Vec<_>>>()?.iter().eq(entries.iter().rev()) {
        return Err(format!("{when}: backwards it reads differently").into());
    }
    for (&key, &value) in model {
        let found = tree.get(key)?;
        if found != Some(value) {
            return Err(format!("{when}: get({key}) is {found:?}, expected {value}").into());
        }
    }
    match tree.check().violations.first() {
        Some(broken) => Err(format!("{when}: {broken}").into()),
        None => Ok(()),
    }
}

/// Why a run or a state is wrong.
pub(crate) struct Failure(String);

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl From<String> for Failure {
    fn from(what: String) -> Self {
        Self(what)
    }
}

/// Runs something; a panic counts as a failure, too.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, Failure>) -> Result<T, String> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(result) => result.map_err(|Failure(what)| what),
        Err(payload) => {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("of another kind");
            Err(format!("panic: {text}"))
        }
    }
}
