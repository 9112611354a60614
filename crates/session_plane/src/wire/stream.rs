//! Streams: events, heartbeats, confirmations and resends.
//!
//! ```text
//! event     | dot, form, slots of a change or view of a marker, clock, known, content
//! heartbeat | after and number of the position, confirmed, stable, clock, known, settled
//! settled   | last settled run of each node, settled events
//! resend    | id, slots, numbers, events
//! ```
//!
//! A ring marker is sent as its view. The receiver makes the ring: that takes milliseconds, and
//! peers mostly have equal views, so the node keeps rings by view ([`SentEvent::into_event`]).

use std::ops::RangeBounds;
use std::sync::Arc;

use bytes::Bytes;
use cluster::session_plane::Hlc;

use super::field::Field;
use super::reader::Reader;
use super::writer::Writer;
use super::{Fault, Kind, WireError, WireValue};
use crate::stream::{EventKind, NumberRange, Resend, ResendId, Routing, StreamEvent, StreamPosition};
use crate::{Dot, Run, Settled, SlotSet, VersionVector, View};

/// Payload of an event: what the node sends with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPayload<C> {
    /// Hybrid logical clock of the event.
    pub clock: Hlc,
    /// What the run knew at the event (rule `causal`). It may leave out what its receiver was told
    /// in the present stay before.
    pub known: VersionVector,
    /// The change itself; of a ring marker nothing is read.
    pub content: C,
}

/// Event as it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentEvent<C> {
    /// Identity of the event.
    pub dot: Dot,
    /// Meaning of the event to streams.
    pub kind: SentEventKind,
    /// Meaning of the event to the node.
    pub payload: EventPayload<C>,
}

/// Meaning of a sent event to streams, as [`EventKind`] without the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SentEventKind {
    /// Change of entries, with the slots that it is for.
    Change(SlotSet),
    /// Ring marker with the view of its sender.
    RingMarker(View),
}

/// Next event of the stream to the receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NextEvent<C> {
    /// Number that the receiver has before the event; below that of the event.
    pub after: u64,
    /// The event.
    pub event: SentEvent<C>,
}

/// Positions of the sender, its clock, and what it knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Position of the sender's stream. None before the Welcome was sent over this connection.
    pub position: Option<StreamPosition>,
    /// Everything of the receiver's run up to this number is durable at the sender; as
    /// [`Confirm`]. None before the Welcome of the present stay has come.
    pub confirmed: Option<u64>,
    /// Highest number of the sender that all its peers have confirmed. Void without a position.
    pub stable: u64,
    /// Hybrid logical clock of the sender.
    pub clock: Hlc,
    /// Events that the sender knows. It may leave out what it has told in the present stay before.
    pub known: VersionVector,
    /// What all copies of the sender have decided upon, of runs that have ended.
    pub settled: Settled,
}

/// Confirmation of the receiver's stream, as soon as something is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Confirm {
    /// Everything up to this number is durable at the sender.
    pub number: u64,
    /// Events that the sender knows, where the receiver routes by another view: it may not hear of them
    /// otherwise before it goes by the confirmation. Empty where it does.
    pub known: VersionVector,
}

/// Resend as it is sent. [`Resend`] says what its parts are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentResend<C> {
    /// Names the resend in the confirmation.
    pub id: ResendId,
    /// Slots of the receiver.
    pub slots: SlotSet,
    /// Numbers of the run of which the slots had too few copies.
    pub numbers: NumberRange,
    /// Events among `numbers`, in ascending order.
    pub events: Vec<SentEvent<C>>,
}

impl<C> SentEvent<C> {
    /// Event of a stream. `routing` gives the routing of a marker's view.
    pub fn into_event(self, routing: impl FnOnce(View) -> Arc<Routing>) -> StreamEvent<EventPayload<C>> {
        StreamEvent {
            dot: self.dot,
            kind: match self.kind {
                SentEventKind::Change(slots) => EventKind::Change(slots),
                SentEventKind::RingMarker(view) => EventKind::RingMarker(routing(view)),
            },
            payload: self.payload,
        }
    }
}

