//! Entries of connections: what a claim asks to write, as events of the plane.

use std::num::NonZeroU16;

use cluster::session_plane::Hlc;

use crate::connecting::{ConnectionEnd, ConnectionEvent, ConnectionId, SessionBirth, Write};
use crate::delivering::{RemovedDelivery, WrittenDelivery};
use crate::expiring::{ExpiringEvent, SessionExpiry};
use crate::plane::{Matching, NewBirth, NewChange, NewEntry, Now, OwnEntry};
use crate::publishing::{PacketUse, PublishingEvent};
use crate::queue_limits::QueuePlace;
use crate::stream::StreamFull;
use crate::transfer::TransferBytes;
use crate::{Birth, ClientId, Dot, EntryKind, Fact, MadeEvent, Slot, SlotSet};

use super::acting::Queue;
use super::deliveries::removal_change;
use super::ending::{LifetimeWrite, with_routes};
use super::group_changes::GroupChange;
use super::moving::GroupMove;
use super::waits::FreedWait;
use super::willing::{NewWill, WillWrite};
use super::{Sessions, SessionsValue};

/// Values of the entries that a CONNECT makes, and what it says of deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionValues<V> {
    /// Of the connection.
    pub connection: V,
    /// Of the session.
    pub session: V,
    /// Will, if the CONNECT has one.
    pub will: Option<NewWill<V>>,
    /// Receive Maximum.
    pub receive_maximum: NonZeroU16,
}

/// Entry of a connection that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EntryWrite<V> {
    /// Connection that it is of. None where this node decides about the slot.
    pub(super) connection: Option<ConnectionId>,
    pub(super) client: ClientId,
    pub(super) write: OwnWrite<V>,
}

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OwnWrite<V> {
    /// Entry that a claim asks for.
    Claim(Write),
    /// Entry of a packet id.
    Use(UseWrite<V>),
    /// Entry of a will, or beside one.
    Will(WillWrite<V>),
    /// Entries of a shared group. The client of the write is the group's key.
    Group(GroupChange<V>),
    /// Message of a shared group that goes into the queue of the client.
    Move(GroupMove<V>),
    /// Entry of a packet id to the client.
    Delivery(WrittenDelivery),
    /// End of deliveries, with their messages.
    DeliveryEnd(RemovedDelivery),
    /// What becomes of the session of a connection that ends, with the interval that it has agreed upon
    /// last.
    SessionRest(SessionExpiry),
    /// Change of a session that expires, by its primary owner.
    Lifetime(LifetimeWrite<V>),
    /// Removal of what a queue has beyond its limits, by its primary owner.
    Drop(QueuePlace),
}

/// Entry of a packet id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UseWrite<V> {
    pub(super) packet_use: PacketUse,
    pub(super) value: V,
    /// Events of older entries of the packet id.
    pub(super) removes: Vec<Dot>,
}

/// Connection of a client, by what is written for it.
#[derive(Debug)]
pub(super) struct ClientConnection<V> {
    client: ClientId,
    values: ConnectionValues<V>,
    /// Entry of the connection, once it is made.
    opened: Option<OwnEntry<V>>,
    /// Entry of the session, once it is made.
    pub(super) session: Option<WrittenEntry<V>>,
    /// Own events that are not durable.
    pub(super) undurable: usize,
    /// The client has left, or was told to.
    pub(super) is_closing: bool,
    /// What becomes of its session is to be written.
    pub(super) leaves_session: bool,
    /// CONNACK was sent.
    pub(super) is_accepted: bool,
    /// Entry of the will, once it is made.
    pub(super) will: Option<WrittenEntry<V>>,
    /// The will does not hold back the end of the connection.
    pub(super) is_released: bool,
    /// Event of a will that goes with the connection.
    pub(super) dropped_will: Option<Dot>,
    /// Clock of the end of the session's last connection.
    pub(super) left_at: Option<Hlc>,
}

/// Event of an [`EntryWrite`], with the entry that it adds.
#[derive(Debug)]
pub(super) struct Written<V> {
    pub(super) made: MadeEvent,
    pub(super) entry: Option<OwnEntry<V>>,
}

