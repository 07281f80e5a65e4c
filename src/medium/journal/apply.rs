//! Applying the log to the pool file: what checkpoints and the replay of an open do (J11).

use super::disk::Disk;
use super::frame::{LogEntry, damaged, entries};
use super::log::Frames;
use super::rule::{Rule, holds};
use crate::error::Fault;
use std::io;

/// The unit in which the pool file is read and written.
const PAGE: u64 = 4096;
/// How many bytes of entries are put into the order of their pages at a time, at least and at most: the more, the fewer
/// pages are written more than once. With what sorts them, they take twice as much memory.
const AT_ONCE: [u64; 2] = [64 << 10, 64 << 20];
/// They take one in so many bytes of the budget for private pages.
const PART: u64 = 16;
/// How many adjacent pages are read and written at a time.
const RUN: u64 = 64;

/// Calls `each` for each entry of the log up to a place, of a pool of `len` bytes.
pub(super) fn each<F: Disk>(
    frames: &mut Frames<'_, F>,
    end: u64,
    len: u64,
    mut each: impl FnMut(LogEntry, &[u8]) -> io::Result<()>,
) -> Result<(), Fault> {
    while frames.end().at < end {
        let Some(frame) = frames.next().map_err(Fault::io("read the log"))? else {
            return Err(damaged("a frame that should be there is damaged"));
        };
        for entry in entries(frame.body(), len) {
            let (entry, words) = entry?;
            each(entry, words).map_err(Fault::io("write to the pool"))?;
        }
    }
    Ok(())
}

/// Entries that are on their way to the pool file.
pub(super) struct Patches<'p, F> {
    pool: &'p F,
    len: u64,
    /// How many bytes of entries are put into order at a time.
    at_once: u64,
    /// Of each entry its offset, and where its words are in `words`.
    entries: Vec<(u64, u32)>,
    words: Vec<u8>,
    /// Bytes written so far.
    written: u64,
}

impl<'p, F: Disk> Patches<'p, F> {
    /// For a pool of `len` bytes, whose private pages may take so many bytes of memory.
    pub(super) fn new(pool: &'p F, len: u64, budget: u64) -> Self {
        let [least, most] = AT_ONCE;
        Self {
            pool,
            len,
            at_once: (budget / PART).clamp(least, most),
            entries: Vec::new(),
            words: Vec::new(),
            written: 0,
        }
    }

    /// Adds an entry, which replaces what earlier ones say about the same words.
    pub(super) fn push(&mut self, entry: LogEntry, words: &[u8]) -> io::Result<()> {
        if (self.words.len() + words.len()) as u64 > self.at_once {
            self.write()?;
        }
        self.entries.push((entry.bytes().start, self.words.len() as u32));
        self.words.push((words.len() / 8) as u8);
        self.words.extend_from_slice(words);
        Ok(())
    }

    /// Writes all entries to the pool file. Returns how many bytes were written in all.
    pub(super) fn done(mut self) -> io::Result<u64> {
        self.write()?;
        Ok(self.written)
    }

    fn write(&mut self) -> io::Result<()> {
        // Stable: of entries of one page, the later ones stay the later ones.
        self.entries.sort_by_key(|&(at, _)| at / PAGE);
        let mut pages = Vec::new();
        let mut rest = &self.entries[..];
        while let Some(&(first, _)) = rest.first() {
            let start = first / PAGE * PAGE;
            let mut end = start + PAGE;
            // The run of adjacent pages that begins here.
            let run = rest.iter().position(|&(at, _)| {
                let beyond = at >= end + PAGE || at >= start + RUN * PAGE;
                end = if beyond { end } else { end.max(at / PAGE * PAGE + PAGE) };
                beyond
            });
            let (these, others) = rest.split_at(run.unwrap_or(rest.len()));
            rest = others;
            pages.resize((end.min(self.len) - start) as usize, 0);
            self.pool.read(start, &mut pages)?;
            let before = if holds(Rule::StoreEqual) { None } else { Some(pages.clone()) };
            for &(at, words) in these {
                let words = words as usize;
                let bytes = usize::from(self.words[words]) * 8;
                pages[(at - start) as usize..][..bytes].copy_from_slice(&self.words[words + 1..][..bytes]);
            }
            if before.as_ref() != Some(&pages) {
                self.pool.write(start, &pages)?;
            }
            self.written += pages.len() as u64;
        }
        self.entries.clear();
        self.words.clear();
        Ok(())
    }
}
