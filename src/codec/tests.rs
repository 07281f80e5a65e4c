use super::*;
use crate::entry::kind::{is_record, kind_name};
use crate::entry::raw::{KEY_MAX, Raw};
use crate::tree::PartForm;
use proptest::prelude::*;
use std::fmt::Debug;

/// What tests look at in both forms: encoded keys in a common shape that compares as they do.
trait Shown: Form {
    fn shown(encoded: Self::Encoded<'_>) -> Vec<u8>;
    fn decoded<K: Key<Form = Self>>(shown: &[u8]) -> K;
}

fn word(shown: &[u8]) -> u64 {
    u64::from_be_bytes(shown.try_into().unwrap())
}

impl Shown for Words {
    fn shown(encoded: u64) -> Vec<u8> {
        encoded.to_be_bytes().to_vec()
    }

    fn decoded<K: Key<Form = Self>>(shown: &[u8]) -> K {
        K::decode(&word(shown))
    }
}

impl Shown for ByteStrings {
    fn shown(encoded: KeyBytes<'_>) -> Vec<u8> {
        encoded.as_bytes().to_vec()
    }

    fn decoded<K: Key<Form = Self>>(shown: &[u8]) -> K {
        K::decode(shown)
    }
}

/// Whether a key lies between the bounds of a prefix.
fn contain<F: Shown>((from, to): (F::Encoded<'_>, Option<F::Encoded<'_>>), shown: &[u8]) -> bool {
    *F::shown(from) <= *shown && to.is_none_or(|to| *shown < *F::shown(to))
}

/// Every key comes back, and all pairs are in the order of their codes.
fn keys<K: Key<Form: Shown> + Debug>(keys: Vec<K>, borrow: impl for<'k> Fn(&'k K) -> K::Borrowed<'k>) {
    let codes: Vec<_> = keys.iter().map(|key| K::Form::shown(K::encode(borrow(key)))).collect();
    for (key, code) in keys.iter().zip(&codes) {
        assert_eq!(K::Form::decoded::<K>(code), *key);
        if let Some(size) = kind_of::<K>().size.filter(|_| <K::Size as Size>::BYTES.is_none()) {
            assert_eq!(code.len(), size as usize, "{key:?}");
        }
    }
    for (i, one) in codes.iter().enumerate() {
        for (j, other) in codes.iter().enumerate() {
            assert_eq!(one.cmp(other), keys[i].cmp(&keys[j]), "{:?} {:?}", keys[i], keys[j]);
        }
    }
}

/// Every key comes back, and all pairs are in the order of their codes, where a borrowed key is the key itself.
fn plain<K: for<'k> Key<Form: Shown, Borrowed<'k> = K> + Copy + Debug>(all: impl IntoIterator<Item = K>) {
    keys(all.into_iter().collect(), |key| *key);
}

/// The keys between the bounds of a prefix are those that have it.
fn prefix<K: Key<Form: Shown> + Debug, P: PrefixOf<K>>(
    keys: &[K],
    borrow: impl for<'k> Fn(&'k K) -> K::Borrowed<'k>,
    prefix: P,
    has: impl Fn(&K) -> bool,
) {
    for key in keys {
        let code = K::Form::shown(K::encode(borrow(key)));
        assert_eq!(contain::<K::Form>(prefix.bounds(), &code), has(key), "{key:?}");
    }
}

fn strings() -> Vec<String> {
    let parts = ["", "\0", "\u{1}", "a", "é", "\u{7f}", "\u{10ffff}", "\0\0", "aaaaaaaaa"];
    parts.iter().flat_map(|one| parts.iter().map(move |other| format!("{one}{other}"))).collect()
}

fn byte_strings() -> Vec<Vec<u8>> {
    let parts: [&[u8]; 8] = [b"", b"\0", b"\x01", b"\xfe", b"\xff", b"\0\xff", b"\0\0", b"\xff\xff"];
    parts.iter().flat_map(|one| parts.iter().map(move |other| [*one, *other].concat())).collect()
}

fn both<A: Clone, B: Clone>(of: &[A], with: &[B]) -> Vec<(A, B)> {
    of.iter().flat_map(|a| with.iter().map(move |b| (a.clone(), b.clone()))).collect()
}

