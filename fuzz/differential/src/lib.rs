//! The oracle: `rmqtt-codec`, a published codec that nobody of this project wrote.

use bytes::BytesMut;
use rmqtt_codec::error::DecodeError;
use rmqtt_codec::{v3, v5};
use tokio_util::codec::Decoder as _;

/// What the oracle made of a packet.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// A packet of version 3.1.1.
    V311(v3::Packet),
    /// A packet of version 5.
    V5(v5::Packet),
    /// It wants more bytes.
    Incomplete,
    /// It refuses them; what it says.
    Refused(String),
}

impl Verdict {
    /// True if it is a packet.
    pub fn is_packet(&self) -> bool {
        matches!(self, Self::V311(_) | Self::V5(_))
    }
}

/// Asks the oracle for the first packet in `bytes`.
pub fn ask(is_v5: bool, bytes: &[u8]) -> Verdict {
    let mut buffer = BytesMut::from(bytes);
    let refused = |error: DecodeError| Verdict::Refused(error.to_string());
    if is_v5 {
        match v5::Codec::default().decode(&mut buffer) {
            Ok(Some((packet, _))) => Verdict::V5(packet),
            Ok(None) => Verdict::Incomplete,
            Err(error) => refused(error),
        }
    } else {
        match v3::Codec::default().decode(&mut buffer) {
            Ok(Some((packet, _))) => Verdict::V311(packet),
            Ok(None) => Verdict::Incomplete,
            Err(error) => refused(error),
        }
    }
}
