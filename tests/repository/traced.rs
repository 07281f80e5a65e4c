//! Events go to the crate `tracing`.

use bristlecone::Pool;
use std::fmt::{Debug, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps each event as one line.
struct Keeps;

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Keeps {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(format!("{} {}", event.metadata().level(), event.metadata().target()));
        event.record(&mut line);
        SEEN.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn events_are_traced_with_their_pool_and_their_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("traced.pool");
    // Nobody traces.
    Pool::options().open(&path).unwrap().close().unwrap();
    tracing::subscriber::set_global_default(Keeps).unwrap();
    Pool::options().slow(Duration::ZERO, Duration::MAX).open(&path).unwrap().sync().unwrap();
    let of_this = || {
        let seen = SEEN.lock().unwrap();
        let of_this = |line: &&String| line.contains("traced.pool");
        seen.iter().filter(of_this).cloned().collect::<Vec<_>>()
    };
    let (start, begins) = (Instant::now(), "INFO bristlecone message=closed in ");
    let names = format!(" pool={:?} event=\"closed\"", path.to_str().unwrap());
    loop {
        if let Some(closed) = of_this().iter().find(|line| line.contains("closed")) {
            assert!(closed.starts_with(begins) && closed.ends_with(&names), "{closed}");
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", of_this());
    }
}
