//! Loading, looking up, scanning, counting and checking.

use super::{Desk, Ran, command, has_keys, ran, run, start};
use bristlecone::Pool;
use bristlecone::papers::{CircTree, FastFairBinary, Linear, NvTree};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

#[test]
fn what_is_loaded_is_found() {
    for options in [
        &[][..],
        &["--layout", "linear", "--index", "persistent", "--node-bytes", "1K"],
        &["--layout", "circular", "--index", "persistent", "--node-bytes", "4096", "--capacity", "64M"],
    ] {
        let desk = Desk::new();
        let loaded = desk.load(b"7\tseven\n0\t\n18446744073709551615\tmax\n20\ttabs\there\n7\tSEVEN\n", options);
        assert!(loaded.ok().contains("5 lines loaded"));
        assert_eq!(desk.run("get", &["7"]).ok(), "SEVEN\n");
        assert_eq!(desk.run("get", &["0"]).ok(), "\n");
        assert_eq!(desk.run("scan", &[]).ok(), "0\t\n7\tSEVEN\n20\ttabs\there\n18446744073709551615\tmax\n");
        assert_eq!(desk.run("scan", &["--from", "1", "--to", "20", "--reverse"]).ok(), "20\ttabs\there\n7\tSEVEN\n");
        assert_eq!(desk.run("scan", &["--limit", "1"]).ok(), "0\t\n");
        assert_eq!(desk.run("put", &["8", "-1"]).ok(), "");
        assert_eq!(desk.run("get", &["8"]).ok(), "-1\n");
        assert_eq!(desk.run("del", &["8"]).ok(), "");
        assert!(desk.run("get", &["8"]).fails(1).contains("key 8 is not in tree 'main'"));
        assert!(desk.run("del", &["8"]).fails(1).contains("key 8 is not in tree 'main'"));
        assert!(desk.run("check", &[]).ok().contains("clean: 1 tree"));
        // Loads into the existing tree, whatever it was created with.
        assert!(desk.load("21\tmore\n", &[]).ok().contains("tree 'main' has 5 keys"));
    }
}

#[test]
fn values_are_bytes() {
    let desk = Desk::new();
    let mut line = b"5\t".to_vec();
    line.extend((0..=255).filter(|&byte| byte != b'\n'));
    desk.load(&line, &[]).ok();
    line.push(b'\n');
    assert_eq!(desk.run("scan", &[]).out, line);
    assert_eq!(desk.run("get", &["5"]).out, line[2..]);
}

#[test]
fn a_bad_line_is_named_and_stops_the_load() {
    for (line, what) in [
        ("x\ty", "the key 'x' is not a decimal number"),
        ("-1\ty", "the key '-1' is not a decimal number"),
        ("3 y", "no tab between key and value"),
        ("", "no tab between key and value"),
        ("18446744073709551616\ty", "the key 18446744073709551616 is greater than 18446744073709551615"),
    ] {
        let desk = Desk::new();
        let error = desk.load(format!("1\ta\n2\tb\n{line}\n4\td\n"), &[]).fails(1);
        assert!(error.contains("data.tsv:3: ") && error.contains(what), "{error}");
        assert_eq!(desk.run("scan", &[]).ok(), "1\ta\n2\tb\n");
    }
}

#[test]
fn bad_lines_are_skipped_and_counted_if_wanted() {
    let desk = Desk::new();
    let ran = desk.load("1\ta\n\n2\tb\nx\ty\n3\tc", &["--skip-bad", "--json"]);
    assert!(ran.err.contains("data.tsv:2: ") && ran.err.contains("data.tsv:4: "), "{ran:?}");
    let object = ran.json();
    has_keys(
        &object,
        &["file", "tree", "lines", "loaded", "replaced", "skipped", "keys", "bytes", "seconds", "domain"],
    );
    assert_eq!((&object["lines"], &object["loaded"], &object["skipped"]), (&5.into(), &3.into(), &2.into()));
    assert_eq!(desk.run("scan", &[]).ok(), "1\ta\n2\tb\n3\tc\n");
}

