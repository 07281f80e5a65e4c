//! How the subcommands open pools that are there: which ways on there are if the last process has left less than all,
//! and what is said of a pool that was opened so.

use crate::out;
use bristlecone::{OldLog, Options, Pool, Recovered, Recovery, Result};
use clap::ValueEnum;
use std::path::{Path, PathBuf};

/// What counts of a ring that lacks entries before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Uncertain {
    /// The entries before the first gap: right in any case
    Prefix,
    /// All: if the disk of the ring was there all the time
    All,
}

/// The options that say what to give up.
#[derive(Debug, Clone, Copy, Default, clap::Args)]
#[command(next_help_heading = "For a pool with a journal that is refused after a crash")]
pub(crate) struct Opening {
    /// Open it without its ring, as it was at its last sync or later: what was changed after that is lost
    #[arg(long, conflicts_with = "uncertain_ring")]
    without_ring: bool,
    /// Open it with what its ring has before the first gap, or with all that its ring has
    #[arg(long, value_name = "WHAT")]
    uncertain_ring: Option<Uncertain>,
}

impl Opening {
    /// Whether anything is to be given up.
    #[cfg(all(feature = "tools", target_os = "linux"))]
    pub(crate) fn gives_up(self) -> bool {
        self.without_ring || self.uncertain_ring.is_some()
    }

    /// Adds to options what to give up.
    pub(crate) fn options(self, options: Options) -> Options {
        options.recovery(match (self.without_ring, self.uncertain_ring) {
            (true, _) => Recovery::WithoutRing,
            (false, Some(Uncertain::Prefix)) => Recovery::RingPrefix,
            (false, Some(Uncertain::All)) => Recovery::RingAll,
            (false, None) => Recovery::Whole,
        })
    }

    /// Opens a pool, and says what the open found out of the ordinary.
    pub(crate) fn open(self, options: Options, path: &Path) -> Result<Pool> {
        let pool = self.options(options).open(path)?;
        tell(path, &pool);
        Ok(pool)
    }
}

/// The path of a file beside a pool, which has the pool's name and an ending.
pub(crate) fn with_ending(pool: &Path, ending: &str) -> PathBuf {
    let mut path = pool.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Says on the standard error what is missing of a pool that was opened, and what the open has mended.
pub(crate) fn tell(path: &Path, pool: &Pool) {
    let recovered = pool.journal().map(|figures| figures.recovered).unwrap_or_default();
    let mended = if pool.medium().facts().read_only { Vec::new() } else { mended(pool, &recovered) };
    let old_log = recovered.old_log.map(|old| left_over(path, old));
    for told in losses(&recovered).into_iter().chain(mended).chain(old_log) {
        out::aside(&out::shown(&format!("bristlecone: {}: {told}", path.display())));
    }
}

/// What was damaged, and is there once more.
fn mended(pool: &Pool, recovered: &Recovered) -> Vec<String> {
    let copies = [("its superblock", pool.stat().damaged_twin), ("its log's header", recovered.damaged_twin)];
    let mended = |(of, at): (&str, Option<u64>)| {
        Some(format!("a copy of {of}, at offset {}, was damaged, and was written anew", at?))
    };
    copies.into_iter().filter_map(mended).collect()
}

/// What was done with the log of a pool that was here before.
pub(crate) fn left_over(path: &Path, old: OldLog) -> String {
    match old {
        OldLog::Kept { number } => {
            let [log, ring] = [".log", ".ring"].map(|ending| with_ending(path, &format!("{ending}.old-{number}")));
            format!(
                "the log of another pool, which was here before, was in the place of its log, and is {} now (and its ring, if there was one, \
                 {}): put them beside that pool if it was moved away, or remove them",
                log.display(),
                ring.display()
            )
        }
        _ => "the log of another pool, which was here before and was closed in order, was removed".to_owned(),
    }
}

/// What is gone for good. Changes that never returned are no loss.
fn losses(recovered: &Recovered) -> Vec<String> {
    let mut losses = Vec::new();
    if recovered.without_ring {
        losses.push(
            "it was not closed in order, and was opened without its ring: what was not synced is lost".to_owned(),
        );
    }
    if recovered.given_up > 0 {
        let entries = out::counted(recovered.given_up, "entry", "entries");
        losses.push(format!(
            "it was not closed in order, and {entries} of its ring, after others that are missing, are lost"
        ));
    }
    if recovered.lost > 0 {
        let entries = out::counted(recovered.lost, "entry", "entries");
        losses.push(format!("its log was damaged: {entries} or more from there on are lost"));
    }
    losses
}
