//! Packets to words.

use std::fmt::Write as _;

use bytes::Bytes;
use mqtt::authentication::Question;
use protocol::packet::{Ack, ConnAck, Disconnect, Publish, QoS};
use protocol::properties::{Explanation, MessageProperties};
use protocol::{Packet, Text};

/// One line that says what a packet says.
pub(super) fn packet(packet: &Packet) -> String {
    match packet {
        Packet::ConnAck(connack) => shown_connack(connack),
        Packet::Publish(publish) => shown_publish(publish),
        Packet::PubAck(ack) => shown_ack("PUBACK", ack),
        Packet::PubRec(ack) => shown_ack("PUBREC", ack),
        Packet::PubRel(ack) => shown_ack("PUBREL", ack),
        Packet::PubComp(ack) => shown_ack("PUBCOMP", ack),
        Packet::SubAck(suback) => format!("SUBACK id={} {:?}", suback.packet_id.get(), suback.reasons),
        Packet::UnsubAck(unsuback) => {
            format!("UNSUBACK id={} {:?}", unsuback.packet_id.get(), unsuback.reasons)
        }
        Packet::PingResp => "PINGRESP".to_owned(),
        Packet::Disconnect(disconnect) => shown_disconnect(disconnect),
        Packet::Auth(auth) => {
            let method = auth.method.as_deref().unwrap_or("-");
            format!(
                "AUTH {:?} {method}{}",
                auth.reason,
                named("data", auth.data.as_ref())
            )
        }
        other => format!("{other:?}"),
    }
}

/// What the edge is asked.
pub(super) fn question(question: &Question) -> String {
    let mut out = match &question.method {
        Some(method) => method.to_string(),
        None => "no method".to_owned(),
    };
    out.push_str(&named("data", question.data.as_ref()));
    if let Some(credentials) = &question.credentials {
        let _ = write!(out, " client_id={}", credentials.client_id);
        if let Some(username) = &credentials.username {
            let _ = write!(out, " username={username}");
        }
        out.push_str(&named("password", credentials.password.as_ref()));
    }
    out.push_str(&named("again", question.continuation.as_ref()));
    if let Some(principal) = &question.principal {
        let _ = write!(out, " was={}", principal.name);
    }
    out
}

fn named(name: &str, value: Option<&Bytes>) -> String {
    value
        .map(|value| format!(" {name}={}", shown_payload(value)))
        .unwrap_or_default()
}

fn shown_connack(connack: &ConnAck) -> String {
    let mut out = format!("CONNACK {:?}", connack.reason);
    if connack.session_present {
        out.push_str(" session_present");
    }
    let properties = &connack.properties;
    if let Some(expiry) = properties.session_expiry {
        let _ = write!(out, " session_expiry={expiry}");
    }
    if let Some(client_id) = &properties.assigned_client_id {
        let _ = write!(out, " assigned_client_id={} bytes", client_id.len());
    }
    if let Some(response) = &properties.response_information {
        let _ = write!(out, " response_information={response}");
    }
    if let Some(keep_alive) = properties.server_keep_alive {
        let _ = write!(out, " server_keep_alive={keep_alive}");
    }
    if let Some(method) = &properties.authentication_method {
        let _ = write!(out, " authentication_method={method}");
    }
    out.push_str(&named(
        "authentication_data",
        properties.authentication_data.as_ref(),
    ));
    out.push_str(&reference(properties.server_reference.as_ref()));
    out + &explained(&properties.explanation)
}

fn shown_publish(publish: &Publish) -> String {
    let mut out = format!(
        "PUBLISH {}",
        if publish.topic.is_empty() {
            "-"
        } else {
            &publish.topic
        }
    );
    if !publish.payload.is_empty() {
        let _ = write!(out, " {}", shown_payload(&publish.payload));
    }
    if publish.qos != QoS::AtMostOnce {
        let _ = write!(out, " qos={}", publish.qos as u8);
    }
    if let Some(id) = publish.packet_id {
        let _ = write!(out, " id={}", id.get());
    }
    for (is_set, name) in [(publish.retain, " +retain"), (publish.dup, " +dup")] {
        out.push_str(if is_set { name } else { "" });
    }
    if let Some(expiry) = publish.properties.message_expiry {
        let _ = write!(out, " expiry={expiry}");
    }
    if let Some(alias) = publish.topic_alias {
        let _ = write!(out, " alias={alias}");
    }
    for id in &publish.subscription_ids {
        let _ = write!(out, " sub_id={id}");
    }
    out.push_str(&shown_request(&publish.properties));
    for (name, value) in publish.properties.user_properties.iter() {
        let _ = write!(out, " {name}={value}");
    }
    out
}

/// What a message says of its payload, and of the answer it asks for.
fn shown_request(properties: &MessageProperties) -> String {
    let mut out = String::new();
    if let Some(is_utf8) = properties.payload_is_utf8 {
        out.push_str(if is_utf8 { " +utf8" } else { " +bytes" });
    }
    if let Some(content_type) = &properties.content_type {
        let _ = write!(out, " content_type={content_type}");
    }
    if let Some(topic) = &properties.response_topic {
        let correlation = properties.correlation_data.as_deref().unwrap_or_default();
        let _ = write!(
            out,
            " response_topic={topic} correlation={}",
            shown_payload(correlation)
        );
    }
    out
}

/// From so many bytes on spaces at the end of a payload are not shown.
const LONG: usize = 256;

fn shown_payload(payload: &[u8]) -> String {
    let shown = payload.trim_ascii_end();
    if payload.len() >= LONG && shown.len() < LONG {
        return format!("{} ({} bytes)", shown_payload(shown), payload.len());
    }
    String::from_utf8_lossy(payload)
        .replace("\r\n", "|")
        .replace(char::is_control, "?")
}

fn shown_ack(name: &str, ack: &Ack) -> String {
    let explained = ack.explanation.as_deref().map(explained).unwrap_or_default();
    format!("{name} id={} {:?}{explained}", ack.packet_id.get(), ack.reason)
}

fn shown_disconnect(disconnect: &Disconnect) -> String {
    format!(
        "DISCONNECT {:?}{}{}",
        disconnect.reason,
        reference(disconnect.server_reference.as_ref()),
        explained(&disconnect.explanation)
    )
}

fn reference(server: Option<&Text>) -> String {
    server
        .map(|server| format!(" server_reference={server}"))
        .unwrap_or_default()
}

fn explained(explanation: &Explanation) -> String {
    explanation
        .reason_string
        .as_ref()
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default()
}
