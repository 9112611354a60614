//! What becomes of what was on its way to a node that is lost.
//!
//! Others go on with the durable sessions of that node. Which sessions which of them takes over it alone knows; so each gets every message, and gives it to the sessions
//! that it has taken over and whose copies do not have it yet. Nothing is lost, doubled or out of order for a session, because all nodes say so in the same order to each other:
//!
//! ```text
//! lost          what I sent you before was not for sessions that you take over from that node
//! (add ...)     what the sessions want that I have taken over
//! taken over    I have them all: from here on send me what they want as you do for others
//! redirected    what was on its way to the lost node
//! ```
//!
//! What comes from a node before its "lost" is for no session that was taken over from that node: it comes once more, redirected. Who hears "lost" has lost the node as
//! well, at once. Until a node has said "taken over", it gets also what the lost node would have got.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cluster::NodeId;
use cluster::session_plane::announcement::Word;
use mqtt::now::Now;
use mqtt::origin::Slots;
use mqtt::subscriptions::Point;
use protocol::topic::SubscriptionFilter;

use super::messages::{self, CameBy, TAKEN_OVER};
use super::table::Slot;
use super::told::Told;
use super::{Routes, WaitId};

/// A node that is lost, after this word of it. Whoever hears of the same loss again, from others, knows by that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lost {
    pub(crate) node: NodeId,
    pub(crate) after: Word,
}

/// Nodes that are lost.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// After which word each was lost that was.
    lost: BTreeMap<NodeId, Word>,
    /// Those whose sessions not all others have taken over yet.
    open: Vec<Loss>,
    /// Who has told of which.
    pub(super) told: Told,
}

#[derive(Debug)]
struct Loss {
    lost: NodeId,
    slot: Slot,
    /// Who has not taken over yet.
    pending: BTreeSet<NodeId>,
    postponed: Vec<Postponed>,
}

/// A message of a share that had nobody else so far.
#[derive(Debug)]
pub(super) struct Postponed {
    pub(super) since: Option<Instant>,
    pub(super) body: Bytes,
    pub(super) filter: Arc<SubscriptionFilter>,
    pub(super) point: Option<Point>,
    /// Of each of these it is one that is not over.
    pub(super) waits: Vec<WaitId>,
}

/// A message that was on its way to a lost node.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) since: Option<Instant>,
    pub(super) body: Bytes,
    pub(super) came_by: CameBy,
    /// One of each is this node's.
    pub(super) waits: Vec<WaitId>,
}

impl Routes {
    /// A node is lost, and everybody is told. False if that is known.
    pub(super) fn begin_loss(&mut self, Lost { node: lost, after }: Lost) -> bool {
        let slot = self.slots.get(&lost).copied();
        let Some(slot) = slot.filter(|_| !self.is_known_loss(Lost { node: lost, after })) else {
            return false;
        };
        self.losses.lost.insert(lost, after);
        // From here on it is told nothing, and nobody begins to wait for it.
        self.links[slot].lose();
        self.note_different(slot, Lost { node: lost, after });
        self.begin_to_owe(slot);
        let others: BTreeSet<NodeId> = self.reached().filter(|node| *node != lost).collect();
        let said = messages::lost_item(Lost { node: lost, after });
        for node in &others {
            if let Some(slot) = self.slots.get(node) {
                let link = &mut self.links[*slot];
                let number = link.outbox.push_loss(said.clone());
                link.losses_said.insert(lost, number);
            }
        }
        let all = self.links.iter().map(|(_, link)| link.node);
        let all = all.filter(|node| *node != lost);
        self.losses.told.tell(self.node, Lost { node: lost, after }, all);
        let before = self.losses.open.extract_if(.., |loss| loss.slot == slot);
        let postponed = before.flat_map(|loss| loss.postponed).collect();
        self.losses.open.push(Loss {
            lost,
            slot,
            pending: others,
            postponed,
        });
        true
    }

    /// Whether this loss, or a later one of the same node, has been dealt with.
    pub(super) fn is_known_loss(&self, lost: Lost) -> bool {
        let known = self.losses.lost.get(&lost.node);
        known.is_some_and(|known| *known >= lost.after)
    }

