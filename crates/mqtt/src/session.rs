//! One client's session: the state that outlives its connections.
//!
//! Everything on its way to the client goes through here in one order: [`Session::push`] puts a delivery at the end of
//! the queue, [`Session::next`] gives what is to be sent now. The caller does the writing to disk and to the socket; the
//! session says what may not be sent yet because it is not on disk.
//!
//! # What is durable
//!
//! A durable session (its Session Expiry Interval is not 0) has a record for each QoS 1 and 2 delivery, keyed by its
//! [`QueueSequence`]. What is inflight needs no writes of its own, because the packet identifier follows from the
//! sequence ([`QueueSequence::packet_id`]):
//!
//! ```text
//!                 write                    on disk (Session::persisted)
//!   push ───────► record(sequence) ──────► QoS 2: may be sent        QoS 1: may be sent at once
//!   PUBACK ─────► remove(sequence)         nothing waits for it
//!   PUBREC ─────► released(sequence) ────► PUBREL may be sent
//!   PUBCOMP ────► remove(sequence)         nothing waits for it
//! ```
//!
//! After a crash every delivery whose record is there is sent again, in order and with its original packet identifier;
//! those that may have been sent before carry DUP. A QoS 2 delivery waits for its record because the client keeps its
//! packet identifier: were message and identifier forgotten, the identifier's next message would be taken for a
//! repetition and lost. PUBREL waits because the client forgets the identifier with it: were that forgotten here, the
//! message would be sent, and taken for a new one, again.
//!
//! Towards the client's own publications, [`Received`] keeps the packet identifiers of its QoS 2 messages. The
//! identifier is stored in one batch with the message's queue records before PUBREC is sent, and its removal is on disk
//! before PUBCOMP is sent: otherwise a crash makes the identifier's next message look like a repetition.

mod filters;
pub mod got;
mod inflight;
mod packet_ids;
mod queue;
mod received;

use protocol::Text;
use protocol::packet::{PacketId, QoS, Will};
use protocol::topic::SubscriptionFilter;

pub use self::filters::Filters;
use self::got::Got;
use self::inflight::Inflight;
use self::queue::Queue;
pub use self::received::Received;
use crate::ids::{QueueSequence, SessionNumber};
use crate::limits::SessionLimits;
use crate::memory::footprint::cloned_text;
use crate::message::{Delivery, DeliveryKind};
use crate::now::Now;
use crate::origin::MessageId;
use crate::records::queue::QueueRecord;
use crate::records::session::{Presence, SessionRecord};

/// The state of one client.
#[derive(Debug)]
pub struct Session {
    /// What its records are stored under.
    pub number: SessionNumber,
    /// What the client calls itself.
    pub client_id: Text,
    /// Its subscriptions.
    pub filters: Filters,
    /// Its QoS 2 publications that it has not released yet.
    pub received: Received,
    queue: Queue,
    inflight: Inflight,
    limits: SessionLimits,
    is_durable: bool,
    is_connected: bool,
    /// The sequence of the next durable delivery.
    next_sequence: u64,
    /// No durable delivery from this sequence on has been sent.
    sent_below: u64,
    /// How many durable deliveries have been released since the session is in memory.
    releases: u64,
    persisted: Written,
    /// What it has got since nodes come and go, of what may come to it a second time.
    got: Option<Box<Got>>,
    /// After a restart: a connection held the session when the server ended.
    was_connected: bool,
}

/// Where a durable session's queue stands; part of its record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Positions {
    /// The sequence of the next durable delivery.
    pub next_sequence: u64,
    /// No durable delivery from this sequence on has been sent.
    pub sent_below: u64,
}

/// How far a session's records have been written: what the caller keeps with a batch of writes, and gives to
/// [`Session::persisted`] when the batch is on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// All deliveries with a lower sequence.
    queued_below: u64,
    /// So many releases.
    releases: u64,
}

/// What became of a delivery that was pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PushOutcome {
    /// It is in the queue. With a sequence: its record is to be written under it.
    Queued {
        /// Where it is to be stored.
        durable: Option<QueueSequence>,
    },
    /// It is not in the queue, and nothing is to be written.
    Dropped(DropCause),
}

