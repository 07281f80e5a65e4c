//! What must be found after a kill.

use super::work::{self, Content, Entries, Op, Series, record};
use super::{Args, Control, Look};
use crate::out::Outcome;
use bristlecone::Pool;
use bristlecone::medium::{Mapped, Mapping};
use bristlecone::stat::EventKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::channel;

/// For one thread: the content after its acknowledged changes, and the content after the change in flight, too.
struct Expected {
    sure: Content,
    perhaps: Content,
}

/// What was found wrong.
#[derive(Debug, Clone, Default)]
pub(super) struct Wrong {
    /// Acknowledged changes that are missing.
    pub(super) lost: u64,
    /// Content that no change has made.
    pub(super) invented: u64,
    /// Broken invariants, and operations that failed.
    pub(super) problems: Vec<String>,
    /// A fault was planted, to see that it is found.
    pub(super) planted: bool,
    /// How many trees were opened by images.
    pub(super) by_image: u64,
}

impl Wrong {
    pub(super) fn is_nothing(&self) -> bool {
        self.lost == 0 && self.invented == 0 && self.problems.is_empty()
    }

    pub(super) fn add(&mut self, other: Self) {
        self.lost += other.lost;
        self.invented += other.invented;
        self.problems.extend(other.problems);
    }

    /// Compares the value of a key with the two values that it may have.
    fn compare<V: PartialEq>(&mut self, found: Option<V>, sure: Option<V>, perhaps: Option<V>) {
        if found != sure && found != perhaps {
            if sure.is_none() && perhaps.is_none() {
                self.invented += 1;
            } else {
                self.lost += 1;
            }
        }
    }
}

