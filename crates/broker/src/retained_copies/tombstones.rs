//! Topics of which nothing is retained any more, as long as some node may not know that.
//!
//! A tombstone may go when every node of the cluster has it, or something later, on its disk, and nothing older is on its way between any two of them. The member
//! with the lowest id asks all for that when tombstones are old enough, and then tells all to forget them. A node that is away cannot
//! answer: so nothing is forgotten that it might bring back, however long it is away. Removing it from the cluster lets it go on.
//!
//! A node joins while others do not know of it yet, and may have got from one that does what a tombstone stands against. So all say whom they ask, and
//! nobody confirms who knows of a node that is not asked.
//!
//! Nodes forget one after another. Who is compared with one that still has it gets it again, and it is forgotten once more.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};

use cluster::NodeId;
use mqtt::retained::Edition;
use protocol::{Text, TopicName};

/// All tombstones of a node.
#[derive(Debug, Default)]
pub(super) struct Tombstones {
    by_topic: BTreeMap<TopicName, (Edition, Instant)>,
    by_age: BTreeSet<(Instant, TopicName)>,
    bytes: u64,
}

/// What the member with the lowest id does to be rid of them.
#[derive(Debug)]
pub(super) struct Forgetting {
    round: u64,
    open: Option<Round>,
}

/// Tombstones that all nodes were asked about.
#[derive(Debug)]
struct Round {
    tombstones: Vec<(TopicName, Edition)>,
    unconfirmed: BTreeSet<NodeId>,
}

/// Question of a round to one node.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) from: NodeId,
    pub(super) round: u64,
    /// All that are asked, and the one that asks.
    pub(super) nodes: BTreeSet<NodeId>,
}

/// A question that waits for this node and the one that asks to know of the same nodes.
#[derive(Debug)]
pub(super) struct Postponed {
    pub(super) question: Question,
    /// When to look again.
    pub(super) again_at: Instant,
}

/// How long a question that cannot be answered waits until it is looked at again.
pub(super) const ASK_AGAIN: Duration = Duration::from_secs(1);

/// Tombstones of one round, and the bytes of their topics.
const ROUND_MAX: usize = 1_024;
const ROUND_BYTES: usize = 64 << 10;

/// What one counts for besides its topic, in bytes.
const TOMBSTONE: u64 = 256;

impl Tombstones {
    pub(super) fn insert(&mut self, now: Instant, topic: TopicName, edition: Edition) {
        self.remove(&topic);
        self.bytes += size(&topic);
        self.by_age.insert((now, topic.clone()));
        self.by_topic.insert(topic, (edition, now));
    }

    pub(super) fn remove(&mut self, topic: &TopicName) -> Option<Edition> {
        let (topic, (edition, since)) = self.by_topic.remove_entry(topic)?;
        self.bytes -= size(&topic);
        self.by_age.remove(&(since, topic));
        Some(edition)
    }

    pub(super) fn get(&self, topic: &TopicName) -> Option<Edition> {
        self.by_topic.get(topic).map(|(edition, _)| *edition)
    }

    /// The oldest one.
    pub(super) fn oldest(&self) -> Option<&TopicName> {
        self.by_age.first().map(|(_, topic)| topic)
    }

    /// When the oldest one is so old.
    pub(super) fn due(&self, age: Duration) -> Option<Instant> {
        self.by_age.first().map(|(since, _)| *since + age)
    }

    /// Those after a place, in the order of topics. Bytes that are no topic are behind all.
    pub(super) fn after(&self, place: &[u8]) -> impl Iterator<Item = (&TopicName, Edition)> {
        let text = std::str::from_utf8(place)
            .ok()
            .and_then(|text| Text::new(text).ok());
        let from = match text.and_then(|text| TopicName::parse(text).ok()) {
            Some(topic) => Some(Bound::Excluded(topic)),
            None => place.is_empty().then_some(Bound::Unbounded),
        };
        let all = from.map(|from| self.by_topic.range((from, Bound::Unbounded)));
        all.into_iter()
            .flatten()
            .map(|(topic, (edition, _))| (topic, *edition))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&TopicName, Edition)> {
        self.by_topic
            .iter()
            .map(|(topic, (edition, _))| (topic, *edition))
    }

    pub(super) fn len(&self) -> usize {
        self.by_topic.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The oldest ones that were made by then, as many as one round takes.
    fn made_until(&self, then: Instant) -> Vec<(TopicName, Edition)> {
        let mut bytes = 0;
        let old = self.by_age.iter().take_while(|(since, _)| *since <= then);
        let round = old.take(ROUND_MAX).take_while(|(_, topic)| {
            let is_room = bytes < ROUND_BYTES;
            bytes += topic.as_str().len();
            is_room
        });
        round
            .filter_map(|(_, topic)| Some((topic.clone(), self.get(topic)?)))
            .collect()
    }
}

impl Forgetting {
    /// Rounds are numbered from here on; a run of a node must not use those of an earlier one.
    pub(super) fn new(round: u64) -> Self {
        Self { round, open: None }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Who was asked may not have heard it, or others must be asked: it begins again later.
    pub(super) fn break_off(&mut self) {
        self.open = None;
    }

    /// Asks these nodes about the tombstones that are old enough, if there are any.
    pub(super) fn begin(
        &mut self,
        tombstones: &Tombstones,
        made_until: Instant,
        nodes: impl Iterator<Item = NodeId>,
    ) -> Option<(u64, Vec<(TopicName, Edition)>)> {
        let tombstones = tombstones.made_until(made_until);
        if tombstones.is_empty() {
            return None;
        }
        self.round += 1;
        self.open = Some(Round {
            tombstones: tombstones.clone(),
            unconfirmed: nodes.collect(),
        });
        Some((self.round, tombstones))
    }

    /// A node has confirmed. If it was the last one, these are to be forgotten.
    pub(super) fn confirmed(&mut self, node: NodeId, round: u64) -> Option<Vec<(TopicName, Edition)>> {
        if round != self.round {
            return None;
        }
        let open = self.open.as_mut()?;
        open.unconfirmed.remove(&node);
        if !open.unconfirmed.is_empty() {
            return None;
        }
        self.open.take().map(|round| round.tombstones)
    }
}

fn size(topic: &TopicName) -> u64 {
    TOMBSTONE + topic.as_str().len() as u64
}
