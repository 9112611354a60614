//! When the holder of a session is lost, the first owner goes on with it; and a node that comes back leaves to others what they have gone on with.

use std::collections::BTreeMap;

use cluster::NodeId;
use mqtt::ids::{QueueSequence, SessionKey, SessionNumber};
use mqtt::now::Now;
use mqtt::{records, will};
use protocol::packet::Disconnect;
use protocol::{ReasonCode, Text};

use super::messages::CopyMessage;
use super::{Held, StandingBy};
use crate::closing::Ending;
use crate::cluster_records;
use crate::cluster_records::copy::Mark;
use crate::node::{Action, Node, TimerKey};
use crate::routes::LinkChange;
use crate::sessions::{SessionEntry, Taken};

/// Of all packet identifiers.
const GOLDEN_SECTION: u64 = 40_503;

impl Node {
    /// A node is lost: this one goes on with the sessions of which it is the home. Before, nothing of them is in the index of
    /// subscriptions; after, all is.
    pub(crate) fn take_over_from(&mut self, now: Now, lost: NodeId, actions: &mut Vec<Action>) {
        let latest = self.sessions.next_number();
        if let Some(copies) = &mut self.copies {
            copies.losses.note(lost, latest);
        }
        // Nobody waits for its copies any more, from this moment on.
        self.note_link_of_copies(lost, LinkChange::Lost);
        self.take_over_orphans(now, actions);
        self.note_orphans(lost);
    }

    /// Goes on with the sessions that were held by nodes that are lost, and of which this node is the first owner now.
    pub(super) fn take_over_orphans(&mut self, now: Now, actions: &mut Vec<Action>) {
        let (Some(copies), Some(states)) = (&self.copies, &self.states) else {
            return;
        };
        let own = Some(copies.own.node);
        let due = copies.standing_by.iter().filter(|(client_id, copy)| {
            self.is_orphan(copy) && states.primary().home(client_id.as_bytes()) == own
        });
        let due: Vec<Text> = due.map(|(client_id, _)| client_id.clone()).collect();
        self.go_on_with(now, &due, actions);
    }

    /// Whether a durable session of a client runs here.
    pub fn holds(&self, client_id: &str) -> bool {
        let key = self.sessions.find(client_id);
        let entry = key.and_then(|key| self.sessions.get(key));
        entry.is_some_and(|entry| entry.session.is_durable())
    }

    /// Whether this node has a whole copy of a client's session.
    pub fn has_copy(&self, client_id: &str) -> bool {
        self.holder_of_copy(client_id).is_some()
    }

    /// Which node holds a client's session, if this one has a whole copy of it.
    pub(crate) fn holder_of_copy(&self, client_id: &str) -> Option<NodeId> {
        let copy = self.copies.as_ref()?.standing_by.get(client_id)?;
        copy.is_whole().then_some(copy.holder.node)
    }

    /// Whether this node has a whole copy of a client's session, whose holder is lost.
    pub(crate) fn has_orphan(&self, client_id: &str) -> bool {
        let copies = self.copies.as_ref();
        let copy = copies.and_then(|copies| copies.standing_by.get(client_id));
        copy.is_some_and(|copy| self.is_orphan(copy))
    }

    /// Goes on with a session whose holder is lost, although this node is not its first owner. False if it has no copy of it that is whole.
    pub(crate) fn stand_up_orphan(&mut self, now: Now, client_id: &Text, actions: &mut Vec<Action>) -> bool {
        let has_it = self.has_orphan(client_id);
        if has_it {
            self.go_on_with(now, std::slice::from_ref(client_id), actions);
        }
        has_it
    }

    /// Whether a copy may be the session from here on.
    fn is_orphan(&self, copy: &StandingBy) -> bool {
        copy.is_whole()
            && (self.is_lost(copy.holder.node) || self.is_left_alone(copy))
            // A session that ends with its connection, or one that began while nobody knew better.
            && self.sessions.find(&copy.session.client_id).is_none()
    }

    fn go_on_with(&mut self, now: Now, client_ids: &[Text], actions: &mut Vec<Action>) {
        if client_ids.is_empty() {
            return;
        }
        let late = self.late_messages();
        let mut sessions = BTreeMap::new();
        for client_id in client_ids {
            let copies = self.copies.as_ref();
            let since = copies.and_then(|copies| copies.orphans.since(client_id));
            self.stand_up_as(now, client_id, actions);
            sessions.extend(self.sessions.find(client_id).zip(since));
        }
        self.deliver_late(now, &sessions, late, actions);
    }