const INTEGERS: [i64; 9] = [i64::MIN, i64::MIN + 1, -256, -1, 0, 1, 255, 256, i64::MAX];

#[test]
fn integers_keep_their_order_and_come_back() {
    plain([0u64, 1, 255, 256, 1 << 63, u64::MAX - 1, u64::MAX]);
    plain([0u32, 1, 1 << 31, u32::MAX]);
    plain([0u16, 1, 1 << 15, u16::MAX]);
    plain(0..=u8::MAX);
    plain(INTEGERS);
    plain([i32::MIN, -1, 0, 1, i32::MAX]);
    plain([i16::MIN, -1, 0, 1, i16::MAX]);
    plain(i8::MIN..=i8::MAX);
    plain([0usize, 1, usize::MAX]);
    plain([isize::MIN, -1, 0, 1, isize::MAX]);
    plain([false, true]);
    plain(['\0', 'a', 'é', '\u{d7ff}', '\u{e000}', char::MAX]);
    plain([0u128, 1, 1 << 64, 1 << 127, u128::MAX]);
    plain([i128::MIN, -1 << 64, -1, 0, 1, 1 << 64, i128::MAX]);
}

#[test]
fn arrays_keep_their_order_and_come_back() {
    plain([[0], [1], [255]]);
    plain([*b"aaa", *b"aab", *b"b\0\0", [255; 3]]);
    plain([*b"aaaaaaa", *b"aaaaaab", *b"b\0\0\0\0\0\0", [255; 7]]);
    plain([*b"aaaaaaaa", *b"aaaaaaab", *b"b\0\0\0\0\0\0\0", [255; 8]]);
    plain([[0; 9], *b"aaaaaaaaa", *b"aaaaaaaab", *b"b\0\0\0\0\0\0\0\0", [255; 9]]);
    plain([[0; 64], [1; 64], [255; 64]]);
    keys(vec![[0; 96], [1; 96], [255; 96]], |key| key);
    keys(vec![[0; 256], [1; 256], [255; 256]], |key| key);
}

#[test]
fn strings_keep_their_order_and_come_back() {
    keys(strings(), String::as_str);
    keys(byte_strings(), Vec::as_slice);
    keys(vec![vec![1; KEY_MAX], vec![1; KEY_MAX - 1], vec![0; KEY_MAX]], Vec::as_slice);
}

#[test]
fn options_keep_their_order_and_come_back() {
    plain([None, Some(0u8), Some(1), Some(255)]);
    plain([None, Some(i32::MIN), Some(-1), Some(0), Some(i32::MAX)]);
    plain([None, Some(0u64), Some(u64::MAX)]);
    plain([None, Some(None), Some(Some(0u16)), Some(Some(1))]);
    plain([None, Some(None), Some(Some(0u64)), Some(Some(1))]);
    plain([None, Some([0; 16]), Some([1; 16])]);
    keys(strings().into_iter().map(Some).chain([None]).collect(), |key| key.as_deref());
    let nested = strings().into_iter().map(Some).chain([None]).map(Some).chain([None]);
    keys(nested.collect(), |key| key.as_ref().map(|key| key.as_deref()));
}

