//! Values of the planes of the tests: retained messages only.

use std::time::Duration;

use bytes::Bytes;

use crate::RecordValue;
use crate::plane::NumberedValue;
use crate::publishing::{PacketUse, WillNumber};
use crate::queue_limits::QueueValue;
use crate::transfer::{TransferBytes, TransferValue};
use crate::wills::{WillPart, WillValue};

/// Message that a topic retains: which one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Text(pub(super) u64);

impl TransferBytes for Text {
    fn bytes(&self) -> usize {
        8
    }
}

impl QueueValue for Text {
    fn queue_bytes(&self) -> u64 {
        0
    }

    fn expires_at(&self) -> Option<u64> {
        None
    }
}

impl TransferValue for Text {
    fn append_digest(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.0.to_be_bytes());
    }
}

impl RecordValue for Text {
    fn content(&self) -> Option<Bytes> {
        None
    }

    fn to_record(&self) -> Bytes {
        Bytes::copy_from_slice(&self.0.to_be_bytes())
    }

    fn from_record(record: Bytes, content: Option<Bytes>) -> Option<Text> {
        assert_eq!(content, None);
        Some(Text(u64::from_be_bytes(record.first_chunk().copied()?)))
    }
}

impl WillValue for Text {
    fn will_part(&self) -> Option<WillPart> {
        None
    }
}

impl NumberedValue<()> for Text {
    fn of_use(_: PacketUse, _: Option<()>) -> Text {
        unreachable!("no client publishes")
    }

    fn packet_use(&self) -> Option<PacketUse> {
        None
    }

    fn of_will_number(_: WillNumber) -> Text {
        unreachable!("no client has a will")
    }

    fn of_will_end(_: Option<Duration>) -> Text {
        unreachable!("no client has a will")
    }

    fn body(&self) -> Option<()> {
        None
    }
}
