//! Wills of connections, and what is promised of them (promise W1).
//!
//! The will of a connection that ended without DISCONNECT 0 is published, once on each side. One that is delayed is not published
//! where a CONNECT that resumed the session is known. A node that was given up may live: what was published before the connection
//! has ended does not count, unless its side has never come to know better.

use std::collections::BTreeMap;

use super::World;
use super::clients::Place;
use crate::event::Event;
use crate::ids::{ClientId, Dot, NodeId, NodeSet, Slot};
use crate::node::{Connection, Phase, WillText};
use crate::random::{Purpose, Random};

/// Ticks in which nodes that meet come to know of each other's connections.
const SETTLING: u32 = 40;

/// Ticks in which a will is published once all nodes are back.
const PUBLISHING: u32 = 80;

/// Will of a connection, as its client knows it.
#[derive(Clone, Debug)]
pub(super) struct Will {
    client: ClientId,
    connection: Dot,
    is_delayed: bool,
    /// CONNACK was sent.
    is_accepted: bool,
    /// Entry of the will that its CONNECT wrote, and its session.
    entry: Option<Dot>,
    birth: Option<Dot>,
    end: Option<WillEnd>,
    publications: Vec<Publication>,
    /// Last tick at which the side of the connection was not at rest.
    unsettled_at: u32,
    /// CONNECT that has resumed the session on a side that has the will.
    resumed: Option<Dot>,
    /// The session has ended, or another has begun.
    has_no_session: bool,
    /// The client has sent another CONNECT.
    has_returned: bool,
    named: BTreeMap<Dot, Named>,
}

/// End of a connection with a will.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WillEnd {
    Disconnected,
    Lost {
        at: u32,
        /// All that was published before is known to the connection's side, which has armed the will again.
        is_settled: bool,
    },
}

/// What a number stands for.
#[derive(Clone, Copy, Debug)]
struct Named {
    entry: Dot,
    /// Entry of the will.
    of: Dot,
    /// What is promised under this number.
    message: u32,
}

/// A will that was routed.
#[derive(Clone, Copy, Debug)]
struct Publication {
    number: Dot,
    named: Option<Named>,
    at: u32,
    is_complete: bool,
}

impl Will {
    /// What happens to a connection that outlives its session, on another side, resumes nothing.
    fn end_session(&mut self) {
        self.has_no_session = true;
        if self.end.is_none() {
            self.resumed = None;
        }
    }

    /// It was published for the end of the connection.
    fn is_published(&self) -> bool {
        let counts = |publication: &Publication| match self.end {
            Some(WillEnd::Lost { at, is_settled }) => publication.at >= at || !is_settled,
            Some(WillEnd::Disconnected) | None => false,
        };
        let mut complete = self
            .publications
            .iter()
            .filter(|publication| publication.is_complete);
        complete.any(counts)
    }
}

impl World {
    /// Will of a CONNECT that `client` sends now.
    pub(super) fn draw_will(&mut self, client: ClientId) -> Option<WillText> {
        let (now, id) = (self.now, client.0);
        let mut random = Random::new(self.seed, Purpose::Wills { now, client: id });
        if !self.has_wills || random.chance(1, 3) {
            return None;
        }
        self.publishers.last += 1;
        Some(WillText {
            content: self.publishers.last,
            is_delayed: random.chance(1, 2),
        })
    }

    /// Whether `client` loses its connection instead of closing it.
    pub(super) fn draws_loss(&self, client: ClientId) -> bool {
        let purpose = Purpose::Wills {
            now: self.now,
            client: client.0 + 8,
        };
        self.has_wills && Random::new(self.seed, purpose).chance(2, 3)
    }

    pub(super) fn note_will(&mut self, client: ClientId, connection: Dot, text: Option<WillText>) {
        for will in self.wills.values_mut().filter(|will| will.client == client) {
            will.has_returned = true;
        }
        let Some(text) = text else { return };
        let will = Will {
            client,
            connection,
            is_delayed: text.is_delayed,
            is_accepted: false,
            entry: None,
            birth: None,
            end: None,
            publications: Vec::new(),
            unsettled_at: self.now,
            resumed: None,
            has_returned: false,
            has_no_session: false,
            named: BTreeMap::new(),
        };
        self.say(|| format!("  with will {} delayed={}", text.content, text.is_delayed));
        self.wills.insert(text.content, will);
    }