#[test]
fn tuples_keep_their_order_and_come_back() {
    plain(both(&[0u32, 1, u32::MAX], &[0u32, 1, u32::MAX]));
    plain(both(&[i16::MIN, -1, 0, i16::MAX], &[i32::MIN, -1, 0, i32::MAX]));
    plain(both(&[0u8, 255], &[[0, 0, 0], [0, 0, 255], [255, 0, 0]]));
    plain(both(&INTEGERS, &INTEGERS));
    plain(both(&[0u128, u128::MAX], &[i128::MIN, -1, 0]));
    plain(both(&[None, Some(-1i8), Some(0)], &[None, Some('a'), Some(char::MAX)]));
    plain(both(&[None, Some([0; 16]), Some([1; 16])], &INTEGERS));
    keys(both(&strings(), &[0u64, 1, u64::MAX]), |(a, b)| (a, *b));
    keys(both(&[0u64, 1, u64::MAX], &strings()), |(a, b)| (*a, b));
    // All pairs are compared with all: every second string makes a sixteenth of that.
    let texts: Vec<_> = strings().into_iter().step_by(2).collect();
    keys(both(&texts, &texts), |(a, b)| (a, b));
    let bytes: Vec<_> = byte_strings().into_iter().step_by(2).collect();
    keys(both(&bytes, &bytes), |(a, b)| (a, b));
    let few = &byte_strings()[..20];
    let threes: Vec<_> = both(&both(few, &[None, Some(0u8), Some(1)]), few);
    keys(threes.iter().cloned().map(|((a, b), c)| (a, b, c)).collect(), |(a, b, c)| (a, *b, c));
    // Nested: the pair is one part, of any length.
    keys(threes, |((a, b), c)| ((a, *b), c));
    let options: Vec<_> = strings().into_iter().take(30).map(Some).chain([None]).collect();
    keys(both(&options, &options), |(a, b)| (a.as_deref(), b.as_deref()));
    plain(
        both(&both(&[0u8, 1], &[0u8, 1]), &both(&[0u8, 1], &[-1i16, 0]))
            .into_iter()
            .map(|((a, b), (c, d))| (a, b, c, d)),
    );
    plain(
        both(&both(&[0u8, 1], &[0u8, 1]), &both(&[0u8, 1], &[-1i32, 0])).into_iter().map(|((a, b), c)| (a, b, c, a, b)),
    );
    plain(
        both(&both(&[0u8, 1], &[0u8, 1]), &both(&[0u8, 1], &[-1i8, 0]))
            .into_iter()
            .map(|((a, b), (c, d))| (a, b, c, d, a, b)),
    );
}

/// A word as it was in the pools of earlier builds.
fn old<K: Key<Form = Words>>(key: K::Borrowed<'_>, word: u64, tag: u32) {
    assert_eq!((K::encode(key), K::KIND.tag), (word, tag), "{}", K::KIND.name());
}

#[test]
fn keys_of_old_pools_stay_as_they_are() {
    const SIGN: u64 = 1 << 63;
    old::<u64>(u64::MAX - 1, u64::MAX - 1, 1);
    old::<u32>(7, 7, 2);
    old::<u16>(7, 7, 3);
    old::<u8>(7, 7, 4);
    old::<i64>(-7, SIGN - 7, 5);
    old::<i32>(-7, SIGN - 7, 6);
    old::<i16>(-7, SIGN - 7, 7);
    old::<i8>(7, SIGN + 7, 8);
    old::<usize>(7, 7, 9);
    old::<isize>(-7, SIGN - 7, 10);
    old::<bool>(true, 1, 11);
    old::<[u8; 8]>(*b"12345678", 0x3132_3334_3536_3738, 12);
    old::<(u32, u32)>((5, 7), 5 << 32 | 7, 13);
    old::<char>('a', 97, 14);
    let values = [<f64 as Value>::KIND, <() as Value>::KIND, <Vec<u8> as Value>::KIND, <String as Value>::KIND];
    assert_eq!(values.map(|kind| kind.tag), [15, 16, 100, 101]);
    assert_eq!(values.map(|kind| kind.is_record), [false, false, true, true]);
    assert!(values.iter().all(|kind| is_record(kind.tag) == kind.is_record));
}

/// A tag, its name and a code, which pools hold.
fn pinned<K: Key<Form: Shown>>(key: K::Borrowed<'_>, tag: u32, name: &str, code: &[u8]) {
    let kind = kind_of::<K>();
    assert_eq!((kind.tag, &*kind.name()), (tag, name), "{:#x}", kind.tag);
    assert_eq!(kind_name(tag), name);
    let shown = K::Form::shown(K::encode(key));
    assert_eq!(shown.escape_ascii().to_string(), code.escape_ascii().to_string(), "{name}");
}

const fn codes(codes: [u32; 6]) -> u32 {
    1 << 31 | codes[0] | codes[1] << 5 | codes[2] << 10 | codes[3] << 15 | codes[4] << 20 | codes[5] << 25
}

