//! Clients of the world: connections with wills, and how they end.

use super::promises::Record;
use super::{Content, NODES, World};
use crate::wills::tests::*;

/// Client, with its connections that have not ended.
#[derive(Debug, Default)]
pub(super) struct Client {
    /// In ascending order of their begin.
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    node: usize,
    connection: ConnectionId,
    dot: Dot,
    content: ContentId,
    /// A CONNECT is to end it, and has asked for that.
    is_ending: bool,
}

impl World {
    /// Connects a client at a node, if its claim can succeed at once: all nodes of the side have each
    /// other, and no older connection is open there. One that is open there is ended instead.
    pub(super) fn connect(&mut self, connecting: Connecting) {
        let Connecting { client, node, .. } = connecting;
        let Some(side) = self.connected_side(node) else {
            return;
        };
        let here = self.clients[client].places.iter();
        let here = here.filter(|place| side.contains(&place.node));
        let dots: Vec<Dot> = here.map(|place| place.dot).collect();
        for dot in &dots {
            self.end(
                client,
                *dot,
                WillEnd::Left {
                    delay: self.delay_of(*dot),
                },
            );
        }
        self.merge_side(&side);
        if !dots.is_empty() || self.has_closing(node, client) {
            return;
        }
        let id = client_id(client);
        self.machines[node].connections += 1;
        let connection = ConnectionId(self.machines[node].connections);
        let dot = self.next_dot(node);
        let birth = Birth {
            dot,
            clock: Hlc::at(self.moment + 1),
            is_clean: false,
        };
        let made = self.make(
            node,
            &id,
            BTreeSet::new(),
            Some((Fact::Connection, birth, Value::Nothing)),
        );
        assert_eq!(made, dot);
        self.end_older(node, &id, dot);
        let session = self.start_session(node, &id, dot, connecting);
        self.write_will(node, connection, dot, &session, connecting);
        self.merge_side(&side);
    }

    fn next_dot(&self, node: usize) -> Dot {
        let run = self.machines[node].run;
        let last = self.machines[node].made.keys().next_back();
        let number = 1 + last.map_or(0, |last| last.number);
        Dot { run, number }
    }

    /// An older connection is open or closing, as far as the node knows, and its node is present.
    fn has_closing(&self, node: usize, client: usize) -> bool {
        let state = &self.machines[node].state;
        let connections = state.entries(&client_id(client), EntryKind::Connection);
        let mut runs = connections
            .iter()
            .map(|(dot, _)| *dot)
            .filter(|dot| !self.released.contains(dot));
        runs.any(|dot| state.present_run(dot.run.node) == Some(dot.run))
    }

    /// Nodes of the side of a node that have each other and reach each other.
    fn connected_side(&self, node: usize) -> Option<Vec<usize>> {
        let side = self.closed_side(node).filter(|_| self.machines[node].is_up)?;
        let is_whole = side
            .iter()
            .all(|peer| self.reaches(node, *peer) && self.has_present(node, *peer));
        is_whole.then_some(side)
    }

    /// All nodes of a side have what any of them has.
    fn merge_side(&mut self, side: &[usize]) {
        let copies: Vec<_> = side
            .iter()
            .map(|node| self.machines[*node].state.copy.clone())
            .collect();
        for node in side {
            for copy in &copies {
                self.absorb(*node, copy.clone());
            }
        }
    }

    /// Connections that have ended leave their entries (rules `keep-open-connections` and `will-left`).
    fn end_older(&mut self, node: usize, id: &ClientId, own: Dot) {
        for (old, _) in self.machines[node].state.entries(id, EntryKind::Connection) {
            let is_released = self.released.contains(&old);
            let state = &self.machines[node].state;
            if old == own || !is_released && !state.has_ended(old.run) {
                continue;
            }
            let wills = state.entries(id, EntryKind::Will);
            let will = wills.into_iter().find(|(_, will)| will.fact.named() == Some(old));
            let end = will.filter(|_| !is_released).map(|(_, will)| {
                let fact = Fact::ConnectionEnd { connection: old };
                (fact, will.birth, Value::End { delay: None })
            });
            self.make(node, id, [old].into(), end);
        }
    }

    /// A clean start ends the session that it finds (rules `end-beats` and `end-covers`).
    fn end_session(&mut self, node: usize, id: &ClientId) {
        let copy = &self.machines[node].state.copy;
        let Some(session) = copy.entries.session(id.as_bytes()) else {
            return;
        };
        let Some(ending) = session.ending(&copy.covered) else {
            return;
        };
        let stays = [
            EntryKind::Connection,
            EntryKind::Will,
            EntryKind::ConnectionEnd,
            EntryKind::WillNumber,
        ];
        let removed = session.iter().filter(|(id, _)| !stays.contains(&id.kind));
        let removes = removed.map(|(id, _)| id.dot).collect();
        self.make(
            node,
            id,
            removes,
            Some((ending.fact, ending.birth, Value::Nothing)),
        );
    }

