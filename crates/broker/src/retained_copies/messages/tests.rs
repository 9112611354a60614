use cluster::session_plane::{Actor, Hlc};
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;

use super::*;

fn topic(name: &str) -> TopicName {
    TopicName::parse(Text::new(name).expect("short")).expect("a topic")
}

fn edition() -> Edition {
    let by = Actor {
        node: NodeId(2),
        incarnation: Incarnation(3),
    };
    Edition { at: Hlc::at(1), by }
}

const EDITION: [u8; 20] = [0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3];

const ROUND: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 9];
const NUMBER: u64 = 1 << 32 | 9;

/// Digests whose first is 5 and whose others are 0, and their bytes.
fn digests() -> (Digests, Vec<u8>) {
    let mut words = Box::new([0; BUCKETS]);
    words[0] = 5;
    let mut bytes = vec![0; 8 * BUCKETS];
    bytes[7] = 5;
    (Digests::of(words), bytes)
}

/// Nodes 1 and 2.
const NODES: &[u8] = b"\0\x02\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02";

/// Every message, and its bytes after version and kind.
fn golden() -> Vec<(Said, u8, Vec<u8>)> {
    let round = NUMBER;
    let ask = NUMBER;
    let tombstones = vec![(topic("a/b"), edition())];
    let named = [&[0, 3], b"a/b".as_slice()].concat();
    let tombstone = [named.as_slice(), &EDITION].concat();
    let (ones, bytes) = digests();
    let of_round = |more: &[u8]| [&ROUND, more].concat();
    let set = Said::Set {
        is_new: true,
        topic: topic("a/b"),
        record: Bytes::from_static(b"record"),
    };
    let compare = Said::Compare {
        round,
        is_anew: true,
        digests: ones.clone(),
    };
    let list = Said::List {
        ask,
        buckets: Buckets::of([1, 0, 0, 2]),
        place: Bytes::from_static(b"\0p"),
    };
    let buckets = [&[0; 7], [1].as_slice(), &[0; 16], &[0; 7], &[2]].concat();
    let listed = Said::Listed {
        ask,
        place: Bytes::new(),
        topics: vec![Listed {
            topic: topic("a/b"),
            edition: edition(),
            bytes: 7,
        }],
    };
    let want = Said::Want {
        ask,
        topics: vec![topic("a/b")],
    };
    let confirm = Said::Confirm {
        round,
        nodes: [NodeId(1), NodeId(2)].into(),
        tombstones: tombstones.clone(),
    };
    vec![
        (set, 1, [&[1], named.as_slice(), b"record"].concat()),
        (compare, 2, of_round(&[&[1], bytes.as_slice()].concat())),
        (Said::Same { round }, 3, of_round(&[])),
        (Said::Differs { round, digests: ones }, 4, of_round(&bytes)),
        (
            list,
            5,
            of_round(&[buckets.as_slice(), &[0, 0, 0, 2], b"\0p"].concat()),
        ),
        (
            listed,
            6,
            of_round(&[&[0; 4], tombstone.as_slice(), &[0, 0, 0, 7]].concat()),
        ),
        (want, 7, of_round(&named)),
        (Said::Given { ask }, 8, of_round(&[])),
        (Said::Done { round }, 9, of_round(&[])),
        (confirm, 10, of_round(&[NODES, &tombstone].concat())),
        (Said::Confirmed { round }, 11, of_round(&[])),
        (Said::Forget { tombstones }, 12, tombstone.clone()),
    ]
}

#[test]
fn every_message_has_the_bytes_that_all_versions_know() {
    for (said, kind, body) in golden() {
        let bytes = [&[1, kind], body.as_slice()].concat();
        assert_eq!(said.encode(), bytes, "{said:?}");
        assert_eq!(Said::decode(bytes.into()), Some(said));
    }
}

#[test]
fn what_is_cut_or_too_long_or_of_another_version_is_none() {
    for (said, kind, _) in golden() {
        let bytes = said.encode();
        // What a set has behind its topic is a record, whatever it is; lists end anywhere between two.
        if kind != 1 {
            let longer = [&bytes, [0].as_slice()].concat();
            assert_eq!(Said::decode(longer.into()), None, "{said:?}");
            let cut = Said::decode(bytes.slice(..bytes.len() - 1));
            assert_ne!(cut, Some(said.clone()));
        }
        let mut other = bytes.to_vec();
        other[0] = 2;
        assert_eq!(Said::decode(other.into()), None);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_decoder_panic(kind in 0..14_u8, body in prop::collection::vec(any::<u8>(), 0..80)) {
        let bytes = [&[1, kind], body.as_slice()].concat();
        if let Some(said) = Said::decode(bytes.clone().into()) {
            prop_assert_eq!(said.encode(), bytes);
        }
    }
}