#[test]
fn tags_names_and_codes_stay_as_they_are() {
    pinned::<String>("a\0", 17, "string", b"a\0");
    pinned::<Vec<u8>>(b"a\0", 18, "bytes", b"a\0");
    pinned::<u128>(1 << 120 | 2, 19, "u128", b"\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02");
    pinned::<i128>(-1, 20, "i128", b"\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff");
    pinned::<[u8; 3]>(*b"abc", 0x1_0003, "[u8; 3]", b"\0\0\0\0\0abc");
    pinned::<[u8; 9]>(*b"abcdefghi", 0x1_0009, "[u8; 9]", b"abcdefghi");
    pinned::<[u8; 256]>(&[b'a'; 256], 0x1_0100, "[u8; 256]", &[b'a'; 256]);
    pinned::<Option<u32>>(Some(7), codes([22, 2, 0, 0, 0, 0]), "option of u32", b"\0\0\0\x01\0\0\0\x07");
    pinned::<Option<i8>>(None, codes([22, 8, 0, 0, 0, 0]), "option of i8", &[0; 8]);
    pinned::<Option<i8>>(Some(-128), codes([22, 8, 0, 0, 0, 0]), "option of i8", b"\0\0\0\0\0\0\x01\0");
    pinned::<Option<u64>>(None, codes([22, 1, 0, 0, 0, 0]), "option of u64", &[0; 9]);
    pinned::<Option<[u8; 32]>>(Some([1; 32]), codes([22, 21, 1, 0, 0, 0]), "option of [u8; 32]", &[1; 33]);
    pinned::<Option<String>>(None, codes([22, 17, 0, 0, 0, 0]), "option of string", b"\0");
    pinned::<Option<String>>(Some("a\0"), codes([22, 17, 0, 0, 0, 0]), "option of string", b"\x01a\0");
    pinned::<(u32, u32)>((1, 2), 13, "(u32, u32)", b"\0\0\0\x01\0\0\0\x02");
    pinned::<(u16, u32)>((1, 2), codes([23, 3, 2, 0, 0, 0]), "(u16, u32)", b"\0\0\0\x01\0\0\0\x02");
    pinned::<(i16, i32)>((-1, 1), codes([23, 7, 6, 0, 0, 0]), "(i16, i32)", b"\0\0\x7f\xff\x80\0\0\x01");
    pinned::<(u8, [u8; 3])>((1, *b"abc"), codes([23, 4, 21, 0, 3, 0]), "(u8, [u8; 3])", b"\0\0\0\0\x01abc");
    pinned::<(bool, char)>((true, 'a'), codes([23, 11, 14, 0, 0, 0]), "(bool, char)", b"\0\0\0\x01\0\0\0a");
    pinned::<(String, u64)>(("a\0", 7), codes([23, 17, 1, 0, 0, 0]), "(string, u64)", b"a\0\xff\0\0\0\0\0\0\0\0\0\x07");
    pinned::<(u64, String)>((7, "a\0"), codes([23, 1, 17, 0, 0, 0]), "(u64, string)", b"\0\0\0\0\0\0\0\x07a\0");
    pinned::<(i64, usize)>(
        (-1, 1),
        codes([23, 5, 9, 0, 0, 0]),
        "(i64, usize)",
        b"\x7f\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\x01",
    );
    pinned::<((u32, u32), Vec<u8>)>(
        ((1, 2), b"\0"),
        codes([23, 13, 18, 0, 0, 0]),
        "((u32, u32), bytes)",
        b"\0\0\0\x01\0\0\0\x02\0",
    );
    pinned::<((String, u8), u8)>(
        (("a", 1), 2),
        codes([23, 23, 17, 4, 4, 0]),
        "((string, u8), u8)",
        b"a\0\xff\0\xff\x01\0\0\x02",
    );
    pinned::<(u8, u16, u32)>((1, 2, 3), codes([24, 4, 3, 2, 0, 0]), "(u8, u16, u32)", b"\0\x01\0\x02\0\0\0\x03");
    pinned::<(u8, i8, u8, i8)>(
        (1, 2, 3, 4),
        codes([25, 4, 8, 4, 8, 0]),
        "(u8, i8, u8, i8)",
        b"\0\0\0\0\x01\x82\x03\x84",
    );
    pinned::<(u8, u8, u8, u8, u8)>(
        (1, 2, 3, 4, 5),
        codes([26, 4, 4, 4, 4, 4]),
        "(u8, u8, u8, u8, u8)",
        b"\0\0\0\x01\x02\x03\x04\x05",
    );
    pinned::<(u8, u8, u8, u8, u8, u8)>(
        (1, 2, 3, 4, 5, 6),
        HASHES[0],
        &format!("a composite of many parts ({:#x})", HASHES[0]),
        b"\0\0\x01\x02\x03\x04\x05\x06",
    );
}

