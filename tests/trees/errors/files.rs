//! Files that are not pools, and pools whose header was changed.

use super::{BIRTH, CAPACITY, FIRST, ROOTS, Scratch, TABLE, TWINS, error, forge, holds_the_fifty, options, word};
use crate::medium::{words_of, zeroed};
use bristlecone::papers::Circular;
use bristlecone::{ErrorKind, IndexKind, Pool};
use std::fs;

#[test]
fn a_foreign_file_is_left_alone() {
    let scratch = Scratch::empty();
    for content in
        [&b"x"[..], b"1234567", b"12345678", &[0; 4096], &[7; 100_000], b"SQLite format 3\0", BIRTH.split_at(5).0]
    {
        fs::write(&scratch.path, content).unwrap();
        for create in [false, true] {
            let error = scratch.refused(&options().create(create));
            assert!(matches!(error.kind, ErrorKind::NotAPool { .. }), "{} bytes: {error}", content.len());
        }
    }
}

#[test]
fn an_empty_file_becomes_a_pool_only_if_creating_is_allowed() {
    let scratch = Scratch::empty();
    fs::write(&scratch.path, b"").unwrap();
    let error = scratch.refused(&options().create(false));
    assert!(matches!(error.kind, ErrorKind::NotAPool { found: "an empty file", .. }), "{error}");
    let pool = options().open(&scratch.path).unwrap();
    pool.tree_with::<Circular<4>>("t", IndexKind::Volatile).unwrap().insert(1, 2).unwrap();
    drop(pool);
    let pool = Pool::open(&scratch.path).unwrap();
    assert_eq!(pool.tree_with::<Circular<4>>("t", IndexKind::Volatile).unwrap().get(1), Some(2));
}

#[test]
fn no_file_is_not_found() {
    let scratch = Scratch::empty();
    for error in [
        error(Pool::open(&scratch.path)),
        error(options().create(false).open(&scratch.path)),
        error(options().read_only(true).open(&scratch.path)),
        error(options().open(scratch.path.join("below/a.pool"))),
    ] {
        assert!(matches!(error.kind, ErrorKind::NotFound), "{error}");
        scratch.named(&error);
    }
    assert!(!scratch.path.exists());
}

#[test]
fn a_directory_or_device_is_not_a_file() {
    let scratch = Scratch::empty();
    fs::create_dir(&scratch.path).unwrap();
    for options in [options(), options().create(false), options().read_only(true)] {
        let error = error(options.open(&scratch.path));
        assert!(matches!(error.kind, ErrorKind::NotAFile), "{error}");
        scratch.named(&error);
    }
    assert!(fs::read_dir(&scratch.path).unwrap().next().is_none());
    if cfg!(target_os = "linux") {
        for options in [options(), options().read_only(true)] {
            let error = error(options.open("/dev/zero"));
            assert!(matches!(error.kind, ErrorKind::NotAFile), "{error}");
            assert!(error.to_string().contains("/dev/zero"));
        }
    }
}

#[test]
fn a_truncated_pool_is_refused() {
    let scratch = Scratch::pool();
    let whole = scratch.bytes();
    // Segments of this size are in use by halves.
    let in_use = (whole.iter().rposition(|&byte| byte != 0).unwrap() + 1).next_multiple_of(2048);
    for len in [in_use - 1, FIRST + 4096, FIRST + 4095, FIRST + 1, FIRST, FIRST - 1, ROOTS, 4096 + 128, 4096, 128] {
        fs::write(&scratch.path, &whole[..len]).unwrap();
        let error = scratch.refused(&options());
        match error.kind {
            ErrorKind::Truncated { expected, found } => {
                // Without the whole header, only that is known to be missing.
                assert_eq!((expected, found), (if len < FIRST { FIRST } else { in_use } as u64, len as u64));
            }
            other => panic!("{len} bytes: {other}"),
        }
    }
    fs::write(&scratch.path, &whole[..in_use]).unwrap();
    scratch.unharmed();
    for len in [127, 64, 9, 8, 7, 1] {
        fs::write(&scratch.path, &whole[..len]).unwrap();
        let error = scratch.refused(&options());
        assert!(matches!(error.kind, ErrorKind::NotAPool { .. } | ErrorKind::Truncated { .. }), "{len} bytes: {error}");
    }
    fs::write(&scratch.path, whole).unwrap();
    scratch.unharmed();
}

// The superblock.

#[test]
fn a_future_version_is_named() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    let version = word(&good, 8);
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 1, version + 1)));
    let error = scratch.refused(&options());
    match error.kind {
        ErrorKind::Version { found, supported } => assert_eq!(found, supported + 1),
        other => panic!("{other}"),
    }
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

#[test]
fn an_unknown_incompatible_feature_is_named() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 4, 1 << 40)));
    let error = scratch.refused(&options());
    match error.kind {
        ErrorKind::Features { unknown } => assert_eq!(unknown, 1 << 40),
        other => panic!("{other}"),
    }
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

#[test]
fn an_unknown_compatible_feature_is_kept() {
    let scratch = Scratch::pool();
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 2, 1 << 41)));
    scratch.unharmed();
    for twin in TWINS {
        assert_eq!(word(&scratch.bytes(), twin + 16), 1 << 41);
    }
}

