//! Channel: an ordered connection between the planes of two nodes, over messages that may be lost, doubled or come by another way.
//!
//! ```text
//! from | incarnation u32, number u64      end of the sender
//! to   | incarnation u32, number u64      end of the receiver as the sender knows it; zeros: none
//! sequence u64                            messages that the sender sent before between these two ends
//! message                                 empty: a greeting, which tells the ends alone
//! ```
//!
//! Each node numbers its ends. A pair of ends is one connection: what was sent between others is dropped. Who finds a gap, or ends a
//! connection, takes the next number; the other side sees that with the next message.
//!
//! *Invariant*: of the messages of one pair a receiver takes a prefix, each once and in their order.

use std::time::{Duration, Instant};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use cluster::Incarnation;

/// Bytes before the message.
pub(super) const HEADER_BYTES: usize = 2 * (4 + 8) + 8;

/// Wait after a message that was refused: a peer that sends it again and again is not read meanwhile.
const CLOSED_FOR: Duration = Duration::from_secs(1);

/// Of this many messages for another end one is answered with a greeting.
const GREET_EVERY: u32 = 64;

/// End of a channel at one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChannelEnd {
    /// Run of the node.
    pub(super) incarnation: Incarnation,
    /// Number in this run, from 1 on.
    number: u64,
}

/// What goes before each message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) from: ChannelEnd,
    to: Option<ChannelEnd>,
    sequence: u64,
}

/// What a message means for the channel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Arrival {
    /// Another connection begins with it, or behind it.
    pub(super) is_begun: bool,
    /// The peer does not know this end: it is greeted.
    pub(super) is_greeted: bool,
    /// It is the next message of the connection.
    pub(super) is_next: bool,
}

/// Channel to one peer.
#[derive(Debug)]
pub(super) struct Channel {
    own: ChannelEnd,
    peer: Option<ChannelEnd>,
    sent: u64,
    received: u64,
    /// Messages for another end since the last greeting.
    misdirected: u32,
    closed_until: Option<Instant>,
}

impl Header {
    /// Header in front of these bytes, which is taken off. None where they are too short, or an end has no number.
    pub(super) fn take(bytes: &mut Bytes) -> Option<Header> {
        let mut end = || {
            let incarnation = Incarnation(bytes.try_get_u32().ok()?);
            let number = bytes.try_get_u64().ok()?;
            Some(ChannelEnd { incarnation, number })
        };
        let (from, to) = (end()?, end()?);
        let sequence = bytes.try_get_u64().ok()?;
        let to = (to.number > 0).then_some(to);
        (from.number > 0).then_some(Header { from, to, sequence })
    }

    pub(super) fn put(&self, bytes: &mut BytesMut) {
        let nobody = ChannelEnd {
            incarnation: Incarnation(0),
            number: 0,
        };
        for end in [self.from, self.to.unwrap_or(nobody)] {
            bytes.put_u32(end.incarnation.0);
            bytes.put_u64(end.number);
        }
        bytes.put_u64(self.sequence);
    }
}

impl Channel {
    /// Channel of a run of this node, of which the peer knows nothing.
    pub(super) fn new(own: Incarnation) -> Self {
        Self {
            own: ChannelEnd {
                incarnation: own,
                number: 1,
            },
            peer: None,
            sent: 0,
            received: 0,
            misdirected: 0,
            closed_until: None,
        }
    }

    /// Whether the peer's end is known.
    pub(super) fn is_known(&self) -> bool {
        self.peer.is_some()
    }

    /// Ends the connection. Another one begins with what is sent next.
    pub(super) fn begin_anew(&mut self) {
        self.own.number += 1;
        (self.sent, self.received) = (0, 0);
        self.misdirected = 0;
    }

    /// Ends the connection, and reads nothing for a while.
    pub(super) fn close(&mut self, now: Instant) {
        self.begin_anew();
        self.closed_until = Some(now + CLOSED_FOR);
    }

    /// Header of the next message to the peer.
    pub(super) fn next_header(&mut self) -> Header {
        let sequence = self.sent;
        self.sent += 1;
        Header {
            from: self.own,
            to: self.peer,
            sequence,
        }
    }

    /// Takes the header of a message of the peer.
    pub(super) fn receive(&mut self, now: Instant, header: Header) -> Arrival {
        if self.closed_until.is_some_and(|until| now < until) || Some(header.from) < self.peer {
            return Arrival::default();
        }
        self.closed_until = None;
        let mut arrival = Arrival::default();
        if self.peer != Some(header.from) {
            self.peer = Some(header.from);
            (self.sent, self.received) = (0, 0);
            self.misdirected = 0;
            arrival.is_begun = true;
        }
        if header.to != Some(self.own) {
            arrival.is_greeted = self.misdirected.is_multiple_of(GREET_EVERY);
            self.misdirected = self.misdirected.wrapping_add(1);
            return arrival;
        }
        if header.sequence > self.received {
            self.begin_anew();
            (arrival.is_begun, arrival.is_greeted) = (true, true);
        } else if header.sequence == self.received {
            self.received += 1;
            arrival.is_next = true;
        }
        arrival
    }
}

#[cfg(test)]
mod tests;