    /// `entry` has the number of a will.
    pub(super) fn will_numbered(&mut self, node: NodeId, content: u32, number: Dot, entry: Dot) {
        let event = self.node(node).sender.find(entry).and_then(Event::entry);
        let of = event.and_then(|entry| entry.will?.number_of());
        let (Some(will), Some(of)) = (self.wills.get_mut(&content), of) else {
            return;
        };
        self.publishers.last += 1;
        let message = self.publishers.last;
        will.named.insert(number, Named { entry, of, message });
        let client = will.client;
        self.publishers.name(number, client, message);
        self.promise_once(message, node);
        let will = &self.wills[&content];
        if let Some(text) = self.find_untimely(node, will, content) {
            self.fail(text);
        }
    }

    /// What is wrong with `node` publishing a will at all.
    fn find_untimely(&self, node: NodeId, will: &Will, content: u32) -> Option<String> {
        let publisher = self.node(node);
        let home = self.directory.node(will.connection.run);
        let has_home = publisher.membership.has_run(home, will.connection.run) && self.alive().has(home);
        if will.end == Some(WillEnd::Disconnected) && has_home {
            return Some(format!(
                "W1 disconnected: node {} publishes will {content}",
                node.0
            ));
        }
        let knows = |dot: Dot| {
            let copy = publisher.copy(self.directory.slot(will.client));
            copy.is_some_and(|copy| copy.content.known().has(dot))
        };
        let is_checked = will.is_delayed && self.lost.is_empty();
        let by = will.resumed.filter(|by| is_checked && knows(*by))?;
        Some(format!(
            "W1 resumed: node {} publishes will {content} after {by:?}",
            node.0
        ))
    }

    fn will_of(&mut self, connection: Dot) -> Option<&mut Will> {
        self.wills.values_mut().find(|will| will.connection == connection)
    }

    /// CONNACK: from now on the will is promised; delayed wills of older connections are not.
    pub(super) fn acknowledge_will(&mut self, client: ClientId, place: Place, resumes: bool) {
        let home = self.node(place.node).connection(place.connection);
        let start = home.and_then(|connection| connection.start);
        let entry = home.and_then(Connection::will_entry);
        let birth = home.and_then(Connection::started).map(|session| session.birth);
        let side = self.node(place.node).membership.view.present.and(self.alive());
        let takers = &self.takers;
        let is_here = |will: &Will| {
            will.entry
                .and_then(|entry| takers.get(&entry))
                .is_some_and(|takers| !takers.and(side).is_empty())
        };
        for will in self.wills.values_mut().filter(|will| will.client == client) {
            if will.connection == place.connection {
                will.is_accepted = true;
                will.entry = entry;
                will.birth = birth;
            } else if !resumes {
                will.end_session();
            } else if is_here(will) && !will.has_no_session && will.birth == birth {
                will.resumed = start;
            }
        }
    }

    /// The connection ends without DISCONNECT 0.
    pub(super) fn lose_will(&mut self, connection: Dot) {
        let now = self.now;
        let Some(will) = self.will_of(connection).filter(|will| will.end.is_none()) else {
            return;
        };
        let is_settled = now - will.unsettled_at > SETTLING;
        will.end = Some(WillEnd::Lost { at: now, is_settled });
    }

    pub(super) fn lose_wills_of(&mut self, node: NodeId) {
        let connections: Vec<Dot> = self
            .node(node)
            .connections
            .iter()
            .map(|connection| connection.dot)
            .collect();
        for connection in connections {
            self.lose_will(connection);
        }
    }

    /// The client ends its session.
    pub(super) fn end_session_of_wills(&mut self, client: ClientId) {
        for will in self.wills.values_mut().filter(|will| will.client == client) {
            will.end_session();
        }
    }

    /// DISCONNECT 0.
    pub(super) fn drop_will(&mut self, connection: Dot) {
        if let Some(will) = self.will_of(connection).filter(|will| will.end.is_none()) {
            will.end = Some(WillEnd::Disconnected);
        }
    }

    /// Notes connections whose side is not at rest.
    pub(super) fn watch_wills(&mut self) {
        let open = self.wills.iter().filter(|(_, will)| will.end.is_none());
        let restless = open.filter(|(_, will)| !self.is_settled(will));
        let contents: Vec<u32> = restless.map(|(content, _)| *content).collect();
        for content in contents {
            if let Some(will) = self.wills.get_mut(&content) {
                will.unsettled_at = self.now;
            }
        }
    }

