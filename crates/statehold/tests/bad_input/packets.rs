//! The table of packets that MQTT forbids, each sent to the server.

use client::protocol::packet::{Packet, ProtocolVersion};

use super::support::server::Server;
use super::support::wire::{Wire, connect};
use super::{assert_serves, until_the_end};

#[derive(Debug)]
struct Case {
    /// `None`: the packet is the first of its connection.
    version: Option<ProtocolVersion>,
    reason_code: u8,
    bytes: Vec<u8>,
}

impl Case {
    /// A line of the table, if it is about what a client sends.
    fn parse(line: &str) -> Option<Self> {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [version, sender, reason_code, bytes, _] = columns[..] else {
            panic!("columns of {line}")
        };
        (sender == "client").then(|| Self {
            version: match version {
                "5" => Some(ProtocolVersion::V5),
                "3.1.1" => Some(ProtocolVersion::V311),
                _ => None,
            },
            reason_code: u8::from_str_radix(reason_code, 16).unwrap(),
            bytes: parse_bytes(bytes),
        })
    }
}

/// Hex with text between quotes.
fn parse_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (number, part) in text.split('\'').enumerate() {
        if number % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
        } else {
            let hex: String = part.split_whitespace().collect();
            assert!(hex.len().is_multiple_of(2), "{text}");
            bytes.extend(
                (0..hex.len())
                    .step_by(2)
                    .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()),
            );
        }
    }
    bytes
}

#[test]
fn every_malformed_packet_ends_its_connection_with_its_reason_code() {
    let server = Server::start();
    let (mut checked, mut wrong) = (0, Vec::new());
    for line in TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        // What is just over the limit depends on the server's own.
        if line.contains("header too much") {
            continue;
        }
        let Some(case) = Case::parse(line) else { continue };
        for is_slow in [false, true] {
            if let Err(answer) = check(&server, &case, is_slow) {
                wrong.push(format!("{line}\n    was answered with {answer}"));
            }
        }
        checked += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} of {checked}:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(checked >= 46, "only {checked} lines are about clients");
    assert_serves(&server);
}

/// Sends a case, at once or byte by byte, and looks at the answer, which is the error if it is wrong.
fn check(server: &Server, case: &Case, is_slow: bool) -> Result<(), String> {
    let mut wire = match case.version {
        None => Wire::open(server.mqtt()).unwrap(),
        Some(version) => {
            let mut hello = connect("", true);
            hello.version = version;
            hello.properties = Default::default();
            Wire::connect(server.mqtt(), hello).unwrap().0
        }
    };
    // The server may close before all is sent, so errors of sending say nothing.
    if is_slow {
        for byte in &case.bytes {
            if wire.send_bytes(&[*byte]).is_err() {
                break;
            }
        }
    } else {
        let _ = wire.send_bytes(&case.bytes);
    }
    if case.version.is_none() {
        let bytes = wire.drain().unwrap();
        return if is_refusal(&bytes, case.reason_code) {
            Ok(())
        } else {
            Err(format!("{bytes:x?}"))
        };
    }
    let packets = until_the_end(&mut wire);
    match (case.version, &packets[..]) {
        (Some(ProtocolVersion::V311), []) => Ok(()),
        (Some(ProtocolVersion::V5), [Packet::Disconnect(last)]) if last.reason as u8 == case.reason_code => {
            Ok(())
        }
        _ => Err(format!("{packets:?}")),
    }
}

/// A connection that has not begun may be refused without a word, or by a CONNACK: 0x20, length, flags, code.
fn is_refusal(bytes: &[u8], reason_code: u8) -> bool {
    match bytes {
        [] => true,
        // Version 3.1.1, which has return codes of its own.
        [0x20, 2, 0, code] => (1..=5).contains(code),
        [0x20, _, 0, code, ..] => *code == reason_code,
        _ => false,
    }
}

/// The same table that the codec is tested with.
const TABLE: &str = include_str!("../../../protocol/tests/testdata/malformed.txt");
