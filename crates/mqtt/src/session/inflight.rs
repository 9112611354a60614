//! QoS 1 and 2 deliveries on their way: sent, and not yet acknowledged to the end.
//!
//! Deliveries are kept in the order in which they were first sent, which is the order in which they are sent again.
//! Acknowledgements come nearly always in that order too, so they are looked for from the front; the search is bounded
//! by [`crate::limits::Limits::inflight_max`].

use std::collections::VecDeque;

use protocol::packet::{PacketId, QoS};

use super::AckError;
use super::packet_ids::PacketIds;
use crate::ids::QueueSequence;
use crate::memory::footprint::places;
use crate::message::Delivery;

/// What is inflight to one client.
#[derive(Debug, Default)]
pub(super) struct Inflight {
    /// PUBLISHes that await PUBACK or PUBREC.
    published: VecDeque<Published>,
    /// How many of `published`, from the front, were sent on this connection.
    sent: u32,
    /// Deliveries that await PUBCOMP, in the order of their PUBRECs. [MQTT-4.6.0-4]
    released: VecDeque<Released>,
    /// How many of `released` are to be sent: again, or for the first time.
    releases_unsent: u32,
    /// How many of `released` had their PUBLISH sent on this connection, and so count for Receive Maximum.
    releases_counted: u32,
    /// Of this connection's client.
    receive_maximum: u16,
    ids: PacketIds,
    /// Memory that the deliveries have besides their places and their messages.
    own: u64,
}

#[derive(Debug)]
struct Published {
    packet_id: PacketId,
    delivery: Delivery,
}

#[derive(Debug)]
struct Released {
    packet_id: PacketId,
    sequence: Option<QueueSequence>,
    /// It is not to be sent before so many releases (less one) are on disk.
    awaits_release: Option<u64>,
    is_sent: bool,
    is_counted: bool,
}

impl Inflight {
    /// A connection begins: all of it will be sent again, and nothing counts for Receive Maximum yet.
    pub(super) fn connect(&mut self, receive_maximum: u16) {
        self.receive_maximum = receive_maximum;
        self.sent = 0;
        self.releases_unsent = count(self.released.len());
        self.releases_counted = 0;
        for released in &mut self.released {
            released.is_sent = false;
            released.is_counted = false;
        }
    }

    /// Adds what a restart found: a delivery whose release is on disk.
    pub(super) fn restore_released(&mut self, packet_id: PacketId, sequence: QueueSequence) {
        self.released.push_back(Released {
            packet_id,
            sequence: Some(sequence),
            awaits_release: None,
            is_sent: false,
            is_counted: false,
        });
        self.releases_unsent += 1;
        self.ids.forget();
    }

    /// Adds a delivery that was sent, by another session of the client or before a restart: it is sent again.
    pub(super) fn restore_published(&mut self, packet_id: PacketId, delivery: Delivery) {
        self.own += delivery.own_bytes();
        self.published.push_back(Published { packet_id, delivery });
        self.ids.forget();
    }

    /// The next PUBREL to send; `releases_persisted` of all releases are on disk.
    pub(super) fn next_release(&mut self, releases_persisted: u64) -> Option<PacketId> {
        if self.releases_unsent == 0 {
            return None;
        }
        let next = self.released.iter_mut().find(|released| !released.is_sent)?;
        if next
            .awaits_release
            .is_some_and(|number| number >= releases_persisted)
        {
            return None;
        }
        next.is_sent = true;
        self.releases_unsent -= 1;
        Some(next.packet_id)
    }

    /// True while deliveries of earlier connections have not been sent on this one.
    pub(super) fn is_resending(&self) -> bool {
        (self.sent as usize) < self.published.len()
    }

    /// The next delivery of an earlier connection, if Receive Maximum has room.
    pub(super) fn resend(&mut self) -> Option<(PacketId, Delivery)> {
        if self.counted() >= usize::from(self.receive_maximum) {
            return None;
        }
        let next = self.published.get_mut(self.sent as usize)?;
        // [MQTT-3.3.1-1]
        next.delivery.dup = true;
        self.sent += 1;
        Some((next.packet_id, next.delivery.clone()))
    }

