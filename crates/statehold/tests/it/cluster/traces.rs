//! Requests and messages that go through several nodes, as one trace.

use std::collections::BTreeSet;

use client::protocol::packet::{Packet, QoS};

use super::member::{Member, Place};
use super::messages::three_nodes;
use crate::raw::{Raw, connect, packet_id};
use crate::traces::{CLIENT_SPAN, Collector, publish_with, set, traceparent};

/// Three nodes that send their spans to a collector.
fn traced(collector: &Collector, place: &mut Place) -> Vec<Member> {
    let file = place.path("settings.toml");
    let settings = collector.settings("sample_ratio = 0\n");
    std::fs::write(&file, settings).expect("written");
    place.options.extend(["--config".to_owned(), file]);
    three_nodes(place)
}

#[test]
fn a_request_at_each_node_is_one_trace_with_its_leaders_part() {
    let (mut collector, mut place) = (Collector::start(), Place::new());
    let members = traced(&collector, &mut place);
    members.iter().for_each(|member| member.set("ready", "yes"));
    let (mut leaders, mut forwarded) = (BTreeSet::new(), 0);
    for (number, member) in (0_u8..).zip(&members) {
        let (context, trace) = traceparent(number, "01");
        let mut client = Raw::connect(member.at("mqtt"), connect("pump"));
        set(&mut client, 1, "pump/7", &context);
        let request = collector.span(&trace, "SET");
        assert_eq!(request.parent.as_deref(), Some(CLIENT_SPAN));
        let decided = collector.span(&trace, "replicate");
        leaders.insert(decided.node.clone());
        if decided.node == request.node {
            assert_eq!(decided.parent, Some(request.id));
            continue;
        }
        forwarded += 1;
        let lead = collector.span(&trace, "lead");
        let forward = collector.span(&trace, "forward");
        assert_eq!(forward.node, request.node);
        assert_eq!(lead.node, decided.node);
        assert_eq!(forward.parent, Some(request.id));
        assert_eq!(lead.parent, Some(forward.id));
        assert_eq!(decided.parent, Some(lead.id));
        assert_eq!(forward.attributes["statehold.to_node"], lead.node);
        assert_eq!(lead.attributes["statehold.from_node"], request.node);
    }
    // The leader of the key's group may change meanwhile, which it hardly does.
    assert!(forwarded >= 1, "{leaders:?}");
}

#[test]
fn a_message_is_traced_at_the_node_that_takes_it_and_at_those_that_get_it() {
    let (mut collector, mut place) = (Collector::start(), Place::new());
    let members = traced(&collector, &mut place);
    let mut subscriber = Raw::connect(members[1].at("mqtt"), connect("display"));
    subscriber.subscribe("plant/#", QoS::AtLeastOnce);
    let mut publisher = Raw::connect(members[0].at("mqtt"), connect("pump"));
    let (context, trace) = traceparent(1, "01");
    let properties = [("traceparent", context.as_str()), ("tracestate", "vendor=1")];
    publisher.send(&publish_with("plant/1", packet_id(7), &properties));
    assert!(matches!(publisher.receive(), Packet::PubAck(ack) if !ack.reason.is_error()));

    let taken = collector.span(&trace, "publish");
    let spread = collector.span(&trace, "spread");
    let got = collector.span(&trace, "receive");
    assert_eq!(taken.parent.as_deref(), Some(CLIENT_SPAN));
    assert_eq!(spread.parent.as_ref(), Some(&taken.id));
    assert_eq!(got.parent.as_deref(), Some(CLIENT_SPAN));
    assert_ne!(got.node, taken.node);
    assert_eq!(got.attributes["statehold.from_node"], taken.node);
    assert_eq!(got.attributes["messaging.destination.name"], "plant/1");
    // What the client sent goes on as it came.
    match subscriber.receive() {
        Packet::Publish(publish) => {
            let found: Vec<_> = publish.properties.user_properties.iter().collect();
            assert_eq!(found, properties);
        }
        other => panic!("no message: {other:?}"),
    }
}
