//! Listeners behind a proxy that says who its clients are.

use std::io::{Read, Write};
use std::net::TcpStream;

use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};

use crate::authority::Authority;
use crate::configured::Configured;

const CONNECT: &[u8] = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0";
const LINE: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 1883\r\n";
const LOG: &str = "[log]\nlevel = \"debug\"\n";

fn settings(further: &str) -> String {
    format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nproxy_protocol = true\nallow_anonymous = true\n{further}{LOG}"
    )
}

/// Sends these bytes and expects a CONNACK.
fn connect(mut stream: impl Read + Write, bytes: &[u8]) {
    stream.write_all(bytes).expect("sent");
    let mut packet = [0; 1];
    stream.read_exact(&mut packet).expect("CONNACK");
    assert_eq!(packet[0], 0x20);
}

fn dial(server: &Configured, scheme: &str) -> TcpStream {
    TcpStream::connect(server.at(scheme)).expect("connected")
}

/// A line of version 2: a client at this address of IPv6.
fn binary(address: [u8; 16], port: u16) -> Vec<u8> {
    let fields = b"\x02\0\x07example";
    let mut header = b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0".to_vec();
    header.push(36 + u8::try_from(fields.len()).expect("few"));
    header.extend_from_slice(&address);
    header.extend_from_slice(&[0; 16]);
    header.extend_from_slice(&port.to_be_bytes());
    header.extend_from_slice(&[0; 2]);
    header.extend_from_slice(fields);
    header
}

#[test]
fn the_log_has_the_address_that_the_proxy_says() {
    let mut server = Configured::start(&settings(""));
    connect(dial(&server, "mqtt"), &[LINE, CONNECT].concat());
    let line = server.logged(" connected ");
    assert!(line.contains("peer=203.0.113.7:4711"), "{line}");
    let loopback = std::net::Ipv6Addr::LOCALHOST.octets();
    connect(dial(&server, "mqtt"), &[&binary(loopback, 99), CONNECT].concat());
    let line = server.logged(" connected ");
    assert!(line.contains("peer=[::1]:99"), "{line}");
}

#[test]
fn a_proxy_that_speaks_for_itself_has_its_own_address() {
    let mut server = Configured::start(&settings(""));
    for header in [&b"PROXY UNKNOWN\r\n"[..], b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"] {
        let stream = dial(&server, "mqtt");
        let own = stream.local_addr().expect("an address");
        connect(stream, &[header, CONNECT].concat());
        let line = server.logged(" connected ");
        assert!(line.contains(&format!("peer={own}")), "{line}");
    }
}

#[test]
fn a_connection_without_a_header_or_with_a_bad_one_is_closed_logged_and_counted() {
    let mut server = Configured::start(&settings(""));
    for bytes in [
        CONNECT,
        b"PROXY TCP4 203.0.113.7\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\xff\xff",
    ] {
        let mut stream = dial(&server, "mqtt");
        stream.write_all(bytes).expect("sent");
        // Closed with unread bytes it is reset.
        assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
        let line = server.logged("rejected handshake");
        assert!(line.contains("PROXY protocol: "), "{line}");
    }
    // As a probe that looks whether somebody listens: no line at info.
    drop(dial(&server, "mqtt"));
    assert!(server.logged("the client said nothing").contains("DEBUG"));
    // The next one is served.
    connect(dial(&server, "mqtt"), &[LINE, CONNECT].concat());
}

#[test]
fn a_header_that_is_slow_is_closed_and_stops_nobody_else() {
    let server = settings("") + "[limits]\nconnect_timeout = \"2s\"\n";
    let mut server = Configured::start(&server);
    let mut slow = dial(&server, "mqtt");
    slow.write_all(&LINE[..20]).expect("sent");
    connect(dial(&server, "mqtt"), &[LINE, CONNECT].concat());
    assert_eq!(slow.read(&mut [0; 1]).expect("closed"), 0);
    server.logged("the header took longer than a fifth of limits.connect_timeout");
}

#[test]
fn a_listener_that_was_not_told_takes_no_header() {
    let server = Configured::start("[[listeners]]\naddress = \"127.0.0.1:0\"\n");
    let mut stream = dial(&server, "mqtt");
    stream.write_all(&[LINE, CONNECT].concat()).expect("sent");
    let mut answer = Vec::new();
    // Closed with unread bytes it is reset.
    let _ = stream.read_to_end(&mut answer);
    assert_ne!(answer.first(), Some(&0x20), "no CONNACK");
}

#[test]
fn the_header_comes_before_tls() {
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let tls = format!("[listeners.tls]\n{}", identity.settings());
    let mut server = Configured::start(&settings(&tls));
    let mut stream = dial(&server, "mqtts");
    stream.write_all(LINE).expect("sent");
    let name = ServerName::try_from("localhost").expect("a name");
    let client = ClientConnection::new(authority.client_config(), name).expect("a client");
    connect(StreamOwned::new(client, stream), CONNECT);
    let line = server.logged(" connected ");
    assert!(line.contains("peer=203.0.113.7:4711"), "{line}");

    // What fails after the header is the client's.
    let mut stream = dial(&server, "mqtts");
    stream.write_all(&[LINE, CONNECT].concat()).expect("sent");
    let line = server.logged("rejected handshake");
    assert!(
        line.contains("peer=203.0.113.7:4711") && line.contains("MQTT without TLS"),
        "{line}"
    );
}

#[test]
fn the_header_comes_before_websocket() {
    let mut server = Configured::start(&settings("[listeners.websocket]\n"));
    let mut stream = dial(&server, "ws");
    stream.write_all(LINE).expect("sent");
    let request = "GET /mqtt HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\
         Sec-WebSocket-Protocol: mqtt\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"HTTP/1.1 101");
    // A masked message whose mask is zeros.
    let message = [&[0x82, 0x80 | 15, 0, 0, 0, 0], CONNECT].concat();
    stream.write_all(&message).expect("sent");
    let line = server.logged(" connected ");
    assert!(line.contains("peer=203.0.113.7:4711"), "{line}");
}
