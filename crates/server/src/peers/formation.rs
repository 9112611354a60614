//! Forms the cluster, or waits until others have: what `cluster::forming` decides is carried out here, before there is a node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::NodeId;
use cluster::forming::{Action, Event, Forming, Founder, Founding, Stage, Step, Waiting};
use cluster::peers::{Frame, PeerAddress};
use storage::{Storage, write_membership};
use tokio::sync::mpsc;
use tokio::time::sleep_until;

use super::{PeerEvent, Peers, not_serving};
use crate::admin::AdminRequest;
use crate::clock;
use crate::condition::Condition;
use crate::error::RunError;

/// How often the log says what is waited for.
const SAY_EVERY: Duration = Duration::from_secs(5);

/// The first time it is said; a cluster whose nodes are all there is formed before.
const SAY_FIRST: Duration = Duration::from_secs(1);

/// Waits until the cluster is formed. What is found is durable.
pub(crate) async fn form(
    peers: &Peers,
    events: &mut mpsc::Receiver<PeerEvent>,
    requests: &mut mpsc::Receiver<AdminRequest>,
    storage: &mut impl Storage,
    stage: Stage,
) -> Result<Founding, RunError> {
    if let Stage::Bound(Step::Formed, founding) = stage {
        peers.join(&founding);
        return Ok(founding);
    }
    let shared = &peers.shared;
    let own = Founder {
        node: shared.identity.node,
        address: shared.settings.address.clone(),
    };
    tracing::info!(node = %own.node, address = %own.address, size = shared.settings.size, "waiting for a cluster to be formed");
    if let Stage::Bound(_, founding) = &stage {
        founding
            .founders()
            .iter()
            .for_each(|founder| shared.learn(founder));
    }
    let size = usize::from(shared.settings.size);
    let mut formation = Formation {
        peers,
        forming: Forming::new(clock::instant(), own, size, shared.settings.groups, stage),
        contacts: BTreeMap::new(),
        foreign: Vec::new(),
    };
    let mut say_at = clock::instant() + SAY_FIRST;
    loop {
        if let Some(founding) = formation.go_on(storage)? {
            let founders: Vec<_> = founding.ids().iter().map(ToString::to_string).collect();
            let founders = founders.join(" ");
            tracing::info!(cluster = %founding.cluster(), %founders, "the cluster is formed");
            peers.join(&founding);
            return Ok(founding);
        }
        let deadline = formation.forming.deadline();
        tokio::select! {
            Some(event) = events.recv() => formation.take(event, storage)?,
            () = shared.contacts_changed.notified() => {}
            Some(request) = requests.recv() => not_serving::answer(peers, &formation.condition(), request),
            () = sleep_until(deadline.min(say_at).into()) => {}
        }
        if say_at <= clock::instant() {
            tracing::info!("{}", formation.waiting());
            say_at = clock::instant() + SAY_EVERY;
        }
    }
}

/// A cluster that is being formed.
struct Formation<'a> {
    peers: &'a Peers,
    forming: Forming,
    /// As the state machine knows them.
    contacts: BTreeMap<NodeId, Founder>,
    foreign: Vec<PeerAddress>,
}

