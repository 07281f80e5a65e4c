//! The tables of `docs/benchmarks.md` and of the README that stand between markers are generated from
//! `docs/benchmarks/*.jsonl`, which `scripts/measure.sh` fills. They are never edited by hand. `BRISTLECONE_WRITE=1`
//! writes them. A marker names results, and perhaps mixes: `words words-10m: insert get`.

mod marked;

use bristlecone_bench::Mix;
use clap::ValueEnum;
use marked::docs;
use serde_json::Value;

/// A number with three digits that count, in groups.
fn number(value: f64) -> String {
    let text = if value < 9.95 {
        format!("{value:.2}")
    } else if value < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    };
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, part)| (whole, Some(part)));
    let groups: Vec<&str> = whole.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    let whole = groups.join(",");
    fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"))
}

/// What a row of a table is about: keys, bytes of a value, the number of keys, and which contestant took part.
fn subject(line: &Value) -> [String; 4] {
    let text = |key: &str| line[key].as_str().map_or_else(|| line[key].to_string(), str::to_owned);
    let names = ["layout", "peer", "reference"];
    let layout = names.into_iter().find_map(|name| line[name].as_str()).unwrap_or_default();
    let n = line["n"].as_u64().unwrap_or_default();
    let n = if n.is_multiple_of(1_000_000) { format!("{} M", n / 1_000_000) } else { n.to_string() };
    let name = match line["mix"].as_str() {
        Some("transaction") => inserts(line),
        Some("limits") => format!("{} MB", line["bytes"].as_u64().unwrap_or_default() / 1_000_000),
        Some("snapshot") => text("operation"),
        Some("journal") => with_journal(line, "operation"),
        Some("pauses") => with_journal(line, "beside"),
        _ if layout == "bytes" => "**`Map`**".to_owned(),
        _ if layout == "one_line" => "**`PTree`**".to_owned(),
        _ => layout.to_owned(),
    };
    [text("key"), text("value_bytes"), n, name]
}

/// How many inserts were made together, and how.
fn inserts(line: &Value) -> String {
    let number = |key: &str| line[key].as_u64().unwrap_or_default();
    let trees = if number("trees") == 1 { String::new() } else { format!(" in {} trees", number("trees")) };
    let plural = if number("inserts") == 1 { "" } else { "s" };
    let how = if line["how"] == "plain" { "" } else { ", a transaction" };
    format!("{} insert{plural}{trees}{how}", number("inserts"))
}

/// What was done, and with which journal.
fn with_journal(line: &Value, what: &str) -> String {
    let operation = line[what].as_str().unwrap_or_default();
    match line["journal"].as_str() {
        None | Some("none") => operation.to_owned(),
        Some("request") => format!("{operation}, a journal"),
        Some(time) => format!("{operation}, a journal, {time}"),
    }
}

/// The figures of a line at these paths, where there are any.
fn at<const N: usize>(line: &Value, columns: [(&str, &str); N]) -> Vec<(String, f64)> {
    let figure = |(column, path): (&str, &str)| Some((column.to_owned(), line.pointer(path)?.as_f64()?));
    columns.into_iter().filter_map(figure).collect()
}

/// A clock that measures times of operations: one of the JSON keys.
#[derive(Clone, Copy)]
enum Clock {
    /// What the processors spent. Of stores, other threads work, too: what the machine spent is what counts.
    Cpu,
    /// From the start to the end.
    Wall,
}

impl Clock {
    /// A store in another process lets that process work.
    fn of(lines: &[Value]) -> Self {
        if lines.iter().any(|line| line["peer"] == "redis") { Self::Wall } else { Self::Cpu }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Wall => "run",
        }
    }
}

