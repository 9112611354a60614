//! CONNECT at this node: the claim of a session (section 7 of the specification).
//!
//! The connection's entry goes to the owners, who answer with older connections and the session. Older connections are
//! released; then the session is read again, its entry is written anew, and CONNACK waits until that is durable.

use std::collections::{BTreeMap, BTreeSet};

use super::known_session::{sessions_of, slots_of};
use super::sharing::Shared;
use super::wills::{ConnectionEnd, WillText, WrittenWill};
use super::{Awaited, InFlight, Node, Observation, Step};
use crate::copy::Content;
use crate::event::{Birth, Change, Entry, EntryKind};
use crate::ids::{ClientId, Dot, NodeId, NodeSet, SlotSet};
use crate::message::{Claimant, Message, OlderConnection, SessionAnswer};
use crate::rules::Rule;

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The owners are asked.
    Claiming,
    /// Older connections are asked to end.
    Releasing,
    /// The session's entry is on its way to the owners.
    Starting,
    Live,
    /// Ends when the last acknowledgements are durable.
    Closing,
}

/// A connection of a client at this node.
#[derive(Clone, Debug)]
pub struct Connection {
    pub client: ClientId,
    /// Event that opened it.
    pub dot: Dot,
    clock: u32,
    pub phase: Phase,
    pub(super) clean: bool,
    pub(super) will: Option<WillText>,
    pub(super) written_will: Option<WrittenWill>,
    pub(super) ending: ConnectionEnd,
    /// Owners that have not answered yet.
    awaited: NodeSet,
    older: Vec<OlderConnection>,
    releasing: Vec<OlderConnection>,
    released: Vec<Dot>,
    has_read_again: bool,
    /// The session as the owners have told it.
    pub(super) session: Content,
    found: bool,
    pub start: Option<Dot>,
    /// Owners that have the connection's entry.
    told: NodeSet,
    /// Nodes that wait for the end of this connection.
    pub(super) reply_to: Vec<NodeId>,
    pub(super) sent: BTreeSet<Dot>,
    pub(super) unacknowledged: BTreeSet<Dot>,
    /// QoS 2 messages that are on their way to the client, by packet id.
    pub(super) in_flight: BTreeMap<u8, InFlight>,
    pub(super) shared: Shared,
    /// A feed is asked for.
    pub(super) is_asking: bool,
    /// Owner that is asked next, counted around the owners.
    pub(super) turn: usize,
    /// Counts changes of the ring, so that answers from before do not count.
    pub(super) epoch: u32,
}

impl Connection {
    pub(super) fn claimant(&self) -> Claimant {
        Claimant {
            clock: self.clock,
            dot: self.dot,
        }
    }

    /// Takes what an owner knows of the session.
    fn take_answer(&mut self, rules: &crate::rules::Rules, owner: NodeId, answer: &SessionAnswer) {
        self.session.merge(rules, &answer.content);
        self.awaited.remove(owner);
        for older in &answer.older {
            if !self.older.contains(older) {
                self.older.push(*older);
            }
        }
    }

    /// Entry of the session that this connection wrote.
    pub fn started(&self) -> Option<&Entry> {
        let mut entries = self.session.entries.iter();
        entries.find(|entry| Some(entry.dot) == self.start)
    }

    pub fn will_entry(&self) -> Option<Dot> {
        self.written_will.map(|written| written.entry)
    }

    /// Waits no longer for a peer that was declared dead, and asks another owner for the feed.
    pub(super) fn forget_peer(&mut self, peer: NodeId) {
        self.awaited.remove(peer);
        self.releasing.retain(|old| old.node != peer);
        self.reply_to.retain(|node| *node != peer);
        if self.is_asking {
            self.is_asking = false;
            self.turn += 1;
        }
    }

    /// Asks for the release of older connections once more.
    pub(super) fn begin_anew(&mut self) {
        self.releasing.clear();
    }

    /// Takes the owners of a new ring; gives those that do not have the connection's entry.
    pub(super) fn tell(&mut self, owners: NodeSet) -> NodeSet {
        let new = owners.minus(self.told);
        self.told = owners;
        new
    }

    pub fn take_delivery(&mut self, message: Dot) {
        self.unacknowledged.insert(message);
    }
}

