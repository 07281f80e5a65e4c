//! Where measured pools lie.

use bristlecone::medium::Domain;
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
    /// The extra time for a flushed line.
    pub(crate) slow: Duration,
}
