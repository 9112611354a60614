//! Clients that connect: to any node, to another one while the first still has them, and with a
//! Clean Start.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;
use std::ops::Range;

use session_plane::connecting::{Connect, ConnectionId, KnownSession};
use session_plane::plane::{NewBirth, NewChange, NewEntry};
use session_plane::sessions::{ConnectionRest, ConnectionValues, SessionRest};
use session_plane::{Birth, Dot, EntryKind, Fact, MadeEvent, Slot, SlotSet};

use super::clients::{CLIENTS, Waiting, client, slot};
use super::machine::Value;
use super::world::World;

/// Clients that connect. The others of a history change their sessions without a connection.
pub(super) const CONNECTING: Range<u8> = CLIENTS..CLIENTS + 3;
/// The client that asks for a Clean Start now and then: what it has subscribed may end unseen.
pub(super) const CLEAN: u8 = CLIENTS;

/// Connection of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Socket {
    pub(super) node: u64,
    pub(super) connection: ConnectionId,
}

/// Client that connects.
#[derive(Debug, Default)]
pub(super) struct ConnectingClient {
    /// Connection that the client uses; others may be left.
    current: Option<Current>,
    /// It has asked for a Clean Start, and has no CONNACK since. It asks again until it has one.
    is_clean: bool,
    acknowledged: Vec<Subscribed>,
    /// Births of the sessions that SUBSCRIBE is on its way for.
    subscribing: BTreeMap<Dot, Dot>,
    /// Nodes that are to know that the client has a session.
    has_session_at: BTreeSet<u64>,
    /// Last event of the node that has accepted it last, as of then.
    accepted_at: Option<Dot>,
    /// It was accepted where nobody knew of the connection before: which of its connections is the later one
    /// goes by wall clocks from then on.
    is_forked: bool,
}

#[derive(Debug, Clone, Copy)]
struct Current {
    socket: Socket,
    /// Birth of the session, from CONNACK on.
    birth: Option<Birth>,
}

/// Subscription with SUBACK.
#[derive(Debug)]
struct Subscribed {
    dot: Dot,
    /// Birth of the session.
    birth: Option<Dot>,
    /// Nodes that are to know it.
    known_at: BTreeSet<u64>,
}

/// CONNACK of a node.
#[derive(Debug)]
pub(super) struct Accepted {
    pub(super) is_present: bool,
    pub(super) birth: Birth,
    pub(super) session: Box<KnownSession<Value>>,
}

impl World {
    pub(super) fn act_as_connecting(&mut self) {
        let number = CONNECTING.start + u8::try_from(self.random.below(3)).expect("few");
        let id = 1 + self.random.below(self.nodes);
        let current = self.connecting[&number].current;
        let open = current.filter(|current| self.sockets.contains_key(&current.socket));
        match (self.random.below(40), open) {
            (0, _) | (1..=3, None) => self.connect_client(id, number),
            (4..=6, Some(_)) => self.subscribe_connected(number),
            (7, Some(open)) => self.leave(open.socket),
            _ => {}
        }
    }

    /// Connects each client at some node.
    pub(super) fn connect_all(&mut self) {
        for number in CONNECTING {
            let id = 1 + self.random.below(self.nodes);
            self.connect_client(id, number);
        }
    }

    /// Connects clients again that have lost their connection: a node closes one that exceeds a limit.
    pub(super) fn connect_lost(&mut self) {
        for number in CONNECTING {
            if self.connecting[&number].current.is_none() {
                let id = 1 + self.random.below(self.nodes);
                self.connect_client(id, number);
            }
        }
    }

    fn connecting(&mut self, number: u8) -> &mut ConnectingClient {
        self.connecting.entry(number).or_default()
    }

    pub(super) fn connect_client(&mut self, id: u64, number: u8) {
        if !self.machines[&id].is_up(self.now) {
            return;
        }
        let begins_clean = number == CLEAN && self.random.once_in(4);
        let known = self.connecting(number);
        known.is_clean |= begins_clean;
        let is_clean = known.is_clean;
        if is_clean {
            self.forget_exchanges(number);
            self.forget_received(number);
            self.forget_member(number);
        }
        let connect = Connect {
            client: client(number),
            is_clean,
        };
        let (will, expiry) = (self.new_will(), self.new_expiry(number));
        let receive_maximum = 1 + u16::try_from(self.random.below(4)).expect("few");
        let values = ConnectionValues {
            will: will.clone(),
            connection: Value::Plain(2),
            session: Value::Session(expiry.seconds()),
            receive_maximum: NonZeroU16::new(receive_maximum).expect("it is above 0"),
        };
        let now = self.now;
        let (mut begun, mut actions) = (None, Vec::new());
        let machine = self.machine(id);
        let at = machine.now(now);
        if let Some(sessions) = &mut machine.sessions {
            begun = sessions.connect(at, connect, values, &mut actions).ok();
        }
        if let Some(connection) = begun {
            let socket = Socket { node: id, connection };
            self.sockets.insert(socket, number);
            self.open_inbox(socket, receive_maximum);
            self.note_will(socket, will.as_ref());
            self.note_expiry(socket, number, expiry);
            let birth = None;
            self.connecting(number).current = Some(Current { socket, birth });
        }
        self.apply(id, actions);
    }

