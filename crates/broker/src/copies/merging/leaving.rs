//! What a session that gives way leaves to the other one.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::NodeId;
use cluster::write::Write;
use mqtt::ids::{QueueSequence, SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::origin::Origin;
use mqtt::records;
use mqtt::records::queue::QueueRecord;
use mqtt::session::Session;
use protocol::Text;
use protocol::packet::QoS;

use super::messages::{Joined, Leave, Leavings, Left};
use crate::copies::Held;
use crate::copies::offering::{PART_BYTES, suffix_and_value};
use crate::node::Node;
use crate::routes::{Since, TakenAt};

/// What the other node has of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    Nothing,
    /// The message, if its session was subscribed to it.
    Message,
    /// The delivery, with another packet identifier.
    Renamed,
    /// The delivery.
    Everything,
}

impl Node {
    /// The subscriptions of a session, in parts.
    pub(super) fn leave_parts(
        &self,
        now: Now,
        (key, to): (SessionKey, NodeId),
        had_client: bool,
    ) -> Vec<Leave> {
        let Some(entry) = self.sessions.get(key) else {
            return Vec::new();
        };
        let (number, client_id) = (entry.session.number, entry.session.client_id.clone());
        let mut parts = vec![Leave {
            is_first: true,
            had_client,
            record: match self.session_record(now, key) {
                Some(Write::Put { value, .. }) => value,
                _ => Bytes::new(),
            },
            ..self.known_of_parting(number, client_id.clone(), to)
        }];
        let mut bytes = 0;
        for (filter, subscription) in entry.session.filters.iter() {
            let place = entry.due.place_of(filter);
            let write = records::subscription::put(number, filter, subscription, place);
            let Some((filter, value)) = suffix_and_value(write) else {
                continue;
            };
            if bytes > PART_BYTES {
                bytes = 0;
                parts.push(Leave::of(number, client_id.clone()));
            }
            bytes += filter.len() + value.len();
            if let Some(part) = parts.last_mut() {
                part.subscriptions.push((filter, value));
            }
        }
        if let Some(last) = parts.last_mut() {
            last.is_last = true;
        }
        parts
    }

    /// Where a session has parted from what another node has.
    fn known_of_parting(&self, number: SessionNumber, client_id: Text, to: NodeId) -> Leave {
        let leave = Leave::of(number, client_id);
        let copies = self.copies.as_ref();
        let held = copies.and_then(|copies| copies.held.get(&number));
        let Some(held) = held else { return leave };
        let leave = Leave {
            clock: held.clock.clone(),
            ..leave
        };
        let Some(marks) = &held.marks else { return leave };
        let of_copy = marks.nodes.iter().find(|mark| mark.number.is_some());
        let mut of_receiver = marks.nodes.iter().filter(|mark| mark.node == to);
        let lost = of_receiver.find(|mark| mark.number.is_none());
        Leave {
            is_incomplete: marks.is_incomplete,
            is_clean: marks.is_clean,
            mark: of_copy.copied(),
            lost_at: lost.map(|mark| mark.next_sequence),
            subscribed: marks.subscribed.iter().cloned().collect(),
            unsubscribed: marks.unsubscribed.iter().cloned().collect(),
            ..leave
        }
    }

