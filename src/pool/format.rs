//! The superblock, and the geometry that follows from it.
//!
//! ```text
//! 0       superblock A ─┐ twins: the same content, written one after the other
//! 1024    marker        │ what the file says about its journal, if it has one
//! 2048    32 lines      │ zeros, on which the costs of persisting are measured
//! 4096    superblock B ─┘
//! 8192    roots         the first 16, of 256 bytes each
//! 12288   segment table one word for each of the first 512 segments
//! 16384   segments      segment n starts at n times their size; those in which the header lies hold nothing else
//! ```
//!
//! ```text
//! line 0  | magic | version 32, line size 16, order 16 | compat | ro-compat | incompat | uuid | uuid | segment size |
//! line 1  | 0 | capacity | session | space | boot | marked | 0 | checksum |
//! ```
//!
//! The first diagram is the map of the file, the second one the superblock. The invariants S1 to S4 are in
//! `docs/design.md`, section 2.

use crate::error::{Broken, ErrorKind, Fault};
use crate::medium::{LINE, MEASURED, Medium, Step};
use crate::random::random;

/// "BRISTLEC" in the file's first bytes.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"BRISTLEC");
/// It stands in the magic's place while a pool is being created.
pub(crate) const BIRTH: u64 = u64::from_le_bytes(*b"BRISTLE?");
/// The format version that this crate writes, and the newest one that it reads.
pub(crate) const VERSION: u64 = 2;

const COMPAT: u64 = 0;
const RO_COMPAT: u64 = 0;
/// There may be live redo lists.
const WITH_LISTS: u64 = 1;
/// There is a log, without which the file is of the past.
const WITH_JOURNAL: u64 = 2;
/// There may be trees whose kinds have names of their own, which are in the checksums of root entries.
const WITH_OWN_KINDS: u64 = 4;
/// There may be trees whose layouts are not the crate's, with hashes of their names in the checksums of root entries.
const WITH_FOREIGN_LAYOUTS: u64 = 8;
const INCOMPAT: u64 = WITH_LISTS | WITH_JOURNAL | WITH_OWN_KINDS | WITH_FOREIGN_LAYOUTS;

const TWINS: [u64; 2] = [0, 4096];
const WORDS: usize = 16;
const BYTES: u64 = WORDS as u64 * 8;
const ROOTS: u64 = 8192;
// The lines on which costs are measured belong to nothing else.
const _: () = assert!(MEASURED.start >= TWINS[0] + BYTES && MEASURED.end <= TWINS[1]);
/// Where redo lists lie.
pub(crate) const LISTS: std::ops::Range<u64> = TWINS[1] + 512..ROOTS;
const _: () = assert!(LISTS.start >= TWINS[1] + BYTES);
/// Bytes of one tree's root entry.
pub(crate) const ROOT_BYTES: u64 = 256;
/// The number of root entries in the header. Further ones lie in segments.
pub(crate) const ROOTS_AT_HAND: u16 = if cfg!(bristlecone_loom) { 2 } else { 16 };
/// The number of segments whose entries lie in the header.
const FIRST_GROUP: u32 = if cfg!(bristlecone_loom) { 64 } else { 512 };
/// Where these entries lie.
const TABLE: u64 = ROOTS + ROOTS_AT_HAND as u64 * ROOT_BYTES;
/// Bytes of the header.
pub(crate) const HEADER: u64 = TABLE + FIRST_GROUP as u64 * 8;

/// The sizes that are chosen when a pool is created. They never change, except for the capacity, which only grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PoolGeometry {
    /// Bytes in a segment: a power of two.
    pub(crate) segment: u64,
    /// The most bytes that the header and the segments in use may take.
    pub(crate) capacity: u64,
}

impl PoolGeometry {
    /// The range of segment sizes.
    pub(crate) const SEGMENTS: std::ops::RangeInclusive<u64> = 1024..=1 << 30;
    /// No pool has more bytes: offsets must fit into the references of byte leaves.
    pub(crate) const MOST: u64 = 1 << 47;
    /// A segment consists of so many equal parts, in which its length is stored.
    pub(crate) const PARTS: u64 = 512;

    /// The offset of a root entry in the header. The one behind the last is its end.
    pub(crate) fn root(&self, slot: u16) -> u64 {
        ROOTS + u64::from(slot) * ROOT_BYTES
    }

