//! Copies of durable sessions at other nodes, so that they survive their node.
//!
//! A durable session is *held* by one node, where it runs. The *owners* of its client id on the rings each have a copy that *stands by*. What is copied
//! is the batch: what the holder writes to its disk for a session goes to the owners in the same order (`batch.rs`), and whoever waits for the batch waits for
//! the disks of the owners that are reached. A session's clock counts the batches that have changed it, by who held it. Whoever comes to be an
//! owner is offered the session, and gets it whole if its clock is not the same (`offering.rs`). When the holder is lost, the first owner goes on with the
//! session (`taking_over.rs`).
//!
//! *Invariant*: a copy that is whole has each of its holder's changes up to its clock, and none behind it.

mod apart;
mod awaited;
mod batch;
mod figures;
mod handover;
mod merging;
mod messages;
pub(crate) mod noting;
mod offering;
mod orphans;
mod positions;
mod receiving;
mod restoring;
mod retiring;
mod standing_by;
mod taking_over;
mod tombstones;
mod unreadable;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use cluster::session_plane::nodes::Handover;
use cluster::session_plane::{Actor, Ring, VectorClock};
use cluster::{Incarnation, NodeId};
use mqtt::ids::SessionNumber;
use mqtt::session::Session;
use protocol::Text;
use protocol::packet::PacketId;
use smallvec::SmallVec;

use self::awaited::Awaited;
pub use self::figures::CopyFigures;
pub(crate) use self::merging::MergeMessage;
use self::merging::{Deferred, Fences, Giving, Holding, Origins, Question, TakingIn};
pub(crate) use self::messages::Change as SessionChange;
use self::messages::Positions;
use self::noting::Noting;
pub(crate) use self::offering::suffix_and_value;
use self::orphans::Orphans;
pub(crate) use self::standing_by::StandingBy;
pub(crate) use self::tombstones::Tombstones;
use self::unreadable::Unreadable;
use crate::clients::Clients;
use crate::cluster_records::copy::{CopyRecord, Mark, Marks};
use crate::node::Node;
use crate::sessions::Taken;

/// How many nodes have a session, its holder among them or not: the first ones on the ring.
pub(crate) const OWNERS: usize = 3;

/// What this node has to do with copies.
#[derive(Debug)]
pub(crate) struct Copies {
    own: Actor,
    /// The durable sessions that run here.
    held: BTreeMap<SessionNumber, Held>,
    /// The copies of others' sessions. In boxes: a tree has room for a third more than there are.
    standing_by: BTreeMap<Text, Box<StandingBy>>,
    /// The same by their holders' numbers.
    by_holder: BTreeMap<(NodeId, SessionNumber), Text>,
    /// What sessions of others come from of which this node has copies, or is to have.
    origins: Origins,
    /// Up to where holders had taken what others sent, as of their copies here.
    positions: BTreeMap<NodeId, Arc<Positions>>,
    /// The same before a holder began to say anew what it holds, by how often it had begun: as of copies that it has not named since.
    earlier: BTreeMap<NodeId, BTreeMap<u64, Arc<Positions>>>,
    /// Counts changes of the rings.
    rings: u64,
    /// The next held session to be looked at, because owners have changed or are reached.
    visit: Option<SessionNumber>,
    /// Nodes that hear from the beginning what is held, and whether that was begun.
    hearing: BTreeMap<NodeId, bool>,
    /// Sessions that nodes are told of with the next ones, whether or not they are to have copies.
    due_offers: BTreeSet<(SessionNumber, NodeId)>,
    /// Nodes that keep another session, and were told that this one has a client.
    claims: BTreeSet<(SessionNumber, NodeId)>,
    /// Who wants which session whole.
    wanted: VecDeque<(NodeId, SessionNumber)>,
    /// Who waits for owners to have a session in the first place.
    awaited: Awaited,
    /// How many copies each node lacks.
    lacking: BTreeMap<NodeId, usize>,
    /// Sessions of which some owner lacks a copy.
    under_replicated: usize,
    /// Copies that others have and are to have no more.
    former: usize,
    /// How often each node has begun to say what it holds.
    begun: BTreeMap<NodeId, u64>,
    /// What is handed over now, and who has not said yet that this node has everything.
    handover: Option<(Handover, BTreeSet<NodeId>)>,
    /// What was handed over.
    handed_over: Option<Handover>,
    /// Nodes that want to know when they have everything.
    asking: BTreeMap<NodeId, u64>,
    /// Copies whose holder is lost and with which this node does not go on.
    orphans: Orphans,
    unreadable: Unreadable,
    losses: apart::Losses,
    tombstones: Tombstones,
    /// When there is more to do.
    go_on_at: Option<Instant>,
    /// Sessions that give way to those of other nodes.
    giving: BTreeSet<SessionNumber>,
    /// Those of this node that others give way to, by the node and its number.
    taking_in: BTreeMap<(NodeId, SessionNumber), SessionNumber>,
    deferred: Deferred,
    /// Who waits for sessions that give way.
    questions: Vec<Question>,
    /// The clients of those that do not any more.
    ended_giving: Vec<Text>,
    fences: Fences,
    holding: Holding,
    noting: Noting,
    /// Sessions that are about to begin with Clean Start, and the nodes that do not hear of it.
    begun_anew: BTreeMap<SessionNumber, Vec<NodeId>>,
    /// This node has not yet heard from all others since it has started: its own sessions may have gone on without it.
    is_back: bool,
    figures: CopyFigures,
}

