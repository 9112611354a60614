//! Clients that receive: packets of a connection come, and are answered some time later.
//!
//! A client keeps a packet id of a QoS 2 message from PUBLISH to PUBREL, over all connections of its
//! session. PUBLISH with such a packet id brings no other message. What is on its way over a connection
//! is lost with it.

use std::collections::{BTreeMap, BTreeSet};

use session_plane::delivering::{DeliveryAnswer, DeliveryQos, Published};
use session_plane::publishing::PacketId;
use session_plane::{Birth, Dot, EntryId, EntryKind};

use super::clients::{RemovedEntry, Waiting, client, slot};
use super::connections::{CONNECTING, Socket};
use super::group_clients::part_of;
use super::inboxes::{Answer, Finished, Inbox, Packet, Unanswered};
use super::machine::{Body, Value};
use super::moves::is_queued;
use super::publishers::{FIRST_ONCE, TakenBody};
use super::world::World;

/// Something of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct OfClient<T> {
    client: u8,
    of: T,
}

/// Message that a client has received.
#[derive(Debug, Clone)]
struct Receipt {
    message: Dot,
    /// Session in which it came.
    birth: Option<Birth>,
    /// Owners that know of it: those that have the last stage of its packet id.
    known: Finished,
}

/// What clients have received.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    inboxes: BTreeMap<Socket, Inbox>,
    /// Packet ids of QoS 2 messages, from PUBLISH to PUBREL.
    kept: BTreeMap<OfClient<PacketId>, Receipt>,
    /// Messages of queues that the client has received.
    received: BTreeMap<OfClient<Dot>, Receipt>,
    /// Number under which each QoS 2 message has come first.
    numbers: BTreeMap<OfClient<u32>, Dot>,
    /// Messages that were acknowledged to their end, durably.
    finished: BTreeMap<OfClient<Dot>, Finished>,
    /// Connections whose CONNACK all processes that run stood behind.
    accepted: BTreeMap<Socket, Finished>,
    answered: usize,
}

impl Subscribers {
    /// Answers that clients have sent.
    pub(super) fn answered(&self) -> usize {
        self.answered
    }
}

impl World {
    /// A client connects.
    pub(super) fn open_inbox(&mut self, socket: Socket, receive_maximum: u16) {
        let inbox = Inbox::new(receive_maximum);
        self.subscribers.inboxes.insert(socket, inbox);
    }

    /// The connection is gone.
    pub(super) fn drop_inbox(&mut self, socket: Socket) {
        self.subscribers.inboxes.remove(&socket);
        self.subscribers.accepted.remove(&socket);
    }

    /// Connections of a process are gone.
    pub(super) fn drop_inboxes_of(&mut self, id: u64) {
        self.subscribers.inboxes.retain(|socket, _| socket.node != id);
        self.subscribers.accepted.retain(|socket, _| socket.node != id);
    }

    /// A connection has its CONNACK.
    pub(super) fn note_accepted(&mut self, socket: Socket) {
        let (side, at) = (self.present_to(socket.node), self.now);
        if self.is_whole_side(&side) {
            self.subscribers.accepted.insert(socket, Finished { side, at });
        }
    }

    /// The client has forgotten what it has received: its session has ended, or it asks for another one.
    pub(super) fn forget_received(&mut self, number: u8) {
        self.subscribers.kept.retain(|kept, _| kept.client != number);
        self.subscribers.received.retain(|of, _| of.client != number);
    }

    /// An owner on the side of a connection knew of it before its CONNACK.
    fn is_known_at(&self, socket: Socket, known: &Finished) -> bool {
        let accepted = self.subscribers.accepted.get(&socket);
        accepted.is_some_and(|accepted| known.at <= accepted.at && !known.side.is_disjoint(&accepted.side))
    }

    /// An owner on the side of a connection knew what its client has received, in the same session.
    fn is_receipt_known_at(&self, socket: Socket, number: u8, receipt: &Receipt) -> bool {
        receipt.birth == self.birth_of(number) && self.is_known_at(socket, &receipt.known)
    }

