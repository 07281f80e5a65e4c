//! Every layout, one node at a time: with histories that are compared with a model and cut at every fence, with damaged
//! words, and as readers see a node that changes under them.
//!
//! A node is less than a tree, so all layouts can be compiled for this.

use super::registry::NAMES;
use super::{
    Aggressive, Append, AsPrinted, CircularPrinted, Conservative, CowSip, Fingerprint, Fingerprinted,
    FingerprintedLeaves, Fixed, Logged, Scanned, Sentinel, SentinelLeaves, Versioned, VersionedInner, circ, crab,
};
use crate::crash::explore::next_path;
use crate::crash::pending::Pending;
use crate::error::Broken;
use crate::medium::any::{Any, holding};
use crate::medium::{Event, LINE, Medium, Model, Sim, Step};
use crate::memory::Zero;
use crate::node::layout::{Layout, NewNode, sound};
use crate::node::shadow::Shadow;
use crate::node::{
    BlockAt, ByteLeaf, Circular, Entry, Hints, KeyRange, Linear, Node, NodeAt, OneLine, Sizes, SizesOf, Space, WordNode,
};
use crate::pool::access::Access;
use crate::pool::segments::Segments;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

type Entries = BTreeMap<u64, u64>;

/// Where the node lies in the medium.
const AT: u64 = 4096;
const SIZE: u64 = 8192;
/// What it owns.
const OWNED: [u64; 2] = [10, 1000];

fn owned() -> KeyRange {
    KeyRange::new(OWNED[0], OWNED[1])
}

/// A node with its hints.
struct Of<N: WordNode>(Box<Shadow<Hints<N>>>);

/// The block of the node.
fn block(m: &Any) -> BlockAt<'_, Any> {
    /// No word of a node depends on segments.
    static NONE: LazyLock<Segments> = LazyLock::new(Segments::none);
    Access { m, segments: &NONE, tree: 0 }.block(AT)
}

impl<N: WordNode> Of<N> {
    fn node<'a>(&'a self, m: &'a Any) -> NodeAt<'a, N::Ops, Any> {
        block(m).node(&self.0.hints)
    }

    /// What the chain asks of a node before anything else.
    fn fits(m: &Any) -> Result<(), Broken> {
        let fits = SizesOf::<N>::bytes(block(m)) <= N::BYTES;
        fits.then_some(()).ok_or(Broken::new(AT, "N1: a node longer than its block"))
    }
}

/// A node of any layout: the tests are compiled once.
trait AnyNode {
    fn bytes(&self) -> u64;
    fn slots(&self) -> usize;
    fn fill(&self, m: &Any, entries: &[Entry]);
    fn recover(&mut self, m: &Any) -> Result<(), Broken>;
    fn check(&self, m: &Any) -> Result<Vec<Entry>, Broken>;
    fn len(&self) -> usize;
    fn get(&self, m: &Any, key: u64) -> Option<u64>;
    fn entries(&self, m: &Any, keys: (u64, u64)) -> Vec<Entry>;
    /// Sets a value, or removes the entry. False if there is no room for the change.
    fn put(&self, m: &Any, key: u64, value: Option<u64>) -> bool;
}

impl<N: WordNode> AnyNode for Of<N> {
    fn bytes(&self) -> u64 {
        N::BYTES
    }

    fn slots(&self) -> usize {
        N::SLOTS
    }

    fn fill(&self, m: &Any, entries: &[Entry]) {
        let lines = (N::BYTES / LINE) as u32;
        N::Ops::fill(self.node(m), NewNode { level: 0, low: OWNED[0], lines, next: 0, entries, zeroed: true });
        m.fence(Step::SplitFill);
    }

    fn recover(&mut self, m: &Any) -> Result<(), Broken> {
        *self.0 = Shadow::zero();
        Self::fits(m)?;
        N::Ops::recover(self.node(m), owned())
    }

    fn check(&self, m: &Any) -> Result<Vec<Entry>, Broken> {
        N::Ops::level(block(m))?;
        Self::fits(m)?;
        sound::<N::Ops>(block(m), owned()).map(|checked| checked.entries)
    }

    fn len(&self) -> usize {
        N::Ops::len(&self.0.hints)
    }

    fn get(&self, m: &Any, key: u64) -> Option<u64> {
        let place = N::Ops::lookup(self.node(m), key)?;
        Some(N::Ops::value(self.node(m), place))
    }

    fn entries(&self, m: &Any, keys: (u64, u64)) -> Vec<Entry> {
        let mut entries = Vec::new();
        let count = N::Ops::entries(self.node(m), keys, &mut entries);
        entries.truncate(count);
        entries
    }

