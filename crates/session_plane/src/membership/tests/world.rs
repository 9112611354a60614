//! World of a history: memberships against each other on a simulated clock.

use std::collections::BTreeMap;

use super::naive::Naive;
use super::network::{Message, Network, Said};
use super::peer::Begun;
use super::*;

/// Time between two looks at everything.
pub(super) const TICK: u64 = 50;
const HEARTBEAT_EVERY: u64 = 200;
/// Time that transfers take.
const TRANSFER: u64 = 400;

/// Time in which the consequences of a disturbance end: silence, a mutual conviction that follows
/// one silence later, and its half.
const CONSEQUENCES: u64 = 3 * SILENCE_MAX + 500;

#[derive(Debug)]
pub(super) struct Machine {
    pub(super) membership: Membership,
    naive: Naive,
    start: u32,
    pub(super) is_alive: bool,
    pub(super) is_paused: bool,
    /// Time in which the process did not run.
    paused_for: u64,
    heartbeat_at: u64,
    marked_at: u64,
}

/// Something that a membership did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) at: u64,
    pub(super) by: u64,
    pub(super) action: Action,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) now: u64,
    pub(super) machines: BTreeMap<u64, Machine>,
    pub(super) network: Network,
    pub(super) seen: Vec<Seen>,
    /// Last time at which the first node gave up or suspected the second.
    turned_away: BTreeMap<(u64, u64), u64>,
    count: u64,
}

impl Machine {
    fn new(id: u64, start: u32, count: u64, now: u64) -> Machine {
        let membership = Membership::new(at(now), &config(id, start, count)).expect("a cluster");
        Machine {
            naive: Naive::new(node(id)),
            membership,
            start,
            is_alive: true,
            is_paused: false,
            paused_for: 0,
            heartbeat_at: 0,
            marked_at: now,
        }
    }

    fn runs(&self) -> bool {
        self.is_alive && !self.is_paused
    }

    /// Incarnations of the lower and the higher node by which the stay with `peer` began.
    pub(super) fn stay_with(&self, peer: u64) -> Option<(SwimIncarnation, SwimIncarnation)> {
        self.membership.peer(node(peer)).map(|peer| match &peer.begun {
            Begun::Confirmed(confirm) => (confirm.offer, confirm.answer.incarnation),
            Begun::Answered(answered) => (answered.offer, answered.answer),
        })
    }
}

impl World {
    /// Nodes 1 to `count`, which have just been started.
    pub(super) fn new(count: u64) -> World {
        let machines = (1..=count).map(|id| (id, Machine::new(id, 1, count, 0)));
        World {
            now: 0,
            machines: machines.collect(),
            network: Network::default(),
            seen: Vec::new(),
            turned_away: BTreeMap::new(),
            count,
        }
    }

    /// Nodes 1 to `count`, which all run.
    pub(super) fn settled(count: u64) -> World {
        let mut world = World::new(count);
        world.pass(2 * FOUND_AFTER);
        world.assert_agreed();
        world.seen.clear();
        world
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.count
    }

    pub(super) fn membership(&self, id: u64) -> &Membership {
        &self.machines[&id].membership
    }

    fn machine(&mut self, id: u64) -> &mut Machine {
        self.machines.get_mut(&id).expect("a node of the world")
    }

    /// Clock of a process: it stands while the process does.
    fn local(&self, id: u64) -> u64 {
        self.now - self.machines[&id].paused_for
    }

