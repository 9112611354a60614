//! Clients whose sessions expire: when each may have ended, and what is left of it.
//!
//! A session is promised at the nodes that were to know its last connection: while that is open, and as long
//! as its interval has not passed since. A connection that closed later, or was made later, wherever, says until when
//! instead.
//! An operator's end ends all promises.

use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;
use session_plane::expiring::LifetimeValue;
use session_plane::sessions::{ConnectionRest, SessionRest};
use session_plane::wills::WillEnd;
use session_plane::{Birth, Dot, Entry, EntryId, EntryKind, Run, SessionExpiry, Slot};

use super::clients::{client, slot};
use super::connections::{CLEAN, CONNECTING, Socket};
use super::machine::Value;
use super::world::{SKEW_MAX, World};

/// Client whose session expires, in half of the histories. It subscribes, and never asks for a Clean Start.
const EXPIRING: u8 = CONNECTING.end - 1;
/// Seconds of an interval at most.
const EXPIRY_MAX: u32 = 3;
/// Milliseconds in which a session that is due ends.
const DUE: u64 = 2_000;

/// Sessions that expire.
#[derive(Debug, Default)]
pub(super) struct ExpiringClients {
    /// Client EXPIRING has sessions that expire.
    is_expiring: bool,
    stays: BTreeMap<Socket, ConnectionStay>,
    /// Those that have ended.
    ended: Vec<ConnectionStay>,
    /// Clients that were told that their session has ended.
    told: BTreeSet<u8>,
    /// Births of sessions that an operator has ended. A CONNECT that waits for its session may get one of them.
    ended_births: BTreeSet<Dot>,
}

/// Connection, and what it has said of its session.
#[derive(Debug, Clone)]
struct ConnectionStay {
    socket: Socket,
    number: u8,
    /// Interval that CONNECT has said. What DISCONNECT says holds once the end of the connection is durable.
    connect: SessionExpiry,
    expiry: SessionExpiry,
    /// Nodes that are to know the session, and its birth: from CONNACK on.
    accepted: Option<Accepted>,
    closed: Option<Closed>,
    /// Place among the connections of the client: from CONNACK on.
    order: Option<(Hlc, Run)>,
}

#[derive(Debug, Clone)]
struct Accepted {
    at: u64,
    birth: Dot,
    known_at: BTreeSet<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Closed {
    at: u64,
    /// The session is there until then, if nothing else is said. None: it does not expire.
    until: Option<u64>,
    /// The node of the connection has ended the session: it had written the entry of the session for that
    /// connection, also where the client left before CONNACK.
    is_end: bool,
    /// It says until when, and no later connection has taken the session over.
    holds: bool,
}

impl ExpiringClients {
    pub(super) fn new(is_expiring: bool) -> ExpiringClients {
        ExpiringClients {
            is_expiring,
            ..ExpiringClients::default()
        }
    }
}

impl ConnectionStay {
    /// Birth of the session of this connection, if it is promised at a node.
    fn promised(&self, node: u64, now: u64) -> Option<Dot> {
        let accepted = self.accepted.as_ref();
        let known = accepted.filter(|of| of.known_at.contains(&node) && !self.has_passed(now));
        known.map(|of| of.birth)
    }

    /// The client has connected with it later.
    fn is_later(&self, other: &ConnectionStay) -> bool {
        self.number == other.number && self.accepted_at() > other.accepted_at()
    }

    /// It has ended the session of another one, which was accepted before.
    fn ends(&self, other: &ConnectionStay) -> bool {
        let end = self.closed.filter(|closed| closed.is_end);
        end.is_some_and(|end| match self.accepted {
            Some(_) => self.is_later(other),
            None => other.accepted_at() < Some(end.at),
        })
    }

    fn accepted_at(&self) -> Option<u64> {
        self.accepted.as_ref().map(|accepted| accepted.at)
    }

    fn has_passed(&self, now: u64) -> bool {
        let until = self.closed.and_then(|closed| closed.until);
        until.is_some_and(|until| until <= now)
    }

