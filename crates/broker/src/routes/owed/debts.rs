//! The messages that are owed, each with those who have not confirmed it: in memory, and on disk before its publisher hears of success.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use cluster::NodeId;
use cluster::write::Write;
use mqtt::now::Now;
use mqtt::origin::{Position, Slots};

use crate::cluster_records::owed::{self, OwedHead, Wanted};
use crate::routes::table::{RouteTable, Slot};
use crate::routes::{RouteFigures, RoutesConfig};

/// What is owed, and to whom.
#[derive(Debug, Default)]
pub(in crate::routes) struct Owed {
    /// The lost nodes whose filters stay, until they have said anew what they want.
    pub(super) nodes: Slots,
    /// Those that were among them since the first one was.
    pub(super) apart: Slots,
    /// This node may not have a copy of all that it is to have one of.
    pub(super) lacks_copies: bool,
    pub(super) items: VecDeque<Debt>,
    bytes: u64,
    /// The number of the latest, and of the latest before the first of these nodes was lost. The upper half is the run in which it was owed.
    latest: u64,
    before: u64,
    /// Up to which item of its outbox each node was given all that is owed to it.
    pub(super) given: BTreeMap<Slot, u64>,
    /// The latest that each other node has owed to this one.
    pub(super) taken: BTreeMap<NodeId, Position>,
    /// Who is at which place.
    names: BTreeMap<Slot, NodeId>,
    /// What is to be written.
    writes: Vec<Write>,
    /// What lost nodes have wanted, as a restart has found it, until it is known who is in the cluster.
    wanted: BTreeMap<NodeId, Vec<Wanted>>,
}

/// A message that is owed.
#[derive(Debug)]
pub(super) struct Debt {
    pub(super) number: u64,
    pub(super) since: Option<Instant>,
    pub(super) body: Bytes,
    /// Who was on this side.
    pub(super) side: Arc<[NodeId]>,
    /// Under which numbers it was on its way to nodes that were lost then.
    pub(super) came_by: Vec<(NodeId, u64)>,
    /// Who has not confirmed it.
    pub(super) pending: Slots,
    /// The same as a restart has found it, until it is known who is in the cluster.
    recovered: Vec<NodeId>,
}

/// What a restart has found.
#[derive(Debug, Default)]
pub(crate) struct RecoveredOwed {
    messages: BTreeMap<u64, Bytes>,
    heads: BTreeMap<u64, OwedHead>,
    wanted: BTreeMap<NodeId, Vec<Wanted>>,
    /// The latest that each other node has owed to this one.
    pub(crate) taken: BTreeMap<NodeId, Position>,
}

/// Filters of a lost node that are written down; one with more of them wants everything after a restart.
const WANTED_MAX: usize = 65_536;

/// What a message counts for besides its bytes.
const DEBT: u64 = 128;

impl RecoveredOwed {
    /// Takes what a lost node has wanted.
    pub(crate) fn wanted(&mut self, node: NodeId, wanted: Wanted) {
        self.wanted.entry(node).or_default().push(wanted);
    }

    /// Takes one of its records.
    pub(crate) fn record(&mut self, number: u64, record: owed::OwedRecord) {
        match record {
            owed::OwedRecord::Message(message) => {
                self.messages.insert(number, message);
            }
            owed::OwedRecord::Head(head) => {
                self.heads.insert(number, head);
            }
        }
    }
}

impl Owed {
    /// As a restart finds it, in this run.
    pub(in crate::routes) fn recovered(now: Now, incarnation: u32, found: RecoveredOwed) -> Self {
        let mut owed = Self {
            latest: u64::from(incarnation) << 32,
            taken: found.taken,
            wanted: found.wanted,
            ..Self::default()
        };
        let RecoveredOwed {
            messages, mut heads, ..
        } = found;
        for (number, body) in messages {
            // Both are written in one batch.
            let Some(head) = heads.remove(&number) else {
                owed.writes.extend(owed::remove(number));
                continue;
            };
            let debt = Debt {
                number,
                since: Some(now.instant),
                body,
                side: head.side.into(),
                came_by: head.came_by,
                pending: 0,
                recovered: head.pending,
            };
            owed.bytes += debt.size();
            owed.latest = owed.latest.max(number);
            owed.items.push_back(debt);
        }
        owed.before = owed.latest;
        owed
    }

