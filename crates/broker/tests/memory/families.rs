//! What clients can make a broker hold, a function for each kind of it.
//!
//! The allocator of the test counts what it is asked for, the account what the server's allocator gives for it. So lengths here are
//! just below sizes that it gives.

use bytes::Bytes;
use mqtt::ids::ConnectionId;
use protocol::packet::{Publish, QoS, Will};
use protocol::properties::{MessageProperties, UserProperties};
use protocol::{Packet, Text, TopicName};

use crate::broker_of_test::{BrokerOfTest, Who, publish, with_alias};

type Family = fn(&mut BrokerOfTest);

/// Each with its name.
pub(crate) const ALL: &[(&str, Family)] = &[
    ("clients that are connected", connected),
    ("sessions of clients that are away", away),
    ("sessions with long client ids", long_client_ids),
    ("wills", wills),
    ("CONNECTs of clients that are not known yet", unknown),
    ("filters without wildcards", exact_filters),
    ("long filters without wildcards", long_filters),
    ("one filter of many sessions", popular_filter),
    ("filters of 128 short levels", deep_filters),
    ("filters of 128 long levels", deep_long_filters),
    (
        "filters below levels with wildcards of many depths",
        filters_of_many_depths,
    ),
    (
        "SUBSCRIBEs that are worked through in turns",
        unfinished_subscribes,
    ),
    ("retained messages that are due", due),
    ("subscriptions of sessions that have ended", leaving),
    ("shares of one session each", shares),
    ("a share of many sessions", popular_share),
    ("topic aliases of clients", inbound_aliases),
    ("topic aliases towards clients", outbound_aliases),
    ("small messages that wait", small_messages),
    ("large messages that wait", large_messages),
    ("messages with all properties", messages_with_properties),
    (
        "deliveries with many subscription identifiers",
        subscription_identifiers,
    ),
    ("one message that waits for many", one_for_many),
    ("messages that are inflight", inflight),
    ("small retained messages", small_retained),
    ("retained messages with long topics that expire", long_retained),
    ("small keys of the state store", small_keys),
    ("long keys with large values", large_keys),
    ("registrations for changes of keys", registrations),
    ("registrations for changes of long keys", long_registrations),
    ("small requests that wait", small_waiting),
    ("requests with long topics and data that wait", long_waiting),
];

/// All kinds of state that clients can end.
pub(crate) fn come_and_go(broker: &mut BrokerOfTest) {
    let one = broker.connect(client(1, false));
    let other = broker.connect(client(2, false));
    for number in 0..2_000 {
        for filter in [
            format!("exact/{number}"),
            format!("+/{number}/a/b/c/#"),
            format!("$share/{number}/a"),
        ] {
            broker.subscribe(one, filter.clone(), QoS::AtLeastOnce, Some(7));
            broker.subscribe(other, filter, QoS::AtLeastOnce, None);
        }
    }
    for number in 0..300 {
        let message = publish("exact/1", QoS::AtLeastOnce, 1_000, all_properties(number));
        broker.send(one, with_alias(message, 1 + u16::try_from(number % 32).unwrap()));
        let retained = Publish {
            retain: true,
            ..publish(
                &format!("r/{number}"),
                QoS::AtMostOnce,
                100,
                MessageProperties::default(),
            )
        };
        broker.send(one, Packet::Publish(Box::new(retained)));
    }
    for number in 0..300 {
        let cleared = Publish {
            retain: true,
            ..publish(
                &format!("r/{number}"),
                QoS::AtMostOnce,
                0,
                MessageProperties::default(),
            )
        };
        broker.send(one, Packet::Publish(Box::new(cleared)));
    }
    broker.lose(one);
    broker.lose(other);
    broker.rest();
}

fn connected(broker: &mut BrokerOfTest) {
    for number in 0..20_000 {
        broker.connect(client(number, false));
    }
}

fn away(broker: &mut BrokerOfTest) {
    for number in 0..20_000 {
        let connection = broker.connect(client(number, true));
        broker.lose(connection);
    }
}

fn long_client_ids(broker: &mut BrokerOfTest) {
    for number in 0..400 {
        let client_id = format!("{number:057000}");
        let connection = broker.connect(Who {
            client_id,
            is_durable: true,
            ..Who::default()
        });
        broker.lose(connection);
    }
}

fn wills(broker: &mut BrokerOfTest) {
    for number in 0..4_000 {
        broker.connect(Who {
            will: Some(will(number)),
            ..client(number, false)
        });
    }
}

