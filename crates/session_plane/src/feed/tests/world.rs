//! World of one client: three owners whose copies differ, the node of the connection, and a naive
//! queue beside them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use proptest::sample::Index;

use super::*;
use crate::copy::tests::entry_of;
use crate::{Birth, Change, Interval};

mod deliveries;

use deliveries::Deliveries;

const OWNERS: usize = 3;
/// Run of the first owner; publishers have those before.
const OWNER_RUN: u64 = 3;
/// Run of the node of the connection.
const FRONT_RUN: u64 = OWNER_RUN + OWNERS as u64;

/// Step of the world.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Publish {
        run: u64,
        clock: u64,
    },
    /// An owner takes an event that it lacks.
    Take {
        owner: usize,
        at: usize,
    },
    /// The node of the connection hears of an event.
    Hear {
        at: usize,
    },
    Deliver {
        to_front: bool,
        owner: usize,
    },
    /// The client acknowledges a message.
    Acknowledge {
        at: usize,
    },
    /// An owner removes a message of its queue.
    Expire {
        owner: usize,
        at: usize,
    },
    /// An older connection gives a message its packet id.
    Assign {
        run: u64,
        at: usize,
    },
    /// The connection goes on with a packet id of an older one.
    Resume {
        at: usize,
    },
    /// An owner removes a packet id.
    Free {
        owner: usize,
        at: usize,
    },
    /// An owner decides that a message which it lacks matches nobody.
    Mismatch {
        owner: usize,
        at: usize,
    },
    /// The connection to an owner is lost.
    Lose {
        owner: usize,
    },
    Unmerge {
        owner: usize,
    },
    /// An owner merges the copy of another one.
    Merge {
        owner: usize,
        with: usize,
    },
    /// The ring names other owners.
    Rotate {
        by: usize,
    },
    Retry,
}

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let owner = || 0..OWNERS;
    let at = || any::<Index>().prop_map(|index| index.index(64));
    let step = prop_oneof![
        8 => (0..OWNER_RUN, 0..12_u64).prop_map(|(run, clock)| Step::Publish { run, clock }),
        16 => (owner(), at()).prop_map(|(owner, at)| Step::Take { owner, at }),
        2 => at().prop_map(|at| Step::Hear { at }),
        16 => (any::<bool>(), owner()).prop_map(|(to_front, owner)| Step::Deliver { to_front, owner }),
        6 => at().prop_map(|at| Step::Acknowledge { at }),
        2 => (owner(), at()).prop_map(|(owner, at)| Step::Expire { owner, at }),
        4 => (0..OWNER_RUN, at()).prop_map(|(run, at)| Step::Assign { run, at }),
        2 => at().prop_map(|at| Step::Resume { at }),
        1 => (owner(), at()).prop_map(|(owner, at)| Step::Free { owner, at }),
        2 => (owner(), at()).prop_map(|(owner, at)| Step::Mismatch { owner, at }),
        2 => owner().prop_map(|owner| Step::Lose { owner }),
        1 => owner().prop_map(|owner| Step::Unmerge { owner }),
        2 => (owner(), owner()).prop_map(|(owner, with)| Step::Merge { owner, with }),
        1 => (0..OWNERS).prop_map(|by| Step::Rotate { by }),
        1 => Just(Step::Retry),
    ];
    proptest::collection::vec(step, 0..120)
}

struct Owner {
    copy: Sample,
    is_merged: bool,
    source: FeedSource,
    /// Events that the owner has not taken.
    inbox: Vec<Change<Value>>,
    to_front: VecDeque<FeedMessage<Value>>,
    from_front: VecDeque<FeedMessage<Value>>,
}

/// Owners, the node of the connection, and what it has passed on.
pub(super) struct World {
    owners: Vec<Owner>,
    sink: FeedSink,
    known: VersionVector,
    clocks: BTreeMap<Dot, u64>,
    numbers: BTreeMap<u64, u64>,
    /// Messages with the client, in the order in which they were passed on.
    unacknowledged: Vec<QueueKey>,
    passed_on: Vec<QueueKey>,
    published: BTreeSet<QueueKey>,
    /// Messages that owners have removed.
    expired: BTreeSet<QueueKey>,
    /// What each feed has sent, and what its receiver had.
    sent: BTreeMap<FeedId, BTreeSet<QueueKey>>,
    deliveries: Deliveries,
}

