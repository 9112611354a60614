//! How nodes become a cluster, once and for ever.
//!
//! Each node knows how many there are to be, and says to every node that it is in contact with which ones it sees. When all of a
//! whole cluster see the same ones, each promises, durably, to form a cluster of these and of no others; when all have promised, it
//! is formed. A promise cannot be taken back, and a cluster needs those of all its members: so no node is ever in two clusters, and
//! no two clusters share one.
//!
//! Not here: connections, and who may have one. Statements may be lost, doubled and reordered: a promise stays true, and what else
//! they say only makes nodes wait.

mod founding;
mod statement;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub use self::founding::{FOUNDERS_MAX, Founder, Founding};
pub use self::statement::Statement;
use crate::NodeId;
use crate::peers::PeerAddress;

/// One node on its way into a cluster.
#[derive(Debug)]
pub struct Forming {
    own: Founder,
    size: usize,
    groups: u32,
    /// As it is on disk.
    stage: Stage,
    /// What was asked to be made durable.
    persisting: Option<Stage>,
    /// Nodes that it is in contact with, and what they said last.
    others: BTreeMap<NodeId, (PeerAddress, Option<Statement>)>,
    /// Who has promised what this node has. They are bound, whether they can be reached or not.
    promised_by: BTreeSet<NodeId>,
    /// Formed clusters that this node is no member of, by the address that it was told at.
    foreign: BTreeSet<PeerAddress>,
    /// Addresses that it was given, and at which nobody has answered yet: a cluster may be there.
    unanswered: BTreeSet<PeerAddress>,
    /// The formed cluster that has taken it in, of whose founders it is none.
    invitation: Option<Founding>,
    /// When it says again what it sees: something may have been lost.
    next_tell: Instant,
}

/// How far a node is, as it is on disk.
///
/// ```text
///   Waiting --> Bound(Promised, these) --> Bound(Formed, these)
///       \---- invited: a formed cluster has taken it in ----/
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stage {
    /// It belongs to no cluster.
    Waiting,
    /// It belongs to this one and can never belong to another.
    Bound(Step, Founding),
}

/// How far a bound node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It forms this cluster or none.
    Promised,
    /// All members have promised: the cluster is formed.
    Formed,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// There is a connection to and from a node that is not formed, or one that is formed and has this node as a member.
    Met(Founder),
    /// There is no connection any more.
    Lost(NodeId),
    /// A node said this.
    Told(NodeId, Statement),
    /// At this address is a node of a formed cluster, which does not know this one.
    Foreign(PeerAddress),
    /// At this address is no such node any more.
    NotForeign(PeerAddress),
    /// Of the addresses that the node was given nobody has answered at these, and they are not given up.
    Unanswered(BTreeSet<PeerAddress>),
    /// The last [`Action::Persist`] is durable.
    Persisted,
    /// The time of [`Forming::deadline`] has come.
    Timeout,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Say this to a node. May be lost.
    Tell(NodeId, Statement),
    /// Make this durable, then answer with [`Event::Persisted`]. There is one at a time.
    Persist(Stage),
    /// The cluster is formed, and durably so.
    Formed(Founding),
}

/// Why a node waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waiting {
    /// Some nodes have not been met.
    Missing {
        /// Those that were, without this one.
        met: Vec<Founder>,
        /// How many were not.
        missing: usize,
    },
    /// There are more than are wanted.
    TooMany(Vec<Founder>),
    /// All were met, but not all by each other.
    Unequal(Vec<Founder>),
    /// A formed cluster is there.
    Foreign(PeerAddress),
    /// All were met, and at these addresses may be others.
    Unanswered(BTreeSet<PeerAddress>),
    /// All are promised to each other; these have not said so yet.
    Promised(Vec<Founder>),
}

/// How often a node says again what it sees.
const TELL_EVERY: Duration = Duration::from_millis(500);

impl Forming {
    /// A node with what it finds on its disk.
    pub fn new(now: Instant, own: Founder, size: usize, groups: u32, stage: Stage) -> Self {
        assert!((1..=FOUNDERS_MAX).contains(&size), "settings are checked");
        let promised_by = BTreeSet::from([own.node]);
        Self {
            own,
            size,
            groups,
            stage,
            persisting: None,
            others: BTreeMap::new(),
            promised_by,
            foreign: BTreeSet::new(),
            unanswered: BTreeSet::new(),
            invitation: None,
            next_tell: now,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Instant, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::Met(founder) => {
                self.others.insert(founder.node, (founder.address, None));
                self.next_tell = now;
            }
            Event::Lost(node) => {
                self.others.remove(&node);
                self.next_tell = now;
            }
            Event::Told(node, statement) => self.told(now, node, statement),
            Event::Foreign(address) => {
                self.foreign.insert(address);
            }
            Event::NotForeign(address) => {
                self.foreign.remove(&address);
            }
            Event::Unanswered(addresses) => self.unanswered = addresses,
            Event::Persisted => self.persisted(now, actions),
            Event::Timeout => {}
        }
        self.go_on(actions);
        if self.next_tell <= now {
            self.tell_all(actions);
            self.next_tell = now + TELL_EVERY;
        }
    }

    /// When [`Event::Timeout`] is due.
    pub fn deadline(&self) -> Instant {
        self.next_tell
    }