fn will(number: u32) -> Will {
    Will {
        topic: TopicName::parse(Text::new(format!("wills/{number}")).unwrap()).unwrap(),
        payload: Bytes::from(vec![7; 3_000]),
        properties: all_properties(number),
        qos: QoS::AtLeastOnce,
        retain: false,
        delay: None,
    }
}

fn unknown(broker: &mut BrokerOfTest) {
    for number in 0..900 {
        let who = Who {
            will: Some(will(number)),
            ..client(number, false)
        };
        broker.ask(who, Bytes::from_static(b"secret"));
    }
}

fn exact_filters(broker: &mut BrokerOfTest) {
    subscribe(broker, 3, 9_000, |number| format!("plant/{number}/temperature"));
}

fn long_filters(broker: &mut BrokerOfTest) {
    subscribe(broker, 2, 300, |number| {
        format!("plant/{number}/{}", "x".repeat(49_000))
    });
}

fn popular_filter(broker: &mut BrokerOfTest) {
    let connections: Vec<_> = (0..1_000)
        .map(|number| broker.connect(client(number, false)))
        .collect();
    for connection in connections {
        for number in 0..50 {
            broker.subscribe(connection, format!("alarms/{number}/+"), QoS::AtMostOnce, None);
        }
    }
}

fn deep_filters(broker: &mut BrokerOfTest) {
    subscribe(broker, 1, 1_000, |number| {
        format!("{number}{}", "/a".repeat(126) + "/+")
    });
}

fn deep_long_filters(broker: &mut BrokerOfTest) {
    let level = format!("/{}", "long-level".repeat(19));
    subscribe(broker, 1, 200, |number| {
        format!("{number}{}/#", level.repeat(126))
    });
}

/// Each of the first levels has children of which messages visit differently many nodes.
fn filters_of_many_depths(broker: &mut BrokerOfTest) {
    subscribe(broker, 2, 9_000, |number| {
        let (above, depth) = (number / 3, number % 3);
        format!("{above}/{number}{}/+", "/a".repeat(depth as usize))
    });
}

fn unfinished_subscribes(broker: &mut BrokerOfTest) {
    for number in 0..30 {
        let connection = broker.connect(client(number, false));
        let filters: Vec<_> = (0..9_000)
            .map(|filter| format!("plant/{number}/line/{filter}"))
            .collect();
        broker.subscribe_all(connection, &filters);
    }
}

fn due(broker: &mut BrokerOfTest) {
    // More waits for the client than it has room for.
    let topics: Vec<_> = (0..100).map(|number| format!("r/{number}")).collect();
    let publisher = broker.connect(client(1_000, false));
    for topic in &topics {
        let message = publish(topic, QoS::AtMostOnce, 20, MessageProperties::default());
        let retained = Publish {
            retain: true,
            ..message
        };
        broker.send(publisher, Packet::Publish(Box::new(retained)));
    }
    let connection = broker.connect(client(1, false));
    broker.subscribe(connection, "r/#".to_owned(), QoS::AtLeastOnce, None);
    for number in 0..9_000 {
        broker.subscribe(connection, format!("r/{number:0200}/#"), QoS::AtMostOnce, None);
    }
}

fn leaving(broker: &mut BrokerOfTest) {
    for session in 0..4 {
        let connection = broker.connect(client(session, false));
        for number in 0..9_000 {
            broker.subscribe(connection, format!("{session}/{number}"), QoS::AtMostOnce, None);
        }
        broker.lose(connection);
    }
}

fn shares(broker: &mut BrokerOfTest) {
    subscribe(broker, 1, 9_000, |number| {
        format!("$share/group-{number}/plant/+/cmd")
    });
}

fn popular_share(broker: &mut BrokerOfTest) {
    let connections: Vec<_> = (0..1_000)
        .map(|number| broker.connect(client(number, false)))
        .collect();
    for connection in connections {
        for number in 0..50 {
            broker.subscribe(
                connection,
                format!("$share/all/orders/{number}"),
                QoS::AtMostOnce,
                None,
            );
        }
    }
}

/// So many sessions subscribe to filters of their own.
fn subscribe(broker: &mut BrokerOfTest, sessions: u32, filters: u32, filter: impl Fn(u32) -> String) {
    for session in 0..sessions {
        let connection = broker.connect(client(session, false));
        for number in 0..filters {
            broker.subscribe(
                connection,
                filter(session * filters + number),
                QoS::AtMostOnce,
                None,
            );
        }
    }
}

