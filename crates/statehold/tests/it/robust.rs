//! Clients that do what no client should. Whatever they do, those that behave lose nothing ([`Steady`]), and the server keeps
//! no more for them than its limits say.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

use client::protocol::ReasonCode;
use client::protocol::packet::{Ack, Packet, QoS};

use crate::authority::Authority;
use crate::configured::Configured;
use crate::raw::{Raw, bytes, connect, connect_durably, packet_id, publish, subscribe};
use crate::steady::Steady;

const LISTENER: &str = "[[listeners]]\naddress = \"127.0.0.1:0\"\n";

fn start(limits: &str) -> Configured {
    Configured::start(&format!("{LISTENER}[limits]\n{limits}"))
}

#[test]
fn who_stops_in_the_middle_is_closed_in_time_and_nobody_else_waits() {
    const EACH: usize = 50;
    let authority = Authority::new();
    let tls = authority.issue("localhost");
    let server = Configured::start(&format!(
        "{LISTENER}{LISTENER}[listeners.tls]\n{}{LISTENER}allow_anonymous = true\n[listeners.websocket]\n[limits]\nconnect_timeout = \"2s\"\n",
        tls.settings()
    ));
    let mut steady = Steady::start(&server);
    let connecting = bytes(&Packet::Connect(Box::new(connect("half"))));
    let beginnings: [(&str, &[u8]); 6] = [
        ("mqtt", b""),
        ("mqtt", &connecting[..connecting.len() / 2]),
        ("mqtts", b""),
        // The beginning of a record that a ClientHello would be in.
        ("mqtts", b"\x16\x03\x01\x02\x00\x01"),
        ("ws", b""),
        ("ws", b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgr"),
    ];
    let mut halves = Vec::new();
    for (scheme, beginning) in beginnings.iter().cycle().take(EACH * beginnings.len()) {
        let mut stream = TcpStream::connect(server.at(scheme)).expect("connected");
        stream.write_all(beginning).expect("sent");
        halves.push(stream);
    }
    steady.rounds(20);
    for mut stream in halves {
        // Closed, or reset because of what was not read.
        let _ = stream.read_to_end(&mut Vec::new());
    }
    steady.rounds(5);
    steady.end();
}

#[test]
fn a_packet_that_never_ends_costs_no_more_than_what_came_of_it() {
    const CONNECTIONS: usize = 200;
    let server = start("");
    let mut steady = Steady::start(&server);
    let before = server.resident_kib();
    let whole = bytes(&publish("t", Some(packet_id(1)), &[0; 1_000_000]));
    let slow: Vec<_> = (0..CONNECTIONS)
        .map(|number| {
            let mut raw = Raw::connect(server.at("mqtt"), connect(&format!("slow-{number}")));
            raw.stream.write_all(&whole[..100]).expect("sent");
            raw
        })
        .collect();
    steady.rounds(20);
    let each = server.resident_kib().saturating_sub(before) / CONNECTIONS as u64;
    assert!(each < 32, "{each} KiB for each packet that has only begun");
    drop(slow);
    steady.end();
}

#[test]
fn packets_that_come_byte_by_byte_are_packets() {
    let server = start("");
    let mut steady = Steady::start(&server);
    let mut slow: Vec<_> = (0..20).map(|_| Raw::open(server.at("mqtt"))).collect();
    let mut say = |slow: &mut [Raw], packet: &dyn Fn(usize) -> Packet| {
        let all: Vec<_> = (0..slow.len()).map(|number| bytes(&packet(number))).collect();
        for place in 0..all.iter().map(|bytes| bytes.len()).max().unwrap_or(0) {
            for (raw, bytes) in slow.iter_mut().zip(&all) {
                raw.stream
                    .write_all(&bytes[place.min(bytes.len())..(place + 1).min(bytes.len())])
                    .expect("sent");
            }
        }
        steady.rounds(1);
    };
    say(&mut slow, &|number| {
        Packet::Connect(Box::new(connect(&format!("slow-{number}"))))
    });
    slow.iter_mut().for_each(|raw| assert!(!raw.accepted()));
    say(&mut slow, &|_| subscribe("slow", QoS::AtLeastOnce));
    say(&mut slow, &|_| publish("slow", Some(packet_id(2)), b"hello"));
    for raw in &mut slow {
        assert!(matches!(raw.receive(), Packet::SubAck(_)));
        let mut messages = 0;
        while messages < 20 {
            match raw.receive() {
                Packet::Publish(message) => messages += usize::from(message.payload == "hello"),
                Packet::PubAck(_) => {}
                other => panic!("unexpected: {other:?}"),
            }
        }
    }
    steady.end();
}

/// As Paho for Go does: what it had under way goes out again before it reads anything.
#[test]
fn a_client_may_send_all_it_has_before_it_reads() {
    const MESSAGES: u16 = 30;
    let server = start("outbound_bytes_max = \"4 KiB\"\n");
    let large = vec![7; 900_000];
    let steady = Steady::start(&server);
    let mut raw = Raw::connect(server.at("mqtt"), connect_durably("both"));
    raw.subscribe("down", QoS::AtLeastOnce);
    drop(raw);
    let mut other = Raw::connect(server.at("mqtt"), connect("other"));
    for number in 1..=MESSAGES {
        other.send(&publish("down", Some(packet_id(number)), &large));
        assert!(matches!(other.receive(), Packet::PubAck(_)));
    }

    let mut raw = Raw::connect(server.at("mqtt"), connect_durably("both"));
    for number in 1..=MESSAGES {
        raw.send(&publish("up", Some(packet_id(number)), &large));
    }
    let (mut messages, mut acknowledged) = (0, 0);
    while messages < MESSAGES || acknowledged < MESSAGES {
        match raw.receive() {
            Packet::Publish(message) => {
                messages += 1;
                let id = message.packet_id.expect("QoS 1");
                raw.send(&Packet::PubAck(Ack::new(id, ReasonCode::Success)));
            }
            Packet::PubAck(_) => acknowledged += 1,
            other => panic!("unexpected: {other:?}"),
        }
    }
    steady.end();
}

#[test]
fn resets_leave_nothing_behind() {
    const RESETS: usize = 2_000;
    let server = start("");
    let mut steady = Steady::start(&server);
    let before = server.figure("statehold_connections");
    for number in 0..RESETS {
        let raw = match number % 3 {
            0 => Raw::open(server.at("mqtt")),
            1 => Raw::begin(server.at("mqtt"), connect("reset")),
            _ => {
                let mut raw = Raw::connect(server.at("mqtt"), connect(&format!("reset-{number}")));
                raw.send(&subscribe("steady", QoS::AtLeastOnce));
                raw
            }
        };
        raw.reset();
    }
    steady.rounds(5);
    while server.figure("statehold_connections") > before {
        steady.rounds(1);
    }
    steady.end();
}

#[test]
fn a_thousand_sessions_that_come_back_at_once_get_what_waited() {
    const SESSIONS: usize = 1_000;
    let server = start("");
    let mut steady = Steady::start(&server);
    let names: Vec<_> = (0..SESSIONS).map(|number| format!("back-{number}")).collect();
    let begin = |name: &String| Raw::begin(server.at("mqtt"), connect_durably(name));
    let mut all: Vec<_> = names.iter().map(begin).collect();
    for raw in &mut all {
        assert!(!raw.accepted());
        raw.send(&subscribe("back", QoS::AtLeastOnce));
    }
    for raw in &mut all {
        assert!(matches!(raw.receive(), Packet::SubAck(_)));
    }
    drop(all);
    let mut publisher = Raw::connect(server.at("mqtt"), connect("publisher"));
    publisher.send(&publish("back", Some(packet_id(1)), b"while you were away"));
    assert!(matches!(publisher.receive(), Packet::PubAck(_)));

    let mut all: Vec<_> = names.iter().map(begin).collect();
    steady.rounds(5);
    for raw in &mut all {
        assert!(raw.accepted(), "the session was kept");
        match raw.receive() {
            Packet::Publish(message) => assert_eq!(message.payload, "while you were away"),
            other => panic!("unexpected: {other:?}"),
        }
    }
    steady.end();
}

/// What a subscriber that does not read, or does not acknowledge, may keep the server from forgetting.
const QUEUE_MAX: usize = 500;

/// Publishes so many messages of 1 KiB to `flood`, each acknowledged.
fn flood(server: &Configured, count: usize) {
    const AT_ONCE: u16 = 100;
    let mut publisher = Raw::connect(server.at("mqtt"), connect("flood"));
    for _ in 0..count / usize::from(AT_ONCE) {
        let packets = (1..=AT_ONCE).map(|id| bytes(&publish("flood", Some(packet_id(id)), &[0; 1024])));
        let packets: Vec<_> = packets.flatten().collect();
        publisher.stream.write_all(&packets).expect("sent");
        for _ in 0..AT_ONCE {
            assert!(matches!(publisher.receive(), Packet::PubAck(_)));
        }
    }
}

/// With subscribers to `flood` that `slow` makes.
fn resists_a_flood(slow: impl Fn(&Configured, usize) -> Raw) {
    const SLOW: usize = 5;
    let server = start(&format!(
        "queue_messages_max = {QUEUE_MAX}\noutbound_bytes_max = \"64 KiB\"\n"
    ));
    let mut steady = Steady::start(&server);
    let slow: Vec<_> = (0..SLOW).map(|number| slow(&server, number)).collect();
    // What the sockets of the system take, and then all that the limits let the server keep.
    flood(&server, 20_000);
    let full = server.resident_kib();
    flood(&server, 10_000);
    let grown = server.resident_kib().saturating_sub(full);
    assert!(grown < 4 * 1024, "memory grew by {grown} KiB with full queues");
    let waiting = server.figure("statehold_waiting_messages");
    assert!(
        waiting <= (SLOW * QUEUE_MAX + 1) as f64,
        "{waiting} messages wait"
    );
    assert!(server.figure("statehold_messages_dropped_total{cause=\"queue_full\"}") > 0.0);
    steady.rounds(10);
    drop(slow);
    steady.end();
}

#[test]
fn who_never_reads_costs_its_queue_and_no_more() {
    for qos in [QoS::AtMostOnce, QoS::AtLeastOnce] {
        resists_a_flood(|server, number| {
            let mut raw = Raw::connect(server.at("mqtt"), connect(&format!("deaf-{number}")));
            raw.subscribe("flood", qos);
            raw
        });
    }
}

#[test]
fn who_never_acknowledges_costs_its_queue_and_no_more() {
    resists_a_flood(|server, number| {
        let mut connecting = connect(&format!("mute-{number}"));
        connecting.properties.receive_maximum = Some(10);
        let mut raw = Raw::connect(server.at("mqtt"), connecting);
        raw.subscribe("flood", QoS::AtLeastOnce);
        let mut reader = raw.stream.try_clone().expect("one more");
        // Reads everything that comes, until the server ends.
        std::thread::spawn(move || while reader.read(&mut [0; 4096]).is_ok_and(|count| count > 0) {});
        raw
    });
}

#[test]
fn many_with_one_client_id_hurt_only_each_other() {
    let server = start("");
    let mut steady = Steady::start(&server);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    let mut raw = Raw::begin(server.at("mqtt"), connect_durably("same"));
                    // Until the next one takes over, or all are told to stop.
                    while raw.try_receive().is_some() {
                        if is_over.load(Ordering::Acquire) {
                            break;
                        }
                    }
                }
            });
        }
        while server.figure("statehold_session_takeovers_total") < 200.0 {
            steady.rounds(5);
        }
        is_over.store(true, Ordering::Release);
        // Takes over from the one that is connected, so that its thread sees the end.
        let mut last = Raw::begin(server.at("mqtt"), connect_durably("same"));
        let _ = last.try_receive();
    });
    steady.end();
}

#[test]
fn who_takes_all_descriptors_stops_neither_the_disk_nor_those_who_are_there() {
    let mut server = Configured::start_with_descriptors(LISTENER, 400);
    server.logged("limits.connections_max");
    let mut steady = Steady::start(&server);
    let mut greedy: Vec<_> = (0..300).map(|_| Raw::open(server.at("mqtt"))).collect();
    greedy.last_mut().expect("many").closed();
    let pool = format!("{{pool=\"{}\",reason=\"address\"}}", server.at("mqtt"));
    assert!(server.figure(&format!("statehold_strangers_refused_total{pool}")) > 0.0);
    steady.rounds(20);
    drop(greedy);
    while Raw::begin(server.at("mqtt"), connect("next"))
        .try_receive()
        .is_none()
    {}
    steady.end();
}
