//! A key lease: a right that ends by itself.

use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::hlc::Hlc;

use crate::clock;
use crate::state_store::{Deletion, SetOptions, SetOutcome, StateStore, StoreError};

/// A key that carries its holder's name until the lease is over. Renewed and released by hand; see
/// [`Lock`](crate::Lock) for one that waits and renews itself.
#[derive(Debug)]
pub struct Lease {
    store: StateStore,
    key: Bytes,
    holder: Bytes,
    duration: Duration,
    token: Hlc,
    until: Instant,
}

/// Why a lease could not be had or kept.
pub type LeaseError = StoreError;

impl Lease {
    /// Takes the lease of `key` for `holder`, or nothing if another has it.
    ///
    /// Two that use the same `holder` have the same lease. After an error without an answer the lease may have been
    /// taken: it ends after `duration`, and nothing renews it.
    pub async fn acquire(
        store: &StateStore,
        key: impl Into<Bytes>,
        holder: impl Into<Bytes>,
        duration: Duration,
    ) -> Result<Option<Self>, LeaseError> {
        let (key, holder) = (key.into(), holder.into());
        let taken = take(store, &key, &holder, duration).await?;
        let store = store.clone();
        Ok(taken.map(|(token, until)| Self {
            store,
            key,
            holder,
            duration,
            token,
            until,
        }))
    }

    /// Starts the time of the lease anew. False if another has it by now: then it is over.
    pub async fn renew(&mut self) -> Result<bool, LeaseError> {
        let Some((token, until)) = take(&self.store, &self.key, &self.holder, self.duration).await? else {
            self.until = clock::now().instant;
            return Ok(false);
        };
        (self.token, self.until) = (token, until);
        Ok(true)
    }

    /// Ends the lease. False if it was over already.
    pub async fn release(self) -> Result<bool, LeaseError> {
        let deletion = self.store.vdel(self.key, self.holder, None).await?;
        Ok(matches!(deletion, Deletion::Deleted { .. }))
    }

    /// The fencing token: greater than that of every earlier holder.
    pub fn token(&self) -> &Hlc {
        &self.token
    }

    /// How long the lease lasts unless it is renewed, counted from before it was asked for.
    pub fn remaining(&self) -> Duration {
        self.until.saturating_duration_since(clock::now().instant)
    }
}

async fn take(
    store: &StateStore,
    key: &Bytes,
    holder: &Bytes,
    duration: Duration,
) -> Result<Option<(Hlc, Instant)>, LeaseError> {
    let until = clock::now().instant + duration;
    let options = SetOptions::new().if_absent_or_equal().expires_in(duration);
    match store.set(key.clone(), holder.clone(), options).await? {
        SetOutcome::Stored { version } => Ok(Some((version, until))),
        SetOutcome::NotApplied { .. } => Ok(None),
    }
}