#[test]
fn the_standard_input_is_loaded_and_acknowledged() {
    let desk = Desk::new();
    let pool = desk.pool();
    let mut load = command([OsStr::new("load"), pool.as_os_str(), "-".as_ref(), "--ack".as_ref()]);
    let mut child = start(load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    child.stdin.take().unwrap().write_all(b"3\tc\n1\ta\nbad\n").unwrap();
    let ran = Ran::new(child.wait_with_output().unwrap());
    assert_eq!(ran.out, b"3\n1\n");
    assert!(ran.fails(1).contains("standard input:3: no tab"));
}

#[test]
#[cfg(target_os = "linux")]
fn an_output_that_fails_is_named() {
    let full = || Stdio::from(std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let desk = Desk::new();
    desk.load("1\ta\n2\tb\n", &[]).ok();
    let (pool, data, dir) = (desk.pool(), desk.dir.path().join("data.tsv"), desk.dir.path());
    let [pool, data, dir] = [&pool, &data, dir].map(|path| path.to_str().unwrap());
    for args in [
        &["load", pool, data][..],
        &["load", pool, data, "--json"],
        &["load", pool, data, "--ack"],
        &["get", pool, "1"],
        &["scan", pool],
        &["dump", pool],
        &["dump", pool, "--json"],
        &["stat", pool],
        &["stat", pool, "--json"],
        &["check", pool],
        &["info", pool],
        &["tour", "--keys", "100", "--kills", "1", "--dir", dir],
        &["bench", "--keys", "200", "--repeat", "1", "--dir", dir],
    ] {
        let child = start(command(args).stdout(full()).stderr(Stdio::piped()));
        let error = Ran::new(child.wait_with_output().unwrap()).fails(1);
        let is_named = error.starts_with("bristlecone: standard output: No space left on device");
        assert!(is_named, "{args:?}: {error}");
    }
    // An error that cannot be printed still ends the command with the same code.
    assert_eq!(start(command(["get", pool, "3"]).stderr(full())).wait().unwrap().code(), Some(1));
    // A directory can be opened, but not read.
    assert!(run(["load", pool, dir]).fails(1).contains(&format!("{dir}: Is a directory")));
}

#[test]
fn a_load_that_cannot_be_is_refused() {
    let desk = Desk::new();
    let missing = desk.run("load", &["/no/such/file"]).fails(1);
    assert!(missing.contains("/no/such/file: "), "{missing}");
    assert!(!desk.pool().exists());
    let nowhere = desk.dir.path().join("no/a.pool").to_str().unwrap().to_owned();
    let error = run(["load", &nowhere, "/dev/null"]).fails(1);
    assert_eq!(error, format!("bristlecone: {nowhere}: there is no such directory"));
    assert!(desk.load("1\ta\n", &["--capacity", "4K"]).fails(1).contains("capacity of 4 KiB (4096 bytes)"));
    desk.load("1\ta\n", &["--layout", "linear"]).ok();
    assert!(desk.load("1\ta\n", &["--layout", "circular"]).fails(1).contains("linear nodes of 32 slots"));
    assert_eq!(desk.load("1\ta\n", &["--tree", ""]).code, Some(2));
    assert_eq!(desk.load("1\ta\n", &["--layout", "square"]).code, Some(2));
    assert_eq!(desk.load("1\ta\n", &["--node-bytes", "600"]).code, Some(2));
}

#[test]
fn a_tree_that_cannot_be_made_leaves_no_pool() {
    let desk = Desk::new();
    let long = desk.load("1\ta\n", &["--tree", &"x".repeat(121)]);
    assert!(long.code == Some(2) && long.err.contains("121 bytes, it must have 1 to 120"), "{long:?}");
    assert!(!desk.pool().exists());
    // An existing tree stays what it is.
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    for other in [["--layout", "circular"], ["--index", "persistent"]] {
        let told = desk.load("2\tb\n", &other).fails(1);
        assert!(told.contains("tree 'main' has one_line nodes of 39 slots with a volatile index"), "{told}");
    }
    desk.load("2\tb\n", &["--layout", "one_line", "--index", "volatile"]).ok();
}

#[test]
fn a_full_pool_says_so_and_keeps_what_it_has() {
    let desk = Desk::new();
    let lines: String = (0..200).map(|i| format!("{i}\t{}\n", "x".repeat(100_000))).collect();
    let error = desk.load(lines, &["--capacity", "20M"]).fails(1);
    assert!(error.contains("no space for") && error.contains("the capacity is 20 MiB (20971520 bytes)"), "{error}");
    let found = desk.run("check", &["--json"]).json();
    let kept = found["entries"].as_u64().unwrap();
    assert!((10..200).contains(&kept), "{found}");
    assert!(error.contains(&format!("data.tsv:{}: ", kept + 1)), "{error}");
    // With a larger capacity, the load goes on.
    assert!(desk.load("1000\tmore\n", &["--capacity", "64M"]).ok().contains(&format!("has {} keys", kept + 1)));
}

#[test]
fn trees_made_by_the_library_are_read() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    let numbers = pool.tree_of::<CircTree>("numbers").unwrap();
    let other = pool.tree_of::<FastFairBinary>("other").unwrap();
    let signed: bristlecone::Map<i64, u64> = pool.map("signed").unwrap();
    for i in 0..1000 {
        numbers.insert(i, i * i).unwrap();
        other.insert(i, u64::MAX - i).unwrap();
    }
    drop((numbers, other, signed));
    pool.close().unwrap();
    assert_eq!(desk.run("get", &["30", "--tree", "numbers"]).ok(), "900\n");
    assert_eq!(desk.run("scan", &["--tree", "other", "--reverse", "--limit", "1"]).ok(), "999\t18446744073709550616\n");
    desk.run("put", &["30", "31", "--tree", "numbers"]).ok();
    assert_eq!(desk.run("get", &["30", "--tree", "numbers"]).ok(), "31\n");
    assert!(desk.run("put", &["30", "x", "--tree", "numbers"]).fails(1).contains("must be a decimal number"));
    let ran = desk.load("1\t2\n2\tx\n", &["--tree", "numbers"]).fails(1);
    assert!(ran.contains("data.tsv:2: the value must be a decimal number"), "{ran}");
    assert!(desk.run("get", &["1", "--tree", "signed"]).fails(1).contains("keys of kind i64"));
    let missing = desk.run("get", &["1"]).fails(1);
    assert!(missing.contains("no tree 'main'; there is 'numbers', 'other', 'signed'"), "{missing}");
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!(stat["trees"].as_array().unwrap().len(), 3);
    assert_eq!(stat["keys"], 2000);
    let keys: Vec<u64> = stat["trees"].as_array().unwrap().iter().map(|tree| tree["keys"].as_u64().unwrap()).collect();
    assert_eq!(keys.iter().sum::<u64>(), 2000, "{keys:?}");
}

#[test]
fn stat_tells_what_there_is() {
    let desk = Desk::new();
    let lines: String = (0..5000u64).map(|i| format!("{}\tvalue {i}\n", i * 7919 % 5000)).collect();
    desk.load(lines, &["--layout", "circular", "--node-bytes", "1K"]).ok();
    let refused = desk.load("1\t2\n", &["--tree", "other", "--node-bytes", "1K"]).fails(2);
    assert!(refused.contains("--node-bytes goes with"), "{refused}");
    let stat = desk.run("stat", &["--json"]).json();
    has_keys(&stat, &["trees", "pool_bytes", "used_bytes", "bytes_per_key", "last_shutdown", "domain", "boots"]);
    has_keys(&stat, &["memory_bytes_per_key"]);
    has_keys(
        &stat["trees"][0],
        &["name", "layout", "index", "keys", "height", "leaves", "fill", "bytes", "memory_bytes"],
    );
    assert_eq!(stat["last_shutdown"], "clean");
    assert_eq!(stat["trees"][0]["keys"], 5000);
    assert_eq!(stat["trees"][0]["layout"], "circular/64");
    // About 110 leaves: two levels of index nodes, and the leaves.
    assert_eq!(stat["trees"][0]["height"], 3);
    let fill = stat["trees"][0]["fill"].as_f64().unwrap();
    assert!((0.5..=1.0).contains(&fill), "{fill}");
    // A chain of byte strings has no leaf for the key MAX.
    let lines: String = (0..45).map(|i| format!("{i:02}\tx\n")).collect();
    desk.load(lines, &["--tree", "texts", "--key", "text"]).ok();
    let stat = desk.run("stat", &["--json"]).json();
    let texts = stat["trees"].as_array().unwrap().iter().find(|tree| tree["name"] == "texts").unwrap();
    assert_eq!((&texts["leaves"], &texts["fill"]), (&2.into(), &0.625.into()));
    // The command changes nothing.
    assert_eq!(desk.run("stat", &["--json"]).json(), stat);
    let text = desk.run("stat", &[]).ok();
    assert!(text.contains("5,000") && text.contains("circular/64"), "{text}");
}

/// Offsets of the words in a file that equal `word`.
fn find_word(bytes: &[u8], word: u64) -> Vec<usize> {
    let words = bytes.as_chunks::<8>().0.iter().enumerate();
    words.filter(|(_, bytes)| u64::from_le_bytes(**bytes) == word).map(|(i, _)| i * 8).collect()
}

#[test]
fn names_do_not_steer_the_terminal() {
    let desk = Desk::new();
    let name = "red\u{1b}[31m\nof two lines";
    assert!(!desk.load("1\ta\n", &["--tree", name]).ok().contains('\u{1b}'));
    let stat = desk.run("stat", &[]).ok();
    assert!(stat.contains("red\\u{1b}[31m\\nof two lines"), "{stat}");
    let error = desk.run("get", &["1"]).fails(1);
    assert!(error.contains("no tree 'main'; there is 'red\\u{1b}[31m\\nof two lines'"), "{error}");
    assert_eq!(desk.run("get", &["1", "--tree", name]).ok(), "a\n");
    assert_eq!(desk.run("stat", &["--json"]).json()["trees"][0]["name"], name);
}

#[test]
fn damage_is_found_and_named() {
    let desk = Desk::new();
    let lines: String = (0..1000u64).map(|i| format!("{}\t{i}\n", i + 1_000_000_000)).collect();
    desk.load(lines, &["--capacity", "32M", "--layout", "linear"]).ok();
    let mut bytes = std::fs::read(desk.pool()).unwrap();
    // A key in the middle of a leaf, made smaller than its left neighbour.
    let places = find_word(&bytes, 1_000_000_005);
    let at = places[0];
    bytes[at..at + 8].copy_from_slice(&1_000_000_001u64.to_le_bytes());
    std::fs::write(desk.pool(), &bytes).unwrap();

    let ran = desk.run("check", &[]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let text = String::from_utf8(ran.out).unwrap();
    assert!(text.contains(&format!("offset {at} ({at:#x}): N3: ")), "{text}");
    let ran = desk.run("check", &["--json"]);
    assert_eq!(ran.code, Some(1));
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    let problem = &object["problems"][0];
    assert_eq!((problem["at"].as_u64(), problem["invariant"].as_str()), (Some(at as u64), Some("N3")));
    has_keys(problem, &["message"]);
    // The pool was only read.
    assert!(std::fs::read(desk.pool()).unwrap() == bytes);
}

#[test]
fn a_pool_that_the_machine_went_down_with_is_checked_first() {
    let went_down = "it has no journal, and was not closed before the machine was started anew: the system crashed, the power went, the \
                     machine was restarted in order after the process was killed, or the file was copied from another machine while the \
                     pool was not closed. Some changes may be lost, and the rest may not fit together; `bristlecone check \
                     --after-power-loss` checks everything, and makes it usable if it is whole; else restore a backup. A pool with a \
                     journal (`bristlecone journal add`) opens after all of that";
    let failed = "the disk has failed to take what was written, so what the system shows of the pool may be gone later; \
                  `bristlecone check --after-power-loss` copies it to a new file, which takes the place of this one once it is on the \
                  disk, checks everything, and makes it usable if it is whole: better now than after a restart of the machine. If its file \
                  system cannot be written to any more, copy the file to another one first";
    for (boot, why) in [(7, went_down), (u64::MAX, failed)] {
        let desk = Desk::new();
        desk.load("1\ta\n", &["--capacity", "32M"]).ok();
        let mut bytes = std::fs::read(desk.pool()).unwrap();
        // Makes the pool look as if it was in use in another boot, or when the disk failed: words 10 and 12 of the
        // twins.
        for twin in [0, 4096] {
            bytes[twin + 80] |= 1;
            bytes[twin + 96..twin + 104].copy_from_slice(&u64::to_le_bytes(boot));
            let crc = u64::from(crc32fast::hash(&bytes[twin..twin + 120]));
            bytes[twin + 120..twin + 128].copy_from_slice(&(crc | !crc << 32).to_le_bytes());
        }
        std::fs::write(desk.pool(), &bytes).unwrap();
        for (verb, args) in [("get", &["1"][..]), ("put", &["1", "b"]), ("scan", &[])] {
            let error = desk.run(verb, args).fails(1);
            assert_eq!(error, format!("bristlecone: {}: {why}", desk.pool().display()));
        }
        let checked = desk.run("check", &[]);
        assert_eq!(checked.code, Some(4));
        let told = String::from_utf8(checked.out).unwrap();
        assert!(told.contains("clean: 1 tree") && told.contains("--after-power-loss"), "{told}");
        let checked: Value = serde_json::from_slice(&desk.run("check", &["--json"]).out).unwrap();
        assert_eq!(checked["usable"], false);
        let told = desk.run("stat", &[]).ok();
        assert!(told.contains("before the machine was started anew") && !told.contains("closed in order"), "{told}");
        assert!(std::fs::read(desk.pool()).unwrap() == bytes);

        // A process that has the old file open finds it as it was, if there is a new one.
        let old = std::fs::File::open(desk.pool()).unwrap();
        let checked = desk.run("check", &["--after-power-loss"]).ok();
        assert!(checked.contains("clean: 1 tree") && !checked.contains("--after-power-loss"), "{checked}");
        assert_eq!(desk.run("get", &["1"]).ok(), "a\n");
        assert_eq!(desk.run("check", &["--json"]).json()["usable"], true);
        let mut now = Vec::new();
        std::io::Read::read_to_end(&mut &old, &mut now).unwrap();
        assert_eq!(now == bytes, boot == u64::MAX);
    }
}

#[test]
fn a_damaged_copy_of_the_superblock_is_named() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    assert_eq!(desk.run("check", &["--json"]).json()["damaged_twin"], Value::Null);
    for twin in [0, 4096] {
        let mut bytes = std::fs::read(desk.pool()).unwrap();
        bytes[twin..twin + 128].fill(0x55);
        std::fs::write(desk.pool(), &bytes).unwrap();
        let told = desk.run("check", &[]).ok();
        assert!(told.contains(&format!("offset {twin} ({twin:#x}): this copy of the superblock is damaged")), "{told}");
        assert!(told.contains("the next open for writing") && told.contains("clean: 1 tree"), "{told}");
        let json = desk.run("check", &["--json"]).json();
        assert_eq!((&json["damaged_twin"], &json["verdict"]), (&twin.into(), &"clean".into()));
        if twin == 0 {
            let ran = desk.run("put", &["2", "b"]);
            let mended = format!("a copy of its superblock, at offset {twin}, was damaged, and was written anew");
            assert!(ran.err.contains(&mended), "{ran:?}");
            ran.ok();
        } else {
            let told = desk.run("check", &["--repair"]).ok();
            let mended =
                format!("offset {twin} ({twin:#x}): this copy of the superblock was damaged, and was written anew\n");
            assert!(told.starts_with(&mended) && told.contains("clean: 1 tree"), "{told}");
        }
        assert!(!desk.run("check", &[]).ok().contains("superblock"));
        assert!(desk.run("put", &["2", "b"]).err.is_empty());
    }
}

#[test]
fn a_damaged_header_is_a_problem_too() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    let mut bytes = std::fs::read(desk.pool()).unwrap();
    for twin in [0, 4096] {
        bytes[twin + 80] ^= 1;
    }
    std::fs::write(desk.pool(), &bytes).unwrap();
    let ran = desk.run("check", &["--json"]);
    assert_eq!(ran.code, Some(1));
    let object: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!(object["problems"][0]["invariant"], "S1");
    assert!(desk.run("get", &["1"]).fails(1).contains("no valid superblock"));

    std::fs::write(desk.pool(), &bytes[..1 << 20]).unwrap();
    assert_eq!(desk.run("check", &[]).code, Some(1));
    std::fs::write(desk.pool(), "not a pool at all, and long enough to be looked into").unwrap();
    assert!(desk.run("check", &[]).fails(1).contains("not a pool"));
    assert!(desk.run("stat", &[]).fails(1).contains("not a pool"));
    assert!(desk.run("load", &[desk.file("d", "1\ta\n").to_str().unwrap()]).fails(1).contains("not a pool"));
}

