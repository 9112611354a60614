//! Filters of a node: what a message is found to match, and what queues get of it.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use cluster::session_plane::Hlc;
use cluster::{Incarnation, NodeId};
use mqtt::memory::MessageBytes;
use proptest::prelude::*;
use protocol::TopicName;
use protocol::packet::{QoS, SubscriptionId, SubscriptionOptions};
use protocol::topic::SubscriptionFilter;
use session_plane::interests::{Interest, InterestChange};
use session_plane::plane::{CopyRef, Matching};
use session_plane::{
    Birth, Change, ClientId, Dot, Entry, EntryKind, Fact, GroupId, Matched, MemberTerms, Pending, Run, Slot,
    SlotCopy, SlotSet, VersionVector,
};
use session_values::{
    Content, ContentParts, Filters, QueuedMessage, SessionTerms, SubscriptionParts, SubscriptionTerms, Value,
};

use super::samples::{bare_parts, text};

const LEAST: QoS = QoS::AtLeastOnce;
const ONCE: QoS = QoS::ExactlyOnce;

/// Clock at which messages are published.
const PUBLISHED: u64 = 100;
/// Event of the first message of a test.
const FIRST_MESSAGE: u64 = 500;

fn dot(number: u64) -> Dot {
    let run = Run {
        node: NodeId(1),
        incarnation: Incarnation(1),
    };
    Dot { run, number }
}

fn client(name: &str) -> ClientId {
    ClientId::new(name.as_bytes()).expect("a short id")
}

fn subscription(filter: &str, qos: QoS) -> SubscriptionParts {
    SubscriptionParts {
        filter: SubscriptionFilter::parse(text(filter)).expect("a filter"),
        options: SubscriptionOptions {
            qos,
            ..SubscriptionOptions::default()
        },
        id: None,
        since: None,
        retained_from: None,
    }
}

fn value(parts: &SubscriptionParts) -> Value {
    Value::Subscription(SubscriptionTerms::new(parts))
}

fn content(topic: &str, qos: QoS) -> ContentParts {
    let mut parts = bare_parts();
    parts.message.topic = TopicName::parse(text(topic)).expect("a topic");
    parts.message.qos = qos;
    parts
}

/// Copy of the slot of a client, and the filters of its node.
struct Queues {
    filters: Filters,
    slot: Slot,
    copy: SlotCopy<Value, Content>,
    values: BTreeMap<ClientId, Vec<Value>>,
    /// Event of the next message.
    next: Cell<u64>,
}

impl Queues {
    fn new(slot: Slot) -> Queues {
        Queues {
            filters: Filters::new(7),
            slot,
            copy: SlotCopy::new(VersionVector::default()),
            values: BTreeMap::new(),
            next: Cell::new(FIRST_MESSAGE),
        }
    }

    /// Adds the session of a client, which is born with its event.
    fn begin(&mut self, name: &str, number: u64) -> Birth {
        let (dot, clock, is_clean) = (dot(number), Hlc::at(number), false);
        let birth = Birth { dot, clock, is_clean };
        let session = Value::Session(SessionTerms::new(u32::MAX, None));
        self.add(
            &client(name),
            number,
            birth,
            Fact::Session { connected: None },
            session,
        );
        birth
    }

    fn subscribe(&mut self, name: &str, number: u64, birth: Birth, parts: &SubscriptionParts) {
        self.add(&client(name), number, birth, Fact::Subscription, value(parts));
    }

    fn add(&mut self, client: &ClientId, number: u64, birth: Birth, fact: Fact, value: Value) {
        let is_of_subscriber = matches!(fact.kind(), EntryKind::Subscription | EntryKind::Member);
        let entry = Entry {
            birth,
            clock: Hlc::at(number),
            fact,
            value: value.clone(),
        };
        let change = Change {
            dot: dot(number),
            client: client.clone(),
            removes: Vec::new(),
            adds: Some(entry),
        };
        self.copy.apply(change).expect("there is room");
        if is_of_subscriber {
            let values = self.values.entry(client.clone()).or_default();
            values.push(value);
            self.filters
                .subscribe(client, &values.iter().collect::<Vec<&Value>>());
        }
    }

