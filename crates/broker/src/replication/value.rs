//! Values of the plane: what topics retain. Sessions are not on it yet, so it has no messages and nothing that matches them.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use mqtt::records::topic_value::{self, TopicValue};
use session_plane::interests::InterestChange;
use session_plane::plane::{CopyRef, Matching, NumberedValue};
use session_plane::publishing::{PacketUse, WillNumber};
use session_plane::queue_limits::QueueValue;
use session_plane::transfer::{TransferBytes, TransferValue};
use session_plane::wills::{WillPart, WillValue};
use session_plane::wire::WireValue;
use session_plane::{ClientId, Dot, Matched, Pending, RecordValue, SlotSet};

/// Value of a topic, as bytes in the format of [`topic_value`].
///
/// *Invariant*: the bytes are such a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RetainedValue(Bytes);

/// Content of messages: there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoMessage {}

/// Sessions that messages match: there are none.
#[derive(Debug)]
pub(crate) struct NoSessions;

impl RetainedValue {
    /// Value with these bytes, which [`topic_value::encode`] made.
    pub(super) fn of_encoded(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The value, read.
    pub(super) fn read(&self) -> TopicValue {
        topic_value::read(self.0.clone()).expect("a value was checked when it came")
    }

    /// Value of bytes that share the memory of something larger.
    fn checked(bytes: &Bytes) -> Option<Self> {
        let own = Bytes::copy_from_slice(bytes);
        topic_value::decode(own.clone()).is_ok().then_some(Self(own))
    }
}

impl TransferBytes for RetainedValue {
    fn bytes(&self) -> usize {
        self.0.len()
    }
}

impl TransferValue for RetainedValue {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0);
    }
}

impl WireValue for RetainedValue {
    fn to_bytes(&self) -> Bytes {
        self.0.clone()
    }

    fn from_bytes(bytes: Bytes) -> Option<Self> {
        Self::checked(&bytes)
    }
}

impl RecordValue for RetainedValue {
    fn content(&self) -> Option<Bytes> {
        None
    }

    fn to_record(&self) -> Bytes {
        self.0.clone()
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Self> {
        Self::checked(&record).filter(|_| content.is_none())
    }
}

impl WillValue for RetainedValue {
    fn will_part(&self) -> Option<WillPart> {
        None
    }
}

impl QueueValue for RetainedValue {
    fn queue_bytes(&self) -> u64 {
        0
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

impl NumberedValue<NoMessage> for RetainedValue {
    fn of_use(_: PacketUse, _: Option<NoMessage>) -> Self {
        unreachable!("the plane of retained messages has no packet ids")
    }

    fn packet_use(&self) -> Option<PacketUse> {
        None
    }

    fn of_will_number(_: WillNumber) -> Self {
        unreachable!("the plane of retained messages has no wills")
    }

    fn of_will_end(_: Option<Duration>) -> Self {
        unreachable!("the plane of retained messages has no wills")
    }

    fn body(&self) -> Option<NoMessage> {
        None
    }
}

impl TransferBytes for NoMessage {
    fn bytes(&self) -> usize {
        match *self {}
    }
}

impl WireValue for NoMessage {
    fn to_bytes(&self) -> Bytes {
        match *self {}
    }

    fn from_bytes(_: Bytes) -> Option<Self> {
        None
    }
}

impl RecordValue for NoMessage {
    fn content(&self) -> Option<Bytes> {
        match *self {}
    }

    fn to_record(&self) -> Bytes {
        match *self {}
    }

    fn from_record(_: Bytes, _: Option<Bytes>) -> Option<Self> {
        None
    }
}

impl Matching<RetainedValue, NoMessage> for NoSessions {
    fn matches(
        &self,
        _: &CopyRef<'_, RetainedValue>,
        _: Dot,
        pending: &Pending<NoMessage>,
    ) -> Vec<Matched<RetainedValue>> {
        match pending.message {}
    }

    fn slots(&self, _: &CopyRef<'_, RetainedValue>, message: &NoMessage) -> SlotSet {
        match *message {}
    }

    fn subscribe(&mut self, _: &ClientId, _: &[&RetainedValue]) {}

    fn nodes(&self, message: &NoMessage) -> BTreeSet<NodeId> {
        match *message {}
    }

    fn learn(&mut self, _: NodeId, _: InterestChange) {}

    fn forget(&mut self, _: NodeId) {}

    fn interests(&self, _: NodeId) -> usize {
        0
    }
}
