//! Measurements: stable keys, and numbers that can be.

use super::{has_keys, is_empty, objects, run};

#[test]
fn bench_has_stable_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let all = "insert,get,update,scan,mixed,remove";
    for options in [
        &["--layout", "linear,circular", "--index", "volatile,persistent", "--vs-btreemap"][..],
        &["--medium", "dram", "--layout", "circular", "--node-bytes", "512"],
        &["--slow", "10", "--flush", "power", "--no-counts"],
    ] {
        let mut args = vec!["--n", "2000", "--repeat", "1", "--json", "--mix", all, "--seed", "1"];
        if !options.contains(&"--medium") {
            args.extend(["--medium", path]);
        }
        args.extend_from_slice(options);
        let rows = objects(run(args));
        assert_eq!(rows.len() % 6, 0);
        for row in &rows {
            has_keys(row, &["layout", "index", "node_bytes", "n", "mix", "threads", "domain", "ns_per_op"]);
            has_keys(row, &["lines_per_op", "fences_per_op", "orders_per_op", "bytes_per_op"]);
            has_keys(&row["ns_per_op"], &["median", "p99", "min", "run"]);
            assert!(row["ns_per_op"]["median"].as_f64().unwrap() > 0.0);
        }
    }
    is_empty(dir.path());
}

#[test]
fn every_mix_is_measured_with_every_order_of_keys() {
    let mixes = "insert,batch,get,miss,dependent,multi-get,update,scan,scan100,mixed,remove";
    let ycsb = "ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f";
    let all = format!("{mixes},{ycsb}");
    for keys in ["uniform", "zipfian", "ascending", "descending", "clustered"] {
        let args = ["--n", "2000", "--repeat", "2", "--json", "--mix", &all, "--keys", keys, "--vs-btreemap"];
        let rows = objects(run(args));
        assert_eq!(rows.len(), 2 * 17);
        for row in &rows {
            assert_eq!((&row["keys"], &row["threads"]), (&keys.into(), &1.into()));
            has_keys(&row["ns_per_op"], &["median", "p99", "min", "run", "run_min", "run_max"]);
            has_keys(&row["ns_per_op"], &["cpu", "cpu_min", "cpu_max"]);
            let run = |key| row["ns_per_op"][key].as_f64().unwrap();
            assert!(run("run_min") <= run("run") && run("run") <= run("run_max"), "{row}");
        }
    }
}

#[test]
fn threads_measure_those_that_can_be_shared() {
    let args = ["--n", "4000", "--repeat", "1", "--threads", "2", "--vs-btreemap"];
    let args = args.into_iter().chain(["--mix", "insert,batch,get,scan,scan100,ycsb-d,mixed,remove"]);
    let ran = run(args.clone().chain(["--json"]));
    assert!(ran.err.contains("left out of 2 threads, being for one only: btreemap"), "{ran:?}");
    let rows = objects(ran);
    assert_eq!(rows.len(), 8);
    assert!(rows.iter().all(|row| row["layout"] == "one_line" && row["threads"] == 2));
    let text = run(args).ok();
    assert!(text.contains("2 threads") && text.contains("left out of 2 threads"), "{text}");
    let few = run(["--n", "200", "--threads", "2"]).fails(2);
    assert!(few.contains("less than a batch of 128 per thread"), "{few}");
    let alone = run(["--n", "4000", "--threads", "2", "--layout", "btreemap"]).fails(2);
    assert!(alone.contains("nothing to measure"), "{alone}");
}

#[test]
fn a_chart_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("chart.svg");
    let args = ["--n", "2000", "--repeat", "1", "--vs-btreemap", "--svg", file.to_str().unwrap()];
    run(args).ok();
    let svg = std::fs::read_to_string(&file).unwrap();
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{svg}");
    // Two mixes of two contestants.
    assert_eq!(svg.matches("<title>").count(), 4);
    assert!(svg.contains("btreemap") && svg.contains("one_line 640 volatile"), "{svg}");
    assert!(run(["--n", "2000", "--repeat", "1", "--svg", "/no/such/chart.svg"]).fails(1).contains("/no/such/"));
}

#[test]
#[cfg(not(feature = "peers"))]
fn peers_are_wanted_but_not_built_in() {
    let error = run(["--n", "2000", "--peers", "all"]).fails(2);
    assert!(error.contains("--features peers"), "{error}");
}

