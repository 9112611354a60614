//! Deliveries that a session leaves which gives way, and what its client has acknowledged there.

use std::sync::Arc;

use cluster::NodeId;
use mqtt::ids::{QueueSequence, SessionKey, SessionNumber};
use mqtt::message::Delivery;
use mqtt::now::Now;
use mqtt::records;
use mqtt::records::queue::QueueRecord;
use mqtt::session::got::Got;
use mqtt::session::{Change as Acknowledged, PushOutcome};
use protocol::packet::{PacketId, QoS};

use super::messages::{Leavings, Left};
use super::taking_in::TakingIn;
use crate::node::Node;
use crate::sessions::SessionEntry;

impl Node {
    /// What both had, and the client has acknowledged there, is over here as well.
    pub(super) fn take_acknowledged(&mut self, key: SessionKey, taking_in: &TakingIn, leavings: &Leavings) {
        let base = taking_in.common_below();
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let number = entry.session.number;
        let remaining = &leavings.remaining;
        for (sequence, record) in entry.session.durable_deliveries() {
            if sequence.0 >= base || matches!(record, QueueRecord::Released { .. }) {
                continue;
            }
            let there = remaining.binary_search_by_key(&sequence.0, |(sequence, _)| *sequence);
            let there = there.ok().map(|place| remaining[place].1);
            let change = match there {
                // It waits there, too.
                Some(None) => continue,
                Some(Some(packet_id)) => Acknowledged::Release { sequence, packet_id },
                None => Acknowledged::Remove {
                    sequence,
                    is_written_once: true,
                },
            };
            // One that this node has just sent is acknowledged to it.
            if entry.session.forget_delivery(sequence).is_none() {
                continue;
            }
            if let Acknowledged::Release { sequence, packet_id } = change {
                entry.session.take_released(sequence, packet_id);
            }
            if let Some(write) = records::queue::change(number, change) {
                self.commits.write(write);
            }
        }
    }

    /// What the client has acknowledged there is over here as well, wherever it has come from.
    pub(super) fn take_got_there(&mut self, place: (NodeId, SessionNumber), got: &Got) {
        let Some(copies) = &self.copies else { return };
        let Some(number) = copies.taking_in.get(&place).copied() else {
            return;
        };
        let ranges_max = copies.noted_ranges();
        let taking_in = copies.held.get(&number).and_then(|held| held.taking_in.as_ref());
        let Some(base) = taking_in.map(|taking_in| taking_in.common_below()) else {
            return;
        };
        let key = self.key_of(number);
        let Some(entry) = key.and_then(|key| self.sessions.get_mut(key)) else {
            return;
        };
        if let Some(ranges_max) = ranges_max {
            entry.session.note_all_got(got, ranges_max);
        }
        for (sequence, record) in entry.session.durable_deliveries() {
            let is_there = matches!(&record, QueueRecord::Waiting(delivery) if got.has(delivery));
            // Of what both had there follows word which of it awaits PUBREL. One that this node has just sent is acknowledged to it.
            if is_there && sequence.0 >= base && entry.session.forget_delivery(sequence).is_some() {
                self.commits.write(records::queue::remove_once(number, sequence));
            }
        }
    }

