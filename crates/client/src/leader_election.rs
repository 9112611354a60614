//! One of many: who holds a lock is the leader, and its name is the key's value.

use std::time::Duration;

use bytes::Bytes;
use protocol::hlc::Hlc;

use crate::lock::{Lock, LockError, LockOptions, Lost};
use crate::state_store::{StateStore, StoreError};
use crate::watch::{Watch, WatchEvent};

/// An election that candidates take part in and everybody can watch.
///
/// ```no_run
/// use std::time::Duration;
/// use statehold_client::{Client, LeaderElection, Options};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let store = Client::connect(Options::new("127.0.0.1:1883")).await?.state_store();
/// let election = LeaderElection::new(store, "plant/leader", Duration::from_secs(10));
/// loop {
///     let leadership = election.campaign("controller-1").await?;
///     println!("leading with token {}", leadership.token());
///     leadership.lost().await;
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct LeaderElection {
    store: StateStore,
    key: Bytes,
    lease: Duration,
}

/// Being the leader, until it is lost, resigned from or dropped.
#[derive(Debug)]
pub struct Leadership {
    lock: Lock,
}

/// Who leads, and every change of it.
#[derive(Debug)]
pub struct LeaderWatch {
    store: StateStore,
    key: Bytes,
    watch: Watch,
    is_known: bool,
}

impl LeaderElection {
    /// The election of `key`, whose leader has to show itself every third of `lease`.
    pub fn new(store: StateStore, key: impl Into<Bytes>, lease: Duration) -> Self {
        Self {
            store,
            key: key.into(),
            lease,
        }
    }

    /// Waits until `candidate` is the leader. The name must be the candidate's own.
    pub async fn campaign(&self, candidate: impl Into<Bytes>) -> Result<Leadership, LockError> {
        let options = LockOptions::new(self.lease).holder(candidate);
        Ok(Leadership {
            lock: Lock::acquire(&self.store, self.key.clone(), options).await?,
        })
    }

    /// Who leads, or nobody.
    pub async fn leader(&self) -> Result<Option<Bytes>, StoreError> {
        Ok(self.store.get(self.key.clone()).await?.map(|entry| entry.value))
    }

    /// Who leads, and every change of it.
    pub async fn watch(&self) -> Result<LeaderWatch, StoreError> {
        let watch = self.store.watch(self.key.clone()).await?;
        Ok(LeaderWatch {
            store: self.store.clone(),
            key: self.key.clone(),
            watch,
            is_known: false,
        })
    }
}

impl Leadership {
    /// The fencing token: greater than that of every earlier leader.
    pub fn token(&self) -> Hlc {
        self.lock.token()
    }

    /// True while this is the leader, as far as this side can know.
    pub fn is_held(&self) -> bool {
        self.lock.is_held()
    }

    /// Returns when the leadership is lost.
    pub async fn lost(&self) -> Lost {
        self.lock.lost().await
    }

    /// Lets another lead.
    pub async fn resign(self) -> Result<(), StoreError> {
        self.lock.release().await
    }
}

impl LeaderWatch {
    /// First who leads at the moment, then whoever leads next; `Some(None)`: nobody does. `None`: no more will
    /// come. A leader that stays is reported at each renewal.
    pub async fn recv(&mut self) -> Result<Option<Option<Bytes>>, StoreError> {
        if !self.is_known {
            self.is_known = true;
            return self.read().await;
        }
        match self.watch.recv().await {
            Some(WatchEvent::Set { value, .. }) => Ok(Some(Some(value))),
            Some(WatchEvent::Deleted { .. }) => Ok(Some(None)),
            Some(WatchEvent::Gap) => self.read().await,
            None => Ok(None),
        }
    }

    async fn read(&self) -> Result<Option<Option<Bytes>>, StoreError> {
        Ok(Some(
            self.store.get(self.key.clone()).await?.map(|entry| entry.value),
        ))
    }
}