/// A durable session of this node.
#[derive(Debug)]
pub(crate) struct Held {
    client_id: Text,
    clock: VectorClock,
    /// What a restart has found of it.
    recovered: Option<Box<VectorClock>>,
    taken_from: Option<Actor>,
    /// Deliveries with lower sequences were found by a restart.
    recovered_below: u64,
    /// From where on it may have gone on at other nodes as well.
    marks: Option<Box<Marks>>,
    /// It comes from copies of copies of these, of other nodes: they may still be there. In memory alone.
    origins: Option<Box<[Mark]>>,
    /// It gives way to that of another node.
    giving: Option<Box<Giving>>,
    /// Another one gives way to it.
    taking_in: Option<Box<TakingIn>>,
    /// That one was there again since then: who starts anew need not know of it.
    is_past: bool,
    /// Packet ids of QoS 2 of which there are records: in the session there are those that wait to be written, too.
    received: Vec<PacketId>,
    owners: SmallVec<[Owner; 2]>,
    /// Nodes that had it, too, when they were lost, and at which loss of each.
    apart: SmallVec<[(NodeId, u64); 1]>,
    /// When a client has connected to it last in this run, in Unix milliseconds.
    connected_at: u64,
    /// As of which rings.
    rings: u64,
}

/// A node that has a copy, or is to have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    node: NodeId,
    stage: Stage,
    /// It is not to have one any more; and has it until all others have.
    is_former: bool,
}

/// How far an owner is with its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It has not been told of the session, or is not reached.
    Unknown,
    /// It was told, and has not said whether it has it.
    Offered,
    /// It waits for it.
    Wanted,
    /// It has everything.
    InStep,
    /// It keeps another one.
    Refused,
}

/// What a restart finds of held sessions and copies.
#[derive(Debug, Default)]
pub(crate) struct RecoveredCopies {
    pub(crate) held: BTreeMap<SessionNumber, CopyRecord>,
    pub(crate) standing_by: BTreeMap<SessionNumber, StandingBy>,
    /// Sessions that stand by, of which the session itself was not read yet; in the end those of which nothing had come.
    pub(crate) expected: BTreeMap<SessionNumber, CopyRecord>,
    pub(crate) positions: BTreeMap<NodeId, Positions>,
    pub(crate) tombstones: Tombstones,
}

