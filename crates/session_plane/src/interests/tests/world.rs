//! World of a history: three nodes, links whose messages come in order, and what each node knows of the
//! others.

use std::collections::VecDeque;

use super::*;

/// Filters of a node, as another one knows them.
type Table = BTreeMap<TopicFilter, Interest>;
/// Two nodes: of a message its sender and its receiver, of a table its owner and whose it is.
type Pair = (NodeId, NodeId);

#[derive(Debug)]
enum Message {
    Changes(InterestChanges),
    Confirm(u64),
}

/// What a node wants of a filter, since its last change.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    interest: Option<Interest>,
    position: u64,
}

#[derive(Debug)]
pub(super) struct World {
    nodes: BTreeMap<NodeId, Interests>,
    wanted: BTreeMap<NodeId, BTreeMap<TopicFilter, Wanted>>,
    /// Of each node and each peer that it has met: what it has learned.
    tables: BTreeMap<Pair, Table>,
    /// Last position of the other one when it has met the first.
    met_at: BTreeMap<Pair, u64>,
    links: BTreeMap<Pair, VecDeque<Message>>,
}

impl World {
    pub(super) fn new() -> World {
        let nodes = [1, 2, 3].map(NodeId);
        World {
            nodes: nodes.map(|node| (node, Interests::new(limits()))).into(),
            wanted: nodes.map(|node| (node, BTreeMap::new())).into(),
            tables: BTreeMap::new(),
            met_at: BTreeMap::new(),
            links: BTreeMap::new(),
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Set {
                node,
                filter: name,
                interest,
            } => {
                let (node, filter) = (NodeId(*node), filter(&name.to_string()));
                let set = self.node(node).set(&filter, *interest);
                let interest = *interest;
                let position = set.expect("few filters");
                let wanted = Wanted { interest, position };
                self.wanted.get_mut(&node).unwrap().insert(filter, wanted);
            }
            Step::Send { from, to } => self.send((NodeId(*from), NodeId(*to))),
            Step::Deliver { from, to } => self.deliver((NodeId(*from), NodeId(*to))),
            Step::Break { one, other } => {
                for (from, to) in ends(*one, *other) {
                    self.links.remove(&(from, to));
                    self.node(from).renew_link(to);
                }
            }
            Step::Toggle { one, other } => self.toggle(*one, *other),
        }
    }

    fn node(&mut self, node: NodeId) -> &mut Interests {
        self.nodes.get_mut(&node).unwrap()
    }

    fn toggle(&mut self, one: u64, other: u64) {
        let (own, peer) = (NodeId(one), NodeId(other));
        if self.is_present(own, peer) && self.is_present(peer, own) {
            for (own, peer) in ends(one, other) {
                self.links.remove(&(own, peer));
                self.node(own).lose(peer);
                self.tables.remove(&(own, peer));
                self.met_at.remove(&(own, peer));
            }
        } else if !self.is_present(own, peer) {
            self.node(own).meet(peer);
            self.tables.insert((own, peer), Table::new());
            // What it sets from here on waits for the peer.
            let wanted = self.wanted[&own].values();
            let last = wanted.map(|wanted| wanted.position).max();
            self.met_at.insert((peer, own), last.unwrap_or(0));
        }
    }

    fn is_present(&self, own: NodeId, peer: NodeId) -> bool {
        self.tables.contains_key(&(own, peer))
    }

    fn send(&mut self, (from, to): Pair) {
        if let Some(changes) = self.node(from).next_message(to) {
            assert!(changes.changes.len() <= limits().changes_max);
            let link = self.links.entry((from, to)).or_default();
            link.push_back(Message::Changes(changes));
        }
    }

    fn deliver(&mut self, (from, to): Pair) {
        let message = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front);
        // Nothing is read of a peer that was not met.
        match message.filter(|_| self.is_present(to, from)) {
            Some(Message::Changes(changes)) => {
                let up_to = changes.up_to;
                let table = self.tables.get_mut(&(to, from)).expect("present");
                let node = self.nodes.get_mut(&to).unwrap();
                let learned = node.receive(from, changes, table.len()).expect("as it was sent");
                if learned.is_anew {
                    table.clear();
                }
                for InterestChange { filter, interest } in learned.changes {
                    match interest {
                        Some(interest) => table.insert(filter, interest),
                        None => table.remove(&filter),
                    };
                }
                let link = self.links.entry((to, from)).or_default();
                link.push_back(Message::Confirm(up_to));
            }
            Some(Message::Confirm(up_to)) => {
                assert_eq!(self.node(to).confirm(from, up_to), Ok(()));
            }
            None => {}
        }
    }

    /// What a node has told is known; what a node had when it was met is known once it has told all.
    pub(super) fn check(&self) {
        let both = self
            .tables
            .iter()
            .filter(|((own, peer), _)| self.is_present(*peer, *own));
        for ((own, peer), table) in both {
            let (told, met_at) = (self.nodes[peer].told(), &self.met_at[&(*own, *peer)]);
            let knows_all = self.nodes[own].are_known();
            for (filter, wanted) in &self.wanted[peer] {
                if wanted.position <= told || knows_all && wanted.position <= *met_at {
                    assert_eq!(table.get(filter), wanted.interest.as_ref(), "{peer:?} at {own:?}");
                }
            }
        }
    }

    /// Everybody meets, and everything is sent and arrives.
    pub(super) fn come_to_rest(&mut self) {
        let pairs = [(1, 2), (1, 3), (2, 3)];
        for (one, other) in pairs
            .into_iter()
            .flat_map(|(one, other)| [(one, other), (other, one)])
        {
            if !self.is_present(NodeId(one), NodeId(other)) {
                self.toggle(one, other);
            }
        }
        for _ in 0..40 {
            for pair in pairs.into_iter().flat_map(|(one, other)| ends(one, other)) {
                self.send(pair);
                self.deliver(pair);
            }
        }
    }

    pub(super) fn check_rest(&self) {
        assert!(self.links.values().all(VecDeque::is_empty));
        for (node, interests) in &self.nodes {
            let wanted = self.wanted[node].values();
            let last = wanted.clone().map(|wanted| wanted.position).max();
            assert!(interests.told() >= last.unwrap_or(0) && interests.are_known());
            let count = wanted.filter(|wanted| wanted.interest.is_some()).count();
            assert_eq!(interests.len(), count, "nothing is left to forget");
        }
    }
}

fn ends(one: u64, other: u64) -> [Pair; 2] {
    let (one, other) = (NodeId(one), NodeId(other));
    [(one, other), (other, one)]
}
