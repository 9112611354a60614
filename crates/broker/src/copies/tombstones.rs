//! Durable sessions that have ended while nodes are away that may have them, or older copies of them. These are told when they are back, and delete what they have: else a
//! session that its client has ended would come back with them, with everything that had waited.
//!
//! A clock says which session is meant: those that a client has had one after another have no event in common (`floor_of`). One that a client has used somewhere else since
//! it ended stays.

use std::collections::{BTreeMap, BTreeSet};

use cluster::NodeId;
use cluster::session_plane::{Causality, VectorClock};
use cluster::write::Write;
use mqtt::ids::SessionNumber;
use mqtt::now::Now;
use protocol::Text;

use super::messages::{CopyMessage, Ended, encode};
use super::{Copies, Held, Stage, StandingBy};
use crate::cluster_records;
use crate::cluster_records::tombstone::TombstoneRecord;
use crate::node::{Action, Node};
use crate::routes::{Routes, Subject, WaitId};
use crate::waiting::Waiter;

/// Sessions that are remembered. Of more the new ones are not, and are counted: they may come back with a node that is away.
const TOMBSTONES_MAX: usize = 16_384;

/// By how many milliseconds clocks of nodes may differ, and a client nevertheless has not used a session any more after its end.
const CLOCKS_DIFFER: u64 = 5_000;

/// What is remembered, by client id.
#[derive(Debug, Default)]
pub(crate) struct Tombstones(BTreeMap<Text, TombstoneRecord>);

impl Tombstones {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// What a restart has found.
    pub(crate) fn restore(&mut self, client_id: Text, record: TombstoneRecord) {
        self.0.insert(client_id, record);
    }

    /// Whether a session with this clock has ended.
    fn has(&self, client_id: &str, clock: &VectorClock) -> bool {
        let ended = self.0.get(client_id);
        ended.is_some_and(|ended| is_it(clock, &ended.clock))
    }

    /// Remembers one. What is to be written; `None`: there is no room.
    fn remember(&mut self, ended: &Ended) -> Option<Write> {
        let Ended {
            client_id,
            at,
            clock,
            away,
        } = ended;
        if self.0.len() >= TOMBSTONES_MAX && !self.0.contains_key(client_id) {
            return None;
        }
        let record = self
            .0
            .entry(client_id.clone())
            .or_insert_with(|| TombstoneRecord {
                at: *at,
                clock: VectorClock::new(),
                waits_for: Vec::new(),
            });
        record.at = record.at.max(*at);
        // One that has no room for both is of the later session.
        if record.clock.merge(clock).is_err() {
            record.clock = clock.clone();
        }
        for node in away {
            if !record.waits_for.contains(node) {
                record.waits_for.push(*node);
            }
        }
        Some(cluster_records::tombstone::put(client_id, record))
    }

    /// A node knows of what waits for it, or is not in the cluster any more. What is to be written.
    fn forget_node(&mut self, node: NodeId) -> Vec<Write> {
        let mut writes = Vec::new();
        self.0.retain(|client_id, record| {
            let before = record.waits_for.len();
            record.waits_for.retain(|other| *other != node);
            if record.waits_for.is_empty() {
                writes.push(cluster_records::tombstone::remove(client_id));
            } else if record.waits_for.len() < before {
                writes.push(cluster_records::tombstone::put(client_id, record));
            }
            !record.waits_for.is_empty()
        });
        writes
    }

    /// The nodes that are waited for and are none of the cluster's.
    fn unknown(&self, is_known: impl Fn(NodeId) -> bool) -> BTreeSet<NodeId> {
        let all = self.0.values().flat_map(|record| &record.waits_for);
        all.copied().filter(|node| !is_known(*node)).collect()
    }

    /// The session goes on: a client has used it somewhere.
    fn forget(&mut self, client_id: &Text) -> Option<Write> {
        let known = self.0.remove(client_id);
        known.map(|_| cluster_records::tombstone::remove(client_id))
    }
}

