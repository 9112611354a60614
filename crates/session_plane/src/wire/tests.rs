use bytes::Bytes;

use super::*;

mod connecting_messages;
mod contents;
mod damage;
mod feed_messages;
mod golden;
mod groups_messages;
mod interest_messages;
mod kinds;
mod limits;
mod membership_messages;
mod publishing_messages;
mod refusals;
mod refused_routes;
mod refused_sessions;
mod samples;
mod sizes;
mod stream_messages;
mod streams;
mod transfer_messages;

/// Message whose values are bytes.
type Sample = Message<Bytes, Bytes, Bytes>;

/// Message of a plane whose values are bytes.
type Replication = ReplicationMessage<Bytes, Bytes, Bytes>;

fn decode(bytes: &[u8]) -> Result<Sample, WireError> {
    Sample::decode(Bytes::copy_from_slice(bytes))
}
