//! A node is lost: this one goes on with some of its sessions, and sends what was on its way there to the others.

use std::sync::Arc;

use cluster::NodeId;
use cluster::session_plane::announcement::Word;
use mqtt::ids::SessionKey;
use mqtt::memory::MemoryLevel;
use mqtt::message::Message;
use mqtt::now::Now;
use mqtt::origin::Position;
use mqtt::session::DropCause;
use smallvec::SmallVec;

use super::losses::{Lost, Postponed};
use super::messages::Redirected;
use super::told::Telling;
use super::{LinkChange, WaitId};
use crate::cluster_records::forwarded;
use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::routing::RouteScratch;
use crate::sessions::Taken;
use crate::waiting::Waiter;

/// From where messages for other nodes come: a node, in one of its runs.
type Origin = (NodeId, u32);

/// On which way a message has come, for sessions that were taken over.
#[derive(Debug, Clone)]
pub(crate) enum Came {
    /// As one for this node; `not_for`: for the sessions that were taken over from these, at these losses or later ones, it comes once more.
    Directly { not_for: SmallVec<[(NodeId, Word); 1]> },
    /// It was on its way to a lost node, or to several, one after the other.
    Again {
        /// Who has sent it to them.
        origin: NodeId,
        /// For whose sessions it was in the first place.
        addressed: SmallVec<[NodeId; 1]>,
        /// To which node it was sent first.
        first: Option<NodeId>,
        /// Those of the lost nodes for whose sessions it comes here for the first time.
        holders: SmallVec<[Holder; 1]>,
    },
}

/// A lost node to which a message was on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holder {
    node: NodeId,
    /// What it was among the items for that node.
    position: Position,
    telling: Telling,
}

impl Came {
    /// It was published here.
    pub(crate) fn here() -> Self {
        Self::Directly {
            not_for: SmallVec::new(),
        }
    }
}

impl Node {
    /// A node is lost: what it had goes on at others, as far as they have copies.
    pub(crate) fn lose_node(&mut self, now: Now, lost: Lost, actions: &mut Vec<Action>) {
        let is_new = self.peers.as_mut().is_some_and(|peers| peers.begin_loss(lost));
        if !is_new {
            return;
        }
        // When this is over: so they reach what is taken over, too.
        self.publish_wills_of(now, lost.node, lost.after.run.0);
        let lost = lost.node;
        self.take_over_from(now, lost, actions);
        let Some(peers) = &mut self.peers else { return };
        let own = (peers.node, peers.incarnation);
        let kept = peers.redirect(now, lost);
        let mut waits: Vec<WaitId> = Vec::new();
        for kept in kept {
            let message = decoded(kept.body, (kept.since, now));
            let redirected = Redirected {
                came_by: kept.came_by,
                message,
            };
            self.take_redirected(now, own, redirected, actions);
            waits.extend(kept.waits);
        }
        if !waits.is_empty() {
            self.after_own_writes(now, Waiter::Over(waits), actions);
        }
        self.end_losses(now, actions);
    }

    /// Another node has lost one.
    pub(super) fn hear_of_loss(&mut self, now: Now, from: NodeId, lost: Lost, actions: &mut Vec<Action>) {
        let Some(peers) = self.peers.as_mut().filter(|peers| peers.node != lost.node) else {
            return;
        };
        if !peers.is_known_loss(lost) {
            peers.go_on_without_silent(from);
            self.note_links(now, actions);
        }
        let Some(peers) = &self.peers else { return };
        if !peers.is_known_loss(lost) {
            self.hear_of_lost_state(now, lost.node, actions);
            // Also if it was not known to be there.
            self.lose_node(now, lost, actions);
        }
        let is_there = self
            .states
            .as_ref()
            .is_some_and(|states| states.is_there(lost.node));
        if let Some(peers) = &mut self.peers {
            if is_there {
                // It was dead for this node, and is counted on again, both in this moment.
                peers.find_again(lost.node);
            }
            peers.losses.told.hear(from, lost);
            peers.say_taken_over(from, lost.node);
        }
    }

    /// Another node goes on with what it is to of a lost node.
    pub(super) fn hear_of_takeover(
        &mut self,
        now: Now,
        from: NodeId,
        lost: NodeId,
        actions: &mut Vec<Action>,
    ) {
        if let Some(peers) = &mut self.peers {
            // Its own word of the loss may have been given up with this node.
            peers.losses.told.forget_unaware(from, lost);
            peers.has_taken_over(from, lost);
        }
        self.end_losses(now, actions);
    }

    /// Takes note of what becomes of a link.
    pub(super) fn note_link_of_losses(
        &mut self,
        now: Now,
        (node, change): (NodeId, LinkChange),
        actions: &mut Vec<Action>,
    ) {
        let Some(peers) = &mut self.peers else { return };
        match change {
            LinkChange::Lost | LinkChange::Started => peers.forget_heir(node, change == LinkChange::Started),
            LinkChange::Reached => return peers.begin_return(node),
            // It had given this node up, and what it was about to say of losses is gone.
            LinkChange::Asked => return peers.say_lost_again(node),
            _ => return,
        }
        self.end_losses(now, actions);
    }

    /// Gives a message to the sessions that were taken over and have not got it yet.
    pub(super) fn take_redirected(
        &mut self,
        now: Now,
        origin: Origin,
        redirected: Redirected,
        actions: &mut Vec<Action>,
    ) {
        let message = redirected.message.counted(&self.memory.messages);
        let came = self.came_again(origin, &redirected.came_by);
        let message = Arc::new(message);
        self.keep_late(&message, &came);
        self.deliver_to_lacking(now, message, |node, key| node.is_for_taken(key, &came), actions);
    }

