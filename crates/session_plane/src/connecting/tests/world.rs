//! World of three nodes, of which two own the slots. Links are in order and slow; nodes are lost
//! and start again.
//!
//! Events go to all present nodes, so each has a copy of everything, and a node that has other peers
//! than before merges the copies of all of them. Nodes are given up only when they are lost.

use std::collections::VecDeque;

use proptest::sample::Index;

use super::*;
use crate::EntryId;

mod member;

use member::{Letter, Member, Sent, ViewOf};

pub(super) const NODES: usize = 3;
const CLIENTS: u8 = 2;

/// Step of the world.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Connect {
        node: usize,
        client: u8,
        is_clean: bool,
    },
    /// A connected client subscribes to a filter of its own.
    Subscribe {
        at: Index,
    },
    /// A client leaves, in any phase.
    Leave {
        at: Index,
    },
    Deliver {
        from: usize,
        to: usize,
    },
    Crash {
        node: usize,
    },
    /// A node finds that another one is lost.
    GiveUp {
        at: usize,
    },
    Restart,
    Wait,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let node = || 0..NODES;
    let at = any::<Index>;
    let step = prop_oneof![
        6 => (node(), 0..CLIENTS, proptest::bool::weighted(0.2))
            .prop_map(|(node, client, is_clean)| Step::Connect { node, client, is_clean }),
        4 => at().prop_map(|at| Step::Subscribe { at }),
        1 => at().prop_map(|at| Step::Leave { at }),
        60 => (node(), node()).prop_map(|(from, to)| Step::Deliver { from, to }),
        1 => node().prop_map(|node| Step::Crash { node }),
        3 => node().prop_map(|at| Step::GiveUp { at }),
        1 => Just(Step::Restart),
        1 => Just(Step::Wait),
    ];
    proptest::collection::vec(step, 0..240)
}

/// Session of a client, as the client may rely on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Absent,
    Present,
    /// A claim that was not acknowledged has begun or ended it.
    Uncertain,
}

#[derive(Debug)]
struct Client {
    expected: Expected,
    /// Subscriptions with SUBACK.
    acknowledged: BTreeSet<Dot>,
}

/// Nodes, links between them, and what clients rely on.
pub(super) struct World {
    now: Instant,
    nodes: Vec<Member>,
    links: BTreeMap<(usize, usize), VecDeque<Letter>>,
    clients: Vec<Client>,
    pub(super) accepted: usize,
}

/// Report of a node to its clients.
#[derive(Debug)]
enum Report {
    Accepted {
        client: u8,
        is_clean: bool,
        is_present: bool,
        subscriptions: BTreeSet<Dot>,
    },
    SessionBegun {
        client: u8,
    },
    SessionEnded {
        client: u8,
    },
    Subscribed {
        client: u8,
        dot: Dot,
    },
}

fn id(node: usize) -> NodeId {
    NodeId(1 + node as u64)
}

fn index(node: NodeId) -> usize {
    node.0 as usize - 1
}

impl World {
    pub(super) fn new() -> World {
        let view: ViewOf = (0..NODES).map(|node| (id(node), run(node as u64))).collect();
        let client = |_| Client {
            expected: Expected::Absent,
            acknowledged: BTreeSet::new(),
        };
        World {
            now: *ORIGIN,
            nodes: (0..NODES)
                .map(|node| Member::new(run(node as u64), view.clone()))
                .collect(),
            links: BTreeMap::new(),
            clients: (0..CLIENTS).map(client).collect(),
            accepted: 0,
        }
    }

    pub(super) fn step(&mut self, step: &Step) {
        match step {
            Step::Connect {
                node,
                client,
                is_clean,
            } => self.connect(*node, *client, *is_clean),
            Step::Subscribe { at } => self.with_connection(at, true, Member::subscribe),
            Step::Leave { at } => self.with_connection(at, false, Member::leave),
            Step::Deliver { from, to } => {
                self.deliver(*from, *to);
            }
            Step::Crash { node } => self.crash(*node),
            Step::GiveUp { at } => {
                (0..NODES).for_each(|of| self.give_up(*at, of));
            }
            Step::Restart => self.restart_all(),
            Step::Wait => {
                self.now += Duration::from_secs(4);
                let now = self.now;
                self.alive()
                    .into_iter()
                    .for_each(|node| self.with(node, |member, sent| member.tick(now, sent)));
            }
        }
        self.assert_one_connection();
    }

    fn alive(&self) -> Vec<usize> {
        (0..NODES).filter(|node| self.nodes[*node].is_alive).collect()
    }

    /// Lets a node do something, and takes what it sends and reports.
    fn with(&mut self, node: usize, act: impl FnOnce(&mut Member, &mut Sent)) {
        let mut sent = Sent::default();
        act(&mut self.nodes[node], &mut sent);
        for (to, letter) in sent.letters {
            self.links.entry((node, index(to))).or_default().push_back(letter);
        }
        for report in sent.reports {
            self.take_report(report);
        }
    }

