//! Work that is too much for one turn of the node, cut into several.
//!
//! A SUBSCRIBE may have thousands of filters, a session that ends thousands of subscriptions, and a subscription a million retained
//! messages. What is left of such work waits here, and its client is not read from meanwhile. All that waits shares one budget
//! for each turn, and everybody who waits gets a part of it: many of them cost other clients no more than one does.
//!
//! Work is counted, not measured ([`Work`]), so that a simulation of it is the same on every machine.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use mqtt::filters::Filters;
use mqtt::ids::{ConnectionId, SessionKey};
use mqtt::memory::footprint::{block, places, tree};
use mqtt::now::Now;
use mqtt::outbox::Outbox;
use mqtt::subscriptions::Subscription;
use protocol::topic::SubscriptionFilter;

use crate::node::{Action, Node, TimerKey};
use crate::subscribing::{Subscribing, Unsubscribing};

/// Units of work in one turn. A unit is about a microsecond.
const UNITS_PER_TURN: u64 = 1_024;

/// What one of those who wait may do before the next one has its turn.
pub(crate) const UNITS_AT_ONCE: u64 = 256;

/// How long the others have their turn.
const PAUSE: Duration = Duration::from_millis(1);

/// Subscriptions that end at once with their session.
const LEFT_AT_ONCE: usize = 64;

/// Messages whose memory is freed at once.
const DROPPED_AT_ONCE: usize = 512;

/// What each subscription costs that ends with its session, besides [`units_of`] its filter.
const LEAVE_UNITS: u64 = 2;

/// So many levels of a filter are a unit: each may be a node of the trie, to be made or taken out.
const LEVELS_PER_UNIT: usize = 2;

/// So many bytes of a filter are a unit.
const FILTER_BYTES_PER_UNIT: usize = 512;

/// What was done since the start, in numbers that are the same on every machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkCounters {
    /// Units of all kinds of work, about a microsecond each.
    pub units: u64,
    /// Topic filters of SUBSCRIBE and UNSUBSCRIBE, and subscriptions that ended with their sessions.
    pub filters: u64,
    /// Topic filters that were checked against a policy.
    pub filters_checked: u64,
    /// Nodes of the trie of filters with wildcards that were visited for messages.
    pub trie_nodes: u64,
    /// Sessions that messages were delivered to.
    pub routes: u64,
    /// Retained messages that were looked at for subscriptions.
    pub retained_topics: u64,
    /// Keys that SCANs have walked; one counts once more for each 64 bytes of it.
    pub scan_keys: u64,
    /// The most units between two turns.
    pub turn_units_max: u64,
}

/// The work of the node, and how much of it the present turn has had.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) counters: WorkCounters,
    turn: u64,
    /// Since the edge has asked.
    step: u64,
}

/// Work that was begun.
#[derive(Debug)]
pub(crate) enum Unfinished {
    Subscribe(Box<Subscribing>),
    Unsubscribe(Box<Unsubscribing>),
    /// Retained messages that are due to a session.
    Retained(SessionKey),
    /// The subscriptions of a session that has ended.
    Leave(Box<Leaving>),
    /// The outbox of a connection that has ended.
    Drop(Box<Outbox>),
}

/// A session that has ended, with those of its subscriptions that are still there.
#[derive(Debug)]
pub(crate) struct Leaving {
    session: SessionKey,
    is_durable: bool,
    filters: std::vec::IntoIter<LeftSubscription>,
    /// Memory of the filters when it began; it counts until all of them are gone.
    bytes: u64,
}

/// Subscription that ends with its connection.
type LeftSubscription = (SubscriptionFilter, Subscription);

/// Who waits for the next turn.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    waiting: VecDeque<Unfinished>,
    /// Memory of what waits, and of the packets among it.
    bytes: u64,
    packets: u64,
    /// Those of [`Unfinished::Retained`].
    retained: BTreeSet<SessionKey>,
}

impl Work {
    /// Counts units.
    pub(crate) fn charge(&mut self, units: u64) {
        self.counters.units += units;
        self.turn += units;
        self.step += units;
    }

    pub(crate) fn filter(&mut self, units: u64) {
        self.counters.filters += 1;
        self.charge(units);
    }

    pub(crate) fn filter_checked(&mut self) {
        self.counters.filters_checked += 1;
    }

    pub(crate) fn retained_topics(&mut self, topics: u64, per_unit: u64) {
        self.counters.retained_topics += topics;
        self.charge(1 + topics / per_unit);
    }

