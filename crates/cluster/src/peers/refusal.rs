//! Why one node does not go on with another.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

/// Why one node does not go on with another: a code for programs, and words that are true on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What it is.
    pub code: RefusalCode,
    /// For the operators of both nodes.
    pub text: String,
}

/// What a refusal is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalCode {
    /// They have no version of the protocol in common.
    Version,
    /// They belong to different clusters.
    Cluster,
    /// The cluster is formed, and the node is no member of it.
    NotAMember,
    /// Both have the same id.
    SameNode,
    /// The receiver has an id that another process has as well, which is alive: it takes no part meanwhile.
    NodeTwice,
    /// Their clocks differ too much.
    Clock,
    /// They want clusters of different sizes.
    Size,
    /// They want different numbers of groups.
    Groups,
    /// It dialled itself.
    Itself,
    /// There is a connection already, by another address.
    Connected,
    /// The receiver's disk is older than what the sender knows of it: the receiver takes no part any more.
    OlderDisk,
    /// It has stopped, with the cause as its last word.
    Stopped,
    /// The sender takes no part: its disk is older than what another node knows of it, or its id is there twice.
    Aside,
    /// One that this version does not know.
    Other(u8),
}

impl RefusalCode {
    /// Whether nothing is wrong: an address leads to this node, or to one that is connected by another address.
    pub fn is_harmless(self) -> bool {
        matches!(self, Self::Itself | Self::Connected)
    }
}

impl Refusal {
    /// With words for operators.
    pub fn new(code: RefusalCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
        }
    }

    pub(super) fn encode(&self, to: &mut BytesMut) {
        to.put_u8(self.code.number());
        to.put_slice(beginning(&self.text).as_bytes());
    }

    /// Text of a peer, which is escaped where operators read it.
    pub(super) fn decode(body: &Bytes) -> Option<Self> {
        let (code, text) = body.split_first()?;
        let text = &text[..text.len().min(TEXT_BYTES_MAX)];
        // It is longer than it was, if it was no text.
        let text = String::from_utf8_lossy(text);
        Some(Self::new(RefusalCode::of(*code), beginning(&text)))
    }
}

/// As much of a text as is sent, and shown.
fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

const CODES: [(RefusalCode, u8); 13] = [
    (RefusalCode::Version, 1),
    (RefusalCode::Cluster, 2),
    (RefusalCode::NotAMember, 3),
    (RefusalCode::SameNode, 4),
    (RefusalCode::NodeTwice, 5),
    (RefusalCode::Clock, 6),
    (RefusalCode::Size, 7),
    (RefusalCode::Groups, 8),
    (RefusalCode::Itself, 9),
    (RefusalCode::Connected, 10),
    (RefusalCode::OlderDisk, 11),
    (RefusalCode::Stopped, 12),
    (RefusalCode::Aside, 13),
];

impl RefusalCode {
    fn number(self) -> u8 {
        if let Self::Other(number) = self {
            return number;
        }
        let found = CODES.iter().find(|(code, _)| *code == self);
        found.expect("every code has a number").1
    }

    fn of(number: u8) -> Self {
        let found = CODES.iter().find(|(_, its)| *its == number);
        found.map_or(Self::Other(number), |(code, _)| *code)
    }
}

/// Longer text is cut.
const TEXT_BYTES_MAX: usize = 500;
