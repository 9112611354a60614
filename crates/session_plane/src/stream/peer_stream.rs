//! Stream to one receiver: what it was sent, and what it has confirmed.
//!
//! *Invariant*: `confirmed` and `sent` never go back, and `confirmed` is at most `sent`. The queue
//! is in ascending order, above `confirmed`. So one confirmation settles a prefix of the queue.

use std::collections::VecDeque;

use cluster::NodeId;

/// Progress of one receiver of a run's stream.
#[derive(Debug)]
pub(crate) struct PeerStream {
    /// Marker that began the stream; 0 for the run's own node.
    begin: u64,
    /// Everything up to this number is durable at the receiver.
    confirmed: u64,
    /// Highest number that the receiver was ever sent, with its event or as a position.
    sent: u64,
    /// Numbers of events that the receiver needs and has not confirmed.
    queue: VecDeque<u64>,
    /// Events at the head of the queue that were sent over the present connection.
    in_flight: usize,
}

impl PeerStream {
    /// Stream that begins with the ring marker `begin`.
    pub(crate) fn new(begin: u64) -> PeerStream {
        // The receiver needs nothing that is older than its marker.
        let before = begin.saturating_sub(1);
        PeerStream {
            begin,
            confirmed: before,
            sent: before,
            queue: VecDeque::new(),
            in_flight: 0,
        }
    }

    pub(crate) fn begin(&self) -> u64 {
        self.begin
    }

    pub(crate) fn confirmed(&self) -> u64 {
        self.confirmed
    }

    /// The receiver needs events that it has not confirmed.
    pub(crate) fn is_behind(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Queues the next event that the receiver needs.
    pub(crate) fn push(&mut self, number: u64) {
        assert!(self.queue.back().is_none_or(|last| *last < number));
        self.queue.push_back(number);
    }

    /// Number of the next event to send over the present connection.
    pub(crate) fn next_event(&self) -> Option<u64> {
        self.queue.get(self.in_flight).copied()
    }

    /// Sends the next event over the present connection.
    pub(crate) fn send_event(&mut self) -> Option<StreamPosition> {
        let (after, number) = (self.last_in_flight(), *self.queue.get(self.in_flight)?);
        self.in_flight += 1;
        self.sent = self.sent.max(number);
        Some(StreamPosition { after, number })
    }

    /// Position that holds after what was sent over the present connection; `last` is the run's.
    ///
    /// None before the marker that begins the stream was sent.
    pub(crate) fn send_position(&mut self, last: u64) -> Option<StreamPosition> {
        let number = match self.queue.get(self.in_flight) {
            Some(next) => next - 1,
            None => last,
        };
        if number < self.begin {
            return None;
        }
        self.sent = self.sent.max(number);
        let after = self.last_in_flight();
        Some(StreamPosition { after, number })
    }

    /// Counts everything up to `last` as sent: the run's own node has its events at once.
    pub(crate) fn skip_sending(&mut self, last: u64) {
        self.sent = last;
        self.in_flight = self.queue.len();
    }

    /// Begins a new connection: what was not confirmed is sent again.
    pub(crate) fn restart(&mut self) {
        self.in_flight = 0;
    }

    /// Refuses a position that was never sent, or that is below the confirmed one.
    pub(crate) fn check(&self, peer: NodeId, number: u64) -> Result<(), ConfirmError> {
        let (confirmed, sent) = (self.confirmed, self.sent);
        if number < confirmed {
            return Err(ConfirmError::GoesBack {
                peer,
                confirmed,
                number,
            });
        }
        if number > sent {
            return Err(ConfirmError::NeverSent { peer, sent, number });
        }
        Ok(())
    }

    /// Moves the confirmed position; gives the events that it settles.
    pub(crate) fn confirm(&mut self, number: u64) -> Vec<u64> {
        self.confirmed = number;
        let settled = self.queue.partition_point(|queued| *queued <= number);
        self.in_flight = self.in_flight.saturating_sub(settled);
        self.queue.drain(..settled).collect()
    }

    /// Last event before the next one to send, or the confirmed position.
    fn last_in_flight(&self) -> u64 {
        let last = self.in_flight.checked_sub(1);
        let last = last.and_then(|index| self.queue.get(index));
        last.copied().unwrap_or(self.confirmed)
    }

    /// Ends the stream; gives the events that the receiver has not confirmed.
    pub(crate) fn into_unconfirmed(self) -> VecDeque<u64> {
        self.queue
    }
}

/// Number in a stream, and the number that its receiver has before it.
///
/// Most numbers are not for a receiver. So the sender says from where on: no other number above
/// `after` and up to `number` is for it. A receiver that has less than `after` has missed
/// something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamPosition {
    /// Last number before that was for the receiver, or the position that it has confirmed.
    pub after: u64,
    /// Number of the event, or the position.
    pub number: u64,
}

/// A confirmation was refused. Nothing was changed; the connection to the peer is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ConfirmError {
    /// No stream goes to the node: it was given up, or never welcomed.
    #[error("node {} confirms {number}, and has no stream", .peer.0)]
    NotPresent {
        /// Node that confirms.
        peer: NodeId,
        /// Number that it confirms.
        number: u64,
    },
    /// The peer has confirmed more already.
    #[error("node {} confirms {number} after {confirmed}", .peer.0)]
    GoesBack {
        /// Node that confirms.
        peer: NodeId,
        /// Position that it has confirmed.
        confirmed: u64,
        /// Number that it confirms.
        number: u64,
    },
    /// The peer was not sent that much.
    #[error("node {} confirms {number}, and was sent only up to {sent}", .peer.0)]
    NeverSent {
        /// Node that confirms.
        peer: NodeId,
        /// Highest number that it was sent.
        sent: u64,
        /// Number that it confirms.
        number: u64,
    },
    /// The peer was sent no such resend.
    #[error("node {} confirms resend {id}, which it was never sent", .peer.0)]
    UnknownResend {
        /// Node that confirms.
        peer: NodeId,
        /// Resend that it confirms.
        id: u64,
    },
}