impl<C: Clone> From<&StreamEvent<EventPayload<C>>> for SentEvent<C> {
    /// Event as its receiver gets it.
    fn from(event: &StreamEvent<EventPayload<C>>) -> SentEvent<C> {
        SentEvent {
            dot: event.dot,
            kind: match &event.kind {
                EventKind::Change(slots) => SentEventKind::Change(slots.clone()),
                EventKind::RingMarker(routing) => SentEventKind::RingMarker(routing.view().clone()),
            },
            payload: event.payload.clone(),
        }
    }
}

impl<C: Clone> From<&Resend<'_, EventPayload<C>>> for SentResend<C> {
    /// Resend as its receiver gets it.
    fn from(resend: &Resend<'_, EventPayload<C>>) -> SentResend<C> {
        SentResend {
            id: resend.id,
            slots: resend.slots.clone(),
            numbers: resend.numbers,
            events: resend
                .events
                .iter()
                .map(|event| SentEvent::from(*event))
                .collect(),
        }
    }
}

impl<C: WireValue> NextEvent<C> {
    /// Bytes of the message up to the event.
    pub fn encode_head(&self) -> Bytes {
        let mut writer = Writer::new(Kind::Event);
        writer.put(&self.after);
        writer.finish()
    }
}

impl<C: WireValue> SentEvent<C> {
    /// Bytes of the event, which follow on [`NextEvent::encode_head`]. They are the same for all its receivers.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::of_value();
        writer.put(self);
        writer.finish()
    }
}

impl<C: WireValue> Field for EventPayload<C> {
    const BYTES_MIN: usize = Hlc::BYTES_MIN + VersionVector::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.clock);
        writer.put(&self.known);
        writer.put_value(&self.content);
    }

    fn take(reader: &mut Reader) -> Result<EventPayload<C>, WireError> {
        Ok(EventPayload {
            clock: reader.take("clock of an event")?,
            known: reader.take("knowledge at an event")?,
            content: reader.value("content of an event")?,
        })
    }
}

impl Field for SentEventKind {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        match self {
            SentEventKind::Change(slots) => {
                writer.put_byte(CHANGE);
                writer.put(slots);
            }
            SentEventKind::RingMarker(view) => {
                writer.put_byte(RING_MARKER);
                writer.put(view);
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<SentEventKind, WireError> {
        Ok(match reader.byte()? {
            CHANGE => SentEventKind::Change(reader.take("slots of a change")?),
            RING_MARKER => SentEventKind::RingMarker(reader.take("view of a ring marker")?),
            found => return Err(reader.error(Fault::UnknownForm { found })),
        })
    }
}

impl<C: WireValue> Field for SentEvent<C> {
    const BYTES_MIN: usize = Dot::BYTES_MIN + SentEventKind::BYTES_MIN + EventPayload::<C>::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.dot);
        writer.put(&self.kind);
        writer.put(&self.payload);
    }

    fn take(reader: &mut Reader) -> Result<SentEvent<C>, WireError> {
        Ok(SentEvent {
            dot: reader.take("dot of an event")?,
            kind: reader.take("form of an event")?,
            payload: reader.take("payload of an event")?,
        })
    }
}

impl<C: WireValue> Field for NextEvent<C> {
    const BYTES_MIN: usize = 1 + SentEvent::<C>::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.after);
        writer.put(&self.event);
    }

    fn take(reader: &mut Reader) -> Result<NextEvent<C>, WireError> {
        let after = reader.take("number before an event")?;
        let event: SentEvent<C> = reader.take("event")?;
        if after < event.dot.number {
            Ok(NextEvent { after, event })
        } else {
            Err(reader.error(Fault::NotAscending))
        }
    }
}