    pub(super) fn act_as_subscribers(&mut self) {
        let number = CONNECTING.start + u8::try_from(self.random.below(3)).expect("few");
        if let Some(socket) = self.live_socket(number)
            && self.machines[&socket.node].is_up(self.now)
        {
            match self.random.below(4) {
                0 => {
                    let most = self.random.below(4);
                    self.take_packets(socket, number, most);
                }
                1 => {
                    let most = self.random.below(4);
                    self.send_answers(socket, number, most);
                }
                2 if self.random.once_in(4) => self.request(socket),
                _ => {}
            }
        }
    }

    /// Takes and answers all that has come to clients.
    pub(super) fn acknowledge_all(&mut self) {
        for number in CONNECTING {
            if let Some(socket) = self.live_socket(number) {
                self.take_packets(socket, number, u64::MAX);
                self.send_answers(socket, number, u64::MAX);
            }
        }
    }

    /// A node sends PUBLISH, unless the connection was closed meanwhile.
    pub(super) fn publish_sent(&mut self, socket: Socket, published: Published<Value>) {
        let Published {
            packet_id, message, ..
        } = published;
        if !matches!(published.value, Value::Message(_)) {
            return self.fail(format!("{socket:?} is sent {published:?}"));
        }
        let Some(known) = self.known_to_owners(socket) else {
            return;
        };
        self.moved_sent(socket, &published);
        let Some(inbox) = self.subscribers.inboxes.get_mut(&socket) else {
            return;
        };
        let is_beyond = inbox.is_full() || inbox.unstored.contains(&packet_id);
        let is_again = is_queued(published.value) && !inbox.sent.insert(message);
        let unanswered = Unanswered {
            message,
            value: published.value,
        };
        let before = inbox.unanswered.insert(packet_id, unanswered);
        let packet = Packet::Publish(published, known);
        inbox.packets.push_back(packet);
        if is_beyond || is_again || before.is_some() {
            self.fail(format!(
                "{socket:?} is sent {message:?}: beyond the Receive Maximum: {is_beyond}, again: {is_again}, \
                 under the packet id of {before:?}"
            ));
        }
    }

    /// What is durable now is at the owners of the client's slot.
    fn known_to_owners(&self, socket: Socket) -> Option<Finished> {
        let number = self.sockets.get(&socket).copied()?;
        let (side, at) = (self.owners_of(slot(number), socket.node), self.now);
        Some(Finished { side, at })
    }

    /// A node sends PUBREL.
    pub(super) fn pubrel_sent(&mut self, socket: Socket, packet_id: PacketId, is_found: bool) {
        if !is_found {
            self.fail(format!("{socket:?} is told that {packet_id:?} is unknown"));
        }
        let Some(known) = self.known_to_owners(socket) else {
            return;
        };
        let Some(inbox) = self.subscribers.inboxes.get_mut(&socket) else {
            return;
        };
        inbox.packets.push_back(Packet::Pubrel(packet_id, known));
    }

    /// A node has a message for a client that is not stored. The session outlives the connection.
    fn request(&mut self, socket: Socket) {
        self.with_sessions(socket.node, |sessions, at, actions| {
            sessions.request_packet_id(at, socket.connection, DeliveryQos::AtLeastOnce, actions);
        });
    }

    /// A node sends the message for which it was granted a packet id.
    pub(super) fn granted(&mut self, socket: Socket, packet_id: PacketId) {
        let Some(inbox) = self.subscribers.inboxes.get_mut(&socket) else {
            return;
        };
        let is_beyond = inbox.is_full() || inbox.unanswered.contains_key(&packet_id);
        let is_new = inbox.unstored.insert(packet_id);
        inbox.packets.push_back(Packet::Unstored(packet_id));
        if is_beyond || !is_new {
            self.fail(format!(
                "{socket:?} is granted {packet_id:?}, beyond what it may: {is_beyond}"
            ));
        }
    }