    /// Whether one more may be sent: Receive Maximum [MQTT-3.3.4-9], and `inflight_max` of all there are.
    pub(super) fn has_room(&self, inflight_max: u16) -> bool {
        self.counted() < usize::from(self.receive_maximum) && self.len() < usize::from(inflight_max)
    }

    /// The packet identifier to send `delivery` with. `None`: the one of its sequence is in use, by a delivery that was
    /// not acknowledged while 65,534 others were. QoS 2 then waits, because no other identifier would be known after a
    /// crash; QoS 1 takes another.
    pub(super) fn packet_id_for(&mut self, delivery: &Delivery) -> Option<PacketId> {
        let published = self.published.iter().map(|published| published.packet_id);
        let in_use = published.chain(self.released.iter().map(|released| released.packet_id));
        if let Some(wanted) = delivery.durable.map(QueueSequence::packet_id) {
            if self.ids.take_this(wanted, in_use.clone()) {
                return Some(wanted);
            }
            if delivery.qos == QoS::ExactlyOnce {
                return None;
            }
        }
        self.ids.take(in_use)
    }

    /// Adds a delivery that is sent now.
    pub(super) fn push(&mut self, packet_id: PacketId, delivery: Delivery) {
        assert!(
            !self.is_resending(),
            "new deliveries come after those of earlier connections"
        );
        self.own += delivery.own_bytes();
        self.published.push_back(Published { packet_id, delivery });
        self.sent += 1;
    }

    /// Ends a delivery of this QoS that has not been released, and returns its sequence.
    pub(super) fn complete(
        &mut self,
        packet_id: PacketId,
        qos: QoS,
    ) -> Result<Option<QueueSequence>, AckError> {
        Ok(self.take(packet_id, Some(qos))?.durable)
    }

    /// Ends a delivery that has not been released, whatever its QoS.
    pub(super) fn discard(&mut self, packet_id: PacketId) -> Result<Option<QueueSequence>, AckError> {
        Ok(self.take(packet_id, None)?.durable)
    }

    /// PUBREC: the PUBREL comes next, for a durable delivery when the release with number `release` is on disk. `None`:
    /// it was released before, and the PUBREL is sent again.
    pub(super) fn release(
        &mut self,
        packet_id: PacketId,
        release: u64,
    ) -> Result<Option<NewRelease>, AckError> {
        if let Some(released) = self
            .released
            .iter_mut()
            .find(|released| released.packet_id == packet_id)
        {
            self.releases_unsent += u32::from(released.is_sent);
            released.is_sent = false;
            return Ok(None);
        }
        let sent_before = self.sent;
        let sequence = self.take(packet_id, Some(QoS::ExactlyOnce))?.durable;
        let is_counted = self.sent < sent_before;
        self.releases_counted += u32::from(is_counted);
        self.releases_unsent += 1;
        let awaits_release = sequence.map(|_| release);
        self.released.push_back(Released {
            packet_id,
            sequence,
            awaits_release,
            is_sent: false,
            is_counted,
        });
        Ok(Some(NewRelease { sequence }))
    }

    /// PUBCOMP: ends a delivery that has been released, and returns its sequence.
    pub(super) fn complete_released(
        &mut self,
        packet_id: PacketId,
    ) -> Result<Option<QueueSequence>, AckError> {
        let is_it = |released: &Released| released.packet_id == packet_id;
        let Some(position) = self.released.iter().position(is_it) else {
            return Err(self.not_in_this_state(packet_id));
        };
        // A PUBCOMP before the PUBREL was sent would end a delivery whose release is not on disk.
        if self.released[position].awaits_release.is_some() && !self.released[position].is_sent {
            return Err(AckError::WrongState);
        }
        let released = self.released.remove(position).expect("it was found there");
        self.releases_unsent -= u32::from(!released.is_sent);
        self.releases_counted -= u32::from(released.is_counted);
        Ok(released.sequence)
    }

    /// Forgets a delivery of a session that stands by; false if there is none.
    pub(super) fn forget_released(&mut self, sequence: QueueSequence) -> bool {
        let before = self.released.len();
        self.released
            .retain(|released| released.sequence != Some(sequence));
        self.releases_unsent -= count(before - self.released.len());
        self.released.len() < before
    }