/// Entry that a claim has written.
#[derive(Debug, Clone)]
pub(super) struct WrittenEntry<V> {
    pub(super) entry: OwnEntry<V>,
    /// Ring by which it was sent to the owners.
    pub(super) ring: u64,
}

impl<V> ClientConnection<V> {
    pub(super) fn new(client: ClientId, values: ConnectionValues<V>) -> ClientConnection<V> {
        ClientConnection {
            client,
            values,
            opened: None,
            session: None,
            undurable: 0,
            is_closing: false,
            leaves_session: false,
            is_accepted: false,
            will: None,
            is_released: false,
            dropped_will: None,
            left_at: None,
        }
    }

    /// Receive Maximum of the CONNECT.
    pub(super) fn receive_maximum(&self) -> NonZeroU16 {
        self.values.receive_maximum
    }

    /// Will of the CONNECT.
    pub(super) fn will_of_connect(&self) -> Option<&NewWill<V>> {
        self.values.will.as_ref()
    }

    /// Client that has the connection.
    pub(super) fn client(&self) -> &ClientId {
        &self.client
    }

    /// It has ended, and all that it leaves is written.
    pub(super) fn has_left(&self) -> bool {
        self.is_closing && self.is_released && !self.leaves_session
    }
}

impl<V: Clone> ClientConnection<V> {
    /// Entry of the connection, for owners that lack it.
    pub(super) fn opened(&self) -> Option<OwnEntry<V>> {
        self.opened.clone()
    }
}