fn id(owner: usize) -> NodeId {
    dot(OWNER_RUN + owner as u64, 1).run.node
}

impl World {
    pub(super) fn new(window: Window) -> World {
        let (feeds_max, deliveries_max) = (1, 64);
        let limits = SourceLimits {
            feeds_per_peer_max: 1,
            held_max: 8,
            deliveries_max,
        };
        let owner = |_| Owner {
            copy: Sample::new(VersionVector::default()),
            is_merged: true,
            source: FeedSource::new(limits),
            inbox: Vec::new(),
            to_front: VecDeque::new(),
            from_front: VecDeque::new(),
        };
        let sink_limits = SinkLimits {
            feeds_max,
            window,
            deliveries_max,
        };
        let mut world = World {
            owners: (0..OWNERS).map(owner).collect(),
            sink: FeedSink::new(front(), sink_limits),
            known: VersionVector::default(),
            clocks: BTreeMap::new(),
            numbers: BTreeMap::new(),
            unacknowledged: Vec::new(),
            passed_on: Vec::new(),
            published: BTreeSet::new(),
            expired: BTreeSet::new(),
            sent: BTreeMap::new(),
            deliveries: Deliveries::default(),
        };
        let session = world.change(0, Vec::new(), Some((Fact::Session { connected: None }, 0)));
        world.hear(session.dot);
        world.tell(&session);
        (0..OWNERS).for_each(|owner| world.take(owner, 0));
        let mut actions = Vec::new();
        let known = Arc::new(world.known.clone());
        let owners = (0..OWNERS).map(id).collect();
        let begun = world.sink.begin(queue_of(0), owners, &known, &mut actions);
        begun.expect("room");
        world.act(actions);
        world
    }

    pub(super) fn passed_on(&self) -> &[QueueKey] {
        &self.passed_on
    }

    pub(super) fn step(&mut self, step: &Step) {
        match *step {
            Step::Publish { run, clock } => self.publish(run, clock),
            Step::Take { owner, at } => self.take(owner, at),
            Step::Hear { at } => {
                let dots: Vec<Dot> = self.clocks.keys().copied().collect();
                self.hear(dots[at % dots.len()]);
            }
            Step::Deliver {
                to_front: true,
                owner,
            } => self.deliver_to_front(owner),
            Step::Deliver {
                to_front: false,
                owner,
            } => self.deliver_to_owner(owner),
            Step::Acknowledge { at } => self.acknowledge(at),
            Step::Expire { owner, at } => self.expire(owner, at),
            Step::Assign { run, at } => self.assign(run, at),
            Step::Resume { at } => self.resume(at),
            Step::Free { owner, at } => self.free(owner, at),
            Step::Mismatch { owner, at } => self.mismatch(owner, at),
            Step::Lose { owner } => self.lose(owner),
            Step::Unmerge { owner } => {
                self.owners[owner].is_merged = false;
                self.step_source(owner, SourceEvent::CopyUnmerged(slot()));
            }
            Step::Merge { owner, with } => self.merge(owner, with),
            Step::Rotate { by } => {
                let owners = (0..2).map(|at| id((at + by) % OWNERS)).collect();
                let slot = slot();
                self.step_sink(SinkEvent::OwnersChanged { slot, owners });
            }
            Step::Retry => self.step_sink(SinkEvent::Retried),
        }
    }

    /// Makes an event: the run's numbers have no gaps.
    fn change(&mut self, run: u64, removes: Vec<Dot>, adds: Option<(Fact, u64)>) -> Change<Value> {
        let number = self.numbers.entry(run).or_default();
        *number += 1;
        let dot = dot(run, *number);
        let birth = Birth {
            dot: super::dot(0, 1),
            clock: Hlc::ZERO,
            is_clean: false,
        };
        let (fact, clock) = adds.map_or((None, 0), |(fact, clock)| (Some(fact), clock));
        self.clocks.insert(dot, clock);
        Change {
            dot,
            client: client(0),
            removes,
            adds: fact.map(|fact| entry_of(fact, birth, Hlc::at(clock), dot)),
        }
    }

    fn tell(&mut self, change: &Change<Value>) {
        for owner in &mut self.owners {
            owner.inbox.push(change.clone());
        }
    }

    fn hear(&mut self, dot: Dot) {
        let up_to = Interval::up_to(dot.run, dot.number).expect("an event");
        self.known.insert(up_to).expect("histories are short");
    }

