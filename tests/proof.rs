//! `docs/proof.md` says what the last runs of the checks found. Its tables are generated from
//! `docs/proof/results.jsonl`, which `scripts/proof.sh` fills; they are never edited by hand.
//!
//! `BRISTLECONE_WRITE=1` writes them.
#![cfg(feature = "cli")]

use serde_json::Value;
use std::fs;
use std::path::PathBuf;

const BEGIN: &str = "<!-- results of ";
const END: &str = "<!-- end of results -->";

fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name)
}

/// `12345` as `12,345`.
fn number(value: &Value) -> Option<String> {
    let text = value.as_number()?.to_string();
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(whole, part)| (whole, Some(part)));
    let groups: Vec<&str> = whole.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    let whole = groups.join(",");
    Some(fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}")))
}

/// Combines the same figure of several results: the sum of numbers, or the text that all share.
fn together(values: &[&Value]) -> Option<Value> {
    let sum: Option<u64> = values.iter().map(|value| value.as_u64()).sum();
    let same = || values.iter().all(|value| value == &values[0] && (value.is_string() || value.is_number()));
    sum.map(Value::from).or_else(|| same().then(|| values[0].clone()))
}

/// The figures of the results of one run, by name. A figure that is neither a sum nor the same in all results is left
/// out.
fn figures(results: &[&Value]) -> String {
    let runs = (results.len() > 1).then(|| format!("runs {}", results.len()));
    let object = results[0]["result"].as_object().into_iter().flatten();
    let figure = |(key, _): (&String, &Value)| {
        let values: Vec<&Value> = results.iter().map(|result| &result["result"][key]).collect();
        let value = together(&values)?;
        let text = number(&value).or_else(|| value.as_str().map(str::to_owned))?;
        Some(format!("{} {text}", key.replace('_', " ")))
    };
    let described = object.filter(|(key, _)| !["seed", "slots"].contains(&key.as_str())).filter_map(figure);
    runs.into_iter().chain(described).collect::<Vec<_>>().join(", ")
}

/// The target of a result among those of a check, and the run that it comes from.
fn of_what(result: &Value) -> [&Value; 2] {
    [&result["result"]["target"], &result["result"]["what"]]
}

fn of_run(result: &Value) -> [&Value; 4] {
    ["date", "commit", "command", "seconds"].map(|key| &result[key])
}

/// The last run of each target of a check.
fn table(check: &str, results: &[Value]) -> String {
    let mut last: Vec<Vec<&Value>> = Vec::new();
    for result in results.iter().filter(|result| result["check"] == check) {
        last.retain(|run| of_what(run[0]) != of_what(result) || of_run(run[0]) == of_run(result));
        match last.iter_mut().find(|run| of_what(run[0]) == of_what(result)) {
            Some(run) => run.push(result),
            None => last.push(vec![result]),
        }
    }
    if last.is_empty() {
        return "This version has not been run for long.\n".to_owned();
    }
    let mut table = "| date | commit | command | seconds | result |\n|---|---|---|---|---|\n".to_owned();
    for run in last {
        let text = |key: &str| run[0][key].as_str().unwrap_or_default().to_owned();
        let failed = if run[0]["status"] == 0 { "" } else { "**failed**: " };
        table.push_str(&format!(
            "| {} | `{}` | `{}` | {} | {failed}{} |\n",
            text("date"),
            text("commit"),
            text("command"),
            number(&run[0]["seconds"]).unwrap_or_default(),
            figures(&run)
        ));
    }
    table
}

/// The page with every table as the results give it.
fn written(page: &str, results: &[Value]) -> String {
    let mut parts = page.split(BEGIN);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (check, rest) = part.split_once(" -->").expect("a marker is closed");
        let (_, rest) = rest.split_once(END).expect("a table ends");
        written.push_str(&format!("{BEGIN}{check} -->\n{}{END}{rest}", table(check, results)));
    }
    written
}

fn read() -> Vec<Value> {
    let lines = fs::read_to_string(docs("proof/results.jsonl")).unwrap_or_default();
    lines.lines().map(|line| serde_json::from_str(line).expect("a result is an object")).collect()
}

#[test]
fn the_tables_are_those_of_the_results() {
    let (path, results) = (docs("proof.md"), read());
    let page = fs::read_to_string(&path).unwrap();
    let right = written(&page, &results);
    if std::env::var_os("BRISTLECONE_WRITE").is_some() {
        fs::write(path, right).unwrap();
        return;
    }
    assert!(page == right, "docs/proof.md is not what the results say: BRISTLECONE_WRITE=1 writes it");
    let named = |check: &str| page.contains(&format!("{BEGIN}{check} -->"));
    assert!(results.iter().all(|result| named(result["check"].as_str().unwrap_or_default())), "a check has no table");
}

/// The negative control: a figure that was edited by hand is found.
#[test]
fn a_figure_that_was_typed_is_found() {
    let page = format!("a\n{BEGIN}kill -->\nold\n{END}\nb\n");
    let results = [result(7, r#"{"kills":1234567,"lost":0}"#)];
    let right = written(&page, &results);
    assert!(right.contains("| d | `c` | `k` | 7 | kills 1,234,567, lost 0 |"), "{right}");
    assert_eq!(written(&right, &results), right);
    assert_ne!(written(&right.replace("lost 0", "lost 1"), &results), right.replace("lost 0", "lost 1"));
    assert!(written(&page, &[]).contains("has not been run"));
}

fn result(seconds: u32, figures: &str) -> Value {
    let run = r#""check":"kill","date":"d","commit":"c","command":"k","status":0"#;
    serde_json::from_str(&format!(r#"{{{run},"seconds":{seconds},"result":{figures}}}"#)).unwrap()
}

#[test]
fn a_row_has_the_last_run_of_a_target_as_a_whole() {
    let results = [
        result(1, r#"{"states":5,"layout":"a"}"#),
        result(2, r#"{"states":7,"layout":"b","slots":3}"#),
        result(2, r#"{"states":1000,"layout":"c","slots":4}"#),
        result(2, r#"{"target":"t","model":"weak"}"#),
    ];
    let rows = "| d | `c` | `k` | 2 | runs 2, states 1,007 |\n| d | `c` | `k` | 2 | model weak, target t |\n";
    assert!(table("kill", &results).ends_with(rows), "{}", table("kill", &results));
}
