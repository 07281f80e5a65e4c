//! x86-64: SSE2, which every such CPU has, for bytes; AVX-512 or AVX2 for words.
//!
//! Code that reads shared memory is assembler, because a vector load through a reference would be a data race. The
//! assembler uses only the AVX-512 registers from 16 up: their use does not slow down code in the older encoding.

use super::{Compare, FortyBytes, LaneSearch, MOST, SharedEntries, WordLanes, portable};
use crate::arch::CpuFact;
use core::arch::asm;
use core::arch::x86_64::*;
use core::sync::atomic::Ordering;

const AVX512: usize = 1;
const AVX2: usize = 2;
const SSE2: usize = 3;

#[inline]
fn chosen() -> usize {
    static METHOD: CpuFact = CpuFact::new();
    METHOD.get(|| {
        // Every CPU with the first one has the others.
        if std::arch::is_x86_feature_detected!("avx512bw")
            && std::arch::is_x86_feature_detected!("avx512vl")
            && std::arch::is_x86_feature_detected!("popcnt")
            && std::arch::is_x86_feature_detected!("bmi1")
        {
            AVX512
        } else if std::arch::is_x86_feature_detected!("avx2") {
            AVX2
        } else {
            SSE2
        }
    })
}

#[inline(always)]
pub(super) fn equal(bytes: &FortyBytes, byte: u8) -> u64 {
    let (first, second, third): (u32, u32, u32);
    // SAFETY: reads the forty bytes of `bytes` with instructions that every x86-64 CPU has.
    unsafe {
        asm!(
            "movq {wanted}, {byte}",
            "punpcklqdq {wanted}, {wanted}",
            "movdqu {a}, [{bytes}]",
            "movdqu {b}, [{bytes} + 16]",
            "movq {c}, qword ptr [{bytes} + 32]",
            "pcmpeqb {a}, {wanted}",
            "pcmpeqb {b}, {wanted}",
            "pcmpeqb {c}, {wanted}",
            "pmovmskb {first:e}, {a}",
            "pmovmskb {second:e}, {b}",
            "pmovmskb {third:e}, {c}",
            bytes = in(reg) bytes.as_ptr(),
            byte = in(reg) u64::from(byte) * 0x0101_0101_0101_0101,
            wanted = out(xmm_reg) _,
            a = out(xmm_reg) _,
            b = out(xmm_reg) _,
            c = out(xmm_reg) _,
            first = lateout(reg) first,
            second = lateout(reg) second,
            third = lateout(reg) third,
            options(nostack, preserves_flags, readonly, pure)
        );
    }
    u64::from(first) | u64::from(second) << 16 | u64::from(third & 0xff) << 32
}

/// The CPU has AVX-512 F and BW: eight words at a time.
#[derive(Clone, Copy)]
struct Avx512(());

impl Compare for Avx512 {
    #[inline(always)]
    fn below(self, words: &WordLanes, word: i64) -> usize {
        // SAFETY: a value of this type exists only on a CPU that has AVX-512 F and BW.
        unsafe { below_avx512(words, word) }
    }
}

/// The CPU has AVX2: four words at a time.
#[derive(Clone, Copy)]
struct Avx2(());

impl Compare for Avx2 {
    #[inline(always)]
    fn below(self, words: &WordLanes, word: i64) -> usize {
        // SAFETY: a value of this type exists only on a CPU that has AVX2.
        unsafe { below_avx2(words, word) }
    }
}

#[inline(always)]
pub(super) fn search<S: LaneSearch>(search: S) -> S::Found {
    match chosen() {
        AVX512 => search.by(Avx512(())),
        AVX2 => search.by(Avx2(())),
        _ => otherwise(search),
    }
}

/// Out of line, so that it does not get in the way of the faster methods.
#[cold]
#[inline(never)]
fn otherwise<S: LaneSearch>(search: S) -> S::Found {
    search.by(portable::Portable)
}

