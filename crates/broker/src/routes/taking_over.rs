//! A node is lost: this one goes on with some of its sessions, and sends what was on its way there to the others.

use std::sync::Arc;

use cluster::NodeId;

use super::losses::{Lost, Postponed};
use super::messages::Redirected;
use super::{LinkChange, WaitId};
use crate::ids::SessionKey;
use crate::memory::MemoryLevel;
use crate::message::Message;
use crate::node::{Action, Node};
use crate::now::Now;
use crate::publishing::Keeping;
use crate::records::forwarded::{self, Position};
use crate::routing::RouteScratch;
use crate::session::DropCause;
use crate::sessions::Taken;
use crate::waiting::Waiter;

/// From where messages for other nodes come: a node, in one of its runs.
type Origin = (NodeId, u32);

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
        let kept = peers.redirect(lost);
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
        let Some(peers) = self.peers.as_ref().filter(|peers| peers.node != lost.node) else {
            return;
        };
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
            peers.is_aware(from, lost.node);
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
            peers.is_aware(from, lost);
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
            LinkChange::Lost | LinkChange::Started => peers.forget_heir(node),
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
        let mut scratch = std::mem::take(&mut self.routes);
        scratch.elsewhere.clear();
        self.find_routes(&message, &mut scratch);
        scratch
            .routes
            .retain(|route| self.lacks(route.session, origin, &redirected.came_by));
        if self.memory.level > MemoryLevel::Normal && self.lacks_memory_for(&message, &scratch.routes) {
            self.drop_waiting(&mut scratch);
        }
        self.deliver_to_routes(now, Arc::new(message), scratch, Keeping::Durable, actions);
    }

    /// Leaves out the sessions for which a message comes once more.
    pub(crate) fn leave_out_taken(&self, from: NodeId, scratch: &mut RouteScratch) {
        let Some(peers) = self.peers.as_ref().filter(|peers| peers.may_come_again()) else {
            return;
        };
        scratch.routes.retain(|route| {
            let taken = self.taken(route.session);
            taken.is_none_or(|taken| {
                let lost = [taken.at_loss_of, taken.from.node];
                !lost.into_iter().any(|lost| peers.comes_again(from, lost))
            })
        });
    }

    /// Whether a session was taken over from one of these nodes, and the copy did not have what that node was sent under this number.
    fn lacks(&self, key: SessionKey, origin: Origin, came_by: &[(NodeId, u64)]) -> bool {
        let Some(taken) = self.taken(key) else {
            return false;
        };
        let latest = came_by.last().map(|(lost, _)| *lost);
        // Whoever had lost the other node before has not given it to that one, from where it would come once more.
        let is_direct = latest == Some(taken.from.node)
            && self
                .peers
                .as_ref()
                .is_some_and(|peers| !peers.comes_again(origin.0, taken.at_loss_of));
        let is_of_this_loss = latest == Some(taken.at_loss_of) || is_direct;
        // Whom it was for in the first place: the node that it was sent to first, and those whose loss that one was told of before. To the others it was given for
        // the sessions of these.
        let is_before = |(_, number): &&(NodeId, u64)| *number == u64::MAX;
        let before = came_by.iter().take_while(is_before).count();
        let mut first = came_by.iter().take(before + 1);
        let of_holder = first.find(|(lost, _)| *lost == taken.from.node);
        let Some((holder, number)) = of_holder.filter(|_| is_of_this_loss) else {
            return false;
        };
        let had = self.taken_by(*holder, origin.0);
        had.is_none_or(|had| {
            had < Position {
                incarnation: origin.1,
                number: *number,
            }
        })
    }

    /// From where a session was taken over, at the latest loss of that node.
    fn taken(&self, key: SessionKey) -> Option<&Taken> {
        let taken = self.sessions.get(key)?.taken.as_ref()?;
        let finds = self.peers.as_ref()?.finds_before(taken.at_loss_of);
        (taken.finds == finds).then_some(taken)
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
