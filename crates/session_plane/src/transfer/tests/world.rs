//! Cluster of owners of one slot, which ask each other.

use super::*;
use crate::ClientId;
use crate::copy::tests::{entries_of, matched, take_event};

pub(crate) const NODES: usize = 3;

pub(crate) struct World<'a> {
    history: &'a [Event],
    nodes: Vec<Node>,
    /// Messages that are under way, by receiver and sender.
    queues: BTreeMap<Link, VecDeque<Message>>,
}

struct Node {
    copy: Sample,
    asker: Asker<Value, ()>,
    holder: Holder<Value, ()>,
    present: BTreeSet<NodeId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Link {
    from: usize,
    to: usize,
}

fn id(index: usize) -> NodeId {
    NodeId(1 + index as u64)
}

fn index(node: NodeId) -> usize {
    node.0 as usize - 1
}

impl World<'_> {
    pub(crate) fn new(history: &[Event], bytes_max: usize) -> World<'_> {
        let new_node = |own: usize| {
            let present: BTreeSet<NodeId> = (0..NODES).filter(|other| *other != own).map(id).collect();
            let mut asker = Asker::new(asker_limits(bytes_max));
            asker.begin(slot(SLOT), &present);
            Node {
                copy: Sample::new(crate::VersionVector::default()),
                asker,
                holder: Holder::new(holder_limits(bytes_max)),
                present,
            }
        };
        World {
            history,
            nodes: (0..NODES).map(new_node).collect(),
            queues: BTreeMap::new(),
        }
    }

    pub(crate) fn copy(&self, of: usize) -> &Sample {
        &self.nodes[of].copy
    }

    pub(crate) fn step(&mut self, step: &Step) {
        match step {
            Step::Take(of, event) => {
                let event = &self.history[event.index(self.history.len())];
                take_event(&mut self.nodes[*of].copy, event);
            }
            Step::Claim(of) => {
                let _ = self.nodes[*of].copy.claim(matched);
            }
            Step::Ask(of) => self.ask(*of),
            Step::Deliver(index) => {
                if let Some(link) = self.link(*index) {
                    self.deliver(link);
                }
            }
            Step::Repeat(index) => {
                let link = self.link(*index);
                if let Some(queue) = link.and_then(|link| self.queues.get_mut(&link)) {
                    queue.extend(queue.front().cloned());
                    queue.rotate_right(1);
                }
            }
            Step::Reorder(index) => {
                let link = self.link(*index);
                let queue = link.and_then(|link| self.queues.get_mut(&link));
                if let Some(queue) = queue.filter(|queue| queue.len() > 1) {
                    queue.swap(0, 1);
                }
            }
            Step::GiveUp(one, other) => self.toggle(*one, *other),
            Step::Reconnect(one, other) => self.reconnect(*one, *other),
            Step::AskAgain(of) => {
                let node = &mut self.nodes[*of];
                node.asker
                    .ask_again(slot(SLOT), &crate::VersionVector::default(), &node.present);
            }
            Step::Offer(of, to) => self.offer(*of, id(*to)),
        }
    }

    fn offer(&mut self, of: usize, to: NodeId) {
        if self.nodes[of].present.contains(&to) {
            let slots = [slot(SLOT)].into_iter().collect();
            self.send(of, to, Message::Offer { slots });
        }
    }

    /// All are present and take all events, ask each other, and claim.
    pub(crate) fn come_to_rest(&mut self) {
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            if !self.nodes[one].present.contains(&id(other)) {
                self.toggle(one, other);
            }
        }
        for event in self.history {
            for node in &mut self.nodes {
                take_event(&mut node.copy, event);
            }
        }
        for _ in 0..2 {
            self.merge_all();
            for node in &mut self.nodes {
                node.copy.claim(matched).expect("all have everything");
            }
        }
        self.merge_all();
    }

    #[track_caller]
    pub(crate) fn assert_all_equal(&self) {
        for node in &self.nodes[1..] {
            assert_eq!(node.copy, self.nodes[0].copy);
        }
    }

    /// Each copy asks all others, until all have merged.
    fn merge_all(&mut self) {
        for of in 0..NODES {
            self.step(&Step::AskAgain(of));
        }
        for _ in 0..10_000 {
            for of in 0..NODES {
                self.ask(of);
            }
            let links: Vec<Link> = self.queues.keys().copied().collect();
            for link in links {
                self.deliver(link);
            }
            let is_idle = self.queues.values().all(VecDeque::is_empty);
            if is_idle && self.nodes.iter().all(|node| node.asker.is_merged(slot(SLOT))) {
                return;
            }
        }
        panic!("copies do not become merged");
    }

    fn link(&self, index: Index) -> Option<Link> {
        let links = self.queues.iter().filter(|(_, queue)| !queue.is_empty());
        let links: Vec<Link> = links.map(|(link, _)| *link).collect();
        (!links.is_empty()).then(|| links[index.index(links.len())])
    }

    fn send(&mut self, from: usize, to: NodeId, message: Message) {
        if let Message::SlotsMerged(merged) = &message {
            for id in merged.answers() {
                self.nodes[from].asker.reported(to, id);
            }
        }
        let link = Link { from, to: index(to) };
        self.queues.entry(link).or_default().push_back(message);
    }

    fn send_all(&mut self, from: usize, actions: Vec<Action>) {
        for action in actions {
            assert!(self.nodes[from].present.contains(&action.to), "{action:?}");
            self.send(from, action.to, action.message);
        }
    }

    fn ask(&mut self, of: usize) {
        let mut actions = Vec::new();
        let node = &mut self.nodes[of];
        let copy = &node.copy;
        node.asker
            .ask(|_| Some(Vec::new()), |_| Some(copy.covered()), &mut actions);
        node.holder
            .begin_ready(|_| None, |_| held_with_digest(copy), &mut actions);
        self.send_all(of, actions);
    }

    fn deliver(&mut self, link: Link) {
        let queue = self.queues.entry(link).or_default();
        let Some(message) = queue.pop_front() else { return };
        let mut actions = Vec::new();
        let before = self.nodes[link.to].copy.clone();
        let is_refused = self.nodes[link.to].receive(id(link.from), message, &mut actions);
        self.send_all(link.to, actions);
        if is_refused {
            assert_eq!(self.nodes[link.to].copy, before);
            self.reconnect(link.from, link.to);
        }
        assert_nothing_came_back(&before, &self.nodes[link.to].copy);
    }

    /// Gives two nodes up for each other, or makes them meet again.
    fn toggle(&mut self, one: usize, other: usize) {
        if one == other {
            return;
        }
        self.drop_queues(one, other);
        for (own, peer) in [(one, other), (other, one)] {
            let node = &mut self.nodes[own];
            if node.present.remove(&id(peer)) {
                node.asker.give_up(id(peer), &node.present);
                node.holder.give_up(id(peer));
            } else {
                node.present.insert(id(peer));
                node.asker.meet(id(peer));
            }
        }
    }

    fn reconnect(&mut self, one: usize, other: usize) {
        self.drop_queues(one, other);
        self.nodes[one].asker.restart_connection(id(other));
        self.nodes[one].holder.restart_connection(id(other));
        self.nodes[other].asker.restart_connection(id(one));
        self.nodes[other].holder.restart_connection(id(one));
    }

    fn drop_queues(&mut self, one: usize, other: usize) {
        self.queues.remove(&Link { from: one, to: other });
        self.queues.remove(&Link { from: other, to: one });
    }
}

