//! Barriers: a question to another node and its answer, behind all that the two have told each other before.
//!
//! ```text
//! ask     | 1 (1), number u64      answered once the receiver counts the sender as reached
//! answer  | 2 (1), number u64
//! ```
//!
//! They travel with the messages, in their order. So what was on its way in either direction when a barrier was asked is durable when it is passed. A node
//! that joins or merges waits for that before it is responsible: messages that are owed to sessions of the other side are among it.
//!
//! *Invariant*: a barrier is passed only by an answer to the last question, and over the link that it was asked over.

use std::collections::BTreeMap;

use bytes::{Buf, BufMut, Bytes};
use cluster::NodeId;
use cluster::peer_header::PeerError;

use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::routes::{LinkChange, Subject};

/// Barriers between this node and the others.
#[derive(Debug)]
pub(crate) struct Barriers {
    /// Number of the last question. Those of a run are above those of earlier ones.
    number: u64,
    of: BTreeMap<NodeId, Barrier>,
}

/// Barrier between this node and another one.
#[derive(Debug, Default)]
struct Barrier {
    is_reached: bool,
    /// Number of the question that is not answered.
    asked: Option<u64>,
    is_passed: bool,
    /// Question of the other node, while it is not reached.
    unanswered: Option<u64>,
}

/// What nodes say of barriers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Ask(u64),
    Answer(u64),
}

impl Barriers {
    /// No barrier, in a run of this node.
    pub(crate) fn new(run: u32) -> Self {
        Self {
            number: u64::from(run) << 32,
            of: BTreeMap::new(),
        }
    }

    /// A node is reached, perhaps anew: it is asked, and what it has asked is answered.
    fn reached(&mut self, node: NodeId) -> Vec<Said> {
        let barrier = self.of.entry(node).or_default();
        barrier.is_reached = true;
        let answer = barrier.unanswered.take().map(Said::Answer);
        answer.into_iter().chain([self.ask(node)]).collect()
    }

    /// A node is not reached any more: what was on its way is gone.
    fn lost(&mut self, node: NodeId) {
        self.of.remove(&node);
    }

    /// Nodes that are reached, which are asked once more.
    fn ask_all(&mut self) -> Vec<(NodeId, Said)> {
        let reached = self.of.iter().filter(|(_, barrier)| barrier.is_reached);
        let reached: Vec<NodeId> = reached.map(|(node, _)| *node).collect();
        reached.into_iter().map(|node| (node, self.ask(node))).collect()
    }

    fn ask(&mut self, node: NodeId) -> Said {
        self.number += 1;
        let barrier = self.of.entry(node).or_default();
        barrier.asked = Some(self.number);
        barrier.is_passed = false;
        Said::Ask(self.number)
    }

    fn hear(&mut self, from: NodeId, said: Said) -> Option<Said> {
        let barrier = self.of.entry(from).or_default();
        match said {
            Said::Ask(number) if barrier.is_reached => Some(Said::Answer(number)),
            Said::Ask(number) => {
                barrier.unanswered = Some(number);
                None
            }
            Said::Answer(number) => {
                if barrier.asked == Some(number) {
                    barrier.asked = None;
                    barrier.is_passed = true;
                }
                None
            }
        }
    }

    /// Whether the last question to a node was answered.
    fn is_passed(&self, node: NodeId) -> bool {
        self.of.get(&node).is_some_and(|barrier| barrier.is_passed)
    }
}

impl Said {
    fn encode(self) -> Bytes {
        let (kind, number) = match self {
            Said::Ask(number) => (ASK, number),
            Said::Answer(number) => (ANSWER, number),
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.put_u8(kind);
        bytes.put_u64(number);
        bytes.into()
    }

    fn decode(mut bytes: Bytes) -> Option<Self> {
        if bytes.len() != BYTES {
            return None;
        }
        match bytes.get_u8() {
            ASK => Some(Said::Ask(bytes.get_u64())),
            ANSWER => Some(Said::Answer(bytes.get_u64())),
            _ => None,
        }
    }
}

const ASK: u8 = 1;
const ANSWER: u8 = 2;
const BYTES: usize = 1 + 8;

impl Node {
    /// What becomes of a link is what becomes of the barrier.
    pub(crate) fn note_link_of_barriers(&mut self, node: NodeId, change: LinkChange) {
        let Some(states) = &mut self.states else { return };
        let said = match change {
            LinkChange::Reached | LinkChange::Started | LinkChange::Asked => states.barriers.reached(node),
            LinkChange::Lost => {
                states.barriers.lost(node);
                return;
            }
            LinkChange::Answers | LinkChange::Silent => return,
        };
        for said in said {
            self.tell_of_barrier(node, said);
        }
    }

    /// Another node asks, or answers.
    pub(crate) fn take_about_barrier(&mut self, from: NodeId, body: Bytes, actions: &mut Vec<Action>) {
        let Some(said) = Said::decode(body) else {
            return drop_message(from, PeerError::Damaged, actions);
        };
        let Some(states) = &mut self.states else { return };
        if let Some(answer) = states.barriers.hear(from, said) {
            self.tell_of_barrier(from, answer);
        }
    }

    /// Asks all nodes that are reached: handing over begins.
    pub(crate) fn ask_barriers(&mut self) {
        let Some(states) = &mut self.states else { return };
        for (node, said) in states.barriers.ask_all() {
            self.tell_of_barrier(node, said);
        }
    }

    /// Whether these nodes have answered since they were asked last.
    pub(crate) fn have_passed_barriers(&self, nodes: &mut impl Iterator<Item = NodeId>) -> bool {
        let states = self.states.as_ref();
        nodes.all(|node| states.is_none_or(|states| states.barriers.is_passed(node)))
    }

    fn tell_of_barrier(&mut self, node: NodeId, said: Said) {
        if let Some(peers) = &mut self.peers {
            peers.tell(node, (Subject::Barrier, said.encode()), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: NodeId = NodeId(1);

    #[test]
    fn a_barrier_is_passed_by_the_answer_to_the_last_question() {
        let mut barriers = Barriers::new(1);
        assert!(!barriers.is_passed(ONE), "nobody was asked");
        let first = barriers.reached(ONE);
        let [Said::Ask(number)] = first[..] else {
            panic!("{first:?}")
        };
        assert_eq!(barriers.ask_all(), [(ONE, Said::Ask(number + 1))]);
        barriers.hear(ONE, Said::Answer(number));
        assert!(!barriers.is_passed(ONE));
        barriers.hear(ONE, Said::Answer(number + 1));
        assert!(barriers.is_passed(ONE));
        barriers.lost(ONE);
        assert!(!barriers.is_passed(ONE));
    }

    #[test]
    fn a_question_is_answered_when_its_sender_is_reached() {
        let mut barriers = Barriers::new(1);
        assert_eq!(barriers.hear(ONE, Said::Ask(7)), None);
        assert_eq!(barriers.reached(ONE)[0], Said::Answer(7));
        assert_eq!(barriers.hear(ONE, Said::Ask(8)), Some(Said::Answer(8)));
    }

    #[test]
    fn what_is_said_keeps_its_bytes() {
        assert_eq!(Said::Ask(258).encode()[..], [1, 0, 0, 0, 0, 0, 0, 1, 2]);
        for said in [Said::Ask(1), Said::Answer(u64::MAX)] {
            assert_eq!(Said::decode(said.encode()), Some(said));
        }
        for bytes in [&[][..], &[1; 8], &[3; 9], &[1; 10]] {
            assert_eq!(Said::decode(Bytes::copy_from_slice(bytes)), None);
        }
    }
}
