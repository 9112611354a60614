//! Node of the world: its copy, its connections and its questions.

use super::*;

mod state;
mod writing;

use state::State;

/// Runs that a node has present.
pub(super) type ViewOf = BTreeMap<NodeId, Run>;

/// Message between nodes.
#[derive(Debug, Clone)]
pub(super) enum Letter {
    Event(Change<Value>, u64),
    Confirm(Dot),
    Connecting(ConnectingMessage<Value>, u64),
    /// Question for a copy, answered by a node that has the same nodes present.
    AskCopy(ViewOf),
    Copy(Box<Sample>, ViewOf),
}

/// Messages and reports of one step.
#[derive(Debug, Default)]
pub(super) struct Sent {
    pub(super) letters: Vec<(NodeId, Letter)>,
    pub(super) reports: Vec<Report>,
}

/// Connection as its client has it.
#[derive(Debug)]
struct Link {
    client: u8,
    is_clean: bool,
    is_closing: bool,
    birth: Option<Birth>,
}

/// Event that is to be durable.
#[derive(Debug)]
struct Wait {
    number: u64,
    connection: ConnectionId,
    what: Awaited,
}

#[derive(Debug, Clone, Copy)]
enum Awaited {
    Session { round: u64 },
    Subscription,
    Nothing,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) run: Run,
    pub(super) is_alive: bool,
    pub(super) state: State,
    pub(super) connections: Connections<Value>,
    pub(super) questions: Questions,
    links: BTreeMap<ConnectionId, Link>,
    number: u64,
    clock: u64,
    waits: Vec<Wait>,
    confirmed: BTreeMap<NodeId, u64>,
    copy_questions: BTreeMap<NodeId, ViewOf>,
}

impl Member {
    pub(super) fn new(run: Run, view: ViewOf) -> Member {
        Member {
            run,
            is_alive: true,
            state: State {
                own: run.node,
                view,
                copy: Sample::new(VersionVector::default()),
                unanswered: BTreeSet::new(),
            },
            connections: Connections::new(run, LIMITS),
            questions: Questions::new(QuestionLimits {
                waiting_per_peer_max: 100,
                wait_max: Duration::from_secs(20),
            }),
            links: BTreeMap::new(),
            number: 0,
            clock: 0,
            waits: Vec::new(),
            confirmed: BTreeMap::new(),
            copy_questions: BTreeMap::new(),
        }
    }

    pub(super) fn next_run(&self) -> Run {
        Run {
            incarnation: cluster::Incarnation(self.run.incarnation.0 + 1),
            ..self.run
        }
    }

    /// The copy is on disk.
    pub(super) fn restart(&mut self, view: ViewOf, sent: &mut Sent) {
        let mut next = Member::new(self.next_run(), view);
        next.state.copy = self.state.copy.clone();
        next.clock = self.clock;
        *self = next;
        self.ask_copies(sent);
    }

    pub(super) fn has_present(&self, node: NodeId) -> bool {
        self.state.view.contains_key(&node)
    }

    pub(super) fn give_up(&mut self, node: NodeId, sent: &mut Sent) {
        self.state.view.remove(&node);
        self.confirmed.remove(&node);
        self.copy_questions.remove(&node);
        self.questions.lose_peer(node);
        self.step(Event::PeerLost(node), sent);
        self.change_ring(sent);
    }

    pub(super) fn meet(&mut self, run: Run, sent: &mut Sent) {
        self.state.view.insert(run.node, run);
        self.change_ring(sent);
    }

    fn change_ring(&mut self, sent: &mut Sent) {
        self.ask_copies(sent);
        self.step(Event::RingChanged, sent);
        for client in 0..CLIENTS {
            let slot = Slot::of_client(super::client(client).as_bytes());
            self.step(Event::OwnersChanged(slot), sent);
        }
        self.complete_waits(sent);
    }

    fn ask_copies(&mut self, sent: &mut Sent) {
        let view = self.state.view.clone();
        self.state.unanswered = self.peers().collect();
        sent.letters
            .extend(self.peers().map(|peer| (peer, Letter::AskCopy(view.clone()))));
        self.answer_copies(sent);
    }

    fn peers(&self) -> impl Iterator<Item = NodeId> {
        let view = self.state.view.keys();
        view.filter(|node| **node != self.run.node).copied()
    }