    fn copy(&self) -> CopyRef<'_, Value> {
        CopyRef {
            slot: self.slot,
            entries: self.copy.entries(),
            covered: self.copy.covered(),
            taken: self.copy.taken(),
            holes: self.copy.holes(),
        }
    }

    fn slots(&self, parts: &ContentParts) -> SlotSet {
        self.filters.slots(&self.copy(), &Content::new(parts))
    }

    fn matches(&self, parts: &ContentParts) -> Vec<Matched<Value>> {
        let pending = Pending {
            clock: Hlc::at(PUBLISHED),
            message: Content::new(parts),
        };
        let number = self.next.replace(self.next.get() + 1);
        self.filters.matches(&self.copy(), dot(number), &pending)
    }

    /// Message that the only queue gets.
    fn queued(&self, parts: &ContentParts) -> Option<QueuedMessage> {
        let mut matched = self.matches(parts);
        assert!(matched.len() <= 1, "{matched:?}");
        match matched.pop()?.value {
            Value::Message(message) => Some(message),
            other => panic!("{other:?}"),
        }
    }
}

fn slot() -> Slot {
    Slot::of_client(b"panel")
}

#[test]
fn mqtt_3_3_4_2_a_session_gets_a_message_once_with_the_highest_qos() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    let with_id = |filter, qos, id| SubscriptionParts {
        id: SubscriptionId::new(id),
        ..subscription(filter, qos)
    };
    queues.subscribe("panel", 2, birth, &with_id("line/#", ONCE, 7));
    queues.subscribe("panel", 3, birth, &with_id("line/+", LEAST, 9));
    queues.subscribe("panel", 4, birth, &with_id("press/7", ONCE, 11));
    assert_eq!(
        queues.slots(&content("line/7", ONCE)),
        SlotSet::from_iter([slot()])
    );
    let queued = queues.queued(&content("line/7", ONCE)).expect("it matches");
    assert_eq!((queued.qos(), queued.retain()), (ONCE, false));
    let ids: Vec<u32> = queued.subscription_ids().iter().map(|id| id.get()).collect();
    assert_eq!(ids, [7, 9]);
    let queued = queues.queued(&content("line/7", LEAST)).expect("it matches");
    assert_eq!(queued.qos(), LEAST, "the message has no more [MQTT-3.8.4-8]");
    assert_eq!(
        queues.queued(&content("line", ONCE)).map(|queued| queued.qos()),
        Some(ONCE)
    );
    assert_eq!(queues.queued(&content("other", ONCE)), None);
    assert_eq!(queues.slots(&content("other", ONCE)), SlotSet::default());
}

#[test]
fn a_subscription_of_qos_0_and_a_message_of_qos_0_are_not_stored() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    queues.subscribe("panel", 2, birth, &subscription("line/7", QoS::AtMostOnce));
    assert_eq!(queues.slots(&content("line/7", ONCE)), SlotSet::default());
    assert_eq!(queues.matches(&content("line/7", ONCE)), []);
    queues.subscribe("panel", 3, birth, &subscription("line/#", LEAST));
    assert_eq!(queues.matches(&content("line/7", QoS::AtMostOnce)), []);
    let queued = queues.queued(&content("line/7", ONCE)).expect("it matches");
    assert_eq!(queued.qos(), LEAST);
}

#[test]
fn a_message_matches_earlier_subscriptions_alone() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    queues.subscribe("panel", PUBLISHED, birth, &subscription("line/7", ONCE));
    assert_eq!(queues.queued(&content("line/7", ONCE)), None);
    let since = SubscriptionParts {
        since: Some(Hlc::at(2)),
        ..subscription("line/+", LEAST)
    };
    queues.subscribe("panel", PUBLISHED + 1, birth, &since);
    let queued = queues
        .queued(&content("line/7", ONCE))
        .expect("it was subscribed before");
    assert_eq!(queued.qos(), LEAST);
}

#[test]
fn mqtt_3_8_3_3_no_local_leaves_out_the_messages_of_the_client_itself() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    let mut parts = subscription("line/7", ONCE);
    parts.options.no_local = true;
    queues.subscribe("panel", 2, birth, &parts);
    let of = |publisher: &str| ContentParts {
        publisher: Some(text(publisher)),
        ..content("line/7", ONCE)
    };
    assert_eq!(queues.queued(&of("panel")), None);
    assert!(queues.queued(&of("press")).is_some());
    assert!(queues.queued(&content("line/7", ONCE)).is_some());
}