    fn publish(&mut self, run: u64, clock: u64) {
        let change = self.change(run, Vec::new(), Some((Fact::Message, clock)));
        self.published.insert(key(clock, change.dot));
        self.tell(&change);
    }

    fn acknowledge(&mut self, at: usize) {
        if self.unacknowledged.is_empty() {
            return;
        }
        let key = self.unacknowledged.remove(at % self.unacknowledged.len());
        let change = self.change(FRONT_RUN, vec![key.dot], None);
        self.hear(change.dot);
        self.tell(&change);
        let client = client(0);
        self.step_sink(SinkEvent::Acknowledged { client, key });
    }

    fn expire(&mut self, owner: usize, at: usize) {
        let queue: Vec<QueueKey> = self.queue(owner).into_iter().collect();
        if queue.is_empty() {
            return;
        }
        let key = queue[at % queue.len()];
        self.expired.insert(key);
        let change = self.change(OWNER_RUN + owner as u64, vec![key.dot], None);
        self.tell(&change);
        let last = self.owners[owner].inbox.len() - 1;
        self.take(owner, last);
    }

    fn queue(&self, owner: usize) -> BTreeSet<QueueKey> {
        self.queues(owner).queue(&client(0))
    }

    fn queues(&self, owner: usize) -> CopyQueues<'_> {
        let Owner { copy, is_merged, .. } = &self.owners[owner];
        let is_merged = *is_merged;
        CopyQueues { copy, is_merged }
    }

    /// An owner takes an event, and tells its feeds.
    fn take(&mut self, owner: usize, at: usize) {
        let of = &mut self.owners[owner];
        if of.inbox.is_empty() {
            return;
        }
        let change = of.inbox.remove(at % of.inbox.len());
        self.take_change(owner, &change);
    }

    fn take_change(&mut self, owner: usize, change: &Change<Value>) {
        let before = self.queue(owner);
        let deliveries = self.queues(owner).deliveries(&client(0));
        let copy = &mut self.owners[owner].copy;
        copy.apply(change.clone()).expect("room");
        copy.claim(|_, _, _| Vec::new()).expect("nothing is needed");
        let after = self.queue(owner);
        let by = change.dot;
        for key in after.difference(&before).copied() {
            let client = client(0);
            self.step_source(owner, SourceEvent::Appended { client, key });
        }
        for key in before.difference(&after).copied() {
            let client = client(0);
            self.step_source(owner, SourceEvent::Removed { client, key, by });
        }
        self.tell_deliveries(owner, &deliveries, change);
        self.step_source(owner, SourceEvent::CopyReady(slot()));
        self.check_deliveries(owner);
    }

    fn merge(&mut self, owner: usize, with: usize) {
        self.step_source(owner, SourceEvent::CopyUnmerged(slot()));
        let other = self.owners[with].copy.clone();
        let of = &mut self.owners[owner];
        of.copy.merge(other).expect("histories are short");
        let covered = of.copy.covered().clone();
        of.inbox.retain(|change| !covered.covers(change.dot));
        of.is_merged = true;
        self.step_source(owner, SourceEvent::CopyReady(slot()));
        self.check_deliveries(owner);
    }

    fn lose(&mut self, owner: usize) {
        self.owners[owner].to_front.clear();
        self.owners[owner].from_front.clear();
        self.deliveries.close(owner);
        self.step_source(owner, SourceEvent::PeerLost(FRONT));
        self.step_sink(SinkEvent::OwnerLost(id(owner)));
    }

    fn deliver_to_front(&mut self, owner: usize) {
        let from = id(owner);
        match self.owners[owner].to_front.pop_front() {
            Some(FeedMessage::Items(items)) => self.step_sink(SinkEvent::ItemsReceived { from, items }),
            Some(FeedMessage::Closed { feed, .. }) => self.step_sink(SinkEvent::Closed { from, feed }),
            None => {}
            Some(other) => unreachable!("{other:?} is for owners"),
        }
    }

    fn deliver_to_owner(&mut self, owner: usize) {
        let from = FRONT;
        let event = match self.owners[owner].from_front.pop_front() {
            Some(FeedMessage::Open(open)) => {
                self.sent.insert(open.feed, open.held.clone());
                self.deliveries.open(owner, &open.deliveries);
                SourceEvent::Opened { from, open }
            }
            Some(FeedMessage::Window { feed, window }) => SourceEvent::WindowGranted { from, feed, window },
            Some(FeedMessage::Close { feed }) => {
                self.deliveries.close(owner);
                SourceEvent::Closed { from, feed }
            }
            None => return,
            Some(other) => unreachable!("{other:?} is for sinks"),
        };
        self.step_source(owner, event);
        self.check_deliveries(owner);
    }

    fn step_source(&mut self, owner: usize, event: SourceEvent) {
        let mut actions = Vec::new();
        let Owner {
            copy,
            is_merged,
            source,
            ..
        } = &mut self.owners[owner];
        let is_merged = *is_merged;
        let queues = CopyQueues { copy, is_merged };
        let stepped = source.step(event, &queues, &mut actions);
        stepped.expect("the sink keeps to the protocol");
        for FeedAction { to, message } in actions {
            assert_eq!(to, FRONT);
            if let FeedMessage::Items(items) = &message {
                self.note_told(owner, &items.deliveries);
                self.check_order(owner, items);
            }
            self.owners[owner].to_front.push_back(message);
        }
    }

    /// A feed leaves out nothing of the queue that is before what it sends, and sends nothing twice.
    fn check_order(&mut self, owner: usize, items: &FeedItems<Value>) {
        assert!(self.owners[owner].is_merged || items.items.is_empty());
        let queue = self.queue(owner);
        let deliveries = self.queues(owner).deliveries(&client(0));
        let sent = self.sent.entry(items.feed).or_default();
        for item in &items.items {
            assert!(queue.contains(&item.key));
            assert!(sent.insert(item.key), "{:?} is sent twice", item.key);
            self.deliveries.check_told(owner, item.key.dot, &deliveries);
        }
        if let Some(last) = items.items.last() {
            assert!(queue.range(..last.key).all(|key| sent.contains(key)));
        }
    }

    fn step_sink(&mut self, event: SinkEvent<Value>) {
        let mut actions = Vec::new();
        let known = Arc::new(self.known.clone());
        let stepped = self.sink.step(event, || Arc::clone(&known), &mut actions);
        stepped.expect("the sources keep to the protocol");
        self.act(actions);
    }

    fn act(&mut self, actions: Vec<SinkAction<Value>>) {
        for action in actions {
            match action {
                SinkAction::Send(FeedAction { to, message }) => {
                    let owner = (0..OWNERS).find(|owner| id(*owner) == to);
                    let owner = owner.expect("only owners are asked");
                    self.owners[owner].from_front.push_back(message);
                }
                SinkAction::Deliver {
                    deliveries, items, ..
                } => {
                    self.deliveries.take(&deliveries);
                    self.pass_on(&items);
                }
                SinkAction::Withdraw { keys, .. } => {
                    assert!(keys.iter().all(|key| self.expired.contains(key)));
                    self.unacknowledged.retain(|key| !keys.contains(key));
                }
            }
        }
    }

    fn pass_on(&mut self, items: &[FeedItem<Value>]) {
        for item in items {
            assert!(!self.passed_on.contains(&item.key), "{:?} comes twice", item.key);
            assert_eq!(item.value, item.key.dot.number);
            self.passed_on.push(item.key);
            self.unacknowledged.push(item.key);
        }
    }

    /// Everything arrives, and the client acknowledges what it gets.
    pub(super) fn come_to_rest(&mut self) {
        for owner in 0..OWNERS {
            while !self.owners[owner].inbox.is_empty() {
                self.take(owner, 0);
            }
        }
        for owner in 0..OWNERS {
            (0..OWNERS).for_each(|with| self.merge(owner, with));
        }
        for _ in 0..400 {
            self.step(&Step::Retry);
            for owner in 0..OWNERS {
                self.deliver_to_owner(owner);
                self.deliver_to_front(owner);
                self.take(owner, 0);
            }
            self.acknowledge(0);
        }
    }

    #[track_caller]
    pub(super) fn assert_all_passed_on(&self) {
        let passed_on: BTreeSet<QueueKey> = self.passed_on.iter().copied().collect();
        let missed: Vec<&QueueKey> = self.published.difference(&passed_on).collect();
        assert!(
            missed.iter().all(|key| self.expired.contains(key)),
            "{missed:?} are missed"
        );
        assert!(self.unacknowledged.is_empty());
        for owner in 0..OWNERS {
            assert!(self.queue(owner).is_empty(), "what was acknowledged is removed");
        }
    }
}

pub(super) fn slot() -> Slot {
    Slot::of_client(client(0).as_bytes())
}