    fn close(&mut self, at: u64, expiry: SessionExpiry) {
        let until = expiry.duration();
        let until = until.map(|expires| at + u64::try_from(expires.as_millis()).expect("short"));
        let is_end = false;
        let holds = false;
        self.closed = Some(Closed {
            at,
            until,
            is_end,
            holds,
        });
    }
}

impl World {
    /// The sessions of a client may end while nobody asks for a Clean Start.
    pub(super) fn may_expire(&self, number: u8) -> bool {
        number == CLEAN || number == EXPIRING && self.expiring_clients.is_expiring
    }

    /// Interval that a CONNECT says.
    pub(super) fn new_expiry(&mut self, number: u8) -> SessionExpiry {
        if self.may_expire(number) {
            self.any_expiry()
        } else {
            SessionExpiry::NEVER
        }
    }

    fn any_expiry(&mut self) -> SessionExpiry {
        let seconds = self.random.below(u64::from(EXPIRY_MAX) + 2);
        let seconds = u32::try_from(seconds).expect("few");
        SessionExpiry::of_seconds(if seconds > EXPIRY_MAX { u32::MAX } else { seconds })
    }

    pub(super) fn note_expiry(&mut self, socket: Socket, number: u8, expiry: SessionExpiry) {
        let stay = ConnectionStay {
            socket,
            number,
            connect: expiry,
            expiry,
            accepted: None,
            closed: None,
            order: None,
        };
        self.expiring_clients.stays.insert(socket, stay);
    }

    pub(super) fn note_order(&mut self, socket: Socket, order: (Hlc, Run)) {
        if let Some(stay) = self.expiring_clients.stays.get_mut(&socket) {
            stay.order = Some(order);
        }
    }

    /// Interval that a connection has said last.
    pub(super) fn expiry_of(&self, socket: Socket) -> SessionExpiry {
        let stay = self.expiring_clients.stays.get(&socket);
        stay.map_or(SessionExpiry::NEVER, |stay| stay.expiry)
    }

    /// DISCONNECT says another interval, now and then. It says none after a CONNECT with 0.
    pub(super) fn disconnect_with_expiry(&mut self, socket: Socket) {
        let is_said = self.random.once_in(3);
        let said = self.any_expiry();
        if let Some(stay) = self.expiring_clients.stays.get_mut(&socket)
            && is_said
            && stay.expiry != SessionExpiry::WITH_CONNECTION
            && (stay.number == CLEAN || stay.number == EXPIRING && self.expiring_clients.is_expiring)
        {
            stay.expiry = said;
        }
    }

    /// What the end of a connection leaves, by what it has said last.
    pub(super) fn rest_of(&self, socket: Socket, will: WillEnd) -> ConnectionRest {
        let session = SessionRest::Expires(self.expiry_of(socket));
        ConnectionRest { will, session }
    }

    /// A connection is closed. One that was taken over promises nothing of its own any more.
    pub(super) fn note_closed(&mut self, socket: Socket, rest: SessionRest) {
        let now = self.now;
        if let Some(mut stay) = self.expiring_clients.stays.remove(&socket) {
            let mut known = self.sessions_at(socket.node, stay.number).into_iter();
            let is_own = known.any(|of| of.dot.run.node.0 == socket.node);
            let has_session = stay.accepted.is_some() || is_own;
            match rest {
                SessionRest::TakenOver => stay.close(now, SessionExpiry::WITH_CONNECTION),
                SessionRest::Expires(expiry) => stay.close(now, expiry.min(stay.connect)),
            }
            let ends = SessionRest::Expires(SessionExpiry::WITH_CONNECTION);
            if let Some(closed) = &mut stay.closed {
                closed.is_end = rest == ends && has_session;
                closed.holds = rest != SessionRest::TakenOver;
            }
            self.expiring_clients.ended.push(stay);
        }
    }