    pub(super) fn pass(&mut self, millis: u64) {
        let end = self.now + millis;
        while self.now < end {
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.now += TICK;
        self.network.note_disturbed(self.now);
        for id in self.ids() {
            let now = self.now;
            let machine = self.machine(id);
            if machine.is_paused {
                machine.paused_for += TICK;
            }
            if !machine.runs() {
                self.network.disturb(id, now);
                continue;
            }
            self.receive_all(id);
            self.find_refused(id);
            self.run_timers(id);
        }
    }

    fn receive_all(&mut self, id: u64) {
        for from in self.ids() {
            while let Some(message) = self.network.receive(self.now, (from, id)) {
                self.receive(id, from, message);
            }
        }
    }

    fn receive(&mut self, id: u64, from: u64, message: Message) {
        let now = at(self.local(id));
        let machine = self.machine(id);
        let stay = machine.stay_with(from);
        let mut actions = Vec::new();
        let membership = &mut machine.membership;
        match message {
            Message::Handshake(message) => {
                let received = membership.receive_handshake(now, node(from), &message, &mut actions);
                assert_no_violation(received);
            }
            Message::OfStay(of, _) if stay != Some(of) => return,
            Message::OfStay(_, said) => {
                machine.naive.receive(now, node(from), &said);
                receive_said(membership, now, node(from), &said, &mut actions);
            }
        }
        self.apply(id, actions);
    }

    /// A peer whose process has ended, or whose link breaks, refuses connections.
    fn find_refused(&mut self, id: u64) {
        let peers: Vec<u64> = self.membership(id).peers().map(|peer| peer.0).collect();
        for peer in peers {
            let is_gone = !self.machines[&peer].is_alive && self.network.reaches_both_ways(id, peer);
            if is_gone && self.now.is_multiple_of(100) {
                let machine = self.machine(id);
                assert_eq!(machine.membership.record_refused(node(peer)), Ok(()));
                machine.naive.refused.insert(node(peer));
            }
        }
    }

    fn run_timers(&mut self, id: u64) {
        let (local, now) = (self.local(id), self.now);
        let machine = self.machine(id);
        let mut actions = Vec::new();
        let deadline = machine.membership.deadline();
        let dead = machine.naive.dead(at(local));
        if deadline.is_some_and(|deadline| deadline <= at(local)) {
            machine.membership.tick(at(local), &mut actions);
        }
        let given_up: BTreeSet<NodeId> = actions.iter().filter_map(given_up).collect();
        assert_eq!(given_up, dead, "node {id} at {now}");
        self.apply(id, actions);
        if now >= self.machines[&id].marked_at + TRANSFER {
            let progress = TransferProgress {
                has_given: true,
                has_received: true,
                has_met_all: true,
            };
            let mut actions = Vec::new();
            let membership = &mut self.machine(id).membership;
            membership.record_progress(at(local), progress, &mut actions);
            self.apply(id, actions);
        }
        if now >= self.machines[&id].heartbeat_at {
            self.machine(id).heartbeat_at = now + HEARTBEAT_EVERY;
            self.send_heartbeats(id);
        }
    }

    fn send_heartbeats(&mut self, id: u64) {
        let now = at(self.local(id));
        let peers: Vec<NodeId> = self.membership(id).answered_peers().collect();
        let suspects = self.membership(id).peers().filter(|peer| !peers.contains(peer));
        let suspects: Vec<NodeId> = suspects.collect();
        for suspect in suspects {
            self.turned_away.insert((id, suspect.0), self.now);
        }
        for peer in peers {
            let machine = self.machine(id);
            assert_eq!(machine.membership.record_answered(now, peer), Ok(()));
            machine.naive.answered.insert(peer, now);
            self.say(id, peer.0, Said::Heartbeat);
        }
    }

    fn say(&mut self, from: u64, to: u64, said: Said) {
        let stay = self.machines[&from].stay_with(to).expect("a present peer");
        self.network
            .send(self.now, (from, to), Message::OfStay(stay, said));
    }

    /// Applies actions as the node does, and sends the ring marker that they ask for.
    fn apply(&mut self, id: u64, actions: Vec<Action>) {
        for action in actions {
            self.check(id, &action);
            let (by, now) = (id, self.now);
            self.apply_one(id, &action);
            self.seen.push(Seen { at: now, by, action });
        }
        if !self.membership(id).is_changed() {
            return;
        }
        let view = self.membership(id).view();
        let peers: Vec<u64> = self.membership(id).peers().map(|peer| peer.0).collect();
        for peer in peers {
            self.say(id, peer, Said::Marker(view.clone()));
        }
        let now = self.now;
        let machine = self.machine(id);
        machine.membership.record_marker(view);
        machine.marked_at = now;
        assert!(!machine.membership.is_changed());
    }

    fn apply_one(&mut self, id: u64, action: &Action) {
        let now = at(self.local(id));
        match action {
            Action::SendHandshake { to, message } => self.send_handshake(id, to.0, message),
            Action::SendConviction { to, convicted } => self.say(id, to.0, Said::Conviction(*convicted)),
            Action::Met { peer } => self.machine(id).naive.meet(now, peer),
            Action::GaveUp { run, .. } => {
                self.machine(id).naive.part(run.node);
                self.turned_away.insert((id, run.node.0), self.now);
                self.network.drop_sent((id, run.node.0));
            }
            Action::StateChanged { .. } => {}
        }
    }

    fn send_handshake(&mut self, id: u64, to: u64, message: &Handshake) {
        let message = Message::Handshake(message.clone());
        self.network.send(self.now, (id, to), message);
        // A repeated Confirm begins a connection: the stream is sent again, from its Welcome on.
        let marked = self.membership(id).marked.clone();
        if self.membership(id).is_present(node(to)) && marked.find(node(to)).is_some() {
            self.say(id, to, Said::Marker(marked));
        }
    }

    /// Checks what must hold whenever a membership acts.
    fn check(&self, id: u64, action: &Action) {
        match action {
            Action::Met { peer } => self.check_met(id, peer),
            Action::GaveUp { run, reason } => self.check_given_up(id, *run, *reason),
            _ => {}
        }
    }

    /// Both have given up the stay before.
    fn check_met(&self, id: u64, peer: &PresentNode) {
        let (mine, theirs) = (&self.machines[&id], &self.machines[&peer.run.node.0]);
        let known = theirs.membership.find(node(id)).map(|known| known.run);
        let is_of_these = theirs.is_alive
            && theirs.membership.own().run == peer.run
            && known == Some(mine.membership.own().run);
        if is_of_these {
            let (stay, other) = (mine.stay_with(peer.run.node.0), theirs.stay_with(id));
            assert_eq!(stay, other, "two stays at once");
        }
    }

    /// A node that answers everybody, and has for a while, is not given up.
    fn check_given_up(&self, id: u64, run: Run, reason: GiveUpReason) {
        let peer = run.node.0;
        let since = self.now.saturating_sub(CONSEQUENCES);
        let is_recent = |at: Option<u64>| at.is_some_and(|at| at >= since);
        let is_disturbed = is_recent(self.network.disturbed_at(peer));
        let is_turned_away = is_recent(self.turned_away.get(&(peer, id)).copied());
        let is_new = self.machines[&peer].membership.own().run != run;
        assert!(
            is_disturbed || is_turned_away || is_new,
            "node {id} gives up {peer} at {}, which answers: {reason:?}",
            self.now
        );
    }

    pub(super) fn crash(&mut self, id: u64) {
        self.machine(id).is_alive = false;
        for peer in self.ids() {
            self.network.drop_sent((id, peer));
        }
    }

    pub(super) fn restart(&mut self, id: u64) {
        let (start, count, now) = (self.machines[&id].start + 1, self.count, self.now);
        self.machines.insert(id, Machine::new(id, start, count, now));
    }

    /// All who run have all who run present, and are RUNNING.
    #[track_caller]
    pub(super) fn assert_agreed(&self) {
        let alive = self.machines.iter().filter(|(_, machine)| machine.is_alive);
        let alive: Vec<NodeId> = alive.map(|(id, _)| node(*id)).collect();
        for id in &alive {
            let membership = self.membership(id.0);
            let view = membership.view();
            let present: Vec<NodeId> = view.nodes().iter().map(|present| present.run.node).collect();
            assert_eq!(present, alive, "node {} at {}", id.0, self.now);
            let states = view.nodes().iter().map(|present| present.state);
            assert!(
                states.into_iter().all(|state| state == NodeState::Running),
                "{view:?}"
            );
            assert_eq!(membership.answered_peers().count(), alive.len() - 1);
            for peer in membership.peers() {
                assert_eq!(
                    self.machines[&id.0].stay_with(peer.0),
                    self.machines[&peer.0].stay_with(id.0)
                );
            }
        }
    }

    /// Events of giving up, as (who, whom).
    pub(super) fn gave_up(&self) -> Vec<(u64, u64)> {
        let seen = self.seen.iter();
        let given_up = seen.filter_map(|seen| Some((seen.by, given_up(&seen.action)?.0)));
        given_up.collect()
    }
}

fn given_up(action: &Action) -> Option<NodeId> {
    match action {
        Action::GaveUp { run, .. } => Some(run.node),
        _ => None,
    }
}

/// What is late is dropped; nothing else is refused among nodes that follow the rules.
fn assert_no_violation(received: Result<(), HandshakeError>) {
    let is_harmless = matches!(
        received,
        Ok(())
            | Err(HandshakeError::StillPresent { .. }
                | HandshakeError::Late { .. }
                | HandshakeError::OlderRun { .. })
    );
    assert!(is_harmless, "{received:?}");
}

fn receive_said(
    membership: &mut Membership,
    now: Instant,
    from: NodeId,
    said: &Said,
    actions: &mut Vec<Action>,
) {
    match said {
        Said::Marker(view) => assert_eq!(membership.receive_marker(now, from, view, actions), Ok(())),
        Said::Heartbeat => assert_eq!(membership.record_heard(now, from), Ok(())),
        Said::Conviction(stay) => assert_eq!(membership.receive_conviction(now, from, *stay), Ok(())),
    }
}