impl Copies {
    pub(crate) fn new(own: Actor, recovered: RecoveredCopies) -> Self {
        let mut copies = Self {
            own,
            held: BTreeMap::new(),
            standing_by: BTreeMap::new(),
            by_holder: BTreeMap::new(),
            origins: Origins::default(),
            positions: recovered
                .positions
                .into_iter()
                .map(|(node, positions)| (node, Arc::new(positions)))
                .collect(),
            earlier: BTreeMap::new(),
            rings: 1,
            visit: None,
            hearing: BTreeMap::new(),
            due_offers: BTreeSet::new(),
            claims: BTreeSet::new(),
            wanted: VecDeque::new(),
            awaited: Awaited::default(),
            lacking: BTreeMap::new(),
            under_replicated: 0,
            former: 0,
            begun: BTreeMap::new(),
            handover: None,
            handed_over: None,
            asking: BTreeMap::new(),
            orphans: Orphans::default(),
            unreadable: Unreadable::default(),
            losses: apart::Losses::default(),
            tombstones: recovered.tombstones,
            go_on_at: None,
            giving: BTreeSet::new(),
            taking_in: BTreeMap::new(),
            deferred: Deferred::default(),
            questions: Vec::new(),
            ended_giving: Vec::new(),
            fences: Fences::default(),
            holding: Holding::default(),
            noting: Noting::default(),
            begun_anew: BTreeMap::new(),
            is_back: true,
            figures: CopyFigures::default(),
        };
        for standing_by in recovered.standing_by.into_values() {
            copies.insert_copy(standing_by);
        }
        copies
    }

    /// The other nodes with a copy of a session of this node that has everything.
    pub(crate) fn places_of(&self, number: SessionNumber) -> Vec<NodeId> {
        let owners = self.held.get(&number).map(|held| held.owners.as_slice());
        let whole = owners
            .unwrap_or_default()
            .iter()
            .filter(|owner| owner.stage == Stage::InStep);
        whole.map(|owner| owner.node).collect()
    }

    /// Who holds the session of which a copy stands by here.
    pub(crate) fn holder_of(&self, client_id: &str) -> Option<NodeId> {
        Some(self.standing_by.get(client_id)?.holder.node)
    }

