//! Messages between processes.

use std::collections::BTreeSet;
use std::time::Duration;

use client::{Client, Message, Options, QoS, Subscription};

use super::member::{Member, Place};
use crate::harness::block_on;

/// Far longer than a node takes to come back on a machine that has much else to do.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// A client whose session outlives its connections, for an hour.
async fn connect(address: &str) -> Client {
    let connected = Client::connect(Options::new(address).timeout(PATIENCE)).await;
    connected.expect("connected")
}

async fn connect_to_each(members: &[Member]) -> Vec<Client> {
    let mut clients = Vec::new();
    for member in members {
        clients.push(connect(member.at("mqtt")).await);
    }
    clients
}

async fn subscribe(client: &Client, filter: &str, qos: QoS) -> Subscription {
    client.subscribe(filter, qos).await.expect("subscribed")
}

async fn publish(client: &Client, topic: &str, payload: String, qos: QoS) {
    let message = Message::to(topic, payload).expect("a topic").with_qos(qos);
    client.publish(message).await.expect("published");
}

async fn receive(subscription: &mut Subscription) -> String {
    let message = subscription.recv().await.expect("a message");
    String::from_utf8(message.payload.into()).expect("a text")
}

/// Waits until each of these nodes replicates with both others.
pub(super) fn wait_reached(members: &[Member]) {
    for member in members {
        while member.figure("statehold_replication_present_nodes") < 3.0 {
            // Each look is a request; the harness ends what takes too long.
        }
    }
}

pub(super) fn three_nodes(place: &Place) -> Vec<Member> {
    let members = place.start_all(3);
    wait_reached(&members);
    members
}

#[test]
fn what_is_published_at_any_node_reaches_subscribers_at_every_node_also_when_one_is_killed() {
    let place = Place::new();
    let mut members = three_nodes(&place);
    block_on(async {
        let clients = connect_to_each(&members).await;
        let mut subscriptions = Vec::new();
        for client in &clients {
            subscriptions.push(subscribe(client, "t/#", QoS::ExactlyOnce).await);
        }
        for qos in [QoS::AtMostOnce, QoS::AtLeastOnce, QoS::ExactlyOnce] {
            for (node, client) in clients.iter().enumerate() {
                publish(client, "t/1", format!("from {node}"), qos).await;
                for subscription in &mut subscriptions {
                    assert_eq!(receive(subscription).await, format!("from {node}"));
                }
            }
        }
        members.pop().expect("three").kill();
        // It is not waited for for ever.
        publish(&clients[0], "t/1", "after".to_owned(), QoS::AtLeastOnce).await;
        for subscription in &mut subscriptions[..2] {
            assert_eq!(receive(subscription).await, "after");
        }
    });
}

#[test]
fn who_has_a_suback_gets_what_is_published_at_another_node_from_then_on() {
    let place = Place::new();
    let members = three_nodes(&place);
    block_on(async {
        let clients = connect_to_each(&members).await;
        for round in 0..30 {
            let topic = format!("news/{round}");
            let mut subscription = subscribe(&clients[round % 3], &topic, QoS::AtMostOnce).await;
            publish(&clients[(round + 1) % 3], &topic, topic.clone(), QoS::AtMostOnce).await;
            assert_eq!(receive(&mut subscription).await, topic);
        }
    });
}

#[test]
fn those_who_share_a_subscription_at_three_nodes_get_each_message_once() {
    let place = Place::new();
    let members = three_nodes(&place);
    block_on(async {
        let clients = connect_to_each(&members).await;
        let mut sharers = Vec::new();
        for client in &clients {
            sharers.push(subscribe(client, "$share/workers/work", QoS::AtLeastOnce).await);
        }
        for number in 0..60 {
            publish(&clients[number % 3], "work", number.to_string(), QoS::AtLeastOnce).await;
        }
        let [one, two, three] = &mut sharers[..] else {
            panic!("three")
        };
        let mut counts = [0; 3];
        let mut received = BTreeSet::new();
        while received.len() < 60 {
            let (sharer, number) = tokio::select! {
                number = receive(one) => (0, number),
                number = receive(two) => (1, number),
                number = receive(three) => (2, number),
            };
            counts[sharer] += 1;
            assert!(received.insert(number.clone()), "{number} came twice");
        }
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    });
}

#[test]
fn nothing_acknowledged_is_lost_while_the_node_of_a_publisher_is_killed_and_comes_back() {
    const MESSAGES: usize = 300;
    let place = Place::new();
    let address = place.peer(8);
    let start = || Member::spawn(place.command_at(2, 3, [&address, "127.0.0.1:0"]));
    let mut members = vec![place.start(0, 3), place.start(1, 3), start()];
    members.iter_mut().for_each(Member::wait_ready);
    wait_reached(&members);
    block_on(async {
        let clients = connect_to_each(&members).await;
        let mut subscription = subscribe(&clients[0], "t", QoS::AtLeastOnce).await;
        let killed = members.pop().expect("three");
        let publish_all = async |client: &Client, name: &str| {
            for number in 0..MESSAGES {
                publish(client, "t", format!("{name} {number}"), QoS::AtLeastOnce).await;
            }
        };
        let receive_all = async {
            let (mut received, mut killed) = (BTreeSet::new(), Some(killed));
            while received.len() < 2 * MESSAGES {
                received.insert(receive(&mut subscription).await);
                if received.len() > MESSAGES / 2
                    && let Some(killed) = killed.take()
                {
                    killed.kill();
                    members.push(start());
                }
            }
        };
        tokio::join!(
            publish_all(&clients[1], "living"),
            publish_all(&clients[2], "killed"),
            receive_all
        );
    });
    members[2].wait_ready();
}
