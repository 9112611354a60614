use std::sync::LazyLock;

use cluster::Incarnation;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use world::World;

mod agreement;
mod handshakes;
mod hearsay;
mod naive;
mod network;
mod refusals;
mod states;
mod world;

#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Timeouts of the tests, in milliseconds.
const SILENCE_MAX: u64 = 1_000;
const GONE: u64 = 300;
const FOUND_AFTER: u64 = 2_500;
const OFFER_EVERY: u64 = 250;

fn at(millis: u64) -> Instant {
    *ORIGIN + Duration::from_millis(millis)
}

fn node(id: u64) -> NodeId {
    NodeId(id)
}

fn run(id: u64, start: u32) -> Run {
    Run {
        node: node(id),
        incarnation: Incarnation(start),
    }
}

/// Run `start` of the node `id`, in a cluster of the nodes 1 to `count`.
fn config(id: u64, start: u32, count: u64) -> MembershipConfig {
    MembershipConfig {
        run: run(id, start),
        members: (1..=count).map(node).collect(),
        silence_max: Duration::from_millis(SILENCE_MAX),
        gone_after: Duration::from_millis(GONE),
        found_after: Duration::from_millis(FOUND_AFTER),
        offer_every: Duration::from_millis(OFFER_EVERY),
    }
}

/// Membership of the node `id` among the nodes 1 to 4, which has sent its first marker.
fn membership(id: u64) -> Membership {
    Membership::new(at(0), &config(id, 1, 4)).expect("a cluster")
}

fn introduction(id: u64, incarnation: u32, state: NodeState) -> Introduction {
    Introduction {
        run: run(id, 1),
        state,
        incarnation: SwimIncarnation(incarnation),
        side: Side {
            nodes: 1,
            lowest: node(id),
        },
    }
}

/// Lets the node 1 meet a higher node by its answer, and sends the marker.
fn meet(membership: &mut Membership, now: u64, peer: &Introduction) {
    let id = peer.run.node;
    let mut actions = Vec::new();
    let offer = Handshake::Offer(*peer);
    assert_eq!(
        membership.receive_handshake(at(now), id, &offer, &mut actions),
        Ok(())
    );
    let offer = last_sent(&actions).introduction().stay();
    let answer = Handshake::Answer(Answer {
        introduction: *peer,
        offer,
    });
    assert_eq!(
        membership.receive_handshake(at(now), id, &answer, &mut actions),
        Ok(())
    );
    assert!(membership.is_present(id));
    mark(membership);
}

fn last_sent(actions: &[Action]) -> &Handshake {
    let mut sent = actions.iter().rev().filter_map(|action| match action {
        Action::SendHandshake { message, .. } => Some(message),
        _ => None,
    });
    sent.next().expect("a message was sent")
}

fn mark(membership: &mut Membership) {
    membership.record_marker(membership.view());
}

/// View of RUNNING nodes, as (id, incarnation).
fn view(nodes: &[(u64, u32)]) -> View {
    let present = nodes.iter().map(|(id, incarnation)| PresentNode {
        run: run(*id, 1),
        incarnation: SwimIncarnation(*incarnation),
        state: NodeState::Running,
    });
    View::new(present.collect()).expect("a view")
}