fn inbound_aliases(broker: &mut BrokerOfTest) {
    for number in 0..50 {
        let connection = broker.connect(client(number, false));
        for alias in 1..=32 {
            let topic = format!("{number}/{alias}/{}", "x".repeat(10_000));
            let message = publish(&topic, QoS::AtMostOnce, 0, MessageProperties::default());
            broker.send(connection, with_alias(message, alias));
        }
    }
}

fn outbound_aliases(broker: &mut BrokerOfTest) {
    let publisher = broker.connect(client(1_000, false));
    for number in 0..200 {
        let connection = broker.connect(Who {
            topic_alias_maximum: 32,
            ..client(number, false)
        });
        broker.subscribe(connection, "aliased/#".to_owned(), QoS::AtMostOnce, None);
    }
    for topic in 0..32 {
        let topic = format!("aliased/{topic}/{}", "x".repeat(2_000));
        let message = publish(&topic, QoS::AtMostOnce, 10, MessageProperties::default());
        broker.send(publisher, Packet::Publish(Box::new(message)));
    }
}

fn small_messages(broker: &mut BrokerOfTest) {
    wait(broker, 9_500, |_| {
        publish("queue", QoS::AtLeastOnce, 20, MessageProperties::default())
    });
}

fn large_messages(broker: &mut BrokerOfTest) {
    wait(broker, 300, |_| {
        publish("queue", QoS::AtLeastOnce, 98_000, MessageProperties::default())
    });
}

fn messages_with_properties(broker: &mut BrokerOfTest) {
    wait(broker, 2_000, |number| {
        publish("queue", QoS::AtLeastOnce, 100, all_properties(number))
    });
}

/// Messages for a session that is away.
fn wait(broker: &mut BrokerOfTest, messages: u32, message: impl Fn(u32) -> Publish) {
    let away = broker.connect(client(1, true));
    broker.subscribe(away, "queue".to_owned(), QoS::AtLeastOnce, None);
    broker.lose(away);
    let publisher = broker.connect(client(2, false));
    for number in 0..messages {
        broker.send(publisher, Packet::Publish(Box::new(message(number))));
    }
}

fn subscription_identifiers(broker: &mut BrokerOfTest) {
    let away = broker.connect(client(1, true));
    for level in 0..100 {
        let filter = format!("{}#", "+/".repeat(level));
        broker.subscribe(
            away,
            filter,
            QoS::AtLeastOnce,
            Some(1_000 + u32::try_from(level).unwrap()),
        );
    }
    broker.lose(away);
    let publisher = broker.connect(client(2, false));
    let topic = "a/".repeat(100) + "a";
    for _ in 0..9_000 {
        let message = publish(&topic, QoS::AtLeastOnce, 0, MessageProperties::default());
        broker.send(publisher, Packet::Publish(Box::new(message)));
    }
}

fn one_for_many(broker: &mut BrokerOfTest) {
    for number in 0..100 {
        let away = broker.connect(client(number, true));
        broker.subscribe(away, "queue".to_owned(), QoS::AtLeastOnce, None);
        broker.lose(away);
    }
    let publisher = broker.connect(client(1_000, false));
    for _ in 0..500 {
        let message = publish("queue", QoS::AtLeastOnce, 5_000, MessageProperties::default());
        broker.send(publisher, Packet::Publish(Box::new(message)));
    }
}

fn inflight(broker: &mut BrokerOfTest) {
    let publisher = broker.connect(client(1_000, false));
    for number in 0..10 {
        let connection = broker.connect(client(number, true));
        broker.subscribe(connection, format!("inflight/{number}"), QoS::AtLeastOnce, None);
        for _ in 0..1_000 {
            let message = publish(
                &format!("inflight/{number}"),
                QoS::AtLeastOnce,
                300,
                MessageProperties::default(),
            );
            broker.send(publisher, Packet::Publish(Box::new(message)));
        }
    }
}

fn small_retained(broker: &mut BrokerOfTest) {
    retain(broker, 20_000, |number| {
        publish(
            &format!("r/{number}"),
            QoS::AtMostOnce,
            20,
            MessageProperties::default(),
        )
    });
}

fn long_retained(broker: &mut BrokerOfTest) {
    retain(broker, 500, |number| {
        let topic = format!("{number}/{}", "level/".repeat(120) + &"x".repeat(19_600));
        let properties = MessageProperties {
            message_expiry: Some(3_600),
            ..MessageProperties::default()
        };
        publish(&topic, QoS::AtMostOnce, 20, properties)
    });
}

