//! `docs/design.md` has the persist steps as tables: what `Step` says about each step, and in which files it is used.
//! Documents have the diagrams of layouts that the heads of source files carry.
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
    let is_product = |name: &str| !["src/crash/", "src/lin/"].iter().any(|other| name.starts_with(other));
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

/// What precedes a diagram in a document: the file whose head has it.
const DIAGRAM: &str = "<!-- diagram of ";
const FENCE: &str = "```text\n";

/// The diagrams in the head of a source file, in their order.
fn diagrams(file: &str) -> std::vec::IntoIter<String> {
    let text = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let head = text.lines().map_while(|line| line.strip_prefix("//!"));
    let head: String = head.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect();
    let all: Vec<String> = head.split(FENCE).skip(1).map(|rest| rest.split("```").next().unwrap().to_owned()).collect();
    all.into_iter()
}

#[test]
fn documents_have_the_diagrams_of_file_heads() {
    let mut files: BTreeMap<String, _> = BTreeMap::new();
    for page in ["docs/design.md", "docs/journal.md", "docs/space.md"] {
        let path = root().join(page);
        let text = fs::read_to_string(&path).unwrap();
        let mut pieces = text.split(DIAGRAM);
        let mut right = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let (file, rest) = piece.split_once(" -->\n").expect("a marker names a file");
            let rest = rest.strip_prefix(FENCE).expect("a diagram follows its marker");
            let (_, rest) = rest.split_once("```\n").expect("a diagram ends");
            let left = files.entry(file.to_owned()).or_insert_with(|| diagrams(file));
            let diagram = left.next().unwrap_or_else(|| panic!("{page}: {file} has no further diagram"));
            right.push_str(&format!("{DIAGRAM}{file} -->\n{FENCE}{diagram}```\n{rest}"));
        }
        if std::env::var_os("BRISTLECONE_WRITE").is_some() {
            fs::write(path, right).unwrap();
        } else {
            assert!(text == right, "{page}: a diagram differs from its file's head: BRISTLECONE_WRITE=1 writes it");
        }
    }
    assert!(files.len() >= 13, "{:?}", files.keys());
    let unread: Vec<_> = files.into_iter().filter_map(|(file, mut left)| left.next().map(|_| file)).collect();
    assert!(unread.is_empty(), "diagrams that no document has: {unread:?}");
}

#[test]
fn every_persist_step_is_taken_somewhere() {
    let nowhere: Vec<_> = places().into_iter().filter(|(_, files)| files.is_empty()).map(|(step, _)| step).collect();
    assert!(nowhere.is_empty(), "named and never taken: {nowhere:?}");
}

/// Calls that the system may answer with an error of the disk, and what shares a file's description, so that another
/// one is told.
const ASKING: &[&str] = &[
    "copy_file_range",
    "fallocate",
    "fdatasync",
    "fsync",
    "ftruncate",
    "msync",
    "pwrite",
    "pwritev",
    "pwritev2",
    "seek_write",
    "set_len",
    "sync_all",
    "sync_data",
    "sync_file_range",
    "syncfs",
    "try_clone",
    "write_all",
    "write_all_at",
    "write_at",
    "write_vectored",
];

/// Where they are called outside of the owner of a file, how often, and why that is no harm.
const ALLOWED: &[(&str, &str, usize, &str)] = &[
    ("src/medium/mapped/file.rs", "sync_all", 1, "of a directory: an error makes no pool, log or backup"),
    ("src/medium/mapped/file.rs", "syncfs", 1, "the same, by a description of its own"),
];

/// How often each of these calls is in the product part of a source file. A function of the file's own with such a name
/// is none.
fn asked(text: &str) -> BTreeMap<&'static str, usize> {
    let product = text.split("mod tests {").next().unwrap_or_default();
    let is_code = |line: &&str| !["//", "use "].iter().any(|start| line.trim_start().starts_with(start));
    let code: String = product.lines().filter(is_code).flat_map(|line| [line, "\n"]).collect();
    let is_call = |&(at, call): &(usize, &str)| {
        let (before, behind) = (&code[..at], &code[at + call.len()..]);
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let is_own = ["Self::", "fn "].iter().any(|own| before.ends_with(own));
        !is_own && !before.ends_with(is_word) && !behind.starts_with(is_word)
    };
    let count = |call: &&'static str| (*call, code.match_indices(call).filter(is_call).count());
    ASKING.iter().map(count).filter(|&(_, count)| count > 0).collect()
}

/// What is called outside of the owners of files, and not allowed; and what is allowed, and not called.
fn strays(files: &BTreeMap<String, String>) -> Vec<String> {
    let is_product = |name: &str| {
        (name.starts_with("src/medium/") || name.starts_with("src/pool/"))
            && !name.starts_with("src/medium/disk_file")
            && !["/models.rs", "/tests.rs", "/sim.rs", "/trees.rs", "/threads.rs"].iter().any(|end| name.ends_with(end))
    };
    let mut strays = Vec::new();
    for (name, text) in files.iter().filter(|(name, _)| is_product(name)) {
        let allowed = ALLOWED.iter().filter(|(file, ..)| file == name);
        let mut allowed: BTreeMap<&str, usize> = allowed.map(|&(_, call, count, _)| (call, count)).collect();
        for (call, count) in asked(text) {
            let most = allowed.remove(call).unwrap_or(0);
            if count != most {
                strays.push(format!("{name}: {call} {count} times, {most} allowed"));
            }
        }
        strays.extend(allowed.keys().map(|call| format!("{name}: {call} is allowed, and not there")));
    }
    strays
}

/// One owner is told what the disk says of a file, so nobody else asks (J29 in docs/journal.md).
#[test]
fn only_the_owner_of_a_file_is_told_of_errors() {
    let mut files = BTreeMap::new();
    sources(&root().join("src"), &mut files);
    assert_eq!(strays(&files), [""; 0]);
    // The negative control: each call, where there is none.
    let owner = files["src/medium/disk_file.rs"].clone();
    assert!(asked(&owner).len() >= 5, "{:?}", asked(&owner));
    for call in ASKING {
        let mut planted = files.clone();
        let text = planted.get_mut("src/medium/mapped.rs").unwrap();
        *text = text.replacen(
            "\nimpl Medium for Mapped {",
            &format!("\nfn f(g: &File) {{ g.{call}(); }}\nimpl Medium for Mapped {{"),
            1,
        );
        assert_eq!(strays(&planted), [format!("src/medium/mapped.rs: {call} 1 times, 0 allowed")]);
    }
}
