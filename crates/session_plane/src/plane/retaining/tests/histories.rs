//! Random histories: at rest each topic has exactly the entries that no event has removed.
//!
//! The oracle is a set of dots. An event adds its own, and removes those that its node's copy had. No event
//! is lost, so what is left at rest follows from that, in whatever order copies merge.

use super::world::{Mirror, Mirrored};
use super::*;

const TOPICS: [&str; 3] = ["a", "b", "c"];

/// Step of a history.
#[derive(Debug, Clone)]
enum Act {
    Retain(u64, usize),
    Clear(u64, usize),
    Split(Vec<u64>),
    Heal,
    Restart(u64),
    Pass(usize),
}

/// What the entries of all topics are to be.
#[derive(Debug, Default)]
struct Oracle {
    /// Entries by topic and dot, with their clocks.
    left: BTreeMap<ClientId, BTreeMap<Dot, (Hlc, u64)>>,
    removed: BTreeSet<Dot>,
    texts: u64,
}

impl Oracle {
    fn write(&mut self, world: &mut World, id: u64, name: &str, is_removal: bool) {
        let topic = topic(name);
        let seen = world.plane(id).retained_dots(&topic);
        self.texts += 1;
        let text = (!is_removal).then_some(self.texts);
        let made = retain(world, id, name, text);
        assert_eq!(made.is_none(), is_removal && seen.is_empty());
        let of_topic = self.left.entry(topic).or_default();
        of_topic.retain(|dot, _| !seen.contains(dot));
        self.removed.extend(seen);
        if let Some((made, text)) = made.zip(text) {
            of_topic.insert(made.dot, (made.clock, text));
        }
    }

    fn expected(&self) -> Mirror {
        let mut expected = Mirror::new();
        for (topic, entries) in &self.left {
            let latest = entries.iter().max_by_key(|(dot, (clock, _))| (*clock, **dot));
            if let Some((dot, (_, text))) = latest {
                let (dot, text) = (*dot, Text(*text));
                expected.insert(topic.clone(), Mirrored { dot, text });
            }
        }
        expected
    }

    /// No copy has what an event has removed that it covers.
    fn check_removed(&self, world: &World) {
        for (id, node) in &world.nodes {
            let dots: BTreeSet<Dot> = TOPICS
                .iter()
                .flat_map(|name| node.plane.retained_dots(&topic(name)))
                .collect();
            let back = dots.intersection(&self.removed).next();
            assert_eq!(back, None, "{id} has it again");
        }
    }
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let nodes = || 1..=3_u64;
    let act = prop_oneof![
        6 => (nodes(), 0..TOPICS.len()).prop_map(|(id, name)| Act::Retain(id, name)),
        3 => (nodes(), 0..TOPICS.len()).prop_map(|(id, name)| Act::Clear(id, name)),
        1 => proptest::sample::subsequence(vec![1, 2, 3], 1..3).prop_map(Act::Split),
        1 => Just(Act::Heal),
        1 => nodes().prop_map(Act::Restart),
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
    fn copies_at_rest_have_what_no_event_has_removed(
        acts in acts(),
        skew in proptest::collection::vec(prop_oneof![Just(0), 0..5_000_u64], 3),
    ) {
        let (mut world, mut oracle) = (World::new(3, &skew), Oracle::default());
        world.pass(60);
        for act in acts {
            match act {
                Act::Retain(id, name) => oracle.write(&mut world, id, TOPICS[name], false),
                Act::Clear(id, name) => oracle.write(&mut world, id, TOPICS[name], true),
                Act::Split(side) => world.split(&side),
                Act::Heal => world.heal(),
                Act::Restart(id) => {
                    // Otherwise the event is lost with the process: it was not durable.
                    world.persist(id);
                    world.restart(id);
                }
                Act::Pass(steps) => world.pass(steps),
            }
            for node in world.nodes.values_mut() {
                node.look();
            }
        }
        world.heal();
        world.rest();
        let expected = oracle.expected();
        for (id, node) in &world.nodes {
            prop_assert_eq!(&node.mirror, &expected, "at {}", id);
        }
        oracle.check_removed(&world);
    }
}