/// What a line of results says: the names of columns, and figures for them.
fn figures(line: &Value, clock: Clock) -> Vec<(String, f64)> {
    let mix = line["mix"].as_str().unwrap_or_default();
    match mix {
        "reopen" => {
            let of = |after: &str, key: &str| {
                let parts = [("pool", "pool"), ("tree", "tree"), ("first get", "get"), ("all", "median")];
                let figure = |(name, part)| Some((format!("{after}: {name}"), line[key][part].as_f64()?));
                parts.into_iter().filter_map(figure).collect::<Vec<_>>()
            };
            [of("closed", "clean_ms"), of("killed", "dirty_ms"), of("power lost", "power_ms")].concat()
        }
        "space" => {
            let parts = [("of the pool", "pool"), ("of files", "files"), ("of memory", "memory")];
            let figure = |(name, part): (&str, &str)| Some((format!("bytes: {name}"), line[part].as_f64()?));
            parts.into_iter().filter_map(figure).collect()
        }
        "limits" => at(
            line,
            [
                ("first touch of a page", "/ns/page"),
                ("dependent miss", "/ns/dependent_miss"),
                ("independent miss", "/ns/independent_miss"),
                ("locked instruction", "/ns/locked"),
                ("line and fence", "/ns/round"),
                ("eight lines and a fence", "/ns/round_of_8"),
            ],
        ),
        "transaction" => at(
            line,
            [
                ("ns", "/ns_per_op/cpu"),
                ("of plain", "/ratio_to_plain"),
                ("goal", "/goal"),
                ("lines", "/lines_per_op"),
                ("fences", "/fences_per_op"),
            ],
        ),
        "snapshot" => at(
            line,
            [
                ("ns without", "/without/ns_per_op/cpu"),
                ("ns beside", "/beside/ns_per_op/cpu"),
                ("of without", "/ratio"),
                ("goal", "/goal"),
                ("of without, young", "/ratio_young"),
            ],
        ),
        "conflict" => at(
            line,
            [
                ("transactions/s", "/per_second"),
                ("times as long", "/ratio_to_first"),
                ("goal", "/goal"),
                ("retries: mean", "/retries/mean"),
                ("retries: p99.9", "/retries/p999"),
                ("retries: most", "/retries/max"),
            ],
        ),
        "backup" => at(
            line,
            [
                ("seconds", "/seconds/median"),
                ("seconds: goal", "/goal/seconds"),
                ("ns per update, alone", "/update_ns/alone/median"),
                ("beside the backup", "/update_ns/backup/median"),
                ("speed kept", "/kept"),
                ("speed kept: goal", "/goal/kept"),
                ("kept beside copying", "/kept_beside_copying"),
            ],
        ),
        "journal" => at(
            line,
            [
                ("ns", "/own_ns_per_op/median"),
                ("of all threads", "/ns_per_op/cpu"),
                ("by the clock", "/ns_per_op/run"),
                ("p99.9", "/single_ns/p999"),
                ("of without", "/ratio"),
                ("goal", "/goal"),
                ("bytes to the log", "/written/log_bytes_per_op"),
                ("bytes to the pool", "/written/pool_bytes_per_op"),
            ],
        ),
        "pauses" => at(
            line,
            [
                ("ns: median", "/single_ns/median"),
                ("p99", "/single_ns/p99"),
                ("p99.9", "/single_ns/p999"),
                ("slowest", "/single_ns/max"),
                ("p99.9, of without", "/ratio"),
                ("goal", "/goal"),
            ],
        ),
        "larger" => at(
            line,
            [
                ("us per operation", "/us_per_op"),
                ("median", "/us/median"),
                ("p99", "/us/p99"),
                ("p99.9", "/us/p999"),
                ("pages read", "/pages_read_per_op"),
            ],
        ),
        "durable" => at(
            line,
            [
                ("batch: ns per key", "/batch/ns_per_key/run"),
                ("times as long", "/batch/ratio_to_ours"),
                ("times as long: goal", "/batch/goal"),
                ("bytes to the disk", "/batch/disk_bytes_per_key"),
                ("of them to the log", "/batch/log_bytes_per_key"),
                ("ns per get", "/get/ns_per_op/run"),
                ("single: ns", "/single/ns_per_op/run"),
                ("of an overwrite", "/single/ratio_to_overwrite"),
                ("single: goal", "/single/goal"),
                ("16 threads: ns", "/each/ns_per_op/run"),
                ("times the throughput", "/each/ratio"),
                ("16 threads: goal", "/each/goal"),
            ],
        ),
        _ if line["lines_per_op"].is_number() => [("lines", "lines_per_op"), ("fences", "fences_per_op")]
            .map(|(name, key)| (format!("{mix}: {name}"), line[key].as_f64().unwrap_or_default()))
            .into(),
        _ => line["ns_per_op"][clock.key()].as_f64().into_iter().map(|ns| (timed(line, mix), ns)).collect(),
    }
}

/// The column of a mix: its name, and on what slow memory it was timed.
fn timed(line: &Value, mix: &str) -> String {
    match (line["slow_ns"].as_u64(), line["slow_per"].as_str()) {
        (Some(slow @ 1..), Some(per)) => format!("{mix}, {slow} ns per {per}"),
        _ => mix.to_owned(),
    }
}

/// Whether a column holds times of operations, which are compared with those of the first row about the same keys:
/// those are named after their mix.
fn is_compared(column: &str) -> bool {
    let mix = column.split_once(", ").map_or(column, |(mix, _)| mix);
    Mix::from_str(mix, false).is_ok()
}

