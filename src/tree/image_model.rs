//! A model of images (`docs/images.md`): random histories of a chain of leaves, an image that is made meanwhile, a
//! crash, and what an open makes of the image and the log. Nothing here is the crate's: the model came before the code.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};

const BLOCKS: usize = 12;
const RECORDS: usize = 20;
const KEYS: usize = 14;
/// Between two steps, the image usually goes on a little; now and then, it gets done.
const ALL_OF_IT: u64 = 60;

/// A rule of the design that a control leaves out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// An image begins where no operation is under way (IM1).
    QuietBegin,
    /// It begins only while the index knows all leaves (IM1).
    KnowsAll,
    /// It counts from a moment on when none is under way any more (IM3).
    QuietEnd,
    /// What changed is taken from its beginning on, not from its end (IM5).
    FromBegin,
    /// What is named since then is in use (IM6).
    References,
    /// A tree whose head is another one is walked (IM7).
    SameHead,
    /// It does not count if a leaf that stays was withdrawn from the index meanwhile (IM13).
    Sure,
}

#[derive(Debug, Clone, Default)]
struct Leaf {
    low: usize,
    next: Option<usize>,
    /// Keys and their records.
    entries: BTreeMap<usize, usize>,
}

/// What an entry of the log says.
#[derive(Debug, Clone)]
enum Step {
    Laid(usize, Leaf),
    Next(usize, Option<usize>),
    Entry(usize, usize, Option<usize>),
    Head(usize),
}

#[derive(Clone)]
struct Disk {
    blocks: Vec<Leaf>,
    head: usize,
}

impl Disk {
    fn new() -> Self {
        Self { blocks: vec![Leaf::default(); BLOCKS], head: 0 }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Laid(block, leaf) => self.blocks[*block] = leaf.clone(),
            Step::Next(block, next) => self.blocks[*block].next = *next,
            Step::Entry(block, key, Some(record)) => _ = self.blocks[*block].entries.insert(*key, *record),
            Step::Entry(block, key, None) => _ = self.blocks[*block].entries.remove(key),
            Step::Head(block) => self.head = *block,
        }
    }

    /// The leaves, from left to right: their lows, and where they are.
    fn chain(&self) -> BTreeMap<usize, usize> {
        let next = |block: &usize| self.blocks[*block].next;
        std::iter::successors(Some(self.head), next).map(|block| (self.blocks[block].low, block)).collect()
    }
}

/// What is known of blocks, of leaves and of records.
#[derive(Debug, Clone, Default)]
struct InUse {
    leaves: BTreeSet<usize>,
    records: BTreeSet<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Block {
    Leaf(usize),
    Record(usize),
}

impl InUse {
    fn remove(&mut self, block: Block) {
        match block {
            Block::Leaf(number) => self.leaves.remove(&number),
            Block::Record(number) => self.records.remove(&number),
        };
    }
}

#[derive(Debug, Clone, Default)]
struct Image {
    begin: usize,
    end: usize,
    /// Lows and leaves, in the order in which they were read.
    index: Vec<(usize, usize)>,
    in_use: InUse,
}

/// An image that is being made.
#[derive(Default)]
struct Making {
    image: Image,
    /// The least low that was not read yet; all were, if there is none.
    cursor: Option<usize>,
    /// How many blocks of each kind were read.
    read: usize,
    retired: Option<Vec<Block>>,
}

struct World {
    random: Random,
    left_out: Option<Rule>,
    disk: Disk,
    log: Vec<Step>,
    index: BTreeMap<usize, usize>,
    in_use: InUse,
    /// What left the tree, and may still be read.
    retired: Vec<Block>,
    /// Leaves that the index does not know yet.
    unposted: Vec<(usize, usize)>,
    is_wanted: bool,
    making: Option<Making>,
    made: Option<Image>,
    image: Option<Image>,
}

impl World {
    fn new(seed: u64, left_out: Option<Rule>) -> Self {
        let in_use = InUse { leaves: BTreeSet::from([0]), ..InUse::default() };
        Self {
            random: Random(seed),
            left_out,
            disk: Disk::new(),
            log: Vec::new(),
            index: BTreeMap::from([(0, 0)]),
            in_use,
            retired: Vec::new(),
            unposted: Vec::new(),
            is_wanted: false,
            making: None,
            made: None,
            image: None,
        }
    }

