//! Room for the reply to a request in the Maximum Packet Size of the client that asks.

use bytes::Bytes;
use protocol::packet::Publish;
use protocol::state_store::REPLY_TOO_LARGE_BYTES_MAX;

use crate::service::Refused;

/// Bytes of payload that fit a client of this Maximum Packet Size in the reply to a request: in one without `__ts`.
///
/// # Errors
/// If the client takes no packet with an error.
pub fn room(request: &Publish, packet_size_max: u32) -> Result<usize, Refused> {
    let topic = request.properties.response_topic.as_ref();
    let topic = topic.map_or(0, |topic| topic.len());
    let correlation_data = request.properties.correlation_data.as_ref();
    let correlation_data = correlation_data.map_or(0, Bytes::len);
    let taken = FIXED_BYTES + topic + correlation_data;
    let room = usize::try_from(packet_size_max)
        .unwrap_or(usize::MAX)
        .saturating_sub(taken);
    if room < REPLY_TOO_LARGE_BYTES_MAX {
        return Err(Refused::NotARequest(
            "the Maximum Packet Size of the client has no room for a reply",
        ));
    }
    Ok(room)
}

/// Bytes of a reply besides its topic, correlation data and payload: fixed header 5, lengths of topic and properties 6,
/// packet identifier 2, Message Expiry Interval 5, head of the correlation data 3, `__stat` and `__protVer` 31, and four
/// Subscription Identifiers 20.
const FIXED_BYTES: usize = 72;
