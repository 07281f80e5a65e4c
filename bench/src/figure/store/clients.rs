//! The throughput of key-value stores that clients use at the same time: each client is a thread that waits for its
//! answers. Keys are those of YCSB, and values have 1000 bytes, which are its ten fields.

use super::hashed::Hashed;
use crate::clock;
use crate::entry::{Bytes, KeyArg, Kind, Text};
use crate::figure::figures::Figure;
use crate::figure::plan::Plan;
use crate::figure::row::{Row, Setting, Sink, compare};
use crate::keys::Pattern;
use crate::media::{self, Staged};
use crate::mix::Mix;
use crate::out::Outcome;
use crate::phases::{self, Phases, Trial, Workload};
use crate::place::{Place, Site};
use crate::plan::Contestant;
use crate::scratch::Scratch;
use bristlecone::medium::Domain;

const CONTENT: Bytes = Bytes { text: Text::User, value: 1000 };

/// A store that clients use.
#[derive(Clone, Copy)]
enum Served {
    Known(Contestant),
    Hashed,
}

/// The store with this name, if it can be had. A Redis has a log that is brought to the disk each second, or before
/// each answer.
fn find(name: &str) -> Option<Served> {
    let named = |label: &str| Contestant::named(label, KeyArg::User).ok();
    Some(match name {
        "bytes" => Served::Known(Contestant::ByteMap),
        "redis-everysec" => Served::Known(named("redis-sync")?),
        "redis-always" => Served::Known(named("redis")?.durable()),
        "circ-hashed" => Served::Hashed,
        "nv-store" => Served::Known(Contestant::NvStore),
        _ => return None,
    })
}

impl Served {
    /// Sets up a new store.
    fn open(self, site: &Site, load: &Workload) -> Outcome<Staged> {
        match self {
            Self::Known(contestant) => media::timed(site, contestant, load),
            Self::Hashed => {
                let mut scratch = Scratch::new(site.place.directory())?;
                let pool = media::pool(site, &mut scratch, media::capacity(load.n, load.kind))?;
                let trial: Box<dyn Trial> = Box::new(Phases::new(Hashed::open(&pool)?, CONTENT, load));
                Ok(Staged { trial, domain: site.domain, pool: None, scratch: Some(scratch) })
            }
        }
    }
}

/// Measures a figure.
pub(crate) fn run(figure: &Figure, plan: &Plan, mixes: &[Mix], sink: &mut Sink) -> Outcome<Vec<Row>> {
    let (mut served, mut absent) = (Vec::new(), Vec::new());
    for &name in figure.trees {
        match find(name) {
            Some(store) => served.push((name, store)),
            None => absent.push(name),
        }
    }
    sink.absent(&absent, None)?;
    let place = Place::Directory(plan.directory.clone());
    let site = Site { place, domain: Some(Domain::Power), ..Site::default() };
    let mut all = Vec::new();
    for &threads in figure.threads {
        let n = figure.keys(plan.n, plan.full)[0];
        let setting = Setting { bytes: figure.bytes[0], n, threads, slow: Some(0) };
        let row = |name, mix: &Mix| Row::new(name, setting, mix.name(), None);
        let mut rows: Vec<Vec<Row>> =
            served.iter().map(|&(name, _)| mixes.iter().map(|mix| row(name, mix)).collect()).collect();
        for repeat in 0..plan.repeat {
            let seed = plan.seed.wrapping_add(repeat.into());
            let (kind, pattern, operations) = (Kind::Bytes(CONTENT), Pattern::Zipfian, None);
            let load = Workload { kind, n, operations, pattern, threads, seed };
            for ((name, store), rows) in served.iter().zip(&mut rows) {
                let mut staged = store.open(&site, &load)?;
                let mut rows = rows.iter_mut();
                phases::run(&mut *staged.trial, mixes, |_, work| {
                    let run = clock::spend(u64::MAX, work).run;
                    rows.next().into_iter().for_each(|row| row.series.push(1e6 / run));
                })
                .map_err(|error| format!("{name}: {error}"))?;
            }
        }
        let mut rows = rows.concat();
        compare(&mut rows, figure.subject);
        sink.rows(figure, &rows)?;
        all.extend(rows);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::figures::{Show, USUAL};

    #[test]
    fn clients_take_turns_and_find_what_is_there() {
        let plan = Plan::of_tests(500, 0, 2);
        let mixes = &[Mix::Insert, Mix::YcsbA, Mix::YcsbD];
        let figure = Figure {
            id: "test:1",
            trees: &["circ-hashed", "nv-store", "bytes", "unknown"],
            subject: "bytes",
            threads: &[1, 3],
            show: Show::Throughput(mixes),
            ..USUAL
        };
        let rows = run(&figure, &plan, mixes, &mut Sink::new(&plan).unwrap()).unwrap();
        assert_eq!(rows.len(), 2 * 3 * mixes.len());
        assert!(rows.iter().all(|row| row.series.len() == 2 && row.series[0] > 0.0), "{rows:?}");
    }
}
