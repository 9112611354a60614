//! Waiting places for strangers: connections of which it is not known yet who is at the other end.
//!
//! Each port has a pool of its own, so that strangers at one take nothing from another. A [`Place`] is held until the client
//! has proved who it is, and then given back; what comes after that has another budget. Who has to give way hears it from its
//! [`GaveWay`] and closes. The rule for who that is stands in [`pool`].
//!
//! Pools are counted together from several threads (sockets on the node's thread, handshakes, admin pages), so there is a lock
//! that is held for a few lookups only.

mod pool;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use self::pool::Pool;
pub(crate) use self::pool::{NoPlace, PoolLimits};
use crate::client_address::SourceNetwork;
use crate::metrics::{Counts, PoolFigures};

/// The pool of one port; clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Strangers(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    pool: Pool,
    /// Told when its place is taken by another one.
    told: BTreeMap<u64, oneshot::Sender<()>>,
    refused: Counts,
}

/// A waiting place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    id: u64,
    strangers: Strangers,
}

/// Hears that a place was given to somebody else.
#[derive(Debug)]
pub(crate) struct GaveWay(oneshot::Receiver<()>);

impl Strangers {
    /// An empty pool; `name` is for metrics.
    pub(crate) fn new(name: impl Into<String>, limits: PoolLimits) -> Self {
        Self(Arc::new(Shared {
            name: name.into(),
            state: Mutex::new(State {
                pool: Pool::new(limits),
                told: BTreeMap::new(),
                refused: Counts::new(),
            }),
        }))
    }

    /// A place for a stranger from this network, which has to give way only to better ones until `protected_until`.
    pub(crate) fn enter(
        &self,
        network: SourceNetwork,
        now: Instant,
        protected_until: Instant,
    ) -> Result<(Place, GaveWay), NoPlace> {
        let mut state = self.state();
        let entered = state.pool.enter(network, now, protected_until);
        let entered = entered.inspect_err(|why| state.count(why.name()))?;
        state.send_away(entered.gave_way);
        let (tell, told) = oneshot::channel();
        state.told.insert(entered.id, tell);
        drop(state);
        let place = Place {
            id: entered.id,
            strangers: self.clone(),
        };
        Ok((place, GaveWay(told)))
    }

    /// For `/metrics`.
    pub(crate) fn figures(&self) -> PoolFigures {
        let state = self.state();
        PoolFigures {
            pool: self.0.name.clone(),
            taken: state.pool.len() as u64,
            places: state.pool.limits().places as u64,
            refused: REASONS
                .iter()
                .map(|reason| (*reason, state.refused.get(reason).copied().unwrap_or_default()))
                .collect(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn send_away(&mut self, gave_way: Option<u64>) {
        if let Some(id) = gave_way {
            self.count(GAVE_WAY);
            if let Some(tell) = self.told.remove(&id) {
                // Whoever it was may be about to leave.
                let _ = tell.send(());
            }
        }
    }

    fn count(&mut self, reason: &'static str) {
        *self.refused.entry(reason).or_default() += 1;
    }
}

impl Place {
    /// Protects it until then: the client has done its part, or has something to do by then.
    pub(crate) fn protect_until(&self, protected_until: Instant) {
        self.strangers
            .state()
            .pool
            .protect_until(self.id, protected_until);
    }

    /// Counts it for another network, which a proxy has named.
    pub(crate) fn move_to(&self, network: SourceNetwork, now: Instant) -> Result<(), NoPlace> {
        let mut state = self.strangers.state();
        let moved = state.pool.move_to(self.id, network, now);
        let gave_way = moved.inspect_err(|why| state.count(why.name()))?;
        state.send_away(gave_way);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.strangers.state();
        state.pool.remove(self.id);
        state.told.remove(&self.id);
    }
}

impl GaveWay {
    /// True as soon as the place was given to somebody else; false when it was given back.
    pub(crate) async fn heard(&mut self) -> bool {
        (&mut self.0).await.is_ok()
    }

    /// Ready only if the place was given to somebody else.
    pub(crate) async fn happened(&mut self) {
        if !self.heard().await {
            std::future::pending::<()>().await;
        }
    }
}

impl NoPlace {
    /// As metrics call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Network => "address",
            Self::Pool => "pool",
        }
    }
}

/// Somebody else came: as metrics call it.
const GAVE_WAY: &str = "gave_way";

/// All reasons for which a stranger has no place any more.
const REASONS: [&str; 3] = ["address", GAVE_WAY, "pool"];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock;

    #[tokio::test]
    async fn who_gives_way_hears_of_it_and_who_leaves_does_not() {
        let limits = PoolLimits {
            places: 2,
            of_network: 1,
        };
        let (strangers, now) = (Strangers::new("test", limits), clock::instant());
        let network = |number| SourceNetwork::V4([192, 0, 2, number]);
        let (first, mut first_told) = strangers.enter(network(1), now, now).expect("a place");
        let until = now + Duration::from_secs(1);
        let (second, mut second_told) = strangers.enter(network(2), now, until).expect("a place");
        assert!(strangers.enter(network(2), now, until).is_err());
        let (third, _told) = strangers.enter(network(1), now, until).expect("a place");
        assert!(first_told.heard().await);
        drop(first);
        drop(second);
        assert!(!second_told.heard().await);
        let figures = strangers.figures();
        assert_eq!((figures.taken, figures.places), (1, 2));
        let refused: Vec<_> = figures.refused.into_iter().collect();
        assert_eq!(refused, [("address", 1), ("gave_way", 1), ("pool", 0)]);
        drop(third);
        assert_eq!(strangers.figures().taken, 0);
    }
}