    /// A node is told once more of the losses that it has not dealt with, as far as this one knows: it says so again if it has.
    pub(super) fn say_lost_again(&mut self, to: NodeId) {
        let waited_for = self.losses.open.iter().filter(|loss| loss.pending.contains(&to));
        for node in waited_for.map(|loss| loss.lost) {
            if let (Some(slot), Some(after)) = (self.slots.get(&to), self.losses.lost.get(&node)) {
                let said = messages::lost_item(Lost { node, after: *after });
                self.links[*slot].outbox.push_loss(said);
            }
        }
    }

    /// Tells a node that this one has taken over what it is to.
    pub(super) fn say_taken_over(&mut self, to: NodeId, lost: NodeId) {
        self.say(to, TAKEN_OVER, messages::node_item(lost));
    }

    /// This node has taken over what it is to. Gives what was on its way to the lost node to the others, and to the caller.
    pub(super) fn redirect(&mut self, now: Now, lost: NodeId) -> Vec<Kept> {
        let Some(at) = self.losses.open.iter().position(|loss| loss.lost == lost) else {
            return Vec::new();
        };
        let slot = self.losses.open[at].slot;
        let heirs: Vec<NodeId> = self.losses.open[at].pending.iter().copied().collect();
        for node in &heirs {
            self.say_taken_over(*node, lost);
        }
        let (kept, postponed) = self.keep(slot, lost);
        for kept in &kept {
            for node in &heirs {
                self.pass_on(*node, kept);
            }
        }
        if self.owed.is_to(slot) {
            self.owe_kept(now, lost, &kept);
        }
        self.pass_on_owed(now, slot, &heirs);
        self.figures.redirected += kept.len() as u64;
        self.wait_for_others_instead(slot);
        self.losses.open[at].postponed.extend(postponed);
        self.note_redirected(slot, &heirs);
        self.links[slot].give_up(&mut self.over);
        self.end_waits();
        kept
    }

    /// Who has waited for a copy at a node that is lost waits for all others to know that it is. Else this node could say "done" because of that, and be lost as well; and those
    /// who know nothing of it would let the lost one, if it comes back, go on from its copy.
    fn wait_for_others_instead(&mut self, slot: Slot) {
        for wait in self.links[slot].outbox.disk_waits() {
            self.wait_for_losses(wait);
        }
    }

    /// Lets somebody wait until all nodes that are reached know of all losses.
    pub(crate) fn wait_for_losses(&mut self, wait: WaitId) {
        for (_, link) in self.links.iter_mut().filter(|(_, link)| link.is_reached) {
            link.outbox.wait_for_losses(wait, &mut self.waits);
        }
    }

    /// Whether everybody has dealt with the loss of a node, or it was never heard of.
    pub(super) fn is_loss_over(&self, node: NodeId) -> bool {
        let link = self.slots.get(&node).map(|slot| &self.links[*slot]);
        let is_lost = link.is_none_or(|link| link.is_lost || link.incarnation.is_none());
        is_lost && self.losses.open.iter().all(|loss| loss.lost != node)
    }

    /// After which word a node was lost that was.
    pub(crate) fn lost_after(&self, node: NodeId) -> Option<Word> {
        self.losses.lost.get(&node).copied()
    }

    /// What was on its way to a node that is lost. Whoever waits for it waits for the caller.
    fn keep(&mut self, slot: Slot, lost: NodeId) -> (Vec<Kept>, Vec<Postponed>) {
        let (mut kept, mut postponed) = (Vec::new(), Vec::new());
        let link = &self.links[slot];
        for (item, waits) in link.outbox.messages() {
            let hold =
                |waits: &[WaitId], all: &mut super::Waits| waits.iter().for_each(|wait| all.add(*wait));
            if item.is_for_subscriptions() {
                hold(&waits, &mut self.waits);
                kept.push(Kept {
                    since: item.since,
                    body: item.body.clone(),
                    came_by: item.came_by(lost, &link.losses_said),
                    waits: waits.clone(),
                });
            }
            for (filter, point) in &item.shares {
                hold(&waits, &mut self.waits);
                postponed.push(Postponed {
                    since: item.since,
                    body: item.body.clone(),
                    filter: Arc::clone(filter),
                    point: *point,
                    waits: waits.clone(),
                });
            }
        }
        (kept, postponed)
    }

