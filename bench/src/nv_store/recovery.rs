//! Opening a store: what a crash left becomes what was committed.

use super::block::{self, Header, Low};
use super::clock::{Clock, SLOTS};
use super::element::{Element, Stamp, hash, record_bytes};
use super::flat::Index;
use super::leaves::{Id, Leaf, Leaves, View};
use super::live::Live;
use super::renewal::HEAD;
use super::{NvStore, Options};
use crate::arena::Arena;
use crate::out::Outcome;
use bristlecone::medium::{LINE, Medium, Step};
use std::collections::{HashMap, HashSet};
use std::error::Error;

/// The root words.
const ROOT_MAGIC: u64 = 0;
const ROOT_HEAD: u64 = HEAD / 8;
const ROOT_SLOTS: u64 = 2;

const MAGIC: u64 = u64::from_le_bytes(*b"nv-store");
const SLOT_BYTES: u64 = SLOTS as u64 * LINE;

impl<M: Medium> NvStore<M> {
    /// Opens the store on a medium, or creates it on one whose first line is zeros.
    ///
    /// # Errors
    ///
    /// If something else is on the medium, if it is damaged, or if it is too small.
    pub(crate) fn open(medium: M, options: Options) -> Outcome<Self> {
        let arena = Arena::new(medium);
        match arena.root(ROOT_MAGIC) {
            0 => create(&arena, options)?,
            MAGIC => {}
            _ => return Err(format!("{}: not a store", arena.medium().facts().name).into()),
        }
        let slots = arena.root(ROOT_SLOTS);
        if !arena.holds(slots, SLOT_BYTES) {
            return Err(damaged(&arena, ROOT_SLOTS * 8, "slots"));
        }
        let mut found = Found::new(&arena, slots);
        if found.now > Stamp::LIKELY {
            return Err(damaged(&arena, slots, "the time in a slot"));
        }
        found.chain()?;
        arena.recover(found.used.iter().copied())?;
        found.settle();
        let (leaves, now) = (found.leaves, found.now);
        let index = Index::new(&leaves, options.keys);
        Ok(Self { arena, leaves, index, clock: Clock::new(now), live: Live::new(), slots, options })
    }
}

/// Slots without times, and one empty leaf.
fn create<M: Medium>(arena: &Arena<M>, options: Options) -> Outcome<()> {
    let slots = arena.take(SLOT_BYTES)?;
    arena.write(slots, &[&[0; SLOT_BYTES as usize]], Step::RootFill);
    let leaf = arena.take(block::bytes(options.capacity))?;
    let header = Header { next: 0, capacity: options.capacity, low: Low::default() };
    block::fill(arena.medium(), leaf, header, &[]);
    arena.medium().fence(Step::RootFill);
    arena.set_root(ROOT_HEAD, leaf, Step::RootFill);
    arena.set_root(ROOT_SLOTS, slots, Step::RootFill);
    arena.set_root(ROOT_MAGIC, MAGIC, Step::RootCreate);
    Ok(())
}

#[cold]
fn damaged<M: Medium>(arena: &Arena<M>, at: u64, what: &str) -> Box<dyn Error> {
    format!("{}: damaged at {at}: {what}", arena.medium().facts().name).into()
}

/// What a walk along the chain has found.
struct Found<'a, M: Medium> {
    arena: &'a Arena<M>,
    slots: u64,
    /// The times of transactions that a crash has cut.
    cut: HashSet<u64>,
    /// Where a count has become less.
    shortened: Vec<View>,
    leaves: Leaves,
    last: Option<Id>,
    /// Blocks: offsets and bytes.
    used: Vec<(u64, u64)>,
    /// The bytes of all low keys.
    lows: u64,
    /// The latest time.
    now: u64,
}

impl<'a, M: Medium> Found<'a, M> {
    fn new(arena: &'a Arena<M>, slots: u64) -> Self {
        let times = (0..SLOTS as u64).map(|slot| arena.medium().load(slots + slot * LINE));
        let cut: HashSet<u64> = times.filter(|&time| time != 0).collect();
        let now = cut.iter().copied().max().unwrap_or(0);
        let used = vec![(slots, SLOT_BYTES)];
        Self { arena, slots, cut, shortened: Vec::new(), leaves: Leaves::new(), last: None, used, lows: 0, now }
    }

    /// Finds all leaves. Low keys ascend, so there is an end.
    fn chain(&mut self) -> Outcome<()> {
        let mut at = self.arena.root(ROOT_HEAD);
        while at != 0 || self.last.is_none() {
            at = self.leaf(at)?;
        }
        let chain: Vec<Id> = self.leaves.chain().collect();
        chain.into_iter().try_for_each(|id| self.elements(self.leaves.get(id).view(), id))
    }

