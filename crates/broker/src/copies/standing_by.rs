//! A copy of a session that another node holds: kept up to date on disk and in memory, and not in the index of subscriptions, without timers, and
//! known to nobody. When its holder is lost, it is the session (`taking_over.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cluster::session_plane::{Actor, VectorClock};
use cluster::{NodeId, Write};
use mqtt::ids::{QueueSequence, SessionNumber};
use mqtt::limits::SessionLimits;
use mqtt::memory::MessageBytes;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records;
use mqtt::records::RecordError;
use mqtt::records::queue::QueueRecord;
use mqtt::records::session::{Presence, SessionRecord};
use mqtt::session::Session;
use mqtt::session::got::Got;
use mqtt::subscriptions::Subscription;
use protocol::Text;
use protocol::packet::PacketId;
use protocol::topic::SubscriptionFilter;

use super::messages::{Change, Other};
use crate::cluster_records;
use crate::cluster_records::copy::CopyRecord;

/// A copy.
#[derive(Debug)]
pub(crate) struct StandingBy {
    /// With this node's number.
    pub(super) session: Session,
    /// As its holder has written it last, but with this node's number. `None`: it has not come.
    pub(super) record: Option<SessionRecord>,
    /// Retained messages that are due for a subscription, from where on.
    pub(super) due: BTreeMap<SubscriptionFilter, Vec<u8>>,
    pub(super) holder: Actor,
    /// Its holder's number.
    pub(super) number_there: SessionNumber,
    /// Empty while it has not come whole.
    pub(super) clock: VectorClock,
    /// The latest time that its holder has said what it holds, in which it has named this.
    pub(super) named: u64,
    /// The node that holds it, and how many losses this one knew of when it came to know that; of one that a restart has found as many as there may be.
    pub(super) held_since: (NodeId, u64),
    /// Who has offered another one that this was kept instead of, and its number there.
    pub(super) refused: Option<Box<(NodeId, SessionNumber)>>,
}

/// Something that does not fit the copy: it has to come whole.
#[derive(Debug)]
pub(crate) struct Misfit;

impl From<RecordError> for Misfit {
    fn from(_: RecordError) -> Self {
        Self
    }
}

/// What the changes of one item need that is not the session's.
pub(super) struct Surroundings<'a> {
    pub(super) now: Now,
    pub(super) messages: &'a MessageBytes,
    /// The message that was read last, and its bytes: many sessions have the same.
    pub(super) latest: Option<(Bytes, Arc<Message>)>,
    /// How many ranges of numbers of messages it may note, if any.
    pub(super) noted_ranges: Option<usize>,
    pub(super) writes: Vec<Write>,
}

impl StandingBy {
    /// One of which nothing has come.
    pub(super) fn new(
        number: SessionNumber,
        client_id: Text,
        limits: SessionLimits,
        (holder, number_there): (Actor, SessionNumber),
    ) -> Self {
        Self {
            session: Session::new(number, client_id, limits),
            record: None,
            due: BTreeMap::new(),
            holder,
            number_there,
            clock: VectorClock::new(),
            named: 0,
            held_since: (holder.node, u64::MAX),
            refused: None,
        }
    }

    /// As a restart finds it; its subscriptions, received packet ids and deliveries are added after that.
    pub(crate) fn restore(
        client_id: Text,
        limits: SessionLimits,
        (record, clock): (SessionRecord, VectorClock),
        holder: (Actor, SessionNumber),
    ) -> Self {
        Self {
            clock,
            ..Self::new(record.number, client_id, limits, holder)
        }
        .with_record(record)
    }

    /// Whether it is as its holder has said, and may be the session.
    pub(crate) fn is_whole(&self) -> bool {
        self.record.is_some() && !self.clock.is_empty()
    }

    /// What another holder is told of it.
    pub(super) fn as_other(&self) -> Other {
        let presence = self.record.as_ref().map(|record| record.presence);
        Other {
            clock: self.clock.clone(),
            holder: self.holder.node,
            is_connected: matches!(presence, Some(Presence::Connected { .. })),
        }
    }

