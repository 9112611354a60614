//! Claims: from the connection's entry to CONNACK.

use std::collections::BTreeSet;

use cluster::NodeId;

use super::claim::{Claim, Next, Start};
use super::{Claimant, Connections, Phase};
use crate::connecting::action::{ConnectingAction, ConnectionId, RefuseReason, Write};
use crate::connecting::cluster_state::ClusterState;
use crate::connecting::error::ConnectingError;
use crate::connecting::known_session::KnownSession;
use crate::connecting::message::{
    AskRefusal, AskSession, ConnectingMessage, Outgoing, QuestionRefused, Release, Released, SessionAnswer,
};
use crate::connecting::session_start::Starting;
use crate::queue_limits::QueueValue;
use crate::{Birth, ClientId, Dot, Slot, VersionVector};

/// Claim that can ask.
struct OpenClaim<'a, V> {
    client: &'a ClientId,
    own: Claimant,
    claim: &'a mut Claim<V>,
}

impl<V: Ord + QueueValue + Clone> Connections<V> {
    /// The connection's entry is made: asks the owners.
    pub(super) fn open(
        &mut self,
        id: ConnectionId,
        opened: Claimant,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.opened = Some(opened);
        self.numbers.insert(opened.dot.number, id);
        if let Phase::Closing(closing) = &connection.phase {
            if closing.is_closed {
                self.close(id, actions);
            }
        } else {
            self.ask(id, cluster, actions);
        }
    }

    /// Asks the present owners for the session, in a new round.
    pub(super) fn ask(
        &mut self,
        id: ConnectionId,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(OpenClaim { client, own, claim }) = self.open_claim(id) else {
            return;
        };
        let mut owners = cluster.owners(Slot::of_client(client.as_bytes()));
        owners.retain(|owner| cluster.present_run(*owner).is_some());
        let ask = AskSession {
            client: client.clone(),
            connection: own.dot,
            round: claim.ask(&owners),
            known: cluster.known(),
        };
        actions.extend(owners.into_iter().map(|to| {
            let message = ConnectingMessage::Ask(ask.clone());
            ConnectingAction::Send(Outgoing { to, message })
        }));
    }

    /// Claim of a connection whose entry is made.
    fn open_claim(&mut self, id: ConnectionId) -> Option<OpenClaim<'_, V>> {
        let connection = self.connections.get_mut(&id)?;
        let (own, Phase::Claiming(claim)) = (connection.opened?, &mut connection.phase) else {
            return None;
        };
        let client = &connection.client;
        Some(OpenClaim { client, own, claim })
    }

    /// Merges what an owner has told. An answer of an earlier round is void.
    pub(super) fn take_answer(
        &mut self,
        from: NodeId,
        answer: SessionAnswer<V>,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(id) = self.find(answer.connection) else {
            return;
        };
        let entries_max = self.limits.entries_max;
        let Some(claim) = self.claim_mut(id) else { return };
        if !claim.awaits_answer(from, answer.round) {
            return;
        }
        if claim.take_answer(from, answer.session).is_err() {
            return self.refuse(id, RefuseReason::TooScattered, actions);
        }
        let count = claim.known.len();
        if count > entries_max {
            return self.refuse(id, RefuseReason::TooManyEntries { count, entries_max }, actions);
        }
        self.proceed(id, cluster, actions);
    }

    /// An owner does not answer: the CONNECT is not decided.
    pub(super) fn take_refusal(
        &mut self,
        owner: NodeId,
        refused: QuestionRefused,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(id) = self.find(refused.connection) else {
            return;
        };
        let claim = self.claim(id);
        if claim.is_some_and(|claim| claim.awaits_answer(owner, refused.round)) {
            let reason = match refused.reason {
                AskRefusal::Full => RefuseReason::OwnerFull { owner },
                AskRefusal::NotReady => RefuseReason::OwnerNotReady { owner },
            };
            self.refuse(id, reason, actions);
        }
    }

    /// Takes the steps of a claim that are due.
    pub(super) fn proceed(
        &mut self,
        id: ConnectionId,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let next = |of: &Self| of.claim(id).map_or(Next::Wait, |claim| claim.next());
        if next(self) == Next::Release {
            self.release_older(id, cluster, actions);
        }
        match next(self) {
            Next::ReadAgain => self.ask(id, cluster, actions),
            Next::Start => self.start_session(id, cluster, actions),
            Next::Wait | Next::Release => {}
        }
    }

    /// All owners have answered: asks the nodes of older connections to end them, as far as their
    /// runs are present. The session is read again then, and the next ones follow.
    fn release_older(
        &mut self,
        id: ConnectionId,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let releases_max = self.limits.releases_max;
        let Some(OpenClaim { own, claim, .. }) = self.open_claim(id) else {
            return;
        };
        let is_present = |old: &Dot| cluster.present_run(old.run.node) == Some(old.run);
        let mut older = claim.unreleased(own.dot);
        older.retain(is_present);
        older.truncate(releases_max);
        actions.extend(older.iter().map(|old| ask_release(*old, own)));
        claim.release(older.into_iter().collect());
    }

    /// The node of an older connection has answered.
    pub(super) fn take_released(
        &mut self,
        from: NodeId,
        released: Released,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) -> Result<(), ConnectingError> {
        let Released { old, by, is_agreed } = released;
        if old.run.node != from {
            return Err(ConnectingError::OfAnotherNode { peer: from, dot: old });
        }
        let Some(id) = self.find(by) else { return Ok(()) };
        let Some(claim) = self.claim_mut(id) else {
            return Ok(());
        };
        if is_agreed {
            claim.take_released(by, old);
            self.proceed(id, cluster, actions);
        } else if claim.awaits_release(old) {
            self.refuse(id, RefuseReason::TakenOver, actions);
        }
        Ok(())
    }

    /// Writes the session's entry: anew with the same birth, or of a new session.
    fn start_session(
        &mut self,
        id: ConnectionId,
        cluster: &impl ClusterState<V>,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(OpenClaim { client, own, claim }) = self.open_claim(id) else {
            return;
        };
        let mut seen = claim.known.clone();
        let mut decided = seen.covered().clone();
        if let Some(routes) = cluster.routes(client) {
            seen.join_routes(&routes);
            decided = decided.united(routes.covered());
        }
        let found = claim.begin_start(&seen);
        let ended = ended_connections(&seen, own.dot, cluster, |old| claim.has_released(old));
        let mut writes: Vec<Write> = ended
            .iter()
            .map(|old| Write::OlderEnded(seen.connection_end(*old, claim.has_released(*old))))
            .collect();
        claim.known.remove(&ended);
        if claim.start() == Start::NotWritten {
            let starting = Starting {
                connection: own.dot,
                clock: own.clock,
                is_clean: claim.is_clean(),
            };
            claim.set_start(Start::Requested);
            writes.extend(session_writes(&mut claim.known, &seen, &decided, starting, found));
        }
        actions.extend(writes_of(id, client, writes));
        if let Start::Written(entry) = claim.start() {
            actions.push(await_session(id, entry, claim.round()));
        }
    }

    /// The session's entry is made, and waits to be durable.
    pub(super) fn start_written(
        &mut self,
        id: ConnectionId,
        dot: Dot,
        actions: &mut Vec<ConnectingAction<V>>,
    ) {
        let Some(claim) = self.claim_mut(id) else { return };
        if claim.start() != Start::Requested {
            return;
        }
        claim.set_start(Start::Written(dot));
        if claim.is_starting() {
            actions.push(await_session(id, dot, claim.round()));
        }
    }

    /// The session's entry is durable at the owners of the ring by which they were asked: CONNACK.
    pub(super) fn accept(&mut self, id: ConnectionId, round: u64, actions: &mut Vec<ConnectingAction<V>>) {
        let is_written = |start| matches!(start, Start::Written(_));
        let claim = self.claim(id).filter(|claim| {
            let is_current = claim.is_starting() && claim.round() == round;
            is_current && is_written(claim.start())
        });
        if claim.is_none() {
            return;
        }
        if let Some(Phase::Claiming(claim)) = self.set_phase(id, Phase::Live) {
            actions.push(ConnectingAction::Accept {
                connection: id,
                is_present: claim.is_present(),
                session: Box::new(claim.known),
            });
        }
    }
}

