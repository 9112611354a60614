//! The wills that a node guards for others, and how it publishes them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::NodeId;
use cluster::peer_header::PeerError;
use mqtt::authorization::Right;
use mqtt::ids::SessionNumber;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::records;
use mqtt::will::DueWill;
use protocol::Text;

use super::messages::{WillMessage, decode};
use super::{Guarded, Guards, run_of};
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::routes::LinkChange;

/// Wills that are published before others have their turn: each is routed.
const PUBLISHED_AT_ONCE_MAX: usize = 256;

/// How long the others have their turn.
const PAUSE: Duration = Duration::from_millis(1);

/// So many wills of a node are remembered to be published; of more, the oldest may be published again when the node is back.
const PUBLISHED_MAX: usize = 1 << 20;

impl Node {
    /// A node has told something about wills.
    pub(crate) fn take_about_wills(
        &mut self,
        now: Now,
        from: NodeId,
        body: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let (incarnation, message) = match decode(body) {
            Ok(found) => found,
            Err(error) => return drop_message(from, error, actions),
        };
        let Some(guards) = &mut self.guards else { return };
        guards.end_runs_before(now, from, incarnation);
        match message {
            WillMessage::Begin => guards.begin(from),
            WillMessage::All => guards.release_unconfirmed(from, incarnation),
            WillMessage::Guard { client_id, record } => {
                if self.take_guarded(from, (&client_id, &record)).is_none() {
                    drop_message(from, PeerError::Damaged, actions);
                }
            }
            WillMessage::Gone(numbers) => guards.let_go(from, &numbers),
            WillMessage::Ask(question, numbers) => {
                let published = guards.published_of(from, &numbers);
                guards.let_go(from, &numbers);
                if !published.is_empty() {
                    self.tell_wills(from, &WillMessage::Published(from, published));
                }
                self.tell_wills(from, &WillMessage::LetGo(question, numbers));
            }
            WillMessage::LetGo(question, numbers) => {
                self.take_let_go(now, from, (question, numbers), actions);
            }
            WillMessage::Published(node, numbers) if node == guards.own => {
                self.take_published(from, numbers);
            }
            WillMessage::Heard(numbers) => guards.forget_published(from, &numbers),
            WillMessage::Published(node, numbers) => {
                guards.let_go(node, &numbers);
                guards.note_published(node, numbers);
            }
        }
    }

    /// Guards a will for a node; `None`: it is none.
    fn take_guarded(&mut self, from: NodeId, (client_id, record): (&Text, &Bytes)) -> Option<()> {
        // In memory of its own.
        let record = Bytes::copy_from_slice(record);
        let (client_id, record) = records::session::decode(client_id.as_bytes(), record).ok()?;
        let (number, will) = (record.number, record.will?);
        let is_full = self.is_memory_full();
        let guards = self.guards.as_mut()?;
        let published = guards.published_of(from, &[number]);
        if !published.is_empty() {
            self.tell_wills(from, &WillMessage::Published(from, published));
            return Some(());
        }
        let is_known = guards
            .guarded
            .get(&from)
            .is_some_and(|wills| wills.contains_key(&number));
        if is_full && !is_known {
            guards.figures.refused += 1;
            return Some(());
        }
        guards.let_go(from, &[number]);
        let guarded = Guarded {
            client_id,
            owner: record.owner,
            will,
            is_confirmed: true,
        };
        guards.bytes += guarded.size();
        guards.guarded.entry(from).or_default().insert(number, guarded);
        Some(())
    }

    /// A node is lost: what this one guards of its runs up to this one is published.
    pub(crate) fn publish_wills_of(&mut self, now: Now, node: NodeId, run: u32) {
        if let Some(guards) = &mut self.guards {
            guards.publish_up_to(
                now,
                node,
                SessionNumber(u64::from(run) << 32 | u64::from(u32::MAX)),
            );
        }
    }