/// The number before, then how much the position is above it.
impl Field for StreamPosition {
    const BYTES_MIN: usize = 2;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.after);
        writer.put_number(self.number.wrapping_sub(self.after));
    }

    fn take(reader: &mut Reader) -> Result<StreamPosition, WireError> {
        let (after, more) = (reader.number()?, reader.number()?);
        let number = after.checked_add(more);
        let number = number.ok_or(reader.error(Fault::NotAscending))?;
        Ok(StreamPosition { after, number })
    }
}

impl Field for Heartbeat {
    const BYTES_MIN: usize = 3 + Hlc::BYTES_MIN + VersionVector::BYTES_MIN + Settled::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.position);
        writer.put(&self.confirmed);
        writer.put(&self.stable);
        writer.put(&self.clock);
        writer.put(&self.known);
        writer.put(&self.settled);
    }

    fn take(reader: &mut Reader) -> Result<Heartbeat, WireError> {
        Ok(Heartbeat {
            position: reader.take("position")?,
            confirmed: reader.take("confirmed number")?,
            stable: reader.take("stable number")?,
            clock: reader.take("clock")?,
            known: reader.take("knowledge")?,
            settled: reader.take("settled runs")?,
        })
    }
}

/// Runs in ascending order of their nodes, then events of these runs and of those before.
impl Field for Settled {
    const BYTES_MIN: usize = 1 + VersionVector::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        let runs = self.runs().map(|(node, incarnation)| Run { node, incarnation });
        writer.put(&runs.collect::<Vec<Run>>());
        writer.put(self.events());
    }

    fn take(reader: &mut Reader) -> Result<Settled, WireError> {
        let runs: Vec<Run> = reader.take("settled run")?;
        let events: VersionVector = reader.take("settled events")?;
        if !runs.is_sorted_by(|one, other| one.node < other.node) {
            return Err(reader.error(Fault::NotAscending));
        }
        let up_to = runs.into_iter().map(|run| (run.node, run.incarnation));
        let settled = Settled::new(up_to.collect(), events);
        settled.map_err(|error| reader.error(Fault::Settled(error)))
    }
}

impl Field for Confirm {
    const BYTES_MIN: usize = 1 + VersionVector::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.number);
        writer.put(&self.known);
    }

    fn take(reader: &mut Reader) -> Result<Confirm, WireError> {
        Ok(Confirm {
            number: reader.take("confirmed number")?,
            known: reader.take("knowledge")?,
        })
    }
}

impl Field for ResendId {
    const BYTES_MIN: usize = 1;

    fn put(&self, writer: &mut Writer) {
        writer.put_number(self.0);
    }

    fn take(reader: &mut Reader) -> Result<ResendId, WireError> {
        reader.positive().map(ResendId)
    }
}

impl<C: WireValue> Field for SentResend<C> {
    const BYTES_MIN: usize = ResendId::BYTES_MIN + 1 + NumberRange::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&self.id);
        writer.put(&self.slots);
        writer.put(&self.numbers);
        writer.put(&self.events);
    }

    fn take(reader: &mut Reader) -> Result<SentResend<C>, WireError> {
        let resend = SentResend {
            id: reader.take("id of a resend")?,
            slots: reader.take("slots of a resend")?,
            numbers: reader.take("numbers of a resend")?,
            events: reader.take("events of a resend")?,
        };
        let NumberRange { first, last } = resend.numbers;
        if are_ordered(&resend.events, first..=last) {
            Ok(resend)
        } else {
            Err(reader.error(Fault::NotAscending))
        }
    }
}

/// Events are of one run, among `numbers`, and in ascending order.
pub(super) fn are_ordered<C>(events: &[SentEvent<C>], numbers: impl RangeBounds<u64>) -> bool {
    let dots = || events.iter().map(|event| event.dot);
    let is_within = dots().all(|dot| numbers.contains(&dot.number));
    let is_ascending = dots().is_sorted_by(|one, other| one.run == other.run && one.number < other.number);
    is_within && is_ascending
}

/// Form of a change.
const CHANGE: u8 = 0;
/// Form of a ring marker.
const RING_MARKER: u8 = 1;