    /// An entry of a session, and its end, may have waited when the client left: its node knows no session then.
    fn note_late_end(&mut self, socket: Socket) {
        let ended = &self.expiring_clients.ended;
        let Some(at) = ended.iter().rposition(|stay| stay.socket == socket) else {
            return;
        };
        let has_session = !self.sessions_at(socket.node, ended[at].number).is_empty();
        let stay = &mut self.expiring_clients.ended[at];
        if let Some(closed) = stay.closed.as_mut().filter(|_| stay.accepted.is_none()) {
            closed.is_end |= closed.holds && closed.until == Some(closed.at) && !has_session;
        }
    }

    /// Entries of a client's sessions that a node's routes have.
    fn sessions_at(&self, node: u64, number: u8) -> Vec<EntryId> {
        let known = self.lifetime_at(node, Slot::ROUTES, number).into_iter();
        let sessions = known.map(|(of, _)| of).filter(|of| of.kind == EntryKind::Session);
        sessions.collect()
    }

    /// All that a connection has left is durable: what it has said last holds.
    pub(super) fn closed_durably(&mut self, socket: Socket) {
        self.note_late_end(socket);
        let ended = self.expiring_clients.ended.iter_mut().rev();
        for stay in ended.filter(|stay| stay.socket == socket).take(1) {
            let expiry = stay.expiry;
            if let Some(Closed { at, is_end, .. }) = stay.closed.filter(|closed| closed.holds) {
                stay.close(at, expiry);
                stay.closed = stay.closed.map(|closed| Closed { is_end, ..closed });
            }
        }
    }

    /// The process of a node is gone, and nothing is written for the connections that it had.
    pub(super) fn lose_expiring_of(&mut self, id: u64) {
        let now = self.now;
        let expiring = &mut self.expiring_clients;
        // What was to become durable does not.
        for ended in expiring.ended.iter_mut().filter(|stay| stay.socket.node == id) {
            ended.expiry = ended.connect;
        }
        let lost = expiring.stays.extract_if(.., |socket, _| socket.node == id);
        let lost: Vec<ConnectionStay> = lost.map(|(_, stay)| stay).collect();
        let all = expiring.stays.values().chain(&expiring.ended).chain(&lost);
        let all: Vec<ConnectionStay> = all.cloned().collect();
        let ended = lost.into_iter().map(|mut stay| {
            // What a later CONNECT has said, on another side, holds for the session.
            let later = all.iter().filter(|other| other.is_later(&stay));
            let said = later.map(|other| other.expiry).chain([stay.connect]);
            stay.close(now, said.min().expect("one at least"));
            stay
        });
        let ended: Vec<ConnectionStay> = ended.collect();
        self.expiring_clients.ended.extend(ended);
    }

    /// Sessions of an expiring client, by their births, that a new connection is to find.
    pub(super) fn promised_births(&self, socket: Socket, number: u8) -> BTreeSet<Dot> {
        if number != EXPIRING || self.has_skew() {
            return BTreeSet::new();
        }
        let ExpiringClients { stays, ended, .. } = &self.expiring_clients;
        let others = stays.iter().filter(|(other, _)| **other != socket);
        let stays = others.map(|(_, stay)| stay).chain(ended);
        let stays: Vec<&ConnectionStay> = stays.filter(|stay| stay.number == number).collect();
        let is_overruled = |stay: &ConnectionStay| {
            let mut later = stays.iter().filter_map(|other| Some((other, other.closed?)));
            later.any(|(other, last)| match stay.closed {
                Some(closed) => {
                    let is_last = last.at >= closed.at || other.order > stay.order;
                    is_last && other.has_passed(self.now)
                }
                // Ended on another side, by the client itself.
                None => other.ends(stay),
            })
        };
        let promising = stays.iter().filter(|stay| !is_overruled(stay));
        promising
            .filter_map(|stay| stay.promised(socket.node, self.now))
            .collect()
    }

    /// A connection has its session. One without it is the begin of another one.
    pub(super) fn note_session(&mut self, socket: Socket, birth: Birth, is_present: bool) {
        let (at, known_at) = (self.now, self.present_to(socket.node));
        let Some(stay) = self.expiring_clients.stays.get_mut(&socket) else {
            return;
        };
        let (number, birth) = (stay.number, birth.dot);
        let is_ended = self.expiring_clients.ended_births.contains(&birth);
        stay.accepted = (!is_ended).then_some(Accepted { at, birth, known_at });
        if !is_present {
            self.expiring_clients.ended.retain(|stay| stay.number != number);
        }
    }