/// # Safety
///
/// The CPU has AVX-512 F and BW.
#[inline(always)]
unsafe fn below_avx512(words: &WordLanes, word: i64) -> usize {
    let count: u64;
    // SAFETY: reads the 32 words; the CPU has the instructions.
    unsafe {
        asm!(
            "vpbroadcastq zmm16, {word}",
            "vpcmpgtq k1, zmm16, [{words}]",
            "vpcmpgtq k2, zmm16, [{words} + 64]",
            "vpcmpgtq k3, zmm16, [{words} + 128]",
            "vpcmpgtq k4, zmm16, [{words} + 192]",
            "kunpckbw k1, k2, k1",
            "kunpckbw k3, k4, k3",
            "kunpckwd k1, k3, k1",
            "kmovd {count:e}, k1",
            "and {count:e}, -2", // the first word does not count
            "popcnt {count:e}, {count:e}",
            words = in(reg) words.as_ptr(),
            word = in(reg) word,
            count = lateout(reg) count,
            out("k1") _, out("k2") _, out("k3") _, out("k4") _,
            out("xmm16") _,
            options(nostack, readonly, pure)
        );
    }
    count as usize
}

/// # Safety
///
/// The CPU has AVX2.
#[inline(always)]
unsafe fn below_avx2(words: &WordLanes, word: i64) -> usize {
    let negative: i64;
    // SAFETY: reads the 32 words; the CPU has the instructions.
    unsafe {
        asm!(
            "vmovq {x:x}, {word}",
            "vpbroadcastq {x:y}, {x:x}",
            "vpxor {q:x}, {q:x}, {q:x}",
            "vpcmpgtq {p:y}, {x:y}, [{words}]",
            "vpblendd {p:y}, {p:y}, {q:y}, 3", // the first word does not count
            "vpcmpgtq {q:y}, {x:y}, [{words} + 32]",
            "vpcmpgtq {r:y}, {x:y}, [{words} + 64]",
            "vpaddq {p:y}, {p:y}, {q:y}",
            "vpcmpgtq {q:y}, {x:y}, [{words} + 96]",
            "vpaddq {p:y}, {p:y}, {r:y}",
            "vpcmpgtq {r:y}, {x:y}, [{words} + 128]",
            "vpaddq {p:y}, {p:y}, {q:y}",
            "vpcmpgtq {q:y}, {x:y}, [{words} + 160]",
            "vpaddq {p:y}, {p:y}, {r:y}",
            "vpcmpgtq {r:y}, {x:y}, [{words} + 192]",
            "vpaddq {p:y}, {p:y}, {q:y}",
            "vpcmpgtq {q:y}, {x:y}, [{words} + 224]",
            "vpaddq {p:y}, {p:y}, {r:y}",
            "vpaddq {p:y}, {p:y}, {q:y}",
            "vextracti128 {q:x}, {p:y}, 1",
            "vpaddq {p:x}, {p:x}, {q:x}",
            "vpshufd {q:x}, {p:x}, 0x4e",
            "vpaddq {p:x}, {p:x}, {q:x}",
            "vmovq {negative}, {p:x}",
            "vzeroupper",
            words = in(reg) words.as_ptr(),
            word = in(reg) word,
            x = out(xmm_reg) _,
            p = out(xmm_reg) _,
            q = out(xmm_reg) _,
            r = out(xmm_reg) _,
            negative = lateout(reg) negative,
            options(nostack, preserves_flags, readonly, pure)
        );
    }
    -negative as usize
}

pub(super) fn sorted(entries: &[[u64; 2]; MOST], wanted: u64, keys: (u64, u64), out: &mut [(u64, u64); MOST]) -> usize {
    match chosen() {
        // SAFETY: the CPU has AVX-512 F and BW, popcnt and bmi1, as `chosen` has found.
        AVX512 => unsafe { sorted_avx512(entries, wanted, keys, out) },
        _ => portable::sorted(entries, wanted, keys, out),
    }
}

#[inline]
pub(super) fn sorted_shared(
    entries: &SharedEntries,
    wanted: u64,
    keys: (u64, u64),
    out: &mut [(u64, u64); MOST],
) -> usize {
    match chosen() {
        // SAFETY: the CPU has AVX-512 F, BW and VL, popcnt and bmi1, as `chosen` has found.
        AVX512 => unsafe { sorted_shared_avx512(entries, wanted, keys, out) },
        _ => portable::sorted_shared(entries, wanted, keys, out),
    }
}

