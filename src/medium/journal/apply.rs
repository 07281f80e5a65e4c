//! Applying the log to the pool file: what checkpoints and the replay of an open do (J11).

use super::disk::Disk;
use super::frame::{LogEntry, damaged, entries};
use super::log::Frames;
use super::rule::{Rule, holds};
use crate::error::Fault;
use crate::sync::several::on_threads;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The unit in which the pool file is read and written.
const PAGE: u64 = 4096;
/// How many bytes of entries are put into the order of their pages at a time, at least and at most: the more, the fewer
/// pages are written more than once. With what sorts them, they take twice as much memory.
const AT_ONCE: [u64; 2] = [64 << 10, 64 << 20];
/// They take one in so many bytes of the budget for private pages.
const PART: u64 = 16;
/// How many adjacent pages are read and written at a time.
const RUN: u64 = 64;
/// How many entries a thread takes at a time, or a few more: those of one page are written by one thread.
const PART_OF_THREAD: usize = 4096;

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

/// Of an entry, its offset, and where its words are in [`Patches::words`].
type Patch = (u64, u32);

/// Entries that are on their way to the pool file.
pub(super) struct Patches<'p, F> {
    pool: &'p F,
    len: u64,
    /// How many threads write.
    threads: usize,
    /// How many bytes of entries are put into order at a time.
    at_once: u64,
    entries: Vec<Patch>,
    words: Vec<u8>,
    /// Bytes written so far.
    written: u64,
}

impl<'p, F: Disk> Patches<'p, F> {
    /// For a pool of `len` bytes, whose private pages may take so many bytes of memory, written on so many threads.
    pub(super) fn new(pool: &'p F, len: u64, budget: u64, threads: usize) -> Self {
        let [least, most] = AT_ONCE;
        Self {
            pool,
            len,
            threads,
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
        let (parts, next) = (parts(&self.entries), AtomicUsize::new(0));
        let (written, failed) = (AtomicU64::new(0), OnceLock::new());
        on_threads(self.threads.min(parts.len()), &|| {
            while let (Some(part), None) = (parts.get(next.fetch_add(1, Ordering::Relaxed)), failed.get()) {
                match self.write_part(part) {
                    Ok(bytes) => _ = written.fetch_add(bytes, Ordering::Relaxed),
                    Err(error) => _ = failed.set(error),
                }
            }
        });
        self.written += written.into_inner();
        failed.into_inner().map_or(Ok(()), Err)?;
        self.entries.clear();
        self.words.clear();
        Ok(())
    }

    /// Writes entries that are in the order of their pages. Returns how many bytes.
    fn write_part(&self, mut rest: &[Patch]) -> io::Result<u64> {
        let (mut pages, mut written) = (Vec::new(), 0);
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
            written += pages.len() as u64;
        }
        Ok(written)
    }
}

/// Entries that are in the order of their pages, in parts that have no page in common.
fn parts(mut entries: &[Patch]) -> Vec<&[Patch]> {
    let mut parts = Vec::new();
    while !entries.is_empty() {
        let some = entries.len().min(PART_OF_THREAD);
        let last = entries[some - 1].0 / PAGE;
        let (part, rest) = entries.split_at(some + entries[some..].partition_point(|&(at, _)| at / PAGE == last));
        parts.push(part);
        entries = rest;
    }
    parts
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::super::sim::{Fate, SimDisk};
    use super::*;
    use crate::random::Random;
    use std::sync::Arc;

    const LEN: u64 = 300 * PAGE;

    fn applied(threads: usize) -> Vec<u8> {
        let (pool, mut random) = (SimDisk::new(&Arc::new(Fate::endless()), LEN), Random(7));
        let mut patches = Patches::new(&pool, LEN, u64::MAX, threads);
        for number in 0..3 * PART_OF_THREAD as u64 {
            // Some pages have most of them, so that parts would end within these.
            let page = if random.one_in(2) { 7 } else { random.below(LEN / PAGE) };
            let entry = LogEntry::new(page * PAGE + random.below(PAGE / 8 - 1) * 8, 2);
            patches.push(entry, &[number, !number].map(u64::to_le_bytes).concat()).unwrap();
        }
        assert!(patches.done().unwrap() >= LEN);
        pool.bytes()
    }

    #[test]
    fn many_threads_write_what_one_writes() {
        assert!(applied(1) == applied(4));
    }

    #[test]
    fn parts_have_no_page_in_common() {
        let mut random = Random(3);
        let mut entries: Vec<Patch> = (0..20_000).map(|_| (random.below(40) * 1000, 0)).collect();
        entries.sort_unstable();
        let parts = parts(&entries);
        assert!(parts.len() > 2 && parts.concat() == entries);
        let page = |entry: Option<&Patch>| entry.map(|&(at, _)| at / PAGE);
        assert!(parts.windows(2).all(|two| page(two[0].last()) < page(two[1].first())));
    }
}
