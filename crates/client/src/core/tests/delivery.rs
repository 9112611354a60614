//! Messages and subscriptions, across connections.

use super::*;

fn publish_one(client: &mut Client, qos: QoS) -> Done {
    client.submit(Operation::Publish(message("t", qos)))
}

#[test]
fn mqtt_4_4_0_1_an_unacknowledged_message_is_sent_again_with_dup() {
    let mut client = Client::connected();
    assert_eq!(
        kinds(&publish_one(&mut client, QoS::AtLeastOnce).sent),
        ["PUBLISH 1"]
    );
    assert_eq!(
        kinds(&publish_one(&mut client, QoS::ExactlyOnce).sent),
        ["PUBLISH 2"]
    );
    assert_eq!(
        kinds(&publish_one(&mut client, QoS::ExactlyOnce).sent),
        ["PUBLISH 3"]
    );
    let done = client.receive(Packet::PubRec(ack(3, ReasonCode::Success)));
    assert_eq!(kinds(&done.sent), ["PUBREL 3"]);
    let done = client.reconnect(true);
    assert_eq!(kinds(&done.sent), ["PUBLISH 1 dup", "PUBLISH 2 dup", "PUBREL 3"]);
    let done = client.receive(Packet::PubAck(ack(1, ReasonCode::Success)));
    assert_eq!(done.completed, [(1, Ok(Outcome::Published(ReasonCode::Success)))]);
    let done = client.receive(Packet::PubComp(ack(3, ReasonCode::Success)));
    assert_eq!(done.completed, [(3, Ok(Outcome::Published(ReasonCode::Success)))]);
}

#[test]
fn with_a_lost_session_at_least_once_starts_over_and_exactly_once_fails() {
    let mut client = Client::connected();
    publish_one(&mut client, QoS::AtLeastOnce);
    publish_one(&mut client, QoS::ExactlyOnce);
    let done = client.reconnect(false);
    assert_eq!(kinds(&done.sent), ["PUBLISH 3"], "a new delivery");
    assert_eq!(done.completed, [(2, Err(OperationError::SessionLost))]);
}

#[test]
fn mqtt_3_3_4_7_no_more_messages_are_inflight_than_the_server_takes() {
    let properties = ConnAckProperties {
        receive_maximum: Some(1),
        ..ConnAckProperties::default()
    };
    let mut client = Client::connected_with(|_| {}, properties);
    assert_eq!(
        kinds(&publish_one(&mut client, QoS::AtLeastOnce).sent),
        ["PUBLISH 1"]
    );
    assert_eq!(kinds(&publish_one(&mut client, QoS::AtLeastOnce).sent), [""; 0]);
    let done = client.receive(Packet::PubAck(ack(1, ReasonCode::NoMatchingSubscribers)));
    assert_eq!(
        done.completed,
        [(1, Ok(Outcome::Published(ReasonCode::NoMatchingSubscribers)))]
    );
    assert_eq!(kinds(&done.sent), ["PUBLISH 2"]);
}

#[test]
fn a_refusal_is_an_error_with_the_servers_words() {
    let mut client = Client::connected();
    publish_one(&mut client, QoS::AtLeastOnce);
    let mut refusal = ack(1, ReasonCode::NotAuthorized);
    let reason_string = Some(Text::from_static("not you"));
    refusal.explanation = Some(Box::new(Explanation {
        reason_string,
        ..Explanation::default()
    }));
    let done = client.receive(Packet::PubAck(refusal));
    let error = done.completed[0].1.clone().unwrap_err();
    assert_eq!(
        error.to_string(),
        "refused by the server: NotAuthorized (not you)"
    );
}

#[test]
fn what_the_server_does_not_take_is_not_sent() {
    let properties = ConnAckProperties {
        packet_size_max: Some(20),
        qos_max: Some(QoS::AtLeastOnce),
        retain_available: Some(false),
        ..ConnAckProperties::default()
    };
    let mut client = Client::connected_with(|_| {}, properties);
    let mut fails = |message| {
        let done = client.submit(Operation::Publish(message));
        done.sent.is_empty() && done.completed[0].1.is_err()
    };
    assert!(fails(message("a topic that is too long", QoS::AtMostOnce)));
    assert!(fails(message("t", QoS::ExactlyOnce)));
    assert!(fails(message("t", QoS::AtMostOnce).retained()));
    assert!(!fails(message("t", QoS::AtMostOnce)));
}

