//! What other nodes send.

use std::sync::Arc;

use bytes::Bytes;
use cluster::NodeId;
use mqtt::memory::MemoryLevel;
use mqtt::now::Now;
use mqtt::origin::{Origin, Position};

use super::Routes;
use super::link::Heard;
use super::messages::{self, Answer, Forwarded, Frame, Item, KNOWN};
use super::table::Slot;
use crate::cluster_records;
use crate::invoking::drop_message;
use crate::node::{Action, Node};
use crate::publishing::Keeping;
use crate::routing::route_of_share;
use crate::waiting::Waiter;

impl Routes {
    /// Takes note of what a node wants.
    fn take_route(&mut self, slot: Slot, item: Item) {
        let table = &mut self.table;
        let is_kept = match item {
            Item::Add(filter) => table.add(slot, &filter),
            Item::Share {
                filter,
                connected,
                all,
            } => table.share(slot, &filter, (connected, all)),
            Item::Remove(filter) => {
                table.remove(slot, &filter);
                true
            }
            Item::Begin => {
                table.begin(slot);
                true
            }
            Item::End => {
                table.end(slot);
                self.links[slot].has_said_all(&mut self.over);
                self.note_known(slot);
                let known = messages::known_item(self.links[slot].inbox.taken.number);
                self.links[slot].outbox.push_other(KNOWN, known);
                self.give_owed(slot);
                true
            }
            _ => true,
        };
        self.figures.filters_refused += u64::from(!is_kept);
    }
}

impl Node {
    /// Another node's session plane has something to say.
    pub(crate) fn routes_message(
        &mut self,
        now: Now,
        from: NodeId,
        message: &Bytes,
        actions: &mut Vec<Action>,
    ) {
        let (incarnation, frame) = match messages::decode(message, now) {
            Ok(found) => found,
            Err(error) => return drop_message(from, error, actions),
        };
        self.look_for_nodes(now, actions);
        // A node that is counted on again since the last message may know so already, and say it in this one.
        self.note_links(now, actions);
        let Some(peers) = &mut self.peers else { return };
        // One that is not in the cluster, or not yet, sends again what matters.
        let Some(slot) = peers.slots.get(&from).copied() else {
            return;
        };
        match peers.links[slot].hear(incarnation) {
            Heard::Late => return,
            Heard::Started => peers.look_for_unready(),
            Heard::Known => {}
        }
        let link = &mut peers.links[slot];
        match frame {
            Frame::Probe { number } => link.inbox.probe(number),
            Frame::Items {
                after,
                settled,
                items,
            } => {
                // Of a node that is lost nothing is taken: it goes on at others, and who asks it must not be told "done". It sends it again when it is
                // counted on, if it still says so then. And nothing of one that cannot be answered.
                if link.is_reached && link.inbox.has_all_before(after, settled) {
                    self.take_items(now, slot, items, actions);
                }
            }
            Frame::Loose(messages) => {
                for forwarded in messages {
                    self.take_message(now, slot, (0, forwarded), actions);
                }
            }
            Frame::Answer(answer) => self.take_answer(now, slot, &answer, actions),
        }
        self.go_on_after_nodes(now, actions);
    }

    fn take_answer(&mut self, now: Now, slot: Slot, answer: &Answer, actions: &mut Vec<Action>) {
        let Some(peers) = &mut self.peers else { return };
        if answer.incarnation != peers.incarnation {
            return;
        }
        for (number, share) in &answer.declined {
            self.declined(now, slot, (*number, share), actions);
        }
        let Some(peers) = &mut self.peers else { return };
        let link = &mut peers.links[slot];
        let resent = link.answered(now, peers.config.silence_max, answer);
        link.know(&mut peers.over);
        link.outbox.taken(answer.taken, &mut peers.over);
        link.outbox.on_disk(answer.on_disk, &mut peers.over);
        link.outbox.confirm(answer.durable, &mut peers.over);
        peers.settle_owed(slot);
        peers.figures.resent += resent;
        peers.end_waits();
    }