impl<V, M, R> Sessions<V, M, R>
where
    V: SessionsValue<M>,
    M: TransferBytes + Clone,
    R: Matching<V, M>,
{
    /// Makes what waits, as far as the stream has room.
    pub(super) fn write_stalled(&mut self, now: Now, queue: &mut Queue<V, M>) {
        while let Some(next) = self.stalled.pop_front() {
            if self.write_one(now, &next, queue).is_err() {
                self.stalled.push_front(next);
                return;
            }
        }
    }

    /// Writes an entry of a connection behind those that wait.
    pub(super) fn write_later(&mut self, connection: ConnectionId, client: ClientId, write: OwnWrite<V>) {
        self.stalled.push_back(EntryWrite {
            connection: Some(connection),
            client,
            write,
        });
    }

    /// Gives up what the packets of a connection were to write and is not made: it has ended.
    pub(super) fn give_up_stalled(&mut self, connection: ConnectionId) {
        let is_of_packet = |write: &OwnWrite<V>| {
            matches!(
                write,
                OwnWrite::Use(_) | OwnWrite::Move(_) | OwnWrite::Delivery(_) | OwnWrite::DeliveryEnd(_)
            )
        };
        self.stalled
            .retain(|of| of.connection != Some(connection) || !is_of_packet(&of.write));
    }

    /// Makes the event of an entry.
    fn write_one(
        &mut self,
        now: Now,
        write: &EntryWrite<V>,
        queue: &mut Queue<V, M>,
    ) -> Result<(), StreamFull> {
        match &write.write {
            OwnWrite::Drop(place) => return self.drop_messages(now, place, queue),
            OwnWrite::Move(moved) => return self.move_message(now, write.connection, moved, queue),
            OwnWrite::Claim(Write::SessionStart(start)) => self.plane.see(start.after),
            OwnWrite::SessionRest(_) | OwnWrite::Lifetime(_) => {
                self.plane.see(self.latest_clock(&write.client));
            }
            _ => {}
        }
        let Some(change) = self.new_change(write) else {
            self.not_written(now, write, queue);
            return Ok(());
        };
        let adds = change.adds.clone();
        let (marker, slots) = (self.plane.marker(), slots_of(write, &change));
        let made = self.plane.change(now, slots, change, &mut queue.plane)?;
        let entry = adds.map(|adds| OwnEntry {
            slot: Slot::of_client(write.client.as_bytes()),
            client: write.client.clone(),
            dot: made.dot,
            entry: adds.made_by(made),
        });
        let written = Written { made, entry };
        match (&write.write, write.connection) {
            (OwnWrite::Claim(of_claim), Some(connection)) => {
                self.claim_written(connection, of_claim, written, queue);
            }
            (OwnWrite::Use(of_use), Some(connection)) => {
                self.use_written(connection, of_use.packet_use, written, queue);
            }
            (OwnWrite::Will(of_will), _) => self.will_written(now, of_will.then, written, queue),
            (OwnWrite::Group(of_group), _) => {
                self.group_written(write.connection, of_group.then.clone(), made, queue);
            }
            (OwnWrite::Delivery(of_delivery), _) => {
                self.delivery_written(of_delivery, written, marker, queue);
            }
            (OwnWrite::DeliveryEnd(end), _) => self.delivery_removed(end, made.dot, queue),
            (OwnWrite::SessionRest(_), Some(connection)) => {
                self.rest_written(connection, Some(written), queue);
            }
            (OwnWrite::Lifetime(_), _) => {
                let client = write.client.clone();
                self.step_expiring(now, ExpiringEvent::Made { client });
            }
            (OwnWrite::Claim(_) | OwnWrite::Use(_) | OwnWrite::SessionRest(_), None)
            | (OwnWrite::Drop(_) | OwnWrite::Move(_), _) => {}
        }
        Ok(())
    }

    /// There was nothing to write.
    fn not_written(&mut self, now: Now, write: &EntryWrite<V>, queue: &mut Queue<V, M>) {
        match (&write.write, write.connection) {
            (OwnWrite::SessionRest(_), Some(connection)) => self.rest_written(connection, None, queue),
            (OwnWrite::Lifetime(_), _) => {
                let client = write.client.clone();
                self.step_expiring(now, ExpiringEvent::Made { client });
            }
            _ => {}
        }
    }

    /// Tells the publishing that the entry of a packet id is made.
    fn use_written(
        &mut self,
        connection: ConnectionId,
        packet_use: PacketUse,
        written: Written<V>,
        queue: &mut Queue<V, M>,
    ) {
        let PacketUse {
            packet_id, message, ..
        } = packet_use;
        let Written { made, entry } = written;
        self.note_event(Some(connection), made.dot);
        let Some(message) = message else {
            let wait = FreedWait {
                connection,
                packet_id,
            };
            self.waits.add_freed(made.dot, wait);
            let written = PublishingEvent::FreeWritten {
                connection,
                packet_id,
                made,
            };
            return self.step_own_publishing(written, queue);
        };
        let number = message.number;
        let written = PublishingEvent::NumberWritten {
            connection,
            number,
            made,
        };
        self.step_own_publishing(written, queue);
        self.keep_use(number, entry);
    }

    /// Tells the claim what it waits for, and notes what it may be given again.
    fn claim_written(
        &mut self,
        connection: ConnectionId,
        write: &Write,
        written: Written<V>,
        queue: &mut Queue<V, M>,
    ) {
        let Written { made, entry } = written;
        let MadeEvent { dot, clock } = made;
        let ring = self.ring;
        let client = self.clients.get_mut(&connection);
        let told = match write {
            Write::Connection => {
                if let Some(client) = client {
                    client.opened = entry;
                }
                Some(ConnectionEvent::Written {
                    connection,
                    dot,
                    clock,
                })
            }
            Write::SessionStart(start) => {
                if let Some(client) = client {
                    client.session = entry.map(|entry| WrittenEntry { entry, ring });
                    client.left_at = start.left_at;
                }
                let has_will = self.write_will(connection, made, start.birth.at(dot));
                (!has_will).then_some(ConnectionEvent::SessionWritten { connection, dot })
            }
            Write::OlderEnded(_) | Write::SessionEnd(_) => None,
            Write::Closed { .. } => {
                self.clients.remove(&connection);
                queue.closed.push(connection);
                None
            }
        };
        self.note_event(Some(connection), dot);
        if let Some(told) = told {
            self.step(told, queue);
        }
    }

    /// An event is made, on which something may wait. A connection has not closed until its events are
    /// durable.
    pub(super) fn note_event(&mut self, connection: Option<ConnectionId>, dot: Dot) {
        let client = connection.and_then(|connection| self.clients.get_mut(&connection));
        if let Some(client) = client {
            client.undurable += 1;
            self.waits.add_event(dot, connection);
        } else if connection.is_none() {
            self.waits.add_event(dot, None);
        }
    }

    /// Change that makes an entry. None where its session is no connection's any more.
    fn new_change(&self, of: &EntryWrite<V>) -> Option<NewChange<V>> {
        let client = of.client.clone();
        match &of.write {
            OwnWrite::Claim(write) => {
                let of_connection = of.connection.and_then(|connection| self.clients.get(&connection));
                Some(self.claim_change(client, of_connection, write))
            }
            OwnWrite::Use(write) => {
                let birth = self.birth(of.connection?)?;
                let adds = NewEntry {
                    birth: NewBirth::Of(birth),
                    fact: Fact::Received,
                    value: write.value.clone(),
                };
                Some(NewChange {
                    client,
                    removes: write.removes.clone(),
                    adds: Some(adds),
                })
            }
            OwnWrite::Delivery(write) => self.delivery_change(write),
            OwnWrite::DeliveryEnd(end) => Some(removal_change(end)),
            OwnWrite::SessionRest(expiry) => self.session_rest(of.connection, *expiry),
            OwnWrite::Lifetime(write) => self.lifetime_change(write),
            OwnWrite::Drop(_) | OwnWrite::Move(_) => None,
            OwnWrite::Will(WillWrite { removes, adds, .. })
            | OwnWrite::Group(GroupChange { removes, adds, .. }) => Some(NewChange {
                client,
                removes: removes.clone(),
                adds: adds.clone(),
            }),
        }
    }

    fn claim_change(
        &self,
        client: ClientId,
        connection: Option<&ClientConnection<V>>,
        write: &Write,
    ) -> NewChange<V> {
        let values = connection.map(|connection| &connection.values);
        let (removes, adds) = match write {
            Write::Connection => {
                let birth = NewBirth::Here {
                    is_clean: false,
                    clock: None,
                };
                let value = values.map(|values| values.connection.clone());
                let fact = Fact::Connection;
                (Vec::new(), value.map(|value| NewEntry { birth, fact, value }))
            }
            Write::OlderEnded(ConnectionEnd { connection, will }) => {
                let connection = *connection;
                let end = will.map(|birth| NewEntry {
                    birth: NewBirth::Of(birth),
                    fact: Fact::ConnectionEnd { connection },
                    value: V::of_will_end(None),
                });
                (vec![connection], end)
            }
            Write::SessionEnd(end) => {
                let left = end.left.clone();
                let left = left.map(|ending| self.blank(ending.birth, ending.fact));
                (end.removes.iter().copied().collect(), left)
            }
            Write::SessionStart(start) => {
                let value = values.map(|values| values.session.clone());
                let connected = Some(start.connected);
                let (birth, fact) = (new_birth(start.birth), Fact::Session { connected });
                let adds = value.map(|value| NewEntry { birth, fact, value });
                (start.removes.iter().copied().collect(), adds)
            }
            Write::Closed { dot } => {
                let will = connection.and_then(|connection| connection.dropped_will);
                (will.into_iter().chain([*dot]).collect(), None)
            }
        };
        NewChange {
            client,
            removes,
            adds,
        }
    }

    /// Entry that says no more than its fact.
    pub(super) fn blank(&self, birth: Birth, fact: Fact) -> NewEntry<V> {
        NewEntry {
            birth: NewBirth::Of(birth),
            fact,
            value: self.blank.clone(),
        }
    }
}

/// Slots that a write is for: sessions and their ends are in the routes, too.
fn slots_of<V>(write: &EntryWrite<V>, change: &NewChange<V>) -> SlotSet {
    if let OwnWrite::Group(change) = &write.write {
        return change.slots.clone();
    }
    let is_claim = matches!(
        write.write,
        OwnWrite::Claim(Write::SessionEnd(_) | Write::SessionStart(_))
    );
    let mut adds = change.adds.iter();
    if is_claim || adds.any(|adds| adds.fact.kind() == EntryKind::End) {
        with_routes(&write.client)
    } else {
        SlotSet::from_iter([Slot::of_client(write.client.as_bytes())])
    }
}

fn new_birth(birth: SessionBirth) -> NewBirth {
    match birth {
        SessionBirth::Resumed(birth) => NewBirth::Of(birth),
        SessionBirth::New { clock, is_clean } => NewBirth::Here {
            is_clean,
            clock: Some(clock),
        },
    }
}