#[test]
fn what_is_not_there_is_an_error() {
    let desk = Desk::new();
    for verb in ["stat", "check", "scan"] {
        assert!(desk.run(verb, &[]).fails(1).contains("a.pool: not found"));
    }
    assert!(desk.run("get", &["1"]).fails(1).contains("a.pool: not found"));
    assert!(!desk.pool().exists());
    let dir = desk.dir.path().to_str().unwrap();
    assert!(run(["stat", dir]).fails(1).contains("not a regular file"));
    assert!(run(["scan", dir, "--from", "2", "--to", "1"]).fails(2).contains("--from 2 is greater than --to 1"));
    assert_eq!(run(["get", dir]).code, Some(2));
    assert_eq!(run(["get", dir, "x"]).code, Some(2));
    assert_eq!(run(["nonsense"]).code, Some(2));
}

#[test]
fn a_second_opener_is_refused() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    let pool = Pool::open(desk.pool()).unwrap();
    for verb in ["stat", "check", "scan"] {
        assert!(desk.run(verb, &[]).fails(1).contains("already open"));
    }
    drop(pool);
    desk.run("check", &[]).ok();
}

#[test]
#[cfg(unix)]
fn a_closed_pipe_ends_a_scan_quietly() {
    let desk = Desk::new();
    let lines: String = (0..20_000).map(|i| format!("{i}\t{}\n", "v".repeat(40))).collect();
    desk.load(lines, &[]).ok();
    let pool = desk.pool();
    let mut scan = command([OsStr::new("scan"), pool.as_os_str()]);
    let mut child = start(scan.stdout(Stdio::piped()).stderr(Stdio::piped()));
    drop(child.stdout.take());
    let ran = Ran::new(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""));
    assert_eq!(desk.run("stat", &["--json"]).json()["last_shutdown"], "clean");
}

