//! What nodes say of copies that cannot be read: a record of another version, or a defect. Whoever waits for such a copy must hear of it.
//!
//! Its holder is asked for the whole session again. If that does not help it is told that this node keeps another one, which it does not wait for; it offers the session again when nodes or
//! connections have changed.

use std::collections::BTreeMap;

use bytes::Bytes;
use cluster::NodeId;
use cluster::peer_header::PeerError;
use cluster::session_plane::VectorClock;
use mqtt::ids::SessionNumber;

use super::Stage;
use super::messages::{About, CopyAnswer, Other, about};
use crate::invoking::drop_message;
use crate::node::{Action, Node};

/// How often a session is asked for that cannot be read, and how often a node is asked to offer all.
const TRIES_MAX: u8 = 3;

/// Sessions of which that is counted. Of more nobody waits at once.
const SESSIONS_MAX: usize = 1_024;

/// What could not be read since a node was reached.
#[derive(Debug, Default)]
pub(super) struct Unreadable {
    /// Sessions, by their holders and their numbers there.
    sessions: BTreeMap<(NodeId, SessionNumber), u8>,
    /// What was about several sessions, or none.
    others: BTreeMap<NodeId, u8>,
}

impl Unreadable {
    /// A session could not be read. Whether it is to be asked for again.
    fn begin_try(&mut self, holder: NodeId, number: SessionNumber) -> bool {
        let is_full = self.sessions.len() >= SESSIONS_MAX;
        if is_full && !self.sessions.contains_key(&(holder, number)) {
            return false;
        }
        let tries = self.sessions.entry((holder, number)).or_default();
        *tries = tries.saturating_add(1);
        *tries < TRIES_MAX
    }

    /// A node is reached anew, or is lost.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.sessions.retain(|(holder, _), _| *holder != node);
        self.others.remove(&node);
    }

    /// A session was read.
    pub(super) fn end(&mut self, holder: NodeId, number: SessionNumber) {
        self.sessions.remove(&(holder, number));
    }
}

impl Node {
    /// What a node has said of copies cannot be read.
    pub(super) fn take_unreadable(&mut self, from: NodeId, body: &Bytes) {
        match about(body) {
            Some(About::Theirs(number)) => self.want_again(from, number),
            Some(About::Own(number)) => {
                // It has said something, and nobody waits for more.
                if let Some(copies) = &mut self.copies {
                    copies.set_stage(number, from, Stage::Refused);
                }
                self.end_awaited();
            }
            None => self.ask_for_all(from),
        }
    }

    /// A session that a node has sent does not fit.
    pub(super) fn refuse_copy(&mut self, holder: NodeId, number: SessionNumber, actions: &mut Vec<Action>) {
        drop_message(holder, PeerError::Damaged, actions);
        self.want_again(holder, number);
    }

    fn want_again(&mut self, holder: NodeId, number: SessionNumber) {
        let Some(copies) = &mut self.copies else { return };
        let own = copies.own.node;
        let answer = if copies.unreadable.begin_try(holder, number) {
            CopyAnswer::Want
        } else {
            CopyAnswer::Other(Other {
                clock: VectorClock::new(),
                holder: own,
                is_connected: false,
            })
        };
        // The rest of it must not be taken for all.
        let is_whole = copies.copy_of(holder, number).is_some_and(|copy| copy.is_whole());
        if !is_whole {
            self.drop_copy(holder, number);
        }
        self.answer_copy(holder, number, answer);
    }

    /// Some sessions of a node have changed, and nobody knows which: it offers all of them.
    fn ask_for_all(&mut self, from: NodeId) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
            return;
        };
        let tries = copies.unreadable.others.entry(from).or_default();
        if *tries < TRIES_MAX {
            *tries += 1;
            peers.ask_anew(from);
        }
    }
}