    /// What becomes of a link is what becomes of the wills of its node.
    pub(crate) fn note_link_of_wills(
        &mut self,
        now: Now,
        (node, change): (NodeId, LinkChange),
        actions: &mut Vec<Action>,
    ) {
        match change {
            // What it was asked it is asked again.
            LinkChange::Answers | LinkChange::Asked => {}
            // It has told this one of wills after it was given up.
            LinkChange::Silent => {
                let states = self.states.as_ref();
                if states.is_some_and(|states| !states.is_there(node)) {
                    self.publish_wills_of(now, node, u32::MAX);
                }
            }
            LinkChange::Reached | LinkChange::Started | LinkChange::Lost => {
                self.note_link_of_guard(now, (node, change), actions);
                let published = self
                    .guards
                    .as_ref()
                    .and_then(|guards| guards.published.get(&node));
                let numbers: Vec<SessionNumber> = published.into_iter().flatten().copied().collect();
                for numbers in numbers.chunks(super::telling::NUMBERS_MAX) {
                    self.tell_wills(node, &WillMessage::Published(node, numbers.to_vec()));
                }
            }
        }
    }

    /// Goes on with what is to be published, and with what guards are to be told.
    pub(crate) fn go_on_with_wills(&mut self, now: Now, actions: &mut Vec<Action>) {
        let Some(guards) = &mut self.guards else { return };
        guards.go_on_at = None;
        self.go_on_publishing(now, actions);
        self.go_on_telling(now);
    }

    fn go_on_publishing(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (Some(guards), Some(peers)) = (&mut self.guards, &mut self.peers) else {
            return;
        };
        guards.note_nodes(now, |node| peers.has_node(node));
        let Some((&node, &last)) = guards.lost.first_key_value() else {
            return;
        };
        let reached: Vec<NodeId> = peers.reached().collect();
        guards.go_on_at = Some(now.instant + PAUSE);
        if reached.iter().any(|node| peers.is_behind(*node)) {
            return;
        }
        let wills = guards.take_up_to(node, last);
        if wills.is_empty() {
            guards.lost.remove(&node);
            return;
        }
        let numbers: Vec<SessionNumber> = wills.iter().map(|(number, _)| *number).collect();
        let said = WillMessage::Published(node, numbers.clone());
        for to in reached.into_iter().filter(|to| *to != node) {
            guards.tell(peers, to, &said, None);
        }
        guards.figures.published += wills.len() as u64;
        guards.note_published(node, numbers);
        for (_, guarded) in wills {
            self.publish_guarded(now, guarded, actions);
        }
    }

    /// Publishes a will whose session is not here, if its client may.
    pub(super) fn publish_guarded(&mut self, now: Now, guarded: Guarded, actions: &mut Vec<Action>) {
        let Guarded {
            client_id,
            owner,
            will,
            ..
        } = guarded;
        if !self.may_will_of(&client_id, owner.as_ref(), &will) {
            let principal = owner.and_then(|owner| owner.principal);
            return self.deny_gone((client_id, principal), Right::Will, will.topic.as_str(), actions);
        }
        let message = Message::from_will(will, None, now).counted(&self.memory.messages);
        let due = DueWill {
            session: None,
            message: Arc::new(message),
        };
        self.publish_will(now, due, actions);
    }
}

impl Guards {
    /// A node says anew what this one is to guard.
    fn begin(&mut self, node: NodeId) {
        let wills = self.guarded.get_mut(&node).into_iter().flatten();
        wills.for_each(|(_, guarded)| guarded.is_confirmed = false);
    }

    /// It has said all. What is of its earlier runs is still to be published.
    fn release_unconfirmed(&mut self, node: NodeId, incarnation: u32) {
        let Some(wills) = self.guarded.get_mut(&node) else {
            return;
        };
        let first = SessionNumber(u64::from(incarnation) << 32);
        let released = wills.extract_if(first.., |_, guarded| !guarded.is_confirmed);
        self.bytes -= released.map(|(_, guarded)| guarded.size()).sum::<u64>();
        self.forget_if_empty(node);
    }

