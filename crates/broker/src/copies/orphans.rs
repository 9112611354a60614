//! Copies whose holder is lost and with which this node does not go on: another one is to.
//!
//! That one may be away just now, or lost next; or it is the first owner and has no copy. So whatever their sessions would get is kept here until they come from whoever has
//! gone on, or until this node goes on with them itself, late: it wants what they want, and remembers what came.
//!
//! *Invariant*: a copy whose holder was lost never goes back to that holder as if nothing had come meanwhile. If nobody else has gone on with it, this node does when the holder
//! offers it, and the two sessions merge. The holder relies on that: it leaves out what a side is owed to it where that side had a copy (`apart.rs`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::Actor;
use cluster::session_plane::announcement::Word;
use mqtt::ids::SessionKey;
use mqtt::message::Message;
use mqtt::now::Now;
use protocol::Text;
use protocol::packet::QoS;
use protocol::topic::TopicFilter;

use super::{Copies, Held, StandingBy};
use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::routes::Came;

/// What is known of such copies.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// By client id.
    waiting: BTreeMap<Text, Orphan>,
    /// What those have wanted that are none any more, as long as the other nodes were not told.
    over: Vec<TopicFilter>,
    /// What came since the first of them is one, in its order.
    late: VecDeque<Late>,
    late_bytes: u64,
    /// How many came before the first of those.
    late_gone: u64,
    /// Counts losses.
    losses: u64,
    /// The number of the latest one of each node.
    latest: BTreeMap<NodeId, u64>,
}

/// One of them.
#[derive(Debug)]
struct Orphan {
    /// What its session wants besides shares: in those it takes no part while nobody goes on with it.
    filters: Box<[TopicFilter]>,
    /// How many messages had come when its holder was lost.
    since: u64,
    /// At which loss that was.
    at: Option<Word>,
}

/// A message that came while nobody went on with its sessions here.
#[derive(Debug, Clone)]
pub(super) struct Late {
    message: Arc<Message>,
    came: Came,
}

/// What a message counts for besides its bytes.
const LATE: u64 = 128;

impl Orphans {
    pub(super) fn has(&self, client_id: &str) -> bool {
        self.waiting.contains_key(client_id)
    }

    /// A copy is gone, or is the session now.
    pub(super) fn end(&mut self, client_id: &str) {
        if let Some(orphan) = self.waiting.remove(client_id) {
            self.over.extend(orphan.filters);
        }
        if self.waiting.is_empty() {
            self.late_gone += self.late.len() as u64;
            self.late.clear();
            self.late_bytes = 0;
        }
    }

    /// How many messages had come when the holder of a copy was lost.
    pub(super) fn since(&self, client_id: &str) -> Option<u64> {
        self.waiting.get(client_id).map(|orphan| orphan.since)
    }

    /// How many losses there were.
    pub(super) fn losses(&self) -> u64 {
        self.losses
    }

    /// At which loss of its holder a copy came to be an orphan.
    pub(super) fn lost_after(&self, client_id: &str) -> Option<Word> {
        self.waiting.get(client_id).and_then(|orphan| orphan.at)
    }

    fn push(&mut self, late: Late, (count_max, bytes_max): (usize, u64)) {
        self.late_bytes += size_of(&late);
        self.late.push_back(late);
        while (self.late.len() > count_max || self.late_bytes > bytes_max)
            && let Some(first) = self.late.pop_front()
        {
            self.late_bytes -= size_of(&first);
            self.late_gone += 1;
        }
    }
}

fn size_of(late: &Late) -> u64 {
    LATE + late.message.size() as u64
}

impl Copies {
    /// Through the hands of which nodes that are lost a session came to its holder, at the latest loss of each.
    pub(super) fn came_through(
        &self,
        copy: &StandingBy,
        lost_after: impl Fn(NodeId) -> Option<Word>,
    ) -> Box<[NodeId]> {
        let is_behind = |actor: Actor| {
            let lost_at = self.orphans.latest.get(&actor.node);
            let is_of_run = lost_after(actor.node).is_some_and(|after| after.run == actor.incarnation);
            is_of_run && lost_at.is_some_and(|lost_at| *lost_at <= copy.held_since.1)
        };
        let actors = copy.clock.actors().filter(|actor| actor.node != copy.holder.node);
        let through = actors.filter(|actor| is_behind(*actor));
        through.map(|actor| actor.node).collect()
    }
}

