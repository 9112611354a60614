//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (MQTT 5.0 sections 3.8 to 3.11).

use super::Detail;
use super::sink::{Counter, Sink};
use crate::packet::{
    PropertyId, ProtocolVersion, SubAck, Subscribe, SubscriptionOptions, UnsubAck, Unsubscribe,
};
use crate::properties::Explanation;

pub(super) fn subscribe(subscribe: &Subscribe, version: ProtocolVersion, out: &mut impl Sink) {
    out.u16(subscribe.packet_id.get());
    if version == ProtocolVersion::V5 {
        let mut counter = Counter::default();
        subscribe_properties(subscribe, &mut counter);
        out.variable_byte_integer(counter.count());
        subscribe_properties(subscribe, out);
    }
    for line in &subscribe.filters {
        out.text(&line.filter);
        out.u8(options(line.options, version));
    }
}

pub(super) fn suback(suback: &SubAck, version: ProtocolVersion, detail: Detail, out: &mut impl Sink) {
    out.u16(suback.packet_id.get());
    if version == ProtocolVersion::V5 {
        explanation(&suback.explanation, detail, out);
    }
    for reason in &suback.reasons {
        out.u8(match version {
            ProtocolVersion::V5 => *reason as u8,
            ProtocolVersion::V311 => reason.to_v311_suback(),
        });
    }
}

pub(super) fn unsubscribe(unsubscribe: &Unsubscribe, version: ProtocolVersion, out: &mut impl Sink) {
    out.u16(unsubscribe.packet_id.get());
    if version == ProtocolVersion::V5 {
        let encoded = unsubscribe.user_properties.encoded();
        out.variable_byte_integer(encoded.len());
        out.bytes(encoded);
    }
    for filter in &unsubscribe.filters {
        out.text(filter);
    }
}

pub(super) fn unsuback(unsuback: &UnsubAck, version: ProtocolVersion, detail: Detail, out: &mut impl Sink) {
    out.u16(unsuback.packet_id.get());
    if version == ProtocolVersion::V311 {
        return;
    }
    explanation(&unsuback.explanation, detail, out);
    for reason in &unsuback.reasons {
        out.u8(*reason as u8);
    }
}

fn explanation(explanation: &Explanation, detail: Detail, out: &mut impl Sink) {
    let mut counter = Counter::default();
    detail.write(explanation, &mut counter);
    out.variable_byte_integer(counter.count());
    detail.write(explanation, out);
}

fn subscribe_properties(subscribe: &Subscribe, out: &mut impl Sink) {
    if let Some(id) = subscribe.subscription_id {
        out.u8(PropertyId::SubscriptionIdentifier as u8);
        out.variable_byte_integer(id.get() as usize);
    }
    out.bytes(subscribe.user_properties.encoded());
}

fn options(options: SubscriptionOptions, version: ProtocolVersion) -> u8 {
    match version {
        ProtocolVersion::V311 => options.qos as u8,
        ProtocolVersion::V5 => {
            options.qos as u8
                | u8::from(options.no_local) << 2
                | u8::from(options.retain_as_published) << 3
                | (options.retain_handling as u8) << 4
        }
    }
}