/// A delivery that was in the queue and will not be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dropped {
    /// Why.
    pub cause: DropCause,
    /// Its quality of service.
    pub qos: QoS,
    /// Its record, which is to be removed: written once.
    pub durable: Option<QueueSequence>,
    /// Which message it was, if it may come by another way.
    pub id: Option<MessageId>,
}

impl Dropped {
    fn of(cause: DropCause, delivery: &Delivery) -> Self {
        Self {
            cause,
            qos: delivery.qos,
            durable: delivery.durable,
            id: Got::id_of(delivery),
        }
    }
}

/// Why a delivery is not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// Its Message Expiry Interval passed in the queue. [MQTT-3.3.2-5]
    Expired,
    /// The queue has as many messages as allowed.
    QueueMessages,
    /// The queue has as many bytes as allowed.
    QueueBytes,
    /// QoS 0, and the client is not connected.
    Offline,
    /// The last session of its shared subscription is gone.
    NoSharer,
    /// The client may not have it any more.
    NotAuthorized,
    /// A notification of a connection that has missed another one.
    WatchEnded,
}

/// What is to be sent to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgoing {
    /// A PUBLISH; [`Delivery::to_publish`] makes it.
    Publish {
        /// With DUP if it is sent again.
        delivery: Delivery,
        /// Present exactly if its QoS is not 0.
        packet_id: Option<PacketId>,
    },
    /// A PUBREL.
    Release {
        /// Of the PUBLISH.
        packet_id: PacketId,
    },
}

/// What an acknowledgement changes on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the delivery has no record.
    Nothing,
    /// The record is to be removed. `is_written_once`: it was written once (see `RemoveOnce`).
    Remove {
        /// Whose record.
        sequence: QueueSequence,
        /// It was not overwritten since.
        is_written_once: bool,
    },
    /// The record is to be replaced by "released": the PUBREL waits for it.
    Release {
        /// Whose record.
        sequence: QueueSequence,
        /// What the PUBREL names.
        packet_id: PacketId,
    },
}

/// Why an acknowledgement means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AckError {
    /// No delivery has that packet identifier: 0x92 in the answer, if there is one.
    #[error("the packet identifier is not in use")]
    NotFound,
    /// The delivery awaits another packet: a protocol error.
    #[error("the delivery awaits another acknowledgement")]
    WrongState,
}

impl Session {
    /// The session of a client that has none. Not durable and not connected until [`Session::connect`].
    pub fn new(number: SessionNumber, client_id: Text, limits: SessionLimits) -> Self {
        Self {
            number,
            client_id,
            filters: Filters::default(),
            received: Received::default(),
            queue: Queue::default(),
            inflight: Inflight::default(),
            limits,
            is_durable: false,
            is_connected: false,
            next_sequence: 0,
            sent_below: 0,
            releases: 0,
            persisted: Written::default(),
            got: None,
            was_connected: false,
        }
    }

    /// A durable session as a restart finds it. Its filters, received packet ids and deliveries are added after that.
    pub fn restore(client_id: Text, record: &SessionRecord, limits: SessionLimits) -> Self {
        let next_sequence = record.positions.next_sequence;
        Self {
            is_durable: true,
            next_sequence,
            sent_below: record.positions.sent_below,
            // The server ended without ending the connection: it is not known how much of the queue it had sent.
            was_connected: matches!(record.presence, Presence::Connected { .. }),
            persisted: Written {
                queued_below: next_sequence,
                releases: 0,
            },
            ..Self::new(record.number, client_id, limits)
        }
    }