    /// A client is told that its session has ended. That does not happen to a session that does not expire.
    pub(super) fn told_of_end(&mut self, socket: Socket) {
        let Some(number) = self.sockets.get(&socket).copied() else {
            return;
        };
        self.expiring_clients.told.insert(number);
        if !self.may_expire(number) && !self.is_ended_by_operator {
            self.fail(format!(
                "{number} is told at {} that its session has ended",
                socket.node
            ));
        }
    }

    /// An operator ends a session, now and then.
    pub(super) fn act_as_operator(&mut self) {
        let id = 1 + self.random.below(self.nodes);
        let number = if self.random.once_in(2) { CLEAN } else { EXPIRING };
        if self.random.once_in(200) && self.may_expire(number) && self.machines[&id].is_up(self.now) {
            self.end_by_operator(id, number);
        }
    }

    /// Ends the session of a client. False where the node knows of none.
    fn end_by_operator(&mut self, id: u64, number: u8) -> bool {
        let client = client(number);
        let mut has_ended = false;
        let known = self.lifetime_at(id, Slot::ROUTES, number).into_iter();
        let sessions = known.filter(|(of, _)| of.kind == EntryKind::Session);
        let births: Vec<Dot> = sessions.map(|(_, session)| session.birth.dot).collect();
        self.with_sessions(id, |sessions, at, actions| {
            has_ended = sessions.end_session(at, &client, actions) == Ok(true);
        });
        if has_ended {
            let expiring = &mut self.expiring_clients;
            expiring.ended_births.extend(births);
            self.forget_made(number);
            let expiring = &mut self.expiring_clients;
            expiring.ended.retain(|stay| stay.number != number);
            for stay in expiring.stays.values_mut().filter(|stay| stay.number == number) {
                stay.accepted = None;
            }
        }
        has_ended
    }

    /// No connection of an ended run is left, and no expiry beside an open connection.
    pub(super) fn is_expiring_at_rest(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            if sessions.expiring().acting() > 0 {
                return Err(format!("{id} ends {} sessions", sessions.expiring().acting()));
            }
            for number in CONNECTING {
                let entries = self.lifetime_at(*id, slot(number), number);
                let of_kind = |kind: EntryKind| entries.iter().filter(move |(of, _)| of.kind == kind);
                if let Some((of, _)) = of_kind(EntryKind::Connection).find(|(of, _)| !self.is_running(of.dot))
                {
                    return Err(format!("{id} keeps the connection {of:?} of {number}"));
                }
                let is_open = of_kind(EntryKind::Connection).next().is_some();
                if let Some((of, _)) = of_kind(EntryKind::Expiry).find(|_| is_open) {
                    return Err(format!("{id} keeps {of:?} of {number} beside a connection"));
                }
            }
        }
        Ok(())
    }

    /// The event is one of a run that goes on.
    fn is_running(&self, dot: Dot) -> bool {
        let machine = self.machines.get(&dot.run.node.0);
        let plane = machine.and_then(|machine| machine.plane());
        plane.is_some_and(|plane| plane.run() == dot.run)
    }

    /// Expiries of a client in a copy.
    pub(super) fn expiries_at(&self, id: u64, number: u8) -> Vec<EntryId> {
        let entries = self.lifetime_at(id, slot(number), number).into_iter();
        let ids = entries.map(|(of, _)| of);
        ids.filter(|of| of.kind == EntryKind::Expiry).collect()
    }

    /// Entries of a client in a copy that say whether its session lasts.
    fn lifetime_at(&self, id: u64, slot: Slot, number: u8) -> Vec<(EntryId, &Entry<Value>)> {
        let kinds = [EntryKind::Session, EntryKind::Connection, EntryKind::Expiry];
        let plane = self.machines[&id].plane();
        let copy = plane.and_then(|plane| plane.copy(slot));
        let session = copy.and_then(|copy| copy.entries.session(client(number).as_bytes()));
        let entries = session.into_iter().flat_map(|session| session.iter());
        entries.filter(|(of, _)| kinds.contains(&of.kind)).collect()
    }

