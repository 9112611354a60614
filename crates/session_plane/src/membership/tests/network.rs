//! Links between the nodes of a history: ordered, and fast, slow or cut in each direction.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

/// One direction between two nodes.
pub(super) type Link = (u64, u64);

/// Message under way.
#[derive(Debug, Clone)]
pub(super) enum Message {
    Handshake(Handshake),
    /// Message of the stay that began by these two incarnations: of the lower and the higher node.
    OfStay((SwimIncarnation, SwimIncarnation), Said),
}

/// Message of a stay.
#[derive(Debug, Clone)]
pub(super) enum Said {
    Marker(View),
    Heartbeat,
    Conviction(Stay),
}

#[derive(Debug, Default)]
pub(super) struct Network {
    queues: BTreeMap<Link, VecDeque<(u64, Message)>>,
    cut: BTreeSet<Link>,
    slow: BTreeSet<Link>,
    /// Last time at which a link of each node was not whole.
    disturbed: BTreeMap<u64, u64>,
}

impl Network {
    pub(super) fn cut(&mut self, link: Link) {
        self.cut.insert(link);
    }

    pub(super) fn slow(&mut self, link: Link) {
        self.slow.insert(link);
    }

    pub(super) fn heal(&mut self) {
        self.cut.clear();
        self.slow.clear();
    }

    pub(super) fn is_cut(&self, link: Link) -> bool {
        self.cut.contains(&link)
    }

    pub(super) fn reaches_both_ways(&self, one: u64, other: u64) -> bool {
        !self.is_cut((one, other)) && !self.is_cut((other, one))
    }

    /// Queues a message. A cut link loses a handshake; what is of a stay is sent again.
    pub(super) fn send(&mut self, now: u64, link: Link, message: Message) {
        let is_cut = self.is_cut(link);
        let delay = if self.slow.contains(&link) { 400 } else { 20 };
        let queue = self.queues.entry(link).or_default();
        let is_heartbeat = |message: &Message| matches!(message, Message::OfStay(_, Said::Heartbeat));
        if is_heartbeat(&message) && queue.back().is_some_and(|(_, last)| is_heartbeat(last)) {
            queue.pop_back();
        }
        if !is_cut || matches!(message, Message::OfStay(..)) {
            queue.push_back((now + delay, message));
        }
    }

    pub(super) fn receive(&mut self, now: u64, link: Link) -> Option<Message> {
        if self.is_cut(link) {
            return None;
        }
        let queue = self.queues.get_mut(&link)?;
        let is_due = queue.front().is_some_and(|(due, _)| *due <= now);
        is_due
            .then(|| queue.pop_front())
            .flatten()
            .map(|(_, message)| message)
    }

    /// Drops what a node has sent in a stay that it has ended.
    pub(super) fn drop_sent(&mut self, link: Link) {
        if let Some(queue) = self.queues.get_mut(&link) {
            queue.retain(|(_, message)| matches!(message, Message::Handshake(_)));
        }
    }

    /// Notes whose links are not whole, or still have late messages.
    pub(super) fn note_disturbed(&mut self, now: u64) {
        let late = self.queues.iter().filter(|(_, queue)| {
            let front = queue.front();
            front.is_some_and(|(due, _)| due + 100 < now || now + 100 < *due)
        });
        let late = late.map(|(link, _)| link);
        let ids: Vec<u64> = self
            .cut
            .iter()
            .chain(&self.slow)
            .chain(late)
            .flat_map(|(from, to)| [*from, *to])
            .collect();
        for id in ids {
            self.disturb(id, now);
        }
    }

    pub(super) fn disturb(&mut self, id: u64, now: u64) {
        self.disturbed.insert(id, now);
    }

    pub(super) fn disturbed_at(&self, id: u64) -> Option<u64> {
        self.disturbed.get(&id).copied()
    }
}