    /// What another node lacks of the deliveries from `first` on, in parts.
    pub(super) fn leavings(
        &self,
        now: Now,
        key: SessionKey,
        (Joined { base, taken }, first): (Joined, u64),
        answers: &BTreeMap<NodeId, Since>,
    ) -> Vec<Leavings> {
        let (Some(copies), Some(entry)) = (&self.copies, self.sessions.get(key)) else {
            return Vec::new();
        };
        let session = &entry.session;
        let Some(held) = copies.held.get(&session.number) else {
            return Vec::new();
        };
        let Some(to) = held.giving.as_ref().map(|giving| giving.to) else {
            return Vec::new();
        };
        let empty = |is_first| Leavings {
            number: session.number,
            is_first,
            is_last: false,
            sent_below: session.sent_below(),
            remaining: Vec::new(),
            received: Vec::new(),
            deliveries: Vec::new(),
        };
        let is_first = base.map_or(0, |base| base.sequence) == first;
        let mut parts = vec![empty(is_first)];
        if is_first && held.giving.as_ref().is_some_and(|giving| giving.had_client) {
            parts[0].received = session.received.iter().collect();
        }
        let mut bytes = 0;
        for (sequence, record) in session.durable_deliveries() {
            let part = parts.last_mut().expect("there is one");
            let packet_id = match &record {
                QueueRecord::Released { packet_id } => Some(*packet_id),
                QueueRecord::Waiting(_) => None,
            };
            if sequence.0 < first && base.is_some_and(|base| base.is_common) {
                if is_first {
                    part.remaining.push((sequence.0, packet_id));
                }
                continue;
            }
            let known = if sequence.0 < first {
                of_third(&record, is_first)
            } else if base.is_none() && sequence.0 < held.recovered_below {
                // The other session is no copy of this one.
                Known::Nothing
            } else {
                self.known_of((held, session), (to, taken), (sequence, &record), answers)
            };
            let record = match known {
                Known::Nothing | Known::Message => record,
                // The client may know the packet identifier that it has here: it is not free before PUBREL.
                Known::Renamed if may_be_received(&record, sequence.0 < session.sent_below()) => {
                    let packet_id = sequence.packet_id();
                    QueueRecord::Released { packet_id }
                }
                Known::Renamed | Known::Everything => continue,
            };
            let write = records::queue::put_record(session.number, sequence, &record, now);
            let Some((_, value)) = suffix_and_value(write) else {
                continue;
            };
            if bytes > PART_BYTES {
                bytes = 0;
                parts.push(empty(false));
            }
            bytes += value.len();
            let left = Left {
                sequence: sequence.0,
                is_known: known == Known::Message,
                value,
            };
            parts.last_mut().expect("there is one").deliveries.push(left);
        }
        parts.last_mut().expect("there is one").is_last = true;
        parts
    }

    /// What another node has of a delivery of a session that gives way to it.
    fn known_of(
        &self,
        (held, session): (&Held, &Session),
        (to, taken): (NodeId, Option<TakenAt>),
        (sequence, record): (QueueSequence, &QueueRecord),
        answers: &BTreeMap<NodeId, Since>,
    ) -> Known {
        if sequence.0 < held.recovered_below {
            // It is not known any more where it came from. What the owners had when they were lost they have; and what they had not, when nobody was lost, comes again.
            let mark = held.marks.as_ref();
            let mark = mark.and_then(|marks| marks.nodes.iter().find(|mark| mark.node == to));
            let is_new = mark.is_some_and(|mark| mark.next_sequence <= sequence.0);
            return if is_new { Known::Nothing } else { Known::Everything };
        }
        let QueueRecord::Waiting(delivery) = record else {
            return Known::Nothing;
        };
        // It was for this session alone; or what the other one has noted says more than what its node was sent.
        if delivery.share.is_some() || session.has_got(delivery) {
            return Known::Nothing;
        }
        match delivery.message.origin {
            Origin::Unknown => Known::Nothing,
            origin @ Origin::Own { .. } => {
                let has_sent = self
                    .peers
                    .as_ref()
                    .is_some_and(|peers| peers.has_sent(to, taken, origin));
                if has_sent { Known::Message } else { Known::Nothing }
            }
            Origin::Node { node, position } => {
                let since = answers.get(&node);
                let Some(since) = since.filter(|since| since.incarnation == position.incarnation) else {
                    return Known::Nothing;
                };
                let number = position.number;
                let is_within = |(after, up_to): &(u64, u64)| (after + 1..=*up_to).contains(&number);
                if since.redirected.iter().any(is_within) {
                    Known::Renamed
                } else if number > since.of_session(taken) {
                    Known::Message
                } else {
                    Known::Nothing
                }
            }
        }
    }
}

/// What another node has of a delivery that both may have from a third one: left is which of it awaits PUBREL.
fn of_third(record: &QueueRecord, is_first: bool) -> Known {
    match record {
        QueueRecord::Released { .. } if is_first => Known::Nothing,
        _ => Known::Everything,
    }
}

/// Whether the client may have a delivery, and keep its packet identifier until it hears PUBREL.
fn may_be_received(record: &QueueRecord, was_sent: bool) -> bool {
    let QueueRecord::Waiting(delivery) = record else {
        return false;
    };
    delivery.qos == QoS::ExactlyOnce && (was_sent || delivery.is_resumed)
}