    fn put(&self, m: &Any, key: u64, value: Option<u64>) -> bool {
        let node = self.node(m);
        let place = N::Ops::search(node, key);
        let takes = match (place, value) {
            (Err(_), None) => return true,
            (Err(_), Some(_)) => 1,
            (Ok(_), Some(_)) => <N::Space as Space<N::Ops>>::TAKES.update,
            (Ok(_), None) => <N::Space as Space<N::Ops>>::TAKES.remove,
        };
        if N::Space::taken(node.hints) + takes > SizesOf::<N>::slots(node.hints) {
            return false;
        }
        match (place, value) {
            (Err(place), Some(value)) => N::Ops::insert(node, place, (key, value)),
            (Ok(place), Some(value)) => N::Ops::update(node, place, value),
            (Ok(place), None) => N::Ops::remove(node, owned(), place),
            (Err(_), None) => unreachable!("there is nothing to remove"),
        }
        m.fence(Step::Insert);
        true
    }
}

fn of<N: WordNode>() -> Box<dyn AnyNode> {
    Box::new(Of::<N>(Box::new(Shadow::zero())))
}

type Make = fn() -> Box<dyn AnyNode>;

macro_rules! nodes {
    ($($type:ty),* $(,)?) => {
        /// Tag, name and maker of each layout.
        const NODES: &[(u16, &str, Make)] = &[$((<$type as Node>::LAYOUT, <$type as Node>::NAME, of::<$type>)),*];
    };
}

nodes![
    Linear<5>,
    Circular<4>,
    Circular<8>,
    OneLine<7>,
    Sentinel<Linear<8>>,
    Sentinel<Circular<8>>,
    Fingerprinted<Linear<4>>,
    Fingerprinted<Circular<4>>,
    Scanned<Linear<4>>,
    Scanned<Circular<4>>,
    SentinelLeaves<Linear<8>>,
    SentinelLeaves<Circular<8>>,
    FingerprintedLeaves<Linear<4>>,
    FingerprintedLeaves<Circular<4>>,
    CircularPrinted<4>,
    CircularPrinted<8>,
    CircularPrinted<8, { circ::COUNT }>,
    CircularPrinted<8, { circ::LINEAR }>,
    CircularPrinted<4, { circ::HALF }>,
    Logged<4>,
    Logged<4, true>,
    Fingerprint<4>,
    Fingerprint<4, true>,
    Versioned<4>,
    VersionedInner<4>,
    Versioned<4, VersionedInner<4>>,
    Append<3, Fixed>,
    Append<3, Conservative>,
    Append<3, Aggressive>,
    Append<3>,
    Append<3, AsPrinted>,
    Append<3, Fixed, Logged<4>>,
    Append<3, Fixed, Logged<4, true>>,
    CowSip<4>,
    CowSip<8>,
    CowSip<4, { crab::OWN_SPACE }>,
    CowSip<4, { crab::PROBE }>,
    CowSip<4, 3>,
    CowSip<4, { crab::PAIRS }>,
    CowSip<4, 5>,
    CowSip<4, 6>,
    CowSip<4, { crab::OPT }>,
    CowSip<4, { crab::COPY_ONLY }>,
    CowSip<8, { crab::PRINTED }>,
    CowSip<4, { crab::PAIRS | crab::CAS }>,
    CowSip<4, { crab::SHIFT_ONLY }>,
];

#[test]
fn no_layout_is_left_out() {
    for &(tag, name) in NAMES.iter().filter(|(tag, _)| *tag != ByteLeaf::<36>::LAYOUT) {
        assert!(NODES.iter().any(|&(of, ..)| of == tag), "{name}");
    }
}

/// One of the few keys of a small node, which are those at both ends, too.
fn key_of(random: &mut Random, slots: usize) -> u64 {
    match random.below(8) {
        0 => OWNED[0],
        1 => OWNED[1] - 1,
        _ => OWNED[0] + random.below(2 * slots as u64 + 2),
    }
}

fn change_of(random: &mut Random, slots: usize) -> (u64, Option<u64>) {
    (key_of(random, slots), (random.below(3) > 0).then(|| random.below(4)))
}

/// A node that a tree may have, in a simulated medium, and what it holds.
fn used(node: &mut dyn AnyNode, random: &mut Random) -> (Sim, Entries) {
    let sim = Sim::zeroed(SIZE);
    let m = sim.handle();
    let keys = random.below(node.slots() as u64 + 1);
    let mut model: Entries = (0..keys).map(|_| (key_of(random, node.slots()), random.below(4))).collect();
    node.fill(&m, &entries_of(&model));
    for _ in 0..random.below(3 * node.slots() as u64) {
        let (key, value) = change_of(random, node.slots());
        if node.put(&m, key, value) {
            apply(&mut model, key, value);
        }
    }
    (sim, model)
}