const HASHES: [u32; 3] = [0xccad_64d1, 0xe981_ebeb, 0xf059_e288];

#[test]
fn many_parts_are_known_by_their_hash() {
    let kinds = [
        kind_of::<(u8, u8, u8, u8, u8, u8)>(),
        kind_of::<Option<(u8, u8, u8, u8, u8, u8)>>(),
        kind_of::<((String, u64), [u8; 16])>(),
    ];
    assert_eq!(kinds.map(|kind| kind.tag), HASHES, "{:#x?}", kinds.map(|kind| kind.tag));
    assert_eq!(kinds.map(|kind| kind.size), [Some(6), Some(7), None]);
}

#[test]
fn types_that_fit_eight_bytes_are_words() {
    fn size<K: Key>() -> Option<u32> {
        kind_of::<K>();
        <K::Size as Size>::BYTES
    }
    assert_eq!(size::<(u8, u8)>(), Some(2));
    assert_eq!(size::<(u32, [u8; 3])>(), Some(7));
    assert_eq!(size::<([u8; 3], u32, u8)>(), Some(8));
    assert_eq!(size::<(Option<u16>, (u16, bool), i16)>(), Some(8));
    assert_eq!(size::<Option<[u8; 7]>>(), Some(8));
    assert_eq!(size::<Option<Option<(u16, u32)>>>(), Some(8));
    assert_eq!(size::<Option<[u8; 8]>>(), None);
    assert_eq!(size::<(u64, u8)>(), None);
    assert_eq!(size::<(u8, u64)>(), None);
    assert_eq!(size::<(u32, u32, u8)>(), None);
    assert_eq!(size::<(u8, String)>(), None);
    assert_eq!(size::<Option<String>>(), None);
    assert_eq!(size::<u128>(), None);
}

#[test]
fn tags_of_no_kind_have_no_name() {
    let broken = [
        0,
        21,
        99,
        102,
        0x1_0000,
        0x1_0400,
        codes([0; 6]),
        codes([1, 0, 0, 0, 0, 1]),
        codes([22, 0, 0, 0, 0, 0]),
        codes([21, 0, 0, 0, 0, 0]),
        codes([22, 22, 22, 22, 21, 1]),
        codes([23, 1, 0, 0, 0, 0]),
        codes([27, 1, 1, 1, 1, 1]),
        codes([28, 1, 1, 1, 1, 1]),
        codes([22, 22, 22, 22, 22, 22]),
    ];
    for tag in broken {
        assert_eq!(kind_name(tag), "unknown", "{tag:#x}");
    }
    assert_eq!(kind_name(100), "bytes");
    assert_eq!(kind_name(101), "string");
}

#[test]
fn strings_have_their_beginnings_as_prefixes() {
    for p in strings() {
        prefix(&strings(), String::as_str, p.as_str(), |key| key.starts_with(&p));
    }
    for p in byte_strings() {
        prefix(&byte_strings(), Vec::as_slice, p.as_slice(), |key| key.starts_with(&p));
    }
    prefix(&byte_strings(), Vec::as_slice, b"\xff\xff", |key| key.starts_with(b"\xff\xff"));
    let arrays = [[0; 16], [1; 16], [254; 16], [255; 16], *b"abcdefghijklmnop"];
    prefix(&arrays, |key| *key, b"abcd", |key| key.starts_with(b"abcd"));
    prefix(&arrays, |key| *key, b"\xff\xff", |key| key.starts_with(b"\xff\xff"));
    prefix(&arrays, |key| *key, b"", |_| true);
    prefix(&arrays, |key| *key, &[255; 17], |_| false);
    let words = [*b"abc", *b"abd", [0; 3], [255; 3]];
    prefix(&words, |key| *key, b"", |_| true);
    prefix(&words, |key| *key, b"ab", |key| key.starts_with(b"ab"));
    prefix(&words, |key| *key, &b"abc"[..], |key| key == b"abc");
    prefix(&words, |key| *key, b"\xff", |key| key[0] == 255);
    prefix(&words, |key| *key, b"abcd", |_| false);
    prefix(&words, |key| *key, b"abcdefghijk", |_| false);
    let words = [*b"abcdefgh", [0; 8], [255; 8]];
    prefix(&words, |key| *key, b"", |_| true);
    prefix(&words, |key| *key, b"abcdefgh", |key| key == b"abcdefgh");
    prefix(&words, |key| *key, &[0; 9], |_| false);
}

