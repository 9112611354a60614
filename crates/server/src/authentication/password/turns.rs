//! Turns at the threads that compute hashes, given to networks in rounds.
//!
//! A network with many clients that wait gets one turn in a round, as a network with a single client does. Within a network the
//! client that came first is first. The places of the method bound how many wait (`chain.rs`), so there is no limit here.
//!
//! Invariant: `by_turn` has each network of `networks` once, and no network without somebody who waits is in either.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use crate::client_address::SourceNetwork;

/// All turns; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Turns(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    idle: usize,
    networks: BTreeMap<SourceNetwork, Network>,
    /// Networks by the number of their next turn.
    by_turn: BTreeSet<(u64, SourceNetwork)>,
    next: u64,
}

/// Clients of one network that wait, by their number.
#[derive(Debug)]
struct Network {
    turn: u64,
    waiting: BTreeMap<u64, oneshot::Sender<Turn>>,
}

/// A thread's time, until this is dropped: then it is the next one's turn.
#[derive(Debug)]
pub(super) struct Turn(Turns);

/// Place in the queue, given up when it is dropped.
struct Waiting<'a> {
    turns: &'a Turns,
    network: SourceNetwork,
    id: u64,
}

impl Turns {
    /// As many at once.
    pub(super) fn new(idle: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            idle,
            networks: BTreeMap::new(),
            by_turn: BTreeSet::new(),
            next: 0,
        })))
    }

    /// Waits until it is the turn of a client of this network.
    pub(super) async fn take(&self, network: SourceNetwork) -> Option<Turn> {
        let (waiting, granted) = {
            let mut state = self.state();
            if state.idle > 0 {
                state.idle -= 1;
                return Some(Turn(self.clone()));
            }
            let (grant, granted) = oneshot::channel();
            let id = state.wait(network, grant);
            let waiting = Waiting {
                turns: self,
                network,
                id,
            };
            (waiting, granted)
        };
        let turn = granted.await.ok();
        drop(waiting);
        turn
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wait(&mut self, network: SourceNetwork, grant: oneshot::Sender<Turn>) -> u64 {
        let id = self.number();
        let by_turn = &mut self.by_turn;
        let of_network = self.networks.entry(network).or_insert_with(|| {
            by_turn.insert((id, network));
            Network {
                turn: id,
                waiting: BTreeMap::new(),
            }
        });
        of_network.waiting.insert(id, grant);
        id
    }

    /// Who is next. `None`: nobody, and one more turn is idle.
    fn grant(&mut self) -> Option<oneshot::Sender<Turn>> {
        let Some((_, network)) = self.by_turn.pop_first() else {
            self.idle += 1;
            return None;
        };
        let turn = self.number();
        let of_network = self.networks.get_mut(&network)?;
        of_network.turn = turn;
        let (_, grant) = of_network.waiting.pop_first()?;
        if of_network.waiting.is_empty() {
            self.networks.remove(&network);
        } else {
            self.by_turn.insert((turn, network));
        }
        Some(grant)
    }

    fn leave(&mut self, network: SourceNetwork, id: u64) {
        let Some(of_network) = self.networks.get_mut(&network) else {
            return;
        };
        of_network.waiting.remove(&id);
        if of_network.waiting.is_empty() {
            self.by_turn.remove(&(of_network.turn, network));
            self.networks.remove(&network);
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // Not within the `if`: the lock would be held while the turn is handed on, and a client that has left drops it at once.
        let next = self.0.state().grant();
        if let Some(next) = next {
            // Handed on by the drop of what comes back if the client has left.
            let _ = next.send(Turn(self.0.clone()));
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.state().leave(self.network, self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// One thread, which computes for a client from the first network.
    struct Scene {
        turns: Turns,
        taken: Turn,
    }

    type Queued<'a> = Pin<Box<dyn Future<Output = Option<Turn>> + 'a>>;

    fn network(number: u8) -> SourceNetwork {
        SourceNetwork::V4([192, 0, 2, number])
    }

    fn look(queued: &mut Queued<'_>) -> Option<Turn> {
        match queued.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => turn,
            Poll::Pending => None,
        }
    }

    fn queue(turns: &Turns, number: u8) -> Queued<'_> {
        let mut queued: Queued<'_> = Box::pin(turns.take(network(number)));
        assert!(look(&mut queued).is_none(), "it has to wait");
        queued
    }

    impl Scene {
        fn new() -> Self {
            let turns = Turns::new(1);
            let mut first: Queued<'_> = Box::pin(turns.take(network(1)));
            let taken = look(&mut first).expect("nobody else is there");
            drop(first);
            Self { turns, taken }
        }
    }

    #[test]
    fn a_network_with_many_clients_does_not_keep_others_waiting() {
        let Scene { turns, taken } = Scene::new();
        let of_many = (0..100).map(|_| queue(&turns, 1));
        let mut queued: Vec<_> = of_many.map(|queued| (1, queued)).collect();
        queued.push((2, queue(&turns, 2)));
        queued.push((3, queue(&turns, 3)));
        let (mut served, mut taken) = (vec![], Some(taken));
        while !queued.is_empty() {
            drop(taken.take());
            let at = queued.iter_mut().position(|(_, queued)| {
                taken = look(queued);
                taken.is_some()
            });
            served.push(queued.remove(at.expect("somebody's turn")).0);
        }
        assert_eq!(served.get(..4), Some(&[1, 2, 3, 1][..]));
    }

    #[test]
    fn who_leaves_is_passed_over_and_leaves_nothing() {
        let Scene { turns, taken } = Scene::new();
        let (leaves, mut stays) = (queue(&turns, 1), queue(&turns, 2));
        drop(leaves);
        drop(taken);
        let turn = look(&mut stays).expect("its turn");
        drop(queue(&turns, 1));
        drop(turn);
        drop(stays);
        let state = turns.state();
        assert_eq!((state.idle, state.networks.len(), state.by_turn.len()), (1, 0, 0));
    }

    #[test]
    fn a_turn_that_nobody_looks_at_any_more_is_handed_on() {
        let Scene { turns, taken } = Scene::new();
        let (leaves, mut stays) = (queue(&turns, 1), queue(&turns, 2));
        drop(taken);
        assert!(look(&mut stays).is_none());
        drop(leaves);
        assert!(look(&mut stays).is_some());
    }
}