    /// Writes the session's entry anew, or of a new session (rules `session-anew` and
    /// `will-cancelled`).
    fn start_session(
        &mut self,
        node: usize,
        id: &ClientId,
        own: Dot,
        connecting: Connecting,
    ) -> Entry<Value> {
        let is_clean = connecting.is_clean;
        let found = self.machines[node].state.latest_session(id);
        if is_clean && found.is_some() {
            self.end_session(node, id);
        }
        let resumed = found.filter(|_| !is_clean);
        let state = &self.machines[node].state;
        let sessions = state.entries(id, EntryKind::Session).into_iter();
        let older = sessions.filter(|(_, session)| resumed == Some(session.birth));
        let is_cancelled = |(_, will): &(Dot, Entry<Value>)| match &will.fact {
            Fact::Will(terms) => !is_clean && terms.connection != own && terms.delayed_since.is_some(),
            _ => false,
        };
        let wills = state.entries(id, EntryKind::Will).into_iter();
        let removes = older.chain(wills.filter(is_cancelled)).map(|(dot, _)| dot);
        let removes = removes.collect();
        let birth = resumed.unwrap_or(Birth {
            dot: self.next_dot(node),
            clock: Hlc::at(self.moment + 1),
            is_clean,
        });
        self.note_resumed(node, id, birth, resumed.is_some(), self.next_dot(node));
        let dot = self.make(
            node,
            id,
            removes,
            Some((Fact::Session { connected: None }, birth, Value::Nothing)),
        );
        let entry = self.machines[node].state.entry(id, EntryKind::Session, dot);
        entry.expect("it was made")
    }

    fn write_will(
        &mut self,
        node: usize,
        connection: ConnectionId,
        dot: Dot,
        session: &Entry<Value>,
        connecting: Connecting,
    ) {
        let Connecting {
            client, is_delayed, ..
        } = connecting;
        let (id, birth) = (client_id(client), session.birth);
        let content = ContentId(1 + self.records.len() as u128);
        let fact = Fact::Will(Box::new(WillTerms {
            connection: dot,
            delayed_since: is_delayed.then_some(session.clock),
        }));
        let delay = if is_delayed { DELAY } else { Duration::ZERO };
        let value = Value::Text { content, delay };
        let will = self.make(node, &id, BTreeSet::new(), Some((fact, birth, value)));
        let own = OwnWill {
            client: id,
            connection: dot,
            will,
            birth,
        };
        self.tell_wills(node, WillsEvent::Written { connection, own });
        self.records
            .insert(content, Record::new(client, dot, birth, is_delayed));
        self.clients[client].places.push(Place {
            node,
            connection,
            dot,
            content,
            is_ending: false,
        });
    }

    fn delay_of(&self, dot: Dot) -> Duration {
        let mut records = self.records.values();
        let record = records.find(|record| record.connection == dot);
        let is_delayed = record.is_some_and(|record| record.is_delayed);
        if is_delayed { DELAY } else { Duration::ZERO }
    }

    pub(super) fn disconnect(&mut self, client: usize) {
        if let Some(place) = self.clients[client].places.last().copied() {
            self.end(client, place.dot, WillEnd::Dropped);
        }
    }

    pub(super) fn lose(&mut self, client: usize) {
        if let Some(place) = self.clients[client].places.first().copied() {
            let delay = self.delay_of(place.dot);
            self.end(client, place.dot, WillEnd::Left { delay });
        }
    }

    /// Ends a connection, unless that has been told already.
    fn end(&mut self, client: usize, dot: Dot, end: WillEnd) {
        let mut places = self.clients[client].places.iter_mut();
        let Some(place) = places.find(|place| place.dot == dot && !place.is_ending) else {
            return;
        };
        place.is_ending = true;
        let place = *place;
        self.note_end(place.content, end == WillEnd::Dropped);
        let connection = place.connection;
        self.tell_wills(place.node, WillsEvent::Ended { connection, end });
    }

    /// A connection is released: its entry goes, and with it a will that is dropped.
    pub(super) fn release(&mut self, node: usize, connection: ConnectionId, removes: Option<Dot>) {
        let is_at = |place: &Place| place.node == node && place.connection == connection;
        let found = (0..super::CLIENTS).find_map(|client| {
            let places = &self.clients[client].places;
            places.iter().position(is_at).map(|index| (client, index))
        });
        let Some((client, index)) = found else { return };
        let place = self.clients[client].places.remove(index);
        if removes.is_none() {
            self.assert_left(node, &client_id(client), place.dot);
        }
        self.released.insert(place.dot);
        let removes = [place.dot].into_iter().chain(removes).collect();
        self.make(node, &client_id(client), removes, None);
    }

    /// All nodes that are present have the end of a connection (rule `will-before-released`).
    fn assert_left(&self, node: usize, id: &ClientId, connection: Dot) {
        let ends = self.machines[node].state.entries(id, EntryKind::ConnectionEnd);
        let end = ends
            .into_iter()
            .find(|(_, end)| end.fact.named() == Some(connection));
        // It may have been published, and removed.
        let Some((end, _)) = end else { return };
        let present = self.machines[node].peers().into_iter();
        for peer in present.filter(|peer| self.has_present(node, *peer) && self.machines[*peer].is_up) {
            assert!(self.machines[peer].state.copy.has_written(id, end), "W1 not left");
        }
    }

    /// The run of a node ends, and all its connections.
    pub(super) fn lose_connections_of(&mut self, node: usize) {
        for client in 0..super::CLIENTS {
            let places = std::mem::take(&mut self.clients[client].places);
            let (lost, left) = places.into_iter().partition(|place| place.node == node);
            self.clients[client].places = left;
            let lost: Vec<Place> = lost;
            lost.iter().for_each(|place| self.note_end(place.content, false));
        }
        for peer in 0..NODES {
            self.links.remove(&(peer, node));
        }
    }

    /// Ends all connections of each client but the latest (rule `loser-released`).
    pub(super) fn release_losers(&mut self) {
        for client in 0..super::CLIENTS {
            let places = self.clients[client].places.clone();
            let losers = places.len().saturating_sub(1);
            for place in places.into_iter().take(losers) {
                let delay = self.delay_of(place.dot);
                self.end(client, place.dot, WillEnd::Left { delay });
            }
        }
    }

    /// A node has what another one has.
    fn absorb(&mut self, node: usize, copy: super::Copy) {
        let round = 0;
        let copy = Box::new(copy);
        self.receive(node, node, Content::Answer { round, copy });
    }
}
