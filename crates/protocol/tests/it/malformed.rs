//! The table of forbidden packets: each is refused, with its reason code, and not before or after its last byte.

use statehold_protocol::packet::ProtocolVersion;

use crate::check::{Receiver, decode_all, decoder};

#[test]
fn every_malformed_packet_is_refused_with_its_reason_code() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for line in TABLE
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let case = Case::parse(line);
        for piece in [1, 3, case.bytes.len()] {
            let is_first = case.version.is_none();
            let decoder = decoder(
                case.receiver,
                case.version.unwrap_or(ProtocolVersion::V5),
                is_first,
            );
            let (packets, end) = decode_all(decoder, &case.bytes, piece);
            let code = end.clone().map_err(|error| error.reason_code() as u8);
            if !packets.is_empty() || code != Err(case.reason_code) {
                wrong.push(format!("{line}\n    is {packets:?} {end:?}"));
                break;
            }
        }
        checked += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} of {checked} are not refused as they should:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(checked >= 150, "only {checked} lines in the table");
}

#[derive(Debug)]
struct Case {
    /// `None`: the packet is the first of its connection.
    version: Option<ProtocolVersion>,
    receiver: Receiver,
    reason_code: u8,
    bytes: Vec<u8>,
}

impl Case {
    fn parse(line: &str) -> Self {
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [version, sender, reason_code, bytes, _meaning] = columns[..] else {
            panic!("columns of {line}")
        };
        Self {
            version: match version {
                "5" => Some(ProtocolVersion::V5),
                "3.1.1" => Some(ProtocolVersion::V311),
                "-" => None,
                _ => panic!("version of {line}"),
            },
            receiver: match sender {
                "client" => Receiver::Server,
                "server" => Receiver::Client,
                _ => panic!("sender of {line}"),
            },
            reason_code: u8::from_str_radix(reason_code, 16).unwrap(),
            bytes: parse_bytes(bytes),
        }
    }
}

/// Hexadecimal bytes, and text between apostrophes.
fn parse_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in text.split('\'').enumerate() {
        if index % 2 == 1 {
            bytes.extend_from_slice(part.as_bytes());
        } else {
            bytes.extend(
                part.split_whitespace()
                    .map(|byte| u8::from_str_radix(byte, 16).unwrap()),
            );
        }
    }
    bytes
}

const TABLE: &str = include_str!("../testdata/malformed.txt");
