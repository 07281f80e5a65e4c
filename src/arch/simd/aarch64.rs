//! aarch64: NEON, which every such CPU has.

pub(super) use super::portable::sorted_shared;
use super::{Compare, FortyBytes, LaneSearch, MOST, WordLanes, portable};
use crate::sync::Ordering;
use core::arch::aarch64::*;
use core::arch::asm;

#[inline(always)]
pub(super) fn equal(bytes: &FortyBytes, byte: u8) -> u64 {
    let words = core::array::from_fn(|i| bytes[i].load(Ordering::Relaxed));
    // SAFETY: every aarch64 CPU has NEON.
    unsafe { equal_words(words, byte) }
}

#[inline]
#[target_feature(enable = "neon")]
fn equal_words([a, b, c, d, e]: [u64; 5], byte: u8) -> u64 {
    let wanted = vdupq_n_u8(byte);
    let pair = |low, high| vcombine_u8(vcreate_u8(low), vcreate_u8(high));
    // One bit of each byte, then the sum of the bytes of eight neighbours.
    let bits = pair(0x8040_2010_0804_0201, 0x8040_2010_0804_0201);
    let which = |bytes| vandq_u8(vceqq_u8(bytes, wanted), bits);
    let (first, second, third) = (which(pair(a, b)), which(pair(c, d)), which(pair(e, !0)));
    let sums = vpaddq_u8(vpaddq_u8(first, second), vpaddq_u8(third, third));
    let mask = vgetq_lane_u64::<0>(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)));
    mask & ((1 << 40) - 1)
}

/// Two words at a time.
#[derive(Clone, Copy)]
struct Neon;

impl Compare for Neon {
    #[inline(always)]
    fn below(self, words: &WordLanes, word: i64) -> usize {
        below(words, word)
    }
}

#[inline(always)]
pub(super) fn search<S: LaneSearch>(search: S) -> S::Found {
    search.by(Neon)
}

#[inline(always)]
fn below(words: &WordLanes, word: i64) -> usize {
    let negative: i64;
    // SAFETY: reads the 32 words; every aarch64 CPU has NEON.
    unsafe {
        asm!(
            "dup {x:v}.2d, {word}",
            "ld1 {{v16.2d, v17.2d, v18.2d, v19.2d}}, [{words}], #64",
            "ld1 {{v20.2d, v21.2d, v22.2d, v23.2d}}, [{words}], #64",
            "ld1 {{v24.2d, v25.2d, v26.2d, v27.2d}}, [{words}], #64",
            "ld1 {{v28.2d, v29.2d, v30.2d, v31.2d}}, [{words}]",
            "cmgt v16.2d, {x:v}.2d, v16.2d",
            "mov v16.d[0], xzr", // the first word does not count
            "cmgt v17.2d, {x:v}.2d, v17.2d",
            "cmgt v18.2d, {x:v}.2d, v18.2d",
            "cmgt v19.2d, {x:v}.2d, v19.2d",
            "cmgt v20.2d, {x:v}.2d, v20.2d",
            "cmgt v21.2d, {x:v}.2d, v21.2d",
            "cmgt v22.2d, {x:v}.2d, v22.2d",
            "cmgt v23.2d, {x:v}.2d, v23.2d",
            "cmgt v24.2d, {x:v}.2d, v24.2d",
            "cmgt v25.2d, {x:v}.2d, v25.2d",
            "cmgt v26.2d, {x:v}.2d, v26.2d",
            "cmgt v27.2d, {x:v}.2d, v27.2d",
            "cmgt v28.2d, {x:v}.2d, v28.2d",
            "cmgt v29.2d, {x:v}.2d, v29.2d",
            "cmgt v30.2d, {x:v}.2d, v30.2d",
            "cmgt v31.2d, {x:v}.2d, v31.2d",
            "add v16.2d, v16.2d, v17.2d",
            "add v18.2d, v18.2d, v19.2d",
            "add v20.2d, v20.2d, v21.2d",
            "add v22.2d, v22.2d, v23.2d",
            "add v24.2d, v24.2d, v25.2d",
            "add v26.2d, v26.2d, v27.2d",
            "add v28.2d, v28.2d, v29.2d",
            "add v30.2d, v30.2d, v31.2d",
            "add v16.2d, v16.2d, v18.2d",
            "add v20.2d, v20.2d, v22.2d",
            "add v24.2d, v24.2d, v26.2d",
            "add v28.2d, v28.2d, v30.2d",
            "add v16.2d, v16.2d, v20.2d",
            "add v24.2d, v24.2d, v28.2d",
            "add v16.2d, v16.2d, v24.2d",
            "addp d16, v16.2d",
            "fmov {negative}, d16",
            words = inout(reg) words.as_ptr() => _,
            word = in(reg) word,
            x = out(vreg_low16) _,
            negative = lateout(reg) negative,
            out("v16") _, out("v17") _, out("v18") _, out("v19") _,
            out("v20") _, out("v21") _, out("v22") _, out("v23") _,
            out("v24") _, out("v25") _, out("v26") _, out("v27") _,
            out("v28") _, out("v29") _, out("v30") _, out("v31") _,
            options(nostack, preserves_flags, readonly)
        );
    }
    -negative as usize
}

pub(super) fn sorted(entries: &[[u64; 2]; MOST], wanted: u64, keys: (u64, u64), out: &mut [(u64, u64); MOST]) -> usize {
    portable::sorted(entries, wanted, keys, out)
}

pub(super) fn method() -> &'static str {
    "neon"
}