    /// Takes what its holder has changed, and writes the same.
    pub(super) fn take(
        &mut self,
        changes: Vec<Change>,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<(), Misfit> {
        changes
            .into_iter()
            .try_for_each(|change| self.change(change, surroundings))
    }

    /// Writes which of the session's changes are here.
    pub(super) fn put(&self) -> Write {
        let record = CopyRecord {
            clock: self.clock.clone(),
            holder: Some((self.holder, self.number_there)),
            taken_from: None,
            marks: None,
        };
        cluster_records::copy::put(self.session.number, &record)
    }

    /// Removes it from the disk.
    pub(super) fn remove(&self) -> impl Iterator<Item = Write> + use<> {
        let number = self.session.number;
        let own = [
            records::session::remove(&self.session.client_id),
            cluster_records::copy::remove(number),
        ];
        own.into_iter().chain(records::remove_all(number))
    }

    fn change(&mut self, change: Change, surroundings: &mut Surroundings<'_>) -> Result<(), Misfit> {
        let number = self.session.number;
        let key = |suffix: &Bytes| [&number.0.to_be_bytes()[..], suffix].concat();
        match change {
            Change::Session(value) => {
                let (_, record) = records::session::decode(self.session.client_id.as_bytes(), value)?;
                let record = SessionRecord { number, ..record };
                surroundings
                    .writes
                    .push(records::session::put(&self.session.client_id, &record));
                self.record = Some(record);
            }
            Change::Subscribed(suffix, value) => {
                let (_, filter, subscription, place) = records::subscription::decode(&key(&suffix), value)?;
                let place_of = place.as_deref();
                surroundings.writes.push(records::subscription::put(
                    number,
                    &filter,
                    &subscription,
                    place_of,
                ));
                self.restore_subscription(filter, subscription, place);
            }
            Change::Unsubscribed(suffix) => {
                let filter = records::subscription::filter_of(&key(&suffix))?;
                self.session.filters.remove(&filter);
                self.due.remove(&filter);
                surroundings
                    .writes
                    .push(records::subscription::remove(number, &filter));
            }
            Change::Delivery(suffix, value) => self.deliver(&key(&suffix), value, surroundings)?,
            Change::Delivered(suffix) => {
                let sequence = records::queue::sequence_of(&key(&suffix))?;
                if let Some(is_written_once) = self.session.forget_delivery(sequence) {
                    let change = mqtt::session::Change::Remove {
                        sequence,
                        is_written_once,
                    };
                    surroundings.writes.extend(records::queue::change(number, change));
                }
            }
            Change::Received(suffix) => {
                let packet_id = records::received::packet_id_of(&key(&suffix))?;
                self.session.received.insert(packet_id);
                surroundings
                    .writes
                    .push(records::received::put(number, packet_id));
            }
            Change::Released(suffix) => {
                let packet_id = records::received::packet_id_of(&key(&suffix))?;
                self.session.received.release(packet_id);
                surroundings
                    .writes
                    .push(records::received::remove(number, packet_id));
            }
        }
        Ok(())
    }

    fn deliver(
        &mut self,
        key: &[u8],
        value: Bytes,
        surroundings: &mut Surroundings<'_>,
    ) -> Result<(), Misfit> {
        let known = surroundings
            .latest
            .as_ref()
            .filter(|(bytes, _)| bytes.as_ptr() == value.as_ptr() && bytes.len() == value.len());
        let known = known.map(|(_, message)| Arc::clone(message));
        let (number, sequence, mut record) = records::queue::decode(key, value.clone(), surroundings.now)?;
        match &mut record {
            QueueRecord::Released { packet_id } => {
                // A record that was replaced before, or is gone, cannot be.
                let is_new = sequence.0 >= self.session.next_sequence();
                if self.session.forget_delivery(sequence) != Some(true) && !is_new {
                    return Err(Misfit);
                }
                let packet_id = *packet_id;
                let change = mqtt::session::Change::Release { sequence, packet_id };
                surroundings.writes.extend(records::queue::change(number, change));
            }
            QueueRecord::Waiting(delivery) => {
                if sequence.0 < self.session.next_sequence() {
                    return Err(Misfit);
                }
                match known {
                    Some(message) => delivery.message = message,
                    None => {
                        let message =
                            Arc::get_mut(&mut delivery.message).expect("a decoded message is nobody else's");
                        message.held = surroundings.messages.hold(message.memory());
                        surroundings.latest = Some((value.clone(), Arc::clone(&delivery.message)));
                    }
                }
                if let (Some(ranges_max), Some(id)) = (surroundings.noted_ranges, Got::id_of(delivery)) {
                    self.session.note_got(id, ranges_max);
                }
                surroundings
                    .writes
                    .push(records::queue::put(number, sequence, value));
            }
        }
        self.restore_delivery(sequence, record);
        Ok(())
    }

    fn with_record(mut self, record: SessionRecord) -> Self {
        self.record = Some(record);
        self
    }

    pub(crate) fn restore_subscription(
        &mut self,
        filter: SubscriptionFilter,
        subscription: Subscription,
        place: Option<Vec<u8>>,
    ) {
        self.session.filters.insert(&filter, subscription);
        match place {
            Some(place) => self.due.insert(filter, place),
            None => self.due.remove(&filter),
        };
    }

    pub(crate) fn restore_received(&mut self, packet_id: PacketId) {
        self.session.received.insert(packet_id);
    }

    pub(crate) fn restore_delivery(&mut self, sequence: QueueSequence, record: QueueRecord) {
        self.session.restore_delivery(sequence, record);
    }
}
