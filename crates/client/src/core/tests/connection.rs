//! Connecting, keep alive, losing the connection and coming back.

use super::*;

#[test]
fn connects_with_the_options_and_reports_it() {
    let mut client = Client::with(|options| options.clean_start = true);
    assert_eq!(client.step(Event::Start).opens, 1);
    let done = client.step(Event::TransportOpened);
    let [Packet::Connect(connect)] = done.sent.as_slice() else {
        panic!("{:?}", done.sent)
    };
    assert_eq!(connect.client_id, Text::from_static("pump"));
    assert!(connect.clean_start);
    assert_eq!(connect.properties.session_expiry, Some(3600));
    let done = client.receive(connack(false, ConnAckProperties::default()));
    assert_eq!(
        done.states,
        [ConnectionState::Connected {
            session_present: false
        }]
    );
}

#[test]
fn mqtt_3_2_2_4_session_present_after_a_clean_start_ends_the_connection() {
    let mut client = Client::with(|options| options.clean_start = true);
    client.step(Event::Start);
    client.step(Event::TransportOpened);
    let done = client.receive(connack(true, ConnAckProperties::default()));
    assert_eq!(kinds(&done.sent), ["DISCONNECT ProtocolError"]);
    assert_eq!(done.closes, 1);
}

#[test]
fn a_later_connection_resumes_also_after_a_clean_start() {
    let mut client =
        Client::connected_with(|options| options.clean_start = true, ConnAckProperties::default());
    client.step(Event::TransportClosed);
    client.wait();
    let done = client.step(Event::TransportOpened);
    let [Packet::Connect(connect)] = done.sent.as_slice() else {
        panic!("{:?}", done.sent)
    };
    assert!(!connect.clean_start);
}

#[test]
fn the_first_attempt_decides_unless_told_otherwise() {
    let fails = |reconnect| {
        let mut client = Client::with(|options| options.reconnect = reconnect);
        client.step(Event::Start);
        client.step(Event::TransportClosed);
        client.session.is_ended()
    };
    assert!(fails(Reconnect::Never));
    assert!(fails(Reconnect::AfterFirst));
    assert!(!fails(Reconnect::Always));
}

#[test]
fn mqtt_3_1_2_20_a_silent_client_pings_and_a_silent_server_is_left() {
    let mut client = Client::connected();
    assert_eq!(client.deadline(), Some(30.0));
    assert_eq!(kinds(&client.wait().sent), ["PINGREQ"]);
    client.receive(Packet::PingResp);
    assert_eq!(kinds(&client.wait().sent), ["PINGREQ"]);
    let done = client.wait();
    assert!(
        (client.seconds - 70.0).abs() < 0.1,
        "30 s twice, and 10 s without an answer: {}",
        client.seconds
    );
    assert_eq!(kinds(&done.sent), ["DISCONNECT KeepAliveTimeout"]);
    assert!(matches!(
        done.states[..],
        [ConnectionState::Waiting {
            cause: LossCause::KeepAliveTimeout,
            ..
        }]
    ));
}

#[test]
fn mqtt_3_2_2_21_the_servers_keep_alive_counts() {
    let properties = ConnAckProperties {
        server_keep_alive: Some(5),
        ..ConnAckProperties::default()
    };
    assert_eq!(Client::connected_with(|_| {}, properties).deadline(), Some(5.0));
}

#[test]
fn waits_longer_from_attempt_to_attempt() {
    let mut client = Client::connected();
    client.step(Event::TransportClosed);
    let mut last = 0.0;
    for _ in 0..6 {
        let before = client.seconds;
        assert_eq!(client.wait().opens, 1);
        let waited = client.seconds - before;
        assert!(waited > last, "{waited} after {last}");
        last = waited / 2.0;
        client.step(Event::TransportClosed);
    }
}

#[test]
fn a_server_that_does_not_answer_connect_is_left() {
    let mut client = Client::with(|options| options.reconnect = Reconnect::Always);
    client.step(Event::Start);
    client.step(Event::TransportOpened);
    let done = client.wait();
    assert_eq!(client.seconds.round(), 10.0);
    assert_eq!(done.closes, 1);
    assert!(matches!(
        done.states[..],
        [ConnectionState::Waiting {
            cause: LossCause::ConnectTimeout,
            ..
        }]
    ));
}

#[test]
fn a_takeover_is_final() {
    let mut client = Client::connected();
    client.submit(subscribe(20, "a"));
    let disconnect = protocol::packet::Disconnect::new(ReasonCode::SessionTakenOver);
    let done = client.receive(Packet::Disconnect(disconnect));
    assert!(client.session.is_ended());
    assert_eq!(done.completed, [(1, Err(OperationError::Ended))]);
    assert_eq!(done.ended_streams, [20]);
    let done = client.submit(Operation::Publish(message("a", QoS::AtLeastOnce)));
    assert_eq!(done.completed, [(2, Err(OperationError::Ended))]);
}

#[test]
fn disconnect_says_goodbye_and_fails_what_is_under_way() {
    let mut client = Client::connected();
    client.submit(Operation::Publish(message("a", QoS::AtLeastOnce)));
    let done = client.step(Event::Disconnect);
    assert_eq!(kinds(&done.sent), ["DISCONNECT Success"]);
    assert_eq!((done.closes, done.completed.len()), (1, 1));
    assert_eq!(client.deadline(), None);
}

#[test]
fn malformed_bytes_and_packets_of_clients_end_the_connection() {
    let done = Client::connected().step(Event::Malformed(ReasonCode::MalformedPacket));
    assert_eq!(kinds(&done.sent), ["DISCONNECT MalformedPacket"]);
    let done = Client::connected().receive(Packet::PingReq);
    assert_eq!(kinds(&done.sent), ["DISCONNECT ProtocolError"]);
}
