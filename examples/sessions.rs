//! A session store that is there again after `kill -9`.
//!
//! Run it, kill it whenever you like, run it again: `cargo run --example sessions`.

use bristlecone::{Map, Pool};
use std::time::{SystemTime, UNIX_EPOCH};

fn main() -> bristlecone::Result<()> {
    let pool = Pool::options().capacity(256 << 20).open("sessions.pool")?;
    let sessions: Map<u64, Vec<u8>> = pool.map("sessions")?;
    println!("{} sessions survived; {}", sessions.len(), pool.durability().promise());
    for entry in sessions.iter().rev().take(3) {
        let (id, user) = entry?;
        println!("  {id}: {}", String::from_utf8_lossy(&user));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_nanos() as u64);
    for i in 0..100_000 {
        sessions.insert(now + i, format!("user {}", i % 1000).as_bytes())?;
    }
    println!("now {}", sessions.len());
    pool_stays_open_until_its_trees_go(pool, sessions)
}

/// An orderly close makes the next open instant; without it nothing is lost.
fn pool_stays_open_until_its_trees_go(pool: Pool, sessions: Map<u64, Vec<u8>>) -> bristlecone::Result<()> {
    drop(sessions);
    pool.close()
}
