//! Keys of all kinds, and dumps that are loaded again.

use super::{Desk, Ran, command, run, start};
use bristlecone::codec::{Kind, Raw, Refusal};
use bristlecone::{Map, Pool, Postcard, Value};
use std::borrow::Cow;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;

/// Keys and values with all that lines, escapes and JSON could stumble over.
const HOSTILE: [&[u8]; 12] = [
    b"",
    b"\0",
    b"\t",
    b"\n",
    b"\r\n",
    b"\\",
    b"\\n\\x41\\",
    b"\"quotes\" 'too'",
    b"{\"key\":1}",
    "é\u{9b}\u{2028}\u{10ffff}".as_bytes(),
    b"\xff",
    b"a\0\xff\xfe\xc3\t\n\\",
];

/// `bristlecone VERB POOL ARGS...`
fn on(verb: &str, pool: &Path, args: &[&str]) -> Ran {
    run([verb, pool.to_str().unwrap()].iter().chain(args))
}

/// `bristlecone load POOL - ARGS...` with these lines.
fn load(pool: &Path, lines: &[u8], args: &[&str]) -> Ran {
    let mut load = command(["load", pool.to_str().unwrap(), "-"].iter().chain(args));
    let mut child = start(load.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // A command that is refused ends before it reads.
    let _ = child.stdin.take().unwrap().write_all(lines);
    Ran::new(child.wait_with_output().unwrap())
}

#[test]
fn texts_are_keys() {
    let desk = Desk::new();
    desk.load("bob\t2\nal\t0\nalice\t1\nallen\\n\t3\tand more\n", &["--key", "text"]).ok();
    // The tree says how its keys are written.
    assert_eq!(desk.run("get", &["alice"]).ok(), "1\n");
    assert_eq!(desk.run("get", &["alice", "--key", "text"]).ok(), "1\n");
    assert_eq!(desk.run("scan", &[]).ok(), "al\t0\nalice\t1\nallen\\n\t3\tand more\nbob\t2\n");
    assert_eq!(desk.run("scan", &["--prefix", "ali"]).ok(), "alice\t1\n");
    assert_eq!(desk.run("scan", &["--prefix", "al", "--reverse", "--limit", "1"]).ok(), "allen\\n\t3\tand more\n");
    assert_eq!(desk.run("scan", &["--prefix", "x"]).ok(), "");
    assert_eq!(desk.run("scan", &["--from", "alb", "--to", "alice"]).ok(), "alice\t1\n");
    assert!(desk.run("scan", &["--from", "b", "--to", "a"]).fails(2).contains("--from 'b' is greater than --to 'a'"));
    assert_eq!(desk.run("scan", &["--prefix", "a", "--from", "b"]).code, Some(2));
    desk.run("put", &["7", "seven"]).ok();
    desk.run("put", &["", "nobody"]).ok();
    assert_eq!(desk.run("scan", &["--limit", "2"]).ok(), "\tnobody\n7\tseven\n");
    desk.run("del", &["7"]).ok();
    assert!(desk.run("del", &["7"]).fails(1).contains("key '7' is not in tree 'main'"));
    assert!(desk.run("get", &["zed"]).fails(1).contains("key 'zed' is not in tree 'main'"));
    assert!(desk.load("carol\t4\n", &[]).ok().contains("tree 'main' has 6 keys"));
    assert!(desk.run("check", &[]).ok().contains("clean: 1 tree"));
    assert_eq!(desk.run("stat", &["--json"]).json()["trees"][0]["key_kind"], "string");
    let pool = Pool::open(desk.pool()).unwrap();
    let main: Map<String, Vec<u8>> = pool.map("main").unwrap();
    assert_eq!(main.get("carol").unwrap().as_deref(), Some(&b"4"[..]));
}

#[test]
fn texts_are_values() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    let main: Map<String, String> = pool.map("main").unwrap();
    main.insert("ada", "Lovelace").unwrap();
    drop((main, pool));
    assert_eq!(desk.run("get", &["ada"]).ok(), "Lovelace\n");
    desk.run("put", &["alan", "Turing"]).ok();
    desk.load("grace\tHopper\n", &[]).ok();
    let refused = desk.load(b"kurt\tG\xf6del\n", &[]).fails(1);
    assert!(refused.contains("the value must be UTF-8"), "{refused}");
    assert_eq!(desk.run("scan", &[]).ok(), "ada\tLovelace\nalan\tTuring\ngrace\tHopper\n");
    assert!(desk.run("dump", &["--json"]).ok().starts_with("{\"key\":\"ada\",\"value\":\"Lovelace\"}\n"));
}

