//! Addresses: however many pools a process has, there are some for all of them, and for the rest of the process.

use super::{MIB, Scratch, child, run_apart};
use bristlecone::{Error, ErrorKind, Journal, Map, Options, PTree, Pool};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs;
use std::path::Path;

/// Bytes of addresses of this process.
fn addresses() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

/// A limit for this process from now on, or the greatest that it may have.
fn limit(resource: Resource, at_most: u64) -> u64 {
    let Rlimit { maximum, .. } = getrlimit(resource);
    let current = maximum.map_or(at_most, |maximum| maximum.min(at_most));
    setrlimit(resource, Rlimit { current: Some(current), maximum }).unwrap();
    current
}

/// Opens pools, each with a tree that has an entry.
fn open(at: &Path, count: usize, options: &Options) -> Vec<(Pool, PTree)> {
    let open = |number: usize| {
        let pool = options.open(at.join(format!("{number}.pool"))).unwrap_or_else(|error| panic!("{number}: {error}"));
        let tree = pool.tree("t").and_then(|tree| tree.insert(1, number as u64).map(|_| tree));
        let tree = tree.unwrap_or_else(|error| panic!("{number}: {error}"));
        (pool, tree)
    };
    (0..count).map(open).collect()
}

/// Bytes of a value.
const VALUE: u64 = 100_000;

/// Puts so many bytes into a pool.
fn fill(pool: &Pool, bytes: u64) {
    let map: Map<u64, Vec<u8>> = pool.map("values").unwrap();
    let value = vec![1; VALUE as usize];
    (0..bytes / VALUE).for_each(|key| assert!(!map.insert(key, &value).unwrap()));
}

#[test]
fn does_a_step() {
    let Some((path, step)) = child() else { return };
    let options = crate::plain().sync(false);
    let mut heap = Vec::<u8>::new();
    match step.as_str() {
        "a thousand" => {
            // One file for each, and some more.
            let count = (limit(Resource::Nofile, 4096).saturating_sub(64) as usize).min(1000);
            let before = addresses();
            let pools = open(&path, count, &options);
            let each = (addresses() - before) / count as u64;
            println!("\n{count} pools take {} MiB of addresses each", each / MIB);
            assert!(each < 256 * MIB, "{each}");
            assert_eq!(heap.try_reserve_exact(64 << 20), Ok(()));
            std::thread::spawn(|| {}).join().unwrap();
            // Further than what was set aside.
            [0, count - 1].into_iter().for_each(|number| fill(&pools[number].0, 80 * MIB));
            assert!(pools.iter().zip(0..).all(|((_, tree), number)| tree.get(1) == Some(number)));
        }
        "limited" => {
            limit(Resource::As, addresses() + 4096 * MIB);
            let options = options.capacity(16 * MIB);
            let pools = open(&path, 100, &options);
            assert_eq!(heap.try_reserve_exact(1 << 30), Ok(()));
            drop(std::mem::take(&mut heap));
            pools.iter().for_each(|(pool, _)| fill(pool, 2 * MIB));
            assert_eq!(heap.try_reserve_exact(64 << 20), Ok(()));
        }
        "full" => {
            limit(Resource::As, addresses() + 384 * MIB);
            let pools = open(&path, 1, &options);
            let map: Map<u64, Vec<u8>> = pools[0].0.map("values").unwrap();
            let value = vec![1; VALUE as usize];
            let error = (0..384 * MIB / VALUE).find_map(|key| map.insert(key, &value).err()).unwrap();
            assert!(matches!(error.kind, ErrorKind::OutOfSpace { .. }), "{error}");
            assert!(error.to_string().contains("ulimit -v"), "{error}");
            assert!(map.len() > 128 * MIB / VALUE, "{}", map.len());
            assert_eq!(heap.try_reserve_exact(64 << 20), Ok(()));
            assert!(map.remove(0).unwrap() && !map.insert(0, &value).unwrap());
        }
        "asked" => {
            let before = addresses();
            let pool = options.clone().addresses(1 << 40).open(path.join("a.pool")).unwrap();
            assert!(addresses() - before >= 1 << 40);
            assert_eq!(pool.stat().capacity, 1 << 47);
            drop(pool);
            assert!(addresses() - before < 1 << 30);
            let refused = |error: Error| {
                assert!(matches!(error.kind, ErrorKind::Io { doing: "map", .. }), "{error}");
                assert!(error.to_string().contains("ulimit -v"), "{error}");
            };
            refused(options.clone().addresses(1 << 47).open(path.join("a.pool")).map(drop).unwrap_err());
            refused(options.clone().addresses(u64::MAX).open(path.join("a.pool")).map(drop).unwrap_err());
            // To read, nothing is set aside.
            let before = addresses();
            let read = options.read_only(true).open(path.join("a.pool")).unwrap();
            assert!(addresses() - before < 32 * MIB, "{}", addresses() - before);
            drop(read);
            let pool = crate::plain().journal(Journal::OnRequest).addresses(1 << 40).open(path.join("b.pool")).unwrap();
            fill(&pool, MIB);
            assert!(addresses() - before >= 1 << 40);
        }
        step => panic!("{step}"),
    }
    println!("\nwell done");
}

fn well_done(step: &str) {
    let scratch = Scratch::in_memory().for_processes();
    let output = run_apart("addresses::does_a_step", &scratch.path(""), step);
    assert!(output.status.success(), "{step}: {output:?}");
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("well done"), "{step}: {told}");
    told.lines().filter(|line| line.contains("addresses each")).for_each(|line| println!("{line}"));
}

#[test]
fn a_thousand_pools_leave_addresses_to_each_other() {
    well_done("a thousand");
}

#[test]
fn where_addresses_are_limited_many_pools_leave_some_to_the_process() {
    well_done("limited");
}

#[test]
fn a_pool_that_grows_leaves_addresses_to_the_process() {
    well_done("full");
}

#[test]
fn so_many_addresses_are_set_aside_as_are_asked_for() {
    well_done("asked");
}