impl Node {
    /// CONNECT of `client`; gives the connection's dot.
    pub fn connect(
        &mut self,
        step: &mut Step<'_>,
        client: ClientId,
        clean: bool,
        will: Option<WillText>,
    ) -> Dot {
        let slot = step.directory.slot(client);
        let owners = self.ring().owners(slot);
        let dot = self.sender.next_dot();
        self.connections.push(Connection {
            client,
            dot,
            clock: self.next_clock(step),
            phase: Phase::Claiming,
            clean,
            will,
            written_will: None,
            ending: ConnectionEnd::Lost,
            awaited: owners,
            older: Vec::new(),
            releasing: Vec::new(),
            released: Vec::new(),
            has_read_again: false,
            session: Content::default(),
            found: false,
            start: None,
            told: owners,
            reply_to: Vec::new(),
            sent: BTreeSet::new(),
            unacknowledged: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            shared: Shared::default(),
            is_asking: false,
            turn: 0,
            epoch: 0,
        });
        self.emit(step, Change::OpenConnection { client }, SlotSet::one(slot), None);
        dot
    }

    /// DISCONNECT 0: the will is not published.
    pub fn disconnect(&mut self, connection: Dot) {
        if let Some(connection) = self.connection_mut(connection) {
            connection.phase = Phase::Closing;
            connection.ending = ConnectionEnd::Disconnected;
        }
    }

    /// The connection is lost: the will is published.
    pub fn lose_connection(&mut self, connection: Dot) {
        if let Some(connection) = self.connection_mut(connection) {
            connection.phase = Phase::Closing;
        }
    }

    pub fn connection(&self, dot: Dot) -> Option<&Connection> {
        self.connections.iter().find(|connection| connection.dot == dot)
    }

    pub fn connection_mut(&mut self, dot: Dot) -> Option<&mut Connection> {
        self.connections
            .iter_mut()
            .find(|connection| connection.dot == dot)
    }

    pub fn is_live(&self, dot: Dot) -> bool {
        self.connection(dot)
            .is_some_and(|connection| connection.phase == Phase::Live)
    }

    /// Takes what an owner knows of the session that a connection here claims.
    pub(super) fn take_session(&mut self, step: &Step<'_>, owner: NodeId, answer: &SessionAnswer) {
        if let Some(connection) = self.connection_mut(answer.connection) {
            connection.take_answer(step.rules, owner, answer);
        }
    }

    pub(super) fn receive_released(
        &mut self,
        step: &mut Step<'_>,
        from: NodeId,
        client: ClientId,
        old: Dot,
        agreed: bool,
    ) {
        let older = OlderConnection { node: from, dot: old };
        let is_waiting = |connection: &&mut Connection| {
            connection.client == client
                && connection.phase == Phase::Releasing
                && connection.releasing.contains(&older)
        };
        let Some(connection) = self.connections.iter_mut().find(is_waiting) else {
            return;
        };
        if agreed {
            connection.releasing.retain(|asked| asked.dot != old);
            connection.released.push(old);
        } else {
            connection.phase = Phase::Closing;
            let connection = connection.dot;
            step.observe(Observation::Disconnected { client, connection });
        }
    }

    /// Brings each connection one step further.
    pub(super) fn tick_connections(&mut self, step: &mut Step<'_>) {
        let dots: Vec<Dot> = self.connections.iter().map(|connection| connection.dot).collect();
        for dot in dots {
            match self.connection(dot).map(|connection| connection.phase) {
                Some(Phase::Claiming) => self.begin_releases(step, dot),
                Some(Phase::Releasing) => self.continue_releases(step, dot),
                Some(Phase::Live) => self.serve(step, dot),
                Some(Phase::Closing) => self.try_close(step, dot),
                Some(Phase::Starting) | None => {}
            }
        }
    }

    /// All owners have answered: asks the nodes of older connections to end them.
    fn begin_releases(&mut self, step: &mut Step<'_>, dot: Dot) {
        let Some(connection) = self
            .connection_mut(dot)
            .filter(|connection| connection.awaited.is_empty())
        else {
            return;
        };
        connection.phase = Phase::Releasing;
        let (client, me, older) = (connection.client, connection.claimant(), connection.older.clone());
        for old in older {
            if old.node == self.id {
                self.release(step, self.id, client, old.dot, Some(me));
                if self.connection(old.dot).is_some() {
                    self.expect_release(dot, old);
                }
            } else {
                self.ask_release(step, dot, old);
            }
        }
    }