fn apply(model: &mut Entries, key: u64, value: Option<u64>) {
    match value {
        Some(value) => model.insert(key, value),
        None => model.remove(&key),
    };
}

/// Whether the node has what the model has, and is sound.
fn same(when: &str, node: &dyn AnyNode, m: &Any, model: &Entries) {
    reads_the_same(when, node, m, model);
    match node.check(m) {
        Ok(found) => assert!(found.iter().eq(entries_of(model).iter()), "{when}: checked, {found:?}"),
        Err(broken) => panic!("{when}: {broken:?}"),
    }
}

fn entries_of(model: &Entries) -> Vec<Entry> {
    model.iter().map(|(&key, &value)| (key, value)).collect()
}

/// Whether the node has what the model has, in every way to read it.
fn reads_the_same(when: &str, node: &dyn AnyNode, m: &Any, model: &Entries) {
    let all = entries_of(model);
    assert_eq!(node.entries(m, (0, u64::MAX)), all, "{when}");
    assert_eq!(node.len(), all.len(), "{when}");
    for key in (OWNED[0]..OWNED[0] + 2 * node.slots() as u64 + 3).chain([OWNED[1] - 1]) {
        assert_eq!(node.get(m, key), model.get(&key).copied(), "{when}: the value of {key}");
    }
    let part: Vec<Entry> = model.range(12..=15).map(|(&key, &value)| (key, value)).collect();
    assert_eq!(node.entries(m, (12, 15)), part, "{when}");
}

type Compare = fn(&str, &dyn AnyNode, &Any, &Entries);

/// Uses a node until everything in it has changed.
fn use_it(when: &str, node: &dyn AnyNode, m: &Any, mut model: Entries, random: &mut Random, same: Compare) {
    for _ in 0..2 * node.slots() {
        let (key, value) = change_of(random, node.slots());
        if node.put(m, key, value) {
            apply(&mut model, key, value);
        }
        same(when, node, m, &model);
    }
    for key in model.keys().copied().collect::<Vec<_>>() {
        if node.put(m, key, None) {
            apply(&mut model, key, None);
        }
    }
    same(when, node, m, &model);
}

/// Cuts what was traced at each fence and at its end, and recovers from every state. A recovery is cut `depth` times.
fn cut(
    (when, make): (&str, Make),
    mut pending: Pending,
    trace: &[Event],
    allowed: [&Entries; 2],
    depth: u32,
    random: &mut Random,
) {
    for i in 0..=trace.len() {
        let (event, after) = (trace.get(i), i == trace.len());
        if after || matches!(event, Some(Event::Fence(_))) {
            let options = pending.options(Model::Weak);
            let mut path = Vec::new();
            loop {
                let mut node = make();
                let sim = Sim::crashed(&pending.image, options.clone(), path, 0);
                let m = sim.handle();
                let when = format!("{when}, cut after {i} of {} events", trace.len());
                node.recover(&m).unwrap_or_else(|broken| panic!("{when}: {broken:?}"));
                let found: Entries = node.entries(&m, (0, u64::MAX)).into_iter().collect();
                let allowed = if after { &allowed[1..] } else { &allowed };
                assert!(allowed.contains(&&found), "{when}: {found:?}, allowed is {allowed:?}");
                let recovery = sim.trace();
                path = sim.path();
                sim.decide_rest(1);
                same(&when, &*node, &m, &found);
                use_it(&when, &*node, &m, found.clone(), random, same);
                if depth > 0 && recovery.iter().any(|event| matches!(event, Event::Store { .. } | Event::Pair { .. })) {
                    let mut again = pending.after_crash();
                    for choice in &path {
                        let (line, contents) = options.0.iter().find(|(line, _)| *line == choice.line).unwrap();
                        again.set(*line, contents[choice.taken]);
                    }
                    cut((&when, make), again, &recovery, [&found, &found], depth - 1, random);
                }
                if !next_path(&mut path) {
                    break;
                }
            }
        }
        event.into_iter().for_each(|event| pending.apply(event));
    }
}

#[test]
fn changes_of_one_node_that_are_cut() {
    for &(_, name, make) in NODES {
        for seed in 0..60 {
            let mut random = Random(seed);
            let mut node = make();
            let (sim, model) = used(&mut *node, &mut random);
            let m = sim.handle();
            same(name, &*node, &m, &model);
            let from = sim.now();
            let (key, value) = change_of(&mut random, node.slots());
            let mut changed = model.clone();
            if !node.put(&m, key, value) {
                continue;
            }
            apply(&mut changed, key, value);
            let when = format!("{name}, seed {seed}: {model:?}, then {key} = {value:?}");
            same(&when, &*node, &m, &changed);
            let trace = sim.trace();
            let mut pending = Pending::new(vec![0; SIZE as usize / 8]);
            trace[..from].iter().for_each(|event| pending.apply(event));
            cut((&when, make), pending, &trace[from..], [&model, &changed], 1, &mut random);
        }
    }
}