impl Node {
    /// Keeps in answers under way what a merge has removed. True where the part was refused.
    fn keep(&mut self, received: &Result<PartReceived<Value>, PartError>) -> bool {
        if let Ok(PartReceived::Merged { removed }) = received {
            self.holder.keep(slot(SLOT), removed);
        }
        received.is_err()
    }

    /// True where the message is refused.
    fn receive(&mut self, from: NodeId, message: Message, actions: &mut Vec<Action>) -> bool {
        match message {
            Message::AskSlots(ask) => ask
                .each()
                .any(|ask| self.holder.receive_question(from, ask).is_err()),
            Message::AskPart(ask) => {
                let entries = Some(self.copy.entries());
                self.holder
                    .receive_ask_part(from, &ask, entries, actions)
                    .is_err()
            }
            Message::SlotPart(part) => {
                let received = self.asker.receive_part(from, part, &mut self.copy, actions);
                self.keep(&received)
            }
            Message::SlotDigests(digests) => {
                let id = AnswerId {
                    slot: slot(SLOT),
                    question: digests.question,
                };
                let begin = (&digests.begin, &digests.slots[0]);
                let received = self
                    .asker
                    .receive_digest(from, id, begin, &mut self.copy, actions);
                self.keep(&received)
            }
            Message::SlotsMerged(merged) => merged
                .answers()
                .any(|id| self.holder.receive_merged(from, id).is_err()),
            Message::DropQuestion(id) => {
                self.holder.receive_drop(from, id);
                false
            }
            Message::Offer { .. } => {
                self.asker.receive_offer(from, slot(SLOT));
                false
            }
        }
    }
}

fn assert_nothing_came_back(before: &Sample, after: &Sample) {
    let had = entries_of(before);
    let is_known = |client: &ClientId, dot| before.covers(client.as_bytes(), dot);
    for entry in entries_of(after)
        .iter()
        .filter(|entry| is_known(&entry.client, entry.dot))
    {
        let is_same = |each: &&_| {
            let each: &&crate::copy::tests::naive::NaiveEntry = each;
            (&each.client, each.kind, each.dot) == (&entry.client, entry.kind, entry.dot)
        };
        assert!(had.iter().any(|each| is_same(&each)), "{entry:?} came back");
    }
}