#[test]
fn operations_have_a_limit_and_a_timeout() {
    let mut client =
        Client::connected_with(|options| options.operations_max = 1, ConnAckProperties::default());
    publish_one(&mut client, QoS::AtLeastOnce);
    assert_eq!(
        publish_one(&mut client, QoS::AtLeastOnce).completed,
        [(2, Err(OperationError::QueueFull))]
    );
    assert_eq!(client.wait().completed, [(1, Err(OperationError::TimedOut))]);
    assert_eq!(client.seconds.round(), 5.0);
    let done = client.receive(Packet::PubAck(ack(1, ReasonCode::Success)));
    assert_eq!(done.completed, [], "nobody waits any more");
}

#[test]
fn a_message_that_was_never_sent_is_dropped_with_its_timeout() {
    let mut client = Client::with(|options| options.reconnect = Reconnect::Always);
    client.step(Event::Start);
    publish_one(&mut client, QoS::AtLeastOnce);
    assert_eq!(client.wait().completed, [(1, Err(OperationError::TimedOut))]);
    client.step(Event::TransportOpened);
    assert_eq!(
        kinds(&client.receive(connack(false, ConnAckProperties::default())).sent),
        [""; 0]
    );
}

#[test]
fn subscriptions_are_made_again_when_the_session_is_lost_only() {
    let mut client = Client::connected();
    assert_eq!(
        kinds(&client.submit(subscribe(20, "a/+")).sent),
        ["SUBSCRIBE a/+"]
    );
    let done = client.receive(suback(1, ReasonCode::GrantedQos1));
    assert_eq!(
        done.completed,
        [(1, Ok(Outcome::Subscribed(vec![ReasonCode::GrantedQos1])))]
    );
    assert_eq!(kinds(&client.reconnect(true).sent), [""; 0]);
    assert_eq!(kinds(&client.reconnect(false).sent), ["SUBSCRIBE a/+"]);
}

#[test]
fn a_subscription_under_way_is_asked_for_again_on_the_next_connection() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a"));
    assert_eq!(kinds(&client.reconnect(true).sent), ["SUBSCRIBE a"]);
    let done = client.receive(suback(2, ReasonCode::TopicFilterInvalid));
    assert!(matches!(
        done.completed[..],
        [(1, Err(OperationError::Refused { .. }))]
    ));
}

#[test]
fn messages_find_their_streams_with_and_without_identifiers() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a/+"));
    client.submit(subscribe(21, "a/b"));
    let done = client.receive(Packet::Publish(Box::new(publish("a/b", QoS::AtMostOnce, 0))));
    assert_eq!(done.delivered[0].1, [20, 21]);
    let mut with_id = publish("a/b", QoS::AtMostOnce, 0);
    with_id
        .subscription_ids
        .push(std::num::NonZeroU32::new(21).unwrap());
    assert_eq!(
        client.receive(Packet::Publish(Box::new(with_id))).delivered[0].1,
        [21]
    );
    let done = client.receive(Packet::Publish(Box::new(publish("other", QoS::AtLeastOnce, 9))));
    assert_eq!(
        kinds(&done.sent),
        ["PUBACK 9"],
        "nobody wants it: acknowledged at once"
    );
}

#[test]
fn mqtt_4_6_0_2_acknowledgements_leave_in_the_order_of_the_messages() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a"));
    let first = client.receive(Packet::Publish(Box::new(publish("a", QoS::AtLeastOnce, 1))));
    let second = client.receive(Packet::Publish(Box::new(publish("a", QoS::ExactlyOnce, 2))));
    assert_eq!(
        kinds(&client.step(Event::Taken(second.delivered[0].0)).sent),
        [""; 0]
    );
    assert_eq!(
        kinds(&client.step(Event::Taken(first.delivered[0].0)).sent),
        ["PUBACK 1", "PUBREC 2"]
    );
}

