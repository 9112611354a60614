//! Messages between the nodes of a cluster: what is published at one node reaches the subscribers at every other one.
//!
//! Each node tells the others which filters its sessions have (`announced.rs`), and knows what the others want (`table.rs`). A message goes
//! once to each node that wants it, and that node finds its own sessions; it never sends the message on. What must not be lost is
//! numbered and kept until it is confirmed (`outbox.rs`, `inbox.rs`); whoever waits for that is in `waits.rs`. What the node does with
//! all that is in `forwarding.rs` and `receiving.rs`.
//!
//! *Invariant*: an item is taken once and in order, over lost connections and over restarts of the node that takes it.

mod announced;
mod forwarding;
mod inbox;
mod link;
mod losses;
mod messages;
mod outbox;
mod owed;
mod receiving;
mod since;
mod subjects;
mod table;
mod taking_over;
mod told;
mod touch;
mod waits;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cluster::{GroupId, NodeId};
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use mqtt::origin::{Position, Slots};
use mqtt::subscriptions::Point;
use mqtt::will::DueWill;
use protocol::topic::{SubscriptionFilter, TopicFilter};
use slab::Slab;

use self::announced::Announced;
pub(crate) use self::forwarding::Elsewhere;
use self::link::Link;
pub(crate) use self::link::LinkChange;
use self::losses::Losses;
pub(crate) use self::losses::Lost;
pub(crate) use self::messages::Subject;
use self::messages::{ADD, REMOVE, SHARE};
use self::owed::Owed;
pub(crate) use self::owed::RecoveredOwed;
pub(crate) use self::since::{LossSaid, Since, TakenAt};
use self::table::{Candidate, RouteTable, Slot};
pub(crate) use self::taking_over::Came;
pub(crate) use self::told::Telling;
use self::touch::Touch;
pub(crate) use self::waits::WaitId;
use self::waits::Waits;
use crate::node::Action;
use crate::waiting::Waiter;

/// Messages between nodes travel under this number, which no group has.
pub(crate) const ROUTES: GroupId = GroupId(u32::MAX - 1);

/// Settings of what travels between nodes.
#[derive(Debug, Clone)]
pub struct RoutesConfig {
    /// How long a SUBACK waits at most for the other nodes to know the subscription.
    pub subscribe_wait_max: Duration,
    /// How long a node may be silent until nobody waits for it any more.
    pub silence_max: Duration,
    /// A message of a shared subscription goes to a sharer of this node, if one is connected.
    pub prefers_local_sharers: bool,
    /// Messages on their way to one node; with more of them publishers are not read from.
    pub messages_max: usize,
    /// Bytes of these.
    pub bytes_max: u64,
    /// Memory for the filters of all other nodes; a node with more of them is sent everything.
    pub filter_bytes_max: u64,
}

/// What was counted of messages between nodes, and how many there are of what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteFigures {
    /// Messages that were forwarded, to each node once.
    pub forwarded: u64,
    /// Messages that came from other nodes.
    pub received: u64,
    /// Items that were sent again.
    pub resent: u64,
    /// Messages of QoS 0 and wills that were not forwarded because the node was behind.
    pub dropped_behind: u64,
    /// Messages that were on their way to a node that was lost, and were given to the others.
    pub redirected: u64,
    /// Messages that a node did not get because it could not be reached.
    pub dropped_unreachable: u64,
    /// Messages of a share that were given to another node because nobody at the first one shared it any more.
    pub declined: u64,
    /// SUBACKs and CONNACKs that were sent before all nodes had confirmed the routes, or the guard of a will had it.
    pub unconfirmed: u64,
    /// Times that publishers were not read from for a while because too much was on its way.
    pub held_back: u64,
    /// Filters and shares that were one too many.
    pub filters_refused: u64,
    /// Filters and shares that this node announces.
    pub announced: usize,
    /// Filters and shares of other nodes.
    pub known: usize,
    /// Nodes that are reached.
    pub reached: usize,
    /// Items that are not confirmed.
    pub under_way: usize,
    /// Their bytes.
    pub under_way_bytes: u64,
}

/// What this node has with the others.
#[derive(Debug)]
pub(crate) struct Routes {
    config: RoutesConfig,
    node: NodeId,
    incarnation: u32,
    links: Slab<Link>,
    slots: BTreeMap<NodeId, Slot>,
    table: RouteTable,
    announced: Announced,
    waits: Waits,
    /// What a restart has found of nodes that were not heard of since.
    recovered: BTreeMap<NodeId, Position>,
    /// All who are to have copies have what a restart has found.
    is_recovered_durable: bool,
    /// Those whose wait is over.
    released: Vec<Waiter>,
    over: Vec<WaitId>,
    /// Publishers that are not read from.
    held: BTreeSet<ConnectionId>,
    /// Wills that were due before it was known what the others want.
    early: Vec<DueWill>,
    losses: Losses,
    touch: Touch,
    owed: Owed,
    /// Nodes that were lost, are there again, and have not said yet all that they want: they get nothing before.
    unready: Slots,
    /// What clients have published here for others in this run.
    published: u64,
    figures: RouteFigures,
}

