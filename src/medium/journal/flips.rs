//! One wrong bit anywhere in the marker, the log or the ring: an open is refused, or everything is there that must be
//! (J22 to J28).

use super::Journal;
use super::engine::Engine;
use super::header::{REGION, Seat};
use super::left::{Recovery, Terms};
use super::marker::{Marker, PLACE};
use super::memory::Memory;
use super::open::{self, Opening};
use super::rule::{Rule, alone, leave_out};
use super::sim::{Fate, SimDisk, SimMemory};
use crate::random::Random;
use crate::sync::Ordering;
use std::ops::Range;
use std::sync::Arc;

const UUID: [u64; 2] = [7, 8];
const LEN: u64 = 8192;
/// So few that the ring goes around.
const CELLS: u64 = 8;
const REGION_LEN: u64 = 8192;
/// The word of the pool that says how many changes there were, and which comes with each.
const LINES: u64 = 64;

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It is killed.
    Kill,
    /// The power goes when the ring says what is on the disk, there as well.
    PowerLater,
    /// The power goes, and the system has written back nothing of the ring.
    Power,
    /// It closes the pool.
    Close,
}

struct Machine {
    pool: SimDisk,
    log: SimDisk,
    ring: SimMemory,
    boot: u64,
}

impl Machine {
    fn copy(&self) -> Self {
        let fate = Arc::new(Fate::endless());
        Self { pool: self.pool.copy(&fate), log: self.log.copy(&fate), ring: self.ring.copy(), boot: self.boot }
    }

    fn open(&self, recovery: Recovery) -> Result<Engine<SimDisk, SimMemory>, String> {
        let marker = Marker::read(&self.pool).unwrap().ok_or("no marker")?;
        let terms = Terms { boot: self.boot, recovery };
        let opening = Opening { terms, nonce: 4711 + self.boot, path: "a ring".to_owned(), images: None };
        let (left, ring) = (Some(self.ring.clone()), self.ring.clone());
        let opened = open::fitting(&self.pool, &self.log, marker).and_then(|marker| {
            open::open((self.pool.clone(), marker), self.log.clone(), left, &opening, |_| {
                Ok((ring, Seat { in_memory: false, number: 0 }))
            })
        });
        opened.map(|(engine, _)| engine).map_err(|fault| fault.in_pool("it").to_string())
    }

    /// How many changes the pool file shows; `None` if it shows no moment that there was.
    fn shown(&self) -> Option<u64> {
        let bytes = self.pool.bytes();
        let word = |line: u64| super::sealed::word(&bytes[4096 + line as usize * 64..]);
        let last = (0..LINES).map(word).max().unwrap_or(0);
        // Change number `n` is in line `n % LINES`.
        let is_moment = |line: u64| {
            let since = (last + LINES - line) % LINES;
            word(line) == if last >= since { if (last - since) % LINES == line { last - since } else { 0 } } else { 0 }
        };
        (0..LINES).all(is_moment).then_some(last)
    }
}

/// Two lives; `end` ends the second one. Returns what there is then, and how many changes must be found.
fn lives(seed: u64, end: End) -> (Machine, u64, Range<u64>) {
    alone();
    let (fate, mut random) = (Arc::new(Fate::endless()), Random(seed));
    let (pool, log) = (SimDisk::new(&fate, LEN), SimDisk::new(&fate, 0));
    open::create(&log, UUID, REGION_LEN, seed | 1).unwrap();
    open::adopt(&pool, &log, UUID, Journal::Each).unwrap();
    let mut machine = Machine { pool, log, ring: SimMemory::new(CELLS), boot: 1 };
    let (mut changes, mut synced, mut synced_before) = (0, 0, 0);
    let mut used = 0..0;
    for life in 0..2 {
        let engine = machine.open(Recovery::Whole).unwrap();
        let from = engine.header.lock().from.at;
        for _ in 0..5 + random.below(4) {
            for _ in 0..1 + random.below(4) {
                changes += 1;
                let number = changes;
                engine.flush(4096 + number % LINES * 64, 8, false, |_| number);
            }
            if random.one_in(2) {
                engine.sync().unwrap();
                (synced_before, synced) = (synced, changes);
            }
            if life == 0 && random.one_in(6) {
                engine.checkpoint().unwrap();
            }
        }
        if life == 1 {
            // Not while changes come.
            if end == End::PowerLater && engine.unvouched().is_some() {
                engine.vouch().unwrap();
                synced_before = synced;
            }
            used = from..engine.lead(|_| Ok(())).unwrap().at;
        }
        if life == 0 && random.one_in(2) || life == 1 && end == End::Close {
            engine.settle().unwrap();
            (synced_before, synced) = (changes, changes);
        }
    }
    let least = match end {
        End::Kill | End::Close => changes,
        End::PowerLater | End::Power => synced_before,
    };
    if matches!(end, End::Power | End::PowerLater) {
        machine.pool.lose_power(&mut random);
        machine.log.lose_power(&mut random);
        machine = Machine { ring: machine.ring.on_disk(), boot: 2, ..machine };
    }
    (machine, least, used)
}