/// Whether a session with this clock is one that has ended with that clock, and nobody has gone on with it since who knew that.
fn is_it(clock: &VectorClock, ended: &VectorClock) -> bool {
    clock.has_common(ended) && clock.compare(ended) != Causality::After
}

impl Copies {
    /// A session of this node has ended. All that are reached are told if anybody may have an older one; those that are not later.
    pub(super) fn bury(&mut self, now: Now, held: &Held, peers: &mut Routes, wait: WaitId) -> Option<Write> {
        let away: Vec<NodeId> = peers.away().collect();
        if away.is_empty() && held.owners.iter().all(|owner| owner.stage == Stage::InStep) {
            return None;
        }
        let ended = Ended {
            client_id: held.client_id.clone(),
            at: now.wall,
            clock: held.clock.clone(),
            away,
        };
        let body = encode(self.own.incarnation.0, &CopyMessage::Ended(ended.clone()));
        let reached: Vec<NodeId> = peers.reached().collect();
        for node in reached {
            peers.tell(node, (Subject::Copies, body.clone()), Some(wait));
        }
        self.remember(&ended)
    }

    fn remember(&mut self, ended: &Ended) -> Option<Write> {
        if ended.away.is_empty() {
            return None;
        }
        let write = self.tombstones.remember(ended);
        self.figures.tombstones_refused += u64::from(write.is_none());
        write
    }

    /// A node hears from the beginning what is held here: first of what has ended. Who is told when it knows.
    pub(super) fn tell_ended(&self, peers: &mut Routes, to: NodeId) -> Option<WaitId> {
        let waiting = self
            .tombstones
            .0
            .iter()
            .filter(|(_, record)| record.waits_for.contains(&to));
        let mut waiting = waiting.peekable();
        waiting.peek()?;
        let wait = peers.open_wait();
        for (client_id, record) in waiting {
            let ended = CopyMessage::Ended(Ended::again(client_id, record));
            let body = encode(self.own.incarnation.0, &ended);
            peers.tell(to, (Subject::Copies, body), Some(wait));
        }
        peers.keep_open(wait)
    }
}

impl Ended {
    fn again(client_id: &Text, record: &TombstoneRecord) -> Self {
        Self {
            client_id: client_id.clone(),
            at: record.at,
            clock: record.clock.clone(),
            away: record.waits_for.clone(),
        }
    }
}

impl Node {
    /// Another node says that a session has ended.
    pub(super) fn take_ended(&mut self, now: Now, ended: &Ended, actions: &mut Vec<Action>) {
        let Some(copies) = &mut self.copies else { return };
        let own = copies.own.node;
        let copy = copies.standing_by.get(&ended.client_id);
        if copy.is_some_and(|copy| is_it(&copy.clock, &ended.clock)) {
            let copy = copies.remove_copy(&ended.client_id);
            for write in copy.iter().flat_map(StandingBy::remove) {
                self.commits.write(write);
            }
        }
        let key = self.sessions.find(&ended.client_id);
        let number = key
            .and_then(|key| self.sessions.get(key))
            .map(|entry| entry.session.number);
        if let Some(number) = number.filter(|number| self.has_ended(*number, ended)) {
            if self.was_used_since(number, ended) {
                return self.keep_alive(number, ended);
            }
            self.supersede(now, number, actions);
        }
        self.pass_on_ended(ended, own);
    }