#[test]
fn mqtt_3_3_1_13_retain_is_kept_for_a_subscription_that_asks_for_it() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    queues.subscribe("panel", 2, birth, &subscription("line/7", ONCE));
    let mut retained = content("line/7", ONCE);
    retained.message.retain = true;
    assert_eq!(
        queues.queued(&retained).map(|queued| queued.retain()),
        Some(false)
    );
    let mut as_published = subscription("line/#", LEAST);
    as_published.options.retain_as_published = true;
    queues.subscribe("panel", 3, birth, &as_published);
    assert_eq!(queues.queued(&retained).map(|queued| queued.retain()), Some(true));
}

#[test]
fn of_two_sessions_that_count_the_later_one_gets_the_message() {
    let mut queues = Queues::new(slot());
    let (first, second) = (queues.begin("panel", 1), queues.begin("panel", 2));
    queues.subscribe("panel", 3, second, &subscription("line/7", LEAST));
    queues.subscribe("panel", 4, first, &subscription("line/7", ONCE));
    let matched = queues.matches(&content("line/7", ONCE));
    let births: Vec<Dot> = matched.iter().map(|matched| matched.birth.dot).collect();
    assert_eq!(births, [second.dot]);
}

#[test]
fn a_will_expires_from_its_publication_on() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    queues.subscribe("panel", 2, birth, &subscription("line/7", LEAST));
    let mut will = content("line/7", LEAST);
    will.message.properties.message_expiry = Some(60);
    let queued = queues.queued(&will).expect("it matches");
    let end = Hlc::at(PUBLISHED).wall() + 60_000;
    assert_eq!(queued.content().expires_at(), Some(end));
}

#[test]
fn a_group_gets_a_message_once_in_the_slot_of_its_part() {
    let group = GroupId::new(b"team/line/#").expect("a short name");
    let of_part = group.slot(b"line/7");
    let mut queues = Queues::new(of_part);
    for (number, name) in [(2, "press"), (3, "panel")] {
        let terms = MemberTerms {
            client: client(name),
            since: None,
        };
        let (dot, clock, is_clean) = (dot(number), Hlc::at(number), false);
        let birth = Birth { dot, clock, is_clean };
        let parts = subscription("$share/team/line/#", QoS::AtMostOnce);
        queues.add(
            group.key(),
            number,
            birth,
            Fact::Member(Box::new(terms)),
            value(&parts),
        );
    }
    assert_eq!(
        queues.slots(&content("line/7", ONCE)),
        SlotSet::from_iter([of_part])
    );
    let matched = queues.matches(&content("line/7", ONCE));
    let [matched] = &matched[..] else {
        panic!("{matched:?}");
    };
    assert_eq!(
        (&matched.client, matched.birth.dot),
        (group.key(), dot(FIRST_MESSAGE))
    );
    assert_eq!(queues.matches(&content("other", ONCE)), []);
}

#[test]
fn nodes_get_what_they_want() {
    let mut filters = Filters::new(7);
    let change = |filter: &str, interest| InterestChange {
        filter: session_plane::TopicFilter::new(filter.as_bytes()).expect("short"),
        interest,
    };
    filters.learn(NodeId(1), change("line/+", Some(Interest::All)));
    filters.learn(NodeId(2), change("line/#", Some(Interest::Unstored)));
    filters.learn(NodeId(3), change("line/#/7", Some(Interest::All)));
    let nodes = |filters: &Filters, qos| {
        let nodes = filters.nodes(&Content::new(&content("line/7", qos)));
        nodes.into_iter().map(|node| node.0).collect::<Vec<u64>>()
    };
    assert_eq!(nodes(&filters, LEAST), [1]);
    assert_eq!(nodes(&filters, QoS::AtMostOnce), [1, 2]);
    assert_eq!(filters.interests(NodeId(3)), 1, "what is no filter counts");
    filters.learn(NodeId(1), change("line/+", None));
    filters.learn(NodeId(2), change("line/#", Some(Interest::All)));
    assert_eq!(nodes(&filters, LEAST), [2]);
    assert_eq!(filters.interests(NodeId(1)), 0);
    filters.forget(NodeId(2));
    assert_eq!(nodes(&filters, QoS::AtMostOnce), []);
}

