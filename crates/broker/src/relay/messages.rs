//! What nodes say to each other of their links, and how a message goes by another node, as bytes.
//!
//! The header is that of all (`cluster/src/peer_header.rs`), with a number that no group has. Numbers big endian:
//!
//! ```text
//! version u8 (1) | group u32 (fffffffc) | kind u8 | ...
//!   48 link state | version u64 | heard u64 | count u16 | nodes that the sender reaches, u64 each
//!   49 relayed    | origin u64 | target u64 | a message of another group, header included, to the end
//! ```
//!
//! `heard` is the version of the receiver's link state that the sender knows; 0: it knows none.

use std::collections::BTreeSet;

use bytes::{Buf, BufMut, Bytes};
use cluster::peer_header::{self, HEADER_LENGTH, PeerError};
use cluster::{GroupId, NodeId};

/// What is about links travels under this number, which no group has.
pub(crate) const RELAY: GroupId = GroupId(u32::MAX - 3);

const LINK_STATE: u8 = 48;
const RELAYED: u8 = 49;

/// Bytes before the message that is relayed.
const RELAYED_LENGTH: usize = HEADER_LENGTH + 2 * size_of::<u64>();

/// A message that has to do with links.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RelayMessage {
    LinkState(LinkState),
    Relayed(Relayed),
}

/// The nodes that one node reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LinkState {
    /// Which of the sender's link states it is.
    pub(super) version: u64,
    /// Which of the receiver's the sender knows; 0: none.
    pub(super) heard: u64,
    pub(super) reached: BTreeSet<NodeId>,
}

/// A message on its way by a node that is neither its sender nor its receiver.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Relayed {
    pub(super) origin: NodeId,
    pub(super) target: NodeId,
    /// As it would have been sent directly.
    pub(super) message: Bytes,
}

impl RelayMessage {
    /// The message in these bytes, whose header was looked at.
    pub(super) fn decode(bytes: &Bytes) -> Result<Self, PeerError> {
        match bytes.get(HEADER_LENGTH - 1) {
            Some(&LINK_STATE) => LinkState::decode(bytes.slice(HEADER_LENGTH..)).map(Self::LinkState),
            Some(&RELAYED) => Relayed::decode(bytes).map(Self::Relayed),
            _ => None,
        }
        .ok_or(PeerError::Damaged)
    }
}

impl LinkState {
    pub(super) fn encode(&self) -> Bytes {
        let length = 2 * size_of::<u64>() + size_of::<u16>() + self.reached.len() * size_of::<u64>();
        let mut bytes = peer_header::begin(RELAY, length);
        bytes.put_u8(LINK_STATE);
        bytes.put_u64(self.version);
        bytes.put_u64(self.heard);
        bytes.put_u16(u16::try_from(self.reached.len()).expect("a cluster has few nodes"));
        self.reached.iter().for_each(|node| bytes.put_u64(node.0));
        bytes.freeze()
    }

    fn decode(mut body: Bytes) -> Option<Self> {
        let version = body.try_get_u64().ok()?;
        let heard = body.try_get_u64().ok()?;
        let count = body.try_get_u16().ok()?;
        let nodes = (0..count).map(|_| body.try_get_u64().ok().map(NodeId));
        let state = Self {
            version,
            heard,
            reached: nodes.collect::<Option<_>>()?,
        };
        body.is_empty().then_some(state)
    }
}

impl Relayed {
    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = peer_header::begin(RELAY, RELAYED_LENGTH - HEADER_LENGTH + self.message.len());
        bytes.put_u8(RELAYED);
        bytes.put_u64(self.origin.0);
        bytes.put_u64(self.target.0);
        bytes.put_slice(&self.message);
        bytes.freeze()
    }

    /// `None` as well if the message is about links itself, or has no header.
    fn decode(bytes: &Bytes) -> Option<Self> {
        let mut body = bytes.get(HEADER_LENGTH..RELAYED_LENGTH)?;
        let (origin, target) = (NodeId(body.get_u64()), NodeId(body.get_u64()));
        let message = bytes.slice(RELAYED_LENGTH..);
        let is_foreign = peer_header::group_of(&message).is_ok_and(|group| group != RELAY);
        is_foreign.then_some(Self {
            origin,
            target,
            message,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link_state() -> (RelayMessage, Bytes, &'static [u8]) {
        let state = LinkState {
            version: 0x1_0000_0002,
            heard: 3,
            reached: [NodeId(4), NodeId(5)].into(),
        };
        let bytes = state.encode();
        let golden = b"\x01\xff\xff\xff\xfc\x30\
            \0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\x02\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05";
        (RelayMessage::LinkState(state), bytes, golden)
    }

    fn relayed() -> (RelayMessage, Bytes, &'static [u8]) {
        let relayed = Relayed {
            origin: NodeId(1),
            target: NodeId(2),
            message: Bytes::from_static(b"\x01\0\0\0\x07\x01raft"),
        };
        let bytes = relayed.encode();
        let golden = b"\x01\xff\xff\xff\xfc\x31\
            \0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\x01\0\0\0\x07\x01raft";
        (RelayMessage::Relayed(relayed), bytes, golden)
    }

    /// Nodes of other releases read these bytes.
    #[test]
    fn the_bytes_of_messages_are_these() {
        for (message, bytes, golden) in [link_state(), relayed()] {
            assert_eq!(bytes, golden);
            assert_eq!(peer_header::group_of(&bytes), Ok(RELAY));
            assert_eq!(RelayMessage::decode(&bytes), Ok(message));
        }
    }

    #[test]
    fn what_is_cut_short_or_too_long_is_no_message() {
        let (_, state, _) = link_state();
        for end in HEADER_LENGTH..state.len() {
            let cut = RelayMessage::decode(&state.slice(..end));
            assert_eq!(cut, Err(PeerError::Damaged), "{end}");
        }
        let longer = Bytes::from([&state[..], b"x"].concat());
        assert_eq!(RelayMessage::decode(&longer), Err(PeerError::Damaged));
        let (_, relayed, _) = relayed();
        for end in HEADER_LENGTH..RELAYED_LENGTH + HEADER_LENGTH {
            let cut = RelayMessage::decode(&relayed.slice(..end));
            assert_eq!(cut, Err(PeerError::Damaged), "{end}");
        }
    }

    #[test]
    fn other_kinds_and_messages_in_relayed_messages_are_refused() {
        let (_, relayed, _) = relayed();
        let nested = Relayed {
            origin: NodeId(1),
            target: NodeId(2),
            message: relayed.clone(),
        };
        assert_eq!(RelayMessage::decode(&nested.encode()), Err(PeerError::Damaged));
        let told = Relayed {
            message: link_state().1,
            ..nested
        };
        assert_eq!(RelayMessage::decode(&told.encode()), Err(PeerError::Damaged));
        for kind in [0, 47, 50, 255] {
            let mut other = relayed.to_vec();
            other[HEADER_LENGTH - 1] = kind;
            assert_eq!(RelayMessage::decode(&other.into()), Err(PeerError::Damaged));
        }
    }
}
