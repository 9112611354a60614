//! Nodes that have called: one of the cluster says where it is to be found, another one waits to be taken in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::control::Control;
use cluster::forming::Founder;
use cluster::peers::PeerAddress;
use mqtt::now::Now;

/// Nodes that have called.
#[derive(Debug, Default)]
pub(super) struct Callers {
    strangers: BTreeMap<NodeId, (Founder, Instant)>,
    /// Nodes of the cluster that are elsewhere than it knows.
    moved: BTreeMap<NodeId, PeerAddress>,
}

/// A node that has not called for so long is not waiting any more.
const CALL_HOLDS: Duration = Duration::from_secs(30);

/// As many strangers are remembered; of more, those that called last.
const STRANGERS_MAX: usize = 32;

impl Callers {
    /// A node called.
    pub(super) fn called(&mut self, now: Now, caller: Founder, control: &Control) {
        if let Some(known) = control.nodes().get(&caller.node) {
            self.moved.remove(&caller.node);
            if known.address != caller.address {
                self.moved.insert(caller.node, caller.address);
            }
            return;
        }
        if self.strangers.len() >= STRANGERS_MAX && !self.strangers.contains_key(&caller.node) {
            let oldest = self.strangers.iter().min_by_key(|(_, (_, called))| *called);
            if let Some(oldest) = oldest.map(|(node, _)| *node) {
                self.strangers.remove(&oldest);
            }
        }
        self.strangers.insert(caller.node, (caller, now.instant));
    }

    /// Forgets who does not call any more, and what the cluster knows by now.
    pub(super) fn forget(&mut self, now: Now, control: &Control) {
        self.strangers
            .retain(|_, (_, called)| *called + CALL_HOLDS > now.instant);
        self.moved.retain(|node, address| {
            let known = control.nodes().get(node);
            known.is_some_and(|known| known.address != *address)
        });
    }

    /// A stranger, by its id or its address.
    pub(super) fn find(&self, who: &str) -> Option<Founder> {
        let mut strangers = self.strangers.values().map(|(stranger, _)| stranger);
        strangers
            .find(|stranger| stranger.address.as_str() == who || stranger.node.to_string() == who)
            .cloned()
    }

    /// Nodes that wait to be taken in.
    pub(super) fn waiting(&self, control: &Control) -> BTreeSet<Founder> {
        let strangers = self.strangers.values().map(|(stranger, _)| stranger);
        let is_known = |stranger: &&Founder| control.nodes().contains_key(&stranger.node);
        strangers
            .filter(|stranger| !is_known(stranger))
            .cloned()
            .collect()
    }

    /// Nodes of the cluster that are elsewhere than it knows.
    pub(super) fn moved(&self) -> Vec<Founder> {
        let moved = self.moved.iter().map(|(node, address)| Founder {
            node: *node,
            address: address.clone(),
        });
        moved.collect()
    }
}
