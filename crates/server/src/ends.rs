//! Lets connections end a few at a time.
//!
//! Thousands can break in the same moment. Clearing up behind them takes a while, in which whoever is still there would wait for all of
//! them; so each turn of the driver has room for a few.

use tokio::sync::Semaphore;

/// How many connections may still end in this turn.
#[derive(Debug)]
pub(crate) struct Ends(Semaphore);

/// Connections that end in one turn.
const ENDS_AT_ONCE: usize = 16;

impl Ends {
    pub(crate) fn new() -> Self {
        Self(Semaphore::new(ENDS_AT_ONCE))
    }

    /// Waits for a place. Whoever has one gives the driver something to do, so that there is a next turn.
    pub(crate) async fn place(&self) {
        if let Ok(permit) = self.0.acquire().await {
            permit.forget();
        }
    }

    /// There are places again.
    pub(crate) fn next_turn(&self) {
        self.0.add_permits(ENDS_AT_ONCE - self.0.available_permits());
    }
}
