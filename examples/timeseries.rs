//! Prices of several symbols over time, in one map: `cargo run --example timeseries`.
//!
//! The key is the symbol and the time. So the prices of a symbol lie side by side, in the order of time.

use bristlecone::{Map, Pool};
use std::path::Path;

/// The price in cents, by symbol and time in milliseconds.
type Prices = Map<(String, u64), u64>;

/// The newest prices of a symbol, with their times, the newest one first.
fn newest(prices: &Prices, symbol: &str, count: usize) -> bristlecone::Result<Vec<(u64, u64)>> {
    let entries = prices.prefix((symbol,)).rev().take(count);
    entries.map(|entry| entry.map(|((_, time), price)| (time, price))).collect()
}

/// The mean price of a symbol from one time up to another one.
fn mean(prices: &Prices, symbol: &str, from: u64, to: u64) -> bristlecone::Result<Option<u64>> {
    let (mut sum, mut count) = (0, 0);
    for price in prices.values((symbol, from)..(symbol, to)) {
        sum += price?;
        count += 1;
    }
    Ok((count > 0).then(|| sum / count))
}

/// Deletes the prices of a symbol that are older than a time. Returns how many there were. A crash leaves some of them,
/// or none.
fn forget(prices: &Prices, symbol: &str, before: u64) -> bristlecone::Result<u64> {
    prices.remove_range((symbol, 0)..(symbol, before))
}

/// What a run does with the pool at this path.
pub(crate) fn run(path: &Path) -> bristlecone::Result<()> {
    let pool = Pool::options().capacity(64 << 20).open(path)?;
    let prices: Prices = pool.map("prices")?;

    // Three symbols in turn, a price of each every millisecond. Each is durable before the next.
    for time in 0..2000 {
        for (symbol, base) in [("EUR", 108), ("EURUSD", 109), ("GBP", 127)] {
            prices.insert((symbol, time), base + time % 7)?;
        }
    }
    // "EUR" is no prefix of ("EURUSD", 0): a part of a key is equal, or it is another one.
    println!("{} prices, the newest of EUR: {:?}", prices.len(), newest(&prices, "EUR", 3)?);
    println!("mean of GBP from 500 to 1500: {:?}", mean(&prices, "GBP", 500, 1500)?);
    println!("forgotten: {} of EUR, {} left", forget(&prices, "EUR", 1900)?, prices.prefix(("EUR",)).count());
    assert_eq!(newest(&prices, "EUR", 2)?, [(1999, 112), (1998, 111)]);
    assert_eq!(prices.prefix(("EUR",)).count(), 100);
    assert_eq!(prices.prefix(("EURUSD",)).count(), 2000);

    // A pool is closed after its trees.
    drop(prices);
    pool.close()
}

#[allow(dead_code, reason = "tests/repository/examples.rs has another one")]
fn main() -> bristlecone::Result<()> {
    run(Path::new("timeseries.pool"))
}
