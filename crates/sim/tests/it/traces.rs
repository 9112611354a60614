//! Traces of requests through the cluster: what the spans of different nodes say together.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mqtt::traces::{SAMPLED_ALL, Span, SpanOf, TracesConfig};
use protocol::trace_context::SpanId;

use crate::world::{GROUPS, NODES, World, key_of};

const SECOND: Duration = Duration::from_secs(1);

/// Everything is traced, and each node leads a group.
fn traced(seed: u64) -> World {
    let mut world = World::with_config(seed, |config| {
        config.traces = Some(TracesConfig {
            sampled: SAMPLED_ALL,
            seed: config.seed,
        });
    });
    world.run(10 * SECOND, World::is_spread);
    assert!(world.is_spread());
    world
}

/// The spans of all nodes, each with its node.
fn spans(world: &mut World) -> Vec<(usize, Span)> {
    let mut spans = Vec::new();
    for (number, node) in world.nodes.iter_mut().enumerate() {
        let machine = node.iter_mut();
        let of_node = machine.flat_map(sim::machine::Machine::take_spans);
        spans.extend(of_node.map(|span| (number, span)));
    }
    spans
}

/// Asks one thing at a node, and gives back the spans of all nodes when it is answered and nothing goes on.
fn spans_of(world: &mut World, node: usize, arguments: &[&str]) -> Vec<(usize, Span)> {
    let at = world.client(node, "c");
    world.ask(at, "c", 1, arguments);
    world.run(SECOND, |_| false);
    assert_eq!(world.responses(at).len(), 1, "{arguments:?}");
    spans(world)
}

/// The kinds of spans, with the node of each, from the one that begins the trace to those that are below; and who leads.
fn tree(spans: &[(usize, Span)], below: Option<SpanId>) -> Vec<String> {
    let mut lines = Vec::new();
    // Whether anything waits here depends on when the world moves.
    let is_shown = |span: &Span| span.parent == below && span.what != SpanOf::Queued;
    for (node, span) in spans.iter().filter(|(_, span)| is_shown(span)) {
        let name = match &span.what {
            SpanOf::Request { error, .. } if error.is_some() => "refused".to_owned(),
            SpanOf::Request { verb, .. } => format!("{verb:?}"),
            SpanOf::Command { of, .. } => format!("lead for {}", of.0),
            SpanOf::Forwarded { to } => format!("forward to {}", to.0),
            other => format!("{other:?}"),
        };
        lines.push(format!("{}: {name}", node + 1));
        let deeper = tree(spans, Some(span.context.span));
        lines.extend(deeper.into_iter().map(|line| format!("  {line}")));
    }
    lines
}

/// Of one trace all spans are reached from the one that begins it, and none is longer than what it is below.
fn check(spans: &[(usize, Span)]) {
    let by_id: BTreeMap<_, _> = spans.iter().map(|(_, span)| (span.context.span, span)).collect();
    assert_eq!(by_id.len(), spans.len(), "two spans have one id");
    for (_, span) in spans {
        assert!(span.began <= span.ended, "{span:?}");
        if let Some(parent) = span.parent {
            let parent = by_id
                .get(&parent)
                .unwrap_or_else(|| panic!("{span:?} hangs in the air"));
            assert_eq!(parent.context.trace, span.context.trace);
            assert!(
                parent.began <= span.began && span.ended <= parent.ended,
                "{span:?} in {parent:?}"
            );
        }
    }
}

#[test]
fn a_command_is_one_trace_with_what_its_leader_does() {
    for seed in 1..=4 {
        let mut world = traced(seed);
        let by_leader = spans_of(&mut world, 0, &["SET", &key_of(0), "v"]);
        check(&by_leader);
        let wanted = ["1: Set", "  1: Replicated", "    1: Synced"];
        assert_eq!(tree(&by_leader, None), wanted, "seed {seed}");

        let by_another = spans_of(&mut world, 1, &["SET", &key_of(0), "v"]);
        check(&by_another);
        let wanted = [
            "2: Set",
            "  2: forward to 1",
            "    1: lead for 2",
            "      1: Replicated",
            "        1: Synced",
        ];
        assert_eq!(tree(&by_another, None), wanted, "seed {seed}");
        let took = |kind: fn(&SpanOf) -> bool| {
            let span = by_another.iter().find(|(_, span)| kind(&span.what));
            span.map(|(_, span)| span.ended - span.began)
                .expect("it is there")
        };
        // There and back, and what is between.
        let forwarded = took(|what| matches!(what, SpanOf::Forwarded { .. }));
        let led = took(|what| matches!(what, SpanOf::Command { .. }));
        assert!(forwarded >= led + crate::world::DELAY, "{forwarded:?} {led:?}");
    }
}

