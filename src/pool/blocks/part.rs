//! The blocks of one segment: a bitmap of those that are free.

/// The size of the blocks, in bytes.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) bytes: u32,
    /// `2^64` divided by it, rounded up. A product with that takes a third of the time of a division, and is exact for
    /// numbers of 32 bits.
    pub(super) reciprocal: u64,
}

impl Unit {
    pub(super) fn new(bytes: u32) -> Self {
        Self { bytes, reciprocal: u64::MAX / u64::from(bytes.max(2)) + 1 }
    }

    /// Where a block begins in its segment.
    #[inline]
    pub(super) fn start(self, block: u32) -> u64 {
        u64::from(block) * u64::from(self.bytes)
    }

    /// The number of the block that begins at an offset in a segment; `None` if none does.
    #[inline]
    pub(super) fn block_at(self, within: u32) -> Option<u32> {
        let block = ((u128::from(within) * u128::from(self.reciprocal)) >> 64) as u32;
        (block.wrapping_mul(self.bytes) == within).then_some(block)
    }
}

/// The blocks of one segment.
#[derive(Default)]
pub(super) struct SegmentBlocks {
    pub(super) segment: u32,
    /// The number of blocks in the part of the segment that is in use.
    pub(super) blocks: u32,
    /// The number of bits that are set.
    pub(super) free: u32,
    /// Whether it is among [`State::open`].
    pub(super) is_open: bool,
    /// If present: what lies from this block on is closed.
    pub(super) closed: Option<u32>,
    /// The number of closed blocks that are free.
    pub(super) withheld: u32,
    /// If present: what lies from this block on was never handed out, and holds zeros.
    pub(super) fresh: Option<u32>,
    /// No word before this one has a bit that is set.
    pub(super) first: u32,
    /// One for each block: set if it is free.
    pub(super) bits: Vec<u64>,
}

impl SegmentBlocks {
    pub(super) fn new(segment: u32, fresh: bool) -> Self {
        Self { segment, fresh: fresh.then_some(0), ..Self::default() }
    }

    /// Takes the first free block; there must be one. Also tells whether it was never handed out.
    #[inline]
    pub(super) fn take_first(&mut self) -> (u32, bool) {
        while self.bits[self.first as usize] == 0 {
            self.first += 1;
        }
        let word = &mut self.bits[self.first as usize];
        let block = self.first * 64 + word.trailing_zeros();
        *word &= *word - 1;
        self.free -= 1;
        let is_fresh = self.fresh.is_some_and(|fresh| block >= fresh);
        if is_fresh {
            self.fresh = Some(block + 1);
        }
        (block, is_fresh)
    }

    /// Takes this block, if it is free.
    #[inline]
    pub(super) fn take_this(&mut self, block: u32) -> bool {
        let (word, bit) = (&mut self.bits[block as usize / 64], 1 << (block % 64));
        let is_free = *word & bit != 0;
        *word &= !bit;
        self.free -= u32::from(is_free);
        is_free
    }

    /// Gives a block back. False if it was free.
    #[inline]
    pub(super) fn give(&mut self, block: u32) -> bool {
        let (place, bit) = (block / 64, 1 << (block % 64));
        let word = &mut self.bits[place as usize];
        let is_new = *word & bit == 0;
        *word |= bit;
        self.first = self.first.min(place);
        self.free += u32::from(is_new);
        is_new
    }

    /// Whether a block is closed.
    pub(super) fn is_closed(&self, block: u32) -> bool {
        self.closed.is_some_and(|from| block >= from)
    }

    /// The number of blocks that may be handed out.
    pub(super) fn available(&self) -> u32 {
        self.free - self.withheld
    }

    /// How many blocks are free from this one on.
    pub(super) fn free_from(&self, block: u32) -> u32 {
        let Some((first, rest)) = self.bits.get(block as usize / 64..).and_then(<[u64]>::split_first) else { return 0 };
        (first >> (block % 64)).count_ones() + rest.iter().map(|word| word.count_ones()).sum::<u32>()
    }

    /// Gives up the blocks from this one on, which are free.
    pub(super) fn shorten(&mut self, blocks: u32) {
        self.bits.truncate(blocks.div_ceil(64) as usize);
        if let Some(last) = self.bits.last_mut().filter(|_| !blocks.is_multiple_of(64)) {
            *last &= (1 << (blocks % 64)) - 1;
        }
        self.free -= self.blocks - blocks;
        self.blocks = blocks;
        self.first = self.first.min(self.bits.len() as u32 - 1);
        // When it gets longer again, there may be something.
        self.fresh = None;
    }

    /// Adds blocks, which are free, until there are so many.
    pub(super) fn lengthen(&mut self, blocks: u32) {
        self.bits.resize(blocks.div_ceil(64) as usize, 0);
        let whole = self.blocks.next_multiple_of(64).min(blocks)..blocks / 64 * 64;
        let single = (self.blocks..whole.start).chain(whole.end.max(whole.start)..blocks);
        for block in single {
            self.give(block);
        }
        if whole.start < whole.end {
            self.bits[whole.start as usize / 64..whole.end as usize / 64].fill(u64::MAX);
            self.free += whole.end - whole.start;
            self.first = self.first.min(whole.start / 64);
        }
        self.blocks = blocks;
    }

    /// Whether some blocks are free, and some are not.
    pub(super) fn is_partly_free(&self) -> bool {
        self.free > 0 && self.free < self.blocks
    }
}