    fn answer_copies(&mut self, sent: &mut Sent) {
        let view = self.state.view.clone();
        let answered: Vec<NodeId> = self
            .copy_questions
            .iter()
            .filter(|(_, asked)| **asked == view)
            .map(|(from, _)| *from)
            .collect();
        for from in answered {
            self.copy_questions.remove(&from);
            let copy = Box::new(self.state.copy.clone());
            sent.letters.push((from, Letter::Copy(copy, view.clone())));
        }
    }

    pub(super) fn receive(&mut self, now: Instant, from: NodeId, letter: Letter, sent: &mut Sent) {
        match letter {
            Letter::Event(change, clock) => {
                let dot = change.dot;
                self.clock = self.clock.max(clock);
                self.take(change);
                sent.letters.push((from, Letter::Confirm(dot)));
                self.answer_questions(sent);
            }
            Letter::Confirm(dot) if dot.run == self.run => {
                let confirmed = self.confirmed.entry(from).or_default();
                *confirmed = dot.number.max(*confirmed);
                self.complete_waits(sent);
            }
            Letter::Confirm(_) => {}
            Letter::Connecting(message, clock) => {
                self.clock = self.clock.max(clock);
                self.receive_connecting(now, from, message, sent);
            }
            Letter::AskCopy(view) => {
                self.copy_questions.insert(from, view);
                self.answer_copies(sent);
            }
            Letter::Copy(copy, view) => self.merge(from, *copy, &view, sent),
        }
    }

    fn merge(&mut self, from: NodeId, copy: Sample, view: &ViewOf, sent: &mut Sent) {
        self.state.copy.merge(copy).expect("histories are short");
        if *view == self.state.view {
            self.state.unanswered.remove(&from);
        }
        if let Some(run) = self.state.view.get(&from).copied() {
            let number = self.state.copy.covered().last_event(run);
            sent.letters.push((from, Letter::Confirm(Dot { run, number })));
        }
        self.answer_questions(sent);
        if self.state.unanswered.is_empty() {
            let mut outgoing = Vec::new();
            release_losers(self.state.copy.entries(), &self.state, &mut outgoing);
            self.send(outgoing, sent);
        }
    }

    fn take(&mut self, change: Change<Value>) {
        self.state.copy.apply(change).expect("histories are short");
        self.state
            .copy
            .claim(|_, _, _| Vec::new())
            .expect("there are no holes");
    }

    fn answer_questions(&mut self, sent: &mut Sent) {
        let mut outgoing = Vec::new();
        for client in 0..CLIENTS {
            let slot = Slot::of_client(super::client(client).as_bytes());
            self.questions.copy_ready(slot, &self.state, &mut outgoing);
        }
        self.send(outgoing, sent);
    }

    fn receive_connecting(
        &mut self,
        now: Instant,
        from: NodeId,
        message: ConnectingMessage<Value>,
        sent: &mut Sent,
    ) {
        let event = match message {
            ConnectingMessage::Ask(ask) => {
                let mut outgoing = Vec::new();
                let asked = self.questions.ask(now, from, ask, &self.state, &mut outgoing);
                asked.expect("peers keep to the protocol");
                return self.send(outgoing, sent);
            }
            ConnectingMessage::Session(answer) => {
                let answer = Box::new(answer);
                Event::SessionReceived { from, answer }
            }
            ConnectingMessage::Refused(refused) => Event::QuestionRefused { from, refused },
            ConnectingMessage::Release(release) => Event::ReleaseAsked { from, release },
            ConnectingMessage::Released(released) => Event::ReleasedReceived { from, released },
        };
        self.step(event, sent);
    }

    fn send(&mut self, outgoing: Vec<Outgoing<Value>>, sent: &mut Sent) {
        let clock = self.clock;
        let letters = outgoing
            .into_iter()
            .map(|Outgoing { to, message }| (to, Letter::Connecting(message, clock)));
        sent.letters.extend(letters);
    }

    fn step(&mut self, event: Event, sent: &mut Sent) {
        let mut actions = Vec::new();
        let stepped = self.connections.step(event, &self.state, &mut actions);
        stepped.expect("peers keep to the protocol");
        self.act(actions, sent);
    }

    pub(super) fn tick(&mut self, now: Instant, sent: &mut Sent) {
        let (mut actions, mut outgoing) = (Vec::new(), Vec::new());
        self.connections.tick(now, &mut actions);
        self.questions.tick(now, &mut outgoing);
        self.send(outgoing, sent);
        self.act(actions, sent);
    }