#[test]
fn tuples_have_their_first_parts_as_prefixes() {
    let keys = both(&[0u16, 1, u16::MAX], &[0u32, 1, u32::MAX]);
    for p in [0, 1, 2, u16::MAX] {
        prefix(&keys, |key| *key, (p,), |key| key.0 == p);
    }
    let keys = both(&[i16::MIN, -1, 0, i16::MAX], &INTEGERS);
    for p in [i16::MIN, -1, 0, 1, i16::MAX] {
        prefix(&keys, |key| *key, (p,), |key| key.0 == p);
    }
    let keys = both(&strings(), &[0u64, u64::MAX]);
    for p in strings() {
        prefix(&keys, |(a, b)| (a, *b), (&*p,), |key| key.0 == p);
    }
    let few = &byte_strings()[..20];
    let keys: Vec<_> =
        both(&both(few, &[None, Some(0u8), Some(255)]), few).into_iter().map(|((a, b), c)| (a, b, c)).collect();
    for p in few {
        prefix(&keys, |(a, b, c)| (a, *b, c), (&**p,), |key| key.0 == *p);
        for q in [None, Some(0), Some(1), Some(255)] {
            prefix(&keys, |(a, b, c)| (a, *b, c), (&**p, q), |key| key.0 == *p && key.1 == q);
        }
    }
    let keys: Vec<_> =
        both(&both(&[0u8, 255], &[0u8, 255]), &[0u8, 255]).into_iter().map(|((a, b), c)| (a, b, c)).collect();
    for p in [0, 255] {
        prefix(&keys, |key| *key, (p,), |key| key.0 == p);
        prefix(&keys, |key| *key, (p, 255), |key| (key.0, key.1) == (p, 255));
    }
}

#[test]
fn what_follows_a_prefix_is_the_smallest() {
    let after = |bytes: &[u8]| KeyBytes::from(bytes).after_prefix().map(|after| after.as_bytes().to_vec());
    assert_eq!(after(b"").as_deref(), None);
    assert_eq!(after(b"\xff\xff").as_deref(), None);
    assert_eq!(after(b"a\xff\xff").as_deref(), Some(&b"b"[..]));
    assert_eq!(after(b"a\0").as_deref(), Some(&b"a\x01"[..]));
    assert_eq!(after(&[b'a'; 100]).map(|after| (after.len(), after[99])), Some((100, b'b')));
}

#[test]
fn bytes_are_built_at_every_length() {
    for len in 0..200 {
        let mut built = KeyBytes::default();
        let bytes: Vec<u8> = (0..len).collect();
        bytes.chunks(7).for_each(|chunk| built.extend(chunk));
        assert_eq!(built.as_bytes(), bytes);
        assert_eq!(built.as_bytes(), bytes);
    }
}

#[test]
fn damaged_keys_decode_to_some_key() {
    for bytes in byte_strings().iter().map(Vec::as_slice).chain([&[0xff; 100][..], &[0; 100], b"\x01"]) {
        <String as Key>::decode(bytes);
        u128::decode(bytes);
        <[u8; 64]>::decode(bytes);
        <Option<String>>::decode(bytes);
        <Option<[u8; 16]>>::decode(bytes);
        <(String, u64)>::decode(bytes);
        <(u64, Vec<u8>, Option<String>)>::decode(bytes);
        <((String, u8), Option<u64>)>::decode(bytes);
    }
    for word in [0, u64::MAX, 1 << 63, 0x0102_0304_0506_0708] {
        <(u8, char)>::decode(&word);
        <Option<(bool, [u8; 3])>>::decode(&word);
        <(Option<u16>, i32)>::decode(&word);
    }
    assert_eq!(<String as Key>::decode(b"a\xffb"), "a\u{fffd}b");
}