    /// The first segment of the group whose entries lie together. Groups double in length, so that runs of any length
    /// fit into one.
    fn group(segment: u32) -> u32 {
        if segment < FIRST_GROUP { 0 } else { 1 << segment.ilog2() }
    }

    /// The offset of the table's entry of a segment.
    pub(crate) fn entry(&self, segment: u32) -> u64 {
        let first = Self::group(segment);
        let table = if first == 0 { TABLE } else { u64::from(first) * self.segment };
        table + u64::from(segment - first) * 8
    }

    /// Where the table has entries behind the header, up to that of the segment `last`.
    pub(crate) fn table(&self, last: u32) -> impl Iterator<Item = std::ops::Range<u64>> + use<> {
        let geometry = *self;
        let groups = std::iter::successors(Some(FIRST_GROUP), |first| first.checked_mul(2));
        groups.take_while(move |&first| first <= last).map(move |first| {
            let end = last.min(first - 1 + first);
            geometry.entry(first)..geometry.entry(end) + 8
        })
    }

    /// Whether the header or a part of the table lies in a segment, which then holds nothing else.
    pub(crate) fn is_header(&self, segment: u32) -> bool {
        let first = Self::group(segment);
        let header = if first == 0 { HEADER } else { u64::from(first) * 8 };
        u64::from(segment - first) * self.segment < header
    }

    /// The least by which the part of a segment that is in use grows: a page, where segments are not smaller.
    pub(crate) fn step(&self) -> u64 {
        (self.segment / Self::PARTS).max(self.segment.min(8192) / 2)
    }

    /// The least useful capacity: room for the header, and for a few small segments.
    pub(crate) fn least(&self) -> u64 {
        HEADER.next_multiple_of(self.segment.min(4096)) + 3 * self.segment.min(16 << 10)
    }

    /// Checks the sizes that the caller, or a file, asks for.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        if !self.segment.is_power_of_two() || !Self::SEGMENTS.contains(&self.segment) {
            return Err(ErrorKind::InvalidOption {
                what: "the segment size must be a power of two from 1 KiB to 1 GiB",
                given: self.segment,
            }
            .into());
        }
        if self.capacity < self.least() || self.capacity > Self::MOST {
            return Err(ErrorKind::Capacity { asked: self.capacity, least: self.least(), greatest: Self::MOST }.into());
        }
        Ok(())
    }
}

/// What stands for the boot if a sync has failed: what the disk has is of different times, as after a crash of the
/// machine.
const FAILED: u64 = u64::MAX;

/// The content of a superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Superblock {
    pub(crate) geometry: PoolGeometry,
    pub(crate) uuid: [u64; 2],
    session: u64,
    space: u64,
    boot: u64,
    marked: u64,
    compat: u64,
    ro_compat: u64,
    incompat: u64,
}

/// The reason why one twin cannot be used.
enum Bad {
    Unborn,
    OtherOrder,
    NoMagic,
    Version(u64),
    Features(u64),
    Checksum,
}

impl Superblock {
    pub(crate) fn new(geometry: PoolGeometry) -> Self {
        let uuid = [random(), random()];
        let (session, space, boot, marked) = (0, 0, 0, 0);
        let (compat, ro_compat, incompat) = (COMPAT, RO_COMPAT, 0);
        Self { geometry, uuid, session, space, boot, marked, compat, ro_compat, incompat }
    }

    /// Whether the pool was closed in order.
    pub(crate) fn is_clean(&self) -> bool {
        self.session.is_multiple_of(2)
    }

    /// The number of times that the pool was opened for writing.
    pub(crate) fn boots(&self) -> u64 {
        self.session.div_ceil(2)
    }

    /// Marks the pool as in use from now on, in this boot. `boot` is 0 if nothing is at stake when the machine goes
    /// down.
    pub(crate) fn opened(&mut self, boot: u64) {
        self.session = self.session.wrapping_add(if self.is_clean() { 1 } else { 2 });
        if !self.is_marked(boot) {
            (self.boot, self.marked) = (boot, 0);
        }
    }

    /// Whether the machine has gone down since the pool was written to and before it was synced, or a sync has failed.
    pub(crate) fn outlived(&self, boot: u64) -> bool {
        self.boot == FAILED || self.boot != 0 && boot != 0 && self.boot != boot
    }

    /// Why nothing may be changed before everything was checked, if that is so.
    pub(crate) fn refusal(&self, boot: u64) -> Option<ErrorKind> {
        let lost = if self.has_failed() { ErrorKind::DiskFailed } else { ErrorKind::PowerLoss };
        self.outlived(boot).then_some(lost)
    }