impl Formation<'_> {
    /// Tells the state machine what has changed. The cluster, if it is formed.
    fn go_on(&mut self, storage: &mut impl Storage) -> Result<Option<Founding>, RunError> {
        let unanswered = self.peers.shared.unanswered();
        self.step(Event::Unanswered(unanswered), storage)?;
        let contacts = self.peers.shared.contacts();
        let before = std::mem::replace(&mut self.contacts, contacts.clone());
        for node in before.keys().filter(|node| !contacts.contains_key(node)) {
            self.step(Event::Lost(*node), storage)?;
        }
        for (node, founder) in &contacts {
            if before.get(node) != Some(founder) {
                self.step(Event::Met(founder.clone()), storage)?;
            }
        }
        let foreign = self.foreign_addresses();
        let before = std::mem::replace(&mut self.foreign, foreign.clone());
        for address in before.iter().filter(|address| !foreign.contains(address)) {
            self.step(Event::NotForeign(address.clone()), storage)?;
        }
        for address in foreign.iter().filter(|address| !before.contains(address)) {
            self.step(Event::Foreign(address.clone()), storage)?;
        }
        self.step(Event::Timeout, storage)?;
        Ok(match self.forming.stage() {
            Stage::Bound(Step::Formed, founding) => Some(founding.clone()),
            _ => None,
        })
    }

    fn foreign_addresses(&self) -> Vec<PeerAddress> {
        let targets = self.peers.shared.targets.borrow();
        let foreign = targets.iter().filter(|(_, target)| target.is_foreign.get());
        foreign.map(|(address, _)| address.clone()).collect()
    }

    fn take(&mut self, event: PeerEvent, storage: &mut impl Storage) -> Result<(), RunError> {
        match event {
            // There is nobody for it yet; it will be sent again.
            PeerEvent::Messages(..) | PeerEvent::Heard(_) => Ok(()),
            // Only where a cluster is formed is anybody no member.
            PeerEvent::Called(_) => Ok(()),
            PeerEvent::Statement(node, statement) => {
                for founder in &statement.sees {
                    self.peers.shared.learn(founder);
                }
                self.step(Event::Told(node, statement), storage)
            }
        }
    }

    fn step(&mut self, event: Event, storage: &mut impl Storage) -> Result<(), RunError> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            let mut actions = Vec::new();
            self.forming.step(clock::instant(), event, &mut actions);
            for action in actions {
                match action {
                    Action::Tell(node, statement) => {
                        self.peers.shared.say(node, &Frame::Statement(statement));
                    }
                    Action::Persist(stage) => {
                        write_membership(storage, &stage)?;
                        events.push(Event::Persisted);
                    }
                    // The stage says so as well.
                    Action::Formed(_) => {}
                }
            }
        }
        Ok(())
    }

    /// What is waited for, in words for an operator.
    fn waiting(&self) -> String {
        let size = self.peers.shared.settings.size;
        let all = |founders: &[Founder]| {
            let named = founders
                .iter()
                .map(|founder| format!("node {} at {}", founder.node, founder.address));
            named.collect::<Vec<_>>().join(", ")
        };
        match self.forming.waiting() {
            Waiting::Missing { met, missing } => {
                let nodes = if missing == 1 { "node" } else { "nodes" };
                let have = if met.is_empty() {
                    String::new()
                } else {
                    format!("; have {}", all(&met))
                };
                format!(
                    "waiting for {missing} more {nodes} of {size}{have}{}",
                    self.unreachable()
                )
            }
            Waiting::TooMany(met) => format!(
                "{} nodes want to form a cluster of {size}: stop the one that does not belong to it, or set cluster.size \
                 on all of them; besides this one there are {}",
                met.len() + 1,
                all(&met)
            ),
            Waiting::Unequal(met) => format!(
                "waiting until all {size} nodes see each other; this one sees {}{}",
                all(&met),
                self.unreachable()
            ),
            Waiting::Foreign(address) => format!(
                "at {address} is a cluster that is formed and does not know this node: if it is to become a member, tell one of its \
                 nodes by `statehold cluster add {} --admin URL`, where URL is that of its admin pages",
                self.peers.shared.identity.node
            ),
            Waiting::Unanswered(addresses) => self.unanswered(&addresses),
            Waiting::Promised(silent) => format!(
                "all {size} nodes have seen each other; waiting for the promise of {}{}. If one of them is gone for ever, begin \
                 again with empty data directories on all that wait",
                all(&silent),
                self.unreachable()
            ),
        }
    }

    fn condition(&self) -> Condition {
        Condition::NotFormed(self.waiting())
    }

    fn unanswered(&self, addresses: &BTreeSet<PeerAddress>) -> String {
        let shared = &self.peers.shared;
        let named: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        let named = named.join(", ");
        let unreachable = self.unreachable();
        if shared.settings.size != 1 {
            return format!("waiting for an answer from {named}: a cluster may be there{unreachable}");
        }
        format!(
            "cluster.size = 1 is a cluster of this node alone, and cluster.join names {named}: leave join out for that (--join); \
             if this node is to become a member of a cluster there, tell one of its nodes by `statehold cluster add {} --admin \
             URL`, where URL is that of its admin pages{unreachable}",
            shared.identity.node
        )
    }

    fn unreachable(&self) -> String {
        let unreachable = self.peers.shared.unreachable();
        let each = unreachable
            .iter()
            .map(|(address, why)| format!("; cannot reach {address}: {why}"));
        each.collect()
    }
}