#[test]
fn bytes_are_keys() {
    let desk = Desk::new();
    desk.load("00ff\ta\nFFff\tb\n\tempty\n00\tc\n", &["--key", "hex"]).ok();
    assert_eq!(desk.run("scan", &[]).ok(), "\tempty\n00\tc\n00ff\ta\nffff\tb\n");
    assert_eq!(desk.run("scan", &["--prefix", "00"]).ok(), "00\tc\n00ff\ta\n");
    assert_eq!(desk.run("scan", &["--prefix", "ff", "--key", "hex"]).ok(), "ffff\tb\n");
    assert_eq!(desk.run("scan", &["--from", "01"]).ok(), "ffff\tb\n");
    assert_eq!(desk.run("get", &["00FF"]).ok(), "a\n");
    desk.run("del", &["00ff"]).ok();
    assert!(desk.run("get", &["00ff"]).fails(1).contains("key 00ff is not in tree 'main'"));
    assert!(desk.run("get", &["0"]).fails(2).contains("the key '0' is not hex"));
    assert!(desk.run("scan", &["--prefix", "0x"]).fails(2).contains("the key '0x' is not hex"));
    let pool = Pool::open(desk.pool()).unwrap();
    let main: Map<Vec<u8>, Vec<u8>> = pool.map("main").unwrap();
    assert_eq!(main.get(&[0xff, 0xff]).unwrap().as_deref(), Some(&b"b"[..]));
}

#[test]
fn keys_of_another_kind_are_refused() {
    let desk = Desk::new();
    desk.load("1\ta\n", &[]).ok();
    desk.load("1\ta\n", &["--key", "text", "--tree", "names"]).ok();
    for (verb, args) in [
        ("get", &["1", "--key", "text"][..]),
        ("put", &["1", "x", "--key", "text"]),
        ("del", &["1", "--key", "text"]),
        ("scan", &["--key", "text"]),
        ("dump", &["--key", "text"]),
    ] {
        let error = desk.run(verb, args).fails(1);
        assert!(error.contains("tree 'main' has u64 keys, and --key is text"), "{error}");
    }
    let error = desk.load("2\tb\n", &["--key", "u64", "--tree", "names"]).fails(1);
    assert!(error.contains("tree 'names' has text keys, and --key is u64"), "{error}");
    assert!(desk.run("scan", &["--prefix", "1"]).fails(2).contains("--prefix is for text and hex keys"));
    // What can be told before there is a pool, is: no pool is left behind.
    let other = desk.dir.path().join("other.pool");
    for args in [["--layout", "linear"], ["--index", "flat"], ["--node-bytes", "1K"]] {
        let error = load(&other, b"a\tb\n", &[&["--key", "text"][..], &args].concat()).fails(2);
        assert!(error.contains("--layout, --node-bytes and --index are for u64 keys"), "{error}");
    }
    assert_eq!(load(&other, b"", &["--key", "i64"]).code, Some(2));
    let missing = on("get", &other, &["alice"]).fails(2);
    assert!(missing.contains("other.pool: not found; the key 'alice' is not a decimal number"), "{missing}");
    assert!(on("get", &other, &["alice", "--key", "text"]).fails(1).contains("other.pool: not found"));
    assert!(!other.exists());
}