    /// The client takes the packets that have come first.
    fn take_packets(&mut self, socket: Socket, number: u8, most: u64) {
        for _ in 0..most {
            let inbox = self.subscribers.inboxes.get_mut(&socket);
            let Some(packet) = inbox.and_then(|inbox| inbox.packets.pop_front()) else {
                return;
            };
            let (packet_id, answer) = match packet {
                Packet::Publish(published, known) => {
                    let answer = match published.qos {
                        DeliveryQos::AtLeastOnce => DeliveryAnswer::Puback,
                        DeliveryQos::ExactlyOnce => DeliveryAnswer::Pubrec,
                    };
                    self.take_publish(socket, number, &published, known);
                    (published.packet_id, answer)
                }
                Packet::Unstored(packet_id) => (packet_id, DeliveryAnswer::Puback),
                Packet::Pubrel(packet_id, known) => {
                    self.take_pubrel(number, packet_id, known);
                    (packet_id, DeliveryAnswer::Pubcomp)
                }
            };
            if let Some(inbox) = self.subscribers.inboxes.get_mut(&socket) {
                inbox.answers.push_back(Answer { packet_id, answer });
            }
        }
    }

    /// PUBLISH brings a message, unless the client keeps its packet id.
    fn take_publish(&mut self, socket: Socket, number: u8, published: &Published<Value>, known: Finished) {
        let Published {
            packet_id, message, ..
        } = *published;
        self.check_number(number, message, published.value);
        let receipt = Receipt {
            message,
            birth: self.birth_of(number),
            known,
        };
        if published.qos == DeliveryQos::ExactlyOnce {
            let kept = OfClient {
                client: number,
                of: packet_id,
            };
            if let Some(before) = self.subscribers.kept.get(&kept).cloned() {
                self.check_kept(socket, number, published, &before);
                return;
            }
            self.subscribers.kept.insert(kept, receipt.clone());
        }
        if let Value::Message(Body(body)) = published.value {
            let client = number;
            let taken = self.publishers.taken.entry(TakenBody { client, body });
            taken.or_default().insert(message);
        }
        if is_queued(published.value) {
            self.check_again(socket, number, published);
            let of = OfClient {
                client: number,
                of: message,
            };
            self.subscribers.received.insert(of, receipt);
        }
    }

    /// PUBREL frees the packet id at the client.
    fn take_pubrel(&mut self, client: u8, packet_id: PacketId, known: Finished) {
        let kept = OfClient {
            client,
            of: packet_id,
        };
        let Some(Receipt { message, .. }) = self.subscribers.kept.remove(&kept) else {
            return;
        };
        let of = OfClient { client, of: message };
        if let Some(receipt) = self.subscribers.received.get_mut(&of) {
            receipt.known = known;
        }
    }

    /// PUBLISH under a packet id that the client keeps is the same message again.
    fn check_kept(&mut self, socket: Socket, number: u8, published: &Published<Value>, before: &Receipt) {
        if !self.is_receipt_known_at(socket, number, before) {
            return;
        }
        let is_other = before.message != published.message;
        if is_other || !published.is_dup {
            self.fail(format!(
                "{number} keeps the packet id of {:?} since {}, and gets {published:?}",
                before.message, before.known.at
            ));
        }
    }

    /// A message comes again only with DUP, and with QoS 1.
    fn check_again(&mut self, socket: Socket, number: u8, published: &Published<Value>) {
        let of = OfClient {
            client: number,
            of: published.message,
        };
        let finished = self.subscribers.finished.get(&of);
        if finished.is_some_and(|finished| self.is_known_at(socket, finished)) {
            self.fail(format!(
                "{number} gets {published:?} again, which it has acknowledged"
            ));
        }
        let Some(before) = self.subscribers.received.get(&of) else {
            return;
        };
        let is_known = self.is_receipt_known_at(socket, number, before);
        let is_allowed = published.qos == DeliveryQos::AtLeastOnce && published.is_dup;
        if is_known && !is_allowed {
            self.fail(format!("{number} gets {published:?} again, after {before:?}"));
        }
    }

    /// A QoS 2 message comes under one number.
    fn check_number(&mut self, number: u8, message: Dot, value: Value) {
        let Value::Message(Body(body)) = value else {
            return;
        };
        if body < FIRST_ONCE || is_shared(value) {
            return;
        }
        let of = OfClient {
            client: number,
            of: body,
        };
        let first = *self.subscribers.numbers.entry(of).or_insert(message);
        if first != message && !self.publishers.is_excepted(body) {
            self.fail(format!("{number} gets {body} as {first:?} and as {message:?}"));
        }
    }