    fn stand_up_as(&mut self, now: Now, client_id: &Text, actions: &mut Vec<Action>) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &self.peers) else {
            return;
        };
        let at = copies.orphans.lost_after(client_id);
        let Some(copy) = copies.standing_by.get(client_id) else {
            return;
        };
        let origins = copies.take_origins((copy.holder.node, copy.number_there));
        let Some(copy) = copies.remove_copy(client_id) else {
            return;
        };
        let at = at.or_else(|| peers.lost_after(copy.holder.node));
        let taken = Taken {
            had: Some(copies.positions_of(&copy)),
            from: copy.holder,
            at,
            through: copies.came_through(&copy, |node| peers.lost_after(node)),
        };
        self.stand_up(now, (copy, origins), taken, actions);
    }

    /// How many sequences this node leaves out when it goes on with a session: each node another number, also of a few times. Multiples of the golden section are far apart.
    fn left_to_others(&self) -> u64 {
        let own = self.copies.as_ref().map(|copies| copies.own.node);
        let nodes = self
            .control
            .iter()
            .flat_map(|control| control.control().nodes().keys());
        let before = nodes.filter(|node| Some(**node) < own).count() as u64;
        (before + 1) * GOLDEN_SECTION % QueueSequence::PACKET_IDS
    }

    /// A copy is the session from here on.
    fn stand_up(
        &mut self,
        now: Now,
        (copy, origins): (StandingBy, Option<Box<[Mark]>>),
        taken: Taken,
        actions: &mut Vec<Action>,
    ) {
        let StandingBy {
            mut session,
            record,
            mut due,
            clock,
            number_there,
            ..
        } = copy;
        let left_out = self.left_to_others();
        let (Some(record), Some(copies)) = (record, &mut self.copies) else {
            return;
        };
        session.stand_up(&record);
        let (number, client_id) = (session.number, session.client_id.clone());
        let mut held = Held {
            taken_from: Some(taken.from),
            marks: Some(Box::default()),
            received: session.received.iter().collect(),
            origins,
            ..Held::new(client_id.clone(), clock)
        };
        let mark = Mark {
            node: taken.from.node,
            number: Some(number_there),
            next_sequence: session.next_sequence(),
        };
        held.part(mark, false);
        held.part_with_copy(mark.node, &copies.losses);
        session.leave_to_others(left_out);
        // From here on it is another one than what its holder may come back with.
        held.count_on(copies.own, number);
        copies.held.insert(number, held);
        copies.begin_visit();
        copies.figures.taken_over += 1;
        let is_over = record.is_over(now.wall);
        let filters: Vec<_> = session
            .filters
            .iter()
            .map(|(filter, subscription)| (filter.clone(), *subscription))
            .collect();
        let entry = SessionEntry {
            taken: Some(Box::new(taken)),
            ..SessionEntry::recovered(session, record)
        };
        let key = self.sessions.insert(&client_id, entry);
        for (filter, subscription) in filters {
            let place = due.remove(&filter);
            self.join_from(key, filter, (subscription, place));
        }
        self.recover_session(now, key, actions);
        if is_over {
            self.discard_session(now, key, actions);
        }
    }

    /// Another node has gone on with a session of this one: it is that node's. Nobody hears of its end here, and its will is that node's business.
    pub(super) fn supersede(&mut self, now: Now, number: SessionNumber, actions: &mut Vec<Action>) {
        let Some(copies) = &mut self.copies else { return };
        let Some(held) = copies.remove_held(number) else {
            return;
        };
        copies.figures.superseded += 1;
        if let Some(peers) = &mut self.peers {
            for owner in &held.owners {
                copies.tell(peers, owner.node, &CopyMessage::Drop(number));
            }
        }
        self.end_awaited();
        let key = self.sessions.find(&held.client_id);
        let Some(key) = key.filter(|key| {
            let entry = self.sessions.get(*key);
            entry.is_some_and(|entry| entry.session.number == number)
        }) else {
            return;
        };
        self.end_for_other_node(now, key, actions);
        self.timers.cancel(TimerKey::Session(key));
        let Some(mut entry) = self.sessions.retire(key) else {
            return;
        };
        self.leave_all(now, key, std::mem::take(&mut entry.session.filters));
        let own = [
            records::session::remove(&entry.session.client_id),
            cluster_records::copy::remove(number),
        ];
        for write in own.into_iter().chain(records::remove_all(number)) {
            self.commits.write(write);
        }
    }

    /// The session goes on at another node: its client is to connect there, and its will is that node's business.
    pub(super) fn end_for_other_node(&mut self, now: Now, key: SessionKey, actions: &mut Vec<Action>) {
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        entry.will = None;
        if let Some(id) = entry.connection {
            // It does not end with its connection here.
            let expiry = std::mem::replace(&mut entry.expiry, u32::MAX);
            let (reason, why) = (
                ReasonCode::SessionTakenOver,
                "the session goes on at another node",
            );
            self.report_disconnect(id, None, (reason, why), actions);
            let disconnect = Disconnect {
                explanation: self.explain(id, why),
                ..Disconnect::new(reason)
            };
            self.send_disconnect(now, id, disconnect, actions);
            actions.push(Action::Close { connection: id });
            self.connection_ended(now, id, Ending::Normal, actions);
            if let Some(entry) = self.sessions.get_mut(key) {
                entry.expiry = expiry;
            }
        }
        self.will_step(now, will::Event::Elsewhere { session: key }, actions);
    }
}
