//! Histories: events in an order of cause and effect, drawn at random.

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use proptest::prelude::*;
use proptest::sample::Index;

use super::{Value, entry_of};
use crate::session_entries::tests::facts;
use crate::{Birth, Change, ClientId, Dot, Ended, Ending, EntryKind, Fact, Run, SessionEntries};

/// Runs of a history.
const RUNS: u64 = 3;
/// Clients of a history.
pub(crate) const CLIENTS: u8 = 2;

/// Event of a history: a change of a session, or a message.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) dot: Dot,
    pub(crate) clock: Hlc,
    pub(crate) change: Option<Change<Value>>,
}

impl Event {
    /// The event adds an entry that beats others.
    pub(super) fn adds_beater(&self) -> bool {
        let adds = self.change.as_ref().and_then(|change| change.adds.as_ref());
        adds.is_some_and(|entry| matches!(entry.fact, Fact::Session { .. } | Fact::End(_)))
    }
}

/// What is drawn of an event; the history decides what of it is possible.
#[derive(Debug, Clone)]
struct Draw {
    run: u64,
    client: u8,
    is_message: bool,
    is_clean: bool,
    adds: Option<Fact>,
    birth: Option<Index>,
    removes: Vec<Index>,
}

pub(crate) fn run(of: u64) -> Run {
    Run {
        node: NodeId(1 + of),
        incarnation: Incarnation(1),
    }
}

pub(crate) fn dot(of: u64, number: u64) -> Dot {
    Dot { run: run(of), number }
}

pub(crate) fn client(number: u8) -> ClientId {
    ClientId::new(&[number]).expect("a short id")
}

/// Facts that a change may state. A message is an event of its own.
fn added() -> impl Strategy<Value = Fact> {
    let dots = || (0..RUNS, 1..10_u64).prop_map(|(of, number)| dot(of, number));
    // Entries of topics are of a slot of their own, and the copies are of clients.
    let fact = facts(dots).prop_filter("a message is no change, and nothing is of a topic", |fact| {
        !matches!(fact, Fact::Message | Fact::Retained | Fact::Cleared)
    });
    prop_oneof![3 => Just(Fact::Session { connected: None }), 3 => Just(Fact::Subscription), 8 => fact]
}

fn draws() -> impl Strategy<Value = Draw> {
    let adds = proptest::option::weighted(0.7, added());
    let birth = proptest::option::weighted(0.8, any::<Index>());
    let removes = proptest::collection::vec(any::<Index>(), 0..4);
    let flags = (prop::bool::weighted(0.25), prop::bool::weighted(0.4));
    (0..RUNS, 0..CLIENTS, flags, adds, birth, removes).prop_map(
        |(run, client, (is_message, is_clean), adds, birth, removes)| Draw {
            run,
            client,
            is_message,
            is_clean,
            adds,
            birth,
            removes,
        },
    )
}

/// Events in an order of cause and effect: each removes and continues only what is before it.
pub(crate) fn histories() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(draws(), 1..24).prop_map(|draws| {
        let mut history: Vec<Event> = Vec::new();
        for draw in draws {
            history.push(event(&history, &draw));
        }
        history
    })
}

fn event(before: &[Event], draw: &Draw) -> Event {
    let number = before
        .iter()
        .filter(|event| event.dot.run == run(draw.run))
        .count();
    let dot = dot(draw.run, 1 + number as u64);
    // Two events each have the same clock.
    let clock = Hlc::at(before.len() as u64 / 2);
    let client = client(draw.client);
    if draw.is_message {
        let change = None;
        return Event { dot, clock, change };
    }
    let births: Vec<Birth> = before
        .iter()
        .filter_map(|event| birth_of(event, &client))
        .collect();
    let earlier = draw.birth.filter(|_| !births.is_empty());
    let birth = earlier.map_or(
        Birth {
            dot,
            clock,
            is_clean: draw.is_clean,
        },
        |index| births[index.index(births.len())],
    );
    let removable = draw.removes.iter().filter(|_| !before.is_empty());
    let removed: Vec<&Event> = removable
        .map(|index| &before[index.index(before.len())])
        .collect();
    let adds = draw.adds.clone();
    let adds = adds.map(|fact| entry_of(fact, birth, clock, dot));
    let left = left_by(&removed, &client).map(|left| entry_of(left.fact, left.birth, clock, dot));
    let change = Some(Change {
        dot,
        client,
        removes: removed.iter().map(|event| event.dot).collect(),
        adds: left.or(adds),
    });
    Event { dot, clock, change }
}

/// End that an event leaves which removes ends, or sessions that were begun clean: it beats what they
/// have beaten.
fn left_by(removed: &[&Event], client: &ClientId) -> Option<Ending> {
    let mut entries: SessionEntries<Value> = SessionEntries::default();
    for event in removed {
        let change = event.change.as_ref().filter(|change| change.client == *client);
        if let Some(entry) = change.and_then(|change| change.adds.clone()) {
            entries.insert(event.dot, entry);
        }
    }
    let mut ended = Ended::default();
    let mut birth = entries.latest_clean_start();
    for (_, entry) in entries.of_kind(EntryKind::End) {
        if let Fact::End(replaced) = &entry.fact {
            ended.unite(replaced);
            birth.get_or_insert(entry.birth);
        }
    }
    let fact = Fact::End(Box::new(ended));
    birth.map(|birth| Ending { birth, fact })
}

/// Birth of the client's session that the event has written.
fn birth_of(event: &Event, client: &ClientId) -> Option<Birth> {
    let change = event.change.as_ref().filter(|change| change.client == *client)?;
    let session = change.adds.as_ref();
    let session = session.filter(|entry| entry.fact.kind() == EntryKind::Session)?;
    Some(session.birth)
}