/// Eight words of shared memory: a line of a leaf.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_line(entries: &SharedEntries, line: usize) -> __m512i {
    let words = &entries[line * LANES..][..LANES];
    let loaded;
    // SAFETY: reads the eight words; the CPU has AVX-512 F.
    unsafe {
        asm!(
            "vmovdqu64 {loaded}, [{words}]",
            words = in(reg) words.as_ptr(),
            loaded = lateout(zmm_reg) loaded,
            options(nostack, preserves_flags, readonly, pure)
        );
    }
    loaded
}

/// Sorts by rank, as [`sorted_avx512`] does, but compares sixteen bits of each key, those that differ first within
/// `from..=to`. All keys are two vectors of these, so one entry after the other is moved to its place as soon as that
/// is known. If such bits of two keys are equal, all keys are compared as a whole.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,popcnt,bmi1")]
fn sorted_shared_avx512(
    entries: &SharedEntries,
    wanted: u64,
    (from, to): (u64, u64),
    out: &mut [(u64, u64); MOST],
) -> usize {
    let Some(width) = to.checked_sub(from) else { return 0 };
    let evens = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    let shift = _mm_cvtsi32_si128((48 - width.leading_zeros().cast_signed()).max(0));
    let (from_all, width_all) = (_mm512_set1_epi64(from.cast_signed()), _mm512_set1_epi64(width.cast_signed()));
    let mut inside = 0;
    let mut bits = [0u16; MOST];
    let mut parts = [_mm_setzero_si128(); MOST / LANES];
    // A loop, because whether a closure is inlined changes with the rest of the crate.
    for (i, part) in parts.iter_mut().enumerate() {
        let these = _mm512_permutex2var_epi64(load_line(entries, 2 * i), evens, load_line(entries, 2 * i + 1));
        let these = _mm512_sub_epi64(these, from_all);
        let mask = _mm512_mask_cmple_epu64_mask((wanted >> (i * LANES)) as u8, these, width_all);
        inside |= u64::from(mask) << (i * LANES);
        // Those that are left out get the greatest number, which is never less than another one.
        *part = _mm512_cvtepi64_epi16(_mm512_mask_srl_epi64(_mm512_set1_epi64(-1), mask, these, shift));
        // SAFETY: the store writes eight numbers of sixteen bits, and the slice has as many.
        unsafe { _mm_storeu_si128(bits[i * LANES..][..LANES].as_mut_ptr().cast(), *part) };
    }
    let [first, second, third, fourth, last] = parts;
    let (lower, upper) = (_mm256_set_m128i(second, first), _mm256_set_m128i(fourth, third));
    let most = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(lower), upper);
    let (mut left, mut taken) = (inside, 0u64);
    while left != 0 {
        let i = left.trailing_zeros() as usize;
        left &= left - 1;
        // Always there: `inside` has one bit for each entry.
        let (Some(&key), Some([word, value])) = (bits.get(i), entries.as_chunks::<2>().0.get(i)) else { continue };
        let less = _mm512_cmplt_epu16_mask(most, _mm512_set1_epi16(key.cast_signed())).count_ones()
            + _mm_cmplt_epu16_mask(last, _mm_set1_epi16(key.cast_signed())).count_ones();
        taken |= 1 << less;
        if let Some(out) = out.get_mut(less as usize) {
            *out = (word.load(Ordering::Relaxed), value.load(Ordering::Relaxed));
        }
    }
    // Entries that have taken the same place leave the one behind it to nobody.
    if taken != (1 << inside.count_ones()) - 1 {
        return sorted_avx512(&portable::copied(entries), inside, (from, to), out);
    }
    inside.count_ones() as usize
}

