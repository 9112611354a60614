//! Ends of connections of this node.

use super::node::*;
use super::*;

const CONNECTION: ConnectionId = ConnectionId(1);

fn own_will() -> OwnWill {
    OwnWill {
        client: client_id(0),
        connection: dot(1, 1),
        will: dot(1, 3),
        birth: open_will().birth,
    }
}

fn with_will() -> Node {
    let mut node = Node::new(1);
    let (connection, own) = (CONNECTION, own_will());
    assert_eq!(node.step(WillsEvent::Written { connection, own }), []);
    node
}

fn ended(end: WillEnd) -> WillsEvent {
    let connection = CONNECTION;
    WillsEvent::Ended { connection, end }
}

fn released(removes: Option<Dot>) -> WillsAction {
    let connection = CONNECTION;
    WillsAction::Release { connection, removes }
}

#[test]
fn mqtt_3_1_2_8_a_connection_is_released_when_its_will_is_at_the_owners() {
    let mut node = with_will();
    let leave = WillsAction::Leave {
        connection: CONNECTION,
        client: client_id(0),
        dot: dot(1, 1),
        birth: open_will().birth,
        delay: DELAY,
    };
    let left = || ended(WillEnd::Left { delay: DELAY });
    assert_eq!(node.step(left()), [leave]);
    assert_eq!(node.step(left()), [], "it has ended once");
    assert_eq!(node.wills.leaving(), 1);
    let written = WillsEvent::EndWritten {
        connection: CONNECTION,
        dot: dot(1, 4),
    };
    assert_eq!(node.step(written), []);
    assert_eq!(node.step(WillsEvent::Durable(dot(1, 3))), [], "another event");
    assert_eq!(node.step(WillsEvent::Durable(dot(1, 4))), [released(None)]);
    assert_eq!(node.step(WillsEvent::Durable(dot(1, 4))), []);
    assert_eq!(node.wills.leaving(), 0);
}

#[test]
fn mqtt_3_1_2_10_disconnect_takes_the_will_away() {
    let mut node = with_will();
    assert_eq!(node.step(ended(WillEnd::Dropped)), [released(Some(dot(1, 3)))]);
    assert_eq!(node.wills.leaving(), 0);
}

#[test]
fn a_connection_without_a_will_is_released_at_once() {
    let delay = Duration::ZERO;
    for end in [WillEnd::Dropped, WillEnd::Left { delay }] {
        assert_eq!(Node::new(1).step(ended(end)), [released(None)]);
    }
}
