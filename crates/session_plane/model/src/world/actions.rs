//! The plan of a history: what clients and faults do, and when.

use super::World;
use super::clients::{Client, Place};
use super::network::Speed;
use super::replacing::{Replacing, SourceAction};
use crate::ids::{ClientId, NODES, NodeId, NodeSet, RUNS};
use crate::node::SILENCE_MAX;
use crate::random::{Purpose, Random};

/// Ticks in which a history must come to rest.
const REST: u32 = 220;

/// Rounds in which clients must have what they are promised, beyond those in which they connect.
const DRAIN: u32 = 12;

/// Kind of an action.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Action {
    Publish,
    /// Something that a client does with its session.
    UseSession,
    /// A client begins a session, often clean, or ends it.
    RenewSession,
    Subscribe,
    Crash,
    LoseDisk,
    Restart,
    Split,
    /// A split with one node on a side.
    Isolate,
    DisturbLink,
    DisturbNode,
    Heal,
    /// In histories that replace nodes.
    OfSource(SourceAction),
}

impl Action {
    /// An action by its share of 100.
    fn drawn(number: usize) -> Action {
        match number {
            0..=27 => Action::Publish,
            28..=47 => Action::UseSession,
            48..=53 => Action::Subscribe,
            54..=61 => Action::Crash,
            62..=64 => Action::LoseDisk,
            65..=72 => Action::Restart,
            73..=78 => Action::Split,
            79..=84 => Action::DisturbLink,
            85..=88 => Action::DisturbNode,
            _ => Action::Heal,
        }
    }
}

/// Numbers that an action draws, whatever it makes of them.
#[derive(Clone, Copy, Debug)]
struct Draw {
    client: ClientId,
    node: NodeId,
    other: usize,
    /// 0 to 99.
    share: usize,
    bits: u16,
}

impl World {
    /// Plays the plan: clients connect and subscribe, then a storm of either kind.
    pub(super) fn play_plan(&mut self) {
        let mut random = Random::new(self.seed, Purpose::Plan);
        let first: Vec<NodeId> = ClientId::all()
            .map(|_| NodeId(random.below(self.machines.len()) as u8))
            .collect();
        for (client, node) in ClientId::all().zip(first) {
            if random.chance(5, 6) {
                self.connect(client, node, false);
            }
        }
        self.ticks(12);
        let is_dense = random.chance(1, 3);
        for client in ClientId::all() {
            let place = self.client(client).at;
            if let Some(place) = place.filter(|_| random.chance(if is_dense { 2 } else { 5 }, 6)) {
                self.subscribe(client, place);
            }
        }
        self.ticks(8);
        if Replacing::is_played(self.seed) {
            self.play_replacements(&mut random);
        } else if self.seed % 8 == 6 {
            self.play_renewals(&mut random);
        } else if is_dense {
            self.play_dense(&mut random);
        } else {
            self.play_mixed(&mut random);
        }
    }

    /// Disturbances of links, with subscriptions and messages around the time at which nodes are declared dead.
    fn play_dense(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(3) {
            for _ in 0..1 + random.below(3) {
                let action = Action::drawn(79 + random.below(10));
                let pause = if random.chance(1, 2) { 0 } else { random.ticks(5) };
                self.act(Some(action), pause);
            }
            self.ticks(random.ticks(SILENCE_MAX + 4));
            for _ in 0..1 + random.below(3) {
                let uses = if random.chance(3, 4) {
                    Action::Subscribe
                } else {
                    Action::UseSession
                };
                self.act(Some(uses), random.ticks(5));
                for _ in 0..random.below(5) {
                    self.act(Some(Action::Publish), random.ticks(3));
                }
                if random.chance(1, 4) {
                    let action = Action::drawn(54 + random.below(11));
                    self.act(Some(action), random.ticks(4));
                }
            }
            if random.chance(1, 2) {
                self.act(Some(Action::Heal), random.ticks(20));
            }
            if random.chance(1, 3) {
                self.act(Some(Action::Restart), random.ticks(10));
            }
        }
    }

    /// Splits and crashes, with sessions that begin and end on each side.
    fn play_renewals(&mut self, random: &mut Random) {
        for _ in 0..2 + random.below(3) {
            let faults = [Action::Split, Action::Isolate, Action::Isolate, Action::Crash];
            let fault = random.pick(&faults);
            self.act(Some(fault), random.ticks(SILENCE_MAX * 2));
            for _ in 0..3 + random.below(4) {
                let others = [Action::Subscribe, Action::Publish];
                let action = if random.chance(3, 4) {
                    Action::RenewSession
                } else {
                    random.pick(&others)
                };
                self.act(Some(action), random.ticks(10));
            }
            if random.chance(2, 3) {
                let repair = random.pick(&[Action::Heal, Action::Restart]);
                self.act(Some(repair), random.ticks(30));
            }
        }
    }

