//! Retained messages of processes.

use client::{Client, Message, Options, QoS};

use super::member::{Member, Place};
use super::messages::{PATIENCE, three_nodes};
use crate::harness::block_on;

async fn retain(member: &Member, topic: &str, payload: &str) {
    let client = Client::connect(Options::new(member.at("mqtt")).timeout(PATIENCE)).await;
    let message = Message::to(topic, payload.to_owned()).expect("a topic");
    let message = message.with_qos(QoS::AtLeastOnce).retained();
    client
        .expect("connected")
        .publish(message)
        .await
        .expect("published");
}

/// The first that a new client finds. Topics behind it tell that there is nothing before.
async fn first_found(member: &Member, filter: &str) -> String {
    let client = Client::connect(Options::new(member.at("mqtt")).timeout(PATIENCE)).await;
    let client = client.expect("connected");
    let mut found = client
        .subscribe(filter, QoS::AtLeastOnce)
        .await
        .expect("subscribed");
    let message = found.recv().await.expect("a message");
    assert!(message.retain);
    String::from_utf8(message.payload.into()).expect("a text")
}

#[test]
fn what_is_retained_at_one_node_is_found_at_all_also_when_that_node_is_killed() {
    let place = Place::new();
    let mut members = three_nodes(&place);
    block_on(async {
        retain(&members[2], "home/a", "gone").await;
        retain(&members[2], "home/b", "kept").await;
        for member in &members {
            assert_eq!(first_found(member, "home/#").await, "gone");
        }
        members.pop().expect("three").kill();
        retain(&members[0], "home/a", "").await;
        for member in &members {
            assert_eq!(first_found(member, "home/#").await, "kept");
        }
        let mut back = place.start(2, 3);
        back.wait_ready();
        // It takes nothing back, and gets what it has missed.
        members.push(back);
        for member in &members {
            assert_eq!(first_found(member, "home/#").await, "kept");
        }
        // All nodes are there: nobody has to remember the clear any more.
        for member in &members {
            while member.figure("statehold_retained_cleared") > 0.0 {}
        }
    });
}