    /// Those that the sender does not reach are told by this node: now, or when they are back.
    fn pass_on_ended(&mut self, ended: &Ended, own: NodeId) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
            return;
        };
        let others = ended.away.iter().copied().filter(|node| *node != own);
        let (reached, away) = others.partition(|node| peers.is_reached(*node));
        let ended = Ended {
            away,
            ..ended.clone()
        };
        let write = copies.remember(&ended);
        write.into_iter().for_each(|write| self.commits.write(write));
        let reached: Vec<NodeId> = reached;
        for node in reached {
            copies.tell(peers, node, &CopyMessage::Ended(ended.clone()));
        }
    }

    /// Whether a session of this node is one that has ended.
    fn has_ended(&self, number: SessionNumber, ended: &Ended) -> bool {
        let held = self.copies.as_ref().and_then(|copies| copies.held.get(&number));
        held.is_some_and(|held| is_it(&held.clock, &ended.clock))
    }

    /// Whether a client has connected to it here after its end.
    fn was_used_since(&self, number: SessionNumber, ended: &Ended) -> bool {
        let held = self.copies.as_ref().and_then(|copies| copies.held.get(&number));
        held.is_some_and(|held| held.connected_at.saturating_add(CLOCKS_DIFFER) > ended.at)
    }

    /// A session that has ended elsewhere goes on here: all are told, by a clock that has seen the end.
    fn keep_alive(&mut self, number: SessionNumber, ended: &Ended) {
        let Some(copies) = &mut self.copies else { return };
        let own = copies.own;
        copies.with_held(number, |held| {
            if held.clock.merge(&ended.clock).is_ok() {
                held.count_on(own, number);
            }
            for owner in &mut held.owners {
                owner.stage = Stage::Unknown;
            }
        });
        let forgotten = copies.tombstones.forget(&ended.client_id);
        copies.begin_visit();
        let record = copies.record(number);
        for write in forgotten.into_iter().chain([record]) {
            self.commits.write(write);
        }
    }

    /// A node offers a session. If it has ended, the node is told so.
    pub(super) fn refuse_ended(&mut self, client_id: &Text, clock: &VectorClock, from: NodeId) -> bool {
        let Some(copies) = &mut self.copies else {
            return false;
        };
        if !copies.tombstones.has(client_id, clock) {
            // One that has gone on with it knows of its end.
            let is_alive = copies.tombstones.0.get(client_id);
            if is_alive.is_some_and(|ended| clock.covers(&ended.clock)) {
                let write = copies.tombstones.forget(client_id);
                write.into_iter().for_each(|write| self.commits.write(write));
            }
            return false;
        }
        let record = copies.tombstones.0.get(client_id);
        let ended = record.map(|record| CopyMessage::Ended(Ended::again(client_id, record)));
        ended.into_iter().for_each(|ended| {
            self.tell_copies(from, &ended);
        });
        true
    }

    /// A node has been told of all that had ended without it, in its present run.
    pub(crate) fn note_ended_known(&mut self, node: NodeId, run: u32) {
        let is_same = self
            .peers
            .as_ref()
            .is_some_and(|peers| peers.is_reached_in(node, run));
        if is_same {
            self.forget_ended_of(node);
        }
    }

    /// Nobody waits for a node any more that has to know of what has ended.
    pub(crate) fn forget_ended_of(&mut self, node: NodeId) {
        let writes = self
            .copies
            .as_mut()
            .map(|copies| copies.tombstones.forget_node(node));
        writes
            .into_iter()
            .flatten()
            .for_each(|write| self.commits.write(write));
    }

    /// Who hears from the beginning what is held here is told of what has ended without it.
    pub(crate) fn tell_of_ended(&mut self, now: Now, to: NodeId, actions: &mut Vec<Action>) {
        let (Some(copies), Some(peers)) = (&self.copies, &mut self.peers) else {
            return;
        };
        // A restart may have found some that are not in the cluster any more.
        for gone in copies.tombstones.unknown(|node| peers.has_node(node)) {
            self.forget_ended_of(gone);
        }
        let (Some(copies), Some(peers)) = (&self.copies, &mut self.peers) else {
            return;
        };
        let (Some(wait), Some(run)) = (copies.tell_ended(peers, to), peers.run_of(to)) else {
            return;
        };
        let waiter = Self::after(Some(wait), Waiter::EndedKnown { node: to, run });
        self.release(now, waiter, actions);
    }

    /// A client has connected to a durable session.
    pub(crate) fn note_used(&mut self, now: Now, number: SessionNumber) {
        let Some(copies) = &mut self.copies else { return };
        if let Some(held) = copies.held.get_mut(&number) {
            held.connected_at = now.wall;
            copies.forget_claims(number);
        }
    }
}
