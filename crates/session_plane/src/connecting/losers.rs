//! Losers: connections of a client that are not its latest, as an owner finds them after a merge.
//!
//! Both sides of a split may have accepted a connection of one client. The owner that merges their
//! copies releases all but the latest; the client of the latest stays connected (rule
//! `loser-released`).
//!
//! The latest may have ended before the copies merged. The session's entry that its CONNECT wrote
//! names it and is still there, so all earlier connections lose to it (rule `loser-released`).

use super::cluster_state::ClusterState;
use super::message::{ConnectingMessage, Outgoing, Release};
use crate::{ConnectionOrder, Dot, EntryKind, SessionEntries, SlotEntries};

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
            release_loser(old, cluster, outgoing);
        }
    }
}

/// Asks the node of a losing connection to end it, if its run is present.
pub(crate) fn release_loser<V>(old: Dot, cluster: &impl ClusterState<V>, outgoing: &mut Vec<Outgoing<V>>) {
    let to = old.run.node;
    if cluster.present_run(to) == Some(old.run) {
        let message = ConnectingMessage::Release(Release { old, by: None });
        outgoing.push(Outgoing { to, message });
    }
}

/// Connections of a client but for the latest, which may have ended.
fn losers<V: Ord>(session: &SessionEntries<V>) -> impl Iterator<Item = Dot> {
    let sessions = session.of_kind(EntryKind::Session);
    let sessions = sessions.filter_map(|(dot, entry)| ConnectionOrder::named_by(dot, entry));
    let open = || {
        let connections = session.of_kind(EntryKind::Connection);
        connections.map(|(dot, entry)| (ConnectionOrder::of_connection(dot, entry.clock), dot))
    };
    let latest = open().map(|(order, _)| order).chain(sessions).max();
    open()
        .filter(move |(order, _)| Some(*order) < latest)
        .map(|(_, dot)| dot)
}
