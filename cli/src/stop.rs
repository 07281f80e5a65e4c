//! SIGINT and SIGTERM as a wish: the command ends its work in order. A second one ends the process at once.

use std::io::{self, Read};

#[cfg(unix)]
pub(crate) use with_signals::{Input, Stop};
#[cfg(not(unix))]
pub(crate) use without_signals::{Input, Stop};

/// A signal that asked for an end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    pub(crate) name: &'static str,
    number: u8,
}

impl Signal {
    /// The exit code by which shells know a process that a signal has ended.
    pub(crate) fn code(self) -> u8 {
        128 + self.number
    }
}

/// An input that ends once a signal asks for an end, also while it waits for more.
pub(crate) struct Until<R> {
    input: R,
    stop: Stop,
}

impl<R> Until<R> {
    pub(crate) fn new(input: R, stop: Stop) -> Self {
        Self { input, stop }
    }
}

impl<R: Input> Read for Until<R> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stop.wait(&self.input);
        if self.stop.asked().is_some() { Ok(0) } else { self.input.read(bytes) }
    }
}

#[cfg(unix)]
mod with_signals {
    use super::Signal;
    use rustix::event::{PollFd, PollFlags, poll};
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::{flag, low_level};
    use std::io::{self, Read};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// What can be waited for.
    pub(crate) trait Input: Read + AsFd + 'static {}

    impl<R: Read + AsFd + 'static> Input for R {}

    /// The signals of this process from now on. Clones are about the same signals.
    #[derive(Clone)]
    pub(crate) struct Stop {
        number: Arc<AtomicUsize>,
        /// Can be read from once there was a signal.
        wake: Arc<UnixStream>,
    }

    impl Stop {
        /// Has SIGINT and SIGTERM no longer end the process, but for the second one.
        ///
        /// # Errors
        ///
        /// The system has no more descriptors.
        pub(crate) fn on_signals() -> io::Result<Self> {
            let (number, asked) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (wake, waker) = UnixStream::pair()?;
            for signal in [SIGINT, SIGTERM] {
                // Actions run in the order in which they are registered: the first signal finds `asked` false.
                flag::register_conditional_default(signal, asked.clone())?;
                flag::register_usize(signal, number.clone(), signal as usize)?;
                flag::register(signal, asked.clone())?;
                low_level::pipe::register(signal, waker.try_clone()?)?;
            }
            Ok(Self { number, wake: Arc::new(wake) })
        }

        /// The signal that has asked for an end, if any has.
        pub(crate) fn asked(&self) -> Option<Signal> {
            match self.number.load(Ordering::Acquire) as i32 {
                0 => None,
                SIGINT => Some(Signal { name: "SIGINT", number: SIGINT as u8 }),
                _ => Some(Signal { name: "SIGTERM", number: SIGTERM as u8 }),
            }
        }

        /// Waits until there is something to read, or a signal.
        pub(super) fn wait(&self, input: &impl Input) {
            let mut any = [PollFd::new(input, PollFlags::IN), PollFd::new(&*self.wake, PollFlags::IN)];
            // It fails if a signal comes meanwhile.
            let _ = poll(&mut any, None);
        }
    }
}

#[cfg(not(unix))]
mod without_signals {
    use super::Signal;
    use std::io::{self, Read};

    /// What can be read.
    pub(crate) trait Input: Read + 'static {}

    impl<R: Read + 'static> Input for R {}

    /// Here, the system ends the process.
    #[derive(Clone)]
    pub(crate) struct Stop;

    impl Stop {
        /// Changes nothing.
        ///
        /// # Errors
        ///
        /// None.
        pub(crate) fn on_signals() -> io::Result<Self> {
            Ok(Self)
        }

        /// None.
        pub(crate) fn asked(&self) -> Option<Signal> {
            None
        }

        /// Does nothing: a read waits.
        pub(super) fn wait(&self, _input: &impl Input) {}
    }
}