    /// Forgets a delivery that was sent by another session of the client, and not by this one; false if there is none.
    pub(super) fn forget_resumed(&mut self, sequence: QueueSequence) -> bool {
        let sent = self.sent as usize;
        let mut unsent = self.published.iter().skip(sent);
        let place = unsent.position(|published| {
            published.delivery.is_resumed && published.delivery.durable == Some(sequence)
        });
        let found = place.and_then(|place| self.published.remove(sent + place));
        self.own -= found.as_ref().map_or(0, |found| found.delivery.own_bytes());
        found.is_some()
    }

    /// Deliveries that await PUBACK or PUBREC, in the order in which they were sent.
    pub(super) fn published(&self) -> impl Iterator<Item = &Delivery> {
        self.published.iter().map(|published| &published.delivery)
    }

    /// Those that await PUBCOMP, as far as they are durable.
    pub(super) fn released(&self) -> impl Iterator<Item = (QueueSequence, PacketId)> {
        self.released
            .iter()
            .filter_map(|released| Some((released.sequence?, released.packet_id)))
    }

    /// The QoS 1 deliveries of shared subscriptions, in the order in which they were sent.
    pub(super) fn shared(&self) -> impl Iterator<Item = &Delivery> {
        let deliveries = self.published.iter().map(|published| &published.delivery);
        deliveries.filter(|delivery| delivery.share.is_some() && delivery.qos == QoS::AtLeastOnce)
    }

    /// How many deliveries are inflight.
    pub(super) fn len(&self) -> usize {
        self.published.len() + self.released.len()
    }

    /// Its memory, without that of the messages.
    pub(super) fn memory(&self) -> u64 {
        places::<Published>(self.published.capacity())
            + places::<Released>(self.released.capacity())
            + self.own
    }

    /// Forgets deliveries that end with the connection.
    pub(super) fn forget_passing(&mut self) {
        let mut own = 0;
        self.published.retain(|published| {
            let is_passing = published.delivery.is_passing();
            own += if is_passing {
                published.delivery.own_bytes()
            } else {
                0
            };
            !is_passing
        });
        self.own -= own;
        self.sent = self.sent.min(count(self.published.len()));
    }

    /// Gives back memory that it may have taken for a burst.
    pub(super) fn shrink(&mut self) {
        self.published.shrink_to_fit();
        self.released.shrink_to_fit();
    }

    /// Whether a packet identifier is in use.
    pub(super) fn has(&self, packet_id: PacketId) -> bool {
        self.packet_ids().any(|other| other == packet_id)
    }

    /// The packet identifiers in use.
    pub(super) fn packet_ids(&self) -> impl Iterator<Item = PacketId> + Clone {
        let published = self.published.iter().map(|published| published.packet_id);
        published.chain(self.released.iter().map(|released| released.packet_id))
    }

    fn counted(&self) -> usize {
        self.sent as usize + self.releases_counted as usize
    }

    fn take(&mut self, packet_id: PacketId, qos: Option<QoS>) -> Result<Delivery, AckError> {
        let is_it = |published: &Published| published.packet_id == packet_id;
        let Some(position) = self.published.iter().position(is_it) else {
            return Err(self.not_in_this_state(packet_id));
        };
        if qos.is_some_and(|qos| qos != self.published[position].delivery.qos) {
            return Err(AckError::WrongState);
        }
        let published = self.published.remove(position).expect("it was found there");
        self.own -= published.delivery.own_bytes();
        self.sent -= u32::from(position < (self.sent as usize));
        if self.published.is_empty() && self.published.capacity() > CAPACITY_KEPT {
            self.published = VecDeque::new();
        }
        Ok(published.delivery)
    }

    fn not_in_this_state(&self, packet_id: PacketId) -> AckError {
        if self.has(packet_id) {
            AckError::WrongState
        } else {
            AckError::NotFound
        }
    }
}

/// There are never so many that they have no number of 32 bits, which keeps sessions small.
fn count(len: usize) -> u32 {
    u32::try_from(len).expect("memory has no room for more")
}

/// A delivery that has been released for the first time.
#[derive(Debug)]
pub(super) struct NewRelease {
    /// Its record.
    pub(super) sequence: Option<QueueSequence>,
}

/// How much room an empty list keeps: enough for a client that has a few messages inflight all the time.
const CAPACITY_KEPT: usize = 64;