    /// A message was routed; `visited` is since the start.
    pub(crate) fn matched(&mut self, visited: u64, routes: u64) {
        let trie_nodes = visited.saturating_sub(self.counters.trie_nodes);
        self.counters.trie_nodes += trie_nodes;
        self.counters.routes += routes;
        self.charge(trie_nodes / TRIE_NODES_PER_UNIT + routes);
    }

    /// Whether others are to have their turn.
    pub(crate) fn is_turn_over(&self) -> bool {
        self.turn >= UNITS_PER_TURN
    }

    fn end_turn(&mut self) {
        self.counters.turn_units_max = self.counters.turn_units_max.max(self.turn);
        self.turn = 0;
    }
}

impl Unfinished {
    fn memory(&self) -> u64 {
        match self {
            Self::Subscribe(subscribing) => subscribing.memory(),
            Self::Unsubscribe(unsubscribing) => unsubscribing.memory(),
            Self::Retained(_) => 0,
            Self::Leave(leaving) => leaving.bytes,
            Self::Drop(outbox) => block(size_of_val(&**outbox)) + outbox.memory(),
        }
    }

    /// The memory of one that is a packet.
    pub(crate) fn packet(&self) -> u64 {
        match self {
            Self::Subscribe(_) | Self::Unsubscribe(_) => self.memory(),
            Self::Retained(_) | Self::Leave(_) | Self::Drop(_) => 0,
        }
    }
}

impl Turns {
    fn push(&mut self, unfinished: Unfinished) {
        if let Unfinished::Retained(key) = unfinished {
            self.retained.insert(key);
        }
        self.bytes += unfinished.memory();
        self.packets += unfinished.packet();
        self.waiting.push_back(unfinished);
    }

    fn pop(&mut self) -> Option<Unfinished> {
        let unfinished = self.waiting.pop_front()?;
        self.bytes -= unfinished.memory();
        self.packets -= unfinished.packet();
        Some(unfinished)
    }

    /// Memory of packets that wait.
    pub(crate) fn packets(&self) -> u64 {
        self.packets
    }

    /// Memory of what waits.
    pub(crate) fn memory(&self) -> u64 {
        let retained = tree::<SessionKey, ()>(self.retained.len());
        places::<Unfinished>(self.waiting.capacity()) + retained + self.bytes
    }

    /// Whether a session waits for its retained messages.
    pub(crate) fn is_waiting(&self, key: SessionKey) -> bool {
        self.retained.contains(&key)
    }
}

