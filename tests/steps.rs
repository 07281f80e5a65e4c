//! `docs/design.md` has the persist steps as tables: what `Step` says about each step, and in which files it is used.
//!
//! `BRISTLECONE_WRITE=1` writes them.

use bristlecone::medium::Step;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- persist steps -->\n";
const END: &str = "<!-- end of persist steps -->";

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Collects the source files in a folder, with their text.
fn sources(folder: &Path, found: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.strip_prefix(root()).unwrap().display().to_string().replace('\\', "/");
            found.insert(name, fs::read_to_string(&path).unwrap());
        }
    }
}

/// The files in which each step is used: those that name it before their tests begin.
fn places() -> BTreeMap<&'static str, BTreeSet<String>> {
    let mut files = BTreeMap::new();
    sources(&root().join("src"), &mut files);
    let is_product = |name: &str| !["src/bin/", "src/crash/", "src/lin/"].iter().any(|other| name.starts_with(other));
    files.retain(|name, _| {
        is_product(name)
            && !["src/step.rs", "src/medium/sim.rs", "src/node/tutorial.rs", "src/medium/journal/trees.rs"]
                .contains(&name.as_str())
            && !["/models.rs", "/tests.rs"].iter().any(|of_tests| name.ends_with(of_tests))
    });
    let mut places = BTreeMap::new();
    for &step in Step::ALL {
        let names = |text: &str| {
            let product = text.split("\nmod tests {").next().unwrap_or_default();
            let is_whole = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric());
            product.split(&format!("Step::{}", step.name())).skip(1).any(is_whole)
        };
        places
            .insert(step.name(), files.iter().filter(|(_, text)| names(text)).map(|(name, _)| name.clone()).collect());
    }
    places
}

fn tables() -> String {
    let places = places();
    let mut text = String::new();
    let mut protocol = "";
    for step in Step::ALL {
        if step.protocol() != protocol {
            protocol = step.protocol();
            text.push_str(&format!("\n**{protocol}**\n\n| step | a cut before it is done leaves | repair | where |\n"));
            text.push_str("|---|---|---|---|\n");
        }
        let files: Vec<String> = places[step.name()].iter().map(|file| format!("`{}`", &file[4..])).collect();
        let row = [&format!("`{}`", step.name()), step.leaves(), step.repair(), &files.join(", ")];
        text.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    text.push('\n');
    text
}

#[test]
fn the_design_has_every_persist_step() {
    let path = root().join("docs/design.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the tables begin");
    let (_, after) = rest.split_once(END).expect("the tables end");
    let right = format!("{before}{BEGIN}{}{END}{after}", tables());
    if std::env::var_os("BRISTLECONE_WRITE").is_some() {
        fs::write(path, right).unwrap();
        return;
    }
    assert!(page == right, "docs/design.md is not what `Step` says: BRISTLECONE_WRITE=1 writes it");
}

#[test]
fn every_persist_step_is_taken_somewhere() {
    let nowhere: Vec<_> = places().into_iter().filter(|(_, files)| files.is_empty()).map(|(step, _)| step).collect();
    assert!(nowhere.is_empty(), "named and never taken: {nowhere:?}");
}
