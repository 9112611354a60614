//! What nodes tell each other, as bytes.

use std::collections::BTreeSet;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::actor;
use super::super::origin;
use super::net::DEAD_AFTER;
use crate::session_plane::announcement::{Announcement, AnnouncementError, Word};
use crate::session_plane::detection::DetectionConfig;
use crate::session_plane::lifecycle::{NodeState, Reason};
use crate::session_plane::nodes::{Nodes, NodesError, NodesOutput};
use crate::{Incarnation, NodeId};

/// Written by hand from the description. Nodes of two versions have to understand each other: it stays.
const ANNOUNCEMENT: &[u8] = b"\x01\
    \0\0\0\x03\0\0\0\0\0\0\0\x09\
    \x03\x04\
    \0\0\0\x02\0\0\0\0\0\0\0\x05\
    \0\x02\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0\x08\
    rest";

/// The same for a node's call to one that it does not know: life 0 of run 3 of node 1, to any run of node 2.
const CALL: &[u8] = b"\
    \0\0\0\0\0\0\0\x01\0\0\0\x03\0\0\0\0\
    \0\0\
    \0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\
    \x07";

fn word(run: u32, number: u64) -> Word {
    Word {
        run: Incarnation(run),
        number,
    }
}

fn announcement() -> Announcement {
    Announcement {
        word: word(3, 9),
        state: NodeState::Running,
        reason: Reason::HandedOver,
        counts_on: BTreeSet::from([NodeId(7), NodeId(8)]),
    }
}

fn node(number: u64) -> Nodes {
    let config = DetectionConfig {
        own: actor(number, 3),
        dead_after: DEAD_AFTER,
        seed: 1,
    };
    let mut nodes = Nodes::new(origin(), &config);
    let all = BTreeSet::from([NodeId(1), NodeId(2)]);
    nodes.set_nodes(origin(), &all, &mut Vec::new());
    nodes
}

#[test]
fn an_announcement_is_written_as_described() {
    assert_eq!(announcement().encode(word(2, 5), b"rest"), ANNOUNCEMENT);
    let read = Announcement::decode(Bytes::from_static(ANNOUNCEMENT));
    assert_eq!(
        read,
        Ok((announcement(), word(2, 5), Bytes::from_static(b"rest")))
    );
}

#[test]
fn an_announcement_of_another_version_is_refused() {
    let mut bytes = ANNOUNCEMENT.to_vec();
    bytes[0] = 2;
    let read = Announcement::decode(bytes.into());
    assert_eq!(read, Err(AnnouncementError::Version { found: 2 }));
}

#[test]
fn an_announcement_that_is_cut_short_is_refused() {
    let whole = ANNOUNCEMENT.len() - b"rest".len();
    for len in 0..whole {
        let read = Announcement::decode(Bytes::from_static(&ANNOUNCEMENT[..len]));
        assert_eq!(read, Err(AnnouncementError::Malformed), "{len} bytes");
    }
}

#[test]
fn a_call_is_written_as_described() {
    let mut outputs = Vec::new();
    node(1).tick(origin(), &mut outputs);
    let calls = outputs.iter().filter_map(|output| match output {
        NodesOutput::Send(to, message) => Some((*to, message)),
        NodesOutput::Changed(_) => None,
    });
    let calls: Vec<_> = calls.collect();
    assert_eq!(calls.len(), 1);
    let (_, _, detection) = Announcement::decode(calls[0].1.clone()).unwrap();
    assert_eq!((calls[0].0, &detection[..]), (NodeId(2), CALL));
}

#[test]
fn a_call_in_the_name_of_another_node_is_refused() {
    let message = announcement().encode(Word::NONE, CALL);
    let heard = node(3).hear(origin(), NodeId(2), message, &mut Vec::new());
    assert!(matches!(heard, Err(NodesError::Detection(_))), "{heard:?}");
}

#[test]
fn a_node_that_is_not_in_the_cluster_is_not_answered() {
    let mut outputs = Vec::new();
    let message = announcement().encode(Word::NONE, b"");
    let heard = node(2).hear(origin(), NodeId(9), message, &mut outputs);
    assert_eq!((heard, outputs), (Ok(()), Vec::new()));
}

/// The life that a node says it lives, in the last message that it sends to another one.
fn own_life(outputs: &[NodesOutput]) -> Option<u8> {
    outputs.iter().rev().find_map(|output| match output {
        NodesOutput::Send(_, message) => {
            let (_, _, detection) = Announcement::decode(message.clone()).unwrap();
            detection.get(15).copied()
        }
        NodesOutput::Changed(_) => None,
    })
}

#[test]
fn a_node_that_is_told_of_too_many_others_forgets_them() {
    let mut nodes = node(2);
    let mut outputs = Vec::new();
    let call = announcement().encode(Word::NONE, CALL);
    nodes.hear(origin(), NodeId(1), call, &mut outputs).unwrap();
    assert_eq!(own_life(&outputs), Some(0));
    for first in [10_000_u64, 20_000] {
        let mut gossip = CALL.to_vec();
        // To this run of the node.
        gossip[29] = 3;
        gossip[34] = 9;
        gossip.extend(600_u16.to_be_bytes());
        for node in first..first + 600 {
            gossip.extend(node.to_be_bytes());
            gossip.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
        }
        let message = announcement().encode(Word::NONE, &gossip);
        nodes.hear(origin(), NodeId(1), message, &mut outputs).unwrap();
    }
    assert_eq!(own_life(&outputs), Some(1));
}

proptest! {
    #[test]
    fn any_bytes_are_an_error_or_heard(bytes: Vec<u8>, is_announced: bool, state in 0u8..9) {
        let mut bytes = bytes;
        if is_announced {
            let mut whole = announcement().encode(Word::NONE, &[CALL, &bytes].concat()).to_vec();
            whole[13] = state;
            bytes = whole;
        }
        let mut nodes = node(2);
        let mut outputs = Vec::new();
        let _ = nodes.hear(origin(), NodeId(1), bytes.into(), &mut outputs);
        nodes.tick(origin(), &mut outputs);
    }

    #[test]
    fn any_message_of_failure_detection_is_an_error_or_heard(code in 0u8..12, rest: Vec<u8>) {
        let mut nodes = node(2);
        let mut outputs = Vec::new();
        let call = announcement().encode(Word::NONE, CALL);
        nodes.hear(origin(), NodeId(1), call, &mut outputs).unwrap();
        let mut message = CALL.to_vec();
        // To this run of the node.
        message[29] = 3;
        message[34] = code;
        message.extend(rest);
        let message = announcement().encode(Word::NONE, &message);
        let _ = nodes.hear(origin(), NodeId(1), message, &mut outputs);
        nodes.tick(origin(), &mut outputs);
    }
}
