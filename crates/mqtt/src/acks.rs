//! Acknowledgements of received PUBLISHes leave in the order in which the PUBLISHes came.
//! [MQTT-4.6.0-2] [MQTT-4.6.0-3]
//!
//! Deciding takes different times: one message waits for the disk, the next for nobody. The queue keeps what is
//! decided early until everything before it is decided as well. It grows with what is undecided, which Receive
//! Maximum bounds.

use std::collections::VecDeque;
use std::time::Instant;

use protocol::packet::Ack;
use protocol::{Packet, ReasonCode};

use crate::response::LateResponse;
use crate::traces::MessageTrace;

/// Acknowledgements that wait for their turn.
#[derive(Debug, Default)]
pub struct AckQueue {
    /// The sequence number of `waiting`'s front.
    first: u64,
    waiting: VecDeque<Place>,
    /// How many of `waiting` count.
    counted: usize,
}

#[derive(Debug)]
struct Place {
    /// When the PUBLISH came, if it is to be told that its answer took long.
    received: Option<Instant>,
    /// It counts for Receive Maximum.
    is_counted: bool,
    /// `None`: not decided yet.
    acknowledgement: Option<Acknowledgement>,
    /// If it is traced.
    trace: Option<Box<MessageTrace>>,
    /// What goes out behind the acknowledgement.
    response: Option<Box<LateResponse>>,
}

/// An acknowledgement whose turn has come.
#[derive(Debug)]
pub struct Released {
    /// The acknowledgement itself.
    pub acknowledgement: Acknowledgement,
    /// Trace of the PUBLISH, if it is traced.
    pub trace: Option<Box<MessageTrace>>,
    /// Goes out behind the acknowledgement.
    pub response: Option<Box<LateResponse>>,
}

/// The first acknowledgement of a received PUBLISH.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Of QoS 1.
    PubAck(Ack),
    /// Of QoS 2.
    PubRec(Ack),
}

/// Places that an empty queue keeps for the next messages.
const CAPACITY_KEPT: usize = 64;

impl Acknowledgement {
    fn reason(&self) -> ReasonCode {
        let (Self::PubAck(ack) | Self::PubRec(ack)) = self;
        ack.reason
    }
}

impl From<Acknowledgement> for Packet {
    fn from(acknowledgement: Acknowledgement) -> Self {
        match acknowledgement {
            Acknowledgement::PubAck(ack) => Self::PubAck(ack),
            Acknowledgement::PubRec(ack) => Self::PubRec(ack),
        }
    }
}

/// Which received PUBLISH of a connection is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckSequence(u64);

impl AckQueue {
    /// Takes the next place in the order. It does not count if the PUBLISH is among the received QoS 2 messages that
    /// were not released: those count until they are. [MQTT-3.3.4-7]
    pub fn open(&mut self, is_counted: bool, received: Option<Instant>) -> AckSequence {
        self.counted += usize::from(is_counted);
        self.waiting.push_back(Place {
            received,
            is_counted,
            acknowledgement: None,
            trace: None,
            response: None,
        });
        AckSequence(self.first + self.waiting.len() as u64 - 1)
    }

    /// The PUBLISH is traced.
    pub fn trace(&mut self, sequence: AckSequence, trace: Box<MessageTrace>) {
        if let Some(place) = self.place(sequence) {
            place.trace = Some(trace);
        }
    }

    /// The trace of the PUBLISH, if it is traced.
    pub fn trace_of(&mut self, sequence: AckSequence) -> Option<&mut MessageTrace> {
        self.place(sequence)?.trace.as_deref_mut()
    }

    /// The PUBLISH is a request with a response that its client must not hear before the acknowledgement.
    pub fn respond_behind(&mut self, sequence: AckSequence, response: LateResponse) {
        if let Some(place) = self.place(sequence) {
            place.response = Some(Box::new(response));
        }
    }

    /// Says how the PUBLISH was decided, and hands out everything whose turn has come. The earliest moment when one of that came.
    pub fn decide(
        &mut self,
        now: Instant,
        sequence: AckSequence,
        acknowledgement: Acknowledgement,
        mut send: impl FnMut(Released),
    ) -> Option<Instant> {
        let place = self.place(sequence)?;
        assert!(
            place.acknowledgement.is_none(),
            "a received PUBLISH is decided once"
        );
        if let Some(trace) = &mut place.trace {
            trace.decide(now, acknowledgement.reason());
        }
        place.acknowledgement = Some(acknowledgement);
        let is_decided = |place: &Place| place.acknowledgement.is_some();
        let mut earliest = None;
        while self.waiting.front().is_some_and(is_decided) {
            self.first += 1;
            let Some(place) = self.waiting.pop_front() else {
                break;
            };
            earliest = [earliest, place.received].into_iter().flatten().min();
            self.counted -= usize::from(place.is_counted);
            if let Some(acknowledgement) = place.acknowledgement {
                send(Released {
                    acknowledgement,
                    trace: place.trace,
                    response: place.response,
                });
            }
        }
        if self.waiting.is_empty() && self.waiting.capacity() > CAPACITY_KEPT {
            self.waiting = VecDeque::new();
        }
        earliest
    }

    /// How many are undecided or wait behind one that is.
    pub fn undecided(&self) -> usize {
        self.waiting.len()
    }

    /// How many of those that count are undecided or wait behind one that is.
    pub fn counted(&self) -> usize {
        self.counted
    }

    fn place(&mut self, sequence: AckSequence) -> Option<&mut Place> {
        let offset = sequence.0.checked_sub(self.first)?;
        self.waiting.get_mut(usize::try_from(offset).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use protocol::ReasonCode;
    use protocol::packet::{Ack, PacketId};

    use super::{AckQueue, Acknowledgement};

    fn puback(id: u16) -> Acknowledgement {
        Acknowledgement::PubAck(Ack::new(PacketId::new(id).unwrap(), ReasonCode::Success))
    }

    #[test]
    fn mqtt_4_6_0_2_acknowledgements_leave_in_the_order_of_the_messages() {
        let (mut queue, now) = (AckQueue::default(), crate::now::epoch());
        let mut sent = vec![];
        let (first, second, third) = (
            queue.open(true, None),
            queue.open(false, None),
            queue.open(true, None),
        );

        queue.decide(now, second, puback(2), |ready| sent.push(ready.acknowledgement));
        assert_eq!(sent, []);
        assert_eq!(queue.counted(), 2);
        queue.decide(now, first, puback(1), |ready| sent.push(ready.acknowledgement));
        assert_eq!(sent, [puback(1), puback(2)]);
        queue.decide(now, third, puback(3), |ready| sent.push(ready.acknowledgement));
        assert_eq!(sent, [puback(1), puback(2), puback(3)]);
        assert_eq!(queue.counted(), 0);
    }
}