impl Default for RoutesConfig {
    fn default() -> Self {
        Self {
            subscribe_wait_max: Duration::from_millis(200),
            silence_max: Duration::from_secs(2),
            prefers_local_sharers: false,
            messages_max: 16_384,
            bytes_max: 32 << 20,
            filter_bytes_max: 256 << 20,
        }
    }
}

impl Routes {
    pub(crate) fn new(
        now: Now,
        config: RoutesConfig,
        seed: u64,
        (node, incarnation): (NodeId, u32),
        (recovered, owed): (BTreeMap<NodeId, Position>, RecoveredOwed),
    ) -> Self {
        Self {
            node,
            incarnation,
            links: Slab::new(),
            slots: BTreeMap::new(),
            table: RouteTable::new(seed, config.filter_bytes_max),
            announced: Announced::default(),
            waits: Waits::default(),
            recovered,
            is_recovered_durable: false,
            released: Vec::new(),
            over: Vec::new(),
            held: BTreeSet::new(),
            early: Vec::new(),
            losses: Losses::default(),
            touch: Touch::new(now),
            owed: Owed::recovered(now, incarnation, owed),
            unready: 0,
            published: 0,
            figures: RouteFigures::default(),
            config,
        }
    }

    /// These nodes are in the cluster. Says which are not any more.
    pub(crate) fn set_nodes(&mut self, now: Now, nodes: impl Iterator<Item = NodeId> + Clone) -> Vec<NodeId> {
        let nodes = nodes.filter(|node| *node != self.node);
        if nodes.clone().eq(self.slots.keys().copied()) {
            return Vec::new();
        }
        let nodes: BTreeSet<_> = nodes.collect();
        let is_start = self.slots.is_empty();
        // First, so that there are never more places than nodes in a cluster: each has a bit.
        let gone = self.forget_all_but(&nodes);
        for node in &nodes {
            if !self.slots.contains_key(node) {
                let taken = self.recovered.remove(node).unwrap_or_default();
                let mut link = Link::new(now, *node, taken);
                if self.is_recovered_durable {
                    link.inbox.note_recovered_durable();
                }
                if is_start {
                    link.begin_to_know();
                }
                self.slots.insert(*node, self.links.insert(link));
            }
        }
        self.owed.set_nodes(&self.slots, &mut self.table);
        gone
    }

    /// A node that was removed stays until its loss is over: others go on with what it had.
    fn forget_all_but(&mut self, nodes: &BTreeSet<NodeId>) -> Vec<NodeId> {
        let is_full = self.slots.len() + nodes.len() > Slots::BITS as usize;
        let is_over = |node: &NodeId| is_full || self.is_loss_over(*node);
        let known = self
            .slots
            .keys()
            .filter(|node| !nodes.contains(node) && is_over(node));
        let gone: Vec<_> = known.copied().collect();
        for node in &gone {
            if let Some(slot) = self.slots.remove(node) {
                self.give_up(slot);
                self.owed.forget(slot);
                self.table.forget(slot);
                self.links.remove(slot);
            }
        }
        gone
    }

    /// Steps of finding the nodes for messages since the start.
    pub(crate) fn visited(&self) -> u64 {
        self.table.visited()
    }

    /// A session of this node has subscribed to a filter.
    pub(crate) fn subscribed(&mut self, filter: &TopicFilter) {
        if self.announced.add(filter) {
            self.announce(ADD, &announced::bytes_of(filter));
        }
    }

    /// A session of this node is not subscribed to a filter any more.
    pub(crate) fn unsubscribed(&mut self, filter: &TopicFilter) {
        if self.announced.remove(filter) {
            self.announce(REMOVE, &announced::bytes_of(filter));
        }
    }

    /// So many of this node share something: those that are connected, and all.
    pub(crate) fn shared(&mut self, filter: &SubscriptionFilter, (connected, all): (usize, usize)) {
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let counts = (count(connected), count(all));
        if self.announced.share(filter, counts) {
            self.announce(SHARE, &messages::share_item(filter, counts).into());
        }
    }

    /// Something to wait for until it is known what all nodes that answer want, if it is not.
    pub(crate) fn wait_to_know(&mut self) -> Option<WaitId> {
        let wait = self.waits.open();
        for (_, link) in &mut self.links {
            link.wait_to_know(wait, &mut self.waits);
        }
        self.waits.keep_open(wait)
    }