/// Sorts by rank: the number of wanted keys that are less than a key says where its entry goes. Each key is compared
/// with eight others at once, and no branch depends on them.
#[target_feature(enable = "avx512f,avx512bw,popcnt,bmi1")]
fn sorted_avx512(
    entries: &[[u64; 2]; MOST],
    wanted: u64,
    (from, to): (u64, u64),
    out: &mut [(u64, u64); MOST],
) -> usize {
    let (from, to) = (_mm512_set1_epi64(from.cast_signed()), _mm512_set1_epi64(to.cast_signed()));
    let evens = _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0);
    // The wanted keys side by side; the words behind them are never less than a key.
    let mut keys = [u64::MAX; MOST];
    let mut places = [0u8; MOST];
    let mut count = 0;
    for i in 0..MOST / LANES {
        let [low, high] = [0, 1].map(|half| {
            let part = entries[i * LANES + half * LANES / 2..][..LANES / 2].as_flattened();
            // SAFETY: the load reads eight words, and four entries are as many.
            unsafe { _mm512_loadu_epi64(part.as_ptr().cast()) }
        });
        let these = _mm512_permutex2var_epi64(low, evens, high);
        let wanted = (wanted >> (i * LANES)) as u8;
        let inside = _mm512_mask_cmpge_epu64_mask(_mm512_mask_cmple_epu64_mask(wanted, these, to), these, from);
        // `count` is at most 32 before the last part, so eight more fit.
        let target = keys[count..][..LANES].as_mut_ptr();
        let packed = _mm512_mask_compress_epi64(_mm512_set1_epi64(-1), inside, these);
        // SAFETY: the store writes eight words, and `target` has room for as many.
        unsafe { _mm512_storeu_epi64(target.cast(), packed) }
        let numbers = _mm512_add_epi64(_mm512_set1_epi64((i * LANES) as i64), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
        let numbers = _mm512_cvtepi64_epi8(_mm512_maskz_compress_epi64(inside, numbers));
        places[count..][..LANES].copy_from_slice(&_mm_cvtsi128_si64(numbers).to_ne_bytes());
        count += inside.count_ones() as usize;
    }
    let ranks = match count {
        0..=16 => ranks::<2>(&keys, count),
        17..=24 => ranks::<3>(&keys, count),
        25..=32 => ranks::<4>(&keys, count),
        _ => ranks::<5>(&keys, count),
    };
    for (&place, &rank) in places[..count].iter().zip(&ranks) {
        if let (Some(&[key, value]), Some(out)) = (entries.get(usize::from(place)), out.get_mut(usize::from(rank))) {
            *out = (key, value);
        }
    }
    count
}

/// Keys per vector.
const LANES: usize = 8;

/// How many of the keys in `VECTORS` vectors are less than each of the first `count`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,popcnt,bmi1")]
fn ranks<const VECTORS: usize>(keys: &[u64; MOST], count: usize) -> [u8; MOST] {
    let mut others = [_mm512_setzero_si512(); VECTORS];
    for (others, keys) in others.iter_mut().zip(keys.as_chunks::<LANES>().0) {
        // SAFETY: the load reads eight words, and the chunk has as many.
        *others = unsafe { _mm512_loadu_epi64(keys.as_ptr().cast()) };
    }
    let mut less = [_mm512_setzero_si512(); VECTORS];
    let one = _mm512_set1_epi64(1);
    for key in &keys[..count] {
        let key = _mm512_set1_epi64(key.cast_signed());
        for (less, others) in less.iter_mut().zip(others) {
            *less = _mm512_mask_add_epi64(*less, _mm512_cmplt_epu64_mask(key, others), *less, one);
        }
    }
    let mut ranks = [0; MOST];
    for (ranks, less) in ranks.as_chunks_mut::<LANES>().0.iter_mut().zip(less) {
        *ranks = _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(less)).to_ne_bytes();
    }
    ranks
}

pub(super) fn method() -> &'static str {
    match chosen() {
        AVX512 => "avx512",
        AVX2 => "avx2",
        _ => "sse2",
    }
}

#[cfg(test)]
type Sorted = fn(&[[u64; 2]; MOST], u64, (u64, u64), &mut [(u64, u64); MOST]) -> usize;

/// Calls `check` with the kernels of each method that the CPU has, whether it is chosen or not.
#[cfg(test)]
pub(super) fn with_each_method(mut check: impl FnMut(fn(&WordLanes, i64) -> usize, Sorted)) {
    if chosen() == AVX512 {
        check(
            |words, word| Avx512(()).below(words, word),
            // SAFETY: `chosen` has found that the CPU has the instructions.
            |entries, wanted, keys, out| unsafe { sorted_avx512(entries, wanted, keys, out) },
        );
    }
    if chosen() != SSE2 {
        check(|words, word| Avx2(()).below(words, word), portable::sorted);
    }
}
