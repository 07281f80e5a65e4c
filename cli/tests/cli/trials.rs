//! What the command line finds out about the machine and about itself.

use super::{command, has_keys, is_empty, ran, run};
use serde_json::Value;

#[test]
fn info_tells_what_survives() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let object = run(["info", path, "--json"]).json();
    has_keys(&object, &["arch", "cpu", "flush", "pair_method", "line_bytes", "path", "domain", "promise"]);
    assert!(dir.path().read_dir().unwrap().next().is_none(), "it cleans up");
    assert!(run(["info", path]).ok().contains("kill -9, a panic or an abort loses nothing that was acknowledged"));
    // What a new pool there has, and one that asks for no journal.
    for (options, domain) in [(&[][..], &object["domain"]), (&["--journal", "none"], &"process".into())] {
        let desk = super::Desk::new();
        let lines = desk.file("data.tsv", "1\ta\n");
        desk.run("load", &[&[lines.to_str().unwrap()], options].concat()).ok();
        assert_eq!(desk.run("info", &["--json"]).json()["domain"], *domain);
    }
    let forced = ran(command(["info", path, "--json"]).env("BRISTLECONE_DOMAIN", "power"));
    assert_eq!(forced.json()["domain"], "power");
    let desk = super::Desk::new();
    let lines = desk.file("data.tsv", "1\ta\n");
    let pool = desk.pool();
    for args in [["info", path, "--json"], ["load", pool.to_str().unwrap(), lines.to_str().unwrap()]] {
        let wrong = ran(command(args).env("BRISTLECONE_DOMAIN", "powr"));
        assert!(wrong.fails(1).contains("'powr', and must be process, power or power-with-caches"));
    }
}

#[test]
fn the_tour_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let text = run(["tour", "--keys", "100k", "--kills", "2", "--dir", path]).ok();
    assert!(text.contains("Lost: nothing, of 100,000 acknowledged inserts and 2 kills"), "{text}");
    let after_the_first = text.lines().skip(1).all(|line| line.chars().count() <= 80);
    assert!(text.lines().count() <= 35 && after_the_first, "{text}");
    is_empty(dir.path());
    assert!(run(["tour", "--keys", "5", "--dir", path]).fails(2).contains("too few"));
    assert_eq!(run(["tour", "--keys", "18446744073709551615", "--dir", path]).code, Some(2));
    let object = run(["tour", "--keys", "5000", "--kills", "1", "--dir", path, "--json"]).json();
    has_keys(&object, &["keys", "kills", "seed", "acknowledged", "lost", "problems", "rounds"]);
    has_keys(&object, &["dirty_reopen_ms", "clean_reopen_ms", "acknowledged_per_second"]);
    has_keys(&object["rounds"][0], &["ended_by", "acknowledged", "lost", "reopen_ms", "problems"]);
    assert_eq!((&object["lost"], &object["acknowledged"]), (&0.into(), &5000.into()));
    if cfg!(target_os = "linux") {
        assert!(text.contains("Lost: nothing that was synced."), "{text}");
        let power = &object["power"];
        has_keys(power, &["synced", "found", "found_with_ring", "lost", "problems"]);
        assert_eq!((&power["lost"], &power["problems"]), (&0.into(), &Value::Array(Vec::new())));
        assert!(power["found"].as_u64() >= power["synced"].as_u64() && power["synced"].as_u64() > Some(0), "{power}");
    }
}

#[test]
fn bench_has_stable_keys() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["bench", "--keys", "5000", "--repeat", "2", "--seed", "1", "--dir", dir.path().to_str().unwrap()];
    let counts = |found: &Value| {
        let row = |row: &Value| [&row["verb"], &row["lines_per_op"], &row["fences_per_op"]].map(ToString::to_string);
        found["verbs"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    let found = run(args.into_iter().chain(["--json"])).json();
    has_keys(&found, &["keys", "repeat", "seed", "domain", "verbs", "reopen_ms"]);
    for verb in found["verbs"].as_array().unwrap() {
        has_keys(verb, &["verb", "ns_per_op", "btreemap_ns_per_op", "ratio_to_btreemap"]);
        has_keys(verb, &["lines_per_op", "fences_per_op"]);
        let ns = |key| verb["ns_per_op"][key].as_f64().unwrap();
        assert!(ns("least") > 0.0 && ns("least") <= ns("median") && ns("median") <= ns("greatest"), "{verb}");
    }
    // A get and a scan flush nothing; an update flushes one line.
    let lines: Vec<f64> =
        found["verbs"].as_array().unwrap().iter().map(|verb| verb["lines_per_op"].as_f64().unwrap()).collect();
    assert!(lines[0] > 1.0 && lines[0] < 2.0 && lines[4] >= 1.0, "{lines:?}");
    assert_eq!(lines[1..4], [0.0, 1.0, 0.0]);
    for after in ["closed", "killed"] {
        assert!(found["reopen_ms"][after]["median"].as_f64().unwrap() > 0.0, "{found}");
    }
    assert_eq!(counts(&found), counts(&run(args.into_iter().chain(["--json"])).json()));
    let text = run(args).ok();
    assert!(text.contains("insert ") && text.contains("answers again after"), "{text}");
    is_empty(dir.path());
    for keys in ["0", "101M", "1000000M"] {
        assert!(run(["bench", "--keys", keys]).fails(2).contains("1 to 100,000,000"));
    }
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
    assert_eq!((&found["passed"], &campaign["violation"]), (&true.into(), &Value::Null));
    assert!(campaign["operations"].as_u64() > Some(1000), "{found}");
    // The negative control of crashes, which any binary has: the planted bug is found.
    let text = lin(&["--durable", "--control", "--seconds", "30"]).ok();
    assert!(text.contains("every planted bug was found"), "{text}");
    assert!(run(["lin", "--layout", "one_line", "--slots", "9"]).fails(2).contains("no such tree"));
}