    fn act(&mut self, actions: Vec<Action>, sent: &mut Sent) {
        for action in actions {
            match action {
                Action::Send(outgoing) => self.send(vec![outgoing], sent),
                Action::Write {
                    connection, write, ..
                } => self.write(connection, write, sent),
                Action::Give { .. } => {}
                Action::AwaitSession {
                    connection,
                    entry,
                    round,
                } => {
                    self.wait(entry.number, connection, Awaited::Session { round });
                    self.complete_waits(sent);
                }
                Action::Accept {
                    connection,
                    is_present,
                    session,
                } => {
                    let link = &self.links[&connection];
                    sent.reports.push(Report::Accepted {
                        client: link.client,
                        is_clean: link.is_clean,
                        is_present,
                        subscriptions: subscriptions(&session),
                    });
                }
                Action::Refuse { connection, .. } | Action::Disconnect { connection, .. } => {
                    self.close(connection, sent);
                }
            }
        }
    }

    pub(super) fn connect(&mut self, now: Instant, client: u8, is_clean: bool, sent: &mut Sent) {
        let connect = Connect {
            client: super::client(client),
            is_clean,
        };
        let mut actions = Vec::new();
        let begun = self.connections.begin(now, connect, &self.state, &mut actions);
        let link = Link {
            client,
            is_clean,
            is_closing: false,
            birth: None,
        };
        self.links.insert(begun.expect("room"), link);
        self.act(actions, sent);
    }

    pub(super) fn leave(&mut self, connection: ConnectionId, sent: &mut Sent) {
        self.step(Event::Ended { connection }, sent);
        self.close(connection, sent);
    }

    /// The connection ends when its events are durable.
    fn close(&mut self, connection: ConnectionId, sent: &mut Sent) {
        if let Some(link) = self.links.get_mut(&connection) {
            link.is_closing = true;
        }
        self.complete_waits(sent);
    }

    pub(super) fn subscribe(&mut self, connection: ConnectionId, sent: &mut Sent) {
        let Some(birth) = self.links[&connection].birth else {
            return;
        };
        let number = self.emit(connection, BTreeSet::new(), Hlc::ZERO, sent, |_| {
            Some((Fact::Subscription, birth))
        });
        self.wait(number, connection, Awaited::Subscription);
    }

    fn wait(&mut self, number: u64, connection: ConnectionId, what: Awaited) {
        self.waits.push(Wait {
            number,
            connection,
            what,
        });
    }

    /// Says what is durable at all present nodes.
    fn complete_waits(&mut self, sent: &mut Sent) {
        let confirmed = self
            .peers()
            .map(|peer| self.confirmed.get(&peer).copied().unwrap_or(0))
            .min()
            .unwrap_or(u64::MAX);
        let waits = std::mem::take(&mut self.waits).into_iter();
        let (done, waits) = waits.partition(|wait| wait.number <= confirmed);
        self.waits = waits;
        let done: Vec<Wait> = done;
        for wait in done {
            let connection = wait.connection;
            match wait.what {
                Awaited::Session { round } => self.step(Event::SessionDurable { connection, round }, sent),
                Awaited::Subscription => {
                    let (run, number) = (self.run, wait.number);
                    let Some(link) = self.links.get(&connection) else {
                        continue;
                    };
                    let client = link.client;
                    let dot = Dot { run, number };
                    sent.reports.push(Report::Subscribed { client, dot });
                }
                Awaited::Nothing => {}
            }
        }
        let awaited: BTreeSet<ConnectionId> = self.waits.iter().map(|wait| wait.connection).collect();
        let links = self.links.iter();
        let closed: Vec<ConnectionId> = links
            .filter(|(connection, link)| link.is_closing && !awaited.contains(connection))
            .map(|(connection, _)| *connection)
            .collect();
        for connection in closed {
            if self.links.contains_key(&connection) {
                self.step(Event::Closed { connection }, sent);
            }
        }
    }

    /// Connections that have not ended.
    pub(super) fn open(&self, is_live: bool) -> Vec<ConnectionId> {
        let links = self.links.iter().filter(|(_, link)| !link.is_closing);
        let connections = links.map(|(connection, _)| *connection);
        connections
            .filter(|connection| !is_live || self.connections.is_live(*connection))
            .collect()
    }

    pub(super) fn live_of(&self, client: u8) -> usize {
        let live = self.open(true).into_iter();
        live.filter(|connection| self.links[connection].client == client)
            .count()
    }

    /// The copy has no connection but those that are live somewhere.
    pub(super) fn assert_no_losers(&self) {
        let mut outgoing = Vec::new();
        release_losers(self.state.copy.entries(), &self.state, &mut outgoing);
        assert_eq!(outgoing, []);
    }
}