    /// Whether a sync has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.boot == FAILED
    }

    /// Says that a sync has failed.
    pub(crate) fn fail(&mut self) {
        (self.boot, self.marked) = (FAILED, 0);
    }

    /// Whether the superblock on the disk already names this boot.
    pub(crate) fn is_marked(&self, boot: u64) -> bool {
        self.boot == boot && self.marked == boot
    }

    /// Notes that the superblock was synced since the pool was [opened](Self::opened).
    pub(crate) fn mark(&mut self) {
        self.marked = self.boot;
    }

    /// Says that there may be live redo lists from now on.
    pub(crate) fn with_lists(&mut self) {
        self.incompat |= WITH_LISTS;
    }

    /// Says that there may be trees of kinds with names of their own from now on.
    pub(crate) fn with_own_kinds(&mut self) {
        self.incompat |= WITH_OWN_KINDS;
    }

    /// Whether it says that already.
    pub(crate) fn has_own_kinds(&self) -> bool {
        self.incompat & WITH_OWN_KINDS != 0
    }

    /// Says that there may be trees with layouts that are not the crate's from now on.
    pub(crate) fn with_foreign_layouts(&mut self) {
        self.incompat |= WITH_FOREIGN_LAYOUTS;
    }

    /// Whether it says that already.
    pub(crate) fn has_foreign_layouts(&self) -> bool {
        self.incompat & WITH_FOREIGN_LAYOUTS != 0
    }

    /// Says whether the pool has a journal.
    pub(crate) fn set_journal(&mut self, has: bool) {
        self.incompat = if has { self.incompat | WITH_JOURNAL } else { self.incompat & !WITH_JOURNAL };
    }

    /// Whether the pool has a journal.
    pub(crate) fn has_journal(&self) -> bool {
        self.incompat & WITH_JOURNAL != 0
    }

    /// Takes back what an orderly close recorded: the bytes that are there may not be those that it described.
    pub(crate) fn distrust(&mut self) {
        self.session |= 1;
        self.space = 0;
    }

    /// Whether the medium's space is as it was at an orderly close.
    pub(crate) fn has_its_space(&self, space: u64) -> bool {
        self.is_clean() && space != 0 && space == self.space
    }

    /// Marks the pool as closed in order, without redo lists. `synced` says whether everything else was synced.
    pub(crate) fn closed(&mut self, space: u64, synced: bool) {
        self.incompat &= !WITH_LISTS;
        self.space = space;
        if synced {
            (self.boot, self.marked) = (0, 0);
        }
        self.session = (self.session | 1).wrapping_add(1);
    }

    /// Whether the medium can hold such a pool, and this crate may use it.
    pub(crate) fn check<M: Medium>(&self, m: &M, read_only: bool) -> Result<(), Fault> {
        // Impossible sizes under a valid checksum are damage, or malice.
        self.geometry.check().map_err(|_| Broken::new(56, "S1: impossible geometry"))?;
        let unknown = self.ro_compat & !RO_COMPAT;
        if !read_only && unknown != 0 {
            return Err(ErrorKind::Features { unknown }.into());
        }
        let found = m.accessible();
        if found < HEADER {
            return Err(ErrorKind::Truncated { expected: HEADER, found }.into());
        }
        Ok(())
    }

    fn encode(&self) -> [u64; WORDS] {
        let g = &self.geometry;
        let order = u64::from(u16::from_ne_bytes([1, 2]));
        let mut words = [
            MAGIC,
            VERSION | LINE << 32 | order << 48,
            self.compat,
            self.ro_compat,
            self.incompat,
            self.uuid[0],
            self.uuid[1],
            g.segment,
            0,
            g.capacity,
            self.session,
            self.space,
            self.boot,
            self.marked,
            0,
            0,
        ];
        words[WORDS - 1] = checksum(&words[..WORDS - 1]);
        words
    }

    fn decode(words: &[u64; WORDS]) -> Result<Self, Bad> {
        match words[0] {
            MAGIC => {}
            BIRTH => return Err(Bad::Unborn),
            other if other == MAGIC.swap_bytes() => return Err(Bad::OtherOrder),
            _ => return Err(Bad::NoMagic),
        }
        if words[WORDS - 1] != checksum(&words[..WORDS - 1]) {
            return Err(Bad::Checksum);
        }
        let version = words[1] & 0xffff_ffff;
        if version != VERSION {
            return Err(Bad::Version(version));
        }
        if words[4] & !INCOMPAT != 0 {
            return Err(Bad::Features(words[4] & !INCOMPAT));
        }
        Ok(Self {
            geometry: PoolGeometry { segment: words[7], capacity: words[9] },
            uuid: [words[5], words[6]],
            session: words[10],
            space: words[11],
            boot: words[12],
            marked: words[13],
            compat: words[2],
            ro_compat: words[3],
            incompat: words[4],
        })
    }

    /// Whether the first bytes of a file are what a creation that was cut leaves (S3): nothing but the mark, and
    /// perhaps a part of twin B. If there is anything else, the file was a pool once and is damaged.
    pub(crate) fn is_unborn(head: &[u8]) -> bool {
        let (words, _) = head.as_chunks::<8>();
        words.first().is_some_and(|&word| u64::from_le_bytes(word) == BIRTH)
            && Self::is_blank(words.len() as u64 * 8, |at| u64::from_le_bytes(words[at as usize / 8]))
    }

    /// Whether nothing was ever written to `len` bytes, except for the twins, and twin B is not valid.
    fn is_blank(len: u64, load: impl Fn(u64) -> u64) -> bool {
        let twin = TWINS[1]..TWINS[1] + BYTES;
        let whole = len >= twin.end && Self::decode(&std::array::from_fn(|i| load(twin.start + i as u64 * 8))).is_ok();
        !whole && (BYTES..len).step_by(8).filter(|at| !twin.contains(at)).all(|at| load(at) == 0)
    }

    /// The offset of a twin that cannot be read, though the pool was opened: by the other one. Nobody writes them
    /// meanwhile.
    pub(crate) fn unreadable_twin<M: Medium>(m: &M) -> Option<u64> {
        TWINS.into_iter().find(|at| Self::decode(&std::array::from_fn(|i| m.load(at + i as u64 * 8))).is_err())
    }

    /// Reads both twins and returns the newer valid one, with its number.
    pub(crate) fn read<M: Medium>(m: &M) -> Result<(Self, usize), Fault> {
        let len = m.accessible();
        let twin = |at: u64| Self::decode(&std::array::from_fn(|i| m.load(at + i as u64 * 8)));
        if len < TWINS[1] + BYTES {
            if len >= BYTES && twin(TWINS[0]).is_ok() {
                return Err(ErrorKind::Truncated { expected: HEADER, found: len }.into());
            }
            return Err(ErrorKind::NotAPool { found: "a file too short for a superblock" }.into());
        }
        let [a, b] = TWINS.map(twin);
        let bad = match (a, b) {
            (Ok(a), Ok(b)) if a.session >= b.session => return Ok((a, 0)),
            (_, Ok(b)) => return Ok((b, 1)),
            (Ok(a), Err(_)) => return Ok((a, 0)),
            (Err(Bad::Unborn), Err(_)) if Self::is_blank(m.accessible().min(HEADER), |at| m.load(at)) => {
                return Err(ErrorKind::NotAPool { found: "the remains of an interrupted creation" }.into());
            }
            (Err(a), Err(b)) => [a, b],
        };
        // Neither twin is usable: report the most informative reason.
        let mut report = ErrorKind::NotAPool { found: "no magic number" };
        for bad in bad {
            match bad {
                Bad::Version(found) => return Err(ErrorKind::Version { found, supported: VERSION }.into()),
                Bad::Features(unknown) => return Err(ErrorKind::Features { unknown }.into()),
                Bad::OtherOrder => {
                    report = ErrorKind::NotAPool { found: "a pool of the other byte order" };
                }
                Bad::Checksum | Bad::Unborn => report = ErrorKind::Superblock { at: TWINS[0] },
                Bad::NoMagic => {}
            }
        }
        Err(report.into())
    }

    /// Replaces both twins. `current` is the one that was read. Both are durable when this returns.
    pub(crate) fn write<M: Medium>(&self, m: &M, current: usize) {
        let words = self.encode();
        for twin in [1 - current, current] {
            let at = TWINS[twin];
            for (i, &word) in words.iter().enumerate() {
                m.store(at + i as u64 * 8, word);
            }
            m.flush(at, BYTES, Step::HeaderTwin);
            m.fence(Step::HeaderTwin);
        }
    }

    /// Marks a new pool's header as unborn; the first [`write`](Self::write) makes it a pool. The roots and the table
    /// are already zero.
    pub(crate) fn conceive<M: Medium>(m: &M) {
        if m.load(TWINS[1]) != 0 {
            m.store(TWINS[1], 0);
        }
        // Even if it was zero: a killed process may have stored that, and not flushed it. There is no fence, because
        // nothing else changes before the next one.
        m.flush(TWINS[1], 8, Step::HeaderClear);
        m.store(TWINS[0], BIRTH);
        m.flush(TWINS[0], 8, Step::HeaderBirth);
        m.fence(Step::HeaderBirth);
    }
}

