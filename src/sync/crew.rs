//! Threads of the process that work in the background, for what is to be done now and then.
//!
//! There is no thread while there are no jobs, and one while nothing is to be done: it sleeps, without a period. A
//! thread that begins to work leaves another one that sleeps, so a job that takes long delays no other one, up to
//! [`MOST`] threads. What is not needed any more ends after [`SPARE`].
//!
//! A job is a function that is called when the job was woken, and at the time that it said last; never twice at once.

use crate::sync::of_process::OfProcess;
use crate::sync::process::Process;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The most threads that work at once, and one that sleeps.
const MOST: usize = 32;
/// How long a thread that nobody needs waits for work.
const SPARE: Duration = Duration::from_secs(1);

/// The threads of this process.
static HERE: OfProcess<Crew> = OfProcess::new();

/// The threads of a process.
struct Crew {
    /// Of which process: the threads of another one are not here.
    process: Process,
    state: Mutex<State>,
    /// There is something to do, or to look at.
    changed: Condvar,
    /// A job that is to end is not being done any more.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    jobs: usize,
    threads: usize,
    /// Threads that have nothing to do.
    sleeping: usize,
    /// Whether one of these watches the time.
    is_watched: bool,
    due: VecDeque<Arc<Work>>,
    /// What is to be done later, each with a number of its own.
    later: BTreeMap<(Instant, usize), Arc<Work>>,
}

type Call = Box<dyn Fn() -> Option<Instant> + Send + Sync>;

/// What is to be done for a job.
struct Work {
    crew: &'static Crew,
    /// `None` once the job has ended. Locked while it is done.
    call: Mutex<Option<Call>>,
    /// It was woken, and has not begun since. Set without the lock.
    is_woken: AtomicBool,
    /// Changes under the crew's lock.
    stage: Mutex<Stage>,
}

#[derive(Default)]
struct Stage {
    is_running: bool,
    is_ended: bool,
    /// When it is to be done, if that is later.
    at: Option<Instant>,
}

/// Something that is to be done now and then.
pub(crate) struct Job(Arc<Work>);

impl Job {
    /// A job that is done whenever it is woken, and at the time that the call before has returned.
    ///
    /// # Errors
    ///
    /// The system gives no thread.
    pub(crate) fn new(call: impl Fn() -> Option<Instant> + Send + Sync + 'static) -> io::Result<Self> {
        Self::of(HERE.get(), call)
    }

    fn of(crew: &'static Crew, call: impl Fn() -> Option<Instant> + Send + Sync + 'static) -> io::Result<Self> {
        let mut state = crew.state.lock();
        if state.threads == 0 {
            crew.start(&mut state)?;
        }
        state.jobs += 1;
        drop(state);
        let (is_woken, stage) = (AtomicBool::new(false), Mutex::default());
        Ok(Self(Arc::new(Work { crew, call: Mutex::new(Some(Box::new(call))), is_woken, stage })))
    }

    /// What wakes the job. It does nothing once the job has ended, and in a forked child.
    pub(crate) fn waker(&self) -> impl Fn() + Send + Sync + 'static {
        // The waker may be kept by what the job works on.
        let work = Arc::downgrade(&self.0);
        move || work.upgrade().iter().for_each(Work::wake)
    }
}

impl Drop for Job {
    /// Ends the job: it is not done any more when this returns, and what it worked on is free, even while a waker is
    /// called.
    fn drop(&mut self) {
        let Work { crew, call, stage, .. } = &*self.0;
        let mut state = crew.state.lock();
        stage.lock().is_ended = true;
        state.forget(&self.0);
        while stage.lock().is_running {
            crew.ended.wait(&mut state);
        }
        state.jobs -= 1;
        if state.jobs == 0 {
            crew.changed.notify_all();
        }
        drop(state);
        let call = call.lock().take();
        drop(call);
    }
}

impl Work {
    fn wake(self: &Arc<Self>) {
        // Once is enough until it begins.
        if self.is_woken.swap(true, Ordering::AcqRel) || !self.crew.process.is_this() {
            return;
        }
        let mut state = self.crew.state.lock();
        let Stage { is_running, is_ended, .. } = *self.stage.lock();
        // Else it is done again when it has been done.
        if !is_ended && !is_running {
            state.forget(self);
            state.due.push_back(Arc::clone(self));
            self.crew.changed.notify_one();
        }
    }
}

impl State {
    /// Drops what was planned for a job.
    fn forget(&mut self, work: &Arc<Work>) {
        if let Some(at) = work.stage.lock().at.take() {
            self.later.remove(&(at, Arc::as_ptr(work).addr()));
        }
        self.due.retain(|due| !Arc::ptr_eq(due, work));
    }

    /// The next job that is due.
    fn next(&mut self) -> Option<Arc<Work>> {
        let work = match self.due.pop_front() {
            Some(work) => work,
            None => self.later.first_entry().filter(|first| first.key().0 <= Instant::now())?.remove(),
        };
        let mut stage = work.stage.lock();
        (stage.is_running, stage.at) = (true, None);
        drop(stage);
        Some(work)
    }
}

impl Default for Crew {
    fn default() -> Self {
        let (changed, ended) = (Condvar::new(), Condvar::new());
        Self { process: Process::this(), state: Mutex::default(), changed, ended }
    }
}

impl Crew {
    /// Starts a thread.
    fn start(&'static self, state: &mut State) -> io::Result<()> {
        thread::Builder::new().name("bristlecone".to_owned()).spawn(|| self.work())?;
        state.threads += 1;
        Ok(())
    }

