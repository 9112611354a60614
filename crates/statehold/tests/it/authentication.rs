//! Listeners that ask who clients are: SCRAM-SHA-256, over the wire with a client that is written here from RFC 5802.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::path::PathBuf;

use aws_lc_rs::hmac::HMAC_SHA256;
use aws_lc_rs::{digest, hmac, pbkdf2};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use client::protocol::ReasonCode;
use client::protocol::packet::{ConnAck, Packet, ProtocolVersion, QoS};
use tempfile::TempDir;

use crate::configured::Configured;
use crate::enhanced::{auth, begin, connack};
use crate::harness::{Ran, run, spawn, statehold};
use crate::support::wire::{Wire, connect, publish, text};

const METHOD: &str = "SCRAM-SHA-256";

/// The file of secrets.
struct Names {
    directory: TempDir,
}

impl Names {
    /// With one name in it.
    fn of(name: &str, password: &str) -> Self {
        let names = Self {
            directory: TempDir::new().expect("a directory"),
        };
        names.write(&line(name, password));
        names
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("clients.scram")
    }

    fn write(&self, content: &str) {
        std::fs::write(self.file(), content).expect("written");
    }

    /// A listener that asks for one of these names.
    fn settings(&self, of_listener: &str) -> String {
        format!(
            "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"scram\"]\n{of_listener}\n\
             [authentication.scram]\nfile = \"{}\"\n",
            self.file().display()
        )
    }

    fn serve(&self, of_listener: &str) -> Configured {
        Configured::start(&self.settings(of_listener))
    }
}

/// A line of the file, as the binary writes it.
fn line(name: &str, password: &str) -> String {
    let mut command = spawn(statehold(&["scram", name, "--iterations", "4096"]));
    command.write_line(password);
    let line = command.line();
    assert_eq!(command.wait(), Some(0));
    format!("{line}\n")
}

/// The client's side of one exchange.
struct Scram {
    bare: String,
    password: &'static str,
    /// What the server has to prove itself with.
    expected: Option<String>,
}

impl Scram {
    fn of(name: &str, password: &'static str) -> Self {
        Self {
            bare: format!("n={name},r=fyko+d2lbbFgONRv9qkxdawL"),
            password,
            expected: None,
        }
    }

    fn first(&self) -> Bytes {
        Bytes::from(format!("n,,{}", self.bare))
    }

    fn last(&mut self, server_first: &[u8]) -> Bytes {
        let server_first = std::str::from_utf8(server_first).expect("text");
        let part = |name: &str| {
            let mut parts = server_first.split(',');
            parts.find_map(|part| part.strip_prefix(name)).expect("a part")
        };
        let iterations: NonZeroU32 = part("i=").parse().expect("a number");
        let salt = BASE64.decode(part("s=")).expect("base64");
        let mut salted = [0; 32];
        let password = self.password.as_bytes();
        pbkdf2::derive(
            pbkdf2::PBKDF2_HMAC_SHA256,
            iterations,
            &salt,
            password,
            &mut salted,
        );
        let sign = |key: &[u8], text: &str| hmac::sign(&hmac::Key::new(HMAC_SHA256, key), text.as_bytes());
        let client_key = sign(&salted, "Client Key");
        let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
        let without_proof = format!("c=biws,r={}", part("r="));
        let exchanged = format!("{},{server_first},{without_proof}", self.bare);
        let signature = sign(stored_key.as_ref(), &exchanged);
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(one, other)| one ^ other).collect();
        let server_key = sign(&salted, "Server Key");
        let expected = BASE64.encode(sign(server_key.as_ref(), &exchanged));
        self.expected = Some(format!("v={expected}"));
        Bytes::from(format!("{without_proof},p={}", BASE64.encode(proof)))
    }
}

/// What the server wants to know further.
fn asked(wire: &mut Wire) -> Bytes {
    match wire.receive().expect("an answer") {
        Packet::Auth(auth) => {
            assert_eq!(auth.reason, ReasonCode::ContinueAuthentication);
            assert_eq!(auth.method.as_deref(), Some(METHOD), "[MQTT-4.12.0-5]");
            auth.data.expect("there")
        }
        other => panic!("{other:?}"),
    }
}

/// Both rounds; the connection, and how it was answered.
fn authenticate(server: &Configured, name: &str, password: &'static str) -> (Wire, ConnAck) {
    let mut scram = Scram::of(name, password);
    let mut wire = begin(server, METHOD, Some(scram.first()));
    let server_first = asked(&mut wire);
    let last = scram.last(&server_first);
    wire.send(&auth(ReasonCode::ContinueAuthentication, METHOD, last))
        .expect("sent");
    let connack = connack(&mut wire);
    if connack.reason == ReasonCode::Success {
        let properties = &connack.properties;
        assert_eq!(properties.authentication_method.as_deref(), Some(METHOD));
        let proof = properties.authentication_data.as_deref().expect("a proof");
        assert_eq!(Some(proof), scram.expected.as_deref().map(str::as_bytes));
    }
    (wire, connack)
}