#[test]
fn recipients_are_the_slots_of_queues_and_the_nodes_of_interests() {
    let mut queues = Queues::new(slot());
    let birth = queues.begin("panel", 1);
    queues.subscribe("panel", 2, birth, &subscription("line/#", LEAST));
    let filter = session_plane::TopicFilter::new(b"line/+").expect("short");
    let interest = Some(Interest::All);
    queues
        .filters
        .learn(NodeId(2), InterestChange { filter, interest });
    let topic = TopicName::parse(text("line/7")).expect("a topic");
    let stored = queues.filters.recipients(&topic, LEAST);
    assert_eq!(stored.slots.iter().collect::<Vec<Slot>>(), [slot()]);
    assert_eq!(stored.nodes, BTreeSet::from([NodeId(2)]));
    let unstored = queues.filters.recipients(&topic, QoS::AtMostOnce);
    assert!(unstored.slots.is_empty(), "no queue has a message of QoS 0");
    assert_eq!(unstored.nodes, BTreeSet::from([NodeId(2)]));
    assert_eq!(queues.filters.sessions(&topic, slot()), [client("panel")]);
}

#[test]
fn a_content_that_waits_counts_once_until_nobody_has_it() {
    let mut queues = Queues::new(slot());
    let account = MessageBytes::default();
    queues.filters = Filters::new(7).counting_in(account.clone());
    let birth = queues.begin("panel", 1);
    queues.subscribe("panel", 2, birth, &subscription("line/#", LEAST));
    assert!(queues.matches(&content("other", LEAST)).is_empty());
    assert_eq!(account.bytes(), 0, "no queue gets it");
    let first = queues.queued(&content("line/7", LEAST)).expect("a message");
    let counted = first.content().memory() as u64;
    assert_eq!(account.bytes(), counted);
    first.content().count_in(&account);
    assert_eq!(account.bytes(), counted, "it counts once");
    drop(first);
    assert_eq!(account.bytes(), 0);
}

/// Filters and topics that meet often.
const FILTERS: [&str; 6] = ["a", "a/b", "a/+", "+/b", "a/#", "#"];
const TOPICS: [&str; 5] = ["a", "a/b", "a/b/c", "b/b", "$a"];

/// Subscriptions of a client, as they are set.
fn sets() -> impl Strategy<Value = Vec<(usize, Vec<(usize, bool)>)>> {
    let subscriptions = proptest::collection::vec((0..FILTERS.len(), any::<bool>()), 0..4);
    proptest::collection::vec((0..4_usize, subscriptions), 0..20)
}

proptest! {
    /// The search finds the clients with a filter that matches, and no others.
    #[test]
    fn slots_are_those_of_clients_with_a_filter_that_matches(sets in sets()) {
        let mut filters = Filters::new(7);
        let mut naive: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for (number, subscriptions) in sets {
            let qos = |is_stored| if is_stored { LEAST } else { QoS::AtMostOnce };
            let values = subscriptions.iter().map(|(at, is_stored)| value(&subscription(FILTERS[*at], qos(*is_stored))));
            let values: Vec<Value> = values.collect();
            filters.subscribe(&client(&number.to_string()), &values.iter().collect::<Vec<&Value>>());
            let stored = subscriptions.iter().filter(|(_, is_stored)| *is_stored);
            naive.insert(number, stored.map(|(at, _)| *at).collect());
            let copy: SlotCopy<Value, Content> = SlotCopy::new(VersionVector::default());
            let copy = CopyRef {
                slot: Slot::ROUTES,
                entries: copy.entries(),
                covered: copy.covered(),
                taken: copy.taken(),
                holes: copy.holes(),
            };
            for topic in TOPICS {
                let found = filters.slots(&copy, &Content::new(&content(topic, LEAST)));
                let matches = |at: &usize| {
                    let filter = SubscriptionFilter::parse(text(FILTERS[*at])).expect("a filter");
                    filter.filter.matches(topic)
                };
                let clients = naive.iter().filter(|(_, of_client)| of_client.iter().any(matches));
                let slots = clients.map(|(number, _)| Slot::of_client(number.to_string().as_bytes()));
                prop_assert_eq!(found, slots.collect::<SlotSet>(), "{}", topic);
            }
        }
    }
}
