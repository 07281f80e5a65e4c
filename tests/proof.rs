//! `docs/proof.md` says what the last runs of the checks found. Its tables come from `docs/proof/results.jsonl`, which
//! `scripts/proof.sh` fills; nobody types them.
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

/// The figures of a result, by name.
fn figures(result: &Value) -> String {
    let object = result.as_object().into_iter().flatten();
    let figure = |(key, value): (&String, &Value)| {
        let key = key.replace('_', " ");
        let text = || value.as_str().map(|text| format!("{key} {text}"));
        number(value).map(|number| format!("{key} {number}")).or_else(text)
    };
    object.filter(|(key, _)| *key != "seed").filter_map(figure).collect::<Vec<_>>().join(", ")
}

/// The last results of a check: one for each target, if it has several.
fn table(check: &str, results: &[Value]) -> String {
    let mut last: Vec<&Value> = Vec::new();
    for result in results.iter().filter(|result| result["check"] == check) {
        last.retain(|other| other["result"]["target"] != result["result"]["target"]);
        last.push(result);
    }
    if last.is_empty() {
        return "This version has not been run for long.\n".to_owned();
    }
    let mut table = "| date | commit | command | seconds | result |\n|---|---|---|---|---|\n".to_owned();
    for result in last {
        let text = |key: &str| result[key].as_str().unwrap_or_default().to_owned();
        let failed = if result["status"] == 0 { "" } else { "**failed**: " };
        table.push_str(&format!(
            "| {} | `{}` | `{}` | {} | {failed}{} |\n",
            text("date"),
            text("commit"),
            text("command"),
            number(&result["seconds"]).unwrap_or_default(),
            figures(&result["result"])
        ));
    }
    table
}

/// The page with every table as the results have it.
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

/// The negative control.
#[test]
fn a_figure_that_was_typed_is_found() {
    let page = format!("a\n{BEGIN}kill -->\nold\n{END}\nb\n");
    let result = r#"{"check":"kill","date":"d","commit":"c","command":"k","seconds":7,"status":0,"result":{"kills":1234567,"lost":0}}"#;
    let results = [serde_json::from_str(result).unwrap()];
    let right = written(&page, &results);
    assert!(right.contains("| d | `c` | `k` | 7 | kills 1,234,567, lost 0 |"), "{right}");
    assert_eq!(written(&right, &results), right);
    assert_ne!(written(&right.replace("lost 0", "lost 1"), &results), right.replace("lost 0", "lost 1"));
    assert!(written(&page, &[]).contains("has not been run"));
}