#[test]
fn trees_of_other_types_are_named_and_not_read() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    let quotes: Map<(String, u64), u64> = pool.map("quotes").unwrap();
    let wide: Map<u128, u64> = pool.map("wide").unwrap();
    let counts: Map<String, u64> = pool.map("counts").unwrap();
    quotes.insert(("EUR", 7), 1).unwrap();
    counts.insert("a", 7).unwrap();
    drop((quotes, wide, counts));
    pool.close().unwrap();
    for (tree, kind) in [("quotes", "(string, u64)"), ("wide", "u128")] {
        for (verb, args) in
            [("get", &["1", "--tree", tree][..]), ("scan", &["--tree", tree]), ("dump", &["--tree", tree])]
        {
            let error = desk.run(verb, args).fails(1);
            assert!(
                error.contains(&format!("tree '{tree}' has keys of kind {kind}, which the command line")),
                "{error}"
            );
        }
        assert!(desk.load("1\ta\n", &["--tree", tree]).fails(1).contains(&format!("keys of kind {kind}")));
    }
    assert_eq!(desk.run("dump", &["--tree", "counts", "--json"]).ok(), "{\"key\":\"a\",\"value\":7}\n");
    assert!(desk.run("put", &["a", "x", "--tree", "counts"]).fails(1).contains("must be a decimal number"));
    let error = desk.load("b\t1\nc\tx\n", &["--tree", "counts"]).fails(1);
    assert!(error.contains("data.tsv:2: the value must be a decimal number"), "{error}");
    assert_eq!(desk.run("get", &["b", "--tree", "counts"]).ok(), "1\n");
}

/// A text with a kind of its own.
struct Note;

impl Value for Note {
    const KIND: Kind = Kind::own("note", <String as Value>::KIND);
    type Borrowed<'v> = &'v str;
    type View<'v> = &'v str;

    fn encode<'v>(value: Self::Borrowed<'v>) -> Result<Raw<Cow<'v, [u8]>>, Refusal> {
        String::encode(value)
    }

    fn decode(_stored: Raw) -> Result<Self, Refusal> {
        Ok(Self)
    }

    fn view<'v>(encoded: Raw<&'v [u8]>) -> Self::View<'v> {
        String::view(encoded)
    }
}

/// What lies there is shown. Only a program that knows the type changes it.
#[test]
fn trees_of_types_of_programs_are_read_and_not_changed() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    pool.map::<String, Note>("texts").unwrap().insert("a", "rain").unwrap();
    pool.map::<u64, Note>("words").unwrap().insert(1, "rain").unwrap();
    pool.close().unwrap();
    for (tree, key) in [("texts", "a"), ("words", "1")] {
        let of_tree = ["--tree", tree];
        let refused = |ran: Ran| {
            let error = ran.fails(1);
            let told = "-> note (string): only a program that knows these kinds changes it";
            assert!(error.ends_with(told), "{error}");
        };
        refused(desk.run("put", &[key, "sun", of_tree[0], tree]));
        refused(desk.run("put", &["2", "sun", of_tree[0], tree]));
        refused(desk.run("del", &[key, of_tree[0], tree]));
        refused(desk.load(format!("{key}\tsun\n"), &of_tree));
        refused(desk.load("", &of_tree));
        assert_eq!(desk.run("get", &[key, of_tree[0], tree]).ok(), "rain\n");
        assert_eq!(desk.run("scan", &of_tree).ok(), format!("{key}\train\n"));
        assert_eq!(desk.run("dump", &of_tree).ok(), format!("{key}\train\n"));
    }
    let stat = desk.run("stat", &[]).ok();
    assert!(stat.contains("string -> note (string)"), "{stat}");
    assert!(desk.run("check", &[]).ok().contains("clean: 2 trees"));
}

/// It takes the library's feature `serde`, which all tests of the workspace have so.
#[test]
fn values_of_serde_are_counted_and_checked() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    pool.map::<u64, Postcard<(String, u8)>>("m").unwrap().insert(1, &("rain".to_owned(), 7)).unwrap();
    pool.close().unwrap();
    assert!(desk.run("stat", &[]).ok().contains("-> postcard (bytes)"));
    assert!(desk.run("check", &[]).ok().contains("clean: 1 tree"));
}