    /// How far it is.
    pub fn stage(&self) -> &Stage {
        &self.stage
    }

    /// What it says at the moment.
    pub fn statement(&self) -> Statement {
        Statement {
            sees: self.sees(),
            stage: self.stage.clone(),
        }
    }

    /// Why it is not formed.
    pub fn waiting(&self) -> Waiting {
        if let Stage::Bound(_, founding) = &self.stage {
            let silent = founding.founders().iter();
            let silent = silent.filter(|founder| !self.promised_by.contains(&founder.node));
            return Waiting::Promised(silent.cloned().collect());
        }
        if let Some(address) = self.foreign.first() {
            return Waiting::Foreign(address.clone());
        }
        let met: Vec<_> = self
            .sees()
            .into_iter()
            .filter(|other| *other != self.own)
            .collect();
        match (met.len() + 1).cmp(&self.size) {
            std::cmp::Ordering::Equal if !self.unanswered.is_empty() => {
                Waiting::Unanswered(self.unanswered.clone())
            }
            std::cmp::Ordering::Less => Waiting::Missing {
                missing: self.size - 1 - met.len(),
                met,
            },
            std::cmp::Ordering::Equal => Waiting::Unequal(met),
            std::cmp::Ordering::Greater => Waiting::TooMany(met),
        }
    }

    fn told(&mut self, now: Instant, node: NodeId, statement: Statement) {
        self.note_promise(node, &statement.stage);
        let Some((_, said)) = self.others.get_mut(&node) else {
            return;
        };
        // A node of a formed cluster talks to members alone.
        if let Stage::Bound(Step::Formed, theirs) = &statement.stage
            && !theirs.has(self.own.node)
        {
            self.invitation = Some(theirs.clone());
        }
        if said.as_ref() != Some(&statement) {
            // What this node says may be news to it as well.
            self.next_tell = now;
            *said = Some(statement);
        }
    }

    fn persisted(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let stage = self
            .persisting
            .take()
            .expect("only what was asked for can be durable");
        self.stage = stage;
        self.next_tell = now;
        let said: Vec<_> = self
            .others
            .iter()
            .filter_map(|(node, (_, said))| {
                let said = said.as_ref()?;
                Some((*node, said.stage.clone()))
            })
            .collect();
        for (node, stage) in said {
            self.note_promise(node, &stage);
        }
        if let Stage::Bound(Step::Formed, founding) = &self.stage {
            actions.push(Action::Formed(founding.clone()));
        }
    }

    /// A promise of what this node has promised. Where the cluster is formed, all have.
    fn note_promise(&mut self, node: NodeId, stage: &Stage) {
        let (Stage::Bound(step, theirs), Stage::Bound(_, ours)) = (stage, &self.stage) else {
            return;
        };
        if !theirs.is_same(ours) || !ours.has(node) {
            return;
        }
        match step {
            Step::Promised => self.promised_by.extend([node]),
            Step::Formed => self.promised_by.extend(ours.ids()),
        }
    }

    fn go_on(&mut self, actions: &mut Vec<Action>) {
        if self.persisting.is_some() {
            return;
        }
        let next = match &self.stage {
            Stage::Waiting => self.invited().or_else(|| self.agreed()),
            Stage::Bound(Step::Promised, founding) => self
                .is_promised_by_all(founding)
                .then(|| Stage::Bound(Step::Formed, founding.clone())),
            Stage::Bound(Step::Formed, _) => None,
        };
        if let Some(stage) = next {
            actions.push(Action::Persist(stage.clone()));
            self.persisting = Some(stage);
        }
    }

    fn invited(&self) -> Option<Stage> {
        let founding = self.invitation.clone()?;
        Some(Stage::Bound(Step::Formed, founding))
    }

    /// The cluster that all of a whole cluster see, if they do.
    fn agreed(&self) -> Option<Stage> {
        let sees = self.sees();
        let is_whole = sees.len() == self.size && self.others.len() + 1 == self.size;
        if !is_whole || !self.foreign.is_empty() || !self.unanswered.is_empty() {
            return None;
        }
        let founding = Founding::new(sees, self.groups)?;
        let ids = founding.ids();
        for (_, said) in self.others.values() {
            let said = said.as_ref()?;
            let agrees = match &said.stage {
                Stage::Waiting => said.sees.iter().map(|seen| seen.node).eq(ids.iter().copied()),
                // It cannot do anything else any more.
                Stage::Bound(_, theirs) => theirs.is_same(&founding),
            };
            agrees.then_some(())?;
        }
        Some(Stage::Bound(Step::Promised, founding))
    }

    fn is_promised_by_all(&self, founding: &Founding) -> bool {
        founding
            .founders()
            .iter()
            .all(|founder| self.promised_by.contains(&founder.node))
    }

    fn sees(&self) -> Vec<Founder> {
        let others = self.others.iter().map(|(node, (address, _))| Founder {
            node: *node,
            address: address.clone(),
        });
        let mut sees: Vec<_> = others.chain([self.own.clone()]).collect();
        sees.sort();
        sees
    }

    fn tell_all(&self, actions: &mut Vec<Action>) {
        let statement = self.statement();
        for node in self.others.keys() {
            actions.push(Action::Tell(*node, statement.clone()));
        }
    }
}

#[cfg(test)]
mod tests;