    /// What each thread does.
    fn work(&'static self) {
        let mut state = self.state.lock();
        while let Some(work) = self.wait(&mut state) {
            // Somebody has to look for what comes meanwhile. Without another thread it waits for this one.
            if !state.is_watched && state.sleeping > 0 {
                self.changed.notify_one();
            } else if !state.is_watched && state.threads <= MOST {
                let _ = self.start(&mut state);
            }
            drop(state);
            work.is_woken.store(false, Ordering::Release);
            let at = work.call.lock().as_ref().and_then(|call| call());
            state = self.state.lock();
            self.done(&mut state, work, at);
        }
        state.threads -= 1;
    }

    /// Waits for a job that is due; `None` if this thread is not needed any more.
    fn wait(&self, state: &mut MutexGuard<'_, State>) -> Option<Arc<Work>> {
        loop {
            if let Some(work) = state.next() {
                return Some(work);
            }
            if state.jobs == 0 {
                return None;
            }
            state.sleeping += 1;
            let watches = !std::mem::replace(&mut state.is_watched, true);
            let is_spare = if !watches {
                self.changed.wait_for(state, SPARE).timed_out()
            } else {
                match state.later.keys().next().map(|&(at, _)| at) {
                    Some(at) => drop(self.changed.wait_until(state, at)),
                    None => self.changed.wait(state),
                }
                state.is_watched = false;
                false
            };
            state.sleeping -= 1;
            if is_spare && state.due.is_empty() && state.is_watched {
                return None;
            }
        }
    }

    /// A job was done, and is to be done again at a time.
    fn done(&self, state: &mut State, work: Arc<Work>, at: Option<Instant>) {
        let mut stage = work.stage.lock();
        stage.is_running = false;
        if stage.is_ended {
            self.ended.notify_all();
        } else if work.is_woken.load(Ordering::Acquire) {
            drop(stage);
            state.due.push_back(work);
        } else if let Some(at) = at {
            stage.at = Some(at);
            drop(stage);
            let is_first = state.later.keys().next().is_none_or(|&(first, _)| at < first);
            state.later.insert((at, Arc::as_ptr(&work).addr()), work);
            // The thread that watches the time sleeps for longer. Where there is none, this thread is next.
            if is_first && state.is_watched {
                self.changed.notify_all();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_so() {
            assert!(start.elapsed() < Duration::from_secs(60), "{what}");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// A crew of its own, which no other test uses.
    fn crew() -> &'static Crew {
        // Its threads may end later than the test, so it stays, where a search for leaks finds it.
        static CREWS: Mutex<Vec<&Crew>> = Mutex::new(Vec::new());
        let crew: &Crew = Box::leak(Box::default());
        CREWS.lock().push(crew);
        crew
    }

    fn job(crew: &'static Crew, call: impl Fn() -> Option<Instant> + Send + Sync + 'static) -> Job {
        Job::of(crew, call).unwrap()
    }

    /// Jobs that are woken, that say when they come again, and that take long: each is done, none twice at once, and
    /// one thread is left when nothing is to be done; none when there is no job.
    #[test]
    fn each_job_is_done_and_idle_threads_end() {
        let crew = crew();
        let threads = || crew.state.lock().threads;
        let count = |n: &Arc<AtomicU64>| n.load(Ordering::SeqCst);
        let [woken, timed, long, at_once] = [0; 4].map(|_| Arc::new(AtomicU64::new(0)));
        let (counted, inside) = (Arc::clone(&woken), Arc::clone(&at_once));
        let first = job(crew, move || {
            assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
            thread::yield_now();
            counted.fetch_add(1, Ordering::SeqCst);
            inside.fetch_sub(1, Ordering::SeqCst);
            None
        });
        let counted = Arc::clone(&timed);
        let second = job(crew, move || {
            (counted.fetch_add(1, Ordering::SeqCst) < 4).then(|| Instant::now() + Duration::from_millis(2))
        });
        let (is_held, counted) = (Arc::new(AtomicBool::new(true)), Arc::clone(&long));
        let held = Arc::clone(&is_held);
        let third = job(crew, move || {
            while held.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            counted.fetch_add(1, Ordering::SeqCst);
            None
        });
        third.waker()();
        second.waker()();
        wait_until("a job that comes again, beside one that takes long", || count(&timed) == 5);
        let wake = first.waker();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        let before = count(&woken);
                        wake();
                        wait_until("a job that was woken", || count(&woken) > before);
                    }
                });
            }
        });
        assert_eq!(count(&long), 0);
        is_held.store(false, Ordering::SeqCst);
        wait_until("a job that takes long", || count(&long) == 1);
        wait_until("threads that nobody needs end", || threads() == 1);
        drop([first, second, third]);
        wait_until("the last thread ends", || threads() == 0);
        wake();
        assert_eq!((count(&timed), crew.state.lock().due.len()), (5, 0));
    }

    /// When a job is dropped, it is not being done, and nothing is left of it.
    #[test]
    fn a_job_ends_for_good() {
        let crew = crew();
        for round in 0..200 {
            let is_there = Arc::new(AtomicBool::new(true));
            let seen = Arc::clone(&is_there);
            let job = job(crew, move || {
                assert!(seen.load(Ordering::SeqCst), "done after its end");
                thread::yield_now();
                assert!(seen.load(Ordering::SeqCst), "not done when its end returned");
                Some(Instant::now() + Duration::from_micros(50))
            });
            job.waker()();
            if round % 2 == 0 {
                thread::sleep(Duration::from_micros(300));
            }
            drop(job);
            is_there.store(false, Ordering::SeqCst);
        }
        let state = crew.state.lock();
        assert!(state.later.is_empty() && state.due.is_empty());
    }
}