/// Dumps in both forms are loaded and dumped again, which must give the same lines.
#[track_caller]
fn round_trips(pool: &Path, kind: &str, entries: usize) {
    let text = on("dump", pool, &[]).ok();
    let json = on("dump", pool, &["--json"]).ok();
    for (lines, format) in [(&text, "escaped"), (&json, "json")] {
        assert_eq!(lines.lines().count(), entries);
        assert!(lines.chars().all(|c| c == '\n' || c == '\t' || !c.is_control() || format == "json"), "{lines:?}");
        let copy = pool.with_extension(format);
        let told = load(&copy, lines.as_bytes(), &["--key", kind, "--format", format]).ok();
        assert!(told.contains(&format!("tree 'main' has {entries} keys")), "{told}");
        assert_eq!(on("dump", &copy, &[]).ok(), text);
        assert_eq!(on("dump", &copy, &["--json"]).ok(), json);
        std::fs::remove_file(copy).unwrap();
    }
}

#[test]
fn what_is_dumped_is_loaded_again() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    let main: Map<Vec<u8>, Vec<u8>> = pool.map("main").unwrap();
    for (key, value) in HOSTILE.iter().zip(HOSTILE.iter().cycle().skip(5)) {
        main.insert(key, value).unwrap();
    }
    main.insert(&vec![0xff; 65_536], &vec![0; 100_000]).unwrap();
    drop(main);
    pool.close().unwrap();
    round_trips(&desk.pool(), "hex", HOSTILE.len() + 1);
}

#[test]
fn texts_that_are_dumped_are_loaded_again() {
    let desk = Desk::new();
    let pool = Pool::options().capacity(64 << 20).open(desk.pool()).unwrap();
    let main: Map<String, Vec<u8>> = pool.map("main").unwrap();
    let texts = || HOSTILE.iter().filter_map(|bytes| std::str::from_utf8(bytes).ok());
    for (key, value) in texts().zip(HOSTILE.iter().rev()) {
        main.insert(key, value).unwrap();
    }
    main.insert(&"\0".repeat(65_536), b"").unwrap();
    drop(main);
    pool.close().unwrap();
    round_trips(&desk.pool(), "text", texts().count() + 1);
    assert!(desk.run("dump", &[]).ok().contains("\n\\\\n\\\\x41\\\\\t"));
}

#[test]
fn numbers_that_are_dumped_are_loaded_again() {
    let desk = Desk::new();
    desk.load(b"18446744073709551615\t\xff\\\n0\tzero\n", &[]).ok();
    assert_eq!(desk.run("dump", &[]).ok(), "0\tzero\n18446744073709551615\t\\xff\\\\\n");
    assert_eq!(
        desk.run("dump", &["--json"]).ok(),
        "{\"key\":0,\"value\":\"zero\"}\n{\"key\":18446744073709551615,\"value_hex\":\"ff5c\"}\n"
    );
    round_trips(&desk.pool(), "u64", 2);
}