    /// Actions of every kind at a random pace.
    fn play_mixed(&mut self, random: &mut Random) {
        let count = 8 + random.below(40);
        let pace = random.pick(&[1, 3, 6, 12]);
        for _ in 0..count {
            let pause = if random.chance(1, 8) {
                random.ticks(40)
            } else {
                random.ticks(pace + 1)
            };
            self.act(None, pause);
        }
    }

    /// Plays the next action, of a drawn kind if none is given, and a pause.
    pub(super) fn act(&mut self, action: Option<Action>, pause: u32) {
        if !self.goes_on() {
            return;
        }
        let index = self.actions;
        self.actions += 1;
        if !self.skipped.contains(&index) {
            let mut random = Random::new(self.seed, Purpose::Action(index));
            self.say(|| format!("#{index}"));
            self.act_as_publisher(index);
            self.act_as_member(index);
            self.play_action(action, &mut random);
        }
        self.ticks(pause);
    }

    fn play_action(&mut self, action: Option<Action>, random: &mut Random) {
        let alive: Vec<NodeId> = self.alive().iter().collect();
        let client = ClientId(random.below(crate::ids::CLIENTS) as u8);
        let drawn = Action::drawn(random.below(100));
        let (node, other, share, bits) = (
            random.below(64),
            random.below(64),
            random.below(100),
            random.below(1 << 10),
        );
        if alive.is_empty() {
            if let Some(node) = self.nodes().find(|node| !self.machines[node.index()].is_lost) {
                self.restart(node);
            }
            return;
        }
        let draw = Draw {
            client,
            node: alive[node % alive.len()],
            other,
            share,
            bits: bits as u16,
        };
        match action.unwrap_or(drawn) {
            Action::Publish => self.publish(draw.node),
            Action::UseSession => self.use_session(&draw),
            Action::RenewSession => self.renew_session(&draw),
            Action::Subscribe => self.subscribe_if_connected(&draw),
            Action::Crash if alive.len() > 1 || share < 30 => {
                self.say(|| format!("CRASH {}", draw.node.0));
                self.crash(draw.node, random);
            }
            Action::Crash => {}
            Action::LoseDisk => self.lose_if_allowed(draw.node, random),
            Action::Restart => self.restart_one(&draw),
            Action::Split => self.split(NodeSet::from_bits(draw.bits)),
            Action::Isolate => self.split(NodeSet::one(draw.node)),
            Action::DisturbLink => self.disturb_link(&draw),
            Action::DisturbNode => self.disturb_node(&draw),
            Action::OfSource(action) => self.play_source(action, random),
            Action::Heal => {
                self.say(|| "HEAL".to_owned());
                self.network.heal();
            }
        }
    }

    fn use_session(&mut self, draw: &Draw) {
        let (client, name) = (draw.client, draw.client.0);
        let Some(place) = self.client(client).at else {
            let clean = draw.share < 15;
            self.say(|| format!("CONNECT client {name} at {} clean={clean}", draw.node.0));
            self.connect(client, draw.node, clean);
            return;
        };
        match draw.share {
            0..=39 => self.subscribe(client, place),
            40..=49 => {
                self.say(|| format!("UNSUBSCRIBE client {name}"));
                self.client_mut(client).drop_promises();
                self.step_node(place.node, 1, |node, step| {
                    node.unsubscribe(step, place.connection);
                });
            }
            50..=57 => self.end_session(client, place),
            58..=75 => {
                self.end_connection(client, place);
            }
            _ => {
                self.say(|| format!("client {name} moves to {}", draw.node.0));
                self.connect(client, draw.node, false);
            }
        }
    }

    fn renew_session(&mut self, draw: &Draw) {
        let name = draw.client.0;
        match self.client(draw.client).at {
            Some(place) if draw.share < 50 => self.end_session(draw.client, place),
            _ => {
                let clean = draw.share.is_multiple_of(2);
                let node = if draw.other.is_multiple_of(2) {
                    self.most_alone()
                } else {
                    draw.node
                };
                self.say(|| format!("CONNECT client {name} at {} clean={clean}", node.0));
                self.connect(draw.client, node, clean);
            }
        }
    }

    /// A running node that has the fewest others.
    fn most_alone(&self) -> NodeId {
        let count = |node: &NodeId| self.node(*node).membership.view.present.len();
        let alive = self.alive();
        alive
            .iter()
            .min_by_key(count)
            .expect("an action is played where a node runs")
    }

    /// DISCONNECT, or in histories with wills often the loss of the connection.
    fn end_connection(&mut self, client: ClientId, place: Place) {
        self.client_mut(client).at = None;
        if self.draws_loss(client) {
            self.say(|| format!("client {} loses its connection", client.0));
            self.lose_will(place.connection);
            self.step_node(place.node, 1, |node, _| node.lose_connection(place.connection));
        } else {
            self.say(|| format!("DISCONNECT client {}", client.0));
            self.drop_will(place.connection);
            self.step_node(place.node, 1, |node, _| node.disconnect(place.connection));
        }
    }

