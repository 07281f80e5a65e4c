//! loom models of windows: a thread changes two pages, and says so of each, within a window each, while another thread
//! lets pages go of which nothing was said.

use super::Windows;
use crate::sync::delay::{Validation, leave_out};
use crate::sync::{AtomicU64, Ordering};
use loom::sync::Arc;
use loom::thread;
use std::time::Duration;

#[derive(Default)]
struct State {
    windows: Windows,
    /// Shows 0 again when it goes.
    pages: [AtomicU64; 2],
    /// Whether a change of the page was noted.
    noted: [AtomicU64; 2],
}

impl State {
    fn change(&self, i: usize, has_window: bool) {
        let window = has_window.then(|| self.windows.open());
        self.pages[i].store(1, Ordering::Relaxed);
        self.noted[i].store(1, Ordering::Relaxed);
        drop(window);
    }

    fn evict(&self) {
        let Some(_shut) = self.windows.shut(Duration::ZERO) else { return };
        for (page, noted) in self.pages.iter().zip(&self.noted) {
            if noted.load(Ordering::Relaxed) == 0 {
                page.store(0, Ordering::Relaxed);
            }
        }
    }
}

fn explored(left_out: Option<Validation>, has_window: bool) {
    leave_out(left_out);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    // One thread: two that wait at the gate yield to each other without an end.
    builder.check(move || {
        let state = Arc::new(State::default());
        let changing = Arc::clone(&state);
        let thread = thread::spawn(move || (0..2).for_each(|i| changing.change(i, has_window)));
        state.evict();
        thread.join().unwrap();
        assert!(state.pages.iter().all(|page| page.load(Ordering::Relaxed) == 1), "found wrong: a change is lost");
    });
    leave_out(None);
}

#[test]
fn loom_no_change_is_lost_when_pages_go() {
    explored(None, true);
}

#[test]
#[should_panic(expected = "found wrong")]
fn loom_a_gate_without_a_fence_loses_changes() {
    explored(Some(Validation::Heavy), true);
}

#[test]
#[should_panic(expected = "found wrong")]
fn loom_a_change_without_a_window_is_lost() {
    explored(None, false);
}
