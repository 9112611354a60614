//! Random histories: at rest each topic has exactly the messages that no event has removed, and that no
//! clear is later than.
//!
//! The oracle has no garbage. An event adds its own entry, and removes those that its node's copy had. No
//! event is lost, so what is left at rest follows from that, in whatever order copies merge and drop.

use super::world::{Mirror, Mirrored};
use super::*;

const TOPICS: [&str; 3] = ["a", "b", "c"];

/// Step of a history.
#[derive(Debug, Clone)]
enum Act {
    Retain(u64, usize),
    Clear(u64, usize),
    Remove(u64, usize),
    Split(Vec<u64>),
    Heal,
    Restart(u64),
    Stall(u64),
    EndStalls,
    Pass(usize),
}

/// Entry that no event has removed.
#[derive(Debug)]
struct Left {
    clock: Hlc,
    /// None of a clear.
    text: Option<u64>,
}

/// What the entries of all topics are to be.
#[derive(Debug, Default)]
struct Oracle {
    /// Entries by topic and dot.
    left: BTreeMap<ClientId, BTreeMap<Dot, Left>>,
    removed: BTreeSet<Dot>,
    texts: u64,
}

impl Oracle {
    /// Writes at a node, unless its disk stands still: a restart may lose the event, or others may have it.
    fn write(&mut self, world: &mut World, id: u64, name: &str, write: impl Fn(u64) -> TopicWrite<Text>) {
        if world.is_stalled(id) {
            return;
        }
        self.texts += 1;
        let (topic, write) = (topic(name), write(self.texts));
        let plane = world.plane(id);
        let is_clear = matches!(write, TopicWrite::Clear(_));
        let seen = plane.topic_dots(&topic, |kind| is_clear || kind == EntryKind::Retained);
        let is_made = !matches!(write, TopicWrite::Remove) || plane.retained(&topic).is_some();
        let made = super::write(world, id, name, write);
        assert_eq!(made.is_some(), is_made);
        let Some(made) = made else { return };
        let of_topic = self.left.entry(topic).or_default();
        of_topic.retain(|dot, _| !seen.contains(dot));
        self.removed.extend(seen);
        let text = match write {
            TopicWrite::Retain(Text(text)) => Some(text),
            TopicWrite::Clear(_) => None,
            TopicWrite::Remove => return,
        };
        let clock = made.clock;
        of_topic.insert(made.dot, Left { clock, text });
    }

    /// Messages that are to be left of a topic, with their clocks.
    fn messages(&self, topic: &ClientId) -> BTreeMap<Dot, (Hlc, u64)> {
        let left = || self.left.get(topic).into_iter().flatten();
        let clears = left().filter(|(_, left)| left.text.is_none());
        let cleared = clears.map(|(dot, left)| (left.clock, *dot)).max();
        let messages = left().filter_map(|(dot, left)| Some((*dot, (left.clock, left.text?))));
        let stays = |dot: Dot, clock: Hlc| cleared.is_none_or(|cleared| (clock, dot) > cleared);
        messages.filter(|(dot, (clock, _))| stays(*dot, *clock)).collect()
    }

    fn expected(&self) -> Mirror {
        let mut expected = Mirror::new();
        for topic in self.left.keys() {
            let messages = self.messages(topic).into_iter();
            if let Some((dot, (_, text))) = messages.max_by_key(|(dot, (clock, _))| (*clock, *dot)) {
                let text = Text(text);
                expected.insert(topic.clone(), Some(Mirrored { dot, text }));
            }
        }
        expected
    }

    /// Copies have what is left, and nothing else.
    fn check_left(&self, world: &World) {
        for (id, node) in &world.nodes {
            for topic in TOPICS.map(topic) {
                let dots: BTreeSet<Dot> = node.plane.topic_dots(&topic, |_| true).into_iter().collect();
                let back = dots.intersection(&self.removed).next();
                assert_eq!(back, None, "{id} has it again");
                let left = self.messages(&topic).into_keys().collect();
                assert_eq!(dots, left, "{id} has of {topic:?}");
            }
        }
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let nodes = || 1..=3_u64;
    let act = prop_oneof![
        6 => (nodes(), 0..TOPICS.len()).prop_map(|(id, name)| Act::Retain(id, name)),
        3 => (nodes(), 0..TOPICS.len()).prop_map(|(id, name)| Act::Clear(id, name)),
        2 => (nodes(), 0..TOPICS.len()).prop_map(|(id, name)| Act::Remove(id, name)),
        1 => proptest::sample::subsequence(vec![1, 2, 3], 1..3).prop_map(Act::Split),
        1 => Just(Act::Heal),
        2 => nodes().prop_map(Act::Restart),
        1 => nodes().prop_map(Act::Stall),
        1 => Just(Act::EndStalls),
        4 => (1..6_usize).prop_map(Act::Pass),
        2 => (30..60_usize).prop_map(Act::Pass),
    ];
    proptest::collection::vec(act, 10..40)
}

fn cases() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 12;
    }
    config
}

proptest! {
    #![proptest_config(cases())]

    /// After each step the mirror of each node is its copy, which [`World::step`] checks.
    #[test]
    fn copies_at_rest_have_what_was_neither_removed_nor_cleared(
        acts in acts(),
        skew in proptest::collection::vec(prop_oneof![Just(0), 0..5_000_u64], 3),
    ) {
        let (mut world, mut oracle) = (World::new(3, &skew), Oracle::default());
        world.pass(60);
        for act in acts {
            match act {
                Act::Retain(id, name) => {
                    oracle.write(&mut world, id, TOPICS[name], |text| TopicWrite::Retain(Text(text)));
                }
                Act::Clear(id, name) => {
                    oracle.write(&mut world, id, TOPICS[name], |text| TopicWrite::Clear(Text(text)));
                }
                Act::Remove(id, name) => oracle.write(&mut world, id, TOPICS[name], |_| TopicWrite::Remove),
                Act::Split(side) => world.split(&side),
                Act::Heal => world.heal(),
                Act::Restart(id) => {
                    // Otherwise the event is lost with the process: it was not durable.
                    world.persist(id);
                    world.restart(id);
                }
                Act::Stall(id) => {
                    // What it has made goes to the disk still.
                    world.persist(id);
                    world.stall(id);
                }
                Act::EndStalls => world.end_stalls(),
                Act::Pass(steps) => world.pass(steps),
            }
            for node in world.nodes.values_mut() {
                node.look();
            }
        }
        world.heal();
        world.end_stalls();
        world.rest();
        let expected = oracle.expected();
        for (id, node) in &world.nodes {
            prop_assert_eq!(&node.mirror, &expected, "at {}", id);
        }
        oracle.check_left(&world);
    }
}