#[test]
#[cfg(feature = "peers")]
fn peers_are_measured_next_to_the_trees() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let bench = |options: &[&str]| {
        let args = ["--n", "1000", "--repeat", "1", "--json", "--medium", path];
        run(args.iter().chain(options))
    };
    let rows = objects(bench(&["--peers", "all,lmdb-sync", "--mix", "insert,batch,get,multi-get,scan100"]));
    let peers = rows.iter().filter(|row| row.get("peer").is_some()).count();
    assert_eq!((rows.len() - peers, peers % 5), (5, 0));
    assert!(peers >= 12 * 5);
    for row in &rows {
        assert!(row.get("layout").is_some() != row.get("peer").is_some(), "{row}");
        has_keys(row, &["index", "node_bytes", "n", "mix", "threads", "keys", "domain", "ns_per_op"]);
        has_keys(row, &["ratio_to_btreemap"]);
    }
    is_empty(dir.path());
    let ran = bench(&["--peers", "all", "--threads", "2", "--mix", "insert,get,ycsb-a,ycsb-e,mixed,remove"]);
    assert!(ran.err.contains("btreemap, brie-tree"), "{ran:?}");
    assert!(objects(ran).iter().all(|row| row.get("peer").is_none_or(|peer| peer != "brie-tree")));
    is_empty(dir.path());
    assert!(bench(&["--peers", "volatile,ldmb"]).fails(2).contains("no peer is named 'ldmb'"));
}

#[test]
fn counts_are_as_expected_and_the_same_each_time() {
    let counts = || objects(run(["--mix", "counts", "--n", "50k", "--seed", "3", "--json"]));
    let rows = counts();
    // Rows of all sizes; a debug build has one.
    assert_eq!(rows.len(), if cfg!(debug_assertions) { 3 } else { 9 });
    for row in &rows {
        has_keys(row, &["lines_per_op", "expected_lines", "fences_per_op", "expected_fences"]);
        for off in ["lines_off_percent", "fences_off_percent"] {
            assert!(row[off].as_f64().unwrap().abs() < 10.0, "{row}");
        }
        assert!(row["lines_to_linear"].as_f64().is_none_or(|ratio| ratio < 0.7), "{row}");
    }
    assert_eq!(rows, counts());
}

#[test]
fn reopening_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for key in ["u64", "user", "uuid"] {
        let args = ["--mix", "reopen", "--n", "5000", "--repeat", "1", "--medium", path, "--key", key];
        let rows = objects(run(args.into_iter().chain(["--json"])));
        has_keys(&rows[0], &["layout", "index", "node_bytes", "n", "mix", "clean_ms", "dirty_ms", "lost", "limit_ms"]);
        assert!(rows[0]["dirty_ms"]["median"].as_f64().unwrap() > 0.0);
        assert!(run(args).ok().contains("dirty"));
    }
    is_empty(dir.path());
}

#[test]
fn a_pool_that_is_not_in_memory_is_measured() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = dir.path().to_str().unwrap();
    for key in ["u64", "user"] {
        let args =
            ["--mix", "cold", "--n", "20000", "--repeat", "1", "--medium", path, "--key", key, "--access", "random"];
        let row = &objects(run(args.into_iter().chain(["--json"])))[0];
        has_keys(row, &["access", "file_pages", "get_us", "get_pages", "read_us", "ratio", "goal", "scan_ns"]);
        for opened in ["open_clean", "open_killed"] {
            has_keys(&row[opened], &["ms", "pages"]);
        }
        assert!(row["get_pages"].as_f64().unwrap() < 4.0, "{row}");
    }
    is_empty(dir.path());
    let error = run(["--mix", "cold", "--medium", "dram"]).fails(2);
    assert!(error.contains("--mix cold takes a directory on a disk"), "{error}");
}

/// The keys that are texts, and how many bytes they have.
const TEXTS: [(&str, u64); 2] = [("user", 23), ("uuid", 36)];