/// Makes the pool read-only, or writable again, for everyone.
fn read_only(pool: &std::path::Path, read_only: bool) {
    let mut permissions = std::fs::metadata(pool).unwrap().permissions();
    permissions.set_readonly(read_only);
    std::fs::set_permissions(pool, permissions).unwrap();
}

#[test]
fn a_file_that_is_only_read_is_not_changed() {
    let desk = Desk::new();
    desk.load("1\ta\n2\tb\n", &["--capacity", "32M"]).ok();
    let closed = std::fs::read(desk.pool()).unwrap();
    let pool = Pool::open(desk.pool()).unwrap();
    let main: bristlecone::Map<u64, Vec<u8>> = pool.map("main").unwrap();
    let in_use = std::fs::read(desk.pool()).unwrap();
    drop((main, pool));
    for content in [closed, in_use] {
        std::fs::write(desk.pool(), &content).unwrap();
        read_only(&desk.pool(), true);
        assert_eq!(desk.run("get", &["2"]).ok(), "b\n");
        assert_eq!(desk.run("scan", &["--reverse"]).ok(), "2\tb\n1\ta\n");
        assert!(desk.run("put", &["2", "c"]).fails(1).contains("a.pool: read-only"));
        read_only(&desk.pool(), false);
        assert!(std::fs::read(desk.pool()).unwrap() == content);
    }
    desk.run("put", &["2", "c"]).ok();
    assert_eq!(desk.run("get", &["2"]).ok(), "c\n");
}