#[test]
fn an_unknown_read_only_compatible_feature_allows_reading() {
    let scratch = Scratch::pool();
    scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, 3, 1 << 42)));
    let before = scratch.bytes();
    let error = error(options().open(&scratch.path));
    assert!(matches!(error.kind, ErrorKind::Features { .. } | ErrorKind::ReadOnly { .. }), "{error}");
    scratch.named(&error);
    let pool = options().read_only(true).open(&scratch.path).unwrap();
    assert!(pool.check().unwrap().is_clean());
    drop(pool);
    assert!(before == scratch.bytes());
}

#[test]
fn one_wrong_checksum_is_made_good_by_the_twin() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for twin in TWINS {
        for at in [0, 9, 60, 70, 80, 90, 100, 127] {
            fs::write(&scratch.path, &good).unwrap();
            scratch.change(|bytes| bytes[twin + at] ^= 0x20);
            scratch.unharmed();
            // The damage is gone, too.
            let now = scratch.bytes();
            assert_eq!(now[..128], now[4096..4096 + 128], "byte {at} of the twin at {twin}");
        }
    }
}

#[test]
fn two_wrong_checksums_are_an_error() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for at in [9, 60, 70, 80, 90, 100, 127] {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| TWINS.into_iter().for_each(|twin| bytes[twin + at] ^= 0x20));
        let error = scratch.refused(&options());
        assert!(matches!(error.kind, ErrorKind::Superblock { at: 0, .. }), "{error}");
        assert!(error.to_string().contains("offset 0"), "{error}");
    }
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

#[test]
fn counters_at_their_end_are_no_panic() {
    let scratch = Scratch::pool();
    scratch.change(|bytes| {
        for twin in TWINS {
            forge(bytes, twin, 10, u64::MAX);
            forge(bytes, twin, 11, u64::MAX);
        }
    });
    match options().open(&scratch.path) {
        Ok(pool) => holds_the_fifty(&pool),
        Err(error) => scratch.named(&error),
    }
}

#[test]
fn impossible_sizes_under_a_right_checksum_are_corrupt() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for (index, value) in [(7, 0), (7, 3), (7, 1 << 31), (7, u64::MAX), (9, 0), (9, 1), (9, 1 << 60), (9, u64::MAX)] {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| TWINS.into_iter().for_each(|twin| forge(bytes, twin, index, value)));
        let error = scratch.refused(&options());
        assert!(matches!(error.kind, ErrorKind::Corrupt { at: 56, .. }), "{index} = {value:#x}: {error}");
    }
}

#[test]
fn a_damaged_root_or_table_entry_is_an_error_that_changes_nothing() {
    let scratch = Scratch::pool();
    let good = scratch.bytes();
    for at in [ROOTS, ROOTS + 5, ROOTS + 8, ROOTS + 12, ROOTS + 64, ROOTS + 100] {
        fs::write(&scratch.path, &good).unwrap();
        scratch.change(|bytes| bytes[at] ^= 0x10);
        let error = scratch.refused_to_writers(&options());
        assert!(matches!(error.kind, ErrorKind::Corrupt { at: 8192, .. }), "{error}");
        assert!(error.to_string().contains("8192"), "{error}");
    }
    fs::write(&scratch.path, &good).unwrap();
    // The entry of the first segment behind the header.
    let entry = TABLE + FIRST / 4096 * 8;
    scratch.change(|bytes| bytes[entry + 1] ^= 0x10);
    let error = scratch.refused(&options());
    assert!(matches!(error.kind, ErrorKind::Corrupt { at, .. } if at == entry as u64), "{error}");
    fs::write(&scratch.path, good).unwrap();
    scratch.unharmed();
}

// Interrupted creation.

#[test]
fn an_interrupted_creation_starts_over() {
    let scratch = Scratch::empty();
    for len in [8, 4096, CAPACITY as usize] {
        let mut content = vec![0; len];
        content[..8].copy_from_slice(BIRTH);
        fs::write(&scratch.path, &content).unwrap();
        let error = scratch.refused(&options().create(false));
        assert!(matches!(error.kind, ErrorKind::NotAPool { .. }), "{error}");
        let pool = options().open(&scratch.path).unwrap();
        assert!(pool.trees().unwrap().is_empty());
        pool.tree_with::<Circular<4>>("t", IndexKind::Volatile).unwrap();
        pool.close().unwrap();
    }
}

#[test]
fn every_cut_of_a_creation_starts_over() {
    // The whole superblock except the magic, as `create` leaves it just before the end.
    let scratch = Scratch::empty();
    let pool = options().create_on(zeroed(CAPACITY)).unwrap();
    let words = words_of(pool.medium());
    drop(pool);
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for twin in TWINS {
        forge(&mut bytes, twin, 10, 1);
        forge(&mut bytes, twin, 11, 0);
    }
    bytes[..8].copy_from_slice(BIRTH);
    for second in [&bytes[4096..4104].to_vec(), &vec![0; 8]] {
        bytes[4096..4104].copy_from_slice(second);
        fs::write(&scratch.path, &bytes).unwrap();
        let pool = options().open(&scratch.path).unwrap();
        assert!(pool.trees().unwrap().is_empty());
        pool.close().unwrap();
    }
}

#[test]
fn a_used_pool_is_never_taken_for_an_interrupted_creation() {
    // One damaged byte turns "BRISTLEC" into "BRISTLE?"; the twin still says that this is a pool.
    let scratch = Scratch::pool();
    scratch.change(|bytes| bytes[..8].copy_from_slice(BIRTH));
    scratch.unharmed();
}