    fn take_report(&mut self, report: Report) {
        match report {
            Report::SessionBegun { client } => {
                let client = &mut self.clients[usize::from(client)];
                if client.expected == Expected::Absent {
                    client.expected = Expected::Uncertain;
                }
            }
            Report::SessionEnded { client } => {
                let client = &mut self.clients[usize::from(client)];
                client.expected = Expected::Uncertain;
                client.acknowledged.clear();
            }
            Report::Subscribed { client, dot } => {
                self.clients[usize::from(client)].acknowledged.insert(dot);
            }
            Report::Accepted {
                client,
                is_clean,
                is_present,
                subscriptions,
            } => {
                let client = &mut self.clients[usize::from(client)];
                self.accepted += 1;
                match client.expected {
                    Expected::Absent => assert!(!is_present, "nobody has begun a session"),
                    Expected::Present => assert_eq!(is_present, !is_clean),
                    Expected::Uncertain => assert!(!(is_present && is_clean)),
                }
                let missing: Vec<&Dot> = client.acknowledged.difference(&subscriptions).collect();
                assert!(missing.is_empty(), "{missing:?} were acknowledged");
                client.expected = Expected::Present;
            }
        }
    }

    fn connect(&mut self, node: usize, client: u8, is_clean: bool) {
        if self.nodes[node].is_alive {
            let now = self.now;
            self.with(node, |member, sent| member.connect(now, client, is_clean, sent));
        }
    }

    /// Lets a connection do something.
    fn with_connection(
        &mut self,
        at: &Index,
        is_live: bool,
        act: impl Fn(&mut Member, ConnectionId, &mut Sent),
    ) {
        let alive = self.alive().into_iter();
        let open = alive.flat_map(|node| {
            let connections = self.nodes[node].open(is_live).into_iter();
            connections.map(move |connection| (node, connection))
        });
        let open: Vec<(usize, ConnectionId)> = open.collect();
        if !open.is_empty() {
            let (node, connection) = open[at.index(open.len())];
            self.with(node, |member, sent| act(member, connection, sent));
        }
    }

    /// Lets the next message of a link arrive; true if there is one.
    fn deliver(&mut self, from: usize, to: usize) -> bool {
        if !self.nodes[to].is_alive {
            return false;
        }
        let Some(letter) = self.links.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        let now = self.now;
        self.with(to, |member, sent| member.receive(now, id(from), letter, sent));
        self.assert_one_connection();
        true
    }

    /// One node is lost at a time, so that somebody always has what was acknowledged.
    fn crash(&mut self, node: usize) {
        if self.alive().len() == NODES {
            self.nodes[node].is_alive = false;
            self.links.retain(|(_, to), _| *to != node);
        }
    }

    fn give_up(&mut self, at: usize, of: usize) {
        let has = self.nodes[at].has_present(id(of));
        if self.nodes[at].is_alive && !self.nodes[of].is_alive && has {
            self.links.remove(&(of, at));
            self.with(at, |member, sent| member.give_up(id(of), sent));
        }
    }

    /// Nodes that are lost start again, and meet all others.
    fn restart_all(&mut self) {
        for node in 0..NODES {
            if self.nodes[node].is_alive {
                continue;
            }
            (0..NODES).for_each(|at| self.give_up(at, node));
            self.links.retain(|(_, to), _| *to != node);
            let alive = self.alive();
            let mut view: ViewOf = alive
                .iter()
                .map(|node| (id(*node), self.nodes[*node].run))
                .collect();
            self.with(node, |member, sent| {
                view.insert(id(node), member.next_run());
                member.restart(view, sent);
            });
            let run = self.nodes[node].run;
            for at in alive {
                self.with(at, |member, sent| member.meet(run, sent));
            }
        }
    }

    /// Faults end, and everything arrives. No time passes.
    pub(super) fn come_to_rest(&mut self) {
        self.restart_all();
        for _ in 0..2_000 {
            let mut is_quiet = true;
            for from in 0..NODES {
                for to in 0..NODES {
                    is_quiet &= !self.deliver(from, to);
                }
            }
            if is_quiet {
                return;
            }
        }
        panic!("messages go on for ever");
    }

    #[track_caller]
    pub(super) fn assert_at_rest(&self) {
        for member in &self.nodes {
            assert_eq!(member.connections.claims(), 0, "a claim hangs");
            assert_eq!(member.connections.len(), member.open(true).len(), "an end hangs");
            assert_eq!(member.state.copy, self.nodes[0].state.copy);
            member.assert_no_losers();
        }
    }

    /// A client connects once more: it is accepted.
    #[track_caller]
    pub(super) fn assert_accepts(&mut self, node: usize) {
        for client in 0..CLIENTS {
            let before = self.accepted;
            self.connect(node, client, false);
            self.come_to_rest();
            assert_eq!(self.accepted, before + 1);
            assert_eq!(self.live_connections(client), 1);
        }
        self.assert_at_rest();
        // A node that owns the slot no more has questions that nobody waits for.
        self.now += LIMITS.claim_max;
        let now = self.now;
        for node in 0..NODES {
            self.with(node, |member, sent| member.tick(now, sent));
            assert_eq!(self.nodes[node].questions.waiting(), 0, "a question hangs");
        }
    }

    fn live_connections(&self, client: u8) -> usize {
        let live = self
            .alive()
            .into_iter()
            .map(|node| self.nodes[node].live_of(client));
        live.sum()
    }

    #[track_caller]
    fn assert_one_connection(&self) {
        for client in 0..CLIENTS {
            assert!(
                self.live_connections(client) <= 1,
                "client {client} has two connections"
            );
        }
    }
}

/// Subscriptions of a client among `entries`.
fn subscriptions(session: &KnownSession<Value>) -> BTreeSet<Dot> {
    let entries = session.entries().iter();
    let subscriptions = entries.filter(|(id, _): &(EntryId, _)| id.kind == EntryKind::Subscription);
    subscriptions.map(|(id, _)| id.dot).collect()
}
