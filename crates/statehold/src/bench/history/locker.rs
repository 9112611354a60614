//! A client that takes a lock, writes with its fencing token, and gives it back, or forgets to.

use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use client::Hlc;
use client::protocol::state_store::{Condition, Request};

use super::Shared;
use super::asker::is_stored;
use super::caller::{Caller, Ended};
use super::log::Held;
use crate::bench::clock;
use crate::bench::random::Random;

/// How long a lock is held without being renewed.
const LEASE: Duration = Duration::from_secs(2);

/// Renewals and writes while it is held.
const WRITES_MAX: u64 = 6;

/// Between two attempts to get the lock, and two writes.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) async fn run(number: u32, mut random: Random, shared: Rc<Shared>) -> anyhow::Result<()> {
    let mut locker = Locker {
        caller: Caller::new("locker", number, &shared)?,
        turns: 0,
    };
    while !shared.is_over.get() {
        locker.take_turn(&mut random).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

struct Locker {
    caller: Caller,
    turns: u64,
}

/// What one turn is about.
struct Turn {
    lock: String,
    guarded: String,
    holder: String,
}

impl Locker {
    async fn take_turn(&mut self, random: &mut Random) -> anyhow::Result<()> {
        let shared = Rc::clone(&self.caller.shared);
        self.turns += 1;
        let round = shared.round(clock::now());
        let turn = Turn {
            lock: shared.key(round, "lock", 0),
            guarded: shared.key(round, "guarded", 0),
            // Two turns of one client are two holders.
            holder: format!("{}-{}", self.caller.name(), self.turns),
        };
        let Some((token, from, mut until)) = self.acquire(&turn).await? else {
            return Ok(());
        };
        let mut newest = token.clone();
        for write in 0..random.below(WRITES_MAX) {
            if random.below(2) == 0 {
                match self.acquire(&turn).await? {
                    Some((token, _, longer)) => (newest, until) = (token, longer),
                    None => break,
                }
            }
            if clock::now() >= until {
                break;
            }
            self.write(&turn, write, &newest).await?;
            tokio::time::sleep(PAUSE).await;
        }
        let released = if random.below(5) > 0 {
            let invoked = clock::now();
            self.release(&turn).await?;
            invoked
        } else {
            until
        };
        let held = Held {
            lock: turn.lock,
            holder: turn.holder,
            token,
            from: shared.moment(from),
            until: shared.moment(released.min(until)),
        };
        shared.state.borrow_mut().log.held(&held)
    }

    /// The fencing token, when it was had, and until when.
    async fn acquire(&mut self, turn: &Turn) -> anyhow::Result<Option<(Hlc, Instant, Instant)>> {
        let request = Request::Set {
            key: Bytes::copy_from_slice(turn.lock.as_bytes()),
            value: Bytes::copy_from_slice(turn.holder.as_bytes()),
            condition: Condition::NotExistsOrEqual,
            expires_in: u64::try_from(LEASE.as_millis()).ok(),
        };
        let Ended { invoked, now, answer } = self.caller.ask(&request, None).await?;
        let until = invoked + LEASE;
        let token = answer
            .filter(|answer| is_stored(&answer.reply))
            .and_then(|answer| answer.version);
        // What was answered too late was never held.
        Ok(token.filter(|_| now < until).map(|token| (token, now, until)))
    }

    async fn write(&mut self, turn: &Turn, write: u64, token: &Hlc) -> anyhow::Result<()> {
        let request = Request::Set {
            key: Bytes::copy_from_slice(turn.guarded.as_bytes()),
            value: Bytes::from(format!("{}-{write}", turn.holder)),
            condition: Condition::None,
            expires_in: None,
        };
        self.caller.ask(&request, Some(token)).await?;
        Ok(())
    }

    async fn release(&mut self, turn: &Turn) -> anyhow::Result<()> {
        let request = Request::VDel {
            key: Bytes::copy_from_slice(turn.lock.as_bytes()),
            value: Bytes::copy_from_slice(turn.holder.as_bytes()),
        };
        self.caller.ask(&request, None).await?;
        Ok(())
    }
}