    fn leaves_out(&self, rule: Rule) -> bool {
        self.left_out == Some(rule)
    }

    fn begin(&mut self) {
        self.is_wanted = false;
        let image = Image { begin: self.log.len(), ..Image::default() };
        self.making = Some(Making { image, cursor: Some(0), ..Making::default() });
    }

    /// Another thread comes in, within an operation.
    fn meanwhile(&mut self) {
        if self.leaves_out(Rule::QuietBegin) && self.is_wanted && self.random.one_in(2) {
            self.begin();
        }
        let parts = if self.random.one_in(12) { ALL_OF_IT } else { self.random.below(3) };
        (0..parts).for_each(|_| self.make_a_part());
    }

    fn make_a_part(&mut self) {
        let (part, most) = (self.random.below(3), 1 + self.random.below(6) as usize);
        let Some(making) = self.making.as_mut() else { return };
        match (part, making.cursor) {
            (0, Some(low)) => {
                let read: Vec<_> = self.index.range(low..).take(most.min(3)).map(|(&low, &at)| (low, at)).collect();
                making.cursor = read.last().filter(|_| read.len() == most.min(3)).map(|&(low, _)| low + 1);
                making.image.index.extend(read);
            }
            (1, _) => {
                for number in making.read..(making.read + most).min(BLOCKS.max(RECORDS)) {
                    let seen = &mut making.image.in_use;
                    seen.leaves.extend(self.in_use.leaves.get(&number));
                    seen.records.extend(self.in_use.records.get(&number));
                    making.read += 1;
                }
            }
            _ if making.retired.is_none() => making.retired = Some(self.retired.clone()),
            _ => {}
        }
        if let Some(making) = self
            .making
            .take_if(|making| making.cursor.is_none() && making.read == BLOCKS.max(RECORDS) && making.retired.is_some())
        {
            let mut image = Image { end: self.log.len(), ..making.image };
            making.retired.into_iter().flatten().for_each(|block| image.in_use.remove(block));
            if self.leaves_out(Rule::QuietEnd) { self.image = Some(image) } else { self.made = Some(image) }
        }
    }

    fn log(&mut self, step: Step) {
        self.meanwhile();
        self.disk.apply(&step);
        self.log.push(step);
        self.meanwhile();
    }

    fn retire(&mut self, block: Block) {
        self.meanwhile();
        self.retired.push(block);
        self.meanwhile();
    }

    /// Takes any one of the free ones.
    fn take(random: &mut Random, used: &mut BTreeSet<usize>, all: usize) -> Option<usize> {
        let free: Vec<usize> = (0..all).filter(|number| !used.contains(number)).collect();
        let taken = *free.get(random.below(free.len() as u64) as usize)?;
        used.insert(taken);
        Some(taken)
    }

    fn take_leaf(&mut self) -> Option<usize> {
        let taken = Self::take(&mut self.random, &mut self.in_use.leaves, BLOCKS);
        self.meanwhile();
        taken
    }

    fn take_record(&mut self) -> Option<usize> {
        let taken = Self::take(&mut self.random, &mut self.in_use.records, RECORDS);
        self.meanwhile();
        taken
    }

    fn leaf(&self, key: usize) -> usize {
        let mut at = *self.index.range(..=key).next_back().expect("the first leaf").1;
        while let Some(next) = self.disk.blocks[at].next.filter(|&next| self.disk.blocks[next].low <= key) {
            at = next;
        }
        at
    }

    fn is_posted(&self, leaf: usize) -> bool {
        !self.unposted.iter().any(|&(_, unposted)| unposted == leaf)
    }

