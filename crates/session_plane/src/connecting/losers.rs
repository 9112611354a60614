//! Losers: connections of a client that are not its latest, as an owner finds them after a merge.
//!
//! Both sides of a split may have accepted a connection of one client. The owner that merges their
//! copies releases all but the latest by (clock, dot); the client of the latest stays connected
//! (rule `loser-released`).

use super::cluster_state::ClusterState;
use super::message::{Claimant, ConnectingMessage, Outgoing, Release};
use crate::{Dot, EntryKind, SessionEntries, SlotEntries};

/// Asks the nodes of losing connections to end them, as far as their runs are present.
///
/// The node calls it when a copy that it owns has merged: a pass over the entries of the slot.
pub fn release_losers<V: Ord>(
    entries: &SlotEntries<V>,
    cluster: &impl ClusterState<V>,
    outgoing: &mut Vec<Outgoing<V>>,
) {
    for (_, session) in entries.sessions() {
        for old in losers(session) {
            let node = old.run.node;
            if cluster.present_run(node) == Some(old.run) {
                let message = ConnectingMessage::Release(Release { old, by: None });
                outgoing.push(Outgoing { to: node, message });
            }
        }
    }
}

/// Connections of a client but for the latest.
fn losers<V: Ord>(session: &SessionEntries<V>) -> Vec<Dot> {
    let connections = session.of_kind(EntryKind::Connection);
    let claimants = connections.map(|(dot, entry)| Claimant {
        clock: entry.clock,
        dot,
    });
    let mut claimants: Vec<Claimant> = claimants.collect();
    claimants.sort_unstable();
    claimants.pop();
    claimants.into_iter().map(|loser| loser.dot).collect()
}