    fn end_session(&mut self, id: ClientId, place: Place) {
        self.say(|| format!("END client {}", id.0));
        self.drop_will(place.connection);
        self.end_session_of_wills(id);
        let client = self.client_mut(id);
        client.drop_promises();
        client.forget_packet_ids();
        client.is_unsure = true;
        self.drop_exchanges(id);
        self.group.lose_member(id);
        self.step_node(place.node, 1, |node, step| {
            node.end_session(step, place.connection);
        });
    }

    fn subscribe_if_connected(&mut self, draw: &Draw) {
        let client = self.client(draw.client);
        if let Some(place) = client.at.filter(|_| !client.is_subscribed) {
            self.subscribe(draw.client, place);
        }
    }

    /// At most two disks, fewer than have to have what is acknowledged if that is said, and only in histories that lose disks.
    pub(super) fn lose_if_allowed(&mut self, node: NodeId, random: &mut Random) {
        let has_room = self.machines.len() < NODES && self.directory.node_of.len() + 6 < RUNS;
        let most = match self.directory.copies_min {
            1 => 2,
            copies => copies - 1,
        };
        if !self.keeps_disks && self.lost.len() < most && has_room {
            self.replace(node, random);
        }
    }

    fn restart_one(&mut self, draw: &Draw) {
        let is_dead = |node: &NodeId| {
            let machine = &self.machines[node.index()];
            !machine.is_alive && !machine.is_lost
        };
        let dead: Vec<NodeId> = self.nodes().filter(is_dead).collect();
        if !dead.is_empty() {
            let node = dead[draw.other % dead.len()];
            self.say(|| format!("RESTART {}", node.0));
            self.restart(node);
        }
    }

    /// Cuts all links between `side` and the others, and heals all within.
    pub(super) fn split(&mut self, side: NodeSet) {
        self.counters.splits += 1;
        self.say(|| format!("SPLIT {side:?}"));
        for from in (0..NODES as u8).map(NodeId) {
            for to in (0..NODES as u8).map(NodeId) {
                let speed = if side.has(from) == side.has(to) {
                    Speed::Fast
                } else {
                    Speed::Cut
                };
                self.network.set(from, to, speed);
            }
        }
    }

    fn disturb_link(&mut self, draw: &Draw) {
        let other = NodeId((draw.other % self.machines.len()) as u8);
        if other == draw.node {
            return;
        }
        let speed = if draw.share < 70 { Speed::Cut } else { Speed::Slow };
        let back = if draw.share.is_multiple_of(2) {
            speed
        } else {
            Speed::Fast
        };
        self.say(|| format!("LINK {} to {} {speed:?}, back {back:?}", draw.node.0, other.0));
        self.network.set(draw.node, other, speed);
        self.network.set(other, draw.node, back);
    }

    /// Disturbs all links to a node, or all from it.
    fn disturb_node(&mut self, draw: &Draw) {
        let speed = if draw.share < 50 { Speed::Cut } else { Speed::Slow };
        let is_inward = draw.share.is_multiple_of(2);
        self.say(|| format!("LINKS of {} {speed:?} inward={is_inward}", draw.node.0));
        for other in (0..NODES as u8).map(NodeId) {
            if is_inward {
                self.network.set(other, draw.node, speed);
            } else {
                self.network.set(draw.node, other, speed);
            }
        }
    }

    /// Heals and starts everything, and checks what must hold at rest.
    pub(super) fn come_to_rest(&mut self) {
        self.say(|| "HEAL ALL".to_owned());
        self.network.heal();
        self.publishers.forget_plans();
        self.end_interruptions();
        for node in self.nodes() {
            let machine = &self.machines[node.index()];
            if !machine.is_alive && !machine.is_lost && !self.restart(node) {
                self.outcome = super::Outcome::LeftOut;
                return;
            }
        }
        self.ticks(REST);
        if !self.goes_on() {
            return;
        }
        self.is_quiet = true;
        self.check_copies("at rest");
        self.drain();
        if self.goes_on() {
            self.check_copies("drained");
        }
        if self.goes_on() {
            self.check_clients();
        }
    }

    /// Lets clients connect and read what they have.
    fn drain(&mut self) {
        let mut random = Random::new(self.seed, Purpose::Action(u32::MAX));
        for _ in 0..4 {
            for client in ClientId::all() {
                let known = self.client(client);
                let wants = known.at.is_none() && (known.has_session || known.has_ended);
                if self.goes_on() && wants {
                    let alive: Vec<NodeId> = self.alive().iter().collect();
                    let node = random.pick(&alive);
                    self.say(|| format!("last CONNECT client {} at {}", client.0, node.0));
                    self.connect(client, node, false);
                }
            }
            self.ticks(40);
        }
        // A packet id is used for one message after the other.
        for _ in 0..DRAIN {
            if self.clients.iter().all(Client::has_what_is_promised) && self.group.has_what_is_promised() {
                return;
            }
            self.ticks(40);
        }
    }
}
