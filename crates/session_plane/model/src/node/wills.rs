//! Wills: what a client leaves to be published when its connection ends (section 7 of the specification).
//!
//! The will is an entry at the owners before CONNACK. The primary owner publishes it when the connection's run is gone, or when
//! an entry beside the will says that the connection has ended. It writes a number beside the will first, and routes the will under
//! it, as QoS 2 messages from clients are routed. So the next primary owner goes on with the same number.
//!
//! A will that was published because its node was given up is armed again if the connection turns out to be open.

use std::collections::BTreeMap;

use super::publishing::Ready;
use super::{Awaited, Connection, Node, Step};
use crate::event::{Change, Entry, Event, Will, WillPart};
use crate::ids::{ClientId, Dot, Slot, SlotSet};
use crate::rules::Rule;
use crate::wills::KnownWill;

/// Ticks of every Will Delay.
pub const WILL_DELAY: u32 = 16;

/// Will as CONNECT gives it.
#[derive(Clone, Copy, Debug)]
pub struct WillText {
    /// Stands for topic and payload.
    pub content: u32,
    pub is_delayed: bool,
}

/// Will that the owners were sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenWill {
    pub(super) entry: Dot,
    will: Will,
}

/// How a connection ends, as far as its will is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ConnectionEnd {
    /// Without DISCONNECT 0: its will is to be published.
    Lost,
    /// The will is on its way to the owners.
    Leaving,
    Left,
    /// There is nothing to publish.
    Disconnected,
}

/// Wills that wait for their delay, by their entry, and since when.
#[derive(Clone, Debug, Default)]
pub(super) struct Wills {
    noticed: BTreeMap<Dot, u32>,
}

impl Connection {
    /// Entry of the will, if the connection has ended by DISCONNECT 0.
    pub(super) fn dropped_will(&self) -> Option<Dot> {
        let is_dropped = self.ending == ConnectionEnd::Disconnected;
        self.written_will
            .filter(|_| is_dropped)
            .map(|written| written.entry)
    }

    /// Wills of older connections as the owners have told them.
    fn older_wills(&self) -> impl Iterator<Item = &Entry> {
        let is_older = move |will: &Will| will.connection != self.dot;
        let entries = self.session.entries.iter();
        entries.filter(move |entry| entry.client == self.client && entry.will.as_ref().is_some_and(is_older))
    }
}

impl Node {
    // At the node of a connection.

    /// Writes the will of a connection after the session's entry `start`; gives the last event of the two.
    pub(super) fn write_will(&mut self, step: &mut Step<'_>, dot: Dot, start: Dot) -> Dot {
        let Some(connection) = self.connection(dot) else {
            return start;
        };
        let (client, text) = (connection.client, connection.will);
        let session = self.sender.find(start).and_then(Event::entry);
        let (Some(text), Some(session)) = (text, session) else {
            return start;
        };
        let will = Will {
            connection: dot,
            content: text.content,
            birth: session.birth,
            session_clock: session.clock,
            is_delayed: text.is_delayed,
            part: WillPart::Text,
        };
        let removes = Vec::new();
        let change = Change::SetWill {
            client,
            will,
            removes,
        };
        let entry = self.emit(step, change, SlotSet::one(step.directory.slot(client)), None);
        if let Some(connection) = self.connection_mut(dot) {
            connection.written_will = Some(WrittenWill { entry, will });
        }
        entry
    }

    /// Delayed wills that a CONNECT takes away, unless it begins clean.
    pub(super) fn cancelled_wills(&self, step: &Step<'_>, dot: Dot) -> Vec<Dot> {
        let Some(connection) = self.connection(dot).filter(|_| step.holds(Rule::WillCancelled)) else {
            return Vec::new();
        };
        let is_cancelled =
            |entry: &&Entry| !connection.clean && entry.will.is_some_and(|will| will.is_delayed);
        let cancelled = connection.older_wills().filter(is_cancelled);
        cancelled.map(|entry| entry.dot).collect()
    }

    /// The will of a connection that closes is not at the owners yet; sends it there.
    pub(super) fn is_leaving_will(&mut self, step: &mut Step<'_>, dot: Dot) -> bool {
        let Some(connection) = self.connection(dot) else {
            return false;
        };
        match connection.ending {
            ConnectionEnd::Leaving => return true,
            ConnectionEnd::Left | ConnectionEnd::Disconnected => return false,
            ConnectionEnd::Lost => {}
        }
        let written = connection.written_will.filter(|_| step.holds(Rule::WillLeft));
        let Some(WrittenWill { will, .. }) = written else {
            return false;
        };
        let slots = SlotSet::one(step.directory.slot(connection.client));
        let change = end_of(connection.client, &will);
        self.emit_and_wait(step, change, slots, Awaited::WillLeft { connection: dot });
        let waits = step.holds(Rule::WillBeforeReleased);
        if let Some(connection) = self.connection_mut(dot) {
            connection.ending = if waits {
                ConnectionEnd::Leaving
            } else {
                ConnectionEnd::Left
            };
        }
        waits
    }

    pub(super) fn will_left(&mut self, connection: Dot) {
        if let Some(connection) = self.connection_mut(connection) {
            connection.ending = ConnectionEnd::Left;
        }
    }

    /// Before a CONNECT removes the older connections `ended`, their wills come to stand for themselves.
    pub(super) fn leave_wills(&mut self, step: &mut Step<'_>, dot: Dot, ended: &[Dot]) {
        let Some(connection) = self.connection(dot).filter(|_| step.holds(Rule::WillLeft)) else {
            return;
        };
        let is_left = |will: &Will| will.part == WillPart::Text && ended.contains(&will.connection);
        let wills: Vec<Will> = connection
            .older_wills()
            .filter_map(|entry| entry.will)
            .filter(is_left)
            .collect();
        let client = connection.client;
        for will in wills {
            self.emit(
                step,
                end_of(client, &will),
                SlotSet::one(step.directory.slot(client)),
                None,
            );
        }
    }

