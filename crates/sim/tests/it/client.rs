//! Clients of simulated servers: what they send, and one that asks a state store.

use bytes::Bytes;
use mqtt::ids::ConnectionId;
use protocol::packet::{Connect, PacketId, Publish, QoS, Subscribe};
use protocol::properties::MessageProperties;
use protocol::state_store::Notification;
use protocol::state_store::topics::notified_key;
use protocol::{Packet, Text};
use sim::Machine;
use sim::transcript::request;
use smallvec::SmallVec;

/// A client with a connection to a server, where it gets the responses of the state store.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) connection: ConnectionId,
}

/// What a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) number: u16,
    pub(crate) payload: String,
    pub(crate) version: Option<String>,
}

impl Client {
    /// Connects, and subscribes to its responses. What the server says to that is not read yet.
    pub(crate) fn connect(machine: &mut Machine, name: &str) -> Self {
        let connection = machine.open();
        machine.receive(connection, Packet::Connect(Box::new(connect(name))));
        let responses = format!("clients/{name}/response");
        machine.receive(connection, subscribe(&[&responses], QoS::AtMostOnce));
        let name = name.to_owned();
        Self { name, connection }
    }

    /// The same; and the server has said that it is connected.
    pub(crate) fn connected(machine: &mut Machine, name: &str) -> Self {
        let client = Self::connect(machine, name);
        machine.write_all();
        assert_eq!(
            machine.take_sent(client.connection).len(),
            2,
            "CONNACK and SUBACK"
        );
        client
    }

    /// Asks something; the number is the name of the request.
    pub(crate) fn ask(&self, machine: &mut Machine, number: u16, arguments: &[&str]) {
        let packet = request(&self.name, machine.now(), number, arguments);
        machine.receive(self.connection, packet);
    }

    /// The responses that came since the last call.
    pub(crate) fn responses(&self, machine: &mut Machine) -> Vec<Response> {
        responses(machine.take_sent(self.connection))
    }

    /// What a server without peers answers.
    pub(crate) fn answer(&self, machine: &mut Machine, arguments: &[&str]) -> String {
        self.ask(machine, 1, arguments);
        machine.write_all();
        let mut responses = self.responses(machine);
        assert_eq!(responses.len(), 1, "{arguments:?}: {responses:?}");
        responses.remove(0).payload
    }
}

/// The responses of a state store among these packets.
pub(crate) fn responses(packets: Vec<Packet>) -> Vec<Response> {
    let publishes = packets.into_iter().filter_map(|packet| match packet {
        Packet::Publish(publish) => Some(publish),
        _ => None,
    });
    let responses = publishes.filter_map(|publish| {
        // Notifications have no number.
        let number = publish.properties.correlation_data.as_deref()?;
        let mut properties = publish.properties.user_properties.iter();
        let version = properties.find(|(name, _)| *name == "__ts");
        Some(Response {
            number: u16::from_be_bytes(number.try_into().expect("as it was asked")),
            payload: String::from_utf8_lossy(&publish.payload).into_owned(),
            version: version.map(|(_, version)| version.to_owned()),
        })
    });
    responses.collect()
}

/// A change of a key that a client watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notified {
    pub(crate) key: String,
    /// What it was set to; `None`: it was deleted.
    pub(crate) value: Option<String>,
}

/// What a client of this name is notified of by these packets.
pub(crate) fn notifications(packets: &[Packet], name: &str) -> Vec<Notified> {
    let notified = packets.iter().filter_map(|packet| {
        let Packet::Publish(publish) = packet else {
            return None;
        };
        let key = notified_key(publish.topic.as_str(), name)?;
        let notification = Notification::parse(&publish.payload).expect("a notification");
        let value = match notification {
            Notification::Set { value } => Some(String::from_utf8_lossy(&value).into_owned()),
            Notification::Delete => None,
        };
        let key = String::from_utf8_lossy(&key).into_owned();
        Some(Notified { key, value })
    });
    notified.collect()
}

/// A CONNECT with nothing special.
pub(crate) fn connect(name: &str) -> Connect {
    Connect::new(text(name))
}

pub(crate) fn subscribe(filters: &[&str], qos: QoS) -> Packet {
    let packet_id = PacketId::new(60_000).expect("it is above 0");
    let filters = filters.iter().map(|filter| text(filter));
    Packet::Subscribe(Subscribe::new(packet_id, qos, filters))
}

/// A PUBLISH with nothing special, of QoS 0.
pub(crate) fn publish(topic: &str) -> Publish {
    Publish {
        dup: false,
        qos: QoS::AtMostOnce,
        retain: false,
        topic: text(topic),
        packet_id: None,
        topic_alias: None,
        subscription_ids: SmallVec::new(),
        properties: MessageProperties::default(),
        payload: Bytes::from_static(b"x"),
    }
}

fn text(text: &str) -> Text {
    Text::new(text).expect("a short text")
}