    /// Keeps a will until it is known what the others want; gives it back if it is.
    pub(crate) fn keep_early(&mut self, will: DueWill) -> Option<DueWill> {
        if self.is_known() {
            return Some(will);
        }
        self.early.push(will);
        None
    }

    /// What was kept until now.
    pub(crate) fn take_early(&mut self) -> Vec<DueWill> {
        if self.early.is_empty() || !self.is_known() {
            return Vec::new();
        }
        std::mem::take(&mut self.early)
    }

    /// Something to wait for until all nodes that are reached know all routes, if they do not.
    pub(crate) fn wait_for_routes(&mut self, now: Now) -> Option<WaitId> {
        let wait = self.waits.open();
        for (_, link) in &mut self.links {
            link.wait_for_routes(wait, &mut self.waits);
        }
        let wait = self.waits.keep_open(wait)?;
        self.waits
            .limit(wait, now.instant + self.config.subscribe_wait_max);
        Some(wait)
    }

    /// Something to wait for until everything is confirmed that somebody waits for already.
    pub(crate) fn wait_for_messages(&mut self) -> Option<WaitId> {
        let wait = self.waits.open();
        for (_, link) in &mut self.links {
            link.outbox.wait_for_messages(wait, &mut self.waits);
        }
        self.waits.keep_open(wait)
    }

    /// Lets somebody wait, or gives it back if there is nothing to wait for any more.
    pub(crate) fn park(&mut self, wait: WaitId, waiter: Box<Waiter>) -> Option<Box<Waiter>> {
        self.waits.park(wait, waiter)
    }

    /// Whether somebody still has to confirm.
    pub(crate) fn is_open(&self, wait: WaitId) -> bool {
        self.waits.is_open(wait)
    }

    /// One of those who had to confirm has.
    pub(crate) fn end_wait(&mut self, wait: WaitId) {
        self.released.extend(self.waits.end(wait).map(|waiter| *waiter));
    }