#[test]
fn every_mix_is_measured_with_keys_that_are_texts() {
    let mixes = "insert,batch,get,miss,dependent,multi-get,update,scan,scan100,mixed,remove";
    let all = format!("{mixes},ycsb-a,ycsb-b,ycsb-c,ycsb-d,ycsb-e,ycsb-f");
    for (key, bytes) in TEXTS {
        for (value, keys) in [("8", "uniform"), ("100", "zipfian"), ("1001", "ascending")] {
            let args = ["--n", "2000", "--repeat", "1", "--json", "--mix", &all, "--vs-btreemap"];
            let rows = objects(run(args.into_iter().chain(["--key", key, "--value", value, "--keys", keys])));
            assert_eq!(rows.len(), 2 * 17);
            for row in &rows {
                assert_eq!((&row["key"], &row["key_bytes"]), (&key.into(), &bytes.into()));
                assert_eq!(row["value_bytes"].to_string(), value);
                assert!(row["layout"] == "bytes" || row["layout"] == "btreemap", "{row}");
                assert_eq!(row["layout"] == "bytes", row["lines_per_op"].is_number(), "{row}");
            }
        }
    }
    let args = ["--n", "2000", "--repeat", "1", "--key", "user", "--value", "100", "--threads", "2"];
    let text = run(args).ok();
    assert!(text.contains("user keys of 23 bytes, values of 100") && text.contains("bytes"), "{text}");
    for (args, why) in [
        (&["--key", "user", "--layout", "circular"][..], "one layout"),
        (&["--key", "user", "--index", "persistent"], "a volatile index"),
        (&["--key", "user", "--mix", "counts"], "for u64 keys"),
        (&["--value", "100"], "values of 8 bytes"),
    ] {
        let error = run(["--n", "2000"].iter().chain(args)).fails(2);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
#[cfg(feature = "peers")]
fn peers_are_measured_with_keys_that_are_texts() {
    let dir = tempfile::tempdir().unwrap();
    let bench = |options: &[&str]| {
        let args =
            ["--n", "1000", "--repeat", "1", "--json", "--key", "user", "--medium", dir.path().to_str().unwrap()];
        run(args.iter().chain(options))
    };
    let rows = objects(bench(&["--peers", "all", "--mix", "insert,batch,get,multi-get,scan100,ycsb-e,mixed"]));
    let peers: Vec<&str> = rows.iter().filter_map(|row| row.get("peer")?.as_str()).collect();
    assert!(peers.contains(&"blart") && peers.contains(&"lmdb-txn") && !peers.contains(&"congee"), "{peers:?}");
    assert!(bench(&["--peers", "congee"]).fails(2).contains("congee is not for keys of this kind"));
    is_empty(dir.path());
}

#[test]
fn space_is_measured() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    for key in ["u64", "uuid"] {
        let args = ["--mix", "space", "--n", "20k", "--medium", path, "--vs-btreemap", "--key", key];
        let rows = objects(run(args.into_iter().chain(["--json"])));
        let least = rows[0]["key_bytes"].as_f64().unwrap() + rows[0]["value_bytes"].as_f64().unwrap();
        for column in ["pool", "files"] {
            assert!(rows[0][column].as_f64().unwrap() > least, "{rows:?}");
            assert!(rows[1][column].is_null(), "{rows:?}");
        }
        let told = rows[0]["tree_memory"].as_f64().unwrap();
        assert!(told > 0.0 && told < least, "{rows:?}");
        if cfg!(target_os = "linux") {
            assert!(rows.iter().all(|row| row["memory"].is_number()), "{rows:?}");
        }
        assert!(run(args).ok().contains("btreemap"));
    }
    is_empty(dir.path());
}

#[test]
fn the_limits_of_the_machine_are_measured() {
    let args = ["--mix", "limits", "--n", "20k", "--repeat", "1"];
    let rows = objects(run(args.into_iter().chain(["--json"])));
    let ns = rows[0]["ns"].as_object().unwrap();
    assert!(rows.len() == 1 && ns.len() == 6 && ns.values().all(|ns| ns.as_f64().unwrap() > 0.0), "{rows:?}");
    assert!(run(args).ok().lines().count() == ns.len() + 2);
}

#[test]
fn waits_are_for_lines_or_for_rounds() {
    let of = |per: &[&str]| {
        let args = ["--mix", "batch", "--n", "4000", "--repeat", "1", "--slow", "20000", "--batch", "1000", "--json"];
        let rows = objects(run(args.iter().chain(per)));
        (rows[0]["slow_per"].as_str().unwrap().to_owned(), rows[0]["ns_per_op"]["run"].as_f64().unwrap())
    };
    let [(line, by_line), (round, by_round)] = [of(&[]), of(&["--slow-per", "round"])];
    assert_eq!([line, round], ["line", "round"]);
    // A batch flushes many lines in each of its rounds.
    assert!(by_round * 2.0 < by_line, "{by_round} {by_line}");
}

/// What transactions, snapshots and backups are measured with, of few keys.
fn turns(mix: &str, options: &[&str]) -> Vec<serde_json::Value> {
    let args = ["--mix", mix, "--n", "4000", "--repeat", "2", "--seed", "1"];
    let text = run(args.iter().chain(options)).ok();
    let rows = objects(run(args.iter().chain(options).chain(&["--json"])));
    assert!(text.lines().count() > rows.len() && !text.contains("NaN"), "{text}");
    for row in &rows {
        has_keys(row, &["mix", "n", "key", "index", "node_bytes", "threads", "repeat", "seed", "goal"]);
        assert_eq!(row["mix"], mix, "{row}");
    }
    rows
}

#[test]
fn transactions_are_measured_next_to_plain_inserts() {
    for options in [&[][..], &["--flush", "power", "--index", "persistent"]] {
        let rows = turns("transaction", options);
        let what = |row: &serde_json::Value| format!("{} {} {}", row["inserts"], row["trees"], row["how"]);
        let whats: Vec<String> = rows.iter().map(what).collect();
        assert_eq!(whats, [r#"1 1 "plain""#, r#"1 1 "transaction""#, r#"10 2 "plain""#, r#"10 2 "transaction""#]);
        for row in &rows {
            has_keys(row, &["ns_per_op", "ratio_to_plain", "domain", "lines_per_op", "fences_per_op"]);
            assert_eq!(row["how"] == "transaction", row["ratio_to_plain"].is_number(), "{row}");
        }
        // Three fences whatever the number of keys, and those of splits.
        let fences = rows[3]["fences_per_op"].as_f64().unwrap();
        assert!((3.0..6.0).contains(&fences) && rows[2]["fences_per_op"].as_f64().unwrap() > 10.0, "{rows:?}");
    }
    let uncounted = turns("transaction", &["--no-counts"]);
    assert!(uncounted.iter().all(|row| row["fences_per_op"].is_null()), "{uncounted:?}");
}

#[test]
fn operations_are_measured_beside_a_snapshot() {
    for key in ["u64", "user"] {
        let rows = turns("snapshot", &["--key", key]);
        assert_eq!(rows.iter().map(|row| &row["operation"]).collect::<Vec<_>>(), ["get", "insert", "update"]);
        for row in &rows {
            has_keys(row, &["ratio", "ratio_young", "keys"]);
            has_keys(&row["without"]["ns_per_op"], &["cpu", "run"]);
            has_keys(&row["beside"]["ns_per_op"], &["cpu", "run"]);
        }
    }
}

#[test]
fn conflicts_are_counted() {
    let layouts = ["--layout", "one_line,nv_store", "--threads", "4", "--keys", "zipfian", "--vs-btreemap"];
    let rows = turns("conflict", &layouts);
    assert_eq!(rows.iter().map(|row| &row["layout"]).collect::<Vec<_>>(), ["one_line", "nv_store"]);
    for row in &rows {
        has_keys(row, &["ns_per_op", "per_second", "ratio_to_first", "transactions", "keys"]);
        has_keys(&row["retries"], &["mean", "p999", "max"]);
        assert_eq!((&row["transactions"], &row["threads"]), (&8000.into(), &4.into()));
    }
}

/// What is timed of 2,000 keys.
fn timed(options: &[&str]) -> Vec<serde_json::Value> {
    objects(run(["--n", "2000", "--repeat", "1", "--json"].iter().chain(options)))
}

#[test]
fn nv_store_is_a_map_of_texts() {
    let mixes = "insert,get,ycsb-a,scan,remove";
    let rows = timed(&["--layout", "one_line,nv_store", "--key", "user", "--value", "100", "--mix", mixes]);
    assert!(rows.iter().filter(|row| row["layout"] == "nv_store").count() == 5, "{rows:?}");
    let error = run(["--n", "2000", "--layout", "nv_store"]).fails(2);
    assert!(error.contains("nv_store is for keys that are texts"), "{error}");
}

#[test]
fn a_phase_has_as_many_operations_as_are_asked_for() {
    let rows = timed(&["--operations", "500", "--mix", "get,ycsb-c,remove", "--batch", "100"]);
    assert!(rows.len() == 3 && rows.iter().all(|row| row["operations"] == 500), "{rows:?}");
    let error = run(["--n", "2000", "--operations", "5", "--mix", "reopen"]).fails(2);
    assert!(error.contains("--operations is not for --mix reopen"), "{error}");
}

#[test]
#[cfg(feature = "peers")]
fn conflicts_are_measured_next_to_those_of_stores() {
    let rows = turns("conflict", &["--threads", "4", "--peers", "stores"]);
    let peers: Vec<&str> = rows.iter().filter_map(|row| row.get("peer")?.as_str()).collect();
    assert_eq!(peers, ["redb", "lmdb-txn"]);
}

#[test]
fn backups_are_measured_beside_a_writer() {
    let dir = tempfile::tempdir().unwrap();
    for key in ["u64", "uuid"] {
        let rows = turns("backup", &["--key", key, "--medium", dir.path().to_str().unwrap()]);
        has_keys(&rows[0], &["seconds", "bytes", "update_ns", "kept", "kept_beside_copying"]);
        has_keys(&rows[0]["update_ns"], &["alone", "backup", "copying"]);
        assert!(rows[0]["bytes"].as_u64().unwrap() > 4000 * 16, "{rows:?}");
    }
    is_empty(dir.path());
}

#[test]
fn turns_are_for_trees_with_snapshots_in_files() {
    for (args, why) in [
        (&["--mix", "transaction", "--key", "user"][..], "--mix transaction is for u64 keys"),
        (&["--mix", "conflict", "--key", "uuid"], "--mix conflict is for u64 keys"),
        (&["--mix", "snapshot", "--medium", "dram"], "--mix snapshot takes a directory"),
        (&["--mix", "backup", "--slow", "300"], "no --slow"),
        (&["--mix", "backup", "--layout", "circular"], "--mix backup is for one_line"),
    ] {
        let error = run(["--n", "2000"].iter().chain(args)).fails(2);
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_journal_is_measured_next_to_none() {
    for options in [&[][..], &["--key", "user"]] {
        let rows = turns("journal", options);
        let what = |row: &serde_json::Value| format!("{} {}", row["operation"], row["journal"]).replace('"', "");
        let operations = ["insert", "get", "update", "get beside updates"];
        let expected =
            operations.map(|operation| ["none", "request", "10ms"].map(|journal| format!("{operation} {journal}")));
        assert_eq!(rows.iter().map(what).collect::<Vec<_>>(), expected.concat());
        for row in &rows {
            let (has_journal, is_tail) = (row["journal"] != "none", row["operation"] == "get beside updates");
            assert_eq!((row["ratio"].is_number(), row["goal"].is_number()), (has_journal, has_journal), "{row}");
            let times = if is_tail { "single_ns" } else { "own_ns_per_op" };
            assert!(row[times]["median"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["written"].is_object(), has_journal && row["operation"] == "insert", "{row}");
            assert!(row["written"].is_null() || row["written"]["log_bytes_per_op"].as_f64().unwrap() > 16.0, "{row}");
        }
    }
}

#[test]
fn the_slowest_updates_are_measured_beside_what_else_goes_on() {
    for options in [&[][..], &["--key", "user"]] {
        let rows = turns("pauses", options);
        let what = |row: &serde_json::Value| format!("{} {}", row["beside"], row["journal"]).replace('"', "");
        let beside = ["idle", "snapshot", "backup", "compact", "sync"];
        let expected = beside.map(|beside| ["none", "10ms"].map(|journal| format!("{beside} {journal}")));
        assert_eq!(rows.iter().map(what).collect::<Vec<_>>(), expected.concat());
        for row in &rows {
            let ns = ["median", "p99", "p999", "max"].map(|part| row["single_ns"][part].as_f64().unwrap());
            assert!(ns[0] > 0.0 && ns.is_sorted(), "{row}");
            assert_eq!(row["ratio"].is_number(), row["journal"] != "none", "{row}");
        }
    }
}

#[test]
fn durable_inserts_are_measured() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().to_str().unwrap();
    for key in ["u64", "user"] {
        let stores: &[&str] = if cfg!(feature = "peers") { &["--peers", "stores"] } else { &[] };
        let args = ["--mix", "durable", "--n", "2000", "--repeat", "2", "--medium", path, "--key", key];
        let args = args.iter().chain(stores);
        let rows = objects(run(args.clone().chain(&["--json"])));
        for row in &rows {
            has_keys(row, &["mix", "n", "key", "value_bytes", "threads", "repeat", "seed", "single"]);
            assert!(row["single"]["ns_per_op"]["run"].as_f64().unwrap() > 0.0, "{row}");
            assert!(row.get("peer").is_none_or(|peer| peer != "sled"), "it does not wait for the disk");
        }
        let (last, contestants) = rows.split_last().unwrap();
        assert_eq!(last["reference"], "overwrite");
        for row in contestants {
            assert!(row["batch"]["ns_per_key"]["run"].as_f64().unwrap() > 0.0, "{row}");
            assert_eq!(row["each"].is_object(), row.get("layout").is_some(), "{row}");
        }
        assert_eq!((&rows[0]["journal"], &rows[0]["batch"]["ratio_to_ours"]), (&"request".into(), &1.0.into()));
        assert!(rows[0]["batch"]["log_bytes_per_key"].as_f64().unwrap() > 16.0, "{}", rows[0]);
        let text = run(args).ok();
        assert!(text.contains("overwrite") && !text.contains("NaN"), "{text}");
    }
    is_empty(dir.path());
}

#[test]
fn pools_with_a_journal_are_timed_and_opened_again() {
    let dir = tempfile::tempdir_in(".").unwrap();
    let path = dir.path().to_str().unwrap();
    let bench = |journal, options: &[&str]| {
        let args = ["--n", "2000", "--repeat", "2", "--json", "--medium", path, "--journal", journal];
        objects(run(args.iter().chain(options)))
    };
    for (key, layout) in [("u64", "one_line,circular"), ("user", "one_line")] {
        for row in bench("10ms", &["--layout", layout, "--key", key, "--mix", "insert,get,update,remove"]) {
            assert_eq!((&row["journal"], &row["domain"]), (&"10ms".into(), &"journal".into()), "{row}");
        }
        for journal in ["each", "10ms", "request"] {
            let row = &bench(journal, &["--key", key, "--mix", "reopen"])[0];
            assert_eq!((&row["journal"], &row["lost"]), (&journal.into(), &0.into()));
            assert!(row["power_ms"]["median"].as_f64().unwrap() > 0.0, "{row}");
            assert!(journal != "each" || row["lost_power"] == 0, "{row}");
        }
    }
    is_empty(dir.path());
    let without = &objects(run(["--n", "2000", "--repeat", "1", "--json", "--mix", "reopen"]))[0];
    assert!(without["power_ms"].is_null() && without["journal"].is_null(), "{without}");
}

#[test]
fn journals_are_for_disks() {
    for (args, why) in [
        (&["--journal", "10ms", "--medium", "dram"][..], "a journal takes a directory"),
        (&["--journal", "each", "--flush", "power"], "a journal takes a directory"),
        (&["--mix", "journal", "--slow", "10"], "a journal takes a directory"),
        (&["--mix", "space", "--journal", "each"], "--journal is not for --mix space"),
        (&["--mix", "journal", "--journal", "each"], "--journal is not for --mix journal"),
        (&["--mix", "durable", "--medium", "dram"], "a journal takes a directory"),
        #[cfg(target_os = "linux")]
        (&["--mix", "durable", "--medium", "shm"], "waits for a disk"),
        (&["--mix", "durable", "--layout", "btreemap"], "is for trees, and for stores"),
        (&["--mix", "journal", "--layout", "btreemap"], "is for trees"),
    ] {
        let error = run(["--n", "2000"].iter().chain(args)).fails(2);
        assert!(error.contains(why), "{args:?}: {error}");
    }
}

/// A build next to itself.
#[test]
fn two_builds_take_turns() {
    let this = env!("CARGO_BIN_EXE_bristlecone-bench");
    let args = ["--n", "2000", "--repeat", "3", "--seed", "1", "--mix", "insert,get", "--layout", "one_line,linear"];
    let args = args.into_iter().chain(["--against", this]);
    let rows = objects(run(args.clone().chain(["--json"])));
    assert_eq!(rows.len(), 4);
    for row in &rows {
        has_keys(row, &["layout", "index", "node_bytes", "mix", "n", "seed", "turns", "ns_per_op", "ratio"]);
        let ratio = |name| row["ratio"][name].as_f64().unwrap();
        assert!(
            0.0 < ratio("least") && ratio("least") <= ratio("median") && ratio("median") <= ratio("greatest"),
            "{row}"
        );
        assert!(row["ns_per_op"]["other"].as_f64().unwrap() > 0.0 && row["ns_per_op"]["this"].as_f64().unwrap() > 0.0);
    }
    let text = run(args).ok();
    assert!(text.contains("3 turns with seeds from 1") && text.contains("linear 512 volatile"), "{text}");
    let missing = run(["--n", "2000", "--against", "/no/such/program"]).fails(1);
    assert!(missing.contains("/no/such/program"), "{missing}");
    let other = run(["--n", "2000", "--repeat", "1", "--against", "/bin/false"]).fails(1);
    assert!(other.contains("/bin/false"), "{other}");
    assert!(run(["--mix", "reopen", "--against", this]).fails(2).contains("--mix reopen"));
}