    /// Gives a message that others have had before to those sessions here that lack it.
    pub(super) fn deliver_to_lacking(
        &mut self,
        now: Now,
        message: Arc<Message>,
        lacks: impl Fn(&Self, SessionKey) -> bool,
        actions: &mut Vec<Action>,
    ) {
        let mut scratch = std::mem::take(&mut self.routes);
        scratch.elsewhere.clear();
        self.find_routes(&message, &mut scratch);
        scratch.routes.retain(|route| lacks(self, route.session));
        if self.memory.level > MemoryLevel::Normal && self.lacks_memory_for(&message, &scratch.routes) {
            self.drop_waiting(&mut scratch);
        }
        self.deliver_to_routes(now, message, scratch, Keeping::Durable, actions);
    }

    /// From what a message comes that was on its way to lost nodes.
    fn came_again(&mut self, (origin, incarnation): Origin, came_by: &[(NodeId, u64)]) -> Came {
        let is_before = |(_, number): &&(NodeId, u64)| *number == u64::MAX;
        let before = came_by.iter().take_while(is_before).count();
        let addressed = came_by.iter().take(before + 1).map(|(lost, _)| *lost);
        let mut holders = SmallVec::new();
        for (lost, number) in came_by.iter().skip(before).copied() {
            let position = Position { incarnation, number };
            let Some(peers) = &mut self.peers else { continue };
            let telling = peers.losses.told.telling(origin, lost);
            if peers.losses.told.comes_first((lost, origin), position)
                && let Some(telling) = telling
            {
                holders.push(Holder {
                    node: lost,
                    position,
                    telling,
                });
            }
        }
        Came::Again {
            origin,
            addressed: addressed.collect(),
            first: came_by.get(before).map(|(lost, _)| *lost),
            holders,
        }
    }

    /// What a message that comes from a node directly is, for sessions that were taken over.
    pub(crate) fn came_directly(&self, from: NodeId) -> Came {
        let peers = self.peers.as_ref();
        Came::Directly {
            not_for: peers.map_or_else(SmallVec::new, |peers| peers.losses.told.unknown_to(from)),
        }
    }

    /// Leaves out the sessions for which a message that has come directly comes once more.
    pub(crate) fn leave_out_taken(&self, came: &Came, scratch: &mut RouteScratch) {
        if matches!(came, Came::Directly { not_for } if not_for.is_empty()) {
            return;
        }
        scratch.routes.retain(|route| {
            let entry = self.sessions.get(route.session);
            let taken = entry.and_then(|entry| entry.taken.as_deref());
            taken.is_none_or(|taken| self.is_for(taken, came))
        });
    }

    /// Whether a message is for a session as one that was taken over.
    pub(crate) fn is_for_taken(&self, key: SessionKey, came: &Came) -> bool {
        let entry = self.sessions.get(key);
        let taken = entry.and_then(|entry| entry.taken.as_deref());
        taken.is_some_and(|taken| self.is_for(taken, came))
    }

    /// Whether this node goes on with a session that one of these held last.
    pub(super) fn has_taken_over(&self, key: SessionKey, lost: &[NodeId]) -> bool {
        let entry = self.sessions.get(key);
        let taken = entry.and_then(|entry| entry.taken.as_deref());
        taken.is_some_and(|taken| lost.contains(&taken.from.node))
    }

    fn is_for(&self, taken: &Taken, came: &Came) -> bool {
        let from = taken.from.node;
        match came {
            Came::Directly { not_for } => {
                let mut unknown = not_for.iter().filter(|(lost, _)| *lost == from);
                !unknown.any(|(_, first)| taken.is_taken_since(*first))
            }
            Came::Again {
                origin,
                addressed,
                first,
                holders,
            } => {
                let Some(holder) = holders.iter().find(|holder| holder.node == from) else {
                    return false;
                };
                let had = match &taken.had {
                    Some(had) => had.get(origin).copied(),
                    None => self.taken_by(from, *origin),
                };
                let lacks = had.is_none_or(|had| had < holder.position);
                // To whoever was lost later it was given for the sessions of those that it was for in the first place.
                let is_own = *first == Some(from);
                let is_theirs = || taken.through.iter().any(|node| addressed.contains(node));
                lacks && taken.is_told_by(holder.telling) && (is_own || is_theirs())
            }
        }
    }

    /// What could not be given to a share until everybody had taken over finds somebody now.
    fn end_losses(&mut self, now: Now, actions: &mut Vec<Action>) {
        let postponed = self.peers.as_mut().map(|peers| peers.end_losses());
        for postponed in postponed.into_iter().flatten() {
            self.share_postponed(now, postponed, actions);
        }
    }

    fn share_postponed(&mut self, now: Now, postponed: Postponed, actions: &mut Vec<Action>) {
        let Postponed {
            since,
            body,
            filter,
            point,
            waits,
        } = postponed;
        let message = decoded(body, (since, now)).counted(&self.memory.messages);
        let mut scratch = RouteScratch::default();
        if !self.choose_for_share(&message, &filter, (point, None), &mut scratch) {
            self.counters.dropped.count(DropCause::NoSharer);
        }
        let again = self.forward_on(now, &message, &mut scratch.elsewhere, !waits.is_empty());
        self.deliver_chosen(now, message, scratch, actions);
        self.after_own_writes(now, Self::after(again, Waiter::Over(waits)), actions);
    }
}

/// A message that this node has encoded.
fn decoded(body: bytes::Bytes, (since, now): (Option<std::time::Instant>, Now)) -> Message {
    let waited = since.map_or_else(Default::default, |since| {
        now.instant.saturating_duration_since(since)
    });
    forwarded::decode(body, waited, now).expect("this node has encoded it")
}