    /// Time in which each session that expires has ended.
    pub(super) fn time_of_expiry(&self) -> u64 {
        let skew = if self.has_skew() { SKEW_MAX } else { 0 };
        u64::from(EXPIRY_MAX) * 1_000 + skew + DUE
    }

    /// All connections have ended for long: the sessions that are left are those that do not expire. Of several
    /// of a client the one that lasts longest decides.
    pub(super) fn check_expired(&self) -> Result<(), String> {
        for id in 1..=self.nodes {
            for number in CONNECTING {
                let entries = self.lifetime_at(id, slot(number), number);
                let has_session = !self.lifetime_at(id, Slot::ROUTES, number).is_empty();
                if !self.may_expire(number) && !has_session {
                    return Err(format!(
                        "{id} lost the session of {number}, which does not expire"
                    ));
                }
                let sessions = entries.iter().filter(|(of, _)| of.kind == EntryKind::Session);
                let mut said = sessions.clone().map(|session| said_of(session, &entries));
                if sessions.count() > 0 && !said.any(|said| said == SessionExpiry::NEVER) {
                    let (now, waiting) = (self.now, self.waiting_expiries());
                    return Err(format!("{id} keeps {entries:?} of {number} at {now}: {waiting}"));
                }
            }
        }
        Ok(())
    }

    /// Entries of a client at all nodes.
    pub(super) fn entries_everywhere(&self, number: u8) -> String {
        let mut all = String::new();
        for id in 1..=self.nodes {
            for of in [slot(number), Slot::ROUTES] {
                let plane = self.machines[&id].plane();
                let copy = plane.and_then(|plane| plane.copy(of));
                let session = copy
                    .as_ref()
                    .and_then(|copy| copy.entries.session(client(number).as_bytes()));
                all += &format!("{id} has in {of:?} {session:?}; ");
            }
        }
        all
    }

    /// What each node has to end.
    fn waiting_expiries(&self) -> String {
        let sessions = self
            .machines
            .values()
            .filter_map(|machine| machine.sessions.as_ref());
        let expiring: Vec<_> = sessions.map(|sessions| sessions.expiring()).collect();
        format!("{expiring:?}")
    }

    /// An operator ends the session of each client at some node, and all nodes have ended it.
    pub(super) fn end_all(&mut self) -> Result<(), String> {
        self.expiring_clients.told.clear();
        self.is_ended_by_operator = true;
        for number in CONNECTING {
            let id = 1 + self.random.below(self.nodes);
            if !self.end_by_operator(id, number) {
                return Err(format!("{id} knows no session of {number}"));
            }
        }
        self.rest()?;
        for number in CONNECTING {
            let left = (1..=self.nodes).find(|id| {
                let slots = [slot(number), Slot::ROUTES].into_iter();
                slots
                    .into_iter()
                    .any(|of| !self.lifetime_at(*id, of, number).is_empty())
            });
            if let Some(id) = left {
                return Err(format!("{id} keeps the session of {number}, which was ended"));
            }
            if !self.expiring_clients.told.contains(&number) {
                return Err(format!("{number} was not told that its session has ended"));
            }
        }
        Ok(())
    }
}

/// Longest interval that was said of a session without a connection.
fn said_of(session: &(EntryId, &Entry<Value>), entries: &[(EntryId, &Entry<Value>)]) -> SessionExpiry {
    let (of, entry) = session;
    let said = entries.iter().filter(|(other, said)| {
        let is_later = (said.clock, other.dot) > (entry.clock, of.dot);
        other.kind == EntryKind::Expiry && said.birth == entry.birth && is_later
    });
    let longest = said.filter_map(|(_, said)| said.value.session_expiry()).max();
    longest
        .or(entry.value.session_expiry())
        .unwrap_or(SessionExpiry::NEVER)
}