    /// Checks the header of a leaf, takes it in, and returns where the next one is.
    fn leaf(&mut self, at: u64) -> Outcome<u64> {
        let damaged = |what| Err(damaged(self.arena, at, what));
        if !self.arena.holds(at, LINE) {
            return damaged("no leaf can be here");
        }
        let Header { next, capacity, low } = Header::read(self.arena.medium(), at);
        let count = self.arena.medium().load(at + block::COUNT);
        if capacity > View::MOST || count > capacity as u64 || !self.arena.holds(at, block::bytes(capacity)) {
            return damaged("a leaf of this size");
        }
        // They do not overlap, so there are not more than the medium has. Each is copied before that is checked.
        self.lows = self.lows.saturating_add(low.len);
        if self.lows > self.arena.medium().accessible() {
            return damaged("low keys of this size");
        }
        let key = match (self.last, low.len) {
            (None, 0) => Vec::new(),
            (Some(_), 1..) if self.arena.holds(low.at, record_bytes(low.len, 0)) => {
                self.used.push((low.at, record_bytes(low.len, 0)));
                self.arena.with(low.at, low.len as usize, <[u8]>::to_vec)
            }
            _ => return damaged("the low key of a leaf"),
        };
        if self.last.is_some_and(|last| self.leaves.get(last).low().bytes >= key.as_slice()) {
            return damaged("low keys that do not ascend");
        }
        self.used.push((at, block::bytes(capacity)));
        let view = self.shorten(View { at, count: count as usize });
        let id = self.leaves.push(Leaf::new(key.into(), view, capacity));
        if let Some(last) = self.last.replace(id) {
            self.leaves.get(last).set_next(Some(id));
        }
        Ok(next)
    }

    /// Cuts off the elements of transactions that a crash has cut: they are the last ones.
    fn shorten(&mut self, view: View) -> View {
        let of_cut = |&i: &usize| {
            let stamp = block::element(self.arena.medium(), view.at, i).stamp;
            stamp.slot != 0 && self.cut.contains(&stamp.time)
        };
        let cut = (0..view.count).rev().take_while(of_cut).count();
        let short = View { count: view.count - cut, ..view };
        self.shortened.extend(Some(short).filter(|_| cut > 0));
        short
    }

    /// Checks the elements of a leaf, and takes in what they tell.
    fn elements(&mut self, View { at, count }: View, id: Id) -> Outcome<()> {
        // The last element of each key, and the last one that owns a record.
        let mut last: HashMap<Vec<u8>, (Element, u64)> = HashMap::new();
        for i in 0..count {
            let element = block::element(self.arena.medium(), at, i);
            let key = self.key(element).filter(|key| self.is_of(id, key));
            let Some(key) = key else { return Err(damaged(self.arena, at, "the key of an element")) };
            let before = last.get(&key);
            let Element { record, stamp, .. } = element;
            let is_later = stamp.time > before.map_or(0, |(before, _)| before.stamp.time);
            let owner = if stamp.removed { before.map_or(0, |&(_, owner)| owner) } else { record };
            if !is_later || stamp.time > Stamp::LIKELY || owner != record || stamp.slot > SLOTS {
                return Err(damaged(self.arena, at, "an element out of order"));
            }
            if !stamp.removed {
                self.used.push((record, element.record_bytes()));
            }
            self.now = self.now.max(stamp.time);
            last.insert(key, (element, owner));
        }
        Ok(())
    }

    /// The key of an element, if it can have one.
    fn key(&self, element: Element) -> Option<Vec<u8>> {
        let holds = self.arena.holds(element.record, element.record_bytes());
        let key = holds.then(|| self.arena.with(element.record, element.key_len as usize, <[u8]>::to_vec))?;
        Some(key).filter(|key| hash(key) == element.hash)
    }

    /// Whether a leaf owns a key.
    fn is_of(&self, id: Id, key: &[u8]) -> bool {
        let leaf = self.leaves.get(id);
        leaf.low().bytes <= key && leaf.next().is_none_or(|next| key < self.leaves.get(next).low().bytes)
    }

    /// Makes durable what was found, without what was cut off, and then clears the slots.
    fn settle(&self) {
        let medium = self.arena.medium();
        if medium.facts().leaves_unflushed {
            // What a killed process has stored is built upon.
            let all = self.used.iter().copied().chain([(0, LINE)]);
            all.for_each(|(at, bytes)| medium.flush(at, bytes, Step::TakeOver));
            medium.fence(Step::TakeOver);
        }
        if self.cut.is_empty() {
            return;
        }
        for view in &self.shortened {
            block::count(medium, view.at, view.count, Step::LogUndo);
        }
        medium.fence(Step::LogUndo);
        self.arena.write(self.slots, &[&[0; SLOT_BYTES as usize]], Step::LogForget);
        medium.fence(Step::LogForget);
    }
}