    /// The client sends answers.
    fn send_answers(&mut self, socket: Socket, number: u8, most: u64) {
        for _ in 0..most {
            let inbox = self.subscribers.inboxes.get_mut(&socket);
            let Some(inbox) = inbox else { return };
            let Some(Answer { packet_id, answer }) = inbox.answers.pop_front() else {
                return;
            };
            let unanswered = match answer {
                DeliveryAnswer::Pubrec => inbox.unanswered.get(&packet_id).copied(),
                _ => inbox.unanswered.remove(&packet_id),
            };
            inbox.unstored.remove(&packet_id);
            self.subscribers.answered += 1;
            if let Some(Unanswered { message: dot, value }) = unanswered {
                if is_queued(value) {
                    let client = number;
                    self.removed.insert(RemovedEntry { client, dot });
                }
                if is_shared(value) && answer != DeliveryAnswer::Pubcomp {
                    self.acknowledged_shared(socket, value);
                }
            }
            let made = self.answer(socket, packet_id, answer);
            let ended = unanswered.filter(|of| answer != DeliveryAnswer::Pubrec && is_queued(of.value));
            if let Some((made, Unanswered { message: dot, .. })) = made.zip(ended) {
                let (client, side) = (number, self.owners_of(slot(number), socket.node));
                self.wait_for(made, Waiting::Acknowledge { client, dot, side });
            }
        }
    }

    /// Hands an answer to a node; gives the first event that it has made for that.
    fn answer(&mut self, socket: Socket, packet_id: PacketId, answer: DeliveryAnswer) -> Option<Dot> {
        let mut made = None;
        self.with_sessions(socket.node, |sessions, at, actions| {
            let (before, is_stalled) = (sessions.plane().last(), sessions.stalled() > 0);
            sessions.answer(at, socket.connection, packet_id, answer, actions);
            let is_made = sessions.plane().last() > before && !is_stalled;
            let number = before.number + 1;
            made = is_made.then_some(Dot { number, ..before });
        });
        made
    }

    /// An acknowledgement is durable.
    pub(super) fn finish_message(&mut self, client: u8, dot: Dot, side: BTreeSet<u64>) {
        let at = self.now;
        let finished = &mut self.subscribers.finished;
        finished.insert(OfClient { client, of: dot }, Finished { side, at });
    }

    /// No message and no packet id is left for a client that is connected.
    pub(super) fn are_queues_empty(&self) -> Result<(), String> {
        for (id, machine) in &self.machines {
            let sessions = machine.sessions.as_ref().ok_or("it is down")?;
            let (used, waiting) = (sessions.delivering().in_flight(), sessions.delivering().waiting());
            if used + waiting > 0 {
                return Err(format!("{id} uses {used} packet ids, {waiting} messages wait"));
            }
            for number in CONNECTING {
                let copy = sessions.plane().copy(slot(number));
                let id_of = client(number);
                let session = copy.and_then(|copy| copy.entries.session(id_of.as_bytes()));
                let mut entries = session.into_iter().flat_map(|session| session.iter());
                let is_left = |entry: EntryId| match entry.kind {
                    EntryKind::Message => !self.is_decided_otherwise(number, entry.dot),
                    EntryKind::Delivery => true,
                    _ => false,
                };
                if let Some((left, _)) = entries.find(|(entry, _)| is_left(*entry)) {
                    return Err(format!("{id} keeps {left:?} for {number}"));
                }
            }
        }
        Ok(())
    }

    /// A copy has decided that a message is not for a client: it came beside its subscription. The others
    /// follow with the next merge.
    fn is_decided_otherwise(&self, number: u8, dot: Dot) -> bool {
        let id = client(number);
        let planes = self.machines.values().filter_map(|machine| machine.plane());
        let mut copies = planes.filter_map(|plane| plane.copy(slot(number)));
        copies.any(|copy| {
            let kind = EntryKind::Message;
            let session = copy.entries.session(id.as_bytes());
            let has_message = session.is_some_and(|session| session.get(EntryId { kind, dot }).is_some());
            copy.covered.covers(dot) && !has_message
        })
    }
}

/// The message is one of the shared group.
fn is_shared(value: Value) -> bool {
    matches!(value, Value::Message(body) if part_of(body).is_some())
}