    /// The client's own messages of QoS 2 are as it has left them.
    pub(super) fn take_received(&mut self, key: SessionKey, taking_in: &TakingIn, leavings: &Leavings) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let number = entry.session.number;
        let held = self.copies.as_ref().and_then(|copies| copies.held.get(&number));
        let was_here = entry.session.is_connected()
            || held.is_some_and(|held| held.marks.as_ref().is_some_and(|marks| marks.had_client));
        if was_here || !taking_in.had_client {
            return;
        }
        let received = &mut entry.session.received;
        let before: Vec<PacketId> = received.iter().collect();
        for packet_id in before.iter().filter(|id| !leavings.received.contains(id)) {
            received.release(*packet_id);
            self.commits.write(records::received::remove(number, *packet_id));
        }
        for packet_id in leavings.received.iter().filter(|id| !before.contains(id)) {
            received.insert(*packet_id);
            self.commits.write(records::received::put(number, *packet_id));
        }
    }

    /// A delivery that is left.
    pub(super) fn take_left(
        &mut self,
        now: Now,
        key: SessionKey,
        taking_in: &mut TakingIn,
        (left, sent_below): (Left, u64),
    ) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let number = entry.session.number;
        let place = taking_in.place_of(left.sequence, entry.session.next_sequence());
        let place_key = records::queue::key(number, place);
        // What does not fit is not what this version writes.
        let Ok((_, _, record)) = records::queue::decode(&place_key, left.value.clone(), now) else {
            return;
        };
        let mut delivery = match record {
            QueueRecord::Released { packet_id } => {
                if !entry.session.is_in_use(packet_id) {
                    entry.session.take_released(place, packet_id);
                    self.commits.write(records::queue::put(number, place, left.value));
                }
                return;
            }
            QueueRecord::Waiting(delivery) => delivery,
        };
        delivery.dup = left.sequence < sent_below || delivery.is_resumed;
        delivery.is_resumed = delivery.dup && delivery.qos == QoS::ExactlyOnce;
        let is_known = left.is_known && is_subscribed(entry, taking_in, &delivery);
        if is_known || entry.session.has_got(&delivery) {
            // It comes with another packet identifier. That which the client may know from there is free for others when it has heard PUBREL.
            let packet_id = place.packet_id();
            if delivery.is_resumed && !entry.session.is_in_use(packet_id) {
                entry.session.take_released(place, packet_id);
                let released = QueueRecord::Released { packet_id };
                let write = records::queue::put_record(number, place, &released, now);
                self.commits.write(write);
            }
            if let Some(copies) = &mut self.copies {
                copies.figures.merged_twice += 1;
            }
            return;
        }
        let message = Arc::get_mut(&mut delivery.message).expect("a decoded message is nobody else's");
        message.held = self.memory.messages.hold(message.memory());
        self.keep_left(now, key, (place, delivery));
    }

    fn keep_left(&mut self, now: Now, key: SessionKey, (place, mut delivery): (QueueSequence, Delivery)) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let number = entry.session.number;
        let got = Got::id_of(&delivery);
        // Else it waits for its turn, as if it had not been sent.
        delivery.is_resumed &= entry.session.has_room_for_sent(place);
        let value = records::queue::value(&delivery, now);
        let mut dropped = Vec::new();
        let outcome = if delivery.is_resumed {
            entry.session.take_sent(place, delivery);
            PushOutcome::Queued { durable: Some(place) }
        } else {
            entry.session.push_at(now, place, delivery, &mut dropped)
        };
        match outcome {
            PushOutcome::Queued { .. } => {
                self.commits.write(records::queue::put(number, place, value));
                if let Some(copies) = &mut self.copies {
                    copies.figures.merged_messages += 1;
                    copies.note_got(&mut entry.session, got);
                }
            }
            PushOutcome::Dropped(cause) => self.counters.dropped.count(cause),
        }
        self.forget(number, &dropped);
    }
}

impl TakingIn {
    /// Before this sequence both had the same.
    fn common_below(&self) -> u64 {
        match self.base.filter(|base| base.is_common) {
            _ if self.replaces => QueueSequence::MAX,
            Some(base) => base.sequence,
            None => 0,
        }
    }

    /// Where a delivery that is left stands in the queue: behind everything that is there, with the packet identifier that it had.
    fn place_of(&mut self, sequence: u64, next: u64) -> QueueSequence {
        let missing = next.saturating_sub(sequence.saturating_add(self.shift));
        self.shift += missing.next_multiple_of(QueueSequence::PACKET_IDS);
        QueueSequence(sequence.saturating_add(self.shift).min(QueueSequence::MAX - 1))
    }
}

/// Whether the session had subscribed to a message before the other one's filters came.
fn is_subscribed(entry: &SessionEntry, taking_in: &TakingIn, delivery: &Delivery) -> bool {
    let topic = delivery.message.topic.as_str();
    let mut filters = entry.session.filters.iter().map(|(filter, _)| filter);
    filters.any(|filter| {
        filter.share.is_none() && !taking_in.joined.contains(filter) && filter.filter.matches(topic)
    })
}