    fn pass_on(&mut self, to: NodeId, kept: &Kept) {
        let Some(slot) = self.slots.get(&to) else { return };
        let outbox = &mut self.links[*slot].outbox;
        outbox.push_redirected(kept.since, kept.body.clone(), kept.came_by.clone());
        for wait in &kept.waits {
            outbox.wait_for_message(*wait, &mut self.waits);
        }
    }

    /// A node has taken over what it is to.
    pub(super) fn has_taken_over(&mut self, node: NodeId, lost: NodeId) {
        for loss in self.losses.open.iter_mut().filter(|loss| loss.lost == lost) {
            loss.pending.remove(&node);
        }
    }

    /// A node takes nothing over any more: it is lost itself, or has started anew.
    pub(super) fn forget_heir(&mut self, node: NodeId, has_started: bool) {
        for loss in &mut self.losses.open {
            loss.pending.remove(&node);
        }
        let Losses { told, lost, .. } = &mut self.losses;
        if has_started {
            told.forget_run(node, lost);
        } else {
            told.forget(node, lost);
        }
    }

    /// A node is reached again.
    pub(super) fn begin_return(&mut self, node: NodeId) {
        if let Some(slot) = self.slots.get(&node) {
            let reached_at = self.links[*slot].reached_at;
            self.losses.told.begin_return(node, reached_at);
        }
    }

    /// Ends the losses that everybody has dealt with. The lost nodes want nothing any more; says what was postponed.
    pub(super) fn end_losses(&mut self) -> Vec<Postponed> {
        let ended = self.losses.open.extract_if(.., |loss| loss.pending.is_empty());
        let ended: Vec<Loss> = ended.collect();
        for loss in &ended {
            // One that is back meanwhile has said anew what it wants, or will; and others may want it still.
            if !self.links[loss.slot].is_reached && !self.owed.is_to(loss.slot) {
                self.table.forget(loss.slot);
            }
        }
        ended.into_iter().flat_map(|loss| loss.postponed).collect()
    }

    /// A lost node is counted on again.
    pub(crate) fn find_again(&mut self, node: NodeId) {
        if let Some(slot) = self.slots.get(&node) {
            self.links[*slot].find_again();
        }
        self.look_for_unready();
        for (_, link) in &mut self.links {
            link.losses_said.remove(&node);
        }
    }

    /// Whether a node is lost, or not in the cluster.
    pub(crate) fn has_lost(&self, node: NodeId) -> bool {
        let slot = self.slots.get(&node);
        slot.is_none_or(|slot| self.links[*slot].is_lost)
    }

    /// What is for lost nodes is for those that have not taken over yet.
    pub(super) fn add_heirs(&self, nodes: &mut Slots) {
        for loss in &self.losses.open {
            if *nodes >> loss.slot & 1 == 1 {
                let slots = loss.pending.iter().filter_map(|node| self.slots.get(node));
                slots.for_each(|slot| *nodes |= 1 << slot);
                if !self.owed.is_to(loss.slot) {
                    *nodes &= !(1 << loss.slot);
                }
            }
        }
    }

    /// The place of a loss, if somebody at the lost node takes part in a share: who takes over may take part in it soon.
    pub(super) fn loss_of_sharer(&self, share: u32) -> Option<usize> {
        let sharing = |slot: Slot| self.table.sharing_nodes(share).any(|(of, _)| of == slot);
        self.losses.open.iter().position(|loss| sharing(loss.slot))
    }

    /// Keeps a message of a share until everybody has taken over.
    pub(super) fn postpone(&mut self, loss: usize, postponed: Postponed) {
        self.losses.open[loss].postponed.push(postponed);
    }

    fn say(&mut self, to: NodeId, kind: u8, body: Bytes) {
        if let Some(slot) = self.slots.get(&to) {
            self.links[*slot].outbox.push_other(kind, body);
        }
    }
}
