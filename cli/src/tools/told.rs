//! How far a long check is: a bar on a terminal, and a line from time to time elsewhere.

use crate::out;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// When there are lines: not at once, so that a short check prints none, and then not too many.
const FIRST: Duration = Duration::from_secs(2);
const EVERY: Duration = Duration::from_secs(10);

/// Tells on the standard error how far a check is.
pub(crate) struct Told {
    /// What is counted.
    what: &'static str,
    bar: ProgressBar,
    start: Instant,
    /// When the next line is due; `None` on a terminal, which has the bar.
    next: Option<Mutex<Duration>>,
}

impl Told {
    pub(crate) fn new(what: &'static str) -> Self {
        let look = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}");
        let bar = ProgressBar::new(0).with_style(look.unwrap_or(ProgressStyle::default_bar()));
        let next = (!io::stderr().is_terminal()).then(|| Mutex::new(FIRST));
        Self { what, bar, start: Instant::now(), next }
    }

    pub(crate) fn show(&self, done: usize, of: usize) {
        let (done, of, time) = (done as u64, of as u64, self.start.elapsed());
        let Some(next) = &self.next else {
            self.bar.set_length(of);
            self.bar.set_position(done);
            self.bar.set_message(left(time, done, of));
            return;
        };
        let mut next = next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if time >= *next && done < of {
            *next = time + EVERY;
            let (done, all, left) = (out::count(done), out::count(of), left(time, done, of));
            out::aside(&format!("{done} of {all} {}, {left}", self.what));
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// How long the rest takes if it goes on like this.
fn left(time: Duration, done: u64, of: u64) -> String {
    if done == 0 {
        return String::new();
    }
    let left = time.as_secs_f64() * of.saturating_sub(done) as f64 / done as f64;
    match left.round() as u64 {
        seconds @ 0..120 => format!("about {seconds} s left"),
        seconds @ 120..7200 => format!("about {} min left", (seconds + 30) / 60),
        seconds => format!("about {} h left", (seconds + 1800) / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_estimated() {
        let left = |seconds, done, of| left(Duration::from_secs(seconds), done, of);
        assert_eq!([left(10, 10, 40), left(10, 10, 1000)], ["about 30 s left", "about 17 min left"]);
        assert_eq!([left(10, 1, 1001), left(10, 0, 9), left(10, 9, 9)], ["about 3 h left", "", "about 0 s left"]);
    }
}