    /// A node has started anew: the connections of its earlier runs are gone.
    fn end_runs_before(&mut self, now: Now, node: NodeId, incarnation: u32) {
        let first = SessionNumber(u64::from(incarnation) << 32);
        if let Some(published) = self.published.get_mut(&node) {
            *published = published.split_off(&first);
        }
        let is_any = self
            .guarded
            .get(&node)
            .is_some_and(|wills| wills.range(..first).next().is_some());
        if is_any {
            self.publish_up_to(now, node, SessionNumber(first.0 - 1));
        }
    }

    /// Publishes the wills of nodes that are not in the cluster any more.
    fn note_nodes(&mut self, now: Now, is_known: impl Fn(NodeId) -> bool) {
        let gone: Vec<NodeId> = self
            .guarded
            .keys()
            .copied()
            .filter(|node| !is_known(*node))
            .collect();
        for node in gone {
            self.publish_up_to(now, node, SessionNumber(u64::MAX));
        }
        self.published
            .retain(|node, _| is_known(*node) || self.guarded.contains_key(node));
    }

    fn publish_up_to(&mut self, now: Now, node: NodeId, last: SessionNumber) {
        let wills = self.guarded.get(&node);
        // Those that it tells of later are those of a node that is there.
        let last = wills.and_then(|wills| wills.range(..=last).next_back());
        if let Some((last, _)) = last {
            let up_to = self.lost.entry(node).or_insert(*last);
            *up_to = (*up_to).max(*last);
            self.go_on_at = Some(now.instant);
        }
    }

    /// Takes out some wills of a node.
    fn take_up_to(&mut self, node: NodeId, last: SessionNumber) -> Vec<(SessionNumber, Guarded)> {
        let Some(wills) = self.guarded.get_mut(&node) else {
            return Vec::new();
        };
        let taken: Vec<_> = wills
            .extract_if(..=last, |_, _| true)
            .take(PUBLISHED_AT_ONCE_MAX)
            .collect();
        self.bytes -= taken.iter().map(|(_, guarded)| guarded.size()).sum::<u64>();
        self.forget_if_empty(node);
        taken
    }

    fn let_go(&mut self, node: NodeId, numbers: &[SessionNumber]) {
        let Some(wills) = self.guarded.get_mut(&node) else {
            return;
        };
        let released = numbers.iter().filter_map(|number| wills.remove(number));
        self.bytes -= released.map(|guarded| guarded.size()).sum::<u64>();
        self.forget_if_empty(node);
    }

    fn forget_if_empty(&mut self, node: NodeId) {
        if self.guarded.get(&node).is_some_and(BTreeMap::is_empty) {
            self.guarded.remove(&node);
        }
    }

    /// Those of these wills of a node that were published.
    fn published_of(&self, node: NodeId, numbers: &[SessionNumber]) -> Vec<SessionNumber> {
        let published = self.published.get(&node);
        let is_published = |number: &&SessionNumber| published.is_some_and(|all| all.contains(number));
        numbers.iter().filter(is_published).copied().collect()
    }

    /// A node knows that they were published, and whether they still count for it.
    fn forget_published(&mut self, node: NodeId, numbers: &[SessionNumber]) {
        if let Some(published) = self.published.get_mut(&node) {
            numbers.iter().for_each(|number| {
                published.remove(number);
            });
            if published.is_empty() {
                self.published.remove(&node);
            }
        }
    }

    fn note_published(&mut self, node: NodeId, numbers: Vec<SessionNumber>) {
        let published = self.published.entry(node).or_default();
        published.extend(numbers);
        let latest = published.last().map(|number| run_of(*number)).unwrap_or_default();
        *published = published.split_off(&SessionNumber(u64::from(latest) << 32));
        while published.len() > PUBLISHED_MAX {
            published.pop_first();
        }
    }
}