#[test]
fn mqtt_4_3_3_9_a_second_copy_of_an_exactly_once_message_is_not_delivered() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a"));
    let done = client.receive(Packet::Publish(Box::new(publish("a", QoS::ExactlyOnce, 5))));
    client.step(Event::Taken(done.delivered[0].0));
    client.reconnect(true);
    let done = client.receive(Packet::Publish(Box::new(publish("a", QoS::ExactlyOnce, 5))));
    assert_eq!(
        (done.delivered.len(), kinds(&done.sent)),
        (0, vec!["PUBREC 5".to_owned()])
    );
    assert_eq!(
        kinds(&client.receive(Packet::PubRel(ack(5, ReasonCode::Success))).sent),
        ["PUBCOMP 5"]
    );
    let done = client.receive(Packet::Publish(Box::new(publish("a", QoS::ExactlyOnce, 5))));
    assert_eq!(
        done.delivered.len(),
        1,
        "the packet identifier of another message"
    );
}

#[test]
fn a_filter_that_two_streams_have_is_unsubscribed_with_the_last() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a"));
    client.submit(subscribe(21, "a"));
    let done = client.submit(Operation::Unsubscribe { stream: StreamId(20) });
    assert_eq!(
        (kinds(&done.sent).len(), done.completed),
        (0, vec![(3, Ok(Outcome::Unsubscribed))])
    );
    assert_eq!(
        kinds(
            &client
                .submit(Operation::Unsubscribe { stream: StreamId(21) })
                .sent
        ),
        ["UNSUBSCRIBE a"]
    );
}

/// Connected to a server that has the session of an earlier process.
fn resumed() -> Client {
    let mut client = Client::with(|_| {});
    client.step(Event::Start);
    client.step(Event::TransportOpened);
    client.receive(connack(true, ConnAckProperties::default()));
    client
}

#[test]
fn messages_of_a_resumed_session_wait_for_their_subscription() {
    let mut client = resumed();
    let done = client.receive(Packet::Publish(Box::new(publish("a", QoS::AtLeastOnce, 1))));
    client.receive(Packet::Publish(Box::new(publish("b", QoS::AtLeastOnce, 2))));
    assert_eq!((done.delivered.len(), done.sent.len()), (0, 0));
    let done = client.submit(subscribe(20, "a"));
    assert_eq!(done.delivered[0].1, [20]);
    assert_eq!(
        kinds(&client.step(Event::Taken(done.delivered[0].0)).sent),
        ["PUBACK 1"]
    );
    client.submit(subscribe(21, "other"));
    assert_eq!(
        kinds(&client.wait().sent),
        ["UNSUBSCRIBE a", "UNSUBSCRIBE other"],
        "without a SUBACK in time"
    );
    assert_eq!(kinds(&client.wait().sent), ["PUBACK 2"]);
    assert_eq!(client.seconds.round(), 10.0);
    let done = client.receive(Packet::Publish(Box::new(publish("b", QoS::AtLeastOnce, 3))));
    assert_eq!(kinds(&done.sent), ["PUBACK 3"], "nobody wanted it in time");
}

#[test]
fn identifiers_of_an_earlier_process_do_not_mislead() {
    let mut client = resumed();
    client.submit(subscribe(20, "new"));
    client.submit(subscribe(21, "old"));
    let mut old = publish("old", QoS::AtLeastOnce, 1);
    old.subscription_ids.push(std::num::NonZeroU32::new(20).unwrap());
    assert_eq!(
        client.receive(Packet::Publish(Box::new(old))).delivered[0].1,
        [21]
    );
}

#[test]
fn packet_identifiers_of_a_subscription_that_timed_out_are_free_again() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a"));
    assert_eq!(kinds(&client.wait().sent), ["UNSUBSCRIBE a"]);
    client.receive(suback(1, ReasonCode::GrantedQos1));
    client.step(Event::TransportClosed);
    assert!(client.session.ids.is_unused());
}