    /// Adds a delivery that a restart finds, in the order of the sequences.
    ///
    /// One that may have been sent before carries DUP [MQTT-3.3.1-1] and does not expire. With QoS 2 it is not dropped
    /// either: the client may wait for its PUBREL. It may be sent for the first time all the same, which the
    /// specification allows: DUP does not promise an earlier copy.
    pub fn restore_delivery(&mut self, sequence: QueueSequence, record: QueueRecord) {
        self.next_sequence = self.next_sequence.max(sequence.0.saturating_add(1));
        self.persisted.queued_below = self.next_sequence;
        match record {
            QueueRecord::Released { packet_id } => self.inflight.restore_released(packet_id, sequence),
            QueueRecord::Waiting(delivery) if delivery.is_resumed => self.resume_delivery(sequence, delivery),
            QueueRecord::Waiting(delivery) => {
                if self.was_connected {
                    self.sent_below = self.next_sequence;
                }
                let dup = sequence.0 < self.sent_below;
                let bytes = delivery.size() as u64;
                let durable = Some(sequence);
                self.queue.push(
                    Delivery {
                        durable,
                        dup,
                        ..delivery
                    },
                    bytes,
                );
            }
        }
    }

    /// A delivery of which the record was written is in it, or was. The records that come next have higher sequences.
    pub fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Takes out a delivery of a session that stands by. Whether its record was written once; `None`: there is none.
    pub fn forget_delivery(&mut self, sequence: QueueSequence) -> Option<bool> {
        if self.queue.take_durable(sequence).is_some() || self.inflight.forget_resumed(sequence) {
            return Some(true);
        }
        let is_released = self.inflight.forget_released(sequence);
        is_released.then_some(false)
    }

    /// A session that stood by is the one that runs, as a restart finds it.
    pub fn stand_up(&mut self, record: &SessionRecord) {
        self.is_durable = true;
        self.was_connected = matches!(record.presence, Presence::Connected { .. });
        self.next_sequence = self.next_sequence.max(record.positions.next_sequence);
        self.sent_below = if self.was_connected {
            self.next_sequence
        } else {
            record.positions.sent_below
        };
        self.persisted.queued_below = self.next_sequence;
        self.queue.mark_sent_below(self.sent_below);
    }

    /// Leaves out sequences, and so packet identifiers: another node may go on with the session as well, with those that come next. The client may have one of QoS 2 from there
    /// that is not released, and would take what came with the same identifier for this message.
    pub fn leave_to_others(&mut self, sequences: u64) {
        self.next_sequence = self.next_sequence.saturating_add(sequences);
    }

    /// What there are records of, in the order of the sequences.
    pub fn durable_deliveries(&self) -> Vec<(QueueSequence, QueueRecord)> {
        let waiting = self.inflight.published().chain(self.queue.iter());
        let waiting = waiting.filter_map(|delivery| {
            let sequence = delivery.durable?;
            Some((sequence, QueueRecord::Waiting(delivery.clone())))
        });
        let released = self.inflight.released();
        let released = released.map(|(sequence, packet_id)| (sequence, QueueRecord::Released { packet_id }));
        let mut all: Vec<_> = waiting.chain(released).collect();
        all.sort_by_key(|(sequence, _)| *sequence);
        all
    }

    /// A connection begins. What is inflight will be given by [`Session::next`] again: PUBRELs, then PUBLISHes with
    /// DUP in their original order, before anything from the queue. [MQTT-4.4.0-1] [MQTT-4.6.0-1]
    pub fn connect(&mut self, receive_maximum: u16, is_durable: bool) {
        self.is_connected = true;
        self.is_durable = is_durable;
        self.inflight
            .connect(receive_maximum.min(self.limits.inflight_max));
    }

    /// The connection has ended. QoS 0 deliveries that wait, and passing ones, are forgotten, and counted in `dropped`.
    pub fn disconnect(&mut self, dropped: &mut Vec<Dropped>) {
        self.is_connected = false;
        self.queue.forget_passing(dropped);
        self.inflight.forget_passing();
        self.queue.shrink();
        self.inflight.shrink();
    }

