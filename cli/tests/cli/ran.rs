//! The result of a command. The tests of the benchmarks use this file, too.

use serde_json::Value;
use std::path::Path;
use std::process::Output;

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn new(output: Output) -> Self {
        let err = String::from_utf8(output.stderr).unwrap();
        Self { code: output.status.code(), out: output.stdout, err }
    }

    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{self:?}");
        String::from_utf8(self.out).unwrap()
    }

    /// Asserts that the run failed with this code; returns the one line of its error.
    #[track_caller]
    pub(crate) fn fails(self, code: i32) -> String {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(self.err.starts_with("bristlecone: ") && self.err.lines().count() == 1, "{self:?}");
        self.err.trim_end().to_owned()
    }
}

#[track_caller]
pub(crate) fn has_keys(object: &Value, keys: &[&str]) {
    for key in keys {
        assert!(object.get(key).is_some(), "no '{key}' in {object}");
    }
}

/// Asserts that nothing is left in a directory.
#[track_caller]
pub(crate) fn is_empty(dir: &Path) {
    assert!(dir.read_dir().unwrap().next().is_none(), "{dir:?} is not empty");
}
