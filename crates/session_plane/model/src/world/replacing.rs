//! Plan of histories that lose a node right after it has given away what nobody else has.
//!
//! A *source* is alone, often in a new run. It makes changes, and meets one other node. That one merges them. The source is lost
//! before anybody else has met it, while the others hear little of the node that has merged.

use super::World;
use super::actions::Action;
use super::network::Speed;
use crate::ids::{ClientId, NODES, NodeId, NodeSet};
use crate::node::SILENCE_MAX;
use crate::random::Random;

/// Nodes that such a history is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacing {
    source: NodeId,
    /// Node that the source meets.
    met: NodeId,
}

impl Default for Replacing {
    fn default() -> Replacing {
        Replacing {
            source: NodeId(0),
            met: NodeId(1),
        }
    }
}

impl Replacing {
    /// One history of sixteen.
    pub(super) fn is_played(seed: u64) -> bool {
        seed % 16 == 4
    }
}

/// What happens to the source, and to the node that it meets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SourceAction {
    Isolate,
    Restart,
    Publish,
    Connect,
    Subscribe,
    Meet,
    /// The met node is heard of less, or not at all.
    Quieten,
    /// What the source has sent arrives late.
    Slow,
    Lose,
}

impl World {
    /// Sources that are lost, and everything else in between.
    pub(super) fn play_replacements(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(2) {
            self.draw_source(random);
            self.act_at_source(SourceAction::Isolate, SILENCE_MAX + random.ticks(12));
            if random.chance(2, 3) {
                self.act_at_source(SourceAction::Restart, random.ticks(6));
            }
            for _ in 0..1 + random.below(5) {
                let changes = [
                    SourceAction::Publish,
                    SourceAction::Publish,
                    SourceAction::Connect,
                    SourceAction::Subscribe,
                ];
                let change = random.pick(&changes);
                self.act_at_source(change, random.ticks(8));
            }
            self.act_at_source(SourceAction::Meet, 2 + random.ticks(14));
            if random.chance(1, 3) {
                self.act_at_source(SourceAction::Slow, random.ticks(2));
            }
            if random.chance(4, 5) {
                self.act_at_source(SourceAction::Quieten, random.ticks(3));
            }
            self.act_at_source(SourceAction::Lose, random.ticks(20));
            for _ in 0..random.below(4) {
                let others = [Action::Subscribe, Action::Publish, Action::UseSession];
                self.act(Some(random.pick(&others)), random.ticks(8));
            }
            self.act(Some(Action::Heal), random.ticks(30));
        }
    }

    fn act_at_source(&mut self, action: SourceAction, pause: u32) {
        self.act(Some(Action::OfSource(action)), pause);
    }

    /// Two nodes that run.
    fn draw_source(&mut self, random: &mut Random) {
        let alive: Vec<NodeId> = self.alive().iter().collect();
        if alive.len() > 1 {
            let source = random.pick(&alive);
            let others: Vec<NodeId> = alive.into_iter().filter(|node| *node != source).collect();
            let met = random.pick(&others);
            self.replacing = Replacing { source, met };
        }
    }

    pub(super) fn play_source(&mut self, action: SourceAction, random: &mut Random) {
        let Replacing { source, met } = self.replacing;
        let name = source.0;
        if !self.alive().has(source) {
            return;
        }
        let client = ClientId(random.below(crate::ids::CLIENTS) as u8);
        match action {
            SourceAction::Isolate => self.split(NodeSet::one(source)),
            SourceAction::Restart => {
                self.say(|| format!("CRASH and RESTART {name}"));
                self.crash(source, random);
                self.restart(source);
            }
            SourceAction::Publish => self.publish(source),
            SourceAction::Connect => {
                self.say(|| format!("CONNECT client {} at {name}", client.0));
                self.connect(client, source, random.chance(1, 2));
            }
            SourceAction::Subscribe => {
                if let Some(place) = self.client(client).at {
                    self.subscribe(client, place);
                }
            }
            SourceAction::Meet => {
                self.say(|| format!("LINKS between {name} and {} heal", met.0));
                self.network.set(source, met, Speed::Fast);
                self.network.set(met, source, Speed::Fast);
            }
            SourceAction::Quieten => self.quieten(met, random),
            SourceAction::Slow => {
                self.say(|| format!("LINK {name} to {} is slow, back cut", met.0));
                self.network.set(source, met, Speed::Slow);
                self.network.set(met, source, Speed::Cut);
            }
            SourceAction::Lose => self.lose_if_allowed(source, random),
        }
    }

    fn quieten(&mut self, node: NodeId, random: &mut Random) {
        let speed = random.pick(&[Speed::Cut, Speed::Slow, Speed::Slow]);
        self.say(|| format!("LINKS of {} {speed:?}", node.0));
        let others = (0..NODES as u8).map(NodeId);
        for other in others.filter(|other| *other != self.replacing.source) {
            if random.chance(4, 5) {
                self.network.set(node, other, speed);
            }
        }
    }
}