    /// Takes items that were not taken before; they are confirmed when what they did is on disk.
    fn take_items(&mut self, now: Now, slot: Slot, items: Vec<(u64, Item)>, actions: &mut Vec<Action>) {
        let before = self.commits.mark();
        let mut is_any_new = false;
        for (number, item) in items {
            let Some(peers) = &mut self.peers else { return };
            if !peers.links[slot].inbox.take(number) {
                continue;
            }
            is_any_new = true;
            self.take_item(now, slot, (number, item), actions);
        }
        if !is_any_new {
            return;
        }
        let Some(peers) = &mut self.peers else { return };
        peers.end_waits();
        let link = &mut peers.links[slot];
        link.inbox.begin_writing();
        let (node, position) = (link.node, link.inbox.taken);
        if self.commits.mark() != before {
            // In one batch with what it belongs to: so it is taken once, also over a restart.
            self.commits
                .write(cluster_records::forwarded::put_position(node, position));
        }
        self.after_own_writes(now, Waiter::Taken { node, position }, actions);
        // It may rely on what was written before, and is on disk: then it waits for other nodes alone.
        if let Some(peers) = self.peers.as_mut().filter(|_| self.commits.is_on_disk()) {
            peers.on_disk(node, position);
        }
    }

    fn take_item(&mut self, now: Now, slot: Slot, (number, item): (u64, Item), actions: &mut Vec<Action>) {
        let Some(peers) = &mut self.peers else { return };
        let from = peers.links[slot].node;
        match item {
            Item::Add(_) | Item::Share { .. } | Item::Remove(_) | Item::Begin | Item::End => {
                peers.take_route(slot, item);
            }
            Item::Ask => peers.links[slot].is_asked(),
            Item::Message(forwarded) => self.take_message(now, slot, (number, *forwarded), actions),
            Item::Lost(lost) => self.hear_of_loss(now, from, lost, actions),
            Item::TakenOver(lost) => self.hear_of_takeover(now, from, lost, actions),
            Item::Redirected(mut redirected) => {
                let incarnation = peers.links[slot].inbox.taken.incarnation;
                let position = Position { incarnation, number };
                // If this node is lost, too, it is given to others once more.
                redirected.message.origin = Origin::Node { node: from, position };
                peers.figures.received += 1;
                self.take_redirected(now, (from, incarnation), *redirected, actions);
            }
            Item::Known(up_to) => peers.losses.told.hear_known(from, up_to),
            Item::Owed(owed) => self.take_owed(now, slot, *owed, actions),
            Item::About(subject, body) => self.take_about(now, from, (subject, body), actions),
        }
    }

    /// Gives a message of another node to the sessions of this one. It goes nowhere else.
    fn take_message(
        &mut self,
        now: Now,
        slot: Slot,
        (number, forwarded): (u64, Forwarded),
        actions: &mut Vec<Action>,
    ) {
        let Some(link) = self.peers.as_ref().map(|peers| &peers.links[slot]) else {
            return;
        };
        let from = link.node;
        let mut message = forwarded.message.counted(&self.memory.messages);
        message.origin = Origin::Node {
            node: from,
            position: Position {
                number,
                ..link.inbox.taken
            },
        };
        self.note_arrival(now, from, &message);
        let message = Arc::new(message);
        let mut scratch = std::mem::take(&mut self.routes);
        scratch.elsewhere.clear();
        if forwarded.is_for_subscriptions {
            let came = self.came_directly(from);
            self.find_routes(&message, &mut scratch);
            self.leave_out_taken(&came, &mut scratch);
            self.keep_late(&message, &came);
        }
        let mut declined = Vec::new();
        for (share, point) in forwarded.shares {
            let here = self.shares.find(&share);
            match here.and_then(|here| self.shares.choose(here, point)) {
                Some(chosen) => scratch.routes.push(route_of_share(&message, chosen)),
                None => declined.push(share),
            }
        }
        if self.memory.level > MemoryLevel::Normal && self.lacks_memory_for(&message, &scratch.routes) {
            self.drop_waiting(&mut scratch);
        }
        self.deliver_to_routes(now, message, scratch, Keeping::Durable, actions);
        let Some(peers) = &mut self.peers else { return };
        peers.figures.received += 1;
        for share in declined.into_iter().filter(|_| number > 0) {
            peers.links[slot].inbox.decline(number, share);
        }
    }
}
