use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use cluster::NodeId;
use cluster::session_plane::Hlc;
use proptest::prelude::*;

use super::*;
use crate::copy::tests::history::{client, dot, run};
use crate::copy::tests::{Sample, Value, entry_of};
use crate::{Birth, Change, ClientId, Dot, Entry, EntryKind, Fact, Run, Slot, VersionVector, WillTerms};
use world::{World, steps};

mod claims;
mod known_session;
mod node;
mod questions;
mod refusals;
mod releases;
mod ring_change;
mod world;

/// Time at which a test begins.
#[expect(
    clippy::disallowed_methods,
    reason = "an `Instant` cannot be made in another way; only differences matter"
)]
static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

type Action = ConnectingAction<Value>;
type Event = ConnectionEvent<Value>;

/// Limits that no test meets unless it sets one.
const LIMITS: ConnectionLimits = ConnectionLimits {
    connections_max: 1_000,
    claims_max: 100,
    claim_max: Duration::from_secs(30),
    releases_max: 2,
    entries_max: 1_000,
    claimants_max: 8,
};

fn birth_of(dot: Dot) -> Birth {
    Birth {
        dot,
        clock: Hlc::at(dot.number),
        is_clean: false,
    }
}

fn slot() -> Slot {
    Slot::of_client(client(0).as_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The world checks after each step that a client has one connection, and at each CONNACK that
    /// the session is the one that was acknowledged.
    #[test]
    fn a_client_has_one_connection_and_its_session(steps in steps()) {
        let mut world = World::new();
        for step in &steps {
            world.step(step);
        }
        world.come_to_rest();
        world.assert_at_rest();
        for node in 0..world::NODES {
            world.assert_accepts(node);
        }
    }
}
