//! Bytes of messages: what is common is short, and the limits of transfers hold.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};

use super::golden::goldens;
use super::*;
use crate::transfer::TransferBytes;
use crate::{Dot, Interval, Run, Settled, Slot, VersionVector};

impl TransferBytes for Bytes {
    fn bytes(&self) -> usize {
        self.len()
    }
}

/// Ids of nodes are drawn at random.
fn run(of: u64) -> Run {
    Run {
        node: NodeId(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(of + 1)),
        incarnation: Incarnation(12),
    }
}

/// Vector of runs that have a million events each, without a gap.
fn vector(runs: u64) -> VersionVector {
    let mut vector = VersionVector::default();
    for of in 0..runs {
        let interval = Interval::up_to(run(of), 1_000_000).expect("numbers");
        vector.insert(interval).expect("few runs");
    }
    vector
}

fn heartbeat(runs: u64) -> usize {
    let heartbeat = Heartbeat {
        position: None,
        confirmed: Some(0),
        stable: 0,
        clock: Hlc::ZERO,
        known: vector(runs),
        settled: Settled::default(),
    };
    Sample::Replication(Replication::Heartbeat(heartbeat))
        .encode()
        .len()
}

#[test]
fn an_interval_from_one_on_costs_a_few_bytes() {
    let spelled_out = 1 + 8 + 1;
    let numbers = 1 + 1 + 3;
    assert_eq!(heartbeat(1) - heartbeat(0), spelled_out + numbers);
    assert_eq!(heartbeat(5) - heartbeat(0), 5 * (spelled_out + numbers));
}

#[test]
fn a_run_is_spelled_out_once() {
    let event = |known| SentEvent {
        dot: Dot {
            run: run(0),
            number: 1_000_000,
        },
        kind: SentEventKind::Change([Slot::of_client(b"panel")].into_iter().collect()),
        payload: EventPayload {
            clock: Hlc::ZERO,
            known,
            content: Bytes::new(),
        },
    };
    let bytes = |known| {
        let next = NextEvent {
            after: 999_990,
            event: event(known),
        };
        Sample::Replication(Replication::Event(next)).encode().len()
    };
    assert_eq!(bytes(VersionVector::default()), 32);
    assert_eq!(bytes(vector(1)) - bytes(VersionVector::default()), 1 + 1 + 1 + 3);
}

#[test]
fn no_part_has_more_bytes_than_its_limit_counts() {
    let mut checked = 0;
    for (name, message) in goldens() {
        if let Message::Replication(Replication::Transfer(transfer)) = &message {
            let (written, counted) = (message.encode().len() - FRAME_BYTES, transfer.bytes());
            assert!(written <= counted, "{name}: {written} bytes, {counted} counted");
            checked += 1;
        }
    }
    assert_eq!(checked, 19);
}