fn retain(broker: &mut BrokerOfTest, messages: u32, message: impl Fn(u32) -> Publish) {
    let publisher = broker.connect(client(1, false));
    for number in 0..messages {
        let retained = Publish {
            retain: true,
            ..message(number)
        };
        broker.send(publisher, Packet::Publish(Box::new(retained)));
    }
}

fn small_keys(broker: &mut BrokerOfTest) {
    request(broker, 20_000, |number| {
        format!("*3\r\n$3\r\nSET\r\n$10\r\nkey-{number:06}\r\n$4\r\n1234\r\n")
    });
}

fn large_keys(broker: &mut BrokerOfTest) {
    let value = "v".repeat(50_000);
    request(broker, 200, |number| {
        format!("*3\r\n$3\r\nSET\r\n$1000\r\n{number:01000}\r\n$50000\r\n{value}\r\n")
    });
}

fn registrations(broker: &mut BrokerOfTest) {
    request(broker, 9_000, |number| {
        format!("*2\r\n$9\r\nKEYNOTIFY\r\n$10\r\nkey-{number:06}\r\n")
    });
}

fn long_registrations(broker: &mut BrokerOfTest) {
    request(broker, 500, |number| {
        format!("*2\r\n$9\r\nKEYNOTIFY\r\n$2000\r\n{number:02000}\r\n")
    });
}

fn small_waiting(broker: &mut BrokerOfTest) {
    wait_for_the_disk(broker, 20, (RESPONSES, 4));
}

fn long_waiting(broker: &mut BrokerOfTest) {
    let topic = format!("{RESPONSES}/{}", "x".repeat(2_000));
    wait_for_the_disk(broker, 2, (&topic, 10_000));
}

/// Requests of so many clients, while the disk does nothing.
fn wait_for_the_disk(broker: &mut BrokerOfTest, clients: u32, names: (&str, usize)) {
    let clients: Vec<_> = (0..clients)
        .map(|number| broker.connect(client(number, false)))
        .collect();
    broker.stall();
    for asker in clients {
        ask(broker, asker, WAITING, names, |number| {
            format!("*3\r\n$3\r\nSET\r\n$10\r\nkey-{number:06}\r\n$4\r\n1234\r\n")
        });
    }
}

/// Requests that one client has without an answer.
const WAITING: u32 = 500;

/// Where clients hear their responses.
const RESPONSES: &str = "clients/client-1/services/statestore/_any_/command/invoke/response";

/// Requests of one client to the state store.
fn request(broker: &mut BrokerOfTest, requests: u32, payload: impl Fn(u32) -> String) {
    let client = broker.connect(client(1, false));
    ask(broker, client, requests, (RESPONSES, 4), payload);
}

/// The same with this topic, and with so many bytes of correlation data.
fn ask(
    broker: &mut BrokerOfTest,
    client: ConnectionId,
    requests: u32,
    (topic, data): (&str, usize),
    payload: impl Fn(u32) -> String,
) {
    for number in 0..requests {
        let mut correlation = number.to_be_bytes().to_vec();
        correlation.resize(data, 0);
        let properties = MessageProperties {
            response_topic: Some(Text::new(topic).unwrap()),
            correlation_data: Some(Bytes::from(correlation)),
            user_properties: UserProperties::from_pairs([
                ("__ts", "1700000000000:0:client-1"),
                ("__protVer", "1.0"),
            ])
            .unwrap(),
            ..MessageProperties::default()
        };
        let payload = payload(number);
        let invoke = "statestore/v1/FA9AE35F-2F64-47CD-9BFF-08E2B32A0FE8/command/invoke";
        let message = Publish {
            payload: Bytes::from(payload),
            ..publish(invoke, QoS::AtLeastOnce, 0, properties)
        };
        broker.send(client, Packet::Publish(Box::new(message)));
    }
}

fn client(number: u32, is_durable: bool) -> Who {
    Who {
        client_id: format!("client-{number}"),
        is_durable,
        ..Who::default()
    }
}

fn all_properties(number: u32) -> MessageProperties {
    MessageProperties {
        content_type: Some(Text::from_static("application/json").detached()),
        response_topic: Some(Text::new(format!("clients/client-{number}/responses")).unwrap()),
        correlation_data: Some(Bytes::copy_from_slice(&[7; 100])),
        user_properties: UserProperties::from_pairs([("name", "value"), ("other", &"x".repeat(470))])
            .unwrap(),
        ..MessageProperties::default()
    }
}