fn reason(server: &Configured, name: &str, password: &'static str) -> ReasonCode {
    authenticate(server, name, password).1.reason
}

/// A CONNECT from an address, and no answer to what the server asks then.
fn half(from: Ipv4Addr, to: &str) -> Wire {
    let mut wire = Wire::open_from(from, to.parse().expect("an address")).expect("open");
    let mut packet = connect("", true);
    packet.properties.authentication_method = Some(text(METHOD));
    packet.properties.authentication_data = Some(Scram::of("pump", "pencil").first());
    // Closed already, if its address has too many.
    let _ = wire.send_connect(packet);
    wire
}

/// How a CONNECT without a method is answered.
fn anonymous(server: &Configured, version: ProtocolVersion) -> ReasonCode {
    without_method(server, version, None)
}

fn without_method(server: &Configured, version: ProtocolVersion, username: Option<&str>) -> ReasonCode {
    let mut wire = Wire::open(server.at("mqtt").parse().expect("an address")).expect("open");
    let mut packet = connect("c", true);
    packet.version = version;
    packet.username = username.map(text);
    wire.send_connect(packet).expect("sent");
    connack(&mut wire).reason
}

#[test]
fn mqtt_4_12_0_2_client_and_server_prove_to_each_other_that_they_know_the_password() {
    let server = Names::of("pump", "pencil").serve("");
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
}

#[test]
fn mqtt_4_12_0_4_who_proves_nothing_is_refused() {
    let mut server = Names::of("pump", "pencil").serve("");
    assert_eq!(reason(&server, "pump", "pencil "), ReasonCode::NotAuthorized);
    let line = server.logged("rejected CONNECT");
    assert!(line.contains("Not authorized"), "{line}");
    assert_eq!(reason(&server, "nobody", "pencil"), ReasonCode::NotAuthorized);
    for data in [
        None,
        Some(Bytes::from_static(b"n,,n=pump")),
        Some(Bytes::from_static(b"\xff")),
    ] {
        let mut wire = begin(&server, METHOD, data);
        assert_eq!(connack(&mut wire).reason, ReasonCode::NotAuthorized);
        assert!(wire.receive().is_err(), "the connection ends");
    }
    let mut other = begin(&server, "SCRAM-SHA-1", None);
    assert_eq!(connack(&mut other).reason, ReasonCode::BadAuthenticationMethod);
    assert_eq!(anonymous(&server, ProtocolVersion::V5), ReasonCode::NotAuthorized);
    assert_eq!(
        anonymous(&server, ProtocolVersion::V311),
        ReasonCode::NotAuthorized
    );
}

#[test]
fn a_listener_may_let_in_those_who_say_nothing_as_well() {
    let server = Names::of("pump", "pencil").serve("allow_anonymous = true");
    assert_eq!(anonymous(&server, ProtocolVersion::V5), ReasonCode::Success);
    assert_eq!(anonymous(&server, ProtocolVersion::V311), ReasonCode::Success);
    assert_eq!(
        without_method(&server, ProtocolVersion::V5, Some("pump")),
        ReasonCode::NotAuthorized,
        "who says a name has to prove it"
    );
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    assert_eq!(reason(&server, "pump", "wrong"), ReasonCode::NotAuthorized);
}

#[test]
fn exchanges_that_are_half_done_give_way_and_other_listeners_do_not_notice() {
    const HALVES: usize = 1_000;
    let names = Names::of("pump", "pencil");
    let server = Configured::start(&format!(
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"scram\"]\n{}",
        names.settings("")
    ));
    let to = server.at("mqtt");
    let there = Ipv4Addr::new(127, 0, 1, 1);
    let mut halves: Vec<_> = (0..HALVES).map(|_| half(there, to)).collect();
    // At another address one is let in at once, here as well as at the other listener.
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    let other = server.all_at("mqtt").pop().expect("two listeners");
    asked(&mut half(Ipv4Addr::LOCALHOST, &other));
    // At the same address the one that waits for longest gives way.
    let gave_way = format!("statehold_strangers_refused_total{{pool=\"{to}\",reason=\"gave_way\"}}");
    while server.figure(&gave_way) < 1.0 {
        halves.push(half(there, to));
    }
    assert!(server.figure("statehold_connections_authenticating") <= 201.0);
}

