//! A session store that is there again after `kill -9`.
//!
//! Sessions are found by their UUID. A second tree in the same pool has them in the order in which they expire.
//!
//! Run it, kill it whenever you like, run it again: `cargo run --example sessions`.

use bristlecone::{Map, Pool};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long a session lives.
const LIFETIME: u32 = 20;

struct Sessions {
    pool: Pool,
    /// The user of a session, by its UUID as text.
    users: Map<String, Vec<u8>>,
    /// The UUID of a session, by the second in which it expires and by a number of its own. Such a key fits eight
    /// bytes, so that it lies in the leaf.
    expiry: Map<(u32, u32), String>,
}

impl Sessions {
    fn open(pool: &Pool) -> bristlecone::Result<Self> {
        Ok(Self { pool: pool.clone(), users: pool.map("users")?, expiry: pool.map("expiry")? })
    }

    /// Starts a session: both entries are there, or none is, also after a crash. They are durable when this returns.
    fn start(&self, uuid: &str, user: &str, now: u32, number: u32) -> bristlecone::Result<()> {
        let mut batch = self.pool.batch();
        batch.insert(&self.expiry, (now + LIFETIME, number), uuid)?;
        batch.insert(&self.users, uuid, user.as_bytes())?;
        batch.commit()
    }

    /// Removes all sessions that have expired. Returns how many there were.
    ///
    /// Users go first: so every user with a session is in `expiry`, also after a crash in between. The next call
    /// removes what such a crash leaves in `expiry`. Nobody adds to a time that has passed.
    fn expire(&self, now: u32) -> bristlecone::Result<u64> {
        for uuid in self.expiry.values(..(now, 0)) {
            self.users.remove(&uuid?)?;
        }
        self.expiry.remove_range(..(now, 0))
    }
}

/// A UUID that no other session has, as text. A real one is random.
fn uuid(now: u32, number: u32) -> String {
    let mixed = (u64::from(now) << 32 | u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (high, low) = (mixed >> 32, mixed & 0xffff_ffff);
    format!("{high:08x}-{:04x}-4000-8000-{low:012x}", mixed >> 16 & 0xffff)
}

/// What a run does with the pool at this path.
pub(crate) fn run(path: &Path) -> bristlecone::Result<()> {
    let pool = Pool::options().capacity(256 << 20).open(path)?;
    let sessions = Sessions::open(&pool)?;
    println!("{} sessions survived; {}", sessions.users.len(), pool.durability().promise());

    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as u32);
    sessions.start("00000000-0000-4000-8000-000000000000", "nobody", now - 2 * LIFETIME, 0)?;
    println!("{} have expired, with one of long ago", sessions.expire(now)?);
    assert!(sessions.users.len() == sessions.expiry.len() && sessions.expiry.keys(..(now, 0)).next().is_none());
    // No number is used twice in a second: a run goes on where the one before it was killed.
    let last = sessions.expiry.prefix((now + LIFETIME,)).next_back().transpose()?;
    let first = last.map_or(0, |((_, number), _)| number + 1);
    for number in first..first + 5000 {
        sessions.start(&uuid(now, number), &format!("user {}", number % 1000), now, number)?;
    }

    let newest = uuid(now, first + 4999);
    let user = sessions.users.get(&newest)?.unwrap_or_default();
    println!("now {}, among them {newest}: {}", sessions.users.len(), String::from_utf8_lossy(&user));
    // An orderly close makes the next open instant; without it nothing is lost. A pool is closed after its trees.
    drop(sessions);
    pool.close()
}

#[allow(dead_code, reason = "tests/repository/examples.rs has another one")]
fn main() -> bristlecone::Result<()> {
    run(Path::new("sessions.pool"))
}