impl Node {
    /// A node is lost: the copies of its sessions that this node does not go on with are orphans.
    pub(super) fn note_orphans(&mut self, lost: NodeId) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) else {
            return;
        };
        copies.orphans.losses += 1;
        copies.orphans.latest.insert(lost, copies.orphans.losses);
        let since = copies.orphans.late_gone + copies.orphans.late.len() as u64;
        let of_lost = copies
            .standing_by
            .iter()
            .filter(|(_, copy)| copy.holder.node == lost && copy.is_whole());
        for (client_id, copy) in of_lost {
            if copies.orphans.has(client_id) || self.sessions.find(client_id).is_some() {
                continue;
            }
            let filters = copy.session.filters.iter();
            let own = filters.filter(|(filter, _)| filter.share.is_none());
            let filters: Box<[TopicFilter]> = own.map(|(filter, _)| filter.filter.clone()).collect();
            filters.iter().for_each(|filter| peers.subscribed(filter));
            let at = peers.lost_after(lost);
            let orphan = Orphan { filters, since, at };
            copies.orphans.waiting.insert(client_id.clone(), orphan);
        }
    }

    /// A node that was lost is counted on again: what it was sent before is with those who have gone on with its sessions.
    pub(crate) fn note_found_again(&mut self, node: NodeId) {
        let Some(copies) = &mut self.copies else { return };
        let is_from = |held: &&mut Held| held.taken_from.is_some_and(|from| from.node == node);
        let mut past = Vec::new();
        for (number, held) in &mut copies.held {
            if is_from(&held) && !std::mem::replace(&mut held.is_past, true) {
                past.push(*number);
            }
        }
        for number in past {
            self.commits.write(copies.record(number));
        }
    }

    /// Tells the others what nobody here wants any more.
    pub(super) fn forget_orphans(&mut self) {
        if let (Some(copies), Some(peers)) = (&mut self.copies, &mut self.peers) {
            for filter in copies.orphans.over.drain(..) {
                peers.unsubscribed(&filter);
            }
        }
    }

    /// Whether nobody is known to have gone on with the session of a copy since its holder was lost, also if that is there again: it lacks what was on its way then.
    pub(super) fn is_left_alone(&self, copy: &StandingBy) -> bool {
        let copies = self.copies.as_ref();
        copies.is_some_and(|copies| copies.orphans.has(&copy.session.client_id))
    }

    /// Goes on with a session that a node offers which held it before it was lost, if nobody has: in any state of this node and of that one. A node of the smaller side
    /// merges at once when it hears that it was given up, and so never goes on with a copy while it is apart.
    pub(super) fn keep_from_former_holder(
        &mut self,
        now: Now,
        (client_id, holder): (&Text, NodeId),
        actions: &mut Vec<Action>,
    ) {
        let copies = self.copies.as_ref();
        let copy = copies.and_then(|copies| copies.standing_by.get(client_id));
        let is_due = copy.is_some_and(|copy| copy.holder.node == holder && self.is_left_alone(copy));
        if is_due {
            self.stand_up_orphan(now, client_id, actions);
        }
    }

    /// Remembers a message for sessions with which this node may have to go on.
    pub(crate) fn keep_late(&mut self, message: &Arc<Message>, came: &Came) {
        let copies = self.copies.as_ref();
        let has_any = copies.is_some_and(|copies| !copies.orphans.waiting.is_empty());
        if !has_any || message.qos == QoS::AtMostOnce {
            return;
        }
        let late = Late {
            message: Arc::new(message.detached()),
            came: came.clone(),
        };
        let routes = &self.config.routes;
        let limits = (routes.messages_max, routes.bytes_max);
        if let Some(copies) = &mut self.copies {
            copies.orphans.push(late, limits);
        }
    }

    /// What came since the first of the copies that are waiting is one of these, and how many had come before.
    pub(super) fn late_messages(&self) -> (u64, VecDeque<Late>) {
        let orphans = self.copies.as_ref().map(|copies| &copies.orphans);
        orphans.map_or_else(Default::default, |orphans| {
            (orphans.late_gone, orphans.late.clone())
        })
    }

    /// Gives it to sessions with which this node goes on only now: to each what came since so many had come.
    pub(super) fn deliver_late(
        &mut self,
        now: Now,
        sessions: &BTreeMap<SessionKey, u64>,
        (gone, late): (u64, VecDeque<Late>),
        actions: &mut Vec<Action>,
    ) {
        for (number, Late { message, came }) in (gone..).zip(late) {
            let mut scratch = std::mem::take(&mut self.routes);
            scratch.elsewhere.clear();
            self.find_routes(&message, &mut scratch);
            scratch.routes.retain(|route| {
                let since = sessions.get(&route.session);
                since.is_some_and(|since| *since <= number) && self.is_for_taken(route.session, &came)
            });
            self.deliver_to_routes(now, message, scratch, Keeping::Durable, actions);
        }
    }
}