    /// The process of a node is gone: the next one gives the same numbers to other connections.
    pub(super) fn lose_connections(&mut self, id: u64) {
        self.sockets.retain(|socket, _| socket.node != id);
        self.drop_inboxes_of(id);
        self.drop_members_of(id);
        self.drop_wills_of(id);
        self.note_made_closed(|socket| socket.node == id);
        self.lose_expiring_of(id);
        for client in self.connecting.values_mut() {
            client.current.take_if(|current| current.socket.node == id);
        }
    }

    /// The client leaves, or the node has parted with it.
    pub(super) fn close(&mut self, socket: Socket, rest: ConnectionRest) {
        let current = self.connecting.values_mut().map(|client| &mut client.current);
        for current in current.filter(|current| current.is_some_and(|current| current.socket == socket)) {
            *current = None;
        }
        self.drop_inbox(socket);
        self.drop_member(socket);
        self.note_made_closed(|closed| closed == socket);
        self.note_closed(socket, rest.session);
        self.with_sessions(socket.node, |sessions, at, actions| {
            sessions.close(at, socket.connection, rest, actions);
        });
    }

    /// A later connection has the session of a client, or the session has ended.
    pub(super) fn take_over(&mut self, socket: Socket) {
        let (will, session) = (self.left(socket), SessionRest::TakenOver);
        self.close(socket, ConnectionRest { will, session });
    }

    pub(super) fn accepted(&mut self, socket: Socket, accepted: &Accepted) {
        let Some(number) = self.sockets.get(&socket).copied() else {
            self.fail(format!("{socket:?} is accepted and is no connection"));
            return;
        };
        let entries = accepted.session.entries();
        let subscriptions = entries
            .iter()
            .filter(|(id, _)| id.kind == EntryKind::Subscription);
        let told: BTreeSet<Dot> = subscriptions.map(|(id, _)| id.dot).collect();
        let present = self.present_to(socket.node);
        let (may_expire, births) = (self.may_expire(number), self.promised_births(socket, number));
        let connecting = self.connecting(number);
        let is_promised = connecting.has_session_at.contains(&socket.node);
        connecting.has_session_at.extend(present);
        if let Some(current) = connecting
            .current
            .as_mut()
            .filter(|current| current.socket == socket)
        {
            current.birth = Some(accepted.birth);
            connecting.is_clean = false;
        }
        let promised = connecting.acknowledged.iter();
        let promised = promised.filter(|subscribed| {
            let is_of_promised = subscribed.birth.is_some_and(|birth| births.contains(&birth));
            (!may_expire || is_of_promised) && subscribed.known_at.contains(&socket.node)
        });
        let missing: Vec<Dot> = promised
            .map(|subscribed| subscribed.dot)
            .filter(|dot| !told.contains(dot))
            .collect();
        let is_promised = if may_expire {
            !births.is_empty()
        } else {
            is_promised
        };
        let is_lost = is_promised && !accepted.is_present;
        self.note_fork(socket.node, number);
        self.note_made(socket, number, &accepted.session);
        self.note_accepted(socket);
        if !accepted.is_present {
            self.forget_member(number);
        }
        if self.live_socket(number) == Some(socket) {
            if !accepted.is_present {
                self.forget_received(number);
            }
            self.go_on_with_exchanges(socket, number, accepted.is_present);
        }
        if number != CLEAN && (is_lost || !missing.is_empty()) {
            self.fail(format!(
                "{number} has {} session at {} at {}, and misses {missing:?}: {:?} {}",
                if is_lost { "no" } else { "a" },
                socket.node,
                self.now,
                self.expiring_clients,
                self.entries_everywhere(number),
            ));
        }
        self.note_session(socket, accepted.birth, accepted.is_present);
    }

    /// Notes whether the node knows of the connection that the client had before.
    fn note_fork(&mut self, node: u64, number: u8) {
        let Some(plane) = self.machines[&node].plane() else {
            return;
        };
        let before = self.connecting[&number].accepted_at;
        let is_known = before.is_none_or(|before| plane.known().covers(before));
        let last = plane.last();
        let connecting = self.connecting(number);
        connecting.is_forked |= !is_known;
        connecting.accepted_at = Some(last);
    }

    /// Which of the client's connections was the later one is decided by wall clocks that differ.
    pub(super) fn goes_by_clocks(&self, number: u8) -> bool {
        self.has_skew() && self.connecting[&number].is_forked
    }

