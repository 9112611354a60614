//! Clients of a history: sessions that they begin, subscribe and end, messages, and what they wait
//! for.

use std::collections::BTreeSet;

use session_plane::connecting::ConnectionId;
use session_plane::plane::{NewBirth, NewChange, NewEntry};
use session_plane::{Birth, ClientId, Dot, Ending, EntryKind, Fact, MadeEvent, Recipients, Slot, SlotSet};

use super::connections::CONNECTING;
use super::machine::{Body, Value};
use super::publishers::TakenBody;
use super::world::World;

pub(super) const CLIENTS: u8 = 5;

/// No connection: the change is of none.
pub(super) const NOBODY: ConnectionId = ConnectionId(0);

/// Birth of a session that its client begins.
const BEGUN: NewBirth = NewBirth::Here {
    is_clean: false,
    clock: None,
};

/// Session of a client.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// Event that began it, once that is acknowledged.
    birth: Option<Birth>,
    /// Its subscription, and the nodes that had it when it was acknowledged.
    pub(super) subscription: Option<Subscription>,
    /// End of the session before.
    pub(super) ended: Option<Dot>,
}

impl Session {
    /// What is published at a node is for the session.
    pub(super) fn is_to_have(&self, node: u64) -> bool {
        let subscription = self.subscription.as_ref();
        subscription.is_some_and(|subscription| subscription.known_at.contains(&node))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Subscription {
    pub(super) dot: Dot,
    /// Nodes that are to know it.
    known_at: BTreeSet<u64>,
}

/// Event that waits to be durable.
#[derive(Debug)]
pub(super) enum Waiting {
    Begin {
        client: u8,
        birth: Birth,
    },
    Subscribe {
        client: u8,
        known_at: BTreeSet<u64>,
    },
    /// Message for the shared group.
    PublishShared,
    /// Message for these clients.
    Publish {
        clients: BTreeSet<u8>,
    },
    /// Acknowledgement of a message that a client has received.
    Acknowledge {
        client: u8,
        dot: Dot,
        side: BTreeSet<u64>,
    },
    /// Removal of entries of a client.
    Remove {
        client: u8,
        dots: Vec<Dot>,
    },
}

impl Waiting {
    /// The event begins or subscribes a session of the client.
    fn is_of_session(&self, number: u8) -> bool {
        match self {
            Waiting::Begin { client, .. } | Waiting::Subscribe { client, .. } => *client == number,
            Waiting::PublishShared
            | Waiting::Publish { .. }
            | Waiting::Acknowledge { .. }
            | Waiting::Remove { .. } => false,
        }
    }

    /// Clients that a message is for.
    fn clients(&mut self) -> Option<&mut BTreeSet<u8>> {
        match self {
            Waiting::Publish { clients } => Some(clients),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RemovedEntry {
    pub(super) client: u8,
    pub(super) dot: Dot,
}

pub(super) fn client(number: u8) -> ClientId {
    ClientId::new(&[b'c', number]).expect("a short id")
}

pub(super) fn slot(number: u8) -> Slot {
    Slot::of_client(client(number).as_bytes())
}

impl World {
    /// What waits need not be known at a peer that was given up.
    pub(super) fn forget_receiver(&mut self, id: u64, peer: u64) {
        for (dot, waiting) in &mut self.waiting {
            if let Waiting::Subscribe { known_at: had, .. } | Waiting::Acknowledge { side: had, .. } = waiting
                && dot.run.node.0 == id
            {
                had.remove(&peer);
            }
        }
    }

    pub(super) fn acknowledge(&mut self, dot: Dot) {
        match self.waiting.remove(&dot) {
            Some(Waiting::Begin { client, birth }) => self.session(client).birth = Some(birth),
            Some(Waiting::Subscribe { client, known_at }) if client >= CLIENTS => {
                self.acknowledge_connected(client, dot, known_at);
            }
            Some(Waiting::Subscribe { client, known_at }) => {
                self.session(client).subscription = Some(Subscription { dot, known_at });
            }
            Some(Waiting::PublishShared) => self.published_shared(dot),
            Some(Waiting::Publish { clients }) => {
                self.expected.insert(dot, clients);
            }
            Some(Waiting::Acknowledge { client, dot, side }) => {
                self.gone.insert(RemovedEntry { client, dot });
                self.finish_message(client, dot, side);
            }
            Some(Waiting::Remove { client, dots }) => {
                let removed = dots.into_iter().map(|dot| RemovedEntry { client, dot });
                self.gone.extend(removed);
            }
            None => {}
        }
    }

    fn session(&mut self, client: u8) -> &mut Session {
        self.sessions.entry(client).or_default()
    }

    pub(super) fn act_as_clients(&mut self) {
        let id = 1 + self.random.below(self.nodes);
        let number = u8::try_from(self.random.below(u64::from(CLIENTS))).expect("few");
        if !self.machines[&id].is_up(self.now) {
            return;
        }
        match self.random.below(10) {
            0 => self.subscribe(id, number),
            1..=3 => self.publish(id),
            4 | 5 => self.remove_message(id, number),
            6 if self.random.once_in(4) => self.end_session(id, number),
            _ => {}
        }
    }

    /// Begins a session, or subscribes it.
    fn subscribe(&mut self, id: u64, number: u8) {
        let session = &self.sessions[&number];
        let is_begun = self.waiting.values().any(|waiting| waiting.is_of_session(number));
        if is_begun || session.subscription.is_some() || !self.is_later_at(id, session) {
            return;
        }
        let (birth, fact) = match session.birth {
            Some(birth) => (NewBirth::Of(birth), Fact::Subscription),
            None => (BEGUN, Fact::Session { connected: None }),
        };
        let known_at = self.present_to(id);
        let adds = NewEntry {
            birth,
            fact,
            value: Value::Plain(u32::from(number)),
        };
        let Some(made) = self.change(id, number, Vec::new(), Some(adds)) else {
            return;
        };
        let waiting = match birth {
            NewBirth::Of(_) => Waiting::Subscribe {
                client: number,
                known_at,
            },
            NewBirth::Here { is_clean, .. } => {
                let MadeEvent { dot, clock } = made;
                let birth = Birth { dot, clock, is_clean };
                Waiting::Begin {
                    client: number,
                    birth,
                }
            }
        };
        self.wait_for(made.dot, waiting);
    }

    /// A session that a node begins is later than the one that has ended: the node knows that, or all wall clocks
    /// agree.
    fn is_later_at(&self, id: u64, session: &Session) -> bool {
        let plane = self.machines[&id].plane();
        let knows = |ended: Dot| plane.is_some_and(|plane| plane.known().covers(ended));
        !self.has_skew() || session.ended.is_none_or(knows)
    }

    fn publish(&mut self, id: u64) {
        let slots: SlotSet = (0..CLIENTS).chain(CONNECTING).map(slot).collect();
        let clients = self.subscribed_at(id);
        let body = Body(20 + u32::try_from(self.random.below(6)).expect("few"));
        let mut recipients = Recipients::from(slots);
        let nodes = self.recipients_of(id, &mut recipients, body);
        let mut dot = None;
        self.with_sessions(id, |sessions, at, actions| {
            dot = sessions.publish(at, recipients, body, actions).ok();
        });
        if let Some(dot) = dot {
            self.promise_to_nodes(dot, nodes);
            self.wait_for(dot, Waiting::Publish { clients });
        }
    }

    /// Removes a message of a session from its queue, as the acknowledgement of a subscriber does.
    fn remove_message(&mut self, id: u64, number: u8) {
        let Some(copy) = self.machines[&id]
            .plane()
            .and_then(|plane| plane.copy(slot(number)))
        else {
            return;
        };
        let client = client(number);
        let mut messages = copy
            .entries
            .live(copy.covered, client.as_bytes(), EntryKind::Message);
        let Some((message, value)) = messages.next().map(|(dot, entry)| (dot, entry.value)) else {
            return;
        };
        drop(messages);
        if let Some(MadeEvent { dot, .. }) = self.change(id, number, vec![message], None) {
            let (client, dots) = (number, vec![message]);
            if let Value::Message(Body(body)) = value {
                let taken = self.publishers.taken.entry(TakenBody { client, body });
                taken.or_default().insert(message);
            }
            self.removed.insert(RemovedEntry { client, dot: message });
            self.wait_for(dot, Waiting::Remove { client, dots });
        }
    }

    /// Ends all sessions of a client that a node sees. Nothing of them is promised any more.
    fn end_session(&mut self, id: u64, number: u8) {
        let Some(plane) = self.machines[&id].plane() else {
            return;
        };
        let client = client(number);
        let copy = plane.copy(slot(number)).filter(|_| plane.is_merged(slot(number)));
        let Some(session) = copy.and_then(|copy| copy.entries.session(client.as_bytes())) else {
            return;
        };
        let Some(Ending { birth, fact }) = session.ending(plane.known()) else {
            return;
        };
        let dots: Vec<Dot> = session.iter().map(|(id, _)| id.dot).collect();
        let adds = NewEntry {
            birth: NewBirth::Of(birth),
            fact,
            value: Value::Plain(u32::from(number)),
        };
        if let Some(MadeEvent { dot, .. }) = self.change(id, number, dots.clone(), Some(adds)) {
            let ended = Some(dot);
            self.sessions.insert(
                number,
                Session {
                    ended,
                    ..Session::default()
                },
            );
            self.forget_promises_to(number);
            self.waiting.retain(|_, waiting| !waiting.is_of_session(number));
            let promised = self.expected.values_mut();
            for clients in promised.chain(self.waiting.values_mut().filter_map(Waiting::clients)) {
                clients.remove(&number);
            }
            let client = number;
            self.wait_for(dot, Waiting::Remove { client, dots });
        }
    }

    pub(super) fn change(
        &mut self,
        id: u64,
        number: u8,
        removes: Vec<Dot>,
        adds: Option<NewEntry<Value>>,
    ) -> Option<MadeEvent> {
        let routes = adds.as_ref().map(|_| Slot::ROUTES);
        let slots: SlotSet = routes.into_iter().chain([slot(number)]).collect();
        let change = NewChange {
            client: client(number),
            removes,
            adds,
        };
        let mut made = None;
        self.with_sessions(id, |sessions, at, actions| {
            made = sessions.change(at, NOBODY, slots, change, actions).ok();
        });
        made
    }

    /// Waits for an event, which cannot be durable before the disk of its node has it.
    pub(super) fn wait_for(&mut self, dot: Dot, waiting: Waiting) {
        self.waiting.insert(dot, waiting);
    }

    pub(super) fn present_to(&self, id: u64) -> BTreeSet<u64> {
        let plane = self.machines[&id].plane();
        let peers = plane.into_iter().flat_map(|plane| plane.membership().peers());
        peers.map(|peer| peer.0).chain([id]).collect()
    }
}