    /// These are the nodes of the cluster. What a restart has found is owed to those of them that it was owed to.
    pub(in crate::routes) fn set_nodes(&mut self, nodes: &BTreeMap<NodeId, Slot>, table: &mut RouteTable) {
        self.names = nodes.iter().map(|(node, slot)| (*slot, *node)).collect();
        if nodes.is_empty() {
            return;
        }
        for debt in &mut self.items {
            let found = std::mem::take(&mut debt.recovered);
            let slots = found.iter().filter_map(|node| nodes.get(node));
            slots.for_each(|slot| debt.pending |= 1 << slot);
        }
        self.end_settled();
        for (node, wanted) in std::mem::take(&mut self.wanted) {
            let Some(slot) = nodes.get(&node) else {
                self.writes.push(owed::remove_wanted(node));
                continue;
            };
            self.nodes |= 1 << slot;
            self.apart |= 1 << slot;
            for wanted in wanted {
                match wanted {
                    Wanted::Everything(true) => table.add_all(*slot),
                    Wanted::Everything(false) => {}
                    // One too many lets it have everything.
                    Wanted::Filter(filter) => drop(table.add(*slot, &filter)),
                }
            }
        }
    }

    /// Whether the filters of a lost node stay.
    pub(in crate::routes) fn is_to(&self, slot: Slot) -> bool {
        self.nodes >> slot & 1 == 1
    }

    /// Whether something that is for these nodes is owed to any of them.
    pub(in crate::routes) fn is_for(&self, nodes: Slots) -> bool {
        self.nodes & nodes != 0
    }

    pub(in crate::routes) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The number of the latest.
    pub(super) fn latest(&self) -> u64 {
        self.latest
    }

    /// What is to be written, and to be durable before anybody hears of success.
    pub(in crate::routes) fn take_writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// The node is not in the cluster any more.
    pub(in crate::routes) fn forget(&mut self, slot: Slot) {
        self.end_owing(slot);
        self.apart &= !(1 << slot);
        self.given.remove(&slot);
        self.settle(slot);
        if let Some(node) = self.names.remove(&slot)
            && self.taken.remove(&node).is_some()
        {
            self.writes.push(owed::remove_taken(node));
        }
    }

    /// A node has said anew what it wants, or is not in the cluster any more.
    pub(super) fn end_owing(&mut self, slot: Slot) {
        if self.is_to(slot) {
            self.nodes &= !(1 << slot);
            let node = self.names.get(&slot);
            self.writes.extend(node.map(|node| owed::remove_wanted(*node)));
        }
        if self.nodes == 0 {
            self.apart = 0;
        }
    }

    /// These nodes are lost. A session that something is owed to may have gone to any of them. What they want is written down, so that a restart knows it.
    pub(super) fn add(&mut self, lost: Slots, table: &RouteTable) {
        let new = self
            .names
            .iter()
            .filter(|(slot, _)| (lost & !self.nodes) >> **slot & 1 == 1);
        for (slot, node) in new {
            let (is_everything, filters) = table.wanted(*slot);
            let is_everything = is_everything || filters.len() > WANTED_MAX;
            let all = Wanted::Everything(is_everything);
            self.writes.push(owed::put_wanted(*node, &all));
            let filters = filters.take(if is_everything { 0 } else { WANTED_MAX });
            let filters = filters.map(|filter| Wanted::Filter(filter.clone()));
            self.writes
                .extend(filters.map(|filter| owed::put_wanted(*node, &filter)));
        }
        if self.nodes == 0 {
            self.before = self.latest;
        }
        self.nodes |= lost;
        self.apart |= self.nodes;
        let current = self.items.iter_mut().filter(|debt| debt.number > self.before);
        for debt in current.filter(|debt| debt.pending | lost != debt.pending) {
            debt.pending |= lost;
            self.writes.push(debt.head(&self.names));
        }
    }

    /// What was given to a node may not have got there.
    pub(in crate::routes) fn give_up(&mut self, slot: Slot) {
        self.given.remove(&slot);
    }

    /// One more is owed to all that are lost.
    pub(super) fn push(
        &mut self,
        now: Now,
        (since, body): (Option<Instant>, Bytes),
        (side, came_by): (Arc<[NodeId]>, Vec<(NodeId, u64)>),
        (config, figures): (&RoutesConfig, &mut RouteFigures),
    ) {
        let debt = Debt {
            number: self.latest + 1,
            since,
            body,
            side,
            came_by,
            pending: self.nodes,
            recovered: Vec::new(),
        };
        self.add_debt(now, debt);
        while !self.has_room(config, 0, 0)
            && let Some(first) = self.items.pop_front()
        {
            self.bytes -= first.size();
            self.writes.extend(owed::remove(first.number));
            figures.dropped_unreachable += 1;
        }
    }

