//! Clocks as bytes: as ever, and read from anything.

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::session_plane::encoding::{EncodingError, decode_clock, encode_clock};

fn compare(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/v1")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, bytes).unwrap();
    }
    assert_eq!(fs::read(path).unwrap(), bytes, "{name}");
}

/// Written as ever, read again, and refused when something is missing, left over, or of another version.
fn check(name: &str, clock: &VectorClock) {
    let bytes = encode_clock(clock);
    compare(name, &bytes);
    assert_eq!(decode_clock(&bytes).as_ref(), Ok(clock));
    for length in 0..bytes.len() {
        assert_eq!(decode_clock(&bytes[..length]), Err(EncodingError::Malformed));
    }
    assert_eq!(
        decode_clock(&[&bytes[..], &[0]].concat()),
        Err(EncodingError::Malformed)
    );
    let unknown = [&[2], &bytes[1..]].concat();
    assert_eq!(decode_clock(&unknown), Err(EncodingError::Version { found: 2 }));
}

#[test]
fn version_1_is_written_as_ever_and_read() {
    let mut clock = VectorClock::new();
    check("plane-empty.clock", &clock);
    for actor in [actor(0x0102_0304_0506_0708, 1), actor(2, 0x0A0B_0C0D)] {
        clock.increment(actor, 0).unwrap();
    }
    check("plane.clock", &clock);
}

/// What counts on something that is not so would panic later.
#[test]
fn what_breaks_a_rule_of_its_type_is_malformed() {
    let actor_bytes = |node: u64| [&node.to_be_bytes()[..], &1_u32.to_be_bytes()].concat();
    let run = |node: u64, first: u64, last: u64| {
        [
            actor_bytes(node),
            first.to_be_bytes().to_vec(),
            last.to_be_bytes().to_vec(),
        ]
        .concat()
    };
    let clock = |runs: &[Vec<u8>]| [vec![1, 0, runs.len() as u8], runs.concat()].concat();
    assert!(decode_clock(&clock(&[run(1, 1, 5), run(1, 7, 9), run(2, 1, 1)])).is_ok());
    for runs in [
        vec![run(0, 1, 5)],
        vec![run(1, 0, 5)],
        vec![run(1, 6, 5)],
        vec![run(2, 1, 1), run(1, 1, 1)],
        vec![run(1, 1, 1), run(1, 1, 1)],
        vec![run(1, 1, 5), run(1, 6, 9)],
        vec![run(1, 1, u64::MAX), run(1, 3, 4)],
    ] {
        assert_eq!(
            decode_clock(&clock(&runs)),
            Err(EncodingError::Malformed),
            "{runs:?}"
        );
    }
}

proptest! {
    /// Bytes from anywhere, and bytes that nearly are a clock, are refused or are a clock that works.
    #[test]
    fn any_bytes_are_refused_or_work(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut clock = VectorClock::new();
        for node in 1..4 {
            clock.increment(actor(node, 1), 0).unwrap();
        }
        let mut damaged = encode_clock(&clock);
        let at = at.index(damaged.len());
        damaged[at] = to;
        for bytes in [bytes, damaged] {
            if let Ok(other) = decode_clock(&bytes) {
                let mut joined = clock.clone();
                if joined.merge(&other).is_ok() {
                    prop_assert!(joined.covers(&clock) && joined.covers(&other));
                }
            }
        }
    }
}
