//! Files of backup that are damaged anywhere: they are refused, and nothing of them is put anywhere.

use std::path::Path;

use client::protocol::packet::{Packet, QoS};
use serde_json::Value;

use crate::admin_api::Asked;
use crate::harness::{run, statehold};
use crate::raw::{Raw, connect, connect_durably, packet_id, publish};

/// Keys, a retained message, and a session with something that waits.
fn filled() -> Asked {
    let asked = Asked::start();
    let mqtt = |arguments: &[&str]| asked.server.run("mqtt", arguments).expect(0);
    mqtt(&["set", "door", "open"]);
    mqtt(&["set", "lease", "me", "--expires-in", "10m"]);
    mqtt(&["set", "fenced", "1", "--fencing-token", "1700000000000:5:holder"]);
    mqtt(&["pub", "plant/1", "on", "--retain", "--qos", "1"]);
    let at = asked.server.at("mqtt");
    let mut away = Raw::connect(at, connect_durably("pump"));
    away.subscribe("work/#", QoS::AtLeastOnce);
    drop(away);
    let mut publisher = Raw::connect(at, connect("publisher"));
    for _ in 0..3 {
        publisher.send(&publish("work/1", Some(packet_id(9)), b"a message that waits"));
        assert!(matches!(publisher.receive(), Packet::PubAck(ack) if !ack.reason.is_error()));
    }
    asked
}

/// What a server has: keys, retained messages, sessions.
fn contents(asked: &Asked, scratch: &Path) -> [Value; 3] {
    let file = scratch.join("contents");
    let file = file.to_str().expect("text");
    let said = asked.run(&["backup", "create", file, "--json"]).expect(0).json();
    std::fs::remove_file(file).expect("it is there");
    ["keys", "retained", "sessions"].map(|what| said[what].clone())
}

/// The file with a bit changed, with some bytes missing, with some too many, or cut off, in turn, at places all over it.
fn damaged(whole: &[u8]) -> impl Iterator<Item = Vec<u8>> + '_ {
    const PLACES: usize = 48;
    (0..PLACES).map(move |number| {
        let at = number * (whole.len() - 1) / (PLACES - 1);
        let (before, behind) = whole.split_at(at);
        match number % 4 {
            0 => [before, &[behind[0] ^ 1 << (number % 8)], &behind[1..]].concat(),
            1 => [before, &behind[1.max(number / 8)..]].concat(),
            2 => [before, b"STHDBKUP", behind].concat(),
            _ => before.to_vec(),
        }
    })
}

#[test]
fn a_damaged_file_is_refused_and_nothing_of_it_is_put_back() {
    let from = filled();
    let scratch = tempfile::TempDir::new().expect("a directory");
    let at = |name: &str| scratch.path().join(name).to_str().expect("text").to_owned();
    from.run(&["backup", "create", &at("whole")]).expect(0);
    let whole = std::fs::read(at("whole")).expect("it is there");

    let into = Asked::start();
    let empty = contents(&into, scratch.path());
    assert_eq!(empty, [0.into(), 0.into(), 0.into()].map(|count: Value| count));
    for bytes in damaged(&whole) {
        std::fs::write(at("damaged"), bytes).expect("written");
        let verified = run(statehold(&["backup", "verify", &at("damaged")])).expect(5);
        let restored = into.run(&["backup", "restore", &at("damaged")]).expect(5);
        // Both say the same, of the file, and where.
        assert!(verified.stderr.contains(&at("damaged")), "{verified:?}");
        assert!(verified.stderr.contains("at byte"), "{verified:?}");
        assert_eq!(verified.stderr, restored.stderr);
    }
    assert_eq!(contents(&into, scratch.path()), empty);

    into.run(&["backup", "restore", &at("whole")]).expect(0);
    assert_eq!(contents(&into, scratch.path()), contents(&from, scratch.path()));
}
