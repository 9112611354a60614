//! Publishing: routes of QoS 2 numbers, and their confirmations.
//!
//! ```text
//! route   | number, marker, clock, known, message
//! message | 0; or 1, or 2 where it is for transient sessions there, then slots of the receiver, content
//! confirm | number, marker
//! number  | run, how far it is above the highest number of an event
//! ```
//!
//! The number of an event cannot be written in the form of a QoS 2 number: a node that covered it
//! would lose the event.

use std::sync::Arc;

use cluster::session_plane::Hlc;

use super::field::{Field, Positive};
use super::reader::Reader;
use super::with_kind::WithKind;
use super::writer::Writer;
use super::{Fault, Kind, WireError, WireValue};
use crate::dot::EVENT_NUMBER_MAX;
use crate::publishing::{ConfirmRoute, PublishingMessage, Route, RoutedMessage, RoutedTo};
use crate::{Dot, Run, VersionVector};

impl<M: WireValue> WithKind for PublishingMessage<M> {
    fn kind(&self) -> Kind {
        match self {
            PublishingMessage::Route(_) => Kind::Route,
            PublishingMessage::Confirm(_) => Kind::ConfirmRoute,
        }
    }

    fn put_fields(&self, writer: &mut Writer) {
        match self {
            PublishingMessage::Route(route) => writer.put(route),
            PublishingMessage::Confirm(confirm) => writer.put(confirm),
        }
    }

    fn take_fields(reader: &mut Reader, kind: Kind) -> Result<PublishingMessage<M>, WireError> {
        Ok(match kind {
            Kind::Route => PublishingMessage::Route(reader.take("route")?),
            Kind::ConfirmRoute => PublishingMessage::Confirm(reader.take("confirmation")?),
            _ => return Err(WireError::MisplacedKind { kind }),
        })
    }
}

/// QoS 2 number: its run, and its place among those of the run, from 1.
#[derive(Debug)]
struct Qos2Number(Dot);

impl Field for Qos2Number {
    const BYTES_MIN: usize = Run::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        let Qos2Number(Dot { run, number }) = self;
        writer.put(run);
        writer.put_number(number.wrapping_sub(EVENT_NUMBER_MAX));
    }

    fn take(reader: &mut Reader) -> Result<Qos2Number, WireError> {
        let (run, place) = (reader.run()?, reader.positive()?);
        let (found, max) = (place, u64::MAX - EVENT_NUMBER_MAX);
        let number = EVENT_NUMBER_MAX.checked_add(place);
        let number = number.ok_or(reader.error(Fault::TooHigh { found, max }))?;
        Ok(Qos2Number(Dot { run, number }))
    }
}

impl<M: WireValue> Field for Route<M> {
    const BYTES_MIN: usize =
        Qos2Number::BYTES_MIN + Positive::BYTES_MIN + Hlc::BYTES_MIN + VersionVector::BYTES_MIN + 1;

    fn put(&self, writer: &mut Writer) {
        writer.put(&Qos2Number(self.number));
        writer.put(&Positive(self.marker));
        writer.put(&self.clock);
        writer.put(self.known.as_ref());
        put_message(writer, self.message.as_ref());
    }

    fn take(reader: &mut Reader) -> Result<Route<M>, WireError> {
        let Qos2Number(number) = reader.take("number of a route")?;
        let Positive(marker) = reader.take("ring marker of a route")?;
        Ok(Route {
            number,
            marker,
            clock: reader.take("clock of a routed message")?,
            known: Arc::new(reader.take("knowledge at a route")?),
            message: take_message(reader)?,
        })
    }
}

/// Appends the message of a route: 0; or 1 and a message for slots; or 2 and one for transient sessions, too.
fn put_message<M: WireValue>(writer: &mut Writer, message: Option<&RoutedMessage<M>>) {
    let Some(message) = message else {
        return writer.put_byte(0);
    };
    writer.put_byte(if message.to().is_transient { 2 } else { 1 });
    writer.put(&message.to().slots);
    writer.put_value(message.content());
}

fn take_message<M: WireValue>(reader: &mut Reader) -> Result<Option<RoutedMessage<M>>, WireError> {
    let outer = reader.enter("routed message");
    let is_transient = match reader.byte()? {
        0 => None,
        1 => Some(false),
        2 => Some(true),
        found => return Err(reader.error(Fault::UnknownForm { found })),
    };
    let message = match is_transient {
        None => None,
        Some(is_transient) => {
            let slots = reader.take("slots of a routed message")?;
            let to = RoutedTo { slots, is_transient };
            let content = reader.value("content of a routed message")?;
            let message = RoutedMessage::new(to, content);
            Some(message.map_err(|error| reader.error(error))?)
        }
    };
    reader.enter(outer);
    Ok(message)
}

impl Field for ConfirmRoute {
    const BYTES_MIN: usize = Qos2Number::BYTES_MIN + Positive::BYTES_MIN;

    fn put(&self, writer: &mut Writer) {
        writer.put(&Qos2Number(self.number));
        writer.put(&Positive(self.marker));
    }

    fn take(reader: &mut Reader) -> Result<ConfirmRoute, WireError> {
        let Qos2Number(number) = reader.take("number of a route")?;
        let Positive(marker) = reader.take("ring marker of a route")?;
        Ok(ConfirmRoute { number, marker })
    }
}