    // At the primary owner.

    /// Brings each will of the slots that this node is the primary owner of one step further.
    pub(super) fn tick_wills(&mut self, step: &mut Step<'_>) {
        for client in ClientId::all() {
            let slot = step.directory.slot(client);
            for will in self.counting_wills(step, slot, client) {
                if let Some(numbered) = will.numbered {
                    self.continue_will(step, slot, &will, &numbered);
                } else if self.is_open(step, &will) {
                    self.wills.noticed.remove(&will.entry.dot);
                } else if self.has_waited(step, &will) {
                    self.number_will(step, slot, &will);
                }
            }
        }
    }

    /// The delay of a will is over, counted from when this node has noticed the end of the connection.
    fn has_waited(&mut self, step: &Step<'_>, will: &KnownWill) -> bool {
        let since = *self.wills.noticed.entry(will.entry.dot).or_insert(step.now);
        !will.will.is_delayed || step.now - since >= WILL_DELAY
    }

    /// Wills of `client` that count, if this node is the one to publish them.
    fn counting_wills(&self, step: &Step<'_>, slot: Slot, client: ClientId) -> Vec<KnownWill> {
        let copy = self.deciding_copy(step, slot, Rule::FireMerged);
        copy.map_or(Vec::new(), |copy| copy.content.wills(step.rules, client))
    }

    /// `entry` is the number of a will that this node is not to publish, or not under that number.
    pub(super) fn is_void(&self, step: &Step<'_>, entry: &Entry) -> bool {
        if entry.will.is_none() || !step.holds(Rule::OneNumber) {
            return false;
        }
        let wills = self.counting_wills(step, step.directory.slot(entry.client), entry.client);
        let number_of = |entry: Entry| entry.numbered().map(|numbered| numbered.number);
        let counts = |will: &KnownWill| will.numbered.and_then(number_of) == number_of(*entry);
        !wills.iter().any(counts)
    }

    /// The connection is open as far as this node knows.
    fn is_open(&self, step: &Step<'_>, known: &KnownWill) -> bool {
        let run = known.will.connection.run;
        !known.is_ended && (run == self.sender.run || self.membership.has_run(step.directory.node(run), run))
    }

    /// Writes the number under which a will is going to be routed.
    fn number_will(&mut self, step: &mut Step<'_>, slot: Slot, known: &KnownWill) {
        let part = WillPart::Number {
            number: self.reserve(slot, None),
            of: known.entry.dot,
        };
        let change = Change::SetWill {
            client: known.entry.client,
            will: Will { part, ..known.will },
            removes: Vec::new(),
        };
        let dot = self.emit_and_wait(step, change, SlotSet::one(slot), Awaited::Stored);
        if let Some(numbered) = self.sender.find(dot).and_then(Event::entry) {
            self.store(step, numbered, None);
        }
    }

    /// Routes a will that has a number, and settles it after that. One whose connection is open was published on
    /// a side that had given the node up: it is settled without.
    fn continue_will(&mut self, step: &mut Step<'_>, slot: Slot, will: &KnownWill, numbered: &Entry) {
        let Some(number) = numbered.numbered().map(|numbered| numbered.number) else {
            return;
        };
        let is_own = number.run == self.sender.run.of_numbers();
        if is_own && self.publishing.reserved(number.run).has(number) {
            return;
        }
        let is_open = step.holds(Rule::WillArmed) && self.is_open(step, will);
        if self.routing.is_done(number) || is_open && !self.routing.is_on_the_way(number) {
            self.settle_will(step, slot, will);
            return;
        }
        self.publishing.ready.push(Ready {
            entry: *numbered,
            number,
            connection: None,
        });
    }

    /// Removes a will that was published, keeps it while its connection may be open elsewhere, or arms it again.
    fn settle_will(&mut self, step: &mut Step<'_>, slot: Slot, known: &KnownWill) {
        let (client, will) = (known.entry.client, known.will);
        let connections = self.connections_in(slot, client);
        let has_connection = connections
            .iter()
            .any(|connection| connection.dot == will.connection);
        let mut removes = self.wills_of(slot, client, will.connection);
        if known.is_ended || !has_connection || self.has_ended(step, will.connection.run) {
            removes.push(will.connection);
            self.emit(step, Change::Remove { client, removes }, SlotSet::one(slot), None);
        } else if self.is_open(step, known) && step.holds(Rule::WillArmed) {
            let change = Change::SetWill {
                client,
                will,
                removes,
            };
            self.emit(step, change, SlotSet::one(slot), None);
        }
    }

    /// Events that made the entries of a connection's will.
    fn wills_of(&self, slot: Slot, client: ClientId, connection: Dot) -> Vec<Dot> {
        let entries = self.copy(slot).into_iter().flat_map(|copy| &copy.content.entries);
        let is_of = |will: Will| will.connection == connection;
        let of_connection = entries.filter(|entry| entry.client == client && entry.will.is_some_and(is_of));
        of_connection.map(|entry| entry.dot).collect()
    }
}

/// The connection of `will` has ended, and leaves it to be published.
fn end_of(client: ClientId, will: &Will) -> Change {
    Change::SetWill {
        client,
        will: Will {
            part: WillPart::End,
            ..*will
        },
        removes: vec![will.connection],
    }
}
