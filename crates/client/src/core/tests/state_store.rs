//! Requests, replies and watches, across connections.

use bytes::Bytes;
use protocol::state_store::{
    Dialect, ErrorText, INVOKE_TOPIC, Notification, Reply, Request, notification_topic,
};

use super::*;

const RESPONSE_TOPIC: &str = "clients/pump/services/statestore/_any_/command/invoke/response";

fn get(client: &mut Client) -> Done {
    client.submit(Operation::Store {
        request: Request::Get {
            key: Bytes::from_static(b"k"),
        },
        fencing: None,
    })
}

fn watch(client: &mut Client, stream: u32) -> Done {
    client.submit(Operation::Watch {
        stream: StreamId(stream),
        key: Bytes::from_static(b"k"),
    })
}

/// The request among these packets.
fn request(packets: &[Packet]) -> Publish {
    let mut requests = packets.iter().filter_map(|packet| match packet {
        Packet::Publish(publish) if publish.topic.as_str() == INVOKE_TOPIC => Some(publish.clone()),
        _ => None,
    });
    *requests.next().expect("a request was sent")
}

fn reply(to: &Publish, reply: &Reply, version: Option<&str>) -> Packet {
    let mut answer = publish(RESPONSE_TOPIC, QoS::AtLeastOnce, 900);
    answer.payload = reply.encode(Dialect::Sdk);
    answer.properties.correlation_data = to.properties.correlation_data.clone();
    let pairs = [("__stat", "200")]
        .into_iter()
        .chain(version.map(|version| ("__ts", version)));
    answer.properties.user_properties = UserProperties::from_pairs(pairs).unwrap();
    Packet::Publish(Box::new(answer))
}

fn notification(change: &Notification, version: &str) -> Packet {
    let topic = notification_topic("pump", b"k").unwrap();
    let mut publish = publish(topic.as_str(), QoS::AtLeastOnce, 901);
    publish.payload = change.encode(Dialect::Sdk);
    publish.properties.user_properties = UserProperties::from_pairs([("__ts", version)]).unwrap();
    Packet::Publish(Box::new(publish))
}

/// A client that watches `k` with stream 20.
fn watching() -> Client {
    let mut client = Client::connected();
    let asked = request(&watch(&mut client, 20).sent);
    let done = client.receive(reply(&asked, &Reply::Ok, None));
    assert_eq!(done.completed, [(1, Ok(Outcome::Watching))]);
    client.receive(Packet::PubAck(Ack::new(
        asked.packet_id.unwrap(),
        ReasonCode::Success,
    )));
    client
}