#[test]
fn a_bad_line_of_each_form_is_named() {
    for (format, kind, line, what) in [
        ("plain", "text", &b"a b"[..], "no tab between key and value"),
        ("plain", "text", b"\xff\ta", "the key '\u{fffd}' is not UTF-8"),
        ("plain", "hex", b"abc\ta", "the key 'abc' is not hex"),
        ("escaped", "text", b"a\t\\q", "'\\q' is no escape"),
        ("escaped", "text", b"\\xff\ta", "the key '\u{fffd}' is not UTF-8"),
        ("json", "text", b"{\"key\":\"a\"", "no entry in JSON: EOF while parsing an object at column 10"),
        ("json", "text", b"a\tb", "no entry in JSON: expected value at column 1"),
        ("json", "u64", b"{\"key\":null,\"value\":\"b\"}", "no entry in JSON: 'key' must be a number"),
        ("json", "u64", b"{\"key\":\"a\",\"value\":\"b\"}", "the key 'a' is not a decimal number"),
        ("json", "text", b"{\"key\":\"a\"}", "no entry in JSON: it has no 'value'"),
    ] {
        let good = |key: &str| match (format, kind) {
            ("json", "u64") => format!("{{\"key\":{key},\"value\":\"x\"}}\n"),
            ("json", _) => format!("{{\"key\":\"{key}\",\"value\":\"x\"}}\n"),
            _ => format!("{key}\tx\n"),
        };
        let lines = [good("11").as_bytes(), line, b"\n", good("22").as_bytes()].concat();
        let desk = Desk::new();
        let error = desk.load(&lines, &["--format", format, "--key", kind]).fails(1);
        assert!(error.contains("data.tsv:2: ") && error.contains(what), "{error}");
        assert!(error.contains("1 line before it is loaded"), "{error}");
        let skipped = desk.load(&lines, &["--format", format, "--skip-bad"]).ok();
        assert!(skipped.contains("1 bad line skipped); tree 'main' has 2 keys"), "{skipped}");
    }
}

#[test]
fn a_load_of_nothing_leaves_no_tree_of_other_keys() {
    let desk = Desk::new();
    let error = desk.load("aa\tx\n", &[]).fails(1);
    assert!(error.contains("0 lines before it are loaded"), "{error}");
    // With the right keys, it works.
    desk.load("aa\tx\n", &["--key", "text"]).ok();
    // A tree that was there stays, though it is empty.
    desk.run("del", &["aa"]).ok();
    desk.load("no tab\n", &[]).fails(1);
    let stat = desk.run("stat", &["--json"]).json();
    assert_eq!(stat["trees"][0]["keys"], 0);
}

#[test]
fn keys_of_another_kind_are_told_from_wrong_keys() {
    let desk = Desk::new();
    desk.load("readme\tx\n", &["--key", "text"]).ok();
    for verb in [&["get", "readme"][..], &["put", "readme", "y"], &["del", "readme"]] {
        let error = desk.run(verb[0], &[&verb[1..], &["--key", "hex"]].concat()).fails(1);
        assert!(error.contains("tree 'main' has text keys, and --key is hex"), "{error}");
    }
}

#[test]
fn a_key_that_is_too_long_is_a_bad_line() {
    let desk = Desk::new();
    let lines = format!("a\t1\n{}\t2\nb\t3\n", "x".repeat(65_537));
    let error = desk.load(&lines, &["--key", "text"]).fails(1);
    assert!(
        error.contains("data.tsv:2: ")
            && error.contains("key of 64.0 KiB (65537 bytes), the limit is 64 KiB (65536 bytes)"),
        "{error}"
    );
    assert!(desk.load(&lines, &["--skip-bad"]).ok().contains("tree 'main' has 2 keys"));
    let long = "x".repeat(65_537);
    assert!(
        desk.run("put", &[&long, "1"])
            .fails(1)
            .contains("key of 64.0 KiB (65537 bytes), the limit is 64 KiB (65536 bytes)")
    );
    assert_eq!(desk.run("get", &[&long]).code, Some(1));
    assert_eq!(desk.run("scan", &["--from", &long]).ok(), "");
    assert_eq!(desk.run("scan", &["--prefix", &long]).ok(), "");
}

#[test]
fn keys_are_acknowledged_in_one_line_each() {
    let desk = Desk::new();
    let ran = desk.load("a\\nb\t1\nc\t2\n", &["--key", "text", "--format", "escaped", "--ack"]);
    assert_eq!(ran.ok(), "a\\nb\nc\n");
    let ran = desk.load("{\"key\":\"a\\nb\",\"value\":\"1\"}\n", &["--format", "json", "--ack"]);
    assert_eq!(ran.ok(), "a\\nb\n");
    assert_eq!(desk.load("a\\nb\t1\n", &["--ack"]).ok(), "a\\nb\n");
}