#[test]
fn all_layouts_of_the_crate_are_checked() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(32 << 20).open(desk.pool()).unwrap();
    pool.tree_of::<NvTree>("nv").unwrap().insert(1, 2).unwrap();
    pool.tree_of::<Linear<8>>("small").unwrap().insert(1, 2).unwrap();
    pool.close().unwrap();
    let told = desk.run("check", &[]).ok();
    assert!(told.contains("clean: 2 trees"), "{told}");
}

#[test]
fn a_tree_of_another_size_is_not_checked_and_not_broken() {
    let desk = Desk::new();
    desk.load("1\ta\n", &["--capacity", "32M"]).ok();
    let pool = Pool::open(desk.pool()).unwrap();
    let odd = pool.tree_of::<Linear<12>>("odd").unwrap();
    odd.insert(1, 2).unwrap();
    drop(odd);
    pool.close().unwrap();
    let ran = desk.run("check", &[]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let told = String::from_utf8(ran.out).unwrap();
    assert!(told.contains("tree 'odd' was not checked: it has layout linear/12 with a persistent index"), "{told}");
    assert!(told.contains("nothing is broken in what was checked: 1 tree, 2 leaves, 1 entry; 1 not checked"), "{told}");
    let ran = desk.run("check", &["--json"]);
    assert_eq!(ran.code, Some(3), "{ran:?}");
    let json: Value = serde_json::from_slice(&ran.out).unwrap();
    assert_eq!((&json["unchecked"], &json["trees"]), (&serde_json::json!(["odd"]), &serde_json::json!(1)));
    assert_eq!(json["verdict"], "unchecked");
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!((&stat["problems"], &stat["trees"][1]["keys"]), (&serde_json::json!(0), &Value::Null));
    assert!(desk.run("stat", &[]).ok().contains("1 tree is not counted"));
}

#[test]
#[cfg(unix)]
fn a_limit_on_the_size_of_files_is_an_error() {
    let desk = Desk::new();
    let file = desk.file("data.tsv", "1\ta\n");
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "ulimit -f 64; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_bristlecone"), "load"]);
    let of_pool = limited.args([desk.pool(), file]);
    // There is no room for a log: nothing is left.
    assert!(ran(of_pool).fails(1).contains("a.pool: no space for"));
    assert!(!cfg!(target_os = "linux") || !desk.pool().exists());
    assert!(ran(of_pool.args(["--journal", "none"])).fails(1).contains("a.pool: no space for"));
    // An empty pool is left.
    assert!(std::fs::metadata(desk.pool()).unwrap().len() < 64 * 512);
}