/// Older connections that were released, or whose run has ended (rule `keep-open-connections`).
///
/// The run of a node that was given up may have not, and neither has one that this node has yet to
/// meet.
fn ended_connections<V: Ord + QueueValue + Clone>(
    seen: &KnownSession<V>,
    own: Dot,
    cluster: &impl ClusterState<V>,
    has_released: impl Fn(Dot) -> bool,
) -> BTreeSet<Dot> {
    let has_later_run = |old: Dot| {
        let present = cluster.present_run(old.run.node);
        present.is_some_and(|present| present > old.run)
    };
    let older = seen.older(own);
    older
        .filter(|old| has_released(*old) || has_later_run(*old))
        .collect()
}

/// Changes that start the session. What they remove is removed from `known`.
fn session_writes<V: Ord + QueueValue + Clone>(
    known: &mut KnownSession<V>,
    seen: &KnownSession<V>,
    decided: &VersionVector,
    starting: Starting,
    found: Option<Birth>,
) -> Vec<Write> {
    let resumed = found.filter(|_| !starting.is_clean);
    let mut writes = Vec::new();
    if found.is_some() && starting.is_clean {
        let end = seen.session_end(decided);
        known.remove(&end.removes);
        writes.push(Write::SessionEnd(end));
    }
    let start = seen.session_start(starting, resumed);
    known.remove(&start.removes);
    writes.push(Write::SessionStart(start));
    writes
}

fn writes_of<V>(
    connection: ConnectionId,
    client: &ClientId,
    writes: Vec<Write>,
) -> impl Iterator<Item = ConnectingAction<V>> {
    writes.into_iter().map(move |write| ConnectingAction::Write {
        connection,
        client: client.clone(),
        write,
    })
}

fn await_session<V>(connection: ConnectionId, entry: Dot, round: u64) -> ConnectingAction<V> {
    ConnectingAction::AwaitSession {
        connection,
        entry,
        round,
    }
}

/// Request of the claimant `by` to end the connection `old`.
pub(super) fn ask_release<V>(old: Dot, by: Claimant) -> ConnectingAction<V> {
    let message = ConnectingMessage::Release(Release { old, by: Some(by) });
    let to = old.run.node;
    ConnectingAction::Send(Outgoing { to, message })
}