    /// Takes a delivery for the client. Older ones that give way to it come out in `dropped`.
    pub fn push(&mut self, now: Now, mut delivery: Delivery, dropped: &mut Vec<Dropped>) -> PushOutcome {
        if delivery.is_passing() && !self.is_connected {
            return PushOutcome::Dropped(DropCause::Offline);
        }
        if delivery.message.is_expired(now) {
            return PushOutcome::Dropped(DropCause::Expired);
        }
        let bytes = delivery.size() as u64;
        if let Err(cause) = self.make_room(delivery.kind, bytes, dropped) {
            return PushOutcome::Dropped(cause);
        }
        delivery.durable = None;
        if self.is_durable && delivery.qos != QoS::AtMostOnce {
            // One that is not stored takes a sequence too, so that the packet identifiers of those that are stay free.
            if delivery.kind == DeliveryKind::Message {
                delivery.durable = Some(QueueSequence(self.next_sequence));
            }
            self.next_sequence += 1;
        }
        let durable = delivery.durable;
        self.queue.push(delivery, bytes);
        PushOutcome::Queued { durable }
    }

    fn make_room(
        &mut self,
        kind: DeliveryKind,
        bytes: u64,
        dropped: &mut Vec<Dropped>,
    ) -> Result<(), DropCause> {
        let before = dropped.len();
        let made = self.queue.make_room(kind, bytes, &self.limits, dropped);
        self.note_not_got(&dropped[before..]);
        made
    }

    /// Takes a delivery that another session of the same client has left, to a place behind all others: it stays there until the client has it.
    pub fn push_at(
        &mut self,
        now: Now,
        sequence: QueueSequence,
        delivery: Delivery,
        dropped: &mut Vec<Dropped>,
    ) -> PushOutcome {
        if sequence.0 < self.next_sequence || (!delivery.dup && delivery.message.is_expired(now)) {
            return PushOutcome::Dropped(DropCause::Expired);
        }
        let bytes = delivery.size() as u64;
        if let Err(cause) = self.make_room(delivery.kind, bytes, dropped) {
            return PushOutcome::Dropped(cause);
        }
        self.next_sequence = sequence.0 + 1;
        if delivery.dup {
            self.sent_below = self.next_sequence;
        }
        let durable = Some(sequence);
        self.queue.push(Delivery { durable, ..delivery }, bytes);
        PushOutcome::Queued { durable }
    }

    /// Takes a delivery of QoS 2 that another session of the same client has sent, to the end of what is in flight: the client may know the packet identifier of its sequence, and takes
    /// what comes next with it for this message.
    pub fn take_sent(&mut self, sequence: QueueSequence, delivery: Delivery) {
        self.next_sequence = self.next_sequence.max(sequence.0 + 1);
        self.resume_delivery(sequence, delivery);
    }

    /// Whether one may be taken: its identifier is not in use, and not too much is in flight.
    pub fn has_room_for_sent(&self, sequence: QueueSequence) -> bool {
        let is_full = self.inflight.len() >= usize::from(self.limits.inflight_max);
        !is_full && !self.is_in_use(sequence.packet_id())
    }

    fn resume_delivery(&mut self, sequence: QueueSequence, delivery: Delivery) {
        let delivery = Delivery {
            durable: Some(sequence),
            dup: true,
            is_resumed: true,
            ..delivery
        };
        self.inflight.restore_published(sequence.packet_id(), delivery);
    }

    /// Takes a delivery whose PUBREC has come to another session of the same client. Nothing else of the queue is on disk because of it.
    pub fn take_released(&mut self, sequence: QueueSequence, packet_id: PacketId) {
        self.next_sequence = self.next_sequence.max(sequence.0 + 1);
        self.inflight.restore_released(packet_id, sequence);
    }

    /// No durable delivery from this sequence on has been sent.
    pub fn sent_below(&self) -> u64 {
        self.sent_below
    }

    /// Whether a packet identifier of the server's is in use.
    pub fn is_in_use(&self, packet_id: PacketId) -> bool {
        self.inflight.has(packet_id)
    }