/// All bits of a machine after such lives, one after the other. Returns how many of them were refused, or what was lost
/// without a word.
fn each_bit(seed: u64, end: End) -> Result<(u64, u64), String> {
    let (machine, least, used) = lives(seed, end);
    let (mut refused, mut all) = (0, 0);
    let mut look = |what: &str, flip: &dyn Fn(&Machine)| {
        let copy = machine.copy();
        flip(&copy);
        all += 1;
        match copy.open(Recovery::Whole) {
            Err(_) => refused += 1,
            Ok(_) => {
                let shown = copy.shown();
                if shown.is_none_or(|shown| shown < least) {
                    return Err(format!("{end:?}, seed {seed}, {what}: {shown:?} of {least} are there"));
                }
            }
        }
        Ok(())
    };
    look("nothing", &|_| ())?;
    let region = used.start % REGION_LEN..used.end % REGION_LEN;
    for byte in (0..176).chain(4096..4272).chain(REGION + region.start..REGION + region.end.max(region.start)) {
        for bit in [0, 3, 7] {
            look(&format!("bit {bit} of byte {byte} of the log"), &|copy| copy.log.damage(byte, 1 << bit))?;
        }
    }
    for byte in PLACE.start..PLACE.start + 56 {
        look(&format!("byte {byte} of the pool"), &|copy| copy.pool.damage(byte, 1 << (byte % 8)))?;
    }
    let words = machine.ring.words().len();
    for word in (0..11).chain(64..72).chain([128, 129]).chain(256..words) {
        for bit in [1, 17, 32, 47, 63] {
            look(&format!("bit {bit} of word {word} of the ring"), &|copy| {
                _ = copy.ring.words()[word].fetch_xor(1 << bit, Ordering::Relaxed);
            })?;
        }
    }
    Ok((refused, all))
}

#[test]
fn one_wrong_bit_loses_nothing_without_a_word() {
    let seeds = if cfg!(target_arch = "x86_64") { 6 } else { 1 };
    for end in [End::Kill, End::PowerLater, End::Power, End::Close] {
        let (mut refused, mut all) = (0, 0);
        for seed in 0..seeds {
            let found = each_bit(seed, end).unwrap_or_else(|lost| panic!("{lost}"));
            (refused, all) = (refused + found.0, all + found.1);
        }
        println!("{end:?}: {refused} of {all} refused");
        assert!(end == End::Close || refused > all / 20, "{end:?}: only {refused} of {all} were refused");
    }
}

/// Without each rule, something is lost without a word.
#[test]
#[cfg_attr(not(target_arch = "x86_64"), ignore = "an emulator takes minutes, and the histories are the same")]
fn wrong_bits_are_lost_without_each_rule() {
    let all = [
        (Rule::CellCheck, End::Kill),
        (Rule::RingSynced, End::Kill),
        (Rule::RingSynced, End::PowerLater),
        (Rule::FrameSynced, End::Power),
        (Rule::Synced, End::PowerLater),
    ];
    for (rule, end) in all {
        leave_out(Some(rule));
        let found = (0..40).find_map(|seed| each_bit(seed, end).err());
        leave_out(None);
        println!("{rule:?}: {found:?}");
        assert!(found.is_some(), "{rule:?} is left out, {end:?}, and nothing is found");
    }
}

/// A log that ends early: it is refused, nothing is written, and the way on tells what is lost.
#[test]
fn a_short_log_is_opened_when_that_is_wanted() {
    let mut lost = 0;
    for seed in 0..40 {
        let (machine, least, used) = lives(seed, End::PowerLater);
        if used.is_empty() || used.start / REGION_LEN != used.end / REGION_LEN {
            continue;
        }
        machine.log.damage(REGION + used.start % REGION_LEN + 60, 4);
        let before = machine.log.bytes();
        if let Err(error) = machine.open(Recovery::Whole) {
            assert!(error.contains("damaged at byte"), "{error}");
            assert!(machine.log.bytes() == before, "a log that is refused was written to");
            match machine.open(Recovery::ShortLog) {
                Ok(engine) => {
                    let shown = machine.shown().expect("a moment");
                    lost += least.saturating_sub(shown);
                    drop(engine);
                    machine.open(Recovery::Whole).unwrap();
                    assert_eq!(machine.shown(), Some(shown));
                }
                Err(error) => assert!(error.contains("lacks what the pool already has"), "{error}"),
            }
        }
    }
    assert!(lost > 20, "only {lost} were lost");
}