    /// Asks the node of an older connection, if the run of that connection is present.
    fn ask_release(&mut self, step: &mut Step<'_>, dot: Dot, old: OlderConnection) {
        if !self.membership.has_run(old.node, old.dot.run) {
            return;
        }
        let Some((client, by)) = self
            .connection(dot)
            .map(|asking| (asking.client, asking.claimant()))
        else {
            return;
        };
        self.expect_release(dot, old);
        let by = Some(by);
        step.send(
            old.node,
            Message::Release {
                client,
                old: old.dot,
                by,
            },
        );
    }

    fn expect_release(&mut self, dot: Dot, old: OlderConnection) {
        if let Some(connection) = self.connection_mut(dot) {
            connection.releasing.push(old);
        }
    }

    /// Asks for older connections that have come to be known, reads the session again, and starts it.
    fn continue_releases(&mut self, step: &mut Step<'_>, dot: Dot) {
        let here: Vec<Dot> = self.connections.iter().map(|connection| connection.dot).collect();
        let id = self.id;
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        connection
            .releasing
            .retain(|asked| asked.node != id || here.contains(&asked.dot));
        if connection.releasing.is_empty() {
            let unasked = connection
                .older
                .iter()
                .filter(|old| !connection.released.contains(&old.dot));
            let elsewhere: Vec<_> = unasked.filter(|old| old.node != id).copied().collect();
            for old in elsewhere {
                self.ask_release(step, dot, old);
            }
        }
        let Some(connection) = self.connection(dot) else {
            return;
        };
        if !connection.releasing.is_empty() {
            return;
        }
        let reads_again = step.holds(Rule::ReadAfterRelease) && !connection.older.is_empty();
        if reads_again && !connection.has_read_again {
            self.read_again(step, dot);
        } else {
            self.remove_ended_connections(step, dot, &here);
            self.start_session(step, dot);
        }
    }

    fn read_again(&mut self, step: &mut Step<'_>, dot: Dot) {
        let Some(client) = self.connection(dot).map(|connection| connection.client) else {
            return;
        };
        let owners = self.ring().owners(step.directory.slot(client));
        if let Some(connection) = self.connection_mut(dot) {
            connection.has_read_again = true;
        }
        self.ask_session(step, dot, client, owners);
    }

    pub(super) fn ask_session(&mut self, step: &mut Step<'_>, dot: Dot, client: ClientId, owners: NodeSet) {
        if let Some(connection) = self.connection_mut(dot) {
            connection.phase = Phase::Claiming;
            connection.awaited = owners;
        }
        for owner in owners.iter() {
            if owner == self.id {
                self.add_claim(owner, client, dot);
            } else {
                let connection = dot;
                step.send(owner, Message::AskSession { client, connection });
            }
        }
    }

    /// Removes connections that were released, or whose run has ended.
    fn remove_ended_connections(&mut self, step: &mut Step<'_>, dot: Dot, here: &[Dot]) {
        let Some(connection) = self.connection(dot) else {
            return;
        };
        let has_ended = |old: &&OlderConnection| {
            let is_gone_here = old.node == self.id && !here.contains(&old.dot);
            !step.holds(Rule::KeepOpenConnections)
                || connection.released.contains(&old.dot)
                || is_gone_here
                || self.has_ended(step, old.dot.run)
        };
        let ended = connection.older.iter().filter(has_ended);
        let removes: Vec<Dot> = ended.map(|old| old.dot).collect();
        let client = connection.client;
        // One that was released, or that this run has closed, has left its will itself, unless that is not to be published.
        let is_closed = |old: &&Dot| connection.released.contains(old) || old.run == self.sender.run;
        let lost: Vec<Dot> = removes.iter().filter(|old| !is_closed(old)).copied().collect();
        self.leave_wills(step, dot, &lost);
        if !removes.is_empty() {
            let slots = SlotSet::one(step.directory.slot(client));
            self.emit(step, Change::Remove { client, removes }, slots, None);
        }
    }