#[test]
fn a_request_follows_the_subscription_to_its_reply() {
    let mut client = Client::connected();
    let done = get(&mut client);
    assert_eq!(
        kinds(&done.sent),
        [&format!("SUBSCRIBE {RESPONSE_TOPIC}"), "PUBLISH 2"]
    );
    let asked = request(&done.sent);
    assert_eq!(asked.qos, QoS::AtLeastOnce);
    assert_eq!(asked.payload, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n");
    assert_eq!(asked.properties.response_topic.as_deref(), Some(RESPONSE_TOPIC));
    assert_eq!(asked.properties.message_expiry, Some(5));
    assert_eq!(asked.properties.user_properties.find("__protVer"), Some("1.0"));
    assert_eq!(
        asked.properties.user_properties.find("__ts"),
        Some("1000000:0:pump")
    );

    let done = client.receive(reply(&asked, &Reply::Value("v".into()), Some("5:1:StateStore")));
    let version = Hlc::parse("5:1:StateStore").ok();
    assert_eq!(
        done.completed,
        [(
            1,
            Ok(Outcome::Replied {
                reply: Reply::Value("v".into()),
                version
            })
        )]
    );
    assert_eq!(kinds(&done.sent), ["PUBACK 900"]);
    assert_eq!(
        kinds(&get(&mut client).sent),
        ["PUBLISH 3"],
        "one subscription is enough"
    );
}

#[test]
fn replies_find_their_requests_in_any_order_and_only_once() {
    let mut client = Client::connected();
    let first = request(&get(&mut client).sent);
    let second = request(&get(&mut client).sent);
    assert_ne!(
        first.properties.correlation_data,
        second.properties.correlation_data
    );
    assert_eq!(
        client.receive(reply(&second, &Reply::Missing, None)).completed[0].0,
        2
    );
    assert_eq!(
        client.receive(reply(&first, &Reply::Missing, None)).completed[0].0,
        1
    );
    assert_eq!(client.receive(reply(&first, &Reply::Missing, None)).completed, []);
}

#[test]
fn a_fencing_token_travels_as_it_is() {
    let mut client = Client::connected();
    let fencing = Hlc::parse("17:3:StateStore").ok();
    let request_ = Request::Del {
        key: Bytes::from_static(b"k"),
    };
    let done = client.submit(Operation::Store {
        request: request_,
        fencing,
    });
    let properties = request(&done.sent).properties.user_properties;
    assert_eq!(properties.find("__ft"), Some("17:3:StateStore"));
}

#[test]
fn a_request_is_sent_again_with_the_same_correlation_data() {
    let mut client = Client::connected();
    let asked = request(&get(&mut client).sent);
    let again = request(&client.reconnect(true).sent);
    assert!(again.dup);
    assert_eq!(
        again.properties.correlation_data,
        asked.properties.correlation_data
    );

    // Acknowledged, but the reply was lost with the session.
    client.receive(Packet::PubAck(Ack::new(
        asked.packet_id.unwrap(),
        ReasonCode::Success,
    )));
    let done = client.reconnect(false);
    let again = request(&done.sent);
    assert_eq!(kinds(&done.sent)[0], format!("SUBSCRIBE {RESPONSE_TOPIC}"));
    assert!(!again.dup);
    assert_eq!(
        again.properties.correlation_data,
        asked.properties.correlation_data
    );
    assert_eq!(
        client
            .receive(reply(&again, &Reply::Missing, None))
            .completed
            .len(),
        1
    );
}

#[test]
fn a_request_that_was_given_up_is_not_executed_later() {
    // The server still has the session, and MQTT asks for the PUBLISH again.
    let mut client = Client::connected();
    get(&mut client);
    assert_eq!(client.wait().completed, [(1, Err(OperationError::TimedOut))]);
    let again = request(&client.reconnect(true).sent);
    assert!(again.dup);
    assert_eq!(again.properties.message_expiry, Some(0));

    // The server has lost it.
    let done = client.reconnect(false);
    assert_eq!(kinds(&done.sent), [format!("SUBSCRIBE {RESPONSE_TOPIC}")]);
}

#[test]
fn a_request_carries_the_time_that_is_left_when_it_is_sent() {
    let mut client = Client::connected();
    client.step(Event::TransportClosed);
    get(&mut client);
    client.seconds += 2.5;
    client.step(Event::Timeout);
    client.step(Event::TransportOpened);
    let asked = request(&client.receive(connack(true, ConnAckProperties::default())).sent);
    assert_eq!(asked.properties.message_expiry, Some(3));
    client.seconds += 1.0;
    let again = request(&client.reconnect(true).sent);
    assert_eq!(again.properties.message_expiry, Some(2));
    let anew = request(&client.reconnect(false).sent);
    assert_eq!(anew.properties.message_expiry, Some(2));
}

#[test]
fn a_late_reply_is_nobodys() {
    let mut client = Client::connected();
    let asked = request(&get(&mut client).sent);
    assert_eq!(client.wait().completed, [(1, Err(OperationError::TimedOut))]);
    assert_eq!(client.receive(reply(&asked, &Reply::Missing, None)).completed, []);
}

#[test]
fn errors_of_all_kinds_reach_the_caller() {
    let mut client = Client::connected();
    let mut answered = |answer: &dyn Fn(&Publish) -> Packet| {
        let asked = request(&get(&mut client).sent);
        client.receive(answer(&asked)).completed.remove(0).1
    };
    let refused = answered(&|asked| reply(asked, &Reply::Error(ErrorText::NotAuthorized), None));
    let refusal = Outcome::Replied {
        reply: Reply::Error(ErrorText::NotAuthorized),
        version: None,
    };
    assert_eq!(refused, Ok(refusal));
    let unacknowledged = answered(&|asked| {
        Packet::PubAck(Ack::new(
            asked.packet_id.unwrap(),
            ReasonCode::ImplementationSpecificError,
        ))
    });
    assert!(matches!(unacknowledged, Err(OperationError::Refused { .. })));
    let wrong = answered(&|asked| reply(asked, &Reply::Ok, None));
    assert_eq!(
        wrong,
        Err(OperationError::MalformedReply),
        "+OK does not answer GET"
    );
    let other_version = answered(&|asked| {
        let Packet::Publish(mut publish) = reply(asked, &Reply::Missing, None) else {
            unreachable!()
        };
        publish.properties.user_properties = UserProperties::from_pairs([("__stat", "505")]).unwrap();
        Packet::Publish(publish)
    });
    assert_eq!(
        other_version,
        Err(OperationError::Status {
            status: Text::from_static("505")
        })
    );
}

#[test]
fn without_the_right_to_the_response_topic_requests_fail() {
    let mut client = Client::connected();
    get(&mut client);
    let done = client.receive(suback(1, ReasonCode::NotAuthorized));
    assert!(matches!(
        done.completed[..],
        [(1, Err(OperationError::Refused { .. }))]
    ));
}

#[test]
fn changes_are_reported_once_in_the_order_of_their_versions() {
    let mut client = watching();
    let set = Notification::Set { value: "v".into() };
    assert_eq!(
        client.receive(notification(&set, "5:1:StateStore")).delivered[0].1,
        [20]
    );
    let done = client.receive(notification(&set, "5:1:StateStore"));
    assert_eq!(
        (done.delivered.len(), kinds(&done.sent).len()),
        (0, 0),
        "in turn behind the first"
    );
    assert_eq!(
        client
            .receive(notification(&Notification::Delete, "5:2:StateStore"))
            .delivered
            .len(),
        1
    );
}

#[test]
fn after_a_reconnect_a_key_is_registered_again_and_the_gap_reported() {
    for session_present in [true, false] {
        let mut client = watching();
        let asked = request(&client.reconnect(session_present).sent);
        assert_eq!(asked.payload, "*2\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n");
        assert_eq!(client.receive(reply(&asked, &Reply::Ok, None)).gaps, [20]);
    }
}

/// The server says so where a client has missed a change, or may have.
#[test]
fn a_disconnect_for_a_missed_change_is_a_gap_as_well() {
    for reason in [
        ReasonCode::QuotaExceeded,
        ReasonCode::PacketTooLarge,
        ReasonCode::ServerBusy,
    ] {
        let mut client = watching();
        client.receive(Packet::Disconnect(protocol::packet::Disconnect::new(reason)));
        assert!(!client.session.is_ended(), "{reason:?}");
        let asked = request(&client.reconnect(true).sent);
        assert_eq!(client.receive(reply(&asked, &Reply::Ok, None)).gaps, [20]);
    }
}

#[test]
fn a_registration_lost_on_its_way_is_made_anew_not_repeated() {
    let mut client = Client::connected();
    let asked = request(&watch(&mut client, 20).sent);
    let done = client.reconnect(true);
    let again: Vec<_> = done
        .sent
        .iter()
        .filter(|packet| matches!(packet, Packet::Publish(_)))
        .collect();
    let [Packet::Publish(old), Packet::Publish(new)] = again[..] else {
        panic!("{again:?}")
    };
    assert_eq!(
        old.properties.correlation_data, asked.properties.correlation_data,
        "MQTT has it sent again"
    );
    assert_ne!(new.properties.correlation_data, asked.properties.correlation_data);
    assert_eq!(
        client.receive(reply(old, &Reply::Ok, None)).completed,
        [],
        "the old connection's registration"
    );
    let done = client.receive(reply(new, &Reply::Ok, None));
    assert_eq!(
        (done.completed.len(), done.gaps.len()),
        (1, 0),
        "watched from the beginning: no gap"
    );
}

#[test]
fn two_streams_share_a_registration_that_ends_with_the_last() {
    let mut client = watching();
    let done = watch(&mut client, 21);
    assert_eq!((done.completed.len(), done.sent.len()), (1, 0));
    assert_eq!(
        client
            .receive(notification(&Notification::Delete, "5:1:x"))
            .delivered[0]
            .1,
        [20, 21]
    );
    assert_eq!(
        client.submit(Operation::Unwatch { stream: StreamId(20) }).sent,
        []
    );
    let done = client.submit(Operation::Unwatch { stream: StreamId(21) });
    assert_eq!(
        request(&done.sent).payload,
        "*3\r\n$9\r\nKEYNOTIFY\r\n$1\r\nk\r\n$4\r\nSTOP\r\n"
    );
}

#[test]
fn a_refused_watch_fails_and_an_unavailable_store_is_asked_again() {
    let mut client = Client::connected();
    let asked = request(&watch(&mut client, 20).sent);
    let done = client.receive(reply(&asked, &Reply::Error(ErrorText::NotAuthorized), None));
    assert!(matches!(
        done.completed[..],
        [(
            1,
            Ok(Outcome::Replied {
                reply: Reply::Error(_),
                ..
            })
        )]
    ));

    let mut client = watching();
    let asked = request(&client.reconnect(true).sent);
    let done = client.receive(reply(&asked, &Reply::Error(ErrorText::Unavailable), None));
    assert_eq!((done.gaps.len(), done.ended_streams.len()), (0, 0));
    let asked = request(&client.wait().sent);
    assert_eq!(client.receive(reply(&asked, &Reply::Ok, None)).gaps, [20]);
}

#[test]
fn watches_have_a_limit() {
    let mut client = Client::connected_with(|options| options.watches_max = 1, ConnAckProperties::default());
    watch(&mut client, 20);
    assert_eq!(
        watch(&mut client, 21).completed,
        [(2, Err(OperationError::QueueFull))]
    );
}
