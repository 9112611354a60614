//! Stepping: the plane is handed what happens to the node, and what follows is applied.

use std::collections::BTreeSet;

use cluster::NodeId;
use mqtt::ids::ConnectionId;
use mqtt::now::Now;
use session_plane::plane::{self, RunEnd};

use super::frames::Cause;
use super::limits::OPEN_EVENTS_MAX;
use super::{ALONE_EVERY, NodeAction, NodeSessions, Replication};
use crate::node::{Action, Node};
use crate::report::Report;

impl Replication {
    /// So much is not durable that publishers wait.
    pub(crate) fn is_behind(&self) -> bool {
        self.waits.open_len() >= OPEN_EVENTS_MAX / 2
    }

    /// Lets the plane's time pass.
    fn look(&mut self, now: Now) {
        if self.is_alone() {
            self.awake.look_alone(now.instant);
        } else {
            self.awake.look(now.instant);
        }
    }

    /// The run cannot go on. What it has is on its disk; nothing is retained until the node has started anew.
    pub(super) fn end(&mut self, why: &RunEnd, actions: &mut Vec<Action>) {
        self.is_ended = true;
        let why = why.to_string();
        actions.push(Action::Report(Report::ReplicationEnded { why }));
    }
}

impl Node {
    /// Calls the sessions, applies what they want done, and takes over what topics retain now.
    pub(crate) fn with_sessions<T>(
        &mut self,
        now: Now,
        cause: Cause,
        actions: &mut Vec<Action>,
        call: impl FnOnce(&mut NodeSessions, plane::Now, &mut Vec<NodeAction>) -> T,
    ) -> T {
        let replication = &mut self.replication;
        replication.look(now);
        let mut made = Vec::new();
        let at = replication.at(now);
        let result = call(&mut replication.sessions, at, &mut made);
        let was_ended = replication.is_ended;
        let released = replication.apply(now, made, actions);
        if replication.is_ended && !was_ended {
            self.stop(now, actions);
        }
        self.take_over_topics(now, cause);
        for waiter in released {
            self.release(now, waiter, actions);
        }
        result
    }

    /// The nodes of the cluster are the plane's, from the first look on.
    pub(crate) fn look_for_members_of_plane(&mut self, now: Now) {
        let Some(control) = &self.control else { return };
        let replication = &mut self.replication;
        let nodes = control.control().nodes().keys();
        if nodes.clone().eq(&replication.members) {
            return;
        }
        let mut members: BTreeSet<NodeId> = nodes.copied().collect();
        // One that was removed serves until it stops.
        members.insert(replication.run.node);
        if members == replication.members {
            return;
        }
        let at = replication.at(now);
        if replication.sessions.set_members(at, &members).is_ok() {
            replication.members = members;
            replication.set_channels();
            replication.is_due = true;
        }
    }

    /// Does what is due.
    pub(crate) fn replication_timeout(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.look_for_members_of_plane(now);
        let replication = &mut self.replication;
        replication.look(now);
        if !replication.is_ended && replication.deadline().is_some_and(|due| due <= now.instant) {
            self.tick_plane(now, actions);
        }
        self.remove_expired(now, actions);
    }

    /// The batch is over: does what follows from it, sends it, and hands it to the disk.
    pub(crate) fn flush_replication(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.look_for_members_of_plane(now);
        if self.replication.is_ended {
            return;
        }
        if self.replication.is_due {
            self.tick_plane(now, actions);
        }
        self.take_over_older(now, actions);
        self.take_over_older_sessions(now, actions);
        self.take_news(now, actions);
        self.replication.send_streams(actions);
        self.persist_plane(now, actions);
    }

    fn tick_plane(&mut self, now: Now, actions: &mut Vec<Action>) {
        self.replication.is_due = false;
        self.replication.alone_at = now.instant + ALONE_EVERY;
        self.with_sessions(now, Cause::Own, actions, |sessions, at, made| {
            sessions.tick(at, made);
        });
        self.replication.look_for_garbage(now.instant);
        self.replication.report_states(actions);
        self.go_on_with_recipients(now, actions);
    }

    /// The edge reaches these nodes now.
    pub(crate) fn greet_planes(&mut self, now: Now, reached: &BTreeSet<NodeId>, actions: &mut Vec<Action>) {
        self.look_for_members_of_plane(now);
        for node in reached {
            self.replication.greet(*node, actions);
        }
    }

    /// Stops reading from a publisher while too much is not durable.
    pub(crate) fn hold_for_plane(&mut self, id: ConnectionId) {
        if !self.replication.is_behind() {
            return;
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.awaits_nodes = true;
            self.replication.held.insert(id);
        }
    }

    /// Reads on from those publishers when there is room.
    pub(super) fn read_on_after_plane(&mut self, now: Now, actions: &mut Vec<Action>) {
        if self.replication.held.is_empty() || self.replication.is_behind() {
            return;
        }
        for id in std::mem::take(&mut self.replication.held) {
            self.end_awaiting(now, id, actions);
        }
    }
}
