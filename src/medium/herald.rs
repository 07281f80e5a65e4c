//! Tells the events of a pool, one after the other, to the function of the user.
//!
//! Any thread may put an event into the queue, with whatever locks it has. The function is called by a thread of its
//! own, which is there only while there is something to tell, and has no lock. So the function may do anything with any
//! pool, and take any time: no thread of a pool waits for it, and the threads of journals (`crew.rs`) are left alone.

use super::event::{Event, EventKind};
use crate::sync::process::Process;
// Not that of a model checker: nothing is done under it but to look at the queue.
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::SystemTime;

/// The most events that wait for a function that is slow.
const MOST: usize = 1024;

/// The function that was passed to [`Options::on_event`](crate::Options::on_event).
#[derive(Clone)]
pub(crate) struct Listener(Arc<dyn Fn(&Event) + Send + Sync>);

impl Listener {
    pub(crate) fn new(listener: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        Self(Arc::new(listener))
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// What tells the events of a pool.
pub(super) struct Herald {
    pool: String,
    listener: Option<Listener>,
    queue: Mutex<Queue>,
    process: Process,
}

#[derive(Default)]
struct Queue {
    events: VecDeque<Event>,
    /// How many had no place.
    missed: u64,
    /// Whether there is a thread that tells them.
    is_told: bool,
}

impl Herald {
    /// Nothing, if nobody listens.
    pub(super) fn new(pool: &str, listener: Option<&Listener>) -> Option<Arc<Self>> {
        (listener.is_some() || cfg!(feature = "tracing")).then(|| {
            let (pool, listener) = (pool.to_owned(), listener.cloned());
            Arc::new(Self { pool, listener, queue: Mutex::default(), process: Process::this() })
        })
    }

    /// Tells an event, before long.
    pub(super) fn tell(self: &Arc<Self>, kind: EventKind) {
        if self.listener.is_none() && !is_traced() {
            return;
        }
        let mut queue = self.queue.lock();
        if queue.events.len() >= MOST {
            queue.missed += 1;
            return;
        }
        let missed = std::mem::take(&mut queue.missed);
        queue.events.extend((missed > 0).then(|| self.event(EventKind::Missed { events: missed })));
        queue.events.push_back(self.event(kind));
        if !queue.is_told {
            let this = Arc::clone(self);
            // Without a thread, the next event tries again.
            queue.is_told = thread::Builder::new().name("bristle-events".to_owned()).spawn(move || this.work()).is_ok();
        }
    }

    fn event(&self, kind: EventKind) -> Event {
        Event { pool: self.pool.clone(), at: SystemTime::now(), kind }
    }

    /// The next event; none if this thread is not needed any more.
    fn next(&self) -> Option<Event> {
        let mut queue = self.queue.lock();
        let event = queue.events.pop_front().or_else(|| {
            let missed = std::mem::take(&mut queue.missed);
            (missed > 0).then(|| self.event(EventKind::Missed { events: missed }))
        });
        queue.is_told = event.is_some();
        event
    }

    /// What the thread does that tells.
    fn work(&self) {
        while let Some(event) = self.next() {
            // A panic was told by the hook for panics. The next event may be more important.
            let told = catch_unwind(AssertUnwindSafe(|| {
                trace(&event);
                self.listener.iter().for_each(|Listener(listener)| listener(&event));
            }));
            // What was thrown may throw again when it is dropped.
            told.unwrap_or_else(std::mem::forget);
            // In a child, to which the function has forked, a thread of the parent may have the lock.
            if !self.process.is_this() {
                return;
            }
        }
    }
}

/// Whether there is somebody to trace events for.
fn is_traced() -> bool {
    #[cfg(feature = "tracing")]
    return tracing::level_filters::LevelFilter::current() != tracing::level_filters::LevelFilter::OFF;
    #[cfg(not(feature = "tracing"))]
    false
}

/// Passes an event on to the crate `tracing`.
fn trace(event: &Event) {
    #[cfg(feature = "tracing")]
    {
        use super::event::Severity;
        let (pool, event_name) = (event.pool.as_str(), event.kind.name());
        match event.kind.severity() {
            Severity::Info => tracing::info!(target: "bristlecone", pool, event = event_name, "{}", event.kind),
            Severity::Warning => tracing::warn!(target: "bristlecone", pool, event = event_name, "{}", event.kind),
            Severity::Error => tracing::error!(target: "bristlecone", pool, event = event_name, "{}", event.kind),
        }
    }
    #[cfg(not(feature = "tracing"))]
    let _ = event;
}

#[cfg(all(test, not(bristlecone_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn events_that_nobody_takes_are_counted_and_the_others_come_in_order() {
        let ((go_on, wait), (sender, told)) = (channel(), channel());
        let wait = Mutex::new(wait);
        let listener = Listener::new(move |event| {
            let _ = wait.lock().recv();
            sender.send(event.clone()).unwrap();
        });
        let herald = Herald::new("a", Some(&listener)).unwrap();
        drop(listener);
        let grew = |to| EventKind::LogGrew { from: 0, to };
        herald.tell(grew(0));
        // The first one is being told, and the others wait.
        while !herald.queue.lock().events.is_empty() {
            thread::yield_now();
        }
        (1..=MOST as u64 + 3).for_each(|to| herald.tell(grew(to)));
        go_on.send(()).unwrap();
        while herald.queue.lock().events.len() == MOST {
            thread::yield_now();
        }
        // There is room again.
        herald.tell(grew(7));
        drop((go_on, herald));
        let kinds: Vec<EventKind> = told.into_iter().map(|event: Event| event.kind).collect();
        let expected = (0..=MOST as u64).map(grew).chain([EventKind::Missed { events: 3 }, grew(7)]);
        assert!(kinds.iter().eq(&expected.collect::<Vec<_>>()), "{:?}", &kinds[kinds.len() - 3..]);
    }

    #[test]
    fn a_panic_and_what_it_throws_are_contained() {
        struct Throws;
        impl Drop for Throws {
            fn drop(&mut self) {
                panic!("this is thrown while what was thrown is dropped");
            }
        }
        let (sender, told) = channel();
        let listener = Listener::new(move |event| {
            sender.send(event.kind.clone()).unwrap();
            std::panic::resume_unwind(Box::new(Throws));
        });
        let herald = Herald::new("a", Some(&listener)).unwrap();
        (0..3).for_each(|_| herald.tell(EventKind::LogLost));
        (0..3).for_each(|_| assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok(EventKind::LogLost)));
    }
}