#[test]
fn a_read_shows_how_long_it_waited_to_be_told_how_much_it_has_to_see() {
    let mut world = traced(1);
    for node in 0..NODES {
        let read = spans_of(&mut world, node, &["GET", &key_of(0)]);
        check(&read);
        let own = node + 1;
        assert_eq!(
            tree(&read, None),
            [format!("{own}: Get"), format!("  {own}: Barrier")]
        );
    }
}

#[test]
fn what_is_refused_says_so() {
    let mut world = traced(1);
    let refused = spans_of(&mut world, 0, &["SET", &key_of(0)]);
    assert_eq!(tree(&refused, None), ["1: refused"]);
}

#[test]
fn a_command_that_outlives_its_leader_is_traced_to_the_next_one() {
    let mut world = traced(1);
    let at = world.client(1, "c");
    world.kill(0);
    world.ask(at, "c", 1, &["SET", &key_of(0), "v"]);
    world.run(5 * SECOND, |_| false);
    assert_eq!(world.responses(at).len(), 1);
    let leader = world.leaders()[0].expect("elected") + 1;
    let spans = spans(&mut world);
    let lines = tree(&spans, None);
    assert_eq!(lines[0], "2: Set");
    let led = match leader {
        2 => "Replicated".to_owned(),
        other => format!("forward to {other}"),
    };
    assert!(lines.iter().any(|line| line.ends_with(&led)), "{lines:?}");
    if leader != 2 {
        let by_leader = format!("{leader}: lead for 2");
        assert!(lines.iter().any(|line| line.ends_with(&by_leader)), "{lines:?}");
    }
}

#[test]
fn many_requests_of_all_nodes_are_traces_of_their_own() {
    let mut world = traced(2);
    let places: Vec<_> = (0..NODES).map(|node| world.client(node, "c")).collect();
    for number in 1..=40 {
        for at in &places {
            let group = u32::from(number) % GROUPS;
            world.ask(*at, "c", number, &["SET", &key_of(group), "v"]);
        }
        world.step();
    }
    world.run(2 * SECOND, |_| false);
    let spans = spans(&mut world);
    check(&spans);
    let requests = spans.iter().filter(|(_, span)| span.parent.is_none());
    let traces: BTreeSet<_> = requests.map(|(_, span)| span.context.trace).collect();
    assert_eq!(traces.len(), 40 * NODES);
    let led = |(_, span): &&(usize, Span)| matches!(span.what, SpanOf::Command { .. });
    assert_eq!(spans.iter().filter(led).count(), 40 * NODES * 2 / 3);
    let leaders: BTreeSet<usize> = spans.iter().filter(led).map(|(node, _)| *node).collect();
    assert_eq!(leaders.len(), NODES);
}

#[test]
fn where_nothing_is_wanted_nothing_is_traced() {
    let mut world = World::new(1);
    world.run(10 * SECOND, World::is_spread);
    let nothing = spans_of(&mut world, 1, &["SET", &key_of(0), "v"]);
    assert_eq!(nothing, []);
    let told = world.sent.iter().filter(|sent| sent.kind == TRACES);
    assert_eq!(told.count(), 0);

    let mut world = traced(1);
    spans_of(&mut world, 1, &["SET", &key_of(0), "v"]);
    let told = world.sent.iter().filter(|sent| sent.kind == TRACES);
    assert_eq!(told.count(), 1);
}

/// A message that says which commands are traced.
const TRACES: u8 = 14;