    /// Those whose wait is over.
    pub(crate) fn take_released(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.released)
    }

    /// What was taken from a node up to here is on disk, and not yet at all who have copies.
    pub(crate) fn on_disk(&mut self, node: NodeId, position: Position) {
        if let Some(slot) = self.slots.get(&node) {
            self.links[*slot].inbox.on_disk(position);
        }
    }

    /// Up to where the items of each other node were taken.
    pub(crate) fn positions(&self) -> impl Iterator<Item = (NodeId, Position)> + '_ {
        let taken = self.links.iter().map(|(_, link)| (link.node, link.inbox.taken));
        taken.filter(|(_, position)| position.number > 0)
    }

    /// What was taken from a node up to here is durable.
    pub(crate) fn written(&mut self, node: NodeId, position: Position) {
        if let Some(slot) = self.slots.get(&node) {
            self.links[*slot].inbox.written(position);
        }
    }

    /// What a restart has found is where it has to be: those who have sent it are told so.
    pub(crate) fn note_recovered_durable(&mut self) {
        self.is_recovered_durable = true;
        for (_, link) in &mut self.links {
            link.inbox.note_recovered_durable();
        }
    }

    /// A publisher has to wait, if too much is on its way.
    pub(crate) fn hold(&mut self, id: ConnectionId) -> bool {
        let is_held = self.is_above(2) && self.held.insert(id);
        self.figures.held_back += u64::from(is_held);
        is_held
    }

    /// The publishers that need not wait any more.
    pub(crate) fn take_unheld(&mut self) -> BTreeSet<ConnectionId> {
        if self.held.is_empty() || self.is_above(1) {
            return BTreeSet::new();
        }
        std::mem::take(&mut self.held)
    }

    /// Does what is due.
    pub(crate) fn timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        let own = self.incarnation;
        for (_, link) in &mut self.links {
            link.pass(now);
        }
        let patience = self.patience(now);
        let (mut missed, mut silent) = (Vec::new(), Vec::new());
        for (slot, link) in &mut self.links {
            let to = link.node;
            link.know(&mut self.over);
            // Nobody counts on one that is not reached, and nothing follows from its silence.
            let was_reached = link.is_reached;
            let patience = if was_reached {
                patience.reached
            } else {
                patience.others
            };
            let is_silent = link.look(now, own, patience, |message| {
                let message = message.into();
                actions.push(Action::ToPeer { to, message });
            });
            match (is_silent, was_reached) {
                (true, true) => missed.push(slot),
                (true, false) => silent.push(slot),
                (false, _) => {}
            }
        }
        // One that was reached may be lost for the cluster: then others get what was for it, but nobody who is missed at this moment as well.
        missed
            .into_iter()
            .for_each(|slot| self.links[slot].stop_reaching());
        silent.into_iter().for_each(|slot| self.give_up(slot));
        self.end_waits();
        while let Some(waiter) = self.waits.pop_overdue(now.instant) {
            self.figures.unconfirmed += 1;
            self.released.extend(waiter.map(|waiter| *waiter));
        }
    }

    /// Sends what was collected.
    pub(crate) fn flush(&mut self, now: Now, actions: &mut Vec<Action>) {
        for (_, link) in &mut self.links {
            let (to, before) = (link.node, actions.len());
            link.flush(now, self.incarnation, &self.announced, |message| {
                let message = message.into();
                actions.push(Action::ToPeer { to, message });
            });
            if actions.len() > before && !link.outbox.is_empty() {
                link.hurry(now);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        let links = self
            .links
            .iter()
            .map(|(_, link)| link.deadline(self.config.silence_max));
        links.chain(self.waits.deadline()).min()
    }

    pub(crate) fn figures(&self) -> RouteFigures {
        let links = || self.links.iter().map(|(_, link)| link);
        RouteFigures {
            announced: self.announced.len(),
            known: self.table.len(),
            reached: links().filter(|link| link.is_reached).count(),
            under_way: links().map(|link| link.outbox.len()).sum(),
            under_way_bytes: links().map(|link| link.outbox.bytes()).sum(),
            ..self.figures
        }
    }

    /// What the node holds for the others.
    pub(crate) fn bytes(&self) -> u64 {
        let outboxes = self.links.iter().map(|(_, link)| link.outbox.bytes());
        outboxes.sum::<u64>() + self.table.bytes() + self.owed.bytes()
    }

    /// Chooses the node that gets a message of a share, but not one of `without`. `own`: how many of this node share it.
    fn choose(
        &mut self,
        share: u32,
        own: (usize, usize),
        point: Option<Point>,
        without: Option<Slot>,
    ) -> Option<Candidate> {
        let count = |count| u32::try_from(count).unwrap_or(u32::MAX);
        let here = Candidate {
            slot: None,
            node: self.node.0,
            connected: count(own.0),
            all: count(own.1),
        };
        if self.config.prefers_local_sharers && here.connected > 0 {
            return Some(here);
        }
        let nodes = self.table.sharing_nodes(share);
        let reached = nodes.filter(|(slot, _)| self.links[*slot].is_reached && Some(*slot) != without);
        let others = reached.map(|(slot, (connected, all))| Candidate {
            slot: Some(slot),
            node: self.links[slot].node.0,
            connected,
            all,
        });
        let mut candidates: Vec<_> = others.chain((here.all > 0).then_some(here)).collect();
        candidates.sort_unstable_by_key(|candidate| candidate.node);
        self.table.choose(share, &candidates, point)
    }

    fn announce(&mut self, kind: u8, body: &Bytes) {
        for (_, link) in &mut self.links {
            link.change(kind, body.clone());
        }
    }

    /// A node that is not lost for the cluster does not answer.
    fn give_up_silent(&mut self, node: NodeId) {
        if let Some(slot) = self.slots.get(&node).copied() {
            self.give_up(slot);
        }
    }

    fn give_up(&mut self, slot: Slot) {
        let dropped = self.links[slot].give_up(&mut self.over);
        self.note_given_up(slot);
        self.owed.give_up(slot);
        self.figures.dropped_unreachable += dropped;
        self.end_waits();
    }

    /// Lets those go on whose waits are over.
    fn end_waits(&mut self) {
        for wait in std::mem::take(&mut self.over) {
            self.end_wait(wait);
        }
    }

    /// This node.
    pub(crate) fn node(&self) -> NodeId {
        self.node
    }

    /// Whether there is no other node.
    pub(crate) fn is_alone(&self) -> bool {
        self.links.is_empty()
    }

    /// Whether it is known what all nodes want that answer.
    fn is_known(&self) -> bool {
        self.links.iter().all(|(_, link)| link.is_known())
    }

    /// Whether more than `halves` of the limit is on its way to some node.
    fn is_above(&self, halves: u64) -> bool {
        self.links
            .iter()
            .any(|(_, link)| self.config.is_exceeded(link, halves))
    }
}

impl RoutesConfig {
    /// Whether more than so many halves of the limit is on its way to a node.
    fn is_exceeded(&self, link: &Link, halves: u64) -> bool {
        link.outbox.len() as u64 > self.messages_max as u64 * halves / 2
            || link.outbox.bytes() > self.bytes_max * halves / 2
    }
}
