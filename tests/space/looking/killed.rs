//! Pools that `kill -9` has left are read as the next writer finds them.

use super::places::ended;
use super::{CHILD, SPAWNING, Scratch, Trees, apart, child, filled, options, reading, still};
use bristlecone::{Error, ErrorKind, Journal, Pool};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::PoisonError;
use std::time::Duration;

/// Not a test of its own: it changes trees until it is killed.
#[test]
fn changes_until_it_is_killed() {
    let Some((path, step)) = child() else { return };
    let pool = match &*step {
        "journal" => options().sync(true).journal(Journal::OnRequest).open(path),
        _ => options().open(path),
    };
    let pool = pool.unwrap();
    let trees = Trees::open(&pool).unwrap();
    let from: u64 = trees.content().iter().map(|(count, _)| *count as u64).sum();
    // The control for the processes that look.
    assert_eq!(super::places::journal_runs(), step == "journal");
    println!("ready");
    for number in from.. {
        trees.change(number).unwrap();
        if number % 500 == 7 {
            pool.transaction(|tx| (0..40).try_for_each(|key| tx.insert(&trees.texts, &format!("{key}"), b"together")))
                .unwrap();
        }
    }
}

fn killed(path: &Path, step: &str, after: Duration) {
    let alone = SPAWNING.write().unwrap_or_else(PoisonError::into_inner);
    let mut writer = apart("killed::changes_until_it_is_killed", path, step).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("ready")));
    drop(alone);
    // While it lives, nobody looks.
    let refused = reading().open(path).err().unwrap();
    assert!(matches!(refused.kind, ErrorKind::InUse), "{refused}");
    std::thread::sleep(after);
    writer.kill().unwrap();
    writer.wait().unwrap();
}

fn left(step: &str) {
    let scratch = Scratch::for_processes();
    let path = scratch.path("a.pool");
    // The layouts are named before the first check: the trees of the pool are opened after it.
    filled(&scratch.path("named.pool"), 0);
    for round in 0..crate::part_of(4) {
        killed(&path, step, Duration::from_millis(150 + round * 130));
        let calm = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
        let before = still(&path);
        let (one, two) = (reading().open(&path).unwrap(), reading().open(&path).unwrap());
        assert!(!one.stat().was_clean);
        assert!(one.check().unwrap().is_clean());
        let found = Trees::open(&one).unwrap().content();
        assert_eq!(Trees::open(&two).unwrap().content(), found);
        // Again, by what the first open has left in memory.
        assert_eq!(Trees::open(&one).unwrap().content(), found);
        assert!(one.check().unwrap().is_clean());
        let refused = Pool::open(&path).err().unwrap();
        assert!(matches!(refused, Error { kind: ErrorKind::InUse, .. }));
        drop((one, two));
        assert_eq!(still(&path), before);
        drop(calm);
        let told = ended(apart("places::looks", &path, "alone"));
        assert!(told.contains(&format!("found {found:?}")), "{told}");
        let calm = SPAWNING.read().unwrap_or_else(PoisonError::into_inner);
        let pool = Pool::open(&path).unwrap();
        let trees = Trees::open(&pool).unwrap();
        assert_eq!(trees.content(), found);
        drop(trees);
        pool.close().unwrap();
        // The control: the writer has left its traces.
        assert_ne!(still(&path), before);
        drop(calm);
    }
    assert!(std::env::var_os(CHILD[0]).is_none());
}

#[test]
fn a_killed_process_leaves_what_the_next_writer_finds() {
    left("plain");
}

#[test]
fn a_killed_process_with_a_journal_does_too() {
    left("journal");
}
