//! A run deletes nothing except what it made itself.

use super::{command, is_empty, run, start};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const MARKER: &str = ".bristlecone-scratch";

/// The path as an argument.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A run that makes a scratch directory in `dir` and removes leftovers beside it.
fn tour(dir: &Path) {
    run(["tour", "--keys", "2000", "--kills", "1", "--dir", text(dir)]).ok();
}

/// The names of the files in a directory.
fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = dir.read_dir().unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The scratch directory that is left when a tour is killed together with its worker.
fn leftover(dir: &Path) -> PathBuf {
    let mut tour = command(["tour", "--keys", "3M", "--kills", "1", "--dir", text(dir)]);
    let mut tour = start(tour.stdout(Stdio::null()).stderr(Stdio::null()));
    let left = dir.join(format!("bristlecone-{}-0", tour.id()));
    let pool = left.join("tour.pool");
    let start = Instant::now();
    while !fs::metadata(&pool).is_ok_and(|meta| meta.len() > 0) {
        assert!(start.elapsed() < Duration::from_secs(60), "no pool at {}", pool.display());
        std::thread::sleep(Duration::from_millis(1));
    }
    tour.kill().unwrap();
    tour.wait().unwrap();
    assert_eq!(names(&left), [MARKER, "tour.pool"]);
    left
}

/// A directory of the user with the name of a scratch directory of a process that no longer exists.
fn precious(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    fs::create_dir(&path).unwrap();
    fs::write(path.join("tour.pool"), "precious").unwrap();
    path
}

#[test]
fn info_leaves_what_is_there_and_adds_nothing() {
    let dir = TempDir::new().unwrap();
    let pool = dir.path().join("orders.pool");
    fs::write(&pool, "whatever it is").unwrap();
    precious(dir.path(), "bristlecone-2024-backup");
    precious(dir.path(), "bristlecone-4194303-0");
    let looked = |path: &Path| {
        let before = (names(dir.path()), fs::metadata(dir.path()).unwrap().modified().unwrap());
        let found = run(["info", text(path), "--json"]).json();
        assert_eq!(before, (names(dir.path()), fs::metadata(dir.path()).unwrap().modified().unwrap()));
        found
    };
    assert_eq!(looked(&pool)["domain"], "process");
    assert_eq!(looked(dir.path())["domain"], looked(&dir.path().join("new.pool"))["domain"]);
    for kept in ["bristlecone-2024-backup", "bristlecone-4194303-0"] {
        assert_eq!(names(&dir.path().join(kept)), ["tour.pool"]);
    }
    assert!(run(["info", "/no/such/directory/a.pool"]).fails(1).contains("/no/such/directory/a.pool: "));
    assert!(run(["info", "/dev/null"]).fails(1).contains("/dev/null: neither a file nor a directory"));
}

#[test]
#[cfg(target_os = "linux")]
fn info_says_where_it_cannot_know() {
    // A file system that cannot hold pools, because it has no files without a name.
    let found = run(["info", "/proc/self", "--json"]).json();
    assert!(found["domain"].is_null() && found["unknown"].is_string(), "{found}");
    assert!(run(["info", "/proc/self"]).ok().contains("domain       unknown until a pool is there: "));
}

#[test]
fn a_directory_without_a_marker_stays() {
    let dir = TempDir::new().unwrap();
    for name in ["bristlecone-2024-backup", "bristlecone-4194303-0"] {
        precious(dir.path(), name);
    }
    tour(dir.path());
    assert_eq!(names(dir.path()), ["bristlecone-2024-backup", "bristlecone-4194303-0"]);
    for kept in dir.path().read_dir().unwrap() {
        assert_eq!(fs::read_to_string(kept.unwrap().path().join("tour.pool")).unwrap(), "precious");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn what_a_killed_process_left_goes() {
    let dir = TempDir::new().unwrap();
    leftover(dir.path());
    tour(dir.path());
    is_empty(dir.path());
}

#[test]
#[cfg(target_os = "linux")]
fn a_file_beside_the_marker_stays() {
    let dir = TempDir::new().unwrap();
    let left = leftover(dir.path());
    fs::write(left.join("notes.txt"), "mine").unwrap();
    tour(dir.path());
    assert_eq!(names(&left), ["notes.txt"]);
    tour(dir.path());
    assert_eq!(fs::read_to_string(left.join("notes.txt")).unwrap(), "mine");
}

#[test]
#[cfg(target_os = "linux")]
fn what_is_no_leftover_any_more_stays() {
    use std::os::unix::fs::symlink;

    let (dir, away) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let left = leftover(dir.path());
    // A copy, whose marker has the right content for another place.
    let copy = dir.path().join("bristlecone-4194303-0");
    fs::create_dir(&copy).unwrap();
    for name in names(&left) {
        fs::copy(left.join(&name), copy.join(&name)).unwrap();
    }
    // A real leftover that was moved elsewhere, or has another name, or is reached through a link.
    let renamed = dir.path().join("evidence");
    fs::rename(leftover(dir.path()), &renamed).unwrap();
    let far = leftover(away.path());
    symlink(&far, dir.path().join("bristlecone-4194303-1")).unwrap();
    // A leftover that is in use: its lock is held.
    let held = leftover(dir.path());
    let marker = File::open(held.join(MARKER)).unwrap();
    marker.lock().unwrap();
    tour(dir.path());
    for kept in [&copy, &renamed, &far, &held] {
        assert_eq!(names(kept), [MARKER, "tour.pool"], "{}", kept.display());
    }
    assert!(!left.exists());
    drop(marker);
    tour(dir.path());
    assert!(!held.exists());
}
