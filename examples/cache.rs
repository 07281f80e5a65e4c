//! A cache of an async service, which is warm again after `kill -9`: `cargo run --features serde --example cache`.
//!
//! Tasks call `get` and `put` directly: these take about a microsecond, and wait for the disk only where changes come
//! faster than it takes them. `spawn_blocking` is for
//! what waits for it, or takes long: opening and closing, `sync`, `backup`, `compact`, and each change if there is
//! `Journal::Each`.

use bristlecone::{ErrorKind, Map, Pool, Postcard};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::{signal, task, time};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

/// The most pages that there are, and the milliseconds for which one is good.
const LIMIT: u64 = 200;
const LIFETIME: u64 = 60_000;

#[derive(Clone)]
struct Cache {
    pool: Pool,
    /// The millisecond in which a page expires, and its text, by its path.
    pages: Map<String, Postcard<(u64, String)>>,
    /// The millisecond in which a page expires, and its path: the page that expires first comes first.
    order: Map<(u64, String), ()>,
}

impl Cache {
    fn open(path: PathBuf) -> Result<Self> {
        let pool = match Pool::options().open(&path) {
            // The machine went down, and there is no journal. A cache may begin anew.
            Err(error) if matches!(error.kind, ErrorKind::PowerLoss) => {
                std::fs::remove_file(&path)?;
                Pool::options().open(&path)?
            }
            opened => opened?,
        };
        Ok(Self { pages: pool.map("pages")?, order: pool.map("order")?, pool })
    }

    /// The text of a page that has not expired. Nothing is copied but that text.
    fn get(&self, path: &str) -> Result<Option<String>> {
        let text = self.pages.get_with(path, |page| {
            let (expires, text) = page.decode_as::<(u64, &str)>()?;
            Ok::<_, bristlecone::codec::Refusal>((expires > now()).then(|| text.to_owned()))
        })?;
        Ok(text.transpose()?.flatten())
    }

    /// Sets a page, and removes those that have expired or are too many, the oldest first.
    fn put(&self, path: &str, text: String) -> bristlecone::Result<()> {
        let page = (now() + LIFETIME, text);
        // Both entries are there, or none is: for other tasks, and after a crash.
        self.pool.transaction(|tx| {
            if let Some(Postcard((expires, _))) = tx.get(&self.pages, path)? {
                tx.remove(&self.order, (expires, path))?;
            }
            tx.insert(&self.pages, path, &page)?;
            tx.insert(&self.order, (page.0, path), ())
        })?;
        while self.evict(self.pages.len() > LIMIT)? {}
        Ok(())
    }

    /// Removes the oldest page, if it must go or has expired. Returns whether it did.
    fn evict(&self, must: bool) -> bristlecone::Result<bool> {
        self.pool.transaction(|tx| {
            let oldest = tx.range(&self.order, ..)?.next().transpose()?;
            let Some(((expires, path), ())) = oldest.filter(|((expires, _), ())| must || *expires <= now()) else {
                return Ok(false);
            };
            tx.remove(&self.pages, &path)?;
            tx.remove(&self.order, (expires, &path))?;
            Ok(true)
        })
    }
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_millis() as u64)
}

/// Asks for some pages, and fetches those that are not there.
async fn visit(cache: Cache, visitor: u64) -> Result<()> {
    for i in 0..100 {
        let path = format!("/{}", (visitor + i * i) % 307);
        if cache.get(&path)?.is_none() {
            time::sleep(Duration::from_millis(1)).await; // a slow place far away
            cache.put(&path, path.repeat(100))?;
        }
    }
    Ok(())
}

/// What a run does with the pool at this path.
#[tokio::main]
pub(crate) async fn run(path: &Path) -> Result<()> {
    let path = path.to_owned();
    let cache = task::spawn_blocking(|| Cache::open(path)).await??;
    println!("{} pages are here already", cache.pages.len());

    let mut visits: task::JoinSet<_> = (0..8).map(|visitor| visit(cache.clone(), visitor)).collect();
    let (mut ticks, mut stop) = (time::interval(Duration::from_millis(50)), std::pin::pin!(signal::ctrl_c()));
    loop {
        tokio::select! {
            visit = visits.join_next() => if let Some(visit) = visit { visit?? } else { break },
            _ = ticks.tick() => println!("{:?}", cache.pool.metrics()),
            _ = &mut stop => break,
        }
    }
    // Tasks end where they await something, so between changes.
    visits.shutdown().await;
    assert!(cache.pages.len() <= LIMIT && cache.pages.len() == cache.order.len());
    let Cache { pool, pages, order } = cache;
    drop((pages, order));
    Ok(task::spawn_blocking(|| pool.close()).await??)
}

#[allow(dead_code, reason = "tests/repository/examples.rs has another one")]
fn main() -> Result<()> {
    run(Path::new("cache.pool"))
}