#[test]
fn damaged_texts_are_values_as_far_as_they_go() {
    assert_eq!(<String as Value>::view(<String as Value>::encode("aé").unwrap().lent()), "aé");
    assert_eq!(<String as Value>::view(Raw::Bytes(b"ab\xffc")), "ab");
    assert_eq!(<String as Value>::view(Raw::Bytes(b"\xff")), "");
    assert_eq!(<String as Value>::decode(Raw::Bytes(b"ab\xffc".to_vec())).unwrap(), "ab\u{fffd}c");
    assert_eq!(<String as Value>::decode(Raw::Bytes(b"abc".to_vec())).unwrap(), "abc");
}

type Nested = (Option<Vec<u8>>, (i32, String), Vec<u8>, Option<(u8, Vec<u8>)>);

fn nested() -> impl Strategy<Value = Nested> {
    let bytes = || prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 0xfe, 0xff]), 0..5);
    let text = prop::collection::vec(prop::sample::select(vec!['\0', '\u{1}', 'a', 'ÿ']), 0..4);
    let number = prop::sample::select(vec![i32::MIN, -1, 0, 1, i32::MAX]);
    (
        prop::option::of(bytes()),
        (number, text.prop_map(String::from_iter)),
        bytes(),
        prop::option::of((any::<u8>(), bytes())),
    )
}

fn code((a, (b, c), d, e): &Nested) -> Vec<u8> {
    let e = e.as_ref().map(|(e, f)| (*e, f.as_slice()));
    Nested::encode((a.as_deref(), (*b, c.as_str()), d.as_slice(), e)).as_bytes().to_vec()
}

proptest! {
    #[test]
    fn nested_keys_keep_their_order(all in prop::collection::vec(nested(), 2..12)) {
        for one in &all {
            prop_assert_eq!(&Nested::decode(&code(one)), one);
            for other in &all {
                prop_assert_eq!(code(one).cmp(&code(other)), one.cmp(other), "{:?} {:?}", one, other);
            }
            let (a, (b, c), ..) = one;
            let prefix = (a.as_deref(), (*b, c.as_str()));
            let bounds = PrefixOf::<Nested>::bounds(&prefix);
            for other in &all {
                let has = (&other.0, &other.1) == (&one.0, &one.1);
                prop_assert_eq!(contain::<ByteStrings>(bounds.clone(), &code(other)), has, "{:?} {:?}", one, other);
            }
        }
    }

    #[test]
    fn random_words_keep_their_order(one: (i16, Option<u16>, [u8; 3]), other: (i16, Option<u16>, [u8; 3])) {
        type Of = (i16, Option<u16>, [u8; 3]);
        prop_assert_eq!(Of::decode(&Of::encode(one)), one);
        prop_assert_eq!(Of::encode(one).cmp(&Of::encode(other)), one.cmp(&other));
    }

    #[test]
    fn random_texts_keep_their_order(one: (String, i64, Vec<u8>), other: (String, i64, Vec<u8>)) {
        type Of = (String, i64, Vec<u8>);
        let code = |(a, b, c): &Of| Of::encode((a, *b, c)).as_bytes().to_vec();
        prop_assert_eq!(&Of::decode(&code(&one)), &one);
        prop_assert_eq!(code(&one).cmp(&code(&other)), one.cmp(&other));
    }
}

#[test]
fn parts_know_their_sizes() {
    assert_eq!(PartForm::of::<(String, u64)>().size, None);
    assert_eq!(PartForm::of::<Option<(u64, u8)>>().size, Some(10));
    assert_eq!(PartForm::of::<i32>().base, <i32 as Key>::encode(i32::MIN));
    assert_eq!(PartForm::of::<i16>().base, <i16 as Key>::encode(i16::MIN));
    assert_eq!(PartForm::of::<i8>().base, <i8 as Key>::encode(i8::MIN));
    assert_eq!(PartForm::of::<i64>().base, <i64 as Key>::encode(i64::MIN));
}
