//! Message of a queue: the content that all receivers share, and what differs between them.
//!
//! ```text
//! QoS and RETAIN << 2 (1), number of Subscription Identifiers (2), each (4), content
//! ```
//!
//! The record of a queued message ends before its content, which has a record of its own.

use bytes::{BufMut, Bytes};
use mqtt::records::RecordError;
use mqtt::records::encoding::Reader;
use mqtt::records::message;
use protocol::packet::{QoS, SubscriptionId};

use crate::encoding::RECORD;
use crate::{Content, SubscriptionTerms, memory};

/// Subscription Identifiers of a queued message at most. Further ones are left out.
pub const SUBSCRIPTION_IDS_MAX: usize = 65_535;

/// Message that waits for a client, or is on its way to one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuedMessage {
    content: Content,
    qos: QoS,
    retain: bool,
    subscription_ids: SubscriptionIds,
}

/// Subscription Identifiers of a message. Most have none or one, which take no memory of their own.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum SubscriptionIds {
    One(Option<SubscriptionId>),
    /// Two at least.
    Several(Box<[SubscriptionId]>),
}

impl QueuedMessage {
    /// Message to deliver with this QoS and this RETAIN flag, for the subscriptions with these
    /// identifiers. [MQTT-3.3.4-3] [MQTT-3.3.4-4]
    pub fn new(
        content: Content,
        qos: QoS,
        retain: bool,
        subscription_ids: &[SubscriptionId],
    ) -> QueuedMessage {
        let count = subscription_ids.len().min(SUBSCRIPTION_IDS_MAX);
        let subscription_ids = match &subscription_ids[..count] {
            [] => SubscriptionIds::One(None),
            [id] => SubscriptionIds::One(Some(*id)),
            several => SubscriptionIds::Several(several.into()),
        };
        QueuedMessage {
            content,
            qos,
            retain,
            subscription_ids,
        }
    }

    /// Message of a shared group as a member with this subscription gets it: with the lower QoS, and with its
    /// identifier. [MQTT-3.8.4-8] [MQTT-3.3.4-3] RETAIN is as published if the member asks for it.
    /// [MQTT-3.3.1-13]
    pub(crate) fn of_member(&self, terms: &SubscriptionTerms) -> QueuedMessage {
        let options = terms.options();
        let (qos, retain) = (
            self.qos.min(options.qos),
            self.content.retain() && options.retain_as_published,
        );
        QueuedMessage::new(self.content.clone(), qos, retain, terms.id().as_slice())
    }

    /// Content, which all queues of the message share.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// QoS to deliver with.
    pub fn qos(&self) -> QoS {
        self.qos
    }

    /// RETAIN flag to send.
    pub fn retain(&self) -> bool {
        self.retain
    }

    /// Identifiers of the subscriptions that matched.
    pub fn subscription_ids(&self) -> &[SubscriptionId] {
        match &self.subscription_ids {
            SubscriptionIds::One(id) => id.as_slice(),
            SubscriptionIds::Several(several) => several,
        }
    }

    pub(crate) fn memory(&self) -> usize {
        let ids = self.subscription_ids().len() * memory::SUBSCRIPTION_ID;
        ids + self.content.memory()
    }

    /// Appends all but the content.
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let ids = self.subscription_ids();
        out.put_u8(self.qos as u8 | u8::from(self.retain) << RETAIN);
        out.put_u16(u16::try_from(ids.len()).expect("a message has a limited number of identifiers"));
        for id in ids {
            out.put_u32(id.get());
        }
    }

    /// Reads a message, whose content follows or is `separate`.
    pub(crate) fn take(reader: &mut Reader, separate: Option<Bytes>) -> Result<QueuedMessage, RecordError> {
        let flags = reader.u8()?;
        if flags >> FLAGS != 0 {
            return Err(reader.damaged("unknown flags of a queued message"));
        }
        let qos = message::qos(reader, u16::from(flags & QOS))?;
        let retain = flags >> RETAIN & 1 == 1;
        let ids = take_subscription_ids(reader)?;
        let content = match separate {
            Some(content) => Content::decode(content)?,
            None => Content::decode_part(&reader.rest())?,
        };
        Ok(QueuedMessage::new(content, qos, retain, &ids))
    }
}

/// Reads identifiers, of which the bytes are there.
fn take_subscription_ids(reader: &mut Reader) -> Result<Vec<SubscriptionId>, RecordError> {
    let count = usize::from(reader.u16()?);
    let mut ids = Reader::of_rest(reader.take(count * ID_BYTES)?, RECORD);
    let mut read = Vec::with_capacity(count);
    while !ids.is_empty() {
        let id = ids.subscription_id()?;
        read.push(ids.require(id, "a subscription identifier is 0")?);
    }
    Ok(read)
}

const QOS: u8 = 0b11;
/// Place of the RETAIN flag.
const RETAIN: u8 = 2;
/// Number of the flags that have a meaning.
const FLAGS: u8 = 3;
const ID_BYTES: usize = 4;
