//! The side that gives way.

use std::collections::BTreeMap;

use cluster::NodeId;
use mqtt::ids::{SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::origin::Origin;
use mqtt::records::queue::QueueRecord;

use super::messages::{Joined, MergeMessage, encode};
use crate::copies::messages::Other;
use crate::copies::{Copies, Held};
use crate::node::{Action, Node};
use crate::routes::{Since, Subject};

/// A session that gives way to that of another node.
#[derive(Debug)]
pub(in crate::copies) struct Giving {
    /// Who keeps the session.
    pub(super) to: NodeId,
    pub(super) stage: Stage,
    pub(super) had_client: bool,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// The other node was told of the subscriptions.
    Leaving,
    /// They are there. The nodes are asked, or will be, what of their messages it gets.
    Joined(Joined),
    /// The other node was sent what it lacks, up to this sequence.
    Sent(Joined, u64),
}

impl Node {
    /// A session of this node gives way to that of another one.
    pub(in crate::copies) fn give_way(
        &mut self,
        now: Now,
        number: SessionNumber,
        other: &Other,
        actions: &mut Vec<Action>,
    ) {
        let to = other.holder;
        let copies = self.copies.as_ref();
        let Some(held) = copies.and_then(|copies| copies.held.get(&number)) else {
            return;
        };
        if held.giving.as_ref().is_some_and(|giving| giving.to == to) {
            return;
        }
        // An owner may have said so before it missed that node. What is begun with it would not end, and clients would wait.
        if !self.peers.as_ref().is_some_and(|peers| peers.is_reached(to)) {
            return;
        }
        if !held.may_have_more_than(other) {
            return self.supersede(now, number, actions);
        }
        let Some(key) = self.key_of(number) else { return };
        let had_client = held.marks.as_ref().is_some_and(|marks| marks.had_client);
        let is_connected = self
            .sessions
            .get(key)
            .is_some_and(|entry| entry.connection.is_some());
        let parts = self.leave_parts(now, (key, to), had_client || is_connected);
        self.end_for_other_node(now, key, actions);
        let Some(copies) = &mut self.copies else { return };
        let giving = Giving {
            to,
            stage: Stage::Leaving,
            had_client: had_client || is_connected,
        };
        copies.with_held(number, |held| held.giving = Some(Box::new(giving)));
        copies.giving.insert(number);
        for part in parts {
            self.tell_merging(to, &MergeMessage::Leave(Box::new(part)));
        }
    }

    /// The place of a session of this node.
    pub(super) fn key_of(&self, number: SessionNumber) -> Option<SessionKey> {
        let held = self.copies.as_ref()?.held.get(&number)?;
        let key = self.sessions.find(&held.client_id)?;
        let entry = self.sessions.get(key)?;
        (entry.session.number == number).then_some(key)
    }

    /// Tells a node something about merging. False if it is not reached.
    pub(crate) fn tell_merging(&mut self, to: NodeId, message: &MergeMessage) -> bool {
        let peers = self.peers.as_mut();
        peers.is_some_and(|peers| peers.tell(to, (Subject::Merging, encode(message)), None))
    }

    /// The other node has the subscriptions.
    pub(super) fn note_joined(&mut self, from: NodeId, number: SessionNumber, joined: Joined) {
        let Some(copies) = &mut self.copies else { return };
        let held = copies.held.get_mut(&number);
        let giving = held.and_then(|held| held.giving.as_mut());
        if let Some(giving) = giving.filter(|giving| giving.to == from && giving.stage == Stage::Leaving) {
            giving.stage = Stage::Joined(joined);
            copies.fences.await_all(from, number);
        }
    }

    /// All nodes have said since when another one gets what they send: sessions that give way to it leave it what it lacks.
    pub(super) fn leave_to(
        &mut self,
        now: Now,
        (to, numbers): (NodeId, Vec<SessionNumber>),
        answers: &BTreeMap<NodeId, Since>,
    ) {
        for number in numbers {
            let copies = self.copies.as_ref();
            let held = copies.and_then(|copies| copies.held.get(&number));
            let Some(giving) = held.and_then(|held| held.giving.as_ref()) else {
                continue;
            };
            let (Stage::Joined(joined), true) = (giving.stage, giving.to == to) else {
                continue;
            };
            // From here on messages of shares go to others.
            if let Some(key) = self.key_of(number) {
                self.leave_shares(key);
            }
            let first = joined.base.map_or(0, |base| base.sequence);
            self.send_leavings(now, number, (joined, first), answers);
        }
    }

    /// Sends what the other node lacks of the deliveries from `first` on.
    fn send_leavings(
        &mut self,
        now: Now,
        number: SessionNumber,
        (joined, first): (Joined, u64),
        answers: &BTreeMap<NodeId, Since>,
    ) {
        let Some(key) = self.key_of(number) else { return };
        let Some(entry) = self.sessions.get(key) else {
            return;
        };
        let next = entry.session.next_sequence();
        let parts = self.leavings(now, key, (joined, first), answers);
        let acknowledged = entry.session.acknowledged();
        let Some(copies) = &mut self.copies else { return };
        let Some(giving) = copies.held.get_mut(&number).and_then(|held| held.giving.as_mut()) else {
            return;
        };
        giving.stage = Stage::Sent(joined, next);
        let to = giving.to;
        if !acknowledged.is_empty() {
            self.tell_merging(to, &MergeMessage::Acknowledged(number, acknowledged));
        }
        for part in parts {
            self.tell_merging(to, &MergeMessage::Leavings(Box::new(part)));
        }
    }

    /// The other node has everything, or has no such session.
    pub(super) fn note_merged(
        &mut self,
        now: Now,
        (from, number, is_there): (NodeId, SessionNumber, bool),
        actions: &mut Vec<Action>,
    ) {
        let Some(copies) = &mut self.copies else { return };
        let held = copies.held.get(&number);
        let giving = held.and_then(|held| held.giving.as_ref());
        let Some(giving) = giving.filter(|giving| giving.to == from) else {
            return;
        };
        if !is_there {
            copies.offer_soon(number, from);
            return self.stop_giving(number);
        }
        let Stage::Sent(joined, next) = giving.stage else {
            // The other node wants nothing of it: it is another client's, or that one has begun anew.
            return self.supersede(now, number, actions);
        };
        // What came meanwhile for a share, or from nowhere: nobody else has it.
        let Some(key) = self.key_of(number) else { return };
        let is_more = self.sessions.get(key).is_some_and(|entry| {
            let mut deliveries = entry.session.durable_deliveries().into_iter();
            deliveries.any(|(sequence, record)| {
                let is_alone = match record {
                    QueueRecord::Waiting(delivery) => {
                        delivery.share.is_some() || delivery.message.origin == Origin::Unknown
                    }
                    QueueRecord::Released { .. } => false,
                };
                sequence.0 >= next && is_alone
            })
        });
        if is_more {
            let since_ever = self.all_known();
            return self.send_leavings(now, number, (joined, next), &since_ever);
        }
        self.supersede(now, number, actions);
    }

    /// The session that this one was to give way to gives way itself. The node is not told of this one anew before that has ended: it would
    /// answer that it keeps its own, and both would begin again without end.
    pub(super) fn note_crossed(&mut self, from: NodeId, number: SessionNumber) {
        let held = self.copies.as_ref().and_then(|copies| copies.held.get(&number));
        let giving = held.and_then(|held| held.giving.as_ref());
        if giving.is_some_and(|giving| giving.to == from) {
            self.stop_giving(number);
        }
    }

    /// As if all nodes had said that the other one gets everything.
    fn all_known(&self) -> BTreeMap<NodeId, Since> {
        let positions = self.peers.iter().flat_map(|peers| peers.positions());
        let since = positions.map(|(node, position)| {
            let since = Since {
                incarnation: position.incarnation,
                number: 0,
                redirected: Vec::new(),
                losses: Vec::new(),
            };
            (node, since)
        });
        since.collect()
    }

    /// A node is lost, or reached anew: what was begun with it has to be begun again.
    pub(in crate::copies) fn stop_giving_to(&mut self, node: NodeId) {
        let Some(copies) = &mut self.copies else { return };
        let is_to = |number: &&SessionNumber| {
            let held = copies.held.get(number);
            held.and_then(|held| held.giving.as_ref())
                .is_some_and(|giving| giving.to == node)
        };
        let numbers: Vec<SessionNumber> = copies.giving.iter().filter(is_to).copied().collect();
        numbers.into_iter().for_each(|number| self.stop_giving(number));
    }

    /// The session goes on: it takes part in its shares again.
    pub(super) fn stop_giving(&mut self, number: SessionNumber) {
        let Some(copies) = &mut self.copies else { return };
        copies.giving.remove(&number);
        let client_id = copies.with_held(number, |held| {
            held.giving = None;
            held.client_id.clone()
        });
        copies.ended_giving.extend(client_id);
        let Some(key) = self.key_of(number) else { return };
        let entry = self.sessions.get(key);
        let filters = entry.iter().flat_map(|entry| entry.session.filters.iter());
        let shares = filters.filter(|(filter, _)| filter.share.is_some());
        let shares: Vec<_> = shares
            .map(|(filter, subscription)| (filter.clone(), *subscription))
            .collect();
        for (share, subscription) in shares {
            self.join(key, &share, subscription);
        }
    }
}

impl Held {
    /// Whether there may be anything here that the other one lacks: not, if this node has started again, and knew of no loss of the other node before. But of two sessions that have
    /// nothing in common neither knows anything of the other.
    fn may_have_more_than(&self, other: &Other) -> bool {
        let has_parted = self.marks.as_ref().is_some_and(|marks| marks.has(other.holder));
        self.recovered_below == 0 || has_parted || !self.clock.has_common(&other.clock)
    }
}

impl Copies {
    /// The node is to be told of the session anew.
    pub(super) fn forget_stage(&mut self, number: SessionNumber, node: NodeId) {
        self.set_stage(number, node, crate::copies::Stage::Unknown);
        self.begin_visit();
    }
}