    /// What to send now, or `None` while there is nothing, the client's Receive Maximum is reached [MQTT-3.3.4-9], or the
    /// next one waits for the disk. Deliveries that expired in the queue come out in `dropped`.
    pub fn next(&mut self, now: Now, dropped: &mut Vec<Dropped>) -> Option<Outgoing> {
        if !self.is_connected {
            return None;
        }
        if let Some(packet_id) = self.inflight.next_release(self.persisted.releases) {
            return Some(Outgoing::Release { packet_id });
        }
        if self.inflight.is_resending() {
            let (packet_id, delivery) = self.inflight.resend()?;
            return Some(Outgoing::Publish {
                delivery,
                packet_id: Some(packet_id),
            });
        }
        self.queue.drop_expired(now, dropped);
        let delivery = self.queue.front()?;
        if delivery.qos == QoS::AtMostOnce {
            let delivery = self.queue.pop()?;
            return Some(Outgoing::Publish {
                delivery,
                packet_id: None,
            });
        }
        let is_awaiting_disk = delivery.qos == QoS::ExactlyOnce
            && delivery
                .durable
                .is_some_and(|sequence| sequence.0 >= self.persisted.queued_below);
        if is_awaiting_disk || !self.inflight.has_room(self.limits.inflight_max) {
            return None;
        }
        let packet_id = self.inflight.packet_id_for(delivery)?;
        let delivery = self.queue.pop()?;
        if let Some(sequence) = delivery.durable {
            self.sent_below = self.sent_below.max(sequence.0 + 1);
        }
        self.inflight.push(packet_id, delivery.clone());
        Some(Outgoing::Publish {
            delivery,
            packet_id: Some(packet_id),
        })
    }

    /// How far the records have been written that the calls until now asked for.
    pub fn written(&self) -> Written {
        Written {
            queued_below: self.next_sequence,
            releases: self.releases,
        }
    }

    /// Records are on disk up to `written`; [`Session::next`] may have more to send. The caller makes sure that this is
    /// the session ([`Session::number`]) that said so.
    pub fn persisted(&mut self, written: Written) {
        self.persisted.queued_below = self.persisted.queued_below.max(written.queued_below);
        self.persisted.releases = self.persisted.releases.max(written.releases);
    }

    /// PUBACK: the client has a QoS 1 message, or has refused it.
    pub fn puback(&mut self, packet_id: PacketId) -> Result<Change, AckError> {
        self.inflight.complete(packet_id, QoS::AtLeastOnce).map(removal)
    }

    /// PUBREC: the client has a QoS 2 message, or has refused it (`is_failure`: reason code 0x80 or higher), which ends
    /// the delivery. The PUBREL comes from [`Session::next`]. [MQTT-4.3.3-5]
    pub fn pubrec(&mut self, packet_id: PacketId, is_failure: bool) -> Result<Change, AckError> {
        if is_failure {
            return self.inflight.complete(packet_id, QoS::ExactlyOnce).map(removal);
        }
        let Some(release) = self.inflight.release(packet_id, self.releases)? else {
            return Ok(Change::Nothing);
        };
        let Some(sequence) = release.sequence else {
            return Ok(Change::Nothing);
        };
        self.releases += 1;
        Ok(Change::Release { sequence, packet_id })
    }

    /// PUBCOMP: the client has forgotten the packet identifier.
    pub fn pubcomp(&mut self, packet_id: PacketId) -> Result<Change, AckError> {
        let sequence = self.inflight.complete_released(packet_id)?;
        Ok(sequence.map_or(Change::Nothing, |sequence| Change::Remove {
            sequence,
            is_written_once: false,
        }))
    }

    /// Ends a delivery that cannot be sent to this client, as if it had been: it is larger than the client's Maximum
    /// Packet Size. [MQTT-3.1.2-25]
    pub fn discard(&mut self, packet_id: PacketId) -> Result<Change, AckError> {
        self.inflight.discard(packet_id).map(removal)
    }

    /// The session ends: takes what it has of shared subscriptions and another session may get instead, in order. QoS 1
    /// that was not acknowledged is among it; QoS 2 that may have been sent must not be. [MQTT-4.8.2-5]
    pub fn take_shared(&mut self) -> Vec<Delivery> {
        let mut taken: Vec<_> = self.inflight.shared().cloned().collect();
        let may_move = |delivery: &Delivery| !delivery.dup || delivery.qos != QoS::ExactlyOnce;
        taken.extend(
            self.queue
                .take_if(|delivery| delivery.share.is_some() && may_move(delivery)),
        );
        taken
    }