    /// A node is lost that something is owed to, before it had that. The others have got it when they had not gone on with its sessions yet: it is owed to them once more, for these sessions.
    /// Says after which number that begins. What there is no room for is counted as dropped.
    pub(super) fn pass_on(
        &mut self,
        now: Now,
        (slot, lost): (Slot, NodeId),
        heirs: Slots,
        (config, figures): (&RoutesConfig, &mut RouteFigures),
    ) -> u64 {
        let before = self.latest;
        if heirs == 0 {
            return before;
        }
        let due = self.items.iter().filter(|debt| debt.pending >> slot & 1 == 1);
        let due = due.zip(before + 1..).map(|(debt, number)| {
            let numbers = debt.came_by.iter().copied().take(CAME_BY_MAX - 1);
            Debt {
                number,
                since: debt.since,
                body: debt.body.clone(),
                side: Arc::clone(&debt.side),
                came_by: [(lost, OF_HEIRS)].into_iter().chain(numbers).collect(),
                pending: heirs,
                recovered: Vec::new(),
            }
        });
        for debt in due.collect::<Vec<_>>() {
            // What is owed to the lost one itself does not make room for it.
            if self.has_room(config, 1, debt.size()) {
                self.add_debt(now, debt);
            } else {
                figures.dropped_unreachable += 1;
            }
        }
        before
    }

    /// Whether so much more may be owed.
    fn has_room(&self, config: &RoutesConfig, messages: usize, bytes: u64) -> bool {
        self.items.len() + messages <= config.messages_max && self.bytes + bytes <= config.bytes_max
    }

    fn add_debt(&mut self, now: Now, debt: Debt) {
        self.latest = debt.number;
        self.bytes += debt.size();
        let made_at = debt.since.map(|since| now.wall_of(since));
        self.writes
            .push(owed::put_message(debt.number, made_at, &debt.body));
        self.writes.push(debt.head(&self.names));
        self.items.push_back(debt);
    }

    /// One that is owed already was on its way to one more node that is lost, under these numbers, and did not get there.
    pub(super) fn came_by_as_well(
        &mut self,
        number: u64,
        lost: NodeId,
        numbers: impl Iterator<Item = (NodeId, u64)>,
    ) {
        let found = self.items.binary_search_by_key(&number, |debt| debt.number);
        let Some(debt) = found.ok().and_then(|at| self.items.get_mut(at)) else {
            return;
        };
        debt.side = debt.side.iter().copied().filter(|node| *node != lost).collect();
        let room = CAME_BY_MAX.saturating_sub(debt.came_by.len());
        debt.came_by.extend(numbers.take(room));
        debt.pending |= self.nodes;
        self.writes.push(debt.head(&self.names));
    }

    /// A node has confirmed what is owed to it.
    pub(super) fn settle(&mut self, slot: Slot) {
        for debt in self.items.iter_mut().filter(|debt| debt.pending >> slot & 1 == 1) {
            debt.pending &= !(1 << slot);
            if debt.pending != 0 {
                self.writes.push(debt.head(&self.names));
            }
        }
        self.end_settled();
    }

    /// What everybody has confirmed is owed no more.
    fn end_settled(&mut self) {
        let is_settled = |debt: &Debt| debt.pending == 0 && debt.recovered.is_empty();
        for debt in self.items.iter().filter(|debt| is_settled(debt)) {
            self.writes.extend(owed::remove(debt.number));
        }
        self.items.retain(|debt| !is_settled(debt));
        self.bytes = self.items.iter().map(Debt::size).sum();
    }

    /// The latest that another node has owed to this one, if this is later.
    pub(super) fn take(&mut self, from: NodeId, position: Position) -> bool {
        let latest = self.taken.entry(from).or_default();
        let is_new = *latest < position;
        if is_new {
            *latest = position;
            self.writes.push(owed::put_taken(from, position));
        }
        is_new
    }
}

/// In place of a number: the message is for the sessions that were taken over from the node.
pub(super) const OF_HEIRS: u64 = u64::MAX;

/// Numbers under which one message was on its way; of more the first ones count.
pub(super) const CAME_BY_MAX: usize = 32;

impl Debt {
    /// Whether it is for the sessions of lost nodes alone that others have taken over.
    pub(super) fn is_of_heirs(&self) -> bool {
        self.came_by.iter().any(|(_, number)| *number == OF_HEIRS)
    }

    fn size(&self) -> u64 {
        DEBT + self.body.len() as u64
    }

    fn head(&self, names: &BTreeMap<Slot, NodeId>) -> Write {
        let is_pending = |slot: &Slot| self.pending >> slot & 1 == 1;
        let pending = names.iter().filter(|(slot, _)| is_pending(slot));
        let head = OwedHead {
            pending: pending.map(|(_, node)| *node).collect(),
            side: self.side.to_vec(),
            came_by: self.came_by.clone(),
        };
        owed::put_head(self.number, &head)
    }
}

#[cfg(test)]
mod tests;