    /// A session that a restart has found.
    fn recover_held(&mut self, session: &Session, record: Option<CopyRecord>) {
        let (clock, taken_from, marks) = match record {
            Some(record) => (record.clock, record.taken_from, record.marks),
            None => Default::default(),
        };
        let held = Held {
            recovered: (!clock.is_empty()).then(|| Box::new(clock.clone())),
            taken_from,
            recovered_below: session.next_sequence(),
            marks: marks.map(Box::new),
            received: session.received.iter().collect(),
            ..Held::new(session.client_id.clone(), clock)
        };
        self.held.insert(session.number, held);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let deadlines = [
            self.go_on_at,
            self.holding.deadline(),
            self.noting.deadline(),
            self.deferred.deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// The owners of a client id have changed, or can be told something: all sessions are looked at.
    fn begin_visit(&mut self) {
        self.visit = self.held.keys().next().copied();
        let is_empty = self.visit.is_none();
        self.visit = self
            .visit
            .or((!self.hearing.is_empty()).then_some(SessionNumber(0)));
        assert!(is_empty || self.visit.is_some(), "there is something to look at");
    }

    /// Takes a copy in, instead of the one that there may be; returns that.
    fn insert_copy(&mut self, mut standing_by: StandingBy) -> Option<StandingBy> {
        let client_id = standing_by.session.client_id.clone();
        let place = (standing_by.holder.node, standing_by.number_there);
        let before = self.take_copy_out(&client_id, Some(place));
        let holder = standing_by.holder.node;
        let known = before
            .as_ref()
            .map_or(standing_by.held_since, |before| before.held_since);
        standing_by.held_since = if known.0 == holder {
            known
        } else {
            (holder, self.orphans.losses())
        };
        self.by_holder.insert(place, client_id.clone());
        self.standing_by.insert(client_id, Box::new(standing_by));
        before
    }

    fn remove_copy(&mut self, client_id: &str) -> Option<StandingBy> {
        self.take_copy_out(client_id, None)
    }

    /// Takes a copy out for one to come that its holder has under the place; what that session comes from is known then.
    fn take_copy_out(
        &mut self,
        client_id: &str,
        for_place: Option<(NodeId, SessionNumber)>,
    ) -> Option<StandingBy> {
        let standing_by = self.standing_by.remove(client_id)?;
        self.orphans.end(client_id);
        let place = (standing_by.holder.node, standing_by.number_there);
        self.by_holder.remove(&place);
        if for_place != Some(place) {
            self.take_origins(place);
        }
        Some(*standing_by)
    }

    fn copy_of(&mut self, holder: NodeId, number: SessionNumber) -> Option<&mut StandingBy> {
        let client_id = self.by_holder.get(&(holder, number))?;
        self.standing_by.get_mut(client_id).map(Box::as_mut)
    }

    /// Changes how far an owner is with a copy, and counts.
    fn set_stage(&mut self, number: SessionNumber, node: NodeId, stage: Stage) {
        let done = self.with_held(number, |held| {
            if let Some(owner) = held.owners.iter_mut().find(|owner| owner.node == node) {
                owner.stage = stage;
            }
            (stage == Stage::InStep).then(|| held.is_same_at(node)).flatten()
        });
        if let Some(place) = done.flatten() {
            self.taking_in.remove(&place);
        }
    }

    /// Changes something of a held session, and counts what its owners lack.
    fn with_held<T>(&mut self, number: SessionNumber, change: impl FnOnce(&mut Held) -> T) -> Option<T> {
        let held = self.held.get_mut(&number)?;
        let before = held.counted();
        let result = change(held);
        let after = held.counted();
        self.count(&before, &after);
        self.awaited.look_at(number);
        Some(result)
    }

    fn remove_held(&mut self, number: SessionNumber) -> Option<Held> {
        let held = self.held.remove(&number)?;
        self.forget_claims(number);
        self.count(&held.counted(), &[]);
        if self.giving.remove(&number) {
            self.ended_giving.push(held.client_id.clone());
        }
        let place = held.taking_in.as_ref().map(|taking_in| taking_in.place());
        place.map(|place| self.taking_in.remove(&place));
        self.awaited.look_at(number);
        Some(held)
    }

    fn forget_claims(&mut self, number: SessionNumber) {
        let places = (number, NodeId(0))..=(number, NodeId(u64::MAX));
        let claims: SmallVec<[_; 1]> = self.claims.range(places).copied().collect();
        for claim in claims {
            self.claims.remove(&claim);
        }
    }

    fn count(&mut self, before: &[Owner], after: &[Owner]) {
        let is_lacking = |owner: &&Owner| owner.is_lacking();
        for owner in before.iter().filter(is_lacking) {
            *self.lacking.entry(owner.node).or_default() -= 1;
        }
        for owner in after.iter().filter(is_lacking) {
            *self.lacking.entry(owner.node).or_default() += 1;
        }
        self.under_replicated -= usize::from(before.iter().any(|owner| owner.is_lacking()));
        self.under_replicated += usize::from(after.iter().any(|owner| owner.is_lacking()));
        self.former -= before.iter().filter(|owner| owner.is_former).count();
        self.former += after.iter().filter(|owner| owner.is_former).count();
    }
}

impl Node {
    /// A client begins a session anew: nodes that are away may go on with one that it had before.
    pub(crate) fn note_begun_anew(&mut self, number: SessionNumber) {
        let (Some(copies), Some(peers)) = (&mut self.copies, &self.peers) else {
            return;
        };
        let away: Vec<NodeId> = peers.away().collect();
        if !away.is_empty() {
            copies.begun_anew.insert(number, away);
        }
    }

    /// From here on the node has to do with copies, in a cluster.
    pub(crate) fn begin_copies(
        &mut self,
        (node, incarnation): (NodeId, u32),
        mut recovered: RecoveredCopies,
    ) {
        if self.control.is_none() {
            return;
        }
        let own = Actor {
            node,
            incarnation: Incarnation(incarnation),
        };
        let mut held = std::mem::take(&mut recovered.held);
        for number in recovered.expected.keys() {
            self.commits.write(crate::cluster_records::copy::remove(*number));
        }
        let mut copies = Copies::new(own, recovered);
        let mut taken = Vec::new();
        for (key, entry) in self.sessions.iter() {
            let known = held.remove(&entry.session.number);
            let from = known.as_ref().and_then(|known| known.taken_from);
            taken.extend(from.map(|from| (key, from)));
            copies.recover_held(&entry.session, known);
        }
        for (key, from) in taken {
            if let Some(entry) = self.sessions.get_mut(key) {
                entry.taken = Some(Box::new(Taken::recovered(from)));
            }
        }
        let held: Vec<SessionNumber> = copies.held.keys().copied().collect();
        self.copies = Some(Box::new(copies));
        self.clients = Some(Box::new(Clients::new(incarnation)));
        self.await_recovered(held);
    }
}

impl Held {
    fn new(client_id: Text, clock: VectorClock) -> Self {
        Self {
            client_id,
            clock,
            recovered: None,
            taken_from: None,
            recovered_below: 0,
            marks: None,
            origins: None,
            giving: None,
            taking_in: None,
            is_past: false,
            received: Vec::new(),
            owners: SmallVec::new(),
            apart: SmallVec::new(),
            connected_at: 0,
            rings: 0,
        }
    }

    /// Counts one more event here. Its number; 0: there is no room for it.
    fn count_on(&mut self, own: Actor, number: SessionNumber) -> u64 {
        let dot = self.clock.increment(own, floor_of(number));
        dot.map_or(0, |dot| dot.counter)
    }

    fn has_owner(&self, node: NodeId) -> bool {
        self.owners.iter().any(|owner| owner.node == node)
    }

    fn counted(&self) -> SmallVec<[Owner; 2]> {
        self.owners.clone()
    }

    /// Takes note of who owns it now. Says who was to have a copy, is not any more, and may get it nevertheless.
    fn place(&mut self, own: NodeId, rings: (&Ring, &Ring)) -> Vec<NodeId> {
        let (primary, minority) = rings;
        let mut wanted = primary.owners(self.client_id.as_bytes(), OWNERS);
        for owner in minority.owners(self.client_id.as_bytes(), OWNERS) {
            if !wanted.contains(&owner) {
                wanted.push(owner);
            }
        }
        for owner in &mut self.owners {
            owner.is_former = !wanted.contains(&owner.node);
        }
        self.forget_stages(None);
        let is_under_way =
            |owner: &&Owner| owner.is_former && matches!(owner.stage, Stage::Offered | Stage::Wanted);
        let under_way = self.owners.iter().filter(is_under_way);
        let under_way = under_way.map(|owner| owner.node).collect();
        // What it has not got yet it need not get any more.
        self.owners
            .retain(|owner| !owner.is_former || owner.stage == Stage::InStep);
        for node in wanted.into_iter().filter(|node| *node != own) {
            if !self.owners.iter().any(|owner| owner.node == node) {
                self.owners.push(Owner {
                    node,
                    stage: Stage::Unknown,
                    is_former: false,
                });
            }
        }
        under_way
    }

    /// Forgets what a node was told, if one is named, and what others have answered that kept another session: they may have given it up.
    fn forget_stages(&mut self, node: Option<NodeId>) {
        for owner in &mut self.owners {
            if owner.stage == Stage::Refused || node == Some(owner.node) {
                owner.stage = Stage::Unknown;
            }
        }
    }
}

/// From where on a holder counts the events of a session that has this number there. No other session has any of these, so that clocks of two that a client has had one
/// after the other have nothing in common.
fn floor_of(number: SessionNumber) -> u64 {
    number.0 << 32
}

impl Owner {
    fn is_lacking(&self) -> bool {
        !self.is_former && !matches!(self.stage, Stage::InStep | Stage::Refused)
    }
}
