//! A model of the opening of a snapshot on a processor with store buffers (x86-TSO), in every interleaving: a writer
//! that takes its lock by a plain store, the thread that opens the snapshot, and a transaction that sees the one or the
//! other.
//!
//! loom cannot tell here: in a model of its own, a light fence is a full one, which only the two threads of an
//! asymmetric pair cannot tell from the real one. A third thread can.

use std::collections::HashSet;

/// Words of memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Word {
    Newest,
    Lock(Leaf),
    Value(Leaf),
    Stamp(Leaf),
    Frozen(Leaf),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Leaf {
    A,
    B,
}
use Leaf::{A, B};
use Word::{Frozen, Lock, Newest, Stamp, Value};

impl Word {
    fn number(self) -> usize {
        match self {
            Newest => 0,
            Lock(leaf) => 1 + leaf as usize,
            Value(leaf) => 3 + leaf as usize,
            Stamp(leaf) => 5 + leaf as usize,
            Frozen(leaf) => 7 + leaf as usize,
        }
    }
}

/// The values of a lock: never written to, locked, and unlocked under a new version.
const OLD: u8 = 0;
const LOCKED: u8 = 1;
const NEW: u8 = 2;
/// The mark of an instant that is being opened. The only instant is 1.
const OPENING: u8 = 2;

