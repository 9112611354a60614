//! Replies to clients with a small Maximum Packet Size, at a node that does not lead the group of the key.
//!
//! The simulated server stops the test if it sends a packet that is larger than its client takes.

use std::collections::BTreeSet;
use std::time::Duration;

use cluster::GroupId;
use protocol::Packet;
use protocol::packet::{ProtocolVersion, Publish, QoS, encoded_len};
use state_service::group_of_key;

use crate::client;
use crate::groups::scan;
use crate::world::{GROUPS, Place, World, key_of};

/// Node of all clients. It leads the group of its own number alone.
const FOLLOWER: usize = 1;

/// Group of the keys that are too large. Node 0 leads it.
const GROUP: u32 = 0;

const KEYS: usize = 60;

/// Room for a page with a token and a few keys.
const PACKET_SIZE_MAX: u32 = 600;

/// Time for a reply. Where no message is lost, each takes a few milliseconds.
const REPLY_WITHIN: Duration = Duration::from_secs(3);

/// A cluster, and the number of clients that have connected to the follower.
struct Cluster {
    world: World,
    clients: usize,
}

/// A client of the follower.
struct Client {
    name: String,
    at: Place,
    /// Number of its last request.
    last: u16,
}

impl Cluster {
    fn new() -> Self {
        let mut world = World::new(1);
        world.run(Duration::from_secs(10), World::is_spread);
        assert!(world.is_spread());
        Self { world, clients: 0 }
    }

    /// Connects a client. The names of all clients are equally long, and so are their replies.
    fn client(&mut self, packet_size_max: Option<u32>) -> Client {
        self.clients += 1;
        let name = format!("client{:02}", self.clients);
        let mut connect = client::connect(&name);
        connect.properties.packet_size_max = packet_size_max;
        let machine = self.world.machine(FOLLOWER);
        let connection = machine.open();
        machine.receive(connection, Packet::Connect(Box::new(connect)));
        let responses = format!("clients/{name}/response");
        machine.receive(connection, client::subscribe(&[&responses], QoS::AtMostOnce));
        self.world.run(Duration::from_millis(10), |_| false);
        let acknowledged = self.world.machine(FOLLOWER).take_sent(connection);
        assert_eq!(acknowledged.len(), 2, "CONNACK and SUBACK");
        let at = Place {
            node: FOLLOWER,
            connection,
        };
        Client { name, at, last: 0 }
    }

    /// Sends a request and waits for its reply.
    fn ask(&mut self, client: &mut Client, arguments: &[&str]) -> Publish {
        client.last += 1;
        self.world.ask(client.at, &client.name, client.last, arguments);
        let end = self.world.now + REPLY_WITHIN;
        loop {
            let sent = self.world.machine(FOLLOWER).take_sent(client.at.connection);
            let reply = sent.into_iter().find_map(|packet| match packet {
                Packet::Publish(publish) => Some(*publish),
                _ => None,
            });
            if let Some(reply) = reply {
                return reply;
            }
            assert!(self.world.now < end, "no reply to {arguments:?}");
            self.world.step();
        }
    }

    fn answer(&mut self, client: &mut Client, arguments: &[&str]) -> String {
        let reply = self.ask(client, arguments);
        String::from_utf8_lossy(&reply.payload).into_owned()
    }

    /// Asks for a large reply, and sees that a client with the size that the error names gets it, and one with a byte less does not.
    fn check_the_size_that_fits(&mut self, arguments: &[&str]) {
        let mut unlimited = self.client(None);
        let reply = self.ask(&mut unlimited, arguments);
        let whole = String::from_utf8_lossy(&reply.payload).into_owned();
        assert!(!whole.starts_with("-ERR"), "{whole}");
        let size = encoded_len(&Packet::Publish(Box::new(reply)), ProtocolVersion::V5);
        let size = u32::try_from(size).expect("small");
        for too_small in [PACKET_SIZE_MAX, size - 1] {
            let mut small = self.client(Some(too_small));
            let refused =
                format!("-ERR the reply is a packet of {size} bytes, and the client takes {too_small}\r\n");
            assert_eq!(self.answer(&mut small, arguments), refused);
        }
        let mut fitting = self.client(Some(size));
        assert_eq!(self.answer(&mut fitting, arguments), whole);
    }

    /// Sees that other nodes led the other groups to the end, and that no reply was dropped.
    fn end(mut self) {
        assert!(self.world.is_spread());
        let node = self.world.machine(FOLLOWER).node();
        assert_eq!(node.counters().dropped.too_large, 0);
    }
}

#[test]
fn a_follower_names_the_size_of_a_value_that_its_client_does_not_take() {
    let mut cluster = Cluster::new();
    let mut writer = cluster.client(None);
    let (key, value) = (key_of(GROUP), "x".repeat(2_000));
    assert_eq!(cluster.answer(&mut writer, &["SET", &key, &value]), "+OK\r\n");
    cluster.check_the_size_that_fits(&["GET", &key]);
    cluster.end();
}

#[test]
fn a_follower_cuts_the_pages_of_a_scan_to_what_its_client_takes() {
    let mut cluster = Cluster::new();
    let mut writer = cluster.client(None);
    let keys: BTreeSet<String> = (0..KEYS)
        .map(|number| format!("key{number}{}", "x".repeat(number)))
        .collect();
    for key in &keys {
        assert_eq!(cluster.answer(&mut writer, &["SET", key, "v"]), "+OK\r\n");
    }
    let mut pages = |packet_size_max| {
        let mut client = cluster.client(packet_size_max);
        let mut pages = 0;
        let listed = scan("key*", |arguments| {
            pages += 1;
            cluster.answer(&mut client, arguments)
        });
        assert_eq!(listed, keys);
        pages
    };
    assert_eq!(pages(None), GROUPS, "a page of each group");
    let small = pages(Some(PACKET_SIZE_MAX));
    assert!(small > 2 * GROUPS, "{small} pages");

    // A page has one key at least.
    let mut longest = (0..).map(|number| format!("long{number}{}", "y".repeat(600)));
    let longest = longest.find(|key| group_of_key(key.as_bytes(), GROUPS) == GroupId(GROUP));
    let longest = longest.expect("some key is");
    assert_eq!(cluster.answer(&mut writer, &["SET", &longest, "v"]), "+OK\r\n");
    cluster.check_the_size_that_fits(&["SCAN", "long*"]);
    cluster.end();
}