    /// Connection of a client that has its CONNACK.
    pub(super) fn live_socket(&self, number: u8) -> Option<Socket> {
        let current = self.connecting[&number].current?;
        current.birth.map(|_| current.socket)
    }

    /// Birth of the session of a client that has its CONNACK.
    pub(super) fn birth_of(&self, number: u8) -> Option<Birth> {
        self.connecting[&number].current?.birth
    }

    /// Client that uses a connection.
    pub(super) fn client_of(&self, socket: Socket) -> Option<u8> {
        let number = self.sockets.get(&socket).copied()?;
        (self.live_socket(number) == Some(socket)).then_some(number)
    }

    fn subscribe_connected(&mut self, number: u8) {
        let Some(Current {
            socket,
            birth: Some(birth),
        }) = self.connecting[&number].current
        else {
            return;
        };
        if !self.machines[&socket.node].is_up(self.now) {
            return;
        }
        let slots: SlotSet = [slot(number), Slot::ROUTES].into_iter().collect();
        let change = NewChange {
            client: client(number),
            removes: Vec::new(),
            adds: Some(NewEntry {
                birth: NewBirth::Of(birth),
                fact: Fact::Subscription,
                value: Value::Plain(9),
            }),
        };
        let known_at = self.present_to(socket.node);
        let mut made = None;
        self.with_sessions(socket.node, |sessions, at, actions| {
            made = sessions
                .change(at, socket.connection, slots, change, actions)
                .ok();
        });
        if let Some(MadeEvent { dot, .. }) = made {
            let client = number;
            self.connecting(number).subscribing.insert(dot, birth.dot);
            self.wait_for(dot, Waiting::Subscribe { client, known_at });
        }
    }

    /// A subscription of a client that connects is acknowledged.
    pub(super) fn acknowledge_connected(&mut self, number: u8, dot: Dot, known_at: BTreeSet<u64>) {
        let client = self.connecting(number);
        let birth = client.subscribing.remove(&dot);
        let subscribed = Subscribed { dot, birth, known_at };
        client.acknowledged.push(subscribed);
    }

    /// Clients to whom what is published at a node is promised.
    pub(super) fn subscribed_at(&self, node: u64) -> BTreeSet<u8> {
        let sessions = self.sessions.iter();
        let sessions = sessions.filter(|(_, session)| session.is_to_have(node));
        let connecting = self.connecting.iter().filter(|(number, client)| {
            let mut subscribed = client.acknowledged.iter();
            !self.may_expire(**number) && subscribed.any(|subscribed| subscribed.known_at.contains(&node))
        });
        let connecting = connecting.map(|(number, _)| *number);
        sessions.map(|(number, _)| *number).chain(connecting).collect()
    }

    /// No claim and no end hangs, and no client has two connections.
    pub(super) fn are_connections_at_rest(&self) -> Result<(), String> {
        let mut connected = BTreeSet::new();
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            let connections = sessions.connections();
            let (claims, questions) = (connections.claims(), sessions.questions());
            if claims > 0 || questions > 0 || sessions.stalled() > 0 {
                return Err(format!("{id} has {claims} claims and {questions} questions"));
            }
            if sessions.storing_deliveries() > 0 {
                return Err(format!(
                    "{id} stores {} packet ids",
                    sessions.storing_deliveries()
                ));
            }
            if sessions.waiting_feeds() > 0 {
                return Err(format!("{id} has {} feeds that wait", sessions.waiting_feeds()));
            }
            self.are_wills_at_rest()?;
            self.is_expiring_at_rest()?;
            self.are_overtaken_closed()?;
            let (waiting, queued) = (sessions.publishing().waiting(), sessions.queued_routes());
            if waiting > 0 || queued > 0 {
                return Err(format!("{id} publishes {waiting} messages, {queued} are queued"));
            }
            let of_node = self.sockets.iter().filter(|(socket, _)| socket.node == *id);
            let of_node: Vec<(&Socket, &u8)> = of_node.collect();
            if of_node.len() != connections.len() {
                return Err(format!("{id} has {} connections", connections.len()));
            }
            for (socket, number) in of_node {
                if !connections.is_live(socket.connection) {
                    return Err(format!("{socket:?} closes"));
                }
                if !connected.insert(*number) {
                    return Err(format!("{number} has two connections"));
                }
            }
        }
        Ok(())
    }

    /// Each client has the connection that it has asked for last.
    pub(super) fn check_connected(&self) -> Result<(), String> {
        for number in CONNECTING {
            let current = self.connecting[&number].current;
            if current.is_none_or(|current| current.birth.is_none()) {
                return Err(format!("{number} is not connected at rest"));
            }
        }
        Ok(())
    }
}
