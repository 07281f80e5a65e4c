//! Where measured pools lie.

use crate::out::Outcome;
use crate::parse::Usage;
use bristlecone::Journal;
use bristlecone::medium::Domain;
use clap::ValueEnum;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Where a pool is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// In ordinary memory.
    Dram,
    /// In a file in this directory; `None`: wherever temporary pools are best.
    Directory(Option<PathBuf>),
}

impl Default for Place {
    fn default() -> Self {
        Self::Directory(None)
    }
}

impl Place {
    /// The name in tables.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Dram => "memory".to_owned(),
            Self::Directory(None) => "scratch".to_owned(),
            Self::Directory(Some(path)) => path.display().to_string(),
        }
    }

    /// The directory for files that are needed in any case.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Self::Dram => None,
            Self::Directory(directory) => directory.as_deref(),
        }
    }

    /// A directory on a disk: the temporary one, the target directory, or this one.
    pub(crate) fn disk() -> Outcome<Self> {
        let directories = [std::env::temp_dir(), "target".into(), ".".into()];
        let disk = directories.into_iter().find(|directory| directory.is_dir() && !is_memory(directory));
        let disk = disk.ok_or_else(|| Usage("no disk was found: say where one is, with --medium".to_owned()))?;
        Ok(Self::Directory(Some(disk)))
    }

    /// Whether nothing of it outlives a loss of power: waiting for such a disk costs nothing.
    pub(crate) fn is_memory(&self) -> bool {
        match self {
            Self::Dram => true,
            // Shared memory, where the system has it.
            Self::Directory(None) => cfg!(target_os = "linux"),
            Self::Directory(Some(directory)) => is_memory(directory),
        }
    }
}

/// Whether the files of a directory lie in memory.
#[cfg(target_os = "linux")]
fn is_memory(directory: &Path) -> bool {
    const TMPFS: u64 = 0x0102_1994;
    const RAMFS: u64 = 0x8584_58f6;
    rustix::fs::statfs(directory).is_ok_and(|found| [TMPFS, RAMFS].contains(&(found.f_type as u64)))
}

#[cfg(not(target_os = "linux"))]
fn is_memory(_directory: &Path) -> bool {
    false
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "dram" => Ok(Self::Dram),
            "shm" => Ok(Self::Directory(Some("/dev/shm".into()))),
            path if PathBuf::from(path).is_dir() => Ok(Self::Directory(Some(path.into()))),
            path => Err(format!("dram, shm or an existing directory, not '{path}'")),
        }
    }
}

/// Where measured pools lie, and what flushing costs there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Site {
    pub(crate) place: Place,
    /// The domain to use, as if the pools were on such a medium.
    pub(crate) domain: Option<Domain>,
    /// The journal that pools have, if they have one.
    pub(crate) journal: Option<Journal>,
    /// The extra time for what is flushed.
    pub(crate) slow: Duration,
    pub(crate) slow_per: SlowPer,
}

/// What takes the extra time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum SlowPer {
    /// Each flushed line, as in the papers
    #[default]
    Line,
    /// Each round: what is flushed before a fence, as memory takes the lines of a round side by side
    Round,
}

impl SlowPer {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Round => "round",
        }
    }
}
