//! What it finds out about the machine and about itself.

use super::{Ran, command, has_keys, is_empty, run};

#[test]
fn info_tells_what_survives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let object = run(["info", path, "--json"]).json();
    has_keys(&object, &["arch", "cpu", "flush", "pair_method", "line_bytes", "path", "domain", "promise"]);
    assert_eq!(object["domain"], "process");
    assert!(run(["info", path]).ok().contains("survives a crash of the process"));
    assert!(dir.path().read_dir().unwrap().next().is_none(), "it cleans up");
    let forced = Ran::new(command(["info", path, "--json"]).env("BRISTLECONE_DOMAIN", "power").output().unwrap());
    assert_eq!(forced.json()["domain"], "power");
}

#[test]
fn the_tour_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let text = run(["tour", "--keys", "100k", "--kills", "2", "--dir", path]).ok();
    assert!(text.contains("Lost: nothing, of 100,000 acknowledged inserts and 2 kills"), "{text}");
    let after_the_first = text.lines().skip(1).all(|line| line.chars().count() <= 80);
    assert!(text.lines().count() <= 24 && after_the_first, "{text}");
    is_empty(dir.path());
    assert!(run(["tour", "--keys", "5", "--dir", path]).fails(2).contains("too few"));
    assert_eq!(run(["tour", "--keys", "18446744073709551615", "--dir", path]).code, Some(2));
    let object = run(["tour", "--keys", "5000", "--kills", "1", "--dir", path, "--json"]).json();
    has_keys(&object, &["keys", "kills", "seed", "acknowledged", "lost", "problems", "rounds"]);
    has_keys(&object, &["dirty_reopen_ms", "clean_reopen_ms", "acknowledged_per_second"]);
    has_keys(&object["rounds"][0], &["ended_by", "acknowledged", "lost", "reopen_ms", "problems"]);
    assert_eq!((&object["lost"], &object["acknowledged"]), (&0.into(), &5000.into()));
}

#[test]
fn crash_has_stable_keys() {
    let found = run(["crash", "--slots", "7", "--ops", "2", "--json"]).json();
    let keys = ["layout", "index", "model", "slots", "states", "crash_points", "nested", "violations", "seconds"];
    has_keys(&found, &keys);
    assert_eq!(found["violations"], 0);
    assert!(found["states"].as_u64() > found["crash_points"].as_u64(), "{found}");
}

#[test]
fn lin_has_stable_keys() {
    let lin = |args: &[&str]| {
        let one = ["lin", "--layout", "one_line", "--index", "volatile", "--values", "numbers"];
        run(one.iter().chain(args))
    };
    let found = lin(&["--seconds", "1", "--json"]).json();
    has_keys(&found, &["what", "rounds", "operations", "violations", "campaigns", "delays", "passed"]);
    let campaign = &found["campaigns"][0];
    has_keys(campaign, &["layout", "slots", "index", "values", "rounds", "operations", "seconds", "violation"]);
    assert_eq!((&found["passed"], &campaign["violation"]), (&true.into(), &serde_json::Value::Null));
    assert!(campaign["operations"].as_u64() > Some(1000), "{found}");
    // The negative control of crashes, which any binary has: the bug is found.
    let text = lin(&["--durable", "--control", "--seconds", "30"]).ok();
    assert!(text.contains("every planted bug was found"), "{text}");
    assert!(run(["lin", "--layout", "one_line", "--slots", "9"]).fails(2).contains("no such tree"));
}
