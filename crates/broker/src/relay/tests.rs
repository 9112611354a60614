use std::sync::LazyLock;

use bytes::Bytes;

use super::messages::RelayMessage;
use super::*;
use crate::epoch;

const ALL: [u64; 3] = [1, 2, 3];

/// The moment from which tests count.
static START: LazyLock<Instant> = LazyLock::new(epoch);

fn nodes(nodes: impl IntoIterator<Item = u64>) -> BTreeSet<NodeId> {
    nodes.into_iter().map(NodeId).collect()
}

fn now(millis: u64) -> Now {
    Now {
        instant: *START + Duration::from_millis(millis),
        wall: 1_000_000 + millis,
        system_wall: 1_000_000 + millis,
    }
}

/// Node 1 of three, whose edge reaches these.
fn relay(reached: &[u64]) -> (Relay, Vec<Action>) {
    let (mut relay, mut actions) = (Relay::new(NodeId(1), 1), Vec::new());
    let reached = nodes(reached.iter().copied());
    relay.set_reached(now(0), reached, &nodes(ALL), &mut actions);
    (relay, actions)
}

/// A link state of another node that knows this one's.
fn state(relay: &Relay, reached: &[u64]) -> LinkState {
    LinkState {
        version: 7,
        heard: relay.version,
        reached: nodes(reached.iter().copied()),
    }
}

/// A node tells a link state; what follows.
fn hear(relay: &mut Relay, from: u64, state: LinkState) -> Vec<Action> {
    let mut actions = Vec::new();
    relay.hear(now(0), (NodeId(from), state), &nodes(ALL), &mut actions);
    actions
}

/// What was told to whom, and which ways were reported.
fn shown(actions: Vec<Action>) -> Vec<String> {
    let shown = actions.into_iter().map(|action| match action {
        Action::ToPeer { to, message } => match RelayMessage::decode(&message.into_bytes()) {
            Ok(RelayMessage::LinkState(state)) => {
                let reached: Vec<_> = state.reached.iter().map(|node| node.0).collect();
                format!("tell {}: {reached:?}, heard {}", to.0, state.heard)
            }
            other => panic!("{other:?}"),
        },
        Action::Report(Report::Relay { node, by: Some(by) }) => format!("to {} by {}", node.0, by.0),
        Action::Report(Report::Relay { node, by: None }) => format!("to {} by none", node.0),
        other => panic!("{other:?}"),
    });
    shown.collect()
}

#[test]
fn a_node_that_is_not_reached_is_reached_by_one_that_says_so() {
    let (mut relay, told) = relay(&[3]);
    assert_eq!(shown(told), ["tell 3: [3], heard 0"]);
    assert_eq!(relay.way_to(NodeId(2)), None);
    let known = state(&relay, &[1, 2]);
    assert_eq!(shown(hear(&mut relay, 3, known)), ["to 2 by 3"]);
    assert_eq!(relay.way_to(NodeId(2)), Some(NodeId(3)));

    let lost = state(&relay, &[1]);
    assert_eq!(shown(hear(&mut relay, 3, lost)), ["to 2 by none"]);
    assert_eq!(relay.way_to(NodeId(2)), None);
}

#[test]
fn a_link_that_is_there_again_is_used() {
    let (mut relay, _) = relay(&[3]);
    let known = state(&relay, &[1, 2]);
    hear(&mut relay, 3, known);
    let mut actions = Vec::new();
    relay.set_reached(now(1), nodes([2, 3]), &nodes(ALL), &mut actions);
    let expected = [
        "tell 2: [2, 3], heard 0",
        "tell 3: [2, 3], heard 7",
        "to 2 by none",
    ];
    assert_eq!(shown(actions), expected);
}

#[test]
fn a_way_is_kept_while_it_leads_to_the_node() {
    let members = nodes(1..=4);
    let (mut relay, mut actions) = (Relay::new(NodeId(1), 1), Vec::new());
    relay.set_reached(now(0), nodes([3, 4]), &members, &mut actions);
    for (from, way) in [(4, 4), (3, 4)] {
        let told = state(&relay, &[1, 2]);
        relay.hear(now(0), (NodeId(from), told), &members, &mut actions);
        assert_eq!(relay.way_to(NodeId(2)), Some(NodeId(way)));
    }
    let lost = state(&relay, &[1]);
    relay.hear(now(0), (NodeId(4), lost), &members, &mut actions);
    assert_eq!(relay.way_to(NodeId(2)), Some(NodeId(3)));
}

#[test]
fn a_node_that_does_not_know_the_present_link_state_is_told_it() {
    let (mut relay, _) = relay(&[2, 3]);
    let behind = LinkState {
        heard: 1,
        ..state(&relay, &[1, 3])
    };
    assert_eq!(shown(hear(&mut relay, 2, behind)), ["tell 2: [2, 3], heard 7"]);
    let known = state(&relay, &[1, 3]);
    assert_eq!(shown(hear(&mut relay, 2, known)), [""; 0]);
}

#[test]
fn link_states_are_told_again_while_a_link_is_broken_and_never_where_none_is() {
    let (mut relay, _) = relay(&[2, 3]);
    let due = now(500);
    assert_eq!(
        relay.deadline(),
        Some(due.instant),
        "others may have broken links"
    );
    for (from, reached) in [(2, [1, 3]), (3, [1, 2])] {
        let whole = state(&relay, &reached);
        hear(&mut relay, from, whole);
    }
    assert_eq!(relay.deadline(), None);

    let broken = state(&relay, &[1]);
    hear(&mut relay, 3, broken);
    assert_eq!(relay.deadline(), Some(due.instant));
    let mut actions = Vec::new();
    relay.timeout(now(499), &nodes(ALL), &mut actions);
    assert_eq!(shown(std::mem::take(&mut actions)), [""; 0]);
    relay.timeout(due, &nodes(ALL), &mut actions);
    let expected = ["tell 2: [2, 3], heard 7", "tell 3: [2, 3], heard 7"];
    assert_eq!(shown(actions), expected);
    assert_eq!(relay.deadline(), Some(now(1_000).instant));
}

#[test]
fn a_node_that_is_removed_is_no_relay_and_needs_none() {
    let (mut relay, _) = relay(&[3]);
    let known = state(&relay, &[1, 2, 9]);
    hear(&mut relay, 3, known);
    assert_eq!(relay.told[&NodeId(3)].reached, nodes([1, 2]), "of members only");
    let mut actions = Vec::new();
    relay.timeout(now(500), &nodes([1, 2]), &mut actions);
    assert_eq!(shown(actions), ["to 2 by none"]);
    assert!(relay.told.is_empty());
}

/// What is passed on of messages that came from node 2, to a relay that reaches nodes 2 and 3 of 1 to 4.
#[test]
fn a_message_is_passed_on_once_from_its_origin_to_a_member_that_is_reached() {
    let members = nodes(1..=4);
    let (mut relay, mut actions) = (Relay::new(NodeId(1), 1), Vec::new());
    relay.set_reached(now(0), nodes([2, 3, 9]), &members, &mut actions);
    let mut passes = |origin, target| {
        let relayed = Relayed {
            origin: NodeId(origin),
            target: NodeId(target),
            message: Bytes::new(),
        };
        relay.passes_on(NodeId(2), &relayed, &members)
    };
    assert!(passes(2, 3));
    for (origin, target) in [(3, 2), (4, 3), (2, 4), (2, 9), (2, 2), (1, 3)] {
        assert!(!passes(origin, target), "{origin} {target}");
    }
    let figures = RelayFigures {
        passed_on: 1,
        dropped: 6,
    };
    assert_eq!(relay.figures(), figures);
}
