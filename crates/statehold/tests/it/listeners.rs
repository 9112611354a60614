//! Limits of a listener, and addresses other than IPv4.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use crate::configured::Configured;
use crate::harness::{run, statehold};

const CONNECT: &[u8] = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0";

/// A connection with a session.
fn connect(server: &Configured, scheme: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.at(scheme)).expect("connected");
    stream.write_all(CONNECT).expect("sent");
    let mut packet = [0; 1];
    stream.read_exact(&mut packet).expect("CONNACK");
    assert_eq!(packet[0], 0x20);
    stream
}

/// Whether the server closes a new connection without a word.
fn is_turned_away(server: &Configured, scheme: &str) -> bool {
    let mut stream = TcpStream::connect(server.at(scheme)).expect("the system accepts");
    // It may be closed already.
    let _ = stream.write_all(CONNECT);
    // Closed with unread bytes it is reset.
    stream.read_exact(&mut [0; 1]).is_err()
}

#[test]
fn one_connection_more_than_the_limit_is_closed_and_a_place_becomes_free() {
    let server = Configured::start("[[listeners]]\naddress = \"127.0.0.1:0\"\nconnections_max = 1\n");
    let mut first = connect(&server, "mqtt");
    assert!(is_turned_away(&server, "mqtt"));
    first.shutdown(Shutdown::Write).expect("open");
    // Its end says that the server has closed it.
    let _ = first.read_to_end(&mut Vec::new());
    while is_turned_away(&server, "mqtt") {}
}

#[test]
fn more_connections_in_a_second_than_the_limit_are_closed() {
    let server = Configured::start("[[listeners]]\naddress = \"127.0.0.1:0\"\nconnection_rate_max = 1\n");
    let mut turned_away = 0;
    while turned_away == 0 {
        turned_away += usize::from(is_turned_away(&server, "mqtt"));
    }
    // As time goes on there is room again.
    while is_turned_away(&server, "mqtt") {}
}

#[test]
fn a_listener_can_be_at_an_address_of_version_6() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        // This machine has no IPv6.
        return;
    }
    let mut server = Configured::start("[[listeners]]\naddress = \"[::1]:0\"\n[log]\nlevel = \"debug\"\n");
    let port = server
        .at("mqtt")
        .strip_prefix("[::1]:")
        .expect("in brackets")
        .to_owned();
    let stream = connect(&server, "mqtt");
    let own = stream.local_addr().expect("an address");
    let line = server.logged(" connected ");
    assert!(line.contains(&format!("peer={own}")), "{line}");
    run(statehold(&["set", "k", "v", "--host", "::1", "--port", &port])).expect(0);
}
