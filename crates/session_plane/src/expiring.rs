//! Expiring: sessions without a connection end when their interval has passed, at the primary owner of
//! their slot (section "Expiry" of `docs/internals/session-plane.md`).
//!
//! ```text
//!   connection open        closed, or its run has ended        interval passed
//!  (no Expiry entry) ------------------------------------> Expiry -------------> End
//!          ^                 by its node, or by the owner     |
//!          '--------------------------------------------------'
//!                       CONNECT resumes the session
//! ```
//!
//! [`Lifetime`] is what a copy says of the sessions of one client, and decides what is to be done.
//! [`Expiring`] remembers when that is. What it asks for is written by the node.
//!
//! *Invariants*: nothing is done for a client whose connection may be open on some side of a split.
//! This node acts only while it decides about the slot, for one client once at a time, and for
//! [`ExpiringLimits::ending_max`] clients in a tick. A client with nothing to do has no state here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeFrom;
use std::time::{Duration, Instant};

use crate::plane::Now;
use crate::{ClientId, Slot};

mod action;
mod event;
mod expiry_state;
mod lifetime;
mod session_expiry;
mod verdict;

pub use action::ExpiringAction;
pub use event::ExpiringEvent;
pub use expiry_state::{ExpiryState, RunState};
pub use lifetime::{ConnectionEntry, Lifetime, LifetimeEntry, known_lifetime};
pub use session_expiry::{LifetimeValue, SessionExpiry};

use verdict::{Time, Verdict};

/// Limits of expiring sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiringLimits {
    /// Clients whose sessions a tick ends, or for which it writes; at least 1. Further ones stay due.
    pub ending_max: usize,
    /// Time from CONNECT to CONNACK at most. A connection that is older has its session.
    pub claim_max: Duration,
}

/// Clients whose sessions expire at this node.
///
/// One takes about 150 bytes and its client id twice. A change costs a look at one client, a merge a pass
/// over the clients of the slot, and a change of the ring one over all slots that this node decides about.
#[derive(Debug)]
pub struct Expiring {
    limits: ExpiringLimits,
    /// Clients with something to do, and when.
    watched: BTreeMap<Place, Instant>,
    /// The same, in the order of time.
    due: BTreeSet<DueAt>,
    /// Clients for which events are to be made, and how many.
    acting: BTreeMap<Place, usize>,
}

/// Client by its slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    slot: Slot,
    client: ClientId,
}

/// Client that waits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct DueAt {
    due: Instant,
    place: Place,
}

impl Place {
    fn new(client: ClientId) -> Place {
        let slot = Slot::of_client(client.as_bytes());
        Place { slot, client }
    }

    /// Places from the first of a slot on.
    fn from_slot(slot: Slot) -> RangeFrom<Place> {
        let client = ClientId::new(&[]).expect("an empty id is short");
        Place { slot, client }..
    }
}

impl Expiring {
    /// No session expires.
    pub fn new(limits: ExpiringLimits) -> Expiring {
        assert!(limits.ending_max >= 1, "one session ends at a time");
        Expiring {
            limits,
            watched: BTreeMap::new(),
            due: BTreeSet::new(),
            acting: BTreeMap::new(),
        }
    }

    /// Takes what has happened. What follows is done by the next [`Expiring::tick`].
    pub fn step(&mut self, now: Now, event: ExpiringEvent, state: &impl ExpiryState) {
        match event {
            ExpiringEvent::Changed { client } => self.look(now, Place::new(client), state),
            ExpiringEvent::CopyChanged { slot } => {
                let watched = self.watched.range(Place::from_slot(slot));
                let watched = watched.take_while(|(place, _)| place.slot == slot);
                let watched = watched.map(|(place, _)| place.clone());
                let found = state.clients_of(slot).into_iter().map(Place::new);
                for place in watched.chain(found).collect::<BTreeSet<Place>>() {
                    self.look(now, place, state);
                }
            }
            ExpiringEvent::RingChanged => {
                let watched = self.watched.keys().cloned();
                let found = state.clients().into_iter().map(Place::new);
                for place in watched.chain(found).collect::<BTreeSet<Place>>() {
                    self.look(now, place, state);
                }
            }
            ExpiringEvent::Made { client } => self.made(now, Place::new(client), state),
        }
    }

    /// Does what is due, for as many clients as a tick may.
    pub fn tick(&mut self, now: Now, state: &impl ExpiryState, actions: &mut Vec<ExpiringAction>) {
        for _ in 0..self.limits.ending_max {
            let first = self.due.first().filter(|first| first.due <= now.monotonic);
            let Some(DueAt { place, .. }) = first.cloned() else {
                return;
            };
            self.forget(&place);
            match self.verdict(now, &place, state) {
                Verdict::Nothing => {}
                Verdict::LookAt(wall) => self.watch(place, wait(now, wall)),
                Verdict::Release { connections, again } => {
                    let client = place.client.clone();
                    actions.push(ExpiringAction::Release { client, connections });
                    self.watch(place, wait(now, again));
                }
                Verdict::Act(act) => {
                    let before = actions.len();
                    act.append_to(&place.client, actions);
                    self.acting.insert(place, actions.len() - before);
                }
            }
        }
    }

    /// Time at which [`Expiring::tick`] has something to do.
    pub fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|first| first.due)
    }

    /// Clients whose sessions wait for their interval, or for their turn; a gauge.
    pub fn waiting(&self) -> usize {
        self.due.len()
    }

    /// Clients for which events are to be made; a gauge.
    pub fn acting(&self) -> usize {
        self.acting.len()
    }

    /// An event of an action is made, or was not needed any more.
    fn made(&mut self, now: Now, place: Place, state: &impl ExpiryState) {
        let Some(left) = self.acting.get_mut(&place) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.acting.remove(&place);
            self.look(now, place, state);
        }
    }

    /// Looks at a client again, unless events for it are to be made.
    fn look(&mut self, now: Now, place: Place, state: &impl ExpiryState) {
        self.forget(&place);
        if self.acting.contains_key(&place) {
            return;
        }
        match self.verdict(now, &place, state) {
            Verdict::Nothing => {}
            Verdict::LookAt(wall) => self.watch(place, wait(now, wall)),
            Verdict::Act(_) | Verdict::Release { .. } => self.watch(place, now.monotonic),
        }
    }

    fn verdict(&self, now: Now, place: &Place, state: &impl ExpiryState) -> Verdict {
        if !state.decides(place.slot) {
            return Verdict::Nothing;
        }
        let lifetime = state.lifetime(&place.client);
        let time = Time {
            wall: now.wall,
            claim_max: u64::try_from(self.limits.claim_max.as_millis()).unwrap_or(u64::MAX),
        };
        lifetime.verdict(time, |run| state.run_state(run))
    }

    fn watch(&mut self, place: Place, due: Instant) {
        self.watched.insert(place.clone(), due);
        self.due.insert(DueAt { due, place });
    }

    fn forget(&mut self, place: &Place) {
        if let Some(due) = self.watched.remove(place) {
            let place = place.clone();
            self.due.remove(&DueAt { due, place });
        }
    }
}

/// Time of the process at which the wall clock, which may be set meanwhile, says `wall`. An end in the far
/// future is looked at again before.
fn wait(now: Now, wall: u64) -> Instant {
    let left = Duration::from_millis(wall.saturating_sub(now.wall));
    now.monotonic + left.min(WAIT_MAX)
}

/// Time after which the wall clock is asked again at the latest.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600);

#[cfg(test)]
mod tests;