/// Opens the pool that a kill left, and compares it with what each thread had before this life of the process and has
/// acknowledged since. Returns the content that was found.
pub(super) fn left(
    args: &Args,
    (pool, look): (&Path, Look),
    before: &[Content],
    (life, acknowledged): (u64, &[u64]),
) -> Outcome<(Vec<Content>, Wrong)> {
    let threads = args.threads;
    let expected: Vec<Expected> = before
        .iter()
        .zip(acknowledged)
        .zip(0..)
        .map(|((before, &count), thread)| {
            let mut series = Series::new(args.seed(), life, thread, threads);
            let mut sure = before.clone();
            series.by_ref().take(count as usize).for_each(|op| op.apply(&mut sure));
            let mut perhaps = sure.clone();
            series.next().iter().for_each(|op| op.apply(&mut perhaps));
            Expected { sure, perhaps }
        })
        .collect();
    let mut wrong = Wrong::default();
    let nothing = before.iter().all(|content| *content == Content::default()) && acknowledged.iter().all(|&n| n == 0);
    if !nothing {
        // The pool as the kill left it, before anything repairs it.
        let checked =
            Pool::options().recovery(look.recovery()).read_only(true).open(pool).and_then(|pool| pool.check());
        match checked {
            Ok(report) => wrong.problems.extend(report.violations.iter().map(ToString::to_string)),
            Err(error) => wrong.problems.push(error.to_string()),
        }
    }
    let (told, events) = channel();
    let opened = match look {
        Look::Apart => {
            drop(told);
            Pool::options().open_on(Mapped::open(pool, Mapping::Copy)?)?
        }
        _ => {
            let options = args.options().recovery(look.recovery());
            options.on_event(move |event| _ = told.send(event.kind.clone())).open(pool)?
        }
    };
    let trees = work::open(&opened, args.shape(), threads as usize)?;
    if args.control == Some(Control::Missing) {
        let sure = |of: &Expected| {
            let is_sure = |(key, value): &(&u64, &u64)| of.perhaps.numbers.get(key) == Some(value);
            of.sure.numbers.iter().find(is_sure).map(|(&key, _)| key)
        };
        if let Some(key) = expected.iter().find_map(sure) {
            trees.perform(0, &Op::Remove(key))?;
            wrong.planted = true;
        }
    }
    let (numbers, records, [words, texts]) = (trees.numbers(), trees.records()?, trees.both()?);
    if words != texts {
        wrong.problems.push("two trees that are changed together differ".to_owned());
    }
    let mut found = Vec::new();
    let (mut known_numbers, mut known_records, mut known_both) = (0, 0, 0);
    for (thread, Expected { sure, perhaps }) in expected.iter().enumerate() {
        let mut content = Content { own: trees.own(thread)?, ..Content::default() };
        for key in keys(&sure.numbers, &perhaps.numbers) {
            let value = numbers.get(key).copied();
            wrong.compare(value, sure.numbers.get(key).copied(), perhaps.numbers.get(key).copied());
            content.numbers.extend(value.map(|value| (*key, value)));
        }
        for key in keys(&sure.records, &perhaps.records) {
            let (one, other) = (sure.records.get(key), perhaps.records.get(key));
            let bytes = |value: Option<&u64>| value.map(|&value| record(value));
            wrong.compare(records.get(key).cloned(), bytes(one), bytes(other));
            let value =
                [one, other].into_iter().flatten().find(|value| records.get(key) == bytes(Some(value)).as_ref());
            content.records.extend(value.map(|value| (*key, *value)));
        }
        // A transaction is there completely, or not at all.
        let own_keys = keys(&sure.both, &perhaps.both);
        content.both = own_keys.filter_map(|key| words.get_key_value(key)).map(|(&key, &value)| (key, value)).collect();
        if content.both != sure.both && content.both != perhaps.both {
            wrong.lost += 1;
        }
        known_both += content.both.len();
        known_numbers += content.numbers.len();
        known_records += content.records.len();
        // Changes of a tree as a whole are there completely, or not at all.
        if content.own != sure.own && content.own != perhaps.own {
            let is_new =
                |(key, value): (&u64, &u64)| sure.own.get(key) != Some(value) && perhaps.own.get(key) != Some(value);
            let invented = content.own.iter().filter(|&entry| is_new(entry)).count() as u64;
            wrong.invented += invented;
            wrong.lost += u64::from(invented == 0);
        }
        let is_like = |of: &Content| (&content.both, &content.own) == (&of.both, &of.own);
        if wrong.is_nothing() && !is_like(sure) && !is_like(perhaps) {
            wrong.problems.push("a name and an entry that change together do not fit together".to_owned());
        }
        found.push(content);
    }
    wrong.invented += (numbers.len() - known_numbers) as u64;
    wrong.invented += records.len().saturating_sub(known_records) as u64;
    wrong.invented += (words.len() - known_both) as u64;
    wrong.problems.extend(trees.broken());
    drop(trees);
    opened.close()?;
    // The last event ends them.
    let is_by_image = |event: &EventKind| matches!(event, EventKind::TreeRecovered { by_image: true, .. });
    wrong.by_image = events.iter().filter(is_by_image).count() as u64;
    Ok((found, wrong))
}

fn keys<'e>(one: &'e Entries, other: &'e Entries) -> impl Iterator<Item = &'e u64> {
    let mut keys: BTreeMap<&u64, ()> = one.keys().map(|key| (key, ())).collect();
    keys.extend(other.keys().map(|key| (key, ())));
    keys.into_keys()
}

/// Gives the trees the content with every key, and returns how many bytes of the pool are then in use.
pub(super) fn filled(args: &Args, pool: &Path) -> Outcome<(Vec<Content>, u64)> {
    let opened = args.options().open(pool)?;
    let trees = work::open(&opened, args.shape(), args.threads as usize)?;
    let mut contents = Vec::new();
    for thread in 0..args.threads {
        let mut content = Content::default();
        let key = |n| work::key(n, thread, args.threads);
        let shared = (0..work::KEYS).flat_map(|n| [Op::Insert(key(n), n), Op::Put(key(n), n)]);
        let both = Op::Both((0..work::KEYS).map(|n| (key(n), Some(n))).collect());
        for op in shared.chain([both, Op::OwnClear, Op::OwnLoad(100)]) {
            trees.perform(thread as usize, &op)?;
            op.apply(&mut content);
        }
        contents.push(content);
    }
    drop(trees);
    opened.close()?;
    let stat = Pool::options().read_only(true).open(pool)?.stat();
    Ok((contents, stat.used))
}
