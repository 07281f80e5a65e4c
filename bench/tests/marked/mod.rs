//! Pages of `docs/` with parts between markers, which a command writes from results: `BRISTLECONE_WRITE=1`.
//!
//! ```text
//! <!-- KIND NAME -->
//! what the command writes
//! <!-- end -->
//! ```

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const END: &str = "<!-- end -->";

/// A file of `docs/`.
pub(crate) fn docs(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name)
}

/// The results in a file, one object per line.
pub(crate) fn rows(path: &Path) -> Vec<Value> {
    let lines = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    lines.lines().map(|line| serde_json::from_str(line).expect("a result is an object")).collect()
}

/// The page with every part of a kind as `part` writes it, by its name.
pub(crate) fn written(page: &str, kind: &str, part: impl Fn(&str) -> String) -> String {
    let begin = format!("<!-- {kind} ");
    let mut parts = page.split(&begin);
    let mut written = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let (name, rest) = rest.split_once(" -->").expect("a marker is closed");
        let (_, rest) = rest.split_once(END).expect("a part ends");
        written.push_str(&format!("{begin}{name} -->\n{}{END}{rest}", part(name)));
    }
    written
}

/// Asserts that a file is what the command writes; with `BRISTLECONE_WRITE=1`, writes it.
pub(crate) fn keep(path: &Path, write: impl FnOnce(&str) -> String) {
    let text = fs::read_to_string(path).unwrap_or_default();
    let right = write(&text);
    if std::env::var_os("BRISTLECONE_WRITE").is_some() {
        fs::write(path, right).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        return;
    }
    assert!(text == right, "{} is not what the results say: BRISTLECONE_WRITE=1 writes it", path.display());
}
