//! PUBACK, PUBREC, PUBREL, PUBCOMP, DISCONNECT and AUTH (MQTT 5.0 sections 3.4 to 3.7, 3.14 and 3.15), in their
//! shortest form.

use super::Detail;
use super::sink::{Counter, Sink};
use crate::packet::{Ack, Auth, Disconnect, PropertyId, ProtocolVersion};
use crate::reason_code::ReasonCode;

pub(super) fn ack(ack: &Ack, version: ProtocolVersion, detail: Detail, out: &mut impl Sink) {
    out.u16(ack.packet_id.get());
    if version == ProtocolVersion::V311 {
        return;
    }
    let mut counter = Counter::default();
    if let Some(explanation) = &ack.explanation {
        detail.write(explanation, &mut counter);
    }
    if !reason_and_length(ack.reason, counter.count(), out) {
        return;
    }
    if let Some(explanation) = &ack.explanation {
        detail.write(explanation, out);
    }
}

pub(super) fn disconnect(
    disconnect: &Disconnect,
    version: ProtocolVersion,
    detail: Detail,
    out: &mut impl Sink,
) {
    if version == ProtocolVersion::V311 {
        return;
    }
    let mut counter = Counter::default();
    disconnect_properties(disconnect, detail, &mut counter);
    if reason_and_length(disconnect.reason, counter.count(), out) {
        disconnect_properties(disconnect, detail, out);
    }
}

pub(super) fn auth(auth: &Auth, detail: Detail, out: &mut impl Sink) {
    let mut counter = Counter::default();
    auth_properties(auth, detail, &mut counter);
    // Unlike the others, an AUTH may leave out its property length only together with its reason code.
    if counter.count() == 0 && auth.reason == ReasonCode::Success {
        return;
    }
    out.u8(auth.reason as u8);
    out.variable_byte_integer(counter.count());
    auth_properties(auth, detail, out);
}

/// Writes the reason code and the length of the properties, as far as they cannot be left out; says whether
/// properties follow.
fn reason_and_length(reason: ReasonCode, properties_length: usize, out: &mut impl Sink) -> bool {
    if properties_length == 0 && reason == ReasonCode::Success {
        return false;
    }
    out.u8(reason as u8);
    if properties_length == 0 {
        return false;
    }
    out.variable_byte_integer(properties_length);
    true
}

fn disconnect_properties(disconnect: &Disconnect, detail: Detail, out: &mut impl Sink) {
    out.u32_property(PropertyId::SessionExpiryInterval, disconnect.session_expiry);
    out.text_property(PropertyId::ServerReference, disconnect.server_reference.as_ref());
    detail.write(&disconnect.explanation, out);
}

fn auth_properties(auth: &Auth, detail: Detail, out: &mut impl Sink) {
    out.text_property(PropertyId::AuthenticationMethod, auth.method.as_ref());
    out.binary_property(PropertyId::AuthenticationData, auth.data.as_deref());
    detail.write(&auth.explanation, out);
}