type Row = ([String; 4], Vec<(String, f64)>);

fn rows(lines: &[Value]) -> Vec<Row> {
    let (mut rows, clock): (Vec<Row>, _) = (Vec::new(), Clock::of(lines));
    for line in lines {
        let (subject, figures) = (subject(line), figures(line, clock));
        match rows.iter_mut().find(|row| row.0 == subject) {
            Some(row) => row.1.extend(figures),
            None => rows.push((subject, figures)),
        }
    }
    rows
}

fn table(lines: &[Value]) -> String {
    let rows = rows(lines);
    let mut columns: Vec<&str> = Vec::new();
    for (column, _) in rows.iter().flat_map(|row| &row.1) {
        if !columns.contains(&column.as_str()) {
            columns.push(column);
        }
    }
    let one_setting = rows.iter().all(|row| row.0[..3] == rows[0].0[..3]);
    let mut table = format!("| | {} |\n|---|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    for (subject, figures) in &rows {
        let [key, value, n, name] = subject;
        let label = if one_setting { name.clone() } else { format!("{n} `{key}`, {value} bytes: {name}") };
        let first = &rows.iter().find(|row| row.0[..3] == subject[..3]).expect("at least this row").1;
        let of = |figures: &[(String, f64)], column: &str| {
            figures.iter().find(|(name, _)| name == column).map(|&(_, figure)| figure)
        };
        let cell = |column: &&str| {
            let Some(figure) = of(figures, column) else { return String::new() };
            match of(first, column).filter(|_| is_compared(column) && !std::ptr::eq(first, figures)) {
                Some(least) => format!("{} ({:.2})", number(figure), figure / least),
                None => number(figure),
            }
        };
        table.push_str(&format!("| {label} | {} |\n", columns.iter().map(cell).collect::<Vec<_>>().join(" | ")));
    }
    table
}

/// The page with every table as the results give it.
fn written(page: &str, results: impl Fn(&str) -> Vec<Value>) -> String {
    marked::written(page, "measured", |marker| {
        let (names, mixes) = marker.split_once(": ").map_or((marker, None), |(names, mixes)| (names, Some(mixes)));
        let mixes: Option<Vec<&str>> = mixes.map(|mixes| mixes.split(' ').collect());
        let is_wanted = |line: &Value| mixes.as_ref().is_none_or(|mixes| mixes.iter().any(|mix| line["mix"] == *mix));
        table(&names.split(' ').flat_map(&results).filter(is_wanted).collect::<Vec<_>>())
    })
}

fn read(name: &str) -> Vec<Value> {
    marked::rows(&docs(&format!("benchmarks/{name}.jsonl")))
}

#[test]
fn the_tables_are_those_of_the_results() {
    for page in ["benchmarks.md", "../README.md"] {
        marked::keep(&docs(page), |page| written(page, read));
    }
}

#[test]
fn a_table_with_another_process_is_by_the_clock() {
    let line = |who: &str, name: &str| {
        let line = r#"{"key":"user","value_bytes":8,"n":5,"W":"L","mix":"get","ns_per_op":{"cpu":1,"run":4}}"#;
        serde_json::from_str(&line.replace('W', who).replace('L', name)).unwrap()
    };
    assert!(table(&[line("layout", "bytes")]).contains("| 1.00 |"));
    assert!(table(&[line("layout", "bytes"), line("peer", "redis")]).contains("| redis | 4.00 (1.00) |"));
}

/// The negative control: a figure that was edited by hand is found.
#[test]
fn a_figure_that_was_typed_is_found() {
    let line = |layout: &str, mix: &str, ns: f64| {
        let line = r#"{"key":"user","value_bytes":8,"n":1000000,"layout":"L","mix":"M","ns_per_op":{"cpu":T}}"#;
        let line = line.replace('L', layout).replace('M', mix).replace('T', &ns.to_string());
        serde_json::from_str(&line).unwrap()
    };
    let results = |_: &str| vec![line("bytes", "get", 500.0), line("bytes", "scan", 9.5), line("tree", "get", 1250.0)];
    let page = "a\n<!-- measured maps -->\nold\n<!-- end -->\nb\n".to_owned();
    let right = written(&page, results);
    assert!(right.contains("| **`Map`** | 500 | 9.50 |\n| tree | 1,250 (2.50) |  |\n"), "{right}");
    assert_eq!(written(&right, results), right);
    assert_ne!(written(&right.replace("500", "400"), results), right.replace("500", "400"));
    let some = written(&page.replace("maps", "maps: scan"), results);
    assert!(some.contains("| | scan |\n|---|---|\n| **`Map`** | 9.50 |\n<!-- end -->"), "{some}");
}