impl Node {
    /// The work since this was asked last, in units of about a microsecond: whoever caused it pays for it with its turn.
    pub fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work.step)
    }

    /// A turn of the node is over.
    pub(crate) fn end_turn(&mut self) {
        self.work.end_turn();
    }

    /// The rest is done when others have had their turn.
    pub(crate) fn wait_for_turn(&mut self, now: Now, unfinished: Unfinished) {
        self.turns.push(unfinished);
        if self.timers.get(TimerKey::Turn).is_none() {
            self.timers.schedule(TimerKey::Turn, now.instant + PAUSE);
        }
    }

    /// Goes on with those who wait, each once, as far as there is time in this turn.
    pub(crate) fn take_turns(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.sweep_shares();
        for _ in 0..self.turns.waiting.len() {
            if self.work.is_turn_over() {
                break;
            }
            let Some(unfinished) = self.turns.pop() else {
                break;
            };
            if let Some(rest) = self.take_turn(now, unfinished, actions) {
                self.turns.push(rest);
            }
        }
        if !self.turns.waiting.is_empty() {
            self.timers.schedule(TimerKey::Turn, now.instant + PAUSE);
        }
    }

    /// Does a part of it; gives back what is left.
    fn take_turn(
        &mut self,
        now: Now,
        unfinished: Unfinished,
        actions: &mut Vec<Action>,
    ) -> Option<Unfinished> {
        match unfinished {
            Unfinished::Subscribe(subscribing) => self
                .go_on_subscribing(now, subscribing, actions)
                .map(Unfinished::Subscribe),
            Unfinished::Unsubscribe(unsubscribing) => self
                .go_on_unsubscribing(now, unsubscribing, actions)
                .map(Unfinished::Unsubscribe),
            Unfinished::Retained(key) => {
                self.turns.retained.remove(&key);
                let is_there = self.sessions.get(key).is_some_and(|entry| !entry.due.is_empty());
                let is_more = is_there && self.deliver_pages(now, key, actions);
                self.note_standing(key);
                is_more.then_some(Unfinished::Retained(key))
            }
            Unfinished::Leave(leaving) => self.go_on_leaving(leaving),
            Unfinished::Drop(mut outbox) => {
                self.work.charge(UNITS_AT_ONCE / 2);
                let is_more = outbox.drop_some(DROPPED_AT_ONCE);
                is_more.then_some(Unfinished::Drop(outbox))
            }
        }
    }

    /// Whether a connection is still that of a session, so that what it has asked for goes on.
    pub(crate) fn is_connection_of(&self, id: ConnectionId, key: SessionKey) -> bool {
        let connection = self.connections.get(id);
        connection.is_some_and(|connection| connection.session() == Some(key))
    }

    /// A connection is read from again, or not while what it has asked for is worked on.
    pub(crate) fn set_working(
        &mut self,
        now: Now,
        id: ConnectionId,
        is_working: bool,
        actions: &mut Vec<Action>,
    ) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if std::mem::replace(&mut connection.is_working, is_working) && !is_working {
            // It could not be heard; its silence begins now.
            connection.last_received = now.instant;
            actions.push(Action::Resume { connection: id });
        }
    }

    /// Removes the subscriptions of a session that was [retired](crate::sessions::Sessions::retire); its key is given to another
    /// one when none is left.
    pub(crate) fn leave_all(&mut self, now: Now, (key, is_durable): (SessionKey, bool), filters: Filters) {
        let bytes = filters.bytes();
        let filters = filters.into_subscriptions();
        // What is shared is to be given to others, so nothing more may be given to this session. What is left of shares is swept.
        let (shared, own): (Vec<_>, Vec<_>) = filters
            .into_iter()
            .partition(|(filter, _)| filter.share.is_some());
        for (filter, subscription) in shared {
            self.leave(key, is_durable, &filter, subscription);
            self.work.filter(LEAVE_UNITS);
        }
        let units = || own.iter().map(|(filter, _)| leave_units(filter)).sum::<u64>();
        let is_little = own.len() <= LEFT_AT_ONCE && units() <= UNITS_AT_ONCE && !self.work.is_turn_over();
        let leaving = Box::new(Leaving {
            session: key,
            is_durable,
            filters: own.into_iter(),
            bytes,
        });
        let rest = match is_little {
            true => self.leave_some(leaving, u64::MAX),
            false => Some(leaving),
        };
        match rest {
            Some(leaving) => self.wait_for_turn(now, Unfinished::Leave(leaving)),
            None => self.sessions.release(key),
        }
    }

    /// Shares without sharers are forgotten when others have had their turn.
    pub(crate) fn wait_for_sweep(&mut self, now: Now) {
        if !self.shares.is_swept() && self.timers.get(TimerKey::Turn).is_none() {
            self.timers.schedule(TimerKey::Turn, now.instant + PAUSE);
        }
    }

    fn sweep_shares(&mut self) {
        let mut units = 0;
        while units < UNITS_AT_ONCE && !self.work.is_turn_over() {
            let Some(filter) = self.shares.sweep() else { return };
            let cost = leave_units(&filter);
            units += cost;
            self.work.charge(cost);
        }
    }

    /// Frees the memory of an outbox whose connection has ended.
    pub(crate) fn drop_outbox(&mut self, now: Now, outbox: Outbox) {
        if outbox.len() > DROPPED_AT_ONCE {
            self.wait_for_turn(now, Unfinished::Drop(Box::new(outbox)));
        }
    }

    fn go_on_leaving(&mut self, leaving: Box<Leaving>) -> Option<Unfinished> {
        let key = leaving.session;
        let Some(rest) = self.leave_some(leaving, UNITS_AT_ONCE) else {
            self.sessions.release(key);
            return None;
        };
        Some(Unfinished::Leave(rest))
    }

    fn leave_some(&mut self, mut leaving: Box<Leaving>, units_max: u64) -> Option<Box<Leaving>> {
        let mut units = 0;
        while units < units_max {
            let (filter, subscription) = leaving.filters.next()?;
            self.leave(leaving.session, leaving.is_durable, &filter, subscription);
            let cost = leave_units(&filter);
            units += cost;
            self.work.filter(cost);
        }
        Some(leaving)
    }
}

/// Visited for the price of one unit.
const TRIE_NODES_PER_UNIT: u64 = 16;

/// What a filter costs by its levels and bytes, in units.
pub(crate) fn units_of(filter: &str) -> u64 {
    let levels = 1 + filter.bytes().filter(|byte| *byte == b'/').count();
    (levels / LEVELS_PER_UNIT + filter.len() / FILTER_BYTES_PER_UNIT) as u64
}

fn leave_units(filter: &SubscriptionFilter) -> u64 {
    LEAVE_UNITS + units_of(filter.filter.as_str())
}