    /// The connection is live, all that run are on its side, and all owners have merged.
    fn is_settled(&self, will: &Will) -> bool {
        let home = self.node(self.directory.node(will.connection.run));
        let is_live = home
            .connection(will.connection)
            .is_some_and(|connection| connection.phase == Phase::Live);
        let slot = self.directory.slot(will.client);
        let view = home.membership.view;
        let is_merged = |owner: NodeId| self.node(owner).copy(slot).is_some_and(|copy| copy.is_merged());
        let is_whole = view.present == self.alive() && view.present.len() > 1;
        is_live && is_whole && self.is_connected(view.present) && view.owners(slot).iter().all(is_merged)
    }

    /// A node begins to route a will.
    pub(super) fn will_routed(&mut self, node: NodeId, content: u32, number: Dot) {
        self.say(|| format!("node {} publishes will {content} as {number:?}", node.0));
        let Some(will) = self.wills.get(&content) else {
            return;
        };
        let is_known = will
            .publications
            .iter()
            .any(|publication| publication.number == number);
        if let Some(named) = will.named.get(&number) {
            self.keep_candidates(named.message, node);
        }
        let Some(will) = self.wills.get(&content).filter(|_| !is_known) else {
            return;
        };
        if let Some(text) = self.find_repetition(node, will, content, number) {
            self.fail(text);
            return;
        }
        let at = self.now;
        if let Some(will) = self.wills.get_mut(&content) {
            let named = will.named.get(&number).copied();
            will.publications.push(Publication {
                number,
                named,
                at,
                is_complete: false,
            });
        }
    }

    /// A will that `node` publishes under a new number was published on its side before.
    fn find_repetition(&self, node: NodeId, will: &Will, content: u32, number: Dot) -> Option<String> {
        let side = self.node(node).membership.view.present;
        let here = if self.is_connected(side) {
            side
        } else {
            NodeSet::EMPTY
        };
        let of = will.named.get(&number)?.of;
        let slot = self.directory.slot(will.client);
        let knows = |node: NodeId, slot: Slot, dot: Dot| {
            let copy = self.node(node).copy(slot);
            copy.is_some_and(|copy| copy.content.known().has(dot))
        };
        let is_twice = |before: &&Publication| {
            let same = before.named.filter(|named| named.of == of);
            let has_seen = |node: NodeId, named: Named| {
                knows(node, slot, named.entry) && knows(node, Slot::ROUTES, before.number)
            };
            same.is_some_and(|named| here.iter().any(|node| has_seen(node, named)))
        };
        let mut before = will.publications.iter().filter(|_| self.lost.is_empty());
        let before = before.find(is_twice)?;
        Some(format!(
            "W1 twice: node {} publishes will {content} again after {:?}",
            node.0, before.number
        ))
    }

    /// All nodes of a side have the will.
    pub(super) fn will_published(&mut self, content: u32, number: Dot) {
        let publications = self.wills.get_mut(&content).map(|will| &mut will.publications);
        let mut publications = publications.into_iter().flatten();
        let Some(publication) = publications.find(|publication| publication.number == number) else {
            return;
        };
        if !publication.is_complete {
            publication.is_complete = true;
            self.counters.wills += 1;
        }
        let Some(message) = publication.named.map(|named| named.message) else {
            return;
        };
        for subscriber in &mut self.clients {
            let counts = !subscriber.received_once.contains_key(&message);
            self.counters.expected += u64::from(subscriber.promised_once.acknowledge(message, counts));
        }
    }

    /// W1: each connection that ended without DISCONNECT 0 has had its will published.
    pub(super) fn check_wills(&mut self) {
        let is_missing = |(_, will): &(&u32, &Will)| {
            let Some(WillEnd::Lost { at, .. }) = will.end else {
                return false;
            };
            let is_due = will.is_accepted && at + PUBLISHING < self.now;
            is_due && !will.is_published() && !(will.is_delayed && will.has_returned)
        };
        let missing = self.wills.iter().find(is_missing).filter(|_| self.keeps_disks);
        if let Some((content, will)) = missing {
            self.fail(format!(
                "W1 lost: will {content} of client {}: {will:?}",
                will.client.0
            ));
        }
    }
}
