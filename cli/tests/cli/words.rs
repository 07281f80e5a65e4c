//! What a user of a shell is told: whole texts, in words of the shell.

use super::{Desk, Ran, command, ran, run};
use std::ffi::OsStr;
use std::fs;

/// The subcommands that the help lists.
fn verbs() -> Vec<String> {
    let help = run(["--help"]).ok();
    let list = help.split_once("Commands:\n").unwrap().1.split_once("\n\n").unwrap().0;
    let verb = |line: &str| line.strip_prefix("  ")?.split_once(' ').map(|(verb, _)| verb.to_owned());
    list.lines().filter_map(verb).filter(|verb| !verb.is_empty() && verb != "help").collect()
}

#[test]
fn help_fits_the_terminal_and_names_nothing_of_rust() {
    let verbs = verbs();
    assert!(verbs.len() > 15 && verbs.iter().any(|verb| verb == "load"), "{verbs:?}");
    let verbs = verbs.iter().map(|verb| vec![&**verb]);
    let all = verbs.chain([vec![], vec!["journal", "add"], vec!["journal", "remove"]]);
    for verb in all {
        for (how, columns, most) in [("--help", None, 100), ("-h", None, 100), ("--help", Some("72"), 72)] {
            let mut asked = command(verb.iter().chain([&how]));
            asked.env_remove("COLUMNS").envs(columns.map(|columns| ("COLUMNS", columns)));
            let help = ran(&mut asked).ok();
            for line in help.lines() {
                assert!(line.chars().count() <= most, "{verb:?} {how}: {line}");
                assert!(!line.contains("::"), "{verb:?} {how}: {line}");
            }
        }
    }
}

