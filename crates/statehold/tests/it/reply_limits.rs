//! Replies and notifications that do not fit the client: each is answered or told, none is missing without a word.

use client::protocol::ReasonCode;
use client::protocol::Text;
use client::protocol::packet::{Ack, Connect, Packet, PacketId, Publish, QoS};
use client::protocol::properties::{MessageProperties, UserProperties};
use client::protocol::state_store::{INVOKE_TOPIC, Request};

use crate::harness::Server;
use crate::raw::{self, Raw, packet_id};

/// Maximum Packet Size of the client.
const PACKET_SIZE_MAX: u32 = 10_000;

const RESPONSES: &str = "clients/small/response";

struct Small(Raw);

impl Small {
    fn connect(server: &Server) -> Self {
        let mut connect: Connect = raw::connect("small");
        connect.properties.packet_size_max = Some(PACKET_SIZE_MAX);
        let mut raw = Raw::connect(&server.mqtt, connect);
        raw.subscribe(RESPONSES, QoS::AtLeastOnce);
        Self(raw)
    }

    /// Payload of the reply to a request.
    fn ask(&mut self, number: u16, request: &Request) -> String {
        self.0.send(&publish(packet_id(number), request));
        let mut reply = None;
        loop {
            match self.0.receive() {
                Packet::Publish(publish) => {
                    let payload = String::from_utf8_lossy(&publish.payload).into_owned();
                    let id = publish.packet_id.expect("of QoS 1");
                    self.0.send(&Packet::PubAck(Ack::new(id, ReasonCode::Success)));
                    reply = Some(payload);
                }
                Packet::PubAck(ack) => {
                    assert_eq!(ack.reason, ReasonCode::Success);
                    return reply.expect("the reply goes before PUBACK");
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn publish(packet_id: PacketId, request: &Request) -> Packet {
    let properties = [("__ts", "1:0:small"), ("__protVer", "1.0")];
    Packet::Publish(Box::new(Publish {
        dup: false,
        qos: QoS::AtLeastOnce,
        retain: false,
        topic: Text::from_static(INVOKE_TOPIC),
        packet_id: Some(packet_id),
        topic_alias: None,
        subscription_ids: Default::default(),
        properties: MessageProperties {
            response_topic: Some(Text::from_static(RESPONSES)),
            correlation_data: Some(packet_id.get().to_be_bytes().to_vec().into()),
            user_properties: UserProperties::from_pairs(properties).expect("short"),
            ..MessageProperties::default()
        },
        payload: request.encode(),
    }))
}

#[test]
fn a_client_that_takes_small_packets_is_told_what_does_not_fit() {
    let server = Server::start();
    let large = "x".repeat(20_000);
    server.run(&["set", "large", &large]).expect(0);
    let mut small = Small::connect(&server);
    let key = || "large".into();
    let reply = small.ask(1, &Request::Get { key: key() });
    assert!(reply.starts_with("-ERR the reply is a packet of 20"), "{reply}");
    assert!(reply.ends_with(", and the client takes 10000\r\n"), "{reply}");

    let watch = Request::KeyNotify {
        key: key(),
        stop: false,
    };
    assert_eq!(small.ask(2, &watch), "+OK\r\n");
    server.run(&["set", "large", &large]).expect(0);
    match small.0.receive() {
        Packet::Disconnect(disconnect) => {
            assert_eq!(disconnect.reason, ReasonCode::PacketTooLarge);
            let why = disconnect.explanation.reason_string.expect("it says why");
            assert!(
                why.as_str().contains("a change of a watched key was missed"),
                "{why}"
            );
        }
        other => panic!("{other:?}"),
    }
    small.0.closed();
    let page = server.admin_page("/metrics");
    let line = "statehold_store_watchers_ended_total{cause=\"packet_size\"} 1";
    assert!(page.contains(line), "{page}");
}