/// A step of a thread. Registers are numbered.
#[derive(Clone, Copy)]
enum Step {
    Load(usize, Word),
    /// As `Load`, but not before the lock is free.
    Await(usize, Word),
    /// Into the store buffer.
    Store(Word, u8),
    /// Into memory, once the store buffer is empty: a locked instruction.
    Swap(Word, u8),
    /// Waits until the store buffer is empty.
    Fence,
    /// Empties the store buffers of all threads.
    Heavy,
    Clear(usize, u8),
    /// Leaves out so many steps if the register has none of these bits, or if it has one of them.
    Unless(usize, u8, usize),
    If(usize, u8, usize),
}
use Step::{Await, Clear, Fence, Heavy, If, Load, Store, Swap, Unless};

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Thread {
    at: usize,
    registers: [u8; 10],
    buffer: Vec<(Word, u8)>,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct State {
    memory: [u8; 9],
    threads: [Thread; 3],
}

impl State {
    fn drain(&mut self, thread: usize) {
        let (word, value) = self.threads[thread].buffer.remove(0);
        self.memory[word.number()] = value;
    }

    /// The state after the next step of a thread; `None` if it cannot be taken yet.
    fn step(&self, number: usize, step: Step) -> Option<Self> {
        let mut next = self.clone();
        let thread = &mut next.threads[number];
        thread.at += 1;
        let seen = |word: Word| {
            let own = self.threads[number].buffer.iter().rev().find(|(stored, _)| *stored == word);
            own.map_or(self.memory[word.number()], |&(_, value)| value)
        };
        let is_empty = thread.buffer.is_empty();
        match step {
            Load(register, word) => thread.registers[register] = seen(word),
            Await(_, word) if seen(word) == LOCKED => return None,
            Await(register, word) => thread.registers[register] = seen(word),
            Store(word, value) => thread.buffer.push((word, value)),
            Swap(..) | Fence if !is_empty => return None,
            Swap(word, value) => next.memory[word.number()] = value,
            Fence => {}
            Heavy => (0..3).for_each(|i| (0..next.threads[i].buffer.len()).for_each(|_| next.drain(i))),
            Clear(register, bits) => thread.registers[register] &= !bits,
            Unless(register, bits, steps) if thread.registers[register] & bits == 0 => thread.at += steps,
            If(register, bits, steps) if thread.registers[register] & bits != 0 => thread.at += steps,
            Unless(..) | If(..) => {}
        }
        Some(next)
    }
}

/// Passes every end of the three threads to `end`.
fn explore(programs: &[Vec<Step>; 3], mut end: impl FnMut(&State)) {
    let (mut seen, mut open) = (HashSet::new(), vec![State::default()]);
    while let Some(state) = open.pop() {
        if !seen.insert(state.clone()) {
            continue;
        }
        let mut is_end = true;
        for (number, program) in programs.iter().enumerate() {
            if !state.threads[number].buffer.is_empty() {
                let mut drained = state.clone();
                drained.drain(number);
                open.push(drained);
                is_end = false;
            }
            if let Some(&step) = program.get(state.threads[number].at) {
                open.extend(state.step(number, step));
                is_end = false;
            }
        }
        if is_end {
            end(&state);
        }
    }
}

/// How locks are taken, and whether an instant is marked while it is opened.
#[derive(Clone, Copy)]
struct How {
    biased: bool,
    marked: bool,
}

impl How {
    fn lock(self, leaf: Leaf) -> Vec<Step> {
        vec![if self.biased { Store(Lock(leaf), LOCKED) } else { Swap(Lock(leaf), LOCKED) }]
    }

    /// Looks for the newest snapshot, into register 0.
    fn look(self) -> Vec<Step> {
        let look = [Load(0, Newest), Unless(0, OPENING, 2), Heavy, Clear(0, OPENING)];
        look[..if self.marked { 4 } else { 1 }].to_vec()
    }

    /// Freezes a leaf if there is a snapshot, changes its value from 0 to 1, and unlocks it.
    fn change(leaf: Leaf) -> Vec<Step> {
        vec![
            Unless(0, 1, 2),
            Store(Frozen(leaf), 0),
            Store(Stamp(leaf), 1),
            Store(Value(leaf), 1),
            Store(Lock(leaf), NEW),
        ]
    }

    fn writer(self) -> Vec<Step> {
        [self.lock(A), self.look(), Self::change(A)].concat()
    }

    /// Has read that A is 0 before; changes B if that is still so.
    fn transaction(self) -> Vec<Step> {
        let change = Self::change(B);
        let validate = vec![Fence, Load(1, Lock(A)), If(1, LOCKED | NEW, change.len())];
        [self.lock(B), self.look(), validate, change].concat()
    }

    /// Opens a snapshot, and reads both leaves: lock, value, stamp, frozen value, and lock again.
    fn snapshot(self) -> Vec<Step> {
        let read = |leaf: Leaf| {
            let first = leaf as usize * 5;
            let words = [Value(leaf), Stamp(leaf), Frozen(leaf)];
            let loads = (first + 1..).zip(words).map(|(register, word)| Load(register, word));
            [Await(first, Lock(leaf))].into_iter().chain(loads).chain([Load(first + 4, Lock(leaf))]).collect()
        };
        let open = if self.marked {
            vec![Swap(Newest, 1 | OPENING), Heavy, Swap(Newest, 1)]
        } else {
            vec![Swap(Newest, 1), Heavy]
        };
        [open, read(A), read(B)].concat()
    }
}

/// Whether a snapshot ever sees the writer's change, which came after the transaction, and not the transaction.
fn is_torn(how: How) -> bool {
    let mut is_torn = false;
    explore(&[how.writer(), how.snapshot(), how.transaction()], |state| {
        let [_, snapshot, transaction] = &state.threads;
        let sees = |leaf: Leaf| {
            let [lock, value, stamp, frozen, again] = snapshot.registers[leaf as usize * 5..][..5] else { return None };
            (lock == again).then_some(if stamp < 1 { value } else { frozen })
        };
        is_torn |= transaction.registers[1] == OLD && sees(A) == Some(1) && sees(B) == Some(0);
    });
    is_torn
}

#[test]
fn a_snapshot_is_of_one_moment_for_all_threads() {
    assert!(!is_torn(How { biased: false, marked: false }));
    assert!(!is_torn(How { biased: true, marked: true }));
}

/// The negative control: without the mark, a transaction takes a snapshot for opened whose fence is still under way.
#[test]
fn an_opening_that_is_not_marked_is_found_wrong() {
    assert!(is_torn(How { biased: true, marked: false }));
}
