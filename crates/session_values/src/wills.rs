//! Will of a connection: its message and delay, the end of the connection, and its number.
//!
//! ```text
//! will          Will Delay Interval in seconds (4), content
//! end           0; or 1 (1), delay in seconds (8), nanoseconds beyond them (4)
//! number        number of the message, that is node (8), incarnation (4), number (8);
//!               0 or 1 clock of the message (1), clock (8)
//! ```

use std::time::Duration;

use bytes::BufMut;
use mqtt::records::RecordError;
use mqtt::records::encoding::Reader;
use session_plane::publishing::WillNumber;

use crate::Content;
use crate::fields::{put_dot, put_flag, put_optional_clock, take_dot, take_flag, take_optional_clock};

/// Value of the entry of a will.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WillMessage {
    content: Content,
    /// Seconds.
    delay: u32,
}

impl WillMessage {
    /// Will with this Will Delay Interval in seconds.
    pub fn new(content: Content, delay: u32) -> WillMessage {
        WillMessage { content, delay }
    }

    /// Content of the message. Its Message Expiry Interval begins when it is published: see
    /// [`Content::published_at`].
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Will Delay Interval.
    pub fn delay(&self) -> Duration {
        Duration::from_secs(u64::from(self.delay))
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.put_u32(self.delay);
    }

    /// Reads a will, whose content ends the value.
    pub(crate) fn take(reader: &mut Reader) -> Result<WillMessage, RecordError> {
        let delay = reader.u32()?;
        let content = Content::decode_part(&reader.rest())?;
        Ok(WillMessage { content, delay })
    }
}

/// Appends the end of a connection that has a will.
pub(crate) fn put_will_end(out: &mut Vec<u8>, delay: Option<Duration>) {
    put_flag(out, delay.is_some());
    if let Some(delay) = delay {
        out.put_u64(delay.as_secs());
        out.put_u32(delay.subsec_nanos());
    }
}

/// Reads the end of a connection that has a will.
pub(crate) fn take_will_end(reader: &mut Reader) -> Result<Option<Duration>, RecordError> {
    if !take_flag(reader)? {
        return Ok(None);
    }
    let (seconds, nanos) = (reader.u64()?, reader.u32()?);
    if nanos >= NANOS_OF_A_SECOND {
        return Err(reader.damaged("a delay has a second in its nanoseconds"));
    }
    Ok(Some(Duration::new(seconds, nanos)))
}

/// Appends the number of a will.
pub(crate) fn put_will_number(out: &mut Vec<u8>, number: &WillNumber) {
    put_dot(out, number.number);
    put_optional_clock(out, number.message_clock);
}

/// Reads the number of a will.
pub(crate) fn take_will_number(reader: &mut Reader) -> Result<WillNumber, RecordError> {
    Ok(WillNumber {
        number: take_dot(reader)?,
        message_clock: take_optional_clock(reader)?,
    })
}

const NANOS_OF_A_SECOND: u32 = 1_000_000_000;
