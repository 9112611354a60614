//! Faults in the middle of what takes several steps: right when a node has told somebody about the first of them.

use super::World;
use crate::ids::NodeId;
use crate::node::{GroupObservation, Observation};
use crate::random::{Purpose, Random};

/// Such faults in a history at most.
const INTERRUPTIONS: u32 = 6;

impl World {
    /// One history of eight has such faults.
    pub(super) fn is_interrupted(&self) -> bool {
        matches!(self.seed % 32, 0 | 7 | 11 | 24)
    }

    /// From here on everything comes to rest.
    pub(super) fn end_interruptions(&mut self) {
        self.interruptions = INTERRUPTIONS;
    }

    /// Ends the process of `node`, or disturbs a link of it, after some of the things that it does.
    pub(super) fn interrupt(&mut self, node: NodeId, observation: &Observation) {
        if !self.is_interrupted() || !is_first_of_many(observation) {
            return;
        }
        let purpose = Purpose::Interruption {
            now: self.now,
            node: node.0,
        };
        let mut random = Random::new(self.seed, purpose);
        if !random.chance(1, 6) || self.interruptions >= INTERRUPTIONS {
            return;
        }
        self.interruptions += 1;
        match random.below(5) {
            0 => self.plan_crash(node, random.ticks(3)),
            1 | 2 => {
                // Only a part of what it has just sent arrives.
                for _ in 0..1 + random.below(3) {
                    self.slow_down(node, &mut random);
                }
                self.plan_crash(node, 0);
            }
            3 => self.slow_down(node, &mut random),
            _ => {
                let alive: Vec<NodeId> = self.alive().iter().collect();
                let other = random.pick(&alive);
                self.plan_crash(other, random.ticks(3));
            }
        }
    }
}

/// The node has told others of something that is not complete yet.
fn is_first_of_many(observation: &Observation) -> bool {
    match observation {
        Observation::Group(observation) => matches!(
            observation,
            GroupObservation::Assigned { .. }
                | GroupObservation::Given { .. }
                | GroupObservation::Delivered { .. }
        ),
        Observation::Delivered { packet, .. } => packet.is_some(),
        Observation::Numbered { .. }
        | Observation::Routed { .. }
        | Observation::PubRec { .. }
        | Observation::PubRel { .. }
        | Observation::WillRouted { .. }
        | Observation::Connected { .. } => true,
        _ => false,
    }
}