#[test]
fn a_backup_is_a_pool_of_its_own() {
    let desk = Desk::new();
    desk.load("1\ta\n2\tb\n", &["--capacity", "16M"]).ok();
    let before = std::fs::read(desk.pool()).unwrap();
    let path = |name: &str| desk.dir.path().join(name).to_str().unwrap().to_owned();
    let (copy, again) = (path("copy"), path("again"));
    let told = desk.run("backup", &[&copy]).ok();
    assert!(told.contains("copy: 1 tree, 2 entries in "), "{told}");
    // The pool was only read.
    assert_eq!(std::fs::read(desk.pool()).unwrap(), before);
    let error = desk.run("backup", &[&copy]).fails(1);
    let there = "cannot create the backup: there is already something of this name, and it stays";
    assert_eq!(error, format!("bristlecone: {copy}: {there}"));
    let json = run(["restore", &copy, &again, "--json"]).json();
    has_keys(&json, &["file", "trees", "entries", "bytes", "seconds"]);
    assert_eq!(run(["dump", &again]).ok(), desk.run("dump", &[]).ok());
    assert!(run(["check", &again]).ok().contains("clean: 1 tree"));
    assert!(run(["backup", &path("missing"), &path("no")]).fails(1).contains("missing: not found"));
    // While another handle has it open.
    let open = Pool::open(desk.pool()).unwrap();
    assert!(desk.run("backup", &[&path("no")]).fails(1).contains("already open"));
    drop(open);
    std::fs::write(&again, &before[..before.len() / 2]).unwrap();
    assert!(run(["restore", &again, &path("no")]).fails(1).contains("truncated"));
    assert!(!std::path::Path::new(&path("no")).exists());
    // Where damage would cost entries without a sign, there is no copy.
    let mut refused = 0;
    for page in (0..before.len()).step_by(4096).filter(|&at| before[at..at + 4096].iter().any(|&byte| byte != 0)) {
        let mut damaged = before.clone();
        damaged[page..page + 4096].fill(0);
        std::fs::write(&again, &damaged).unwrap();
        if run(["check", &again]).code != Some(0) {
            run(["restore", &again, &path("no")]).fails(1);
            assert!(!std::path::Path::new(&path("no")).exists());
            refused += 1;
        }
    }
    assert!(refused > 1, "{refused}");
}

