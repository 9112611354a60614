//! Who attacks a listener with TLS: by offering what is old, by speaking something else, by being slow.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use crate::authority::Authority;
use crate::configured::Configured;
use crate::steady::Steady;

const PLAIN: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

fn start(authority: &Authority, further: &str) -> Configured {
    let tls = authority.issue("localhost");
    Configured::start(&format!(
        "{PLAIN}{PLAIN}[listeners.tls]\n{}{further}",
        tls.settings()
    ))
}

/// The first record of a client, with what it offers.
fn hello(version: u16, suites: &[u16], extensions: &[u8]) -> Vec<u8> {
    let sized = |bytes: &[u8]| [&u16::try_from(bytes.len()).expect("short").to_be_bytes(), bytes].concat();
    let suites: Vec<u8> = suites.iter().flat_map(|suite| suite.to_be_bytes()).collect();
    let body = [
        &version.to_be_bytes()[..],
        &[7; 32],
        // No session, and no compression.
        &[0],
        &sized(&suites),
        &[1, 0],
        &sized(extensions),
    ]
    .concat();
    let length = u32::try_from(body.len()).expect("short").to_be_bytes();
    let handshake = [&[1][..], &length[1..], &body].concat();
    [&[0x16, 3, 1][..], &sized(&handshake)].concat()
}

/// What a client of TLS 1.2 says beside its suites: groups, formats of points, signatures, and an extended master secret.
const EXTENSIONS: &[u8] = b"\x00\x0a\x00\x04\x00\x02\x00\x17\x00\x0b\x00\x02\x01\x00\x00\x0d\x00\x08\x00\x06\x04\x03\x04\x01\x08\x04\x00\x17\x00\x00";

const TLS_1_2: u16 = 0x0303;
const ECDHE_ECDSA_AES_128_GCM: u16 = 0xC02B;

/// The type of the first record of the answer, and the rest up to the end of the connection or of the record.
fn answer(server: &Configured, sent: &[u8]) -> (u8, Vec<u8>) {
    let mut stream = TcpStream::connect(server.at("mqtts")).expect("connected");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("set");
    stream.write_all(sent).expect("sent");
    let mut head = [0; 5];
    stream.read_exact(&mut head).expect("a record");
    let mut body = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
    stream.read_exact(&mut body).expect("all of it");
    (head[0], body)
}

const ALERT: u8 = 0x15;
const HANDSHAKE: u8 = 0x16;

#[test]
fn old_versions_and_weak_suites_are_refused() {
    let authority = Authority::new();
    let mut server = start(&authority, "");
    let good = hello(TLS_1_2, &[ECDHE_ECDSA_AES_128_GCM], EXTENSIONS);
    let (kind, body) = answer(&server, &good);
    assert_eq!((kind, body[0]), (HANDSHAKE, 2), "a ServerHello");
    let everything = &[ECDHE_ECDSA_AES_128_GCM, 0xC009, 0x002F, 0x000A];
    for (what, sent) in [
        ("SSL 3", hello(0x0300, everything, EXTENSIONS)),
        ("TLS 1.0", hello(0x0301, everything, EXTENSIONS)),
        ("TLS 1.1", hello(0x0302, everything, EXTENSIONS)),
        (
            "RSA key exchange",
            hello(TLS_1_2, &[0x009C, 0x009D, 0x002F, 0x0035], EXTENSIONS),
        ),
        (
            "CBC",
            hello(TLS_1_2, &[0xC009, 0xC00A, 0xC013, 0xC014, 0xC023], EXTENSIONS),
        ),
        (
            "3DES, RC4, export and no encryption",
            hello(TLS_1_2, &[0x000A, 0xC008, 0x0005, 0x0003, 0x0001], EXTENSIONS),
        ),
        (
            "nobody's name",
            hello(TLS_1_2, &[0x0034, 0x00A6, 0xC018], EXTENSIONS),
        ),
    ] {
        let (kind, _) = answer(&server, &sent);
        assert_eq!(kind, ALERT, "{what}");
        server.logged("the client offers nothing that is spoken here");
    }
}

#[test]
fn a_listener_for_tls_1_3_does_not_fall_back() {
    let authority = Authority::new();
    let mut server = start(&authority, "min_version = \"1.3\"\n");
    let (kind, _) = answer(&server, &hello(TLS_1_2, &[ECDHE_ECDSA_AES_128_GCM], EXTENSIONS));
    assert_eq!(kind, ALERT);
    server.logged("the client offers nothing that is spoken here");
}

#[test]
fn who_speaks_the_wrong_thing_is_told_from_others_in_the_log() {
    let authority = Authority::new();
    let mut server = start(&authority, "");
    let connect = b"\x10\x0d\0\x04MQTT\x05\x02\0\x3c\0\0\0";
    let (kind, _) = answer(&server, connect);
    assert_eq!(kind, ALERT);
    let line = server.logged("rejected handshake");
    assert!(line.contains("the client speaks MQTT without TLS"), "{line}");

    let mut stream = TcpStream::connect(server.at("mqtt")).expect("connected");
    let hello = hello(TLS_1_2, &[ECDHE_ECDSA_AES_128_GCM], EXTENSIONS);
    stream.write_all(&hello).expect("sent");
    // Closed, or reset because of what was not read.
    let _ = stream.read_to_end(&mut Vec::new());
    let line = server.logged("the client speaks TLS to a listener without it");
    assert!(line.contains("peer=127.0.0.1"), "{line}");
}

#[test]
fn thousands_of_handshakes_that_never_end_stop_neither_clients_nor_other_listeners() {
    const HALVES: usize = 3_000;
    let authority = Authority::new();
    let server = start(
        &authority,
        "[limits]\nstrangers_max = 500\nconnect_timeout = \"2s\"\n",
    );
    let mut steady = Steady::start(&server);
    let hello = hello(TLS_1_2, &[ECDHE_ECDSA_AES_128_GCM], EXTENSIONS);
    let mut halves = Vec::new();
    for number in 0..HALVES {
        let mut stream = TcpStream::connect(server.at("mqtts")).expect("connected");
        let beginnings = [&hello[..], &hello[..20], b""];
        // Closed already, if there are too many.
        let _ = stream.write_all(beginnings[number % beginnings.len()]);
        halves.push(stream);
    }
    steady.rounds(20);
    server.run("mqtt", &["set", "k", "v"]).expect(0);
    // At the same listener one of the same address has to wait until they give way.
    let ca_file = authority.ca_file();
    let patient = ["set", "k", "v", "--cafile", &ca_file, "--timeout", "100s"];
    while server.run("mqtts", &patient).code != Some(0) {}
    drop(halves);
    steady.rounds(5);
    steady.end();
}