    fn operation(&mut self) {
        if self.is_wanted
            && !self.leaves_out(Rule::QuietBegin)
            && (self.unposted.is_empty() || self.leaves_out(Rule::KnowsAll))
        {
            self.begin();
        }
        if let Some(made) = self.made.take() {
            self.image = Some(Image { end: self.log.len(), ..made });
        }
        let key = self.random.below(KEYS as u64) as usize;
        let at = self.leaf(key);
        match self.random.below(12) {
            0..5 => self.insert(at, key),
            5 => {
                if let Some(&record) = self.disk.blocks[at].entries.get(&key) {
                    self.log(Step::Entry(at, key, None));
                    self.retire(Block::Record(record));
                }
            }
            6 | 7 if self.disk.blocks[at].low < key => self.split(at, key),
            8 => self.merge(at),
            9 if self.is_posted(at) => self.relocate(at),
            10 => self.free(),
            11 if !self.unposted.is_empty() => {
                let (low, leaf) = self.unposted.swap_remove(0);
                self.index.insert(low, leaf);
            }
            _ => {}
        }
    }

    fn insert(&mut self, at: usize, key: usize) {
        let Some(record) = self.take_record() else { return };
        let before = self.disk.blocks[at].entries.get(&key).copied();
        self.log(Step::Entry(at, key, Some(record)));
        before.into_iter().for_each(|record| self.retire(Block::Record(record)));
    }

    fn split(&mut self, at: usize, low: usize) {
        let Some(new) = self.take_leaf() else { return };
        let leaf = self.disk.blocks[at].clone();
        let entries: BTreeMap<usize, usize> = leaf.entries.range(low..).map(|(&key, &record)| (key, record)).collect();
        let moved: Vec<usize> = entries.keys().copied().collect();
        self.log(Step::Laid(new, Leaf { low, next: leaf.next, entries }));
        self.log(Step::Next(at, Some(new)));
        if self.random.one_in(3) {
            self.unposted.push((low, new));
        } else {
            self.index.insert(low, new);
        }
        moved.into_iter().for_each(|key| self.log(Step::Entry(at, key, None)));
    }

    /// The right neighbour goes.
    fn merge(&mut self, at: usize) {
        let Some(right) = self.disk.blocks[at].next.filter(|&right| self.is_posted(right)) else { return };
        let Leaf { low, next, entries } = self.disk.blocks[right].clone();
        if self.random.one_in(6) {
            // There is no room for what it takes: the leaf stays, and is posted again.
            self.index.remove(&low);
            self.meanwhile();
            self.index.insert(low, right);
            if !self.leaves_out(Rule::Sure) {
                (self.making, self.made) = (None, None);
                // The next one.
                self.is_wanted |= self.image.is_none();
            }
            return;
        }
        entries.into_iter().for_each(|(key, record)| self.log(Step::Entry(at, key, Some(record))));
        let is_first = self.random.one_in(2);
        for part in [is_first, !is_first] {
            if part {
                self.index.remove(&low);
            } else {
                self.log(Step::Next(at, next));
            }
        }
        self.retire(Block::Leaf(right));
    }

    fn relocate(&mut self, at: usize) {
        let Some(new) = self.take_leaf() else { return };
        let leaf = self.disk.blocks[at].clone();
        let low = leaf.low;
        self.log(Step::Laid(new, leaf));
        match low.checked_sub(1).map(|before| self.leaf(before)) {
            Some(left) => self.log(Step::Next(left, Some(new))),
            None => self.log(Step::Head(new)),
        }
        self.index.insert(low, new);
        self.retire(Block::Leaf(at));
    }