    /// Writes the session's entry: anew with the same birth, or of a new session.
    fn start_session(&mut self, step: &mut Step<'_>, dot: Dot) {
        let seen = self.seen(step, dot);
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        let (clean, start) = (connection.clean, connection.start);
        let sessions = sessions_of(step, &seen, start);
        connection.found |= !sessions.is_empty();
        connection.phase = Phase::Starting;
        let found = connection.found;
        if start.is_some() || found && !clean && !step.holds(Rule::SessionAnew) {
            self.await_start(step, dot);
            return;
        }
        if clean && found {
            self.end_older(step, dot, &seen);
        }
        let resumed = sessions.last().filter(|_| found && !clean).copied();
        let birth = resumed.map(|session| Birth {
            dot: session.birth,
            clock: session.since,
        });
        self.write_session(
            step,
            dot,
            &seen,
            birth,
            resumed.map_or(clean, |session| session.clean),
        );
    }

    /// Writes the session's entry and the will; CONNACK waits for both.
    fn write_session(
        &mut self,
        step: &mut Step<'_>,
        dot: Dot,
        seen: &BTreeSet<Entry>,
        resumed: Option<Birth>,
        clean: bool,
    ) {
        let seen_clock = seen.iter().map(|entry| entry.clock).max();
        self.clock = self.clock.max(seen_clock.unwrap_or(0));
        let Some(client) = self.connection(dot).map(|connection| connection.client) else {
            return;
        };
        let slots = slots_of(step, client);
        let peers = self.owners_of(slots);
        let change = self.session_start(step, dot, seen, resumed, clean);
        let Some(change) = change else { return };
        let start = self.emit(step, change, slots, None);
        if let Some(connection) = self.connection_mut(dot) {
            connection.start = Some(start);
        }
        self.remember(dot, start);
        let last = self.write_will(step, dot, start);
        let awaited = Awaited::Started {
            client,
            connection: dot,
            present: resumed.is_some(),
        };
        let slot = SlotSet::one(step.directory.slot(client));
        self.sender.wait_for(last.number, slot, peers, awaited);
    }

    /// The session's entry as the next event writes it, in place of older ones and of delayed wills.
    fn session_start(
        &self,
        step: &Step<'_>,
        dot: Dot,
        seen: &BTreeSet<Entry>,
        resumed: Option<Birth>,
        clean: bool,
    ) -> Option<Change> {
        let connection = self.connection(dot)?;
        let birth = resumed.unwrap_or(Birth {
            dot: self.sender.next_dot(),
            clock: connection.clock,
        });
        let is_older = |entry: &&Entry| entry.kind == EntryKind::Session && entry.birth == birth.dot;
        let older = seen.iter().filter(is_older).map(|entry| entry.dot);
        Some(Change::StartSession {
            client: connection.client,
            clean,
            birth,
            connected: connection.clock,
            removes: older.chain(self.cancelled_wills(step, dot)).collect(),
        })
    }

    /// A clean start ends what it sees of the older session.
    fn end_older(&mut self, step: &mut Step<'_>, dot: Dot, seen: &BTreeSet<Entry>) {
        let Some(ending) = self.ending(step, dot, seen) else {
            return;
        };
        self.emit_ending(step, dot, ending, false);
        if let Some(connection) = self.connection_mut(dot) {
            let entries = &mut connection.session.entries;
            entries.retain(|entry| entry.kind == EntryKind::End);
        }
    }

    /// Waits for a session's entry that was written before the claim began anew.
    fn await_start(&mut self, step: &Step<'_>, dot: Dot) {
        let Some(connection) = self.connection(dot) else {
            return;
        };
        let (client, start) = (connection.client, connection.start);
        let last = connection.will_entry().or(start);
        let present = connection.found && !connection.clean;
        let peers = start.map_or(NodeSet::EMPTY, |_| self.owners_of(slots_of(step, client)));
        let slots = SlotSet::one(step.directory.slot(client));
        let awaited = Awaited::Started {
            client,
            connection: dot,
            present,
        };
        self.sender
            .wait_for(last.unwrap_or(dot).number, slots, peers, awaited);
    }

    /// CONNACK, now that the session's entry is durable.
    pub(super) fn connack(&mut self, step: &mut Step<'_>, client: ClientId, dot: Dot, present: bool) {
        let Some(connection) = self.connection_mut(dot) else {
            return;
        };
        if connection.phase == Phase::Starting {
            connection.phase = Phase::Live;
            step.observe(Observation::Connected {
                client,
                connection: dot,
                present,
            });
        }
    }
}