    /// Forgets the first ones of what waits, of a session that has ended. True if there are more.
    pub fn drop_some(&mut self, count: usize) -> bool {
        for _ in 0..count {
            if self.queue.pop().is_none() {
                return false;
            }
        }
        true
    }

    /// A shared subscription ends: takes what waits for it and was never sent. The caller removes the records. What was
    /// sent is completed. [MQTT-3.10.4-3]
    pub fn take_waiting(&mut self, share: &SubscriptionFilter) -> Vec<Delivery> {
        self.queue
            .take_if(|delivery| delivery.share.as_deref() == Some(share) && !delivery.dup)
    }

    /// Keeps of what waits in the queue what the client may have, and drops the rest. What was sent is completed, and so is QoS 2 that
    /// may have been: the client may wait for its PUBREL.
    pub fn keep_allowed(&mut self, is_allowed: impl Fn(&Delivery) -> bool, dropped: &mut Vec<Dropped>) {
        let must_stay = |delivery: &Delivery| delivery.dup && delivery.qos == QoS::ExactlyOnce;
        let taken = self
            .queue
            .take_if(|delivery| !must_stay(delivery) && !is_allowed(delivery));
        let cause = DropCause::NotAuthorized;
        dropped.extend(taken.iter().map(|delivery| Dropped::of(cause, delivery)));
    }

    /// Drops the notifications that wait: their registrations end.
    pub fn drop_notifications(&mut self, dropped: &mut Vec<Dropped>) {
        let taken = self
            .queue
            .take_if(|delivery| delivery.kind == DeliveryKind::Notification);
        let cause = DropCause::WatchEnded;
        dropped.extend(taken.iter().map(|delivery| Dropped::of(cause, delivery)));
    }

    /// The record to store, of a session without an owner: it has been connected, or not, since `since` (Unix milliseconds).
    pub fn record(&self, since: u64, expiry: u32, will: Option<Will>) -> SessionRecord {
        let presence = if self.is_connected {
            Presence::Connected { since }
        } else {
            Presence::Disconnected { since }
        };
        let positions = Positions {
            next_sequence: self.next_sequence,
            sent_below: self.sent_below,
        };
        SessionRecord {
            number: self.number,
            expiry,
            presence,
            positions,
            will,
            owner: None,
        }
    }

    /// Whether a connection holds it.
    pub fn is_connected(&self) -> bool {
        self.is_connected
    }

    /// Whether it is to survive a restart.
    pub fn is_durable(&self) -> bool {
        self.is_durable
    }

    /// Whether so much waits in its queue that shared subscriptions are to pass it over.
    pub fn is_behind(&self, was_behind: bool) -> bool {
        self.queue.is_behind(&self.limits, was_behind)
    }

    /// How many deliveries wait in its queue.
    pub fn queue_len(&self) -> usize {
        self.queue.len()
    }

    /// How many replies of the state store wait, and their bytes.
    pub fn replies(&self) -> (usize, u64) {
        self.queue.replies()
    }

    /// How many bytes wait in its queue.
    pub fn queue_bytes(&self) -> u64 {
        self.queue.bytes()
    }

    /// Its memory besides the struct itself, and without that of the messages.
    pub fn memory(&self) -> u64 {
        cloned_text(&self.client_id)
            + self.filters.bytes()
            + self.queue.memory()
            + self.inflight.memory()
            + self.received.memory()
            + self.got.as_ref().map_or(0, |got| got.memory())
    }

    /// How many deliveries are inflight.
    pub fn inflight_len(&self) -> usize {
        self.inflight.len()
    }
}

fn removal(sequence: Option<QueueSequence>) -> Change {
    sequence.map_or(Change::Nothing, |sequence| Change::Remove {
        sequence,
        is_written_once: true,
    })
}

#[cfg(test)]
mod tests;