/// A word that may mean something to a node.
fn word(random: &mut Random, words: &[u64], at: usize) -> u64 {
    let other = words[random.below(words.len() as u64) as usize];
    match random.below(9) {
        0 => 0,
        1 => u64::MAX,
        2 => other,
        3 => words[at] ^ 1 << random.below(64),
        4 => other.wrapping_add(1),
        5 => other.wrapping_sub(1),
        6 => OWNED[0] + random.below(12),
        7 => random.below(40),
        _ => random.below(u64::MAX),
    }
}

/// Any bytes: a node with damaged words is refused, or is a node.
#[test]
fn damaged_words_of_one_node() {
    let mut wrong = Vec::new();
    for &(_, name, make) in NODES {
        let mut taken = 0;
        for seed in 0..1500 {
            let mut random = Random(seed);
            let mut node = make();
            let (sim, _) = used(&mut *node, &mut random);
            let mut words = sim.words();
            for _ in 0..1 + random.below(4) {
                let first = AT as usize / 8;
                // The first two words belong to the chain.
                let i = 2 + random.below(node.bytes() / 8 - 2) as usize;
                words[first + i] = word(&mut random, &words[first..], i);
            }
            let m = holding(words);
            let done = catch_unwind(AssertUnwindSafe(|| {
                let when = format!("{name}, seed {seed}");
                let checked = node.check(&m);
                if node.recover(&m).is_err() {
                    assert!(checked.is_err(), "{when}: refused, but not by a check");
                    return 0;
                }
                let found: Entries = node.entries(&m, (0, u64::MAX)).into_iter().collect();
                if let Ok(entries) = checked {
                    // An equal pair is one key.
                    let keys: BTreeSet<u64> = entries.iter().map(|entry| entry.0).collect();
                    assert!(keys.iter().eq(found.keys()), "{when}: a check saw {keys:?}, recovered is {found:?}");
                }
                // Only a check looks at what lies behind the entries.
                reads_the_same(&when, &*node, &m, &found);
                use_it(&when, &*node, &m, found, &mut random, reads_the_same);
                1
            }));
            match done {
                Ok(one) => taken += one,
                Err(_) => {
                    wrong.push((name, seed));
                    break;
                }
            }
        }
        assert!(taken > 0 || wrong.last().is_some_and(|(of, _)| *of == name), "{name}: every node is refused");
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// A version that cannot be followed by another one is refused; one that 32 bits do not hold is as good as any.
#[test]
fn versions_do_not_run_out() {
    for make in [of::<Versioned<4>>, of::<VersionedInner<4>>] {
        for (version, is_taken) in
            [(1 << 33, true), ((1 << 47) - 2, true), ((1 << 47) + 1, false), ((1 << 48) - 1, false)]
        {
            let mut node = make();
            let sim = Sim::zeroed(SIZE);
            let m = sim.handle();
            node.fill(&m, &[(11, 1), (12, 2)]);
            m.store(AT + 16, version << 16 | 2);
            assert_eq!(node.recover(&m).is_ok(), is_taken, "{version}");
            if is_taken {
                assert!(node.put(&m, 13, Some(3)) && node.put(&m, 11, None));
                same("after more changes", &*node, &m, &Entries::from([(12, 2), (13, 3)]));
            }
        }
    }
}

/// A reader may find words that do not belong to its hints: others, of a node that was changed or of another one in the
/// same block. What it finds is discarded, but it must find an end.
#[test]
fn torn_reads_of_one_node() {
    for &(_, name, make) in NODES {
        for seed in 0..1500 {
            let mut random = Random(seed);
            let (mut node, mut other) = (make(), make());
            let (sim, _) = used(&mut *node, &mut random);
            let (other, _) = used(&mut *other, &mut random);
            let (words, others) = (sim.words(), other.words());
            let mut torn: Vec<u64> =
                words.iter().zip(&others).map(|(a, b)| if random.below(2) == 0 { *a } else { *b }).collect();
            let first = AT as usize / 8;
            for _ in 0..random.below(6) {
                let i = random.below(node.bytes() / 8) as usize;
                torn[first + i] = word(&mut random, &words[first..], i);
            }
            let m = holding(torn);
            let read = catch_unwind(AssertUnwindSafe(|| {
                for key in [0, 9, 10, 11, 12, 15, 20, 999, 1000, u64::MAX] {
                    node.get(&m, key);
                    node.entries(&m, (key, key + (u64::MAX - key) / 2));
                }
                node.entries(&m, (0, u64::MAX));
            }));
            assert!(read.is_ok(), "{name}, seed {seed}");
        }
    }
}