    fn free(&mut self) {
        for _ in 0..self.random.below(4).min(self.retired.len() as u64) {
            let any = self.random.below(self.retired.len() as u64) as usize;
            let block = self.retired.swap_remove(any);
            self.meanwhile();
            self.in_use.remove(block);
            self.meanwhile();
        }
    }
}

/// What an open makes of an image and the log; `None`: the tree must be walked.
fn open(disk: &Disk, image: &Image, log: &[Step], left_out: Option<Rule>) -> Option<(BTreeMap<usize, usize>, InUse)> {
    let since = if left_out == Some(Rule::FromBegin) { image.end } else { image.begin };
    let (mut changed, mut in_use) = (BTreeSet::new(), image.in_use.clone());
    for step in &log[since..] {
        match step {
            Step::Laid(block, _) | Step::Next(block, _) => _ = changed.insert(*block),
            Step::Entry(_, _, Some(record)) if left_out != Some(Rule::References) => _ = in_use.records.insert(*record),
            Step::Entry(..) => {}
            Step::Head(_) if left_out == Some(Rule::SameHead) => {}
            Step::Head(_) => return None,
        }
    }
    let mut index = BTreeMap::new();
    let mut rest = image.index.iter().copied();
    let mut before = None;
    while let Some((low, leaf)) = rest.next() {
        if !changed.contains(&leaf) {
            index.insert(low, leaf);
            before = Some(leaf);
            continue;
        }
        // From the leaf before it, which is in the chain, to the next one that has not changed.
        let mut next = before.map_or(Some(disk.head), |before| disk.blocks[before].next);
        let mut passed = 0;
        while let Some(leaf) = next.filter(|leaf| changed.contains(leaf)) {
            passed += 1;
            if passed > BLOCKS {
                return None;
            }
            index.insert(disk.blocks[leaf].low, leaf);
            in_use.leaves.insert(leaf);
            next = disk.blocks[leaf].next;
        }
        // What the image has in between has left the chain.
        match next {
            Some(end) => {
                let (low, leaf) = rest.by_ref().find(|&(_, leaf)| leaf == end)?;
                index.insert(low, leaf);
                before = Some(leaf);
            }
            None => break,
        }
    }
    Some((index, in_use))
}

/// Whether the tree was opened by its image; the error says what is wrong then.
fn history(seed: u64, left_out: Option<Rule>) -> Result<bool, String> {
    let mut world = World::new(seed, left_out);
    (0..10 + world.random.below(30)).for_each(|_| world.operation());
    world.is_wanted = true;
    let mut left = 5 + world.random.below(60);
    while left > 0 || world.image.is_none() {
        world.operation();
        left = left.saturating_sub(1);
    }
    let image = world.image.take().expect("it was waited for");
    let rest = (world.log.len() - image.end) as u64;
    let end = image.end + if world.random.one_in(2) { 0 } else { world.random.below(rest + 1) as usize };
    let mut disk = Disk::new();
    world.log[..end].iter().for_each(|step| disk.apply(step));

    let Some((index, in_use)) = open(&disk, &image, &world.log[..end], left_out) else { return Ok(false) };
    let chain = disk.chain();
    if index != chain {
        return Err(format!("the index has {index:?}, and the chain is {chain:?}"));
    }
    if let Some(leaf) = chain.values().find(|leaf| !in_use.leaves.contains(leaf)) {
        return Err(format!("leaf {leaf} counts as free"));
    }
    for (&low, &leaf) in &chain {
        let behind = disk.blocks[leaf].next.map_or(KEYS, |next| disk.blocks[next].low);
        let mut records = disk.blocks[leaf].entries.range(low..behind).map(|(_, record)| record);
        if let Some(record) = records.find(|record| !in_use.records.contains(record)) {
            return Err(format!("record {record} counts as free"));
        }
    }
    Ok(true)
}

#[test]
fn image_and_log_make_the_index_and_what_is_in_use() {
    let opened = (0..20_000).filter(|&seed| history(seed, None).unwrap_or_else(|wrong| panic!("{seed}: {wrong}")));
    // Where the head is another one, the tree is walked.
    assert!(opened.count() > 15_000);
}

#[test]
fn each_rule_of_images_is_needed() {
    use Rule::{FromBegin, KnowsAll, QuietBegin, QuietEnd, References, SameHead, Sure};
    for rule in [QuietBegin, KnowsAll, QuietEnd, FromBegin, References, SameHead, Sure] {
        let found = (0..100_000).find(|&seed| history(seed, Some(rule)).is_err());
        assert!(found.is_some(), "without {rule:?}, nothing goes wrong");
    }
}