#[test]
fn mqtt_4_12_1_2_a_client_authenticates_again_while_its_messages_go_on() {
    let server = Names::of("pump", "pencil").serve("");
    let (mut wire, _) = authenticate(&server, "pump", "pencil");
    let mut again = |password: &'static str| {
        let mut scram = Scram::of("pump", password);
        wire.queue(&auth(ReasonCode::Reauthenticate, METHOD, scram.first()));
        wire.queue(&Packet::Publish(Box::new(publish(
            "t",
            "meanwhile",
            QoS::AtLeastOnce,
            1,
        ))));
        wire.flush().expect("sent");
        let (mut is_acknowledged, mut server_first) = (false, None);
        while !is_acknowledged || server_first.is_none() {
            match wire.receive().expect("an answer") {
                Packet::PubAck(_) => is_acknowledged = true,
                Packet::Auth(auth) => server_first = auth.data,
                other => panic!("{other:?}"),
            }
        }
        let last = scram.last(&server_first.expect("there"));
        wire.send(&auth(ReasonCode::ContinueAuthentication, METHOD, last))
            .expect("sent");
        (wire.receive().expect("an answer"), scram.expected)
    };
    let (Packet::Auth(done), expected) = again("pencil") else {
        panic!("no AUTH")
    };
    assert_eq!(done.reason, ReasonCode::Success);
    assert_eq!(done.data.as_deref(), expected.as_deref().map(str::as_bytes));
    let (Packet::Disconnect(disconnect), _) = again("wrong") else {
        panic!("no DISCONNECT")
    };
    assert_eq!(disconnect.reason, ReasonCode::NotAuthorized);
    for code in ["0x00", "0x87"] {
        let name = format!("statehold_reauthentications_total{{reason_code=\"{code}\"}}");
        assert!(server.figure(&name) > 0.0, "{name}");
    }
}

#[test]
fn a_changed_file_is_taken_and_a_broken_one_changes_nothing() {
    let names = Names::of("pump", "pencil");
    let mut server = names.serve("");
    let (mut wire, _) = authenticate(&server, "pump", "pencil");

    names.write(&line("valve", "brush"));
    server.signal("HUP");
    server.logged("took the file of authentication.scram anew");
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::NotAuthorized);
    assert_eq!(reason(&server, "valve", "brush"), ReasonCode::Success);
    wire.send(&Packet::PingReq).expect("sent");
    assert_eq!(wire.receive().expect("the connection lives"), Packet::PingResp);

    names.write("valve\n");
    let told = server.logged("what was in it holds");
    assert!(told.contains("clients.scram:1: not a line"), "{told}");
    assert_eq!(reason(&server, "valve", "brush"), ReasonCode::Success);
}

#[test]
fn what_cannot_be_used_is_named_when_the_server_starts() {
    let names = Names::of("pump", "pencil");
    names.write("pump:pencil\n");
    let told = Configured::refused(&names.settings("")).stderr;
    assert!(told.contains("`authentication.scram.file`: "), "{told}");
    assert!(told.contains("clients.scram:1: not a line"), "{told}");
    let told =
        Configured::refused("[[listeners]]\naddress = \"127.0.0.1:0\"\nauthentication = [\"scram\"]\n")
            .stderr;
    assert!(told.contains("which needs a file"), "{told}");
}

#[test]
fn a_password_that_clients_may_write_in_other_ways_is_refused() {
    let directory = TempDir::new().expect("a directory");
    let file = directory.path().join("password");
    let scram = |name: &str, password: &str, options: &[&str]| -> Ran {
        std::fs::write(&file, password).expect("written");
        let file = file.to_str().expect("text");
        run(statehold(
            &[&["scram", name, "--password-file", file], options].concat(),
        ))
    };
    assert!(
        scram("pump", "pencil\n", &[])
            .expect(0)
            .text()
            .starts_with("pump:SCRAM-SHA-256$15000:")
    );
    scram("pump", "stra\u{df}e", &[]).expect(3);
    scram("pump", "", &[]).expect(3);
    scram("#pump", "pencil", &[]).expect(3);
    scram("pump", "pencil", &["--iterations", "10"]).expect(3);
    run(statehold(&["scram", "pump"])).expect(3);
}

/// The name of a principal is for the operator.
#[test]
fn the_log_says_as_whom_a_client_connects() {
    let names = Names::of("pump", "pencil");
    let settings = format!("{}[log]\nlevel = \"debug\"\n", names.settings(""));
    let mut server = Configured::start(&settings);
    assert_eq!(reason(&server, "pump", "pencil"), ReasonCode::Success);
    let line = server.logged("connected client_id=statehold-");
    assert!(line.contains("principal=pump"), "{line}");
    assert!(!line.contains("pencil"));
}
