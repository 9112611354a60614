//! What is refused is in the log: by whom, where, about which topic or filter, and why.

use client::protocol::packet::QoS;
use client::protocol::{Packet, Text};

use crate::configured::Configured;
use crate::raw::{self, Raw};

const SETTINGS: &str = r#"
[[listeners]]
address = "127.0.0.1:0"
[limits]
topic_levels_max = 3
"#;

/// The lines about what clients did, up to the first with this text.
fn logged_up_to(server: &mut Configured, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while !lines.last().is_some_and(|line: &String| line.contains(text)) {
        lines.push(server.logged("server::reporting"));
    }
    lines
}

#[test]
fn refusals_name_client_listener_topic_and_cause() {
    let mut server = Configured::start(SETTINGS);
    let address = server.at("mqtt").to_owned();
    let mut client = Raw::connect(&address, raw::connect("clumsy"));
    for number in 1..=3 {
        for topic in ["$SYS/broker/uptime", "a/b/c/d"] {
            client.send(&raw::publish(topic, Some(raw::packet_id(number)), b""));
            let answer = client.receive();
            assert!(
                matches!(&answer, Packet::PubAck(ack) if ack.reason.is_error()),
                "{answer:?}"
            );
        }
        client.send(&raw::subscribe("a/#/b", QoS::AtLeastOnce));
        let answer = client.receive();
        assert!(
            matches!(&answer, Packet::SubAck(suback) if suback.reasons[0].is_error()),
            "{answer:?}"
        );
    }
    client.send(&Packet::Connect(Box::new(raw::connect("clumsy"))));

    let lines = logged_up_to(&mut server, "closed connection");
    for line in &lines {
        assert!(line.contains("client_id=clumsy"), "{line}");
        assert!(line.contains(&format!("listener={address}")), "{line}");
    }
    let count = |texts: &[&str]| {
        let has_all = |line: &&String| texts.iter().all(|text| line.contains(text));
        lines.iter().filter(has_all).count()
    };
    let own = [
        "rejected PUBLISH: ",
        "topic=$SYS/broker/uptime",
        "0x87 Not authorized",
    ];
    assert_eq!(count(&own), 3, "{lines:#?}");
    let deep = ["rejected PUBLISH: ", "topic=a/b/c/d", "0x90 Topic Name invalid"];
    assert_eq!(count(&deep), 3, "{lines:#?}");
    let filter = [
        "rejected SUBSCRIBE: ",
        "filter=a/#/b",
        "0x8F Topic Filter invalid",
    ];
    assert_eq!(count(&filter), 3, "{lines:#?}");
    assert_eq!(lines.len(), 10, "{lines:#?}");
}

#[test]
fn a_refused_connect_names_its_client() {
    let mut server = Configured::start(SETTINGS);
    let mut connect = raw::connect("stranger");
    connect.properties.authentication_method = Some(Text::new("GUESS").expect("a method"));
    let mut client = Raw::begin(server.at("mqtt"), connect);
    let answer = client.receive();
    assert!(
        matches!(&answer, Packet::ConnAck(connack) if connack.reason.is_error()),
        "{answer:?}"
    );
    let line = server.logged("rejected CONNECT");
    assert!(line.contains("client_id=stranger"), "{line}");
    assert!(
        line.contains(&format!("listener={}", server.at("mqtt"))),
        "{line}"
    );
}
