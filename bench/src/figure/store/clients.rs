//! The throughput of key-value stores that clients use at the same time: each client is a thread that waits for its answers. Keys
//! are those of YCSB, and values have 1000 bytes, which are its ten fields.

use crate::clock;
use crate::entry::{Bytes, Kind, Text};
use crate::figure::figures::Figure;
use crate::figure::plan::Plan;
use crate::figure::row::{Row, Setting, Sink, compare};
use crate::keys::Pattern;
use crate::media::{self, Staged};
use crate::mix::Mix;
use crate::out::Outcome;
use crate::phases::Workload;
use crate::place::{Place, Site};
use crate::plan::Contestant;
use bristlecone::medium::Domain;
use std::time::Duration;

const CONTENT: Bytes = Bytes { text: Text::User, value: 1000 };

/// A store that clients use.
#[derive(Clone, Copy)]
struct Served {
    name: &'static str,
    contestant: Contestant,
}

/// The store with this name, if it can be had. A Redis has a log that is brought to the disk each second, or before each answer.
fn find(name: &'static str) -> Option<Served> {
    let named = |label: &str| Contestant::named(label, crate::entry::KeyArg::User).ok();
    let contestant = match name {
        "bytes" => Contestant::ByteMap,
        "redis-everysec" => named("redis-sync")?,
        "redis-always" => named("redis")?.durable(),
        _ => return None,
    };
    Some(Served { name, contestant })
}

impl Served {
    fn open(self, site: &Site, load: &Workload) -> Outcome<Staged> {
        media::timed(site, self.contestant, load)
    }
}

/// Measures a figure.
pub(crate) fn run(figure: &Figure, plan: &Plan, mix: Mix, sink: &mut Sink) -> Outcome<Vec<Row>> {
    let (there, absent): (Vec<_>, Vec<_>) = figure.trees.iter().partition(|name| find(name).is_some());
    sink.absent(&absent, None)?;
    let served: Vec<Served> = there.into_iter().filter_map(find).collect();
    let place = Place::Directory(plan.directory.clone());
    let site = Site { place, domain: Some(Domain::Power), journal: None, slow: Duration::ZERO };
    let mut all = Vec::new();
    for &threads in figure.threads {
        let n = figure.keys(plan.n, plan.full)[0];
        let setting = Setting { bytes: figure.bytes[0], n, threads, slow: Some(0) };
        let mut rows: Vec<Row> = served.iter().map(|store| Row::new(store.name, setting, mix.name(), None)).collect();
        for repeat in 0..plan.repeat {
            let seed = plan.seed.wrapping_add(repeat.into());
            let load = Workload { kind: Kind::Bytes(CONTENT), n, pattern: Pattern::Zipfian, threads, seed };
            for (store, row) in served.iter().zip(&mut rows) {
                let mut staged = store.open(&site, &load)?;
                staged.trial.fill();
                let spent = clock::spend(u64::MAX, staged.trial.work(mix));
                staged.trial.fault().map_err(|error| format!("{}: {error}", store.name))?;
                row.series.push(1e6 / spent.run);
            }
        }
        compare(&mut rows, figure.subject);
        sink.rows(figure, &rows)?;
        all.extend(rows);
    }
    Ok(all)
}