#[test]
fn a_pool_is_not_called_dash() {
    let desk = Desk::new();
    let data = desk.file("data.tsv", "1\ta\n");
    desk.load("1\ta\n", &[]).ok();
    let (pool, data) = (desk.pool(), data.to_str().unwrap().to_owned());
    let pool = pool.to_str().unwrap();
    let here = |args: &[&str]| ran(command(args).current_dir(desk.dir.path()));
    let before = fs::read_dir(desk.dir.path()).unwrap().count();
    let why = "a pool is a file, never the standard input or output, and comes first, as in `load POOL -`; a file called - is ./-";
    for (args, name) in [
        (&["load", "-", &data][..], "<POOL>"),
        (&["load", "-", "-"], "<POOL>"),
        (&["put", "-", "1", "a"], "<POOL>"),
        (&["scan", "-"], "<POOL>"),
        (&["stat", "-"], "<POOL>"),
        (&["check", "-"], "<POOL>"),
        (&["compact", "-"], "<POOL>"),
        (&["journal", "add", "-"], "<POOL>"),
        (&["backup", "-", "b.pool"], "<FROM>"),
        (&["backup", pool, "-"], "<TO>"),
    ] {
        let ran = here(args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        let told = format!("error: invalid value '-' for '{name}': {why}\n\nFor more information, try '--help'.\n");
        assert_eq!(ran.err, told, "{args:?}");
    }
    assert_eq!(fs::read_dir(desk.dir.path()).unwrap().count(), before);
    here(&["load", "./-", &data]).ok();
    assert_eq!(here(&["get", "./-", "1"]).ok(), "a\n");
}

#[test]
fn a_file_that_nobody_may_write_is_left_and_read() {
    let desk = Desk::new();
    desk.load("1\ta\n", &[]).ok();
    let mut permissions = fs::metadata(desk.pool()).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(desk.pool(), permissions).unwrap();
    // Root may write to any file.
    let why = match fs::File::options().write(true).open(desk.pool()) {
        Ok(_) => {
            "nobody has permission to write to its file, and that holds for root, too; give it (chmod u+w), or only read the pool"
        }
        Err(_) => "there is no permission to write to its file; change that, or only read the pool",
    };
    let told = format!("bristlecone: {}: read-only: {why}", desk.pool().display());
    assert_eq!(desk.run("put", &["1", "b"]).fails(1), told);
    assert_eq!(desk.load("1\tb\n", &[]).fails(1), told);
    assert_eq!(desk.run("compact", &[]).fails(1), told);
    assert_eq!(desk.run("get", &["1"]).ok(), "a\n");
}

/// What `load` says in the end, without the time that it took.
fn summary(ran: Ran) -> String {
    let told = ran.ok();
    let (start, rest) = told.split_once(" in ").unwrap();
    let (_, end) = rest.split_once(" (").unwrap();
    format!("{} ({end}", &start[start.find("data.tsv").unwrap()..])
}

#[test]
fn ends_and_marks_of_another_system_are_left_out_and_counted() {
    const LINES: &[u8] = b"\xef\xbb\xbfa\tx\r\nb\ty\r\r\nc\tz\n";
    let desk = Desk::new();
    let told = summary(desk.load(LINES, &["--key", "text"]));
    assert_eq!(
        told,
        "data.tsv: 3 lines loaded (0 keys replaced), without 2 carriage returns at lines' ends and a byte order mark \
         (--exact keeps that); tree 'main' has 3 keys\n"
    );
    assert_eq!(desk.run("scan", &[]).out, b"a\tx\nb\ty\r\nc\tz\n");
    let object = desk.load(LINES, &["--json"]).json();
    assert_eq!(object["left_out"], serde_json::json!({ "carriage_returns": 2, "byte_order_mark": true }));
    // Numbers have no mark, and are found behind it.
    let told = summary(desk.load("\u{feff}1\ta\r\n", &["--tree", "numbers", "--format", "escaped"]));
    assert!(told.contains("without 1 carriage return at a line's end and a byte order mark (--exact"), "{told}");
    assert_eq!(desk.run("dump", &["--tree", "numbers"]).ok(), "1\ta\n");
    let failed = desk.load("1\ta\r\nx\n", &["--tree", "numbers"]).fails(1);
    assert!(
        failed.ends_with(
            ": no tab between key and value; 1 line before it is loaded, without 1 carriage return at a line's end"
        ),
        "{failed}"
    );

    let desk = Desk::new();
    let told = summary(desk.load(LINES, &["--key", "text", "--exact"]));
    assert_eq!(told, "data.tsv: 3 lines loaded (0 keys replaced); tree 'main' has 3 keys\n");
    assert_eq!(desk.run("scan", &[]).out, b"b\ty\r\r\nc\tz\n\xef\xbb\xbfa\tx\r\n");
    // What was scanned is loaded as it was.
    let scanned = desk.run("scan", &[]).out;
    desk.load(&scanned, &["--tree", "again", "--key", "text", "--exact"]).ok();
    assert_eq!(desk.run("scan", &["--tree", "again"]).out, scanned);
}

#[test]
fn what_is_counted_is_one_or_many() {
    let desk = Desk::new();
    let told = |lines: &str| summary(desk.load(lines, &["--skip-bad"]));
    assert_eq!(
        told("1\ta\nbad\n1\tb\n"),
        "data.tsv: 2 lines loaded (1 key replaced, 1 bad line skipped); tree 'main' has 1 key\n"
    );
    assert_eq!(
        told("bad\n1\tc\nbad\n"),
        "data.tsv: 1 line loaded (1 key replaced, 2 bad lines skipped); tree 'main' has 1 key\n"
    );
}

#[test]
#[cfg(target_os = "linux")]
fn what_the_library_advises_is_told_as_a_command() {
    let desk = Desk::new();
    desk.load("1\ta\n", &[]).ok();
    let path = desk.pool();
    let of = |why: &str| format!("bristlecone: {}: {why}", path.display());
    let remove = || run([OsStr::new("journal"), "remove".as_ref(), path.as_os_str()]);
    assert_eq!(remove().fails(1), of("the pool has no journal"));
    desk.load("1\tb\n", &["--journal", "each"]).ok();
    let there = of("the pool has a journal; `bristlecone journal remove POOL` takes it away");
    assert_eq!(desk.load("1\tb\n", &["--journal", "none"]).fails(1), there);
    remove().ok();
}
