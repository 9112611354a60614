//! One node with a cluster that the test sets, for tests of single rules.

use super::*;
use crate::Interval;

/// Cluster of the test: nodes 2 and 3 own the slot, and node 4 is present.
#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) owners: Vec<NodeId>,
    pub(super) present: BTreeMap<NodeId, Run>,
    pub(super) routes: Option<KnownSession<Value>>,
}

impl ClusterState<Value> for Cluster {
    fn owners(&self, _: Slot) -> Vec<NodeId> {
        self.owners.clone()
    }

    fn present_run(&self, node: NodeId) -> Option<Run> {
        self.present.get(&node).copied()
    }

    fn known(&self) -> Arc<VersionVector> {
        Arc::new(vector(&[dot(0, 7)]))
    }

    fn routes(&self, _: &ClientId) -> Option<KnownSession<Value>> {
        self.routes.clone()
    }
}

pub(super) fn node(of: u64) -> NodeId {
    run(of).node
}

/// Vector of all events up to these.
pub(super) fn vector(last: &[Dot]) -> VersionVector {
    let mut vector = VersionVector::default();
    for dot in last {
        let up_to = Interval::up_to(dot.run, dot.number).expect("an event");
        vector.insert(up_to).expect("a short vector");
    }
    vector
}

/// Session with these entries, of which each is covered.
pub(super) fn session(listed: &[(Dot, Fact, Birth)]) -> KnownSession<Value> {
    let dots: Vec<Dot> = listed.iter().map(|(dot, ..)| *dot).collect();
    let entry = |(dot, fact, birth): &(Dot, Fact, Birth)| {
        let clock = Hlc::at(dot.number);
        (*dot, entry_of(fact.clone(), *birth, clock, *dot))
    };
    let entries: Vec<(Dot, Entry<Value>)> = listed.iter().map(entry).collect();
    KnownSession::from_parts(vector(&dots), BTreeSet::new(), entries).expect("an answer")
}

/// Older connection of the client.
pub(super) fn older(dot: Dot) -> (Dot, Fact, Birth) {
    (dot, Fact::Connection, birth_of(dot))
}

/// Node 1, which makes its events at once.
pub(super) struct Node {
    pub(super) now: Instant,
    pub(super) cluster: Cluster,
    pub(super) connections: Connections<Value>,
    /// Number of the last event.
    pub(super) number: u64,
    pub(super) writes: Vec<Write>,
}

impl Node {
    pub(super) fn new(limits: ConnectionLimits) -> Node {
        let cluster = Cluster {
            owners: vec![node(1), node(2)],
            present: (0..4).map(|of| (node(of), run(of))).collect(),
            routes: None,
        };
        Node {
            now: *ORIGIN,
            cluster,
            connections: Connections::new(run(0), limits),
            number: 0,
            writes: Vec::new(),
        }
    }

    pub(super) fn begin(&mut self, is_clean: bool) -> Result<ConnectionId, ConnectionsFull> {
        let connect = Connect {
            client: client(0),
            is_clean,
        };
        let mut actions = Vec::new();
        let now = self.now;
        let begun = self.connections.begin(now, connect, &self.cluster, &mut actions);
        assert!(
            actions
                .iter()
                .all(|action| matches!(action, Action::Write { .. }))
        );
        begun
    }

    /// CONNECT, and the questions that follow.
    pub(super) fn connect(&mut self, is_clean: bool) -> (ConnectionId, Vec<Action>) {
        let id = self.begin(is_clean).expect("room");
        let actions = self.write_connection(id, 100);
        (id, actions)
    }

    /// The connection's entry is made.
    pub(super) fn write_connection(&mut self, connection: ConnectionId, clock: u64) -> Vec<Action> {
        self.number += 1;
        self.step(Event::Written {
            connection,
            dot: dot(0, self.number),
            clock: Hlc::at(clock + self.number),
        })
    }

    /// Takes an event; gives what is not written.
    pub(super) fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        let stepped = self.connections.step(event, &self.cluster, &mut actions);
        stepped.expect("peers keep to the protocol");
        let mut others = Vec::new();
        for action in actions {
            let Action::Write {
                connection, write, ..
            } = action
            else {
                others.push(action);
                continue;
            };
            self.number += 1;
            let is_start = matches!(write, Write::SessionStart(_));
            self.writes.push(write);
            if is_start {
                let dot = dot(0, self.number);
                others.extend(self.step(Event::SessionWritten { connection, dot }));
            }
        }
        others
    }

    pub(super) fn refuse(&mut self, event: Event) -> ConnectingError {
        let mut actions = Vec::new();
        let stepped = self.connections.step(event, &self.cluster, &mut actions);
        assert_eq!(actions, []);
        stepped.expect_err("the message is bad")
    }

    /// An owner answers a round.
    pub(super) fn answer(
        &mut self,
        of: u64,
        connection: Dot,
        round: u64,
        session: &KnownSession<Value>,
    ) -> Vec<Action> {
        let answer = SessionAnswer {
            connection,
            round,
            session: session.clone(),
        };
        self.step(Event::SessionReceived {
            from: node(of),
            answer: Box::new(answer),
        })
    }

    /// Both owners answer a round alike.
    pub(super) fn answer_all(
        &mut self,
        connection: Dot,
        round: u64,
        session: &KnownSession<Value>,
    ) -> Vec<Action> {
        assert_eq!(self.answer(1, connection, round, session), []);
        self.answer(2, connection, round, session)
    }

    pub(super) fn release(&mut self, of: u64, release: Release) -> Vec<Action> {
        self.step(Event::ReleaseAsked {
            from: node(of),
            release,
        })
    }

    pub(super) fn released(&mut self, old: Dot, by: Dot, is_agreed: bool) -> Vec<Action> {
        let released = Released { old, by, is_agreed };
        self.step(Event::ReleasedReceived {
            from: old.run.node,
            released,
        })
    }

    /// CONNECT of a client that nobody knows, up to CONNACK.
    pub(super) fn connect_new(&mut self) -> (ConnectionId, Dot) {
        let (connection, _) = self.connect(false);
        let own = dot(0, self.number);
        self.answer_all(own, 1, &KnownSession::default());
        let accepted = self.step(Event::SessionDurable { connection, round: 1 });
        assert!(matches!(
            accepted[..],
            [Action::Accept {
                is_present: false,
                ..
            }]
        ));
        (connection, own)
    }
}

/// Receivers and messages.
pub(super) fn messages(actions: &[Action]) -> Vec<(NodeId, &ConnectingMessage<Value>)> {
    let sent = actions.iter().filter_map(|action| match action {
        Action::Send(outgoing) => Some((outgoing.to, &outgoing.message)),
        _ => None,
    });
    sent.collect()
}

/// Owners that are asked, and the round.
pub(super) fn asked(actions: &[Action]) -> Vec<(NodeId, u64)> {
    let asked = |(to, message): (NodeId, &ConnectingMessage<Value>)| match message {
        ConnectingMessage::Ask(ask) => (to, ask.round),
        other => panic!("{other:?} is no question"),
    };
    messages(actions).into_iter().map(asked).collect()
}

pub(super) fn ask_release(old: Dot, by: Claimant) -> Action {
    let message = ConnectingMessage::Release(Release { old, by: Some(by) });
    let to = old.run.node;
    Action::Send(Outgoing { to, message })
}

pub(super) fn answer_released(old: Dot, by: Dot, is_agreed: bool) -> Action {
    let message = ConnectingMessage::Released(Released { old, by, is_agreed });
    let to = by.run.node;
    Action::Send(Outgoing { to, message })
}