/// A checksum of words: the CRC-32 of their bytes, together with its complement, so that zeros never look valid.
pub(crate) fn checksum(words: &[u64]) -> u64 {
    let crc = u64::from(crc(words.iter().copied()));
    crc | (!crc) << 32
}

/// CRC-32 of the words' bytes.
pub(crate) fn crc(words: impl IntoIterator<Item = u64>) -> u32 {
    crc_in_pieces::<4096>(words)
}

/// CRC-32 of the words' bytes, in less time than [`crc`] if there are few words.
pub(crate) fn crc_of_few(words: impl IntoIterator<Item = u64>) -> u32 {
    crc_in_pieces::<512>(words)
}

fn crc_in_pieces<const BYTES: usize>(words: impl IntoIterator<Item = u64>) -> u32 {
    // Hash in large pieces: the checksum's fast path needs more than a word at a time.
    let mut piece = [0; BYTES];
    let mut filled = 0;
    let mut hasher = crc32fast::Hasher::new();
    for word in words {
        piece[filled..filled + 8].copy_from_slice(&word.to_ne_bytes());
        filled += 8;
        if filled == piece.len() {
            hasher.update(&piece);
            filled = 0;
        }
    }
    hasher.update(&piece[..filled]);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::Dram;

    fn geometry() -> PoolGeometry {
        PoolGeometry { segment: 4096, capacity: 64 << 10 }
    }

    #[test]
    fn a_torn_write_leaves_the_other_twin() {
        let m = Dram::zeroed(64 << 10);
        let mut sb = Superblock::new(geometry());
        Superblock::conceive(&m);
        assert!(Superblock::read(&m).is_err());
        sb.write(&m, 0);
        assert_eq!(Superblock::read(&m).unwrap(), (sb, 0));
        sb.opened(0);
        assert!(!sb.is_clean());
        sb.write(&m, 0);
        assert_eq!(Superblock::read(&m).unwrap().0, sb);
        for at in TWINS {
            let whole = m.load(at + 80);
            m.store(at + 80, !whole);
            assert_eq!(Superblock::read(&m).unwrap().0, sb);
            m.store(at + 80, whole);
        }
        m.store(TWINS[0] + 80, 0);
        m.store(TWINS[1] + 80, 0);
        assert!(matches!(Superblock::read(&m), Err(fault) if matches!(fault.kind(), ErrorKind::Superblock { at: 0 })));
    }

    #[test]
    fn what_is_not_a_pool_says_why() {
        let m = Dram::zeroed(64 << 10);
        assert!(matches!(Superblock::read(&m), Err(fault) if matches!(fault.kind(), ErrorKind::NotAPool { .. })));
        assert!(
            matches!(Superblock::read(&Dram::zeroed(100)), Err(fault) if matches!(fault.kind(), ErrorKind::NotAPool { .. }))
        );
        let sb = Superblock::new(geometry());
        for (word, value, expected) in [(1, 9, "version"), (4, 1 << 9, "features")] {
            sb.write(&m, 0);
            for at in TWINS {
                m.store(at + word * 8, value);
                let words: Vec<u64> = (0..15).map(|i| m.load(at + i * 8)).collect();
                m.store(at + 120, checksum(&words));
            }
            let error = Superblock::read(&m).unwrap_err();
            assert!(error.kind().to_string().contains(expected), "{error:?}");
        }
        m.store(0, BIRTH);
        assert!(matches!(Superblock::read(&m), Err(fault) if matches!(fault.kind(), ErrorKind::NotAPool { .. })));
        m.store(0, MAGIC.swap_bytes());
        m.store(4096, 0);
        assert!(Superblock::read(&m).unwrap_err().kind().to_string().contains("byte order"));
    }
}