#[cfg(unix)]
#[test]
fn a_signal_ends_a_load_in_order() {
    for (signal, name, code) in [(libc::SIGINT, "SIGINT", 130), (libc::SIGTERM, "SIGTERM", 143)] {
        let desk = Desk::new();
        let pool = desk.pool();
        let args = [OsStr::new("load"), pool.as_os_str(), "-".as_ref(), "--ack".as_ref()];
        let mut load = command(args);
        let mut child = start(load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut stdin = child.stdin.take().unwrap();
        // Half a line stays behind two whole ones; the process waits for the rest of it.
        stdin.write_all(b"1\ta\n2\tb\n3\thalf").unwrap();
        let acknowledged = BufReader::new(child.stdout.as_mut().unwrap()).lines().take(2).count();
        assert_eq!(acknowledged, 2);
        // SAFETY: the process was not waited for, so its number is still its own.
        assert_eq!(unsafe { libc::kill(child.id() as libc::pid_t, signal) }, 0);
        let ran = Ran::new(child.wait_with_output().unwrap());
        drop(stdin);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        assert!(ran.err.contains("2 lines loaded") && ran.err.contains(name) && ran.err.contains("line 3 is the next"));
        assert!(desk.run("stat", &[]).ok().contains("closed in order"));
        assert_eq!(desk.run("scan", &[]).ok(), "1\ta\n2\tb\n");
    }
}
